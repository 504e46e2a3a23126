"""All that is known of one incident."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from analyzers.display import (
    Markup,
    Rows,
    card,
    heading,
    marked,
    note,
    pairs,
    plain,
    sentence,
    table,
)
from analyzers.errors import HistoryError
from repository import schema as s
from repository.anomalies.causes import Causes, causes
from repository.anomalies.listing import (
    ANOMALY_COLUMNS,
    anomaly_rows,
    dataset_of,
    incident_rows,
)
from repository.frames import frame_of
from repository.history import MetricQuery, Window
from repository.labels import LABEL_COLUMNS, label_rows, revision_of

if TYPE_CHECKING:
    import pandas as pd
    from sqlalchemy.engine import Connection

Row = Mapping[str, Any]
_TOLD = 5


@dataclass(frozen=True)
class IncidentDetails:
    """All that is known of one incident.

    Attributes
    ----------
    row : mapping
        The incident, as `Repository.incidents` lists it.
    anomalies : pandas.DataFrame
        As `Repository.anomalies` returns them; empty if all were withdrawn.
    labels : pandas.DataFrame
        What was said of the incident or its anomalies, in order.
    causes : Causes
        Which parts of the table moved it, and what else moved.
    revision : int
        The id of the newest label; 0 if there is none. `Repository.label` takes it as ``seen``.
    """

    row: Row
    anomalies: pd.DataFrame
    labels: pd.DataFrame
    causes: Causes
    revision: int

    @property
    def id(self) -> int:
        """The incident's id."""
        return int(self.row["id"])

    @property
    def dataset(self) -> str:
        """The dataset that it is of."""
        return str(self.row["dataset"])

    @property
    def started(self) -> str:
        """The first partition."""
        return str(self.row["first"])

    @property
    def firsts(self) -> pd.DataFrame:
        """The first anomaly of each series, in order of time, those of one partition the worst first."""
        ordered = self.anomalies.sort_values(["time", "partition"], kind="stable")
        return ordered.drop_duplicates(
            ["segment", "name", "instance", "analyzer"], ignore_index=True
        )

    def explain(self) -> str:
        """Return it as a text of several lines."""
        row = self.row
        ends = dict.fromkeys([row["first"], row["last"]])
        lines = [
            f"Incident {self.id} of {plain(self.dataset)}: {plain(row['headline'])}",
            (
                f"Status {row['status']}, severity {row['severity']}, {row['series']} series,"
                f" {' to '.join(plain(end or 'the table') for end in ends)}."
            ),
        ]
        groups = (
            ("What was found first", [plain(text) for text in self.firsts["explanation"]]),
            ("What moved it", [str(move) for move in self.causes.moves]),
            ("What else moved", [str(one) for one in self.causes.companions]),
            ("What was said", [_said(label) for label in self.labels.to_dict("records")]),
        )
        for title, texts in groups:
            if texts:
                more = [f"and {len(texts) - _TOLD} more"] if len(texts) > _TOLD + 1 else []
                shown = texts[:_TOLD] if more else texts
                lines += ["", f"{title}:", *(f"  {text}" for text in (*shown, *more))]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return card(self._pieces)

    def _pieces(self, most: int, width: int) -> Iterator[Markup]:
        row = self.row
        yield heading(Markup(f"Incident {self.id} of"), self.dataset)
        yield sentence(row["headline"], 8 * width)
        ends = dict.fromkeys([row["first"], row["last"]])
        told = [
            ("severity", marked(row["severity"])),
            ("status", marked(row["status"])),
            ("partitions", " to ".join(end or "the table" for end in ends)),
            ("series", row["series"]),
        ]
        yield pairs(told, width)
        firsts = self.firsts
        texts = [(sentence(text, 4 * width),) for text in firsts["explanation"]]
        if texts:
            yield table(["What was found first"], Rows.of(texts, max(2, most // 4)), width)
        if self.causes.moves or self.causes.companions:
            yield heading(Markup("Why"))
            yield from self.causes.pieces(most // 2, width)
        said = [(sentence(_said(label), 4 * width),) for label in self.labels.to_dict("records")]
        if said:
            yield table(["What was said"], Rows.of(said, max(2, most // 4)), width)
        yield note(f"repo.label({self.id}, 'acknowledged', note=...) says something of it")


def _said(label: Mapping[Any, Any]) -> str:
    by = f" by {plain(label['by'])}" if isinstance(label["by"], str) else ""
    note = f": {plain(label['note'])}" if isinstance(label["note"], str) else ""
    return f"{label['created_at']:%Y-%m-%d %H:%M} {label['label']}{by}{note}"


def incident_details(connection: Connection, incident: int) -> IncidentDetails:
    """Return all that is known of an incident, or of the one that an anomaly is in.

    Raises
    ------
    HistoryError
        If there is no such incident or anomaly, or it is over because all its anomalies were withdrawn.
    """
    f = s.finding.c
    query = sa.select(f.incident_id).where(f.anomaly_id == incident, s.holds(s.finding))
    dataset, number = dataset_of(connection, connection.execute(query).scalar() or incident)
    listed = incident_rows(connection, dataset, None, Window())
    row = next((row for row in listed if row["id"] == number), None)
    if row is None:
        msg = f"all anomalies of incident {number} were withdrawn; as_of= of repo.incidents() shows it"
        raise HistoryError(msg)
    anomalies = anomaly_rows(connection, dataset, None, MetricQuery(), None, number)
    own = {one["id"] for one in anomalies}
    labels = [
        label
        for label in label_rows(connection, dataset)
        if label["incident_id"] == number or label["anomaly_id"] in own
    ]
    return IncidentDetails(
        row,
        frame_of(anomalies, ANOMALY_COLUMNS),
        frame_of(labels, LABEL_COLUMNS),
        causes(connection, dataset, anomalies),
        revision_of(connection, number),
    )


def causes_of(connection: Connection, of: int) -> Causes:
    """Return the causes of an incident or of one anomaly.

    Raises
    ------
    HistoryError
        If there is neither.
    """
    rows = anomaly_rows(connection, None, None, MetricQuery(), None, None, of)
    if rows:
        return causes(connection, rows[0]["dataset"], rows)
    try:
        dataset, number = dataset_of(connection, of)
    except HistoryError as error:
        msg = f"there is no anomaly and no incident {of!r}; repo.anomalies() lists their ids"
        raise HistoryError(msg) from error
    return causes(
        connection, dataset, anomaly_rows(connection, dataset, None, MetricQuery(), None, number)
    )
