"""The demonstration, its notebooks and the dashboard, killed at a random moment."""

import socket
import time

import pytest

import tidegauge as tg
from tests.conftest import soak
from tests.support.integrity import check
from tests.support.kills import kill, random_moments, start

COMMAND = """
import os, sys
from tidegauge.cli.main import run_command
os.chdir(sys.argv[1])
sys.exit(run_command(sys.argv[2:]))
"""


def run_to_end(folder, *arguments):
    """Run a command to its end, and return its duration."""
    began = time.monotonic()
    assert start(COMMAND, folder, *arguments).wait(300) == 0
    return time.monotonic() - began


def kill_after(folder, moment, *arguments):
    process = start(COMMAND, folder, *arguments)
    time.sleep(moment)
    kill(process)


def repository(folder):
    return tg.Repository(f"sqlite:///{folder / 'r.db'}", artifacts=folder / "kept")


def repository_content(folder):
    """Return metrics and the days with an odd number of rows, without quantiles of KLL, which are random."""
    with repository(folder) as repo:
        assert check(repo.database, repo.artifacts) == []
        metrics = repo.metrics("flights")
        exact = metrics[~metrics["name"].str.startswith("ApproxQuantile")]
        numbers = exact[["partition", "name", "instance", "value", "version"]]
        return numbers.to_csv(index=False), set(repo.anomalies("flights", name="Size")["partition"])


@pytest.mark.soak
@pytest.mark.spark
def test_a_demonstration_killed_at_any_moment_is_completed_by_the_next(tmp_path):
    """The demonstration writes a Hive table, measures it and detects."""
    demo = ["demo", "--db", "sqlite:///r.db", "--artifacts", "kept"]
    whole = tmp_path / "whole"
    whole.mkdir()
    took = run_to_end(whole, *demo)
    expected = repository_content(whole)
    draw, seed = random_moments()
    moments = [draw.uniform(0, took) for _ in range(soak(1, 4))]
    print(f"seed {seed}: it takes {took:.0f} s, and is killed after {moments}")
    for number, moment in enumerate(moments):
        folder = tmp_path / f"killed{number}"
        folder.mkdir()
        kill_after(folder, moment, *demo)
        run_to_end(folder, *demo)
        assert repository_content(folder) == expected, f"seed {seed}"


@pytest.mark.soak
def test_a_killed_command_leaves_only_complete_notebooks(tmp_path):
    whole = tmp_path / "whole"
    whole.mkdir()
    took = run_to_end(whole, "notebooks", "n")
    expected = {path.name: path.read_bytes() for path in (whole / "n").iterdir()}
    draw, seed = random_moments()
    for number in range(soak(5, 25)):
        folder = tmp_path / f"killed{number}"
        folder.mkdir()
        kill_after(folder, draw.uniform(0, took), "notebooks", "n")
        for path in folder.glob("n/*.ipynb"):
            assert path.read_bytes() == expected[path.name], f"seed {seed}"
        run_to_end(folder, "notebooks", "n")
        there = {path.name: path.read_bytes() for path in folder.glob("n/*.ipynb")}
        assert there == expected, f"seed {seed}"
    print(f"seed {seed}: it takes {took:.2f} s")


def serves(port):
    with socket.socket() as params:
        return params.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.soak
def test_a_killed_dashboard_leaves_its_repository_unchanged(tmp_path):
    from tidegauge.repository.testing import commit, day

    with repository(tmp_path) as repo:
        commit(repo, *map(day, range(1, 41)))
        expected = repo.metrics("d").to_csv()
    draw, seed = random_moments()
    answered = 0
    for number in range(soak(4, 24)):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        options = ("--db", "sqlite:///r.db", "--artifacts", "kept", "--no-browser", "--port", port)
        process = start(COMMAND, tmp_path, "dashboard", *options)
        while number % 2 and not serves(port):  # every second process is killed while it serves
            assert process.poll() is None
            time.sleep(0.1)
        time.sleep(draw.uniform(0, 3))
        answered += serves(port)
        kill(process)
        with repository(tmp_path) as repo:
            assert check(repo.database, repo.artifacts) == [], f"seed {seed}"
            assert repo.metrics("d").to_csv() == expected, f"seed {seed}"
    assert answered >= soak(4, 24) // 2
    print(f"seed {seed}: {answered} served when they were killed")
