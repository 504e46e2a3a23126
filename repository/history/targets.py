"""Partition selection for checks, in the current or a past view of a dataset."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, cast

import sqlalchemy as sa

from tidegauge.analyzers.core.errors import PartitionSelectionError
from tidegauge.analyzers.core.partitions import (
    Partition,
    parse_selection,
    recognise_time,
    select_named,
)
from tidegauge.analyzers.core.segments import joined
from tidegauge.repository.store import schema as s
from tidegauge.repository.store.listing import partition_rows
from tidegauge.repository.store.queries import AsOf, dataset_id
from tidegauge.repository.store.rows import PartitionRow, SelectablePartitionRow

if TYPE_CHECKING:
    from tidegauge.repository.store.artifacts import Artifacts
    from tidegauge.repository.store.database import Database


@dataclass(frozen=True)
class CheckTarget:
    """A partition, or a segment of one, to be checked.

    Attributes
    ----------
    id : int
    partition : str
    time : datetime or None
    within : str
        Segment made by the partition's own keys.
    segment : str
    """

    id: int
    partition: str
    time: datetime | None
    within: str = ""
    segment: str = ""

    def row(self) -> PartitionRow:
        """Return the target as a partition row of `Facts`."""
        return {
            "id": self.id,
            "partition": self.partition,
            "time": self.time,
            "within": self.within,
        }


@dataclass(frozen=True)
class View:
    """View of a dataset, current or as of a past commit.

    Attributes
    ----------
    database : Database
    artifacts : Artifacts
    dataset : str
    as_of : str, date, datetime, int or None
    """

    database: Database
    artifacts: Artifacts
    dataset: str
    as_of: AsOf = None

    def targets(
        self, partitions: str | Sequence[str] | None = None, segment: str = ""
    ) -> list[CheckTarget]:
        """Select partitions, in order of time.

        Parameters
        ----------
        partitions : str or sequence of str, optional
            ``all``, conditions on partition keys, or names; those of the newest time if not given.
            Deleted partitions are selected only by name.
        segment : str
            Segment of each partition that has it; the whole of each if empty.

        Raises
        ------
        PartitionSelectionError
            If the text does not parse, a name does not exist, or nothing is selected; an empty list
            of names selects nothing without an error.
        """
        with self.database.read() as connection:
            ledger = partition_rows(connection, self.dataset, self.as_of, every=False)
        measured = {row["partition"] for row in ledger}
        there = {row["partition"] for row in ledger if row["gone_at"] is None}
        rows = [row for row in self._partitions() if row["partition"] in measured]
        timed = sorted(rows, key=lambda row: row["time"] is not None)
        oldest_first = [row["partition"] for row in timed]
        if partitions is None:
            chosen = _newest([row for row in rows if row["partition"] in there])
        elif partitions == "all":
            chosen = there
        elif isinstance(partitions, str):
            chosen = _selected(timed, there, partitions)
        else:
            chosen = select_named(partitions, oldest_first)
        found = [
            CheckTarget(row["id"], row["partition"], row["time"], row["within"], of)
            for row in rows
            if row["partition"] in chosen and (of := _segment(row["within"], segment)) is not None
        ]
        if not found and (partitions is None or len(partitions)):
            which = f"partitions={partitions!r}, segment={segment!r}"
            msg = f"{self.dataset!r} has no measured partition that is meant by {which}"
            raise PartitionSelectionError(msg)
        return found

    def placed(self, fresh: CheckTarget) -> CheckTarget:
        """Return a new target completed with time and segment, from the ledger or its name."""
        stored = {row["partition"]: row for row in self._partitions()}
        if fresh.partition not in stored or not fresh.partition:
            return placed_by_name(fresh)
        row = stored[fresh.partition]
        return _placed(fresh, row["time"], row["within"])

    def _partitions(self) -> list[SelectablePartitionRow]:
        p = s.partition.c
        columns = (p.id, p.name.label("partition"), p.time, p.segment.label("within"), p.key_values)
        with self.database.read() as connection:
            of = p.dataset_id == dataset_id(connection, self.dataset)
            query = sa.select(*columns).where(of).order_by(p.time.is_(None), p.time, p.name)
            found = [row._asdict() for row in connection.execute(query)]
            return cast("list[SelectablePartitionRow]", found)


def placed_by_name(fresh: CheckTarget) -> CheckTarget:
    """Return a new target completed with time and segment from its partition's name.

    Examples
    --------
    >>> placed_by_name(CheckTarget(1, "ds=2013-02-08", None)).time.isoformat()
    '2013-02-08T00:00:00+00:00'
    """
    named = Partition.from_name(fresh.partition)
    form = recognise_time(named.keys)
    if form is None:
        return _placed(fresh, None, "")
    return _placed(fresh, form.time_of(named), form.segment_of(named))


def _placed(fresh: CheckTarget, time: datetime | None, within: str) -> CheckTarget:
    segment = _segment(within, fresh.segment)
    return replace(fresh, time=fresh.time or time, within=within, segment=segment or within)


def _newest(rows: Sequence[SelectablePartitionRow]) -> set[str]:
    """Return the partitions of the newest time; the last by name where none has a time."""
    timed = [row for row in rows if row["time"] is not None] or rows[-1:]
    return {row["partition"] for row in timed if row["time"] == timed[-1]["time"]}


def _selected(rows: Sequence[SelectablePartitionRow], there: set[str], text: str) -> set[str]:
    """Return the partitions, of those that are there, that a filter selects."""
    by_name = {row["partition"]: _named(row["partition"], row["key_values"]) for row in rows}
    keys = next(iter(by_name.values())).keys if by_name else ()
    selection = parse_selection(text, keys)
    available = [name for name in by_name if name in there]
    return selection.require_match({n for n in available if selection(by_name[n])}, available)


def _named(name: str, values: str) -> Partition:
    """Parse a partition's name given its values, which may contain the separators of keys.

    Examples
    --------
    >>> _named("ds=2013-02-08/place=a/b=c", '["2013-02-08","a/b=c"]').keys
    ('ds', 'place')
    """
    keys, rest, of = [], name, tuple(json.loads(values))
    for value in of:
        keys.append(rest.partition("=")[0])
        rest = rest[len(keys[-1]) + len(value) + 2 :]
    return Partition(tuple(keys), of)


def _segment(within: str, segment: str) -> str | None:
    """Return the full segment within a partition; None if their keys conflict.

    Examples
    --------
    >>> _segment("country=US", ""), _segment("country=US", "origin=EWR"), _segment("", "origin=EWR")
    ('country=US', 'country=US/origin=EWR', 'origin=EWR')
    >>> _segment("country=US", "country=NO")
    """
    if not segment or not within or segment == within or segment.startswith(f"{within}/"):
        return segment or within
    same_key = segment.partition("=")[0] == within.partition("=")[0]
    return None if same_key else joined(within, segment)
