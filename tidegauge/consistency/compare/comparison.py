"""Results of an online/offline comparison, feature by feature.

A `Comparison` holds mergeable states. It is recorded in a repository as a run's metrics, without
reading data again, and written to tables of compared rows and of metrics, updated by whole days.
`drift` compares both sides of a feature from stored states, without Spark.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidegauge.analyzers.core.analyzer import AnyAnalyzer
from tidegauge.analyzers.core.errors import SourceError, UnknownNameError
from tidegauge.analyzers.core.formatting import plural
from tidegauge.analyzers.core.metric import Failure, Metric, Success, flatten
from tidegauge.analyzers.core.partitions import NULL, Partition, TimeFormat, Values, recognise_time
from tidegauge.analyzers.core.registry import canonical_json, key_of
from tidegauge.analyzers.core.schema import Schema
from tidegauge.analyzers.core.sql import literal, quote, type_sql
from tidegauge.analyzers.runs.ledger import LedgerEntry, MeasuredPartition, RunSpec
from tidegauge.analyzers.runs.recording import Recorder, RunReport, measured_states, recording
from tidegauge.analyzers.scan.capabilities import from_arrow
from tidegauge.analyzers.scan.grouping import filter_partitions
from tidegauge.analyzers.scan.scan import Group, Outcome, metric_of
from tidegauge.analyzers.sources.opening import open_table
from tidegauge.analyzers.sources.targets import TableTarget, replace
from tidegauge.consistency.compare.distributions import QUANTILES
from tidegauge.consistency.compare.equality import shape
from tidegauge.consistency.compare.join import BUCKET, DATE
from tidegauge.consistency.compare.measures import (
    COPY,
    LOGGED,
    NULL_KEY,
    PRESENCE,
    AnyMeasure,
    ConsistencyRows,
    compared_as_floats,
)
from tidegauge.consistency.configuration import OF_LOG
from tidegauge.consistency.log.decoding import DayCounts
from tidegauge.consistency.log.schemas import promoted
from tidegauge.consistency.log.table import finish_widening, join_table, widen
from tidegauge.repository.distributions.drift import Drifted, Side
from tidegauge.repository.distributions.drift import drift as drift_of
from tidegauge.repository.distributions.stored import StoredColumn
from tidegauge.repository.store.consistency_series import PREFIX

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from tidegauge.repository.repository import Repository


ALL = "*"
"""Group-by of features without a named one, and the feature of row metrics."""
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
"""Metrics of the long form; all others are in `Comparison.metrics` and in the repository."""


@dataclass(frozen=True, repr=False)
class Comparison:
    """Result of a comparison, as mergeable states.

    Attributes
    ----------
    table : DataFrame
        The comparison table, as returned by `tidegauge.consistency.compare.join.pair`.
    by : tuple of str
        Its columns by which results are partitioned.
    measures : tuple of Analyzer
        All measures.
    groups : mapping of tuple of str to Group
        The states, by the values of the ``by`` columns.
    uncompared : tuple of str
        Sentences that name the columns of one side only, if the features were not given by name.

    Examples
    --------
    >>> import tidegauge as tg
    >>> spark = tg.spark_session()  # doctest: +SKIP
    >>> sql = "SELECT 7 AS user, timestamp '2023-01-05 07:30:00' AS ts, {} AS age"
    >>> logged, offline = spark.sql(sql.format(30)), spark.sql(sql.format(31))  # doctest: +SKIP
    >>> found = tg.consistency.compare(logged, offline, keys="user")  # doctest: +SKIP
    >>> found  # doctest: +SKIP
    <Comparison of 1 feature in 1 row and 1 group>
    >>> metrics = found.merged().metrics().set_index("metric_name")["number"]  # doctest: +SKIP
    >>> metrics[["mismatch", "delta-p50"]].tolist()  # doctest: +SKIP
    [1.0, 1.0]
    """

    table: DataFrame
    by: tuple[str, ...]
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
        said = f"{plural(features, 'feature')} in {plural(rows, 'row')} and {plural(len(self.groups), 'group')}"
        return "\n".join([f"<Comparison of {said}>", *self.notices])

    def merged(self, by: Sequence[str] = ()) -> Comparison:
        """Roll up the results to fewer columns: hours into days, or everything into one group.

        Parameters
        ----------
        by : sequence of str
            The columns of `by` to keep.

        Raises
        ------
        UnknownNameError
            If one is not in `by`.
        """
        for name in by:
            if name not in self.by:
                raise UnknownNameError("column", name, self.by)
        at = [self.by.index(name) for name in by]
        parts: dict[Values, list[Group]] = {}
        for values, group in self.groups.items():
            parts.setdefault(tuple(values[i] for i in at), []).append(group)
        groups = {values: self._added(some) for values, some in parts.items()}
        return Comparison(self.table, tuple(by), self.measures, groups, self.uncompared)

    def _added(self, groups: Sequence[Group]) -> Group:
        states: dict[AnyAnalyzer, Outcome] = {}
        for measure in self.measures:
            found = [group.states[measure] for group in groups]
            failed = next((one for one in found if isinstance(one, Failure)), None)
            known = [one.value for one in found if isinstance(one, Success)]
            states[measure] = failed or Success(measure.state_type.merge(known))
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
            The columns of `by`, then ``group_by_name``, ``feature_name`` (``*`` for metrics of rows),
            ``metric_name`` (with the quantile of distributions, as in ``delta-p50``), ``number`` (NaN
            if undefined), ``weight`` (the rows behind it) and ``error`` (the reason for NaN).
        """
        import pandas as pd

        rows = [
            (*values, *_of(measure), one.name.partition(".")[2], *_value_and_error(one))
            for values, measure, metric in self.measured()
            for one in flatten(metric)
        ]
        names = ("group_by_name", "feature_name", "metric_name", "number", "weight", "error")
        return pd.DataFrame(rows, columns=[*self.by, *names])

    def long(self) -> pd.DataFrame:
        """Return the metrics in long form: one row each, with a histogram or a number.

        Metrics without a value, such as those of all-null features, have no row.

        Returns
        -------
        pandas.DataFrame
            The columns of `by`, then ``group_by_name``, ``feature_name`` (``*`` for rows),
            ``metric_name``, ``histogram`` (min, p5, p25, p50, p75, p95, max) and ``number``, of
            which exactly one is not None. ``mismatch``, ``missing``, ``extra`` and ``both_null``
            are fractions of the matched rows; ``total``, ``row_missing`` and ``row_extra`` count
            rows; map metrics are sums of keys.

        Examples
        --------
        >>> import tidegauge as tg
        >>> spark = tg.spark_session()  # doctest: +SKIP
        >>> sql = "SELECT 7 AS user, timestamp '2023-01-05 07:30:00' AS ts, {} AS age"
        >>> logged, offline = spark.sql(sql.format(30)), spark.sql(sql.format(31))  # doctest: +SKIP
        >>> found = tg.consistency.compare(logged, offline, keys="user")  # doctest: +SKIP
        >>> rows = found.merged().long().set_index("metric_name")  # doctest: +SKIP
        >>> rows.loc["mismatch", "number"], rows.loc["delta", "histogram"][3]  # doctest: +SKIP
        (1.0, 1.0)
        """
        import pandas as pd

        rows = [
            (*values, *_of(measure), measure.metric, *_cells(metric.value))
            for values, measure, metric in self.measured()
            if measure.metric in LONG_FORM and not metric.failed
        ]
        names = ("group_by_name", "feature_name", "metric_name", "histogram", "number")
        return pd.DataFrame(rows, columns=[*self.by, *names], dtype=object)


