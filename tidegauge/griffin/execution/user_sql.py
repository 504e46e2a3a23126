"""SQL that users write in rules, read as text: patterns, groups, and places of errors.

Constant regular expressions are compiled before any rule runs: Spark compiles patterns only where
there are rows; here each is compiled for one row of its own. Groups are the columns that identify
the rows of a query: those of GROUP BY, its own or that of what it reads. Errors of Spark are raised
anew in the words and places of a job's rules.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tidegauge.analyzers.core.errors import (
    DslError,
    MetricRuntimeError,
    SuiteError,
    UnresolvedQueryError,
    describe,
)
from tidegauge.analyzers.core.sql import literal
from tidegauge.analyzers.core.sql_parser import has_aggregate, parse_query, text_of, tokenize
from tidegauge.analyzers.scan.spark_errors import is_data_error
from tidegauge.griffin.bind.types import AGGREGATES
from tidegauge.griffin.config import RuleConfig
from tidegauge.griffin.dsl.nodes import Call, Expression, LikeNode, Node, Rule, Text, walk
from tidegauge.griffin.measures.plan import RulePlan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegauge.analyzers.core.sql_parser import Tree


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
_PATTERN_NODES = {"regexpsplit", *(name.replace("_", "") for name in _FUNCTIONS)}
"""Nodes of sqlglot whose ``expression`` is a regular expression."""


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


def _in_sql(query: str) -> Iterator[_Pattern]:
    """Yield the literals of a query that are patterns as a whole; none if sqlglot cannot parse it.

    Examples
    --------
    >>> query = "select split(a, '[;')[0], b rlike r'(', c rlike 'x' || d from t -- rlike '('"
    >>> [pattern.sql for pattern in _in_sql(query)]
    ["'[;'", "r'('"]
    """
    tree = parse_query(query)
    nodes = () if tree is None else tree.walk(bfs=False)
    for node in nodes:
        pattern = node.args.get("expression") if node.key in _PATTERN_NODES else None
        if node.key == "anonymous" and node.name.casefold() in _FUNCTIONS:
            pattern = node.expressions[1] if len(node.expressions) > 1 else None
        if pattern is not None and (pattern.is_string or pattern.key == "rawstring"):
            sql, begin = text_of(pattern, query), pattern.meta.get("start", 0)
            yield _Pattern(sql, sql, begin, begin + len(sql))


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


_SET_OPERATORS = frozenset({"union", "except", "intersect"})
_SETS = ("rollup", "cube", "grouping_sets")
_LISTS = frozenset({"rollup", "cube", "groupingsets", "tuple"})
"""Nodes of GROUP BY that list keys."""
_LEVELS = frozenset({"grouping", "groupingid"})
"""Functions that tell totals of ROLLUP and CUBE from groups of null."""
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
        ``text`` or ``other`` for a constant, else empty.
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
    tree = parse_query(query.casefold())
    result = _Result() if tree is None else _read(tree, groups or {})
    if result.exact and len(result.columns) == len(columns):
        labels = [n for n, column in zip(columns, result.columns, strict=True) if column.label]
    else:
        labels = [name for name in columns if name.casefold() in result.labels]
    return tuple(labels) or None


def _read(query: Tree, groups: Groups) -> _Result:
    """Read a query with its common table expressions and set operators."""
    known = dict(groups)
    for table in query.args["with_"].expressions if query.args.get("with_") else ():
        known[table.alias] = _renamed(table, _read(table.this, known).labels)
    if query.key == "select":
        return _read_select(query, known)
    if query.key == "subquery":
        return _read(query.this, known)
    if query.key not in _SET_OPERATORS:
        return _Result()
    parts = []
    while query.key in _SET_OPERATORS:
        parts.append(query.expression)
        query = query.this
    return _united([_read(part, known) for part in (query, *reversed(parts))])


def _read_select(query: Tree, groups: Groups) -> _Result:
    if query.args.get("group"):
        return _grouped(query.expressions, query.args["group"])
    relations: dict[str, frozenset[str]] = {}
    if query.args.get("from_") and not query.args.get("laterals"):  # LATERAL VIEW multiplies rows
        relations = _relations(query.args["from_"].this, query.args.get("joins"), groups)
    return _passed(query.expressions, relations)


def _relations(
    first: Tree, joins: Sequence[Tree] | None, groups: Groups
) -> dict[str, frozenset[str]]:
    """Return the groups of the relations of FROM, by the names that they have there."""
    labels_by_name: dict[str, frozenset[str]] = {}
    for relation in (first, *(join.this for join in joins or ())):
        labels: frozenset[str] = frozenset()
        if relation.key == "table" and not relation.args.get("db"):
            labels = groups.get(relation.name, labels)
        elif relation.key == "subquery" and relation.this.key == "table":  # joins in brackets
            inside = _relations(relation.this, relation.this.args.get("joins"), groups)
            labels = labels.union(*inside.values())
        elif relation.key == "subquery":
            labels = _read(relation, groups).labels
        if relation.args.get("pivots"):
            labels = frozenset()
        name = relation.alias_or_name
        labels_by_name[name] = labels_by_name.get(name, frozenset()) | _renamed(relation, labels)
    return labels_by_name


def _renamed(relation: Tree, labels: frozenset[str]) -> frozenset[str]:
    """Return no labels for a relation whose alias renames the columns."""
    return frozenset() if relation.alias_column_names else labels


def _grouped(items: Sequence[Tree], group: Tree) -> _Result:
    """Return the columns of a query with GROUP BY."""
    keys = list(_keys(group))
    paths = {key.name for key in keys if key.key == "column"}
    numbers = {key.name for key in keys if key.is_int}
    values = [key for key in keys if not key.is_int]
    columns = []
    for number, item in enumerate(items, 1):
        value = item.unalias().unnest()
        constant = _constant(value)
        if group.args.get("all"):
            label = not (constant or _has_aggregate(value))
        else:
            label = item.alias_or_name in paths or str(number) in numbers or value in values
            label = label or (value.key == "column" and value.name in paths)
            label = label or value.key in _LEVELS or value.name == "grouping__id"
        columns.append(_Column(_name(item), label, constant))
    has_star = any(item.is_star for item in items)
    starred = [_Column(path, label=True) for path in paths if has_star]
    return _Result((*columns, *starred), exact=not has_star)


def _keys(group: Tree) -> Iterator[Tree]:
    """Yield the expressions of GROUP BY and of its grouping sets, without brackets."""
    sets = [part for name in _SETS for part in group.args.get(name) or ()]
    for key in (*group.expressions, *sets):
        if key.key in _LISTS:
            yield from _keys(key)
        else:
            yield key.unnest()


def _passed(items: Sequence[Tree], relations: Mapping[str, frozenset[str]]) -> _Result:
    """Return the columns of a query that selects groups of what it reads."""
    every = frozenset().union(*relations.values())
    columns: list[_Column] = []
    for item in items:
        if item.is_star:
            table = item.args.get("table")
            labels = relations.get(table.name, frozenset()) if table else every
            star = item.this if item.key == "column" else item
            hidden = {column.name for column in star.args.get("except_") or ()}
            columns += [_Column(name, label=True) for name in labels - hidden]
            continue
        value = item.unalias().unnest()
        label = value.key == "column" and value.name in every
        columns.append(_Column(_name(item), label, _constant(value)))
    return _Result(tuple(columns), not any(item.is_star for item in items))


def _united(parts: list[_Result]) -> _Result:
    """Return the columns of a UNION: labels are those of all parts, or constants there."""
    first = parts[0]
    if not all(part.exact and len(part.columns) == len(first.columns) for part in parts):
        names = frozenset.intersection(*(part.labels for part in parts))
        return _Result(tuple(_Column(name, label=True) for name in names))
    columns = zip(*(part.columns for part in parts), strict=True)
    return _Result(tuple(replace(same[0], label=_tell_apart(same)) for same in columns), exact=True)


def _tell_apart(same: tuple[_Column, ...]) -> bool:
    """Return whether a column of all parts identifies rows; numbers alone are values."""
    known = all(column.label or column.constant for column in same)
    return known and any(column.label or column.constant == "text" for column in same)


def _name(item: Tree) -> str:
    """Return the name of a select item; empty if it is an expression without one."""
    return item.alias_or_name if item.unnest().key in {"alias", "column"} else ""


def _constant(value: Tree) -> str:
    """Return ``text`` or ``other`` for a constant, else an empty text."""
    value = value.this if value.key == "neg" else value
    if value.key not in {"literal", "rawstring", "boolean", "null"}:
        return ""
    return "text" if value.is_string or value.key == "rawstring" else "other"


def _has_aggregate(value: Tree) -> bool:
    return has_aggregate(value) or any(
        node.key in AGGREGATES or (node.key == "anonymous" and node.name in AGGREGATES)
        for node in value.walk()
    )


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
    for token in tokenize(text):
        if token.kind == "SEMICOLON":
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
