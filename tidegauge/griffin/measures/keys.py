"""Key frequencies: uniqueness, distinctness and duplication.

A key is the values of a rule's expressions in a row. Uniqueness counts keys with exactly one row,
distinctness keys that did not occur before, duplication rows per key. The ``lower_`` functions write
them as SQL steps; the analyzers read one state, the number of rows per key. Null is a value like any
other; rows whose key is entirely null, which Deequ leaves out, are one more key in the state.
Duplication in SQL gives such a row no key.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from tidegauge.analyzers.core.analyzer import Frequencies, Request, analyzer
from tidegauge.analyzers.core.metric import Scale
from tidegauge.analyzers.core.partitions import TMST
from tidegauge.analyzers.core.registry import canonical_json
from tidegauge.analyzers.core.schema import NESTED, Schema
from tidegauge.analyzers.core.sql import quote
from tidegauge.analyzers.core.state import State
from tidegauge.analyzers.measures.frequencies import FrequenciesAndNumRows
from tidegauge.griffin.bind.expressions import Scope
from tidegauge.griffin.config import RuleConfig
from tidegauge.griffin.dsl.nodes import Aliased, ColumnNode, Distinct, Expression, Listing
from tidegauge.griffin.measures.base import GriffinMeasure, Report, groupable, items_of, row_sql
from tidegauge.griffin.measures.plan import LoweringContext, MetricTable, RulePlan, Step, fraction
from tidegauge.griffin.measures.sql import SUM_LEVEL, expression_sql, operand, renamed

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Counts = npt.NDArray[np.int64]


@dataclass(frozen=True)
class KeyColumns:
    """The columns of a key, and the group-by columns.

    Attributes
    ----------
    work : LoweringContext
        The rule's options and scope.
    items : sequence of Aliased
        Bound; all steps refer to them by alias.
    """

    work: LoweringContext
    items: Sequence[Aliased]

    @property
    def names(self) -> list[str]:
        """The aliases, quoted."""
        return [quote(item.alias) for item in self.items]

    @property
    def all(self) -> str:
        """Group-by columns and key columns, for SELECT and GROUP BY."""
        return ", ".join([*map(quote, self.work.group_by), *self.names])

    def rows(self) -> str:
        """Return a query for the key of each source row."""
        cells = ", ".join(map(expression_sql, self.items))
        return f"SELECT {self.work.group_columns}{cells} FROM {self.work.table}"

    def counted(self, rows: str, count: str) -> str:
        """Return a query for the distinct keys of some rows with their counts."""
        return f"SELECT {self.all}, count(1) AS {count} FROM ({rows}) GROUP BY {self.all}"

    def same(self, left: str, right: str, group_by: Sequence[str] = ()) -> str:
        """Return a null-safe equality condition on the key columns."""
        names = dict.fromkeys([*map(quote, group_by), *self.names])
        return " AND ".join(f"{left}.{name} <=> {right}.{name}" for name in names)


def total_count(work: LoweringContext, total: str) -> Step:
    """Return the step that counts all rows."""
    query = (
        f"SELECT {work.group_columns}count(1) AS {total} FROM {work.table}{work.group_by_clause()}"
    )
    return Step(work.step("total_count"), query, ("__totalCount", "__totalMetric"))


def lower_uniqueness(rule: Listing, work: LoweringContext) -> RulePlan:
    """Return the steps ``total_count``, ``dup_count`` and ``unique_metric``, and any duplicates.

    If ``duplication.array`` is set, ``dup_records`` has one row per key with several rows, and
    ``dup_metric`` the number of keys by their number of rows beyond the first. If the details name
    a target, its rows are counted for the keys of the source; it must have the columns that the
    rule names.
    """
    total, unique = work.output_column("total"), work.output_column("unique")
    dup, num = work.output_column("dup"), work.output_column("num")
    keys = KeyColumns(work, work.items(rule.items, (dup, "`__total`")))
    counted, duplicates = work.step("dup_count"), work.step("dup_records")
    of_keys = keys.counted(keys.rows(), "`__total`")
    target = work.option("target")
    if target is None or work.scope.frame(str(target)) == work.source:
        groups = f"SELECT {keys.all}, `__total` - 1 AS {dup}, `__total` FROM ({of_keys})"
    else:
        groups = _lookup_query(keys, of_keys, str(target), dup)
    metric = Step(
        work.step("unique_metric"),
        f"SELECT {work.group_columns}`__all` AS {total}, `__one` AS {unique}, "
        f"{fraction('`__one`', '`__all`')} AS {work.output_column('uniqueFraction')} FROM (SELECT "
        f"{work.group_columns}coalesce(sum(`__total`), 0L) AS `__all`, count_if({dup} = 0) AS `__one` "
        f"FROM {quote(counted)}{work.group_by_clause()})",
        ("__uniqueMetric",),
    )
    steps = [total_count(work, total), Step(counted, groups, ("__group",)), metric]
    tables = [MetricTable(metric.name)]
    array = work.text("duplication.array")
    if array:
        steps += duplicate_steps(keys, counted, duplicates, [dup], num)
        tables.append(duplicates_array(work, steps[-1].name, array))
    records = (duplicates,) if array else ()
    return RulePlan(tuple(steps), tuple(tables), records, work.source, work.group_by)


def duplicate_steps(
    keys: KeyColumns, counted: str, duplicates: str, count_columns: list[str], num: str
) -> list[Step]:
    """Return the steps for keys with several rows, and for the number of keys by row count.

    ``count_columns`` are the counts in the records; the number of keys is by the first.
    """
    context, dup = keys.work, count_columns[0]
    records = f"SELECT {keys.all}, {', '.join(count_columns)} FROM {quote(counted)} WHERE {dup} > 0"
    metric = (
        f"SELECT {context.group_columns}{dup}, count(1) AS {num} FROM {quote(duplicates)}"
        f"{context.group_by_clause(dup)} ORDER BY {dup}"
    )
    return [
        Step(duplicates, records, ("__dupRecords",)),
        Step(context.step("dup_metric"), metric, ("__dupMetric",)),
    ]


def duplicates_array(
    work: LoweringContext, step: str, name: str, grouping: Sequence[str] = ()
) -> MetricTable:
    """Return the array of duplicates, identified by the rows beyond the first of a key."""
    labels = (*grouping, str(work.option("dup", "dup")))
    return MetricTable(step, "array", name, labels, part=True)


def _lookup_query(keys: KeyColumns, of_keys: str, target: str, dup: str) -> str:
    """Return a query of the source's keys with the number of target rows for each."""
    context = keys.work
    columns = context.scope.schema(target).names
    frame = str(context.scope.frame(target))
    group_by = [name for name in context.group_by if name in columns]
    items = [
        Aliased(renamed(item.expression, {context.source: frame}), item.alias)
        for item in keys.items
    ]
    target_keys = KeyColumns(replace(context, group_by=tuple(group_by)), items)
    cells = ", ".join(map(expression_sql, items))
    rows = f"SELECT {target_keys.work.group_columns}{cells} FROM {quote(frame)}"
    names = [*map(quote, context.group_by), *keys.names]
    return (
        f"SELECT {', '.join(f'`__new`.{name}' for name in names)}, "
        f"greatest(coalesce(`__old`.`__found`, 0L) - 1, 0L) AS {dup}, `__new`.`__total` "
        f"FROM ({of_keys}) AS `__new` LEFT JOIN ({target_keys.counted(rows, '`__found`')}) AS `__old` "
        f"ON {keys.same('`__new`', '`__old`', group_by)}"
    )


