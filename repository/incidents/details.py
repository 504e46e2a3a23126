"""Details of an incident: anomalies, labels and causes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import sqlalchemy as sa

from tidegauge.analyzers.core.errors import HistoryError
from tidegauge.analyzers.core.formatting import plain
from tidegauge.analyzers.core.registry import Rendered
from tidegauge.repository.incidents.causes import Causes, causes
from tidegauge.repository.incidents.common_cause import IncidentGroup, grouped_incident_rows
from tidegauge.repository.incidents.context import (
    Event,
    IncidentContext,
    incident_context,
    timeline,
)
from tidegauge.repository.incidents.headline import prominence
from tidegauge.repository.incidents.listing import anomaly_rows, dataset_of
from tidegauge.repository.store import schema as s
from tidegauge.repository.store.frames import frame_of
from tidegauge.repository.store.labels import (
    AUTOMATIC_AUTHOR,
    LABEL_COLUMNS,
    label_rows,
    last_label_id,
)
from tidegauge.repository.store.queries import MetricQuery, Window
from tidegauge.repository.store.rows import AnomalyRow, GroupedIncidentRow

if TYPE_CHECKING:
    import pandas as pd
    from sqlalchemy.engine import Connection

_MAX_LISTED_LINES = 5


@dataclass(frozen=True)
class IncidentDetails(Rendered):
    """Details of an incident: evidence, causes and timeline.

    Attributes
    ----------
    row : mapping
        The incident, as `Repository.incidents` lists it.
    anomalies : pandas.DataFrame
        Anomalies as `Repository.anomalies` returns them; empty if the incident was closed without any.
    labels : pandas.DataFrame
        Labels of the incident or its anomalies, in order.
    causes : Causes
        Parts of the table that contributed, series that moved along, partitions measured again,
        schema changes.
    revision : int
        The id of the newest label; 0 if there is none. `Repository.label` takes it as ``seen``.
    peaks : pandas.DataFrame
        The highest-scoring anomaly of each series, in the order in which headlines name metrics.
    timeline : tuple of Event
        Detection, notifications, labels and restatements, in order of time.
    group : IncidentGroup or None
        Incidents of other tables with the same cause.
    context : IncidentContext
        The run that measured the partitions, the runbook, and the datasets made from this dataset.
    """

    renderer: ClassVar[str] = "tidegauge.display.cards:render_incident"

    row: GroupedIncidentRow
    anomalies: pd.DataFrame
    labels: pd.DataFrame
    causes: Causes
    revision: int
    peaks: pd.DataFrame
    timeline: tuple[Event, ...]
    group: IncidentGroup | None = None
    context: IncidentContext = field(default_factory=IncidentContext)

    @property
    def id(self) -> int:
        """The incident's id."""
        return int(self.row["id"])

    @property
    def dataset(self) -> str:
        """The incident's dataset."""
        return str(self.row["dataset"])

    @property
    def started(self) -> str:
        """The first partition."""
        return str(self.row["first"])

    @property
    def closing_note(self) -> str | None:
        """The reason why the incident has no anomalies any more, as a sentence; None if it has anomalies."""
        notes = self.labels[self.labels["by"] == AUTOMATIC_AUTHOR]["note"].tolist()
        if self.row["series"] or not notes:
            return None
        note = plain(notes[-1])
        return f"{note[:1].upper()}{note[1:]}."

    @property
    def firsts(self) -> pd.DataFrame:
        """The first anomaly of each series in order of time; within a partition, the worst first."""
        ordered = self.anomalies.sort_values(["time", "partition"], kind="stable")
        return ordered.drop_duplicates(
            ["segment", "name", "instance", "analyzer"], ignore_index=True
        )

    def explain(self) -> str:
        """Return the details as text of several lines."""
        row = self.row
        ends = dict.fromkeys([row["first"], row["last"]])
        lines = [
            f"Incident {self.id} of {plain(self.dataset)}: {plain(row['headline'])}",
            (
                f"Status {row['status']}, severity {row['severity']}, {row['series']} series,"
                f" {' to '.join(plain(end or 'the table') for end in ends)}."
            ),
        ]
        if self.closing_note is not None:
            lines.append(self.closing_note)
        if self.group is not None:
            lines.append(f"Part of a group: {self.group.headline}.")
        lines += context_lines(self.context)
        groups = (
            ("First anomalies", [plain(entry) for entry in self.firsts["explanation"]]),
            ("Contributions", [str(move) for move in self.causes.moves]),
            ("Not measured", [plain(text) for text in self.causes.unmeasured]),
            ("Also moved", [str(cause) for cause in self.causes.companions]),
            ("Measured again", [str(cause) for cause in self.causes.restated]),
            ("Schema changes", [str(cause) for cause in self.causes.schema]),
            ("Labels", [label_text(label) for label in self.labels.to_dict("records")]),
        )
        for title, entries in groups:
            if entries:
                remainder = (
                    [f"and {len(entries) - _MAX_LISTED_LINES} more"]
                    if len(entries) > _MAX_LISTED_LINES + 1
                    else []
                )
                lines_of_group = entries[:_MAX_LISTED_LINES] if remainder else entries
                lines += [
                    "",
                    f"{title}:",
                    *(f"  {entry}" for entry in (*lines_of_group, *remainder)),
                ]
        return "\n".join(lines)


