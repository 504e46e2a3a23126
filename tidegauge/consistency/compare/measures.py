"""Analyzers of row pairs, with states and metrics like those of other analyzers.

They read a comparison table, as returned by `tidegauge.consistency.compare.join.pair`: a feature's
logged value in ``logged_<feature>``, the backfilled one in ``<feature>``, and the presence of rows
on each side. Features are measured over matched rows. Below, a is logged and b is backfilled.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from tidegauge.analyzers.core.analyzer import Analyzer, S, T, analyzer
from tidegauge.analyzers.core.description import canonical_json, check_choice
from tidegauge.analyzers.core.errors import WrongColumnTypeError
from tidegauge.analyzers.core.metric import Entity, Scale
from tidegauge.analyzers.core.requests import Aggregate, Request
from tidegauge.analyzers.core.schema import NUMERIC, Field, Schema
from tidegauge.analyzers.core.sql import quote
from tidegauge.analyzers.core.state import State
from tidegauge.consistency.compare.equality import Tolerance, kind_of, narrowed, same
from tidegauge.consistency.compare.number_pairs import in_workers
from tidegauge.consistency.compare.states import Cells, RowPresence

LOGGED = "logged_"
PRESENCE, COPY, NULL_KEY = "row_presence", "row_copy", "row_null_key"
MATCHED = f"{quote(PRESENCE)} = 'matched'"


@dataclass(frozen=True, repr=False)
class ConsistencyMeasure(Analyzer[S, T]):
    """A metric of row pairs that belongs to a group-by."""

    metrics: ClassVar[Collection[str]]
    """Metrics that can be derived from the state."""

    metric: str
    group_by: str

    @property
    def name(self) -> str:
        """The metric's name prefixed with ``Consistency.``."""
        return f"Consistency.{self.metric}"

    @property
    def entity(self) -> Entity:
        """Column: a pair of columns under one name. Dataset for row metrics."""
        return Entity.COLUMN

    def check_parameters(self) -> None:
        """Raise unless the metric can be derived from the state."""
        check_choice(self, "metric", tuple(self.metrics))


AnyMeasure = ConsistencyMeasure[Any, Any]


def of_numbers(side: Field) -> bool:
    """Return whether a column is numeric, or a map with numeric values."""
    if side.kind == "map":
        return kind_of(side.type["valueType"]) in NUMERIC
    return side.kind in NUMERIC


def of_arrays(side: Field) -> bool:
    """Return whether a column is an array, or a map of arrays."""
    return side.kind == "array" or (
        side.kind == "map" and kind_of(side.type["valueType"]) == "array"
    )


@dataclass(frozen=True, repr=False)
class OfFeature(ConsistencyMeasure[S, T]):
    """A metric of one feature in matched rows."""

    feature: str

    @property
    def instance(self) -> str:
        """The group-by and the feature, joined by a dot."""
        return f"{self.group_by}.{self.feature}"

    def statistic(self) -> str:
        """Return the state's identity, which leaves out the group-by."""
        of = {"feature": self.feature, **self.determined_by()}
        return canonical_json({"state": self.state_type.tag.partition("/")[0], **of})

    def determined_by(self) -> dict[str, Any]:
        """Return the options that determine the state."""
        return {}

    def sides(self, schema: Schema) -> tuple[Field, Field]:
        """Return the logged and the backfilled column."""
        return schema.field(quote(LOGGED + self.feature)), schema.field(quote(self.feature))

    def check_schema(self, schema: Schema) -> None:
        """Raise unless both columns exist and have a suitable type."""
        for side in self.sides(schema):
            self.check_side(side)

    def check_side(self, side: Field) -> None:
        """Raise `WrongColumnTypeError` for an unsuitable column; by default any is suitable."""

    def require_numbers(self, side: Field) -> None:
        """Raise `WrongColumnTypeError` unless the column holds numbers or maps of numbers."""
        if not of_numbers(side):
            raise WrongColumnTypeError(side.path, side.kind, "numeric, or a map of numbers")

    def require_arrays(self, side: Field) -> None:
        """Raise `WrongColumnTypeError` unless the column holds arrays or maps of arrays."""
        if not of_arrays(side):
            raise WrongColumnTypeError(side.path, side.kind, "an array, or a map of arrays")

    def require(self, side: Field, kinds: frozenset[str], wanted: str) -> None:
        """Raise `WrongColumnTypeError` unless the column is of one of the given kinds."""
        if side.kind not in kinds:
            raise WrongColumnTypeError(side.path, side.kind, wanted)

    def counted(self, *texts: str) -> tuple[Aggregate, ...]:
        """Request aggregates over matched rows."""
        return tuple(Aggregate(text, MATCHED) for text in texts)


@dataclass(frozen=True, repr=False)
class Tolerant(OfFeature[S, T]):
    """A metric that depends on the tolerance of numeric equality."""

    absolute: float = 0.0
    relative: float = 0.0

    @property
    def tolerance(self) -> Tolerance:
        """The tolerance of numeric equality."""
        return Tolerance(self.absolute, self.relative)

    def check_parameters(self) -> None:
        """Raise for an invalid tolerance, too."""
        super().check_parameters()
        _ = self.tolerance

    def determined_by(self) -> dict[str, Any]:
        """Return the tolerance, which determines the state."""
        return {"absolute": self.absolute, "relative": self.relative}


