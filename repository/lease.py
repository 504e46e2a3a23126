"""Leases: one run at a time measures a dataset.

A lease ends some time after its holder was last heard of, so a dead holder stops nobody for long. Each
new one has a higher number, the fence, which is compared in every commit: a holder that was thought
dead, and was replaced, cannot commit any more.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

import sqlalchemy as sa

from analyzers.errors import LeaseError, RepositoryError
from repository import schema as s
from repository.database import Database, lock_clock

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

LEASE_SECONDS = 60.0
"""How long a lease holds after its holder was last heard of."""
_POLL_SECONDS = 0.5


@contextmanager
def leased(
    database: Database, dataset: str, wait: float, seconds: float = LEASE_SECONDS
) -> Iterator[int]:
    """Hold the lease of a dataset; yield its fence.

    Parameters
    ----------
    database : Database
    dataset : str
    wait : float
        For how many seconds to wait for another holder.
    seconds : float
        How long the lease holds without a word from its holder.

    Raises
    ------
    LeaseError
        If another still holds it after the wait.
    """
    holder = uuid4().hex
    fence = _acquire(database, dataset, holder, wait, seconds)
    stop = threading.Event()
    # A database in memory has one connection, and nobody else who could want the lease.
    if database.is_shared:
        args = (database, dataset, fence, seconds, stop)
        threading.Thread(target=_renew, args=args, daemon=True).start()
    try:
        yield fence
    finally:
        stop.set()
        with suppress(RepositoryError):  # it ends by itself; what went wrong before is the news
            database.write(lambda connection: _end(connection, dataset, fence))


def require_fence(connection: Connection, dataset: str, fence: int) -> None:
    """Raise a `LeaseError` if the lease was taken over."""
    c = s.lease.c
    query = sa.select(c.fence, c.host, c.pid).where(c.dataset == dataset)
    row = connection.execute(query).one_or_none()
    if row is None or row.fence != fence:
        by = "another run" if row is None else f"process {row.pid} on {row.host}"
        msg = (
            f"{by} took over the measuring of {dataset!r}, because this run was not heard of for too"
            " long; what it had committed stays, the rest is the other's"
        )
        raise LeaseError(msg)


def live_since(connection: Connection) -> datetime | None:
    """Return when the oldest run began that is not known to be over; None if there is none."""
    query = sa.select(sa.func.min(s.run.c.started_at)).where(s.run.c.status == "running")
    return connection.execute(query).scalar()


def _acquire(database: Database, dataset: str, holder: str, wait: float, seconds: float) -> int:
    deadline = time.monotonic() + wait
    while True:
        fence, other = database.write(lambda c: _take(c, dataset, holder, seconds))
        if fence is not None:
            return fence
        if time.monotonic() >= deadline:
            msg = (
                f"{dataset!r} is being measured by {other}; wait for it to end, or allow a longer"
                " wait: analyze(..., wait=seconds)"
            )
            raise LeaseError(msg)
        time.sleep(_POLL_SECONDS)


def _take(
    connection: Connection, dataset: str, holder: str, seconds: float
) -> tuple[int | None, str]:
    """Take the lease if it is free; return its fence, or else who has it."""
    lock_clock(connection)  # two who see none would both take it
    c, now = s.lease.c, _now(connection)
    row = connection.execute(sa.select(s.lease).where(c.dataset == dataset)).one_or_none()
    if row is not None and row.holder not in {"", holder}:
        dead = row.host == socket.gethostname() and not alive(row.pid)
        if row.expires_at > now and not dead:
            return None, f"process {row.pid} on {row.host}"
    values = {
        "fence": 1 if row is None else row.fence + 1,
        "holder": holder,
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "expires_at": now + timedelta(seconds=seconds),
    }
    if row is None:
        connection.execute(sa.insert(s.lease).values(dataset=dataset, **values))
    else:
        connection.execute(sa.update(s.lease).where(c.dataset == dataset).values(values))
    return int(str(values["fence"])), ""


def _end(connection: Connection, dataset: str, fence: int) -> None:
    c = s.lease.c
    ours = (c.dataset == dataset) & (c.fence == fence)
    connection.execute(sa.update(s.lease).where(ours).values(holder=""))


def _renew(
    database: Database, dataset: str, fence: int, seconds: float, stop: threading.Event
) -> None:
    def work(connection: Connection) -> None:
        c = s.lease.c
        ours = (c.dataset == dataset) & (c.fence == fence) & (c.holder != "")
        until = _now(connection) + timedelta(seconds=seconds)
        connection.execute(sa.update(s.lease).where(ours).values(expires_at=until))

    while not stop.wait(seconds / 4):
        with suppress(RepositoryError):  # the next commit of the run finds out whether it matters
            database.write(work)


def _now(connection: Connection) -> datetime:
    """Return the time by the database's clock, which all its users share."""
    if connection.dialect.name == "sqlite":
        return datetime.now(UTC)
    found: datetime = connection.execute(sa.select(sa.func.clock_timestamp())).scalar_one()
    return found.astimezone(UTC)


def alive(pid: int) -> bool:
    """Whether a process of this machine lives."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
