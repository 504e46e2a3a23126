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

    def of(self, series: Sequence[Row], partitions: Sequence[Row]) -> dict[str, Any]:
        """Return what a `History` of these wants to know."""
        muted = self._marked(MUTING, series, partitions)
        restarts = self._marked({"rebaseline"}, series, partitions)
        if restarts is not None:  # a new level begins with the first point that it was said of
            restarts[:, 1:] &= ~restarts[:, :-1]
        holidays = [self.holiday(partition) for partition in partitions]
        return {
            "muted": muted,
            "restarts": restarts,
            "holidays": holidays if any(holidays) else None,
        }

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

    def _marked(
        self, labels: frozenset[str] | set[str], series: Sequence[Row], partitions: Sequence[Row]
    ) -> NDArray[np.bool_] | None:
        said = [one for one in self.said if one.label in labels]
        if not said:
            return None
        marked = np.zeros((len(series), len(partitions)), dtype=bool)
        for one in said:
            rows = np.array([one.speaks_of(row) for row in series], dtype=bool)
            columns = np.array([one.covers(partition) for partition in partitions], dtype=bool)
            marked |= rows[:, None] & columns[None, :]
        return marked