def lower_distinctness(rule: Distinct, context: LoweringContext) -> RulePlan:
    """Return the steps ``total_count``, ``dup_count`` and ``distinct_metric``, and any duplicates.

    If there are earlier rows, a key that occurs in them is not distinct: all its rows are
    duplicates, and ``accu_dup`` of the records also counts the earlier ones. If the details set
    ``duplication.array``, ``dup_records`` holds the duplicates and ``dup_metric`` the number of
    keys by ``dup``; items in brackets group them, with the extra steps ``dist_joined`` and
    ``row_numbered``.
    """
    dup, accu, num = (
        context.output_column("dup"),
        context.output_column("accu_dup"),
        context.output_column("num"),
    )
    total, distinct = context.output_column("total"), context.output_column("distinct")
    items = context.items(
        [i.expression for i in rule.items], (dup, accu, num, "`dist`", "`row_num`")
    )
    pairs = list(zip(items, rule.items, strict=True))
    keys = KeyColumns(context, [item for item, old in pairs if not old.grouping])
    grouping = [item for item, old in pairs if old.grouping]
    if not keys.items:
        raise context.error("a distinctness rule needs a column outside of brackets")
    older = _earlier_frame(context)
    counted, duplicates = context.step("dup_count"), context.step("dup_records")
    metric = Step(
        context.step("distinct_metric"),
        f"SELECT {context.group_columns}coalesce(sum(`__total`), 0L) AS {total}, "
        f"count_if(`dist`) AS {distinct} FROM {quote(counted)}{context.group_by_clause()}",
        ("__distMetric",),
    )
    steps = [
        total_count(context, total),
        Step(counted, _groups(keys, older, dup, accu), ("__selfGroup", "__group")),
        metric,
    ]
    tables = [MetricTable(metric.name)]
    array = context.text("duplication.array")
    if array:
        if grouping:
            steps += _sorted_steps(keys, grouping, counted, duplicates, dup, num)
        else:
            count_columns = [dup, accu] if older else [dup]
            steps += duplicate_steps(keys, counted, duplicates, count_columns, num)
        labels = [item.alias for item in grouping]
        tables.append(duplicates_array(context, steps[-1].name, array, labels))
    records = (duplicates,) if array else ()
    return RulePlan(tuple(steps), tuple(tables), records, context.source, context.group_by)


