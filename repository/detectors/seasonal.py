"""The default detector: a robust seasonal forecast on the metric's variance-stabilized scale.

Each point is scored from earlier points only. Points that alarmed are left out. The steps are:

1. The scale of the metric transforms its values (`transform`). Sums of one sign are compared as counts
   of usual rows (`Units`).
2. The effect of a weekday is the mean of the middle half of its deviations from the cycle around it, shrunk to
   the extent that noise explains it. Hours of a week share effects of the weekday and of the hour.
3. The level is the median of the last points. Of several window lengths, the one with the smallest
   recent errors is used.
4. The spread is the robust standard deviation of the errors of these predictions. It has a lower bound
   that follows from the number of rows behind a value.
5. The tail is Student's t distribution, heavier if there are few points, or if earlier errors were often unusual.

Small counts, and shares of few rows such as nulls, are scored by the distribution of their counts.
Nearly constant series are scored by how rarely they leave their value. Only points with the same
seasonal effect are compared, so nights do not count for office hours. A deviation that has recurred, or that
a label marks as harmless, counts as usual (`cap_recurring_errors`). So do steps to a new value that stays, if
there were several (`cap_recurring_steps`).

`learned_seasons` describes the seasons that the detector has learned for each series.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tidegauge.analyzers.core.errors import IllegalAnalyzerParameterError, UnknownNameError
from tidegauge.analyzers.core.formatting import number, percent
from tidegauge.analyzers.core.metric import Scale
from tidegauge.repository.detectors.base import Detector, History, ScoreRequest, Scores, detector
from tidegauge.repository.detectors.season_effects import (
    MIN_POINTS_TO_SCORE,
    DateEffects,
    days_within,
    reach_of,
    unsettled,
)
from tidegauge.repository.detectors.walk import AUTO_SEASON, SEASON_NAMES, Walk
from tidegauge.repository.numerics.arrays import median
from tidegauge.repository.numerics.forecasts import MAX_OCCURRENCES, restore
from tidegauge.repository.numerics.grid import DAYS_PER_WEEK, Grid

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidegauge.repository.numerics.arrays import Floats


BLOCK_SERIES = 512
"""Series scored per block, so that their working set fits the processor cache."""


@detector
class Seasonal(Detector):
    """Seasonal detector: robust level, weekday effect and Student's t tail; see the module.

    Scores need 7 earlier points, weekday effects 14. A level shift is accepted after four alarms to
    the same side within six points.

    Parameters
    ----------
    cycles : int
        Number of seasons of history used: weeks of daily partitions, days of hourly ones.
    seasons : sequence of str
        Seasons to look for: ``day``, ``week``, ``month`` (days of the month) and ``year``, or
        ``auto`` for all of them. An empty list disables seasons. Seasons that the partitions cannot
        have, such as ``day`` for daily partitions, are ignored. If ``month`` is listed, alone or with
        ``auto``, the effect of a day of the month is used from its first repetition. Otherwise it must
        have been seen twice.

    Examples
    --------
    >>> from tidegauge.analyzers.core.metric import Scale
    >>> values = np.array([[100.0] * 3 + [102, 98, 101, 99, 100, 103, 97] * 4 + [20]])
    >>> days = np.arange(values.size).astype("M8[D]").astype("M8[s]")
    >>> history = History(days, values, values, [Scale.COUNT])
    >>> bool(Seasonal().score(history).p_value[0, -1] < 1e-6)
    True
    """

    min_points: ClassVar[int] = MIN_POINTS_TO_SCORE + 1
    rule: ClassVar[str] = "FalseDiscoveryRate()"

    cycles: int = 14
    seasons: tuple[str, ...] = (AUTO_SEASON,)

    def check_parameters(self) -> None:
        """Validate the names of seasons, and that `cycles` exceeds the number of remembered occurrences."""
        if self.cycles <= MAX_OCCURRENCES:
            msg = f"{self!r}: cycles must be at least {MAX_OCCURRENCES + 1}"
            raise IllegalAnalyzerParameterError(msg)
        for season in self.seasons:
            if season not in SEASON_NAMES:
                raise UnknownNameError("season", season, SEASON_NAMES)

    def reach(self, grid: Grid) -> int | None:
        """Return the number of earlier partitions that a score can depend on; None for weeks and months."""
        return reach_of(grid, self.cycles)

    def score(
        self, history: History, start: int = 0, earlier_scores: Scores | None = None
    ) -> Scores:
        """Score points one partition after the other, in blocks of `BLOCK_SERIES` series.

        A label that calls a point harmless never raises a later score. Without the point in training the
        usual values lie closer together, so series with such labels are scored twice, with the labels
        and without, and the lower score counts.
        """
        return self.score_together([ScoreRequest(history, start, earlier_scores)])[0]

    def score_together(self, requests: Sequence[ScoreRequest]) -> list[Scores]:
        """Return the results of `score` for several histories; those of equal partitions are scored as one."""
        pairs = zip(requests, self.score_rises(requests, -np.inf), strict=True)
        return [self._with_labels(request, scores) for request, scores in pairs]

    def _with_labels(self, request: ScoreRequest, scores: Scores) -> Scores:
        """Return the scores, and the lower of two scores for series with points labeled as harmless."""
        history, start = request.history, request.start
        if history.harmless is None:
            return scores
        reach = self.reach(history.grid or Grid.from_times(history.times))
        first = 0 if reach is None else max(start - reach, 0)
        labelled = np.flatnonzero(history.harmless[:, first:].any(axis=1))
        for rows in _blocks(labelled):
            scores = scores.replace_rows(rows, self._score_labelled(history.rows(rows), start))
        return scores

    def _score_labelled(self, history: History, start: int) -> Scores:
        """Return the scores of series with harmless points, from partition ``start`` on."""
        is_harmless, muted = history.harmless, history.muted
        assert is_harmless is not None
        unlabelled = replace(
            history, harmless=None, muted=None if muted is None else muted & ~is_harmless
        )
        with np.errstate(all="ignore"):
            labelled_scores, unlabelled_scores = (
                Walk(variant, self.cycles, self.seasons).run() for variant in (history, unlabelled)
            )
        return labelled_scores.lower_of(unlabelled_scores).since(start)

    def score_rises(self, requests: Sequence[ScoreRequest], min_rise: float) -> list[Scores]:
        """Score points as `score` does; points that rise by at most ``min_rise`` score 0.

        Parameters
        ----------
        requests : sequence of ScoreRequest
            Histories, with earlier results of this method.
        min_rise : float
            Distance above the expected value, on the transformed scale: the logarithm of a factor for
            positive numbers.

        Returns
        -------
        list of Scores
            The scores of each request. They do not depend on the other requests.
        """
        recent = [self._recent(request) for request in requests]
        groups: dict[Any, list[int]] = {}
        for index, request in enumerate(recent):
            groups.setdefault(request.alignment if len(recent) > 1 else None, []).append(index)
        scores: dict[int, Scores] = {}
        for indices in groups.values():
            aligned = [recent[index] for index in indices]
            together = self._score_series(
                ScoreRequest.stack(aligned) if len(aligned) > 1 else aligned[0], min_rise
            )
            end = 0
            for index in indices:
                begin, end = end, end + len(recent[index].history.values)
                scores[index] = together.take(slice(begin, end))
        return [scores[index] for index in range(len(requests))]

    def _recent(self, request: ScoreRequest) -> ScoreRequest:
        """Return a request without the partitions that its scores do not depend on."""
        history = request.history
        if request.earlier_scores is None or history.restarts is not None:
            return request
        reach = self.reach(history.grid or Grid.from_times(history.times))
        return request if reach is None else request.within(reach)

    def _score_series(self, request: ScoreRequest, min_rise: float) -> Scores:
        """Score the series of a history in blocks; those that can be learned together apart from the others."""
        history, earlier_scores = request.history, request.earlier_scores
        begin = 0 if earlier_scores is None else request.start
        blocks, series = [], np.arange(len(history.values))
        with np.errstate(all="ignore"):
            is_settled = np.zeros(len(series), dtype=bool)
            if earlier_scores is not None and history.restarts is None:
                is_settled = ~unsettled(history, self.cycles, begin, earlier_scores)
            order = np.argsort(is_settled, kind="stable")
            for block in _blocks(series[~is_settled], series[is_settled]):
                walk = Walk(history.rows(block), self.cycles, self.seasons, min_rise, begin)
                block_scores = earlier_scores and earlier_scores.take(block)
                blocks.append(walk.run(block_scores, is_settled=bool(is_settled[block][0])))
        scores = Scores.concatenate(blocks, (0, len(history.times) - begin))
        return scores.take(np.argsort(order)).since(request.start - begin)


def _blocks(*groups: NDArray[np.intp]) -> Iterator[NDArray[np.intp] | slice]:
    """Yield the series of each group, `BLOCK_SERIES` at a time; contiguous series as a slice, without a copy."""
    for group in groups:
        for first in range(0, len(group), BLOCK_SERIES):
            block = group[first : first + BLOCK_SERIES]
            is_contiguous = block[-1] - block[0] == len(block) - 1
            yield slice(int(block[0]), int(block[-1]) + 1) if is_contiguous else block


def shifts(history: History) -> list[tuple[int, int, int]]:
    """Return accepted level shifts: series, partition, and the first partition of the new level."""
    level_shifts = []
    with np.errstate(all="ignore"):
        for first in range(0, len(history.values), BLOCK_SERIES):
            walk = Walk(history.rows(slice(first, first + BLOCK_SERIES)), Seasonal().cycles)
            walk.run()
            level_shifts += [(first + i, t, begun) for i, t, begun in walk.shifts]
    return sorted(level_shifts)


MIN_REPORTED_SPREADS = 2.0
"""Effects within this many spreads of a series' noise are not reported."""
SIMILAR_EFFECT_TOLERANCE = 0.2
"""Neighboring effects within this relative difference are reported together."""
MAX_REPORTED_EFFECTS = 5
"""Maximum number of effects reported for a series. Further effects are only counted."""
MIN_MULTIPLE = 2.0
"""Increases from this ratio on are reported as a multiple, not as a percentage."""
_WEEKDAY_NAMES = (
    "Mondays",
    "Tuesdays",
    "Wednesdays",
    "Thursdays",
    "Fridays",
    "Saturdays",
    "Sundays",
)
_MONTH_NAMES = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_ORDINAL_WORDS = ("first", "second", "third", "fourth", "fifth")
_ORDINAL_SUFFIXES = {1: "st", 2: "nd", 3: "rd", 21: "st", 22: "nd", 23: "rd", 31: "st"}


