"""The incidents view: incidents with evidence, causes, timeline and actions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

from tidegauge.analyzers.core.errors import HistoryError, UnknownNameError
from tidegauge.repository.history.versions import series_of_anomalies
from tidegauge.repository.incidents.common_cause import grouped_incident_rows
from tidegauge.repository.incidents.grouping import incident_length
from tidegauge.repository.store.frames import columns, columns_of, frame_of
from tidegauge.repository.store.labels import Triage, triage
from tidegauge.repository.store.queries import Window
from tidegauge.repository.store.rows import GroupedIncidentRow
from tidegauge.widgets import protocol
from tidegauge.widgets import series as charts
from tidegauge.widgets.answers import Answer, listed_rows, matches, seconds, shown, table
from tidegauge.widgets.series import MOST
from tidegauge.widgets.tables import SENTENCE, failed_checks

if TYPE_CHECKING:
    import pandas as pd

    from tidegauge.repository.incidents.causes import Move
    from tidegauge.repository.incidents.context import MeasuringRun
    from tidegauge.repository.incidents.details import IncidentDetails
    from tidegauge.repository.repository import Repository
    from tidegauge.widgets.series import Overview

EVIDENCE = 6
"""Maximum number of series to chart as evidence."""
PARTS = 6
"""Maximum number of parts of a cause to send."""
SAID = ("label", "note", "by", "created_at", "partition", "name", "instance")
SEARCHED = ("headline", "dataset", "severity", "assignee")
SEVERITIES = ("error", "warning", "info")
LIST_COLUMNS = {
    **columns_of(GroupedIncidentRow),
    **columns("since:time until:time opened_at:time assignee snoozed_until:time shared"),
}
ACTIONS: Mapping[str, Sequence[str]] = {
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


def incidents(repository: Repository, asked: Mapping[str, Any]) -> Answer:
    """Return the incidents of a dataset, or of all, in the order of the page, with assignee and snooze.

    ``shared`` is the headline of an incident's group.
    """
    return table(_listed(repository, asked.get("dataset")))


def _listed(repository: Repository, dataset: str | None) -> pd.DataFrame:
    """Return the incidents of a dataset, or of all, with the `LIST_COLUMNS`.

    Those that began last come first, the gravest of one time before the others.
    """
    with repository.database.read() as connection:
        rows, groups = grouped_incident_rows(connection, dataset, None, Window())
        of = triage(connection)
    shared = {number: group.headline for number, group in groups.items()}
    told = [
        {**row, **vars(of.get(row["id"], Triage())), "shared": shared.get(row["id"])}
        for row in rows
    ]
    found = frame_of(told, LIST_COLUMNS).assign(
        rank=[SEVERITIES.index(row["severity"]) for row in told]
    )
    found = found.sort_values(["since", "rank"], ascending=[False, True], kind="stable")
    return found.drop(columns="rank").reset_index(drop=True)


def frame(repository: Repository, asked: Mapping[str, Any]) -> pd.DataFrame:
    """Return the incidents of the ``table``, or of all: the ``rows`` that the page lists, by id.

    Without a page, they follow the options ``status`` and ``filter``. An open incident that is snoozed
    has the status ``snoozed`` until its time.
    """
    found = _listed(repository, asked.get("table"))
    asleep = (found["status"] == "open") & (found["snoozed_until"] > datetime.now(UTC))
    found = found.assign(status=found["status"].mask(asleep, "snoozed"))
    if asked.get("rows") is not None:
        return listed_rows(found, found["id"], asked["rows"])
    texts = [found[name].fillna("").map(shown) for name in SEARCHED]
    seen = matches([*texts, [f"#{number}" for number in found["id"]]], asked.get("filter"))
    if asked.get("status"):
        seen &= (found["status"] == asked["status"]).to_numpy()
    return found[seen].reset_index(drop=True)


def evidence(overview: Overview, asked: Mapping[str, Any]) -> pd.DataFrame:
    """Return the points of an incident's charts: of its evidence, in the ``columns`` that are drawn."""
    found = incident(overview.repository, {"incident": asked["id"]}).told
    return charts.frame(overview, {"ids": found["evidence"], "columns": asked.get("columns")})


