"""Approximate, mergeable quantiles: ApproxQuantile, ApproxQuantiles, and the tail-accurate ReqQuantile.

ApproxQuantile and ApproxQuantiles read a KLL sketch (Karnin, Lang, Liberty 2016) that Spark builds and
that merges without Spark.

ReqQuantile reads a relative-error quantile (REQ) sketch (Cormode, Karnin, Liberty, Thaler, Veselý 2021). It
bounds the error of a rank relative to its distance from one end, so that a 99.9th percentile is as accurate
as a median. Spark has no REQ sketch: each task builds its own in Python and they are merged at the end.

`SketchPairs` holds the distributions of two columns that are mostly equal, and of their differences.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from math import ceil, sqrt
from struct import Struct
from typing import TYPE_CHECKING, Any, ClassVar, Self

from tidegauge.analyzers.core.analyzer import (
    ColumnAnalyzer,
    Request,
    SingleColumnAnalyzer,
    Sketch,
    T,
    analyzer,
)
from tidegauge.analyzers.core.columnar import Kernel, RowGroup
from tidegauge.analyzers.core.errors import IllegalAnalyzerParameterError
from tidegauge.analyzers.core.metric import TWO_SIGMA, Interval, Scale
from tidegauge.analyzers.core.registry import canonical_json
from tidegauge.analyzers.core.schema import Schema
from tidegauge.analyzers.core.state import State, mismatch, register_state
from tidegauge.analyzers.measures.serialized_layouts import (
    kll_size,
    kll_values,
    require_kll,
    require_req,
)

if TYPE_CHECKING:
    from datasketches import kll_doubles_sketch, req_items_sketch


RANK_CONFIDENCE = 0.99
"""Confidence of the bound on the rank error, as in DataSketches."""
MIN_K, MAX_K = 8, 65535
MIN_RELATIVE_ERROR = 5e-5


def sketch_size(relative_error: float) -> int:
    """Return the KLL parameter ``k`` whose rank error is at most ``relative_error``.

    This is the inverse of `rank_error`, rounded up and clamped to 8 to 65535.

    Examples
    --------
    >>> sketch_size(0.01)
    269
    """
    k = ceil(float((2.296 / relative_error) ** (1 / 0.9723)))
    return min(max(k, MIN_K), MAX_K)


def rank_error(k: int) -> float:
    """Return the single-sided normalized rank error of a KLL sketch, at 99% confidence.

    DataSketches fitted this formula to its sketches.

    Examples
    --------
    >>> round(rank_error(269), 3)
    0.01
    """
    return float(2.296 / k**0.9723)


@register_state("kll/1")
@dataclass(frozen=True, slots=True)
class KllState(State):
    """An Apache DataSketches KLL sketch of doubles; empty bytes are the empty sketch.

    Nulls and NaN are excluded. Sketches of different ``k`` do not merge; an empty one takes the
    other's.
    """

    sketch: bytes = b""

    @classmethod
    def from_sketches(cls, sketches: Iterable[bytes] | None) -> Self:
        """Build a state from serialized sketches, of Spark or of its Python workers."""
        return cls.merge(cls(bytes(s)) for s in sketches or () if not _read_kll(s).is_empty())

    def combine(self, other: Self) -> Self:
        """Merge the sketches."""
        return self.merge([self, other])

    @classmethod
    def merge(cls, states: Any) -> Self:
        """Merge all sketches. The order of the sketches does not matter, not even for the bytes."""
        filled = [state for state in states if state.sketch]
        for state in filled[1:]:
            if state.k != filled[0].k:
                raise mismatch("k", filled[0].k, state.k)
        return cls.merge_sizes(filled)

    @classmethod
    def merge_sizes(cls, states: Iterable[Self]) -> Self:
        """Merge sketches of any ``k`` into a sketch of the largest ``k``.

        Merging keeps the errors of the given sketches; `rank_error` is the error of the smallest ``k``.
        """
        filled = [state for state in states if state.sketch]
        if len(filled) < 2:
            return filled[0] if filled else cls()
        return cls._merged(filled, max(state.k for state in filled))

    @classmethod
    def _merged(cls, filled: Sequence[Self], k: int) -> Self:
        from tidegauge.analyzers.measures.sketch_merging import merge_kll

        return cls(merge_kll([state.sketch for state in filled], k))

    def coarser(self, ratio: float) -> Self:
        """Return a smaller sketch, whose rank error is at most ``ratio`` times as large.

        Examples
        --------
        >>> KllState().coarser(2.0) == KllState()
        True
        """
        if ratio <= 1 or not self.sketch:
            return self
        k = sketch_size(rank_error(self.k) * ratio)
        return self if k >= self.k else self._merged([self], k)

    @property
    def k(self) -> int:
        """The size of the sketch; 0 if it is empty."""
        return kll_size(self.sketch) if self.sketch else 0

    @property
    def count(self) -> int:
        """The number of values."""
        return int(_read_kll(self.sketch).n) if self.sketch else 0

    def quantiles(self, ranks: Sequence[float]) -> list[float]:
        """Return for each rank the smallest value with at least that share of values <= it."""
        sketch = _read_kll(self.sketch)
        ends = {
            0.0: sketch.get_min_value,
            1.0: sketch.get_max_value,
        }  # the sketch keeps both exactly
        return [
            float(ends[rank]() if rank in ends else sketch.get_quantile(rank, inclusive=True))
            for rank in ranks
        ]

    def retained_values(self) -> Iterator[tuple[float, int]]:
        """Return each retained value and the number of values it represents, unordered."""
        return kll_values(self.sketch) if self.sketch else iter(())

    def ranks_below(self, values: Sequence[float]) -> list[float]:
        """Return the share of values below each given value; the sketch must not be empty."""
        sketch = _read_kll(self.sketch)
        return [float(sketch.get_rank(value, inclusive=False)) for value in values]

    def interval(self, rank: float) -> Interval:
        """Return the bounds of the exact quantile, at 99% confidence."""
        return self.intervals([rank])[0]

    def intervals(self, ranks: Sequence[float]) -> list[Interval]:
        """Return the bounds at each rank; the minimum and the maximum are exact."""
        return _intervals(self, ranks)

    def rank_error(self) -> float:
        """Return the bound on the rank error, at 99% confidence; 0 for an empty sketch."""
        return float(_read_kll(self.sketch).normalized_rank_error(False)) if self.sketch else 0.0  # noqa: FBT003

    def agrees_with(self, other: Self) -> bool:
        """Return whether count, minimum and maximum are equal and quartiles within both bounds."""
        if not self.sketch or not other.sketch:
            return self.sketch == other.sketch
        a, b = _read_kll(self.sketch), _read_kll(other.sketch)
        if (a.n, a.get_min_value(), a.get_max_value()) != (
            b.n,
            b.get_min_value(),
            b.get_max_value(),
        ):
            return False
        allowed = 2 * (self.rank_error() + other.rank_error())
        return all(
            other._spans(value, rank, allowed)
            for rank, value in zip(_QUARTILE_RANKS, self.quantiles(_QUARTILE_RANKS), strict=True)
        )

    def _spans(self, value: float, rank: float, allowed: float) -> bool:
        # A repeated value spans a range of ranks; the requested rank need only touch it.
        sketch = _read_kll(self.sketch)
        below = sketch.get_rank(value, inclusive=False)
        return bool(below - allowed <= rank <= sketch.get_rank(value, inclusive=True) + allowed)

    def pack(self) -> bytes:
        """Return the sketch's own bytes."""
        return self.sketch

    @classmethod
    def unpack(cls, payload: bytes) -> Self:
        """Deserialize the output of `pack`."""
        if payload:
            require_kll(payload)
            if _read_kll(payload).is_empty():  # raises an error if the bytes are damaged
                return cls()
        return cls(payload)


