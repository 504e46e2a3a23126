"""Noise of the series of a table relative to earlier weeks, whatever their level and season.

The noise of a point is its change since the point before, less the same change a season ago. That of the last
fortnight is compared with the median of those that ended in the seven weeks before. Points at which most series
jump, such as the beginning of a new level, are events, not noise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tidegauge.repository.numerics.medians import median, median_of_seven

if TYPE_CHECKING:
    from tidegauge.repository.numerics.arrays import Floats

WEEK = 7
"""Points between fortnights that are compared, and the number of those before the last."""
FORTNIGHT, CALM = 14, 10
"""Points whose noise is averaged, and how many of them, the calmest: an outlier makes four of a fortnight noisy."""
EVENT = 9.0
"""Multiple of the usual noise by which most series change at an event."""


def reach(period: int) -> int:
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
    lacking = np.isnan(noise[:, WEEK:])  # one missing value would cost two weeks
    noise[:, WEEK:][lacking] = noise[:, :-WEEK][lacking]
    recent, usual = _compared(noise)
    events = np.flatnonzero(median((noise / usual).T) > EVENT)
    if events.size:
        for t in events:
            noise[:, t] = noise[:, t - WEEK]
        recent, usual = _compared(noise)
    return np.where((recent > 0) & (usual > 0), np.log(recent / usual), np.nan)


def _lag(period: int) -> int:
    return period if period > 1 else WEEK


_PAST = FORTNIGHT + (WEEK - 1) * WEEK + FORTNIGHT
"""Points of the fortnights that are compared."""


def _compared(noise: Floats) -> tuple[Floats, Floats]:
    """Return the noise of the fortnight that ends at each point, and that of those before."""
    recent, usual = np.full(noise.shape, np.nan), np.full(noise.shape, np.nan)
    if noise.shape[1] >= FORTNIGHT:
        windows = np.lib.stride_tricks.sliding_window_view(noise, FORTNIGHT, axis=1)
        calm = np.partition(windows, CALM, axis=2)[..., :CALM].mean(axis=2)
        recent[:, FORTNIGHT - 1 :] = np.where(np.isnan(windows).any(axis=2), np.nan, calm)
    first = FORTNIGHT + (WEEK - 1) * WEEK
    count = noise.shape[1] - first
    if count > 0:
        usual[:, first:] = median_of_seven(
            [recent[:, WEEK * k : WEEK * k + count] for k in range(WEEK)]
        )
    return recent, usual
