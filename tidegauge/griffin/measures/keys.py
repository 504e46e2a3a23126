"""Key frequencies: uniqueness, distinctness and duplication.

A key is the values of a rule's expressions in a row. Uniqueness counts keys with exactly one row,
distinctness keys that did not occur before, duplication rows per key. The numbers are declared once,
in SQL for the ``lower_`` functions, whose steps count the rows of each key, and in Python for the
analyzers, which read one state, the number of rows per key. Null is a value like any other; rows
whose key is entirely null, which Deequ leaves out, are one more key in the state. Duplication gives
such a row no key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

from tidegauge.analyzers.core.analyzer import Frequencies, Request, analyzer
from tidegauge.analyzers.core.metric import Scale
from tidegauge.analyzers.core.partitions import TMST
from tidegauge.analyzers.core.registry import canonical_json
from tidegauge.analyzers.core.schema import NESTED, Schema
from tidegauge.analyzers.core.sql import quote
from tidegauge.analyzers.core.state import State
from tidegauge.analyzers.measures.frequencies import FrequenciesAndNumRows
from tidegauge.griffin.config import RuleConfig
from tidegauge.griffin.dsl.nodes import Aliased, ColumnNode, Distinct, Expression, Listing
from tidegauge.griffin.dsl.scope import Scope
from tidegauge.griffin.measures.base import (
    GriffinMeasure,
    LoweringContext,
    MetricTable,
    Report,
    RuleKind,
    RuleNumber,
    RulePlan,
    Step,
    fraction,
    groupable,
    items_of,
    row_sql,
)
from tidegauge.griffin.measures.sql import SUM_LEVEL, expression_sql, operand, renamed


@dataclass(frozen=True)
class KeyColumns:
    """The columns of a key, and the group-by columns.

    Attributes
    ----------
    context : LoweringContext
        The rule's options and scope.
    items : sequence of Aliased
        Bound; all steps refer to them by alias.
    """

    context: LoweringContext
    items: Sequence[Aliased]

    @property
    def names(self) -> list[str]:
        """The aliases, quoted."""
        return [quote(item.alias) for item in self.items]

    @property
    def all(self) -> str:
        """Group-by columns and key columns, for SELECT and GROUP BY."""
        return ", ".join([*map(quote, self.context.group_by), *self.names])

    def counted(self, count: str, frame: str | None = None) -> str:
        """Return a query for the distinct keys of a frame, by default the source, with row counts."""
        cells = ", ".join(map(expression_sql, self.items))
        rows = f"SELECT {self.context.group_columns}{cells} FROM {frame or self.context.table}"
        return f"SELECT {self.all}, count(1) AS {count} FROM ({rows}) GROUP BY {self.all}"

    def counted_with(self, frame: str, columns: str, group_by: Sequence[str] = ()) -> str:
        """Return a query for the keys of the source, which looks up the keys of another frame.

        Parameters
        ----------
        frame : str
            The other frame.
        columns : str
            SQL of ``__new.__total`` and ``__old.__rows``, the rows of a key in the source and in
            the other frame; the latter is null if there are none.
        group_by : sequence of str
            Group-by columns that the other frame has, too.
        """
        items = [
            Aliased(renamed(item.expression, {self.context.source: frame}), item.alias)
            for item in self.items
        ]
        other = KeyColumns(replace(self.context, group_by=tuple(group_by)), items)
        names = [*map(quote, self.context.group_by), *self.names]
        return (
            f"SELECT {', '.join(f'`__new`.{name}' for name in names)}, {columns} "
            f"FROM ({self.counted('`__total`')}) AS `__new` "
            f"LEFT JOIN ({other.counted('`__rows`', quote(frame))}) AS `__old` "
            f"ON {self.same('`__new`', '`__old`', group_by)}"
        )

    def same(self, left: str, right: str, group_by: Sequence[str] = ()) -> str:
        """Return a null-safe equality condition on the key columns."""
        names = dict.fromkeys([*map(quote, group_by), *self.names])
        return " AND ".join(f"{left}.{name} <=> {right}.{name}" for name in names)


class KeyTotals(NamedTuple):
    """Numbers of rows and keys in a state.

    Attributes
    ----------
    rows : int
        All rows.
    rows_with_key : int
        Rows whose key is not entirely null, or all rows if null is a key.
    keys : int
        Keys.
    single : int
        Keys with exactly one row.
    """

    rows: int
    rows_with_key: int
    keys: int
    single: int


_ALL_ROWS = "coalesce(sum(`__total`), 0L)"
_SINGLE_KEYS = "count_if(`__more` = 0)"
UNIQUENESS_NUMBERS = (
    RuleNumber("total", _ALL_ROWS, lambda totals: totals.rows),
    RuleNumber("unique", _SINGLE_KEYS, lambda totals: totals.single),
    RuleNumber(
        "uniqueFraction",
        fraction(_SINGLE_KEYS, "sum(`__total`)"),
        lambda totals: totals.single / totals.rows if totals.rows else 1.0,
        Scale.RATIO,
    ),
)
"""Numbers of keys with ``__total`` rows, ``__more`` of which are beyond the first."""
DISTINCTNESS_NUMBERS = (
    RuleNumber("total", _ALL_ROWS, lambda totals: totals.rows),
    RuleNumber("distinct", "count_if(`dist`)", lambda totals: totals.keys),
)
"""Numbers of keys with ``__total`` rows; ``dist`` is whether no earlier row has the key."""
DUPLICATION_NUMBERS = (
    RuleNumber("total", "coalesce(sum(`__rows`), 0L)", lambda totals: totals.rows),
    RuleNumber(
        "duplicate",
        "coalesce(sum(CASE WHEN `__key` THEN `__rows` - 1 END), 0L)",
        lambda totals: totals.rows_with_key - totals.keys,
    ),
    RuleNumber("unique", "count_if(`__key` AND `__rows` = 1)", lambda totals: totals.single),
    RuleNumber(
        "non_unique",
        "count_if(`__key` AND `__rows` > 1)",
        lambda totals: totals.keys - totals.single,
    ),
    RuleNumber("distinct", "count_if(`__key`)", lambda totals: totals.keys),
)
"""Numbers of keys with ``__rows`` rows; ``__key`` is false for the key that is entirely null."""


def lower_uniqueness(rule: Listing, context: LoweringContext) -> RulePlan:
    """Return the steps ``total_count``, ``dup_count`` and ``unique_metric``, and any duplicates.

    If ``duplication.array`` is set, ``dup_records`` has one row per key with several rows, and
    ``dup_metric`` the number of keys by their number of rows beyond the first. If the details name
    a target, its rows are counted for the keys of the source; it must have the columns that the
    rule names.
    """
    dup = context.output_column("dup")
    keys = KeyColumns(context, context.items(rule.items, (dup, "`__total`")))
    counted = context.step("dup_count")
    target = context.option("target")
    if target is None or context.scope.frame(str(target)) == context.source:
        groups = f"SELECT {keys.all}, `__total` - 1 AS {dup}, `__total` FROM ({keys.counted('`__total`')})"
    else:
        columns = context.scope.schema(str(target)).names
        groups = keys.counted_with(
            str(context.scope.frame(str(target))),
            f"greatest(coalesce(`__old`.`__rows`, 0L) - 1, 0L) AS {dup}, `__new`.`__total`",
            [name for name in context.group_by if name in columns],
        )
    rows = f"SELECT {context.group_columns}`__total`, {dup} AS `__more` FROM {quote(counted)}"
    metric = context.metric_step("unique_metric", UNIQUENESS_NUMBERS, rows, ["__uniqueMetric"])
    steps = [_total_step(context), Step(counted, groups, ("__group",)), metric]
    return _key_plan(keys, steps, duplicate_steps(keys, counted, [dup]))


def _total_step(context: LoweringContext) -> Step:
    return context.count_step("total_count", "total", aliases=["__totalCount", "__totalMetric"])


def _key_plan(
    keys: KeyColumns,
    steps: Sequence[Step],
    duplicates: Sequence[Step],
    grouping: Sequence[Aliased] = (),
) -> RulePlan:
    """Return the plan with the metric, the last step, and any duplicates.

    If ``duplication.array`` is set, the last two steps of the duplicates are the records, and the
    array of the metric, whose entries are identified by the rows beyond the first of a key.
    """
    context = keys.context
    array = context.text("duplication.array")
    tables = [MetricTable(steps[-1].name)]
    if not array:
        return context.plan(steps, tables)
    labels = (*(item.alias for item in grouping), str(context.option("dup", "dup")))
    tables.append(MetricTable(duplicates[-1].name, "array", array, labels, part=True))
    return context.plan([*steps, *duplicates], tables, duplicates[-2].name)


def duplicate_steps(keys: KeyColumns, counted: str, count_columns: list[str]) -> list[Step]:
    """Return the steps for keys with several rows, and for the number of keys by row count.

    ``count_columns`` are the counts in the records; the first of them groups the number of keys.
    """
    context, dup = keys.context, count_columns[0]
    duplicates = context.step("dup_records")
    records = f"SELECT {keys.all}, {', '.join(count_columns)} FROM {quote(counted)} WHERE {dup} > 0"
    metric = (
        f"SELECT {context.group_columns}{dup}, count(1) AS {context.output_column('num')} "
        f"FROM {quote(duplicates)}{context.group_by_clause(dup)} ORDER BY {dup}"
    )
    return [
        Step(duplicates, records, ("__dupRecords",)),
        Step(context.step("dup_metric"), metric, ("__dupMetric",)),
    ]


def lower_distinctness(rule: Distinct, context: LoweringContext) -> RulePlan:
    """Return the steps ``total_count``, ``dup_count`` and ``distinct_metric``, and any duplicates.

    If there are earlier rows, a key that occurs in them is not distinct: all its rows are
    duplicates, and ``accu_dup`` of the records also counts the earlier ones. If the details set
    ``duplication.array``, ``dup_records`` holds the duplicates and ``dup_metric`` the number of
    keys by ``dup``; items in brackets group them, with the extra steps ``dist_joined`` and
    ``row_numbered``.
    """
    dup, accu, num = map(context.output_column, ("dup", "accu_dup", "num"))
    items = context.items(
        [i.expression for i in rule.items], (dup, accu, num, "`dist`", "`row_num`")
    )
    pairs = list(zip(items, rule.items, strict=True))
    keys = KeyColumns(context, [item for item, old in pairs if not old.grouping])
    grouping = [item for item, old in pairs if old.grouping]
    if not keys.items:
        raise context.error("a distinctness rule needs a column outside of brackets")
    older = _earlier_frame(context)
    counted = context.step("dup_count")
    rows = f"SELECT * FROM {quote(counted)}"
    steps = [
        _total_step(context),
        Step(counted, _groups(keys, older, dup, accu), ("__selfGroup", "__group")),
        context.metric_step("distinct_metric", DISTINCTNESS_NUMBERS, rows, ["__distMetric"]),
    ]
    if grouping:
        duplicates = _sorted_steps(keys, grouping, counted, dup, num)
    else:
        duplicates = duplicate_steps(keys, counted, [dup, accu] if older else [dup])
    return _key_plan(keys, steps, duplicates, grouping)


def _earlier_frame(context: LoweringContext) -> str | None:
    """Return the frame of earlier rows, the details' ``target``, or None."""
    if not context.flag("with.accumulate", default=True):
        return None
    name = context.option("target")
    if name is None:
        return None
    context.scope.schema(str(name))
    frame = context.scope.frame(str(name))
    return None if frame == context.source else frame


