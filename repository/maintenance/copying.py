"""Copy a repository from one database to another: from SQLite to PostgreSQL, and back.

Rows are copied in the order of their keys, in batches that are committed one by one, so a copy that
was killed goes on behind the last batch. Until all is copied and compared, the target has the
revision `UNFINISHED`, with which nothing else opens it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from tidegauge.analyzers.core.errors import (
    CorruptStateError,
    DatabaseAccessError,
    DatabaseVersionError,
)
from tidegauge.repository.store import schema as s
from tidegauge.repository.store.artifacts import Artifacts
from tidegauge.repository.store.bulk import Row, insert_rows
from tidegauge.repository.store.database import (
    UNFINISHED,
    VERSION_TABLE,
    Database,
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
        return (
            f"{self.rows:,} rows of {self.tables} tables and {self.files:,} files are equal in both"
        )


def copy_repository(
    source: Database,
    source_artifacts: Artifacts,
    target: Database,
    target_artifacts: Artifacts,
    report: Callable[[str], None] = lambda _: None,
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

    Raises
    ------
    DatabaseVersionError
        If the source is not at the newest revision.
    DatabaseAccessError
        If the target holds another repository, is the source itself, or differs after the copy.
    CorruptStateError
        If a file of the source is missing or damaged.
    """
    head, revision = head_revision(), source.revision()
    if revision != head:
        msg = f"{source.name} is at revision {revision}, not {head}: run tidegauge db upgrade first"
        raise DatabaseVersionError(msg)
    target_artifacts.require_folder()
    resumes = _prepare(source, target)
    with source.read() as reading:
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
        files = _copy_files(reading, source_artifacts, target_artifacts)
    _finish(target)
    return Copied(len(TABLES), copied, files)


def _prepare(source: Database, target: Database) -> bool:
    """Create the target's tables, empty; return whether it has a part of an earlier copy."""
    if source.file is not None and target.file is not None:
        same = target.file.absolute() == source.file.absolute()
    else:
        same = target.url == source.url
    if same:
        raise DatabaseAccessError(f"{target.name} is the source itself; give another database")
    revision = target.revision()
    if revision == UNFINISHED:
        return True
    if revision is None:
        target.require_empty()
        target.migrate()
    elif revision != head_revision() or target.row_counts()[s.dataset.name]:
        msg = f"{target.name} holds a repository already; give an empty database"
        raise DatabaseAccessError(msg)
    _set_revision(target, UNFINISHED)
    _clear(target)
    return False


def _set_revision(database: Database, revision: str) -> None:
    version = sa.table(VERSION_TABLE, sa.column("version_num"))
    with _writing(database) as connection:
        connection.execute(sa.update(version).values(version_num=revision))


@contextmanager
def _writing(database: Database) -> Iterator[Connection]:
    """Open a write transaction, whatever the revision."""
    engine = database.engine.execution_options(tidegauge_write=True)
    with engine.begin() as connection:
        yield connection


def _clear(target: Database) -> None:
    """Remove the rows of an unfinished copy.

    Raises
    ------
    DatabaseAccessError
        If another copy has finished it meanwhile.
    """
    with _writing(target) as connection:
        if read_revision(connection) != UNFINISHED:
            msg = f"another copy to {target.name} has finished meanwhile; give an empty database"
            raise DatabaseAccessError(msg)
        for table in reversed(TABLES):
            connection.execute(sa.delete(table))


def _copy_tables(reading: Connection, target: Database, report: Callable[[str], None]) -> int:
    """Copy the rows that the target lacks; return how many rows the source has."""
    total = 0
    for table in TABLES:
        count = sa.select(sa.func.count()).select_from(table)
        rows = int(reading.execute(count).scalar_one())
        total += rows
        with target.engine.connect() as connection:
            last = connection.execute(
                _in_order(connection, table, _key(table), descending=True)
            ).first()
            known = int(connection.execute(count).scalar_one())
        if known < rows:
            report(f"{table.name}: {rows - known:,} of {rows:,} rows")
            for batch in _batches(reading, table, None if last is None else tuple(last)):
                with _writing(target) as connection:
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
    with target.engine.connect() as connection, connection.begin():
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


def _copy_files(reading: Connection, source: Artifacts, target: Artifacts) -> int:
    """Copy the files that states refer to, and compare them by the hashes in their names."""
    tables = (s.state, s.named_state, s.folded_state)
    names = {
        name
        for table in tables
        for name in reading.execute(sa.select(table.c.artifact).distinct()).scalars()
        if name is not None
    }
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
    return len(names)


def _finish(target: Database) -> None:
    """Let new rows get numbers behind those that were copied, and open the target to others."""
    if not target.is_sqlite:
        with _writing(target) as connection:
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
    _set_revision(target, head_revision())
