"""Approximate distinct counts and uniqueness of large columns, without a shuffle.

ApproxCountDistinct reads a HyperLogLog sketch. ApproxUniqueness, ApproxDistinctness and
ApproxUniqueValueRatio read one tuple sketch (Apache DataSketches; Beyer et al. 2007 for the estimators): a
sample of the distinct values, each drawn with the same probability and with its number of occurrences.

Both record a version of the hash of values. Earlier versions hashed values by type, so a float, a double
and a decimal of 1.5 were three values. Values are now hashed by value (`Field.hash_sql`). For integers and
strings, both hashes are equal.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from math import sqrt
from struct import Struct
from typing import TYPE_CHECKING, Any, ClassVar, Self

from tidegauge.analyzers.core.analyzer import ColumnAnalyzer, ScanAnalyzer, Sketch, analyzer
from tidegauge.analyzers.core.columnar import Kernel, RowGroup
from tidegauge.analyzers.core.errors import (
    IllegalAnalyzerParameterError,
    NoColumnsSpecifiedError,
    StateMismatchError,
)
from tidegauge.analyzers.core.hashes import hash_longs, murmur_hashes
from tidegauge.analyzers.core.metric import TWO_SIGMA, Entity, Interval, Scale
from tidegauge.analyzers.core.registry import canonical_json, resolve
from tidegauge.analyzers.core.schema import INTEGRAL, NUMERIC, Field, Schema
from tidegauge.analyzers.core.sql import where_holds
from tidegauge.analyzers.core.state import READERS, Count, State, mismatch, register_state
from tidegauge.analyzers.measures.serialized_layouts import require_hll, require_tuples

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from datasketches import compact_tuple_sketch, hll_sketch


class Hashing(IntEnum):
    """Hashing of the values in a sketch: by type, by value, or either if both give the same hashes."""

    BY_TYPE = 0
    EITHER = 1
    BY_VALUE = 2

    @classmethod
    def merged(cls, hashings: Iterable[Hashing]) -> Hashing:
        """Return the hashing of a union.

        The union with an older state counts as an older state, because it may hold numbers hashed by type.

        Raises
        ------
        StateMismatchError If some values were hashed by type and others by value.
        """
        kinds = set(hashings)
        if kinds >= {cls.BY_TYPE, cls.BY_VALUE}:
            msg = (
                "cannot add sketches of numbers hashed by type to sketches of numbers hashed by value; measure"
                " the older partitions again with partitions='all'"
            )
            raise StateMismatchError(msg)
        return min(kinds) if cls.BY_TYPE in kinds else max(kinds, default=cls.EITHER)

    @classmethod
    def of_cells(cls, cells: Sequence[object]) -> Hashing:
        """Return the hashing for the results of `hashing_of` in a scan."""
        return cls.BY_VALUE if cells else cls.EITHER


def hashing_of(fields: Iterable[Field]) -> tuple[str, ...]:
    """Return one aggregate if the hash of the values depends on the hashing, and otherwise none.

    So the fold of a scan's results, which does not have the schema, knows the hashing.
    """
    different = NUMERIC - INTEGRAL
    return ("count(1)",) if any(field.kind in different for field in fields) else ()


LG_K = 12
"""log2 of the number of HLL registers: 4096, for a relative standard error of 1.6%."""

_HLL_HEAD, _HLL_FIRST_HEAD = Struct("<qB"), Struct("<q")


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
        return cls._union([_read_hll(sketch) for sketch in sketches or ()], count, hashing)

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
        sketches = [_read_hll(state.sketch) for state in filled]
        for sketch in sketches:
            if sketch.lg_config_k != sketches[0].lg_config_k:
                raise mismatch("lg_k", sketches[0].lg_config_k, sketch.lg_config_k)
        hashing = Hashing.merged(state.hashing for state in filled)
        return cls._union(sketches, sum(state.count for state in filled), hashing)

    @classmethod
    def _union(cls, sketches: Sequence[hll_sketch], count: int, hashing: Hashing) -> Self:
        from datasketches import hll_union, tgt_hll_type

        union = hll_union(sketches[0].lg_config_k)
        # The estimate depends on the order of the sketches, in its last digits.
        for sketch in sorted(sketches, key=lambda sketch: bytes(sketch.serialize_compact())):
            union.update(sketch)
        return cls(union.get_result(tgt_hll_type.HLL_4).serialize_compact(), count, hashing)

    def estimate(self) -> float:
        """Return the estimated number of distinct values."""
        return float(_read_hll(self.sketch).get_estimate()) if self.count else 0.0

    def bounds(self, deviations: int = 2) -> tuple[float, float]:
        """Return the lower and upper bound at 1, 2 or 3 standard deviations."""
        if not self.count:
            return 0.0, 0.0
        sketch = _read_hll(self.sketch)
        return float(sketch.get_lower_bound(deviations)), float(sketch.get_upper_bound(deviations))

    def agrees_with(self, other: Self) -> bool:
        """Return whether counts are equal and the sketches may be of the same values.

        Sketches of the same values have equal registers, regardless of the order of the values. If the
        hashing differs, the sketches agree if their estimates differ by at most 3 standard deviations.
        """
        if self.count != other.count or not self.count:
            return self.count == other.count
        own_sketch, other_sketch = _read_hll(self.sketch), _read_hll(other.sketch)
        if self.hashing == other.hashing and own_sketch.lg_config_k == other_sketch.lg_config_k:
            return (
                _estimate(own_sketch, own_sketch)
                == _estimate(other_sketch, other_sketch)
                == _estimate(own_sketch, other_sketch)
            )
        lower, upper = self.bounds(3)
        return lower <= other.estimate() <= upper

    def pack(self) -> bytes:
        """Serialize the count and the hashing, then the sketch's own bytes."""
        return _HLL_HEAD.pack(self.count, self.hashing) + self.sketch

    @classmethod
    def unpack(cls, payload: bytes) -> Self:
        """Deserialize the output of `pack`."""
        count, hashing = _HLL_HEAD.unpack_from(payload)
        return cls._checked(payload[_HLL_HEAD.size :], count, Hashing(hashing))

    @classmethod
    def unpack_first(cls, payload: bytes) -> Self:
        """Deserialize the first version, without the hashing."""
        (count,) = _HLL_FIRST_HEAD.unpack_from(payload)
        return cls._checked(payload[_HLL_FIRST_HEAD.size :], count, Hashing.BY_TYPE)

    @classmethod
    def _checked(cls, sketch: bytes, count: int, hashing: Hashing) -> Self:
        if count:
            require_hll(sketch)
            _read_hll(sketch)  # raises an error if the bytes are damaged
        return cls(sketch, count, hashing)


