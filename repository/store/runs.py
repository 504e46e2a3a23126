"""Runs in the SQL store: leases, the partition ledger and batches of measurements.

`SqlRunStore` implements `tidegauge.analyzers.runs.ledger.RunStore`. A lease lets one run at a time
measure a dataset. It expires some time after its last renewal, so a dead holder does not block
others for long. A waiting run also detects a missing renewal itself, in case the holder's clock ran
ahead. Each new lease has a higher fencing token, the fence, which every commit of the run compares.
A holder that was presumed dead and replaced can no longer commit.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import sqlalchemy as sa

from tidegauge.analyzers.core.errors import LeaseError, RepositoryError
from tidegauge.analyzers.core.partitions import SegmentSet
from tidegauge.analyzers.core.registry import canonical_json, key_of
from tidegauge.analyzers.runs.ledger import (
    Decision,
    LedgerEntry,
    MeasuredPartition,
    RunSpec,
    RunStatus,
)
from tidegauge.repository.store import schema as s
from tidegauge.repository.store.batch import (
    Batch,
    SubjectCache,
    failures_of,
    ledger_of,
    packed_states,
    rename_fingerprints,
)
from tidegauge.repository.store.bulk import chunks, gc_paused, insert_missing
from tidegauge.repository.store.database import Database, lock_clock, next_commit
from tidegauge.repository.store.dimensions import dataset_for, dataset_named, dataset_of, visible
from tidegauge.repository.store.listing import require_active
from tidegauge.repository.store.stored_states import Artifacts

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection


LEASE_SECONDS = 60.0
"""Seconds after its last renewal at which a lease expires."""
_POLL_SECONDS = 0.5


@contextmanager
def hold_lease(
    database: Database, dataset: str, wait: float, seconds: float = LEASE_SECONDS
) -> Iterator[int]:
    """Hold the lease of a dataset; yield its fence.

    Parameters
    ----------
    database : Database
    dataset : str
    wait : float
        Seconds to wait for another holder.
    seconds : float
        Seconds until the lease expires without renewal. It is renewed four times as often.

    Raises
    ------
    LeaseError
        If another run still holds it after the wait.
    """
    holder = uuid4().hex
    fence = _acquire(database, dataset, holder, wait, seconds)
    stop = threading.Event()
    # A database in memory has one connection, and no other process that could want the lease.
    if database.is_shared:
        args = (database, dataset, fence, seconds, stop)
        threading.Thread(target=_renew, args=args, daemon=True).start()
    try:
        yield fence
    finally:
        stop.set()
        with suppress(RepositoryError):  # it expires by itself; an earlier error must not be masked
            database.write(lambda connection: _end(connection, dataset, fence))


def require_fence(connection: Connection, dataset: str, fence: int) -> None:
    """Raise a `LeaseError` if the lease was taken over."""
    lease = s.lease.c
    query = sa.select(lease.fence, lease.host, lease.pid).where(lease.dataset == dataset)
    row = connection.execute(query).one_or_none()
    if row is None or row.fence != fence:
        winner = "another run" if row is None else f"process {row.pid} on {row.host}"
        msg = (
            f"{winner} took over measuring {dataset!r}, because this run did not renew its lease in"
            " time. Committed batches are kept; the other run measures the rest"
        )
        raise LeaseError(msg)


def oldest_running_start(connection: Connection) -> datetime | None:
    """Return the start of the oldest run still marked as running; None if there is none."""
    query = sa.select(sa.func.min(s.run.c.started_at)).where(s.run.c.status == "running")
    return connection.execute(query).scalar()


def _acquire(database: Database, dataset: str, holder: str, wait: float, seconds: float) -> int:
    deadline = time.monotonic() + wait
    last_lease, since = None, time.monotonic()
    while True:
        lapsed = last_lease if time.monotonic() - since > seconds else None
        fence, lease = database.write(partial(_take, dataset, holder, seconds, lapsed))
        if fence is not None:
            return fence
        if lease != last_lease:
            last_lease, since = lease, time.monotonic()
        if time.monotonic() >= deadline:
            assert lease is not None
            msg = (
                f"{dataset!r} is being measured by process {lease.pid} on {lease.host}; wait for it to end, or allow a longer"
                " wait: analyze(..., wait=seconds)"
            )
            raise LeaseError(msg)
        time.sleep(_POLL_SECONDS)


def _take(
    dataset: str, holder: str, seconds: float, lapsed: sa.Row[Any] | None, connection: Connection
) -> tuple[int | None, sa.Row[Any] | None]:
    """Take the lease if it is free, or was not renewed after it expired; return its fence, or None and the lease."""
    lock_clock(connection)  # otherwise two runs without a lease row would both take it
    lease, now = s.lease.c, _now(connection)
    row = connection.execute(sa.select(s.lease).where(lease.dataset == dataset)).one_or_none()
    if row is not None and row.holder not in {"", holder}:
        dead = row.host == socket.gethostname() and not is_process_alive(row.pid)
        if row.expires_at > now and not dead and row != lapsed:
            return None, row
    values = {
        "fence": 1 if row is None else row.fence + 1,
        "holder": holder,
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "expires_at": now + timedelta(seconds=seconds),
    }
    if row is None:
        connection.execute(sa.insert(s.lease).values(dataset=dataset, **values))
    else:
        connection.execute(sa.update(s.lease).where(lease.dataset == dataset).values(values))
    return int(str(values["fence"])), None


def _end(connection: Connection, dataset: str, fence: int) -> None:
    lease = s.lease.c
    is_own = (lease.dataset == dataset) & (lease.fence == fence)
    connection.execute(sa.update(s.lease).where(is_own).values(holder=""))


def _renew(
    database: Database, dataset: str, fence: int, seconds: float, stop: threading.Event
) -> None:
    def work(connection: Connection) -> None:
        lease = s.lease.c
        is_own = (lease.dataset == dataset) & (lease.fence == fence) & (lease.holder != "")
        expiry = _now(connection) + timedelta(seconds=seconds)
        connection.execute(sa.update(s.lease).where(is_own).values(expires_at=expiry))

    while not stop.wait(seconds / 4):
        with suppress(RepositoryError):  # the run's next commit checks the fence anyway
            database.write(work)


def _now(connection: Connection) -> datetime:
    """Return the time of the clock that all users share: the server's, or this host's for SQLite."""
    if connection.dialect.name == "sqlite":
        return datetime.now(UTC)
    moment: datetime = connection.execute(sa.select(sa.func.clock_timestamp())).scalar_one()
    return moment.astimezone(UTC)


def is_process_alive(pid: int) -> bool:
    """Return whether a process of this host is alive."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


