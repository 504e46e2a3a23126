"""The default detector: a robust seasonal forecast on the metric's variance-stabilized scale.

Each point is scored from earlier points only, without those that alarmed themselves: the metric is
transformed by its scale (`scales`); the effect of the weekday (or hour) is the median of that
weekday's deviations from a running median, used as far as it explains anything; the level is the
median of the last few points, with the window that would have predicted best; the spread is that of
such predictions' errors, and never below what the number of rows behind the value implies; and the
tail is Student's t, heavier where little is known. Nearly constant series are scored by how rarely
they leave their value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy import special

from tidegauge.analyzers.core.errors import IllegalAnalyzerParameterError
from tidegauge.analyzers.core.metric import Scale
from tidegauge.repository.detectors.base import Detector, History, Reason, Scores, detector
from tidegauge.repository.numerics import tails
from tidegauge.repository.numerics.forecast import SEASON_CYCLES, Forecast, forecast
from tidegauge.repository.numerics.grid import Grid
from tidegauge.repository.numerics.medians import median
from tidegauge.repository.numerics.scales import least_spread, restore, transform

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidegauge.repository.numerics.arrays import Floats

LEARNING = 7
"""Earlier points required before a point is scored."""
TEACHES_BELOW = 3.0
"""Score from which a point is excluded from training."""
HOLIDAY_TEACHES_BELOW = 1.3
"""The same on holidays, where a point need not be an anomaly to be unsuitable for training."""
REASON_ABOVE = 1.0
"""Score above which a point has a reason."""
BAND = 1e-3
"""Probability of a normal value outside the band."""
SHIFT_ALARMS, SHIFT_WITHIN = 4, 6
SHORT = 7
"""Minimum cycle length, in points, by which memory is sized where the season is shorter."""
ROWS = 512
"""Series scored per block, so that their working set fits the processor cache."""


@detector
class Seasonal(Detector):
    """Seasonal detector: robust level, weekday effect and Student's t tail; see the module.

    Scores need 7 earlier points, weekday effects 14. A level shift is accepted after four alarms to
    one side within six points.

    Parameters
    ----------
    cycles : int
        Number of seasons of history used: weeks of daily partitions, days of hourly ones.

    Examples
    --------
    >>> values = np.array([[100.0] * 3 + [102, 98, 101, 99, 100, 103, 97] * 4 + [20]])
    >>> days = np.arange(values.size).astype("M8[D]").astype("M8[s]")
    >>> history = History(days, values, values, [Scale.COUNT])
    >>> bool(Seasonal().score(history).p_value[0, -1] < 1e-6)
    True
    """

    least: ClassVar[int] = LEARNING + 1
    rule: ClassVar[str] = "FalseDiscoveryRate()"

    cycles: int = 14

    def check_parameters(self) -> None:
        """Validate that `cycles` exceeds the cycles from which seasonal effects are estimated."""
        if self.cycles <= SEASON_CYCLES:
            msg = f"{self!r}: cycles must be at least {SEASON_CYCLES + 1}"
            raise IllegalAnalyzerParameterError(msg)

    def reach(self, grid: Grid) -> int:
        """Return the number of earlier partitions that a score may depend on."""
        # Alarms that confirm a new level may lie across the edge, as may those of the one before.
        return self.cycles * max(grid.period, SHORT) + 2 * SHIFT_WITHIN

    def score(self, history: History, start: int = 0, known: Scores | None = None) -> Scores:
        """Score points one partition after the other, in blocks of `ROWS` series."""
        begin = start if known is not None else 0
        first = begin - self.reach(history.grid or Grid.from_times(history.times))
        if known is not None and first > 0 and history.restarts is None:
            return self.score(history.part(slice(first, None)), start - first, known.since(first))
        blocks = []
        with np.errstate(all="ignore"):
            for first in range(0, len(history.values), ROWS):
                some = slice(first, first + ROWS)
                walk = _Walk(history.rows(some), self.cycles)
                blocks.append(walk.run(begin, known and known.taken(some)))
        whole = Scores.concatenate(blocks, (0, len(history.times) - begin))
        return whole.since(start - begin)


def _tiny(now: Forecast, some: NDArray[np.bool_]) -> Floats:
    """Return a small fallback spread, larger for the series whose scale implies no lower bound."""
    tiny = 1e-9 * np.fmax(np.abs(now.centre), 1e-6)
    if some.any():
        around = median(np.abs(now.flat[some] - (now.centre - now.effect)[some, None]))
        tiny[some] = np.fmax(0.01 * around, tiny[some])
    return tiny


def shifts(history: History) -> list[tuple[int, int, int]]:
    """Return accepted level shifts: series, partition, and the first partition of the new level."""
    found = []
    with np.errstate(all="ignore"):
        for first in range(0, len(history.values), ROWS):
            walk = _Walk(history.rows(slice(first, first + ROWS)), Seasonal().cycles)
            walk.run(0, None)
            found += [(first + i, t, begun) for i, t, begun in walk.shifts]
    return sorted(found)


class _Walk:
    """State of one sequential scoring of several series.

    Arrays have one column per grid column, preceded by ``memory`` empty ones.

    Attributes
    ----------
    moved : array
        The transformed values, moved to the present level after level shifts.
    usable : array
        The training points among them; others are NaN.
    swing : array
        Deviation of each point from the median of a season around it.
    centre, signs : array
        The expected values, and 1 or -1 where a point alarmed.
    open : array
        Alarms that may still become a level shift.
    shifts : list
        Accepted level shifts: series, partition, and the first partition of the new level.
    """

    def __init__(self, history: History, cycles: int) -> None:
        self.history = history
        grid = history.grid or Grid.from_times(history.times)
        self.period = grid.period
        self.memory = cycles * max(grid.period, SHORT)
        self.column = self.memory + grid.column
        self.distances = np.array([scale is Scale.DISTANCE for scale in history.scales], dtype=bool)
        shape = (len(history.values), self.memory + grid.size)
        self.y = np.full(shape, np.nan)
        self.y[:, self.column] = transform(history.values, history.scales)
        self.moved, self.usable, self.swing, self.centre = (
            np.full(shape, np.nan) for _ in range(4)
        )
        self.signs, self.open = np.zeros(shape), np.zeros(shape)
        self.shifts: list[tuple[int, int, int]] = []

    def run(self, start: int, known: Scores | None) -> Scores:
        """Score the partitions from `start` on, given the scores of those before."""
        h = self.history
        if known is not None:
            centre = transform(known.expected, h.scales)
            for t in range(start):
                self._restart(t)
                self._learn(t, known.score[:, t], known.reason[:, t], centre[:, t])
        scores = Scores.unscored((len(self.y), len(h.times) - start))
        for t in range(start, len(h.times)):
            self._restart(t)
            self._score(t, scores, t - start)
            centre = transform(scores.expected[:, [t - start]], h.scales)[:, 0]
            k = t - start
            self._learn(t, scores.score[:, k], scores.reason[:, k], centre)
        return scores

    def _forecast(self, t: int) -> Forecast:
        c = self.column[t]
        past = slice(c - self.memory, c)
        until = c - self.period // 2
        swing = self.swing[:, until - SEASON_CYCLES * self.period : until]
        return forecast(self.usable[:, past], self.moved[:, past], swing, self.period)

    def _score(self, t: int, scores: Scores, k: int) -> None:
        h, c = self.history, self.column[t]
        now = self._forecast(t)
        past = slice(c - self.memory, c)
        y = self.y[:, c]
        least = least_spread(now.centre, h.weights[:, t], h.scales)
        width = np.hypot(now.spread, np.maximum(least, _tiny(now, least == 0)))
        off = np.abs(y - now.centre)
        score = tails.cap_recurring_errors(tails.student_score(off / width, now.freedom), off, now)
        moving, before, step = tails.drift(now, y, self.signs[:, past], least)
        drifts = moving > score
        reason = np.where(drifts, Reason.DRIFT, Reason.LEVEL)
        score = np.maximum(score, moving)
        atoms = tails.score_constants(score, self.y[:, past], y, self.signs[:, past] != 0, least)
        reason[atoms] = Reason.CONSTANT
        drifts &= ~atoms
        score[self.distances & (y < now.centre)] = 0  # a smaller distance is no anomaly
        fit = ~np.isnan(off + score) & (now.points >= LEARNING)
        if h.restarts is not None:
            fit &= ~h.restarts[:, t]
        scores.score[:, k] = np.where(fit, score, np.nan)
        scores.reason[:, k] = np.where(fit & (score > REASON_ABOVE), reason, Reason.NONE)
        drifts &= score > REASON_ABOVE
        centre = np.where(drifts, before, now.centre)
        reach = np.where(drifts, step, width) * special.stdtrit(now.freedom, 1 - BAND / 2)
        usual = np.stack([centre, centre - reach, centre + reach], axis=1)
        bounds = restore(np.where(fit[:, None], usual, np.nan), h.scales)
        scores.expected[:, k], scores.lower[:, k], scores.upper[:, k] = bounds.T

    # learning from a scored point

    def _learn(self, t: int, score: Floats, reason: NDArray[np.uint8], centre: Floats) -> None:
        h, c = self.history, self.column[t]
        y = self.y[:, c]
        alarm = (score >= TEACHES_BELOW) & (reason != Reason.DRIFT)  # a drift is the current level
        self.centre[:, c] = centre
        self.moved[:, c] = y
        self.signs[:, c] = self.open[:, c] = np.where(alarm, np.sign(y - centre), 0)
        teaches = ~alarm
        if h.muted is not None:
            teaches &= ~h.muted[:, t]
        if h.holidays is not None and h.holidays[t]:
            teaches &= ~(score >= HOLIDAY_TEACHES_BELOW)
        self.usable[:, c] = np.where(teaches, y, np.nan)
        recent = self.open[:, c - SHIFT_WITHIN + 1 : c + 1].sum(axis=1)
        for i in np.flatnonzero(alarm & (np.abs(recent) >= SHIFT_ALARMS)):
            self._shift(int(i), t)
        if self.period > 1:
            previous = self.column[t - 1] if t else c - 1
            for place in range(previous + 1, c + 1):
                self._compare(place, slice(None))

    def _compare(self, c: int, rows: slice | int) -> None:
        """Set the swing of the point half a season ago, whose neighbourhood is now complete."""
        half = self.period // 2
        around = self.usable[rows, c - 2 * half : c + 1]
        self.swing[rows, c - half] = self.usable[rows, c - half] - median(around)

    def _shift(self, i: int, t: int) -> None:
        """Accept a level shift: move the past to the new level, keeping season and spread."""
        c = int(self.column[t])
        first = c - SHIFT_WITHIN + 1
        first += int(np.flatnonzero(self.open[i, first : c + 1])[0])
        by = np.nanmedian(self.y[i, first : c + 1] - self.centre[i, first : c + 1])
        self._move(i, first, float(by))
        self.usable[i, first : c + 1] = self.y[i, first : c + 1]
        self.shifts.append((i, t, int(np.searchsorted(self.column, first))))
        if self.period > 1:
            for place in range(first, c):
                self._compare(place, i)

    def _move(self, i: int, until: int, by: float) -> None:
        """Move the past of a series to another level."""
        self.usable[i, :until] += by
        self.moved[i, :until] += by
        self.open[i] = 0

    def _restart(self, t: int) -> None:
        """Move the past to the new level where a label says that one begins."""
        restarts = self.history.restarts
        if restarts is None or not restarts[:, t].any():
            return
        by = self.y[:, self.column[t]] - self._forecast(t).centre
        for i in np.flatnonzero(restarts[:, t] & ~np.isnan(by)):
            self._move(int(i), int(self.column[t]), float(by[i]))
