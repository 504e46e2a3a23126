"""Statistics of arrays: medians and quantiles of many short rows, and of the points before each point.

All other numerical routines use this module, its array types and its limits. Medians and quantiles
ignore NaN. Running statistics of the points before each point are moments (`RunningMoments`), medians of
absolute values, and distances to the nearest point. For these, ``values`` are finite, and
``training_values`` are the values that later points are compared with: NaN for points that are excluded
from training.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tidegauge.repository.numerics.grid import DAY_SECONDS, HOUR_SECONDS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

MAX_SCORE = 300.0
"""The highest score, near -log10 of the smallest p-value that a double can represent."""


def zero_if_nan(values: Floats) -> Floats:
    """Replace NaN by 0; `numpy.nan_to_num` takes four times as long on short arrays.

    Examples
    --------
    >>> zero_if_nan(np.array([1.0, np.nan, np.inf]))
    array([ 1.,  0., inf])
    """
    filled: Floats = np.where(np.isnan(values), 0.0, values)
    return filled


def median(values: Floats) -> Floats:
    """Return the median along the last axis, ignoring NaN; NaN if all values are."""
    return quantile(values, 0.5)


def quantile(values: Floats, q: float) -> Floats:
    """Return a quantile along the last axis, ignoring NaN, by linear interpolation."""
    return quantiles(values, (q,))[0]


def quantiles(values: Floats, qs: tuple[float, ...]) -> list[Floats]:
    """Return several quantiles along the last axis, as `quantile` does."""
    if values.shape[-1] == 0:
        return [np.full(values.shape[:-1], np.nan) for _ in qs]
    ordered = np.sort(values, axis=-1)  # NaN sorts last
    last = np.maximum((~np.isnan(values)).sum(axis=-1) - 1, 0)
    result = []
    for q in qs:
        position = last * q
        low = np.floor(position).astype(np.intp)
        high = np.ceil(position).astype(np.intp)
        a, b = (_take(ordered, index[..., None])[..., 0] for index in (low, high))
        result.append(a + (b - a) * (position - low))
    return result


def normal_deviation(median_size: Floats, high_size: Floats) -> Floats:
    """Return the standard deviation of normal errors by the median and the 90% quantile of their sizes.

    The larger estimate counts, because heavy tails begin at the quantile.

    Examples
    --------
    >>> sizes = np.abs(np.random.default_rng(1).normal(size=(1, 10_000)))
    >>> normal_deviation(*quantiles(sizes, (0.5, 0.9))).round(1).tolist()
    [1.0]
    """
    deviation: Floats = np.fmax(1.4826 * median_size, high_size / 1.645)
    return deviation


def _take(values: Floats, indices: NDArray[np.intp]) -> Floats:
    """Return `numpy.take_along_axis` of the last axis; numpy's own indexing is slow on short rows."""
    shape = values.shape[:-1]
    row_starts = np.arange(math.prod(shape)).reshape(*shape, 1) * values.shape[-1]
    result: Floats = values.reshape(-1)[row_starts + indices]
    return result


def row_sums(values: Floats) -> Floats:
    """Return the sum of each row, over all axes but the first, added from left to right.

    `numpy.sum` adds in an order that depends on the shape and the layout in memory, and so does its rounding. Here
    neither other rows nor additional zeros change a sum, so series have the same scores alone and together.

    Examples
    --------
    >>> row_sums(np.arange(12.0).reshape(2, 3, 2)).tolist()
    [15.0, 51.0]
    """
    if not values.size:
        return np.zeros(len(values))
    rows = values.reshape(len(values), -1)
    sums: Floats = np.add.accumulate(rows, axis=1)[:, -1]
    return sums


def running_medians(values: Floats, lengths: Sequence[int]) -> list[Floats]:
    """Return running medians of 1, 3, 7 or 21 values along the last axis, at each window's end.

    The median of 21 is the median of three medians of seven (the remedian of Rousseeuw and Bassett 1990).
    Incomplete windows at the start and windows that contain NaN are NaN.
    """
    medians = {1: values}
    if values.shape[-1] >= 3:
        triples = _sorted_triples(values, 1)
        medians[3] = triples[1]
    if values.shape[-1] >= 7:
        medians[7] = _running_seven(values, triples)
    if values.shape[-1] >= 21:
        medians[21] = _sorted_triples(medians[7], 7)[1]
    result = []
    for length in lengths:
        padded = np.full(values.shape, np.nan)
        if length in medians:
            padded[..., length - 1 :] = medians[length]
        result.append(padded)
    return result


