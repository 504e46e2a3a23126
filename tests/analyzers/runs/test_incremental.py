"""Incremental runs on Hive tables, folders and frames: new, changed, moved and removed partitions, unusual names."""

import datetime as dt
import os
import shutil

import pytest

import tidegauge as tg
from tests.support.integrity import check
from tests.support.spark_actions import counted
from tidegauge.analyzers.sources.sources import (
    FrameSource,
    _list_by_arrow,
    _list_by_spark,
    list_files,
)

pytestmark = pytest.mark.spark
NULL = "__HIVE_DEFAULT_PARTITION__"
SUITE = [
    tg.Size(),
    tg.Completeness("x"),
    tg.Mean("x"),
    tg.ApproxCountDistinct("s"),
    tg.Uniqueness("s"),
]


@pytest.fixture(scope="module", autouse=True)
def database(spark):
    spark.sql("CREATE DATABASE IF NOT EXISTS inc")
    yield
    spark.sql("DROP DATABASE inc CASCADE")


def write_days(root, count, start=dt.date(2000, 1, 1)):
    import pyarrow as pa
    import pyarrow.parquet as pq

    for i in range(count):
        folder = f"{root}/ds={(start + dt.timedelta(days=i)).isoformat()}"
        os.makedirs(folder)
        x = pa.array([i, i + 1, None], pa.int64())
        pq.write_table(pa.table({"x": x, "s": ["a", "b", "a"]}), f"{folder}/part.parquet")


@pytest.fixture
def daily(spark, tmp_path, request):
    """Create an external Hive table of some days."""
    count = request.param
    root = tmp_path / "days"
    write_days(root, count)
    name = f"inc.daily_{count}"
    spark.sql(f"DROP TABLE IF EXISTS {name}")
    spark.sql(
        f"CREATE TABLE {name} (x BIGINT, s STRING, ds STRING) USING parquet PARTITIONED BY (ds) LOCATION '{root}'"
    )
    spark.sql(f"MSCK REPAIR TABLE {name}")
    yield name, root
    spark.sql(f"DROP TABLE {name}")


def actions(spark, run):
    with counted(spark) as actual:
        result = run()
    return result, len([e for e in actual if e["successJobIds"]])


@pytest.mark.soak
@pytest.mark.classic
@pytest.mark.parametrize("daily", [30], indirect=True)
def test_30_and_365_partitions_take_the_same_number_of_actions(
    spark, flights, daily, repo, tmp_path
):
    name, _ = daily
    suite = tg.Suite("days", SUITE)
    run, few = actions(spark, lambda: tg.analyze(name, suite, repository=repo, spark=spark))
    assert run.report.scanned == 30
    more = tg.Suite(
        "flights",
        [
            tg.Size(),
            tg.Completeness("dep_time"),
            tg.Mean("dep_time"),
            tg.ApproxCountDistinct("tailnum"),
            tg.Uniqueness("tailnum"),
        ],
    )
    run, many = actions(spark, lambda: tg.analyze(flights, more, repository=repo, spark=spark))
    assert run.report.scanned == 365
    assert (few, many) == (2, 3)  # one job less measures files of 1 MiB in total


@pytest.mark.classic
@pytest.mark.soak
@pytest.mark.parametrize("daily", [3650], indirect=True)
def test_each_batch_of_3650_partitions_takes_the_same_number_of_actions(spark, daily, repo):
    name, root = daily
    suite = tg.Suite("days", SUITE)
    run, cost = actions(spark, lambda: tg.analyze(name, suite, repository=repo, spark=spark))
    assert run.report.scanned == 3650
    with repo.database.read() as connection:
        batches = connection.exec_driver_sql('SELECT count(*) FROM "commit"').scalar()
    assert 1 < batches <= 15
    assert cost <= 3 * batches
    # state(A and B) = state(A) + state(B), for all analyzers, computed by hand
    assert repo.merge("days", tg.Size()).value == 3 * 3650
    assert repo.merge("days", tg.Mean("x")).value == pytest.approx((0 + 3650) / 2)
    assert repo.merge("days", tg.Completeness("x")).value == pytest.approx(2 / 3)
    (run, cost) = actions(spark, lambda: tg.analyze(name, suite, repository=repo, spark=spark))
    assert (run.report.scanned, run.report.skipped, cost) == (0, 3650, 0)
    assert check(repo.database, repo.artifacts) == []


