"""Stage, validate, publish: tables and folders, partitions, quarantine, failures, leftovers, recording."""

import shutil
from pathlib import Path

import pytest

import tidegauge as tg
from tests.support.spark_actions import counted
from tidegauge.analyzers.core.errors import (
    PartitionColumnError,
    RuleError,
    SinkError,
    SourceError,
    SuiteError,
)
from tidegauge.analyzers.core.filesystems import delete_folder
from tidegauge.analyzers.sources import targets
from tidegauge.analyzers.sources.opening import check_disjoint_locations, parent_location
from tidegauge.analyzers.sources.targets import (
    FolderTarget,
)
from tidegauge.rules.judging import judge
from tidegauge.rules.verdicts import VerdictFiles

pytestmark = [pytest.mark.spark, pytest.mark.classic]  # counts actions or writes to Hive

ROWS = [(1, "2013-02-01"), (-1, "2013-02-01"), (2, "2013-02-02"), (-2, "2013-02-03"), (300, None)]
"""By day: one of two records is kept, one of one, none of one; and one record without a day is repaired."""
DQM = tg.DQM().add(tg.Rule("a > 0", "positive")).add(tg.Fix("a > 200", "a", 200, "cap"))
KEPT = [(1, "2013-02-01"), (2, "2013-02-02"), (200, None)]
STRICT = DQM.add(tg.FailTotalRuleCountPolicy(2))


@pytest.fixture(scope="module", autouse=True)
def database(spark):
    spark.sql("CREATE DATABASE IF NOT EXISTS pub")
    yield
    spark.sql("DROP DATABASE pub CASCADE")


@pytest.fixture(params=[pytest.param("table", marks=pytest.mark.soak), "folder"])
def place(request, spark, tmp_path):
    """Return the name of a table or a folder that does not exist yet."""
    if request.param == "folder":
        yield str(tmp_path / "clean")
        return
    yield "pub.clean"
    for table in spark.catalog.listTables("pub"):
        if table.isTemporary:  # a view of another test, listed in every database
            continue
        spark.sql(f"DROP TABLE pub.`{table.name}`")


def frame(spark, rows=ROWS):
    return spark.createDataFrame(rows, "a long, ds string")


def rows_of(data):
    rows = ((row["a"], None if row["ds"] is None else str(row["ds"])) for row in data.collect())
    return sorted(rows, key=str)


def read(spark, place):
    return spark.read.parquet(place) if "/" in place else spark.table(place)


def target_exists(spark, place):
    return Path(place).exists() if "/" in place else spark.catalog.tableExists(place)


def leftovers(spark, place):
    if "/" in place:
        return [p.name for p in Path(place).parent.iterdir() if "_tidegauge_" in p.name]
    return [t.name for t in spark.catalog.listTables("pub") if "_tidegauge_" in t.name]


def test_valid_records_are_published(spark, place):
    published = DQM.publish(frame(spark), place)
    assert rows_of(published.data) == rows_of(read(spark, place)) == sorted(KEPT, key=str)
    assert published.check.passed
    assert (published.state.records, published.state.rejects) == (5, 2)
    assert published.state.fix_count("cap") == 1
    assert [str(s) for s in published.state.samples if s.task == "positive"] != []
    assert leftovers(spark, place) == []


def test_a_failed_publication_changes_nothing(spark, place):
    with pytest.raises(tg.DQMError, match="2 of 5 records"):
        STRICT.publish(frame(spark), place)
    assert not target_exists(spark, place)
    DQM.publish(frame(spark, [(7, "2012-01-01")]), place)
    with pytest.raises(tg.DQMError):
        STRICT.publish(frame(spark), place)
    assert rows_of(read(spark, place)) == [(7, "2012-01-01")]
    assert leftovers(spark, place) == []


@pytest.mark.soak
def test_the_frame_is_computed_once(spark, place, tmp_path):
    from pyspark.sql import functions as F

    log = tmp_path / "computed"

    def touch(a):
        with open(log, "a") as file:
            file.write(f"{a}\n")
        return a

    seen = frame(spark).withColumn("a", F.udf(touch, "long")("a"))
    DQM.publish(seen, place, quarantine=f"{tmp_path}/bin")
    assert sorted(map(int, log.read_text().split())) == [-2, -1, 1, 2, 300]


