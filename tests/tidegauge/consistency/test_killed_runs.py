"""Runs killed at random moments: the next run ends with the content of an undisturbed run."""

import json
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.conftest import soak
from tests.support.kills import kill, random_moments, start, wait_for

pytestmark = [pytest.mark.soak, pytest.mark.spark]

PREPARE = """
import sys
from tests.tidegauge.consistency.test_killed_runs import prepare
prepare(*sys.argv[1:])
"""
RUN = """
import sys
from tests.tidegauge.consistency.test_killed_runs import run
run(*sys.argv[1:])
"""
CLEAN = """
import sys
from tests.tidegauge.consistency.test_killed_runs import clean
clean(*sys.argv[1:])
"""
DUMP_LOGS = """
import sys
from tests.tidegauge.consistency.test_killed_runs import dump_logs
dump_logs(*sys.argv[1:])
"""
DUMP = """
import sys
from tests.tidegauge.consistency.test_killed_runs import dump
dump(*sys.argv[1:])
"""
# Without versions: a compaction that was killed after it merged files makes a day be measured again, with equal results.
ANOMALY = ("dataset", "partition", "name", "instance", "value", "severity", "status")
LATER = datetime(2023, 4, 6, tzinfo=UTC)
"""The day on which January 5, but not January 6, is past the retention of 90 days."""
SQL = "SELECT user, ts, CAST(user % 3 AS INT) AS n FROM logged_keys WHERE user <> 5"


def session(warehouse):
    import tidegauge as tg

    return tg.spark_session(warehouse)


def configuration(namespace):
    from tidegauge.consistency.configuration import Configuration, QueryBackfill

    mismatch = {"series": {"name": "Consistency.mismatch"}, "detector": "SimpleThreshold(0.5)"}
    return Configuration(
        namespace, "search", ("user",), QueryBackfill(SQL), dataset="d", monitors=(mismatch,)
    )


def prepare(warehouse, names):
    """Log the same two days of queries in several databases, in small files."""
    from tests.tidegauge.consistency.logged_queries import D5, DAY, HOUR, record
    from tidegauge.consistency.log.client import QueryLog
    from tidegauge.consistency.log.schemas import LogSchema
    from tidegauge.consistency.log.table import create_log_table, log_folder

    spark = session(warehouse)
    for name in names.split(","):
        spark.sql(f"CREATE DATABASE {name}").collect()
        create_log_table(spark, name)
        with QueryLog(log_folder(spark, name)) as log:
            log.register(
                LogSchema.from_schemas("search", record("K", user="long"), record("V", n="int"))
            )
            for i in range(60):
                at = D5 + i % 2 * DAY + i % 5 * HOUR + i
                log.log("search", {"user": i % 7}, {"n": i % 3}, ts_millis=at)
                if i % 10 == 9:
                    log.flush()


def ready_session(warehouse, ready):
    """Return a session, and create a file when it is ready."""
    spark = session(warehouse)
    spark.sql("SELECT 1").collect()
    with open(ready, "w") as file:
        file.write("ready")
    return spark


def clean(warehouse, name, ready):
    """Drop the first of the two days of a log, on the day when it is past the retention."""
    from tidegauge.consistency import clean

    done = clean(ready_session(warehouse, ready), name, LATER)
    assert done.dropped in ((), ("ds=2023-01-05/join_name=search",))


def dump_logs(warehouse, names, to):
    """Clean each log once more, and write the contents of its table and folder."""
    from tidegauge.consistency import clean
    from tidegauge.consistency.log.table import log_folder

    spark = session(warehouse)
    actual = {}
    for name in names.split(","):
        clean(spark, name, LATER)
        log = spark.table(f"{name}.query_logs")
        folder = log_folder(spark, name).removeprefix("file:")
        actual[name] = [
            sorted(str(row) for row in log.collect()),
            [row.partition for row in spark.sql(f"SHOW PARTITIONS {name}.query_logs").collect()],
            sorted(day.name for day in Path(folder).glob("ds=*") if any(day.rglob("*.*"))),
        ]
    with open(to, "w") as file:
        json.dump(actual, file)


