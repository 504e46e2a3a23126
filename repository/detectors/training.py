"""Apply user labels: exclude points from training and from alerting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from tidegauge.repository.store.label_effects import LabelEffect
from tidegauge.repository.store.rows import PartitionRow, SeriesRow

if TYPE_CHECKING:
    from numpy.typing import NDArray


MUTING = frozenset({"expected", "bad", "ignore"})
"""Labels that exclude points from training."""


@dataclass(frozen=True)
class TrainingLabels:
    """All labels of a dataset, and its holidays.

    Attributes
    ----------
    said : sequence of LabelEffect
        The newest last. That of each point counts, ``rebaseline`` apart; ``reopened`` takes all back.
    holidays : mapping of date text to str
        Names of holidays by ISO date, such as ``2013-07-04``.
    """

    said: Sequence[LabelEffect] = ()
    holidays: Mapping[str, str] = field(default_factory=dict)

    @property
    def restarts(self) -> bool:
        """True if any label resets the baseline."""
        return any(one.label == "rebaseline" for one in self.said)

    def of(
        self,
        series: Sequence[SeriesRow],
        partitions: Sequence[PartitionRow],
        known: NDArray[np.bool_],
    ) -> dict[str, Any]:
        """Return keyword arguments for `History`; ``known`` masks the points that have a value."""
        muted = self.muted(series, partitions)
        restarts = self._restarts(series, partitions, known if muted is None else known & ~muted)
        holidays = [self.holiday(partition) for partition in partitions]
        return {
            "muted": muted,
            "restarts": restarts,
            "holidays": holidays if any(holidays) else None,
            "free_days": np.array(sorted(self.holidays), dtype="M8[D]"),
        }

    def muted(
        self, series: Sequence[SeriesRow], partitions: Sequence[PartitionRow]
    ) -> NDArray[np.bool_] | None:
        """Return a mask of the points excluded from training; None if no label excludes any."""
        return self._marked(MUTING, series, partitions)

    def ignored(
        self, series: Sequence[SeriesRow], partitions: Sequence[PartitionRow]
    ) -> NDArray[np.bool_] | None:
        """Return a mask of the points excluded from alerting; None if no label excludes any."""
        return self._marked(frozenset({"ignore"}), series, partitions)

    def holiday(self, partition: PartitionRow) -> str:
        """Return the name of a partition's holiday; empty if it is on none."""
        time = partition["time"]
        return "" if time is None else self.holidays.get(f"{time:%Y-%m-%d}", "")

    def explains(self, time: datetime | None) -> str:
        """Return the name of a holiday on or within a day of a time; empty if there is none."""
        if time is None:
            return ""
        day = np.datetime64(time.date())  # which has years after 9999
        days = (str(day + n) for n in (0, -1, 1))
        return next((self.holidays[day] for day in days if day in self.holidays), "")

    def _restarts(
        self,
        series: Sequence[SeriesRow],
        partitions: Sequence[PartitionRow],
        trains: NDArray[np.bool_],
    ) -> NDArray[np.bool_] | None:
        """Return a mask of baseline resets, at the first point of each label and series that trains.

        None if no label resets the baseline.
        """
        if not self.restarts:
            return None
        begun = np.zeros(trains.shape, dtype=bool)
        for one in self.said:
            if one.label == "rebaseline":
                covered = trains & mark(one, series, partitions)
                begun |= covered & (np.cumsum(covered, axis=1) == 1)
            elif one.label == "reopened":
                begun &= ~mark(one, series, partitions)
        return begun

    def _marked(
        self,
        labels: frozenset[str],
        series: Sequence[SeriesRow],
        partitions: Sequence[PartitionRow],
    ) -> NDArray[np.bool_] | None:
        """Return a mask of the points whose newest label is one of some kinds; None if there is none."""
        some = [number for number, one in enumerate(self.said) if one.label in labels]
        if not some:
            return None
        marked: NDArray[np.bool_] = np.isin(self._newest(series, partitions), some)
        return marked

    def _newest(
        self, series: Sequence[SeriesRow], partitions: Sequence[PartitionRow]
    ) -> NDArray[np.intp]:
        """Return the number of the newest label that covers each point; -1 where none does.

        A new level says nothing of the points after its first.
        """
        newest = np.full((len(series), len(partitions)), -1, dtype=np.intp)
        for number, one in enumerate(self.said):
            if one.label != "rebaseline":
                newest[mark(one, series, partitions)] = number
        return newest


def mark(
    one: LabelEffect, series: Sequence[SeriesRow], partitions: Sequence[PartitionRow]
) -> NDArray[np.bool_]:
    """Return a mask of the points of some series and partitions that a label covers."""
    if one.points is None:
        rows = np.array([one.speaks_of(row) for row in series], dtype=bool)
        columns = np.array([one.covers(row) for row in partitions], dtype=bool)
        both: NDArray[np.bool_] = rows[:, None] & columns[None, :]
        return both
    marked = np.zeros((len(series), len(partitions)), dtype=bool)
    line = {row["id"]: i for i, row in enumerate(series)}
    column = {row["id"]: t for t, row in enumerate(partitions)}
    for of, at in one.points:
        if of in line and at in column:
            marked[line[of], column[at]] = True
    return marked
