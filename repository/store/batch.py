"""Writing of one batch of measured partitions, inside one transaction."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from math import isinf, isnan
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from tidegauge.analyzers.core.analyzer import AnyAnalyzer
from tidegauge.analyzers.core.metric import Failure, Metric, Success, flatten
from tidegauge.analyzers.core.registry import canonical_json, key_of
from tidegauge.analyzers.core.state import State, agree
from tidegauge.analyzers.runs import ledger
from tidegauge.repository.store import schema as s
from tidegauge.repository.store.bulk import Row, chunks, insert_missing, insert_rows
from tidegauge.repository.store.dimensions import Dimensions, visible
from tidegauge.repository.store.stored_states import (
    REMOVED_STATE,
    Artifacts,
    Payload,
    decode_inputs,
)
from tidegauge.repository.store.verdicts import rename_content

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

Packed = Mapping[tuple[str, str], Payload]
"""The packed states of a partition by segment and canonical statistic."""

OUTCOME_COLUMNS = ("value", "status", "weight", "error")
METRIC_ROW_COLUMNS = ("partition_id", "series_id", "version", *OUTCOME_COLUMNS, "commit_id")
_STATE_COLUMNS = (
    "statistic_id",
    "partition_id",
    "version",
    "tag",
    "payload",
    "artifact",
    "checksum",
)
_NEWEST_COLUMNS = (
    "series_id",
    "partition_id",
    "version",
    "value",
    "status",
    "weight",
    "error",
    "commit_id",
)


@dataclass(frozen=True)
class StoredPartition:
    """A partition in the database: its id and its current ledger entry."""

    id: int
    entry: ledger.LedgerEntry | None


@dataclass
class SeriesSubject:
    """One analyzer on one segment, with its keys; a batch repeats it in every partition.

    Attributes
    ----------
    analyzer : Analyzer
    segment : str
    key : str
        Its key in the ledger.
    analyzer_key : tuple of str
        The segment and the hash of the analyzer's canonical JSON.
    state : tuple of str
        The segment and the canonical statistic.
    """

    analyzer: AnyAnalyzer
    segment: str
    key: str
    analyzer_key: tuple[str, str]
    state: tuple[str, str]


class SubjectCache:
    """Cache of the subjects of measurements: canonical JSON of analyzers is expensive to build."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int, str], SeriesSubject] = {}
        self._alive: list[object] = []  # references, so that no other object gets the same id()

    def get(self, m: ledger.Measurement) -> SeriesSubject:
        """Return the subject of a measurement."""
        identity = (id(m.analyzer), id(m.segments), m.segment)
        subject = self._known.get(identity)
        if subject is None:
            if len(self._known) >= _MAX_CACHED_SUBJECTS:
                self._known.clear()
                self._alive.clear()
            key = key_of(m.analyzer.canonical())
            state = (m.segment, m.analyzer.statistic())
            subject = SeriesSubject(m.analyzer, m.segment, m.key, (m.segment, key), state)
            self._known[identity] = subject
            self._alive += (m.analyzer, m.segments)
        return subject


_MAX_CACHED_SUBJECTS = 200_000


@dataclass
class _Point:
    """A series of the batch, with its version and metric in each partition so far."""

    subject: SeriesSubject
    metric: Metric[float]
    versions: dict[int, tuple[int, Metric[float]]] = field(default_factory=dict)


def packed_states(
    partition: ledger.MeasuredPartition, artifacts: Artifacts, subjects: SubjectCache
) -> Packed:
    """Pack the states of a partition; large ones are written to files."""
    packed: dict[tuple[str, str], Payload] = {}
    for m in partition.measurements:
        if isinstance(m.outcome, Success):
            key = subjects.get(m).state
            if key not in packed:
                packed[key] = artifacts.pack(m.outcome.value)
    return packed


