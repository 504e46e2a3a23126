"""Whole commands at once: many schedulers that start `tidegauge run` on one suite in the same moment."""

import os
import subprocess
import sys

import pytest
from tidegauge.repository.maintenance.integrity import check

import tidegauge as tg
from tests.conftest import soak
from tests.paths import ROOT

DAYS = 6
SUITE = """
dataset: days
path: {folder}/
analyzers: [Size, "Mean('x')", "Uniqueness('x')"]
checks:
  - has_size: {{at_least: 100}}
notify: [log]
"""


@pytest.mark.soak
@pytest.mark.spark
def test_runs_of_one_suite_at_once_measure_each_partition_once(url, tmp_path):
    """Each process has a Spark of its own; those that wait for the others find nothing left to do."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for day in range(1, DAYS + 1):
        folder = tmp_path / "days" / f"ds=2013-02-0{day}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"x": list(range(day, day + 100))}), folder / "part.parquet")
    suite = tmp_path / "suite.yml"
    suite.write_text(SUITE.format(folder=tmp_path / "days"))
    processes = []
    for number in range(soak(2, 10)):
        place = tmp_path / str(number)
        place.mkdir()
        processes.append(
            subprocess.Popen(
                [sys.executable, "-m", "tidegauge", "run", str(suite), "--db", url]
                + ["--artifacts", str(tmp_path / "artifacts")],
                cwd=place,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
    said = [process.communicate(timeout=900)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes), said
    with tg.Repository(url, artifacts=tmp_path / "artifacts") as repository:
        assert check(repository.database, repository.artifacts) == []
        runs = repository.runs("days")
        assert runs["status"].tolist() == ["complete"] * len(processes)
        assert sorted(runs["measured"]) == [0] * (len(processes) - 1) + [DAYS]
        found = repository.metrics("days", name="Mean").sort_values("partition")
        assert found["version"].tolist() == [1] * DAYS
        assert found["value"].tolist() == [49.5 + day for day in range(1, DAYS + 1)]
        verdicts = repository.verdicts("days")
        assert sorted(verdicts["partition"]) == sorted(found["partition"])
        assert verdicts["passed"].all()
