"""Engines: addresses of databases, connections to SQLite and PostgreSQL, explanations of errors.

SQLAlchemy begins SQLite's transactions; writing transactions lock the file at their start. If a
database cannot be opened or written, the error explains why: a missing or damaged file, a locked
folder, or missing rights of a role.
"""

from __future__ import annotations

import os
import re
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, OperationalError
from sqlalchemy.pool import StaticPool

from tidegauge.analyzers.core.errors import (
    DatabaseAccessError,
    NotOurDatabaseError,
    RepositoryError,
    describe,
    did_you_mean,
)
from tidegauge.analyzers.core.filesystems import PRIVATE_FILE, create_file
from tidegauge.analyzers.core.formatting import hide_secrets

if TYPE_CHECKING:
    from sqlalchemy.engine import URL, Connection, Engine

VERSION_TABLE = "tidegauge_revision"
SQLITE_HEADER = b"SQLite format 3\0"
"""The first bytes of each SQLite file."""
_CACHE_KIB = 16 * 1024
"""Cache of each SQLite connection. A served dashboard has eight connections, and the system also caches the file."""
BUSY_SECONDS = 60.0
_URL_EXAMPLES = "sqlite:///tidegauge.db or postgresql+psycopg://user@host/database"


def parse_address(url: str) -> URL:
    """Return the address of a database, or raise `DatabaseAccessError` without its password."""
    try:
        parsed = make_url(url)
        backend = parsed.get_backend_name()
        parsed.get_dialect()
    except (ArgumentError, NoSuchModuleError, ValueError):
        # Not chained: the cause quotes parts of the URL, which may contain a password.
        msg = f"{_without_password(url)!r} is not the URL of a database; write {_URL_EXAMPLES}"
        raise DatabaseAccessError(msg) from None
    if "@" in (parsed.host or ""):
        msg = f"{_without_password(url)!r} has two @: write the one in the password as %40"
        raise DatabaseAccessError(msg)
    if backend not in {"sqlite", "postgresql"}:
        msg = f"{backend} databases are not supported; use {_URL_EXAMPLES}"
        raise DatabaseAccessError(msg)
    if backend == "sqlite" and parsed.host:
        hidden = _without_password(url)
        file = hidden.partition("://")[2]
        msg = (
            f"{hidden!r} names a host; the URL of a SQLite file has a third slash: sqlite:///{file}"
        )
        raise DatabaseAccessError(msg)
    return parsed


def _without_password(url: str) -> str:
    """Hide the password of a URL that may be malformed: everything from the first colon to the last ``@``.

    Examples
    --------
    >>> _without_password("postgresql://ann:a@b/c@host/db"), _without_password("ann:s3cr3t@host/db")
    ('postgresql://ann:***@host/db', 'ann:***@host/db')
    >>> _without_password("postgresql:/ann:s3cr3t@host/db")
    'postgresql:/ann:***@host/db'
    """
    hidden = re.sub(r"\A((?:[\w+.-]*:/+)?[^:]*):.*@", r"\1:***@", str(url), flags=re.DOTALL)
    return hide_secrets(hidden)


def sqlite_file_of(url: URL) -> Path | None:
    """Return the file of a SQLite database; None for one in memory, and for other databases."""
    if url.get_backend_name() != "sqlite" or url.database in {None, "", ":memory:"}:
        return None
    return Path(str(url.database))


def missing_file_message(file: Path) -> str:
    """Return the error text for a database file that does not exist, with the nearest name in its folder."""
    if not file.parent.is_dir():
        return f"no database at {file}: the folder {file.parent} does not exist"
    names = [path.name for path in file.parent.glob("*") if path.suffix == file.suffix]
    return f"no database at {file}{did_you_mean(file.name, names)}"


def check_file_exists(file: Path | None) -> None:
    """Raise a `DatabaseAccessError` if a database's file does not exist; None stands for a server."""
    if file is not None and not file.exists():
        raise DatabaseAccessError(missing_file_message(file))


