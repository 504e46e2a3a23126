"""Which lag explains best what was served: numbers of shifted comparisons, what chance does to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Counts = npt.NDArray[np.int64]

DRAWS = 400
FEWEST = 5
"""Groups of keys: fewer agree with each other by chance more often than `CHANCE` has it."""
CHANCE = 0.05
"""What happens less often by chance is taken for an effect."""
_TAIL = 0.05
"""The interval leaves out so much at either end: it is of 90 %."""
_ROUNDING = 1e-9


@dataclass(frozen=True)
class LagCounts:
    """What shifted comparisons of one group-by counted; the same rows are compared at every shift.

    Attributes
    ----------
    lags : tuple of int
        The shifts in milliseconds, ascending from 0.
    compared : array of int
        For each group of keys how many values were compared; positive.
    unequal : array of int
        How many of them differ, for each group of keys (rows) and shift (columns).
    matched : tuple of int
        For each shift how many rows the backfill gives.
    """

    lags: tuple[int, ...]
    compared: Counts
    unequal: Counts
    matched: tuple[int, ...]


@dataclass(frozen=True)
class Best:
    """The shift of the least differences, and how sure that is.

    Attributes
    ----------
    at : int
        Its number in the grid: where several are equal, the middle one of them.
    low, high : int
        The numbers between which it lies in 90 % of the draws.
    p_value : float
        How often chance makes some shift look as much better than none.
    p_worse : float
        How often it makes some look as much worse.
    """

    at: int
    low: int
    high: int
    p_value: float
    p_worse: float


def best(counts: LagCounts, seed: int = 0) -> Best:
    """Return which shift is the best, and what is left open.

    Keys are drawn, not queries, because the queries of a key differ together: the interval is from a bootstrap
    of groups of keys, in which of equally good shifts the first counts below and the last above. Whether any
    shift is better than none is asked of the differences in each group of keys, whose signs chance would set:
    of all shifts the one that stands out most is compared with the one that does so when signs are drawn. So
    that many shifts were tried is allowed for.

    Parameters
    ----------
    counts : LagCounts
        Of one group of keys or more.
    seed : int

    Examples
    --------
    >>> import numpy as np
    >>> unequal = np.array([[9, 4, 0, 3]] * 8)
    >>> found = best(LagCounts((0, 60, 120, 180), np.full(8, 20), unequal, (80, 80, 80, 80)))
    >>> found.at, found.low, found.high, found.p_value < CHANCE
    (2, 2, 2, True)
    """
    import numpy as np  # noqa: PLC0415 - heavy, and not needed to compare

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
    size[size == 0] = 1  # where nothing differs from no shift, nothing stands out
    signs = random.choice([-1, 1], size=(DRAWS, groups))
    by_chance = ((signs @ better) / size).max(axis=1)
    seen = better.sum(axis=0) / size
    # Signs that are turned round are as likely. What was seen is one way to set them, so no share is 0.
    as_much = [int((by_chance >= one - _ROUNDING).sum()) for one in (seen.max(), -seen.min())]
    return Best(at, min(low, at), max(high, at), *((1 + n) / (1 + DRAWS) for n in as_much))
