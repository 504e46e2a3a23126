"""Lifetime of incidents: whether the values of a series are back at the level before an incident.

A detector learns a new level after a few partitions, and then reports no more anomalies. So the absence of
anomalies does not show that the data are right again. The values show it: they are compared with values of the
same weekday, or hour of the week, before the incident.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import sqlalchemy as sa

from tidegauge.analyzers.core.metric import Scale
from tidegauge.repository.store import schema as s
from tidegauge.repository.store.bulk import chunks

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from sqlalchemy.engine import Connection

    from tidegauge.repository.incidents.anomaly import Anomaly
    from tidegauge.repository.numerics.grid import Grid


REFERENCE_VALUES = 4
"""Values are compared with the median of this many earlier values: one is noisy, many are outdated by growth."""
MAX_DEPARTURE_SHARE = 0.5
"""A value is back only if at most half of the departure remains, however wide the band was."""
NEW_LEVEL_WEEKS = 4
"""A level is the new one after this many weeks: the detector remembers the earlier level of days as long."""
NEW_LEVEL_PARTITIONS = 12
"""The same for weeks, months and irregular partitions, which have no season of weeks."""
FIRST_CHECKED_PARTITIONS = 8
"""Most series are back within few partitions, so the first ones are read before all others."""


class LevelState(IntEnum):
    """State of a series after its last anomaly in an incident."""

    UNKNOWN = 0
    """There is no later value, or no expected value to compare with."""
    BACK = 1
    """A later value is near the values before the incident."""
    OFF = 2
    """No later value is near them yet."""
    NEW_LEVEL = 3
    """No value was near them for `NEW_LEVEL_WEEKS`."""


class SeriesState(NamedTuple):
    """State of a series after its last anomaly, and the position of the first value that is back."""

    level: LevelState = LevelState.UNKNOWN
    back_at: int | None = None


@dataclass(frozen=True)
class PartitionAxis:
    """The partitions of a partition segment that have a time, in order.

    Attributes
    ----------
    ids : sequence of int
    times : array of datetime64[s]
    grid : Grid
    """

    ids: Sequence[int]
    times: NDArray[np.datetime64]
    grid: Grid

    @property
    def new_level_columns(self) -> int:
        """Columns after an incident's last anomaly from which its level is the new one."""
        weekly = self.grid.daily or self.grid.within_days
        return NEW_LEVEL_WEEKS * self.grid.cycle if weekly else NEW_LEVEL_PARTITIONS

    def later(self, position: int) -> range:
        """Return the positions after a position until its level would be the new one."""
        columns = self.grid.column[: len(self.ids)]
        end = np.searchsorted(columns, columns[position] + self.new_level_columns, "right")
        return range(position + 1, int(end))

    def is_adopted(self, position: int) -> bool:
        """Return whether a level that began at a position has lasted long enough to be the new one."""
        columns = self.grid.column[: len(self.ids)]
        return bool(columns[-1] - columns[position] >= self.new_level_columns)

    def references(self, position: int, before: int, excluded: Collection[int]) -> list[int]:
        """Return the earlier positions with which to compare the value at a position.

        They have the same place in the week, or else in the day; without such positions, they are the newest.

        Parameters
        ----------
        position : int
        before : int
            First position of the incident.
        excluded : collection of int
            Positions with anomalies.
        """
        columns = self.grid.column[: len(self.ids)]
        cycles = () if self.grid.yearly else (self.grid.cycle, self.grid.period)
        for cycle in (*dict.fromkeys(cycles), 1):
            # Columns of the same slot before the incident, the newest first.
            newest = columns[position] - cycle * -(
                -(columns[position] - columns[before] + 1) // cycle
            )
            slot_columns = newest - cycle * np.arange(2 * REFERENCE_VALUES)
            candidates = np.searchsorted(columns, slot_columns)
            same = [
                int(k)
                for k, column in zip(candidates, slot_columns, strict=True)
                if column >= 0 and columns[k] == column
            ]
            quiet = [k for k in same if k not in excluded][:REFERENCE_VALUES]
            if quiet:
                return quiet
        return []


