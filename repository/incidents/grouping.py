"""Group anomalies into incidents, and update stored incidents.

`Positions` numbers the partitions in order of time and finds the newest partition of each series. These
decide whether an incident continues or is over. When an incident that users know of loses all of its
anomalies, it is closed with a reason.
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
from tidegauge.repository.detectors.inputs import TrainingLabels, to_datetime64, to_seconds
from tidegauge.repository.detectors.registry import MISSING_PARTITION
from tidegauge.repository.incidents.anomaly import (
    Anomaly,
    exceeds_label,
    is_gap,
    is_missing,
    missing_span,
    read_anomalies,
    span,
    step_of,
)
from tidegauge.repository.incidents.headline import headline
from tidegauge.repository.incidents.lifetimes import LevelState, PartitionAxis, level_states
from tidegauge.repository.numerics.grid import FIRST_STEPS, Grid
from tidegauge.repository.store import schema as s
from tidegauge.repository.store.bulk import chunks, insert_rows
from tidegauge.repository.store.consistency_series import PREFIX, group_bys_of
from tidegauge.repository.store.database import NextCommit, next_findings
from tidegauge.repository.store.labels import (
    AUTOMATIC_AUTHOR,
    BEYOND_LABEL,
    NEW_LEVEL,
    LastLabels,
    last_labels,
)
from tidegauge.repository.store.rows import Severity

if TYPE_CHECKING:
    from datetime import timedelta

    from sqlalchemy.engine import Connection

    from tidegauge.repository.store.rows import IncidentRow


FUTURE_OFFSET = 3
"""A gap this wide separates partitions in the far future, or without a time, from incidents of the newest
partition."""


@dataclass
class Positions:
    """Index of each partition of a dataset, in order of time within its partition segment.

    Attributes
    ----------
    index_by_partition : dict of int to int
        By partition id. Partitions in the far future or without a time come last, after a gap of
        `FUTURE_OFFSET`.
    last_index : dict of str to int
        Index of the newest partition, by partition segment.
    steps : dict of str to timedelta or None
        Length of partitions, as `step_of` returns it, by partition segment.
    coarse_segments : set of str
        Partition segments whose partitions are weeks or months.
    axes : dict of str to PartitionAxis
        Partitions with a time that is not in the far future, by partition segment.
    """

    index_by_partition: dict[int, int] = field(default_factory=dict)
    last_index: dict[str, int] = field(default_factory=dict)
    steps: dict[str, timedelta | None] = field(default_factory=dict)
    coarse_segments: set[str] = field(default_factory=set)
    axes: dict[str, PartitionAxis] = field(default_factory=dict)
    _index_by_time: dict[tuple[str, datetime], int] = field(default_factory=dict)

    @classmethod
    def read(cls, connection: Connection, moments: Mapping[int, datetime]) -> dict[int, Positions]:
        """Read the positions of the partitions of datasets, each as of a moment."""
        p = s.partition.c
        rows_by_segment: dict[tuple[int, str], list[tuple[int, str, datetime | None]]] = {}
        for chunk in chunks(sorted(moments)):
            query = (
                sa.select(p.dataset_id, p.segment, p.id, p.name, p.time)
                .where(p.dataset_id.in_(chunk))
                .order_by(p.dataset_id, p.segment, p.time.is_(None), p.time, p.name)
            )
            for dataset, within, *row in connection.execute(query):
                rows_by_segment.setdefault((dataset, within), []).append(tuple(row))
        positions = {dataset: cls() for dataset in moments}
        for (dataset, within), rows in rows_by_segment.items():
            positions[dataset].add_segment(within, rows, moments[dataset])
        return positions

    def add_segment(
        self, within: str, rows: Sequence[tuple[int, str, datetime | None]], now: datetime
    ) -> None:
        """Add the partitions of a partition segment: id, name and time, in order of time."""
        dated = [time for _, _, time in rows if time is not None]
        times = to_seconds(dated)
        grid = Grid.from_times(times)
        count = grid.current(times, to_datetime64(now))
        self.index_by_partition |= {
            partition: n if n < count else n + FUTURE_OFFSET
            for n, (partition, _, _) in enumerate(rows)
        }
        self.last_index[within] = count - 1 if count else len(rows) - 1 + FUTURE_OFFSET
        ids = [partition for partition, _, _ in rows[:count]]
        self.axes[within] = PartitionAxis(ids, times[:count], grid)
        self._index_by_time |= {(within, time): n for n, time in enumerate(dated[:count])}
        self.steps[within] = step_of(dated, rows[0][1])
        if grid.yearly:
            self.coarse_segments.add(within)

    def newest(
        self, series: Collection[int], newest_partitions: Mapping[int, int]
    ) -> dict[tuple[int, str], int]:
        """Return the index of the newest partition of series, by series and partition segment.

        Partitions without a time or in the far future are left out. With several partition segments, nothing is
        returned, because the table ``newest_metric`` has one partition for each series.

        Parameters
        ----------
        series : collection of int
            Ids of series.
        newest_partitions : mapping of int to int
            The partition of each series in ``newest_metric``.
        """
        if len(self.last_index) != 1:
            return {}
        (within,) = self.last_index
        newest = {}
        for series_id in series:
            index = self.index_by_partition.get(newest_partitions.get(series_id, -1))
            if index is not None and index <= self.last_index[within]:
                newest[series_id, within] = index
        return newest

    @property
    def latest(self) -> datetime | None:
        """The time of the newest partition, without partitions in the far future."""
        return max((time for _, time in self._index_by_time), default=None)

    def index_of(self, within: str, time: datetime) -> int:
        """Return the index of the partition of a partition segment at a time; the newest if there is none."""
        return self._index_by_time.get((within, time), self.last_index[within])


def _newest(
    connection: Connection,
    positions: Mapping[int, Positions],
    series: Mapping[int, Collection[int]],
) -> dict[int, dict[tuple[int, str], int]]:
    """Return the index of the newest partition of each series, by series and partition segment, by dataset.

    Partitions without a time or in the far future are left out.
    """
    partitions = _newest_partitions(connection, set().union(*series.values()))
    newest = {
        dataset: item.newest(series[dataset], partitions) for dataset, item in positions.items()
    }
    # Read the other series by time, through the partitions of their dataset: metrics have no index of series.
    m, p = s.metric.c, s.partition.c
    for dataset, item in positions.items():
        missing = set(series[dataset]) - {series_id for series_id, _ in newest[dataset]}
        for chunk in chunks(sorted(missing)) if item.latest is not None else ():
            by_segment: sa.Select[Any] = (
                sa.select(m.series_id, p.segment, sa.func.max(p.time))
                .join_from(s.metric, s.partition, p.id == m.partition_id)
                .where(p.dataset_id == dataset, p.time <= item.latest)
                .where(m.series_id.in_(chunk), s.holds(s.metric))
                .group_by(m.series_id, p.segment)
            )
            for series_id, within, time in connection.execute(by_segment):
                newest[dataset][series_id, within] = item.index_of(within, time)
    return newest


def _newest_partitions(connection: Connection, series: Collection[int]) -> dict[int, int]:
    """Return the partition of each series in ``newest_metric``."""
    n = s.newest_metric.c
    partitions: dict[int, int] = {}
    for chunk in chunks(sorted(series)):
        query = sa.select(n.series_id, n.partition_id).where(n.series_id.in_(chunk))
        partitions.update((row[0], row[1]) for row in connection.execute(query))
    return partitions


def incident_length(connection: Connection, incident: IncidentRow) -> float | None:
    """Return the seconds from the start of an incident's first partition to the end of its last.

    Returns None if its partitions have no time or no regular length.
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
"""Labels by which a user removes anomalies; the user needs no message about the removal."""
MAX_NAMED_PARTITIONS = 3


