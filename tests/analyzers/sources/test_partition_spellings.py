"""Hive partitions with unusual values, columns and folders: every row is read in its own partition."""

import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidegauge as tg
from tidegauge.analyzers.core.errors import PartitionColumnError
from tidegauge.analyzers.sources.opening import open_table
from tidegauge.analyzers.sources.targets import open_target

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module", autouse=True)
def database(spark):
    spark.sql("CREATE DATABASE IF NOT EXISTS spelt")
    yield
    spark.sql("DROP DATABASE spelt CASCADE")


def put(folder, rows):
    """Write a file of some rows; without rows, create an empty folder."""
    os.makedirs(folder, exist_ok=True)
    if rows:
        pq.write_table(
            pa.table({"x": pa.array(range(rows), pa.int32())}), f"{folder}/{rows}.parquet"
        )


@pytest.fixture
def table(spark, tmp_path):
    """Return a function that creates an external table with folders of some rows and returns its name."""
    made = []

    def create(kind, folders, key="k"):
        name = f"spelt.t{len(made)}"
        for value, rows in folders.items():
            put(f"{tmp_path}/{name}/{key}={value}", rows)
        column = f"`{key}`"
        spark.sql(
            f"CREATE TABLE {name} (x INT, {column} {kind}) USING parquet PARTITIONED BY ({column})"
            f" LOCATION '{tmp_path}/{name}'"
        )
        spark.sql(f"MSCK REPAIR TABLE {name}")
        made.append(name)
        return name

    yield create
    for name in made:
        spark.sql(f"DROP TABLE {name}")


def read(source, keys, partitions):
    """Return the rows of some partitions by the values of their partition."""
    data = source.read(partitions)
    rows = data.selectExpr(*(f"CAST(`{key}` AS STRING)" for key in keys)).collect()
    actual = {}
    for row in rows:
        partition = source.partition_of(tuple(row))
        actual[partition.name] = actual.get(partition.name, 0) + 1
    return actual


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("DATE", ["2024-09-01", "2024-9-30", "2024-10-01"]),
        ("BOOLEAN", ["True", "FALSE"]),
        ("DECIMAL(10,2)", ["1.5", "2", "3.25"]),
        ("DOUBLE", ["1", "2.50", "3.0"]),
        ("TIMESTAMP", ["2024-01-05", "2024-01-06 00:00:00.0", "2024-01-07 10:00:00"]),
        ("CHAR(5)", ["ab", "abcde"]),
        ("INT", ["007", "8", "-9"]),
        ("STRING", ["a", "m'\"m", "z'\"z"]),
    ],
)
def test_values_that_spark_prints_differently_keep_their_rows(spark, table, kind, values):
    folders = {value: n for n, value in enumerate(values, 1)}
    source = open_table(spark, table(kind, folders))
    some = [one.partition for one in source.list_partitions()]
    expected = {part.name: folders[part.values[0]] for part in some}
    assert read(source, ["k"], some) == expected
    for one in some:
        assert read(source, ["k"], [one]) == {one.name: expected[one.name]}


def test_days_are_measured_next_to_one_in_another_format(spark, table, repo, tmp_path):
    name = table("DATE", {"2024-09-01": 2})
    suite = tg.Suite("spelt", [tg.Size()])
    tg.analyze(name, suite, repository=repo, spark=spark)
    put(f"{tmp_path}/{name}/k=2024-9-30", 3)
    put(f"{tmp_path}/{name}/k=2024-10-01", 4)
    spark.sql(f"MSCK REPAIR TABLE {name}")
    tg.analyze(name, suite, repository=repo, spark=spark)
    sizes = repo.metrics("spelt", name="Size").set_index("partition")["value"]
    assert dict(sizes) == {"k=2024-09-01": 2, "k=2024-9-30": 3, "k=2024-10-01": 4}


def test_two_notations_of_one_day_are_refused(spark, table):
    source = open_table(spark, table("DATE", {"2024-1-5": 2, "2024-01-05": 3}))
    with pytest.raises(PartitionColumnError, match="the same value"):
        source.list_partitions()


@pytest.mark.parametrize("key", ["event-date", "a b", "_d", "in", "date"])
def test_partition_columns_that_the_metastore_cannot_filter_by(spark, table, key):
    source = open_table(spark, table("STRING", {"a": 1, "b": 2, "c": 3}, key))
    some = [one.partition for one in source.list_partitions()]
    assert read(source, [key], some[1:]) == {f"{key}=b": 2, f"{key}=c": 3}


def test_an_empty_folder_with_leading_zeros(spark, table):
    source = open_table(spark, table("INT", {"1": 2, "007": 0}))
    actual = {one.partition.name: one.size > 0 for one in source.list_partitions()}
    assert actual == {"k=1": True, "k=007": False}


@pytest.mark.parametrize("folder", ["second", "archive/k=a", "k=c"])
def test_a_partition_that_moved_within_its_table(spark, table, tmp_path, folder):
    name = table("STRING", {"a": 1, "b": 2})
    put(f"{tmp_path}/{name}/{folder}", 3)
    source = open_table(spark, name)
    before = {one.partition.name: one.fingerprint for one in source.list_partitions()}
    spark.sql(f"ALTER TABLE {name} PARTITION (k='a') SET LOCATION '{tmp_path}/{name}/{folder}'")
    after = {one.partition.name: one.fingerprint for one in source.list_partitions()}
    assert before["k=a"] != after["k=a"]
    assert before["k=b"] == after["k=b"]


@pytest.mark.parametrize(
    ("kind", "stored", "printed"), [("INT", "07", "7"), ("DATE", "2024-1-5", "2024-01-05")]
)
def test_a_published_partition_is_dropped_in_any_notation(spark, table, kind, stored, printed):
    name = table(kind, {stored: 1})
    open_target(spark, name).drop([(printed,)])
    assert spark.sql(f"SHOW PARTITIONS {name}").collect() == []
