"""What columns are called that rules do not name."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import fields

from analyzers.griffin.nodes import (
    Aliased,
    Attribute,
    Call,
    Column,
    Expression,
    Index,
    Name,
    Node,
    Number,
    Text,
)


def children(node: Node) -> Iterator[Node]:
    """Yield the nodes right below one, in the order of the text."""
    for field in fields(node):
        value = getattr(node, field.name)
        for one in value if isinstance(value, tuple) else (value,):
            if isinstance(one, Node):
                yield one


def walk(node: Node) -> Iterator[Node]:
    """Yield a node and all below it, each before what is below it."""
    waiting = [node]
    while waiting:
        found = waiting.pop()
        yield found
        waiting += reversed(list(children(found)))


def alias_of(  # noqa: PLR0911 - one for each kind of node
    node: Expression, frames: Collection[str] = ()
) -> str | None:
    """Return what an expression is called: its alias, or its selection's parts; None for arithmetic and values.

    Parameters
    ----------
    node : Expression
    frames : collection of str
        Names, in small letters, that add nothing where they stand at the head.

    Examples
    --------
    >>> from analyzers.griffin.nodes import Attribute, Call, Name
    >>> alias_of(Call("max", (Attribute(Name("source"), "age"),), method=True), {"source"})
    'age_max'
    """
    match node:
        case Aliased():
            return node.alias
        case Column():
            return node.name
        case Name():
            return None if node.name.casefold() in frames else node.name
        case Attribute():
            return _joined(alias_of(node.of, frames), node.name)
        case Index():
            return _joined(alias_of(node.of, frames), _key(node.index))
        case Call(method=True):
            return _joined(alias_of(node.arguments[0], frames), node.name)
        case Call():
            return node.name
        case _:
            return None


def _joined(head: str | None, tail: str | None) -> str | None:
    return "_".join(part for part in (head, tail) if part) or None


def _key(index: Expression) -> str | None:
    if isinstance(index, Text):
        return index.value
    return f"{index.value:f}" if isinstance(index, Number) else alias_of(index)


def aliases(
    items: Sequence[Expression], frames: Collection[str] = (), taken: Collection[str] = ()
) -> tuple[str, ...]:
    """Return a name for each item, no two alike whatever the letter case.

    Explicit aliases stay as they are. An item without a name is called after the first thing in it that has
    one, else ``alias_0`` by its place; a name that is there already gets ``_2``, ``_3``.

    Parameters
    ----------
    items : sequence of Expression
    frames : collection of str
        Names, in small letters, of frames.
    taken : collection of str
        Names that are given away.

    Examples
    --------
    >>> from analyzers.griffin.nodes import Aliased, Call, Name
    >>> aliases([Call("max", (Name("a"),)), Call("max", (Name("b"),)), Aliased(Name("c"), "x")])
    ('max', 'max_2', 'x')
    """
    used = {name.casefold() for name in taken}
    used |= {item.alias.casefold() for item in items if isinstance(item, Aliased)}
    found = []
    for place, item in enumerate(items):
        if isinstance(item, Aliased):
            found.append(item.alias)
            continue
        named = (alias_of(node, frames) for node in walk(item))  # type: ignore[arg-type]
        name = next((one for one in named if one), f"alias_{place}")
        found.append(free(name, used))
        used.add(found[-1].casefold())
    return tuple(found)


def free(name: str, used: Collection[str]) -> str:
    """Return a name that is not used yet: itself, or with ``_2``, ``_3`` behind it.

    Examples
    --------
    >>> free("max", {"max", "max_2"})
    'max_3'
    """
    found, number = name, 1
    while found.casefold() in used:
        number += 1
        found = f"{name}_{number}"
    return found
