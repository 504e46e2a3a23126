"""Binned histograms: HistogramBinned from exact frequencies, KLLSketch from a quantile sketch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf, isfinite
from typing import Any, ClassVar

from tidegauge.analyzers.core.analyzer import AnyAnalyzer, ColumnAnalyzer, Sketch, analyzer
from tidegauge.analyzers.core.errors import IllegalAnalyzerParameterError, MetricRuntimeError
from tidegauge.analyzers.core.metric import Interval, Metric, Scale
from tidegauge.analyzers.core.registry import canonical_json
from tidegauge.analyzers.core.schema import Schema
from tidegauge.analyzers.core.state import State
from tidegauge.analyzers.measures.frequencies import COUNT, FrequenciesAndNumRows, GroupingAnalyzer
from tidegauge.analyzers.measures.quantiles import (
    MAX_K,
    MIN_K,
    RANK_CONFIDENCE,
    KllState,
    kll_statistic,
)


@dataclass(frozen=True, slots=True)
class Bin:
    """Half-open bin [``low``, ``high``); the last inner bin includes both ends.

    Attributes
    ----------
    low, high : float
        The bounds of the bin.
    absolute : float
        Number of values in the bin; an estimate if it comes from a sketch.
    ratio : float
        Share of all rows; of all sketched values for a KLLSketch.
    """

    low: float
    high: float
    absolute: float
    ratio: float


@dataclass(frozen=True)
class BinnedDistribution:
    """Value of a HistogramBinned metric.

    Attributes
    ----------
    bins : tuple of Bin
        In ascending order, without gaps.
    null_count, nan_count, out_of_range : int
        Numbers of rows in no bin.

    Examples
    --------
    >>> found = BinnedDistribution((Bin(0, 10, 3, 0.75), Bin(10, 20, 0, 0.0)), null_count=1)
    >>> found[0].absolute, len(found.bins), dict(found.scalars())["nullCount"]
    (3, 2, 1)
    """

    bins: tuple[Bin, ...]
    null_count: int = 0
    nan_count: int = 0
    out_of_range: int = 0

    def __getitem__(self, index: int) -> Bin:
        return self.bins[index]

    def scalars(self) -> Iterator[tuple[str, float]]:
        """Yield ``bins``, edges, count and share of each bin, and the counts of unbinned rows."""
        yield "bins", len(self.bins)
        for i, bin_ in enumerate(self.bins):
            yield f"low.bin{i}", bin_.low
            yield f"high.bin{i}", bin_.high
            yield f"abs.bin{i}", bin_.absolute
            yield f"ratio.bin{i}", bin_.ratio
        yield "nullCount", self.null_count
        if self.nan_count:
            yield "nanCount", self.nan_count
        if self.out_of_range:
            yield "outOfRange", self.out_of_range


HistogramBinnedMetric = Metric[BinnedDistribution]
FEWEST_EDGES, FEWEST_WITH_OVERFLOW = 2, 3


@analyzer
class HistogramBinned(GroupingAnalyzer[BinnedDistribution]):
    """Histogram of a numeric column; bins exclude their upper bound, except the last bin.

    Give either the number of bins, which have equal width from the smallest to the largest finite value, or
    the edges. With edges, the state has one count per bin. Without edges, it has every distinct value,
    because the bins of merged partitions differ from each partition's bins. A column with one value has one
    bin, and a column without finite values has none. Nulls, NaN and values beyond the edges are counted
    separately. Empty metric at zero rows.

    Parameters
    ----------
    column : str
        The column.
    bin_count : int
        Number of bins, including the two overflow bins; 0 if edges are given.
    custom_edges : sequence of float
        Two or more finite numbers, strictly increasing.
    include_overflow_bins : bool
        Add a bin below the first edge and one above the last.

    Examples
    --------
    >>> state = FrequenciesAndNumRows.from_groups([((1,), 3), ((4,), 1), ((5,), 2)])
    >>> metric = HistogramBinned("x", 2).compute_metric_from(state)
    >>> [(b.low, b.high, b.absolute) for b in metric.value.bins]
    [(1.0, 3.0, 3), (3.0, 5.0, 3)]
    """

    scale: ClassVar[Scale] = Scale.COUNT

    column: str
    bin_count: int = 0
    custom_edges: tuple[float, ...] = ()
    include_overflow_bins: bool = False

    @property
    def grouping_columns(self) -> tuple[str, ...]:
        """The column to group by."""
        return (self.column,)

    def scale_of(self, metric_name: str) -> Scale:
        """Return the ratio scale for shares, signed for edges, count otherwise."""
        kind = metric_name.partition(".")[2].partition(".")[0]
        return {"ratio": Scale.RATIO, "low": Scale.SIGNED, "high": Scale.SIGNED}.get(
            kind, Scale.COUNT
        )

    def check_parameters(self) -> None:
        """Require either a number of bins or strictly increasing, finite edges."""
        edges = self.custom_edges
        if bool(edges) == bool(self.bin_count):
            msg = f"{self!r}: give either bin_count, at least 1, or custom_edges"
            raise IllegalAnalyzerParameterError(msg)
        rising = all(a < b for a, b in pairwise(edges))
        if edges and (len(edges) < FEWEST_EDGES or not rising or not all(map(isfinite, edges))):
            msg = f"{self!r}: custom_edges must be at least two finite numbers in increasing order"
            raise IllegalAnalyzerParameterError(msg)
        fewest = FEWEST_WITH_OVERFLOW if self.include_overflow_bins else 1
        if not edges and self.bin_count < fewest:
            msg = f"{self!r}: bin_count must be at least {fewest}"
            raise IllegalAnalyzerParameterError(msg)

    def check_schema(self, schema: Schema) -> None:
        """Require a numeric column."""
        schema.numeric(self.column)

    def statistic(self) -> str:
        """Return the statistic key; without edges, the key of the column's frequencies."""
        if not self.custom_edges:
            return super().statistic()
        return canonical_json(
            {
                "state": "frequencies",
                "columns": [self.column],
                "edges": list(self.custom_edges),
                "where": self.where,
            }
        )

    def grouping_expressions(self, schema: Schema) -> tuple[str, ...]:
        """Return the expression to group by: the value, or its bin number if edges are given.

        With n edges: -1 below the first, 0 to n - 2 for the bins, n - 1 above the last, n for NaN.
        """
        sql = schema.numeric(self.column).sql
        if not self.custom_edges:
            return (sql,)
        value = f"CAST({sql} AS DOUBLE)"
        n = len(self.custom_edges)
        tests = [
            f"WHEN {sql} IS NULL THEN NULL",
            f"WHEN isnan({value}) THEN {n}",
            *(f"WHEN {value} < {edge!r}D THEN {i - 1}" for i, edge in enumerate(self.custom_edges)),
            f"WHEN {value} = {self.custom_edges[-1]!r}D THEN {n - 2}",
        ]
        return (f"CASE {' '.join(tests)} ELSE {n - 1} END",)

    def measure(self, state: FrequenciesAndNumRows) -> BinnedDistribution:
        """Count the values in each bin."""
        if not self.weight(state):
            raise self.no_data()
        placed = self._placed(state) if self.custom_edges else self._binned(state)
        edges, counts, below, above, nan = placed
        rows = self.weight(state)
        if self.include_overflow_bins and counts:
            edges, counts = [-inf, *edges, inf], [below, *counts, above]
            below = above = 0
        bins = tuple(
            Bin(low, high, count, count / rows)
            for (low, high), count in zip(pairwise(edges), counts, strict=True)
        )
        return BinnedDistribution(bins, state.num_nulls, nan, below + above)

    def _placed(self, state: FrequenciesAndNumRows) -> _Placed:
        count_by_place = {int(number): count for (number,), count in state.groups()}
        n = len(self.custom_edges)
        counts = [count_by_place.get(i, 0) for i in range(n - 1)]
        edges = list(self.custom_edges)
        return (
            edges,
            counts,
            count_by_place.get(-1, 0),
            count_by_place.get(n - 1, 0),
            count_by_place.get(n, 0),
        )

    def _binned(self, state: FrequenciesAndNumRows) -> _Placed:
        import numpy as np

        if not state.num_rows:
            return [], [], 0, 0, 0
        values = state.frequencies["0"].cast("float64", safe=False).to_numpy()
        counts = state.frequencies[COUNT].to_numpy()
        finite = np.isfinite(values)
        nan = int(counts[np.isnan(values)].sum())
        below, above = (int(counts[values == end].sum()) for end in (-inf, inf))
        if not finite.any():
            return [], [], below, above, nan
        low, high = float(values[finite].min()), float(values[finite].max())
        number = self.bin_count - 2 * self.include_overflow_bins
        check_width(self, low, high)
        if low == high:
            return [low, high], [int(counts[finite].sum())], below, above, nan
        edges = np.linspace(low, high, number + 1)
        bin_counts, _ = np.histogram(values[finite], bins=edges, weights=counts[finite])
        return edges.tolist(), bin_counts.astype(int).tolist(), below, above, nan

    def weight(self, state: FrequenciesAndNumRows) -> float:
        """Return the number of rows, nulls included."""
        return state.num_rows + state.num_nulls


