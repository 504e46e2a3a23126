"""Row-level results: what each row is to an analyzer or constraint, and which rows violate a check.

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
        Numbers are null in either case.

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
    msg = f"{analyzer!r} tells nothing of single rows"
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
"""Shares of good rows, so that each row is good or bad."""
LEAST, GREATEST = (Minimum, MinLength), (Maximum, MaxLength)


def row_predicate(constraint: Constraint, found: str) -> str | None:
    """Return SQL for whether a row satisfies a constraint, given SQL for its `row_outcome`.

    Returns
    -------
    str or None
        None if the constraint does not apply to single rows, such as an upper bound on a share or
        on a minimum, which no single row violates. Null passes.
    """
    if not isinstance(constraint, MetricConstraint) or constraint.part is not None:
        return None
    analyzer, wanted = constraint.analyzer, constraint.assertion
    bounds = wanted if isinstance(wanted, Between) else None
    rule = None
    if isinstance(analyzer, ROW_SHARE_ANALYZERS):
        rule = found if bounds is None or bounds.lower is not None else None
    elif bounds is None:
        rule = None
    elif isinstance(analyzer, LEAST) and bounds.lower is not None:
        rule = f"{found} {'>=' if bounds.has_lower else '>'} {bounds.lower!r}D"
    elif isinstance(analyzer, GREATEST) and bounds.upper is not None:
        rule = f"{found} {'<=' if bounds.has_upper else '<'} {bounds.upper!r}D"
    elif isinstance(analyzer, DuplicateRowCount) and bounds.upper is not None:
        rule = f"NOT {found}"
    return rule and f"coalesce({rule}, true)"


def row_level_frame(data: DataFrame, check: Check, failed: Mapping[int, str]) -> DataFrame:
    """Return data with a boolean column per row-level constraint.

    See `Verification.row_level`; ``failed`` as for `failing_rows`.
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
        As there.
    failed : mapping of int to str
        Why constraints could not be evaluated on the data, by place; they are left out.
    """
    if column.casefold() in {name.casefold() for name in data.columns}:
        msg = f"there is a column {column!r} already; choose another name by column="
        raise SuiteError(msg)
    frame, rules = _with_row_results(data, check, failed)
    names = make_unique([constraint.description for constraint, _ in rules])
    told = [
        f"CASE WHEN NOT {rule} THEN {literal(name)} END"
        for name, (_, rule) in zip(names, rules, strict=True)
    ]
    broken = f"array_compact(array({', '.join(told)})) AS {quote(column)}"
    found = frame.selectExpr(*map(quote, data.columns), broken).where(f"size({quote(column)}) > 0")
    return found if limit is None else found.limit(limit)


def _with_row_results(
    data: DataFrame, check: Check, failed: Mapping[int, str]
) -> tuple[DataFrame, list[tuple[Constraint, str]]]:
    """Return data with row-level results, and the row-level constraints, each with its SQL rule.

    Constraints that cannot be evaluated are left out with a warning, so that the others are shown.
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
        msg = f"check {check.name!r} tells nothing of single rows: {names}"
        raise SuiteError(msg)
    asked = {column: constraint.analyzer for column, (constraint, _) in rules.items()}
    lacking = {columns[place]: why for place, why in failed.items()}
    try:
        frame = row_level_results(data, {c: a for c, a in asked.items() if c not in lacking})
    except MetricError:
        for column, analyzer in asked.items():
            try:
                row_level_results(data, {column: analyzer})
            except MetricError as error:
                lacking[column] = str(error)
        frame = row_level_results(data, {c: a for c, a in asked.items() if c not in lacking})
    left_out = [(rules[c][0].description, why) for c, why in lacking.items() if c in rules]
    if left_out:
        told = "; ".join(f"{name}: {why}" for name, why in left_out)
        warnings.warn(f"without constraints that cannot be evaluated: {told}", VerdictWarning, 4)
    return frame, [found for column, found in rules.items() if column not in lacking]


