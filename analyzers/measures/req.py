"""Tail-accurate quantiles: ReqQuantile.

A relative-error quantile (REQ) sketch (Cormode, Karnin, Liberty, Thaler, Veselý 2021) bounds the
error of a rank relative to its distance from one end, so that a 99.9th percentile is as accurate as
a median. Spark has no REQ sketch: each task builds its own in Python and they are merged at the
end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

from tidegauge.analyzers.core.analyzer import SingleColumnAnalyzer, analyzer
from tidegauge.analyzers.core.description import canonical_json
from tidegauge.analyzers.core.errors import IllegalAnalyzerParameterError
from tidegauge.analyzers.core.metric import TWO_SIGMA, Interval, Scale
from tidegauge.analyzers.core.requests import Request, Sketch
from tidegauge.analyzers.core.schema import Schema
from tidegauge.analyzers.core.state import State, mismatch, register_state
from tidegauge.analyzers.measures.sketch_layouts import require_req

if TYPE_CHECKING:
    from datasketches import req_items_sketch

SMALLEST_K, LARGEST_K = 4, 1024


def _read(sketch: bytes) -> req_items_sketch:
    from datasketches import PyDoublesSerDe, req_items_sketch

    return req_items_sketch.deserialize(bytes(sketch), PyDoublesSerDe())


_ENDS = (0.0, 1.0)


def _quantile(sketch: req_items_sketch, rank: float) -> float:
    if rank in _ENDS:  # the sketch keeps both exactly
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
        """Merge all sketches into one accumulator."""
        from datasketches import PyDoublesSerDe

        filled = [state for state in states if state.sketch]
        if len(filled) < 2:
            return filled[0] if filled else cls()
        merged = _read(filled[0].sketch)
        for state in filled[1:]:
            sketch = _read(state.sketch)
            ours, theirs = (merged.k, merged.is_hra()), (sketch.k, sketch.is_hra())
            if ours != theirs:
                raise mismatch("k and high_ranks", ours, theirs)
            merged.merge(sketch)
        return cls(merged.serialize(PyDoublesSerDe()))

    @property
    def count(self) -> int:
        """The number of values."""
        return int(_read(self.sketch).n) if self.sketch else 0

    def kept(self) -> Iterator[tuple[float, int]]:
        """Yield each retained value and the number of values it represents, unordered."""
        if self.count:  # iterating over an empty sketch fails
            yield from _read(self.sketch)

    def rank_error(self) -> float:
        """Return the bound on the error of any rank, two standard errors; 0 for an empty sketch."""
        if not self.sketch:
            return 0.0
        sketch = _read(self.sketch)
        far = 0.0 if sketch.is_hra() else 1.0
        return float(sketch.get_rank_upper_bound(far, 2) - sketch.get_rank_lower_bound(far, 2)) / 2

    def quantile(self, rank: float) -> float:
        """Return the smallest value with at least the share ``rank`` of values at or below it."""
        return self.quantiles([rank])[0]

    def quantiles(self, ranks: Sequence[float]) -> list[float]:
        """Return the quantile at each rank."""
        sketch = _read(self.sketch)
        return [_quantile(sketch, rank) for rank in ranks]

    def interval(self, rank: float) -> Interval:
        """Return the bounds of the exact quantile, at two standard errors."""
        return self.intervals([rank])[0]

    def intervals(self, ranks: Sequence[float]) -> list[Interval]:
        """Return the bounds at each rank; the least and the greatest value are exact."""
        sketch = _read(self.sketch)
        found = []
        for rank in ranks:
            low, high = sketch.get_rank_lower_bound(rank, 2), sketch.get_rank_upper_bound(rank, 2)
            if rank in _ENDS:
                low = high = rank
            low, high = (_quantile(sketch, min(max(end, 0.0), 1.0)) for end in (low, high))
            found.append(Interval(low, high, TWO_SIGMA))
        return found

    def agrees_with(self, other: Self) -> bool:
        """Return whether count, minimum and maximum are equal and quartiles within both bounds."""
        if not self.sketch or not other.sketch:
            return self.sketch == other.sketch
        ends = [(s.count, s.quantile(0.0), s.quantile(1.0)) for s in (self, other)]
        return ends[0] == ends[1] and all(self._meets(other, rank) for rank in (0.25, 0.5, 0.75))

    def _meets(self, other: Self, rank: float) -> bool:
        a, b = _read(self.sketch), _read(other.sketch)
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
            if _read(payload).is_empty():  # raises on damage
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
    quantile : float
        In [0, 1].
    k : int
        Even, 4 to 1024: the standard error of a rank is about 0.13 / k of its distance from the
        accurate end. The state takes about 1.3 k KiB.
    high_ranks : bool
        True for accuracy at quantiles near 1, False for those near 0.

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
            msg = f"{self!r}: a quantile lies between 0 and 1"
            raise IllegalAnalyzerParameterError(msg)
        if not SMALLEST_K <= self.k <= LARGEST_K or self.k % 2:
            msg = f"{self!r}: k is an even number between {SMALLEST_K} and {LARGEST_K}"
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
