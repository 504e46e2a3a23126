"""Commands for anomalies and incidents."""

from __future__ import annotations

import getpass
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidegauge.cli import options
from tidegauge.cli.output import Format, print_frame, print_rows
from tidegauge.repository.store.frames import Columns, Kind, records

if TYPE_CHECKING:
    from tidegauge.repository.repository import Repository
    from tidegauge.repository.store.queries import HistoryFilter

anomalies_app = options.new_app("List, explain and label anomalies and incidents.")

ANOMALY_TITLES = {
    "id": "anomaly",
    "incident_id": "incident",
    **{
        name: name
        for name in ("dataset", "partition", "score", "severity", "status", "explanation")
    },
}
INCIDENT_TITLES = {
    "id": "incident",
    **{name: name for name in ("dataset", "severity", "series", "status", "headline")},
}
"""Columns of a table with their headings. CSV and JSON have all columns, with their own names."""

Status = Annotated[
    str | None,
    typer.Option(
        help="Only this status: open, acknowledged, expected, resolved or 'new level' (default: all)."
    ),
]


def detect(
    location: options.RepositoryLocation,
    dataset: Annotated[
        str | None, typer.Argument(help="Dataset name (default: all datasets).")
    ] = None,
    since: options.Since = None,
    until: options.Until = None,
    replay: Annotated[
        bool,
        typer.Option(
            "--replay",
            help="Score the whole history again (default: only new and changed partitions).",
        ),
    ] = False,
    output_format: options.FormatOption = Format.TABLE,
    fail_on_anomaly: Annotated[
        bool,
        typer.Option(
            "--fail-on-anomaly",
            help="Exit with 2 if an anomaly is open: not resolved, and not labeled expected or acknowledged.",
        ),
    ] = False,
) -> int:
    """Detect anomalies in new and changed metrics, and print all current anomalies."""
    from tidegauge.repository.store.frames import columns_of
    from tidegauge.repository.store.rows import AnomalyRow

    with location.open() as repository:
        if not repository.datasets():
            raise options.CommandError(options.NO_DATASETS_MESSAGE)
        frame = repository.detect(dataset, since=since, until=until, replay=replay)
    _print_linked(
        records(frame), columns_of(AnomalyRow), "incident_id", output_format, ANOMALY_TITLES
    )
    return options.DATA_FAILED if fail_on_anomaly and (frame["status"] == "open").any() else 0


def backtest(
    detectors: Annotated[
        list[str],
        typer.Argument(
            metavar="DETECTOR...",
            help="Detectors to compare, such as Seasonal 'OnlineNormal(2, 2)'.",
        ),
    ],
    location: options.RepositoryLocation,
    dataset: Annotated[
        str | None, typer.Option(help="Dataset name (default: the only dataset).")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Only series of this metric (default: all metrics).")
    ] = None,
    instance: Annotated[
        str | None, typer.Option(help="Only series of this column (default: all columns).")
    ] = None,
    since: options.Since = None,
    until: options.Until = None,
    rule: Annotated[
        str | None,
        typer.Option(help="Alert rule, such as 'Threshold(4)' (default: the rule of `detect`)."),
    ] = None,
    output_format: options.FormatOption = Format.TABLE,
) -> None:
    """Compare detectors on stored history, without storing anything."""
    with location.open(read_only=True) as repository:
        frame = repository.backtest(
            options.resolve_dataset(repository, dataset),
            detectors,
            name=name,
            instance=instance,
            since=since,
            until=until,
            rule=rule,
        )
    print_frame(frame, output_format)


@anomalies_app.command("list")
def anomalies_list(
    location: options.RepositoryLocation,
    dataset: options.Dataset = None,
    status: Status = None,
    since: options.Since = None,
    until: options.Until = None,
    incidents: Annotated[
        bool, typer.Option("--incidents", help="List incidents instead of anomalies.")
    ] = False,
    output_format: options.FormatOption = Format.TABLE,
) -> None:
    """List anomalies by descending score, or incidents with the newest first."""
    from tidegauge.repository.incidents.common_cause import grouped_incident_rows
    from tidegauge.repository.incidents.listing import anomaly_rows
    from tidegauge.repository.store.frames import columns_of
    from tidegauge.repository.store.queries import Window, selected
    from tidegauge.repository.store.rows import AnomalyRow, GroupedIncidentRow

    rows: Sequence[Mapping[str, Any]]
    with location.open(read_only=True) as repository:
        if incidents:
            window = Window.between(since, until)
            with repository.database.read() as connection:
                rows, _ = grouped_incident_rows(connection, dataset, status, window)
            _print_linked(
                rows, columns_of(GroupedIncidentRow), "id", output_format, INCIDENT_TITLES
            )
        else:
            filters: HistoryFilter = {"since": since, "until": until}
            with selected(repository.database, dataset, filters) as (connection, query, _):
                rows = anomaly_rows(connection, dataset, status, query)
            _print_linked(
                rows, columns_of(AnomalyRow), "incident_id", output_format, ANOMALY_TITLES
            )