def inspect_file(file: Path, *, must_exist: bool) -> None:
    """Check that a file is a repository or empty, before anything could change it."""
    if file.is_dir():
        msg = f"{file} is a folder; use a file in it, such as sqlite:///{file / 'tidegauge.db'}"
        raise DatabaseAccessError(msg)
    if must_exist:
        check_file_exists(file)
    if not file.parent.is_dir():
        msg = f"cannot create the database {file}: the folder {file.parent} does not exist"
        raise DatabaseAccessError(msg)
    if not file.exists() or not file.stat().st_size:
        return
    try:
        with closing(sqlite3.connect(read_only_uri(file), uri=True)) as connection:
            rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            tables = sorted(name for (name,) in rows)
    except sqlite3.DatabaseError as error:
        raise _why_unreadable(file, error) from error
    if tables and VERSION_TABLE not in tables:
        examples = ", ".join(tables[:3])
        msg = f"{file} is not a tidegauge repository: it holds other tables ({examples}); use another file"
        raise NotOurDatabaseError(msg)


def _why_unreadable(file: Path, error: sqlite3.DatabaseError) -> RepositoryError:
    """Return an error that explains why SQLite cannot list a file's tables."""
    if is_damage(error):
        if has_sqlite_header(file):
            return DatabaseAccessError(damage_message(file, str(error)))
        return NotOurDatabaseError(not_sqlite_message(file))
    msg = f"cannot open the database {file}: {error}"
    log = _write_ahead_log(file)
    if is_in_locked_folder(file) and log.exists():
        msg += f"; its write-ahead log {log.name} can only be read in a folder that can be written: copy both"
    return DatabaseAccessError(msg)


def has_sqlite_header(file: Path) -> bool:
    """Return whether a file begins as each SQLite file does."""
    with file.open("rb") as stream:
        return stream.read(len(SQLITE_HEADER)) == SQLITE_HEADER


def not_sqlite_message(file: Path) -> str:
    """Return the message for a file that is not a SQLite database."""
    return (
        f"{file} is not a SQLite database, or its first bytes are damaged; use another file for the"
        " repository"
    )


def damage_message(file: Path, reason: str) -> str:
    """Return the message for a damaged file, with the remedy."""
    return (
        f"the database {file} is damaged: {reason}; restore a backup: tidegauge db restore BACKUP --db"
        f" sqlite:///{file} (without a backup, `sqlite3 {file} .recover` prints what can still be read)"
    )


def is_damage(error: BaseException) -> bool:
    """Return whether an error of SQLite means that the file is damaged, truncated, or not a database.

    Examples
    --------
    >>> is_damage(sqlite3.DatabaseError("database disk image is malformed"))
    True
    >>> is_damage(sqlite3.OperationalError("database is locked"))
    False
    """
    cause = error.orig if isinstance(error, DBAPIError) else error
    if not isinstance(cause, sqlite3.Error):
        return False
    code = getattr(cause, "sqlite_errorcode", 0)
    return (
        code & 0xFF in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
        or code == sqlite3.SQLITE_IOERR_SHORT_READ
        or str(cause).startswith(("database disk image is malformed", "Could not decode to UTF-8"))
    )


def make_engine(url: URL, file: Path | None, *, read_only: bool) -> Engine:
    """Return an engine for a SQLite file, SQLite in memory (no file), or PostgreSQL."""
    if url.get_backend_name() != "sqlite":
        return _postgres_engine(url, read_only=read_only)
    options: dict[str, Any] = {"connect_args": {"timeout": BUSY_SECONDS}}
    if file is None:
        options = {"connect_args": {"check_same_thread": False}, "poolclass": StaticPool}
    elif read_only:
        uri = read_only_uri(file)
        # The pool hands connections from one thread to the next, also those that it creates itself.
        arguments: dict[str, Any] = {"timeout": BUSY_SECONDS, "check_same_thread": False}
        options = {"creator": lambda: sqlite3.connect(uri, uri=True, **arguments)}
    engine = sa.create_engine(url, **options)
    sa.event.listen(engine, "connect", _on_connect_reading if read_only else _on_connect)
    sa.event.listen(engine, "begin", _on_begin)
    if file is not None and not read_only:

        @sa.event.listens_for(engine, "do_connect")
        def _create_private(*_: object) -> None:
            # SQLite would create a file that everybody can read. Its logs get the permissions of the file.
            with suppress(OSError):  # which the connection reports
                create_file(file, PRIVATE_FILE)

    return engine


