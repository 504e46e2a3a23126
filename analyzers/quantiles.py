"""Quantiles, approximately and mergeably: ApproxQuantile, ApproxQuantiles.

Both read a KLL sketch (Karnin, Lang, Liberty 2016) that Spark builds and that merges without Spark.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any, ClassVar, Self

from analyzers.analyzer import ColumnAnalyzer, T, analyzer
from analyzers.description import canonical_json
from analyzers.errors import IllegalAnalyzerParameterError
from analyzers.metric import Interval, Scale
from analyzers.schema import Schema
from analyzers.state import State, mismatch, register_state

if TYPE_CHECKING:
    from datasketches import kll_doubles_sketch

CONFIDENCE = 0.99
"""With which the error of a rank is bounded."""
SMALLEST_K, LARGEST_K = 8, 65535
SMALLEST_ERROR = 5e-5


def sketch_size(relative_error: float) -> int:
    """Return the KLL parameter ``k`` whose rank error is at most ``relative_error``.

    DataSketches gives the single-sided normalised rank error, at 99 % confidence, as
    ``2.296 / k ** 0.9723``; this is its inverse, rounded up.

    Examples
    --------
    >>> sketch_size(0.01)
    269
    """
    k = ceil(float((2.296 / relative_error) ** (1 / 0.9723)))
    return min(max(k, SMALLEST_K), LARGEST_K)


@register_state("kll/1")
@dataclass(frozen=True, slots=True)
class KllState(State):
    """An Apache DataSketches KLL sketch of doubles; no bytes are the sketch of nothing.

    Nulls and NaN are left out. Sketches of different ``k`` do not add; the empty one takes the
    other's.
    """

    sketch: bytes = b""

    @classmethod
    def of(cls, raw: bytes | None) -> Self:
        """Make one of the bytes that Spark's ``kll_sketch_agg_double`` returns."""
        return cls() if raw is None or _read(raw).is_empty() else cls(bytes(raw))

    def combine(self, other: Self) -> Self:
        """Merge the sketches."""
        return self.merge([self, other])

    @classmethod
    def merge(cls, states: Any) -> Self:
        """Merge all into one accumulator."""
        filled = [state for state in states if state.sketch]
        if len(filled) < 2:  # noqa: PLR2004
            return filled[0] if filled else cls()
        merged = _read(filled[0].sketch)
        for state in filled[1:]:
            sketch = _read(state.sketch)
            if sketch.k != merged.k:
                raise mismatch("k", merged.k, sketch.k)
            merged.merge(sketch)
        return cls(merged.serialize())

    @property
    def count(self) -> int:
        """The number of values."""
        return int(_read(self.sketch).n) if self.sketch else 0

    def quantiles(self, ranks: Sequence[float]) -> list[float]:
        """Return, for each rank, the smallest value that at least this share of values do not exceed."""
        sketch = _read(self.sketch)
        ends = {
            0.0: sketch.get_min_value,
            1.0: sketch.get_max_value,
        }  # kept exactly, beside the rest
        return [
            float(ends[rank]() if rank in ends else sketch.get_quantile(rank, inclusive=True))
            for rank in ranks
        ]

    def kept(self) -> Iterator[tuple[float, int]]:
        """Yield each value that is kept with the number of values that it stands for, in no order."""
        yield from _read(self.sketch) if self.sketch else ()

    def ranks_below(self, values: Sequence[float]) -> list[float]:
        """Return the share of values below each of some, for a sketch that holds any."""
        sketch = _read(self.sketch)
        return [float(sketch.get_rank(value, inclusive=False)) for value in values]

    def interval(self, rank: float) -> Interval:
        """Return the values between which the exact quantile lies."""
        error = self.rank_error()
        lower, upper = self.quantiles([max(rank - error, 0.0), min(rank + error, 1.0)])
        return Interval(lower, upper, CONFIDENCE)

    def rank_error(self) -> float:
        """Return the bound on the error of a rank, at 99 % confidence; 0 for no values."""
        return float(_read(self.sketch).normalized_rank_error(False)) if self.sketch else 0.0  # noqa: FBT003

    def agrees_with(self, other: Self) -> bool:
        """Whether count, least and greatest value are equal, and quartiles within both bounds."""
        if not self.sketch or not other.sketch:
            return self.sketch == other.sketch
        a, b = _read(self.sketch), _read(other.sketch)
        if (a.n, a.get_min_value(), a.get_max_value()) != (
            b.n,
            b.get_min_value(),
            b.get_max_value(),
        ):
            return False
        allowed = 2 * (self.rank_error() + other.rank_error())
        return all(
            other._spans(value, rank, allowed)
            for rank, value in zip(_QUARTILES, self.quantiles(_QUARTILES), strict=True)
        )

    def _spans(self, value: float, rank: float, allowed: float) -> bool:
        # A repeated value covers a span of ranks; the rank asked for need only touch it.
        sketch = _read(self.sketch)
        below = sketch.get_rank(value, inclusive=False)
        return bool(below - allowed <= rank <= sketch.get_rank(value, inclusive=True) + allowed)

    def pack(self) -> bytes:
        """Return the sketch's own bytes."""
        return self.sketch

    @classmethod
    def unpack(cls, payload: bytes) -> Self:
        """Read what `pack` wrote."""
        if payload:
            _read(payload)  # raises on damage
        return cls(payload)


