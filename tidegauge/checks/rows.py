"""Row-level results: the result of an analyzer or constraint for each row, and the rows that violate a check.

`row_level_results` adds a column for each analyzer. `failing_rows` selects the rows that violate constraints,
and `examples_of` finds examples of their bad values for messages.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import TYPE_CHECKING, Any

from tidegauge.analyzers.core.analyzer import Analyzer, AnyAnalyzer
from tidegauge.analyzers.core.errors import (
    IllegalAnalyzerParameterError,
    MetricError,
    SuiteError,
    UnresolvedExpressionError,
    VerdictWarning,
    describe,
)
from tidegauge.analyzers.core.formatting import plain
from tidegauge.analyzers.core.partitions import Values
from tidegauge.analyzers.core.privacy import Privacy
from tidegauge.analyzers.core.schema import (
    NESTED,
    TEXT,
    Field,
    Schema,
    check_distinct_columns,
    check_frame,
)
from tidegauge.analyzers.core.sql import literal, parts, quote, words_in
from tidegauge.analyzers.measures.counts import Completeness, Compliance
from tidegauge.analyzers.measures.extremes import ExtremeAnalyzer, Maximum, Minimum, Range
from tidegauge.analyzers.measures.frequencies import DuplicateRowCount, Uniqueness, UniqueValueRatio
from tidegauge.analyzers.measures.texts import PATTERNS, MaxLength, MinLength, PatternMatch
from tidegauge.analyzers.scan.grouping import Groups
from tidegauge.analyzers.scan.spark_errors import handled_errors
from tidegauge.checks.assertions import Between
from tidegauge.checks.check import Check
from tidegauge.checks.constraints import Constraint, MetricConstraint

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


FILTERED_ROWS = ("true", "null")


@handled_errors()
def row_level_results(
    data: DataFrame, analyzers: Mapping[str, Analyzer[Any, Any]], filtered_row: str = "true"
) -> DataFrame:
    """Add a column for each analyzer with its row-level result.

    Completeness, Compliance, PatternMatch, Uniqueness and UniqueValueRatio add a boolean that is true if the
    row passes. DuplicateRowCount adds a boolean that is true if the row is a duplicate. Minimum, Maximum,
    MinLength and MaxLength add the row's number. Evaluation is lazy; analyzers that count values need a
    shuffle.

    Parameters
    ----------
    data : DataFrame
        The data, which can be a stream.
    analyzers : mapping of str to Analyzer
        Analyzers by the names of the new columns.
    filtered_row : str
        Result for rows excluded by the analyzer's filter: ``true`` (the row passes) or ``null``.
        Numbers of such rows are always null.

    Raises
    ------
    SuiteError
        If a column already exists, or an analyzer has no row-level result.
    PreconditionError
        If the data does not fit an analyzer, or ``filtered_row`` is invalid.

    Examples
    --------
    >>> import tidegauge as tg
    >>> rules = {"has_email": tg.Completeness("email"), "unique": tg.Uniqueness("id")}
    >>> sql = "SELECT * FROM VALUES (1, 'a@x.org'), (1, NULL), (2, 'b@x.org') AS (id, email)"
    >>> results = row_level_results(tg.spark_session().sql(sql), rules)  # doctest: +SKIP
    >>> results.orderBy("id", "email").select("has_email", "unique").collect()  # doctest: +SKIP
    [Row(has_email=False, unique=False), Row(has_email=True, unique=False), Row(has_email=True, unique=True)]
    """
    from pyspark.errors import AnalysisException

    if filtered_row not in FILTERED_ROWS:
        msg = f"filtered_row must be 'true' or 'null', not {filtered_row!r}"
        raise IllegalAnalyzerParameterError(msg)
    check_frame(data, streaming=True)
    schema = Schema.from_frame(data)
    used_names = {name.casefold() for name in schema.names}
    columns = []
    for name, requested in analyzers.items():
        if name.casefold() in used_names:
            msg = f"the data already has a column {name!r}; choose another name"
            raise SuiteError(msg)
        used_names.add(name.casefold())
        requested.preconditions(schema)
        analyzer = requested.with_exact_comparisons(schema)
        outcome, is_flag = row_outcome(analyzer, schema), not isinstance(analyzer, ExtremeAnalyzer)
        if analyzer.where is not None:
            filtered_result = "true" if filtered_row == "true" and is_flag else "NULL"
            outcome = f"CASE WHEN (\n{analyzer.where}\n) THEN {outcome} ELSE {filtered_result} END"
        columns.append(f"{outcome} AS {quote(name)}")
    try:
        result = data.selectExpr("*", *columns)
        result.schema  # noqa: B018 - forces resolution on Spark Connect
    except AnalysisException as error:
        raise UnresolvedExpressionError(describe(error)) from error
    return result


@singledispatch
def row_outcome(analyzer: Any, schema: Schema) -> str:
    """Return SQL for an analyzer's row-level result; nulls are treated as in the metric."""
    msg = f"{analyzer!r} has no row-level result"
    raise SuiteError(msg)


