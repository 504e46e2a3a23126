"""How unlikely a point is, given what was expected of it. Scores are -log10 of p-values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from repository.anomalies.detector import CAP
from repository.anomalies.medians import filled, median, quantiles, running

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from repository.anomalies.detector import Floats
    from repository.anomalies.forecast import Forecast

LOOK = 2.0
"""Points that score higher are compared with the largest errors before."""
OFTEN = 5
"""Alarms within memory that make a tail heavy."""
CLOSE = 1.1
ATOM = 0.6
"""Share of one value from which on a series is judged by how often it has another."""
UNSEEN = 2.0
"""What the size of the first departure from a constant adds to its score."""
TOLD = 2
"""Alarms to one side that told of a new level already."""
LARGE = 0.1
"""Part of the usual value from which on the first departure is large, and adds more; none is from zero."""
NOISE = 0.6
"""How much of the errors' spread is left in such medians."""
FAR = 3.0
"""A way of fewer spreads is no drift, whatever was usual."""
LAG, BASELINE = 14, 21
"""A drift is the way from the median of so many points, so long ago, to that of the last seven."""


def student(z: Floats, freedom: Floats) -> Floats:
    """Return the score of a deviation: the two-sided tail of Student's distribution."""
    p = 2 * special.stdtr(freedom, -np.abs(z))
    score: Floats = np.clip(-np.log10(np.maximum(p, 10.0**-CAP)), 0, CAP)
    return score


def seen_before(score: Floats, off: Floats, now: Forecast) -> Floats:
    """Return scores, lower where something as far out was there before: as likely as that was frequent.

    What alarmed counts, too, if it did so often: then the tail is heavy, and no news.
    """
    some = np.flatnonzero(score > LOOK)
    if not some.size:
        return score
    large = np.maximum(_from_top(now.errors[some], 2), _from_top(now.surprises[some], OFTEN))
    seen = (large > 0) & (off[some] < CLOSE * large)
    score[some] = np.where(
        seen, np.minimum(score[some], np.log10(now.points[some] + 1)), score[some]
    )
    return score


def departures(
    score: Floats, past: Floats, value: Floats, alarms: NDArray[np.bool_], least: Floats
) -> NDArray[np.bool_]:
    """Score, in place, series that nearly always have one value, and return which they are.

    Having another value is as unlikely as it was rare, times how unlikely its distance is among those
    of earlier departures.

    Parameters
    ----------
    score : array of float, shape (series,)
    past : array of float, shape (series, memory)
    value : array of float, shape (series,)
    alarms : array of bool, shape (series, memory)
        What alarmed; no example for later departures, unless there are many.
    least : array of float, shape (series,)
        The least spread that is believed.
    """
    atom: NDArray[np.bool_] = np.zeros(len(score), dtype=bool)
    some = np.flatnonzero((past[:, 1:] == past[:, :-1]).any(axis=1))  # others have no usual value
    past, alarms = past[some], alarms[some]
    known = ~np.isnan(past)
    usual = median(past)  # where one value fills over half, the median is that value
    close = 1e-12 * np.fmax(1.0, np.abs(usual))
    same = np.abs(past - usual[:, None]) <= close[:, None]
    mostly = same.sum(axis=1) >= ATOM * np.maximum(known.sum(axis=1), 1)
    some = some[mostly]
    if not some.size:
        return atom
    atom[some] = True
    past, alarms, known, same = past[mostly], alarms[mostly], known[mostly], same[mostly]
    usual, close, points = usual[mostly], close[mostly], known.sum(axis=1)
    away = np.where(~same & known, np.abs(past - usual[:, None]), np.nan)
    count = (~np.isnan(away)).sum(axis=1)
    few = alarms.sum(axis=1) < OFTEN
    away[alarms & few[:, None]] = np.nan
    examples = (~np.isnan(away)).sum(axis=1)
    n = np.maximum(examples, 1)
    mean = np.nansum(away, axis=1) / n
    spread = np.sqrt(np.nansum(np.square(away - mean[:, None]), axis=1) / n)
    spread = np.hypot(spread, 0.3 * mean / np.sqrt(n + 1)) * np.sqrt(1 + 1 / n)
    off = np.abs(value[some] - usual)
    beyond = np.maximum(off - mean, 0) / np.where(spread > 0, spread, 1)
    part = LARGE * np.abs(usual)
    large = np.log10(np.maximum(off / np.where(part > 0, part, np.inf), 1))
    size = np.where(examples > 0, student(beyond, np.clip(n, 1, 12).astype(float)), UNSEEN + large)
    rare = np.log10((points + 2) / (count + 1)) + size
    rare = np.where(off < 2 * least[some], np.minimum(rare, 1.0), rare)
    score[some] = np.where(off <= close, 0.0, np.minimum(rare, CAP))
    return atom


