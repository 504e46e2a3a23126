"""Sequential scoring of several series, the algorithm of `Seasonal`.

`Walk` goes from one partition to the next: it forecasts the values, scores them and learns from them.
`Units` converts values of metrics to the scales on which they are compared, and back. Times are
compared with the beginning of their partitions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from tidegauge.analyzers.core.metric import Scale
from tidegauge.repository.detectors.base import History, Reason, Scores
from tidegauge.repository.detectors.rules import counts_values
from tidegauge.repository.detectors.season_effects import (
    FEW_CYCLES,
    LONG,
    SHORT,
    SURPRISE,
    TEACHES_BELOW,
    DateEffects,
    SeasonEffects,
    first_training_partition,
    lookback_of,
    margin_of,
    padding_of,
    shift_rule,
)
from tidegauge.repository.numerics import tails
from tidegauge.repository.numerics.arrays import median
from tidegauge.repository.numerics.forecasts import (
    LEAST_COUNT,
    REPEATED,
    Forecast,
    ScaleRows,
    forecast,
    least_spread,
    month_slots,
    restore,
    rolled_days,
    rows_of,
    transform,
)
from tidegauge.repository.numerics.grid import WEEK, WEEKDAYS, WEEKS, Grid
from tidegauge.repository.numerics.tails import NO_COUNTS, SMALL_COUNT_MEAN, CountForecast

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidegauge.repository.numerics.arrays import Floats


STEPS = 7
"""Last changes of a time by which it moves along with its partitions, or stays where it is."""


class Units:
    """Scales of a history's series. Times are those since their partition began: of a day, the time of day.

    Attributes
    ----------
    rows : ScaleRows
    timed : array of int
        The series that are times.
    stays : array of float, shape (series, partitions)
        Where a time stayed as it was through most of the changes before a partition: that time, on the
        scale; else NaN. The first date of a table that is copied whole every day stays.
    """

    def __init__(self, history: History) -> None:
        self.rows = ScaleRows.from_scales(history.scales)
        self.timed: NDArray[np.intp] = rows_of(Scale.TIME, history.scales)
        seconds = history.times.astype("M8[s]").astype(float)
        self._began: Floats = np.where(np.isnat(history.times), 0, seconds)
        self.stays: Floats = np.full(history.values.shape, np.nan)
        for i in self.timed:
            self.stays[i] = _last_that_stayed(history.values[i], self._began) - self._began

    def transformed(self, values: Floats, partitions: slice) -> Floats:
        """Return values of some partitions on their scales."""
        if self.timed.size:
            values = values.copy()
            values[self.timed] -= self._began[partitions]
        return transform(values, self.rows)

    def restored(self, values: Floats, t: int) -> Floats:
        """Return values of a partition in the metrics' units."""
        found = restore(values, self.rows)
        found[self.timed] += self._began[t]
        return found


def _last_that_stayed(values: Floats, began: Floats) -> Floats:
    """Return the last time before each partition, NaN where most times move along with the partitions."""
    found = np.full(len(values), np.nan)
    known = np.flatnonzero(np.isfinite(values))
    change = np.diff(values[known])
    stayed = np.abs(change) < np.abs(change - np.diff(began[known]))
    count = np.concatenate([[0], np.cumsum(stayed)])
    place = np.searchsorted(known, np.arange(len(values)))  # known points before each
    last = np.maximum(place - 1, 0)  # changes before each
    first = np.maximum(last - STEPS, 0)
    most = 2 * (count[last] - count[first]) > last - first
    found[most] = values[known[place[most] - 1]]
    return found