@pytest.fixture
def odd(spark):
    """A table by ds, hr and country, with a null partition and names that Hive escapes."""
    rows = [
        (1, "a", "2013-02-08", "07", "New York"),
        (2, "b", "2013-02-08", "07", "New York"),
        (3, "c", "2013-02-08", "08", None),
        (None, "d", "2013-02-08", "07", "a/b=c%'\"`\\"),
        (5, "e", "2013-02-09", "07", "New York"),
    ]
    spark.sql("DROP TABLE IF EXISTS inc.odd")
    frame = spark.createDataFrame(rows, "x int, s string, ds string, hr string, country string")
    frame.write.partitionBy("ds", "hr", "country").saveAsTable("inc.odd")
    return "inc.odd"


ODD_SUITE = tg.Suite("odd", SUITE, ["ds", "hr", "country"])


def test_partitions_with_three_keys_null_and_spaces_are_measured(spark, odd, repo):
    run = tg.analyze(odd, ODD_SUITE, repository=repo, spark=spark)
    assert set(run.changes) == {
        "ds=2013-02-08/hr=07/country=New York",
        f"ds=2013-02-08/hr=08/country={NULL}",
        "ds=2013-02-08/hr=07/country=a/b=c%'\"`\\",
        "ds=2013-02-09/hr=07/country=New York",
    }
    sizes = repo.metrics("odd", name="Size").set_index("partition")
    assert sizes["value"].to_dict() == {
        "ds=2013-02-08/hr=07/country=New York": 2.0,
        f"ds=2013-02-08/hr=08/country={NULL}": 1.0,
        "ds=2013-02-08/hr=07/country=a/b=c%'\"`\\": 1.0,
        "ds=2013-02-09/hr=07/country=New York": 1.0,
    }
    # Keys without a time are segments, and each is a separate series.
    assert set(sizes["segment"]) == {"country=New York", f"country={NULL}", "country=a/b=c%'\"`\\"}
    york = repo.metrics("odd", name="Size", segment="country=New York")
    assert list(york["time"]) == [dt.datetime(2013, 2, d, 7, tzinfo=dt.UTC) for d in (8, 9)]
    assert repo.merge("odd", tg.Size(), segment="country=New York").value == 3.0
    assert repo.merge("odd", tg.Size()).value == 5.0
    assert tg.analyze(odd, ODD_SUITE, repository=repo, spark=spark).report.scanned == 0
    repo.detect("odd")


@pytest.mark.soak
def test_a_selection_of_partitions_is_measured(spark, odd, repo):
    run = tg.analyze(
        odd, ODD_SUITE, repository=repo, partitions="hr = 07 and country = 'New York'", spark=spark
    )
    assert set(run.changes) == {f"ds=2013-02-0{d}/hr=07/country=New York" for d in (8, 9)}
    run = tg.analyze(
        odd,
        ODD_SUITE,
        repository=repo,
        partitions=[f"ds=2013-02-08/hr=08/country={NULL}"],
        spark=spark,
    )
    assert set(run.changes) == {f"ds=2013-02-08/hr=08/country={NULL}"}
    with pytest.raises(tg.PartitionSelectionError, match="no partition 'ds=2014"):
        tg.analyze(odd, ODD_SUITE, repository=repo, partitions=["ds=2014-01-01"], spark=spark)
    with pytest.raises(tg.PartitionSelectionError, match="no partition key 'day'"):
        tg.analyze(odd, ODD_SUITE, repository=repo, partitions="day=1", spark=spark)


