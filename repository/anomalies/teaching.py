"""What people said of points, as far as it shapes what detectors learn and what counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np

from repository.said import Said

if TYPE_CHECKING:
    from numpy.typing import NDArray

Row = Mapping[str, Any]

MUTING = frozenset({"expected", "bad", "ignore"})
"""Points that these were said of teach nothing."""


@dataclass(frozen=True)
class Teaching:
    """All labels of a dataset, and its holidays.

    Attributes
    ----------
    said : sequence of Said
    holidays : mapping of date text to str
        Names of holidays by ``2013-07-04``.
    """

    said: Sequence[Said] = ()
    holidays: Mapping[str, str] = field(default_factory=dict)

    @property
    def restarts(self) -> bool:
        """Whether somebody said that a new level begins somewhere."""
        return any(one.label == "rebaseline" for one in self.said)

    def of(
        self, series: Sequence[Row], partitions: Sequence[Row], known: NDArray[np.bool_]
    ) -> dict[str, Any]:
        """Return what a `History` of these wants to know; ``known`` says which points have a value."""
        muted = self.muted(series, partitions)
        restarts = self._restarts(series, partitions, known)
        holidays = [self.holiday(partition) for partition in partitions]
        return {
            "muted": muted,
            "restarts": restarts,
            "holidays": holidays if any(holidays) else None,
        }

    def muted(self, series: Sequence[Row], partitions: Sequence[Row]) -> NDArray[np.bool_] | None:
        """Return which points teach nothing; None if all do."""
        return self._marked(MUTING, series, partitions)

    def ignored(self, series: Sequence[Row], partitions: Sequence[Row]) -> NDArray[np.bool_] | None:
        """Return which points are to be no anomalies, whatever they are; None if none is."""
        return self._marked({"ignore"}, series, partitions)

    def holiday(self, partition: Row) -> str:
        """Return the name of the holiday on which a partition lies; empty if it is on none."""
        time = partition["time"]
        return "" if time is None else self.holidays.get(f"{time:%Y-%m-%d}", "")

    def explains(self, time: datetime | None) -> str:
        """Return the holiday on or next to which a moment lies; empty if there is none."""
        if time is None:
            return ""
        days = (f"{time + timedelta(days=n):%Y-%m-%d}" for n in (0, -1, 1))
        return next((self.holidays[day] for day in days if day in self.holidays), "")

    def _restarts(
        self, series: Sequence[Row], partitions: Sequence[Row], known: NDArray[np.bool_]
    ) -> NDArray[np.bool_] | None:
        """Return the points with which a new level begins: for each label, the first with a value."""
        marks = [mark & known for mark in self._marks({"rebaseline"}, series, partitions)]
        if not marks:
            return None
        first = [mark & (np.cumsum(mark, axis=1) == 1) for mark in marks]
        begun: NDArray[np.bool_] = np.any(first, axis=0)
        return begun

    def _marked(
        self, labels: frozenset[str] | set[str], series: Sequence[Row], partitions: Sequence[Row]
    ) -> NDArray[np.bool_] | None:
        marks = self._marks(labels, series, partitions)
        return np.any(marks, axis=0) if marks else None

    def _marks(
        self, labels: frozenset[str] | set[str], series: Sequence[Row], partitions: Sequence[Row]
    ) -> list[NDArray[np.bool_]]:
        """Return for each of some labels which points it is about."""
        return [mark(one, series, partitions) for one in self.said if one.label in labels]


def mark(one: Said, series: Sequence[Row], partitions: Sequence[Row]) -> NDArray[np.bool_]:
    """Return which points of some series and partitions a label is about."""
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
