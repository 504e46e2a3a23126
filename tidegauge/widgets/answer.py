"""Responses to the dashboard's script: text as JSON, numbers as binary buffers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

LONGEST = 200
"""Maximum number of characters of a name to send."""


@dataclass(frozen=True)
class Answer:
    """A response to one request of the script.

    Attributes
    ----------
    told : mapping
        The JSON part.
    arrays : mapping of str to array
        The binary part: unsigned bytes, 32-bit integers, floats of both sizes.
    """

    told: Mapping[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def packed(self) -> tuple[dict[str, Any], list[bytes]]:
        """Return the JSON message, with name, type and shape of each buffer, and the buffers.

        Examples
        --------
        >>> Answer({"n": math.nan}, {"x": np.zeros((2, 3), np.uint8)}).packed()[0]
        {'told': {'n': None}, 'arrays': [['x', 'u1', [2, 3]]]}
        """
        little = {name: _little(array) for name, array in self.arrays.items()}
        heads = [[name, a.dtype.str[1:], list(a.shape)] for name, a in little.items()]
        return (
            {"told": plain(self.told), "arrays": heads},
            [a.tobytes() for a in little.values()],
        )


def _little(array: NDArray[Any]) -> NDArray[Any]:
    """Convert an array to little-endian, and 64-bit integers, which JavaScript lacks, to floats."""
    if array.dtype.kind in "iu" and array.dtype.itemsize == 8:
        return array.astype("<f8")
    return array.astype(array.dtype.newbyteorder("<"), copy=False)


def plain(value: Any) -> Any:  # noqa: PLR0911 - one for each kind of value
    """Convert a value to JSON: NaN and infinity to null, numpy scalars to numbers, times to ISO 8601."""
    match value:
        case None | str() | bool():
            return value
        case Mapping():
            return {str(key): plain(one) for key, one in value.items()}
        case Iterable():
            return [plain(one) for one in value]
        case float() | np.floating():
            return float(value) if math.isfinite(value) else None
        case int() | np.integer():
            return int(value)
    if value != value:  # noqa: PLR0124 - pandas' not-a-time
        return None
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def seconds(time: datetime | None) -> float:
    """Convert a time to seconds since 1970; NaN if None."""
    return math.nan if time is None else time.timestamp()


def shown(text: str, most: int = LONGEST) -> str:
    """Truncate a text for display: names may be of any length.

    Examples
    --------
    >>> len(shown("x" * 10_000))
    200
    """
    return text if len(text) <= most else text[: most - 1] + "\N{HORIZONTAL ELLIPSIS}"


def table(frame: pd.DataFrame, **told: Any) -> Answer:
    """Encode a frame by column: numbers and times (seconds since 1970) as arrays, all else as text."""
    texts: dict[str, list[str | None]] = {}
    arrays: dict[str, NDArray[Any]] = {}
    for name in map(str, frame.columns):
        column = frame[name]
        if column.dtype.kind == "M":
            naive = column.dt.tz_convert("UTC").dt.tz_localize(None)
            moments = naive.to_numpy("M8[ms]").astype(np.float64) / 1000
            arrays[name] = np.where(column.isna(), np.nan, moments)
        elif column.dtype.kind in "iufb":
            arrays[name] = column.to_numpy(np.float64, na_value=np.nan)
        else:
            missing = column.isna()
            texts[name] = [
                None if gone else shown(str(one)) for one, gone in zip(column, missing, strict=True)
            ]
    columns = list(map(str, frame.columns))
    return Answer({**told, "columns": columns, "rows": len(frame), "texts": texts}, arrays)
