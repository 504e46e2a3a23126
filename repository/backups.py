"""Copies of a repository, and putting one back.

A copy of a SQLite file is a SQLite file; of PostgreSQL it is what ``pg_dump`` writes, PostgreSQL's own
tool. The files of large states are copied along, by links where the file system can: they never change.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from contextlib import closing, suppress
from pathlib import Path

from analyzers.errors import DatabaseAccessError, NotOurDatabaseError
from repository.artifacts import Artifacts
from repository.database import Database, all_revisions, backup_beside, stamp


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
        _run_postgres("pg_dump", database, "--format=custom", f"--file={target}")
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
        options = ("--clean", "--if-exists", "--no-owner", "--single-transaction")
        _run_postgres("pg_restore", database, *options, f"--dbname={_name(database)}", str(source))
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
    checked = Database.unchecked(f"sqlite:///{file}")
    try:
        revision = checked.revision()
        if revision not in all_revisions():
            msg = f"{file} is no backup of a tidegauge repository that this tidegauge knows"
            raise NotOurDatabaseError(msg)
        with checked.read() as connection:
            problems = [row[0] for row in connection.exec_driver_sql("PRAGMA integrity_check")]
        if problems != ["ok"]:
            msg = f"{file} is damaged: {problems[0]}"
            raise NotOurDatabaseError(msg)
    finally:
        checked.close()


def _run_postgres(tool: str, database: Database, *options: str) -> None:
    """Run one of PostgreSQL's own tools; the password goes by the environment, which no list shows."""
    found = shutil.which(tool)
    if found is None:
        msg = f"{tool} is not installed; it comes with PostgreSQL's client programs"
        raise DatabaseAccessError(msg)
    url = database.url
    given = {
        "PGHOST": url.host,
        "PGPORT": url.port,
        "PGUSER": url.username,
        "PGPASSWORD": url.password,
        "PGDATABASE": url.database,
    }
    environment = {**os.environ, **{k: str(v) for k, v in given.items() if v is not None}}
    done = subprocess.run(  # noqa: S603 - a program found by name, with options of ours
        [found, *options], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        msg = f"{tool} failed on {database.name}: {done.stderr.strip()}"
        raise DatabaseAccessError(msg)