@row_outcome.register
def _(analyzer: Completeness, schema: Schema) -> str:
    return f"{analyzer.field(schema).sql} IS NOT NULL"


@row_outcome.register
def _(analyzer: Compliance, schema: Schema) -> str:
    return f"coalesce((\n{analyzer.predicate}\n), false)"


@row_outcome.register
def _(analyzer: PatternMatch, schema: Schema) -> str:
    column = analyzer.field(schema).uncollated_sql
    pattern = literal(PATTERNS.get(analyzer.pattern, analyzer.pattern))
    return {
        "ignore": f"{column} RLIKE {pattern}",
        "empty": f"coalesce({column}, '') RLIKE {pattern}",
        "fail": f"coalesce({column} RLIKE {pattern}, false)",
    }[analyzer.null_behavior]


@row_outcome.register
def _(analyzer: ExtremeAnalyzer, schema: Schema) -> str:
    return analyzer.number(schema)


@row_outcome.register
def _(analyzer: Range, schema: Schema) -> str:
    msg = f"{analyzer!r} has no row-level result"
    raise SuiteError(msg)


@row_outcome.register
def _(analyzer: Uniqueness, schema: Schema) -> str:
    return _unique_sql(analyzer, schema)


@row_outcome.register
def _(analyzer: UniqueValueRatio, schema: Schema) -> str:
    return _unique_sql(analyzer, schema)


@row_outcome.register
def _(analyzer: DuplicateRowCount, schema: Schema) -> str:
    return f"NOT {_unique_sql(analyzer, schema)}"


def _unique_sql(analyzer: Uniqueness | UniqueValueRatio | DuplicateRowCount, schema: Schema) -> str:
    """Return SQL that is true if no other row has the same values; null if all values are null."""
    keys = analyzer.grouping_expressions(schema)
    counted = "1" if analyzer.where is None else f"CASE WHEN (\n{analyzer.where}\n) THEN 1 END"
    has_value = " OR ".join(f"{key} IS NOT NULL" for key in keys)
    is_unique = f"count({counted}) OVER (PARTITION BY {', '.join(keys)}) = 1"
    return f"CASE WHEN {has_value} THEN {is_unique} END"


ROW_SHARE_ANALYZERS = (Completeness, Compliance, PatternMatch, Uniqueness, UniqueValueRatio)
"""Analyzers of shares of good rows, for which each row is good or bad."""
MINIMUM_ANALYZERS, MAXIMUM_ANALYZERS = (Minimum, MinLength), (Maximum, MaxLength)


def row_predicate(constraint: Constraint, outcome: str) -> str | None:
    """Return SQL that is true if a row satisfies a constraint, given SQL for its `row_outcome`.

    Returns
    -------
    str or None
        None if the constraint does not apply to single rows, such as an upper bound on a share or
        on a minimum, which no single row violates. Null passes.
    """
    if not isinstance(constraint, MetricConstraint) or constraint.part is not None:
        return None
    analyzer, assertion = constraint.analyzer, constraint.assertion
    bounds = assertion if isinstance(assertion, Between) else None
    rule = None
    if isinstance(analyzer, ROW_SHARE_ANALYZERS):
        rule = outcome if bounds is None or bounds.lower is not None else None
    elif bounds is None:
        rule = None
    elif isinstance(analyzer, MINIMUM_ANALYZERS) and bounds.lower is not None:
        rule = f"{outcome} {'>=' if bounds.has_lower else '>'} {bounds.lower!r}D"
    elif isinstance(analyzer, MAXIMUM_ANALYZERS) and bounds.upper is not None:
        rule = f"{outcome} {'<=' if bounds.has_upper else '<'} {bounds.upper!r}D"
    elif isinstance(analyzer, DuplicateRowCount) and bounds.upper is not None:
        rule = f"NOT {outcome}"
    return rule and f"coalesce({rule}, true)"


