"""Analysis of the SQL in users' rules: patterns, groups, and positions of errors.

Constant regular expressions are compiled before any rule runs, because Spark compiles a pattern only
when it has rows. Groups are the columns that identify the rows of a query: the columns of its GROUP BY,
or the groups of the relations that it reads. Errors of Spark are raised again with the names and
positions of a job's rules.
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
from tidegauge.griffin.config import RuleConfig
from tidegauge.griffin.dsl.errors import position
from tidegauge.griffin.dsl.nodes import (
    AGGREGATE_FUNCTIONS,
    Call,
    Expression,
    LikeNode,
    Node,
    Rule,
    Text,
    walk,
)
from tidegauge.griffin.measures.base import RulePlan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegauge.analyzers.core.sql_parser import Tree


_REGEX_FUNCTIONS = frozenset(
    {"regexp_replace", "regexp_extract", "regexp_extract_all", "regexp_like", "regexp", "rlike"}
    | {"regexp_count", "regexp_instr", "regexp_substr", "split"}
)
"""Functions whose second argument is a regular expression."""
_PATTERN_NODES = {"regexpsplit", *(name.replace("_", "") for name in _REGEX_FUNCTIONS)}
"""Keys of sqlglot nodes whose ``expression`` is a regular expression."""


@dataclass(frozen=True, slots=True)
class _Pattern:
    """A constant pattern: its SQL, how messages quote it, and its start and end in the rule."""

    sql: str
    quoted: str
    begin: int | None = None
    end: int | None = None


def refuse_bad_patterns(tree: Rule | None, config: RuleConfig, spark: SparkSession) -> None:
    """Raise a `DslError` for a constant that is not a valid Java regular expression.

    Parameters
    ----------
    tree : Rule or None
        The parsed rule; None for a rule in SQL.
    config : RuleConfig
        The rule.
    spark : SparkSession
        The session that compiles the patterns.
    """
    in_rule = _patterns_in_sql(config.rule) if tree is None else _patterns_in_tree(tree)
    patterns = [*in_rule, *_patterns_in_conditions(config)]
    if not patterns or _compile(spark, patterns) is None:
        return
    for pattern in patterns:
        error = _compile(spark, [pattern])
        if error is not None:
            line, column = position(config.rule, pattern.begin or 0)
            end = None if pattern.end is None else column + pattern.end - (pattern.begin or 0)
            raise DslError(
                f"{pattern.quoted} is not a valid regular expression: {describe(error)}",
                config.rule, line, column, end, rule=config.name, phase="plan",
            ) from error  # fmt: skip


def _patterns_in_tree(tree: Rule) -> Iterator[_Pattern]:
    for node in walk(tree):
        pattern = _pattern_of(node)
        if isinstance(pattern, Text):
            span = pattern.span
            yield _Pattern(literal(pattern.value), repr(pattern.value), span.start, span.end)


def _patterns_in_conditions(config: RuleConfig) -> Iterator[_Pattern]:
    for error in config.errors:
        if error.kind == "regex":
            yield from (_Pattern(literal(pattern), repr(pattern)) for pattern in error.values)


def _patterns_in_sql(query: str) -> Iterator[_Pattern]:
    """Yield the string literals of a query that are whole patterns; none if sqlglot cannot parse it.

    Examples
    --------
    >>> query = "select split(a, '[;')[0], b rlike r'(', c rlike 'x' || d from t -- rlike '('"
    >>> [pattern.sql for pattern in _patterns_in_sql(query)]
    ["'[;'", "r'('"]
    """
    tree = parse_query(query)
    nodes = () if tree is None else tree.walk(bfs=False)
    for node in nodes:
        pattern = node.args.get("expression") if node.key in _PATTERN_NODES else None
        if node.key == "anonymous" and node.name.casefold() in _REGEX_FUNCTIONS:
            pattern = node.expressions[1] if len(node.expressions) > 1 else None
        if pattern is not None and (pattern.is_string or pattern.key == "rawstring"):
            sql, begin = text_of(pattern, query), pattern.meta.get("start", 0)
            yield _Pattern(sql, sql, begin, begin + len(sql))


def _pattern_of(node: Node) -> Expression | None:
    """Return the pattern of RLIKE or of a function that takes it as the second argument."""
    match node:
        case LikeNode(regex=True):
            return node.pattern
        case Call(name=name, arguments=(_, pattern, *_)) if name.lower() in _REGEX_FUNCTIONS:
            return pattern
    return None


def _compile(spark: SparkSession, patterns: list[_Pattern]) -> Exception | None:
    from pyspark.errors import ParseException

    cells = ", ".join(f"'' RLIKE {pattern.sql}" for pattern in patterns)
    try:
        spark.sql(f"SELECT {cells}").collect()
    except ParseException:  # other string literal settings; each row fails by itself
        return None
    except Exception as error:  # noqa: BLE001 - Spark has no specific class for these errors
        return error
    return None


_SET_OPERATORS = frozenset({"union", "except", "intersect"})
_GROUPING_SETS = ("rollup", "cube", "grouping_sets")
_KEY_LIST_NODES = frozenset({"rollup", "cube", "groupingsets", "tuple"})
"""Nodes of GROUP BY that list keys."""
_GROUPING_FUNCTIONS = frozenset({"grouping", "groupingid"})
"""Functions that distinguish totals of ROLLUP and CUBE from groups of null."""
Groups = Mapping[str, frozenset[str]]
"""Columns that identify the rows of frames, by frame name; all in lower case."""


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of a result.

    Attributes
    ----------
    name : str
        In lower case; empty if the query does not name the column.
    label : bool
        Whether the column identifies rows.
    constant : str
        ``text`` or ``other`` for a constant, otherwise empty.
    """

    name: str
    label: bool = False
    constant: str = ""


