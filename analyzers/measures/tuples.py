"""Approximate uniqueness of large columns, without a shuffle.

ApproxUniqueness, ApproxDistinctness and ApproxUniqueValueRatio read one tuple sketch (Apache
DataSketches; Beyer et al. 2007 for the estimators): a sample of the distinct values, each drawn
with the same probability and with its number of occurrences.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING, Any, ClassVar, Self

from tidegauge.analyzers.core.analyzer import ScanAnalyzer, analyzer
from tidegauge.analyzers.core.description import canonical_json
from tidegauge.analyzers.core.errors import IllegalAnalyzerParameterError, NoColumnsSpecifiedError
from tidegauge.analyzers.core.metric import TWO_SIGMA, Entity, Interval, Scale
from tidegauge.analyzers.core.requests import Sketch
from tidegauge.analyzers.core.schema import NUMERIC, Schema
from tidegauge.analyzers.core.sql import where_holds
from tidegauge.analyzers.core.state import READERS, Count, State, mismatch, register_state
from tidegauge.analyzers.measures.hashing import Hashing, hashing_of
from tidegauge.analyzers.measures.sketch_layouts import require_tuples

if TYPE_CHECKING:
    from datasketches import compact_tuple_sketch

SMALLEST_LG_K, LARGEST_LG_K = 5, 20
SUMMARY_BYTES = 5
"""Of an entry: see `tuple_serde`."""
_HEAD, _FIRST_HEAD = struct.Struct("<qBB"), struct.Struct("<qB")


def _read(sketch: bytes) -> compact_tuple_sketch:
    from datasketches import compact_tuple_sketch

    from tidegauge.analyzers.measures.tuple_serde import SingleOrRepeatedSerDe

    return compact_tuple_sketch.deserialize(bytes(sketch), SingleOrRepeatedSerDe())


@register_state("tuple/2")
@dataclass(frozen=True, slots=True)
class TupleState(State):
    """A sample of the distinct values, each marked as single or repeated, and the number of rows.

    States merge by union. Sketches of different sizes do not merge; an empty state takes the
    other's.
    """

    depends_on_types: ClassVar[bool] = True
    sketch: bytes = b""
    count: Count = 0
    lg_k: int = 0
    hashing: Hashing = Hashing.EITHER

    @classmethod
    def from_sketches(
        cls,
        sketches: Iterable[bytes] | None,
        count: int,
        lg_k: int,
        hashing: Hashing = Hashing.EITHER,
    ) -> Self:
        """Build a state from serialized sketches, of Spark or of its workers, cut to ``lg_k``."""
        found = [_read(sketch) for sketch in sketches or ()]
        return cls._union(found, count, lg_k, hashing) if found and count else cls()

    def combine(self, other: Self) -> Self:
        """Return the union."""
        return self.merge([self, other])

    @classmethod
    def merge(cls, states: Iterable[Self]) -> Self:
        """Return the union of all states, using one accumulator."""
        filled = [state for state in states if state.count]
        if len(filled) < 2:
            return filled[0] if filled else cls()
        lg_k = filled[0].lg_k
        for state in filled:
            if state.lg_k != lg_k:
                raise mismatch("lg_k", lg_k, state.lg_k)
        hashing = Hashing.merged(state.hashing for state in filled)
        sketches = [_read(state.sketch) for state in filled]
        return cls._union(sketches, sum(state.count for state in filled), lg_k, hashing)

    @classmethod
    def _union(
        cls, sketches: Sequence[compact_tuple_sketch], count: int, lg_k: int, hashing: Hashing
    ) -> Self:
        from datasketches import AccumulatorPolicy, tuple_union

        from tidegauge.analyzers.measures.tuple_serde import SingleOrRepeatedSerDe

        union = tuple_union(AccumulatorPolicy(), lg_k)
        for sketch in sketches:
            union.update(sketch)
        sketch = union.get_result().serialize(SingleOrRepeatedSerDe())
        return cls(sketch, count, lg_k, hashing)

    def sample(self) -> tuple[int, int, float]:
        """Return the sample's size, its number of single values and the sampling probability."""
        if not self.count:
            return 0, 0, 1.0
        sketch = _read(self.sketch)
        once = sum(count == 1 for _, count in sketch)
        return sketch.num_retained, once, sketch.theta

    def agrees_with(self, other: Self) -> bool:
        """Return whether rows are equal and distinct counts agree within three standard errors."""
        (n, _, theta), (m, _, eta) = self.sample(), other.sample()
        a, b = n / theta, m / eta
        error = 3 * sqrt(n * (1 - theta)) / theta + 3 * sqrt(m * (1 - eta)) / eta
        return self.count == other.count and abs(a - b) <= error

    def pack(self) -> bytes:
        """Serialize rows, ``lg_k`` and the hashing, then the sketch's own bytes."""
        return _HEAD.pack(self.count, self.lg_k, self.hashing) + self.sketch

    @classmethod
    def unpack(cls, payload: bytes) -> Self:
        """Deserialize the output of `pack`."""
        count, lg_k, hashing = _HEAD.unpack_from(payload)
        return cls._checked(payload[_HEAD.size :], count, lg_k, Hashing(hashing))

    @classmethod
    def unpack_first(cls, payload: bytes) -> Self:
        """Deserialize the first version, without the hashing."""
        count, lg_k = _FIRST_HEAD.unpack_from(payload)
        return cls._checked(payload[_FIRST_HEAD.size :], count, lg_k, Hashing.BY_TYPE)

    @classmethod
    def _checked(cls, sketch: bytes, count: int, lg_k: int, hashing: Hashing) -> Self:
        if count:
            if not SMALLEST_LG_K <= lg_k <= LARGEST_LG_K:
                raise ValueError(f"lg_k is {lg_k}, not from {SMALLEST_LG_K} to {LARGEST_LG_K}")
            require_tuples(sketch, SUMMARY_BYTES)
            _read(sketch)  # raises on damage
        return cls(sketch, count, lg_k, hashing)


