"""Commands that maintain the datasets and the database of a repository.

``tidegauge dataset`` lists, renames, retires, drops and labels datasets, and accepts failures.
``tidegauge db`` upgrades, checks, backs up, copies and cleans the database.
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
from tidegauge.cli import options
from tidegauge.cli.output import Format, print_rows

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from tidegauge.repository.repository import Repository
    from tidegauge.repository.store.database import Database
    from tidegauge.repository.store.stored_states import Artifacts


datasets_app = options.new_app("List, rename, retire, label and drop datasets.")

DatasetName = Annotated[str, typer.Argument(metavar="DATASET", help="Dataset name.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only check the arguments.")]


@datasets_app.command("list")
def datasets_list(
    location: options.RepositoryLocation,
    output_format: options.FormatOption = Format.TABLE,
) -> None:
    """List all datasets, including retired ones, with their tables, partitions and last runs."""
    from tidegauge.repository.store.listing import DATASET_COLUMNS, dataset_rows

    with (
        location.open(read_only=True) as repository,
        repository.database.read() as connection,
    ):
        rows = dataset_rows(connection)
    print_rows(rows, DATASET_COLUMNS, output_format)


@datasets_app.command()
def retire(
    dataset: DatasetName,
    location: options.RepositoryLocation,
    note: options.Note = None,
    author: options.Author = None,
    dry_run: DryRun = False,
) -> None:
    """Retire a dataset: keep its history, and no longer count it as failed, missing or overdue."""
    with location.open(dry_run=dry_run) as repository:
        repository.retire(dataset, note=note, by=author or getpass.getuser(), dry_run=dry_run)
    verb = "would be" if dry_run else "is"
    print(f"{dataset} {verb} retired; `tidegauge dataset revive` reverses this")


@datasets_app.command()
def revive(
    dataset: DatasetName,
    location: options.RepositoryLocation,
    note: options.Note = None,
    author: options.Author = None,
    dry_run: DryRun = False,
) -> None:
    """Reactivate a retired dataset."""
    with location.open(dry_run=dry_run) as repository:
        repository.revive(dataset, note=note, by=author or getpass.getuser(), dry_run=dry_run)
    print(f"{dataset} {'would be' if dry_run else 'is'} active again")


@datasets_app.command()
def rename(
    dataset: DatasetName,
    new: Annotated[str, typer.Argument(metavar="NEW", help="New name.")],
    location: options.RepositoryLocation,
    dry_run: DryRun = False,
) -> None:
    """Rename a dataset with all of its history; change the name in its suite files as well."""
    with location.open(dry_run=dry_run) as repository:
        repository.rename(dataset, new, dry_run=dry_run)
    print(
        f"{dataset} {'would be renamed' if dry_run else 'was renamed'} to {new}; change the name in its suite files"
    )
    if not dry_run:
        undo = shlex.join(["tidegauge", "dataset", "rename", "--", new, dataset])
        print(f"To undo: {undo}", file=sys.stderr)


@datasets_app.command()
def accept(
    dataset: DatasetName,
    partition: Annotated[
        str,
        typer.Argument(
            metavar="PARTITION",
            help="Partition, such as ds=2026-01-01; '' for an unpartitioned table.",
        ),
    ],
    location: options.RepositoryLocation,
    name: Annotated[
        str | None,
        typer.Option(help="Only the verdict of this name (default: all failed verdicts)."),
    ] = None,
    note: options.Note = None,
    author: options.Author = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only list the failures to accept.")
    ] = False,
) -> None:
    """Accept failed checks and rules on a partition until its data or the checks and rules change."""
    from tidegauge.rules.known_failures import accept_failures

    labelled_by = author or getpass.getuser()
    with location.open(dry_run=dry_run) as repository:
        accepted = accept_failures(
            repository, dataset, partition, name=name, note=note, by=labelled_by, dry_run=dry_run
        )
    for failure in accepted:
        print(f"{'would be accepted' if dry_run else 'accepted'}: {failure}")


@datasets_app.command()
def label(
    dataset: DatasetName,
    label_name: Annotated[
        str,
        typer.Argument(
            metavar="LABEL", help="Label: bad, ignore, expected, rebaseline or reopened."
        ),
    ],
    location: options.RepositoryLocation,
    since: options.Since = None,
    until: options.Until = None,
    note: options.Note = None,
    author: options.Author = None,
    dry_run: DryRun = False,
) -> None:
    """Label a time range of a dataset. Most labels exclude it from training and mark its failures as known."""
    with location.open(dry_run=dry_run) as repository:
        repository.label_range(
            dataset,
            label_name,
            since=since,
            until=until,
            note=note,
            by=author or getpass.getuser(),
            dry_run=dry_run,
        )
    would = "would label " if dry_run else ""
    print(
        f"{would}{dataset} from {since or 'the first'} to {until or 'the last partition'}: {label_name}"
    )


@datasets_app.command()
def drop(
    dataset: DatasetName,
    location: options.RepositoryLocation,
    partition: Annotated[
        str | None, typer.Option(help="Only this partition, such as ds=2026-01-01 (default: all).")
    ] = None,
    analyzer: Annotated[
        str | None,
        typer.Option(
            help="Only the series of this analyzer, such as \"Histogram('k')\" (default: all)."
        ),
    ] = None,
    segment: Annotated[
        str | None,
        typer.Option(
            help="With --analyzer: only this segment, such as country=US; '' for the series of all rows (default: all)."
        ),
    ] = None,
    generation: Annotated[
        str | None,
        typer.Option(
            help="With --analyzer: only metrics and states while the column had this type, such as 'k is a text'"
            " (default: all)."
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only print what would be removed.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    backup: Annotated[
        bool, typer.Option("--backup/--no-backup", help="Back up the database first.")
    ] = True,
) -> None:
    """Drop a dataset, a partition or series from the repository; tables are not changed.

    The database is backed up first, and `tidegauge db restore` restores it. If the table and the suite still
    contain the dropped partitions and analyzers, the next run measures them again.
    """
    selection = {
        "partition": partition,
        "analyzer": analyzer,
        "segment": segment,
        "generation": generation,
    }
    with location.open(dry_run=dry_run) as repository:
        if dry_run:
            print(f"{dataset}: {repository.drop(dataset, **selection, dry_run=True)}")
            return
        if not yes:
            planned = repository.drop(dataset, **selection, dry_run=True)
            if not sys.stdin.isatty():
                raise options.CommandError(
                    f"{dataset}: {planned}; add --yes to drop without confirmation"
                )
            backup_note = (
                "The database is backed up first" if backup else "The database is not backed up"
            )
            if not typer.confirm(f"{dataset}: {planned}. {backup_note}. Continue?"):
                raise options.CommandError(f"{dataset}: nothing was dropped")
        backup_file = _back_up_before_drop(repository) if backup else None
        print(f"{dataset}: {repository.drop(dataset, **selection, dry_run=False)}")
        if backup_file is not None:
            print(
                f"To undo this and all later changes: tidegauge db restore {backup_file}",
                file=sys.stderr,
            )


def _back_up_before_drop(repository: Repository) -> Path:
    """Back up the whole database before something is dropped."""
    from tidegauge.repository.maintenance.backups import back_up

    try:
        return back_up(repository.database, repository.artifacts)
    except DatabaseAccessError as error:
        msg = f"nothing was dropped, because the backup failed: {error}; use --no-backup to drop without a backup"
        raise DatabaseAccessError(msg) from error


db_app = options.new_app("Upgrade, check, back up, copy and clean the database.")


@contextmanager
def _open_at_any_revision(
    url: str | None, *, new: bool = False, may_be_damaged: bool = False
) -> Iterator[Database]:
    """Open a database at any revision.

    Parameters
    ----------
    url : str or None
    new : bool
        Whether a SQLite file may be missing; it is then created.
    may_be_damaged : bool
        Whether to open the database without checks, to restore it.
    """
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
def _open_to_check(
    location: options.RepositoryLocation,
) -> Iterator[tuple[str, Connection, Artifacts]]:
    """Yield the database's name, a connection and the large states; upgrade a copy of an older database."""
    from tidegauge.repository.maintenance.backups import upgraded_copy
    from tidegauge.repository.store.database import Database, all_revisions

    with (
        _open_at_any_revision(location.db, new=True) as database,
        TemporaryDirectory(prefix="tidegauge-") as folder,
    ):
        file = database.file
        missing = file is not None and not file.exists()
        if missing or database.revision() not in all_revisions()[1:]:
            with (
                location.open(read_only=True) as repository,
                repository.database.read() as connection,
            ):
                yield database.name, connection, repository.artifacts
            return
        stored = _open_artifacts(database, location)
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
    """Print the unfinished files of killed or running backups and upgrades."""
    for file in database.unfinished_backups():
        print(
            f"{file} is an unfinished file of a backup or upgrade; delete it unless one is running"
        )


