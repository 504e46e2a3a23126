"""Truncated or overwritten SQLite files: each command names the file, the damage and the fix."""

import random
import shutil
import sqlite3

import pytest

import tidegauge as tg
from tests.conftest import soak
from tests.support.integrity import check
from tidegauge.cli.main import run_command
from tidegauge.repository.store.engines import is_damage
from tidegauge.repository.testing import commit, day

PAGE = 4096


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """A folder with a repository of sixty days, `r.db`, and its backup, `kept.db`."""
    folder = tmp_path_factory.mktemp("sound")
    url = f"sqlite:///{folder / 'r.db'}"
    with tg.Repository(url) as repo:
        commit(repo, *(day(n, rows=5 if n in {38, 51} else 100) for n in range(1, 61)))
        repo.detect("d")
    assert run_command(["db", "backup", "--db", url, "--to", str(folder / "kept.db")]) == 0
    return folder


def overwrite_schema(content, _):
    return content[:100] + b"\xff" * 2000 + content[2100:]


def cut_off(content, _):
    return content[: len(content) // 2 // PAGE * PAGE]


def cut_within_a_page(content, _):
    return content[: PAGE * 3 + 17]


def overwrite_pages(content, seed):
    """Overwrite every fourth page except the first with random bytes."""
    pages = [content[n : n + PAGE] for n in range(0, len(content), PAGE)]
    noise = random.Random(seed)
    return b"".join(noise.randbytes(PAGE) if n % 4 == 3 else p for n, p in enumerate(pages))


DAMAGES = [overwrite_schema, cut_off, cut_within_a_page, overwrite_pages]
COMMANDS = [
    ["metrics", "d"],
    ["report"],
    ["anomalies", "list"],
    ["detect", "d"],
    ["db", "current"],
    ["db", "check"],
    ["db", "backup"],
    ["db", "upgrade"],
    ["db", "downgrade", "0006"],
    ["db", "clean", "--vacuum"],
    ["db", "forget", "--value", "a"],
    ["db", "copy"],
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_explained_in_one_line(sound, tmp_path, damage, capsys):
    file = tmp_path / "r.db"
    content = damage((sound / "r.db").read_bytes(), 1)
    explained = set()
    for command in COMMANDS:
        file.write_bytes(content)
        url = f"sqlite:///{file}"
        where = [url, f"sqlite:///{tmp_path}/copy.db"] if "copy" in command else ["--db", url]
        status = run_command([*command, *where])
        out, err = capsys.readouterr()
        if status == 0:  # it read no damaged page
            continue
        assert err.startswith(f"tidegauge: error: the database {file} is damaged: "), command
        assert f"restore a backup: tidegauge db restore BACKUP --db {url}" in err
        assert len(err.splitlines()) == 1
        assert out == ""
        explained.add(" ".join(command[:2]))
    assert {"db check", "db backup", "db forget", "db copy"} <= explained


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_backup_is_restored_in_place_of_a_damaged_file(sound, tmp_path, damage, capsys):
    file = tmp_path / "r.db"
    content = damage((sound / "r.db").read_bytes(), 1)
    file.write_bytes(content)
    url = f"sqlite:///{file}"
    assert run_command(["db", "restore", str(sound / "kept.db"), "--db", url]) == 0
    (aside,) = tmp_path.glob("r.*.damaged.db")
    assert aside.read_bytes() == content
    assert f"its previous content is kept in {aside}" in capsys.readouterr().out
    with tg.Repository(url) as repo:
        assert check(repo.database, repo.artifacts) == []
        assert len(repo.partitions("d")) == 60


def test_a_file_of_another_format_is_not_replaced(sound, tmp_path, capsys):
    file = tmp_path / "notes.db"
    file.write_text("notes, and enough of them to be no SQLite file at all " * 9)
    assert run_command(["db", "restore", str(sound / "kept.db"), "--db", f"sqlite:///{file}"]) == 1
    assert "notes.db is not a SQLite database, or its first bytes are" in capsys.readouterr().err
    assert file.read_text().startswith("notes")


@pytest.mark.parametrize("seed", range(soak(6, 100)))
def test_random_damage_gives_no_raw_error(sound, tmp_path, seed, capsys):
    """With sixty-four random bytes anywhere, the answer is right, or one line explains the damage."""
    noise = random.Random(seed)
    content = bytearray((sound / "r.db").read_bytes())
    place = noise.randrange(100, len(content) - 64)
    content[place : place + 64] = noise.randbytes(64)
    for command in (["metrics", "d"], ["anomalies", "list"], ["report"], ["db", "check"]):
        (tmp_path / "r.db").write_bytes(content)
        status = run_command([*command, "--db", f"sqlite:///{tmp_path}/r.db"])
        err = capsys.readouterr().err
        assert "TIDEGAUGE_TRACE" not in err
        assert len(err.splitlines()) <= status


def test_a_truncated_backup_is_refused(sound, tmp_path, capsys):
    shutil.copy(sound / "r.db", tmp_path / "r.db")
    (tmp_path / "cut.db").write_bytes(cut_off((sound / "kept.db").read_bytes(), 1))
    command = ["db", "restore", str(tmp_path / "cut.db"), "--db", f"sqlite:///{tmp_path}/r.db"]
    assert run_command(command) == 1
    err = capsys.readouterr().err
    assert "cut.db is damaged" in err or "cut.db is not a backup" in err
    assert (tmp_path / "r.db").read_bytes() == (sound / "r.db").read_bytes()


def test_a_locked_database_is_not_reported_as_damaged():
    assert not is_damage(sqlite3.OperationalError("database is locked"))
    assert is_damage(sqlite3.OperationalError("Could not decode to UTF-8 column 'x'"))
