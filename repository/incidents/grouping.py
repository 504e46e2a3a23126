"""Grouping of anomalies into incidents, and the updates of incidents.

`Positions` are the places of partitions in time and the newest partition of each series; by them
incidents go on or are over. Incidents that people know of are closed when their anomalies are gone, with the reason.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import sqlalchemy as sa

from tidegauge.analyzers.core.formatting import plain
from tidegauge.repository.detectors.inputs import TrainingLabels, to_datetime64
from tidegauge.repository.detectors.registry import MISSING_PARTITION
from tidegauge.repository.incidents.anomaly import (
    Anomaly,
    exceeds_label,
    is_gap,
    is_missing,
    missing_span,
    read_anomalies,
    step_of,
)
from tidegauge.repository.incidents.headline import headline
from tidegauge.repository.numerics.grid import FIRST_STEPS, Grid
from tidegauge.repository.store import schema as s
from tidegauge.repository.store.bulk import chunks, insert_rows
from tidegauge.repository.store.consistency_series import PREFIX, group_bys_of
from tidegauge.repository.store.database import NextCommit, next_findings
from tidegauge.repository.store.labels import (
    AUTOMATIC_AUTHOR,
    BEYOND_LABEL,
    LastLabels,
    last_labels,
)
from tidegauge.repository.store.rows import Severity

if TYPE_CHECKING:
    from datetime import timedelta

    from sqlalchemy.engine import Connection

    from tidegauge.repository.store.rows import IncidentRow


ASIDE = 3
"""Positions between the newest partition and those that stand aside: too many for one incident."""


@dataclass
class Positions:
    """Positions of a dataset's partitions, counted in order of time within each partition segment.

    Attributes
    ----------
    of : dict of int to int
        By the partition's id; those far in the future and those without a time come last, `ASIDE`
        from the others.
    ends : dict of str to int
        Position of the newest partition, by partition segment.
    steps : dict of str to timedelta or None
        Length of partitions, as `step_of` returns it, by partition segment.
    long : set of str
        Partition segments whose partitions are weeks or months.
    """

    of: dict[int, int] = field(default_factory=dict)
    ends: dict[str, int] = field(default_factory=dict)
    steps: dict[str, timedelta | None] = field(default_factory=dict)
    long: set[str] = field(default_factory=set)
    _at: dict[tuple[str, datetime], int] = field(default_factory=dict)

    @classmethod
    def read(cls, connection: Connection, dataset: int, now: datetime) -> Positions:
        """Read the positions of a dataset's partitions at a time."""
        p, found = s.partition.c, cls()
        query = (
            sa.select(p.id, p.segment, p.name, p.time)
            .where(p.dataset_id == dataset)
            .order_by(p.segment, p.time.is_(None), p.time, p.name)
        )
        kinds: dict[str, list[tuple[int, str, datetime | None]]] = {}
        for partition, within, name, time in connection.execute(query):
            kinds.setdefault(within, []).append((partition, name, time))
        for within, kind in kinds.items():
            dated = [time for _, _, time in kind if time is not None]
            times = np.array([to_datetime64(time) for time in dated], "M8[s]")
            grid = Grid.from_times(times)
            count = grid.current(times, to_datetime64(now))
            found.of |= {of: n if n < count else n + ASIDE for n, (of, _, _) in enumerate(kind)}
            found.ends[within] = count - 1 if count else len(kind) - 1 + ASIDE
            found._at |= {(within, time): n for n, time in enumerate(dated[:count])}
            found.steps[within] = step_of(dated, kind[0][1])
            if grid.yearly:
                found.long.add(within)
        return found

    def newest(self, connection: Connection, series: Collection[int]) -> dict[tuple[int, str], int]:
        """Return the positions of the newest partitions of some series, by series and partition segment.

        One without a time, or far in the future, is left out. `newest_metric` has one partition of each
        series, so that of several segments the metrics tell.
        """
        n, m, p = s.newest_metric.c, s.metric.c, s.partition.c
        found: dict[tuple[int, str], int] = {}
        for some in chunks(sorted(series) if len(self.ends) == 1 else ()):
            (within,) = self.ends
            query = sa.select(n.series_id, n.partition_id).where(n.series_id.in_(some))
            for one, partition in connection.execute(query):
                if self.of[partition] <= self.ends[within]:
                    found[one, within] = self.of[partition]
        latest = max((time for _, time in self._at), default=None)
        unknown = set(series) - {one for one, _ in found} if latest is not None else ()
        for some in chunks(sorted(unknown)):
            by_segment: sa.Select[Any] = (
                sa.select(m.series_id, p.segment, sa.func.max(p.time))
                .join_from(s.metric, s.partition, p.id == m.partition_id)
                .where(m.series_id.in_(some), p.time <= latest, s.holds(s.metric))
                .group_by(m.series_id, p.segment)
            )
            for one, within, at in connection.execute(by_segment):
                found[one, within] = self._at.get((within, at), self.ends[within])
        return found


