"""Rules decide which scores are anomalies.

A rule looks at what one monitor scored in one partition, so that the number of series watched can
be taken into account.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from scipy import stats

from repository.anomalies.detector import Scores

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from repository.anomalies.detector import Floats

    Flags = NDArray[np.bool_]


class Rule(Protocol):
    """Decides on all points of some series at once."""

    def decide(self, values: Floats, scores: Scores) -> Flags:
        """Return which points are anomalies; both of shape (series, partitions)."""


@dataclass(frozen=True)
class OutsideBand:
    """A value outside its band is an anomaly; Deequ's rule."""

    def decide(self, values: Floats, scores: Scores) -> Flags:
        """Compare with the bounds; a missing bound allows everything."""
        with np.errstate(invalid="ignore"):
            return (values < scores.lower) | (values > scores.upper)


@dataclass(frozen=True)
class FalseDiscoveryRate:
    """Benjamini and Hochberg (1995) over all series of a partition, and outside the band.

    The band keeps a partition of few series from making an anomaly of one value in twenty.

    Attributes
    ----------
    rate : float
        The share of anomalies that may be false, on average.

    Examples
    --------
    >>> p = np.array([[1e-6], [0.02], [0.5]])
    >>> scores = Scores(-np.log10(p), p, expected=p, lower=p + 1, upper=p + 2)
    >>> FalseDiscoveryRate(0.05).decide(p, scores).ravel().tolist()
    [True, True, False]
    """

    rate: float = 0.05

    def decide(self, values: Floats, scores: Scores) -> Flags:
        """Adjust the p-values of each partition and compare with the rate."""
        flags = np.zeros(scores.p_value.shape, dtype=bool)
        for t in range(scores.p_value[0].size if len(flags) else 0):
            known = np.flatnonzero(~np.isnan(scores.p_value[:, t]))
            if known.size:
                adjusted = stats.false_discovery_control(scores.p_value[known, t])
                flags[known, t] = adjusted <= self.rate
        return flags & OutsideBand().decide(values, scores)