@pytest.mark.soak
def test_partitions_can_be_coarser_than_those_of_the_table(spark, odd, repo):
    suite = tg.Suite("days", SUITE, ["ds"])
    run = tg.analyze(odd, suite, repository=repo, spark=spark)
    assert set(run.changes) == {"ds=2013-02-08", "ds=2013-02-09"}
    assert list(repo.metrics("days", name="Size")["value"]) == [4.0, 1.0]
    spark.sql("INSERT INTO inc.odd VALUES (9, 'z', '2013-02-09', '23', 'New York')")
    assert dict(tg.analyze(odd, suite, repository=repo, spark=spark).changes) == {
        "ds=2013-02-09": "restated"
    }


def test_new_changed_and_moved_partitions_are_measured_and_removed_ones_recorded(
    spark, odd, repo, tmp_path
):
    def run():
        return tg.analyze(odd, ODD_SUITE, repository=repo, spark=spark)

    run()
    spark.sql("INSERT INTO inc.odd VALUES (9, 'z', '2013-02-10', '00', 'New York')")
    assert dict(run().changes) == {"ds=2013-02-10/hr=00/country=New York": "new"}
    spark.sql("INSERT INTO inc.odd VALUES (9, 'z', '2013-02-10', '00', 'New York')")
    assert dict(run().changes) == {"ds=2013-02-10/hr=00/country=New York": "restated"}

    outside = tmp_path / "elsewhere"
    spark.createDataFrame([(1, "q"), (2, "q")], "x int, s string").write.parquet(
        str(outside / "one")
    )
    spark.sql(
        f"ALTER TABLE inc.odd ADD PARTITION (ds='2013-02-11', hr='00', country='x y') LOCATION '{outside}/one'"
    )
    assert dict(run().changes) == {"ds=2013-02-11/hr=00/country=x y": "new"}
    spark.createDataFrame([(1, "q")], "x int, s string").write.mode("append").parquet(
        str(outside / "one")
    )
    assert dict(run().changes) == {"ds=2013-02-11/hr=00/country=x y": "restated"}
    # The location changes, while the old files stay in the table's folder.
    shutil.copytree(outside / "one", outside / "two")
    spark.sql(
        "ALTER TABLE inc.odd PARTITION (ds='2013-02-10', hr='00', country='New York')"
        f" SET LOCATION '{outside}/two'"
    )
    assert dict(run().changes) == {"ds=2013-02-10/hr=00/country=New York": "restated"}
    sizes = repo.metrics("odd", name="Size").set_index("partition")["value"]
    assert sizes["ds=2013-02-10/hr=00/country=New York"] == 3.0
    assert sizes["ds=2013-02-11/hr=00/country=x y"] == 3.0

    shutil.copytree(outside / "one", outside / "kept")  # dropping also deletes the files
    spark.sql("ALTER TABLE inc.odd DROP PARTITION (ds='2013-02-11', hr='00', country='x y')")
    gone = run()
    assert gone.report.gone == ("ds=2013-02-11/hr=00/country=x y",)
    assert gone.report.scanned == 0
    ledger = repo.partitions("odd").set_index("partition")
    assert ledger["gone_at"].notna().sum() == 1
    assert len(repo.metrics("odd", name="Size")) == 6  # stored metrics are kept
    shutil.rmtree(outside / "one", ignore_errors=True)
    shutil.copytree(outside / "kept", outside / "one")
    spark.sql(
        f"ALTER TABLE inc.odd ADD PARTITION (ds='2013-02-11', hr='00', country='x y') LOCATION '{outside}/one'"
    )
    assert run().report.scanned == 0
    assert repo.partitions("odd")["gone_at"].isna().all()
    assert check(repo.database, repo.artifacts) == []


@pytest.mark.soak
def test_a_partition_without_files_is_measured_as_empty(spark, odd, repo, tmp_path):
    (tmp_path / "none").mkdir()
    spark.sql(
        f"ALTER TABLE inc.odd ADD PARTITION (ds='2013-03-01', hr='00', country='z') LOCATION '{tmp_path}/none'"
    )
    suite = tg.Suite("odd", [*SUITE, tg.Mean("s")])
    run = tg.analyze(odd, suite, repository=repo, spark=spark)
    empty = repo.metrics("odd", segment="country=z").set_index("name")
    assert empty.loc["Size", "value"] == 0.0
    assert empty.loc["Completeness", "status"] == "empty"
    assert sorted(empty.loc["Mean", "status"]) == ["empty", "failed"]
    assert run.report.scanned == 5
    assert tg.analyze(odd, suite, repository=repo, spark=spark).report.scanned == 0


