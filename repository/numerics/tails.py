"""Tail scores of points given their forecasts, and of several deviations together.

Scores are -log10 of p-values. Points are scored by Student's t, whose degrees of freedom follow from earlier errors, nearly
constant series by the frequency of other values, and slow drifts by the changes of earlier weeks.

`jointly_significant` tests the largest deviations of a partition. Each alone could be chance; together
they may not be.

`noise_ratios` compares the noise of the series of a table with earlier weeks, independent of level and
season. The noise of a point is its change since the previous point, minus the same change one season
ago. The noise of the last fortnight is compared with the median over the fortnights that ended in the seven
weeks before (`NoiseWindows`). Points at which most series jump, such as the beginning of a new level, are events, not noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from tidegauge.repository.numerics.arrays import (
    MAX_SCORE,
    forward_fill,
    median,
    median_of_seven,
    newest,
    normal_deviation,
    quantiles,
    row_sums,
    running_medians,
    zero_if_nan,
)
from tidegauge.repository.numerics.counts import poisson_limit, poisson_score
from tidegauge.repository.numerics.forecasts import MAX_FREEDOM
from tidegauge.repository.numerics.grid import DAYS_PER_WEEK, Grid

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from tidegauge.repository.numerics.arrays import Floats
    from tidegauge.repository.numerics.forecasts import Forecast


RECORD_CHECK_SCORE = 2.0
"""Lower scores are far from any alarm, so they are not compared with the largest earlier errors."""
HEAVY_TAIL_ALARMS = 5
"""With this many alarms in the past, the tail counts as heavy."""
RECURRING_ERRORS, RECURRING_ALARMS = 2, 4
"""An error is usual after this many similar errors, or runs of alarms that began with a similar error."""
RECURRING_STEPS, MIN_STEP_RUN_POINTS = 4, 2
"""A step is usual after this many similar steps, between values that stayed for at least this many points."""
SIMILAR_FACTOR, MAX_SIMILAR_RATIO = 1.25, 2.0
"""A similar alarm is at most a fifth smaller, and less than twice as large."""
TAIL_START, MAX_TAIL_SPREADS = 2.0, 5.0
"""Errors between these numbers of spreads show how heavy a tail is. Larger ones that alarmed can be incidents."""
NORMAL_SHARE, NORMAL_EXCESS = 0.0455, 0.162
"""Share of normal errors beyond the start of the tail, and the mean logarithm of their ratio to it."""
PRIOR_POINTS = 80.0
"""Weight of the share of normal errors, in points."""
PRIOR_ERRORS, HEAVY_PRIOR_ERRORS, HEAVY_EXCESS = 1.0, 5.0, 0.3
"""Weights of the prior excess, in errors: of normal errors, and of numbers that can have heavy tails.

The mean excess of the tables with t3 noise in `benchmarks/field_tables.py` is .3, of those with log-normal noise .38. With the
weight 2 instead of 1 these have 2.2 and 3.1 false alarms per 1000 instead of 2.0 and 2.8.
"""
TAIL_EVENT_POINTS = 3
"""Errors to one side within this many points are one event, such as a drift."""
TAIL_POINTS = 98
"""The number of unusual errors is that of so many points, the window of daily series."""
TAIL_DECAY, PARTS_TAIL_DECAY = 1.5, 1.0
"""The degrees of freedom are divided by a power of (1 + unusual errors).

Errors of parts of days are of changing size, and so more of them seem unusual: with the power 1 instead of 1.5, hourly tables
have as many false alarms, and .03 more of their faults are found.
"""
UNUSUAL_SPREADS, PARTS_UNUSUAL_SPREADS = 2.5, 3.0
"""Errors of weeks and months, and of parts of days, are unusual from this many spreads on.

Of the normal errors of two weeks of hours, 4.2 exceed 2.5 and 0.9 exceed 3, so fewer normal errors seem unusual. With 3, hourly
tables have as many false alarms, and .02 more of their faults are found; with 3.25 they have more false alarms.
"""
MIN_TAIL_FREEDOM, MIN_SIDE_FREEDOM = 3.0, 4
"""Fewest degrees of freedom, to both sides and to one. With 4, the band reaches at most 11 spreads. With 3, .04 fewer faults of
tables with log-normal noise are found; with 5 these have 3.6 instead of 2.8 false alarms per 1000.
"""
MIN_CONSTANT_SHARE = 0.6
"""A series is nearly constant if one value has at least this share."""
COUNT_STEP_TOLERANCE = 1.5
"""Counts differ by at most one if their difference is smaller."""
EQUAL_COUNT_TOLERANCE, MAX_STEP_CONSTANT = 0.5, 10
"""Counts are equal below this difference. The first change by one is scored for smaller constants, or after long constancy."""
FIRST_DEPARTURE_SCORE = 2.0
"""Score of the size of the first deviation from a constant."""
SHIFT_REPORTED_ALARMS = 2
"""After this many alarms to one side, a new level has already been reported."""
LARGE_DEPARTURE = 0.1
"""First deviations of a larger relative size score more, except from 0."""
DEFAULT_RELATIVE_SPREAD = 0.01
"""Relative spread of constants whose scale implies no lower bound."""
MEDIAN_NOISE_SHARE = 0.6
"""Share of the error spread that remains in the medians that `drift` compares."""
MIN_DRIFT_SPREADS = 3.0
"""Smaller changes are not a drift, however small the usual changes are."""
WANDER_FREEDOM = 6.0
"""Degrees of freedom of the changes of a wandering level."""
MAX_UNDRIFTED_SPREADS = 2.0
"""Points within this many spreads of the starting level are not reported as drifted."""
REPORTED_SHIFT_DIVISOR = 4
"""Parts of days: alarms at a quarter of the points of a day have reported the new level."""
MIN_STEADY_POINTS = 21
"""With fewer points outside drifts, the spread of errors is estimated during drifts as well."""
DRIFT_LAG_POINTS, DRIFT_BASELINE_POINTS = 14, 21
"""A drift is the change from the median of 21 points, 14 points ago, to the median of the last seven."""
DRIFT_REACH_POINTS = DRIFT_LAG_POINTS + DRIFT_BASELINE_POINTS
"""For this many points after a drift was reported, its continuation is not news."""


def student_score(z: Floats, freedom: Floats) -> Floats:
    """Return the score of a z-value: the two-sided tail of Student's t distribution."""
    from scipy import special  # slow to import

    p = 2 * special.stdtr(freedom, -np.abs(z))
    score: Floats = np.clip(-np.log10(np.maximum(p, 10.0**-MAX_SCORE)), 0, MAX_SCORE)
    return score


