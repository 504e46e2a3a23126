"""Medians and quantiles of many short rows at once, ignoring NaN."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidegauge.repository.numerics.arrays import Floats


def median(values: Floats) -> Floats:
    """Return the median along the last axis, ignoring NaN; NaN if all values are."""
    return quantile(values, 0.5)


def quantile(values: Floats, q: float) -> Floats:
    """Return a quantile along the last axis, ignoring NaN, by linear interpolation."""
    return quantiles(values, (q,))[0]


def quantiles(values: Floats, qs: tuple[float, ...]) -> list[Floats]:
    """Return several quantiles along the last axis, as `quantile` does."""
    if values.shape[-1] == 0:
        return [np.full(values.shape[:-1], np.nan) for _ in qs]
    ordered = np.sort(values, axis=-1)  # NaN sorts last
    last = np.maximum((~np.isnan(values)).sum(axis=-1) - 1, 0)
    found = []
    for q in qs:
        place = last * q
        low = np.floor(place).astype(np.intp)
        high = np.ceil(place).astype(np.intp)
        a, b = (_taken(ordered, at[..., None])[..., 0] for at in (low, high))
        found.append(a + (b - a) * (place - low))
    return found


def _taken(values: Floats, places: NDArray[np.intp]) -> Floats:
    """Return `numpy.take_along_axis` of the last axis, whose own way of indexing is slow on short rows."""
    shape = values.shape[:-1]
    first = np.arange(math.prod(shape)).reshape(*shape, 1) * values.shape[-1]
    found: Floats = values.reshape(-1)[first + places]
    return found


def running(values: Floats, length: int) -> Floats:
    """Return running medians of 1, 3, 7 or 21 values along the last axis, at each window's end.

    The median of 21 is Tukey's remedian: the median of seven medians of three. Incomplete windows
    at the start and windows that contain NaN are NaN.
    """
    return runnings(values, (length,))[0]


def runnings(values: Floats, lengths: Sequence[int]) -> list[Floats]:
    """Return running medians of several lengths, as `running` does; they share their sorted triples."""
    triples = _sorted_triples(values, 1) if values.shape[-1] >= 3 else []
    return [_running(values, length, triples) for length in lengths]


def newest(values: Floats, length: int) -> Floats:
    """Return the last running median of 7 or 21 values along the last axis, as `running` does.

    Examples
    --------
    >>> rows = np.random.default_rng(1).normal(size=(2, 30))
    >>> [bool((newest(rows, n) == running(rows, n)[:, -1]).all()) for n in (7, 21)]
    [True, True]
    """
    some = values[..., -length:]
    if length > 7:
        some = _sorted_three(some[..., ::3], some[..., 1::3], some[..., 2::3])[1]
    return median_of_seven([some[..., i] for i in range(7)])


def _running(values: Floats, length: int, triples: Sequence[Floats]) -> Floats:
    if length == 1:
        return values
    out = np.empty_like(values)
    out[..., : length - 1] = np.nan
    if values.shape[-1] < length:
        return out
    three = triples[1]
    if length == 3:
        out[..., 2:] = three
    elif length == 7:
        out[..., 6:] = _running_seven(values, triples, 1)
    else:
        out[..., 20:] = _running_seven(three, _sorted_triples(three, 3), 3)
    return out


def _sorted_triples(values: Floats, step: int) -> list[Floats]:
    """Return three values of each window of 2 * ``step`` + 1, ``step`` apart, in ascending order."""
    return _sorted_three(values[..., : -2 * step], values[..., step:-step], values[..., 2 * step :])


def _running_seven(values: Floats, triples: Sequence[Floats], step: int) -> Floats:
    """Return the medians of seven values of each window of 6 * ``step`` + 1, ``step`` apart."""
    first = [one[..., : -4 * step] for one in triples]
    last = [one[..., 4 * step :] for one in triples]
    return _middle_of_sorted(first, values[..., 3 * step : -3 * step], last)


def median_of_seven(parts: list[Floats]) -> Floats:
    """Return the medians of the entries of seven arrays; NaN where one is."""
    return _middle_of_sorted(_sorted_three(*parts[:3]), parts[3], _sorted_three(*parts[4:]))


def _sorted_three(a: Floats, b: Floats, c: Floats) -> list[Floats]:
    """Return three arrays with their entries in ascending order; all NaN where one is."""
    low, high = np.minimum(a, b), np.maximum(a, b)
    between = np.maximum(low, c)
    return [np.minimum(low, c), np.minimum(between, high), np.maximum(between, high)]


def _middle_of_sorted(a: Sequence[Floats], alone: Floats, b: Sequence[Floats]) -> Floats:
    """Return the medians of seven arrays: two sorted triples, and one that stands alone.

    It lies between the third and the fourth smallest of the triples, which are those of two sorted lists.
    """
    third = np.maximum(a[0], b[1])
    for other in (np.maximum(a[1], b[0]), a[2], b[2]):
        np.minimum(third, other, out=third)
    fourth = np.minimum(a[2], b[1])
    for other in (np.minimum(a[1], b[2]), a[0], b[0]):
        np.maximum(fourth, other, out=fourth)
    np.minimum(fourth, alone, out=fourth)
    return np.maximum(third, fourth, out=third)


def middle_mean(values: Floats) -> Floats:
    """Return the mean of the middle half along the last axis, ignoring NaN; NaN if all values are.

    It varies less than the median, and a quarter of the values on either side cannot move it far.

    Examples
    --------
    >>> middle_mean(np.array([[1.0, 2.0, 3.0, 4.0, 900.0], [5.0, np.nan, np.nan, np.nan, 7.0]])).tolist()
    [3.0, 6.0]
    """
    ordered = np.sort(values, axis=-1)  # NaN sorts last
    count = (~np.isnan(values)).sum(axis=-1, keepdims=True)
    cut, places = count // 4, np.arange(values.shape[-1])
    kept = (places >= cut) & (places < count - cut)
    found: Floats = np.where(kept, ordered, 0).sum(axis=-1) / kept.sum(axis=-1)
    return found


def forward_fill(values: Floats) -> Floats:
    """Forward-fill NaN along the last axis; NaN before the first number stays."""
    gaps = np.isnan(values)
    some = gaps.any(axis=-1)
    places = np.where(gaps[some], 0, np.arange(values.shape[-1]))
    np.maximum.accumulate(places, axis=-1, out=places)
    filled = values.copy()
    filled[some] = _taken(values[some], places)
    return filled