def incident(repository: Repository, asked: Mapping[str, Any], *, samples: bool = False) -> Answer:
    """Return the details of an incident, and the series with the best evidence.

    Samples of failing records, which are data of the table, are sent only if they may be shown.
    """
    found = repository.incident(int(asked["incident"]))
    firsts = found.firsts.head(MOST)["id"].tolist()
    peaks = found.peaks.head(EVIDENCE)
    with repository.database.read() as connection:
        series = series_of_anomalies(connection, [*firsts, *peaks["id"].tolist()])
        state = triage(connection).get(found.id, Triage())
        lasts = incident_length(connection, found.row)
    details = found.row
    labels = [{k: label[k] for k in SAID} for label in found.labels.to_dict("records")]
    events = [
        {**vars(event), "text": event.text and shown(event.text, SENTENCE)}
        for event in found.timeline
    ]
    told: protocol.IncidentAnswer = {
        "incident": found.id,
        "dataset": str(details["dataset"]),  # untruncated: the script sends it back
        "headline": shown(str(details["headline"]), SENTENCE),
        "severity": details["severity"],
        "status": details["status"],
        "series": details["series"],
        "first": shown(str(details["first"])),
        "last": shown(str(details["last"])),
        "opened_at": details["opened_at"],
        "revision": found.revision,
        "since": _seconds(details["since"]),
        "until": _seconds(details["until"]),
        "lasts": lasts,
        "anomalies": len(found.anomalies),
        "assignee": state.assignee,
        "snoozed_until": state.snoozed_until,
        "evidence": [series[number] for number in peaks["id"]],
        "all_series": list(dict.fromkeys(series[number] for number in firsts)),
        "explanations": [shown(text, SENTENCE) for text in peaks["explanation"]],
        "shared": shown(found.group.headline, SENTENCE) if found.group else None,
        "others": _others(found),
        "causes": [_cause(move) for move in found.causes.moves],
        "along": [{"text": str(one), "series": one.series} for one in found.causes.companions],
        "restated": [shown(str(one), SENTENCE) for one in found.causes.restated],
        "schema": [shown(str(one), SENTENCE) for one in found.causes.schema],
        "checks": failed_checks(
            repository, found.dataset, {*found.anomalies["partition"], ""}, samples=samples
        )[0],
        "run": _run(found.context.run),
        "runbook": shown(found.context.runbook, SENTENCE) if found.context.runbook else None,
        "downstream": list(
            found.context.downstream[:MOST]
        ),  # untruncated: the script sends it back
        "timeline": cast("list[protocol.IncidentEvent]", events),
        "said": cast("list[protocol.IncidentLabel]", labels),
    }
    return Answer(told)


def _seconds(time: datetime | None) -> float | None:
    return None if time is None else seconds(time)


def _run(run: MeasuringRun | None) -> protocol.IncidentRun | None:
    if run is None:
        return None
    job = shown(run.job, SENTENCE) if run.job else None
    return {"id": run.id, "started_at": run.started_at, "job": job}


def _others(found: IncidentDetails) -> list[protocol.OtherIncident]:
    """Return the incidents of other tables that share the cause."""
    members = found.group.incidents if found.group else ()
    others = [one for one in members if one.id != found.id]
    return [{"incident": one.id, "dataset": one.dataset} for one in others[:MOST]]


def _cause(move: Move) -> protocol.IncidentCause:
    first = move.dimensions[0]
    return {
        "text": str(move),
        "what": shown(move.what),
        "partition": shown(move.partition),
        "dimension": shown(first.name),
        "scale": move.scale,
        "series": move.series,
        "parts": [
            {
                "name": shown(part.name),
                "value": part.value,
                "expected": part.expected,
                "share": part.share,
                "series": move.part_series.get((first.name, part.name)),
            }
            for part in first.parts[:PARTS]
        ],
    }


def say(
    repository: Repository, asked: Mapping[str, Any], by: str | None, *, samples: bool = False
) -> Answer:
    """Take an action on an incident; fails if it was labelled since the page read it."""
    number = int(asked["incident"])
    _act(repository, number, asked, by, int(asked["seen"]))
    return incident(repository, {"incident": number}, samples=samples)


def say_all(repository: Repository, asked: Mapping[str, Any], by: str | None) -> Answer:
    """Take one action on several incidents, whatever others said meanwhile."""
    numbers = list(dict.fromkeys(map(int, asked["incidents"])))
    for number in numbers:
        _act(repository, number, asked, by, None)
    told: protocol.SayAllAnswer = {"labelled": len(numbers)}
    return Answer(told)


def _act(
    repository: Repository, number: int, asked: Mapping[str, Any], by: str | None, seen: int | None
) -> None:
    """Add the labels of an action; an assignment's note is the assignee, its comment comes after."""
    action = asked["action"]
    if action not in ACTIONS:
        raise UnknownNameError("action", action, ACTIONS)
    author = by or (asked.get("by") or "").strip()
    if not author:
        msg = "say who you are: the name of the author is missing"
        raise HistoryError(msg)
    note = (asked.get("note") or "").strip() or None
    first = (asked.get("assignee") or "").strip() or None if action == "assign" else note
    until = asked.get("until") if action == "snooze" else None
    end = None if until is None else datetime.fromtimestamp(float(until), UTC)
    for label in ACTIONS[action]:
        repository.label(number, label, note=first, by=author, seen=seen, until=end)
        seen, first = None, None  # the note is given once, and the check made once
    if action == "assign" and note:
        repository.label(number, "comment", note=note, by=author)