READERS["hll/1"] = HllState.unpack_first


def _sketches_of(values: npt.NDArray[np.int64]) -> list[bytes]:
    """Return sketches whose union has the registers of a sketch of all values.

    A register is the most leading zeros of the second half of the hashes that the first half assigns to it, so
    the smallest of them decides. Only the values that decide are added, because each takes a call. They are added
    to two sketches: the estimate of a single one depends on the values that changed a register earlier, and the
    estimate of a union depends on the registers only.
    """
    import numpy as np

    if len(values) > 1 << LG_K:
        first, second = murmur_hashes(values)
        registers = (first & np.uint64((1 << LG_K) - 1)).astype(np.intp)
        least = np.full(1 << LG_K, np.iinfo(np.uint64).max, np.uint64)
        np.minimum.at(least, registers, second)
        deciding = np.unique(values[second == least[registers]])
        if len(deciding) >= _MIN_DECIDING:
            return [_sketch_of(deciding[::2]), _sketch_of(deciding[1::2])]
    return [_sketch_of(np.unique(values))]


_MIN_DECIDING = 1 << (LG_K - 1)
"""A sketch of a quarter of this number of different values has registers. Smaller ones keep hashes instead."""


def _sketch_of(values: npt.NDArray[np.int64]) -> bytes:
    from datasketches import hll_sketch, tgt_hll_type

    sketch = hll_sketch(LG_K, tgt_hll_type.HLL_8)
    update = sketch.update
    for value in values.tolist():
        update(value)
    return bytes(sketch.serialize_updatable())


def _estimate(a: hll_sketch, b: hll_sketch) -> float:
    """Return the estimate of a union of two sketches, which depends on their registers only.

    It grows with each register, so a union has the estimate of its parts only if all are equal.
    """
    from datasketches import hll_union

    union = hll_union(a.lg_config_k)
    union.update(a)
    union.update(b)
    return float(union.get_estimate())


