"""Shell lines of README and docs exit with 0. All lines of a page run in one folder.

Our own command runs on prepared tables, on SQLite or PostgreSQL as the page shows, in the Spark
session of the tests. `ELSEWHERE` lists the programs that other tests run. Blocks that cannot
run here give a reason in ``<!-- run: no (reason) -->``.
"""

import datetime as dt
import itertools
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tidegauge as tg
from tests.docs.pages import PAGES, blocks, blocks_run_by, name_of
from tests.docs.prepared import drop_search, make_search, write_block, write_job
from tests.docs.test_blocks import lines
from tests.paths import ROOT
from tests.tidegauge.notifications.web import web
from tidegauge.cli.main import run_command

ELSEWHERE = {
    "tidegauge demo": "tests/tidegauge/demo",
    "tidegauge dashboard": "tests/tidegauge/cli/test_dashboard_command.py",
    "pip install --target": "tests/cluster/standalone.py",
    "pip install": "tests/matrix/__main__.py",
    "python3 -m venv": "tests/matrix/__main__.py",
    "spark-submit": "tests/cluster/test_cluster.py",
}
"""Commands that take long, run forever or install packages, by the test files that run them."""
SLACK = "https://hooks.slack.com/services/T000/B000/XXXX"
LAST_DAY = dt.date(2026, 2, 9)
TABLE_DAYS = 7
SERIES_DAYS = 40
PASSWORD = "secret"
SETTINGS = (
    "TIDEGAUGE_DB",
    "TIDEGAUGE_ARTIFACTS",
    "TIDEGAUGE_CONFIG",
    "TIDEGAUGE_NOTIFY",
    "TIDEGAUGE_DASHBOARD_URL",
    "HTTP_PROXY",
    "http_proxy",
)
"""Variables that may be set outside and would change the behavior of the commands."""


def shell_lines(block):
    return filter(str.strip, lines(block.code))


def shell_blocks(page):
    return (b for b in blocks(page) if b.language == "shell" and not b.why_not)


def is_run_elsewhere(line):
    return line.startswith(tuple(ELSEWHERE))


def commands(page):
    """Yield the setup and the command of each line that is run here."""
    for block in shell_blocks(page):
        setup = block.setup
        for line in itertools.filterfalse(is_run_elsewhere, shell_lines(block)):
            yield setup, line
            setup = ""


def needs_demonstration(page):
    """Return whether the commands of a page read the repository of the demonstration."""
    return any(re.search("flights|--db DB", line) for command in commands(page) for line in command)


def expand(line):
    """Return a line with its variables replaced as in a shell, except in single quotes."""
    parts = re.split("('[^']*')", line)
    return "".join(part if part.startswith("'") else os.path.expandvars(part) for part in parts)


RUN = [pytest.param(page, id=name_of(page)) for page in PAGES if any(commands(page))]


@pytest.fixture
def slack():
    """A web server in place of Slack."""
    with web() as server:
        yield server


@pytest.fixture
def places(postgres, bucket, slack, tmp_path):
    """The replacements for hosts and paths on the pages; setups add to them."""
    return {
        "postgresql+psycopg://tidegauge@db/tidegauge": postgres.database(),
        "s3://bucket/tidegauge": f"s3://{bucket}/tidegauge",
        "/shared/tidegauge": "artifacts",
        "/backup/tidegauge.bak": "tidegauge.bak",
        "/etc/nginx/users": str(tmp_path / "users"),
        SLACK: f"json://{slack.at}/services",
        "DB": "sqlite:///flights.db",
    }


@pytest.fixture(scope="module")
def two_tables(spark):
    """Two tables with a few days each."""
    spark.sql("CREATE DATABASE IF NOT EXISTS warehouse")
    first = LAST_DAY - dt.timedelta(days=TABLE_DAYS - 1)
    rows = spark.range(200 * TABLE_DAYS).selectExpr(
        "id",
        "concat('c', pmod(hash(id), 700), '@example.org') AS email",
        "10 + pmod(hash(id), 80) AS amount",
        f"CAST(date_add(DATE'{first}', CAST(id % {TABLE_DAYS} AS INT)) AS STRING) AS ds",
    )
    for name in ("orders", "visits"):
        rows.write.partitionBy("ds").saveAsTable(f"warehouse.{name}", mode="overwrite")
    yield
    spark.sql("DROP DATABASE warehouse CASCADE")


@pytest.fixture
def tables(spark, two_tables):
    """The tables of all pages; the tables of a single page are dropped at its end."""
    yield
    drop_search(spark)
    for name in ("customers", "people"):
        spark.sql(f"DROP TABLE IF EXISTS warehouse.{name}")


def append(file, text):
    with Path(file).open("a") as end:
        end.write(text)


