"""The report command."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidegauge.cli.options import ArtifactsOption, Db, FormatOption, open_repository, repeated
from tidegauge.cli.output import Format, print_frame

if TYPE_CHECKING:
    from tidegauge.repository.repository import Repository


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
    with open_repository(db, artifacts, read_only=True) as repository:
        if html is not None:
            from tidegauge.report.page import write_report

            print(write_report(repository, html, dataset, since=since))
            return
        frame = repository.overview(dataset, since=since)
        print_frame(frame, form)
        if form is not Format.TABLE:
            return
        _print_resolved(repository, dataset, since, repeated(db))
        if frame["failing"].any():
            failing = frame.loc[frame["failing"] > 0, "dataset"]
            _print_failures(repository, failing.tolist(), since)


def _print_resolved(
    repository: Repository, dataset: str | None, since: str | None, options: str
) -> None:
    """Print how many incidents are over, which the overview does not count."""
    count = len(repository.incidents(dataset, status="resolved", since=since))
    if count:
        what = "1 incident is" if count == 1 else f"{count:,} incidents are"
        name = f" {shlex.quote(dataset)}" if dataset else ""
        print(
            f"\n{what} over: tidegauge anomalies list{name} --incidents --status resolved{options}"
        )


def _print_failures(repository: Repository, datasets: list[str], since: str | None) -> None:
    """Print why the current data of datasets fails by rules and checks, the newest verdicts first."""
    import pandas as pd

    from tidegauge.report.contents import VERDICTS, failed_verdicts
    from tidegauge.rules.outcome.result import failure_messages

    lines, more = [], []
    for dataset in datasets:
        found = failed_verdicts(repository, dataset, since)
        lines += [
            (dataset, row["partition"] or "the table", row["name"], why)
            for row in found[:VERDICTS]
            for why in failure_messages(str(row["result"]))
        ]
        if len(found) > VERDICTS:
            more.append(f"and {len(found) - VERDICTS:,} more verdicts of {dataset}")
    print("\nFailed rules and checks")
    print_frame(pd.DataFrame(lines, columns=["dataset", "partition", "by", "why"]), Format.TABLE)
    for line in more:
        print(line)