def _groups(keys: KeyColumns, older: str | None, dup: str, accu: str) -> str:
    """Return a query of keys, their rows beyond the first, and whether they are new."""
    if older is None:
        columns = f"`__total` - 1 AS {dup}, true AS `dist`, `__total`"
        return f"SELECT {keys.all}, {columns} FROM ({keys.counted('`__total`')})"
    total, earlier = "`__new`.`__total`", "`__old`.`__rows`"
    return keys.counted_with(
        older,
        f"{total} - CASE WHEN {earlier} IS NULL THEN 1 ELSE 0 END AS {dup}, "
        f"{total} - 1 + coalesce({earlier}, 0L) AS {accu}, {earlier} IS NULL AS `dist`, {total}",
    )


def _sorted_steps(
    keys: KeyColumns, grouping: list[Aliased], counted: str, dup: str, num: str
) -> list[Step]:
    """Return the steps that find duplicate rows and count them by the items in brackets."""
    context = keys.context
    joined, numbered, duplicates = map(context.step, ("dist_joined", "row_numbered", "dup_records"))
    sorts = [quote(item.alias) for item in grouping]
    timed = TMST in context.scope.schema(context.source).names and TMST not in context.group_by
    cells = ", ".join(
        [*map(expression_sql, [*keys.items, *grouping]), *([f"{quote(TMST)} AS `__time`"] * timed)]
    )
    rows = f"SELECT {context.group_columns}{cells} FROM {context.table}"
    order = ", ".join([*(["`__time`"] * timed), *sorts])
    listed = ", ".join([*map(quote, context.group_by), *keys.names, *sorts, dup])
    return [
        Step(
            joined,
            f"SELECT `__row`.*, `__key`.{dup}, `__key`.`dist` FROM ({rows}) AS `__row` "
            f"LEFT JOIN {quote(counted)} AS `__key` ON {keys.same('`__row`', '`__key`', context.group_by)}",
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
            context.step("dup_metric"),
            f"SELECT {context.group_columns}{', '.join([*sorts, dup])}, count(1) AS {num} "
            f"FROM {quote(duplicates)}{context.group_by_clause(*sorts, dup)}",
            ("__groupDupMetric", "__dupMetric"),
        ),
    ]


