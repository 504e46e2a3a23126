"""Consistency pipeline: flatten, backfill, compare and measure new or changed days."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from tidegauge.analyzers.core.description import canonical_json, key_of
from tidegauge.analyzers.core.errors import (
    PartitionSelectionError,
    SourceError,
    UnknownNameError,
)
from tidegauge.analyzers.core.formatting import plural
from tidegauge.analyzers.core.partitions import Partition, nearby_partitions
from tidegauge.analyzers.runs.recording import WAIT_SECONDS, Recorder, RunReport
from tidegauge.analyzers.scan.views import Views
from tidegauge.analyzers.sources.catalog_tables import open_table
from tidegauge.consistency.backfill import TableBackfill, identity
from tidegauge.consistency.compare.alignment import BUCKET, DATE, DAY
from tidegauge.consistency.compare.inputs import ComparisonInputs
from tidegauge.consistency.compare.measuring import measure
from tidegauge.consistency.compare.tables import ComparisonTable, write_metrics
from tidegauge.consistency.configuration import Configuration, require_day
from tidegauge.consistency.log.flatten import Flattened, flatten
from tidegauge.consistency.log.query import is_day
from tidegauge.consistency.recording import is_of_log, record, record_log
from tidegauge.repository.store.config import privacy_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
