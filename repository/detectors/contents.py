"""Detectors of whole partitions: stale copies, schema changes, restatements, joint anomalies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tidegauge.analyzers.core.errors import IllegalAnalyzerParameterError
from tidegauge.analyzers.core.formatting import plural
from tidegauge.analyzers.core.metric import Scale
from tidegauge.analyzers.core.metric_names import subject
from tidegauge.repository.detectors.base import History, PartitionDetector, Reason, Scores, detector
from tidegauge.repository.detectors.seasonal import Seasonal
from tidegauge.repository.numerics.arrays import CAP

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidegauge.repository.numerics.arrays import Floats
    from tidegauge.repository.numerics.grid import Grid

UNSEEN = 2.0
"""Score added for the first event of its kind, as if it were a hundred times rarer."""
MANY = 2
"""Minimum of metrics with a p-value of at most 0.1 for a joint anomaly."""
STAYS = 4
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

    least: ClassVar[int] = 2
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
        return REACH + 1

    def measure(self, history: History) -> Floats:
        """Return the share of metrics that repeat; NaN with fewer than `least_series`."""
        repeats, rate = _repeats(history.values)
        telling = ~np.isnan(repeats) & (rate < USUAL)
        count = telling.sum(axis=0)
        same = np.where(telling, repeats, 0).sum(axis=0)
        return np.where(count >= self.least_series, same / np.maximum(count, 1), np.nan)

    def score(self, history: History, start: int = 0, known: Scores | None = None) -> Scores:
        """Score each partition by how rarely its metrics repeated before."""
        share = self.measure(history)
        repeats, rate = _repeats(history.values)
        telling = ~np.isnan(repeats) & (rate < USUAL)
        score = np.zeros(len(share))
        for t in np.flatnonzero(share >= self.share):
            some = telling[:, t]
            score[t] = _repeat_score(repeats[some, t] == 1, rate[some, t])
        return _row(score, ~np.isnan(share), Reason.COPY, upper=self.share, start=start)

    def explanation(self, history: History, t: int) -> str:
        """Return an explanation with the share of repeated metrics."""
        return f"repeats the previous partition in {self.measure(history)[t]:.0%} of its metrics"


TILTS = np.geomspace(0.05, 50, 60)[:, None]
"""Exponents among which the one of Chernoff's bound is sought."""
USUAL = 0.5
"""Frequency of repeats from which a metric is ignored."""
REACH = 91
"""Earlier partitions from which the frequency of repeats is estimated."""


def _repeats(values: Floats) -> tuple[Floats, Floats]:
    """Return 1 or 0 for each point that repeats the one before or not, and its past frequency.

    Unknown repeats are NaN.
    """
    repeats = np.full(values.shape, np.nan)
    both = ~np.isnan(values[:, 1:]) & ~np.isnan(values[:, :-1])
    repeats[:, 1:] = np.where(both, values[:, 1:] == values[:, :-1], np.nan)
    before = _lately(~np.isnan(repeats))
    same = _lately(np.nan_to_num(repeats))
    return repeats, (same + 1) / (before + 2)


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
    terms = np.log1p(rate * np.expm1(TILTS * weight)) - TILTS * np.where(repeats, weight, 0.0)
    return float(np.clip(-terms.sum(axis=1).min() / np.log(10), 0, CAP))


def _lately(events: NDArray[Any]) -> Floats:
    """Return the number of events in the `REACH` partitions before each."""
    total = np.concatenate([np.zeros((len(events), 1)), np.cumsum(events, axis=1)], axis=1)
    places = np.arange(events.shape[1])
    lately: Floats = total[:, places] - total[:, np.maximum(places - REACH, 0)]
    return lately


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
        return REACH + STAYS

    def measure(self, history: History) -> Floats:
        """Return the number of metrics that are empty and usually are not."""
        found: Floats = (_emptied(history) > 0).sum(axis=0).astype(np.float64)
        return found

    def score(self, history: History, start: int = 0, known: Scores | None = None) -> Scores:
        """Score each partition by the metric that was empty the least often."""
        score = np.max(_emptied(history), axis=0, initial=0.0)
        return _row(score, np.ones(score.shape, bool), Reason.EMPTY, 0.0, start)

    def explanation(self, history: History, t: int) -> str:
        """Return an explanation that names the metrics."""
        score = _emptied(history)[:, t]
        order = np.argsort(-score, kind="stable")
        names = [subject(history.series[i]) for i in order[score[order] > 0].tolist()]
        return f"no longer has a value of {list_changes(names)}"


