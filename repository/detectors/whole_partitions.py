"""Detectors of whole partitions: missing, overdue and late ones, and those with suspicious contents.

Suspicious contents are stale copies, metrics that lost their values, schema changes, restatements and
joint anomalies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tidegauge.analyzers.core.errors import IllegalAnalyzerParameterError
from tidegauge.analyzers.core.formatting import hours_text, plural
from tidegauge.analyzers.core.metric import Scale, subject
from tidegauge.repository.detectors.base import History, PartitionDetector, Reason, Scores, detector
from tidegauge.repository.detectors.seasonal import Seasonal
from tidegauge.repository.numerics.arrays import MAX_SCORE
from tidegauge.repository.numerics.grid import (
    DAY_SECONDS,
    DAYS_PER_WEEK,
    FIRST_STEPS,
    HOUR_SECONDS,
    MONTH_SECONDS,
    WEEK_SECONDS,
    Grid,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidegauge.repository.numerics.arrays import Floats


FIRST_EVENT_SCORE = 2.0
"""Score added for the first event of its kind, as if it were a hundred times rarer."""
MIN_UNUSUAL_METRICS = 2
"""Minimum of metrics with a p-value of at most 0.1 for a joint anomaly."""
EMPTY_REPORTED_PARTITIONS = 4
"""Partitions for which a metric that stays empty is told of, as many as confirm a new level."""
MAX_NAMED_COLUMNS = 6
"""Maximum of changed columns named in an explanation."""


@detector
class StalePartition(PartitionDetector):
    """Detector of stale partitions that repeat the one before: a load reread yesterday's data.

    It measures the share of metrics exactly equal to those of the partition before, among metrics
    that do not usually repeat. From ``share`` on, the score is -log10 of the probability that as many
    repeat, or as rarely repeating ones, by how often each did so far (Chernoff's bound). Where all
    repeat it is the product of these frequencies.

    Parameters
    ----------
    share : float
        Share of repeated metrics from which a partition is suspected.
    least_series : int
        Minimum number of metrics that do not usually repeat.

    Examples
    --------
    >>> values = np.random.default_rng(0).normal(size=(5, 30))
    >>> values[:, 20] = values[:, 19]
    >>> days = np.arange(30).astype("M8[D]").astype("M8[s]")
    >>> history = History(days, values, np.ones_like(values), [Scale.SIGNED] * 5)
    >>> np.flatnonzero(StalePartition().score(history).score[0] >= 3).tolist()
    [20]
    """

    min_points: ClassVar[int] = 2
    scale: ClassVar[Scale] = Scale.RATIO

    share: float = 0.6
    least_series: int = 3

    def check_parameters(self) -> None:
        """Validate that `share` is above 0 and at most 1, and `least_series` at least 1."""
        if not 0 < self.share <= 1 or self.least_series < 1:
            msg = f"{self!r}: share is above 0 and at most 1, least_series at least 1"
            raise IllegalAnalyzerParameterError(msg)

    def reach(self, grid: Grid) -> int:
        """Return the number of earlier partitions that a score may depend on."""
        return FREQUENCY_PARTITIONS + 1

    def measure(self, history: History) -> Floats:
        """Return the share of metrics that repeat; NaN with fewer than `least_series`."""
        repeats, rate = _repeats(history.values)
        is_informative = ~np.isnan(repeats) & (rate < MAX_REPEAT_RATE)
        count = is_informative.sum(axis=0)
        repeated = np.where(is_informative, repeats, 0).sum(axis=0)
        return np.where(count >= self.least_series, repeated / np.maximum(count, 1), np.nan)

    def score(
        self, history: History, start: int = 0, earlier_scores: Scores | None = None
    ) -> Scores:
        """Score each partition by how rarely its metrics repeated before."""
        share = self.measure(history)
        repeats, rate = _repeats(history.values)
        is_informative = ~np.isnan(repeats) & (rate < MAX_REPEAT_RATE)
        score = np.zeros(len(share))
        for t in np.flatnonzero(share >= self.share):
            rows = is_informative[:, t]
            score[t] = _repeat_score(repeats[rows, t] == 1, rate[rows, t])
        return _one_row_scores(score, ~np.isnan(share), Reason.COPY, upper=self.share, start=start)

    def explanation(self, history: History, t: int) -> str:
        """Return an explanation with the share of repeated metrics."""
        return f"repeats the previous partition in {self.measure(history)[t]:.0%} of its metrics"


CHERNOFF_EXPONENTS = np.geomspace(0.05, 50, 60)[:, None]
"""Exponents among which the one of Chernoff's bound is sought."""
MAX_REPEAT_RATE = 0.5
"""Frequency of repeats from which a metric is ignored."""
FREQUENCY_PARTITIONS = 91
"""Earlier partitions from which the frequency of repeats is estimated."""


def _repeats(values: Floats) -> tuple[Floats, Floats]:
    """Return 1 or 0 for each point that repeats the one before or not, and its past frequency.

    Unknown repeats are NaN.
    """
    repeats = np.full(values.shape, np.nan)
    has_both = ~np.isnan(values[:, 1:]) & ~np.isnan(values[:, :-1])
    repeats[:, 1:] = np.where(has_both, values[:, 1:] == values[:, :-1], np.nan)
    known_before = _recent_count(~np.isnan(repeats))
    repeated_before = _recent_count(np.nan_to_num(repeats))
    return repeats, (repeated_before + 1) / (known_before + 2)


def _repeat_score(repeats: NDArray[np.bool_], rate: Floats) -> float:
    """Return -log10 of a bound of the probability of such repeats, given the frequency of each.

    Each counts by the logarithm of its frequency. The sum exceeds s with a probability of at most
    E[exp(t (sum - s))] for every t > 0 (Chernoff 1952).

    Examples
    --------
    >>> _repeat_score(np.array([True, True, True]), np.array([0.1, 0.1, 0.01])).__round__(2)
    4.0
    >>> _repeat_score(np.arange(14) < 9, np.full(14, 0.31)).__round__(1)
    1.4
    """
    weight = -np.log(rate)
    terms = np.log1p(rate * np.expm1(CHERNOFF_EXPONENTS * weight)) - CHERNOFF_EXPONENTS * np.where(
        repeats, weight, 0.0
    )
    return float(np.clip(-terms.sum(axis=1).min() / np.log(10), 0, MAX_SCORE))


def _recent_count(events: NDArray[Any]) -> Floats:
    """Return the number of events in the `REACH` partitions before each."""
    total = np.concatenate([np.zeros((len(events), 1)), np.cumsum(events, axis=1)], axis=1)
    indices = np.arange(events.shape[1])
    recent: Floats = total[:, indices] - total[:, np.maximum(indices - FREQUENCY_PARTITIONS, 0)]
    return recent


@detector
class EmptyMetrics(PartitionDetector):
    """Detector of metrics that had values and are empty or NaN: a column or a filter lost all of its rows.

    It counts such metrics. The score is the highest of theirs: -log10 of how often the metric was
    empty so far, where the first time counts as a hundred times rarer. A metric that stays empty
    keeps its score for four partitions, and is usual from then on. Metrics that failed, or were not
    measured, are not empty.

    Examples
    --------
    >>> values = np.ones((1, 30))
    >>> values[0, 20] = np.nan
    >>> days = np.arange(30).astype("M8[D]").astype("M8[s]")
    >>> history = History(days, values, values, [Scale.SIGNED], empty=np.isnan(values))
    >>> np.flatnonzero(EmptyMetrics().score(history).score[0] >= 3).tolist()
    [20]
    """

    def reach(self, grid: Grid) -> int:
        """Return the number of earlier partitions that a score may depend on."""
        return FREQUENCY_PARTITIONS + EMPTY_REPORTED_PARTITIONS

    def measure(self, history: History) -> Floats:
        """Return the number of metrics that are empty and usually are not."""
        count: Floats = (_empty_scores(history) > 0).sum(axis=0).astype(np.float64)
        return count

    def score(
        self, history: History, start: int = 0, earlier_scores: Scores | None = None
    ) -> Scores:
        """Score each partition by the metric that was empty the least often."""
        score = np.max(_empty_scores(history), axis=0, initial=0.0)
        return _one_row_scores(score, np.ones(score.shape, bool), Reason.EMPTY, 0.0, start)

    def explanation(self, history: History, t: int) -> str:
        """Return an explanation that names the metrics."""
        score = _empty_scores(history)[:, t]
        order = np.argsort(-score, kind="stable")
        names = [subject(history.series[i]) for i in order[score[order] > 0].tolist()]
        return f"no longer has a value of {list_changes(names)}"


def _empty_scores(history: History) -> Floats:
    """Return the score of each point that is empty, by how often its series was; 0 for all others."""
    score = np.zeros(history.values.shape)
    if history.empty is None or not history.empty.any():
        return score
    rows = np.flatnonzero(history.empty.any(axis=1))
    empty = history.empty[rows]
    measured = empty | ~np.isnan(history.values[rows])
    measured_before, empty_before = _recent_count(measured), _recent_count(empty)
    rare = np.log10((measured_before + 2) / (empty_before + 1)) + np.where(
        empty_before == 0, FIRST_EVENT_SCORE, 0
    )
    first_score, run_length = np.zeros(len(rows)), np.zeros(len(rows), dtype=int)
    for t in range(empty.shape[1]):
        run_length = np.where(empty[:, t], run_length + 1, np.where(measured[:, t], 0, run_length))
        first_score = np.where(empty[:, t] & (run_length == 1), rare[:, t], first_score)
        score[rows, t] = np.where(
            empty[:, t] & (run_length <= EMPTY_REPORTED_PARTITIONS) & (measured_before[:, t] > 0),
            first_score,
            0,
        )
    return score


@detector
class SchemaChange(PartitionDetector):
    """Detector of schema changes between a partition and the one before.

    It counts columns that were added, removed or changed their type. The score is -log10 of the
    frequency of changes so far; the first change counts as a hundred times rarer.

    Examples
    --------
    >>> SchemaChange()
    SchemaChange()
    """

    needs_values: ClassVar[bool] = False

    def measure(self, history: History) -> Floats:
        """Return the number of columns that differ."""
        return np.array([len(change) for change in _changes(history)], dtype=np.float64)

    def score(
        self, history: History, start: int = 0, earlier_scores: Scores | None = None
    ) -> Scores:
        """Score each change by the rarity of changes."""
        events = self.measure(history) > 0
        return _one_row_scores(
            _rarity_scores(events), np.ones(len(events), bool), Reason.SCHEMA, 0.0, start
        )

    def explanation(self, history: History, t: int) -> str:
        """Return an explanation that names the changed columns."""
        return f"has a changed schema: {list_changes(_changes(history)[t])}"


def _changes(history: History) -> list[list[str]]:
    """Return descriptions of each partition's schema changes."""
    changes: list[list[str]] = []
    previous: Mapping[str, str] = {}
    for columns in history.ledger.columns if history.ledger else [{}] * len(history.times):
        changes.append(schema_changes(previous, columns))
        previous = columns or previous
    return changes


def schema_changes(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Return the differences of two schemas, types by column; none if one is empty, so unknown.

    Examples
    --------
    >>> schema_changes({"a": "int", "b": "string"}, {"a": "long", "c": "string"})
    ['b is gone', 'c is new', 'a is long, not int']
    """
    if not before or not after:
        return []
    return [
        *(f"{name} is gone" for name in before if name not in after),
        *(f"{name} is new" for name in after if name not in before),
        *(
            f"{name} is {kind}, not {before[name]}"
            for name, kind in after.items()
            if name in before and before[name] != kind
        ),
    ]


def list_changes(changes: Sequence[str]) -> str:
    """Return the first changes as text, with the number of the others.

    Examples
    --------
    >>> list_changes(["a is new", "b is new"])
    'a is new, b is new'
    """
    limit = MAX_NAMED_COLUMNS
    suffix = f" and {len(changes) - limit} more" if len(changes) > limit else ""
    return ", ".join(changes[:limit]) + suffix


@detector
class Restatement(PartitionDetector):
    """Detector of restatements: partitions whose data changed after they had been measured.

    The score is -log10 of the frequency of restated partitions; the first counts as a hundred times
    rarer.

    Examples
    --------
    >>> Restatement()
    Restatement()
    """

    needs_values: ClassVar[bool] = False

    def measure(self, history: History) -> Floats:
        """Return the number of restatements of each partition."""
        if history.ledger is None:
            return np.zeros(len(history.times))
        return np.maximum(history.ledger.version - 1, 0).astype(np.float64)

    def score(
        self, history: History, start: int = 0, earlier_scores: Scores | None = None
    ) -> Scores:
        """Score each restated partition by the rarity of restatements."""
        events = self.measure(history) > 0
        return _one_row_scores(
            _rarity_scores(events), np.ones(len(events), bool), Reason.RESTATED, 0.0, start
        )

    def explanation(self, history: History, t: int) -> str:
        """Return an explanation with the number of restatements."""
        times = int(self.measure(history)[t])
        return f"was restated {'once' if times == 1 else f'{times} times'}"


@detector
class Multivariate(PartitionDetector):
    """Detector of joint anomalies: many metrics off at once, though each alone could be chance.

    Each metric's `Seasonal` score is capped at 3; the mean over the metrics is compared with that
    of earlier partitions, by `Seasonal` again, upwards only. At least two metrics must score 1 or
    more.

    Examples
    --------
    >>> Multivariate()
    Multivariate()
    """

    min_points: ClassVar[int] = Seasonal.min_points
    scale: ClassVar[Scale] = Scale.DISTANCE

    def measure(self, history: History) -> Floats:
        """Return the mean capped score of the metrics; NaN if none was scored."""
        scores = np.minimum(Seasonal().score(history).score, 3.0)
        is_known = ~np.isnan(scores)
        count = is_known.sum(axis=0)
        total = np.where(is_known, scores, 0).sum(axis=0)
        return np.where(count > 0, total / np.maximum(count, 1), np.nan)

    def score(
        self, history: History, start: int = 0, earlier_scores: Scores | None = None
    ) -> Scores:
        """Score the mean of the metrics' scores."""
        mean = self.measure(history)[None, :]
        muted = None if history.ledger is None else history.ledger.muted
        joint = History(
            history.times,
            mean,
            np.full_like(mean, np.nan),
            [self.scale],
            muted=None if muted is None else muted[None, :],
            grid=history.grid,
        )
        scores = Seasonal().score(joint)
        has_few = (Seasonal().score(history).score >= 1).sum(axis=0) < MIN_UNUSUAL_METRICS
        scores.score[0, has_few & ~np.isnan(scores.score[0])] = 0.0
        scores.reason[0, has_few] = Reason.NONE
        scores.reason[scores.reason != Reason.NONE] = Reason.JOINT
        return scores.since(start)

    def explanation(self, history: History, t: int) -> str:
        """Return an explanation with the number of metrics that are off."""
        scores = Seasonal().score(history).score[:, t]
        return (
            f"is unusual in {int((scores >= 1).sum())} of {plural(len(scores), 'metric')} at once"
        )


def _rarity_scores(events: NDArray[np.bool_]) -> Floats:
    """Return -log10 of the past frequency of events at each event; 0 where there is none."""
    events_before: NDArray[np.int64] = np.cumsum(events) - events
    partitions_before = np.arange(len(events))
    rare = np.log10((partitions_before + 2) / (events_before + 1)) + np.where(
        events_before == 0, FIRST_EVENT_SCORE, 0
    )
    return np.where(events, rare, 0.0)


def _one_row_scores(
    score: Floats, is_scored: NDArray[np.bool_], reason: Reason, upper: float, start: int
) -> Scores:
    """Build the one-row scores of a whole-partition detector."""
    scores = Scores.unscored((1, len(score)))
    scores.score[0] = np.where(is_scored, score, np.nan)
    scores.upper[0] = np.where(is_scored, upper, np.nan)
    scores.reason[0] = np.where(is_scored & (score > 0), reason, Reason.NONE)
    return scores.since(start)


RECENT_SEASONS = 8
"""Earlier seasons in which the same position of the season is looked up."""
MIN_PARTITIONS = 7
"""Number of partitions from which gaps are scored."""
LONGER_GAP_MARGIN = 2
"""Positions by which a gap is longer than all before from which on it is unlike them."""
MIN_DELAY_HOURS = 0.1
"""Minimum delay in hours; shorter delays count as this."""
LATE_DELAY_RATIO = 2.0
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

    def score(
        self, history: History, start: int = 0, earlier_scores: Scores | None = None
    ) -> Scores:
        """Score each gap by the rarity of such gaps."""
        missing, score = self._gaps(history)
        scores = Scores.unscored((1, len(missing)))
        scores.score[0] = np.where(np.arange(len(missing)) >= MIN_PARTITIONS, score, np.nan)
        scores.upper[0] = np.where(np.isnan(scores.score[0]), np.nan, 0.0)
        scores.reason[0] = np.where(scores.score[0] > 0, Reason.MISSING, Reason.NONE)
        return scores.since(start)

    def explanation(self, history: History, t: int) -> str:
        """Return an explanation with the number of missing partitions."""
        grid, reported_gaps = _grid(history), list(gaps(history, only_partition=t))
        unit = _UNITS.get(int(grid.length.astype(np.int64)), "partition")
        sentences = []
        for gap in reported_gaps:
            since = _time_text(gap.times(1)[0], has_clock=grid.within_days)
            count_text = _many(gap.count, unit)
            if gap.overdue:
                next_ones = f"{unit} is" if gap.count == 1 else f"{count_text} are"
                due_time = _time_text(_overdue_since(history, grid, gap.times(1)[0]))
                sentences.append(
                    f"is the newest, the next {next_ones} overdue: {since} was due by {due_time} UTC"
                )
            else:
                time_text = f", {since}" if gap.count == 1 else f" from {since} on"
                sentences.append(f"follows a gap of {count_text}{time_text}")
        return ", and ".join(sentences) or "follows no gap"

    def _gaps(self, history: History) -> tuple[Floats, Floats]:
        count, score = np.zeros(len(history.times)), np.zeros(len(history.times))
        earlier: list[np.datetime64] = []
        longest = 0
        for number, gap in enumerate(gaps(history)):
            rarity, length = gap.rarest, gap.count
            if earlier and length >= longest + LONGER_GAP_MARGIN:
                rarity = max(rarity, np.log10((gap.begin + 3) / (number + 1))) + FIRST_EVENT_SCORE
            elif not earlier or (not gap.overdue and _is_news(gap.since, earlier)):
                rarity += FIRST_EVENT_SCORE
            count[gap.partition] += length
            # A gap before the newest partition and what is overdue after it have one place.
            score[gap.partition] = max(score[gap.partition], rarity)
            if gap.partition >= MIN_PARTITIONS:
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
    recent = [gap_time for gap_time in earlier if since - gap_time < HABIT_MEMORY]
    allowed = NEWS_GAPS
    if recent:
        allowed += int((since - recent[0]) / NEWS_GAP_DISTANCE)
    return len(recent) < allowed


_UNITS = {HOUR_SECONDS: "hour", DAY_SECONDS: "day", WEEK_SECONDS: "week", MONTH_SECONDS[1]: "month"}
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
    partition : int
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

    partition: int
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
        seasons, remaining = divmod(self.steps - 1, len(self.rare))
        return seasons * int(self.rare.sum()) + int(self.rare[:remaining].sum())

    def times(self, limit: int | None = None) -> NDArray[np.datetime64]:
        """Return the times of the missing partitions, or of the first so many."""
        offsets, season = np.flatnonzero(self.rare) + 1, len(self.rare)
        count = self.count if limit is None else min(limit, self.count)
        seasons = np.arange(-(-count // len(offsets))) * season
        columns = (seasons[:, None] + offsets).ravel()[:count]
        return self.grid.after(self.since, columns)


def gaps(history: History, only_partition: int | None = None) -> Iterator[Gap]:
    """Yield the gaps in the calendar of a history in order, overdue partitions last.

    Partitions without a time come after the others, and have no place in it, nor have those far in the
    future. Of parts of days neither has the first week: its nights and its weekend are no gaps.
    ``only_partition`` selects those of one place.
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
        is_last = t + 1 == len(column)
        partition = t if is_last else t + 1
        if only_partition is not None and partition != only_partition:
            continue
        begin, step_count = int(column[t]), int(steps[t])
        rates = absences.rates(begin)
        rare = rates < USUALLY_MISSING_RATE
        if rare[: step_count - 1].any():
            rarest = -float(np.log10(rates[: step_count - 1].min()))
            yield Gap(
                partition, begin, times[t], step_count, rare, rarest, overdue=is_last, grid=grid
            )


USUALLY_MISSING_RATE = 0.5
"""Frequency from which a position that is often missing is no gap."""
RECENT_DELAYS = 7
"""Recent delays examined for overdue partitions, at least, and the maximum of their median in steps."""


MIN_WHOLE_WEEK_SHARE = 0.8
"""Share of the first steps of a grid of weeks that are whole weeks, to a day: ten days are no calendar."""
MIN_KNOWN_SEASONS = 3
"""Earlier seasons below which a position is usual if its time of the day is, on all days."""


def _grid(history: History) -> Grid:
    return history.grid or Grid.from_times(history.times)


def _is_regular(grid: Grid, times: NDArray[np.datetime64]) -> bool:
    """Return whether partitions have regular steps, so that it is known which are missing."""
    if grid.step != WEEK_SECONDS:
        return grid.months or grid.step > 0
    days = np.diff(times[: FIRST_STEPS + 1]).astype("m8[D]").astype(np.int64)
    return bool(np.mean((days + 1) % DAYS_PER_WEEK <= 2) >= MIN_WHOLE_WEEK_SHARE)


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
    recent : array of int
        By column: absent positions among the same columns of the last `CYCLES` seasons, without those of
        outages, of a season and of `CYCLES` positions or longer, which are no habit.
    """

    season: int
    day: int
    gaps: Floats
    recent: NDArray[np.int64]

    @classmethod
    def count(cls, column: NDArray[np.intp], season: int, day: int) -> _Absences:
        """Count the absent positions of a calendar, up to its last partition."""
        seasons = int(column[-1]) // season + 1
        absent = np.ones(seasons * season, dtype=bool)
        absent[column] = False
        absent[column[-1] :] = False  # what is not over is not absent
        steps = np.diff(column)
        habit = absent.copy()
        habit[: column[-1]] &= np.repeat(steps <= max(season, RECENT_SEASONS), steps)
        so_far = np.zeros((RECENT_SEASONS + seasons, season), dtype=np.int64)
        np.cumsum(habit.reshape(seasons, season), axis=0, out=so_far[RECENT_SEASONS:])
        lately = so_far[RECENT_SEASONS:] - so_far[:-RECENT_SEASONS]
        earlier = np.concatenate([np.zeros((1, season), dtype=np.int64), lately[:-1]])
        known_seasons = np.minimum(np.arange(seasons), RECENT_SEASONS)[:, None]
        is_usual = (known_seasons < MIN_KNOWN_SEASONS) | (
            earlier < USUALLY_MISSING_RATE * known_seasons
        )
        shares = (absent & is_usual.ravel()).astype(np.float64)
        in_gap = np.add.reduceat(shares, column[:-1])
        shares[: column[-1]] /= np.repeat(np.maximum(in_gap, 1), steps)
        gaps = np.cumsum(shares.reshape(seasons, season), axis=0)
        return cls(season, day, gaps.ravel(), lately.ravel())

    def rates(self, begin: int) -> Floats:
        """Return the frequencies of absences before a column at each position of a season after it.

        They are smoothed by the frequency of gaps among positions that are usually there. Those that
        usually are not, such as nights, say nothing of the others.
        """
        columns = np.arange(max(begin + 1 - self.season, 0), begin + 1)
        counts = np.zeros((3, self.season))
        counts[:, self.season - len(columns) :] = (
            columns // self.season + 1,
            self.gaps[columns],
            self.recent[columns],
        )
        known_seasons, gaps, lately = counts
        recent = np.minimum(known_seasons, RECENT_SEASONS)
        by_day = lately.reshape(-1, self.day).sum(axis=0)
        is_usual_time = by_day < USUALLY_MISSING_RATE * recent.reshape(-1, self.day).sum(axis=0)
        is_new = (recent < MIN_KNOWN_SEASONS) & np.tile(is_usual_time, self.season // self.day)
        is_usual = is_new | (lately < USUALLY_MISSING_RATE * recent)
        overall = (gaps[is_usual].sum() + 1) / (known_seasons[is_usual].sum() + 3)
        rates: Floats = (lately + overall) / (recent + 1)
        return rates


def _overdue(history: History, grid: Grid) -> int:
    """Return the number of partitions that are overdue after the last."""
    patience = _patience(history, grid)
    if patience is None or history.ledger is None:
        return 0
    newest_time = history.times[_current(history, grid) - 1]
    return grid.passed(newest_time, history.ledger.now - patience)


def _overdue_since(history: History, grid: Grid, time: np.datetime64) -> np.datetime64:
    """Return the time at which a partition that has not come became overdue."""
    patience = _patience(history, grid)
    (end,) = grid.after(np.array([time]))
    return np.datetime64(end) + (patience or np.timedelta64(0, "s"))


def _patience(history: History, grid: Grid) -> np.timedelta64 | None:
    """Return the time after its end at which a partition is overdue; None if none can be told."""
    ledger = history.ledger
    if ledger is None or np.isnat(ledger.now):
        return None
    step, newest_index = grid.length, _current(history, grid) - 1
    recent, max_steps = RECENT_DELAYS, RECENT_DELAYS
    if grid.within_days:  # the parts of a day may all come at once
        is_same_day = history.times[: newest_index + 1] > history.times[
            newest_index
        ] - np.timedelta64(DAY_SECONDS, "s")
        recent, max_steps = max(recent, int(is_same_day.sum())), max(max_steps, grid.period)
    delays = delays_of(history)[: newest_index + 1][-recent:]
    known_delays = delays[~np.isnat(delays)]
    usual_seconds = (
        np.median(known_delays.astype("m8[s]").astype(float))
        if len(known_delays) == recent
        else np.inf
    )
    if usual_seconds > max_steps * step / np.timedelta64(1, "s"):
        return None
    slowest: np.timedelta64 = max(known_delays.max(), np.timedelta64(0, "s"))
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

    min_points: ClassVar[int] = Seasonal.min_points
    scale: ClassVar[Scale] = Scale.POSITIVE
    needs_values: ClassVar[bool] = False
    needs_scores: ClassVar[bool] = True

    def reach(self, grid: Grid) -> int:
        """Return the number of earlier partitions that a score may depend on."""
        return Seasonal().reach(grid)

    def measure(self, history: History) -> Floats:
        """Return each partition's delay in hours, at least `LEAST_DELAY`; NaN if unknown."""
        delay = delays_of(history)
        hours = delay.astype(np.float64) / HOUR_SECONDS
        return np.where(np.isnat(delay), np.nan, np.maximum(hours, MIN_DELAY_HOURS))

    def score(
        self, history: History, start: int = 0, earlier_scores: Scores | None = None
    ) -> Scores:
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
        scores = Seasonal().score_rises(late, start, earlier_scores, np.log(LATE_DELAY_RATIO))
        # The other reasons say what `Seasonal` learned of a delay.
        is_late = (scores.score > 1) & np.isin(scores.reason, (Reason.LEVEL, Reason.CONSTANT))
        scores.reason[is_late] = Reason.LATE
        return scores

    def explanation(self, history: History, t: int) -> str:
        """Return an explanation with the delay."""
        return f"arrived {hours_text(float(self.measure(history)[t]))} after its end"