@dataclass(frozen=True, slots=True)
class _Result:
    """Columns of a result. ``exact`` means that all columns are known, in order."""

    columns: tuple[_Column, ...] = ()
    exact: bool = False

    @property
    def labels(self) -> frozenset[str]:
        return frozenset(column.name for column in self.columns if column.label and column.name)


def group_labels(
    query: str, columns: Sequence[str], groups: Groups | None = None
) -> tuple[str, ...] | None:
    """Return the result columns of a query that identify its rows.

    The labels are the columns of GROUP BY. A query without GROUP BY has the labels of the common table
    expressions, subqueries and frames that it reads, if it selects them by name. A constant identifies
    the rows of one part of a UNION.

    Parameters
    ----------
    query : str
        Spark SQL that Spark has accepted.
    columns : sequence of str
        The columns of the query's result.
    groups : mapping of str to frozenset of str, optional
        Columns that identify the rows of frames, by frame name; all in lower case.

    Returns
    -------
    tuple of str or None
        The labels; None if there are none.

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
    result = _Result() if tree is None else _analyze_query(tree, groups or {})
    if result.exact and len(result.columns) == len(columns):
        labels = [n for n, column in zip(columns, result.columns, strict=True) if column.label]
    else:
        labels = [name for name in columns if name.casefold() in result.labels]
    return tuple(labels) or None


def _analyze_query(query: Tree, groups: Groups) -> _Result:
    """Read a query with its common table expressions and set operators."""
    known_groups = dict(groups)
    for table in query.args["with_"].expressions if query.args.get("with_") else ():
        known_groups[table.alias] = _labels_unless_renamed(
            table, _analyze_query(table.this, known_groups).labels
        )
    if query.key == "select":
        return _analyze_select(query, known_groups)
    if query.key == "subquery":
        return _analyze_query(query.this, known_groups)
    if query.key not in _SET_OPERATORS:
        return _Result()
    parts = []
    while query.key in _SET_OPERATORS:
        parts.append(query.expression)
        query = query.this
    return _union_columns(
        [_analyze_query(part, known_groups) for part in (query, *reversed(parts))]
    )


def _analyze_select(query: Tree, groups: Groups) -> _Result:
    if query.args.get("group"):
        return _grouped_columns(query.expressions, query.args["group"])
    relations: dict[str, frozenset[str]] = {}
    if query.args.get("from_") and not query.args.get("laterals"):  # LATERAL VIEW multiplies rows
        relations = _relations(query.args["from_"].this, query.args.get("joins"), groups)
    return _selected_columns(query.expressions, relations)


def _relations(
    first_relation: Tree, joins: Sequence[Tree] | None, groups: Groups
) -> dict[str, frozenset[str]]:
    """Return the groups of the relations in FROM, by their names or aliases there."""
    labels_by_name: dict[str, frozenset[str]] = {}
    for relation in (first_relation, *(join.this for join in joins or ())):
        labels: frozenset[str] = frozenset()
        if relation.key == "table" and not relation.args.get("db"):
            labels = groups.get(relation.name, labels)
        elif relation.key == "subquery" and relation.this.key == "table":  # joins in brackets
            inside = _relations(relation.this, relation.this.args.get("joins"), groups)
            labels = labels.union(*inside.values())
        elif relation.key == "subquery":
            labels = _analyze_query(relation, groups).labels
        if relation.args.get("pivots"):
            labels = frozenset()
        name = relation.alias_or_name
        labels_by_name[name] = labels_by_name.get(name, frozenset()) | _labels_unless_renamed(
            relation, labels
        )
    return labels_by_name


def _labels_unless_renamed(relation: Tree, labels: frozenset[str]) -> frozenset[str]:
    """Return the labels, or none if the relation's alias renames the columns."""
    return frozenset() if relation.alias_column_names else labels