_Label = Callable[[int, int], str]
"""Returns the name of the slots from the first to the last, both included."""


@dataclass(frozen=True)
class _Effect:
    """Effect of neighboring slots of a season on a series, on the transformed scale of its metric."""

    label: str
    size: float


def learned_seasons(history: History, detector: Seasonal) -> list[str]:
    """Describe the seasons of each series, as learned by the end of its history.

    Effects are relative to the usual slot: the median weekday, hour or month. Effects within the noise of
    the series are left out, and so are days of the year, which are compared one by one.

    Parameters
    ----------
    history : History
        The series.
    detector : Seasonal
        Its parameters select the seasons.

    Returns
    -------
    list of str
        One description per series; empty if nothing was learned.

    Examples
    --------
    >>> days = np.arange("2021-02-01", "2021-04-12", dtype="M8[D]").astype("M8[s]")
    >>> values = np.where(np.is_busday(days.astype("M8[D]")), 1000.0, 550.0)[None, :]
    >>> learned_seasons(History(days, values, values, [Scale.COUNT]), Seasonal())
    ['Saturdays and Sundays 45% lower']
    """
    descriptions: list[str] = []
    for first in range(0, len(history.values), BLOCK_SERIES):
        block = history.rows(slice(first, first + BLOCK_SERIES))
        with np.errstate(all="ignore"):
            walk = Walk(block, detector.cycles, detector.seasons)
            walk.run()
            now = walk.after()
            effects = [[*_slot_effects(walk, i, now.spread[i])] for i in range(len(block.values))]
            for i, label, size in _month_effects(walk, now.spread):
                effects[i].append(_Effect(label, size))
        for i, series_effects in enumerate(effects):
            largest = sorted(series_effects, key=lambda effect: -abs(effect.size))[
                :MAX_REPORTED_EFFECTS
            ]
            usual = now.centre[i] + np.median(walk.effects[i])
            sentences = [
                f"{effect.label} {_describe_change(effect.size, float(usual), block.scales[i])}"
                for effect in largest
            ]
            if len(series_effects) > len(sentences):
                sentences.append(f"and {len(series_effects) - len(sentences)} more")
            descriptions.append("; ".join(sentences))
    return descriptions


