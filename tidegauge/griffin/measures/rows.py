"""Row checks: accuracy, completeness, schema conformance and record checks.

Each check counts rows: rows with a match in another source, rows with all values, rows with values that
cast to the expected types, or rows that a user's query marks as good. The numbers are declared once, for
the SQL steps of the ``lower_`` functions and for the analyzers. Record checks have no state.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from tidegauge.analyzers.core.analyzer import ROWS, SIDES, Aggregate, Match, Request, analyzer
from tidegauge.analyzers.core.errors import IllegalAnalyzerParameterError, nearest
from tidegauge.analyzers.core.metric import Scale
from tidegauge.analyzers.core.schema import NESTED, Schema
from tidegauge.analyzers.core.sql import literal, quote
from tidegauge.analyzers.core.state import State
from tidegauge.analyzers.measures.counts import NumMatchesAndCount
from tidegauge.griffin.config import ErrorCondition, RuleConfig
from tidegauge.griffin.dsl.binding import bind
from tidegauge.griffin.dsl.nodes import Accuracy, Aliased, Expression, Listing, Name, Rule, kind_of
from tidegauge.griffin.dsl.parser import parse
from tidegauge.griffin.dsl.scope import Binder, Scope
from tidegauge.griffin.measures.base import (
    GriffinMeasure,
    LoweringContext,
    MetricTable,
    Parts,
    Report,
    RuleKind,
    RuleNumber,
    RulePlan,
    Step,
    fraction,
    row_sql,
    unqualified,
)
from tidegauge.griffin.measures.sql import (
    NULL_MATCHES,
    SUM_LEVEL,
    expression_sql,
    matched_condition,
    operand,
    side_names,
    skipped_condition,
)

_MATCHED_ROWS = "count_if(`__matched`)"
ACCURACY_NUMBERS = (
    RuleNumber("total", "count(1)", lambda state: state.count),
    RuleNumber("miss", "count_if(NOT `__matched`)", lambda state: state.count - state.num_matches),
    RuleNumber("matched", _MATCHED_ROWS, lambda state: state.num_matches),
    RuleNumber(
        "matchedFraction",
        fraction(_MATCHED_ROWS, "count(1)"),
        lambda state: state.num_matches / state.count if state.count else 1.0,
        Scale.RATIO,
    ),
)
"""Numbers of source rows; ``__matched`` is whether a row has a match in the target."""


def lower_accuracy(rule: Accuracy, context: LoweringContext) -> RulePlan:
    """Return the steps ``miss_items``, ``miss_count``, ``total_count`` and ``accuracy``.

    The last step reads source and target once and does not depend on the other steps.
    """
    null_match = null_match_of(context)
    sides = side_names(context.scope)
    source, target = (quote(side) for side in sides)
    matched = matched_condition(rule, context.scope, null_match, sides)
    skipped = skipped_condition(rule, context.scope, null_match, sides[0])
    source_sql = f"{context.table} AS {source}"
    target_sql = f"{quote(str(context.scope.frame(context.scope.target or '')))} AS {target}"
    items = context.step("miss_items")
    has_match = f"EXISTS (SELECT 1 FROM {target_sql} WHERE {matched})"
    misses = f"SELECT * FROM {source_sql} LEFT ANTI JOIN {target_sql} ON {matched}"
    if skipped:
        has_match = f"({has_match} OR ({skipped}))"
        misses += f" WHERE NOT ({skipped})"
    rows = f"SELECT {context.group_columns}{has_match} AS `__matched` FROM {source_sql}"
    steps = (
        Step(items, misses, ("__missRecords",)),
        context.count_step("miss_count", "miss", quote(items), ["__missCount"]),
        context.count_step("total_count", "total", aliases=["__totalCount"]),
        context.metric_step("accuracy", ACCURACY_NUMBERS, rows, ["__accuracy"]),
    )
    return context.plan(steps, [MetricTable(steps[-1].name)], items)


def null_match_of(context: LoweringContext) -> str:
    """Return the ``null.match`` mode from the rule's details."""
    mode = context.option("null.match", NULL_MATCHES[0])
    if mode not in NULL_MATCHES:
        raise context.error(f"null.match must be one of {', '.join(NULL_MATCHES)}, not {mode!r}")
    return str(mode)


