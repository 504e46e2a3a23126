"""User labels on anomalies, incidents and time ranges: append-only; the last one counts."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from operator import index
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from tidegauge.analyzers.core.errors import (
    ConflictError,
    HistoryError,
    RepositoryWarning,
    UnknownNameError,
    did_you_mean,
)
from tidegauge.repository.store import schema as s
from tidegauge.repository.store.bulk import chunks
from tidegauge.repository.store.database import Database, next_commit
from tidegauge.repository.store.dimensions import visible
from tidegauge.repository.store.frames import columns
from tidegauge.repository.store.listing import retirements
from tidegauge.repository.store.queries import (
    AsOf,
    Moment,
    Window,
    commit_as_of,
    dataset_id,
    moment_of,
    select_list,
)
from tidegauge.repository.store.rows import LabelEffect

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

STATUS_OF: Mapping[str, str | None] = {
    "acknowledged": "acknowledged",
    "expected": "expected",
    "bad": None,
    "ignore": None,
    "resolved": "resolved",
    "reopened": "open",
    "rebaseline": None,
    "comment": None,
    "assigned": None,
    "snoozed": None,
}
"""The allowed labels and the status that each sets; None leaves the status unchanged."""

STATUSES = tuple(dict.fromkeys(status for status in STATUS_OF.values() if status is not None))
"""Statuses of anomalies and incidents; ``open`` until a label sets another."""

LABEL_COLUMNS = columns(
    "dataset anomaly_id:integer incident_id:integer partition name instance since until"
    " label note by created_at:time"
)
AUTOMATIC_AUTHOR = "tidegauge"
"""Author of automatic labels: an incident is over, is back, or lies on a holiday. No user's label has it."""
TRAINING_LABELS = ("expected", "bad", "ignore", "rebaseline")
"""Labels that control what detectors may learn from; ``reopened`` revokes them."""
RANGE_LABELS = (*TRAINING_LABELS, "reopened")
"""Labels of ranges."""


def author(by: str | None) -> str | None:
    """Return the author of a user's label; a user who is named as the automatic one is told apart.

    Examples
    --------
    >>> author("ann"), author("tidegauge")
    ('ann', 'tidegauge (user)')
    """
    return f"{by} (user)" if by == AUTOMATIC_AUTHOR else by and visible(by)


def add_label(
    database: Database,
    of: int,
    label: str,
    note: str | None,
    by: str | None,
    seen: int | None = None,
    until: Moment = None,
) -> None:
    """Add a label to an anomaly or incident.

    With ``seen``, the id of the last label that the caller saw, it is added only if there is no
    newer label on the anomaly or incident, on the incident that it is in, or on another anomaly
    there. The check runs under the clock's lock, so of two callers that saw the same label only one
    succeeds. ``until`` is the end of ``snoozed``, and of no other label.

    Raises
    ------
    UnknownNameError
        If there is no such label.
    HistoryError
        If there is no such anomaly or incident, a comment has no text, or ``snoozed`` has no end.
    ConflictError
        If there is a newer label.
    """
    if label not in STATUS_OF:
        raise UnknownNameError("label", label, STATUS_OF)
    end = moment_of(until, "until")
    if isinstance(until, datetime) and until.tzinfo is None:
        msg = f"until={until} has no time zone; give an aware datetime, such as datetime.now(UTC)"
        raise HistoryError(msg)
    _check_details(label, note, end)
    of = index(of)
    last = None if seen is None else index(seen)
    told = {"note": note and visible(note), "by": author(by), "until": end}

    def work(connection: Connection) -> None:
        commit, now = next_commit(connection, None)
        about = _anomaly(connection, of) or _incident(connection, of)
        if about is None:
            msg = f"there is no anomaly and no incident {of}; repo.anomalies() lists their ids"
            raise HistoryError(msg)
        if last is not None:
            newer = labels_since(connection, of, last)
            if newer:
                raise ConflictError(newer[-1]["id"], newer)
        values = {**about, "label": label, **told}
        connection.execute(sa.insert(s.label).values(**values, created_at=now, commit_id=commit))

    database.write(work)