def make_unique(names: Sequence[str], taken: Iterable[str] = ()) -> list[str]:
    """Return names made unique, ignoring letter case, by numbering duplicates.

    Examples
    --------
    >>> make_unique(["a", "a", "a (2)"]), make_unique(["a"], ["A"])
    (['a', 'a (3)', 'a (2)'], ['a (2)'])
    """
    used = {name.casefold() for name in taken}
    own = {name.casefold() for name in names}
    found = []
    for name in names:
        new, number = name, 1
        while new.casefold() in used or (new != name and new.casefold() in own):
            number += 1
            new = f"{name} ({number})"
        used.add(new.casefold())
        found.append(new)
    return found


MOST_CONSTRAINTS = 50
"""Number of constraints for which examples are looked for."""
MOST_COLUMNS = 3
"""Greatest number of columns of a condition whose values are shown."""
WIDTH = 40
"""Maximum characters of a value."""
UNPRINTABLE = NESTED | {"binary", "interval", "void"}


@dataclass(frozen=True)
class BadRows:
    """Bad rows of a constraint: how many there are, or None if they are not counted, and some values."""

    rows: int | None
    values: tuple[str, ...]


@handled_errors()
def examples_of(
    data: DataFrame,
    constraints: Iterable[Constraint],
    private: Privacy | None = None,
    groups: Groups | None = None,
) -> dict[tuple[Values, Constraint], BadRows]:
    """Return up to three bad values of each constraint: the least, the greatest, and any other.

    One Spark job for all constraints on single rows, and one for each on uniqueness. The same data
    always give the same values.

    Parameters
    ----------
    data : DataFrame
    constraints : iterable of Constraint
        Those that values do not explain are left out: on completeness, on nested columns, and
        conditions on many columns.
    private : Privacy, optional
        Columns whose values are not to be shown; constraints on them are left out.
    groups : Groups, optional
        Partition columns: examples are found for each partition.

    Returns
    -------
    dict
        By the partition's values and the constraint; no entry if there is no bad row. Rows are not
        counted for uniqueness.
    """
    groups = groups or Groups()
    schema = Schema.from_frame(data)
    private = private or Privacy()
    asked = [_asked(one, schema, private) for one in dict.fromkeys(constraints)]
    some = [one for one in asked if one is not None][:MOST_CONSTRAINTS]
    together = [one for one in some if not one.duplicates]
    found: dict[tuple[Values, Constraint], BadRows] = {}
    for job in filter(None, [together, *([one] for one in some if one.duplicates)]):
        try:
            found |= dict(_collected(data, job, groups))
        except Exception as error:  # noqa: BLE001 - the verdict stands without examples
            warnings.warn(f"no examples of bad values: {describe(error)}", VerdictWarning, 3)
    return found


@dataclass(frozen=True)
class _Asked:
    """A constraint with the query for its bad values.

    Attributes
    ----------
    constraint : Constraint
    fields : sequence of Field
        The columns whose values are shown.
    bad : str
        SQL for whether a row is bad, or, of duplicates, for whether it counts.
    duplicates : bool
        True if a row is bad because another has the same values.
    """

    constraint: Constraint
    fields: Sequence[Field]
    bad: str
    duplicates: bool = False

    @property
    def values(self) -> str:
        """SQL for the values of a bad row, as a struct; null for all others."""
        columns = ", ".join(field.uncollated_sql for field in self.fields)
        return f"CASE WHEN {self.bad} THEN struct({columns}) END"


