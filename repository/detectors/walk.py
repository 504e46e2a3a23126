"""Sequential scoring of several series, the algorithm of `Seasonal`.

`Walk` processes the partitions in order: it forecasts the values of each, scores them and learns from them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tidegauge.analyzers.core.metric import Scale
from tidegauge.repository.detectors.base import History, Reason, Scores
from tidegauge.repository.detectors.rules import NORMAL_RATE, NORMAL_TESTS
from tidegauge.repository.detectors.season_effects import (
    DATE_WINDOW_DAYS,
    DRIFT_WINDOWS,
    FEW_CYCLES,
    MAX_TRAINING_SCORE,
    MIN_CYCLE_POINTS,
    SURPRISE_SPREADS,
    DateEffects,
    ScoringWindows,
    SeasonEffects,
    YearlyForecasts,
    drift_window,
    first_training_partition,
)
from tidegauge.repository.detectors.series_kinds import SeriesKinds, Units
from tidegauge.repository.numerics import tails
from tidegauge.repository.numerics.arrays import forward_fill, median, row_sums
from tidegauge.repository.numerics.counts import (
    MEAN_POINTS,
    NO_COUNTS,
    NO_SHARES,
    SMALL_COUNT_MEAN,
    CountForecast,
    RareShares,
)
from tidegauge.repository.numerics.forecasts import (
    MAX_FREEDOM,
    MIN_COUNT_SPREAD,
    MIN_LOG_SPREAD,
    MIN_REPETITIONS,
    Forecast,
    PartsModel,
    ScaleRows,
    forecast,
    given_row_counts,
    min_spread_of,
    month_slots,
    restore,
    rolled_days,
)
from tidegauge.repository.numerics.grid import DAYS_PER_WEEK, Grid

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidegauge.repository.numerics.arrays import Floats


AUTO_SEASON = "auto"
SEASON_NAMES = (AUTO_SEASON, "day", "week", "month", "year")
"""Seasons to look for: ``auto`` is all seasons that the partitions can have."""
MAX_HOLIDAY_TRAINING_SCORE = 1.3
"""On holidays even points that are not anomalies can be unsuitable for training."""
MIN_REASON_SCORE = 1.0
"""Points with lower scores have no reason."""
BAND_P_VALUE = NORMAL_RATE / NORMAL_TESTS
"""P-value at the limits of the band: the level of `FalseDiscoveryRate` for a single series."""
REPORTED_DRIFT_SCORE = -math.log10(BAND_P_VALUE)
"""Drifts with this score are anomalies even if they are the only deviation of their partition."""
NEW_WEEKS = 2.5
"""With fewer weeks of points, effects of the week are unknown."""
TAIL_WEEKS = 2
"""Errors of the first two weeks are too large to learn the noise and the tail of parts of days from them."""
ALARM_SPREADS = 3.0
"""Parts of days: alarms in the means of days count as this many spreads, because one fault is no drift."""
MIN_MATURE_ERRORS = 48
"""Errors of the first weeks count until so many later points are known."""
WHOLE_NUMBER_TOLERANCE = 1e-6
"""Tolerance for rounding errors of whole numbers."""
MEAN_DAYS = 3
"""The mean of small counts of parts of days is that of so many days: one day is too uncertain."""
MATURE_POINTS = 28
"""From this many points on, a count's spread is bounded by the observed one, and a season can be constant."""
MATURE_YEARLY_POINTS = 12
"""The same for weeks and months, of which few are known."""
_DRIFT_REASON, _CALENDAR_REASON, _RECOVERY_REASON, _RECURRING_REASON = map(
    int, (Reason.DRIFT, Reason.CALENDAR, Reason.RECOVERY, Reason.RECURRING)
)
"""Plain integers, because arrays are compared with them thousands of times."""
MAX_NON_DAILY_FREEDOM = 12.0
"""Degrees of freedom of errors, unless partitions are days. Parts of days have more false alarms with more."""
YEARLY_DRIFT_CYCLES = 1.0
"""No drift of weeks or months is reported before this many years: a season could look like one."""
YEARLY_POINTS_PER_FREEDOM = 1.5
"""Points of weeks or months for each degree of freedom of their errors."""
MIN_YEARLY_FREEDOM = 12.0
"""A history of weeks or months is too short to learn a heavier tail: a few incidents would look like one."""
NEW_POINT_INFLATION = 1.3
"""With few points, a new point's spread is this much larger than the spread of errors."""
MIN_EARLIER_RECORDS = 2
"""If this many earlier values were as extreme, an extreme is not a surprise."""
MIN_TIME_SHARE, MAX_SAME_TIME_SECONDS = 0.01, 180.0
"""Times of day count as the same within 1% of the step between partitions, but at most within three minutes."""


def _fallback_spread(now: Forecast, unbounded: NDArray[np.bool_], *, yearly: bool) -> Floats:
    """Return a small fallback spread; larger for series whose scale implies no lower bound.

    Forecasts of weeks and months (``yearly``) do not use the effects of slots.
    """
    tiny = 1e-9 * np.fmax(np.abs(now.centre), 1e-6)
    if unbounded.any():
        away = now.errors if yearly else now.flat - (now.centre - now.effect)[:, None]
        around = median(np.abs(away[unbounded]))
        tiny[unbounded] = np.fmax(0.01 * around, tiny[unbounded])
    return tiny


def _inverse_counts(centre: Floats) -> Floats:
    """Return 1 / n of expected counts n, at most 1; 0 if unknown."""
    inverse: Floats = np.nan_to_num(1 / np.maximum(np.expm1(centre), 1))
    return inverse


def _band_limit(freedom: Floats) -> Floats:
    """Return the limits of the band in spreads.

    Each number of degrees of freedom is computed once, because most series have the same.
    """
    from scipy import special  # slow to import

    distinct, index = np.unique(freedom, return_inverse=True)
    limits: Floats = np.asarray(special.stdtrit(distinct, 1 - BAND_P_VALUE / 2), dtype=np.float64)
    return limits[index].reshape(freedom.shape)  # numpy 1 returns a flat index


def _reasons(
    expected: _Expected,
    is_scored: NDArray[np.bool_],
    is_notable: NDArray[np.bool_],
    is_drift: NDArray[np.bool_],
    is_constant: NDArray[np.bool_],
) -> NDArray[np.int64]:
    """Return the reasons of a partition's scores; all masks are of shape (series,)."""
    reason = np.where(is_drift, Reason.DRIFT, Reason.LEVEL)
    reason[is_constant] = Reason.CONSTANT
    reason = np.where(is_notable, reason, Reason.NONE)
    reason = np.where(is_scored & expected.calendar, Reason.CALENDAR, reason)
    return np.where(is_scored & expected.recovered, Reason.RECOVERY, reason)


def _weigh_by_rows(
    score: Floats, is_constant: NDArray[np.bool_], expected: _Expected, y: Floats
) -> Floats:
    """Return scores in which deviations from constant shares are weighed by the rows behind them.

    The first events of a column are more surprising if there are many of them, and a deviation is never more
    surprising than its number of events. In a new series, whose deviations are too few to know their usual size,
    the number of events alone decides on large deviations.
    """
    rare = expected.rare
    departs = is_constant[rare.rows] & (score[rare.rows] > 0)
    if not departs.any():
        return score
    rare = rare.take(departs)
    share = np.square(np.sin(y[rare.rows]))
    weighed = score.copy()
    raised = score[rare.rows] + np.where(
        score[rare.rows] > MIN_REASON_SCORE, rare.first_events_score(share), 0.0
    )
    by_events = rare.score(share)
    is_large = rare.events(share) > tails.LARGE_DEPARTURE * rare.row_counts
    is_large &= expected.now.points[rare.rows] < MATURE_POINTS
    weighed[rare.rows] = np.where(is_large, by_events, np.minimum(raised, by_events))
    return weighed