def run(warehouse, name, url, ready):
    """Run a comparison and compact its log. Create a file when the session is ready."""
    import tidegauge as tg

    spark = ready_session(warehouse, ready)
    with tg.Repository(url) as repo:
        tg.consistency.run(configuration(name), repository=repo, spark=spark, until="2023-01-06")
        tg.consistency.compact(name, repository=repo, spark=spark)


def dump(warehouse, names, folder, to):
    """Run each comparison once more, and write the contents of its tables, log and history."""
    import tidegauge as tg

    spark = session(warehouse)
    actual = {}
    for name in names.split(","):
        with tg.Repository(f"sqlite:///{folder}/{name}.db") as repo:
            configured = configuration(name)
            tg.consistency.run(configured, repository=repo, spark=spark, until="2023-01-06")
            tg.consistency.compact(name, repository=repo, spark=spark)
            again = tg.consistency.run(configured, repository=repo, spark=spark, until="2023-01-06")
            facts = repo.metrics("d")[["partition", "name", "instance", "value"]]
            logs = repo.metrics("d.log")[["partition", "name", "instance", "value"]]
            anomalies = repo.anomalies()[[*ANOMALY]]
        tables = [
            sorted(str(row) for row in spark.table(f"{name}.search_{table}").collect())
            for table in ("logged", "comparison", "consistency_metrics")
        ]
        log = spark.table(f"{name}.query_logs")
        files = log.selectExpr("ds", "input_file_name()").distinct().groupBy("ds").count()
        read = [sorted(str(row) for row in one.collect()) for one in (log, files)]
        history = [
            sorted(map(str, frame.itertuples(index=False))) for frame in (facts, logs, anomalies)
        ]
        actual[name] = [*tables, *read, *history, list(again.compared), len(again.reports)]
    with open(to, "w") as file:
        json.dump(actual, file)


def run_to_end(code, *arguments):
    assert start(code, *arguments).wait(1200) == 0


def kill_all(names, command, folder):
    """Run the first process to its end, and kill the others at random moments after their sessions are ready."""

    def begin(name):
        ready = folder / f"{name}.ready"
        process = start(*command(name, ready))
        wait_for(ready, process)
        return process

    whole = begin(names[0])
    began = time.monotonic()
    assert whole.wait(600) == 0
    took = time.monotonic() - began
    draw, seed = random_moments()
    print(f"seed {seed}, {took:.2f} s from session to exit")
    for name in names[1:]:
        process = begin(name)
        time.sleep(draw.uniform(0, took))
        kill(process)


def test_a_run_killed_at_any_moment_is_completed_by_the_next(tmp_path):
    count = soak(3, 40)
    names = ["whole", *(f"k{i}" for i in range(count))]
    warehouse = tmp_path / "warehouse"
    run_to_end(PREPARE, warehouse, ",".join(names))

    kill_all(
        names,
        lambda name, ready: (RUN, warehouse, name, f"sqlite:///{tmp_path / name}.db", ready),
        tmp_path,
    )
    run_to_end(DUMP, warehouse, ",".join(names), tmp_path, tmp_path / "found.json")
    content = json.loads((tmp_path / "found.json").read_text())
    *_, log, files, facts, _, anomalies, compared, reports = content["whole"]
    assert (len(log), len(files), compared, reports) == (60, 2, [], 0)
    assert all("count=1" in one for one in files)
    assert 0 < len(anomalies) < len(facts)
    for name in names[1:]:
        for part, expected in zip(content[name], content["whole"], strict=True):
            assert part == expected, name


def test_a_cleaning_killed_at_any_moment_is_completed_by_the_next(tmp_path):
    names = ["whole", *(f"k{i}" for i in range(soak(2, 20)))]
    warehouse = tmp_path / "warehouse"
    run_to_end(PREPARE, warehouse, ",".join(names))
    kill_all(names, lambda name, ready: (CLEAN, warehouse, name, ready), tmp_path)
    run_to_end(DUMP_LOGS, warehouse, ",".join(names), tmp_path / "found.json")
    content = json.loads((tmp_path / "found.json").read_text())
    rows, partitions, folders = content["whole"]
    assert (len(rows), partitions, folders) == (
        30,
        ["ds=2023-01-06/join_name=search"],
        ["ds=2023-01-06"],
    )
    for name in names[1:]:
        assert content[name] == content["whole"], name