def newest(values: Floats, length: int) -> Floats:
    """Return the last running median of 7 or 21 values along the last axis, as `running_medians` does.

    Examples
    --------
    >>> rows = np.random.default_rng(1).normal(size=(2, 30))
    >>> windows = running_medians(rows, (7, 21))
    >>> [bool((newest(rows, n) == w[:, -1]).all()) for n, w in zip((7, 21), windows)]
    [True, True]
    """
    ends = range(values.shape[-1] - length + 7, values.shape[-1] + 1, 7)
    weeks = [median_of_seven([values[..., end - 7 + i] for i in range(7)]) for end in ends]
    return weeks[0] if length == 7 else _sorted_three(*weeks)[1]


def _sorted_triples(values: Floats, step: int) -> list[Floats]:
    """Return three values of each window of 2 * ``step`` + 1, ``step`` apart, in ascending order."""
    return _sorted_three(values[..., : -2 * step], values[..., step:-step], values[..., 2 * step :])


def _running_seven(values: Floats, triples: Sequence[Floats]) -> Floats:
    """Return the medians of each window of seven values, given the sorted windows of three."""
    first_triples, last_triples = (
        [rank[..., :-4] for rank in triples],
        [rank[..., 4:] for rank in triples],
    )
    return _middle_of_sorted(first_triples, values[..., 3:-3], last_triples)


def median_of_seven(parts: list[Floats]) -> Floats:
    """Return the entrywise medians of seven arrays; NaN if any entry is NaN."""
    return _middle_of_sorted(_sorted_three(*parts[:3]), parts[3], _sorted_three(*parts[4:]))


def _sorted_three(a: Floats, b: Floats, c: Floats) -> list[Floats]:
    """Sort the entries of three arrays in ascending order; all are NaN if any entry is NaN."""
    low, high = np.minimum(a, b), np.maximum(a, b)
    between = np.maximum(low, c)
    return [np.minimum(low, c), np.minimum(between, high), np.maximum(between, high)]


def _middle_of_sorted(a: Sequence[Floats], single: Floats, b: Sequence[Floats]) -> Floats:
    """Return the medians of seven arrays: two sorted triples and a single array.

    The median is the single value, limited to the third and fourth smallest of the six sorted values.
    """
    third = np.maximum(a[0], b[1])
    for candidate in (np.maximum(a[1], b[0]), a[2], b[2]):
        np.minimum(third, candidate, out=third)
    fourth = np.minimum(a[2], b[1])
    for candidate in (np.minimum(a[1], b[2]), a[0], b[0]):
        np.maximum(fourth, candidate, out=fourth)
    np.minimum(fourth, single, out=fourth)
    return np.maximum(third, fourth, out=third)


def middle_mean(values: Floats) -> Floats:
    """Return the mean of the middle half along the last axis, ignoring NaN; NaN if all values are.

    It varies less than the median, and outliers among the lowest and highest quarter cannot move it far. The quarters
    are rounded, so the middle of three values is their median.

    Examples
    --------
    >>> middle_mean(np.array([[1.0, 2.0, 3.0, 4.0, 900.0], [5.0, np.nan, np.nan, np.nan, 7.0]])).tolist()
    [3.0, 6.0]
    """
    ordered = np.sort(values, axis=-1)  # NaN sorts last
    count = (~np.isnan(values)).sum(axis=-1, keepdims=True)
    cut, ranks = (count + 1) // 4, np.arange(values.shape[-1])
    is_middle = (ranks >= cut) & (ranks < count - cut)
    rows = np.where(is_middle, ordered, 0).reshape(count.size, values.shape[-1])
    total, number = row_sums(rows).reshape(count.shape[:-1]), (count - 2 * cut)[..., 0]
    return np.where(number > 0, total / np.maximum(number, 1), np.nan)


def forward_fill(values: Floats) -> Floats:
    """Forward-fill NaN along the last axis; NaN before the first number remains."""
    is_gap = np.isnan(values)
    has_gaps = is_gap.any(axis=-1)
    sources = np.where(is_gap[has_gaps], 0, np.arange(values.shape[-1]))
    np.maximum.accumulate(sources, axis=-1, out=sources)
    filled = values.copy()
    filled[has_gaps] = _take(values[has_gaps], sources)
    return filled


