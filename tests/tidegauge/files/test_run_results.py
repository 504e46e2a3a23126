"""Output of `tidegauge run`: lines when tables finish, totals, JSON and JUnit."""

import json
import threading
from types import SimpleNamespace
from xml.etree import ElementTree as ET

import pytest

import tidegauge as tg
from tidegauge import job
from tidegauge.analysis import Run
from tidegauge.analyzers.runs.ledger import Change, RunStatus
from tidegauge.analyzers.runs.runner import RunReport
from tidegauge.cli.main import run_command
from tidegauge.display import progress
from tidegauge.display.progress import LineProgress
from tidegauge.files import runs
from tidegauge.files.checked import check_table
from tidegauge.files.suite_files import load_suite
from tidegauge.outcome import FailOnLevel, Gate
from tidegauge.repository.testing import commit, day

SUITE = """dataset: d
table: db.t
checks:
  - has_size: {at_least: 900}
  - is_complete: {column: x, at_least: 0.5, level: warning}
"""


@pytest.fixture
def suite(tmp_path):
    (tmp_path / "d.yml").write_text(SUITE)
    return load_suite(tmp_path / "d.yml")


@pytest.fixture
def history():
    with tg.Repository("sqlite://") as repo:
        commit(repo, *(day(n, rows=1000 + n % 3) for n in range(1, 28)))
        yield repo


def run_of(repo, scanned):
    number = int(repo.runs("d")["run_id"].max())
    changes = {f"ds=2013-01-{n:02}": Change.NEW for n in range(1, scanned + 1)}
    return Run(RunReport(number, "d", RunStatus.COMPLETE, changes=changes), repo)


@pytest.fixture
def summary(suite, history):
    run = run_of(history, 27)
    checked = check_table(suite, run, SimpleNamespace(name="db.t"))
    return runs.SuiteResult([runs.SuiteReport(suite, run, checked.known_failures, checked)])


def test_a_run_without_findings_reports_the_number_of_passed_checks(summary):
    """Two checks in 27 partitions, none of which has too few rows."""
    assert summary.lines()[-1] == "2 checks passed in 27 partitions, 0 anomalies"


def test_only_the_run_command_prints_totals():
    """Also if no table could be measured, so that no report names the command."""
    failed = ["a.yml: no table a", "b.yml: no table b"]
    lines = [f"failed: {problem}" for problem in failed]
    assert runs.SuiteResult(failed=failed, only_checks=True).lines() == lines
    assert runs.SuiteResult(failed=failed).lines() == [
        *lines,
        "0 tables measured, 2 failed, 0 anomalies",
    ]


def test_failed_checks_are_counted_separately(suite, history):
    commit(history, day(28, rows=10))
    run = run_of(history, 1)
    checked = check_table(suite, run, SimpleNamespace(name="db.t"))
    summary = runs.SuiteResult([runs.SuiteReport(suite, run, checked.known_failures, checked)])
    assert summary.lines()[-1] == "1 of 2 checks passed in 28 partitions, 0 anomalies"
    assert runs.checks_text([checked]) == "1 of 2 checks passed in 28 partitions"
    assert summary.status() == 2
    assert summary.status(FailOnLevel.NEVER.gate()) == 0
    (case,) = ET.fromstring(summary.junit()).findall(".//failure/..")
    assert (case.get("classname"), case.get("name")) == ("d.ds=2013-01-28", "Size(): at least 900")
    content = json.loads(summary.json())
    assert content["status"] == 2
    assert [row["partition"] for row in content["results"] if not row["passed"]] == [
        "ds=2013-01-28"
    ]


def test_checks_that_passed_before_are_reported(suite, history, summary):
    again = check_table(suite, run_of(history, 0), SimpleNamespace(name="db.t"))
    assert runs.checks_text([again]) == "2 checks passed before, nothing new to check"


