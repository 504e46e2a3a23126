"""Forecasts of many series at once: scales, seasonal effects, robust one-step forecasts, Holt-Winters.

Values are first transformed by the scale of their metric (`transform`). The transforms stabilize the
variance, so deviations are comparable at any level.

A season (`Season`) divides time into recurring slots: the hours of a day, of a week, or the days of a
week. A slot's occurrences are stored as deviations from the mean of the cycle around them. The effect of a
slot is the mean of their middle half. Occurrences that alarmed count only if the newest occurrences agree: a surprise is
expected after it has been repeated.

`forecast` predicts the next point robustly from the past: season, level and spread. All values are
on the transformed scale. The past is an array of shape (series, memory), the newest point last; gaps and points excluded from training are NaN.

`holt_winters_forecasts` is additive Holt-Winters exponential smoothing, ETS(A,A,A), of series with
gaps. For a forecast error e, the level is updated by alpha e, the trend by alpha beta e and the
seasonal component by gamma e. A gap has no error, so level and trend are extrapolated through it. See Hyndman
and Athanasopoulos, Forecasting: principles and practice, chapter 8.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from tidegauge.analyzers.core.metric import Scale
from tidegauge.repository.numerics.arrays import (
    forward_fill,
    median,
    middle_mean,
    normal_deviation,
    quantiles,
    row_sums,
    running_medians,
    zero_if_nan,
)
from tidegauge.repository.numerics.grid import DAYS_PER_WEEK, MONTHS_PER_YEAR, WEEKS_PER_YEAR

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidegauge.repository.numerics.arrays import Floats


MIN_COUNT_SPREAD, MIN_RATIO_SPREAD, MIN_LOG_SPREAD = 0.005, 0.0025, 0.01
MIN_POSITIVE = 1e-12
"""Smaller positive numbers, including 0, count as this number."""
DEFAULT_RATIO_ROWS = 1000.0
"""Row count of ratios whose row count is unknown."""


class ScaleRows(dict[Scale, "NDArray[np.intp] | slice"]):
    """Rows of the series of each scale; a slice of all rows if all series have the same scale.

    Pass it instead of the scales to transform values of the same series repeatedly.

    Examples
    --------
    >>> rows = ScaleRows.from_scales([Scale.COUNT, Scale.RATIO, Scale.COUNT])
    >>> rows[Scale.COUNT].tolist()
    [0, 2]
    """

    @classmethod
    def from_scales(cls, scales: Sequence[Scale] | ScaleRows) -> ScaleRows:
        """Return the rows by scale; the argument itself if it is a `ScaleRows`."""
        if isinstance(scales, ScaleRows):
            return scales
        distinct = list(dict.fromkeys(scales))
        if len(distinct) == 1:
            return cls({distinct[0]: slice(None)})
        return cls({scale: rows_of(scale, scales) for scale in distinct})


def transform(values: Floats, scales: Sequence[Scale] | ScaleRows) -> Floats:
    """Apply the variance-stabilizing transform of each series' scale.

    Counts: log(1 + x). Ratios: arcsin(sqrt(x)), under which a share of n rows has the standard
    deviation 1 / (2 sqrt(n)) at any level. Positive numbers: log x. Distances: sqrt(x). Values of other
    scales are unchanged. Non-finite values become NaN.

    Parameters
    ----------
    values : array of float, shape (series, points)
    scales : sequence of Scale, one for each series, or ScaleRows
    """
    return _apply(np.where(np.isfinite(values), values, np.nan), scales, _TRANSFORMS_BY_SCALE)


def restore(values: Floats, scales: Sequence[Scale] | ScaleRows) -> Floats:
    """Undo `transform`."""
    return _apply(values, scales, _INVERSES_BY_SCALE)


def min_spread_of(level: Floats, weights: Floats, scales: Sequence[Scale] | ScaleRows) -> Floats:
    """Return a lower bound of the standard deviation, on the transformed scale.

    Counts n: 1 / sqrt(n), at least 0.005. Shares of n rows: 1 / (2 sqrt(n)), at least 0.0025; n is
    `DEFAULT_RATIO_ROWS` if unknown. Positive numbers and distances: 0.01. Signed numbers: 0, no bound.

    Parameters
    ----------
    level : array of float, shape (series,)
        Expected value, on the transformed scale.
    weights : array of float, shape (series,)
        Number of rows that the value summarizes; NaN if unknown.
    scales : sequence of Scale, one for each series, or ScaleRows
    """
    spread = np.zeros(len(level))
    for scale, rows in ScaleRows.from_scales(scales).items():
        if scale is Scale.COUNT:
            count = np.expm1(np.clip(zero_if_nan(level[rows]), 0, 700))
            spread[rows] = np.maximum(1 / np.sqrt(np.maximum(count, 1.0)), MIN_COUNT_SPREAD)
        elif scale is Scale.RATIO:
            row_counts = np.where(weights[rows] > 0, weights[rows], DEFAULT_RATIO_ROWS)
            spread[rows] = np.maximum(0.5 / np.sqrt(row_counts), MIN_RATIO_SPREAD)
        elif scale in {Scale.POSITIVE, Scale.DISTANCE}:
            spread[rows] = MIN_LOG_SPREAD
    return spread


def rows_of(scale: Scale, scales: Sequence[Scale]) -> NDArray[np.intp]:
    """Return the indices of the series of one scale."""
    return np.flatnonzero([series_scale is scale for series_scale in scales])


def _apply(
    values: Floats,
    scales: Sequence[Scale] | ScaleRows,
    functions: dict[Scale, Callable[[Floats], Floats]],
) -> Floats:
    result = values.copy()
    for scale, rows in ScaleRows.from_scales(scales).items():
        if scale in functions:
            result[rows] = functions[scale](values[rows])
    return result


def _positive(y: Floats) -> Floats:
    """Return positive numbers from their logarithms; 0 for numbers near `MIN_POSITIVE`."""
    return np.where(y < np.log(2 * MIN_POSITIVE), 0.0, np.exp(np.minimum(y, 709)))


_TRANSFORMS_BY_SCALE: dict[Scale, Callable[[Floats], Floats]] = {
    Scale.COUNT: lambda x: np.log1p(np.maximum(x, 0)),
    Scale.RATIO: lambda x: np.arcsin(np.sqrt(np.clip(x, 0, 1))),
    Scale.POSITIVE: lambda x: np.log(np.maximum(x, MIN_POSITIVE)),
    Scale.DISTANCE: lambda x: np.sqrt(np.maximum(x, 0)),
}
_INVERSES_BY_SCALE: dict[Scale, Callable[[Floats], Floats]] = {
    Scale.COUNT: lambda y: np.maximum(np.expm1(np.minimum(y, 709)), 0),
    Scale.RATIO: lambda y: np.square(np.sin(np.clip(y, 0, np.pi / 2))),
    Scale.POSITIVE: _positive,
    Scale.DISTANCE: lambda y: np.square(np.clip(y, 0, 1e154)),
}


MAX_OCCURRENCES, MAX_WEEKDAY_OCCURRENCES = 6, 12
"""Number of stored occurrences of each slot, and of slots of cycles of at most seven points, such as weekdays.