def incident_in(url, dataset="shop"):
    """Record numbers with a surge on the tables' last day, and return the id of the incident."""
    first = LAST_DAY - dt.timedelta(days=SERIES_DAYS - 1)
    days = {f"ds={first + dt.timedelta(days=n)}": 100.0 + n % 3 for n in range(SERIES_DAYS)}
    days[f"ds={LAST_DAY}"] = 900.0
    with tg.Repository(url) as repository:
        repository.record(dataset, "revenue", days, scale="positive")
        repository.detect(dataset)
        incidents = repository.incidents(dataset)
        (number,) = incidents.loc[incidents["headline"].str.contains("revenue"), "id"]
        return str(number)


def fail_checks(repo, dataset, partition):
    """Store a failed verdict on a partition."""
    ledger = repo.partitions(dataset).set_index("partition")
    repo.keep_verdict(
        dataset,
        name="checks",
        specification="specification",
        fingerprint=ledger.loc[partition, "fingerprint"],
        partition=partition,
        passed=False,
        result=tg.CheckResult(False, (("dep_time", "0 is too low"),)).to_json(),
    )


def make_people(spark):
    """Create the tables of the guide's rules file, with two records that it rejects."""
    spark.sql("SELECT 1 AS id").write.saveAsTable("warehouse.customers", mode="overwrite")
    people = spark.sql(
        "SELECT id, 1 AS line, CAST(id AS INT) AS age, concat('c', id) AS email, '01' AS region,"
        " 1 AS customer, 10.0D AS fare, '2026-01-01' AS ds FROM VALUES (1), (2), (151), (152) AS t(id)"
    )
    people.write.partitionBy("ds").saveAsTable("warehouse.people", mode="overwrite")
    write_block(ROOT / "docs" / "guide" / "rules.md", "rules", "people.yml")


def run_line(line, places, monkeypatch):
    """Run a line as a shell does: our own command in this process, all others in a shell."""
    program, *words = shlex.split(expand(line), comments=True)
    if program == "tidegauge":
        assert run_command([places.get(word, word) for word in words]) == 0, line
    elif program == "export":
        name, _, value = words[0].partition("=")
        monkeypatch.setenv(name, places.get(value, value))
    else:
        for printed, real in places.items():
            if printed.startswith("/"):
                line = line.replace(printed, real)
        answers = f"{PASSWORD}\n{PASSWORD}\n"  # for openssl, which prompts twice
        subprocess.run(
            line, shell=True, check=True, input=answers, text=True, start_new_session=True
        )


def test_commands_run_elsewhere_are_on_pages_and_have_tests():
    shown = [line for page in PAGES for block in shell_blocks(page) for line in shell_lines(block)]
    for program, path in ELSEWHERE.items():
        assert any(line.startswith(program) for line in shown), program
        assert (ROOT / path).exists()


@pytest.mark.soak
@pytest.mark.parametrize("page", RUN)
def test_shell_lines_run(page, spark, tables, places, slack, tmp_path, monkeypatch, request):
    monkeypatch.chdir(tmp_path)
    for name in SETTINGS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    shutil.copy(ROOT / "tests" / "data" / "deequ.json", "metrics.json")
    space = {"tg": tg, "run_command": run_command, "spark": spark, "here": places}
    space |= {"setenv": monkeypatch.setenv, "append": append, "incident_in": incident_in}
    space |= {"fail_checks": fail_checks, "make_people": make_people}
    space |= {"make_search": make_search, "write_job": write_job, "Path": Path}
    if needs_demonstration(page):
        space["repo"] = request.getfixturevalue("measured_copy")
        space["repo"].detect("flights")
    Path("suites").mkdir()
    for setup, line in commands(page):
        exec(setup, space)
        run_line(line, places, monkeypatch)
    if any(SLACK in line for _, line in commands(page)):
        assert "revenue" in slack.got[0][1]["message"]
    if (users := tmp_path / "users").exists():
        assert_password(users.read_text())


def assert_password(users):
    """The file is a valid password file of nginx: the user, and the password's salted hash."""
    user, _, digest = users.rstrip().partition(":")
    _, kind, salt, _ = digest.split("$")
    again = ["openssl", "passwd", f"-{kind}", "-salt", salt, PASSWORD]
    hashed = subprocess.run(again, capture_output=True, text=True, check=True).stdout
    assert (user, digest) == ("ann", hashed.rstrip())


def test_the_crontab_logs_errors(tmp_path):
    (block,) = blocks_run_by(__file__)
    command = re.fullmatch(r"(?:[\d*]+ +){5}(.*)\n", block.code)[1]
    assert "%" not in command, "cron ends the line there"
    program = tmp_path / ".venv" / "bin" / "tidegauge"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m tidegauge "$@"\n')
    program.chmod(0o755)
    (tmp_path / "suites").mkdir()
    known = {name: value for name, value in os.environ.items() if name not in SETTINGS}
    subprocess.run(
        command.replace("/srv/quality", str(tmp_path)),
        shell=True,
        check=True,
        env=known | {"PYTHONPATH": str(ROOT), "XDG_CONFIG_HOME": str(tmp_path)},
    )
    error, status = (tmp_path / "run.log").read_text().splitlines()
    assert error == "tidegauge: error: no suite file at 'suites/'"
    assert status == "tidegauge: exit 1"