_QUARTILE_RANKS = (0.25, 0.5, 0.75)
_END_RANKS = (0.0, 1.0)


@dataclass(frozen=True, slots=True)
class KllUnion:
    """KLL sketches of disjoint values, read as one sketch, and a count of further zeros.

    They are not merged, because merging drops values.

    Attributes
    ----------
    parts : tuple of KllState
        The sketches to combine.
    k : int
        Size of the sketch that is as accurate as all of them; 0 if they are empty.
    zeros : int
        Number of further values, which are all 0.

    Examples
    --------
    >>> KllUnion((KllState(),), zeros=3).quantiles([0.0, 0.5, 1.0])
    [0.0, 0.0, 0.0]
    """

    parts: tuple[KllState, ...]
    k: int = 0
    zeros: int = 0

    @property
    def count(self) -> int:
        """The number of values."""
        return sum(part.count for part in self.parts) + self.zeros

    def retained_values(self) -> Iterator[tuple[float, int]]:
        """Yield each retained value and the number of values it represents, unordered."""
        for part in self.parts:
            yield from part.retained_values()
        if self.zeros:
            yield 0.0, self.zeros

    def quantiles(self, ranks: Sequence[float]) -> list[float]:
        """Return for each rank the smallest value with at least that share of values <= it.

        There must be values.
        """
        import numpy as np

        values, weights = np.array(list(self.retained_values())).T
        order = np.argsort(values)
        upto = np.cumsum(weights[order])
        positions = np.ceil(np.asarray(ranks) * upto[-1] * (1 - RANK_TOLERANCE))
        estimates: list[float] = values[order][np.searchsorted(upto, positions)].tolist()
        # The sketches keep both ends exactly.
        ends = [end for part in self.parts if part.count for end in part.quantiles(_END_RANKS)]
        ends += [0.0] * bool(self.zeros)
        exact = dict(zip(_END_RANKS, (min(ends), max(ends)), strict=True))
        return [exact.get(rank, value) for rank, value in zip(ranks, estimates, strict=True)]

    def intervals(self, ranks: Sequence[float]) -> list[Interval]:
        """Return the bounds at each rank; the minimum and the maximum are exact."""
        return _intervals(self, ranks)

    def rank_error(self) -> float:
        """Return the bound on the rank error, at 99% confidence; 0 if there are only zeros."""
        return rank_error(self.k) if self.k else 0.0