def _check_details(label: str, note: str | None, until: datetime | None) -> None:
    if label == "comment" and not note:
        msg = "a comment needs a text: note=, or --note on the command line"
        raise HistoryError(msg)
    if (label == "snoozed") != (until is not None):
        msg = (
            "snoozed needs an end: until=, or --until on the command line"
            if until is None
            else f"only snoozed has an end: leave out until= (--until) for {label}"
        )
        raise HistoryError(msg)


@dataclass(frozen=True)
class Triage:
    """Assignment and snooze of an incident.

    Attributes
    ----------
    assignee : str or None
    snoozed_until : datetime or None
        End of the snooze, past or future; None if a later label set the status.
    """

    assignee: str | None = None
    snoozed_until: datetime | None = None


def triage(connection: Connection, commit: int | None = None) -> dict[int, Triage]:
    """Return the assignment and snooze of each incident that was ever assigned or snoozed."""
    ending = ["snoozed", *(label for label, status in STATUS_OF.items() if status is not None)]
    query = sa.select(
        s.label.c.incident_id, s.label.c.label, s.label.c.note, s.label.c.until
    ).where(s.label.c.incident_id.is_not(None), s.label.c.label.in_(["assigned", *ending]))
    if commit is not None:
        query = query.where(s.label.c.commit_id <= commit)
    found: dict[int, Triage] = {}
    for incident, label, note, until in connection.execute(query.order_by(s.label.c.id)):
        known = found.get(incident, Triage())
        if label == "assigned":
            found[incident] = replace(known, assignee=note)
        elif label == "snoozed" or incident in found:
            found[incident] = replace(known, snoozed_until=until)
    return found


def last_label_id(connection: Connection, incident: int) -> int:
    """Return the id of the newest label of an incident or its anomalies; 0 if there is none."""
    newest = sa.select(sa.func.max(s.label.c.id)).where(labels_of_incident(incident))
    return connection.execute(newest).scalar() or 0


def last_labelled(connection: Connection, commit: int | None = None) -> dict[int, datetime]:
    """Return the time of the last label of each incident that has any, its anomalies' labels included."""
    label, finding, anomaly = s.label.c, s.finding.c, s.anomaly.c
    members = (
        sa.select(finding.incident_id)
        .join_from(s.finding, s.anomaly, anomaly.id == finding.anomaly_id)
        .where(_same_point(label, anomaly), s.holds(s.finding, commit))
    )
    of = sa.func.coalesce(label.incident_id, members.limit(1).scalar_subquery())
    query = sa.select(of, label.created_at)
    if commit is not None:
        query = query.where(label.commit_id <= commit)
    found = connection.execute(query.order_by(label.id))  # the last one counts
    return {of: at for of, at in found if of is not None}


def labels_since(connection: Connection, of: int, seen: int) -> list[Mapping[str, Any]]:
    """Return the labels newer than ``seen`` on an incident, or an anomaly's incident, in order."""
    label, finding = s.label.c, s.finding.c
    around = sa.select(finding.incident_id).where(finding.anomaly_id == of, s.holds(s.finding))
    incident = connection.execute(around).scalar() or of
    about = labels_of_incident(incident) | (label.anomaly_id == of)
    columns = (
        label.id,
        label.anomaly_id,
        label.incident_id,
        label.label,
        label.note,
        label.by,
        label.created_at,
    )
    query = sa.select(*columns).where(label.id > seen, about).order_by(label.id)
    return [row._asdict() for row in connection.execute(query)]


def labels_of_incident(incident: int) -> sa.ColumnElement[bool]:
    """Return the condition that a label is on an incident, or on a point of an anomaly in it."""
    label, finding, anomaly = s.label.c, s.finding.c, s.anomaly.c
    members = (
        sa.select(anomaly.id)
        .join_from(s.finding, s.anomaly, anomaly.id == finding.anomaly_id)
        .where(finding.incident_id == incident, s.holds(s.finding), _same_point(label, anomaly))
    )
    about_a_point = label.anomaly_id.is_not(None) & members.correlate(s.label).exists()
    return (label.incident_id == incident) | about_a_point


