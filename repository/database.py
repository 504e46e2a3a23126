"""Opening a database: making, checking and upgrading it, and transactions.

One writer at a time: on SQLite every writing transaction begins with ``BEGIN IMMEDIATE``, on both it
locks the one row of ``clock`` before it takes its commit number. What fails because others write, or
because the server went away, is tried again.
"""

from __future__ import annotations

import os
import random
import re
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, OperationalError
from sqlalchemy.pool import StaticPool

from analyzers.errors import (
    DatabaseAccessError,
    DatabaseVersionError,
    NotOurDatabaseError,
    ReadOnlyError,
    RepositoryError,
    describe,
)
from repository import schema as s

if TYPE_CHECKING:
    from alembic.config import Config
    from sqlalchemy.engine import URL, Connection, Engine

T = TypeVar("T")

VERSION_TABLE = "tidegauge_revision"
_BUSY_SECONDS = 60.0
_RETRY_SECONDS = 60.0
_ROLLED_BACK = frozenset({"40001", "40P01", "55P03"})
"""PostgreSQL: serialization failure, deadlock, lock not available."""
SECRETS = ("password", "sslpassword", "passfile")
_EXAMPLES = "sqlite:///tidegauge.db or postgresql+psycopg://user@host/database"


class Database:
    """A repository's database, at the newest revision.

    Parameters
    ----------
    url : str
        ``sqlite:///file.db``, ``sqlite://`` (in memory) or ``postgresql+psycopg://...``.
    upgrade : bool
        Whether an older SQLite database is backed up and upgraded; otherwise, and always for
        PostgreSQL, an older one is refused.
    read_only : bool
        Whether writing is impossible: the database itself refuses it.

    Raises
    ------
    NotOurDatabaseError, DatabaseVersionError, DatabaseAccessError
    """

    def __init__(self, url: str, *, upgrade: bool = True, read_only: bool = False) -> None:
        self._connect(url, read_only=read_only)
        try:
            with self._translated():
                self._bring_up(upgrade=upgrade)
        except BaseException:
            self.close()
            raise

    @classmethod
    def unchecked(cls, url: str) -> Database:
        """Open a database at whatever revision it is, to look at that or to upgrade it."""
        database = cls.__new__(cls)
        database._connect(url)  # noqa: SLF001 - our own
        return database

    def _connect(self, url: str, *, read_only: bool = False) -> None:
        self._newer: str | None = None
        self._alone = RLock()  # a database in memory has one connection for all threads
        self.read_only = read_only
        self.url = _parsed(url)
        self.file = _sqlite_file(self.url)
        if self.file is not None:
            _inspect_file(self.file, must_exist=read_only)
        self.engine = _engine(self.url, self.file, read_only=read_only)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (OperationalError, sqlite3.OperationalError) as error:
            msg = f"cannot open or write the database {self.name}: {_reason(error)}"
            raise DatabaseAccessError(msg) from error

    @property
    def name(self) -> str:
        """The URL without its secrets."""
        hidden = {key: "***" for key in self.url.query if key in SECRETS}
        return self.url.update_query_dict(hidden).render_as_string(hide_password=True)

    @property
    def is_sqlite(self) -> bool:
        """Whether it is SQLite."""
        return self.url.get_backend_name() == "sqlite"

    @property
    def is_shared(self) -> bool:
        """Whether others can use it at the same time; nobody else sees a database in memory."""
        return not self.is_sqlite or self.file is not None

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Open a transaction that sees one moment."""
        engine = self.engine
        if not self.is_sqlite:
            engine = engine.execution_options(isolation_level="REPEATABLE READ")
        with self._turn(), self._translated(), engine.connect() as connection:
            yield connection

    def _turn(self) -> AbstractContextManager[object]:
        return nullcontext() if self.is_shared else self._alone

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Open a transaction that becomes visible as a whole, or not at all. It is not retried."""
        self.require_writable()
        with self._turn(), self._translated(), self._writer().begin() as connection:
            yield connection

    def write(self, work: Callable[[Connection], T]) -> T:
        """Do some work in a transaction that becomes visible as a whole, or not at all.

        Work that others stood in the way of, or whose connection broke, is done again for a minute. If
        the connection broke while it committed, its commit is looked for before that.

        Parameters
        ----------
        work : callable
            Takes the connection. It may be called more than once, and sees to it that it can be.

        Raises
        ------
        DatabaseAccessError, DatabaseVersionError, ReadOnlyError
        """
        self.require_writable()
        with self._turn(), self._translated():
            deadline, pause = time.monotonic() + _RETRY_SECONDS, 0.01
            unknown: _Attempt | None = None  # one whose connection broke while it committed
            while True:
                attempt = _Attempt()
                try:
                    if unknown is not None:
                        assert unknown.commit is not None
                        if self._has(unknown.commit):
                            return cast("T", unknown.result)
                        unknown = None
                    return attempt.run(self._writer(), work)
                except DBAPIError as error:
                    if not _may_pass(error) or time.monotonic() > deadline:
                        raise
                    if attempt.commit is not None:
                        unknown = attempt
                # Others that failed at the same moment try at another one.
                time.sleep(random.uniform(pause / 2, pause))  # noqa: S311 - no secret
                pause = min(2 * pause, 2.0)

    def _writer(self) -> Engine:
        return self.engine.execution_options(tidegauge_write=True)

    def require_writable(self) -> None:
        """Raise an error if nothing can be written, before work is done in vain."""
        if self.read_only:
            msg = f"{self.name} was opened read-only; open it without read_only=True to write to it"
            raise ReadOnlyError(msg)
        if self._newer is not None:
            raise DatabaseVersionError(self._newer)

    def _has(self, commit: tuple[int, datetime]) -> bool:
        """Whether a commit took effect whose answer was lost; its time tells it from another's."""
        c = s.commit.c
        with self.engine.connect() as connection:
            query = sa.select(c.committed_at).where(c.id == commit[0])
            return bool(connection.execute(query).scalar() == commit[1])

    def close(self) -> None:
        """Give back all connections."""
        self.engine.dispose()

    # revisions

    def revision(self) -> str | None:
        """Return the revision that the database is at; None if it is empty."""
        with self._translated(), self.read() as connection:
            return _revision(connection)

    def upgrade(self) -> Path | None:
        """Back up and upgrade the database; return where the backup lies, if there is one."""
        backup = self.backup() if self.revision() else None
        with self._translated():
            self.migrate()
        return backup

    def _bring_up(self, *, upgrade: bool) -> None:
        current, head = self.revision(), head_revision()
        if current == head:
            return
        if current is None and self.read_only:
            msg = f"{self.name} is empty: there is nothing to read"
            raise DatabaseAccessError(msg)
        if current is None:
            self._require_empty()
        elif current not in all_revisions():
            self._newer = (
                f"{self.name} is at revision {current!r}, which this tidegauge does not know: it was"
                " written by a newer one and can only be read; upgrade tidegauge to write to it"
            )
            return
        elif not (upgrade and self.is_sqlite) or self.read_only:
            msg = (
                f"{self.name} is at revision {current!r}, older than {head!r};"
                " back it up and run: tidegauge db upgrade"
            )
            raise DatabaseVersionError(msg)
        self.upgrade()

    def _require_empty(self) -> None:
        with self.read() as connection:
            tables = sa.inspect(connection).get_table_names()
        if tables and VERSION_TABLE not in tables:  # else another process has just made it
            some = ", ".join(sorted(tables)[:3])
            msg = (
                f"{self.name} is not a tidegauge repository: it holds other tables ({some}, ...);"
                " give an empty database"
            )
            raise NotOurDatabaseError(msg)

    def backup(self) -> Path | None:
        """Copy a SQLite file beside itself, and return where; None for what is no file."""
        if self.file is None:
            return None
        target = backup_beside(self.file)
        self.copy(target)
        return target

    def copy(self, target: Path) -> None:
        """Copy a SQLite file, as of one moment, while others may write."""
        with self._translated(), closing(sqlite3.connect(str(self.file))) as connection:
            connection.execute("VACUUM INTO ?", (str(target),))

    def migrate(self, target: str = "head") -> None:
        """Bring the database to a revision, up or down, all or nothing, while others wait."""
        from alembic import command  # noqa: PLC0415 - slow to import, rarely needed

        goal = head_revision() if target == "head" else target
        with self.engine.connect().execution_options(tidegauge_write=True) as connection:
            if self.is_sqlite:
                # Rebuilding a table would delete what refers to it; off only works outside a transaction.
                _pragma(connection, "foreign_keys=OFF")
            try:
                with connection.begin():
                    if not self.is_sqlite:
                        connection.execute(sa.text("SELECT pg_advisory_xact_lock(827163)"))
                    current = _revision(connection)
                    down = goal == "base" or (current is not None and goal < current)
                    if current != goal:
                        move = command.downgrade if down else command.upgrade
                        move(alembic_config(connection), goal)
                    if (
                        self.is_sqlite
                        and connection.exec_driver_sql("PRAGMA foreign_key_check").first()
                    ):
                        way = "taking down" if down else "upgrading"
                        msg = f"{way} {self.name} would break references; nothing was changed"
                        raise RepositoryError(msg)
            finally:
                if self.is_sqlite:
                    _pragma(connection, "foreign_keys=ON")


