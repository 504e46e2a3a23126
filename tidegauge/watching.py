"""Watch all tables of a folder or catalog by their metadata: measure, detect anomalies, and report on one screen.

`watch` finds the tables, measures the tables whose files changed since the last watch, detects anomalies and
notifies. It reads listings, footers and table logs, and never scans data.
"""

from __future__ import annotations

import shlex
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from fnmatch import fnmatchcase
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from pydantic import Field, ValidationError

from tidegauge.analyzers.core.errors import NoSuchTableError, SourceError, SuiteError, message_of
from tidegauge.analyzers.core.filesystems import absolute, comparable
from tidegauge.analyzers.core.formatting import hide_secrets, plural
from tidegauge.analyzers.core.registry import canonical_json
from tidegauge.analyzers.core.sql import is_folder
from tidegauge.analyzers.measures.counts import Size
from tidegauge.analyzers.runs.ledger import Change, RunSpec, RunStatus, is_same_source
from tidegauge.analyzers.runs.metadata import BATCH_BYTES, run_metadata
from tidegauge.analyzers.runs.recording import WAIT_SECONDS, RunReport
from tidegauge.analyzers.sources.lake import (
    SNAPSHOT_KEY,
    CatalogPattern,
    LakeSource,
    LakeTable,
    find_catalog_tables,
    find_tables,
    is_searched,
    open_lake_table,
)
from tidegauge.analyzers.sources.sources import FileInfo, fingerprint
from tidegauge.files.models import Document
from tidegauge.files.yaml_file import YamlFile
from tidegauge.job import JobResult, run_tables
from tidegauge.notifications.notify import notify_all
from tidegauge.outcome import Cause, Gate, JUnitCase, Kind, Outcome, Problem
from tidegauge.repository.detection.together import detect
from tidegauge.repository.detectors.monitor import Monitor, Sensitivity
from tidegauge.repository.detectors.whole_partitions import (
    EmptyMetrics,
    Late,
    MissingPartition,
    SchemaChange,
    StalePartition,
)
from tidegauge.repository.incidents.common_cause import grouped_incident_rows
from tidegauge.repository.repository import as_repository
from tidegauge.repository.store import schema as s
from tidegauge.repository.store.bulk import chunks
from tidegauge.repository.store.dimensions import Recorded
from tidegauge.repository.store.listing import (
    NOT_SEEN,
    SNAPSHOTS_ENDING,
    WATCH_TAG,
    dataset_rows,
    tags_of_datasets,
)
from tidegauge.repository.store.queries import Window
from tidegauge.repository.store.rows import GroupedIncidentRow, Severity
from tidegauge.repository.store.user_metrics import Record, write_records
from tidegauge.spark.session import active_session
from tidegauge.suite import Suite, privacy_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from sqlalchemy.engine import Connection

    from tidegauge.repository.repository import Repository

FILES, BYTES = "Files", "Bytes"
"""Names of the metrics of the files of a partition."""
UNFINISHED = "unfinished"
"""Value of the tag if the run did not measure all partitions; the next watch continues."""
DEFAULT_SAMPLE = 90
"""Number of partition times that the first watch of a table measures: a quarter of days."""
MAX_LISTED = 20
"""Maximum number of incidents, and of tables with a problem, on the screen."""
MAX_NAMED = 5
"""Maximum number of tables in an error message."""
MAX_MEMBERS = 3
"""Maximum number of incidents that are listed below their group."""

MONITORS = (
    Monitor({"name": "Size|Completeness"}),
    Monitor(detector=StalePartition(), severity="error"),
    Monitor(detector=EmptyMetrics()),
    Monitor(detector=MissingPartition()),
    Monitor(detector=Late()),
    Monitor(detector=SchemaChange()),
)
"""Monitors of watched tables: volume, nulls, copies, freshness and schema. Extremes are stored, but they are not
monitored, because the largest value of a day is often unusual. With one monitor for each detector, a run scores only
changed partitions."""


class TableSettings(Document):
    """Settings of watched tables, in a file or as properties of a table: ``tidegauge.owner`` and so on.

    Attributes
    ----------
    owner : str
        Owner of the tables, which the home page shows.
    tier : str
        Importance of the tables.
    muted : bool
        Whether incidents of the tables are not notified, and do not fail the command.
    exclude : bool
        Whether the tables are not watched.
    """

    owner: str | None = None
    tier: str | None = None
    muted: bool | None = None
    exclude: bool | None = None

    def tags(self) -> dict[str, str]:
        """Return the tags of runs: the owner, the tier, and whether the table is muted."""
        named = {"owner": self.owner, "tier": self.tier, MUTED_TAG: "true" if self.muted else None}
        return {name: value for name, value in named.items() if value is not None}