class Batch:
    """Writes measured partitions, unless `decide` discards them.

    Parameters
    ----------
    connection : Connection
        In a transaction that holds the clock's lock.
    artifacts : Artifacts
    dataset, run, commit : int
    now : datetime
    subjects : SubjectCache
    """

    def __init__(
        self,
        connection: Connection,
        artifacts: Artifacts,
        dataset: int,
        run: int,
        commit: int,
        now: datetime,
        subjects: SubjectCache,
    ) -> None:
        self.connection, self.artifacts, self.dataset = connection, artifacts, dataset
        self.run, self.commit, self.now, self.subjects = run, commit, now, subjects
        self.dimensions = Dimensions(connection, dataset)

    def store(
        self, partitions: Sequence[ledger.MeasuredPartition], packed: Sequence[Packed]
    ) -> list[ledger.Decision]:
        """Write the batch and return the decision on each partition."""
        add_partitions(self.connection, self.dataset, partitions, self.now)
        stored = ledger_of(self.connection, self.dataset, [m.partition.name for m in partitions])
        decisions = [
            ledger.decide(entry.entry, m, _Stored(self, entry))
            for m in partitions
            for entry in (stored[m.partition.name],)
        ]
        restated = [
            stored[m.partition.name].id
            for m, decision in zip(partitions, decisions, strict=True)
            if decision.change is ledger.Change.RESTATED
        ]
        supersede(self.connection, self.dataset, restated, self.commit)
        self._write_ledger(partitions, decisions, stored)
        written = [
            (stored[m.partition.name].id, decision, states)
            for m, decision, states in zip(partitions, decisions, packed, strict=True)
            if decision.measurements or decision.restored
        ]
        statistics = self._write_states(written)
        self._write_metrics(written, restated, statistics)
        return decisions

    @cached_property
    def removed(self) -> dict[tuple[str, str], set[int]]:
        """Partitions whose states were cleaned away, by segment and the statistic's key."""
        statistic, folded_state = s.statistic.c, s.folded_state.c
        query = (
            sa.select(statistic.segment, statistic.key, s.input_set.c.inputs)
            .join_from(s.folded_state, s.statistic)
            .join(s.input_set, s.input_set.c.id == folded_state.input_set_id)
            .where(
                statistic.dataset_id == self.dataset, folded_state.fold.startswith(REMOVED_STATE)
            )
        )
        removed: dict[tuple[str, str], set[int]] = {}
        for segment, key, inputs in self.connection.execute(query):
            removed.setdefault((segment, key), set()).update(decode_inputs(inputs))
        return removed

    def stored_states(self, partition: int, version: int) -> dict[tuple[str, str], Payload]:
        """Return all states of a partition version by segment and the statistic's key."""
        state, statistic = s.state.c, s.statistic.c
        query = (
            sa.select(statistic.segment, statistic.key, *s.payload_of(s.state))
            .join_from(s.state, s.statistic)
            .where(state.partition_id == partition, state.version == version)
        )
        return {(row[0], row[1]): Payload(*row[2:]) for row in self.connection.execute(query)}

    def stored_metrics(
        self, partition: int, version: int
    ) -> dict[tuple[str, str], dict[tuple[str, str], Outcome]]:
        """Return the metrics of a partition version by segment and the analyzer's key, then by name."""
        metric, series, analyzer = s.metric.c, s.series.c, s.analyzer.c
        query = (
            sa.select(
                analyzer.segment,
                analyzer.key,
                series.name,
                series.instance,
                metric.value,
                metric.status,
                metric.error,
            )
            .join_from(s.metric, s.series, series.id == metric.series_id)
            .join(s.analyzer, analyzer.id == series.analyzer_id)
            .where(metric.partition_id == partition, metric.version == version)
        )
        metrics: dict[tuple[str, str], dict[tuple[str, str], Outcome]] = {}
        for segment, key, name, instance, *values in self.connection.execute(query):
            value, status, error = values
            metrics.setdefault((segment, key), {})[name, instance] = (value, status, error)
        return metrics

    def _write_ledger(
        self,
        partitions: Sequence[ledger.MeasuredPartition],
        decisions: Sequence[ledger.Decision],
        stored: Mapping[str, StoredPartition],
    ) -> None:
        schemas = self._schema_ids({m.schema for m in partitions})
        sets: dict[str, str] = {}
        rows, changed = [], []
        renamed: dict[int, str | None] = {}
        for measured, decision in zip(partitions, decisions, strict=True):
            entry = stored[measured.partition.name]
            if decision.change is ledger.Change.UNCHANGED:
                if entry.entry is not None and entry.entry.fingerprint != decision.fingerprint:
                    renamed[entry.id] = decision.fingerprint
                continue
            keys = ledger.AnalyzerKeys.from_measurements(decision.measurements)
            if decision.change is ledger.Change.ADDED and entry.entry is not None:
                previous = entry.entry
                keys = ledger.AnalyzerKeys(
                    previous.analyzers, previous.failed, previous.retries
                ).updated(keys)
            names = keys.to_json()
            key = key_of(names)
            sets[key] = names
            if decision.change is ledger.Change.ADDED:
                changed.append((entry.id, decision.version, key))
                renamed[entry.id] = decision.fingerprint
            else:
                rows.append((measured, entry.id, decision.version, key))
        set_ids = hashed_ids(self.connection, s.analyzer_set, "analyzers", sets)
        columns = (
            "partition_id",
            "version",
            "fingerprint",
            "rows",
            "table_schema_id",
            "analyzer_set_id",
            "arrived_at",
            "measured_at",
            "run_id",
            "commit_id",
        )
        new = [
            (
                *(partition, version, m.fingerprint, m.rows, schemas[m.schema], set_ids[key]),
                *(m.arrived_at, self.now, self.run, self.commit),
            )
            for m, partition, version, key in rows
        ]
        insert_rows(self.connection, s.partition_version, columns, new)
        for partition, version, key in changed:
            where = (s.partition_version.c.partition_id == partition) & (
                s.partition_version.c.version == version
            )
            self.connection.execute(
                sa.update(s.partition_version).where(where).values(analyzer_set_id=set_ids[key])
            )
        rename_fingerprints(self.connection, self.dataset, renamed)

    def _schema_ids(self, schemas: set[str]) -> dict[str, int]:
        ids = hashed_ids(
            self.connection, s.table_schema, "columns", {key_of(x): x for x in schemas}
        )
        return {columns: ids[key_of(columns)] for columns in schemas}

    def _write_states(self, written: Sequence[_Written]) -> Mapping[tuple[str, str], int]:
        """Write the states of measurements; return the ids of their statistics."""
        state_rows: dict[bool, list[tuple[tuple[str, str], int, int, Payload]]] = {
            False: [],
            True: [],
        }
        statistic_keys = set()
        for partition, decision, packed in written:
            rows = state_rows[not is_new_version(decision)]
            for m in (*decision.measurements, *decision.restored):
                statistic = self.subjects.get(m).state
                statistic_keys.add(statistic)
                if isinstance(m.outcome, Success):
                    rows.append((statistic, partition, decision.version, packed[statistic]))
        statistics = self.dimensions.statistics(statistic_keys)
        # An added analyzer can share a state that an older analyzer has stored already.
        for added, write in ((False, insert_rows), (True, insert_missing)):
            rows_by_key: dict[tuple[int, int], Row] = {}
            for statistic, partition, version, p in state_rows[added]:
                key = (statistics[statistic], partition)
                content = (p.tag, p.payload, p.artifact, p.checksum)
                rows_by_key[key] = (*key, version, *content, self.commit)
            columns = (*_STATE_COLUMNS, "commit_id")
            write(self.connection, s.state, columns, [rows_by_key[k] for k in sorted(rows_by_key)])
        return statistics

    def _write_metrics(
        self,
        written: Sequence[_Written],
        restated: Sequence[int],
        statistics: Mapping[tuple[str, str], int],
    ) -> None:
        points: dict[tuple[tuple[str, str], str, str], _Point] = {}
        joining = set()
        for partition, decision, _ in written:
            if not is_new_version(decision):
                joining.add(partition)
            version = decision.version
            for m in decision.measurements:
                subject = self.subjects.get(m)
                for metric in flatten(m.metric):
                    key = (subject.analyzer_key, metric.name, metric.instance)
                    point = points.get(key)
                    if point is None:
                        point = points[key] = _Point(subject, metric)
                    point.versions[partition] = (version, metric)
        rows: dict[bool, list[Row]] = {False: [], True: []}
        series_ids = self._series_ids(points, statistics)
        for series, point in zip(series_ids, points.values(), strict=True):
            for partition, (version, metric) in point.versions.items():
                row = (partition, series, version, *outcome(metric), self.commit)
                rows[partition in joining].append(row)
        for group in rows.values():
            group.sort(key=_row_key)
        insert_rows(self.connection, s.metric, METRIC_ROW_COLUMNS, rows[False])
        replaced = self._replace_failures(rows[True])
        # A segment that was chosen again is the same series as before, and may have facts already.
        insert_missing(self.connection, s.metric, METRIC_ROW_COLUMNS, rows[True])
        new = [*rows[False], *self._inserted(rows[True])]
        keep_newest(self.connection, self.dataset, new, [*restated, *replaced])

    def _replace_failures(self, rows: Sequence[Row]) -> list[int]:
        """Supersede stored failures that differ from new rows of the same analyzer; return their partitions.

        A replaced failure stays under the negative number of its version, with its last error, so
        that views of the past show it.
        """
        metric, series = s.metric.c, s.series.c
        failed: list[Any] = []
        for chunk in chunks(sorted({row[0] for row in rows})):
            query = (
                sa.select(
                    metric.partition_id,
                    metric.series_id,
                    metric.version,
                    metric.error,
                    metric.commit_id,
                    metric.superseded_commit_id.label("ended"),
                    series.analyzer_id,
                )
                .join_from(s.metric, s.series, series.id == metric.series_id)
                .where(metric.partition_id.in_(chunk), metric.status == "failed")
                .where(s.holds(s.metric) | (metric.version < 0))
            )
            failed.extend(self.connection.execute(query))
        if not failed:
            return []
        begun = {(r.partition_id, r.series_id, -r.version): r.commit_id for r in failed if r.ended}
        analyzer_of: dict[int, int] = {}
        for chunk in chunks(sorted({row[1] for row in rows})):
            owners = sa.select(series.id, series.analyzer_id).where(series.id.in_(chunk))
            analyzer_of.update((row[0], row[1]) for row in self.connection.execute(owners))
        measured = {(row[0], analyzer_of[row[1]]) for row in rows}
        errors = {row[:2]: row[METRIC_ROW_COLUMNS.index("error")] for row in rows}
        ended = [
            {
                "of_partition": row.partition_id,
                "of_series": row.series_id,
                "of_version": row.version,
                "begun": begun.get((row.partition_id, row.series_id, row.version), row.commit_id),
            }
            for row in failed
            if row.ended is None
            and (row.partition_id, row.analyzer_id) in measured
            and errors.get((row.partition_id, row.series_id)) != row.error
        ]
        if ended:
            same = (metric.partition_id == sa.bindparam("of_partition")) & (
                metric.series_id == sa.bindparam("of_series")
            )
            version: sa.BindParameter[int] = sa.bindparam("of_version")
            self.connection.execute(
                sa.delete(s.metric).where(same, metric.version == -version), ended
            )
            change = sa.update(s.metric).where(same, metric.version == version)
            values = {
                "version": -metric.version,
                "commit_id": sa.bindparam("begun"),
                "superseded_commit_id": self.commit,
            }
            self.connection.execute(change.values(values), ended)
        return sorted({row["of_partition"] for row in ended})

    def _inserted(self, rows: Sequence[Row]) -> list[Row]:
        """Return the rows that this commit has written."""
        metric = s.metric.c
        written: set[tuple[int, int]] = set()
        for chunk in chunks(sorted({row[0] for row in rows})):
            query = sa.select(metric.partition_id, metric.series_id).where(
                metric.partition_id.in_(chunk), metric.commit_id == self.commit
            )
            written.update((row[0], row[1]) for row in self.connection.execute(query))
        return [row for row in rows if row[:2] in written]

    def _series_ids(
        self,
        points: Mapping[tuple[tuple[str, str], str, str], _Point],
        statistics: Mapping[tuple[str, str], int],
    ) -> Iterator[int]:
        """Yield the id of each point's series."""
        subjects = {analyzer_key: point.subject for (analyzer_key, _, _), point in points.items()}
        own_statistics = {
            analyzer_key: statistics[subject.state] for analyzer_key, subject in subjects.items()
        }
        analyzers = {analyzer_key: subject.analyzer for analyzer_key, subject in subjects.items()}
        ids = self.dimensions.analyzers(analyzers, own_statistics)
        keys = [(ids[analyzer_key], name, instance) for analyzer_key, name, instance in points]
        measures = ((point.subject.analyzer, point.metric) for point in points.values())
        series = self.dimensions.series(dict(zip(keys, measures, strict=True)))
        return (series[key] for key in keys)


