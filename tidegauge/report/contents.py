"""Read the contents of a report from a repository."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidegauge.analyzers.core.errors import TidegaugeError
from tidegauge.repository.history.axes import seconds_of
from tidegauge.repository.history.panels import PlotLine
from tidegauge.repository.incidents.common_cause import grouped_incident_rows
from tidegauge.repository.store.config import dashboard_url
from tidegauge.repository.store.frames import records
from tidegauge.repository.store.queries import Window
from tidegauge.repository.store.rows import GroupedIncidentRow, Record
from tidegauge.rules.outcome.judging import standing_failures

if TYPE_CHECKING:
    import pandas as pd

    from tidegauge.repository.incidents.details import IncidentDetails
    from tidegauge.repository.repository import Repository
    from tidegauge.repository.store.queries import Moment

INCIDENTS = 10
"""Maximum number of open incidents of a dataset in full."""
GROUPS = 10
"""Maximum number of groups of incidents across tables; those of others stand with their tables."""
CHARTS = 3
"""Maximum number of series of an incident to plot."""
BEFORE, AFTER = 60, 10
"""Partitions before and after an incident to plot."""
LATELY = 90
"""Partitions in a series' sparkline."""
VERDICTS = 20
"""Maximum number of failed verdicts of a dataset to list."""
_SERIES = ("segment", "name", "instance", "analyzer")


@dataclass(frozen=True)
class ReportEvidence:
    """An open incident, and the plots of its top series."""

    details: IncidentDetails
    lines: Sequence[PlotLine]
    timed: bool


@dataclass(frozen=True)
class ReportGroup:
    """Open incidents of several tables that share a cause.

    Attributes
    ----------
    headline : str
    incidents : sequence of mapping
        As in `Repository.incidents`, the worst first.
    evidence : ReportEvidence
        The first of them.
    """

    headline: str
    incidents: Sequence[Record]
    evidence: ReportEvidence


@dataclass(frozen=True)
class ReportSeries:
    """A series at its newest partition.

    Attributes
    ----------
    about : mapping
        As in `Repository.latest`.
    values : sequence of float
        Recent values, NaN where there is none.
    marks : sequence of int
        Indices of anomalies in ``values``.
    expected : float or None
        None if no detector gives a value.
    open : int
        Number of open anomalies.
    anomaly : mapping or None
        The anomaly of its newest value, open or settled, as in `Repository.anomalies`.
    """

    about: Record
    values: Sequence[float]
    marks: Sequence[int]
    expected: float | None
    open: int
    anomaly: Record | None = None


@dataclass(frozen=True)
class Contents:
    """The contents of a report on one dataset.

    Attributes
    ----------
    row : mapping
        As in `Repository.overview`.
    evidence : sequence of ReportEvidence
        The worst open incidents, without those that are reported in a group.
    incidents : sequence of mapping
        All in the window, as in `Repository.incidents`.
    grouped : sequence of mapping
        The open ones that are reported in a group.
    partitions, runs : sequence of mapping
        As in `Repository.partitions` and `Repository.runs`.
    series : sequence of ReportSeries
        The worst first.
    rows : PlotLine or None
        Row counts of partitions; None if they have no time.
    verdicts : sequence of mapping
        Verdicts of rules and checks by which the current data fails, as in `Repository.verdicts`.
    url : str or None
        Address of the dashboard; None if it is not set.
    """

    row: Record
    evidence: Sequence[ReportEvidence]
    incidents: Sequence[Record]
    partitions: Sequence[Record]
    series: Sequence[ReportSeries]
    rows: PlotLine | None
    runs: Sequence[Record]
    verdicts: Sequence[Record]
    url: str | None = None
    grouped: Sequence[Record] = ()


def groups_of(repository: Repository, since: Moment = None) -> list[ReportGroup]:
    """Read the open incidents of several tables that share a cause, the newest `GROUPS` first.

    Parameters
    ----------
    repository : Repository
    since
        As for `contents_of`.
    """
    with repository.database.read() as connection:
        window = Window.between(since, None)
        rows, groups = grouped_incident_rows(connection, None, "open", window)
    members: dict[int, list[GroupedIncidentRow]] = {}
    for row in rows:
        if row["group"] is not None:
            members.setdefault(row["group"], []).append(row)
    found = []
    across = [some for some in members.values() if len({row["dataset"] for row in some}) > 1]
    for some in across[:GROUPS]:
        worst = _worst(some)
        ledger = repository.partitions(worst[0]["dataset"])
        evidence = _evidence(repository, worst[0]["id"], ledger)
        found.append(ReportGroup(groups[worst[0]["id"]].headline, worst, evidence))
    return found


def failed_verdicts(repository: Repository, dataset: str, since: Moment = None) -> list[Record]:
    """Read the verdicts of rules and checks by which a dataset's current data fails, the newest first.

    Parameters
    ----------
    repository : Repository
    dataset : str
    since
        Only those on partitions of this time or later.
    """
    window = Window.between(since, None)
    return [one for one in standing_failures(repository, dataset) if window.holds(one["time"])]


