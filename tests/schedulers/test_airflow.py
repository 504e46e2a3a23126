"""The Airflow operator, run by Airflow: good data, bad data, a table that is not there, and again."""

import json
import os
import subprocess

import pytest

import tidegauge as tg
from tests.paths import ROOT
from tests.schedulers.orders import make_orders
from tests.services.environments import environment

pytestmark = [pytest.mark.soak, pytest.mark.spark]

DAG = """
import datetime as dt
from airflow.sdk import DAG
from tidegauge.integrations.airflow import DashboardLink, TidegaugeOperator

with DAG("quality", schedule="@daily", start_date=dt.datetime(2024, 1, 1), catchup=False):
    common = {{
        "partitions": "ds={{{{ ds }}}}",
        "db": "sqlite:///{folder}/r.db",
        "dashboard_url": "http://desk.example.org/{{{{ ds }}}}",
        "retries": 1,
        "retry_delay": dt.timedelta(0),
    }}
    orders = TidegaugeOperator(
        task_id="orders", suites="{suite}", tags={{"team": "{{{{ dag.dag_id }}}}-team"}}, **common
    )
    missing = TidegaugeOperator(task_id="missing", suites="{folder}/missing.yml", **common)
    assert DashboardLink().get_link(orders, ti_key=None).startswith("http://desk.example.org/")
"""
STATES = """
import json, sqlite3, sys
rows = sqlite3.connect(sys.argv[1]).execute("SELECT task_id, state, try_number FROM task_instance")
print(json.dumps({task: [state, tries] for task, state, tries in rows}))
"""


@pytest.fixture(scope="module")
def airflow(tmp_path_factory):
    """Return a function that runs the DAG of a day, and returns each task's state and tries."""
    folder = tmp_path_factory.mktemp("airflow")
    python = environment("airflow")
    suite = make_orders(folder)
    text = suite.read_text()
    (folder / "missing.yml").write_text(
        text.replace("dataset: orders", "dataset: missing").replace(
            "/orders\n", "/no-such-folder\n"
        )
    )
    (folder / "dags").mkdir()
    (folder / "dags" / "quality.py").write_text(DAG.format(folder=folder, suite=suite))
    known = {k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK", "TIDEGAUGE"))}
    settings = known | {
        "AIRFLOW_HOME": str(folder / "home"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(folder / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "PYTHONPATH": str(ROOT),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }

    def command(*arguments):
        done = subprocess.run(
            [python.with_name("airflow"), *arguments],
            cwd=folder,
            env=settings,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    status, told = command("db", "migrate")
    assert status == 0, told

    def run(day):
        _, told = command("dags", "test", "quality", day)
        found = subprocess.run(
            [python, "-c", STATES, folder / "home" / "airflow.db"],
            capture_output=True,
            text=True,
            check=True,
        )
        return json.loads(found.stdout), told

    run.folder = folder
    return run


def history(folder):
    with tg.Repository(f"sqlite:///{folder / 'r.db'}") as repository:
        return (
            repository.metrics("orders", name="Size").set_index("partition")["value"].to_dict(),
            repository.runs("orders"),
        )


def test_tasks_measure_the_partition_of_their_day_and_tell_bad_data_from_failures(airflow):
    states, told = airflow("2024-01-01")
    assert states["orders"] == ["success", 1], told
    assert states["missing"][0] == "failed", told
    assert states["missing"][1] == 2, "it is tried again"
    assert "no data files under" in told
    sizes, runs = history(airflow.folder)
    assert sizes == {"ds=2024-01-01": 3.0}
    tags = runs["tags"].iloc[0]
    assert (tags["dag_id"], tags["task_id"], tags["team"]) == ("quality", "orders", "quality-team")

    states, told = airflow("2024-01-03")  # one of its records is negative
    assert states["orders"] == ["failed", 1], "bad data is not tried again: " + told
    assert history(airflow.folder)[0] == {"ds=2024-01-01": 3.0, "ds=2024-01-03": 2.0}


def test_running_a_day_again_stores_nothing_twice(airflow):
    before = history(airflow.folder)[0]
    states, told = airflow("2024-01-01")
    assert states["orders"][0] == "success", told
    sizes, _ = history(airflow.folder)
    assert sizes == before | {"ds=2024-01-01": 3.0}
    with tg.Repository(f"sqlite:///{airflow.folder / 'r.db'}") as repository:
        versions = repository.partitions("orders", versions="all")["partition"]
    assert not versions.duplicated().any()