@dataclass
class _Stored:
    """The stored results of a partition's current version; see `StoredResults`."""

    batch: Batch
    partition: StoredPartition

    @cached_property
    def _states(self) -> Mapping[tuple[str, str], Payload]:
        assert self.partition.entry is not None
        return self.batch.stored_states(self.partition.id, self.partition.entry.version)

    @cached_property
    def _metrics(self) -> Mapping[tuple[str, str], Mapping[tuple[str, str], Outcome]]:
        assert self.partition.entry is not None
        return self.batch.stored_metrics(self.partition.id, self.partition.entry.version)

    def _key(self, m: ledger.Measurement) -> tuple[str, str]:
        segment, statistic = self.batch.subjects.get(m).state
        return visible(segment), key_of(statistic)

    def state(self, measurement: ledger.Measurement) -> State | None:
        """Return the stored state; None if the measurement failed, or if it was cleaned away."""
        payload = self._states.get(self._key(measurement))
        return None if payload is None else self.batch.artifacts.unpack(payload)

    def is_cleaned(self, measurement: ledger.Measurement) -> bool:
        """Return whether the state was stored and later cleaned away."""
        key = self._key(measurement)
        return key not in self._states and self.partition.id in self.batch.removed.get(key, ())

    def has_metrics_of(self, measurement: ledger.Measurement) -> bool:
        """Return whether the stored metrics and errors equal the measurement's."""
        segment, key = self.batch.subjects.get(measurement).analyzer_key
        return same_metrics(measurement.metric, self._metrics.get((visible(segment), key), {}))


