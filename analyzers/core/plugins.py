"""Plug-ins from other packages, discovered by entry points.

A package lists its modules under the entry point groups ``tidegauge.analyzers`` or
``tidegauge.detectors``; importing a module registers what it defines, as for built-in modules. The group
``tidegauge.sinks`` lists functions that take a message's title and body, and the text after the sink's
name. A plug-in that cannot be imported, or registers a name that is taken, is skipped as a whole with a
warning; everything else continues.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from typing import Any

from tidegauge.analyzers.core.errors import PluginWarning, describe

_GUARDED: list[tuple[dict[str, Any], Callable[[], object]]] = []


@dataclass(frozen=True)
class Plugin:
    """A loaded entry point, or the reason why it could not be loaded.

    Attributes
    ----------
    name : str
        The entry point's name.
    package : str
    problem : str
        The error; empty if it was loaded.
    value : object
        The object that the entry point refers to.
    """

    name: str
    package: str
    problem: str = ""
    value: Any = None


def guard(registry: dict[str, Any], complete: Callable[[], object] = lambda: None) -> None:
    """Register a registry for rollback: it is restored if a plug-in fails while loading.

    Parameters
    ----------
    registry : dict
    complete : callable, optional
        Imports all built-in entries. It is called before the first plug-in is loaded, so that the
        restored snapshot includes them: a module that is already imported does not register again.
    """
    _GUARDED.append((registry, complete))


@cache
def load_plugins(group: str) -> tuple[Plugin, ...]:
    """Import all plug-ins of a group, once, and return each with its value or its problem."""
    found = []
    points = sorted(entry_points(group=group), key=lambda point: point.name)
    for _, complete in list(_GUARDED) if points else ():
        complete()
    for point in points:
        package = point.dist.name if point.dist else "an unknown package"
        before = [(registry, dict(registry)) for registry, _ in _GUARDED]
        try:
            value = point.load()
        except Exception as error:  # noqa: BLE001 - third-party code may raise anything
            for registry, kept in before:
                registry.clear()
                registry.update(kept)
            found.append(Plugin(point.name, package, describe(error)))
            msg = f"plug-in {point.name!r} of {package} was skipped: {describe(error)}"
            warnings.warn(msg, PluginWarning, stacklevel=2)
        else:
            found.append(Plugin(point.name, package, value=value))
    return tuple(found)