@pytest.mark.classic
@pytest.mark.parametrize(
    "form",
    ["TEXTFILE", *(pytest.param(form, marks=pytest.mark.soak) for form in ("ORC", "PARQUET"))],
)
def test_tables_of_hives_own_formats_are_measured(spark, repo, form):
    name = f"inc.hive_{form.lower()}"
    spark.sql(
        f"CREATE TABLE {name} (x INT, s STRING) PARTITIONED BY (ds STRING, n INT) STORED AS {form}"
    )
    spark.sql(f"INSERT INTO {name} PARTITION (ds='2013-01-01', n=7) VALUES (1, 'a'), (NULL, 'b')")
    spark.sql(f"INSERT INTO {name} PARTITION (ds='2013-01-02', n=10) VALUES (3, 'a')")
    suite = tg.Suite(name, SUITE)
    run = tg.analyze(name, suite, repository=repo, spark=spark)
    assert set(run.changes) == {"ds=2013-01-01/n=7", "ds=2013-01-02/n=10"}
    assert sorted(repo.metrics(name, name="Completeness")["value"]) == [0.5, 1.0]
    assert tg.analyze(name, suite, repository=repo, spark=spark).report.scanned == 0
    spark.sql(f"INSERT INTO {name} PARTITION (ds='2013-01-02', n=10) VALUES (4, 'b')")
    run = tg.analyze(name, suite, repository=repo, spark=spark)
    assert dict(run.changes) == {"ds=2013-01-02/n=10": "restated"}


@pytest.mark.soak
def test_a_source_that_reads_too_much_is_measured_by_partition(spark, repo):
    class Generous(FrameSource):
        reads_exactly = False

        def read(self, partitions=None):
            return self.data

    rows = spark.sql("SELECT * FROM VALUES ('a', 1), ('b', 2), ('b', 3) AS t(ds, x)")
    suite = tg.Suite("generous", [tg.Size(), tg.Sum("x")])
    for name in ("ds=a", "ds=b"):
        tg.analyze(Generous(rows, ("ds",)), suite, repository=repo, partitions=[name])
    actual = repo.metrics("generous").set_index(["partition", "name"])["value"]
    assert actual["ds=a"].to_dict() == {"Size": 1, "Sum": 1}
    assert actual["ds=b"].to_dict() == {"Size": 2, "Sum": 5}


def test_an_integer_key_keeps_its_zero(spark, repo, tmp_path):
    """Hive may name a partition hr=07 although its column is an integer."""
    write = spark.createDataFrame([(1, "a")], "x int, s string").write
    for hour in ("07", "8"):
        write.mode("overwrite").parquet(f"{tmp_path}/t/ds=2013-01-01/hr={hour}")
    spark.sql(
        f"CREATE TABLE inc.hours (x INT, s STRING, ds STRING, hr INT) USING parquet PARTITIONED BY (ds, hr) LOCATION '{tmp_path}/t'"
    )
    spark.sql("MSCK REPAIR TABLE inc.hours")
    run = tg.analyze("inc.hours", tg.Suite("hours", SUITE), repository=repo, spark=spark)
    assert len(run.changes) == 2
    assert set(repo.metrics("hours", name="Size")["value"]) == {1.0}
    assert (
        tg.analyze(
            "inc.hours", tg.Suite("hours", SUITE), repository=repo, partitions="all", spark=spark
        ).report.scanned
        == 2
    )