def _anomaly(connection: Connection, of: int) -> dict[str, int] | None:
    anomaly = s.anomaly.c
    query = (
        sa.select(s.partition.c.dataset_id, anomaly.series_id, anomaly.partition_id)
        .join_from(s.anomaly, s.partition)
        .where(anomaly.id == of)
    )
    row = connection.execute(query).one_or_none()
    return None if row is None else {**row._asdict(), "anomaly_id": of}


def _incident(connection: Connection, of: int) -> dict[str, int] | None:
    query = sa.select(s.incident.c.dataset_id).where(s.incident.c.id == of)
    dataset = connection.execute(query).scalar_one_or_none()
    return None if dataset is None else {"dataset_id": dataset, "incident_id": of}


def add_range(
    database: Database,
    dataset: str,
    label: str,
    window: Window,
    series: Mapping[str, str | None],
    note: str | None,
    by: str | None,
    *,
    dry_run: bool = False,
) -> None:
    """Add a label to all points of some series in a time range, past or future; a dry run only checks it.

    Raises
    ------
    UnknownNameError
        If the label does not apply to ranges.
    HistoryError
        If the range has neither a beginning nor an end.
    """
    if label not in RANGE_LABELS:
        raise UnknownNameError("label of a range", label, RANGE_LABELS)
    if window.since is None and window.until is None:
        msg = "a range has a beginning or an end: since=, until=, or both"
        raise HistoryError(msg)
    told = {"note": note and visible(note), "by": author(by), **series}
    unknown: list[str] = []

    def check(connection: Connection) -> int:
        of = dataset_id(connection, dataset)
        unknown[:] = (
            f"{dataset!r} has no series of {what} yet"
            for what in _unknown_series(connection, of, series)
        )
        if _is_empty_range(connection, of, window):
            start = (
                "the first partition"
                if window.since is None
                else f"{window.since:%Y-%m-%d %H:%M} UTC"
            )
            unknown.append(
                f"{dataset!r} has no partition between {start} and {window.until:%Y-%m-%d %H:%M} UTC:"
                " the label applies to nothing yet"
            )
        return of

    def work(connection: Connection) -> None:
        of = check(connection)
        commit, now = next_commit(connection, None)
        about = {"dataset_id": of, "since": window.since, "until": window.until, "label": label}
        values = {**about, **told, "created_at": now, "commit_id": commit}
        connection.execute(sa.insert(s.label).values(values))

    if dry_run:
        with database.read() as connection:
            check(connection)
    else:
        database.write(work)
    for text in unknown:
        warnings.warn(text, RepositoryWarning, stacklevel=3)


def _unknown_series(
    connection: Connection, dataset: int, series: Mapping[str, str | None]
) -> Iterator[str]:
    """Yield what names no series of a dataset; a label may be of future ones."""
    analyzer = s.analyzer.c
    for what, column in (
        ("name", s.series.c.name),
        ("instance", s.series.c.instance),
        ("segment", analyzer.segment),
    ):
        wanted = series.get(what)
        if wanted is None:
            continue
        query = (
            sa.select(column).join_from(s.series, s.analyzer).where(analyzer.dataset_id == dataset)
        )
        there = set(connection.execute(query.distinct()).scalars())
        if wanted not in there:
            yield f"the {what} {wanted!r}{did_you_mean(wanted, sorted(there))}"


def _is_empty_range(connection: Connection, dataset: int, window: Window) -> bool:
    """Return whether a range in the past holds no partition."""
    if window.until is None or window.until > datetime.now(UTC):
        return False
    inside = sa.select(s.partition.c.id).where(
        s.partition.c.dataset_id == dataset, window.condition()
    )
    return connection.execute(inside.limit(1)).first() is None


