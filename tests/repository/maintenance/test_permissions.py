"""Permissions: a new repository is private, and its copies are not more open than it is."""

import os

import numpy as np
import pytest

import tidegauge as tg
from tidegauge.analyzers.measures.frequencies import FrequenciesAndNumRows
from tidegauge.cli.main import run_command
from tidegauge.repository.testing import commit, day


@pytest.fixture(autouse=True)
def umask():
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture
def file(tmp_path):
    """The file of a repository with one state in the database, and one in a file."""
    file = tmp_path / "r.db"
    with tg.Repository(f"sqlite:///{file}") as repository:
        commit(repository, day(1))
        draw = np.random.default_rng(1)
        groups = [((value,), 1) for value in draw.integers(0, 2**62, 60_000).tolist()]
        large = FrequenciesAndNumRows.from_groups(groups)
        repository.states("large").persist(tg.Uniqueness("s"), large)
    return file


def mode(path):
    return path.stat().st_mode & 0o777


def modes(folder):
    """Return the permissions of the folders in a folder, and of their files."""
    paths = [folder, *folder.rglob("*")]
    folders = {mode(path) for path in paths if path.is_dir()}
    return folders, {mode(path) for path in paths if path.is_file()}


def run(*arguments):
    assert run_command([str(argument) for argument in arguments]) == 0


def test_a_new_repository_is_private(file):
    assert mode(file) == 0o600
    assert modes(file.with_name("r.db.artifacts")) == ({0o700}, {0o600})
    with tg.Repository(f"sqlite:///{file}") as repository:
        commit(repository, day(2))
        logs = [file.with_name(f"r.db{end}") for end in ("-wal", "-shm")]
        assert {mode(log) for log in logs} == {0o600}


@pytest.mark.parametrize("own", [0o600, 0o640, 0o664])
def test_backups_have_the_permissions_of_the_original(file, tmp_path, own):
    file.chmod(own)
    url = f"sqlite:///{file}"
    run("db", "backup", "--db", url, "--to", tmp_path / "b.db")
    run("db", "restore", tmp_path / "b.db", "--db", url)
    run("db", "restore", tmp_path / "b.db", "--db", f"sqlite:///{tmp_path / 'new.db'}")
    (safety,) = tmp_path.glob("r.*.backup.db")
    assert {mode(path) for path in (file, tmp_path / "b.db", safety, tmp_path / "new.db")} == {own}
    for name in ("b.db", safety.name, "new.db"):
        assert modes(tmp_path / f"{name}.artifacts") == ({0o700}, {0o600})
    with tg.Repository(f"sqlite:///{tmp_path / 'new.db'}") as repository:
        assert repository.states("large").load(tg.Uniqueness("s")).num_rows == 60_000


def test_copies_before_upgrades_and_downgrades_are_as_private(file, tmp_path):
    run("db", "downgrade", "0006", "--db", f"sqlite:///{file}")
    run("db", "upgrade", "--db", f"sqlite:///{file}")
    copies = list(tmp_path.glob("r.*.backup.db"))
    assert len(copies) == 2
    assert {mode(copy) for copy in copies} == {0o600}


def test_files_of_a_shared_folder_are_shared(file, tmp_path):
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o2775)
    with tg.Repository(f"sqlite:///{file}", artifacts=folder) as repository:
        groups = [
            ((str(n) * 20,), 1) for n in np.random.default_rng(2).permutation(90_000).tolist()
        ]
        large = FrequenciesAndNumRows.from_groups(groups)
        repository.states("large").persist(tg.Uniqueness("s"), large)
    assert modes(folder) == ({0o775}, {0o644})


def test_exports_follow_the_umask(file, tmp_path):
    for arguments in (
        ("export", "csv", "d", "--output", tmp_path / "m.csv"),
        ("report", "d", "--html", tmp_path / "r.html"),
    ):
        run(*arguments, "--db", f"sqlite:///{file}")
    assert mode(tmp_path / "r.html") == mode(tmp_path / "m.csv") == 0o644


@pytest.mark.postgres
def test_dumps_of_postgresql_are_private(postgres, tmp_path):
    url = postgres.database()
    with tg.Repository(url, artifacts=tmp_path / "large") as repository:
        commit(repository, day(1))
    run("db", "backup", "--db", url, "--artifacts", tmp_path / "large", "--to", tmp_path / "b.dump")
    assert mode(tmp_path / "b.dump") == 0o600