Losses of 10% and 20%, planted on 24 days of the demonstration's row counts, are found on .04 and .83 of the days with six
occurrences of a weekday and their median, and on .25 and .96 with twelve and the mean of their middle half.
"""
MIN_REPETITIONS = 2
"""At least this many newest occurrences must agree if they alarmed, or if they are the only occurrences."""
AGREEMENT_TOLERANCE = 0.6
"""Repeated occurrences agree if their difference is at most this share of their size."""
NEIGHBORS_DIVISOR = 12
"""The noise of a part of the day is that of the parts within a twelfth of a day."""
MAX_COUNT_PER_FREE = 3
"""Noise is unknown if more than two thirds of the values are needed for their own means."""
MIN_ODD_RATIO = 3.0
"""A weekday is odd if its profile differs from the usual one by this multiple of the variance that chance explains."""
MONTH_END_DAYS = 5
"""Days and working days are counted from either end of a month up to this number."""
NO_HOLIDAYS = np.array([], dtype="M8[D]")


def month_slots(
    days: NDArray[np.datetime64], holidays: NDArray[np.datetime64] = NO_HOLIDAYS
) -> NDArray[np.intp]:
    """Return the slots of days in their month, counted in four ways; -1 without a slot.

    The four ways count days from the end of the month, days from its beginning, working days from the end,
    and working days from the beginning. Monday to Friday are working days, except for holidays. An unknown
    day has no slots.

    Parameters
    ----------
    days : array of datetime64[D], shape (days,)
    holidays : array of datetime64[D], optional

    Returns
    -------
    array of int, shape (4, days)

    Examples
    --------
    >>> month_slots(np.array(["2021-05-03", "2021-05-31"], dtype="M8[D]")).tolist()
    [[-1, 0], [3, 31], [-1, 0], [1, -1]]

    31 May 2021 was Memorial Day, so the last working day of the month was Friday the 28th.

    >>> memorial = np.array(["2021-05-31"], dtype="M8[D]")
    >>> month_slots(np.array(["2021-05-28", "2021-05-31"], dtype="M8[D]"), memorial)[2].tolist()
    [0, -1]
    """
    slots = np.full((4, len(days)), -1)
    is_known = ~np.isnat(days)
    slots[:, is_known] = _month_slots(days[is_known], holidays)
    return slots


def _month_slots(
    days: NDArray[np.datetime64], holidays: NDArray[np.datetime64]
) -> NDArray[np.intp]:
    months = days.astype("M8[M]")
    month_start, day = months.astype("M8[D]"), np.timedelta64(1, "D")
    next_month = (months + np.timedelta64(1, "M")).astype("M8[D]")
    days_left = (next_month - days).astype(int) - 1
    working_days_left = np.busday_count(days + day, next_month, holidays=holidays)
    working_day = np.busday_count(month_start, days, holidays=holidays) + 1
    is_working = np.is_busday(days, holidays=holidays)
    return np.stack(
        [
            np.where(days_left < MONTH_END_DAYS, days_left, -1),
            (days - month_start).astype(int) + 1,
            np.where(is_working & (working_days_left < MONTH_END_DAYS), working_days_left, -1),
            np.where(is_working & (working_day <= MONTH_END_DAYS), working_day, -1),
        ]
    )


def rolled_days(
    days: NDArray[np.datetime64], holidays: NDArray[np.datetime64] = NO_HOLIDAYS
) -> NDArray[np.intp]:
    """Return the days of the month that are due on each day, if payment avoids days off.

    Payments due on a day off move back to the previous working day or forward to the next working day,
    within the same month.

    Parameters
    ----------
    days : array of datetime64[D], shape (days,)
    holidays : array of datetime64[D], optional

    Returns
    -------
    array of int, shape (2, 2, days)
        First and last day of the month, moved back and moved forward; 1 and 0 for days off.

    Examples
    --------
    15 May 2021 was a Saturday: its payments are due on Friday the 14th or on Monday the 17th.

    >>> days = np.array(["2021-05-14", "2021-05-15", "2021-05-17"], dtype="M8[D]")
    >>> rolled_days(days).tolist()
    [[[14, 1, 17], [16, 0, 17]], [[14, 1, 15], [14, 0, 17]]]
    """
    result = np.empty((2, 2, len(days)), dtype=np.intp)
    result[:, 0], result[:, 1] = 1, 0
    is_working = ~np.isnat(days)
    is_working[is_working] = np.is_busday(days[is_working], holidays=holidays)
    working_days = days[is_working]
    months = working_days.astype("M8[M]")
    first, last = months.astype("M8[D]"), (months + 1).astype("M8[D]") - 1
    previous, following = (
        np.busday_offset(working_days, step, holidays=holidays) for step in (-1, 1)
    )
    for direction, (begin, end) in enumerate(
        ((working_days, following - 1), (previous + 1, working_days))
    ):
        for end_index, day in enumerate((np.maximum(begin, first), np.minimum(end, last))):
            result[direction, end_index, is_working] = (day - first).astype(int) + 1
    return result


NO_COLUMN = np.iinfo(np.int32).max
"""Column of empty entries."""


def occurrences_of(slots: int) -> int:
    """Return the number of stored occurrences of each slot, by the slots of a cycle."""
    return MAX_WEEKDAY_OCCURRENCES if slots <= DAYS_PER_WEEK else MAX_OCCURRENCES


class Season:
    """Occurrences of the slots of one season.

    Parameters
    ----------
    series : int
        Number of series.
    slots : int
        Slots of the season: partitions in a cycle.
    """

    def __init__(self, series: int, slots: int) -> None:
        self.slots = slots
        self.swing = np.full((series, slots, occurrences_of(slots)), np.nan)
        self.alarmed = np.zeros(self.swing.shape, dtype=bool)
        self.column = np.full(self.swing.shape, NO_COLUMN, dtype=np.int32)

    def push(
        self,
        slot: int,
        swing: Floats,
        alarmed: NDArray[np.bool_],
        column: int,
        rows: NDArray[np.intp] | slice = slice(None),
    ) -> None:
        """Add an occurrence of a slot.

        Parameters
        ----------
        slot : int
            The slot.
        swing : array of float, shape (series,)
            Deviations from the mean of the cycle; NaN without an occurrence.
        alarmed : array of bool, shape (series,)
            Whether the occurrence alarmed.
        column : int
            Column of the occurrence.
        rows : array of int or slice, optional
            Series with the occurrence; all if not given.
        """
        for stored, new in (
            (self.swing, swing[rows]), (self.alarmed, alarmed[rows]), (self.column, column)
        ):  # fmt: skip
            stored[rows, slot, :-1] = stored[rows, slot, 1:]
            stored[rows, slot, -1] = new

    def forget(self, column: int) -> None:
        """Delete occurrences before a column; occurrences of rarely present slots can be old."""
        is_old = self.column < column
        if is_old.any():
            self.swing[is_old] = np.nan
            self.column[is_old] = NO_COLUMN

    def effects(
        self,
        points: NDArray[np.intp],
        newest: tuple[Floats, NDArray[np.bool_]] | None = None,
    ) -> Floats:
        """Return the effect of each slot; 0 if it explains nothing.

        Each effect is shrunk to the extent that chance could explain it. All effects are shrunk to the extent
        that they do not reduce the deviations.

        Parameters
        ----------
        points : array of int, shape (series,)
            Number of earlier points of each series.
        newest : tuple of array, optional
            One more occurrence of each slot, and whether it alarmed; of shape (series, slots).
        """
        swings = self._counted(newest)
        counted = ~np.isnan(swings)
        effects = zero_if_nan(middle_mean(swings))
        departures = np.abs(swings - effects[..., None])
        noise = 1.4826 * median(departures.reshape(len(swings), -1))
        effects = _shrunk_effects(effects, noise[:, None], counted.sum(axis=2))
        # Shrink all effects to the extent that they do not reduce the deviations.
        size_before = row_sums(zero_if_nan(np.abs(swings)))
        size_after = row_sums(zero_if_nan(np.abs(swings - effects[..., None])))
        explained = np.where(size_before > 0, 1 - size_after / size_before, 0)
        gate = np.clip(explained * points / self.slots - 1, 0, 1) * (points >= 2 * self.slots)
        gated_effects: Floats = effects * gate[:, None]
        return gated_effects

    def effects_by_weekday(
        self, points: NDArray[np.intp], newest: tuple[Floats, NDArray[np.bool_]] | None = None
    ) -> Floats:
        """Return the effect of each slot if the slots are the parts of the days of a week.

        An effect is the sum of the effects of the weekday, of the part of the day on usual weekdays, of this
        part on odd weekdays, such as a weekend, and of the part on this weekday. The noise of a sum of few effects
        is far below the noise of the slot's own occurrences. The last two effects are shrunk to the extent that
        chance explains their variance (empirical Bayes; Efron and Morris 1975).

        Parameters
        ----------
        points : array of int, shape (series,)
            Number of earlier points of each series. With fewer than two weeks, effects are NaN.
        newest : tuple of array, optional
            As for `effects`.
        """
        swings = self._counted(newest)
        days = swings.reshape(len(swings), DAYS_PER_WEEK, -1, swings.shape[2])
        # The level of each day, and the profile of each weekday around it. A day of which parts are unknown, or
        # alarmed, is compared with the same parts of its weekday.
        level = median(np.swapaxes(days, 2, 3))
        for _ in range(2):
            profile = middle_mean(days - level[:, :, None])
            level = middle_mean(np.swapaxes(days - profile[..., None], 2, 3))
        around = days - level[:, :, None]
        parts = _effects_of_parts(around, _odd_weekdays(around, profile))
        weekday = zero_if_nan(middle_mean(level))
        variance = _residual_variance((level - weekday[..., None])[:, :, None])
        weekday = _shrunk_effects(weekday, np.sqrt(variance), (~np.isnan(level)).sum(axis=2))
        total = (parts + weekday[:, :, None]).reshape(len(swings), -1)
        return np.where((points >= 2 * self.slots)[:, None], total, np.nan)

    def _counted(self, newest: tuple[Floats, NDArray[np.bool_]] | None) -> Floats:
        """Return the occurrences of each slot that count; those that alarmed count only if they are repeated."""
        swings, alarmed = self.swing, self.alarmed
        if newest is not None:
            swings = np.concatenate([swings, newest[0][..., None]], axis=2)
            alarmed = np.concatenate([alarmed, newest[1][..., None]], axis=2)
        rows = np.flatnonzero(alarmed.any(axis=(1, 2)))
        if rows.size:
            counts = ~alarmed[rows] | self._repeated(rows)[..., None]
            swings = swings.copy()
            swings[rows] = np.where(counts, swings[rows], np.nan)
        return swings

    def _repeated(self, rows: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Return a mask of the slots, in these rows, whose newest occurrences all alarmed and agree."""
        newest = self.swing[rows, :, -MIN_REPETITIONS:]
        size = np.abs(newest).min(axis=2)
        agrees = newest.max(axis=2) - newest.min(axis=2) <= AGREEMENT_TOLERANCE * size
        with np.errstate(invalid="ignore"):
            is_repeated: NDArray[np.bool_] = agrees & self.alarmed[rows, :, -MIN_REPETITIONS:].all(
                axis=2
            )
        return is_repeated


