"""Distributions of text in matched rows, as sketches of the most frequent values."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import ceil, log2
from typing import Any, ClassVar

from tidegauge.analyzers.core.analyzer import analyzer
from tidegauge.analyzers.core.errors import IllegalAnalyzerParameterError
from tidegauge.analyzers.core.metric import Interval, Scale
from tidegauge.analyzers.core.requests import Request, Sketch
from tidegauge.analyzers.core.schema import TEXT, Field, Schema
from tidegauge.analyzers.core.state import State
from tidegauge.analyzers.measures.top_values import (
    FULL,
    MOST_TRACKED,
    FrequentItemsState,
    bounded_text,
)
from tidegauge.consistency.compare.measures import MATCHED, OfFeature

TRACKED = 192
"""Number of different texts that are counted exactly, as many as a sketch of 256 slots holds."""


@analyzer
class ConsistencyTexts(OfFeature[FrequentItemsState, float]):
    """Share of the most frequent text of a feature in matched rows; undefined if there is none.

    Its state is the distribution: how often each text occurs, exactly while there are no more than
    those tracked. `tidegauge.consistency.drift` compares it. Nulls are left out; of a long text, the first
    200 characters and a digest are kept.

    Parameters
    ----------
    metric : str
        ``logged_top`` or ``backfilled_top``.
    group_by : str
    feature : str
    tracked : int
        Number of texts to track, at most 10 000.

    Examples
    --------
    >>> ConsistencyTexts("logged_top", "user", "city").name
    'Consistency.logged_top'
    """

    scale: ClassVar[Scale] = Scale.RATIO
    state_type: ClassVar[type[State]] = FrequentItemsState
    state_bytes: ClassVar[int] = 1 << 13
    metrics: ClassVar[Collection[str]] = ("logged_top", "backfilled_top")

    tracked: int = TRACKED

    def check_parameters(self) -> None:
        """Raise for an invalid number of texts, too."""
        super().check_parameters()
        if not 1 <= self.tracked <= MOST_TRACKED:
            msg = f"{self!r}: 1 <= tracked <= {MOST_TRACKED} must hold"
            raise IllegalAnalyzerParameterError(msg)

    def determined_by(self) -> dict[str, Any]:
        """Return the side and the number of the sketch's slots, a power of two."""
        return {"of": self.metric, "lg_slots": ceil(log2(self.tracked / FULL))}

    def check_side(self, side: Field) -> None:
        """Raise `WrongColumnTypeError` unless the column is text."""
        self.require(side, TEXT, "text")

    def requests(self, schema: Schema) -> tuple[Request, ...]:
        """Request the sketch."""
        a, b = self.sides(schema)
        text = bounded_text(a if self.metric.startswith("logged") else b)
        wanted = f"CASE WHEN {MATCHED} THEN {text} END"
        return (Sketch("frequent", wanted, self.tracked),)

    def fold(self, cells: Sequence[Any]) -> FrequentItemsState:
        """Return the state of the sketch."""
        return FrequentItemsState.from_sketches(cells[0])

    def measure(self, state: FrequentItemsState) -> float:
        """Return the share."""
        if not state.sketch:
            raise self.no_data()
        return state.greatest().estimate / state.count

    def interval(self, state: FrequentItemsState) -> Interval:
        """Return the sketch's own bounds of the count, as shares."""
        top = state.greatest()
        return Interval(top.lower / state.count, top.upper / state.count, 1.0)