def _earlier_frame(context: LoweringContext) -> str | None:
    """Return the frame of earlier rows: given, or the details' ``target``."""
    if not context.flag("with.accumulate", default=True):
        return None
    name = context.older or context.option("target")
    if name is None:
        return None
    context.scope.schema(str(name))
    frame = context.scope.frame(str(name))
    return None if frame == context.source else frame


def _groups(keys: KeyColumns, older: str | None, dup: str, accu: str) -> str:
    """Return a query of keys, their rows beyond the first, and whether they are new."""
    of_keys = keys.counted(keys.rows(), "`__total`")
    if older is None:
        return (
            f"SELECT {keys.all}, `__total` - 1 AS {dup}, true AS `dist`, `__total` FROM ({of_keys})"
        )
    items = [Aliased(renamed(i.expression, {keys.work.source: older}), i.alias) for i in keys.items]
    cells, names = ", ".join(map(expression_sql, items)), ", ".join(keys.names)
    earlier = (
        f"SELECT {names}, count(1) AS `__more` FROM (SELECT {cells} FROM {quote(older)}) "
        f"GROUP BY {names}"
    )
    columns = ", ".join(
        f"`__new`.{name}" for name in [*map(quote, keys.work.group_by), *keys.names]
    )
    earlier_rows = "`__old`.`__more`"
    return (
        f"SELECT {columns}, `__new`.`__total` - CASE WHEN {earlier_rows} IS NULL THEN 1 ELSE 0 END AS {dup}, "
        f"`__new`.`__total` - 1 + coalesce({earlier_rows}, 0L) AS {accu}, {earlier_rows} IS NULL AS `dist`, "
        f"`__new`.`__total` FROM ({of_keys}) AS `__new` LEFT JOIN ({earlier}) AS `__old` "
        f"ON {keys.same('`__new`', '`__old`')}"
    )


