"""Group incidents of several tables that share a cause.

Incidents that begin at the same partition time and report the same kind of change form candidate groups, among
all tables and among the tables with a common upstream, schema or owner. Different kinds of change are candidates
only among the tables of one upstream. A candidate becomes a group if it affects many of these tables, or if its
tables arrived late together, and if its number of tables is unlikely to be a coincidence. The number is compared
with a Poisson distribution whose mean is estimated from the incidents of the previous weeks. Among overlapping
candidates the one with the largest likelihood ratio is chosen, as in Kulldorff's scan statistic, and the
remaining incidents are examined again.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import accumulate, groupby
from math import isnan, log
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

import sqlalchemy as sa

from tidegauge.analyzers.core.formatting import one_line, plain, plural
from tidegauge.repository.incidents.anomaly import span, step_of
from tidegauge.repository.incidents.context import upstreams
from tidegauge.repository.incidents.listing import incident_rows
from tidegauge.repository.store import schema as s
from tidegauge.repository.store.listing import SNAPSHOTS_ENDING, tags_of_datasets
from tidegauge.repository.store.queries import AsOf, Window, commit_as_of
from tidegauge.repository.store.rows import GroupedIncidentRow, Severity

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection, Engine

COINCIDENCE_PROBABILITY = 0.001
"""Probability that incidents which begin at one time are grouped by coincidence."""
MAX_EXPECTED_SHARE = 0.25
"""Maximum share of a group's tables that are expected to have such an incident anyway."""
LOOKBACK_TIME = timedelta(days=90)
PRIOR_TABLE_TIME = timedelta(days=30)
"""The rate of incidents is estimated as if one more had occurred in this much additional table-time."""
MIN_SHARE_OF_SCOPE = 0.05
"""Minimum share of the tables with a common upstream, schema or owner that a cause affects, but see below."""
MAX_REQUIRED_TABLES = 10
"""So many tables with the same kind of change can share a cause, however many tables do not have it."""
MIN_SHARE_OF_UPSTREAM = 0.5
"""Minimum share of the tables of an upstream that a cause affects if it shows differently in each."""
OWNER_TAG = "owner"
"""Tag of runs: who is responsible for a dataset."""
MAX_NAMED_TABLES = 4
_ONE_DAY = timedelta(days=1)
_KIND_BY_METRIC = {
    "Restatement": "restated",
    "Late": "late",
    "MissingPartition": "missing",
    "StalePartition": "unchanged",
    "EmptyMetrics": "empty metrics",
    "VolatilityShift": "more noise",
}
_KIND_BY_DIRECTION = {
    ("Size", "low"): "fewer rows",
    ("Size", "high"): "more rows",
    ("Completeness", "low"): "more nulls",
    ("Completeness", "high"): "fewer nulls",
}
_SCHEMA_KINDS = {" is gone": "dropped columns", " is new": "new columns", ", not ": "changed types"}
"""Kinds of schema changes, by a part of their explanation."""
_KINDS_OF_ARRIVAL = frozenset({"late", "missing"})


@dataclass(frozen=True)
class Candidate:
    """The fields of an incident that decide whether it shares a cause with others.

    Attributes
    ----------
    id : int
    dataset : str
    since : datetime or None
        Time of the first partition. Incidents without a time are never grouped.
    kinds : frozenset of str
        Kinds of change, as `kinds_of` names them.
    severity : str
    """

    id: int
    dataset: str
    since: datetime | None
    kinds: frozenset[str] = frozenset()
    severity: str = "warning"


@dataclass(frozen=True)
class WatchedTable:
    """A dataset that can have incidents.

    Attributes
    ----------
    since : datetime
        Time of the first partition.
    upstreams : frozenset of str
        Tables from which the dataset is made.
    owner : str
        The owner; empty if unknown.
    """

    since: datetime
    upstreams: frozenset[str] = frozenset()
    owner: str = ""


