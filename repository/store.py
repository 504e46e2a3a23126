"""Writing: runs, the ledger, and batches of measurements. Implements `analyzers.ledger.RunStore`."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from math import isinf, isnan
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from analyzers.description import canonical_json, key_of
from analyzers.errors import DatasetMismatchError
from analyzers.ledger import (
    Change,
    Decision,
    Known,
    Measured,
    Measurement,
    RunSpec,
    RunStatus,
    analyzer_key,
    decide,
    mismatch_text,
    united,
)
from analyzers.metric import Failure, Metric, Success, flatten
from analyzers.segments import SegmentSet
from analyzers.state import State
from repository import schema as s
from repository.artifacts import Artifacts, Payload
from repository.database import Database, next_commit

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

_VARIABLES = 500
"""How many values one statement names; SQLite once took no more than 999."""


@dataclass(frozen=True)
class _Stored:
    """A partition in the database: its id, and its current version."""

    id: int
    known: Known | None


class SqlRunStore:
    """Stores what runs measure.

    A batch is one transaction: its states, metrics and ledger rows become visible together. Writing
    the same again writes nothing. All rows are sorted before they are written, so that two writers
    take their locks in one order.
    """

    def __init__(self, database: Database, artifacts: Artifacts) -> None:
        self.database = database
        self.artifacts = artifacts

    # runs

    def open_run(self, spec: RunSpec) -> int:
        """Begin a run; runs of dead processes of this host are marked as interrupted."""
        with self.database.write() as connection:
            connection.execute(
                sa.select(s.clock).with_for_update()
            )  # first runs wait for each other
            dataset = _dataset(connection, spec)
            _mark_interrupted(connection, dataset)
            values = {
                "dataset_id": dataset,
                "source": spec.source,
                "suite": spec.suite,
                "selection": spec.selection,
                "status": RunStatus.RUNNING.value,
                "host": socket.gethostname(),
                "pid": os.getpid(),
                "started_at": datetime.now(UTC),
            }
            run = connection.execute(
                sa.insert(s.run).values(values).returning(s.run.c.id)
            ).scalar_one()
            tags = [{"run_id": run, "key": k, "value": v} for k, v in sorted(spec.tags.items())]
            if tags:
                connection.execute(sa.insert(s.run_tag), tags)
            return int(run)

    def close_run(
        self, run: int, status: RunStatus, counts: Mapping[str, int], error: str | None = None
    ) -> None:
        """End a run."""
        values = {
            **counts,
            "status": status.value,
            "error": error,
            "finished_at": datetime.now(UTC),
        }
        with self.database.write() as connection:
            connection.execute(sa.update(s.run).where(s.run.c.id == run).values(values))

    def mark_gone(self, run: int, gone: Sequence[str], back: Sequence[str] = ()) -> None:
        """Remember which partitions are no longer there, and which are again."""
        with self.database.write() as connection:
            _, now = next_commit(connection, run)
            dataset = _dataset_of(connection, run)
            for names, moment in ((gone, now), (back, None)):
                for some in _chunks(sorted(names)):
                    of_these = (s.partition.c.dataset_id == dataset) & s.partition.c.name.in_(some)
                    change = sa.update(s.partition).where(of_these).values(gone_at=moment)
                    connection.execute(change)

    # the ledger

    def ledger(self, dataset: str) -> Mapping[str, Known]:
        """Return what is known of each partition of a dataset."""
        with self.database.read() as connection:
            query = sa.select(s.dataset.c.id).where(s.dataset.c.name == dataset)
            found = connection.execute(query).scalar_one_or_none()
            if found is None:
                return {}
            return {n: p.known for n, p in _ledger(connection, found).items() if p.known}

    # segments

    def segment_sets(self, dataset: str) -> Mapping[tuple[str, ...], SegmentSet]:
        """Return the last choice of segments for each set of columns that one was made for."""
        t = s.segment_set.c
        query = (
            sa.select(t["columns"], t.kept, t.generation)
            .join_from(s.segment_set, s.dataset)
            .where(s.dataset.c.name == dataset)
            .order_by(t.generation)
        )
        with self.database.read() as connection:
            rows = connection.execute(query).all()
        found = (
            SegmentSet(tuple(json.loads(columns)), tuple(map(tuple, json.loads(kept))), generation)
            for columns, kept, generation in rows
        )
        return {segments.columns: segments for segments in found}

    def keep_segments(self, run: int, chosen: Sequence[SegmentSet]) -> None:
        """Remember a choice of segments; one that another writer made meanwhile stays."""
        with self.database.write() as connection:
            _, now = next_commit(connection, run)
            dataset = _dataset_of(connection, run)
            rows = [
                {
                    "dataset_id": dataset,
                    "columns": canonical_json(list(segments.columns)),
                    "generation": segments.generation,
                    "kept": canonical_json([list(values) for values in segments.kept]),
                    "run_id": run,
                    "chosen_at": now,
                }
                for segments in sorted(chosen, key=lambda segments: segments.columns)
            ]
            _insert_missing(connection, s.segment_set, rows)

    # batches

    def commit_batch(self, run: int, found: Sequence[Measured]) -> list[Decision]:
        """Store a batch, all or nothing."""
        packed = [self._packed(measured) for measured in found]  # before the lock: it may be slow
        with self.database.write() as connection:
            number, now = next_commit(connection, run)
            batch = _Batch(connection, self.artifacts, run, number, now)
            return batch.store(found, packed)

    def _packed(self, found: Measured) -> dict[tuple[str, str], Payload]:
        packed: dict[tuple[str, str], Payload] = {}
        for m in found.measurements:
            key = (m.segment, m.analyzer.statistic())
            if isinstance(m.outcome, Success) and key not in packed:
                packed[key] = self.artifacts.pack(m.outcome.value)
        return packed


class _Batch:
    """One batch on its way into the database."""

    def __init__(
        self, connection: Connection, artifacts: Artifacts, run: int, number: int, now: datetime
    ) -> None:
        self.connection, self.artifacts = connection, artifacts
        self.dataset = _dataset_of(connection, run)
        self.stamp = {"run_id": run, "commit_id": number}
        self.now = now

    def store(
        self, found: Sequence[Measured], packed: Sequence[dict[tuple[str, str], Payload]]
    ) -> list[Decision]:
        self._add_partitions(found)
        stored = _ledger(self.connection, self.dataset, [m.partition.name for m in found])
        decisions = [self._decide(m, stored[m.partition.name]) for m in found]
        self._write_ledger(found, decisions, stored)
        self._write_facts(found, decisions, stored, packed)
        return decisions

    def _add_partitions(self, found: Sequence[Measured]) -> None:
        rows = [
            {
                "dataset_id": self.dataset,
                "name": m.partition.name,
                "key_values": canonical_json(list(m.partition.values)),
                "time": m.time,
                "segment": m.segment,
                "first_seen_at": self.now,
            }
            for m in sorted(found, key=lambda m: m.partition.name)
        ]
        _insert_missing(self.connection, s.partition, rows)

    def _decide(self, found: Measured, stored: _Stored) -> Decision:
        @cache
        def payloads() -> dict[tuple[str, str], Payload]:
            assert stored.known is not None
            return self._stored_states(stored.id, stored.known.version)

        def state(m: Measurement) -> State | None:
            payload = payloads().get((m.segment, key_of(m.analyzer.statistic())))
            return None if payload is None else self.artifacts.unpack(payload)

        return decide(stored.known, found, state)

    def _stored_states(self, partition: int, version: int) -> dict[tuple[str, str], Payload]:
        """Return all states of a partition's version by segment and the statistic's key."""
        t, of = s.state.c, s.statistic.c
        query = (
            sa.select(of.segment, of.key, t.tag, t.payload, t.artifact, t.checksum)
            .join_from(s.state, s.statistic)
            .where(t.partition_id == partition, t.version == version)
        )
        return {(row[0], row[1]): Payload(*row[2:]) for row in self.connection.execute(query)}

    def _write_ledger(
        self,
        found: Sequence[Measured],
        decisions: Sequence[Decision],
        stored: Mapping[str, _Stored],
    ) -> None:
        schemas = self._schema_ids({m.schema for m in found})
        sets: dict[str, str] = {}
        rows, changed = [], []
        for m, decision in zip(found, decisions, strict=True):
            if decision.change is Change.UNCHANGED:
                continue
            entry = stored[m.partition.name]
            keys = {x.key for x in decision.measurements}
            if decision.change is Change.ADDED and entry.known is not None:
                keys |= entry.known.analyzers
            names = canonical_json(sorted(keys))
            sets[key_of(names)] = names
            if decision.change is Change.ADDED:
                seen = united(entry.known.fingerprint if entry.known else None, m.fingerprint)
                changed.append((entry.id, decision.version, key_of(names), seen))
            else:
                rows.append((m, entry.id, decision.version, key_of(names)))
        set_rows = [{"key": key, "analyzers": names} for key, names in sorted(sets.items())]
        set_ids = _ids(self.connection, s.analyzer_set, ("key",), set_rows)
        v = s.partition_version
        if rows:
            self.connection.execute(
                sa.insert(v),
                [
                    {
                        "partition_id": partition,
                        "version": version,
                        "fingerprint": m.fingerprint,
                        "rows": m.rows,
                        "table_schema_id": schemas[m.schema],
                        "analyzer_set_id": set_ids[(key,)],
                        "arrived_at": m.arrived_at,
                        "measured_at": self.now,
                        **self.stamp,
                    }
                    for m, partition, version, key in rows
                ],
            )
        for partition, version, key, fingerprint in changed:
            where = (v.c.partition_id == partition) & (v.c.version == version)
            values = {"analyzer_set_id": set_ids[(key,)], "fingerprint": fingerprint}
            self.connection.execute(sa.update(v).where(where).values(values))

    def _schema_ids(self, schemas: set[str]) -> dict[str, int]:
        rows = [{"key": key_of(columns), "columns": columns} for columns in sorted(schemas)]
        ids = _ids(self.connection, s.table_schema, ("key",), rows)
        return {row["columns"]: ids[(row["key"],)] for row in rows}

    def _write_facts(
        self,
        found: Sequence[Measured],
        decisions: Sequence[Decision],
        stored: Mapping[str, _Stored],
        packed: Sequence[dict[tuple[str, str], Payload]],
    ) -> None:
        measurements = [m for decision in decisions for m in decision.measurements]
        statistics = self._statistic_ids(measurements)
        analyzers = self._analyzer_ids(measurements, statistics)
        flat = [
            (stored[x.partition.name].id, decision.version, m, metric)
            for x, decision in zip(found, decisions, strict=True)
            for m in decision.measurements
            for metric in flatten(m.metric)
        ]
        series = self._series_ids([(m, metric) for _, _, m, metric in flat], analyzers)
        facts = [
            {
                "series_id": series[_series_key(m, metric)],
                "partition_id": partition,
                "version": version,
                **outcome_columns(metric),
                **self.stamp,
                "analyzed_at": self.now,
            }
            for partition, version, m, metric in flat
        ]
        facts.sort(key=lambda row: (row["series_id"], row["partition_id"]))
        states = {
            (statistics[m.segment, m.analyzer.statistic()], stored[x.partition.name].id): (
                decision.version,
                payloads[m.segment, m.analyzer.statistic()],
            )
            for x, decision, payloads in zip(found, decisions, packed, strict=True)
            for m in decision.measurements
            if isinstance(m.outcome, Success)
        }
        # A statistic may be there already: an added analyzer can share the state of an older one.
        state_rows = [
            {
                "statistic_id": statistic,
                "partition_id": partition,
                "version": version,
                "tag": p.tag,
                "payload": p.payload,
                "artifact": p.artifact,
                "checksum": p.checksum,
                **self.stamp,
            }
            for (statistic, partition), (version, p) in sorted(states.items(), key=lambda kv: kv[0])
        ]
        _insert_missing(self.connection, s.state, state_rows)
        # So may a fact: a segment that was chosen again is the series that it was.
        _insert_missing(self.connection, s.metric, facts)
        replaced = [
            stored[m.partition.name].id
            for m, decision in zip(found, decisions, strict=True)
            if decision.change is Change.RESTATED
        ]
        for some in _chunks(sorted(replaced)):
            old = s.latest_metric.c.partition_id.in_(some)
            self.connection.execute(sa.delete(s.latest_metric).where(old))
        _insert_missing(self.connection, s.latest_metric, facts)

    def _statistic_ids(self, measurements: Iterable[Measurement]) -> dict[tuple[str, str], int]:
        wanted = sorted({(m.segment, m.analyzer.statistic()) for m in measurements})
        rows = [
            {
                "dataset_id": self.dataset,
                "segment": segment,
                "key": key_of(canonical),
                "canonical": canonical,
            }
            for segment, canonical in wanted
        ]
        ids = _ids(self.connection, s.statistic, ("dataset_id", "segment", "key"), rows)
        return {
            key: ids[self.dataset, row["segment"], row["key"]]
            for key, row in zip(wanted, rows, strict=True)
        }

    def _analyzer_ids(
        self, measurements: Iterable[Measurement], statistics: Mapping[tuple[str, str], int]
    ) -> dict[tuple[str, str], int]:
        wanted = {(m.segment, analyzer_key(m.analyzer)): m.analyzer for m in measurements}
        rows = [
            {
                "dataset_id": self.dataset,
                "segment": segment,
                "key": key,
                "canonical": analyzer.canonical(),
                "kind": type(analyzer).__name__,
                "text": repr(analyzer),
                "filter": analyzer.where,
                "statistic_id": statistics[segment, analyzer.statistic()],
            }
            for (segment, key), analyzer in sorted(wanted.items(), key=lambda kv: kv[0])
        ]
        ids = _ids(self.connection, s.analyzer, ("dataset_id", "segment", "key"), rows)
        return {(segment, key): ids[self.dataset, segment, key] for segment, key in wanted}

    def _series_ids(
        self,
        flat: Iterable[tuple[Measurement, Metric[float]]],
        analyzers: Mapping[tuple[str, str], int],
    ) -> dict[tuple[str, str, str, str], int]:
        wanted = {_series_key(m, metric): (m, metric) for m, metric in flat}
        rows = [
            {
                "analyzer_id": analyzers[segment, key],
                "entity": metric.entity.value,
                "instance": instance,
                "name": name,
                "scale": m.analyzer.scale_of(name).value,
            }
            for (segment, key, name, instance), (m, metric) in sorted(
                wanted.items(), key=lambda kv: kv[0]
            )
        ]
        ids = _ids(self.connection, s.series, ("analyzer_id", "name", "instance"), rows)
        return {
            (segment, key, name, instance): ids[analyzers[segment, key], name, instance]
            for segment, key, name, instance in wanted
        }


def _series_key(m: Measurement, metric: Metric[float]) -> tuple[str, str, str, str]:
    return m.segment, analyzer_key(m.analyzer), metric.name, metric.instance


def outcome_columns(metric: Metric[float]) -> dict[str, Any]:
    """Return value, status, weight and error as the tables hold them.

    Examples
    --------
    >>> from analyzers.metric import Entity
    >>> infinite = Metric(Entity.COLUMN, "x", "Maximum", Success(float("inf")), weight=2)
    >>> outcome_columns(infinite)
    {'value': None, 'status': '+inf', 'weight': 2.0, 'error': None}
    """
    value, error = None, None
    match metric.outcome:
        case Success(number) if isnan(number):
            status = "NaN"
        case Success(number) if isinf(number):
            status = "+inf" if number > 0 else "-inf"
        case Success(number):
            status, value = "finite", number
        case Failure(reason):
            status = "empty" if metric.empty else "failed"
            error = f"{type(reason).__name__}: {reason}"
    weight = None if metric.weight is None else float(metric.weight)
    return {"value": value, "status": status, "weight": weight, "error": error}


# --- helpers over one connection


def _chunks(values: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for start in range(0, len(values), _VARIABLES):
        yield values[start : start + _VARIABLES]


def _insert_missing(
    connection: Connection, table: sa.Table, rows: Sequence[dict[str, Any]]
) -> None:
    """Insert the rows that are not there yet, by any unique key."""
    if rows:
        insert = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
        connection.execute(insert(table).on_conflict_do_nothing(), rows)


def _ids(
    connection: Connection, table: sa.Table, key: tuple[str, ...], rows: Sequence[dict[str, Any]]
) -> dict[tuple[Any, ...], int]:
    """Return the ids of rows by a unique key, adding those that are missing."""
    last = table.c[key[-1] if table is not s.series else key[0]]
    wanted = sorted({row[last.name] for row in rows})

    def find() -> dict[tuple[Any, ...], int]:
        ids: dict[tuple[Any, ...], int] = {}
        for some in _chunks(wanted):
            query = sa.select(table.c.id, *(table.c[name] for name in key)).where(last.in_(some))
            ids.update({tuple(found[1:]): found[0] for found in connection.execute(query)})
        return ids

    ids = find()
    missing = [row for row in rows if tuple(row[name] for name in key) not in ids]
    if missing:
        _insert_missing(connection, table, missing)
        ids = find()
    return ids


def _ledger(
    connection: Connection, dataset: int, names: Sequence[str] | None = None
) -> dict[str, _Stored]:
    p, v = s.partition.c, s.partition_version.c
    current = sa.select(v.partition_id, sa.func.max(v.version).label("version"))
    current_version = current.group_by(v.partition_id).subquery()
    joined = s.partition.outerjoin(
        current_version, current_version.c.partition_id == p.id
    ).outerjoin(
        s.partition_version,
        (v.partition_id == p.id) & (v.version == current_version.c.version),
    )
    columns = (p.id, p.name, p.gone_at, v.version, v.fingerprint, v.analyzer_set_id)
    query = sa.select(*columns).select_from(joined).where(p.dataset_id == dataset)
    queries = [query] if names is None else [query.where(p.name.in_(n)) for n in _chunks(names)]
    rows = [row for q in queries for row in connection.execute(q)]
    sets = {
        id_: frozenset(json.loads(text))
        for id_, text in connection.execute(
            sa.select(s.analyzer_set.c.id, s.analyzer_set.c.analyzers)
        )
    }
    return {
        row.name: _Stored(
            row.id,
            None
            if row.version is None
            else Known(
                row.version, row.fingerprint, sets[row.analyzer_set_id], row.gone_at is not None
            ),
        )
        for row in rows
    }


def _dataset_of(connection: Connection, run: int) -> int:
    query = sa.select(s.run.c.dataset_id).where(s.run.c.id == run)
    return int(connection.execute(query).scalar_one())


def _dataset(connection: Connection, spec: RunSpec) -> int:
    """Return the dataset's id; make it if it is new, and see that it still is of the same table."""
    d = s.dataset.c
    row = connection.execute(
        sa.select(d.id, d.source, d["keys"]).where(d.name == spec.dataset)
    ).one_or_none()
    keys = canonical_json(list(spec.keys))
    if row is None:
        values = {
            "name": spec.dataset,
            "source": spec.source,
            "keys": keys,
            "created_at": datetime.now(UTC),
        }
        insert = sa.insert(s.dataset).values(values).returning(d.id)
        return int(connection.execute(insert).scalar_one())
    if row.source and spec.source and row.source != spec.source and not spec.rename:
        raise DatasetMismatchError(mismatch_text(spec, row.source))
    if row[2] != keys:
        msg = (
            f"dataset {spec.dataset!r} was measured by {row[2]}, not by {keys}: its partitions would"
            " not be comparable; choose another name"
        )
        raise DatasetMismatchError(msg)
    if spec.source and row.source != spec.source:
        change = sa.update(s.dataset).where(d.id == row.id).values(source=spec.source)
        connection.execute(change)
    return int(row.id)


def _mark_interrupted(connection: Connection, dataset: int) -> None:
    r = s.run.c
    ours = (r.dataset_id == dataset) & (r.host == socket.gethostname())
    query = sa.select(r.id, r.pid).where(ours, r.status == RunStatus.RUNNING.value)
    dead = [row.id for row in connection.execute(query) if not _alive(row.pid)]
    if dead:
        values = {
            "status": RunStatus.INTERRUPTED.value,
            "error": "its process ended without a word",
        }
        connection.execute(sa.update(s.run).where(r.id.in_(dead)).values(values))


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
