"""One label, as far as it says what detectors may learn from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Said:
    """One label, and which points it is about.

    Attributes
    ----------
    label : str
    points : set of (int, int), optional
        Ids of series and partition; the selectors and the range say which if it is not given.
    name, instance, segment : str, optional
    since, until : datetime, optional
        Both included.
    commit : int
        With which it was said.
    about : pair of str and int, optional
        ``anomaly``, ``incident`` or ``range``, and which one.
    """

    label: str
    points: frozenset[tuple[int, int]] | None = None
    name: str | None = None
    instance: str | None = None
    segment: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    commit: int = 0
    about: tuple[str, int] | None = None

    def speaks_of(self, series: Row) -> bool:
        """Whether it is about a series."""
        if self.points is not None:
            return any(series["id"] == of for of, _ in self.points)
        named = self.name is None or self.name in {series["name"], series["kind"]}
        pairs = ((self.instance, series["instance"]), (self.segment, series["segment"]))
        return named and all(wanted is None or wanted == given for wanted, given in pairs)

    def covers(self, partition: Row) -> bool:
        """Whether it is about a partition."""
        if self.points is not None:
            return any(partition["id"] == at for _, at in self.points)
        time = partition["time"]
        if time is None:
            return self.since is None and self.until is None
        late = self.since is None or time >= self.since
        return late and (self.until is None or time <= self.until)
