"""Rules decide which scores are anomalies.

A rule looks at what one detector said of all watched series, partition by partition, so that the number
of series can be taken into account.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from analyzers.description import Description, Registry
from analyzers.errors import IllegalAnalyzerParameterError
from repository.anomalies.detector import Scores

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from repository.anomalies.detector import Floats

    Flags = NDArray[np.bool_]


@dataclass(frozen=True, repr=False)
class Rule(Description):
    """Decides on all points of some series at once."""

    @abstractmethod
    def decide(self, values: Floats, scores: Scores, before: Floats | None = None) -> Flags:
        """Return which points are anomalies.

        Parameters
        ----------
        values : array of float, shape (series, partitions)
        scores : Scores
        before : array of float, shape (series,), optional
            1 or -1 for series that were an anomaly in the partition before the first, too high or too
            low; 0 for all others.
        """


RULES: Registry[Rule] = Registry("rule")

R = TypeVar("R", bound="type[Rule]")


def rule(cls: R) -> R:
    """Make a class a frozen dataclass and register it as a rule under its name."""
    dataclass(frozen=True, repr=False)(cls)  # changes the class in place
    return RULES.add(cls)


LASTING = 4
"""How many tests each series counts for that was an anomaly in the partition before."""


@rule
class OutsideBand(Rule):
    """A value outside its band is an anomaly; Deequ's rule.

    Examples
    --------
    >>> RULES.parse("OutsideBand()")
    OutsideBand()
    """

    def decide(self, values: Floats, scores: Scores, before: Floats | None = None) -> Flags:  # noqa: ARG002
        """Compare with the bounds; a missing bound allows everything."""
        with np.errstate(invalid="ignore"):
            return (values < scores.lower) | (values > scores.upper)


@rule
class Threshold(Rule):
    """A score from a number on is an anomaly, whatever else is watched.

    Parameters
    ----------
    score : float
        -log10 of the p-value: 3 is one in a thousand.

    Examples
    --------
    >>> scores = Scores.nothing((1, 2))
    >>> scores.score[0] = [2.9, 3.1]
    >>> Threshold(3).decide(scores.score, scores).tolist()
    [[False, True]]
    """

    score: float = 3.5

    def check_parameters(self) -> None:
        """A score is not negative."""
        if not self.score >= 0:
            msg = f"{self!r}: score is -log10 of a p-value, so at least 0"
            raise IllegalAnalyzerParameterError(msg)

    def decide(self, values: Floats, scores: Scores, before: Floats | None = None) -> Flags:  # noqa: ARG002
        """Compare the scores."""
        with np.errstate(invalid="ignore"):
            return scores.score >= self.score


@rule
class PValue(Rule):
    """A p-value below a number is an anomaly, whatever else is watched.

    Parameters
    ----------
    p : float
        Between 0 and 1; the share of normal points that it is right to tell.

    Examples
    --------
    >>> scores = Scores.nothing((1, 2))
    >>> scores.score[0] = [1.0, 2.5]
    >>> PValue(0.01).decide(scores.score, scores).tolist()
    [[False, True]]
    """

    p: float = 0.001

    def check_parameters(self) -> None:
        """It is a probability."""
        if not 0 < self.p <= 1:
            msg = f"{self!r}: p is a probability above 0"
            raise IllegalAnalyzerParameterError(msg)

    def decide(self, values: Floats, scores: Scores, before: Floats | None = None) -> Flags:  # noqa: ARG002
        """Compare the scores."""
        with np.errstate(invalid="ignore"):
            flags: Flags = scores.score >= -np.log10(self.p)
        return flags


@rule
class FalseDiscoveryRate(Rule):
    """Benjamini and Hochberg (1995) over all series of a partition, in two steps.

    First it is asked whether anything is wrong with the partition at all, as if at least ``least``
    series were watched: so a few series make no anomaly of one normal day in ten. Where something is
    wrong, the partition's series are compared with each other alone: what moved with the rest needs
    less to be told (Benjamini and Bogomolov 2014). Series that were anomalies in the partition before are
    compared alone, too, at a quarter of the rate: what goes on needs less than what is new.

    Parameters
    ----------
    rate : float
        The share of anomalies that may be false, on average.
    least : int
        How many tests a partition counts for, at least.

    Examples
    --------
    >>> scores = Scores.nothing((3, 1))
    >>> scores.score[:, 0] = [6, 1.7, 0.3]
    >>> FalseDiscoveryRate(0.1).decide(scores.score, scores).ravel().tolist()
    [True, True, False]
    """

    rate: float = 0.1
    least: int = 450

    def check_parameters(self) -> None:
        """The rate is one, and at least one test is made."""
        if not 0 < self.rate < 1 or self.least < 1:
            msg = f"{self!r}: rate is between 0 and 1, least is at least 1"
            raise IllegalAnalyzerParameterError(msg)

    def decide(self, values: Floats, scores: Scores, before: Floats | None = None) -> Flags:
        """Adjust the p-values of each partition and compare with the rate."""
        known = ~np.isnan(scores.score)
        p = np.where(known, 10.0 ** -np.nan_to_num(scores.score), 1.0)
        with np.errstate(invalid="ignore"):
            side: Floats = np.sign(np.nan_to_num(values - scores.expected, posinf=1, neginf=-1))
        flags = np.zeros(p.shape, dtype=bool)
        last = np.zeros(len(p)) if before is None else before
        unlikely: NDArray[np.bool_] = np.any(p <= self.rate, axis=0)
        for t in range(p.shape[1]):
            if unlikely[t]:
                tests = int(known[:, t].sum())
                if self._limit(p[:, t], max(tests, self.least)) > 0:
                    flags[:, t] = np.less_equal(p[:, t], self._limit(p[:, t], tests))
                goes_on = np.flatnonzero(last * side[:, t] > 0)
                limit = self._limit(p[goes_on, t], LASTING * len(goes_on))
                flags[goes_on, t] |= p[goes_on, t] <= limit
                flags[:, t] &= known[:, t]
            last = np.where(flags[:, t], side[:, t], 0)
        return flags

    def _limit(self, p: Floats, tests: int) -> float:
        """Return the highest p-value that is a discovery among so many tests; 0 if none is."""
        ordered = np.sort(p)
        found = np.flatnonzero(ordered <= self.rate * np.arange(1, len(p) + 1) / max(tests, 1))
        return float(ordered[found[-1]]) if found.size else 0.0
