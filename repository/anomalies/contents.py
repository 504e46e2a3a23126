"""Detectors of partitions whose contents are odd as a whole: copies, new schemas, restatements, all a bit off."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from analyzers.errors import IllegalAnalyzerParameterError
from analyzers.metric import Scale
from repository.anomalies.detector import (
    CAP,
    History,
    Reason,
    Scores,
    WholeDetector,
    detector,
)
from repository.anomalies.seasonal import Seasonal

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from repository.anomalies.detector import Floats
    from repository.anomalies.grid import Grid

UNSEEN = 2.0
"""What the first event of its kind adds to its score, as if one in a hundred were of this size."""
MANY = 2
"""Metrics that must be odd, each less likely than one in ten, for a partition to be odd in many."""
TOLD = 6
"""Columns that an explanation names."""


@detector
class StalePartition(WholeDetector):
    """Finds partitions that repeat the one before: a load that read yesterday's data again.

    Of the metrics that do not repeat most of the time, the share is taken that are exactly what they
    were in the partition before. From ``share`` on, the score is the sum over them of -log10 of how often
    each repeated so far, at most one for ten thousand each.

    Parameters
    ----------
    share : float
        From which share of repeated metrics on a partition is suspected.
    least_series : int
        How many metrics must be able to tell.

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
        """It is a share, of some series."""
        if not 0 < self.share <= 1 or self.least_series < 1:
            msg = f"{self!r}: share is above 0 and at most 1, least_series at least 1"
            raise IllegalAnalyzerParameterError(msg)

    def reach(self, grid: Grid) -> int:  # noqa: ARG002 - counted in partitions
        """Return how many partitions before a point its score may depend on."""
        return REACH + 1

    def measure(self, history: History) -> Floats:
        """Return the share of metrics that repeat."""
        repeats, rate = _repeats(history.values)
        telling = ~np.isnan(repeats) & (rate < USUAL)
        count = telling.sum(axis=0)
        same = np.where(telling, repeats, 0).sum(axis=0)
        return np.where(count >= self.least_series, same / np.maximum(count, 1), np.nan)

    def score(self, history: History, start: int = 0, known: Scores | None = None) -> Scores:  # noqa: ARG002
        """Score every partition by how often its metrics repeated before."""
        share = self.measure(history)
        repeats, rate = _repeats(history.values)
        telling = (repeats == 1) & (rate < USUAL)
        weight = np.minimum(-np.log10(np.where(telling, rate, 1)), 4.0)
        total = np.minimum(np.where(telling, weight, 0).sum(axis=0), CAP)
        score = np.where(share >= self.share, total, 0.0)
        return _row(score, ~np.isnan(share), Reason.COPY, upper=self.share, start=start)

    def tell(self, history: History, t: int) -> str:
        """Name the share."""
        return f"repeats the partition before in {self.measure(history)[t]:.0%} of its metrics"


USUAL = 0.5
"""Metrics that repeat more often tell nothing of copies."""
REACH = 91
"""Partitions before, from which it is known how often a metric repeats."""


def _repeats(values: Floats) -> tuple[Floats, Floats]:
    """Return whether each point repeats the one before it, NaN if unknown, and how often such were."""
    repeats = np.full(values.shape, np.nan)
    both = ~np.isnan(values[:, 1:]) & ~np.isnan(values[:, :-1])
    repeats[:, 1:] = np.where(both, values[:, 1:] == values[:, :-1], np.nan)
    before = _lately(~np.isnan(repeats))
    same = _lately(np.nan_to_num(repeats))
    return repeats, (same + 1) / (before + 2)


def _lately(events: NDArray[Any]) -> Floats:
    """Return how many events there were in the partitions before each, as far as they are remembered."""
    total = np.concatenate([np.zeros((len(events), 1)), np.cumsum(events, axis=1)], axis=1)
    places = np.arange(events.shape[1])
    lately: Floats = total[:, places] - total[:, np.maximum(places - REACH, 0)]
    return lately


