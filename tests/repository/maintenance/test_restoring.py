"""`tidegauge db restore` of backups of another kind of database, and of other files."""

import shlex

import pytest

import tidegauge as tg
from tidegauge.cli.main import run_command

pytestmark = pytest.mark.postgres


@pytest.fixture
def file_url(tmp_path):
    url = f"sqlite:///{tmp_path}/r.db"
    with tg.Repository(url) as repo:
        repo.record("d", "rows", {"ds=2026-01-01": 1.0})
    return url


def suggested_command(err, first):
    """Return the words of the command that a message suggests."""
    return shlex.split(err[err.index(first) :].partition(", then")[0])[1:]


def test_a_sqlite_backup_suggests_the_copy_into_postgresql(postgres, file_url, tmp_path, capsys):
    backup, target = tmp_path / "kept.db", postgres.database()
    assert run_command(["db", "backup", "--db", file_url, "--to", str(backup)]) == 0
    capsys.readouterr()
    secret = target.replace("tester@", "tester:s3cret@")
    folder = str(tmp_path / "large")
    assert run_command(["db", "restore", str(backup), "--db", secret, "--artifacts", folder]) == 1
    err = capsys.readouterr().err
    assert f"{backup} is a backup of a SQLite database, which cannot be restored into Post" in err
    assert len(err.splitlines()) == 1
    assert "s3cret" not in err
    command = suggested_command(err, "tidegauge db copy")
    command[command.index("FOLDER")] = folder
    assert run_command(command) == 0
    with tg.Repository(target) as repo:
        assert repo.datasets() == ["d"]


def test_a_postgresql_backup_suggests_the_copy_into_sqlite(postgres, file_url, tmp_path, capsys):
    source, dump, folder = postgres.database(), tmp_path / "kept.dump", str(tmp_path / "large")
    with tg.Repository(source, artifacts=folder) as repo:
        repo.record("e", "rows", {"ds=2026-01-01": 1.0})
    options = ["--artifacts", folder, "--db"]
    assert run_command(["db", "backup", "--to", str(dump), *options, source]) == 0
    capsys.readouterr()
    assert run_command(["db", "restore", str(dump), "--db", file_url]) == 1
    err = capsys.readouterr().err
    assert f"{dump} is a backup of a PostgreSQL database, which cannot be restored into SQL" in err
    other = postgres.database()
    restore = suggested_command(err, "tidegauge db restore")
    assert run_command([*restore[:-1], other, *options[:2]]) == 0
    copy = suggested_command(err, "tidegauge db copy")
    target = copy[3]
    assert target == file_url  # it contains a repository, so that another file is suggested
    new = f"sqlite:///{tmp_path}/new.db"
    assert run_command(["db", "copy", other, new, "--artifacts", folder]) == 0
    with tg.Repository(new) as repo:
        assert repo.datasets() == ["e"]


def test_other_files_are_refused_in_one_line(postgres, tmp_path, capsys):
    (tmp_path / "notes.txt").write_text("-- PostgreSQL database dump\nSELECT 1;\n")
    (tmp_path / "cut.dump").write_bytes(b"PGDMP\1\2")
    url = postgres.database()
    problems = {
        "notes.txt": "not a backup of a tidegauge repository",
        "cut.dump": "cut off or damaged",
    }
    for name, problem in problems.items():
        command = ["db", "restore", str(tmp_path / name), "--db", url]
        assert run_command([*command, "--artifacts", str(tmp_path / "large")]) == 1
        err = capsys.readouterr().err
        assert f"{tmp_path / name} is {problem}" in err
        assert len(err.splitlines()) == 1
