"""Consistency pipeline: flatten, backfill, compare and measure new or changed days.

`ComparisonInputs` has both sides of a comparison, for some days of a join's log.
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
from tidegauge.consistency.compare.comparison import (
    ComparisonTable,
    is_of_log,
    record,
    record_log,
    write_metrics,
)
from tidegauge.consistency.compare.join import BUCKET, DATE, DAY, AlignedPart, Alignment, pair_parts
from tidegauge.consistency.compare.measures import PRESENCE
from tidegauge.consistency.compare.measuring import measure
from tidegauge.consistency.configuration import (
    TIME,
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


SOURCE = "query_source"


@dataclass(frozen=True)
class ComparisonInputs:
    """Logged rows and backfills of a join.

    Attributes
    ----------
    spark : SparkSession
    configuration : Configuration
    flattened : Flattened
    views : Views
        Must stay open until all results have been read.
    days : tuple of str
        The days of the log, as ``2023-01-05``.
    """

    spark: SparkSession
    configuration: Configuration
    flattened: Flattened
    views: Views
    days: tuple[str, ...]

    @property
    def by(self) -> tuple[str, ...]:
        """The columns by which results are partitioned, besides the bucket."""
        return (DATE, *self.configuration.segment_by)

    @cached_property
    def logged(self) -> DataFrame:
        """The logged rows: keys, time, features, and the columns for filtering and partitioning."""
        rows = self.spark.table(self.flattened.table)
        beside = {*self.configuration.segment_by, SOURCE}
        columns = self.flattened.columns
        for name in self.configuration.payload:
            if name not in columns.payload and name not in columns.values:
                raise UnknownNameError("payload", name, [*columns.payload, *columns.values])
        left_out = {*beside, *self.configuration.payload}
        features = [name for name in columns.values if name not in left_out]
        if unknown := sorted(set(self.configuration.segment_by) - set(rows.columns)):
            raise PreconditionError(
                f"{self.flattened.table} has no {unknown[0]!r} to tell results apart by"
            )
        kept = dict.fromkeys([*self.configuration.keys, TIME, DATE, *sorted(beside), *features])
        days = [(day,) for day in self.days]
        return filter_partitions(rows, (DATE,), days).select(*map(quote, kept))

    @cached_property
    def chosen(self) -> DataFrame:
        """The logged rows from the configured query sources."""
        sources = self.configuration.query_sources
        return self.logged.where(one_of(SOURCE, sources)) if sources else self.logged

    def backfill_pairs(self, lag_ms: int = 0) -> DataFrame:
        """Return the (key, timestamp) pairs to backfill."""
        return logged_keys(self.chosen, self.configuration.keys, lag_ms)

    @cached_property
    def parts(self) -> tuple[AlignedPart, ...]:
        """The backfills, each computed once for all group-bys that share it and its lag."""
        whole = self.configuration.whole
        if not self.configuration.group_bys:
            found = self._found(self.configuration.backfill_of(whole), 0, ())
            return (AlignedPart(found, {whole: self._common(found)}),)
        groups: dict[tuple[Backfill, int], dict[str, Sequence[str]]] = {}
        for name, one in self.configuration.group_bys.items():
            of = self.configuration.backfill_of(name)
            groups.setdefault((of, one.lag_ms), {})[name] = one.features
        return tuple(
            AlignedPart(self._found(*of, tuple(some)), some) for of, some in groups.items()
        )

    @cached_property
    def group_bys(self) -> Mapping[str, Sequence[str]]:
        """The features of each group-by, in the order of the configuration."""
        found = {name: some for part in self.parts for name, some in part.group_bys.items()}
        return {name: found[name] for name in (self.configuration.group_bys or found)}

    def paired(self) -> DataFrame:
        """Return the comparison table of the days.

        Raises
        ------
        PreconditionError
            Listing all mismatches.
        """
        conf = self.configuration
        by = dict.fromkeys([*self.by, *([SOURCE] if conf.query_sources else [])])
        features = tuple(name for some in self.group_bys.values() for name in some)
        pairs = Alignment(conf.keys, features, TIME, tuple(by), conf.bucket_minutes, conf.logged_as)
        parts = [self._only(part, features) for part in self.parts]
        found = pair_parts(self.logged, parts, pairs).where(one_of(DATE, self.days))
        if conf.query_sources:
            # Backfill-only rows have no source, so they are missing for any choice of sources.
            chosen = one_of(SOURCE, conf.query_sources)
            found = found.where(f"{chosen} OR {PRESENCE} = 'missing'")
        return found

    def _only(self, part: AlignedPart, features: Collection[str]) -> AlignedPart:
        """Keep keys, time and features: a backfill's own partition columns follow its own times."""
        wanted = {name.casefold() for name in (*self.configuration.keys, TIME, *features)}
        kept = [quote(name) for name in part.data.columns if name.casefold() in wanted]
        return AlignedPart(part.data.select(*kept), part.group_bys)

    def _found(self, backfill: Backfill, lag_ms: int, group_bys: Sequence[str]) -> DataFrame:
        """Return a backfill's features; errors name the group-bys that it is of."""
        whose = f" of {', '.join(map(repr, group_bys))}" if group_bys else ""
        asked = self.backfill_pairs(lag_ms)
        found = self._timed(backfilled(backfill, asked, self.views, whose))
        if isinstance(backfill, TableBackfill):
            found = self._of_days(found)
        names = {name.casefold() for name in found.columns}
        time = self.configuration.time
        lacking = [k for k in self.configuration.keys if k.casefold() not in names]
        lacking += [time] if TIME not in names else []
        if lacking:
            told = " and ".join(map(repr, lacking))
            raise PreconditionError(f"{backfill}{whose} gives no {told}, by which rows are joined")
        found = unshifted(found, lag_ms)
        percent = self.configuration.sample_percent
        return found if percent == 100 else sample(found, self.configuration.keys, percent)

    def _timed(self, found: DataFrame) -> DataFrame:
        """Rename the time column to the log's name."""
        time = self.configuration.time.casefold()
        if time == TIME or time not in {name.casefold() for name in found.columns}:
            return found
        kept = [quote(name) for name in found.columns if name.casefold() not in {TIME, time}]
        return found.selectExpr(*kept, f"{quote(self.configuration.time)} AS {TIME}")

    def _of_days(self, found: DataFrame) -> DataFrame:
        """Filter a table to rows that may belong to the days.

        Rows are filtered by ds, with a margin of one day on either side, or else by time.
        """
        first, last = (date.fromisoformat(day) for day in (min(self.days), max(self.days)))
        low, high = first - timedelta(days=1), last + timedelta(days=1)
        schema = Schema.from_frame(found)
        names = {name.casefold() for name in schema.names}
        of_these = f"ds >= {literal(str(low))} AND ds <= {literal(str(high))}"
        kind = schema.field(DATE).kind if DATE in names else ""
        if kind == "date":
            return found.where(of_these)
        if kind == "string":
            # Days in another format, such as 20230105, are not comparable and are kept.
            return found.where(f"{of_these} OR ds NOT RLIKE '^[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}'")
        if TIME not in names:
            return found  # rejected later, along with other missing columns
        field = schema.field(TIME)
        start, end = ((day - date(1970, 1, 1)).days * 86_400_000 for day in (low, high))
        if field.kind in INTEGRAL:
            return found.where(f"{field.sql} >= {start}L AND {field.sql} < {end}L")
        if field.kind == "timestamp":
            return found.where(
                f"{field.sql} >= timestamp_millis({start}L) AND {field.sql} < timestamp_millis({end}L)"
            )
        return found

    def _common(self, found: DataFrame) -> tuple[str, ...]:
        """Return the features that both sides have, in the backfill's order."""
        conf = self.configuration
        beside = (*conf.keys, TIME, *self.by, SOURCE, *conf.payload)
        taken = {name.casefold() for name in beside}
        served = {name.casefold() for name in self.logged.columns}
        return tuple(
            name
            for name in found.columns
            if name.casefold() not in taken and conf.logged_as.get(name, name).casefold() in served
        )


