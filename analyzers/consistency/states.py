"""What is kept of pairs of rows: sums, which add up over hours, days and keys."""

from __future__ import annotations

from dataclasses import dataclass, fields
from struct import Struct
from typing import ClassVar, Self

from analyzers.state import State, register_state


class _Sums(State):
    """A state of numbers that are added, each to its own."""

    __slots__ = ()

    def combine(self, other: Self) -> Self:
        """Add each to its own."""
        return type(self)(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


@register_state("consistency-rows/1")
@dataclass(frozen=True, slots=True)
class RowPresence(_Sums):
    """Which rows are on which side.

    Attributes
    ----------
    matched, missing, extra : int
        Rows on both sides, only in the backfill, only in the log.
    duplicates : int
        Rows of either side beyond the first of their key.
    null_keys : int
        Rows of either side with a null in their key.

    Examples
    --------
    >>> RowPresence(2, 1) + RowPresence(1, 0, 4)
    RowPresence(matched=3, missing=1, extra=4, duplicates=0, null_keys=0)
    """

    layout: ClassVar[Struct] = Struct("<5q")
    matched: int = 0
    missing: int = 0
    extra: int = 0
    duplicates: int = 0
    null_keys: int = 0

    @property
    def rows(self) -> int:
        """All rows of the comparison."""
        return self.matched + self.missing + self.extra


@register_state("consistency-cells/1")
@dataclass(frozen=True, slots=True)
class Cells(_Sums):
    """What a feature was in matched rows: every row is in exactly one cell.

    Attributes
    ----------
    equal, mismatch : int
        Both values are there, and equal or not.
    missing, extra : int
        Only the backfilled value is there; only the logged one.
    both_null : int

    Examples
    --------
    >>> Cells(7, 1, 1, 0, 1).matched
    10
    """

    layout: ClassVar[Struct] = Struct("<5q")
    equal: int = 0
    mismatch: int = 0
    missing: int = 0
    extra: int = 0
    both_null: int = 0

    @property
    def matched(self) -> int:
        """All matched rows."""
        return self.equal + self.mismatch + self.missing + self.extra + self.both_null


@register_state("consistency-numbers/1")
@dataclass(frozen=True, slots=True)
class Differences(_Sums):
    """How far numbers lie apart, over pairs of which both are there and finite.

    Attributes
    ----------
    pairs : int
        Such pairs: matched rows, or keys that both maps of one have.
    not_finite : int
        Pairs where both are there, and one is NaN or infinite, or their sum is.
    logged_nan, backfilled_nan : int
    difference, size : float
        The sums of ``|a - b|`` and of ``|a| + |b|``.
    ratios : float
        The sum of the first by the second of each pair, 0 where both are 0.
    """

    layout: ClassVar[Struct] = Struct("<4q3d")
    pairs: int = 0
    not_finite: int = 0
    logged_nan: int = 0
    backfilled_nan: int = 0
    difference: float = 0.0
    size: float = 0.0
    ratios: float = 0.0


@register_state("consistency-keys/1")
@dataclass(frozen=True, slots=True)
class KeyCounts(_Sums):
    """Keys of maps, over matched rows where both are there.

    Attributes
    ----------
    pairs : int
        Such rows.
    missing, extra : int
        Keys only of the backfilled map; only of the logged one.
    mismatched : int
        Keys of both whose values differ.
    left, right : int
        Keys of the logged map; of the backfilled one.
    """

    layout: ClassVar[Struct] = Struct("<6q")
    pairs: int = 0
    missing: int = 0
    extra: int = 0
    mismatched: int = 0
    left: int = 0
    right: int = 0
