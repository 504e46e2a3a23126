"""What a parser counts, as analyzers: the records of a file that could not be read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from analyzers.analyzer import Analyzer, analyzer
from analyzers.counts import NumMatchesAndCount
from analyzers.description import canonical_json
from analyzers.errors import IllegalAnalyzerParameterError
from analyzers.metric import Entity, Scale
from analyzers.requests import Request
from analyzers.rules.measures import count_or_share
from analyzers.schema import Schema
from analyzers.state import State

if TYPE_CHECKING:
    from analyzers.rules.parsing import ParserCounts


@dataclass(frozen=True, repr=False)
class _OfParser(Analyzer[NumMatchesAndCount, float]):
    """A count of the records of a file that could not be read, or their share."""

    state_type: ClassVar[type[State]] = NumMatchesAndCount
    scale: ClassVar[Scale] = Scale.COUNT

    kind: str = "*"

    @property
    def entity(self) -> Entity:
        """The data set."""
        return Entity.DATASET

    @property
    def instance(self) -> str:
        """The kind of error."""
        return self.kind

    def statistic(self) -> str:
        """The count and its share are of one state."""
        return canonical_json({"state": "parser", "kind": self.kind})

    def check_schema(self, schema: Schema) -> None:  # noqa: ARG002
        """Refuse a table: what could not be read is not in it."""
        msg = f"{self!r} is counted while a file is read: ParserValidation, not a table"
        raise IllegalAnalyzerParameterError(msg)

    def requests(self, schema: Schema) -> tuple[Request, ...]:  # noqa: ARG002
        """Ask for nothing."""
        return ()

    def fold(self, cells: Sequence[Any]) -> NumMatchesAndCount:
        """Take the counts of a parser."""
        counts: ParserCounts = cells[0]
        rejects = counts.rejects
        found = sum(rejects.values()) if self.kind == "*" else rejects.get(self.kind, 0)
        return NumMatchesAndCount(found, counts.lines)

    def measure(self, state: NumMatchesAndCount) -> float:
        """Return the count; empty at zero records where it is a share."""
        return count_or_share(self, state)

    def weight(self, state: NumMatchesAndCount) -> float:
        """Return the records of the file."""
        return state.count


@analyzer
class ParserRejects(_OfParser):
    """Records of a file that could not be read, of one kind or all, as `ParserValidation` counts them.

    Parameters
    ----------
    kind : str
        As `ParserValidation` names it; ``*`` for all.

    Examples
    --------
    >>> ParserRejects().compute_metric_from(NumMatchesAndCount(5, 11)).value
    5.0
    """


@analyzer
class ParserRejectsRatio(_OfParser):
    """Share of the records of a file that could not be read; empty at zero records.

    Examples
    --------
    >>> ParserRejectsRatio().compute_metric_from(NumMatchesAndCount(5, 10)).value
    0.5
    """

    scale: ClassVar[Scale] = Scale.RATIO


def parser_analyzers(counts: ParserCounts) -> list[Analyzer[Any, Any]]:
    """Return what is measured of a file: all rejects, and those of each kind that there are."""
    kinds = ["*", *counts.rejects]
    return [kind(of) for of in kinds for kind in (ParserRejects, ParserRejectsRatio)]
