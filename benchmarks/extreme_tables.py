"""Tables at the limits of the columnar scan: CPU seconds, memory and routes, in one process without Spark.

    python -m benchmarks.extreme_tables [--cases wide files row-groups keys] [--footers 20000]

Each case is written to a temporary folder and measured in a new process: 500 columns with analyzers of 5; 10,000
files of 100 rows; 1,000 row groups of 1,000 rows; and a column of 6 million distinct strings. ``--footers`` replaces the
planner's limit of files. Analyzers without an answer are left to Spark SQL.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

import tidegauge as tg
from tidegauge.analysis import open_named
from tidegauge.analyzers.columnar.planner import MAX_FOOTERS, ColumnarPlanner

MIXED = [
    tg.Size(),
    tg.Completeness("x"),
    tg.Mean("x"),
    tg.Maximum("n"),
    tg.ApproxCountDistinct("s"),
    tg.Uniqueness("s"),
]
CASES = {
    "wide": [k(f"c{i}") for i in range(5) for k in (tg.Completeness, tg.Mean, tg.Maximum)],
    "files": MIXED,
    "row-groups": MIXED,
    "keys": [tg.Size(), tg.Completeness("s"), tg.ApproxCountDistinct("s"), tg.Uniqueness("s")],
}
"""Analyzers of each case."""


def rows(count: int) -> pa.Table:
    """Return rows of two columns of numbers and one of strings."""
    random = np.random.default_rng(0)
    strings = [f"v{i % 700}" for i in range(count)]
    return pa.table({"x": random.random(count), "n": random.integers(0, 9, count), "s": strings})


def write(case: str, folder: Path) -> None:
    """Write the table of a case."""
    if case == "wide":
        random = np.random.default_rng(0)
        table = pa.table({f"c{i}": random.random(200_000) for i in range(500)})
        pq.write_table(table, folder / "a.parquet")
    elif case == "files":
        table = rows(100)
        for day in range(100):
            (folder / f"ds={day}").mkdir()
            for i in range(100):
                pq.write_table(table, folder / f"ds={day}" / f"{i}.parquet")
    elif case == "row-groups":
        pq.write_table(rows(1_000_000), folder / "a.parquet", row_group_size=1000)
    else:
        order = np.random.default_rng(0).permutation(6_000_000)
        table = pa.table({"s": [f"customer-{i:012d}" for i in order]})
        pq.write_table(table, folder / "a.parquet", row_group_size=750_000)


def peak_bytes() -> int:
    """Return the largest memory of this process until now, as Linux knows it."""
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if "VmHWM" in line) * 1024


def measure(case: str, folder: str, footers: int) -> None:
    """Measure the table, and print the seconds, the memory and the routes."""
    source = open_named(folder)
    process = psutil.Process()
    memory, before = peak_bytes(), sum(process.cpu_times()[:2])
    partitions = [listed.partition for listed in source.list_partitions()]
    files = source.parquet_files(partitions)
    planner = ColumnarPlanner(footers_left=footers)
    plans = {p: planner.plan(files[p], CASES[case]) for p in partitions}
    results = planner.scan({p: plan for p, plan in plans.items() if plan is not None})
    seconds = sum(process.cpu_times()[:2]) - before
    grown = (peak_bytes() - memory) / 1e6
    routes = Counter(str(route) for result in results.values() for route in result.routes.values())
    routes["Spark SQL"] = len(partitions) * len(CASES[case]) - routes.total()
    print(f"{case}: {seconds:.2f} s of CPU, {grown:.0f} MB, {dict(routes)}", flush=True)


def main() -> None:
    """Write and measure the tables one by one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=CASES)
    parser.add_argument("--footers", type=int, default=MAX_FOOTERS)
    parser.add_argument("--measure", metavar="FOLDER", help="measure a case in this process")
    args = parser.parse_args()
    if args.measure:
        measure(args.cases[0], args.measure, args.footers)
        return
    for case in args.cases:
        with tempfile.TemporaryDirectory(prefix="tidegauge-") as folder:
            write(case, Path(folder))
            options = ["--cases", case, "--measure", folder, "--footers", str(args.footers)]
            subprocess.run(
                [sys.executable, "-m", "benchmarks.extreme_tables", *options], check=True
            )


if __name__ == "__main__":
    main()