def known_to_people(connection: Connection, incidents: Collection[int]) -> set[int]:
    """Return the incidents that users know of.

    These are incidents that were or might have been sent, and incidents that a user labeled. An incident
    that a user removed by one of `WITHDRAWING_LABELS` counts only if it was sent.
    """
    n, b = s.notice.c, s.label.c
    reported: set[int] = set()
    for chunk in chunks(sorted(incidents)):
        sent = sa.select(n.incident_id).where(
            n.incident_id.in_(chunk), n.sent_at.is_not(None) | n.error.is_(None)
        )
        labels = sa.select(b.incident_id, b.label).where(
            b.incident_id.in_(chunk), b.by.is_distinct_from(AUTOMATIC_AUTHOR)
        )
        labelled: dict[int, set[str]] = {}
        for incident, label in connection.execute(labels):
            labelled.setdefault(incident, set()).add(label)
        reported |= set(connection.execute(sent).scalars())
        reported |= {
            incident
            for incident, names in labelled.items()
            if not names.intersection(WITHDRAWING_LABELS)
        }
    return reported


def closing_notes(
    connection: Connection,
    incidents: Collection[int],
    continued_in: Mapping[int, int],
    commit: int,
    now: datetime,
) -> dict[int, str]:
    """Return the reason why each incident has no anomalies any more.

    Parameters
    ----------
    connection : Connection
    incidents : collection of int
        Ids of incidents without anomalies.
    continued_in : mapping of int to int
        The incident that took over the anomalies of another.
    commit : int
        The commit that closes the incidents.
    now : datetime
        Time of the commit.

    Returns
    -------
    dict of int to str
        Such as "withdrawn on 2026-03-04 07:30 UTC because ds=2026-03-02 was measured again and looks normal".
    """
    lost = _lost_anomalies(connection, incidents, commit)
    return {
        incident: _closing_note(connection, lost.get(incident, ()), continued_in.get(incident), now)
        for incident in incidents
    }


