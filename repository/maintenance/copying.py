"""Copy a repository from one database to another: from SQLite to PostgreSQL, and back.

Rows are copied in the order of their keys, in batches that are committed one by one, so a copy that
was killed goes on behind the last batch. Until all is copied and compared, the target has the
revision `UNFINISHED`, with which nothing else opens it, and a row among its leases names the source.
"""

from __future__ import annotations

import hashlib
import os
import socket
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from tidegauge.analyzers.core.errors import (
    CorruptStateError,
    DatabaseAccessError,
    DatabaseVersionError,
)
from tidegauge.analyzers.core.filesystems import PRIVATE_FILE, create_file
from tidegauge.analyzers.core.formatting import plural
from tidegauge.repository.maintenance.integrity import referenced_files
from tidegauge.repository.store import schema as s
from tidegauge.repository.store.artifacts import Artifacts
from tidegauge.repository.store.bulk import Row, insert_rows
from tidegauge.repository.store.database import (
    COPY_OF,
    UNFINISHED,
    VERSION_TABLE,
    Database,
    copy_source,
    head_revision,
    read_revision,
)

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

BATCH_ROWS = 5000
BATCH_BYTES = 16 * 2**20
"""Limits of one batch: rows, and bytes of states in them."""
READ_ROWS = 200
"""Rows that are held at a time; a state in the database has at most 256 KiB."""

TABLES = [table for table in s.metadata.sorted_tables if table is not s.lease]
"""Tables that are copied, each after those that it refers to. Leases belong to running processes."""


@dataclass(frozen=True)
class Copied:
    """Counts of what was copied, and found equal.

    Attributes
    ----------
    tables, rows, files : int
        The number of each.
    """

    tables: int
    rows: int
    files: int

    def __str__(self) -> str:
        """Return a one-line summary."""
        return f"{plural(self.rows, 'row')} of {plural(self.tables, 'table')} and {self.files:,} files are equal in both"


def copy_repository(
    source: Database,
    source_artifacts: Artifacts,
    target: Database,
    target_artifacts: Artifacts,
    report: Callable[[str], None] = lambda _: None,
    *,
    discard_unfinished: bool = False,
) -> Copied:
    """Copy all of a repository: states, metrics, versions, labels and files.

    The source is read as it is at the beginning; others may write to it meanwhile. Counts and hashes
    of all tables and files are compared at the end.

    Parameters
    ----------
    source, target : Database
        Opened by `Database.unchecked`.
    source_artifacts, target_artifacts : Artifacts
    report : callable
        Takes a line of text for each table that is copied.
    discard_unfinished : bool
        Begin anew if the target has an unfinished copy; by default one of the same source is
        finished, and one of another source is an error.

    Raises
    ------
    DatabaseVersionError
        If the source is not at the newest revision.
    DatabaseAccessError
        If the target holds another repository or an unfinished copy of one, is the source itself, is
        being copied to, or differs after the copy; or if a folder of large states is not given or
        cannot be written.
    CorruptStateError
        If a file of the source is missing or damaged.
    """
    _require_copyable(source, target)
    with _only_copy_to(target), source.read() as reading:
        # Everything that can be missing is looked for before the first row is copied.
        names = referenced_files(reading)
        _require_files(names, source_artifacts)
        _require_target_folder(target, target_artifacts)
        resumes = _prepare(source, target, discard_unfinished=discard_unfinished)
        _copy_files(names, source_artifacts, target_artifacts)
        copied = _copy_tables(reading, target, report)
        different = _different(reading, target)
        if different and resumes:  # the source has changed since the copy began
            report(f"{', '.join(different)} changed since the copy began: all is copied again")
            _clear(target)
            copied = _copy_tables(reading, target, report)
            different = _different(reading, target)
        if different:
            msg = f"{target.name} differs from {source.name} in {', '.join(different)}"
            raise DatabaseAccessError(msg)
        _finish(target)
    return Copied(len(TABLES), copied, len(names))


def _require_copyable(source: Database, target: Database) -> None:
    """Raise an error if the source is at an older revision, unfinished, or the target itself."""
    head, revision = head_revision(), source.revision()
    if revision is None:
        raise DatabaseAccessError(f"{source.name} is empty: there is nothing to copy")
    source.require_known(revision)
    if revision != head:
        msg = f"{source.name} is at revision {revision}, not {head}: run tidegauge db upgrade first"
        raise DatabaseVersionError(msg)
    if source.is_shared and target.address == source.address:
        raise DatabaseAccessError(f"{target.name} is the source itself; give another database")


def _require_files(names: set[str], artifacts: Artifacts) -> None:
    """Raise an error if files of large states are not in the source's folder."""
    if names and artifacts.root is None:
        msg = (
            f"the source has {len(names):,} large states in a folder: name it by --artifacts FOLDER"
        )
        raise DatabaseAccessError(msg)
    missing = sorted(names - artifacts.files()) if names else []
    if missing:
        what = (
            f"the file {missing[0]}"
            if len(missing) == 1
            else f"{len(missing):,} files, such as {missing[0]},"
        )
        msg = (
            f"{what} of {artifacts.root} is missing; if the folder was moved, name it by --artifacts;"
            " `tidegauge db check` lists what is missing"
        )
        raise CorruptStateError(msg)


