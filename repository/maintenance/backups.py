"""Backup and restore of a repository.

A backup of a SQLite file is a SQLite file; of PostgreSQL it is an archive of ``pg_dump``,
PostgreSQL's own tool. The files of large states are copied along, by hard links where the file
system can: they never change. A copy has the permissions of the file or folder that it is a copy of;
a dump of PostgreSQL is private.
"""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
import warnings
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import quote

import sqlalchemy as sa

from tidegauge.analyzers.core.errors import (
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
from tidegauge.repository.store.artifacts import Artifacts
from tidegauge.repository.store.database import (
    SQLITE_HEADER,
    UNFINISHED,
    VERSION_TABLE,
    Database,
    all_revisions,
    backup_beside,
    head_revision,
    stamp,
)
from tidegauge.repository.store.schema import metadata


def back_up(database: Database, artifacts: Artifacts, to: Path | None = None) -> Path:
    """Back up a repository and return the path of the backup.

    Parameters
    ----------
    database : Database
    artifacts : Artifacts
    to : Path, optional
        The target, never overwritten; if not given, a timestamped name beside the SQLite file, or
        in the working directory for PostgreSQL.

    Raises
    ------
    DatabaseAccessError
        If the target exists or is not writable, the database is in memory, or ``pg_dump`` is
        missing or fails.

    Warns
    -----
    RepositoryWarning
        If the folder of large states lacks some, so that the backup does, too.
    """
    target = _back_up(database, artifacts, to)
    _warn_of_missing_files(database, artifacts, target)
    return target


def _back_up(database: Database, artifacts: Artifacts, to: Path | None = None) -> Path:
    if database.revision() == UNFINISHED:
        raise DatabaseVersionError(database.unfinished_message())
    target = to or _named(database)
    if target.exists():
        msg = f"{target} is there already; name another file"
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
        # Files after what refers to them, and before the backup appears: none lacks a file.
        _copy_files(artifacts, Artifacts(_files_of(target)))
    return target


def _require_folder(database: Database, artifacts: Artifacts) -> None:
    """Raise a `DatabaseAccessError` if large states lie in a folder that is not known."""
    if artifacts.root is None and database.revision() in all_revisions():
        with database.read() as connection:
            if referenced_files(connection):
                artifacts.require_folder()


def _warn_of_missing_files(database: Database, artifacts: Artifacts, backup: Path) -> None:
    """Warn if a backup lacks files of large states, because the artifacts folder lacks them."""
    if database.revision() != head_revision():  # older tables may be others
        return
    with database.read() as connection:
        referenced = referenced_files(connection)
    missing = sorted(referenced - Artifacts(_files_of(backup)).files())
    if missing:
        what = plural(len(missing), "large state")
        text = (
            f"the backup {backup} lacks {what}: {artifacts.root or 'the artifacts folder'} has no file"
            f" {missing[0]}; if the folder was moved, name it by --artifacts and back up again;"
            " `tidegauge db check` lists all that are missing"
        )
        warnings.warn(text, RepositoryWarning, stacklevel=3)


def restore(database: Database, artifacts: Artifacts, source: Path) -> Path | None:
    """Replace a database's content with a backup, and return the path of a copy made before.

    A damaged SQLite file cannot be copied, so it is renamed, and its new path is returned. None is
    returned if the database was empty, or held an unfinished copy of another.

    Raises
    ------
    NotOurDatabaseError
        If the file is not a backup of a repository, or is damaged; nothing is changed then.
    DatabaseAccessError
        If the backup is unreadable or the database is not writable.
    """
    if not source.is_file():
        msg = f"there is no backup {source}"
        raise DatabaseAccessError(msg)
    _require_same_kind(database, source)
    if database.is_sqlite:
        _require_sound(source)
    before = database.set_aside_damaged()
    files = Artifacts(_files_of(source))
    if files.files():
        artifacts.require_folder()
    if database.file is not None:  # connecting makes it
        create_file(database.file, permissions(before or source))
    if database.revision() not in {None, UNFINISHED}:
        before = _back_up(database, artifacts)
    # Files before what refers to them: who is killed in between leaves files without a reference.
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
    return before


def _named(database: Database) -> Path:
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
    """Raise a `NotOurDatabaseError` if a backup is of SQLite and the database of PostgreSQL, or the reverse."""
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
        msg = f"{file} is no backup of a tidegauge repository: {error}"
        raise NotOurDatabaseError(msg) from error
    _require_known(file, revision)
    if problem != "ok":
        msg = f"{file} is damaged: {problem}"
        raise NotOurDatabaseError(msg)
    if revision == head_revision() and (missing := sorted(set(metadata.tables) - tables)):
        msg = f"{file} is no backup of a tidegauge repository: it lacks the table {missing[0]!r}"
        raise NotOurDatabaseError(msg)


def _require_known(file: Path, revision: str | None) -> None:
    if revision not in all_revisions():
        msg = f"{file} is at revision {revision}, which this tidegauge does not know"
        raise NotOurDatabaseError(msg)


def _restore_postgres(database: Database, source: Path) -> None:
    """Replace all tidegauge tables and views with a dump, in one transaction."""
    with source.open("rb") as stream:
        if stream.read(len(_DUMP_HEADER)) != _DUMP_HEADER:
            msg = f"{source} is no backup of a tidegauge repository: `tidegauge db backup` writes archives of pg_dump"
            raise NotOurDatabaseError(msg)
    to_text = ("--no-owner", "--file=-", str(source))
    script = _run_postgres("pg_restore", database, *to_text, file=source)
    told = re.search(rf"COPY public\.{VERSION_TABLE} .*?;\n(\w+)\n", script)
    if told is None:
        msg = f"{source} is no backup of a tidegauge repository"
        raise NotOurDatabaseError(msg)
    _require_known(source, told[1])
    with database.read() as connection:
        inspector = sa.inspect(connection)
        views = [name for name in inspector.get_view_names() if name.startswith("v_")]
        tables = set(inspector.get_table_names()) & {*metadata.tables, VERSION_TABLE}
    drops = [f'DROP VIEW "{name}";' for name in views]
    drops += [f'DROP TABLE "{name}" CASCADE;' for name in sorted(tables)]
    # DROP waits for active readers, and everybody else would queue behind it.
    whole = "\n".join([f"SET lock_timeout = '{_LOCK_SECONDS}s';", *drops, script])
    options = ("--single-transaction", "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1")
    _run_postgres("psql", database, *options, f"--dbname={_conninfo(database)}", text=whole)


_LOCK_SECONDS = 30


def _conninfo(database: Database) -> str:
    """Return the URL without secrets, as PostgreSQL's tools accept it."""
    return sa.make_url(database.address).set(drivername="postgresql").render_as_string()


def _run_postgres(
    tool: str,
    database: Database,
    *options: str,
    text: str | None = None,
    file: Path | None = None,
) -> str:
    """Run a PostgreSQL tool on a database, or only on a file.

    The password is passed by environment, not in the process list.
    """
    found = shutil.which(tool)
    if found is None:
        msg = f"{tool} is not installed; it comes with PostgreSQL's client programs"
        raise DatabaseAccessError(msg)
    secret = database.url.password or database.url.query.get("password")
    environment = {**os.environ, **({"PGPASSWORD": str(secret)} if secret else {})}
    done = subprocess.run(  # noqa: S603 - a program found by name, with fixed options
        [found, *options], env=environment, input=text, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        problem = " ".join(done.stderr.split())
        if file is not None:
            msg = f"{file} is cut off or damaged, or of a newer PostgreSQL than {tool}: {problem}"
            raise NotOurDatabaseError(msg)
        msg = f"{tool} failed on {database.name}: {problem}"
        if "permission denied for sequence" in problem:
            msg += (
                "; a role that makes backups needs GRANT SELECT ON ALL SEQUENCES IN SCHEMA ..., too"
            )
        raise DatabaseAccessError(msg)
    return done.stdout
