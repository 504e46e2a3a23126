"""Rows of the dimensions that facts refer to: series, partitions and commits."""

from __future__ import annotations

from datetime import datetime
from typing import TypedDict


class SeriesRow(TypedDict):
    """A series: one flattened metric of one analyzer in one segment."""

    id: int
    segment: str
    entity: str
    name: str
    instance: str
    analyzer: str
    """The analyzer's text, which reads back."""
    scale: str
    key: str
    """Hash of the analyzer's canonical JSON."""
    kind: str
    """The analyzer's name."""
    filter: str | None


def series_key(row: SeriesRow) -> tuple[str, str, str, str]:
    """Return what tells a series from the others of its dataset: segment, name, instance, analyzer."""
    return row["segment"], row["name"], row["instance"], row["analyzer"]


class PartitionRow(TypedDict):
    """A partition, with the segment that its non-time keys form."""

    id: int
    partition: str
    time: datetime | None
    within: str


class CommitRow(TypedDict):
    """A commit, with its run and time."""

    id: int
    run_id: int | None
    analyzed_at: datetime
