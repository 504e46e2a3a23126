"""Jobs killed at random moments: the next run ends with the content of an undisturbed run."""

import json
import time
from pathlib import Path

import pytest
from pyarrow.dataset import dataset

import tidegauge as tg
from tests.conftest import soak
from tests.support.kills import kill, random_moments, start, wait_for
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
    """Run a job that writes to the repository, to a sink and to a table of records."""
    from tidegauge.griffin.execution import engine

    engine.BATCH_PARTITIONS = 2
    out = outputs(url)
    source = read("src", "file", {"format": "parquet", "paths": [str(folder)]})
    incomplete = {"type": "record", "name": "incomplete", "table": str(out / "incomplete")}
    rules = [
        rule("id, name", "completeness", "whole", out=("metric", incomplete)),
        rule("name", "uniqueness", "names", details={"duplication.array": "dups"}),
        rule("select ds, name, count(*) as n from src group by ds, name", name="by_name"),
    ]
    sink = {"name": "files", "type": "hdfs", "config": {"path": str(out / "sink")}}
    # Without a timestamp, a run has the time of its start, and so its own folder.
    made = job([source], rules, timestamp=None)
    with tg.Repository(url) as repo:
        tg.griffin.run(
            {"sinks": [sink]}, made, spark=spark, repository=repo, partition_by="ds", samples=1000
        )


def outputs(url):
    """Return the folder of the sink and the table of a run, next to its database."""
    return Path(url.removeprefix("sqlite:///")).with_suffix("")


def content(url):
    """Return the output of a job: numbers, sampled records, the table, and what its sink received.

    A sink receives results again that were not in the ledger, so its folders are compared as a whole.
    """
    with tg.Repository(url) as repo:
        numbers = repo.metrics("job")[["partition", "name", "instance", "value"]]
        samples = repo.verdicts("job")[["name", "partition", "passed", "fingerprint", "result"]]
    rows = dataset(outputs(url) / "incomplete", partitioning="hive").to_table().to_pylist()
    told, records = {}, set()
    for folder in (outputs(url) / "sink" / "job").iterdir():
        if (folder / "_METRICS").exists():
            told[folder.name] = plain(json.loads((folder / "_METRICS").read_text())["value"])
        if (folder / "_FINISH").exists():
            for file in (file for file in folder.iterdir() if file.name[0] not in "._"):
                lines = file.read_text().splitlines()
                records |= {(file.name, plain(json.loads(line))) for line in lines}
    return {
        "numbers": sorted(map(str, numbers.itertuples(index=False))),
        "samples": sorted(
            (*verdict, plain(json.loads(result)))
            for *verdict, result in samples.itertuples(index=False)
        ),
        "table": sorted(map(plain, rows)),
        "told": told,
        "records": sorted(records),
    }


def plain(value):
    """Return a value as a string, without the time of its run and with sorted lists."""
    if isinstance(value, list):
        return str(sorted(map(plain, value)))
    if isinstance(value, dict):
        return str(sorted((key, plain(one)) for key, one in value.items() if key != "__tmst"))
    return str(value)


def test_a_job_killed_at_any_moment_is_completed_by_the_next(spark, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = tmp_path / "src"
    for day in range(DAYS):
        path = folder / f"ds=2023-01-0{day + 1}"
        path.mkdir(parents=True)
        names = [None if i % 5 == 0 else f"n{i % (3 + day)}" for i in range(40)]
        pq.write_table(pa.table({"id": list(range(40)), "name": names}), path / "part.parquet")

    def begin(name):
        ready = tmp_path / f"{name}.ready"
        process = start(JOB, folder, f"sqlite:///{tmp_path / name}.db", ready)
        wait_for(ready, process)
        return process

    whole = begin("whole")
    began = time.monotonic()
    assert whole.wait(600) == 0
    took = time.monotonic() - began
    expected = content(f"sqlite:///{tmp_path / 'whole'}.db")
    assert len(expected["numbers"]) > DAYS * 10
    assert len(expected["samples"]) == 2 * DAYS // 2  # two rules in each batch of two days
    assert len(expected["told"]) == DAYS
    assert len(expected["table"]) == DAYS * 8  # every fifth of forty names is null
    assert len([name for name, _ in expected["records"] if name == "incomplete"]) == DAYS * 8
    draw, seed = random_moments()
    print(f"seed {seed}, {took:.2f} s from session to exit")
    for i in range(soak(3, 40)):
        process = begin(f"k{i}")
        time.sleep(draw.uniform(0, took))
        kill(process)
        url = f"sqlite:///{tmp_path / f'k{i}'}.db"
        run(folder, url, spark)
        found = content(url)
        assert {what: found[what] == expected[what] for what in expected} == dict.fromkeys(
            expected, True
        )