def _of(measure: AnyMeasure) -> tuple[str, str]:
    return measure.group_by, getattr(measure, "feature", ALL)


def _value_and_error(metric: Metric[float]) -> tuple[float, float | None, str | None]:
    match metric.outcome:
        case Success(value):
            return value, metric.weight, None
        case Failure(error):
            return float("nan"), metric.weight, str(error)


def _cells(value: Any) -> tuple[list[float] | None, float | None]:
    if isinstance(value, Mapping):
        return [value[name] for name in QUANTILES], None
    return None, value


_HOURLY = ("%Y-%m-%d %H-%M", "%Y%m%d %H-%M")


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
    repository : Repository
    dataset : str
        For example ``<namespace>.<join>``.
    source : str, optional
        The comparison table, if it is stored.
    fingerprints : mapping of str to str, optional
        Data fingerprints by partition name, as in ``ds=2023-01-05/hr_minute=07-00``.
    tags : mapping, optional
        Tags of the run.
    monitors : sequence of mapping
        Monitors of these metrics, in the form of suite files; for `repository.detect`.

    Returns
    -------
    RunReport
        With the id of the run.

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
    >>> found = tg.consistency.compare(logged, offline, keys="user")  # doctest: +SKIP
    >>> with tg.Repository("sqlite://") as repo:  # doctest: +SKIP
    ...     report = tg.consistency.record(found, repo, "shop.search")
    ...     repo.metrics("shop.search", "Consistency.mismatch")["value"].tolist()
    [1.0]
    """
    by = comparison.by
    measures = sorted(measure.canonical() for measure in comparison.measures)
    told = {"dataset": dataset, "consistency": key_of(canonical_json(measures))}
    suite = canonical_json({**told, **({"monitors": list(monitors)} if monitors else {})})
    kept = {str(key): str(value) for key, value in (tags or {}).items()}
    spec = RunSpec(dataset, source, by, suite, "all", kept)
    with recording(repository.store, spec) as run:
        run.commit(list(_measured(comparison, fingerprints or {}, run.ledger())))
    return run.report


def record_log(days: Sequence[DayCounts], repository: Recorder, dataset: str) -> int:
    """Store how many queries of a log were read, by day, and return how many values were new.

    ``QueryLog.read`` and ``QueryLog.empty`` count queries, and ``QueryLog.unreadable`` those that
    could not be decoded, in all (instance ``*``) and by reason; ``QueryLog.unreadable_share`` is
    their share, 0 without any queries.

    Parameters
    ----------
    days : sequence of DayCounts
        Days without a name are left out.
    repository : Repository
    dataset : str
    """
    found: dict[tuple[str, str], dict[Partition, float]] = {}
    reasons = sorted({reason for day in days for reason in day.bad})
    for day in days:
        if day.ds is None:
            continue
        bad = sum(day.bad.values())
        values = {
            ("read", ALL): day.read,
            ("empty", ALL): day.empty,
            ("unreadable", ALL): bad,
            ("unreadable_share", ALL): bad / day.rows if day.rows else 0.0,
            **{("unreadable", reason): day.bad.get(reason, 0) for reason in reasons},
        }
        for key, value in values.items():
            found.setdefault(key, {})[Partition((DATE,), (day.ds,))] = float(value)
    return sum(
        repository.record(dataset, f"{OF_LOG}{name}", values, instance=instance)
        for (name, instance), values in found.items()
    )


def is_of_log(monitor: Mapping[str, Any]) -> bool:
    """Return whether a monitor watches metrics of a query log, and not of a comparison."""
    return str(dict(monitor.get("series", {})).get("name", "")).startswith(OF_LOG)


def time_format(by: tuple[str, ...]) -> TimeFormat | None:
    """Return the time format of a comparison's partitions: date and bucket start.

    Examples
    --------
    >>> of = Partition(("ds", "hr_minute"), ("2023-01-05", "07-30"))
    >>> str(time_format(of.keys).time_of(of))
    '2023-01-05 07:30:00+00:00'
    """
    if {DATE, BUCKET} <= set(by):
        return TimeFormat((DATE, BUCKET), _HOURLY)
    return recognise_time(by)


def _measured(
    comparison: Comparison, fingerprints: Mapping[str, str], ledger: Mapping[str, LedgerEntry]
) -> Iterator[MeasuredPartition]:
    """Yield the measurements of each bucket, in the form of a scan."""
    by = comparison.by
    time = time_format(by)
    schema = Schema.from_spark(comparison.table.schema).without(set(by)).canonical()
    groups = sorted(comparison.groups.items())
    for values, group in groups:
        partition = Partition(by, values)
        fingerprint = fingerprints.get(partition.name)
        known = ledger.get(partition.name)
        same = known is not None and known.fingerprint == fingerprint
        yield MeasuredPartition.from_measurements(
            partition,
            measured_states(group.states, comparison.measures),
            time,
            fingerprint=fingerprint,
            schema=schema,
            rows=group.rows,
            added_to=known.version if known is not None and same else None,
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
    """Compare the distribution of a feature as it was logged with that of its backfill.

    Rows are not matched one by one, so this tells whether a model sees other values than those that
    it was trained on, also where many rows differ a little. For the drift of logged values from one
    time to another use `Repository.drift`, with the feature as the column.

    Parameters
    ----------
    repository : Repository
    dataset : str
        ``<namespace>.<join>``.
    feature : str
        The instance of its metrics, ``<group_by>.<feature>``: a number, a map of numbers, or text with
        no more different values than are counted exactly, about 190.
    at : str or pair
        The name of a partition, or a window ``(since, until)`` on the partitions' time, whose
        partitions are merged.
    segment : str, optional
        All segments by default.
    record : bool
        Store the distances of a partition as metrics ``Consistency.psi``, ``js``, ``ks`` and
        ``wasserstein`` of the feature, of text ``psi``, ``js``, ``unseen`` and ``lost``, to be watched.

    Returns
    -------
    Drifted
        With the backfilled values as its baseline, and the logged ones as its current side; the
        distances are NaN if one of them has no values.

    Raises
    ------
    HistoryError
        If no distributions of the feature are stored, or there is no such partition.
    StateMismatchError
        If a text has more values than are counted exactly.

    Examples
    --------
    >>> import tidegauge as tg
    >>> spark = tg.spark_session()  # doctest: +SKIP
    >>> sql = "SELECT 7 AS user, timestamp '2023-01-05 07:30:00' AS ts, {} AS age"
    >>> logged, offline = spark.sql(sql.format(30)), spark.sql(sql.format(31))  # doctest: +SKIP
    >>> found = tg.consistency.compare(logged, offline, keys="user")  # doctest: +SKIP
    >>> with tg.Repository("sqlite://") as repo:  # doctest: +SKIP
    ...     report = tg.consistency.record(found, repo, "shop.search")
    ...     hour = repo.metrics("shop.search")["partition"].iloc[0]
    ...     tg.consistency.drift(repo, "shop.search", "*.age", hour).ks
    1.0
    """
    logged = StoredColumn(repository.database, repository.artifacts, dataset, feature, segment)
    backfilled = dataclasses.replace(logged, of="backfilled")
    found = drift_of(logged, at, at, record=record, against=backfilled, prefix=PREFIX)
    return dataclasses.replace(
        found, baseline=f"backfilled, {found.baseline}", current=f"logged, {found.current}"
    )


_COMPARED = "tidegauge.compared."
"""Property prefix of the comparison table: fingerprint of each day's inputs."""
_GROUP_BY = "group_by_name"


