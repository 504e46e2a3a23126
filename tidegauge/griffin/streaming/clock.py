"""Window arithmetic of streams: readiness, overlap, and retention of windows.

All times are milliseconds since 1970 in UTC. A window is identified by its begin.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from tidegauge.griffin.config import StreamStore


@dataclass(frozen=True, slots=True)
class Clock:
    """Window size, delay and look-back of a stream.

    Attributes
    ----------
    size : int
        Size of a window.
    delay : int
        Delay between the end of a window and its measuring.
    back : int
        Time that rows wait for matching rows of other streams.
    """

    size: int
    delay: int = 0
    back: int = 0

    @classmethod
    def from_store(cls, store: StreamStore) -> Clock:
        """Return the clock of a configuration; a range that ends before now adds to the delay."""
        begin, end = store.time_range
        return cls(store.ready_interval, store.ready_delay - end, -begin)

    def window(self, time: int) -> int:
        """Return the window that contains a time.

        Examples
        --------
        >>> clock = Clock(size=60_000)
        >>> clock.window(119_999), clock.window(120_000), clock.window(-1)
        (60000, 120000, -60000)
        """
        return time - time % self.size

    def ready(self, window: int, now: int) -> bool:
        """Return whether a window is ready to be measured.

        Examples
        --------
        >>> clock = Clock(size=60_000, delay=5_000)
        >>> clock.ready(60_000, now=124_999), clock.ready(60_000, now=125_000)
        (False, True)
        """
        return window + self.size + self.delay <= now

    def meets(self, window: int, other: Clock, others: int) -> bool:
        """Return whether rows of a window may match rows of another stream's window.

        The other stream's rows may be earlier by its own look-back, and later by this stream's.

        Examples
        --------
        >>> source, target = Clock(size=10, back=20), Clock(size=10, back=10)
        >>> [w for w in range(0, 200, 10) if source.meets(100, target, w)]
        [90, 100, 110, 120]
        """
        begin, end = window - other.back, window + self.size + self.back
        return others + other.size > begin and others < end

    def limit(self, horizon: int, *, met: bool) -> int:
        """Return the retention limit: windows that begin before it are no longer needed.

        Parameters
        ----------
        horizon : int
            Begin of the first window that can be measured again.
        met : bool
            Whether rows of other streams look for matches in this one.

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
    """Return the begin of the first window that can be measured again; it never decreases.

    Parameters
    ----------
    newest : sequence of int or None
        The newest ready window of each stream, None if it has no rows yet; the slowest stream
        counts.
    measured : collection of Clock
        Clocks of the measured streams; the longest look-back counts.
    before : int or None
        Horizon of the previous round.

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
