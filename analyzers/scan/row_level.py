"""Row-level results of analyzers as columns of a DataFrame."""

from __future__ import annotations

from collections.abc import Mapping
from functools import singledispatch
from typing import TYPE_CHECKING, Any

from tidegauge.analyzers.core.analyzer import Analyzer
from tidegauge.analyzers.core.errors import (
    IllegalAnalyzerParameterError,
    SuiteError,
    UnresolvedExpressionError,
    describe,
)
from tidegauge.analyzers.core.schema import Schema, check_frame
from tidegauge.analyzers.core.sql import literal, quote
from tidegauge.analyzers.measures.counts import Completeness, Compliance
from tidegauge.analyzers.measures.extremes import ExtremeAnalyzer, Range
from tidegauge.analyzers.measures.frequencies import DuplicateRowCount, Uniqueness, UniqueValueRatio
from tidegauge.analyzers.measures.texts import PATTERNS, PatternMatch
from tidegauge.analyzers.scan.spark_errors import handled_errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FILTERED_ROWS = ("true", "null")


@handled_errors()
def row_level_results(
    data: DataFrame, analyzers: Mapping[str, Analyzer[Any, Any]], filtered_row: str = "true"
) -> DataFrame:
    """Add a column for each analyzer with its row-level result.

    Completeness, Compliance, PatternMatch, Uniqueness and UniqueValueRatio give a boolean that is true
    if the row passes, DuplicateRowCount one that is true if it is a duplicate; Minimum, Maximum,
    MinLength and MaxLength give the row's number. Evaluation is lazy; analyzers that count values need a
    shuffle.

    Parameters
    ----------
    data : DataFrame
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
    >>> rules = {"has_email": tg.Completeness("email"), "alone": tg.Uniqueness("id")}
    >>> sql = "SELECT * FROM VALUES (1, 'a@x.org'), (1, NULL), (2, 'b@x.org') AS (id, email)"
    >>> judged = row_level_results(tg.spark_session().sql(sql), rules)  # doctest: +SKIP
    >>> judged.orderBy("id", "email").select("has_email", "alone").collect()  # doctest: +SKIP
    [Row(has_email=False, alone=False), Row(has_email=True, alone=False), Row(has_email=True, alone=True)]
    """
    from pyspark.errors import AnalysisException

    if filtered_row not in FILTERED_ROWS:
        msg = f"filtered_row must be 'true' or 'null', not {filtered_row!r}"
        raise IllegalAnalyzerParameterError(msg)
    check_frame(data, streaming=True)
    schema = Schema.from_frame(data)
    taken = {name.casefold() for name in schema.names}
    columns = []
    for name, given in analyzers.items():
        if name.casefold() in taken:
            msg = f"there is a column {name!r} already; choose another name"
            raise SuiteError(msg)
        taken.add(name.casefold())
        given.preconditions(schema)
        analyzer = given.with_exact_comparisons(schema)
        outcome, is_flag = row_outcome(analyzer, schema), not isinstance(analyzer, ExtremeAnalyzer)
        if analyzer.where is not None:
            other = "true" if filtered_row == "true" and is_flag else "NULL"
            outcome = f"CASE WHEN (\n{analyzer.where}\n) THEN {outcome} ELSE {other} END"
        columns.append(f"{outcome} AS {quote(name)}")
    try:
        found = data.selectExpr("*", *columns)
        found.schema  # noqa: B018 - forces resolution on Spark Connect
    except AnalysisException as error:
        raise UnresolvedExpressionError(describe(error)) from error
    return found


@singledispatch
def row_outcome(analyzer: Any, schema: Schema) -> str:
    """Return SQL for an analyzer's row-level result; nulls are treated as in the metric."""
    msg = f"{analyzer!r} tells nothing of single rows"
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
    known = " OR ".join(f"{key} IS NOT NULL" for key in keys)
    alone = f"count({counted}) OVER (PARTITION BY {', '.join(keys)}) = 1"
    return f"CASE WHEN {known} THEN {alone} END"
