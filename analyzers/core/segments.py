"""Segments: subsets of the rows, by column values, for which all metrics are also computed."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tidegauge.analyzers.core.description import key_of

OTHER = "__other__"
_SPECIAL = re.compile(r"[%/=\x00-\x1f\x7f]")  # separators in names, and control characters
MAX_SEGMENTS = 100
LONGEST = 200

Values = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SegmentSet:
    """The columns to segment by, and the values that are segments of their own.

    Attributes
    ----------
    columns : tuple of str
    kept : tuple of tuple of str
        The values as text, null as `partitions.NULL`; all other values form one more segment.
    generation : int
        Number of times the values were chosen. It is part of the name of the segment of all other
        values, because another choice leaves other rows in it.

    Examples
    --------
    >>> origin = SegmentSet(("origin",), (("EWR",), ("JFK",)))
    >>> origin.name_of(("EWR",)), origin.name_of(None)
    ('origin=EWR', 'origin=__other__')
    """

    columns: tuple[str, ...]
    kept: tuple[Values, ...] = ()
    generation: int = 1

    def name_of(self, values: Values | None) -> str:
        """Return the segment's name for these values; None means all other values."""
        if values is None:
            other = OTHER if self.generation == 1 else f"{OTHER}{self.generation}"
            return "/".join(f"{column}={other}" for column in self.columns)
        pairs = zip(self.columns, values, strict=True)
        return "/".join(f"{column}={_written(value)}" for column, value in pairs)

    def names(self) -> list[str]:
        """Return the names of all segments, with the one of all other values last."""
        return [self.name_of(values) for values in (*self.kept, None)]

    @property
    def size(self) -> int:
        """The maximum number of segments, including the one of all other values."""
        return len(self.kept) + 1


def _written(value: str) -> str:
    """Escape a value for a segment name, with Hive's percent escapes; long values end in a hash."""
    text = _SPECIAL.sub(lambda match: f"%{ord(match[0]):02X}", value)
    if text.startswith(OTHER):
        text = "%5F" + text[1:]
    if len(text) > LONGEST:
        text = f"{text[:LONGEST]}~{key_of(text)[:16]}"
    return text


def joined(*names: str) -> str:
    """Join segment names into the name of their intersection; the empty name stands for all rows.

    Examples
    --------
    >>> joined("country=US", "origin=EWR"), joined("", "origin=EWR")
    ('country=US/origin=EWR', 'origin=EWR')
    """
    return "/".join(name for name in names if name)
