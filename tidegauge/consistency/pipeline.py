"""Consistency pipeline: flatten, backfill, compare and measure new or changed days.

`ComparisonInputs` has the logged rows and the backfills of some days of a join.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tidegauge.analyzers.core.errors import (
    PartitionSelectionError,
    PreconditionError,
    SourceError,
    UnknownNameError,
)
from tidegauge.analyzers.core.formatting import plural
from tidegauge.analyzers.core.partitions import Partition, nearby_partitions
from tidegauge.analyzers.core.registry import canonical_json, key_of
from tidegauge.analyzers.core.schema import INTEGRAL, Schema
from tidegauge.analyzers.core.sql import literal, one_of, quote
from tidegauge.analyzers.runs.recording import WAIT_SECONDS, Recorder, RunReport
from tidegauge.analyzers.scan.grouping import filter_partitions
from tidegauge.analyzers.scan.user_sql import Views
from tidegauge.analyzers.sources.opening import open_table
from tidegauge.consistency.compare import comparison, join
from tidegauge.consistency.compare.measures import PRESENCE_COLUMN
from tidegauge.consistency.configuration import (
    TIME_COLUMN,
    Backfill,
    Configuration,
    TableBackfill,
    backfilled,
    identity,
    logged_keys,
    require_day,
    unshifted,
)
from tidegauge.consistency.log.flattening import Flattened, flatten
from tidegauge.consistency.log.query import is_day, sample
from tidegauge.repository.store.config import privacy_settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


QUERY_SOURCE = "query_source"


@dataclass(frozen=True)
class ComparisonInputs:
    """Logged rows and backfills of a join.

    Attributes
    ----------
    spark : SparkSession
        The session that reads the tables.
    configuration : Configuration
        Settings of the comparison.
    flattened : Flattened
        The flattened log.
    views : Views
        Views of the queries. They must stay open until all results have been read.
    days : tuple of str
        The days of the log, as ``2023-01-05``.
    """

    spark: SparkSession
    configuration: Configuration
    flattened: Flattened
    views: Views
    days: tuple[str, ...]

    @property
    def group_by(self) -> tuple[str, ...]:
        """The partition columns of the results, except the bucket."""
        return (join.DATE_COLUMN, *self.configuration.segment_by)

    @cached_property
    def logged(self) -> DataFrame:
        """The logged rows: keys, time, features, and the columns for filtering and partitioning."""
        rows = self.spark.table(self.flattened.table)
        segment_columns = {*self.configuration.segment_by, QUERY_SOURCE}
        columns = self.flattened.columns
        for name in self.configuration.payload:
            if name not in columns.payload and name not in columns.values:
                raise UnknownNameError("payload", name, [*columns.payload, *columns.values])
        left_out = {*segment_columns, *self.configuration.payload}
        features = [name for name in columns.values if name not in left_out]
        if unknown := sorted(set(self.configuration.segment_by) - set(rows.columns)):
            raise PreconditionError(
                f"{self.flattened.table} has no column {unknown[0]!r}; change segment_by"
            )
        selected = dict.fromkeys(
            [
                *self.configuration.keys,
                TIME_COLUMN,
                join.DATE_COLUMN,
                *sorted(segment_columns),
                *features,
            ]
        )
        days = [(day,) for day in self.days]
        return filter_partitions(rows, (join.DATE_COLUMN,), days).select(*map(quote, selected))

    @cached_property
    def chosen(self) -> DataFrame:
        """The logged rows from the configured query sources."""
        sources = self.configuration.query_sources
        return self.logged.where(one_of(QUERY_SOURCE, sources)) if sources else self.logged

    def backfill_pairs(self, lag_ms: int = 0) -> DataFrame:
        """Return the (key, timestamp) pairs to backfill."""
        return logged_keys(self.chosen, self.configuration.keys, lag_ms)

    @cached_property
    def parts(self) -> tuple[join.AlignedPart, ...]:
        """The backfills, each computed once for all group-bys with the same backfill and lag."""
        all_features = self.configuration.all_features_name
        if not self.configuration.group_bys:
            backfill = self._backfilled(self.configuration.backfill_of(all_features), 0, ())
            return (join.AlignedPart(backfill, {all_features: self._common(backfill)}),)
        groups: dict[tuple[Backfill, int], dict[str, Sequence[str]]] = {}
        for name, group_by in self.configuration.group_bys.items():
            backfill_and_lag = self.configuration.backfill_of(name)
            groups.setdefault((backfill_and_lag, group_by.lag_ms), {})[name] = group_by.features
        return tuple(
            join.AlignedPart(self._backfilled(*backfill_and_lag, tuple(features)), features)
            for backfill_and_lag, features in groups.items()
        )

    @cached_property
    def group_bys(self) -> Mapping[str, Sequence[str]]:
        """The features of each group-by, in the order of the configuration."""
        features_by_group = {
            name: features for part in self.parts for name, features in part.group_bys.items()
        }
        return {
            name: features_by_group[name]
            for name in (self.configuration.group_bys or features_by_group)
        }

    def paired(self) -> DataFrame:
        """Return the comparison table of the days.

        Raises
        ------
        PreconditionError
            If columns are missing or have different types; the message lists all problems.
        """
        conf = self.configuration
        partition_columns = dict.fromkeys(
            [*self.group_by, *([QUERY_SOURCE] if conf.query_sources else [])]
        )
        features = tuple(
            name for group_features in self.group_bys.values() for name in group_features
        )
        pairs = join.Alignment(
            conf.keys,
            features,
            TIME_COLUMN,
            tuple(partition_columns),
            conf.bucket_minutes,
            conf.logged_as,
        )
        parts = [self._only(part, features) for part in self.parts]
        rows = join.pair_parts(self.logged, parts, pairs).where(one_of(join.DATE_COLUMN, self.days))
        if conf.query_sources:
            # Backfill-only rows have no source, so they are missing for every selection of sources.
            chosen = one_of(QUERY_SOURCE, conf.query_sources)
            rows = rows.where(f"{chosen} OR {PRESENCE_COLUMN} = 'missing'")
        return rows

    def _only(self, part: join.AlignedPart, features: Collection[str]) -> join.AlignedPart:
        """Select keys, time and features, because a backfill's partition columns follow its own times."""
        names = {name.casefold() for name in (*self.configuration.keys, TIME_COLUMN, *features)}
        selected = [quote(name) for name in part.data.columns if name.casefold() in names]
        return join.AlignedPart(part.data.select(*selected), part.group_bys)

    def _backfilled(self, backfill: Backfill, lag_ms: int, group_bys: Sequence[str]) -> DataFrame:
        """Return a backfill's features; errors name its group-bys."""
        owners = f" of {', '.join(map(repr, group_bys))}" if group_bys else ""
        logged_pairs = self.backfill_pairs(lag_ms)
        rows = self._timed(backfilled(backfill, logged_pairs, self.views, owners))
        if isinstance(backfill, TableBackfill):
            rows = self._of_days(rows)
        names = {name.casefold() for name in rows.columns}
        time = self.configuration.time
        lacking = [k for k in self.configuration.keys if k.casefold() not in names]
        lacking += [time] if TIME_COLUMN not in names else []
        if lacking:
            columns = " and ".join(map(repr, lacking))
            raise PreconditionError(
                f"{backfill}{owners} has no {columns} column; rows are joined by keys and time"
            )
        rows = unshifted(rows, lag_ms)
        percent = self.configuration.sample_percent
        return rows if percent == 100 else sample(rows, self.configuration.keys, percent)

    def _timed(self, rows: DataFrame) -> DataFrame:
        """Rename the time column to the log's name."""
        time = self.configuration.time.casefold()
        if time == TIME_COLUMN or time not in {name.casefold() for name in rows.columns}:
            return rows
        selected = [
            quote(name) for name in rows.columns if name.casefold() not in {TIME_COLUMN, time}
        ]
        return rows.selectExpr(*selected, f"{quote(self.configuration.time)} AS {TIME_COLUMN}")

    def _of_days(self, rows: DataFrame) -> DataFrame:
        """Filter a table to rows that may belong to the days.

        If the table has ds, rows are filtered by ds with a margin of one day on each side, otherwise
        by time.
        """
        first, last = (date.fromisoformat(day) for day in (min(self.days), max(self.days)))
        low, high = first - timedelta(days=1), last + timedelta(days=1)
        schema = Schema.from_frame(rows)
        names = {name.casefold() for name in schema.names}
        in_days = f"ds >= {literal(str(low))} AND ds <= {literal(str(high))}"
        kind = schema.field(join.DATE_COLUMN).kind if join.DATE_COLUMN in names else ""
        if kind == "date":
            return rows.where(in_days)
        if kind == "string":
            # Days in another format, such as 20230105, are not comparable and are kept.
            return rows.where(f"{in_days} OR ds NOT RLIKE '^[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}'")
        if TIME_COLUMN not in names:
            return rows  # rejected later, along with other missing columns
        field = schema.field(TIME_COLUMN)
        start, end = ((day - date(1970, 1, 1)).days * 86_400_000 for day in (low, high))
        if field.kind in INTEGRAL:
            return rows.where(f"{field.sql} >= {start}L AND {field.sql} < {end}L")
        if field.kind == "timestamp":
            return rows.where(
                f"{field.sql} >= timestamp_millis({start}L) AND {field.sql} < timestamp_millis({end}L)"
            )
        return rows

    def _common(self, backfill: DataFrame) -> tuple[str, ...]:
        """Return the features that both sides have, in the backfill's order."""
        conf = self.configuration
        other_columns = (*conf.keys, TIME_COLUMN, *self.group_by, QUERY_SOURCE, *conf.payload)
        excluded = {name.casefold() for name in other_columns}
        served = {name.casefold() for name in self.logged.columns}
        return tuple(
            name
            for name in backfill.columns
            if name.casefold() not in excluded
            and conf.logged_as.get(name, name).casefold() in served
        )


