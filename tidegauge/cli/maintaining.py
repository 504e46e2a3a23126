"""Commands that maintain a repository: its datasets and its database.

Datasets are listed, renamed, retired, dropped and labelled, and their failures accepted. The database is
upgraded, checked, backed up, copied and cleaned.
"""

from __future__ import annotations

import getpass
import shlex
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from tidegauge.analyzers.core.errors import DatabaseAccessError
from tidegauge.analyzers.core.formatting import plural
from tidegauge.cli.options import (
    TOOL_FAILED,
    ArtifactsOption,
    By,
    CommandError,
    Db,
    FormatOption,
    Note,
    Since,
    Until,
    new_app,
    open_repository,
)
from tidegauge.cli.output import Format, print_rows

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from tidegauge.repository.repository import Repository
    from tidegauge.repository.store.database import Database
    from tidegauge.repository.store.stored_states import Artifacts


datasets_app = new_app("List, retire and drop datasets.")

Name = Annotated[str, typer.Argument(metavar="DATASET", help="The dataset.")]
CheckOnly = Annotated[bool, typer.Option("--dry-run", help="Only check the arguments.")]


@datasets_app.command("list")
def datasets_list(
    db: Db = None, artifacts: ArtifactsOption = None, form: FormatOption = Format.TABLE
) -> None:
    """List all datasets with their tables, partitions and last runs, and those that are retired."""
    from tidegauge.repository.store.listing import DATASET_COLUMNS, dataset_rows

    with (
        open_repository(db, artifacts, read_only=True) as repository,
        repository.database.read() as connection,
    ):
        rows = dataset_rows(connection)
    print_rows(rows, DATASET_COLUMNS, form)


@datasets_app.command()
def retire(
    dataset: Name,
    note: Note = None,
    by: By = None,
    db: Db = None,
    artifacts: ArtifactsOption = None,
    dry_run: CheckOnly = False,
) -> None:
    """Retire a dataset: its history stays, and it no longer counts as failed, missing or overdue."""
    with open_repository(db, artifacts, dry_run=dry_run) as repository:
        repository.retire(dataset, note=note, by=by or getpass.getuser(), dry_run=dry_run)
    done = "would be" if dry_run else "is"
    print(f"{dataset} {done} retired; `tidegauge dataset revive` brings it back")


@datasets_app.command()
def revive(
    dataset: Name,
    note: Note = None,
    by: By = None,
    db: Db = None,
    artifacts: ArtifactsOption = None,
    dry_run: CheckOnly = False,
) -> None:
    """Bring a retired dataset back."""
    with open_repository(db, artifacts, dry_run=dry_run) as repository:
        repository.revive(dataset, note=note, by=by or getpass.getuser(), dry_run=dry_run)
    print(f"{dataset} {'would be' if dry_run else 'is'} back")


@datasets_app.command()
def rename(
    dataset: Name,
    new: Annotated[str, typer.Argument(metavar="NEW", help="The new name.")],
    db: Db = None,
    artifacts: ArtifactsOption = None,
    dry_run: CheckOnly = False,
) -> None:
    """Give a dataset another name, with all of its history; also change the name in its suite files."""
    with open_repository(db, artifacts, dry_run=dry_run) as repository:
        repository.rename(dataset, new, dry_run=dry_run)
    print(
        f"{dataset} {'would become' if dry_run else 'is now'} {new}; write the new name in its files"
    )
    if not dry_run:
        undo = shlex.join(["tidegauge", "dataset", "rename", "--", new, dataset])
        print(f"to undo it: {undo}", file=sys.stderr)


@datasets_app.command()
def accept(
    dataset: Name,
    partition: Annotated[
        str, typer.Argument(metavar="PARTITION", help="As in ds=2026-01-01; '' for a whole table.")
    ],
    name: Annotated[
        str | None, typer.Option(help="Only the verdict of this name; default: all that fail.")
    ] = None,
    note: Note = None,
    by: By = None,
    db: Db = None,
    artifacts: ArtifactsOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list the failures.")] = False,
) -> None:
    """Accept failed checks and rules on a partition: they pass until its data or they change."""
    from tidegauge.rules.known_failures import accept_failures

    author = by or getpass.getuser()
    with open_repository(db, artifacts, dry_run=dry_run) as repository:
        accepted = accept_failures(
            repository, dataset, partition, name=name, note=note, by=author, dry_run=dry_run
        )
    for failure in accepted:
        print(f"{'would be accepted' if dry_run else 'accepted'}: {failure}")