READERS["tuple/1"] = TupleState.unpack_first


@dataclass(frozen=True, repr=False)
class _SampleAnalyzer(ScanAnalyzer[TupleState, float]):
    scale: ClassVar[Scale] = Scale.RATIO
    state_type: ClassVar[type[State]] = TupleState
    state_bytes: ClassVar[int] = 5 << 12

    columns: tuple[str, ...]
    lg_k: int = 10

    @property
    def value_columns(self) -> tuple[str, ...]:
        """The columns whose values are sampled."""
        return self.columns

    @property
    def entity(self) -> Entity:
        """Column or multicolumn."""
        return Entity.COLUMN if len(self.columns) == 1 else Entity.MULTICOLUMN

    @property
    def instance(self) -> str:
        """The columns joined by commas."""
        return ",".join(self.columns)

    def statistic(self) -> str:
        """Return the statistic key, shared by all three analyzers of this module."""
        columns = list(self.columns)
        return canonical_json(
            {"state": "tuple", "columns": columns, "lg_k": self.lg_k, "where": self.where}
        )

    def check_parameters(self) -> None:
        """Require at least one column, and an ``lg_k`` from 5 to 20, which unions accept."""
        if not self.columns:
            msg = f"{type(self).__name__} needs at least one column"
            raise NoColumnsSpecifiedError(msg)
        if not SMALLEST_LG_K <= self.lg_k <= LARGEST_LG_K:
            msg = f"{self!r}: lg_k lies between {SMALLEST_LG_K} and {LARGEST_LG_K}"
            raise IllegalAnalyzerParameterError(msg)

    def check_schema(self, schema: Schema) -> None:
        """Require columns that are not nested."""
        for column in self.columns:
            schema.plain(column)

    def aggregations(self, schema: Schema) -> Sequence[str | Sketch]:
        """Return the sketch of row hashes and the aggregation of the row count.

        A hash of several values skips nulls; their positions are hashed with the values, so that
        (null, 1) and (1, null) differ. Numbers are hashed by value, whatever their type.
        """
        fields = [schema.plain(column) for column in self.columns]
        values = [f.hash_sql if f.kind in NUMERIC else f.uncollated_sql for f in fields]
        hashed = values if len(fields) == 1 else [*values, *(f"{f.sql} IS NULL" for f in fields)]
        known = " OR ".join(f"{f.sql} IS NOT NULL" for f in fields)
        item = f"CASE WHEN {known} THEN xxhash64({', '.join(hashed)}) END"
        rows = where_holds(self.where, f"CASE WHEN {known} THEN 1 END")
        sketch = Sketch("tuple", where_holds(self.where, item), self.lg_k)
        return (sketch, f"count({rows})", *hashing_of(fields))

    def fold(self, cells: Sequence[Any]) -> TupleState:
        """Return the state of the sketch and the row count."""
        sketches, count, *hashing = cells
        return TupleState.from_sketches(sketches, count, self.lg_k, Hashing.of_cells(hashing))

    def measure(self, state: TupleState) -> float:
        """Return the estimate."""
        if not state.count:
            raise self.no_data()
        return self.estimate(state)[0]

    def interval(self, state: TupleState) -> Interval:
        """Return two standard errors on either side, clamped to [0, 1]."""
        value, error = self.estimate(state)
        return Interval(max(value - 2 * error, 0.0), min(value + 2 * error, 1.0), TWO_SIGMA)

    def estimate(self, state: TupleState) -> tuple[float, float]:
        """Return the value and its standard error; the error is 0 while the sample is complete."""
        values, once, theta = state.sample()
        chosen = self.chosen(values, once)
        # Each value is in the sample with probability theta: the count is binomial.
        return (
            min(chosen / theta / state.count, 1.0),
            sqrt(max(chosen, 1) * (1 - theta)) / theta / state.count,
        )

    def chosen(self, values: int, once: int) -> int:
        """Return the number of sampled values that count; all by default."""
        return values