RANK_TOLERANCE = 1e-12
"""Relative tolerance of ranks against rounding errors: 0.7 * 10 can exceed 7."""


def _intervals(sketch: KllState | KllUnion, ranks: Sequence[float]) -> list[Interval]:
    error = sketch.rank_error()
    errors = [0.0 if rank in _END_RANKS else error for rank in ranks]
    pairs = zip(ranks, errors, strict=True)
    bounds = [end for rank, e in pairs for end in (max(rank - e, 0.0), min(rank + e, 1.0))]
    values = iter(sketch.quantiles(bounds))
    return [
        Interval(lower, upper, RANK_CONFIDENCE) for lower, upper in zip(values, values, strict=True)
    ]


def _read_kll(sketch: bytes) -> kll_doubles_sketch:
    from datasketches import kll_doubles_sketch

    return kll_doubles_sketch.deserialize(bytes(sketch))


def kll_in(group: RowGroup, column: str, k: int) -> KllState:
    """Return the sketch of the values of a column in a row group, without NaN."""
    import numpy as np

    from tidegauge.analyzers.measures.sketch_merging import build_kll

    values = group.doubles(column)
    values = values[~np.isnan(values)]
    return KllState(build_kll(values, k)) if len(values) else KllState()


def kll_statistic(column: str, k: int, where: str | None) -> str:
    """Return the statistic key of a KLL sketch."""
    return canonical_json({"state": "kll", "column": column, "k": k, "where": where})