def _open_artifacts(database: Database, location: options.RepositoryLocation) -> Artifacts:
    from tidegauge.repository.store.config import artifacts_of, settings

    return artifacts_of(database, settings(location.db, location.artifacts)[1])


@db_app.command()
def upgrade(db: options.Db = None) -> None:
    """Upgrade the database schema to the newest revision; a SQLite file is backed up first."""
    from tidegauge.repository.store.database import head_revision

    with _open_at_any_revision(db, new=True) as database:
        previous_revision = database.revision()
        if previous_revision == head_revision():
            print(f"{database.name} is at revision {previous_revision}, the newest")
            _print_leftovers(database)
            return
        backup = database.upgrade()
        backup_text = f"; the old database is kept in {backup}" if backup else ""
        print(
            f"{database.name} upgraded from {previous_revision} to {database.revision()}{backup_text}"
        )
        _print_leftovers(database)


@db_app.command()
def downgrade(
    revision: Annotated[
        str,
        typer.Argument(
            help="Older revision, such as 0002; `db current` prints the present revision."
        ),
    ],
    location: options.RepositoryLocation,
) -> None:
    """Downgrade the database schema to an older revision, for an older tidegauge; backs up first.

    Data that the older revision cannot store is lost, except in the backup.
    """
    from tidegauge.repository.maintenance.backups import back_up
    from tidegauge.repository.store.database import all_revisions

    with _open_at_any_revision(location.db) as database:
        previous_revision = database.revision()
        database.require_known(previous_revision)
        if revision == previous_revision:  # for example after a killed downgrade
            print(f"{database.name} is already at revision {revision}")
            return
        older_revisions = sorted(
            r for r in all_revisions() if previous_revision and r < previous_revision
        )
        if revision not in older_revisions:
            listed = ", ".join(older_revisions) or "none"
            msg = f"Invalid revision {revision!r}: revisions before {previous_revision or 'an empty database'} are {listed}"
            raise options.CommandError(msg)
        backup = back_up(database, _open_artifacts(database, location))
        row_counts = database.row_counts()
        database.migrate(revision)
        print(
            f"{database.name} downgraded from {previous_revision} to {revision}; the newer database is kept in {backup}"
        )
        for table in sorted(row_counts.keys() - database.row_counts().keys()):
            print(f"removed, but kept in the backup: {row_counts[table]} rows of {table}")