@analyzer
class ApproxUniqueness(_SampleAnalyzer):
    """Estimated share of rows whose value occurs once; see `Uniqueness`.

    Empty metric at zero rows; rows where all columns are null are excluded. The metric's interval
    is two standard errors on either side; the error is 0 up to 2 ** lg_k distinct values.

    Parameters
    ----------
    columns : str or sequence of str
    lg_k : int
        log2 of the sample size, 5 to 20: 10 gives a relative standard error of 3 % of the number of
        values, in 13 KiB; one more halves the squared error and doubles the bytes.

    Examples
    --------
    >>> ApproxUniqueness("id").statistic() == ApproxDistinctness("id").statistic()
    True
    """

    def chosen(self, values: int, once: int) -> int:
        """Return the number of sampled values that occur once."""
        return once


@analyzer
class ApproxDistinctness(_SampleAnalyzer):
    """Estimated number of distinct values divided by rows.

    See `Distinctness` and `ApproxUniqueness`.

    Examples
    --------
    >>> ApproxDistinctness(["name", "zip"]).instance
    'name,zip'
    """


@analyzer
class ApproxUniqueValueRatio(_SampleAnalyzer):
    """Estimated share of distinct values that occur once.

    See `UniqueValueRatio` and `ApproxUniqueness`.

    Examples
    --------
    >>> ApproxUniqueValueRatio("id", lg_k=12)
    ApproxUniqueValueRatio('id', lg_k=12)
    """

    def estimate(self, state: TupleState) -> tuple[float, float]:
        """Return the share in the sample and its standard error, sampled without replacement."""
        values, once, theta = state.sample()
        share = once / values
        # Half a value added on either side keeps the error above 0 if all sampled values are of one kind.
        kept = (once + 0.5) / (values + 1)
        return share, sqrt(kept * (1 - kept) / values * (1 - theta))
