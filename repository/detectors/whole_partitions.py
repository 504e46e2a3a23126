"""Detectors of whole partitions: missing, overdue and late partitions, and suspicious contents.

Suspicious contents are stale copies, metrics that lost their values, schema changes, restatements and
joint anomalies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from math import inf, log, log10
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tidegauge.analyzers.core.errors import IllegalAnalyzerParameterError
from tidegauge.analyzers.core.formatting import hours_text, percent, plural
from tidegauge.analyzers.core.metric import Scale, subject
from tidegauge.repository.detectors.base import (
    History,
    PartitionDetector,
    Reason,
    ScoreRequest,
    Scores,
    detector,
)
from tidegauge.repository.detectors.inputs import clock_changes, guess_zone
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
"""Added to the score of the first event of its kind, as if it were a hundred times rarer."""
MIN_UNUSUAL_METRICS = 2
"""A joint anomaly needs at least this many metrics with a p-value of at most 0.1."""
EMPTY_REPORTED_PARTITIONS = 4
"""A metric that stays empty is reported this often, because four points confirm a new level."""
MAX_NAMED_COLUMNS = 6
"""An explanation names at most this many changed columns."""


@detector
class StalePartition(PartitionDetector):
    """Detector of stale partitions, which repeat the previous partition: a load reread yesterday's data.

    It measures the share of metrics that exactly equal their previous value, among the metrics that
    rarely repeat. From ``share`` on, the score is -log10 of the probability of such repeats, given how
    often each metric repeated so far (Chernoff's bound). If all metrics repeat, this is the product of
    their frequencies.

    Parameters
    ----------
    share : float
        Minimum share of repeated metrics in a stale partition.
    least_series : int
        Minimum number of metrics that rarely repeat.

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
            msg = f"{self!r}: share must be above 0 and at most 1, and least_series at least 1"
            raise IllegalAnalyzerParameterError(msg)

    def reach(self, grid: Grid) -> int:
        """Return the number of earlier partitions that a score can depend on."""
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
        share = float(self.measure(history)[t])
        metrics = "all" if share == 1 else percent(share)
        return f"repeats the previous partition in {metrics} of its metrics"


CHERNOFF_EXPONENTS = np.geomspace(0.05, 50, 60)[:, None]
"""Exponents t for which Chernoff's bound is computed; the smallest bound is used."""
MAX_REPEAT_RATE = 0.5
"""Metrics that repeat at least this often are ignored."""
FREQUENCY_PARTITIONS = 91
"""Earlier partitions from which frequencies are estimated: 13 weeks of days."""


def _repeats(values: Floats) -> tuple[Floats, Floats]:
    """Return 1 for points that repeat the previous point, 0 for others, and the past frequency.

    NaN if either point is unknown.
    """
    repeats = np.full(values.shape, np.nan)
    has_both = ~np.isnan(values[:, 1:]) & ~np.isnan(values[:, :-1])
    repeats[:, 1:] = np.where(has_both, values[:, 1:] == values[:, :-1], np.nan)
    known_before = _recent_count(~np.isnan(repeats))
    repeated_before = _recent_count(np.nan_to_num(repeats))
    return repeats, (repeated_before + 1) / (known_before + 2)


def _repeat_score(repeats: NDArray[np.bool_], rate: Floats) -> float:
    """Return -log10 of an upper bound of the probability of repeats, given their frequencies.

    The weight of each repeat is -log of its frequency. For every t > 0, the sum of weights reaches s
    with a probability of at most E[exp(t (sum - s))] (Chernoff 1952).

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
    """Return the number of events in the `FREQUENCY_PARTITIONS` partitions before each partition."""
    total = np.concatenate([np.zeros((len(events), 1)), np.cumsum(events, axis=1)], axis=1)
    indices = np.arange(events.shape[1])
    recent: Floats = total[:, indices] - total[:, np.maximum(indices - FREQUENCY_PARTITIONS, 0)]
    return recent


@detector
class EmptyMetrics(PartitionDetector):
    """Detector of metrics that had values and are empty or NaN: a column or a filter lost all of its rows.

    It counts these metrics. The score is the highest of their scores: -log10 of the past frequency of
    empty values. The first empty value counts as a hundred times rarer. A metric that stays empty keeps
    its score for four partitions and is usual from then on. Metrics that failed or were not measured
    are not empty.

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
        """Return the number of earlier partitions that a score can depend on."""
        return FREQUENCY_PARTITIONS + EMPTY_REPORTED_PARTITIONS

    def measure(self, history: History) -> Floats:
        """Return the number of metrics that are empty and usually are not."""
        count: Floats = (_empty_scores(history) > 0).sum(axis=0).astype(np.float64)
        return count

    def score(
        self, history: History, start: int = 0, earlier_scores: Scores | None = None
    ) -> Scores:
        """Score each partition by its empty metric that was most rarely empty before."""
        score = np.max(_empty_scores(history), axis=0, initial=0.0)
        return _one_row_scores(score, np.ones(score.shape, bool), Reason.EMPTY, 0.0, start)

    def explanation(self, history: History, t: int) -> str:
        """Return an explanation that names the metrics."""
        score = _empty_scores(history)[:, t]
        order = np.argsort(-score, kind="stable")
        names = [subject(history.series[i]) for i in order[score[order] > 0].tolist()]
        return f"no longer has a value of {list_changes(names)}"


def _empty_scores(history: History) -> Floats:
    """Return the scores of empty points, by how often their series was empty; 0 for all other points."""
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
    """Detector of schema changes since the previous partition.

    It counts columns that were added, removed or changed their type. The score is -log10 of the
    frequency of changes so far. The first change counts as a hundred times rarer.

    Examples
    --------
    >>> SchemaChange()
    SchemaChange()
    """

    needs_values: ClassVar[bool] = False

    def measure(self, history: History) -> Floats:
        """Return the number of changed columns of each partition."""
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
    """Return the differences of two schemas, types by column; none if either is empty, thus unknown.

    Examples
    --------
    >>> schema_changes({"a": "int", "b": "string"}, {"a": "long", "c": "string"})
    ['b is gone', 'c is new', 'a is long, not int']
    """
    if not before or not after or before is after:
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
    """Return the first changes as a string, with the number of further changes.

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

    The score is -log10 of the frequency of restated partitions. The first restatement counts as a
    hundred times rarer.

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
    """Detector of joint anomalies: many metrics are off at once, though each alone could be chance.

    Each metric's `Seasonal` score is capped at 3. `Seasonal` then compares the mean over the metrics
    with the means of earlier partitions; only higher means are anomalies. At least two metrics must
    score 1 or more.

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
"""Frequencies of missing positions are counted in this many earlier seasons."""
MIN_PARTITIONS = 7
"""Gaps are scored after at least this many partitions."""
LONGER_GAP_MARGIN = 2
"""A gap is unlike all earlier gaps if it is at least this many positions longer."""
MIN_DELAY_HOURS = 0.1
"""Shorter delays count as this delay, because differences between them do not matter."""
LATE_DELAY_RATIO = 2.0
"""A partition is late above this multiple of the usual delay."""


@detector
class MissingPartition(PartitionDetector):
    """Detector of missing partitions: gaps in the calendar, and overdue partitions after the newest.

    A gap is reported at the partition after it. Overdue partitions are reported at the newest partition.

    The score of a missing position is -log10 of how often such positions were missing before: the same
    weekday, or hour of the week, in the last eight weeks, and all positions that usually have a
    partition. So a table without weekends misses nothing on Sundays. An outage counts once, however long
    it was.

    A gap is never rarer than chance explains: a position that had three rows on other days can have none. These gaps count
    as a hundred times rarer, as far as chance does not explain them: the first gap; the second gap and further gaps, once the
    next partition has arrived, if there is at most one gap in four weeks; and a gap that is at least two
    positions longer than all earlier gaps. So a table that has stopped is reported regardless of what was
    missing before.

    A partition is overdue after twice the longest of the last seven delays, counted from its end. For
    partitions within days, all delays of the last day are used. All of these delays must be known, and
    their median must be at most seven steps (hours, days, weeks or months), or one day of steps.

    Examples
    --------
    >>> days = np.delete(np.arange(40), [30, 31]).astype("M8[D]").astype("M8[s]")
    >>> history = History(days, np.empty((0, 38)), np.empty((0, 38)), [])
    >>> np.flatnonzero(MissingPartition().score(history).score[0] >= 3).tolist()
    [30]
    >>> MissingPartition().explanation(history, 30)
    'follows a gap of 2 days from 1970-01-31 on'
    """

    needs_values: ClassVar[bool] = False
    needs_clock: ClassVar[bool] = True

    def measure(self, history: History) -> Floats:
        """Return the number of partitions missing before each partition, and overdue after the newest."""
        return self._gaps(history)[0]

    def score(
        self, history: History, start: int = 0, earlier_scores: Scores | None = None
    ) -> Scores:
        """Score each gap by the frequency of such gaps."""
        missing, score = self._gaps(history)
        scores = Scores.unscored((1, len(missing)))
        scores.score[0] = np.where(np.arange(len(missing)) >= MIN_PARTITIONS, score, np.nan)
        scores.upper[0] = np.where(np.isnan(scores.score[0]), np.nan, 0.0)
        scores.reason[0] = np.where(scores.score[0] > 0, Reason.MISSING, Reason.NONE)
        return scores.since(start)

    def explanation(self, history: History, t: int) -> str:
        """Return an explanation with the number of missing partitions."""
        grid, reported_gaps = _grid(history), list(gaps(history, only_partition=t))
        zone = "UTC" if history.ledger is None or not history.ledger.zone else history.ledger.zone
        unit = _UNITS.get(int(grid.length.astype(np.int64)), "partition")
        sentences = []
        for gap in reported_gaps:
            since = _time_text(gap.times(1)[0], has_clock=grid.within_days)
            count_text = plural(gap.count, unit)
            if gap.overdue:
                next_ones = f"{unit} is" if gap.count == 1 else f"{count_text} are"
                due_time = _time_text(_overdue_since(history, grid, gap.times(1)[0]))
                sentences.append(
                    f"is the newest, the next {next_ones} overdue: {since} was due by {due_time} {zone}"
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
            rarity = min(rarity, gap.emptiness_score)
            count[gap.partition] += length
            # The newest partition reports both the gap before it and the overdue partitions.
            score[gap.partition] = max(score[gap.partition], rarity)
            if gap.partition >= MIN_PARTITIONS:
                earlier.append(gap.since)
            longest = max(longest, length)
        return count, score


NEWS_GAPS = 2
"""This many gaps are always reported as new; later gaps can be usual."""
NEWS_GAP_DISTANCE = np.timedelta64(28, "D")
"""Later gaps are reported as new if gaps are at least this far apart on average."""
HABIT_MEMORY = np.timedelta64(364, "D")
"""Older gaps are ignored."""


def _is_news(since: np.datetime64, earlier: Sequence[np.datetime64]) -> bool:
    """Return whether a gap is new rather than usual, given the times of earlier gaps.

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
"""Unit names by the length of a partition in seconds."""


def _time_text(moment: np.datetime64, *, has_clock: bool = True) -> str:
    """Format a time for messages, with or without the time of day.

    Examples
    --------
    >>> _time_text(np.datetime64("2026-03-06T05:00"))
    '2026-03-06 05:00'
    """
    time = moment.astype("M8[us]").item()
    assert isinstance(time, datetime)
    return f"{time:%Y-%m-%d}" + (f" {time:%H:%M}" if has_clock else "")


@dataclass(frozen=True)
class Gap:
    """Gap: consecutive calendar positions that include positions which are rarely missing.

    Attributes
    ----------
    partition : int
        Index of the reported partition: the partition after the gap, or the newest if overdue.
    begin : int
        Column of the partition before the gap.
    since : datetime64
        Time of the partition before the gap.
    steps : int
        Positions from the partition before the gap to the partition after it.
    rare : array of bool, shape (season,)
        Positions of the season, counted from the gap, that usually have a partition.
    rarest : float
        -log10 of the lowest past frequency of a missing position in the gap.
    emptiness_score : float
        -log10 of the probability that its positions have no rows by chance; infinite if their usual rows are unknown.
    overdue : bool
        True if no partition follows the gap yet.
    grid : Grid
        Time grid of the partitions.
    """

    partition: int
    begin: int
    since: np.datetime64
    steps: int
    rare: NDArray[np.bool_]
    rarest: float
    emptiness_score: float
    overdue: bool
    grid: Grid

    @property
    def count(self) -> int:
        """Number of missing partitions, without positions that are often missing."""
        seasons, remaining = divmod(self.steps - 1, len(self.rare))
        return seasons * int(self.rare.sum()) + int(self.rare[:remaining].sum())

    def times(self, limit: int | None = None) -> NDArray[np.datetime64]:
        """Return the times of the missing partitions, or of the first ``limit`` of them."""
        offsets, season = np.flatnonzero(self.rare) + 1, len(self.rare)
        count = self.count if limit is None else min(limit, self.count)
        seasons = np.arange(-(-count // len(offsets))) * season
        columns = (seasons[:, None] + offsets).ravel()[:count]
        return self.grid.after(self.since, columns)


def gaps(history: History, only_partition: int | None = None) -> Iterator[Gap]:
    """Yield the gaps in the calendar of a history in order, overdue partitions last.

    Partitions without a time, which come last, are ignored. So are partitions far in the future and, for
    partitions within days, the gaps of the first week, whose nights and weekend are not known yet.

    Parameters
    ----------
    history : History
        The partitions, sorted by time.
    only_partition : int, optional
        Index of a partition; yield only the gaps that are reported there.
    """
    grid = _grid(history)
    times = history.times[: _current(history, grid)]
    column = grid.column[: len(times)]
    if len(column) < 2 or not _is_regular(grid, times):
        return
    season = grid.cycle if grid.within_days else grid.period
    day = grid.period if grid.within_days else 1
    absences = _Absences.count(column, season, day)
    rows = np.full(int(column[-1]) + 1, np.nan)
    if history.ledger is not None and history.ledger.rows is not None:
        rows[column] = history.ledger.rows[: len(column)]
    zone = guess_zone(times) if history.ledger is None else history.ledger.zone
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
        if grid.within_days and zone is not None:
            # The hour that clocks skip in spring does not exist.
            near = np.arange(1, min(step_count, len(rare) + 1))
            skipped, _ = clock_changes(grid.after(times[t], near), zone)
            rare[near - 1] &= ~skipped
        if rare[: step_count - 1].any():
            rarest = -float(np.log10(rates[: step_count - 1].min()))
            missing = begin + 1 + np.flatnonzero(rare[: step_count - 1])
            yield Gap(
                partition,
                begin,
                times[t],
                step_count,
                rare,
                rarest,
                _emptiness_score(rows, missing, day),
                overdue=is_last,
                grid=grid,
            )


def _emptiness_score(rows: Floats, positions: NDArray[np.intp], day: int) -> float:
    """Return -log10 of the probability that positions have no rows by chance; infinite if unknown.

    A position that had n rows on another day is empty with probability exp(-n - 1/2), as a Poisson count whose mean is n,
    or more if n was low by chance. The mean over the last 28 days counts.

    Parameters
    ----------
    rows : array of float, shape (columns,)
        Number of rows; NaN if unknown.
    positions : array of int
        Missing columns.
    day : int
        Columns of a day.

    Examples
    --------
    >>> rows = np.array([2.0, 900, 3, 900, 2, 900, np.nan, 900])
    >>> round(_emptiness_score(rows, np.array([6]), 2), 2), _emptiness_score(rows, np.array([7]), 2) > 100
    (1.19, True)
    """
    score = 0.0
    for position in positions[:MAX_EMPTY_POSITIONS].tolist():
        earlier = position - day * np.arange(1, EMPTINESS_DAYS + 1)
        counts = rows[earlier[(earlier >= 0) & (earlier < len(rows))]]
        counts = counts[~np.isnan(counts)]
        if not len(counts):
            return inf
        fewest = float(counts.min())
        score += (fewest + 0.5) / log(10) - log10(float(np.mean(np.exp(fewest - counts))))
    return score


EMPTINESS_DAYS = 28
"""Days whose rows tell whether a position can be empty by chance."""
MAX_EMPTY_POSITIONS = 24
"""The first positions of a gap whose emptiness is explained by chance."""
USUALLY_MISSING_RATE = 0.5
"""A position that is missing at least this often is not a gap."""
RECENT_DELAYS = 7
"""Partitions are overdue by this many recent delays, or more, whose median is at most this many steps."""
MIN_WHOLE_WEEK_SHARE = 0.8
"""On a weekly grid, at least this share of the first steps must be whole weeks, give or take a day."""
MIN_KNOWN_SEASONS = 3
"""With fewer earlier seasons, a position is usual if its time of day is usual over all days."""


def _grid(history: History) -> Grid:
    return history.grid or Grid.from_times(history.times)


def _is_regular(grid: Grid, times: NDArray[np.datetime64]) -> bool:
    """Return whether partitions have regular steps, so that missing partitions are known."""
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
        Positions of a season, and of a day within it; ``day`` is 1 if a day has one position.
    gaps : array of float, shape (columns,)
        Number of gaps at the same position of this and all earlier seasons. A gap of n positions counts
        1/n at each, so that an outage counts once however long it was.
    recent : array of int, shape (columns,)
        Number of absences at the same position of the last `RECENT_SEASONS` seasons. Outages are left out:
        gaps longer than a season and than `RECENT_SEASONS` positions do not become usual.
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
        absent[column[-1] :] = False  # the last gap is not over yet
        # Count the absences of recent seasons, without outages.
        steps = np.diff(column)
        habit = absent.copy()
        habit[: column[-1]] &= np.repeat(steps <= max(season, RECENT_SEASONS), steps)
        so_far = np.zeros((RECENT_SEASONS + seasons, season), dtype=np.int64)
        np.cumsum(habit.reshape(seasons, season), axis=0, out=so_far[RECENT_SEASONS:])
        recent = so_far[RECENT_SEASONS:] - so_far[:-RECENT_SEASONS]
        # Count gaps at usual positions: each absent position is a share of its gap.
        earlier = np.concatenate([np.zeros((1, season), dtype=np.int64), recent[:-1]])
        known_seasons = np.minimum(np.arange(seasons), RECENT_SEASONS)[:, None]
        is_usual = (known_seasons < MIN_KNOWN_SEASONS) | (
            earlier < USUALLY_MISSING_RATE * known_seasons
        )
        shares = (absent & is_usual.ravel()).astype(np.float64)
        in_gap = np.add.reduceat(shares, column[:-1])
        shares[: column[-1]] /= np.repeat(np.maximum(in_gap, 1), steps)
        gaps = np.cumsum(shares.reshape(seasons, season), axis=0)
        return cls(season, day, gaps.ravel(), recent.ravel())

    def rates(self, begin: int) -> Floats:
        """Return the past frequencies of absences at each position of the season after a column.

        They are smoothed toward the frequency of gaps at positions that usually have a partition.
        Other positions, such as nights, are not evidence for these.
        """
        # Look up the counts of the season that ends at the column; positions before the start have none.
        columns = np.arange(max(begin + 1 - self.season, 0), begin + 1)
        counts = np.zeros((3, self.season))
        counts[:, self.season - len(columns) :] = (
            columns // self.season + 1,
            self.gaps[columns],
            self.recent[columns],
        )
        known_seasons, gaps, absences = counts
        recent = np.minimum(known_seasons, RECENT_SEASONS)
        # Find the positions that usually have a partition; in new series, the usual times of day.
        by_day = absences.reshape(-1, self.day).sum(axis=0)
        is_usual_time = by_day < USUALLY_MISSING_RATE * recent.reshape(-1, self.day).sum(axis=0)
        is_new = (recent < MIN_KNOWN_SEASONS) & np.tile(is_usual_time, self.season // self.day)
        is_usual = is_new | (absences < USUALLY_MISSING_RATE * recent)
        # Smooth the frequencies.
        overall = (gaps[is_usual].sum() + 1) / (known_seasons[is_usual].sum() + 3)
        rates: Floats = (absences + overall) / (recent + 1)
        return rates


def _overdue(history: History, grid: Grid) -> int:
    """Return the number of overdue partitions after the newest partition."""
    patience = _patience(history, grid)
    if patience is None or history.ledger is None:
        return 0
    newest_time = history.times[_current(history, grid) - 1]
    return grid.passed(newest_time, history.ledger.now - patience)


def _overdue_since(history: History, grid: Grid, time: np.datetime64) -> np.datetime64:
    """Return the time at which a missing partition became overdue."""
    patience = _patience(history, grid)
    (end,) = grid.after(np.array([time]))
    return np.datetime64(end) + (patience or np.timedelta64(0, "s"))


def _patience(history: History, grid: Grid) -> np.timedelta64 | None:
    """Return how long after its end a partition is overdue; None if delays are unknown or irregular."""
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
    """Return the number of partitions with a time, without partitions far in the future."""
    dated = history.times[~np.isnat(history.times)]
    now = np.datetime64("NaT", "s") if history.ledger is None else history.ledger.now
    return grid.current(dated, now)


def delays_of(history: History) -> NDArray[np.timedelta64]:
    """Return each partition's arrival delay after the end of its period; not-a-time if unknown.

    The period is the time that a partition spans, such as an hour, a day or a month.
    """
    if history.ledger is None:
        return np.full(len(history.times), np.timedelta64("NaT", "s"))
    ends = _grid(history).after(history.times)
    delays: NDArray[np.timedelta64] = (history.ledger.arrived - ends).astype("m8[s]")
    return delays


@detector
class Late(PartitionDetector):
    """Detector of late partitions: arrivals much later than usual.

    The delay is the time from the end of a partition's period until its data were written, in hours.
    `Seasonal` compares it with earlier delays. Only delays of more than twice the usual delay count.

    Examples
    --------
    >>> Late()
    Late()
    """

    min_points: ClassVar[int] = Seasonal.min_points
    scale: ClassVar[Scale] = Scale.POSITIVE
    needs_values: ClassVar[bool] = False
    needs_scores: ClassVar[bool] = True

    def reach(self, grid: Grid) -> int | None:
        """Return the number of earlier partitions that a score can depend on; None for weeks and months."""
        return Seasonal().reach(grid)

    def measure(self, history: History) -> Floats:
        """Return each partition's delay in hours, at least `MIN_DELAY_HOURS`; NaN if unknown."""
        delay = delays_of(history)
        hours = delay.astype(np.float64) / HOUR_SECONDS
        return np.where(np.isnat(delay), np.nan, np.maximum(hours, MIN_DELAY_HOURS))

    def score(
        self, history: History, start: int = 0, earlier_scores: Scores | None = None
    ) -> Scores:
        """Score the delays with `Seasonal`."""
        return self.score_together([ScoreRequest(history, start, earlier_scores)])[0]

    def score_together(self, requests: Sequence[ScoreRequest]) -> list[Scores]:
        """Return the results of `score` for several histories; those of equal partitions are scored as one."""
        delays = [self.measure(request.history)[None, :] for request in requests]
        # The arrivals of your own numbers are unknown.
        known = [n for n, values in enumerate(delays) if not np.isnan(values).all()]
        scores = [
            Scores.unscored(values.shape).since(request.start)
            for values, request in zip(delays, requests, strict=True)
        ]
        late = [self._of_delays(requests[n], delays[n]) for n in known]
        results = Seasonal().score_rises(late, np.log(LATE_DELAY_RATIO))
        for n, result in zip(known, results, strict=True):
            # Keep the other reasons: `Seasonal` reads them when it learns from these scores.
            is_late = (result.score > 1) & np.isin(result.reason, (Reason.LEVEL, Reason.CONSTANT))
            reason = np.where(is_late, np.uint8(Reason.LATE), result.reason)
            scores[n] = replace(result, reason=reason)
        return scores

    def _of_delays(self, request: ScoreRequest, delays: Floats) -> ScoreRequest:
        """Return a request for the scores of a history's delays."""
        history = request.history
        muted = None if history.ledger is None else history.ledger.muted
        of_delays = History(
            history.times,
            delays,
            np.full_like(delays, np.nan),
            [self.scale],
            muted=None if muted is None else muted[None, :],
            grid=history.grid,
        )
        return replace(request, history=of_delays)

    def score_and_measure_together(
        self, requests: Sequence[ScoreRequest]
    ) -> list[tuple[Scores, Floats]]:
        """Return the scores and the delays."""
        pairs = zip(requests, self.score_together(requests), strict=True)
        return [(scores, self.measure(request.history)) for request, scores in pairs]

    def explanation(self, history: History, t: int) -> str:
        """Return an explanation with the delay."""
        return f"arrived {hours_text(float(self.measure(history)[t]))} after its end"
