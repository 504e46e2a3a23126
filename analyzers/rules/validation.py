"""Validation: tasks that judge one frame, their verdicts put together, and kept.

A `ValidationSet` reads the data at most once more, keeps the verdict beside the data, and raises a kept
failure again without reading anything.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from analyzers.rules.result import CheckResult


class ValidationTask(ABC):
    """Something that judges a frame: a `DQM`, or the parser of a file.

    Attributes
    ----------
    name : str
    needs_action : bool
        Whether the data must have been read for the verdict.
    """

    name: str = "dqm"

    @property
    def needs_action(self) -> bool:
        """Whether the data must have been read for the verdict."""
        return True

    @abstractmethod
    def validate(self, data: DataFrame) -> CheckResult:
        """Judge the data; a failed verdict is returned, not raised."""

    @abstractmethod
    def identity(self) -> Any:
        """Return what the task is, as JSON takes it; a change of it makes old verdicts void."""
