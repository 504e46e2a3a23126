"""The incidents view: incidents with evidence, causes and labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from tidegauge.repository.history.points import series_of_anomalies
from tidegauge.widgets import protocol
from tidegauge.widgets.answer import Answer, seconds, shown, table
from tidegauge.widgets.series import MOST

if TYPE_CHECKING:
    import pandas as pd

    from tidegauge.repository.repository import Repository

EVIDENCE = 6
"""Maximum number of series to chart as evidence."""
SENTENCE = 1000
"""Maximum number of characters of a sentence to send."""
SAID = ("label", "note", "by", "created_at", "partition", "name", "instance")


def incidents(repository: Repository, asked: Mapping[str, Any]) -> Answer:
    """Return the incidents of a dataset, or of all, the newest first."""
    return table(frame(repository, asked))


def frame(repository: Repository, asked: Mapping[str, Any]) -> pd.DataFrame:
    """Return the incidents as a frame; ``status`` filters them."""
    return repository.incidents(asked.get("dataset"), status=asked.get("status") or None)


def incident(repository: Repository, asked: Mapping[str, Any]) -> Answer:
    """Return the details of an incident, and the series with the best evidence."""
    found = repository.incident(int(asked["incident"]))
    every = found.firsts.head(MOST)
    firsts = every.head(EVIDENCE)
    with repository.database.read() as connection:
        series = series_of_anomalies(connection, every["id"].tolist())
    details = found.row
    times = [seconds(time) for time in found.anomalies["time"].dropna()]
    labels = [{k: label[k] for k in SAID} for label in found.labels.to_dict("records")]
    told: protocol.IncidentAnswer = {
        "incident": found.id,
        "dataset": shown(str(details["dataset"])),
        "headline": shown(str(details["headline"]), SENTENCE),
        "severity": details["severity"],
        "status": details["status"],
        "series": details["series"],
        "first": shown(str(details["first"])),
        "last": shown(str(details["last"])),
        "updated_at": details["updated_at"],
        "revision": found.revision,
        "since": min(times, default=None),
        "until": max(times, default=None),
        "anomalies": len(found.anomalies),
        "evidence": [series[number] for number in firsts["id"]],
        "all_series": list(dict.fromkeys(series[number] for number in every["id"])),
        "first_found": [shown(text, SENTENCE) for text in firsts["explanation"]],
        "moved": [str(move) for move in found.causes.moves],
        "along": [str(one) for one in found.causes.companions],
        "said": cast("list[protocol.IncidentLabel]", labels),
    }
    return Answer(told)


def say(repository: Repository, asked: Mapping[str, Any], by: str | None) -> Answer:
    """Label an incident; fails if it was labelled since the page read it."""
    number = int(asked["incident"])
    note = asked.get("note") or None
    repository.label(number, asked["label"], note=note, by=by, seen=int(asked["seen"]))
    return incident(repository, {"incident": number})
