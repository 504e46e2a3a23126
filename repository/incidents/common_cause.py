"""Group incidents of several tables that share a cause.

Incidents that begin at the same partition time are candidates: all of them, those that report the same
kind of change, and those of tables with one upstream. A candidate is a group if so many tables at one time
are no coincidence: the number of tables is compared with the Poisson distribution whose mean is what the
incidents of the weeks before let expect. Of overlapping candidates the one with the largest likelihood
ratio is taken, as in Kulldorff's scan statistic, and the rest is looked at again.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import accumulate, groupby
from math import log
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import sqlalchemy as sa

from tidegauge.analyzers.core.formatting import one_line, plain, plural
from tidegauge.repository.incidents.anomaly import span, step_of
from tidegauge.repository.incidents.context import upstreams
from tidegauge.repository.incidents.listing import incident_rows
from tidegauge.repository.store import schema as s
from tidegauge.repository.store.listing import tags_of_datasets
from tidegauge.repository.store.queries import AsOf, Window, commit_as_of
from tidegauge.repository.store.rows import GroupedIncidentRow, Severity

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection, Engine

LEVEL = 0.001
"""Probability that incidents which begin at one time are grouped by coincidence."""
BY_CHANCE = 0.25
"""Maximum share of a group's tables that are expected to have such an incident anyway."""
LOOKBACK = timedelta(days=90)
"""Time before a group whose incidents tell how many are usual."""
PRIOR = timedelta(days=30)
"""Table-time in which one incident of each kind is assumed beside those that were found."""
NAMED = 4
"""Maximum number of tables that a headline names."""
_DAY = timedelta(days=1)
_KINDS = {
    "Restatement": "restated",
    "Late": "late",
    "MissingPartition": "missing",
    "StalePartition": "unchanged",
    "SchemaChange": "new schema",
    "EmptyMetrics": "empty metrics",
    "VolatilityShift": "more noise",
}
_DIRECTIONS = {
    ("Size", "low"): "fewer rows",
    ("Size", "high"): "more rows",
    ("Completeness", "low"): "more nulls",
}


@dataclass(frozen=True)
class Candidate:
    """An incident, as far as it can share a cause with others.

    Attributes
    ----------
    id : int
    dataset : str
    since : datetime or None
        Time of its first partition; an incident without one is never grouped.
    kinds : frozenset of str
        Kinds of change, as `kind_of` names them.
    severity : str
    """

    id: int
    dataset: str
    since: datetime | None
    kinds: frozenset[str] = frozenset()
    severity: str = "warning"


@dataclass(frozen=True)
class WatchedTable:
    """A dataset that may have incidents.

    Attributes
    ----------
    since : datetime
        Time of its first partition.
    upstreams : frozenset of str
        Tables from which it is made.
    """

    since: datetime
    upstreams: frozenset[str] = frozenset()


@dataclass(frozen=True)
class IncidentGroup:
    """Incidents of several tables that share a cause.

    Attributes
    ----------
    since : datetime
        Time of the partition at which all of them begin.
    incidents : tuple of Candidate
        In order of severity, the worst first, then by dataset.
    kind : str
        The kind of change that they share; empty if they differ.
    upstream : str
        The upstream that their tables share; empty if they have none in common or it explains nothing.
    expected : float
        How many tables would have had such an incident at that time anyway.
    """

    since: datetime
    incidents: tuple[Candidate, ...]
    kind: str
    upstream: str
    expected: float

    @property
    def id(self) -> int:
        """The smallest id of its incidents."""
        return min(one.id for one in self.incidents)

    @property
    def datasets(self) -> tuple[str, ...]:
        """The tables."""
        return tuple(dict.fromkeys(one.dataset for one in self.incidents))

    @property
    def severity(self) -> str:
        """The gravest severity of its incidents."""
        return self.incidents[0].severity

    @property
    def headline(self) -> str:
        """The group in one line.

        Examples
        --------
        >>> members = tuple(Candidate(n, f"t{n}", None) for n in range(6))
        >>> IncidentGroup(datetime(2026, 2, 8), members, "fewer rows", "raw.orders", 0.1).headline
        '8 Feb 2026: fewer rows in 6 tables of upstream raw.orders: t0, t1, t2, t3 and 2 more'
        """
        tables = self.datasets
        names = [plain(name) for name in tables[:NAMED]]
        if len(tables) > NAMED:
            told = f"{', '.join(names)} and {len(tables) - NAMED} more"
        else:
            told = " and ".join([", ".join(names[:-1]), names[-1]])
        of = f" of upstream {plain(self.upstream)}" if self.upstream else ""
        what = self.kind or "incidents"
        when = span(self.since, self.since, step_of([self.since]))
        return one_line(f"{when}: {what} in {plural(len(tables), 'table')}{of}: {told}")