def _limit_counts(
    bounds: Floats, expected: _Expected, is_shown: NDArray[np.bool_], is_constant: NDArray[np.bool_]
) -> None:
    """Write the limits of small counts and of rare events to a partition's bounds, of shape (series, 3)."""
    if expected.few.size:
        is_count = (is_shown & ~is_constant)[expected.few]
        counted = expected.counted.take(is_count)
        bounds[expected.few[is_count], 1:] = counted.limits(BAND_P_VALUE)
    if expected.rare.rows.size:
        shown = expected.rare.take(is_shown[expected.rare.rows])
        limits = shown.band(BAND_P_VALUE)
        # A deviation from a constant has to leave both bands; from other values, one of them. Bands
        # that do not overlap have nothing in common: then the band of the errors is kept.
        own = bounds[shown.rows, 1:]
        widest = (np.fmin(limits[:, 0], own[:, 0]), np.fmax(limits[:, 1], own[:, 1]))
        narrowest = (np.fmax(limits[:, 0], own[:, 0]), np.fmin(limits[:, 1], own[:, 1]))
        overlaps = ~(narrowest[0] > narrowest[1])[:, None]
        common = np.where(overlaps, np.stack(narrowest, axis=1), own)
        bounds[shown.rows, 1:] = np.where(
            is_constant[shown.rows, None], np.stack(widest, axis=1), common
        )


def _is_wanted(slots: int, grid: Grid, names: Sequence[str]) -> bool:
    """Return whether a season of a grid is one of the requested seasons."""
    name = "week" if slots == grid.cycle else "day"
    return bool({AUTO_SEASON, "year" if grid.yearly else name} & set(names))


@dataclass(frozen=True)
class _Level:
    """The current level of a series.

    Attributes
    ----------
    first : int
        First column of the level.
    offset : float
        Distance from the previous level.
    accepted : int
        Column at which the level was accepted.
    returned : int, optional
        Column of the last point that was near an earlier level, and not a second one: see `Walk._returned`.
    previous : _Level, optional
        The level before, if it was a new level too.
    """

    first: int = 0
    offset: float = 0.0
    accepted: int = -(10**9)
    returned: int | None = None
    previous: _Level | None = None


@dataclass(frozen=True)
class _Expected:
    """Expectation of one partition; arrays are of shape (series,).

    Attributes
    ----------
    now : Forecast
        Expected values and their errors.
    width, min_spread : array of float
        The standard deviation of the next point, and its lower bound.
    freedom : array of float, shape (2, series)
        Degrees of freedom of errors below and above the expected value.
    few : array of int
        The series that are small counts, which are scored by their own distribution.
    counted : CountForecast
        Forecast of the small counts.
    rare : RareShares
        Shares that consist of only a few rows, scored by the number of these rows.
    calendar, recovered : array of bool
        True if the expected value comes from the calendar, or from the level before the last shift.
    """

    now: Forecast
    width: Floats
    min_spread: Floats
    freedom: Floats
    few: NDArray[np.intp]
    counted: CountForecast
    rare: RareShares
    calendar: NDArray[np.bool_]
    recovered: NDArray[np.bool_]