def context_lines(context: IncidentContext) -> list[str]:
    """Return the context of an incident as lines of text."""
    lines = []
    if context.run is not None and context.run.job:
        lines.append(f"Job of run {context.run.id}: {plain(context.run.job)}")
    if context.runbook is not None:
        lines.append(f"Runbook: {plain(context.runbook)}")
    if context.downstream:
        lines.append(f"Downstream: {', '.join(map(plain, context.downstream))}.")
    return lines


def label_text(label: Mapping[Any, Any]) -> str:
    """Return a label as one line: time, label, author and note."""
    author = f" by {plain(label['by'])}" if isinstance(label["by"], str) else ""
    note = f": {plain(label['note'])}" if isinstance(label["note"], str) else ""
    return f"{label['created_at']:%Y-%m-%d %H:%M} UTC {label['label']}{author}{note}"


def incident_details(connection: Connection, incident: int) -> IncidentDetails:
    """Return the details of an incident, or of the incident of an anomaly.

    Raises
    ------
    HistoryError
        If the incident or anomaly does not exist, or all of the incident's anomalies were withdrawn.
    """
    f = s.finding.c
    query = sa.select(f.incident_id).where(f.anomaly_id == incident, s.holds(s.finding))
    dataset, number = dataset_of(connection, connection.execute(query).scalar() or incident)
    listed, groups = grouped_incident_rows(connection, dataset, None, Window())
    row = next((row for row in listed if row["id"] == number), None)
    if row is None:
        msg = (
            f"incident {number} has no anomalies left: its partitions were measured again and look normal;"
            " repo.incidents(as_of=...) shows it as it was"
        )
        raise HistoryError(msg)
    anomalies = anomaly_rows(connection, dataset, None, MetricQuery(), None, number)
    labels = label_rows(connection, dataset, incident=number)
    ordered = sorted(
        anomalies,
        key=lambda anomaly: (anomaly["time"] is None, anomaly["time"], anomaly["partition"]),
    )
    return IncidentDetails(
        row,
        frame_of(anomalies, AnomalyRow),
        frame_of(labels, LABEL_COLUMNS),
        causes(connection, dataset, anomalies),
        last_label_id(connection, number),
        frame_of(_peaks(anomalies), AnomalyRow),
        tuple(timeline(connection, number)),
        groups.get(number),
        incident_context(connection, dataset, [anomaly["partition_id"] for anomaly in ordered]),
    )


def _peaks(anomalies: Sequence[AnomalyRow]) -> list[AnomalyRow]:
    """Return the highest-scoring anomaly of each series, ranked by prominence as in a headline.

    The series of a whole table is ranked with all parts of its metric.

    Parameters
    ----------
    anomalies : sequence of mapping
        Anomalies of an incident, the highest score first.
    """
    best: dict[int, AnomalyRow] = {}
    topics: dict[tuple[str, str], list[AnomalyRow]] = {}
    for row in anomalies:
        best.setdefault(row["series_id"], row)
        topics.setdefault((row["name"], row["instance"]), []).append(row)

    def rank(row: AnomalyRow) -> float:
        if row["filter"] or row["segment"]:
            return prominence(row["name"], row["score"] or 0.0, is_total=False)
        topic = topics[row["name"], row["instance"]]
        score = max(anomaly["score"] or 0.0 for anomaly in topic)
        parts = len({(anomaly["filter"], anomaly["segment"]) for anomaly in topic})
        return prominence(row["name"], score, is_total=True, parts=parts)

    return sorted(best.values(), key=rank, reverse=True)


def causes_of(connection: Connection, subject: int) -> Causes:
    """Return the causes of an anomaly or incident, by id.

    Raises
    ------
    HistoryError
        If no anomaly or incident has the id.
    """
    rows = anomaly_rows(connection, None, None, MetricQuery(), None, None, subject)
    if rows:
        return causes(connection, rows[0]["dataset"], rows)
    try:
        dataset, number = dataset_of(connection, subject)
    except HistoryError as error:
        msg = f"no anomaly or incident has the id {subject!r}; repo.anomalies() lists the ids"
        raise HistoryError(msg) from error
    return causes(
        connection, dataset, anomaly_rows(connection, dataset, None, MetricQuery(), None, number)
    )
