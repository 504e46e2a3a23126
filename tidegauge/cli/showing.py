"""Commands that show what a repository holds: report, dashboard, metrics, export and import."""

from __future__ import annotations

import os
import re
import secrets
import shlex
from collections.abc import Mapping, Sequence
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidegauge.analyzers.core.errors import DatabaseAccessError, TidegaugeError, UnknownDatasetError
from tidegauge.analyzers.core.filesystems import write_output
from tidegauge.analyzers.core.formatting import plural
from tidegauge.cli.options import (
    ArtifactsOption,
    AsOfOption,
    CommandError,
    Dataset,
    Db,
    FormatOption,
    Since,
    Until,
    new_app,
    open_repository,
    repeated,
    say,
    target_file,
    the_dataset,
)
from tidegauge.cli.output import Format, data_output, print_rows

if TYPE_CHECKING:
    from tidegauge.repository.repository import Repository
    from tidegauge.repository.store.queries import HistoryFilter
    from tidegauge.widgets.source import DashboardConfig


TITLES = {
    "errors": "open errors",
    "failed": "analyzers failed",
    "failing": "checks failing",
    "failing_known": "known failures",
}
"""Column headings in text; CSV and JSON use the names of the columns."""


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
        msg = f"--html and --format {form} exclude each other: use one of them"
        raise CommandError(msg)
    from tidegauge.repository.history.health import read_overview
    from tidegauge.repository.store.frames import columns_of
    from tidegauge.repository.store.rows import OverviewRow

    target_file(html)
    with open_repository(db, artifacts, read_only=True) as repository:
        if html is not None:
            from tidegauge.report_page import write_report

            print(write_report(repository, html, dataset, since=since))
            return
        rows = read_overview(repository.database, dataset, since)
        has_known = any(row["failing_known"] for row in rows)
        overview = columns_of(OverviewRow)
        shown = [name for name in overview if has_known or name != "failing_known"]
        print_rows(rows, overview, form, shown, TITLES)
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
            f"\n{what} resolved: tidegauge anomalies list{name} --incidents --status resolved{options}"
        )


def _print_failures(repository: Repository, datasets: list[str], since: str | None) -> None:
    """Print why the current data of datasets fails by rules and checks, the newest verdicts first."""
    from tidegauge.report_page import MAX_VERDICTS, failed_verdicts
    from tidegauge.repository.store.frames import columns
    from tidegauge.rules.verdicts import failure_messages

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
            for row in found[:MAX_VERDICTS]
            for why in failure_messages(str(row["result"]))
        ]
        if len(found) > MAX_VERDICTS:
            more.append(f"and {len(found) - MAX_VERDICTS:,} more verdicts of {dataset}")
    print("\nFailed rules and checks")
    shown = columns("dataset partition check reason")
    print_rows([dict(zip(shown, line, strict=True)) for line in lines], shown)
    for line in more:
        print(line)


_LOOPBACK = "127.0.0.1"
_TOKEN = "TIDEGAUGE_DASHBOARD_TOKEN"  # noqa: S105 - the name of a variable

MIN_TOKEN_CHARACTERS = 16
"""Shorter tokens are warned of: nothing slows guessing."""


class Theme(StrEnum):
    """The colour theme of the page."""

    LIGHT = "light"
    DARK = "dark"


