"""SQLite files in folders that cannot be written, as on a read-only mount."""

import os
import shutil
import subprocess
import sys

import pytest
from tidegauge.repository.testing.samples import commit, day

import tidegauge as tg


@pytest.fixture
def url(tmp_path):
    """The URL of a repository of one day, in a folder of its own."""
    (tmp_path / "mounted").mkdir()
    url = f"sqlite:///{tmp_path}/mounted/r.db"
    with tg.Repository(url) as repo:
        commit(repo, day(1))
    return url


def test_it_is_read_and_writing_is_refused(url, monkeypatch):
    real = os.access
    monkeypatch.setattr(
        os, "access", lambda path, mode: mode != os.W_OK and real(path, mode)
    )  # root may write to any folder
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


def test_a_mount_of_its_own(url, tmp_path):
    """In a namespace, where the system allows one; the test above does not need it."""
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
