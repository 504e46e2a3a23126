"""Killed runs: complete batches are kept, and the next run completes the rest."""

import time

import pytest

import tidegauge as tg
from tests.conftest import soak
from tests.support.integrity import check
from tests.support.kills import kill, random_moments, start

BATCH, DAYS = 5, 35

WRITER = """
import sys
from tidegauge.repository.repository import Repository
from tidegauge.repository.testing import day, measurement, spec
from tidegauge.analyzers.measures.frequencies import CountDistinct
from tidegauge.analyzers.measures.frequencies import FrequenciesAndNumRows
import hashlib

with Repository(sys.argv[1]) as repo:
    run = repo.store.open_run(spec())
    known = repo.store.ledger("d")
    for start in range(1, {days} + 1, {batch}):
        batch = []
        for n in range(start, start + {batch}):
            keys = ((hashlib.sha256(f"{{n}} {{i}}".encode()).hexdigest(),) for i in range(6000))
            big = FrequenciesAndNumRows.from_groups((key, 1) for key in keys)
            batch.append(day(n, extra=[measurement(CountDistinct("k"), big)]))
        batch = [m for m in batch if m.partition.name not in known]
        repo.store.commit_batch(run, batch)
        print(start, flush=True)
""".format(days=DAYS, batch=BATCH)

BACKFILL = """
import sys
from tidegauge.analyzers.runs import runner
import tidegauge as tg
from tests.test_killed import SUITE
defaults = runner.run_incremental.__defaults__
assert runner.BATCH_PARTITIONS in defaults
runner.run_incremental.__defaults__ = tuple(
    5 if value == runner.BATCH_PARTITIONS else value for value in defaults
)
spark = tg.spark_session(sys.argv[3])
with tg.Repository(sys.argv[1]) as repo:
    tg.analyze(sys.argv[2], SUITE, repository=repo, spark=spark)
"""

SUITE = tg.Suite(
    "days",
    [
        tg.Size(),
        tg.Mean("x"),
        tg.ApproxCountDistinct("s"),
        tg.ApproxQuantile("x", 0.5),
        tg.Uniqueness("s"),
    ],
)


def wait_for_first_write(process, file):
    while process.poll() is None:
        wal = file.with_name(file.name + "-wal")
        if file.exists() and (file.stat().st_size or (wal.exists() and wal.stat().st_size)):
            return
        time.sleep(0.002)


def undisturbed(code, file, *arguments):
    """Run to the end, and return the duration from the first write on."""
    process = start(code, f"sqlite:///{file}", *arguments)
    wait_for_first_write(process, file)
    began = time.monotonic()
    assert process.wait(300) == 0
    return time.monotonic() - began


def kill_at(code, file, moment, *arguments):
    process = start(code, f"sqlite:///{file}", *arguments)
    wait_for_first_write(process, file)
    time.sleep(moment)
    kill(process)


def content(repo, dataset):
    """Return the stored metrics without runs, times and the noise of sketches."""
    frame = repo.metrics(dataset).drop(columns=["run_id", "analyzed_at"])
    return frame.to_dict("records") if dataset == "d" else frame


def assert_whole_batches(url, dataset):
    with tg.Repository(url) as repo:
        assert check(repo.database, repo.artifacts) == []
        count = len(repo.partitions(dataset)) if dataset in repo.datasets() else 0
    assert count % BATCH == 0
    return count


@pytest.mark.soak
def test_a_writer_killed_at_any_moment_leaves_complete_batches(tmp_path):
    took = undisturbed(WRITER, tmp_path / "whole.db")
    with tg.Repository(f"sqlite:///{tmp_path / 'whole.db'}") as repo:
        expected = content(repo, "d")
    draw, seed = random_moments()
    print(f"seed {seed}, {took:.2f} s from first write to exit")
    left = []
    for i in range(soak(3, 15)):
        file = tmp_path / f"killed{i}.db"
        kill_at(WRITER, file, draw.uniform(0, took))
        left.append(assert_whole_batches(f"sqlite:///{file}", "d"))
        with tg.Repository(f"sqlite:///{file}") as repo:
            begun = len(repo.runs())
        undisturbed(WRITER, file)
        with tg.Repository(f"sqlite:///{file}") as repo:
            assert check(repo.database, repo.artifacts) == []
            assert _same(content(repo, "d"), expected)
            assert list(repo.runs("d")["status"])[1:] == ["interrupted"] * begun
    print(f"partitions left by each kill: {left}")


def _same(found, expected):
    return [{k: str(v) for k, v in row.items()} for row in found] == [
        {k: str(v) for k, v in row.items()} for row in expected
    ]


@pytest.mark.soak
@pytest.mark.spark
def test_a_backfill_killed_at_any_moment_is_completed_by_the_next(spark, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    for i in range(DAYS):
        folder = tmp_path / "days" / f"ds=2013-{1 + i // 28:02}-{1 + i % 28:02}"
        folder.mkdir(parents=True)
        x = list(range(i, i + 500))
        pq.write_table(pa.table({"x": x, "s": [str(v % 91) for v in x]}), folder / "part.parquet")
    arguments = (tmp_path / "days", tmp_path / "warehouse")
    took = undisturbed(BACKFILL, tmp_path / "whole.db", *arguments)
    with tg.Repository(f"sqlite:///{tmp_path / 'whole.db'}") as repo:
        expected = content(repo, "days")
    assert len(expected) == DAYS * 5
    draw, seed = random_moments()
    print(f"seed {seed}, {took:.2f} s from first write to exit")
    left = []
    for i in range(soak(1, 4)):
        file = tmp_path / f"killed{i}.db"
        kill_at(BACKFILL, file, draw.uniform(0, took), *arguments)
        left.append(assert_whole_batches(f"sqlite:///{file}", "days"))
        with tg.Repository(f"sqlite:///{file}") as repo:
            run = tg.analyze(str(tmp_path / "days"), SUITE, repository=repo, spark=spark)
            assert run.report.scanned == DAYS - left[-1]
            assert check(repo.database, repo.artifacts) == []
            actual = content(repo, "days")
        exact = ~actual["name"].str.startswith("Approx")
        assert actual[exact].equals(expected[exact])
        quantiles = actual["name"].str.startswith("ApproxQ")
        assert (
            actual[quantiles]["value"] - expected[quantiles]["value"]
        ).abs().max() <= 500 * 2 * 0.01
    print(f"partitions left by each kill: {left}")
