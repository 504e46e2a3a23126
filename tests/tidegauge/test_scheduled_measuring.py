"""What schedulers are told of a run. No Spark."""

import pytest
from tidegauge.integrations.measuring import MeasurementResult, MeasurementTask

from tests.support.outcomes import CASES, case_of


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
