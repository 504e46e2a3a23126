"""The Airflow operator and the cookbook's recipes, run by Airflow.

The cases are good data, bad data, a missing table, and a repeated day.
"""

import json
import os
import subprocess
import textwrap

import pytest

import tidegauge as tg
from tests.docs.pages import blocks_run_by
from tests.paths import ROOT
from tests.schedulers.orders import make_orders
from tests.schedulers.recipes import with_real_places
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
RECIPE_DAG = """
import datetime as dt
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG

with DAG("{name}", schedule="@daily", start_date=dt.datetime(2024, 1, 1), catchup=False):
    load_orders = EmptyOperator(task_id="load_orders")
    publish_orders = EmptyOperator(task_id="publish_orders")
{recipe}
"""
STATES = """
import json, sqlite3, sys
query = (
    "SELECT task_id, t.state, try_number FROM task_instance t JOIN dag_run r USING (dag_id, run_id)"
    " WHERE dag_id = ? ORDER BY r.id"
)
rows = sqlite3.connect(sys.argv[1]).execute(query, sys.argv[2:])
print(json.dumps({task: [state, tries] for task, state, tries in rows}))
"""


@pytest.fixture(scope="module")
def airflow(tmp_path_factory):
    """Return a function that runs the DAG of a day, and returns the state and tries of each task."""
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
    (folder / "bin").mkdir()
    command_line = folder / "bin" / "tidegauge"
    command_line.write_text(f'#!/bin/sh\nexec {python} -m tidegauge "$@"\n')
    command_line.chmod(0o755)
    known = {k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK", "TIDEGAUGE"))}
    settings = known | {
        "AIRFLOW_HOME": str(folder / "home"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(folder / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }

    def command(*arguments, **variables):
        done = subprocess.run(
            [python.with_name("airflow"), *arguments],
            cwd=folder,
            env=settings | variables,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    status, reported = command("db", "migrate")
    assert status == 0, reported

    def run(day, dag="quality", **variables):
        _, reported = command("dags", "test", dag, day, **variables)
        result = subprocess.run(
            [python, "-c", STATES, folder / "home" / "airflow.db", dag],
            capture_output=True,
            text=True,
            check=True,
        )
        return json.loads(result.stdout), reported

    run.folder, run.suite = folder, suite
    return run


@pytest.fixture
def run_recipe(airflow):
    """Return a function that runs a recipe as a DAG on a good and a bad day, and checks the tasks."""

    def run(name, recipe, places, **variables):
        recipe = with_real_places(recipe, {"/suites/orders.yml": airflow.suite} | places)
        code = RECIPE_DAG.format(name=name, recipe=textwrap.indent(recipe, "    "))
        (airflow.folder / "dags" / f"{name}.py").write_text(code)
        states, log = airflow("2024-01-01", name, **variables)
        assert {state for state, _ in states.values()} == {"success"}, log
        states, log = airflow("2024-01-03", name, **variables)
        assert states["load_orders"][0] == "success", log
        assert states["measure_orders"] == ["failed", 1], "bad data is not tried again: " + log
        assert states["publish_orders"][0] == "upstream_failed", log

    return run


OPERATOR, COMMAND_LINE = (block.code for block in blocks_run_by(__file__))
SIZES = {"ds=2024-01-01": 3.0, "ds=2024-01-03": 2.0}


def test_the_cookbooks_operator_runs_as_printed(run_recipe, postgres, s3, monkeypatch):
    places = {
        "postgresql+psycopg://tidegauge@db/tidegauge": postgres.database(),
        "s3://bucket/tidegauge": f"s3://{s3.bucket()}/tidegauge",
    }
    run_recipe("operator", OPERATOR, places, **s3.environment)
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    url, artifacts = places.values()
    with tg.Repository(url, artifacts=artifacts) as repository:
        sizes = repository.metrics("orders", name="Size").set_index("partition")["value"]
    assert sizes.to_dict() == SIZES


def test_the_cookbooks_command_line_runs_as_printed(run_recipe, postgres, tmp_path):
    url, artifacts = postgres.database(), tmp_path / "artifacts"
    repository = {"TIDEGAUGE_DB": url, "TIDEGAUGE_ARTIFACTS": str(artifacts)}
    run_recipe("command_line", COMMAND_LINE, {}, **repository)
    with tg.Repository(url, artifacts=artifacts) as repository:
        sizes = repository.metrics("orders", name="Size").set_index("partition")["value"]
    assert sizes.to_dict() == SIZES


def history(folder):
    with tg.Repository(f"sqlite:///{folder / 'r.db'}") as repository:
        return (
            repository.metrics("orders", name="Size").set_index("partition")["value"].to_dict(),
            repository.runs("orders"),
        )


def test_tasks_measure_the_partition_of_their_day_and_distinguish_bad_data_from_failures(airflow):
    states, reported = airflow("2024-01-01")
    assert states["orders"] == ["success", 1], reported
    assert states["missing"][0] == "failed", reported
    assert states["missing"][1] == 2, "it is tried again"
    assert "no data files under" in reported
    sizes, runs = history(airflow.folder)
    assert sizes == {"ds=2024-01-01": 3.0}
    tags = runs["tags"].iloc[0]
    assert (tags["dag_id"], tags["task_id"], tags["team"]) == ("quality", "orders", "quality-team")

    states, reported = airflow("2024-01-03")  # one of its records is negative
    assert states["orders"] == ["failed", 1], "bad data is not tried again: " + reported
    assert history(airflow.folder)[0] == {"ds=2024-01-01": 3.0, "ds=2024-01-03": 2.0}


def test_running_a_day_again_stores_nothing_twice(airflow):
    before = history(airflow.folder)[0]
    states, reported = airflow("2024-01-01")
    assert states["orders"][0] == "success", reported
    sizes, _ = history(airflow.folder)
    assert sizes == before | {"ds=2024-01-01": 3.0}
    with tg.Repository(f"sqlite:///{airflow.folder / 'r.db'}") as repository:
        versions = repository.partitions("orders", versions="all")["partition"]
    assert not versions.duplicated().any()
