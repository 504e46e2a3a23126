"""What may be expected of numbers that come later, by numbers that were seen."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from math import isfinite, sqrt

TWO_DIGITS = Decimal("0.01")
CERTAIN = 1.959963984540054
"""Standard deviations on both sides that hold 95 % of a normal distribution."""
DIGITS = 3
"""Of bounds."""


def wilson(share: float, rows: float) -> tuple[float, float]:
    """Return the 95 % interval of Wilson for a share that was seen in some rows.

    Parameters
    ----------
    share : float
        Between 0 and 1.
    rows : float
        The rows behind it; with none, or NaN, anything is possible.

    Examples
    --------
    >>> low, high = wilson(0.9, 10)
    >>> round(low, 3), round(high, 3)
    (0.596, 0.982)
    """
    if not rows > 0:
        return 0.0, 1.0
    square = CERTAIN**2 / rows
    middle = (share + square / 2) / (1 + square)
    half = CERTAIN * sqrt(share * (1 - share) / rows + square / (4 * rows)) / (1 + square)
    return max(0.0, middle - half), min(1.0, middle + half)


def floor2(share: float) -> float:
    """Round down to two decimals, as the number is written.

    Examples
    --------
    >>> floor2(0.9949), floor2(0.29), floor2(1.0)
    (0.99, 0.29, 1.0)
    """
    return float(Decimal(repr(share)).quantize(TWO_DIGITS, ROUND_FLOOR))


def ceil2(share: float) -> float:
    """Round up to two decimals, as the number is written.

    Examples
    --------
    >>> ceil2(0.041), ceil2(0.29), ceil2(0.0)
    (0.05, 0.29, 0.0)
    """
    return float(Decimal(repr(share)).quantize(TWO_DIGITS, ROUND_CEILING))


def widened(low: float, high: float, margin: float) -> tuple[float, float]:
    """Return bounds with a margin on both sides, rounded outward to three digits.

    Examples
    --------
    >>> widened(634, 1014, 190), widened(-2, 7, 0), widened(0.12345, 0.5, 0)
    ((444.0, 1210.0), (-2.0, 7.0), (0.123, 0.5))
    """
    return _rounded(low - margin, ROUND_FLOOR), _rounded(high + margin, ROUND_CEILING)


def _rounded(number: float, way: str) -> float:
    if not isfinite(number) or number == 0:
        return number
    exact = Decimal(repr(number))
    place = Decimal(1).scaleb(exact.adjusted() - DIGITS + 1)
    return float(exact.quantize(place, way))
