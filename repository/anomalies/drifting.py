"""A detector of columns whose distribution drifts away."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from analyzers.errors import IllegalAnalyzerParameterError
from repository.anomalies.detector import Detector, History, Scores, detector
from repository.anomalies.grid import Grid
from repository.anomalies.seasonal import Seasonal

DISTANCES = ("psi", "js", "ks", "wasserstein", "unseen", "lost")


@detector
class Drift(Detector):
    """Compares a column's distribution with that of the weeks before, and the distance with its own past.

    Before it scores, detection records the distances of every partition to those before it as metrics
    (`Repository.drifts`), from the sketches or frequencies that were stored. A distance is odd if it is
    larger than it used to be, as `Seasonal` sees it: tests of significance fire on harmless changes of
    large tables, and fixed limits miss much.

    Parameters
    ----------
    column : str
    distance : str
        ``psi``, ``js``, ``ks`` or ``wasserstein``; of categories also ``unseen`` and ``lost``.
    baseline : str
        The time before each partition that it is compared with.

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
        """The distance is one of those that there are."""
        if self.distance not in DISTANCES:
            msg = f"{self!r}: distance must be one of {', '.join(DISTANCES)}"
            raise IllegalAnalyzerParameterError(msg)

    def reads(self, series: Mapping[str, Any]) -> bool:
        """Whether a series is the distance of the column."""
        return (series["name"], series["instance"]) == (f"Drift.{self.distance}", self.column)

    def reach(self, grid: Grid) -> int:
        """Return how many partitions before a point its score may depend on."""
        return Seasonal().reach(grid)

    def score(self, history: History, start: int = 0, known: Scores | None = None) -> Scores:
        """Score the distances as `Seasonal` does."""
        return Seasonal().score(history, start, known)