@dataclass(frozen=True, repr=False)
class _QuantileAnalyzer(ColumnAnalyzer[KllState, T]):
    scale: ClassVar[Scale] = Scale.SIGNED
    state_type: ClassVar[type[State]] = KllState
    state_bytes: ClassVar[int] = 1 << 14
    accepts: ClassVar[str] = "numeric"

    if TYPE_CHECKING:

        @property
        def relative_error(self) -> float:
            """The bound on the rank error; a field of both subclasses."""

    @abstractmethod
    def ranks(self) -> tuple[float, ...]:
        """Return the requested ranks."""

    def statistic(self) -> str:
        """Return the statistic key; quantiles of a column with equal error share one sketch."""
        return kll_statistic(self.column, sketch_size(self.relative_error), self.where)

    def check_parameters(self) -> None:
        """Require ranks in [0, 1], at least one, and an error from 5e-5 to 1."""
        if not self.ranks():
            msg = f"{self!r}: give at least one quantile"
            raise IllegalAnalyzerParameterError(msg)
        if not all(0 <= rank <= 1 for rank in self.ranks()):
            msg = f"{self!r}: a quantile must be between 0 and 1"
            raise IllegalAnalyzerParameterError(msg)
        if not MIN_RELATIVE_ERROR <= self.relative_error <= 1:
            msg = f"{self!r}: relative_error must be between {MIN_RELATIVE_ERROR} and 1"
            if 0 <= self.relative_error < MIN_RELATIVE_ERROR:
                msg += "; for an exact quantile, use ExactQuantile"
            raise IllegalAnalyzerParameterError(msg)

    def aggregations(self, schema: Schema) -> Sequence[Sketch]:
        """Return the sketch."""
        return (Sketch("kll", self.doubles(schema), sketch_size(self.relative_error)),)

    def kernel(self, schema: Schema) -> Kernel[KllState] | None:
        """Sketch the values, without NaN."""
        columns = schema.top_level(self.field(schema))
        if columns is None:
            return None

        (column,) = columns
        k = sketch_size(self.relative_error)
        return Kernel(columns, lambda group: kll_in(group, column, k))

    def fold(self, cells: Sequence[Any]) -> KllState:
        """Return the state of the sketch."""
        return KllState.from_sketches(cells[0])


@analyzer
class ApproxQuantile(_QuantileAnalyzer[float]):
    """Approximate quantile of a numeric column, from a KLL sketch.

    The smallest value with at least the share ``quantile`` of values at or below it. Nulls and NaN
    are ignored; empty metric if there are no other values. The rank of the result is off by at most
    ``relative_error``, at 99% confidence.

    Parameters
    ----------
    column : str
        The column.
    quantile : float
        In [0, 1]; 0 is the minimum, 0.5 the median.
    relative_error : float
        Bound on the rank error, 5e-5 to 1; smaller bounds need larger states.

    Examples
    --------
    >>> ApproxQuantile("delay", 0.5).name
    'ApproxQuantile-0.5'
    """

    quantile: float
    relative_error: float = 0.01

    @property
    def name(self) -> str:
        """The name, with the quantile as in Deequ."""
        return f"ApproxQuantile-{self.quantile}"

    def ranks(self) -> tuple[float, ...]:
        """Return the requested rank."""
        return (self.quantile,)

    def measure(self, state: KllState) -> float:
        """Return the quantile."""
        if not state.sketch:
            raise self.no_data()
        return state.quantiles(self.ranks())[0]

    def interval(self, state: KllState) -> Interval:
        """Return the values at the ranks within the error."""
        return state.interval(self.quantile)


@analyzer
class ApproxQuantiles(_QuantileAnalyzer[Mapping[str, float]]):
    """Approximate quantiles of a numeric column from one sketch; see `ApproxQuantile`.

    Examples
    --------
    >>> ApproxQuantiles("delay", [0.25, 0.5]).quantiles
    (0.25, 0.5)
    """

    quantiles: tuple[float, ...]
    relative_error: float = 0.01

    def ranks(self) -> tuple[float, ...]:
        """Return the requested ranks."""
        return self.quantiles

    def measure(self, state: KllState) -> Mapping[str, float]:
        """Return the quantiles by rank. The keys are strings."""
        if not state.sketch:
            raise self.no_data()
        return dict(zip(map(str, self.quantiles), state.quantiles(self.quantiles), strict=True))

    def interval(self, state: KllState) -> Mapping[str, Interval]:
        """Return the values at the ranks within the error, for each quantile."""
        return dict(zip(map(str, self.quantiles), state.intervals(self.quantiles), strict=True))


