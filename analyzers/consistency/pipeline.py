"""From the query log to metrics: flatten, backfill, compare and measure what is new, a day at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

from analyzers.consistency.backfill import TableBackfill, identity
from analyzers.consistency.comparing import measure
from analyzers.consistency.configuration import Configuration
from analyzers.consistency.flatten import Flattened, flatten
from analyzers.consistency.pairs import BUCKET, DATE, DAY
from analyzers.consistency.recording import Recorder, record
from analyzers.consistency.sides import Sides
from analyzers.consistency.tables import ComparisonTable, write_metrics
from analyzers.description import canonical_json, key_of
from analyzers.errors import SourceError, SuiteError, UnknownNameError
from analyzers.incremental import RunReport
from analyzers.partitions import Partition
from analyzers.tables import open_table
from analyzers.views import Views

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CELLS = 500_000
"""Metrics that are measured together, at most; their states are collected to the driver."""
METRICS = 9
"""Metrics of a feature, about."""


@dataclass(frozen=True)
class ConsistencyRun:
    """What a run did.

    Attributes
    ----------
    dataset : str
        Where the repository has the metrics.
    flattened : Flattened
    compared : tuple of str
        The days whose rows were compared now.
    reports : tuple of RunReport
        What was recorded, for some days each.
    table : str
        The table of compared rows, quoted.
    """

    dataset: str
    flattened: Flattened
    compared: tuple[str, ...]
    reports: tuple[RunReport, ...]
    table: str

    @property
    def changes(self) -> Mapping[str, Any]:
        """What each measured partition was to the repository, by its name."""
        return {name: change for one in self.reports for name, change in one.changes.items()}

    def __str__(self) -> str:
        """Say it in a few lines."""
        counts = Counter(self.changes.values())
        told = ", ".join(f"{count} {change}" for change, count in counts.items()) or "nothing new"
        return f"{self.flattened}\n{self.table}: {len(self.compared)} days\n{self.dataset}: {told}"


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
    """Flatten, backfill, compare and measure what is new or changed; see `tidegauge.consistency.run`.

    Each step leaves whole days behind it: the flattened log and the comparison table remember of what each day
    was made, and the repository on which of these it was measured.
    """
    flattened, days = flattened_days(spark, configuration, until, since)
    table = ComparisonTable.of(spark, configuration.namespace, configuration.name)
    marks = _marks(spark, configuration, days)
    known = table.marks()
    compared = [day for day, mark in marks.items() if recompute or known.get(day) != mark]
    views = Views(spark)
    try:
        sides = Sides(spark, configuration, flattened, views, tuple(compared or marks))
        if compared:
            table.write(sides.paired(), {day: marks[day] for day in compared})
        reports = list(_measured(table, sides, marks, repository, recompute, tags or {}))
    finally:
        views.drop()
    return ConsistencyRun(
        configuration.dataset, flattened, tuple(compared), tuple(reports), table.name
    )


def flattened_days(
    spark: SparkSession, configuration: Configuration, until: str | None, since: str | None
) -> tuple[Flattened, dict[str, str | None]]:
    """Flatten the log, and return what was done with the fingerprints of the days that are to be compared.

    Parameters
    ----------
    until, since : str or None
        As for `run`.

    Raises
    ------
    SuiteError
        If one is no day.
    """
    until = until or (datetime.now(UTC).date() - timedelta(days=1)).isoformat()
    since = since or configuration.since
    for what, day in (("since", since), ("until", until)):
        if day is not None and not is_day(day):
            raise SuiteError(f"{what} is a day such as 2023-01-05, not {day!r}")
    flattened = flatten(
        spark, configuration.namespace, configuration.name, until, since=since,
        keys=configuration.keys, type=configuration.type,
        sample_percent=configuration.sample_percent, schemas=configuration.schemas or None,
    )  # fmt: skip
    return flattened, _days(spark, flattened, since, until)


def _days(
    spark: SparkSession, flattened: Flattened, since: str | None, until: str
) -> dict[str, str | None]:
    """Return the days of the flattened log with their fingerprints.

    Raises
    ------
    SourceError
        If one is no day, so that what only the backfill has cannot be told to be of it.
    """
    listed = open_table(spark, flattened.table).list_partitions()
    days = {one.partition.value(DATE): one.fingerprint for one in listed}
    days = {day: days[day] for day in sorted(days) if (since or day) <= day <= until}
    for day in days:
        if not is_day(day):
            raise SourceError(f"ds {day!r} of {flattened.table} is no day such as 2023-01-05")
    return days


def is_day(text: str) -> bool:
    """Whether a text is a day as days are written here.

    Examples
    --------
    >>> is_day("2023-01-05"), is_day("2023-1-5"), is_day("20230105")
    (True, False, False)
    """
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _marks(
    spark: SparkSession, configuration: Configuration, days: Mapping[str, str | None]
) -> dict[str, str]:
    """Return for each day text that is equal as long as its comparison would be."""
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
    """Return a table's fingerprint of each day; of all, where it is not partitioned by days as these are."""
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
    sides: Sides,
    marks: Mapping[str, str],
    repository: Recorder,
    recompute: bool,  # noqa: FBT001
    tags: Mapping[str, str],
) -> Iterator[RunReport]:
    """Measure the days that the repository does not know so, and record some of them at a time."""
    c = sides.configuration
    allowed = {name: [one.absolute, one.relative] for name, one in c.tolerance.items()}
    how = canonical_json([allowed, c.k, c.longest])
    prints = {day: key_of(f"{mark} {how}") for day, mark in marks.items()}
    ledger = repository.store.ledger(c.dataset)
    before = {Partition.from_path(name): known.fingerprint for name, known in ledger.items()}
    done = {(part.value(DATE), fingerprint) for part, fingerprint in before.items()}
    todo = [day for day, mark in prints.items() if recompute or (day, mark) not in done]
    if not todo or not table.exists():
        return
    group_bys = _group_bys(table, sides)
    by = (DATE, *c.segment_by, *([BUCKET] if c.bucket_minutes else []))
    buckets = DAY // c.bucket_minutes if c.bucket_minutes else 1
    features = sum(map(len, group_bys.values()))
    width = max(1, CELLS // (buckets * (1 + features) * METRICS))
    told = {"sample_percent": f"{c.sample_percent:g}", **tags}
    if c.query_sources:
        told["query_source"] = ", ".join(c.query_sources)
    source = open_table(table.spark, table.name).name
    for at in range(0, len(todo), width):
        days = todo[at : at + width]
        # What had rows when it was measured before, and has none now, is measured as nothing.
        also = [one.values for one in before if one.keys == by and one.value(DATE) in days]
        found = measure(
            table.read(days), group_bys, by, c.tolerance, k=c.k, longest=c.longest, also=also
        )
        having = {values: group for values, group in found.groups.items() if group.rows}
        write_metrics(table.spark, c.namespace, c.name, replace(found, groups=having), days)
        if not found.groups:
            continue
        parts = [Partition(by, values) for values in found.groups]
        fingerprints = {part.name: prints[part.value(DATE)] for part in parts}
        # Last: what the repository knows of a day is not measured again.
        yield record(
            found, repository, c.dataset, source=source, fingerprints=fingerprints, tags=told,
            monitors=c.monitors
        )  # fmt: skip


def _group_bys(table: ComparisonTable, sides: Sides) -> dict[str, tuple[str, ...]]:
    """Return the features of each group-by: those that are configured, or that both sides and the table have.

    Raises
    ------
    UnknownNameError
        If something is said of a feature that is not there.
    """
    c = sides.configuration
    if c.group_bys:
        return {name: one.features for name, one in c.group_bys.items()}
    kept = set(table.features())  # with those of earlier days, which the backfill may give no more
    found = {
        whole: tuple(name for name in features if name.casefold() in kept)
        for whole, features in sides.group_bys.items()
    }
    for name in (*c.tolerance, *c.logged_as):
        if name not in found[c.whole]:
            raise UnknownNameError("feature", name, found[c.whole])
    return found
