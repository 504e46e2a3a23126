"""Databases of older releases: open writers, dry runs and checks do not change them unasked."""

import contextlib
import os

import pytest
from tidegauge.cli.main import run_command
from tidegauge.repository.store.database import Database
from tidegauge.repository.testing.samples import commit, day

import tidegauge as tg


def take_down(url, revision="0006"):
    with contextlib.closing(Database.unchecked(url)) as database:
        database.migrate(revision)


def revision(url):
    with contextlib.closing(Database.unchecked(url)) as database:
        return database.revision()


def test_an_open_writer_notices_a_migration(empty_url, tmp_path):
    with tg.Repository(empty_url, artifacts=tmp_path) as repo:
        commit(repo, day(1))
        take_down(empty_url)  # stands for a newer release that brings it up
        with pytest.raises(
            tg.DatabaseVersionError, match="from revision 0007 to 0006 while it was"
        ):
            commit(repo, day(2))
        with pytest.raises(tg.DatabaseVersionError, match="open it again"):
            repo.record("d", "rows", {"ds=2013-01-01": 1.0})
    with contextlib.closing(Database.unchecked(empty_url)) as database:
        assert database.row_counts()["partition_version"] == 1


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def empty_url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'r.db'}"
    return request.getfixturevalue("postgres").database()


@pytest.fixture
def older(tmp_path):
    """A SQLite file of the release before, with one day; its URL."""
    url = f"sqlite:///{tmp_path}/old.db"
    with tg.Repository(url) as repo:
        commit(repo, day(1))
    take_down(url)
    return url


@pytest.mark.parametrize(
    "command",
    [
        ["db", "clean"],
        ["db", "forget", "--value", "a"],
        ["dataset", "drop", "d"],
        ["dataset", "rename", "d", "e"],
    ],
)
def test_a_dry_run_only_reads(older, tmp_path, capsys, command):
    before = sorted(path.name for path in tmp_path.iterdir())
    assert run_command([*command, "--dry-run", "--db", older]) == 1
    assert "run: tidegauge db upgrade" in capsys.readouterr().err
    assert revision(older) == "0006"
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert run_command([*command, "--dry-run", "--db", f"sqlite:///{tmp_path}/new.db"]) == 1
    assert "there is no database" in capsys.readouterr().err
    assert not (tmp_path / "new.db").exists()


def test_an_upgrade_by_a_write_names_the_backup(older, tmp_path, caplog):
    with tg.Repository(older):
        pass
    (backup,) = tmp_path.glob("old.*.backup.db")
    assert (
        f"old.db was upgraded from revision 0006 to 0007; the old one is kept in {backup}"
        in caplog.text
    )


def test_a_check_looks_at_an_upgraded_copy(older, tmp_path, capsys):
    assert run_command(["db", "check", "--db", older]) == 0
    said = capsys.readouterr().out
    assert "is at revision 0006; an upgraded copy is checked" in said
    assert "sound" in said
    assert revision(older) == "0006"
    with (
        contextlib.closing(Database.unchecked(older)) as database,
        database.engine.begin() as connection,
    ):
        connection.exec_driver_sql("UPDATE state SET checksum = 'x'")
    assert run_command(["db", "check", "--db", older]) == 1


def test_a_cleanup_says_what_is_free_and_vacuums_on_request(tmp_path, capsys):
    url, file = f"sqlite:///{tmp_path}/r.db", tmp_path / "r.db"
    groups = {(f"value {n}",): 1 for n in range(3000)}
    with tg.Repository(url) as repo:
        for version in range(12):
            commit(repo, day(1, str(version), rows=3000 + version, groups=groups))
    clean = ["db", "clean", "--versions", "0d", "--db", url]
    size = os.path.getsize(file)
    assert run_command(clean) == 0
    assert "kB of the file are free and used again" in capsys.readouterr().out
    assert os.path.getsize(file) >= size * 0.9
    assert run_command([*clean, "--vacuum"]) == 0
    assert "the file is " in capsys.readouterr().out
    assert os.path.getsize(file) < 0.6 * size
