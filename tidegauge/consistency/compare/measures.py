"""Analyzers of row pairs, with mergeable states and metrics.

They read a comparison table, as returned by `tidegauge.consistency.compare.join.pair`. The table has a
feature's logged value in ``logged_<feature>``, the backfilled value in ``<feature>``, and the presence of
rows on each side. Features are measured over matched rows. Below, a is logged and b is backfilled.

States are sums that roll up over hours, days and keys. Python workers compute statistics of pairs of plain
numbers. Spark generates and compiles code for each feature, which took most of the time for 100 features
of 50,000 rows. Workers run one program for all features, on arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from struct import Struct
from typing import Any, ClassVar, Self

from tidegauge.analyzers.core.analyzer import (
    Aggregate,
    Analyzer,
    Request,
    S,
    Sketch,
    T,
    WorkerRequest,
    analyzer,
)
from tidegauge.analyzers.core.errors import WrongColumnTypeError
from tidegauge.analyzers.core.metric import Entity, Scale
from tidegauge.analyzers.core.registry import canonical_json, check_choice
from tidegauge.analyzers.core.schema import INTEGRAL, NUMERIC, Field, Schema
from tidegauge.analyzers.core.sql import quote
from tidegauge.analyzers.core.state import Count, State, register_state
from tidegauge.consistency.compare import equality


class _Sums(State):
    """A state whose numbers are merged by addition."""

    __slots__ = ()

    def combine(self, other: Self) -> Self:
        """Add the numbers field by field."""
        return type(self)(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


@register_state("consistency-rows/1")
@dataclass(frozen=True, slots=True)
class RowPresence(_Sums):
    """Row counts by presence on each side.

    Attributes
    ----------
    matched, missing, extra : int
        Rows on both sides, only in the backfill, only in the log.
    duplicates : int
        Rows on either side after the first row of their key.
    null_keys : int
        Rows with a null in their key or time; a matched row counts once.

    Examples
    --------
    >>> RowPresence(2, 1) + RowPresence(1, 0, 4)
    RowPresence(matched=3, missing=1, extra=4, duplicates=0, null_keys=0)
    """

    layout: ClassVar[Struct] = Struct("<5q")
    matched: Count = 0
    missing: Count = 0
    extra: Count = 0
    duplicates: Count = 0
    null_keys: Count = 0

    @property
    def rows(self) -> int:
        """All rows of the comparison."""
        return self.matched + self.missing + self.extra

    @property
    def unmatched(self) -> float:
        """The share of rows on one side only; 0 without rows."""
        return (self.missing + self.extra) / self.rows if self.rows else 0.0


@register_state("consistency-cells/1")
@dataclass(frozen=True, slots=True)
class Cells(_Sums):
    """Matched rows by outcome for a feature; every row is in exactly one cell.

    Attributes
    ----------
    equal, mismatch : int
        Both values are non-null, and equal or different.
    missing, extra : int
        Only the backfilled value is non-null; only the logged value is.
    both_null : int
        Both values are null.

    Examples
    --------
    >>> Cells(7, 1, 1, 0, 1).matched
    10
    """

    layout: ClassVar[Struct] = Struct("<5q")
    equal: Count = 0
    mismatch: Count = 0
    missing: Count = 0
    extra: Count = 0
    both_null: Count = 0

    @property
    def matched(self) -> int:
        """The number of matched rows."""
        return self.equal + self.mismatch + self.missing + self.extra + self.both_null


@register_state("consistency-numbers/1")
@dataclass(frozen=True, slots=True)
class Differences(_Sums):
    """Sums of differences between numbers, over pairs of finite non-null values.

    Attributes
    ----------
    pairs : int
        Finite pairs: matched rows, or keys shared by both maps of a row.
    not_finite : int
        Non-null pairs with a NaN or infinite value, or an infinite sum.
    logged_nan, backfilled_nan : int
        Non-null pairs whose logged or backfilled value is NaN.
    difference, size : float
        The sums of ``|a - b|`` and of ``|a| + |b|``.
    ratios : float
        The sum of the ratios of these terms for each pair; 0 if both values are 0.
    """

    layout: ClassVar[Struct] = Struct("<4q3d")
    pairs: Count = 0
    not_finite: Count = 0
    logged_nan: Count = 0
    backfilled_nan: Count = 0
    difference: float = 0.0
    size: float = 0.0
    ratios: float = 0.0


@register_state("consistency-keys/1")
@dataclass(frozen=True, slots=True)
class KeyCounts(_Sums):
    """Key counts of maps, over matched rows with both maps.

    Attributes
    ----------
    pairs : int
        Matched rows with both maps.
    missing, extra : int
        Keys that only the backfilled map has, or has with a value; the same for the logged map.
    mismatched : int
        Keys in both with different non-null values.
    left, right : int
        Keys of the logged map; keys of the backfilled map.
    """

    layout: ClassVar[Struct] = Struct("<6q")
    pairs: Count = 0
    missing: Count = 0
    extra: Count = 0
    mismatched: Count = 0
    left: Count = 0
    right: Count = 0


FLOATING_KINDS = frozenset({"float", "double"})
COUNTS_BY_STATISTIC = {"cells": 5, "differences": 4}
"""Statistics of numbers with their number of counts; sums follow the counts."""
MAX_WORKER_SKETCH_SIZE = 1_000
"""Workers build sketches up to this size. Such a sketch has 24 kB, and a batch of Arrow has 10,000."""


@dataclass(frozen=True, slots=True)
class PairStatistic:
    """A statistic of the matched rows of two numeric columns.

    Attributes
    ----------
    kind : str
        ``cells`` and ``differences`` are the numbers of `Cells` and `Differences`, except that ``cells``
        starts with the number of rows instead of equal rows. ``equal``, ``logged``, ``backfilled`` and
        ``delta`` are sketches of `SketchPairs`.
    logged, backfilled : str
        The columns as Spark SQL.
    options : tuple of float
        Absolute and relative tolerance for ``cells``; size for a sketch.
    """

    kind: str
    logged: str
    backfilled: str
    options: tuple[float, ...] = ()


@dataclass(frozen=True)
class OfPairs(WorkerRequest):
    """Request for one number of a statistic or for its sketch.

    Attributes
    ----------
    instead : Aggregate or Sketch
        The equivalent request in Spark.
    statistic : PairStatistic
        The statistic.
    index : int
        The number's index in the statistic.
    """

    job: ClassVar[str] = "tidegauge.consistency.compare.number_pairs_job:NumberPairs"
    # 16 for each of 40 features: Spark reads up to 100 Parquet columns vectorized, and more by rows.
    max_per_job: ClassVar[int] = 640

    instead: Aggregate | Sketch
    statistic: PairStatistic
    index: int


def in_workers(
    requests: Sequence[Aggregate | Sketch], a: Field, b: Field, kind: str, *options: float
) -> tuple[Request, ...]:
    """Return requests for workers if both columns have plain numbers, otherwise the original requests."""
    if not plain(a.kind, b.kind):
        return tuple(requests)
    statistic = PairStatistic(kind, a.sql, b.sql, options)
    return tuple(OfPairs(request, statistic, index) for index, request in enumerate(requests))


def plain(a: str, b: str) -> bool:
    """Return whether workers compare two kinds of numbers as Spark does.

    Workers do not compare floats with integers, because Spark compares them as floats or as doubles,
    depending on its ANSI mode.

    Examples
    --------
    >>> plain("long", "double"), plain("float", "double"), plain("float", "long")
    (True, True, False)
    """
    kinds = {a, b}
    return kinds <= INTEGRAL | FLOATING_KINDS and not ("float" in kinds and bool(kinds & INTEGRAL))


LOGGED_PREFIX = "logged_"
PRESENCE_COLUMN, COPY_COLUMN, NULL_KEY_COLUMN = "row_presence", "row_copy", "row_null_key"
IS_MATCHED = f"{quote(PRESENCE_COLUMN)} = 'matched'"


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
        return equality.kind_of(side.type["valueType"]) in NUMERIC
    return side.kind in NUMERIC


def of_arrays(side: Field) -> bool:
    """Return whether a column is an array, or a map of arrays."""
    return side.kind == "array" or (
        side.kind == "map" and equality.kind_of(side.type["valueType"]) == "array"
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
        """Return the state's identity, which does not include the group-by."""
        subject = {"feature": self.feature, **self.determined_by()}
        return canonical_json({"state": self.state_type.tag.partition("/")[0], **subject})

    def determined_by(self) -> dict[str, Any]:
        """Return the options that determine the state."""
        return {}

    def sides(self, schema: Schema) -> tuple[Field, Field]:
        """Return the logged and the backfilled column."""
        return schema.field(quote(LOGGED_PREFIX + self.feature)), schema.field(quote(self.feature))

    def check_schema(self, schema: Schema) -> None:
        """Raise unless both columns exist and have a suitable type."""
        for side in self.sides(schema):
            self.check_side(side)

    def check_side(self, side: Field) -> None:
        """Raise `WrongColumnTypeError` for an unsuitable column. By default, every column is suitable."""

    def require_numbers(self, side: Field) -> None:
        """Raise `WrongColumnTypeError` unless the column holds numbers or maps of numbers."""
        if not of_numbers(side):
            raise WrongColumnTypeError(side.path, side.kind, "numeric, or a map of numbers")

    def require_arrays(self, side: Field) -> None:
        """Raise `WrongColumnTypeError` unless the column holds arrays or maps of arrays."""
        if not of_arrays(side):
            raise WrongColumnTypeError(side.path, side.kind, "an array, or a map of arrays")

    def require(self, side: Field, kinds: frozenset[str], expected: str) -> None:
        """Raise `WrongColumnTypeError` unless the column is of one of the given kinds."""
        if side.kind not in kinds:
            raise WrongColumnTypeError(side.path, side.kind, expected)

    def counted(self, *expressions: str) -> tuple[Aggregate, ...]:
        """Request aggregates over matched rows."""
        return tuple(Aggregate(expression, IS_MATCHED) for expression in expressions)


