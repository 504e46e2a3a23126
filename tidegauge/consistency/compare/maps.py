"""Key overlap of maps in matched rows."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, ClassVar

from tidegauge.analyzers.core.analyzer import analyzer
from tidegauge.analyzers.core.metric import Scale
from tidegauge.analyzers.core.requests import Request
from tidegauge.analyzers.core.schema import Field, Schema
from tidegauge.analyzers.core.state import State
from tidegauge.consistency.compare.collections import different, only_in
from tidegauge.consistency.compare.measures import Tolerant, both, counts
from tidegauge.consistency.compare.states import KeyCounts


@analyzer
class ConsistencyKeys(Tolerant[KeyCounts, float]):
    """Key counts of two maps, summed over rows with both maps; undefined without any.

    Parameters
    ----------
    metric : str
        ``missing_keys`` (only in the backfilled map), ``extra_keys`` (only in the logged one),
        ``mismatched_keys`` (in both, with different values), ``left_keys`` and ``right_keys`` (all
        keys of the logged and of the backfilled map). A key of both with a null value on one side
        is missing or extra.
    group_by : str
    feature : str
    absolute, relative : float
        Tolerance for numbers among the values.

    Examples
    --------
    >>> keys = ConsistencyKeys("missing_keys", "user", "visits")
    >>> keys.compute_metric_from(KeyCounts(1, missing=1, extra=1, mismatched=1, left=3, right=3)).value
    1.0
    """

    scale: ClassVar[Scale] = Scale.COUNT
    state_type: ClassVar[type[State]] = KeyCounts
    metrics: ClassVar[Collection[str]] = (
        "missing_keys",
        "extra_keys",
        "mismatched_keys",
        "left_keys",
        "right_keys",
    )

    def check_side(self, side: Field) -> None:
        """Raise unless the column is a map."""
        self.require(side, frozenset({"map"}), "a map")

    def requests(self, schema: Schema) -> tuple[Request, ...]:
        """Request the sums of keys."""
        a, b = self.sides(schema)
        numbers = (
            only_in(b.sql, a.sql),
            only_in(a.sql, b.sql),
            different(a.sql, b.sql, (a.type, b.type), self.tolerance),
            f"size({a.sql})",
            f"size({b.sql})",
        )
        there = both(a, b)
        sums = (f"sum(CASE WHEN {there} THEN {number} END)" for number in numbers)
        return self.counted(f"count_if({there})", *sums)

    def fold(self, cells: Sequence[Any]) -> KeyCounts:
        """Build the state from the sums."""
        return KeyCounts(*counts(cells))

    def measure(self, state: KeyCounts) -> float:
        """Return the metric's sum."""
        if not state.pairs:
            raise self.no_data()
        return float(getattr(state, self.metric.removesuffix("_keys")))

    def weight(self, state: KeyCounts) -> float:
        """Return the number of rows with both maps."""
        return state.pairs