def _require_target_folder(target: Database, artifacts: Artifacts) -> None:
    """Raise a `DatabaseAccessError` if the target has no folder for large states, or it cannot be written."""
    if artifacts.root is None and not target.is_sqlite:
        msg = (
            f"{target.name} needs a folder for large states that all who use it can reach: name it by"
            " --to-artifacts FOLDER"
        )
        raise DatabaseAccessError(msg)
    artifacts.require_writable()


@contextmanager
def _only_copy_to(target: Database) -> Iterator[None]:
    """Hold the target against other copies until this one ends, even by a kill.

    Raises
    ------
    DatabaseAccessError
        If another copy to the target is running.
    """
    if not target.is_shared:
        yield
    elif target.file is None:
        # A lock of a transaction, because a connection pooler may change sessions between them.
        with target.transaction(at_any_revision=True) as connection:
            schema = sa.func.hashtext(sa.func.coalesce(sa.func.current_schema(), ""))
            lock = sa.select(sa.func.pg_try_advisory_xact_lock(_COPY_LOCK, schema))
            deadline = time.monotonic() + LOCK_WAIT_SECONDS
            while not connection.execute(lock).scalar():
                if time.monotonic() >= deadline:
                    raise DatabaseAccessError(_running_message(target))
                time.sleep(0.1)
            connection.execute(sa.text("SET LOCAL idle_in_transaction_session_timeout = 0"))
            yield
    else:
        with _locked(target.file, target):
            yield


_COPY_LOCK = 827164
"""PostgreSQL's advisory lock of a copy, together with the schema it goes to."""
LOCK_WAIT_SECONDS = 5.0
"""Seconds in which a server notices that the process of an earlier copy was killed."""


@contextmanager
def _locked(file: Path, target: Database) -> Iterator[None]:
    """Hold a lock of SQLite on an empty file beside the target: the system releases it if we are killed."""
    lock = file.with_name(file.name + "-copying")
    with target.translated():
        if file.parent.is_dir():
            create_file(lock, PRIVATE_FILE)
        connection = sqlite3.connect(lock, timeout=0, isolation_level=None)
    with closing(connection):
        try:
            connection.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            raise DatabaseAccessError(_running_message(target)) from error
        try:
            yield
        finally:
            with suppress(OSError):  # Windows does not remove an open file
                lock.unlink()


def _running_message(target: Database) -> str:
    with target.read() as connection:
        row = None
        if read_revision(connection) == UNFINISHED:
            c = s.lease.c
            query = sa.select(s.lease).where(c.dataset.startswith(COPY_OF, autoescape=True))
            row = connection.execute(query).first()
    what = "" if row is None else f", a {row.dataset} by process {row.pid} on {row.host}"
    return f"another copy to {target.name} is running{what}; wait until it ends, or give another database"


def _prepare(source: Database, target: Database, *, discard_unfinished: bool) -> bool:
    """Create the target's tables, empty; return whether it has a part of an earlier copy of the source."""
    revision = target.revision()
    if revision is None:
        target.require_empty()
        target.migrate()
    elif revision not in {head_revision(), UNFINISHED}:
        raise DatabaseAccessError(_taken_message(target))
    with target.transaction(at_any_revision=True) as connection:
        if read_revision(connection) == UNFINISHED:
            earlier = copy_source(connection)
            if earlier == source.address and not discard_unfinished:
                _note_source(connection, source)
                return True
            if not discard_unfinished:
                msg = (
                    f"{target.name} has an unfinished copy of {earlier or 'an unknown database'}, not of"
                    f" {source.address}: finish it with that source, give another database or schema, or replace"
                    " it with --discard-unfinished"
                )
                raise DatabaseAccessError(msg)
        elif connection.execute(sa.select(s.dataset.c.id)).first() is not None:
            raise DatabaseAccessError(_taken_message(target))
        _delete_rows(connection)
        _note_source(connection, source)
        _set_sequences(connection)  # a missing right is an error now, not when all is copied
        _set_revision(connection, UNFINISHED)
    return False


def _taken_message(target: Database) -> str:
    return f"{target.name} holds a repository already; give an empty database"


def _note_source(connection: Connection, source: Database) -> None:
    """Write into the target what is copied to it, and by which process."""
    connection.execute(sa.delete(s.lease))
    connection.execute(
        sa.insert(s.lease).values(
            dataset=COPY_OF + source.address,
            fence=0,
            holder="",
            host=socket.gethostname(),
            pid=os.getpid(),
            expires_at=datetime.now(UTC),
        )
    )


def _set_revision(connection: Connection, revision: str) -> None:
    version = sa.table(VERSION_TABLE, sa.column("version_num"))
    connection.execute(sa.update(version).values(version_num=revision))


def _clear(target: Database) -> None:
    """Remove the rows of an unfinished copy.

    Raises
    ------
    DatabaseAccessError
        If another copy has finished it meanwhile.
    """
    with target.transaction(at_any_revision=True) as connection:
        if read_revision(connection) != UNFINISHED:
            msg = f"another copy to {target.name} has finished meanwhile; give an empty database"
            raise DatabaseAccessError(msg)
        _delete_rows(connection)


