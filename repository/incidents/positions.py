"""Positions of partitions in time, and the newest of each series, by which incidents go on or are over."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import sqlalchemy as sa

from tidegauge.repository.detectors.matrices import to_datetime64
from tidegauge.repository.incidents.periods import step_of
from tidegauge.repository.numerics.grid import Grid
from tidegauge.repository.store import schema as s
from tidegauge.repository.store.bulk import chunks

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from sqlalchemy.engine import Connection

APART = 3
"""Positions between the newest partition and those far in the future or without a time, which are no neighbours."""


@dataclass
class Positions:
    """Positions of a dataset's partitions, counted in order of time within each partition segment.

    Attributes
    ----------
    of : dict of int to int
        By the partition's id; those far in the future and those without a time come last, `APART`
        from the others.
    newest : dict of (int, str) to int
        Position of the newest partition with a metric, by the series' id and the partition segment. One
        without a time, or far in the future, is the newest only where there is no other. Of some series
        it is only known once `find_newest` was called.
    ends : dict of str to int
        Position of the newest partition, by partition segment.
    steps : dict of str to timedelta or None
        Length of partitions, as `step_of` returns it, by partition segment.
    long : set of str
        Partition segments whose partitions are weeks or months.
    """

    of: dict[int, int] = field(default_factory=dict)
    newest: dict[tuple[int, str], int] = field(default_factory=dict)
    ends: dict[str, int] = field(default_factory=dict)
    steps: dict[str, timedelta | None] = field(default_factory=dict)
    long: set[str] = field(default_factory=set)
    _unknown: set[int] = field(default_factory=set)
    _at: dict[tuple[str, datetime], int] = field(default_factory=dict)

    @classmethod
    def read(cls, connection: Connection, dataset: int, now: datetime) -> Positions:
        """Read the positions of a dataset's partitions at a time."""
        p, n, found = s.partition.c, s.newest_metric.c, cls()
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
            found.of |= {of: n if n < count else n + APART for n, (of, _, _) in enumerate(kind)}
            found.ends[within] = count - 1 if count else len(kind) - 1 + APART
            found._at |= {(within, time): n for n, time in enumerate(dated[:count])}
            found.steps[within] = step_of(dated, kind[0][1])
            if grid.yearly:
                found.long.add(within)
        last = (
            sa.select(n.series_id, n.partition_id, p.segment)
            .join_from(s.newest_metric, s.partition, p.id == n.partition_id)
            .where(p.dataset_id == dataset)
        )
        for series, partition, within in connection.execute(last):
            place = found.of[partition]
            if len(kinds) == 1 and place <= found.ends[within]:
                found.newest[series, within] = place
            else:
                found._unknown.add(series)
        return found

    def find_newest(self, connection: Connection, series: Collection[int]) -> None:
        """Look up the newest partitions of some series of which `newest_metric` does not tell them.

        It has one partition of each series: of several segments that of one, and maybe one that stands
        aside.
        """
        m, p = s.metric.c, s.partition.c
        latest = max((time for _, time in self._at), default=None)
        unknown = self._unknown.intersection(series) if latest is not None else ()
        for some in chunks(sorted(unknown)):
            query = (
                sa.select(m.series_id, p.segment, sa.func.max(p.time))
                .join_from(s.metric, s.partition, p.id == m.partition_id)
                .where(m.series_id.in_(some), p.time <= latest, s.holds(s.metric))
                .group_by(m.series_id, p.segment)
            )
            for one, within, time in connection.execute(query):
                self.newest[one, within] = self._at.get((within, time), self.ends[within])
