"""Writer of the Griffin DSL: syntax tree to rule text, with the fewest brackets possible."""

from __future__ import annotations

from collections.abc import Iterable
from functools import singledispatch

from tidegauge.griffin.dsl import nodes
from tidegauge.griffin.dsl.grammar import is_plain, quote_text

# Precedence levels, loosest first.
ALIAS, OR, AND, COMPARISON, PREDICATE, SUM, TERM, SIGN, SELECTION = range(9)
_OF_OPERATORS = {"or": OR, "and": AND, "+": SUM, "-": SUM, "*": TERM, "/": TERM, "%": TERM}


def write(node: nodes.Node) -> str:
    r"""Return the source of a rule or of a part of it; parsing it gives the same tree.

    Examples
    --------
    >>> from tidegauge.griffin.dsl.parser import parse
    >>> write(parse("((a=1)) && (b in ('x',\"y\") || !c)"))
    "a = 1 AND (b IN ('x', 'y') OR NOT c)"
    """
    return _written(node)[0]


@singledispatch
def _written(node: nodes.Node) -> tuple[str, int]:
    """Return the source and the precedence level of a node."""
    raise TypeError(f"{type(node).__name__} is not part of a rule")


def _within(node: nodes.Node, least: int) -> str:
    text, holds = _written(node)
    return text if holds >= least else f"({text})"


def _listed(items: Iterable[nodes.Node], least: int = OR) -> str:
    return ", ".join(_within(item, least) for item in items)


def _name(name: str, *, head: bool = False) -> str:
    return name if is_plain(name, head=head) else "`" + name.replace("`", "``") + "`"


def _selected(node: nodes.Node) -> str:
    """Return the source left of a dot; a number gets brackets, as the dot would belong to it."""
    text = _within(node, SELECTION)
    return f"({text})" if isinstance(node, nodes.Number) else text


@_written.register
def _(node: nodes.Text) -> tuple[str, int]:
    return quote_text(node.value), SELECTION


@_written.register
def _(node: nodes.Number) -> tuple[str, int]:
    return str(node.value), SELECTION


@_written.register
def _(node: nodes.DurationNode) -> tuple[str, int]:
    return f"{node.amount}{node.unit}", SELECTION


@_written.register
def _(node: nodes.Boolean) -> tuple[str, int]:
    return str(node.value).lower(), SELECTION


@_written.register
def _(node: nodes.Null) -> tuple[str, int]:
    return "null", SELECTION


@_written.register
def _(node: nodes.NaN) -> tuple[str, int]:
    return "nan", SELECTION


@_written.register
def _(node: nodes.Star) -> tuple[str, int]:
    return "*", SELECTION


@_written.register
def _(node: nodes.Name) -> tuple[str, int]:
    return _name(node.name, head=True), SELECTION


@_written.register
def _(node: nodes.TableNode) -> tuple[str, int]:
    return _name(node.name, head=True), SELECTION


@_written.register
def _(node: nodes.ColumnNode) -> tuple[str, int]:
    return f"{_name(node.table, head=True)}.{_name(node.name)}", SELECTION


@_written.register
def _(node: nodes.Attribute) -> tuple[str, int]:
    return f"{_selected(node.of)}.{_name(node.name)}", SELECTION


@_written.register
def _(node: nodes.AllOf) -> tuple[str, int]:
    return f"{_selected(node.of)}.*", SELECTION


@_written.register
def _(node: nodes.Index) -> tuple[str, int]:
    return f"{_selected(node.of)}[{_within(node.index, OR)}]", SELECTION


@_written.register
def _(node: nodes.Call) -> tuple[str, int]:
    if node.method:
        of, *arguments = node.arguments
        return f"{_selected(of)}.{_name(node.name)}({_listed(arguments)})", SELECTION
    distinct = "DISTINCT " if node.distinct else ""
    return f"{_name(node.name, head=True)}({distinct}{_listed(node.arguments)})", SELECTION


