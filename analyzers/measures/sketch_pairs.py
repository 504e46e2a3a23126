"""Distributions of two columns that are mostly equal, and of their differences, in one state."""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import sqrt
from struct import Struct
from typing import Any, Self

from tidegauge.analyzers.core.state import State, mismatch, register_state
from tidegauge.analyzers.measures.quantiles import KllState, KllUnion

_SIZES = Struct("<4I")
_NOTHING = KllState()


@register_state("sketch-pairs/1")
@dataclass(frozen=True, slots=True)
class SketchPairs(State):
    """KLL sketches of pairs of numbers, by whether the difference of a pair is 0.

    Values that are equal on both sides are sketched once, and differences of 0 not at all: they are as
    many as the equal values. So a state of equal columns is as large as one sketch. A part that has
    few of a distribution's values need not be accurate; see `from_parts`.

    Attributes
    ----------
    equal : KllState
        Values of the pairs whose difference is 0.
    logged, backfilled : KllState
        Values of each side in all other pairs, also where the other side is null.
    delta : KllState
        Differences other than 0, backfilled - logged; a NaN, as of equal infinities, is left out.

    Examples
    --------
    >>> SketchPairs().of("delta").count
    0
    """

    equal: KllState = _NOTHING
    logged: KllState = _NOTHING
    backfilled: KllState = _NOTHING
    delta: KllState = _NOTHING

    @classmethod
    def from_parts(
        cls, equal: KllState, logged: KllState, backfilled: KllState, delta: KllState
    ) -> Self:
        """Build a state of sketches of one size, each made as small as its share of values allows.

        Errors of sketches are independent, so their squares add. The error of a distribution stays that
        of one sketch if its greater part keeps its accuracy, and a share ``w`` below one half of the
        values has an error up to ``sqrt(2 / w - 1)`` times as large; for differences, whose zeros are
        counted, ``1 / w`` times.

        Examples
        --------
        >>> one = KllState()
        >>> SketchPairs.from_parts(one, one, one, one) == SketchPairs()
        True
        """
        alike, one, other = equal.count, logged.count, backfilled.count
        return cls(
            equal.coarser(min(_ratio(alike, alike + one), _ratio(alike, alike + other))),
            logged.coarser(_ratio(one, alike + one)),
            backfilled.coarser(_ratio(other, alike + other)),
            delta.coarser(1 + alike / max(delta.count, 1)),
        )

    def combine(self, other: Self) -> Self:
        """Merge the sketches one by one."""
        return self.merge([self, other])

    @classmethod
    def merge(cls, states: Any) -> Self:
        """Merge all sketches into one accumulator each, of the size of the largest."""
        found = list(states)
        sizes = sorted({state.k for state in found} - {0})
        if len(sizes) > 1:
            raise mismatch("k", *sizes[:2])
        return cls(*(KllState.merge_sizes(getattr(s, f.name) for s in found) for f in fields(cls)))

    def of(self, metric: str) -> KllUnion:
        """Return the distribution of ``logged`` or ``backfilled`` values, or of ``delta``."""
        if metric == "delta":
            return KllUnion((self.delta,), self.k, zeros=self.equal.count)
        side = self.logged if metric == "logged" else self.backfilled
        return KllUnion((self.equal, side), self.k)

    @property
    def k(self) -> int:
        """The size of the largest sketch, as accurate as which each distribution is; 0 if all are empty."""
        return max(self.equal.k, self.logged.k, self.backfilled.k, self.delta.k)

    def agrees_with(self, other: Self) -> bool:
        """Return whether all sketches agree; see `KllState.agrees_with`."""
        return all(getattr(self, f.name).agrees_with(getattr(other, f.name)) for f in fields(self))

    def pack(self) -> bytes:
        """Return the sketches' own bytes, after their sizes."""
        parts = [getattr(self, f.name).sketch for f in fields(self)]
        return _SIZES.pack(*map(len, parts)) + b"".join(parts)

    @classmethod
    def unpack(cls, payload: bytes) -> Self:
        """Deserialize the output of `pack`."""
        sizes = _SIZES.unpack_from(payload)
        if _SIZES.size + sum(sizes) != len(payload):
            raise ValueError(f"sketches of {sizes} bytes are not {len(payload)} bytes")
        parts, start = [], _SIZES.size
        for size in sizes:
            parts.append(KllState.unpack(payload[start : start + size]))
            start += size
        return cls(*parts)


def _ratio(part: int, whole: int) -> float:
    """Return how many times the error of a distribution that of a part may be."""
    return 1.0 if 2 * part >= whole else sqrt(2 * whole / max(part, 1) - 1)