def incident_length(connection: Connection, incident: IncidentRow) -> float | None:
    """Return the seconds from the start of an incident's first partition to the end of its last one.

    None if its partitions have no time, or no regular length.
    """
    since, until = incident["since"], incident["until"]
    if since is None or until is None:
        return None
    c, p, near = s.course.c, s.partition.c, s.partition.alias("near")
    query = (
        sa.select(near.c.time)
        .join_from(s.course, s.partition, p.id == c.last_partition_id)
        .join(near, (near.c.dataset_id == p.dataset_id) & (near.c.segment == p.segment))
        .where(c.incident_id == incident["id"], s.holds(s.course), near.c.time <= p.time)
        .order_by(near.c.time.desc())
        .limit(FIRST_STEPS + 1)
    )
    times = sorted(connection.execute(query).scalars())
    grid = Grid.from_times(np.array([to_datetime64(time) for time in times], "M8[s]"))
    if not (grid.step or grid.months):
        return None
    end = grid.after(to_datetime64(until))
    return float((end - to_datetime64(since)) / np.timedelta64(1, "s"))


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


GAP = 1
"""Maximum number of quiet partitions between two anomalous ones of an incident."""
NO_HOLIDAY = frozenset({"EmptyMetrics", "StalePartition", "SchemaChange", "Restatement"})
"""Metrics that a holiday does not explain: it changes numbers, but the data is there."""
ALIKE = 1 / 5
"""Minimum share of anomalous metrics in common with the incident before, to continue it."""


def group_anomalies(anomalies: Iterable[Anomaly]) -> list[list[Anomaly]]:
    """Group anomalies into incidents, in the order of their first.

    Anomalies of one partition belong together. A partition continues the previous incident, if
    adjacent or with one quiet partition between, if enough of its metrics (of any filter and
    segment) were anomalies there. Each gap is an incident of its own: the partition that it is reported
    at is not the one that is missing.
    """
    ordered = sorted(anomalies, key=lambda a: (a.within, a.place, a.id))
    gaps: dict[tuple[str, int], list[Anomaly]] = {}
    by_partition: dict[tuple[str, int], list[Anomaly]] = {}
    for one in ordered:
        partitions = gaps if is_gap(one.name, one.explanation) else by_partition
        partitions.setdefault((one.within, one.place), []).append(one)
    groups: list[list[Anomaly]] = []
    before: set[tuple[str, str]] = set()
    for (within, place), some in by_partition.items():
        topics = {(one.name, one.instance) for one in some}
        last = groups[-1][-1] if groups else None
        near = last is not None and last.within == within and place - last.place <= GAP + 1
        if near and len(topics & before) >= ALIKE * len(topics):
            groups[-1] += some
            before |= topics
        else:
            groups.append(some)
            before = topics
    groups += gaps.values()
    return sorted(groups, key=lambda group: (group[0].within, group[0].place, group[0].id))


@dataclass(frozen=True)
class _Course:
    headline: str
    severity: str
    first_partition_id: int
    last_partition_id: int
    series: int
    is_over: int


_COURSE = ("headline", "severity", "first_partition_id", "last_partition_id", "series", "is_over")
_LABEL = ("dataset_id", "incident_id", "label", "note", "by", "created_at", "commit_id")