_Written = tuple[int, ledger.Decision, Packed]
"""A partition's id, the decision on it, and its states."""


def is_new_version(decision: ledger.Decision) -> bool:
    """Return whether the measurements make a new version of the partition, or join the current one."""
    return decision.change in {ledger.Change.NEW, ledger.Change.RESTATED}


def _row_key(row: Row) -> tuple[int, int]:
    return row[0], row[1]


def outcome(metric: Metric[float]) -> tuple[float | None, str, float | None, str | None]:
    """Return value, status, weight and error as the tables store them.

    Examples
    --------
    >>> from tidegauge.analyzers.core.metric import Entity
    >>> outcome(Metric(Entity.COLUMN, "x", "Maximum", Success(float("inf")), weight=2))
    (None, '+inf', 2.0, None)
    """
    weight = None if metric.weight is None else float(metric.weight)
    result = metric.outcome
    if isinstance(result, Failure):
        status = "empty" if metric.empty else "failed"
        return None, status, weight, visible(ledger.stored_error(result.error))
    value, status = stored_value(result.value)
    return value, status, weight, None


Outcome = tuple[float | None, str, str | None]
"""A metric's value, the status under which it is stored, and its error."""


def same_metrics(metric: Metric[Any], stored: Mapping[tuple[str, str], Outcome]) -> bool:
    """Return whether a metric's numbers or error equal the stored ones, by name and instance.

    Examples
    --------
    >>> from tidegauge.analyzers.core.metric import Entity
    >>> mean = Metric(Entity.COLUMN, "x", "Mean", Success(0.1 + 0.2))
    >>> same_metrics(mean, {("Mean", "x"): (0.3, "finite", None)}), same_metrics(mean, {})
    (True, False)
    """
    measured = {(visible(m.name), visible(m.instance)): outcome(m) for m in flatten(metric)}
    return measured.keys() == stored.keys() and all(
        (status, error) == stored[name][1:] and _equal(value, stored[name][0])
        for name, (value, status, _, error) in measured.items()
    )


