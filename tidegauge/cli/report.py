"""The report command."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidegauge.cli.options import (
    ArtifactsOption,
    Db,
    FormatOption,
    open_repository,
    repeated,
    target_file,
)
from tidegauge.cli.output import Format, print_rows

if TYPE_CHECKING:
    from tidegauge.repository.repository import Repository


TITLES = {
    "errors": "open errors",
    "failed": "analyzers failed",
    "failing": "checks failing",
    "failing_known": "known failures",
}
"""Headings of columns that say of what they are; CSV and JSON have the columns' names."""


def report(
    dataset: Annotated[str | None, typer.Argument(help="The dataset; all if left out.")] = None,
    db: Db = None,
    artifacts: ArtifactsOption = None,
    since: Annotated[
        str | None,
        typer.Option(
            help="Count only open incidents, missing and late partitions and failing checks that reach to"
            " this partition time or later; with --html list only such incidents, and partitions from then"
            " on. What there is"
            " (partitions, newest, rows, series, runs, what failed) is counted as a whole."
        ),
    ] = None,
    form: FormatOption = Format.TABLE,
    html: Annotated[
        Path | None,
        typer.Option(help="Write one page for mail and archives to this file, and replace it."),
    ] = None,
) -> None:
    """Print an overview, a row for each dataset, and why rules and checks fail; or write it as an HTML page."""
    if html is not None and form is not Format.TABLE:
        msg = f"--html writes a page, and --format {form} prints: give one of them"
        raise typer.BadParameter(msg)
    from tidegauge.repository.history.overview import OVERVIEW_COLUMNS, read_overview

    target_file(html)
    with open_repository(db, artifacts, read_only=True) as repository:
        if html is not None:
            from tidegauge.report.page import write_report

            print(write_report(repository, html, dataset, since=since))
            return
        rows = read_overview(repository.database, dataset, since)
        has_known = any(row["failing_known"] for row in rows)
        shown = [name for name in OVERVIEW_COLUMNS if has_known or name != "failing_known"]
        print_rows(rows, OVERVIEW_COLUMNS, form, shown, TITLES)
        if form is not Format.TABLE:
            return
        _print_resolved(repository, dataset, since, repeated(db))
        failing = [row["dataset"] for row in rows if row["failing"] or row["failing_known"]]
        if failing:
            _print_failures(repository, failing, since)


def _print_resolved(
    repository: Repository, dataset: str | None, since: str | None, options: str
) -> None:
    """Print how many incidents are over, which the overview does not count."""
    from tidegauge.repository.incidents.listing import incident_rows
    from tidegauge.repository.store.queries import Window

    with repository.database.read() as connection:
        count = len(incident_rows(connection, dataset, "resolved", Window.between(since, None)))
    if count:
        what = "1 incident is" if count == 1 else f"{count:,} incidents are"
        name = f" {shlex.quote(dataset)}" if dataset else ""
        print(
            f"\n{what} over: tidegauge anomalies list{name} --incidents --status resolved{options}"
        )


def _print_failures(repository: Repository, datasets: list[str], since: str | None) -> None:
    """Print why the current data of datasets fails by rules and checks, the newest verdicts first."""
    from tidegauge.report.contents import VERDICTS, failed_verdicts
    from tidegauge.repository.store.frames import columns
    from tidegauge.rules.outcome.result import failure_messages

    lines, more = [], []
    for dataset in datasets:
        found = failed_verdicts(repository, dataset, since)
        lines += [
            (
                dataset,
                (row["partition"] or "the table") + " (known)" * row["is_known"],
                row["name"],
                why,
            )
            for row in found[:VERDICTS]
            for why in failure_messages(str(row["result"]))
        ]
        if len(found) > VERDICTS:
            more.append(f"and {len(found) - VERDICTS:,} more verdicts of {dataset}")
    print("\nFailed rules and checks")
    shown = columns("dataset partition by why")
    print_rows([dict(zip(shown, line, strict=True)) for line in lines], shown)
    for line in more:
        print(line)