def dashboard(
    db: Db = None,
    artifacts: ArtifactsOption = None,
    dataset: Annotated[str | None, typer.Option(help="The dataset to begin with.")] = None,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Else 8866, or another that is free.")
    ] = None,
    host: Annotated[
        str,
        typer.Option(
            help="The address to listen on. At any other than this machine's own, the page needs"
            " a token and is read-only; see --no-token and --write."
        ),
    ] = _LOOPBACK,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page.")] = True,
    read_only: Annotated[bool, typer.Option("--read-only", help="Disable labelling.")] = False,
    user_header: Annotated[
        str | None,
        typer.Option(
            metavar="HEADER",
            help="The HTTP header in which a reverse proxy names the user, as in X-Forwarded-User."
            " Only the proxy may reach the page, since others could send it, too.",
        ),
    ] = None,
    write: Annotated[
        bool,
        typer.Option("--write", help="With --host: allow labelling to all who have the token."),
    ] = False,
    show_samples: Annotated[
        bool,
        typer.Option(
            "--show-samples",
            help="Show records that failed checks, as they were kept; else only their number.",
        ),
    ] = False,
    no_token: Annotated[
        bool,
        typer.Option(
            "--no-token",
            help="With --host and --user-header: a proxy in front asks for a password.",
        ),
    ] = False,
    theme: Annotated[
        Theme, typer.Option(help="Color theme; ?theme=dark in the address has the same effect.")
    ] = (Theme.LIGHT),
) -> None:
    """Serve the dashboard on this machine, and open it in the browser.

    With --host, the token is read from TIDEGAUGE_DASHBOARD_TOKEN. Otherwise a random token is printed.
    """
    if find_spec("tornado") is None:
        msg = "the dashboard needs tornado: pip install 'tidegauge[notebook]'"
        raise TidegaugeError(msg)
    from tidegauge.repository.store.config import dashboard_url, settings
    from tidegauge.widgets.server import is_loopback, serve
    from tidegauge.widgets.source import DashboardConfig

    token, given = None, ""
    if not is_loopback(host):
        read_only = read_only or not write
        if no_token and user_header is None:
            msg = (
                "--no-token leaves the password to a proxy, which has to name the user: give its"
                " header, as in --user-header X-Forwarded-User"
            )
            raise CommandError(msg)
        if no_token:
            say(f"only the proxy may reach {host}: others could send the header {user_header}, too")
        else:
            given = os.environ.pop(_TOKEN, "")
            _check_token(given)
            token = given or secrets.token_urlsafe(24)
    _check_header(user_header)
    url, folder = settings(db, artifacts)
    shown = DashboardConfig(
        url, None if folder is None else str(folder), dataset, read_only, show_samples
    )
    _check(shown)
    serve(
        shown,
        host=host,
        port=port,
        browser=browser,
        theme=theme,
        user_header=user_header,
        token=token,
        show_token=not given,  # what is printed lands in the logs of containers and services
        address=dashboard_url(),
    )


def _check_token(token: str) -> None:
    """Refuse a token that browsers or cookies would change, and warn if it can be guessed."""
    place = next((n for n, letter in enumerate(token, 1) if not "!" <= letter <= "~"), None)
    if place is not None:
        msg = (
            f"{_TOKEN} has a blank, a control character or a letter beyond ASCII in place {place} of {len(token)}:"
            " use letters, digits and signs of ASCII, such as the output of `openssl rand -hex 16`"
        )
        raise CommandError(msg)
    if 0 < len(token) < MIN_TOKEN_CHARACTERS:
        say(
            f"{_TOKEN} has {len(token)} characters, which can be guessed: use at least"
            f" {MIN_TOKEN_CHARACTERS}, such as the output of `openssl rand -hex 16`"
        )


def _check_header(name: str | None) -> None:
    if name is not None and not re.fullmatch(r"[A-Za-z0-9-]+", name):
        msg = f"--user-header {name!r} is not the name of an HTTP header, such as X-Forwarded-User"
        raise CommandError(msg)


def _check(shown: DashboardConfig) -> None:
    """Check that the repository can be opened, and has the dataset."""
    from tidegauge.repository.repository import Repository
    from tidegauge.repository.store.database import Database
    from tidegauge.repository.store.engines import check_file_exists

    database = Database.unchecked(shown.db)  # a checked opening would create it
    database.close()
    if not database.is_shared:
        msg = f"{database.name} is in memory, and empty; name a file"
        raise DatabaseAccessError(msg)
    check_file_exists(database.file)
    with Repository(shown.db, artifacts=shown.artifacts, read_only=True) as repository:
        there = repository.datasets()
        if shown.dataset is not None and shown.dataset not in there:
            raise UnknownDatasetError(shown.dataset, there)


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
                from tidegauge.repository.rollups.stored_rollups import rollup_rows

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

    with open_repository(db, artifacts, create=True) as repository:
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

    from tidegauge.repository.exchange import history_exports
    from tidegauge.repository.exchange.history_exports import openlineage_event, prometheus_text

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
            raise CommandError(msg)
        pages = repository.pages(name, since=since, until=until, as_of=as_of)
        if output is None:
            history_exports.write_csv(pages, data_output())
            return
        write = (
            history_exports.csv_file if form is ExportFormat.CSV else history_exports.parquet_file
        )
        print(f"{output}: {write(pages, output)} rows")


def _write(text: str, output: Path | None) -> None:
    if output is None:
        data_output().write(text)
    else:
        print(write_output(output, text))
