"""Commands for anomalies and incidents."""

from __future__ import annotations

import getpass
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidegauge.cli.options import (
    DATA_FAILED,
    EMPTY,
    AnomalyId,
    ArtifactsOption,
    By,
    CommandError,
    Dataset,
    Db,
    FormatOption,
    Note,
    Since,
    Until,
    new_app,
    open_repository,
    the_dataset,
)
from tidegauge.cli.output import Format, print_frame, print_rows
from tidegauge.repository.store.frames import Columns, Kind, records

if TYPE_CHECKING:
    from tidegauge.repository.repository import Repository
    from tidegauge.repository.store.queries import HistoryFilter

anomalies_app = new_app("List, explain and label anomalies and incidents.")

ANOMALIES_SHOWN = {
    "id": "anomaly",
    "incident_id": "incident",
    **{
        name: name
        for name in ("dataset", "partition", "score", "severity", "status", "explanation")
    },
}
INCIDENTS_SHOWN = {
    "id": "incident",
    **{name: name for name in ("dataset", "severity", "series", "status", "headline")},
}
"""Columns of a table and their headings; CSV and JSON have all, by their names."""

Status = Annotated[str | None, typer.Option(help="Only of this status, as in open.")]


def detect(
    dataset: Annotated[str | None, typer.Argument(help="The dataset; default: all.")] = None,
    db: Db = None,
    artifacts: ArtifactsOption = None,
    since: Since = None,
    until: Until = None,
    replay: Annotated[
        bool,
        typer.Option("--replay", help="Score the whole history again, not only new partitions."),
    ] = False,
    form: FormatOption = Format.TABLE,
    fail_on_anomaly: Annotated[
        bool,
        typer.Option(
            "--fail-on-anomaly",
            help="Exit with 2 if an anomaly is open: neither over nor labelled as expected or acknowledged.",
        ),
    ] = False,
) -> int:
    """Detect anomalies in new and changed metrics, and print all current ones."""
    from tidegauge.repository.store.frames import columns_of
    from tidegauge.repository.store.rows import AnomalyRow

    with open_repository(db, artifacts) as repository:
        if not repository.datasets():
            raise CommandError(EMPTY)
        frame = repository.detect(dataset, since=since, until=until, replay=replay)
    _print_linked(records(frame), columns_of(AnomalyRow), "incident_id", form, ANOMALIES_SHOWN)
    return DATA_FAILED if fail_on_anomaly and (frame["status"] == "open").any() else 0


def backtest(
    detectors: Annotated[
        list[str],
        typer.Argument(metavar="DETECTOR...", help="As in Seasonal 'OnlineNormal(2, 2)'."),
    ],
    dataset: Annotated[
        str | None, typer.Option(help="The dataset; may be left out if there is one.")
    ] = None,
    db: Db = None,
    artifacts: ArtifactsOption = None,
    name: Annotated[str | None, typer.Option(help="Only series of this metric.")] = None,
    instance: Annotated[str | None, typer.Option(help="Only series of this column.")] = None,
    since: Since = None,
    until: Until = None,
    rule: Annotated[
        str | None, typer.Option(help="What counts as an anomaly, as in 'Threshold(4)'.")
    ] = None,
    form: FormatOption = Format.TABLE,
) -> None:
    """Compare detectors on stored history, without storing anything."""
    with open_repository(db, artifacts, read_only=True) as repository:
        frame = repository.backtest(
            the_dataset(repository, dataset),
            detectors,
            name=name,
            instance=instance,
            since=since,
            until=until,
            rule=rule,
        )
    print_frame(frame, form)


@anomalies_app.command("list")
def anomalies_list(
    dataset: Dataset = None,
    db: Db = None,
    artifacts: ArtifactsOption = None,
    status: Status = None,
    since: Since = None,
    until: Until = None,
    incidents: Annotated[
        bool, typer.Option("--incidents", help="Group anomalies into incidents, one per line.")
    ] = False,
    form: FormatOption = Format.TABLE,
) -> None:
    """List anomalies, the highest score first; or incidents, the newest first."""
    from tidegauge.repository.incidents.common_cause import grouped_incident_rows
    from tidegauge.repository.incidents.listing import anomaly_rows
    from tidegauge.repository.store.frames import columns_of
    from tidegauge.repository.store.queries import Window, selected
    from tidegauge.repository.store.rows import AnomalyRow, GroupedIncidentRow

    rows: Sequence[Mapping[str, Any]]
    with open_repository(db, artifacts, read_only=True) as repository:
        if incidents:
            window = Window.between(since, until)
            with repository.database.read() as connection:
                rows, _ = grouped_incident_rows(connection, dataset, status, window)
            _print_linked(rows, columns_of(GroupedIncidentRow), "id", form, INCIDENTS_SHOWN)
        else:
            filters: HistoryFilter = {"since": since, "until": until}
            with selected(repository.database, dataset, filters) as (connection, query, _):
                rows = anomaly_rows(connection, dataset, status, query)
            _print_linked(rows, columns_of(AnomalyRow), "incident_id", form, ANOMALIES_SHOWN)


