"""Distributions over matched rows, as sketches of numbers, lengths, edit distances and strings.

Numbers are kept in KLL sketches. Differences have two tails, and the quantiles that are shown end at
p95: KLL's error is the same at all ranks, its sketches are half the size of REQ's, and Spark builds
and merges them itself. Strings are kept in sketches of the most frequent values.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, log2
from typing import Any, ClassVar

from tidegauge.analyzers.core.analyzer import Request, S, Sketch, analyzer
from tidegauge.analyzers.core.errors import IllegalAnalyzerParameterError
from tidegauge.analyzers.core.metric import Interval, Scale
from tidegauge.analyzers.core.schema import TEXT, Field, Schema
from tidegauge.analyzers.core.state import State
from tidegauge.analyzers.measures.counts import NumMatchesAndCount
from tidegauge.analyzers.measures.quantiles import (
    KllState,
    KllUnion,
    ReqState,
    SketchPairs,
    sketch_size,
)
from tidegauge.analyzers.measures.top_values import (
    EVICTION_LOAD,
    MAX_TRACKED,
    FrequentItemsState,
    bounded_text,
)
from tidegauge.consistency.compare import equality, measures

RANK_BY_QUANTILE = {
    "min": 0.0,
    "p5": 0.05,
    "p25": 0.25,
    "p50": 0.5,
    "p75": 0.75,
    "p95": 0.95,
    "max": 1.0,
}
"""Ranks of the measured quantiles by name, in the order of a histogram."""
K, MIN_K, MAX_K = 12, 4, 1024
"""The default accuracy of distributions, and its range."""
RANK_ERROR_AT_ONE = 0.16
"""Bound on the error of a rank at accuracy 1; with the default accuracy, sketches are of KLL's usual size."""
DEFAULT_MAX_LENGTH = 256
"""Arrays are not compared by element if the product of their lengths exceeds its square."""


class _Sketched(measures.OfFeature[S, Mapping[str, float]]):
    """A distribution kept as a sketch; its value is min, p5, p25, p50, p75, p95 and max by name."""

    state_bytes: ClassVar[int] = 1 << 13
    k: int

    def check_parameters(self) -> None:
        """Raise for invalid parameters, including the sketch size."""
        super().check_parameters()
        if not MIN_K <= self.k <= MAX_K or self.k % 2:
            msg = f"{self!r}: k must be an even number between {MIN_K} and {MAX_K}"
            raise IllegalAnalyzerParameterError(msg)

    def determined_by(self) -> dict[str, Any]:
        """Return the options of the state, with the sketch size."""
        return {**super().determined_by(), "k": self.k}

    def sketched(
        self, value: str, condition: str = "true", *, elements: bool = False
    ) -> tuple[Sketch]:
        """Request a sketch of a value, or of the elements of an array, over matched rows.

        Rows for which ``condition`` is not true are left out.
        """
        kind = "ARRAY<DOUBLE>" if elements else "DOUBLE"
        sketched_sql = (
            f"CASE WHEN {measures.IS_MATCHED} AND {condition} THEN CAST({value} AS {kind}) END"
        )
        return (Sketch("kll", sketched_sql, sketch_size(RANK_ERROR_AT_ONE / self.k), elements),)

    @abstractmethod
    def distribution(self, state: S) -> KllState | KllUnion | ReqState:
        """Return the metric's distribution."""

    def measure(self, state: S) -> Mapping[str, float]:
        """Return the quantiles."""
        distribution = self.distribution(state)
        if not distribution.count:
            raise self.no_data()
        return dict(
            zip(
                RANK_BY_QUANTILE,
                distribution.quantiles(tuple(RANK_BY_QUANTILE.values())),
                strict=True,
            )
        )

    def interval(self, state: S) -> Mapping[str, Interval]:
        """Return the values at the ranks within the sketch's error of each quantile."""
        bounds = self.distribution(state).intervals(tuple(RANK_BY_QUANTILE.values()))
        return dict(zip(RANK_BY_QUANTILE, bounds, strict=True))

    def weight(self, state: S) -> float:
        """Return the number of values."""
        return self.distribution(state).count


