"""Extensions in other packages, found by entry points.

A package names its modules under ``tidegauge.analyzers`` or ``tidegauge.detectors``; importing one
registers what it defines, as our own modules do. ``tidegauge.sinks`` names functions of a message's title
and body, and of what stands after the sink's name. One that cannot be imported, or takes a name that is
taken, is named in a warning and skipped as a whole; all else goes on.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from typing import Any

from analyzers.errors import PluginWarning, describe

_GUARDED: list[dict[str, Any]] = []


@dataclass(frozen=True)
class Plugin:
    """An entry point that was loaded, or why it was not.

    Attributes
    ----------
    name : str
        The entry point's.
    package : str
    problem : str
        Empty if it was loaded.
    value : object
        What the entry point names.
    """

    name: str
    package: str
    problem: str = ""
    value: Any = None


def guard(registry: dict[str, Any]) -> dict[str, Any]:
    """Have a registry put back as it was if a plug-in that adds to it fails."""
    _GUARDED.append(registry)
    return registry


@cache
def load_plugins(group: str) -> tuple[Plugin, ...]:
    """Import all plug-ins of a group, once, and return what became of each."""
    found = []
    for point in sorted(entry_points(group=group), key=lambda point: point.name):
        package = point.dist.name if point.dist else "an unknown package"
        before = [dict(registry) for registry in _GUARDED]
        try:
            value = point.load()
        except Exception as error:  # noqa: BLE001 - whatever a stranger's module raises
            for registry, kept in zip(_GUARDED, before, strict=True):
                registry.clear()
                registry.update(kept)
            found.append(Plugin(point.name, package, describe(error)))
            msg = f"plug-in {point.name!r} of {package} was skipped: {describe(error)}"
            warnings.warn(msg, PluginWarning, stacklevel=2)
        else:
            found.append(Plugin(point.name, package, value=value))
    return tuple(found)