@_written.register
def _(node: nodes.Unary) -> tuple[str, int]:
    if node.operator == "not":
        return f"NOT {_within(node.operand, PREDICATE)}", PREDICATE
    operand = _within(node.operand, SIGN)
    space = " " if operand[0] in "+-" else ""  # two minus signs begin a comment
    return f"{node.operator}{space}{operand}", SIGN


@_written.register
def _(node: nodes.Binary) -> tuple[str, int]:
    holds = _OF_OPERATORS.get(node.operator, COMPARISON)
    # AND and OR are associative, so the grouping of a chain does not matter.
    least = holds if node.operator in {"and", "or"} else holds + 1
    left, right = _within(node.left, holds), _within(node.right, least)
    if holds == COMPARISON:
        left, right = _compared(node.left, left), _compared(node.right, right)
    return f"{left} {node.operator.upper()} {right}", holds


def _compared(node: nodes.Node, text: str) -> str:
    """Return one side of a comparison; a negation is bracketed, as SQL's NOT would span it all."""
    negated = isinstance(node, nodes.Unary) and node.operator == "not"
    return f"({text})" if negated else text


@_written.register
def _(node: nodes.In) -> tuple[str, int]:
    return (
        f"{_within(node.of, SUM)}{_not(node.negated)} IN ({_listed(node.options, SUM)})",
        PREDICATE,
    )


@_written.register
def _(node: nodes.BetweenNode) -> tuple[str, int]:
    of, low, high = (_within(part, SUM) for part in (node.of, node.low, node.high))
    return f"{of}{_not(node.negated)} BETWEEN {low} AND {high}", PREDICATE


@_written.register
def _(node: nodes.LikeNode) -> tuple[str, int]:
    word = "RLIKE" if node.regex else "LIKE"
    return (
        f"{_within(node.of, SUM)}{_not(node.negated)} {word} {_within(node.pattern, SUM)}",
        PREDICATE,
    )


@_written.register
def _(node: nodes.IsNull) -> tuple[str, int]:
    return f"{_within(node.of, SUM)} IS{_not(node.negated)} NULL", PREDICATE


@_written.register
def _(node: nodes.IsNaN) -> tuple[str, int]:
    return f"{_within(node.of, SUM)} IS{_not(node.negated)} NAN", PREDICATE


def _not(negated: bool) -> str:  # noqa: FBT001 - a field of a node
    return " NOT" if negated else ""


@_written.register
def _(node: nodes.Aliased) -> tuple[str, int]:
    return f"{_within(node.of, OR)} AS {_name(node.alias)}", ALIAS


@_written.register
def _(node: nodes.Accuracy) -> tuple[str, int]:
    return _within(node.condition, OR), ALIAS


@_written.register
def _(node: nodes.Listing) -> tuple[str, int]:
    return _listed(node.items, ALIAS), ALIAS


@_written.register
def _(node: nodes.DistinctItem) -> tuple[str, int]:
    text, _ = _written(node.of)
    return f"[{text}]" if node.grouping else text, ALIAS


@_written.register
def _(node: nodes.Distinct) -> tuple[str, int]:
    return _listed(node.items, ALIAS), ALIAS


@_written.register
def _(node: nodes.OrderItem) -> tuple[str, int]:
    order = {None: "", True: " DESC", False: " ASC"}[node.descending]
    return _within(node.of, OR) + order, ALIAS


@_written.register
def _(node: nodes.Profiling) -> tuple[str, int]:
    parts = ["SELECT DISTINCT" if node.distinct else "SELECT", _listed(node.items, ALIAS)]
    if node.table is not None:
        parts += ["FROM", _name(node.table, head=True)]
    if node.where is not None:
        parts += ["WHERE", _within(node.where, OR)]
    if node.group_by:
        parts += ["GROUP BY", _listed(node.group_by)]
    if node.having is not None:
        parts += ["HAVING", _within(node.having, OR)]
    if node.order_by:
        parts += ["ORDER BY", _listed(node.order_by, ALIAS)]
    if node.limit is not None:
        parts += ["LIMIT", _within(node.limit, OR)]
    return " ".join(parts), ALIAS
