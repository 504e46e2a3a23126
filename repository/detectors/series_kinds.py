"""Scales on which series are compared, and properties of series that select how they are scored.

`Units` converts values of metrics to the scales on which they are compared, and back. Times are compared
with the start of their partitions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tidegauge.analyzers.core.metric import Scale
from tidegauge.repository.detectors.base import History
from tidegauge.repository.detectors.rules import counts_values
from tidegauge.repository.numerics.arrays import median
from tidegauge.repository.numerics.forecasts import (
    DEFAULT_RATIO_ROWS,
    ScaleRows,
    restore,
    rows_of,
    transform,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidegauge.repository.numerics.arrays import Floats


MIN_SIGN_SHARE = 0.95
"""A sum counts as having one sign if at least this share of its values has that sign."""
MAX_LOGARITHM = 700.0
"""The exponential of larger numbers overflows."""
TIME_STEPS = 7
"""The majority of this many most recent changes decides whether a time moves with its partitions or stays."""
MAX_SPREAD_RATIO = 3.0
"""A mature count's spread is at most this multiple of the observed one."""
DISTINCT_COUNTS = frozenset({"CountDistinct", "ApproxCountDistinct"})
"""Analyzers, and names of recorded metrics, that count distinct values."""
MAX_DISTINCT_SPREAD_RATIO = 2.0
"""`MAX_SPREAD_RATIO` of distinct values, which need not vary as much as Poisson counts."""
UNKNOWN_WEEK_SPREAD = 0.25
"""Assumed standard deviation of weekday effects, on the logarithmic scale, before the first week has passed."""


class Units:
    """Scales of a history's series. Times are measured from the start of their partition.

    A sum whose values nearly all have one sign grows in proportion to its rows, so it is compared as a
    count: by log(1 + |sum| / usual value per row), with the sign of the sum.

    Attributes
    ----------
    rows : ScaleRows
        The series of each scale.
    timed : array of int
        The series that are times.
    sums : array of int
        The series that are compared as counts of usual rows.
    stays : array of float, shape (series, partitions)
        The time, on the scale, if it stayed the same through most of the changes before a partition;
        else NaN. For example, the first date of a table that is copied completely every day stays.
    """

    def __init__(self, history: History) -> None:
        self.rows = ScaleRows.from_scales(history.scales)
        self.timed: NDArray[np.intp] = rows_of(Scale.TIME, history.scales)
        self.sums, self._per_row = _proportional_sums(history)
        seconds = history.times.astype("M8[s]").astype(float)
        self._began: Floats = np.where(np.isnat(history.times), 0, seconds)
        self.stays: Floats = np.full(history.values.shape, np.nan)
        for i in self.timed:
            self.stays[i] = _last_unmoved_time(history.values[i], self._began) - self._began

    def transformed(self, values: Floats, partitions: slice) -> Floats:
        """Return values of partitions on their scales."""
        if self.timed.size:
            values = values.copy()
            values[self.timed] -= self._began[partitions]
        on_scale = transform(values, self.rows)
        if self.sums.size:
            sums = on_scale[self.sums]
            on_scale[self.sums] = np.sign(sums) * np.log1p(np.abs(sums) / self._per_row)
        return on_scale

    def restored(self, values: Floats, t: int) -> Floats:
        """Return values of a partition in the metrics' units."""
        units = restore(values, self.rows)
        if self.sums.size:
            sums = units[self.sums]
            units[self.sums] = (
                np.sign(sums) * np.expm1(np.minimum(np.abs(sums), MAX_LOGARITHM)) * self._per_row
            )
        units[self.timed] += self._began[t]
        return units


def _proportional_sums(history: History) -> tuple[NDArray[np.intp], Floats]:
    """Return the series that are sums of one sign, and their usual value per row, of shape (series, 1).

    The value is rounded down to a power of ten, so that it does not depend on the number of partitions.
    """
    is_sum = np.zeros(len(history.values), dtype=bool)
    if history.series:
        is_sum |= ["Sum" in {row["kind"], row.get("name")} for row in history.series]
    is_sum &= [scale is Scale.SIGNED for scale in history.scales]
    rows = np.flatnonzero(is_sum)
    if not rows.size:
        return rows, np.empty((0, 1))
    values = history.values[rows]
    known = np.maximum((np.isfinite(values) & (values != 0)).sum(axis=1), 1)
    positive, negative = (values > 0).sum(axis=1), (values < 0).sum(axis=1)
    weights = np.where(history.weights[rows] > 0, history.weights[rows], DEFAULT_RATIO_ROWS)
    per_row = median(np.where(values != 0, np.abs(values) / weights, np.nan))
    has_sign = np.maximum(positive, negative) >= MIN_SIGN_SHARE * known
    selected = has_sign & np.isfinite(per_row) & (per_row > 0)
    return rows[selected], 10.0 ** np.floor(np.log10(per_row[selected, None]))


