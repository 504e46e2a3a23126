"""Copies of a repository, and putting one back.

A copy of a SQLite file is a SQLite file; of PostgreSQL it is what ``pg_dump`` writes, PostgreSQL's own
tool. The files of large states are copied along, by links where the file system can: they never change.
"""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import quote

import sqlalchemy as sa

from analyzers.errors import DatabaseAccessError, NotOurDatabaseError
from repository.artifacts import Artifacts
from repository.database import (
    SECRETS,
    VERSION_TABLE,
    Database,
    all_revisions,
    backup_beside,
    stamp,
)
from repository.schema import metadata


def back_up(database: Database, artifacts: Artifacts, to: Path | None = None) -> Path:
    """Copy a repository, and return where the copy lies.

    Parameters
    ----------
    database : Database
    artifacts : Artifacts
    to : Path, optional
        A file, not overwritten; beside the SQLite file, or here, under the time's name if not given.

    Raises
    ------
    DatabaseAccessError
        If it cannot be written, or ``pg_dump`` is missing or fails.
    """
    target = to or _named(database)
    if target.exists():
        msg = f"{target} is there already; name another file"
        raise DatabaseAccessError(msg)
    if database.file is not None:
        database.copy(target)
    elif database.is_sqlite:
        msg = "a database in memory has no file to copy; its history ends with its process"
        raise DatabaseAccessError(msg)
    else:
        options = ("--format=custom", f"--file={target}", f"--dbname={_conninfo(database)}")
        _run_postgres("pg_dump", database, *options)
    _link_files(artifacts.root, _files_of(target))
    return target


def restore(database: Database, artifacts: Artifacts, source: Path) -> Path | None:
    """Put a copy in the place of what a database holds; return where that was copied to before.

    Raises
    ------
    NotOurDatabaseError
        If the copy is not one of a repository; nothing is changed then.
    DatabaseAccessError
        If it cannot be read or written.
    """
    if not source.is_file():
        msg = f"there is no backup {source}"
        raise DatabaseAccessError(msg)
    if database.is_sqlite:
        _require_sound(source)
    before = back_up(database, artifacts) if database.revision() else None
    if database.file is not None:
        with (
            closing(sqlite3.connect(source)) as copy,
            closing(sqlite3.connect(database.file)) as current,
        ):
            copy.backup(
                current
            )  # as one transaction: who reads meanwhile sees the one or the other
    else:
        _restore_postgres(database, source)
    _link_files(_files_of(source), artifacts.root)
    return before


def _named(database: Database) -> Path:
    if database.file is not None:
        return backup_beside(database.file)
    return Path(f"{_name(database)}.{stamp()}.dump")


def _name(database: Database) -> str:
    return str(database.url.database)


def _files_of(backup: Path) -> Path:
    return backup.with_name(backup.name + ".artifacts")


def _link_files(source: Path | None, target: Path | None) -> None:
    if source is None or target is None or not source.is_dir():
        return
    for name in sorted(Artifacts(source).files()):
        copy = target / name
        if not copy.exists():
            copy.parent.mkdir(parents=True, exist_ok=True)
            with suppress(OSError):  # another file system, or one without links
                os.link(source / name, copy)
            if not copy.exists():
                shutil.copy2(source / name, copy)


def _require_sound(file: Path) -> None:
    uri = f"file:{quote(str(file.absolute()))}?mode=ro&immutable=1"
    query = f"SELECT version_num FROM {VERSION_TABLE}"  # noqa: S608 - a name of ours
    try:
        with closing(sqlite3.connect(uri, uri=True)) as copy:
            (revision,) = copy.execute(query).fetchone()
            problem = copy.execute("PRAGMA integrity_check").fetchone()[0]
    except (sqlite3.Error, TypeError) as error:
        msg = f"{file} is no backup of a tidegauge repository: {error}"
        raise NotOurDatabaseError(msg) from error
    _require_known(file, revision)
    if problem != "ok":
        msg = f"{file} is damaged: {problem}"
        raise NotOurDatabaseError(msg)


def _require_known(file: Path, revision: str | None) -> None:
    if revision not in all_revisions():
        msg = f"{file} is at revision {revision}, which this tidegauge does not know"
        raise NotOurDatabaseError(msg)


def _restore_postgres(database: Database, source: Path) -> None:
    """Put a dump in the place of all tables and views of ours, in one transaction."""
    script = _run_postgres("pg_restore", database, "--no-owner", "--file=-", str(source))
    told = re.search(rf"COPY public\.{VERSION_TABLE} .*?;\n(\w+)\n", script)
    if told is None:
        msg = f"{source} is no backup of a tidegauge repository"
        raise NotOurDatabaseError(msg)
    _require_known(source, told[1])
    with database.read() as connection:
        inspector = sa.inspect(connection)
        views = [name for name in inspector.get_view_names() if name.startswith("v_")]
        tables = set(inspector.get_table_names()) & {*metadata.tables, *_FORMER, VERSION_TABLE}
    drops = [f'DROP VIEW "{name}";' for name in views]
    drops += [f'DROP TABLE "{name}" CASCADE;' for name in sorted(tables)]
    # Whoever still reads would be waited for, and all others would wait behind.
    whole = "\n".join([f"SET lock_timeout = '{_LOCK_SECONDS}s';", *drops, script])
    options = ("--single-transaction", "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1")
    _run_postgres("psql", database, *options, f"--dbname={_conninfo(database)}", text=whole)


_FORMER = ("latest_metric",)
"""Tables that older revisions had."""
_LOCK_SECONDS = 30


def _conninfo(database: Database) -> str:
    """Return the URL as PostgreSQL's tools take it, without secrets."""
    url = database.url.set(drivername="postgresql", password=None)
    return url.difference_update_query(SECRETS).render_as_string(hide_password=False)


def _run_postgres(tool: str, database: Database, *options: str, text: str | None = None) -> str:
    """Run one of PostgreSQL's own tools; the password goes by the environment, which no list shows."""
    found = shutil.which(tool)
    if found is None:
        msg = f"{tool} is not installed; it comes with PostgreSQL's client programs"
        raise DatabaseAccessError(msg)
    secret = database.url.password or database.url.query.get("password")
    environment = {**os.environ, **({"PGPASSWORD": str(secret)} if secret else {})}
    done = subprocess.run(  # noqa: S603 - a program found by name, with options of ours
        [found, *options], env=environment, input=text, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        msg = f"{tool} failed on {database.name}: {done.stderr.strip()}"
        raise DatabaseAccessError(msg)
    return done.stdout