def both(a: Field, b: Field) -> str:
    """Return SQL that is true if both values are non-null."""
    return f"{a.sql} IS NOT NULL AND {b.sql} IS NOT NULL"


def compared_as_floats(schema: Schema) -> tuple[str, ...]:
    """Return a line on the features of a comparison table that are compared as floats, if there are any.

    They are those of which one side has no more digits.

    Examples
    --------
    >>> compared_as_floats(Schema.from_types({"logged_age": "float", "age": "double"}))
    ('compared as floats, because one side is of that type: age',)
    """
    types = {field["name"]: field["type"] for field in schema.struct["fields"]}
    mixed = sorted(
        name
        for name, of in types.items()
        if LOGGED + name in types and narrowed((types[LOGGED + name], of))
    )
    said = "compared as floats, because one side is of that type: "
    return (said + ", ".join(mixed),) if mixed else ()


def counts(cells: Sequence[Any]) -> list[Any]:
    """Return counts and sums, with 0 for null, the result without any row."""
    return [cell or 0 for cell in cells]


@analyzer
class ConsistencyRows(ConsistencyMeasure[RowPresence, float]):
    """Row counts by presence, the share of unmatched rows, and counts of duplicates and null keys.

    Parameters
    ----------
    metric : str
        ``row_matched``, ``row_missing`` (only in the backfill), ``row_extra`` (only in the log),
        ``row_duplicate`` (beyond the first of their key, on either side), ``row_null_key`` (a null
        in the key or time; a matched row counts once), or ``row_unmatched``, the share of rows that are on one side only: 0 without
        any rows, and never undefined, as the shares of matched rows are.
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
        "row_unmatched": "unmatched",
    }

    def scale_of(self, metric_name: str) -> Scale:
        """Return the scale of a metric: ratio for the share, else count."""
        return Scale.RATIO if metric_name.endswith(".row_unmatched") else Scale.COUNT

    @property
    def entity(self) -> Entity:
        """Dataset."""
        return Entity.DATASET

    @property
    def instance(self) -> str:
        """The group-by."""
        return self.group_by

    def statistic(self) -> str:
        """Return the state's identity, shared by all row counts of a group-by."""
        return canonical_json({"group_by": self.group_by, "state": "consistency-rows"})

    def requests(self, schema: Schema) -> tuple[Request, ...]:
        """Request the row counts."""
        presence, copy = quote(PRESENCE), quote(COPY)
        sides = f"CASE WHEN {MATCHED} THEN 2L ELSE 1L END"
        return (
            *(
                Aggregate(f"count_if({presence} = '{at}')")
                for at in ("matched", "missing", "extra")
            ),
            Aggregate(f"sum(CASE WHEN {copy} > 1 THEN {sides} END)"),
            Aggregate(f"count_if({quote(NULL_KEY)})"),
        )

    def fold(self, cells: Sequence[Any]) -> RowPresence:
        """Build the state from the counts."""
        return RowPresence(*counts(cells))

    def measure(self, state: RowPresence) -> float:
        """Return the metric's count or share."""
        return float(getattr(state, self.metrics[self.metric]))

    def weight(self, state: RowPresence) -> float:
        """Return the number of rows of the comparison."""
        return state.rows


@analyzer
class ConsistencyCells(Tolerant[Cells, float]):
    """Share of matched rows where a feature differs or is on one side only; undefined without any.

    Parameters
    ----------
    metric : str
        ``mismatch`` (both are non-null and differ), ``missing`` (only the backfilled value is
        non-null), ``extra`` (only the logged one), ``both_null``, or ``total``, the number of
        matched rows.
    group_by : str
    feature : str
    absolute, relative : float
        Tolerance for numbers; see `tidegauge.consistency.compare.equality.Tolerance`.

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
        """Return the scale of a metric: count for the total, else ratio."""
        return Scale.COUNT if metric_name.endswith(".total") else Scale.RATIO

    def requests(self, schema: Schema) -> tuple[Request, ...]:
        """Request the row count of each cell; all other rows are equal."""
        a, b = self.sides(schema)
        asked = self.counted(
            "count(1)",
            f"count_if({both(a, b)} AND NOT {same(a.sql, b.sql, (a.type, b.type), self.tolerance)})",
            f"count_if({a.sql} IS NULL AND {b.sql} IS NOT NULL)",
            f"count_if({a.sql} IS NOT NULL AND {b.sql} IS NULL)",
            f"count_if({a.sql} IS NULL AND {b.sql} IS NULL)",
        )
        return in_workers(asked, a, b, "cells", self.absolute, self.relative)

    def fold(self, cells: Sequence[Any]) -> Cells:
        """Build the state from the counts; rows in no other cell are equal."""
        total, *others = counts(cells)
        return Cells(total - sum(others), *others)

    def measure(self, state: Cells) -> float:
        """Return the share of matched rows, or their number for ``total``."""
        if self.metric == "total":
            return float(state.matched)
        if not state.matched:
            raise self.no_data()
        return float(getattr(state, self.metric) / state.matched)

    def weight(self, state: Cells) -> float:
        """Return the number of matched rows."""
        return state.matched