class SqlRunStore:
    """Run store on a SQL database; `RunStore` documents the contract.

    A batch is one transaction: its states, metrics and ledger rows become visible together. Writing
    the same batch again writes none of them. All rows are sorted before they are written, so that
    two writers take their locks in the same order.
    """

    def __init__(self, database: Database, artifacts: Artifacts) -> None:
        self.database = database
        self.artifacts = artifacts
        self._subjects = SubjectCache()

    # runs

    def hold(self, dataset: str, wait: float) -> AbstractContextManager[int]:
        """Hold the dataset's lease, so that no other run measures it; the context is its fence."""
        return hold_lease(self.database, dataset, wait)

    def open_run(self, spec: RunSpec, fence: int | None = None) -> int:
        """Open a run; runs of dead processes of this host are marked as interrupted.

        Raises
        ------
        DatabaseAccessError
            If a shared database has no folder for large states.
        """
        self.artifacts.require_folder()
        opener = {
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "fence": fence,
            "started_at": datetime.now(UTC),
        }

        def work(connection: Connection) -> int:
            # Concurrent first runs of one dataset must not both create it.
            lock_clock(connection)
            dataset = dataset_for(connection, spec)
            require_active(connection, dataset, spec.dataset)
            _mark_interrupted(connection, dataset)
            # If the connection broke during a commit, the run may be stored already.
            same_opener = (
                s.run.c[name].is_not_distinct_from(value) for name, value in opener.items()
            )
            existing = sa.select(s.run.c.id).where(s.run.c.dataset_id == dataset, *same_opener)
            if (stored_run := connection.execute(existing).scalar()) is not None:
                return int(stored_run)
            values = {
                "dataset_id": dataset,
                "source": spec.source,
                "suite": spec.suite,
                "selection": spec.selection,
                "status": RunStatus.RUNNING.value,
                **opener,
            }
            insert = sa.insert(s.run).values(values).returning(s.run.c.id)
            run = int(connection.execute(insert).scalar_one())
            _add_tags(connection, run, spec.tags)
            return run

        return self.database.write(work)

    def fail_run(self, spec: RunSpec, error: str) -> int:
        """Store a run that failed before it could be opened, and return its id."""
        now = datetime.now(UTC)
        values = {
            "source": spec.source,
            "suite": spec.suite,
            "selection": spec.selection,
            "status": RunStatus.FAILED.value,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "started_at": now,
            "finished_at": now,
            "failed": 1,
            "error": visible(error),
        }

        def work(connection: Connection) -> int:
            lock_clock(connection)
            dataset = dataset_named(connection, spec.dataset)
            require_active(connection, dataset, spec.dataset)
            insert = sa.insert(s.run).values(dataset_id=dataset, **values).returning(s.run.c.id)
            run = int(connection.execute(insert).scalar_one())
            _add_tags(connection, run, spec.tags)
            return run

        return self.database.write(work)

    def tag_run(self, run: int, tags: Mapping[str, str]) -> None:
        """Add tags to a run; existing tags are kept."""

        def work(connection: Connection) -> None:
            query = sa.select(s.run_tag.c.key).where(s.run_tag.c.run_id == run)
            stored_keys = set(connection.execute(query).scalars())
            _add_tags(
                connection, run, {k: v for k, v in tags.items() if visible(k) not in stored_keys}
            )

        self.database.write(work)

    def close_run(
        self,
        run: int,
        status: RunStatus,
        counts: Mapping[str, int],
        error: str | None = None,
        routes: Mapping[str, int] | None = None,
    ) -> None:
        """Close a run with its status, its counts, and its numbers of measurements by route."""
        values = {
            **counts,
            "routes": canonical_json(dict(routes)) if routes else None,
            "status": status.value,
            "error": error,
            "finished_at": datetime.now(UTC),
        }
        change = sa.update(s.run).where(s.run.c.id == run).values(values)
        self.database.write(lambda connection: connection.execute(change))
        self._subjects = SubjectCache()  # the next run may have other analyzers

    def mark_gone(self, run: int, gone: Sequence[str], returned: Sequence[str] = ()) -> None:
        """Record which partitions are gone from the source, and which are back."""

        def work(connection: Connection) -> None:
            commit = self._commit(connection, run)[0]
            dataset = dataset_of(connection, run)
            for chunk in chunks(sorted(map(key_of, returned))):
                ids = _partition_ids(dataset, chunk)
                ended = sa.update(s.absence).where(
                    s.absence.c.partition_id.in_(ids), s.holds(s.absence)
                )
                connection.execute(ended.values(superseded_commit_id=commit))
            for chunk in chunks(sorted(map(key_of, gone))):
                missing = _partition_ids(dataset, chunk)
                absent = sa.select(s.absence.c.partition_id).where(s.holds(s.absence))
                newly_gone = connection.execute(missing.where(s.partition.c.id.not_in(absent)))
                rows = [(partition, commit) for partition in sorted(newly_gone.scalars())]
                insert_missing(connection, s.absence, ("partition_id", "commit_id"), rows)

        self.database.write(work)

    def replace_fingerprints(self, run: int, fingerprints: Mapping[str, str]) -> None:
        """Replace the fingerprints of current versions, by partition, after files changed but not their content."""
        by_key = {key_of(name): fingerprint for name, fingerprint in fingerprints.items()}

        def work(connection: Connection) -> None:
            self._commit(connection, run)
            dataset, partition = dataset_of(connection, run), s.partition.c
            for chunk in chunks(sorted(by_key)):
                query = sa.select(partition.id, partition.key).where(
                    partition.dataset_id == dataset, partition.key.in_(chunk)
                )
                rows = connection.execute(query).all()
                rename_fingerprints(connection, dataset, {row.id: by_key[row.key] for row in rows})

        self.database.write(work)

    def _commit(self, connection: Connection, run: int) -> tuple[int, datetime]:
        """Take a commit number for a run; raise a `LeaseError` if its lease was taken over."""
        commit = next_commit(connection, run)
        query = (
            sa.select(s.run.c.fence, s.dataset.c.name)
            .join_from(s.run, s.dataset)
            .where(s.run.c.id == run)
        )
        fence, name = connection.execute(query).one()
        if fence is not None:
            require_fence(connection, name, fence)
        return commit

    # the ledger

    def ledger(self, dataset: str) -> Mapping[str, LedgerEntry]:
        """Return the current ledger entry of each partition of a dataset, by name."""
        with self.database.read() as connection:
            query = sa.select(s.dataset.c.id).where(s.dataset.c.name == dataset)
            dataset_number = connection.execute(query).scalar_one_or_none()
            if dataset_number is None:
                return {}
            return {n: p.entry for n, p in ledger_of(connection, dataset_number).items() if p.entry}

    def failures(
        self, dataset: str, partitions: Collection[str]
    ) -> Mapping[tuple[str, str], frozenset[str]]:
        """Return the errors of failed analyzers by partition and canonical analyzer."""
        with self.database.read() as connection:
            query = sa.select(s.dataset.c.id).where(s.dataset.c.name == dataset)
            dataset_number = connection.execute(query).scalar_one_or_none()
            return (
                {}
                if dataset_number is None
                else failures_of(connection, dataset_number, partitions)
            )

    def newest_values(
        self, dataset: str, names: Collection[str]
    ) -> Mapping[tuple[str, str], float]:
        """Return the greatest newest value of each metric without a filter, by name and instance."""
        analyzer, series, newest_metric = s.analyzer.c, s.series.c, s.newest_metric.c
        query = (
            sa.select(series.name, series.instance, sa.func.max(newest_metric.value))
            .join_from(s.newest_metric, s.series, series.id == newest_metric.series_id)
            .join(s.analyzer, analyzer.id == series.analyzer_id)
            .join(s.dataset, s.dataset.c.id == analyzer.dataset_id)
            .where(s.dataset.c.name == dataset, analyzer.filter.is_(None))
            .where(series.name.in_(sorted(names)), newest_metric.value.is_not(None))
            .group_by(series.name, series.instance)
        )
        with self.database.read() as connection:
            return {(name, instance): value for name, instance, value in connection.execute(query)}

    # segments

    def segment_sets(self, dataset: str) -> Mapping[tuple[str, ...], SegmentSet]:
        """Return the newest segment set for each tuple of columns."""
        query = sa.select(s.dataset.c.id).where(s.dataset.c.name == dataset)
        with self.database.read() as connection:
            dataset_number = connection.execute(query).scalar_one_or_none()
            sets = [] if dataset_number is None else stored_segment_sets(connection, dataset_number)
        return {segments.columns: segments for segments in sets}

    def keep_segments(self, run: int, chosen: Sequence[SegmentSet]) -> None:
        """Store segment sets; a stored set of the same generation is kept."""

        def work(connection: Connection) -> None:
            _, now = self._commit(connection, run)
            dataset = dataset_of(connection, run)
            rows = [
                (
                    *(dataset, canonical_json(list(x.columns)), x.generation),
                    *(canonical_json([list(values) for values in x.kept]), run, now),
                )
                for x in sorted(chosen, key=lambda segments: segments.columns)
            ]
            columns = ("dataset_id", "columns", "generation", "kept", "run_id", "chosen_at")
            insert_missing(connection, s.segment_set, columns, rows)

        self.database.write(work)

    # batches

    def commit_batch(self, run: int, batch: Sequence[MeasuredPartition]) -> list[Decision]:
        """Store a batch atomically and return the decision on each partition."""
        self.database.require_writable()
        # Before the lock is taken: it may be slow.
        packed = [packed_states(measured, self.artifacts, self._subjects) for measured in batch]

        def work(connection: Connection) -> list[Decision]:
            commit, now = self._commit(connection, run)
            dataset = dataset_of(connection, run)
            writer = Batch(connection, self.artifacts, dataset, run, commit, now, self._subjects)
            return writer.store(batch, packed)

        with gc_paused():
            return self.database.write(work)