def _slot_effects(walk: Walk, i: int, noise: float) -> Iterator[_Effect]:
    """Yield the effects of parts of the day, weekdays, weeks or months on a series."""
    grid, effects = walk.grid, walk.effects[i]
    if grid.yearly:
        label = (
            _week_names
            if grid.step
            else lambda first, last: _join_names(_MONTH_NAMES[first : last + 1])
        )
        yield from _group_effects(effects, noise, label)
    elif grid.daily and len(effects) == DAYS_PER_WEEK:
        yield from _group_effects(effects, noise, _weekday_names)
    elif grid.within_days:
        by_day = effects.reshape(-1, grid.period)
        parts = np.median(by_day, axis=0)
        yield from _group_effects(
            parts, noise, lambda first, last: _time_span(first, last, grid.step)
        )
        if len(by_day) == DAYS_PER_WEEK:
            yield from _group_effects(np.median(by_day - parts, axis=1), noise, _weekday_names)


def _group_effects(effects: Floats, noise: float, label: _Label) -> Iterator[_Effect]:
    """Yield the effects of slots that differ from the usual slot; similar neighbors are grouped."""
    departures = effects - np.median(effects)
    first = 0
    for last in range(len(departures)):
        is_last = last + 1 == len(departures) or abs(
            departures[last + 1] - departures[first]
        ) > SIMILAR_EFFECT_TOLERANCE * abs(departures[first])
        if is_last:
            size = float(np.median(departures[first : last + 1]))
            if abs(size) > MIN_REPORTED_SPREADS * max(noise, 1e-9):
                yield _Effect(label(first, last), size)
            first = last + 1