def test_each_partition_is_replaced_separately(spark, place):
    DQM.publish(frame(spark), place, partition_by=["ds"])
    DQM.publish(frame(spark, [(5, "2013-02-02"), (6, "2013-02-04")]), place, mode="partitions")
    assert rows_of(read(spark, place)) == sorted(
        [(1, "2013-02-01"), (5, "2013-02-02"), (6, "2013-02-04"), (200, None)], key=str
    )
    # All records of a day are rejected, so the day is empty.
    DQM.publish(frame(spark, [(-5, "2013-02-02"), (8, "2013-02-05")]), place, mode="partitions")
    assert rows_of(read(spark, place)) == sorted(
        [(1, "2013-02-01"), (6, "2013-02-04"), (8, "2013-02-05"), (200, None)], key=str
    )
    DQM.publish(frame(spark, [(9, "2013-02-01")]), place, mode="append")
    assert rows_of(read(spark, place).where("ds = '2013-02-01'")) == [
        (1, "2013-02-01"),
        (9, "2013-02-01"),
    ]
    DQM.publish(frame(spark, [(3, "2013-02-09")]), place)
    assert rows_of(read(spark, place)) == [(3, "2013-02-09")]


@pytest.mark.soak
def test_a_hive_table_keeps_its_partitioning(spark):
    spark.sql("CREATE TABLE pub.old (a BIGINT) PARTITIONED BY (ds STRING) STORED AS TEXTFILE")
    DQM.publish(frame(spark, ROWS[:3]), "pub.old")
    assert rows_of(spark.table("pub.old")) == [(1, "2013-02-01"), (2, "2013-02-02")]
    DQM.publish(frame(spark, [(4, "2013-02-02")]), "pub.old")
    assert rows_of(spark.table("pub.old")) == [(4, "2013-02-02")]
    assert [r[0] for r in spark.sql("SHOW PARTITIONS pub.old").collect()] == ["ds=2013-02-02"]
    spark.sql("DROP TABLE pub.old")


@pytest.mark.soak
def test_a_table_can_be_written_from_itself(spark, place):
    DQM.publish(frame(spark), place)
    DQM.publish(read(spark, place).selectExpr("a + 1 AS a", "ds"), place)
    assert rows_of(read(spark, place)) == sorted(
        [(2, "2013-02-01"), (3, "2013-02-02"), (200, None)], key=str
    )


def test_leftovers_of_a_killed_run_are_replaced(spark, place):
    if "/" in place:
        left = Path(place).parent / "_tidegauge_staging_clean"
        left.mkdir()
        (left / "part-0.parquet").write_text("half a file")
    else:
        spark.sql("CREATE TABLE pub._tidegauge_staging_clean (x STRING) USING parquet")
    DQM.publish(frame(spark), place)
    assert rows_of(read(spark, place)) == sorted(KEPT, key=str)
    assert leftovers(spark, place) == []


def test_rejects_are_written_to_quarantine_whatever_the_verdict(spark, place, tmp_path):
    bin_ = str(tmp_path / "bin") if "/" in place else "pub.bin"
    options = {"partition_by": ["ds"], "quarantine": bin_, "mode": "partitions"}
    for _ in range(2):  # a second run does not write them twice
        with pytest.raises(tg.DQMError):
            STRICT.publish(frame(spark), place, **options)
        assert rows_of(read(spark, bin_)) == [(-1, "2013-02-01"), (-2, "2013-02-03")]
    assert {tuple(r["broken_rules"]) for r in read(spark, bin_).collect()} == {("positive",)}
    DQM.publish(frame(spark, [(1, "2013-02-01"), (-4, "2013-02-04")]), place, **options)
    assert rows_of(read(spark, bin_)) == [(-2, "2013-02-03"), (-4, "2013-02-04")]


