"""Delta and Iceberg tables with the real packages: the effect of each write, and its records."""

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

import tidegauge as tg
from tests.analyzers.columnar.test_equality import RecordingStore, assert_same
from tests.docs.pages import blocks, blocks_run_by
from tests.paths import ROOT
from tidegauge.analyzers.columnar.engines import MeasuringEngine, Route
from tidegauge.analyzers.runs.ledger import RunSpec
from tidegauge.analyzers.runs.runner import run_incremental
from tidegauge.analyzers.sources import table_formats
from tidegauge.analyzers.sources.opening import open_folder, open_table
from tidegauge.cli.main import run_command
from tidegauge.griffin.connectors.files import FileConnector

pytestmark = [pytest.mark.spark, pytest.mark.classic]

NAMES = {"delta": "spark_catalog.sales.orders", "iceberg": "lake.sales.orders"}
ROWS = "VALUES (1, 10.0, '2024-01-01'), (2, 20.0, '2024-01-01'), (3, 30.0, '2024-01-02')"
ONE, TWO, THREE = (f"ds=2024-01-0{day}" for day in (1, 2, 3))


@pytest.fixture(params=["delta", "iceberg"])
def table(request, spark):
    """Create a table of two days; return its name."""
    name = NAMES[request.param]
    spark.sql(f"CREATE DATABASE IF NOT EXISTS {name.rpartition('.')[0]}")
    spark.sql(f"DROP TABLE IF EXISTS {name}")
    spark.sql(
        f"CREATE TABLE {name} (id INT, amount DOUBLE, ds STRING) USING {request.param}"
        " PARTITIONED BY (ds)"
    )
    spark.sql(f"INSERT INTO {name} {ROWS}")
    yield name
    spark.sql(f"DROP TABLE IF EXISTS {name}")


@pytest.fixture
def measure(spark, repo):
    """Measure the changed partitions, and return the change of each partition that was scanned."""

    def run(name, *more):
        suite = tg.Suite("orders", [tg.Size(), tg.Sum("amount"), *more])
        done = tg.analyze(name, suite, repository=repo, spark=spark)
        assert not done.failed
        return {name: str(change) for name, change in done.changes.items()}

    return run


def sizes(repo, **options):
    frame = repo.metrics("orders", name="Size", **options)
    return dict(zip(frame["partition"], frame["value"], strict=True))