def _grouped_columns(items: Sequence[Tree], group: Tree) -> _Result:
    """Return the columns of a query with GROUP BY."""
    keys = list(_grouping_keys(group))
    paths = {key.name for key in keys if key.key == "column"}
    numbers = {key.name for key in keys if key.is_int}
    values = [key for key in keys if not key.is_int]
    columns = []
    for number, item in enumerate(items, 1):
        value = item.unalias().unnest()
        constant = _constant_kind(value)
        if group.args.get("all"):
            label = not (constant or _has_aggregate(value))
        else:
            label = item.alias_or_name in paths or str(number) in numbers or value in values
            label = label or (value.key == "column" and value.name in paths)
            label = label or value.key in _GROUPING_FUNCTIONS or value.name == "grouping__id"
        columns.append(_Column(_item_name(item), label, constant))
    has_star = any(item.is_star for item in items)
    starred = [_Column(path, label=True) for path in paths if has_star]
    return _Result((*columns, *starred), exact=not has_star)


def _grouping_keys(group: Tree) -> Iterator[Tree]:
    """Yield the expressions of GROUP BY and its grouping sets, without brackets."""
    sets = [part for name in _GROUPING_SETS for part in group.args.get(name) or ()]
    for key in (*group.expressions, *sets):
        if key.key in _KEY_LIST_NODES:
            yield from _grouping_keys(key)
        else:
            yield key.unnest()


def _selected_columns(items: Sequence[Tree], relations: Mapping[str, frozenset[str]]) -> _Result:
    """Return the columns of a query without GROUP BY."""
    all_labels = frozenset().union(*relations.values())
    columns: list[_Column] = []
    for item in items:
        if item.is_star:
            table = item.args.get("table")
            labels = relations.get(table.name, frozenset()) if table else all_labels
            star = item.this if item.key == "column" else item
            hidden = {column.name for column in star.args.get("except_") or ()}
            columns += [_Column(name, label=True) for name in labels - hidden]
            continue
        value = item.unalias().unnest()
        label = value.key == "column" and value.name in all_labels
        columns.append(_Column(_item_name(item), label, _constant_kind(value)))
    return _Result(tuple(columns), not any(item.is_star for item in items))


def _union_columns(parts: list[_Result]) -> _Result:
    """Return the columns of a UNION. A column is a label if it is a label or a constant in each part."""
    first_part = parts[0]
    if not all(part.exact and len(part.columns) == len(first_part.columns) for part in parts):
        names = frozenset.intersection(*(part.labels for part in parts))
        return _Result(tuple(_Column(name, label=True) for name in names))
    columns = zip(*(part.columns for part in parts), strict=True)
    return _Result(
        tuple(replace(parallel[0], label=_is_union_label(parallel)) for parallel in columns),
        exact=True,
    )


def _is_union_label(columns: tuple[_Column, ...]) -> bool:
    """Return whether a column identifies rows. Constants that are all numbers are values."""
    all_known = all(column.label or column.constant for column in columns)
    return all_known and any(column.label or column.constant == "text" for column in columns)


