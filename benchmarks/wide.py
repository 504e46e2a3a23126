"""A wide table: our scan compared with one single ``agg``, a loop over partitions, and jobs packed by hand.

The table has 50 columns of numbers and 50 of strings, 600,000 rows in total, 30 partitions; each
pair of columns has nine cheap metrics and two sketches. All variants compute the same aggregate
expressions over the same cached plan of files, in turns in one session after a round to warm up.
CPU time is measured over the process tree, including the JVM; CPU and wall time are reported as
ratios of medians.

    python benchmarks/wide.py [--rounds 3] [--rows 600000] [--pairs 50] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pyspark.sql import functions as F
from rich.console import Console
from rich.table import Table

import tidegauge as tg
from tidegauge.analyzers.core.schema import Schema
from tidegauge.analyzers.scan.plan import plan
from tidegauge.analyzers.scan.scan import MAX_CONCURRENT_JOBS, scan

COLUMNS_BY_HAND = 10
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def cpu_seconds():
    """Return the CPU time of this process and all of its descendants, including ended ones."""
    children = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            children.setdefault(int(fields[1]), []).append((int(entry.name), fields))
    stat_fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    stack, total = [(os.getpid(), stat_fields)], 0
    while stack:
        pid, fields = stack.pop()
        total += sum(map(int, fields[11:15]))
        stack += children.get(pid, [])
    return total / TICKS_PER_SECOND


def wide_table(spark, folder, rows, pairs, partitions):
    """Write and read the table."""
    numbers = [
        f"CASE WHEN rand({i}) < 0.02 THEN NULL ELSE rand({i + 1000}) * 1000 END AS n{i}"
        for i in range(pairs)
    ]
    texts = [
        f"CASE WHEN rand({i + 2000}) < 0.02 THEN NULL"
        f" ELSE CONCAT('value ', CAST(rand({i + 3000}) * 5000 AS INT)) END AS s{i}"
        for i in range(pairs)
    ]
    day = f"CONCAT('2013-01-', lpad(CAST(id % {partitions} + 1 AS STRING), 2, '0')) AS ds"
    path = str(folder / "wide")
    table = spark.range(rows).selectExpr(*numbers, *texts, day).repartition(4, "ds")
    table.write.partitionBy("ds").parquet(path)
    return spark.read.parquet(path)


def analyzers_of(pairs):
    """Return nine cheap metrics and two sketches for each pair."""
    cheap = [tg.Completeness, tg.Minimum, tg.Maximum, tg.Mean, tg.StandardDeviation, tg.ZerosCount]
    analyzers = [tg.Size()]
    for i in range(pairs):
        analyzers += [kind(f"n{i}") for kind in cheap]
        analyzers += [tg.Completeness(f"s{i}"), tg.MinLength(f"s{i}"), tg.MaxLength(f"s{i}")]
        analyzers += [tg.ApproxQuantile(f"n{i}", 0.5), tg.ApproxCountDistinct(f"s{i}")]
    return analyzers


def main():
    """Print a table and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=600_000)
    parser.add_argument("--pairs", type=int, default=50)
    parser.add_argument("--partitions", type=int, default=30)
    parser.add_argument("--ways", nargs="*", default=[])
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/wide.json"))
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tidegauge-") as name:
        spark = tg.spark_session(Path(name))
        data = wide_table(spark, Path(name), args.rows, args.pairs, args.partitions)
        analyzers = analyzers_of(args.pairs)
        schema = Schema.from_spark(data.schema)
        by_pair = [
            dict.fromkeys(
                request.text
                for a in analyzers
                if a.instance in {f"n{i}", f"s{i}"}
                for request in a.requests(schema)
            )
            for i in range(args.pairs)
        ]
        texts = list(dict.fromkeys(["count(1)", *(t for pair in by_pair for t in pair)]))
        days = [row[0] for row in data.select("ds").distinct().collect()]

        def aggregate(frame, expressions):
            return frame.groupBy("ds").agg(*(F.expr(t) for t in expressions)).collect()

        def by_hand():
            step = COLUMNS_BY_HAND // 2
            packs = [
                [t for pair in by_pair[i : i + step] for t in pair]
                for i in range(0, args.pairs, step)
            ]
            with ThreadPoolExecutor(MAX_CONCURRENT_JOBS) as pool:
                list(pool.map(lambda pack: aggregate(data, pack), packs))

        variants = {
            "ours": lambda: scan(data, analyzers, ["ds"]),
            "(a) one agg": lambda: aggregate(data, texts),
            "(b) loop": lambda: [aggregate(data.where(F.col("ds") == day), texts) for day in days],
            "(c) by hand": by_hand,
            "reading": lambda: data.write.format("noop").mode("overwrite").save(),
        }
        variants = {
            k: v
            for k, v in variants.items()
            if not args.ways or k[:3] in args.ways or k in args.ways
        }
        wall = {variant: [] for variant in variants}
        cpu = {variant: [] for variant in variants}
        for turn in range(args.rounds + 1):
            for variant in list(variants) if turn % 2 else list(variants)[::-1]:
                started, used = time.perf_counter(), cpu_seconds()
                variants[variant]()
                if turn:
                    wall[variant].append(time.perf_counter() - started)
                    cpu[variant].append(cpu_seconds() - used)
        jobs = len(plan(data, analyzers).jobs)
    results = {
        "columns": 2 * args.pairs,
        "rows": args.rows,
        "partitions": args.partitions,
        "aggregations": len(texts),
        "jobs": jobs,
        "ways": {
            variant: {
                "cpu s": round(statistics.median(cpu[variant]), 2),
                "wall s": round(statistics.median(wall[variant]), 2),
                "ours by this, cpu": round(
                    statistics.median(cpu["ours"]) / statistics.median(cpu[variant]), 2
                ),
                "ours by this, wall": round(
                    statistics.median(wall["ours"]) / statistics.median(wall[variant]), 2
                ),
            }
            for variant in variants
        },
    }
    table = Table(title=f"{results['aggregations']} aggregations in {jobs} jobs")
    for column in ("way", *next(iter(results["ways"].values()))):
        table.add_column(column, justify="left" if column == "way" else "right")
    for variant, result in results["ways"].items():
        table.add_row(variant, *map(str, result.values()))
    Console(width=120).print(table)
    args.json.parent.mkdir(parents=True, exist_ok=True)
    args.json.write_text(json.dumps(results, indent=1))
    print(f"written to {args.json}")


if __name__ == "__main__":
    main()
