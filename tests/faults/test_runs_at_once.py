"""Concurrent commands: many schedulers start `tidegauge run` on one suite at the same moment."""

import json
import os
import subprocess
import sys

import pytest

import tidegauge as tg
from tests.conftest import soak
from tests.paths import ROOT
from tests.support.integrity import check
from tests.tidegauge.griffin.jobs import job, read, rule

DAYS = 6
SUITE = """
dataset: days
path: {folder}/
analyzers: [Size, "Mean('x')", "Uniqueness('x')"]
checks:
  - has_size: {{at_least: 100}}
notify: [log]
"""


RULES = """
dataset: days
path: {folder}/
partition_by: [ds]
rules:
  - BoundRule: {{column: x, lower: 0, upper: 101, name: upper}}
quarantine: {folder}_rejects
publish: {folder}_clean
"""


@pytest.fixture
def folder(tmp_path):
    """A table whose day n has the values n to n + 99."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for day in range(1, DAYS + 1):
        place = tmp_path / "days" / f"ds=2013-02-0{day}"
        place.mkdir(parents=True)
        pq.write_table(pa.table({"x": list(range(day, day + 100))}), place / "part.parquet")
    return tmp_path / "days"


def run_at_once(count, url, tmp_path, *arguments):
    """Run a command in several processes, each with its own Spark session; all must succeed."""
    processes = []
    for number in range(count):
        place = tmp_path / str(number)
        place.mkdir()
        processes.append(
            subprocess.Popen(
                [sys.executable, "-m", "tidegauge", *map(str, arguments), "--db", url]
                + ["--artifacts", str(tmp_path / "artifacts")],
                cwd=place,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
    said = [process.communicate(timeout=900)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * count, said
    return said


@pytest.mark.soak
@pytest.mark.spark
def test_runs_of_one_suite_at_once_measure_each_partition_once(url, folder, tmp_path):
    """The runs that wait for the others have nothing left to do."""
    suite = tmp_path / "suite.yml"
    suite.write_text(SUITE.format(folder=folder))
    count = soak(2, 10)
    run_at_once(count, url, tmp_path, "run", suite)
    with tg.Repository(url, artifacts=tmp_path / "artifacts") as repository:
        assert check(repository.database, repository.artifacts) == []
        runs = repository.runs("days")
        assert runs["status"].tolist() == ["complete"] * count
        assert sorted(runs["measured"]) == [0] * (count - 1) + [DAYS]
        frame = repository.metrics("days", name="Mean").sort_values("partition")
        assert frame["version"].tolist() == [1] * DAYS
        assert frame["value"].tolist() == [49.5 + day for day in range(1, DAYS + 1)]
        verdicts = repository.verdicts("days")
        assert sorted(verdicts["partition"]) == sorted(frame["partition"])
        assert verdicts["passed"].all()


@pytest.mark.soak
@pytest.mark.spark
def test_rules_at_once_write_each_partition_once(url, folder, tmp_path):
    """A second writer of the same partitions would share a staging folder with the first."""
    import pyarrow.parquet as pq

    rules = tmp_path / "rules.yml"
    rules.write_text(RULES.format(folder=folder))
    count = soak(2, 10)
    said = run_at_once(count, url, tmp_path, "rules", "run", rules)
    assert sum("written: " in text for text in said) == 1, said
    kept, rejected = (
        {
            place.name: sorted(pq.read_table(place)["x"].to_pylist())
            for place in folder.with_name(f"days_{name}").glob("ds=*")
        }
        for name in ("clean", "rejects")
    )
    days = range(1, DAYS + 1)
    assert kept == {f"ds=2013-02-0{day}": list(range(day, 101)) for day in days}
    assert rejected == {f"ds=2013-02-0{day}": list(range(101, day + 100)) for day in days[1:]}


@pytest.mark.soak
@pytest.mark.spark
def test_griffin_jobs_at_once_measure_each_partition_once(url, folder, tmp_path):
    """The process that waits for the other has nothing left to do."""
    source = read("src", "file", {"format": "parquet", "paths": [str(folder)]})
    made = job([source], [rule("x", "completeness", "whole")], name="days")
    (tmp_path / "dq.json").write_text(json.dumps(made))
    (tmp_path / "env.json").write_text(json.dumps({"sinks": []}))
    count = soak(2, 10)
    files = (tmp_path / "env.json", tmp_path / "dq.json")
    run_at_once(count, url, tmp_path, "griffin", "run", *files, "--partition-by", "ds")
    with tg.Repository(url, artifacts=tmp_path / "artifacts") as repository:
        assert check(repository.database, repository.artifacts) == []
        metrics = repository.metrics("days")
        totals = metrics[metrics["name"] == "Griffin.whole.total"].sort_values("partition")
        assert totals["value"].tolist() == [100.0] * DAYS, metrics
        assert set(metrics["version"]) == {1}
        assert sum(repository.runs("days")["measured"]) == DAYS
