"""Jobs that are killed at random moments: the next run ends with what an undisturbed one leaves."""

import os
import random
import signal
import time

import pytest

import tidegauge as tg
from tests.conftest import soak
from tests.test_killed import start
from tests.tidegauge.griffin.jobs import job, read, rule

pytestmark = [pytest.mark.soak, pytest.mark.spark]
DAYS = 8
JOB = """
import sys
import tidegauge as tg
from tests.tidegauge.griffin.test_killed_jobs import run
spark = tg.spark_session()
spark.sql("SELECT 1").collect()
open(sys.argv[3], "w").close()
run(*sys.argv[1:3], spark)
"""


def run(folder, url, spark):
    from tidegauge.griffin.execution import incremental

    incremental.BATCH = 2
    source = read("src", "file", {"format": "parquet", "paths": [str(folder)]})
    rules = [
        rule("id, name", "completeness", "whole"),
        rule("name", "uniqueness", "names", details={"duplication.array": "dups"}),
        rule("select ds, name, count(*) as n from src group by ds, name", name="by_name"),
    ]
    with tg.Repository(url) as repo:
        tg.griffin.run({}, job([source], rules), spark=spark, repository=repo, partition_by="ds")


def content(url):
    with tg.Repository(url) as repo:
        found = repo.metrics("job")[["partition", "name", "instance", "value"]]
        return sorted(map(str, found.itertuples(index=False)))


def test_a_job_killed_at_any_moment_is_finished_by_the_next(spark, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = tmp_path / "src"
    for day in range(DAYS):
        of = folder / f"ds=2023-01-0{day + 1}"
        of.mkdir(parents=True)
        names = [None if i % 5 == 0 else f"n{i % (3 + day)}" for i in range(40)]
        pq.write_table(pa.table({"id": list(range(40)), "name": names}), of / "part.parquet")

    def begin(name):
        ready = tmp_path / f"{name}.ready"
        process = start(JOB, folder, f"sqlite:///{tmp_path / name}.db", ready)
        while not ready.exists() and process.poll() is None:
            time.sleep(0.01)
        return process

    whole = begin("whole")
    began = time.monotonic()
    assert whole.wait(600) == 0
    took = time.monotonic() - began
    wanted = content(f"sqlite:///{tmp_path / 'whole'}.db")
    assert len(wanted) > DAYS * 10
    seed = random.randrange(2**31)
    print(f"seed {seed}, {took:.2f} s from session to exit")
    draw = random.Random(seed)
    for i in range(soak(3, 40)):
        process = begin(f"k{i}")
        time.sleep(draw.uniform(0, took))
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(60)
        url = f"sqlite:///{tmp_path / f'k{i}'}.db"
        run(folder, url, spark)
        assert content(url) == wanted
