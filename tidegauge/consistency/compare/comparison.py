"""Comparison of logged with backfilled features, and its results, feature by feature.

`compare` joins both sides and measures them. `value_pairs` counts the most frequent pairs of different
logged and backfilled values.

A `Comparison` has mergeable states. It is recorded in a repository as the metrics of a run, without
reading data again. Compared rows and metrics are written to tables, which are updated by whole days.
`drift` compares both sides of a feature from stored states, without Spark.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidegauge.analyzers.core.analyzer import AnyAnalyzer
from tidegauge.analyzers.core.errors import (
    IllegalAnalyzerParameterError,
    PreconditionError,
    SourceError,
    UnknownNameError,
)
from tidegauge.analyzers.core.formatting import plural
from tidegauge.analyzers.core.metric import Failure, Metric, Success, flatten
from tidegauge.analyzers.core.partitions import NULL, Partition, TimeFormat, Values, recognise_time
from tidegauge.analyzers.core.privacy import PARTITIONS, PUBLIC, Privacy
from tidegauge.analyzers.core.registry import canonical_json, key_of
from tidegauge.analyzers.core.schema import NUMERIC, TEXT, Schema, check_frame
from tidegauge.analyzers.core.sql import literal, quote, type_sql
from tidegauge.analyzers.runs.ledger import LedgerEntry, MeasuredPartition, RunSpec
from tidegauge.analyzers.runs.recording import Recorder, RunReport, measured_states, recording
from tidegauge.analyzers.scan.capabilities import from_arrow
from tidegauge.analyzers.scan.grouping import filter_partitions
from tidegauge.analyzers.scan.scan import Group, Outcome, Scan, metric_of, scan
from tidegauge.analyzers.sources.opening import open_table
from tidegauge.analyzers.sources.targets import TableTarget, replace
from tidegauge.consistency.compare.distributions import (
    DEFAULT_MAX_LENGTH,
    RANK_BY_QUANTILE,
    ConsistencyDistribution,
    ConsistencyEdits,
    ConsistencyEditsSkipped,
    ConsistencyTexts,
    K,
)
from tidegauge.consistency.compare.equality import NO_TOLERANCE, Tolerance, holds, same, shape
from tidegauge.consistency.compare.join import (
    BUCKET_COLUMN,
    DATE_COLUMN,
    Alignment,
    own_presence,
    pair,
    rows_of,
)
from tidegauge.consistency.compare.measures import (
    COPY_COLUMN,
    IS_MATCHED,
    LOGGED_PREFIX,
    NULL_KEY_COLUMN,
    PRESENCE_COLUMN,
    AnyMeasure,
    ConsistencyCells,
    ConsistencyKeys,
    ConsistencyNumbers,
    ConsistencyRows,
    compared_as_floats,
    of_arrays,
    of_numbers,
)
from tidegauge.consistency.configuration import OF_LOG
from tidegauge.consistency.log.decoding import DayCounts
from tidegauge.consistency.log.schemas import promoted
from tidegauge.consistency.log.table import finish_widening, join_table, widen
from tidegauge.repository.distributions.drift import Drifted, Side
from tidegauge.repository.distributions.drift import drift as drift_of
from tidegauge.repository.distributions.stored import StoredColumn
from tidegauge.repository.store.config import privacy_settings
from tidegauge.repository.store.consistency_series import PREFIX

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from tidegauge.repository.repository import Repository

ALL_FEATURES = "*"
"""Group-by of features without a named group-by, and feature name of row metrics."""
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
"""Metrics in the long form. `Comparison.metrics` and the repository also have the others."""


@dataclass(frozen=True, repr=False)
class Comparison:
    """Result of a comparison, as mergeable states.

    Attributes
    ----------
    table : DataFrame
        The comparison table, as returned by `tidegauge.consistency.compare.join.pair`.
    group_by : tuple of str
        Columns of the table that partition the results.
    measures : tuple of Analyzer
        All measures.
    groups : mapping of tuple of str to Group
        The states, by the values of the ``group_by`` columns.
    uncompared : tuple of str
        Notices that name columns of only one side, if the features were not named.

    Examples
    --------
    >>> import tidegauge as tg
    >>> spark = tg.spark_session()  # doctest: +SKIP
    >>> sql = "SELECT 7 AS user, timestamp '2023-01-05 07:30:00' AS ts, {} AS age"
    >>> logged, offline = spark.sql(sql.format(30)), spark.sql(sql.format(31))  # doctest: +SKIP
    >>> comparison = tg.consistency.compare(logged, offline, keys="user")  # doctest: +SKIP
    >>> comparison  # doctest: +SKIP
    <Comparison of 1 feature in 1 row and 1 group>
    >>> metrics = comparison.merged().metrics().set_index("metric_name")["number"]  # doctest: +SKIP
    >>> metrics[["mismatch", "delta-p50"]].tolist()  # doctest: +SKIP
    [1.0, 1.0]
    """

    table: DataFrame
    group_by: tuple[str, ...]
    measures: tuple[AnyMeasure, ...]
    groups: Mapping[Values, Group]
    uncompared: tuple[str, ...] = ()

    @property
    def notices(self) -> tuple[str, ...]:
        """Notices for the reader: columns that were not compared, and features compared as floats."""
        return (*self.uncompared, *compared_as_floats(Schema.from_frame(self.table)))

    def __repr__(self) -> str:
        """Return a summary with the numbers of features, rows and groups, and the notices."""
        features = len({m.instance for m in self.measures if not isinstance(m, ConsistencyRows)})
        rows = sum(group.rows for group in self.groups.values())
        summary = f"{plural(features, 'feature')} in {plural(rows, 'row')} and {plural(len(self.groups), 'group')}"
        return "\n".join([f"<Comparison of {summary}>", *self.notices])

    def merged(self, group_by: Sequence[str] = ()) -> Comparison:
        """Roll up the results to fewer columns: hours into days, or everything into one group.

        Parameters
        ----------
        group_by : sequence of str
            The columns of `group_by` to keep.

        Raises
        ------
        UnknownNameError
            If a column is not in `group_by`.
        """
        for name in group_by:
            if name not in self.group_by:
                raise UnknownNameError("column", name, self.group_by)
        indexes = [self.group_by.index(name) for name in group_by]
        parts: dict[Values, list[Group]] = {}
        for values, group in self.groups.items():
            parts.setdefault(tuple(values[i] for i in indexes), []).append(group)
        groups = {values: self._added(group_list) for values, group_list in parts.items()}
        return Comparison(self.table, tuple(group_by), self.measures, groups, self.uncompared)

    def _added(self, groups: Sequence[Group]) -> Group:
        states: dict[AnyAnalyzer, Outcome] = {}
        for measure in self.measures:
            outcomes = [group.states[measure] for group in groups]
            failed = next((outcome for outcome in outcomes if isinstance(outcome, Failure)), None)
            values = [outcome.value for outcome in outcomes if isinstance(outcome, Success)]
            states[measure] = failed or Success(measure.state_type.merge(values))
        return Group(sum(group.rows for group in groups), states)

    def measured(self) -> Iterator[tuple[Values, AnyMeasure, Metric[Any]]]:
        """Yield every metric with its group and measure, in order."""
        for values in sorted(self.groups):
            states = self.groups[values].states
            for measure in self.measures:
                yield values, measure, metric_of(measure, states[measure])

    def metrics(self) -> pd.DataFrame:
        """Return all metrics as a tidy frame, one row per number.

        Returns
        -------
        pandas.DataFrame
            The columns of `group_by`, then ``group_by_name``, ``feature_name`` (``*`` for metrics of rows),
            ``metric_name`` (with the quantile of distributions, as in ``delta-p50``), ``number`` (NaN
            if undefined), ``weight`` (the rows behind it) and ``error`` (the reason for NaN).
        """
        import pandas as pd

        rows = [
            (
                *values,
                *_subject_of(measure),
                number.name.partition(".")[2],
                *_value_and_error(number),
            )
            for values, measure, metric in self.measured()
            for number in flatten(metric)
        ]
        names = ("group_by_name", "feature_name", "metric_name", "number", "weight", "error")
        return pd.DataFrame(rows, columns=[*self.group_by, *names])

    def long(self) -> pd.DataFrame:
        """Return the metrics in long form: one row each, with a histogram or a number.

        Metrics without a value, for example of all-null features, have no row.

        Returns
        -------
        pandas.DataFrame
            The columns of `group_by`, then ``group_by_name``, ``feature_name`` (``*`` for rows),
            ``metric_name``, ``histogram`` (min, p5, p25, p50, p75, p95, max) and ``number``. Exactly one
            of ``histogram`` and ``number`` is not None. ``mismatch``, ``missing``, ``extra`` and
            ``both_null`` are fractions of the matched rows. ``total``, ``row_missing`` and ``row_extra``
            count rows. Map metrics are sums of keys.

        Examples
        --------
        >>> import tidegauge as tg
        >>> spark = tg.spark_session()  # doctest: +SKIP
        >>> sql = "SELECT 7 AS user, timestamp '2023-01-05 07:30:00' AS ts, {} AS age"
        >>> logged, offline = spark.sql(sql.format(30)), spark.sql(sql.format(31))  # doctest: +SKIP
        >>> comparison = tg.consistency.compare(logged, offline, keys="user")  # doctest: +SKIP
        >>> rows = comparison.merged().long().set_index("metric_name")  # doctest: +SKIP
        >>> rows.loc["mismatch", "number"], rows.loc["delta", "histogram"][3]  # doctest: +SKIP
        (1.0, 1.0)
        """
        import pandas as pd

        rows = [
            (*values, *_subject_of(measure), measure.metric, *_long_cells(metric.value))
            for values, measure, metric in self.measured()
            if measure.metric in LONG_FORM and not metric.failed
        ]
        names = ("group_by_name", "feature_name", "metric_name", "histogram", "number")
        return pd.DataFrame(rows, columns=[*self.group_by, *names], dtype=object)


def _subject_of(measure: AnyMeasure) -> tuple[str, str]:
    return measure.group_by, getattr(measure, "feature", ALL_FEATURES)


def _value_and_error(metric: Metric[float]) -> tuple[float, float | None, str | None]:
    match metric.outcome:
        case Success(value):
            return value, metric.weight, None
        case Failure(error):
            return float("nan"), metric.weight, str(error)


def _long_cells(value: Any) -> tuple[list[float] | None, float | None]:
    if isinstance(value, Mapping):
        return [value[name] for name in RANK_BY_QUANTILE], None
    return None, value


_BUCKET_TIME_FORMATS = ("%Y-%m-%d %H-%M", "%Y%m%d %H-%M")


def record(
    comparison: Comparison,
    repository: Recorder,
    dataset: str,
    *,
    source: str | None = None,
    fingerprints: Mapping[str, str] | None = None,
    tags: Mapping[str, str] | None = None,
    monitors: Sequence[Mapping[str, Any]] = (),
) -> RunReport:
    """Store the states and metrics of each bucket.

    Metrics are named ``Consistency.<metric>``, on the instance ``<group_by>.<feature>``, or
    ``<group_by>`` for row metrics. A bucket that was measured before with other states gets a
    new version.

    Parameters
    ----------
    comparison : Comparison
        The measured comparison.
    repository : Repository
        The repository to record in.
    dataset : str
        Dataset name, such as ``<namespace>.<join>``.
    source : str, optional
        Name of the comparison table, if it is stored.
    fingerprints : mapping of str to str, optional
        Data fingerprints by partition name, as in ``ds=2023-01-05/hr_minute=07-00``.
    tags : mapping, optional
        Tags of the run.
    monitors : sequence of mapping
        Monitors of these metrics, in the form of suite files, for `repository.detect`.

    Returns
    -------
    RunReport
        The report of the run, with its id.

    Raises
    ------
    LeaseError
        If another run holds the dataset's lease for an hour.

    Examples
    --------
    >>> import tidegauge as tg
    >>> spark = tg.spark_session()  # doctest: +SKIP
    >>> sql = "SELECT 7 AS user, timestamp '2023-01-05 07:30:00' AS ts, {} AS age"
    >>> logged, offline = spark.sql(sql.format(30)), spark.sql(sql.format(31))  # doctest: +SKIP
    >>> comparison = tg.consistency.compare(logged, offline, keys="user")  # doctest: +SKIP
    >>> with tg.Repository("sqlite://") as repo:  # doctest: +SKIP
    ...     report = tg.consistency.record(comparison, repo, "shop.search")
    ...     repo.metrics("shop.search", "Consistency.mismatch")["value"].tolist()
    [1.0]
    """
    partition_columns = comparison.group_by
    measures = sorted(measure.canonical() for measure in comparison.measures)
    identity = {"dataset": dataset, "consistency": key_of(canonical_json(measures))}
    suite = canonical_json({**identity, **({"monitors": list(monitors)} if monitors else {})})
    stored_tags = {str(key): str(value) for key, value in (tags or {}).items()}
    spec = RunSpec(dataset, source, partition_columns, suite, "all", stored_tags)
    with recording(repository.store, spec) as run:
        run.commit(list(_measured(comparison, fingerprints or {}, run.ledger())))
    return run.report


def record_log(days: Sequence[DayCounts], repository: Recorder, dataset: str) -> int:
    """Store daily counts of read queries of a log, and return the number of new values.

    ``QueryLog.read`` and ``QueryLog.empty`` count queries. ``QueryLog.unreadable`` counts queries that
    could not be decoded, in total (instance ``*``) and by reason. ``QueryLog.unreadable_share`` is their
    share, or 0 without queries.

    Parameters
    ----------
    days : sequence of DayCounts
        Counts by day. Days without a name are skipped.
    repository : Repository
        The repository to record in.
    dataset : str
        Dataset name of the log's metrics.
    """
    values_by_series: dict[tuple[str, str], dict[Partition, float]] = {}
    reasons = sorted({reason for day in days for reason in day.bad})
    for day in days:
        if day.ds is None:
            continue
        bad = sum(day.bad.values())
        values = {
            ("read", ALL_FEATURES): day.read,
            ("empty", ALL_FEATURES): day.empty,
            ("unreadable", ALL_FEATURES): bad,
            ("unreadable_share", ALL_FEATURES): bad / day.rows if day.rows else 0.0,
            **{("unreadable", reason): day.bad.get(reason, 0) for reason in reasons},
        }
        for key, value in values.items():
            values_by_series.setdefault(key, {})[Partition((DATE_COLUMN,), (day.ds,))] = float(
                value
            )
    return sum(
        repository.record(dataset, f"{OF_LOG}{name}", values, instance=instance)
        for (name, instance), values in values_by_series.items()
    )


def is_of_log(monitor: Mapping[str, Any]) -> bool:
    """Return whether a monitor watches metrics of a query log, instead of a comparison."""
    return str(dict(monitor.get("series", {})).get("name", "")).startswith(OF_LOG)


def time_format(keys: tuple[str, ...]) -> TimeFormat | None:
    """Return the time format of a comparison's partitions: date and bucket start.

    Examples
    --------
    >>> partition = Partition(("ds", "hr_minute"), ("2023-01-05", "07-30"))
    >>> str(time_format(partition.keys).time_of(partition))
    '2023-01-05 07:30:00+00:00'
    """
    if {DATE_COLUMN, BUCKET_COLUMN} <= set(keys):
        return TimeFormat((DATE_COLUMN, BUCKET_COLUMN), _BUCKET_TIME_FORMATS)
    return recognise_time(keys)


def _measured(
    comparison: Comparison, fingerprints: Mapping[str, str], ledger: Mapping[str, LedgerEntry]
) -> Iterator[MeasuredPartition]:
    """Yield the measurements of each bucket, in the form of a scan."""
    partition_columns = comparison.group_by
    time = time_format(partition_columns)
    schema = Schema.from_spark(comparison.table.schema).without(set(partition_columns)).canonical()
    groups = sorted(comparison.groups.items())
    for values, group in groups:
        partition = Partition(partition_columns, values)
        fingerprint = fingerprints.get(partition.name)
        previous = ledger.get(partition.name)
        same = previous is not None and previous.fingerprint == fingerprint
        yield MeasuredPartition.from_measurements(
            partition,
            measured_states(group.states, comparison.measures),
            time,
            fingerprint=fingerprint,
            schema=schema,
            rows=group.rows,
            added_to=previous.version if previous is not None and same else None,
        )


def drift(
    repository: Repository,
    dataset: str,
    feature: str,
    at: Side,
    *,
    segment: str | None = None,
    record: bool = False,
) -> Drifted:
    """Compare the distribution of a feature's logged values with its backfill.

    Rows are not matched one by one. The result shows whether a model gets other values than in training,
    even if many rows differ only slightly. For the drift of logged values over time use
    `Repository.drift`, with the feature as the column.

    Parameters
    ----------
    repository : Repository
        The repository with the distributions.
    dataset : str
        Dataset name, such as ``<namespace>.<join>``.
    feature : str
        The instance of its metrics, ``<group_by>.<feature>``: a number, a map of numbers, or a string with
        few different values. Up to about 190 different values are counted exactly.
    at : str or pair
        The name of a partition, or a window ``(since, until)`` on the partitions' time, whose
        partitions are merged.
    segment : str, optional
        The segment (default: all segments).
    record : bool
        Store the distances of a partition as metrics of the feature, so that monitors can watch them:
        ``Consistency.psi``, ``js``, ``ks`` and ``wasserstein``, or for strings ``psi``, ``js``, ``unseen``
        and ``lost``.

    Returns
    -------
    Drifted
        The drift, with the backfilled values as the baseline and the logged values as the current side.
        The distances are NaN if one side has no values.

    Raises
    ------
    HistoryError
        If no distributions of the feature are stored, or the partition does not exist.
    StateMismatchError
        If a string feature has more values than are counted exactly.

    Examples
    --------
    >>> import tidegauge as tg
    >>> spark = tg.spark_session()  # doctest: +SKIP
    >>> sql = "SELECT 7 AS user, timestamp '2023-01-05 07:30:00' AS ts, {} AS age"
    >>> logged, offline = spark.sql(sql.format(30)), spark.sql(sql.format(31))  # doctest: +SKIP
    >>> comparison = tg.consistency.compare(logged, offline, keys="user")  # doctest: +SKIP
    >>> with tg.Repository("sqlite://") as repo:  # doctest: +SKIP
    ...     report = tg.consistency.record(comparison, repo, "shop.search")
    ...     hour = repo.metrics("shop.search")["partition"].iloc[0]
    ...     tg.consistency.drift(repo, "shop.search", "*.age", hour).ks
    1.0
    """
    logged = StoredColumn(repository.database, repository.artifacts, dataset, feature, segment)
    backfilled = dataclasses.replace(logged, side="backfilled")
    drifted = drift_of(logged, at, at, record=record, against=backfilled, prefix=PREFIX)
    return dataclasses.replace(
        drifted, baseline=f"backfilled, {drifted.baseline}", current=f"logged, {drifted.current}"
    )


_DAY_MARK_PREFIX = "tidegauge.compared."
"""Property prefix of the comparison table: fingerprint of each day's inputs."""
_GROUP_BY_COLUMN = "group_by_name"