AUTO = "auto"
SEASONS = (AUTO, "day", "week", "month", "year")
"""Seasons that can be looked for: all that the partitions can have, or these."""
LEARNING = 7
"""Earlier points required before a point is scored."""
HOLIDAY_TEACHES_BELOW = 1.3
"""The same on holidays, where a point need not be an anomaly to be unsuitable for training."""
REASON_ABOVE = 1.0
"""Score above which a point has a reason."""
BAND = 0.1 / 450
"""P-value at the band's limits: that by which `FalseDiscoveryRate` decides on a series alone."""
NEW_WEEKS = 2.5
"""Weeks of points below which effects of the week are unknown."""
SURE_WEEKS = 4
"""Weeks of points from which these effects are so sure that what they leave can be a drift."""
RECOVERY = 4
"""Cycles after a level shift within which the level before it is no surprise."""
WHOLE = 1e-6
"""Distance from a whole number within which a count is one."""
SETTLED, CALMER = 28, 3.0
"""Points from which a count's spread is at most so many times the observed one, and a season's value constant."""
_DRIFT, _CALENDAR, _RECOVERY = map(int, (Reason.DRIFT, Reason.CALENDAR, Reason.RECOVERY))
"""As numbers: arrays of them are compared with thousands of times."""
WEEK_UNKNOWN = 0.25
"""Standard deviation of the effects of weekdays, of a logarithm, while no week has passed."""
INFLATION = 1.3
"""Ratio of a new point's spread to that of errors, where few points are known."""
RECORDS = 2
"""Earlier values as extreme as an extreme by which it is no news."""
LEAST_TIME = 0.01
"""Share of the step between partitions within which times of day are the same."""


def _tiny(now: Forecast, some: NDArray[np.bool_]) -> Floats:
    """Return a small fallback spread, larger for the series whose scale implies no lower bound."""
    tiny = 1e-9 * np.fmax(np.abs(now.centre), 1e-6)
    if some.any():
        around = median(np.abs(now.flat[some] - (now.centre - now.effect)[some, None]))
        tiny[some] = np.fmax(0.01 * around, tiny[some])
    return tiny


def _limit(freedom: Floats) -> Floats:
    """Return the limits of the band in spreads; most series have the same degrees of freedom."""
    kinds, of = np.unique(freedom, return_inverse=True)
    limits: Floats = np.asarray(special.stdtrit(kinds, 1 - BAND / 2), dtype=np.float64)
    return limits[of]


def _looked_for(slots: int, grid: Grid, wanted: Sequence[str]) -> bool:
    """Return whether a season of a grid is among those to look for."""
    name = "week" if slots == grid.cycle else "day"
    return bool({AUTO, "year" if grid.yearly else name} & set(wanted))


@dataclass(frozen=True)
class _Level:
    """A level that a series took up: its first column, its distance from the one before, and when."""

    first: int = 0
    by: float = 0.0
    at: int = -(10**9)


@dataclass(frozen=True)
class _Expected:
    """Expectation of one partition; arrays are of shape (series,).

    Attributes
    ----------
    now : Forecast
    width, least : array of float
        The standard deviation of the next point, and its lower bound.
    few : array of int
        The series that are small counts, judged by their own distribution.
    counted : CountForecast
        Of these.
    calendar, recovered : array of bool
        Where the calendar, or the level before the last shift, is expected.
    """

    now: Forecast
    width: Floats
    least: Floats
    few: NDArray[np.intp]
    counted: CountForecast
    calendar: NDArray[np.bool_]
    recovered: NDArray[np.bool_]


