"""What the vocabulary of checks is built on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Self

from analyzers.checks.assertions import Between, Wanted
from analyzers.checks.evidence import AnyAnalyzer
from analyzers.errors import SuiteError

Columns = str | Sequence[str]


class Builder(ABC):
    """Something that constraints can be added to."""

    @abstractmethod
    def has(
        self, analyzer: AnyAnalyzer | str, assertion: Wanted, *, hint: str = "", part: Any = None
    ) -> Self:
        """Want a metric to be something."""

    @abstractmethod
    def read(self, analyzer: AnyAnalyzer | str) -> AnyAnalyzer:
        """Return an analyzer, read from its text if need be."""

    @abstractmethod
    def with_constraint(self, constraint: Any) -> Self:
        """Return it with one constraint more."""


def share(at_least: float) -> Between:
    """Return the assertion that a share is not below a number."""
    wanted = Between(at_least)
    if wanted.lower is None or not 0 <= wanted.lower <= 1:
        msg = f"at_least is a share between 0 and 1, not {at_least!r}"
        raise SuiteError(msg)
    return wanted


def listed(columns: Columns) -> tuple[str, ...]:
    """Return columns, of which there must be one."""
    found = (columns,) if isinstance(columns, str) else tuple(columns)
    if not found:
        msg = "at least one column must be named"
        raise SuiteError(msg)
    return found
