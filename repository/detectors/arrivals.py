"""Detectors of missing, overdue and late partitions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from tidegauge.analyzers.core.formatting import hours_text, plural
from tidegauge.analyzers.core.metric import Scale
from tidegauge.repository.detectors.base import History, PartitionDetector, Reason, Scores, detector
from tidegauge.repository.detectors.contents import UNSEEN
from tidegauge.repository.detectors.seasonal import Seasonal
from tidegauge.repository.numerics.grid import DAY, FIRST_STEPS, HOUR, MONTH, WEEK, WEEKDAYS, Grid

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidegauge.repository.numerics.arrays import Floats

CYCLES = 8
"""Earlier seasons in which the same position of the season is looked up."""
MIN_PARTITIONS = 7
"""Number of partitions from which gaps are scored."""
LONGER = 2
"""Positions by which a gap is longer than all before from which on it is unlike them."""
LEAST_DELAY = 0.1
"""Minimum delay in hours; shorter delays count as this."""
TWICE = 2.0
"""Multiple of the usual delay above which a partition is late."""


@detector
class MissingPartition(PartitionDetector):
    """Detector of missing partitions: gaps in the calendar, and overdue ones after the last.

    A gap is reported at the partition after it, overdue partitions at the newest one. A missing
    position scores the higher, the rarer such positions were missing before: the same weekday, or hour
    of the week, in the last eight weeks, and any that is usually there; an outage counts once, however
    long it was. So a table without weekends misses none. The
    first gap counts as a hundred times rarer. So does the second, and further ones while there is at
    most one in four weeks, as soon as the next partition has come; and one that is longer than all before
    by two positions or more: a table that has stopped is reported whatever was missing in its past. A
    partition is overdue twice the longest of the last seven delays after its end, of parts of days those
    of a day, if all are known and their median is at most as many steps (hours, days, weeks or months).

    Examples
    --------
    >>> days = np.delete(np.arange(40), [30, 31]).astype("M8[D]").astype("M8[s]")
    >>> history = History(days, np.empty((0, 38)), np.empty((0, 38)), [])
    >>> np.flatnonzero(MissingPartition().score(history).score[0] >= 3).tolist()
    [30]
    >>> MissingPartition().explanation(history, 30)
    'follows a gap of 2 days from 31 Jan 1970 on'
    """

    needs_values: ClassVar[bool] = False
    needs_clock: ClassVar[bool] = True

    def measure(self, history: History) -> Floats:
        """Return the number of partitions missing before each, and overdue after the last."""
        return self._gaps(history)[0]

    def score(self, history: History, start: int = 0, known: Scores | None = None) -> Scores:
        """Score each gap by the rarity of such gaps."""
        missing, score = self._gaps(history)
        scores = Scores.unscored((1, len(missing)))
        scores.score[0] = np.where(np.arange(len(missing)) >= MIN_PARTITIONS, score, np.nan)
        scores.upper[0] = np.where(np.isnan(scores.score[0]), np.nan, 0.0)
        scores.reason[0] = np.where(scores.score[0] > 0, Reason.MISSING, Reason.NONE)
        return scores.since(start)

    def explanation(self, history: History, t: int) -> str:
        """Return an explanation with the number of missing partitions."""
        grid, here = _grid(history), list(gaps(history, only=t))
        unit = _UNITS.get(int(grid.length.astype(np.int64)), "partition")
        told = []
        for gap in here:
            since = _time_text(gap.times(1)[0], has_clock=grid.within_days)
            many = _many(gap.count, unit)
            if gap.overdue:
                next_ones = f"{unit} is" if gap.count == 1 else f"{many} are"
                due = _time_text(_due(history, grid, gap.times(1)[0]))
                told.append(
                    f"is the newest, the next {next_ones} overdue: {since} was due by {due} UTC"
                )
            else:
                when = f", {since}" if gap.count == 1 else f" from {since} on"
                told.append(f"follows a gap of {many}{when}")
        return ", and ".join(told) or "follows no gap"

    def _gaps(self, history: History) -> tuple[Floats, Floats]:
        count, score = np.zeros(len(history.times)), np.zeros(len(history.times))
        earlier: list[np.datetime64] = []
        longest = 0
        for number, gap in enumerate(gaps(history)):
            rare, length = gap.rarest, gap.count
            if earlier and length >= longest + LONGER:
                rare = max(rare, np.log10((gap.begin + 3) / (number + 1))) + UNSEEN
            elif not earlier or (not gap.overdue and _is_news(gap.since, earlier)):
                rare += UNSEEN
            count[gap.place] += length
            # A gap before the newest partition and what is overdue after it have one place.
            score[gap.place] = max(score[gap.place], rare)
            if gap.place >= MIN_PARTITIONS:
                earlier.append(gap.since)
            longest = max(longest, length)
        return count, score


NEWS_GAPS = 2
"""Gaps that are news before any is a habit."""
NEWS_GAP_DISTANCE = np.timedelta64(28, "D")
"""Mean distance of gaps up to which further ones are news."""
HABIT_MEMORY = np.timedelta64(364, "D")
"""Time after which a gap is no sign of a habit any more."""


def _is_news(since: np.datetime64, earlier: Sequence[np.datetime64]) -> bool:
    """Return whether a gap is no habit yet, given the times of the gaps before.

    Examples
    --------
    >>> days = np.array(["2026-01-01", "2026-01-02", "2026-02-10"], "M8[D]")
    >>> [bool(_is_news(day, days[:n])) for n, day in enumerate(days)]
    [True, True, True]
    >>> _is_news(np.datetime64("2026-01-20"), days[:2])
    False
    """
    lately = [time for time in earlier if since - time < HABIT_MEMORY]
    allowed = NEWS_GAPS
    if lately:
        allowed += int((since - lately[0]) / NEWS_GAP_DISTANCE)
    return len(lately) < allowed


_UNITS = {HOUR: "hour", DAY: "day", WEEK: "week", MONTH[1]: "month"}
"""Names of lengths of partitions, in seconds."""


def _many(count: int, unit: str) -> str:
    return plural(count, unit)


def _time_text(moment: np.datetime64, *, has_clock: bool = True) -> str:
    """Return a time as people write it, with the time of the day or without it.

    Examples
    --------
    >>> _time_text(np.datetime64("2026-03-06T05:00"))
    '6 Mar 2026 05:00'
    """
    time = moment.astype("M8[us]").item()
    assert isinstance(time, datetime)
    return f"{time.day} {time:%b %Y}" + (f" {time:%H:%M}" if has_clock else "")


@dataclass(frozen=True)
class Gap:
    """A gap: consecutive calendar positions of which some are missing though they usually are not.

    Attributes
    ----------
    place : int
        Index of the reported partition: the one after the gap, or the last if they are overdue.
    begin : int
        Column of the partition before the gap.
    since : datetime64
        Time of that partition.
    steps : int
        Positions from it to the next.
    rare : array of bool, shape (season,)
        Which positions of a season after it are missing, and usually are not.
    rarest : float
        -log10 of the frequency at which the rarest of these positions was missing before.
    overdue : bool
        Whether nothing came after it yet.
    grid : Grid
    """

    place: int
    begin: int
    since: np.datetime64
    steps: int
    rare: NDArray[np.bool_]
    rarest: float
    overdue: bool
    grid: Grid

    @property
    def count(self) -> int:
        """Number of missing partitions, without those that are often missing."""
        seasons, rest = divmod(self.steps - 1, len(self.rare))
        return seasons * int(self.rare.sum()) + int(self.rare[:rest].sum())

    def times(self, most: int | None = None) -> NDArray[np.datetime64]:
        """Return the times of the missing partitions, or of the first so many."""
        places, a_season = np.flatnonzero(self.rare) + 1, len(self.rare)
        wanted = self.count if most is None else min(most, self.count)
        seasons = np.arange(-(-wanted // len(places))) * a_season
        ahead = (seasons[:, None] + places).ravel()[:wanted]
        return self.grid.after(self.since, ahead)


def gaps(history: History, only: int | None = None) -> Iterator[Gap]:
    """Yield the gaps in the calendar of a history in order, overdue partitions last.

    Partitions without a time come after the others, and have no place in it, nor have those far in the
    future. Of parts of days neither has the first week: its nights and its weekend are no gaps.
    ``only`` selects those of one place.
    """
    grid = _grid(history)
    times = history.times[: _current(history, grid)]
    column = grid.column[: len(times)]
    if len(column) < 2 or not _is_regular(grid, times):
        return
    season = grid.cycle if grid.within_days else grid.period
    absences = _Absences.count(column, season, grid.period if grid.within_days else 1)
    steps = np.append(grid.steps(times), _overdue(history, grid) + 1)
    if grid.within_days:
        steps[column + 1 < season] = 1
    for t in np.flatnonzero(steps > 1).tolist():
        last = t + 1 == len(column)
        place = t if last else t + 1
        if only is not None and place != only:
            continue
        begin, many = int(column[t]), int(steps[t])
        rates = absences.rates(begin)
        rare = rates < OFTEN
        if rare[: many - 1].any():
            rarest = -float(np.log10(rates[: many - 1].min()))
            yield Gap(place, begin, times[t], many, rare, rarest, overdue=last, grid=grid)


OFTEN = 0.5
"""Frequency from which a position that is often missing is no gap."""
RECENT_DELAYS = 7
"""Recent delays examined for overdue partitions, at least, and the maximum of their median in steps."""


REGULAR = 0.8
"""Share of the first steps of a grid of weeks that are whole weeks, to a day: ten days are no calendar."""
FEW_SEASONS = 3
"""Earlier seasons below which a position is usual if its time of the day is, on all days."""


def _grid(history: History) -> Grid:
    return history.grid or Grid.from_times(history.times)


def _is_regular(grid: Grid, times: NDArray[np.datetime64]) -> bool:
    """Return whether partitions have regular steps, so that it is known which are missing."""
    if grid.step != WEEK:
        return grid.months or grid.step > 0
    days = np.diff(times[: FIRST_STEPS + 1]).astype("m8[D]").astype(np.int64)
    return bool(np.mean((days + 1) % WEEKDAYS <= 2) >= REGULAR)


@dataclass(frozen=True)
class _Absences:
    """Absent positions of a calendar, for each position of the season.

    Attributes
    ----------
    season, day : int
        Positions of a season, and of a part of it that repeats: a day, or 1.
    gaps : array of float
        By column: gaps at this column and at those whole seasons before it. Each absent position is its
        part of a gap, so that an outage counts once however long it was.
    lately : array of int
        By column: absent positions among the same columns of the last `CYCLES` seasons, without those of
        outages, of a season and of `CYCLES` positions or longer, which are no habit.
    """

    season: int
    day: int
    gaps: Floats
    lately: NDArray[np.int64]

    @classmethod
    def count(cls, column: NDArray[np.intp], season: int, day: int) -> _Absences:
        """Count the absent positions of a calendar, up to its last partition."""
        seasons = int(column[-1]) // season + 1
        absent = np.ones(seasons * season, dtype=bool)
        absent[column] = False
        absent[column[-1] :] = False  # what is not over is not absent
        steps = np.diff(column)
        habit = absent.copy()
        habit[: column[-1]] &= np.repeat(steps <= max(season, CYCLES), steps)
        so_far = np.zeros((CYCLES + seasons, season), dtype=np.int64)
        np.cumsum(habit.reshape(seasons, season), axis=0, out=so_far[CYCLES:])
        lately = so_far[CYCLES:] - so_far[:-CYCLES]
        before = np.concatenate([np.zeros((1, season), dtype=np.int64), lately[:-1]])
        known = np.minimum(np.arange(seasons), CYCLES)[:, None]
        usual = (known < FEW_SEASONS) | (before < OFTEN * known)
        parts = (absent & usual.ravel()).astype(np.float64)
        in_gap = np.add.reduceat(parts, column[:-1])
        parts[: column[-1]] /= np.repeat(np.maximum(in_gap, 1), steps)
        gaps = np.cumsum(parts.reshape(seasons, season), axis=0)
        return cls(season, day, gaps.ravel(), lately.ravel())

    def rates(self, begin: int) -> Floats:
        """Return the frequencies of absences before a column at each position of a season after it.

        They are smoothed by the frequency of gaps among positions that are usually there. Those that
        usually are not, such as nights, say nothing of the others.
        """
        before = np.arange(max(begin + 1 - self.season, 0), begin + 1)
        counts = np.zeros((3, self.season))
        counts[:, self.season - len(before) :] = (
            before // self.season + 1,
            self.gaps[before],
            self.lately[before],
        )
        known, gaps, lately = counts
        recent = np.minimum(known, CYCLES)
        by_day = lately.reshape(-1, self.day).sum(axis=0)
        daily = by_day < OFTEN * recent.reshape(-1, self.day).sum(axis=0)
        new = (recent < FEW_SEASONS) & np.tile(daily, self.season // self.day)
        usual = new | (lately < OFTEN * recent)
        overall = (gaps[usual].sum() + 1) / (known[usual].sum() + 3)
        rates: Floats = (lately + overall) / (recent + 1)
        return rates


def _overdue(history: History, grid: Grid) -> int:
    """Return the number of partitions that are overdue after the last."""
    patience = _patience(history, grid)
    if patience is None or history.ledger is None:
        return 0
    last = history.times[_current(history, grid) - 1]
    return grid.passed(last, history.ledger.now - patience)


def _due(history: History, grid: Grid, time: np.datetime64) -> np.datetime64:
    """Return the time at which a partition that has not come became overdue."""
    patience = _patience(history, grid)
    (after,) = grid.after(np.array([time]))
    return np.datetime64(after) + (patience or np.timedelta64(0, "s"))


def _patience(history: History, grid: Grid) -> np.timedelta64 | None:
    """Return the time after its end at which a partition is overdue; None if none can be told."""
    ledger = history.ledger
    if ledger is None or np.isnat(ledger.now):
        return None
    step, last = grid.length, _current(history, grid) - 1
    recent, most = RECENT_DELAYS, RECENT_DELAYS
    if grid.within_days:  # the parts of a day may all come at once
        of_a_day = history.times[: last + 1] > history.times[last] - np.timedelta64(DAY, "s")
        recent, most = max(recent, int(of_a_day.sum())), max(most, grid.period)
    delays = delays_of(history)[: last + 1][-recent:]
    known = delays[~np.isnat(delays)]
    usual = np.median(known.astype("m8[s]").astype(float)) if len(known) == recent else np.inf
    if usual > most * step / np.timedelta64(1, "s"):
        return None
    slowest: np.timedelta64 = max(known.max(), np.timedelta64(0, "s"))
    return 2 * slowest


def _current(history: History, grid: Grid) -> int:
    """Return the number of partitions that have a time, without those far in the future."""
    dated = history.times[~np.isnat(history.times)]
    now = np.datetime64("NaT", "s") if history.ledger is None else history.ledger.now
    return grid.current(dated, now)


def delays_of(history: History) -> NDArray[np.timedelta64]:
    """Return each partition's arrival delay after the end of its period; not-a-time if unknown.

    The period is what a partition spans: such as an hour, a day or a month.
    """
    if history.ledger is None:
        return np.full(len(history.times), np.timedelta64("NaT", "s"))
    ends = _grid(history).after(history.times)
    delays: NDArray[np.timedelta64] = (history.ledger.arrived - ends).astype("m8[s]")
    return delays


@detector
class Late(PartitionDetector):
    """Detector of late partitions: arrivals much later than usual.

    The delay is the time from the end of a partition's period until its data were written, in
    hours, compared with earlier delays by `Seasonal`; only delays of more than twice the usual
    count.

    Examples
    --------
    >>> Late()
    Late()
    """

    least: ClassVar[int] = Seasonal.least
    scale: ClassVar[Scale] = Scale.POSITIVE
    needs_values: ClassVar[bool] = False
    needs_scores: ClassVar[bool] = True

    def reach(self, grid: Grid) -> int:
        """Return the number of earlier partitions that a score may depend on."""
        return Seasonal().reach(grid)

    def measure(self, history: History) -> Floats:
        """Return each partition's delay in hours, at least `LEAST_DELAY`; NaN if unknown."""
        delay = delays_of(history)
        hours = delay.astype(np.float64) / HOUR
        return np.where(np.isnat(delay), np.nan, np.maximum(hours, LEAST_DELAY))

    def score(self, history: History, start: int = 0, known: Scores | None = None) -> Scores:
        """Score the delays with `Seasonal`."""
        delays = self.measure(history)[None, :]
        weights = np.full_like(delays, np.nan)
        muted = None if history.ledger is None else history.ledger.muted
        late = History(
            history.times,
            delays,
            weights,
            [self.scale],
            muted=None if muted is None else muted[None, :],
            grid=history.grid,
        )
        scores = Seasonal().score_rises(late, start, known, np.log(TWICE))
        # The other reasons say what `Seasonal` learned of a delay.
        late_for = (scores.score > 1) & np.isin(scores.reason, (Reason.LEVEL, Reason.CONSTANT))
        scores.reason[late_for] = Reason.LATE
        return scores

    def explanation(self, history: History, t: int) -> str:
        """Return an explanation with the delay."""
        return f"arrived {hours_text(float(self.measure(history)[t]))} after its end"