def statuses(connection: Connection, commit: int | None = None) -> dict[int, tuple[int, str]]:
    """Return label id and status for each anomaly and incident whose status is set by labels.

    The label of an anomaly holds for the same point when its partition is measured again. Nothing of a
    retired dataset is open: what no label settled is resolved.
    """
    anomaly, labelled = s.anomaly.c, s.anomaly.alias("labelled")
    telling = [label for label, status in STATUS_OF.items() if status is not None]
    same = _same_point(labelled.c, anomaly) & (anomaly.detector == labelled.c.detector)
    query = (
        sa.select(
            s.label.c.id, sa.func.coalesce(s.label.c.incident_id, anomaly.id), s.label.c.label
        )
        .select_from(s.label)
        .outerjoin(labelled, labelled.c.id == s.label.c.anomaly_id)
        .outerjoin(s.anomaly, same)
        .where(s.label.c.label.in_(telling))
    )
    if commit is not None:
        query = query.where(s.label.c.commit_id <= commit)
    found: dict[int, tuple[int, str]] = {}
    for number, of, label in connection.execute(query.order_by(s.label.c.id)):
        if of is not None:
            found[of] = (number, str(STATUS_OF[label]))
    retired = retirements(connection, commit)
    if retired:
        incident, anomaly, partition = s.incident.c, s.anomaly.c, s.partition.c
        of_anomalies = sa.select(anomaly.id).join_from(
            s.anomaly, s.partition, partition.id == anomaly.partition_id
        )
        for query in (
            sa.select(incident.id).where(incident.dataset_id.in_(retired)),
            of_anomalies.where(partition.dataset_id.in_(retired)),
        ):
            for of in connection.execute(query).scalars():
                number, status = found.get(of, (0, "open"))
                if status == "open":
                    found[of] = (number, "resolved")
    return found


def _same_point(one: Any, other: Any) -> sa.ColumnElement[bool]:
    """Return the condition that labels or anomalies, of any version, are of one series and partition."""
    return sa.and_(one.series_id == other.series_id, one.partition_id == other.partition_id)


def check_status(status: str | None) -> None:
    """Check a status to filter by; None is any.

    Raises
    ------
    UnknownNameError
    """
    if status is not None and status not in STATUSES:
        raise UnknownNameError("status", status, STATUSES)


def status_of(
    said: Mapping[int, tuple[int, str]], anomaly: int | None, incident: int | None
) -> str:
    """Return an anomaly's status by the newer of its own and its incident's label, or ``open``."""
    return max(said.get(of, (0, "open")) for of in (anomaly, incident) if of is not None)[1]


@dataclass(frozen=True)
class LastLabels:
    """The last labels of an incident.

    Attributes
    ----------
    label, by, at : str or None, str or None, datetime or None
        The last label that sets the status, its author, and when it was given.
    judged_at : int or None
        The commit of the last label by which a person judged the incident: acknowledged, expected,
        resolved or snoozed. None if they reopened it, or if detection found since that it goes beyond.
    beyond_at : datetime or None
        When detection last found that it goes beyond what a person labelled.
    """

    label: str | None = None
    by: str | None = None
    at: datetime | None = None
    judged_at: int | None = None
    beyond_at: datetime | None = None


BEYOND_LABEL = "beyond what was labelled"
"""Beginning of the note of an automatic label where an incident goes beyond what a person labelled."""


def last_labels(connection: Connection, dataset: int | None = None) -> dict[int, LastLabels]:
    """Return the last labels of each incident that has any, of a dataset or of all."""
    telling = [label for label, status in STATUS_OF.items() if status is not None]
    query = sa.select(
        s.label.c.incident_id,
        s.label.c.label,
        s.label.c.by,
        s.label.c.note,
        s.label.c.commit_id,
        s.label.c.created_at,
    ).where(s.label.c.incident_id.is_not(None), s.label.c.label.in_([*telling, "snoozed"]))
    if dataset is not None:
        query = query.where(s.label.c.dataset_id == dataset)
    found: dict[int, LastLabels] = {}
    for row in connection.execute(query.order_by(s.label.c.id)):
        last = found.get(row.incident_id, LastLabels())
        if row.label != "snoozed":
            last = replace(last, label=row.label, by=row.by, at=row.created_at)
        if row.by != AUTOMATIC_AUTHOR:
            judged = None if row.label == "reopened" else row.commit_id
            last = replace(last, judged_at=judged)
        elif (row.note or "").startswith(BEYOND_LABEL):
            last = replace(last, judged_at=None, beyond_at=row.created_at)
        found[row.incident_id] = last
    return found


def last_automatic_note(connection: Connection, incident: int) -> str:
    """Return the note of the last automatic label of an incident; empty if there is none."""
    label = s.label.c
    query = sa.select(label.note).where(label.incident_id == incident, label.by == AUTOMATIC_AUTHOR)
    return connection.execute(query.order_by(label.id.desc()).limit(1)).scalar() or ""


