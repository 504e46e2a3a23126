"""A plain write, a write and a run, and an observed write of the same partition, with 40 analyzers.

The variants run in turns in one session, after one round to warm up. The ratios are of wall time and CPU
time (of this process and its descendants, such as the JVM), to the plain write.

    python -m benchmarks.observe [--rows 6000000] [--rounds 3] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

import tidegauge as tg
from benchmarks.wide import cpu_seconds

NUMBERS = ("a", "b", "c", "d")
TEXTS = ("s", "t", "u", "v")
ANALYZERS = [
    tg.Size(),
    *(tg.Completeness(c) for c in (*NUMBERS, *TEXTS)),
    *(kind(c) for c in NUMBERS for kind in (tg.Mean, tg.Minimum, tg.Maximum)),
    *(tg.StandardDeviation(c) for c in NUMBERS),
    *(kind(c) for c in TEXTS for kind in (tg.MinLength, tg.MaxLength)),
    *(tg.ApproxCountDistinct(c) for c in ("a", "s", "t")),
    *(tg.Correlation("a", "b"), tg.Correlation("c", "d")),
    *(tg.Compliance("positive", "a > 0"), tg.Compliance("low", "b < 50")),
]
SUITE = tg.Suite("observed", ANALYZERS, partition_by=["ds"])


def make(spark, rows):
    """Return a frame of four columns of numbers and four of strings."""
    numbers = [f"pmod(xxhash64(id, {n}), 100000) / 7D AS {c}" for n, c in enumerate(NUMBERS)]
    texts = [f"concat('v', pmod(xxhash64(id, 'x', {n}), 5000)) AS {c}" for n, c in enumerate(TEXTS)]
    return spark.range(0, rows, numPartitions=8).selectExpr(*numbers, *texts)


def write(frame, folder):
    """Write the partition."""
    frame.write.mode("overwrite").parquet(f"{folder}/ds=2026-01-01")


def plain(spark, frame, folder, repo):
    """Write only."""
    write(frame, folder)


def write_and_run(spark, frame, folder, repo):
    """Write, then measure by Spark SQL."""
    write(frame, folder)
    run = tg.analyze(folder, SUITE, repository=repo, spark=spark, engine="spark")
    assert run.report.scanned == 1


def observed_write(spark, frame, folder, repo):
    """Measure while writing."""
    observed = tg.observe(frame, SUITE, partition={"ds": "2026-01-01"})
    write(observed.frame, folder)
    run = observed.record(repo, source=folder)
    assert run.routes == f"40 of {len(ANALYZERS)} measurements from the observed write"


def observed_folder(spark, frame, folder, repo):
    """Leave to the written files what they can answer without Spark SQL."""
    observed = tg.observe(frame, SUITE, partition={"ds": "2026-01-01"}, source=folder)
    write(observed.frame, folder)
    run = observed.record(repo)
    assert "Spark SQL" not in run.routes, run.routes


VARIANTS = {
    "write": plain,
    "write and run": write_and_run,
    "observed write": observed_write,
    "observed write to a known folder": observed_folder,
}


def main():
    """Measure all variants in turns, and print and write them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=6_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    spark = tg.spark_session()
    seconds = {name: [] for name in VARIANTS}
    for turn in range(args.rounds + 1):
        for name, variant in VARIANTS.items():
            with tempfile.TemporaryDirectory() as folder, tg.Repository("sqlite://") as repo:
                frame = make(spark, args.rows)
                wall, cpu = time.perf_counter(), cpu_seconds()
                variant(spark, frame, f"{folder}/t", repo)
                if turn:
                    seconds[name].append((time.perf_counter() - wall, cpu_seconds() - cpu))
    spark.stop()
    medians = {n: [statistics.median(k) for k in zip(*s, strict=True)] for n, s in seconds.items()}
    table = Table("variant", "wall, s", "CPU, s", "wall / write", "CPU / write")
    for name, values in medians.items():
        ratios = [value / base for value, base in zip(values, medians["write"], strict=True)]
        table.add_row(name, *(f"{v:.2f}" for v in (*values, *ratios)))
    Console(width=110).print(table)
    if args.json:
        args.json.write_text(json.dumps({"rows": args.rows, "seconds": medians}, indent=2))


if __name__ == "__main__":
    main()
