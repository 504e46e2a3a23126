"""The twelve outcomes of a run in Airflow and Dagster, in their own environments, without Spark."""

import json
import os
import subprocess

import pytest

from tests.paths import ROOT
from tests.services.environments import environment
from tests.support.outcomes import CASES

pytestmark = [pytest.mark.soak, pytest.mark.spark]  # the folder of the environments

EACH = """
import json, sys, tempfile
from pathlib import Path
from types import SimpleNamespace
from tests.support.outcomes import CASES, case_of
from tidegauge.integrations.measuring import MeasurementResult, MeasurementTask

def each(take):
    found = {}
    for name in CASES:
        with tempfile.TemporaryDirectory() as folder, case_of(name, Path(folder)) as case:
            MeasurementTask.run = lambda task, *_: MeasurementResult(case.summary, task)
            found[name] = take(case.fail_on_anomaly)
    print(json.dumps(found))
"""
AIRFLOW = """
from tidegauge.integrations.airflow import TidegaugeOperator

def take(fail_on_anomaly):
    task = TidegaugeOperator(task_id="d", suites="d.yml", fail_on_anomaly=fail_on_anomaly)
    instance = SimpleNamespace(dag_id="q", task_id="d", run_id="r")
    try:
        return task.execute({"ti": instance})["outcome"]
    except Exception as error:
        return type(error).__name__

each(take)
"""
DAGSTER = """
import dagster as dg
from tidegauge.integrations.dagster import asset_checks

instance = dg.DagsterInstance.ephemeral()

@dg.asset
def orders() -> None:
    pass

def take(fail_on_anomaly):
    checks = asset_checks("orders", "d.yml", fail_on_anomaly=fail_on_anomaly, blocking=True)
    done = dg.materialize([orders, checks], instance=instance, raise_on_error=False)
    told = {
        e.check_name: e.severity.name
        for e in done.get_asset_check_evaluations()
        if not e.passed
    }
    return [done.success, told]

each(take)
"""


def run_cases(scheduler, script, folder):
    (folder / "job.py").write_text(EACH + script)
    known = {k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK", "TIDEGAUGE"))}
    homes = {"DAGSTER_HOME": str(folder), "AIRFLOW_HOME": str(folder)}
    ran = subprocess.run(
        [environment(scheduler), "job.py"],
        cwd=folder,
        env=known | homes | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-5000:]
    return json.loads(ran.stdout.splitlines()[-1])


def test_airflow_retries_errors_but_not_bad_data(tmp_path):
    words = {"error": "AirflowException", "failed": "AirflowFailException"}
    expected = {name: words.get(case.outcome, case.outcome) for name, case in CASES.items()}
    assert run_cases("airflow", AIRFLOW, tmp_path) == expected


def test_dagster_shows_no_green_check_for_bad_data(tmp_path):
    """An error fails the run.

    Bad data fails a blocking check. A warning is shown and blocks nothing.
    """
    asset_check = {"check": "checks", "policy": "policies", "anomaly": "anomalies"}
    expected = {
        name: [
            case.outcome in {"passed", "warning"},
            {asset_check[case.fails_by]: "ERROR"}
            if case.outcome == "failed"
            else {"checks": "WARN"}
            if case.outcome == "warning"
            else {},
        ]
        for name, case in CASES.items()
    }
    assert run_cases("dagster", DAGSTER, tmp_path) == expected