def _month_effects(walk: Walk, noise: Floats) -> Iterator[tuple[int, str, float]]:
    """Yield the effects of days of the month: series, label and size.

    An effect is reported if most of its days in the last months agree. If several ways of counting days
    name nearly the same dates, only the one with the most agreeing days is reported.
    """
    dated = walk.days[~np.isnat(walk.days)]
    if not days_within(walk.grid) or not len(dated):
        return
    recent = walk.days >= dated.max() - np.timedelta64(days_within(walk.grid), "D")
    candidates = []
    for counting, slots in enumerate(walk.dates.month):
        for slot in np.unique(slots[recent & (slots >= 0)]).tolist():
            days = np.flatnonzero(recent & (slots == slot))
            sizes, agreeing = _effect_of_whole_days(walk.dates, days, noise)
            candidates += [
                (-int(agreeing[i]), counting, i, slot, frozenset(days.tolist()), sizes[i])
                for i in np.flatnonzero(~np.isnan(sizes)).tolist()
            ]
    named_days: dict[int, set[int]] = {}
    for _, counting, i, slot, dates, size in sorted(
        candidates, key=lambda candidate: candidate[:4]
    ):
        covered = named_days.setdefault(i, set())
        if 2 * len(dates & covered) < len(dates):
            covered |= dates
            yield i, _day_of_month_name(counting, slot), float(size)