def row_level_frame(data: DataFrame, check: Check, failed: Mapping[int, str]) -> DataFrame:
    """Return data with a boolean column per row-level constraint.

    See `Verification.row_level`, and `failing_rows` for ``failed``.
    """
    frame, rules = _with_row_results(data, check, failed)
    names = make_unique([constraint.description for constraint, _ in rules], data.columns)
    flags = [f"{rule} AS {quote(name)}" for name, (_, rule) in zip(names, rules, strict=True)]
    return frame.selectExpr(*map(quote, data.columns), *flags)


def failing_rows(
    data: DataFrame, check: Check, column: str, limit: int | None, failed: Mapping[int, str]
) -> DataFrame:
    """Return the rows that violate a constraint; see `Verification.rows`.

    Parameters
    ----------
    data, check, column, limit
        As for `Verification.rows`.
    failed : mapping of int to str
        Errors of constraints that could not be evaluated on the data, by index; they are omitted.
    """
    if column.casefold() in {name.casefold() for name in data.columns}:
        msg = f"the data already has a column {column!r}; choose another name: column="
        raise SuiteError(msg)
    frame, rules = _with_row_results(data, check, failed)
    names = make_unique([constraint.description for constraint, _ in rules])
    broken_names = [
        f"CASE WHEN NOT {rule} THEN {literal(name)} END"
        for name, (_, rule) in zip(names, rules, strict=True)
    ]
    broken = f"array_compact(array({', '.join(broken_names)})) AS {quote(column)}"
    violating = frame.selectExpr(*map(quote, data.columns), broken).where(
        f"size({quote(column)}) > 0"
    )
    return violating if limit is None else violating.limit(limit)


def _with_row_results(
    data: DataFrame, check: Check, failed: Mapping[int, str]
) -> tuple[DataFrame, list[tuple[Constraint, str]]]:
    """Return data with row-level results, and the row-level constraints, each with its SQL rule.

    Constraints that cannot be evaluated are omitted with a warning.
    """
    check_distinct_columns(data)
    columns = make_unique(["tidegauge"] * len(check.constraints), [*data.columns, "tidegauge"])
    rules = {
        column: (constraint, rule)
        for column, constraint in zip(columns, check.constraints, strict=True)
        if (rule := row_predicate(constraint, quote(column)))
    }
    if not rules:
        names = "; ".join(constraint.description for constraint in check.constraints)
        msg = f"check {check.name!r} has no constraint with a row-level result: {names}"
        raise SuiteError(msg)
    analyzers = {column: constraint.analyzer for column, (constraint, _) in rules.items()}
    errors_by_column = {columns[index]: error_message for index, error_message in failed.items()}
    try:
        frame = row_level_results(
            data, {c: a for c, a in analyzers.items() if c not in errors_by_column}
        )
    except MetricError:
        for column, analyzer in analyzers.items():
            try:
                row_level_results(data, {column: analyzer})
            except MetricError as error:
                errors_by_column[column] = str(error)
        frame = row_level_results(
            data, {c: a for c, a in analyzers.items() if c not in errors_by_column}
        )
    omitted = [
        (rules[c][0].description, error_message)
        for c, error_message in errors_by_column.items()
        if c in rules
    ]
    if omitted:
        listed = "; ".join(f"{name}: {error_message}" for name, error_message in omitted)
        warnings.warn(f"omitted constraints that cannot be evaluated: {listed}", VerdictWarning, 4)
    return frame, [
        constraint_and_rule
        for column, constraint_and_rule in rules.items()
        if column not in errors_by_column
    ]


def make_unique(names: Sequence[str], reserved: Iterable[str] = ()) -> list[str]:
    """Return names made unique, ignoring letter case, by numbering duplicates.

    Examples
    --------
    >>> make_unique(["a", "a", "a (2)"]), make_unique(["a"], ["A"])
    (['a', 'a (3)', 'a (2)'], ['a (2)'])
    """
    used = {name.casefold() for name in reserved}
    given_names = {name.casefold() for name in names}
    result = []
    for name in names:
        unique_name, number = name, 1
        while unique_name.casefold() in used or (
            unique_name != name and unique_name.casefold() in given_names
        ):
            number += 1
            unique_name = f"{name} ({number})"
        used.add(unique_name.casefold())
        result.append(unique_name)
    return result


