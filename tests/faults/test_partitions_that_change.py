"""Partitions that are rewritten, dropped, added or damaged around a scan."""

import gzip
import io
import os
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv, orc

import tidegauge as tg
from tidegauge.analyzers.core.errors import describe
from tidegauge.analyzers.core.partitions import Partition
from tidegauge.analyzers.scan.spark_errors import measure_readable, named_partitions
from tidegauge.analyzers.sources.path_source import PathSource
from tidegauge.griffin.connectors import has_format

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


class ChangingSource(PathSource):
    """A folder that is changed between its listing and the first reading of rows."""

    happens = staticmethod(lambda: None)

    def parquet_files(self, partitions):
        self.change()
        return super().parquet_files(partitions)

    def read(self, partitions=None):
        self.change()
        return super().read(partitions)

    def change(self):
        happens, self.happens = self.happens, lambda: None
        happens()


def measured_rows(source, repository):
    run = tg.analyze(source, SUITE, repository=repository, spark=source.spark)
    frame = repository.metrics("days", name="Size")
    return run, dict(
        zip(frame["partition"], zip(frame["version"], frame["value"], strict=True), strict=True)
    )


# A listing that is older than the lease


@pytest.mark.spark
def test_a_run_that_waited_lists_partitions_when_its_turn_comes(spark, days, tmp_path, monkeypatch):
    """Otherwise it would report partitions that another run measured meanwhile as missing, and miss new ones."""
    params = threading.Event()
    with (
        tg.Repository(f"sqlite:///{tmp_path / 'r.db'}") as repository,
        ThreadPoolExecutor() as pool,
    ):
        hold = repository.store.hold

        def waiting(*args):
            params.set()
            return hold(*args)

        with hold("days", 0):
            monkeypatch.setattr(type(repository.store), "hold", lambda _, *args: waiting(*args))
            later = pool.submit(measured_rows, PathSource(spark, str(days)), repository)
            assert params.wait(60)
            write(days, "2024-01-05", 5)
        run, actual = later.result(120)
        assert run.report.gone == ()
        assert actual["ds=2024-01-05"] == (1, 5)


# Which partitions an error concerns

PARTS = [Partition(("ds", "hr"), (day, "07")) for day in DAYS]


class ReadError(Exception):
    def __init__(self, path):
        super().__init__(f"[FAILED_READ_FILE.NO_HINT] Encountered error while reading file {path}.")


def failing_scan(bad, path=lambda part: f"s3a://b/t/{part.name}/a%20b.parquet"):
    """Return a scan of partitions that fails as Spark does, and a list of its calls."""
    calls = []

    def measure(partitions):
        calls.append(len(partitions))
        for part in partitions:
            if part in bad:
                raise ReadError(path(part))
        return [part.name for part in partitions]

    return measure, calls


def test_the_error_names_the_partition_that_failed():
    measure, calls = failing_scan({PARTS[1], PARTS[3]})
    actual, broken = measure_readable(PARTS, lambda part: part, measure)
    assert actual == [PARTS[0].name, PARTS[2].name]
    assert set(broken) == {PARTS[1], PARTS[3]}
    assert calls == [4, 3, 2]
    assert "FAILED_READ_FILE" in broken[PARTS[1]]


def test_partitions_are_bisected_if_no_folder_is_named():
    """Partitions can lie anywhere, and their folders can have other names."""
    measure, calls = failing_scan({PARTS[2]}, path=lambda part: "hdfs://n/elsewhere/a.orc")
    actual, broken = measure_readable(PARTS, lambda part: part, measure)
    assert actual == [PARTS[0].name, PARTS[1].name, PARTS[3].name]
    assert set(broken) == {PARTS[2]}
    assert calls == [4, 2, 2, 1, 1]


def test_the_root_cause_is_reported_if_spark_only_waited():
    error = OSError(
        "An error occurred while calling o123.collectToPython.\n"
        ": org.apache.spark.SparkException: Exception thrown in awaitResult: \n\tat a.b(c.scala:1)\n"
        "Caused by: org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] file:/t/ds=1/a.csv\n"
        "Caused by: java.lang.IllegalArgumentException: CSV header does not conform to the schema.\n"
    )
    assert describe(error) == (
        "IllegalArgumentException: CSV header does not conform to the schema."
    )


def test_other_errors_fail_the_whole_batch():
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
def test_partitions_are_matched_by_all_of_their_keys(path, day):
    actual = named_partitions(ReadError(path), PARTS)
    assert actual == (set() if day is None else {PARTS[day]})


# With Spark