@dataclass(frozen=True)
class ComparisonTable:
    """Table ``<namespace>.<join>_comparison``: logged and backfilled values of each row, partitioned by ds."""

    spark: SparkSession
    name: str

    @classmethod
    def for_join(cls, spark: SparkSession, namespace: str, join: str) -> ComparisonTable:
        """Return the comparison table of a join, which may not exist yet.

        Raises
        ------
        SourceError
            If a table with this name exists and is not a comparison table.
        """
        table = cls(spark, join_table(namespace, join, "comparison"))
        finish_widening(spark, table.name)
        if table.exists() and not {
            PRESENCE_COLUMN,
            COPY_COLUMN,
            NULL_KEY_COLUMN,
            DATE_COLUMN,
        } <= set(table._columns()):
            raise SourceError(f"{table.name} was not written by a comparison; rename it")
        return table

    def marks(self) -> dict[str, str]:
        """Return the input fingerprint of each day; empty if the table does not exist."""
        if not self.exists():
            return {}
        properties: dict[str, str] = dict(
            self.spark.sql(f"SHOW TBLPROPERTIES {self.name}").collect()
        )
        return {
            key.removeprefix(_DAY_MARK_PREFIX): mark
            for key, mark in properties.items()
            if key.startswith(_DAY_MARK_PREFIX)
        }

    def features(self) -> tuple[str, ...]:
        """Return the features with logged and backfilled values, in lower case."""
        columns = [name.casefold() for name in self._columns()]
        return tuple(name for name in columns if LOGGED_PREFIX + name in columns)

    def notices(self) -> tuple[str, ...]:
        """Return a notice if features are compared as floats, because one side has only float precision."""
        if not self.exists():
            return ()
        return compared_as_floats(Schema.from_frame(self.spark.table(self.name)))

    def read(self, days: Collection[str]) -> DataFrame:
        """Return the rows of the given days."""
        return filter_partitions(
            self.spark.table(self.name), (DATE_COLUMN,), [(day,) for day in days]
        )

    def write(self, data: DataFrame, marks: Mapping[str, str]) -> None:
        """Replace days and store their input fingerprints.

        Parameters
        ----------
        data : DataFrame
            The compared rows of the days.
        marks : mapping of str to str
            Input fingerprints by day. Days without rows are emptied.

        Raises
        ------
        SourceError
            If a column's type has changed.
        """
        if self.exists():
            data = self._fitted(data)
            # Clear the marks first, because a run that is killed while writing leaves days in an unknown state.
            keys = ", ".join(literal(_DAY_MARK_PREFIX + day) for day in marks)
            self.spark.sql(
                f"ALTER TABLE {self.name} UNSET TBLPROPERTIES IF EXISTS ({keys})"
            ).collect()
        else:
            self._create(_column_types(data))
        old_fingerprints = self._fingerprints()
        target = TableTarget(self.spark, self.name)
        target.write(data, "partitions", [DATE_COLUMN], ())
        # Writing replaces only days with rows. A day with unchanged files has no rows now, so drop it.
        new_fingerprints = self._fingerprints()
        target.drop(
            [
                (day,)
                for day in marks
                if day in old_fingerprints and old_fingerprints[day] == new_fingerprints.get(day)
            ]
        )
        assignments = ", ".join(
            f"{literal(_DAY_MARK_PREFIX + d)} = {literal(m)}" for d, m in marks.items()
        )
        self.spark.sql(f"ALTER TABLE {self.name} SET TBLPROPERTIES ({assignments})").collect()

    def _create(self, types: Mapping[str, Any]) -> None:
        """Create the table in one statement, because Spark would write a DataFrame as a table in several steps."""
        columns = ", ".join(
            f"{quote(n)} {type_sql(t)}" for n, t in types.items() if n != DATE_COLUMN
        )
        self.spark.sql(
            f"CREATE TABLE {self.name} ({columns}) USING parquet PARTITIONED BY ({DATE_COLUMN} STRING)"
        ).collect()

    def exists(self) -> bool:
        """Return whether the table exists."""
        return self.spark.catalog.tableExists(self.name)

    def _columns(self) -> list[str]:
        return self.spark.table(self.name).columns

    def _fitted(self, data: DataFrame) -> DataFrame:
        """Return rows with all columns of the table, after adding new columns and widening numeric columns."""
        types, table_types = _column_types(data), _column_types(self.spark.table(self.name))
        table_columns = {
            name.casefold(): (name, data_type) for name, data_type in table_types.items()
        }
        wider, cast = {}, {}
        for name, data_type in types.items():
            table_name, table_type = table_columns.get(name.casefold(), (name, data_type))
            if shape(data_type) == shape(table_type):
                continue
            wider_type = promoted(table_type, data_type)
            if wider_type is None:
                raise SourceError(
                    f"{name!r} is {shape(data_type)} now, but {shape(table_type)} in {self.name}: drop that table, and"
                    " the next run compares its days again"
                )
            cast[name] = type_sql(wider_type)
            if shape(wider_type) != shape(table_type):
                wider[table_name] = wider_type
        if wider:
            widen(self.spark, self.name, wider, DATE_COLUMN)
        data = data.selectExpr(
            *(
                f"CAST({quote(n)} AS {cast[n]}) AS {quote(n)}" if n in cast else quote(n)
                for n in types
            )
        )
        new = [
            f"{quote(n)} {type_sql(t)}"
            for n, t in types.items()
            if n.casefold() not in table_columns
        ]
        if new:
            self.spark.sql(f"ALTER TABLE {self.name} ADD COLUMNS ({', '.join(new)})").collect()
        given_names = {name.casefold() for name in types}
        lacking = (
            f"CAST(NULL AS {type_sql(t)}) AS {quote(n)}"
            for n, t in table_types.items()
            if n.casefold() not in given_names
        )
        return data.selectExpr("*", *lacking)

    def _fingerprints(self) -> dict[str, str | None]:
        if not self.exists():
            return {}
        listed = open_table(self.spark, self.name).list_partitions()
        return {entry.partition.value(DATE_COLUMN): entry.fingerprint for entry in listed}


