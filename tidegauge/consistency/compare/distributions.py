"""Distributions of numbers, lengths and edit distances over matched rows, as REQ sketches."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from tidegauge.analyzers.core.analyzer import analyzer
from tidegauge.analyzers.core.errors import IllegalAnalyzerParameterError
from tidegauge.analyzers.core.metric import Interval, Scale
from tidegauge.analyzers.core.requests import Request, Sketch
from tidegauge.analyzers.core.schema import Field, Schema
from tidegauge.analyzers.core.state import State
from tidegauge.analyzers.measures.counts import NumMatchesAndCount
from tidegauge.analyzers.measures.req import LARGEST_K, SMALLEST_K, ReqState
from tidegauge.consistency.compare.collections import common, shared_values_sql, values
from tidegauge.consistency.compare.equality import minus, same
from tidegauge.consistency.compare.measures import MATCHED, OfFeature, Tolerant, both, counts

QUANTILES = {"min": 0.0, "p5": 0.05, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p95": 0.95, "max": 1.0}
"""Measured quantiles by name, in the order of a histogram."""
K = 12
LONGEST = 256
"""Arrays whose lengths multiply to more than its square are not compared element by element."""
ARRAY = frozenset({"array"})


class _Sketched(OfFeature[ReqState, Mapping[str, float]]):
    """A distribution kept as a sketch; its value is min, p5, p25, p50, p75, p95 and max by name."""

    state_type: ClassVar[type[State]] = ReqState
    state_bytes: ClassVar[int] = 1 << 13
    k: int

    def check_parameters(self) -> None:
        """Raise for an invalid sketch size, too."""
        super().check_parameters()
        if not SMALLEST_K <= self.k <= LARGEST_K or self.k % 2:
            msg = f"{self!r}: k is an even number between {SMALLEST_K} and {LARGEST_K}"
            raise IllegalAnalyzerParameterError(msg)

    def determined_by(self) -> dict[str, Any]:
        """Return the options of the state, with the metric and the sketch size."""
        return {**super().determined_by(), "of": self.metric, "k": self.k}

    def sketched(
        self, value: str, condition: str = "true", kind: str = "DOUBLE"
    ) -> tuple[Request, ...]:
        """Request a sketch of a value, or of an array's elements, over matched rows.

        Rows for which ``condition`` is not true are left out.
        """
        wanted = f"CASE WHEN {MATCHED} AND {condition} THEN CAST({value} AS {kind}) END"
        return (Sketch("req-high", wanted, self.k),)

    def fold(self, cells: Sequence[Any]) -> ReqState:
        """Merge the sketches of all tasks."""
        return ReqState.merge(map(ReqState, cells[0] or ()))

    def measure(self, state: ReqState) -> Mapping[str, float]:
        """Return the quantiles."""
        if not state.sketch:
            raise self.no_data()
        return dict(zip(QUANTILES, state.quantiles(tuple(QUANTILES.values())), strict=True))

    def interval(self, state: ReqState) -> Mapping[str, Interval]:
        """Return the values at the ranks two standard errors below and above each quantile."""
        return dict(zip(QUANTILES, state.intervals(tuple(QUANTILES.values())), strict=True))


@analyzer
class ConsistencyDistribution(_Sketched):
    """Quantiles of a feature's values, differences or lengths in matched rows; undefined if none.

    Nulls and NaN are left out, infinities are kept. For maps with numeric values, the values are
    those of the shared keys.

    Parameters
    ----------
    metric : str
        For numbers and maps of numbers, ``delta`` (b - a), ``logged`` or ``backfilled``; for
        arrays, ``logged_length`` or ``backfilled_length``.
    group_by : str
    feature : str
    k : int
        Accuracy of the sketch, even, 4 to 1024; see `ReqQuantile`.

    Examples
    --------
    >>> ConsistencyDistribution("delta", "user", "age").name
    'Consistency.delta'
    """

    scale: ClassVar[Scale] = Scale.SIGNED
    metrics: ClassVar[Collection[str]] = (
        "delta",
        "logged",
        "backfilled",
        "logged_length",
        "backfilled_length",
    )

    k: int = K

    def check_side(self, side: Field) -> None:
        """Raise unless the column holds numbers, maps of numbers, or arrays, as needed."""
        if self.metric.endswith("_length"):
            self.require(side, ARRAY, "an array")
        else:
            self.require_numbers(side)

    def requests(self, schema: Schema) -> tuple[Request, ...]:
        """Request the sketch."""
        a, b = self.sides(schema)
        if self.metric.endswith("_length"):
            side = a if self.metric == "logged_length" else b
            return self.sketched(f"size({side.sql})", f"{side.sql} IS NOT NULL")
        if a.kind == "map":
            return self.sketched(
                shared_values_sql(a, b, self._of_pair(*values(a, b))), kind="ARRAY<DOUBLE>"
            )
        return self.sketched(self._of_pair(a, b))

    def _of_pair(self, a: Field, b: Field) -> str:
        """Return SQL for the metric's number from a pair of numbers."""
        if self.metric == "delta":
            return minus(b.sql, a.sql, (b.kind, a.kind))
        return a.sql if self.metric == "logged" else b.sql