NULL_PLACEHOLDER = "hive_none"
"""Placeholder for null in error values."""


def error_condition(rule: Listing | None, config: RuleConfig, scope: Scope) -> str:
    """Return SQL that is true for incomplete rows of the source, and never null.

    Without error conditions, a row is incomplete if any item is null. With error conditions, it is
    incomplete if any condition holds: a string matches a pattern, or a value is listed. Null is an error
    if ``hive_none`` is listed, or if a column has only patterns, because no pattern matches null.

    Raises
    ------
    DslError
        If a column of an error condition is neither an item of the rule nor a column of the source.
    """
    condition = config.details.get("expr")
    if condition is not None:
        if not isinstance(condition, str) or not condition.strip():
            raise scope.error(
                "'expr' must be an SQL condition for complete rows", None, "plan", None
            )
        return f"NOT coalesce((\n{condition}\n), false)"
    items = [item for item in (rule.items if rule else ()) if isinstance(item, Aliased)]
    if not config.errors:
        if not items:
            raise scope.error(
                "the rule has no columns to check; name at least one", None, "plan", None
            )
        return " OR ".join(f"{operand(item.expression, SUM_LEVEL)} IS NULL" for item in items)
    columns: dict[str, list[ErrorCondition]] = {}
    for error in config.errors:
        columns.setdefault(error.column.casefold(), []).append(error)
    return " OR ".join(
        _error_sql(_find_column(errors[0].column, items, scope), errors)
        for errors in columns.values()
    )


def _find_column(name: str, items: Sequence[Aliased], scope: Scope) -> Expression:
    expression = next((i.expression for i in items if i.alias.casefold() == name.casefold()), None)
    return Binder(scope, (scope.source,)).bind(Name(name)) if expression is None else expression


def _error_sql(column: Expression, conditions: Sequence[ErrorCondition]) -> str:
    """Return SQL for the error conditions of one column."""
    as_string = f"CAST({operand(column, 0)} AS STRING)"
    tests = []
    values = [
        v for condition in conditions if condition.kind == "enumeration" for v in condition.values
    ]
    patterns = [
        v for condition in conditions if condition.kind == "regex" for v in condition.values
    ]
    if NULL_PLACEHOLDER in values or not values:
        tests.append(f"{operand(column, SUM_LEVEL)} IS NULL")
    strings = [value for value in values if value != NULL_PLACEHOLDER]
    if strings:
        tests.append(f"coalesce({as_string} IN ({', '.join(map(literal, strings))}), false)")
    tests += [f"coalesce({as_string} RLIKE {literal(pattern)}, false)" for pattern in patterns]
    return " OR ".join(tests)


ROW_NUMBERS = (
    RuleNumber("total", "count(1)", lambda bad: bad.count),
    RuleNumber("incomplete", "count_if(`__bad`)", lambda bad: bad.num_matches),
    RuleNumber("complete", "count_if(NOT `__bad`)", lambda bad: bad.count - bad.num_matches),
)
"""Numbers of checked rows; ``__bad`` is whether a row fails the check."""


def lower_completeness(rule: Listing | None, context: LoweringContext) -> RulePlan:
    """Return ``incomplete_records``, ``total_count``, ``incomplete_count`` and ``complete_count``.

    These are the names of the steps. The last step has the metric and reads the source once.
    """
    bad = error_condition(rule, context.config, context.scope)
    records = context.step("incomplete_records")
    aliases = ["__incompleteCount"]
    steps = (
        Step(records, f"SELECT * FROM {context.table} WHERE {bad}", ("__incompleteRecords",)),
        context.count_step("total_count", "total", aliases=["__totalCount"]),
        context.count_step("incomplete_count", "incomplete", quote(records), aliases),
        _row_step(context, "complete_count", context.table, bad),
    )
    return context.plan(steps, [MetricTable(steps[-1].name)], records)


