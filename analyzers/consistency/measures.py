"""What is measured of pairs of rows, as analyzers: scanned, remembered, merged and watched like all others.

They read a comparison table, as `analyzers.consistency.joining.pair` makes it: a feature's logged value in
``logged_<feature>``, the backfilled one in ``<feature>``, and which rows are on which side. Features are
measured over the rows that are on both sides. Below, a is logged and b is backfilled.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from analyzers.analyzer import Analyzer, S, T, analyzer
from analyzers.consistency.equality import Tolerance, kind_of, same
from analyzers.consistency.states import Cells, RowPresence
from analyzers.description import canonical_json, one_of_these
from analyzers.errors import WrongColumnTypeError
from analyzers.metric import Entity, Scale
from analyzers.requests import Aggregate, Request
from analyzers.schema import NUMERIC, Field, Schema
from analyzers.sql import quote
from analyzers.state import State

LOGGED = "logged_"
PRESENCE, COPY, NULL_KEY = "row_presence", "row_copy", "row_null_key"
MATCHED = f"{quote(PRESENCE)} = 'matched'"


@dataclass(frozen=True, repr=False)
class Measure(Analyzer[S, T]):
    """A metric of pairs of rows, counted to a group-by."""

    metrics: ClassVar[Collection[str]]
    """The metrics that follow from the state."""

    metric: str
    group_by: str

    @property
    def name(self) -> str:
        """The metric is part of the name."""
        return f"Consistency.{self.metric}"

    @property
    def entity(self) -> Entity:
        """A pair of columns, which go by one name; of rows the data set."""
        return Entity.COLUMN

    def check_parameters(self) -> None:
        """The metric is one of those that follow from the state."""
        one_of_these(self, "metric", tuple(self.metrics))


AnyMeasure = Measure[Any, Any]


def of_numbers(side: Field) -> bool:
    """Whether a column is of numbers, or of maps whose values are numbers."""
    if side.kind == "map":
        return kind_of(side.type["valueType"]) in NUMERIC
    return side.kind in NUMERIC


@dataclass(frozen=True, repr=False)
class OfFeature(Measure[S, T]):
    """A metric of one feature in matched rows."""

    feature: str

    @property
    def instance(self) -> str:
        """The group-by and the feature."""
        return f"{self.group_by}.{self.feature}"

    def statistic(self) -> str:
        """The state is the feature's, whichever group-by it is counted to."""
        of = {"feature": self.feature, **self.determined_by()}
        return canonical_json({"state": self.state_type.tag.partition("/")[0], **of})

    def determined_by(self) -> dict[str, Any]:
        """Return the options on which the state depends."""
        return {}

    def sides(self, schema: Schema) -> tuple[Field, Field]:
        """Find the logged and the backfilled column."""
        return schema.field(quote(LOGGED + self.feature)), schema.field(quote(self.feature))

    def check_schema(self, schema: Schema) -> None:
        """Both columns are there and suit."""
        for side in self.sides(schema):
            self.check_side(side)

    def check_side(self, side: Field) -> None:
        """Raise `WrongColumnTypeError` if the column does not suit; any does by default."""

    def require_numbers(self, side: Field) -> None:
        """Raise `WrongColumnTypeError` unless the column is of numbers, or of maps of some."""
        if not of_numbers(side):
            raise WrongColumnTypeError(side.path, side.kind, "numeric, or a map of numbers")

    def require(self, side: Field, kinds: frozenset[str], wanted: str) -> None:
        """Raise `WrongColumnTypeError` unless the column is of some kinds."""
        if side.kind not in kinds:
            raise WrongColumnTypeError(side.path, side.kind, wanted)

    def counted(self, *texts: str) -> tuple[Request, ...]:
        """Ask for aggregates over the rows that are on both sides."""
        return tuple(Aggregate(text, MATCHED) for text in texts)


@dataclass(frozen=True, repr=False)
class Tolerant(OfFeature[S, T]):
    """One that depends on when numbers are equal."""

    absolute: float = 0.0
    relative: float = 0.0

    @property
    def tolerance(self) -> Tolerance:
        """How far apart equal numbers may lie."""
        return Tolerance(self.absolute, self.relative)

    def check_parameters(self) -> None:
        """The tolerance can be had, too."""
        super().check_parameters()
        _ = self.tolerance

    def determined_by(self) -> dict[str, Any]:
        """What is equal depends on the tolerance."""
        return {"absolute": self.absolute, "relative": self.relative}


def both(a: Field, b: Field) -> str:
    """Return SQL that is true where both values are there."""
    return f"{a.sql} IS NOT NULL AND {b.sql} IS NOT NULL"


def counts(cells: Sequence[Any]) -> list[Any]:
    """Return what was counted; where no row was let through nothing was, which is 0."""
    return [cell or 0 for cell in cells]


