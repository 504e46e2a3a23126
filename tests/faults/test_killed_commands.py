"""Commands that are killed at a random moment: the repository is sound, and the next try completes them."""

import gzip
import multiprocessing
import os
import shutil
import signal
import sqlite3
import time
from contextlib import closing

import pytest
from tidegauge.repository.maintenance.backups import back_up
from tidegauge.repository.maintenance.integrity import check
from tidegauge.repository.testing.samples import commit, day

import tidegauge as tg
from tests.conftest import soak
from tests.paths import DATA
from tests.support.kills import random_moments

MODULES = [
    "tidegauge.cli.main",
    "tidegauge.repository.repository",
    "tidegauge.repository.testing.samples",
    "tidegauge.repository.maintenance.backups",
    "pandas",
    "pyarrow.parquet",
]
COMMANDS = {
    "detect": ["detect", "d"],
    "forget": ["db", "forget", "--value", "a"],
    "clean": ["db", "clean", "--versions", "0d", "--states", "0d", "--runs", "0d"],
    "backup": ["db", "backup"],
    "restore": ["db", "restore", "kept.db"],
    "export": ["export", "csv", "d", "--output", "out.csv"],
    "export parquet": ["export", "parquet", "d", "--output", "out.parquet"],
    "export prometheus": ["export", "prometheus", "--output", "out.prom"],
    "export openlineage": ["export", "openlineage", "d", "--output", "out.json"],
    "report": ["report", "d", "--html", "out.html"],
    "label": ["anomalies", "label", "1", "bad", "--note", "an outage"],
    "import": ["import", "deequ", str(DATA / "deequ.json"), "--dataset", "orders"],
}
BEFORE = {"label": ["detect", "d"]}
"""What has to be done before a command can be tried."""
MIGRATIONS = {
    "upgrade": ("0005", ["db", "upgrade"]),
    "downgrade": ("0006", ["db", "downgrade", "0005"]),
}
"""Kept revisions, and the commands that leave them."""


def run(command, folder):
    """Run a command in a folder, in a process of its own."""
    from tidegauge.cli.main import run_command

    os.chdir(folder)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    os._exit(run_command([*command, "--db", "sqlite:///r.db"]))


@pytest.fixture(scope="module")
def processes():
    """Start processes from one that has imported what they need."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(MODULES)
    return context


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    folder = tmp_path_factory.mktemp("filled")
    with tg.Repository(f"sqlite:///{folder / 'r.db'}") as repository:
        for fingerprint in ("a", "b"):
            days = range(1, 41)
            if fingerprint == "b":
                back_up(repository.database, repository.artifacts, folder / "kept.db")
            commit(
                repository,
                *(day(n, fingerprint, rows=1000 if n < 40 else 300) for n in days),
            )
    return folder


def told(folder):
    """Return what a repository says, without ids, times and tokens."""
    with tg.Repository(f"sqlite:///{folder / 'r.db'}") as repository:
        assert check(repository.database, repository.artifacts) == []
        metrics = repository.metrics("d")
        numbers = metrics[["partition", "value", "weight", "status", "version"]]
        anomalies = repository.anomalies("d")[["partition", "name", "value", "severity"]]
        histogram = repository.merge("d", tg.Histogram("s"), allow_missing=True).value
        counts = sorted(value.absolute for value in histogram.values.values())
        labels = set(repository.labels("d")["label"])  # one that was said twice is no other
        imported = ""
        if "orders" in repository.datasets():
            imported = repository.metrics("orders")[["partition", "name", "value"]].to_csv()
        frames = numbers.to_csv(), anomalies.to_csv(), imported
        return *frames, counts, labels, "a" in histogram.values


def assert_outputs_are_whole(folder, whole):
    """Check that what is there of a command's outputs is as good as if it had not been killed."""
    for name in ("out.csv", "out.parquet", "out.prom", "out.json"):
        if (folder / name).exists():
            assert (folder / name).read_bytes() == (whole / name).read_bytes()
    if (page := folder / "out.html").exists():
        assert page.read_text().endswith("</html>\n")
    for backup in folder.glob("r.*.backup.db"):
        with tg.Repository(f"sqlite:///{backup}", read_only=True) as repository:
            assert check(repository.database, repository.artifacts) == []
            assert len(repository.partitions("d")) == 40


def starter(processes, command):
    def start(folder):
        process = processes.Process(target=run, args=(command, str(folder)))
        process.start()
        return process

    return start


def killed(process, moment):
    process.join(moment)
    if process.exitcode is None:
        os.kill(process.pid, signal.SIGKILL)
        process.join(60)


@pytest.mark.soak
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_killed_at_any_moment_is_completed_by_the_next(name, filled, processes, tmp_path):
    start = starter(processes, COMMANDS[name])
    if name in BEFORE:
        shutil.copytree(filled, tmp_path / "before")
        filled = tmp_path / "before"
        process = starter(processes, BEFORE[name])(filled)
        process.join(120)
        assert process.exitcode == 0
    whole = tmp_path / "whole"
    shutil.copytree(filled, whole)
    began = time.monotonic()
    process = start(whole)
    process.join(120)
    took = time.monotonic() - began
    assert process.exitcode == 0
    expected = told(whole)
    draw, seed = random_moments()
    for number in range(soak(2, 25)):
        folder = tmp_path / f"killed{number}"
        shutil.copytree(filled, folder)
        killed(start(folder), draw.uniform(0, took))
        with tg.Repository(f"sqlite:///{folder / 'r.db'}") as repository:
            assert check(repository.database, repository.artifacts) == [], f"seed {seed}"
        assert_outputs_are_whole(folder, whole)
        process = start(folder)
        process.join(120)
        assert process.exitcode == 0
        assert told(folder) == expected, f"seed {seed}"
    print(f"seed {seed}: {name} takes {took:.2f} s")


def dump(folder):
    with closing(sqlite3.connect(folder / "r.db")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        (revision,) = connection.execute("SELECT version_num FROM tidegauge_revision").fetchone()
        return revision, sorted(connection.iterdump())


@pytest.mark.soak
@pytest.mark.parametrize("name", MIGRATIONS)
def test_a_migration_killed_at_any_moment_happened_or_did_not(name, processes, tmp_path):
    """Of the database and of its backup, which is made before."""
    kept, command = MIGRATIONS[name]
    start = starter(processes, command)

    def made(name):
        folder = tmp_path / name
        folder.mkdir()
        content = (DATA / "kept" / f"{kept}.db.gz").read_bytes()
        (folder / "r.db").write_bytes(gzip.decompress(content))
        shutil.copytree(DATA / "kept" / "artifacts", folder / "r.db.artifacts")
        return folder

    before = dump(made("before"))
    whole = made("whole")
    began = time.monotonic()
    process = start(whole)
    process.join(120)
    took = time.monotonic() - began
    assert process.exitcode == 0
    after = dump(whole)
    assert after[0] != before[0] == kept
    draw, seed = random_moments()
    left = []
    for number in range(soak(3, 25)):
        folder = made(f"killed{number}")
        killed(start(folder), draw.uniform(0, took))
        found = dump(folder)
        assert found in (before, after), f"seed {seed}"
        left.append(found[0])
        for backup in folder.glob("r.*.backup.db"):
            with closing(sqlite3.connect(backup)) as connection:
                assert sorted(connection.iterdump()) == before[1], f"seed {seed}"
        process = start(folder)
        process.join(120)
        assert process.exitcode == 0
        assert dump(folder) == after, f"seed {seed}"
    print(f"seed {seed}: {name} takes {took:.2f} s; revisions left by each kill: {left}")