@dataclass(frozen=True)
class ComparisonTable:
    """Table ``<namespace>.<join>_comparison``: logged beside backfilled rows, partitioned by ds."""

    spark: SparkSession
    name: str

    @classmethod
    def for_join(cls, spark: SparkSession, namespace: str, join: str) -> ComparisonTable:
        """Return the comparison table of a join, which may not exist yet.

        Raises
        ------
        SourceError
            If a table of that name exists and is not a comparison table.
        """
        found = cls(spark, join_table(namespace, join, "comparison"))
        finish_widening(spark, found.name)
        if found.exists() and not {PRESENCE, COPY, NULL_KEY, DATE} <= set(found._columns()):
            raise SourceError(f"{found.name} was not made by a comparison; rename it")
        return found

    def marks(self) -> dict[str, str]:
        """Return the input fingerprint of each day; empty if the table does not exist."""
        if not self.exists():
            return {}
        found: dict[str, str] = dict(self.spark.sql(f"SHOW TBLPROPERTIES {self.name}").collect())
        return {
            key.removeprefix(_COMPARED): mark
            for key, mark in found.items()
            if key.startswith(_COMPARED)
        }

    def features(self) -> tuple[str, ...]:
        """Return the features with logged and backfilled values, in lower case."""
        columns = [name.casefold() for name in self._columns()]
        return tuple(name for name in columns if LOGGED + name in columns)

    def notices(self) -> tuple[str, ...]:
        """Return a line if features are compared as floats, because one side has no more digits."""
        if not self.exists():
            return ()
        return compared_as_floats(Schema.from_frame(self.spark.table(self.name)))

    def read(self, days: Collection[str]) -> DataFrame:
        """Return the rows of the given days."""
        return filter_partitions(self.spark.table(self.name), (DATE,), [(day,) for day in days])

    def write(self, data: DataFrame, marks: Mapping[str, str]) -> None:
        """Replace days, and store their input fingerprints.

        Parameters
        ----------
        data : DataFrame
        marks : mapping of str to str
            Input fingerprints by day. Days without rows are emptied.

        Raises
        ------
        SourceError
            If a column's type has changed.
        """
        if self.exists():
            data = self._fitted(data)
            # Clear the marks first: a run killed while writing leaves days in an unknown state.
            keys = ", ".join(literal(_COMPARED + day) for day in marks)
            self.spark.sql(
                f"ALTER TABLE {self.name} UNSET TBLPROPERTIES IF EXISTS ({keys})"
            ).collect()
        else:
            self._create(_types(data))
        before = self._fingerprints()
        target = TableTarget(self.spark, self.name)
        target.write(data, "partitions", [DATE], ())
        # Writing replaces only days that have rows; days with unchanged files have none any more.
        after = self._fingerprints()
        target.drop([(day,) for day in marks if day in before and before[day] == after.get(day)])
        told = ", ".join(f"{literal(_COMPARED + d)} = {literal(m)}" for d, m in marks.items())
        self.spark.sql(f"ALTER TABLE {self.name} SET TBLPROPERTIES ({told})").collect()

    def _create(self, types: Mapping[str, Any]) -> None:
        """Create the table in one step; Spark makes one of a frame in several, between which to die."""
        columns = ", ".join(f"{quote(n)} {type_sql(t)}" for n, t in types.items() if n != DATE)
        self.spark.sql(
            f"CREATE TABLE {self.name} ({columns}) USING parquet PARTITIONED BY ({DATE} STRING)"
        ).collect()

    def exists(self) -> bool:
        """Return whether the table exists."""
        return self.spark.catalog.tableExists(self.name)

    def _columns(self) -> list[str]:
        return self.spark.table(self.name).columns

    def _fitted(self, data: DataFrame) -> DataFrame:
        """Return rows with all columns of the table, which first gets new columns and wider numbers."""
        types, there = _types(data), _types(self.spark.table(self.name))
        known = {name.casefold(): (name, of) for name, of in there.items()}
        wider, cast = {}, {}
        for name, of in types.items():
            named, before = known.get(name.casefold(), (name, of))
            if shape(of) == shape(before):
                continue
            found = promoted(before, of)
            if found is None:
                raise SourceError(
                    f"{name!r} is {shape(of)} now and {shape(before)} in {self.name}: drop that table, and"
                    " its days are compared again"
                )
            cast[name] = type_sql(found)
            if shape(found) != shape(before):
                wider[named] = found
        if wider:
            widen(self.spark, self.name, wider, DATE)
        data = data.selectExpr(
            *(
                f"CAST({quote(n)} AS {cast[n]}) AS {quote(n)}" if n in cast else quote(n)
                for n in types
            )
        )
        new = [f"{quote(n)} {type_sql(t)}" for n, t in types.items() if n.casefold() not in known]
        if new:
            self.spark.sql(f"ALTER TABLE {self.name} ADD COLUMNS ({', '.join(new)})").collect()
        given = {name.casefold() for name in types}
        lacking = (
            f"CAST(NULL AS {type_sql(t)}) AS {quote(n)}"
            for n, t in there.items()
            if n.casefold() not in given
        )
        return data.selectExpr("*", *lacking)

    def _fingerprints(self) -> dict[str, str | None]:
        if not self.exists():
            return {}
        listed = open_table(self.spark, self.name).list_partitions()
        return {one.partition.value(DATE): one.fingerprint for one in listed}


