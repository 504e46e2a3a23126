"""Schema changes of partitions with anomalies, against the partitions before them."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlalchemy as sa

from tidegauge.analyzers.core.formatting import plain
from tidegauge.repository.detectors.contents import list_changes, schema_changes
from tidegauge.repository.detectors.matrices import group_by_segment
from tidegauge.repository.store import schema as s
from tidegauge.repository.store.bulk import chunks
from tidegauge.repository.store.rows import PartitionRow

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

MOST = 3
"""Maximum number of partitions to tell of."""
_BACK = 8
"""Maximum number of partitions to look back for one that was measured."""


@dataclass(frozen=True)
class SchemaDifference:
    """Columns of a partition that differ from those of the measured partition before it.

    Attributes
    ----------
    partition, before : str
    changes : tuple of str
        Such as ``tail is gone``, ``distance is double, not int``.
    """

    partition: str
    before: str
    changes: tuple[str, ...]

    def __str__(self) -> str:
        """Return the difference as a sentence.

        Examples
        --------
        >>> print(SchemaDifference("ds=2013-02-08", "ds=2013-02-07", ("x is gone", "y is new")))
        The schema of ds=2013-02-08 differs from that of ds=2013-02-07: x is gone, y is new.
        """
        told = list_changes([plain(change) for change in self.changes])
        return f"The schema of {plain(self.partition)} differs from that of {plain(self.before)}: {told}."


def schema_differences(
    connection: Connection, partitions: Sequence[PartitionRow], at: Collection[int]
) -> tuple[SchemaDifference, ...]:
    """Return the schema changes of some partitions, in order; of the first few if there are many.

    Parameters
    ----------
    connection : Connection
    partitions : sequence of mapping
        All partitions of the dataset, in order.
    at : collection of int
        Ids of the partitions to look at.
    """
    pasts: list[list[PartitionRow]] = []
    for places in group_by_segment(partitions).values():
        for n, place in enumerate(places):
            if partitions[place]["id"] in at:
                pasts.append([partitions[k] for k in places[max(0, n - _BACK) : n + 1]])
    columns = _columns(connection, sorted({row["id"] for past in pasts for row in past}))
    found = []
    for *past, row in pasts:
        before = next((one for one in reversed(past) if one["id"] in columns), None)
        if before is None or row["id"] not in columns:
            continue
        changes = schema_changes(columns[before["id"]], columns[row["id"]])
        if changes:
            found.append(SchemaDifference(row["partition"], before["partition"], tuple(changes)))
    return tuple(found[:MOST])


def _columns(connection: Connection, partitions: Sequence[int]) -> dict[int, dict[str, str]]:
    """Return the columns of the measured ones among some partitions."""
    v, t = s.partition_version.c, s.table_schema.c
    schema_of: dict[int, int] = {}
    for some in chunks(partitions):
        query = sa.select(v.partition_id, v.table_schema_id).where(
            v.partition_id.in_(some), s.holds(s.partition_version)
        )
        schema_of.update({row[0]: row[1] for row in connection.execute(query)})
    columns: dict[int, dict[str, str]] = {}
    for some in chunks(sorted(set(schema_of.values()))):
        texts = sa.select(t.id, t.columns).where(t.id.in_(some))
        columns.update({row[0]: dict(json.loads(row[1])) for row in connection.execute(texts)})
    return {of: columns[key] for of, key in schema_of.items()}
