"""TypeScript declarations of the widget protocol, generated from its typed dictionaries.

``python -m tidegauge.widgets.protocol_dts`` writes them to ``src/data/protocol.d.ts``.
"""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

import numpy as np
from numpy.typing import NDArray

from tidegauge.widgets import protocol

DECLARATIONS_FILE = Path(__file__).parent / "src" / "data" / "protocol.d.ts"
_FILE_HEADER = (
    "// Generated from protocol.py by `python -m tidegauge.widgets.protocol_dts`; do not edit."
)
_SCALAR_TYPES: Mapping[Any, str] = {
    str: "string",
    bool: "boolean",
    int: "number",
    float: "number | null",  # NaN and infinities are sent as null
    datetime: "string",
    Any: "unknown",
    type(None): "null",
}
_ARRAY_TYPES: Mapping[Any, str] = {
    np.uint8: "Uint8Array",
    np.int32: "Int32Array",
    np.int64: "Float64Array",
    np.float32: "Float32Array",
    np.float64: "Float64Array",
}
"""Typed arrays by dtype; `answers.Answer.packed` converts 64-bit integers to floats."""


def declarations() -> str:
    """Return the TypeScript declarations of all messages.

    Examples
    --------
    >>> "export interface CommitsAnswer {" in declarations()
    True
    """
    parts = [_FILE_HEADER]
    for name, value in vars(protocol).items():
        if is_typeddict(value) and value.__module__ == protocol.__name__:
            parts.append(_interface(name, value))
        elif name in _aliases():
            parts.append(f"export type {name} = {_members(value)};")
    questions = [
        f"  {name}: {{ params: {_type(q.params)}; answer: {_type(q.answer)}; arrays: {_type(q.arrays)} }};"
        for name, q in protocol.QUESTION_TYPES.items()
    ]
    head = "/** Questions by name: parameters, answer, and arrays of the answer. */"
    parts.append("\n".join([head, "export interface Questions {", *questions, "}"]))
    return "\n\n".join(parts) + "\n"


def _aliases() -> list[str]:
    """Return the names of the union and literal types in the protocol."""
    return [
        name
        for name, value in vars(protocol).items()
        if get_origin(value) in {Literal, types.UnionType, Union}
    ]


def _interface(name: str, message: Any) -> str:
    """Return the TypeScript interface of a typed dictionary, with its notes as comments."""
    hints = get_type_hints(message, include_extras=True)
    summary = f"/** {message.__doc__.splitlines()[0]} */"
    if not hints:  # an empty interface would accept anything
        return f"{summary}\nexport type {name} = Record<string, never>;"
    lines = [summary, f"export interface {name} {{"]
    for field, hint in hints.items():
        required, kind, note = True, hint, None
        while get_origin(kind) in {NotRequired, Annotated}:
            if get_origin(kind) is NotRequired:
                required, kind = False, get_args(kind)[0]
            else:
                kind, note = get_args(kind)[:2]
        if note:
            lines.append(f"  /** {note} */")
        lines.append(f"  {field}{'' if required else '?'}: {_type(kind)};")
    return "\n".join([*lines, "}"])


def _type(kind: Any) -> str:
    """Return the TypeScript name of a Python type; types with an alias are named by it."""
    for name in _aliases():
        if kind == getattr(protocol, name):
            return name
    return _members(kind)


def _members(kind: Any) -> str:  # noqa: PLR0911 - one return for each kind of type
    """Return a Python type in TypeScript, without regard to its alias.

    Raises
    ------
    TypeError
        If TypeScript has no such type.
    """
    if kind in _SCALAR_TYPES:
        return _SCALAR_TYPES[kind]
    if is_typeddict(kind):
        return str(kind.__name__)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Literal:
        return " | ".join(f'"{value}"' for value in arguments)
    if origin in {types.UnionType, Union}:
        names = " | ".join(_type(argument) for argument in arguments).split(" | ")
        return " | ".join(dict.fromkeys(names))
    if origin is Sequence:
        item = _type(arguments[0])
        compound = "|" in item or item.startswith("readonly ")
        return f"readonly ({item})[]" if compound else f"readonly {item}[]"
    if origin is Mapping:
        return f"Record<{_type(arguments[0])}, {_type(arguments[1])}>"
    if origin is tuple:
        return f"readonly [{', '.join(map(_type, arguments))}]"
    if origin is NDArray:  # since NumPy 2.5
        return _ARRAY_TYPES[arguments[0]]
    if origin is np.ndarray:
        return _ARRAY_TYPES[get_args(arguments[1])[0]]
    msg = f"no TypeScript type for {kind!r}"
    raise TypeError(msg)


if __name__ == "__main__":
    DECLARATIONS_FILE.write_text(declarations(), encoding="utf-8")
