"""The incidents view: incidents with evidence, causes, timeline and actions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

from tidegauge.analyzers.core.errors import ConflictError, HistoryError, UnknownNameError
from tidegauge.repository.history.versions import series_of_anomalies
from tidegauge.repository.incidents.common_cause import grouped_incident_rows
from tidegauge.repository.incidents.grouping import incident_length
from tidegauge.repository.store.frames import columns, columns_of, frame_of
from tidegauge.repository.store.labels import (
    AUTOMATIC_AUTHOR,
    STATUS_OF,
    TRAINING_LABELS,
    WITHDRAWN,
    Triage,
    add_label,
    labels_since,
    missing_incidents,
    triage,
    withdrawn_labels,
)
from tidegauge.repository.store.queries import Window
from tidegauge.repository.store.rows import GroupedIncidentRow
from tidegauge.widgets import protocol
from tidegauge.widgets import series as charts
from tidegauge.widgets.answers import Answer, listed_rows, matches, seconds, table, truncate
from tidegauge.widgets.series import MAX_CHART_SERIES
from tidegauge.widgets.tables import MAX_SENTENCE_LENGTH, failed_checks

if TYPE_CHECKING:
    import pandas as pd

    from tidegauge.repository.incidents.causes import Move
    from tidegauge.repository.incidents.context import MeasuringRun
    from tidegauge.repository.incidents.details import IncidentDetails
    from tidegauge.repository.repository import Repository
    from tidegauge.widgets.series import Overview

MAX_EVIDENCE_SERIES = 6
"""Maximum number of series to chart as evidence."""
MAX_CAUSE_PARTS = 6
"""Maximum number of parts of a cause in an answer."""
LABEL_FIELDS = ("label", "note", "by", "created_at", "partition", "name", "instance")
SEARCHED_FIELDS = ("headline", "dataset", "severity", "assignee")
SEVERITY_ORDER = ("error", "warning", "info")
LIST_COLUMNS = {
    **columns_of(GroupedIncidentRow),
    **columns("since:time until:time opened_at:time assignee snoozed_until:time shared"),
}
ACTION_LABELS: Mapping[str, Sequence[str]] = {
    "acknowledge": ("acknowledged",),
    "expected": ("expected",),
    "false alarm": ("ignore", "resolved"),
    "bad data": ("acknowledged", "bad"),
    "new normal": ("rebaseline", "resolved"),
    "resolve": ("resolved",),
    "reopen": ("reopened",),
    "comment": ("comment",),
    "assign": ("assigned",),
    "snooze": ("snoozed",),
}
"""Labels that each action adds, in order."""


def incidents(repository: Repository, params: Mapping[str, Any]) -> Answer:
    """Return incidents in the order of the page, with assignee and snooze.

    ``shared`` is the headline of an incident's group.

    Parameters
    ----------
    repository : Repository
    params : mapping
        ``dataset``; None for all.
    """
    return table(_listed(repository, params.get("dataset")))


def _listed(repository: Repository, dataset: str | None) -> pd.DataFrame:
    """Return the incidents of a dataset, or of all, with the `LIST_COLUMNS`.

    The latest start comes first; incidents with the same start are ordered by severity.
    """
    with repository.database.read() as connection:
        rows, groups = grouped_incident_rows(connection, dataset, None, Window())
        triage_by_incident = triage(connection)
    shared = {number: group.headline for number, group in groups.items()}
    entries = [
        {
            **row,
            **vars(triage_by_incident.get(row["id"], Triage())),
            "shared": shared.get(row["id"]),
        }
        for row in rows
    ]
    listed = frame_of(entries, LIST_COLUMNS).assign(
        rank=[SEVERITY_ORDER.index(row["severity"]) for row in entries]
    )
    listed = listed.sort_values(["since", "rank"], ascending=[False, True], kind="stable")
    return listed.drop(columns="rank").reset_index(drop=True)


def frame(repository: Repository, params: Mapping[str, Any]) -> pd.DataFrame:
    """Return incidents; open incidents have the status ``snoozed`` until their snooze ends.

    Parameters
    ----------
    repository : Repository
    params : mapping
        ``table`` is the dataset; all if not given. ``rows`` are the ids that the page displays;
        without a page, rows follow ``status`` and ``filter``.
    """
    listed = _listed(repository, params.get("table"))
    snoozed = (listed["status"] == "open") & (listed["snoozed_until"] > datetime.now(UTC))
    listed = listed.assign(status=listed["status"].mask(snoozed, "snoozed"))
    if params.get("rows") is not None:
        return listed_rows(listed, listed["id"], params["rows"])
    columns = [listed[name].fillna("").map(truncate) for name in SEARCHED_FIELDS]
    numbers = [f"#{number}" for number in listed["id"]]
    mask = matches([*columns, numbers], params.get("filter"))
    if params.get("status"):
        mask &= (listed["status"] == params["status"]).to_numpy()
    return listed[mask].reset_index(drop=True)


def evidence(overview: Overview, params: Mapping[str, Any]) -> pd.DataFrame:
    """Return the points of the charts that are evidence of an incident.

    Parameters
    ----------
    overview : Overview
    params : mapping
        ``id`` of the incident; ``columns`` are the first and last label that the page draws.
    """
    details = incident(overview.repository, {"incident": params["id"]}).payload
    return charts.frame(overview, {"ids": details["evidence"], "columns": params.get("columns")})


def incident(repository: Repository, params: Mapping[str, Any], *, samples: bool = False) -> Answer:
    """Return the details of an incident, and the series with the best evidence.

    Parameters
    ----------
    repository : Repository
    params : mapping
        ``incident``, the id.
    samples : bool
        If true, include samples of failing records, which are data of the table.
    """
    details = repository.incident(int(params["incident"]))
    first_anomalies = details.firsts.head(MAX_CHART_SERIES)["id"].tolist()
    peaks = details.peaks.head(MAX_EVIDENCE_SERIES)
    with repository.database.read() as connection:
        series = series_of_anomalies(connection, [*first_anomalies, *peaks["id"].tolist()])
        state = triage(connection).get(details.id, Triage())
        length = incident_length(connection, details.row)
    row = details.row
    labels = [
        {name: label[name] for name in LABEL_FIELDS} for label in details.labels.to_dict("records")
    ]
    withdrawn = withdrawn_labels([(event.kind, event.text) for event in details.timeline])
    events = [
        {
            **vars(event),
            "text": event.text and truncate(event.text, MAX_SENTENCE_LENGTH),
            "withdrawn": n in withdrawn,
        }
        for n, event in enumerate(details.timeline)
    ]
    payload: protocol.IncidentAnswer = {
        "incident": details.id,
        "dataset": str(row["dataset"]),  # untruncated: the script sends it back
        "headline": truncate(str(row["headline"]), MAX_SENTENCE_LENGTH),
        "severity": row["severity"],
        "status": row["status"],
        "series": row["series"],
        "first": truncate(str(row["first"])),
        "last": truncate(str(row["last"])),
        "opened_at": row["opened_at"],
        "revision": details.revision,
        "since": _seconds(row["since"]),
        "until": _seconds(row["until"]),
        "duration": length,
        "anomalies": len(details.anomalies),
        "assignee": state.assignee,
        "snoozed_until": state.snoozed_until,
        "evidence": [series[anomaly] for anomaly in peaks["id"]],
        "all_series": list(dict.fromkeys(series[anomaly] for anomaly in first_anomalies)),
        "explanations": [
            truncate(explanation, MAX_SENTENCE_LENGTH) for explanation in peaks["explanation"]
        ],
        "group_headline": (
            truncate(details.group.headline, MAX_SENTENCE_LENGTH) if details.group else None
        ),
        "other_incidents": _related_incidents(details),
        "causes": [_cause(move) for move in details.causes.moves],
        "unmeasured": [truncate(text) for text in details.causes.unmeasured],
        "companions": [
            {"summary": str(companion), "series": companion.series}
            for companion in details.causes.companions
        ],
        "restated": [
            truncate(str(restatement), MAX_SENTENCE_LENGTH)
            for restatement in details.causes.restated
        ],
        "schema": [truncate(str(change), MAX_SENTENCE_LENGTH) for change in details.causes.schema],
        "checks": failed_checks(
            repository, details.dataset, {*details.anomalies["partition"], ""}, samples=samples
        )[0],
        "run": _run(details.context.run),
        "runbook": (
            truncate(details.context.runbook, MAX_SENTENCE_LENGTH)
            if details.context.runbook
            else None
        ),
        # untruncated: the script sends the names back
        "downstream": list(details.context.downstream[:MAX_CHART_SERIES]),
        "timeline": cast("list[protocol.IncidentEvent]", events),
        "labels": cast("list[protocol.IncidentLabel]", labels),
    }
    return Answer(payload)


def _seconds(time: datetime | None) -> float | None:
    """Convert a time to seconds since 1970, or None to None."""
    return None if time is None else seconds(time)


def _run(run: MeasuringRun | None) -> protocol.IncidentRun | None:
    """Return the run that measured the first partition of an incident, if it is known."""
    if run is None:
        return None
    job = truncate(run.job, MAX_SENTENCE_LENGTH) if run.job else None
    return {"id": run.id, "started_at": run.started_at, "job": job}


def _related_incidents(details: IncidentDetails) -> list[protocol.OtherIncident]:
    """Return the incidents of other tables that share the cause."""
    members = details.group.incidents if details.group else ()
    related = [member for member in members if member.id != details.id]
    return [
        {"incident": member.id, "dataset": member.dataset} for member in related[:MAX_CHART_SERIES]
    ]


def _cause(move: Move) -> protocol.IncidentCause:
    """Return a change with the parts of its first dimension, which explains it best."""
    dimension = move.dimensions[0]
    return {
        "summary": str(move),
        "metric": truncate(move.subject),
        "partition": truncate(move.partition),
        "dimension": truncate(dimension.name),
        "scale": move.scale,
        "series": move.series,
        "parts": [
            {
                "name": truncate(part.name),
                "value": part.value,
                "expected": part.expected,
                "share": part.share,
                "series": move.part_series.get((dimension.name, part.name)),
            }
            for part in dimension.parts[:MAX_CAUSE_PARTS]
        ],
    }


def label_incident(
    repository: Repository, params: Mapping[str, Any], author: str | None, *, samples: bool = False
) -> Answer:
    """Take an action on an incident, and return its new details.

    Parameters
    ----------
    repository : Repository
    params : mapping
        Parameters of the request, as `protocol.LabelIncidentQuestion`.
    author : str or None
        Author of the labels; None if the page names the author.
    samples : bool
        As for `incident`.

    Raises
    ------
    ConflictError
        If the incident was labeled after the page read it.
    HistoryError
        If the author is missing.
    UnknownNameError
        If the action is unknown.
    """
    number = int(params["incident"])
    if params["action"] == "undo":
        _undo(repository, number, params, author)
    else:
        _add_labels(repository, number, params, author, int(params["revision"]))
    return incident(repository, {"incident": number}, samples=samples)


def label_incidents(
    repository: Repository, params: Mapping[str, Any], author: str | None
) -> Answer:
    """Take one action on several incidents, even if they were labeled since the page read them.

    The action ``undo`` withdraws the labels of an earlier action. Incidents that were labeled since
    keep their labels, and the answer lists them as conflicts.

    Parameters
    ----------
    repository : Repository
    params : mapping
        Parameters of the request, as `protocol.LabelIncidentsQuestion`.
    author : str or None
        Author of the labels; None if the page names the author.

    Raises
    ------
    HistoryError
        If the author is missing, or an incident to label does not exist anymore; then none is labeled.
    UnknownNameError
        If the action is unknown.
    """
    _author(params, author)
    changes: list[protocol.LabeledIncident] = []
    conflicts: list[int] = []
    if params["action"] == "undo":
        for change in params["changes"]:
            number = int(change["incident"])
            try:
                _undo(repository, number, {**params, **change}, author)
            except (ConflictError, HistoryError):  # labeled since, or dropped
                conflicts.append(number)
        labelled = len(params["changes"]) - len(conflicts)
    else:
        numbers = list(dict.fromkeys(map(int, params["incidents"])))
        _require_incidents(repository, numbers)
        changes = [_add_labels_now(repository, number, params, author) for number in numbers]
        labelled = len(numbers)
    payload: protocol.LabelIncidentsAnswer = {
        "labelled": labelled,
        "changes": changes,
        "conflicts": conflicts,
    }
    return Answer(payload)


def _require_incidents(repository: Repository, numbers: Sequence[int]) -> None:
    """Raise `HistoryError` if an incident does not exist anymore, for example because its dataset was dropped."""
    with repository.database.read() as connection:
        missing = missing_incidents(connection, numbers)
    if missing:
        msg = f"No label saved: there is no incident {missing[0]}. Reload the page and try again."
        raise HistoryError(msg)


def _add_labels_now(
    repository: Repository, number: int, params: Mapping[str, Any], author: str | None
) -> protocol.LabeledIncident:
    """Add the labels of an action after all other labels of an incident, and return both revisions."""
    while True:
        before = _revision(repository, number)
        try:
            _add_labels(repository, number, params, author, before)
        except ConflictError:
            continue  # another user was faster
        return {"incident": number, "before": before, "revision": _revision(repository, number)}


def _revision(repository: Repository, number: int) -> int:
    """Return the id of the last label of an incident; 0 without labels."""
    with repository.database.read() as connection:
        return max((int(row["id"]) for row in labels_since(connection, number, 0)), default=0)


def _add_labels(
    repository: Repository,
    number: int,
    params: Mapping[str, Any],
    known_author: str | None,
    revision: int | None,
) -> None:
    """Add the labels of an action to an incident.

    The note of an assignment is the assignee; a comment follows as a label of its own.

    Parameters
    ----------
    repository : Repository
    number : int
        Id of the incident.
    params : mapping
        The action, as `protocol.Action`.
    known_author : str or None
        Author of the labels; None if the page names the author.
    revision : int or None
        Revision of the incident that the user read; None to ignore newer labels.
    """
    action = params["action"]
    if action not in ACTION_LABELS:
        raise UnknownNameError("action", action, ACTION_LABELS)
    author = _author(params, known_author)
    comment = (params.get("note") or "").strip() or None
    note = (params.get("assignee") or "").strip() or None if action == "assign" else comment
    snooze_end = params.get("until") if action == "snooze" else None
    end = None if snooze_end is None else datetime.fromtimestamp(float(snooze_end), UTC)
    for label in ACTION_LABELS[action]:
        repository.label(number, label, note=note, by=author, revision=revision, until=end)
        revision, note = None, None  # only the first label has the note and checks the revision
    if action == "assign" and comment:
        repository.label(number, "comment", note=comment, by=author)


def _author(params: Mapping[str, Any], known_author: str | None) -> str:
    """Return the author of a request's labels: the known author, else the name from the page."""
    author: str = known_author or (params.get("author") or "").strip()
    if not author:
        msg = "Label not saved: the author is missing. Enter your name and try again."
        raise HistoryError(msg)
    return author