class Walk:
    """State of a sequential pass that scores several series.

    Arrays have one column per grid column, preceded by empty columns.

    Parameters
    ----------
    history : History
    cycles : int
        Number of cycles from which seasons are learned.
    season_names : sequence of str
        Seasons to look for.
    min_rise : float
        Points at most this far above the expected value are not reported.
    start : int
        First partition to score. Earlier partitions are learned from their known scores.

    Attributes
    ----------
    y, unmuted : array
        The transformed values; ``unmuted`` omits points that labels exclude.
    is_harmless : array of bool, optional
        Points labeled as harmless; None if there is no such label.
    row_counts : array
        The number of rows behind each value; only for shares.
    log_rows : array
        Logarithm of the number of rows behind each value; only for distinct counts.
    inverse_rows : array
        1 / n of the number of rows n behind each value, of row counts the expected number; 0 if unknown. Only for
        parts of days.
    midnight : int
        A column at which a day begins, if days have several partitions.
    moved : array
        The transformed values, moved to the current level after level shifts.
    usable : array
        The training points of ``moved``; other points are NaN.
    filled : array
        The values of ``moved``, with the expected value in place of alarms.
    centre, signs : array
        The expected values, and 1 or -1 for points that alarmed.
    excluded_from_tail : array of bool
        Points excluded from the tail estimate: the calendar or a preceding alarm explains their distance.
    drifted : array of bool
        Points that were scored as drifts, whether or not they became anomalies, or of a new level that went on moving.
    reported_drifts : array
        Scores of drifts that can become anomalies, negative for drifts to lower values; 0 for other points.
    open : array
        1 or -1 for alarms that can still become a level shift.
    levels : list of _Level
        The current level of each series.
    shifts : list
        Accepted level shifts: series, partition, and the first partition of the new level.
    parts : PartsModel
        Noise of parts of days.
    yearly : YearlyForecasts, optional
        Forecasts of weeks and months; None for other partitions.
    """

    def __init__(
        self,
        history: History,
        cycles: int,
        season_names: Sequence[str] = (AUTO_SEASON,),
        min_rise: float = -np.inf,
        start: int = 0,
    ) -> None:
        # Inputs.
        grid = history.grid or Grid.from_times(history.times)
        self.history, self.grid, self.cycles = history, grid, cycles
        self.min_rise, self.start = min_rise, start
        self.windows = ScoringWindows.from_grid(grid, cycles, start)
        self.units = Units(history)
        self.kinds = SeriesKinds.from_history(history, self.units.sums)
        self.days = history.times.astype("M8[D]")
        self.is_holiday = np.zeros(len(self.days), dtype=bool)
        if history.holidays and not grid.yearly:  # a holiday does not explain a week or a month
            self.is_holiday = np.array([bool(day) for day in history.holidays], dtype=bool)
        # Transformed values, by column.
        self.column = self.windows.padding + grid.column
        shape = (len(history.values), self.windows.padding + grid.size)
        self.y = np.full(shape, np.nan)
        self.y[:, self.column] = self.units.transformed(history.values, slice(None))
        self.row_counts = np.full((len(self.kinds.shares), shape[1]), np.nan)
        self.row_counts[:, self.column] = history.weights[self.kinds.shares]
        self.log_rows = np.full((len(self.kinds.distinct_counts), shape[1]), np.nan)
        rows_of_values = history.weights[self.kinds.distinct_counts]
        self.log_rows[:, self.column] = np.log(np.where(rows_of_values > 0, rows_of_values, np.nan))
        self.is_harmless: NDArray[np.bool_] | None = None
        if history.harmless is not None:
            self.is_harmless = np.zeros(shape, dtype=bool)
            self.is_harmless[:, self.column] = history.harmless
        self.unmuted = self.y
        if history.muted is not None:
            self.unmuted = self.y.copy()
            self.unmuted[:, self.column] = np.where(history.muted, np.nan, self.y[:, self.column])
        is_known = ~np.isnan(self.y)
        self.first_columns = np.where(is_known.any(axis=1), is_known.argmax(axis=1), shape[1])
        # Running state: what has been learned from earlier points.
        self.moved, self.usable, self.filled, self.centre = (
            np.full(shape, np.nan) for _ in range(4)
        )
        self.signs, self.open = np.zeros(shape), np.zeros(shape)
        self.excluded_from_tail = np.zeros(shape, dtype=bool)
        self.drifted = np.zeros(shape, dtype=bool)
        self.reported_drifts = np.zeros(shape)
        self.shifts: list[tuple[int, int, int]] = []
        self.levels = [_Level() for _ in range(shape[0])]
        # Seasons and calendar.
        slots = [
            season
            for season in grid.slots(history.times)
            if _is_wanted(season[0], grid, season_names)
        ]
        self.by_season = SeasonEffects(self, slots)
        self.slot = self.by_season.slot
        self.effects = np.zeros((shape[0], slots[-1][0] if slots else 1))
        self.points = np.zeros(shape[0], dtype=np.intp)
        self.dates = self._date_effects(season_names)
        self.yearly = YearlyForecasts(self, seasonal=bool(slots)) if grid.yearly else None
        self._latest: tuple[int, Forecast] | None = None
        self.parts = PartsModel.unknown(shape[0], grid.period)
        self.inverse_rows, self.midnight = self._parts_of_days()

    def _parts_of_days(self) -> tuple[Floats, int]:
        """Return 1 / n of the row counts n, and a column at which a day begins; nothing unless days have parts."""
        if not self.grid.within_days:
            return np.zeros((len(self.y), 0)), 0
        inverse_rows = np.zeros(self.y.shape)
        weights = np.where(self.history.weights > 0, self.history.weights, np.inf)
        inverse_rows[:, self.column] = 1 / weights
        first_second = self.history.times[:1].astype("M8[s]").astype(np.int64).sum()
        first_part = first_second // max(self.grid.step, 1) % self.grid.period
        return inverse_rows, int(self.windows.padding - first_part)

    def _date_effects(self, season_names: Sequence[str]) -> DateEffects:
        """Return the effects of dates, for the requested seasons."""
        free_days, names = self.history.free_days, set(season_names)
        day_before = np.asarray(self.days - np.timedelta64(1, "D"), dtype="M8[D]")
        has_months = bool({AUTO_SEASON, "month"} & names)
        return DateEffects(
            self,
            month_slots(self.days, free_days) if has_months else None,
            np.is_busday(self.days, holidays=free_days),
            np.concatenate([rolled_days(days, free_days) for days in (self.days, day_before)]),
            enough=1 if "month" in names else MIN_REPETITIONS,
            yearly=bool({AUTO_SEASON, "year"} & names),
        )

    def run(self, earlier_scores: Scores | None = None, *, is_settled: bool = False) -> Scores:
        """Score the partitions from `start`.

        Parameters
        ----------
        earlier_scores : Scores, optional
            The scores of the partitions before `start`.
        is_settled : bool
            True if none of the series is `unsettled`.
        """
        h, start = self.history, self.start
        if earlier_scores is not None:
            self._relearn(start, earlier_scores, is_settled=is_settled)
        scores = Scores.unscored((len(self.y), len(h.times) - start))
        for t in range(start, len(h.times)):
            self._restart(t)
            self._score(t, scores, t - start)
            k = t - start
            centre = self.units.transformed(scores.expected[:, [k]], slice(t, t + 1))[:, 0]
            self._learn(t, scores.score[:, k], scores.reason[:, k], centre)
        return scores

    def _relearn(self, start: int, earlier_scores: Scores, *, is_settled: bool) -> None:
        """Learn from the partitions before `start` and their scores."""
        h = self.history
        # A restart moves the whole past by the error of its forecast, so learn from the beginning.
        first = (
            0 if h.restarts is not None else first_training_partition(self.grid, self.cycles, start)
        )
        centre = self.units.transformed(
            earlier_scores.expected[:, first:start], slice(first, start)
        )
        if self.yearly is not None:
            self.yearly.begin = np.maximum(self.yearly.begin, self.column[first])
        elif is_settled:
            self._learn_together(first, start, earlier_scores, centre)
            return
        for t in range(first, start):
            self._restart(t)
            self._learn(
                t, earlier_scores.score[:, t], earlier_scores.reason[:, t], centre[:, t - first]
            )

    def _forecast(self, t: int) -> Forecast:
        c = self.column[t]
        if not self.grid.within_days:
            self._refresh(c)
        if self.yearly is None:
            return self._ahead(c, max(self.slot[c], 0))
        return self._yearly_forecast(t, self.yearly)

    def _yearly_forecast(self, t: int, yearly: YearlyForecasts) -> Forecast:
        """Return the forecast of a week or month; the same for scoring it and for learning from it.

        To learn from scored partitions, effects of slots need not be refreshed: the models replace them.
        """
        c = self.column[t]
        if self._latest is None or self._latest[0] != t:
            now = self._ahead(c, max(self.slot[c], 0))
            self._latest = (t, yearly.refine(now, int(c)))
        latest = self._latest[1]
        return replace(latest, centre=latest.centre.copy())

    def _ahead(self, c: int, slot: int) -> Forecast:
        """Return the forecast of a column for a slot of the longest season."""
        past = slice(c - self.windows.level, c)
        season = self.effects.take(np.maximum(self.slot[past], 0), axis=1)
        effect = self.effects[:, slot]
        tail_values = np.where(self.excluded_from_tail[:, past], np.nan, self.moved[:, past])
        usable = self.usable[:, past]
        if self.grid.within_days:
            return self._ahead_within_days(c, usable, season, effect)
        drifting = tails.during_drifts(self.drifted[:, past], ~np.isnan(usable))
        return forecast(usable, tail_values, season, effect, drifting, counts=self.kinds.counts)

    def _ahead_within_days(
        self, c: int, usable: Floats, season: Floats, effect: Floats
    ) -> Forecast:
        """Return the forecast of a column if days have several partitions."""
        past, flat = slice(c - self.windows.level, c), usable - season
        points = (~np.isnan(usable)).sum(axis=1)
        inverse = self.inverse_rows[:, past]
        centre = self.parts.level(flat, inverse) + effect
        now = self.inverse_rows[:, c] if c < self.y.shape[1] else median(inverse)
        now = np.where(self.kinds.counts_rows, _inverse_counts(centre), now)[:, None]
        parts = (np.arange(past.start, c + 1) - self.midnight) % self.grid.period
        noise = self.parts.noise(now, parts[-1:])[:, 0]
        ratio = noise[:, None] / self.parts.noise(inverse, parts[:-1])
        errors = self.y[:, past] - self.centre[:, past]
        is_left_out = self.excluded_from_tail[:, past] | self._is_immature(past)
        return Forecast(
            points=points,
            centre=centre,
            spread=self.parts.spread * noise,
            freedom=np.clip(points / 2.5, 2.5, MAX_FREEDOM),
            errors=np.where(self._says_no_noise(past), np.nan, errors)[:, 1:] * ratio[:, 1:],
            surprises=np.where(is_left_out, np.nan, errors)[:, 1:] * ratio[:, 1:],
            flat=flat,
            level=forward_fill(flat),
            effect=effect,
        )

    def _says_no_noise(self, past: slice) -> NDArray[np.bool_]:
        """Return a mask of the points whose errors say nothing about the noise.

        These are points that do not train, and alarms before a new level. It is accepted only after some alarms. Then its
        points train, but their errors are the difference of the levels. Once enough later errors are known, those of the
        first weeks do not count either.
        """
        mask: NDArray[np.bool_] = np.isnan(self.usable[:, past]) | (self.signs[:, past] != 0)
        return mask | self._is_immature(past)

    def _is_young(self, past: slice) -> NDArray[np.bool_]:
        """Return a mask of the points of the first weeks, whose forecasts knew no weekends."""
        is_young: NDArray[np.bool_] = np.arange(past.start, past.stop) < self._maturity()
        return is_young

    def _is_immature(self, past: slice) -> NDArray[np.bool_]:
        """Return `_is_young`, or no point as long as few later points are known."""
        enough = past.stop > self._maturity() + MIN_MATURE_ERRORS
        is_immature: NDArray[np.bool_] = self._is_young(past) & enough
        return is_immature

    def _maturity(self) -> NDArray[np.intp]:
        """Return the column at which the first weeks of each series end, of shape (series, 1)."""
        return self.first_columns[:, None] + TAIL_WEEKS * self.grid.cycle

    def after(self) -> Forecast:
        """Return the forecast of the partition after the last one, without seasonal effects."""
        end = self.y.shape[1]
        self._refresh(end)
        now = self._ahead(end, 0)
        return replace(now, centre=now.centre - now.effect)

    def _refresh(self, c: int) -> None:
        """Compute the effects of all slots as of a column."""
        if self.by_season.seasons:
            past = slice(c - self.windows.season, c)
            self.points = (~np.isnan(self.usable[:, past])).sum(axis=1)
            self.effects = self.by_season.effects(c, self.points)
        if self.grid.within_days:
            past = slice(c - self.cycles * self.grid.period, c)
            season = self.effects.take(np.maximum(self.slot[past], 0), axis=1)
            errors = self.y[:, past] - self.centre[:, past]
            self.parts = PartsModel.fit(
                np.where(self._says_no_noise(past), np.nan, errors),
                self.usable[:, past] - season,
                self.inverse_rows[:, past],
                (past.start - self.midnight) % self.grid.period,
                self.grid.period,
            )

    def _score(self, t: int, scores: Scores, k: int) -> None:
        """Score partition ``t``, and write its scores, reasons and bands to column ``k``."""
        c = self.column[t]
        past = slice(c - self.windows.level, c)
        y, expected = self.y[:, c], self._expect(t)
        now = expected.now
        distance = np.abs(y - now.centre)
        alarms = self.signs[:, past] != 0
        # Each model scores the point: the forecast's errors, slow drifts, nearly constant series.
        base_score, recurs = self._base_score(y, past, expected)
        drift_score, start_level, drift_spread = self._drift(t, expected)
        constants = self._constants(past, alarms, expected)
        # Combine the scores: the highest score is used; nearly constant series keep their own. A weaker drift is not
        # reported, nor does it make a point deviate together with others.
        drift_score = np.where(drift_score >= MAX_TRAINING_SCORE, drift_score, 0.0)
        score = np.maximum(base_score, drift_score)
        is_constant = np.zeros(len(y), dtype=bool)
        if constants is not None:
            is_constant[constants.rows] = True
            score[constants.rows] = constants.score(y[constants.rows])
            score = _weigh_by_rows(score, is_constant, expected, y)
        score = self._cap_records(c, y, now, score)
        known = self.unmuted[:, c - self.windows.record : c]
        score = tails.cap_recurring_steps(score, y, known, now.points)
        is_drift = (drift_score > base_score) & ~is_constant & (score >= MAX_TRAINING_SCORE)
        centre = np.where(is_drift, start_level, now.centre)
        is_harmless = (self.kinds.distances & (y < now.centre)) | (y <= centre + self.min_rise)
        score = np.where(is_harmless, 0.0, score)
        # Write the results of points with enough history.
        is_scored = ~np.isnan(distance + score) & (now.points >= self.windows.warm_up)
        if self.history.restarts is not None:
            is_scored &= ~self.history.restarts[:, t]
        scores.score[:, k] = np.where(is_scored, score, np.nan)
        is_notable = is_scored & (score > MIN_REASON_SCORE)
        scores.reason[:, k] = _reasons(expected, is_scored, is_notable, is_drift, is_constant)
        spread = np.where(is_drift, drift_spread, expected.width)
        below, above = spread * _band_limit(expected.freedom)
        band = np.stack([centre, centre - below, centre + above], axis=1)
        if constants is not None:
            band[constants.rows, 1:] = constants.band(-math.log10(BAND_P_VALUE))
        bounds = self.units.restored(np.where(is_scored[:, None], band, np.nan), t)
        bounds[np.isposinf(band) | np.isinf(bounds)] = np.nan  # a side without a limit
        _limit_counts(bounds, expected, is_scored & ~is_drift, is_constant)
        scores.expected[:, k], scores.lower[:, k], scores.upper[:, k] = bounds.T
        value = self.history.values[:, t]
        is_outside = (value < scores.lower[:, k]) | (value > scores.upper[:, k])
        is_usual = is_outside & (scores.reason[:, k] == Reason.LEVEL) & (score < MAX_TRAINING_SCORE)
        scores.reason[is_usual, k] = Reason.USUAL
        scores.reason[is_usual & recurs, k] = Reason.RECURRING

    def _base_score(
        self, y: Floats, past: slice, expected: _Expected
    ) -> tuple[Floats, NDArray[np.bool_]]:
        """Return scores by Student's t or small counts, and a mask of those that recur."""
        now, few = expected.now, expected.few
        error = y - now.centre
        below, above = expected.freedom
        freedom = np.where(error < 0, below, above)
        score = tails.student_score(error / expected.width, freedom)
        if few.size:
            score[few] = expected.counted.score(np.expm1(y[few]))
            # Forecasts of single counts jump with each count, so measure the errors of counts from their mean.
            mean = np.log1p(expected.counted.mean)
            from_mean = (now.effect[few] - mean)[:, None]
            season = self.effects[few].take(np.maximum(self.slot[past], 0), axis=1)
            observed = np.where(self.excluded_from_tail[few, past], np.nan, self.moved[few, past])
            errors, surprises = now.errors.copy(), now.surprises.copy()
            errors[few] = now.flat[few, 1:] + from_mean
            surprises[few] = (observed - season)[:, 1:] + from_mean
            error[few], now = y[few] - mean, replace(now, errors=errors, surprises=surprises)
        rare = expected.rare
        if rare.rows.size:
            by_rows = rare.score(np.square(np.sin(y[rare.rows])))
            score[rare.rows] = np.fmax(score[rare.rows], by_rows)
        alarms = self.signs[:, past][:, 1:] != 0
        return tails.cap_recurring_errors(score, error, now, alarms, self._harmless_errors(past))

    def _harmless_errors(self, past: slice) -> Floats | None:
        """Return the errors of earlier points labeled as harmless, NaN for others; None if none is."""
        if self.is_harmless is None or not self.is_harmless[:, past].any():
            return None
        errors: Floats = np.where(
            self.is_harmless[:, past], self.y[:, past] - self.centre[:, past], np.nan
        )
        return errors

    def _drift(self, t: int, expected: _Expected) -> tuple[Floats, Floats, Floats]:
        """Return the score, starting level and usual spread of slow drifts, as `tails.drift` does.

        No drift is reported for times that stay the same, for values that the calendar predicts, or for
        series whose weekends are not known yet. In the first year of weeks and months, seasons are not
        known either. Unless partitions are days, a drift that goes on is not reported again, except once with more
        evidence.
        """
        c = self.column[t]
        signs = self.signs[:, c - self.windows.level : c]
        reach = tails.DRIFT_REACH_POINTS
        if self.grid.within_days:
            window = drift_window(self.grid)
            reach = tails.DRIFT_REPORT_DAYS * window
            score, start, spread = self._drift_of_days(c, expected, window)
        elif self.yearly is None:
            score, start, spread = tails.drift(
                expected.now, self.y[:, c], signs, expected.min_spread
            )
        else:
            score, start, spread = self.yearly.drift(self.y[:, c], expected.now, expected.width)
            score[expected.recovered | (signs[:, -1] != 0)] = 0
        score[~np.isnan(self.units.stays[:, t]) | expected.calendar] = 0
        started = np.where(score > 0, start, np.nan)
        score[self.dates.as_last_year(t, self.y[:, c], started, expected.width)] = 0
        rows = np.flatnonzero(score)
        score[rows[self._are_new(rows, c)]] = 0
        if self.grid.yearly:
            score[self.points < YEARLY_DRIFT_CYCLES * self.grid.cycle] = 0
        if not self.grid.daily:
            side = np.sign(self.y[:, c] - start)[:, None]
            earlier = (self.reported_drifts[:, c - reach : c] * side).max(axis=1)
            least = self._least_drift()
            score[(earlier >= least) | ((earlier > 0) & (score < least))] = 0
        return score, start, spread

    def _drift_of_days(
        self, c: np.intp, expected: _Expected, window: int
    ) -> tuple[Floats, Floats, Floats]:
        """Return the scores of drifts of parts of days, at the times of day at which they are looked for."""
        score, start, spread = (np.full(len(self.y), fill) for fill in (0.0, np.nan, np.nan))
        if (c - self.midnight) % max(self.grid.period // tails.DRIFT_TESTS_A_DAY, 1):
            return score, start, spread
        days = slice(c - tails.DRIFT_DAYS * window, c)
        path, weights = self._path(np.arange(len(self.y)), days, window)
        rows = tails.may_have_drifted_by_days(
            path, weights, self.signs[:, days], self.parts.spread, window
        )
        if not rows.size:
            return score, start, spread
        first = max(c - DRIFT_WINDOWS * window, self.windows.padding)
        past = slice(min(first, days.start), c)
        path, weights = self._path(rows, past, window)
        limits = np.stack(
            [
                self.parts.spread[rows],
                self._min_spread_of_day(rows, past, expected.min_spread[rows]),
                np.maximum(self.points[rows] / self.grid.cycle, 2),
            ]
        )
        value = self.y[rows, c]
        score[rows], start[rows], spread[rows] = tails.drift_of_days(
            path, weights, value, *limits, window=window
        )
        # A sum or a distinct count that follows the number of rows does not drift by itself.
        follows = np.isin(rows, np.concatenate([self.units.sums, self.kinds.distinct_counts]))
        if follows.any():
            own = rows[follows]
            per_row, start_per_row, _ = tails.drift_of_days(
                self._path_per_row(own, past, path[follows]),
                weights[follows],
                value[follows],
                *limits[:, follows],
                window=window,
            )
            same_side = (value[follows] - start_per_row) * (value[follows] - start[own]) > 0
            score[own] = np.where(same_side, np.minimum(score[own], per_row), 0)
        return score, start, spread

    def _season(self, rows: NDArray[np.intp], columns: slice) -> Floats:
        """Return the seasonal effects on some series and columns."""
        season: Floats = self.effects[rows].take(np.maximum(self.slot[columns], 0), axis=1)
        return season

    def _path(self, rows: NDArray[np.intp], past: slice, window: int) -> tuple[Floats, Floats]:
        """Return the training points and the current one without their season, and their weights.

        Alarms of the newest window count as deviations of `ALARM_SPREADS`, so that they are not lost in a drift.
        """
        columns, recent = slice(past.start, past.stop + 1), slice(past.stop - window, past.stop)
        parts = (np.arange(columns.start, columns.stop) - self.midnight) % self.grid.period
        model = self.parts.take(rows)
        noise = model.noise(self.inverse_rows[rows, columns], parts)
        values = self.usable[rows, columns]
        values[:, -1] = self.y[rows, past.stop]
        signs, newest = self.signs[rows, recent], values[:, -window - 1 : -1]
        alarms = self.centre[rows, recent] + ALARM_SPREADS * signs * (
            model.spread[:, None] * noise[:, -window - 1 : -1]
        )
        newest[:] = np.where(np.isnan(newest) & (signs != 0), alarms, newest)
        return values - self._season(rows, columns), 1 / np.square(noise)

    def _min_spread_of_day(self, rows: NDArray[np.intp], past: slice, min_spread: Floats) -> Floats:
        """Return the lower bounds of the spread of a mean of a day, given those of the current point.

        The bound of a night of few rows is too high for a day.
        """
        inverse = self.inverse_rows[rows, past.start : past.stop + 1]
        row_counts = np.divide(1, inverse, out=np.zeros_like(inverse), where=inverse > 0)
        usual = row_sums(row_counts) / np.maximum((row_counts > 0).sum(axis=1), 1)
        ratio = np.where(usual > 0, row_counts[:, -1] / np.maximum(usual, 1), 1)
        of_day: Floats = min_spread * np.sqrt(np.minimum(ratio, 1))
        return of_day

    def _path_per_row(self, rows: NDArray[np.intp], past: slice, path: Floats) -> Floats:
        """Return a path of whole days as values per row, from which the median of each time of day is removed."""
        columns = slice(past.start, past.stop + 1)
        inverse = self.inverse_rows[rows, columns]
        inverse = np.where(inverse > 0, inverse, 1)  # 1 if the number of rows is unknown
        per_row = path + self._season(rows, columns) + np.log(inverse)
        size = per_row.shape[1] // self.grid.period * self.grid.period
        by_time = per_row[:, -size:].reshape(len(rows), -1, self.grid.period)
        usual = median(by_time.transpose(0, 2, 1))[:, None]
        without_time: Floats = (by_time - usual).reshape(len(rows), -1)
        return without_time

    def _least_drift(self) -> float:
        """Return the score from which a drift is reported on its own, see `day_weights`."""
        tests = min(self.grid.period, tails.DRIFT_TESTS_A_DAY) if self.grid.within_days else 1
        return REPORTED_DRIFT_SCORE + math.log10(tests)

    def _constants(
        self, past: slice, alarms: NDArray[np.bool_], expected: _Expected
    ) -> tails.ConstantModel | None:
        """Return the model of the nearly constant series; None if no series is."""
        repeating = tails.has_repeats(self.unmuted[:, past])
        return tails.ConstantModel.fit(
            self._same_season_values(past, np.flatnonzero(repeating), expected),
            alarms,
            expected.now.centre,
            expected.min_spread,
            expected.now.flat + expected.now.effect[:, None],
            repeating=repeating,
            counts=self.kinds.counts,
            counts_of_values=self.kinds.counts_of_values,
            record=self.unmuted[:, past.stop - self.windows.record : past.stop],
        )

    def _same_season_values(
        self, past: slice, seasonal: NDArray[np.intp], expected: _Expected
    ) -> Floats:
        """Return the past values against which a value is tested for constancy; others are NaN.

        For seasonal series these are only values of slots with the same effect, such as the same hour or
        weekday. If a slot has few points, such as 14 Sundays, it is not constant, unless the whole past
        is constant at the expected value.

        Parameters
        ----------
        past : slice
            Columns of the past.
        seasonal : array of int
            The series that repeat values.
        expected : _Expected
        """
        now, values = expected.now, self.unmuted[:, past]
        seasonal = seasonal[np.ptp(self.effects[seasonal], axis=1) > expected.width[seasonal]]
        if not seasonal.size:
            return values
        past_effects = self.effects[seasonal].take(np.maximum(self.slot[past], 0), axis=1)
        effect, centre = now.effect[seasonal, None], now.centre[seasonal, None]
        reach = np.maximum(expected.width, 2 * expected.min_spread)[seasonal, None]
        is_same = np.abs(past_effects - effect) <= reach
        by_one = (
            np.abs(np.expm1(centre + past_effects - effect) - np.expm1(centre))
            < tails.COUNT_STEP_TOLERANCE
        )
        is_same |= self.kinds.counts[seasonal, None] & by_one
        is_rare = (is_same & ~np.isnan(values[seasonal])).sum(axis=1) < MATURE_POINTS
        is_usual = np.abs(median(values[seasonal]) - now.centre[seasonal]) <= reach[:, 0]
        is_same[is_rare] = is_usual[is_rare, None]
        values = values.copy()
        values[seasonal] = np.where(is_same, values[seasonal], np.nan)
        return values

    def _cap_records(self, c: int, y: Floats, now: Forecast, score: Floats) -> Floats:
        """Return scores, capped for extremes if the known past has two values that are as extreme.

        The largest values of a heavy-tailed column are rare, so the last few weeks are not enough.
        """
        extremes = self.kinds.extremes
        rows = extremes[score[extremes] > tails.RECORD_CHECK_SCORE]
        if not rows.size:
            return score
        past = self.unmuted[rows, c - self.windows.record : c]
        value, above = y[rows, None], (y[rows] > now.centre[rows])[:, None]
        as_extreme = np.where(above, past >= value, past <= value).sum(axis=1)
        limit = np.log10(now.points[rows] + 1)
        capped = score.copy()
        capped[rows] = np.where(
            as_extreme >= MIN_EARLIER_RECORDS, np.minimum(score[rows], limit), score[rows]
        )
        return capped

    def _expect(self, t: int) -> _Expected:
        """Return the forecast of a partition after all corrections that can explain its values."""
        c = self.column[t]
        now, y = self._forecast(t), self.y[:, c]
        few, counted = self._small_counts(now, slice(c - self.windows.level, c))
        now.centre[few] = np.log1p(counted.mean)
        forecast_centre = now.centre
        if self.yearly is None:
            centre = self._given_rows(self._repeated(now, c, y), c, y)
            centre = self._before_jumps(now, c, y, centre)
            now = replace(now, centre=centre, spread=self._second_week(now, c))
        else:
            centre = self.yearly.explain(int(c), y, now, self._width(t, now)[0])
            now = replace(now, centre=centre)
        width, min_spread = self._width(t, now)
        errors = self._recent_errors(c, now)
        now = replace(now, freedom=self._freedom(now, errors, width))
        by_date = self.dates.expected(t, y, now.centre, width)
        expected_level = self._expect_previous_level(c, y, by_date, now, width)
        # Small counts and rare events have their own forecast, unless a season or the calendar explains the value.
        error, remaining = np.abs(y - forecast_centre), np.abs(y - expected_level)
        is_own = (remaining > error / 2) | (remaining > SURPRISE_SPREADS * width) | (error == 0)
        rare = self._rare_shares(now, slice(c - self.windows.level, c), t)
        rare = rare.take(is_own[rare.rows])
        stays = self.units.stays[:, t]
        return _Expected(
            now=replace(now, centre=np.where(np.isnan(stays), expected_level, stays)),
            width=width,
            min_spread=min_spread,
            freedom=self._freedom_by_side(c, now, errors, width),
            few=few[is_own[few]],
            counted=counted.take(is_own[few]),
            rare=rare,
            calendar=by_date != now.centre,
            recovered=expected_level != by_date,
        )

    def _width(self, t: int, now: Forecast) -> tuple[Floats, Floats]:
        """Return the standard deviation of the next point, and its lower bound."""
        min_spread = min_spread_of(now.centre, self.history.weights[:, t], self.units.rows)
        min_spread[self.units.sums] = MIN_LOG_SPREAD
        same_time = min(MIN_TIME_SHARE * self.grid.step, MAX_SAME_TIME_SECONDS)
        min_spread[self.units.timed] = same_time
        mature_points = MATURE_POINTS if self.yearly is None else MATURE_YEARLY_POINTS
        is_mature = self.kinds.counts & (now.points >= mature_points)
        min_spread[is_mature] = np.minimum(
            min_spread, np.maximum(MIN_COUNT_SPREAD, self.kinds.max_spread_ratio * now.spread)
        )[is_mature]
        fallback = _fallback_spread(now, min_spread == 0, yearly=self.yearly is not None)
        # The errors of parts of days contain the chance that the lower bound states.
        combine = np.maximum if self.grid.within_days else np.hypot
        width = combine(now.spread, np.maximum(min_spread, fallback))
        if self.grid.within_days:
            is_new = self.points < DAYS_PER_WEEK * self.grid.period
            width = np.where(is_new, np.hypot(width, self.kinds.unknown_week), width)
            min_spread = np.where(is_new, np.hypot(min_spread, self.kinds.unknown_week), min_spread)
        return width, min_spread

    def _recent_errors(self, c: np.intp, now: Forecast) -> Floats:
        """Return the earlier errors of the level's points, without those of a run of alarms that goes on."""
        past = slice(c - self.windows.level + 1, c)
        is_left_out = tails.ongoing(self.signs[:, past] != 0)
        if self.grid.within_days:
            is_left_out |= self._is_young(past)
        errors: Floats = np.where(is_left_out, np.nan, now.surprises)
        return errors

    def _freedom_by_side(self, c: np.intp, now: Forecast, errors: Floats, width: Floats) -> Floats:
        """Return the degrees of freedom of errors below and above the expected value, of shape (2, series).

        Tails of both sides are learned from the errors of days, and of others only for series that can have heavy tails.
        """
        rows = slice(None) if self.grid.daily else np.flatnonzero(self.kinds.are_heavy)
        if self.grid.daily:
            errors = np.concatenate([self._errors_before(c), errors], axis=1)
        own = tails.freedom_by_side(
            errors[rows],
            width[rows],
            BAND_P_VALUE,
            alarmed=self.signs[rows, c - errors.shape[1] : c] != 0,
            is_heavy=self.kinds.are_heavy[rows],
        )
        freedom = np.tile(now.freedom, (2, 1))
        freedom[:, rows] = np.minimum(freedom[:, rows], own)
        return freedom

    def _errors_before(self, c: np.intp) -> Floats:
        """Return the errors of days before those of the level; a long memory tells tails apart more surely.

        Errors of the first weeks are too large.
        """
        past = slice(c - DATE_WINDOW_DAYS, c - self.windows.level + 1)
        is_young = np.arange(past.start, past.stop) < self.first_columns[:, None] + MATURE_POINTS
        is_left_out = self.excluded_from_tail[:, past] | is_young
        errors: Floats = np.where(is_left_out, np.nan, self.y[:, past] - self.centre[:, past])
        return errors

    def _freedom(self, now: Forecast, errors: Floats, width: Floats) -> Floats:
        """Return the degrees of freedom of errors, given the number of points and of unusual errors to both sides."""
        if self.yearly is not None:
            most = np.clip(now.points / YEARLY_POINTS_PER_FREEDOM, 2.5, MAX_FREEDOM)
            own = tails.tail_freedom(errors, width)
            return np.minimum(most, np.maximum(own, MIN_YEARLY_FREEDOM))
        if self.grid.within_days:
            start, decay = tails.PARTS_UNUSUAL_SPREADS, tails.PARTS_TAIL_DECAY
            return np.minimum(now.freedom, tails.tail_freedom(errors, width, decay, start))
        return now.freedom if self.grid.daily else np.minimum(now.freedom, MAX_NON_DAILY_FREEDOM)

    def _small_counts(self, now: Forecast, past: slice) -> tuple[NDArray[np.intp], CountForecast]:
        """Return the series that are small whole counts, and their forecasts."""
        rows = np.flatnonzero(self.kinds.counts & (now.centre < np.log1p(2 * SMALL_COUNT_MEAN)))
        if not rows.size:
            return rows, NO_COUNTS
        past_counts = np.expm1(self.y[rows, past])
        is_whole = np.isnan(past_counts) | (
            np.abs(past_counts - np.round(past_counts)) < WHOLE_NUMBER_TOLERANCE
        )
        rows = rows[is_whole.all(axis=1)]
        forecasts = CountForecast.from_past(
            np.maximum(np.expm1(now.flat[rows] + now.effect[rows, None]), 0),
            ~np.isnan(self.centre[rows, past]),
            MEAN_DAYS * self.grid.period if self.grid.within_days else MEAN_POINTS,
        )
        return rows[forecasts.small], forecasts.take(forecasts.small)

    def _rare_shares(self, now: Forecast, past: slice, t: int) -> RareShares:
        """Return the shares that consist of only a few rows, such as nulls, with their forecasts."""
        shares = np.square(np.sin(now.centre[self.kinds.shares]))
        row_counts = self.history.weights[self.kinds.shares, t]
        # Most shares are of too many events, which is cheap to see.
        events = np.minimum(shares, 1 - shares) * row_counts
        candidates = np.flatnonzero(events < 2 * SMALL_COUNT_MEAN)
        if not candidates.size:
            return NO_SHARES
        rows = self.kinds.shares[candidates]
        on_scale = now.flat[rows] + now.effect[rows, None]
        past_shares = restore(on_scale, ScaleRows({Scale.RATIO: slice(None)}))
        return RareShares.fit(
            rows, past_shares, self.row_counts[candidates, past], row_counts[candidates]
        )

    def _expect_previous_level(
        self, c: int, y: Floats, centre: Floats, now: Forecast, width: Floats
    ) -> Floats:
        """Return the expected values; the previous level for surprises near it, soon after a level shift."""
        expected = centre.copy()
        for i in np.flatnonzero(np.abs(y - centre) > SURPRISE_SPREADS * width):
            level = self.levels[i]
            offsets = np.array([offset for _, offset in self._recent_levels(int(i), c)])
            if not offsets.size:
                continue
            # An outage can deepen after its level was accepted, so also look at the points before the level.
            end = max(level.first - (c - self.windows.level), 0)
            before = median(now.level[[i], max(end - MIN_CYCLE_POINTS, 0) : end])[0]
            change = before - (now.centre[i] - now.effect[i])
            candidates = centre[i] - np.concatenate([offsets, offsets - change])
            distances = np.abs(y[i] - candidates)
            nearest = int(np.nanargmin(distances))
            if distances[nearest] <= SURPRISE_SPREADS * width[i]:
                expected[i] = candidates[nearest]
        return expected

    def _recent_levels(self, i: int, c: int) -> list[tuple[_Level, float]]:
        """Return the levels to which a series can return, newest first, with their distances from the value before.

        An outage can change its depth, so several new levels can precede the end of an incident.
        """
        levels, offset, level = [], 0.0, self.levels[i]
        returned = self._returned(i, c)
        last = level.accepted if returned is None else returned
        while c - last <= self.windows.recovery:
            offset += level.offset
            levels.append((level, offset))
            if level.previous is None:
                break
            level = level.previous
            last = level.accepted
        return levels

    def _repeated(self, now: Forecast, c: int, y: Floats) -> Floats:
        """Return the expected values; in a season's second cycle, the value one cycle before if nearer.

        A season's effects are known after two cycles. Until then its repetition is not a surprise. For
        partitions within days this includes the third cycle, because a first weekend that alarmed is not
        learned.
        """
        centre = now.centre
        for season in self.by_season.seasons:
            is_new = self.points < (FEW_CYCLES if self.grid.within_days else 2) * season.slots
            if is_new.any():
                previous = self.moved[:, c - season.slots]
                centre = np.where(
                    is_new & (np.abs(y - previous) < np.abs(y - centre)), previous, centre
                )
        return centre

    def _given_rows(self, centre: Floats, c: int, y: Floats) -> Floats:
        """Return the expected values; for distinct counts, those of as many rows if nearer.

        At night and after a new level of the rows, distinct counts of parts of days follow the rows. Those of days do so if
        the rows are few.
        """
        rows, log_rows = self.kinds.distinct_counts, self.log_rows
        if self.grid.yearly:
            return centre
        memory = self.cycles * self.grid.period
        if not self.grid.within_days:
            # The distinct values of many rows vary less than the rows, and can show a partial load that these do not.
            memory, is_small = self.windows.level, log_rows[:, c] < math.log(SMALL_COUNT_MEAN)
            rows, log_rows = rows[is_small], log_rows[is_small]
        if not rows.size:
            return centre
        past = slice(c - memory, c)
        usable = np.where(np.isnan(self.usable[rows, past]), np.nan, self.y[rows, past])
        by_rows = given_row_counts(y[rows], usable, log_rows[:, c], log_rows[:, past])
        given_rows = centre.copy()
        is_nearer = np.abs(y[rows] - by_rows) < np.abs(y[rows] - centre[rows])
        given_rows[rows] = np.where(is_nearer, by_rows, centre[rows])
        return given_rows

    def _before_jumps(self, now: Forecast, c: int, y: Floats, centre: Floats) -> Floats:
        """Return the expected values of days; after a surprise in the last three days, the value before it if nearer.

        A sale of two days that raised no alarm moves a level that follows the newest points. Its end is no loss.
        """
        if not self.grid.daily:
            return centre
        first = c - tails.TAIL_EVENT_POINTS
        errors = self.usable[:, first:c] - self.centre[:, first:c]
        is_jump = np.abs(errors) > SURPRISE_SPREADS * now.spread[:, None]
        is_jump &= self.signs[:, first:c] == 0
        rows = np.flatnonzero(is_jump.any(axis=1))
        columns = first + is_jump[rows].argmax(axis=1)
        season = self.effects[rows, np.maximum(self.slot[columns], 0)]
        before = self.centre[rows, columns] - season + now.effect[rows]
        is_nearer = np.abs(y[rows] - before) < np.abs(y[rows] - centre[rows])
        expected = centre.copy()
        expected[rows[is_nearer]] = before[is_nearer]
        return expected

    def _second_week(self, now: Forecast, c: int) -> Floats:
        """Return the spreads; in the second week of daily data, the spread of forecasts by `_repeated`.

        A weekend causes two large errors in seven, so the spread is based on the median error.
        """
        is_new = (now.points > DAYS_PER_WEEK) & (now.points < 2 * DAYS_PER_WEEK)
        if not self.grid.daily or not self.by_season.seasons or not is_new.any():
            return now.spread
        past = slice(c - self.windows.level + 1, c)
        week_before = slice(past.start - DAYS_PER_WEEK, past.stop - DAYS_PER_WEEK)
        repeated = np.abs(self.moved[is_new, past] - self.moved[is_new, week_before])
        errors = np.fmin(np.abs(now.errors[is_new]), repeated)
        spread = now.spread.copy()
        spread[is_new] = 1.4826 * median(errors) * NEW_POINT_INFLATION
        return np.fmin(spread, now.spread)

    # learning from a scored point

    def _learn(self, t: int, score: Floats, reason: NDArray[np.uint8], centre: Floats) -> None:
        c = self.column[t]
        if self._begins_day(t):
            self._refresh(c)
        now = None if self.yearly is None else self._yearly_forecast(t, self.yearly)
        alarm, teaches = self._keep(t, score, reason, centre)
        if self.yearly is not None and now is not None:
            expected = np.where(reason == _DRIFT_REASON, now.centre, centre)
            self.yearly.learn(int(c), self.y[:, c], now.centre, expected, self._width(t, now)[0])
        for i in np.flatnonzero(teaches & (reason == _RECOVERY_REASON)):
            self._return(int(i), t)
        alarmed = np.flatnonzero(alarm)
        for i in alarmed:
            # A new level that goes on moving is a drift, whose errors say nothing about the noise.
            level = self.levels[i]
            if c - level.accepted <= tails.DRIFT_LAG_POINTS:
                self.drifted[i, level.first : c + 1] |= self.signs[i, c] * level.offset > 0
        is_young = self._are_new(alarmed, c)
        groups = (alarmed[~is_young], alarmed[is_young])
        for group, (alarms, within) in zip(groups, self.windows.shift_rules, strict=True):
            first = c - within + 1
            recent = self.open[group, first : c + 1].sum(axis=1)
            for i in group[np.abs(recent) >= alarms]:
                self._shift(int(i), t, first)
        self.by_season.learn(t)

    def _are_new(self, rows: NDArray[np.intp], c: int) -> NDArray[np.bool_]:
        """Return a mask of the series that have fewer than `NEW_WEEKS` weeks of points, as of a column."""
        if not self.grid.within_days:
            return np.zeros(len(rows), dtype=bool)
        is_known = ~np.isnan(self.y[rows, c - self.windows.season : c])
        is_new: NDArray[np.bool_] = is_known.sum(axis=1) < NEW_WEEKS * self.grid.cycle
        return is_new

    def _learn_together(self, first: int, end: int, earlier_scores: Scores, centre: Floats) -> None:
        """Learn from several partitions at once if no series is `unsettled`, with the same result as `_learn`.

        ``centre`` begins with the first of these partitions.
        """
        day = max((t for t in range(first, end) if self._begins_day(t)), default=first)
        for begin, stop in ((first, day), (day, end)):
            if begin == stop:
                continue
            if self._begins_day(begin):
                self._refresh(self.column[begin])
            partitions = slice(begin, stop)
            expected = centre[:, begin - first : stop - first]
            self._keep(
                partitions,
                earlier_scores.score[:, partitions],
                earlier_scores.reason[:, partitions],
                expected,
            )
            self.by_season.learn_together(begin, stop)

    def _begins_day(self, t: int) -> bool:
        """Return whether a partition is the first of its day, if days have several partitions."""
        return self.grid.within_days and (t == 0 or bool(self.days[t] != self.days[t - 1]))

    def _keep(
        self, t: int | slice, score: Floats, reason: NDArray[np.uint8], centre: Floats
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Store scored points; return masks of the points that alarmed and of the training points."""
        c, muted = self._columns(t), self.history.muted
        y = self.y[:, c]
        # A drift belongs to the current level.
        is_high, is_drift = score >= MAX_TRAINING_SCORE, reason == _DRIFT_REASON
        alarm = (is_high & ~is_drift) | (reason == _RECURRING_REASON)
        self.drifted[:, c] = is_high & is_drift
        by_date = reason == _CALENDAR_REASON
        self.centre[:, c] = centre
        self.moved[:, c] = y
        self.signs[:, c] = self.open[:, c] = np.where(alarm, np.sign(y - centre), 0)
        is_reported = is_drift & (score >= REPORTED_DRIFT_SCORE)
        self.reported_drifts[:, c] = np.where(is_reported, score * np.sign(y - centre), 0)
        if self.grid.within_days:
            rows = self.kinds.counts_rows.reshape(-1, *[1] * (y.ndim - 1))
            self.inverse_rows[:, c] = np.where(
                rows, _inverse_counts(centre), self.inverse_rows[:, c]
            )
        explained = ~alarm & by_date  # the calendar's value differs from the level
        # Parts of days that alarm soon after each other are one incident, even if a point between them does not.
        reach = tails.TAIL_EVENT_POINTS if self.grid.within_days else 1
        before = [self.signs[:, self._columns(t, k)] for k in range(1, reach + 1)]
        repeats_alarm = alarm & (np.array(before) == self.signs[:, c]).any(axis=0)
        self.excluded_from_tail[:, c] = explained | repeats_alarm
        is_training = (
            ~alarm & ~explained & ~(self.is_holiday[t] & (score >= MAX_HOLIDAY_TRAINING_SCORE))
        )
        if muted is not None:  # excluded from the tail and from new levels
            is_training &= ~muted[:, t]
            self.excluded_from_tail[:, c] |= muted[:, t]
            self.open[:, c] = np.where(muted[:, t], 0, self.open[:, c])
        self.usable[:, c] = np.where(is_training, y, np.nan)
        self.filled[:, c] = np.where(by_date, np.nan, np.where(alarm, centre, y))
        return alarm, is_training

    def _columns(self, t: int | slice, before: int = 0) -> np.intp | slice | NDArray[np.intp]:
        """Return the columns of partitions, or the columns ``before`` positions earlier.

        Returns a slice, which avoids a copy, if the columns have no gaps.
        """
        c = self.column[t] - before
        if isinstance(t, slice) and c[-1] - c[0] == len(c) - 1:
            return slice(int(c[0]), int(c[-1]) + 1)
        return c

    def _shift(self, i: int, t: int, first: int) -> None:
        """Accept a level shift at or after column ``first``: move the past to the new level.

        Season and spread are kept.
        """
        c = int(self.column[t])
        recent = [level for level, _ in self._recent_levels(i, c)]
        first += int(np.flatnonzero(self.open[i, first : c + 1])[0])
        offset = np.nanmedian(self.y[i, first : c + 1] - self.centre[i, first : c + 1])
        self._move(i, first, float(offset))
        self.usable[i, first : c + 1] = self.y[i, first : c + 1]
        self.filled[i, first : c + 1] = self.y[i, first : c + 1]
        if self.yearly is not None:
            self.yearly.accept(i, first, c)
        previous = recent[0] if recent else None
        self.levels[i] = _Level(first, float(offset), c, previous=previous)
        self.shifts.append((i, t, int(np.searchsorted(self.column, first))))

    def _return(self, i: int, t: int) -> None:
        """Learn from a point that returned to an earlier level.

        The second such point ends the levels since then. The first alone may be a spike, so it teaches nothing.
        """
        c = int(self.column[t])
        first = self._returned(i, c)
        if first is not None:
            self._recover(i, t, first)
            return
        self.levels[i] = replace(self.levels[i], returned=c)
        self.usable[i, c] = self.filled[i, c] = np.nan
        self.excluded_from_tail[i, c] = True

    def _returned(self, i: int, c: int) -> int | None:
        """Return the column before ``c`` at which a series returned to an earlier level; None if the level went on."""
        first = self.levels[i].returned
        went_on = first is None or not np.isnan(self.usable[i, first:c]).all()
        return None if went_on else first

    def _recover(self, i: int, t: int, returned: int) -> None:
        """End levels that were an incident: move the past back, and exclude the levels from training.

        Their points end before the column ``returned``.
        """
        c = int(self.column[t])
        levels, now = self._recent_levels(i, c), self._forecast(t)
        distances = [abs(self.y[i, c] - (now.centre[i] - offset)) for _, offset in levels]
        ended = levels[: int(np.argmin(distances)) + 1]
        for level, _ in ended:
            self._move(i, level.first, -level.offset)
            self.usable[i, level.first : returned] = np.nan
            self.excluded_from_tail[i, level.first + 1 : returned] = True
            self.filled[i, level.first : c] -= level.offset
            if self.yearly is not None:
                self.yearly.leave(i, level.first, c, level.offset)
        self.levels[i] = ended[-1][0].previous or _Level()
        self.usable[i, returned] = self.filled[i, returned] = self.y[i, returned]
        self.excluded_from_tail[i, returned] = False

    def _move(self, i: int, end: int, offset: float) -> None:
        """Move the past of a series, before column ``end``, to another level."""
        for past in (self.usable, self.moved, self.filled):
            past[i, :end] += offset
        self.open[i] = 0
        self.levels[i] = _Level()
        if self.yearly is not None:
            self._latest = None
            self.yearly.move(i, end, offset)

    def _restart(self, t: int) -> None:
        """Move the past of series for which a label begins a new level at this partition."""
        restarts = self.history.restarts
        if restarts is None or not restarts[:, t].any():
            return
        offsets = self.y[:, self.column[t]] - self._forecast(t).centre
        for i in np.flatnonzero(restarts[:, t] & ~np.isnan(offsets)):
            self._move(int(i), int(self.column[t]), float(offsets[i]))
