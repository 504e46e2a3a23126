"""Reading: metrics and states as they are, or as they were known at some moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from operator import index
from typing import TYPE_CHECKING, Any, SupportsIndex

import sqlalchemy as sa

from analyzers.analyzer import Analyzer
from analyzers.catalogue import ANALYZERS
from analyzers.description import key_of
from analyzers.errors import HistoryError, UnknownDatasetError, nearest
from repository import schema as s
from repository.artifacts import Payload
from repository.recorded import RECORDED, Recorded

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

AnyAnalyzer = Analyzer[Any, Any]
Moment = str | date | datetime | None
AsOf = datetime | int | None


@dataclass(frozen=True)
class Window:
    """Partitions by their time, both ends included; None is open.

    A window with an end leaves out partitions without a time.
    """

    since: datetime | None = None
    until: datetime | None = None

    @classmethod
    def of(cls, since: Moment, until: Moment) -> Window:
        """Make one of what users write; a date as ``until`` covers its whole day.

        Examples
        --------
        >>> print(Window.of(None, "2013-02-08").until)
        2013-02-08 23:59:59.999999+00:00
        """
        return cls(_moment(since, "since", end=False), _moment(until, "until", end=True))

    def holds(self, time: datetime | None) -> bool:
        """Whether a time lies in it."""
        if time is None:
            return self == Window()
        after = self.since is None or time >= self.since
        return after and (self.until is None or time <= self.until)

    def condition(self) -> sa.ColumnElement[bool]:
        """Return the condition on ``partition.time``."""
        tests: list[sa.ColumnElement[bool]] = [sa.true()]
        if self.since is not None:
            tests.append(s.partition.c.time >= self.since)
        if self.until is not None:
            tests.append(s.partition.c.time <= self.until)
        return sa.and_(*tests)


def _moment(value: Moment, name: str, *, end: bool) -> datetime | None:
    if value is None:
        return None
    whole_day = isinstance(value, date) and not isinstance(value, datetime)
    if isinstance(value, str):
        whole_day = len(value.strip()) <= len("2013-02-08")
        try:
            value = datetime.fromisoformat(value.strip())
        except ValueError as error:
            msg = f"{name}={value!r} is not a time; write it as 2013-02-08 or 2013-02-08T07:00"
            raise HistoryError(msg) from error
    elif not isinstance(value, datetime):
        value = datetime.combine(value, time())
    value = value.replace(tzinfo=UTC) if value.tzinfo is None else value
    return value + timedelta(days=1, microseconds=-1) if end and whole_day else value


def dataset_id(connection: Connection, name: str) -> int:
    """Return a dataset's id.

    Raises
    ------
    UnknownDatasetError
    """
    d = s.dataset.c
    found = connection.execute(sa.select(d.id).where(d.name == name)).scalar_one_or_none()
    if found is None:
        raise UnknownDatasetError(name, connection.execute(sa.select(d.name)).scalars())
    return int(found)


def partition_id(connection: Connection, dataset: str, name: str) -> int:
    """Return a partition's id.

    Raises
    ------
    HistoryError
        If there is no such partition, with the nearest that there is.
    """
    p = s.partition.c
    of = p.dataset_id == dataset_id(connection, dataset)
    query = sa.select(p.id).where(of, p.key == key_of(name))
    found = connection.execute(query).scalar_one_or_none()
    if found is None:
        there = connection.execute(sa.select(p.name).where(of)).scalars()
        close = nearest(name, there)
        hint = f"; did you mean {close!r}?" if close else ""
        msg = f"{dataset!r} has no partition {name!r}{hint}"
        raise HistoryError(msg)
    return int(found)


def commit_as_of(connection: Connection, as_of: AsOf) -> int | None:
    """Return the last commit that belongs to a view; None for the view of now.

    Raises
    ------
    HistoryError
        If there is no such run, what was given is neither a time nor a run, or the view is of a past
        that was cleaned away.
    """
    if as_of is None:
        return None
    if isinstance(as_of, datetime):
        moment = as_of.replace(tzinfo=UTC) if as_of.tzinfo is None else as_of
        found = _last_commit(connection, s.commit.c.committed_at <= moment)
    elif isinstance(as_of, bool) or not isinstance(as_of, SupportsIndex):
        msg = f"as_of={as_of!r} is neither a datetime nor the id of a run"
        raise HistoryError(msg)
    else:
        found = _last_of_run(connection, index(as_of))
    horizon = connection.execute(sa.select(s.clock.c.horizon)).scalar() or 0
    if found < horizon:
        query = sa.select(s.commit.c.committed_at).where(s.commit.c.id == horizon)
        since = connection.execute(query).scalar()
        msg = (
            f"as_of={as_of!s} lies before the horizon {since:%Y-%m-%dT%H:%M:%S.%fZ}: what was known"
            " then was cleaned away; ask for that time or later"
        )
        raise HistoryError(msg)
    return found


def _last_commit(connection: Connection, condition: sa.ColumnElement[bool]) -> int:
    query = sa.select(sa.func.max(s.commit.c.id)).where(condition)
    return connection.execute(query).scalar() or 0


def _last_of_run(connection: Connection, run: int) -> int:
    r = s.run.c
    started = connection.execute(sa.select(r.started_at).where(r.id == run)).scalar()
    if started is None:
        msg = f"as_of={run}: there is no such run"
        raise HistoryError(msg)
    # A run that committed nothing is known by what was there when it began.
    own = _last_commit(connection, s.commit.c.run_id == run)
    return own or _last_commit(connection, s.commit.c.committed_at <= started)


@dataclass(frozen=True)
class MetricQuery:
    """Which metrics of a dataset to return; None is any.

    Attributes
    ----------
    name : str or sequence of str, optional
        The metric's name, or its analyzer's for all that it flattens to.
    instance, segment, where : str, optional
        An empty ``where`` is: without filter.
    analyzer : Analyzer or str, optional
    window : Window
    tags : mapping, optional
        The measuring run has at least these.
    series : sequence of int, optional
        Only these, by id.
    """

    name: str | Sequence[str] | None = None
    instance: str | None = None
    segment: str | None = None
    where: str | None = None
    analyzer: AnyAnalyzer | str | None = None
    window: Window = Window()
    tags: Mapping[str, str] | None = None
    series: Sequence[int] | None = None

    @property
    def selects_series(self) -> bool:
        """Whether some series are asked for, and not all."""
        asked = (self.name, self.instance, self.segment, self.where, self.analyzer, self.series)
        return any(value is not None for value in asked)

    def series_condition(self) -> sa.ColumnElement[bool]:
        """Return the condition on series and analyzer."""
        a, e = s.analyzer.c, s.series.c
        tests: list[sa.ColumnElement[bool]] = [sa.true()]
        if self.name is not None:
            names = [self.name] if isinstance(self.name, str) else list(self.name)
            tests.append(e.name.in_(names) | a.kind.in_(names))
        if self.instance is not None:
            tests.append(e.instance == self.instance)
        if self.segment is not None:
            tests.append(a.segment == self.segment)
        if self.where is not None:
            tests.append(
                a.filter == self.where.strip() if self.where.strip() else a.filter.is_(None)
            )
        if self.analyzer is not None:
            tests.append(a.key == key_of(canonical_of(self.analyzer)))
        if self.series is not None:
            tests.append(e.id.in_(self.series))
        return sa.and_(*tests)


def as_analyzer(analyzer: AnyAnalyzer | str) -> AnyAnalyzer:
    """Return an analyzer, read from its text if need be."""
    return ANALYZERS.parse(analyzer) if isinstance(analyzer, str) else analyzer


def canonical_of(analyzer: AnyAnalyzer | Recorded | str) -> str:
    """Return the canonical text of an analyzer, or of what was recorded in the place of one."""
    if isinstance(analyzer, str):
        recorded = analyzer.strip().startswith(f"{Recorded.__name__}(")
        analyzer = RECORDED.parse(analyzer) if recorded else ANALYZERS.parse(analyzer)
    return analyzer.canonical()


METRIC_COLUMNS = (
    "dataset",
    "segment",
    "partition",
    "time",
    "entity",
    "name",
    "instance",
    "value",
    "weight",
    "status",
    "error",
    "version",
    "run_id",
    "analyzed_at",
    "analyzer",
)


def current_versions(commit: int | None) -> sa.Subquery:
    """Return each partition's version as of a commit, or now."""
    v = s.partition_version
    query = sa.select(v.c.partition_id, v.c.version).where(s.holds(v, commit))
    return query.subquery()