def _postgres_engine(url: URL, *, read_only: bool) -> Engine:
    """Return an engine that keeps nothing in a session, because a connection pooler may switch sessions.

    PgBouncer's transaction mode gives each transaction another connection to the server. So settings
    are made in each transaction, and statements are not prepared unless the URL has
    ``prepare_threshold``.
    """
    threshold = url.query.get("prepare_threshold")
    options = url.query.get("options", "")
    option_string = options if isinstance(options, str) else " ".join(options)
    settings, other_options = _session_settings(option_string)
    url = url.difference_update_query(["prepare_threshold", "options"])
    arguments: dict[str, Any] = {"prepare_threshold": _prepare_threshold(threshold)}
    if other_options:
        arguments["options"] = other_options
    try:
        engine = sa.create_engine(url, pool_pre_ping=True, pool_size=3, connect_args=arguments)
    except ModuleNotFoundError as error:
        msg = f"{url.drivername} needs a driver: pip install 'tidegauge[postgres]'"
        raise DatabaseAccessError(msg) from error
    # JIT compilation takes longer than any query here runs.
    settings = {"jit": "off", **settings}
    calls = ", ".join(["set_config(%s, %s, true)"] * len(settings))
    statement = f"SELECT {calls}"
    values = [item for pair in settings.items() for item in pair]

    def on_connect(raw: Any, _record: object) -> None:
        raw.read_only = read_only or None

    def on_begin(connection: Connection) -> None:
        raw = connection.connection.dbapi_connection
        assert raw is not None
        cursor = raw.cursor()
        try:
            cursor.execute(statement, values)
        except connection.dialect.loaded_dbapi.Error as error:
            # SQLAlchemy translates no errors of listeners, and writes are repeated by its own alone.
            connection.invalidate(error)
            raise OperationalError(statement, values, error, connection_invalidated=True) from error
        finally:
            cursor.close()

    sa.event.listen(engine, "connect", on_connect)
    sa.event.listen(engine, "begin", on_begin)
    return engine


_SETTING_OPTION = re.compile(r"(?:-c\s*|--)([\w.]+)=((?:[^\s\\]|\\.)*)(?:\s+|$)")
"""A setting among the options of a connection to PostgreSQL, as in ``-c search_path=a,b``."""


def _session_settings(options: str) -> tuple[dict[str, str], str]:
    r"""Return the settings among the options of a PostgreSQL connection, and the other options.

    Examples
    --------
    >>> _session_settings(r"-c search_path=dq,public --work_mem=8MB -c x.y=a\ b -E")
    ({'search_path': 'dq,public', 'work_mem': '8MB', 'x.y': 'a b'}, '-E')
    """
    settings = {
        match[1]: re.sub(r"\\(.)", r"\1", match[2]) for match in _SETTING_OPTION.finditer(options)
    }
    return settings, _SETTING_OPTION.sub("", options).strip()


def _prepare_threshold(value: str | tuple[str, ...] | None) -> int | None:
    """Return the number of executions after which psycopg prepares a statement; None (the default) for never.

    Raises
    ------
    DatabaseAccessError
    """
    if value is None or str(value).casefold() == "none":
        return None
    if isinstance(value, str) and value.isdecimal():
        return int(value)
    msg = f"prepare_threshold={value} in the URL is neither None nor a whole number"
    raise DatabaseAccessError(msg)


