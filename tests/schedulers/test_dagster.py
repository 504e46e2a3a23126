"""The Dagster asset, its checks and the cookbook's recipe, run by Dagster.

The cases are good data, bad data, and a missing table.
"""

import json
import os
import subprocess

import pytest

import tidegauge as tg
from tests.docs.pages import blocks_run_by
from tests.paths import ROOT
from tests.schedulers.orders import make_orders
from tests.services.environments import environment

pytestmark = [pytest.mark.soak, pytest.mark.spark]

JOB = '''
import json, sys
import dagster as dg
from tidegauge.integrations.dagster import asset_checks, measured_asset

folder = sys.argv[1]
days = dg.DailyPartitionsDefinition(start_date="2024-01-01")
where = {"db": f"sqlite:///{folder}/r.db", "dashboard_url": "http://desk.example.org/"}

@dg.asset(partitions_def=days)
def orders(context) -> None:
    """The table, which is there."""

checks = asset_checks(
    orders.key, f"{folder}/orders.yml", partition="ds={partition_key}", partitions_def=days, **where
)
quality = measured_asset("orders_quality", f"{folder}/orders.yml", deps=[orders.key], **where)
missing = measured_asset("missing", f"{folder}/missing.yml", **where)

def told(result):
    return {
        "success": result.success,
        "checks": {e.check_name: e.passed for e in result.get_asset_check_evaluations()},
        "metadata": [
            sorted(m.metadata)
            for node in ("orders_quality",)
            for m in (result.asset_materializations_for_node(node) if result.success else [])
        ],
    }

instance = dg.DagsterInstance.ephemeral()
def run(assets, **options):
    return told(dg.materialize(assets, instance=instance, raise_on_error=False, **options))

print(json.dumps({
    "first": run([orders, checks], partition_key="2024-01-01"),
    "third": run([orders, checks], partition_key="2024-01-03"),
    "range": run([orders, checks], tags={
        "dagster/asset_partition_range_start": "2024-01-01",
        "dagster/asset_partition_range_end": "2024-01-02",
    }),
    "all": run([orders, quality], selection=[quality]),
    "missing": run([missing]),
}))
'''
RECIPE_DEFINITIONS = '''
import dagster as dg

@dg.asset(partitions_def=dg.DailyPartitionsDefinition(start_date="2024-01-01"))
def orders(context) -> None:
    """The table, which is there."""

{recipe}
'''
RECIPE_RUNS = """
import json
import dagster as dg
from definitions import checks, defs, orders, quality

dg.Definitions.validate_loadable(defs)
instance = dg.DagsterInstance.ephemeral()

def run(assets, **options):
    result = dg.materialize(assets, instance=instance, raise_on_error=False, **options)
    return [result.success, {e.check_name: e.passed for e in result.get_asset_check_evaluations()}]

print(json.dumps({
    "good day": run([orders, checks], partition_key="2024-01-01"),
    "bad day": run([orders, checks], partition_key="2024-01-03"),
    "all": run([orders, quality], selection=[quality]),
}))
"""


def run_in_dagster(folder, script, *arguments, **variables):
    """Run a script with Dagster's Python, and return its last line of output as JSON, and its log."""
    known = {k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK", "TIDEGAUGE"))}
    settings = known | {
        "DAGSTER_HOME": str(folder),
        "PYTHONPATH": str(ROOT),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    (folder / "job.py").write_text(script)
    ran = subprocess.run(
        [environment("dagster"), "job.py", *arguments],
        cwd=folder,
        env=settings | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-5000:]
    return json.loads(ran.stdout.splitlines()[-1]), ran.stderr


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """The results of the runs by name, and the folder of the repository."""
    folder = tmp_path_factory.mktemp("dagster")
    suite = make_orders(folder)
    missing = suite.read_text().replace("dataset: orders", "dataset: missing")
    (folder / "missing.yml").write_text(missing.replace("/orders\n", "/no-such-folder\n"))
    results, log = run_in_dagster(folder, JOB, str(folder))
    return results, log, folder


def test_checks_measure_the_partitions_of_their_run(done):
    results, log, folder = done
    good = {"checks": True, "policies": True, "anomalies": True}
    assert results["first"] == {"success": True, "checks": good, "metadata": []}, log
    assert results["third"]["checks"] == good | {"policies": False}, log
    assert results["range"]["checks"] == good, log
    with tg.Repository(f"sqlite:///{folder / 'r.db'}") as repository:
        runs = repository.runs("orders")
        versions = repository.partitions("orders", versions="all")["partition"]
    assert runs.sort_values("run_id")["selection"].tolist()[:3] == [
        "ds=2024-01-01",
        "ds=2024-01-03",
        "ds=2024-01-01, ds=2024-01-02",
    ]
    assert sorted(versions) == ["ds=2024-01-01", "ds=2024-01-02", "ds=2024-01-03"]


def test_an_asset_contains_the_summary_and_its_checks(done):
    results, log, _ = done
    assert results["all"]["success"], log
    assert results["all"]["metadata"] == [
        ["anomalies", "dashboard", "datasets", "outcome", "summary"]
    ]
    assert results["all"]["checks"] == {"checks": True, "policies": False, "anomalies": True}


def test_a_table_that_cannot_be_measured_fails_the_run(done):
    results, log, _ = done
    assert not results["missing"]["success"]
    assert "no data files under" in log


def test_the_cookbooks_recipe_runs_as_printed(postgres, tmp_path):
    suite = make_orders(tmp_path)
    (tmp_path / "suites").mkdir()
    suite.rename(tmp_path / "suites" / "orders.yml")
    (recipe,) = (block.code for block in blocks_run_by(__file__))
    (tmp_path / "definitions.py").write_text(RECIPE_DEFINITIONS.format(recipe=recipe))
    url, artifacts = postgres.database(), tmp_path / "artifacts"
    results, log = run_in_dagster(
        tmp_path, RECIPE_RUNS, TIDEGAUGE_DB=url, TIDEGAUGE_ARTIFACTS=str(artifacts)
    )
    success, checks = results["good day"]
    assert success, log
    assert all(checks.values()), log
    for name in ("bad day", "all"):
        success, checks = results[name]
        assert success, "an asset check that fails does not fail the run: " + log
        assert not checks["policies"], log
    with tg.Repository(url, artifacts=artifacts) as repository:
        sizes = repository.metrics("orders", name="Size").set_index("partition")["value"]
    assert sizes.to_dict() == {"ds=2024-01-01": 3.0, "ds=2024-01-02": 2.0, "ds=2024-01-03": 2.0}