def _row_step(context: LoweringContext, name: str, frame: str, bad: str) -> Step:
    """Return the step with total, incomplete and complete rows."""
    rows = f"SELECT {context.group_columns}{bad} AS `__bad` FROM {frame}"
    return context.metric_step(name, ROW_NUMBERS, rows)


ATOMIC_TYPES = frozenset({
    "bigint", "binary", "boolean", "byte", "date", "dec", "decimal", "double", "float", "int",
    "integer", "long", "numeric", "real", "short", "smallint", "string", "timestamp",
    "timestamp_ltz", "timestamp_ntz", "tinyint",
})  # fmt: skip
_TYPE_PATTERN = re.compile(r"\s*([A-Za-z_]+)\s*(\(\s*\d{1,2}\s*(?:,\s*\d{1,2}\s*)?\))?\s*")


def conformance_tests(context: LoweringContext) -> dict[str, str]:
    """Return SQL by column that is true if a value casts to its type, and false for null.

    Raises
    ------
    DslError
        If a column is unknown, or a type is not an atomic type.
    """
    pairs = context.option("expr")
    if not isinstance(pairs, (list, tuple)) or not pairs:
        raise context.error("'expr' must be a list of columns with their types")
    tests = {}
    for pair in pairs:
        if not isinstance(pair, Mapping):
            raise context.error(
                f"'expr' must be a list of columns with their types; {pair!r} is not such an entry"
            )
        name = str(pair.get("column", pair.get("source.col")) or "")
        if not name or not pair.get("type"):
            lacks = "'type'" if name else "'column'"
            raise context.error(
                f"an entry of 'expr' needs a 'column' and a 'type'; {dict(pair)!r} has no {lacks}"
            )
        column = Binder(context.scope, (context.source,)).bind(Name(name))
        if kind_of(column) in NESTED:
            raise context.error(f"the column {name!r} is nested; its type cannot be compared")
        sql = expression_sql(column)
        tests[name] = f"try_cast({sql} AS {_type_sql(str(pair['type']), context)}) IS NOT NULL"
    return tests


def _type_sql(type_name: str, context: LoweringContext) -> str:
    match = _TYPE_PATTERN.fullmatch(type_name)
    name = match[1].casefold() if match else type_name
    if (
        match is None
        or name not in ATOMIC_TYPES
        or (match[2] and name not in {"dec", "decimal", "numeric"})
    ):
        suggestion = nearest(name, ATOMIC_TYPES)
        raise context.error(
            f"{type_name!r} is not an atomic type",
            f"did you mean {suggestion!r}?" if suggestion else None,
        )
    return f"{name.upper()}{match[2] or ''}"


def lower_conformance(_: object, context: LoweringContext) -> RulePlan:
    """Return the steps ``nonconforming_records`` and ``conformance``."""
    bad = f"NOT ({' AND '.join(conformance_tests(context).values())})"
    records = context.step("nonconforming_records")
    metric = _row_step(context, "conformance", context.table, bad)
    steps = (Step(records, f"SELECT * FROM {context.table} WHERE {bad}"), metric)
    return context.plan(steps, [MetricTable(metric.name)], records)


def lower_record_check(_: object, context: LoweringContext) -> RulePlan:
    """Return the steps ``checked_records`` and ``record_metric``.

    Records have a ``__status`` of ``bad`` or ``good``. Query and condition are the user's own SQL. They are
    on separate lines, so that a trailing comment does not hide the following SQL.
    """
    query = context.config.rule or context.text("expr")
    bad = context.text("bad.record.definition")
    if not query.strip() or not bad.strip():
        raise context.error(
            "a record check needs a query, and a condition for bad records in bad.record.definition"
        )
    records = context.step("checked_records")
    status = f"CASE WHEN (\n{bad}\n) THEN 'bad' ELSE 'good' END AS `__status`"
    metric = _row_step(context, "record_metric", quote(records), "(`__status` = 'bad')")
    steps = (Step(records, f"SELECT *, {status} FROM (\n{query}\n)"), metric)
    return context.plan(steps, [MetricTable(metric.name)], records)