def write_incidents(
    connection: Connection,
    dataset: int,
    teaching: TrainingLabels,
    commit: NextCommit,
    now: datetime,
) -> None:
    """Bring the incidents of a dataset up to date with its anomalies.

    An incident keeps its id as long as one of its anomalies was in it before, or its first one is
    the same; an anomaly of a partition that was measured again counts as the one before. It is resolved
    once its series have later values without an anomaly, and reopened when another anomaly joins it, or
    when it goes beyond what a person labelled. While one of its series goes on in a wider incident, it is
    not over. What was overdue is a gap once the next partition has come, and the same incident.

    An incident without anomalies is withdrawn. If people know of it, it is closed instead: its course then
    has no series, and a label says why.
    """
    at = Positions.read(connection, dataset, now)
    found = read_anomalies(connection, s.partition.c.dataset_id == dataset, at.of)
    newest = at.newest(connection, {one.series for one in found})
    unequal = any(one.name.startswith(PREFIX) for one in found)
    group_bys = group_bys_of(connection, dataset) if unequal else set()
    known = _courses(connection, dataset)
    labels = last_labels(connection, dataset)
    firsts = _first_anomalies(connection, dataset)
    groups = group_anomalies(found)
    closed = {number for number, course in known.items() if not course.series}
    left = known.keys() - closed - {one.incident for one in found}
    overdue = _overdue(connection, {i: at.of[known[i].last_partition_id] for i in left})
    odd = _anomalous_places(found)
    # A group claims the incident of its own first anomaly before others can, so that no id is used
    # twice.
    named = [min((firsts[a.id] for a in g if a.id in firsts), default=None) for g in groups]
    taken = {i for i in named if i is not None}
    fresh: list[tuple[list[Anomaly], _Course]] = []
    kept: list[tuple[int, list[Anomaly], _Course]] = []
    for group, own in zip(groups, named, strict=True):
        told = headline(group, at.steps[group[0].within], group_bys)
        # Series of partition-level detectors have no metrics; their newest partition stands in.
        lines = {(a.series, a.within) for a in group}
        until = {line: newest.get(line, at.ends[line[1]]) for line in lines}
        course = _course(group, told, until, odd)
        others = {a.incident for a in group if a.incident is not None}
        others |= {
            overdue[a.series, a.place - 1] for a in group if (a.series, a.place - 1) in overdue
        }
        others -= taken
        of = own if own is not None else min(others, default=None)
        if of is None:
            fresh.append((group, course))
        else:
            taken.add(of)
            kept.append((of, group, course))
    changed = [(i, g, c) for i, g, c in kept if known.get(i) != c]
    moved = [(i, a.id) for i, g, _ in kept for a in g if a.incident != i]
    continued_in = {a.incident: i for i, g, _ in kept for a in g if a.incident not in {None, i}}
    gone = sorted(known.keys() - closed - {i for i, _, _ in kept})
    closing = sorted(known_to_people(connection, gone))
    if fresh or changed or gone or moved:
        ended = [*gone, *(i for i, _, _ in changed if i in known)]
        kept += _store(connection, dataset, fresh, changed, ended, moved, commit)
    if closing:
        notes = closing_notes(connection, closing, continued_in, commit.id, commit.now)
        _close(connection, dataset, {i: (known[i], notes[i]) for i in closing}, labels, commit)
    by_day = [one for one in kept if one[1][0].within not in at.long]
    explained = {number: explaining_holiday(group, teaching) for number, group, _ in by_day}
    labelled = _labelled_anomalies(connection, kept, labels)
    _label_automatically(connection, dataset, kept, known, labels, labelled, explained, commit)


def _store(
    connection: Connection,
    dataset: int,
    fresh: Sequence[tuple[list[Anomaly], _Course]],
    changed: Sequence[tuple[int, list[Anomaly], _Course]],
    ended: Sequence[int],
    moved: Sequence[tuple[int, int]],
    commit: NextCommit,
) -> list[tuple[int, list[Anomaly], _Course]]:
    """Store new incidents, new courses, and which incident anomalies are in; return the new incidents."""
    ids = next_findings(connection, len(fresh)) if fresh else ()
    new = list(zip(ids, *zip(*fresh, strict=True), strict=True)) if fresh else []
    rows = [(i, dataset, min(a.id for a in g), commit.now) for i, g, _ in new]
    insert_rows(connection, s.incident, ("id", "dataset_id", "anomaly_id", "opened_at"), rows)
    _assign(connection, [*moved, *((i, a.id) for i, g, _ in new for a in g)], commit.id)
    _end(connection, ended, commit.id)
    courses = [
        (i, commit.id, *(getattr(c, name) for name in _COURSE)) for i, _, c in (*changed, *new)
    ]
    insert_rows(connection, s.course, ("incident_id", "commit_id", *_COURSE), courses)
    return new


def _first_anomalies(connection: Connection, dataset: int) -> dict[int, int]:
    """Return the incidents of a dataset by the anomaly that names each."""
    i = s.incident.c
    query = sa.select(i.anomaly_id, i.id).where(i.dataset_id == dataset)
    return {row[0]: row[1] for row in connection.execute(query)}