def test_a_folder_of_partitions_is_measured(spark, repo, tmp_path):
    write_days(tmp_path / "d", 5)
    suite = tg.Suite("folder", SUITE)
    run = tg.analyze(str(tmp_path / "d"), suite, repository=repo, spark=spark)
    assert len(run.changes) == 5
    assert repo.partitions("folder")["time"].notna().all()
    assert tg.analyze(str(tmp_path / "d"), suite, repository=repo, spark=spark).report.scanned == 0
    write_days(tmp_path / "d", 1, dt.date(2001, 1, 1))
    os.utime(tmp_path / "d" / "ds=2000-01-02" / "part.parquet", (1, 1))
    run = tg.analyze(str(tmp_path / "d"), suite, repository=repo, spark=spark)
    # New files with the same content, which have other times, keep the version.
    assert dict(run.changes) == {"ds=2001-01-01": "new", "ds=2000-01-02": "unchanged"}
    assert set(repo.partitions("folder")["version"]) == {1}
    assert tg.analyze(str(tmp_path / "d"), suite, repository=repo, spark=spark).report.scanned == 0


def test_the_keys_of_a_csv_folder_stay_strings(spark, repo, tmp_path):
    for hour in ("07", "08"):
        (tmp_path / "c" / f"hr={hour}").mkdir(parents=True)
        (tmp_path / "c" / f"hr={hour}" / "a.csv").write_text("x,s\n1,a\n,b\n")
    run = tg.analyze(
        str(tmp_path / "c"),
        tg.Suite("csv", [tg.Size(), tg.Completeness("x")]),
        repository=repo,
        spark=spark,
        format="csv",
        options={"header": "true"},
    )
    assert set(run.changes) == {"hr=07", "hr=08"}
    assert set(repo.metrics("csv", name="Completeness")["value"]) == {0.5}


def test_an_unpartitioned_table_is_measured(spark, repo):
    spark.createDataFrame([(1, "a"), (2, "b")], "x int, s string").write.saveAsTable("inc.flat")
    suite = tg.Suite("flat", SUITE)
    assert dict(tg.analyze("inc.flat", suite, repository=repo, spark=spark).changes) == {"": "new"}
    assert repo.metrics("flat", name="Size")["value"].item() == 2.0
    assert tg.analyze("inc.flat", suite, repository=repo, spark=spark).report.scanned == 0
    spark.sql("INSERT INTO inc.flat VALUES (3, 'c')")
    assert dict(tg.analyze("inc.flat", suite, repository=repo, spark=spark).changes) == {
        "": "restated"
    }


def test_a_frame_has_no_fingerprint(spark, repo):
    frame = spark.createDataFrame(
        [(1, "a", "2013-01-01"), (2, "b", "2013-01-02")], "x int, s string, ds string"
    )
    suite = tg.Suite("frame", SUITE, ["ds"])
    assert set(tg.analyze(frame, suite, repository=repo).changes.values()) == {"new"}
    with pytest.warns(tg.SkippedWarning, match="all 2 partitions .* partitions='all'"):
        run = tg.analyze(frame, suite, repository=repo)
    assert (run.report.scanned, run.report.uncompared) == (0, 2)
    assert (
        str(run)
        == "frame: 0 partitions scanned, 2 skipped (known by name, without files to compare)"
    )
    more = tg.Suite("frame", [*SUITE, tg.Maximum("x")], ["ds"])
    assert set(tg.analyze(frame, more, repository=repo).changes.values()) == {"added"}
    assert set(repo.metrics("frame")["version"]) == {1}
    again = tg.analyze(frame, suite, repository=repo, partitions="all")
    assert set(again.changes.values()) == {"restated"}
    assert set(repo.metrics("frame")["version"]) == {2}
    frame.createOrReplaceTempView("frame_view")
    with pytest.warns(tg.SkippedWarning):
        tg.analyze("frame_view", suite, repository=repo, spark=spark)
    # A DataFrame may be a part of its table; a view is complete.
    part = frame.where("ds = '2013-01-02'")
    with pytest.warns(tg.SkippedWarning):
        assert tg.analyze(part, suite, repository=repo).report.gone == ()
    new = spark.createDataFrame([(3, "c", "2013-01-03")], frame.schema).union(part)
    assert str(tg.analyze(new, suite, repository=repo)).endswith(
        "1 new, 1 skipped (known by name, without files to compare)"
    )
    assert repo.partitions("frame")["gone_at"].isna().all()


