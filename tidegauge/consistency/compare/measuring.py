"""Comparison of logged with backfilled features, and measurement of each feature.

`compare` joins both sides and measures them. `value_pairs` counts the most frequent pairs of different
logged and backfilled values.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tidegauge.analyzers.core.errors import (
    IllegalAnalyzerParameterError,
    PreconditionError,
    UnknownNameError,
)
from tidegauge.analyzers.core.partitions import Values
from tidegauge.analyzers.core.privacy import PARTITIONS, PUBLIC, Privacy
from tidegauge.analyzers.core.schema import NUMERIC, TEXT, Schema, check_frame
from tidegauge.analyzers.core.sql import quote
from tidegauge.analyzers.runs.recording import Recorder
from tidegauge.analyzers.scan.scan import Group, Scan, scan
from tidegauge.consistency.compare.comparison import ALL_FEATURES, Comparison, record
from tidegauge.consistency.compare.distributions import (
    DEFAULT_MAX_LENGTH,
    ConsistencyDistribution,
    ConsistencyEdits,
    ConsistencyEditsSkipped,
    ConsistencyTexts,
    K,
)
from tidegauge.consistency.compare.equality import NO_TOLERANCE, Tolerance, holds, same
from tidegauge.consistency.compare.join import Alignment, own_presence, pair, rows_of
from tidegauge.consistency.compare.measures import (
    IS_MATCHED,
    LOGGED_PREFIX,
    AnyMeasure,
    ConsistencyCells,
    ConsistencyKeys,
    ConsistencyNumbers,
    ConsistencyRows,
    of_arrays,
    of_numbers,
)
from tidegauge.repository.store.config import privacy_settings

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame


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
    longest: int = DEFAULT_MAX_LENGTH,
    repository: Recorder | None = None,
    dataset: str | None = None,
) -> Comparison:
    """Compare logged features with backfilled features row by row, and measure each feature.

    Rows are joined by their keys and time, and by partition columns that both sides have. Null equals
    null. Rows on one side only are counted, and features are measured over matched rows. Spark caches the
    comparison table during the measurement. To store the table instead, write the result of
    `tidegauge.consistency.compare.join.pair` and pass it to `measure`.

    Parameters
    ----------
    logged : DataFrame
        Features served online.
    backfilled : DataFrame
        The same features, computed offline.
    keys : str or sequence of str
        Names of the key columns.
    time : str
        Name of the time column: a timestamp, or milliseconds since 1970.
    group_bys : mapping of str to sequence of str, optional
        The features of each group-by (default: all common columns, in one group-by named ``*``).
        `Comparison.notices` names the columns that only one side has.
    tolerance : mapping, optional
        Tolerance for numbers by feature: an absolute number, or ``{"abs": ..., "rel": ...}``. In
        arrays, maps and structs it applies to the numbers inside.
    bucket_minutes : int or None
        Width of the buckets ``hr_minute``, a divisor of a day; None for no buckets.
    partition_by : str or sequence of str
        Columns that partition the results. If no side has ``ds``, it is the UTC date of the time.
    logged_as : mapping of str to str, optional
        Names of features in the log, if they differ from the backfill's names.
    k : int
        Accuracy of distributions, an even number from 4 to 1024. Errors of ranks are at most 0.16 / k.
    longest : int
        Different arrays have no edit distance if the product of their lengths exceeds this number squared.
    repository : Repository, optional
        Repository to record the results in; see `record`.
    dataset : str, optional
        Dataset name in the repository.

    Returns
    -------
    Comparison
        The states and metrics of all features.

    Raises
    ------
    SourceError
        If a side is not a Spark DataFrame, or is a stream.
    PreconditionError
        If columns are missing or types are not comparable; the message lists all problems.

    Examples
    --------
    >>> import tidegauge as tg
    >>> spark = tg.spark_session()  # doctest: +SKIP
    >>> sql = "SELECT 7 AS user, timestamp '2023-01-05 07:30:00' AS ts, {} AS age"
    >>> logged, offline = spark.sql(sql.format(30)), spark.sql(sql.format(31))  # doctest: +SKIP
    >>> found = tg.consistency.compare(logged, offline, keys="user")  # doctest: +SKIP
    >>> metrics = found.merged(["ds"]).metrics()  # doctest: +SKIP
    >>> metrics.loc[metrics["metric_name"] == "mismatch", "number"].tolist()  # doctest: +SKIP
    [1.0]

    A tolerance allows numbers to differ:

    >>> near = tg.consistency.compare(logged, offline, keys="user", tolerance={"age": 1})  # doctest: +SKIP
    >>> metrics = near.merged().metrics()  # doctest: +SKIP
    >>> metrics.loc[metrics["metric_name"] == "mismatch", "number"].tolist()  # doctest: +SKIP
    [0.0]
    """
    if (repository is None) != (dataset is None):
        raise PreconditionError(
            "recording needs both a repository and a dataset; set both or neither"
        )
    check_frame(logged)
    check_frame(backfilled)
    keys, partition_by = _as_tuple(keys), _as_tuple(partition_by)
    features = _features_by_group(
        logged, backfilled, keys, time, group_bys, partition_by, logged_as or {}
    )
    feature_names = tuple(
        dict.fromkeys(name for group_features in features.values() for name in group_features)
    )
    if unknown := sorted({*(tolerance or {}), *(logged_as or {})} - set(feature_names)):
        raise UnknownNameError("feature", unknown[0], feature_names)
    pairs = Alignment(
        keys, feature_names, time, partition_by, bucket_minutes, dict(logged_as or {})
    )
    table = pair(logged, backfilled, pairs).persist()
    try:
        private = privacy_settings().for_dataset(dataset)
        comparison = measure(
            table, features, pairs.group_by, tolerance, k=k, longest=longest, private=private
        )
        if group_bys is None:
            comparison = replace(
                comparison, uncompared=tuple(_uncompared_notices(logged, backfilled, pairs))
            )
    finally:
        table.unpersist()
    if repository is not None and dataset is not None:
        record(comparison, repository, dataset)
    return comparison


def measure(
    table: DataFrame,
    group_bys: Mapping[str, Sequence[str]],
    partition_columns: Sequence[str] = ("ds", "hr_minute"),
    tolerance: Mapping[str, Any] | None = None,
    *,
    k: int = K,
    longest: int = DEFAULT_MAX_LENGTH,
    also: Collection[Values] = (),
    private: Privacy = PUBLIC,
) -> Comparison:
    """Measure a comparison table, read once for each group of features; see `compare`.

    Groups in ``also`` are part of the result even without rows. For features with ``private`` columns,
    metrics that would store values fail.
    """
    private = replace(
        private, columns=(*private.columns, *(f"{LOGGED_PREFIX}{item}" for item in private.columns))
    )
    private.refuse_names(partition_columns, PARTITIONS)
    schema = Schema.from_frame(table)
    allowed = {name: Tolerance.from_value(setting) for name, setting in (tolerance or {}).items()}
    measures: list[AnyMeasure] = []
    scans: list[Scan] = []
    for presence_group, features_by_group in _split_by_presence(table, group_bys).items():
        part = [
            item
            for group_by, features in features_by_group.items()
            for item in _measures(schema, group_by, features, allowed, k, longest)
        ]
        measures += part
        scans.append(
            scan(rows_of(table, presence_group), part, tuple(partition_columns), private=private)
        )
    groups = {
        values: _joined_group([item.groups.get(values, item.nothing) for item in scans])
        for values in sorted({*also, *(values for item in scans for values in item.groups)})
    }
    return Comparison(table, tuple(partition_columns), tuple(measures), groups)


def _split_by_presence(
    table: DataFrame, group_bys: Mapping[str, Sequence[str]]
) -> dict[str | None, dict[str, Sequence[str]]]:
    """Return group-bys by the presence column that they use; None for the common column."""
    parts: dict[str | None, dict[str, Sequence[str]]] = {}
    for name, features in group_bys.items():
        parts.setdefault(own_presence(table, name), {})[name] = features
    return parts


def _joined_group(groups: Sequence[Group]) -> Group:
    states = {measure: state for group in groups for measure, state in group.states.items()}
    return Group(max(group.rows for group in groups), states)


def _as_tuple(names: str | Sequence[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def _features_by_group(
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
    excluded = {name.casefold() for name in (*keys, time, *partition_by)}
    served = {name.casefold() for name in logged.columns}
    return {
        ALL_FEATURES: tuple(
            name
            for name in backfilled.columns
            if name.casefold() not in excluded and logged_as.get(name, name).casefold() in served
        )
    }


def _uncompared_notices(
    logged: DataFrame, backfilled: DataFrame, pairs: Alignment
) -> Iterator[str]:
    """Yield notices for columns of one side without a counterpart on the other side."""
    excluded = {name.casefold() for name in (*pairs.keys, pairs.time, *pairs.partition_by)}
    served = {pairs.in_log(name).casefold() for name in pairs.features}
    compared = {name.casefold() for name in pairs.features}
    for side, other_side, columns, compared_names in (
        ("the log", "the backfill", logged.columns, served),
        ("the backfill", "the log", backfilled.columns, compared),
    ):
        alone = [name for name in columns if name.casefold() not in excluded | compared_names]
        if alone:
            yield f"not compared, because {other_side} does not have them: {', '.join(alone)} of {side}"


def _measures(
    schema: Schema,
    group_by: str,
    features: Iterable[str],
    allowed: Mapping[str, Tolerance],
    k: int,
    longest: int,
) -> Iterator[AnyMeasure]:
    """Yield all measures of a group-by: for rows, and for each feature by its type."""
    yield from (ConsistencyRows(metric, group_by) for metric in ConsistencyRows.metrics)
    for name in features:
        field = schema.field(quote(name))
        near = allowed.get(name, NO_TOLERANCE)
        if near and not holds(field.type, NUMERIC):
            msg = f"{name!r} has type {field.kind} without numbers, so it cannot have a tolerance"
            raise IllegalAnalyzerParameterError(msg)
        subject, limits = (group_by, name), (near.absolute, near.relative)
        yield from (ConsistencyCells(m, *subject, *limits) for m in ConsistencyCells.metrics)
        if of_numbers(field) and of_numbers(schema.field(quote(LOGGED_PREFIX + name))):
            yield from (ConsistencyNumbers(m, *subject) for m in ConsistencyNumbers.metrics)
            yield from (
                ConsistencyDistribution(m, *subject, k) for m in ("delta", "logged", "backfilled")
            )
        if {field.kind, schema.field(quote(LOGGED_PREFIX + name)).kind} <= TEXT:
            yield from (ConsistencyTexts(m, *subject) for m in ConsistencyTexts.metrics)
        if field.kind == "map":
            yield from (ConsistencyKeys(m, *subject, *limits) for m in ConsistencyKeys.metrics)
        if of_arrays(field):
            lengths = ("logged_length", "backfilled_length")
            yield from (ConsistencyDistribution(m, *subject, k) for m in lengths)
            yield from (
                ConsistencyEdits(m, *subject, *limits, longest, k) for m in ConsistencyEdits.metrics
            )
            yield ConsistencyEditsSkipped("edit_skipped", *subject, *limits, longest)


def value_pairs(
    table: DataFrame,
    feature: str,
    *,
    tolerance: Any = 0.0,
    group_by: str | None = None,
    limit: int = 20,
) -> pd.DataFrame:
    """Count the pairs of different values of a feature in matched rows, the most frequent first.

    Use it to find a wrong mapping, a changed unit or a default that one side does not have. Rates show
    only that values differ. The rows are read; nothing is stored.

    Parameters
    ----------
    table : DataFrame
        A comparison table, such as ``spark.table("shop.search_comparison")`` or `Comparison.table`;
        filter it by ``ds`` for some days.
    feature : str
        A feature of any type. Values are shown as strings.
    tolerance : float or mapping
        As for `compare`: numbers within the tolerance are equal.
    group_by : str, optional
        The feature's group-by, required if group-bys have different backfills.
    limit : int
        Maximum number of pairs to return.

    Returns
    -------
    pandas.DataFrame
        ``logged`` and ``backfilled``, as strings or None for null, and the number of ``rows``.

    Raises
    ------
    NoSuchColumnError
        If the table does not have the feature on both sides.

    Examples
    --------
    >>> import tidegauge as tg
    >>> spark = tg.spark_session()  # doctest: +SKIP
    >>> sql = "SELECT 7 AS user, timestamp '2023-01-05 07:30:00' AS ts, {} AS age"
    >>> logged, offline = spark.sql(sql.format(30)), spark.sql(sql.format(31))  # doctest: +SKIP
    >>> found = tg.consistency.compare(logged, offline, keys="user")  # doctest: +SKIP
    >>> tg.consistency.value_pairs(found.table, "age").values.tolist()  # doctest: +SKIP
    [['30', '31', 1]]
    """
    import pandas as pd

    if limit < 1:
        raise IllegalAnalyzerParameterError(
            f"limit must be a positive number of pairs, not {limit!r}"
        )
    schema = Schema.from_frame(table)
    a, b = (schema.field(quote(name)) for name in (LOGGED_PREFIX + feature, feature))
    presence_group = None if group_by is None else own_presence(table, group_by)
    differ = f"{IS_MATCHED} AND NOT {same(a.sql, b.sql, (a.type, b.type), Tolerance.from_value(tolerance))}"
    counted = (
        rows_of(table, presence_group)
        .where(differ)
        .selectExpr(f"CAST({a.sql} AS STRING) AS logged", f"CAST({b.sql} AS STRING) AS backfilled")
        .groupBy("logged", "backfilled")
        .count()
    )
    most_frequent = counted.orderBy("count", "logged", "backfilled", ascending=[False, True, True])
    rows = [tuple(row) for row in most_frequent.limit(limit).collect()]
    return pd.DataFrame(rows, columns=["logged", "backfilled", "rows"])
