"""One anomaly, as grouping and telling see it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class Anomaly:
    """One anomaly, as far as grouping and telling need it.

    Attributes
    ----------
    id : int
    series : int
    place : int
        Of its partition among those of its kind, in order of time.
    partition : int
        The partition's id.
    within : str
        The segment that the partition's own keys make.
    time : datetime or None
    name, instance, filter, segment : str
        Of its series.
    scale, severity, direction : str
    value, expected : float or None
    score : float
    incident : int or None
        The one that it was in last.
    """

    id: int
    series: int
    place: int
    partition: int
    partition_name: str
    within: str
    time: datetime | None
    name: str
    instance: str
    filter: str
    segment: str
    scale: str
    severity: str
    direction: str
    value: float | None
    expected: float | None
    score: float
    explanation: str
    incident: int | None
