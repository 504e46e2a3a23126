"""A label's effect on training data."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from tidegauge.repository.store.rows import AnomalyRow, PartitionRow, SeriesRow


@dataclass(frozen=True)
class LabelEffect:
    """One label and the points that it applies to.

    Attributes
    ----------
    label : str
    points : set of (int, int), optional
        Ids of series and partition; if not given, the selectors and the range apply.
    name, instance, segment : str, optional
    since, until : datetime, optional
        Both inclusive.
    commit : int
        The commit that added the label.
    about : pair of str and int, optional
        ``anomaly``, ``incident`` or ``range``, and its id.
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

    def speaks_of(self, series: SeriesRow | AnomalyRow) -> bool:
        """Return whether the label applies to a series."""
        if self.points is not None:
            return any(series["id"] == of for of, _ in self.points)
        named = self.name is None or self.name in {series["name"], series["kind"]}
        pairs = ((self.instance, series["instance"]), (self.segment, series["segment"]))
        return named and all(wanted is None or wanted == given for wanted, given in pairs)

    def covers(self, partition: PartitionRow | AnomalyRow) -> bool:
        """Return whether the label applies to a partition."""
        if self.points is not None:
            return any(partition["id"] == at for _, at in self.points)
        time = partition["time"]
        if time is None:
            return self.since is None and self.until is None
        late = self.since is None or time >= self.since
        return late and (self.until is None or time <= self.until)