def kind_of(name: str, direction: str) -> str:
    """Return the kind of change of an anomaly, by metric and direction; empty for other metrics.

    Examples
    --------
    >>> kind_of("Size", "low"), kind_of("Late", "high"), kind_of("Mean", "low")
    ('fewer rows', 'late', '')
    """
    return _KINDS.get(name) or _DIRECTIONS.get((name, direction), "")


def group_by_cause(
    incidents: Iterable[Candidate], tables: Mapping[str, WatchedTable]
) -> list[IncidentGroup]:
    """Group incidents of several tables that share a cause.

    Groups depend on earlier incidents only, so they do not change as history goes on. Incidents in groups
    do not count towards what is usual: an outage of everything last week does not hide one of today.

    Parameters
    ----------
    incidents : iterable of Candidate
        Of all datasets.
    tables : mapping of str to WatchedTable
        All datasets, also those without incidents.

    Returns
    -------
    list of IncidentGroup
        In order of time.

    Examples
    --------
    Three of fifty tables lost rows on the same day, after months in which none did:

    >>> tables = {f"t{n}": WatchedTable(datetime(2026, 1, 1)) for n in range(50)}
    >>> lost = [
    ...     Candidate(n, f"t{n}", datetime(2026, 6, 1), frozenset({"fewer rows"})) for n in (1, 2, 3)
    ... ]
    >>> [group.headline for group in group_by_cause(lost, tables)]
    ['1 Jun 2026: fewer rows in 3 tables: t1, t2 and t3']
    """
    usual = _Usual(tables)
    groups: list[IncidentGroup] = []
    timed = sorted((one for one in incidents if one.since), key=_since)
    for since, of_time in groupby(timed, key=_since):
        left = list(of_time)
        while found := _most_surprising(since, left, usual):
            groups.append(found)
            inside = {one.id for one in found.incidents}
            left = [one for one in left if one.id not in inside]
        usual.add(since, left)
    return groups


def _since(one: Candidate) -> datetime:
    assert one.since is not None
    return one.since


_Class = tuple[str, str]
"""A kind and an upstream; empty for any."""


class _Usual:
    """Expected numbers of tables with incidents of a class at one time, by the incidents before."""

    def __init__(self, tables: Mapping[str, WatchedTable]) -> None:
        self._tables = tables
        self._made_from: dict[str, set[str]] = {"": set(tables)}
        for name, table in tables.items():
            for upstream in table.upstreams:
                self._made_from.setdefault(upstream, {upstream} & tables.keys()).add(name)
        self._upstreams: dict[str, set[str]] = {}
        for upstream, names in self._made_from.items():
            for name in names:
                self._upstreams.setdefault(name, set()).add(upstream)
        self._begun = {
            of: _Begun([tables[name].since for name in names])
            for of, names in self._made_from.items()
            if names
        }
        self._times: dict[_Class, list[datetime]] = {}

    def classes_of(self, one: Candidate) -> list[_Class]:
        upstreams = sorted(self._upstreams.get(one.dataset, {""}))
        return [(kind, of) for kind in ("", *sorted(one.kinds)) for of in upstreams]

    def add(self, since: datetime, some: Iterable[Candidate]) -> None:
        """Add incidents; tables with several of a class at one time count once."""
        for of, _ in {(of, one.dataset) for one in some for of in self.classes_of(one)}:
            insort(self._times.setdefault(of, []), since)

    def expected(self, since: datetime, of: _Class) -> float:
        """Return the expected number of tables with an incident of a class in a day."""
        times = self._times.get(of, [])
        found = len(times) - bisect_left(times, since - LOOKBACK)
        observed = self._begun[of[1]].days_before(since)
        there = self._begun[of[1]].count_before(since)
        return there * (found + 1) / (observed + PRIOR / _DAY)


class _Begun:
    """Times at which some tables begin."""

    def __init__(self, times: Collection[datetime]) -> None:
        self._first = min(times)
        self._days = sorted((time - self._first) / _DAY for time in times)
        self._sums = [0.0, *accumulate(self._days)]

    def count_before(self, since: datetime) -> int:
        """Return the number of tables that have begun by a time."""
        return bisect_right(self._days, (since - self._first) / _DAY)

    def days_before(self, since: datetime) -> float:
        """Return the table-time, in days, of the `LOOKBACK` before a time."""
        until, lookback = (since - self._first) / _DAY, LOOKBACK / _DAY
        old, begun = bisect_left(self._days, until - lookback), bisect_left(self._days, until)
        return old * lookback + (begun - old) * until - (self._sums[begun] - self._sums[old])


