"""Full disks below artifacts, temporary files of Spark and published data.

The error names the disk, and nothing is lost. The disk is real: a file system in memory that
one process mounts for itself.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tidegauge as tg
from tests.paths import ROOT
from tests.support.integrity import check

MIB = 1 << 20


def run_on_small_disk(mib, work, folder):
    """Run a function of this module in a process with a small disk, mounted at ``disk`` of a folder."""
    unshare = shutil.which("unshare")
    if unshare is None:
        pytest.skip("no unshare")
    alone = [unshare, "--map-root-user", "--mount", "sh", "-c"]
    disk = folder / "disk"
    disk.mkdir()
    mount = 'mount -t tmpfs -o "size=$1" none "$2"'
    tried = subprocess.run(
        [*alone, mount, "sh", "1m", str(disk)], capture_output=True, text=True, check=False
    )
    if tried.returncode:
        pytest.skip(f"no file systems of one's own: {tried.stderr}")
    code = f"from tests.faults.test_full_disks import {work} as work; work(*__import__('sys').argv[1:])"
    done = subprocess.run(
        [*alone, f'{mount} && shift 2 && exec "$@"', "sh", f"{mib}m", str(disk)]
        + [sys.executable, "-c", code, str(folder)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-5000:]


def fill(disk, left):
    """Fill a disk except for some bytes; return the file to remove."""
    filler = Path(disk) / "filler"
    free = shutil.disk_usage(disk).free
    filler.write_bytes(b"x" * (free - left))
    return filler


# Artifacts


def with_large_states(repository, run, days):
    """Store a batch of days with a state of about 700 KB each."""
    from tidegauge.analyzers.measures.frequencies import CountDistinct, FrequenciesAndNumRows
    from tidegauge.repository.testing import day, measurement

    batch = []
    for n in days:
        keys = ((hashlib.sha256(f"{n} {i}".encode()).hexdigest(),) for i in range(20_000))
        large = FrequenciesAndNumRows.from_groups((key, 1) for key in keys)
        batch.append(day(n, extra=[measurement(CountDistinct("k"), large)]))
    repository.store.commit_batch(run, batch)


def artifacts_that_fill_their_disk(folder):
    from tidegauge.repository.testing import spec

    disk = Path(folder) / "disk"
    filler = fill(disk, 2 * MIB)
    with tg.Repository(f"sqlite:///{folder}/r.db", artifacts=disk / "artifacts") as repository:
        run = repository.store.open_run(spec())
        with_large_states(repository, run, [1, 2])
        with pytest.raises(tg.DatabaseAccessError, match=r"artifacts' folder .*No space left"):
            with_large_states(repository, run, [3, 4])
        assert len(repository.store.ledger("d")) == 2
        assert check(repository.database, repository.artifacts) == []
        assert not repository.artifacts.unfinished()
        assert repository.merge("d", tg.CountDistinct("k")).value == 40_000
        filler.unlink()
        with_large_states(repository, run, [3, 4])
        assert len(repository.store.ledger("d")) == 4
        assert repository.merge("d", tg.CountDistinct("k")).value == 80_000
        assert check(repository.database, repository.artifacts) == []


@pytest.mark.soak
def test_a_full_disk_of_artifacts_is_reported_and_the_batch_leaves_nothing(tmp_path):
    run_on_small_disk(4, "artifacts_that_fill_their_disk", tmp_path)


# Spark


def spark_without_space(folder):
    """Run out of space in a shuffle and then while publishing; repeat both when there is space."""
    disk = Path(folder) / "disk"
    spark = tg.spark_session(
        f"{folder}/warehouse",
        settings={"spark.local.dir": f"{disk}/tmp", "spark.master": "local[2]"},
    )
    source = f"{folder}/days"
    words = spark.range(200_000).selectExpr("sha2(CAST(id AS STRING), 256) AS s", "id % 2 AS ds")
    words.write.partitionBy("ds").parquet(source)
    filler = fill(disk, MIB)
    suite = tg.Suite("days", [tg.Size(), tg.Uniqueness("s")])
    with tg.Repository(f"sqlite:///{folder}/r.db") as repository:
        with pytest.raises(Exception, match="No space left on device"):
            tg.analyze(source, suite, repository=repository, spark=spark)
        (run,) = repository.runs("days").to_dict("records")
        assert run["status"] == "failed", run
        assert "No space left on device" in run["error"], run["error"]
        assert repository.partitions("days").empty
        filler.unlink()
        run = tg.analyze(source, suite, repository=repository, spark=spark)
        assert (run.status, run.report.scanned) == ("complete", 2)
        metrics = repository.metrics("days", name="Uniqueness")
        assert metrics["value"].tolist() == [1.0, 1.0]
        assert check(repository.database, repository.artifacts) == []

    published = tg.DQM("words").add(tg.Rule("s IS NOT NULL", "given"))
    few, many = spark.range(3).selectExpr("CAST(id AS STRING) AS s"), words.select("s")
    place = disk / "published" / "words"
    published.publish(few, str(place))
    filler = fill(disk, 4 * MIB)
    with pytest.raises(Exception, match="No space left on device"):
        published.publish(many, str(place))
    assert sorted(row.s for row in spark.read.parquet(str(place)).collect()) == ["0", "1", "2"]
    assert [path.name for path in place.parent.iterdir()] == ["words"]
    filler.unlink()
    assert published.publish(many, str(place)).data.count() == 200_000
    spark.stop()


@pytest.mark.soak
@pytest.mark.spark
def test_spark_without_space_is_reported_and_continues_when_there_is_space(tmp_path):
    run_on_small_disk(160, "spark_without_space", tmp_path)