def _first_of_events(rows: NDArray[np.intp], columns: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Return which of a table's cells, in order, are not within three columns after another one of their row.

    Errors to one side within three points are one event, such as a drift.

    Examples
    --------
    >>> _first_of_events(np.array([0, 0, 0, 0, 1]), np.array([0, 1, 4, 9, 10])).astype(int)
    array([1, 0, 0, 1, 1])
    """
    is_first = np.ones(len(rows), dtype=bool)
    is_first[1:] = (rows[1:] != rows[:-1]) | (columns[1:] - columns[:-1] > TAIL_EVENT_POINTS)
    return is_first


def _tail_events(
    errors: Floats, spread: Floats, start: float
) -> tuple[NDArray[np.intp], NDArray[np.intp], Floats]:
    """Return rows, columns and z-values of the errors beyond ``start`` spreads that begin an event."""
    rows, columns = np.nonzero(np.abs(errors) > (start * spread)[:, None])
    z = errors[rows, columns] / spread[rows]
    begins = np.zeros(len(rows), dtype=bool)
    for is_on_side in (z < 0, z > 0):
        begins[is_on_side] = _first_of_events(rows[is_on_side], columns[is_on_side])
    return rows[begins], columns[begins], z[begins]


@lru_cache
def _limits_of_freedom(p_value: float) -> tuple[Floats, Floats]:
    """Return falling degrees of freedom, in halves, and the rising limits in spreads that errors exceed with a p-value."""
    from scipy import special  # slow to import

    freedom = np.arange(2 * MAX_FREEDOM, 2 * MIN_SIDE_FREEDOM - 1, -1) / 2
    limits: Floats = np.asarray(special.stdtrit(freedom, 1 - p_value / 2), dtype=np.float64)
    return freedom, limits


def freedom_by_side(
    errors: Floats,
    spread: Floats,
    p_value: float,
    *,
    alarmed: NDArray[np.bool_],
    is_heavy: NDArray[np.bool_],
) -> Floats:
    """Return the degrees of freedom that earlier errors allow below and above the expected value, of shape (2, series).

    Beyond two spreads, the tail is a power of the distance. Its exponent is estimated from the mean excess, the logarithm of the
    ratio of errors to two spreads (Hill 1975), and its limit at ``p_value`` from the share of such errors (Weissman 1978).
    Student's t with this limit has the returned degrees of freedom, in halves and at least 4. Normal tails fall faster than
    a power, so the exponent is corrected by its difference for normal errors. Both sides are separate, because sales say
    nothing about losses.

    Errors that alarmed beyond five spreads can be incidents, from which a tail must not be learned. Errors to one side
    within three points count once. As long as few errors are known, the tail is that of normal errors, or a heavier one.

    Parameters
    ----------
    errors : array of float, shape (series, memory)
        Earlier errors; NaN where unknown.
    spread : array of float, shape (series,)
        Standard deviation of the next point.
    p_value : float
        P-value at the limits of the band.
    alarmed : array of bool, shape (series, memory)
        Errors that raised an alarm.
    is_heavy : array of bool, shape (series,)
        Series that can have heavy tails.

    Examples
    --------
    Three rises by about four spreads make the upper tail of the second series heavier, not the lower one:

    >>> errors = np.random.default_rng(2).normal(size=(2, 200))
    >>> errors[1, [20, 80, 140]] = 3.8, 4.1, 4.4
    >>> nothing = np.zeros(errors.shape, dtype=bool)
    >>> freedom_by_side(errors, np.ones(2), 2e-4, alarmed=nothing, is_heavy=nothing[:, 0]).tolist()
    [[52.0, 52.0], [52.0, 4.0]]
    """
    rows, columns, z = _tail_events(errors, spread, TAIL_START)
    is_known = ~alarmed[rows, columns] | (np.abs(z) <= MAX_TAIL_SPREADS)
    excess = np.log(np.abs(z) / TAIL_START)
    points = (~np.isnan(errors)).sum(axis=1)
    prior_errors = np.where(is_heavy, HEAVY_PRIOR_ERRORS, PRIOR_ERRORS)
    prior_excess = np.where(is_heavy, HEAVY_EXCESS, NORMAL_EXCESS)
    all_freedom, limits = _limits_of_freedom(p_value)
    # The power of the share that gives normal errors the limit of Student's t with the most degrees of freedom.
    normal_power = math.log(limits[0] / TAIL_START) / math.log(NORMAL_SHARE / p_value)
    freedom = np.empty((2, len(errors)))
    for k, is_on_side in enumerate((is_known & (z < 0), is_known & (z > 0))):
        count = np.bincount(rows[is_on_side], minlength=len(errors))
        total = np.bincount(rows[is_on_side], excess[is_on_side], len(errors))
        share = (2 * count + NORMAL_SHARE * PRIOR_POINTS) / (points + PRIOR_POINTS)
        mean_excess = (prior_errors * prior_excess + total) / (prior_errors + count)
        power = mean_excess - NORMAL_EXCESS + normal_power
        limit = TAIL_START * np.power(np.maximum(share / p_value, 1), power)
        freedom[k] = np.interp(limit, limits, all_freedom)
    rounded: Floats = np.round(2 * freedom) / 2
    return rounded


def tail_freedom(
    errors: Floats, spread: Floats, decay: float = TAIL_DECAY, start: float = UNUSUAL_SPREADS
) -> Floats:
    """Return the largest degrees of freedom that earlier errors allow, in halves, of shape (series,).

    Unusual errors lie between ``start`` and 5 spreads. The more of them a series had, the heavier is its tail. Larger errors
    can be incidents, from which a tail must not be learned. Errors to one side within three points count
    once, so a drift is one event.

    Parameters
    ----------
    errors : array of float, shape (series, memory)
        Earlier errors; NaN where unknown.
    spread : array of float, shape (series,)
        Standard deviation of the next point.
    decay : float
        The power of (1 + unusual errors).
    start : float
        The smallest unusual error, in spreads.

    Examples
    --------
    Three errors of the second series are unusual, so 52 / (1 + 3) ** 1.5 = 6.5 degrees of freedom remain:

    >>> errors = np.zeros((2, 98))
    >>> errors[:, 10] = 50
    >>> errors[1, [20, 21, 40, 60]] = 3, 3, -3, 4
    >>> tail_freedom(errors, np.ones(2), 1.5).tolist()
    [52.0, 6.5]
    """
    rows, _, z = _tail_events(errors, spread, start)
    events = np.bincount(rows[np.abs(z) <= MAX_TAIL_SPREADS], minlength=len(errors))
    known = (~np.isnan(errors)).sum(axis=1)
    allowed = MAX_FREEDOM / (1 + events * TAIL_POINTS / np.maximum(known, TAIL_POINTS)) ** decay
    freedom: Floats = np.maximum(np.round(2 * allowed) / 2, MIN_TAIL_FREEDOM)
    return freedom


def ongoing(alarms: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the alarms, of shape (series, memory), of the run that includes the newest point.

    Examples
    --------
    >>> ongoing(np.array([[True, False, True, True], [True, True, True, False]])).astype(int)
    array([[0, 0, 1, 1],
           [0, 0, 0, 0]])
    """
    newest_first = np.logical_and.accumulate(alarms[:, ::-1], axis=1)
    run: NDArray[np.bool_] = newest_first[:, ::-1]
    return run


def cap_recurring_errors(
    score: Floats,
    error: Floats,
    now: Forecast,
    alarms: NDArray[np.bool_],
    harmless: Floats | None = None,
) -> tuple[Floats, NDArray[np.bool_]]:
    """Cap scores at log10(points + 1) where an error of this side and size is usual.

    An error is usual after two errors at training points that were about as large or larger, after
    four runs of alarms that began with a similar error, or after one that was labeled as harmless. The
    run that includes the newest point does not count, nor do training points within three points of an alarm: they can
    belong to the same incident.
    Errors to the other side, and alarms of another size, do not make it usual: three outages do not
    explain why the rows double.

    Parameters
    ----------
    score : array of float, shape (series,)
        Scores so far.
    error : array of float, shape (series,)
        Difference of each value from its forecast.
    now : Forecast
        Forecast of the current point.
    alarms : array of bool, shape (series, memory)
        Earlier points that alarmed.
    harmless : array of float, shape (series, memory), optional
        Errors of the earlier points that were labeled as harmless; NaN for other points.

    Returns
    -------
    capped : array of float, shape (series,)
        The capped scores.
    recurs : array of bool, shape (series,)
        Errors that are usual only after runs of alarms or after a label: no errors to learn from.
    """
    capped, recurs = score.copy(), np.zeros(score.shape, dtype=bool)
    rows = np.flatnonzero(score > RECORD_CHECK_SCORE)
    if not rows.size:
        return capped, recurs
    of_incident = _has_near(alarms[rows], TAIL_EVENT_POINTS, TAIL_EVENT_POINTS)
    errors = np.where(of_incident, np.nan, now.errors[rows])
    is_usual = _similar_errors(errors, error[rows], np.inf) >= RECURRING_ERRORS
    begins = np.where(ongoing(alarms[rows]), np.nan, now.surprises[rows])
    is_known = _similar_errors(begins, error[rows]) >= RECURRING_ALARMS
    if harmless is not None:
        is_known |= _similar_errors(harmless[rows], error[rows]) > 0
    limit = np.minimum(score[rows], np.log10(now.points[rows] + 1))
    capped[rows] = np.where(is_usual | is_known, limit, score[rows])
    recurs[rows] = is_known & ~is_usual & (capped[rows] < score[rows])
    return capped, recurs


def _has_near(mask: NDArray[np.bool_], before: int, after: int) -> NDArray[np.bool_]:
    """Return the points that have a masked point up to ``before`` points earlier or up to ``after`` points later.

    Examples
    --------
    >>> _has_near(np.array([[False, False, False, True, False, False]]), 2, 1).astype(int)
    array([[0, 0, 1, 1, 1, 1]])
    """
    counts = np.pad(np.cumsum(mask, axis=1), ((0, 0), (before + 1, after)), mode="edge")
    counts[:, : before + 1] = 0
    near: NDArray[np.bool_] = counts[:, before + 1 + after :] > counts[:, : mask.shape[1]]
    return near


def _similar_errors(
    earlier: Floats, error: Floats, max_ratio: float = MAX_SIMILAR_RATIO
) -> NDArray[np.intp]:
    """Return how many earlier errors of each series are similar to its newest error.

    Similar errors are to the same side, at most a fifth smaller, and less than ``max_ratio`` times as large.

    Examples
    --------
    >>> _similar_errors(np.array([[-2.0, 1.0, 2.1, np.nan, 9.0]]), np.array([2.0]))
    array([1])
    """
    size = np.abs(error)[:, None]
    to_same_side = np.sign(error)[:, None] * earlier
    is_similar = (to_same_side * SIMILAR_FACTOR > size) & (to_same_side < max_ratio * size)
    count: NDArray[np.intp] = is_similar.sum(axis=1)
    return count


def cap_recurring_steps(
    score: Floats, value: Floats, past: Floats, points: NDArray[np.intp]
) -> Floats:
    """Cap scores at log10(points + 1) where a series often steps to a new value that stays, by about this size.

    A small table that is rewritten daily has the same mean for days, until a row is added. A step is usual after four
    steps that were about as large or larger. Values that stay for one point only, and returns to an earlier
    value, do not count: they can be incidents.

    Parameters
    ----------
    score, value : array of float, shape (series,)
        Scores so far, and the values.
    past : array of float, shape (series, memory)
        Earlier values; NaN where unknown.
    points : array of int, shape (series,)
        Number of earlier points.

    Returns
    -------
    array of float, shape (series,)
        The capped scores.

    Examples
    --------
    >>> prices = np.repeat([[10.0, 10.2, 10.1, 10.3, 10.5]], 6, axis=1)
    >>> points = np.array([30])
    >>> [
    ...     cap_recurring_steps(np.array([5.0]), np.array([value]), prices, points).round(1).tolist()
    ...     for value in (10.4, 11.0)
    ... ]
    [[1.5], [5.0]]
    """
    capped = score.copy()
    for i in np.flatnonzero(score > RECORD_CHECK_SCORE).tolist():
        known = past[i, ~np.isnan(past[i])]
        begins = np.flatnonzero(np.diff(known, prepend=np.nan) != 0)
        if not RECURRING_STEPS < len(begins) <= len(known) / MIN_STEP_RUN_POINTS:
            continue
        levels, lengths = known[begins], np.diff(begins, append=len(known))
        is_new = np.zeros(len(levels), dtype=bool)
        is_new[np.unique(levels, return_index=True)[1]] = True
        stays = (lengths[:-1] >= MIN_STEP_RUN_POINTS) & (lengths[1:] >= MIN_STEP_RUN_POINTS)
        steps = np.abs(np.diff(levels))[stays & is_new[1:]]
        if (steps * SIMILAR_FACTOR > abs(value[i] - known[-1])).sum() >= RECURRING_STEPS:
            capped[i] = min(score[i], math.log10(points[i] + 1))
    return capped


def has_repeats(past: Floats) -> NDArray[np.bool_]:
    """Return whether series, of shape (series, memory), have the same value twice in succession."""
    mask: NDArray[np.bool_] = (past[:, 1:] == past[:, :-1]).any(axis=1)
    return mask


@dataclass(frozen=True)
class ConstantModel:
    """Nearly constant series and their deviations from the constant; all arrays are of shape (rows,).

    The p-value of another value is the frequency of deviations from the constant, times the tail
    probability of its distance among earlier deviations. For counts that are nearly always 0 it is at
    least the p-value of a Poisson count: a first 2 is less surprising than a first 6.

    Differences of counts from their constant score at most as Poisson counts with the mean of earlier
    differences: if a count often differs by one, two is rarer, but not as rare as the sizes suggest.

    These deviations are never anomalies: below twice the lower bound of the spread; below 2% of numbers
    without a lower bound, and of counts that are more constant than Poisson counts; and counts that differ
    by one from their constant or from its seasonal value, unless it is the first change of a count of
    values from 1 to 9.

    Attributes
    ----------
    rows : array of int
        Indices of the nearly constant series.
    mode, tolerance : array of float
        The constant, and the distance within which values are equal to it.
    points, departures, examples : array of int
        Number of earlier points, of deviations among them, and of deviations with a typical size.
    mean, spread : array of float
        Mean and spread of the size of the next deviation, given the examples.
    bound : array of float
        Deviations below twice this size are never anomalies.
    is_count : array of bool
        Series that are counts. All of their numbers are log(1 + count).
    near_counts : array of float, shape (2, rows)
        The constant and the expected value, as counts.
    step : array of float
        Counts within this distance of ``near_counts`` are never anomalies.
    step_rate : array of float
        Mean distance of counts from the expected value, in whole steps, without seasonal effects.
    zero_rows, zero_rate : array
        Positions in ``rows`` of counts that are nearly always 0, and their Poisson means.
    """

    rows: NDArray[np.intp]
    mode: Floats
    tolerance: Floats
    points: NDArray[np.intp]
    departures: NDArray[np.intp]
    examples: NDArray[np.intp]
    mean: Floats
    spread: Floats
    bound: Floats
    is_count: NDArray[np.bool_]
    near_counts: Floats
    step: Floats
    step_rate: Floats
    zero_rows: NDArray[np.intp]
    zero_rate: Floats

    @classmethod
    def fit(
        cls,
        past: Floats,
        alarms: NDArray[np.bool_],
        centre: Floats,
        min_spread: Floats,
        flat: Floats,
        *,
        repeating: NDArray[np.bool_],
        counts: NDArray[np.bool_],
        counts_of_values: NDArray[np.bool_],
        record: Floats | None = None,
    ) -> ConstantModel | None:
        """Find the nearly constant series; None if no series is.

        Parameters
        ----------
        past : array of float, shape (series, memory)
            Earlier values; NaN where unknown.
        alarms : array of bool, shape (series, memory)
            Points that alarmed. If there are few, their sizes are not typical, nor are the sizes of counts
            that rarely differ by one.
        centre : array of float, shape (series,)
            Expected values.
        min_spread : array of float, shape (series,)
            Lower bound of the spread; 0 without one.
        flat : array of float, shape (series, memory)
            Training points of the past, with the seasonal effect of the next point instead of their own.
        repeating : array of bool, shape (series,)
            Series that have a value twice in succession. Other series have no constant.
        counts : array of bool, shape (series,)
            Series that are counts.
        counts_of_values : array of bool, shape (series,)
            Counts of values, such as distinct values, instead of rows.
        record : array of float, shape (series, longer memory), optional
            The past over a longer time. If a count of values has no other value in it, all of its points count.
        """
        # Select the nearly constant series. If one value fills over half, it is the median.
        rows = np.flatnonzero(repeating)
        values = past[rows]
        mode = median(values)
        tolerance = 1e-12 * np.fmax(1.0, np.abs(mode))
        same = np.abs(values - mode[:, None]) <= tolerance[:, None]
        points = (~np.isnan(values)).sum(axis=1)
        selected = np.flatnonzero(same.sum(axis=1) >= MIN_CONSTANT_SHARE * np.maximum(points, 1))
        if not selected.size:
            return None
        rows, values, same = rows[selected], values[selected], same[selected]
        mode, tolerance, points = mode[selected], tolerance[selected], points[selected]
        is_count, alarmed = counts[rows], alarms[rows]
        # Measure the deviations from the constant. Few alarms and rare counts by one have no typical size.
        is_known = ~np.isnan(values)
        sizes = np.where(~same & is_known, np.abs(values - mode[:, None]), np.nan)
        departures = (~np.isnan(sizes)).sum(axis=1)
        excluded = alarmed & (alarmed.sum(axis=1) < HEAVY_TAIL_ALARMS)[:, None]
        sizes[excluded | (_rarely_by_one(values, mode) & is_count[:, None])] = np.nan
        examples = (~np.isnan(sizes)).sum(axis=1)
        mean, spread = _moments(sizes, np.maximum(examples, 1))
        # Count the points of the longer past of counts of values that never departed.
        never_departed = is_count & counts_of_values[rows] & (departures == 0)
        is_long = np.zeros(len(rows), dtype=bool)
        if record is not None:
            clean = np.flatnonzero(never_departed)
            away = np.abs(record[rows[clean]] - mode[clean, None])
            clean = clean[~(away > tolerance[clean, None]).any(axis=1)]
            recorded = (~np.isnan(record[rows[clean]])).sum(axis=1)
            is_long[clean] = recorded > past.shape[1]
            points[clean] = np.maximum(points[clean], recorded)
        # Bound the deviations that are never anomalies.
        bound = np.where(
            min_spread[rows] > 0, min_spread[rows], DEFAULT_RELATIVE_SPREAD * np.abs(mode)
        )
        is_extra_constant = is_count & _more_constant_than_poisson(mode, same.sum(axis=1), points)
        bound[is_extra_constant] = np.minimum(bound[is_extra_constant], DEFAULT_RELATIVE_SPREAD)
        near_counts = np.expm1(np.stack([mode, centre[rows]]))
        is_first_step = never_departed & (mode > tolerance)
        is_first_step &= is_long | (near_counts[0] < MAX_STEP_CONSTANT)
        step = np.where(is_first_step, EQUAL_COUNT_TOLERANCE, COUNT_STEP_TOLERANCE)
        bound[is_first_step & is_long] = 0.0
        # Estimate the mean number of steps from the expected value. Steps to seasonal values are no steps.
        steps = np.round(np.abs(np.expm1(flat[rows]) - near_counts[1][:, None]))
        step_rate = (np.nansum(steps, axis=1) + 1) / ((~np.isnan(steps)).sum(axis=1) + 1)
        # Estimate the Poisson mean of counts that are nearly always 0.
        zero_rows = np.flatnonzero(is_count & (mode <= tolerance))
        is_counted = is_known[zero_rows] & ~excluded[zero_rows]
        total = np.where(is_counted, np.expm1(values[zero_rows]), 0).sum(axis=1)
        return cls(
            rows=rows,
            mode=mode,
            tolerance=tolerance,
            points=points,
            departures=departures,
            examples=examples,
            mean=mean,
            spread=spread,
            bound=bound,
            is_count=is_count,
            near_counts=near_counts,
            step=step,
            step_rate=step_rate,
            zero_rows=zero_rows,
            zero_rate=(total + 1) / (points[zero_rows] + 1),
        )

    def score(self, value: Floats) -> Floats:
        """Return the scores of values, of shape (rows,)."""
        # Add the score of a deviation's frequency and the score of its size.
        distance = np.abs(value - self.mode)
        beyond = np.maximum(distance - self.mean, 0) / np.where(self.spread > 0, self.spread, 1)
        large_size = self._large_size
        large = np.log10(np.maximum(distance / np.where(large_size > 0, large_size, np.inf), 1))
        size_score = np.where(
            self.examples > 0, student_score(beyond, self._freedom), FIRST_DEPARTURE_SCORE + large
        )
        score = self._frequency_score + size_score
        # Cap the scores of deviations that are too small, and of counts that differ by one.
        is_one_step = self.is_count & (np.abs(np.expm1(value) - self.near_counts) < self.step).any(
            axis=0
        )
        is_small = (distance < 2 * self.bound) | is_one_step
        score = np.where(is_small, np.minimum(score, 1.0), score)
        # Counts whose departures are known score at most as if their steps were Poisson counts.
        rows = np.flatnonzero(self._has_steps)
        steps = np.round(np.abs(np.expm1(value[rows]) - self.near_counts[:, rows]).min(axis=0))
        score[rows] = np.minimum(score[rows], poisson_score(steps, self.step_rate[rows]))
        # Counts that are nearly always 0 score at most as Poisson counts.
        rows = self.zero_rows
        score[rows] = np.minimum(score[rows], poisson_score(np.expm1(value[rows]), self.zero_rate))
        return np.where(distance <= self.tolerance, 0.0, np.minimum(score, MAX_SCORE))

    def band(self, limit: float) -> Floats:
        """Return the lower and upper limits at which the score reaches a limit, of shape (rows, 2)."""
        from scipy import special  # slow to import

        # Invert the score of a deviation's size.
        size_score = np.maximum(limit - self._frequency_score, 0.0)
        large_size = self._large_size
        is_beyond_first = size_score > FIRST_DEPARTURE_SCORE
        first_reach = np.where(
            is_beyond_first, large_size * np.power(10.0, size_score - FIRST_DEPARTURE_SCORE), 0.0
        )
        first_reach[is_beyond_first & (large_size <= 0)] = np.inf
        usual_reach = self.mean + self.spread * special.stdtrit(
            self._freedom, 1 - np.power(10.0, -size_score) / 2
        )
        reach = np.where(self.examples > 0, usual_reach, first_reach)
        reach = np.maximum(reach, 2 * self.bound)[:, None]
        band: Floats = self.mode[:, None] + reach * [-1, 1]
        # Include the counts that differ by one, and the usual Poisson counts.
        rows = np.flatnonzero(self.is_count)
        band[rows] = _widen_bands(band[rows], self.near_counts[:, rows], self.step[rows])
        rows = np.flatnonzero(self._has_steps)
        steps = poisson_limit(limit, self.step_rate[rows])
        band[rows] = _widen_bands(band[rows], self.near_counts[:, rows], steps)
        highest = np.log1p(poisson_limit(limit, self.zero_rate))
        band[self.zero_rows, 1] = np.maximum(band[self.zero_rows, 1], highest)
        return band

    @property
    def _frequency_score(self) -> Floats:
        """Score of a deviation's frequency."""
        score: Floats = np.log10((self.points + 2) / (self.departures + 1))
        return score

    @property
    def _has_steps(self) -> NDArray[np.bool_]:
        """Mask of the counts that have departed before."""
        return self.is_count & (self.examples > 0)

    @property
    def _large_size(self) -> Floats:
        """Size from which a first deviation scores more."""
        return LARGE_DEPARTURE * np.abs(self.mode)

    @property
    def _freedom(self) -> Floats:
        """Degrees of freedom of the size of deviations."""
        return np.clip(self.examples, 1, 12).astype(float)


def _rarely_by_one(past: Floats, usual: Floats) -> NDArray[np.bool_]:
    """Return a mask of counts that rarely differ by exactly one from their constant."""
    near = np.abs(np.expm1(past) - np.expm1(usual)[:, None]) < COUNT_STEP_TOLERANCE
    by_one = near & (past != usual[:, None])
    mask: NDArray[np.bool_] = by_one & (by_one.sum(axis=1) < HEAVY_TAIL_ALARMS)[:, None]
    return mask


def _moments(away: Floats, n: NDArray[np.intp]) -> tuple[Floats, Floats]:
    """Return mean and spread of the next deviation from a constant."""
    mean = np.nansum(away, axis=1) / n
    spread = np.sqrt(np.nansum(np.square(away - mean[:, None]), axis=1) / n)
    return mean, np.hypot(spread, 0.3 * mean / np.sqrt(n + 1)) * np.sqrt(1 + 1 / n)


def _widen_bands(band: Floats, near: Floats, step: Floats) -> Floats:
    """Return bands of counts, as log(1 + count), widened to include all counts within ``step`` of ``near``."""
    lower = np.log1p(np.maximum(near - step, 0)).min(axis=0)
    upper = np.log1p(near + step).max(axis=0)
    return np.stack([np.minimum(band[:, 0], lower), np.maximum(band[:, 1], upper)], axis=1)


def _more_constant_than_poisson(
    usual: Floats, same: NDArray[np.intp], points: NDArray[np.intp]
) -> NDArray[np.bool_]:
    """Return whether more points have one value than Poisson counts would."""
    from scipy import special  # slow to import

    n = np.expm1(usual)
    share = np.exp(special.xlogy(n, n) - n - special.gammaln(n + 1))
    expected = points * share
    is_more_constant: NDArray[np.bool_] = same > expected + 3 * np.sqrt(expected * (1 - share)) + 1
    return is_more_constant | (usual <= 0)


def drift(
    now: Forecast, value: Floats, alarms: Floats, min_spread: Floats
) -> tuple[Floats, Floats, Floats]:
    """Score slow drifts; return the score, the starting level and the usual spread of changes.

    A trend that goes on is no drift, nor is one that ends: a change counts as far as it exceeds the usual change.
    A drift scores only if it is larger than at each of the last 14 points, so that each drift is reported once. A
    drift does not score after alarms to one side, because these have reported the new level, and not at
    a point close to the starting level.

    Parameters
    ----------
    now : Forecast
        Forecast of the current point.
    value : array of float, shape (series,)
        Current values.
    alarms : array of float, shape (series, memory)
        1 or -1 where a point alarmed, else 0.
    min_spread : array of float, shape (series,)
        Lower bound of the spread.
    """
    count = len(value)
    score, start, spread = np.zeros(count), np.full(count, np.nan), np.full(count, np.nan)
    flat = value - now.effect
    rows = np.flatnonzero(_may_have_drifted(now, flat))
    if not rows.size:
        return score, start, spread
    # Change of running medians, at each point of the past.
    path = forward_fill(np.concatenate([now.flat[rows], flat[rows, None]], axis=1))
    week, baseline = running_medians(path, (7, DRIFT_BASELINE_POINTS))
    baseline = np.where(np.isnan(baseline), week, baseline)
    changes = week[:, DRIFT_LAG_POINTS:] - baseline[:, :-DRIFT_LAG_POINTS]
    sizes = np.abs(changes)
    unusual, usual_sizes = _beyond_trend(changes[:, -1], changes[:, :-DRIFT_BASELINE_POINTS])
    known = (~np.isnan(usual_sizes)).sum(axis=1)
    wander, freedom = _usual_changes(
        usual_sizes, known, 6 + known / 10, now.spread[rows], min_spread[rows]
    )
    # Score the newest change, if it is the largest, unreported, and visible in the point itself.
    z = unusual / np.where(wander > 0, wander, np.inf)
    drift_scores = np.nan_to_num(student_score(z, freedom))
    is_largest = sizes[:, -1] > zero_if_nan(sizes[:, -1 - DRIFT_LAG_POINTS : -1]).max(axis=1)
    recent_alarms = alarms[rows, -(DRIFT_LAG_POINTS + DRIFT_BASELINE_POINTS) :]
    is_reported = (
        np.maximum((recent_alarms > 0).sum(axis=1), (recent_alarms < 0).sum(axis=1))
        >= SHIFT_REPORTED_ALARMS
    )
    own_change = flat[rows] - baseline[:, -1 - DRIFT_LAG_POINTS]
    has_left = (own_change * changes[:, -1] > 0) & (
        np.abs(own_change) > MAX_UNDRIFTED_SPREADS * now.spread[rows]
    )
    score[rows] = np.where(
        is_largest & ~is_reported & has_left & (drift_scores >= RECORD_CHECK_SCORE),
        drift_scores,
        0.0,
    )
    start[rows] = baseline[:, -1 - DRIFT_LAG_POINTS] + now.effect[rows]
    spread[rows] = wander
    return score, start, spread


DRIFT_DAYS = 5
"""Parts of days: the mean of a day is compared with the mean of three days that ended two days ago."""
DRIFT_REPORT_DAYS = DAYS_PER_WEEK + 2
"""Parts of days: for this many days after a drift was reported, its continuation is not news."""
DRIFT_TESTS_A_DAY = 4
"""Parts of days: drifts are looked for this often in a day. Means of whole days at every hour would overlap."""
MIN_USUAL_CHANGES = 7
"""Parts of days: with fewer earlier changes of days, no drift is reported."""
STEP_SPREADS, MAX_STEPS = 4.0, 4
"""Parts of days: a mean that differs from that of the day before by four usual differences is part of a step. Up to four
such days, which are two steps, are left out of the usual changes."""


def may_have_drifted_by_days(
    path: Floats, weights: Floats, alarms: Floats, spread: Floats, window: int
) -> NDArray[np.intp]:
    """Return the series whose last day departs from three days that ended two days ago.

    Parameters are as for `drift_of_days`; ``path`` and ``alarms`` need only `DRIFT_DAYS` windows.
    """
    change = _changes_of_days(_day_means(path, weights, window))[:, -1]
    noise = MEDIAN_NOISE_SHARE * _noise_of_day(weights, spread, window)
    reported = np.maximum((alarms > 0).sum(axis=1), (alarms < 0).sum(axis=1))
    return np.flatnonzero(
        (np.abs(change) > MIN_DRIFT_SPREADS * MEDIAN_NOISE_SHARE * noise)
        & (reported < max(SHIFT_REPORTED_ALARMS, window // REPORTED_SHIFT_DIVISOR))
    )


def drift_of_days(
    path: Floats,
    weights: Floats,
    value: Floats,
    spread: Floats,
    min_spread: Floats,
    weeks: Floats,
    *,
    window: int,
) -> tuple[Floats, Floats, Floats]:
    """Score slow drifts of parts of days as `drift` does, by means of whole days instead of medians of points.

    Rare steps of the level do not show how much it wanders. If effects of weekdays are too uncertain, changes since the week
    before are smaller, and are compared instead.

    Parameters
    ----------
    path : array of float, shape (series, memory + 1)
        The past and the current point without their season; NaN where unknown.
    weights : array of float, shape (series, memory + 1)
        Weights of the points in means: the inverse of their noise variance, relative to ``spread``².
    value, spread, min_spread : array of float, shape (series,)
        The current value, standard deviation of the noise of a point of weight 1, and lower bound of the spread.
    weeks : array of float, shape (series,)
        Number of weeks n > 1 from which the season is known. Its errors make the next change sqrt((n + 1) / (n - 1)) times
        as large as those of the past, from which the season was learned.
    window : int
        Points of the newest mean: a day, or some days of few parts. It is compared with the mean of three times as many
        points, which ended twice as many points ago.
    """
    days = _day_means(path, weights, window)
    noise = _noise_of_day(weights, spread, window)

    def compared(changes_of: Callable[[Floats], Floats], inflation: Floats) -> list[Floats]:
        changes = changes_of(days)
        unusual, sizes = _beyond_trend(changes[:, -1], changes_of(_without_steps(days[:, :-3])))
        known = (~np.isnan(sizes)).sum(axis=1).astype(np.float64)
        sizes = inflation[:, None] * sizes
        wander, freedom = _usual_changes(sizes, known, known / 2, noise, min_spread)
        before = zero_if_nan(np.abs(changes[:, -3:-1])).max(axis=1)
        return [known, wander, freedom, changes[:, -1], before, unusual]

    by_days = compared(_changes_of_days, np.sqrt((weeks + 1) / (weeks - 1)))
    by_week = compared(_changes_of_week, np.ones(len(weeks)))
    (known, wander), (_, wander_by_days) = by_week[:2], by_days[:2]
    is_weekly = (known >= MIN_USUAL_CHANGES) & (wander < wander_by_days)
    known, wander, freedom, change, before, unusual = np.where(is_weekly, by_week, by_days)
    # Score the newest change, if it is the largest, and visible in the point itself.
    score = np.nan_to_num(student_score(unusual / np.where(wander > 0, wander, np.inf), freedom))
    own_change = path[:, -1] - (days[:, -1] - change)
    is_visible = (own_change * change > 0) & (np.abs(own_change) > np.abs(change) / 2)
    is_drift = (np.abs(change) > before) & is_visible & (known >= MIN_USUAL_CHANGES)
    score = np.where(is_drift & (score >= RECORD_CHECK_SCORE), score, 0.0)
    return score, value - own_change, wander


def _noise_of_day(weights: Floats, spread: Floats, window: int) -> Floats:
    """Return the noise of the newest mean, in which a week of points has that of one point, as `_usual_changes` expects."""
    noise: Floats = spread * np.sqrt(WEEK_POINTS / row_sums(weights[:, -window - 1 : -1]))
    return noise


def _day_means(path: Floats, weights: Floats, window: int) -> Floats:
    """Return the weighted means of windows, the newest last; NaN if less than half of one is known, and before the path."""
    size = path.shape[1] // window * window
    shape = (len(path), -1, window)
    values, mass = path[:, -size:].reshape(shape), weights[:, -size:].reshape(shape)
    is_known = ~np.isnan(values)
    mass = np.where(is_known, mass, 0)
    total = (np.where(is_known, values, 0) * mass).sum(axis=2)
    enough = 2 * is_known.sum(axis=2) >= window
    means: Floats = total / np.where(enough, mass.sum(axis=2), np.nan)
    return np.pad(means, ((0, 0), (2 * DAYS_PER_WEEK, 0)), constant_values=np.nan)


def _changes_of_days(days: Floats) -> Floats:
    """Return the difference of each day from the mean of three days that ended two days before."""
    before = (days[:, :-4] + days[:, 1:-3] + days[:, 2:-2]) / 3
    return days[:, 4:] - before


def _changes_of_week(days: Floats) -> Floats:
    """Return the difference of each day from the same day of the week before, which needs no effects of weekdays."""
    return days[:, DAYS_PER_WEEK:] - days[:, :-DAYS_PER_WEEK]


def _without_steps(days: Floats) -> Floats:
    """Return the means, up to a constant, without rare steps: a level that changed once does not show how much it wanders."""
    known = forward_fill(days)
    steps = np.diff(known, axis=1)
    away = np.abs(steps - zero_if_nan(median(steps))[:, None])
    is_step = away > STEP_SPREADS * 1.4826 * zero_if_nan(median(away))[:, None]
    is_step &= (is_step.sum(axis=1) <= MAX_STEPS)[:, None]
    steps = np.where(is_step, zero_if_nan(median(steps))[:, None], steps)
    path = np.pad(np.cumsum(zero_if_nan(steps), axis=1), ((0, 0), (1, 0)))
    return np.where(np.isnan(days), np.nan, path)


def _beyond_trend(change: Floats, usual: Floats) -> tuple[Floats, Floats]:
    """Return the sizes of changes beyond a trend that goes on or ends, and of usual changes around the trend.

    Examples
    --------
    The level usually falls by 2. Falls of up to 2 are no drift, and a rise counts from 0:

    >>> beyond, around = _beyond_trend(np.array([-5.0, -1.0, 3.0]), np.array([[-2.0, -3.0, -1.0]] * 3))
    >>> beyond.tolist(), around[0].tolist()
    ([3.0, 0.0, 3.0], [0.0, 1.0, 1.0])
    """
    trend = zero_if_nan(median(usual))
    beyond: Floats = np.abs(change) - np.maximum(np.sign(change) * trend, 0)
    return np.maximum(beyond, 0), np.abs(usual - trend[:, None])


def _usual_changes(
    sizes: Floats,
    known: Floats | NDArray[np.intp],
    freedom: Floats,
    noise: Floats,
    min_spread: Floats,
) -> tuple[Floats, Floats]:
    """Return the usual spread of changes and its degrees of freedom, from the sizes of earlier changes.

    ``known`` is their number, in points, and ``freedom`` what they allow. ``noise`` is that of a point in a mean of seven.
    """
    # The usual spread of such changes: observed ones, the noise of medians, and the lower bound.
    usual_change = zero_if_nan(normal_deviation(*quantiles(sizes, (0.5, 0.9))))
    noise = MEDIAN_NOISE_SHARE * noise
    freedom = _joint_freedom(usual_change, noise, np.clip(freedom, WANDER_FREEDOM, 12))
    wander = np.hypot(usual_change, noise)
    wander = np.hypot(MEDIAN_NOISE_SHARE * np.sqrt(1 + 30 / (known + 10)) * wander, min_spread)
    return wander, freedom


def during_drifts(
    drifted: NDArray[np.bool_], usable: NDArray[np.bool_]
) -> NDArray[np.bool_] | None:
    """Return a mask of the points during drifts, at which forecasts lag behind; None if there is none.

    A drift is reported late: it compares medians that are `DRIFT_LAG_POINTS` apart. After its last report,
    medians of seven points lag for another six. If fewer than `MIN_STEADY_POINTS` other points are known, as in
    a drift of months, none is masked.

    Parameters
    ----------
    drifted : array of bool, shape (series, memory)
        Points that were scored as drifts.
    usable : array of bool, shape (series, memory)
        Points from which the spread of errors is estimated.

    Examples
    --------
    >>> drifted = np.zeros((1, 56), dtype=bool)
    >>> drifted[0, 30] = True
    >>> masked = np.flatnonzero(during_drifts(drifted, np.full((1, 56), True)))
    >>> masked[0], masked[-1]
    (np.int64(16), np.int64(36))
    """
    rows = np.flatnonzero(drifted.any(axis=1))
    if not rows.size:
        return None
    mask = np.zeros_like(drifted)
    mask[rows] = _has_near(drifted[rows], WEEK_POINTS - 1, DRIFT_LAG_POINTS)
    steady = (usable & ~mask).sum(axis=1)
    mask[steady < MIN_STEADY_POINTS] = False
    return mask


def _joint_freedom(wander: Floats, noise: Floats, freedom: Floats) -> Floats:
    """Return the degrees of freedom of the sum of wander and noise (Welch, Satterthwaite).

    Noise has many degrees of freedom. Changes of a wandering level overlap, so few are independent.

    Examples
    --------
    >>> _joint_freedom(np.array([0.0, 9.0]), np.array([1.0, 1.0]), np.array([12.0, 12.0])).round(1)
    array([12. ,  6.1])
    """
    parts = np.square(wander) / WANDER_FREEDOM * np.square(wander) + np.square(noise) ** 2 / freedom
    both = np.square(np.square(wander) + np.square(noise))
    joint: Floats = np.clip(both / np.where(parts > 0, parts, np.inf), WANDER_FREEDOM, freedom)
    return joint


def _may_have_drifted(now: Forecast, value: Floats) -> NDArray[np.bool_]:
    """Return a mask of the series that may have drifted, by a bound that is cheap to compute."""
    path = np.concatenate(
        [now.level[:, -DRIFT_LAG_POINTS - DRIFT_BASELINE_POINTS :], value[:, None]], axis=1
    )
    week, earlier = newest(path, 7), path[:, :-DRIFT_LAG_POINTS]
    long, short = newest(earlier, DRIFT_BASELINE_POINTS), newest(earlier, 7)
    change = np.abs(week - np.where(np.isnan(long), short, long))
    return change > MIN_DRIFT_SPREADS * MEDIAN_NOISE_SHARE * MEDIAN_NOISE_SHARE * now.spread


COMBINED_P_VALUES = 3
"""The smallest p-values of a partition, which are combined."""
EARLIER_PARTITIONS, MIN_EARLIER_PARTITIONS = 98, 28
"""Correlations of series are estimated from at most and at least this many partitions."""
USUAL_SCORE = 2.0
"""Higher earlier scores count as this one, so that a common incident does not correlate series."""
INTEGRATION_POINTS = (np.arange(100) + 0.5) / 100
"""Probabilities at which a distribution is integrated."""


def jointly_significant(score: Floats, earlier: Floats, limit: float) -> bool:
    """Return whether the largest scores of a partition are significant together.

    Fisher's product of the three smallest of n p-values is tested at a significance level (the rank
    truncated product of Dudbridge and Koeleman 2003). Series that usually deviate together, such as a number
    of rows and a sum, are not independent evidence: the product has the distribution of fewer independent
    p-values, given the correlations of earlier scores (Brown 1975; for observed correlations Poole et al.
    2016). One standard error is subtracted from each correlation, because chance correlates all series
    somewhat.

    Independent series keep the level. For series that share a fifth to a half of their variance, false
    alarms are two to three and a half times as frequent: large deviations coincide more often than the
    usual scores suggest.

    Parameters
    ----------
    score : array of float, shape (series,)
        -log10 of p-values; NaN where unknown.
    earlier : array of float, shape (series, partitions)
        Earlier scores of the same series.
    limit : float
        Accepted probability of a false alarm.

    Returns
    -------
    bool
        False with fewer than 3 known series or fewer than 28 earlier partitions.

    Examples
    --------
    Three p-values of 0.002 among six are not chance, unless the series always depart together:

    >>> chance = np.random.default_rng(1)
    >>> apart = chance.exponential(1 / np.log(10), (6, 60))
    >>> newest = np.array([0.1, 2.7, 0.3, 2.7, 2.7, 0.5])
    >>> jointly_significant(newest, apart, 0.001)
    True
    >>> jointly_significant(newest, apart[[0] * 6], 0.001)
    False
    """
    from scipy import special  # slow to import

    known_series = np.flatnonzero(~np.isnan(score))
    if len(known_series) < COMBINED_P_VALUES:
        return False
    largest = known_series[np.argsort(score[known_series])[-COMBINED_P_VALUES:]]
    nats = math.log(10) * float(score[largest].sum())
    # With only three independent series the product has its smallest p-value: stop early.
    if special.gammaincc(COMBINED_P_VALUES, nats) > limit:
        return False
    past = np.minimum(earlier[largest, -EARLIER_PARTITIONS:], USUAL_SCORE)
    past = past[:, ~np.isnan(past).any(axis=0)]
    if past.shape[1] < MIN_EARLIER_PARTITIONS:
        return False
    independent = _tail_of_related(nats, past)
    return _tail_of_largest(independent, len(known_series)) <= limit


def _tail_of_related(nats: float, past: Floats) -> float:
    """Return the probability that the scores of correlated series have at least this sum, in nats.

    The sum is approximated by a gamma distribution whose variance follows from the correlations.
    """
    from scipy import special  # slow to import

    with np.errstate(invalid="ignore", divide="ignore"):
        coefficients = np.atleast_2d(np.corrcoef(past))
    correlations = np.nan_to_num(
        coefficients, nan=1.0
    )  # constant scores are no independent evidence
    pairs = correlations[np.triu_indices(COMBINED_P_VALUES, 1)] - 1 / math.sqrt(past.shape[1])
    variance = COMBINED_P_VALUES + 2 * float(np.clip(pairs, 0, 1).sum())
    return float(
        special.gammaincc(COMBINED_P_VALUES**2 / variance, nats * COMBINED_P_VALUES / variance)
    )


def _tail_of_largest(independent: float, count: int) -> float:
    """Return the p-value of the largest of ``count`` scores, given the p-value of their sum.

    Given the next largest score, the scores above it are exponentially distributed.

    Parameters
    ----------
    independent : float
        Probability of the sum if the scores were not selected.
    count : int
        Number of scores from which the largest were selected.
    """
    from scipy import special  # slow to import

    if count == COMBINED_P_VALUES:
        return independent
    nats = special.gammainccinv(COMBINED_P_VALUES, independent)
    next_smallest = special.betaincinv(
        COMBINED_P_VALUES + 1, count - COMBINED_P_VALUES, INTEGRATION_POINTS
    )
    above = np.maximum(nats + COMBINED_P_VALUES * np.log(next_smallest), 0)
    return float(special.gammaincc(COMBINED_P_VALUES, above).mean())


WEEK_POINTS = 7
"""Points between compared fortnights, and the number of earlier fortnights."""
NOISE_POINTS, CALM_POINTS = 14, 10
"""Noise is averaged over the 10 calmest points of 14, because an outlier makes four points noisy."""
EVENT_NOISE_RATIO = 9.0
"""At an event, the median series changes by more than this multiple of its usual noise."""


@dataclass(frozen=True)
class NoiseWindows:
    """Numbers of points by which the noise of a table is compared with earlier noise.

    Days are compared by fortnights. Nights have fewer rows than days, and so more noise, so parts of days are compared
    by whole days.

    Attributes
    ----------
    lag : int
        Points of a season: a week, unless the season is a year.
    points : int
        Points whose noise is averaged.
    spacing : int
        Points between compared windows.
    stride : int
        Noise is averaged at every such point, at most about fifteen times a day.
    """

    lag: int
    points: int = NOISE_POINTS
    spacing: int = WEEK_POINTS
    stride: int = 1

    @classmethod
    def from_grid(cls, grid: Grid) -> NoiseWindows:
        """Return the windows of a grid.

        Examples
        --------
        >>> quarters = np.arange("2013-01-01T00:00", "2013-01-03T00:00", 15, "M8[m]").astype("M8[s]")
        >>> NoiseWindows.from_grid(Grid.from_times(quarters))
        NoiseWindows(lag=672, points=96, spacing=96, stride=6)
        """
        if not grid.within_days:
            return cls(grid.period if grid.period > 1 else WEEK_POINTS)
        days = math.ceil(NOISE_POINTS / grid.period)
        return cls(
            grid.cycle,
            points=days * grid.period,
            spacing=math.ceil(days / 2) * grid.period,
            stride=math.gcd(grid.period, max(grid.period // NOISE_POINTS, 1)),
        )

    @property
    def compared(self) -> int:
        """Points of all compared windows."""
        return self.points + (WEEK_POINTS - 1) * self.spacing + self.points

    @property
    def reach(self) -> int:
        """Earlier points that a logarithm of a ratio depends on."""
        return 2 * self.compared + self.lag + self.stride


def noise_ratios(values: Floats, windows: NoiseWindows, phase: int = 0) -> Floats:
    """Return the logarithms of the ratios of noise to the noise of earlier weeks.

    NaN where unknown, between strides, and for constant series.

    Parameters
    ----------
    values : array of float, shape (series, points)
        Values on a scale on which noise does not depend on the level; NaN where unknown.
    windows : NoiseWindows
    phase : int
        The first point at which noise is averaged.

    Examples
    --------
    >>> noise = np.random.default_rng(1).normal(size=(20, 140))
    >>> noise[:, 120:] *= 3
    >>> before, after = np.median(noise_ratios(noise, NoiseWindows(7)), axis=0)[[119, 135]]
    >>> bool(abs(before) < 0.4 < 0.7 < after < 1.4)  # log(3) is 1.1
    True
    """
    lag, spacing = windows.lag, windows.spacing
    change = np.diff(values, axis=1)
    noise = np.full(values.shape, np.nan)
    noise[:, lag + 1 :] = np.abs(change[:, lag:] - change[:, :-lag])
    lacking = np.isnan(noise[:, spacing:])  # a missing value would make two weeks unknown
    noise[:, spacing:][lacking] = noise[:, :-spacing][lacking]
    recent, usual = _noise_levels(noise, windows, phase)
    before = usual if windows.stride == 1 else forward_fill(usual)
    events = np.flatnonzero(median((noise / before).T) > EVENT_NOISE_RATIO)
    if events.size:
        for t in events:
            noise[:, t] = noise[:, t - spacing]
        recent, usual = _noise_levels(noise, windows, phase)
    return np.where((recent > 0) & (usual > 0), np.log(recent / usual), np.nan)


def _noise_levels(noise: Floats, windows: NoiseWindows, phase: int) -> tuple[Floats, Floats]:
    """Return the noise of the window that ends at each point, and the usual noise before it."""
    recent_noise, usual_noise = np.full(noise.shape, np.nan), np.full(noise.shape, np.nan)
    points, calm_points = windows.points, windows.points * CALM_POINTS // NOISE_POINTS
    if noise.shape[1] >= points:
        ends = np.arange(
            points - 1 + (phase - points + 1) % windows.stride, noise.shape[1], windows.stride
        )
        views = np.lib.stride_tricks.sliding_window_view(noise, points, axis=1)[
            :, ends[0] - points + 1 :: windows.stride
        ]
        calm = np.partition(views, calm_points, axis=2)[..., :calm_points].mean(axis=2)
        recent_noise[:, ends] = np.where(np.isnan(views).any(axis=2), np.nan, calm)
    first = windows.compared - points
    count = noise.shape[1] - first
    if count > 0:
        usual_noise[:, first:] = median_of_seven(
            [
                recent_noise[:, windows.spacing * k : windows.spacing * k + count]
                for k in range(WEEK_POINTS)
            ]
        )
    return recent_noise, usual_noise
