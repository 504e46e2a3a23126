"""Additive Holt-Winters exponential smoothing, ETS(A,A,A), of many series with gaps.

For a forecast error e, the level is updated by alpha e, the trend by alpha beta e and the seasonal
component by gamma e. A gap has no error, so level and trend are extrapolated through it. See
Hyndman and Athanasopoulos, Forecasting: principles and practice, chapter 8.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np

if TYPE_CHECKING:
    from tidegauge.repository.numerics.arrays import Floats

N = TypeVar("N", float, "Floats")

START = (0.3, 0.1, 0.1)
"""Initial alpha, beta and gamma of the optimizer."""
EXACT = 1e-12
"""Relative error below which a series counts as forecast exactly."""
WORST = 1e300
"""Cost of parameters with which the errors diverge."""


def forecasts(values: Floats, begin: int, period: int) -> Floats:
    """Forecast each point of many series one step ahead, fitting parameters to the first points.

    Parameters
    ----------
    values : array of float, shape (series, points)
        NaN where there is a gap. Gaps at the end are forecast from the points before them.
    begin : int
        Parameters are fitted to the points before this index, at least two cycles.
    period : int
        Points per cycle.

    Returns
    -------
    array of float, shape (series, points)

    Examples
    --------
    >>> values = np.array([[1, 3, 2, 4, 3, 5, np.nan, np.nan]])
    >>> forecasts(values, 6, 2)[0, 6:].round(6).tolist()
    [4.0, 6.0]
    """
    level, trend, season = _beginning(values[:, :begin], period)
    rows = zip(values[:, :begin], level, trend, season, strict=True)
    fitted = [_fit(row, float(a), float(b), c) for row, a, b, c in rows]
    alpha, beta, gamma = np.array(fitted).reshape(-1, 3).T
    known = (~np.isnan(values)).astype(float)
    columns = list(np.nan_to_num(values).T), list(known.T)
    made = _walk(*columns, level, trend, list(season.T), (alpha, beta, gamma))
    return np.stack(made, axis=1)


def _beginning(values: Floats, period: int) -> tuple[Floats, Floats, Floats]:
    """Return the initial level, trend and season as Deequ computes them, tolerating gaps.

    A seasonal position missing in the first cycle is taken from the next cycle that has it, minus
    the trend up to there.
    """
    whole = values.shape[1] // period * period
    cycles = values[:, :whole].reshape(len(values), -1, period)
    trend = _mean(cycles[:, 1] - cycles[:, 0]) / period
    seen = (~np.isnan(cycles)).argmax(axis=1)
    first = np.take_along_axis(cycles, seen[:, None], axis=1)[:, 0] - seen * period * trend[:, None]
    level = _mean(first)
    return level, trend, np.nan_to_num(first - level[:, None])


def _mean(values: Floats) -> Floats:
    known = ~np.isnan(values)
    mean: Floats = np.where(known, values, 0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
    return mean


def _fit(values: Floats, level: float, trend: float, season: Floats) -> tuple[float, ...]:
    """Fit alpha, beta and gamma by least squares, searching from `START`."""
    exponent = -np.frexp(np.nanmax(np.abs(values)))[1]
    known = (~np.isnan(values)).astype(float).tolist()
    scaled = np.ldexp(np.nan_to_num(values), exponent).tolist()
    state = float(np.ldexp(level, exponent)), float(np.ldexp(trend, exponent))
    places = np.ldexp(season, exponent).tolist()

    def cost(parameters: Sequence[float]) -> float:
        alpha, beta, gamma = map(float, parameters)
        made = _walk(scaled, known, *state, places, (alpha, beta, gamma))
        total: float = sum(
            k * (x - y) * (x - y) for x, k, y in zip(scaled, known, made, strict=True)
        )
        return total

    from scipy import optimize  # which takes longer to import than all of this package's numerics

    unit = cost(START)
    if not len(scaled) * EXACT**2 < unit < WORST:
        return START

    def objective(parameters: Floats) -> float:
        return min(WORST, cost(parameters.tolist()) / unit)  # min() returns WORST for NaN, too

    found = optimize.minimize(objective, START, method="L-BFGS-B", bounds=[(0, 1)] * 3)
    return tuple(found.x.tolist())


def _walk(
    values: Sequence[N],
    known: Sequence[N],
    level: N,
    trend: N,
    season: Sequence[N],
    parameters: tuple[N, N, N],
) -> list[N]:
    """Forecast one step ahead at each point, for scalars of one series or arrays of many.

    ``known`` is 0 at a gap, elsewhere 1.
    """
    alpha, beta, gamma = parameters
    places = list(season)
    made = []
    for t, (value, seen) in enumerate(zip(values, known, strict=True)):
        place = t % len(places)
        forecast = level + trend + places[place]
        error = seen * (value - forecast)
        level = level + trend + alpha * error
        trend = trend + alpha * beta * error
        places[place] = places[place] + gamma * error
        made.append(forecast)
    return made
