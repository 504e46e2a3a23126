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


@dataclass
class Positions:
    """Positions of a dataset's partitions, counted in order of time within each partition segment.

    Attributes
    ----------
    of : dict of int to int
        By the partition's id; those without a time come last.
    newest : dict of int to int
        Position of the newest partition with a metric, by the series' id. One without a time is the
        newest only where none has one.
    ends : dict of str to int
        The same of all series, by partition segment.
    steps : dict of str to timedelta or None
        Length of partitions, as `step_of` returns it, by partition segment.
    long : set of str
        Partition segments whose partitions are weeks or months.
    """

    of: dict[int, int] = field(default_factory=dict)
    newest: dict[int, int] = field(default_factory=dict)
    ends: dict[str, int] = field(default_factory=dict)
    steps: dict[str, timedelta | None] = field(default_factory=dict)
    long: set[str] = field(default_factory=set)
    _undated: set[int] = field(default_factory=set)

    @classmethod
    def read(cls, connection: Connection, dataset: int) -> Positions:
        """Read the positions of a dataset's partitions."""
        p, n, found = s.partition.c, s.newest_metric.c, cls()
        query = (
            sa.select(p.id, p.segment, p.name, p.time)
            .where(p.dataset_id == dataset)
            .order_by(p.segment, p.time.is_(None), p.time, p.name)
        )
        kinds: dict[str, list[tuple[str, datetime | None]]] = {}
        for partition, within, name, time in connection.execute(query):
            kind = kinds.setdefault(within, [])
            found.of[partition] = len(kind)
            kind.append((name, time))
        dated: dict[str, int] = {}
        for within, kind in kinds.items():
            times = [time for _, time in kind if time is not None]
            dated[within] = len(times)
            found.steps[within] = step_of(times, kind[0][0])
            if Grid.from_times(np.array([to_datetime64(time) for time in times], "M8[s]")).yearly:
                found.long.add(within)
        last = (
            sa.select(n.series_id, n.partition_id, p.segment)
            .join_from(s.newest_metric, s.partition, p.id == n.partition_id)
            .where(p.dataset_id == dataset)
        )
        for series, partition, within in connection.execute(last):
            place = found.of[partition]
            if 0 < dated[within] <= place:
                found._undated.add(series)
                place = dated[within] - 1
            else:
                found.newest[series] = place
            found.ends[within] = max(found.ends.get(within, -1), place)
        return found

    def find_newest(self, connection: Connection, series: Collection[int]) -> None:
        """Look the newest partition of some series up where that of their newest metric has no time."""
        m, p = s.metric.c, s.partition.c
        for some in chunks(sorted(self._undated.intersection(series))):
            query = (
                sa.select(m.series_id, m.partition_id)
                .join_from(s.metric, s.partition, p.id == m.partition_id)
                .where(m.series_id.in_(some), p.time.is_not(None), s.holds(s.metric))
            )
            for one, partition in connection.execute(query):
                self.newest[one] = max(self.newest.get(one, -1), self.of[partition])