MAX_EXPLAINED_CONSTRAINTS = 50
"""Limit on the constraints with examples, which bounds the size of the Spark job."""
MAX_EXPLAINED_COLUMNS = 3
"""Limit on the columns of a condition whose values are shown; more values explain little."""
MAX_VALUE_LENGTH = 40
"""Limit on the characters of a value in a message."""
UNPRINTABLE_KINDS = NESTED | {"binary", "interval", "void"}


@dataclass(frozen=True)
class BadRows:
    """Bad rows of a constraint: their number, or None if they are not counted, and some values."""

    rows: int | None
    values: tuple[str, ...]


@handled_errors()
def examples_of(
    data: DataFrame,
    constraints: Iterable[Constraint],
    private: Privacy | None = None,
    groups: Groups | None = None,
) -> dict[tuple[Values, Constraint], BadRows]:
    """Return up to three bad values of each constraint: the least, the greatest, and any other value.

    All constraints on single rows share a Spark job, and each constraint on uniqueness needs another job. Equal
    data always gives equal values.

    Parameters
    ----------
    data : DataFrame
        The verified data.
    constraints : iterable of Constraint
        The constraints. Constraints that bad values would not explain are omitted: completeness, nested
        columns, and conditions on many columns.
    private : Privacy, optional
        Columns whose values must not be shown; constraints on them are omitted.
    groups : Groups, optional
        Partition columns: examples are found for each partition.

    Returns
    -------
    dict
        Bad rows by the partition's values and the constraint; no entry without bad rows. Rows are not
        counted for uniqueness.
    """
    groups = groups or Groups()
    schema = Schema.from_frame(data)
    private = private or Privacy()
    queries = [
        _bad_value_query(constraint, schema, private) for constraint in dict.fromkeys(constraints)
    ]
    selected = [constraint for constraint in queries if constraint is not None][
        :MAX_EXPLAINED_CONSTRAINTS
    ]
    on_single_rows = [constraint for constraint in selected if not constraint.duplicates]
    bad_rows: dict[tuple[Values, Constraint], BadRows] = {}
    for job in filter(
        None, [on_single_rows, *([constraint] for constraint in selected if constraint.duplicates)]
    ):
        try:
            bad_rows |= dict(_collect_examples(data, job, groups))
        except Exception as error:  # noqa: BLE001 - the verdict is valid without examples
            warnings.warn(f"no examples of bad values: {describe(error)}", VerdictWarning, 3)
    return bad_rows


@dataclass(frozen=True)
class _BadValueQuery:
    """A constraint with the query for its bad values.

    Attributes
    ----------
    constraint : Constraint
        The constraint.
    fields : sequence of Field
        The columns whose values are shown.
    bad : str
        SQL that is true if a row is bad; for duplicates, true if the row is counted.
    duplicates : bool
        Whether a row is bad because another row has the same values.
    """

    constraint: Constraint
    fields: Sequence[Field]
    bad: str
    duplicates: bool = False

    @property
    def values(self) -> str:
        """SQL for the values of a bad row, as a struct; null for all other rows."""
        columns = ", ".join(field.uncollated_sql for field in self.fields)
        return f"CASE WHEN {self.bad} THEN struct({columns}) END"


def _bad_value_query(
    constraint: Constraint, schema: Schema, private: Privacy
) -> _BadValueQuery | None:
    """Return the query for bad values; None if values do not explain the constraint or are private."""
    columns = _columns(constraint.analyzer, schema)
    if not 0 < len(columns) <= MAX_EXPLAINED_COLUMNS:
        return None
    if any(private.covers(column, schema) for column in columns):
        return None
    fields = [schema.field(column) for column in columns]
    if any(field.kind in UNPRINTABLE_KINDS for field in fields):
        return None
    analyzer = constraint.analyzer.with_exact_comparisons(schema)
    where = "true" if analyzer.where is None else f"(\n{analyzer.where}\n)"
    if isinstance(analyzer, Uniqueness):
        rule = row_predicate(constraint, "true")
        return _BadValueQuery(constraint, fields, where, duplicates=True) if rule else None
    rule = row_predicate(constraint, f"({row_outcome(analyzer, schema)})")
    return _BadValueQuery(constraint, fields, f"{where} AND NOT {rule}") if rule else None


