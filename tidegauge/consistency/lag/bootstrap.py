"""Bootstrap intervals and significance tests for lag estimates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Counts = npt.NDArray[np.int64]

DRAWS = 400
FEWEST = 5
"""Fewest groups of keys for a test; fewer agree by chance more often than `CHANCE`."""
CHANCE = 0.05
"""Significance level."""
_TAIL = 0.05
"""Probability in each tail of the 90 % interval."""
_ROUNDING = 1e-9


@dataclass(frozen=True)
class LagCounts:
    """Counts of one group-by at each shift, over the same rows.

    Attributes
    ----------
    lags : tuple of int
        The shifts in milliseconds, ascending from 0.
    compared : array of int
        Number of compared values in each group of keys; positive.
    unequal : array of int
        Number of unequal values, by group of keys (rows) and shift (columns).
    matched : tuple of int
        Number of rows with a backfill, by shift.
    """

    lags: tuple[int, ...]
    compared: Counts
    unequal: Counts
    matched: tuple[int, ...]


@dataclass(frozen=True)
class BestShift:
    """The shift with the fewest differences, with its interval and significance.

    Attributes
    ----------
    at : int
        Its index in the grid; the middle one of ties.
    low, high : int
        Index bounds of the 90 % bootstrap interval.
    p_value : float
        Probability that some shift fits at least this much better than none by chance.
    p_worse : float
        Probability that some shift fits at least this much worse than none by chance.
    """

    at: int
    low: int
    high: int
    p_value: float
    p_worse: float


def best(counts: LagCounts, seed: int = 0) -> BestShift:
    """Return the shift with the fewest differences, its bootstrap interval, and p-values.

    Groups of keys are resampled instead of queries, because the queries of a key differ together.
    Among equally good shifts the lower bound takes the first and the upper bound the last. The
    p-values come from a sign-flip test on the differences per group of keys: the largest
    standardized effect over all shifts is compared with the largest under random signs, which
    corrects for the number of shifts tried.

    Parameters
    ----------
    counts : LagCounts
        Counts of at least one group of keys.
    seed : int

    Examples
    --------
    >>> import numpy as np
    >>> unequal = np.array([[9, 4, 0, 3]] * 8)
    >>> found = best(LagCounts((0, 60, 120, 180), np.full(8, 20), unequal, (80, 80, 80, 80)))
    >>> found.at, found.low, found.high, found.p_value < CHANCE
    (2, 2, 2, True)
    """
    import numpy as np

    random = np.random.default_rng(seed)
    groups = len(counts.compared)
    total = counts.unequal.sum(axis=0)
    (tied,) = np.nonzero(total == total.min())
    drawn = random.multinomial(groups, [1 / groups] * groups, size=DRAWS) @ counts.unequal
    least = drawn == drawn.min(axis=1, keepdims=True)
    first, last = least.argmax(axis=1), least.shape[1] - 1 - least[:, ::-1].argmax(axis=1)
    at = int(tied[(len(tied) - 1) // 2])
    low = int(np.quantile(first, _TAIL, method="lower"))
    high = int(np.quantile(last, 1 - _TAIL, method="higher"))
    better = counts.unequal[:, :1] - counts.unequal
    size = np.sqrt((better.astype(float) ** 2).sum(axis=0))
    size[size == 0] = 1  # no difference from the unshifted count is no effect
    signs = random.choice([-1, 1], size=(DRAWS, groups))
    by_chance = ((signs @ better) / size).max(axis=1)
    seen = better.sum(axis=0) / size
    # The observed signs are one possible draw, hence 1 + n, and no p-value is 0.
    as_much = [int((by_chance >= one - _ROUNDING).sum()) for one in (seen.max(), -seen.min())]
    return BestShift(at, min(low, at), max(high, at), *((1 + n) / (1 + DRAWS) for n in as_much))
