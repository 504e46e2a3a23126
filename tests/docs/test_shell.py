"""Shell lines of README and docs end with status 0, each page's in one folder.

Lines of ours run on tables that are made for it, on SQLite and PostgreSQL as they say, by the session of
the tests. Of all others ``mkdir`` and ``export`` are run. Blocks that need what is not here say so, by
``<!-- run: no (reason) -->``.
"""

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from tidegauge.cli.main import run_command

import tidegauge as tg
from tests.docs.pages import PAGES, blocks, name_of
from tests.docs.test_blocks import lines
from tests.paths import ROOT

ELSEWHERE = {
    "demo": "tests/tidegauge/demo",
    "dashboard": "tests/tidegauge/cli/test_dashboard_command.py",
}
"""Commands that run long, or for ever, by the tests that run them."""


def commands(page):
    """Yield the setup and the words of each line that is run."""
    for block in blocks(page):
        if block.language != "shell" or block.why_not:
            continue
        setup = block.setup
        for line in lines(block.code):
            words = shlex.split(line, comments=True)
            if (
                words[:1] == ["tidegauge"]
                and words[1] not in ELSEWHERE
                or words[:1] in (["mkdir"], ["export"])
            ):
                yield setup, words
                setup = ""


RUN = [pytest.param(page, id=name_of(page)) for page in PAGES if any(commands(page))]


@pytest.fixture
def places(postgres, bucket):
    """The test's places by those that the pages name; setups add to it."""
    return {
        "postgresql+psycopg://tidegauge@db/tidegauge": postgres.database(),
        "s3://bucket/tidegauge": f"s3://{bucket}/tidegauge",
        "/shared/tidegauge": "artifacts",
        "/backup/tidegauge.bak": "tidegauge.bak",
        "DB": "sqlite:///flights.db",
    }


@pytest.fixture
def two_tables(spark):
    """Two tables of forty days."""
    spark.sql("CREATE DATABASE IF NOT EXISTS warehouse")
    rows = spark.range(8000).selectExpr(
        "id",
        "concat('c', pmod(hash(id), 700), '@example.org') AS email",
        "10 + pmod(hash(id), 80) AS amount",
        "CAST(date_add(DATE'2026-01-01', CAST(id % 40 AS INT)) AS STRING) AS ds",
    )
    for name in ("orders", "visits"):
        rows.write.partitionBy("ds").saveAsTable(f"warehouse.{name}", mode="overwrite")
    yield
    spark.sql("DROP DATABASE warehouse CASCADE")


def append(file, text):
    with Path(file).open("a") as end:
        end.write(text)


def write_from(page):
    """Return a function that writes the file of a kind that a page shows."""

    def write(name, kind):
        (code,) = (block.code for block in blocks(page) if block.check == kind)
        Path(name).write_text(code)

    return write


def incident_in(url):
    """Record numbers with a surge on their last day, and return the number of the incident."""
    days = {f"ds=2026-01-{n:02}": 100.0 + n % 3 for n in range(1, 29)}
    with tg.Repository(url) as repository:
        repository.record("shop", "revenue", {**days, "ds=2026-01-29": 900.0}, scale="positive")
        repository.detect("shop")
        return str(repository.incidents("shop")["id"].iloc[0])


def make_people(spark):
    """Make the tables of the guide's rules file, with two records that it rejects."""
    spark.sql("SELECT 1 AS id").write.saveAsTable("warehouse.customers", mode="overwrite")
    people = spark.sql(
        "SELECT id, 1 AS line, CAST(id AS INT) AS age, concat('c', id) AS email, '01' AS region,"
        " 1 AS customer, 10.0D AS fare, '2026-01-01' AS ds FROM VALUES (1), (2), (151), (152) AS t(id)"
    )
    people.write.partitionBy("ds").saveAsTable("warehouse.people", mode="overwrite")


def test_commands_that_are_not_run_have_tests():
    for path in ELSEWHERE.values():
        assert (ROOT / path).exists()


@pytest.mark.soak
@pytest.mark.parametrize("page", RUN)
def test_shell_lines_run(page, spark, two_tables, places, measured_copy, monkeypatch):
    folder = measured_copy.database.file.parent
    monkeypatch.chdir(folder)
    for name in ("TIDEGAUGE_DB", "TIDEGAUGE_ARTIFACTS", "TIDEGAUGE_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "none"))
    shutil.copy(ROOT / "tests" / "data" / "deequ.json", "metrics.json")
    measured_copy.detect("flights")
    space = {"tg": tg, "run_command": run_command, "repo": measured_copy, "spark": spark}
    space |= {"here": places, "setenv": monkeypatch.setenv, "append": append}
    space |= {"write": write_from(page), "make_people": make_people, "incident_in": incident_in}
    Path("suites").mkdir()
    for setup, line in commands(page):
        exec(setup, space)
        words = [places.get(word, word) for word in map(os.path.expandvars, line)]
        if words[0] == "mkdir":
            subprocess.run(words, check=True)
        elif words[0] == "export":
            name, _, value = words[1].partition("=")
            monkeypatch.setenv(name, places.get(value, value))
        else:
            assert run_command(words[1:]) == 0, words