class WatchFields(Document):
    """Fields of a settings file of `watch`.

    Attributes
    ----------
    include, exclude : list of str
        Patterns of datasets to watch, and not to watch.
    notify : list of str
        Destinations of notifications.
    tables : dict
        Settings of tables, by patterns of datasets; later patterns override earlier ones.
    variables : dict
        Variables and their defaults; ``${name}`` in a string is replaced by the value.
    """

    include: list[str] = Field(default_factory=list)
    exclude: list[str] = Field(default_factory=list)
    notify: list[str] = Field(default_factory=list, repr=False)
    tables: dict[str, TableSettings] = Field(default_factory=dict)
    variables: dict[str, str | None] = Field(default_factory=dict)

    def of(self, dataset: str) -> TableSettings:
        """Return the settings of a dataset; patterns may leave out the ending of unpartitioned tables."""
        names = (dataset, dataset.removesuffix(SNAPSHOTS_ENDING))
        merged: dict[str, Any] = {}
        for pattern, settings in self.tables.items():
            if any(fnmatchcase(name, pattern) for name in names):
                merged |= settings.model_dump(exclude_none=True)
        return TableSettings(**merged)

    def chooses(self, names: Collection[str]) -> bool:
        """Return whether a table is watched, as far as its names decide."""
        is_excluded = any(self.of(name).exclude for name in names)
        return not is_excluded and _is_chosen(names, self.include, self.exclude)


def read_watch_file(path: str | Path) -> WatchFields:
    """Read a settings file of `watch`.

    Raises
    ------
    SuiteError
        With the line and the problem, if the file is invalid.
    """
    return YamlFile.read(path, "watch file", "tables:").fields(WatchFields)


MUTED_TAG = "muted"
"""Tag of the runs of muted tables."""
_PROPERTY_PREFIX = "tidegauge."