@analyzer
class ConsistencyRows(Measure[RowPresence, float]):
    """Rows that are on one side only, and others of which the join must be told; a count of rows.

    Parameters
    ----------
    metric : str
        ``row_matched``, ``row_missing`` (only in the backfill), ``row_extra`` (only in the log),
        ``row_duplicate`` (beyond the first of their key, on either side) or ``row_null_key``.
    group_by : str

    Examples
    --------
    >>> rows = ConsistencyRows("row_missing", "user")
    >>> rows.compute_metric_from(RowPresence(matched=8, missing=2)).value
    2.0
    """

    scale: ClassVar[Scale] = Scale.COUNT
    state_type: ClassVar[type[State]] = RowPresence
    metrics: ClassVar[Mapping[str, str]] = {
        "row_matched": "matched",
        "row_missing": "missing",
        "row_extra": "extra",
        "row_duplicate": "duplicates",
        "row_null_key": "null_keys",
    }

    @property
    def entity(self) -> Entity:
        """The data set."""
        return Entity.DATASET

    @property
    def instance(self) -> str:
        """The group-by."""
        return self.group_by

    def statistic(self) -> str:
        """All counts of a group-by's rows follow from one state."""
        return canonical_json({"group_by": self.group_by, "state": "consistency-rows"})

    def requests(self, schema: Schema) -> tuple[Request, ...]:  # noqa: ARG002 - the columns are ours
        """Count the rows."""
        presence, copy = quote(PRESENCE), quote(COPY)
        sides = f"CASE WHEN {MATCHED} THEN 2L ELSE 1L END"
        return (
            *(
                Aggregate(f"count_if({presence} = '{at}')")
                for at in ("matched", "missing", "extra")
            ),
            Aggregate(f"sum(CASE WHEN {copy} > 1 THEN {sides} END)"),
            Aggregate(f"sum(CASE WHEN {quote(NULL_KEY)} THEN {sides} END)"),
        )

    def fold(self, cells: Sequence[Any]) -> RowPresence:
        """Take the counts."""
        return RowPresence(*counts(cells))

    def measure(self, state: RowPresence) -> float:
        """Return one of the counts."""
        return float(getattr(state, self.metrics[self.metric]))

    def weight(self, state: RowPresence) -> float:
        """Return all rows of the comparison."""
        return state.rows


@analyzer
class ConsistencyCells(Tolerant[Cells, float]):
    """Share of the matched rows in which a feature differs, or is on one side only; empty without any.

    Parameters
    ----------
    metric : str
        ``mismatch`` (both are there and differ), ``missing`` (only the backfilled value is there),
        ``extra`` (only the logged one), ``both_null``, or ``total``, the number of matched rows.
    group_by : str
    feature : str
    absolute, relative : float
        How far apart equal numbers may lie; see `analyzers.consistency.equality.Tolerance`.

    Examples
    --------
    >>> mismatch = ConsistencyCells("mismatch", "user", "age")
    >>> mismatch.compute_metric_from(Cells(equal=6, mismatch=2)).value
    0.25
    """

    scale: ClassVar[Scale] = Scale.RATIO
    state_type: ClassVar[type[State]] = Cells
    metrics: ClassVar[Collection[str]] = ("mismatch", "missing", "extra", "both_null", "total")

    def scale_of(self, metric_name: str) -> Scale:
        """Return how the values behave: all are shares but the total."""
        return Scale.COUNT if metric_name.endswith(".total") else Scale.RATIO

    def requests(self, schema: Schema) -> tuple[Request, ...]:
        """Count the rows of each cell; the rest of the rows are equal."""
        a, b = self.sides(schema)
        of = (a.type, b.type) if {a.kind, b.kind} <= NUMERIC else b.type
        return self.counted(
            "count(1)",
            f"count_if({both(a, b)} AND NOT {same(a.sql, b.sql, of, self.tolerance)})",
            f"count_if({a.sql} IS NULL AND {b.sql} IS NOT NULL)",
            f"count_if({a.sql} IS NOT NULL AND {b.sql} IS NULL)",
            f"count_if({a.sql} IS NULL AND {b.sql} IS NULL)",
        )

    def fold(self, cells: Sequence[Any]) -> Cells:
        """Take the counts; what is in no other cell is equal."""
        total, *others = counts(cells)
        return Cells(total - sum(others), *others)

    def measure(self, state: Cells) -> float:
        """Return a count by all matched rows."""
        if self.metric == "total":
            return float(state.matched)
        if not state.matched:
            raise self.no_data()
        return float(getattr(state, self.metric) / state.matched)

    def weight(self, state: Cells) -> float:
        """Return the matched rows."""
        return state.matched
