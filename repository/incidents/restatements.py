"""Partitions with anomalies that were measured again, with the rows that they had before."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

import sqlalchemy as sa

from tidegauge.analyzers.core.formatting import plain, plural
from tidegauge.repository.store import schema as s
from tidegauge.repository.store.bulk import chunks

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

MOST = 3
"""Maximum number of partitions to tell of."""


@dataclass(frozen=True)
class RestatedPartition:
    """A partition whose current version is not its first.

    Attributes
    ----------
    partition : str
    version : int
    measured_at : datetime
        The time of the current version.
    rows : int
        Number of rows of the current version.
    before : int or None
        Number of rows of the version before it; None if that one was cleaned away.
    """

    partition: str
    version: int
    measured_at: datetime
    rows: int
    before: int | None

    def __str__(self) -> str:
        """Return the restatement as a sentence; times are UTC.

        Examples
        --------
        >>> at = datetime(2013, 2, 9, 8, 30)
        >>> print(RestatedPartition("ds=2013-02-08", 2, at, 480, 1000))
        ds=2013-02-08 was measured again on 2013-02-09 08:30 UTC: version 2 has 480 rows instead of 1,000.
        >>> print(RestatedPartition("ds=2013-02-08", 3, at, 1, 1))
        ds=2013-02-08 was measured again on 2013-02-09 08:30 UTC: version 3 has 1 row, as before.
        """
        rows = plural(self.rows, "row")
        than = "" if self.before is None else f" instead of {self.before:,}"
        than = ", as before" if self.rows == self.before else than
        what = f"{plain(self.partition or 'the table')} was measured again"
        moment = f"{self.measured_at:%Y-%m-%d %H:%M} UTC"
        return f"{what} on {moment}: version {self.version} has {rows}{than}."


def restated_partitions(
    connection: Connection, at: Collection[int]
) -> tuple[RestatedPartition, ...]:
    """Return the restated ones among some partitions, by id, in order of their current versions.

    Of many, the ones that were measured last.
    """
    p, now, old = s.partition.c, s.partition_version.alias("now"), s.partition_version.alias("old")
    found: list[RestatedPartition] = []
    for some in chunks(sorted(at)):
        query = (
            sa.select(p.name, now.c.version, now.c.measured_at, now.c.rows, old.c.rows)
            .select_from(now)
            .join(s.partition, p.id == now.c.partition_id)
            .outerjoin(
                old,
                (old.c.partition_id == now.c.partition_id) & (old.c.version == now.c.version - 1),
            )
            .where(now.c.partition_id.in_(some), now.c.version > 1, s.holds(now))
        )
        found += [RestatedPartition(*row) for row in connection.execute(query)]
    return tuple(sorted(found, key=lambda one: one.measured_at)[-MOST:])
