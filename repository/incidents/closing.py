"""Close incidents that people know of when their anomalies are gone, with the reason."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from tidegauge.analyzers.core.formatting import plain
from tidegauge.repository.detectors.registry import MISSING_PARTITION
from tidegauge.repository.store import schema as s
from tidegauge.repository.store.bulk import chunks
from tidegauge.repository.store.labels import AUTOMATIC_AUTHOR

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

WITHDRAWING_LABELS = ("ignore", "rebaseline")
"""Labels by which a person takes anomalies away; they need not be told of it."""
MAX_NAMED_PARTITIONS = 3


def known_to_people(connection: Connection, incidents: Collection[int]) -> set[int]:
    """Return the incidents that were sent, or may have been, and those that a person labelled.

    Those that a person took away by `WITHDRAWING_LABELS` count only if they were sent.
    """
    n, b = s.notice.c, s.label.c
    known: set[int] = set()
    for some in chunks(sorted(incidents)):
        sent = sa.select(n.incident_id).where(
            n.incident_id.in_(some), n.sent_at.is_not(None) | n.error.is_(None)
        )
        labels = sa.select(b.incident_id, b.label).where(
            b.incident_id.in_(some), b.by.is_distinct_from(AUTOMATIC_AUTHOR)
        )
        labelled: dict[int, set[str]] = {}
        for incident, label in connection.execute(labels):
            labelled.setdefault(incident, set()).add(label)
        known |= set(connection.execute(sent).scalars())
        known |= {i for i, of in labelled.items() if not of.intersection(WITHDRAWING_LABELS)}
    return known


def closing_notes(
    connection: Connection,
    incidents: Collection[int],
    continued_in: Mapping[int, int],
    commit: int,
    now: datetime,
) -> dict[int, str]:
    """Return why incidents have no anomalies any more.

    Parameters
    ----------
    connection : Connection
    incidents : collection of int
    continued_in : mapping of int to int
        The incident that took over the anomalies of another.
    commit : int
        The commit by which they are closed.
    now : datetime
        Its time.

    Returns
    -------
    dict of int to str
        Such as "taken back on 2026-03-04 07:30 UTC because ds=2026-03-02 was measured again and looks normal".
    """
    lost = _lost_anomalies(connection, incidents, commit)
    return {
        incident: _note(connection, lost.get(incident, ()), continued_in.get(incident), now)
        for incident in incidents
    }


def _note(
    connection: Connection, lost: Sequence[Any], continued_in: int | None, now: datetime
) -> str:
    moment = f"{now:%Y-%m-%d %H:%M} UTC"
    if continued_in is not None:
        return f"closed on {moment} because it goes on in incident {continued_in}"
    missing = [row for row in lost if row.metric == MISSING_PARTITION]
    arrived = _arrived_partitions(connection, missing)
    if missing and len(missing) == len(lost):
        what = f"{_listed(arrived)} arrived" if arrived else "nothing is missing any more"
        return f"closed on {moment} because {what}"
    again = _measured_again(connection, lost)
    if again:
        verbs = (
            "was measured again and looks" if len(again) == 1 else "were measured again and look"
        )
        return f"taken back on {moment} because {_listed(again)} {verbs} normal"
    names = list(dict.fromkeys(row.partition for row in lost))
    looks = "looks" if len(names) == 1 else "look"
    return (
        f"taken back on {moment} because {_listed(names)} {looks} normal by the history, labels and"
        " monitors of now"
    )


def _lost_anomalies(
    connection: Connection, incidents: Collection[int], commit: int
) -> dict[int, list[Any]]:
    """Return the anomalies that incidents had before a commit, in order of time."""
    f, n, p, e = s.finding.c, s.anomaly.c, s.partition.c, s.series.c
    lost: dict[int, list[Any]] = {}
    for some in chunks(sorted(incidents)):
        query = (
            sa.select(
                f.incident_id,
                n.series_id,
                n.partition_id,
                n.version,
                n.detected_at,
                p.dataset_id,
                p.segment,
                p.time,
                p.name.label("partition"),
                e.name.label("metric"),
            )
            .join_from(s.finding, s.anomaly, n.id == f.anomaly_id)
            .join(s.partition, p.id == n.partition_id)
            .join(s.series, e.id == n.series_id)
            .where(f.incident_id.in_(some), s.holds(s.finding, commit - 1))
            .order_by(p.time, p.name)
        )
        for row in connection.execute(query):
            lost.setdefault(row.incident_id, []).append(row)
    return lost


def _measured_again(connection: Connection, lost: Sequence[Any]) -> list[str]:
    """Return the partitions whose current version is not that of their anomaly."""
    v, m = s.partition_version.c, s.metric.c
    names: dict[str, None] = {}
    for row in lost:
        whole = sa.select(v.version).where(
            v.partition_id == row.partition_id, s.holds(s.partition_version)
        )
        point = sa.select(m.version).where(
            m.partition_id == row.partition_id, m.series_id == row.series_id, s.holds(s.metric)
        )
        versions = {
            version for query in (whole, point) for version in connection.execute(query).scalars()
        }
        if any(version > row.version for version in versions):
            names[row.partition] = None
    return list(names)


def _arrived_partitions(connection: Connection, missing: Sequence[Any]) -> list[str]:
    """Return the partitions that came into the gaps that were reported."""
    p = s.partition.c
    names: dict[str, None] = {}
    for row in missing:
        came = sa.select(p.name, p.time).where(
            p.dataset_id == row.dataset_id,
            p.segment == row.segment,
            p.first_seen_at > row.detected_at,
            p.id != row.partition_id,
        )
        partitions = connection.execute(came.order_by(p.time)).all()
        # A gap lies before the partition that it is reported at, and what is overdue after it.
        before = [one.name for one in partitions if one.time is not None and one.time < row.time]
        names |= dict.fromkeys(before or [one.name for one in partitions])
    return list(names)


def _listed(names: Sequence[str]) -> str:
    """Return the names of partitions, the first if there are many."""
    shown = [plain(name or "the table") for name in names[:MAX_NAMED_PARTITIONS]]
    if len(names) > len(shown):
        shown.append(f"{len(names) - len(shown)} more")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
