"""Many writers, killed writers, stopped servers and full disks: nothing is lost, and nothing breaks."""

import datetime as dt
import os
import random
import re
import resource
import signal
import subprocess
import sys
import threading
import time

import pytest
import sqlalchemy as sa

import tidegauge as tg
from tests.conftest import soak
from tests.paths import ROOT
from tests.services.servers import kill
from tests.support.integrity import check
from tidegauge.repository.store import schema as s
from tidegauge.repository.store.runs import LEASE_SECONDS
from tidegauge.repository.testing import SIZE, changes, commit, day, spec


def start(*arguments, **options):
    command = [sys.executable, "-u", "-m", "tests.repository.store.writers", *map(str, arguments)]
    return subprocess.Popen(
        command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options
    )


def wait_for_success(process, within=600):
    out, err = process.communicate(timeout=within)
    assert process.returncode == 0, err
    return out


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "artifacts"


@pytest.mark.soak
def test_many_writers_lose_nothing(url, folder):
    """They save shared and separate partitions, records and labels, and no writer gets an error."""
    writers, transactions = soak(6, 8), soak(24, 80)
    with tg.Repository(url, artifacts=folder) as repository:
        commit(repository, *(day(n, rows=n) for n in range(1, 6)), dataset="labelled")
        repository.detect("labelled", [tg.Monitor({"name": "Size"}, tg.SimpleThreshold(2.5))])
        commit(repository, day(1, rows=1))
        started = [start("mixed", url, folder, n, transactions) for n in range(writers)]
        for process in started:
            wait_for_success(process)
        quarter = transactions // 4
        labels = repository.labels("labelled")
        assert sorted(labels["note"]) == sorted(
            f"{w}/{n}" for w in range(writers) for n in range(0, transactions, 4)
        )
        with repository.database.read() as connection:
            facts = connection.execute(
                sa.select(s.series.c.name, s.metric.c.version, s.metric.c.superseded_commit_id)
                .join_from(s.metric, s.series, s.series.c.id == s.metric.c.series_id)
                .where(s.series.c.name.like("writer %"))
            ).all()
            assert len(facts) == writers * quarter  # every record is a separate version
            assert sum(row[2] is None for row in facts) == writers
            v, p = s.partition_version.c, s.partition.c
            versions = connection.execute(
                sa.select(p.name, v.version, v.superseded_commit_id)
                .join_from(s.partition, s.partition_version)
                .join(s.dataset)
                .where(s.dataset.c.name == "d")
            ).all()
        own = [row for row in versions if row[0] > "ds=2013-02"]
        assert len(own) == writers * quarter
        shared = [row for row in versions if row[0] < "ds=2013-02"]
        assert {row[1] for row in shared} == {1}  # the same content has one version
        assert len(set(shared)) == len({row[0] for row in shared})
        assert check(repository.database, repository.artifacts) == []
    print(f"{writers} writers, {transactions} transactions each: nothing lost, nothing twice")


@pytest.mark.soak
@pytest.mark.parametrize("seed", [int(os.environ.get("TIDEGAUGE_SEED", "20130208"))])
def test_a_killed_writer_leaves_complete_batches_and_the_next_continues(url, folder, seed):
    """They are killed at random moments, often inside a transaction."""
    chance, inside, moments = random.Random(seed), 0, soak(6, 20)
    # more if a busy machine lets few of them be inside a transaction
    for number in range(10 * moments):
        if number >= moments and inside >= moments // 5:
            break
        writer = start("endless", url, folder)
        reader = _Lines(writer)
        reader.wait_for("done", 1 + chance.randrange(3))
        time.sleep(chance.random() * 0.03)
        kill(writer)
        reader.join()
        writer.stdout.close()
        writer.stderr.close()
        inside += reader.lines[-1].startswith("begin")
        with tg.Repository(url, artifacts=folder) as repository:
            known = repository.store.ledger("d")
            said = [int(line.split()[1]) for line in reader.lines if line.startswith("done")]
            assert {day(n, only=[SIZE]).partition.name for n in said} <= set(known)
            sizes = repository.metrics("d", name="Size")
            assert len(sizes) == len(known)
    with tg.Repository(url, artifacts=folder) as repository:
        assert check(repository.database, repository.artifacts) == []
        last = len(repository.store.ledger("d"))
        run = repository.store.open_run(spec())
        actual = changes(repository, run, *(day(n, rows=n) for n in range(1, last + 3)))
        assert [str(change) for change in actual] == ["unchanged"] * last + ["new"] * 2
    assert inside >= moments // 5, f"only {inside} kills were inside a transaction"
    print(f"seed {seed}: {number} kills, {inside} of them inside a transaction, {last} partitions")


