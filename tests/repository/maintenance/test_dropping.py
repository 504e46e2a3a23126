"""`Repository.drop` and `Repository.retire`: rows that go, rows that stay, and results that are
computed again. No Spark.
"""

import contextlib
import hashlib

import pytest
import sqlalchemy as sa

import tidegauge as tg
from tests.support.integrity import check
from tidegauge.analyzers.core.errors import MetricEnvironmentError
from tidegauge.analyzers.runs.recording import recording_failed_start
from tidegauge.cli.main import run_command
from tidegauge.repository.maintenance import backups
from tidegauge.repository.store import schema as s
from tidegauge.repository.store.database import Database
from tidegauge.repository.testing import (
    HIST,
    MEAN,
    SIZE,
    UNIQUE,
    changes,
    commit,
    day,
    judged,
    measurement,
    spec,
    values,
)

SHARED = {"clock", "commit", "lease", "table_schema", "analyzer_set", "input_set", "named_state"}
"""Tables whose rows belong to no dataset."""


def rows_of(repo):
    with repo.database.read() as connection:
        return {
            table.name: connection.execute(sa.select(sa.func.count()).select_from(table)).scalar()
            for table in s.metadata.sorted_tables
            if table.name not in SHARED
        }


def fill(repo, dataset="d"):
    """Store forty days with an anomaly, a restatement, verdicts, roll-ups, scores, incidents and labels."""
    commit(repo, *(day(n, rows=5 if n == 38 else 100) for n in range(1, 41)), dataset=dataset)
    commit(repo, day(7, "b", rows=101), dataset=dataset, tags={"owner": "ann"})
    repo.roll_up(dataset, ["7d"])
    judged(repo, dataset=dataset, partition="ds=2013-01-02", passed=False)
    repo.detect(dataset)
    incidents = repo.incidents(dataset)
    assert len(incidents)
    repo.label(int(incidents["id"].iloc[0]), "comment", note="why?")
    tg.notify(repo, "log", dataset=dataset)


def test_dropping_a_dataset_removes_it_and_leaves_others_unchanged(repo):
    fill(repo, "other")
    before, metrics = rows_of(repo), repo.metrics("other")
    fill(repo, "d")
    repo.rename("d", "e", dry_run=True)
    planned = repo.drop("d", dry_run=True)
    with repo.database.read() as connection:
        assert connection.execute(sa.select(s.lease)).all() == []  # a dry run writes nothing
    assert (planned.partitions, planned.runs, planned.dry_run) == (40, 2, True)
    assert "d" in repo.datasets()
    dropped = repo.drop("d")
    assert str(dropped) == str(planned).replace("would drop", "dropped")
    assert rows_of(repo) == before
    assert repo.metrics("other").equals(metrics)
    assert check(repo.database, repo.artifacts) == []
    with pytest.raises(tg.UnknownDatasetError):
        repo.drop("d")
    commit(repo, day(1), dataset="d", source="db.another")
    assert repo.partitions("d")["version"].tolist() == [1]


def test_after_dropping_a_partition_it_is_as_if_never_measured(repo, tmp_path):
    fill(repo)
    with pytest.raises(tg.HistoryError, match="did you mean 'ds=2013-02-07'"):
        repo.drop("d", partition="ds=2013-02-77")
    repo.drop("d", partition="ds=2013-02-07")  # the anomaly
    repo.drop("d", partition="ds=2013-01-07")  # the restated partition
    assert check(repo.database, repo.artifacts) == []
    repo.roll_up("d", ["7d"])
    repo.detect("d", replay=True)
    with tg.Repository(f"sqlite:///{tmp_path}/other.db") as other:
        commit(other, *(day(n, rows=100) for n in range(1, 41) if n not in {7, 38}))
        other.roll_up("d", ["7d"])
        other.detect("d")
        columns = ["partition", "name", "instance", "segment", "value", "status"]
        for window in (None, "7d", "total"):
            ours, theirs = (r.metrics("d", window=window)[columns] for r in (repo, other))
            key = ["partition", "name", "instance", "segment"]
            ours, theirs = (f.sort_values(key).reset_index(drop=True) for f in (ours, theirs))
            assert ours.equals(theirs), window
        faults = [r.incidents("d")["headline"].tolist() for r in (repo, other)]
        assert faults[0] == faults[1]
    assert values(repo, "Size", window="total") == [38 * 100]
    assert check(repo.database, repo.artifacts) == []