_NO_PRIVILEGE, _READ_ONLY_TRANSACTION, _NO_SCHEMA = "42501", "25006", "3F000"
"""PostgreSQL's codes: insufficient privilege, read-only transaction, no schema to create in."""
_PERMISSION_DENIED = re.compile(r"permission denied for (\w+) (.+)")
_READ_STATEMENT = re.compile(
    r"\s*(SELECT|WITH)\b(?!.*\bFOR (UPDATE|SHARE)\b)", re.DOTALL | re.IGNORECASE
)


def rights_advice(error: BaseException, role: str) -> str | None:
    """Return the remedy for an error of PostgreSQL about missing rights; None for other errors.

    Parameters
    ----------
    error : BaseException
        An error of SQLAlchemy or the driver.
    role : str
        The role that connects.
    """
    cause = error.orig if isinstance(error, DBAPIError) and error.orig else error
    role = role or "the role"
    advice = {
        _READ_ONLY_TRANSACTION: "the server is a standby or only allows reading: connect to its primary",
        _NO_SCHEMA: f"choose a schema: ALTER ROLE {role} SET search_path = ...",
        _NO_PRIVILEGE: f"{role} lacks a right; the guide to operations lists the grants",
    }.get(getattr(cause, "sqlstate", None) or "")
    denied = _PERMISSION_DENIED.search(str(cause))
    if advice is None or denied is None:
        return advice
    kind, name = denied[1], denied[2].strip()
    reads = _READ_STATEMENT.match(str(getattr(error, "statement", None) or ""))
    rights = "SELECT" if reads else "SELECT, INSERT, UPDATE, DELETE"
    on_sequences = "USAGE, UPDATE" if "setval" in str(getattr(error, "statement", "")) else "USAGE"
    relation = f"GRANT {rights} ON ALL TABLES IN SCHEMA ... TO {role}, in the schema of {name!r}"
    return {
        # Tables are created by the first writer and by upgrades.
        "schema": f"GRANT USAGE, CREATE ON SCHEMA {name} TO {role}",
        "sequence": f"GRANT {on_sequences} ON ALL SEQUENCES IN SCHEMA ... TO {role}, in the schema of {name!r}",
    }.get(kind, relation)


def is_read_only_error(error: OperationalError | sqlite3.OperationalError) -> bool:
    """Return whether SQLite refused a write because the file's permissions changed after it was opened."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    return getattr(cause, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_READONLY


def _write_ahead_log(file: Path) -> Path:
    return file.with_name(file.name + "-wal")


def is_in_locked_folder(file: Path) -> bool:
    """Return whether an existing file is in a folder that cannot be written, such as a read-only mount."""
    return file.is_file() and not os.access(file.parent, os.W_OK)


def is_locked(file: Path) -> bool:
    """Return whether this user can read a file, but not write it."""
    return file.is_file() and not (os.access(file, os.W_OK) and os.access(file.parent, os.W_OK))


def read_only_uri(file: Path) -> str:
    """Return the URI that opens a SQLite file read-only."""
    # The write-ahead log needs files beside the database; in a read-only folder there are none.
    frozen = is_in_locked_folder(file) and not _write_ahead_log(file).exists()
    return f"file:{quote(str(file.absolute()))}?mode=ro{'&immutable=1' if frozen else ''}"


def _on_connect_reading(raw: Any, _record: object) -> None:
    raw.isolation_level = None  # `_on_begin` begins transactions when SQLAlchemy does
    raw.execute(f"PRAGMA cache_size=-{_CACHE_KIB}").close()


def _on_connect(raw: Any, record: object) -> None:
    _on_connect_reading(raw, record)
    for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON"):
        raw.execute(f"PRAGMA {pragma}").close()


def _on_begin(connection: Connection) -> None:
    # Under WAL, a reader that turns writer fails at once, so writers lock at the start.
    writes = connection.get_execution_options().get("tidegauge_write")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def reason_of(error: BaseException) -> str:
    """Return the driver's error message without the class name."""
    cause = error.orig if isinstance(error, DBAPIError) and error.orig else error
    return describe(cause).partition(": ")[2] or str(cause)
