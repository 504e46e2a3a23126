"""Hashes of users' functions and classes by their source code, stable across processes."""

from __future__ import annotations

import functools
import hashlib
import inspect
import re
import types
from collections.abc import Iterator, Sequence
from datetime import date, time, timedelta
from enum import Enum
from numbers import Number
from typing import Any

_PLAIN = (str, bytes, Number, date, time, timedelta, Enum, type(None))


def source_hash(thing: Any) -> str:
    """Return a hash of the behaviour of a function, a class or an object.

    It covers the source, the closure, the defaults and the attributes of objects, and recursively
    the functions, classes and plain values of the same module that it names. Imports from elsewhere
    are identified by name only.
    """
    digest = hashlib.sha256()
    for line in _Walk(_home(thing)).told(thing):
        digest.update(line.encode(errors="surrogatepass"))
        digest.update(b"\0")
    return digest.hexdigest()


def _home(thing: Any) -> str:
    """Return the module that defines a function, class or object."""
    while isinstance(thing, functools.partial):
        thing = thing.func
    own = isinstance(thing, type | types.FunctionType | types.MethodType)
    return str((thing if own else type(thing)).__module__)


class _Walk:
    """Traversal of everything that code of one module refers to; each value is visited once."""

    def __init__(self, home: str) -> None:
        self.home = home
        self.seen: dict[int, Any] = {}

    def told(self, value: Any) -> Iterator[str]:
        """Yield lines that describe a value, independent of addresses and of the order of sets."""
        if isinstance(value, _PLAIN):
            yield f"{type(value).__name__} {value!r}"
        elif isinstance(value, re.Pattern):
            yield f"pattern {value.flags} {value.pattern!r}"
        elif id(value) not in self.seen:
            self.seen[id(value)] = value
            yield from self._compound(value)

    def _compound(self, value: Any) -> Iterator[str]:
        match value:
            case list() | tuple():
                yield from self._all("sequence", value)
            case set() | frozenset():
                yield from sorted("\n".join(self.told(item)) for item in value)
            case dict():
                yield from self._all("mapping", [part for item in value.items() for part in item])
            case functools.partial():
                yield from self._all("partial", [value.func, value.args, value.keywords])
            case types.MethodType():
                yield from self._all("method", [value.__func__, value.__self__])
            case types.CodeType():
                yield from self._all("code", [value.co_code, value.co_names, value.co_consts])
            case types.FunctionType() | type():
                yield f"{value.__module__}.{value.__qualname__}"
                if value.__module__ == self.home:
                    yield from self._code(value)
            case _:
                yield from self.told(type(value))
                if type(value).__module__ == self.home:
                    yield from self._all("object", sorted(getattr(value, "__dict__", {}).items()))

    def _all(self, kind: str, values: Sequence[Any]) -> Iterator[str]:
        yield f"{kind} of {len(values)}"
        for value in values:
            yield from self.told(value)

    def _code(self, thing: types.FunctionType | type) -> Iterator[str]:
        """Yield the source of a function or class, and everything it refers to."""
        try:
            yield inspect.getsource(thing)
        except (OSError, TypeError):  # source unavailable, e.g. entered at a plain console
            if isinstance(thing, types.FunctionType):
                yield from self.told(thing.__code__)
        if isinstance(thing, type):
            yield from self._all("bases", thing.__bases__)
            parts = (getattr(part, "__func__", part) for part in vars(thing).values())
            for part in parts:
                if isinstance(part, types.FunctionType):
                    yield from self._named(part)
            return
        yield from self._named(thing)
        given = [thing.__defaults__, thing.__kwdefaults__]
        yield from self._all("values", [*given, *_closed_over(thing)])

    def _named(self, function: types.FunctionType) -> Iterator[str]:
        known = function.__globals__
        for name in _names(function.__code__):
            if name in known and not isinstance(known[name], types.ModuleType):
                yield from self.told(known[name])


def _closed_over(function: types.FunctionType) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # the cell is still unbound
            yield None


def _names(code: types.CodeType) -> list[str]:
    """Return the names that code reads, including those in nested functions."""
    inner = [c for c in code.co_consts if isinstance(c, types.CodeType)]
    return [*code.co_names, *(name for c in inner for name in _names(c))]