MAX_METRICS_PER_BATCH = 500_000
"""Their states are collected to the driver, which must have memory for them."""
METRICS_PER_FEATURE = 9
"""An approximation, to decide how many days are measured together."""


@dataclass(frozen=True)
class ConsistencyRun:
    """Result of a consistency run.

    Attributes
    ----------
    dataset : str
        Dataset of the metrics in the repository.
    flattened : Flattened
        The flattened log.
    compared : tuple of str
        Days whose rows this run compared.
    reports : tuple of RunReport
        Reports of the recorded batches of days.
    table : str
        The table of compared rows, quoted.
    log_dataset : str
        Dataset of the log's own metrics.
    logged : int
        Number of new partitions of the log's metrics.
    notices : tuple of str
        Notices about the log and the table.
    anomalies : mapping of str to tuple of str
        Partitions with anomalies that no earlier run reported, by dataset.
    """

    dataset: str
    flattened: Flattened
    compared: tuple[str, ...]
    reports: tuple[RunReport, ...]
    table: str
    log_dataset: str = ""
    logged: int = 0
    notices: tuple[str, ...] = ()
    anomalies: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def changes(self) -> Mapping[str, Any]:
        """The change of each measured partition, by its name."""
        return {name: change for report in self.reports for name, change in report.changes.items()}

    @property
    def judged(self) -> Mapping[str, tuple[str, ...]]:
        """Partitions with new metrics or anomalies, by dataset. For the log they are the flattened days."""
        days = tuple(f"{join.DATE_COLUMN}={day.ds}" for day in self.flattened.days)
        new = {self.dataset: tuple(self.changes), self.log_dataset: days if self.logged else ()}
        both = {
            dataset: (*names, *self.anomalies.get(dataset, ())) for dataset, names in new.items()
        }
        return {dataset: partitions for dataset, partitions in both.items() if partitions}

    def __str__(self) -> str:
        """Return a summary of a few lines."""
        counts = Counter(self.changes.values())
        summary = (
            ", ".join(f"{count} {change}" for change, count in counts.items()) or "nothing new"
        )
        lines = [
            str(self.flattened),
            f"{self.table}: {plural(len(self.compared), 'day')}",
            f"{self.dataset}: {summary}",
        ]
        return "\n".join([*lines, *self.notices])


