"""Which keys maps have in common in matched rows."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, ClassVar

from analyzers.analyzer import analyzer
from analyzers.consistency.contents import different, only_in
from analyzers.consistency.measures import Tolerant, both, counts
from analyzers.consistency.states import KeyCounts
from analyzers.metric import Scale
from analyzers.requests import Request
from analyzers.schema import Field, Schema
from analyzers.state import State


@analyzer
class ConsistencyKeys(Tolerant[KeyCounts, float]):
    """Keys of two maps, added up over the rows where both are there; empty without any.

    Parameters
    ----------
    metric : str
        ``missing_keys`` (only of the backfilled map), ``extra_keys`` (only of the logged one),
        ``mismatched_keys`` (of both, with values that differ), ``left_keys`` and ``right_keys``, all keys
        of the logged and of the backfilled map.
    group_by : str
    feature : str
    absolute, relative : float
        How far apart equal numbers among the values may lie.

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
        """Both are maps."""
        self.require(side, frozenset({"map"}), "a map")

    def requests(self, schema: Schema) -> tuple[Request, ...]:
        """Add up the keys of each kind."""
        a, b = self.sides(schema)
        numbers = (
            only_in(b.sql, a.sql),
            only_in(a.sql, b.sql),
            different(a.sql, b.sql, b.type, self.tolerance),
            f"size({a.sql})",
            f"size({b.sql})",
        )
        there = both(a, b)
        sums = (f"sum(CASE WHEN {there} THEN {number} END)" for number in numbers)
        return self.counted(f"count_if({there})", *sums)

    def fold(self, cells: Sequence[Any]) -> KeyCounts:
        """Take the sums."""
        return KeyCounts(*counts(cells))

    def measure(self, state: KeyCounts) -> float:
        """Return one of the sums."""
        if not state.pairs:
            raise self.no_data()
        return float(getattr(state, self.metric.removesuffix("_keys")))

    def weight(self, state: KeyCounts) -> float:
        """Return the rows where both maps are there."""
        return state.pairs
