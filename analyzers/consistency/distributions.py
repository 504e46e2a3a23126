"""Distributions of numbers, lengths and edit distances over matched rows, as REQ sketches."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from analyzers.analyzer import analyzer
from analyzers.consistency.contents import common, of_shared, values
from analyzers.consistency.equality import minus, same
from analyzers.consistency.measures import MATCHED, OfFeature, Tolerant, both, counts
from analyzers.counts import NumMatchesAndCount
from analyzers.errors import IllegalAnalyzerParameterError
from analyzers.metric import Interval, Scale
from analyzers.req import LARGEST_K, SMALLEST_K, ReqState
from analyzers.requests import ReqSketch, Request
from analyzers.schema import Field, Schema
from analyzers.state import State

QUANTILES = {"min": 0.0, "p5": 0.05, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p95": 0.95, "max": 1.0}
"""The names of the quantiles that are measured, in the order of a histogram."""
K = 12
LONGEST = 256
"""Arrays whose lengths multiply to more than its square are not compared element by element."""
ARRAY = frozenset({"array"})


class _Sketched(OfFeature[ReqState, Mapping[str, float]]):
    """A distribution, kept as a sketch; its value is min, p5, p25, p50, p75, p95 and max by name."""

    state_type: ClassVar[type[State]] = ReqState
    state_bytes: ClassVar[int] = 1 << 13
    k: int

    def check_parameters(self) -> None:
        """The sketch can be had, too."""
        super().check_parameters()
        if not SMALLEST_K <= self.k <= LARGEST_K or self.k % 2:
            msg = f"{self!r}: k is an even number between {SMALLEST_K} and {LARGEST_K}"
            raise IllegalAnalyzerParameterError(msg)

    def determined_by(self) -> dict[str, Any]:
        """The metric says what is sketched."""
        return {**super().determined_by(), "of": self.metric, "k": self.k}

    def sketched(
        self, value: str, condition: str = "true", kind: str = "DOUBLE"
    ) -> tuple[Request, ...]:
        """Ask for the sketch of a value, or of an array's, in matched rows where a condition holds."""
        wanted = f"CASE WHEN {MATCHED} AND {condition} THEN CAST({value} AS {kind}) END"
        return (ReqSketch(wanted, self.k, high_ranks=True),)

    def fold(self, cells: Sequence[Any]) -> ReqState:
        """Take the sketch, of which each task made a part."""
        return ReqState.merge(map(ReqState, cells[0] or ()))

    def measure(self, state: ReqState) -> Mapping[str, float]:
        """Ask the sketch."""
        if not state.sketch:
            raise self.no_data()
        return dict(zip(QUANTILES, state.quantiles(tuple(QUANTILES.values())), strict=True))

    def interval(self, state: ReqState) -> Mapping[str, Interval]:
        """The values at the ranks that two standard errors leave possible."""
        return dict(zip(QUANTILES, state.intervals(tuple(QUANTILES.values())), strict=True))

    def weight(self, state: ReqState) -> float:
        """Return the number of values."""
        return state.count