_QUARTILES = (0.25, 0.5, 0.75)


def _read(sketch: bytes) -> kll_doubles_sketch:
    from datasketches import kll_doubles_sketch  # noqa: PLC0415 - heavy, and not needed to describe

    return kll_doubles_sketch.deserialize(bytes(sketch))


def kll_aggregation(doubles: str, k: int) -> str:
    """Return the aggregation that builds a sketch."""
    return f"kll_sketch_agg_double({doubles}, {k})"


def kll_statistic(column: str, k: int, where: str | None) -> str:
    """Return what a sketch is determined by."""
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
            """The bound on the error of a rank; a field in both."""

    @abstractmethod
    def asked(self) -> tuple[float, ...]:
        """Return the ranks asked for."""

    def statistic(self) -> str:
        """All quantiles of a column at one error come from one sketch."""
        return kll_statistic(self.column, sketch_size(self.relative_error), self.where)

    def check_parameters(self) -> None:
        """Ranks lie in [0, 1] and the error can be had."""
        if not self.asked() or not all(0 <= rank <= 1 for rank in self.asked()):
            msg = f"{self!r}: a quantile lies between 0 and 1"
            raise IllegalAnalyzerParameterError(msg)
        if not SMALLEST_ERROR <= self.relative_error <= 1:
            msg = f"{self!r}: relative_error lies between {SMALLEST_ERROR} and 1"
            raise IllegalAnalyzerParameterError(msg)

    def aggregations(self, schema: Schema) -> Sequence[str]:
        """Build the sketch."""
        return (kll_aggregation(self.doubles(schema), sketch_size(self.relative_error)),)

    def fold(self, cells: Sequence[Any]) -> KllState:
        """Take the sketch."""
        return KllState.of(cells[0])

    def weight(self, state: KllState) -> float:
        """Return the number of values."""
        return state.count


@analyzer
class ApproxQuantile(_QuantileAnalyzer[float]):
    """A quantile of a numeric column: the least value that at least that share does not exceed.

    Nulls and NaN are ignored; empty if there is nothing else. The rank of the answer is off by at
    most ``relative_error``, at 99 % confidence.

    Parameters
    ----------
    column : str
    quantile : float
        In [0, 1]; 0 is the minimum, 0.5 the median.
    relative_error : float
        Bound on the error of the rank; smaller ones take larger states.

    Examples
    --------
    >>> ApproxQuantile("delay", 0.5).name
    'ApproxQuantile-0.5'
    """

    quantile: float
    relative_error: float = 0.01

    @property
    def name(self) -> str:
        """The quantile is part of the name, as in Deequ."""
        return f"ApproxQuantile-{self.quantile}"

    def asked(self) -> tuple[float, ...]:
        """Return the one."""
        return (self.quantile,)

    def measure(self, state: KllState) -> float:
        """Ask the sketch."""
        if not state.sketch:
            raise self.no_data()
        return state.quantiles(self.asked())[0]

    def interval(self, state: KllState) -> Interval:
        """The values at the ranks that the error leaves possible."""
        return state.interval(self.quantile)


@analyzer
class ApproxQuantiles(_QuantileAnalyzer[Mapping[str, float]]):
    """Several quantiles of a numeric column from one sketch; see `ApproxQuantile`.

    Examples
    --------
    >>> ApproxQuantiles("delay", [0.25, 0.5]).quantiles
    (0.25, 0.5)
    """

    quantiles: tuple[float, ...]
    relative_error: float = 0.01

    def asked(self) -> tuple[float, ...]:
        """Return all."""
        return self.quantiles

    def measure(self, state: KllState) -> Mapping[str, float]:
        """Ask the sketch; the keys are the quantiles as text."""
        if not state.sketch:
            raise self.no_data()
        return dict(zip(map(str, self.quantiles), state.quantiles(self.quantiles), strict=True))

    def interval(self, state: KllState) -> Mapping[str, Interval]:
        """The values at the ranks that the error leaves possible, for each."""
        return {str(rank): state.interval(rank) for rank in self.quantiles}