def _asked(constraint: Constraint, schema: Schema, private: Privacy) -> _Asked | None:
    """Return how to find bad values; None if none explains the constraint, or they are private."""
    columns = _columns(constraint.analyzer, schema)
    if not 0 < len(columns) <= MOST_COLUMNS:
        return None
    if any(private.covers(column, schema) for column in columns):
        return None
    fields = [schema.field(column) for column in columns]
    if any(field.kind in UNPRINTABLE for field in fields):
        return None
    analyzer = constraint.analyzer.with_exact_comparisons(schema)
    where = "true" if analyzer.where is None else f"(\n{analyzer.where}\n)"
    if isinstance(analyzer, Uniqueness):
        rule = row_predicate(constraint, "true")
        return _Asked(constraint, fields, where, duplicates=True) if rule else None
    rule = row_predicate(constraint, f"({row_outcome(analyzer, schema)})")
    return _Asked(constraint, fields, f"{where} AND NOT {rule}") if rule else None


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


def _collected(
    data: DataFrame, asked: Sequence[_Asked], groups: Groups
) -> Iterator[tuple[tuple[Values, Constraint], BadRows]]:
    """Run one job, and yield the examples of each partition and constraint that has any."""
    from pyspark.sql import functions as F

    if asked[0].duplicates:
        keyed = _duplicates(groups.with_keys(data), asked[0], groups)
        values = [f"struct({', '.join(_aliases(asked[0].fields))})"]
    else:  # columns of a projection, so that each condition is evaluated once a row
        values = [f"__tidegauge_bad{i}" for i in range(len(asked))]
        keyed = groups.with_keys(
            data, *(f"{one.values} AS {n}" for one, n in zip(asked, values, strict=True))
        )
    cells = []
    for one, value in zip(asked, values, strict=True):
        hashed = f"CASE WHEN {value} IS NOT NULL THEN xxhash64({value}) END"
        some = (f"min({value})", f"min_by({value}, {hashed})", f"max({value})")
        texts = "STRUCT<" + ", ".join(f"v{i}: STRING" for i in range(len(one.fields))) + ">"
        cells.append(F.expr(f"array({', '.join(f'CAST({cell} AS {texts})' for cell in some)})"))
    named = [cell.alias(f"e{number}") for number, cell in enumerate(cells)]
    named += [F.expr(f"count({value})").alias(f"n{number}") for number, value in enumerate(values)]
    for row in groups.aggregated(keyed, named).collect():
        key, _ = groups.key_of(row)
        for number, one in enumerate(asked):
            bad = dict.fromkeys(tuple(v) for v in row[f"e{number}"] if v is not None)
            if bad:
                rows = None if one.duplicates else row[f"n{number}"]
                told = tuple(_told(one.fields, value) for value in bad)
                yield (key, one.constraint), BadRows(rows, told)


def _duplicates(keyed: DataFrame, asked: _Asked, groups: Groups) -> DataFrame:
    """Return the values that occur more than once, a row for each and its partition."""
    known = " OR ".join(f"{field.sql} IS NOT NULL" for field in asked.fields)
    names = _aliases(asked.fields)
    values = [f"{f.uncollated_sql} AS {n}" for f, n in zip(asked.fields, names, strict=True)]
    rows = keyed.where(f"{asked.bad} AND ({known})").selectExpr(*groups.names, *values)
    return rows.groupBy(*groups.names, *names).count().where("count > 1")


def _aliases(fields: Sequence[Field]) -> list[str]:
    return [f"__tidegauge_v{i}" for i in range(len(fields))]


def _told(fields: Sequence[Field], values: Sequence[str | None]) -> str:
    """Return the values of a row as text: one value alone, several with their columns."""
    texts = [_value(field, value) for field, value in zip(fields, values, strict=True)]
    if len(texts) == 1:
        return texts[0]
    names = (".".join(map(str, parts(field.path))) for field in fields)
    return f"({', '.join(f'{name}: {text}' for name, text in zip(names, texts, strict=True))})"


def _value(field: Field, value: str | None) -> str:
    """Return a value for a message: text in quotes, on one line, cut if it is long."""
    if value is None:
        return "null"
    text = plain(value, WIDTH) if value else ""
    return f"'{text}'" if field.kind in TEXT else text
