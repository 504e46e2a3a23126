"""SQL that users write in rules, read as text: patterns, groups, and places of errors.

Constant regular expressions are compiled before any rule runs: Spark compiles patterns only where
there are rows; here each is compiled for one row of its own. Groups are the columns that identify
the rows of a query: those of GROUP BY, its own or that of what it reads. Errors of Spark are raised
anew in the words and places of a job's rules.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from tidegauge.analyzers.core.errors import (
    DslError,
    MetricRuntimeError,
    SuiteError,
    UnresolvedQueryError,
    describe,
)
from tidegauge.analyzers.core.sql import literal
from tidegauge.analyzers.scan.spark_errors import is_data_error
from tidegauge.griffin.bind.types import AGGREGATES
from tidegauge.griffin.config import RuleConfig
from tidegauge.griffin.dsl.nodes import Call, Expression, LikeNode, Node, Rule, Text, walk
from tidegauge.griffin.measures.plan import RulePlan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_TOKEN = re.compile(
    r"--[^\n]*+|/\*[\s\S]*?(?:\*/|\Z)|\s++"
    r"|(?P<token>[rR]'[^']*+(?:'|\Z)|[rR]\"[^\"]*+(?:\"|\Z)"
    r"|'(?:[^'\\]|\\[\s\S]|'')*+(?:'|\\?\Z)|\"(?:[^\"\\]|\\[\s\S]|\"\")*+(?:\"|\\?\Z)"
    r"|`(?:[^`]|``)*+(?:`|\Z)|\w++|\|\||[\s\S])"
)
"""Tokens; one that is not closed extends to the end, so that each letter is read once."""


class Token(NamedTuple):
    """A word, name, literal or sign, and where it begins."""

    text: str
    begin: int


def tokens(text: str) -> list[Token]:
    """Split SQL into tokens, without spaces and comments.

    Examples
    --------
    >>> [token.text for token in tokens("select `a b` || r'x' -- comment")]
    ['select', '`a b`', '||', "r'x'"]
    >>> tokens("a /* ; */;")
    [Token(text='a', begin=0), Token(text=';', begin=9)]
    """
    found = _TOKEN.finditer(text)
    return [Token(m["token"], m.start("token")) for m in found if m["token"]]


def position(text: str, offset: int) -> tuple[int, int]:
    r"""Return the line and the column of an offset, both from 1.

    Examples
    --------
    >>> position("a,\nb", 3)
    (2, 1)
    """
    before = text[:offset]
    return before.count("\n") + 1, offset - before.rfind("\n")


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


_END = frozenset(
    {"having", "order", "sort", "cluster", "distribute", "limit", "offset", "window", "qualify", ";"}
)  # fmt: skip
_SET_OPERATORS = frozenset({"union", "except", "minus", "intersect"})
_JOINS = frozenset(
    {"on", "using", "inner", "cross", "left", "right", "full", "outer", "natural", "semi", "anti"}
)
_REARRANGED = frozenset({"lateral", "pivot", "unpivot"})
"""Words of FROM after which its rows are no longer the groups that it reads."""
_SETS = frozenset({"rollup", "cube", "grouping", "sets"})
_LEVELS = (["grouping"], ["grouping_id"], ["grouping__id"])
"""Functions that tell totals of ROLLUP and CUBE from groups of null."""
_DEEPEST = 50
"""Number of subqueries within one another up to which groups are looked for."""
Tokens = list[str]
Groups = Mapping[str, frozenset[str]]
"""Columns that identify the rows of frames, by the frames' names; all in lower case."""


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of a result.

    Attributes
    ----------
    name : str
        In lower case; empty if the query does not say it.
    label : bool
        Whether it identifies rows.
    constant : str
        Its value as SQL if that is a constant, else empty.
    """

    name: str
    label: bool = False
    constant: str = ""


@dataclass(frozen=True, slots=True)
class _Result:
    """Columns of a result; ``exact`` if all of them are known, in order."""

    columns: tuple[_Column, ...] = ()
    exact: bool = False

    @property
    def labels(self) -> frozenset[str]:
        return frozenset(column.name for column in self.columns if column.label and column.name)


def group_labels(
    query: str, columns: Sequence[str], groups: Groups | None = None
) -> tuple[str, ...] | None:
    """Return the result columns of a query that identify its rows.

    They are the columns of GROUP BY. A query without one has those of the common table expressions,
    subqueries and frames that it reads, as far as it selects them by name. A constant identifies the
    rows of a part of a UNION.

    Parameters
    ----------
    query : str
        Spark SQL that Spark has accepted.
    columns : sequence of str
        The columns of its result.
    groups : mapping of str to frozenset of str, optional
        Columns that identify the rows of frames, by the frames' names; all in lower case.

    Returns
    -------
    tuple of str or None
        None if there are none.

    Examples
    --------
    >>> group_labels("SELECT city AS c, count(*) AS n FROM users GROUP BY city", ["c", "n"])
    ('c',)
    >>> group_labels("SELECT c, n / 2 AS half FROM cities", ["c", "half"], {"cities": frozenset("c")})
    ('c',)
    >>> group_labels("SELECT max(day) AS latest FROM users", ["latest"]) is None
    True
    """
    read = _query([token.text.casefold() for token in tokens(query)], dict(groups or {}))
    if read.exact and len(read.columns) == len(columns):
        found = [name for name, one in zip(columns, read.columns, strict=True) if one.label]
    else:
        found = [name for name in columns if name.casefold() in read.labels]
    return tuple(found) or None


def _query(tokens: Tokens, groups: Groups, depth: int = 0) -> _Result:
    """Read a query with its common table expressions and set operators."""
    if depth > _DEEPEST:
        return _Result()
    if tokens[:1] == ["with"]:
        tokens, groups = _after_with(tokens, groups, depth)
    parts = [_select(part, groups, depth) for part in _split(tokens, _SET_OPERATORS)]
    return parts[0] if len(parts) == 1 else _united(parts)


def _after_with(tokens: Tokens, groups: Groups, depth: int) -> tuple[Tokens, Groups]:
    """Return the tokens after WITH, and the groups with those of its tables."""
    known = dict(groups)
    at = 2 if tokens[1:2] == ["recursive"] else 1
    while at < len(tokens):
        name = _plain(tokens[at])
        begin = next((n for n in range(at, len(tokens)) if tokens[n] == "as"), len(tokens)) + 1
        renamed = "(" in tokens[at:begin]
        end = _closing(tokens, begin)
        inside = _query(tokens[begin + 1 : end], known, depth + 1)
        known[name] = frozenset() if renamed else inside.labels
        if tokens[end + 1 : end + 2] != [","]:
            return tokens[end + 1 :], known
        at = end + 2
    return [], known


def _select(tokens: Tokens, groups: Groups, depth: int) -> _Result:
    """Read one SELECT, also one whose FROM comes first, or a query in brackets."""
    if tokens[:1] == ["("]:
        return _query(tokens[1 : _closing(tokens, 0)], groups, depth + 1)
    lists = len(_split(tokens, frozenset({"select"}))) - 1  # FROM can have several
    if tokens[:1] not in (["select"], ["from"]) or lists != 1:
        return _Result()
    clauses = _clauses(tokens)
    select = clauses.get("select", [])
    items = list(_items(select[1:] if select[:1] in (["distinct"], ["all"]) else select))
    if "group" in clauses:
        return _grouped(items, clauses["group"])
    relations = _relations(clauses.get("from", []), groups, depth)
    return _passed(items, relations)


def _clauses(tokens: Tokens) -> dict[str, Tokens]:
    """Return what follows SELECT, FROM and GROUP BY."""
    found: dict[str, Tokens] = {}
    into: Tokens | None = None
    depth = 0
    for number, word in enumerate(tokens):
        if depth == 0:
            before = tokens[number - 1] if number else ""
            if word == "select" or (word == "from" and before != "distinct"):
                into = found.setdefault(word, [])
                continue
            if word == "group" and tokens[number + 1 : number + 2] == ["by"]:
                into = found.setdefault(word, [])
                continue
            if word == "where" or word in _END:
                into = None
        depth += (word in "([") - (word in ")]")
        if into is not None:
            into.append(word)
    if "group" in found:
        found["group"] = found["group"][1:]
    return found


def _relations(tokens: Tokens, groups: Groups, depth: int) -> dict[str, frozenset[str]]:
    """Return the groups of what FROM reads, by the names that it has there."""
    found: dict[str, frozenset[str]] = {}
    if _REARRANGED & set(tokens):
        return found
    for part in filter(None, _split(tokens, frozenset({",", "join"}))):
        end = _closing(part, 0) if part[:1] == ["("] else 0
        if end:
            inside = part[1:end]
            if inside[:1] in (["select"], ["from"], ["with"], ["("]):
                labels = _query(inside, groups, depth + 1).labels
            else:
                labels = frozenset().union(*_relations(inside, groups, depth + 1).values())
            name = ""
        else:
            while part[end + 1 : end + 2] == ["."]:
                end += 2
            name = _plain(part[end])
            labels = groups.get(name, frozenset()) if end == 0 else frozenset()
        rest = part[end + 1 :]
        rest = rest[1:] if rest[:1] == ["as"] else rest
        if rest and rest[0] not in _JOINS:
            name = _plain(rest[0])
        found[name] = found.get(name, frozenset()) | labels
    return found


def _grouped(items: list[Tokens], group: Tokens) -> _Result:
    """Return the columns of a query with GROUP BY."""
    if group == ["all"]:
        columns = [
            _Column(_name(item), not (_has_aggregate(item) or _constant(item)), _constant(item))
            for item in items
        ]
        return _Result(tuple(columns), not any(map(_is_star, items)))
    keys = [key for key in _items(group) if key]
    names = {key[-1].strip("`") for key in keys if _is_path(key)}
    numbers = {key[0] for key in keys if len(key) == 1}
    columns = []
    for number, item in enumerate(items, 1):
        name = _name(item)
        label = name in names or str(number) in numbers
        label = label or any(_is_of(item, key) for key in keys if not key[0].isdigit())
        label = label or item[:1] in _LEVELS
        columns.append(_Column(name, label, _constant(item)))
    if any(map(_is_star, items)):
        columns += [_Column(name, label=True) for name in names]
        return _Result(tuple(columns))
    return _Result(tuple(columns), exact=True)


def _passed(items: list[Tokens], relations: Mapping[str, frozenset[str]]) -> _Result:
    """Return the columns of a query that selects groups of what it reads."""
    every = frozenset().union(*relations.values())
    columns: list[_Column] = []
    for item in items:
        if _is_star(item):
            these = relations.get(_plain(item[-3]), frozenset()) if len(item) > 2 else every
            columns += [_Column(name, label=True) for name in these]
            continue
        path = _without_alias(item)
        label = _is_path(path) and _plain(path[-1]) in every
        columns.append(_Column(_name(item), label, _constant(item)))
    return _Result(tuple(columns), not any(map(_is_star, items)))


def _united(parts: list[_Result]) -> _Result:
    """Return the columns of a UNION: labels are those of all parts, or constants there."""
    first = parts[0]
    if not all(part.exact and len(part.columns) == len(first.columns) for part in parts):
        names = frozenset.intersection(*(part.labels for part in parts))
        return _Result(tuple(_Column(name, label=True) for name in names))
    columns = zip(*(part.columns for part in parts), strict=True)
    found = [replace(same[0], label=_tell_apart(same)) for same in columns]
    return _Result(tuple(found), exact=True)


def _tell_apart(same: tuple[_Column, ...]) -> bool:
    """Return whether a column of all parts identifies rows; numbers alone are values."""
    known = all(one.label or one.constant for one in same)
    return known and any(one.label or one.constant[:1] in {"'", '"'} for one in same)


def _split(tokens: Tokens, at: frozenset[str]) -> list[Tokens]:
    """Return the parts of a query between words that are in no brackets."""
    parts: list[Tokens] = [[]]
    depth = 0
    for word in tokens:
        depth += (word in "([") - (word in ")]")
        if depth == 0 and word in at:
            parts.append([])
        elif not (at is _SET_OPERATORS and not parts[-1] and word in {"all", "distinct"}):
            parts[-1].append(word)
    return parts


def _closing(tokens: Tokens, begin: int) -> int:
    """Return the place of the bracket that closes the one at a place; the end if there is none."""
    depth = 0
    for number in range(begin, len(tokens)):
        depth += (tokens[number] == "(") - (tokens[number] == ")")
        if depth == 0:
            return number
    return len(tokens)


def _items(tokens: Tokens) -> Iterator[Tokens]:
    """Yield the parts of a list between its commas, without words of grouping sets and needless brackets."""
    item: Tokens = []
    depth = 0
    sets = bool(_SETS & set(tokens))
    for piece in tokens:
        depth += (piece in "([") - (piece in ")]")
        if piece == "," and (depth == 0 or sets):
            yield _without_brackets(item)
            item = []
        elif not sets or piece not in _SETS | {"(", ")"}:
            item.append(piece)
    yield _without_brackets(item)


def _without_brackets(item: Tokens) -> Tokens:
    """Return an item without brackets around all of it but its alias; a query or a list keeps its own."""
    while item[:1] == ["("]:
        end = _closing(item, 0)
        inside, rest = item[1:end], item[end + 1 :]
        is_alias = len(rest) < 2 or (rest[0] == "as" and len(rest) == 2)
        is_one = len(_split(inside, frozenset({","}))) == 1
        if not inside or inside[0] in {"select", "from", "with"} or not (is_alias and is_one):
            break
        item = inside + rest
    return item


def _plain(word: str) -> str:
    return word[1:-1].replace("``", "`") if word[:1] == "`" else word


def _is_path(item: Tokens) -> bool:
    """Return whether tokens are a name, or names joined by dots."""
    return len(item) % 2 == 1 and set(item[1::2]) <= {"."} and "." not in item[::2]


def _is_star(item: Tokens) -> bool:
    return item[-1:] == ["*"] and (len(item) == 1 or item[-2] == ".")


def _is_of(item: Tokens, text: Tokens) -> bool:
    """Return whether a select item is an expression, with an alias or without."""
    rest = item[len(text) :]
    if item[: len(text)] == text:
        return len(rest) <= 1 or (rest[0] == "as" and len(rest) == 2)
    path = _without_alias(item)
    return _is_path(path) and _is_path(text) and path[-1] == text[-1]


def _without_alias(item: Tokens) -> Tokens:
    if item[-2:-1] == ["as"]:
        return item[:-2]
    return item[:-1] if len(item) > 1 and _is_path(item[:-1]) else item


def _name(item: Tokens) -> str:
    """Return the name of a select item; empty if it is an expression without one."""
    named = item[-2:-1] == ["as"] or _is_path(item) or _is_path(item[:-1])
    return _plain(item[-1]) if item and named else ""


def _constant(item: Tokens) -> str:
    value = _without_alias(item)
    signed = value[1:] if value[:1] in (["+"], ["-"]) else value
    text = signed[0] if len(signed) == 1 else ""
    constant = text[:1] in {"'", '"'} or text[:1].isdigit() or text in {"null", "true", "false"}
    return text if constant else ""


def _has_aggregate(item: Iterable[str]) -> bool:
    words = list(item)
    return any(word in AGGREGATES and after == "(" for word, after in pairwise(words))


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