def test_a_dropped_partition_is_measured_again_if_its_files_exist(repo):
    commit(repo, day(1), day(2))
    repo.drop("d", partition="ds=2013-01-02")
    run = repo.store.open_run(spec())
    assert [str(c) for c in changes(repo, run, day(1), day(2))] == ["unchanged", "new"]


def test_a_dropped_analyzer_is_measured_again_if_the_suite_names_it(repo):
    fails = measurement(tg.Sum("x"), MetricEnvironmentError("no package"))
    commit(repo, *(day(n, extra=[fails]) for n in range(1, 31)))
    repo.roll_up("d", ["7d"])
    repo.detect("d")
    with pytest.raises(tg.HistoryError, match="did you mean"):
        repo.drop("d", analyzer="Histogram('z')")
    assert repo.drop("d", analyzer=HIST).series > 1
    repo.drop("d", analyzer="Sum('x')")
    assert "Histogram.bins" not in set(repo.metrics("d")["name"])
    assert check(repo.database, repo.artifacts) == []
    entry = repo.store.ledger("d")["ds=2013-01-01"]
    assert len(entry.analyzers) == 4
    assert len(entry.retries) == 1  # Mean('nope')
    repo.detect("d")
    run = repo.store.open_run(spec())
    assert [str(c) for c in changes(repo, run, day(1, only=[SIZE, HIST, MEAN]))] == ["added"]
    assert values(repo, "Histogram.bins") == [2]
    with pytest.raises(tg.HistoryError, match="either a partition or an analyzer"):
        repo.drop("d", analyzer=HIST, partition="ds=2013-01-01")


def test_after_dropping_a_generation_it_is_as_if_never_measured(repo):
    """``s`` contains numbers on days 3 and 4, and strings on the others."""
    numbers = {(7,): 6, (8,): 4}
    days = [day(n, kind="long", groups=numbers) if n in {3, 4} else day(n) for n in range(1, 7)]
    commit(repo, *days)
    repo.roll_up("d", ["7d"])
    assert len(repo.generations("d")) == 6  # three of Histogram and three of Uniqueness
    with pytest.raises(tg.HistoryError, match="has no generation 's is a date'.*'s is a text'"):
        repo.drop("d", analyzer=HIST, generation="s is a date")
    with pytest.raises(tg.HistoryError, match="set analyzer="):
        repo.drop("d", generation="s is a number")
    planned = repo.drop("d", analyzer=HIST, generation="s is a number", dry_run=True)
    # Uniqueness reads the same states, which stay. Each of two days has the bins, and the ratio and
    # count of two values.
    # count of two values.
    assert (planned.metrics, planned.states, planned.partitions) == (2 * 5, 0, 0)
    repo.drop("d", analyzer=HIST, generation="s is a number")
    kept = set(repo.metrics("d", name="Histogram.bins")["partition"])
    assert kept == {f"ds=2013-01-0{n}" for n in (1, 2, 5, 6)}
    assert len(repo.metrics("d", name="Uniqueness")) == 6
    dropped = repo.drop("d", analyzer="Uniqueness('s')", generation="s is a number")
    assert (dropped.metrics, dropped.states) == (2, 2)
    assert set(repo.generations("d")["generation"]) == {"s is a text"}
    assert check(repo.database, repo.artifacts) == []
    # Both are measured again while the files exist.
    run = repo.store.open_run(spec())
    only = [HIST, UNIQUE]
    again = [day(3, kind="long", groups=numbers, only=only), day(1, only=only)]
    assert [str(c) for c in changes(repo, run, *again)] == ["added", "unchanged"]
    assert len(repo.metrics("d", name="Histogram.bins")) == 5


def test_a_dataset_that_is_being_measured_is_not_dropped(repo):
    commit(repo, day(1))
    with repo.store.hold("d", 0), pytest.raises(tg.LeaseError):
        repo.drop("d")


