"""Export checks and rules to an expectation suite of Great Expectations 1.x.

Each constraint and rule is mapped to equivalent expectations; constraints and rules without equivalent are reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import singledispatch
from math import ceil, floor
from typing import Any

from tidegauge import __version__
from tidegauge.analyzers.core.analyzer import AnyAnalyzer
from tidegauge.analyzers.core.conditions import (
    Form,
    LikeCondition,
    OneOf,
    Present,
    Within,
    parse_condition,
)
from tidegauge.analyzers.core.errors import SuiteError
from tidegauge.analyzers.core.sql import column_sql, literal, parts
from tidegauge.analyzers.measures.cardinality import ApproxCountDistinct
from tidegauge.analyzers.measures.counts import (
    ColumnCount,
    ColumnExists,
    Completeness,
    Compliance,
    Size,
)
from tidegauge.analyzers.measures.extremes import Maximum, Minimum
from tidegauge.analyzers.measures.frequencies import (
    CountDistinct,
    Distinctness,
    ExactQuantile,
    Uniqueness,
)
from tidegauge.analyzers.measures.moments import Mean, StandardDeviation, Sum
from tidegauge.analyzers.measures.quantiles import ApproxQuantile
from tidegauge.analyzers.measures.texts import PATTERNS, MaxLength, MinLength, PatternMatch
from tidegauge.checks.assertions import Between
from tidegauge.checks.check import Check
from tidegauge.checks.comparisons import ComparisonConstraint, OtherTableConstraint
from tidegauge.checks.constraints import AbsentValueCount, Constraint, MetricConstraint
from tidegauge.rules.dqm import DQM
from tidegauge.rules.policies import DQMTaskPolicy, FailAny, FailNone
from tidegauge.rules.tasks import DQMRule
from tidegauge.suite import Suite

Body = tuple[str, dict[str, Any]]
"""An expectation's type and its arguments."""

_NUMBER_EXPECTATIONS: dict[type, str] = {
    Minimum: "expect_column_min_to_be_between",
    Maximum: "expect_column_max_to_be_between",
    Mean: "expect_column_mean_to_be_between",
    Sum: "expect_column_sum_to_be_between",
    Distinctness: "expect_column_proportion_of_unique_values_to_be_between",
}
_COUNT_EXPECTATIONS: dict[type, str] = {
    Size: "expect_table_row_count_to_be_between",
    ColumnCount: "expect_table_column_count_to_be_between",
    CountDistinct: "expect_column_unique_value_count_to_be_between",
    ApproxCountDistinct: "expect_column_unique_value_count_to_be_between",
}


class NoExpectationError(Exception):
    """No equivalent expectation exists; the message is the reason."""


@dataclass(frozen=True)
class Share:
    """Minimum share of good rows, and the filter on rows."""

    min_share: float
    where: str | None = None

    def mostly(self, body: Body) -> Body:
        """Add the share and the filter to a row expectation."""
        kind, kwargs = body
        mostly = {} if self.min_share == 1 else {"mostly": self.min_share}
        return kind, {**kwargs, **mostly, **_filter(self.where)}

    def query(self, condition: str) -> Body:
        """Return a query for a condition: the violating rows, or the share of good rows if it is too low."""
        is_good, filter_sql = (
            _braced(condition),
            "" if self.where is None else f"({_braced(self.where)})",
        )
        if self.min_share == 1:
            filter_prefix = filter_sql and f"{filter_sql} AND "
            query = f"SELECT * FROM {{batch}} WHERE {filter_prefix}NOT coalesce(({is_good}), false)"  # noqa: S608 - the user's own SQL
        else:
            good = f"CASE WHEN {is_good} THEN CAST(1 AS DOUBLE) ELSE CAST(0 AS DOUBLE) END"
            rows = "{batch}" + (filter_sql and f" WHERE {filter_sql}")
            shares = f"(SELECT avg({good}) AS share FROM {rows}) AS shares"  # noqa: S608 - the user's own SQL
            query = f"SELECT share FROM {shares} WHERE share < {self.min_share!r}"  # noqa: S608 - the user's own SQL
        return "unexpected_rows_expectation", {"unexpected_rows_query": query}


