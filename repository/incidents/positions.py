"""Positions of partitions in time, and the newest of each series, by which incidents go on or are over."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import sqlalchemy as sa

from tidegauge.repository.detectors.matrices import to_datetime64
from tidegauge.repository.incidents.periods import step_of
from tidegauge.repository.numerics.grid import FIRST_STEPS, Grid
from tidegauge.repository.store import schema as s
from tidegauge.repository.store.bulk import chunks

if TYPE_CHECKING:
    from datetime import datetime, timedelta

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
