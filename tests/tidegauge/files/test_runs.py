"""Runs of many tables: an error in one table stops no other table and is reported with its name."""

from types import SimpleNamespace

import pytest

import tidegauge as tg
from tidegauge.analyzers.runs.ledger import RunStatus
from tidegauge.files import runs
from tidegauge.outcome import Gate
from tidegauge.repository.detection import together
from tidegauge.repository.repository import Repository
from tidegauge.repository.testing import commit, day, spec

SUITE = "dataset: {name}\ntable: {table}\nanalyzers: [Size]\n"


class Catalog:
    """A catalog with the tables of a database ``db``. Other databases raise an error."""

    def databaseExists(self, name):
        """Return whether the database exists, or raise an error."""
        if name != "db":
            message = f"[PARSE_SYNTAX_ERROR] Syntax error at {name!r}"
            raise RuntimeError(message)
        return True

    def listTables(self, _):
        """Return four tables."""
        return [SimpleNamespace(name=f"t{i}") for i in range(4)]


@pytest.fixture
def measured_tables(monkeypatch):
    """Return the tables measured so far, in order. The first and third table of the database fail."""
    actual = []

    def analyze(_, suite, **__):
        actual.append(suite.dataset)
        if suite.dataset.endswith((".t0", ".t2")):
            message = "executor lost"
            raise RuntimeError(message)
        return SimpleNamespace(
            dataset=suite.dataset,
            changes={},
            failed={},
            unreadable={},
            checks={},
            passed=True,
            routes="",
        )

    for module in (runs, runs):
        monkeypatch.setattr(module, "open_file", lambda *_: None)
        monkeypatch.setattr(module, "analyze", analyze)
    return actual


@pytest.fixture
def ordinary(tmp_path):
    """Return a repository with 27 ordinary days of a table, and write its suite."""
    (tmp_path / "d.yml").write_text(SUITE.format(name="d", table="d"))
    with Repository("sqlite://") as repo:
        commit(repo, *(day(n, rows=1000 + n % 3) for n in range(1, 28)))
        yield repo


def session():
    """Return a session that only has a catalog."""
    return SimpleNamespace(catalog=Catalog())


def test_an_unreachable_database_stops_only_its_file(measured_tables, tmp_path):
    (tmp_path / "a.yml").write_text(SUITE.format(name="a", table="my-db.*"))
    (tmp_path / "b.yml").write_text(SUITE.format(name="b", table="b"))
    with Repository("sqlite://") as repo:
        repo.record("b", "rows", {"ds=2013-02-08": 1.0})
        summary = runs.run_suites([str(tmp_path)], repo, session=session)
    assert measured_tables == ["b"]
    assert summary.failed == [
        f"{tmp_path}/a.yml: RuntimeError: [PARSE_SYNTAX_ERROR] Syntax error at 'my-db'"
    ]


@pytest.mark.parametrize("command", [runs.run_suites, runs.run_checks])
def test_a_broken_file_stops_no_other_file(measured_tables, tmp_path, command):
    """For example one file of many with a variable that has no value."""
    text = SUITE + "checks: [is_complete: x]\n"
    (tmp_path / "a.yml").write_text(text.format(name="a", table="${region}"))
    (tmp_path / "b.yml").write_text(text.format(name="b", table="b"))
    with Repository("sqlite://") as repo:
        summary = command([str(tmp_path)], repo, session=session)
        assert measured_tables == ["b"]
        assert summary.failed[0].startswith(f"{tmp_path}/a.yml:2: ")
        assert "region" in summary.failed[0]
        with pytest.raises(tg.SuiteError, match="region"):
            command([str(tmp_path / "a.yml")], repo, session=session)


def test_a_retired_dataset_is_left_out_of_a_run(tmp_path, monkeypatch):
    def analyze(_, suite, *, repository, **__):
        repository.store.open_run(spec(suite.dataset))
        return SimpleNamespace(
            dataset=suite.dataset,
            changes={},
            failed={},
            unreadable={},
            checks={},
            passed=True,
            routes="",
        )

    monkeypatch.setattr(runs, "open_file", lambda *_: None)
    monkeypatch.setattr(runs, "analyze", analyze)
    for name in ("old", "new"):
        (tmp_path / f"{name}.yml").write_text(SUITE.format(name=name, table=name))
    with Repository("sqlite://") as repo:
        commit(repo, day(1), dataset="old")
        commit(repo, day(1), dataset="new")
        repo.retire("old", note="replaced by new")
        summary = runs.run_suites([str(tmp_path)], repo, session=session)
        assert [table.run.dataset for table in summary.tables] == ["new"]
        assert summary.status(Gate(anomalies=True)) == 0
        (reported,) = (line for line in summary.lines() if line.startswith("skipped: "))
        assert f"{tmp_path}/old.yml: " in reported
        assert "replaced by new" in reported
        alone = runs.run_suites([str(tmp_path / "old.yml")], repo, session=session)
        assert alone.status() == 1