def _closing_note(
    connection: Connection, lost: Sequence[Any], continued_in: int | None, now: datetime
) -> str:
    moment = f"{now:%Y-%m-%d %H:%M} UTC"
    if continued_in is not None:
        return f"closed on {moment} because it continues in incident {continued_in}"
    missing = [row for row in lost if row.metric == MISSING_PARTITION]
    arrived = _arrived_partitions(connection, missing)
    if missing and len(missing) == len(lost):
        reason = f"{_join_names(arrived)} arrived" if arrived else "nothing is missing any more"
        return f"closed on {moment} because {reason}"
    measured = _measured_again(connection, lost)
    if measured:
        verbs = (
            "was measured again and looks" if len(measured) == 1 else "were measured again and look"
        )
        return f"withdrawn on {moment} because {_join_names(measured)} {verbs} normal"
    names = list(dict.fromkeys(row.partition for row in lost))
    verb = "looks" if len(names) == 1 else "look"
    return (
        f"withdrawn on {moment} because {_join_names(names)} {verb} normal given the current history,"
        " labels and monitors"
    )


def _lost_anomalies(
    connection: Connection, incidents: Collection[int], commit: int
) -> dict[int, list[Any]]:
    """Return the anomalies that incidents had before a commit, in order of time."""
    f, n, p, e = s.finding.c, s.anomaly.c, s.partition.c, s.series.c
    lost: dict[int, list[Any]] = {}
    for chunk in chunks(sorted(incidents)):
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
            .where(f.incident_id.in_(chunk), s.holds(s.finding, commit - 1))
            .order_by(p.time, p.name)
        )
        for row in connection.execute(query):
            lost.setdefault(row.incident_id, []).append(row)
    return lost


def _measured_again(connection: Connection, lost: Sequence[Any]) -> list[str]:
    """Return the partitions that have a newer version than their anomaly."""
    v, m = s.partition_version.c, s.metric.c
    names: dict[str, None] = {}
    for row in lost:
        partition_query = sa.select(v.version).where(
            v.partition_id == row.partition_id, s.holds(s.partition_version)
        )
        metric_query = sa.select(m.version).where(
            m.partition_id == row.partition_id, m.series_id == row.series_id, s.holds(s.metric)
        )
        versions = {
            version
            for query in (partition_query, metric_query)
            for version in connection.execute(query).scalars()
        }
        if any(version > row.version for version in versions):
            names[row.partition] = None
    return list(names)


def _arrived_partitions(connection: Connection, missing: Sequence[Any]) -> list[str]:
    """Return the partitions that arrived in reported gaps."""
    p = s.partition.c
    names: dict[str, None] = {}
    for row in missing:
        arrived = sa.select(p.name, p.time).where(
            p.dataset_id == row.dataset_id,
            p.segment == row.segment,
            p.first_seen_at > row.detected_at,
            p.id != row.partition_id,
        )
        partitions = connection.execute(arrived.order_by(p.time)).all()
        # A gap is before the partition at which it is reported; overdue partitions are after it.
        names_before = [
            partition.name
            for partition in partitions
            if partition.time is not None and partition.time < row.time
        ]
        names |= dict.fromkeys(names_before or [partition.name for partition in partitions])
    return list(names)


def _join_names(names: Sequence[str]) -> str:
    """Join partition names into a phrase; if there are many, only the first are named."""
    parts = [plain(name or "the table") for name in names[:MAX_NAMED_PARTITIONS]]
    if len(names) > len(parts):
        parts.append(f"{len(names) - len(parts)} more")
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


