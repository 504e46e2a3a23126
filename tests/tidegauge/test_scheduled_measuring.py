"""Results of runs for schedulers, and retries of their tasks."""

import pytest

import tidegauge as tg
from tests.support.outcomes import CASES, GOOD, HEAD, Making, case_of, size
from tidegauge.integrations.measuring import MeasurementResult, MeasurementTask
from tidegauge.outcome import Outcome


@pytest.mark.parametrize("name", CASES)
def test_the_result_of_a_task_is_the_result_of_the_run(name, tmp_path):
    with case_of(name, tmp_path) as case:
        task = MeasurementTask("d.yml", fail_on_anomaly=case.fail_on_anomaly)
        result = MeasurementResult(case.summary, task)
        assert result.outcome == case.outcome
        reported = result.as_json()
        assert reported["outcome"] == case.outcome
        assert reported["failed"] == case.summary.failed
        bad = {"d"} if case.fails_by in {"check", "policy"} else set()
        assert {name for name, run in reported["datasets"].items() if not run["passed"]} == bad


LINES = {
    "everything passes": "d: 1 partition measured: ds=2013-01-01, 1 of 1 check passed",
    "a check fails": "d: 1 partition measured: ds=2013-01-01, 0 of 1 check passed",
    "a policy fails": "d: 1 partition measured: ds=2013-01-01",
    "a partition cannot be read": "d: 1 partition measured: ds=2013-01-01, 1 of 1 check passed",
    "a table is missing": "failed: d.yml: no table db.t",
    "a table has no partition": "d: no partition measured, 0 of 1 check passed",
    "a failure is known": "d: 1 partition measured: ds=2013-01-02, 1 of 1 check passed",
}


@pytest.mark.parametrize("name", LINES)
def test_the_log_begins_with_the_partitions_of_each_table(name, tmp_path):
    with case_of(name, tmp_path) as case:
        text = MeasurementResult(case.summary, MeasurementTask("d.yml")).text
    first, *others = text.splitlines()
    assert first == LINES[name]
    assert first not in others


@pytest.mark.parametrize(
    ("text", "days", "line"),
    [
        (GOOD, range(1, 6), ", ".join(f"ds=2013-01-0{n}" for n in range(1, 6)) + ", 1 of 1 check"),
        (HEAD, range(1, 9), ", ".join(f"ds=2013-01-0{n}" for n in range(1, 6)) + " and 3 more"),
    ],
)
def test_the_log_names_at_most_five_partitions(repo, tmp_path, text, days, line):
    making = Making(repo, tmp_path)
    making.run(text, *map(size, days))
    first, *_ = MeasurementResult(making.summary, MeasurementTask("d.yml")).text.splitlines()
    assert first.startswith(f"d: {len(days)} partitions measured: {line}")


SUITE = """
dataset: {name}
{source}
partition_by: [ds]
analyzers: [Size]
checks:
  - is_complete: id
"""
DAY = "ds=2026-01-31"


@pytest.mark.parametrize("absent", ["table", "folder", "partition"])
def test_a_retry_succeeds_once_the_data_exists(absent, spark, tmp_path):
    """The first try fails with an error, which is retried. The second stores the day once."""
    name, folder = f"retried_{absent}", tmp_path / "orders"

    def write(day):
        rows = spark.sql(f"SELECT 1 AS id, '{day}' AS ds").coalesce(1).write.partitionBy("ds")
        if absent == "folder":
            rows.parquet(str(folder))
        else:
            rows.saveAsTable(name, mode="append")

    source = f"path: {folder}" if absent == "folder" else f"table: {name}"
    suite = tmp_path / "orders.yml"
    suite.write_text(SUITE.format(name=name, source=source))
    task = MeasurementTask(str(suite), f"sqlite:///{tmp_path / 'r.db'}", session=lambda: spark)
    try:
        if absent == "partition":
            write("2026-01-30")
        first = task.run(DAY, {})
        assert first.outcome is Outcome.ERROR, first.text
        write("2026-01-31")
        retry = task.run(DAY, {})
        again = task.run(DAY, {})
    finally:
        spark.sql(f"DROP TABLE IF EXISTS {name}")
    assert retry.outcome is Outcome.PASSED, retry.text
    line = f"{name}: 1 partition measured: {DAY}, 1 of 1 check passed\n"
    assert retry.text.startswith(line)
    assert retry.as_json()["datasets"][name]["status"] == "complete"
    assert again.outcome is Outcome.PASSED, again.text
    assert again.text.startswith(line), "a day that is chosen is measured again"
    with tg.Repository(task.db) as repository:
        stored = repository.partitions(name, versions="all")
        statuses = repository.runs(name).sort_values("run_id")["status"].tolist()
    assert stored[["partition", "version"]].to_numpy().tolist() == [[DAY, 1]]
    assert statuses[:2] == ["failed", "complete"]
