"""The default detector: a robust seasonal forecast on the metric's variance-stabilized scale.

Each point is scored from earlier points only, without those that alarmed themselves: the metric is
transformed by its scale (`transform`); the effect of the weekday (or hour) is the median of that
weekday's deviations from a running median, used as far as it explains anything; the level is the
median of the last few points, with the window that would have predicted best; the spread is that of
such predictions' errors, and never below what the number of rows behind the value implies; and the
tail is Student's t, heavier where little is known. Nearly constant series are scored by how rarely
they leave their value, among the points that the season makes alike: nights say nothing of office hours.

`learned_seasons` describes the seasons that the detector has learned of each series, in words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from tidegauge.analyzers.core.errors import IllegalAnalyzerParameterError, UnknownNameError
from tidegauge.analyzers.core.formatting import number, percent
from tidegauge.analyzers.core.metric import Scale
from tidegauge.repository.detectors.base import Detector, History, Scores, detector
from tidegauge.repository.detectors.season_effects import (
    DateEffects,
    days_within,
    reach_of,
    unsettled,
)
from tidegauge.repository.detectors.walk import AUTO_SEASON, MIN_POINTS_TO_SCORE, SEASON_NAMES, Walk
from tidegauge.repository.numerics.arrays import median
from tidegauge.repository.numerics.forecasts import OCCURRENCES, restore
from tidegauge.repository.numerics.grid import WEEKDAYS, Grid

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidegauge.repository.numerics.arrays import Floats


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
    seasons : sequence of str
        Seasons to look for: ``day``, ``week``, ``month`` (days of the month) and ``year``, or
        ``auto`` for all of them. An empty list is none. Those that the partitions cannot have are
        ignored, such as the day of daily ones. A ``month`` that is named, alone or beside ``auto``,
        is believed from the first repetition; else days of the month must have stood out twice.

    Examples
    --------
    >>> from tidegauge.analyzers.core.metric import Scale
    >>> values = np.array([[100.0] * 3 + [102, 98, 101, 99, 100, 103, 97] * 4 + [20]])
    >>> days = np.arange(values.size).astype("M8[D]").astype("M8[s]")
    >>> history = History(days, values, values, [Scale.COUNT])
    >>> bool(Seasonal().score(history).p_value[0, -1] < 1e-6)
    True
    """

    least: ClassVar[int] = MIN_POINTS_TO_SCORE + 1
    rule: ClassVar[str] = "FalseDiscoveryRate()"

    cycles: int = 14
    seasons: tuple[str, ...] = (AUTO_SEASON,)

    def check_parameters(self) -> None:
        """Validate that `cycles` exceeds those from which effects are estimated, and the seasons' names."""
        if self.cycles <= OCCURRENCES:
            msg = f"{self!r}: cycles must be at least {OCCURRENCES + 1}"
            raise IllegalAnalyzerParameterError(msg)
        for season in self.seasons:
            if season not in SEASON_NAMES:
                raise UnknownNameError("season", season, SEASON_NAMES)

    def reach(self, grid: Grid) -> int:
        """Return the number of earlier partitions that a score may depend on."""
        return reach_of(grid, self.cycles)

    def score(self, history: History, start: int = 0, known: Scores | None = None) -> Scores:
        """Score points one partition after the other, in blocks of `ROWS` series."""
        return self.score_rises(history, start, known, -np.inf)

    def score_rises(
        self, history: History, start: int, known: Scores | None, least: float
    ) -> Scores:
        """Score points as `score` does, but 0 where they exceed the expected value by no more than ``least``.

        Such points are no alarms to learn from either, so that ``known`` suffices to go on. ``least``
        is on the transformed scale: of positive numbers the logarithm of a factor.
        """
        begin = start if known is not None else 0
        first = begin - self.reach(history.grid or Grid.from_times(history.times))
        if known is not None and first > 0 and history.restarts is None:
            newest = history.part(slice(first, None))
            return self.score_rises(newest, start - first, known.since(first), least)
        blocks, series = [], np.arange(len(history.values))
        with np.errstate(all="ignore"):
            settled = np.zeros(len(series), dtype=bool)
            if known is not None and history.restarts is None:
                settled = ~unsettled(history, self.cycles, begin, known)
            order = np.argsort(settled, kind="stable")
            for some in _blocks(series[~settled], series[settled]):
                walk = Walk(history.rows(some), self.cycles, self.seasons, least, begin)
                taken = known and known.taken(some)
                blocks.append(walk.run(taken, is_settled=bool(settled[some][0])))
        whole = Scores.concatenate(blocks, (0, len(history.times) - begin))
        return whole.taken(np.argsort(order)).since(start - begin)