def expectations_of(constraint: Constraint) -> list[Body]:
    """Return the expectations that together are equivalent to a constraint.

    Raises
    ------
    NoExpectationError
        If no equivalent exists.

    Examples
    --------
    >>> import tidegauge as tg
    >>> expectations_of(tg.Check("c").is_complete("x", at_least=0.9).constraints[0])
    [('expect_column_values_to_not_be_null', {'column': 'x', 'mostly': 0.9})]
    """
    if isinstance(constraint, OtherTableConstraint) and constraint.analyzer == Size():
        if constraint.assertion == Between(0, 0):
            return [
                (
                    "expect_table_row_count_to_equal_other_table",
                    {"other_table_name": constraint.other},
                )
            ]
        raise NoExpectationError("no expectation allows row counts of two tables to differ")
    if isinstance(constraint, ComparisonConstraint):
        raise NoExpectationError(
            "it compares with another table, a query or the past, which expectations do not support"
        )
    if not isinstance(constraint, MetricConstraint):
        raise NoExpectationError("it compares with the past, which expectations do not support")
    if isinstance(constraint.part, AbsentValueCount):
        return [_containing(constraint.analyzer, constraint.part.values)]
    if constraint.part is not None:
        raise NoExpectationError(f"no expectation checks the {constraint.part}")
    if not isinstance(constraint.assertion, Between):
        raise NoExpectationError(f"its assertion is a Python function: {constraint.assertion}")
    if constraint.assertion.lower is None and constraint.assertion.upper is None:
        raise NoExpectationError("its assertion has no bounds")
    return list(_analyzer_expectations(constraint.analyzer, constraint.assertion))


def expectations_of_rule(rule: DQMRule, policy: DQMTaskPolicy) -> list[Body]:
    """Return the expectations that together are equivalent to a rule.

    Raises
    ------
    NoExpectationError
        If no equivalent exists.

    Examples
    --------
    >>> from tidegauge.rules.columns import SetRule
    >>> expectations_of_rule(SetRule("gender", ["M", None]), FailNone())
    [('expect_column_values_to_be_in_set', {'column': 'gender', 'value_set': ['M']})]
    """
    if not isinstance(policy, FailNone | FailAny):
        raise NoExpectationError(f"its policy {policy!r} counts the records that are charged to it")
    if rule.stage == "after":
        raise NoExpectationError("it applies to repaired values")
    if not all(isinstance(piece, str) for piece in rule.expression.pieces):
        raise NoExpectationError("it uses Columns or Python functions, not SQL")
    condition = rule.expression.text
    return list(_conditional(condition, Share(1.0), nulls=rule.on_null != "fail"))


@singledispatch
def _analyzer_expectations(analyzer: AnyAnalyzer, bounds: Between) -> Iterator[Body]:
    """Yield the expectations that a metric is within bounds."""
    kind = type(analyzer)
    if kind in _NUMBER_EXPECTATIONS:
        yield (
            _NUMBER_EXPECTATIONS[kind],
            {**_column(analyzer), **_bounds(bounds), **_filter(analyzer.where)},
        )
    elif kind in _COUNT_EXPECTATIONS:
        column = {} if kind in {Size, ColumnCount} else _column(analyzer)
        yield (
            _COUNT_EXPECTATIONS[kind],
            {**column, **_integer_bounds(bounds), **_filter(analyzer.where)},
        )
    elif isinstance(analyzer, StandardDeviation):
        raise NoExpectationError("its expectation uses the sample standard deviation (n - 1)")
    else:
        raise NoExpectationError(f"no expectation measures {kind.__name__}")


@_analyzer_expectations.register(ColumnExists)
def _(analyzer: ColumnExists, bounds: Between) -> Iterator[Body]:
    if (bounds.holds(0), bounds.holds(1)) != (False, True):
        raise NoExpectationError("no expectation requires a column to be absent")
    yield "expect_column_to_exist", _column(analyzer)