def run(
    spark: SparkSession,
    configuration: Configuration,
    repository: Recorder,
    *,
    until: str | None = None,
    since: str | None = None,
    recompute: bool = False,
    tags: Mapping[str, str] | None = None,
) -> ConsistencyRun:
    """Flatten, backfill, compare and measure new or changed days; see `tidegauge.consistency.run`.

    Each step completes whole days. The flattened log and the comparison table store the fingerprint
    of each day's inputs, and the repository stores the fingerprint that it measured. Other runs of the
    join on this repository wait for a lease.
    """
    tables = f"consistency of {configuration.namespace}.{configuration.name}"
    with repository.store.hold(tables, WAIT_SECONDS):
        return _run_steps(spark, configuration, repository, until, since, recompute, tags or {})


def _run_steps(
    spark: SparkSession,
    configuration: Configuration,
    repository: Recorder,
    until: str | None,
    since: str | None,
    recompute: bool,  # noqa: FBT001
    tags: Mapping[str, str],
) -> ConsistencyRun:
    dataset = configuration.dataset
    flattened, days = flattened_days(spark, configuration, until, since)
    # Recorded before the comparison, which can fail on unreadable queries.
    logged = comparison.record_log(flattened.counted, repository, f"{dataset}.log")
    if not days and (since or until):
        raise _no_such_days_error(spark, flattened, since, until)
    table = comparison.ComparisonTable.for_join(spark, configuration.namespace, configuration.name)
    marks = _day_marks(spark, configuration, days)
    stored_marks = table.marks()
    compared = [day for day, mark in marks.items() if recompute or stored_marks.get(day) != mark]
    views = Views(spark)
    try:
        sides = ComparisonInputs(spark, configuration, flattened, views, tuple(compared or marks))
        if compared:
            table.write(sides.paired(), {day: marks[day] for day in compared})
        reports = list(_measure_days(table, sides, marks, repository, recompute, tags))
    finally:
        views.drop()
    return ConsistencyRun(
        dataset, flattened, tuple(compared), tuple(reports), table.name,
        f"{dataset}.log", logged,
        (*table.notices(), *_unlogged_notices(configuration, flattened), *_no_days_notices(days)),
    )  # fmt: skip