@analyzer
class ConsistencyDistribution(_Sketched[SketchPairs]):
    """Quantiles of a feature's values, differences or lengths in matched rows; undefined if none.

    Nulls and NaN are left out, infinities are kept. For maps of numbers or arrays, the values belong to
    the shared keys. All metrics of a feature's values, and both of its lengths, share one
    state, which stores equal values of both sides once.

    Parameters
    ----------
    metric : str
        For numbers and maps of numbers, ``delta`` (b - a), ``logged`` or ``backfilled``; for
        arrays and maps of arrays, ``logged_length`` or ``backfilled_length``.
    group_by : str
        The group-by.
    feature : str
        The feature.
    k : int
        Accuracy, even, 4 to 1024: ranks are off by at most 0.16 / k, at 99% confidence.

    Examples
    --------
    >>> ConsistencyDistribution("delta", "user", "age").name
    'Consistency.delta'
    """

    scale: ClassVar[Scale] = Scale.SIGNED
    state_type: ClassVar[type[State]] = SketchPairs
    state_bytes: ClassVar[int] = 1 << 14
    earlier_state_types: ClassVar[tuple[type[State], ...]] = (KllState, ReqState)
    metrics: ClassVar[Collection[str]] = (
        "delta",
        "logged",
        "backfilled",
        "logged_length",
        "backfilled_length",
    )

    k: int = K

    def check_side(self, side: Field) -> None:
        """Raise unless the column holds numbers or arrays, or maps of them, as needed."""
        if self.metric.endswith("_length"):
            self.require_arrays(side)
        else:
            self.require_numbers(side)

    def determined_by(self) -> dict[str, Any]:
        """Return the options of the state, and whether it is of lengths."""
        return {**super().determined_by(), "of": "lengths" if self._of_lengths else "values"}

    @property
    def _of_lengths(self) -> bool:
        return self.metric.endswith("_length")

    def requests(self, schema: Schema) -> tuple[Request, ...]:
        """Request the sketches of a `SketchPairs`, in the order of its fields."""
        a, b = self.sides(schema)
        if a.kind == "map":
            return tuple(
                sketch
                for value_sql in self._parts(*equality.values(a, b)).values()
                for sketch in self.sketched(
                    equality.shared_values_sql(a, b, value_sql), elements=True
                )
            )
        parts = {part: self.sketched(value_sql) for part, value_sql in self._parts(a, b).items()}
        return tuple(
            request
            for part, sketches in parts.items()
            for request in (
                sketches
                if sketches[0].size > measures.MAX_WORKER_SKETCH_SIZE or self._of_lengths
                else measures.in_workers(sketches, a, b, part, sketches[0].size)
            )
        )

    def _parts(self, a: Field, b: Field) -> dict[str, str]:
        """Return SQL for a pair's value in each field of a `SketchPairs`; null where it has none."""
        if self._of_lengths:
            x, y = (
                f"CASE WHEN {side.sql} IS NOT NULL THEN size({side.sql}) END" for side in (a, b)
            )
            delta = f"CAST({y} - {x} AS DOUBLE)"
        else:
            x, y, delta = a.sql, b.sql, equality.minus(b.sql, a.sql, (b.kind, a.kind))
        other = f"CASE WHEN {delta} = 0 THEN NULL ELSE"
        return {
            "equal": f"CASE WHEN {delta} = 0 THEN {x} END",
            "logged": f"{other} {x} END",
            "backfilled": f"{other} {y} END",
            "delta": f"{other} {delta} END",
        }

    def fold(self, cells: Sequence[Any]) -> SketchPairs:
        """Return the state of the sketches."""
        return SketchPairs.from_parts(*map(KllState.from_sketches, cells))

    def distribution(
        self, state: SketchPairs | KllState | ReqState
    ) -> KllState | KllUnion | ReqState:
        """Return the metric's distribution; an earlier state holds nothing else."""
        if isinstance(state, SketchPairs):
            return state.distribution(self.metric.removesuffix("_length"))
        return state


@dataclass(frozen=True, repr=False)
class _OfArrays(measures.Tolerant[Any, Any]):
    longest: int = DEFAULT_MAX_LENGTH

    def check_parameters(self) -> None:
        """Raise for invalid parameters, including the length limit."""
        super().check_parameters()
        if self.longest < 1:
            raise IllegalAnalyzerParameterError(f"{self!r}: longest must be a number of elements")

    def determined_by(self) -> dict[str, Any]:
        """Return the options of the state, with the length limit, which excludes arrays."""
        return {**super().determined_by(), "longest": self.longest}

    def check_side(self, side: Field) -> None:
        """Raise unless the column holds arrays or maps of arrays."""
        self.require_arrays(side)

    def comparable(self, a: Field, b: Field) -> str:
        """Return SQL that is true if both arrays are non-null, and equal or short enough."""
        product = f"CAST(size({a.sql}) AS BIGINT) * size({b.sql})"
        equal = equality.same(a.sql, b.sql, (a.type, b.type), self.tolerance)
        return f"{measures.both(a, b)} AND ({product} <= {self.longest**2}L OR {equal})"


