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
from tidegauge.repository.store import queries
from tidegauge.repository.store import schema as s
from tidegauge.repository.store.bulk import chunks
from tidegauge.repository.store.database import Database, next_commit
from tidegauge.repository.store.dimensions import visible
from tidegauge.repository.store.frames import columns
from tidegauge.repository.store.listing import retirements
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

NEW_LEVEL = "became the new level"
"""Beginning of the note of an automatic label ``resolved`` on an incident whose values never returned."""
NEW_LEVEL_STATUS = "new level"
"""Status that this note sets. It needs no label of its own, so that older releases and SQL views read it."""
LABEL_STATUSES = (
    *dict.fromkeys(status for status in STATUS_OF.values() if status is not None),
    NEW_LEVEL_STATUS,
)
"""Statuses of anomalies and incidents; ``open`` until a label sets another."""

LABEL_COLUMNS = columns(
    "dataset anomaly_id:integer incident_id:integer partition name instance since until"
    " label note by created_at:time"
)
AUTOMATIC_AUTHOR = "tidegauge"
"""Author of automatic labels: an incident is over, is back, or is on a holiday. Users' labels never have this author."""
TRAINING_LABELS = ("expected", "bad", "ignore", "rebaseline")
"""Labels that control what detectors may learn from; ``reopened`` revokes them."""
RANGE_LABELS = (*TRAINING_LABELS, "reopened")
"""Labels of ranges."""


def author(user: str | None) -> str | None:
    """Return the author of a user's label; a user with the automatic author's name gets a suffix.

    Examples
    --------
    >>> author("ann"), author("tidegauge")
    ('ann', 'tidegauge (user)')
    """
    return f"{user} (user)" if user == AUTOMATIC_AUTHOR else user and visible(user)


def add_label(
    database: Database,
    target: int,
    label: str,
    note: str | None,
    user: str | None,
    last_seen: int | None = None,
    until: queries.Moment = None,
    *,
    is_automatic: bool = False,
) -> None:
    """Add a label to an anomaly or incident.

    ``last_seen`` is the id of the last label that the caller saw. If given, a newer label on the
    anomaly or incident, on the anomaly's incident, or on another anomaly of it is a conflict. The
    check runs under the clock's lock, so only one of two callers that saw the
    same label succeeds. ``until`` is the end of ``snoozed``; other labels have none. An automatic label
    has no user.

    Raises
    ------
    UnknownNameError
        If the label is unknown.
    HistoryError
        If the anomaly or incident does not exist, a comment is empty, or ``snoozed`` has no end.
    ConflictError
        If there is a newer label.
    """
    if label not in STATUS_OF:
        raise UnknownNameError("label", label, STATUS_OF)
    end = queries.moment_of(until, "until")
    if isinstance(until, datetime) and until.tzinfo is None:
        msg = f"until={until} has no time zone; use an aware datetime, such as datetime.now(UTC)"
        raise HistoryError(msg)
    _check_details(label, note, end)
    target = index(target)
    last_label = None if last_seen is None else index(last_seen)
    by = AUTOMATIC_AUTHOR if is_automatic else author(user)
    details = {"note": note and visible(note), "by": by, "until": end}

    def work(connection: Connection) -> None:
        commit, now = next_commit(connection, None)
        subject = _anomaly(connection, target) or _incident(connection, target)
        if subject is None:
            msg = f"no anomaly or incident has the id {target}; repo.anomalies() lists the ids"
            raise HistoryError(msg)
        if last_label is not None:
            newer = labels_since(connection, target, last_label)
            if newer:
                raise ConflictError(newer[-1]["id"], newer)
        values = {**subject, "label": label, **details}
        connection.execute(sa.insert(s.label).values(**values, created_at=now, commit_id=commit))

    database.write(work)


def _check_details(label: str, note: str | None, until: datetime | None) -> None:
    if label == "comment" and not note:
        msg = "a comment needs a note: note=, or --note on the command line"
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


