"""Tables that records are written to, and how a missing one is created."""

from pathlib import Path

import pytest

from tidegauge.analyzers.sources.targets import TableTarget

pytestmark = pytest.mark.spark

COLUMNS = """
    code VARCHAR(5) COMMENT "it's short", `s t` STRUCT<`a b`: INT, `c``d`: ARRAY<DECIMAL(9,2)>>,
    counts MAP<STRING, ARRAY<BIGINT>>, at TIMESTAMP_NTZ, taken INTERVAL DAY TO SECOND, ds DATE
"""
ROW = (
    "'x', named_struct('a b', 1, 'c`d', array(1.25BD)), map('k', array(2L)),"
    " TIMESTAMP_NTZ'2024-01-02 03:04:05', INTERVAL '1 02:03:04' DAY TO SECOND, DATE'2024-01-02'"
)


@pytest.fixture
def tables(spark):
    names = ["targets_from", "targets_to"]
    for name in names:
        spark.sql(f"DROP TABLE IF EXISTS {name}").collect()
    yield names
    for name in names:
        spark.sql(f"DROP TABLE IF EXISTS {name}").collect()


def described(spark, name):
    rows = spark.sql(f"DESCRIBE TABLE {name}").collect()
    return sorted((row["col_name"], row["data_type"], row["comment"]) for row in rows)


def copied(spark, columns, row, names):
    """Return the description and the rows of a table, and of its copy by a target."""
    source, target = names
    spark.sql(f"CREATE TABLE {source} ({columns}) USING parquet PARTITIONED BY (ds)").collect()
    spark.sql(f"INSERT INTO {source} SELECT {row}").collect()
    TableTarget(spark, target).write(spark.table(source), "partitions", ["ds"], ())
    return [(described(spark, n), [str(r) for r in spark.table(n).collect()]) for n in names]


def test_a_new_table_has_the_types_lengths_and_comments_of_its_rows(spark, tables):
    before, after = copied(spark, COLUMNS, ROW, tables)
    assert after == before
    assert ("code", "varchar(5)", "it's short") in after[0]


@pytest.mark.newest
def test_a_new_table_has_the_collations_of_its_rows(spark, tables):
    columns = "a STRING COLLATE UTF8_LCASE, b ARRAY<STRING COLLATE UNICODE_CI>, ds STRING"
    before, after = copied(spark, columns, "'x', array('y'), '2024-01-02'", tables)
    assert after == before
    assert ("a", "string collate UTF8_LCASE", None) in after[0]


def test_an_empty_folder_of_a_killed_run_does_not_matter(spark, tables):
    of_database = {r[0]: r[1] for r in spark.sql("DESCRIBE DATABASE default").collect()}
    folder = Path(of_database["Location"].removeprefix("file:")) / tables[1]
    folder.mkdir(parents=True)
    rows = spark.sql("SELECT 1 AS a, 'x' AS ds")
    TableTarget(spark, tables[1]).write(rows, "append", ["ds"], ())
    assert [tuple(row) for row in spark.table(tables[1]).collect()] == [(1, "x")]
