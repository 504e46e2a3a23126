"""Which partitions are meant, of a dataset as it is or was known."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

import sqlalchemy as sa

from analyzers.errors import PartitionSelectionError
from analyzers.partitions import Partition, parse_selection, recognise_time, select_named
from analyzers.segments import joined
from repository import schema as s
from repository.facts import Row
from repository.history import AsOf, dataset_id

if TYPE_CHECKING:
    from repository.repository import Repository


@dataclass(frozen=True)
class Target:
    """A partition, or a segment of one, that is checked.

    Attributes
    ----------
    id : int
    partition : str
    time : datetime or None
    within : str
        The segment that the partition's own keys make.
    segment : str
    """

    id: int
    partition: str
    time: datetime | None
    within: str = ""
    segment: str = ""

    def row(self) -> Row:
        """Return it as `Facts` tell partitions."""
        return {
            "id": self.id,
            "partition": self.partition,
            "time": self.time,
            "within": self.within,
        }


@dataclass(frozen=True)
class View:
    """A dataset as it is, or was known.

    Attributes
    ----------
    repository : Repository
    dataset : str
    as_of : datetime, int or None
    """

    repository: Repository
    dataset: str
    as_of: AsOf = None

    def targets(
        self, partitions: str | Sequence[str] | None = None, segment: str = ""
    ) -> list[Target]:
        """Return partitions in the order of time.

        Parameters
        ----------
        partitions : str or sequence of str, optional
            ``all``, conditions on partition keys, or names; those of the newest time if not given.
            Partitions that are gone count only where they are named.
        segment : str
            A segment of each, where there is one; the whole of each if empty.

        Raises
        ------
        PartitionSelectionError
            If the text does not parse, a name is not there, or nothing is selected; an empty list of
            names selects nothing, and may.
        """
        ledger = self.repository.partitions(self.dataset, as_of=self.as_of)
        measured = set(ledger["partition"])
        there = set(ledger.loc[ledger["gone_at"].isna(), "partition"])
        rows = [row for row in self._partitions() if row["partition"] in measured]
        if partitions is None:
            chosen = _newest([row for row in rows if row["partition"] in there])
        elif isinstance(partitions, str):
            chosen = there if partitions == "all" else there & _selected(rows, partitions)
        else:
            chosen = select_named(partitions, measured)
        found = [
            Target(row["id"], row["partition"], row["time"], row["within"], of)
            for row in rows
            if row["partition"] in chosen and (of := _segment(row["within"], segment)) is not None
        ]
        if not found and (partitions is None or len(partitions)):
            which = f"partitions={partitions!r}, segment={segment!r}"
            msg = f"{self.dataset!r} has no measured partition that is meant by {which}"
            raise PartitionSelectionError(msg)
        return found

    def placed(self, fresh: Target) -> Target:
        """Return a partition that is not stored with what its name tells: its time and its segment."""
        stored = {row["partition"]: row for row in self._partitions()}
        if fresh.partition in stored and fresh.partition:
            row = stored[fresh.partition]
            time, within = fresh.time or row["time"], row["within"]
        else:
            named = Partition.from_path(fresh.partition)
            form = recognise_time(named.keys)
            time = fresh.time or (form and form.time_of(named))
            within = form.segment_of(named) if form else ""
        segment = _segment(within, fresh.segment)
        return replace(fresh, time=time, within=within, segment=segment or within)

    def _partitions(self) -> list[Row]:
        p = s.partition.c
        columns = (p.id, p.name.label("partition"), p.time, p.segment.label("within"), p.key_values)
        with self.repository.database.read() as connection:
            of = p.dataset_id == dataset_id(connection, self.dataset)
            query = sa.select(*columns).where(of).order_by(p.time.is_(None), p.time, p.name)
            return [row._asdict() for row in connection.execute(query)]


def _newest(rows: Sequence[Row]) -> set[str]:
    """Return the partitions of the newest time; the last by name where none has a time."""
    timed = [row for row in rows if row["time"] is not None] or rows[-1:]
    return {row["partition"] for row in timed if row["time"] == timed[-1]["time"]}


def _selected(rows: Sequence[Row], text: str) -> set[str]:
    found = {row["partition"]: _named(row["partition"], row["key_values"]) for row in rows}
    keys = next(iter(found.values())).keys if found else ()
    test = parse_selection(text, keys)
    return {name for name, partition in found.items() if test(partition)}


def _named(name: str, values: str) -> Partition:
    """Return a partition by its name, whose values may hold what separates the keys.

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
    """Return a segment as a partition has it; None if it has none.

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