BAD_RECORD_CONDITIONS = {
    "duplicate": "{number} > 1",
    "unique": "{rows} = 1",
    "nonunique": "{rows} > 1 AND {number} = 1",
    "distinct": "{number} = 1",
}
"""Conditions for bad rows by ``bad.record.definition`` (without underscores), given a key's rows and a row's
number."""


def lower_duplication(rule: Listing | None, context: LoweringContext) -> RulePlan:
    """Return the steps ``dup_count``, ``dup_metric`` and ``dup_records``.

    The metric counts all rows (``total``), rows beyond the first of their key (``duplicate``), and
    keys: with one row (``unique``), with several (``non_unique``), and all (``distinct``). Records
    are all rows with a key, with a ``__status`` of ``bad`` or ``good``.
    """
    schema = context.scope.schema(context.source)
    columns = [ColumnNode(context.source, f["name"], f["type"]) for f in schema.struct["fields"]]
    items = [i.expression for i in rule.items if isinstance(i, Aliased)] if rule else []
    keys: Sequence[Expression] = items or [c for c in columns if c.name not in context.group_by]
    names = [f"`__key_{n}`" for n in range(len(keys))]
    cells = [f"{expression_sql(key)} AS {name}" for key, name in zip(keys, names, strict=True)]
    groups = ", ".join([*map(quote, context.group_by), *names])
    counted = context.step("dup_count")
    no_key = " AND ".join(f"{name} IS NULL" for name in names)
    steps = (
        Step(
            counted,
            f"SELECT {groups}, count(1) AS `__rows` "
            f"FROM (SELECT {context.group_columns}{', '.join(cells)} FROM {context.table}) GROUP BY {groups}",
        ),
        context.metric_step(
            "dup_metric",
            DUPLICATION_NUMBERS,
            f"SELECT {context.group_columns}`__rows`, NOT ({no_key}) AS `__key` FROM {quote(counted)}",
        ),
        Step(context.step("dup_records"), _records(context, keys, columns)),
    )
    return context.plan(steps, [MetricTable(steps[1].name)], steps[-1].name)


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


