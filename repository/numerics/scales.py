"""Variance-stabilizing transforms by metric scale: deviations are comparable at any level."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tidegauge.analyzers.core.metric import Scale
from tidegauge.repository.numerics.arrays import zero_if_nan

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidegauge.repository.numerics.arrays import Floats

LEAST_COUNT, LEAST_RATIO, LEAST_LOG = 0.005, 0.0025, 0.01
LEAST_POSITIVE = 1e-12
"""Number as which smaller positive ones count, 0 among them."""
ROWS_UNKNOWN = 1000.0
"""Row count assumed for a ratio whose row count is unknown."""


class ScaleRows(dict[Scale, "NDArray[np.intp] | slice"]):
    """Rows of the series of each scale; a slice of all of them if they have one scale.

    Whoever transforms values of the same series often takes them in place of the scales.

    Examples
    --------
    >>> rows = ScaleRows.from_scales([Scale.COUNT, Scale.RATIO, Scale.COUNT])
    >>> rows[Scale.COUNT].tolist()
    [0, 2]
    """

    @classmethod
    def from_scales(cls, scales: Sequence[Scale] | ScaleRows) -> ScaleRows:
        """Return the rows by scale; those that are given, if they are."""
        if isinstance(scales, ScaleRows):
            return scales
        some = list(dict.fromkeys(scales))
        if len(some) == 1:
            return cls({some[0]: slice(None)})
        return cls({scale: rows_of(scale, scales) for scale in some})


def transform(values: Floats, scales: Sequence[Scale] | ScaleRows) -> Floats:
    """Apply the variance-stabilizing transform of each series' scale.

    Counts: log(1 + x). Ratios: arcsin(sqrt(x)), under which a share of n rows has the standard
    deviation 1 / (2 sqrt(n)) at any level. Positive numbers: log x. Distances: sqrt(x). All others
    are unchanged. Non-finite values become NaN.

    Parameters
    ----------
    values : array of float, shape (series, points)
    scales : sequence of Scale, one for each series, or ScaleRows
    """
    return _apply(np.where(np.isfinite(values), values, np.nan), scales, _FORWARD)


def restore(values: Floats, scales: Sequence[Scale] | ScaleRows) -> Floats:
    """Undo `transform`."""
    return _apply(values, scales, _BACK)


def least_spread(level: Floats, weights: Floats, scales: Sequence[Scale] | ScaleRows) -> Floats:
    """Return a lower bound of the standard deviation, on the transformed scale.

    Counts n: 1 / sqrt(n), at least 0.005. Shares of n rows: 1 / (2 sqrt(n)), at least 0.0025; n is
    `ROWS_UNKNOWN` if not known. Positive numbers and distances: 0.01. Signed numbers: 0, no bound.

    Parameters
    ----------
    level : array of float, shape (series,)
        Expected value, on the transformed scale.
    weights : array of float, shape (series,)
        Rows behind the value.
    scales : sequence of Scale, one for each series, or ScaleRows
    """
    out = np.zeros(len(level))
    for scale, of in ScaleRows.from_scales(scales).items():
        if scale is Scale.COUNT:
            count = np.expm1(np.clip(zero_if_nan(level[of]), 0, 700))
            out[of] = np.maximum(1 / np.sqrt(np.maximum(count, 1.0)), LEAST_COUNT)
        elif scale is Scale.RATIO:
            rows = np.where(weights[of] > 0, weights[of], ROWS_UNKNOWN)
            out[of] = np.maximum(0.5 / np.sqrt(rows), LEAST_RATIO)
        elif scale in {Scale.POSITIVE, Scale.DISTANCE}:
            out[of] = LEAST_LOG
    return out


def rows_of(scale: Scale, scales: Sequence[Scale]) -> NDArray[np.intp]:
    """Return the indices of the series of one scale."""
    return np.flatnonzero([one is scale for one in scales])


def _apply(
    values: Floats,
    scales: Sequence[Scale] | ScaleRows,
    functions: dict[Scale, Callable[[Floats], Floats]],
) -> Floats:
    out = values.copy()
    for scale, of in ScaleRows.from_scales(scales).items():
        if scale in functions:
            out[of] = functions[scale](values[of])
    return out


def _positive(y: Floats) -> Floats:
    """Return positive numbers by their logarithms; 0 where they were no larger than the least."""
    return np.where(y < np.log(2 * LEAST_POSITIVE), 0.0, np.exp(np.minimum(y, 709)))


_FORWARD: dict[Scale, Callable[[Floats], Floats]] = {
    Scale.COUNT: lambda x: np.log1p(np.maximum(x, 0)),
    Scale.RATIO: lambda x: np.arcsin(np.sqrt(np.clip(x, 0, 1))),
    Scale.POSITIVE: lambda x: np.log(np.maximum(x, LEAST_POSITIVE)),
    Scale.DISTANCE: lambda x: np.sqrt(np.maximum(x, 0)),
}
_BACK: dict[Scale, Callable[[Floats], Floats]] = {
    Scale.COUNT: lambda y: np.maximum(np.expm1(np.minimum(y, 709)), 0),
    Scale.RATIO: lambda y: np.square(np.sin(np.clip(y, 0, np.pi / 2))),
    Scale.POSITIVE: _positive,
    Scale.DISTANCE: lambda y: np.square(np.clip(y, 0, 1e154)),
}
