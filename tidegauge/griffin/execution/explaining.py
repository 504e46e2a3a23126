"""Errors of Spark in the words and places of a job's rules."""

from __future__ import annotations

import re

from tidegauge.analyzers.core.errors import (
    DslError,
    MetricRuntimeError,
    SuiteError,
    UnresolvedQueryError,
    describe,
)
from tidegauge.analyzers.scan.bisect import is_data_error
from tidegauge.griffin.config import RuleConfig
from tidegauge.griffin.lower.plan import RulePlan
from tidegauge.griffin.sql.tokens import position, tokens

_POINTED = re.compile(
    r"^== SQL.*\(line \d+, position \d+\) ==\n(?P<line>.*)\n(?P<before> *)(?P<marks>\^+)$",
    re.MULTILINE,
)
_LONGEST = 1000
_HINTS = {
    re.compile(
        r"DATATYPE_MISMATCH.*\(NOT "
    ): "NOT binds more tightly than a comparison; write not (a = b)",
    re.compile(
        r"JOIN_CONDITION_IS_NOT_BOOLEAN"
    ): "a rule of accuracy is true or false for a pair of rows",
    re.compile(r"FILTER_NOT_BOOLEAN"): "a condition is true or false, as in count > 0",
}
"""Hints for errors of Spark in rules of the language, whose functions' types it alone knows."""


def query_text(config: RuleConfig) -> str:
    """Return the query of a ``spark-sql`` rule, without semicolons at its end.

    Raises
    ------
    DslError
        If there is more after a semicolon: a rule is one query.
    """
    text = re.sub(r"[\s;]+\Z", "", config.rule)
    for token in tokens(text):
        if token.text == ";":
            line, column = position(text, token.begin)
            raise DslError(
                "a rule is one query, and there is more after this semicolon", config.rule, line, column,
                rule=config.name, hint="give each query a rule of its own",
            )  # fmt: skip
    return text


def plan_error(error: Exception, config: RuleConfig) -> DslError:
    """Return Spark's error in planning a rule, with its place in the text of a query."""
    query = error if isinstance(error, UnresolvedQueryError) else None
    said = describe(error) if query is None else query.reason
    line, column, hint = 1, 1, None
    if config.dsl_type != "spark-sql":  # a place in generated SQL would mislead
        hint = next((known for pattern, known in _HINTS.items() if pattern.search(said)), None)
    elif query is not None and query.place is not None:
        line, column = query.place[0], query.place[1] + 1
    said = said if len(said) <= _LONGEST else f"{said[:_LONGEST]}..."
    return DslError(said, config.rule, line, column, rule=config.name, phase="plan", hint=hint)


def data_error(error: Exception, config: RuleConfig, plan: RulePlan) -> Exception:
    """Return Spark's error in measuring a rule, with the columns and operations that may be its cause.

    Of a query it is the expression that Spark points to; it may stand in an earlier rule that this reads.
    """
    by_data = isinstance(error, MetricRuntimeError) or is_data_error(error)
    cause = plan.hazards.of(str(error)) if by_data else ""
    if not cause and config.dsl_type == "spark-sql":
        cause = failing_expression(str(error))
    if not cause:
        return error
    found = SuiteError(f"{describe(error)}; {cause}")
    found.__cause__ = error
    return found


def failing_expression(message: str) -> str:
    r"""Return the expression of a query that Spark's error in running it points to; empty if it points to none.

    Examples
    --------
    >>> text = "[DIVIDE_BY_ZERO] ...\n== SQL (line 2, position 5) ==\nsum(n / m)\n    ^^^^^\n"
    >>> failing_expression(text)
    "it fails in 'n / m'"
    """
    found = _POINTED.search(message)
    if found is None:
        return ""
    begin = len(found["before"])
    text = found["line"][begin : begin + len(found["marks"])]
    return f"it fails in {text[:_LONGEST]!r}" if text else ""