def triage(
    connection: Connection, commit: int | None = None, last_label: int | None = None
) -> dict[int, Triage]:
    """Return the assignment and snooze of each incident that was ever assigned or snoozed.

    Labels after the commit or after the label with the id ``last_label`` are ignored.
    """
    ending = ["snoozed", *(label for label, status in STATUS_OF.items() if status is not None)]
    query = sa.select(
        s.label.c.incident_id, s.label.c.label, s.label.c.note, s.label.c.until
    ).where(s.label.c.incident_id.is_not(None), s.label.c.label.in_(["assigned", *ending]))
    if commit is not None:
        query = query.where(s.label.c.commit_id <= commit)
    if last_label is not None:
        query = query.where(s.label.c.id <= last_label)
    triages: dict[int, Triage] = {}
    for incident, label, note, end in connection.execute(query.order_by(s.label.c.id)):
        previous = triages.get(incident, Triage())
        if label == "assigned":
            triages[incident] = replace(previous, assignee=note)
        elif label == "snoozed" or incident in triages:
            triages[incident] = replace(previous, snoozed_until=end)
    return triages


def last_label_id(connection: Connection, incident: int) -> int:
    """Return the id of the newest label of an incident or its anomalies; 0 if there is none."""
    newest = sa.select(sa.func.max(s.label.c.id)).where(labels_of_incident(incident))
    return connection.execute(newest).scalar() or 0


def last_labelled(connection: Connection, commit: int | None = None) -> dict[int, datetime]:
    """Return the time of the last label of each labeled incident, including the labels of its anomalies."""
    label, finding, anomaly = s.label.c, s.finding.c, s.anomaly.c
    members = (
        sa.select(finding.incident_id)
        .join_from(s.finding, s.anomaly, anomaly.id == finding.anomaly_id)
        .where(_same_point(label, anomaly), s.holds(s.finding, commit))
    )
    incident = sa.func.coalesce(label.incident_id, members.limit(1).scalar_subquery())
    query = sa.select(incident, label.created_at)
    if commit is not None:
        query = query.where(label.commit_id <= commit)
    rows = connection.execute(query.order_by(label.id))  # the last one counts
    return {incident: time for incident, time in rows if incident is not None}


def missing_incidents(connection: Connection, numbers: Sequence[int]) -> list[int]:
    """Return the ids that no incident has."""
    incident = s.incident.c.id
    known: set[int] = set()
    for chunk in chunks(numbers):
        known.update(connection.execute(sa.select(incident).where(incident.in_(chunk))).scalars())
    return [number for number in numbers if number not in known]


def labels_since(connection: Connection, target: int, last_seen: int) -> list[Mapping[str, Any]]:
    """Return the labels newer than ``last_seen`` on an incident, or an anomaly's incident, in order."""
    label, finding = s.label.c, s.finding.c
    around = sa.select(finding.incident_id).where(finding.anomaly_id == target, s.holds(s.finding))
    incident = connection.execute(around).scalar() or target
    is_related = labels_of_incident(incident) | (label.anomaly_id == target)
    columns = (
        label.id,
        label.anomaly_id,
        label.incident_id,
        label.label,
        label.note,
        label.by,
        label.created_at,
    )
    query = sa.select(*columns).where(label.id > last_seen, is_related).order_by(label.id)
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


def _anomaly(connection: Connection, number: int) -> dict[str, int] | None:
    anomaly = s.anomaly.c
    query = (
        sa.select(s.partition.c.dataset_id, anomaly.series_id, anomaly.partition_id)
        .join_from(s.anomaly, s.partition)
        .where(anomaly.id == number)
    )
    row = connection.execute(query).one_or_none()
    return None if row is None else {**row._asdict(), "anomaly_id": number}


def _incident(connection: Connection, number: int) -> dict[str, int] | None:
    query = sa.select(s.incident.c.dataset_id).where(s.incident.c.id == number)
    dataset = connection.execute(query).scalar_one_or_none()
    return None if dataset is None else {"dataset_id": dataset, "incident_id": number}


