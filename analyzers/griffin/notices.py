"""What a rule says that its writer may not have meant."""

from __future__ import annotations

from collections.abc import Iterator

from analyzers.griffin.nodes import Binary, Node, Unary
from analyzers.griffin.parsing import children
from analyzers.griffin.writing import COMPARISONS, write


def notices(tree: Node, text: str) -> Iterator[str]:
    """Yield what should be told of a rule, with its place; ``tree`` is what ``text`` was parsed to.

    ``NOT`` is tighter than a comparison in this language, and looser in SQL.

    Examples
    --------
    >>> from analyzers.griffin.parsing import parse
    >>> text = "not a = b"
    >>> list(notices(parse(text), text))
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