def drift(
    now: Forecast, value: Floats, alarms: Floats, least: Floats
) -> tuple[Floats, Floats, Floats]:
    """Return the score of how far a series has moved slowly, from where, and how far is usual.

    Only a drift that is farther than all of the last two weeks scores, so that each is told once; none
    does after alarms to the same side, which told of a new level.

    Parameters
    ----------
    now : Forecast
    value : array of float, shape (series,)
    alarms : array of float, shape (series, memory)
        1 or -1 where a point alarmed, else 0.
    least : array of float, shape (series,)
        The least spread that is believed.
    """
    count = len(value)
    score, start, spread = np.zeros(count), np.full(count, np.nan), np.full(count, np.nan)
    newest = (value - now.effect)[:, None]
    some = np.flatnonzero(_moved(now, newest[:, 0]))
    if not some.size:
        return score, start, spread
    path = filled(np.concatenate([now.flat[some], newest[some]], axis=1))
    week = running(path, 7)
    before = running(path, BASELINE)
    before = np.where(np.isnan(before), week, before)
    ways = week[:, LAG:] - before[:, :-LAG]
    sizes = np.abs(ways)
    usual = sizes[:, :-BASELINE]
    middle, high = quantiles(usual, (0.5, 0.9))
    known = (~np.isnan(usual)).sum(axis=1)
    wander = np.hypot(
        np.nan_to_num(np.fmax(1.4826 * middle, high / 1.645)), NOISE * now.spread[some]
    )
    wander = np.hypot(NOISE * np.sqrt(1 + 30 / (known + 10)) * wander, least[some])
    z = ways[:, -1] / np.where(wander > 0, wander, np.inf)
    found = np.nan_to_num(student(z, np.clip(6 + known / 10, 6, 12)))
    farther = sizes[:, -1] > np.nan_to_num(sizes[:, -1 - LAG : -1]).max(axis=1)
    lately = alarms[some, -(LAG + BASELINE) :]
    told = np.maximum((lately > 0).sum(axis=1), (lately < 0).sum(axis=1)) >= TOLD
    score[some] = np.where(farther & ~told & (found >= LOOK), found, 0.0)
    start[some] = before[:, -1 - LAG] + now.effect[some]
    spread[some] = wander
    return score, start, spread


def _moved(now: Forecast, newest: Floats) -> NDArray[np.bool_]:
    """Return which series could have moved far enough: a bound that is quick to see."""
    path = np.concatenate([now.level[:, -LAG - BASELINE :], newest[:, None]], axis=1)
    week = running(path[:, -7:], 7)[:, -1]
    before = path[:, :-LAG]
    long, short = running(before, BASELINE)[:, -1], running(before[:, -7:], 7)[:, -1]
    way = np.abs(week - np.where(np.isnan(long), short, long))
    return way > FAR * NOISE * NOISE * now.spread


def _from_top(values: Floats, rank: int) -> Floats:
    """Return each row's second, third, ... largest number; -1 where there are not so many."""
    if values.shape[1] < rank:
        return np.full(len(values), -1.0)
    known = np.nan_to_num(values, nan=-1.0)
    found: Floats = np.partition(known, values.shape[1] - rank, axis=1)[:, -rank]
    return found
