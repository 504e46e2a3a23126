"""Companions of an anomaly: correlated or unusual series that are no anomalies themselves."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tidegauge.analyzers.core.formatting import plain
from tidegauge.analyzers.core.metric_names import subject
from tidegauge.repository.store import scorebook
from tidegauge.repository.store.rows import SeriesIdentity

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from sqlalchemy.engine import Connection

    from tidegauge.repository.detectors.matrices import Matrix


NOTABLE = 1.5
"""Minimum score of a point to be notable without being an anomaly."""
CLOSE = 0.6
"""Minimum absolute rank correlation of a companion."""
COMMON = 20
"""Minimum number of common changes to correlate two series."""
FEW = 5
_WINDOW = 61


@dataclass(frozen=True)
class Companion:
    """A series that moved along with an anomaly.

    Attributes
    ----------
    what : str
        The metric as text.
    analyzer, segment : str
    score : float
        Its highest score in the same partitions; NaN if it has no notable one there.
    correlation : float
        Spearman's rank correlation of its changes with the anomaly's over the last 60 partitions;
        NaN if low or unknown, and for parts and bins.
    series : int or None
        Id of the series.
    """

    what: str
    analyzer: str
    segment: str
    score: float
    correlation: float
    series: int | None = None

    def __str__(self) -> str:
        """Return the relation in one sentence."""
        told = []
        if not np.isnan(self.score):
            told.append(f"was also unusual (score {self.score:.1f})")
        if not np.isnan(self.correlation):
            way = "with it" if self.correlation > 0 else "against it"
            told.append(f"usually moves {way} (rank correlation {self.correlation:.2f})")
        return f"{plain(self.what)} {' and '.join(told)}."


def companions(
    connection: Connection,
    dataset: int,
    past: Matrix,
    of: int | None,
    partitions: Sequence[int],
    out: Collection[int],
) -> tuple[Companion, ...]:
    """Find the series that moved along with anomalies.

    At most 5 with a notable score come first, then at most 5 with a high correlation.

    Parameters
    ----------
    connection : Connection
    dataset : int
    past : Matrix
        Ends with the anomaly's partition.
    of : int, optional
        Index of the anomaly's series; nothing is correlated if not given.
    partitions : sequence of int
        Ids of the anomalies' partitions.
    out : collection of int
        Ids of the anomalies' series, which are left out.
    """
    scores = _scores(connection, dataset, partitions)
    close = {} if of is None else _close(past, of)
    found = []
    for i, row in enumerate(past.series):
        score = scores.get(row["id"], np.nan)
        correlation = close.get(i, np.nan)
        notable = score >= NOTABLE
        if row["id"] not in out and (notable or not np.isnan(correlation)):
            told = (subject(row), row["analyzer"], row["segment"])
            numbers = (float(score if notable else np.nan), float(correlation))
            found.append(Companion(*told, *numbers, series=int(row["id"])))
    moved = sorted((c for c in found if not np.isnan(c.score)), key=lambda c: (-c.score, c.what))
    related = sorted(
        (c for c in found if np.isnan(c.score)), key=lambda c: (-abs(c.correlation), c.what)
    )
    return (*moved[:FEW], *related[:FEW])


def _scores(connection: Connection, dataset: int, partitions: Sequence[int]) -> dict[int, float]:
    """Return each series' highest score in some partitions, by any detector."""
    highest: dict[int, float] = {}
    for detector in scorebook.detectors(connection, dataset):
        points = scorebook.read(connection, dataset, detector, partitions)
        for series, score in zip(points.series.tolist(), points.score.tolist(), strict=True):
            highest[series] = max(score, highest.get(series, score))
    return highest


def _close(past: Matrix, of: int) -> dict[int, float]:
    """Return the high correlations of other series' changes with those of one, by index."""
    changes = np.diff(np.where(np.isinf(past.history.values), np.nan, past.history.values))
    changes = changes[:, -_WINDOW + 1 :]
    own = changes[of]
    found = {}
    for i, line in enumerate(changes):
        both = ~np.isnan(own) & ~np.isnan(line)
        if not _is_part(past.series[i], past.series[of]) and both.sum() >= COMMON:
            rho = _spearman(own[both], line[both])
            if abs(rho) >= CLOSE:
                found[i] = rho
    return found


def _is_part(row: SeriesIdentity, of: SeriesIdentity) -> bool:
    """Return whether a series has another's metric, or is a bin: these are reported as parts."""
    same = (row["name"], row["instance"]) == (of["name"], of["instance"])
    return same or any(mark in row["name"] for mark in (".abs.", ".ratio."))


def _spearman(x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    """Return Spearman's rank correlation; 0 if either side is constant.

    Examples
    --------
    >>> _spearman(np.array([1.0, 2.0, 4.0]), np.array([2.0, 1.0, 0.0]))
    -1.0
    """
    from scipy.stats import rankdata

    a, b = (np.asarray(rankdata(z), dtype=np.float64) for z in (x, y))
    if np.ptp(a) == 0 or np.ptp(b) == 0:
        return 0.0
    found: Any = np.corrcoef(np.stack([a, b]))
    return round(float(found[0, 1]), 12)