def _columns(analyzer: AnyAnalyzer, schema: Schema) -> tuple[str, ...]:
    """Return the columns whose values explain a constraint on an analyzer."""
    if isinstance(analyzer, PatternMatch | MinLength | MaxLength | Minimum | Maximum):
        return (analyzer.column,)
    if isinstance(analyzer, Uniqueness):
        return analyzer.columns
    if isinstance(analyzer, Compliance):
        words = words_in(analyzer.predicate)
        return tuple(quote(name) for name in schema.names if name.casefold() in words)
    return ()


def _collect_examples(
    data: DataFrame, queries: Sequence[_BadValueQuery], groups: Groups
) -> Iterator[tuple[tuple[Values, Constraint], BadRows]]:
    """Run a job, and yield the examples of each partition and constraint with bad rows."""
    from pyspark.sql import functions as F

    if queries[0].duplicates:
        keyed = _duplicates(groups.with_keys(data), queries[0], groups)
        values = [f"struct({', '.join(_aliases(queries[0].fields))})"]
    else:  # columns of a projection, so that each condition is evaluated once per row
        values = [f"__tidegauge_bad{i}" for i in range(len(queries))]
        keyed = groups.with_keys(
            data, *(f"{query.values} AS {n}" for query, n in zip(queries, values, strict=True))
        )
    cells = []
    for query, value in zip(queries, values, strict=True):
        hashed = f"CASE WHEN {value} IS NOT NULL THEN xxhash64({value}) END"
        aggregates = (f"min({value})", f"min_by({value}, {hashed})", f"max({value})")
        struct_type = "STRUCT<" + ", ".join(f"v{i}: STRING" for i in range(len(query.fields))) + ">"
        cells.append(
            F.expr(f"array({', '.join(f'CAST({cell} AS {struct_type})' for cell in aggregates)})")
        )
    aliased = [cell.alias(f"e{number}") for number, cell in enumerate(cells)]
    aliased += [
        F.expr(f"count({value})").alias(f"n{number}") for number, value in enumerate(values)
    ]
    for row in groups.aggregated(keyed, aliased).collect():
        key, _ = groups.key_of(row)
        for number, query in enumerate(queries):
            bad_values = dict.fromkeys(tuple(v) for v in row[f"e{number}"] if v is not None)
            if bad_values:
                rows = None if query.duplicates else row[f"n{number}"]
                formatted = tuple(_format_values(query.fields, value) for value in bad_values)
                yield (key, query.constraint), BadRows(rows, formatted)


def _duplicates(keyed: DataFrame, query: _BadValueQuery, groups: Groups) -> DataFrame:
    """Return the values that occur more than once, with one row for each value and partition."""
    has_value = " OR ".join(f"{field.sql} IS NOT NULL" for field in query.fields)
    names = _aliases(query.fields)
    values = [f"{f.uncollated_sql} AS {n}" for f, n in zip(query.fields, names, strict=True)]
    rows = keyed.where(f"{query.bad} AND ({has_value})").selectExpr(*groups.names, *values)
    return rows.groupBy(*groups.names, *names).count().where("count > 1")


def _aliases(fields: Sequence[Field]) -> list[str]:
    return [f"__tidegauge_v{i}" for i in range(len(fields))]


def _format_values(fields: Sequence[Field], values: Sequence[str | None]) -> str:
    """Return the values of a row for a message: a single value, or several values with their columns."""
    formatted = [_value(field, value) for field, value in zip(fields, values, strict=True)]
    if len(formatted) == 1:
        return formatted[0]
    names = (".".join(map(str, parts(field.path))) for field in fields)
    return f"({', '.join(f'{name}: {text}' for name, text in zip(names, formatted, strict=True))})"


def _value(field: Field, value: str | None) -> str:
    """Return a value for a message: a string in quotes, on one line, truncated if it is long."""
    if value is None:
        return "null"
    printed = plain(value, MAX_VALUE_LENGTH) if value else ""
    return f"'{printed}'" if field.kind in TEXT else printed
