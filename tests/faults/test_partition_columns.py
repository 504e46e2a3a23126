"""Each partition has the columns of its own files, regardless of the partitions measured with it."""

import csv
import io
import json
import os
import random
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
from pyarrow import orc

import tidegauge as tg
from tests.conftest import soak
from tidegauge.analyzers.sources.path_source import PathSource
from tidegauge.griffin.connectors import has_format
from tidegauge.repository.store import schema as s

FORMATS = ["parquet", "orc", "avro", "csv", "json"]
SUITE = tg.Suite(
    "days",
    [
        tg.Size(),
        tg.ColumnCount(),
        tg.Completeness("a"),
        tg.Completeness("b"),
        tg.Completeness("c"),
        tg.Mean("a"),
        tg.Histogram("a"),
        tg.CountDistinct(["b"]),
        tg.ApproxCountDistinct("a"),
        tg.MaxLength("b"),
    ],
    partition_by=["ds"],
)


# Histories


def write_rows(path, kind, columns, modified):
    """Write a file of a format; columns are lists of Python values by name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "parquet":
        pq.write_table(pa.table(columns), path)
    elif kind == "orc":
        orc.write_table(pa.table(columns), path)
    elif kind == "avro":
        write_avro(path, columns)
    elif kind == "csv":
        with path.open("w", newline="") as sink:
            writer = csv.writer(sink, lineterminator="\n")
            writer.writerow(columns)
            writer.writerows(zip(*columns.values(), strict=True))
    else:
        rows = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    os.utime(path, (1_700_000_000 + modified, 1_700_000_000 + modified))


def write_avro(path, columns):
    fastavro = pytest.importorskip("fastavro")
    names = {int: "long", float: "double", str: "string"}
    fields = [{"name": n, "type": names[type(values[0])]} for n, values in columns.items()]
    schema = fastavro.parse_schema({"type": "record", "name": "row", "fields": fields})
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    sink = io.BytesIO()
    fastavro.writer(sink, schema, rows)
    path.write_bytes(sink.getvalue())


def random_files(rng):
    """Return the files of a day: columns may be added, dropped, renamed, reordered and change their type."""
    files = []
    for _ in range(rng.choice([1, 1, 1, 2])):
        columns = {}
        for name in rng.sample(["a", "b", "c"], rng.choice([1, 2, 3])):
            make = rng.choice([lambda r: r.randrange(5), lambda r: r.choice("xyz")])
            if name == "a" and rng.random() < 0.3:
                make = lambda r: r.randrange(5) + 0.5  # noqa: E731
            columns[name] = [make(rng) for _ in range(4)]
        files.append(columns)
    return files


def write_day(folder, kind, day, files, modified):
    partition = folder / f"ds=2026-03-{day:02}"
    for old in partition.glob("*"):
        old.unlink()
    for number, columns in enumerate(files):
        write_rows(partition / f"part-{number}.{kind}", kind, columns, modified + number)


def repository_content(repository):
    """Return all current metrics, states, schemas and errors by partition."""
    metrics = repository.metrics("days")
    columns = ["partition", "name", "instance", "value", "status", "error"]
    facts = sorted(map(repr, metrics[columns].itertuples(index=False, name=None)))
    t, v, p, of = s.state.c, s.partition_version.c, s.partition.c, s.statistic.c
    states = (
        sa.select(p.name, of.key, of.segment, t.tag, t.payload)
        .join_from(s.state, s.partition, p.id == t.partition_id)
        .join(s.statistic, of.id == t.statistic_id)
        .join(s.partition_version, (v.partition_id == p.id) & (v.version == t.version))
        .where(s.holds(s.partition_version))
    )
    schemas = (
        sa.select(p.name, s.table_schema.c["columns"])
        .join_from(s.partition, s.partition_version)
        .join(s.table_schema)
        .where(s.holds(s.partition_version))
    )
    with repository.store.database.read() as connection:
        return (
            facts,
            sorted(map(tuple, connection.execute(states)), key=repr),
            sorted(map(tuple, connection.execute(schemas))),
        )


@pytest.mark.spark
@pytest.mark.parametrize("kind", FORMATS)
def test_a_backfill_stores_the_same_as_daily_runs(spark, tmp_path, kind):
    """All days at once, day by day, in random batches, and with a late rewrite of an old day."""

    if kind == "avro" and not has_format(spark, "avro"):
        pytest.skip("the session has no spark-avro")
    options = {"header": "true", "inferSchema": "true"} if kind == "csv" else {}
    for seed in range(soak(1, 20)):
        rng = random.Random(f"{kind} {seed}")
        history = [random_files(rng) for _ in range(soak(4, 9))]
        rewritten = rng.randrange(len(history))
        before = random_files(rng)
        results = {}
        for way in ("all", "daily", "batches"):
            folder = tmp_path / f"{way}{seed}"
            with tg.Repository("sqlite://") as repository:
                for day, files in enumerate(history):
                    first = before if way != "all" and day == rewritten else files
                    write_day(folder, kind, day + 1, first, 10 * day)
                    is_cut = way == "daily" or (way == "batches" and rng.random() < 0.4)
                    if is_cut and day < len(history) - 1:
                        measure(spark, folder, kind, options, repository)
                write_day(folder, kind, rewritten + 1, history[rewritten], 10 * rewritten)
                os.utime(next((folder / f"ds=2026-03-{rewritten + 1:02}").iterdir()))
                measure(spark, folder, kind, options, repository)
                results[way] = repository_content(repository)
        assert results["all"] == results["daily"]
        assert results["all"] == results["batches"]


def measure(spark, folder, kind, options, repository):
    source = PathSource(spark, str(folder), format=kind, options=options)
    run = tg.analyze(source, SUITE, repository=repository, spark=spark)
    assert run.unreadable == {}
    return run


# Single events


def values(repository, name, instance="*"):
    metrics = repository.metrics("days", name, instance)
    return {
        int(partition[-2:]): value if status == "finite" else status
        for partition, value, status in zip(
            metrics["partition"], metrics["value"], metrics["status"], strict=True
        )
    }


@pytest.mark.spark
def test_a_renamed_column_affects_only_its_own_day(spark, tmp_path):
    """Three days in one run, where the third one has another name for ``b``, and an old day that is repaired."""
    for day in (1, 2):
        write_day(tmp_path, "parquet", day, [{"a": [1], "b": ["x"]}], day)
    write_day(tmp_path, "parquet", 3, [{"a": [1], "c": ["x"]}], 3)
    with tg.Repository("sqlite://") as repository:
        measure(spark, tmp_path, "parquet", {}, repository)
        assert values(repository, "Completeness", "b") == {1: 1.0, 2: 1.0, 3: "failed"}
        assert values(repository, "Completeness", "c") == {1: "failed", 2: "failed", 3: 1.0}
        write_day(tmp_path, "parquet", 1, [{"a": [2, 3], "b": ["x", "y"]}], 90)
        write_day(tmp_path, "parquet", 4, [{"a": [1], "c": ["x"]}], 91)
        measure(spark, tmp_path, "parquet", {}, repository)
        assert values(repository, "Completeness", "b") == {
            1: 1.0,
            2: 1.0,
            3: "failed",
            4: "failed",
        }
        assert values(repository, "Size") == {1: 2.0, 2: 1.0, 3: 1.0, 4: 1.0}


@pytest.mark.spark
def test_files_of_one_partition_are_read_with_their_own_columns(spark, tmp_path):
    """Numbers are widened, a missing column is null, and an integer next to a string is a string."""
    files = [
        {"a": pa.array([1, 2], pa.int32()), "b": ["x", "y"], "n": [1, 2]},
        {"a": [0.5, 1.5], "n": ["p", "q"]},
    ]
    write_day(tmp_path, "parquet", 1, files, 1)
    suite = tg.Suite(
        "days", [tg.Size(), tg.Sum("a"), tg.Completeness("b"), tg.Histogram("n")], ["ds"]
    )
    with tg.Repository("sqlite://") as repository:
        source = PathSource(spark, str(tmp_path))
        assert tg.analyze(source, suite, repository=repository, spark=spark).unreadable == {}
        assert values(repository, "Sum", "a") == {1: 5.0}
        assert values(repository, "Completeness", "b") == {1: 0.5}
        shares = repository.merge("days", tg.Histogram("n")).value
        counts = Counter({value: share.absolute for value, share in shares.values.items()})
        assert counts == Counter(["1", "2", "p", "q"])


@pytest.mark.spark
def test_incompatible_nested_columns_affect_only_their_partition(spark, tmp_path):
    good = [{"a": [1], "b": pa.array([{"u": 1}], pa.struct([("u", pa.int64())]))}]
    more = [{"a": [1], "b": pa.array([{"v": "x"}], pa.struct([("v", pa.string())]))}]
    other = [{"a": [1], "b": ["x"]}]
    write_day(tmp_path, "parquet", 1, good + more, 1)
    write_day(tmp_path, "parquet", 2, good + other, 2)
    suite = tg.Suite("days", [tg.Size(), tg.Completeness("b.u")], ["ds"])
    with tg.Repository("sqlite://") as repository:
        source = PathSource(spark, str(tmp_path))
        run = tg.analyze(source, suite, repository=repository, spark=spark)
        assert values(repository, "Completeness", "b.u") == {1: 0.5}
        assert run.unreadable == {
            "ds=2026-03-02": "column 'b' is of type string in some files and struct<u:bigint> in others,"
            " and no type holds both; rewrite the files with one type"
        }


@pytest.mark.spark
def test_an_empty_file_has_the_columns_of_the_day_before(spark, tmp_path):
    write_day(tmp_path, "json", 1, [{"a": [1], "b": ["x"]}], 1)
    write_day(tmp_path, "json", 2, [{"a": []}], 2)
    write_day(tmp_path, "json", 3, [{"c": [1]}], 3)
    with tg.Repository("sqlite://") as repository:
        measure(spark, tmp_path, "json", {}, repository)
        assert values(repository, "Size") == {1: 1.0, 2: 0.0, 3: 1.0}
        assert values(repository, "ColumnCount") == {1: 3.0, 2: "empty", 3: 2.0}
        assert values(repository, "Completeness", "b") == {1: 1.0, 2: "empty", 3: "failed"}


@pytest.mark.spark
def test_a_new_header_changes_the_types_of_no_other_day(spark, tmp_path):
    """CSV with another order, another name and strings instead of numbers, each in a separate file."""
    rows = [
        {"a": [1, 2], "b": ["x", "y"]},
        {"b": ["x", "y"], "a": [1, 2]},
        {"amount": [1, 2], "b": ["x", "y"]},
        {"a": ["one", 2], "b": ["x", "y"]},
        {"a": [3, 5], "b": ["x", "y"]},
    ]
    for day, columns in enumerate(rows, 1):
        write_day(tmp_path, "csv", day, [columns], day)
    options = {"header": "true", "inferSchema": "true"}
    with tg.Repository("sqlite://") as repository:
        measure(spark, tmp_path, "csv", options, repository)
        assert values(repository, "Mean", "a") == {1: 1.5, 2: 1.5, 3: "failed", 4: "failed", 5: 4.0}
        assert values(repository, "Completeness", "b") == dict.fromkeys(range(1, 6), 1.0)


@pytest.mark.spark
def test_a_pattern_matches_part_of_a_folder(spark, tmp_path):
    """Three of four days; the last one has another column."""
    for day in (9, 10, 11):
        write_day(tmp_path, "parquet", day, [{"a": [day, 1]}], day)
    write_day(tmp_path, "parquet", 12, [{"b": ["x"]}], 12)
    with tg.Repository("sqlite://") as repository:
        source = PathSource(spark, f"{tmp_path}/ds=2026-03-1*")
        tg.analyze(source, SUITE, repository=repository, spark=spark)
        assert values(repository, "Size") == {10: 2.0, 11: 2.0, 12: 1.0}
        assert values(repository, "Mean", "a") == {10: 5.5, 11: 6.0, 12: "failed"}
        merged = PathSource(spark, f"{tmp_path}/ds=2026-03-1*", options={"mergeSchema": "true"})
        assert sorted(merged.read(None).columns) == ["a", "b", "ds"]
        assert merged.read(None).count() == 5


@pytest.mark.spark
@pytest.mark.parametrize("format", ["parquet", "csv", "json"])
def test_the_folders_above_a_single_file_do_not_matter(spark, tmp_path, monkeypatch, format):
    """They decide neither its partition nor whether it is hidden."""
    folder = tmp_path / ".cache" / "ds=2026-03-01"
    folder.mkdir(parents=True)
    write_day(tmp_path / "written", format, 1, [{"a": [1, 2]}], 1)
    (written,) = (tmp_path / "written").rglob("part-*")
    monkeypatch.chdir(folder)
    name = f"orders.{format}"
    written.rename(name)
    options = {"header": "true", "inferSchema": "true"} if format == "csv" else {}
    suite = tg.Suite("orders", [tg.Size(), tg.Mean("a")])
    for path in (f"./{name}", str(folder / name), f"file://{folder / name}"):
        with tg.Repository("sqlite://") as repository:
            source = PathSource(spark, path, format=format, options=options)
            assert source.keys == ()
            tg.analyze(source, suite, repository=repository, spark=spark)
            assert set(repository.metrics("orders", name=["Size", "Mean"])["value"]) == {1.5, 2.0}