def test_anomalies_are_in_json_and_junit(summary, history):
    commit(history, day(28, rows=10))
    actual = history.detect("d").head(1)
    summary.anomalies.append(actual)
    assert summary.lines()[-1] == "2 checks passed in 27 partitions, 1 anomaly"
    report = json.loads(summary.json(Gate(anomalies=True)))
    assert report["status"] == 2
    (anomaly,) = report["anomalies"]
    assert (anomaly["id"], anomaly["partition"]) == (int(actual["id"].iloc[0]), "ds=2013-01-28")
    assert anomaly["time"] == "2013-01-28T00:00:00+00:00"
    failures = {
        fails: len(ET.fromstring(summary.junit(Gate(anomalies=fails))).findall(".//failure"))
        for fails in (False, True)
    }
    assert failures == {False: 0, True: 1}


@pytest.fixture
def tables(tmp_path, monkeypatch):
    """Create three suite files. If their tables are measured concurrently, they finish in the order b, c, a."""
    ended = {name: threading.Event() for name in "abc"}
    waits = {"a": "c", "c": "b"}

    def analyze(_, suite, **__):
        name = suite.dataset
        if name in waits and monkeypatch.side_by_side:
            assert ended[waits[name]].wait(30)
        if name == "c":
            message = "executor lost"
            raise RuntimeError(message)
        return SimpleNamespace(
            dataset=name, changes={}, failed={}, unreadable={}, checks={}, passed=True, routes=""
        )

    for name in "abc":
        (tmp_path / f"{name}.yml").write_text(
            f"dataset: {name}\ntable: {name}\nanalyzers: [Size]\n"
        )
    monkeypatch.side_by_side = False
    monkeypatch.setattr(runs, "open_file", lambda *_: None)
    monkeypatch.setattr(job, "activate", lambda _: None)
    monkeypatch.setattr(runs, "analyze", analyze)
    return monkeypatch, ended


@pytest.mark.parametrize(("jobs", "order"), [(1, ["a", "b", "c"]), (3, ["b", "c", "a"])])
def test_tables_are_reported_as_they_finish(tables, tmp_path, jobs, order):
    monkeypatch, ended = tables
    monkeypatch.side_by_side = jobs > 1
    lines = []

    def report(some):
        lines.extend(some)
        ended[some[0].partition("'")[2][:1] or some[0][0]].set()

    with tg.Repository("sqlite://") as repo:
        for name in "abc":
            repo.record(name, "rows", {"ds=2013-02-08": 1.0})
        summary = runs.run_suites(
            [str(tmp_path)], repo, session=lambda: None, jobs=jobs, report=report
        )
    assert [line.partition("'")[2][:1] or line[0] for line in lines] == order
    assert "c: failed" in lines
    assert summary.closing_lines()[-1] == "2 tables measured, 1 failed, 0 anomalies"


def test_a_log_has_progress_lines_at_most_every_half_minute(monkeypatch, capsys):
    """Batches end after 10, 31, 32 and 70 s. The caller prints the last one as the result."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(progress, "spark_tasks", lambda _: (0, 0))
    bar = LineProgress()
    bar.start("orders", 40)
    for seconds in (10, 31, 32, 70):
        with bar.batch(None, 10):
            now[0] = seconds
    bar.close()
    assert capsys.readouterr().err.splitlines() == [
        "orders: measuring 40 partitions",
        "orders: 20 of 40 partitions measured",
    ]
    bar.start("orders", 0)
    assert capsys.readouterr().err == ""


def test_an_unwritable_output_is_refused_before_anything_is_measured(tmp_path, capsys, monkeypatch):
    (tmp_path / "d.yml").write_text(SUITE)
    (tmp_path / "file").write_text("")
    database = ["--db", f"sqlite:///{tmp_path / 'r.db'}"]

    def no_session(*_, **__):
        raise AssertionError

    monkeypatch.setattr("tidegauge.spark.session.spark_session", no_session)
    for command in (["run"], ["check"], ["rules", "run"]):
        for output, says in ((tmp_path, "is a folder"), (tmp_path / "file" / "x", "cannot write")):
            words = [*command, str(tmp_path / "d.yml"), *database, "--output", str(output)]
            assert run_command(words) == 1
            assert says in capsys.readouterr().err
    assert not (tmp_path / "r.db").exists()