def _item_name(item: Tree) -> str:
    """Return the name of a select item; empty for an expression without an alias."""
    return item.alias_or_name if item.unnest().key in {"alias", "column"} else ""


def _constant_kind(value: Tree) -> str:
    """Return ``text`` or ``other`` for a constant, otherwise an empty string."""
    value = value.this if value.key == "neg" else value
    if value.key not in {"literal", "rawstring", "boolean", "null"}:
        return ""
    return "text" if value.is_string or value.key == "rawstring" else "other"


def _has_aggregate(value: Tree) -> bool:
    return has_aggregate(value) or any(
        node.key in AGGREGATE_FUNCTIONS
        or (node.key == "anonymous" and node.name in AGGREGATE_FUNCTIONS)
        for node in value.walk()
    )


_MARKED_EXPRESSION = re.compile(
    r"^== SQL.*\(line \d+, position \d+\) ==\n(?P<line>.*)\n(?P<before> *)(?P<marks>\^+)$",
    re.MULTILINE,
)
_MAX_MESSAGE_CHARS = 1000
_SPARK_ERROR_HINTS = {
    re.compile(
        r"DATATYPE_MISMATCH.*\(NOT "
    ): "NOT binds more tightly than a comparison; write not (a = b)",
    re.compile(
        r"JOIN_CONDITION_IS_NOT_BOOLEAN"
    ): "an accuracy rule must be true or false for each pair of rows",
    re.compile(r"FILTER_NOT_BOOLEAN"): "a condition must be true or false, as in count > 0",
}
"""Hints for errors of Spark in DSL rules. Only Spark knows the types of its functions."""


def query_text(config: RuleConfig) -> str:
    """Return the query of a ``spark-sql`` rule, without semicolons at the end.

    Raises
    ------
    DslError
        If text follows a semicolon, because a rule is one query.
    """
    query = re.sub(r"[\s;]+\Z", "", config.rule)
    for token in tokenize(query):
        if token.kind == "SEMICOLON":
            line, column = position(query, token.begin)
            raise DslError(
                "a rule must be one query, but text follows this semicolon", config.rule, line, column,
                rule=config.name, hint="write a rule for each query",
            )  # fmt: skip
    return query


def plan_error(error: Exception, config: RuleConfig) -> DslError:
    """Return Spark's error in planning a rule, with its position in a query."""
    query = error if isinstance(error, UnresolvedQueryError) else None
    message = describe(error) if query is None else query.reason
    line, column, hint = 1, 1, None
    if config.dsl_type != "spark-sql":  # a position in generated SQL would mislead
        hint = next(
            (text for pattern, text in _SPARK_ERROR_HINTS.items() if pattern.search(message)), None
        )
    elif query is not None and query.position is not None:
        line, column = query.position[0], query.position[1] + 1
    message = (
        message if len(message) <= _MAX_MESSAGE_CHARS else f"{message[:_MAX_MESSAGE_CHARS]}..."
    )
    return DslError(message, config.rule, line, column, rule=config.name, phase="plan", hint=hint)


def data_error(error: Exception, config: RuleConfig, plan: RulePlan) -> Exception:
    """Return Spark's error in measuring a rule, with the columns and operations that may be the cause.

    For a query, the cause is the expression that Spark points to. The expression may be in an earlier rule.
    """
    by_data = isinstance(error, MetricRuntimeError) or is_data_error(error)
    cause = plan.hazards.causes_of(str(error)) if by_data else ""
    if not cause and config.dsl_type == "spark-sql":
        cause = failing_expression(str(error))
    if not cause:
        return error
    explained = SuiteError(f"{describe(error)}; {cause}")
    explained.__cause__ = error
    return explained


def failing_expression(message: str) -> str:
    r"""Return the expression of a query that Spark's error points to; empty if it points to none.

    Examples
    --------
    >>> text = "[DIVIDE_BY_ZERO] ...\n== SQL (line 2, position 5) ==\nsum(n / m)\n    ^^^^^\n"
    >>> failing_expression(text)
    "it fails in 'n / m'"
    """
    match = _MARKED_EXPRESSION.search(message)
    if match is None:
        return ""
    begin = len(match["before"])
    expression = match["line"][begin : begin + len(match["marks"])]
    return f"it fails in {expression[:_MAX_MESSAGE_CHARS]!r}" if expression else ""
