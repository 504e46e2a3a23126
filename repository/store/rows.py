"""Rows that queries return: series, partitions and commits, anomalies and incidents, their counts and health.

`LabelEffect` is a label's effect on training data.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from math import inf, nan
from typing import Annotated, Any, TypedDict

from tidegauge.repository.store.frames import Kind

STATUS_VALUES = {"NaN": nan, "+inf": inf, "-inf": -inf}
"""Values that are not finite numbers, by status."""


class Severity(StrEnum):
    """Severity of an anomaly."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def number_of(value: float | None, status: str) -> float:
    """Return a stored value as a number; NaN where there is none.

    Examples
    --------
    >>> number_of(None, "+inf"), number_of(None, "failed")
    (inf, nan)
    """
    return STATUS_VALUES.get(status, nan) if value is None else value


class SeriesIdentity(TypedDict):
    """The fields that identify a series within its dataset."""

    segment: str
    name: str
    instance: str
    analyzer: str
    """The analyzer's repr, which can be parsed."""
    kind: str
    """The analyzer's name."""
    filter: str | None


class SeriesRow(SeriesIdentity):
    """A series: one flattened metric of one analyzer in one segment."""

    id: int
    entity: str
    scale: str
    key: str
    """Hash of the analyzer's canonical JSON."""


class ListedSeriesRow(SeriesRow):
    """A series as `Repository.series` lists it."""

    where: str
    """The row filter; empty without one."""


def series_key(row: SeriesIdentity) -> tuple[str, str, str, str]:
    """Return the key of a series within its dataset: segment, name, instance, analyzer."""
    return row["segment"], row["name"], row["instance"], row["analyzer"]


class PartitionRow(TypedDict):
    """A partition, with the segment that its non-time keys form."""

    id: int
    partition: str
    time: datetime | None
    within: str


class SelectablePartitionRow(PartitionRow):
    """A partition with the values of its keys, for selection by key."""

    key_values: str
    """A JSON list."""


class CommitRow(TypedDict):
    """A commit, with its run and time."""

    id: int
    run_id: int | None
    analyzed_at: datetime


class ScoreRow(TypedDict):
    """The score of a point by one detector."""

    dataset: str
    segment: str
    partition: str
    time: datetime | None
    name: str
    instance: str
    analyzer: str
    detector: str
    score: float
    p_value: float
    expected: float
    lower: float
    upper: float
    reason: str
    version: int


class AnomalyRow(TypedDict):
    """An anomaly with its status. It also has the fields of a `SeriesIdentity`."""

    id: int
    dataset: str
    segment: str
    partition: str
    time: datetime | None
    name: str
    instance: str
    analyzer: str
    value: float | None
    expected: float | None
    lower: float | None
    upper: float | None
    direction: str
    score: float
    p_value: float | None
    detector: str
    severity: str
    status: str
    incident_id: int | None
    version: int
    explanation: str
    detected_at: datetime
    kind: Annotated[str, Kind.HIDDEN]
    filter: Annotated[str | None, Kind.HIDDEN]
    series_id: Annotated[int, Kind.HIDDEN]
    partition_id: Annotated[int, Kind.HIDDEN]


class IncidentRow(TypedDict):
    """An incident: related anomalies of a dataset, with its status."""

    id: int
    dataset: str
    headline: str
    severity: str
    first: str
    last: str
    series: int
    status: str
    updated_at: datetime
    since: Annotated[datetime | None, Kind.HIDDEN]
    until: Annotated[datetime | None, Kind.HIDDEN]
    opened_at: Annotated[datetime, Kind.HIDDEN]


class GroupedIncidentRow(IncidentRow):
    """An incident, with the group of several tables that share its cause."""

    group: int | None


class LedgerRow(TypedDict):
    """A partition with its current version, None where it is not measured."""

    id: int
    within: str
    partition: str
    time: datetime | None
    version: int | None
    rows: int | None
    first_seen_at: datetime
    arrived_at: datetime | None
    measured_at: datetime | None
    gone_at: datetime | None


class CalendarRow(TypedDict):
    """An existing or missing partition, as the calendar shows it."""

    id: Annotated[int | None, Kind.HIDDEN]
    segment: str
    partition: str | None
    time: datetime | None
    status: str
    late: bool
    restated: bool
    version: int | None
    rows: int | None
    first_seen_at: datetime | None
    arrived_at: datetime | None
    measured_at: datetime | None
    gone_at: datetime | None
    delay: float
    anomalies: int
    worst: str | None


