"""Commands that print, export and import metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidegauge.analyzers.core.filesystems import write_output
from tidegauge.analyzers.core.formatting import plural
from tidegauge.cli.lazy import new_app
from tidegauge.cli.options import (
    ArtifactsOption,
    AsOfOption,
    Dataset,
    Db,
    FormatOption,
    Since,
    Until,
    open_repository,
    say,
    target_file,
    the_dataset,
)
from tidegauge.cli.output import Format, data_output, print_rows

if TYPE_CHECKING:
    from tidegauge.repository.store.queries import HistoryFilter

import_app = new_app("Import metrics from other tools.")


def metrics(
    dataset: Dataset = None,
    db: Db = None,
    artifacts: ArtifactsOption = None,
    name: Annotated[
        str | None, typer.Option(help="A metric, or an analyzer for all of its metrics.")
    ] = None,
    instance: Annotated[str | None, typer.Option(help="A column, columns or rule.")] = None,
    where: Annotated[
        str | None,
        typer.Option(help="A filter of analyzers; '' for the metrics of all rows."),
    ] = None,
    segment: Annotated[str | None, typer.Option(help="A segment, as in country=US.")] = None,
    since: Since = None,
    until: Until = None,
    as_of: AsOfOption = None,
    window: Annotated[
        str | None, typer.Option(help="Roll-ups instead of partitions: 7d, month, total.")
    ] = None,
    form: FormatOption = Format.TABLE,
) -> None:
    """Print the metric history of a dataset."""
    from tidegauge.repository.store.facts import read_facts
    from tidegauge.repository.store.queries import METRIC_COLUMNS, selected

    filters: HistoryFilter = {
        "name": name,
        "instance": instance,
        "where": where,
        "segment": segment,
        "since": since,
        "until": until,
        "as_of": as_of,
    }
    rows: Sequence[Mapping[str, Any]]
    with open_repository(db, artifacts, read_only=True) as repository:
        of = the_dataset(repository, dataset)
        with selected(repository.database, of, filters) as (connection, query, when):
            if window is None:
                rows = read_facts(connection, of, query, when).records()
            else:
                from tidegauge.repository.rollups.reading import rollup_rows

                rows = rollup_rows(connection, of, window, query, when)
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
    if all(row["segment"] == "" for row in rows):
        shown.remove("segment")
    print_rows(rows, METRIC_COLUMNS, form, shown)


@import_app.command()
def deequ(
    file: Annotated[Path, typer.Argument(help="The JSON of a FileSystemMetricsRepository.")],
    dataset: Annotated[str, typer.Option(help="The dataset to import into.")],
    by: Annotated[
        list[str] | None, typer.Option(help="A tag whose values are segments; may be repeated.")
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option(help="The table's partition column for the date; may be repeated."),
    ] = None,
    date_format: Annotated[
        str | None, typer.Option("--format", help="How it writes the date: %Y-%m-%d.")
    ] = None,
    db: Db = None,
    artifacts: ArtifactsOption = None,
) -> None:
    """Import metrics from a Deequ or PyDeequ repository."""
    from tidegauge.repository.exchange.deequ import KEY, import_deequ

    with open_repository(db, artifacts) as repository:
        done = import_deequ(repository, file, dataset, by or (), key=key or KEY, format=date_format)
    print(
        f"{done.dataset}: {plural(done.results, 'result')} with {plural(done.metrics, 'metric')} read, {done.new} new"
    )
    for reason in done.skipped:
        say(f"left out: {reason}")


class ExportFormat(StrEnum):
    """An export format."""

    CSV = "csv"
    PARQUET = "parquet"
    OPENLINEAGE = "openlineage"
    PROMETHEUS = "prometheus"


def export(
    form: Annotated[ExportFormat, typer.Argument(metavar="csv|parquet|openlineage|prometheus")],
    dataset: Dataset = None,
    db: Db = None,
    artifacts: ArtifactsOption = None,
    output: Annotated[
        Path | None,
        typer.Option(help="Output file; defaults to standard output, required for parquet."),
    ] = None,
    since: Since = None,
    until: Until = None,
    as_of: AsOfOption = None,
    partition: Annotated[
        str | None, typer.Option(help="For openlineage; the newest if left out.")
    ] = None,
) -> None:
    """Export metrics: the history as csv or parquet, the newest as openlineage or prometheus."""
    import json

    from tidegauge.repository.exchange import files
    from tidegauge.repository.exchange.openlineage import openlineage_event
    from tidegauge.repository.exchange.prometheus import prometheus_text

    target_file(output)
    with open_repository(db, artifacts, read_only=True) as repository:
        if form is ExportFormat.PROMETHEUS:
            _write(prometheus_text(repository, None if dataset is None else [dataset]), output)
            return
        name = the_dataset(repository, dataset)
        if form is ExportFormat.OPENLINEAGE:
            event = openlineage_event(repository, name, partition)
            _write(json.dumps(event, indent=1, allow_nan=False) + "\n", output)
            return
        if form is ExportFormat.PARQUET and output is None:
            msg = "parquet needs a file: --output metrics.parquet"
            raise typer.BadParameter(msg)
        pages = repository.pages(name, since=since, until=until, as_of=as_of)
        if output is None:
            files.write_csv(pages, data_output())
            return
        write = files.csv_file if form is ExportFormat.CSV else files.parquet_file
        print(f"{output}: {write(pages, output)} rows")


def _write(text: str, output: Path | None) -> None:
    if output is None:
        data_output().write(text)
    else:
        print(write_output(output, text))
