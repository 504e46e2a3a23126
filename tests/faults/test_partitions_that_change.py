"""Partitions that are rewritten, dropped, added or damaged around a scan."""

import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tidegauge.analyzers.core.partitions import Partition
from tidegauge.analyzers.runs.unreadable import measure_readable, named_partitions
from tidegauge.analyzers.sources.sources import PathSource

import tidegauge as tg

DAYS = ("2024-01-01", "2024-01-02", "2024-01-03", "2024-01-04")
SUITE = tg.Suite("days", [tg.Size(), tg.Sum("x"), tg.CountDistinct("s")])


def write(folder, day, rows):
    place = folder / f"ds={day}"
    place.mkdir(parents=True, exist_ok=True)
    table = pa.table({"x": [1] * rows, "s": [str(n) for n in range(rows)]})
    pq.write_table(table, place / "part.parquet")


@pytest.fixture
def days(tmp_path):
    for number, day in enumerate(DAYS, 1):
        write(tmp_path / "days", day, number)
    return tmp_path / "days"


class Meanwhile(PathSource):
    """A folder that something happens to between its listing and the first reading of rows."""

    happens = staticmethod(lambda: None)

    def read(self, partitions=None):
        happens, self.happens = self.happens, lambda: None
        happens()
        return super().read(partitions)


def measured(source, repository):
    run = tg.analyze(source, SUITE, repository=repository, spark=source.spark)
    frame = repository.metrics("days", name="Size")
    return run, dict(
        zip(frame["partition"], zip(frame["version"], frame["value"], strict=True), strict=True)
    )


# A listing that is older than the lease


def test_a_run_that_waited_lists_what_is_there_when_its_turn_comes(days):
    """Else it would call gone what another run measured meanwhile, and restate what is the same."""
    source = PathSource(None, str(days))
    before = {entry.partition.name: entry.fingerprint for entry in source.list_partitions()}
    write(days, "2024-01-05", 5)
    write(days, "2024-01-01", 9)
    now = {entry.partition.name: entry.fingerprint for entry in source.list_partitions()}
    assert set(now) - set(before) == {"ds=2024-01-05"}
    assert {n for n in before if before[n] != now[n]} == {"ds=2024-01-01"}


# Which partitions an error is about

PARTS = [Partition(("ds", "hr"), (day, "07")) for day in DAYS]


class ReadError(Exception):
    def __init__(self, path):
        super().__init__(f"[FAILED_READ_FILE.NO_HINT] Encountered error while reading file {path}.")


def scan_that_fails_for(bad, path=lambda part: f"s3a://b/t/{part.name}/a%20b.parquet"):
    """Return a scan of partitions that fails as Spark does, and the number of its calls."""
    calls = []

    def measure(some):
        calls.append(len(some))
        for part in some:
            if part in bad:
                raise ReadError(path(part))
        return [part.name for part in some]

    return measure, calls


def test_the_error_names_the_partition():
    measure, calls = scan_that_fails_for({PARTS[1], PARTS[3]})
    found, broken = measure_readable(PARTS, lambda part: part, measure)
    assert found == [PARTS[0].name, PARTS[2].name]
    assert set(broken) == {PARTS[1], PARTS[3]}
    assert calls == [4, 3, 2]
    assert "FAILED_READ_FILE" in broken[PARTS[1]]


def test_halves_are_tried_where_no_folder_is_named():
    """Partitions may lie anywhere, under names of their own."""
    measure, calls = scan_that_fails_for({PARTS[2]}, path=lambda part: "hdfs://n/elsewhere/a.orc")
    found, broken = measure_readable(PARTS, lambda part: part, measure)
    assert found == [PARTS[0].name, PARTS[1].name, PARTS[3].name]
    assert set(broken) == {PARTS[2]}
    assert calls == [4, 2, 2, 1, 1]


def test_other_errors_fail_the_batch():
    def measure(some):
        raise RuntimeError("Job aborted: executor lost")

    with pytest.raises(RuntimeError, match="executor lost"):
        measure_readable(PARTS, lambda part: part, measure)


@pytest.mark.parametrize(
    ("path", "day"),
    [
        ("file:/t/ds=2024-01-02/hr=07/x.parquet", 1),
        ("/t/hr=07/ds=2024-01-03/x", 2),
        ("file:/t/ds=2024-01-02/hr=08/x.parquet", None),
        ("file:/t/x.parquet", None),
    ],
)
def test_partitions_are_known_by_all_of_their_keys(path, day):
    found = named_partitions(ReadError(path), PARTS)
    assert found == (set() if day is None else {PARTS[day]})


# With Spark


@pytest.mark.spark
def test_what_changes_between_listing_and_reading_is_measured_again(spark, days, tmp_path):
    """One is rewritten, one dropped, one added: no number is stored that stays wrong."""

    def happens():
        write(days, DAYS[0], 50)
        shutil.rmtree(days / f"ds={DAYS[1]}")
        write(days, "2024-01-05", 5)

    source = Meanwhile(spark, str(days))
    source.happens = happens
    with tg.Repository(f"sqlite:///{tmp_path / 'r.db'}") as repository:
        run, found = measured(source, repository)
        assert run.report.status == "complete"
        # The dropped one is not recorded as empty, and the new one waits for its turn.
        assert found == {f"ds={DAYS[0]}": (1, 50), f"ds={DAYS[2]}": (1, 3), f"ds={DAYS[3]}": (1, 4)}
        run, found = measured(PathSource(spark, str(days)), repository)
        assert set(run.changes) == {f"ds={DAYS[0]}", "ds=2024-01-05"}
        assert found[f"ds={DAYS[0]}"] == (2, 50)
        assert found["ds=2024-01-05"] == (1, 5)
        run, _ = measured(PathSource(spark, str(days)), repository)
        assert run.report.scanned == 0


@pytest.mark.spark
@pytest.mark.parametrize("damage", ["truncated", "foreign"])
def test_a_damaged_file_costs_its_partition_and_no_other(spark, days, tmp_path, damage):
    """The first, from which Spark takes the schema, and the last; mended, they are measured."""
    whole = {day: (days / f"ds={day}" / "part.parquet").read_bytes() for day in DAYS}
    for day in (DAYS[0], DAYS[3]):
        content = {"truncated": whole[day][:-20], "foreign": b"id,x\n1,2\n" * 9}
        (days / f"ds={day}" / "part.parquet").write_bytes(content[damage])
    with tg.Repository(f"sqlite:///{tmp_path / 'r.db'}") as repository:
        run, found = measured(PathSource(spark, str(days)), repository)
        assert set(found) == {f"ds={DAYS[1]}", f"ds={DAYS[2]}"}
        assert set(run.unreadable) == {f"ds={DAYS[0]}", f"ds={DAYS[3]}"}
        assert run.status == "failed"
        (error,) = repository.runs("days")["error"]
        assert f"ds={DAYS[3]} cannot be read: " in error
        with pytest.raises(tg.SourceError, match=f"ds={DAYS[0]} cannot be read"):
            measured(PathSource(spark, str(days)), repository)
        for day in (DAYS[0], DAYS[3]):
            (days / f"ds={day}" / "part.parquet").write_bytes(whole[day])
        run, found = measured(PathSource(spark, str(days)), repository)
        assert set(run.changes) == {f"ds={DAYS[0]}", f"ds={DAYS[3]}"}
        assert found[f"ds={DAYS[3]}"] == (1, 4)
        assert run.status == "complete"
