"""Errors of Spark in the words and places of a job's rules."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tidegauge.analyzers.core.errors import DslError, SuiteError, describe
from tidegauge.analyzers.core.sql import literal
from tidegauge.griffin.config import RuleConfig
from tidegauge.griffin.dsl.aliases import walk
from tidegauge.griffin.dsl.nodes import Call, Expression, LikeNode, Node, Rule, Text
from tidegauge.griffin.lower.plan import RulePlan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PLACE = re.compile(r"[;,.]?\s*\(?line (?P<line>\d+),? pos (?P<pos>\d+)\)?;?")
_WRAPPER_LINES = 1
"""Lines that `Views.query` puts before a query."""
_LONGEST = 1000
_OF_PATTERNS = {
    *("regexp_replace", "regexp_extract", "regexp_extract_all", "regexp_like", "regexp", "rlike"),
    *("regexp_count", "regexp_instr", "regexp_substr", "split"),
}
"""Functions whose second argument is a regular expression."""
_TOKEN = re.compile(
    r"--[^\n]*|/\*[\s\S]*?\*/|'(?:[^'\\]|\\.|'')*+'|\"(?:[^\"\\]|\\.)*+\"|`[^`]*`|(?P<end>;)|[\s\S]"
)


def query_text(config: RuleConfig) -> str:
    """Return the query of a ``spark-sql`` rule, without semicolons at its end.

    Raises
    ------
    DslError
        If there is more after a semicolon: a rule is one query.
    """
    text = re.sub(r"[\s;]+\Z", "", config.rule)
    for match in _TOKEN.finditer(text):
        if match["end"]:
            line, column = _position(text, match.start())
            raise DslError(
                "a rule is one query, and there is more after this semicolon", config.rule, line, column,
                rule=config.name, hint="give each query a rule of its own",
            )  # fmt: skip
    return text


def plan_error(error: Exception, config: RuleConfig) -> DslError:
    """Return Spark's error in planning a rule, with its place in the text of a query."""
    text, said = config.rule, describe(error)
    place = _PLACE.search(str(error))
    line, column = 1, 1
    if config.dsl_type == "spark-sql" and place is not None:
        lines = text.split("\n")
        line, column = int(place["line"]) - _WRAPPER_LINES, int(place["pos"]) + 1
        if line > len(lines):
            line, column = len(lines), len(lines[-1]) + 1
            said = "the query ends too early"
    # Places in SQL of our own would mislead.
    said = _PLACE.sub("", said)
    said = said if len(said) <= _LONGEST else f"{said[:_LONGEST]}..."
    return DslError(said, text, max(line, 1), column, rule=config.name, phase="plan")


def data_error(error: Exception, plan: RulePlan) -> Exception:
    """Return Spark's error in measuring a rule, with the comparisons that may be its cause."""
    if "CAST_INVALID_INPUT" not in str(error) or not plan.casts:
        return error
    found = SuiteError(f"{describe(error)}; {', '.join(plan.casts)}")
    found.__cause__ = error
    return found


def refuse_bad_patterns(tree: Rule | None, config: RuleConfig, spark: SparkSession) -> None:
    """Raise a `DslError` for a constant that is no regular expression of Java.

    Spark compiles patterns only where there are rows; here it compiles each for one row of its own.
    """
    patterns = (_pattern_of(node) for node in (() if tree is None else walk(tree)))
    nodes: list[tuple[Node | None, str]] = [
        (pattern, pattern.value) for pattern in patterns if isinstance(pattern, Text)
    ]
    nodes += [
        (None, one) for error in config.errors if error.kind == "regex" for one in error.values
    ]
    if not nodes or _compile(spark, [text for _, text in nodes]) is None:
        return
    for node, text in nodes:
        error = _compile(spark, [text])
        if error is not None:
            line, column = (1, 1) if node is None else (node.span.line, node.span.column)
            end = None if node is None else column + node.span.end - node.span.start
            raise DslError(
                f"{text!r} is no regular expression: {describe(error)}", config.rule, line, column, end,
                rule=config.name, phase="plan",
            ) from error  # fmt: skip


def _pattern_of(node: Node) -> Expression | None:
    """Return the regular expression of RLIKE, or of a function that takes one as its second argument."""
    match node:
        case LikeNode(regex=True):
            return node.pattern
        case Call(name=name, arguments=(_, pattern, *_)) if name.lower() in _OF_PATTERNS:
            return pattern
    return None


def _compile(spark: SparkSession, patterns: list[str]) -> Exception | None:
    cells = ", ".join(f"'' RLIKE {literal(pattern)}" for pattern in patterns)
    try:
        spark.sql(f"SELECT {cells}").collect()
    except Exception as error:  # noqa: BLE001 - Spark has no class of its own for these
        return error
    return None


def _position(text: str, offset: int) -> tuple[int, int]:
    before = text[:offset]
    return before.count("\n") + 1, offset - before.rfind("\n")