def _read_hll(sketch: bytes) -> hll_sketch:
    from datasketches import hll_sketch

    return hll_sketch.deserialize(bytes(sketch))


@analyzer
class ApproxCountDistinct(ColumnAnalyzer[HllState, float]):
    """Estimated number of distinct non-null values (HyperLogLog); 0 if there are none.

    4096 registers give a relative standard error of 1.6% (1.04 / sqrt(4096); Flajolet et al.,
    2007); almost exact up to a few hundred values. Numbers are compared by value, regardless of their type:
    1, 1.0 and a decimal of 1.00 are equal, and so are 0.0 and -0.0. The empty string is a value. Strings
    are compared by their bytes, regardless of collation.

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
        sketch's, does not skip the empty string.
        """
        field = self.field(schema)
        return (
            Sketch("hll", where_holds(self.where, field.hash_sql), LG_K),
            f"count({self.values(schema)})",
            *hashing_of([field]),
        )

    def kernel(self, schema: Schema) -> Kernel[HllState] | None:
        """Sketch the hashes of the distinct values."""
        field = self.field(schema)
        columns = schema.top_level(field)
        if columns is None:
            return None

        def from_rows(group: RowGroup) -> HllState:
            hashing = Hashing.of_cells(hashing_of([field]))
            sketches = _sketches_of(group.identities(*columns))
            return HllState.from_sketches(sketches, group.values(*columns), hashing)

        return Kernel(columns, from_rows)

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


TUPLE_BUILDER = "tidegauge.analyzers.scan.sketch_worker:tuple_builder"
"""The function that returns an empty tuple sketch of a size."""
MIN_LG_K, MAX_LG_K = 5, 20
_SUMMARY_LAYOUT = struct.Struct("<iB")
"""Layout of the summary of an entry: a count, and the mode in which Spark adds counts."""
SUMMARY_BYTES = _SUMMARY_LAYOUT.size
_TUPLES_HEAD, _TUPLES_FIRST_HEAD = struct.Struct("<qBB"), struct.Struct("<qB")


def tuple_serializer() -> Any:
    """Return a new serializer of Spark's counts."""
    return _tuple_serializer_class()()


@functools.cache
def _tuple_serializer_class() -> type:
    """Return the serializer's class, whose base class is imported only when it is needed."""
    from datasketches import PyObjectSerDe

    class SingleOrRepeatedSerDe(PyObjectSerDe):  # type: ignore[misc]  # the package has no types
        """Serializer of Spark's counts that keeps only whether a count is 1 or more than 1."""

        def get_size(self, item: int) -> int:
            """Return the size of a summary in bytes."""
            return _SUMMARY_LAYOUT.size

        def to_bytes(self, item: int) -> bytes:
            """Serialize a summary."""
            return _SUMMARY_LAYOUT.pack(min(item, 2), 0)

        def from_bytes(self, data: bytes, offset: int) -> tuple[int, int]:
            """Deserialize a summary; return it with its size in bytes."""
            count, _ = _SUMMARY_LAYOUT.unpack_from(data, offset)
            return (1 if count == 1 else 2), _SUMMARY_LAYOUT.size

    return SingleOrRepeatedSerDe