class TableScope(NamedTuple):
    """An upstream, a schema or an owner that tables have in common.

    Attributes
    ----------
    role : str
        ``upstream``, ``schema`` or ``owner``; empty for all tables.
    name : str
    """

    role: str = ""
    name: str = ""

    def __str__(self) -> str:
        return plain(f"{self.role} {self.name}") if self.role else ""


ALL_TABLES = TableScope()


def schema_of(dataset: str) -> str:
    """Return the schema of a table: its name up to the last dot.

    Examples
    --------
    >>> schema_of("lake.sales.orders"), schema_of("sales.orders.snapshots"), schema_of("orders")
    ('lake.sales', 'sales', '')
    """
    return dataset.removesuffix(SNAPSHOTS_ENDING).rpartition(".")[0]


def _scopes_of(name: str, table: WatchedTable) -> list[TableScope]:
    """Return what a table has in common with others, the strongest evidence first."""
    upstreams = [TableScope("upstream", upstream) for upstream in sorted(table.upstreams)]
    own = [TableScope("schema", schema_of(name)), TableScope("owner", table.owner)]
    return [*upstreams, *(scope for scope in own if scope.name), ALL_TABLES]


@dataclass(frozen=True)
class IncidentGroup:
    """Incidents of several tables that share a cause.

    Attributes
    ----------
    since : datetime
        Time of the partition at which all of them begin.
    incidents : tuple of Candidate
        Members by severity, the worst first, then by dataset.
    kind : str
        The kind of change that the incidents share; empty if they differ.
    scope : TableScope
        The upstream, schema or owner that the tables share; `ALL_TABLES` if it explains nothing.
    expected : float
        Number of tables that would have had such an incident at that time by chance.
    weak : tuple of str
        Tables without an incident that depart in the same way: too weakly alone, but together not by chance.
    """

    since: datetime
    incidents: tuple[Candidate, ...]
    kind: str
    scope: TableScope
    expected: float
    weak: tuple[str, ...] = ()

    @property
    def id(self) -> int:
        """The smallest id of its incidents."""
        return min(incident.id for incident in self.incidents)

    @property
    def datasets(self) -> tuple[str, ...]:
        """The tables with incidents, followed by those that depart weakly."""
        return tuple(dict.fromkeys([*(i.dataset for i in self.incidents), *self.weak]))

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
        >>> upstream = TableScope("upstream", "raw.orders")
        >>> IncidentGroup(datetime(2026, 2, 8), members, "fewer rows", upstream, 0.1).headline
        '2026-02-08: fewer rows in 6 tables of upstream raw.orders: t0, t1, t2, t3 and 2 more'
        """
        tables = self.datasets
        names = [plain(name) for name in tables[:MAX_NAMED_TABLES]]
        if len(tables) > MAX_NAMED_TABLES:
            listed = f"{', '.join(names)} and {len(tables) - MAX_NAMED_TABLES} more"
        else:
            listed = " and ".join([", ".join(names[:-1]), names[-1]])
        origin = f" of {self.scope}" if self.scope.role else ""
        kind = self.kind or "incidents"
        time_span = span(self.since, self.since, step_of([self.since]))
        weakly = f" ({len(self.weak)} of them weakly)" if self.weak else ""
        affected = f"{kind} in {plural(len(tables), 'table')}{origin}{weakly}"
        return one_line(f"{time_span}: {affected}: {listed}")


def kinds_of(name: str, direction: str, explanation: str = "") -> set[str]:
    """Return the kinds of change of an anomaly: one by metric and direction; several of a schema.

    Examples
    --------
    >>> kinds_of("Size", "low"), kinds_of("Late", "high"), kinds_of("Mean", "low")
    ({'fewer rows'}, {'late'}, {'lower Mean'})
    >>> sorted(kinds_of("SchemaChange", "high", "has a changed schema: a is gone and b is new"))
    ['dropped columns', 'new columns']
    """
    if name == "SchemaChange":
        return {kind for part, kind in _SCHEMA_KINDS.items() if part in explanation}
    other = f"{'lower' if direction == 'low' else 'higher'} {name}"
    return {_KIND_BY_METRIC.get(name) or _KIND_BY_DIRECTION.get((name, direction), other)}


def group_by_cause(
    incidents: Iterable[Candidate], tables: Mapping[str, WatchedTable]
) -> list[IncidentGroup]:
    """Group incidents of several tables that share a cause.

    Groups depend only on earlier incidents, so later incidents do not change them. Grouped incidents do
    not count toward the usual rate: a full outage last week does not hide an outage today.

    Parameters
    ----------
    incidents : iterable of Candidate
        Incidents of all datasets.
    tables : mapping of str to WatchedTable
        All datasets, including datasets without incidents.

    Returns
    -------
    list of IncidentGroup
        The groups in order of time.

    Examples
    --------
    Three of fifty tables lost rows on the same day, after months in which none did:

    >>> tables = {f"t{n}": WatchedTable(datetime(2026, 1, 1)) for n in range(50)}
    >>> lost = [
    ...     Candidate(n, f"t{n}", datetime(2026, 6, 1), frozenset({"fewer rows"})) for n in (1, 2, 3)
    ... ]
    >>> [group.headline for group in group_by_cause(lost, tables)]
    ['2026-06-01: fewer rows in 3 tables: t1, t2 and t3']
    """
    usual = _UsualRates(tables)
    groups: list[IncidentGroup] = []
    timed = sorted((incident for incident in incidents if incident.since), key=_start_time)
    for since, simultaneous in groupby(timed, key=_start_time):
        remaining = list(simultaneous)
        while group_found := _most_surprising(since, remaining, usual):
            groups.append(group_found)
            grouped_ids = {incident.id for incident in group_found.incidents}
            remaining = [incident for incident in remaining if incident.id not in grouped_ids]
        usual.add(since, remaining)
    return groups


def _start_time(incident: Candidate) -> datetime:
    assert incident.since is not None
    return incident.since


class _Class(NamedTuple):
    """Incidents that may share a cause: a kind of change, empty for any, in the tables of a scope."""

    kind: str
    scope: TableScope


class _UsualRates:
    """Expected number of tables with incidents of a class at one time, estimated from earlier incidents."""

    def __init__(self, tables: Mapping[str, WatchedTable]) -> None:
        self._scopes = {name: _scopes_of(name, table) for name, table in tables.items()}
        names_by_scope: dict[TableScope, set[str]] = {ALL_TABLES: set(tables)}
        for name, scopes in self._scopes.items():
            for scope in scopes:
                names_by_scope.setdefault(scope, set()).add(name)
        for scope, names in names_by_scope.items():
            if scope.role == "upstream" and scope.name in tables and scope.name not in names:
                names.add(scope.name)
                self._scopes[scope.name].insert(0, scope)
            elif scope.role in {"schema", "owner"} and len(names) == len(tables):
                # What all tables have in common does not distinguish them.
                for scopes in self._scopes.values():
                    scopes.remove(scope)
        self._begun = {
            scope: _StartTimes([tables[name].since for name in names])
            for scope, names in names_by_scope.items()
            if names
        }
        self._times: dict[_Class, list[datetime]] = {}

    def classes_of(self, incident: Candidate) -> list[_Class]:
        scopes = self._scopes.get(incident.dataset, [ALL_TABLES])
        upstreams = [scope for scope in scopes if scope.role == "upstream"]
        return [
            *(_Class(kind, scope) for kind in sorted(incident.kinds) for scope in scopes),
            *(_Class("", scope) for scope in upstreams),
        ]

    def is_believable(self, since: datetime, key: _Class, count: int) -> bool:
        """Return whether so many tables with incidents of a class can have one cause."""
        if count < 2:
            return False
        if key.kind in _KINDS_OF_ARRIVAL:
            return True
        if not key.kind:
            return count >= MIN_SHARE_OF_UPSTREAM * self._begun[key.scope].count_before(since)
        return count >= self._required_tables(since, key.scope)

    def is_widespread(self, since: datetime, key: _Class, count: int) -> bool:
        """Return whether tables outside a scope are so many that they share the cause of the tables in it."""
        required = max(int(self._required_tables(since, key.scope)), 1)
        return count >= required and self.expected(since, key) <= MAX_EXPECTED_SHARE * count

    def _required_tables(self, since: datetime, scope: TableScope) -> float:
        table_count = self._begun[scope].count_before(since)
        return min(MIN_SHARE_OF_SCOPE * table_count, MAX_REQUIRED_TABLES)

    def add(self, since: datetime, incidents: Iterable[Candidate]) -> None:
        """Add incidents. A table with several incidents of a class at one time counts once."""
        everything = _Class("", ALL_TABLES)
        for key, _ in {
            (key, incident.dataset)
            for incident in incidents
            for key in (*self.classes_of(incident), everything)
        }:
            insort(self._times.setdefault(key, []), since)

    def expected(self, since: datetime, key: _Class) -> float:
        """Return the expected number of tables with an incident of a class in a day.

        The rate in a scope is estimated as if one more incident had occurred at the rate of all tables.
        """
        prior_days = PRIOR_TABLE_TIME / _ONE_DAY
        if key.scope != ALL_TABLES:
            everywhere = _Class(key.kind, ALL_TABLES)
            prior_days = self._begun[ALL_TABLES].count_before(since) / self.expected(
                since, everywhere
            )
        begun = self._begun[key.scope]
        times = self._times.get(key, [])
        recent_count = len(times) - bisect_left(times, since - LOOKBACK_TIME)
        rate = (recent_count + 1) / (begun.days_before(since) + prior_days)
        return begun.count_before(since) * rate


class _StartTimes:
    """Times of the first partitions of tables."""

    def __init__(self, times: Collection[datetime]) -> None:
        self._first = min(times)
        self._days = sorted((time - self._first) / _ONE_DAY for time in times)
        self._sums = [0.0, *accumulate(self._days)]

    def count_before(self, since: datetime) -> int:
        """Return the number of tables that have begun by a time."""
        return bisect_right(self._days, (since - self._first) / _ONE_DAY)

    def days_before(self, since: datetime) -> float:
        """Return the table-time, in days, of the `LOOKBACK_TIME` before a time."""
        end, lookback = (since - self._first) / _ONE_DAY, LOOKBACK_TIME / _ONE_DAY
        full_count, begun_count = (
            bisect_left(self._days, end - lookback),
            bisect_left(self._days, end),
        )
        return (
            full_count * lookback
            + (begun_count - full_count) * end
            - (self._sums[begun_count] - self._sums[full_count])
        )


def _most_surprising(
    since: datetime, incidents: Sequence[Candidate], usual: _UsualRates
) -> IncidentGroup | None:
    """Return the group with the largest likelihood ratio, or None if all could be a coincidence."""
    members: dict[_Class, list[Candidate]] = {}
    for incident in incidents:
        for key in usual.classes_of(incident):
            members.setdefault(key, []).append(incident)
    counts = {
        key: len({incident.dataset for incident in candidates})
        for key, candidates in members.items()
    }
    counts = {key: count for key, count in counts.items() if usual.is_believable(since, key, count)}
    for key, count in list(counts.items()):
        everywhere = _Class(key.kind, ALL_TABLES)
        others = counts.get(everywhere, 0) - count
        is_most = key.scope != ALL_TABLES and key.kind not in _KINDS_OF_ARRIVAL and others <= count
        if is_most and not usual.is_widespread(since, everywhere, others):
            # The cause is in the scope of most tables. The others have it by themselves.
            counts.pop(everywhere, None)
    best: tuple[tuple[float, bool], IncidentGroup] | None = None
    for key, count in counts.items():
        expected = usual.expected(since, key)
        if (
            expected > MAX_EXPECTED_SHARE * count
            or poisson_tail(count, expected) * len(counts) > COINCIDENCE_PROBABILITY
        ):
            continue
        ratio = count * log(count / expected) - (count - expected)
        group = IncidentGroup(since, tuple(sorted(members[key], key=_severity_key)), *key, expected)
        # Of equal classes, prefer the more specific; the first has the strongest evidence.
        rank = (ratio, bool(key.kind))
        if best is None or rank > best[0]:
            best = rank, group
    return best[1] if best else None


def _severity_key(incident: Candidate) -> tuple[int, str, int]:
    return -list(Severity).index(Severity(incident.severity)), incident.dataset, incident.id


def poisson_tail(count: int, mean: float) -> float:
    """Return the probability that a Poisson variable is at least ``count``.

    Examples
    --------
    >>> f"{poisson_tail(1, 1.0):.4f}, {poisson_tail(3, 0.1):.6f}"
    '0.6321, 0.000155'
    """
    from scipy.special import pdtrc

    return float(pdtrc(count - 1, mean))


MAX_WEAK_P_VALUE = 0.1
"""A table departs weakly with a p-value of at most this much."""
_ROW_SIDES = {"fewer rows": -1, "more rows": 1}
"""Kinds of change whose weak departures are read from the scores of row counts, and their sides."""


def departs_together(p_values: Sequence[float]) -> list[int]:
    """Return the indices of p-values that are together too small for chance, of which each alone may be chance.

    For every number k of smallest p-values, the probability that so many of all are as small is computed, as in
    the test of Berk and Jones (1979), a version of the higher criticism for few tests. If the smallest of these
    probabilities is significant, as many tables are returned as have at most a quarter by chance.

    Examples
    --------
    >>> departs_together([0.01, 0.4, 0.02, 0.008, 0.03, 0.9, 0.01])
    [0, 2, 3, 4, 6]
    >>> departs_together([0.02, 0.4, 0.2, 0.08, 0.3, 0.9, 0.1])
    []
    """
    from scipy.special import bdtrc

    total = len(p_values)
    smallest = sorted(p for p in p_values if p <= MAX_WEAK_P_VALUE)
    tails = [float(bdtrc(k, total, p)) for k, p in enumerate(smallest)]
    if not tails or min(tails) * total > COINCIDENCE_PROBABILITY:
        return []
    ranked = enumerate(smallest, 1)
    limit = max(p for k, p in ranked if k == 1 or total * p <= MAX_EXPECTED_SHARE * k)
    return [index for index, p in enumerate(p_values) if p <= limit]


def _with_weak_tables(
    connection: Connection,
    group: IncidentGroup,
    tables: Mapping[str, WatchedTable],
    commit: int | None,
) -> IncidentGroup:
    """Return a group with the tables of its scope whose row counts depart in the same way at the same time."""
    side = _ROW_SIDES.get(group.kind)
    if side is None:
        return group
    from tidegauge.repository.detectors.seasonal import Seasonal  # imports NumPy and SciPy
    from tidegauge.repository.store import scorebook

    d, a, e, p, m = s.dataset.c, s.analyzer.c, s.series.c, s.partition.c, s.metric.c
    query = (
        sa.select(d.name, m.series_id, m.partition_id, m.version, m.value)
        .select_from(s.metric)
        .join(s.partition, p.id == m.partition_id)
        .join(s.series, e.id == m.series_id)
        .join(s.analyzer, a.id == e.analyzer_id)
        .join(s.dataset, d.id == a.dataset_id)
        .where(p.time == group.since, p.segment == "", e.name == "Size", a.segment == "")
        .where(a.filter.is_(None), m.value.is_not(None), s.holds(s.metric, commit))
        .where(d.name.not_in(group.datasets))
    )
    rows = {(row.partition_id, row.series_id): row for row in connection.execute(query)}
    partitions = sorted({partition for partition, _ in rows})
    points = scorebook.read(connection, 0, repr(Seasonal()), partitions, commit)
    p_by_table: dict[str, float] = {}
    for partition, series, version, score, expected in zip(
        points.partition.tolist(),
        points.series.tolist(),
        points.version.tolist(),
        points.score.tolist(),
        points.expected.tolist(),
        strict=True,
    ):
        row = rows.get((partition, series))
        if row is None or group.scope not in _scopes_of(row.name, tables[row.name]):
            continue
        if row.version == version and not isnan(score):
            # The score is of both sides.
            half = 10.0**-score / 2
            p_by_table[row.name] = half if (row.value - expected) * side > 0 else 1 - half
    names = sorted(p_by_table)
    weak = departs_together([p_by_table[name] for name in names])
    return replace(group, weak=tuple(names[index] for index in weak))


def grouped_incident_rows(
    connection: Connection,
    dataset: str | None,
    status: str | None,
    window: Window,
    as_of: AsOf = None,
) -> tuple[list[GroupedIncidentRow], dict[int, IncidentGroup]]:
    """Return incidents as `incident_rows` does, with their ``group``, and the groups by incident.

    ``group`` is the smallest id in the incident's group; None if the incident is not in a group.
    """
    rows = incident_rows(connection, dataset, status, window, as_of)
    group_by_incident = _read_groups(connection, as_of)
    grouped_rows: list[GroupedIncidentRow] = [
        {
            **row,
            "group": group_by_incident[row["id"]].id if row["id"] in group_by_incident else None,
        }
        for row in rows
    ]
    return grouped_rows, group_by_incident


_Groups = dict[int, IncidentGroup]
_cached_groups: WeakKeyDictionary[Engine, tuple[tuple[int | None, ...], _Groups]] = (
    WeakKeyDictionary()
)
"""The last computed groups with the commit and run they belong to, so that a report with a hundred
incidents computes them once."""


def _read_groups(connection: Connection, as_of: AsOf) -> _Groups:
    """Return the groups of all incidents, by incident."""
    commit = commit_as_of(connection, as_of)
    query = sa.select(
        sa.select(sa.func.max(s.commit.c.id)).scalar_subquery(),
        sa.select(sa.func.max(s.run.c.id)).scalar_subquery(),
    )
    state = (commit, *connection.execute(query).one())
    cached = _cached_groups.get(connection.engine)
    if cached is None or cached[0] != state:
        rows = incident_rows(connection, None, None, Window(), as_of)
        kinds = _read_kinds(connection, commit)
        candidates = [
            Candidate(
                row["id"],
                row["dataset"],
                row["since"],
                frozenset(kinds.get(row["id"], ())),
                row["severity"],
            )
            for row in rows
            if row["series"]  # closed incidents have no anomalies any more
        ]
        tables = _read_tables(connection)
        groups = [
            _with_weak_tables(connection, group, tables, commit)
            for group in group_by_cause(candidates, tables)
        ]
        cached = state, {incident.id: group for group in groups for incident in group.incidents}
        _cached_groups[connection.engine] = cached
    return cached[1]


def _read_kinds(connection: Connection, commit: int | None) -> dict[int, set[str]]:
    """Return the kinds of change of incidents."""
    f, n, e = s.finding.c, s.anomaly.c, s.series.c
    explanation = sa.case((e.name == "SchemaChange", f.explanation), else_="")
    query = (
        sa.select(f.incident_id, e.name, f.direction, explanation)
        .join_from(s.finding, s.anomaly, n.id == f.anomaly_id)
        .join(s.series, e.id == n.series_id)
        .where(s.holds(s.finding, commit), f.incident_id.is_not(None))
        .distinct()
    )
    kinds: dict[int, set[str]] = {}
    for incident, *anomaly in connection.execute(query):
        kinds.setdefault(incident, set()).update(kinds_of(*anomaly))
    return kinds


def _read_tables(connection: Connection) -> dict[str, WatchedTable]:
    d, p = s.dataset.c, s.partition.c
    query = (
        sa.select(d.name, sa.func.min(p.time))
        .join_from(s.dataset, s.partition, p.dataset_id == d.id)
        .where(p.time.is_not(None))
        .group_by(d.name)
    )
    tags = tags_of_datasets(connection)
    return {
        name: WatchedTable(
            since, upstreams(tags.get(name, {})), tags.get(name, {}).get(OWNER_TAG, "")
        )
        for name, since in connection.execute(query)
    }