def test_a_frame_without_partitions_is_measured_each_time(spark, repo):
    suite = tg.Suite("whole", [tg.Size()])
    for rows, change in ((3, "new"), (6, "restated"), (6, "restated")):
        run = tg.analyze(spark.range(rows), suite, repository=repo, tags={"rows": str(rows)})
        assert dict(run.changes) == {"": change}
    assert repo.metrics("whole")["value"].tolist() == [6]
    assert repo.metrics("whole", tags={"rows": "3"}).empty
    assert len(repo.versions("whole", "")) == 1
    assert repo.partitions("whole")["version"].tolist() == [3]


def test_a_frame_can_be_a_named_partition(spark, repo):
    suite = tg.Suite("daily", [tg.Size(), tg.ColumnCount()])
    for rows, day in ((3, "05"), (4, "06"), (5, "06")):
        partition = {"ds": f"2024-01-{day}"}
        run = tg.analyze(spark.range(rows), suite, repository=repo, partition=partition)
        assert run.report.gone == ()
    metrics = repo.metrics("daily", name="Size")
    assert list(zip(metrics["partition"], metrics["value"], metrics["version"], strict=True)) == [
        ("ds=2024-01-05", 3, 1),
        ("ds=2024-01-06", 5, 2),
    ]
    assert metrics["time"].dt.day.tolist() == [5, 6]
    assert repo.metrics("daily", name="ColumnCount")["value"].unique() == [2]


@pytest.mark.parametrize(
    ("table", "keys", "partition", "says"),
    [
        ("frame_view", None, {"ds": "1"}, "for a table, select partitions with partitions="),
        (None, None, {"ID": "1"}, "the data has a column 'ID' that identifies its partitions"),
        (None, ["ds"], {"hr": "1"}, "the suite is partitioned by ds: partition= names hr"),
    ],
)
def test_the_partition_of_a_frame_must_match_its_keys(spark, repo, table, keys, partition, says):
    suite = tg.Suite("d", [tg.Size()], keys)
    with pytest.raises(tg.SourceError, match=says):
        tg.analyze(table or spark.range(1), suite, repository=repo, partition=partition)


def test_a_change_of_a_table_in_an_expression_is_measured_again(spark, repo, tmp_path):
    write_days(tmp_path / "days", 2)
    limit = "inc.a_limit"
    below = tg.Compliance("below", f"x < (SELECT max(id) FROM {limit}) AND '{{' = '{{'")
    suite = tg.Suite("days", [below], partition_by=["ds"])

    def values(most):
        if most is not None:
            spark.range(most + 1).write.mode("overwrite").saveAsTable(limit)
        run = tg.analyze(str(tmp_path / "days"), suite, repository=repo, spark=spark)
        return run.report.scanned, repo.metrics("days")["value"].tolist()

    # x is 0, 1 and null on the first day, 1, 2 and null on the second
    assert values(1) == (2, pytest.approx([1 / 3, 0]))
    assert values(None) == (0, pytest.approx([1 / 3, 0]))
    assert values(2) == (2, pytest.approx([2 / 3, 1 / 3]))


def test_a_change_of_a_table_in_a_query_is_measured_again(spark, repo, tmp_path):
    """A table named like the query's own data is read by a filter, but not by the query."""
    write_days(tmp_path / "days", 2)
    limit = "inc.b_limit"
    spark.sql("USE inc")
    try:
        for table in ("data", limit):
            spark.range(2).write.mode("overwrite").saveAsTable(table)
        query = f"SELECT count(*) FROM DATA JOIN {limit} ON x = id"
        plain = tg.Suite("queried", [tg.CustomSql(query, "pairs")], partition_by=["ds"])
        filtered = tg.CustomSql(query, "pairs", where="x IN (SELECT id FROM data)")
        both = tg.Suite("filtered", [filtered], partition_by=["ds"])

        def run(suite):
            done = tg.analyze(str(tmp_path / "days"), suite, repository=repo, spark=spark)
            return done.report.scanned, repo.metrics(suite.dataset)["value"].tolist()

        # x is 0, 1 and null on the first day, 1, 2 and null on the second; both tables contain 0
        # and 1
        assert run(plain) == run(both) == (2, [2, 1])
        spark.range(1).write.mode("overwrite").saveAsTable("data")
        assert run(plain) == (0, [2, 1])
        assert run(both) == (2, pytest.approx([1, float("nan")], nan_ok=True))  # no rows are left
        spark.range(3).write.mode("overwrite").saveAsTable(limit)
        assert run(plain) == (2, [2, 2])
    finally:
        spark.sql("USE default")


