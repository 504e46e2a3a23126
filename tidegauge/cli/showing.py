"""Commands that show, export and import the contents of a repository."""

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
from tidegauge.cli import options
from tidegauge.cli.output import Format, data_output, print_rows

if TYPE_CHECKING:
    from tidegauge.repository.repository import Repository
    from tidegauge.repository.store.queries import HistoryFilter
    from tidegauge.widgets.backend import DashboardConfig


COLUMN_TITLES = {
    "errors": "open errors",
    "failed": "analyzers failed",
    "failing": "checks failing",
    "failing_known": "known failures",
}
"""Column headings of a table; CSV and JSON use the names of the columns."""


def report(
    location: options.RepositoryLocation,
    dataset: Annotated[
        str | None, typer.Argument(help="Dataset name (default: all datasets).")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            help="Count only open incidents, missing and late partitions and failing checks at this partition"
            " time or later; --html also lists only these incidents and later partitions. Other columns count"
            " the whole history (default: no limit)."
        ),
    ] = None,
    output_format: options.FormatOption = Format.TABLE,
    html: Annotated[
        Path | None,
        typer.Option(
            help="Write the report to this HTML file, replacing an existing one (default: print a table)."
        ),
    ] = None,
) -> None:
    """Print an overview of all datasets and their failed rules and checks, or write it as an HTML page."""
    if html is not None and output_format is not Format.TABLE:
        msg = f"--html and --format {output_format} exclude each other: use one of them"
        raise options.CommandError(msg)
    from tidegauge.repository.history.health import read_overview
    from tidegauge.repository.store.frames import columns_of
    from tidegauge.repository.store.rows import OverviewRow

    options.check_target_file(html)
    with location.open(read_only=True) as repository:
        if html is not None:
            from tidegauge.report_page import write_report

            print(write_report(repository, html, dataset, since=since))
            return
        rows = read_overview(repository.database, dataset, since)
        has_known = any(row["failing_known"] for row in rows)
        overview = columns_of(OverviewRow)
        visible = [name for name in overview if has_known or name != "failing_known"]
        print_rows(rows, overview, output_format, visible, COLUMN_TITLES)
        if output_format is not Format.TABLE:
            return
        if dataset is None:
            _print_coverage(repository)
        _print_resolved_count(repository, dataset, since, location.option)
        failing = [row["dataset"] for row in rows if row["failing"] or row["failing_known"]]
        if failing:
            _print_failures(repository, failing, since)


def _print_coverage(repository: Repository) -> None:
    """Print how many tables are watched, measured by suites, checked, and not seen, if any are watched."""
    from tidegauge.repository.store.listing import coverage_words

    with repository.database.read() as connection:
        words = coverage_words(connection)
    if words:
        print(f"\ncoverage: {words}")


def _print_resolved_count(
    repository: Repository, dataset: str | None, since: str | None, db_options: str
) -> None:
    """Print the number of resolved incidents, which the overview does not count."""
    from tidegauge.repository.incidents.listing import incident_rows
    from tidegauge.repository.store.queries import Window

    with repository.database.read() as connection:
        count = len(incident_rows(connection, dataset, "resolved", Window.between(since, None)))
    if count:
        incidents_text = "1 incident is" if count == 1 else f"{count:,} incidents are"
        name = f" {shlex.quote(dataset)}" if dataset else ""
        print(
            f"\n{incidents_text} resolved: tidegauge anomalies list{name} --incidents --status resolved{db_options}"
        )


def _print_failures(repository: Repository, datasets: list[str], since: str | None) -> None:
    """Print why the current data of datasets fails rules and checks, the newest verdicts first."""
    from tidegauge.repository.store.frames import columns
    from tidegauge.rules.judging import MAX_VERDICTS, current_failures
    from tidegauge.rules.verdicts import failure_messages

    lines, omitted = [], []
    for dataset in datasets:
        verdicts = current_failures(repository, dataset, since)
        lines += [
            (
                dataset,
                (row["partition"] or "the table") + " (known)" * row["is_known"],
                row["name"],
                why,
            )
            for row in verdicts[:MAX_VERDICTS]
            for why in failure_messages(str(row["result"]))
        ]
        if len(verdicts) > MAX_VERDICTS:
            omitted.append(f"and {len(verdicts) - MAX_VERDICTS:,} more verdicts of {dataset}")
    print("\nFailed rules and checks")
    column_types = columns("dataset partition check reason")
    print_rows([dict(zip(column_types, line, strict=True)) for line in lines], column_types)
    for line in omitted:
        print(line)


_LOOPBACK_ADDRESS = "127.0.0.1"
_TOKEN_VARIABLE = "TIDEGAUGE_DASHBOARD_TOKEN"  # noqa: S105 - the name of a variable

MIN_TOKEN_CHARACTERS = 16
"""Minimum token length without a warning, because nothing slows down guessing."""


class Theme(StrEnum):
    """The color theme of the page."""

    LIGHT = "light"
    DARK = "dark"


