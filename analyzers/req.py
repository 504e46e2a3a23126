"""Quantiles that are most accurate at one end: ReqQuantile.

A relative-error quantile sketch (Cormode, Karnin, Liberty, Thaler, Veselý 2021) bounds the error of a
rank by a share of its distance from the end, so that a 99.9th percentile is as good as a median. Spark
has none: each task builds its own in Python and they are merged at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

from analyzers.analyzer import OfColumn, analyzer
from analyzers.description import canonical_json
from analyzers.errors import IllegalAnalyzerParameterError
from analyzers.metric import TWO_SIGMA, Interval, Scale
from analyzers.requests import ReqSketch, Request
from analyzers.schema import Schema
from analyzers.state import State, mismatch, register_state

if TYPE_CHECKING:
    from datasketches import req_items_sketch

SMALLEST_K, LARGEST_K = 4, 1024


def _read(sketch: bytes) -> req_items_sketch:
    from datasketches import PyDoublesSerDe, req_items_sketch  # noqa: PLC0415 - heavy, seldom needed

    return req_items_sketch.deserialize(bytes(sketch), PyDoublesSerDe())


_ENDS = (0.0, 1.0)


def _quantile(sketch: req_items_sketch, rank: float) -> float:
    if rank in _ENDS:  # kept exactly, beside the rest
        return float(sketch.get_max_value() if rank else sketch.get_min_value())
    return float(sketch.get_quantile(rank, inclusive=True))


@register_state("req/1")
@dataclass(frozen=True, slots=True)
class ReqState(State):
    """An Apache DataSketches REQ sketch of doubles; no bytes are the sketch of nothing.

    Sketches of different ``k``, or accurate at different ends, do not add; the empty one takes the
    other's.
    """

    sketch: bytes = b""

    def combine(self, other: Self) -> Self:
        """Merge the sketches."""
        return self.merge([self, other])

    @classmethod
    def merge(cls, states: Iterable[Self]) -> Self:
        """Merge all into one accumulator."""
        from datasketches import PyDoublesSerDe  # noqa: PLC0415

        filled = [state for state in states if state.sketch]
        if len(filled) < 2:  # noqa: PLR2004
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
        """Yield each value that is kept with the number of values that it stands for, in no order."""
        if self.count:  # an empty sketch cannot be iterated over
            yield from _read(self.sketch)

    def rank_error(self) -> float:
        """Return the bound on the error of any rank, two standard errors; 0 for no values."""
        if not self.sketch:
            return 0.0
        sketch = _read(self.sketch)
        far = 0.0 if sketch.is_hra() else 1.0
        return float(sketch.get_rank_upper_bound(far, 2) - sketch.get_rank_lower_bound(far, 2)) / 2

    def quantile(self, rank: float) -> float:
        """Return the least value that at least this share of the values do not exceed."""
        return self.quantiles([rank])[0]

    def quantiles(self, ranks: Sequence[float]) -> list[float]:
        """Return the same for each of some ranks."""
        sketch = _read(self.sketch)
        return [_quantile(sketch, rank) for rank in ranks]

    def interval(self, rank: float) -> Interval:
        """Return the values between which the exact quantile lies."""
        return self.intervals([rank])[0]

    def intervals(self, ranks: Sequence[float]) -> list[Interval]:
        """Return the same for each of some ranks; the least and the greatest value are exact."""
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
        """Whether count, least and greatest value are equal, and quartiles within both bounds."""
        if not self.sketch or not other.sketch:
            return self.sketch == other.sketch
        ends = [(s.count, s.quantile(0.0), s.quantile(1.0)) for s in (self, other)]
        return ends[0] == ends[1] and all(self._meets(other, rank) for rank in (0.25, 0.5, 0.75))

    def _meets(self, other: Self, rank: float) -> bool:
        a, b = _read(self.sketch), _read(other.sketch)
        value = self.quantile(rank)
        # Three deviations of either; a repeated value covers a span of ranks.
        allowed = sum(s.get_rank_upper_bound(rank, 3) - rank for s in (a, b))
        below, upto = b.get_rank(value, inclusive=False), b.get_rank(value, inclusive=True)
        return bool(below - allowed <= rank <= upto + allowed)

    def pack(self) -> bytes:
        """Return the sketch's own bytes."""
        return self.sketch

    @classmethod
    def unpack(cls, payload: bytes) -> Self:
        """Read what `pack` wrote."""
        if payload:
            _read(payload)  # raises on damage
        return cls(payload)


@analyzer
class ReqQuantile(OfColumn[ReqState, float]):
    """A quantile of a numeric column, accurate at the tail; see `ApproxQuantile`.

    Nulls and NaN are ignored; empty if there is nothing else. The error of a rank shrinks with its
    distance from the accurate end: the metric's interval tells it.

    Parameters
    ----------
    column : str
    quantile : float
        In [0, 1].
    k : int
        Even, 4 to 1024: the standard error of a rank is about 0.13 / k of its distance from the
        accurate end. The state takes some 1.3 k KiB.
    high_ranks : bool
        Whether quantiles near 1 are the accurate ones, or those near 0.

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
        """The quantile is part of the name."""
        return f"ReqQuantile-{self.quantile}"

    def statistic(self) -> str:
        """All quantiles of a column come from one sketch."""
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
        """The rank lies in [0, 1] and the sketch can be had."""
        if not 0 <= self.quantile <= 1:
            msg = f"{self!r}: a quantile lies between 0 and 1"
            raise IllegalAnalyzerParameterError(msg)
        if not SMALLEST_K <= self.k <= LARGEST_K or self.k % 2:
            msg = f"{self!r}: k is an even number between {SMALLEST_K} and {LARGEST_K}"
            raise IllegalAnalyzerParameterError(msg)

    def requests(self, schema: Schema) -> tuple[Request, ...]:
        """Ask for the sketch."""
        return (ReqSketch(self.doubles(schema), self.k, self.high_ranks),)

    def fold(self, cells: Sequence[Any]) -> ReqState:
        """Take the sketch, of which each task made a part."""
        return ReqState.merge(map(ReqState, cells[0] or ()))

    def measure(self, state: ReqState) -> float:
        """Ask the sketch."""
        if not state.sketch:
            raise self.no_data()
        return state.quantile(self.quantile)

    def interval(self, state: ReqState) -> Interval:
        """The values at the ranks that two standard errors leave possible."""
        return state.interval(self.quantile)

    def weight(self, state: ReqState) -> float:
        """Return the number of values."""
        return state.count
