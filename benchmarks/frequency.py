"""Exact and approximate uniqueness of a large column: time, CPU, bytes of the state, error.

About half of 10 million rows contain a value that occurs once. Both variants run in one session, in
turns, after a round to warm up.

    python benchmarks/frequency.py [--rows 10000000] [--rounds 2] [--json FILE]
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
from wide import cpu_seconds

import tidegauge as tg
from tidegauge.analyzers.scan.scan import metric_of, scan


def main():
    """Print a table and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/frequency.json"))
    args = parser.parse_args()
    variants = {
        "exact": tg.Uniqueness("id"),
        "tuple sketch, lg_k=10": tg.ApproxUniqueness("id"),
        "tuple sketch, lg_k=12": tg.ApproxUniqueness("id", lg_k=12),
    }
    with tempfile.TemporaryDirectory(prefix="tidegauge-") as name:
        spark = tg.spark_session(Path(name))
        path = str(Path(name) / "ids")
        value_sql = f"CASE WHEN id % 2 = 0 THEN id ELSE CAST(rand(1) * {args.rows} / 4 AS BIGINT) * 2 + 1 END"
        spark.range(args.rows).selectExpr(f"{value_sql} AS id").write.parquet(path)
        data = spark.read.parquet(path)
        durations = {variant: [] for variant in variants}
        for turn in range(args.rounds + 1):
            for variant in list(variants) if turn % 2 else list(variants)[::-1]:
                started, used = time.perf_counter(), cpu_seconds()
                outcome = scan(data, [variants[variant]]).single_group.states[variants[variant]]
                seconds, cpu = time.perf_counter() - started, cpu_seconds() - used
                state = outcome.value
                metric = metric_of(variants[variant], outcome)
                if turn:
                    durations[variant].append((seconds, cpu, len(state.pack()), metric))
    exact = durations["exact"][-1][3].value
    results = []
    for variant, times in durations.items():
        wall, cpu = (statistics.median(run[i] for run in times) for i in (0, 1))
        first_wall, first_cpu = (
            statistics.median(r[i] for r in durations["exact"]) for i in (0, 1)
        )
        metric = times[-1][3]
        interval = metric.interval
        results.append(
            {
                "way": variant,
                "wall s": round(wall, 2),
                "by exact, wall": round(wall / first_wall, 2),
                "by exact, cpu": round(cpu / first_cpu, 2),
                "state bytes": times[-1][2],
                "value": round(metric.value, 5),
                "error": round(abs(metric.value - exact), 5),
                "standard error": round((interval.upper - interval.lower) / 4, 5)
                if interval
                else 0,
            }
        )
    table = Table(title=f"uniqueness of {args.rows:,} rows")
    for column in results[0]:
        table.add_column(column, justify="left" if column == "way" else "right")
    for result in results:
        table.add_row(*map(str, result.values()))
    Console(width=140).print(table)
    args.json.parent.mkdir(parents=True, exist_ok=True)
    args.json.write_text(json.dumps(results, indent=1))
    print(f"written to {args.json}")


if __name__ == "__main__":
    main()