class Walk:
    """State of one sequential scoring of several series.

    Arrays have one column per grid column, preceded by empty ones.

    Parameters
    ----------
    history : History
    cycles : int
    wanted : sequence of str
        Seasons to look for.
    least_rise : float
        Distance above the expected value up to which a point is none to speak of.
    start : int
        First partition to score; those before are learned from as they were scored.

    Attributes
    ----------
    moved : array
        The transformed values, moved to the present level after level shifts.
    usable : array
        The training points among them; others are NaN.
    filled : array
        The transformed values as `moved`; the expected ones where a point alarmed.
    centre, signs : array
        The expected values, and 1 or -1 where a point alarmed.
    told : array of bool
        Points whose distance says nothing of the tail: the calendar explains it, or an alarm before.
    open : array
        Alarms that may still become a level shift.
    levels : list of _Level
        The last level that each series took up.
    shifts : list
        Accepted level shifts: series, partition, and the first partition of the new level.
    """

    def __init__(
        self,
        history: History,
        cycles: int,
        wanted: Sequence[str] = (AUTO,),
        least_rise: float = -np.inf,
        start: int = 0,
    ) -> None:
        self.history = history
        self.least_rise = least_rise
        self.start = start
        grid = history.grid or Grid.from_times(history.times)
        self.grid = grid
        self.cycles = cycles
        self.memory, self.learned = lookback_of(grid, cycles)
        self.margin = margin_of(grid, cycles)
        padding = padding_of(grid, cycles, start)
        self.column = padding + grid.column
        self.distances = np.array([scale is Scale.DISTANCE for scale in history.scales], dtype=bool)
        self.counts = np.array([scale is Scale.COUNT for scale in history.scales], dtype=bool)
        self.of_values = np.ones(len(self.counts), dtype=bool)
        if history.series:
            self.of_values &= [counts_values(row["kind"], row["name"]) for row in history.series]
        # Counts and shares of rows have tails of their own; a storm among them is no noise.
        positive = np.array([scale is Scale.POSITIVE for scale in history.scales], dtype=bool)
        of_one_row = np.zeros(len(positive), dtype=bool)
        if history.extremes is not None:
            of_one_row |= history.extremes
        self.heavy, self.extremes = (
            np.flatnonzero(positive | of_one_row),
            np.flatnonzero(of_one_row),
        )
        logs = [scale in {Scale.COUNT, Scale.POSITIVE} for scale in history.scales]
        self.unknown_week = np.where(logs, WEEK_UNKNOWN, 0.0)
        shape = (len(history.values), padding + grid.size)
        self.units = Units(history)
        self.y = np.full(shape, np.nan)
        self.y[:, self.column] = self.units.transformed(history.values, slice(None))
        self.moved, self.usable, self.filled, self.centre = (
            np.full(shape, np.nan) for _ in range(4)
        )
        self.signs, self.open = np.zeros(shape), np.zeros(shape)
        self.told = np.zeros(shape, dtype=bool)
        self.seen = self.y  # but for what labels exclude
        if history.muted is not None:
            self.seen = self.y.copy()
            self.seen[:, self.column] = np.where(history.muted, np.nan, self.y[:, self.column])
        self.shifts: list[tuple[int, int, int]] = []
        self.levels = [_Level() for _ in range(shape[0])]
        known = ~np.isnan(self.y)
        self.begun = np.where(known.any(axis=1), known.argmax(axis=1), shape[1])
        self.recovery = RECOVERY * min(max(grid.period, SHORT), LONG)
        self.learning = max(LEARNING, grid.period) if grid.within_days else LEARNING
        self.shift_rules = [shift_rule(grid, new=new) for new in (False, True)]
        slots = [one for one in grid.slots(history.times) if _looked_for(one[0], grid, wanted)]
        self.by_season = SeasonEffects(self, slots)
        self.slot = self.by_season.slot
        self.effects = np.zeros((len(history.values), slots[-1][0] if slots else 1))
        self.points = np.zeros(len(history.values), dtype=np.intp)
        self.days = history.times.astype("M8[D]")
        self.dates = DateEffects(
            self,
            month_slots(self.days, history.free_days) if {AUTO, "month"} & set(wanted) else None,
            np.is_busday(self.days, holidays=history.free_days),
            rolled_days(self.days, history.free_days),
            enough=1 if "month" in wanted else REPEATED,
            yearly=bool({AUTO, "year"} & set(wanted)),
        )
        self.free = np.zeros(len(self.days), dtype=bool)
        if history.holidays and not grid.yearly:  # a holiday explains no week and no month
            self.free = np.array([bool(day) for day in history.holidays], dtype=bool)

    def run(self, known: Scores | None = None, *, settled: bool = False) -> Scores:
        """Score the partitions from `start` on, given the scores of those before.

        ``settled`` says that none of the series is `unsettled`.
        """
        h, start = self.history, self.start
        if known is not None:
            self._relearn(start, known, settled=settled)
        scores = Scores.unscored((len(self.y), len(h.times) - start))
        for t in range(start, len(h.times)):
            self._restart(t)
            self._score(t, scores, t - start)
            k = t - start
            centre = self.units.transformed(scores.expected[:, [k]], slice(t, t + 1))[:, 0]
            self._learn(t, scores.score[:, k], scores.reason[:, k], centre)
        return scores

    def _relearn(self, start: int, known: Scores, *, settled: bool) -> None:
        """Learn from the partitions before `start`, as they were scored."""
        h = self.history
        # A restart moves the whole past by what was expected then.
        first = (
            0 if h.restarts is not None else first_training_partition(self.grid, self.cycles, start)
        )
        centre = self.units.transformed(known.expected[:, first:start], slice(first, start))
        if settled:
            self._learn_together(first, start, known, centre)
            return
        for t in range(first, start):
            self._restart(t)
            self._learn(t, known.score[:, t], known.reason[:, t], centre[:, t - first])

    def _forecast(self, t: int) -> Forecast:
        c = self.column[t]
        if not self.grid.within_days:
            self._refresh(c)
        return self._ahead(c, max(self.slot[c], 0))

    def _ahead(self, c: int, slot: int) -> Forecast:
        """Return the forecast of a column, of a slot of the longest season."""
        past = slice(c - self.memory, c)
        season = self.effects.take(np.maximum(self.slot[past], 0), axis=1)
        effect = self.effects[:, slot]
        known = np.where(self.told[:, past], np.nan, self.moved[:, past])
        return forecast(self.usable[:, past], known, season, effect)

    def after(self) -> Forecast:
        """Return the forecast of the partition after the last, seasonal effects apart."""
        end = self.y.shape[1]
        self._refresh(end)
        now = self._ahead(end, 0)
        return replace(now, centre=now.centre - now.effect)

    def _refresh(self, c: int) -> None:
        """Compute the effects of all slots anew, as of a column."""
        if self.by_season.seasons:
            past = slice(c - self.learned, c)
            self.points = (~np.isnan(self.usable[:, past])).sum(axis=1)
            self.effects = self.by_season.effects(c, self.points)

    def _score(self, t: int, scores: Scores, k: int) -> None:
        c = self.column[t]
        expected = self._expect(t)
        now, width, few = expected.now, expected.width, expected.few
        past = slice(c - self.memory, c)
        y = self.y[:, c]
        off = np.abs(y - now.centre)
        score = tails.student_score(off / width, now.freedom)
        heavy = self.heavy
        alarms = self.signs[:, past] != 0
        lasting = tails.ongoing(alarms[heavy, 1:])  # no example of what it is part of
        errors = np.where(lasting, np.nan, now.surprises[heavy])
        tail = tails.HeavyTail.from_errors(errors, width[heavy])
        score[heavy] = np.minimum(score[heavy], tail.score(off[heavy] / width[heavy]))
        if few.size:
            score[few] = expected.counted.score(np.expm1(y[few]))
        score = tails.cap_recurring_errors(score, off, now)
        moving, before, step = tails.drift(now, y, self.signs[:, past], expected.least)
        moving[~np.isnan(self.units.stays[:, t]) | expected.calendar] = 0
        some = np.flatnonzero(moving)
        moving[some[self._are_new(some, c, SURE_WEEKS)]] = 0  # a weekend is no drift
        drifts = moving > score
        score = np.maximum(score, moving)
        repeating = tails.repeats(self.seen[:, past])
        atoms, constant = tails.score_constants(
            score,
            self._alike(past, np.flatnonzero(repeating), expected),
            repeating,
            y,
            alarms,
            expected.least,
            self.counts,
            self.of_values,
            now.centre,
            -math.log10(BAND),
        )
        self._cap_records(c, y, now, score)
        # A weaker drift leaves the band, and what is said of the point, where they were.
        drifts &= ~atoms & (score >= TEACHES_BELOW)
        centre = np.where(drifts, before, now.centre)
        score[self.distances & (y < now.centre)] = 0  # a smaller distance is no anomaly
        score[y <= centre + self.least_rise] = 0
        fit = ~np.isnan(off + score) & (now.points >= self.learning)
        if self.history.restarts is not None:
            fit &= ~self.history.restarts[:, t]
        scores.score[:, k] = np.where(fit, score, np.nan)
        reason = np.where(drifts, Reason.DRIFT, Reason.LEVEL)
        reason[atoms] = Reason.CONSTANT
        reason = np.where(fit & (score > REASON_ABOVE), reason, Reason.NONE)
        reason = np.where(fit & expected.calendar, Reason.CALENDAR, reason)
        scores.reason[:, k] = np.where(fit & expected.recovered, Reason.RECOVERY, reason)
        limit = _limit(now.freedom)
        far = limit.copy()
        far[heavy] = np.maximum(limit[heavy], tail.limit(BAND))
        reach = np.where(drifts, step * limit, width * far)
        usual = np.stack([centre, centre - reach, centre + reach], axis=1)
        usual[atoms, 1:] = constant[atoms]
        bounds = self.units.restored(np.where(fit[:, None], usual, np.nan), t)
        bounds[np.isposinf(usual) | np.isinf(bounds)] = np.nan  # no number is outside
        if few.size:
            shown = (fit & ~drifts & ~atoms)[few]
            bounds[few[shown], 1:] = expected.counted.taken(shown).limits(BAND)
        scores.expected[:, k], scores.lower[:, k], scores.upper[:, k] = bounds.T

    def _alike(self, past: slice, some: NDArray[np.intp], expected: _Expected) -> Floats:
        """Return the past without what labels exclude; of some series, what the season makes alike.

        An hour of the day is not constant by the nights, nor a Wednesday by the weekends. Of a few
        points, such as the Sundays of 14 weeks, none is constant, unless all of the past is, at what is expected.
        """
        now, seen = expected.now, self.seen[:, past]
        some = some[np.ptp(self.effects[some], axis=1) > expected.width[some]]
        if not some.size:
            return seen
        other = self.effects[some].take(np.maximum(self.slot[past], 0), axis=1)
        effect, centre = now.effect[some, None], now.centre[some, None]
        reach = np.maximum(expected.width, 2 * expected.least)[some, None]
        alike = np.abs(other - effect) <= reach
        by_one = np.abs(np.expm1(centre + other - effect) - np.expm1(centre)) < tails.BY_ONE
        alike |= self.counts[some, None] & by_one
        few = (alike & ~np.isnan(seen[some])).sum(axis=1) < SETTLED
        usual = np.abs(median(seen[some]) - now.centre[some]) <= reach[:, 0]
        alike[few] = usual[few, None]
        seen = seen.copy()
        seen[some] = np.where(alike, seen[some], np.nan)
        return seen

    def _cap_records(self, c: int, y: Floats, now: Forecast, score: Floats) -> None:
        """Cap scores of extremes that had as extreme values twice, in all of the past that is known.

        The largest of a heavy-tailed column are rare, so that those of the last weeks tell little.
        """
        some = self.extremes[score[self.extremes] > tails.LOOK]
        if not some.size:
            return
        past = self.seen[some, c - self.margin : c]
        value, above = y[some, None], (y[some] > now.centre[some])[:, None]
        as_extreme = np.where(above, past >= value, past <= value).sum(axis=1)
        usual = np.log10(now.points[some] + 1)
        score[some] = np.where(as_extreme >= RECORDS, np.minimum(score[some], usual), score[some])

    def _expect(self, t: int) -> _Expected:
        """Return the forecast of a partition, after all that may explain its values."""
        c = self.column[t]
        now, y = self._forecast(t), self.y[:, c]
        few, counted = self._small_counts(now, slice(c - self.memory, c))
        now.centre[few] = np.log1p(counted.mean)
        mean = now.centre[few]
        centre = self._between_weeks(self._repeated(now, c, y), now.spread, c, y)
        now = replace(now, centre=centre, spread=self._second_week(now, c))
        width, least = self._width(t, now)
        by_date = self.dates.expected(t, y, now.centre, width)
        settled = self._before_shift(c, y, by_date, width)
        own = settled[few] == mean  # neither a season's nor the calendar's
        stays = self.units.stays[:, t]
        return _Expected(
            now=replace(now, centre=np.where(np.isnan(stays), settled, stays)),
            width=width,
            least=least,
            few=few[own],
            counted=counted.taken(own),
            calendar=by_date != now.centre,
            recovered=settled != by_date,
        )

    def _width(self, t: int, now: Forecast) -> tuple[Floats, Floats]:
        """Return the standard deviation of the next point, and its lower bound."""
        least = least_spread(now.centre, self.history.weights[:, t], self.units.rows)
        least[self.units.timed] = LEAST_TIME * self.grid.step
        settled = self.counts & (now.points >= SETTLED)
        least[settled] = np.minimum(least, np.maximum(LEAST_COUNT, CALMER * now.spread))[settled]
        width = np.hypot(now.spread, np.maximum(least, _tiny(now, least == 0)))
        if self.grid.within_days:
            new = self.points < WEEKDAYS * self.grid.period
            width = np.where(new, np.hypot(width, self.unknown_week), width)
            least = np.where(new, np.hypot(least, self.unknown_week), least)
        return width, least

    def _small_counts(self, now: Forecast, past: slice) -> tuple[NDArray[np.intp], CountForecast]:
        """Return the series that are small whole counts, and their forecasts."""
        some = np.flatnonzero(self.counts & (now.centre < np.log1p(2 * SMALL_COUNT_MEAN)))
        if not some.size:
            return some, NO_COUNTS
        seen = np.expm1(self.y[some, past])
        whole = np.isnan(seen) | (np.abs(seen - np.round(seen)) < WHOLE)
        some = some[whole.all(axis=1)]
        found = CountForecast.from_past(
            np.maximum(np.expm1(now.flat[some] + now.effect[some, None]), 0),
            ~np.isnan(self.centre[some, past]),
        )
        return some[found.small], found.taken(found.small)

    def _before_shift(self, c: int, y: Floats, centre: Floats, width: Floats) -> Floats:
        """Return the expected values; of surprises soon after a level shift those before it, if near."""
        found = centre.copy()
        for i in np.flatnonzero(np.abs(y - centre) > SURPRISE * width):
            level = self.levels[i]
            before = centre[i] - level.by
            if c - level.at <= self.recovery and abs(y[i] - before) <= SURPRISE * width[i]:
                found[i] = before
        return found

    def _repeated(self, now: Forecast, c: int, y: Floats) -> Floats:
        """Return the expected values; in a season's second cycle those of the first, where nearer.

        A season's effects are known after two cycles. Until then its repetition is no surprise. Of
        parts of days neither is it in the third: a first weekend that alarmed taught nothing.
        """
        centre = now.centre
        for season in self.by_season.seasons:
            new = self.points < (FEW_CYCLES if self.grid.within_days else 2) * season.slots
            if new.any():
                before = self.moved[:, c - season.slots]
                centre = np.where(new & (np.abs(y - before) < np.abs(y - centre)), before, centre)
        return centre

    def _between_weeks(self, centre: Floats, spread: Floats, c: int, y: Floats) -> Floats:
        """Return the expected values; of surprises in the year of weeks what is between its neighbours.

        A week of the year begins up to six days earlier or later than it did in other years.
        """
        slot = self.slot[c]
        if not self.by_season.seasons or self.grid.step != WEEK or slot < 0:
            return centre
        near = self.effects[:, np.arange(slot - 1, slot + 2) % WEEKS] - self.effects[:, [slot]]
        between = np.clip(y, centre + near.min(axis=1), centre + near.max(axis=1))
        return np.where(np.abs(y - centre) > SURPRISE * spread, between, centre)

    def _second_week(self, now: Forecast, c: int) -> Floats:
        """Return the spreads; in the second week of days that of forecasts by `_repeated`.

        A weekend is two large errors in seven, so that of the middle one is taken.
        """
        new = (now.points > WEEKDAYS) & (now.points < 2 * WEEKDAYS)
        if not self.grid.daily or not self.by_season.seasons or not new.any():
            return now.spread
        past = slice(c - self.memory + 1, c)
        before = slice(past.start - WEEKDAYS, past.stop - WEEKDAYS)
        repeated = np.abs(self.moved[new, past] - self.moved[new, before])
        errors = np.fmin(now.errors[new], repeated)
        spread = now.spread.copy()
        spread[new] = 1.4826 * median(errors) * INFLATION
        return np.fmin(spread, now.spread)

    # learning from a scored point

    def _learn(self, t: int, score: Floats, reason: NDArray[np.uint8], centre: Floats) -> None:
        c = self.column[t]
        if self._begins_day(t):
            self._refresh(c)
        alarm, teaches = self._keep(t, score, reason, centre)
        for i in np.flatnonzero(teaches & (reason == _RECOVERY)):
            self._recover(int(i), int(c))
        some = np.flatnonzero(alarm)
        young = self._are_new(some, c)
        groups = (some[~young], some[young])
        for group, (alarms, within) in zip(groups, self.shift_rules, strict=True):
            first = c - within + 1
            recent = self.open[group, first : c + 1].sum(axis=1)
            for i in group[np.abs(recent) >= alarms]:
                self._shift(int(i), t, first)
        self.by_season.learn(t)

    def _are_new(
        self, some: NDArray[np.intp], c: int, weeks: float = NEW_WEEKS
    ) -> NDArray[np.bool_]:
        """Return which of some series have fewer points than so many weeks have, as of a column."""
        if not self.grid.within_days:
            return np.zeros(len(some), dtype=bool)
        known = ~np.isnan(self.y[some, c - self.learned : c])
        found: NDArray[np.bool_] = known.sum(axis=1) < weeks * self.grid.cycle
        return found

    def _learn_together(self, first: int, end: int, known: Scores, centre: Floats) -> None:
        """Learn from several partitions, where none is `unsettled`, as `_learn` does from each.

        ``centre`` begins with the first of them.
        """
        day = max((t for t in range(first, end) if self._begins_day(t)), default=first)
        for begin, until in ((first, day), (day, end)):
            if begin == until:
                continue
            if self._begins_day(begin):
                self._refresh(self.column[begin])
            some = slice(begin, until)
            expected = centre[:, begin - first : until - first]
            self._keep(some, known.score[:, some], known.reason[:, some], expected)
            self.by_season.learn_together(begin, until)

    def _begins_day(self, t: int) -> bool:
        """Return whether a partition is the first of its day, if days have several."""
        return self.grid.within_days and (t == 0 or bool(self.days[t] != self.days[t - 1]))

    def _keep(
        self, t: int | slice, score: Floats, reason: NDArray[np.uint8], centre: Floats
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Keep scored points; return masks of those that alarmed, and of those to learn from."""
        c, muted = self._columns(t), self.history.muted
        y = self.y[:, c]
        alarm = (score >= TEACHES_BELOW) & (reason != _DRIFT)  # a drift is the current level
        by_date = reason == _CALENDAR
        self.centre[:, c] = centre
        self.moved[:, c] = y
        self.signs[:, c] = self.open[:, c] = np.where(alarm, np.sign(y - centre), 0)
        explained = ~alarm & by_date  # which is not the level
        again = alarm & (self.signs[:, self._columns(t, 1)] == self.signs[:, c])
        self.told[:, c] = explained | again
        teaches = ~alarm & ~explained & ~(self.free[t] & (score >= HOLIDAY_TEACHES_BELOW))
        if muted is not None:  # neither an example of the tail, nor of a new level
            teaches &= ~muted[:, t]
            self.told[:, c] |= muted[:, t]
            self.open[:, c] = np.where(muted[:, t], 0, self.open[:, c])
        self.usable[:, c] = np.where(teaches, y, np.nan)
        self.filled[:, c] = np.where(by_date, np.nan, np.where(alarm, centre, y))
        return alarm, teaches

    def _columns(self, t: int | slice, before: int = 0) -> np.intp | slice | NDArray[np.intp]:
        """Return the columns of partitions, or those so many before each.

        As a slice, which copies nothing, if there is no gap between them.
        """
        c = self.column[t] - before
        if isinstance(t, slice) and c[-1] - c[0] == len(c) - 1:
            return slice(int(c[0]), int(c[-1]) + 1)
        return c

    def _shift(self, i: int, t: int, first: int) -> None:
        """Accept a level shift since some column: move the past to the new level, keeping season and spread."""
        c = int(self.column[t])
        first += int(np.flatnonzero(self.open[i, first : c + 1])[0])
        by = np.nanmedian(self.y[i, first : c + 1] - self.centre[i, first : c + 1])
        self._move(i, first, float(by))
        self.usable[i, first : c + 1] = self.y[i, first : c + 1]
        self.filled[i, first : c + 1] = self.y[i, first : c + 1]
        self.levels[i] = _Level(first, float(by), c)
        self.shifts.append((i, t, int(np.searchsorted(self.column, first))))

    def _recover(self, i: int, c: int) -> None:
        """End a level that turned out to be an incident: move the past back, and learn nothing of it."""
        level = self.levels[i]
        self._move(i, level.first, -level.by)
        self.usable[i, level.first : c] = np.nan
        self.told[i, level.first + 1 : c] = True
        self.filled[i, level.first : c] -= level.by

    def _move(self, i: int, until: int, by: float) -> None:
        """Move the past of a series to another level."""
        for past in (self.usable, self.moved, self.filled):
            past[i, :until] += by
        self.open[i] = 0
        self.levels[i] = _Level()

    def _restart(self, t: int) -> None:
        """Move the past to the new level where a label says that one begins."""
        restarts = self.history.restarts
        if restarts is None or not restarts[:, t].any():
            return
        by = self.y[:, self.column[t]] - self._forecast(t).centre
        for i in np.flatnonzero(restarts[:, t] & ~np.isnan(by)):
            self._move(int(i), int(self.column[t]), float(by[i]))
