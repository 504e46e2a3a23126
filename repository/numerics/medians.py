"""Medians and quantiles of many short rows at once, ignoring NaN."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidegauge.repository.numerics.arrays import Floats

SEVEN = (
    (0, 5),
    (0, 3),
    (1, 6),
    (2, 4),
    (0, 1),
    (3, 5),
    (2, 6),
    (2, 3),
    (3, 6),
    (4, 5),
    (1, 4),
    (1, 3),
    (3, 4),
)
"""Sorting network that moves the median of seven values to index 3."""  # fmt: skip


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
    if length == 1:
        return values
    out = np.full_like(values, np.nan)
    width = values.shape[-1]
    if width < length:
        return out
    if length == 3:
        a, b, c = values[..., :-2], values[..., 1:-1], values[..., 2:]
        out[..., 2:] = np.maximum(np.minimum(a, b), np.minimum(np.maximum(a, b), c))
    elif length == 7:
        out[..., 6:] = median_of_seven([values[..., k : width - 6 + k] for k in range(7)])
    else:
        three = running(values, 3)
        out[..., 20:] = median_of_seven(
            [three[..., 2 + 3 * k : width - 18 + 3 * k] for k in range(7)]
        )
    return out


def median_of_seven(parts: list[Floats]) -> Floats:
    """Return the medians of the entries of seven arrays; NaN where one is."""
    some = list(parts)
    for i, j in SEVEN:
        some[i], some[j] = np.minimum(some[i], some[j]), np.maximum(some[i], some[j])
    return some[3]


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
    places = np.where(np.isnan(values), 0, np.arange(values.shape[-1]))
    np.maximum.accumulate(places, axis=-1, out=places)
    return _taken(values, places)