@db_app.command()
def current(db: options.Db = None) -> None:
    """Print the database's revision and the newest revision."""
    from tidegauge.repository.store.database import UNFINISHED_REVISION, head_revision

    with _open_at_any_revision(db, new=True) as database:
        missing = database.file is not None and not database.file.exists()  # connecting makes it
        revision = None if missing else database.revision()
        if revision == UNFINISHED_REVISION:
            print(database.unfinished_message())
            return
        print(f"{revision or 'empty'} (newest: {head_revision()})")


@db_app.command()
def check(location: options.RepositoryLocation) -> int:
    """Verify the database: integrity, complete batches, checksums of all states.

    For a database of an older release, this command checks an upgraded copy, before you upgrade.
    """
    from tidegauge.repository.maintenance.integrity import find_problems, orphan_files

    with _open_to_check(location) as (name, connection, stored):
        problems = find_problems(connection, stored)
        for problem in problems:
            print(problem)
        orphans = orphan_files(connection, stored)
        if orphans:
            print(f"{plural(len(orphans), 'file')} without references; `db clean` removes them")
        with _open_at_any_revision(location.db) as database:
            _print_leftovers(database)
        print(f"{name}: " + (plural(len(problems), "problem") if problems else "no problems found"))
    return options.TOOL_FAILED if problems else 0


