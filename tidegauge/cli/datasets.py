"""Commands for datasets: list, rename, retire, drop and label them, and accept their failures."""

from __future__ import annotations

import getpass
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidegauge.analyzers.core.errors import DatabaseAccessError
from tidegauge.cli.lazy import new_app
from tidegauge.cli.options import (
    ArtifactsOption,
    By,
    Db,
    FormatOption,
    Note,
    Since,
    Until,
    open_repository,
)
from tidegauge.cli.output import Format, print_rows

if TYPE_CHECKING:
    from tidegauge.repository.repository import Repository

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
    """Give a dataset another name, with all of its history; change the name in its suite files, too."""
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
    from tidegauge.rules.outcome.known import accept_failures

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
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
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
                raise typer.BadParameter(f"{dataset}: {planned}; add --yes to drop it")
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
        msg = f"nothing was dropped, because there is no backup: {error}; --no-backup drops without one"
        raise DatabaseAccessError(msg) from error