def _blocks(*groups: NDArray[np.intp]) -> Iterator[NDArray[np.intp] | slice]:
    """Yield the series of each group, `ROWS` at a time; as a slice, which copies nothing, if it is one."""
    for group in groups:
        for first in range(0, len(group), ROWS):
            some = group[first : first + ROWS]
            whole = some[-1] - some[0] == len(some) - 1
            yield slice(int(some[0]), int(some[-1]) + 1) if whole else some


def shifts(history: History) -> list[tuple[int, int, int]]:
    """Return accepted level shifts: series, partition, and the first partition of the new level."""
    found = []
    with np.errstate(all="ignore"):
        for first in range(0, len(history.values), ROWS):
            walk = Walk(history.rows(slice(first, first + ROWS)), Seasonal().cycles)
            walk.run()
            found += [(first + i, t, begun) for i, t, begun in walk.shifts]
    return sorted(found)


TOLD = 2.0
"""Spreads of a series' noise that an effect must exceed to be told."""
ALIKE = 0.2
"""Relative difference within which neighbouring effects are told as one."""
MOST = 5
"""Effects told of a series, the largest first; of others only how many there are."""
TIMES = 2.0
"""Ratio from which an increase is told as a multiple."""
_WEEKDAYS = ("Mondays", "Tuesdays", "Wednesdays", "Thursdays", "Fridays", "Saturdays", "Sundays")
_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_ORDINALS = ("first", "second", "third", "fourth", "fifth")
_SUFFIXES = {1: "st", 2: "nd", 3: "rd", 21: "st", 22: "nd", 23: "rd", 31: "st"}


_Label = Callable[[int, int], str]
"""Names the slots from a first to a last."""


@dataclass(frozen=True)
class _Effect:
    """Effect of some slots of a season on a series, on the transformed scale of its metric."""

    label: str
    size: float


def learned_seasons(history: History, detector: Seasonal) -> list[str]:
    """Return the seasons of each series in words, as learned by the end of its history.

    Effects are told against the usual slot: the median weekday, hour or month. Those within the noise
    of the series are left out; so is what days of the year repeat, which are compared one by one.

    Parameters
    ----------
    history : History
    detector : Seasonal

    Returns
    -------
    list of str
        Empty where nothing was learned.

    Examples
    --------
    >>> days = np.arange("2021-02-01", "2021-04-12", dtype="M8[D]").astype("M8[s]")
    >>> values = np.where(np.is_busday(days.astype("M8[D]")), 1000.0, 550.0)[None, :]
    >>> learned_seasons(History(days, values, values, [Scale.COUNT]), Seasonal())
    ['Saturdays and Sundays 45 % lower']
    """
    found: list[str] = []
    for first in range(0, len(history.values), ROWS):
        some = history.rows(slice(first, first + ROWS))
        with np.errstate(all="ignore"):
            walk = Walk(some, detector.cycles, detector.seasons)
            walk.run()
            now = walk.after()
            effects = [[*_of_slots(walk, i, now.spread[i])] for i in range(len(some.values))]
            for i, label, size in _of_months(walk, now.spread):
                effects[i].append(_Effect(label, size))
        for i, of in enumerate(effects):
            largest = sorted(of, key=lambda one: -abs(one.size))[:MOST]
            usual = now.centre[i] + np.median(walk.effects[i])
            told = [
                f"{one.label} {_change(one.size, float(usual), some.scales[i])}" for one in largest
            ]
            if len(of) > len(told):
                told.append(f"and {len(of) - len(told)} more")
            found.append("; ".join(told))
    return found


def _of_slots(walk: Walk, i: int, noise: float) -> Iterator[_Effect]:
    """Return the effects of parts of the day, weekdays or months on a series."""
    grid, effects = walk.grid, walk.effects[i]
    if grid.yearly:
        label = _weeks if grid.step else lambda first, last: _listed(_MONTHS[first : last + 1])
        yield from _runs(effects, noise, label)
    elif grid.daily and len(effects) == WEEKDAYS:
        yield from _runs(effects, noise, _weekdays)
    elif grid.within_days:
        by_day = effects.reshape(-1, grid.period)
        parts = np.median(by_day, axis=0)
        yield from _runs(parts, noise, lambda first, last: _clock(first, last, grid.step))
        if len(by_day) == WEEKDAYS:
            yield from _runs(np.median(by_day - parts, axis=1), noise, _weekdays)


def _runs(effects: Floats, noise: float, label: _Label) -> Iterator[_Effect]:
    """Return the effects of slots that differ from the usual one, neighbours with similar ones as one."""
    off = effects - np.median(effects)
    first = 0
    for last in range(len(off)):
        ends = last + 1 == len(off) or abs(off[last + 1] - off[first]) > ALIKE * abs(off[first])
        if ends:
            size = float(np.median(off[first : last + 1]))
            if abs(size) > TOLD * max(noise, 1e-9):
                yield _Effect(label(first, last), size)
            first = last + 1