def add_range(
    database: Database,
    dataset: str,
    label: str,
    window: queries.Window,
    series: Mapping[str, str | None],
    note: str | None,
    user: str | None,
    *,
    dry_run: bool = False,
) -> None:
    """Add a label to all points of matching series in a time range, past or future.

    A dry run only checks the label.

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
        msg = "a range needs since=, until=, or both"
        raise HistoryError(msg)
    details = {"note": note and visible(note), "by": author(user), **series}
    unknown: list[str] = []

    def check(connection: Connection) -> int:
        dataset_number = queries.dataset_id(connection, dataset)
        unknown[:] = (
            f"{dataset!r} has no series of {selector} yet"
            for selector in _unknown_series(connection, dataset_number, series)
        )
        if _is_empty_range(connection, dataset_number, window):
            start = (
                "the first partition"
                if window.since is None
                else f"{window.since:%Y-%m-%d %H:%M} UTC"
            )
            unknown.append(
                f"{dataset!r} has no partition between {start} and {window.until:%Y-%m-%d %H:%M} UTC:"
                " the label applies to nothing yet"
            )
        return dataset_number

    def work(connection: Connection) -> None:
        dataset_number = check(connection)
        commit, now = next_commit(connection, None)
        scope = {
            "dataset_id": dataset_number,
            "since": window.since,
            "until": window.until,
            "label": label,
        }
        values = {**scope, **details, "created_at": now, "commit_id": commit}
        connection.execute(sa.insert(s.label).values(values))

    if dry_run:
        with database.read() as connection:
            check(connection)
    else:
        database.write(work)
    for message in unknown:
        warnings.warn(message, RepositoryWarning, stacklevel=3)


def _unknown_series(
    connection: Connection, dataset: int, series: Mapping[str, str | None]
) -> Iterator[str]:
    """Yield the selectors that match no series yet; a label may apply to future series."""
    analyzer = s.analyzer.c
    for selector, column in (
        ("name", s.series.c.name),
        ("instance", s.series.c.instance),
        ("segment", analyzer.segment),
    ):
        value = series.get(selector)
        if value is None:
            continue
        query = (
            sa.select(column).join_from(s.series, s.analyzer).where(analyzer.dataset_id == dataset)
        )
        names = set(connection.execute(query.distinct()).scalars())
        if value not in names:
            yield f"the {selector} {value!r}{did_you_mean(value, sorted(names))}"


def _is_empty_range(connection: Connection, dataset: int, window: queries.Window) -> bool:
    """Return True if a range in the past contains no partition."""
    if window.until is None or window.until > datetime.now(UTC):
        return False
    inside = sa.select(s.partition.c.id).where(
        s.partition.c.dataset_id == dataset, window.condition()
    )
    return connection.execute(inside.limit(1)).first() is None


def statuses(connection: Connection, commit: int | None = None) -> dict[int, tuple[int, str]]:
    """Return label id and status for each anomaly and incident whose status is set by labels.

    The label of an anomaly holds for the same point when its partition is measured again. Anomalies
    and incidents of retired datasets are resolved unless a label set another status.
    """
    anomaly, labelled = s.anomaly.c, s.anomaly.alias("labelled")
    status_labels = [label for label, status in STATUS_OF.items() if status is not None]
    same = _same_point(labelled.c, anomaly) & (anomaly.detector == labelled.c.detector)
    query = (
        sa.select(
            s.label.c.id,
            sa.func.coalesce(s.label.c.incident_id, anomaly.id),
            s.label.c.label,
            s.label.c.by,
            s.label.c.note,
        )
        .select_from(s.label)
        .outerjoin(labelled, labelled.c.id == s.label.c.anomaly_id)
        .outerjoin(s.anomaly, same)
        .where(s.label.c.label.in_(status_labels))
    )
    if commit is not None:
        query = query.where(s.label.c.commit_id <= commit)
    status_by_id: dict[int, tuple[int, str]] = {}
    for number, subject, label, by, note in connection.execute(query.order_by(s.label.c.id)):
        if subject is not None:
            status_by_id[subject] = (number, _status_of_label(label, by, note))
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
            for subject in connection.execute(query).scalars():
                number, status = status_by_id.get(subject, (0, "open"))
                if status == "open":
                    status_by_id[subject] = (number, "resolved")
    return status_by_id


def _status_of_label(label: str, by: str | None, note: str | None) -> str:
    """Return the status that a label sets; the label must set one.

    Examples
    --------
    >>> _status_of_label("resolved", "tidegauge", "became the new level")
    'new level'
    """
    if label == "resolved" and by == AUTOMATIC_AUTHOR and (note or "").startswith(NEW_LEVEL):
        return NEW_LEVEL_STATUS
    return str(STATUS_OF[label])


def _same_point(point: Any, other_point: Any) -> sa.ColumnElement[bool]:
    """Return the condition that two labels or anomalies, of any version, have the same series and partition."""
    return sa.and_(
        point.series_id == other_point.series_id, point.partition_id == other_point.partition_id
    )


def check_status(status: str | None) -> None:
    """Check a status to filter by; None is any.

    Raises
    ------
    UnknownNameError
    """
    if status is not None and status not in LABEL_STATUSES:
        raise UnknownNameError("status", status, LABEL_STATUSES)


def status_of(
    status_by_id: Mapping[int, tuple[int, str]], anomaly: int | None, incident: int | None
) -> str:
    """Return an anomaly's status by the newer of its own and its incident's label, or ``open``."""
    return max(
        status_by_id.get(subject, (0, "open"))
        for subject in (anomaly, incident)
        if subject is not None
    )[1]


@dataclass(frozen=True)
class LastLabels:
    """The last labels of an incident.

    Attributes
    ----------
    label, by, at : str or None, str or None, datetime or None
        The last label that sets the status, its author, and when it was given.
    judged_at : int or None
        The commit of the last label in which a person judged the incident: acknowledged, expected,
        resolved or snoozed. None if a person reopened it, or if it has since worsened beyond the
        label.
    beyond_at : datetime or None
        When detection last found that the incident exceeds the labeled state.
    """

    label: str | None = None
    by: str | None = None
    at: datetime | None = None
    judged_at: int | None = None
    beyond_at: datetime | None = None


BEYOND_LABEL = "beyond what was labelled"
"""Beginning of the note of an automatic label on an incident that has worsened since a person labeled it."""


def last_labels(
    connection: Connection, datasets: Sequence[int] | None = None
) -> dict[int, LastLabels]:
    """Return the last labels of each labeled incident, in some datasets or in all."""
    status_labels = [label for label, status in STATUS_OF.items() if status is not None]
    query = sa.select(
        s.label.c.incident_id,
        s.label.c.label,
        s.label.c.by,
        s.label.c.note,
        s.label.c.commit_id,
        s.label.c.created_at,
    ).where(s.label.c.incident_id.is_not(None), s.label.c.label.in_([*status_labels, "snoozed"]))
    if datasets is not None:
        query = query.where(s.label.c.dataset_id.in_(datasets))
    labels_by_incident: dict[int, LastLabels] = {}
    for row in connection.execute(query.order_by(s.label.c.id)):
        last = labels_by_incident.get(row.incident_id, LastLabels())
        if row.label != "snoozed":
            last = replace(last, label=row.label, by=row.by, at=row.created_at)
        if row.by != AUTOMATIC_AUTHOR:
            judged = None if row.label == "reopened" else row.commit_id
            last = replace(last, judged_at=judged)
        elif (row.note or "").startswith(BEYOND_LABEL):
            last = replace(last, judged_at=None, beyond_at=row.created_at)
        labels_by_incident[row.incident_id] = last
    return labels_by_incident


def last_automatic_note(connection: Connection, incident: int) -> str:
    """Return the note of the last automatic label of an incident; empty if there is none."""
    label = s.label.c
    query = sa.select(label.note).where(label.incident_id == incident, label.by == AUTOMATIC_AUTHOR)
    return connection.execute(query.order_by(label.id.desc()).limit(1)).scalar() or ""


def trains_detectors(labels: Sequence[str] = TRAINING_LABELS) -> sa.ColumnElement[bool]:
    """Return the condition that a label is a user's, and either one of ``labels`` or their revocation."""
    label = s.label.c
    is_automatic = label.by.is_not_distinct_from(AUTOMATIC_AUTHOR)
    return label.label.in_((*labels, "reopened")) & ~is_automatic


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
        .where(label.dataset_id == dataset, trains_detectors(labels))
        .order_by(label.id)
    )
    last: dict[tuple[str, int], Any] = {}
    commits: dict[tuple[str, int], list[int]] = {}
    for row in connection.execute(query):
        subjects = (("anomaly", row.anomaly_id), ("incident", row.incident_id), ("range", row.id))
        subject = next(pair for pair in subjects if pair[1] is not None)
        last.pop(subject, None)
        last[subject] = row
        commits.setdefault(subject, []).append(row.commit_id)
    members = _members(connection, [number for kind, number in last if kind == "incident"])
    effects = []
    for (kind, number), row in last.items():
        points: frozenset[tuple[int, int]] | None = None
        if kind == "anomaly":
            points = frozenset({(row.series_id, row.partition_id)})
        elif kind == "incident":
            # Its anomalies at the time of a label, including anomalies that a label withdrew.
            findings = members.get(number, ())
            points = frozenset(
                (i, p)
                for i, p, begun, end in findings
                if any(begun <= then < end for then in commits[kind, number])
            )
        selectors = (row.name, row.instance, row.segment, row.since, row.until)
        options = {"commit": row.commit_id, "subject": (kind, number)}
        effects.append(LabelEffect(row.label, points, *selectors, **options))
    return effects