def _sorted_steps(
    keys: KeyColumns, grouping: list[Aliased], counted: str, duplicates: str, dup: str, num: str
) -> list[Step]:
    """Return the steps that find duplicate rows and count them by the items in brackets."""
    work = keys.work
    joined, numbered = work.step("dist_joined"), work.step("row_numbered")
    sorts = [quote(item.alias) for item in grouping]
    timed = TMST in work.scope.schema(work.source).names and TMST not in work.group_by
    cells = ", ".join(
        [*map(expression_sql, [*keys.items, *grouping]), *([f"{quote(TMST)} AS `__time`"] * timed)]
    )
    rows = f"SELECT {work.group_columns}{cells} FROM {work.table}"
    order = ", ".join([*(["`__time`"] * timed), *sorts])
    listed = ", ".join([*map(quote, work.group_by), *keys.names, *sorts, dup])
    return [
        Step(
            joined,
            f"SELECT `__row`.*, `__key`.{dup}, `__key`.`dist` FROM ({rows}) AS `__row` "
            f"LEFT JOIN {quote(counted)} AS `__key` ON {keys.same('`__row`', '`__key`', work.group_by)}",
        ),
        Step(
            numbered,
            f"SELECT *, row_number() OVER (PARTITION BY {keys.all} ORDER BY {order}) AS `row_num` "
            f"FROM {quote(joined)}",
        ),
        Step(
            duplicates,
            f"SELECT {listed} FROM {quote(numbered)} WHERE NOT `dist` OR `row_num` > 1",
            ("__dupItems", "__dupRecords"),
        ),
        Step(
            work.step("dup_metric"),
            f"SELECT {work.group_columns}{', '.join([*sorts, dup])}, count(1) AS {num} "
            f"FROM {quote(duplicates)}{work.group_by_clause(*sorts, dup)}",
            ("__groupDupMetric", "__dupMetric"),
        ),
    ]


BAD_RECORD_CONDITIONS = {
    "duplicate": "{number} > 1",
    "unique": "{rows} = 1",
    "nonunique": "{rows} > 1 AND {number} = 1",
    "distinct": "{number} = 1",
}
"""Conditions for bad rows, by ``bad.record.definition`` without underscores, of a key's rows and a row's number."""


def lower_duplication(rule: Listing | None, work: LoweringContext) -> RulePlan:
    """Return the steps ``dup_count``, ``dup_metric`` and ``dup_records``.

    The metric counts all rows (``total``), rows beyond the first of their key (``duplicate``), and
    keys: with one row (``unique``), with several (``non_unique``), and all (``distinct``). Records
    are all rows with a key, with a ``__status`` of ``bad`` or ``good``.
    """
    schema = work.scope.schema(work.source)
    columns = [ColumnNode(work.source, f["name"], f["type"]) for f in schema.struct["fields"]]
    items = [i.expression for i in rule.items if isinstance(i, Aliased)] if rule else []
    keys: Sequence[Expression] = items or [c for c in columns if c.name not in work.group_by]
    names = [f"`__key_{n}`" for n in range(len(keys))]
    cells = [f"{expression_sql(key)} AS {name}" for key, name in zip(keys, names, strict=True)]
    groups = ", ".join([*map(quote, work.group_by), *names])
    counted, metric = work.step("dup_count"), work.step("dup_metric")
    no_key = " AND ".join(f"{name} IS NULL" for name in names)
    steps = (
        Step(
            counted,
            f"SELECT {groups}, count(1) AS `__rows` "
            f"FROM (SELECT {work.group_columns}{', '.join(cells)} FROM {work.table}) GROUP BY {groups}",
        ),
        Step(
            metric,
            f"SELECT {work.group_columns}coalesce(sum(`__rows`), 0L) AS {work.output_column('total')}, "
            f"coalesce(sum(CASE WHEN `__key` THEN `__rows` - 1 END), 0L) AS {work.output_column('duplicate')}, "
            f"count_if(`__key` AND `__rows` = 1) AS {work.output_column('unique')}, "
            f"count_if(`__key` AND `__rows` > 1) AS {work.output_column('non_unique')}, "
            f"count_if(`__key`) AS {work.output_column('distinct')} "
            f"FROM (SELECT {work.group_columns}`__rows`, NOT ({no_key}) AS `__key` FROM {quote(counted)})"
            f"{work.group_by_clause()}",
        ),
        Step(work.step("dup_records"), _records(work, keys, columns)),
    )
    return RulePlan(steps, (MetricTable(metric),), (steps[-1].name,), work.source, work.group_by)


