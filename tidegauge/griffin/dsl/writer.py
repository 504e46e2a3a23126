"""Writer of the Griffin DSL: syntax tree to rule text, with the fewest brackets possible."""

from __future__ import annotations

from collections.abc import Iterable
from functools import singledispatch

from tidegauge.griffin.dsl import nodes
from tidegauge.griffin.dsl.grammar import is_plain, quote_text

# Precedence levels, loosest first.
(
    ALIAS_LEVEL,
    OR_LEVEL,
    AND_LEVEL,
    COMPARISON_LEVEL,
    PREDICATE_LEVEL,
    SUM_LEVEL,
    TERM_LEVEL,
    SIGN_LEVEL,
    SELECTION_LEVEL,
) = range(9)
_LEVEL_BY_OPERATOR = {
    "or": OR_LEVEL,
    "and": AND_LEVEL,
    "+": SUM_LEVEL,
    "-": SUM_LEVEL,
    "*": TERM_LEVEL,
    "/": TERM_LEVEL,
    "%": TERM_LEVEL,
}


def write(node: nodes.Node) -> str:
    r"""Return the source of a rule or of a part of it; parsing it gives the same tree.

    Examples
    --------
    >>> from tidegauge.griffin.dsl.parser import parse
    >>> write(parse("((a=1)) && (b in ('x',\"y\") || !c)"))
    "a = 1 AND (b IN ('x', 'y') OR NOT c)"
    """
    return _write_with_level(node)[0]


@singledispatch
def _write_with_level(node: nodes.Node) -> tuple[str, int]:
    """Return the source and the precedence level of a node."""
    raise TypeError(f"{type(node).__name__} is not part of a rule")


def _write_at_level(node: nodes.Node, min_level: int) -> str:
    text, level = _write_with_level(node)
    return text if level >= min_level else f"({text})"


def _write_list(items: Iterable[nodes.Node], min_level: int = OR_LEVEL) -> str:
    return ", ".join(_write_at_level(item, min_level) for item in items)


def _write_name(name: str, *, head: bool = False) -> str:
    return name if is_plain(name, head=head) else "`" + name.replace("`", "``") + "`"


def _write_container(node: nodes.Node) -> str:
    """Return the source left of a dot; a number gets brackets, because the dot would belong to the number."""
    text = _write_at_level(node, SELECTION_LEVEL)
    return f"({text})" if isinstance(node, nodes.Number) else text


@_write_with_level.register
def _(node: nodes.Text) -> tuple[str, int]:
    return quote_text(node.value), SELECTION_LEVEL


@_write_with_level.register
def _(node: nodes.Number) -> tuple[str, int]:
    return str(node.value), SELECTION_LEVEL


@_write_with_level.register
def _(node: nodes.DurationNode) -> tuple[str, int]:
    return f"{node.amount}{node.unit}", SELECTION_LEVEL


@_write_with_level.register
def _(node: nodes.Boolean) -> tuple[str, int]:
    return str(node.value).lower(), SELECTION_LEVEL


@_write_with_level.register
def _(node: nodes.Null) -> tuple[str, int]:
    return "null", SELECTION_LEVEL


@_write_with_level.register
def _(node: nodes.NaN) -> tuple[str, int]:
    return "nan", SELECTION_LEVEL


@_write_with_level.register
def _(node: nodes.Star) -> tuple[str, int]:
    return "*", SELECTION_LEVEL


@_write_with_level.register
def _(node: nodes.Name) -> tuple[str, int]:
    return _write_name(node.name, head=True), SELECTION_LEVEL


@_write_with_level.register
def _(node: nodes.TableNode) -> tuple[str, int]:
    return _write_name(node.name, head=True), SELECTION_LEVEL


@_write_with_level.register
def _(node: nodes.ColumnNode) -> tuple[str, int]:
    return f"{_write_name(node.table, head=True)}.{_write_name(node.name)}", SELECTION_LEVEL


@_write_with_level.register
def _(node: nodes.Attribute) -> tuple[str, int]:
    return f"{_write_container(node.container)}.{_write_name(node.name)}", SELECTION_LEVEL


@_write_with_level.register
def _(node: nodes.AllOf) -> tuple[str, int]:
    return f"{_write_container(node.container)}.*", SELECTION_LEVEL


@_write_with_level.register
def _(node: nodes.Index) -> tuple[str, int]:
    return (
        f"{_write_container(node.container)}[{_write_at_level(node.index, OR_LEVEL)}]",
        SELECTION_LEVEL,
    )


@_write_with_level.register
def _(node: nodes.Call) -> tuple[str, int]:
    if node.method:
        container, *arguments = node.arguments
        return (
            f"{_write_container(container)}.{_write_name(node.name)}({_write_list(arguments)})",
            SELECTION_LEVEL,
        )
    distinct = "DISTINCT " if node.distinct else ""
    return (
        f"{_write_name(node.name, head=True)}({distinct}{_write_list(node.arguments)})",
        SELECTION_LEVEL,
    )