MAX_QUIET_PARTITIONS = 1
"""Quiet partitions that an incident may have between two anomalous partitions."""
UNAFFECTED_BY_HOLIDAYS = frozenset(
    {"EmptyMetrics", "StalePartition", "SchemaChange", "Restatement"}
)
"""A holiday changes numbers, but not whether data arrives or which columns it has."""
MIN_SHARED_METRICS = 1 / 5
"""A partition continues the previous incident if at least this share of its anomalous metrics is in it."""


def group_anomalies(anomalies: Iterable[Anomaly]) -> list[list[Anomaly]]:
    """Group anomalies into incidents, in the order of the first anomaly of each.

    Anomalies of one partition are grouped together. A partition continues the previous incident if at
    most one quiet partition is between them and enough of its metrics (of any filter and segment) are in
    that incident. Each gap is an incident of its own, because it is reported at the partition after the
    missing ones.
    """
    ordered = sorted(anomalies, key=lambda a: (a.within, a.position, a.id))
    gaps: dict[tuple[str, int], list[Anomaly]] = {}
    by_partition: dict[tuple[str, int], list[Anomaly]] = {}
    for anomaly in ordered:
        partitions = gaps if is_gap(anomaly.name, anomaly.explanation) else by_partition
        partitions.setdefault((anomaly.within, anomaly.position), []).append(anomaly)
    groups: list[list[Anomaly]] = []
    previous_topics: set[tuple[str, str]] = set()
    for (within, position), members in by_partition.items():
        topics = {(anomaly.name, anomaly.instance) for anomaly in members}
        previous = groups[-1][-1] if groups else None
        is_near = (
            previous is not None
            and previous.within == within
            and position - previous.position <= MAX_QUIET_PARTITIONS + 1
        )
        if is_near and len(topics & previous_topics) >= MIN_SHARED_METRICS * len(topics):
            groups[-1] += members
            previous_topics |= topics
        else:
            groups.append(members)
            previous_topics = topics
    groups += gaps.values()
    return sorted(groups, key=lambda group: (group[0].within, group[0].position, group[0].id))


@dataclass(frozen=True)
class _Course:
    headline: str
    severity: str
    first_partition_id: int
    last_partition_id: int
    series: int
    is_over: int
    is_new_level: bool = field(default=False, compare=False)
    """Whether the incident is over because its level became usual; a label stores it."""
    back_since: str = field(default="", compare=False)
    """Time of the first partition in which all values are back; empty if unknown."""


_COURSE_FIELDS = (
    "headline",
    "severity",
    "first_partition_id",
    "last_partition_id",
    "series",
    "is_over",
)
_LABEL_COLUMNS = ("dataset_id", "incident_id", "label", "note", "by", "created_at", "commit_id")


@dataclass(frozen=True)
class IncidentInputs:
    """Inputs of `write_incidents`: the anomalies of a dataset, and its stored incidents.

    Attributes
    ----------
    positions : Positions
    anomalies : sequence of Anomaly
        In the order of their ids.
    newest : mapping of (int, str) to int
        Index of the newest partition of each series with anomalies, by series and partition segment.
    courses : mapping of int to _Course
        The current state of each incident.
    labels : mapping of int to LastLabels
        The last labels of each labeled incident.
    firsts : mapping of int to int
        Incidents by the id of their first anomaly.
    """

    positions: Positions
    anomalies: Sequence[Anomaly]
    newest: Mapping[tuple[int, str], int]
    courses: Mapping[int, _Course]
    labels: Mapping[int, LastLabels]
    firsts: Mapping[int, int]

    @classmethod
    def read(
        cls, connection: Connection, moments: Mapping[int, datetime]
    ) -> dict[int, IncidentInputs]:
        """Read the inputs of datasets by id, each as of a moment."""
        positions = Positions.read(connection, moments)
        dataset_of = {n: d for d, item in positions.items() for n in item.index_by_partition}
        index_by_partition = {
            n: index for item in positions.values() for n, index in item.index_by_partition.items()
        }
        anomalies: dict[int, list[Anomaly]] = {dataset: [] for dataset in moments}
        courses: dict[int, dict[int, _Course]] = {dataset: {} for dataset in moments}
        firsts: dict[int, dict[int, int]] = {dataset: {} for dataset in moments}
        labels: dict[int, dict[int, LastLabels]] = {dataset: {} for dataset in moments}
        i = s.incident.c
        for chunk in chunks(sorted(moments)):
            condition = s.partition.c.dataset_id.in_(chunk)
            for anomaly in read_anomalies(connection, condition, index_by_partition):
                anomalies[dataset_of[anomaly.partition]].append(anomaly)
            query = sa.select(i.dataset_id, i.anomaly_id, i.id).where(i.dataset_id.in_(chunk))
            dataset_of_incident = {}
            for dataset, first, incident in connection.execute(query):
                firsts[dataset][first] = incident
                dataset_of_incident[incident] = dataset
            for incident, course in _read_courses(connection, chunk).items():
                courses[dataset_of_incident[incident]][incident] = course
            for incident, last in last_labels(connection, chunk).items():
                labels[dataset_of_incident[incident]][incident] = last
        series = {dataset: {a.series for a in anomalies[dataset]} for dataset in moments}
        newest = _newest(connection, positions, series)
        return {
            dataset: cls(
                item,
                anomalies[dataset],
                newest[dataset],
                courses[dataset],
                labels[dataset],
                firsts[dataset],
            )
            for dataset, item in positions.items()
        }


