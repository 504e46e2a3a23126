"""Distinct values, approximately and without a shuffle: ApproxCountDistinct."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct
from typing import TYPE_CHECKING, Any, ClassVar, Self

from analyzers.analyzer import ColumnAnalyzer, analyzer
from analyzers.metric import TWO_SIGMA, Interval, Scale
from analyzers.schema import INTEGRAL, Schema
from analyzers.sql import where_holds
from analyzers.state import State, mismatch, register_state

if TYPE_CHECKING:
    from datasketches import hll_sketch

LG_K = 12
"""log2 of the number of HLL registers: 4096, for a relative standard error of 1.6 %."""

_COUNT = Struct("<q")


@register_state("hll/1")
@dataclass(frozen=True, slots=True)
class HllState(State):
    """An Apache DataSketches HLL sketch, and the number of values that went in.

    Added by union. Sketches of different size do not add; the empty one takes the other's size.
    """

    sketch: bytes = b""
    count: int = 0

    @classmethod
    def of(cls, raw: bytes, count: int) -> Self:
        """Make one of the bytes that Spark's ``hll_sketch_agg`` returns, with registers of four bits.

        They are half as large as Spark's and say the same.
        """
        return cls._union([_read(raw)], count) if count else cls()

    def combine(self, other: Self) -> Self:
        """Return the union."""
        if not self.count or not other.count:
            return self if self.count else other
        return self.merge([self, other])

    @classmethod
    def merge(cls, states: Any) -> Self:
        """Return the union of all, through one accumulator."""
        filled = [state for state in states if state.count]
        if len(filled) < 2:  # noqa: PLR2004
            return filled[0] if filled else cls()
        sketches = [_read(state.sketch) for state in filled]
        for sketch in sketches:
            if sketch.lg_config_k != sketches[0].lg_config_k:
                raise mismatch("lg_k", sketches[0].lg_config_k, sketch.lg_config_k)
        return cls._union(sketches, sum(state.count for state in filled))

    @classmethod
    def _union(cls, sketches: Sequence[hll_sketch], count: int) -> Self:
        from datasketches import hll_union, tgt_hll_type  # noqa: PLC0415 - heavy, seldom needed

        union = hll_union(sketches[0].lg_config_k)
        for sketch in sketches:
            union.update(sketch)
        return cls(union.get_result(tgt_hll_type.HLL_4).serialize_compact(), count)

    def estimate(self) -> float:
        """Return the estimated number of distinct values."""
        return float(_read(self.sketch).get_estimate()) if self.count else 0.0

    def bounds(self, deviations: int = 2) -> tuple[float, float]:
        """Return lower and upper bound at 1, 2 or 3 standard deviations."""
        if not self.count:
            return 0.0, 0.0
        sketch = _read(self.sketch)
        return float(sketch.get_lower_bound(deviations)), float(sketch.get_upper_bound(deviations))

    def agrees_with(self, other: Self) -> bool:
        """Whether the counts are equal and each estimate lies within the other's bounds."""
        lower, upper = self.bounds(3)
        return self.count == other.count and lower <= other.estimate() <= upper

    def pack(self) -> bytes:
        """Count, then the sketch's own bytes."""
        return _COUNT.pack(self.count) + self.sketch

    @classmethod
    def unpack(cls, payload: bytes) -> Self:
        """Read what `pack` wrote."""
        state = cls(payload[_COUNT.size :], *_COUNT.unpack_from(payload))
        if state.count:
            _read(state.sketch)  # raises on damage
        return state


def _read(sketch: bytes) -> hll_sketch:
    from datasketches import hll_sketch  # noqa: PLC0415 - heavy, and not needed to describe

    return hll_sketch.deserialize(bytes(sketch))


@analyzer
class ApproxCountDistinct(ColumnAnalyzer[HllState, float]):
    """Estimated number of distinct non-null values; 0 for none.

    HyperLogLog with 4096 registers: relative standard error 1.6 % (1.04 / sqrt(4096); Flajolet and
    others, 2007), almost exact below some hundred values. Integers of any width count as one type;
    the empty text is a value; 0.0 and -0.0 are one.

    Examples
    --------
    >>> ApproxCountDistinct("user").compute_metric_from(HllState()).value
    0.0
    """

    scale: ClassVar[Scale] = Scale.COUNT
    state_type: ClassVar[type[State]] = HllState
    state_bytes: ClassVar[int] = 1 << (LG_K - 1)

    def aggregations(self, schema: Schema) -> Sequence[str]:
        """Build the sketch of the values' hashes, and count them.

        The sketch's own hash takes integers as they are. All else is hashed by Spark first: it
        agrees on zeros and NaN, does not depend on the session's time zone, and, unlike the sketch,
        does not pass over the empty text.
        """
        field = self.field(schema)
        item = (
            f"CAST({field.sql} AS BIGINT)"
            if field.kind in INTEGRAL
            else f"CASE WHEN {field.sql} IS NOT NULL THEN xxhash64({field.sql}) END"
        )
        sketch = f"hll_sketch_agg({where_holds(self.where, item)}, {LG_K})"
        return (sketch, f"count({self.values(schema)})")

    def fold(self, cells: Sequence[Any]) -> HllState:
        """Take the sketch."""
        return HllState.of(*cells)

    def measure(self, state: HllState) -> float:
        """Return the estimate, rounded to a whole number."""
        return float(round(state.estimate()))

    def interval(self, state: HllState) -> Interval:
        """Two standard errors on either side."""
        return Interval(*state.bounds(), TWO_SIGMA)

    def weight(self, state: HllState) -> float:
        """Return the number of values."""
        return state.count