def _last_unmoved_time(values: Floats, began: Floats) -> Floats:
    """Return the last time before each partition; NaN where most times move with the partitions."""
    last_times = np.full(len(values), np.nan)
    known_indices = np.flatnonzero(np.isfinite(values))
    change = np.diff(values[known_indices])
    stayed = np.abs(change) < np.abs(change - np.diff(began[known_indices]))
    count = np.concatenate([[0], np.cumsum(stayed)])
    known_before = np.searchsorted(
        known_indices, np.arange(len(values))
    )  # number of known points before each
    last_change = np.maximum(known_before - 1, 0)  # number of changes before each
    first_change = np.maximum(last_change - TIME_STEPS, 0)
    mostly_stayed = 2 * (count[last_change] - count[first_change]) > last_change - first_change
    last_times[mostly_stayed] = values[known_indices[known_before[mostly_stayed] - 1]]
    return last_times


@dataclass(frozen=True)
class SeriesKinds:
    """Properties of the series that select how they are scored.

    Attributes
    ----------
    distances, counts : array of bool, shape (series,)
        Series that are distances, or counts.
    counts_of_values : array of bool, shape (series,)
        Series that count values instead of rows; also all series if their names are unknown.
    counts_rows : array of bool, shape (series,)
        Series that count rows.
    distinct_counts : array of int
        Indices of the series that count distinct values.
    max_spread_ratio : array of float, shape (series,)
        Largest ratio of the lower bound of the spread to the observed spread, for mature counts.
    shares : array of int
        Indices of the series that are shares of rows.
    are_heavy : array of bool, shape (series,)
        Series that can have heavy tails: positive numbers and extremes. Counts and shares of rows have tails of their own.
    extremes : array of int
        Indices of the series that a single row can move.
    unknown_week : array of float, shape (series,)
        Standard deviation of the effects of weekdays before the first week has passed.
    """

    distances: NDArray[np.bool_]
    counts: NDArray[np.bool_]
    counts_of_values: NDArray[np.bool_]
    counts_rows: NDArray[np.bool_]
    distinct_counts: NDArray[np.intp]
    max_spread_ratio: Floats
    shares: NDArray[np.intp]
    are_heavy: NDArray[np.bool_]
    extremes: NDArray[np.intp]
    unknown_week: Floats

    @classmethod
    def from_history(cls, history: History, sums: NDArray[np.intp]) -> SeriesKinds:
        """Return the properties of a history's series; ``sums`` are the indices of the sums of one sign."""
        scales = history.scales
        counts_of_values = np.ones(len(scales), dtype=bool)
        if history.series:
            counts_of_values &= [counts_values(row["kind"], row["name"]) for row in history.series]
        is_distinct_count = np.zeros(len(scales), dtype=bool)
        if history.series:
            is_distinct_count |= [
                not DISTINCT_COUNTS.isdisjoint((row["kind"], row.get("name")))
                for row in history.series
            ]
        is_extreme = np.zeros(len(scales), dtype=bool)
        if history.extremes is not None:
            is_extreme |= history.extremes
        is_count = np.array([scale is Scale.COUNT for scale in scales], dtype=bool)
        is_positive = np.array([scale is Scale.POSITIVE for scale in scales], dtype=bool)
        is_positive[sums] = True
        is_log = is_positive | is_count
        return cls(
            distances=np.array([scale is Scale.DISTANCE for scale in scales], dtype=bool),
            counts=is_count,
            counts_of_values=counts_of_values,
            counts_rows=is_count & ~counts_of_values,
            distinct_counts=np.flatnonzero(is_distinct_count),
            max_spread_ratio=np.where(
                is_distinct_count, MAX_DISTINCT_SPREAD_RATIO, MAX_SPREAD_RATIO
            ),
            shares=rows_of(Scale.RATIO, scales),
            are_heavy=is_positive | is_extreme,
            extremes=np.flatnonzero(is_extreme),
            unknown_week=np.where(is_log, UNKNOWN_WEEK_SPREAD, 0.0),
        )
