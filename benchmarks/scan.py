"""Our scan compared with the same aggregations written by hand as one ``groupBy(ds).agg(...)``.

Both run in one session, in turns, after one round to warm up. The result is the ratio of the
medians. The flights are the demonstration's table. The wide table is created here: 100 columns of
numbers, 600,000 rows in total, in 30 partitions.

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
    """Run one job: every distinct aggregation of the analyzers, grouped by the day."""
    schema = Schema.from_spark(data.schema)
    expressions = [request.text for a in analyzers for request in a.requests(schema)]
    texts = dict.fromkeys(["count(1)", *expressions])
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
    """Time both variants in turns."""
    variants = {
        "ours": lambda: scan(data, analyzers, ["ds"]),
        "by hand": lambda: by_hand(data, analyzers),
    }
    times = {variant: [] for variant in variants}
    for turn in range(rounds + 1):
        order = list(variants) if turn % 2 else list(variants)[::-1]
        for variant in order:
            started = time.perf_counter()
            variants[variant]()
            if turn:
                times[variant].append(time.perf_counter() - started)
    median = {variant: statistics.median(seconds) for variant, seconds in times.items()}
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
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tidegauge-") as name:
        folder = Path(name)
        spark = tg.spark_session(folder)
        make_table(spark)
        flights = spark.table("tidegauge_demo.flights")
        # The hand-written variant has no frequencies, which one agg cannot compute.
        scannable = [a for a in demo_suite().suite.analyzers if hasattr(a, "aggregations")]
        wide = wide_table(spark, folder, args.rows, args.columns, args.partitions)
        plain = (tg.Completeness, tg.Minimum, tg.Maximum, tg.Mean, tg.StandardDeviation)
        simple = [tg.Size(), *(a(f"c{i}") for i in range(args.columns) for a in plain)]
        sampled = range(0, args.columns, 10)
        sketches = [tg.ApproxCountDistinct(f"c{i}") for i in sampled]
        sketches += [tg.ApproxQuantile(f"c{i}", 0.5) for i in sampled]
        results = [
            measure("flights, 365 partitions", flights, scannable, args.rounds),
            measure("wide, plain aggregations", wide, simple, args.rounds),
            measure("wide, plain and sketches", wide, [*simple, *sketches], args.rounds),
        ]
    table = Table()
    for column in results[0]:
        table.add_column(column, justify="right" if column != "table" else "left")
    for result in results:
        table.add_row(*(str(value) for value in result.values()))
    Console(width=200).print(table)
    args.json.parent.mkdir(parents=True, exist_ok=True)
    args.json.write_text(json.dumps(results, indent=1))
    print(f"written to {args.json}")


if __name__ == "__main__":
    main()
