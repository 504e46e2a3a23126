"""Columnar scans compared with Spark SQL: the same analyzers on the same folders, in one session.

Each round measures partitions into a new repository, by each route in turn, after one round to warm up:

- ``sql``: everything by Spark SQL (``engine="spark"``).
- ``here``: the columnar scan in the driver's process, for any number of bytes.
- ``tasks``: the columnar scan in Spark's tasks, for any number of bytes.
- ``auto``: the planner's choice.

The tables are those of `benchmarks.deequ`, as folders. CPU seconds include the JVM and all Python workers.

    python -m benchmarks.columnar [--rounds 3] [--scale 1.0] [--cases whole40 cheap] [--json FILE]

With ``--fit`` it prints the constants of the planner's cost model instead, with the estimates and the measured CPU
seconds of each case: of four days in this process, then in Spark's tasks.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from functools import partial
from math import inf
from pathlib import Path
from unittest.mock import patch

import numpy as np
import psutil
from rich.console import Console
from rich.table import Table
from scipy.optimize import nnls

import tidegauge as tg
from benchmarks.deequ import data
from benchmarks.deequ.cases import (
    CHEAP_ANALYZERS,
    COMPLETENESS_ANALYZERS,
    GROUPING_ANALYZERS,
    KLL_ANALYZERS,
    MIXED_ANALYZERS,
    SCAN40_ANALYZERS,
)
from tidegauge.analysis import open_named
from tidegauge.analyzers.columnar.planner import ColumnarPlanner
from tidegauge.analyzers.columnar.tasks import scanner_for
from tidegauge.analyzers.runs import runner

PLANNERS = {
    "here": partial(ColumnarPlanner, seconds_left=inf),
    "tasks": partial(ColumnarPlanner, seconds_left=-inf),
    "auto": ColumnarPlanner,
}
ONE_PATTERN = [["PatternMatch", "email", r"^[a-z0-9.]+@[a-z0-9]+\.[a-z]+$"]]
CASES = {
    "whole40": ("days30", None, SCAN40_ANALYZERS),
    "cheap": ("days30", None, CHEAP_ANALYZERS),
    "completeness": ("days30", None, COMPLETENESS_ANALYZERS),
    "mixed": ("days30", None, MIXED_ANALYZERS),
    "grouping4": ("days30", None, GROUPING_ANALYZERS),
    "uniqueness": ("days30", None, [["Uniqueness", ["id"]]]),
    "mean1": ("days30", None, [["Mean", "price"]]),
    "pattern1": ("days30", None, ONE_PATTERN),
    "kll4": ("days30", None, KLL_ANALYZERS),
    "backfill365": ("days365", None, SCAN40_ANALYZERS),
    "day5k": ("spare5k", 1, SCAN40_ANALYZERS),
    "day200k": ("spare200k", 1, SCAN40_ANALYZERS),
    "day200k-grouping4": ("spare200k", 1, GROUPING_ANALYZERS),
}
"""Table, number of partitions (None for all) and analyzers of each case."""


def cpu_by_process() -> dict[tuple[int, float], float]:
    """Return the CPU seconds of this process and its children, which Spark ends when they are idle."""
    own = psutil.Process()
    seconds = {}
    for process in (own, *own.children(recursive=True)):
        try:
            seconds[process.pid, process.create_time()] = sum(process.cpu_times()[:2])
        except psutil.NoSuchProcess:
            continue
    return seconds


def measure(spark, folder: Path, count: int | None, analyzers, route: str) -> dict:
    """Measure partitions by a route into a new repository; return seconds, CPU seconds and routes."""
    names = sorted(path.name for path in folder.glob("ds=*"))
    with tempfile.TemporaryDirectory(prefix="tidegauge-") as name:
        repository = tg.Repository(f"sqlite:///{name}/metrics.db")
        suite = tg.Suite("benchmark", [getattr(tg, kind)(*args) for kind, *args in analyzers])
        planner = PLANNERS.get(route, ColumnarPlanner)
        started, before = time.perf_counter(), cpu_by_process()
        with repository, patch.object(runner, "ColumnarPlanner", planner):
            run = tg.analyze(
                str(folder),
                suite,
                repository=repository,
                partitions=names[-count:] if count else "all",
                spark=spark,
                engine="spark" if route == "sql" else "auto",
            )
        seconds = time.perf_counter() - started
        cpu = sum(total - before.get(key, 0.0) for key, total in cpu_by_process().items())
    assert not run.failed, run.failed
    return {"s": seconds, "cpu": cpu, "routes": run.routes}


FITTED_PARTITIONS = 4
"""Number of partitions by which the cost model is fitted."""


def cpu_now() -> float:
    """Return the CPU seconds of this process and its children until now."""
    return sum(cpu_by_process().values())


def plans_of(folder: Path, count: int | None, analyzers):
    """Return the plans of some partitions of a folder."""
    source = open_named(str(folder), ["ds"])
    chosen = [p.partition for p in source.list_partitions()][: count or FITTED_PARTITIONS]
    files = source.parquet_files(chosen)
    suite = [getattr(tg, kind)(*args) for kind, *args in analyzers]
    planner = ColumnarPlanner()
    return [planner.plan(files[partition], suite) for partition in chosen]


def cpu_of(function, rounds: int) -> float:
    """Return the least CPU seconds of a call, of this process and its children, after one to warm up."""
    seconds = []
    for _ in range(rounds + 1):
        before = cpu_by_process()
        function()
        seconds.append(sum(c - before.get(key, 0.0) for key, c in cpu_by_process().items()))
    return min(seconds[1:])


def fit(folder: Path, rounds: int) -> None:
    """Print the constants of the cost model, as fitted to the CPU seconds of the cases."""
    plans = {name: plans_of(folder / case[0], *case[1:]) for name, case in CASES.items()}
    plans = {name: case for name, case in plans.items() if case[0].kernels}
    here = {}
    for name, case in plans.items():
        planner = ColumnarPlanner(seconds_left=inf)
        here[name] = cpu_of(lambda p=planner, c=case: p.scan(dict(enumerate(c))), rounds)
    counts = np.array([np.sum([p.values_to_scan for p in c], axis=0) for c in plans.values()])
    measured = np.array(list(here.values()))
    value, slow_value = nnls(counts, measured)[0]
    print(f"CPU seconds of a value {value:.2g}; of one without a dictionary {slow_value:.2g}")
    before = cpu_now()
    spark = tg.spark_session()
    spark.range(1).count()
    print(f"CPU seconds of Spark's start {cpu_now() - before:.1f}")
    scan_by_tasks = scanner_for(spark)
    before = cpu_now()
    scan_by_tasks(plans["mean1"])
    first_job = cpu_now() - before
    tasks = {n: cpu_of(lambda c=case: scan_by_tasks(c), rounds) for n, case in plans.items()}
    spark.stop()
    factor, job = np.polyfit(measured, list(tasks.values()), 1)
    print(
        f"CPU seconds of the first job of tasks, which starts their processes, {first_job:.2g}; of a later one"
        f" {job:.2g}; factor of tasks {factor:.2f}"
    )
    for name, estimate in zip(plans, counts @ (value, slow_value), strict=True):
        print(
            f"{name}: estimated {estimate:.3f}, here {here[name]:.3f}, in tasks {tasks[name]:.3f}"
        )


def main() -> None:
    """Print a table and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--cases", nargs="*", default=list(CASES), choices=CASES)
    parser.add_argument("--routes", nargs="*", default=["sql", *PLANNERS])
    parser.add_argument("--data", type=Path, default=Path("benchmarks/results/data"))
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/columnar.json"))
    parser.add_argument("--fit", action="store_true")
    args = parser.parse_args()
    if args.fit:
        fit(args.data, args.rounds)
        return
    table = Table()
    for title in (
        "case",
        "route",
        "s",
        "CPU s",
        "s of sql / s",
        "CPU of sql / CPU",
        "measured from",
    ):
        table.add_column(title)
    results = {}
    with tempfile.TemporaryDirectory(prefix="tidegauge-") as warehouse:
        spark = tg.spark_session(warehouse)
        data.make(spark, args.data, args.scale, {CASES[name][0] for name in args.cases})
        for name in args.cases:
            source, count, analyzers = CASES[name]
            rounds = {route: [] for route in args.routes}
            for number in range(args.rounds + 1):
                for route in args.routes[:: 1 if number % 2 else -1]:
                    result = measure(spark, args.data / source, count, analyzers, route)
                    print(
                        name,
                        route,
                        {k: v if k == "routes" else round(v, 2) for k, v in result.items()},
                        flush=True,
                    )
                    if number:
                        rounds[route].append(result)
            results[name] = rounds
            for route, measured in rounds.items():
                medians = {key: statistics.median(m[key] for m in measured) for key in ("s", "cpu")}
                ratios = (
                    statistics.median(
                        a[key] / b[key]
                        for a, b in zip(rounds[args.routes[0]], measured, strict=True)
                    )
                    for key in ("s", "cpu")
                )
                cells = (f"{value:.2f}" for value in (*medians.values(), *ratios))
                table.add_row(name, route, *cells, str(measured[0]["routes"]))
            print(
                name, {r: [round(m["cpu"], 2) for m in ms] for r, ms in rounds.items()}, flush=True
            )
        spark.stop()
    Console(width=200).print(table)
    args.json.parent.mkdir(parents=True, exist_ok=True)
    args.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