MIN_REQ_K, MAX_REQ_K = 4, 1024


def _read_req(sketch: bytes) -> req_items_sketch:
    from datasketches import PyDoublesSerDe, req_items_sketch

    return req_items_sketch.deserialize(bytes(sketch), PyDoublesSerDe())


def _quantile(sketch: req_items_sketch, rank: float) -> float:
    if rank in _END_RANKS:  # the sketch keeps both exactly
        return float(sketch.get_max_value() if rank else sketch.get_min_value())
    return float(sketch.get_quantile(rank, inclusive=True))


@register_state("req/1")
@dataclass(frozen=True, slots=True)
class ReqState(State):
    """An Apache DataSketches REQ sketch of doubles; empty bytes are the empty sketch.

    Sketches of different ``k``, or accurate at different ends, do not merge; an empty one takes the
    other's.
    """

    sketch: bytes = b""

    def combine(self, other: Self) -> Self:
        """Merge the sketches."""
        return self.merge([self, other])

    @classmethod
    def merge(cls, states: Iterable[Self]) -> Self:
        """Merge all sketches. The order of the sketches does not matter, not even for the bytes."""
        from tidegauge.analyzers.measures.sketch_merging import merge_req

        filled = [state for state in states if state.sketch]
        if len(filled) < 2:
            return filled[0] if filled else cls()
        parameters = [(s.k, s.is_hra()) for s in (_read_req(state.sketch) for state in filled)]
        for other_parameters in parameters:
            if other_parameters != parameters[0]:
                raise mismatch("k and high_ranks", parameters[0], other_parameters)
        return cls(merge_req([state.sketch for state in filled]))

    @property
    def count(self) -> int:
        """The number of values."""
        return int(_read_req(self.sketch).n) if self.sketch else 0

    def retained_values(self) -> Iterator[tuple[float, int]]:
        """Yield each retained value and the number of values it represents, unordered."""
        if self.count:  # iterating over an empty sketch fails
            yield from _read_req(self.sketch)

    def rank_error(self) -> float:
        """Return the bound on the error of any rank, two standard errors; 0 for an empty sketch."""
        if not self.sketch:
            return 0.0
        sketch = _read_req(self.sketch)
        far = 0.0 if sketch.is_hra() else 1.0
        return float(sketch.get_rank_upper_bound(far, 2) - sketch.get_rank_lower_bound(far, 2)) / 2

    def quantile(self, rank: float) -> float:
        """Return the smallest value with at least the share ``rank`` of values at or below it."""
        return self.quantiles([rank])[0]

    def quantiles(self, ranks: Sequence[float]) -> list[float]:
        """Return the quantile at each rank."""
        sketch = _read_req(self.sketch)
        return [_quantile(sketch, rank) for rank in ranks]

    def interval(self, rank: float) -> Interval:
        """Return the bounds of the exact quantile, at two standard errors."""
        return self.intervals([rank])[0]

    def intervals(self, ranks: Sequence[float]) -> list[Interval]:
        """Return the bounds at each rank; the minimum and the maximum are exact."""
        sketch = _read_req(self.sketch)
        result = []
        for rank in ranks:
            low, high = sketch.get_rank_lower_bound(rank, 2), sketch.get_rank_upper_bound(rank, 2)
            if rank in _END_RANKS:
                low = high = rank
            low, high = (_quantile(sketch, min(max(end, 0.0), 1.0)) for end in (low, high))
            result.append(Interval(low, high, TWO_SIGMA))
        return result

    def agrees_with(self, other: Self) -> bool:
        """Return whether count, minimum and maximum are equal and quartiles within both bounds."""
        if not self.sketch or not other.sketch:
            return self.sketch == other.sketch
        ends = [(s.count, s.quantile(0.0), s.quantile(1.0)) for s in (self, other)]
        return ends[0] == ends[1] and all(self._meets(other, rank) for rank in (0.25, 0.5, 0.75))

    def _meets(self, other: Self, rank: float) -> bool:
        a, b = _read_req(self.sketch), _read_req(other.sketch)
        value = self.quantile(rank)
        # Three deviations of each sketch; a repeated value spans a range of ranks.
        allowed = sum(s.get_rank_upper_bound(rank, 3) - rank for s in (a, b))
        below, upto = b.get_rank(value, inclusive=False), b.get_rank(value, inclusive=True)
        return bool(below - allowed <= rank <= upto + allowed)

    def pack(self) -> bytes:
        """Return the sketch's own bytes."""
        return self.sketch

    @classmethod
    def unpack(cls, payload: bytes) -> Self:
        """Deserialize the output of `pack`."""
        if payload:
            require_req(payload)
            if _read_req(payload).is_empty():  # raises an error if the bytes are damaged
                return cls()
        return cls(payload)


