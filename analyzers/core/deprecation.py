"""Deprecation of public functions, parameters and names.

A deprecated name keeps working for one minor release, as `docs/stability.md` promises. Each use raises a
``DeprecationWarning`` at the caller's line that names the replacement and the release that removes the old name.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import warnings
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def deprecated(*, use: str, removed_in: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator that makes a function or method warn when it is called.

    Parameters
    ----------
    use : str
        What to use instead, as users write it.
    removed_in : str
        The minor release that removes the function.

    Examples
    --------
    >>> import warnings
    >>> @deprecated(use="new_total()", removed_in="0.3")
    ... def total(values):
    ...     return sum(values)
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     total([1, 2])
    3
    >>> print(caught[0].message)
    total() is deprecated and will be removed in tidegauge 0.3; use new_total() instead
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
            _warn(f"{_display_name(function)}()", use, removed_in)
            return function(*args, **kwargs)

        return wrapper

    return decorate


def renamed_parameters(
    *, removed_in: str, **new_names: str
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator that accepts keyword arguments under their old names and warns.

    Parameters
    ----------
    removed_in : str
        The minor release that removes the old names.
    **new_names : str
        The new name of each parameter, by its old name.

    Raises
    ------
    TypeError
        If a call passes both names of a parameter, or if a new name is not a parameter of the function.

    Examples
    --------
    >>> import warnings
    >>> @renamed_parameters(removed_in="0.3", most="limit")
    ... def first(values, limit=1):
    ...     return values[:limit]
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     first("abc", most=2)
    'ab'
    >>> print(caught[0].message)
    parameter 'most' of first() is deprecated and will be removed in tidegauge 0.3; use limit= instead
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        name = f"{_display_name(function)}()"
        unknown = sorted(set(new_names.values()) - set(inspect.signature(function).parameters))
        if unknown:
            raise TypeError(f"{name} has no parameter {', '.join(map(repr, unknown))}")

        @functools.wraps(function)
        def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
            # mypy does not let a ParamSpec's arguments be rebuilt.
            arguments: dict[str, Any] = dict(kwargs)
            for old, new in new_names.items():
                if old in arguments:
                    _warn(f"parameter {old!r} of {name}", f"{new}=", removed_in)
                    if new in arguments:
                        raise TypeError(f"{name} got both {old!r} and {new!r}; pass only {new!r}")
                    arguments[new] = arguments.pop(old)
            call: Callable[..., R] = function
            return call(*args, **arguments)

        return wrapper

    return decorate


def deprecated_names(
    module: str, new_names: Mapping[str, str], *, removed_in: str
) -> Callable[[str], Any]:
    """Return a ``__getattr__`` for a module whose names were renamed or moved.

    Parameters
    ----------
    module : str
        ``__name__`` of the module that had the names.
    new_names : mapping of str to str
        The full new name of each old name, such as ``{"Sum": "tidegauge.Total"}``.
    removed_in : str
        The minor release that removes the old names.

    Examples
    --------
    >>> import warnings
    >>> getattribute = deprecated_names("tidegauge", {"root": "math.sqrt"}, removed_in="0.3")
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     getattribute("root")(9.0)
    3.0
    >>> print(caught[0].message)
    tidegauge.root is deprecated and will be removed in tidegauge 0.3; use math.sqrt instead
    """

    def getattribute(name: str) -> Any:
        if name not in new_names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        _warn(f"{module}.{name}", new_names[name], removed_in)
        new_module, _, new_name = new_names[name].rpartition(".")
        return getattr(importlib.import_module(new_module), new_name)

    return getattribute


def _display_name(function: Callable[..., Any]) -> str:
    """Return a function's name with its class, without the names of enclosing functions."""
    return function.__qualname__.rpartition("<locals>.")[2]


def _warn(name: str, use: str, removed_in: str) -> None:
    """Warn at the line that called the function which called this one."""
    message = (
        f"{name} is deprecated and will be removed in tidegauge {removed_in}; use {use} instead"
    )
    warnings.warn(message, DeprecationWarning, stacklevel=3)
