"""Tables on S3 in a Hive Metastore service: listing, changes, states and artifacts."""

import pytest

import tidegauge as tg
from tidegauge.analyzers.sources import sources

pytestmark = [pytest.mark.spark, pytest.mark.postgres]


@pytest.fixture
def table(spark, bucket):
    """A table of three partitions, one with a name that needs escaping."""
    spark.sql(f"CREATE DATABASE IF NOT EXISTS lake LOCATION 's3a://{bucket}/lake'")
    spark.sql(
        "CREATE TABLE lake.orders (id INT, amount DOUBLE) PARTITIONED BY (ds STRING) STORED AS PARQUET"
    )
    spark.sql("SET hive.exec.dynamic.partition.mode=nonstrict")
    spark.sql(
        "INSERT INTO lake.orders VALUES (1, 1.0, 'a'), (2, 2.0, 'a'), (3, 3.0, 'b'), (4, 4.0, 'x y/z=%')"
    )
    yield "lake.orders"
    spark.sql("DROP DATABASE lake CASCADE")


def measure(spark, table, repository, *more):
    suite = tg.Suite("orders", [tg.Size(), tg.Sum("amount"), *more])
    run = tg.analyze(table, suite, repository=repository, spark=spark)
    assert not run.failed
    return {name: str(change) for name, change in run.changes.items()}


def test_only_new_and_changed_partitions_are_measured(spark, table, bucket, repo):
    odd = "ds=x y/z=%"
    assert measure(spark, table, repo) == {"ds=a": "new", "ds=b": "new", odd: "new"}
    assert measure(spark, table, repo) == {}
    spark.sql("INSERT INTO lake.orders VALUES (5, 5.0, 'b'), (6, 6.0, 'c'), (7, 7.0, 'x y/z=%')")
    assert measure(spark, table, repo) == {"ds=b": "restated", "ds=c": "new", odd: "restated"}
    spark.sql("ALTER TABLE lake.orders DROP PARTITION (ds='a')")
    spark.range(3).selectExpr("CAST(id AS INT) AS id", "1.0D AS amount").write.parquet(
        f"s3a://{bucket}/elsewhere"
    )
    spark.sql(f"ALTER TABLE lake.orders ADD PARTITION (ds='d') LOCATION 's3a://{bucket}/elsewhere'")
    assert measure(spark, table, repo) == {"ds=d": "new"}
    values = repo.metrics("orders", name="Size").set_index("partition")["value"].to_dict()
    assert values == {"ds=a": 2.0, "ds=b": 2.0, "ds=c": 1.0, "ds=d": 3.0, odd: 2.0}


def test_arrow_and_spark_list_the_same_files(spark, table, bucket):
    root = f"s3a://{bucket}/lake/orders"
    actual = [file for file in sources._list_by_arrow(root) if file.path != "_SUCCESS"]
    by_arrow = sorted(actual, key=lambda f: f.path)
    by_spark = sorted(sources._list_by_spark(spark, root), key=lambda f: f.path)
    assert len(by_arrow) >= 3
    assert [f.path for f in by_arrow] == [f.path for f in by_spark]
    assert [f.size for f in by_arrow] == [f.size for f in by_spark]
    assert sources.fingerprint(by_arrow) == sources.fingerprint(by_spark)


def test_states_and_artifacts_on_the_same_store(spark, table, bucket, postgres):
    data = spark.range(60_000).selectExpr("uuid() AS key", "'one' AS ds")
    with tg.Repository(postgres.database(), artifacts=f"s3a://{bucket}/artifacts") as repository:
        suite = tg.Suite("keys", [tg.Uniqueness("key")], partition_by=["ds"])
        tg.analyze(data, suite, repository=repository, spark=spark)
        assert repository.artifacts.files(), "the frequencies are too large for the database"
        merged = repository.merge("keys", tg.CountDistinct("key"))
        assert merged.value == 60_000
    states = tg.FileSystemStateProvider(f"s3a://{bucket}/states")
    frame = spark.table(table)
    tg.Size().calculate(frame, save_states_with=states)
    assert tg.Size().load_state_and_compute_metric(states).value == 4.0