NULL_MATCHES_WITH_STATE = ("null-safe", "sql")
"""Supported modes. ``griffin`` skips some rows and is lowered to SQL instead."""


@dataclass(frozen=True, slots=True)
class RuleCondition:
    """Match condition between a source row and a target row.

    Attributes
    ----------
    text, rule : str
        The rule's source and name.
    source, target : str
        Names of source and target in the rule.
    nulls : str
        ``null-safe`` or ``sql``.
    """

    text: str
    rule: str
    source: str
    target: str
    nulls: str

    def __call__(self, data: Schema, other: Schema) -> str:
        """Return the condition as SQL.

        Raises
        ------
        DslError
            If the rule cannot be bound to the columns.
        """
        frames = {self.source: data, self.target: other}
        scope = Scope(frames, self.source, self.target, None, self.text, self.rule)
        rule = bind(parse(self.text, "accuracy", self.rule), scope)
        assert isinstance(rule, Accuracy)
        return matched_condition(rule, scope, self.nulls, SIDES)


@analyzer
class GriffinAccuracy(GriffinMeasure[NumMatchesAndCount]):
    """Griffin's accuracy: count source rows that have a matching target row.

    A row counts once, regardless of the number of its matches. Null equals null and differs from the empty
    string. With ``"null.match": "sql"`` in the details, null equals nothing. The rule's name for the target
    is ``target``.

    Parameters
    ----------
    rule : str
        The rule's name.
    expression : str
        The condition.
    source : str
        Name of the source in the rule.
    details : str
        JSON with ``null.match``; ``total``, ``miss``, ``matched`` and ``matchedFraction`` rename the
        metric's fields.
    target : str
        The other table or view. A change to it marks every partition as changed.

    Examples
    --------
    >>> rule = GriffinAccuracy("users", "source.id = target.id", target="warehouse.users")
    >>> rule.compute_metric_from(NumMatchesAndCount(46, 50)).value.metric
    {'total': 50, 'miss': 4, 'matched': 46, 'matchedFraction': 0.92}
    """

    dq_type: ClassVar[str] = "accuracy"
    numbers: ClassVar[tuple[RuleNumber, ...]] = ACCURACY_NUMBERS
    other_details: ClassVar[tuple[str, ...]] = ("null.match",)
    state_type: ClassVar[type[State]] = NumMatchesAndCount
    view: ClassVar[str | None] = None
    """View of the target's rows in a job; set on the instance, not part of its identity."""

    target: str = "target"

    def adds(self, config: RuleConfig, scope: Scope) -> bool:
        """Return true if the rule can be bound, because then a state can measure it."""
        bind(self.parsed(), scope, self.expression)
        return True

    def compared_with(self, view: str) -> Self:
        """Set the target's view and return self, for a job whose rules use the target's own name.

        Parameters
        ----------
        view : str
            The view of the target's rows.
        """
        object.__setattr__(self, "view", view)
        return self

    @property
    def nulls(self) -> str:
        """The null matching mode."""
        return str(self.parsed_details().get("null.match", NULL_MATCHES_WITH_STATE[0]))

    def check_parameters(self) -> None:
        """Raise unless matching of nulls depends only on single rows."""
        super().check_parameters()
        if self.nulls not in NULL_MATCHES_WITH_STATE:
            msg = f"{self!r}: null.match must be one of {', '.join(NULL_MATCHES_WITH_STATE)}, not {self.nulls!r}"
            raise IllegalAnalyzerParameterError(msg)

    @property
    def reads(self) -> tuple[str, ...]:
        """The target."""
        return (self.view or self.target,)

    def requests(self, schema: Schema) -> tuple[Request, ...]:
        """Request the number of matching rows."""
        target = "target" if self.view is None else self.target
        condition = RuleCondition(self.expression, self.rule, self.source, target, self.nulls)
        return (Match(condition, self.view or self.target),)

    def fold(self, cells: Sequence[Any]) -> NumMatchesAndCount:
        """Build the state from both counts."""
        return NumMatchesAndCount(*(cells[0] or ()))


