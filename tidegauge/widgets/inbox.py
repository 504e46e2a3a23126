"""The incidents view: what happened, the evidence, and what to say of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from repository import schema as s
from tidegauge.widgets.answer import Answer, seconds, shown, table
from tidegauge.widgets.charts import MOST

if TYPE_CHECKING:
    import pandas as pd

    from repository.repository import Repository

EVIDENCE = 6
"""Series whose charts are shown."""
SENTENCE = 1000
"""Characters of a sentence that are shown."""
SAID = ("label", "note", "by", "created_at", "partition", "name", "instance")


def incidents(repository: Repository, asked: Mapping[str, Any]) -> Answer:
    """Return the incidents of a dataset, or of all, the newest first."""
    return table(frame(repository, asked))


def frame(repository: Repository, asked: Mapping[str, Any]) -> pd.DataFrame:
    """Return the same as a frame; ``status`` may choose among them."""
    return repository.incidents(asked.get("dataset"), status=asked.get("status") or None)


def incident(repository: Repository, asked: Mapping[str, Any]) -> Answer:
    """Return all that is known of one, and which series show it best."""
    found = repository.incident(int(asked["incident"]))
    every = found.firsts.head(MOST)
    firsts = every.head(EVIDENCE)
    with repository.database.read() as connection:
        n = s.anomaly.c
        query = sa.select(n.id, n.series_id).where(n.id.in_(every["id"].tolist()))
        series = {row[0]: row[1] for row in connection.execute(query)}
    told = {name: found.row[name] for name in ("severity", "series", "status", "updated_at")}
    told |= {name: shown(str(found.row[name])) for name in ("dataset", "first", "last")}
    told["headline"] = shown(str(found.row["headline"]), SENTENCE)
    times = [seconds(time) for time in found.anomalies["time"].dropna()]
    return Answer(
        {
            **told,
            "incident": found.id,
            "revision": found.revision,
            "since": min(times, default=None),
            "until": max(times, default=None),
            "anomalies": len(found.anomalies),
            "evidence": [series[number] for number in firsts["id"]],
            "all_series": list(dict.fromkeys(series[number] for number in every["id"])),
            "first_found": [shown(text, SENTENCE) for text in firsts["explanation"]],
            "moved": [str(move) for move in found.causes.moves],
            "along": [str(one) for one in found.causes.companions],
            "said": [{k: label[k] for k in SAID} for label in found.labels.to_dict("records")],
        }
    )


def say(repository: Repository, asked: Mapping[str, Any], by: str | None) -> Answer:
    """Label an incident, unless somebody spoke since it was looked at."""
    number = int(asked["incident"])
    note = asked.get("note") or None
    repository.label(number, asked["label"], note=note, by=by, seen=int(asked["seen"]))
    return incident(repository, {"incident": number})