def _statistics_of(dataset: int, analyzer: AnyAnalyzer) -> sa.ColumnElement[bool]:
    t = s.statistic.c
    return (t.dataset_id == dataset) & (t.key == key_of(analyzer.statistic()))


def is_measured(connection: Connection, dataset: str, analyzer: AnyAnalyzer) -> bool:
    """Return whether the analyzer, or one that shares its state, was ever measured on a dataset."""
    own = _statistics_of(dataset_id(connection, dataset), analyzer)
    return connection.execute(sa.select(s.statistic.c.id).where(own)).first() is not None


def require_measured(connection: Connection, dataset: str, analyzer: AnyAnalyzer) -> None:
    """Raise a `HistoryError` if no state answers for the analyzer, naming those that there are."""
    if not is_measured(connection, dataset, analyzer):
        of = dataset_id(connection, dataset)
        texts = sa.select(s.analyzer.c.text).where(s.analyzer.c.dataset_id == of).distinct()
        there = ", ".join(sorted(connection.execute(texts).scalars()))
        msg = f"{analyzer!r} was never measured on {dataset!r}; there are: {there}"
        raise HistoryError(msg)


@dataclass(frozen=True)
class StoredState:
    """Where the state of one partition lies, if it has one; in the segment that was asked for."""

    partition: str
    time: datetime | None
    payload: Payload | None
    segment: str = ""