def test_tags_of_runs_are_stored(spark, repo):
    frame = spark.createDataFrame([(1, "a", "2013-01-01")], "x int, s string, ds string")
    suite = tg.Suite("tagged", SUITE, ["ds"], tags={"team": "ops"})
    tg.analyze(frame, suite, repository=repo, tags={"env": "prod"})
    assert repo.runs("tagged")["tags"].tolist() == [{"team": "ops", "env": "prod"}]
    assert len(repo.metrics("tagged", tags={"env": "prod"})) == len(repo.metrics("tagged")) > 0
    assert repo.metrics("tagged", tags={"env": "test"}).empty


@pytest.mark.soak
def test_a_missing_column_fails_only_its_analyzers(spark, odd, repo):
    suite = tg.Suite("odd", [tg.Size(), tg.Mean("xx"), tg.Uniqueness("nope")])
    run = tg.analyze(odd, suite, repository=repo, spark=spark)
    assert run.status == "complete"
    assert {repr(a): str(e) for a, e in run.failed.items()} == {
        "Mean('xx')": "no column 'xx'; did you mean 'x'?",
        "Uniqueness('nope')": "no column 'nope'; there are: 'x', 's', 'ds', 'hr', 'country'",
    }
    stored = repo.metrics("odd")
    assert set(stored.loc[stored["status"] == "failed", "error"]) == {
        "NoSuchColumnError: no column 'xx'; did you mean 'x'?",
        "NoSuchColumnError: no column 'nope'; there are: 'x', 's', 'ds', 'hr', 'country'",
    }
    assert (stored[stored["name"] == "Size"]["status"] == "finite").all()
    assert tg.analyze(odd, suite, repository=repo, spark=spark).report.scanned == 0
    with pytest.raises(tg.HistoryError, match="has no state for 4 of 4 partitions|never measured"):
        repo.merge("odd", tg.Mean("xx"))


def test_one_invalid_value_affects_one_partition(spark, repo):
    rows = [("1", "2013-01-01"), ("bad", "2013-01-02"), ("3", "2013-01-03")]
    frame = spark.createDataFrame(rows, "s string, ds string")
    suite = tg.Suite("dirty", [tg.Size(where="CAST(s AS INT) > 0")], ["ds"])
    tg.analyze(frame, suite, repository=repo)
    assert list(repo.metrics("dirty")["status"]) == ["finite", "failed", "finite"]


@pytest.mark.soak
def test_the_time_key_must_be_a_partition_key(spark, odd, repo):
    suite = tg.Suite("odd", SUITE, time={"format": "%Y", "key": "year"})
    with pytest.raises(tg.PartitionColumnError, match="the time key 'year' is not a partition key"):
        tg.analyze(odd, suite, repository=repo, spark=spark)
    assert repo.datasets() == []
    suite = tg.Suite("odd", SUITE, time={"format": "%Y-%m-%d", "key": "DS"})
    tg.analyze(odd, suite, repository=repo, spark=spark)
    assert repo.partitions("odd")["time"].notna().all()