@_write_with_level.register
def _(node: nodes.Unary) -> tuple[str, int]:
    if node.operator == "not":
        return f"NOT {_write_at_level(node.operand, PREDICATE_LEVEL)}", PREDICATE_LEVEL
    operand = _write_at_level(node.operand, SIGN_LEVEL)
    space = " " if operand[0] in "+-" else ""  # two minus signs begin a comment
    return f"{node.operator}{space}{operand}", SIGN_LEVEL


@_write_with_level.register
def _(node: nodes.Binary) -> tuple[str, int]:
    holds = _LEVEL_BY_OPERATOR.get(node.operator, COMPARISON_LEVEL)
    # AND and OR are associative, so the grouping of a chain does not matter.
    least = holds if node.operator in {"and", "or"} else holds + 1
    left, right = _write_at_level(node.left, holds), _write_at_level(node.right, least)
    if holds == COMPARISON_LEVEL:
        left, right = _bracket_negation(node.left, left), _bracket_negation(node.right, right)
    return f"{left} {node.operator.upper()} {right}", holds


def _bracket_negation(node: nodes.Node, text: str) -> str:
    """Return one side of a comparison; a negation gets brackets, because SQL's NOT would apply to the whole comparison."""
    negated = isinstance(node, nodes.Unary) and node.operator == "not"
    return f"({text})" if negated else text


@_write_with_level.register
def _(node: nodes.In) -> tuple[str, int]:
    return (
        f"{_write_at_level(node.operand, SUM_LEVEL)}{_not_word(node.negated)} IN ({_write_list(node.options, SUM_LEVEL)})",
        PREDICATE_LEVEL,
    )


@_write_with_level.register
def _(node: nodes.BetweenNode) -> tuple[str, int]:
    operand, low, high = (
        _write_at_level(part, SUM_LEVEL) for part in (node.operand, node.low, node.high)
    )
    return f"{operand}{_not_word(node.negated)} BETWEEN {low} AND {high}", PREDICATE_LEVEL


@_write_with_level.register
def _(node: nodes.LikeNode) -> tuple[str, int]:
    word = "RLIKE" if node.regex else "LIKE"
    return (
        f"{_write_at_level(node.operand, SUM_LEVEL)}{_not_word(node.negated)} {word} {_write_at_level(node.pattern, SUM_LEVEL)}",
        PREDICATE_LEVEL,
    )


@_write_with_level.register
def _(node: nodes.IsNull) -> tuple[str, int]:
    return (
        f"{_write_at_level(node.operand, SUM_LEVEL)} IS{_not_word(node.negated)} NULL",
        PREDICATE_LEVEL,
    )


@_write_with_level.register
def _(node: nodes.IsNaN) -> tuple[str, int]:
    return (
        f"{_write_at_level(node.operand, SUM_LEVEL)} IS{_not_word(node.negated)} NAN",
        PREDICATE_LEVEL,
    )


def _not_word(negated: bool) -> str:  # noqa: FBT001 - a field of a node
    return " NOT" if negated else ""


@_write_with_level.register
def _(node: nodes.Aliased) -> tuple[str, int]:
    return f"{_write_at_level(node.expression, OR_LEVEL)} AS {_write_name(node.alias)}", ALIAS_LEVEL


@_write_with_level.register
def _(node: nodes.Accuracy) -> tuple[str, int]:
    return _write_at_level(node.condition, OR_LEVEL), ALIAS_LEVEL


@_write_with_level.register
def _(node: nodes.Listing) -> tuple[str, int]:
    return _write_list(node.items, ALIAS_LEVEL), ALIAS_LEVEL


@_write_with_level.register
def _(node: nodes.DistinctItem) -> tuple[str, int]:
    text, _ = _write_with_level(node.expression)
    return f"[{text}]" if node.grouping else text, ALIAS_LEVEL


@_write_with_level.register
def _(node: nodes.Distinct) -> tuple[str, int]:
    return _write_list(node.items, ALIAS_LEVEL), ALIAS_LEVEL


@_write_with_level.register
def _(node: nodes.OrderItem) -> tuple[str, int]:
    order = {None: "", True: " DESC", False: " ASC"}[node.descending]
    return _write_at_level(node.expression, OR_LEVEL) + order, ALIAS_LEVEL


@_write_with_level.register
def _(node: nodes.Profiling) -> tuple[str, int]:
    parts = ["SELECT DISTINCT" if node.distinct else "SELECT", _write_list(node.items, ALIAS_LEVEL)]
    if node.table is not None:
        parts += ["FROM", _write_name(node.table, head=True)]
    if node.where is not None:
        parts += ["WHERE", _write_at_level(node.where, OR_LEVEL)]
    if node.group_by:
        parts += ["GROUP BY", _write_list(node.group_by)]
    if node.having is not None:
        parts += ["HAVING", _write_at_level(node.having, OR_LEVEL)]
    if node.order_by:
        parts += ["ORDER BY", _write_list(node.order_by, ALIAS_LEVEL)]
    if node.limit is not None:
        parts += ["LIMIT", _write_at_level(node.limit, OR_LEVEL)]
    return " ".join(parts), ALIAS_LEVEL
