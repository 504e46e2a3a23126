"""Deequ's strategies, with Deequ's meaning: SimpleThreshold, OnlineNormal.

Missing values are left out and keep their place, where Deequ closes the gap.
"""

from __future__ import annotations

import numpy as np
from scipy import stats

from analyzers.errors import IllegalAnalyzerParameterError
from repository.anomalies.detector import CAP, Detector, History, Scores, detector


@detector
class SimpleThreshold(Detector):
    """Scores a value outside fixed bounds as certain, one inside as nothing.

    Parameters
    ----------
    upper_bound, lower_bound : float
        Bounds of what is allowed, both included, in the metric's unit.

    Examples
    --------
    >>> history = History(np.array(["NaT"] * 3, "M8[s]"), np.array([[-1.0, 0, 1]]), np.ones((1, 3)), [])
    >>> SimpleThreshold(upper_bound=0).score(history).p_value
    array([[1., 1., 0.]])
    """

    upper_bound: float
    lower_bound: float = -np.inf

    def check_parameters(self) -> None:
        """The bounds are in order."""
        if not self.lower_bound <= self.upper_bound:
            msg = f"{self!r}: lower_bound must not exceed upper_bound"
            raise IllegalAnalyzerParameterError(msg)

    def score(self, history: History) -> Scores:
        """Compare with the bounds."""
        x = history.values
        out = (x < self.lower_bound) | (x > self.upper_bound)
        known = ~np.isnan(x)
        p = np.where(known, np.where(out, 0.0, 1.0), np.nan)
        score = np.where(known, np.where(out, CAP, 0.0), np.nan)
        missing = np.full_like(x, np.nan)
        lower = np.where(known & np.isfinite(self.lower_bound), self.lower_bound, np.nan)
        upper = np.where(known & np.isfinite(self.upper_bound), self.upper_bound, np.nan)
        return Scores(score, p, missing, lower, upper)


@detector
class OnlineNormal(Detector):
    """Running mean plus and minus some running standard deviations (Welford's recurrence).

    As in Deequ, the tested point is part of mean and deviation, and the deviation is that of the
    population; so a point cannot be more than the root of its index away, and three deviations
    cannot be exceeded before the eleventh point. A point found outside is taken out again.

    Parameters
    ----------
    lower_deviation_factor, upper_deviation_factor : float
        Half widths of the band, in standard deviations.
    ignore_start_percentage : float
        Share of the values at the start that are not scored.
    ignore_anomalies : bool
        Whether what is outside leaves mean and deviation as they were.

    Examples
    --------
    >>> values = np.array([[10, 10.5, 9.8, 10.2, 30, 10.1, 9.9, -5, 10.3, 10]])
    >>> history = History(np.full(10, "NaT", "M8[s]"), values, np.ones((1, 10)), [])
    >>> scores = OnlineNormal(1.5, 1.5, ignore_anomalies=False).score(history)
    >>> np.flatnonzero((values < scores.lower) | (values > scores.upper)).tolist()
    [4, 7]
    """

    lower_deviation_factor: float = 3.0
    upper_deviation_factor: float = 3.0
    ignore_start_percentage: float = 0.1
    ignore_anomalies: bool = True

    def check_parameters(self) -> None:
        """Factors are not negative, and the share is one."""
        factors = (self.lower_deviation_factor, self.upper_deviation_factor)
        if min(factors) < 0 or not 0 <= self.ignore_start_percentage <= 1:
            msg = f"{self!r}: factors must not be negative, ignore_start_percentage is in [0, 1]"
            raise IllegalAnalyzerParameterError(msg)

    def score(self, history: History) -> Scores:
        """Run along the points, all series abreast."""
        x = np.where(np.isfinite(history.values), history.values, np.nan)
        mean, squares = np.zeros(len(x)), np.zeros(len(x))
        index = np.zeros(len(x))
        skipped = (~np.isnan(x)).sum(axis=1) * self.ignore_start_percentage
        expected, lower, upper = (np.full_like(x, np.nan) for _ in range(3))
        z = np.full_like(x, np.nan)
        for t in range(x.shape[1]):
            known = ~np.isnan(x[:, t])
            value = np.where(known, x[:, t], 0.0)
            new_mean = mean + (value - mean) / (index + 1)
            new_squares = squares + (value - mean) * (value - new_mean)
            deviation = np.sqrt(new_squares / (index + 1))
            low = new_mean - self.lower_deviation_factor * deviation
            high = new_mean + self.upper_deviation_factor * deviation
            scored = known & (index >= skipped)
            out = scored & ((value < low) | (value > high))
            for kept, now in ((expected, new_mean), (lower, low), (upper, high)):
                kept[:, t] = np.where(scored, now, np.nan)
            spread = np.where(deviation > 0, deviation, np.nan)
            off = np.where(deviation > 0, np.abs(value - new_mean) / spread, 0.0)
            z[:, t] = np.where(scored, off, np.nan)
            learn = known & ~(out & self.ignore_anomalies)
            mean, squares = np.where(learn, new_mean, mean), np.where(learn, new_squares, squares)
            index = index + known
        p = 2 * stats.norm.sf(z)
        return Scores(
            np.minimum(-np.log10(np.maximum(p, 10.0**-CAP)), CAP), p, expected, lower, upper
        )
