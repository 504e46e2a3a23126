"""`--time-limit`: a command that hangs is ended, its run is closed, and the next run works."""

import os
import subprocess
import sys
import time
from threading import Timer
from threading import enumerate as enumerate_threads

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidegauge as tg
from tests.paths import ROOT
from tidegauge.cli import main
from tidegauge.cli.main import TimeLimitReached, run_command, time_limit
from tidegauge.repository.store import facts
from tidegauge.repository.testing import commit, day

SHORT = 0.2 / 60
IN_A_THREAD = """
import time
from threading import Event, Thread
from tidegauge.cli import main
main.GRACE_SECONDS = 0.5
Thread(target=Event().wait).start()
with main.time_limit(0.2 / 60, ends_process=True):
    print("begun", flush=True)
    time.sleep(30)
"""
SUITE = """
dataset: days
path: days/
analyzers:
  - Size
  - "PatternMatch('s', '{pattern}')"
"""


def test_a_block_that_exceeds_the_limit_is_interrupted():
    over = pytest.raises(TimeLimitReached, match="The time limit of 0.00333333 minutes has passed")
    with over, time_limit(SHORT):
        time.sleep(30)


def test_a_process_that_continues_is_not_killed(monkeypatch):
    monkeypatch.setattr(main, "GRACE_SECONDS", 0.1)
    monkeypatch.setattr(os, "_exit", lambda _: pytest.fail("the process would have ended"))
    with pytest.raises(TimeLimitReached), time_limit(SHORT):
        time.sleep(30)
    timers = [thread for thread in enumerate_threads() if isinstance(thread, Timer)]
    assert all(timer.finished.is_set() for timer in timers)


def test_a_block_within_the_limit_is_not_interrupted():
    with time_limit(SHORT):
        pass
    with time_limit(None):
        time.sleep(0.3)


def test_a_command_reports_that_the_limit_was_reached(tmp_path, monkeypatch, capsys):
    url = f"sqlite:///{tmp_path / 'r.db'}"
    with tg.Repository(url) as repository:
        commit(repository, day(1))
    monkeypatch.setattr(facts, "read_facts", lambda *_, **__: time.sleep(30))
    assert run_command(["--time-limit", str(SHORT), "metrics", "d", "--db", url]) == 1
    assert "minutes has passed. Committed batches are kept" in capsys.readouterr().err
    assert run_command(["--time-limit", "-1", "metrics", "d", "--db", url]) == 1


@pytest.mark.parametrize("minutes", ["0", "-1", "inf", "nan", "1e300"])
def test_an_invalid_limit_is_refused(minutes, capsys):
    assert run_command(["--time-limit", minutes, "metrics", "d", "--db", "sqlite://"]) == 1
    assert "--time-limit" in capsys.readouterr().err


def test_a_run_is_closed_as_interrupted(repo):
    class Slow:
        name, keys = "t", ("ds",)
        seconds = 0

        def list_partitions(self):
            time.sleep(self.seconds)
            return []

    # The first run imports what measuring needs, which can take longer than the limit.
    tg.analyze(Slow(), tg.Suite("s", [tg.Size()]), repository=repo)
    Slow.seconds = 30
    with pytest.raises(TimeLimitReached), time_limit(SHORT):
        tg.analyze(Slow(), tg.Suite("s", [tg.Size()]), repository=repo)
    run, _ = repo.runs("s").to_dict("records")
    assert run["status"] == "interrupted"
    assert "TimeLimitReached: The time limit of" in run["error"]


@pytest.mark.soak
def test_a_hanging_thread_does_not_keep_the_process_alive():
    done = subprocess.run(
        [sys.executable, "-c", IN_A_THREAD], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (1, "begun\n")
    assert "the command still hangs" in done.stderr


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_an_exploding_regular_expression_ends_with_its_process(tmp_path, jobs):
    """Java tries about 10^10 ways to choose commas. Nothing interrupts it but the end of its process."""
    (tmp_path / "days" / "ds=1").mkdir(parents=True)
    table = pa.table({"s": ["x," * 40] * 4})
    pq.write_table(table, tmp_path / "days" / "ds=1" / "part.parquet")
    suite = tmp_path / "suite.yml"

    def run(pattern, *options):
        suite.write_text(SUITE.format(pattern=pattern))
        command = [sys.executable, "-m", "tidegauge", *options, "run", str(suite), "--jobs", jobs]
        return subprocess.Popen(
            [*command, "--db", "sqlite:///r.db"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    process = run("(.*,){25}P", "--time-limit", "0.5")
    said, _ = process.communicate(timeout=300)
    assert process.returncode == 1, said
    assert "The time limit of 0.5 minutes has passed" in said
    deadline = time.monotonic() + 60
    while left := [p for p in psutil.process_iter() if os.getsid(p.pid) == process.pid]:
        assert time.monotonic() < deadline, left
        time.sleep(0.5)
    with tg.Repository(f"sqlite:///{tmp_path / 'r.db'}") as repository:
        assert len(repository.runs("days")) == 1
        assert repository.partitions("days").empty
    process = run("x,")
    said, _ = process.communicate(timeout=300)
    assert process.returncode == 0, said
    with tg.Repository(f"sqlite:///{tmp_path / 'r.db'}") as repository:
        assert repository.runs("days")["status"].tolist() == ["complete", "interrupted"]