def write_incidents(
    connection: Connection,
    dataset: int,
    inputs: IncidentInputs,
    teaching: TrainingLabels,
    commit: NextCommit,
) -> None:
    """Update the incidents of a dataset from its anomalies.

    An incident keeps its id as long as one of its anomalies was in it before or its first anomaly is the
    same. An anomaly of a partition that was measured again counts as the previous one. An incident is
    resolved once its series have later values near the values before it, or when its level became the new
    one. It is reopened when another anomaly joins it or when it exceeds a user's label. It is not over
    while one of its series continues in a wider incident. When the next partition arrives, an overdue partition becomes a gap and keeps its incident.

    An incident without anomalies is withdrawn. If users know of it, it is closed instead: its new state has
    no series, and a label gives the reason.

    Parameters
    ----------
    connection : Connection
    dataset : int
        Id of the dataset.
    inputs : IncidentInputs
        Its anomalies and stored incidents.
    teaching : TrainingLabels
        Labels and holidays of the dataset.
    commit : NextCommit
        The commit to write.
    """
    positions, anomalies, courses = inputs.positions, inputs.anomalies, inputs.courses
    labels, firsts, newest = inputs.labels, inputs.firsts, inputs.newest
    has_consistency = any(anomaly.name.startswith(PREFIX) for anomaly in anomalies)
    group_bys = group_bys_of(connection, dataset) if has_consistency else set()
    # Match each group with the incident that it continues.
    groups = group_anomalies(anomalies)
    closed = {number for number, course in courses.items() if not course.series}
    orphaned = courses.keys() - closed - {anomaly.incident for anomaly in anomalies}
    overdue = _overdue_incidents(
        connection,
        {i: positions.index_by_partition[courses[i].last_partition_id] for i in orphaned},
    )
    anomalous_positions = _anomalous_places(anomalies)
    # A group claims the incident of its own first anomaly before others can, so that no id is used
    # twice.
    incident_by_first = [
        min((firsts[a.id] for a in g if a.id in firsts), default=None) for g in groups
    ]
    claimed = {i for i in incident_by_first if i is not None}
    new_groups: list[tuple[list[Anomaly], _Course]] = []
    continued: list[tuple[int, list[Anomaly], _Course]] = []
    for group, own_incident in zip(groups, incident_by_first, strict=True):
        title = headline(group, positions.steps[group[0].within], group_bys)
        # Series of partition-level detectors have no metrics: use the newest partition of the segment.
        segment_series = {(a.series, a.within) for a in group}
        newest_positions = {
            line: newest.get(line, positions.last_index[line[1]]) for line in segment_series
        }
        candidates = {a.incident for a in group if a.incident is not None}
        candidates |= {
            overdue[a.series, a.position - 1]
            for a in group
            if (a.series, a.position - 1) in overdue
        }
        candidates -= claimed
        incident = own_incident if own_incident is not None else min(candidates, default=None)
        course = _build_course(group, title, newest_positions, anomalous_positions)
        # Anomalies can end before the values are back. The end of an incident is not reconsidered.
        previous = None if incident is None else courses.get(incident)
        if course.is_over and not _was_over(previous, course):
            axis = positions.axes[group[0].within]
            step = positions.steps[group[0].within]
            course = _extended_course(connection, group, course, axis, step, anomalous_positions)
        if incident is None:
            new_groups.append((group, course))
        else:
            claimed.add(incident)
            continued.append((incident, group, course))
    # Store the differences.
    changed = [(i, g, c) for i, g, c in continued if courses.get(i) != c]
    moved = [(i, a.id) for i, g, _ in continued for a in g if a.incident != i]
    continued_in = {
        a.incident: i for i, g, _ in continued for a in g if a.incident not in {None, i}
    }
    gone = sorted(courses.keys() - closed - {i for i, _, _ in continued})
    closing = sorted(known_to_people(connection, gone))
    if new_groups or changed or gone or moved:
        ended = [*gone, *(i for i, _, _ in changed if i in courses)]
        continued += _store_changes(connection, dataset, new_groups, changed, ended, moved, commit)
    if closing:
        notes = closing_notes(connection, closing, continued_in, commit.id, commit.now)
        _close_incidents(
            connection, dataset, {i: (courses[i], notes[i]) for i in closing}, labels, commit
        )
    # Label incidents automatically. Holidays explain partitions of a day or less.
    by_day = [
        anomaly for anomaly in continued if anomaly[1][0].within not in positions.coarse_segments
    ]
    explained = {number: explaining_holiday(group, teaching) for number, group, _ in by_day}
    labelled = _labelled_anomalies(connection, continued, labels)
    _label_automatically(
        connection, dataset, continued, courses, labels, labelled, explained, commit
    )


