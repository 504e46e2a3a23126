"""Griffin's measures in suites, incrementally by partition."""

import pytest

import tidegauge as tg
from tidegauge.griffin.measures.keys import GriffinUniqueness
from tidegauge.griffin.measures.rows import GriffinAccuracy

pytestmark = pytest.mark.spark


@pytest.fixture
def tables(spark):
    spark.sql("CREATE DATABASE IF NOT EXISTS measures")
    rows = [(1, "2020-01-01"), (2, "2020-01-01"), (2, "2020-01-02")]
    frame = spark.createDataFrame(rows, "id int, ds string")
    frame.write.partitionBy("ds").saveAsTable("measures.users", mode="overwrite")
    other = spark.createDataFrame([(2,)], "id int")
    other.write.saveAsTable("measures.known", mode="overwrite")
    yield
    spark.sql("DROP DATABASE measures CASCADE")


def test_only_new_partitions_are_measured_and_a_changed_target_changes_all(spark, tables, repo):
    rules = [
        GriffinAccuracy("acc", "source.id = target.id", target="measures.known"),
        GriffinUniqueness("ids", "id"),
    ]
    suite = tg.Suite("users", rules)

    def analyze():
        return tg.analyze("measures.users", suite, repository=repo, spark=spark)

    def missing():
        frame = repo.metrics("users", name="Griffin.acc.miss")
        return dict(zip(frame.partition.map(str), frame.value, strict=True))

    assert analyze().report.scanned == 2
    assert sorted(missing().values()) == [0.0, 1.0]
    assert analyze().report.scanned == 0
    spark.sql("INSERT INTO measures.users PARTITION (ds = '2020-01-03') VALUES (3), (4), (2)")
    assert analyze().report.scanned == 1
    assert sorted(missing().values()) == [0.0, 1.0, 2.0]
    spark.sql("INSERT INTO measures.known VALUES (1), (3)")
    run = analyze()
    # All partitions are measured again. The day without misses has the same content.
    assert sorted(map(str, run.changes.values())) == ["restated", "restated", "unchanged"]
    assert sorted(missing().values()) == [0.0, 0.0, 1.0]
    whole = repo.metrics("users", name="Griffin.ids.unique")
    assert sorted(whole.value) == [1.0, 2.0, 3.0]