def _members(
    connection: Connection, incidents: Sequence[int]
) -> dict[int, list[tuple[int, int, int, float]]]:
    """Return series, partition, first and end commit of every finding in the incidents."""
    finding, anomaly = s.finding.c, s.anomaly.c
    members: dict[int, list[tuple[int, int, int, float]]] = {}
    for chunk in chunks(incidents):
        query = (
            sa.select(
                finding.incident_id,
                anomaly.series_id,
                anomaly.partition_id,
                finding.commit_id,
                finding.superseded_commit_id,
            )
            .join_from(s.finding, s.anomaly, anomaly.id == finding.anomaly_id)
            .where(finding.incident_id.in_(chunk))
        )
        for incident, series, partition, begun, end in connection.execute(query):
            end_commit = math.inf if end is None else end
            members.setdefault(incident, []).append((series, partition, begun, end_commit))
    return members


WITHDRAWN = "withdrawn: "
"""Beginning of the note of the label that undoes others, which it names."""


def withdrawn_labels(labels: Sequence[tuple[str, str | None]]) -> set[int]:
    """Return the positions of the labels of one incident that a later label undoes.

    Parameters
    ----------
    labels : sequence of pairs
        Labels with their notes, oldest first. Other events may be among them.

    Examples
    --------
    >>> withdrawn_labels([("comment", "hm"), ("expected", None), ("reopened", "withdrawn: expected")])
    {1}
    """
    withdrawn: set[int] = set()
    for position, (label, note) in enumerate(labels):
        if label not in STATUS_OF or not (note or "").startswith(WITHDRAWN):
            continue
        names = (note or "").removeprefix(WITHDRAWN).split(", ")
        earlier = (n for n in range(position - 1, -1, -1) if n not in withdrawn)
        for n in list(earlier):
            if names and labels[n][0] == names[-1]:
                names.pop()
                withdrawn.add(n)
    return withdrawn