def _store_changes(
    connection: Connection,
    dataset: int,
    new_groups: Sequence[tuple[list[Anomaly], _Course]],
    changed: Sequence[tuple[int, list[Anomaly], _Course]],
    ended: Sequence[int],
    moved: Sequence[tuple[int, int]],
    commit: NextCommit,
) -> list[tuple[int, list[Anomaly], _Course]]:
    """Store new incidents, changed states and the incident of each anomaly; return the new incidents."""
    ids = next_findings(connection, len(new_groups)) if new_groups else ()
    new = list(zip(ids, *zip(*new_groups, strict=True), strict=True)) if new_groups else []
    rows = [(i, dataset, min(a.id for a in g), commit.now) for i, g, _ in new]
    insert_rows(connection, s.incident, ("id", "dataset_id", "anomaly_id", "opened_at"), rows)
    _assign_anomalies(connection, [*moved, *((i, a.id) for i, g, _ in new for a in g)], commit.id)
    _end_courses(connection, ended, commit.id)
    courses = [
        (i, commit.id, *(getattr(c, name) for name in _COURSE_FIELDS))
        for i, _, c in (*changed, *new)
    ]
    insert_rows(connection, s.course, ("incident_id", "commit_id", *_COURSE_FIELDS), courses)
    return new


def _anomalous_places(anomalies: Iterable[Anomaly]) -> dict[tuple[int, str], list[int]]:
    """Return the sorted positions of partitions with anomalies, by series and partition segment."""
    positions: dict[tuple[int, str], list[int]] = {}
    for series, within, position in sorted(
        {(anomaly.series, anomaly.within, anomaly.position) for anomaly in anomalies}
    ):
        positions.setdefault((series, within), []).append(position)
    return positions


def _labelled_anomalies(
    connection: Connection,
    continued: Sequence[tuple[int, Sequence[Anomaly], _Course]],
    labels: Mapping[int, LastLabels],
) -> dict[int, list[Anomaly]]:
    """Return the anomalies that changed incidents had when a user last labeled them."""
    labelled = {}
    for incident, group, _ in continued:
        judged_at = labels.get(incident, LastLabels()).judged_at
        if judged_at is not None and any(anomaly.commit > judged_at for anomaly in group):
            condition = s.finding.c.incident_id == incident
            labelled[incident] = read_anomalies(connection, condition, {}, judged_at)
    return labelled


def _close_incidents(
    connection: Connection,
    dataset: int,
    closing: Mapping[int, tuple[_Course, str]],
    labels: Mapping[int, LastLabels],
    commit: NextCommit,
) -> None:
    """Close incidents without anomalies: store a state without series, and a label with the reason.

    If a user labeled the incident as expected or resolved, the reason is a comment, and the status stays.
    """
    courses = [replace(course, series=0, is_over=1) for course, _ in closing.values()]
    rows = [
        (i, commit.id, *(getattr(course, name) for name in _COURSE_FIELDS))
        for i, course in zip(closing, courses, strict=True)
    ]
    insert_rows(connection, s.course, ("incident_id", "commit_id", *_COURSE_FIELDS), rows)
    label_rows = []
    for incident, (_, note) in closing.items():
        settled = labels.get(incident, LastLabels()).label in {"expected", "resolved"}
        label = "comment" if settled else "resolved"
        label_rows.append((dataset, incident, label, note, AUTOMATIC_AUTHOR, commit.now, commit.id))
    insert_rows(connection, s.label, _LABEL_COLUMNS, label_rows)


