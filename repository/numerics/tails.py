"""Tail scores of points given their forecasts, of small counts, and of departures taken together.

Scores are -log10 of p-values. Points are scored by Student's t and Pareto tails, nearly constant
series by how rarely they leave their value, and slow drifts by the changes of earlier weeks.

Small counts have negative binomial tails, which a logarithm of so few rows does not have. The mean is
that of the last weeks, which knows more of a small count than the median of a few days. The variance
is the observed one, and the mean's (a Poisson distribution) where less was observed.

`jointly_significant` tests a partition's largest departures: each alone could be chance, together
they are not.

`noise_ratios` compares the noise of the series of a table with earlier weeks, whatever their level
and season. The noise of a point is its change since the point before, less the same change a season
ago. That of the last fortnight is compared with the median of those that ended in the seven weeks
before. Points at which most series jump, such as the beginning of a new level, are events, not noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from tidegauge.repository.numerics.arrays import (
    CAP,
    forward_fill,
    median,
    median_of_seven,
    newest,
    quantiles,
    running_medians,
    zero_if_nan,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidegauge.repository.numerics.arrays import Floats
    from tidegauge.repository.numerics.forecasts import Forecast


SMALL_COUNT_MEAN = 30.0
"""Mean below which a count is small."""
LARGEST_EXACT_COUNT = 1e15
"""Count from which doubles leave out whole numbers; larger ones are judged as this."""
MEAN_POINTS, VARIANCE_POINTS = 28, 98
"""Points whose mean is expected, and those whose variance is."""
MIN_COUNT_POINTS = 14
"""Points from which mean and variance are known well enough."""
FAR_COUNT_DEVIATIONS, MIN_OTHER_COUNTS = 10.0, 7
"""Deviations of so many others, at least, beyond which a point that was never scored is no example."""


@dataclass(frozen=True)
class CountForecast:
    """Negative binomial forecast of small counts; all arrays are of shape (series,).

    Attributes
    ----------
    mean, variance : array of float
        Of the next count; the variance is at least the mean.
    small : array of bool
        Where the count is small and known well enough to be forecast so.
    """

    mean: Floats
    variance: Floats
    small: NDArray[np.bool_]

    @classmethod
    def from_past(cls, past: Floats, scored: NDArray[np.bool_]) -> CountForecast:
        """Forecast counts from their past.

        Parameters
        ----------
        past : array of float, shape (series, memory)
            Earlier counts, NaN where unknown, without their season.
        scored : array of bool, same shape
            Which of them were scored, and so are no anomalies. The first of a series were not: a
            table's first load may hold the rows of years.
        """
        past = np.where(_first_loads(past, scored), np.nan, past)
        mean = _mean(past[:, -MEAN_POINTS:])
        long = past[:, -VARIANCE_POINTS:]
        points = (~np.isnan(long)).sum(axis=1)
        variance = _mean(np.square(long - _mean(long)[:, None]))
        variance *= points / np.maximum(points - 1, 1)
        # Those of the mean itself: a new count differs from an estimate.
        recent = np.maximum((~np.isnan(past[:, -MEAN_POINTS:])).sum(axis=1), 1)
        variance = np.maximum(variance, mean) * (1 + 1 / recent)
        small = (points >= MIN_COUNT_POINTS) & (mean > 0) & (mean < SMALL_COUNT_MEAN)
        return cls(mean, variance, small)

    def taken(self, some: NDArray[np.bool_]) -> CountForecast:
        """Return the forecasts of a selection of the series."""
        return CountForecast(self.mean[some], self.variance[some], self.small[some])

    def score(self, value: Floats) -> Floats:
        """Return -log10 of the two-sided tail probability of counts."""
        size, share = self._parameters()
        count = np.round(np.maximum(np.nan_to_num(value, posinf=LARGEST_EXACT_COUNT), 0))
        above = np.where(count > 0, special.betainc(np.maximum(count, 1), size, 1 - share), 1.0)
        below = special.betainc(size, count + 1, share)
        p = np.clip(2 * np.minimum(above, below), 10.0**-CAP, 1)
        score: Floats = np.where(np.isnan(value), np.nan, -np.log10(p))
        return score

    def quantile(self, probability: float) -> Floats:
        """Return a quantile of the forecast distribution."""
        size, share = self._parameters()
        found: Floats = np.maximum(special.nbdtrik(probability, size, share), 0)
        return np.ceil(np.nan_to_num(found))

    def limits(self, p_value: float) -> Floats:
        """Return the counts at the limits of a two-sided p-value, of shape (series, 2)."""
        return np.stack([self.quantile(p_value / 2), self.quantile(1 - p_value / 2)], axis=1)

    def _parameters(self) -> tuple[Floats, Floats]:
        mean = np.maximum(self.mean, 1e-9)
        variance = np.maximum(self.variance, mean * (1 + 1e-6))
        return mean**2 / (variance - mean), mean / variance


NO_COUNTS = CountForecast(np.empty(0), np.empty(0), np.empty(0, dtype=bool))


def poisson_score(value: Floats, mean: Floats) -> Floats:
    """Return -log10 of the probability that a Poisson count is at least a value.

    Examples
    --------
    >>> poisson_score(np.array([0.0, 1.0]), np.array([0.01, 0.01])).round(2).tolist()
    [0.0, 2.0]
    """
    p = np.where(value > 0, special.gammainc(np.maximum(value, 1e-9), mean), 1.0)
    score: Floats = np.clip(-np.log10(np.maximum(p, 10.0**-CAP)), 0, CAP)
    return score


def poisson_limit(score: float, mean: Floats) -> Floats:
    """Return the largest counts whose `poisson_score` is below a score.

    Examples
    --------
    >>> poisson_limit(3.0, np.array([0.01, 0.1])).tolist()  # P(X >= 2) is 5e-5, P(X >= 3) 2e-4
    [1.0, 2.0]
    >>> poisson_limit(3.0, np.array([1e6])).tolist()  # 3.1 standard deviations above
    [1003092.0]
    """
    mean = np.minimum(mean, LARGEST_EXACT_COUNT)
    low, high = np.zeros(mean.shape), np.ones(mean.shape)
    while (below := poisson_score(high, mean) < score).any():
        low, high = np.where(below, high, low), np.where(below, 2 * high, high)
    while (high - low > 1).any():
        middle = np.floor((low + high) / 2)
        below = poisson_score(middle, mean) < score
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return low


def _first_loads(past: Floats, scored: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which points that were never scored are far from all that were."""
    others = np.where(scored, past, np.nan)
    mean = _mean(others)[:, None]
    variance = np.maximum(_mean(np.square(others - mean))[:, None], np.maximum(mean, 1))
    enough = (~np.isnan(others)).sum(axis=1) >= MIN_OTHER_COUNTS
    far = np.abs(past - mean) > FAR_COUNT_DEVIATIONS * np.sqrt(variance)
    found: NDArray[np.bool_] = far & ~scored & enough[:, None]
    return found