@detector
class SchemaChange(WholeDetector):
    """Finds partitions whose columns are not those of the partition before.

    It counts columns that came, went or changed their type. The score is -log10 of how often partitions
    changed so far; the first change counts as a hundred times rarer.

    Examples
    --------
    >>> SchemaChange()
    SchemaChange()
    """

    needs_values: ClassVar[bool] = False

    def measure(self, history: History) -> Floats:
        """Return how many columns differ."""
        return np.array([len(change) for change in _changes(history)], dtype=np.float64)

    def score(self, history: History, start: int = 0, known: Scores | None = None) -> Scores:  # noqa: ARG002
        """Score every change by how rare changes were."""
        events = self.measure(history) > 0
        return _row(_rarity(events), np.ones(len(events), bool), Reason.SCHEMA, 0.0, start)

    def tell(self, history: History, t: int) -> str:
        """Name the columns."""
        change = _changes(history)[t]
        more = f" and {len(change) - TOLD} more" if len(change) > TOLD else ""
        return f"has another schema: {', '.join(change[:TOLD])}{more}"


def _changes(history: History) -> list[list[str]]:
    """Return what changed in each partition's schema."""
    found: list[list[str]] = []
    last: Mapping[str, str] = {}
    for columns in history.ledger.columns if history.ledger else [{}] * len(history.times):
        change = []
        if last and columns:
            change += [f"{name} is gone" for name in last if name not in columns]
            change += [f"{name} is new" for name in columns if name not in last]
            change += [
                f"{name} is {kind}, not {last[name]}"
                for name, kind in columns.items()
                if name in last and last[name] != kind
            ]
        found.append(change)
        last = columns or last
    return found


@detector
class Restatement(WholeDetector):
    """Finds partitions whose data changed after they had been measured.

    The score is -log10 of how often partitions were restated; the first counts as a hundred times rarer.

    Examples
    --------
    >>> Restatement()
    Restatement()
    """

    needs_values: ClassVar[bool] = False

    def measure(self, history: History) -> Floats:
        """Return how often each partition was restated."""
        if history.ledger is None:
            return np.zeros(len(history.times))
        return np.maximum(history.ledger.version - 1, 0).astype(np.float64)

    def score(self, history: History, start: int = 0, known: Scores | None = None) -> Scores:  # noqa: ARG002
        """Score every restated partition by how rare such were."""
        events = self.measure(history) > 0
        return _row(_rarity(events), np.ones(len(events), bool), Reason.RESTATED, 0.0, start)

    def tell(self, history: History, t: int) -> str:
        """Say how often."""
        times = int(self.measure(history)[t])
        return f"was restated {'once' if times == 1 else f'{times} times'}"


@detector
class Multivariate(WholeDetector):
    """Finds partitions that are odd in many metrics at once, though each alone might be chance.

    Every metric's score (of `Seasonal`) is taken, at most 3; their mean over the metrics is compared with
    what it was in earlier partitions, by `Seasonal` again, upwards only.

    Examples
    --------
    >>> Multivariate()
    Multivariate()
    """

    least: ClassVar[int] = Seasonal.least
    scale: ClassVar[Scale] = Scale.DISTANCE

    def measure(self, history: History) -> Floats:
        """Return the mean score of the metrics."""
        scores = np.minimum(Seasonal().score(history).score, 3.0)
        known = ~np.isnan(scores)
        count = known.sum(axis=0)
        total = np.where(known, scores, 0).sum(axis=0)
        return np.where(count > 0, total / np.maximum(count, 1), np.nan)

    def score(self, history: History, start: int = 0, known: Scores | None = None) -> Scores:  # noqa: ARG002
        """Score the mean of the scores."""
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

    def tell(self, history: History, t: int) -> str:
        """Count the metrics that are off."""
        scores = Seasonal().score(history).score[:, t]
        return f"is odd in {int((scores >= 1).sum())} of {len(scores)} metrics at once"


def _rarity(events: NDArray[np.bool_]) -> Floats:
    """Return how rare each event was when it came; 0 where there is none."""
    before: NDArray[np.int64] = np.cumsum(events) - events
    seen = np.arange(len(events))
    rare = np.log10((seen + 2) / (before + 1)) + np.where(before == 0, UNSEEN, 0)
    return np.where(events, rare, 0.0)


def _row(
    score: Floats, known: NDArray[np.bool_], reason: Reason, upper: float, start: int
) -> Scores:
    """Return the scores of partitions as one row."""
    scores = Scores.nothing((1, len(score)))
    scores.score[0] = np.where(known, score, np.nan)
    scores.upper[0] = np.where(known, upper, np.nan)
    scores.reason[0] = np.where(known & (score > 0), reason, Reason.NONE)
    return scores.since(start)