def test_each_write_changes_its_partitions(spark, table, measure, repo):
    assert measure(table) == {ONE: "new", TWO: "new"}
    assert measure(table) == {}
    spark.sql(f"INSERT INTO {table} VALUES (4, 40.0, '2024-01-02'), (5, 50.0, '2024-01-03')")
    assert measure(table) == {TWO: "restated", THREE: "new"}
    spark.sql(f"DELETE FROM {table} WHERE id = 2")
    assert measure(table) == {ONE: "restated"}
    spark.sql(f"UPDATE {table} SET amount = 31.0 WHERE id = 3")
    assert measure(table) == {TWO: "restated"}
    spark.sql(
        f"MERGE INTO {table} t USING (SELECT * FROM VALUES (1, 11.0, '2024-01-01'),"
        " (6, 60.0, '2024-01-03') AS v(id, amount, ds)) s ON t.id = s.id AND t.ds = s.ds"
        " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    assert measure(table) == {ONE: "restated", THREE: "restated"}
    spark.sql(f"INSERT OVERWRITE {table} SELECT 7, 70.0, '2024-01-01'")
    frame = repo.metrics("orders", name="Sum").set_index("partition")["value"]
    assert frame.to_dict() == {ONE: 11.0, TWO: 71.0, THREE: 110.0}
    assert ONE in measure(table)
    assert sizes(repo)[ONE] == 1.0


def test_a_deleted_partition_is_recorded_as_gone_and_can_return(spark, table, measure, repo):
    measure(table)
    spark.sql(f"DELETE FROM {table} WHERE ds = '2024-01-02'")
    assert measure(table) == {}
    ledger = repo.store.ledger("orders")
    assert {name: entry.gone for name, entry in ledger.items()} == {ONE: False, TWO: True}


def test_compaction_is_not_a_change(spark, table, measure, repo):
    for number in range(4, 8):
        spark.sql(f"INSERT INTO {table} VALUES ({number}, 1.0, '2024-01-02')")
    spark.sql(f"INSERT INTO {table} VALUES (9, 9.0, '2024-01-01')")
    measure(table)
    before = repo.metrics("orders")
    if table.startswith("lake"):
        spark.sql(
            "CALL lake.system.rewrite_data_files(table => 'sales.orders', options => map('min-input-files', '2'))"
        )
    else:
        spark.sql(f"OPTIMIZE {table}")
    assert measure(table) == {}
    spark.sql(f"INSERT INTO {table} VALUES (10, 1.0, '2024-01-02')")
    assert measure(table) == {TWO: "restated"}, "the other was only compacted"
    assert repo.metrics("orders", name="Size", until="2024-01-01").equals(
        before[(before["name"] == "Size") & (before["partition"] == ONE)].reset_index(drop=True)
    )
    assert measure(table) == {}


def compact(spark, table):
    if table.startswith("lake"):
        options = "map('min-input-files', '1', 'rewrite-all', 'true')"
        spark.sql(
            f"CALL lake.system.rewrite_data_files(table => 'sales.orders', options => {options})"
        )
    else:
        spark.sql(f"OPTIMIZE {table}")


def forget_history(spark, table):
    """Remove old snapshots and files, and for Delta the log before the newest checkpoint."""
    if table.startswith("lake"):
        spark.sql(
            "CALL lake.system.expire_snapshots(table => 'sales.orders',"
            " older_than => TIMESTAMP'2100-01-01', retain_last => 1)"
        )
        return
    spark.sql(f"VACUUM {table} RETAIN 0 HOURS")
    log = Path(spark.sql(f"DESCRIBE DETAIL {table}").first().location.removeprefix("file:"))
    checkpoints = sorted((log / "_delta_log").glob("*.checkpoint.parquet"))
    for commit in (log / "_delta_log").glob("*.json"):
        if checkpoints and commit.name[:20] < checkpoints[-1].name[:20]:
            commit.unlink()


def test_compaction_and_a_shortened_log_read_nothing(spark, table, measure, repo):
    if table.startswith("spark"):
        spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.checkpointInterval' = '1')")
    spark.sql(f"INSERT INTO {table} VALUES (4, 1.0, '2024-01-02'), (5, 9.0, '2024-01-01')")
    measure(table)
    compact(spark, table)
    assert measure(table) == {}
    forget_history(spark, table)
    assert measure(table) == {}
    spark.sql(f"INSERT INTO {table} VALUES (6, 1.0, '2024-01-03')")
    forget_history(spark, table)
    assert measure(table) == {THREE: "new"}
    assert set(repo.partitions("orders")["version"]) == {1}


def test_other_files_with_the_same_rows_keep_the_version(spark, table, measure, repo):
    """This holds whatever the log contains: equal rows may overwrite a partition, or the table may be loaded again."""
    measure(table)
    spark.sql(f"INSERT OVERWRITE {table} SELECT * FROM {table}")
    assert measure(table) == {ONE: "unchanged", TWO: "unchanged"}
    assert measure(table) == {}
    columns = "(id INT, amount DOUBLE, ds STRING)"
    provider = "iceberg" if table.startswith("lake") else "delta"
    spark.sql(f"DROP TABLE {table}")
    spark.sql(f"CREATE TABLE {table} {columns} USING {provider} PARTITIONED BY (ds)")
    spark.sql(f"INSERT INTO {table} {ROWS}, (4, 1.0, '2024-01-02')")
    assert measure(table) == {ONE: "unchanged", TWO: "restated"}
    versions = repo.partitions("orders").set_index("partition")["version"]
    assert versions.to_dict() == {ONE: 1, TWO: 2}


EVOLUTION = {
    "delta": (
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
        "ALTER TABLE {t} RENAME COLUMN big TO large",
        "ALTER TABLE {t} ADD COLUMNS (late INT)",
        "ALTER TABLE {t} DROP COLUMN gone",
        "ALTER TABLE {t} ALTER COLUMN day FIRST",
    ),
    "iceberg": (
        "ALTER TABLE {t} RENAME COLUMN big TO large",
        "ALTER TABLE {t} ADD COLUMNS (late INT)",
        "ALTER TABLE {t} DROP COLUMN gone",
        "ALTER TABLE {t} ALTER COLUMN day FIRST",
        "ALTER TABLE {t} ALTER COLUMN small TYPE BIGINT",
    ),
}
KEEPING_FILES = {
    "delta": "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
    "iceberg": "ALTER TABLE {t} SET TBLPROPERTIES"
    " ('format-version' = '2', 'write.delete.mode' = 'merge-on-read')",
}
"""Statements after which a deletion writes delete files or deletion vectors, here in two of four partitions."""
COLUMNS = (
    "id INT, big BIGINT, x DOUBLE, f FLOAT, price DECIMAL(9,2), s STRING, day DATE, at TIMESTAMP, small INT,"
    " gone INT, st STRUCT<a: INT, b: ARRAY<STRING>>, ds STRING"
)
RANDOM_ROWS = (
    "SELECT CAST(id AS INT) AS id, if(id % 5 = 0, NULL, id * 1000000007) AS big,"
    " CASE id % 7 WHEN 0 THEN double('NaN') WHEN 1 THEN -0.0D WHEN 2 THEN NULL ELSE id / 3D END AS x,"
    " CAST(if(id % 2 = 0, id, -0.0) AS FLOAT) AS f, CAST(id / 4 AS DECIMAL(9,2)) AS price,"
    " if(id % 3 = 0, NULL, concat('a text that is longer than sixteen ', id % 4)) AS s,"
    " date_add(DATE'2020-01-01', CAST(id AS INT)) AS day,"
    " timestamp_micros(1577836800123456 + id * 1001) AS at, CAST(id AS INT) AS small, 1 AS gone,"
    " named_struct('a', CAST(id AS INT), 'b', array('x')) AS st,"
    " nullif(concat('2024-01-0', 1 + id % 4), '2024-01-04') AS ds FROM range({start}, {end}, 1, 2)"
)


def test_both_engines_give_the_same_states(spark, table, monkeypatch):
    kind = "iceberg" if table.startswith("lake") else "delta"
    spark.sql(f"DROP TABLE {table}")
    spark.sql(f"CREATE TABLE {table} ({COLUMNS}) USING {kind} PARTITIONED BY (ds)")
    spark.sql(f"INSERT INTO {table} {RANDOM_ROWS.format(start=0, end=40)}")
    for statement in EVOLUTION[kind]:
        spark.sql(statement.format(t=table))
    spark.sql(
        f"INSERT INTO {table} (id, large, x, s, day, late, ds) SELECT id, big, x, s, day, small, ds"
        f" FROM ({RANDOM_ROWS.format(start=40, end=70)})"
    )

    def listed():
        source = open_table(spark, table)
        return {e.partition: e for e in source.list_partitions()}, source.version

    by_log = listed()
    with monkeypatch.context() as context:
        context.setattr(table_formats, "open_log", lambda read: None)
        assert listed() == by_log
    for statement in (KEEPING_FILES[kind], "DELETE FROM {t} WHERE id IN (3, 50)"):
        spark.sql(statement.format(t=table))
    numbers = ("id", "large", "x", "f", "price", "small", "late")
    suite = [
        tg.Size(),
        *(tg.Completeness(c) for c in (*numbers, "s", "day", "at", "st", "ds")),
        *(analyzer(c) for c in numbers for analyzer in (tg.Minimum, tg.Maximum, tg.Sum)),
        *(tg.MaxTime(c) for c in ("day", "at")),
        *(tg.DataType(c) for c in ("id", "s", "price")),
        tg.ApproxCountDistinct("s"),
        tg.Uniqueness("small"),
    ]

    def measured(engine):
        store, source = RecordingStore(), open_table(spark, table)
        report = run_incremental(
            source, RunSpec("d", table, source.keys), suite, store, engine=engine
        )
        return store.measured, report.routes, source.version

    own, routes, version = measured(MeasuringEngine.AUTO)
    monkeypatch.setattr(table_formats, "open_log", lambda read: None)
    reference, by_spark, version_by_spark = measured(MeasuringEngine.SPARK)
    assert set(by_spark) == {Route.SPARK}
    assert routes[Route.METADATA] >= 2 * 15, "of two partitions without deleted rows"
    assert routes[Route.COLUMNS] > 0
    assert version == version_by_spark
    assert len(reference) == 4
    assert own.keys() == reference.keys()
    for name, expected in reference.items():
        parts = ("schema", "rows", "fingerprint", "arrived_at")
        assert [getattr(own[name], p) for p in parts] == [getattr(expected, p) for p in parts]
        outcomes = {m.analyzer: m.outcome for m in own[name].measurements}
        for measurement in expected.measurements:
            try:
                assert_same(outcomes[measurement.analyzer], measurement.outcome)
            except AssertionError as error:
                raise AssertionError(f"{name} {measurement.analyzer}: {error}") from error


def test_the_measured_version_is_recorded_and_read(spark, table, measure, repo):
    measure(table)
    source = open_table(spark, table)
    source.list_partitions()
    spark.sql(f"INSERT INTO {table} VALUES (4, 40.0, '2024-01-02')")
    assert source.read().count() == 3, "what was listed is what is read"
    assert open_table(spark, table).read().count() == 4
    tags = repo.runs("orders")["tags"].iloc[0]
    assert tags["source_version"] == source.version
    kind, number = source.version.split()[:2]
    assert kind == ("iceberg" if table.startswith("lake") else "delta")
    rows = spark.sql(f"SELECT count(*) FROM {table} VERSION AS OF {number}").collect()
    assert rows[0][0] == 3


def test_a_delta_table_is_read_by_its_folder(spark, repo, tmp_path):
    """Its log is used, however it is written.

    Removed files do not count, and compaction is not a change.
    """
    folder = str(tmp_path / "odd dir" / "or`ders")
    frame = spark.sql(
        f"SELECT id, double(amount) AS amount, ds FROM {ROWS} AS v(id, amount, ds)"
    ).coalesce(1)
    frame.write.format("delta").partitionBy("ds").save(folder)
    quoted = folder.replace("`", "``")
    suite = tg.Suite("orders", [tg.Size(), tg.Uniqueness(("id",))])

    def changes(name, **options):
        run = tg.analyze(name, suite, repository=repo, spark=spark, **options)
        return {name: str(change) for name, change in run.changes.items()}

    assert changes(folder) == {ONE: "new", TWO: "new"}
    for name in (folder, f"delta.`{quoted}`"):
        assert changes(name, format="delta", rename=True) == {}
    more = spark.sql("SELECT 4 AS id, 4.0D AS amount, '2024-01-02' AS ds")
    more.write.format("delta").mode("append").save(folder)
    assert changes(folder, rename=True) == {TWO: "restated"}
    spark.sql(f"OPTIMIZE delta.`{quoted}`")
    assert changes(folder) == {}
    assert sizes(repo) == {ONE: 2.0, TWO: 2.0}
    check = tg.Suite("facts", [tg.ReferentialIntegrity("id", f"delta.`{quoted}`")])
    tg.analyze(folder, check, repository=repo, spark=spark)
    assert repo.metrics("facts")["value"].tolist() == [1.0, 1.0]
    with pytest.raises(tg.TableFormatError, match="is inside the Delta table"):
        changes(f"{folder}/ds=2024-01-01")
    with pytest.raises(tg.TableFormatError, match="contains the Delta table"):
        changes(str(tmp_path))
    with pytest.raises(tg.TableFormatError):
        open_table(spark, f"parquet.`{quoted}`")
    with pytest.raises(tg.SourceError, match="versionAsOf"):
        changes(folder, options={"versionAsOf": "0"})
    connector = FileConnector({"paths": [folder], "format": "parquet"})
    assert connector.batch(spark).count() == 4


def test_the_error_for_an_iceberg_folder_names_the_table(spark):
    spark.sql("CREATE DATABASE IF NOT EXISTS lake.sales")
    spark.sql("DROP TABLE IF EXISTS lake.sales.by_folder")
    spark.sql(
        "CREATE TABLE lake.sales.by_folder USING iceberg PARTITIONED BY (ds)"
        f" AS SELECT * FROM {ROWS} AS v(id, amount, ds)"
    )
    location = open_table(spark, "lake.sales.by_folder").location
    for part in ("", "/data", "/data/ds=2024-01-01"):
        with pytest.raises(tg.TableFormatError, match="write `table: lake.sales.by_folder`"):
            open_folder(spark, f"{location}{part}")
    spark.sql("DROP TABLE lake.sales.by_folder")


def test_a_restored_version_is_measured_again(spark, table, measure, repo):
    measure(table)
    version = repo.runs("orders")["tags"].iloc[0]["source_version"].split()[1]
    spark.sql(f"INSERT INTO {table} VALUES (4, 40.0, '2024-01-02')")
    assert measure(table) == {TWO: "restated"}
    if table.startswith("lake"):
        spark.sql(f"CALL lake.system.rollback_to_snapshot('sales.orders', {version})")
    else:
        spark.sql(f"RESTORE TABLE {table} TO VERSION AS OF {version}")
    assert measure(table) == {TWO: "restated"}
    assert sizes(repo) == {ONE: 2.0, TWO: 1.0}


def test_a_new_column_is_measured_before_anything_is_written(spark, table, measure, repo):
    measure(table)
    spark.sql(f"ALTER TABLE {table} ADD COLUMNS (note STRING)")
    assert set(measure(table, tg.Completeness("note"))) == {ONE, TWO}
    spark.sql(f"INSERT INTO {table} VALUES (9, 9.0, '2024-01-01', 'x')")
    assert measure(table, tg.Completeness("note")) == {ONE: "restated"}
    frame = repo.metrics("orders", name="Completeness").set_index("partition")["value"]
    assert frame[ONE] == pytest.approx(1 / 3)


def test_many_versions_are_read_from_checkpoints(spark, table, measure):
    measure(table)
    for number in range(12):  # Delta writes a checkpoint every ten
        spark.sql(f"INSERT INTO {table} VALUES ({number}, 1.0, '2024-01-03')")
    assert measure(table) == {THREE: "new"}
    assert measure(table) == {}


def test_partitioning_that_evolved_is_measured_again(spark, measure, repo):
    """Files of an older partition spec do not store the new partition, so each partition is measured again."""
    spark.sql("CREATE DATABASE IF NOT EXISTS lake.sales")
    name = "lake.sales.evolved"
    spark.sql(f"DROP TABLE IF EXISTS {name}")
    spark.sql(f"CREATE TABLE {name} (id INT, amount DOUBLE, ds STRING) USING iceberg")
    spark.sql(f"INSERT INTO {name} {ROWS}")
    assert measure(name) == {"": "new"}
    spark.sql(f"ALTER TABLE {name} ADD PARTITION FIELD ds")
    spark.sql(f"INSERT INTO {name} VALUES (4, 40.0, '2024-01-03')")
    other = tg.Suite("evolved", [tg.Size()])
    run = tg.analyze(name, other, repository=repo, spark=spark)
    assert {n: str(c) for n, c in run.changes.items()} == {ONE: "new", TWO: "new", THREE: "new"}
    frame = repo.metrics("evolved", name="Size").set_index("partition")["value"]
    assert frame.to_dict() == {ONE: 2.0, TWO: 1.0, THREE: 1.0}
    assert not tg.analyze(name, other, repository=repo, spark=spark).changes


def test_daily_partitions_continue_when_a_table_is_partitioned_by_hours(spark, measure, repo):
    """Old files have days and new ones hours. Both are listed by days without opening a file."""
    name = "lake.sales.finer"
    spark.sql("CREATE DATABASE IF NOT EXISTS lake.sales")
    spark.sql(f"DROP TABLE IF EXISTS {name}")
    spark.sql(
        f"CREATE TABLE {name} (amount DOUBLE, at TIMESTAMP) USING iceberg PARTITIONED BY (days(at))"
    )
    rows = "(1.0, TIMESTAMP'2026-01-17 23:30:00'), (2.0, TIMESTAMP'2026-01-18 10:00:00')"
    spark.sql(f"INSERT INTO {name} VALUES {rows}")

    def run(dataset="finer", **options):
        suite = tg.Suite(dataset, [tg.Size(), tg.Sum("amount")], **options)
        done = tg.analyze(name, suite, repository=repo, spark=spark)
        assert not done.failed
        return {name: str(change) for name, change in done.changes.items()}

    days = {"at_day=2026-01-17": "new", "at_day=2026-01-18": "new"}
    assert run() == days
    spark.sql(f"ALTER TABLE {name} REPLACE PARTITION FIELD days(at) WITH hours(at)")
    with pytest.raises(tg.DatasetMismatchError, match=r"write partition_by: \[at_day\]"):
        run()
    assert run(partition_by=["at_day"]) == {}
    more = (
        "(4.0, TIMESTAMP'2026-01-18 11:00:00'), (8.0, TIMESTAMP'2026-01-19 00:00:00'), (16.0, NULL)"
    )
    spark.sql(f"INSERT INTO {name} VALUES {more}")
    assert run(partition_by=["days(at)"]) == {
        "at_day=2026-01-18": "restated",
        "at_day=2026-01-19": "new",
        f"at_day={NONE}": "new",
    }
    sums = repo.metrics("finer", name="Sum").set_index("partition")["value"].to_dict()
    assert sums == {
        "at_day=2026-01-17": 1.0,
        "at_day=2026-01-18": 6.0,
        "at_day=2026-01-19": 8.0,
        f"at_day={NONE}": 16.0,
    }
    assert run("months", partition_by=["months(at)"]) == {
        "at_month=2026-01": "new",
        f"at_month={NONE}": "new",
    }
    assert run("years", partition_by=["at_year"]) == {
        "at_year=2026": "new",
        f"at_year={NONE}": "new",
    }
    with pytest.raises(tg.PartitionColumnError, match="no partition column 'minutes\\(at\\)'"):
        run("minutes", partition_by=["minutes(at)"])


def test_a_field_of_a_struct_can_be_a_partition(spark, repo):
    name = "lake.sales.nested"
    spark.sql("CREATE DATABASE IF NOT EXISTS lake.sales")
    spark.sql(f"DROP TABLE IF EXISTS {name}")
    spark.sql(
        f"CREATE TABLE {name} (st STRUCT<c: STRING, n: INT>, amount DOUBLE) USING iceberg"
        " PARTITIONED BY (st.c)"
    )
    rows = "(named_struct('c', 'DE', 'n', 1), 1.0), (named_struct('c', 'FR', 'n', 2), 2.0)"
    spark.sql(f"INSERT INTO {name} VALUES {rows}")
    for number, keys in enumerate((None, ["st.c"])):
        suite = tg.Suite(f"nested{number}", [tg.Sum("amount")], partition_by=keys)
        run = tg.analyze(name, suite, repository=repo, spark=spark)
        assert sorted(run.changes) == ["st.c=DE", "st.c=FR"]
        assert run.metrics()["value"].tolist() == [1.0, 2.0]


def test_partitions_with_equal_names_are_refused(spark, repo):
    name = "lake.sales.binary"
    spark.sql("CREATE DATABASE IF NOT EXISTS lake.sales")
    spark.sql(f"DROP TABLE IF EXISTS {name}")
    spark.sql(f"CREATE TABLE {name} (k BINARY, a DOUBLE) USING iceberg PARTITIONED BY (k)")
    spark.sql(f"INSERT INTO {name} VALUES (X'FF', 1.0), (X'FE', 2.0)")
    with pytest.raises(
        tg.PartitionColumnError, match=r"two partitions have the name .*partition_by"
    ):
        tg.analyze(name, tg.Suite("b", [tg.Size()]), repository=repo, spark=spark)
    suite = tg.Suite("whole", [tg.Size()], partition_by=[])
    assert tg.analyze(name, suite, repository=repo, spark=spark).metrics()["value"].tolist() == [
        2.0
    ]


@pytest.fixture
def hidden(spark):
    """Create an Iceberg table partitioned by the days of a time and by buckets of a number; return its name."""
    name = "lake.sales.hidden"
    spark.sql("CREATE DATABASE IF NOT EXISTS lake.sales")
    spark.sql(f"DROP TABLE IF EXISTS {name}")
    spark.sql(
        f"CREATE TABLE {name} (id INT, amount DOUBLE, at TIMESTAMP, day DATE, local TIMESTAMP_NTZ,"
        " country STRING) USING iceberg PARTITIONED BY (days(at), bucket(4, id))"
    )
    spark.sql(
        f"INSERT INTO {name} VALUES"
        " (1, 1.0, TIMESTAMP'2026-01-17 23:30:00', DATE'2026-01-17', TIMESTAMP_NTZ'1969-12-31 23:00:00', 'DE'),"
        " (2, 2.0, TIMESTAMP'2026-01-18 10:00:00', DATE'2026-02-01', TIMESTAMP_NTZ'2026-01-17 10:00:00', 'FRA'),"
        " (3, 4.0, NULL, NULL, NULL, NULL)"
    )
    yield name
    spark.sql(f"DROP TABLE IF EXISTS {name}")


NONE = "__HIVE_DEFAULT_PARTITION__"


def test_hidden_partitions_are_keys(spark, hidden, repo):
    """The default is the whole partition spec; a suite can select some keys by name or as transforms."""

    def measure(dataset, **options):
        suite = tg.Suite(dataset, [tg.Size(), tg.Sum("amount")], **options)
        run = tg.analyze(hidden, suite, repository=repo, spark=spark)
        assert not run.failed
        return {name: str(change) for name, change in run.changes.items()}

    expected = {"at_day=2026-01-17": "new", "at_day=2026-01-18": "new", f"at_day={NONE}": "new"}
    assert measure("days", partition_by=["days(at)"]) == expected
    assert measure("named", partition_by=["AT_DAY"]) == expected
    assert measure("whole", partition_by=[]) == {"": "new"}
    buckets = {1: 0, 2: 0, 3: 3}
    assert measure("all") == {
        f"at_day={day}/id_bucket={buckets[id]}": "new"
        for id, day in ((1, "2026-01-17"), (2, "2026-01-18"), (3, NONE))
    }
    times = repo.partitions("days")["time"].dropna()
    assert [str(time) for time in times] == [
        "2026-01-17 00:00:00+00:00",
        "2026-01-18 00:00:00+00:00",
    ]
    spark.sql(
        f"INSERT INTO {hidden} VALUES (4, 8.0, TIMESTAMP'2026-01-18 11:00:00', NULL, NULL, NULL)"
    )
    assert measure("days", partition_by=["days(at)"]) == {"at_day=2026-01-18": "restated"}
    sums = repo.metrics("days", name="Sum").set_index("partition")["value"]
    assert sums.to_dict() == {
        "at_day=2026-01-17": 1.0,
        "at_day=2026-01-18": 10.0,
        f"at_day={NONE}": 4.0,
    }
    with pytest.raises(tg.PartitionColumnError, match=r"by 'at_day' \(days\(at\)\)"):
        measure("wrong", partition_by=["at"])


@pytest.mark.parametrize(
    ("transform", "expected"),
    [
        ("hours(at)", {"2026-01-17-23": 1, "2026-01-18-10": 1, NONE: 1}),
        ("months(at)", {"2026-01": 2, NONE: 1}),
        ("years(day)", {"2026": 2, NONE: 1}),
        ("months(day)", {"2026-01": 1, "2026-02": 1, NONE: 1}),
        ("days(local)", {"1969-12-31": 1, "2026-01-17": 1, NONE: 1}),
        ("hours(local)", {"1969-12-31-23": 1, "2026-01-17-10": 1, NONE: 1}),
        ("truncate(2, country)", {"DE": 1, "FR": 1, NONE: 1}),
        ("truncate(2, id)", {"0": 1, "2": 2}),
    ],
)
def test_each_transform_lists_and_reads_the_same_rows(spark, hidden, transform, expected):
    name = "lake.sales.transformed"
    spark.sql(f"DROP TABLE IF EXISTS {name}")
    spark.sql(
        f"CREATE TABLE {name} USING iceberg PARTITIONED BY ({transform}) AS SELECT * FROM {hidden}"
    )
    source = open_table(spark, name, [transform])
    listed = [entry.partition for entry in source.list_partitions()]
    assert {p.values[0] for p in listed} == set(expected)
    counted = {p.values[0]: source.read([p]).count() for p in listed}
    assert counted == expected
    form = source.time_format
    if form is not None:
        assert all((form.time_of(p) is None) == (p.values[0] == NONE) for p in listed)
    spark.sql(f"DROP TABLE {name}")


def test_only_the_selected_hidden_partitions_are_read(spark, hidden):
    source = open_table(spark, hidden)
    partitions = {e.partition.values: e.partition for e in source.list_partitions()}
    data = source.read([partitions["2026-01-18", "0"]])
    plan = data._jdf.queryExecution().executedPlan().toString()
    assert "at >= 1768694400000000, at < 1768780800000000" in plan
    assert "bucket[4](id)" in plan
    assert [row.id for row in data.collect()] == [2]


def test_hidden_partitions_with_user_defined_names_and_a_spec_that_evolved(spark, hidden, repo):
    name = "lake.sales.evolved_hidden"
    spark.sql(f"DROP TABLE IF EXISTS {name}")
    spark.sql(f"CREATE TABLE {name} USING iceberg AS SELECT * FROM {hidden}")
    spark.sql(f"ALTER TABLE {name} ADD PARTITION FIELD days(at) AS opened")
    spark.sql(f"INSERT INTO {name} SELECT * FROM {hidden} WHERE id = 1")
    suite = tg.Suite("evolved", [tg.Size()])
    run = tg.analyze(name, suite, repository=repo, spark=spark)
    assert set(run.changes) == {"opened=2026-01-17", "opened=2026-01-18", f"opened={NONE}"}
    sizes = repo.metrics("evolved", name="Size").set_index("partition")["value"]
    assert sizes.to_dict() == {
        "opened=2026-01-17": 2.0,
        "opened=2026-01-18": 1.0,
        f"opened={NONE}": 1.0,
    }
    assert not tg.analyze(name, suite, repository=repo, spark=spark).changes
    spark.sql(f"DROP TABLE {name}")


def test_branches_and_tags_can_be_measured_as_tables(spark, hidden, repo):
    """Write, audit, publish: a branch is measured before its rows are on the main branch."""
    suite = tg.Suite("audit", [tg.Size()], partition_by=["at_day"])
    row = "TIMESTAMP'2026-01-19 10:00:00'"

    def measure(name, dataset="audit"):
        run = tg.analyze(
            name, replace(suite, dataset=dataset), repository=repo, spark=spark, rename=True
        )
        return {name: str(change) for name, change in run.changes.items()}

    spark.sql(f"ALTER TABLE {hidden} CREATE BRANCH audit")
    spark.sql(f"ALTER TABLE {hidden} CREATE TAG eod")
    spark.sql(f"INSERT INTO {hidden}.branch_audit VALUES (9, 9.0, {row}, NULL, NULL, NULL)")
    assert "at_day=2026-01-19" in measure(f"{hidden}.branch_audit")
    assert measure(f"{hidden}.branch_audit") == {}
    assert "at_day=2026-01-19" not in measure(f"{hidden}.tag_eod", "tagged")
    assert "at_day=2026-01-19" not in measure(hidden, "main")
    spark.sql(f"INSERT INTO {hidden}.branch_audit VALUES (8, 8.0, {row}, NULL, NULL, NULL)")
    assert measure(f"{hidden}.branch_audit") == {"at_day=2026-01-19": "restated"}
    assert measure(f"{hidden}.tag_eod", "tagged") == {}
    assert measure(hidden, "main") == {}
    with pytest.raises(
        tg.NoSuchTableError, match=r"has no branch 'adit' \(there are: audit, main\)"
    ):
        measure(f"{hidden}.branch_adit", "none")
    files = tg.analyze(
        f"{hidden}.files", tg.Suite("files", [tg.Size()]), repository=repo, spark=spark
    )
    assert files.metrics()["value"].tolist() == [3.0]


def test_an_audited_branch_is_published_as_documented(spark, tmp_path, monkeypatch, capsys):
    """The statements, the suite file and the command of the page; bad rows stay on the branch."""
    actual = blocks(ROOT / "docs" / "deployment.md")
    write, command, publish = (block.code for block in blocks_run_by(__file__))
    (suite,) = (block.code for block in actual if "branch_audit" in block.code and block.check)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "suites").mkdir()
    (tmp_path / "suites" / "orders_audit.yml").write_text(suite)
    name = "lake.sales.orders"
    spark.sql("CREATE DATABASE IF NOT EXISTS lake.sales")
    spark.sql("CREATE DATABASE IF NOT EXISTS staging")
    for table in (name, "staging.orders"):
        spark.sql(f"DROP TABLE IF EXISTS {table}")
    columns = "id INT, amount DOUBLE, at TIMESTAMP"
    spark.sql(f"CREATE TABLE {name} ({columns}) USING iceberg PARTITIONED BY (days(at))")
    spark.sql(f"INSERT INTO {name} VALUES (1, 1.0, TIMESTAMP'2026-01-17 10:00:00')")

    def run(statements):
        for statement in filter(str.strip, statements.split(";")):
            spark.sql(statement)

    def audit(rows):
        spark.sql("DROP VIEW IF EXISTS staging.orders")
        spark.sql(f"CREATE VIEW staging.orders AS SELECT * FROM VALUES {rows} AS v(id, amount, at)")
        run(write)
        status = run_command([*shlex.split(command)[1:], "--db", "sqlite:///audit.db"])
        return status, capsys.readouterr().out

    status, printed = audit("(2, -2.0, TIMESTAMP'2026-01-18 10:00:00')")
    assert status == 2
    assert "at_day=2026-01-18" in printed
    assert spark.table(name).count() == 1
    status, printed = audit("(2, 2.0, TIMESTAMP'2026-01-18 10:00:00')")
    assert status == 0
    run(publish)
    assert [row.amount for row in spark.table(name).orderBy("id").collect()] == [1.0, 2.0]
    status, printed = audit("(3, 3.0, TIMESTAMP'2026-01-19 10:00:00')")
    assert status == 0
    assert "1 partition scanned, 1 new" in printed, "published days are not read again"
    spark.sql("DROP VIEW staging.orders")
    spark.sql(f"DROP TABLE {name}")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("lake.nowhere.t", r"no database 'lake.nowhere' \(there are: .*sales"),
        ("lake.sales", r"it is a database \(its tables: .*hidden"),
        ("lake", r"it is a catalog \(its databases: .*sales"),
        ("nolake.sales.t", "no catalog 'nolake'"),
        ("lake.hidden", "'lake' is a catalog; add a database: lake.sales.hidden"),
        ("lake.sales.hiden", "did you mean 'lake.sales.hidden'"),
        ("{table}.fils", "lake.sales.hidden is a table, not a database"),
        ("{table}.branch_x", r"lake.sales.hidden has no branch 'x' \(there are: main\)"),
        ("{table}.tag_x", "lake.sales.hidden has no tag 'x'$"),
        (
            "{table}.snapshot_id_123",
            r"lake.sales.hidden has no snapshot 123 \(the newest: \d+ of 2",
        ),
        ("{table}.at_timestamp_5", "lake.sales.hidden has no snapshot of that time"),
        ("spark_catalog.nowhere.t", "no database 'spark_catalog.nowhere'"),
        ("default", "it is a database"),
    ],
)
def test_the_error_for_an_invalid_table_name_points_to_the_wrong_part(spark, hidden, name, message):
    with pytest.raises(tg.NoSuchTableError, match=message):
        open_table(spark, name.format(table=hidden))


