"""Delta and Iceberg tables with the real packages: what each write changes, and what is recorded."""

import pytest
from tidegauge.analyzers.sources.catalog_tables import open_table

import tidegauge as tg

pytestmark = [pytest.mark.spark, pytest.mark.classic]

NAMES = {"delta": "spark_catalog.sales.orders", "iceberg": "lake.sales.orders"}
ROWS = "VALUES (1, 10.0, '2024-01-01'), (2, 20.0, '2024-01-01'), (3, 30.0, '2024-01-02')"
ONE, TWO, THREE = (f"ds=2024-01-0{day}" for day in (1, 2, 3))


@pytest.fixture(params=["delta", "iceberg"])
def table(request, spark):
    """A table of two days; its name."""
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
    """Measure what is new, and return the change of each partition that was scanned."""

    def run(name, *more):
        suite = tg.Suite("orders", [tg.Size(), tg.Sum("amount"), *more])
        done = tg.analyze(name, suite, repository=repo, spark=spark)
        assert not done.failed
        return {name: str(change) for name, change in done.changes.items()}

    return run


def sizes(repo, **options):
    frame = repo.metrics("orders", name="Size", **options)
    return dict(zip(frame["partition"], frame["value"], strict=True))


def test_what_each_write_changes(spark, table, measure, repo):
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


def test_a_partition_that_is_deleted_is_gone_and_comes_back(spark, table, measure, repo):
    measure(table)
    spark.sql(f"DELETE FROM {table} WHERE ds = '2024-01-02'")
    assert measure(table) == {}
    ledger = repo.store.ledger("orders")
    assert {name: entry.gone for name, entry in ledger.items()} == {ONE: False, TWO: True}


def test_compaction_is_no_change(spark, table, measure, repo):
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


def test_the_version_that_was_measured_is_recorded_and_read(spark, table, measure, repo):
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


def test_partitioning_that_evolved(spark, measure, repo):
    """Files of an older partition spec do not say what they hold: each partition is measured again."""
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


def test_hidden_partitions_are_no_keys(spark, measure, repo):
    """A table by days(at) has no column of days: it is measured whole, or by what a suite names."""
    spark.sql("CREATE DATABASE IF NOT EXISTS lake.sales")
    name = "lake.sales.hidden"
    spark.sql(f"DROP TABLE IF EXISTS {name}")
    spark.sql(
        f"CREATE TABLE {name} (id INT, amount DOUBLE, at TIMESTAMP, country STRING) USING iceberg"
        " PARTITIONED BY (days(at), country)"
    )
    spark.sql(
        f"INSERT INTO {name} VALUES (1, 1.0, TIMESTAMP'2024-01-01 10:00:00', 'DE'),"
        " (2, 2.0, TIMESTAMP'2024-01-02 10:00:00', 'FR')"
    )
    assert measure(name) == {"country=DE": "new", "country=FR": "new"}
    spark.sql(f"INSERT INTO {name} VALUES (3, 3.0, TIMESTAMP'2024-01-02 11:00:00', 'FR')")
    assert measure(name) == {"country=FR": "restated"}


@pytest.mark.parametrize("provider", ["delta", "iceberg"])
def test_names_with_dots_and_quotes(spark, repo, provider):
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