def _mean(values: Floats) -> Floats:
    """Return the means of rows; 0 where there is no value."""
    known = ~np.isnan(values)
    mean: Floats = np.where(known, values, 0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
    return mean


LOOK = 2.0
"""Score above which a point is compared with the largest earlier errors."""
OFTEN, RUNS = 5, 3
"""Alarms within memory, and runs of them, from which the tail counts as heavy."""
CLOSE = 1.1
FROM = 2.5
"""Spreads from which errors are in the tail."""
FARTHEST = 2.0
"""Multiple of `FROM` as which farther errors count: an incident tells no more of a tail than that."""
EXPONENT, PRIOR, POINTS = 4.0, 4.0, 60.0
"""Exponent of a tail before errors are known in it, its weight in errors, and in points."""
ATOM = 0.6
"""Share of a single value from which a series is nearly constant and scored by its departures."""
BY_ONE = 1.5
"""Difference below which counts differ by one, at most."""
EQUAL, FEW = 0.5, 10
"""Difference below which counts are equal, and up to which a constant's first change by one counts."""
UNSEEN = 2.0
"""Score added for the size of the first departure from a constant."""
SHIFT_REPORTED_ALARMS = 2
"""Alarms to one side that have already reported a new level."""
LARGE = 0.1
"""Relative size above which a first departure scores more; never if the constant is 0."""
LITTLE = 0.01
"""Relative spread of constants whose scale implies none."""
NOISE = 0.6
"""Share of the error spread that remains in the medians which `drift` compares."""
MIN_DRIFT_SPREADS = 3.0
"""Spreads below which a change is no drift, whatever was usual."""
WANDERING = 6.0
"""Degrees of freedom of the changes of a level that wanders."""
ODD = 2.0
"""Spreads from the starting level within which a point is not told of as drifted."""
LAG, BASELINE = 14, 21
"""A drift is the change from the median of BASELINE points, LAG ago, to that of the last seven."""


def student_score(z: Floats, freedom: Floats) -> Floats:
    """Return the score of a z-value: the two-sided tail of Student's t distribution."""
    p = 2 * special.stdtr(freedom, -np.abs(z))
    score: Floats = np.clip(-np.log10(np.maximum(p, 10.0**-CAP)), 0, CAP)
    return score


@dataclass(frozen=True)
class HeavyTail:
    """Pareto tails beyond `FROM` spreads, fitted to earlier errors (Hill 1975).

    Errors of points that alarmed belong to them, the first of each run: without its end a heavy tail
    looks light, and alarms for ever. As they may be incidents, no error counts as farther than `FARTHEST`.

    The exponent is shrunk towards `EXPONENT`, as if `PRIOR` errors more had been seen.

    Attributes
    ----------
    share, exponent : array of float, shape (series,)
        Share of errors beyond `FROM` spreads, and by which power of the distance it falls.
    """

    share: Floats
    exponent: Floats

    @classmethod
    def from_errors(cls, errors: Floats, spread: Floats) -> HeavyTail:
        """Fit tails to absolute errors, of shape (series, memory); NaN is unknown."""
        start = FROM * spread
        rows, columns = np.nonzero(errors > start[:, None])
        excess = np.log(np.minimum(errors[rows, columns] / start[rows], FARTHEST))
        beyond = np.bincount(rows, minlength=len(errors))
        sums = np.bincount(rows, weights=excess, minlength=len(errors))
        known = (~np.isnan(errors)).sum(axis=1)
        share = (beyond + 1) / (known + POINTS)
        return cls(share, (PRIOR + beyond) / (PRIOR / EXPONENT + sums))

    def score(self, z: Floats) -> Floats:
        """Return the scores of z-values; infinite where they are no farther than the tail begins."""
        far = np.abs(z) / FROM
        score: Floats = np.where(
            far > 1, self.exponent * np.log10(np.maximum(far, 1)) - np.log10(self.share), np.inf
        )
        return score

    def limit(self, p_value: float) -> Floats:
        """Return the z-values of a p-value."""
        found: Floats = FROM * np.power(np.maximum(self.share / p_value, 1), 1 / self.exponent)
        return found


def ongoing(alarms: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the alarms, of shape (series, memory), of the run that lasts until the newest point.

    Examples
    --------
    >>> ongoing(np.array([[True, False, True, True], [True, True, True, False]])).astype(int)
    array([[0, 0, 1, 1],
           [0, 0, 0, 0]])
    """
    newest_first = np.logical_and.accumulate(alarms[:, ::-1], axis=1)
    found: NDArray[np.bool_] = newest_first[:, ::-1]
    return found


def cap_recurring_errors(score: Floats, off: Floats, now: Forecast) -> Floats:
    """Cap scores at log10(points + 1) where errors about as large occurred before.

    Two such errors suffice, or `RUNS` if runs of alarms are counted: if alarms are frequent, the tail
    is heavy and another is no news.
    """
    some = np.flatnonzero(score > LOOK)
    if not some.size:
        return score
    large = np.maximum(_from_top(now.errors[some], 2), _from_top(now.surprises[some], RUNS))
    seen = (large > 0) & (off[some] < CLOSE * large)
    score[some] = np.where(
        seen, np.minimum(score[some], np.log10(now.points[some] + 1)), score[some]
    )
    return score


def repeats(past: Floats) -> NDArray[np.bool_]:
    """Return whether series, of shape (series, memory), have a value twice in succession."""
    found: NDArray[np.bool_] = (past[:, 1:] == past[:, :-1]).any(axis=1)
    return found


def score_constants(
    score: Floats,
    past: Floats,
    repeating: NDArray[np.bool_],
    value: Floats,
    alarms: NDArray[np.bool_],
    least: Floats,
    counts: NDArray[np.bool_],
    of_values: NDArray[np.bool_],
    centre: Floats,
    limit: float,
) -> tuple[NDArray[np.bool_], Floats]:
    """Score nearly constant series in place; return a mask of them, and their bands.

    The probability of another value is the frequency of departures, times the tail probability of
    its distance among those of earlier departures. Of counts that are nearly always 0 it is not less
    than a Poisson count's: a first 2 is less of a surprise than a first 6. A departure below twice
    the lower bound of the spread is no anomaly; below 2 % of numbers without one, and of counts that
    were more constant than Poisson counts are; and none is of counts by one, from their constant or
    from what a season makes of it, unless it is the first change of a count of values from 1 to 9.

    Parameters
    ----------
    score : array of float, shape (series,)
    past : array of float, shape (series, memory)
    repeating : array of bool, shape (series,)
        Those that have a value twice in succession; others have no constant.
    value : array of float, shape (series,)
    alarms : array of bool, shape (series, memory)
        Points that alarmed; excluded from earlier departures if fewer than `OFTEN`, as are counts by one.
    least : array of float, shape (series,)
        Lower bound of the spread; 0 if there is none.
    counts : array of bool, shape (series,)
        Which series are counts, of which all numbers are logarithms of one more.
    of_values : array of bool, shape (series,)
        Which of these count values, such as distinct ones, and not rows.
    centre : array of float, shape (series,)
        Expected value.
    limit : float
        Score that values outside the band have.

    Returns
    -------
    tuple of array
        The mask, and lower and upper limits, of shape (series, 2), NaN where the mask is false.
    """
    atom: NDArray[np.bool_] = np.zeros(len(score), dtype=bool)
    band = np.full((len(score), 2), np.nan)
    some = np.flatnonzero(repeating)
    past, alarms = past[some], alarms[some]
    known = ~np.isnan(past)
    usual = median(past)  # where one value fills over half, the median is that value
    close = 1e-12 * np.fmax(1.0, np.abs(usual))
    same = np.abs(past - usual[:, None]) <= close[:, None]
    mostly = same.sum(axis=1) >= ATOM * np.maximum(known.sum(axis=1), 1)
    some = some[mostly]
    if not some.size:
        return atom, band
    atom[some] = True
    past, alarms, known, same = past[mostly], alarms[mostly], known[mostly], same[mostly]
    usual, close, points = usual[mostly], close[mostly], known.sum(axis=1)
    away = np.where(~same & known, np.abs(past - usual[:, None]), np.nan)
    count = (~np.isnan(away)).sum(axis=1)
    told = alarms & (alarms.sum(axis=1) < OFTEN)[:, None]
    away[told | (_rarely_by_one(past, usual) & counts[some, None])] = np.nan
    examples = (~np.isnan(away)).sum(axis=1)
    freedom = np.clip(examples, 1, 12).astype(float)
    mean, spread = _moments(away, np.maximum(examples, 1))
    off = np.abs(value[some] - usual)
    beyond = np.maximum(off - mean, 0) / np.where(spread > 0, spread, 1)
    part = LARGE * np.abs(usual)
    large = np.log10(np.maximum(off / np.where(part > 0, part, np.inf), 1))
    size = np.where(examples > 0, student_score(beyond, freedom), UNSEEN + large)
    rare = np.log10((points + 2) / (count + 1)) + size
    bound = np.where(least[some] > 0, least[some], LITTLE * np.abs(usual))
    constant = counts[some] & _more_constant_than_poisson(usual, same.sum(axis=1), points)
    bound[constant] = np.minimum(bound[constant], LITTLE)
    near = np.expm1(np.stack([usual, centre[some]]))
    step = np.where(
        (usual > close) & (near[0] < FEW) & (count == 0) & of_values[some], EQUAL, BY_ONE
    )
    one = counts[some] & (np.abs(np.expm1(value[some]) - near) < step).any(axis=0)
    rare = np.where((off < 2 * bound) | one, np.minimum(rare, 1.0), rare)
    none = np.flatnonzero(counts[some] & (usual <= close))
    seen = np.where(known[none] & ~told[none], np.expm1(past[none]), 0).sum(axis=1)
    usually = (seen + 1) / (points[none] + 1)
    rare[none] = np.minimum(rare[none], poisson_score(np.expm1(value[some[none]]), usually))
    score[some] = np.where(off <= close, 0.0, np.minimum(rare, CAP))
    need = np.maximum(limit - np.log10((points + 2) / (count + 1)), 0.0)
    first = np.where(need > UNSEEN, part * np.power(10.0, need - UNSEEN), 0.0)
    first[(need > UNSEEN) & (part <= 0)] = np.inf
    another = mean + spread * special.stdtrit(freedom, 1 - np.power(10.0, -need) / 2)
    reach = np.maximum(np.where(examples > 0, another, first), 2 * bound)[:, None]
    band[some] = usual[:, None] + reach * [-1, 1]
    whole = np.flatnonzero(counts[some])
    band[some[whole]] = _widened(band[some[whole]], near[:, whole], step[whole])
    zero = np.log1p(poisson_limit(limit, usually))
    band[some[none], 1] = np.maximum(band[some[none], 1], zero)
    return atom, band


def _rarely_by_one(past: Floats, usual: Floats) -> NDArray[np.bool_]:
    """Return a mask of counts by one from their constant, where there are few: no examples of more."""
    near = np.abs(np.expm1(past) - np.expm1(usual)[:, None]) < BY_ONE
    by_one = near & (past != usual[:, None])
    found: NDArray[np.bool_] = by_one & (by_one.sum(axis=1) < OFTEN)[:, None]
    return found


def _moments(away: Floats, n: NDArray[np.intp]) -> tuple[Floats, Floats]:
    """Return mean and spread of the departures from a constant, of which the next may differ."""
    mean = np.nansum(away, axis=1) / n
    spread = np.sqrt(np.nansum(np.square(away - mean[:, None]), axis=1) / n)
    return mean, np.hypot(spread, 0.3 * mean / np.sqrt(n + 1)) * np.sqrt(1 + 1 / n)


def _widened(band: Floats, near: Floats, step: Floats) -> Floats:
    """Return bands of counts, as logarithms of one more, that hold all within a step of some counts."""
    lower = np.log1p(np.maximum(near - step, 0)).min(axis=0)
    upper = np.log1p(near + step).max(axis=0)
    return np.stack([np.minimum(band[:, 0], lower), np.maximum(band[:, 1], upper)], axis=1)


def _more_constant_than_poisson(
    usual: Floats, same: NDArray[np.intp], points: NDArray[np.intp]
) -> NDArray[np.bool_]:
    """Return whether more of the points have one value than of Poisson counts would."""
    n = np.expm1(usual)
    share = np.exp(special.xlogy(n, n) - n - special.gammaln(n + 1))
    expected = points * share
    more: NDArray[np.bool_] = same > expected + 3 * np.sqrt(expected * (1 - share)) + 1
    return more | (usual <= 0)


def drift(
    now: Forecast, value: Floats, alarms: Floats, least: Floats
) -> tuple[Floats, Floats, Floats]:
    """Score slow drifts; return the score, the starting level and the usual spread of changes.

    Only a drift larger than all of the last `LAG` points scores, so that each is reported once;
    none scores after alarms to one side, which have already reported a new level, and none at a
    point that is itself as near to the starting level as points usually are.

    Parameters
    ----------
    now : Forecast
    value : array of float, shape (series,)
    alarms : array of float, shape (series, memory)
        1 or -1 where a point alarmed, else 0.
    least : array of float, shape (series,)
        Lower bound of the spread.
    """
    count = len(value)
    score, start, spread = np.zeros(count), np.full(count, np.nan), np.full(count, np.nan)
    flat = value - now.effect
    some = np.flatnonzero(_moved(now, flat))
    if not some.size:
        return score, start, spread
    path = forward_fill(np.concatenate([now.flat[some], flat[some, None]], axis=1))
    week, before = running_medians(path, (7, BASELINE))
    before = np.where(np.isnan(before), week, before)
    ways = week[:, LAG:] - before[:, :-LAG]
    sizes = np.abs(ways)
    usual = sizes[:, :-BASELINE]
    middle, high = quantiles(usual, (0.5, 0.9))
    known = (~np.isnan(usual)).sum(axis=1)
    usually = zero_if_nan(np.fmax(1.4826 * middle, high / 1.645))
    noise = NOISE * now.spread[some]
    freedom = _joint_freedom(usually, noise, np.clip(6 + known / 10, WANDERING, 12))
    wander = np.hypot(usually, noise)
    wander = np.hypot(NOISE * np.sqrt(1 + 30 / (known + 10)) * wander, least[some])
    z = ways[:, -1] / np.where(wander > 0, wander, np.inf)
    found = np.nan_to_num(student_score(z, freedom))
    farther = sizes[:, -1] > zero_if_nan(sizes[:, -1 - LAG : -1]).max(axis=1)
    lately = alarms[some, -(LAG + BASELINE) :]
    told = np.maximum((lately > 0).sum(axis=1), (lately < 0).sum(axis=1)) >= SHIFT_REPORTED_ALARMS
    own = flat[some] - before[:, -1 - LAG]
    odd = (own * ways[:, -1] > 0) & (np.abs(own) > ODD * now.spread[some])
    score[some] = np.where(farther & ~told & odd & (found >= LOOK), found, 0.0)
    start[some] = before[:, -1 - LAG] + now.effect[some]
    spread[some] = wander
    return score, start, spread


def _joint_freedom(wander: Floats, noise: Floats, freedom: Floats) -> Floats:
    """Return the degrees of freedom of changes that wander and noise make (Welch, Satterthwaite).

    Noise has many. Changes of a level that wanders overlap, so that few of them are independent.

    Examples
    --------
    >>> _joint_freedom(np.array([0.0, 9.0]), np.array([1.0, 1.0]), np.array([12.0, 12.0])).round(1)
    array([12. ,  6.1])
    """
    parts = np.square(wander) / WANDERING * np.square(wander) + np.square(noise) ** 2 / freedom
    both = np.square(np.square(wander) + np.square(noise))
    joint: Floats = np.clip(both / np.where(parts > 0, parts, np.inf), WANDERING, freedom)
    return joint


def _moved(now: Forecast, value: Floats) -> NDArray[np.bool_]:
    """Return a mask of series that may have drifted, by a bound that is cheap to compute."""
    path = np.concatenate([now.level[:, -LAG - BASELINE :], value[:, None]], axis=1)
    week, before = newest(path, 7), path[:, :-LAG]
    long, short = newest(before, BASELINE), newest(before, 7)
    way = np.abs(week - np.where(np.isnan(long), short, long))
    return way > MIN_DRIFT_SPREADS * NOISE * NOISE * now.spread


def _from_top(values: Floats, rank: int) -> Floats:
    """Return each row's ``rank``-th largest number; -1 if it has fewer."""
    if values.shape[1] < rank:
        return np.full(len(values), -1.0)
    known = np.nan_to_num(values, nan=-1.0)
    found: Floats = np.partition(known, values.shape[1] - rank, axis=1)[:, -rank]
    return found


COMBINED_P_VALUES = 3
"""P-values that are combined: the smallest of a partition."""
EARLIER_PARTITIONS, MIN_EARLIER_PARTITIONS = 98, 28
"""Earlier partitions by which it is known which series depart together, and the least of them."""
USUAL_SCORE = 2.0
"""Score above which earlier departures count as no larger: a common incident makes no relation."""
INTEGRATION_POINTS = (np.arange(100) + 0.5) / 100
"""Probabilities at which a distribution is integrated."""


def jointly_significant(score: Floats, earlier: Floats, limit: float) -> bool:
    """Return whether the largest scores of a partition are significant together.

    Fisher's product of the `COMBINED_P_VALUES` smallest of n p-values is tested at a significance level (the
    rank truncated product of Dudbridge and Koeleman 2003). Series that depart together as a rule, as
    a number of rows and a sum, are no evidence twice: the product's distribution is that of fewer
    independent p-values, by the correlations of earlier scores (Brown 1975; of observed ones Poole et
    al. 2016), from which one standard error is taken, as chance correlates all of them somewhat.

    Independent series keep the level. Of series that share a fifth to a half of their variance false
    alarms are two to three and a half times as many: they depart far together more often than their
    usual scores tell.

    Parameters
    ----------
    score : array of float, shape (series,)
        -log10 of p-values; NaN is unknown.
    earlier : array of float, shape (series, partitions)
        Scores of the same series before.
    limit : float
        Accepted probability of a false alarm.

    Returns
    -------
    bool
        False where fewer than `COMBINED_P_VALUES` series are known, or fewer than `MIN_EARLIER_PARTITIONS` earlier partitions.

    Examples
    --------
    Three p-values of 0.002 among six are no chance, unless the series always depart together:

    >>> chance = np.random.default_rng(1)
    >>> apart = chance.exponential(1 / np.log(10), (6, 60))
    >>> newest = np.array([0.1, 2.7, 0.3, 2.7, 2.7, 0.5])
    >>> jointly_significant(newest, apart, 0.001)
    True
    >>> jointly_significant(newest, apart[[0] * 6], 0.001)
    False
    """
    known = np.flatnonzero(~np.isnan(score))
    if len(known) < COMBINED_P_VALUES:
        return False
    some = known[np.argsort(score[known])[-COMBINED_P_VALUES:]]
    nats = math.log(10) * float(score[some].sum())
    # Of no more than three independent series, the product is the likeliest to be chance.
    if special.gammaincc(COMBINED_P_VALUES, nats) > limit:
        return False
    past = np.minimum(earlier[some, -EARLIER_PARTITIONS:], USUAL_SCORE)
    past = past[:, ~np.isnan(past).any(axis=0)]
    if past.shape[1] < MIN_EARLIER_PARTITIONS:
        return False
    independent = _tail_of_related(nats, past)
    return _tail_of_largest(independent, len(known)) <= limit


def _tail_of_related(nats: float, past: Floats) -> float:
    """Return the probability of a sum of scores, as large in natural logarithms, of related series.

    It is gamma distributed, with the mean and the variance that it has by the correlations.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        known = np.atleast_2d(np.corrcoef(past))
    correlations = np.nan_to_num(known, nan=1.0)  # what never varied tells nothing
    pairs = correlations[np.triu_indices(COMBINED_P_VALUES, 1)] - 1 / math.sqrt(past.shape[1])
    variance = COMBINED_P_VALUES + 2 * float(np.clip(pairs, 0, 1).sum())
    return float(
        special.gammaincc(COMBINED_P_VALUES**2 / variance, nats * COMBINED_P_VALUES / variance)
    )


def _tail_of_largest(independent: float, count: int) -> float:
    """Return the probability that the largest scores of so many have a sum that rare in any few of them.

    Given the next largest score, those above it are exponential.
    """
    if count == COMBINED_P_VALUES:
        return independent
    nats = special.gammainccinv(COMBINED_P_VALUES, independent)
    next_smallest = special.betaincinv(
        COMBINED_P_VALUES + 1, count - COMBINED_P_VALUES, INTEGRATION_POINTS
    )
    above = np.maximum(nats + COMBINED_P_VALUES * np.log(next_smallest), 0)
    return float(special.gammaincc(COMBINED_P_VALUES, above).mean())


WEEK_POINTS = 7
"""Points between fortnights that are compared, and the number of those before the last."""
FORTNIGHT, CALM = 14, 10
"""Points whose noise is averaged, and how many of them, the calmest: an outlier makes four of a fortnight noisy."""
EVENT_NOISE_RATIO = 9.0
"""Multiple of the usual noise by which most series change at an event."""


def noise_reach(period: int) -> int:
    """Return the number of earlier points on which a log ratio depends."""
    return 2 * _PAST + _lag(period) + 1


def noise_ratios(values: Floats, period: int) -> Floats:
    """Return the logarithms of the ratios of noise to that of the weeks before; NaN where unknown.

    Series that are constant have none.

    Parameters
    ----------
    values : array of float, shape (series, points)
        On a scale on which noise does not depend on the level; NaN is unknown.
    period : int
        Points of a season.

    Examples
    --------
    >>> noise = np.random.default_rng(1).normal(size=(20, 140))
    >>> noise[:, 120:] *= 3
    >>> before, after = np.median(noise_ratios(noise, 7), axis=0)[[119, 135]]
    >>> bool(abs(before) < 0.4 < 0.7 < after < 1.4)  # log(3) is 1.1
    True
    """
    lag = _lag(period)
    change = np.diff(values, axis=1)
    noise = np.full(values.shape, np.nan)
    noise[:, lag + 1 :] = np.abs(change[:, lag:] - change[:, :-lag])
    lacking = np.isnan(noise[:, WEEK_POINTS:])  # one missing value would cost two weeks
    noise[:, WEEK_POINTS:][lacking] = noise[:, :-WEEK_POINTS][lacking]
    recent, usual = _compared(noise)
    events = np.flatnonzero(median((noise / usual).T) > EVENT_NOISE_RATIO)
    if events.size:
        for t in events:
            noise[:, t] = noise[:, t - WEEK_POINTS]
        recent, usual = _compared(noise)
    return np.where((recent > 0) & (usual > 0), np.log(recent / usual), np.nan)


def _lag(period: int) -> int:
    return period if period > 1 else WEEK_POINTS


_PAST = FORTNIGHT + (WEEK_POINTS - 1) * WEEK_POINTS + FORTNIGHT
"""Points of the fortnights that are compared."""


def _compared(noise: Floats) -> tuple[Floats, Floats]:
    """Return the noise of the fortnight that ends at each point, and that of those before."""
    recent, usual = np.full(noise.shape, np.nan), np.full(noise.shape, np.nan)
    if noise.shape[1] >= FORTNIGHT:
        windows = np.lib.stride_tricks.sliding_window_view(noise, FORTNIGHT, axis=1)
        calm = np.partition(windows, CALM, axis=2)[..., :CALM].mean(axis=2)
        recent[:, FORTNIGHT - 1 :] = np.where(np.isnan(windows).any(axis=2), np.nan, calm)
    first = FORTNIGHT + (WEEK_POINTS - 1) * WEEK_POINTS
    count = noise.shape[1] - first
    if count > 0:
        usual[:, first:] = median_of_seven(
            [recent[:, WEEK_POINTS * k : WEEK_POINTS * k + count] for k in range(WEEK_POINTS)]
        )
    return recent, usual