class _Attempt:
    """One attempt at a transaction, and what is known of it afterwards."""

    def __init__(self) -> None:
        self.commit: tuple[int, datetime] | None = None
        self.result: Any = None

    def run(self, engine: Engine, work: Callable[[Connection], T]) -> T:
        with engine.connect() as connection, connection.begin() as transaction:
            connection.info.pop(_COMMIT, None)
            self.result = work(connection)
            self.commit = connection.info.pop(
                _COMMIT, None
            )  # from here on it may have taken effect
            transaction.commit()
            return cast("T", self.result)


_COMMIT = "tidegauge_commit"


def _may_pass(error: DBAPIError) -> bool:
    """Whether the same may succeed a little later."""
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
    """Return the time as it is written in names of files."""
    return datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")


def backup_beside(file: Path) -> Path:
    """Return where a backup of a SQLite file goes if nobody says where."""
    return file.with_name(f"{file.stem}.{stamp()}.backup{file.suffix}")


def alembic_config(connection: Connection) -> Config:
    """Return the configuration with which Alembic works on this connection."""
    from alembic.config import Config  # noqa: PLC0415 - slow to import, rarely needed

    config = Config()
    config.set_main_option("script_location", str(files("migrations")).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config


def all_revisions() -> list[str]:
    """Return every revision that this tidegauge knows, newest first."""
    versions = files("migrations").joinpath("versions")
    names = [Path(entry.name).stem for entry in versions.iterdir() if entry.name.endswith(".py")]
    return sorted((name.partition("_")[0] for name in names if name[0] != "_"), reverse=True)


def head_revision() -> str:
    """Return the newest revision."""
    return all_revisions()[0]


def _revision(connection: Connection) -> str | None:
    if not sa.inspect(connection).has_table(VERSION_TABLE):
        return None
    version = sa.column("version_num", sa.Text)
    query = sa.select(version).select_from(sa.table(VERSION_TABLE))
    return connection.execute(query).scalar_one_or_none()


def _parsed(url: str) -> URL:
    try:
        parsed = make_url(url)
        backend = parsed.get_backend_name()
        parsed.get_dialect()
    except (ArgumentError, NoSuchModuleError) as error:
        shown = re.sub(r"(://[^/@]*?):[^@]*@", r"\1:***@", str(url))
        msg = f"{shown!r} is not the URL of a database; write {_EXAMPLES}"
        raise DatabaseAccessError(msg) from error
    if backend not in {"sqlite", "postgresql"}:
        msg = f"{backend} databases are not supported; use {_EXAMPLES}"
        raise DatabaseAccessError(msg)
    return parsed


def _sqlite_file(url: URL) -> Path | None:
    if url.get_backend_name() != "sqlite" or url.database in {None, "", ":memory:"}:
        return None
    return Path(str(url.database))


def _inspect_file(file: Path, *, must_exist: bool) -> None:
    """Make sure that a file is ours or empty before anything could change it."""
    if must_exist and not file.exists():
        msg = f"there is no database {file} to read"
        raise DatabaseAccessError(msg)
    if not file.parent.is_dir():
        msg = f"cannot make the database {file}: there is no folder {file.parent}"
        raise DatabaseAccessError(msg)
    if not file.exists() or not file.stat().st_size:
        return
    uri = f"file:{quote(str(file.absolute()))}?mode=ro"
    try:
        with closing(sqlite3.connect(uri, uri=True)) as connection:
            rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            tables = sorted(name for (name,) in rows)
    except sqlite3.OperationalError as error:
        msg = f"cannot open the database {file}: {error}"
        raise DatabaseAccessError(msg) from error
    except sqlite3.DatabaseError as error:
        msg = f"{file} is not a SQLite database; give another file for the repository"
        raise NotOurDatabaseError(msg) from error
    if tables and VERSION_TABLE not in tables:
        some = ", ".join(tables[:3])
        msg = f"{file} is not a tidegauge repository: it holds other tables ({some}); give another file"
        raise NotOurDatabaseError(msg)


def _engine(url: URL, file: Path | None, *, read_only: bool) -> Engine:
    if url.get_backend_name() != "sqlite":
        # Compiling a query takes longer than any of ours runs.
        settings = "-c jit=off" + (" -c default_transaction_read_only=on" if read_only else "")
        given = url.query.get("options")
        if isinstance(given, str):
            settings = f"{given} {settings}"
        try:
            return sa.create_engine(
                url, pool_pre_ping=True, pool_size=3, connect_args={"options": settings}
            )
        except ModuleNotFoundError as error:
            msg = f"{url.drivername} needs a driver: pip install 'tidegauge[postgres]'"
            raise DatabaseAccessError(msg) from error
    options: dict[str, Any] = {"connect_args": {"timeout": _BUSY_SECONDS}}
    if file is None:
        options = {"connect_args": {"check_same_thread": False}, "poolclass": StaticPool}
    elif read_only:
        uri = _read_only_uri(file)
        # The pool hands a connection from one thread to the next, as it does when it makes them itself.
        wanted: dict[str, Any] = {"timeout": _BUSY_SECONDS, "check_same_thread": False}
        options = {"creator": lambda: sqlite3.connect(uri, uri=True, **wanted)}
    engine = sa.create_engine(url, **options)
    sa.event.listen(engine, "connect", _on_connect_reading if read_only else _on_connect)
    sa.event.listen(engine, "begin", _on_begin)
    return engine


def _read_only_uri(file: Path) -> str:
    # The log of writers needs files beside the database; where nobody can write, there are none.
    wal = file.with_name(file.name + "-wal")
    frozen = not os.access(file.parent, os.W_OK) and not wal.exists()
    return f"file:{quote(str(file.absolute()))}?mode=ro{'&immutable=1' if frozen else ''}"


def _on_connect_reading(raw: Any, _record: object) -> None:
    raw.isolation_level = None  # transactions begin where SQLAlchemy says, with `_on_begin`
    raw.execute("PRAGMA cache_size=-65536").close()


def _on_connect(raw: Any, record: object) -> None:
    _on_connect_reading(raw, record)
    for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON"):
        raw.execute(f"PRAGMA {pragma}").close()


def _on_begin(connection: Connection) -> None:
    # A reader that turns writer fails at once under WAL, so writers say so from the start.
    writes = connection.get_execution_options().get("tidegauge_write")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _pragma(connection: Connection, pragma: str) -> None:
    raw = connection.connection.dbapi_connection
    assert raw is not None
    cursor = raw.cursor()
    cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _reason(error: BaseException) -> str:
    cause = error.orig if isinstance(error, DBAPIError) and error.orig else error
    return describe(cause).partition(": ")[2] or str(cause)


def lock_clock(connection: Connection) -> None:
    """Wait until no other writer is at work; none begins before the transaction ends."""
    connection.execute(sa.select(s.clock).with_for_update())


def next_commit(connection: Connection, run: int | None) -> tuple[int, datetime]:
    """Take the next commit number and its time; holds the clock's lock until the transaction ends."""
    row = connection.execute(
        sa.update(s.clock).values(commits=s.clock.c.commits + 1).returning(s.clock.c.commits)
    ).one()
    last = connection.execute(sa.select(sa.func.max(s.commit.c.committed_at))).scalar()
    now = datetime.now(UTC)
    moment = max(now, last) if last is not None else now
    values = {"id": row.commits, "run_id": run, "committed_at": moment}
    connection.execute(sa.insert(s.commit), values)
    connection.info[_COMMIT] = (row.commits, moment)
    return row.commits, moment


class NextCommit:
    """The number and time of a commit, taken when first asked for: what changes nothing takes none."""

    def __init__(self, connection: Connection, run: int | None = None) -> None:
        self._taken: tuple[int, datetime] | None = None
        self.connection, self.run = connection, run

    @property
    def id(self) -> int:
        """The number."""
        return self._take()[0]

    @property
    def now(self) -> datetime:
        """The time."""
        return self._take()[1]

    def _take(self) -> tuple[int, datetime]:
        if self._taken is None:
            self._taken = next_commit(self.connection, self.run)
        return self._taken


def next_findings(connection: Connection, count: int) -> range:
    """Take so many ids for anomalies and incidents."""
    row = connection.execute(
        sa.update(s.clock).values(findings=s.clock.c.findings + count).returning(s.clock.c.findings)
    ).one()
    return range(row.findings - count + 1, row.findings + 1)