def _equal(a: float | None, b: float | None) -> bool:
    return a is b if a is None or b is None else agree(a, b)


def stored_value(number: float) -> tuple[float | None, str]:
    """Return a number as stored value and status: only a finite one is a number in SQL."""
    if isnan(number):
        return None, "NaN"
    if isinf(number):
        return None, "+inf" if number > 0 else "-inf"
    return number, "finite"


def hashed_ids(
    connection: Connection, table: sa.Table, column: str, text_by_hash: Mapping[str, str]
) -> dict[str, int]:
    """Return the id of each string by its hash, adding missing ones."""
    insert_missing(connection, table, ("key", column), sorted(text_by_hash.items()))
    ids: dict[str, int] = {}
    for chunk in chunks(sorted(text_by_hash)):
        query = sa.select(table.c.key, table.c.id).where(table.c.key.in_(chunk))
        ids.update((row[0], row[1]) for row in connection.execute(query))
    return ids


def add_partitions(
    connection: Connection,
    dataset: int,
    measured: Iterable[ledger.MeasuredPartition],
    now: datetime,
) -> None:
    """Insert the partitions that do not exist yet."""
    columns = ("dataset_id", "key", "name", "key_values", "time", "segment", "first_seen_at")
    rows = sorted(
        (
            (
                *(dataset, key_of(m.partition.name), visible(m.partition.name)),
                *(visible(canonical_json(list(m.partition.values))), m.time),
                *(visible(m.segment), now),
            )
            for m in measured
        ),
        key=lambda row: row[1],
    )
    insert_missing(connection, s.partition, columns, rows)


