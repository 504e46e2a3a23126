"""Detectors of partitions that are missing, or that came late."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from analyzers.metric import Scale
from repository.anomalies.contents import UNSEEN
from repository.anomalies.detector import History, Reason, Scores, WholeDetector, detector
from repository.anomalies.grid import Grid
from repository.anomalies.seasonal import Seasonal

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from repository.anomalies.detector import Floats

CYCLES = 8
"""Seasons back to which the same place of the season is looked at."""
KNOWN = 7
"""Partitions from which on one can be missed."""
HOUR = 3600.0
LEAST_DELAY = 0.1
"""Hours; shorter delays count as this."""
TWICE = 2.0
"""A delay is late if it is longer than so many times the usual."""


@detector
class MissingPartition(WholeDetector):
    """Finds gaps in the calendar: partitions that are missing between two, or overdue after the last.

    The partition after the gap is told of, and of those that are overdue the newest. A missing place
    counts the more the rarer its like was missing before: the same weekday (or hour) of the last eight
    seasons, and any place. So a table without weekends misses none. The first gap counts as a hundred
    times rarer. Overdue is what should have come by now, if partitions usually come within a week of
    their end, plus as long again.

    Examples
    --------
    >>> days = np.delete(np.arange(40), [30, 31]).astype("M8[D]").astype("M8[s]")
    >>> history = History(days, np.empty((0, 38)), np.empty((0, 38)), [])
    >>> np.flatnonzero(MissingPartition().score(history).score[0] >= 3).tolist()
    [30]
    >>> MissingPartition().tell(history, 30)
    'follows on a gap of 2 partitions'
    """

    needs_values: ClassVar[bool] = False

    def measure(self, history: History) -> Floats:
        """Return how many places are missing before each partition, and overdue after the last."""
        return self._gaps(history)[0]

    def score(self, history: History, start: int = 0, known: Scores | None = None) -> Scores:  # noqa: ARG002
        """Score every gap by how rare such were."""
        missing, score = self._gaps(history)
        scores = Scores.nothing((1, len(missing)))
        scores.score[0] = np.where(np.arange(len(missing)) >= KNOWN, score, np.nan)
        scores.upper[0] = np.where(np.isnan(scores.score[0]), np.nan, 0.0)
        scores.reason[0] = np.where(scores.score[0] > 0, Reason.MISSING, Reason.NONE)
        return scores.since(start)

    def tell(self, history: History, t: int) -> str:
        """Say how many are missing."""
        count = int(self.measure(history)[t])
        many = "1 partition" if count == 1 else f"{count:,} partitions"
        overdue = t == len(history.times) - 1 and _overdue(history, _grid(history))
        return f"is the last, {many} overdue" if overdue else f"follows on a gap of {many}"

    def _gaps(self, history: History) -> tuple[Floats, Floats]:
        count, score = np.zeros(len(history.times)), np.zeros(len(history.times))
        told = 0
        for gap in gaps(history):
            count[gap.place] += len(gap.columns)
            score[gap.place] = gap.rarest + (UNSEEN if not told else 0.0)
            told += gap.place >= KNOWN
        return count, score


@dataclass(frozen=True)
class Gap:
    """Places of the calendar that are missing though they usually are not.

    Attributes
    ----------
    place : int
        The partition that is told of: the one after the gap, or the last if they are overdue.
    columns : tuple of int
        Which places of the grid.
    times : tuple of datetime64
        Of the partitions that should be there.
    rarest : float
        -log10 of how often the like of the rarest was missing before.
    """

    place: int
    columns: tuple[int, ...]
    times: tuple[np.datetime64, ...]
    rarest: float


def gaps(history: History) -> Iterator[Gap]:
    """Yield where the calendar of some partitions has gaps, in order, the overdue last."""
    grid = _grid(history)
    columns = grid.column
    if grid.period == 1 or len(columns) < 2:  # noqa: PLR2004 - no calendar
        return
    there = np.zeros(int(columns[-1]) + 1, dtype=bool)
    there[columns] = True
    due = _overdue(history, grid)
    ends = [*columns[1:].tolist(), *([int(columns[-1]) + due + 1] if due else [])]
    for t, (begin, end) in enumerate(zip(columns.tolist(), ends, strict=False)):
        seen = min(end, begin + 1 + CYCLES * grid.period)
        rates = {c: _rate(there, c, grid.period) for c in range(begin + 1, seen)}
        rare = {c: -np.log10(rate) for c, rate in rates.items() if rate < OFTEN}
        if rare:
            missing = (*rare, *range(seen, end))
            times = tuple(history.times[t] + (c - begin) * _step(grid) for c in missing)
            yield Gap(min(t + 1, len(columns) - 1), missing, times, max(rare.values()))


OFTEN = 0.5
"""Places that are missing more often are not missed."""
LIVE = 7
"""Partitions usually come within so many steps of their end, if any can be overdue."""


def _grid(history: History) -> Grid:
    return history.grid or Grid.of(history.times)


def _rate(there: NDArray[np.bool_], column: int, period: int) -> float:
    """Return how often the like of a column was missing before it."""
    before = there[:column]
    alike = ~before[column % period :: period][-CYCLES:]
    overall = ((~before).sum() + 1) / (len(before) + 2)
    return float((alike.sum() + overall) / (len(alike) + 1))


def _overdue(history: History, grid: Grid) -> int:
    """Return how many partitions should have come after the last by now."""
    ledger = history.ledger
    if ledger is None or grid.period == 1 or np.isnat(ledger.now):
        return 0
    step = _step(grid)
    delays = delays_of(history)[-LIVE:]
    known = delays[~np.isnat(delays)]
    if len(known) < LIVE or np.median(
        known.astype("m8[s]").astype(float)
    ) > LIVE * step / np.timedelta64(1, "s"):
        return 0
    slowest = max(known.max(), np.timedelta64(0, "s"))
    late = ledger.now - (history.times[-1] + step) - 2 * slowest
    return max(int(late / step), 0)


def delays_of(history: History) -> NDArray[np.timedelta64]:
    """Return the time from the end of what each partition is about until it came; not-a-time if unknown.

    It ends after an hour on a grid of hours, after a day on all others.
    """
    if history.ledger is None:
        return np.full(len(history.times), np.timedelta64("NaT", "s"))
    ends = history.times + _step(_grid(history))
    delays: NDArray[np.timedelta64] = (history.ledger.arrived - ends).astype("m8[s]")
    return delays


def _step(grid: Grid) -> np.timedelta64:
    return np.timedelta64(1, "h" if grid.period == 24 else "D")  # noqa: PLR2004 - hours of a day


@detector
class Late(WholeDetector):
    """Finds partitions that came much later than the earlier ones did.

    The delay is the time from the end of what a partition is about until its data were written, in hours,
    compared with earlier delays by `Seasonal`; only delays of more than twice the usual count.

    Examples
    --------
    >>> Late()
    Late()
    """

    least: ClassVar[int] = Seasonal.least
    scale: ClassVar[Scale] = Scale.POSITIVE
    needs_values: ClassVar[bool] = False

    def measure(self, history: History) -> Floats:
        """Return the delay in hours."""
        delay = delays_of(history)
        hours = delay.astype(np.float64) / HOUR
        return np.where(np.isnat(delay), np.nan, np.maximum(hours, LEAST_DELAY))

    def score(self, history: History, start: int = 0, known: Scores | None = None) -> Scores:  # noqa: ARG002
        """Score the delays."""
        delays = self.measure(history)[None, :]
        weights = np.full_like(delays, np.nan)
        muted = None if history.ledger is None else history.ledger.muted
        late = History(
            history.times,
            delays,
            weights,
            [self.scale],
            muted=None if muted is None else muted[None, :],
            grid=history.grid,
        )
        scores = Seasonal().score(late)
        with np.errstate(invalid="ignore"):
            usual = delays <= TWICE * scores.expected
        scores.score[usual] = 0.0
        scores.reason[:] = np.where(scores.score > 1, Reason.LATE, Reason.NONE)
        return scores.since(start)

    def tell(self, history: History, t: int) -> str:
        """Say how late."""
        return f"came {self.measure(history)[t]:.3g} hours after its end"