@pytest.mark.soak
def test_applied_rejects_are_appended_or_replaced(spark, tmp_path):
    place = str(tmp_path / "bin")
    applied = DQM.apply(frame(spark), partition_by=["ds"])
    applied.quarantine(place)
    applied.quarantine(place)
    assert spark.read.parquet(place).count() == 4
    applied.quarantine(place, mode="partitions")
    assert rows_of(spark.read.parquet(place)) == [(-1, "2013-02-01"), (-2, "2013-02-03")]


@pytest.mark.soak
def test_policies_receive_the_kept_records(spark, place):
    def largest(data, state):
        return data.agg({"a": "max"}).first()[0] == 200 and data.count() == state.records - 2

    DQM.add(largest).publish(frame(spark), place)
    with pytest.raises(tg.DQMError, match="none"):
        DQM.add(tg.DQMPolicy(lambda data, state: data.count() == 0, "none")).publish(
            frame(spark), place
        )


@pytest.mark.soak
def test_a_rule_that_fails_on_the_data_is_named(spark, place):
    broken = tg.DQM().add(tg.Rule("100 / (a - 1) < 1000", "divides")).add(tg.Rule("a > 0", "pos"))
    with pytest.raises(tg.DQMError, match="divides"):
        broken.publish(frame(spark), place)
    assert not target_exists(spark, place)
    assert leftovers(spark, place) == []


def test_a_new_table_that_cannot_be_filled_is_removed(spark, place, monkeypatch):
    from pyspark.sql import DataFrameWriter

    plain = DataFrameWriter.insertInto

    def refuse(writer, name, overwrite=None):
        if "staging" not in name:
            raise OSError("disk full")
        return plain(writer, name, overwrite)

    def refuse_folder(writer, path):
        raise OSError("disk full")

    monkeypatch.setattr(DataFrameWriter, "insertInto", refuse)
    monkeypatch.setattr(DataFrameWriter, "parquet", refuse_folder)
    with pytest.raises(OSError, match="disk full"):
        DQM.publish(frame(spark), place)
    assert not target_exists(spark, place)
    assert leftovers(spark, place) == []


def refuse_to_rename(folder, to):
    raise OSError(18, "Invalid cross-device link")


def no_space(monkeypatch, stays):
    """Let all writes outside of the staging area fail, after Spark deleted the overwritten data."""
    from pyspark.sql import DataFrameWriter

    insert, parquet = DataFrameWriter.insertInto, DataFrameWriter.parquet

    def insert_nothing(writer, name, overwrite=None):
        if "staging" in name:
            return insert(writer, name, overwrite)
        insert(writer._df.where("false").write, name, overwrite)
        raise OSError("disk full")

    def write_nothing(writer, path):
        if "staging" in path or ("_next_" in path and not stays):
            return parquet(writer, path)
        parquet(writer._df.where("false").write.mode("overwrite"), path)
        raise OSError("disk full")

    monkeypatch.setattr(DataFrameWriter, "insertInto", insert_nothing)
    monkeypatch.setattr(DataFrameWriter, "parquet", write_nothing)