def level_states(
    connection: Connection,
    group: Sequence[Anomaly],
    axis: PartitionAxis,
    anomalous: Mapping[int, Collection[int]],
) -> dict[int, SeriesState]:
    """Return the state of each series of an incident after its last anomaly.

    Parameters
    ----------
    connection : Connection
    group : sequence of Anomaly
        The anomalies of an incident, in order.
    axis : PartitionAxis
        The partitions of the incident's partition segment.
    anomalous : mapping of int to collection of int
        Positions of the partitions with anomalies, by series.
    """
    last_anomalies = {
        a.series: a
        for a in group
        if a.value is not None and a.expected is not None and a.position < len(axis.ids)
    }
    states = dict.fromkeys(last_anomalies, SeriesState())
    for checked in (slice(0, FIRST_CHECKED_PARTITIONS), slice(FIRST_CHECKED_PARTITIONS, None)):
        points = {
            (series, position): axis.references(
                position, group[0].position, anomalous.get(series, ())
            )
            for series, anomaly in last_anomalies.items()
            if states[series].back_at is None
            for position in axis.later(anomaly.position)[checked]
        }
        values = _read_values(
            connection, axis, points.keys(), {k for earlier in points.values() for k in earlier}
        )
        for (series, position), earlier in points.items():
            value = values.get((series, position))
            if value is None or states[series].back_at is not None:
                continue
            usual = [values[series, k] for k in earlier if (series, k) in values]
            is_back = _is_back(_Change.from_anomaly(last_anomalies[series], axis), value, usual)
            states[series] = (
                SeriesState(LevelState.BACK, position) if is_back else SeriesState(LevelState.OFF)
            )
    return {
        series: SeriesState(LevelState.NEW_LEVEL)
        if state.level is LevelState.OFF and axis.is_adopted(last_anomalies[series].position)
        else state
        for series, state in states.items()
    }


def _read_values(
    connection: Connection,
    axis: PartitionAxis,
    points: Collection[tuple[int, int]],
    earlier: Collection[int],
) -> dict[tuple[int, int], float]:
    """Return values by series and position. Times are counted from the start of their partitions."""
    m, e = s.metric.c, s.series.c
    positions = sorted({position for _, position in points} | set(earlier))
    position_by_id = {axis.ids[position]: position for position in positions}
    values: dict[tuple[int, int], float] = {}
    for series in chunks(sorted({series for series, _ in points})):
        for partitions in chunks(list(position_by_id)):
            query = (
                sa.select(m.series_id, m.partition_id, m.value, e.scale)
                .join_from(s.metric, s.series, e.id == m.series_id)
                .where(m.series_id.in_(series), m.partition_id.in_(partitions))
                .where(m.value.is_not(None), s.holds(s.metric))
            )
            for series_id, partition, value, scale in connection.execute(query):
                position = position_by_id[partition]
                values[series_id, position] = value - _origin(scale, axis, position)
    return values


def _origin(scale: str, axis: PartitionAxis, position: int) -> float:
    """Return what to subtract from a value: times move with their partitions."""
    return float(axis.times[position].astype("M8[s]").astype(float)) if scale == Scale.TIME else 0.0


@dataclass(frozen=True)
class _Change:
    """The departure of an anomaly, and the largest departure of values that are back.

    Attributes
    ----------
    expected : float
        Expected value, from which times count like values.
    size : float
        Departure, with a sign.
    tolerance : float
        Largest departure to the same side at which a value is back.
    is_factor : bool
        Whether departures are shares of the expected value.
    """

    expected: float
    size: float
    tolerance: float
    is_factor: bool

    @classmethod
    def from_anomaly(cls, anomaly: Anomaly, axis: PartitionAxis) -> _Change:
        """Return the departure of an anomaly. Within its band, but at most half as far, a value is back."""
        assert anomaly.value is not None
        assert anomaly.expected is not None
        origin = _origin(anomaly.scale, axis, anomaly.position)
        expected = anomaly.expected - origin
        is_factor = anomaly.scale in {Scale.COUNT, Scale.POSITIVE} and expected > 0
        unit = expected if is_factor else 1.0
        size = (anomaly.value - anomaly.expected) / unit
        limit = anomaly.upper if size > 0 else anomaly.lower
        tolerance = MAX_DEPARTURE_SHARE * abs(size)
        if limit is not None:
            tolerance = min(tolerance, abs(limit - anomaly.expected) / unit)
        return cls(expected, size, tolerance, is_factor)


def _is_back(change: _Change, value: float, usual: Sequence[float]) -> bool:
    """Return whether a value is back near usual values of before, or near the expected value without any.

    Examples
    --------
    >>> outage = _Change(expected=100.0, size=-0.7, tolerance=0.2, is_factor=True)
    >>> _is_back(outage, 45.0, [50.0, 50.0]), _is_back(outage, 35.0, [50.0, 50.0])
    (True, False)
    """
    reference = float(np.median(usual)) if usual else change.expected
    departure = value - reference
    tolerance = change.tolerance
    if change.is_factor:
        tolerance *= abs(reference)
    return bool(departure * np.sign(change.size) <= tolerance)