@dataclass(frozen=True, repr=False)
class Tolerant(OfFeature[S, T]):
    """A metric that depends on the tolerance of numeric equality."""

    absolute: float = 0.0
    relative: float = 0.0

    @property
    def tolerance(self) -> equality.Tolerance:
        """The tolerance of numeric equality."""
        return equality.Tolerance(self.absolute, self.relative)

    def check_parameters(self) -> None:
        """Raise for invalid parameters, including the tolerance."""
        super().check_parameters()
        _ = self.tolerance

    def determined_by(self) -> dict[str, Any]:
        """Return the tolerance, which determines the state."""
        return {"absolute": self.absolute, "relative": self.relative}


def both(a: Field, b: Field) -> str:
    """Return SQL that is true if both values are non-null."""
    return f"{a.sql} IS NOT NULL AND {b.sql} IS NOT NULL"


def compared_as_floats(schema: Schema) -> tuple[str, ...]:
    """Return a notice about features of a comparison table that are compared as floats, if there are any.

    They are compared as floats if one side has only the precision of a float.

    Examples
    --------
    >>> compared_as_floats(Schema.from_types({"logged_age": "float", "age": "double"}))
    ('compared as floats, because one side is a float: age',)
    """
    types = {field["name"]: field["type"] for field in schema.struct["fields"]}
    mixed = sorted(
        name
        for name, data_type in types.items()
        if LOGGED_PREFIX + name in types
        and equality.narrowed((types[LOGGED_PREFIX + name], data_type))
    )
    notice = "compared as floats, because one side is a float: "
    return (notice + ", ".join(mixed),) if mixed else ()