def _undo(
    repository: Repository, number: int, params: Mapping[str, Any], known_author: str | None
) -> None:
    """Withdraw the labels that were added to an incident after the revision ``before``.

    If others added some of them, nothing is withdrawn. Labels are only added. New labels restore status, training, assignee and snooze, and the note of
    the first one names the withdrawn labels.
    """
    author = _author(params, known_author)
    before = int(params["before"])
    with repository.database.read() as connection:
        labels = [
            row for row in labels_since(connection, number, 0) if row["incident_id"] == number
        ]
        state = triage(connection, last_label=before).get(number, Triage())
    added = [row for row in labels if row["id"] > before]
    if not added:
        msg = f"Nothing to undo: incident {number} has no label after revision {before}."
        raise HistoryError(msg)
    others = [row for row in added if row["by"] != added[0]["by"]]
    if others:  # added between the labels of the action, or before the page read its revision
        raise ConflictError(int(others[-1]["id"]), others)
    withdrawn = [row["label"] for row in added]
    earlier = [row["label"] for row in labels if row["id"] <= before]
    revision: int | None = int(params["revision"])
    note: str | None = f"{WITHDRAWN}{', '.join(withdrawn)}"
    notes_of_automatic = {  # the last label of each kind decides
        row["label"]: row["note"] if row["by"] == AUTOMATIC_AUTHOR else None
        for row in labels
        if row["id"] <= before
    }
    for label, details in _restoring_labels(withdrawn, earlier, state):
        if note is None and notes_of_automatic.get(label) is not None:
            # `resolved` by a person is final, and is not a new level.
            automatic = notes_of_automatic[label]
            add_label(repository.database, number, label, automatic, None, is_automatic=True)
            continue
        repository.label(number, label, by=author, revision=revision, **{"note": note, **details})
        revision, note = None, None  # only the first label has the note and checks the revision