@datasets_app.command()
def label(
    dataset: Name,
    said: Annotated[
        str,
        typer.Argument(metavar="LABEL", help="bad, ignore, expected, rebaseline or reopened."),
    ],
    since: Since = None,
    until: Until = None,
    note: Note = None,
    by: By = None,
    db: Db = None,
    artifacts: ArtifactsOption = None,
    dry_run: CheckOnly = False,
) -> None:
    """Label a time range of a dataset: detectors do not learn from it, and its failures are known."""
    with open_repository(db, artifacts, dry_run=dry_run) as repository:
        repository.label_range(
            dataset,
            said,
            since=since,
            until=until,
            note=note,
            by=by or getpass.getuser(),
            dry_run=dry_run,
        )
    would = "would label " if dry_run else ""
    print(
        f"{would}{dataset} from {since or 'the first'} to {until or 'the last partition'}: {said}"
    )


@datasets_app.command()
def drop(
    dataset: Name,
    partition: Annotated[
        str | None, typer.Option(help="Only this partition, as in ds=2026-01-01.")
    ] = None,
    analyzer: Annotated[
        str | None, typer.Option(help="Only the series of this analyzer, as in \"Histogram('k')\".")
    ] = None,
    segment: Annotated[
        str | None,
        typer.Option(help="With --analyzer: only this segment, as in country=US; '' for all rows."),
    ] = None,
    generation: Annotated[
        str | None,
        typer.Option(
            help="With --analyzer: only where its column had this type, as in 'k is a text'."
        ),
    ] = None,
    db: Db = None,
    artifacts: ArtifactsOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only print what would be removed.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    backup: Annotated[
        bool, typer.Option("--backup/--no-backup", help="Back up the database first.")
    ] = True,
) -> None:
    """Drop a dataset, a partition or series from the repository; tables stay as they are.

    The database is backed up first, and `tidegauge db restore` brings back what it held. The next run
    measures again what is still in the table and in the suite.
    """
    of = {
        "partition": partition,
        "analyzer": analyzer,
        "segment": segment,
        "generation": generation,
    }
    with open_repository(db, artifacts, dry_run=dry_run) as repository:
        if dry_run:
            print(f"{dataset}: {repository.drop(dataset, **of, dry_run=True)}")
            return
        if not yes:
            planned = repository.drop(dataset, **of, dry_run=True)
            if not sys.stdin.isatty():
                raise CommandError(f"{dataset}: {planned}; add --yes to drop it")
            undo = "The database is backed up first" if backup else "There will be no backup"
            typer.confirm(f"{dataset}: {planned}. {undo}. Go on?", abort=True)
        kept = _back_up(repository) if backup else None
        print(f"{dataset}: {repository.drop(dataset, **of, dry_run=False)}")
        if kept is not None:
            print(
                f"to undo it and all that is written from now on: tidegauge db restore {kept}",
                file=sys.stderr,
            )


def _back_up(repository: Repository) -> Path:
    """Back up the whole database before something is dropped."""
    from tidegauge.repository.maintenance.backups import back_up

    try:
        return back_up(repository.database, repository.artifacts)
    except DatabaseAccessError as error:
        msg = f"nothing was dropped, because the backup failed: {error}; --no-backup drops without one"
        raise DatabaseAccessError(msg) from error


db_app = new_app("The repository's database.")


@contextmanager
def _at_any_revision(
    url: str | None, *, new: bool = False, may_be_damaged: bool = False
) -> Iterator[Database]:
    """Open a database at any revision, to read or change the revision; a missing file only if it may be new."""
    from tidegauge.repository.store.config import settings
    from tidegauge.repository.store.database import Database
    from tidegauge.repository.store.engines import check_file_exists

    database = Database.unchecked(settings(url, None)[0], may_be_damaged=may_be_damaged)
    if not new:  # connecting would create the file
        check_file_exists(database.file)
    try:
        yield database
    finally:
        database.close()


