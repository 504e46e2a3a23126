"""SQLite files in folders that cannot be written, as on a read-only mount."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tidegauge as tg
from tidegauge.cli.main import run_command
from tidegauge.repository.testing import commit, day


@pytest.fixture
def url(tmp_path):
    """The URL of a repository with one day, in a separate folder."""
    (tmp_path / "mounted").mkdir()
    url = f"sqlite:///{tmp_path}/mounted/r.db"
    with tg.Repository(url) as repo:
        commit(repo, day(1))
    return url


@pytest.fixture
def locked(monkeypatch):
    """Make all folders and files read-only for the tests, because root can write to any."""
    real = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK and real(path, mode))


@pytest.mark.parametrize(
    "command",
    [
        "detect d",
        "anomalies label 1 comment",
        "anomalies ack 1",
        "dataset accept d ds=2013-01-01",
        "dataset label d bad",
        "dataset retire d",
        "dataset revive d",
        "dataset rename d e",
        "dataset drop d --yes",
        "db clean",
        "db forget --value ann",
        "run suites/",
        "check suites/",
    ],
)
def test_every_writing_command_is_refused_with_the_same_message(url, locked, capsys, command):
    assert run_command([*command.split(), "--db", url]) == 1
    assert capsys.readouterr().err == (
        f"tidegauge: error: {url} is in a folder that cannot be written. This command or call writes:"
        " run it as a user who may write, or on a copy in another folder, see docs/guide/operate.md\n"
    )


@pytest.mark.parametrize(
    "command",
    [
        "dataset rename d e --dry-run",
        "dataset retire d --dry-run",
        "dataset revive d --dry-run",
        "dataset label d bad --since 2013-01-01 --dry-run",
        "dataset drop d --dry-run",
        "dataset drop d --partition ds=2013-01-01 --dry-run",
        "db clean --versions 0d --states 0d --runs 0d --dry-run",
        "db forget --value ann --dry-run",
        "db backup --to {folder}/copy.db",
    ],
)
def test_dry_runs_and_backups_only_read(url, locked, tmp_path, command):
    assert run_command([*command.format(folder=tmp_path).split(), "--db", url]) == 0


def test_a_file_that_only_others_may_write(url, monkeypatch):
    file = Path(url.removeprefix("sqlite:///"))
    real = os.access
    monkeypatch.setattr(
        os,
        "access",
        lambda path, mode: real(path, mode) and (mode != os.W_OK or Path(path) != file),
    )
    with tg.Repository(url) as repo:
        assert len(repo.metrics("d", name="Size")) == 1
        with pytest.raises(tg.ReadOnlyError, match="is a file that this user may only read"):
            repo.retire("d")


def test_a_file_that_becomes_read_only_after_opening(url):
    with tg.Repository(url) as repo:
        with repo.database.engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA query_only = on")
        with pytest.raises(tg.ReadOnlyError, match="may only read"):
            repo.retire("d")


def test_a_read_only_file_is_read_and_writing_is_refused(url, locked):
    for read_only, why in (
        (True, "opened read-only"),
        (False, "in a folder that cannot be written"),
    ):
        with tg.Repository(url, read_only=read_only) as repo:
            assert len(repo.metrics("d", name="Size")) == 1
            with pytest.raises(tg.ReadOnlyError, match=why):
                repo.record("d", "rows", {"ds=2026-01-01": 1.0})


SCRIPT = """
import sys
import tidegauge as tg
for read_only in (True, False):
    with tg.Repository(sys.argv[1], read_only=read_only) as repo:
        print(len(repo.metrics("d", name="Size")))
"""


def test_a_real_read_only_mount(url, tmp_path):
    """It is in a namespace, if the system allows one. The test above does not need it."""
    folder = tmp_path / "mounted"
    mount = f'mount --bind {folder} {folder} && mount -o remount,ro,bind {folder} && exec "$0" "$@"'
    inside = ["unshare", "--mount", "--map-root-user", "sh", "-c"]
    if shutil.which("unshare") is None:
        return
    if subprocess.run([*inside, mount, "true"], capture_output=True, check=False).returncode:
        return  # namespaces are not allowed
    command = [*inside, mount, sys.executable, "-c", SCRIPT, url]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.split()) == (0, ["1", "1"]), done.stderr
