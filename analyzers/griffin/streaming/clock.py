"""When a window of a stream is measured, with which others, and until when: arithmetic, nothing else.

All times are milliseconds since 1970 in UTC. A window is named by its begin.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from analyzers.griffin.config import StreamStore


@dataclass(frozen=True, slots=True)
class Clock:
    """How a stream's time is cut, and how long what it brings is looked at again.

    Attributes
    ----------
    size : int
        Of a window.
    delay : int
        How long after its end a window is measured.
    back : int
        For how long rows wait for rows of other streams that belong to them.
    """

    size: int
    delay: int = 0
    back: int = 0

    @classmethod
    def of(cls, store: StreamStore) -> Clock:
        """Return the clock of a configuration; what a range ends before now is one more delay."""
        begin, end = store.time_range
        return cls(store.ready_interval, store.ready_delay - end, -begin)

    def window(self, time: int) -> int:
        """Return the window that a time lies in.

        Examples
        --------
        >>> clock = Clock(size=60_000)
        >>> clock.window(119_999), clock.window(120_000), clock.window(-1)
        (60000, 120000, -60000)
        """
        return time - time % self.size

    def ready(self, window: int, now: int) -> bool:
        """Whether a window is measured.

        Examples
        --------
        >>> clock = Clock(size=60_000, delay=5_000)
        >>> clock.ready(60_000, now=124_999), clock.ready(60_000, now=125_000)
        (False, True)
        """
        return window + self.size + self.delay <= now

    def meets(self, window: int, other: Clock, others: int) -> bool:
        """Whether rows of a window may belong to rows of another stream's window.

        Those of the other stream may have come earlier by as long as it keeps them, and later by as long as
        ours wait.

        Examples
        --------
        >>> source, target = Clock(size=10, back=20), Clock(size=10, back=10)
        >>> [w for w in range(0, 200, 10) if source.meets(100, target, w)]
        [90, 100, 110, 120]
        """
        begin, end = window - other.back, window + self.size + self.back
        return others + other.size > begin and others < end

    def limit(self, horizon: int, *, met: bool) -> int:
        """Return what lies before all windows that are still needed; those that begin before it are not.

        Parameters
        ----------
        horizon : int
            The first window that is measured again.
        met : bool
            Whether rows of other streams look for theirs in this one.

        Examples
        --------
        >>> clock = Clock(size=10, back=20)
        >>> clock.limit(100, met=False), clock.limit(100, met=True)
        (100, 71)
        """
        return horizon - self.back - self.size + 1 if met else horizon


def horizon(
    newest: Sequence[int | None], measured: Collection[Clock], before: int | None
) -> int | None:
    """Return the begin of the first window that is measured again; it never goes back.

    Parameters
    ----------
    newest : sequence of int or None
        The newest ready window of each stream; the slowest counts. None where nothing came.
    measured : collection of Clock
        Of the streams that are measured; the one that waits longest counts.
    before : int or None
        The horizon of the round before.

    Examples
    --------
    >>> clocks = [Clock(size=10, back=20)]
    >>> horizon([100, 70], clocks, None), horizon([100, None], clocks, 30), horizon([100, 30], clocks, 30)
    (50, 30, 30)
    """
    if None in newest or not newest:
        return before
    slowest = min(window for window in newest if window is not None)
    size = max(clock.size for clock in measured)
    found = slowest - max(clock.back for clock in measured)
    found -= found % size
    return found if before is None else max(found, before)