def _anomalous_places(found: Iterable[Anomaly]) -> dict[tuple[int, str], list[int]]:
    """Return the positions of the partitions with anomalies, in order, by series and partition segment."""
    odd: dict[tuple[int, str], list[int]] = {}
    for series, within, place in sorted({(one.series, one.within, one.place) for one in found}):
        odd.setdefault((series, within), []).append(place)
    return odd


def _labelled_anomalies(
    connection: Connection,
    kept: Sequence[tuple[int, Sequence[Anomaly], _Course]],
    labels: Mapping[int, LastLabels],
) -> dict[int, list[Anomaly]]:
    """Return the anomalies that incidents had when a person last judged them, where they changed since."""
    found = {}
    for incident, group, _ in kept:
        judged_at = labels.get(incident, LastLabels()).judged_at
        if judged_at is not None and any(one.commit > judged_at for one in group):
            condition = s.finding.c.incident_id == incident
            found[incident] = read_anomalies(connection, condition, {}, judged_at)
    return found


def _close(
    connection: Connection,
    dataset: int,
    closing: Mapping[int, tuple[_Course, str]],
    labels: Mapping[int, LastLabels],
    commit: NextCommit,
) -> None:
    """Close incidents without anomalies: their course has no series, and a label says why.

    What a person said to be expected or resolved stays so: of these the reason is a comment.
    """
    courses = [replace(course, series=0, is_over=1) for course, _ in closing.values()]
    rows = [
        (i, commit.id, *(getattr(course, name) for name in _COURSE))
        for i, course in zip(closing, courses, strict=True)
    ]
    insert_rows(connection, s.course, ("incident_id", "commit_id", *_COURSE), rows)
    told = []
    for incident, (_, note) in closing.items():
        settled = labels.get(incident, LastLabels()).label in {"expected", "resolved"}
        label = "comment" if settled else "resolved"
        told.append((dataset, incident, label, note, AUTOMATIC_AUTHOR, commit.now, commit.id))
    insert_rows(connection, s.label, _LABEL, told)


def _overdue(connection: Connection, lasts: Mapping[int, int]) -> dict[tuple[int, int], int]:
    """Return incidents of overdue partitions, by series and the last partition that had come.

    Parameters
    ----------
    lasts : mapping of int to int
        The position of the last partition of incidents that have no anomalies any more.
    """
    i, n, e = s.incident.c, s.anomaly.c, s.series.c
    found = {}
    for some in chunks(sorted(lasts)):
        query = (
            sa.select(i.id, n.series_id)
            .join_from(s.incident, s.anomaly, n.id == i.anomaly_id)
            .join(s.series, e.id == n.series_id)
            .where(i.id.in_(some), e.name == MISSING_PARTITION)
        )
        for incident, series in connection.execute(query):
            found[series, lasts[incident]] = incident
    return found


def _course(
    group: Sequence[Anomaly],
    told: str,
    until: Mapping[tuple[int, str], int],
    odd: Mapping[tuple[int, str], Sequence[int]],
) -> _Course:
    """Return the course of an incident, given each series' newest partition, and those with anomalies."""
    last = group[-1]
    severities = list(Severity)
    gravest = max(severities.index(Severity(a.severity)) for a in group)
    later = [
        (newest - last.place, len(odd[series]) - bisect_right(odd[series], last.place))
        for series, newest in until.items()
    ]
    back = any(partitions > unusual for partitions, unusual in later)
    goes_on = any(0 < partitions == unusual for partitions, unusual in later)
    goes_on |= any(is_missing(one.name) for one in group)  # later ones do not bring what is missing
    return _Course(
        headline=told,
        severity=str(severities[gravest]),
        first_partition_id=group[0].partition,
        last_partition_id=last.partition,
        series=len({a.series for a in group}),
        is_over=int(back and not goes_on),
    )


