"""Distributions of two columns that are mostly equal, and of their differences, in one state."""

from __future__ import annotations

from dataclasses import dataclass, fields
from struct import Struct
from typing import Any, Self

from tidegauge.analyzers.core.state import State, register_state
from tidegauge.analyzers.measures.quantiles import KllState, KllUnion

_SIZES = Struct("<4I")
_NOTHING = KllState()


@register_state("sketch-pairs/1")
@dataclass(frozen=True, slots=True)
class SketchPairs(State):
    """KLL sketches of pairs of numbers, by whether the difference of a pair is 0.

    Values that are equal on both sides are sketched once, and differences of 0 not at all: they are as
    many as the equal values. So a state of equal columns is as large as one sketch.

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

    def combine(self, other: Self) -> Self:
        """Merge the sketches one by one."""
        return self.merge([self, other])

    @classmethod
    def merge(cls, states: Any) -> Self:
        """Merge all sketches into one accumulator each."""
        found = list(states)
        return cls(*(KllState.merge(getattr(s, f.name) for s in found) for f in fields(cls)))

    def of(self, metric: str) -> KllUnion:
        """Return the distribution of ``logged`` or ``backfilled`` values, or of ``delta``."""
        if metric == "delta":
            return KllUnion((self.delta,), zeros=self.equal.count)
        return KllUnion((self.equal, self.logged if metric == "logged" else self.backfilled))

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
