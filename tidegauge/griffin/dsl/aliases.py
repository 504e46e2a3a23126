"""Default column names for unaliased items of a rule."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tidegauge.griffin.dsl.nodes import (
    Aliased,
    Attribute,
    Call,
    ColumnNode,
    Expression,
    Index,
    Name,
    Number,
    Text,
    walk,
)


def alias_of(  # noqa: PLR0911 - one for each kind of node
    node: Expression, frames: Collection[str] = ()
) -> str | None:
    """Return an expression's alias or its joined selection path; None for arithmetic and literals.

    Parameters
    ----------
    node : Expression
    frames : collection of str
        Lowercase names that are dropped from the head of a selection.

    Examples
    --------
    >>> from tidegauge.griffin.dsl.nodes import Attribute, Call, Name
    >>> alias_of(Call("max", (Attribute(Name("source"), "age"),), method=True), {"source"})
    'age_max'
    """
    match node:
        case Aliased():
            return node.alias
        case ColumnNode():
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
    """Return a unique name for each item, ignoring letter case.

    Explicit aliases stay as they are. An item without a name takes the first name found inside it,
    else ``alias_0`` by its position; a name that is already taken gets the suffix ``_2``, ``_3``.

    Parameters
    ----------
    items : sequence of Expression
    frames : collection of str
        Lowercase names of frames.
    taken : collection of str
        Names that are already taken.

    Examples
    --------
    >>> from tidegauge.griffin.dsl.nodes import Aliased, Call, Name
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
    """Return a name that is not in use: the name itself, or with the suffix ``_2``, ``_3``.

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
