"""Confidence intervals, margins and rounding for suggested limits."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from math import isfinite, sqrt

TWO_DIGITS = Decimal("0.01")
CERTAIN = 1.959963984540054
"""Two-sided 95 % quantile of the standard normal distribution."""
DIGITS = 3
"""Significant digits of bounds."""


def wilson(share: float, rows: float) -> tuple[float, float]:
    """Return Wilson's 95 % confidence interval of an observed share.

    Parameters
    ----------
    share : float
        Between 0 and 1.
    rows : float
        Number of rows behind it; 0 or NaN gives (0, 1).

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
    """Round down to two decimals, based on the decimal notation.

    Examples
    --------
    >>> floor2(0.9949), floor2(0.29), floor2(1.0)
    (0.99, 0.29, 1.0)
    """
    return float(Decimal(repr(share)).quantize(TWO_DIGITS, ROUND_FLOOR))


def ceil2(share: float) -> float:
    """Round up to two decimals, based on the decimal notation.

    Examples
    --------
    >>> ceil2(0.041), ceil2(0.29), ceil2(0.0)
    (0.05, 0.29, 0.0)
    """
    return float(Decimal(repr(share)).quantize(TWO_DIGITS, ROUND_CEILING))


def widen(low: float, high: float, margin: float) -> tuple[float, float]:
    """Return bounds widened by a margin on both sides, rounded outward to three digits.

    Examples
    --------
    >>> widen(634, 1014, 190), widen(-2, 7, 0), widen(0.12345, 0.5, 0)
    ((444.0, 1210.0), (-2.0, 7.0), (0.123, 0.5))
    """
    return _rounded(low - margin, ROUND_FLOOR), _rounded(high + margin, ROUND_CEILING)


def _rounded(number: float, way: str) -> float:
    if not isfinite(number) or number == 0:
        return number
    exact = Decimal(repr(number))
    place = Decimal(1).scaleb(exact.adjusted() - DIGITS + 1)
    return float(exact.quantize(place, way))