def _no_days_notices(days: Mapping[str, str | None]) -> list[str]:
    """Return a notice if no day can be compared, as on the first day of a log."""
    last = "up to yesterday in UTC; set until= for another last day"
    return [] if days else [f"the log has no queries {last}"]


def _no_such_days_error(
    spark: SparkSession, flattened: Flattened, since: str | None, until: str | None
) -> PartitionSelectionError:
    """Return the error for a selection of days that are not in the log."""
    listed = open_table(spark, flattened.table).list_partitions()
    names = sorted(entry.partition.name for entry in listed)
    days = ", ".join(f"{k}={v}" for k, v in (("since", since), ("until", until)) if v)
    near = nearby_partitions(f"{join.DATE_COLUMN}={until or since}", names)
    return PartitionSelectionError(f"the log has no queries for the days {days}{near}")


def _unlogged_notices(configuration: Configuration, flattened: Flattened) -> list[str]:
    """Return a notice if a backfill's table has keys that clients did not log.

    Backfill queries get only the logged keys, so they need no notice.
    """
    conf, logged = configuration, flattened.logged_percent
    backfills = [conf.backfill_of(name) for name in conf.group_bys or (conf.all_features_name,)]
    tables = {backfill.table for backfill in backfills if isinstance(backfill, TableBackfill)}
    if not tables or logged >= conf.sample_percent:
        return []
    notice = (
        f"a client logged {logged:g}% of the keys, but {conf.sample_percent:g}% of the keys in"
        f" {', '.join(sorted(tables))} are compared. Rows of keys that were not logged count as row_missing;"
        f" set sample_percent: {logged:g}"
    )
    return [notice]