_SHARE_NAME = "completeFraction"


@dataclass(frozen=True, repr=False)
class _RowMeasure(GriffinMeasure[Parts]):
    """Count rows that fail any test, and rows that fail each test."""

    state_type: ClassVar[type[State]] = Parts
    numbers: ClassVar[tuple[RuleNumber, ...]] = ROW_NUMBERS
    each: ClassVar[str]
    """Metric name prefix of the counts of each column."""

    @abstractmethod
    def tests(self, schema: Schema) -> tuple[str, Sequence[str]]:
        """Return SQL conditions for a bad row, and for a bad value in each column."""

    @abstractmethod
    def columns(self) -> Sequence[str]:
        """Return the names of the columns."""

    def column_scale(self, column: str) -> Scale:
        """Return the scale of a number: ratio for the fraction, otherwise count."""
        return Scale.RATIO if column == _SHARE_NAME else super().column_scale(column)

    def requests(self, schema: Schema) -> tuple[Request, ...]:
        """Request the row counts."""
        row, columns = self.tests(schema)
        expressions = [ROWS.text, *(f"count_if({test})" for test in (row, *columns))]
        return tuple(map(Aggregate, expressions))

    def fold(self, cells: Sequence[Any]) -> Parts:
        """Build the state from the counts."""
        total, *bad_counts = cells
        return Parts(tuple(NumMatchesAndCount(count, total) for count in bad_counts))

    def weight(self, state: Parts) -> float:
        """Return the number of rows."""
        return float(state.parts[0].count) if state.parts else 0.0

    def measure(self, state: Parts) -> Report:
        """Return the counts of all, failing and passing rows."""
        row, *columns = state.parts or (NumMatchesAndCount(),)
        complete = row.count - row.num_matches
        additional = {_SHARE_NAME: complete / row.count if row.count else 1.0}
        pairs = zip(self.columns(), columns, strict=False)
        additional |= {f"{self.each}.{name}": float(c.num_matches) for name, c in pairs}
        return Report(self.named_numbers(row), additional)


@analyzer
class GriffinCompleteness(_RowMeasure):
    """Griffin's completeness: count rows with a null in a column, or with a listed error value.

    It also measures the share of complete rows, ``completeFraction``, and the nulls of each column,
    ``nulls.<column>``.

    Parameters
    ----------
    rule : str
        The rule's name.
    expression : str
        The columns.
    source : str
        Name of the source in the rule.
    details : str
        JSON with ``error.confs``, a list of ``column.name``, ``type`` and ``values``; ``total``,
        ``incomplete`` and ``complete`` rename the metric's fields.

    Examples
    --------
    >>> rows = NumMatchesAndCount(3, 4), NumMatchesAndCount(1, 4)
    >>> report = GriffinCompleteness("c", "name").compute_metric_from(Parts(rows)).value
    >>> report.metric, report.extra
    ({'total': 4, 'incomplete': 3, 'complete': 1}, {'completeFraction': 0.25, 'nulls.name': 1.0})
    """

    dq_type: ClassVar[str] = "completeness"
    other_details: ClassVar[tuple[str, ...]] = ("error.confs", "expr")
    each: ClassVar[str] = "nulls"

    def parsed(self) -> Rule:
        """Return the rule's syntax tree; empty if the details define completeness in SQL."""
        return Listing(()) if "expr" in self.parsed_details() else super().parsed()

    def columns(self) -> Sequence[str]:
        """Return the aliases."""
        return self.aliases()

    def tests(self, schema: Schema) -> tuple[str, Sequence[str]]:
        """Return SQL conditions for an incomplete row, and for a null in each column."""
        scope, config = self.scope(schema), self.config()
        bound = self.bound(schema)
        bound_items = bound.items if isinstance(bound, Listing) else ()
        items = [
            Aliased(unqualified(i.expression), i.alias)
            for i in bound_items
            if isinstance(i, Aliased)
        ]
        nulls = [f"({row_sql(item)}) IS NULL" for item in items]
        names = {item.alias.casefold() for item in items}
        binder = Binder(scope, (self.source,))
        for error in config.errors:  # columns of error conditions that the rule does not name
            if error.column.casefold() not in names:
                column = unqualified(binder.bind(Name(error.column)))
                items.append(Aliased(column, error.column))
                names.add(error.column.casefold())
        return error_condition(Listing(tuple(items)), config, scope), nulls