CELLS = 500_000
"""Most metrics measured together; their states are collected to the driver."""
METRICS = 9
"""Approximate number of metrics per feature."""


@dataclass(frozen=True)
class ConsistencyRun:
    """Result of a consistency run.

    Attributes
    ----------
    dataset : str
        Dataset of the metrics in the repository.
    flattened : Flattened
    compared : tuple of str
        Days whose rows were compared in this run.
    reports : tuple of RunReport
        Reports of the recorded batches of days.
    table : str
        The table of compared rows, quoted.
    log_dataset : str
        Dataset of the metrics of the log itself.
    logged : int
        How many of these were new.
    notices : tuple of str
    found : mapping of str to tuple of str
        Partitions of anomalies that no run had found before, by dataset.
    """

    dataset: str
    flattened: Flattened
    compared: tuple[str, ...]
    reports: tuple[RunReport, ...]
    table: str
    log_dataset: str = ""
    logged: int = 0
    notices: tuple[str, ...] = ()
    found: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def changes(self) -> Mapping[str, Any]:
        """The change of each measured partition, by its name."""
        return {name: change for one in self.reports for name, change in one.changes.items()}

    @property
    def judged(self) -> Mapping[str, tuple[str, ...]]:
        """Partitions with new metrics or anomalies, by dataset; the log's are its flattened days."""
        days = tuple(f"{DATE}={day.ds}" for day in self.flattened.days)
        new = {self.dataset: tuple(self.changes), self.log_dataset: days if self.logged else ()}
        both = {dataset: (*some, *self.found.get(dataset, ())) for dataset, some in new.items()}
        return {dataset: partitions for dataset, partitions in both.items() if partitions}

    def __str__(self) -> str:
        """Return a summary of a few lines."""
        counts = Counter(self.changes.values())
        told = ", ".join(f"{count} {change}" for change, count in counts.items()) or "nothing new"
        lines = [
            str(self.flattened),
            f"{self.table}: {plural(len(self.compared), 'day')}",
            f"{self.dataset}: {told}",
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

    Each step completes whole days: the flattened log and the comparison table store the fingerprint
    of each day's inputs, and the repository the one it was measured on. A lease keeps other runs of
    the join on this repository waiting.
    """
    tables = f"consistency of {configuration.namespace}.{configuration.name}"
    with repository.store.hold(tables, WAIT_SECONDS):
        return _run(spark, configuration, repository, until, since, recompute, tags or {})


def _run(
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
    # Before the comparison, which may fail on what could not be read.
    logged = record_log(flattened.counted, repository, f"{dataset}.log")
    if not days and (since or until):
        raise _no_such_days(spark, flattened, since, until)
    table = ComparisonTable.for_join(spark, configuration.namespace, configuration.name)
    marks = _marks(spark, configuration, days)
    known = table.marks()
    compared = [day for day, mark in marks.items() if recompute or known.get(day) != mark]
    views = Views(spark)
    try:
        sides = ComparisonInputs(spark, configuration, flattened, views, tuple(compared or marks))
        if compared:
            table.write(sides.paired(), {day: marks[day] for day in compared})
        reports = list(_measured(table, sides, marks, repository, recompute, tags))
    finally:
        views.drop()
    return ConsistencyRun(
        dataset, flattened, tuple(compared), tuple(reports), table.name,
        f"{dataset}.log", logged,
        (*table.notices(), *_unlogged(configuration, flattened), *_without_days(days)),
    )  # fmt: skip


def _without_days(days: Mapping[str, str | None]) -> list[str]:
    """Return a notice if there is no day to compare, as on the first day of a log."""
    last = "up to yesterday in UTC; until= names another last day"
    return [] if days else [f"the log has no queries {last}"]


def _no_such_days(
    spark: SparkSession, flattened: Flattened, since: str | None, until: str | None
) -> PartitionSelectionError:
    """Return the error of a selection of days of which none is in the log."""
    listed = open_table(spark, flattened.table).list_partitions()
    names = sorted(entry.partition.name for entry in listed)
    days = ", ".join(f"{k}={v}" for k, v in (("since", since), ("until", until)) if v)
    near = nearby_partitions(f"{DATE}={until or since}", names)
    return PartitionSelectionError(f"the log has no queries of the days {days}{near}")


def _unlogged(configuration: Configuration, flattened: Flattened) -> list[str]:
    """Return a notice if a backfill's table has keys that clients did not log.

    A query is asked for logged ones alone.
    """
    c, logged = configuration, flattened.logged_percent
    backfills = [c.backfill_of(name) for name in c.group_bys or (c.whole,)]
    tables = {one.table for one in backfills if isinstance(one, TableBackfill)}
    if not tables or logged >= c.sample_percent:
        return []
    told = (
        f"a client logged {logged:g} % of the keys, and {c.sample_percent:g} % of"
        f" {', '.join(sorted(tables))} are compared: rows of the others count as row_missing;"
        f" set sample_percent: {logged:g}"
    )
    return [told]


def flattened_days(
    spark: SparkSession, configuration: Configuration, until: str | None, since: str | None
) -> tuple[Flattened, dict[str, str | None]]:
    """Flatten the log, and return the result with the fingerprints of the days to compare.

    Parameters
    ----------
    until, since : str or None
        As for `run`.

    Raises
    ------
    SuiteError
        If one is not a day.
    """
    until = until or (datetime.now(UTC).date() - timedelta(days=1)).isoformat()
    since = since or configuration.since
    for what, day in (("since", since), ("until", until)):
        if day is not None:
            require_day(what, day)
    flattened = flatten(
        spark, configuration.namespace, configuration.name, until, since=since,
        keys=configuration.keys, type=configuration.type,
        sample_percent=configuration.sample_percent, schemas=configuration.schemas or None,
    )  # fmt: skip
    return flattened, _days(spark, flattened, since, until)


def _days(
    spark: SparkSession, flattened: Flattened, since: str | None, until: str
) -> dict[str, str | None]:
    """Return the fingerprints of the flattened log's days.

    Raises
    ------
    SourceError
        If a partition is not a day, so that backfill-only rows are not assignable to it.
    """
    listed = open_table(spark, flattened.table).list_partitions()
    days = {one.partition.value(DATE): one.fingerprint for one in listed}
    days = {day: days[day] for day in sorted(days) if (since or day) <= day <= until}
    for day in days:
        if not is_day(day):
            raise SourceError(f"ds {day!r} of {flattened.table} is no day such as 2023-01-05")
    return days


def _marks(
    spark: SparkSession, configuration: Configuration, days: Mapping[str, str | None]
) -> dict[str, str]:
    """Return a fingerprint of each day's comparison inputs and settings."""
    c = configuration
    group_bys = [[name, one.features, one.lag_ms] for name, one in c.group_bys.items()]
    backfills = [c.backfill_of(name) for name in c.group_bys or (c.whole,)]
    sources = [identity(one) for one in backfills]
    how = [
        c.keys,
        c.time,
        c.payload,
        group_bys,
        sources,
        dict(c.logged_as),
        c.bucket_minutes,
        c.sample_percent,
    ]
    chosen = [c.query_sources, c.segment_by]
    tables = {one.table: None for one in backfills if isinstance(one, TableBackfill)}
    files = [_files(spark, name, days) for name in tables]
    return {
        day: key_of(canonical_json([how, chosen, mark, [some[day] for some in files]]))
        for day, mark in days.items()
    }


def _files(spark: SparkSession, table: str, days: Mapping[str, Any]) -> dict[str, str]:
    """Return a table's fingerprint per day; of the whole table if not partitioned by ISO days."""
    source = open_table(spark, table)
    by_day = DATE in source.keys
    every: list[list[str | None]] = []
    of_day: dict[str, list[list[str | None]]] = {day: [] for day in days}
    for one in source.list_partitions():
        day = one.partition.value(DATE) if by_day else ""
        known = of_day.get(day, []) if is_day(day) else every
        known.append([one.partition.name, one.fingerprint])
    return {day: canonical_json(sorted([*every, *own])) for day, own in of_day.items()}


def _measured(
    table: ComparisonTable,
    sides: ComparisonInputs,
    marks: Mapping[str, str],
    repository: Recorder,
    recompute: bool,  # noqa: FBT001
    tags: Mapping[str, str],
) -> Iterator[RunReport]:
    """Measure days that are new or changed for the repository, and record them in batches."""
    c = sides.configuration
    allowed = {name: [one.absolute, one.relative] for name, one in c.tolerance.items()}
    how = canonical_json([allowed, c.k, c.longest])
    prints = {day: key_of(f"{mark} {how}") for day, mark in marks.items()}
    ledger = repository.store.ledger(c.dataset)
    before = {Partition.from_name(name): known for name, known in ledger.items()}
    # What was stored last tells what a day was compared by: hours that are gone keep older marks.
    last = sorted(before.items(), key=lambda item: item[1].commit)
    done = {part.value(DATE): known.fingerprint for part, known in last}
    todo = [day for day, mark in prints.items() if recompute or done.get(day) != mark]
    if not todo or not table.exists():
        return
    group_bys = _group_bys(table, sides)
    by = (DATE, *c.segment_by, *([BUCKET] if c.bucket_minutes else []))
    buckets = DAY // c.bucket_minutes if c.bucket_minutes else 1
    features = sum(map(len, group_bys.values()))
    private = privacy_settings().of(c.dataset, f"{c.namespace}.{c.name}", tags=tags)
    width = max(1, CELLS // (buckets * (1 + features) * METRICS))
    told = {"sample_percent": f"{c.sample_percent:g}", **tags}
    if c.query_sources:
        told["query_source"] = ", ".join(c.query_sources)
    source = open_table(table.spark, table.name).name
    for at in range(0, len(todo), width):
        days = todo[at : at + width]
        # Groups that had rows when last measured and have none now are measured as empty.
        also = [one.values for one in before if one.keys == by and one.value(DATE) in days]
        found = measure(
            table.read(days), group_bys, by, c.tolerance, k=c.k, longest=c.longest, also=also,
            private=private
        )  # fmt: skip
        having = {values: group for values, group in found.groups.items() if group.rows}
        write_metrics(table.spark, c.namespace, c.name, replace(found, groups=having), days)
        if not found.groups:
            continue
        parts = [Partition(by, values) for values in found.groups]
        fingerprints = {part.name: prints[part.value(DATE)] for part in parts}
        # Recorded last: a day that the repository knows is not measured again.
        yield record(
            found, repository, c.dataset, source=source, fingerprints=fingerprints, tags=told,
            monitors=[one for one in c.watched if not is_of_log(one)]
        )  # fmt: skip


def _group_bys(table: ComparisonTable, sides: ComparisonInputs) -> dict[str, tuple[str, ...]]:
    """Return the features of each group-by: configured, or common to both sides and the table.

    Raises
    ------
    UnknownNameError
        If a tolerance or a log name is set for an unknown feature.
    """
    c = sides.configuration
    if c.group_bys:
        return {name: one.features for name, one in c.group_bys.items()}
    kept = set(table.features())  # also of earlier days, which the backfill may lack
    found = {
        whole: tuple(name for name in features if name.casefold() in kept)
        for whole, features in sides.group_bys.items()
    }
    for name in (*c.tolerance, *c.logged_as):
        if name not in found[c.whole]:
            raise UnknownNameError("feature", name, found[c.whole])
    return found