@pytest.mark.parametrize(
    ("where", "by", "stays"),
    [
        ("folder", [], True),
        ("folder", ["ds"], True),
        ("store", [], False),  # object stores cannot rename folders
        ("disks", [], False),  # nor can some file systems that look like local disks
        pytest.param("table", [], False, marks=pytest.mark.soak),
        pytest.param("table", ["ds"], False, marks=pytest.mark.soak),
    ],
)
def test_a_failed_overwrite_keeps_the_old_or_the_new_data(
    spark, tmp_path, monkeypatch, where, by, stays
):
    place = "pub.full" if where == "table" else str(tmp_path / "full disk")
    if where == "store":
        monkeypatch.setattr(targets, "can_rename_folder", lambda folder: False)
    if where == "disks":
        monkeypatch.setattr(targets, "rename_folder", refuse_to_rename)
    if where == "table":
        spark.sql("DROP TABLE IF EXISTS pub.full")
    DQM.publish(frame(spark, [(7, "2012-01-01")]), place, partition_by=by)
    with monkeypatch.context() as patched:
        no_space(patched, stays)
        with pytest.raises(Exception, match="disk full") as error:
            DQM.publish(frame(spark), place)
    if stays:
        assert type(error.value) is OSError
        assert rows_of(read(spark, place)) == [(7, "2012-01-01")]
        assert leftovers(spark, place) == []
    else:
        assert isinstance(error.value, SinkError)
        staging = "_tidegauge_staging_full"
        staged = f"`pub`.`{staging}`" if where == "table" else f"{tmp_path}/{staging} disk"
        assert f"{staged} until the next publication" in str(error.value)
        with pytest.raises(SourceError, match="the data is read from .*_tidegauge_staging_full"):
            DQM.publish(read(spark, staged.replace("`", "")).select("a", "ds"), place)
        assert rows_of(read(spark, staged).where("a > 0")) == sorted(KEPT, key=str)
    DQM.publish(frame(spark), place)
    assert rows_of(read(spark, place)) == sorted(KEPT, key=str)
    assert leftovers(spark, place) == []


def test_a_folder_renamed_by_a_killed_overwrite_is_restored(spark, tmp_path):
    place, previous = tmp_path / "clean", tmp_path / "_tidegauge_previous_clean"
    DQM.publish(frame(spark), str(place))
    place.rename(previous)
    with pytest.raises(tg.DQMError):
        STRICT.publish(frame(spark), str(place))
    assert rows_of(read(spark, str(place))) == sorted(KEPT, key=str)
    # Killed after and before the new folder got its name.
    shutil.copytree(place, previous)
    shutil.copytree(place, tmp_path / "_tidegauge_next_clean")
    DQM.publish(frame(spark, [(7, "2012-01-01")]), str(place), mode="append")
    assert rows_of(read(spark, str(place))) == sorted([*KEPT, (7, "2012-01-01")], key=str)
    assert leftovers(spark, str(place)) == []


def test_cached_frames_read_the_new_folder(spark, tmp_path):
    place = str(tmp_path / "clean")
    DQM.publish(frame(spark), place)
    cached = spark.read.parquet(place).cache()
    assert cached.count() == 3
    published = DQM.publish(frame(spark, [(7, "2012-01-01")]), place)
    assert rows_of(published.data) == rows_of(read(spark, place)) == [(7, "2012-01-01")]
    cached.unpersist()


def test_leftovers_of_a_killed_overwrite_are_not_mixed_in(spark, tmp_path):
    place, following = str(tmp_path / "clean"), str(tmp_path / "_tidegauge_next_clean")
    DQM.publish(frame(spark), place, partition_by=["ds"])
    frame(spark, [(66, "2012-12-12")]).write.partitionBy("ds").parquet(following)
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        DQM.publish(frame(spark), place)
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert rows_of(read(spark, place)) == sorted(KEPT, key=str)


def test_an_old_folder_that_cannot_be_deleted_is_reported(spark, tmp_path, monkeypatch):
    place = tmp_path / "clean"
    DQM.publish(frame(spark), str(place))

    def refuse(folder):
        if "previous" in folder and Path(folder).exists():
            raise PermissionError(1, "Operation not permitted")
        delete_folder(folder)

    monkeypatch.setattr(targets, "delete_folder", refuse)
    with pytest.warns(tg.LeftoverWarning, match="delete .*_tidegauge_previous_clean"):
        DQM.publish(frame(spark, [(7, "2012-01-01")]), str(place))
    DQM.publish(frame(spark, [(8, "2012-01-01")]), str(place))  # without renaming
    assert rows_of(read(spark, str(place))) == [(8, "2012-01-01")]


@pytest.mark.soak
def test_no_old_file_of_an_external_table_is_left(spark, tmp_path):
    place = tmp_path / "days"
    spark.sql(
        f"CREATE TABLE pub.outside (a BIGINT, ds STRING) USING parquet PARTITIONED BY (ds) LOCATION '{place}'"
    )
    DQM.publish(frame(spark, ROWS[:3]), "pub.outside")
    DQM.publish(frame(spark, [(4, "2013-02-02")]), "pub.outside")
    assert rows_of(read(spark, str(place))) == [(4, "2013-02-02")]
    spark.sql("DROP TABLE pub.outside")