@contextmanager
def _to_check(
    url: str | None, artifacts: str | None
) -> Iterator[tuple[str, Connection, Artifacts]]:
    """Open the database to check, and its large states, with its name; of an older one, an upgraded copy."""
    from tidegauge.repository.maintenance.backups import upgraded_copy
    from tidegauge.repository.store.config import artifacts_of, settings
    from tidegauge.repository.store.database import Database, all_revisions

    with (
        _at_any_revision(url, new=True) as database,
        TemporaryDirectory(prefix="tidegauge-") as folder,
    ):
        file = database.file
        missing = file is not None and not file.exists()
        if missing or database.revision() not in all_revisions()[1:]:
            with (
                open_repository(url, artifacts, read_only=True) as repository,
                repository.database.read() as connection,
            ):
                yield database.name, connection, repository.artifacts
            return
        stored = artifacts_of(database, settings(url, artifacts)[1])
        print(f"{database.name} is at revision {database.revision()}; an upgraded copy is checked")
        if not database.is_sqlite:
            with upgraded_copy(database) as connection:
                yield database.name, connection, stored
            return
        copy = Path(folder, "copy.db")
        database.copy(copy)
        with closing(Database(f"sqlite:///{copy}")) as upgraded, upgraded.read() as connection:
            yield database.name, connection, stored


def _print_leftovers(database: Database) -> None:
    """Name the files that killed backups and upgrades left, and those that running ones write."""
    for file in database.unfinished_backups():
        print(
            f"{file} is of a backup or an upgrade that was killed; delete it unless one is running"
        )


def _artifacts(database: Database, url: str | None, given: str | None) -> Artifacts:
    from tidegauge.repository.store.config import artifacts_of, settings

    return artifacts_of(database, settings(url, given)[1])


@db_app.command()
def upgrade(db: Db = None) -> None:
    """Upgrade the database schema to the newest revision; a SQLite file is backed up first."""
    from tidegauge.repository.store.database import head_revision

    with _at_any_revision(db, new=True) as database:
        before = database.revision()
        if before == head_revision():
            print(f"{database.name} is at revision {before}, the newest")
            _print_leftovers(database)
            return
        backup = database.upgrade()
        kept = f"; the old one is kept in {backup}" if backup else ""
        print(f"{database.name} upgraded from {before} to {database.revision()}{kept}")
        _print_leftovers(database)


@db_app.command()
def downgrade(
    revision: Annotated[
        str, typer.Argument(help="Such as 0002; `db current` prints the present revision.")
    ],
    db: Db = None,
    artifacts: ArtifactsOption = None,
) -> None:
    """Downgrade the database schema to an older revision, for an older tidegauge; backs up first.

    Data that the older revision has no place for is lost, except in the backup.
    """
    from tidegauge.repository.maintenance.backups import back_up
    from tidegauge.repository.store.database import all_revisions

    with _at_any_revision(db) as database:
        before = database.revision()
        database.require_known(before)
        if revision == before:  # as after a downgrade that was killed when it was done
            print(f"{database.name} has revision {revision} already")
            return
        if before is None or revision not in all_revisions() or revision >= before:
            known = ", ".join(sorted(r for r in all_revisions() if before and r < before)) or "none"
            msg = f"{revision!r} is not a revision before {before or 'an empty database'}; there are: {known}"
            raise CommandError(msg)
        backup = back_up(database, _artifacts(database, db, artifacts))
        there = database.row_counts()
        database.migrate(revision)
        print(
            f"{database.name} taken down from {before} to {revision}; the newer is kept in {backup}"
        )
        for table in sorted(there.keys() - database.row_counts().keys()):
            print(f"lost, but in the backup: {there[table]} rows of {table}")


@db_app.command()
def current(db: Db = None) -> None:
    """Print the database's revision, and the newest one."""
    from tidegauge.repository.store.database import UNFINISHED_REVISION, head_revision

    with _at_any_revision(db, new=True) as database:
        missing = database.file is not None and not database.file.exists()  # connecting makes it
        revision = None if missing else database.revision()
        if revision == UNFINISHED_REVISION:
            print(database.unfinished_message())
            return
        print(f"{revision or 'empty'} (newest: {head_revision()})")


@db_app.command()
def check(db: Db = None, artifacts: ArtifactsOption = None) -> int:
    """Verify the database: integrity, complete batches, checksums of all states.

    Of a database of an older release, an upgraded copy is checked: so one knows before upgrading.
    """
    from tidegauge.repository.maintenance.integrity import find_problems, orphan_files

    with _to_check(db, artifacts) as (name, connection, stored):
        problems = find_problems(connection, stored)
        for problem in problems:
            print(problem)
        orphans = orphan_files(connection, stored)
        if orphans:
            print(f"{plural(len(orphans), 'file')} without references; `db clean` removes them")
        with _at_any_revision(db) as database:
            _print_leftovers(database)
        print(f"{name}: " + (plural(len(problems), "problem") if problems else "sound"))
    return TOOL_FAILED if problems else 0


