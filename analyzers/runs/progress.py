"""Progress reporting protocol of runs; progress bars are in `tidegauge.display.progress`."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol


class Progress(Protocol):
    """Protocol for observing the progress of one run."""

    def start(self, dataset: str, partitions: int) -> None:
        """Start a run that will measure this number of partitions."""

    def batch(self, session: Any, partitions: int) -> AbstractContextManager[None]:
        """Return a context in which one batch is measured and committed in this Spark session."""

    def close(self) -> None:
        """End the run."""


class Silent:
    """Progress that reports nothing."""

    def start(self, dataset: str, partitions: int) -> None:
        """Do nothing."""

    def batch(self, session: Any, partitions: int) -> AbstractContextManager[None]:
        """Return a context that does nothing."""
        return nullcontext()

    def close(self) -> None:
        """Do nothing."""
