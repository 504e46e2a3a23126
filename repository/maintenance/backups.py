"""Backups and copies of a repository: backup, restore, copy to another database, upgraded copy.

A backup of a SQLite file is a SQLite file; of PostgreSQL it is an archive of ``pg_dump``,
PostgreSQL's own tool. The files of large states are copied as well, by hard links if the file system supports
them, because these files never change. A backup has the permissions of the original file or folder; a dump of
PostgreSQL is private.

`copy_repository` copies from SQLite to PostgreSQL, and back. Rows are copied in the order of their
keys, in batches that are committed one by one, so a copy that was killed resumes after the last batch. Until
all is copied and compared, the target has the revision `UNFINISHED_REVISION`, so that nothing else opens it.

`upgraded_copy` upgrades a copy of an older PostgreSQL repository. The copy is never committed, so
no other session sees it.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import socket
import sqlite3
import subprocess
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, ProgrammingError

from tidegauge.analyzers.core.errors import (
    CorruptStateError,
    DatabaseAccessError,
    DatabaseVersionError,
    NotOurDatabaseError,
    RepositoryWarning,
)
from tidegauge.analyzers.core.filesystems import (
    PRIVATE_FILE,
    create_file,
    create_folder,
    output_file,
    permissions,
)
from tidegauge.analyzers.core.formatting import plural
from tidegauge.repository.maintenance.integrity import referenced_files
from tidegauge.repository.store import schema as s
from tidegauge.repository.store.bulk import Row, insert_rows
from tidegauge.repository.store.database import (
    COPY_OF,
    UNFINISHED_REVISION,
    Database,
    alembic_config,
    all_revisions,
    backup_beside,
    copy_source,
    head_revision,
    read_revision,
    stamp,
)
from tidegauge.repository.store.engines import SQLITE_HEADER, VERSION_TABLE
from tidegauge.repository.store.schema import metadata
from tidegauge.repository.store.stored_states import Artifacts

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection


def back_up(database: Database, artifacts: Artifacts, to: Path | None = None) -> Path:
    """Back up a repository and return the path of the backup.

    Parameters
    ----------
    database : Database
    artifacts : Artifacts
    to : Path, optional
        The target, never overwritten (default: a timestamped name in the folder of the SQLite file,
        or in the working directory for PostgreSQL).

    Raises
    ------
    DatabaseAccessError
        If the target exists or is not writable, the database is in memory, or ``pg_dump`` is
        missing or fails.

    Warns
    -----
    RepositoryWarning
        If files of large states are missing from the folder, and so from the backup.
    """
    target = _back_up(database, artifacts, to)
    _warn_of_missing_files(database, artifacts, target)
    return target


def _back_up(database: Database, artifacts: Artifacts, to: Path | None = None) -> Path:
    if database.revision() == UNFINISHED_REVISION:
        raise DatabaseVersionError(database.unfinished_message())
    target = to or _default_target(database)
    if target.exists():
        msg = f"{target} already exists; name another file"
        raise DatabaseAccessError(msg)
    if database.is_sqlite and database.file is None:
        msg = "a database in memory has no file to copy; its history ends with its process"
        raise DatabaseAccessError(msg)
    _require_folder(database, artifacts)
    mode = PRIVATE_FILE if database.file is None else permissions(database.file)
    with output_file(target, mode) as partial:
        if database.is_sqlite:
            database.copy(partial)
        else:
            options = ("--format=custom", f"--file={partial}", f"--dbname={_conninfo(database)}")
            _run_postgres("pg_dump", database, *options)
        # Files are copied after the rows that refer to them, and before the backup appears: it is complete.
        _copy_files(artifacts, Artifacts(_files_of(target)))
    return target


def _require_folder(database: Database, artifacts: Artifacts) -> None:
    """Raise a `DatabaseAccessError` if large states are in an unknown folder."""
    if artifacts.root is None and database.revision() in all_revisions():
        with database.read() as connection:
            if referenced_files(connection):
                artifacts.require_folder()


def _warn_of_missing_files(database: Database, artifacts: Artifacts, backup: Path) -> None:
    """Warn if a backup lacks files of large states, because the artifacts folder lacks them."""
    if database.revision() != head_revision():  # older revisions may have other tables
        return
    with database.read() as connection:
        referenced = referenced_files(connection)
    missing = sorted(referenced - Artifacts(_files_of(backup)).files())
    if missing:
        count = plural(len(missing), "large state")
        message = (
            f"the backup {backup} lacks {count}: {artifacts.root or 'the artifacts folder'} has no file"
            f" {missing[0]}; if the folder was moved, specify it with --artifacts and back up again;"
            " `tidegauge db check` lists all that are missing"
        )
        warnings.warn(message, RepositoryWarning, stacklevel=3)


def restore(database: Database, artifacts: Artifacts, source: Path) -> Path | None:
    """Replace a database's content with a backup, and return the path of a copy of the old content.

    A damaged SQLite file cannot be copied, so it is renamed, and its new path is returned. Return
    None if the database was empty or an unfinished copy.

    Raises
    ------
    NotOurDatabaseError
        If the file is not a backup of a repository, or is damaged; nothing is changed then.
    DatabaseAccessError
        If the backup is unreadable or the database is not writable.
    """
    if not source.is_file():
        msg = f"the backup {source} does not exist"
        raise DatabaseAccessError(msg)
    _require_same_kind(database, source)
    if database.is_sqlite:
        _require_sound(source)
    previous = database.set_aside_damaged()
    files = Artifacts(_files_of(source))
    if files.files():
        artifacts.require_folder()
    if database.file is not None:  # connecting makes it
        create_file(database.file, permissions(previous or source))
    if database.revision() not in {None, UNFINISHED_REVISION}:
        previous = _back_up(database, artifacts)
    # Files are copied before the rows that refer to them: a kill in between leaves only unreferenced files.
    _copy_files(files, artifacts)
    if database.file is not None:
        with (
            closing(sqlite3.connect(source)) as copy,
            closing(sqlite3.connect(database.file)) as current,
        ):
            copy.backup(
                current
            )  # in one transaction: concurrent readers see the old content or the new
    else:
        _restore_postgres(database, source)
    return previous


def _default_target(database: Database) -> Path:
    if database.file is not None:
        return backup_beside(database.file)
    return Path(f"{_name(database)}.{stamp()}.dump")


def _name(database: Database) -> str:
    return str(database.url.database)


def _files_of(backup: Path) -> Path:
    return backup.with_name(backup.name + ".artifacts")


def _copy_files(source: Artifacts, target: Artifacts) -> None:
    """Copy the files that the target lacks, by hard links where the file system can."""
    if target.root is None:
        return
    names = sorted(source.files() - target.files())
    if names and isinstance(source.root, Path) and isinstance(target.root, Path):
        create_folder(target.root, permissions(source.root))
    for name in names:
        if isinstance(source.root, Path) and isinstance(target.root, Path):
            copy = target.root / name
            create_folder(copy.parent, permissions(target.root))
            with suppress(OSError):  # another file system, or one without links
                os.link(source.root / name, copy)
                continue
        target.write(name, source.read(name))


def _require_same_kind(database: Database, backup: Path) -> None:
    """Raise a `NotOurDatabaseError` if only one of backup and database is SQLite."""
    with backup.open("rb") as stream:
        header = stream.read(len(SQLITE_HEADER))
    if header == SQLITE_HEADER and not database.is_sqlite:
        files = _files_of(backup)
        option = f" --artifacts {files}" if files.is_dir() else ""
        msg = (
            f"{backup} is a backup of a SQLite database, which cannot be restored into PostgreSQL; copy it into"
            f" an empty database: tidegauge db copy sqlite:///{backup} {database.address}{option}"
            " --to-artifacts FOLDER"
        )
        raise NotOurDatabaseError(msg)
    if header.startswith(_DUMP_HEADER) and database.is_sqlite:
        msg = (
            f"{backup} is a backup of a PostgreSQL database, which cannot be restored into SQLite; restore it into"
            " an empty PostgreSQL database, and copy that: tidegauge db restore"
            f" {backup} --db POSTGRES_URL, then tidegauge db copy POSTGRES_URL {database.address}"
        )
        raise NotOurDatabaseError(msg)


_DUMP_HEADER = b"PGDMP"
"""The first bytes of an archive of ``pg_dump``."""


def _require_sound(file: Path) -> None:
    uri = f"file:{quote(str(file.absolute()))}?mode=ro&immutable=1"
    query = f"SELECT version_num FROM {VERSION_TABLE}"  # noqa: S608 - a constant
    try:
        with closing(sqlite3.connect(uri, uri=True)) as copy:
            (revision,) = copy.execute(query).fetchone()
            problem = copy.execute("PRAGMA integrity_check").fetchone()[0]
            tables = {name for (name,) in copy.execute("SELECT name FROM sqlite_master")}
    except (sqlite3.Error, TypeError) as error:
        msg = f"{file} is not a backup of a tidegauge repository: {error}"
        raise NotOurDatabaseError(msg) from error
    _require_known(file, revision)
    if problem != "ok":
        msg = f"{file} is damaged: {problem}"
        raise NotOurDatabaseError(msg)
    if revision == head_revision() and (missing := sorted(set(metadata.tables) - tables)):
        msg = f"{file} is not a backup of a tidegauge repository: it lacks the table {missing[0]!r}"
        raise NotOurDatabaseError(msg)


def _require_known(file: Path, revision: str | None) -> None:
    if revision not in all_revisions():
        msg = f"{file} is at revision {revision}, which this tidegauge does not know"
        raise NotOurDatabaseError(msg)


def _restore_postgres(database: Database, source: Path) -> None:
    """Replace all tidegauge tables and views with a dump, in one transaction."""
    with source.open("rb") as stream:
        if stream.read(len(_DUMP_HEADER)) != _DUMP_HEADER:
            msg = f"{source} is not a backup of a tidegauge repository: `tidegauge db backup` writes archives of pg_dump"
            raise NotOurDatabaseError(msg)
    to_text = ("--no-owner", "--file=-", str(source))
    script = _run_postgres("pg_restore", database, *to_text, file=source)
    revision = re.search(rf"COPY public\.{VERSION_TABLE} .*?;\n(\w+)\n", script)
    if revision is None:
        msg = f"{source} is not a backup of a tidegauge repository"
        raise NotOurDatabaseError(msg)
    _require_known(source, revision[1])
    with database.read() as connection:
        inspector = sa.inspect(connection)
        views = [name for name in inspector.get_view_names() if name.startswith("v_")]
        tables = set(inspector.get_table_names()) & {*metadata.tables, VERSION_TABLE}
    drops = [f'DROP VIEW "{name}";' for name in views]
    drops += [f'DROP TABLE "{name}" CASCADE;' for name in sorted(tables)]
    # DROP waits for active readers, and all other sessions would queue behind it.
    full_script = "\n".join([f"SET lock_timeout = '{_LOCK_TIMEOUT_SECONDS}s';", *drops, script])
    options = ("--single-transaction", "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1")
    _run_postgres("psql", database, *options, f"--dbname={_conninfo(database)}", script=full_script)


_LOCK_TIMEOUT_SECONDS = 30


def _conninfo(database: Database) -> str:
    """Return the URL without secrets, as PostgreSQL's tools accept it."""
    return sa.make_url(database.address).set(drivername="postgresql").render_as_string()


