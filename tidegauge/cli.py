"""The command line.

Exit status: 0 if all is well, 1 if tidegauge failed or was used wrongly, 2 if the data failed.
"""

from __future__ import annotations

import getpass
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from analyzers.errors import TidegaugeError, describe
from tidegauge.output import Format, print_frame

if TYPE_CHECKING:
    import pandas as pd

    from repository.artifacts import Artifacts
    from repository.database import Database
    from repository.repository import Repository

TOOL_FAILED, DATA_FAILED = 1, 2

app = typer.Typer(
    name="tidegauge",
    help="Measure tables, remember what was measured, and tell what stands out.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
anomalies_app = typer.Typer(help="What was found.", no_args_is_help=True)
db_app = typer.Typer(help="The repository's database.", no_args_is_help=True)
app.add_typer(anomalies_app, name="anomalies")
app.add_typer(db_app, name="db")
import_app = typer.Typer(help="Bring in what other tools kept.", no_args_is_help=True)
app.add_typer(import_app, name="import")

Db = Annotated[
    str | None,
    typer.Option(
        "--db",
        metavar="URL",
        help="The repository's database; else TIDEGAUGE_DB, tidegauge.toml, sqlite:///tidegauge.db.",
    ),
]
ArtifactsOption = Annotated[
    str | None,
    typer.Option("--artifacts", help="Folder for large states; else TIDEGAUGE_ARTIFACTS."),
]
FormatOption = Annotated[Format, typer.Option("--format", help="How to print it.")]
Dataset = Annotated[
    str | None, typer.Argument(help="The dataset; may be left out if there is one.")
]
Table = Annotated[str, typer.Argument(help="A table's name, or a folder (with a slash).")]
Warehouse = Annotated[
    str | None, typer.Option(help="Folder of a local warehouse with its metastore.")
]
Since = Annotated[str | None, typer.Option(help="From this partition time on.")]
AsOfOption = Annotated[
    str | None, typer.Option("--as-of", help="As known at a UTC time, or after a run.")
]
AnomalyId = Annotated[int, typer.Argument(metavar="ID", help="As `anomalies list` prints it.")]
Note = Annotated[str | None, typer.Option(help="Why.")]
By = Annotated[str | None, typer.Option(help="Who says so; the user's name if left out.")]
Until = Annotated[str | None, typer.Option(help="Up to this partition time, included.")]


def main() -> None:
    """Run the command line and exit with its status."""
    sys.exit(run_command(sys.argv[1:]))


def run_command(arguments: list[str]) -> int:
    """Run one command and return its exit status; errors are printed in one line."""
    try:
        status = app(arguments, prog_name="tidegauge", standalone_mode=False)
    except typer.TyperException as error:  # typer would exit with 2, which is for data here
        text = error.format_message().rstrip(".")
        if text:  # without any arguments the help is shown already
            _say(f"{text}; --help says more")
        return TOOL_FAILED
    except (KeyboardInterrupt, typer.Abort):
        _say("interrupted; what was committed stays, the next run goes on behind it")
        return TOOL_FAILED
    except TidegaugeError as error:
        _say(f"error: {error}")
        return TOOL_FAILED
    except Exception as error:
        if os.environ.get("TIDEGAUGE_TRACE"):
            raise
        _say(f"error: {describe(error)} (TIDEGAUGE_TRACE=1 shows where)")
        return TOOL_FAILED
    return status if isinstance(status, int) else 0


def _say(text: str) -> None:
    print(f"tidegauge: {text}", file=sys.stderr)


@contextmanager
def _open(
    url: str | None, artifacts: str | None, *, read_only: bool = False
) -> Iterator[Repository]:
    from repository.repository import Repository

    with Repository(url, artifacts=artifacts, read_only=read_only) as repository:
        yield repository


@contextmanager
def _at_any_revision(url: str | None) -> Iterator[Database]:
    """Open a database to look at its revision, or to change it."""
    from repository.config import settings
    from repository.database import Database

    database = Database.unchecked(settings(url, None)[0])
    try:
        yield database
    finally:
        database.close()


def _artifacts(database: Database, url: str | None, given: str | None) -> Artifacts:
    from repository.config import settings
    from repository.repository import artifacts_of

    return artifacts_of(database, settings(url, given)[1])


def _the_dataset(repository: Repository, name: str | None) -> str:
    if name is not None:
        return name
    there = repository.datasets()
    if len(there) != 1:
        msg = (
            f"name a dataset; there are: {', '.join(there)}" if there else "the repository is empty"
        )
        raise typer.BadParameter(msg)
    return there[0]


@app.command()
def run(
    suites: Annotated[
        list[str], typer.Argument(metavar="SUITE.yml...", help="Files, folders, globs.")
    ],
    db: Db = None,
    artifacts: ArtifactsOption = None,
    partitions: Annotated[
        str, typer.Option(help="new, all, or conditions such as 'ds>=2013-02-01'.")
    ] = "new",
    tag: Annotated[list[str] | None, typer.Option(help="key=value; may be repeated.")] = None,
    warehouse: Warehouse = None,
    rename: Annotated[bool, typer.Option("--rename", help="The tables were renamed.")] = False,
    resegment: Annotated[
        bool, typer.Option("--resegment", help="Choose anew which values are segments.")
    ] = False,
    fail_on_anomaly: Annotated[
        bool, typer.Option("--fail-on-anomaly", help="Exit with 2 if this run found anomalies.")
    ] = False,
) -> int:
    """Measure what is new in the tables of some suites, and detect what stands out."""
    from tidegauge.runs import run_suites

    with _open(db, artifacts) as repository:
        summary = run_suites(
            suites,
            repository,
            partitions,
            _tags(tag or []),
            warehouse,
            rename=rename,
            resegment=resegment,
        )
        for line in summary.lines():
            print(line)
        return summary.status(fail_on_anomaly=fail_on_anomaly)


def _tags(pairs: list[str]) -> dict[str, str]:
    for pair in pairs:
        if "=" not in pair:
            msg = f"--tag {pair!r}: write key=value"
            raise typer.BadParameter(msg)
    return dict(pair.split("=", 1) for pair in pairs)


@app.command()
def profile(
    table: Table,
    output: Annotated[
        Path | None, typer.Option(help="A file for the suite, not overwritten.")
    ] = None,
    dataset: Annotated[str | None, typer.Option(help="The dataset's name.")] = None,
    sample_rows: Annotated[
        int, typer.Option(min=1, help="About how many rows to look at.")
    ] = 100_000,
    source_format: Annotated[
        str, typer.Option("--format", help="How a folder is read.")
    ] = "parquet",
    warehouse: Warehouse = None,
) -> None:
    """Propose a suite file for a table, with a comment on each choice."""
    from tidegauge.profiler import profile as propose
    from tidegauge.session import spark_session

    if output is not None and output.exists():
        msg = f"{output} is there already; name another file"
        raise typer.BadParameter(msg)
    spark = spark_session(warehouse)
    text = propose(
        table, dataset, sample_rows=sample_rows, spark=spark, format=source_format
    ).to_yaml()
    if output is None:
        print(text, end="")
    else:
        output.write_text(text, encoding="utf-8")
        print(f"{output}: {text.count('# ')} comments, {text.count('  - ')} analyzers")


@app.command()
def explain(
    suites: Annotated[
        list[str], typer.Argument(metavar="SUITE.yml...", help="Files, folders, globs.")
    ],
    warehouse: Warehouse = None,
) -> None:
    """Say what measuring all of the suites' tables would do: jobs, passes, columns, bytes of states."""
    from tidegauge.explanation import explain as plan_of
    from tidegauge.runs import tables_of
    from tidegauge.session import spark_session
    from tidegauge.suitefile import find_suites, load_suite

    files = [load_suite(path) for path in find_suites(suites)]
    spark = spark_session(warehouse)
    for file in files:
        for one in tables_of(spark, file):
            print(plan_of(one, spark=spark))


@app.command()
def metrics(
    dataset: Dataset = None,
    db: Db = None,
    artifacts: ArtifactsOption = None,
    name: Annotated[
        str | None, typer.Option(help="A metric, or an analyzer for all it measures.")
    ] = None,
    instance: Annotated[str | None, typer.Option(help="A column, columns or rule.")] = None,
    segment: Annotated[str | None, typer.Option(help="A segment, as in country=US.")] = None,
    since: Since = None,
    until: Until = None,
    as_of: AsOfOption = None,
    window: Annotated[
        str | None, typer.Option(help="Roll-ups instead of partitions: 7d, month, total.")
    ] = None,
    form: FormatOption = Format.TABLE,
) -> None:
    """Print the history of metrics."""
    with _open(db, artifacts) as repository:
        frame = repository.metrics(
            _the_dataset(repository, dataset),
            name=name,
            instance=instance,
            segment=segment,
            since=since,
            until=until,
            as_of=_as_of(as_of),
            window=window,
        )
    shown = [
        "partition",
        "segment",
        "name",
        "instance",
        "value",
        "weight",
        "status",
        "version",
        "analyzer",
    ]
    if (frame["segment"] == "").all():
        shown.remove("segment")
    print_frame(frame, form, shown)


def _as_of(text: str | None) -> datetime | int | None:
    if text is None or text.isdigit():
        return None if text is None else int(text)
    try:
        return datetime.fromisoformat(text)
    except ValueError as error:
        msg = f"--as-of {text!r} is neither a time such as 2026-01-31T12:00 nor the number of a run"
        raise typer.BadParameter(msg) from error


@app.command()
def detect(
    dataset: Dataset = None,
    db: Db = None,
    artifacts: ArtifactsOption = None,
    since: Since = None,
    until: Until = None,
    form: FormatOption = Format.TABLE,
    fail_on_anomaly: Annotated[
        bool, typer.Option("--fail-on-anomaly", help="Exit with 2 if there are anomalies.")
    ] = False,
) -> int:
    """Score the history again, and print the anomalies."""
    with _open(db, artifacts) as repository:
        frame = repository.detect(_the_dataset(repository, dataset), since=since, until=until)
    _print_anomalies(frame, form)
    return DATA_FAILED if fail_on_anomaly and len(frame) else 0


def _label(
    number: int, label: str, note: str | None, by: str | None, db: str | None, artifacts: str | None
) -> None:
    with _open(db, artifacts) as repository:
        repository.label(number, label, note=note, by=by or getpass.getuser())
    print(f"{number}: {label}")


@anomalies_app.command()
def ack(
    number: AnomalyId,
    note: Note = None,
    by: By = None,
    db: Db = None,
    artifacts: ArtifactsOption = None,
) -> None:
    """Say that somebody looks into an anomaly or incident."""
    _label(number, "acknowledged", note, by, db, artifacts)


@anomalies_app.command()
def expect(
    number: AnomalyId,
    note: Note = None,
    by: By = None,
    db: Db = None,
    artifacts: ArtifactsOption = None,
) -> None:
    """Say that it was to be expected."""
    _label(number, "expected", note, by, db, artifacts)


@anomalies_app.command()
def resolve(
    number: AnomalyId,
    note: Note = None,
    by: By = None,
    db: Db = None,
    artifacts: ArtifactsOption = None,
) -> None:
    """Say that it is done with."""
    _label(number, "resolved", note, by, db, artifacts)


@anomalies_app.command("list")
def anomalies_list(
    dataset: Dataset = None,
    db: Db = None,
    artifacts: ArtifactsOption = None,
    status: Annotated[str | None, typer.Option(help="Only of this status, as in open.")] = None,
    since: Since = None,
    until: Until = None,
    form: FormatOption = Format.TABLE,
) -> None:
    """Print what was found, the worst first."""
    with _open(db, artifacts) as repository:
        frame = repository.anomalies(dataset, status=status, since=since, until=until)
    _print_anomalies(frame, form)


def _print_anomalies(frame: pd.DataFrame, form: Format) -> None:
    print_frame(
        frame, form, ["id", "dataset", "partition", "score", "severity", "status", "explanation"]
    )


@db_app.command()
def upgrade(db: Db = None) -> None:
    """Bring the database to the newest revision, after a backup of a SQLite file."""
    from repository.database import head_revision

    with _at_any_revision(db) as database:
        before = database.revision()
        if before == head_revision():
            print(f"{database.name} is at revision {before}, the newest")
            return
        backup = database.upgrade()
        kept = f"; the old one is kept in {backup}" if backup else ""
        print(f"{database.name} upgraded from {before} to {database.revision()}{kept}")


@db_app.command()
def downgrade(
    revision: Annotated[str, typer.Argument(help="As in 0002; `db current` says which it has.")],
    db: Db = None,
    artifacts: ArtifactsOption = None,
) -> None:
    """Take the database down to an older revision, for an older tidegauge, after a backup.

    What the older one has no place for is lost but for the backup.
    """
    from repository.backups import back_up
    from repository.database import all_revisions

    with _at_any_revision(db) as database:
        before = database.revision()
        if before is None or revision not in all_revisions() or revision >= before:
            known = ", ".join(sorted(r for r in all_revisions() if before and r < before)) or "none"
            msg = f"{revision!r} is no revision before {before or 'an empty database'}; there are: {known}"
            raise typer.BadParameter(msg)
        backup = back_up(database, _artifacts(database, db, artifacts))
        database.migrate(revision)
        print(
            f"{database.name} taken down from {before} to {revision}; the newer is kept in {backup}"
        )


@db_app.command()
def current(db: Db = None) -> None:
    """Print the database's revision, and the newest."""
    from repository.database import head_revision

    with _at_any_revision(db) as database:
        print(f"{database.revision() or 'empty'} (newest: {head_revision()})")


@db_app.command()
def check(db: Db = None, artifacts: ArtifactsOption = None) -> int:
    """Verify the database: integrity, whole batches, checksums of all states."""
    from repository.check import check as find_problems
    from repository.check import orphan_files

    with _open(db, artifacts) as repository:
        problems = find_problems(repository.database, repository.artifacts)
        for problem in problems:
            print(problem)
        orphans = orphan_files(repository.database, repository.artifacts)
        if orphans:
            print(f"{len(orphans)} files to which nothing refers; `db clean` removes them")
        print(
            f"{repository.database.name}: " + (f"{len(problems)} problems" if problems else "sound")
        )
    return TOOL_FAILED if problems else 0


@db_app.command()
def backup(
    db: Db = None,
    artifacts: ArtifactsOption = None,
    to: Annotated[Path | None, typer.Option(help="A file, not overwritten.")] = None,
) -> None:
    """Copy the repository, large states included; PostgreSQL by pg_dump."""
    from repository.backups import back_up

    with _at_any_revision(db) as database:
        if database.revision() is None:
            msg = f"{database.name} is empty"
            raise typer.BadParameter(msg)
        print(back_up(database, _artifacts(database, db, artifacts), to))


@db_app.command()
def restore(
    file: Annotated[Path, typer.Argument(help="What `db backup` wrote.")],
    db: Db = None,
    artifacts: ArtifactsOption = None,
) -> None:
    """Put a backup in the place of what the database holds, which is backed up before."""
    from repository.backups import restore as put_back

    with _at_any_revision(db) as database:
        before = put_back(database, _artifacts(database, db, artifacts), file)
        kept = f"; what it held is kept in {before}" if before else ""
        print(f"{database.name} restored from {file}, revision {database.revision()}{kept}")


@db_app.command()
def clean(
    db: Db = None,
    artifacts: ArtifactsOption = None,
    versions: Annotated[
        str | None, typer.Option(metavar="AGE", help="Versions superseded so long ago, as in 90d.")
    ] = None,
    states: Annotated[
        str | None, typer.Option(metavar="AGE", help="States of partitions of so long ago.")
    ] = None,
    runs: Annotated[
        str | None, typer.Option(metavar="AGE", help="Runs of so long ago that left nothing.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
) -> None:
    """Remove what is too old (12w, 90d, 6mo, 2y), and files to which nothing refers.

    What windows and unsettled anomalies need stays; the total goes on from what was added up.
    """
    with _open(db, artifacts) as repository:
        done = repository.clean(versions=versions, states=states, runs=runs, dry_run=dry_run)
        print(f"{repository.database.name}: {done}")


@import_app.command()
def deequ(
    file: Annotated[Path, typer.Argument(help="The JSON of a FileSystemMetricsRepository.")],
    dataset: Annotated[str, typer.Option(help="The name under which the history goes on.")],
    by: Annotated[
        list[str] | None, typer.Option(help="A tag whose values are segments; may be repeated.")
    ] = None,
    db: Db = None,
    artifacts: ArtifactsOption = None,
) -> None:
    """Read the metrics that Deequ or PyDeequ kept."""
    from repository.exchange.deequ import import_deequ

    with _open(db, artifacts) as repository:
        done = import_deequ(repository, file, dataset, tuple(by or ()))
    print(
        f"{done.dataset}: {done.results} results with {done.metrics} metrics read, {done.new} new"
    )
    for reason in done.skipped:
        _say(f"left out: {reason}")


class ExportFormat(StrEnum):
    """What can be written."""

    CSV = "csv"
    PARQUET = "parquet"
    OPENLINEAGE = "openlineage"
    PROMETHEUS = "prometheus"


@app.command()
def export(
    form: Annotated[ExportFormat, typer.Argument(metavar="csv|parquet|openlineage|prometheus")],
    dataset: Dataset = None,
    db: Db = None,
    artifacts: ArtifactsOption = None,
    output: Annotated[
        Path | None, typer.Option(help="A file; standard output if left out, but for parquet.")
    ] = None,
    since: Since = None,
    until: Until = None,
    as_of: AsOfOption = None,
    partition: Annotated[
        str | None, typer.Option(help="For openlineage; the newest if left out.")
    ] = None,
) -> None:
    """Hand metrics on: all of them as csv or parquet, the newest as openlineage or prometheus."""
    import json

    from repository.exchange import files
    from repository.exchange.openlineage import openlineage_event
    from repository.exchange.prometheus import prometheus_text

    with _open(db, artifacts, read_only=True) as repository:
        if form is ExportFormat.PROMETHEUS:
            _write(prometheus_text(repository, None if dataset is None else [dataset]), output)
            return
        name = _the_dataset(repository, dataset)
        if form is ExportFormat.OPENLINEAGE:
            event = openlineage_event(repository, name, partition)
            _write(json.dumps(event, indent=1, allow_nan=False) + "\n", output)
            return
        if form is ExportFormat.PARQUET and output is None:
            msg = "parquet needs a file: --output metrics.parquet"
            raise typer.BadParameter(msg)
        pages = repository.pages(name, since=since, until=until, as_of=_as_of(as_of))
        if output is None:
            files.write_csv(pages, sys.stdout)
            return
        write = files.csv_file if form is ExportFormat.CSV else files.parquet_file
        print(f"{output}: {write(pages, output)} rows")


def _write(text: str, output: Path | None) -> None:
    if output is None:
        sys.stdout.write(text)
    else:
        output.write_text(text, encoding="utf-8")
        print(output)


@app.command()
def doctor(db: Db = None) -> int:
    """Say what is there and what is missing, with the cure."""
    from repository.config import settings
    from tidegauge.doctor import WRONG, examine

    wrong = False
    for finding in examine(settings(db, None)[0]):
        wrong |= finding.status == WRONG
        print(f"{finding.status:<8} {finding.what}: {finding.found}")
        if finding.cure:
            print(f"{'':<8} cure: {finding.cure}")
    return TOOL_FAILED if wrong else 0


@app.command()
def demo(
    db: Db = None,
    artifacts: ArtifactsOption = None,
    folder: Annotated[Path, typer.Option(help="Where the demonstration keeps its table.")] = Path(
        "tidegauge-demo"
    ),
) -> int:
    """See it at work on real data: every flight from New York in 2013."""
    from tidegauge.demo.show import show

    started = time.monotonic()
    with _open(db, artifacts) as repository:
        status = show(repository, folder)
    print(f"\nDone in {time.monotonic() - started:.0f} s. Look around:")
    command = sys.argv[0] if "/" in sys.argv[0] else "tidegauge"
    option = "" if db is None else f" --db {db}"
    print(f"  {command} metrics flights --name Completeness --instance dep_time{option}")
    print(f"  {command} anomalies list flights{option}")
    print("Run it again: nothing is new then, so nothing is scanned.")
    return status
