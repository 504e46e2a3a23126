"""Durations as users write them, such as ``2h``."""

from __future__ import annotations

import re

MILLISECONDS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
"""Milliseconds per unit of time."""
_NAMES = {
    "d": ("d", "day"),
    "h": ("h", "hr", "hour"),
    "m": ("m", "min", "minute"),
    "s": ("s", "sec", "second"),
    "ms": ("", "ms", "msec", "milli", "millisec", "millisecond"),
}
_UNITS = {name: MILLISECONDS[unit] for unit, names in _NAMES.items() for name in names}
_TIME = re.compile(r"\s*([+-]?[0-9]{1,15})\s*([A-Za-z]*)\s*")


def milliseconds(time: object) -> int:
    """Parse a duration into milliseconds.

    Parameters
    ----------
    time : str or int
        A whole number with optional sign, and a unit in any letter case: ``d``, ``h``, ``m``,
        ``s``, ``ms`` or their singular names. A number alone is milliseconds.

    Raises
    ------
    ValueError
        If it is not a duration.

    Examples
    --------
    >>> milliseconds("2h"), milliseconds("-3 Min"), milliseconds("250"), milliseconds(7)
    (7200000, -180000, 250, 7)
    """
    match = _TIME.fullmatch(str(time))
    unit = None if match is None or isinstance(time, bool) else _UNITS.get(match[2].lower())
    if match is None or unit is None:
        msg = f"{time!r} is no time; write a whole number with d, h, m, s or ms, as in '10s'"
        raise ValueError(msg)
    return int(match[1]) * unit