def test_a_hidden_partition_is_not_a_column(spark, hidden, repo):
    columns = "id INT, amount DOUBLE, at TIMESTAMP, day DATE, local TIMESTAMP_NTZ, country STRING"
    suite = tg.Suite(
        "columns",
        [
            tg.ColumnCount(),
            tg.ColumnExists("at_day"),
            tg.SchemaMatch(columns, extra=False),
            tg.DuplicateRowCount(),
            tg.Completeness("at_day"),
        ],
        partition_by=["at_day"],
    )
    run = tg.analyze(hidden, suite, repository=repo, spark=spark, partitions="at_day=2026-01-17")
    assert run.metrics()["value"].dropna().tolist() == [6.0, 0.0, 0.0, 0.0]
    (error,) = run.failed.values()
    assert "at_day" not in str(error).partition("there are")[2]
    assert "at_day" not in str(tg.profile(hidden, spark=spark).suite.analyzers)


@pytest.mark.parametrize("provider", ["delta", "iceberg"])
def test_names_can_contain_dots_and_quotes(spark, repo, provider):
    catalog = "lake" if provider == "iceberg" else "spark_catalog"
    database = "`sales.eu`" if provider == "iceberg" else "sales_eu"
    table = "`or.ders``x`" if provider == "iceberg" else "or_ders"
    name = f"{catalog}.{database}.{table}"
    spark.sql(f"CREATE DATABASE IF NOT EXISTS {catalog}.{database}")
    spark.sql(f"DROP TABLE IF EXISTS {name}")
    spark.sql(
        f"CREATE TABLE {name} (id INT, `a.b` DOUBLE, `d``s` STRING) USING {provider} PARTITIONED BY (`d``s`)"
    )
    spark.sql(f"INSERT INTO {name} {ROWS}")
    suite = tg.Suite("odd", [tg.Size(), tg.Sum("`a.b`")])
    run = tg.analyze(name, suite, repository=repo, spark=spark)
    assert set(run.changes) == {"d`s=2024-01-01", "d`s=2024-01-02"}
    assert not run.failed
    assert not tg.analyze(name, suite, repository=repo, spark=spark).changes
    spark.sql(f"DROP TABLE {name}")


def test_a_catalog_is_watched_by_its_logs(spark, repo, table):
    """A catalog of Iceberg has no views to list."""
    catalog, database, _ = table.split(".")

    def watched():
        result = tg.watch(f"{catalog}.{database}.orders", repository=repo, spark=spark)
        assert not result.failed
        return [(t.dataset, str(t.coverage)) for t in result.tables]

    assert watched() == [("sales.orders", "measured")]
    spark.sql(f"INSERT INTO {table} VALUES (4, NULL, '2024-01-03')")
    assert watched() == [("sales.orders", "measured")]
    assert watched() == [("sales.orders", "unchanged")]
    sizes = repo.metrics("sales.orders", name="Size")
    assert dict(zip(sizes["partition"], sizes["value"], strict=True)) == {
        ONE: 2,
        TWO: 1,
        "ds=2024-01-03": 1,
    }
    nulls = repo.metrics("sales.orders", name="Completeness", instance="amount")
    assert nulls["value"].tolist() == [1, 1, 0]
    spark.sql(f"DROP TABLE {table}")
    assert watched() == [("sales.orders", "not seen")]
