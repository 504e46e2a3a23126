"""Commands on the consistency of features."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidegauge.options import (
    ArtifactsOption,
    Dataset,
    Db,
    Since,
    Until,
    Warehouse,
    open_repository,
    say,
    the_dataset,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

consistency_app = typer.Typer(
    help="Whether features that were served are those that were trained on.", no_args_is_help=True
)
ConfFile = Annotated[Path, typer.Argument(metavar="CONF.yml", help="How a join is compared.")]


@consistency_app.command()
def run(
    conf: ConfFile,
    db: Db = None,
    artifacts: ArtifactsOption = None,
    since: Annotated[str | None, typer.Option(help="The first day, as 2023-01-05.")] = None,
    until: Annotated[str | None, typer.Option(help="The last day; yesterday if left out.")] = None,
    recompute: Annotated[
        bool, typer.Option("--recompute", help="Compare all days again, not only what changed.")
    ] = False,
    warehouse: Warehouse = None,
) -> int:
    """Flatten, backfill, compare and measure what is new, and remember it."""
    from tidegauge.consistency import run as run_consistency

    with open_repository(db, artifacts) as repository:
        done = run_consistency(
            conf, repository=repository, spark=_session(warehouse),
            since=since, until=until, recompute=recompute,
        )  # fmt: skip
        print(done)
        if done.reports:
            for headline in repository.incidents(done.dataset, status="open").headline:
                print(f"  {headline}")
        for bad in done.flattened.samples:
            say(f"could not be read, {bad.ds}: {bad.reason} ({bad.part or 'the query'})")
    return 0


@consistency_app.command()
def clean(
    namespace: Annotated[str, typer.Argument(help="The database of the query log.")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be dropped.")
    ] = False,
    warehouse: Warehouse = None,
) -> int:
    """Drop the days of a query log that are older than it keeps them."""
    from tidegauge.consistency import clean as clean_log

    done = clean_log(_session(warehouse), namespace, dry_run=dry_run)
    for name in done.dropped:
        print(name)
    say(str(done))
    return 0


@consistency_app.command()
def export(
    file: Annotated[Path, typer.Argument(metavar="FILE.jsonl", help="Where to write.")],
    dataset: Dataset = None,
    db: Db = None,
    artifacts: ArtifactsOption = None,
    since: Since = None,
    until: Until = None,
) -> int:
    """Write metrics as JSON lines, a day each, for a key-value store to serve."""
    from repository.exchange.consistency import consistency_file

    with open_repository(db, artifacts, read_only=True) as repository:
        name = the_dataset(repository, dataset)
        count = consistency_file(repository, name, file, since=since, until=until)
        say(f"{file}: {count} days of {name}")
    return 0


def _session(warehouse: str | None) -> SparkSession:
    from tidegauge.session import spark_session

    return spark_session(warehouse)