def counts(cells: Sequence[Any]) -> list[Any]:
    """Return counts and sums, with 0 for null, which is the result without rows."""
    return [cell or 0 for cell in cells]


@analyzer
class ConsistencyRows(ConsistencyMeasure[RowPresence, float]):
    """Row counts by presence, the share of unmatched rows, and counts of duplicates and null keys.

    Parameters
    ----------
    metric : str
        ``row_matched``, ``row_missing`` (only in the backfill), ``row_extra`` (only in the log),
        ``row_duplicate`` (after the first row of their key, on either side), ``row_null_key`` (a null in
        the key or time; a matched row counts once), or ``row_unmatched``, the share of rows on one side
        only. ``row_unmatched`` is 0 without rows and never undefined, unlike shares of matched rows.
    group_by : str
        Name of the group-by.

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
        """Return the scale of a metric: ratio for the share, otherwise count."""
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
        presence, copy = quote(PRESENCE_COLUMN), quote(COPY_COLUMN)
        sides = f"CASE WHEN {IS_MATCHED} THEN 2L ELSE 1L END"
        return (
            *(
                Aggregate(f"count_if({presence} = '{side}')")
                for side in ("matched", "missing", "extra")
            ),
            Aggregate(f"sum(CASE WHEN {copy} > 1 THEN {sides} END)"),
            Aggregate(f"count_if({quote(NULL_KEY_COLUMN)})"),
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
    """Share of matched rows where a feature differs or exists on one side only; undefined without rows.

    Parameters
    ----------
    metric : str
        ``mismatch`` (both are non-null and differ), ``missing`` (only the backfilled value is
        non-null), ``extra`` (only the logged value is), ``both_null``, or ``total``, the number of
        matched rows.
    group_by : str
        Name of the group-by.
    feature : str
        Name of the feature.
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
        """Return the scale of a metric: count for the total, otherwise ratio."""
        return Scale.COUNT if metric_name.endswith(".total") else Scale.RATIO

    def requests(self, schema: Schema) -> tuple[Request, ...]:
        """Request the row count of each cell; all other rows are equal."""
        a, b = self.sides(schema)
        aggregates = self.counted(
            "count(1)",
            f"count_if({both(a, b)} AND NOT {equality.same(a.sql, b.sql, (a.type, b.type), self.tolerance)})",
            f"count_if({a.sql} IS NULL AND {b.sql} IS NOT NULL)",
            f"count_if({a.sql} IS NOT NULL AND {b.sql} IS NULL)",
            f"count_if({a.sql} IS NULL AND {b.sql} IS NULL)",
        )
        return in_workers(aggregates, a, b, "cells", self.absolute, self.relative)

    def fold(self, cells: Sequence[Any]) -> Cells:
        """Build the state from the counts; rows that are in no other cell are equal."""
        total, *unequal = counts(cells)
        return Cells(total - sum(unequal), *unequal)

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


