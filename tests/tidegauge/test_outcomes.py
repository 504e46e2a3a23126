"""The outcome of a run in every output: the same twelve outcomes for each. No Spark."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from xml.etree import ElementTree as ET

import pytest

import tidegauge as tg
from tests.support.outcomes import (
    CASES,
    FULL,
    HEAD,
    MISSING,
    REFUSED,
    RULES,
    Making,
    case_of,
    size,
)
from tidegauge.analyzers.core.errors import StandingError
from tidegauge.analyzers.core.partitions import parse_selection
from tidegauge.cli.main import run_command
from tidegauge.files.runs import SuiteResult
from tidegauge.integrations.measuring import MeasurementResult, MeasurementTask
from tidegauge.outcome import Cause, Gate, Outcome, Problem, outcome_of
from tidegauge.repository.history.health import table_rows
from tidegauge.repository.testing import SIZE, day
from tidegauge.rules import known_failures
from tidegauge.rules.known_failures import KnownFailures

EXIT = {"passed": 0, "warning": 0, "failed": 2, "error": 1}


@pytest.fixture(params=CASES)
def case(request, tmp_path):
    with case_of(request.param, tmp_path) as made:
        yield made


def test_exit_status_and_json_have_the_outcome(case):
    gate = Gate(anomalies=case.fail_on_anomaly)
    assert case.summary.status(gate) == EXIT[case.outcome]
    report = json.loads(case.summary.json(gate))
    assert (report["status"], report["outcome"]) == (EXIT[case.outcome], case.outcome)


def test_junit_has_the_outcome(case):
    """A file has errors if the outcome is an error, failures if the data failed, and otherwise neither."""
    root = ET.fromstring(case.summary.junit(Gate(anomalies=case.fail_on_anomaly)))
    errors, failures = (len(list(root.iter(kind))) for kind in ("error", "failure"))
    assert (errors > 0) == (case.outcome == "error")
    assert (failures > 0) == (case.outcome == "failed")


@pytest.mark.parametrize(
    "name", [n for n in CASES if n not in {"an anomaly is a failure", "a policy fails"}]
)
def test_checks_alone_have_the_outcome(name, tmp_path):
    """`tidegauge check` reports the same for the files that it covers: files with checks, without anomalies."""
    with case_of(name, tmp_path) as case:
        tables = [replace(table, only_checks=True) for table in case.summary.tables]
        summary = SuiteResult(tables, case.summary.failed, only_checks=True)
        report = json.loads(summary.json())
        assert (summary.status(), report["outcome"]) == (EXIT[case.outcome], case.outcome)
        root = ET.fromstring(summary.junit())
        assert (root.find(".//error") is not None) == (case.outcome == "error")
        assert (root.find(".//failure") is not None) == (case.outcome == "failed")


def test_schedulers_have_the_outcome(case):
    """Airflow and Dagster map this outcome; their own tests use the same cases."""
    task = MeasurementTask("d.yml", fail_on_anomaly=case.fail_on_anomaly)
    result = MeasurementResult(case.summary, task)
    assert result.outcome == result.as_json()["outcome"] == case.outcome
    failing = [c for c in Cause if result.outcome_by(c) in {Outcome.FAILED, Outcome.ERROR}]
    assert failing == ([case.fails_by] if case.fails_by else [])


def test_the_page_has_the_outcome(case):
    with case.repository.database.read() as connection:
        (row,) = table_rows(connection, datetime.now(UTC))
    assert row["health"] == case.health


def test_notifications_have_the_outcome(case, caplog):
    """A sink was notified of a known failure when it was new."""
    caplog.set_level("INFO", "tidegauge.incidents")
    tg.notify(case.repository, "log", severity="error")
    sent = [r for r in caplog.records if r.name == "tidegauge.incidents"]
    assert len(sent) == case.messages


@pytest.mark.parametrize(
    ("problem", "gate", "outcome"),
    [
        (Problem(Cause.CHECK), Gate(failures=False), "warning"),
        (Problem(Cause.CHECK, is_warning=True), Gate(warnings=True), "failed"),
        (Problem(Cause.CHECK, is_warning=True, is_known=True), Gate(warnings=True), "passed"),
        (Problem(Cause.REJECTS), Gate(), "passed"),
        (Problem(Cause.REJECTS), Gate(rejects=True), "failed"),
        (Problem(Cause.ANALYZER, is_known=True), Gate(), "passed"),
        (Problem(Cause.WRITING), Gate(failures=False), "error"),
    ],
)
def test_a_gate_decides_which_problems_fail(problem, gate, outcome):
    assert outcome_of([problem], gate) == outcome
    assert outcome_of([problem, Problem(Cause.TABLE)], gate) == "error"


@pytest.fixture
def making(tmp_path):
    with tg.Repository("sqlite://") as repo:
        yield Making(repo, tmp_path)


def status(making):
    return making.summary.status()


def test_a_failed_day_fails_no_later_run_and_the_run_shows_how_to_settle_it(making):
    making.run(FULL, size(1), size(2, rows=10))
    assert status(making) == 2
    making.run(FULL)  # nothing is new: the day is the newest, and was measured last
    assert status(making) == 2
    making.run(FULL, size(3))
    assert status(making) == 0
    *_, failure, advice, _ = making.summary.lines(" --db x.db")
    assert "known error: ds=2013-01-02: row count is 10, at least 900 required" in failure
    label = "tidegauge dataset label d bad --since 2013-01-02 --until 2013-01-02 --db x.db"
    assert advice.startswith(
        f"  to settle ds=2013-01-02: repair the data; or label the time range: {label}; or accept it: "
    )
    assert advice.endswith("tidegauge dataset accept d ds=2013-01-02 --db x.db")
    results = json.loads(making.summary.json())["results"]
    verdicts = {row["partition"]: (row["passed"], row["known"]) for row in results}
    assert verdicts == {"ds=2013-01-02": (False, True), "ds=2013-01-03": (True, False)}
    (row,) = making.repository.overview().to_dict("records")
    assert (row["failing"], row["failing_known"]) == (0, 1)
    making.run(FULL, replace(size(2, rows=11), fingerprint="b"))  # written again, and still failing
    assert status(making) == 2
    making.run(FULL, replace(size(2), fingerprint="c"))
    assert status(making) == 0
    assert making.repository.overview()["failing_known"].tolist() == [0]


def test_a_late_failing_day_is_reported_although_newer_days_exist(making):
    making.run(FULL, size(1), size(3))
    making.run(FULL, size(2, rows=10))
    assert status(making) == 2
    making.run(FULL)  # a retry after another table failed
    assert status(making) == 2
    making.run(FULL, size(4))
    assert status(making) == 0


def test_a_changed_check_reports_past_failures_again(making):
    making.run(FULL, size(1, rows=10), size(2))
    making.run(FULL, size(3))
    assert status(making) == 0
    stricter = FULL.replace("900", "950")
    for _ in range(2):
        making.run(stricter)
        assert status(making) == 2
    making.run(stricter, size(4))
    assert status(making) == 0


def test_a_failure_is_known_only_if_it_was_looked_up():
    assert not KnownFailures("d").has_error(SIZE)
    assert not KnownFailures("d").has_verdict("checks", "ds=2013-01-01")
    assert KnownFailures("d", past_errors=frozenset({SIZE.canonical()})).has_error(SIZE)


def test_failures_of_policies_are_known_like_failures_of_checks(making):
    making.run(RULES, size(1), policies=REFUSED)
    assert status(making) == 2
    making.run(RULES, size(2))
    making.summary.tables[0].run.checks["ds=2013-01-01"] = REFUSED  # as from judge_run
    assert status(making) == 0
    assert ET.fromstring(making.summary.junit()).find(".//failure") is None
    assert any(line.startswith("  known: ds=2013-01-01: failed") for line in making.summary.lines())


def test_a_run_of_selected_days_is_judged_by_these_days(making):
    """A task that repeats a day fails because of that day only."""
    making.run(FULL, size(1, rows=10), size(2, rows=10), size(3))
    making.run(FULL, size(4))
    (run,) = (table.run for table in making.summary.tables)
    for chosen in ("ds=2013-01-01", ["ds=2013-01-01"], "ds<2013-01-02"):
        known_failures = KnownFailures.of_run(run, chosen)
        assert {partition for _, partition in known_failures.verdicts} == {"ds=2013-01-02"}


def test_a_selection_is_parsed_once_for_all_partitions(monkeypatch):
    parsed = []
    monkeypatch.setattr(
        known_failures, "parse_selection", lambda *of: parsed.append(of) or parse_selection(*of)
    )
    chosen = known_failures.chosen_by("ds<2013-01-03")
    assert [chosen(f"ds=2013-01-0{n}") for n in range(1, 5)] == [True, True, False, False]
    assert parsed == [("ds<2013-01-03", ("ds",))]


def test_failures_are_accepted_until_the_data_or_the_check_changes(making):
    repo = making.repository
    making.run(FULL, size(1), size(2, rows=10))
    with pytest.raises(
        tg.HistoryError,
        match="No check of 'd' fails on 'ds=2013-01-01'; failing are 'ds=2013-01-02'",
    ):
        tg.accept_failures(repo, "d", "ds=2013-01-01")
    reported = tg.accept_failures(repo, "d", "ds=2013-01-02", dry_run=True)
    making.run(FULL)
    assert status(making) == 2
    assert tg.accept_failures(repo, "d", "ds=2013-01-02", note="a test load", by="ann") == reported
    making.run(FULL)
    assert status(making) == 0
    assert not making.summary.checked[0].verification.judged
    (row,) = repo.overview().to_dict("records")
    assert (row["failing"], row["failing_known"]) == (0, 0)
    log = json.loads(repo.verdicts("d", partition="ds=2013-01-02")["result"][0])["checkLog"]
    assert log == ["accepted by ann: a test load", "row count is 10, at least 900 required"]
    said = r"on 20\d\d-\d\d-\d\d \d\d:\d\d UTC, 'checks' was accepted by ann: a test load\."
    for dry_run in (True, False):
        with pytest.raises(tg.HistoryError, match=rf"fails on 'ds=2013-01-02': {said}"):
            tg.accept_failures(repo, "d", "ds=2013-01-02", dry_run=dry_run)
    with pytest.raises(tg.HistoryError, match=rf"under the name 'checks': {said}"):
        tg.accept_failures(repo, "d", "ds=2013-01-02", name="checks")
    with pytest.raises(tg.HistoryError, match=r"under the name 'others'\."):
        tg.accept_failures(repo, "d", "ds=2013-01-02", name="others")
    making.run(FULL.replace("900", "950"))
    assert status(making) == 2
    making.run(FULL)  # the accepted definition again: it is judged again
    assert status(making) == 2


@pytest.mark.parametrize(("label", "expected"), [("bad", 0), ("expected", 0), ("rebaseline", 2)])
def test_a_label_settles_failures_reported_before_it(making, label, expected):
    repo = making.repository
    making.run(FULL, size(1), size(2, rows=10))
    repo.label_range("d", label, since="2013-01-02", until="2013-01-02", note="a test load")
    making.run(FULL)
    assert status(making) == expected
    repo.label_range("d", "reopened", since="2013-01-01", until="2013-01-03")
    making.run(FULL)
    assert status(making) == 2
    repo.label_range("d", label, since="2013-01-02", until="2013-01-02")
    making.run(FULL, replace(size(2, rows=11), fingerprint="b"))  # the data changed after the label
    assert status(making) == 2


def test_an_open_error_of_a_past_day_is_known(making):
    """Not if the next run retries it, and not for the newest day or the last runs."""
    with_mean = lambda number: day(number, only=[SIZE, MISSING])  # noqa: E731
    making.run(HEAD, with_mean(1), size(2))
    by_data = StandingError("text", "ds=2013-01-01", is_retriable=False)
    again = StandingError("text", "ds=2013-01-01", is_retriable=True)
    making.run(HEAD, failed={MISSING: by_data})
    assert status(making) == 1  # measured last
    making.run(HEAD, size(3), failed={MISSING: by_data})
    assert status(making) == 0
    making.run(HEAD, size(4), failed={MISSING: again})
    assert status(making) == 1
    making.run(
        HEAD,
        with_mean(5),
        failed={MISSING: StandingError("text", "ds=2013-01-05", is_retriable=False)},
    )
    making.run(HEAD, failed={MISSING: by_data})
    assert status(making) == 1


def test_commands_accept_and_label_failures(making, tmp_path, capsys):
    url = f"sqlite:///{tmp_path / 'r.db'}"
    with tg.Repository(url) as repo:
        file = Making(repo, tmp_path)
        file.run(FULL, size(1, rows=10), size(2, rows=10))
        label = ["dataset", "label", "d", "bad", "--since", "2013-01-01", "--until", "2013-01-01"]
        assert run_command([*label, "--db", url]) == 0
        assert capsys.readouterr().out == "d from 2013-01-01 to 2013-01-01: bad\n"
        accept = ["dataset", "accept", "d", "ds=2013-01-02", "--note", "a test load", "--db", url]
        assert run_command([*accept, "--dry-run"]) == 0
        assert capsys.readouterr().out.startswith(
            "would be accepted: checks: row count is 10, at least 900 required"
        )
        assert run_command(accept) == 0
        assert capsys.readouterr().out.startswith(
            "accepted: checks: row count is 10, at least 900 required"
        )
        file.run(FULL)
        assert status(file) == 0
        assert run_command(["report", "d", "--db", url]) == 0
        assert "ds=2013-01-01 (known)" in capsys.readouterr().out
        assert run_command(accept) != 0
        assert "No check of 'd' fails on 'ds=2013-01-02'" in capsys.readouterr().err


def test_an_accepted_day_stays_accepted_if_it_is_measured_again(making):
    """For example if a user clears the task of that day so that dependent tasks run."""
    making.run(FULL, size(1), size(2, rows=10))
    accepted = tg.accept_failures(making.repository, "d", "ds=2013-01-02")
    assert accepted
    making.run(FULL, size(2, rows=10), partitions="ds=2013-01-02")
    assert status(making) == 0
    making.run(FULL)
    assert status(making) == 0
    assert making.repository.overview()["failing"].tolist() == [0]


def test_a_labelled_day_is_known_if_it_is_measured_again(making):
    making.run(FULL, size(1), size(2, rows=10))
    making.repository.label_range("d", "bad", since="2013-01-02", until="2013-01-02")
    making.run(FULL, size(2, rows=10), partitions="ds=2013-01-02")
    assert status(making) == 0


def test_measuring_an_older_day_makes_no_failure_known(making):
    making.run(FULL, size(1), size(4))
    making.run(FULL, size(3, rows=10))
    making.run(FULL, size(2))
    assert status(making) == 2
    making.run(FULL, size(5))
    assert status(making) == 0


def test_a_failing_day_shows_only_its_own_way_to_settle_it(making):
    making.run(FULL, size(1, rows=10), size(2, rows=10))
    making.run(FULL, size(3))
    making.run(FULL, size(4, rows=10))
    (advice,) = (line for line in making.summary.lines() if "settle" in line)
    assert "dataset accept d ds=2013-01-04" in advice
    making.run(FULL, partitions="ds=2013-01-03")
    assert not any("settle" in line for line in making.summary.lines())