def stored_segment_sets(connection: Connection, dataset: int) -> list[SegmentSet]:
    """Return all segment sets of a dataset, ordered by generation."""
    segment_set = s.segment_set.c
    query = sa.select(segment_set["columns"], segment_set.kept, segment_set.generation).where(
        segment_set.dataset_id == dataset
    )
    return [
        SegmentSet(tuple(json.loads(columns)), tuple(map(tuple, json.loads(values))), generation)
        for columns, values, generation in connection.execute(
            query.order_by(segment_set.generation)
        )
    ]


def _add_tags(connection: Connection, run: int, tags: Mapping[str, str]) -> None:
    rows = [
        {"run_id": run, "key": visible(k), "value": visible(v)} for k, v in sorted(tags.items())
    ]
    if rows:
        connection.execute(sa.insert(s.run_tag), rows)


def _partition_ids(dataset: int, keys: Sequence[str]) -> sa.Select[tuple[int]]:
    partition = s.partition.c
    return sa.select(partition.id).where(partition.dataset_id == dataset, partition.key.in_(keys))


def _mark_interrupted(connection: Connection, dataset: int) -> None:
    run = s.run.c
    of_this_host = (run.dataset_id == dataset) & (run.host == socket.gethostname())
    query = sa.select(run.id, run.pid).where(of_this_host, run.status == RunStatus.RUNNING.value)
    dead = [row.id for row in connection.execute(query) if not is_process_alive(row.pid)]
    if dead:
        values = {
            "status": RunStatus.INTERRUPTED.value,
            "error": "the process ended without closing the run",
        }
        connection.execute(sa.update(s.run).where(run.id.in_(dead)).values(values))