def dashboard(
    location: options.RepositoryLocation,
    dataset: Annotated[
        str | None, typer.Option(help="Dataset to show first (default: the overview).")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=65535,
            help="Port to listen on (default: 8866, or the next free port).",
        ),
    ] = None,
    host: Annotated[
        str,
        typer.Option(
            help="Address to listen on. Addresses other than this machine's own require a token and are"
            " read-only; see --no-token and --write."
        ),
    ] = _LOOPBACK_ADDRESS,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the page in the browser.")
    ] = True,
    read_only: Annotated[bool, typer.Option("--read-only", help="Do not allow labeling.")] = False,
    user_header: Annotated[
        str | None,
        typer.Option(
            metavar="HEADER",
            help="HTTP header in which a reverse proxy sends the user name, such as X-Forwarded-User. Only the"
            " proxy may have access to the page, because other clients could forge the header (default: none).",
        ),
    ] = None,
    write: Annotated[
        bool,
        typer.Option("--write", help="With --host: allow everyone who has the token to label."),
    ] = False,
    show_samples: Annotated[
        bool,
        typer.Option(
            "--show-samples",
            help="Show stored sample records that failed checks (default: only their number).",
        ),
    ] = False,
    no_token: Annotated[
        bool,
        typer.Option(
            "--no-token",
            help="With --host and --user-header: do not ask for a token, because a reverse proxy authenticates users.",
        ),
    ] = False,
    theme: Annotated[
        Theme, typer.Option(help="Color theme; ?theme=dark in the URL overrides it.")
    ] = (Theme.LIGHT),
) -> None:
    """Serve the dashboard, and open it in the browser.

    With --host, the token is read from TIDEGAUGE_DASHBOARD_TOKEN. If the variable is not set, a random token
    is printed.
    """
    if find_spec("tornado") is None:
        msg = "the dashboard needs tornado: pip install 'tidegauge[notebook]'"
        raise TidegaugeError(msg)
    from tidegauge.repository.store.config import dashboard_url, settings
    from tidegauge.widgets.backend import DashboardConfig
    from tidegauge.widgets.server import is_loopback, serve

    token, configured_token = None, ""
    if not is_loopback(host):
        read_only = read_only or not write
        if no_token and user_header is None:
            msg = (
                "--no-token requires a proxy that authenticates users: name its header, such as"
                " --user-header X-Forwarded-User"
            )
            raise options.CommandError(msg)
        if no_token:
            options.print_message(
                f"make sure that only the proxy can reach {host}: other clients could forge the header {user_header}"
            )
        else:
            configured_token = os.environ.pop(_TOKEN_VARIABLE, "")
            _check_token(configured_token)
            token = configured_token or secrets.token_urlsafe(24)
    _check_header(user_header)
    url, folder = settings(location.db, location.artifacts)
    config = DashboardConfig(
        url, None if folder is None else str(folder), dataset, read_only, show_samples
    )
    _check_repository(config)
    serve(
        config,
        host=host,
        port=port,
        browser=browser,
        theme=theme,
        user_header=user_header,
        token=token,
        show_token=not configured_token,  # a configured token must not appear in logs of containers
        address=dashboard_url(),
    )


def _check_token(token: str) -> None:
    """Reject a token that browsers or cookies would change, and warn if it is easy to guess."""
    position = next((n for n, letter in enumerate(token, 1) if not "!" <= letter <= "~"), None)
    if position is not None:
        msg = (
            f"{_TOKEN_VARIABLE} has a blank, a control character or a non-ASCII character at position {position} of {len(token)}:"
            " use ASCII letters, digits and symbols, such as the output of `openssl rand -hex 16`"
        )
        raise options.CommandError(msg)
    if 0 < len(token) < MIN_TOKEN_CHARACTERS:
        options.print_message(
            f"{_TOKEN_VARIABLE} has only {len(token)} characters and is easy to guess: use at least"
            f" {MIN_TOKEN_CHARACTERS}, such as the output of `openssl rand -hex 16`"
        )


def _check_header(name: str | None) -> None:
    if name is not None and not re.fullmatch(r"[A-Za-z0-9-]+", name):
        msg = f"Invalid HTTP header {name!r} of --user-header: use a name such as X-Forwarded-User."
        raise options.CommandError(msg)


def _check_repository(config: DashboardConfig) -> None:
    """Check that the repository can be opened and contains the dataset."""
    from tidegauge.repository.repository import Repository
    from tidegauge.repository.store.database import Database
    from tidegauge.repository.store.engines import check_file_exists

    database = Database.unchecked(config.db)  # opening it with checks would create the file
    database.close()
    if not database.is_shared:
        msg = f"{database.name} is an empty database in memory; use a file"
        raise DatabaseAccessError(msg)
    check_file_exists(database.file)
    with Repository(config.db, artifacts=config.artifacts, read_only=True) as repository:
        datasets = repository.datasets()
        if config.dataset is not None and config.dataset not in datasets:
            raise UnknownDatasetError(config.dataset, datasets)