def _effect_of_whole_days(
    dates: DateEffects, partitions: NDArray[np.intp], noise: Floats
) -> tuple[Floats, NDArray[np.intp]]:
    """Return the median effect on which most parts of days agree, or NaN, and the number that agree."""
    all_series = np.arange(len(noise))
    parts = [
        dates.effect_of_days(partitions[dates.part[partitions] == part], all_series, noise)
        for part in np.unique(dates.part[partitions])
    ]
    sizes, agreeing = (np.stack(values) for values in zip(*parts, strict=True))
    is_shared = 2 * np.isnan(sizes).sum(axis=0) < len(sizes)
    return np.where(is_shared, median(sizes.T), np.nan), agreeing.sum(axis=0)


def _day_of_month_name(counting: int, slot: int) -> str:
    """Return the name of a slot of `month_slots`.

    Examples
    --------
    >>> _day_of_month_name(0, 0), _day_of_month_name(1, 15), _day_of_month_name(2, 1), _day_of_month_name(3, 1)
    ('month ends', 'the 15th of months', 'second last working days of months', 'first working days of months')
    """
    if counting == 1:
        return f"the {slot}{_ORDINAL_SUFFIXES.get(slot, 'th')} of months"
    if counting == 3:
        return f"{_ORDINAL_WORDS[slot - 1]} working days of months"
    if (counting, slot) == (0, 0):
        return "month ends"
    ordinal = f"{_ORDINAL_WORDS[slot]} last" if slot else "last"
    return f"{ordinal} {'working days' if counting == 2 else 'days'} of months"


def _week_names(first: int, last: int) -> str:
    """Return the name of consecutive weeks of the year, counted from 0.

    Examples
    --------
    >>> _week_names(0, 0), _week_names(48, 51)
    ('week 1 of years', 'weeks 49 to 52 of years')
    """
    if first == last:
        return f"week {first + 1} of years"
    return f"weeks {first + 1} to {last + 1} of years"


def _weekday_names(first: int, last: int) -> str:
    return _join_names(_WEEKDAY_NAMES[first : last + 1])


def _join_names(names: Sequence[str]) -> str:
    """Join the names of consecutive slots.

    Examples
    --------
    >>> _join_names(["a"]), _join_names(["a", "b"]), _join_names(["a", "b", "c"])
    ('a', 'a and b', 'a to c')
    """
    if len(names) > 2:
        return f"{names[0]} to {names[-1]}"
    return " and ".join(names)


def _time_span(first: int, last: int, step: int) -> str:
    """Return the name of consecutive parts of a day.

    Examples
    --------
    >>> _time_span(9, 16, 3600), _time_span(1, 1, 43200)
    ('09:00 to 17:00', '12:00 to 24:00')
    """
    minutes = (first * step // 60, (last + 1) * step // 60)
    return " to ".join(f"{minute // 60:02}:{minute % 60:02}" for minute in minutes)


def _describe_change(size: float, level: float, scale: Scale) -> str:
    """Describe an effect.

    Examples
    --------
    >>> _describe_change(np.log(2.5), np.log(100), Scale.POSITIVE), _describe_change(-0.5, 3.0, Scale.SIGNED)
    ('2.5 times as high', '0.5 lower')
    """
    usual, changed = restore(np.array([[level, level + size]]), [scale])[0].tolist()
    side = "higher" if size > 0 else "lower"
    if scale is Scale.RATIO:
        points = f"{100 * abs(changed - usual):.2g}"
        return f"{points} point{'' if points == '1' else 's'} {side}"
    if scale not in {Scale.COUNT, Scale.POSITIVE} or not usual:
        return f"{number(abs(changed - usual))} {side}"
    if changed >= MIN_MULTIPLE * usual:
        return f"{changed / usual:.1f} times as high"
    return f"{percent(abs(changed / usual - 1))} {side}"