@anomalies_app.command()
def show(number: options.AnomalyId, location: options.RepositoryLocation) -> None:
    """Show an incident: metrics, partitions, explanations, causes and labels."""
    from tidegauge.repository.store.config import dashboard_url
    from tidegauge.widgets.script import incident_address

    url = dashboard_url()
    with location.open(read_only=True) as repository:
        details = repository.incident(number)
    if details.id != number:
        print(f"Anomaly {number} belongs to incident {details.id}.\n")
    print(details.explain())
    if url is not None:
        print(f"\nSee: {incident_address(url, details.id)}")


@anomalies_app.command()
def ack(
    number: options.AnomalyId,
    location: options.RepositoryLocation,
    note: options.Note = None,
    author: options.Author = None,
) -> None:
    """Acknowledge an anomaly or incident: someone is looking into it."""
    _add_label(number, "acknowledged", note, author, location)


@anomalies_app.command()
def expect(
    number: options.AnomalyId,
    location: options.RepositoryLocation,
    note: options.Note = None,
    author: options.Author = None,
) -> None:
    """Label an anomaly or incident as expected, and exclude it from training."""
    _add_label(number, "expected", note, author, location)


@anomalies_app.command()
def resolve(
    number: options.AnomalyId,
    location: options.RepositoryLocation,
    note: options.Note = None,
    author: options.Author = None,
) -> None:
    """Resolve an anomaly or incident."""
    _add_label(number, "resolved", note, author, location)


@anomalies_app.command()
def label(
    number: options.AnomalyId,
    label_name: Annotated[
        str,
        typer.Argument(
            metavar="LABEL",
            help="Label: bad, ignore, rebaseline, reopened, acknowledged, expected, resolved, snoozed,"
            " assigned or comment.",
        ),
    ],
    location: options.RepositoryLocation,
    note: options.Note = None,
    author: options.Author = None,
    until: Annotated[
        str | None,
        typer.Option(
            help="End time of the label snoozed, such as 2026-12-24 or 2026-12-24T08:00; UTC unless it has a zone"
            " (default: none)."
        ),
    ] = None,
) -> None:
    """Label an anomaly or incident."""
    _add_label(number, label_name, note, author, location, until)


def _add_label(
    number: int,
    label_name: str,
    note: str | None,
    author: str | None,
    location: options.RepositoryLocation,
    snooze_end: str | None = None,
) -> None:
    end_time = None if snooze_end is None else _end_of_snooze(snooze_end)
    with location.open() as repository:
        repository.label(number, label_name, note=note, by=author or _user(), until=end_time)
        kind = "incident" if _is_incident(repository, number) else "anomaly"
    print(f"{kind} {number}: {label_name}")


def _is_incident(repository: Repository, number: int) -> bool:
    """Return whether an ID is of an incident; anomalies and incidents share one sequence of IDs."""
    from tidegauge.analyzers.core.errors import HistoryError
    from tidegauge.repository.incidents.listing import dataset_of

    with repository.database.read() as connection:
        try:
            dataset_of(connection, number)
        except HistoryError:
            return False
    return True


def _end_of_snooze(string: str) -> datetime:
    """Parse a future time, in UTC unless it has a time zone.

    Raises
    ------
    CommandError
        If the string is not a time, or the time is in the past.
    """
    try:
        end = datetime.fromisoformat(string.strip())
    except ValueError:
        msg = f"Invalid time {string!r}: use a date or a time, such as 2026-12-24 or 2026-12-24T08:00."
        raise options.CommandError(msg) from None
    end = end if end.tzinfo is not None else end.replace(tzinfo=UTC)
    if end <= datetime.now(UTC):
        msg = f"Invalid time {string!r}: it is in the past; use a future time."
        raise options.CommandError(msg)
    return end


def _user() -> str | None:
    """Return the user name; None if the system does not provide it."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return None


def _print_linked(
    rows: Sequence[Mapping[str, Any]],
    columns: Columns,
    incident_column: str,
    output_format: Format,
    titles: Mapping[str, str],
) -> None:
    """Print rows, with links to their incidents if the dashboard's address is set."""
    from tidegauge.repository.store.config import dashboard_url
    from tidegauge.widgets.script import incident_address

    url = dashboard_url()
    if url is not None:
        rows = [
            {**row, "address": incident_address(url, int(row[incident_column]))} for row in rows
        ]
        columns, titles = {**columns, "address": Kind.ANY}, {**titles, "address": "address"}
    print_rows(rows, columns, output_format, list(titles), titles)