def flattened_days(
    spark: SparkSession, configuration: Configuration, until: str | None, since: str | None
) -> tuple[Flattened, dict[str, str | None]]:
    """Flatten the log and return the result with the fingerprints of the days to compare.

    spark : SparkSession
        The session that reads and writes the tables.
    configuration : Configuration
        Settings of the comparison.
    until, since : str or None
        The last and first day, as for `run`.

    Raises
    ------
    SuiteError
        If ``until`` or ``since`` is not a day.
    """
    until = until or (datetime.now(UTC).date() - timedelta(days=1)).isoformat()
    since = since or configuration.since
    for option, day in (("since", since), ("until", until)):
        if day is not None:
            require_day(option, day)
    flattened = flatten(
        spark, configuration.namespace, configuration.name, until, since=since,
        keys=configuration.keys, type=configuration.type,
        sample_percent=configuration.sample_percent, schemas=configuration.schemas or None,
    )  # fmt: skip
    return flattened, _day_fingerprints(spark, flattened, since, until)


def _day_fingerprints(
    spark: SparkSession, flattened: Flattened, since: str | None, until: str
) -> dict[str, str | None]:
    """Return the fingerprints of the flattened log's days.

    Raises
    ------
    SourceError
        If a partition is not a day, because backfill-only rows could not be assigned to it.
    """
    listed = open_table(spark, flattened.table).list_partitions()
    days = {entry.partition.value(join.DATE_COLUMN): entry.fingerprint for entry in listed}
    days = {day: days[day] for day in sorted(days) if (since or day) <= day <= until}
    for day in days:
        if not is_day(day):
            raise SourceError(f"ds {day!r} of {flattened.table} is not a day such as 2023-01-05")
    return days


def _day_marks(
    spark: SparkSession, configuration: Configuration, days: Mapping[str, str | None]
) -> dict[str, str]:
    """Return a fingerprint of each day's comparison inputs and settings."""
    conf = configuration
    group_bys = [
        [name, group_by.features, group_by.lag_ms] for name, group_by in conf.group_bys.items()
    ]
    backfills = [conf.backfill_of(name) for name in conf.group_bys or (conf.all_features_name,)]
    sources = [identity(group_by) for group_by in backfills]
    settings = [
        conf.keys,
        conf.time,
        conf.payload,
        group_bys,
        sources,
        dict(conf.logged_as),
        conf.bucket_minutes,
        conf.sample_percent,
    ]
    chosen = [conf.query_sources, conf.segment_by]
    tables = {group_by.table: None for group_by in backfills if isinstance(group_by, TableBackfill)}
    files = [_table_fingerprints(spark, name, days) for name in tables]
    return {
        day: key_of(
            canonical_json([settings, chosen, mark, [fingerprints[day] for fingerprints in files]])
        )
        for day, mark in days.items()
    }


def _table_fingerprints(spark: SparkSession, table: str, days: Mapping[str, Any]) -> dict[str, str]:
    """Return a table's fingerprint for each day, or of the whole table if it is not partitioned by ISO days."""
    source = open_table(spark, table)
    by_day = join.DATE_COLUMN in source.keys
    undated: list[list[str | None]] = []
    of_day: dict[str, list[list[str | None]]] = {day: [] for day in days}
    for entry in source.list_partitions():
        day = entry.partition.value(join.DATE_COLUMN) if by_day else ""
        fingerprints = of_day.get(day, []) if is_day(day) else undated
        fingerprints.append([entry.partition.name, entry.fingerprint])
    return {
        day: canonical_json(sorted([*undated, *day_fingerprints]))
        for day, day_fingerprints in of_day.items()
    }