@anomalies_app.command()
def show(number: AnomalyId, db: Db = None, artifacts: ArtifactsOption = None) -> None:
    """Show an incident: metrics, partitions, explanations, causes and labels."""
    from tidegauge.repository.store.config import dashboard_url
    from tidegauge.widgets.script import incident_address

    url = dashboard_url()
    with open_repository(db, artifacts, read_only=True) as repository:
        details = repository.incident(number)
    if details.id != number:
        print(f"Anomaly {number} belongs to incident {details.id}.\n")
    print(details.explain())
    if url is not None:
        print(f"\nSee: {incident_address(url, details.id)}")


@anomalies_app.command()
def ack(
    number: AnomalyId,
    note: Note = None,
    by: By = None,
    db: Db = None,
    artifacts: ArtifactsOption = None,
) -> None:
    """Acknowledge an anomaly or incident: somebody is looking into it."""
    _label(number, "acknowledged", note, by, db, artifacts)


@anomalies_app.command()
def expect(
    number: AnomalyId,
    note: Note = None,
    by: By = None,
    db: Db = None,
    artifacts: ArtifactsOption = None,
) -> None:
    """Label an anomaly or incident as expected, and exclude it from training."""
    _label(number, "expected", note, by, db, artifacts)


@anomalies_app.command()
def resolve(
    number: AnomalyId,
    note: Note = None,
    by: By = None,
    db: Db = None,
    artifacts: ArtifactsOption = None,
) -> None:
    """Resolve an anomaly or incident."""
    _label(number, "resolved", note, by, db, artifacts)


@anomalies_app.command()
def label(
    number: AnomalyId,
    said: Annotated[
        str,
        typer.Argument(
            metavar="LABEL",
            help="bad, ignore, rebaseline, reopened, acknowledged, expected, resolved, snoozed,"
            " assigned or comment.",
        ),
    ],
    note: Note = None,
    by: By = None,
    until: Annotated[
        str | None,
        typer.Option(
            help="End of snoozed, in UTC unless it names a zone, as in 2026-12-24 or 2026-12-24T08:00."
        ),
    ] = None,
    db: Db = None,
    artifacts: ArtifactsOption = None,
) -> None:
    """Label an anomaly or incident, with any label."""
    _label(number, said, note, by, db, artifacts, until)


def _label(
    number: int,
    said: str,
    note: str | None,
    by: str | None,
    db: str | None,
    artifacts: str | None,
    until: str | None = None,
) -> None:
    end = None if until is None else _end_of_snooze(until)
    with open_repository(db, artifacts) as repository:
        repository.label(number, said, note=note, by=by or _user(), until=end)
        kind = "incident" if _is_incident(repository, number) else "anomaly"
    print(f"{kind} {number}: {said}")


def _is_incident(repository: Repository, number: int) -> bool:
    """Return whether a number is an incident's; anomalies and incidents share one sequence."""
    from tidegauge.analyzers.core.errors import HistoryError
    from tidegauge.repository.incidents.listing import dataset_of

    with repository.database.read() as connection:
        try:
            dataset_of(connection, number)
        except HistoryError:
            return False
    return True


def _end_of_snooze(text: str) -> datetime:
    """Parse a future time; in UTC unless it names a zone.

    Raises
    ------
    CommandError
        If the string is not a time, or the time has passed.
    """
    try:
        end = datetime.fromisoformat(text.strip())
    except ValueError:
        msg = (
            f"Invalid time {text!r}: use a date or a time, such as 2026-12-24 or 2026-12-24T08:00."
        )
        raise CommandError(msg) from None
    end = end if end.tzinfo is not None else end.replace(tzinfo=UTC)
    if end <= datetime.now(UTC):
        msg = f"Invalid time {text!r}: it has passed; use a future time."
        raise CommandError(msg)
    return end


def _user() -> str | None:
    """Return the user's name; None if the system has none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return None


def _print_linked(
    rows: Sequence[Mapping[str, Any]],
    columns: Columns,
    incident: str,
    form: Format,
    shown: Mapping[str, str],
) -> None:
    """Print rows with links to their incidents, if the dashboard's address is set."""
    from tidegauge.repository.store.config import dashboard_url
    from tidegauge.widgets.script import incident_address

    url = dashboard_url()
    if url is not None:
        rows = [{**row, "address": incident_address(url, int(row[incident]))} for row in rows]
        columns, shown = {**columns, "address": Kind.ANY}, {**shown, "address": "address"}
    print_rows(rows, columns, form, list(shown), shown)