class OverviewRow(TypedDict):
    """Counts of a dataset: partitions, series, incidents, failures."""

    dataset: str
    partitions: int
    newest: str | None
    time: datetime | None
    measured_at: datetime | None
    series: int
    rows: int | None
    errors: int
    warnings: int
    infos: int
    missing: int
    late: int
    run_id: int | None
    status: str | None
    started_at: datetime | None
    failed: int
    failing: int
    failing_known: int


class TableRow(TypedDict):
    """Health of a dataset."""

    dataset: str
    health: str
    errors: int
    warnings: int
    infos: int
    snoozed: int
    failed: int
    failing: int
    failing_known: int
    newest: str | None
    time: datetime | None
    previous: datetime | None
    arrived_at: datetime | None
    rows: Annotated[int | None, Kind.NUMBER]
    size: float | None
    size_series: int | None
    completeness: float | None
    lowest: float | None
    run_id: int | None
    run_status: str | None
    run_started_at: datetime | None
    owner: str | None
    tags: str | None


class RateRow(TypedDict):
    """Alarms of a detector, and their labels."""

    detector: str
    anomalies: int
    labelled: int
    real: int
    false: int
    false_share: float
    points: int
    per_1000: float


class CountRow(TypedDict):
    """Number of anomalies of a metric in a time window."""

    start: datetime | None
    end: datetime | None
    name: str
    instance: str
    anomalies: int
    series: int
    partitions: int
    incidents: int


class PlotRow(TypedDict):
    """A point of a plotted series, with its band and its strongest anomaly."""

    partition: str
    time: datetime | None
    value: float
    status: str
    detector: str | None
    expected: float
    lower: float
    upper: float
    score: float
    direction: str | None
    severity: str | None
    anomaly_status: str | None
    explanation: str | None
    label: str | None


class BacktestRow(TypedDict):
    """Backtest of a monitor: its anomalies and incidents, compared with labels."""

    detector: str
    rule: str
    series: int
    points: int
    anomalies: int
    per_1000: float
    incidents: int
    found: int
    missed: int
    false: int
    false_share: float
    precision: float
    recall: float
    seconds: float
    per_month: float | None


class BacktestDetailRow(TypedDict):
    """An anomaly of a backtest, with the judgment of its label."""

    detector: str
    rule: str
    segment: str
    partition: str
    time: datetime | None
    name: str
    instance: str
    analyzer: str
    value: float
    expected: float | None
    lower: float | None
    upper: float | None
    direction: str
    score: float
    p_value: float
    severity: str
    incident: int
    said: str | None
    explanation: str


class SensitivityRow(TypedDict):
    """Backtest of a monitor at one sensitivity."""

    sensitivity: str
    per_month: float | None
    found: int
    missed: int
    false: int
    precision: float
    recall: float
    f1: float
    suggested: bool


Record = Mapping[str, Any]
"""A row of a result frame, with None for missing values; `records` converts any frame."""


def fields_of(row: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return the named fields of a row.

    Examples
    --------
    >>> fields_of({"id": 1, "name": "Size", "segment": ""}, ["id", "name"])
    {'id': 1, 'name': 'Size'}
    """
    return {name: row[name] for name in names}


@dataclass(frozen=True)
class LabelEffect:
    """One label and the points that it applies to.

    Attributes
    ----------
    label : str
    points : set of (int, int), optional
        Ids of series and partition; if not given, the selectors and the range apply.
    name, instance, segment : str, optional
    since, until : datetime, optional
        Both inclusive.
    commit : int
        The commit that added the label.
    subject : pair of str and int, optional
        ``anomaly``, ``incident`` or ``range``, and its id.
    """

    label: str
    points: frozenset[tuple[int, int]] | None = None
    name: str | None = None
    instance: str | None = None
    segment: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    commit: int = 0
    subject: tuple[str, int] | None = None

    def applies_to(self, series: SeriesRow | AnomalyRow) -> bool:
        """Return whether the label applies to a series."""
        if self.points is not None:
            return any(series["id"] == number for number, _ in self.points)
        has_name = self.name is None or self.name in {series["name"], series["kind"]}
        pairs = ((self.instance, series["instance"]), (self.segment, series["segment"]))
        return has_name and all(
            required is None or required == actual for required, actual in pairs
        )

    def covers(self, partition: PartitionRow | AnomalyRow) -> bool:
        """Return whether the label applies to a partition."""
        if self.points is not None:
            return any(partition["id"] == number for _, number in self.points)
        time = partition["time"]
        if time is None:
            return self.since is None and self.until is None
        late = self.since is None or time >= self.since
        return late and (self.until is None or time <= self.until)
