"""Context of an incident outside of its metrics: the run that measured it, its runbook, the tables made from it."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

import sqlalchemy as sa

from tidegauge.repository.store import schema as s
from tidegauge.repository.store.listing import tags_of_datasets

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

UPSTREAM = "upstream"
"""Tag of runs that names the tables, separated by commas, from which a dataset is made."""
RUNBOOK = "runbook"
"""Tag of runs with the address of what to do about incidents of a dataset."""
JOB = "job"
"""Tag of runs with the address of the job that made or measured the data."""


@dataclass(frozen=True)
class MeasuringRun:
    """The run that measured a partition.

    Attributes
    ----------
    id : int
    started_at : datetime
    job : str or None
        Its tag `JOB`.
    """

    id: int
    started_at: datetime
    job: str | None


@dataclass(frozen=True)
class IncidentContext:
    """Run, runbook and downstream tables of an incident.

    Attributes
    ----------
    run : MeasuringRun or None
        The run that measured the first of its partitions as it is now; None if no run did.
    runbook : str or None
        The tag `RUNBOOK` of the dataset's last run.
    downstream : tuple of str
        Datasets made from this one, directly or by others, the nearest first.
    """

    run: MeasuringRun | None = None
    runbook: str | None = None
    downstream: tuple[str, ...] = ()


def incident_context(
    connection: Connection, dataset: str, partitions: Sequence[int]
) -> IncidentContext:
    """Return the context of an incident in some partitions of a dataset, by id, in order."""
    tags = tags_of_datasets(connection)
    return IncidentContext(
        _run_of(connection, partitions[0]) if partitions else None,
        tags.get(dataset, {}).get(RUNBOOK),
        downstream_of(dataset, {name: upstreams(own) for name, own in tags.items()}),
    )


def upstreams(tags: Mapping[str, str]) -> frozenset[str]:
    """Return the tables that the tag `UPSTREAM` names.

    Examples
    --------
    >>> sorted(upstreams({"upstream": "raw.orders, raw.users,"}))
    ['raw.orders', 'raw.users']
    """
    names = tags.get(UPSTREAM, "").split(",")
    return frozenset(name.strip() for name in names if name.strip())


def downstream_of(dataset: str, made_from: Mapping[str, frozenset[str]]) -> tuple[str, ...]:
    """Return the datasets made from one, directly or by others: the nearest first, then by name.

    Examples
    --------
    >>> made_from = {"b": frozenset("a"), "c": frozenset("b"), "d": frozenset("ab"), "a": frozenset("c")}
    >>> downstream_of("a", made_from)
    ('b', 'd', 'c')
    """
    makes: defaultdict[str, list[str]] = defaultdict(list)
    for name in sorted(made_from):
        for upstream in made_from[name]:
            makes[upstream].append(name)
    found: dict[str, None] = {}
    waiting = deque([dataset])
    while waiting:
        for name in makes[waiting.popleft()]:
            if name != dataset and name not in found:
                found[name] = None
                waiting.append(name)
    return tuple(found)


def _run_of(connection: Connection, partition: int) -> MeasuringRun | None:
    v, r, t = s.partition_version.c, s.run.c, s.run_tag.c
    query = (
        sa.select(r.id, r.started_at, t.value)
        .join_from(s.partition_version, s.run, r.id == v.run_id)
        .outerjoin(s.run_tag, (t.run_id == r.id) & (t.key == JOB))
        .where(v.partition_id == partition, s.holds(s.partition_version))
    )
    row = connection.execute(query).one_or_none()
    return None if row is None else MeasuringRun(*row)