class _Lines(threading.Thread):
    """Reads the output of a process."""

    def __init__(self, process):
        super().__init__(daemon=True)
        self.process, self.lines = process, []
        self.start()

    def run(self):
        for line in self.process.stdout:
            if line.endswith("\n"):  # a kill may cut a line
                self.lines.append(line)

    def wait_for(self, word, times, within=120.0):
        deadline = time.monotonic() + within
        while sum(line.startswith(word) for line in self.lines) < times:
            assert time.monotonic() < deadline, self.lines
            assert self.process.poll() is None, self.process.stderr.read()
            time.sleep(0.001)


@pytest.mark.soak
@pytest.mark.postgres
def test_a_server_restart_does_not_stop_a_run(tmp_path, postgres):
    """Batches wait for the server, and confirmed batches exist afterwards."""
    from tests.services.servers import postgres as another

    with another() as server:
        url, folder = server.database(), tmp_path / "artifacts"
        tg.Repository(url, artifacts=folder).close()
        writer = start("measure", url, folder, "d", 1, 200)
        lines = _Lines(writer)
        lines.wait_for("measured", 5)
        for mode in ("fast", "immediate"):
            server.stop(mode)
            time.sleep(0.5)
            server.start()
            lines.wait_for("measured", len(lines.lines) + 5)
        assert writer.wait(timeout=300) == 0, writer.stderr.read()
        lines.join()
        writer.stdout.close()
        writer.stderr.close()
        with tg.Repository(url, artifacts=folder) as repository:
            assert len(repository.metrics("d", name="Size")) == 199
            assert set(repository.metrics("d")["version"]) == {1}
            assert check(repository.database, repository.artifacts) == []


@pytest.mark.postgres
def test_a_connection_broken_before_its_transaction_does_not_stop_a_write(tmp_path, postgres):
    """A pool may return a connection that broke a moment ago.

    The write is repeated on another one.
    """
    psycopg = pytest.importorskip("psycopg")
    url, broken = postgres.database(), []
    with tg.Repository(url, artifacts=tmp_path / "artifacts") as repository:
        engine = repository.database.engine
        commit(repository, day(1))

        def break_it(raw, *_):
            if not broken:
                broken.append(raw.info.backend_pid)
                with psycopg.connect(
                    sa.make_url(url).set(drivername="postgresql").render_as_string(False)
                ) as other:
                    other.execute("SELECT pg_terminate_backend(%s)", [raw.info.backend_pid])

        sa.event.listen(engine, "checkout", break_it)
        commit(repository, day(2))
        sa.event.remove(engine, "checkout", break_it)
        assert broken
        assert repository.metrics("d", name="Size")["value"].tolist() == [10.0, 10.0]


def test_a_full_database_is_reported_and_stays_intact(tmp_path):
    """SQLite's own limit: a batch that does not fit leaves nothing, and the rerun completes it."""
    url, folder = f"sqlite:///{tmp_path / 'r.db'}", tmp_path / "artifacts"
    with tg.Repository(url, artifacts=folder) as repository:
        commit(repository, day(1))
        with repository.database.read() as connection:
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar()

        def limit(raw, *_):
            raw.execute(f"PRAGMA max_page_count={pages + 8}").close()

        sa.event.listen(repository.database.engine, "connect", limit)
        repository.database.engine.dispose()
        run = repository.store.open_run(spec())
        done = 1
        with pytest.raises(tg.DatabaseAccessError, match="full"):
            for number in range(2, 2000):
                repository.store.commit_batch(run, [day(number)])
                done = number
        assert len(repository.store.ledger("d")) == done
        assert check(repository.database, repository.artifacts) == []
        sa.event.remove(repository.database.engine, "connect", limit)
        repository.database.engine.dispose()
        actual = changes(repository, run, *(day(n) for n in range(1, done + 3)))
        assert [str(change) for change in actual] == ["unchanged"] * done + ["new"] * 2
        assert check(repository.database, repository.artifacts) == []