@_analyzer_expectations.register(Completeness)
def _(analyzer: Completeness, bounds: Between) -> Iterator[Body]:
    share = _share(analyzer, bounds)
    yield share.mostly(("expect_column_values_to_not_be_null", _column(analyzer)))


@_analyzer_expectations.register(Uniqueness)
def _(analyzer: Uniqueness, bounds: Between) -> Iterator[Body]:
    share = _share(analyzer, bounds)
    if len(analyzer.columns) == 1:
        yield share.mostly(("expect_column_values_to_be_unique", _column(analyzer)))
    else:
        columns = {"column_list": [_column_name(column) for column in analyzer.columns]}
        yield share.mostly(("expect_compound_columns_to_be_unique", columns))


@_analyzer_expectations.register(PatternMatch)
def _(analyzer: PatternMatch, bounds: Between) -> Iterator[Body]:
    share = _share(analyzer, bounds)
    pattern = PATTERNS.get(analyzer.pattern, analyzer.pattern)
    if analyzer.null_behavior == "ignore":
        column = _column(analyzer)
        yield share.mostly(("expect_column_values_to_match_regex", {**column, "regex": pattern}))
        return
    sql = column_sql(analyzer.column)
    text = f"coalesce({sql}, '')" if analyzer.null_behavior == "empty" else sql
    yield from _conditional(f"{text} RLIKE {literal(pattern)}", share)


@_analyzer_expectations.register(Compliance)
def _(analyzer: Compliance, bounds: Between) -> Iterator[Body]:
    yield from _conditional(analyzer.predicate, _share(analyzer, bounds))


@_analyzer_expectations.register(MinLength)
def _(analyzer: MinLength, bounds: Between) -> Iterator[Body]:
    yield from _length(analyzer, bounds, "min_value")


@_analyzer_expectations.register(MaxLength)
def _(analyzer: MaxLength, bounds: Between) -> Iterator[Body]:
    yield from _length(analyzer, bounds, "max_value")


@_analyzer_expectations.register(ApproxQuantile)
@_analyzer_expectations.register(ExactQuantile)
def _(analyzer: ApproxQuantile | ExactQuantile, bounds: Between) -> Iterator[Body]:
    if bounds.closed != "both":
        raise NoExpectationError("an expectation of a quantile has only inclusive bounds")
    ranges = {"quantiles": [analyzer.quantile], "value_ranges": [[bounds.lower, bounds.upper]]}
    yield (
        "expect_column_quantile_values_to_be_between",
        {**_column(analyzer), "quantile_ranges": ranges, **_filter(analyzer.where)},
    )


def _conditional(condition: str, share: Share, *, nulls: bool = False) -> Iterator[Body]:
    """Yield the expectations of a condition: native expectations if every row must be good, otherwise a query.

    Native expectations skip nulls, so ``mostly`` would be the share of other rows.
    """
    form = parse_condition(condition)
    if form is not None and share.min_share == 1:
        yield from (
            share.mostly(body) for body in _form_expectations(form, nulls=nulls or form.nulls)
        )
    else:
        condition_or_null = f"({condition}) IS NULL OR ({condition})" if nulls else condition
        yield share.query(condition_or_null)


def _form_expectations(form: Form, *, nulls: bool) -> Iterator[Body]:
    """Yield the native expectations of a parsed condition; they skip nulls."""
    column = {"column": form.column}
    present = ("expect_column_values_to_not_be_null", column)
    if isinstance(form, Within):
        bounds = _sides(form.lower, form.upper, form.has_lower, form.has_upper)
        yield "expect_column_values_to_be_between", {**column, **bounds}
    elif isinstance(form, OneOf):
        yield "expect_column_values_to_be_in_set", {**column, "value_set": list(form.values)}
    elif isinstance(form, LikeCondition):
        yield "expect_column_values_to_match_regex", {**column, "regex": _portable(form.pattern)}
    if isinstance(form, Present) or not nulls:
        yield present


