"""What schedulers are told of a run. No Spark."""

import pytest
from tidegauge.integrations.measuring import MeasurementResult, MeasurementTask

from tests.support.outcomes import CASES, GOOD, HEAD, Making, case_of, size


@pytest.mark.parametrize("name", CASES)
def test_the_result_of_a_task_is_that_of_the_run(name, tmp_path):
    with case_of(name, tmp_path) as case:
        task = MeasurementTask("d.yml", fail_on_anomaly=case.fail_on_anomaly)
        result = MeasurementResult(case.summary, task)
        assert result.outcome == case.outcome
        told = result.as_json()
        assert told["outcome"] == case.outcome
        assert told["failed"] == case.summary.failed
        bad = {"d"} if case.fails_by in {"check", "policy"} else set()
        assert {name for name, run in told["datasets"].items() if not run["passed"]} == bad


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
def test_the_log_names_five_partitions_at_most(repo, tmp_path, text, days, line):
    making = Making(repo, tmp_path)
    making.run(text, *map(size, days))
    first, *_ = MeasurementResult(making.summary, MeasurementTask("d.yml")).text.splitlines()
    assert first.startswith(f"d: {len(days)} partitions measured: {line}")