def _measure_days(
    table: comparison.ComparisonTable,
    sides: ComparisonInputs,
    marks: Mapping[str, str],
    repository: Recorder,
    recompute: bool,  # noqa: FBT001
    tags: Mapping[str, str],
) -> Iterator[RunReport]:
    """Measure days that are new or changed for the repository and record them in batches."""
    conf = sides.configuration
    allowed = {
        name: [partition.absolute, partition.relative] for name, partition in conf.tolerance.items()
    }
    settings = canonical_json([allowed, conf.k, conf.longest])
    prints = {day: key_of(f"{mark} {settings}") for day, mark in marks.items()}
    ledger = repository.store.ledger(conf.dataset)
    previous = {Partition.from_name(name): entry for name, entry in ledger.items()}
    # The newest mark of a day decides, because hours that no longer exist keep older marks.
    last = sorted(previous.items(), key=lambda item: item[1].commit)
    done = {part.value(join.DATE_COLUMN): entry.fingerprint for part, entry in last}
    todo = [day for day, mark in prints.items() if recompute or done.get(day) != mark]
    if not todo or not table.exists():
        return
    group_bys = _compared_features(table, sides)
    partition_columns = (
        join.DATE_COLUMN,
        *conf.segment_by,
        *([join.BUCKET_COLUMN] if conf.bucket_minutes else []),
    )
    buckets = join.DAY_MINUTES // conf.bucket_minutes if conf.bucket_minutes else 1
    features = sum(map(len, group_bys.values()))
    private = privacy_settings().for_dataset(
        conf.dataset, f"{conf.namespace}.{conf.name}", tags=tags
    )
    width = max(1, MAX_METRICS_PER_BATCH // (buckets * (1 + features) * METRICS_PER_FEATURE))
    run_tags = {"sample_percent": f"{conf.sample_percent:g}", **tags}
    if conf.query_sources:
        run_tags["query_source"] = ", ".join(conf.query_sources)
    source = open_table(table.spark, table.name).name
    for start in range(0, len(todo), width):
        days = todo[start : start + width]
        # Measure groups as empty if they had rows in the last measurement and have none now.
        emptied = [
            partition.values
            for partition in previous
            if partition.keys == partition_columns and partition.value(join.DATE_COLUMN) in days
        ]
        measurement = comparison.measure(
            table.read(days), group_bys, partition_columns, conf.tolerance, k=conf.k, longest=conf.longest, also=emptied,
            private=private
        )  # fmt: skip
        nonempty = {values: group for values, group in measurement.groups.items() if group.rows}
        comparison.write_metrics(
            table.spark, conf.namespace, conf.name, replace(measurement, groups=nonempty), days
        )
        if not measurement.groups:
            continue
        parts = [Partition(partition_columns, values) for values in measurement.groups]
        fingerprints = {part.name: prints[part.value(join.DATE_COLUMN)] for part in parts}
        # Recorded last, because recorded days are not measured again.
        yield comparison.record(
            measurement, repository, conf.dataset, source=source, fingerprints=fingerprints, tags=run_tags,
            monitors=[monitor for monitor in conf.watched if not comparison.is_of_log(monitor)]
        )  # fmt: skip


def _compared_features(
    table: comparison.ComparisonTable, sides: ComparisonInputs
) -> dict[str, tuple[str, ...]]:
    """Return the features of each group-by: the configured ones, or those common to both sides and the table.

    Raises
    ------
    UnknownNameError
        If a tolerance or a log name is set for an unknown feature.
    """
    conf = sides.configuration
    if conf.group_bys:
        return {name: group_by.features for name, group_by in conf.group_bys.items()}
    table_features = set(table.features())  # includes earlier days, which the backfill may not have
    common = {
        group_name: tuple(name for name in features if name.casefold() in table_features)
        for group_name, features in sides.group_bys.items()
    }
    for name in (*conf.tolerance, *conf.logged_as):
        if name not in common[conf.all_features_name]:
            raise UnknownNameError("feature", name, common[conf.all_features_name])
    return common
