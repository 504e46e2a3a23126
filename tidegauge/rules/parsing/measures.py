"""Analyzers for parser rejects: counts and shares of the records of a file that could not be read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from tidegauge.analyzers.core.analyzer import Analyzer, analyzer
from tidegauge.analyzers.core.description import canonical_json
from tidegauge.analyzers.core.errors import IllegalAnalyzerParameterError
from tidegauge.analyzers.core.metric import Entity, Scale
from tidegauge.analyzers.core.requests import Request
from tidegauge.analyzers.core.schema import Schema
from tidegauge.analyzers.core.state import State
from tidegauge.analyzers.measures.counts import NumMatchesAndCount
from tidegauge.rules.measures import count_or_share

if TYPE_CHECKING:
    from tidegauge.rules.parsing.parser import ParserCounts


@dataclass(frozen=True, repr=False)
class _ParserAnalyzer(Analyzer[NumMatchesAndCount, float]):
    """Count of the records of a file that could not be read, or their share."""

    state_type: ClassVar[type[State]] = NumMatchesAndCount
    scale: ClassVar[Scale] = Scale.COUNT

    kind: str = "*"

    @property
    def entity(self) -> Entity:
        """Dataset."""
        return Entity.DATASET

    @property
    def instance(self) -> str:
        """The kind of error."""
        return self.kind

    def statistic(self) -> str:
        """Return the state's key; the count and its share have the same state."""
        return canonical_json({"state": "parser", "kind": self.kind})

    def check_schema(self, schema: Schema) -> None:
        """Raise an error: a table does not hold the records that could not be read."""
        msg = f"{self!r} is counted while a file is read: ParserValidation, not a table"
        raise IllegalAnalyzerParameterError(msg)

    def requests(self, schema: Schema) -> tuple[Request, ...]:
        """Return no requests."""
        return ()

    def fold(self, cells: Sequence[Any]) -> NumMatchesAndCount:
        """Extract this analyzer's counter from the parser's counts."""
        counts: ParserCounts = cells[0]
        rejects = counts.rejects
        found = sum(rejects.values()) if self.kind == "*" else rejects.get(self.kind, 0)
        return NumMatchesAndCount(found, counts.lines)

    def measure(self, state: NumMatchesAndCount) -> float:
        """Return the count or share; a share is empty at zero records."""
        return count_or_share(self, state)


@analyzer
class ParserRejects(_ParserAnalyzer):
    """Number of records of a file that could not be read, in total or of one kind.

    Parameters
    ----------
    kind : str
        Kind of error as in `ParserValidation`; ``*`` for all.

    Examples
    --------
    >>> ParserRejects().compute_metric_from(NumMatchesAndCount(5, 11)).value
    5.0
    """


@analyzer
class ParserRejectsRatio(_ParserAnalyzer):
    """Share of the records of a file that could not be read; empty at zero records.

    Examples
    --------
    >>> ParserRejectsRatio().compute_metric_from(NumMatchesAndCount(5, 10)).value
    0.5
    """

    scale: ClassVar[Scale] = Scale.RATIO


def parser_analyzers(counts: ParserCounts) -> list[Analyzer[Any, Any]]:
    """Return the analyzers for a file: of all rejects, and of each kind that occurs."""
    kinds = ["*", *counts.rejects]
    return [kind(of) for of in kinds for kind in (ParserRejects, ParserRejectsRatio)]