def supersede(connection: Connection, dataset: int, partitions: Sequence[int], commit: int) -> None:
    """Supersede the current versions of partitions; user-recorded values stay current."""
    for chunk in chunks(sorted(partitions)):
        for table in (s.partition_version, s.metric):
            change = sa.update(table).values(superseded_commit_id=commit)
            where = table.c.partition_id.in_(chunk) & s.holds(table)
            if table is s.metric:
                where &= table.c.series_id.not_in(recorded_series(dataset))
            connection.execute(change.where(where))


def rename_fingerprints(
    connection: Connection, dataset: int, fingerprints: Mapping[int, str | None]
) -> None:
    """Replace the fingerprints of current versions after files changed but not their content.

    Verdicts on the content stay valid.

    Parameters
    ----------
    connection : Connection
    dataset : int
    fingerprints : mapping of int to (str or None)
        The new fingerprint by partition id.
    """
    for chunk in chunks(sorted(fingerprints)):
        query = (
            sa.select(s.partition.c.id, s.partition.c.key, s.partition_version.c.fingerprint)
            .join_from(
                s.partition_version,
                s.partition,
                s.partition.c.id == s.partition_version.c.partition_id,
            )
            .where(s.partition.c.id.in_(chunk), s.holds(s.partition_version))
        )
        renamed = {}
        for partition, key, previous in connection.execute(query).all():
            fingerprint = fingerprints[partition]
            if previous == fingerprint:
                continue
            where = (s.partition_version.c.partition_id == partition) & s.holds(s.partition_version)
            connection.execute(
                sa.update(s.partition_version).where(where).values(fingerprint=fingerprint)
            )
            if previous is not None and fingerprint is not None:
                renamed[key, previous] = fingerprint
        rename_content(connection, dataset, renamed)


def recorded_series(dataset: int | None = None) -> sa.Select[tuple[int]]:
    """Select the series that users recorded; they do not belong to partition versions."""
    analyzer = s.analyzer.c
    query = (
        sa.select(s.series.c.id)
        .join_from(s.series, s.analyzer)
        .where(analyzer.statistic_id.is_(None))
    )
    return query if dataset is None else query.where(analyzer.dataset_id == dataset)