@analyzer
class ReqQuantile(SingleColumnAnalyzer[ReqState, float]):
    """Approximate quantile of a numeric column, accurate at one tail; see `ApproxQuantile`.

    Nulls and NaN are ignored; empty metric if there are no other values. The rank error is
    proportional to the distance from the accurate end; the metric's interval gives it.

    Parameters
    ----------
    column : str
        The column.
    quantile : float
        In [0, 1].
    k : int
        Even, 4 to 1024: the standard error of a rank is about 0.13 / k of its distance from the
        accurate end. The state takes about 1.3 k KiB.
    high_ranks : bool
        True for accuracy at quantiles near 1, False for quantiles near 0.

    Examples
    --------
    >>> ReqQuantile("latency", 0.999).name
    'ReqQuantile-0.999'
    """

    scale: ClassVar[Scale] = Scale.SIGNED
    state_type: ClassVar[type[State]] = ReqState
    state_bytes: ClassVar[int] = 1 << 14
    accepts: ClassVar[str] = "numeric"

    quantile: float
    k: int = 12
    high_ranks: bool = True

    @property
    def name(self) -> str:
        """The name, with the quantile."""
        return f"ReqQuantile-{self.quantile}"

    def statistic(self) -> str:
        """Return the statistic key; quantiles of a column with equal options share one sketch."""
        return canonical_json(
            {
                "state": "req",
                "column": self.column,
                "k": self.k,
                "high_ranks": self.high_ranks,
                "where": self.where,
            }
        )

    def check_parameters(self) -> None:
        """Require a quantile in [0, 1] and an even k from 4 to 1024."""
        if not 0 <= self.quantile <= 1:
            msg = f"{self!r}: a quantile must be between 0 and 1"
            raise IllegalAnalyzerParameterError(msg)
        if not MIN_REQ_K <= self.k <= MAX_REQ_K or self.k % 2:
            msg = f"{self!r}: k must be an even number between {MIN_REQ_K} and {MAX_REQ_K}"
            raise IllegalAnalyzerParameterError(msg)

    def requests(self, schema: Schema) -> tuple[Request, ...]:
        """Request the sketch."""
        kind = "req-high" if self.high_ranks else "req-low"
        return (Sketch(kind, self.doubles(schema), self.k),)

    def fold(self, cells: Sequence[Any]) -> ReqState:
        """Merge the sketches of all tasks."""
        return ReqState.merge(map(ReqState, cells[0] or ()))

    def measure(self, state: ReqState) -> float:
        """Return the quantile."""
        if not state.sketch:
            raise self.no_data()
        return state.quantile(self.quantile)

    def interval(self, state: ReqState) -> Interval:
        """Return the values at the ranks within two standard errors."""
        return state.interval(self.quantile)


_SIZES_LAYOUT = Struct("<4I")
_EMPTY_STATE = KllState()