def _braced(sql: str) -> str:
    """Return SQL with braces escaped for a query template."""
    escaped = sql.replace("{", "{{").replace("}", "}}")
    return f"\n{escaped}\n" if "--" in escaped else escaped  # the newline ends a trailing comment


def _portable(pattern: str) -> str:
    r"""Return a Java pattern whose end-of-string anchor also works in Python.

    Examples
    --------
    >>> print(_portable(r"\A(?:[0-9]{5})\z"))
    \A(?:[0-9]{5})(?![\s\S])
    """
    return pattern[:-2] + r"(?![\s\S])" if pattern.endswith(r")\z") else pattern


def _share(analyzer: AnyAnalyzer, bounds: Between) -> Share:
    if not (bounds.lower is not None and bounds.has_lower and bounds.holds(1)):
        raise NoExpectationError(f"mostly= is an inclusive minimum share, unlike {bounds}")
    return Share(bounds.lower, analyzer.where)


def _length(analyzer: MinLength | MaxLength, bounds: Between, side: str) -> Iterator[Body]:
    integer_bounds = _integer_bounds(bounds)
    if analyzer.null_behavior != "ignore" or set(integer_bounds) != {side}:
        raise NoExpectationError("expectations apply to the length of each non-null string")
    column = {**_column(analyzer), **integer_bounds, **_filter(analyzer.where)}
    yield "expect_column_value_lengths_to_be_between", column


def _containing(analyzer: AnyAnalyzer, values: Sequence[Any]) -> Body:
    if not all(isinstance(value, str | int | float) for value in values):
        raise NoExpectationError("its values are dates or decimals, which JSON does not support")
    body = {**_column(analyzer), "value_set": list(values), **_filter(analyzer.where)}
    return "expect_column_distinct_values_to_contain_set", body


def _column(analyzer: AnyAnalyzer) -> dict[str, Any]:
    columns = getattr(analyzer, "columns", None) or (getattr(analyzer, "column", ""),)
    if len(columns) != 1:
        raise NoExpectationError(
            f"no expectation measures {type(analyzer).__name__} of several columns"
        )
    return {"column": _column_name(columns[0])}


def _column_name(column: str) -> str:
    """Return a column's name; Great Expectations has no names for nested fields."""
    steps = parts(column)
    if len(steps) > 1 or column.startswith("size("):
        raise NoExpectationError(f"{column} is not a top-level column")
    return str(steps[0])


def _bounds(bounds: Between) -> dict[str, Any]:
    return _sides(bounds.lower, bounds.upper, bounds.has_lower, bounds.has_upper)


def _sides(
    lower: float | None,
    upper: float | None,
    has_lower: bool,  # noqa: FBT001 - as Between and Within have them
    has_upper: bool,  # noqa: FBT001
) -> dict[str, Any]:
    arguments: dict[str, Any] = {}
    for side, bound, is_inclusive in (("min", lower, has_lower), ("max", upper, has_upper)):
        if bound is not None:
            arguments[f"{side}_value"] = bound
            if not is_inclusive:
                arguments[f"strict_{side}"] = True
    return arguments


def _integer_bounds(bounds: Between) -> dict[str, int]:
    """Return integer bounds, rounded inward."""
    arguments = {}
    if bounds.lower is not None:
        arguments["min_value"] = ceil(bounds.lower) if bounds.has_lower else floor(bounds.lower) + 1
    if bounds.upper is not None:
        arguments["max_value"] = floor(bounds.upper) if bounds.has_upper else ceil(bounds.upper) - 1
    return arguments


def _filter(where: str | None) -> dict[str, str]:
    return {} if where is None else {"row_condition": where, "condition_parser": "spark"}


Exported = Check | DQM | Suite