def ledger_of(
    connection: Connection, dataset: int, names: Sequence[str] | None = None
) -> dict[str, StoredPartition]:
    """Return the stored partitions of a dataset, or the named ones, by name."""
    partition, partition_version = s.partition.c, s.partition_version.c
    joined = s.partition.outerjoin(
        s.partition_version,
        (partition_version.partition_id == partition.id) & s.holds(s.partition_version),
    ).outerjoin(s.absence, (s.absence.c.partition_id == partition.id) & s.holds(s.absence))
    run_tag, table_schema = s.run_tag.c, s.table_schema.c
    joined = joined.outerjoin(
        s.run_tag,
        (run_tag.run_id == partition_version.run_id) & (run_tag.key == ledger.SOURCE_VERSION),
    )
    joined = joined.outerjoin(s.table_schema, table_schema.id == partition_version.table_schema_id)
    ledger_columns = (
        partition_version.version,
        partition_version.fingerprint,
        partition_version.analyzer_set_id,
        partition_version.rows,
        partition_version.run_id,
        run_tag.value,
    )
    columns = (
        partition.key,
        partition.name,
        partition.id,
        *ledger_columns,
        table_schema.key.label("schema"),
    )
    query = (
        sa.select(*columns, partition_version.commit_id.label("stored"), s.absence.c.commit_id)
        .select_from(joined)
        .where(partition.dataset_id == dataset)
    )
    queries = [query]
    by_key: dict[str, str] = {}
    if names is not None:
        by_key = {key_of(name): name for name in names}
        queries = [query.where(partition.key.in_(chunk)) for chunk in chunks(sorted(by_key))]
    rows = [row for q in queries for row in connection.execute(q)]
    sets = _analyzer_sets(connection, {row.analyzer_set_id for row in rows} - {None})
    last_run, last_version = _last_compared(connection, dataset)
    partitions = {}
    for row in rows:
        entry = None
        if row.version is not None:
            gone = row.commit_id is not None
            compared = not gone and last_run >= row.run_id
            keys = sets[row.analyzer_set_id]
            entry = ledger.LedgerEntry(
                version=row.version,
                fingerprint=row.fingerprint,
                analyzers=keys.measured,
                gone=gone,
                source_version=last_version if compared else row.value,
                rows=row.rows,
                commit=row.stored,
                failed=keys.failed,
                retries=keys.retries,
                schema=row.schema,
            )
        partitions[by_key.get(row.key, row.name)] = StoredPartition(row.id, entry)
    return partitions


def failures_of(
    connection: Connection, dataset: int, names: Collection[str]
) -> dict[tuple[str, str], frozenset[str]]:
    """Return the errors of failed analyzers, by partition and canonical analyzer."""
    metric, partition, analyzer = s.metric.c, s.partition.c, s.analyzer.c
    by_key = {key_of(name): name for name in names}
    errors: dict[tuple[str, str], frozenset[str]] = {}
    for chunk in chunks(sorted(by_key)):
        query = (
            sa.select(partition.key, analyzer.canonical, metric.error)
            .join_from(s.partition, s.metric, metric.partition_id == partition.id)
            .join(s.series, s.series.c.id == metric.series_id)
            .join(s.analyzer, analyzer.id == s.series.c.analyzer_id)
            .where(partition.dataset_id == dataset, partition.key.in_(chunk))
            .where(metric.status == "failed", s.holds(s.metric))
        )
        for key, canonical, error in connection.execute(query):
            subject = (by_key[key], canonical)
            errors[subject] = errors.get(subject, frozenset()) | {error}
    return errors


def _last_compared(connection: Connection, dataset: int) -> tuple[int, str | None]:
    """Return the last run that compared all partitions with a version of the table, and that version.

    After it, every partition was measured as of that version.
    """
    run, run_tag = s.run.c, s.run_tag.c
    query = (
        sa.select(run.id, run_tag.value)
        .join_from(
            s.run, s.run_tag, (run_tag.run_id == run.id) & (run_tag.key == ledger.SOURCE_VERSION)
        )
        .where(run.dataset_id == dataset, run.status == ledger.RunStatus.COMPLETE.value)
        .where(run.selection.in_(ledger.ALL_PARTITIONS))
        .order_by(run.id.desc())
        .limit(1)
    )
    row = connection.execute(query).one_or_none()
    return (-1, None) if row is None else (row[0], row[1])


def _analyzer_sets(connection: Connection, ids: set[int]) -> dict[int, ledger.AnalyzerKeys]:
    analyzer_set = s.analyzer_set.c
    keys_by_set: dict[int, ledger.AnalyzerKeys] = {}
    for chunk in chunks(sorted(ids)):
        for number, analyzers in connection.execute(
            sa.select(analyzer_set.id, analyzer_set.analyzers).where(analyzer_set.id.in_(chunk))
        ):
            keys_by_set[number] = ledger.AnalyzerKeys.from_json(analyzers)
    return keys_by_set


