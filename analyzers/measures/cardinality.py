"""Approximate distinct counts without a shuffle: ApproxCountDistinct (HyperLogLog)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import TYPE_CHECKING, Any, ClassVar, Self

from tidegauge.analyzers.core.analyzer import ColumnAnalyzer, analyzer
from tidegauge.analyzers.core.metric import TWO_SIGMA, Interval, Scale
from tidegauge.analyzers.core.requests import Sketch
from tidegauge.analyzers.core.schema import Schema
from tidegauge.analyzers.core.sql import where_holds
from tidegauge.analyzers.core.state import READERS, Count, State, mismatch, register_state
from tidegauge.analyzers.measures.hashing import Hashing, hashing_of
from tidegauge.analyzers.measures.sketch_layouts import require_hll

if TYPE_CHECKING:
    from datasketches import hll_sketch

LG_K = 12
"""log2 of the number of HLL registers: 4096, for a relative standard error of 1.6 %."""

_HEAD, _FIRST_HEAD = Struct("<qB"), Struct("<q")


@register_state("hll/2")
@dataclass(frozen=True, slots=True)
class HllState(State):
    """An Apache DataSketches HLL sketch and the number of values in it.

    States merge by union. Sketches of different sizes do not merge; an empty state takes the
    other's size.
    """

    depends_on_types: ClassVar[bool] = True
    sketch: bytes = b""
    count: Count = 0
    hashing: Hashing = Hashing.EITHER

    @classmethod
    def from_sketches(
        cls,
        sketches: Iterable[bytes] | None,
        count: int,
        hashing: Hashing = Hashing.EITHER,
    ) -> Self:
        """Build a state from serialized sketches of Spark, with 4-bit registers.

        They are half as large as Spark's and hold the same information.
        """
        if not count:
            return cls()
        return cls._union([_read(sketch) for sketch in sketches or ()], count, hashing)

    def combine(self, other: Self) -> Self:
        """Return the union."""
        if not self.count or not other.count:
            return self if self.count else other
        return self.merge([self, other])

    @classmethod
    def merge(cls, states: Any) -> Self:
        """Return the union of all states, using one accumulator."""
        filled = [state for state in states if state.count]
        if len(filled) < 2:
            return filled[0] if filled else cls()
        sketches = [_read(state.sketch) for state in filled]
        for sketch in sketches:
            if sketch.lg_config_k != sketches[0].lg_config_k:
                raise mismatch("lg_k", sketches[0].lg_config_k, sketch.lg_config_k)
        hashing = Hashing.merged(state.hashing for state in filled)
        return cls._union(sketches, sum(state.count for state in filled), hashing)

    @classmethod
    def _union(cls, sketches: Sequence[hll_sketch], count: int, hashing: Hashing) -> Self:
        from datasketches import hll_union, tgt_hll_type

        union = hll_union(sketches[0].lg_config_k)
        for sketch in sketches:
            union.update(sketch)
        return cls(union.get_result(tgt_hll_type.HLL_4).serialize_compact(), count, hashing)

    def estimate(self) -> float:
        """Return the estimated number of distinct values."""
        return float(_read(self.sketch).get_estimate()) if self.count else 0.0

    def bounds(self, deviations: int = 2) -> tuple[float, float]:
        """Return the lower and upper bound at 1, 2 or 3 standard deviations."""
        if not self.count:
            return 0.0, 0.0
        sketch = _read(self.sketch)
        return float(sketch.get_lower_bound(deviations)), float(sketch.get_upper_bound(deviations))

    def agrees_with(self, other: Self) -> bool:
        """Return whether counts are equal and the sketches may be of the same values.

        Sketches of the same values have equal registers, in whatever order the values came. Those that
        hash values differently cannot be compared so: their estimates agree within 3 deviations.
        """
        if self.count != other.count or not self.count:
            return self.count == other.count
        ours, theirs = _read(self.sketch), _read(other.sketch)
        if self.hashing == other.hashing and ours.lg_config_k == theirs.lg_config_k:
            return _estimate(ours, ours) == _estimate(theirs, theirs) == _estimate(ours, theirs)
        lower, upper = self.bounds(3)
        return lower <= other.estimate() <= upper

    def pack(self) -> bytes:
        """Serialize the count and the hashing, then the sketch's own bytes."""
        return _HEAD.pack(self.count, self.hashing) + self.sketch

    @classmethod
    def unpack(cls, payload: bytes) -> Self:
        """Deserialize the output of `pack`."""
        count, hashing = _HEAD.unpack_from(payload)
        return cls._checked(payload[_HEAD.size :], count, Hashing(hashing))

    @classmethod
    def unpack_first(cls, payload: bytes) -> Self:
        """Deserialize the first version, without the hashing."""
        (count,) = _FIRST_HEAD.unpack_from(payload)
        return cls._checked(payload[_FIRST_HEAD.size :], count, Hashing.BY_TYPE)

    @classmethod
    def _checked(cls, sketch: bytes, count: int, hashing: Hashing) -> Self:
        if count:
            require_hll(sketch)
            _read(sketch)  # raises on damage
        return cls(sketch, count, hashing)


READERS["hll/1"] = HllState.unpack_first


def _estimate(one: hll_sketch, other: hll_sketch) -> float:
    """Return the estimate of a union of two sketches, which depends on their registers only.

    It grows with each register, so a union has the estimate of its parts only if all are equal.
    """
    from datasketches import hll_union

    union = hll_union(one.lg_config_k)
    union.update(one)
    union.update(other)
    return float(union.get_estimate())


def _read(sketch: bytes) -> hll_sketch:
    from datasketches import hll_sketch

    return hll_sketch.deserialize(bytes(sketch))


@analyzer
class ApproxCountDistinct(ColumnAnalyzer[HllState, float]):
    """Estimated number of distinct non-null values (HyperLogLog); 0 if there are none.

    4096 registers give a relative standard error of 1.6 % (1.04 / sqrt(4096); Flajolet et al.,
    2007); almost exact up to a few hundred values. Numbers are compared by value, whatever their type:
    1, 1.0 and a decimal of 1.00 are equal, and so are 0.0 and -0.0. The empty text is a value; text
    is compared by its bytes, whatever its collation.

    Examples
    --------
    >>> ApproxCountDistinct("user").compute_metric_from(HllState()).value
    0.0
    """

    scale: ClassVar[Scale] = Scale.COUNT
    state_type: ClassVar[type[State]] = HllState
    state_bytes: ClassVar[int] = 1 << (LG_K - 1)

    def aggregations(self, schema: Schema) -> Sequence[str | Sketch]:
        """Return the sketch of hashed values and the aggregation of their count.

        Whole numbers are hashed by the sketch alone. Other values are hashed by Spark first: its
        hash treats NaN consistently, does not depend on the session's time zone and, unlike the
        sketch's, does not skip the empty text.
        """
        field = self.field(schema)
        return (
            Sketch("hll", where_holds(self.where, field.hash_sql), LG_K),
            f"count({self.values(schema)})",
            *hashing_of([field]),
        )

    def fold(self, cells: Sequence[Any]) -> HllState:
        """Return the state of the sketch and the count."""
        sketches, count, *hashing = cells
        return HllState.from_sketches(sketches, count, Hashing.of_cells(hashing))

    def measure(self, state: HllState) -> float:
        """Return the estimate, rounded to a whole number."""
        return float(round(state.estimate()))

    def interval(self, state: HllState) -> Interval:
        """Return two standard errors on either side."""
        return Interval(*state.bounds(), TWO_SIGMA)
