"""How a run tells how far it is. Bars for terminals and notebooks are in `tidegauge.progress`."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol


class Progress(Protocol):
    """Follows one run."""

    def start(self, dataset: str, partitions: int) -> None:
        """A run begins that will measure so many partitions."""

    def batch(self, session: Any, partitions: int) -> AbstractContextManager[None]:
        """Return a context in which one batch is measured and committed in this Spark session."""

    def close(self) -> None:
        """The run has ended."""


class Silent:
    """Says nothing."""

    def start(self, dataset: str, partitions: int) -> None:
        """Ignore it."""

    def batch(self, session: Any, partitions: int) -> AbstractContextManager[None]:  # noqa: ARG002
        """Return a context that does nothing."""
        return nullcontext()

    def close(self) -> None:
        """Ignore it."""
