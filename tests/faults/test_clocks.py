"""A clock that is set back: nothing is lost, overwritten or out of order, and no process waits for the future."""

import datetime as dt
import os
import sys
import threading

import pytest
import sqlalchemy as sa

import tidegauge as tg
from tests.support.integrity import check
from tidegauge.repository.store import runs
from tidegauge.repository.store import schema as s
from tidegauge.repository.testing import commit, day


@pytest.fixture
def clock(monkeypatch):
    """Replace the clock of all modules; return a function that sets how far it is ahead."""
    ahead = dt.timedelta()

    class Datetimes(type):
        def __instancecheck__(cls, one):
            return isinstance(one, dt.datetime)

    class Clock(dt.datetime, metaclass=Datetimes):
        @classmethod
        def now(cls, tz=None):
            return dt.datetime.now(tz) + ahead

    for name, module in sorted(sys.modules.items()):
        if (
            name.startswith("tidegauge.repository.")
            and getattr(module, "datetime", 0) is dt.datetime
        ):
            monkeypatch.setattr(module, "datetime", Clock)

    def set_ahead(**units):
        nonlocal ahead
        ahead = dt.timedelta(**units)

    return set_ahead


def test_commits_keep_their_order(tmp_path, clock):
    """Views of an earlier time show the commits up to then, in their order."""
    with tg.Repository(f"sqlite:///{tmp_path / 'r.db'}") as repository:
        clock(days=2)
        commit(repository, day(1, rows=1))
        clock(days=0)
        commit(repository, day(1, "b", rows=2), day(2, "b", rows=4))
        repository.record("d", "y", 1.0, partition="ds=2013-01-01")
        repository.record("d", "y", 2.0, partition="ds=2013-01-01")
        assert repository.metrics("d", name="Size")["value"].tolist() == [2, 4]
        assert repository.metrics("d", name="y")["value"].tolist() == [2]
        with repository.database.read() as connection:
            order = sa.select(s.commit.c.committed_at).order_by(s.commit.c.id)
            times = connection.execute(order).scalars().all()
        assert len(times) >= 4
        assert times == sorted(times)
        later = dt.datetime.now(dt.UTC) + dt.timedelta(days=3)
        assert repository.metrics("d", name="Size", as_of=later)["value"].tolist() == [2, 4]
        versions = repository.versions("d", "ds=2013-01-01", name="y")
        assert [n for n in versions.columns if isinstance(n, int)] == [1, 2]
        assert check(repository.database, repository.artifacts) == []


def test_a_lease_from_a_clock_ahead_expires_when_it_is_not_renewed(tmp_path, clock, monkeypatch):
    """Its holder died on another host; by this host's clock it would be valid for a year."""
    monkeypatch.setattr(runs, "_POLL_SECONDS", 0.02)
    with tg.Repository(f"sqlite:///{tmp_path / 'r.db'}") as repository:
        clock(days=365)
        with repository.store.hold("d", 0):
            pass
        clock(days=0)
        with repository.database.transaction() as connection:
            values = {"holder": "dead", "host": "elsewhere", "pid": os.getpid()}
            connection.execute(sa.update(s.lease).values(values))
        with pytest.raises(tg.LeaseError, match=r"measured by process \d+ on elsewhere"):
            runs._acquire(repository.database, "d", "me", 0.1, 0.4)
        assert runs._acquire(repository.database, "d", "me", 60, 0.4) == 2


@pytest.mark.soak
def test_a_renewed_lease_is_waited_for(tmp_path, clock, monkeypatch):
    monkeypatch.setattr(runs, "_POLL_SECONDS", 0.02)
    with tg.Repository(f"sqlite:///{tmp_path / 'r.db'}") as repository:
        database, stop = repository.database, threading.Event()
        clock(days=365)
        with runs.hold_lease(database, "d", 0, seconds=60) as fence:
            clock(days=0)
            holder = threading.Thread(target=runs._renew, args=(database, "d", fence, 0.4, stop))
            holder.start()
            try:
                with pytest.raises(tg.LeaseError, match="is being measured"):
                    runs._acquire(database, "d", "me", 2, 0.8)
            finally:
                stop.set()
                holder.join()
