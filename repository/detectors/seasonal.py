"""The default detector: a robust seasonal forecast on the metric's variance-stabilized scale.

Each point is scored from earlier points only, without those that alarmed themselves: the metric is
transformed by its scale (`scales`); the effect of the weekday (or hour) is the median of that
weekday's deviations from a running median, used as far as it explains anything; the level is the
median of the last few points, with the window that would have predicted best; the spread is that of
such predictions' errors, and never below what the number of rows behind the value implies; and the
tail is Student's t, heavier where little is known. Nearly constant series are scored by how rarely
they leave their value, among the points that the season makes alike: nights say nothing of office hours.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from tidegauge.analyzers.core.errors import IllegalAnalyzerParameterError, UnknownNameError
from tidegauge.repository.detectors.base import Detector, History, Scores, detector
from tidegauge.repository.detectors.lookback import reach_of, unsettled
from tidegauge.repository.detectors.walk import AUTO, LEARNING, SEASONS, Walk
from tidegauge.repository.numerics.grid import Grid
from tidegauge.repository.numerics.seasons import OCCURRENCES

if TYPE_CHECKING:
    from numpy.typing import NDArray

ROWS = 512
"""Series scored per block, so that their working set fits the processor cache."""


@detector
class Seasonal(Detector):
    """Seasonal detector: robust level, weekday effect and Student's t tail; see the module.

    Scores need 7 earlier points, weekday effects 14. A level shift is accepted after four alarms to
    one side within six points.

    Parameters
    ----------
    cycles : int
        Number of seasons of history used: weeks of daily partitions, days of hourly ones.
    seasons : sequence of str
        Seasons to look for: ``day``, ``week``, ``month`` (days of the month) and ``year``, or
        ``auto`` for all of them. An empty list is none. Those that the partitions cannot have are
        ignored, such as the day of daily ones. A ``month`` that is named, alone or beside ``auto``,
        is believed from the first repetition; else days of the month must have stood out twice.

    Examples
    --------
    >>> from tidegauge.analyzers.core.metric import Scale
    >>> values = np.array([[100.0] * 3 + [102, 98, 101, 99, 100, 103, 97] * 4 + [20]])
    >>> days = np.arange(values.size).astype("M8[D]").astype("M8[s]")
    >>> history = History(days, values, values, [Scale.COUNT])
    >>> bool(Seasonal().score(history).p_value[0, -1] < 1e-6)
    True
    """

    least: ClassVar[int] = LEARNING + 1
    rule: ClassVar[str] = "FalseDiscoveryRate()"

    cycles: int = 14
    seasons: tuple[str, ...] = (AUTO,)

    def check_parameters(self) -> None:
        """Validate that `cycles` exceeds those from which effects are estimated, and the seasons' names."""
        if self.cycles <= OCCURRENCES:
            msg = f"{self!r}: cycles must be at least {OCCURRENCES + 1}"
            raise IllegalAnalyzerParameterError(msg)
        for season in self.seasons:
            if season not in SEASONS:
                raise UnknownNameError("season", season, SEASONS)

    def reach(self, grid: Grid) -> int:
        """Return the number of earlier partitions that a score may depend on."""
        return reach_of(grid, self.cycles)

    def score(self, history: History, start: int = 0, known: Scores | None = None) -> Scores:
        """Score points one partition after the other, in blocks of `ROWS` series."""
        return self.score_rises(history, start, known, -np.inf)

    def score_rises(
        self, history: History, start: int, known: Scores | None, least: float
    ) -> Scores:
        """Score points as `score` does, but 0 where they exceed the expected value by no more than ``least``.

        Such points are no alarms to learn from either, so that ``known`` suffices to go on. ``least``
        is on the transformed scale: of positive numbers the logarithm of a factor.
        """
        begin = start if known is not None else 0
        first = begin - self.reach(history.grid or Grid.from_times(history.times))
        if known is not None and first > 0 and history.restarts is None:
            newest = history.part(slice(first, None))
            return self.score_rises(newest, start - first, known.since(first), least)
        blocks, series = [], np.arange(len(history.values))
        with np.errstate(all="ignore"):
            settled = np.zeros(len(series), dtype=bool)
            if known is not None and history.restarts is None:
                settled = ~unsettled(history, self.cycles, begin, known)
            order = np.argsort(settled, kind="stable")
            for some in _blocks(series[~settled], series[settled]):
                walk = Walk(history.rows(some), self.cycles, self.seasons, least, begin)
                taken = known and known.taken(some)
                blocks.append(walk.run(taken, settled=bool(settled[some][0])))
        whole = Scores.concatenate(blocks, (0, len(history.times) - begin))
        return whole.taken(np.argsort(order)).since(start - begin)


def _blocks(*groups: NDArray[np.intp]) -> Iterator[NDArray[np.intp] | slice]:
    """Yield the series of each group, `ROWS` at a time; as a slice, which copies nothing, if it is one."""
    for group in groups:
        for first in range(0, len(group), ROWS):
            some = group[first : first + ROWS]
            whole = some[-1] - some[0] == len(some) - 1
            yield slice(int(some[0]), int(some[-1]) + 1) if whole else some


def shifts(history: History) -> list[tuple[int, int, int]]:
    """Return accepted level shifts: series, partition, and the first partition of the new level."""
    found = []
    with np.errstate(all="ignore"):
        for first in range(0, len(history.values), ROWS):
            walk = Walk(history.rows(slice(first, first + ROWS)), Seasonal().cycles)
            walk.run()
            found += [(first + i, t, begun) for i, t, begun in walk.shifts]
    return sorted(found)