def contents_of(
    repository: Repository,
    row: Record,
    since: Moment = None,
    *,
    most: int = 200,
    grouped: Collection[int] = (),
) -> Contents:
    """Read the contents of a report on one dataset.

    Parameters
    ----------
    repository : Repository
    row : mapping
        As in `Repository.overview`.
    since
        Only incidents that last until this partition time or later, and partitions from then on.
    most : int
        Maximum number of series.
    grouped : collection of int
        Incidents that are reported in a group.
    """
    dataset = str(row["dataset"])
    ledger = repository.partitions(dataset)
    incidents = records(repository.incidents(dataset, since=since))
    still = [one for one in incidents if one["status"] == "open"]
    alone = [one for one in still if one["id"] not in grouped]
    return Contents(
        row=row,
        evidence=[_evidence(repository, one["id"], ledger) for one in _worst(alone)[:INCIDENTS]],
        incidents=incidents,
        partitions=records(_from(ledger, since)),
        series=_series(repository, dataset, ledger, most),
        rows=_row_counts(_from(ledger, since)),
        runs=records(repository.runs(dataset)),
        verdicts=failed_verdicts(repository, dataset, since),
        url=dashboard_url(),
        grouped=[one for one in still if one["id"] in grouped],
    )


def _worst(incidents: Sequence[Record]) -> list[Record]:
    order = ("error", "warning", "info")
    return sorted(incidents, key=lambda one: order.index(one["severity"]))


def _from(ledger: pd.DataFrame, since: Moment) -> pd.DataFrame:
    start = Window.between(since, None).since
    return ledger if start is None else ledger[ledger["time"] >= start]


def _evidence(repository: Repository, incident: int, ledger: pd.DataFrame) -> ReportEvidence:
    details = repository.incident(incident)
    window = _around(ledger, str(details.row["first"]), str(details.row["last"]))
    lines: list[PlotLine] = []
    timed = True
    for first in details.firsts.sort_values("score", ascending=False, kind="stable").to_dict(
        "records"
    ):
        if len(lines) == CHARTS:
            break
        asked = {name: first[name] for name in _SERIES}
        try:
            plot = repository.plot(details.dataset, **asked, **window)
        except TidegaugeError:  # a partition-level series, or an analyzer that is not installed
            continue
        lines += plot.lines
        timed = plot.timed
    return ReportEvidence(details, lines, timed)


def _around(ledger: pd.DataFrame, first: str, last: str) -> dict[str, Any]:
    """Return an incident's time window, with some partitions before and after; empty without times."""
    places = {name: place for place, name in enumerate(ledger["partition"])}
    times = ledger["time"]
    if first not in places or last not in places or bool(times.isna().any()):
        return {}
    ends = (
        times.iloc[max(places[first] - BEFORE, 0)],
        times.iloc[min(places[last] + AFTER, len(times) - 1)],
    )
    return {"since": ends[0].to_pydatetime(), "until": ends[1].to_pydatetime()}


def _row_counts(ledger: pd.DataFrame) -> PlotLine | None:
    there = ledger[ledger["gone_at"].isna() & ledger["time"].notna()]
    if there.empty:
        return None
    rows = there.astype({"rows": "float64"}).groupby("time")["rows"].sum(min_count=1)
    xs = [seconds_of(time.to_pydatetime()) for time in rows.index]
    return PlotLine("Rows of each partition", xs, rows.tolist())


def _series(
    repository: Repository, dataset: str, ledger: pd.DataFrame, most: int
) -> list[ReportSeries]:
    newest = records(repository.latest(dataset))
    found = repository.anomalies(dataset)
    still = found[found["status"] == "open"].groupby(list(_SERIES))["score"].agg(["size", "max"])
    told = {key: (int(n), float(score)) for key, n, score in still.itertuples(name=None)}
    times = ledger["time"].dropna()
    scored = repository.scores(
        dataset, since=None if times.empty else times.iloc[-1].to_pydatetime()
    )
    usual = {_key(row): row for row in reversed(records(scored))}  # the first detector's wins
    out: dict[tuple[Any, ...], Record] = {}
    # If a point has several anomalies, an open one comes first, then the highest score.
    for anomaly in sorted(records(found), key=lambda one: one["status"] != "open"):
        out.setdefault((*_key(anomaly), anomaly["partition"]), anomaly)

    def current(row: Record) -> Record | None:
        return out.get((*_key(row), row["partition"]))

    def badness(row: Record) -> tuple[float, ...]:
        anomaly = current(row) or {"status": None}
        number, score = told.get(_key(row), (0, 0.0))
        last = usual.get(_key(row), {}).get("score") or 0.0
        return (
            anomaly["status"] != "open",
            -score if number else 0.0,
            anomaly["status"] is None,
            row["status"] != "failed",
            -last,
        )

    kept = sorted(newest, key=badness)[:most]
    past = _past(repository, dataset, times, kept)
    return [
        ReportSeries(
            about=row,
            values=[value for _, value in past.get(_key(row), [])],
            marks=[
                n
                for n, (name, _) in enumerate(past.get(_key(row), []))
                if (*_key(row), name) in out
            ],
            expected=usual.get(_key(row), {}).get("expected"),
            open=told.get(_key(row), (0, 0.0))[0],
            anomaly=current(row),
        )
        for row in kept
    ]


def _past(
    repository: Repository, dataset: str, times: pd.Series[Any], kept: Sequence[Record]
) -> dict[tuple[Any, ...], list[tuple[str, float]]]:
    """Return the recent values of some series, with their partitions."""
    since = None if times.empty else times.iloc[-min(LATELY, len(times))].to_pydatetime()
    names = sorted({row["name"] for row in kept})
    frame = repository.metrics(dataset, name=names, since=since)
    found: dict[tuple[Any, ...], list[tuple[str, float]]] = {_key(row): [] for row in kept}
    columns = [*_SERIES, "partition", "value"]
    for *key, partition, value in frame[columns].itertuples(index=False, name=None):
        if tuple(key) in found:
            found[tuple(key)].append((partition, value))
    return found


def _key(row: Record) -> tuple[Any, ...]:
    return tuple(row[name] for name in _SERIES)
