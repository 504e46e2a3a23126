"""Our scan against the same aggregations written by hand as one ``groupBy(ds).agg(...)``.

Both run in one session, in turns, after one round to warm up; what counts is the ratio of the
medians. The flights are the demonstration's table; the wide table is made here: 100 columns of
numbers, 600,000 rows in all, in 30 partitions.

    python benchmarks/scan.py [--rounds 5] [--rows 600000] [--columns 100] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

from pyspark.sql import functions as F
from rich.console import Console
from rich.table import Table

import tidegauge as tg
from tidegauge.analyzers.core.schema import Schema
from tidegauge.analyzers.scan.scan import plan, scan
from tidegauge.demo.flights import demo_suite, make_table


def by_hand(data, analyzers):
    """One job: every distinct aggregation of the analyzers, grouped by the day."""
    schema = Schema.from_spark(data.schema)
    asked = [request.text for a in analyzers for request in a.requests(schema)]
    texts = dict.fromkeys(["count(1)", *asked])
    return data.groupBy("ds").agg(*(F.expr(text) for text in texts)).collect()


def wide_table(spark, folder, rows, columns, partitions):
    """Write and read a table of numbers."""
    numbers = [f"CAST(rand({i}) * 1000 AS DOUBLE) AS c{i}" for i in range(columns)]
    day = f"CONCAT('2013-01-', lpad(CAST(id % {partitions} + 1 AS STRING), 2, '0')) AS ds"
    path = str(folder / "wide")
    spark.range(rows).selectExpr(*numbers, day).repartition(4, "ds").write.partitionBy(
        "ds"
    ).parquet(path)
    return spark.read.parquet(path)


def measure(name, data, analyzers, rounds):
    """Time both ways in turns."""
    ways = {
        "ours": lambda: scan(data, analyzers, ["ds"]),
        "by hand": lambda: by_hand(data, analyzers),
    }
    times = {way: [] for way in ways}
    for turn in range(rounds + 1):
        order = list(ways) if turn % 2 else list(ways)[::-1]
        for way in order:
            started = time.perf_counter()
            ways[way]()
            if turn:
                times[way].append(time.perf_counter() - started)
    median = {way: statistics.median(found) for way, found in times.items()}
    jobs = plan(data, analyzers).jobs
    return {
        "table": name,
        "analyzers": len(analyzers),
        "aggregations": sum(len(job.requests) for job in jobs),
        "jobs": len(jobs),
        "jobs by hand": 1,
        "ours s": round(median["ours"], 2),
        "by hand s": round(median["by hand"], 2),
        "ratio": round(median["ours"] / median["by hand"], 2),
        "ratios of rounds": [
            round(a / b, 2) for a, b in zip(times["ours"], times["by hand"], strict=True)
        ],
    }


def main():
    """Print a table and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=600_000)
    parser.add_argument("--columns", type=int, default=100)
    parser.add_argument("--partitions", type=int, default=30)
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/scan.json"))
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tidegauge-") as name:
        folder = Path(name)
        spark = tg.spark_session(folder)
        make_table(spark)
        flights = spark.table("tidegauge_demo.flights")
        # By hand there are no frequencies: one agg cannot hold them.
        scannable = [a for a in demo_suite().suite.analyzers if hasattr(a, "aggregations")]
        wide = wide_table(spark, folder, asked.rows, asked.columns, asked.partitions)
        plain = (tg.Completeness, tg.Minimum, tg.Maximum, tg.Mean, tg.StandardDeviation)
        simple = [tg.Size(), *(a(f"c{i}") for i in range(asked.columns) for a in plain)]
        some = range(0, asked.columns, 10)
        sketches = [tg.ApproxCountDistinct(f"c{i}") for i in some]
        sketches += [tg.ApproxQuantile(f"c{i}", 0.5) for i in some]
        results = [
            measure("flights, 365 partitions", flights, scannable, asked.rounds),
            measure("wide, plain aggregations", wide, simple, asked.rounds),
            measure("wide, plain and sketches", wide, [*simple, *sketches], asked.rounds),
        ]
    table = Table()
    for column in results[0]:
        table.add_column(column, justify="right" if column != "table" else "left")
    for result in results:
        table.add_row(*(str(value) for value in result.values()))
    Console(width=200).print(table)
    asked.json.parent.mkdir(parents=True, exist_ok=True)
    asked.json.write_text(json.dumps(results, indent=1))
    print(f"written to {asked.json}")


if __name__ == "__main__":
    main()