def check_width(analyzer: AnyAnalyzer, low: float, high: float) -> None:
    """Raise `MetricRuntimeError` if the width of a range is not a finite number."""
    if not isfinite(high - low):
        msg = f"{analyzer!r}: cannot make bins of equal width from {low} to {high}"
        raise MetricRuntimeError(msg)


_Placed = tuple[list[float], list[int], int, int, int]


@dataclass(frozen=True)
class BucketDistribution:
    """Value of a KLLSketch metric.

    Attributes
    ----------
    buckets : tuple of Bin
        The bins, of equal width, from the smallest to the largest value.
    rank_error : float
        A bucket's count is off by at most twice this share of all values, at 99% confidence.
    state : KllState
        The sketch that they were computed from.

    Examples
    --------
    >>> found = BucketDistribution((Bin(0, 5, 2, 0.5), Bin(5, 10, 2, 0.5)), rank_error=0.01)
    >>> [(bucket.low, bucket.high, bucket.absolute) for bucket in found.buckets]
    [(0, 5, 2), (5, 10, 2)]
    """

    buckets: tuple[Bin, ...]
    rank_error: float
    state: KllState = field(default=KllState(), repr=False, compare=False)

    def __getitem__(self, index: int) -> Bin:
        return self.buckets[index]

    def percentiles(self) -> list[float]:
        """Return the 1st to the 100th percentile, from the sketch; Deequ's ``computePercentiles``."""
        return self.state.quantiles([rank / 100 for rank in range(1, 101)])

    def scalars(self) -> Iterator[tuple[str, float]]:
        """Yield ``buckets``, then the edges and count of each bucket by its index."""
        yield "buckets", len(self.buckets)
        for i, bucket in enumerate(self.buckets):
            yield f"low.{i}", bucket.low
            yield f"high.{i}", bucket.high
            yield f"count.{i}", bucket.absolute