@register_state("sketch-pairs/1")
@dataclass(frozen=True, slots=True)
class SketchPairs(State):
    """KLL sketches of pairs of numbers, separated by whether the difference of a pair is 0.

    Values that are equal on both sides are sketched once. Differences of 0 are not sketched, because their
    number is the number of equal values. So the state of equal columns is as large as one sketch. A sketch
    that holds only a small part of a distribution can be less accurate; see `from_parts`.

    Attributes
    ----------
    equal : KllState
        Values of the pairs whose difference is 0.
    logged, backfilled : KllState
        Values of each side in all other pairs, including pairs whose other side is null.
    delta : KllState
        Differences other than 0, backfilled - logged; NaN, for example of equal infinities, is ignored.

    Examples
    --------
    >>> SketchPairs().distribution("delta").count
    0
    """

    equal: KllState = _EMPTY_STATE
    logged: KllState = _EMPTY_STATE
    backfilled: KllState = _EMPTY_STATE
    delta: KllState = _EMPTY_STATE

    @classmethod
    def from_parts(
        cls, equal: KllState, logged: KllState, backfilled: KllState, delta: KllState
    ) -> Self:
        """Build a state of sketches of one size, each shrunk as far as its share of the values allows.

        Errors of sketches are independent, so their squares add. The error of a distribution is the error of
        one sketch if the larger part keeps its accuracy, and the part with a share ``w`` below one half has
        at most ``sqrt(2 / w - 1)`` times this error. For differences, whose zeros are counted, the limit is
        ``1 / w`` times.

        Examples
        --------
        >>> one = KllState()
        >>> SketchPairs.from_parts(one, one, one, one) == SketchPairs()
        True
        """
        equal_count, logged_count, backfilled_count = equal.count, logged.count, backfilled.count
        return cls(
            equal.coarser(
                min(
                    _ratio(equal_count, equal_count + logged_count),
                    _ratio(equal_count, equal_count + backfilled_count),
                )
            ),
            logged.coarser(_ratio(logged_count, equal_count + logged_count)),
            backfilled.coarser(_ratio(backfilled_count, equal_count + backfilled_count)),
            delta.coarser(1 + equal_count / max(delta.count, 1)),
        )

    def combine(self, other: Self) -> Self:
        """Merge the sketches one by one."""
        return self.merge([self, other])

    @classmethod
    def merge(cls, states: Any) -> Self:
        """Merge all sketches into one accumulator each, of the size of the largest."""
        pairs = list(states)
        sizes = sorted({state.k for state in pairs} - {0})
        if len(sizes) > 1:
            raise mismatch("k", *sizes[:2])
        return cls(*(KllState.merge_sizes(getattr(s, f.name) for s in pairs) for f in fields(cls)))

    def distribution(self, metric: str) -> KllUnion:
        """Return the distribution of ``logged`` or ``backfilled`` values, or of ``delta``."""
        if metric == "delta":
            return KllUnion((self.delta,), self.k, zeros=self.equal.count)
        side = self.logged if metric == "logged" else self.backfilled
        return KllUnion((self.equal, side), self.k)

    @property
    def k(self) -> int:
        """The size of the largest sketch, which decides the accuracy; 0 if all are empty."""
        return max(self.equal.k, self.logged.k, self.backfilled.k, self.delta.k)

    def agrees_with(self, other: Self) -> bool:
        """Return whether all sketches agree; see `KllState.agrees_with`."""
        return all(getattr(self, f.name).agrees_with(getattr(other, f.name)) for f in fields(self))

    def pack(self) -> bytes:
        """Return the sketches' own bytes, after their sizes."""
        parts = [getattr(self, f.name).sketch for f in fields(self)]
        return _SIZES_LAYOUT.pack(*map(len, parts)) + b"".join(parts)

    @classmethod
    def unpack(cls, payload: bytes) -> Self:
        """Deserialize the output of `pack`."""
        sizes = _SIZES_LAYOUT.unpack_from(payload)
        if _SIZES_LAYOUT.size + sum(sizes) != len(payload):
            raise ValueError(f"sketches of {sizes} bytes are not {len(payload)} bytes")
        parts, start = [], _SIZES_LAYOUT.size
        for size in sizes:
            parts.append(KllState.unpack(payload[start : start + size]))
            start += size
        return cls(*parts)


def _ratio(part: int, total: int) -> float:
    """Return the factor from the error of a distribution to the possible error of a part."""
    return 1.0 if 2 * part >= total else sqrt(2 * total / max(part, 1) - 1)
