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

DECLARATIONS = Path(__file__).parent / "src" / "data" / "protocol.d.ts"
_HEAD = "// Generated from protocol.py by `python -m tidegauge.widgets.protocol_dts`; do not edit."
_SCALARS: Mapping[Any, str] = {
    str: "string",
    bool: "boolean",
    int: "number",
    float: "number | null",  # NaN and infinities are sent as null
    datetime: "string",
    Any: "unknown",
    type(None): "null",
}
_ARRAYS: Mapping[Any, str] = {
    np.uint8: "Uint8Array",
    np.int32: "Int32Array",
    np.int64: "Float64Array",
    np.float32: "Float32Array",
    np.float64: "Float64Array",
}
"""Typed arrays by dtype; see `answer.Answer.packed` for the conversion of 64-bit integers."""


def declarations() -> str:
    """Return the TypeScript declarations of all messages.

    Examples
    --------
    >>> "export interface PulseAnswer {" in declarations()
    True
    """
    parts = [_HEAD]
    for name, value in vars(protocol).items():
        if is_typeddict(value) and value.__module__ == protocol.__name__:
            parts.append(_interface(name, value))
        elif name in _aliases():
            parts.append(f"export type {name} = {_members(value)};")
    questions = [
        f"  {name}: {{ about: {_type(q.about)}; answer: {_type(q.answer)}; arrays: {_type(q.arrays)} }};"
        for name, q in protocol.QUESTIONS.items()
    ]
    head = "/** Questions by name: parameters, answer, and arrays of the answer. */"
    parts.append("\n".join([head, "export interface Questions {", *questions, "}"]))
    return "\n\n".join(parts) + "\n"


def _aliases() -> list[str]:
    return [
        name
        for name, value in vars(protocol).items()
        if get_origin(value) in {Literal, types.UnionType, Union}
    ]


def _interface(name: str, message: Any) -> str:
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
    """Return a Python type in TypeScript, aliases by their names."""
    for name in _aliases():
        if kind == getattr(protocol, name):
            return name
    return _members(kind)


def _members(kind: Any) -> str:  # noqa: PLR0911 - one for each kind of type
    if kind in _SCALARS:
        return _SCALARS[kind]
    if is_typeddict(kind):
        return str(kind.__name__)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Literal:
        return " | ".join(f'"{value}"' for value in arguments)
    if origin in {types.UnionType, Union}:
        names = " | ".join(_type(one) for one in arguments).split(" | ")
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
        return _ARRAYS[arguments[0]]
    if origin is np.ndarray:
        return _ARRAYS[get_args(arguments[1])[0]]
    msg = f"no TypeScript type for {kind!r}"
    raise TypeError(msg)


if __name__ == "__main__":
    DECLARATIONS.write_text(declarations(), encoding="utf-8")
