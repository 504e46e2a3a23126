"""What schedulers are told of a run. No Spark."""

from types import SimpleNamespace

import pytest
from tidegauge.analysis import Run
from tidegauge.analyzers.runs.ledger import RunStatus
from tidegauge.analyzers.runs.recording import RunReport
from tidegauge.files.runs import Summary
from tidegauge.integrations.measuring import MeasurementTask, Outcome


@pytest.mark.parametrize(
    ("status", "passed"), [("success", True), ("warning", True), ("error", False)]
)
def test_failed_checks_of_a_file_fail_its_dataset(status, passed):
    run = Run(RunReport(1, "d", RunStatus.COMPLETE), None)
    checked = SimpleNamespace(run=run, verification=SimpleNamespace(status=status))
    outcome = Outcome(Summary(runs=[(None, run)], checked=[checked]), MeasurementTask("d.yml"))
    assert outcome.as_json()["datasets"]["d"]["passed"] is passed
    assert outcome.data_failed is not passed
