"""Regular expressions that rules have as constants: compiled before any rule runs.

Spark compiles patterns only where there are rows; here each is compiled for one row of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegauge.analyzers.core.errors import DslError, describe
from tidegauge.analyzers.core.sql import literal
from tidegauge.griffin.config import RuleConfig
from tidegauge.griffin.dsl.nodes import Call, Expression, LikeNode, Node, Rule, Text, walk
from tidegauge.griffin.sql.tokens import position, tokens

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FUNCTIONS = frozenset(
    {"regexp_replace", "regexp_extract", "regexp_extract_all", "regexp_like", "regexp", "rlike"}
    | {"regexp_count", "regexp_instr", "regexp_substr", "split"}
)
"""Functions whose second argument is a regular expression."""
_OPERATORS = frozenset({"rlike", "regexp"})


@dataclass(frozen=True, slots=True)
class _Pattern:
    """A constant pattern: as SQL, as it is shown, and its place in the rule, from and to."""

    sql: str
    shown: str
    begin: int | None = None
    end: int | None = None


def refuse_bad_patterns(tree: Rule | None, config: RuleConfig, spark: SparkSession) -> None:
    """Raise a `DslError` for a constant that is no regular expression of Java.

    Parameters
    ----------
    tree : Rule or None
        The parsed rule; None for a rule in SQL.
    config : RuleConfig
    spark : SparkSession
    """
    of_text = _in_sql(config.rule) if tree is None else _in_tree(tree)
    patterns = [*of_text, *_in_conditions(config)]
    if not patterns or _compile(spark, patterns) is None:
        return
    for pattern in patterns:
        error = _compile(spark, [pattern])
        if error is not None:
            line, column = position(config.rule, pattern.begin or 0)
            end = None if pattern.end is None else column + pattern.end - (pattern.begin or 0)
            raise DslError(
                f"{pattern.shown} is no regular expression: {describe(error)}",
                config.rule, line, column, end, rule=config.name, phase="plan",
            ) from error  # fmt: skip


def _in_tree(tree: Rule) -> Iterator[_Pattern]:
    for node in walk(tree):
        pattern = _pattern_of(node)
        if isinstance(pattern, Text):
            span = pattern.span
            yield _Pattern(literal(pattern.value), repr(pattern.value), span.start, span.end)


def _in_conditions(config: RuleConfig) -> Iterator[_Pattern]:
    for error in config.errors:
        if error.kind == "regex":
            yield from (_Pattern(literal(one), repr(one)) for one in error.values)


def _in_sql(text: str) -> Iterator[_Pattern]:
    """Yield the literals of SQL that are patterns as a whole.

    Examples
    --------
    >>> query = "select split(a, '[;')[0], b rlike r'(', c rlike 'x' || d from t -- rlike '('"
    >>> [one.sql for one in _in_sql(query)]
    ["'[;'", "r'('"]
    """
    found = tokens(text)
    words = [token.text.casefold() for token in found]
    for number, word in enumerate(words):
        follows = words[number + 1 : number + 2]
        if word in _FUNCTIONS and follows == ["("]:
            place = _second_argument(words, number + 2)
        elif word in _OPERATORS:
            place = number + 1
        else:
            continue
        if place is None or not _is_literal(words, place):
            continue
        sql, at = found[place]
        yield _Pattern(sql, sql, at, at + len(sql))


def _second_argument(words: list[str], begin: int) -> int | None:
    """Return where the second argument of a call begins, if it is one token."""
    depth = 0
    for number in range(begin, len(words)):
        word = words[number]
        if depth == 0 and word == ",":
            return number + 1 if words[number + 2 : number + 3] in ([","], [")"]) else None
        depth += (word in "([") - (word in ")]")
        if depth < 0:
            return None
    return None


def _is_literal(words: list[str], place: int) -> bool:
    """Return whether a token is a text, and not the first of several that make one."""
    token, after = (*words[place : place + 2], "", "")[:2]
    text = token.removeprefix("r")[:1] in {"'", '"'} and len(token) > 1
    return text and after != "||" and after[:1] not in {"'", '"'}


def _pattern_of(node: Node) -> Expression | None:
    """Return the regular expression of RLIKE, or of a function that takes one as its second argument."""
    match node:
        case LikeNode(regex=True):
            return node.pattern
        case Call(name=name, arguments=(_, pattern, *_)) if name.lower() in _FUNCTIONS:
            return pattern
    return None


def _compile(spark: SparkSession, patterns: list[_Pattern]) -> Exception | None:
    from pyspark.errors import ParseException

    cells = ", ".join(f"'' RLIKE {pattern.sql}" for pattern in patterns)
    try:
        spark.sql(f"SELECT {cells}").collect()
    except ParseException:  # the session reads its literals otherwise; each row will tell
        return None
    except Exception as error:  # noqa: BLE001 - Spark has no class of its own for these
        return error
    return None
