"""Calendar of a dataset's partitions: status, arrival, and missing or overdue partitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from math import nan
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import sqlalchemy as sa

from tidegauge.repository.detection.detect import stored_suite
from tidegauge.repository.detectors.base import History, PartitionLedger
from tidegauge.repository.detectors.inputs import (
    group_by_segment,
    local_clock,
    time_zone_of,
    times_of,
    to_datetime64,
)
from tidegauge.repository.detectors.rules import RULES
from tidegauge.repository.detectors.whole_partitions import MIN_PARTITIONS, Late, delays_of, gaps
from tidegauge.repository.incidents.listing import anomaly_rows
from tidegauge.repository.numerics.grid import MAX_GAP_CYCLES
from tidegauge.repository.store import schema as s
from tidegauge.repository.store.queries import (
    AsOf,
    MetricQuery,
    Window,
    commit_as_of,
    dataset_id,
    view_of,
)
from tidegauge.repository.store.rows import CalendarRow, LedgerRow, Severity

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from numpy.typing import NDArray
    from sqlalchemy.engine import Connection


def calendar_rows(
    connection: Connection, dataset: str, window: Window, as_of: AsOf = None
) -> list[CalendarRow]:
    """Return present and missing partitions in order of time; see `Repository.calendar`.

    Parameters
    ----------
    connection : Connection
        Open connection to the repository.
    dataset : str
        Name of the dataset.
    window : Window
        Times of the partitions.
    as_of : str, date, datetime, int, optional
        Past view of the repository (default: the current view).
    """
    commit = commit_as_of(connection, as_of)
    now = _view_time(connection, as_of, commit)
    dataset_key = dataset_id(connection, dataset)
    ledger = _ledger_rows(connection, dataset_key, commit, now)
    zone = time_zone_of(stored_suite(connection, dataset_key), ledger)
    rows: list[CalendarRow] = []
    for segment, indices in group_by_segment(ledger).items():
        rows += _segment_rows(segment, [ledger[index] for index in indices], now, zone)
    rows = [row for row in rows if window.holds(row["time"])]
    counts, worst = _anomaly_counts(connection, dataset, window, as_of)
    for row in rows:
        if (partition_key := row["id"]) is not None:
            row["anomalies"], row["worst"] = counts[partition_key], worst.get(partition_key)
    return sorted(rows, key=_row_order)


def _row_order(row: CalendarRow) -> tuple[bool, float, str, str]:
    time = row["time"]
    return time is None, time.timestamp() if time else 0.0, row["segment"], row["partition"] or ""


def _view_time(connection: Connection, as_of: AsOf, commit: int | None) -> datetime:
    """Return the time of a view: now for the current view, the earliest before the first commit."""
    if commit is None:
        return datetime.now(UTC)
    view = view_of(as_of)
    if isinstance(view, datetime):
        return view
    query = sa.select(s.commit.c.committed_at).where(s.commit.c.id == commit)
    return connection.execute(query).scalar() or datetime.min.replace(tzinfo=UTC)


def _ledger_rows(
    connection: Connection, dataset: int, commit: int | None, now: datetime
) -> list[LedgerRow]:
    """Return all partitions in order of time, with the current version of measured partitions."""
    p, v, b = s.partition.c, s.partition_version.c, s.absence.c
    versions = (v.partition_id == p.id) & s.holds(s.partition_version, commit)
    first_version = s.partition_version.alias()  # a restatement is not a late arrival
    is_first = (first_version.c.partition_id == p.id) & (first_version.c.version == 1)
    if commit is not None:
        is_first &= first_version.c.commit_id <= commit
    query = (
        sa.select(
            p.id,
            p.segment.label("within"),
            p.name.label("partition"),
            p.time,
            p.first_seen_at,
            v.version,
            v.rows,
            first_version.c.arrived_at,
            v.measured_at,
            s.commit.c.committed_at.label("gone_at"),
        )
        .select_from(s.partition)
        .outerjoin(s.partition_version, versions)
        .outerjoin(first_version, is_first)
        .outerjoin(s.absence, (b.partition_id == p.id) & s.holds(s.absence, commit))
        .outerjoin(s.commit, s.commit.c.id == b.commit_id)
        .where(p.dataset_id == dataset)
        .order_by(p.time.is_(None), p.time, p.name)
    )
    if commit is not None:
        query = query.where(p.first_seen_at <= now)
    return cast("list[LedgerRow]", [row._asdict() for row in connection.execute(query)])


def _segment_rows(
    segment: str, partitions: Sequence[LedgerRow], now: datetime, zone: ZoneInfo | None
) -> list[CalendarRow]:
    """Return the calendar rows of a partition segment, with missing partitions last."""
    times = times_of(partitions)
    arrived = np.array([to_datetime64(row["arrived_at"]) for row in partitions], dtype="M8[s]")
    ledger = PartitionLedger(
        local_clock(arrived, zone),
        np.array([row["version"] or 0 for row in partitions], dtype=np.int64),
        [{}] * len(partitions),
        now=local_clock(np.array([to_datetime64(now)]), zone)[0],
        zone=zone,
    )
    no_values = np.empty((0, len(partitions)))
    history = History(times, no_values, no_values, [], ledger=ledger)
    delays = delays_of(history)
    seconds = np.where(np.isnat(delays), np.nan, delays.astype("m8[s]").astype(np.float64))
    rows = [
        _present_row(segment, partition, float(delay), late=bool(late))
        for partition, late, delay in zip(partitions, _late_mask(history), seconds, strict=True)
    ]
    missing_times = [
        time
        for gap in gaps(history)
        if gap.partition >= MIN_PARTITIONS
        for time in gap.times(MAX_GAP_CYCLES * int(gap.rare.sum()))
    ]
    return rows + [_missing_row(segment, time) for time in missing_times]


def _late_mask(history: History) -> NDArray[np.bool_]:
    """Return a mask of the partitions that `Late` reports with its default rule."""
    detector = Late()
    rule = RULES.parse(detector.rule)
    mask: NDArray[np.bool_] = rule.decide(
        detector.measure(history)[None, :], detector.score(history)
    )[0]
    return mask


def _present_row(segment: str, partition: LedgerRow, delay: float, *, late: bool) -> CalendarRow:
    version = partition["version"]
    restated = version is not None and version > 1
    tests = {
        "gone": partition["gone_at"] is not None,
        "unmeasured": version is None,
        "restated": restated,
        "late": late,
    }
    status = next((name for name, holds in tests.items() if holds), "measured")
    return _calendar_row(
        segment, partition, status=status, late=late, restated=restated, delay=delay
    )


def _missing_row(segment: str, time: np.datetime64) -> CalendarRow:
    moment = time.astype("M8[s]").item().replace(tzinfo=UTC)
    return _calendar_row(segment, {"time": moment}, status="missing")


def _calendar_row(
    segment: str,
    partition: Mapping[str, Any],
    *,
    status: str,
    late: bool = False,
    restated: bool = False,
    delay: float = nan,
) -> CalendarRow:
    """Return a row without anomalies; unknown properties of the partition are None."""
    return {
        "id": partition.get("id"),
        "segment": segment,
        "partition": partition.get("partition"),
        "time": partition["time"],
        "status": status,
        "late": late,
        "restated": restated,
        "version": partition.get("version"),
        "rows": partition.get("rows"),
        "first_seen_at": partition.get("first_seen_at"),
        "arrived_at": partition.get("arrived_at"),
        "measured_at": partition.get("measured_at"),
        "gone_at": partition.get("gone_at"),
        "delay": delay,
        "anomalies": 0,
        "worst": None,
    }


def _anomaly_counts(
    connection: Connection, dataset: str, window: Window, as_of: AsOf
) -> tuple[Counter[int], dict[int, str]]:
    """Return the number of anomalies of each partition, and their highest severity."""
    order = list(Severity)
    counts: Counter[int] = Counter()
    worst: dict[int, str] = {}
    for row in anomaly_rows(connection, dataset, None, MetricQuery(window=window), as_of):
        partition_key = row["partition_id"]
        counts[partition_key] += 1
        severities = (worst.get(partition_key, row["severity"]), row["severity"])
        worst[partition_key] = max(severities, key=lambda severity: order.index(Severity(severity)))
    return counts, worst
