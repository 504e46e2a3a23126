"""Signatures without quotation marks around their types, for ``?`` in Jupyter and `help`."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any

_DONE: set[str] = set()


class _Written(str):
    """An annotation that shows as it was written; `typing.get_type_hints` reads it as before."""

    __slots__ = ()
    __repr__ = str.__str__


def readable(find: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return a module's ``__getattr__`` that also makes signatures readable where a name is defined.

    Annotations are text, because what they name is imported only when it is used; `inspect.signature`
    would show each of them as a quoted string.

    Examples
    --------
    >>> import inspect, tidegauge as tg
    >>> inspect.signature(tg.Completeness)
    <Signature (column: str, *, where: str | None = None) -> None>
    """

    def attribute(name: str) -> Any:
        found = find(name)
        for one in getattr(found, "__mro__", (found,)):
            module = getattr(one, "__module__", None)
            if isinstance(module, str) and module.startswith("tidegauge"):
                _unquote_module(module)
        return found

    return attribute


def with_hints(find: Callable[[str], Any], package: str, public: list[str]) -> Callable[[str], Any]:
    """Return a package's ``__getattr__`` that answers unknown names with what they are called here.

    Examples
    --------
    >>> import tidegauge as tg
    >>> tg.consistency.cmpare
    Traceback (most recent call last):
    AttributeError: tidegauge.consistency has no 'cmpare'; did you mean 'compare'?
    """
    readably = readable(find)

    def attribute(name: str) -> Any:
        try:
            return readably(name)
        except AttributeError as error:
            from tidegauge.spellings import hint

            told = "" if name.startswith("_") else hint(name, public)
            if not told:
                raise
            msg = f"{package} has no {name!r}; {told}"
            raise AttributeError(msg, name=name) from error

    return attribute


def _unquote_module(name: str) -> None:
    if name in _DONE:
        return
    _DONE.add(name)
    own = [value for value in vars(sys.modules[name]).values() if _module(value) == name]
    for value in own:
        members = vars(value).values() if inspect.isclass(value) else (value,)
        for member in members:
            _unquote(member)


def _module(value: object) -> object:
    return getattr(value, "__module__", None)


def _unquote(member: Any) -> None:
    if isinstance(member, property):
        member = member.fget
    elif isinstance(member, functools.cached_property):
        member = member.func
    member = getattr(member, "__func__", member)
    shown = getattr(member, "__signature__", None)
    if isinstance(shown, inspect.Signature):  # of a method whose filters are listed
        parameters = [
            p.replace(annotation=_written(p.annotation)) for p in shown.parameters.values()
        ]
        returned = _written(shown.return_annotation)
        member.__signature__ = shown.replace(parameters=parameters, return_annotation=returned)
    function = inspect.unwrap(member)
    if inspect.isfunction(function):
        types = function.__annotations__
        types.update({name: _written(annotation) for name, annotation in types.items()})


def _written(annotation: Any) -> Any:
    return _Written(annotation) if type(annotation) is str else annotation
