"""Progress bars: rich on a terminal, tqdm in a notebook."""

from __future__ import annotations

import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tidegauge.analyzers.core.formatting import for_terminal, plural
from tidegauge.analyzers.runs.recording import Progress, Silent

LINE_SECONDS = 30.0
"""Minimum time between two lines of progress in a log."""


def progress_bar() -> Progress:
    """Return a progress bar for the notebook or terminal, or a silent one if there is neither."""
    if _in_notebook():
        return TqdmProgress()
    return RichProgress() if sys.stderr.isatty() else Silent()


def _in_notebook() -> bool:
    shell = sys.modules.get("IPython")
    return shell is not None and type(shell.get_ipython()).__name__ == "ZMQInteractiveShell"


class _BarProgress(ABC):
    """Progress over partitions by batch, and over Spark tasks within a batch."""

    poll_seconds = 0.2
    """Time between two queries of Spark's tasks."""

    def start(self, dataset: str, partitions: int) -> None:
        """Show an empty bar."""
        self._dataset, self._total, self._done = dataset, partitions, 0
        if partitions:
            self._open()

    @contextmanager
    def batch(self, session: Any, partitions: int) -> Iterator[None]:
        """Advance the bar with Spark's tasks while the batch runs."""
        stop = threading.Event()
        watcher = threading.Thread(
            target=self._watch, args=(session, partitions, stop), daemon=True
        )
        watcher.start()
        try:
            yield
        finally:
            stop.set()
            watcher.join()
        self._done += partitions
        self._show(self._done)

    def _watch(self, session: Any, partitions: int, stop: threading.Event) -> None:
        best = 0.0
        while not stop.wait(self.poll_seconds):
            done, total = spark_tasks(session)
            if total:
                best = max(best, done / total)
                self._show(self._done + 0.95 * partitions * best)

    @abstractmethod
    def close(self) -> None:
        """Stop drawing."""

    @abstractmethod
    def _open(self) -> None:
        """Start drawing."""

    @abstractmethod
    def _show(self, done: float) -> None:
        """Draw the bar at a number of finished partitions."""


class RichProgress(_BarProgress):
    """Progress bar on a terminal, with rate and remaining time."""

    def _open(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("partitions, {task.fields[rate]}/s"),
            TimeRemainingColumn(),
        )
        self._bar = Bar(*columns, console=Console(stderr=True))
        self._bar.start()
        self._task = self._bar.add_task(self._dataset, total=self._total, rate="-")

    def _show(self, done: float) -> None:
        speed = self._bar.tasks[0].speed
        rate = f"{speed:.1f}" if speed else "-"
        self._bar.update(self._task, completed=int(done), rate=rate)

    def close(self) -> None:
        """Stop drawing."""
        if hasattr(self, "_bar"):
            self._bar.stop()


class TqdmProgress(_BarProgress):
    """Progress bar in a notebook, with rate and remaining time."""

    def _open(self) -> None:
        from tqdm.auto import tqdm

        self._bar = tqdm(total=self._total, desc=self._dataset, unit="partition")

    def _show(self, done: float) -> None:
        self._bar.update(int(done) - self._bar.n)

    def close(self) -> None:
        """Stop drawing."""
        if hasattr(self, "_bar"):
            self._bar.close()


class LineProgress(_BarProgress):
    """Progress as lines on standard error, for logs: one at the start, then at most one every 30 seconds."""

    poll_seconds = LINE_SECONDS

    def _open(self) -> None:
        self._print(f"{self._dataset}: measuring {_partitions(self._total)}")

    def _show(self, done: float) -> None:
        if int(done) < self._total and time.monotonic() - self._printed_at >= LINE_SECONDS:
            self._print(f"{self._dataset}: {int(done):,} of {_partitions(self._total)} measured")

    def _print(self, line: str) -> None:
        sys.stderr.write(f"{for_terminal(line)}\n")
        sys.stderr.flush()
        self._printed_at = time.monotonic()

    def close(self) -> None:
        """Do nothing: the caller prints the result."""


def _partitions(count: int) -> str:
    return plural(count, "partition")


def spark_tasks(session: Any) -> tuple[int, int]:
    """Return the numbers of completed and of all tasks of Spark's active stages.

    Both are 0 on Spark Connect, whose client does not expose them.
    """
    context = getattr(session, "sparkContext", None)
    if context is None:
        return 0, 0
    tracker = context.statusTracker()
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    active_stages = [stage for stage in stages if stage is not None]
    return sum(s.numCompletedTasks for s in active_stages), sum(s.numTasks for s in active_stages)