def _settings_of(properties: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings in a table's properties; other properties are ignored."""
    values: dict[str, Any] = {
        name: value
        for name in TableSettings.model_fields
        if (value := properties.get(_PROPERTY_PREFIX + name)) is not None
    }
    try:
        return TableSettings(**values).model_dump(exclude_none=True)
    except ValidationError as error:
        problem = error.errors()[0]
        msg = f"invalid property {_PROPERTY_PREFIX}{problem['loc'][0]}={problem['input']!r}: use true or false"
        raise SourceError(msg) from None


class Coverage(StrEnum):
    """Coverage of a table by a watch."""

    MEASURED = "measured"
    UNCHANGED = "unchanged"
    BY_SUITE = "measured by a suite"
    UNSUPPORTED = "not supported"
    EXCLUDED = "excluded"
    NOT_SEEN = NOT_SEEN
    RETIRED = "retired"
    NOT_REACHED = "not reached"
    PLANNED = "to be measured"


@dataclass(frozen=True)
class TableCoverage:
    """The result of watching one table.

    Attributes
    ----------
    dataset : str
        Name of the table's dataset.
    location : str
        The table's folder.
    coverage : Coverage
        Whether the table was measured.
    run : RunReport or None
        The run that measured it; None if nothing was measured.
    reason : str
        Why the table was not measured; empty if it was.
    listing : str
        Hash of the listing, if all of its partitions were measured.
    is_due : bool
        Whether a table without changes may miss a partition.
    is_muted : bool
        Whether incidents of the table are not notified.
    is_told : bool
        Whether an earlier watch has listed the table as not seen.
    """

    dataset: str
    location: str
    coverage: Coverage
    run: RunReport | None = None
    reason: str = ""
    listing: str = field(default="", repr=False)
    is_due: bool = False
    is_muted: bool = False
    is_told: bool = False

    def problems(self) -> Iterator[Problem]:
        """Yield a problem for each partition that cannot be read."""
        if self.run is not None:
            yield from (Problem(Cause.PARTITION, self.dataset) for _ in self.run.unreadable)

    def lines(self, options: str = "") -> Iterator[str]:
        """Yield a line for each partition that cannot be read."""
        if self.run is not None:
            for partition, reason in self.run.unreadable.items():
                yield f"{self.dataset}: {partition or 'the table'} cannot be read: {reason}"

    def errors(self) -> Iterator[str]:
        """Yield nothing: `lines` reports the errors."""
        return iter(())

    def sections(self) -> Mapping[str, Any]:
        """Return the table as JSON."""
        table: dict[str, Any] = {
            "dataset": self.dataset,
            "location": self.location,
            "coverage": str(self.coverage),
            "reason": self.reason,
            "muted": self.is_muted,
        }
        if self.run is not None:
            table |= {
                "run": self.run.run,
                "measured": sum(c is not Change.UNCHANGED for c in self.run.changes.values()),
                "unreadable": dict(self.run.unreadable),
            }
        return {"tables": [table]}

    def junit_suite(self, gate: Gate) -> tuple[str, Sequence[JUnitCase]]:
        """Return a JUnit suite with one case for the table."""
        problems = list(self.lines())
        is_skipped = self.run is None and self.coverage is not Coverage.UNCHANGED
        kind: Kind = "error" if problems else "skipped" if is_skipped else "passed"
        message = "; ".join(problems) or self.reason or str(self.coverage)
        return self.dataset, [JUnitCase(self.dataset, "watched", kind, message)]


@dataclass
class WatchResult(JobResult[TableCoverage]):
    """Tables that were watched, and the open incidents in them.

    Attributes
    ----------
    pattern : str
        The watched folder.
    incidents : list of mapping
        Rows of `Repository.incidents` for open incidents of the tables, the most severe first; with ``group``.
    headlines : mapping of int to str
        Headlines of groups of incidents that share a cause, by the smallest id in the group.
    stopped : str
        Why the watch stopped before all tables were measured; empty if it did not.
    muted_incidents : list of mapping
        Open incidents of muted tables.
    proposals : list of str
        Measured tables for which a suite is worth it, with the reasons and the command that writes it.

    Examples
    --------
    >>> result = WatchResult([TableCoverage("orders", "/lake/orders", Coverage.UNCHANGED)], pattern="/lake")
    >>> print(result.text())
    /lake: 1 table: 1 unchanged
    no open incidents
    >>> result.status()
    0
    """

    pattern: str = ""
    incidents: list[GroupedIncidentRow] = field(default_factory=list)
    headlines: Mapping[int, str] = field(default_factory=dict)
    stopped: str = ""
    muted_incidents: list[GroupedIncidentRow] = field(default_factory=list)
    proposals: list[str] = field(default_factory=list)

    def problems(self) -> Iterator[Problem]:
        """Yield the problems of the tables, and one for each open incident."""
        yield from super().problems()
        for incident in self.incidents:
            yield Problem(Cause.ANOMALY, incident["dataset"])

    def count(self, coverage: Coverage) -> int:
        """Return the number of tables with a coverage."""
        return sum(table.coverage is coverage for table in self.tables)

    def lines(self, options: str = "") -> list[str]:
        """Return the screen: numbers of tables, incidents, and tables that could not be measured and why."""
        counts = Counter(table.coverage for table in self.tables)
        words = [f"{counts[coverage]:,} {coverage}" for coverage in Coverage if counts[coverage]]
        if self.failed:
            words.append(f"{len(self.failed):,} failed")
        total = len(self.tables) + len(self.failed)
        lines = [f"{self.pattern}: {plural(total, 'table')}: {', '.join(words)}"]
        if not total:
            lines = [
                f"{self.pattern}: no tables: no folder has Parquet files or the log of a table"
            ]
        planned = [
            f"{t.dataset}: {t.location}" for t in self.tables if t.coverage is Coverage.PLANNED
        ]
        lines += _some("to be measured:", planned)
        if self.incidents or not planned:
            lines += self._incident_lines(options)
        if self.muted_incidents:
            muted = sorted({row["dataset"] for row in self.muted_incidents})
            count = plural(len(self.muted_incidents), "open incident")
            lines.append(f"muted: {count} in {', '.join(muted[:MAX_LISTED])}")
        unwatched = {Coverage.UNSUPPORTED, Coverage.NOT_SEEN}
        lines += _some(
            "not watched:",
            [
                f"{t.dataset}: {t.reason}"
                for t in self.tables
                if t.coverage in unwatched and not t.is_told
            ],
        )
        lines += _some(
            "partitions that cannot be read:",
            [line for table in self.tables for line in table.lines()],
        )
        if self.stopped:
            lines.append(f"stopped: {self.stopped}; the next watch resumes there")
        lines += _some("failed:", self.failed)
        lines += _some("worth a suite:", self.proposals)
        return [*lines, *super(WatchResult, self._without_failed()).closing_lines(options)]

    def _without_failed(self) -> WatchResult:
        return WatchResult(tables=[], failed=[], retired=self.retired, notices=self.notices)

    def _incident_lines(self, options: str) -> list[str]:
        """Return a line for each open incident; incidents that share a cause are listed below their group."""
        members: dict[int, list[str]] = {}
        for incident in self.incidents:
            if (group := incident["group"]) is not None and group in self.headlines:
                line = f"{incident['dataset']}: {incident['headline']}"
                members.setdefault(group, []).append(line)
        lines: list[str] = []
        for incident in self.incidents:
            group = incident["group"]
            if group is None or group not in self.headlines:
                lines.append(
                    f"{incident['severity']}: {incident['dataset']}: {incident['headline']}"
                )
            elif group in members:  # the gravest incident of the group
                group_lines = _some(
                    f"{incident['severity']}: {self.headlines[group]}",
                    members.pop(group),
                    MAX_MEMBERS,
                )
                lines.append("\n".join(group_lines))
        if not lines:
            return ["no open incidents"]
        title = f"{plural(len(lines), 'open incident')} in {plural(self.table_count, 'table')}:"
        example = self.incidents[0]["id"]
        details = f"  details: tidegauge anomalies show {example}{options}"
        return [*_some(title, lines), details]

    @property
    def table_count(self) -> int:
        """The number of tables with open incidents."""
        return len({incident["dataset"] for incident in self.incidents})

    def sections(self) -> dict[str, Any]:
        """Return the tables and incidents as JSON values."""
        incidents = [
            {
                "id": incident["id"],
                "dataset": incident["dataset"],
                "severity": str(incident["severity"]),
                "headline": incident["headline"],
                "first": incident["first"],
                "last": incident["last"],
                "group": incident["group"],
            }
            for incident in self.incidents
        ]
        return {
            "tables": [],
            **super().sections(),
            "incidents": incidents,
            "stopped": self.stopped or None,
            "proposals": self.proposals,
        }

    def junit_suites(self, gate: Gate) -> list[tuple[str, Sequence[JUnitCase]]]:
        """Return a JUnit suite for each table, and one for the open incidents."""
        kind: Kind = "failure" if gate.judge(Problem(Cause.ANOMALY)) is Outcome.FAILED else "passed"
        cases = [
            JUnitCase(str(i["dataset"]), f"incident {i['id']}", kind, str(i["headline"]))
            for i in self.incidents
        ]
        suites = super().junit_suites(gate)
        return [*suites, ("incidents", cases)] if cases else suites


def _some(title: str, items: Sequence[str], limit: int = MAX_LISTED) -> list[str]:
    """Return a title with the lines of the first items below it; nothing without items."""
    if not items:
        return []
    lines = [title, *(f"  {line}" for item in items[:limit] for line in item.split("\n"))]
    return lines + [f"  and {len(items) - limit:,} more"] * (len(items) > limit)


@dataclass(frozen=True)
class _Known:
    """The dataset of a table. It is new without a source; the tag is None if a suite measured it last; the keys are JSON."""

    dataset: str
    source: str | None = None
    tag: str | None = None
    keys: str = ""
    is_retired: bool = False
    recent_times: Sequence[datetime] = ()
    is_muted: bool = False


class _Datasets:
    """The datasets of the repository, and the names of tables that it does not know yet."""

    def __init__(self, repository: Repository) -> None:
        with repository.database.read() as connection:
            tags = tags_of_datasets(connection)
            rows = dataset_rows(connection)
            times = _recent_times(connection)
            d = s.dataset.c
            keys_query = sa.select(d.name, d["keys"])
            keys = {str(name): str(stored) for name, stored in connection.execute(keys_query)}
        self._taken: set[str] = set()
        self._by_source: dict[str, list[_Known]] = {}
        self._relative: list[_Known] = []
        self._lock = Lock()
        for row in rows:
            name, source = row["dataset"], row["source"]
            tag = tags.get(name, {}).get(WATCH_TAG)
            is_muted = MUTED_TAG in tags.get(name, {})
            is_retired = row["status"] == "retired"
            known = _Known(name, source, tag, keys[name], is_retired, times.get(name, ()), is_muted)
            if source is not None:
                self._taken.add(name)
            if source is not None and is_folder(source) and absolute(source) != source:
                self._relative.append(known)
            elif source is not None:
                self._by_source.setdefault(_source_key(source), []).append(known)

    def unchanged(self, source: str, listing: str) -> _Known | None:
        """Return the dataset that only `watch` measures, if it was measured with this listing."""
        stored = self._stored(source)
        tagged = [known for known in stored if known.tag is not None]
        is_alone = len(tagged) == len(stored) or any(k.keys == _SNAPSHOT_KEYS for k in tagged)
        measured = (k for k in tagged if k.tag == listing and not k.is_retired)
        return next(measured, None) if is_alone else None

    def of(self, source: LakeSource) -> _Known:
        """Return the dataset of a table; a new name if the repository has none.

        A table whose partition columns changed gets another dataset, because its partitions cannot be compared.
        """
        keys = canonical_json(list(source.keys))
        stored = [
            known
            for known in self._stored(source.name)
            if (known.tag is not None and known.keys == keys)
            # The suite of an unpartitioned table has other partitions than its watch.
            or (known.tag is None and source.is_partitioned)
        ]
        if stored:
            return min(stored, key=lambda known: (known.is_retired, known.tag is not None))
        table = source.table
        ending = "" if source.is_partitioned else SNAPSHOTS_ENDING
        by_keys = f"{table.name}.by_{'_'.join(source.keys)}"
        with self._lock:
            names = [f"{name}{ending}" for name in (table.name, table.path, by_keys, table.source)]
            name = next((name for name in names if name not in self._taken), names[-1])
            self._taken.add(name)
        return _Known(name)

    def names(self, table: LakeTable) -> set[str]:
        """Return the names by which patterns choose a table: its own, and those of its datasets."""
        names = {table.name, *(known.dataset for known in self._stored(table.source))}
        if table.format == "parquet" and table.files and not table.has_partition_folders:
            names.add(f"{table.name}{SNAPSHOTS_ENDING}")
        return names

    def unseen(
        self, searches: Sequence[_Search], is_chosen: Callable[[Collection[str]], bool]
    ) -> list[TableCoverage]:
        """Return the chosen watched tables that the searches cover and did not find anymore.

        Tables in a folder or database that cannot be listed may still exist.
        """
        found = [table for search in searches for table in search.tables]
        keys = {_source_key(table.source) for table in found}
        unlisted = tuple(
            f"{_source_key(t.source)}{'.' if t.catalog_name else '/'}"
            for t in found
            if t.problem and not t.files
        )
        return [
            TableCoverage(
                known.dataset,
                hide_secrets(known.source),
                Coverage.NOT_SEEN,
                reason=f"{'its folder has no table' if is_folder(key) else 'the catalog does not have it'} anymore;"
                " retire it with `tidegauge dataset retire`",
                is_told=known.tag == NOT_SEEN,
            )
            for key, datasets in self._by_source.items()
            if key not in keys and not key.startswith(unlisted)
            if any(search.covers(key) for search in searches)
            for known in datasets
            if known.tag is not None and not known.is_retired and known.source is not None
            if is_chosen({known.dataset, known.dataset.removesuffix(SNAPSHOTS_ENDING)})
        ]

    def _stored(self, source: str) -> list[_Known]:
        stored = self._by_source.get(_source_key(source), [])
        return stored + [k for k in self._relative if is_same_source(k.source, source)]


def _source_key(source: str) -> str:
    """Return a key that is equal for equal locations and names."""
    return comparable(source).rstrip("/") if is_folder(source) else source


def _recent_times(connection: Connection) -> dict[str, list[datetime]]:
    """Return the newest partition times of each dataset."""
    p = s.partition.c
    rank = sa.func.row_number().over(partition_by=p.dataset_id, order_by=p.time.desc())
    dated = sa.select(p.dataset_id, p.time, rank.label("rank")).where(p.time.is_not(None))
    ranked = dated.subquery()
    query = (
        sa.select(s.dataset.c.name, ranked.c.time)
        .join_from(s.dataset, ranked, ranked.c.dataset_id == s.dataset.c.id)
        .where(ranked.c.rank <= RECENT_TIMES)
    )
    times: dict[str, list[datetime]] = {}
    for name, moment in connection.execute(query):
        times.setdefault(name, []).append(moment)
    return times


_SNAPSHOT_KEYS = canonical_json([SNAPSHOT_KEY])


@dataclass(frozen=True)
class _Watch:
    """Settings of one watch."""

    repository: Repository
    datasets: _Datasets
    sample: int | None
    wait: float
    batch_bytes: int
    dry_run: bool
    settings: WatchFields
    is_chosen: Callable[[Collection[str]], bool]
    must_stop: Callable[[], str]

    def table(self, table: LakeTable) -> TableCoverage:
        """Measure one table if its listing moved.

        Raises
        ------
        SourceError
            If the table cannot be read.
        """
        location = hide_secrets(table.source)
        if not table.problem and table.unsupported:
            return TableCoverage(
                table.name, location, Coverage.UNSUPPORTED, reason=table.unsupported
            )
        listing = listing_hash(table.files)
        known = self.datasets.unchanged(table.source, listing)
        if known is not None:
            is_due = is_next_due(known.recent_times, datetime.now(UTC))
            muted = self.settings.of(known.dataset).muted
            return TableCoverage(
                known.dataset,
                location,
                Coverage.UNCHANGED,
                is_due=is_due,
                is_muted=known.is_muted if muted is None else muted,
            )
        source = open_lake_table(table)
        known = self.datasets.of(source)
        coverage = Coverage.PLANNED
        if known.is_retired:
            coverage = Coverage.RETIRED
        elif known.source is not None and known.tag is None:
            coverage = Coverage.BY_SUITE
        settings = TableSettings(
            **_settings_of(source.properties)
            | self.settings.of(known.dataset).model_dump(exclude_none=True)
        )
        # The dataset of an unpartitioned table with a log is known only now.
        if settings.exclude or not self.is_chosen({known.dataset, table.name}):
            coverage = Coverage.EXCLUDED
        if coverage is not Coverage.PLANNED or self.dry_run:
            return TableCoverage(known.dataset, location, coverage, is_muted=bool(settings.muted))
        if stop := self.must_stop():
            return TableCoverage(known.dataset, location, Coverage.NOT_REACHED, reason=stop)
        report = self._measure(source, known.dataset, settings.tags())
        is_complete = report.status is RunStatus.COMPLETE and not self.must_stop()
        return TableCoverage(
            known.dataset,
            location,
            Coverage.MEASURED,
            report,
            listing=listing if is_complete else "",
            is_muted=bool(settings.muted),
        )

    def _measure(self, source: LakeSource, dataset: str, tags: Mapping[str, str]) -> RunReport:
        time_format = source.time_format
        suite = Suite(
            dataset,
            [Size()],
            partition_by=source.keys,
            time=time_format,
            monitors=MONITORS,
            sensitivity=Sensitivity.LOW,
        )
        spec = RunSpec(
            dataset,
            hide_secrets(source.name),
            source.keys,
            suite.canonical(),
            tags={WATCH_TAG: UNFINISHED, **tags},
        )
        report = run_metadata(
            source,
            spec,
            self.repository.store,
            newest=self.sample,
            private=privacy_of(suite, source.name),
            wait=self.wait,
            batch_bytes=self.batch_bytes,
            may_go_on=lambda: not self.must_stop(),
        )
        changed = {n for n, change in report.changes.items() if change is not Change.UNCHANGED}
        if changed:
            self._record_files(source, dataset, changed)
        return report

    def _record_files(self, source: LakeSource, dataset: str, changed: Collection[str]) -> None:
        """Store the numbers of files and bytes of changed partitions; 0 bytes are unknown."""
        form = source.time_format
        numbers: dict[tuple[str, str], dict[str, float]] = {}
        keys = {}
        for listed in source.list_partitions():
            partition = listed.partition
            if partition.name not in changed:
                continue
            keys[partition.name] = partition
            segment = form.segment_of(partition) if form else ""
            values = {FILES: source.file_count(partition), BYTES: listed.size}
            for metric, value in values.items():
                if value:
                    numbers.setdefault((metric, segment), {})[partition.name] = float(value)
        records = [
            Record(
                dataset,
                Recorded(metric, scale="count"),
                segment,
                values,
                {},
                partition_keys={name: keys[name] for name in values},
            )
            for (metric, segment), values in numbers.items()
        ]
        write_records(self.repository.database, records)


def is_next_due(recent_times: Sequence[datetime], now: datetime) -> bool:
    """Return whether the period of the next partition has ended, so that it can be overdue.

    The step is the shortest step between the times of recent partitions.

    Examples
    --------
    >>> days = [datetime(2026, 1, day, tzinfo=UTC) for day in (1, 2, 3)]
    >>> is_next_due(days, datetime(2026, 1, 4, 23, tzinfo=UTC)), is_next_due(days, datetime(2026, 1, 6, tzinfo=UTC))
    (False, True)
    """
    known = sorted(recent_times)
    steps = [later - earlier for earlier, later in pairwise(known) if later > earlier]
    return bool(steps) and now > known[-1] + 2 * min(steps)


RECENT_TIMES = 9
"""Number of partition times whose steps show when the next partition is due."""


def listing_hash(files: Sequence[FileInfo]) -> str:
    """Return a hash of the files of a table, or of the files of its log.

    Examples
    --------
    >>> file = FileInfo("ds=2026-01-01/part-0.parquet", 10, 5)
    >>> listing_hash([file]) == listing_hash([file]) != listing_hash([])
    True
    """
    return fingerprint(files).replace("files/", "listing/")


def watch(
    pattern: str | Sequence[str],
    *,
    repository: Repository | str,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    jobs: int = 1,
    dry_run: bool = False,
    sample: int | None = DEFAULT_SAMPLE,
    minutes: float | None = None,
    memory_mb: float | None = None,
    notify: Sequence[str] = (),
    wait: float = WAIT_SECONDS,
    spark: SparkSession | None = None,
    settings: str | Path | None = None,
) -> WatchResult:
    """Measure all tables below a folder by their metadata, and detect anomalies in them.

    The first call measures the newest partitions of each table: rows, the completeness of each column, and the
    extremes of integers and times. Later calls measure only tables whose files changed. Data is never scanned.

    Parameters
    ----------
    pattern : str or sequence of str
        Folders, patterns of folders such as ``/lake/*/orders``, or patterns of Spark's catalog such as ``warehouse.*``. A table is a folder of Parquet files, with or
        without subfolders ``key=value``. Its dataset is named by its path: ``sales.orders``.
    repository : Repository or str
        A repository, or its URL.
    include, exclude : sequence of str
        Patterns of datasets to watch, and not to watch, such as ``sales.*`` (default: all and none).
    jobs : int
        Number of tables to measure at the same time.
    dry_run : bool
        Whether to only list the tables that would be measured.
    sample : int, optional
        Number of partition times that the first watch of a table measures, the newest; None for all.
    minutes : float, optional
        Start no more tables after this time. The next watch resumes there.
    memory_mb : float, optional
        Start no more tables while the process has used more memory than this, in MiB.
    notify : sequence of str
        Sinks of notifications, as for `notify`.
    wait : float
        Seconds to wait while another run measures a table.
    spark : SparkSession, optional
        The session whose catalog is searched (default: the active session). It lists tables, and reads no data.
    settings : str or Path, optional
        A file with patterns of tables to include and exclude, sinks, owners, tiers and muted tables.

    Returns
    -------
    WatchResult

    Raises
    ------
    NoSuchTableError
        If the folder does not exist, or no table matches its pattern or is included.
    SuiteError
        If a limit is not positive.

    Examples
    --------
    >>> import os, tempfile, pyarrow as pa, pyarrow.parquet as pq, tidegauge as tg
    >>> with tempfile.TemporaryDirectory() as lake, tg.Repository("sqlite://") as repo:
    ...     os.makedirs(f"{lake}/orders/ds=2026-01-31")
    ...     pq.write_table(pa.table({"id": [1, 2]}), f"{lake}/orders/ds=2026-01-31/part-0.parquet")
    ...     print(tg.watch(lake, repository=repo).text().replace(lake, "lake"))
    lake: 1 table: 1 measured
    no open incidents
    """
    for name, limit in (("sample", sample), ("minutes", minutes), ("memory_mb", memory_mb)):
        if limit is not None and limit <= 0:
            msg = f"Invalid {name}={limit:g}: use a number above 0."
            raise SuiteError(msg)
    repository = as_repository(repository)
    must_stop = _stopper(minutes, memory_mb)
    patterns = [pattern] if isinstance(pattern, str) else list(pattern)
    searches = [_search(p, spark) for p in patterns]
    tables_by_source = {t.source: t for search in searches for t in search.tables}
    chosen = WatchFields() if settings is None else read_watch_file(settings)

    def is_chosen(names: Collection[str]) -> bool:
        return chosen.chooses(names) and _is_chosen(names, include, exclude)

    datasets = _Datasets(repository)
    tables = [table for table in tables_by_source.values() if is_chosen(datasets.names(table))]
    batch_bytes = BATCH_BYTES if memory_mb is None else int(memory_mb * 2**20 / 8 / jobs)
    work = _Watch(
        repository,
        datasets,
        sample,
        wait,
        min(batch_bytes, BATCH_BYTES),
        dry_run,
        chosen,
        is_chosen,
        must_stop,
    )
    result = WatchResult(pattern=hide_secrets(", ".join(patterns)))
    for table, outcome in run_tables(tables, work.table, None, jobs=jobs):
        result.add(table.name, outcome)
    unseen = datasets.unseen(searches, is_chosen)
    result.tables += unseen
    _require_tables(searches, unseen)
    included = [*include, *chosen.include]
    if included and not result.tables and not result.failed:
        _require_included(searches, included)
    if not dry_run:
        _detect(repository, result)
    result.stopped = next(
        (t.reason for t in result.tables if t.coverage is Coverage.NOT_REACHED), ""
    )
    muted = {table.dataset for table in result.tables if table.is_muted}
    names = {table.dataset for table in result.tables} - muted
    result.incidents, result.headlines = open_incidents(repository, names)
    result.muted_incidents, _ = open_incidents(repository, muted)
    result.proposals = propose_suites(repository, result)
    sinks = [*notify, *chosen.notify]
    if not dry_run:
        result.notices = notify_all(repository, dict.fromkeys(names, sinks))
    return result


def _is_folder(pattern: str) -> bool:
    """Return whether a pattern is of folders, and not of Spark's catalog."""
    return is_folder(pattern) or Path(pattern).is_dir()


@dataclass(frozen=True)
class _Search:
    """The tables of a pattern.

    Attributes
    ----------
    pattern : str
    tables : list of LakeTable
    covers : callable
        Whether a table of a source would have been found.
    is_catalog : bool
        Whether tables of a catalog were searched.
    """

    pattern: str
    tables: list[LakeTable]
    covers: Callable[[str], bool]
    is_catalog: bool = False


def _search(pattern: str, spark: SparkSession | None) -> _Search:
    """Find the tables of a pattern: below a folder, or in the catalog of a session."""
    if _is_folder(pattern):
        return _Search(
            pattern,
            find_tables(pattern),
            lambda source: is_folder(source) and is_searched(pattern, source),
        )
    session = spark or active_session()
    if session is None:
        msg = (
            f"{pattern!r} is a pattern of Spark's catalog, which needs a session: pass spark=, or write a folder with"
            f" a slash, such as './{pattern}'"
        )
        raise SourceError(msg)
    names = CatalogPattern.parse(pattern, session)
    return _Search(pattern, find_catalog_tables(session, names), names.covers, is_catalog=True)


def _require_tables(searches: Sequence[_Search], unseen: Sequence[TableCoverage]) -> None:
    """Raise an error if a pattern of a catalog matches no table, and none that has disappeared."""
    for search in searches:
        is_known = any(search.covers(table.location) for table in unseen)
        if search.is_catalog and not search.tables and not is_known:
            msg = (
                f"no table of Spark's catalog matches {search.pattern!r}; write a folder with a slash, such as"
                f" './{search.pattern}'"
            )
            raise NoSuchTableError(msg)


def _require_included(searches: Sequence[_Search], included: Sequence[str]) -> None:
    """Raise an error that names the tables that exist, if there are any."""
    names = sorted({table.name for search in searches for table in search.tables})
    if names:
        others = f" and {len(names) - MAX_NAMED:,} more" if len(names) > MAX_NAMED else ""
        msg = (
            f"no table is included by {', '.join(map(repr, included))};"
            f" there are: {', '.join(names[:MAX_NAMED])}{others}"
        )
        raise NoSuchTableError(msg)


def _detect(repository: Repository, result: WatchResult) -> None:
    """Detect anomalies in the measured tables, and in tables that may miss a partition.

    The listings of the measured tables are stored only then, so that an interrupted watch is repeated, and a failed
    detection too. Tables that have disappeared are marked.
    """
    chosen = [table for table in result.tables if table.run is not None or table.is_due]
    names = [table.dataset for table in chosen]
    detected = detect(repository.database, repository.artifacts, names, None, Window())
    for name, error in detected.failed.items():
        result.failed.append(f"detection in {name}: {message_of(error)}")
    tag = s.run_tag
    listings = {
        t.run.run: t.listing
        for t in chosen
        if t.run is not None and t.listing and t.dataset not in detected.failed
    }

    unseen = [t.dataset for t in result.tables if t.coverage is Coverage.NOT_SEEN and not t.is_told]

    def store(connection: Connection) -> None:
        for run, listing in listings.items():
            change = sa.update(tag).where(tag.c.run_id == run, tag.c.key == WATCH_TAG)
            connection.execute(change.values(value=listing))
        for dataset in unseen:
            named = sa.select(s.dataset.c.id).where(s.dataset.c.name == dataset)
            last = sa.select(sa.func.max(s.run.c.id)).where(
                s.run.c.dataset_id == named.scalar_subquery()
            )
            change = sa.update(tag).where(
                tag.c.run_id == last.scalar_subquery(), tag.c.key == WATCH_TAG
            )
            connection.execute(change.values(value=NOT_SEEN))

    if listings or unseen:
        repository.database.write(store)


def _is_chosen(names: Collection[str], include: Sequence[str], exclude: Sequence[str]) -> bool:
    """Return whether patterns include one of a table's names, and exclude none."""

    def matches(patterns: Sequence[str]) -> bool:
        return any(fnmatchcase(name, pattern) for name in names for pattern in patterns)

    return (not include or matches(include)) and not matches(exclude)


def _stopper(minutes: float | None, memory_mb: float | None) -> Callable[[], str]:
    """Return a function that returns why no more work may start; empty if it may."""
    end = None if minutes is None else time.monotonic() + 60 * minutes

    def must_stop() -> str:
        if end is not None and time.monotonic() > end:
            return f"the time limit of {minutes:g} minutes has passed"
        if memory_mb is not None and peak_memory_mb() > memory_mb:
            return f"the process has used more than {memory_mb:g} MiB of memory"
        return ""

    return must_stop


def peak_memory_mb() -> float:
    """Return the largest memory of this process so far, in MiB; 0 if the system does not tell."""
    try:
        import resource
    except ImportError:  # Windows
        return 0.0
    import sys

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def open_incidents(
    repository: Repository, datasets: set[str]
) -> tuple[list[GroupedIncidentRow], dict[int, str]]:
    """Return the open incidents of datasets, the most severe and newest first, and the headlines of groups."""
    with repository.database.read() as connection:
        rows, groups = grouped_incident_rows(connection, None, "open", Window())
    ranks = {str(severity): rank for rank, severity in enumerate(Severity)}
    chosen = [row for row in rows if row["dataset"] in datasets]
    chosen.sort(key=lambda row: (-ranks[str(row["severity"])], -row["id"]))
    return chosen, {group.id: group.headline for group in groups.values()}


MAX_PROPOSALS = 3
"""Maximum number of tables on the screen for which a suite is proposed."""
LARGE_SWING = 0.5
"""Rows swing largely if their standard deviation is at least this share of their mean."""
MANY_NULLS = 0.1
"""A column has many nulls if at least this share of its values is null, and not all."""


def propose_suites(repository: Repository, result: WatchResult) -> list[str]:
    """Return the tables that this watch measured and that need more than metadata, with reasons and a command.

    Reasons are large swings of the rows, columns with many nulls, and integers without nulls whose range has room for
    a different value in each row, which only a scan can show to be a key. A table needs two reasons.
    """
    tables = {t.dataset: t for t in result.tables if t.run is not None and not t.is_muted}
    if not tables:
        return []
    m, x, a, d, p = s.metric.c, s.series.c, s.analyzer.c, s.dataset.c, s.partition.c
    joined = s.series.join(s.analyzer, a.id == x.analyzer_id).join(s.dataset, d.id == a.dataset_id)
    # Metrics are found by partition, because they have no index of series.
    of_partitions = joined.join(s.partition, p.dataset_id == d.id).join(
        s.metric, (m.partition_id == p.id) & (m.series_id == x.id)
    )
    rows_query = (
        sa.select(d.name, sa.func.avg(m.value), sa.func.avg(m.value * m.value))
        .select_from(of_partitions)
        .where(x.name == "Size", a.segment == "", s.holds(s.metric), m.value.is_not(None))
        .group_by(d.name)
    )
    n = s.newest_metric.c
    newest_query = (
        sa.select(d.name, x.name, x.instance, n.value)
        .select_from(joined.join(s.newest_metric, n.series_id == x.id))
        .where(x.name.in_(["Size", "Completeness", "Minimum", "Maximum"]), a.segment == "")
    )
    with repository.database.read() as connection:
        moments = {
            name: (mean, square)
            for chunk in chunks(sorted(tables))
            for name, mean, square in connection.execute(rows_query.where(d.name.in_(chunk)))
        }
        newest: dict[str, dict[tuple[str, str], float]] = {}
        for dataset, name, instance, value in connection.execute(newest_query):
            if dataset in tables and value is not None:
                newest.setdefault(dataset, {})[name, instance] = value
    reasons = {
        dataset: _suite_reasons(*moments.get(dataset, (0.0, 0.0)), newest.get(dataset, {}))
        for dataset in tables
    }
    chosen = sorted(tables, key=lambda dataset: (-len(reasons[dataset]), dataset))[:MAX_PROPOSALS]
    return [
        f"{dataset}: {'; '.join(reasons[dataset])}: tidegauge profile {shlex.quote(tables[dataset].location)}"
        f" --dataset {shlex.quote(dataset.removesuffix(SNAPSHOTS_ENDING))}"
        for dataset in chosen
        if len(reasons[dataset]) > 1
    ]


def _suite_reasons(
    mean: float, mean_square: float, newest: Mapping[tuple[str, str], float]
) -> list[str]:
    """Return why a table needs more than metadata.

    Parameters
    ----------
    mean, mean_square : float
        Mean of the rows of its partitions, and of their squares.
    newest : mapping of (str, str) to float
        Values of the newest partition, by metric and column.

    Examples
    --------
    >>> newest = {("Size", "*"): 10, ("Minimum", "id"): 1, ("Maximum", "id"): 10, ("Completeness", "id"): 1}
    >>> _suite_reasons(100.0, 20_000.0, {**newest, ("Completeness", "email"): 0.8})
    ['rows vary by 100%', '20% of email is null', 'id may be a key']
    """
    reasons = []
    deviation = max(mean_square - mean * mean, 0.0) ** 0.5
    if mean > 0 and deviation >= LARGE_SWING * mean:
        reasons.append(f"rows vary by {deviation / mean:.0%}")
    shares = {c: 1 - value for (name, c), value in newest.items() if name == "Completeness"}
    nulls = [c for c in sorted(shares, key=lambda c: -shares[c]) if MANY_NULLS <= shares[c] < 1]
    if nulls:
        others = f", and {plural(len(nulls) - 1, 'other column')} has many nulls" * (len(nulls) > 1)
        reasons.append(f"{shares[nulls[0]]:.0%} of {nulls[0]} is null{others}")
    rows = newest.get(("Size", "*"), 0)
    keys = [
        c
        for (name, c), low in newest.items()
        if name == "Minimum"
        and rows > 1
        and shares.get(c) == 0
        and rows <= newest.get(("Maximum", c), low) - low + 1 <= 2 * rows
    ]
    if keys:
        reasons.append(f"{min(keys)} may be a key")
    return reasons