@pytest.mark.spark
def test_changes_between_listing_and_reading_are_measured_by_the_next_run(spark, days, tmp_path):
    """One partition is rewritten, one dropped, one added; no wrong value stays stored."""

    def change_folder():
        write(days, DAYS[0], 50)
        shutil.rmtree(days / f"ds={DAYS[1]}")
        write(days, "2024-01-05", 5)

    source = ChangingSource(spark, str(days))
    source.happens = change_folder
    with tg.Repository(f"sqlite:///{tmp_path / 'r.db'}") as repository:
        run, actual = measured_rows(source, repository)
        assert run.report.status == "complete"
        # The dropped partition is not recorded as empty, and the new one waits for the next run.
        assert actual == {
            f"ds={DAYS[0]}": (1, 50),
            f"ds={DAYS[2]}": (1, 3),
            f"ds={DAYS[3]}": (1, 4),
        }
        run, actual = measured_rows(PathSource(spark, str(days)), repository)
        assert set(run.changes) == {f"ds={DAYS[0]}", "ds=2024-01-05"}
        assert actual[f"ds={DAYS[0]}"] == (1, 50), "the rows that were measured before"
        assert actual["ds=2024-01-05"] == (1, 5)
        run, _ = measured_rows(PathSource(spark, str(days)), repository)
        assert run.report.scanned == 0


@pytest.mark.spark
def test_changes_between_two_jobs_of_a_scan_are_measured_by_the_next_run(
    spark, days, tmp_path, monkeypatch
):
    """The second job reads a rewritten partition, so the values mix both contents until the next run."""
    from tidegauge.analyzers.scan import jobs

    suite = tg.Suite("days", [tg.Size(), tg.Sum("x"), tg.CountDistinct("s")])
    done = []

    def rewriting(job):
        """Return a job that rewrites a partition if it is the first job to end."""

        def run(*args):
            actual = job(*args)
            if not done:
                write(days, DAYS[0], 50)
            done.append(job)
            return actual

        return run

    for name in ("to_arrow", "aggregated"):
        monkeypatch.setattr(jobs, name, rewriting(getattr(jobs, name)))
    with tg.Repository(f"sqlite:///{tmp_path / 'r.db'}") as repository:
        source = PathSource(spark, str(days))
        run = tg.analyze(source, suite, repository=repository, spark=spark, engine="spark")
        assert len(done) > 1, "one job reads all: nothing can change between two"
        assert run.report.status == "complete"
        monkeypatch.undo()
        run = tg.analyze(PathSource(spark, str(days)), suite, repository=repository, spark=spark)
        assert set(run.changes) == {f"ds={DAYS[0]}"}
        metrics = repository.metrics("days", until=DAYS[0])
        values = dict(zip(metrics["name"], metrics["value"], strict=True))
        assert values == {"Size": 50, "Sum": 50, "CountDistinct": 50}
        run = tg.analyze(PathSource(spark, str(days)), suite, repository=repository, spark=spark)
        assert run.report.scanned == 0


def file_of(kind, columns):
    """Return the bytes of a file; Parquet and ORC store the types."""
    if kind == "avro":
        return avro_of(columns)
    table, sink = pa.table(columns), pa.BufferOutputStream()
    if kind == "parquet":
        pq.write_table(table, sink)
    elif kind == "orc":
        orc.write_table(table, sink)
    else:
        csv.write_csv(table, sink, csv.WriteOptions(quoting_style="none"))
    content = sink.getvalue().to_pybytes()
    return gzip.compress(content) if kind == "csv.gz" else content


def avro_of(columns):
    """Return the bytes of an Avro file of integers."""
    fastavro = pytest.importorskip("fastavro")
    fields = [{"name": name, "type": "long"} for name in columns]
    schema = fastavro.parse_schema({"type": "record", "name": "row", "fields": fields})
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    sink = io.BytesIO()
    fastavro.writer(sink, schema, rows)
    return sink.getvalue()


def put(folder, number, content, kind="parquet"):
    """Write the only file of a day; it is newer than the files of the days before."""
    place = folder / f"ds=2024-01-0{number}"
    place.mkdir(parents=True, exist_ok=True)
    file = place / f"part.{kind}"
    file.write_bytes(content)
    os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))


def values(repository, name, instance):
    frame = repository.metrics("days", name=name, instance=instance)
    days = [int(partition[-1]) for partition in frame["partition"]]
    return dict(zip(days, frame["value"], strict=True))