@pytest.mark.soak
def test_the_errors_for_invalid_tables(spark, odd, repo):
    def analyze(table, suite=ODD_SUITE, **kw):
        return tg.analyze(table, suite, repository=repo, spark=spark, **kw)

    with pytest.raises(tg.NoSuchTableError, match="no table 'inc.od'; did you mean 'inc.odd'"):
        analyze("inc.od")
    with pytest.raises(tg.NoSuchTableError, match="no database 'nope'"):
        analyze("nope.odd")
    with pytest.raises(tg.NoSuchTableError):
        analyze("select 1; --")
    with pytest.raises(tg.NoSuchTableError, match="no data files"):
        analyze("/no/such/folder")
    with pytest.raises(
        tg.PartitionColumnError, match="no partition column 'dss'.*did you mean 'ds'"
    ):
        analyze(odd, tg.Suite("odd", SUITE, ["dss"]))
    with pytest.raises(
        tg.PartitionColumnError, match="no partition column 'day': its columns are 'id'"
    ):
        analyze(spark.range(3), tg.Suite("odd", SUITE, ["day"]))
    assert repo.partitions("odd").empty, "failed starts are recorded, and nothing else"
    analyze(odd)
    spark.sql("CREATE TABLE IF NOT EXISTS inc.other AS SELECT 1 AS x, 'a' AS s")
    with pytest.raises(
        tg.DatasetMismatchError, match="holds the history of 'spark_catalog.inc.odd'"
    ):
        analyze("inc.other", tg.Suite("odd", SUITE))
    with pytest.raises(tg.DatasetMismatchError, match="was measured by"):
        analyze(odd, tg.Suite("odd", SUITE, ["ds"]))


@pytest.mark.soak
def test_a_renamed_table_continues_under_its_dataset(spark, odd, repo):
    tg.analyze(odd, ODD_SUITE, repository=repo, spark=spark)
    spark.sql("DROP TABLE IF EXISTS inc.renamed")
    spark.table(odd).write.partitionBy("ds", "hr", "country").saveAsTable("inc.renamed")
    with pytest.raises(tg.DatasetMismatchError, match="rename=True"):
        tg.analyze("inc.renamed", ODD_SUITE, repository=repo, spark=spark)
    run = tg.analyze("inc.renamed", ODD_SUITE, repository=repo, spark=spark, rename=True)
    assert set(run.changes.values()) == {"unchanged"}, "the rows are the same"
    with pytest.raises(tg.DatasetMismatchError):
        tg.analyze(odd, ODD_SUITE, repository=repo, spark=spark)


def test_both_ways_of_listing_files_give_the_same(spark, tmp_path):
    write_days(tmp_path / "New York %41" / "x=a%2Fb", 2)
    (tmp_path / "New York %41" / "_SUCCESS").touch()
    (tmp_path / "New York %41" / ".hidden.crc").touch()
    (tmp_path / "New York %41" / "uploading.parquet._COPYING_").touch()
    root = str(tmp_path / "New York %41")
    data = lambda found: {f for f in found if f.path.endswith(".parquet")}  # noqa: E731
    assert data(_list_by_arrow(root)) == data(_list_by_spark(spark, root))
    assert {f.path for f in list_files(spark, root)} == {
        f"x=a%2Fb/ds=2000-01-0{d}/part.parquet" for d in (1, 2)
    }


def test_a_failed_run_is_recorded_and_keeps_complete_batches(spark, tmp_path, repo, monkeypatch):
    from tidegauge.analyzers.runs import runner as incremental

    write_days(tmp_path / "d", 6)
    monkeypatch.setattr(incremental, "BATCH_BYTES", 1)  # one batch for each partition
    suite, measure = tg.Suite("d", SUITE), incremental._measure

    def lost(source, data, batch, *more):
        if batch[0].listed.partition.name == "ds=2000-01-04":
            raise RuntimeError("Job aborted due to stage failure: ExecutorLostFailure")
        return measure(source, data, batch, *more)

    monkeypatch.setattr(incremental, "_measure", lost)
    with pytest.raises(RuntimeError, match="ExecutorLost"):
        tg.analyze(str(tmp_path / "d"), suite, repository=repo, spark=spark, engine="spark")
    assert repo.runs("d")["status"].tolist() == ["failed"]
    assert sorted(repo.partitions("d")["partition"]) == [f"ds=2000-01-0{d}" for d in (1, 2, 3)]
    assert check(repo.database, repo.artifacts) == []
    monkeypatch.setattr(incremental, "_measure", measure)
    run = tg.analyze(str(tmp_path / "d"), suite, repository=repo, spark=spark)
    assert sorted(run.changes) == [f"ds=2000-01-0{d}" for d in (4, 5, 6)]