MIN_Z_POINTS = 14
"""With fewer earlier points, z-scores are 0."""
EQUALITY_TOLERANCE = 1e-9
"""Numbers are equal if their relative difference is smaller."""


@dataclass
class RunningMoments:
    """Running count, mean and standard deviation of the known values before each point."""

    count: Floats
    mean: Floats
    sd: Floats

    @classmethod
    def from_values(cls, values: Floats) -> RunningMoments:
        """Compute the statistics of a series; NaN is unknown.

        Examples
        --------
        >>> past = RunningMoments.from_values(np.array([1.0, 3.0, np.nan, 5.0]))
        >>> past.count, past.mean, past.sd
        (array([0., 1., 2., 2.]), array([1., 1., 2., 2.]), array([0., 0., 1., 1.]))
        """
        is_known = ~np.isnan(values)
        first = values[np.argmax(is_known)] if is_known.any() else 0.0
        centred = np.where(
            is_known, values - first, 0.0
        )  # squares of large, nearly equal numbers would cancel
        count, total, squares = (
            np.concatenate([[0.0], np.cumsum(x)[:-1]])
            for x in (is_known, centred, centred * centred)
        )
        mean = total / np.maximum(count, 1)
        variance = squares / np.maximum(count, 1) - mean * mean
        return cls(count, mean + first, np.sqrt(np.maximum(variance, 0.0)))

    def z(self, distance: Floats, unit: Floats) -> Floats:
        """Return the one-sided z-score of distances; 0 with fewer than `MIN_Z_POINTS` earlier values.

        If the earlier standard deviation is negligible compared with ``unit``, z is the square root of
        the number of earlier values. It is 0 if the excess over the mean is negligible.
        """
        excess = np.maximum(distance - self.mean, 0.0)
        z = np.where(self.sd > EQUALITY_TOLERANCE * unit, excess / self.sd, np.sqrt(self.count))
        return np.where((self.count >= MIN_Z_POINTS) & (excess > EQUALITY_TOLERANCE * unit), z, 0.0)


