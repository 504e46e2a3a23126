"""Connections that break in the middle of COMMIT: everything is written once, and nothing is lost."""

import os
import random

import pytest
import sqlalchemy as sa

import tidegauge as tg
from tests.conftest import soak
from tests.faults.proxy import Proxy
from tests.support.integrity import check
from tidegauge.analyzers.runs.recording import recording
from tidegauge.repository.store import schema as s
from tidegauge.repository.testing import day, judged, spec


@pytest.mark.soak
@pytest.mark.postgres
@pytest.mark.parametrize("seed", [int(os.environ.get("TIDEGAUGE_SEED", "20130208"))])
def test_commits_that_break_are_done_once(postgres, tmp_path, seed):
    """Runs, batches, values, labels and verdicts, through a proxy that breaks two of five commits."""
    draw = random.Random(seed)
    days = soak(8, 200)

    def fate(_):
        return draw.choices(["pass", "before", "after"], [3, 1, 1])[0]

    with Proxy(postgres.port, fate) as proxy:
        url = postgres.database().replace(str(postgres.port), str(proxy.port))
        with tg.Repository(url, artifacts=tmp_path) as repository:
            repository.record("d", "y", {f"ds=2012-12-{n:02}": 1.0 for n in range(1, 31)})
            repository.record("d", "y", 99.0, partition="ds=2012-12-31")
            repository.detect("d", [tg.Monitor({"name": "y"}, tg.SimpleThreshold(2.5))])
            (anomaly,) = repository.anomalies("d")["id"]
            proxy.armed = True
            for number in range(1, days + 1):
                with recording(repository.store, spec(source=None)) as run:
                    run.commit([day(number, rows=number)])
                repository.record("d", "z", float(number), partition="ds=2013-01-01")
                repository.label(int(anomaly), "acknowledged", note=str(number))
                judged(repository, fingerprint=str(number))
            proxy.armed = False
            assert repository.runs("d")["status"].tolist() == ["complete"] * days
            assert repository.runs("d")["measured"].tolist() == [1] * days
            sizes = repository.metrics("d", name="Size")
            assert sizes["value"].tolist() == list(range(1, days + 1))
            assert set(sizes["version"]) == {1}
            versions = repository.versions("d", "ds=2013-01-01", name="z")
            assert [n for n in versions.columns if isinstance(n, int)] == list(range(1, days + 1))
            notes = repository.labels("d")["note"].tolist()
            assert notes == [str(n) for n in range(1, days + 1)]
            assert len(repository.verdicts("d")) == days
            assert check(repository.database, repository.artifacts) == []
            with repository.database.read() as connection:
                assert connection.execute(sa.select(s.lease.c.holder)).scalars().all() == [""]
    print(
        f"seed {seed}: {proxy.commits} commits, {proxy.broken} broken: nothing lost, nothing twice"
    )
    assert min(proxy.broken.values()) > 0
