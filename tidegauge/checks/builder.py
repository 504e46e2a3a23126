"""Base class and helpers of the check methods."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Self

from tidegauge.analyzers.core.analyzer import AnyAnalyzer
from tidegauge.analyzers.core.errors import SuiteError
from tidegauge.checks.assertions import AssertionLike, Between

Columns = str | Sequence[str]


class ConstraintBuilder(ABC):
    """Base of classes to which constraints are added."""

    @abstractmethod
    def has(
        self,
        analyzer: AnyAnalyzer | str,
        assertion: AssertionLike,
        *,
        hint: str = "",
        part: Any = None,
    ) -> Self:
        """Assert on any metric."""

    @abstractmethod
    def read(self, analyzer: AnyAnalyzer | str) -> AnyAnalyzer:
        """Return an analyzer, parsed if it is given as text."""

    @abstractmethod
    def with_constraint(self, constraint: Any) -> Self:
        """Return a copy with one more constraint."""


def share(at_least: float) -> Between:
    """Return the assertion that a share is at least ``at_least``, between 0 and 1."""
    wanted = Between(at_least)
    if wanted.lower is None or not 0 <= wanted.lower <= 1:
        msg = f"at_least is a share between 0 and 1, not {at_least!r}"
        raise SuiteError(msg)
    return wanted


def listed(columns: Columns) -> tuple[str, ...]:
    """Return columns as a tuple; raise SuiteError if there are none."""
    found = (columns,) if isinstance(columns, str) else tuple(columns)
    if not found:
        msg = "at least one column must be named"
        raise SuiteError(msg)
    return found