def _records(
    context: LoweringContext, keys: Sequence[Expression], columns: list[ColumnNode]
) -> str:
    definition = (
        str(context.option("bad.record.definition", "duplicate")).casefold().replace("_", "")
    )
    if definition not in BAD_RECORD_CONDITIONS:
        raise context.error(
            "bad.record.definition must be duplicate, unique, non_unique or distinct"
        )
    partition = ", ".join([*map(quote, context.group_by), *map(expression_sql, keys)])
    # Order by all plain columns, so that the first row of a key is deterministic.
    plain_columns = [c for c in columns if not isinstance(c.type, dict) and c.type not in NESTED]
    order = ", ".join(map(expression_sql, plain_columns)) or "1"
    no_key = " AND ".join(f"{operand(key, SUM_LEVEL)} IS NULL" for key in keys)
    bad = BAD_RECORD_CONDITIONS[definition].format(
        rows=f"count(1) OVER (PARTITION BY {partition})",
        number=f"row_number() OVER (PARTITION BY {partition} ORDER BY {order})",
    )
    return (
        f"SELECT *, CASE WHEN {bad} THEN 'bad' ELSE 'good' END AS `__status` "
        f"FROM {context.table} WHERE NOT ({no_key})"
    )


_DUPLICATE_DETAILS = ("dup", "num", "duplication.array")


@dataclass(frozen=True, repr=False)
class _KeyMeasure(GriffinMeasure[FrequenciesAndNumRows]):
    state_type: ClassVar[type[State]] = FrequenciesAndNumRows
    state_bytes: ClassVar[int] = 1 << 15

    def column_scale(self, column: str) -> Scale:
        """Return the scale of a number: ratio for the fraction, else count."""
        return Scale.RATIO if column == self.key("uniqueFraction") else Scale.COUNT

    def requests(self, schema: Schema) -> tuple[Request, ...]:
        """Request the frequencies of the key."""
        keys = tuple(map(row_sql, items_of(self.bound(schema))))
        return (Frequencies(keys, None),)

    def adds(self, config: RuleConfig, scope: Scope) -> bool:
        """Return whether a state can measure the rule: not with a target or grouped duplicates."""
        target = config.details.get("target")
        other = target is not None and scope.frame(str(target)) != scope.frame(self.source)
        rule = self.bound(scope.schema(self.source))
        sorts = isinstance(rule, Distinct) and any(item.grouping for item in rule.items)
        return not other and not sorts and all(map(groupable, items_of(rule)))

    def statistic(self) -> str:
        """Return the state's identity, shared by all rules with the same key."""
        identity = {"source": self.source, "expression": self.expression}
        return canonical_json({"griffin": "keys", **identity})

    def fold(self, cells: Sequence[Any]) -> FrequenciesAndNumRows:
        """Build the state from the frequencies."""
        return cells[0] or FrequenciesAndNumRows()

    def weight(self, state: FrequenciesAndNumRows) -> float:
        """Return the number of rows."""
        return state.num_rows + state.num_nulls

    def measure(self, state: FrequenciesAndNumRows) -> Report:
        """Count keys by their number of rows."""
        return self.report(state.counts(), state.num_nulls)

    @abstractmethod
    def report(self, counts: Counts, nulls: int) -> Report:
        """Return the metric from the row count of each key, and of the all-null key."""

    def duplicates(self, counts: Counts) -> Mapping[str, list[dict[str, int]]]:
        """Return the number of keys by rows beyond the first, if ``duplication.array`` is set."""
        import numpy as np

        name = self.parsed_details().get("duplication.array")
        if not name:
            return {}
        dup, num = self.key("dup"), self.key("num")
        keys_by_duplicates = zip(
            *np.unique(counts[counts > 1] - 1, return_counts=True), strict=True
        )
        return {
            name: [
                {dup: int(duplicates), num: int(keys)} for duplicates, keys in keys_by_duplicates
            ]
        }


def _all(counts: Counts, nulls: int) -> Counts:
    """Return the counts including the all-null key."""
    import numpy as np

    return np.append(counts, nulls) if nulls else counts


