"""`tidegauge run` and `check`, killed at random moments: the next try gives the result of an undisturbed one."""

import datetime as dt
import time

import pytest

import tidegauge as tg
from tests.conftest import soak
from tests.support.integrity import check
from tests.support.kills import kill, random_moments, start, wait_for
from tests.tidegauge.notifications.web import web
from tidegauge.cli.main import run_command
from tidegauge.notifications import notify

pytestmark = [pytest.mark.soak, pytest.mark.spark]
DAYS = [dt.date(2023, 1, 1) + dt.timedelta(n) for n in range(40)]
SHORT, LAST = 17, 39
"""The days with too few rows for the check. The last one is also low compared with its past."""
SUITE = """
dataset: orders
path: {source}
partition_by: [ds]
analyzers: [Size, "Mean('x')", "Uniqueness('x')"]
checks:
  - has_size: {{at_least: 150, warn: 190}}
notify: ["{sink}"]
"""
JOB = """
import sys
import tidegauge as tg
from tidegauge.analyzers.runs import runner
from tidegauge.cli.main import run_command
runner.run_incremental.__defaults__ = tuple(
    7 if value == runner.BATCH_PARTITIONS else value for value in runner.run_incremental.__defaults__
)
tg.spark_session().sql("SELECT 1").collect()
open(sys.argv[2], "w").close()
sys.exit(run_command(sys.argv[3:]))
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """Forty days of about two hundred rows; on two days most of them are missing."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = tmp_path_factory.mktemp("source") / "orders"
    for number, day in enumerate(DAYS):
        place = folder / f"ds={day}"
        place.mkdir(parents=True)
        rows = {SHORT: 140, LAST: 20}.get(number, 200 + number % 3)
        pq.write_table(pa.table({"x": list(range(number, number + rows))}), place / "part.parquet")
    return folder


def repository_content(url):
    """Return the content of a repository without times, runs and versions."""
    with tg.Repository(url) as repository:
        assert check(repository.database, repository.artifacts) == []
        frames = [
            repository.metrics("orders")[["partition", "name", "instance", "value", "version"]],
            repository.verdicts("orders")[["partition", "name", "passed"]].drop_duplicates(),
            repository.anomalies("orders")[["partition", "name", "value", "severity"]],
            repository.incidents("orders")[["severity", "headline"]],
        ]
    return [sorted(map(str, frame.itertuples(index=False))) for frame in frames]


def messages(server):
    """Return how often each message was sent."""
    sent = [(body["title"], body["message"].partition("\nSee: ")[0]) for _, body, _ in server.got]
    return {one: sent.count(one) for one in sent}


def started(ready, arguments):
    """Start a command, and return when its session exists."""
    process = start(JOB, "", ready, *arguments)
    wait_for(ready, process)
    return process


@pytest.mark.parametrize("command", ["run", "check"])
def test_a_killed_run_is_completed_by_the_next(command, spark, source, tmp_path, monkeypatch):
    """It measures, checks, detects and notifies.

    A message may be sent twice, an hour after the kill.
    """
    later = dt.datetime.now(dt.UTC) + dt.timedelta(hours=2)

    def arguments(name, server):
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        suite = folder / "orders.yml"
        suite.write_text(SUITE.format(source=source, sink=f"json://{server.at}/"))
        return [command, str(suite), "--db", f"sqlite:///{folder}/r.db"]

    def begin(name, server):
        return started(tmp_path / f"{name}.ready", arguments(name, server))

    with web() as server:
        whole = begin("whole", server)
        began = time.monotonic()
        status = whole.wait(600)
        took = time.monotonic() - began
        expected, reported = (
            repository_content(f"sqlite:///{tmp_path}/whole/r.db"),
            messages(server),
        )
    assert status == 2  # checks fail
    assert [len(actual) for actual in expected[:2]] == [3 * len(DAYS), len(DAYS)]
    assert set(reported.values()) == {1}
    draw, seed = random_moments()
    print(f"seed {seed}, {took:.2f} s from session to exit")
    left = []
    for number in range(soak(2, 20)):
        name = f"killed{number}"
        with web() as server:
            process = begin(name, server)
            time.sleep(draw.uniform(0, took))
            kill(process)
            with tg.Repository(f"sqlite:///{tmp_path}/{name}/r.db") as repository:
                known = "orders" in repository.datasets()
                left.append(len(repository.partitions("orders")) if known else 0)
            for again in (False, True):
                if again:
                    monkeypatch.setattr(notify, "_now", lambda: later)
                assert run_command(arguments(name, server)) == status
                assert repository_content(f"sqlite:///{tmp_path}/{name}/r.db") == expected, (
                    f"seed {seed}"
                )
            monkeypatch.undo()
            actual = messages(server)
            assert set(actual) == set(reported), f"seed {seed}"
            assert max(actual.values()) <= 2, f"seed {seed}"
    print(f"partitions left by each kill: {left}")


def test_a_killed_profile_leaves_only_complete_files(source, tmp_path):
    def arguments(name):
        files = [tmp_path / f"{name}.yml", tmp_path / f"{name}.rules.yml"]
        return files, [
            "profile",
            str(source),
            "--dataset",
            "d",
            "--output",
            str(files[0]),
            "--rules",
            str(files[1]),
        ]

    expected, command = arguments("whole")
    whole = started(tmp_path / "whole.ready", command)
    began = time.monotonic()
    assert whole.wait(600) == 0
    took = time.monotonic() - began
    draw, seed = random_moments()
    print(f"seed {seed}, {took:.2f} s from session to exit")
    left = []
    for number in range(soak(2, 10)):
        files, command = arguments(f"killed{number}")
        process = started(tmp_path / f"{number}.ready", command)
        time.sleep(draw.uniform(0, took))
        kill(process)
        there = [file.exists() for file in files]
        left.append(sum(there))
        for one, file, whole in zip(there, files, expected, strict=True):
            assert not one or file.read_text() == whole.read_text(), f"seed {seed}"
            file.unlink(missing_ok=True)
        assert started(tmp_path / f"{number}.again", command).wait(600) == 0
        assert [file.read_text() for file in files] == [file.read_text() for file in expected]
    print(f"files left by each kill: {left}")