def _restoring_labels(
    withdrawn: Sequence[str], earlier: Sequence[str], state: Triage
) -> list[tuple[str, dict[str, Any]]]:
    """Return the labels, with their details, that restore the state before the withdrawn labels.

    Parameters
    ----------
    withdrawn, earlier : sequence of str
        Labels of the incident, oldest first.
    state : Triage
        Assignment and snooze before the withdrawn labels.

    Examples
    --------
    >>> _restoring_labels(["ignore", "resolved"], ["bad", "acknowledged"], Triage())
    [('reopened', {}), ('bad', {}), ('acknowledged', {})]
    >>> _restoring_labels(["assigned"], [], Triage())
    [('assigned', {'note': None})]
    >>> _restoring_labels(["comment"], ["resolved"], Triage())
    [('comment', {})]
    """
    restoring: list[tuple[str, dict[str, Any]]] = []
    deciding = {label for label, status in STATUS_OF.items() if status} | {*TRAINING_LABELS}
    if deciding & {*withdrawn} or "snoozed" in withdrawn:
        restoring.append(("reopened", {}))
        since_reopened = list(earlier)
        while "reopened" in since_reopened:
            since_reopened = since_reopened[since_reopened.index("reopened") + 1 :]
        training = [label for label in since_reopened if label in TRAINING_LABELS]
        statuses = [label for label in since_reopened if STATUS_OF[label]]
        restoring += [(label, {}) for label in dict.fromkeys([*training[-1:], *statuses[-1:]])]
        if state.snoozed_until is not None:
            restoring.append(("snoozed", {"until": state.snoozed_until}))
    if "assigned" in withdrawn:
        restoring.append(("assigned", {"note": state.assignee}))
    return restoring or [("comment", {})]