@analyzer
class GriffinConformance(_RowMeasure):
    """Griffin's schema conformance: count rows with a value that does not have its column's type.

    Null does not conform. It also measures the share of conforming rows, ``completeFraction``, and the
    nonconforming values of each column, ``nonconforming.<column>``.

    Parameters
    ----------
    rule : str
        The rule's name.
    expression : str
        The columns.
    source : str
        Name of the source in the rule.
    details : str
        JSON with ``expr``, a list of ``column`` and ``type``; ``total``, ``incomplete`` and ``complete``
        rename the metric's fields.

    Examples
    --------
    >>> rows = NumMatchesAndCount(3, 4), NumMatchesAndCount(3, 4)
    >>> details = '{"expr": [{"column": "zip", "type": "int"}]}'
    >>> GriffinConformance("c", "zip", details=details).compute_metric_from(Parts(rows)).value.extra
    {'completeFraction': 0.25, 'nonconforming.zip': 3.0}
    """

    dq_type: ClassVar[str] = "schema-conformance"
    other_details: ClassVar[tuple[str, ...]] = ("expr",)
    each: ClassVar[str] = "nonconforming"

    def check_parameters(self) -> None:
        """Raise unless at least one column has a type."""
        super().check_parameters()
        if not self.columns():
            msg = f"{self!r}: details must list columns and types as 'expr'"
            raise IllegalAnalyzerParameterError(msg)

    def columns(self) -> Sequence[str]:
        """Return the columns with an expected type."""
        return [str(pair["column"]) for pair in self.parsed_details().get("expr", ())]

    def bound(self, schema: Schema) -> Rule:
        """Check columns and types against the schema, and return the rule's tree."""
        conformance_tests(LoweringContext(self.config(), self.scope(schema)))
        return self.parsed()

    def tests(self, schema: Schema) -> tuple[str, Sequence[str]]:
        """Return SQL conditions for a nonconforming row, and for a bad value in each column."""
        good = conformance_tests(LoweringContext(self.config(), self.scope(schema)))
        # Scans use unqualified columns; each test starts with the qualified column.
        bad = [f"NOT ({test.replace(f'{quote(self.source)}.', '', 1)})" for test in good.values()]
        return " OR ".join(bad), bad


_ROW_NAMES = frozenset(number.name for number in ROW_NUMBERS)
KINDS = (
    RuleKind("accuracy", Accuracy, lower_accuracy, GriffinAccuracy.details_read(), GriffinAccuracy),
    RuleKind(
        "completeness",
        Listing | None,
        lower_completeness,
        _ROW_NAMES | {_SHARE_NAME},
        GriffinCompleteness,
    ),
    RuleKind("schema-conformance", object, lower_conformance, _ROW_NAMES, GriffinConformance),
    RuleKind("record-check", object, lower_record_check, _ROW_NAMES | {"bad.record.definition"}),
)
