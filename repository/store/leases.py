"""Leases with fencing tokens: one run at a time measures a dataset.

A lease expires some time after its last renewal, so a dead holder blocks nobody for long, nor does one
whose clock ran ahead: who waits sees that it is not renewed. Each new lease has a higher fencing token, the fence, which is compared in every commit of the run: a holder
that was presumed dead and replaced can no longer commit.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import sqlalchemy as sa

from tidegauge.analyzers.core.errors import LeaseError, RepositoryError
from tidegauge.repository.store import schema as s
from tidegauge.repository.store.database import Database, lock_clock

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

LEASE_SECONDS = 60.0
"""Seconds after its last renewal at which a lease expires."""
_POLL_SECONDS = 0.5


@contextmanager
def hold_lease(
    database: Database, dataset: str, wait: float, seconds: float = LEASE_SECONDS
) -> Iterator[int]:
    """Hold the lease of a dataset; yield its fence.

    Parameters
    ----------
    database : Database
    dataset : str
    wait : float
        Seconds to wait for another holder.
    seconds : float
        Seconds until the lease expires without renewal; it is renewed after every quarter of them.

    Raises
    ------
    LeaseError
        If another still holds it after the wait.
    """
    holder = uuid4().hex
    fence = _acquire(database, dataset, holder, wait, seconds)
    stop = threading.Event()
    # A database in memory has one connection, and no other process that could want the lease.
    if database.is_shared:
        args = (database, dataset, fence, seconds, stop)
        threading.Thread(target=_renew, args=args, daemon=True).start()
    try:
        yield fence
    finally:
        stop.set()
        with suppress(RepositoryError):  # it expires by itself; an earlier error must not be masked
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


def oldest_running_start(connection: Connection) -> datetime | None:
    """Return the start of the oldest run still marked as running; None if there is none."""
    query = sa.select(sa.func.min(s.run.c.started_at)).where(s.run.c.status == "running")
    return connection.execute(query).scalar()


def _acquire(database: Database, dataset: str, holder: str, wait: float, seconds: float) -> int:
    deadline = time.monotonic() + wait
    seen, since = None, time.monotonic()
    while True:
        lapsed = seen if time.monotonic() - since > seconds else None
        fence, other = database.write(partial(_take, dataset, holder, seconds, lapsed))
        if fence is not None:
            return fence
        if other != seen:
            seen, since = other, time.monotonic()
        if time.monotonic() >= deadline:
            assert other is not None
            msg = (
                f"{dataset!r} is being measured by process {other.pid} on {other.host}; wait for it to end, or allow a longer"
                " wait: analyze(..., wait=seconds)"
            )
            raise LeaseError(msg)
        time.sleep(_POLL_SECONDS)


def _take(
    dataset: str, holder: str, seconds: float, lapsed: sa.Row[Any] | None, connection: Connection
) -> tuple[int | None, sa.Row[Any] | None]:
    """Take the lease if it is free or as it was when it lapsed; return its fence, or None and the lease."""
    lock_clock(connection)  # otherwise two that find no lease would both take it
    c, now = s.lease.c, _now(connection)
    row = connection.execute(sa.select(s.lease).where(c.dataset == dataset)).one_or_none()
    if row is not None and row.holder not in {"", holder}:
        dead = row.host == socket.gethostname() and not is_process_alive(row.pid)
        if row.expires_at > now and not dead and row != lapsed:
            return None, row
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
    return int(str(values["fence"])), None


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
        with suppress(RepositoryError):  # the run's next commit checks the fence anyway
            database.write(work)


def _now(connection: Connection) -> datetime:
    """Return the time by a clock that all users share: the server's, or this host's for SQLite."""
    if connection.dialect.name == "sqlite":
        return datetime.now(UTC)
    found: datetime = connection.execute(sa.select(sa.func.clock_timestamp())).scalar_one()
    return found.astimezone(UTC)


def is_process_alive(pid: int) -> bool:
    """Return whether a process of this host is alive."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