import_app = options.new_app("Import metrics from other tools.")


def metrics(
    location: options.RepositoryLocation,
    dataset: options.Dataset = None,
    name: Annotated[
        str | None,
        typer.Option(help="Only this metric, or all metrics of this analyzer (default: all)."),
    ] = None,
    instance: Annotated[
        str | None, typer.Option(help="Only this column, columns or rule (default: all).")
    ] = None,
    where: Annotated[
        str | None,
        typer.Option(
            help="Only metrics with this filter; '' for metrics without a filter (default: all)."
        ),
    ] = None,
    segment: Annotated[
        str | None, typer.Option(help="Only this segment, such as country=US (default: all).")
    ] = None,
    since: options.Since = None,
    until: options.Until = None,
    as_of: options.AsOfOption = None,
    window: Annotated[
        str | None,
        typer.Option(
            help="Roll up partitions by window: 7d, month or total (default: one row per partition)."
        ),
    ] = None,
    output_format: options.FormatOption = Format.TABLE,
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
    with location.open(read_only=True) as repository:
        dataset_name = options.resolve_dataset(repository, dataset)
        with selected(repository.database, dataset_name, filters) as (
            connection,
            query,
            as_of_moment,
        ):
            if window is None:
                rows = read_facts(connection, dataset_name, query, as_of_moment).records()
            else:
                from tidegauge.repository.rollups.stored_rollups import rollup_rows

                rows = rollup_rows(connection, dataset_name, window, query, as_of_moment)
    visible = [
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
        visible.remove("segment")
    print_rows(rows, METRIC_COLUMNS, output_format, visible)


@import_app.command()
def deequ(
    file: Annotated[Path, typer.Argument(help="JSON file of a FileSystemMetricsRepository.")],
    dataset: Annotated[str, typer.Option(help="Dataset to import into.")],
    location: options.RepositoryLocation,
    segment_tags: Annotated[
        list[str] | None,
        typer.Option(
            "--by", help="Tag whose values become segments; can be repeated (default: none)."
        ),
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option(
            help="Partition column for the date; can be repeated (default: dataset_date)."
        ),
    ] = None,
    date_format: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="Format of the date in partition names, such as %Y-%m-%d (default: as in 2026-01-31T00:00:00.000Z).",
        ),
    ] = None,
) -> None:
    """Import metrics from a Deequ or PyDeequ repository."""
    from tidegauge.repository.exchange import DATE_KEY, import_deequ

    with location.open(create=True) as repository:
        done = import_deequ(
            repository, file, dataset, segment_tags or (), key=key or DATE_KEY, format=date_format
        )
    print(
        f"{done.dataset}: {plural(done.results, 'result')} with {plural(done.metrics, 'metric')} read, {done.new} new"
    )
    for reason in done.skipped:
        options.print_message(f"skipped: {reason}")


class ExportFormat(StrEnum):
    """An export format."""

    CSV = "csv"
    PARQUET = "parquet"
    OPENLINEAGE = "openlineage"
    PROMETHEUS = "prometheus"


def export(
    export_format: Annotated[
        ExportFormat,
        typer.Argument(metavar="csv|parquet|openlineage|prometheus", help="Export format."),
    ],
    location: options.RepositoryLocation,
    dataset: options.Dataset = None,
    output: Annotated[
        Path | None,
        typer.Option(help="Output file (default: standard output; required for parquet)."),
    ] = None,
    since: options.Since = None,
    until: options.Until = None,
    as_of: options.AsOfOption = None,
    partition: Annotated[
        str | None, typer.Option(help="For openlineage: partition to export (default: the newest).")
    ] = None,
) -> None:
    """Export metrics: the history as csv or parquet, or the newest values as openlineage or prometheus."""
    import json

    from tidegauge.repository import exchange

    options.check_target_file(output)
    with location.open(read_only=True) as repository:
        if export_format is ExportFormat.PROMETHEUS:
            _write_text(
                exchange.prometheus_text(repository, None if dataset is None else [dataset]), output
            )
            return
        name = options.resolve_dataset(repository, dataset)
        if export_format is ExportFormat.OPENLINEAGE:
            event = exchange.openlineage_event(repository, name, partition)
            _write_text(json.dumps(event, indent=1, allow_nan=False) + "\n", output)
            return
        if export_format is ExportFormat.PARQUET and output is None:
            msg = "parquet needs a file: --output metrics.parquet"
            raise options.CommandError(msg)
        pages = repository.pages(name, since=since, until=until, as_of=as_of)
        if output is None:
            exchange.write_csv(pages, data_output())
            return
        write = exchange.csv_file if export_format is ExportFormat.CSV else exchange.parquet_file
        print(f"{output}: {write(pages, output)} rows")


def _write_text(text: str, output: Path | None) -> None:
    if output is None:
        data_output().write(text)
    else:
        print(write_output(output, text))