def _of_months(walk: Walk, noise: Floats) -> Iterator[tuple[int, str, float]]:
    """Return the effects of days of the month: series, label and size.

    An effect is told if most of its days in the last months agree; of ways to count that name nearly
    the same days, the one on which most do.
    """
    dated = walk.days[~np.isnat(walk.days)]
    if not days_within(walk.grid) or not len(dated):
        return
    recent = walk.days >= dated.max() - np.timedelta64(days_within(walk.grid), "D")
    found = []
    for way, slots in enumerate(walk.dates.month):
        for slot in np.unique(slots[recent & (slots >= 0)]).tolist():
            days = np.flatnonzero(recent & (slots == slot))
            sizes, agree = _of_whole_days(walk.dates, days, noise)
            found += [
                (-int(agree[i]), way, i, slot, frozenset(days.tolist()), sizes[i])
                for i in np.flatnonzero(~np.isnan(sizes)).tolist()
            ]
    named: dict[int, set[int]] = {}
    for _, way, i, slot, same, size in sorted(found, key=lambda one: one[:4]):
        before = named.setdefault(i, set())
        if 2 * len(same & before) < len(same):
            before |= same
            yield i, _day_of_month(way, slot), float(size)


def _of_whole_days(
    dates: DateEffects, same: NDArray[np.intp], noise: Floats
) -> tuple[Floats, NDArray[np.intp]]:
    """Return the median effect that the parts of some days share, NaN unless most do, and how many agree."""
    everyone = np.arange(len(noise))
    parts = [
        dates.effect_of_days(same[dates.part[same] == part], everyone, noise)
        for part in np.unique(dates.part[same])
    ]
    sizes, agree = (np.stack(found) for found in zip(*parts, strict=True))
    most = 2 * np.isnan(sizes).sum(axis=0) < len(sizes)
    return np.where(most, median(sizes.T), np.nan), agree.sum(axis=0)


def _day_of_month(way: int, slot: int) -> str:
    """Return the name of a slot of `month_slots`.

    Examples
    --------
    >>> _day_of_month(0, 0), _day_of_month(1, 15), _day_of_month(2, 1), _day_of_month(3, 1)
    ('month ends', 'the 15th of months', 'second last working days of months', 'first working days of months')
    """
    if way == 1:
        return f"the {slot}{_SUFFIXES.get(slot, 'th')} of months"
    if way == 3:
        return f"{_ORDINALS[slot - 1]} working days of months"
    if (way, slot) == (0, 0):
        return "month ends"
    place = f"{_ORDINALS[slot]} last" if slot else "last"
    return f"{place} {'working days' if way == 2 else 'days'} of months"


def _weeks(first: int, last: int) -> str:
    """Return the name of weeks of the year, counted from 0.

    Examples
    --------
    >>> _weeks(0, 0), _weeks(48, 51)
    ('week 1 of years', 'weeks 49 to 52 of years')
    """
    if first == last:
        return f"week {first + 1} of years"
    return f"weeks {first + 1} to {last + 1} of years"


def _weekdays(first: int, last: int) -> str:
    return _listed(_WEEKDAYS[first : last + 1])


def _listed(names: Sequence[str]) -> str:
    """Return names as a list in words.

    Examples
    --------
    >>> _listed(["a"]), _listed(["a", "b"]), _listed(["a", "b", "c"])
    ('a', 'a and b', 'a to c')
    """
    if len(names) > 2:
        return f"{names[0]} to {names[-1]}"
    return " and ".join(names)


def _clock(first: int, last: int, step: int) -> str:
    """Return a span of parts of a day.

    Examples
    --------
    >>> _clock(9, 16, 3600), _clock(1, 1, 43200)
    ('09:00 to 17:00', '12:00 to 24:00')
    """
    minutes = (first * step // 60, (last + 1) * step // 60)
    return " to ".join(f"{at // 60:02}:{at % 60:02}" for at in minutes)


def _change(size: float, level: float, scale: Scale) -> str:
    """Return an effect in words.

    Examples
    --------
    >>> _change(np.log(2.5), np.log(100), Scale.POSITIVE), _change(-0.5, 3.0, Scale.SIGNED)
    ('2.5 times as high', '0.5 lower')
    """
    usual, moved = restore(np.array([[level, level + size]]), [scale])[0].tolist()
    side = "higher" if size > 0 else "lower"
    if scale is Scale.RATIO:
        points = f"{100 * abs(moved - usual):.2g}"
        return f"{points} point{'' if points == '1' else 's'} {side}"
    if scale not in {Scale.COUNT, Scale.POSITIVE} or not usual:
        return f"{number(abs(moved - usual))} {side}"
    if moved >= TIMES * usual:
        return f"{moved / usual:.1f} times as high"
    return f"{percent(abs(moved / usual - 1))} {side}"