def _most_surprising(
    since: datetime, some: Sequence[Candidate], usual: _Usual
) -> IncidentGroup | None:
    """Return the group with the largest likelihood ratio, if it is no coincidence."""
    members: dict[_Class, list[Candidate]] = {}
    for one in some:
        for of in usual.classes_of(one):
            members.setdefault(of, []).append(one)
    counts = {of: len({one.dataset for one in m}) for of, m in members.items()}
    counts = {of: count for of, count in counts.items() if count > 1}
    best: tuple[tuple[float, bool, bool], IncidentGroup] | None = None
    for of, count in counts.items():
        expected = usual.expected(since, of)
        if expected > BY_CHANCE * count or poisson_tail(count, expected) * len(counts) > LEVEL:
            continue
        ratio = count * log(count / expected) - (count - expected)
        group = IncidentGroup(since, tuple(sorted(members[of], key=_gravest)), *of, expected)
        # Of equal classes the one that says more.
        rank = (ratio, bool(of[0]), bool(of[1]))
        if best is None or rank > best[0]:
            best = rank, group
    return best[1] if best else None


def _gravest(one: Candidate) -> tuple[int, str, int]:
    return -list(Severity).index(Severity(one.severity)), one.dataset, one.id


def poisson_tail(count: int, mean: float) -> float:
    """Return the probability of at least a count, for a Poisson distribution.

    Examples
    --------
    >>> f"{poisson_tail(1, 1.0):.4f}, {poisson_tail(3, 0.1):.6f}"
    '0.6321, 0.000155'
    """
    from scipy.special import pdtrc

    return float(pdtrc(count - 1, mean))


def grouped_incident_rows(
    connection: Connection,
    dataset: str | None,
    status: str | None,
    window: Window,
    as_of: AsOf = None,
) -> tuple[list[GroupedIncidentRow], dict[int, IncidentGroup]]:
    """Return incidents as `incident_rows` does, with their ``group``, and the groups by incident.

    ``group`` is the id of the incident's group, the smallest of its incidents; None without one.
    """
    rows = incident_rows(connection, dataset, status, window, as_of)
    of = _groups(connection, as_of)
    told: list[GroupedIncidentRow] = [
        {**row, "group": of[row["id"]].id if row["id"] in of else None} for row in rows
    ]
    return told, of


_Groups = dict[int, IncidentGroup]
_newest: WeakKeyDictionary[Engine, tuple[tuple[int | None, ...], _Groups]] = WeakKeyDictionary()
"""The groups that were last asked for, and the commits and run of which they are: those of a report's
hundred incidents are computed once."""


def _groups(connection: Connection, as_of: AsOf) -> _Groups:
    """Return the groups of all incidents, by incident."""
    commit = commit_as_of(connection, as_of)
    query = sa.select(
        sa.select(sa.func.max(s.commit.c.id)).scalar_subquery(),
        sa.select(sa.func.max(s.run.c.id)).scalar_subquery(),
    )
    state = (commit, *connection.execute(query).one())
    known = _newest.get(connection.engine)
    if known is None or known[0] != state:
        rows = incident_rows(connection, None, None, Window(), as_of)
        kinds = _kinds(connection, commit)
        candidates = [
            Candidate(
                row["id"],
                row["dataset"],
                row["since"],
                frozenset(kinds.get(row["id"], ())),
                row["severity"],
            )
            for row in rows
            if row["series"]  # closed ones have no anomalies any more
        ]
        groups = group_by_cause(candidates, _tables(connection))
        known = state, {one.id: group for group in groups for one in group.incidents}
        _newest[connection.engine] = known
    return known[1]


def _kinds(connection: Connection, commit: int | None) -> dict[int, set[str]]:
    """Return the kinds of change of incidents."""
    f, n, e = s.finding.c, s.anomaly.c, s.series.c
    query = (
        sa.select(f.incident_id, e.name, f.direction)
        .join_from(s.finding, s.anomaly, n.id == f.anomaly_id)
        .join(s.series, e.id == n.series_id)
        .where(
            s.holds(s.finding, commit),
            f.incident_id.is_not(None),
            e.name.in_([*_KINDS, *(name for name, _ in _DIRECTIONS)]),
        )
        .distinct()
    )
    kinds: dict[int, set[str]] = {}
    for incident, name, direction in connection.execute(query):
        if kind := kind_of(name, direction):
            kinds.setdefault(incident, set()).add(kind)
    return kinds


def _tables(connection: Connection) -> dict[str, WatchedTable]:
    d, p = s.dataset.c, s.partition.c
    query = (
        sa.select(d.name, sa.func.min(p.time))
        .join_from(s.dataset, s.partition, p.dataset_id == d.id)
        .where(p.time.is_not(None))
        .group_by(d.name)
    )
    tags = tags_of_datasets(connection)
    return {
        name: WatchedTable(since, upstreams(tags.get(name, {})))
        for name, since in connection.execute(query)
    }