def _share(part: float, total: float) -> float:
    return part / total if total else 0.0


@analyzer
class ConsistencyNumbers(OfFeature[Differences, float]):
    """Relative difference of numbers, in [0, 1], over finite non-null pairs; undefined without pairs.

    For numeric features, each matched row has a pair. For maps with numeric values, each key that both
    maps of a matched row share has a pair.

    Parameters
    ----------
    metric : str
        ``smape``, the sum of ``|a - b|`` divided by the sum of ``|a| + |b|``; ``smape_mean``, the mean of
        the ratios of all pairs, where a ratio is 0 if both values are 0; or a count of pairs:
        ``not_finite``, with a NaN or infinite value, ``logged_nan`` or ``backfilled_nan``. Values are
        compared as doubles.
    group_by : str
        Name of the group-by.
    feature : str
        Name of the feature.

    Examples
    --------
    >>> smape = ConsistencyNumbers("smape", "user", "age")
    >>> smape.compute_metric_from(Differences(pairs=4, difference=1.0, size=4.0)).value
    0.25
    """

    scale: ClassVar[Scale] = Scale.RATIO
    state_type: ClassVar[type[State]] = Differences
    metrics: ClassVar[Mapping[str, Callable[[Differences], float]]] = {
        "smape": lambda state: _share(state.difference, state.size),
        "smape_mean": lambda state: state.ratios / state.pairs,
        "not_finite": lambda state: float(state.not_finite),
        "logged_nan": lambda state: float(state.logged_nan),
        "backfilled_nan": lambda state: float(state.backfilled_nan),
    }

    def scale_of(self, metric_name: str) -> Scale:
        """Return the scale of a metric: ratio for SMAPE, otherwise count."""
        return Scale.RATIO if "smape" in metric_name else Scale.COUNT

    def check_side(self, side: Field) -> None:
        """Raise unless the column holds numbers or maps of numbers."""
        self.require_numbers(side)

    def requests(self, schema: Schema) -> tuple[Request, ...]:
        """Request the sums of differences and sizes, and the counts."""
        a, b = self.sides(schema)
        if a.kind != "map":
            aggregates = self.counted(*(f"sum({term_sql})" for term_sql in _terms(a, b)))
            return in_workers(aggregates, a, b, "differences")
        terms = zip(_terms(*equality.values(a, b)), ["0L"] * 4 + ["0D"] * 3, strict=True)
        sums = (
            equality.added(equality.shared_values_sql(a, b, term), zero) for term, zero in terms
        )
        return self.counted(*(f"sum({term_sql})" for term_sql in sums))

    def fold(self, cells: Sequence[Any]) -> Differences:
        """Build the state from counts and sums."""
        numbers = counts(cells)
        return Differences(*numbers[:4], *map(float, numbers[4:]))

    def measure(self, state: Differences) -> float:
        """Return the ratio or the count."""
        if not state.pairs and "smape" in self.metric:
            raise self.no_data()
        return self.metrics[self.metric](state)

    def weight(self, state: Differences) -> float:
        """Return the number of finite pairs, or of all non-null pairs for counts."""
        return state.pairs if "smape" in self.metric else state.pairs + state.not_finite