KLLMetric = Metric[BucketDistribution]
MAX_BUCKETS = 100


@analyzer
class KLLSketch(ColumnAnalyzer[KllState, BucketDistribution]):
    """Histogram of a numeric column in equal-width buckets, estimated from a KLL quantile sketch.

    As in Deequ, its metric is named KLL. Nulls and NaN are ignored; empty metric if there are
    no other values. An infinite value is an error, because equal widths are then undefined. It shares its
    sketch with an `ApproxQuantile` of the same size.

    Parameters
    ----------
    column : str
        The column.
    sketch_size : int
        The sketch parameter k, 8 to 65535; the rank error is about 2.3 / k ** 0.97.
    number_of_buckets : int
        1 to 100.

    Examples
    --------
    >>> KLLSketch("delay", number_of_buckets=10).name
    'KLL'
    """

    scale: ClassVar[Scale] = Scale.COUNT
    state_type: ClassVar[type[State]] = KllState
    state_bytes: ClassVar[int] = 1 << 16
    accepts: ClassVar[str] = "numeric"

    sketch_size: int = 2048
    number_of_buckets: int = MAX_BUCKETS

    @property
    def name(self) -> str:
        """Deequ's name of the metric."""
        return "KLL"

    def scale_of(self, metric_name: str) -> Scale:
        """Return the signed scale for edges, count otherwise."""
        return Scale.SIGNED if ".low." in metric_name or ".high." in metric_name else Scale.COUNT

    def check_parameters(self) -> None:
        """Require a valid sketch size and number of buckets."""
        if not MIN_K <= self.sketch_size <= MAX_K:
            msg = f"{self!r}: sketch_size must be between {MIN_K} and {MAX_K}"
            raise IllegalAnalyzerParameterError(msg)
        if not 1 <= self.number_of_buckets <= MAX_BUCKETS:
            msg = f"{self!r}: number_of_buckets must be between 1 and {MAX_BUCKETS}"
            raise IllegalAnalyzerParameterError(msg)

    def statistic(self) -> str:
        """Return the statistic key of the sketch."""
        return kll_statistic(self.column, self.sketch_size, self.where)

    def aggregations(self, schema: Schema) -> Sequence[Sketch]:
        """Return the sketch."""
        return (Sketch("kll", self.doubles(schema), self.sketch_size),)

    def fold(self, cells: Sequence[Any]) -> KllState:
        """Return the state of the sketch."""
        return KllState.from_sketches(cells[0])

    def measure(self, state: KllState) -> BucketDistribution:
        """Compute the bucket counts from the ranks of the edges."""
        if not state.sketch:
            raise self.no_data()
        low, high = state.quantiles([0.0, 1.0])
        check_width(self, low, high)
        number = self.number_of_buckets if low < high else 1
        edges = [low + (high - low) * i / number for i in range(number)] + [high]
        # Values strictly below each edge, and all at the last edge, which the last bucket includes.
        below = [round(rank * state.count) for rank in state.ranks_below(edges[:-1])]
        counts = [b - a for a, b in pairwise([*below, state.count])]
        buckets = tuple(
            Bin(low, high, count, count / state.count)
            for (low, high), count in zip(pairwise(edges), counts, strict=True)
        )
        return BucketDistribution(buckets, state.rank_error(), state)

    def interval(self, state: KllState) -> Mapping[str, Interval]:
        """Return the bounds of each count: twice the rank error on either side."""
        distribution = self.measure(state)
        error = 2 * distribution.rank_error * state.count
        return {
            f"count.{i}": Interval(
                max(b.absolute - error, 0.0), b.absolute + error, RANK_CONFIDENCE
            )
            for i, b in enumerate(distribution.buckets)
        }
