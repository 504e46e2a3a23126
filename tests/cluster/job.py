"""A job for a cluster.

It measures a table with all kinds of analyzers, checks it with rules and with a Griffin job, and
compares features, directly and by a configured run.

``job.py FOLDER DATABASE MASTER SETTINGS``: tests run it in a child process, because a process has
only one Spark. With the master ``local[2]`` the same job runs in one process.
"""

import json
import os
import sys


def main(folder: str, database: str, master: str, settings: str) -> None:
    """Run all parts, and print their results as one line of JSON."""
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master).config("spark.ui.enabled", "false")
    for key, value in json.loads(settings).items():
        builder = builder.config(key, value)
    builder = builder.config("spark.sql.session.timeZone", "UTC")
    builder = builder.config("spark.sql.warehouse.dir", os.path.abspath("warehouse"))
    spark = builder.config("spark.sql.shuffle.partitions", "2").enableHiveSupport().getOrCreate()
    import tidegauge as tg
    from tests.analyzers.measures.test_merging_flights import EVERY

    suite = tg.Suite("flights", EVERY, segments=[["origin"]])
    with tg.Repository(database, artifacts=f"{folder}/artifacts") as repository:
        run = tg.analyze(f"{folder}/flights", suite, repository=repository, spark=spark)
        actual = {"scanned": run.report.scanned, "failed": sorted(map(repr, run.failed))}
        actual["rules"] = judge(spark, folder)
        actual["consistency"] = compare(spark)
        actual["griffin"] = griffin(spark, folder)
        actual["pipeline"] = pipeline(spark, repository)
    print(json.dumps(actual))
    spark.stop()


def judge(spark, folder):
    """Return the counts of a SQL record rule, and of one with a Python function."""
    from pyspark.sql import functions as F

    import tidegauge as tg

    def odd(flight):
        return flight is not None and flight % 2 == 1

    data = spark.read.parquet(f"{folder}/flights")
    dqm = tg.DQM().add(tg.Rule("arr_delay <= 15", "on time"), tg.FailCount(10))
    dqm = dqm.add(tg.Rule(F.udf(odd, "boolean")("flight"), "odd"))
    applied = dqm.apply(data)
    return {name: applied.state.rule_count(name) for name in ("on time", "odd")} | {
        "kept": applied.data.count(),
        "passed": applied.check.passed,
    }


def compare(spark):
    """Return the mismatches of two tables that differ in a tenth of their rows."""
    from tidegauge.consistency.compare.comparison import compare

    logged = spark.range(1000).selectExpr("id", "id * 1000 AS ts", "id % 7 AS x", "id / 3D AS y")
    backfilled = logged.selectExpr("id", "ts", "IF(id % 10 = 0, -1, x) AS x", "y")
    frame = compare(logged, backfilled, ["id"], bucket_minutes=None, partition_by=()).metrics()
    rows = frame[frame.metric_name.isin(["mismatch", "total"])]
    return {f"{r.feature_name} {r.metric_name}": r.number for r in rows.itertuples()}


def griffin(spark, folder):
    """Return the metrics of a Griffin job: accuracy, profiling and uniqueness, in SQL and in its language."""
    import tidegauge as tg
    from tests.tidegauge.griffin.jobs import job, read, rule, values

    later = os.path.abspath("later")
    spark.read.parquet(f"{folder}/flights").where("day > 3").write.parquet(later)
    sources = [
        read(name, "file", {"format": "parquet", "paths": [path]})
        for name, path in (("src", f"{folder}/flights"), ("tgt", later))
    ]
    same = "src.flight = tgt.flight and src.carrier = tgt.carrier and src.time_hour = tgt.time_hour"
    rules = [
        rule(same, "accuracy", "acc"),
        rule("origin, count(*) as n from src group by origin", "profiling", "prof"),
        rule("tailnum", "uniqueness", "unique", details={"source": "src"}),
        rule("select count(*) as n, max(distance) as far from src", name="sql"),
    ]
    result = tg.griffin.run({}, job(sources, rules), spark=spark)
    return {name: values(result, name) for name in ("acc", "prof", "unique", "sql")}


def pipeline(spark, repository):
    """Return the mismatches that a configured consistency run stores."""
    from tests.tidegauge.consistency import test_pipeline as t
    from tidegauge.consistency import pipeline as configured
    from tidegauge.consistency.log.client import QueryLog
    from tidegauge.consistency.log.schemas import LogSchema
    from tidegauge.consistency.log.table import create_log_table, log_folder

    spark.sql("CREATE DATABASE serving")
    create_log_table(spark, "serving")
    with QueryLog(log_folder(spark, "serving"), query_source="web") as log:
        log.register(LogSchema.from_schemas("search", t.KEY, t.VALUE))
        t.two_days(log)
    t.make_offline(spark)
    configured.run(spark, t.conf("serving"), repository, until="2023-01-06")
    metric = t.metric(repository, "mismatch", "serving.search")
    return {" ".join(key): value for key, value in sorted(metric.items())}


if __name__ == "__main__":
    main(*sys.argv[1:])