def _terms(a: Field, b: Field) -> list[str]:
    """Return SQL for a pair's contribution to each field of `Differences`; null if it contributes nothing."""
    left, right, kinds = equality.as_compared(a.sql, b.sql, (a.kind, b.kind))
    distance = f"abs({equality.minus(left, right, kinds)})"
    size = f"(abs(CAST({left} AS DOUBLE)) + abs(CAST({right} AS DOUBLE)))"
    finite = f"{size} < {equality.INFINITY_SQL}"
    ratio = f"CASE WHEN {size} = 0 THEN 0D ELSE {distance} / {size} END"
    counted = (finite, f"{both(a, b)} AND NOT {finite}", _is_nan_sql(a), _is_nan_sql(b))
    return [
        *(f"CASE WHEN {condition} THEN 1L END" for condition in counted),
        *(f"CASE WHEN {finite} THEN {value} END" for value in (distance, size, ratio)),
    ]


def _is_nan_sql(side: Field) -> str:
    return f"isnan({side.sql})" if side.kind in {"float", "double"} else "false"


@analyzer
class ConsistencyKeys(Tolerant[KeyCounts, float]):
    """Key counts of two maps, summed over rows with both maps; undefined without such rows.

    Parameters
    ----------
    metric : str
        ``missing_keys`` (only in the backfilled map), ``extra_keys`` (only in the logged map),
        ``mismatched_keys`` (in both, with different values), ``left_keys`` or ``right_keys`` (all keys of
        the logged or backfilled map). A key in both maps with a null value on one side is missing or
        extra.
    group_by : str
        Name of the group-by.
    feature : str
        Name of the feature.
    absolute, relative : float
        Tolerance for numeric values.

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
            equality.only_in(b.sql, a.sql),
            equality.only_in(a.sql, b.sql),
            equality.different(a.sql, b.sql, (a.type, b.type), self.tolerance),
            f"size({a.sql})",
            f"size({b.sql})",
        )
        has_both = both(a, b)
        sums = (f"sum(CASE WHEN {has_both} THEN {number} END)" for number in numbers)
        return self.counted(f"count_if({has_both})", *sums)

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