@pytest.mark.spark
@pytest.mark.parametrize("kind", ["orc", "csv.gz", "avro"])
def test_damage_in_other_formats_affects_only_its_partition(spark, tmp_path, kind):
    """A truncated file, and a file of another format."""
    if kind == "avro" and not has_format(spark, "avro"):
        pytest.skip("the session has no spark-avro")
    folder, whole = tmp_path / "days", {}
    for number in range(1, 5):
        whole[number] = file_of(kind, {"x": [1] * 3000 * number, "s": list(range(3000 * number))})
        damaged = {1: whole[number][:-20], 4: b"id,x\n1,2\n" * 9}.get(number, whole[number])
        put(folder, number, damaged, kind)
    options = {"header": "true", "inferSchema": "true"} if kind == "csv.gz" else {}

    def source():
        return PathSource(spark, str(folder), format=kind.partition(".")[0], options=options)

    with tg.Repository(f"sqlite:///{tmp_path / 'r.db'}") as repository:
        run, actual = measured_rows(source(), repository)
        assert set(run.unreadable) == {"ds=2024-01-01", "ds=2024-01-04"}
        assert actual == {"ds=2024-01-02": (1, 6000), "ds=2024-01-03": (1, 9000)}
        for number in (1, 4):
            put(folder, number, whole[number], kind)
        run, actual = measured_rows(source(), repository)
        assert set(run.changes) == {"ds=2024-01-01", "ds=2024-01-04"}
        assert actual["ds=2024-01-04"] == (1, 12000)


@pytest.mark.spark
def test_partitions_missing_from_a_listing_are_measured_when_they_are_listed(spark, days, tmp_path):
    """In a store whose listings lag, a new partition is missing and a rewritten one looks unchanged."""
    lagging = PathSource(spark, str(days))
    before = lagging.list_partitions()
    write(days, "2024-01-05", 5)
    write(days, DAYS[0], 9)
    now, lagging.list_partitions = lagging.list_partitions, lambda: before
    with tg.Repository(f"sqlite:///{tmp_path / 'r.db'}") as repository:
        _, actual = measured_rows(lagging, repository)
        assert set(actual) == {f"ds={day}" for day in DAYS}
        lagging.list_partitions = now
        run, actual = measured_rows(lagging, repository)
        assert set(run.changes) == {f"ds={DAYS[0]}", "ds=2024-01-05"}
        assert (actual[f"ds={DAYS[0]}"][1], actual["ds=2024-01-05"]) == (9, (1, 5))
        # from another server, whose listing lacks the new partition again
        lagging.list_partitions = lambda: before
        run, _ = measured_rows(lagging, repository)
        assert run.report.gone == ("ds=2024-01-05",)
        lagging.list_partitions = now
        run, actual = measured_rows(lagging, repository)
        assert run.report.gone == ()
        assert actual["ds=2024-01-05"] == (1, 5)
        assert actual[f"ds={DAYS[0]}"][1] == 9


@pytest.mark.spark
@pytest.mark.parametrize("damage", ["truncated", "foreign", "page"])
def test_a_damaged_file_affects_only_its_partition(spark, days, tmp_path, damage):
    """The first file, whose schema Spark reads, and the last one; once repaired, they are measured.

    The footer of the damaged page is valid: only unpacking the page shows the damage.
    """
    whole = {day: (days / f"ds={day}" / "part.parquet").read_bytes() for day in DAYS}
    for day in (DAYS[0], DAYS[3]):
        start = pq.ParquetFile(io.BytesIO(whole[day])).metadata.row_group(0).column(0)
        page = slice(start.dictionary_page_offset, start.data_page_offset)
        torn = whole[day][: page.start] + bytes(page.stop - page.start) + whole[day][page.stop :]
        content = {"truncated": whole[day][:-20], "foreign": b"id,x\n1,2\n" * 9, "page": torn}
        (days / f"ds={day}" / "part.parquet").write_bytes(content[damage])
    with tg.Repository(f"sqlite:///{tmp_path / 'r.db'}") as repository:
        run, actual = measured_rows(PathSource(spark, str(days)), repository)
        assert set(actual) == {f"ds={DAYS[1]}", f"ds={DAYS[2]}"}
        assert set(run.unreadable) == {f"ds={DAYS[0]}", f"ds={DAYS[3]}"}
        assert run.status == "failed"
        (error,) = repository.runs("days")["error"]
        assert f"ds={DAYS[3]} cannot be read: " in error
        with pytest.raises(tg.SourceError, match=f"ds={DAYS[0]} cannot be read"):
            measured_rows(PathSource(spark, str(days)), repository)
        for day in (DAYS[0], DAYS[3]):
            (days / f"ds={day}" / "part.parquet").write_bytes(whole[day])
        run, actual = measured_rows(PathSource(spark, str(days)), repository)
        assert set(run.changes) == {f"ds={DAYS[0]}", f"ds={DAYS[3]}"}
        assert actual[f"ds={DAYS[3]}"] == (1, 4)
        assert run.status == "complete"