@analyzer
class ConsistencyEdits(_Sketched[KllState], _OfArrays):
    """Quantiles of the edits from the logged array to the backfilled one; undefined without any.

    Elements are inserted and deleted, never replaced. Rows with a null array are left out, and so
    are those counted by `ConsistencyEditsSkipped`. Null elements equal each other. For maps, the arrays
    belong to the shared keys.

    Parameters
    ----------
    metric : str
        ``edit_insert``: elements missing from the logged array; ``edit_delete``: its surplus
        elements.
    group_by : str
        The group-by.
    feature : str
        The feature.
    absolute, relative : float
        Tolerance for numbers among the elements.
    longest : int
        Different arrays whose lengths multiply to more than its square are left out.
    k : int
        Accuracy, even, 4 to 1024: ranks are off by at most 0.16 / k, at 99% confidence.

    Examples
    --------
    >>> ConsistencyEdits("edit_insert", "user", "clicks").name
    'Consistency.edit_insert'
    """

    scale: ClassVar[Scale] = Scale.COUNT  # edits are counts, and 0 at best
    state_type: ClassVar[type[State]] = KllState
    earlier_state_types: ClassVar[tuple[type[State], ...]] = (ReqState,)
    metrics: ClassVar[Collection[str]] = ("edit_insert", "edit_delete")

    k: int = K

    def determined_by(self) -> dict[str, Any]:
        """Return the options of the state, with the metric."""
        return {**super().determined_by(), "of": self.metric}

    def requests(self, schema: Schema) -> tuple[Request, ...]:
        """Request the sketch."""
        a, b = self.sides(schema)
        if a.kind != "map":
            return self.sketched(self._edits(a, b), self.comparable(a, b))
        x, y = equality.values(a, b)
        edits = f"CASE WHEN {self.comparable(x, y)} THEN {self._edits(x, y)} END"
        return self.sketched(equality.shared_values_sql(a, b, edits), elements=True)

    def fold(self, cells: Sequence[Any]) -> KllState:
        """Return the state of the sketch."""
        return KllState.from_sketches(cells[0])

    def distribution(self, state: KllState) -> KllState:
        """Return the state, a sketch."""
        return state

    def _edits(self, a: Field, b: Field) -> str:
        """Return SQL for the number of edits between two arrays."""
        counted_side = b if self.metric == "edit_insert" else a
        return f"size({counted_side.sql}) - {equality.common(a.sql, b.sql, (a.type, b.type), self.tolerance)}"


@analyzer
class ConsistencyEditsSkipped(_OfArrays):
    """Share of pairs of arrays too long for element-wise comparison; undefined without any.

    Parameters
    ----------
    metric : str
        ``edit_skipped``.
    group_by : str
        The group-by.
    feature : str
        The feature.
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
        """Return the options of the state, with the metric, to distinguish its counts."""
        return {**super().determined_by(), "of": self.metric}

    def requests(self, schema: Schema) -> tuple[Request, ...]:
        """Request the number of pairs of arrays, and of comparable ones."""
        a, b = self.sides(schema)
        if a.kind != "map":
            return self.counted(
                f"count_if({self.comparable(a, b)})", f"count_if({measures.both(a, b)})"
            )
        x, y = equality.values(a, b)
        units = [
            f"CASE WHEN {condition} THEN 1L END"
            for condition in (self.comparable(x, y), measures.both(x, y))
        ]
        return self.counted(
            *(
                f"sum({equality.added(equality.shared_values_sql(a, b, condition), '0L')})"
                for condition in units
            )
        )

    def fold(self, cells: Sequence[Any]) -> NumMatchesAndCount:
        """Build the state from the counts."""
        comparable, pairs = measures.counts(cells)
        return NumMatchesAndCount(pairs - comparable, pairs)

    def measure(self, state: NumMatchesAndCount) -> float:
        """Return the share of skipped pairs."""
        if not state.count:
            raise self.no_data()
        return state.metric_value()


DEFAULT_TRACKED_STRINGS = 192
"""Different strings that are counted exactly; a sketch of 256 slots holds as many."""


@analyzer
class ConsistencyTexts(measures.OfFeature[FrequentItemsState, float]):
    """Share of the most frequent string of a feature in matched rows; undefined without strings.

    Its state is the distribution: the count of each string. The counts are exact if all strings are
    tracked. `tidegauge.consistency.drift` compares it. Nulls are ignored. A long string is stored as its
    first 200 characters and a digest.

    Parameters
    ----------
    metric : str
        ``logged_top`` or ``backfilled_top``.
    group_by : str
        The group-by.
    feature : str
        The feature.
    tracked : int
        Number of strings to track, at most 10,000.

    Examples
    --------
    >>> ConsistencyTexts("logged_top", "user", "city").name
    'Consistency.logged_top'
    """

    scale: ClassVar[Scale] = Scale.RATIO
    state_type: ClassVar[type[State]] = FrequentItemsState
    state_bytes: ClassVar[int] = 1 << 13
    metrics: ClassVar[Collection[str]] = ("logged_top", "backfilled_top")

    tracked: int = DEFAULT_TRACKED_STRINGS

    def check_parameters(self) -> None:
        """Raise for invalid parameters, including the number of strings."""
        super().check_parameters()
        if not 1 <= self.tracked <= MAX_TRACKED:
            msg = f"{self!r}: 1 <= tracked <= {MAX_TRACKED} must hold"
            raise IllegalAnalyzerParameterError(msg)

    def determined_by(self) -> dict[str, Any]:
        """Return the side and the number of the sketch's slots, a power of two."""
        return {"of": self.metric, "lg_slots": ceil(log2(self.tracked / EVICTION_LOAD))}

    def check_side(self, side: Field) -> None:
        """Raise `WrongColumnTypeError` unless the column holds strings."""
        self.require(side, TEXT, "text")

    def requests(self, schema: Schema) -> tuple[Request, ...]:
        """Request the sketch."""
        a, b = self.sides(schema)
        text = bounded_text(a if self.metric.startswith("logged") else b)
        tracked_sql = f"CASE WHEN {measures.IS_MATCHED} THEN {text} END"
        return (Sketch("frequent", tracked_sql, self.tracked),)

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