def running_absolute_medians(training_values: Floats, prefix: int) -> Floats:
    """Return running medians of the earlier absolute values, at most the first `prefix`; 0 if there are none.

    Examples
    --------
    >>> running_absolute_medians(np.array([1.0, -3.0, np.nan, 5.0, 7.0]), 3)
    array([0., 1., 2., 2., 3.])
    """
    medians: list[float] = []
    ordered: list[float] = []
    middle = 0.0
    for x in np.abs(training_values).tolist():
        medians.append(middle)
        if len(ordered) < prefix and x == x:  # noqa: PLR0124 - that is, not NaN
            insort(ordered, x)
            middle = (ordered[len(ordered) // 2] + ordered[(len(ordered) - 1) // 2]) / 2
    return np.array(medians)


SAME_TIME_SECONDS = 2 * HOUR_SECONDS
"""Times of a cycle within this tolerance are the same."""
BLOCK_POINTS = 4096
"""Number of points compared at once; they fit the processor cache."""
MAX_SIDE_POINTS = 25
"""Maximum number of points per cycle compared before, and after, the same time."""


def neighbours(values: Floats, training_values: Floats, lag: int = 1) -> tuple[Floats, Floats]:
    """Return the nearest lower and higher values among points at least `lag` earlier.

    An equal value counts as higher. The search bisects a sorted list, so it costs O(log n) per point.

    Parameters
    ----------
    values, training_values : array of float, shape (points,)
    lag : int

    Returns
    -------
    below, above : array of float, shape (points,)
        NaN if no such value exists.

    Examples
    --------
    >>> x = np.array([3.0, 1.0, 2.0, 3.0])
    >>> neighbours(x, x)
    (array([nan, nan,  1.,  2.]), array([nan,  3.,  3.,  3.]))
    """
    below, above = [np.nan] * len(values), [np.nan] * len(values)
    ordered: list[float] = []
    training_list = training_values.tolist()
    for i, x in enumerate(values.tolist()):
        if i >= lag and training_list[i - lag] == training_list[i - lag]:
            ordered.insert(bisect_left(ordered, training_list[i - lag]), training_list[i - lag])
        index = bisect_left(ordered, x)
        if index:
            below[i] = ordered[index - 1]
        if index < len(ordered):
            above[i] = ordered[index]
    return np.array(below), np.array(above)


def nearest_run(
    values: Floats, training_values: Floats, size: int = 3, lag: int = 3, horizon: int = 4000
) -> Floats:
    """Return the Euclidean distance of the last `size` values to the nearest earlier run.

    Parameters
    ----------
    values, training_values : array of float, shape (points,)
    size : int
        Length of a run, at least 2.
    lag, horizon : int
        Minimum and maximum distance, in points, between the ends of the two runs.

    Returns
    -------
    array of float, shape (points,)
        NaN without an earlier run.

    Examples
    --------
    >>> x = np.array([1.0, 2, 3, 1, 2, 7])
    >>> nearest_run(x, x)
    array([nan, nan, nan, nan, nan,  4.])
    """
    n = len(values)
    best = np.full(n, np.inf)
    for start in range(size - 1, n, BLOCK_POINTS):
        end = min(start + BLOCK_POINTS, n)
        for distance in range(lag, min(horizon, end - size) + 1):
            first = max(
                start, distance + size - 1
            )  # the first point with a complete run so far back
            if first >= end:
                break
            gap = (
                values[first - size + 1 : end]
                - training_values[first - size + 1 - distance : end - distance]
            )
            gap *= gap
            m = end - first
            total = gap[:m] + gap[1 : m + 1]
            for k in range(2, size):
                total += gap[k : k + m]
            np.fmin(best[first:end], total, out=best[first:end])
    return np.where(np.isfinite(best), np.sqrt(best), np.nan)


class Cycle(NamedTuple):
    """Length of a cycle in seconds, number of cycles compared, and minimum number of points."""

    seconds: int
    cycles: int
    min_points: int


DAILY_CYCLE, WEEKLY_CYCLE = Cycle(DAY_SECONDS, 10, 12), Cycle(7 * DAY_SECONDS, 26, 3)


@dataclass(frozen=True)
class SeasonalRanges:
    """Index ranges of the points at the same time of earlier days, or on the same weekday.

    Attributes
    ----------
    low, high : array of int, shape (cycles, points)
        First index in each cycle, and last index plus 1.
    min_points : int
        Minimum number of points to compare with.
    """

    low: NDArray[np.intp]
    high: NDArray[np.intp]
    min_points: int

    @classmethod
    def from_times(cls, times: NDArray[np.datetime64], cycle: Cycle) -> SeasonalRanges:
        """Find the ranges in the last cycles, from sorted times.

        A missing or decreasing time counts as the latest time before it.

        Parameters
        ----------
        times : array of datetime64[s], shape (points,)
        cycle : Cycle
        """
        unix_seconds = times.astype("M8[s]").astype(np.int64)
        seconds = np.maximum.accumulate(unix_seconds).astype(np.float64)
        same = seconds - cycle.seconds * np.arange(1, cycle.cycles + 1)[:, None]
        middle = np.searchsorted(seconds, same)
        low = np.maximum(
            np.searchsorted(seconds, same - SAME_TIME_SECONDS), middle - MAX_SIDE_POINTS
        )
        high = np.minimum(
            np.searchsorted(seconds, same + SAME_TIME_SECONDS, side="right"),
            middle + MAX_SIDE_POINTS,
        )
        return cls(low, np.maximum(low, np.minimum(high, np.arange(len(times)))), cycle.min_points)

    def nearest(self, values: Floats, training_values: Floats) -> Floats:
        """Return the distance of each value to the nearest of its comparable points; NaN if there are too few."""
        best = np.full(len(values), np.inf)
        known_before = np.concatenate([[0], np.cumsum(~np.isnan(training_values))])
        count = (known_before[self.high] - known_before[self.low]).sum(axis=0)
        for low, high in zip(self.low, self.high, strict=True):
            for k in range(int((high - low).max(initial=0))):
                index = low + k
                gap = np.abs(values - training_values[np.minimum(index, len(values) - 1)])
                np.fmin(best, gap, out=best, where=index < high)
        return np.where(count >= self.min_points, best, np.nan)

    def comparable_values(self, i: int, training_values: Floats) -> Floats:
        """Return the known values that point ``i`` is compared with."""
        parts = [training_values[a:b] for a, b in zip(self.low[:, i], self.high[:, i], strict=True)]
        values = np.concatenate(parts)
        return values[~np.isnan(values)]