def write_metrics(
    spark: SparkSession, namespace: str, join: str, comparison: Comparison, days: Collection[str]
) -> str:
    """Write the metrics of days in long form as ``<namespace>.<join>_consistency_metrics``.

    The table has the columns feature_name, metric_name, the segment columns, histogram and number.
    Exactly one of histogram and number is not null. The table is partitioned by ds, hr_minute and
    group_by_name. Existing metrics of these days are replaced.

    Parameters
    ----------
    spark : SparkSession
        The session that writes the table.
    namespace, join : str
        The namespace and the name of the join.
    comparison : Comparison
        The measured comparison.
    days : collection of str
        The days to replace.

    Returns
    -------
    str
        The table's full name, quoted.

    Raises
    ------
    SourceError
        If the table exists with other columns.
    """
    name = join_table(namespace, join, "consistency_metrics")
    segments = [
        column for column in comparison.group_by if column not in {DATE_COLUMN, BUCKET_COLUMN}
    ]
    columns = [
        "feature_name STRING",
        "metric_name STRING",
        *(f"{quote(segment)} STRING" for segment in segments),
        "histogram ARRAY<DOUBLE>",
        "number DOUBLE",
    ]
    keys = (DATE_COLUMN, BUCKET_COLUMN, _GROUP_BY_COLUMN)
    spark.sql(
        f"CREATE TABLE IF NOT EXISTS {name} ({', '.join(columns)}) USING parquet"
        f" PARTITIONED BY ({', '.join(f'{key} STRING' for key in keys)})"
    ).collect()
    existing = [column.name for column in spark.catalog.listColumns(name)]
    expected = ["feature_name", "metric_name", *segments, "histogram", "number", *keys]
    if existing != expected:
        raise SourceError(
            f"{name} has the columns {', '.join(existing)}, not {', '.join(expected)}: rename or drop it"
        )
    rows = comparison.long()
    rows[segments] = rows[segments].replace(NULL, None)
    if BUCKET_COLUMN not in rows:
        rows[BUCKET_COLUMN] = "00-00"
    holds = set(rows[list(keys)].itertuples(index=False, name=None))
    target = TableTarget(spark, name)
    listed = open_table(spark, name).list_partitions()
    parts = [entry.partition for entry in listed]
    old_partitions = {
        tuple(part.value(key) for key in keys) for part in parts if part.value(DATE_COLUMN) in days
    }
    if holds:
        data = from_arrow(spark, _arrow(rows[expected])).coalesce(1)
        replace(target, data, "partitions", keys, holds, old_partitions | holds)
    elif old_partitions:
        target.drop(old_partitions)
    return name


def _column_types(data: DataFrame) -> dict[str, Any]:
    fields: list[dict[str, Any]] = data.schema.jsonValue()["fields"]
    return {column["name"]: column["type"] for column in fields}


def _arrow(rows: pd.DataFrame) -> pa.Table:
    import pyarrow as pa

    kinds = {"histogram": pa.list_(pa.float64()), "number": pa.float64()}
    fields = [pa.field(name, kinds.get(name, pa.string())) for name in rows.columns]
    return pa.Table.from_pandas(rows, pa.schema(fields), preserve_index=False)


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
    >>> comparison = tg.consistency.compare(logged, offline, keys="user")  # doctest: +SKIP
    >>> metrics = comparison.merged(["ds"]).metrics()  # doctest: +SKIP
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
            comparison = dataclasses.replace(
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
    private = dataclasses.replace(
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
    >>> comparison = tg.consistency.compare(logged, offline, keys="user")  # doctest: +SKIP
    >>> tg.consistency.value_pairs(comparison.table, "age").values.tolist()  # doctest: +SKIP
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