def _delete_rows(connection: Connection) -> None:
    for table in reversed(TABLES):
        connection.execute(sa.delete(table))


def _copy_tables(reading: Connection, target: Database, report: Callable[[str], None]) -> int:
    """Copy the rows that the target lacks; return how many rows the source has."""
    total = 0
    for table in TABLES:
        count = sa.select(sa.func.count()).select_from(table)
        rows = int(reading.execute(count).scalar_one())
        total += rows
        with target.read() as connection:
            last = connection.execute(
                _in_order(connection, table, _key(table), descending=True)
            ).first()
            known = int(connection.execute(count).scalar_one())
        if known < rows:
            report(f"{table.name}: {rows - known:,} of {plural(rows, 'row')}")
            for batch in _batches(reading, table, None if last is None else tuple(last)):
                with target.transaction(at_any_revision=True) as connection:
                    insert_rows(connection, table, [c.name for c in table.columns], batch)
    return total


def _batches(reading: Connection, table: sa.Table, last: Row | None) -> Iterator[list[Row]]:
    """Yield the rows after a key, in batches."""
    query = _in_order(reading, table, list(table.columns))
    if last is not None:
        query = query.where(sa.tuple_(*_by_code_points(reading, _key(table))) > last)
    batch: list[Row] = []
    size = 0
    for row in reading.execution_options(yield_per=READ_ROWS).execute(query):
        batch.append(tuple(row))
        size += sum(len(value) for value in row if isinstance(value, bytes))
        if len(batch) == BATCH_ROWS or size > BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _key(table: sa.Table) -> list[sa.Column[Any]]:
    return list(table.primary_key.columns) or list(table.columns)


def _in_order(
    connection: Connection,
    table: sa.Table,
    columns: Sequence[sa.Column[Any]],
    *,
    descending: bool = False,
) -> sa.Select[Any]:
    """Select columns by the order of the key; descending only the first row."""
    query = sa.select(*columns)
    order = _by_code_points(connection, _key(table))
    if descending:
        return query.order_by(*(column.desc() for column in order)).limit(1)
    return query.order_by(*order)


def _by_code_points(
    connection: Connection, columns: Sequence[sa.Column[Any]]
) -> list[sa.ColumnElement[Any]]:
    """Return columns whose texts are ordered alike in all databases, whatever their language."""
    collation = "BINARY" if connection.dialect.name == "sqlite" else "C"
    return [sa.collate(c, collation) if isinstance(c.type, sa.Text) else c for c in columns]


def _different(reading: Connection, target: Database) -> list[str]:
    """Return the names of the tables whose rows are not equal."""
    with target.read() as connection:
        return [t.name for t in TABLES if digest(reading, t) != digest(connection, t)]


def digest(connection: Connection, table: sa.Table) -> tuple[int, str]:
    """Return the number of rows of a table, and a hash of them in the order of their keys."""
    found, rows = hashlib.sha256(), 0
    query = _in_order(connection, table, list(table.columns))
    for row in connection.execution_options(yield_per=READ_ROWS).execute(query):
        found.update(repr(tuple(map(_comparable, row))).encode())
        rows += 1
    return rows, found.hexdigest()


def _comparable(value: Any) -> Any:
    """Return a value in the form that all databases give it."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if isinstance(value, bytes | memoryview):
        return hashlib.sha256(value).hexdigest()
    return value


def _copy_files(names: set[str], source: Artifacts, target: Artifacts) -> None:
    """Copy files of large states, and compare them by the hashes in their names."""
    there = target.files()
    for name in sorted(names):
        if name not in there:
            try:
                target.write(name, source.read(name))
            except FileNotFoundError as error:
                raise CorruptStateError(f"the file {name} of {source.root} is missing") from error
        if hashlib.sha256(target.read(name)).hexdigest() != PurePosixPath(name).stem:
            if name not in there:  # both may have one folder, whose files are not ours to remove
                target.remove(name)
            raise CorruptStateError(f"the file {name} of {source.root} is damaged")


def _finish(target: Database) -> None:
    """Let new rows get numbers behind those that were copied, and open the target to others."""
    with target.transaction(at_any_revision=True) as connection:
        _set_sequences(connection)
        connection.execute(sa.delete(s.lease))
        _set_revision(connection, head_revision())


def _set_sequences(connection: Connection) -> None:
    """Let PostgreSQL number new rows from the last one on; SQLite does so by itself."""
    if connection.dialect.name == "sqlite":
        return
    quote = connection.dialect.identifier_preparer.quote
    for table in TABLES:
        column = table.autoincrement_column
        if column is None:
            continue
        sequence = sa.func.pg_get_serial_sequence(quote(table.name), column.name)
        last = sa.select(sa.func.max(column)).scalar_subquery()
        if connection.execute(sa.select(sequence)).scalar() is not None:
            values = sa.func.coalesce(last, 1), last.is_not(None)
            connection.execute(sa.select(sa.func.setval(sequence, *values)))