MIDDLE_MEAN_VARIANCE = 1.2
"""Variance of the mean of the middle half of normal values, relative to the variance of their mean."""
ROOT_OF_NORMAL = 0.8222
"""Mean root of the absolute value of a standard normal number."""


def _shrunk_effects(effects: Floats, noise: Floats, count: NDArray[np.intp]) -> Floats:
    """Return effects, each shrunk to the extent that noise of single occurrences could explain it; 0 if unknown."""
    chance = np.square(noise / np.where(effects == 0, np.nan, effects))
    return zero_if_nan(effects * count / (count + zero_if_nan(chance)))


def _odd_weekdays(around: Floats, profile: Floats) -> NDArray[np.bool_]:
    """Return a mask of the weekdays whose profile differs from the usual one, of shape (series, weekdays).

    At most three weekdays are odd; otherwise none is.

    Parameters
    ----------
    around : array of float, shape (series, weekdays, parts, occurrences)
        Swings around the level of their day; NaN where unknown.
    profile : array of float, shape (series, weekdays, parts)
        Their means.
    """
    usual = median(np.swapaxes(profile, 1, 2))[:, None]
    variance = _residual_variance(around - profile[..., None])[:, None]
    ratio = np.square(profile - usual) * (~np.isnan(around)).sum(axis=3) / variance
    limit = MIN_ODD_RATIO * (~np.isnan(ratio)).sum(axis=2)
    odd: NDArray[np.bool_] = zero_if_nan(ratio).sum(axis=2) > limit
    odd[odd.sum(axis=1) > DAYS_PER_WEEK // 2] = False
    return odd


def _effects_of_parts(around: Floats, odd: NDArray[np.bool_]) -> Floats:
    """Return the effects of parts of days around the level of their day, of shape (series, weekdays, parts).

    They are the sum of effects of the part on usual weekdays, on odd weekdays, and on this weekday.

    Parameters
    ----------
    around : array of float, shape (series, weekdays, parts, occurrences)
        Swings around the level of their day; NaN where unknown.
    odd : array of bool, shape (series, weekdays)
        Weekdays with another profile than usual.
    """
    usual = _common_profile(around, ~odd)[:, None]
    of_odd = _common_profile(around - usual[..., None], odd)
    of_odd = np.where(odd[:, :, None], of_odd[:, None], 0)
    rest = around - (usual + of_odd)[..., None]
    of_weekday = middle_mean(rest)
    residuals, count = rest - of_weekday[..., None], (~np.isnan(rest)).sum(axis=3)
    variance, known = np.empty(count.shape), np.full(usual[:, 0].shape, np.inf)
    for is_member in (~odd, odd):  # with few odd days, their noise is that of the usual ones
        own = _residual_variance(residuals, is_member)
        own = np.where(np.isnan(own), _residual_variance(rest, is_member, shared=True), own)
        known = np.where(np.isnan(own), known, own)
        variance = np.where(is_member[:, :, None], known[:, None], variance)
    odd_count = np.where(odd[:, :, None], count, 0).sum(axis=1, keepdims=True)
    shrunk = _shrunk_profile(of_odd, variance / np.maximum(odd_count, 1))
    return (
        usual + shrunk + _shrunk_profile(zero_if_nan(of_weekday), variance / np.maximum(count, 1))
    )


def _residual_variance(
    residuals: Floats, is_member: NDArray[np.bool_] | None = None, *, shared: bool = False
) -> Floats:
    """Return the variance of the noise of each part of the day, of shape (series, parts).

    It is estimated by the mean root of residuals of neighboring parts, which resists outliers.

    Parameters
    ----------
    residuals : array of float, shape (series, weekdays, parts, occurrences)
        Distances from means; NaN where unknown.
    is_member : array of bool, shape (series, weekdays), optional
        Weekdays from which the noise is estimated; all if not given.
    shared : bool
        True if all weekdays have the same means, False if each has its own.

    Returns
    -------
    array of float, shape (series, parts)
        NaN if the means follow nearly all values, so that the distances are too small.
    """
    known = ~np.isnan(residuals)
    if is_member is not None:
        known &= is_member[:, :, None, None]
    root = np.where(known, np.sqrt(np.abs(residuals)), 0).sum(axis=(1, 3))
    count, by_slot = known.sum(axis=(1, 3)), known.any(axis=3)
    means = np.minimum(by_slot.sum(axis=1), 1) if shared else by_slot.sum(axis=1)
    reach = residuals.shape[2] // NEIGHBORS_DIVISOR
    root, count, means = (_sum_of_neighbors(x, reach) for x in (root, count, means))
    variance = np.square(np.square(root / np.maximum(count, 1) / ROOT_OF_NORMAL))
    free = count - means
    return np.where(
        free * MAX_COUNT_PER_FREE >= count,
        MIDDLE_MEAN_VARIANCE * variance * count / np.maximum(free, 1),
        np.nan,
    )


def _sum_of_neighbors(values: NDArray[np.generic], reach: int) -> Floats:
    """Return sums over the parts of the day within a reach, around midnight too; of shape (series, parts)."""
    total: Floats = np.sum([np.roll(values, k, axis=1) for k in range(-reach, reach + 1)], axis=0)
    return total


def _common_profile(around: Floats, is_member: NDArray[np.bool_]) -> Floats:
    """Return the mean of each part of the day over some weekdays and their occurrences; 0 if unknown.

    ``is_member`` is of shape (series, weekdays), the result of shape (series, parts).
    """
    values = np.where(is_member[:, :, None, None], around, np.nan)
    by_part = np.swapaxes(values, 1, 2).reshape(len(around), around.shape[2], -1)
    return zero_if_nan(middle_mean(by_part))


def _shrunk_profile(profile: Floats, chance: Floats) -> Floats:
    """Return profiles of weekdays, shrunk to the extent that chance explains their variance over the parts of the day.

    ``profile`` and ``chance``, the variance of its noise, are of shape (series, weekdays, parts).
    """
    weight = 1 / np.where(chance > 0, chance, np.inf)
    total = np.maximum(weight.sum(axis=2, keepdims=True), 1e-300)
    excess = (weight * (np.square(profile) - chance)).sum(axis=2, keepdims=True) / total
    variance = np.maximum(excess, 0)
    return np.where(chance > 0, profile * variance / (variance + chance), profile)


YEAR_WEEKS, YEAR_MONTHS = 365.2425 / 7, 12.0
"""Columns of a year."""
MAX_YEARLY_COLUMNS = {WEEKS_PER_YEAR: 5 * WEEKS_PER_YEAR, MONTHS_PER_YEAR: 8 * MONTHS_PER_YEAR}
"""Weeks or months from which a point is forecast, by the slots of a year."""
LEVEL_VARIANCE = 1e6
"""Variance of the level before the first point: anything is possible."""
WANDER_VARIANCES = (0.003, 0.03, 0.2, 1.0)
"""Variances of the change of the level from one point to the next."""
GROWTHS = (0.0, 0.1)
"""Standard deviations of a constant growth from one point to the next, for the levels that hardly wander."""
MAX_GROWING_WANDER = 0.03
SEASON_VARIANCES = ((0.0, 0.0), (2.0, 0.0), (15.0, 0.0), (0.0, 0.5), (0.0, 4.0), (2.0, 4.0))
"""Variances of the smooth season of a year, and of single weeks or months."""
SMOOTH_LENGTH = 0.7
"""Length scale of the smooth season. Effects of weeks that are two months apart have the correlation 0.5."""
SEASON_YEARS = 8.0
"""The correlation of a season with itself falls to 1/e in this many years."""


@dataclass(frozen=True)
class YearlyModels:
    """Gaussian processes of weeks or months, as linear filters; in units of the variance of noise.

    A process is the sum of noise, a level that wanders, a constant growth, a smooth season of the year, and effects
    of single weeks or months (Rasmussen and Williams 2006, chapters 2 and 5). The models differ in the variances
    of these parts. The forecast of a point is a weighted sum of earlier points, and the weights
    depend only on their number.

    Attributes
    ----------
    weights : array, shape (models, points, points)
        Weights of the first k points in the forecast of the next point, in row k.
    deviations : array, shape (models, points)
        Standard deviation of the error of this forecast.
    """

    weights: Floats
    deviations: Floats

    @classmethod
    @lru_cache(maxsize=8)
    def of_year(cls, slots: int, points: int, *, seasonal: bool) -> YearlyModels:
        """Return the models of weeks or months, by the slots of a year.

        Parameters
        ----------
        slots : int
            52 or 12.
        points : int
            Maximum number of points from which the next is forecast.
        seasonal : bool
            False for models without seasons.

        Examples
        --------
        After many points, a level that hardly wanders is nearly their mean:

        >>> models = YearlyModels.of_year(12, 25, seasonal=False)
        >>> [round(float(weight), 3) for weight in models.weights[0, 24, [0, 23]]]
        [0.032, 0.062]
        """
        year = YEAR_WEEKS if slots == WEEKS_PER_YEAR else YEAR_MONTHS
        index = np.arange(points + 1)
        lag = np.abs(index[:, None] - index)
        smooth = np.exp(-2 * np.square(np.sin(np.pi * lag / year) / SMOOTH_LENGTH))
        single = np.clip(1 - np.abs((lag + year / 2) % year - year / 2), 0, 1)
        memory = np.exp(-lag / (SEASON_YEARS * year))
        weights, deviations = [], []
        for wander, growth, (smooth_variance, single_variance) in product(
            WANDER_VARIANCES, GROWTHS, SEASON_VARIANCES if seasonal else SEASON_VARIANCES[:1]
        ):
            if growth and wander > MAX_GROWING_WANDER:
                continue
            covariance = np.eye(len(index)) + LEVEL_VARIANCE
            covariance += wander * np.minimum(index[:, None], index)
            covariance += np.square(growth) * np.outer(index, index)
            covariance += memory * (smooth_variance * smooth + single_variance * single)
            # With K = L D L', L triangular with unit diagonal, the forecast errors are the inverse of L times the points.
            factor = np.linalg.cholesky(covariance)
            deviation = np.diag(factor)
            weights.append(np.eye(len(index)) - np.linalg.inv(factor / deviation))
            deviations.append(deviation)
        return cls(np.array(weights), np.array(deviations))


LEVEL_WINDOWS = (3, 7, 1, 21)
"""Window lengths of the level's median; the window with the smallest recent errors is used.

One point is the best level of a wandering series, such as an autoregression of 0.9, and three weeks are best for a
steady one. Longer windows find no more faults in ``benchmarks/field_tables.py``.
"""
MIN_WANDERING_POINTS = 28
"""With fewer points, chance would choose the window of one point."""
MAX_WANDERING_ERROR_RATIO = 0.92
"""The window of one point is used if its mean root error is below this share of the other errors."""
RECENT_ERRORS = 35
"""Number of recent errors that decide the level window: five weeks of days."""
MIN_ERRORS_TO_JUDGE = 7
"""A level window needs this many errors, or a third of the number of points if that is smaller."""
MIN_RARE_EVENT_RATIO = 2.0
"""The largest tenth of errors are rare events if they imply twice the deviation of the smaller three quarters.

Of normal errors the ratio is 1, and of t3 1.2. With 1.5, tables with paydays have more false alarms.
"""
MIN_ERRORS_TO_SPLIT = 28
"""Of fewer errors, large ones are not told apart from a tail."""
MAX_FREEDOM = 52.0
"""Degrees of freedom of the errors of a long series without unusual errors.

With 12, the normal noise of ``benchmarks/field_tables.py`` had a tenth of the nominal scores of 2 and more. With 52, more partial
loads and more increases of noise are found, and as few false alarms are raised. With 72, t3 has more false alarms.
"""


@dataclass(frozen=True)
class Forecast:
    """Forecast of one point of each series.

    Attributes
    ----------
    points : array of int, shape (series,)
        Number of known points in the past.
    centre, spread : array of float, shape (series,)
        The expected value, and the standard deviation of earlier forecast errors.
    freedom : array of float, shape (series,)
        Degrees of freedom of the error's Student's t distribution.
    errors : array of float, shape (series, memory)
        Errors that the forecast would have made at training points: positive if the value was higher.
    surprises : array of float, shape (series, memory)
        Like ``errors``, including the first point of each run of alarms.
    flat : array of float, shape (series, memory)
        The past without its season.
    level : array of float, shape (series, memory)
        Like ``flat``, forward-filled.
    effect : array of float, shape (series,)
        Seasonal effect on the point.
    """

    points: NDArray[np.intp]
    centre: Floats
    spread: Floats
    freedom: Floats
    errors: Floats
    surprises: Floats
    flat: Floats
    level: Floats
    effect: Floats


def forecast(
    usable: Floats,
    moved: Floats,
    season: Floats,
    effect: Floats,
    drifting: NDArray[np.bool_] | None = None,
    *,
    counts: NDArray[np.bool_] | None = None,
) -> Forecast:
    """Forecast the next point, unless points are parts of days, which `PartsModel` describes.

    Parameters
    ----------
    usable : array of float, shape (series, memory)
        The training points of the past.
    moved : array of float, shape (series, memory)
        The training points and further points that are used for the tail only.
    season : array of float, shape (series, memory)
        Seasonal effects on the past.
    effect : array of float, shape (series,)
        Seasonal effect on the next point.
    drifting : array of bool, shape (series, memory), optional
        Points during drifts. Forecasts lag behind a drift, so their errors say nothing about the noise.
    counts : array of bool, shape (series,), optional
        Series that are counts, whose points are log(1 + count).
    """
    # Remove the season, and choose the window of the level by recent errors.
    points = (~np.isnan(usable)).sum(axis=1)
    flat = usable - season
    level = forward_fill(flat)
    medians_by_window = _level_medians(flat)
    recent = flat[:, 1:][:, -RECENT_ERRORS:]
    choice = _best_level(
        np.abs([recent - medians[:, :-1][:, -RECENT_ERRORS:] for medians in medians_by_window]),
        points,
    )
    level_median = medians_by_window[0].copy()
    for number, medians in enumerate(medians_by_window[1:], 1):
        rows = choice == number
        level_median[rows] = medians[rows]
    forecasts, newest_level = level_median[:, :-1], level_median[:, -1]
    if drifting is not None:
        forecasts = np.where(drifting[:, 1:], np.nan, forecasts)
    errors = flat[:, 1:] - forecasts
    centre = newest_level + effect
    # A count that is more regular than Poisson counts follows a timetable. Its changes are no rare events.
    poisson_spread = np.exp(-np.maximum(centre, 0) / 2)
    min_ordinary = np.zeros(len(errors)) if counts is None else np.where(counts, poisson_spread, 0)
    spread = _usual_size(np.abs(errors), min_ordinary)
    length = np.array(LEVEL_WINDOWS)[choice]
    # The errors of a one-point window already include its noise, so inflate it like a window of three.
    inflation = np.sqrt(1 + 1 / np.maximum(length, LEVEL_WINDOWS[0]) + 3 / np.maximum(points, 1))
    return Forecast(
        points=points,
        centre=centre,
        spread=spread * inflation,
        freedom=np.clip(points / 2.5, 2.5, MAX_FREEDOM),
        errors=errors,
        surprises=moved[:, 1:] - season[:, 1:] - forecasts,
        flat=flat,
        level=level,
        effect=effect,
    )


def _usual_size(sizes: Floats, min_ordinary: Floats) -> Floats:
    """Return the standard deviation of the errors of ordinary points, of shape (series,); 0 if unknown.

    It is estimated by quantiles of normal errors: by the median, or by the largest tenth if this is more, because
    heavy tails begin there. If the largest tenth is far from the smaller three quarters, it is not a tail but
    rare events, such as sales. Then only errors within three deviations of the smaller ones count.

    Parameters
    ----------
    sizes : array of float, shape (series, memory)
        Absolute errors; NaN where unknown.
    min_ordinary : array of float, shape (series,)
        Without rare events, the deviation is not reduced below this number.

    Examples
    --------
    Normal errors, and the same with 12% of errors near 10:

    >>> sizes = np.abs(np.random.default_rng(1).normal(size=(1, 98)))
    >>> with_sales = sizes.copy()
    >>> with_sales[:, ::8] += 10
    >>> [_usual_size(x, np.zeros(1)).round(1).tolist() for x in (sizes, with_sales)]
    [[0.8], [0.8]]
    """
    middle, outer, high = quantiles(sizes, (0.5, 0.75, 0.9))
    deviation = normal_deviation(middle, high)
    core = np.fmax(1.4826 * middle, outer / 1.15)
    is_split = deviation > MIN_RARE_EVENT_RATIO * core
    is_split &= (~np.isnan(sizes)).sum(axis=1) >= MIN_ERRORS_TO_SPLIT
    rows = np.flatnonzero(is_split)
    if rows.size:
        ordinary = np.where(sizes[rows] <= 3 * core[rows, None], sizes[rows], np.nan)
        split = np.fmax(normal_deviation(*quantiles(ordinary, (0.5, 0.9))), min_ordinary[rows])
        deviation[rows] = np.fmin(deviation[rows], split)
    return zero_if_nan(deviation)


def _level_medians(flat: Floats) -> list[Floats]:
    """Return the running medians of each of `LEVEL_WINDOWS`, over the known points up to each point.

    Unknown points, such as alarms, do not count. If the last value before a run of them were repeated, it would be
    the level for days. Points before the first full window are NaN.

    Examples
    --------
    >>> medians = _level_medians(np.array([[1.0, 2.0, 9.0, np.nan, np.nan, 4.0]]))
    >>> medians[LEVEL_WINDOWS.index(3)].tolist()
    [[nan, nan, 2.0, 2.0, 2.0, 4.0]]
    """
    is_known = ~np.isnan(flat)
    rows = np.flatnonzero((is_known[:, :-1] & ~is_known[:, 1:]).any(axis=1))
    # Move the known points of rows with gaps to the end, and take each point's median from the last known one.
    gapless = flat.copy()
    order = np.argsort(is_known[rows], axis=1, kind="stable")
    gapless[rows] = np.take_along_axis(flat[rows], order, axis=1)
    count = np.cumsum(is_known[rows], axis=1)
    position = np.maximum(flat.shape[1] - count[:, -1:] + count - 1, 0)
    result = []
    for medians in running_medians(gapless, LEVEL_WINDOWS):
        newest = np.take_along_axis(medians[rows], position, axis=1)
        medians[rows] = np.where(count > 0, newest, np.nan)
        result.append(medians)
    return result


LEVEL_MEMORIES = (3.0, 12.0, 72.0, 240.0)
"""Candidate memories of levels within days, in 24ths of a day: older points count less than 1/e."""
NOISE_RATIOS = (0.0, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 100.0, 1000.0)
"""Candidate ratios of the variance that averages out over rows to the other variance, in a partition of usual size."""
MIN_NOISE_ERRORS = 24
"""With fewer errors, noise is assumed not to depend on the number of rows."""
SIGNIFICANT_DEVIANCE = 4.0
"""Twice the gain of the logarithm of the likelihood that row noise needs."""
MIN_ERROR_DAYS = 3
"""With errors of fewer days, the spread is estimated from the training points as well."""
MAX_PART_SQUARE, PART_PRIOR_ERRORS = 9.0, 10.0
"""Squares of standardized errors are limited, because incidents are no noise; weight of the usual noise, in errors."""
UNTESTED_INFLATION = 1.3
"""Errors at points that were used to choose the level are smaller than errors of forecasts."""


@dataclass(frozen=True)
class PartsModel:
    """Noise and memory of series whose partitions are parts of days; arrays of shape (series,).

    Partitions of a night can have few rows, so their errors are larger than those of the day. An error in a partition
    of n rows has the variance ``spread``² (1 + ``row_noise`` / n), times the square of ``by_part``: errors are larger when
    offices open, or after a night that says little about the day.

    Attributes
    ----------
    row_noise : array of float
        Variance of the noise of a single row, relative to the noise that all rows share.
    spread : array of float
        Standard deviation of the noise that all rows share.
    kept : array of float
        Share of its weight that a point keeps from one partition to the next.
    by_part : array of float, shape (series, period)
        Noise of each part of the day, relative to the usual noise.
    """

    row_noise: Floats
    spread: Floats
    kept: Floats
    by_part: Floats

    @classmethod
    def unknown(cls, series: int, period: int) -> PartsModel:
        """Return the model before the first day."""
        kept = np.full(series, np.exp(-1.0))
        return cls(np.zeros(series), np.zeros(series), kept, np.ones((series, period)))

    @classmethod
    def fit(
        cls, errors: Floats, flat: Floats, inverse_rows: Floats, first_part: int, period: int
    ) -> PartsModel:
        """Fit the model to the past, the newest point last.

        Parameters
        ----------
        errors : array of float, shape (series, memory)
            Errors of forecasts as they were made; NaN where unknown.
        flat : array of float, shape (series, memory)
            Training points without their season.
        inverse_rows : array of float, shape (series, memory)
            1 / n; 0 if the number of rows n is unknown.
        first_part : int
            Part of the day of the first point.
        period : int
            Points of a day.
        """
        from scipy import signal  # slow to import

        row_noise = noise_by_rows(errors, inverse_rows)
        noise = np.sqrt(1 + row_noise[:, None] * inverse_rows)
        # Choose the memory of the level by the mean root error of the last week.
        is_known = ~np.isnan(flat)
        weight = np.where(is_known, 1 / np.square(noise), 0)
        weighted = np.where(is_known, flat, 0) * weight
        recent = slice(-min(DAYS_PER_WEEK * period, flat.shape[1] - 1), None)
        kept_shares = np.exp(-24 / period / np.array(LEVEL_MEMORIES))
        costs, errors_by_memory = [], []
        for kept in kept_shares:
            total, mass = (
                signal.lfilter([1.0], [1.0, -kept], x, axis=1) for x in (weighted, weight)
            )
            error = np.abs(flat[:, 1:] - total[:, :-1] / mass[:, :-1]) / noise[:, 1:]
            error = error[:, recent]
            known = ~np.isnan(error)
            root_sum = row_sums(np.where(known, np.sqrt(error), 0))
            costs.append(root_sum / np.maximum(known.sum(axis=1), 1))
            errors_by_memory.append(error)
        choice = np.argmin(costs, axis=0)
        # The spread of real forecasts; of fitted ones in a new series.
        standard = np.abs(errors) / noise
        spread = normal_deviation(*quantiles(standard, (0.5, 0.9)))
        is_new = (~np.isnan(standard)).sum(axis=1) < MIN_ERROR_DAYS * period
        if is_new.any():
            fitted = np.choose(choice[:, None], errors_by_memory)[is_new]
            fitted_spread = normal_deviation(*quantiles(fitted, (0.5, 0.9)))
            spread[is_new] = np.fmax(
                UNTESTED_INFLATION * fitted_spread, zero_if_nan(spread[is_new])
            )
        spread = zero_if_nan(spread)
        by_part = _noise_by_part(errors / noise / spread[:, None], first_part, period)
        return cls(row_noise, spread, kept_shares[choice], by_part)

    def take(self, rows: NDArray[np.intp]) -> PartsModel:
        """Return the model of some of the series."""
        return PartsModel(
            self.row_noise[rows], self.spread[rows], self.kept[rows], self.by_part[rows]
        )

    def noise(self, inverse_rows: Floats, part: NDArray[np.intp]) -> Floats:
        """Return relative standard deviations of partitions, given 1 / n and parts of the day.

        ``part`` is of shape (partitions,); the result and ``inverse_rows`` of shape (series, partitions).
        """
        relative: Floats = np.sqrt(1 + self.row_noise[:, None] * inverse_rows)
        return relative * self.by_part[:, part]

    def level(self, flat: Floats, inverse_rows: Floats) -> Floats:
        """Return the mean of the past, in which recent points and points of many rows count more."""
        age = np.arange(flat.shape[1] - 1, -1, -1)
        weight = self.kept[:, None] ** age / (1 + self.row_noise[:, None] * inverse_rows)
        weight = np.where(np.isnan(flat), 0, weight)
        mean: Floats = row_sums(np.where(weight > 0, flat, 0) * weight) / row_sums(weight)
        return mean


def _noise_by_part(standard: Floats, first_part: int, period: int) -> Floats:
    """Return the noise of each part of the day, from standardized errors of whole days, of shape (series, period).

    Squares are limited, averaged over neighboring parts, and shrunk toward 1.
    """
    days = np.square(standard).reshape(len(standard), -1, period)
    is_known = np.isfinite(days)
    squares = np.where(is_known, np.minimum(days, MAX_PART_SQUARE), 0).sum(axis=1)
    count = is_known.sum(axis=1)
    squares, count = (
        _sum_of_neighbors(np.roll(x, first_part, axis=1), period // 24) for x in (squares, count)
    )
    by_part: Floats = np.sqrt((squares + PART_PRIOR_ERRORS) / (count + PART_PRIOR_ERRORS))
    return by_part


def noise_by_rows(errors: Floats, inverse_rows: Floats) -> Floats:
    """Return the variance of one row's noise relative to the variance that does not depend on rows.

    Errors in a partition of n rows have the variance s (1 + r / n): the noise of rows averages out, other noise does
    not. The ratio r has the highest likelihood, with mean root errors in place of mean squares, which outliers
    would change more.

    Parameters
    ----------
    errors : array of float, shape (series, memory)
        Errors of forecasts; NaN where unknown.
    inverse_rows : array of float, shape (series, memory)
        1 / n; 0 if unknown.

    Returns
    -------
    array of float, shape (series,)
        0 with fewer than `MIN_NOISE_ERRORS` errors.

    Examples
    --------
    >>> rows = np.tile([4.0, 10_000.0], 200)
    >>> errors = np.random.default_rng(1).normal(size=(1, 400))
    >>> bool(noise_by_rows(errors, 1 / rows[None]) > 0)  # as large by day as by night
    False
    >>> bool(noise_by_rows(errors / np.sqrt(rows), 1 / rows[None]) > 100)
    True
    """
    is_known = ~np.isnan(errors)
    count = is_known.sum(axis=1)
    root = np.where(is_known, np.sqrt(np.abs(errors)), 0)
    usual = median(np.where(is_known & (inverse_rows > 0), inverse_rows, np.nan))
    best, lowest = np.zeros(len(errors)), np.full(len(errors), np.inf)
    for candidate in NOISE_RATIOS:
        ratio = np.where(usual > 0, candidate / usual, 0)
        log_variance = np.log1p(ratio[:, None] * inverse_rows)
        mean_root = row_sums(root * np.exp(-log_variance / 4)) / count
        cost = 4 * np.log(mean_root) + row_sums(np.where(is_known, log_variance, 0)) / count
        is_better = (cost < lowest) & (count >= MIN_NOISE_ERRORS)
        best[is_better], lowest[is_better] = ratio[is_better], cost[is_better]
        if candidate == 0:  # row noise must be significant
            lowest -= SIGNIFICANT_DEVIANCE / count
    return best


NEAR_PARTITIONS, MIN_NEAR_PARTITIONS = 24, 7
"""Numbers of earlier partitions with similar row counts from which a distinct count is expected: at most a quarter of all."""


def given_row_counts(
    value: Floats, past: Floats, log_rows: Floats, past_log_rows: Floats
) -> Floats:
    """Return the expected distinct counts, given the number of rows.

    A line is fitted to the 7 to 24 earlier partitions with the most similar row counts. Twice as many rows have
    at least as many distinct values, and at most twice as many, so its slope is between 0 and 1. Beyond these row counts any
    such slope is possible, and the nearest to the value is expected.

    Parameters
    ----------
    value : array of float, shape (series,)
        Logarithm of the distinct count.
    past : array of float, shape (series, memory)
        Logarithms of earlier distinct counts; NaN where unknown.
    log_rows : array of float, shape (series,)
        Logarithm of the number of rows.
    past_log_rows : array of float, shape (series, memory)
        The same of earlier partitions.

    Returns
    -------
    array of float, shape (series,)
        NaN with fewer than so many earlier partitions.

    Examples
    --------
    >>> rows = np.log([[1000.0] * 24 + [100] * 24])
    >>> past = np.log([[90.0] * 24 + [60] * 24])
    >>> np.exp(given_row_counts(np.log([70.0]), past, np.log([1000.0]), rows)).round().tolist()
    [90.0]
    """
    distance = np.abs(past_log_rows - log_rows[:, None])
    distance = np.where(np.isnan(past + distance), np.inf, distance)
    count = int(np.clip(distance.shape[1] // 4, MIN_NEAR_PARTITIONS, NEAR_PARTITIONS))
    near = np.argpartition(distance, count - 1, axis=1)[:, :count]
    x = np.take_along_axis(past_log_rows, near, axis=1) - log_rows[:, None]
    y = np.take_along_axis(past, near, axis=1)
    middle, level = x.mean(axis=1), y.mean(axis=1)
    away = x - middle[:, None]
    variance = row_sums(np.square(away))
    slope = row_sums(away * y) / np.where(variance > 0, variance, np.inf)
    is_known = np.isfinite(np.take_along_axis(distance, near, axis=1)).all(axis=1)
    edge = np.clip(0, x.min(axis=1), x.max(axis=1))
    at_edge = level + np.clip(slope, 0, 1) * (edge - middle)
    expected = np.clip(value, at_edge + np.minimum(-edge, 0), at_edge + np.maximum(-edge, 0))
    return np.where(is_known, expected, np.nan)


def _best_level(errors: Floats, points: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the index of the level window with the smallest mean root error, which resists outliers."""
    is_known = ~np.isnan(errors)
    count = is_known.sum(axis=2)
    mean_root_error = np.where(is_known, np.sqrt(errors), 0).sum(axis=2) / np.maximum(count, 1)
    has_enough = count >= np.minimum(points / 3, MIN_ERRORS_TO_JUDGE)
    has_enough[LEVEL_WINDOWS.index(1)] &= points >= MIN_WANDERING_POINTS
    mean_root_error[LEVEL_WINDOWS.index(1)] /= MAX_WANDERING_ERROR_RATIO
    best: NDArray[np.intp] = np.argmin(np.where(has_enough, mean_root_error, np.inf), axis=0)
    return best


N = TypeVar("N", float, "Floats")

START_PARAMETERS = (0.3, 0.1, 0.1)
"""Initial alpha, beta and gamma of the optimizer."""
EXACT_ERROR = 1e-12
"""Relative error below which a series counts as forecast exactly."""
DIVERGED_COST = 1e300
"""Cost of parameters with which the errors diverge."""


def holt_winters_forecasts(values: Floats, begin: int, period: int) -> Floats:
    """Forecast each point of many series one step ahead, fitting parameters to the first points.

    Parameters
    ----------
    values : array of float, shape (series, points)
        NaN where there is a gap. Gaps at the end are forecast from the points before them.
    begin : int
        Parameters are fitted to the points before this index, at least two cycles.
    period : int
        Points per cycle.

    Returns
    -------
    array of float, shape (series, points)

    Examples
    --------
    >>> values = np.array([[1, 3, 2, 4, 3, 5, np.nan, np.nan]])
    >>> holt_winters_forecasts(values, 6, 2)[0, 6:].round(6).tolist()
    [4.0, 6.0]
    """
    level, trend, season = _beginning(values[:, :begin], period)
    series_states = zip(values[:, :begin], level, trend, season, strict=True)
    fitted = [_fit(row, float(a), float(b), c) for row, a, b, c in series_states]
    alpha, beta, gamma = np.array(fitted).reshape(-1, 3).T
    is_known = (~np.isnan(values)).astype(float)
    columns = list(np.nan_to_num(values).T), list(is_known.T)
    forecasts = _walk(*columns, level, trend, list(season.T), (alpha, beta, gamma))
    return np.stack(forecasts, axis=1)


def _beginning(values: Floats, period: int) -> tuple[Floats, Floats, Floats]:
    """Return the initial level, trend and season as Deequ computes them, tolerating gaps.

    If a seasonal position is missing in the first cycle, the first cycle with a value is used, minus the
    trend up to it.
    """
    whole_points = values.shape[1] // period * period
    cycles = values[:, :whole_points].reshape(len(values), -1, period)
    trend = _mean(cycles[:, 1] - cycles[:, 0]) / period
    first_cycle = (~np.isnan(cycles)).argmax(axis=1)
    first_values = (
        np.take_along_axis(cycles, first_cycle[:, None], axis=1)[:, 0]
        - first_cycle * period * trend[:, None]
    )
    level = _mean(first_values)
    return level, trend, np.nan_to_num(first_values - level[:, None])


def _mean(values: Floats) -> Floats:
    is_known = ~np.isnan(values)
    mean: Floats = np.where(is_known, values, 0).sum(axis=1) / np.maximum(is_known.sum(axis=1), 1)
    return mean


def _fit(values: Floats, level: float, trend: float, season: Floats) -> tuple[float, ...]:
    """Fit alpha, beta and gamma by least squares, searching from `START_PARAMETERS`."""
    exponent = -np.frexp(np.nanmax(np.abs(values)))[1]
    is_known = (~np.isnan(values)).astype(float).tolist()
    scaled = np.ldexp(np.nan_to_num(values), exponent).tolist()
    state = float(np.ldexp(level, exponent)), float(np.ldexp(trend, exponent))
    seasonal = np.ldexp(season, exponent).tolist()

    def cost(parameters: Sequence[float]) -> float:
        alpha, beta, gamma = map(float, parameters)
        forecasts = _walk(scaled, is_known, *state, seasonal, (alpha, beta, gamma))
        total: float = sum(
            weight * (x - y) * (x - y)
            for x, weight, y in zip(scaled, is_known, forecasts, strict=True)
        )
        return total

    from scipy import optimize  # slow to import

    start_cost = cost(START_PARAMETERS)
    if not len(scaled) * EXACT_ERROR**2 < start_cost < DIVERGED_COST:
        return START_PARAMETERS

    def objective(parameters: Floats) -> float:
        return min(
            DIVERGED_COST, cost(parameters.tolist()) / start_cost
        )  # min() also returns DIVERGED_COST for NaN

    optimum = optimize.minimize(objective, START_PARAMETERS, method="L-BFGS-B", bounds=[(0, 1)] * 3)
    return tuple(optimum.x.tolist())


def _walk(
    values: Sequence[N],
    is_known: Sequence[N],
    level: N,
    trend: N,
    season: Sequence[N],
    parameters: tuple[N, N, N],
) -> list[N]:
    """Forecast one step ahead at each point, for scalars of one series or arrays of many.

    Parameters
    ----------
    values : sequence
        Values, 0 at gaps.
    is_known : sequence
        0 at gaps, else 1.
    level, trend : float or array
        Initial level and trend.
    season : sequence
        Initial seasonal components of one cycle.
    parameters : tuple
        alpha, beta and gamma.
    """
    alpha, beta, gamma = parameters
    seasonal = list(season)
    forecasts = []
    for t, (value, weight) in enumerate(zip(values, is_known, strict=True)):
        slot = t % len(seasonal)
        forecast = level + trend + seasonal[slot]
        error = weight * (value - forecast)
        level = level + trend + alpha * error
        trend = trend + alpha * beta * error
        seasonal[slot] = seasonal[slot] + gamma * error
        forecasts.append(forecast)
    return forecasts
