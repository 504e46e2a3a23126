"""Decision rules: which scores are anomalies.

A rule is given one detector's scores of all monitored series, partition by partition, so that it
can correct for the number of series.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeVar

import numpy as np

from tidegauge.analyzers.core.description import Description
from tidegauge.analyzers.core.errors import IllegalAnalyzerParameterError
from tidegauge.analyzers.core.registry import Registry
from tidegauge.repository.detectors.base import Scores
from tidegauge.repository.numerics.joint_test import jointly_significant

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidegauge.repository.numerics.arrays import Floats

    Flags = NDArray[np.bool_]


@dataclass(frozen=True, repr=False)
class DecisionRule(Description):
    """Base class of decision rules, which decide on all points of many series at once.

    Class attributes
    ----------------
    weighted : bool
        Whether p-values are divided by the weights of their departures, see `Monitor.decide`.
    """

    weighted: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_parameters()

    @abstractmethod
    def decide(self, values: Floats, scores: Scores, before: Floats | None = None) -> Flags:
        """Return a mask of the anomalies.

        Parameters
        ----------
        values : array of float, shape (series, partitions)
        scores : Scores
        before : array of float, shape (series,), optional
            State in the partition before the first: 1 for series that were an anomaly and too high,
            -1 for too low, 0 for all others.
        """


RULES: Registry[DecisionRule] = Registry("rule")

R = TypeVar("R", bound="type[DecisionRule]")


def rule(cls: R) -> R:
    """Class decorator: make a frozen dataclass and register it as a rule under its name."""
    dataclass(frozen=True, repr=False)(cls)  # changes the class in place
    return RULES.add(cls)


LASTING = 4
"""Number of tests that a series counts for if it was an anomaly in the partition before."""
JOINT = 10
"""Series as of which a partition is rejected by the joint test, at most."""


@rule
class OutsideBand(DecisionRule):
    """Rule that flags values outside their band, as in Deequ.

    Examples
    --------
    >>> RULES.parse("OutsideBand()")
    OutsideBand()
    """

    def decide(self, values: Floats, scores: Scores, before: Floats | None = None) -> Flags:
        """Flag values outside the bounds; a missing bound allows everything."""
        with np.errstate(invalid="ignore"):
            return (values < scores.lower) | (values > scores.upper)


@rule
class Threshold(DecisionRule):
    """Rule that flags scores at or above a threshold, regardless of the number of series.

    Parameters
    ----------
    score : float
        Threshold on -log10 of the p-value: 3 is one in a thousand.

    Examples
    --------
    >>> scores = Scores.unscored((1, 2))
    >>> scores.score[0] = [2.9, 3.1]
    >>> Threshold(3).decide(scores.score, scores).tolist()
    [[False, True]]
    """

    score: float = 3.5

    def check_parameters(self) -> None:
        """Validate that the threshold is not negative."""
        if not self.score >= 0:
            msg = f"{self!r}: score is -log10 of a p-value, so at least 0"
            raise IllegalAnalyzerParameterError(msg)

    def decide(self, values: Floats, scores: Scores, before: Floats | None = None) -> Flags:
        """Flag scores at or above the threshold."""
        with np.errstate(invalid="ignore"):
            return scores.score >= self.score


@rule
class PValue(DecisionRule):
    """Rule that flags p-values at or below a level, regardless of the number of series.

    Parameters
    ----------
    p : float
        Significance level, above 0 and at most 1: the accepted share of false alarms among normal
        points.

    Examples
    --------
    >>> scores = Scores.unscored((1, 2))
    >>> scores.score[0] = [1.0, 2.5]
    >>> PValue(0.01).decide(scores.score, scores).tolist()
    [[False, True]]
    """

    p: float = 0.001

    def check_parameters(self) -> None:
        """Validate that `p` is a probability above 0, of at most 1."""
        if not 0 < self.p <= 1:
            msg = f"{self!r}: p is a probability above 0, of at most 1"
            raise IllegalAnalyzerParameterError(msg)

    def decide(self, values: Floats, scores: Scores, before: Floats | None = None) -> Flags:
        """Flag p-values at or below the significance level."""
        with np.errstate(invalid="ignore"):
            flags: Flags = scores.score >= -np.log10(self.p)
        return flags


@rule
class FalseDiscoveryRate(DecisionRule):
    """Rule that controls the false discovery rate over all series (Benjamini, Hochberg 1995).

    It decides on each partition in two steps. First the partition is tested as a whole, as if at
    least ``least`` series were monitored: so that with few series not one normal day in ten has an
    anomaly. It is rejected, too, if its three largest departures together are no chance, given how
    these series were related before: see `jointly_significant`. If it is rejected, its series are
    tested among themselves only: a series that moved with others needs less evidence (Benjamini and
    Bogomolov 2014). Series that were anomalies in
    the partition before, to the same side, are also tested separately, at a quarter of the rate: a
    continuing anomaly needs less evidence than a new one.

    Where a monitor sets no severity, it weighs the hypotheses (Genovese, Roeder, Wasserman 2006):
    p-values are halved for departures that would be an error, and count four times for those that
    would be information, twenty times for a number, such as a mean, that departs alone: of five other
    series or more of the monitor none has a p-value of 0.01. The weights go by the departure itself, so the rate is that of small and
    large departures together; of errors alone it is at most twice as high.

    Parameters
    ----------
    rate : float
        Expected share of false anomalies.
    least : int
        Minimum number of tests that a partition counts for.

    Examples
    --------
    >>> scores = Scores.unscored((3, 1))
    >>> scores.score[:, 0] = [6, 1.7, 0.3]
    >>> FalseDiscoveryRate(0.1).decide(scores.score, scores).ravel().tolist()
    [True, True, False]
    """

    weighted: ClassVar[bool] = True

    rate: float = 0.1
    least: int = 450

    def check_parameters(self) -> None:
        """Validate that the rate is between 0 and 1, and `least` at least 1."""
        if not 0 < self.rate < 1 or self.least < 1:
            msg = f"{self!r}: rate is between 0 and 1, least is at least 1"
            raise IllegalAnalyzerParameterError(msg)

    def decide(
        self,
        values: Floats,
        scores: Scores,
        before: Floats | None = None,
        earlier: Floats | None = None,
    ) -> Flags:
        """Flag the discoveries of each partition.

        Parameters
        ----------
        values, scores, before
            As of all rules.
        earlier : array of float, optional
            Scores of the partitions before, and of these, by which it is known which series depart
            together; of shape (series, before + partitions). Without them no departures count together.
        """
        known = ~np.isnan(scores.score)
        p = np.where(known, 10.0 ** -np.nan_to_num(scores.score), 1.0)
        with np.errstate(invalid="ignore"):
            side: Floats = np.sign(np.nan_to_num(values - scores.expected, posinf=1, neginf=-1))
        flags = np.zeros(p.shape, dtype=bool)
        last = np.zeros(len(p)) if before is None else before
        unlikely: NDArray[np.bool_] = np.any(p <= self.rate, axis=0)
        for t in range(p.shape[1]):
            if unlikely[t]:
                told = p[known[:, t], t]
                tests = len(told)
                rejected = self._limit(told, max(tests, self.least)) > 0
                if not rejected and earlier is not None:
                    now = earlier.shape[1] - p.shape[1] + t
                    level = self.rate * min(tests, JOINT) / max(tests, self.least)
                    # The weights of errors multiply by three: as they are, they are evidence enough.
                    score = np.fmin(scores.score[:, t], earlier[:, now])
                    rejected = jointly_significant(score, earlier[:, :now], level)
                if rejected:
                    flags[:, t] = np.less_equal(p[:, t], self._limit(told, tests))
                goes_on = np.flatnonzero(known[:, t] & (last * side[:, t] > 0))
                limit = self._limit(p[goes_on, t], LASTING * len(goes_on))
                flags[goes_on, t] |= p[goes_on, t] <= limit
                flags[:, t] &= known[:, t]
            last = np.where(flags[:, t], side[:, t], 0)
        return flags

    def _limit(self, p: Floats, tests: int) -> float:
        """Return the Benjamini-Hochberg threshold: the largest p-value discovered; 0 if none is."""
        ordered = np.sort(p)
        found = np.flatnonzero(ordered <= self.rate * np.arange(1, len(p) + 1) / max(tests, 1))
        return float(ordered[found[-1]]) if found.size else 0.0