@dataclass(frozen=True, repr=False)
class _KeyMeasure(GriffinMeasure[FrequenciesAndNumRows]):
    state_type: ClassVar[type[State]] = FrequenciesAndNumRows
    state_bytes: ClassVar[int] = 1 << 15
    other_details: ClassVar[tuple[str, ...]] = ("dup", "num", "duplication.array")
    null_is_key: ClassVar[bool] = True
    """Whether rows whose key is entirely null have a key."""

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
        """Count rows, and keys by their number of rows.

        If ``duplication.array`` is set, also return the number of keys by rows beyond the first.
        """
        import numpy as np

        counts, nulls = state.counts(), state.num_nulls
        if nulls and self.null_is_key:
            counts = np.append(counts, nulls)
        rows = state.num_rows + nulls
        totals = KeyTotals(rows, int(counts.sum()), len(counts), int((counts == 1).sum()))
        metric = self.named_numbers(totals)
        dup, num = self.key("dup"), self.key("num")
        name = self.parsed_details().get("duplication.array")
        if name and "duplication.array" in self.other_details:
            groups = zip(*np.unique(counts[counts > 1] - 1, return_counts=True), strict=True)
            metric[name] = [{dup: int(more), num: int(keys)} for more, keys in groups]
        return Report(metric, labels=frozenset({dup}))


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
    numbers: ClassVar[tuple[RuleNumber, ...]] = UNIQUENESS_NUMBERS


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
    numbers: ClassVar[tuple[RuleNumber, ...]] = DISTINCTNESS_NUMBERS


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
    numbers: ClassVar[tuple[RuleNumber, ...]] = DUPLICATION_NUMBERS
    other_details: ClassVar[tuple[str, ...]] = ()
    null_is_key: ClassVar[bool] = False


KINDS = (
    RuleKind(
        "uniqueness",
        Listing,
        lower_uniqueness,
        GriffinUniqueness.details_read() | {"null.match"},
        GriffinUniqueness,
        is_document=False,
    ),
    RuleKind(
        "distinct",
        Distinct,
        lower_distinctness,
        GriffinDistinctness.details_read()
        | {"accu_dup", "with.accumulate", "record.enable", "null.match"},
        GriffinDistinctness,
        is_document=False,
    ),
    RuleKind(
        "duplication",
        Listing | None,
        lower_duplication,
        GriffinDuplication.details_read() | {"bad.record.definition"},
        GriffinDuplication,
    ),
)