def keep_newest(
    connection: Connection, dataset: int, facts: Iterable[Row], restated: Sequence[int] = ()
) -> None:
    """Update ``newest_metric``, the copy of the newest metric of each series, after facts were written.

    The newest partition is the last by time, then by name where times are equal or missing. A partition
    without a time, such as Hive's default partition, is the newest only for series without any other.

    Parameters
    ----------
    connection : Connection
        In a transaction that holds the clock's lock.
    dataset : int
    facts : iterable of tuple
        The new rows of ``metric``: partition, series, version, ...
    restated : sequence of int
        Partitions whose earlier facts were superseded.
    """
    newest_metric = s.newest_metric.c
    query = (
        sa.select(newest_metric.series_id, newest_metric.partition_id)
        .join_from(s.newest_metric, s.series, s.series.c.id == newest_metric.series_id)
        .join(s.analyzer)
        .where(s.analyzer.c.dataset_id == dataset)
    )
    stored = {row[0]: row[1] for row in connection.execute(query)}
    facts = list(facts)
    sort_keys = _sort_keys(connection, {row[0] for row in facts}.union(stored.values()))
    last: dict[int, Row] = {}
    for row in facts:
        previous = last.get(row[1])
        if previous is None or sort_keys[previous[0]] <= sort_keys[row[0]]:
            last[row[1]] = row
    changed = [
        (row[1], row[0], *row[2:])
        for series, row in last.items()
        if series not in stored or sort_keys[stored[series]] <= sort_keys[row[0]]
    ]
    written = {row[0] for row in changed}
    ended = set(restated)
    orphaned = [
        series
        for series, partition in stored.items()
        if partition in ended and series not in written
    ]
    delete_newest(connection, [series for series in written if series in stored])
    insert_rows(connection, s.newest_metric, _NEWEST_COLUMNS, sorted(changed))
    find_newest(connection, orphaned)


def newest_first() -> tuple[sa.ColumnElement[Any], ...]:
    """Return the order that sorts the newest partition first."""
    partition = s.partition.c
    return partition.time.is_(None), partition.time.desc(), partition.name.desc()


def find_newest(connection: Connection, series: Sequence[int]) -> None:
    """Recompute the newest metric of some series from all facts."""
    metric, partition, order = s.metric.c, s.partition.c, newest_first()
    delete_newest(connection, series)
    analyzer = s.analyzer.c
    series_by_dataset: dict[int, list[int]] = {}
    for chunk in chunks(sorted(series)):
        datasets = (
            sa.select(analyzer.dataset_id, s.series.c.id)
            .join_from(s.series, s.analyzer)
            .where(s.series.c.id.in_(chunk))
        )
        for dataset, number in connection.execute(datasets):
            series_by_dataset.setdefault(dataset, []).append(number)
    chunked = ((d, chunk) for d, numbers in series_by_dataset.items() for chunk in chunks(numbers))
    for dataset, chunk in chunked:
        ranked = (
            sa.select(
                *(metric[name] for name in _NEWEST_COLUMNS),
                sa.func.row_number()
                .over(partition_by=metric.series_id, order_by=order)
                .label("place"),
            )
            .join_from(s.metric, s.partition, partition.id == metric.partition_id)
            # By the partitions of the dataset, because metrics have no index of series.
            .where(partition.dataset_id == dataset)
            .where(metric.series_id.in_(chunk), s.holds(s.metric))
            .subquery()
        )
        newest = sa.select(*(ranked.c[name] for name in _NEWEST_COLUMNS)).where(ranked.c.place == 1)
        rows = [tuple(row) for row in connection.execute(newest)]
        insert_rows(connection, s.newest_metric, _NEWEST_COLUMNS, rows)


def delete_newest(connection: Connection, series: Sequence[int]) -> None:
    """Delete series from the copy."""
    for chunk in chunks(sorted(series)):
        connection.execute(sa.delete(s.newest_metric).where(s.newest_metric.c.series_id.in_(chunk)))


def _sort_keys(connection: Connection, partitions: Iterable[int]) -> dict[int, tuple[Any, ...]]:
    """Return the sort key of some partitions by their ids."""
    partition = s.partition.c
    sort_keys: dict[int, tuple[Any, ...]] = {}
    for chunk in chunks(sorted(partitions)):
        for id_, time, name in connection.execute(
            sa.select(partition.id, partition.time, partition.name).where(partition.id.in_(chunk))
        ):
            sort_keys[id_] = (time is not None, time.timestamp() if time else 0.0, name)
    return sort_keys
