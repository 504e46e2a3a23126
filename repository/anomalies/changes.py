"""Detectors of series that settle at another level, at once or slowly."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from repository.anomalies.detector import Detector, History, Reason, Scores, detector
from repository.anomalies.seasonal import Seasonal, shifts


@detector
class SlowDrift(Detector):
    """Finds series that move slowly, but farther than they ever did.

    The median of the last week is compared with that of three weeks two weeks before, and the difference
    with such differences earlier, season and known shifts of level apart (`tails.drift`). It is told
    again only when it goes on.

    Examples
    --------
    >>> from analyzers.metric import Scale
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

    def score(self, history: History, start: int = 0, known: Scores | None = None) -> Scores:  # noqa: ARG002
        """Keep of the seasonal detector's scores those of drifts."""
        scores = Seasonal().score(history)
        other = (scores.reason != Reason.DRIFT) & ~np.isnan(scores.score)
        scores.score[other] = 0.0
        scores.reason[other] = Reason.NONE
        return scores.since(start)


@detector
class ChangePoint(Detector):
    """Finds where a series settles at a new level: one alarm for each, when it is certain.

    It is certain with the fourth point within six that lies far off to the same side; the score is the
    highest of these points' (of `Seasonal`).

    Examples
    --------
    >>> from analyzers.metric import Scale
    >>> noise = np.random.default_rng(1).normal(size=90)
    >>> values = np.where(np.arange(90) < 60, 1000, 2000) + 10 * noise
    >>> days = np.arange(90).astype("M8[D]").astype("M8[s]")
    >>> history = History(days, values[None], values[None], [Scale.COUNT])
    >>> np.flatnonzero(ChangePoint().score(history).score[0] > 3.5).tolist()
    [63]
    """

    least: ClassVar[int] = Seasonal.least
    rule: ClassVar[str] = "FalseDiscoveryRate()"

    def score(self, history: History, start: int = 0, known: Scores | None = None) -> Scores:  # noqa: ARG002
        """Keep of the seasonal detector's scores those with which a level was accepted."""
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