def test_a_file_as_target_is_refused(spark, tmp_path):
    (tmp_path / "clean").write_text("x")
    with pytest.raises(SourceError, match="is a file"):
        DQM.publish(frame(spark), str(tmp_path / "clean"))


def test_a_folder_that_spark_writes_to_another_file_system_is_not_changed(spark, tmp_path):
    """For example a path without a scheme, if Spark's default file system is a cluster's."""
    place = tmp_path / "clean"
    DQM.publish(frame(spark), str(place))
    assert FolderTarget(spark, str(place))._replace_by(f"{tmp_path}/not-here") is False
    assert rows_of(read(spark, str(place))) == sorted(KEPT, key=str)


@pytest.mark.soak
def test_mismatched_data_is_refused_before_anything_is_read(spark, place):
    DQM.publish(frame(spark), place, partition_by=["ds"])
    cases = [
        (frame(spark).withColumnRenamed("a", "b"), {}, SourceError, "lacks a and also has b"),
        (
            frame(spark),
            {"partition_by": ["a"]},
            PartitionColumnError,
            "partitioned by ds, not by a",
        ),
        (frame(spark), {"mode": "replace"}, RuleError, "'partitions', not 'replace'"),
    ]
    with counted(spark) as actual:
        for data, options, error, text in cases:
            with pytest.raises(error, match=text):
                DQM.publish(data, place, **options)
    assert [e for e in actual if e["successJobIds"]] == []
    with pytest.raises(PartitionColumnError, match="did you mean 'ds'"):
        DQM.publish(frame(spark), f"{place}_new", partition_by=["dt"])
    with pytest.raises(RuleError, match="give partition_by="):
        DQM.publish(frame(spark), f"{place}_new", mode="partitions")


@pytest.mark.soak
def test_a_stored_failure_is_raised_without_reading(spark, place, tmp_path):
    source = str(tmp_path / "source")
    frame(spark).write.parquet(source)
    verdicts = VerdictFiles(str(tmp_path / "verdicts"))
    with pytest.raises(tg.DQMError):
        STRICT.publish(spark.read.parquet(source), place, verdicts=verdicts)
    again = spark.read.parquet(source)
    with counted(spark) as actual, pytest.raises(tg.DQMError, match="2 of 5 records"):
        STRICT.publish(again, place, verdicts=verdicts)
    assert [e for e in actual if e["successJobIds"]] == []


def test_counts_are_recorded_as_a_run(spark, repo):
    applied = DQM.apply(
        frame(spark), partition_by=["ds"], repository=repo, dataset="days", tags={"job": "nightly"}
    )
    metrics = repo.metrics("days", name="RuleRejects", instance="positive")
    assert dict(zip(metrics["partition"], metrics["value"], strict=True)) == {
        "ds=2013-02-01": 1.0,
        "ds=2013-02-02": 0.0,
        "ds=2013-02-03": 1.0,
        "ds=__HIVE_DEFAULT_PARTITION__": 0.0,
    }
    assert set(metrics["run_id"]) == {applied.run}
    (run,) = repo.runs("days").itertuples()
    assert (run.status, run.tags) == ("complete", {"job": "nightly"})
    # Equal data is the same version; other counts make a new version.
    DQM.apply(frame(spark), partition_by=["ds"], repository=repo, dataset="days")
    assert set(repo.partitions("days")["version"]) == {1}
    DQM.apply(
        frame(spark, [(-9, "2013-02-02")]), partition_by=["ds"], repository=repo, dataset="days"
    )
    versions = repo.partitions("days").set_index("partition")["version"]
    assert versions["ds=2013-02-02"] == 2
    assert versions["ds=2013-02-01"] == 1
    judged = judge(repo, "days", DQM.add(tg.FailTotalRuleCountPolicy(1)))
    assert {name for name, verdict in judged.items() if not verdict.passed} == {
        "ds=2013-02-01",
        "ds=2013-02-02",
        "ds=2013-02-03",
    }