def test_a_failing_table_of_a_pattern_is_reported_by_name(measured_tables, tmp_path):
    (tmp_path / "all.yml").write_text(SUITE.format(name="q", table="db.*"))
    expected = [f"{tmp_path}/all.yml, db.t{i}: RuntimeError: executor lost" for i in (0, 2)]
    with Repository("sqlite://") as repo:
        for i in (1, 3):
            repo.record(f"q.t{i}", "rows", {"ds=2013-02-08": 1.0})
        assert runs.run_suites([str(tmp_path)], repo, session=session).failed == expected
    assert measured_tables == ["q.t0", "q.t1", "q.t2", "q.t3"]


def test_checks_of_a_pattern_continue_after_a_failing_table(measured_tables, tmp_path, monkeypatch):
    judged = []
    monkeypatch.setattr(runs, "check_table", lambda one, *_: judged.append(one.table))
    text = SUITE.format(name="q", table="db.*") + "checks:\n  - has_size: {at_least: 1}\n"
    (tmp_path / "all.yml").write_text(text)
    with Repository("sqlite://") as repo:
        summary = runs.run_checks([str(tmp_path)], repo, session=session)
    assert measured_tables == ["q.t0", "q.t1", "q.t2", "q.t3"]
    assert judged == ["db.t1", "db.t3"]
    assert summary.failed == [
        f"{tmp_path}/all.yml, db.t{i}: RuntimeError: executor lost" for i in (0, 2)
    ]


def test_a_failing_detector_stops_only_its_dataset(measured_tables, tmp_path, monkeypatch):
    read, scored = together.DetectionJob.from_stored, []

    def fails(connection, stored, **settings):
        if stored.name == "a":
            return 1 / 0
        scored.append(stored.name)
        return read(connection, stored, **settings)

    monkeypatch.setattr(together.DetectionJob, "from_stored", fails)
    for name in "ab":
        (tmp_path / f"{name}.yml").write_text(SUITE.format(name=name, table=name))
    with Repository("sqlite://") as repo:
        for name in "ab":
            repo.record(name, "rows", {"ds=2013-02-08": 1.0})
        summary = runs.run_suites([str(tmp_path)], repo, session=session)
        assert summary.failed == ["detection in a: ZeroDivisionError: division by zero"]
        assert set(scored) == {"b"}
        with pytest.raises(tg.HistoryError, match="1 of 2 .* 'a': ZeroDivisionError"):
            repo.detect()


def test_partitions_committed_by_a_failing_table_are_judged_in_the_same_run(
    measured_tables, ordinary, tmp_path, monkeypatch
):
    """For the next run these partitions are not new, so it would not report them."""

    def analyze(*_, **__):
        commit(ordinary, day(28, rows=10))
        message = "executor lost"
        raise RuntimeError(message)

    monkeypatch.setattr(runs, "analyze", analyze)
    summary = runs.run_suites([str(tmp_path)], ordinary, session=session)
    assert summary.failed == [f"{tmp_path}/d.yml: RuntimeError: executor lost"]
    (actual,) = summary.anomalies
    assert actual["partition"].unique().tolist() == ["ds=2013-01-28"]
    assert summary.status(Gate(anomalies=True)) == 1


def interrupted(repo, *found):
    """Store measured partitions in a run that fails afterwards."""
    run = repo.store.open_run(spec())
    repo.store.commit_batch(run, found)
    repo.store.close_run(run, RunStatus.FAILED, {"measured": len(found)}, "executor lost")


def test_a_repeated_run_ends_like_the_first(measured_tables, ordinary, tmp_path):
    """Another table failed, so the scheduler repeats all tables. Nothing is new, and the status stays the same."""
    commit(ordinary, day(28, rows=10))
    ordinary.detect("d")
    commit(ordinary)  # measures nothing
    summary = runs.run_suites([str(tmp_path)], ordinary, session=session)
    assert summary.anomaly_count > 0
    assert any("ds=2013-01-28" in line for line in summary.lines())
    assert summary.status() == 0
    assert summary.status(Gate(anomalies=True)) == 2
    (incident,) = ordinary.incidents("d")["id"]
    ordinary.label(int(incident), "acknowledged")
    summary = runs.run_suites([str(tmp_path)], ordinary, session=session)
    assert summary.status(Gate(anomalies=True)) == 0


def test_partitions_of_a_failed_run_and_of_the_next_run_are_judged_together(
    measured_tables, ordinary, tmp_path
):
    interrupted(ordinary, day(28, rows=10))
    ordinary.detect("d")
    commit(ordinary, day(29, rows=10))
    ordinary.detect("d")
    summary = runs.run_suites([str(tmp_path)], ordinary, session=session)
    actual = {name for frame in summary.anomalies for name in frame["partition"]}
    assert actual == {"ds=2013-01-28", "ds=2013-01-29"}


def test_older_anomalies_are_not_counted_again(measured_tables, ordinary, tmp_path):
    commit(ordinary, day(28, rows=10))
    ordinary.detect("d")
    commit(ordinary, day(29, rows=1001))
    summary = runs.run_suites([str(tmp_path)], ordinary, session=session)
    actual = {name for frame in summary.anomalies for name in frame["partition"]}
    assert "ds=2013-01-28" not in actual