def test_a_retired_dataset_has_no_overdue_partitions(repo, caplog):
    caplog.set_level("INFO", "tidegauge.incidents")
    commit(repo, day(1), dataset="other")
    fill(repo)
    repo.store.fail_run(spec(), "no folder")
    repo.retire("d", note="replaced by d2", by="ann")
    repo.retire("d")  # it is already retired
    caplog.clear()
    assert repo.overview()["dataset"].tolist() == ["other"]
    assert repo.overview("d")["errors"].tolist() == [0]
    assert repo.incidents("d", status="open").empty
    assert repo.anomalies(status="open").empty
    assert tg.notify(repo, "log", dataset=["d", "other"]) == []
    assert repo.datasets(retired=False) == ["other"]
    assert len(repo.metrics("d")) > 0
    for start in (repo.store.open_run, lambda one: repo.store.fail_run(one, "no folder")):
        with pytest.raises(tg.RetiredDatasetError, match=r"\(replaced by d2\).*dataset revive d`"):
            start(spec())
    with (
        pytest.raises(tg.RetiredDatasetError, match=r"dataset revive d`"),
        recording_failed_start(repo.store, spec()),
    ):
        raise tg.NoSuchTableError("no folder")
    before = len(repo.runs("d"))
    repo.revive("d")
    assert len(repo.runs("d")) == before
    assert set(repo.overview()["dataset"]) == {"other", "d"}
    assert repo.overview("d")["status"].tolist() == ["failed"]
    assert repo.store.open_run(spec()) > 0


def test_the_commands_for_dropping(tmp_path, capsys):
    db = f"sqlite:///{tmp_path}/r.db"
    with tg.Repository(db) as repo:
        commit(repo, day(1), day(2))
    run = ["dataset", "retire", "d", "--db", db, "--note", "moved", "--by", "ann"]
    assert run_command(run) == 0
    assert run_command(["dataset", "list", "--db", db]) == 0
    output = capsys.readouterr().out
    assert "retired" in output
    assert "moved" in output
    assert run_command(["dataset", "revive", "d", "--db", db]) == 0
    only = ["--partition", "ds=2013-01-02"]
    assert run_command(["dataset", "drop", "d", "--db", db, *only, "--dry-run"]) == 0
    assert "would drop 1 partition" in capsys.readouterr().out
    assert run_command(["dataset", "drop", "d", "--db", db, *only, "--yes"]) == 0
    assert run_command(["dataset", "drop", "d", "--db", db, "--yes"]) == 0
    assert "dropped 1 partition" in capsys.readouterr().out.splitlines()[-1]
    with tg.Repository(db) as repo:
        assert repo.datasets() == []
    assert run_command(["dataset", "retire", "d", "--db", db]) == 1


