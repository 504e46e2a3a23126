"""Segments: values of some columns for which everything is measured, too."""

from __future__ import annotations

import re
from dataclasses import dataclass

from analyzers.description import key_of

OTHER = "__other__"
_SPECIAL = re.compile(r"[%/=\x00-\x1f\x7f]")  # what structures a name, and what no database takes
MAX_SEGMENTS = 100
LONGEST = 200

Values = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SegmentSet:
    """Some columns, and those of their values that are segments of their own.

    Attributes
    ----------
    columns : tuple of str
    kept : tuple of tuple of str
        The values as text, null as `partitions.NULL`; all others together are one segment more.
    generation : int
        How often the choice was made. It names the segment of all others, which with another choice is
        of other rows.

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
        """Return the name of the segment of some values; None for all others."""
        if values is None:
            other = OTHER if self.generation == 1 else f"{OTHER}{self.generation}"
            return "/".join(f"{column}={other}" for column in self.columns)
        pairs = zip(self.columns, values, strict=True)
        return "/".join(f"{column}={_written(value)}" for column, value in pairs)

    def names(self) -> list[str]:
        """Return the names of all segments, the one of all others last."""
        return [self.name_of(values) for values in (*self.kept, None)]

    @property
    def size(self) -> int:
        """How many segments there are at most."""
        return len(self.kept) + 1


def _written(value: str) -> str:
    """Return a value as it stands in a name; what would read as something else is escaped as Hive does."""
    text = _SPECIAL.sub(lambda match: f"%{ord(match[0]):02X}", value)
    if text.startswith(OTHER):
        text = "%5F" + text[1:]
    if len(text) > LONGEST:
        text = f"{text[:LONGEST]}~{key_of(text)[:16]}"
    return text


def joined(*names: str) -> str:
    """Return one name for a segment of a segment; either may be the empty name of all.

    Examples
    --------
    >>> joined("country=US", "origin=EWR"), joined("", "origin=EWR")
    ('country=US/origin=EWR', 'origin=EWR')
    """
    return "/".join(name for name in names if name)