def _overdue_incidents(
    connection: Connection, lasts: Mapping[int, int]
) -> dict[tuple[int, int], int]:
    """Return incidents of overdue partitions, by series and position of the last arrived partition.

    Parameters
    ----------
    connection : Connection
    lasts : mapping of int to int
        Position of the last partition, by the id of an incident that has no anomalies any more.
    """
    i, n, e = s.incident.c, s.anomaly.c, s.series.c
    incidents = {}
    for chunk in chunks(sorted(lasts)):
        query = (
            sa.select(i.id, n.series_id)
            .join_from(s.incident, s.anomaly, n.id == i.anomaly_id)
            .join(s.series, e.id == n.series_id)
            .where(i.id.in_(chunk), e.name == MISSING_PARTITION)
        )
        for incident, series in connection.execute(query):
            incidents[series, lasts[incident]] = incident
    return incidents


def _was_over(previous: _Course | None, course: _Course) -> bool:
    """Return whether an incident with the same last partition was over already."""
    return (
        previous is not None
        and bool(previous.is_over)
        and previous.last_partition_id == course.last_partition_id
    )


def _extended_course(
    connection: Connection,
    group: Sequence[Anomaly],
    course: _Course,
    axis: PartitionAxis,
    step: timedelta | None,
    anomalous_positions: Mapping[tuple[int, str], Sequence[int]],
) -> _Course:
    """Return the course of an incident without further anomalies, by whether its values are back."""
    anomalous = {
        series: positions
        for (series, within), positions in anomalous_positions.items()
        if within == group[0].within
    }
    states = level_states(connection, group, axis, anomalous).values()
    levels = {state.level for state in states}
    if LevelState.OFF in levels:
        return replace(course, is_over=0)
    back_positions = [state.back_at for state in states if state.back_at is not None]
    back_since = ""
    if levels == {LevelState.BACK}:
        time = axis.times[max(back_positions)].item()
        back_since = span(time, time, step)
    return replace(course, is_new_level=LevelState.NEW_LEVEL in levels, back_since=back_since)


def _build_course(
    group: Sequence[Anomaly],
    title: str,
    newest_positions: Mapping[tuple[int, str], int],
    anomalous_positions: Mapping[tuple[int, str], Sequence[int]],
) -> _Course:
    """Return the course of an incident.

    Parameters
    ----------
    group : sequence of Anomaly
        The anomalies of the incident, in order.
    title : str
        Headline.
    newest_positions : mapping of (int, str) to int
        Position of the newest partition, by series and partition segment.
    anomalous_positions : mapping of (int, str) to sequence of int
        Sorted positions of partitions with anomalies, by series and partition segment.
    """
    last = group[-1]
    severities = list(Severity)
    gravest = max(severities.index(Severity(a.severity)) for a in group)
    later = [
        (
            newest - last.position,
            len(anomalous_positions[series])
            - bisect_right(anomalous_positions[series], last.position),
        )
        for series, newest in newest_positions.items()
    ]
    is_back = any(partitions > unusual for partitions, unusual in later)
    continues = any(0 < partitions == unusual for partitions, unusual in later)
    continues |= any(
        is_missing(anomaly.name) for anomaly in group
    )  # later partitions do not fill a gap
    return _Course(
        headline=title,
        severity=str(severities[gravest]),
        first_partition_id=group[0].partition,
        last_partition_id=last.partition,
        series=len({a.series for a in group}),
        is_over=int(is_back and not continues),
    )