@analyzer
class GriffinUniqueness(_KeyMeasure):
    """Griffin's uniqueness: count keys with exactly one row, and rows in total.

    Null is a value. With ``duplication.array`` in the details, also count keys by their rows beyond
    the first.

    Parameters
    ----------
    rule : str
        The rule's name.
    expression : str
        The columns of the key.
    source : str
        Name of the source in the rule.
    details : str
        JSON with ``total``, ``unique``, ``dup``, ``num`` to rename these; ``duplication.array``.

    Examples
    --------
    >>> keys = FrequenciesAndNumRows.from_groups([(("",), 1), (("a",), 2)], num_nulls=1)
    >>> GriffinUniqueness("ids", "id").compute_metric_from(keys).value.metric
    {'total': 4, 'unique': 2, 'uniqueFraction': 0.5}
    """

    dq_type: ClassVar[str] = "uniqueness"
    read: ClassVar[tuple[str, ...]] = ("total", "unique", "uniqueFraction", *_DUPLICATE_DETAILS)

    def report(self, counts: Counts, nulls: int) -> Report:
        """Return the counts of rows, single-row keys, and duplicates."""
        counts = _all(counts, nulls)
        total, unique = int(counts.sum()), int((counts == 1).sum())
        numbers = {
            "total": total,
            "unique": unique,
            "uniqueFraction": unique / total if total else 1.0,
        }
        metric = {self.key(name): number for name, number in numbers.items()}
        return Report({**metric, **self.duplicates(counts)}, labels=frozenset({self.key("dup")}))


@analyzer
class GriffinDistinctness(_KeyMeasure):
    """Griffin's distinctness: count distinct keys, and rows in total.

    Null is a value. With ``duplication.array`` in the details, also count keys by their rows beyond
    the first.

    Parameters
    ----------
    rule : str
        The rule's name.
    expression : str
        The columns of the key.
    source : str
        Name of the source in the rule.
    details : str
        JSON with ``total``, ``distinct``, ``dup``, ``num`` to rename these; ``duplication.array``.

    Examples
    --------
    >>> keys = FrequenciesAndNumRows.from_groups([(("",), 1), (("a",), 2)], num_nulls=1)
    >>> GriffinDistinctness("ids", "id").compute_metric_from(keys).value.metric
    {'total': 4, 'distinct': 3}
    """

    dq_type: ClassVar[str] = "distinct"
    read: ClassVar[tuple[str, ...]] = ("total", "distinct", *_DUPLICATE_DETAILS)

    def report(self, counts: Counts, nulls: int) -> Report:
        """Return the counts of rows, keys, and duplicates."""
        counts = _all(counts, nulls)
        total = int(counts.sum())
        metric = {self.key("total"): total, self.key("distinct"): len(counts)}
        return Report({**metric, **self.duplicates(counts)}, labels=frozenset({self.key("dup")}))


@analyzer
class GriffinDuplication(_KeyMeasure):
    """Griffin's duplication: count duplicate rows, and unique, non-unique and distinct keys.

    Duplicates are rows beyond the first of their key. Rows whose key is entirely null have no key;
    they count in the total only.

    Parameters
    ----------
    rule : str
        The rule's name.
    expression : str
        The columns of the key.
    source : str
        Name of the source in the rule.
    details : str
        JSON with ``total``, ``duplicate``, ``unique``, ``non_unique``, ``distinct`` to rename
        these.

    Examples
    --------
    >>> keys = FrequenciesAndNumRows.from_groups([(("b",), 1), (("a",), 3)], num_nulls=1)
    >>> GriffinDuplication("ids", "id").compute_metric_from(keys).value.metric
    {'total': 5, 'duplicate': 2, 'unique': 1, 'non_unique': 1, 'distinct': 2}
    """

    dq_type: ClassVar[str] = "duplication"
    read: ClassVar[tuple[str, ...]] = ("total", "duplicate", "unique", "non_unique", "distinct")

    def report(self, counts: Counts, nulls: int) -> Report:
        """Return the counts of rows, duplicates and keys."""
        rows, unique = int(counts.sum()), int((counts == 1).sum())
        numbers = {
            "total": rows + nulls,
            "duplicate": rows - len(counts),
            "unique": unique,
            "non_unique": len(counts) - unique,
            "distinct": len(counts),
        }
        return Report({self.key(name): count for name, count in numbers.items()})
