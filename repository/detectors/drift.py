"""Detector of distribution drift of a column."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from tidegauge.analyzers.core.errors import IllegalAnalyzerParameterError
from tidegauge.repository.detectors.base import Detector, History, Scores, detector
from tidegauge.repository.detectors.seasonal import Seasonal
from tidegauge.repository.numerics.grid import Grid

DISTANCES = ("psi", "js", "ks", "wasserstein", "unseen", "lost")


@detector
class Drift(Detector):
    """Detector of distribution drift: scores the distance to a trailing baseline by its past.

    Before scoring, detection records the distance of every partition to those before it as a metric
    (`Repository.drifts`), from stored sketches or frequencies. A distance is anomalous if it is
    larger than usual according to `Seasonal`: significance tests alert on harmless changes of large
    tables, and fixed thresholds miss many changes.

    Parameters
    ----------
    column : str
    distance : str
        ``psi``, ``js``, ``ks`` or ``wasserstein`` for numbers; ``psi``, ``js``, ``unseen`` or
        ``lost`` for categories.
    baseline : str
        Duration of the trailing baseline before each partition.

    Examples
    --------
    >>> Drift("dep_delay", distance="js").reads({"name": "Drift.js", "instance": "dep_delay"})
    True
    """

    least: ClassVar[int] = Seasonal.least
    rule: ClassVar[str] = "FalseDiscoveryRate()"

    column: str
    distance: str = "psi"
    baseline: str = "28d"

    def check_parameters(self) -> None:
        """Validate the distance."""
        if self.distance not in DISTANCES:
            msg = f"{self!r}: distance must be one of {', '.join(DISTANCES)}"
            raise IllegalAnalyzerParameterError(msg)

    def reads(self, series: Mapping[str, Any]) -> bool:
        """Return whether a series is the recorded distance of the column."""
        return (series["name"], series["instance"]) == (f"Drift.{self.distance}", self.column)

    def reach(self, grid: Grid) -> int:
        """Return the number of earlier partitions that a score may depend on."""
        return Seasonal().reach(grid)

    def score(self, history: History, start: int = 0, known: Scores | None = None) -> Scores:
        """Score the distances as `Seasonal` does."""
        return Seasonal().score(history, start, known)
