"""`copy_repository` moves everything between databases, even after interruptions."""

import contextlib
import hashlib
import os
import signal
import subprocess
import sys

import pandas as pd
import pytest
import sqlalchemy as sa

import tidegauge as tg
from tests.support.integrity import check
from tidegauge.cli.main import run_command
from tidegauge.repository.maintenance import backups
from tidegauge.repository.store import schema as s
from tidegauge.repository.store.database import Database
from tidegauge.repository.testing import commit, day, judged


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setattr(backups, "BATCH_ROWS", 50)


def fill(url, artifacts):
    """Store sixty days with anomalies, a restatement, verdicts, roll-ups, labels, and a state in a file."""
    large = {(hashlib.sha256(bytes([n % 256, n // 256])).hexdigest(),): 1 for n in range(20_000)}
    with tg.Repository(url, artifacts=artifacts) as repo:
        commit(repo, *(day(n, rows=5 if n in {38, 51} else 100) for n in range(1, 61)))
        commit(repo, day(7, "b", rows=101), day(61, groups=large), tags={"owner": "Änn"})
        repo.roll_up("d", ["7d", "month"])
        judged(repo, partition="ds=2013-01-02", passed=False)
        repo.detect("d")
        repo.label(int(repo.incidents("d")["id"].iloc[0]), "comment", note="why? 🌊", by="ann")
        repo.record("other", "rows", {"ds=2026-01-01": 1.5, "ds=2026-01-02": float("nan")})
        repo.retire("other", note="moved")


def visible_content(url, artifacts):
    """Return the content of a repository that users see."""
    with tg.Repository(url, artifacts=artifacts) as repo:
        assert check(repo.database, repo.artifacts) == []
        frames = [repo.metrics(d) for d in repo.datasets()]
        frames += [repo.incidents("d"), repo.labels("d"), repo.runs("d"), repo.partitions("d")]
        frames += [repo.restatements("d"), repo.metrics("d", window="7d")]
        return frames, repo.merge("d", tg.Histogram("s")).value


def assert_equal(one, other):
    for left, right in zip(one[0], other[0], strict=True):
        pd.testing.assert_frame_equal(left, right)
    assert one[1] == other[1]


def copy(source, target, folder, **options):
    old, new = Database.unchecked(source), Database.unchecked(target)
    with contextlib.closing(old), contextlib.closing(new):
        artifacts = [backups.Artifacts(folder / name) for name in ("a", "b")]
        return backups.copy_repository(old, artifacts[0], new, artifacts[1], **options)


@pytest.mark.parametrize("kinds", ["sqlite sqlite", "sqlite postgresql", "postgresql sqlite"])
def test_a_copy_equals_the_repository(kinds, tmp_path, request):
    if "postgresql" in kinds:
        request.getfixturevalue("postgres")

    def url(kind, name):
        if kind == "sqlite":
            return f"sqlite:///{tmp_path}/{name}.db"
        return request.getfixturevalue("postgres").database()

    source, target = (url(kind, f"r{n}") for n, kind in enumerate(kinds.split()))
    fill(source, tmp_path / "a")
    done = copy(source, target, tmp_path)
    assert done.files == 2  # a total of one day, and one of all days
    assert_equal(visible_content(source, tmp_path / "a"), visible_content(target, tmp_path / "b"))
    with tg.Repository(target, artifacts=tmp_path / "b") as repo:  # ids continue
        before = set(repo.runs("d")["run_id"])
        assert commit(repo, day(62)) > max(before)
        repo.label(int(repo.incidents("d")["id"].iloc[0]), "comment", note="later")
        repo.detect("d", replay=True)
        assert check(repo.database, repo.artifacts) == []


class KilledError(Exception):
    """Stands for the end of the process."""


@pytest.mark.parametrize("batches", [0, 1, 3, 12])
def test_a_killed_copy_is_completed_by_the_next(tmp_path, monkeypatch, batches):
    source, target = f"sqlite:///{tmp_path}/old.db", f"sqlite:///{tmp_path}/new.db"
    fill(source, tmp_path / "a")
    insert, left = backups.insert_rows, [batches]

    def killed(*arguments):
        if left[0] == 0:
            raise KilledError
        left[0] -= 1
        insert(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(backups, "insert_rows", killed)
        with pytest.raises(KilledError):
            copy(source, target, tmp_path)
    for read_only in (True, False):
        with pytest.raises(tg.DatabaseVersionError, match="unfinished copy.*tidegauge db copy"):
            tg.Repository(target, read_only=read_only)
    if batches == 3:  # the copied rows have changed since
        with tg.Repository(source, artifacts=tmp_path / "a") as repo:
            repo.revive("other")
            commit(repo, day(3, "c", rows=77))
    inserted = []
    monkeypatch.setattr(backups, "insert_rows", lambda *a: (inserted.append(len(a[3])), insert(*a)))
    done = copy(source, target, tmp_path)
    if batches == 12:  # committed rows are not copied again
        assert 0 < sum(inserted) < done.rows
    assert_equal(visible_content(source, tmp_path / "a"), visible_content(target, tmp_path / "b"))


def begin_copy(source, target, folder):
    """Copy three batches, and then fail."""
    insert, left = backups.insert_rows, [3]

    def killed(*arguments):
        if left[0] == 0:
            raise KilledError
        left[0] -= 1
        insert(*arguments)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(KilledError):
        patch.setattr(backups, "insert_rows", killed)
        copy(source, target, folder)


@pytest.fixture
def sources(tmp_path):
    """URLs of two repositories, each with a dataset named after the file."""
    urls = [f"sqlite:///{tmp_path}/{name}.db" for name in ("first", "second")]
    for url, name in zip(urls, ("first", "second"), strict=True):
        with tg.Repository(url) as repo:
            repo.record(name, "rows", {f"ds=2026-01-{n:02}": 1.0 for n in range(1, 21)})
    return urls


def test_an_unfinished_copy_of_another_source_is_kept(sources, bare_url, tmp_path, capsys):
    first, second = sources
    begin_copy(first, bare_url, tmp_path)
    with pytest.raises(tg.DatabaseAccessError) as refusal:
        copy(second, bare_url, tmp_path)
    assert f"has an unfinished copy of {first}, not of {second}" in str(refusal.value)
    assert "--discard-unfinished" in str(refusal.value)
    with pytest.raises(tg.DatabaseVersionError, match=f"is an unfinished copy of {first}; finish"):
        tg.Repository(bare_url, read_only=True)
    copy(first, bare_url, tmp_path)  # nothing was removed
    with tg.Repository(bare_url) as repo:
        assert repo.datasets() == ["first"]
        with repo.database.read() as connection:
            assert connection.execute(sa.select(s.lease)).all() == []


def test_an_unfinished_copy_is_replaced_on_request(sources, bare_url, tmp_path, capsys):
    first, second = sources
    begin_copy(first, bare_url, tmp_path)
    folder = str(tmp_path / "b")
    command = ["db", "copy", second, bare_url, "--to-artifacts", folder]
    assert run_command(command) == 1
    assert f"has an unfinished copy of {first}" in capsys.readouterr().err
    assert run_command([*command, "--discard-unfinished"]) == 0
    with tg.Repository(bare_url) as repo:
        assert repo.datasets() == ["second"]


@pytest.mark.postgres
def test_a_source_is_stored_without_its_password(postgres, sources, tmp_path):
    source, target = postgres.database(), f"sqlite:///{tmp_path}/new.db"
    with tg.Repository(source, artifacts=tmp_path / "a") as repo:
        repo.record("d", "rows", {f"ds=2026-01-{n:02}": 1.0 for n in range(1, 21)})
    begin_copy(source.replace("tester@", "tester:s3cret@"), target, tmp_path)
    with pytest.raises(tg.DatabaseAccessError, match="unfinished copy of") as refusal:
        copy(sources[0], target, tmp_path)
    assert f"copy of {source}, not of" in str(refusal.value)
    copy(source, target, tmp_path)  # the same source with another password


def test_a_second_copy_is_refused_while_the_first_is_running(
    sources, bare_url, tmp_path, monkeypatch
):
    first, second = sources
    insert, refusals = backups.insert_rows, []

    def copying_meanwhile(*arguments):
        if not refusals:
            for source in (first, second):
                with pytest.raises(tg.DatabaseAccessError) as refusal:
                    copy(source, bare_url, tmp_path, discard_unfinished=True)
                refusals.append(str(refusal.value))
        insert(*arguments)

    monkeypatch.setattr(backups, "LOCK_WAIT_SECONDS", 0)
    monkeypatch.setattr(backups, "insert_rows", copying_meanwhile)
    copy(first, bare_url, tmp_path)
    for refusal in refusals:
        assert f"is running, a copy of {first} by process {os.getpid()} on " in refusal
    assert len(refusals) == 2
    with tg.Repository(bare_url) as repo:
        assert repo.datasets() == ["first"]
    assert not list(tmp_path.glob("*-copying"))


COPY_AND_DIE = """
import os, pathlib, signal, sys
from tidegauge.cli.main import run_command
from tidegauge.repository.maintenance import backups
backups.insert_rows = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
run_command(["db", "copy", *sys.argv[1:]])
"""


def test_a_killed_copy_blocks_no_other(sources, bare_url, tmp_path, monkeypatch):
    monkeypatch.setattr(backups, "LOCK_WAIT_SECONDS", 60)  # of a server on a busy machine
    command = [sources[0], bare_url, "--to-artifacts", str(tmp_path / "b")]
    done = subprocess.run(
        [sys.executable, "-c", COPY_AND_DIE, *command], capture_output=True, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    copy(sources[0], bare_url, tmp_path)
    with tg.Repository(bare_url) as repo:
        assert repo.datasets() == ["first"]
    assert not list(tmp_path.glob("*-copying"))


@pytest.mark.parametrize("revision", ["copying", "0099", "0003"])
@pytest.mark.parametrize(
    "command", [["upgrade"], ["downgrade", "0005"], ["backup"], ["check"], ["clean"], ["current"]]
)
def test_the_errors_for_revisions_that_cannot_be_migrated(
    revision, command, sources, tmp_path, capsys
):
    first, second = sources
    target = f"sqlite:///{tmp_path}/new.db"
    begin_copy(first, target, tmp_path)
    with Database.unchecked(target).engine.begin() as connection:
        connection.execute(
            sa.text("UPDATE tidegauge_revision SET version_num = :r"), {"r": revision}
        )
    before = sorted(path.name for path in tmp_path.glob("new*"))
    status = run_command(["db", *command, "--db", target])
    out, err = capsys.readouterr()
    if revision == "copying":
        assert (
            f"{target} is an unfinished copy of {first}; finish it with the same command"
            in out + err
        )
        assert status == (0 if command == ["current"] else 1)
        assert sorted(path.name for path in tmp_path.glob("new*")) == before
    elif command in (["upgrade"], ["downgrade", "0005"]):
        cure = {"0099": "upgrade tidegauge", "0003": "of the version that wrote it"}[revision]
        assert f"is at revision '{revision}'" in err
        assert cure in err
        assert len(err.splitlines()) == status == 1
        assert sorted(path.name for path in tmp_path.glob("new*")) == before
    assert "TIDEGAUGE_TRACE" not in err


@pytest.mark.parametrize("place", ["file", "s3://no-such-bucket/large"])
def test_the_target_folder_is_tested_before_anything_is_copied(
    place, sources, tmp_path, capsys, request
):
    (tmp_path / "file").write_text("")
    if place.startswith("s3"):
        request.getfixturevalue("bucket")
    folder = place if place.startswith("s3") else str(tmp_path / place)
    target = f"sqlite:///{tmp_path}/new.db"
    assert run_command(["db", "copy", sources[0], target, "--to-artifacts", folder]) == 1
    out, err = capsys.readouterr()
    assert f"cannot write to the artifacts' folder {folder}" in err
    assert out == ""
    with contextlib.closing(Database.unchecked(target)) as database:
        assert database.revision() is None


def test_testing_the_folder_leaves_no_files(bucket, tmp_path):
    existing, new = tmp_path / "existing", tmp_path / "new"
    existing.mkdir()
    for root in (existing, new, f"s3://{bucket}/large"):
        artifacts = backups.Artifacts(root)
        artifacts.require_writable()
        assert artifacts.unfinished() == set()
    assert list(existing.iterdir()) == []
    assert not new.exists()


@pytest.mark.postgres
def test_missing_folders_are_requested(postgres, tmp_path, capsys, sources):
    source = postgres.database()
    fill(source, tmp_path / "a")
    target = f"sqlite:///{tmp_path}/new.db"
    assert run_command(["db", "copy", source, target]) == 1
    assert "the source has 2 large states in a folder: specify it with --artifacts" in (
        capsys.readouterr().err
    )
    assert run_command(["db", "copy", sources[0], postgres.database()]) == 1
    assert "specify it with --to-artifacts FOLDER" in capsys.readouterr().err
    with contextlib.closing(Database.unchecked(target)) as database:
        assert database.revision() is None


def test_rows_that_cannot_be_copied_are_reported_and_nothing_is_lost(tmp_path):
    source, target = f"sqlite:///{tmp_path}/old.db", f"sqlite:///{tmp_path}/new.db"
    fill(source, tmp_path / "a")
    with pytest.raises(tg.DatabaseAccessError, match="is the source itself"):
        copy(source, source, tmp_path)
    with tg.Repository(target) as repo:
        repo.record("mine", "rows", {"ds=2026-01-01": 1.0})
    with pytest.raises(tg.DatabaseAccessError, match="new.db already holds a repository"):
        copy(source, target, tmp_path)
    with tg.Repository(target) as repo:
        assert repo.datasets() == ["mine"]
    file, _ = sorted((tmp_path / "a").rglob("*.parquet"))
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    other = f"sqlite:///{tmp_path}/other.db"
    with pytest.raises(tg.CorruptStateError, match=f"{file.name} of .* is damaged"):
        copy(source, other, tmp_path)
    file.unlink()
    with pytest.raises(tg.CorruptStateError, match=f"{file.name} of .* is missing"):
        copy(source, other, tmp_path)
    with Database.unchecked(source).engine.begin() as connection:
        connection.execute(sa.text("UPDATE tidegauge_revision SET version_num = '0006'"))
    with pytest.raises(tg.DatabaseVersionError, match="run tidegauge db upgrade first"):
        copy(source, other, tmp_path)


def test_different_rows_are_detected(tmp_path, monkeypatch):
    source, target = f"sqlite:///{tmp_path}/old.db", f"sqlite:///{tmp_path}/new.db"
    fill(source, tmp_path / "a")
    insert = backups.insert_rows

    def worse(connection, table, columns, rows):
        if table is s.label:
            at = columns.index("note")
            rows = [(*row[:at], "other", *row[at + 1 :]) for row in rows]
        insert(connection, table, columns, rows)

    monkeypatch.setattr(backups, "insert_rows", worse)
    with pytest.raises(tg.DatabaseAccessError, match=r"differs from .*old.db in label$"):
        copy(source, target, tmp_path)
    with pytest.raises(tg.DatabaseVersionError):
        tg.Repository(target)


def test_the_copy_command(tmp_path, capsys):
    source, target = f"sqlite:///{tmp_path}/old.db", f"sqlite:///{tmp_path}/new.db"
    with tg.Repository(source) as repo:
        commit(repo, day(1), day(2))
    assert run_command(["db", "copy", source, target]) == 0
    assert "files are equal in both" in capsys.readouterr().out.splitlines()[-1]
    assert run_command(["db", "copy", f"{source}x", target]) == 1
    assert "no database at" in capsys.readouterr().err


def test_a_copy_that_another_process_completed_is_not_deleted(tmp_path):
    url = f"sqlite:///{tmp_path / 'r.db'}"
    with tg.Repository(url) as repo:
        commit(repo, day(1))
    with contextlib.closing(Database.unchecked(url)) as target:
        with pytest.raises(tg.DatabaseAccessError, match="has finished meanwhile"):
            backups._clear(target)
        assert target.row_counts()["dataset"] == 1
