"""Time limit of a command: nothing that hangs, such as a regular expression, holds it for ever."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer

from tidegauge.analyzers.core.errors import SetupError
from tidegauge.cli.options import TOOL_FAILED, say

LONGEST_MINUTES = 1_000_000
GRACE_SECONDS = 30.0
"""Time in which a command whose limit is over may close its runs; then its process ends as it is."""


class TimeLimitReached(SystemExit):
    """The command's time is over; what it was doing is interrupted, as by Ctrl-C."""


@contextmanager
def time_limit(minutes: float | None, *, ends_process: bool = False) -> Iterator[None]:
    """Interrupt the block after some minutes; None sets no limit.

    Parameters
    ----------
    minutes : float, optional
    ends_process : bool
        Whether the process has nothing to do but the block, so that it must end soon after, too.

    Spark cannot stop a task within a regular expression, and threads may wait for such a task. So if
    the process is still there after another half minute, it ends at once, and Spark's Java with it,
    which watches for that. A repository stands that: what was committed stays, whole batches of it.

    Raises
    ------
    TimeLimitReached
        In the block.
    SetupError
        If the limit is no time, or the system has no timers for processes, as Windows.
    """
    if minutes is None:
        yield
        return
    if not hasattr(signal, "setitimer"):
        msg = "--time-limit needs timers of POSIX, which this system has not"
        raise SetupError(msg)
    if not 0 < minutes <= LONGEST_MINUTES:
        msg = f"--time-limit is a number of minutes, more than 0 and up to {LONGEST_MINUTES:,}, not {minutes:g}"
        raise SetupError(msg)
    told = f"the time limit of {minutes:g} minutes is over"

    def end() -> None:
        say(f"{told}, and something still hangs: the process is ended")
        os._exit(TOOL_FAILED)

    last = Timer(GRACE_SECONDS, end)
    last.daemon = True

    def interrupt(*_: object) -> None:
        last.start()
        raise TimeLimitReached(told)

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, minutes * 60)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if not ends_process:
            last.cancel()
