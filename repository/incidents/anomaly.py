"""The anomaly record that grouping and headlines work on."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class Anomaly:
    """An anomaly, with the fields that grouping and headlines need.

    Attributes
    ----------
    id : int
    series : int
    place : int
        Position of its partition in its partition segment, in order of time.
    partition : int
        The partition's id.
    within : str
        Partition segment: the segment that the partition's non-time keys form.
    time : datetime or None
    name, instance, filter, segment : str
        Of its series.
    scale, severity, direction : str
    value, expected : float or None
    score : float
    incident : int or None
        Its last incident.
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