@pytest.mark.soak
def test_recording_reads_no_additional_data(spark, repo, tmp_path):
    source = str(tmp_path / "source")
    frame(spark).write.parquet(source)
    data = spark.read.parquet(source)
    with counted(spark) as plain:
        DQM.apply(data)
    with counted(spark) as recorded:
        DQM.apply(data, repository=repo, dataset="whole")
    jobs = [sum(bool(e["successJobIds"]) for e in some) for some in (plain, recorded)]
    assert jobs[0] == jobs[1]
    (kept,) = repo.verdicts("whole").itertuples()
    assert (kept.partition, kept.passed) == ("", True)


def test_a_failed_publication_is_recorded(spark, repo, place):
    with pytest.raises(tg.DQMError):
        STRICT.publish(frame(spark), place, repository=repo, dataset="strict")
    metrics = repo.metrics("strict", name="RecordRules.rejected")
    assert metrics["value"].tolist() == [2.0]


def test_a_run_that_cannot_be_stored_is_closed_as_failed(spark, repo, monkeypatch):
    def refuse(*_):
        raise OSError("disk full")

    monkeypatch.setattr(repo.store, "commit_batch", refuse)
    with pytest.raises(OSError, match="disk full"):
        DQM.apply(frame(spark), repository=repo, dataset="days")
    assert repo.runs("days")["status"].tolist() == ["failed"]
    with pytest.raises(RuleError, match="together"):
        DQM.apply(frame(spark), repository=repo)


@pytest.mark.parametrize(
    "given",
    ["repository", *(pytest.param(g, marks=pytest.mark.soak) for g in ("verdicts", "nothing"))],
)
def test_a_failure_is_stored_once_and_raised_again(spark, repo, place, tmp_path, given):
    source = str(tmp_path / "in" / "source")
    frame(spark).write.parquet(source)
    options = {"repository": repo, "dataset": "strict"} if given != "nothing" else {}
    if given == "verdicts":
        options["verdicts"] = VerdictFiles(str(tmp_path / "verdicts"))
    with pytest.raises(tg.DQMError):
        STRICT.publish(spark.read.parquet(source), place, **options)
    again = spark.read.parquet(source)
    with counted(spark) as actual, pytest.raises(tg.DQMError, match="2 of 5 records"):
        STRICT.publish(again, place, **options)
    assert [e for e in actual if e["successJobIds"]] == []
    if given == "nothing":
        database = spark.catalog.getDatabase("pub").locationUri.removeprefix("file:")
        folder = Path(place).parent if "/" in place else Path(database)
        assert list(folder.glob("dqm.*.check"))  # next to tables of other tests
        return
    assert len(repo.runs("strict")) == 1
    (kept,) = repo.verdicts("strict").itertuples()
    assert kept.specification == STRICT.specification
    assert kept.run_id == repo.metrics("strict")["run_id"][0]
    # The same rules on the same data find the same verdict.
    STRICT.apply(spark.read.parquet(source), repository=repo, dataset="strict")
    assert len(repo.verdicts("strict")) == 1


def test_a_catalog_without_folders_stores_no_verdict_next_to_the_data(spark):
    assert parent_location(spark, "nowhere.clean") is None
    assert parent_location(spark, "nofs://host/lake/clean") is None


@pytest.mark.soak
def test_types_must_equal_those_of_the_target(spark, place):
    DQM.publish(frame(spark), place)
    text = frame(spark).selectExpr("CAST(a AS STRING) AS a", "ds")
    for mode in ("append", "overwrite"):
        with pytest.raises(SourceError, match="column 'a' is string, and bigint there"):
            DQM.publish(text, place, mode=mode)
    with pytest.raises(SourceError, match=r"column 'a' is decimal\(2,1\), and bigint there"):
        DQM.publish(spark.sql("SELECT 2.7 AS a, '2013-02-01' AS ds"), place, mode="append")
    assert rows_of(read(spark, place)) == sorted(KEPT, key=str)
    # Nullability and comments of columns do not matter.
    never = spark.sql("SELECT 5L AS a, '2013-02-01' AS ds")
    DQM.publish(never.withMetadata("a", {"unit": "s"}), place)
    assert rows_of(read(spark, place)) == [(5, "2013-02-01")]