def stored_states(
    connection: Connection,
    dataset: str,
    analyzer: AnyAnalyzer,
    window: Window,
    segment: str | None = None,
    as_of: AsOf = None,
) -> list[StoredState]:
    """Return, for each partition of a window, where the analyzer's state lies.

    Parameters
    ----------
    segment : str, optional
        Only this segment; all that partition keys make, which together are the whole, if not given.
    """
    of = dataset_id(connection, dataset)
    commit = commit_as_of(connection, as_of)
    t, p = s.state.c, s.partition.c
    own = _statistics_of(of, analyzer)
    current = current_versions(commit)
    of_state = (t.partition_id == p.id) & (t.version == current.c.version)
    if commit is not None:
        of_state &= t.commit_id <= commit
    wanted = p.segment if segment is None else sa.literal(segment)
    of_segment = of_state & (s.statistic.c.segment == wanted)
    query = (
        sa.select(p.name, p.time, wanted, t.tag, t.payload, t.artifact, t.checksum)
        .select_from(s.partition)
        .join(current, current.c.partition_id == p.id)
        .outerjoin(
            s.state.join(s.statistic, (s.statistic.c.id == t.statistic_id) & own), of_segment
        )
        .where(p.dataset_id == of, window.condition())
        .order_by(p.time.is_(None), p.time, p.name)
    )
    if segment is not None:
        # The values of columns are segments within those that the partition keys make.
        start = sa.func.substr(sa.literal(segment), 1, sa.func.length(p.segment) + 1)
        inside = start == p.segment + "/"
        query = query.where((p.segment == "") | (p.segment == segment) | inside)
    rows = connection.execute(query).all()
    return [
        StoredState(name, time, None if stored[0] is None else Payload(*stored), own)
        for name, time, own, *stored in rows
    ]
