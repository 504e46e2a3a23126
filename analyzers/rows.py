"""What single rows contribute: `row_level_results`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import singledispatch
from typing import TYPE_CHECKING, Any

from analyzers.analyzer import Analyzer
from analyzers.counts import Completeness, Compliance
from analyzers.errors import (
    IllegalAnalyzerParameterError,
    SuiteError,
    UnresolvedExpressionError,
    describe,
)
from analyzers.extremes import ExtremeAnalyzer, Range
from analyzers.schema import Schema
from analyzers.sql import literal, quote
from analyzers.texts import PATTERNS, PatternMatch
from analyzers.uniqueness import DuplicateRowCount, Uniqueness, UniqueValueRatio

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FILTERED_ROWS = ("true", "null")


def row_level_results(
    data: DataFrame, analyzers: Mapping[str, Analyzer[Any, Any]], filtered_row: str = "true"
) -> DataFrame:
    """Return the data with a column for each analyzer that says what each row contributes.

    Completeness, Compliance, PatternMatch, Uniqueness and UniqueValueRatio give whether the row is a
    good one, DuplicateRowCount whether it is a duplicate; Minimum, Maximum, MinLength and MaxLength
    give the row's number. Nothing is computed before the result is used; those that count values need
    a shuffle.

    Parameters
    ----------
    data : DataFrame
    analyzers : mapping of str to Analyzer
        By the names of the new columns.
    filtered_row : str
        What a row gets that the analyzer's filter leaves out: ``true``, it is no bad one, or ``null``.
        A number is null then in either case.

    Raises
    ------
    SuiteError
        If a column is there already, or an analyzer tells nothing of single rows.
    PreconditionError
        If the data does not suit an analyzer.

    Examples
    --------
    >>> import tidegauge as tg
    >>> rules = {"has_email": tg.Completeness("email"), "alone": tg.Uniqueness("id")}
    >>> judged = row_level_results(users, rules)  # doctest: +SKIP
    """
    from pyspark.errors import AnalysisException  # noqa: PLC0415 - analyzers import no Spark

    if filtered_row not in FILTERED_ROWS:
        msg = f"filtered_row must be 'true' or 'null', not {filtered_row!r}"
        raise IllegalAnalyzerParameterError(msg)
    schema = Schema.of_frame(data)
    taken = {name.casefold() for name in schema.names}
    columns = []
    for name, analyzer in analyzers.items():
        if name.casefold() in taken:
            msg = f"there is a column {name!r} already; choose another name"
            raise SuiteError(msg)
        taken.add(name.casefold())
        analyzer.preconditions(schema)
        outcome, is_flag = row_outcome(analyzer, schema), not isinstance(analyzer, ExtremeAnalyzer)
        if analyzer.where is not None:
            other = "true" if filtered_row == "true" and is_flag else "NULL"
            outcome = f"CASE WHEN (\n{analyzer.where}\n) THEN {outcome} ELSE {other} END"
        columns.append(f"{outcome} AS {quote(name)}")
    try:
        found = data.selectExpr("*", *columns)
        found.schema  # noqa: B018 - on Spark Connect, asking is what resolves it
    except AnalysisException as error:
        raise UnresolvedExpressionError(describe(error)) from error
    return found


@singledispatch
def row_outcome(analyzer: Any, schema: Schema) -> str:  # noqa: ARG001
    """Return SQL for what a row contributes; null counts as the metric counts it."""
    msg = f"{analyzer!r} tells nothing of single rows"
    raise SuiteError(msg)


@row_outcome.register
def _(analyzer: Completeness, schema: Schema) -> str:
    return f"{analyzer.field(schema).sql} IS NOT NULL"


@row_outcome.register
def _(analyzer: Compliance, schema: Schema) -> str:  # noqa: ARG001
    return f"coalesce((\n{analyzer.predicate}\n), false)"


@row_outcome.register
def _(analyzer: PatternMatch, schema: Schema) -> str:
    column = analyzer.field(schema).sql
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
def _(analyzer: Range, schema: Schema) -> str:  # noqa: ARG001
    msg = f"{analyzer!r} tells nothing of single rows"
    raise SuiteError(msg)


@row_outcome.register
def _(analyzer: Uniqueness, schema: Schema) -> str:
    return _alone(analyzer, schema)


@row_outcome.register
def _(analyzer: UniqueValueRatio, schema: Schema) -> str:
    return _alone(analyzer, schema)


@row_outcome.register
def _(analyzer: DuplicateRowCount, schema: Schema) -> str:
    return f"NOT {_alone(analyzer, schema)}"


def _alone(analyzer: Uniqueness | UniqueValueRatio | DuplicateRowCount, schema: Schema) -> str:
    """Return SQL for whether no other row has the values; rows without any are left out, as null."""
    keys = analyzer.grouping_expressions(schema)
    counted = "1" if analyzer.where is None else f"CASE WHEN (\n{analyzer.where}\n) THEN 1 END"
    known = " OR ".join(f"{key} IS NOT NULL" for key in keys)
    alone = f"count({counted}) OVER (PARTITION BY {', '.join(keys)}) = 1"
    return f"CASE WHEN {known} THEN {alone} END"
