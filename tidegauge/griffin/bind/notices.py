"""Warnings about rules that may not mean what their author intended."""

from __future__ import annotations

from collections.abc import Iterator

from tidegauge.griffin.dsl.nodes import Binary, Node, Unary
from tidegauge.griffin.dsl.parser import children
from tidegauge.griffin.dsl.writer import COMPARISONS, write


def precedence_notices(tree: Node, text: str) -> Iterator[str]:
    """Yield warnings about a rule, with their position; ``tree`` is parsed from ``text``.

    ``NOT`` binds more tightly than a comparison in this language, and less tightly in SQL.

    Examples
    --------
    >>> from tidegauge.griffin.dsl.parser import parse
    >>> text = "not a = b"
    >>> list(precedence_notices(parse(text), text))
    ['line 1, column 1: NOT a = b means (NOT a) = b; for the other meaning write NOT (a = b)']
    """
    todo = [tree]
    while todo:
        node = todo.pop()
        todo += children(node)
        if not isinstance(node, Binary) or node.operator not in COMPARISONS:
            continue
        first = node.left
        if isinstance(first, Unary) and first.operator == "not" and text[first.span.start] != "(":
            other = Binary(node.operator, first.operand, node.right)
            yield (
                f"line {first.span.line}, column {first.span.column}: NOT {write(other)} means {write(node)};"
                f" for the other meaning write NOT ({write(other)})"
            )
