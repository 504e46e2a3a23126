"""Calendar of a dataset's partitions: status, arrival, and missing or overdue partitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from math import nan
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import sqlalchemy as sa

from tidegauge.repository.detectors.base import History, PartitionLedger
from tidegauge.repository.detectors.inputs import group_by_segment, times_of, to_datetime64
from tidegauge.repository.detectors.rules import RULES
from tidegauge.repository.detectors.whole_partitions import MIN_PARTITIONS, Late, delays_of, gaps
from tidegauge.repository.incidents.listing import anomaly_rows
from tidegauge.repository.numerics.grid import CYCLES
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
    from numpy.typing import NDArray
    from sqlalchemy.engine import Connection


def calendar_rows(
    connection: Connection, dataset: str, window: Window, as_of: AsOf = None
) -> list[CalendarRow]:
    """Return present and missing partitions in order of time; see `Repository.calendar`."""
    commit = commit_as_of(connection, as_of)
    now = _moment(connection, as_of, commit)
    known = _known(connection, dataset_id(connection, dataset), commit, now)
    rows: list[CalendarRow] = []
    for within, places in group_by_segment(known).items():
        rows += _of_segment(within, [known[place] for place in places], now)
    rows = [row for row in rows if window.holds(row["time"])]
    counts, worst = _found(connection, dataset, window, as_of)
    for row in rows:
        if (of := row["id"]) is not None:
            row["anomalies"], row["worst"] = counts[of], worst.get(of)
    return sorted(rows, key=_order)


def _order(row: CalendarRow) -> tuple[bool, float, str, str]:
    time = row["time"]
    return time is None, time.timestamp() if time else 0.0, row["segment"], row["partition"] or ""


def _moment(connection: Connection, as_of: AsOf, commit: int | None) -> datetime:
    """Return the time of a view: now without ``as_of``, the earliest before the first commit."""
    if commit is None:
        return datetime.now(UTC)
    view = view_of(as_of)
    if isinstance(view, datetime):
        return view
    query = sa.select(s.commit.c.committed_at).where(s.commit.c.id == commit)
    return connection.execute(query).scalar() or datetime.min.replace(tzinfo=UTC)


def _known(
    connection: Connection, dataset: int, commit: int | None, now: datetime
) -> list[LedgerRow]:
    """Return all partitions in order of time, with their current version if measured."""
    p, v, b = s.partition.c, s.partition_version.c, s.absence.c
    versions = (v.partition_id == p.id) & s.holds(s.partition_version, commit)
    first = s.partition_version.alias()  # one that is restated is not late
    came = (first.c.partition_id == p.id) & (first.c.version == 1)
    if commit is not None:
        came &= first.c.commit_id <= commit
    query = (
        sa.select(
            p.id,
            p.segment.label("within"),
            p.name.label("partition"),
            p.time,
            p.first_seen_at,
            v.version,
            v.rows,
            first.c.arrived_at,
            v.measured_at,
            s.commit.c.committed_at.label("gone_at"),
        )
        .select_from(s.partition)
        .outerjoin(s.partition_version, versions)
        .outerjoin(first, came)
        .outerjoin(s.absence, (b.partition_id == p.id) & s.holds(s.absence, commit))
        .outerjoin(s.commit, s.commit.c.id == b.commit_id)
        .where(p.dataset_id == dataset)
        .order_by(p.time.is_(None), p.time, p.name)
    )
    if commit is not None:
        query = query.where(p.first_seen_at <= now)
    return cast("list[LedgerRow]", [row._asdict() for row in connection.execute(query)])


def _of_segment(within: str, some: Sequence[LedgerRow], now: datetime) -> list[CalendarRow]:
    """Return the calendar rows of one segment of partitions, the missing ones last."""
    times = times_of(some)
    ledger = PartitionLedger(
        np.array([to_datetime64(row["arrived_at"]) for row in some], dtype="M8[s]"),
        np.array([row["version"] or 0 for row in some], dtype=np.int64),
        [{}] * len(some),
        now=to_datetime64(now),
    )
    nothing = np.empty((0, len(some)))
    history = History(times, nothing, nothing, [], ledger=ledger)
    delays = delays_of(history)
    seconds = np.where(np.isnat(delays), np.nan, delays.astype("m8[s]").astype(np.float64))
    rows = [
        _row(within, partition, float(delay), late=bool(late))
        for partition, late, delay in zip(some, _late(history), seconds, strict=True)
    ]
    missed = [
        time
        for gap in gaps(history)
        if gap.place >= MIN_PARTITIONS
        for time in gap.times(CYCLES * int(gap.rare.sum()))
    ]
    return rows + [_missing(within, time) for time in missed]


def _late(history: History) -> NDArray[np.bool_]:
    """Return a mask of late partitions, by `Late` with its default rule."""
    detector = Late()
    rule = RULES.parse(detector.rule)
    found: NDArray[np.bool_] = rule.decide(
        detector.measure(history)[None, :], detector.score(history)
    )[0]
    return found


def _row(within: str, partition: LedgerRow, delay: float, *, late: bool) -> CalendarRow:
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
        within, partition, status=status, late=late, restated=restated, delay=delay
    )


def _missing(within: str, time: np.datetime64) -> CalendarRow:
    moment = time.astype("M8[s]").item().replace(tzinfo=UTC)
    return _calendar_row(within, {"time": moment}, status="missing")


def _calendar_row(
    within: str,
    about: Mapping[str, Any],
    *,
    status: str,
    late: bool = False,
    restated: bool = False,
    delay: float = nan,
) -> CalendarRow:
    """Return a row without anomalies; what is not known of the partition is None."""
    return {
        "id": about.get("id"),
        "segment": within,
        "partition": about.get("partition"),
        "time": about["time"],
        "status": status,
        "late": late,
        "restated": restated,
        "version": about.get("version"),
        "rows": about.get("rows"),
        "first_seen_at": about.get("first_seen_at"),
        "arrived_at": about.get("arrived_at"),
        "measured_at": about.get("measured_at"),
        "gone_at": about.get("gone_at"),
        "delay": delay,
        "anomalies": 0,
        "worst": None,
    }


def _found(
    connection: Connection, dataset: str, window: Window, as_of: AsOf
) -> tuple[Counter[int], dict[int, str]]:
    """Return the number of anomalies in each partition, and their highest severity."""
    order = list(Severity)
    counts: Counter[int] = Counter()
    worst: dict[int, str] = {}
    for row in anomaly_rows(connection, dataset, None, MetricQuery(window=window), as_of):
        of = row["partition_id"]
        counts[of] += 1
        both = (worst.get(of, row["severity"]), row["severity"])
        worst[of] = max(both, key=lambda one: order.index(Severity(one)))
    return counts, worst