def training_labels(
    connection: Connection, dataset: int, labels: Sequence[str] = TRAINING_LABELS
) -> list[LabelEffect]:
    """Return the user labels of a dataset that control training, newest last.

    Only the last label of each anomaly, incident and range counts.

    Parameters
    ----------
    connection : Connection
    dataset : int
    labels : sequence of str
        The labels to return; ``reopened`` is always included and revokes them.
    """
    label = s.label.c
    query = (
        sa.select(
            label.id,
            label.commit_id,
            label.label,
            label.anomaly_id,
            label.incident_id,
            label.series_id,
            label.partition_id,
            label.name,
            label.instance,
            label.segment,
            label.since,
            label.until,
        )
        .where(
            label.dataset_id == dataset,
            label.label.in_((*labels, "reopened")),
            label.by.is_distinct_from(AUTOMATIC_AUTHOR),
        )
        .order_by(label.id)
    )
    last: dict[tuple[str, int], Any] = {}
    given: dict[tuple[str, int], list[int]] = {}
    for row in connection.execute(query):
        of = (("anomaly", row.anomaly_id), ("incident", row.incident_id), ("range", row.id))
        about = next(pair for pair in of if pair[1] is not None)
        last.pop(about, None)
        last[about] = row
        given.setdefault(about, []).append(row.commit_id)
    members = _members(connection, [number for kind, number in last if kind == "incident"])
    said = []
    for (kind, number), row in last.items():
        points: frozenset[tuple[int, int]] | None = None
        if kind == "anomaly":
            points = frozenset({(row.series_id, row.partition_id)})
        elif (
            kind == "incident"
        ):  # its anomalies when it was labelled, also those that a label withdrew
            known = members.get(number, ())
            points = frozenset(
                (i, p)
                for i, p, begun, end in known
                if any(begun <= then < end for then in given[kind, number])
            )
        selectors = (row.name, row.instance, row.segment, row.since, row.until)
        told = {"commit": row.commit_id, "about": (kind, number)}
        said.append(LabelEffect(row.label, points, *selectors, **told))
    return said


def _members(
    connection: Connection, incidents: Sequence[int]
) -> dict[int, list[tuple[int, int, int, float]]]:
    """Return series, partition, first and end commit of every finding in some incidents."""
    finding, anomaly = s.finding.c, s.anomaly.c
    found: dict[int, list[tuple[int, int, int, float]]] = {}
    for some in chunks(incidents):
        query = (
            sa.select(
                finding.incident_id,
                anomaly.series_id,
                anomaly.partition_id,
                finding.commit_id,
                finding.superseded_commit_id,
            )
            .join_from(s.finding, s.anomaly, anomaly.id == finding.anomaly_id)
            .where(finding.incident_id.in_(some))
        )
        for incident, series, partition, begun, end in connection.execute(query):
            until = math.inf if end is None else end
            found.setdefault(incident, []).append((series, partition, begun, until))
    return found


def label_rows(
    connection: Connection,
    dataset: str | None,
    as_of: AsOf = None,
    incident: int | None = None,
) -> list[Mapping[str, Any]]:
    """Return all labels, or those of an incident and its anomalies, in the order in which they were given."""
    label = s.label.c
    named = {
        "dataset": s.dataset.c.name,
        "partition": s.partition.c.name,
        "name": sa.func.coalesce(s.series.c.name, label.name),
        "instance": sa.func.coalesce(s.series.c.instance, label.instance),
    }
    query = (
        sa.select(*select_list(LABEL_COLUMNS, named, s.label))
        .select_from(s.label)
        .join(s.dataset, s.dataset.c.id == label.dataset_id)
        .outerjoin(s.series, s.series.c.id == label.series_id)
        .outerjoin(s.partition, s.partition.c.id == label.partition_id)
        .order_by(label.commit_id, label.id)
    )
    if dataset is not None:
        query = query.where(label.dataset_id == dataset_id(connection, dataset))
    if incident is not None:
        query = query.where(labels_of_incident(incident))
    commit = commit_as_of(connection, as_of)
    if commit is not None:
        query = query.where(label.commit_id <= commit)
    return [row._asdict() for row in connection.execute(query)]
