"""Mergeable states of row pairs: sums that roll up over hours, days and keys."""

from __future__ import annotations

from dataclasses import dataclass, fields
from struct import Struct
from typing import ClassVar, Self

from tidegauge.analyzers.core.state import Count, State, register_state


class _Sums(State):
    """A state of numbers that are merged by addition."""

    __slots__ = ()

    def combine(self, other: Self) -> Self:
        """Add the numbers field by field."""
        return type(self)(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


@register_state("consistency-rows/1")
@dataclass(frozen=True, slots=True)
class RowPresence(_Sums):
    """Row counts by presence on each side.

    Attributes
    ----------
    matched, missing, extra : int
        Rows on both sides, only in the backfill, only in the log.
    duplicates : int
        Rows of either side beyond the first of their key.
    null_keys : int
        Rows with a null in their key or time; a matched row counts once.

    Examples
    --------
    >>> RowPresence(2, 1) + RowPresence(1, 0, 4)
    RowPresence(matched=3, missing=1, extra=4, duplicates=0, null_keys=0)
    """

    layout: ClassVar[Struct] = Struct("<5q")
    matched: Count = 0
    missing: Count = 0
    extra: Count = 0
    duplicates: Count = 0
    null_keys: Count = 0

    @property
    def rows(self) -> int:
        """All rows of the comparison."""
        return self.matched + self.missing + self.extra

    @property
    def unmatched(self) -> float:
        """The share of rows that are on one side only; 0 without any rows."""
        return (self.missing + self.extra) / self.rows if self.rows else 0.0


@register_state("consistency-cells/1")
@dataclass(frozen=True, slots=True)
class Cells(_Sums):
    """Matched rows by outcome for a feature; every row is in exactly one cell.

    Attributes
    ----------
    equal, mismatch : int
        Both values are non-null, and equal or not.
    missing, extra : int
        Only the backfilled value is non-null; only the logged one.
    both_null : int

    Examples
    --------
    >>> Cells(7, 1, 1, 0, 1).matched
    10
    """

    layout: ClassVar[Struct] = Struct("<5q")
    equal: Count = 0
    mismatch: Count = 0
    missing: Count = 0
    extra: Count = 0
    both_null: Count = 0

    @property
    def matched(self) -> int:
        """The number of matched rows."""
        return self.equal + self.mismatch + self.missing + self.extra + self.both_null


@register_state("consistency-numbers/1")
@dataclass(frozen=True, slots=True)
class Differences(_Sums):
    """Sums of differences between numbers, over pairs of finite non-null values.

    Attributes
    ----------
    pairs : int
        Finite pairs: matched rows, or keys shared by both maps of a row.
    not_finite : int
        Non-null pairs with a NaN or infinite value, or an infinite sum.
    logged_nan, backfilled_nan : int
    difference, size : float
        The sums of ``|a - b|`` and of ``|a| + |b|``.
    ratios : float
        The sum of the ratio of both per pair, 0 if both values are 0.
    """

    layout: ClassVar[Struct] = Struct("<4q3d")
    pairs: Count = 0
    not_finite: Count = 0
    logged_nan: Count = 0
    backfilled_nan: Count = 0
    difference: float = 0.0
    size: float = 0.0
    ratios: float = 0.0


@register_state("consistency-keys/1")
@dataclass(frozen=True, slots=True)
class KeyCounts(_Sums):
    """Key counts of maps, over matched rows with both maps.

    Attributes
    ----------
    pairs : int
        Matched rows with both maps.
    missing, extra : int
        Keys with a value, or at all, only in the backfilled map; only in the logged one.
    mismatched : int
        Keys in both with different non-null values.
    left, right : int
        Keys of the logged map; of the backfilled one.
    """

    layout: ClassVar[Struct] = Struct("<6q")
    pairs: Count = 0
    missing: Count = 0
    extra: Count = 0
    mismatched: Count = 0
    left: Count = 0
    right: Count = 0
