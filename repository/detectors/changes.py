"""Detectors of level changes: change points and slow drift."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from tidegauge.repository.detectors.base import Detector, History, Reason, Scores, detector
from tidegauge.repository.detectors.seasonal import Seasonal, shifts


@detector
class SlowDrift(Detector):
    """Detector of slow drift: series that move gradually, but farther than ever before.

    The median of the last week is compared with that of the three weeks that ended two weeks ago,
    and the difference with earlier such differences, net of season and known level shifts
    (`tails.drift`). A drift is reported again only if it continues.

    Examples
    --------
    >>> from tidegauge.analyzers.core.metric import Scale
    >>> noise = np.random.default_rng(1).normal(size=120)
    >>> values = 1e6 + 1e4 * noise + np.concatenate([np.zeros(90), np.arange(30) * 5e3])
    >>> days = np.arange(120).astype("M8[D]").astype("M8[s]")
    >>> history = History(days, values[None], values[None], [Scale.COUNT])
    >>> told = np.flatnonzero(SlowDrift().score(history).score[0] >= 3.5)
    >>> bool(95 < told[0] < 115)
    True
    """

    least: ClassVar[int] = Seasonal.least
    rule: ClassVar[str] = "FalseDiscoveryRate()"

    def score(self, history: History, start: int = 0, known: Scores | None = None) -> Scores:
        """Score with `Seasonal` and keep only the scores of drifts."""
        scores = Seasonal().score(history)
        other = (scores.reason != Reason.DRIFT) & ~np.isnan(scores.score)
        scores.score[other] = 0.0
        scores.reason[other] = Reason.NONE
        return scores.since(start)


@detector
class ChangePoint(Detector):
    """Detector of change points: one alarm per new level, once it is confirmed.

    A new level is confirmed by the fourth point within six that lies far off to the same side; the
    score is the highest `Seasonal` score of these points.

    Examples
    --------
    >>> from tidegauge.analyzers.core.metric import Scale
    >>> noise = np.random.default_rng(1).normal(size=90)
    >>> values = np.where(np.arange(90) < 60, 1000, 2000) + 10 * noise
    >>> days = np.arange(90).astype("M8[D]").astype("M8[s]")
    >>> history = History(days, values[None], values[None], [Scale.COUNT])
    >>> np.flatnonzero(ChangePoint().score(history).score[0] > 3.5).tolist()
    [63]
    """

    least: ClassVar[int] = Seasonal.least
    rule: ClassVar[str] = "FalseDiscoveryRate()"

    def score(self, history: History, start: int = 0, known: Scores | None = None) -> Scores:
        """Score with `Seasonal` and keep only the points at which a new level was accepted."""
        scores = Seasonal().score(history)
        settled = shifts(history)
        highest = scores.score.copy()
        for i, t, first in settled:
            highest[i, t] = np.nanmax(scores.score[i, first : t + 1])
        kept = np.zeros(highest.shape, dtype=bool)
        for i, t, _ in settled:
            kept[i, t] = True
        known_now = ~np.isnan(scores.score)
        scores.score[:] = np.where(kept, highest, np.where(known_now, 0.0, np.nan))
        scores.reason[:] = np.where(kept, Reason.SHIFT, Reason.NONE)
        return scores.since(start)