@db_app.command()
def backup(
    db: Db = None,
    artifacts: ArtifactsOption = None,
    to: Annotated[Path | None, typer.Option(help="A file, not overwritten.")] = None,
) -> None:
    """Back up the repository, including large states; PostgreSQL by pg_dump."""
    from tidegauge.repository.maintenance.backups import back_up

    with _at_any_revision(db) as database:
        if database.revision() is None:
            msg = f"{database.name} is empty"
            raise CommandError(msg)
        print(back_up(database, _artifacts(database, db, artifacts), to))


@db_app.command()
def restore(
    file: Annotated[Path, typer.Argument(help="What `db backup` wrote.")],
    db: Db = None,
    artifacts: ArtifactsOption = None,
) -> None:
    """Restore a backup; the current contents are backed up first."""
    from tidegauge.repository.maintenance.backups import restore as put_back

    with _at_any_revision(db, new=True, may_be_damaged=True) as database:
        before = put_back(database, _artifacts(database, db, artifacts), file)
        kept = f"; its previous content is kept in {before}" if before else ""
        print(f"{database.name} restored from {file}, revision {database.revision()}{kept}")


@db_app.command()
def copy(
    source: Annotated[str, typer.Argument(metavar="SOURCE_URL", help="The repository to copy.")],
    target: Annotated[str, typer.Argument(metavar="TARGET_URL", help="An empty database.")],
    artifacts: Annotated[
        str | None,
        typer.Option(
            help="The source's folder of large states; by default beside the SQLite file."
        ),
    ] = None,
    to_artifacts: Annotated[
        str | None,
        typer.Option(
            help="The target's folder of large states; by default beside the SQLite file."
        ),
    ] = None,
    discard_unfinished: Annotated[
        bool,
        typer.Option("--discard-unfinished", help="Replace an unfinished copy in the target."),
    ] = False,
) -> None:
    """Copy a repository to another database, such as from SQLite to PostgreSQL.

    Everything is copied: states, metrics, versions, labels and files. Counts and hashes are compared
    at the end. The same command again finishes a copy that was interrupted.
    """
    from tidegauge.repository.maintenance.backups import copy_repository
    from tidegauge.repository.store.config import artifacts_of

    with _at_any_revision(source) as old, _at_any_revision(target, new=True) as new:
        done = copy_repository(
            old,
            artifacts_of(old, artifacts),
            new,
            artifacts_of(new, to_artifacts),
            lambda line: print(line, flush=True),
            discard_unfinished=discard_unfinished,
        )
        print(f"{old.name} copied to {new.name}: {done}")


@db_app.command()
def forget(
    value: Annotated[list[str], typer.Option(help="As a histogram shows it; may be repeated.")],
    db: Db = None,
    artifacts: ArtifactsOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only print what would change.")
    ] = False,
) -> int:
    """Replace personal values by tokens in states, series and messages; report what cannot be.

    Exits with 1 if a place still holds a value. Backups are not changed, nor is your table.
    """
    with open_repository(db, artifacts, dry_run=dry_run) as repository:
        done = repository.forget(value, dry_run=dry_run)
        for place in done.left:
            print(f"left: {place}")
        print(f"{repository.database.name}: {done}")
    return TOOL_FAILED if done.left else 0


@db_app.command()
def clean(
    db: Db = None,
    artifacts: ArtifactsOption = None,
    versions: Annotated[
        str | None, typer.Option(metavar="AGE", help="Versions superseded so long ago, as in 90d.")
    ] = None,
    states: Annotated[
        str | None, typer.Option(metavar="AGE", help="Age of partitions whose states to remove.")
    ] = None,
    runs: Annotated[
        str | None, typer.Option(metavar="AGE", help="Age of runs without stored results.")
    ] = None,
    vacuum: Annotated[
        bool, typer.Option("--vacuum", help="Also make a SQLite file smaller, by rewriting it.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only print what would be removed.")
    ] = False,
) -> None:
    """Apply retention: remove data older than an age (12w, 90d, 6mo, 2y), and unreferenced files.

    States needed by windows and unsettled anomalies are kept; totals continue from stored sums.
    """
    with open_repository(db, artifacts, dry_run=dry_run) as repository:
        done = repository.clean(
            versions=versions, states=states, runs=runs, dry_run=dry_run, vacuum=vacuum
        )
        print(f"{repository.database.name}: {done}")
        if vacuum and not repository.database.is_sqlite:
            print("--vacuum changes nothing: PostgreSQL vacuums by itself (autovacuum)")
