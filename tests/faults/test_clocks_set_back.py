"""The clock of the whole process is set back by libfaketime.

This happens between runs, during runs, and before overdue partitions are listed.
"""

import datetime as dt
import os
import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa

import tidegauge as tg
from tests.paths import ROOT
from tests.support.integrity import check
from tidegauge.repository.store import schema as s

pytestmark = pytest.mark.soak
HOUR, DAY = 3600, 86400
BACK = pytest.mark.parametrize("back", [HOUR, DAY], ids=["an hour", "a day"])


@pytest.fixture
def start(tmp_path):
    """Return a function that starts `tests.faults.clocked`; all its processes share a clock."""
    actual = sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
    if not actual:
        pytest.skip("libfaketime is not installed: apt-get install faketime")
    clock = tmp_path / "clock"
    clock.write_text("+0")
    set_back = {
        "LD_PRELOAD": str(actual[0]),
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_NO_CACHE": "1",
        # a clock that is set back does not change this counter
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "NO_FAKE_STAT": "1",
    }

    started = []

    def start(what, url, back):
        command = [sys.executable, "-m", "tests.faults.clocked", what, url, str(clock), str(back)]
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | set_back,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def wait_for_success(process):
    out, err = process.communicate(timeout=590)
    assert process.returncode == 0, err
    return out.splitlines()


@BACK
def test_between_runs_versions_and_commits_keep_their_order(url, tmp_path, start, back):
    first, second, third = (
        dt.datetime.fromisoformat(x) for x in wait_for_success(start("between", url, back))
    )
    assert second < first < third  # the clock was set back, and then set right
    with tg.Repository(url, artifacts=tmp_path) as repository:
        assert repository.runs("d")["status"].tolist() == ["complete"] * 3
        sizes = repository.metrics("d", name="Size")
        assert sizes["value"].tolist() == [3, 9, 9, 9]
        assert sizes["version"].tolist() == [3, 1, 1, 1]
        assert repository.metrics("d", name="y")["value"].tolist() == [3]
        (versions,) = repository.versions("d", "ds=2013-01-01", name="Size").itertuples()
        assert versions[-3:] == (1, 2, 3)  # the sizes by partition number
        with repository.database.read() as connection:
            order = sa.select(s.commit.c.committed_at).order_by(s.commit.c.id)
            times = connection.execute(order).scalars().all()
        assert times == sorted(times)
        assert len(times) == 6
        # The view at the end of the first run also contains commits from the time that was set
        # back.
        seen = repository.metrics("d", name="y", as_of=times[1])["value"].tolist()
        assert seen == [2 if times[1] == times[3] else 1]
        assert repository.metrics("d", name="y", as_of=third)["value"].tolist() == [3]
        assert check(repository.database, repository.artifacts) == []


@BACK
def test_a_lease_is_held_while_the_clock_is_set_back_during_its_run(url, tmp_path, start, back):
    runs = [start("during", url, back) for _ in range(2)]
    measured = [wait_for_success(run) for run in runs]
    assert sorted(map(len, measured)) == [0, 10]
    with tg.Repository(url, artifacts=tmp_path) as repository:
        assert repository.runs("d")["status"].tolist() == ["complete"] * 2
        sizes = repository.metrics("d", name="Size")
        assert sizes["value"].tolist() == list(range(1, 11))
        assert set(sizes["version"]) == {1}
        assert check(repository.database, repository.artifacts) == []


@BACK
def test_a_run_killed_with_a_clock_set_back_is_completed_at_once(url, tmp_path, start, back):
    """According to the clock, its lease would be valid for an hour or a day, but its process is gone."""
    killed = start("during", url, back)
    for line in killed.stdout:
        if line == "measured 4\n":  # the clock was set back after the third partition
            break
    killed.kill()
    killed.communicate(timeout=60)
    rest = wait_for_success(start("during", url, back))
    assert rest[-1] == "measured 10"
    with tg.Repository(url, artifacts=tmp_path) as repository:
        assert sorted(repository.runs("d")["status"]) == ["complete", "interrupted"]
        assert repository.metrics("d", name="Size")["value"].tolist() == list(range(1, 11))
        assert check(repository.database, repository.artifacts) == []


@pytest.mark.parametrize(("back", "days"), [(HOUR, 3), (DAY, 2), (4 * DAY, 0)])
def test_overdue_partitions_are_reported_again_when_the_clock_is_right(tmp_path, start, back, days):
    """Noon is 3 days and 12 hours after the end of the newest partition.

    Data take 2 hours; 4 hours are allowed.
    """
    said = [
        line.split("\t")
        for line in wait_for_success(start("overdue", f"sqlite:///{tmp_path / 'r.db'}", back))
    ]
    assert [int(missing) for missing, *_ in said] == [3, days, 3]
    for missing, *reported in said:
        assert len(reported) == (missing != "0")
        assert all(
            f"is the newest, the next {missing} days are overdue: " in one for one in reported
        )