@pytest.mark.soak
def test_a_full_disk_is_reported_and_stays_intact(tmp_path):
    """A limit on the size of files simulates a full disk."""
    url, folder = f"sqlite:///{tmp_path / 'r.db'}", tmp_path / "artifacts"
    with tg.Repository(url, artifacts=folder) as repository:
        commit(repository, day(1))
    size = (tmp_path / "r.db").stat().st_size + 200_000

    def limited():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    writer = start("measure", url, folder, "d", 1, 5000, preexec_fn=limited)
    out, err = writer.communicate(timeout=300)
    assert writer.returncode != 0
    assert re.search(r"DatabaseAccessError: cannot open or write .*(full|disk I/O error)", err)
    said = [int(line.split()[1]) for line in out.splitlines() if line.startswith("measured")]
    assert said
    with tg.Repository(url, artifacts=folder) as repository:
        assert check(repository.database, repository.artifacts) == []
        known = repository.store.ledger("d")
        assert {day(n, only=[SIZE]).partition.name for n in said} <= set(known)
    wait_for_success(start("measure", url, folder, "d", 1, len(known) + 50))
    with tg.Repository(url, artifacts=folder) as repository:
        assert len(repository.store.ledger("d")) >= len(known) + 49
        assert check(repository.database, repository.artifacts) == []


# Leases


@pytest.mark.soak
def test_concurrent_runs_of_one_dataset_measure_nothing_twice(url, folder):
    """Two runs start together as by schedulers, ten in a soak test.

    All but the first have nothing left to measure.
    """
    tg.Repository(url, artifacts=folder).close()
    runs = [start("measure", url, folder, "d", 1, 12) for _ in range(soak(2, 10))]
    *waited, first = sorted(wait_for_success(run).count("measured") for run in runs)
    assert (set(waited), first) == ({0}, 11)
    with tg.Repository(url, artifacts=folder) as repository:
        assert set(repository.metrics("d")["version"]) == {1}
        assert repository.metrics("d", name="Size")["value"].tolist() == list(range(1, 12))
        assert repository.runs("d")["status"].tolist() == ["complete"] * len(runs)
        assert check(repository.database, repository.artifacts) == []


@pytest.mark.soak
def test_a_lease_timeout_names_the_holder(url, folder):
    with tg.Repository(url, artifacts=folder) as repository:
        holder = start("leased", url, folder, "d", 5, 30)
        _Lines(holder).wait_for("held", 1)
        with (
            pytest.raises(tg.LeaseError, match=rf"measured by process {holder.pid} on .*wait="),
            repository.store.hold("d", 0.1),
        ):
            pass
        with repository.store.hold("another", 0):
            pass  # it is free
        kill(holder)
        holder.stdout.close()
        holder.stderr.close()
        with repository.store.hold("d", 0):  # a dead holder on this machine is not waited for
            pass


def test_a_replaced_lease_holder_cannot_commit(url, folder):
    """A holder that does not renew its lease is replaced when it ends, and its commits are refused."""
    with tg.Repository(url, artifacts=folder) as repository:
        store = repository.store
        with store.hold("d", 0) as fence:
            run = store.open_run(spec(), fence)
            store.commit_batch(run, [day(1)])
            # as if from another host, long ago
            with repository.database.transaction() as connection:
                past = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=2 * LEASE_SECONDS)
                connection.execute(
                    sa.update(s.lease).values(
                        holder="other", host="elsewhere", pid=1, expires_at=past
                    )
                )
            with store.hold("d", 0) as second:
                assert second > fence
                with pytest.raises(tg.LeaseError, match="took over measuring 'd'"):
                    store.commit_batch(run, [day(2)])
                with pytest.raises(tg.LeaseError):
                    store.mark_gone(run, ["ds=2013-01-01"])
                mine = store.open_run(spec(), second)
                store.commit_batch(mine, [day(2)])
        assert set(store.ledger("d")) == {"ds=2013-01-01", "ds=2013-01-02"}
        assert check(repository.database, repository.artifacts) == []


@pytest.mark.soak
def test_a_living_holder_keeps_its_lease(url, folder):
    """It renews the lease while it works."""
    from tidegauge.repository.store.runs import hold_lease

    with tg.Repository(url, artifacts=folder) as repository:
        with hold_lease(repository.database, "d", 0, seconds=0.4):
            time.sleep(1.0)
            with repository.database.read() as connection:
                row = connection.execute(sa.select(s.lease)).one()
            holder = row.holder
            assert holder
            with repository.database.transaction() as connection:  # not a dead process of this host
                connection.execute(sa.update(s.lease).values(host="elsewhere"))
            with pytest.raises(tg.LeaseError), hold_lease(repository.database, "d", 0):
                pass
        with hold_lease(repository.database, "d", 0):
            pass