def _run_postgres(
    tool: str,
    database: Database,
    *options: str,
    script: str | None = None,
    file: Path | None = None,
) -> str:
    """Run a PostgreSQL tool on a database, or only on a file.

    The password is passed in the environment, so that the process list does not show it.
    """
    program = shutil.which(tool)
    if program is None:
        msg = f"{tool} is not installed; it comes with PostgreSQL's client programs"
        raise DatabaseAccessError(msg)
    secret = database.url.password or database.url.query.get("password")
    environment = {**os.environ, **({"PGPASSWORD": str(secret)} if secret else {})}
    done = subprocess.run(  # noqa: S603 - a program looked up by name, with fixed options
        [program, *options],
        env=environment,
        input=script,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        problem = " ".join(done.stderr.split())
        if file is not None:
            msg = f"{file} is cut off or damaged, or of a newer PostgreSQL than {tool}: {problem}"
            raise NotOurDatabaseError(msg)
        msg = f"{tool} failed on {database.name}: {problem}"
        if "permission denied for sequence" in problem:
            msg += (
                "; a role that makes backups also needs GRANT SELECT ON ALL SEQUENCES IN SCHEMA ..."
            )
        raise DatabaseAccessError(msg)
    return done.stdout


BATCH_ROWS = 5000
BATCH_BYTES = 16 * 2**20
"""Limits of one batch: its rows, and the bytes of states in them."""
READ_ROWS = 200
"""Rows that are fetched at a time; a state in the database has at most 256 KiB."""

COPIED_TABLES = [table for table in s.metadata.sorted_tables if table is not s.lease]
"""Copied tables, each after the tables that it refers to. Leases are left out, because they belong to running processes."""


@dataclass(frozen=True)
class Copied:
    """Counts of a verified copy.

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
        Called with a line of text for each copied table.
    discard_unfinished : bool
        Start again if the target has an unfinished copy. By default, an unfinished copy of the same
        source is finished, and a copy of another source is an error.

    Raises
    ------
    DatabaseVersionError
        If the source is not at the newest revision.
    DatabaseAccessError
        If the target is another repository, an unfinished copy of another source, the source
        itself, the target of a running copy, or differs after the copy; or if a folder of large
        states is not given or cannot be written.
    CorruptStateError
        If a file of the source is missing or damaged.
    """
    _require_copyable(source, target)
    with _only_copy_to(target), source.read() as reading:
        # All files and folders are checked before the first row is copied.
        names = referenced_files(reading)
        _require_files(names, source_artifacts)
        _require_target_folder(target, target_artifacts)
        resumes = _prepare_target(source, target, discard_unfinished=discard_unfinished)
        _copy_state_files(names, source_artifacts, target_artifacts)
        copied = _copy_tables(reading, target, report)
        different = _differing_tables(reading, target)
        if different and resumes:  # the source has changed since the copy began
            report(
                f"{', '.join(different)} changed since the copy began: everything is copied again"
            )
            _clear(target)
            copied = _copy_tables(reading, target, report)
            different = _differing_tables(reading, target)
        if different:
            msg = f"{target.name} differs from {source.name} in {', '.join(different)}"
            raise DatabaseAccessError(msg)
        _finish(target)
    return Copied(len(COPIED_TABLES), copied, len(names))


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
        raise DatabaseAccessError(f"{target.name} is the source itself; use another database")


def _require_files(names: set[str], artifacts: Artifacts) -> None:
    """Raise an error if files of large states are not in the source's folder."""
    if names and artifacts.root is None:
        msg = f"the source has {len(names):,} large states in a folder: specify it with --artifacts FOLDER"
        raise DatabaseAccessError(msg)
    missing = sorted(names - artifacts.files()) if names else []
    if missing:
        subject = (
            f"the file {missing[0]}"
            if len(missing) == 1
            else f"{len(missing):,} files, such as {missing[0]},"
        )
        msg = (
            f"{subject} of {artifacts.root} is missing; if the folder was moved, specify it with --artifacts;"
            " `tidegauge db check` lists all missing files"
        )
        raise CorruptStateError(msg)


def _require_target_folder(target: Database, artifacts: Artifacts) -> None:
    """Raise a `DatabaseAccessError` if the target has no folder for large states, or it cannot be written."""
    if artifacts.root is None and not target.is_sqlite:
        msg = (
            f"{target.name} needs a folder for large states that all its users can reach: specify it with"
            " --to-artifacts FOLDER"
        )
        raise DatabaseAccessError(msg)
    artifacts.require_writable()


@contextmanager
def _only_copy_to(target: Database) -> Iterator[None]:
    """Lock the target against other copies until this one ends or is killed.

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
"""PostgreSQL's advisory lock of a copy, together with the target schema."""
LOCK_WAIT_SECONDS = 5.0
"""Enough for a server to notice that the process of an earlier copy was killed."""


@contextmanager
def _locked(file: Path, target: Database) -> Iterator[None]:
    """Hold a SQLite lock on an empty file next to the target; the system releases it after a kill."""
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
        if read_revision(connection) == UNFINISHED_REVISION:
            lease = s.lease.c
            query = sa.select(s.lease).where(lease.dataset.startswith(COPY_OF, autoescape=True))
            row = connection.execute(query).first()
    holder = "" if row is None else f", a {row.dataset} by process {row.pid} on {row.host}"
    return f"another copy to {target.name} is running{holder}; wait until it ends, or use another database"


def _prepare_target(source: Database, target: Database, *, discard_unfinished: bool) -> bool:
    """Create empty tables in the target; return whether it has an unfinished copy of the source to resume."""
    revision = target.revision()
    if revision is None:
        target.require_empty()
        target.migrate()
    elif revision not in {head_revision(), UNFINISHED_REVISION}:
        raise DatabaseAccessError(_taken_message(target))
    with target.transaction(at_any_revision=True) as connection:
        if read_revision(connection) == UNFINISHED_REVISION:
            earlier = copy_source(connection)
            if earlier == source.address and not discard_unfinished:
                _note_source(connection, source)
                return True
            if not discard_unfinished:
                msg = (
                    f"{target.name} has an unfinished copy of {earlier or 'an unknown database'}, not of"
                    f" {source.address}: finish it with that source, use another database or schema, or replace"
                    " it with --discard-unfinished"
                )
                raise DatabaseAccessError(msg)
        elif connection.execute(sa.select(s.dataset.c.id)).first() is not None:
            raise DatabaseAccessError(_taken_message(target))
        _delete_rows(connection)
        _note_source(connection, source)
        _set_sequences(connection)  # report a missing right now, not after copying
        _set_revision(connection, UNFINISHED_REVISION)
    return False


def _taken_message(target: Database) -> str:
    return f"{target.name} already holds a repository; use an empty database"


def _note_source(connection: Connection, source: Database) -> None:
    """Store the source and the copying process in the target."""
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
        If another copy has finished meanwhile.
    """
    with target.transaction(at_any_revision=True) as connection:
        if read_revision(connection) != UNFINISHED_REVISION:
            msg = f"another copy to {target.name} has finished meanwhile; use an empty database"
            raise DatabaseAccessError(msg)
        _delete_rows(connection)


def _delete_rows(connection: Connection) -> None:
    for table in reversed(COPIED_TABLES):
        connection.execute(sa.delete(table))


def _copy_tables(reading: Connection, target: Database, report: Callable[[str], None]) -> int:
    """Copy the rows that the target lacks; return how many rows the source has."""
    total = 0
    for table in COPIED_TABLES:
        count = sa.select(sa.func.count()).select_from(table)
        rows = int(reading.execute(count).scalar_one())
        total += rows
        with target.read() as connection:
            last = connection.execute(
                _in_order(connection, table, _key(table), descending=True)
            ).first()
            copied = int(connection.execute(count).scalar_one())
        if copied < rows:
            report(f"{table.name}: {rows - copied:,} of {plural(rows, 'row')}")
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
    """Select columns in the order of the key; or, in descending order, only the first row."""
    query = sa.select(*columns)
    order = _by_code_points(connection, _key(table))
    if descending:
        return query.order_by(*(column.desc() for column in order)).limit(1)
    return query.order_by(*order)


def _by_code_points(
    connection: Connection, columns: Sequence[sa.Column[Any]]
) -> list[sa.ColumnElement[Any]]:
    """Return columns that all databases sort in the same order, regardless of their language."""
    collation = "BINARY" if connection.dialect.name == "sqlite" else "C"
    return [sa.collate(c, collation) if isinstance(c.type, sa.Text) else c for c in columns]


def _differing_tables(reading: Connection, target: Database) -> list[str]:
    """Return the names of the tables whose rows are not equal."""
    with target.read() as connection:
        return [t.name for t in COPIED_TABLES if digest(reading, t) != digest(connection, t)]


def digest(connection: Connection, table: sa.Table) -> tuple[int, str]:
    """Return the number of rows of a table, and a hash of the rows in key order."""
    hash_, rows = hashlib.sha256(), 0
    query = _in_order(connection, table, list(table.columns))
    for row in connection.execution_options(yield_per=READ_ROWS).execute(query):
        hash_.update(repr(tuple(map(_comparable, row))).encode())
        rows += 1
    return rows, hash_.hexdigest()


def _comparable(value: Any) -> Any:
    """Return a value in a form that does not depend on the database."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if isinstance(value, bytes | memoryview):
        return hashlib.sha256(value).hexdigest()
    return value


def _copy_state_files(names: set[str], source: Artifacts, target: Artifacts) -> None:
    """Copy files of large states, and compare them by the hashes in their names."""
    existing = target.files()
    for name in sorted(names):
        if name not in existing:
            try:
                target.write(name, source.read(name))
            except FileNotFoundError as error:
                raise CorruptStateError(f"the file {name} of {source.root} is missing") from error
        if hashlib.sha256(target.read(name)).hexdigest() != PurePosixPath(name).stem:
            if (
                name not in existing
            ):  # an existing file may belong to the source: both can share a folder
                target.remove(name)
            raise CorruptStateError(f"the file {name} of {source.root} is damaged")


def _finish(target: Database) -> None:
    """Continue the numbering after the copied rows, and open the target to others."""
    with target.transaction(at_any_revision=True) as connection:
        _set_sequences(connection)
        connection.execute(sa.delete(s.lease))
        _set_revision(connection, head_revision())


def _set_sequences(connection: Connection) -> None:
    """Make PostgreSQL continue numbering after the last row; SQLite does so by itself."""
    if connection.dialect.name == "sqlite":
        return
    quote = connection.dialect.identifier_preparer.quote
    for table in COPIED_TABLES:
        column = table.autoincrement_column
        if column is None:
            continue
        sequence = sa.func.pg_get_serial_sequence(quote(table.name), column.name)
        last = sa.select(sa.func.max(column)).scalar_subquery()
        if connection.execute(sa.select(sequence)).scalar() is not None:
            values = sa.func.coalesce(last, 1), last.is_not(None)
            connection.execute(sa.select(sa.func.setval(sequence, *values)))


_MISSING_RIGHT = {"42501": "its role may not create a schema", "25006": "it is read-only"}
"""Reasons why a schema cannot be created, by SQLSTATE."""

_OWN_RELATIONS = (
    "relnamespace = %(schema)s::regnamespace AND relname = ANY(%(tables)s) AND relkind = "
)
_TABLES_QUERY = f"SELECT relname FROM pg_class WHERE {_OWN_RELATIONS} 'r' ORDER BY relname"  # noqa: S608
# Checks and keys before the foreign keys that need them. A `NOT NULL` comes with the column.
_CONSTRAINTS_QUERY = f"""
    SELECT relname, conname, pg_get_constraintdef(con.oid, true)
    FROM pg_constraint con JOIN pg_class ON pg_class.oid = conrelid
    WHERE {_OWN_RELATIONS} 'r' AND contype IN ('p', 'u', 'c', 'f') ORDER BY contype = 'f', conname
"""  # noqa: S608
_INDEXES_QUERY = f"""
    SELECT pg_get_indexdef(indexrelid, 0, true)
    FROM pg_index JOIN pg_class ON pg_class.oid = indrelid
    WHERE {_OWN_RELATIONS} 'r' AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = indexrelid)
"""  # noqa: S608
_VIEWS_QUERY = """
    SELECT relname, pg_get_viewdef(oid, true) FROM pg_class
    WHERE relnamespace = %(schema)s::regnamespace AND starts_with(relname, 'v_') AND relkind = 'v'
    ORDER BY oid
"""
_IDENTITIES_QUERY = f"""
    SELECT relname, attname FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
    WHERE {_OWN_RELATIONS} 'r' AND attidentity <> ''
"""  # noqa: S608


@contextmanager
def upgraded_copy(database: Database) -> Iterator[Connection]:
    """Open a transaction that reads an upgraded copy of an older PostgreSQL database.

    The tables are copied into a schema that exists only in this transaction, which is rolled back.
    Others can read and write the database meanwhile. The copy doubles the space used.

    Parameters
    ----------
    database : Database
        At any known revision, opened by `Database.unchecked`.

    Raises
    ------
    DatabaseAccessError
        If the role may not create a schema, or the server is read-only.
    """
    from alembic import command

    connection = database.engine.connect().execution_options(isolation_level="REPEATABLE READ")
    with connection, connection.begin() as transaction:
        try:
            _copy_schema(connection)
        except DBAPIError as error:
            reason = _MISSING_RIGHT.get(getattr(error.orig, "sqlstate", None) or "")
            if reason is None:
                raise
            msg = (
                f"{database.name} is older than {head_revision()!r} and is checked in an upgraded copy, which cannot be"
                f" made: {reason}. GRANT CREATE ON DATABASE to the role, or check a copy: tidegauge db backup, then"
                " db restore, db upgrade and db check with --db of another database"
            )
            raise DatabaseAccessError(msg) from error
        command.upgrade(alembic_config(connection), "head")
        yield connection
        transaction.rollback()


def _copy_schema(connection: Connection) -> None:
    """Copy the tables, indexes and views into a new schema, and make it the search path of the transaction."""

    def run(statement: str) -> None:
        connection.execute(sa.text(statement.replace(":", r"\:")))

    def read(query: str) -> list[tuple[str, ...]]:
        names = [*metadata.tables, VERSION_TABLE]
        rows = connection.exec_driver_sql(query, {"schema": source, "tables": names})
        return [tuple(row) for row in rows]

    quote = connection.dialect.identifier_preparer.quote
    schema_query = (
        "SELECT relnamespace::regnamespace::text FROM pg_class WHERE oid = %(name)s::regclass"
    )
    source = connection.exec_driver_sql(schema_query, {"name": VERSION_TABLE}).scalar_one()
    # Read all definitions first: they omit the schema only while it is on the search path.
    tables = [quote(name) for (name,) in read(_TABLES_QUERY)]
    constraints, indexes, views = read(_CONSTRAINTS_QUERY), read(_INDEXES_QUERY), read(_VIEWS_QUERY)
    identities = read(_IDENTITIES_QUERY)

    copy = f"tidegauge_check_{connection.exec_driver_sql('SELECT pg_backend_pid()').scalar_one()}"
    run(f"CREATE SCHEMA {copy}")
    run(f"SET LOCAL search_path TO {copy}")
    for table in tables:
        run(f"CREATE TABLE {table} (LIKE {source}.{table} INCLUDING DEFAULTS INCLUDING IDENTITY)")
        run(f"INSERT INTO {table} OVERRIDING SYSTEM VALUE TABLE {source}.{table}")
    for table, name, definition in constraints:
        run(f"ALTER TABLE {quote(table)} ADD CONSTRAINT {quote(name)} {definition}")
    for (definition,) in indexes:
        run(definition)
    for name, definition in views:
        # A user's own view may read tables outside the copy.
        with suppress(ProgrammingError), connection.begin_nested():
            run(f"CREATE VIEW {quote(name)} AS {definition}")
    for table, column in identities:
        sequence = f"pg_get_serial_sequence('{quote(table)}', '{column}')"
        run(f"SELECT setval({sequence}, max({quote(column)})) FROM {quote(table)}")  # noqa: S608
    run("ANALYZE")