@pytest.mark.soak
def test_types_of_quarantined_records_must_equal_those_of_the_target(spark, place, tmp_path):
    bin_ = str(tmp_path / "bin")
    DQM.publish(frame(spark), place, quarantine=bin_)
    narrow = frame(spark).selectExpr("CAST(a AS INT) AS a", "ds")
    with pytest.raises(SourceError, match="column 'a' is int, and bigint there"):
        DQM.publish(narrow, f"{place}_new", quarantine=bin_)
    with pytest.raises(SourceError, match="column 'a' is int, and bigint there"):
        DQM.apply(narrow).quarantine(bin_)


@pytest.mark.soak
def test_a_partition_column_can_differ_if_it_prints_the_same(spark):
    spark.sql("CREATE TABLE pub.typed (a BIGINT, ds STRING) USING parquet PARTITIONED BY (ds)")
    DQM.publish(spark.sql("SELECT 1L AS a, DATE'2013-02-01' AS ds"), "pub.typed")
    assert rows_of(spark.table("pub.typed")) == [(1, "2013-02-01")]
    spark.sql("CREATE TABLE pub.numbered (a BIGINT, hr BIGINT) USING parquet PARTITIONED BY (hr)")
    DQM.publish(spark.sql("SELECT 1L AS a, 7 AS hr"), "pub.numbered")
    with pytest.raises(SourceError, match="column 'hr' is string, and bigint there"):
        DQM.publish(spark.sql("SELECT 1L AS a, '07' AS hr"), "pub.numbered", mode="append")
    spark.sql("DROP TABLE pub.typed")
    spark.sql("DROP TABLE pub.numbered")


@pytest.mark.soak
@pytest.mark.parametrize("mode", ["overwrite", "partitions"])
def test_a_published_folder_reads_back(spark, tmp_path, mode):
    place = str(tmp_path / "clean")
    data = spark.createDataFrame([(1, "2013-02-01", "07")], "a long, ds string, hr string")
    published = DQM.publish(data, place, partition_by=["ds", "hr"], mode=mode)
    assert [tuple(row) for row in published.data.select("a", "ds", "hr").collect()] == [
        (1, "2013-02-01", "07")
    ]
    assert published.data.schema["ds"].dataType.simpleString() == "string"
    none = DQM.publish(
        data.selectExpr("-a AS a", "ds", "hr"),
        f"{place}_of_none",
        partition_by=["ds", "hr"],
        mode=mode,
    )
    assert none.data.columns == ["a", "ds", "hr"]
    assert none.data.count() == 0


def test_quarantine_and_target_must_differ(spark, place):
    again = f"file:{place}/" if "/" in place else place.upper()
    with pytest.raises(SuiteError, match="are the same location"):
        DQM.publish(frame(spark), place, quarantine=again)
    assert not target_exists(spark, place)


@pytest.mark.soak
def test_a_table_and_its_folder_are_the_same_location(spark):
    spark.sql("CREATE TABLE pub.here (a BIGINT) USING parquet")
    folder = spark.catalog.getDatabase("pub").locationUri + "/here"
    with pytest.raises(SuiteError, match="are the same location"):
        check_disjoint_locations({"table": "pub.here", "publish": folder}, spark)
    spark.catalog.setCurrentDatabase("pub")
    try:
        with pytest.raises(SuiteError, match="are the same location"):
            check_disjoint_locations({"table": "pub.here", "publish": "HERE"}, spark)
    finally:
        spark.catalog.setCurrentDatabase("default")
    check_disjoint_locations({"table": "pub.here", "publish": "here"}, spark)
    spark.sql("DROP TABLE pub.here")