def contents(url, folder):
    """Return the number and the hash of the rows of each table, and the files of large states."""
    with (
        contextlib.closing(Database(url, read_only=True)) as database,
        database.read() as connection,
    ):
        tables = {
            table.name: sorted(repr(tuple(row)) for row in connection.execute(sa.select(table)))
            for table in s.metadata.sorted_tables
            if table is not s.lease  # contains the current process
        }
    hashes = {
        name: (len(rows), hashlib.sha256("\n".join(rows).encode()).hexdigest())
        for name, rows in tables.items()
    }
    return hashes, {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_backup_restores_every_dropped_or_renamed_row(url, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)  # the folder of PostgreSQL's backups
    folder = tmp_path / "states"
    options = ["--db", url, "--artifacts", str(folder)]
    # A state in a file, but no histogram, which would have as many series as values.
    large = {(hashlib.sha256(b"%d" % n).hexdigest(),): 1 for n in range(20_000)}
    days = [day(n, kind="long", groups={(7,): 9}) if n in {3, 4} else day(n) for n in range(1, 7)]
    with tg.Repository(url, artifacts=folder) as repo:
        commit(repo, *days, day(7, groups=large, rows=20_000, only=[SIZE, UNIQUE]))
        commit(repo, day(1), dataset="other")
        repo.roll_up("d", ["7d"])
        judged(repo, partition="ds=2013-01-02", passed=False)
        repo.detect("d")
    whole = contents(url, folder)
    assert whole[1]  # a state in a file

    for command in (
        ["drop", "d", "--yes"],
        ["drop", "d", "--yes", "--analyzer", str(HIST)],
        ["drop", "d", "--yes", "--partition", "ds=2013-01-07"],
        ["drop", "d", "--yes", "--analyzer", str(UNIQUE), "--generation", "s is a number"],
    ):
        assert run_command(["dataset", *command, *options, "--dry-run"]) == 0
        assert contents(url, folder) == whole
        assert run_command(["dataset", *command, *options]) == 0
        assert contents(url, folder)[0] != whole[0]
        undo = capsys.readouterr().err.rpartition("tidegauge db restore ")[2].strip()
        assert run_command(["db", "restore", undo, *options]) == 0
        assert contents(url, folder) == whole

    assert run_command(["db", "backup", *options, "--to", "before"]) == 0
    assert run_command(["dataset", "rename", "d", "new name", *options]) == 0
    assert "tidegauge dataset rename -- 'new name' d" in capsys.readouterr().err
    assert contents(url, folder) != whole
    assert run_command(["db", "restore", "before", *options]) == 0
    assert contents(url, folder) == whole
    assert run_command(["dataset", "rename", "d", "e", *options]) == 0
    assert run_command(["dataset", "rename", "e", "d", *options]) == 0
    assert contents(url, folder)[0]["dataset"] == whole[0]["dataset"]


def test_nothing_is_dropped_without_a_backup_unless_requested(tmp_path, capsys, monkeypatch):
    db = f"sqlite:///{tmp_path}/r.db"
    with tg.Repository(db) as repo:
        commit(repo, day(1))

    def full(*_):
        raise tg.DatabaseAccessError("no space left on device")

    monkeypatch.setattr(backups, "back_up", full)
    assert run_command(["dataset", "drop", "d", "--db", db, "--yes"]) == 1
    assert "nothing was dropped, because the backup failed: no space" in capsys.readouterr().err
    with tg.Repository(db) as repo:
        assert repo.datasets() == ["d"]
    assert run_command(["dataset", "drop", "d", "--db", db, "--yes", "--no-backup"]) == 0
    assert capsys.readouterr().err == ""
    with tg.Repository(db) as repo:
        assert repo.datasets() == []
    assert [path.name for path in tmp_path.glob("*.backup.db")] == []


def test_a_renamed_dataset_keeps_its_history(repo):
    fill(repo)
    commit(repo, day(1), dataset="other")
    metrics, incidents = repo.metrics("d"), repo.incidents("d")
    with pytest.raises(tg.HistoryError, match="dataset 'other' already exists"):
        repo.rename("d", "other")
    with pytest.raises(tg.HistoryError, match="not a valid name of a dataset"):
        repo.rename("d", " ")
    with pytest.raises(tg.UnknownDatasetError):
        repo.rename("nope", "e")
    repo.rename("d", "e", dry_run=True)
    assert repo.datasets() == ["d", "other"]
    repo.rename("d", "e")
    assert repo.datasets() == ["e", "other"]
    for before, now in ((metrics, repo.metrics("e")), (incidents, repo.incidents("e"))):
        assert before.drop(columns="dataset").equals(now.drop(columns="dataset"))
    # The next run continues it, and a run with the old name starts a new history.
    run = repo.store.open_run(spec("e"))
    assert [str(c) for c in changes(repo, run, day(40, rows=100), day(41))] == ["unchanged", "new"]
    commit(repo, day(1))
    assert len(repo.partitions("d")) == 1
    assert check(repo.database, repo.artifacts) == []


@pytest.mark.parametrize(("answer", "status"), [(False, 1), (True, 0)])
def test_a_declined_confirmation_drops_nothing(tmp_path, capsys, monkeypatch, answer, status):
    db = f"sqlite:///{tmp_path / 'r.db'}"
    with tg.Repository(db) as repo:
        repo.record("d", "Size", {"ds=2026-01-01": 1}, scale="count")
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("typer.confirm", lambda _: answer)
    assert run_command(["dataset", "drop", "d", "--db", db, "--no-backup"]) == status
    assert ("error: d: nothing was dropped" in capsys.readouterr().err) is not answer
    with tg.Repository(db) as repo:
        assert repo.datasets() == ([] if answer else ["d"])
