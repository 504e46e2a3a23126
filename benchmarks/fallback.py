"""Sketches by Spark's own functions compared with the same sketches from Python workers, on one Spark.

Spark before 4.2 lacks some of the functions. Both variants run in one session, in turns, after a
round to warm up, over the same rows in memory. The result is the ratio of the CPU time of the JVM
and all Python processes together.

    python benchmarks/fallback.py [--rows 1000000] [--rounds 5] [--partitions 1] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import psutil
from rich.console import Console
from rich.table import Table

import tidegauge as tg
from tidegauge.analyzers.scan import plan
from tidegauge.analyzers.scan.capabilities import capabilities
from tidegauge.analyzers.scan.scan import scan

CASES = {
    "KLL": [tg.ApproxQuantile("number", 0.5)],
    "4 KLL": [tg.ApproxQuantile(f"n{i}", 0.5) for i in range(4)],
    "most frequent values": [tg.TopValues("text")],
    "tuple, few values": [tg.ApproxUniqueness("few")],
    "tuple, all different": [tg.ApproxUniqueness("id")],
}


def cpu() -> float:
    """Return the CPU seconds of this process and its children, including ended ones."""
    process = psutil.Process()
    total = sum(process.cpu_times()[:4])
    for child in process.children(recursive=True):
        try:
            total += sum(child.cpu_times()[:4])
        except psutil.NoSuchProcess:
            continue
    return total


def main() -> None:
    """Print a table and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--partitions", type=int, default=1)
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/fallback.json"))
    args = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory(prefix="tidegauge-") as folder:
        spark = tg.spark_session(folder)
        session_capabilities = capabilities(spark)
        data = spark.range(args.rows, numPartitions=4).selectExpr(
            "id",
            "randn(7) AS number",
            *(f"randn({i}) AS n{i}" for i in range(4)),
            "id % 1000 AS few",
            "CONCAT('k', CAST(exp(9 * rand(8)) AS INT)) AS text",
            f"id % {args.partitions} AS part",
        )
        data = data.cache()
        data.count()
        group_columns = ["part"] if args.partitions > 1 else []
        variants = {
            "native": session_capabilities,
            "workers": replace(session_capabilities, sketches=frozenset({"hll"})),
        }
        for name, analyzers in CASES.items():
            spent: dict[str, list[tuple[float, float]]] = {variant: [] for variant in variants}
            for turn in range(args.rounds + 1):
                for variant in list(variants) if turn % 2 else list(variants)[::-1]:
                    with patch.object(plan, "capabilities", lambda _, can=variants[variant]: can):
                        began, used = time.perf_counter(), cpu()
                        scan(data, analyzers, group_columns)
                    if turn:
                        spent[variant].append((time.perf_counter() - began, cpu() - used))
            wall, work = (
                {
                    variant: statistics.median(times[i] for times in spent[variant])
                    for variant in variants
                }
                for i in (0, 1)
            )
            native = all(session_capabilities.is_native(r) for r in _sketches(data, analyzers))
            results.append(
                {
                    "sketch": name,
                    "native": native,
                    "native CPU s": round(work["native"], 2),
                    "workers CPU s": round(work["workers"], 2),
                    "ratio of CPU": round(work["workers"] / work["native"], 2),
                    "ratio of wall": round(wall["workers"] / wall["native"], 2),
                }
            )
    table = Table(title=f"{args.rows:,} rows, {args.partitions} partitions")
    for column in results[0]:
        table.add_column(column, justify="left" if column == "sketch" else "right")
    for result in results:
        table.add_row(*map(str, result.values()))
    Console(width=110).print(table)
    args.json.parent.mkdir(parents=True, exist_ok=True)
    args.json.write_text(json.dumps(results, indent=1))
    print(f"written to {args.json}")


def _sketches(data, analyzers):
    from tidegauge.analyzers.core.analyzer import Sketch

    requests = (r for group in plan.plan(data, analyzers).requests.values() for r in group)
    return [r for r in requests if isinstance(r, Sketch)]


if __name__ == "__main__":
    main()