@db_app.command()
def backup(
    location: options.RepositoryLocation,
    to: Annotated[
        Path | None,
        typer.Option(
            help="Backup file, which must not exist (default: a timestamped file next to the SQLite file, or in the current folder)."
        ),
    ] = None,
) -> None:
    """Back up the repository, including large states; PostgreSQL with pg_dump."""
    from tidegauge.repository.maintenance.backups import back_up

    with _open_at_any_revision(location.db) as database:
        if database.revision() is None:
            msg = f"{database.name} is empty; there is nothing to back up"
            raise options.CommandError(msg)
        print(back_up(database, _open_artifacts(database, location), to))


@db_app.command()
def restore(
    file: Annotated[Path, typer.Argument(help="Backup file, as written by `db backup`.")],
    location: options.RepositoryLocation,
) -> None:
    """Restore a backup; the current contents are backed up first."""
    from tidegauge.repository.maintenance.backups import restore as put_back

    with _open_at_any_revision(location.db, new=True, may_be_damaged=True) as database:
        safety_backup = put_back(database, _open_artifacts(database, location), file)
        backup_text = f"; its previous content is kept in {safety_backup}" if safety_backup else ""
        print(f"{database.name} restored from {file}, revision {database.revision()}{backup_text}")


@db_app.command()
def copy(
    source: Annotated[
        str, typer.Argument(metavar="SOURCE_URL", help="URL of the repository to copy.")
    ],
    target: Annotated[str, typer.Argument(metavar="TARGET_URL", help="URL of an empty database.")],
    artifacts: Annotated[
        str | None,
        typer.Option(
            help="The source's folder for large states (default: next to the SQLite file)."
        ),
    ] = None,
    to_artifacts: Annotated[
        str | None,
        typer.Option(
            help="The target's folder for large states (default: next to the SQLite file)."
        ),
    ] = None,
    discard_unfinished: Annotated[
        bool,
        typer.Option("--discard-unfinished", help="Replace an unfinished copy in the target."),
    ] = False,
) -> None:
    """Copy a repository to another database, such as from SQLite to PostgreSQL.

    The copy has all states, metrics, versions, labels and files. Counts and hashes are compared at the end.
    To finish an interrupted copy, run the same command again.
    """
    from tidegauge.repository.maintenance.backups import copy_repository
    from tidegauge.repository.store.config import artifacts_of

    with _open_at_any_revision(source) as old, _open_at_any_revision(target, new=True) as new:
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
    value: Annotated[
        list[str],
        typer.Option(help="Value to replace, as a histogram shows it; can be repeated."),
    ],
    location: options.RepositoryLocation,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only print what would change.")
    ] = False,
) -> int:
    """Replace personal values by tokens in states, series and messages.

    If a value remains somewhere, the command prints the location and exits with 1. Backups and your table
    are not changed.
    """
    with location.open(dry_run=dry_run) as repository:
        done = repository.forget(value, dry_run=dry_run)
        for place in done.unreplaced:
            print(f"remaining: {place}")
        print(f"{repository.database.name}: {done}")
    return options.TOOL_FAILED if done.unreplaced else 0


@db_app.command()
def clean(
    location: options.RepositoryLocation,
    versions: Annotated[
        str | None,
        typer.Option(
            metavar="AGE",
            help="Remove versions that were superseded longer ago than this, such as 90d (default: keep all).",
        ),
    ] = None,
    states: Annotated[
        str | None,
        typer.Option(
            metavar="AGE", help="Remove states of partitions older than this (default: keep all)."
        ),
    ] = None,
    runs: Annotated[
        str | None,
        typer.Option(
            metavar="AGE",
            help="Remove runs without stored results that are older than this (default: keep all).",
        ),
    ] = None,
    vacuum: Annotated[
        bool, typer.Option("--vacuum", help="Also shrink a SQLite file by rewriting it.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only print what would be removed.")
    ] = False,
) -> None:
    """Apply retention: remove data older than an age (12w, 90d, 6mo, 2y), and unreferenced files.

    States that windows and unresolved anomalies need are kept. Totals continue from stored sums.
    """
    with location.open(dry_run=dry_run) as repository:
        done = repository.clean(
            versions=versions, states=states, runs=runs, dry_run=dry_run, vacuum=vacuum
        )
        print(f"{repository.database.name}: {done}")
        if vacuum and not repository.database.is_sqlite:
            print("--vacuum has no effect: PostgreSQL vacuums automatically (autovacuum)")
