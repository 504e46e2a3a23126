"""The health of all tables: counts and order, read with two statements. No Spark."""

import datetime as dt

import pytest
import sqlalchemy as sa

import tidegauge as tg
from tidegauge.analyzers.runs.ledger import RunStatus
from tidegauge.repository.history.health import open_incidents, table_rows
from tidegauge.repository.store.verdicts import passing_checks
from tidegauge.repository.testing import SIZE, commit, day, judged, spec
from tidegauge.widgets.backend import Backend

NOW = dt.datetime(2033, 5, 1, tzinfo=dt.UTC)
HIGH = {
    severity: [tg.Monitor({"name": "Size"}, "SimpleThreshold(50)", severity)]
    for severity in ("error", "warning", "info")
}


def health(repo, now=NOW):
    with repo.database.read() as connection:
        return {row["dataset"]: row for row in table_rows(connection, now)}


def table(repo, dataset, severity=None):
    commit(
        repo,
        day(1, rows=10, only=[SIZE]),
        day(2, rows=99 if severity else 10, only=[SIZE]),
        dataset=dataset,
    )
    repo.detect(dataset, HIGH[severity or "info"])


@pytest.fixture
def repo(url, tmp_path):
    with tg.Repository(url, artifacts=tmp_path) as made:
        yield made


def test_the_worst_tables_come_first(repo):
    table(repo, "fine")
    table(repo, "noted", "info")
    table(repo, "warned", "warning")
    table(repo, "broken", "error")
    table(repo, "crashed")
    repo.store.close_run(
        repo.store.open_run(spec("crashed")), RunStatus.FAILED, {}, error="no disk"
    )
    table(repo, "checked")
    repo.keep_verdict(
        "checked", name="c", specification="s", fingerprint="f", passed=False, result="{}"
    )
    commit(repo, day(1, rows=10, only=[SIZE]), dataset="recorded")
    repo.store.open_run(spec("empty"))
    actual = health(repo)
    assert [(name, row["health"]) for name, row in actual.items()] == [
        ("broken", "error"),
        ("crashed", "failed run"),
        ("checked", "failing checks"),
        ("warned", "warning"),
        ("noted", "info"),
        ("recorded", "not scored"),
        ("fine", "ok"),
        ("empty", "not measured"),
    ]
    assert [actual["broken"][name] for name in ("errors", "warnings", "infos")] == [1, 0, 0]


def test_newest_partition_volume_and_completeness(repo):
    commit(repo, day(1, rows=10), day(2, rows=12), dataset="d")
    row = health(repo)["d"]
    assert (row["newest"], row["rows"], row["size"]) == ("ds=2013-01-02", 12, 12.0)
    assert row["time"] - row["previous"] == dt.timedelta(days=1)
    shares = repo.latest("d", name="Completeness", where="", segment="")["value"]
    assert (row["lowest"], row["completeness"]) == (shares.min(), pytest.approx(shares.mean()))
    repo.store.mark_gone(repo.store.open_run(spec("d")), ["ds=2013-01-02"])
    assert health(repo)["d"]["newest"] == "ds=2013-01-01"


def test_settled_and_snoozed_incidents_are_not_open(repo):
    table(repo, "d", "error")
    (number,) = repo.incidents("d")["id"].tolist()
    repo.label(number, "snoozed", until=NOW, by="ann")
    before, at = NOW - dt.timedelta(seconds=1), NOW
    counted = [
        (row["errors"], row["snoozed"])
        for row in (health(repo, before)["d"], health(repo, at)["d"])
    ]
    assert counted == [(0, 1), (1, 0)]
    repo.label(number, "reopened", by="ann")
    assert health(repo, before)["d"]["errors"] == 1
    repo.label(number, "acknowledged", by="ann")
    assert health(repo)["d"]["health"] == "ok"
    with repo.database.read() as connection:
        assert open_incidents(connection, NOW) == 0


def test_a_check_that_passes_again_or_used_other_data_is_not_counted(repo):
    table(repo, "d")
    prints = dict(
        zip(*(repo.partitions("d")[name] for name in ("partition", "fingerprint")), strict=True)
    )
    day_1, day_2 = sorted(prints)
    of = {"name": "c", "specification": "s"}
    repo.keep_verdict(
        "d", **of, partition=day_1, fingerprint=prints[day_1], passed=False, result="{}"
    )
    repo.keep_verdict("d", **of, partition=day_2, fingerprint="older", passed=False, result="{}")
    assert health(repo)["d"]["failing"] == 1
    repo.keep_verdict(
        "d", **of, partition=day_1, fingerprint=prints[day_1], passed=True, result="{}"
    )
    assert health(repo)["d"]["failing"] == 0


def test_owner_and_tags_come_from_the_last_run(repo):
    address = "https://jobs.example.org/7"
    last = {"team": "sales", "env": "prod", "job": address, "runbook": address}
    for tags in ({"owner": "old"}, last):
        run = repo.store.open_run(spec("d", tags=tags))
        repo.store.close_run(run, RunStatus.COMPLETE, {})
    row = health(repo)["d"]
    assert (row["owner"], row["tags"]) == ("sales", "env=prod")
    same = {"owner": "ann", "oncall": "ann"}  # a value equal to the owner's is another tag
    repo.store.close_run(repo.store.open_run(spec("e", tags=same)), RunStatus.COMPLETE, {})
    row = health(repo)["e"]
    assert (row["owner"], row["tags"]) == ("ann", "oncall=ann")


def test_any_number_of_tables_is_read_with_two_statements(repo):
    for n in range(6):
        table(repo, f"d{n}", "info" if n % 3 else None)
    with repo.database.read() as connection:
        params = []
        sa.event.listen(connection, "before_cursor_execute", lambda *given: params.append(given[2]))
        assert len(table_rows(connection, NOW)) == 6
    assert len([text for text in params if text.startswith("SELECT")]) == 2


def test_an_empty_repository_has_no_tables(repo):
    assert health(repo) == {}
    with repo.database.read() as connection:
        assert open_incidents(connection, NOW) == 0


def test_passed_checks_are_counted_without_those_that_fail_anywhere(repo):
    table(repo, "d")
    table(repo, "unchecked")
    days = ["ds=2013-01-01", "ds=2013-01-02"]
    verdicts = {"a": (True, True), "b": (True, False), "c": (True,), "whole": (True,)}
    for name, outcomes in verdicts.items():
        partitions = [""] if name == "whole" else days
        for partition, passed in zip(partitions, outcomes, strict=False):
            judged(repo, name=name, partition=partition, passed=passed)
    with repo.database.read() as connection:
        assert passing_checks(connection) == {"d": 3}
    home = Backend(repo).frame("home", {}, None).set_index("dataset")
    assert home[["failing", "passing"]].to_dict("index") == {
        "d": {"failing": 1, "passing": 3},
        "unchecked": {"failing": 0, "passing": 0},
    }
    judged(repo, name="b", partition=days[1], passed=True)  # it was checked again
    with repo.database.read() as connection:
        assert passing_checks(connection) == {"d": 4}