@analyzer
class ConsistencyDistribution(_Sketched):
    """Quantiles of a feature's values, differences or lengths in matched rows; empty without any.

    Nulls and NaN are left out, infinities are kept. Of maps whose values are numbers these are the values of
    the keys that both have.

    Parameters
    ----------
    metric : str
        Of numbers, and maps of numbers, ``delta`` (b - a), ``logged`` or ``backfilled``; of arrays ``logged_length`` or
        ``backfilled_length``.
    group_by : str
    feature : str
    k : int
        Even, 4 to 1024: how accurate the sketch is; see `ReqQuantile`.

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
        """Both are numbers or maps of numbers, or arrays."""
        if self.metric.endswith("_length"):
            self.require(side, ARRAY, "an array")
        else:
            self.require_numbers(side)

    def requests(self, schema: Schema) -> tuple[Request, ...]:
        """Ask for the sketch."""
        a, b = self.sides(schema)
        if self.metric.endswith("_length"):
            side = a if self.metric == "logged_length" else b
            return self.sketched(f"size({side.sql})", f"{side.sql} IS NOT NULL")
        if a.kind == "map":
            return self.sketched(
                of_shared(a, b, self._of_pair(*values(a, b))), kind="ARRAY<DOUBLE>"
            )
        return self.sketched(self._of_pair(a, b))

    def _of_pair(self, a: Field, b: Field) -> str:
        """Return SQL for the number that a pair of numbers gives."""
        if self.metric == "delta":
            return minus(b.sql, a.sql, (b.kind, a.kind))
        return a.sql if self.metric == "logged" else b.sql


@dataclass(frozen=True, repr=False)
class _OfArrays(Tolerant[Any, Any]):
    longest: int = LONGEST

    def check_parameters(self) -> None:
        """The bound on lengths is one, too."""
        super().check_parameters()
        if self.longest < 1:
            raise IllegalAnalyzerParameterError(f"{self!r}: longest is a number of elements")

    def determined_by(self) -> dict[str, Any]:
        """The arrays that are left out depend on how long they may be."""
        return {**super().determined_by(), "longest": self.longest}

    def check_side(self, side: Field) -> None:
        """Both are arrays."""
        self.require(side, ARRAY, "an array")

    def comparable(self, schema: Schema) -> str:
        """Return SQL that is true where both arrays are there and equal, or short enough to be compared."""
        a, b = self.sides(schema)
        product = f"CAST(size({a.sql}) AS BIGINT) * size({b.sql})"
        equal = same(a.sql, b.sql, b.type, self.tolerance)
        return f"{both(a, b)} AND ({product} <= {self.longest**2}L OR {equal})"


@analyzer
class ConsistencyEdits(_Sketched, _OfArrays):
    """Quantiles of the edits that make the logged array the backfilled one; empty without any.

    Elements are inserted and deleted, never replaced. Rows where one of the arrays is not there are left
    out, and those that `ConsistencyEditsSkipped` counts. Null elements equal each other.

    Parameters
    ----------
    metric : str
        ``edit_insert``: elements that the logged array lacks; ``edit_delete``: those that it has too many.
    group_by : str
    feature : str
    absolute, relative : float
        How far apart equal numbers among the elements may lie.
    longest : int
        Arrays that differ, whose lengths multiply to more than its square, are left out.
    k : int
        Even, 4 to 1024: how accurate the sketch is; see `ReqQuantile`.

    Examples
    --------
    >>> ConsistencyEdits("edit_insert", "user", "clicks").name
    'Consistency.edit_insert'
    """

    scale: ClassVar[Scale] = Scale.COUNT  # of edits: where all is well there are none
    metrics: ClassVar[Collection[str]] = ("edit_insert", "edit_delete")

    k: int = K

    def requests(self, schema: Schema) -> tuple[Request, ...]:
        """Ask for the sketch."""
        a, b = self.sides(schema)
        of = b if self.metric == "edit_insert" else a
        shared = common(a.sql, b.sql, b.type["elementType"], self.tolerance)
        return self.sketched(f"size({of.sql}) - {shared}", self.comparable(schema))


@analyzer
class ConsistencyEditsSkipped(_OfArrays):
    """Share of the rows with both arrays that are too long to be compared element by element; empty without any.

    Parameters
    ----------
    metric : str
        ``edit_skipped``.
    group_by : str
    feature : str
    absolute, relative : float
        How far apart equal numbers among the elements may lie.
    longest : int
        Arrays that differ, whose lengths multiply to more than its square, are too long.

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
        """The state counts one thing only, which its kind does not tell."""
        return {**super().determined_by(), "of": self.metric}

    def requests(self, schema: Schema) -> tuple[Request, ...]:
        """Count the rows with both arrays, and those that can be compared."""
        there = both(*self.sides(schema))
        return self.counted(f"count_if({self.comparable(schema)})", f"count_if({there})")

    def fold(self, cells: Sequence[Any]) -> NumMatchesAndCount:
        """Take the counts."""
        comparable, pairs = counts(cells)
        return NumMatchesAndCount(pairs - comparable, pairs)

    def measure(self, state: NumMatchesAndCount) -> float:
        """Return the share."""
        if not state.count:
            raise self.no_data()
        return state.metric_value()

    def weight(self, state: NumMatchesAndCount) -> float:
        """Return the rows with both arrays."""
        return state.count