def _label_automatically(
    connection: Connection,
    dataset: int,
    kept: Sequence[tuple[int, Sequence[Anomaly], _Course]],
    known: Mapping[int, _Course],
    labels: Mapping[int, LastLabels],
    labelled: Mapping[int, Sequence[Anomaly]],
    explained: Mapping[int, str],
    commit: NextCommit,
) -> None:
    """Label incidents automatically: as resolved, reopened, or expected on a holiday that explains them.

    A user's label since an incident was over is left as it is, unless the incident goes beyond it.
    """
    rows = []
    for incident, group, course in kept:
        last = labels.get(incident, LastLabels())
        said, by = last.label, last.by
        before = known.get(incident)
        told: tuple[str, str] | None = None
        holiday = explained.get(incident, "")
        was_over = before is not None and before.is_over
        # A gap has no further partition: that at which it is reported changes when others arrive.
        moves = not all(is_missing(one.name) for one in group)
        longer = before is not None and (
            not before.series or (moves and before.last_partition_id != course.last_partition_id)
        )
        judged_over = last.judged_at is not None and said == "resolved" and by != AUTOMATIC_AUTHOR
        goes_on = judged_over and longer and not course.is_over
        if goes_on or exceeds_label(labelled.get(incident, ()), group):
            left = "resolved" if course.is_over else "reopened"
            told = (left, f"{BEYOND_LABEL}: {course.headline}")
        elif holiday and said is None:
            told = ("expected", holiday)
        elif said == "expected" and by == AUTOMATIC_AUTHOR and not holiday:
            left = "resolved" if course.is_over else "reopened"
            told = (left, "no longer explained by a holiday")
        elif said == "resolved" and longer and not course.is_over:
            told = ("reopened", "another anomaly joined it")
        elif course.is_over and not was_over and said in {None, "acknowledged", "reopened"}:
            told = ("resolved", "no further anomaly")
        if told:
            rows.append((dataset, incident, *told, AUTOMATIC_AUTHOR, commit.now, commit.id))
    insert_rows(connection, s.label, _LABEL, rows)


def explaining_holiday(group: Sequence[Anomaly], teaching: TrainingLabels) -> str:
    """Return the holiday on or next to an incident's top-scoring partition; empty if there is none."""
    if any(one.name in NO_HOLIDAY or _loses_values(one) for one in group):
        return ""
    total: dict[int, float] = {}
    for one in group:
        total[one.partition] = total.get(one.partition, 0.0) + one.score
    clearest = max(total, key=lambda partition: total[partition])
    one = next(one for one in group if one.partition == clearest)
    span = missing_span(one.explanation) if is_missing(one.name) else None
    return teaching.explains(one.time if span is None else span.first)


def _loses_values(one: Anomaly) -> bool:
    """Return whether an anomaly says that values are missing; fewer missing ones are none."""
    return one.name == "Completeness" and one.direction != "high"


def _courses(connection: Connection, dataset: int) -> dict[int, _Course]:
    c, i = s.course.c, s.incident.c
    query = (
        sa.select(i.id, *(c[name] for name in _COURSE))
        .join_from(s.incident, s.course, (c.incident_id == i.id) & s.holds(s.course))
        .where(i.dataset_id == dataset)
    )
    return {row[0]: _Course(*row[1:]) for row in connection.execute(query)}


def _assign(connection: Connection, members: Sequence[tuple[int, int]], commit: int) -> None:
    """Assign anomalies to incidents; findings of earlier commits are superseded to preserve history."""
    f = s.finding
    of = {anomaly: incident for incident, anomaly in members}
    columns = [column.name for column in f.columns]
    copies = []
    for some in chunks(sorted(of)):
        query = sa.select(f).where(f.c.anomaly_id.in_(some), s.holds(f))
        for row in connection.execute(query).all():
            if row.commit_id != commit:
                new = {"commit_id": commit, "incident_id": of[row.anomaly_id]}
                copies.append(tuple({**row._asdict(), **new}[name] for name in columns))
        ended = sa.update(f).where(f.c.anomaly_id.in_(some), s.holds(f), f.c.commit_id != commit)
        connection.execute(ended.values(superseded_commit_id=commit))
    groups: dict[int, list[int]] = {}
    for anomaly, incident in of.items():
        groups.setdefault(incident, []).append(anomaly)
    for incident, anomalies in groups.items():  # findings of this commit are updated in place
        for some in chunks(anomalies):
            now = (f.c.anomaly_id.in_(some), s.holds(f), f.c.commit_id == commit)
            connection.execute(sa.update(f).where(*now).values(incident_id=incident))
    insert_rows(connection, f, columns, copies)


def _end(connection: Connection, incidents: Sequence[int], commit: int) -> None:
    c = s.course
    for some in chunks(incidents):
        change = sa.update(c).where(c.c.incident_id.in_(some), s.holds(c))
        connection.execute(change.values(superseded_commit_id=commit))