def to_great_expectations(
    checks: Exported | Iterable[Exported], *, name: str | None = None
) -> dict[str, Any]:
    """Export checks and rules to an expectation suite of Great Expectations 1.x.

    ``ExpectationSuite(**found)`` accepts it; so does a suite file, as JSON. Constraints on shares
    become row expectations with ``mostly``; conditions without an expectation of their own become
    queries, which Spark and databases run. Filters are row conditions of the ``spark`` parser.
    Nulls and empty tables follow the semantics of Great Expectations: a share of no rows passes
    there.

    Parameters
    ----------
    checks : Check, DQM, Suite, or iterable of them
        For a suite, the rules of its ``dqm`` are exported.
    name : str, optional
        Name of the expectation suite (default: the name of the first item).

    Returns
    -------
    dict
        ``name``, ``expectations``, each with ``type``, ``kwargs`` and ``meta``, and ``meta``. Each
        expectation's ``meta`` holds its ``severity``, its origin ``from``, the source
        ``constraint``, and the ``hint``. Constraints without an expectation are listed in the
        suite's ``meta`` under ``left_out``, with the reason.

    Raises
    ------
    SuiteError
        If there is nothing to export.

    Examples
    --------
    >>> import tidegauge as tg
    >>> check = tg.Check("flights").is_complete("dep_time", at_least=0.95).is_usual(tg.Size())
    >>> found = tg.to_great_expectations(check)
    >>> found["expectations"][0]["type"], found["expectations"][0]["kwargs"]
    ('expect_column_values_to_not_be_null', {'column': 'dep_time', 'mostly': 0.95})
    >>> found["meta"]["left_out"][0]["reason"]
    'it compares with the past, which expectations do not support'
    """
    items = (checks,) if isinstance(checks, Exported) else tuple(checks)
    if not items or not all(isinstance(item, Exported) for item in items):
        msg = "to_great_expectations takes checks, a DQM of rules, or a suite, such as tg.Check('flights')"
        raise SuiteError(msg)
    expectations, left_out = [], []
    for item in items:
        for metadata, body in _bodies(item):
            if isinstance(body, str):
                left_out.append(
                    {"from": metadata["from"], "constraint": metadata["constraint"], "reason": body}
                )
            else:
                expectations.append({"type": body[0], "kwargs": body[1], "meta": metadata})
    meta = {"producer": f"tidegauge {__version__}", "left_out": left_out}
    return {"name": name or _name(items[0]), "expectations": expectations, "meta": meta}


Said = dict[str, Any]


def _bodies(item: Exported) -> Iterator[tuple[Said, Body | str]]:
    """Yield the metadata of each expectation with its body, or the reason why no expectation exists."""
    if isinstance(item, Check):
        yield from _check_expectations(item)
    elif isinstance(item, DQM):
        yield from _rule_expectations(item)
    else:
        if item.dqm is not None:
            yield from _rule_expectations(item.dqm)
        for monitor in item.monitors:
            reason = "it compares with the past, which expectations do not support"
            yield {"from": item.dataset, "constraint": repr(monitor)}, reason


def _check_expectations(check: Check) -> Iterator[tuple[Said, Body | str]]:
    for constraint in check.constraints:
        metadata = {
            "severity": str(check.level),
            "from": check.name,
            "constraint": constraint.description,
            **({"hint": constraint.hint} if constraint.hint else {}),
        }
        try:
            bodies = expectations_of(constraint)
        except NoExpectationError as reason:
            yield metadata, str(reason)
        else:
            yield from ((metadata, body) for body in bodies)


def _rule_expectations(dqm: DQM) -> Iterator[tuple[Said, Body | str]]:
    for task, policy in dqm.task_policies:
        metadata = {"from": dqm.name, "constraint": task.name}
        if not isinstance(task, DQMRule):
            yield metadata, "a fix repairs values and has no expectation"
            continue
        policy_metadata = {} if isinstance(policy, FailNone) else {"policy": repr(policy)}
        metadata = {"severity": task.severity, **metadata, **policy_metadata}
        try:
            bodies = expectations_of_rule(task, policy)
        except NoExpectationError as reason:
            yield metadata, str(reason)
        else:
            yield from ((metadata, body) for body in bodies)
    for data_policy in dqm.policies:
        yield (
            {"from": dqm.name, "constraint": data_policy.name},
            "it applies to all rules and fixes together",
        )


def _name(item: Exported) -> str:
    return item.dataset if isinstance(item, Suite) else item.name
