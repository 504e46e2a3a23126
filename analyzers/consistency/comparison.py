"""Compare what was served online with what is computed offline, feature by feature."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from analyzers.consistency.distributions import (
    LONGEST,
    QUANTILES,
    ConsistencyDistribution,
    ConsistencyEdits,
    ConsistencyEditsSkipped,
    K,
)
from analyzers.consistency.equality import EXACTLY, Tolerance, holds
from analyzers.consistency.maps import ConsistencyKeys
from analyzers.consistency.measures import (
    LOGGED,
    PRESENCE,
    AnyMeasure,
    ConsistencyCells,
    ConsistencyRows,
)
from analyzers.consistency.numbers import ConsistencyNumbers
from analyzers.consistency.pairs import Pairs, pair, presence_of
from analyzers.errors import IllegalAnalyzerParameterError, UnknownNameError
from analyzers.metric import Failure, Metric, Success, flatten
from analyzers.scan import AnyAnalyzer, Group, Outcome, Scan, metric_of, scan
from analyzers.schema import NUMERIC, Schema
from analyzers.segments import Values
from analyzers.sql import quote

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame

ALL = "*"
"""The group-by of features for which none is named, and the feature of metrics that are of rows."""
LONG_FORM = frozenset(
    [
        "mismatch",
        "missing",
        "extra",
        "both_null",
        "total",
        "smape",
        "smape_mean",
        "delta",
        "logged",
        "backfilled",
        "logged_length",
        "backfilled_length",
        "edit_insert",
        "edit_delete",
        "missing_keys",
        "extra_keys",
        "mismatched_keys",
        "left_keys",
        "right_keys",
        "row_missing",
        "row_extra",
    ]
)
"""The metrics of the long form; those beside them are in `Comparison.metrics` and in the repository."""


@dataclass(frozen=True, repr=False)
class Comparison:
    """What a comparison found, as states that add up.

    Attributes
    ----------
    table : DataFrame
        The comparison table, as `analyzers.consistency.pairs.pair` makes it.
    by : tuple of str
        Its columns by which the results are told apart.
    measures : tuple of Analyzer
        All that was measured.
    groups : mapping of tuple of str to Group
        The states, by the values of these columns.
    """

    table: DataFrame
    by: tuple[str, ...]
    measures: tuple[AnyMeasure, ...]
    groups: Mapping[Values, Group]

    def __repr__(self) -> str:
        """Say how much there is, not what."""
        features = len({m.instance for m in self.measures if not isinstance(m, ConsistencyRows)})
        rows = sum(group.rows for group in self.groups.values())
        return f"<Comparison of {features} features in {rows} rows and {len(self.groups)} groups>"

    def merged(self, by: Sequence[str] = ()) -> Comparison:
        """Add the results up over all columns but some: hours into days, or everything into one.

        Parameters
        ----------
        by : sequence of str
            The columns that stay, of `by`.

        Raises
        ------
        UnknownNameError
            If one is not among them.
        """
        for name in by:
            if name not in self.by:
                raise UnknownNameError("column", name, self.by)
        at = [self.by.index(name) for name in by]
        parts: dict[Values, list[Group]] = {}
        for values, group in self.groups.items():
            parts.setdefault(tuple(values[i] for i in at), []).append(group)
        groups = {values: self._added(some) for values, some in parts.items()}
        return Comparison(self.table, tuple(by), self.measures, groups)

    def _added(self, groups: Sequence[Group]) -> Group:
        states: dict[AnyAnalyzer, Outcome] = {}
        for measure in self.measures:
            found = [group.states[measure] for group in groups]
            failed = next((one for one in found if isinstance(one, Failure)), None)
            known = [one.value for one in found if isinstance(one, Success)]
            states[measure] = failed or Success(measure.state_type.merge(known))
        return Group(sum(group.rows for group in groups), states)

    def measured(self) -> Iterator[tuple[Values, AnyMeasure, Metric[Any]]]:
        """Yield every metric with what it is of, groups and measures in order."""
        for values in sorted(self.groups):
            states = self.groups[values].states
            for measure in self.measures:
                yield values, measure, metric_of(measure, states[measure])

    def metrics(self) -> pd.DataFrame:
        """Return every number as a row of a tidy frame.

        Returns
        -------
        pandas.DataFrame
            The columns of `by`, then ``group_by_name``, ``feature_name`` (``*`` for metrics of rows),
            ``metric_name`` (with the quantile of distributions, as in ``delta-p50``), ``number`` (NaN
            where there is none), ``weight`` (the rows behind it) and ``error``, why there is none.
        """
        import pandas as pd  # noqa: PLC0415 - heavy, and not needed to compare

        rows = [
            (*values, *_of(measure), one.name.partition(".")[2], *_told(one))
            for values, measure, metric in self.measured()
            for one in flatten(metric)
        ]
        names = ("group_by_name", "feature_name", "metric_name", "number", "weight", "error")
        return pd.DataFrame(rows, columns=[*self.by, *names])

    def long(self) -> pd.DataFrame:
        """Return the metrics in long form: one row for each, with a histogram or a number.

        Metrics without a value, as of features that are null throughout, have no row.

        Returns
        -------
        pandas.DataFrame
            The columns of `by`, then ``group_by_name``, ``feature_name`` (``*`` for rows), ``metric_name``,
            ``histogram`` (min, p5, p25, p50, p75, p95, max) and ``number``, of which exactly one is not
            None. ``mismatch``, ``missing``, ``extra`` and ``both_null`` are shares of the matched rows;
            ``total``, ``row_missing`` and ``row_extra`` are counts of rows, those of maps sums of keys.
        """
        import pandas as pd  # noqa: PLC0415

        rows = [
            (*values, *_of(measure), measure.metric, *_cells(metric.value))
            for values, measure, metric in self.measured()
            if measure.metric in LONG_FORM and not metric.failed
        ]
        names = ("group_by_name", "feature_name", "metric_name", "histogram", "number")
        return pd.DataFrame(rows, columns=[*self.by, *names], dtype=object)


def _of(measure: AnyMeasure) -> tuple[str, str]:
    return measure.group_by, getattr(measure, "feature", ALL)


def _told(metric: Metric[float]) -> tuple[float, float | None, str | None]:
    match metric.outcome:
        case Success(value):
            return value, metric.weight, None
        case Failure(error):
            return float("nan"), metric.weight, str(error)


def _cells(value: Any) -> tuple[list[float] | None, float | None]:
    if isinstance(value, Mapping):
        return [value[name] for name in QUANTILES], None
    return None, value


def compare(
    logged: DataFrame,
    backfilled: DataFrame,
    keys: str | Sequence[str],
    time: str = "ts",
    *,
    group_bys: Mapping[str, Sequence[str]] | None = None,
    tolerance: Mapping[str, Any] | None = None,
    bucket_minutes: int | None = 60,
    partition_by: str | Sequence[str] = ("ds",),
    logged_as: Mapping[str, str] | None = None,
    k: int = K,
    longest: int = LONGEST,
) -> Comparison:
    """Compare logged features with backfilled ones, row by row, and measure each of them.

    Rows are joined by their keys and time (and by the partition columns that both sides have), null being
    equal to null. Rows on one side only are counted as such; features are measured over matched rows. Both
    sides are kept in Spark's cache while they are measured. To keep the comparison table instead, write
    what `analyzers.consistency.pairs.pair` returns, and give it to `measure`.

    Parameters
    ----------
    logged : DataFrame
        What was served online.
    backfilled : DataFrame
        The same, computed offline.
    keys : str or sequence of str
    time : str
        A timestamp, or milliseconds since 1970.
    group_bys : mapping of str to sequence of str, optional
        The features of each group-by; without it all columns that both sides have, in one called ``*``.
    tolerance : mapping, optional
        By feature how far apart equal numbers may lie: a number, or ``{"abs": ..., "rel": ...}``. In arrays,
        maps and structs it holds for the numbers inside.
    bucket_minutes : int or None
        The width of the buckets ``hr_minute``, which divides a day; None for no buckets.
    partition_by : str or sequence of str
        Columns by which results are told apart. ``ds`` is made of the time, in UTC, where no side has it.
    logged_as : mapping of str to str, optional
        What features are called in the log, where that is another name.
    k : int
        How accurate distributions are; see `ReqQuantile`.
    longest : int
        Arrays that differ, whose lengths multiply to more than its square, get no edit distance.

    Returns
    -------
    Comparison

    Raises
    ------
    PreconditionError
        Naming all that does not fit: columns that are not there, types that cannot be compared.

    Examples
    --------
    Of two frames with the columns ``user``, ``ts`` and ``age``::

        found = compare(log, backfill, keys=["user"], tolerance={"age": 0.5})
        found.merged(["ds"]).metrics()
    """
    keys, partition_by = _names(keys), _names(partition_by)
    features = _features(logged, backfilled, keys, time, group_bys, partition_by, logged_as or {})
    named = tuple(dict.fromkeys(name for some in features.values() for name in some))
    if unknown := sorted({*(tolerance or {}), *(logged_as or {})} - set(named)):
        raise UnknownNameError("feature", unknown[0], named)
    pairs = Pairs(keys, named, time, partition_by, bucket_minutes, dict(logged_as or {}))
    table = pair(logged, backfilled, pairs).persist()
    try:
        found = measure(table, features, pairs.by, tolerance, k=k, longest=longest)
    finally:
        table.unpersist()
    return found


def measure(
    table: DataFrame,
    group_bys: Mapping[str, Sequence[str]],
    by: Sequence[str] = ("ds", "hr_minute"),
    tolerance: Mapping[str, Any] | None = None,
    *,
    k: int = K,
    longest: int = LONGEST,
) -> Comparison:
    """Measure a comparison table, which is read once for some features at a time; see `compare`."""
    schema = Schema.of_frame(table)
    allowed = {name: Tolerance.of(given) for name, given in (tolerance or {}).items()}
    measures: list[AnyMeasure] = []
    found: list[Scan] = []
    for presence, some in _parts(table, group_bys).items():
        part = [
            one
            for group_by, features in some.items()
            for one in _measures(schema, group_by, features, allowed, k, longest)
        ]
        measures += part
        found.append(scan(_as_presence(table, presence), part, tuple(by)))
    groups = {
        values: _together([one.groups.get(values, one.nothing) for one in found])
        for values in sorted({values for one in found for values in one.groups})
    }
    return Comparison(table, tuple(by), tuple(measures), groups)


def _parts(
    table: DataFrame, group_bys: Mapping[str, Sequence[str]]
) -> dict[str, dict[str, Sequence[str]]]:
    """Return the group-bys by the column that says which rows they have."""
    parts: dict[str, dict[str, Sequence[str]]] = {}
    for name, features in group_bys.items():
        own = presence_of(name)
        parts.setdefault(own if own in table.columns else PRESENCE, {})[name] = features
    return parts


def _as_presence(table: DataFrame, column: str) -> DataFrame:
    """Return the rows that some group-bys have."""
    if column == PRESENCE:
        return table
    others = [quote(name) for name in table.columns if name not in {PRESENCE, column}]
    there = f"{quote(column)} IS NOT NULL"
    return table.where(there).selectExpr(*others, f"{quote(column)} AS {PRESENCE}")


def _together(groups: Sequence[Group]) -> Group:
    states = {measure: state for group in groups for measure, state in group.states.items()}
    return Group(max(group.rows for group in groups), states)


def _names(given: str | Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _features(
    logged: DataFrame,
    backfilled: DataFrame,
    keys: Sequence[str],
    time: str,
    group_bys: Mapping[str, Sequence[str]] | None,
    partition_by: Sequence[str],
    logged_as: Mapping[str, str],
) -> dict[str, tuple[str, ...]]:
    """Return the features of each group-by."""
    if group_bys is not None:
        return {name: tuple(features) for name, features in group_bys.items()}
    taken = {name.casefold() for name in (*keys, time, *partition_by)}
    served = {name.casefold() for name in logged.columns}
    return {
        ALL: tuple(
            name
            for name in backfilled.columns
            if name.casefold() not in taken and logged_as.get(name, name).casefold() in served
        )
    }


def _measures(
    schema: Schema,
    group_by: str,
    features: Iterable[str],
    allowed: Mapping[str, Tolerance],
    k: int,
    longest: int,
) -> Iterator[AnyMeasure]:
    """Yield all that is measured of a group-by: of rows, and of each feature by its type."""
    yield from (ConsistencyRows(metric, group_by) for metric in ConsistencyRows.metrics)
    for name in features:
        field = schema.field(quote(name))
        near = allowed.get(name, EXACTLY)
        if near and not holds(field.type, NUMERIC):
            msg = f"{name!r} is of type {field.kind} and holds no numbers, so it can have no tolerance"
            raise IllegalAnalyzerParameterError(msg)
        of, within = (group_by, name), (near.absolute, near.relative)
        yield from (ConsistencyCells(m, *of, *within) for m in ConsistencyCells.metrics)
        if {field.kind, schema.field(quote(LOGGED + name)).kind} <= NUMERIC:
            yield from (ConsistencyNumbers(m, *of) for m in ConsistencyNumbers.metrics)
            yield from (
                ConsistencyDistribution(m, *of, k) for m in ("delta", "logged", "backfilled")
            )
        elif field.kind == "array":
            lengths = ("logged_length", "backfilled_length")
            yield from (ConsistencyDistribution(m, *of, k) for m in lengths)
            yield from (
                ConsistencyEdits(m, *of, *within, longest, k) for m in ConsistencyEdits.metrics
            )
            yield ConsistencyEditsSkipped("edit_skipped", *of, *within, longest)
        elif field.kind == "map":
            yield from (ConsistencyKeys(m, *of, *within) for m in ConsistencyKeys.metrics)