@dataclass(frozen=True, repr=False)
class _OfArrays(Tolerant[Any, Any]):
    longest: int = LONGEST

    def check_parameters(self) -> None:
        """Raise for an invalid length limit, too."""
        super().check_parameters()
        if self.longest < 1:
            raise IllegalAnalyzerParameterError(f"{self!r}: longest is a number of elements")

    def determined_by(self) -> dict[str, Any]:
        """Return the options of the state, with the length limit, which excludes arrays."""
        return {**super().determined_by(), "longest": self.longest}

    def check_side(self, side: Field) -> None:
        """Raise unless the column is an array."""
        self.require(side, ARRAY, "an array")

    def comparable(self, schema: Schema) -> str:
        """Return SQL that is true if both arrays are non-null, and equal or short enough."""
        a, b = self.sides(schema)
        product = f"CAST(size({a.sql}) AS BIGINT) * size({b.sql})"
        equal = same(a.sql, b.sql, b.type, self.tolerance)
        return f"{both(a, b)} AND ({product} <= {self.longest**2}L OR {equal})"


@analyzer
class ConsistencyEdits(_Sketched, _OfArrays):
    """Quantiles of the edits from the logged array to the backfilled one; undefined without any.

    Elements are inserted and deleted, never replaced. Rows with a null array are left out, and so
    are those counted by `ConsistencyEditsSkipped`. Null elements equal each other.

    Parameters
    ----------
    metric : str
        ``edit_insert``: elements missing from the logged array; ``edit_delete``: its surplus
        elements.
    group_by : str
    feature : str
    absolute, relative : float
        Tolerance for numbers among the elements.
    longest : int
        Different arrays whose lengths multiply to more than its square are left out.
    k : int
        Accuracy of the sketch, even, 4 to 1024; see `ReqQuantile`.

    Examples
    --------
    >>> ConsistencyEdits("edit_insert", "user", "clicks").name
    'Consistency.edit_insert'
    """

    scale: ClassVar[Scale] = Scale.COUNT  # edits are counts, and 0 at best
    metrics: ClassVar[Collection[str]] = ("edit_insert", "edit_delete")

    k: int = K

    def requests(self, schema: Schema) -> tuple[Request, ...]:
        """Request the sketch."""
        a, b = self.sides(schema)
        of = b if self.metric == "edit_insert" else a
        shared = common(a.sql, b.sql, b.type["elementType"], self.tolerance)
        return self.sketched(f"size({of.sql}) - {shared}", self.comparable(schema))


@analyzer
class ConsistencyEditsSkipped(_OfArrays):
    """Share of row pairs with arrays too long for element-wise comparison; undefined without any.

    Parameters
    ----------
    metric : str
        ``edit_skipped``.
    group_by : str
    feature : str
    absolute, relative : float
        Tolerance for numbers among the elements.
    longest : int
        Different arrays whose lengths multiply to more than its square are too long.

    Examples
    --------
    >>> skipped = ConsistencyEditsSkipped("edit_skipped", "user", "clicks")
    >>> skipped.compute_metric_from(NumMatchesAndCount(1, 4)).value
    0.25
    """

    scale: ClassVar[Scale] = Scale.RATIO
    state_type: ClassVar[type[State]] = NumMatchesAndCount
    metrics: ClassVar[Collection[str]] = ("edit_skipped",)

    def determined_by(self) -> dict[str, Any]:
        """Return the options of the state, with the metric, to tell its counts from others."""
        return {**super().determined_by(), "of": self.metric}

    def requests(self, schema: Schema) -> tuple[Request, ...]:
        """Request the number of rows with both arrays, and of comparable ones."""
        there = both(*self.sides(schema))
        return self.counted(f"count_if({self.comparable(schema)})", f"count_if({there})")

    def fold(self, cells: Sequence[Any]) -> NumMatchesAndCount:
        """Build the state from the counts."""
        comparable, pairs = counts(cells)
        return NumMatchesAndCount(pairs - comparable, pairs)

    def measure(self, state: NumMatchesAndCount) -> float:
        """Return the share of skipped rows."""
        if not state.count:
            raise self.no_data()
        return state.metric_value()