def _read_tuples(sketch: bytes) -> compact_tuple_sketch:
    from datasketches import compact_tuple_sketch

    return compact_tuple_sketch.deserialize(bytes(sketch), tuple_serializer())


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
        parts = [_read_tuples(sketch) for sketch in sketches or ()]
        return cls._union(parts, count, lg_k, hashing) if parts and count else cls()

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
        sketches = [_read_tuples(packed) for packed in sorted(state.sketch for state in filled)]
        return cls._union(sketches, sum(state.count for state in filled), lg_k, hashing)

    @classmethod
    def _union(
        cls, sketches: Sequence[compact_tuple_sketch], count: int, lg_k: int, hashing: Hashing
    ) -> Self:
        from datasketches import AccumulatorPolicy, tuple_union

        union = tuple_union(AccumulatorPolicy(), lg_k)
        for sketch in sketches:
            union.update(sketch)
        sketch = union.get_result().serialize(tuple_serializer())
        return cls(sketch, count, lg_k, hashing)

    def sample(self) -> tuple[int, int, float]:
        """Return the sample's size, its number of single values and the sampling probability."""
        if not self.count:
            return 0, 0, 1.0
        sketch = _read_tuples(self.sketch)
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
        return _TUPLES_HEAD.pack(self.count, self.lg_k, self.hashing) + self.sketch

    @classmethod
    def unpack(cls, payload: bytes) -> Self:
        """Deserialize the output of `pack`."""
        count, lg_k, hashing = _TUPLES_HEAD.unpack_from(payload)
        return cls._checked(payload[_TUPLES_HEAD.size :], count, lg_k, Hashing(hashing))

    @classmethod
    def unpack_first(cls, payload: bytes) -> Self:
        """Deserialize the first version, without the hashing."""
        count, lg_k = _TUPLES_FIRST_HEAD.unpack_from(payload)
        return cls._checked(payload[_TUPLES_FIRST_HEAD.size :], count, lg_k, Hashing.BY_TYPE)

    @classmethod
    def _checked(cls, sketch: bytes, count: int, lg_k: int, hashing: Hashing) -> Self:
        if count:
            if not MIN_LG_K <= lg_k <= MAX_LG_K:
                raise ValueError(f"lg_k must be from {MIN_LG_K} to {MAX_LG_K}, not {lg_k}")
            require_tuples(sketch, SUMMARY_BYTES)
            _read_tuples(sketch)  # raises an error if the bytes are damaged
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
        if not MIN_LG_K <= self.lg_k <= MAX_LG_K:
            msg = f"{self!r}: lg_k must be between {MIN_LG_K} and {MAX_LG_K}"
            raise IllegalAnalyzerParameterError(msg)

    def check_schema(self, schema: Schema) -> None:
        """Require columns that are not nested."""
        for column in self.columns:
            schema.plain(column)

    def aggregations(self, schema: Schema) -> Sequence[str | Sketch]:
        """Return the sketch of row hashes and the aggregation of the row count.

        A hash of several values skips nulls; their positions are hashed with the values, so that
        (null, 1) and (1, null) differ. Numbers are hashed by value, regardless of their type.
        """
        fields = [schema.plain(column) for column in self.columns]
        values = [f.hash_sql if f.kind in NUMERIC else f.uncollated_sql for f in fields]
        hashed = values if len(fields) == 1 else [*values, *(f"{f.sql} IS NULL" for f in fields)]
        has_value = " OR ".join(f"{f.sql} IS NOT NULL" for f in fields)
        item = f"CASE WHEN {has_value} THEN xxhash64({', '.join(hashed)}) END"
        rows = where_holds(self.where, f"CASE WHEN {has_value} THEN 1 END")
        sketch = Sketch("tuple", where_holds(self.where, item), self.lg_k)
        return (sketch, f"count({rows})", *hashing_of(fields))

    def kernel(self, schema: Schema) -> Kernel[TupleState] | None:
        """Sketch the hashes of the values of a single column."""
        fields = [schema.plain(column) for column in self.columns]
        columns = schema.top_level(*fields)
        if columns is None or len(columns) != 1:
            return None

        def from_rows(group: RowGroup) -> TupleState:
            hashes, counts = group.hashes(*columns)
            if not len(hashes):
                return TupleState()
            if fields[0].kind in NUMERIC:
                hashes = hash_longs(hashes)  # numbers are hashed by value, and then as longs
            sketch = resolve(TUPLE_BUILDER)(self.lg_k)
            sketch.update_counted(hashes, counts)
            hashing = Hashing.of_cells(hashing_of(fields))
            return TupleState.from_sketches(
                [sketch.serialize()], int(counts.sum()), self.lg_k, hashing
            )

        return Kernel(columns, from_rows)

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
        The columns.
    lg_k : int
        log2 of the sample size, 5 to 20: 10 gives a relative standard error of 3% of the number of
        values, in 13 KiB. Increasing it by one halves the squared error and doubles the number of bytes.

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
        smoothed_share = (once + 0.5) / (values + 1)
        return share, sqrt(smoothed_share * (1 - smoothed_share) / values * (1 - theta))