def write_metrics(
    spark: SparkSession, namespace: str, join: str, comparison: Comparison, days: Collection[str]
) -> str:
    """Write the metrics of days in long form as ``<namespace>.<join>_consistency_metrics``.

    The table has the columns feature_name, metric_name, the segment columns,
    histogram and number, of which exactly one is not null; it is partitioned by ds, hr_minute and
    group_by_name. Existing metrics of these days are replaced.

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
    segments = [column for column in comparison.by if column not in {DATE, BUCKET}]
    columns = [
        "feature_name STRING",
        "metric_name STRING",
        *(f"{quote(segment)} STRING" for segment in segments),
        "histogram ARRAY<DOUBLE>",
        "number DOUBLE",
    ]
    keys = (DATE, BUCKET, _GROUP_BY)
    spark.sql(
        f"CREATE TABLE IF NOT EXISTS {name} ({', '.join(columns)}) USING parquet"
        f" PARTITIONED BY ({', '.join(f'{key} STRING' for key in keys)})"
    ).collect()
    there = [column.name for column in spark.catalog.listColumns(name)]
    expected = ["feature_name", "metric_name", *segments, "histogram", "number", *keys]
    if there != expected:
        raise SourceError(
            f"{name} has the columns {', '.join(there)}, not {', '.join(expected)}: rename or drop it"
        )
    rows = comparison.long()
    rows[segments] = rows[segments].replace(NULL, None)
    if BUCKET not in rows:
        rows[BUCKET] = "00-00"
    holds = set(rows[list(keys)].itertuples(index=False, name=None))
    target = TableTarget(spark, name)
    known = open_table(spark, name).list_partitions()
    parts = [one.partition for one in known]
    before = {tuple(part.value(key) for key in keys) for part in parts if part.value(DATE) in days}
    if holds:
        data = from_arrow(spark, _arrow(rows[expected])).coalesce(1)
        replace(target, data, "partitions", keys, holds, before | holds)
    elif before:
        target.drop(before)
    return name


def _types(data: DataFrame) -> dict[str, Any]:
    fields: list[dict[str, Any]] = data.schema.jsonValue()["fields"]
    return {one["name"]: one["type"] for one in fields}


def _arrow(rows: pd.DataFrame) -> pa.Table:
    import pyarrow as pa

    kinds = {"histogram": pa.list_(pa.float64()), "number": pa.float64()}
    fields = [pa.field(name, kinds.get(name, pa.string())) for name in rows.columns]
    return pa.Table.from_pandas(rows, pa.schema(fields), preserve_index=False)