def standing_labels(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the labels that nobody has undone, without the labels that undid others.

    Parameters
    ----------
    rows : sequence of mapping
        Labels of any incidents, as `label_rows` returns them.
    """
    rows_by_incident: dict[Any, list[Mapping[str, Any]]] = {}
    for row in rows:
        if row["incident_id"] is not None:
            rows_by_incident.setdefault(row["incident_id"], []).append(row)
    undone: set[int] = set()
    for labels in rows_by_incident.values():
        withdrawn = withdrawn_labels([(row["label"], row["note"]) for row in labels])
        undone |= {
            id(row)
            for n, row in enumerate(labels)
            if n in withdrawn or (row["note"] or "").startswith(WITHDRAWN)
        }
    return [row for row in rows if id(row) not in undone]


def label_rows(
    connection: Connection,
    dataset: str | None,
    as_of: queries.AsOf = None,
    incident: int | None = None,
) -> list[Mapping[str, Any]]:
    """Return all labels, or the labels of an incident and its anomalies, oldest first."""
    label = s.label.c
    expressions = {
        "dataset": s.dataset.c.name,
        "partition": s.partition.c.name,
        "name": sa.func.coalesce(s.series.c.name, label.name),
        "instance": sa.func.coalesce(s.series.c.instance, label.instance),
    }
    query = (
        sa.select(*queries.select_list(LABEL_COLUMNS, expressions, s.label))
        .select_from(s.label)
        .join(s.dataset, s.dataset.c.id == label.dataset_id)
        .outerjoin(s.series, s.series.c.id == label.series_id)
        .outerjoin(s.partition, s.partition.c.id == label.partition_id)
        .order_by(label.commit_id, label.id)
    )
    if dataset is not None:
        query = query.where(label.dataset_id == queries.dataset_id(connection, dataset))
    if incident is not None:
        query = query.where(labels_of_incident(incident))
    commit = queries.commit_as_of(connection, as_of)
    if commit is not None:
        query = query.where(label.commit_id <= commit)
    return [row._asdict() for row in connection.execute(query)]
