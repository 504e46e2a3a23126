"""Database access: creation, checks, upgrades and transactions.

There is one writer at a time: on SQLite every writing transaction begins with ``BEGIN IMMEDIATE``;
on both databases it locks the one row of ``clock`` when it takes its commit number. Transactions
that fail because of other writers, or because the server went away, are retried.
"""

from __future__ import annotations

import logging
import random
import re
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from threading import RLock, get_ident
from typing import TYPE_CHECKING, Any, TypeVar, cast

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, OperationalError

from tidegauge import migrations
from tidegauge.analyzers.core.errors import (
    DatabaseAccessError,
    DatabaseVersionError,
    NotOurDatabaseError,
    ReadOnlyError,
    RepositoryError,
    TidegaugeError,
)
from tidegauge.analyzers.core.filesystems import MAX_PARTIAL_NAME, output_file, permissions
from tidegauge.repository.store import engines
from tidegauge.repository.store import schema as s

if TYPE_CHECKING:
    from alembic.config import Config
    from sqlalchemy.engine import Connection, Engine

T = TypeVar("T")
_LOGGER = logging.getLogger(__name__)

UNFINISHED_REVISION = "copying"
"""Revision of a database to which a repository is being copied."""
COPY_OF = "copy of "
"""Prefix of the lease name of an unfinished copy; its source follows."""
_RETRY_SECONDS = 60.0
LEFTOVER_SECONDS = 3600.0
"""An older unfinished backup belongs to a killed process: running copies never pause this long."""
_BY_DAMAGE = (sqlite3.Error, ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""Errors that damaged content raises: of SQLite, or where its values are read."""
_NOT_BY_DAMAGE = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_CONSTRAINT,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_INTERRUPT,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_READONLY,
}
"""SQLite's codes of errors that also occur with an undamaged file."""
_ROLLED_BACK = frozenset({"40001", "40P01", "55P03"})
"""PostgreSQL: serialization failure, deadlock, lock not available."""
SECRET_PARAMETERS = ("password", "sslpassword", "passfile")


class Database:
    """A repository's database, at the newest revision.

    Parameters
    ----------
    url : str
        ``sqlite:///file.db``, ``sqlite://`` (in memory) or ``postgresql+psycopg://...``.
    upgrade : bool
        Back up and upgrade an older SQLite database. If False, and always for PostgreSQL, an older
        database is refused.
    read_only : bool
        Refuse writes; the database itself enforces it.

    Notes
    -----
    The first write creates a missing SQLite file. Reading does not, so that a mistyped name leaves
    no file behind: the database reads as empty, and errors mention the missing file.

    Raises
    ------
    NotOurDatabaseError, DatabaseVersionError, DatabaseAccessError
    """

    file: Path | None

    def __init__(self, url: str, *, upgrade: bool = True, read_only: bool = False) -> None:
        self._connect(url, read_only=read_only)
        self._is_file_missing = self.file is not None and not self.file.exists()
        try:
            if not self._is_file_missing:
                self._open(upgrade=upgrade)
        except BaseException:
            self.close()
            raise

    @classmethod
    def unchecked(cls, url: str, *, may_be_damaged: bool = False) -> Database:
        """Open a database at any revision, to inspect or upgrade it; a damaged file to replace it."""
        database = cls.__new__(cls)
        database._connect(url, may_be_damaged=may_be_damaged)  # noqa: SLF001 - of this class
        return database

    def _connect(self, url: str, *, read_only: bool = False, may_be_damaged: bool = False) -> None:
        self._closed = False
        self._head = head_revision()
        self._newer_revision_message: str | None = None
        self._is_file_missing = False
        self._creating_thread = 0  # id of the thread that creates the missing file and reads it
        self._thread_lock = RLock()  # a database in memory has one connection for all threads
        self.read_only = read_only
        self.url = engines.parse_address(url)
        self.file = engines.sqlite_file_of(self.url)
        self._is_locked = self.file is not None and engines.is_locked(self.file)
        self._has_write_access = False  # known after the first write
        if self.file is not None and not (may_be_damaged and self.damage() is not None):
            engines.inspect_file(self.file, must_exist=read_only)
        self.engine = engines.make_engine(
            self.url, self.file, read_only=read_only or self._is_locked
        )

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Raise errors of the driver as `RepositoryError`, with the remedy."""
        try:
            yield
        except (OperationalError, sqlite3.OperationalError) as error:
            if engines.is_read_only_error(error):
                raise _read_only_error(f"{self.name} {_LOCKED_FILE}", _OTHER_USER) from error
            self._raise_if_damaged(error)
            msg = f"cannot open or write the database {self.name}: {engines.reason_of(error)}"
            raise DatabaseAccessError(msg) from error
        except UnicodeEncodeError as error:
            excerpt = error.object[max(0, error.start - 20) : error.end + 20]
            msg = f"cannot store or search for {excerpt!r}: it contains an unpaired surrogate"
            raise RepositoryError(msg) from error
        except OverflowError as error:
            if "SQLite" not in str(error):
                raise
            msg = "cannot store or search for a whole number of more than 64 bits"
            raise RepositoryError(msg) from error
        except Exception as error:
            if isinstance(error, TidegaugeError):
                raise
            advice = engines.rights_advice(error, self.url.username or "")
            if advice is None:
                self._raise_if_damaged(error)
                raise
            msg = f"cannot use the database {self.name}: {engines.reason_of(error)}; {advice}"
            raise DatabaseAccessError(msg) from error

    def _raise_if_damaged(self, error: Exception) -> None:
        """Raise a `DatabaseAccessError` if damage of the SQLite file has caused an error.

        If the error itself does not prove damage, the file is checked, which reads it once.
        """
        cause = error.orig if isinstance(error, DBAPIError) else error
        code = getattr(cause, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
        if self.file is None or not isinstance(cause, _BY_DAMAGE) or code in _NOT_BY_DAMAGE:
            return
        reason = engines.reason_of(error) if engines.is_damage(error) else self.damage()
        if reason is not None:
            raise DatabaseAccessError(engines.damage_message(self.file, reason)) from error

    def damage(self) -> str | None:
        """Return the damage that SQLite's check of the pages finds; None for an undamaged or missing file."""
        if self.file is None or not self.file.exists():
            return None
        try:
            uri = engines.read_only_uri(self.file)
            with closing(
                sqlite3.connect(uri, uri=True, timeout=engines.BUSY_SECONDS)
            ) as connection:
                lines = [line for (line,) in connection.execute("PRAGMA quick_check(1)")]
        except sqlite3.Error as error:
            return str(error) if engines.is_damage(error) else None
        return None if lines == ["ok"] else " ".join(" ".join(lines).split())

    def set_aside_damaged(self) -> Path | None:
        """Rename a damaged SQLite file, with its log, and return its new path; None if it is sound.

        Raises
        ------
        NotOurDatabaseError
            If the file is not a SQLite database.
        """
        if self.file is None or self.damage() is None:
            return None
        if not engines.has_sqlite_header(self.file):
            raise NotOurDatabaseError(engines.not_sqlite_message(self.file))
        self.engine.dispose()
        aside = self.file.with_name(f"{self.file.stem}.{stamp()}.damaged{self.file.suffix}")
        for end in ("", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                self.file.with_name(self.file.name + end).rename(aside.with_name(aside.name + end))
        return aside

    @property
    def name(self) -> str:
        """The URL without its secrets."""
        hidden = {key: "***" for key in self.url.query if key in SECRET_PARAMETERS}
        return self.url.update_query_dict(hidden).render_as_string(hide_password=True)

    @property
    def short_name(self) -> str:
        """The name of the file or database, for readers who must not see its folder or server."""
        return (self.file.name if self.file else self.url.database) or ""

    @property
    def address(self) -> str:
        """The URL without its secrets, and with the whole path of a file: it is valid anywhere."""
        if self.file is not None:
            return f"sqlite:///{self.file.resolve()}"
        # `URL.set` would keep the password: None means to it that nothing is given.
        url = self.url._replace(password=None).difference_update_query(SECRET_PARAMETERS)
        return url.render_as_string(hide_password=False)

    @property
    def is_sqlite(self) -> bool:
        """True for SQLite."""
        return self.url.get_backend_name() == "sqlite"

    @property
    def is_shared(self) -> bool:
        """True if other processes can use the database at the same time; False in memory."""
        return not self.is_sqlite or self.file is not None

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Open a transaction that reads one consistent snapshot."""
        self._require_open()
        if self._is_file_missing and self.file is not None and self._creating_thread != get_ident():
            if self.file.exists():  # another process has created it
                self._create()
            else:
                with self._empty_database.read() as connection:
                    connection.info[MISSING_FILE_KEY] = engines.missing_file_message(self.file)
                    yield connection
                return
        with self._memory_lock(), self.translated(), self._snapshots.connect() as connection:
            yield connection

    @cached_property
    def _snapshots(self) -> Engine:
        """The engine of readers: a single object, because results are cached by engine."""
        if self.is_sqlite:
            return self.engine
        return self.engine.execution_options(isolation_level="REPEATABLE READ")

    @cached_property
    def _empty_database(self) -> Database:
        """An empty database, read in place of the file while it does not exist."""
        return Database("sqlite://")

    def _create(self) -> None:
        """Create the file if it is missing, and upgrade it to the current revision."""
        with self._thread_lock:
            if not self._is_file_missing:
                return
            self._creating_thread = get_ident()
            try:
                self._open(upgrade=True)
                self._is_file_missing = False
            finally:
                self._creating_thread = 0

    def _memory_lock(self) -> AbstractContextManager[object]:
        return nullcontext() if self.is_shared else self._thread_lock

    @contextmanager
    def transaction(self, *, at_any_revision: bool = False) -> Iterator[Connection]:
        """Open an atomic write transaction. It is not retried."""
        self.require_writable()
        with self._memory_lock(), self.translated(), self._writer().begin() as connection:
            if not at_any_revision:
                self._require_revision(connection)
            yield connection

    def write(self, work: Callable[[Connection], T]) -> T:
        """Run a function in an atomic write transaction, retrying transient failures.

        Lock conflicts with other writers and broken connections are retried for a minute. If the
        connection broke during the commit, the commit is looked up first, and not repeated if it
        took effect; only transactions that took a commit number can be looked up.

        Parameters
        ----------
        work : callable
            Function of the connection. It can be called several times, so it must be repeatable.

        Raises
        ------
        DatabaseAccessError
            If the database cannot be written.
        DatabaseVersionError
            If another process has migrated the database.
        ReadOnlyError
            If the database or the connection is read-only.
        """
        self.require_writable()

        def checked(connection: Connection) -> T:
            self._require_revision(connection)
            return work(connection)

        with self._memory_lock(), self.translated():
            deadline, pause = time.monotonic() + _RETRY_SECONDS, 0.01
            unconfirmed: _Attempt | None = None  # its connection broke during the commit
            while True:
                attempt = _Attempt()
                try:
                    if unconfirmed is not None:
                        assert unconfirmed.commit is not None
                        if self._has_committed(unconfirmed.commit):
                            return cast("T", unconfirmed.result)
                        unconfirmed = None
                    return attempt.run(self._writer(), checked)
                except DBAPIError as error:
                    if not _is_transient(error) or time.monotonic() > deadline:
                        raise
                    if attempt.commit is not None:
                        unconfirmed = attempt
                # Jitter: writers that failed at the same time retry at different times.
                time.sleep(random.uniform(pause / 2, pause))  # noqa: S311 - no secret
                pause = min(2 * pause, 2.0)

    def _writer(self) -> Engine:
        return self.engine.execution_options(tidegauge_write=True)

    def _require_revision(self, connection: Connection) -> None:
        """Raise an error if another process has migrated the database since it was opened.

        Migrations wait until the transaction ends.
        """
        if connection.dialect.name != "sqlite":
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock_shared({_MIGRATION_LOCK})")
        version = sa.column("version_num", sa.Text)
        query = sa.select(version).select_from(sa.table(engines.VERSION_TABLE))
        current = connection.execute(query).scalar_one_or_none()
        if current != self._head:
            msg = (
                f"{self.name} was migrated from revision {self._head} to {current} while it was open;"
                " open it again with a release of tidegauge that knows this revision"
            )
            raise DatabaseVersionError(msg)

    def require_writable(self) -> None:
        """Create the database if it is missing; raise an error if it is not writable."""
        self.check_writable()
        if self._is_file_missing:
            self._create()

    def check_writable(self) -> None:
        """Raise an error if this user may only read the database; a missing file is not created.

        Raises
        ------
        ReadOnlyError, DatabaseVersionError
        """
        self._require_open()
        if self._has_write_access:
            return
        if self.read_only:
            why, cure = f"{self.name} was opened read-only", "open it without read_only=True"
            raise _read_only_error(why, cure)
        if self._is_locked:
            assert self.file is not None
            why = _LOCKED_FOLDER if engines.is_in_locked_folder(self.file) else _LOCKED_FILE
            raise _read_only_error(f"{self.name} {why}", _OTHER_USER)
        if self._newer_revision_message is not None:
            raise DatabaseVersionError(self._newer_revision_message)
        if not self.is_sqlite:
            self._check_role()
        self._has_write_access = True

    def _check_role(self) -> None:
        """Raise a `ReadOnlyError` if the role or the server allows no writing at all.

        A role that lacks some of the rights of a writer gets the error of the statement that needs them.
        """
        with self.translated(), self.engine.connect() as connection:
            row = connection.exec_driver_sql(_WRITING_RIGHTS, (list(s.metadata.tables),)).one()
        if row.is_standby:
            raise _read_only_error(f"{self.name} is a standby", "connect to its primary")
        if row.is_read_only:
            why = f"{self.name} is read-only for the role {row.role!r} by default_transaction_read_only"
            raise _read_only_error(why, f"{_OTHER_ROLE}, or connect to its primary")
        if row.may_read and not row.may_write:
            raise _read_only_error(f"the role {row.role!r} may only read {self.name}", _OTHER_ROLE)

    def _require_open(self) -> None:
        if self._closed:
            msg = f"the repository {self.name} is closed; open it again with tg.Repository(url)"
            raise RepositoryError(msg)

    def _has_committed(self, commit: tuple[int, datetime]) -> bool:
        """Return whether a commit with a lost acknowledgement took effect, by number and time."""
        with self.engine.connect() as connection:
            query = sa.select(s.commit.c.committed_at).where(s.commit.c.id == commit[0])
            return bool(connection.execute(query).scalar() == commit[1])

    def close(self) -> None:
        """Close all connections."""
        self._closed = True
        self.engine.dispose()
        if "_empty_database" in vars(self):
            self._empty_database.close()

    # revisions

    def revision(self) -> str | None:
        """Return the revision of the database; None if it is empty."""
        with self.translated(), self.read() as connection:
            return read_revision(connection)

    def upgrade(self) -> Path | None:
        """Back up and upgrade the database; return the path of the backup, if there is one.

        Raises
        ------
        DatabaseVersionError
            If this tidegauge does not know the revision.
        """
        revision = self.revision()
        self.require_known(revision)
        backup = self.backup() if revision else None
        self.migrate()
        return backup

    def require_known(self, revision: str | None) -> None:
        """Raise a `DatabaseVersionError` if the database cannot be migrated from its revision."""
        if revision == UNFINISHED_REVISION:
            raise DatabaseVersionError(self.unfinished_message())
        if revision is None or revision in all_revisions():
            return
        if revision < min(all_revisions()):
            msg = (
                f"{self.name} is at revision {revision!r} of a development version; upgrade it to"
                f" {min(all_revisions())!r} with tidegauge db upgrade of the version that wrote it, or of a later one"
            )
            raise DatabaseVersionError(msg)
        raise DatabaseVersionError(self._newer_message(revision))

    def _newer_message(self, revision: str) -> str:
        return (
            f"{self.name} is at revision {revision!r}, which this tidegauge does not know: it was"
            " written by a newer one and can only be read; upgrade tidegauge to write to it"
        )

    def unfinished_message(self) -> str:
        """Return a message about an unfinished copy, with the commands to finish or replace it."""
        with self.read() as connection:
            source = copy_source(connection)
        command = f"tidegauge db copy {source or 'SOURCE_URL'} {self.address}"
        return (
            f"{self.name} is an unfinished copy of {source or 'another database'}; finish it with the same command:"
            f" {command}; or replace it: add --discard-unfinished to the copy of another database, or"
            " use `tidegauge db restore`"
        )

    def _open(self, *, upgrade: bool) -> None:
        """Create the database; wait if another process creates it at the same time."""
        deadline = time.monotonic() + _RETRY_SECONDS
        while True:
            try:
                with self.translated():
                    return self._bring_up(upgrade=upgrade)
            except DatabaseAccessError as error:
                cause = error.__cause__
                locked = self.is_sqlite and isinstance(cause, DBAPIError) and _is_transient(cause)
                if not locked or time.monotonic() > deadline:
                    raise
            # SQLite does not wait by itself for what changes the journal's mode.
            time.sleep(random.uniform(0.01, 0.05))  # noqa: S311 - no secret

    def _bring_up(self, *, upgrade: bool) -> None:
        current, head = self.revision(), head_revision()
        if current == head:
            return
        if current is None and self.read_only:
            unseen = "" if self.is_sqlite else ", or its role may not use the schema of the tables"
            msg = f"{self.name} is empty{unseen}: there is nothing to read"
            raise DatabaseAccessError(msg)
        if current is None:
            self.require_empty()
        elif head < current != UNFINISHED_REVISION:
            self._newer_revision_message = self._newer_message(current)
            return
        self.require_known(current)
        if current is not None and (
            not (upgrade and self.is_sqlite) or self.read_only or self._is_locked
        ):
            msg = (
                f"{self.name} is at revision {current!r}, older than {head!r};"
                " back it up and run: tidegauge db upgrade"
            )
            raise DatabaseVersionError(msg)
        backup = self.upgrade()
        if current is not None:
            backup_note = f"; the old one is kept in {backup}" if backup else ""
            _LOGGER.warning(
                "%s was upgraded from revision %s to %s%s", self.name, current, head, backup_note
            )

    def require_empty(self) -> None:
        """Raise a `NotOurDatabaseError` if there are tables of another program."""
        with self.read() as connection:
            tables = sa.inspect(connection).get_table_names()
        if (
            tables and engines.VERSION_TABLE not in tables
        ):  # else another process has just created it
            examples = ", ".join(sorted(tables)[:3])
            msg = (
                f"{self.name} is not a tidegauge repository: it holds other tables ({examples}, ...);"
                " use an empty database"
            )
            raise NotOurDatabaseError(msg)

    def backup(self) -> Path | None:
        """Copy a SQLite file into its folder and return the path; None without a file.

        Remains of killed backups are removed.
        """
        if self.file is None:
            return None
        for leftover in self.unfinished_backups(LEFTOVER_SECONDS):
            leftover.unlink(missing_ok=True)
        target = backup_beside(self.file)
        with output_file(target, permissions(self.file)) as partial:
            self.copy(partial)
        return target

    def unfinished_backups(self, seconds: float = 0.0) -> list[Path]:
        """Return hidden files that unfinished backups and upgrades left in the folder of a SQLite file.

        Their processes were killed, or are still writing.

        Parameters
        ----------
        seconds : float
            Only files that have not been written to for this long.
        """
        if self.file is None:
            return []
        pattern = re.compile(rf"{_partial_backup(self.file)}(-journal|-wal|-shm)?")
        leftovers = []
        for path in sorted(self.file.parent.iterdir()):
            if pattern.fullmatch(path.name):
                with suppress(FileNotFoundError):  # it has just been finished
                    if time.time() - path.stat().st_mtime >= seconds:
                        leftovers.append(path)
        return leftovers

    def copy(self, target: Path) -> None:
        """Copy a consistent snapshot of a SQLite file, while others may write."""
        self._create()
        assert self.file is not None
        name = engines.read_only_uri(self.file) if self._is_locked else str(self.file)
        connecting = sqlite3.connect(name, uri=self._is_locked)
        with self.translated(), closing(connecting) as connection:
            connection.execute("VACUUM INTO ?", (str(target),))

    def compact(self) -> bool:
        """Rewrite a SQLite file, so that deleted content is gone from it and its log; no-op elsewhere.

        Returns
        -------
        bool
            False if the log keeps old content because other processes are reading it.
        """
        if not self.is_sqlite:
            return True
        with self._memory_lock(), self.translated(), self.engine.connect() as connection:
            _pragma(connection, "wal_checkpoint(TRUNCATE)")
            raw = connection.connection.dbapi_connection
            assert raw is not None
            raw.cursor().execute("VACUUM")
            busy, *_ = _pragma(connection, "wal_checkpoint(TRUNCATE)") or (0,)
            return not busy

    def free_bytes(self) -> int:
        """Return the free bytes of a SQLite file, which later writes reuse; 0 for other databases."""
        with self.read() as connection:
            return free_bytes(connection)

    def row_counts(self) -> dict[str, int]:
        """Return the number of rows of each table, at any revision."""
        with self.read() as connection:
            names = sa.inspect(connection).get_table_names()
            count = sa.select(sa.func.count())
            return {
                name: connection.execute(count.select_from(sa.table(name))).scalar_one()
                for name in names
            }

    def migrate(self, target: str = "head") -> None:
        """Migrate the database up or down to a revision, atomically, while others wait."""
        from alembic import command

        goal = head_revision() if target == "head" else target
        with self.translated(), self._writer().connect() as connection:
            if self.is_sqlite:
                # Rebuilding a table would delete rows that refer to it. The pragma works only
                # outside a transaction.
                _pragma(connection, "foreign_keys=OFF")
            try:
                with connection.begin():
                    if not self.is_sqlite:
                        connection.exec_driver_sql(
                            f"SELECT pg_advisory_xact_lock({_MIGRATION_LOCK})"
                        )
                    current = read_revision(connection)
                    down = goal == "base" or (current is not None and goal < current)
                    if current != goal:
                        move = command.downgrade if down else command.upgrade
                        move(alembic_config(connection), goal)
                    if (
                        self.is_sqlite
                        and connection.exec_driver_sql("PRAGMA foreign_key_check").first()
                    ):
                        action = "taking down" if down else "upgrading"
                        msg = f"{action} {self.name} would break references; nothing was changed"
                        raise RepositoryError(msg)
                self._head = goal
            finally:
                if self.is_sqlite:
                    _pragma(connection, "foreign_keys=ON")


class _Attempt:
    """One attempt at a transaction, with its result and commit number."""

    def __init__(self) -> None:
        self.commit: tuple[int, datetime] | None = None
        self.result: Any = None

    def run(self, engine: Engine, work: Callable[[Connection], T]) -> T:
        with engine.connect() as connection, connection.begin() as transaction:
            connection.info.pop(_COMMIT_KEY, None)
            self.result = work(connection)
            self.commit = connection.info.pop(
                _COMMIT_KEY, None
            )  # from here on it may have taken effect
            transaction.commit()
            return cast("T", self.result)


_MIGRATION_LOCK = 827163
"""PostgreSQL's advisory lock: shared by writers, exclusive for a migration."""
_COMMIT_KEY = "tidegauge_commit"
MISSING_FILE_KEY = "tidegauge_missing"
"""Key of a note in `Connection.info`: the database file does not exist yet."""
MIGRATIONS_FOLDER = Path(migrations.__file__).parent
"""The folder of the Alembic environment and its revisions."""


def _is_transient(error: DBAPIError) -> bool:
    """Return whether an error is transient, so that a retry may succeed."""
    cause = error.orig
    if isinstance(cause, sqlite3.OperationalError):
        code = getattr(cause, "sqlite_errorcode", 0) & 0xFF
        return code in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
    state = getattr(cause, "sqlstate", None)
    if state is None:  # the server could not be reached, or went away
        return error.connection_invalidated or isinstance(error, OperationalError)
    gone = state.startswith(("08", "57P"))
    return gone or state in _ROLLED_BACK


def stamp() -> str:
    """Return the current time as a timestamp for file names."""
    return datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")


def backup_beside(file: Path) -> Path:
    """Return the default path of a SQLite file's backup: in the same folder, with a timestamp."""
    return file.with_name(f"{file.stem}.{stamp()}.backup{file.suffix}")


def _partial_backup(file: Path) -> str:
    """Return a regular expression of the hidden names under which backups of a file are written."""
    name = backup_beside(file).name
    begin = len(file.stem) + 1  # a time follows, which differs
    time_and_end = re.sub(r"\d", r"\\d", re.escape(name[begin:MAX_PARTIAL_NAME]))
    return rf"\.{re.escape(name[:begin][:MAX_PARTIAL_NAME])}{time_and_end}-[0-9a-f]{{16}}"


def alembic_config(connection: Connection) -> Config:
    """Return the Alembic configuration for a connection."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS_FOLDER).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config


def all_revisions() -> list[str]:
    """Return all revisions known to this version of tidegauge, newest first."""
    names = [file.stem for file in (MIGRATIONS_FOLDER / "versions").glob("*.py")]
    return sorted((name.partition("_")[0] for name in names if name[0] != "_"), reverse=True)


def head_revision() -> str:
    """Return the newest revision."""
    return all_revisions()[0]


def read_revision(connection: Connection) -> str | None:
    """Return the revision of the database of a connection; None if it is empty."""
    if not sa.inspect(connection).has_table(engines.VERSION_TABLE):
        return None
    version = sa.column("version_num", sa.Text)
    query = sa.select(version).select_from(sa.table(engines.VERSION_TABLE))
    return connection.execute(query).scalar_one_or_none()


def free_bytes(connection: Connection, removed: int = 0) -> int:
    """Return the free bytes of a SQLite file, which later writes reuse; 0 for other databases.

    Only whole pages count, including pages freed by removing ``removed`` more bytes.
    """
    if connection.dialect.name != "sqlite":
        return 0
    pages, size = (int(_pragma(connection, name)[0]) for name in ("freelist_count", "page_size"))
    return (pages + removed // size) * size


def copy_source(connection: Connection) -> str | None:
    """Return the address of the repository that is being copied to a database; None if there is none."""
    name = s.lease.c.dataset
    query = sa.select(name).where(name.startswith(COPY_OF, autoescape=True))
    source: str | None = connection.execute(query).scalar()
    return None if source is None else source.removeprefix(COPY_OF)


_ROLES_PAGE = "docs/guide/operate.md"
_OTHER_ROLE = "run it with a role that may write"
_OTHER_USER = "run it as a user who may write, or on a copy in another folder"
_LOCKED_FOLDER = "is in a folder that cannot be written"
_LOCKED_FILE = "is a file that this user may only read"
_WRITING_RIGHTS = """
SELECT current_user AS role, pg_is_in_recovery() AS is_standby,
  current_setting('transaction_read_only') = 'on' AS is_read_only,
  bool_or(has_table_privilege(to_regclass(name), 'SELECT')) AS may_read,
  bool_or(has_table_privilege(to_regclass(name), 'INSERT, UPDATE, DELETE')) AS may_write
FROM unnest(%s::text[]) AS name
"""
"""Queries the current role, and whether it may read or write any of the named tables."""


def _read_only_error(why: str, cure: str) -> ReadOnlyError:
    return ReadOnlyError(f"{why}. This command or call writes: {cure}, see {_ROLES_PAGE}")


def _pragma(connection: Connection, pragma: str) -> Any:
    """Run a pragma, and return its first row."""
    raw = connection.connection.dbapi_connection
    assert raw is not None
    cursor = raw.cursor()
    cursor.execute(f"PRAGMA {pragma}")
    row = cursor.fetchone()
    cursor.close()
    return row


def lock_clock(connection: Connection) -> None:
    """Lock the clock: wait for other writers and keep them out until the transaction ends."""
    connection.execute(sa.select(s.clock).with_for_update())


def next_commit(connection: Connection, run: int | None) -> tuple[int, datetime]:
    """Take the next commit number and time; the clock is locked until the transaction ends.

    Each time is later than the one before, even if the system's clock was set back.
    """
    row = connection.execute(
        sa.update(s.clock).values(commits=s.clock.c.commits + 1).returning(s.clock.c.commits)
    ).one()
    last = connection.execute(sa.select(sa.func.max(s.commit.c.committed_at))).scalar()
    now = datetime.now(UTC)
    moment = max(now, last + timedelta(microseconds=1)) if last is not None else now
    values = {"id": row.commits, "run_id": run, "committed_at": moment}
    connection.execute(sa.insert(s.commit), values)
    connection.info[_COMMIT_KEY] = (row.commits, moment)
    return row.commits, moment


class NextCommit:
    """A lazily taken commit number and time, so that a transaction without changes takes none."""

    def __init__(self, connection: Connection, run: int | None = None) -> None:
        self._taken: tuple[int, datetime] | None = None
        self.connection, self.run = connection, run

    @property
    def id(self) -> int:
        """The commit number."""
        return self._take()[0]

    @property
    def now(self) -> datetime:
        """The commit time."""
        return self._take()[1]

    def _take(self) -> tuple[int, datetime]:
        if self._taken is None:
            self._taken = next_commit(self.connection, self.run)
        return self._taken


def next_findings(connection: Connection, count: int) -> range:
    """Allocate ids for anomalies and incidents."""
    row = connection.execute(
        sa.update(s.clock).values(findings=s.clock.c.findings + count).returning(s.clock.c.findings)
    ).one()
    return range(row.findings - count + 1, row.findings + 1)
