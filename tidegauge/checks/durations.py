"""Durations as people write them: a number and a unit, such as ``90m`` or ``1d``."""

from __future__ import annotations

import re
from math import inf

from tidegauge.analyzers.core.errors import SuiteError

SECONDS_BY_UNIT = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400, "w": 604_800}

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|min|h|d|w)?")


def seconds(duration: float | str, name: str = "duration") -> float:
    """Return a duration in seconds; a number is in seconds already.

    Parameters
    ----------
    duration : float or str
        Such as 3600, ``90m``, ``24h``, ``1d`` or ``2w``.
    name : str
        The option's name, for the error.

    Raises
    ------
    SuiteError
        If it is neither a number from 0 on nor a number and a unit.

    Examples
    --------
    >>> seconds(90), seconds("90"), seconds("90m"), seconds("1d"), seconds("1.5 h")
    (90.0, 90.0, 5400.0, 86400.0, 5400.0)
    >>> seconds("1 day", "within")
    Traceback (most recent call last):
    ...
    tidegauge.analyzers.core.errors.SuiteError: Invalid within '1 day': use seconds, or a number and a unit such as 90m, 24h or 1d
    """
    if isinstance(duration, str):
        match = _DURATION.fullmatch(duration.strip())
        if match is not None:
            return float(match[1]) * SECONDS_BY_UNIT[match[2] or "s"]
    elif not isinstance(duration, bool) and 0 <= duration < inf:
        return float(duration)
    msg = f"Invalid {name} {duration!r}: use seconds, or a number and a unit such as 90m, 24h or 1d"
    raise SuiteError(msg)
