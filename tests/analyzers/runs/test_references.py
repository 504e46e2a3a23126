"""Analyzers that read another table: its files are part of the fingerprint."""

import pytest

import tidegauge as tg

pytestmark = pytest.mark.spark


@pytest.fixture
def tables(spark):
    spark.sql("CREATE DATABASE IF NOT EXISTS refs")
    spark.createDataFrame(
        [
            (1, "a", "2013-01-01"),
            (2, "b", "2013-01-01"),
            (2, "b", "2013-01-02"),
            (None, "c", "2013-01-02"),
        ],
        "id int, name string, ds string",
    ).write.partitionBy("ds").saveAsTable("refs.facts", mode="overwrite")
    spark.createDataFrame([(2,)], "key int").write.saveAsTable("refs.keys", mode="overwrite")
    yield
    spark.sql("DROP TABLE refs.facts")
    spark.sql("DROP TABLE refs.keys")


def value(repo, day, version=None):
    frame = repo.metrics("facts", name="ReferentialIntegrity", since=day, until=day)
    return frame.value.item(), frame.version.item()


@pytest.mark.soak
def test_a_change_of_the_other_table_changes_every_partition(spark, tables, repo):
    suite = tg.Suite("facts", [tg.Size(), tg.ReferentialIntegrity("id", "refs.keys", "key")])
    assert tg.analyze("refs.facts", suite, repository=repo, spark=spark).report.scanned == 2
    assert value(repo, "2013-01-01") == (0.5, 1)
    assert value(repo, "2013-01-02") == (1.0, 1)
    assert tg.analyze("refs.facts", suite, repository=repo, spark=spark).report.scanned == 0
    spark.sql("INSERT INTO refs.keys VALUES (1)")
    run = tg.analyze("refs.facts", suite, repository=repo, spark=spark)
    # All keys of the second day existed before.
    assert dict(run.changes) == {"ds=2013-01-01": "restated", "ds=2013-01-02": "unchanged"}
    assert value(repo, "2013-01-01") == (1.0, 2)
    assert tg.analyze("refs.facts", suite, repository=repo, spark=spark).report.scanned == 0


def test_adding_a_reference_analyzer_measures_nothing_else_again(spark, tables, repo):
    plain = tg.Suite("facts", [tg.Size()])
    both = tg.Suite("facts", [tg.Size(), tg.ReferentialIntegrity("id", "refs.keys", "key")])
    tg.analyze("refs.facts", plain, repository=repo, spark=spark)
    run = tg.analyze("refs.facts", both, repository=repo, spark=spark)
    assert set(map(str, run.changes.values())) == {"added"}
    assert value(repo, "2013-01-01") == (0.5, 1)
    assert tg.analyze("refs.facts", plain, repository=repo, spark=spark).report.scanned == 0
    spark.sql("INSERT INTO refs.keys VALUES (1)")
    run = tg.analyze("refs.facts", both, repository=repo, spark=spark)
    # All keys of the second day existed before.
    assert dict(run.changes) == {"ds=2013-01-01": "restated", "ds=2013-01-02": "unchanged"}


def test_a_view_is_not_followed(spark, tables, repo):
    """Changes of a view are unknown, so it does not change the table's partitions."""
    spark.sql("CREATE OR REPLACE TEMPORARY VIEW keys_seen AS SELECT key FROM refs.keys")
    suite = tg.Suite("facts", [tg.Size(), tg.ReferentialIntegrity("id", "keys_seen", "key")])
    assert tg.analyze("refs.facts", suite, repository=repo, spark=spark).report.scanned == 2
    assert tg.analyze("refs.facts", suite, repository=repo, spark=spark).report.scanned == 0


@pytest.mark.soak
def test_a_missing_reference_table_fails_only_its_analyzer(spark, tables, repo):
    suite = tg.Suite("facts", [tg.Size(), tg.DatasetMatch("id", "refs.nope", "key")])
    run = tg.analyze("refs.facts", suite, repository=repo, spark=spark)
    ((analyzer, error),) = run.failed.items()
    assert isinstance(analyzer, tg.DatasetMatch)
    assert "TABLE_OR_VIEW_NOT_FOUND" in str(error)
    assert repo.merge("facts", tg.Size()).value == 4


def test_rows_of_two_frames_are_compared(spark, tables):
    spark.createDataFrame(
        [(2, "b"), (None, "c"), (2, "b")], "id int, name string"
    ).createOrReplaceTempView("kept")
    data = spark.table("refs.facts")
    match = tg.DatasetMatch(["id", "name"], "kept")
    assert match.calculate(data).value == 0.75
    assert match.calculate(data.where("ds = '2013-01-02'")).value == 1.0
    # As in Deequ, [1, 1, 1, 2] against [2] is a quarter, however often a key repeats.
    four = spark.createDataFrame([(1,), (1,), (1,), (2,)], "id int")
    assert tg.ReferentialIntegrity("id", "refs.keys", "key").calculate(four).value == 0.25


@pytest.mark.soak
def test_suites_that_read_different_tables_do_not_affect_each_other(spark, tables, repo):
    spark.createDataFrame([(1,)], "key int").write.saveAsTable("refs.other", mode="overwrite")
    one = tg.Suite("facts", [tg.ReferentialIntegrity("id", "refs.keys", "key")])
    two = tg.Suite("facts", [tg.ReferentialIntegrity("id", "refs.other", "key")])
    plain = tg.Suite("facts", [tg.Size()])

    def changes(suite):
        run = tg.analyze("refs.facts", suite, repository=repo, spark=spark)
        return set(map(str, run.changes.values()))

    assert [changes(s) for s in (one, two, plain)] == [{"new"}, {"added"}, {"added"}]
    assert [changes(s) for s in (one, two, plain)] == [set(), set(), set()]
    spark.sql("INSERT INTO refs.keys VALUES (1)")
    assert [changes(s) for s in (plain, two)] == [set(), set()]
    assert changes(one) == {"restated"}
    spark.sql("DROP TABLE refs.other")
