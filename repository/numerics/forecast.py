"""Robust one-step forecasts of many series from their past: season, level and spread.

All values are on the transformed scale (`scales`). The past is an array of shape (series, memory),
the newest point last; gaps and points excluded from training are NaN.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tidegauge.repository.numerics.arrays import zero_if_nan
from tidegauge.repository.numerics.medians import forward_fill, quantiles, runnings

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidegauge.repository.numerics.arrays import Floats

LEVELS = (3, 7, 1)
"""Window lengths of the level's median; the one with the smaller recent errors is used.

The last value alone is the level of what wanders, as an autoregression of .9 does.
"""
WANDERS = 28
"""Points from which it may be: of fewer, chance would choose it."""
CLEARLY = 0.92
"""Share of the other levels' mean root error at which it is."""
RECENT = 35
ENOUGH = 7
"""Errors required to judge a level window."""


@dataclass(frozen=True)
class Forecast:
    """Forecast of one point of each series.

    Attributes
    ----------
    points : array of int, shape (series,)
        Number of known points in the past.
    centre, spread : array of float, shape (series,)
        The expected value, and the standard deviation of earlier forecast errors.
    freedom : array of float, shape (series,)
        Degrees of freedom of the error's Student's t distribution.
    errors : array of float, shape (series, memory)
        Absolute errors that the forecast would have made at training points.
    surprises : array of float, shape (series, memory)
        The same, including the first of each run of points that alarmed.
    flat : array of float, shape (series, memory)
        The past without its season.
    level : array of float, shape (series, memory)
        The same, forward-filled.
    effect : array of float, shape (series,)
        Seasonal effect on the point.
    """

    points: NDArray[np.intp]
    centre: Floats
    spread: Floats
    freedom: Floats
    errors: Floats
    surprises: Floats
    flat: Floats
    level: Floats
    effect: Floats


def forecast(usable: Floats, moved: Floats, season: Floats, effect: Floats) -> Forecast:
    """Forecast the next point.

    Parameters
    ----------
    usable : array of float, shape (series, memory)
        The training points of the past.
    moved : array of float, shape (series, memory)
        The same, and points whose errors tell of the tail, though nobody learns from them.
    season : array of float, shape (series, memory)
        Seasonal effects on the past.
    effect : array of float, shape (series,)
        Seasonal effect on the next point.
    """
    points = (~np.isnan(usable)).sum(axis=1)
    flat = usable - season
    level = forward_fill(flat)
    ways = runnings(level, LEVELS)
    lately = flat[:, 1:][:, -RECENT:]
    choice = _best(np.abs([lately - way[:, :-1][:, -RECENT:] for way in ways]), points)
    upto = ways[0].copy()
    for number, way in enumerate(ways[1:], 1):
        some = choice == number
        upto[some] = way[some]
    before, now = upto[:, :-1], upto[:, -1]
    errors = np.abs(flat[:, 1:] - before)
    middle, high = quantiles(errors, (0.5, 0.9))
    length = np.array(LEVELS)[choice]
    # A median of one is chosen where its errors are all there is.
    inflation = np.sqrt(1 + 1 / np.maximum(length, LEVELS[0]) + 3 / np.maximum(points, 1))
    return Forecast(
        points=points,
        centre=now + effect,
        spread=zero_if_nan(np.fmax(1.4826 * middle, high / 1.645)) * inflation,
        freedom=np.clip(points / 2.5, 2.5, 12),
        errors=errors,
        surprises=np.abs(moved[:, 1:] - season[:, 1:] - before),
        flat=flat,
        level=level,
        effect=effect,
    )


def _best(errors: Floats, points: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the index of the best level window, by mean root error, robust to outliers."""
    known = ~np.isnan(errors)
    count = known.sum(axis=2)
    miss = np.where(known, np.sqrt(errors), 0).sum(axis=2) / np.maximum(count, 1)
    enough = count >= np.minimum(points / 3, ENOUGH)
    enough[LEVELS.index(1)] &= points >= WANDERS
    miss[LEVELS.index(1)] /= CLEARLY
    best: NDArray[np.intp] = np.argmin(np.where(enough, miss, np.inf), axis=0)
    return best