def _label_automatically(
    connection: Connection,
    dataset: int,
    continued: Sequence[tuple[int, Sequence[Anomaly], _Course]],
    courses: Mapping[int, _Course],
    labels: Mapping[int, LastLabels],
    labelled: Mapping[int, Sequence[Anomaly]],
    holidays: Mapping[int, str],
    commit: NextCommit,
) -> None:
    """Label incidents as resolved, reopened, or expected because of a holiday.

    A user's label of an incident that is over is kept, unless the incident exceeds it.
    """
    rows = []
    for incident, group, course in continued:
        last = labels.get(incident, LastLabels())
        label, author = last.label, last.by
        previous = courses.get(incident)
        new_label: tuple[str, str] | None = None
        holiday = holidays.get(incident, "")
        was_over = previous is not None and previous.is_over
        # A gap does not grow: the partition at which it is reported changes when others arrive.
        can_grow = not all(is_missing(anomaly.name) for anomaly in group)
        is_longer = previous is not None and (
            not previous.series
            or (can_grow and previous.last_partition_id != course.last_partition_id)
        )
        judged_over = (
            last.judged_at is not None and label == "resolved" and author != AUTOMATIC_AUTHOR
        )
        continues = judged_over and is_longer and not course.is_over
        if continues or exceeds_label(labelled.get(incident, ()), group):
            status = "resolved" if course.is_over else "reopened"
            new_label = (status, f"{BEYOND_LABEL}: {course.headline}")
        elif holiday and label is None:
            new_label = ("expected", holiday)
        elif label == "expected" and author == AUTOMATIC_AUTHOR and not holiday:
            status = "resolved" if course.is_over else "reopened"
            new_label = (status, "no longer explained by a holiday")
        elif label == "resolved" and is_longer and not course.is_over:
            new_label = ("reopened", "another anomaly joined it")
        elif course.is_over and not was_over and label in {None, "acknowledged", "reopened"}:
            new_label = ("resolved", _reason_over(course))
        if new_label:
            rows.append((dataset, incident, *new_label, AUTOMATIC_AUTHOR, commit.now, commit.id))
    insert_rows(connection, s.label, _LABEL_COLUMNS, rows)


def _reason_over(course: _Course) -> str:
    """Return why an incident is over, for the label that resolves it."""
    if course.is_new_level:
        return NEW_LEVEL
    if not course.back_since:
        return "no further anomaly"
    return f"back to earlier values since {course.back_since}"


def explaining_holiday(group: Sequence[Anomaly], teaching: TrainingLabels) -> str:
    """Return the holiday on or next to the incident's top-scoring partition; empty if there is none."""
    if any(anomaly.name in UNAFFECTED_BY_HOLIDAYS or _loses_values(anomaly) for anomaly in group):
        return ""
    total: dict[int, float] = {}
    for anomaly in group:
        total[anomaly.partition] = total.get(anomaly.partition, 0.0) + anomaly.score
    clearest = max(total, key=lambda partition: total[partition])
    anomaly = next(anomaly for anomaly in group if anomaly.partition == clearest)
    span = missing_span(anomaly.explanation) if is_missing(anomaly.name) else None
    return teaching.explains(anomaly.time if span is None else span.first)


def _loses_values(anomaly: Anomaly) -> bool:
    """Return whether an anomaly reports more missing values than usual."""
    return anomaly.name == "Completeness" and anomaly.direction != "high"


def _read_courses(connection: Connection, datasets: Sequence[int]) -> dict[int, _Course]:
    c, i = s.course.c, s.incident.c
    query = (
        sa.select(i.id, *(c[name] for name in _COURSE_FIELDS))
        .join_from(s.incident, s.course, (c.incident_id == i.id) & s.holds(s.course))
        .where(i.dataset_id.in_(datasets))
    )
    return {row[0]: _Course(*row[1:]) for row in connection.execute(query)}


def _assign_anomalies(
    connection: Connection, members: Sequence[tuple[int, int]], commit: int
) -> None:
    """Assign anomalies to incidents. Findings of earlier commits are superseded to preserve history."""
    f = s.finding
    incident_of = {anomaly: incident for incident, anomaly in members}
    columns = [column.name for column in f.columns]
    copies = []
    for chunk in chunks(sorted(incident_of)):
        query = sa.select(f).where(f.c.anomaly_id.in_(chunk), s.holds(f))
        for row in connection.execute(query).all():
            if row.commit_id != commit:
                changes = {"commit_id": commit, "incident_id": incident_of[row.anomaly_id]}
                copies.append(tuple({**row._asdict(), **changes}[name] for name in columns))
        ended = sa.update(f).where(f.c.anomaly_id.in_(chunk), s.holds(f), f.c.commit_id != commit)
        connection.execute(ended.values(superseded_commit_id=commit))
    groups: dict[int, list[int]] = {}
    for anomaly, incident in incident_of.items():
        groups.setdefault(incident, []).append(anomaly)
    for incident, anomalies in groups.items():  # findings of this commit are updated in place
        for chunk in chunks(anomalies):
            now = (f.c.anomaly_id.in_(chunk), s.holds(f), f.c.commit_id == commit)
            connection.execute(sa.update(f).where(*now).values(incident_id=incident))
    insert_rows(connection, f, columns, copies)


def _end_courses(connection: Connection, incidents: Sequence[int], commit: int) -> None:
    c = s.course
    for chunk in chunks(incidents):
        change = sa.update(c).where(c.c.incident_id.in_(chunk), s.holds(c))
        connection.execute(change.values(superseded_commit_id=commit))