def _emptied(history: History) -> Floats:
    """Return the score of each point that is empty, by how often its series was; 0 for all others."""
    score = np.zeros(history.values.shape)
    if history.empty is None or not history.empty.any():
        return score
    some = np.flatnonzero(history.empty.any(axis=1))
    empty = history.empty[some]
    measured = empty | ~np.isnan(history.values[some])
    seen, before = _lately(measured), _lately(empty)
    rare = np.log10((seen + 2) / (before + 1)) + np.where(before == 0, UNSEEN, 0)
    going_on, length = np.zeros(len(some)), np.zeros(len(some), dtype=int)
    for t in range(empty.shape[1]):
        length = np.where(empty[:, t], length + 1, np.where(measured[:, t], 0, length))
        going_on = np.where(empty[:, t] & (length == 1), rare[:, t], going_on)
        score[some, t] = np.where(empty[:, t] & (length <= STAYS) & (seen[:, t] > 0), going_on, 0)
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

    def score(self, history: History, start: int = 0, known: Scores | None = None) -> Scores:
        """Score each change by the rarity of changes."""
        events = self.measure(history) > 0
        return _row(_rarity(events), np.ones(len(events), bool), Reason.SCHEMA, 0.0, start)

    def explanation(self, history: History, t: int) -> str:
        """Return an explanation that names the changed columns."""
        return f"has a changed schema: {list_changes(_changes(history)[t])}"


def _changes(history: History) -> list[list[str]]:
    """Return descriptions of each partition's schema changes."""
    found: list[list[str]] = []
    last: Mapping[str, str] = {}
    for columns in history.ledger.columns if history.ledger else [{}] * len(history.times):
        found.append(schema_changes(last, columns))
        last = columns or last
    return found


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
    most = MAX_NAMED_COLUMNS
    more = f" and {len(changes) - most} more" if len(changes) > most else ""
    return ", ".join(changes[:most]) + more


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

    def score(self, history: History, start: int = 0, known: Scores | None = None) -> Scores:
        """Score each restated partition by the rarity of restatements."""
        events = self.measure(history) > 0
        return _row(_rarity(events), np.ones(len(events), bool), Reason.RESTATED, 0.0, start)

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

    least: ClassVar[int] = Seasonal.least
    scale: ClassVar[Scale] = Scale.DISTANCE

    def measure(self, history: History) -> Floats:
        """Return the mean capped score of the metrics; NaN if none was scored."""
        scores = np.minimum(Seasonal().score(history).score, 3.0)
        known = ~np.isnan(scores)
        count = known.sum(axis=0)
        total = np.where(known, scores, 0).sum(axis=0)
        return np.where(count > 0, total / np.maximum(count, 1), np.nan)

    def score(self, history: History, start: int = 0, known: Scores | None = None) -> Scores:
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
        few = (Seasonal().score(history).score >= 1).sum(axis=0) < MANY
        scores.score[0, few & ~np.isnan(scores.score[0])] = 0.0
        scores.reason[0, few] = Reason.NONE
        scores.reason[scores.reason != Reason.NONE] = Reason.JOINT
        return scores.since(start)

    def explanation(self, history: History, t: int) -> str:
        """Return an explanation with the number of metrics that are off."""
        scores = Seasonal().score(history).score[:, t]
        return (
            f"is unusual in {int((scores >= 1).sum())} of {plural(len(scores), 'metric')} at once"
        )


def _rarity(events: NDArray[np.bool_]) -> Floats:
    """Return -log10 of the past frequency of events at each event; 0 where there is none."""
    before: NDArray[np.int64] = np.cumsum(events) - events
    seen = np.arange(len(events))
    rare = np.log10((seen + 2) / (before + 1)) + np.where(before == 0, UNSEEN, 0)
    return np.where(events, rare, 0.0)


def _row(
    score: Floats, known: NDArray[np.bool_], reason: Reason, upper: float, start: int
) -> Scores:
    """Build the one-row scores of a whole-partition detector."""
    scores = Scores.unscored((1, len(score)))
    scores.score[0] = np.where(known, score, np.nan)
    scores.upper[0] = np.where(known, upper, np.nan)
    scores.reason[0] = np.where(known & (score > 0), reason, Reason.NONE)
    return scores.since(start)
