"""The report command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tidegauge.cli.options import ArtifactsOption, Db, FormatOption, open_repository
from tidegauge.cli.output import Format, print_frame


def report(
    dataset: Annotated[str | None, typer.Argument(help="The dataset; all if left out.")] = None,
    db: Db = None,
    artifacts: ArtifactsOption = None,
    since: Annotated[
        str | None,
        typer.Option(
            help="Count only open incidents, missing and late partitions that reach to this partition time"
            " or later; with --html list only such incidents, and partitions from then on. What there is"
            " (partitions, newest, rows, series, runs, what failed) is counted as a whole."
        ),
    ] = None,
    form: FormatOption = Format.TABLE,
    html: Annotated[
        Path | None,
        typer.Option(help="Write one page for mail and archives to this file, and replace it."),
    ] = None,
) -> None:
    """Print an overview with open incidents, a row for each dataset; or write it as an HTML page."""
    if html is not None and form is not Format.TABLE:
        msg = f"--html writes a page, and --format {form} prints: give one of them"
        raise typer.BadParameter(msg)
    with open_repository(db, artifacts, read_only=True) as repository:
        if html is not None:
            from tidegauge.report.page import write_report

            print(write_report(repository, html, dataset, since=since))
            return
        frame = repository.overview(dataset, since=since)
    print_frame(frame, form)
