"""Many small Hive tables in one run: the first run, one with nothing new, and one with a new partition in each.

`run_suites` measures two hundred tables of five partitions with twenty analyzers each in one
session, one table or several at a time. For comparison, Spark runs the minimum of two jobs per
table: the rows, and the aggregates of its columns by partition. Ten tables warm up. `--scattered`
puts the partitions outside of their table's folder, so that each has to be looked up in the
catalog.

    python benchmarks/many_tables.py [--tables 200] [--partitions 5] [--rows 200] [--jobs 1 4]
    [--scattered] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

# The folder of this script contains a script named like one of our packages.
sys.path[0] = str(Path(__file__).resolve().parents[1])

from rich.console import Console
from rich.table import Table

import tidegauge as tg
from benchmarks.growth import NUMBER_COLUMNS, cpu_seconds, some_analyzers
from tidegauge.files.runs import run_suites

WARM_UP = 10
ANALYZER_COUNT = 20
RUN_STEPS = {"first run": None, "nothing new": 0, "one new partition": 1}
"""Runs, and the number of partitions of each table that they measure; None for all."""


class Warehouse:
    """Hive tables that share their files, and a suite file for each."""

    def __init__(
        self, spark, folder: Path, partitions: int, rows: int, *, scattered: bool = False
    ) -> None:
        self.spark, self.folder, self.scattered = spark, folder, scattered
        self.days = [f"2023-01-{day + 1:02}" for day in range(partitions + 1)]
        numbers = [
            f"pmod(xxhash64(id, {i}), 1000000) / 1e3D AS c{i}" for i in range(NUMBER_COLUMNS)
        ]
        data = spark.range(0, rows * len(self.days), 1, 1).selectExpr(
            *numbers, f"date_add(DATE'2023-01-01', CAST(id DIV {rows} AS INT)) AS ds"
        )
        data.write.partitionBy("ds").parquet(str(folder / "data"))
        spark.sql("CREATE DATABASE many")

    def add(self, group: str, count: int) -> list[str]:
        """Add tables with all partitions except the newest; return their names."""
        suites = self.folder / group
        suites.mkdir()
        names = [f"many.{group}{i}" for i in range(count)]
        columns = ", ".join(f"c{i} DOUBLE" for i in range(NUMBER_COLUMNS))
        texts = "\n".join(f"  - {analyzer!r}" for analyzer in some_analyzers(ANALYZER_COUNT))
        for name in names:
            self.spark.sql(
                f"CREATE EXTERNAL TABLE {name} ({columns}, ds STRING) USING parquet"
                f" PARTITIONED BY (ds) LOCATION '{self.folder / name}'"
            )
            self.add_partitions(name, self.days[:-1])
            text = f"dataset: {name}\ntable: {name}\nanalyzers:\n{texts}\n"
            (suites / f"{name}.yml").write_text(text)
        return names

    def add_partitions(self, table: str, days: list[str]) -> None:
        """Add partitions to a table; all tables share their files."""
        clauses = []
        for day in days:
            source, target = (self.folder / root / f"ds={day}" for root in ("data", table))
            location = source if self.scattered else target
            clauses.append(f"PARTITION (ds='{day}') LOCATION '{location}'")
            if not self.scattered and not target.exists():
                target.mkdir(parents=True)
                for file in source.glob("*.parquet"):
                    (target / file.name).hardlink_to(file)
        self.spark.sql(f"ALTER TABLE {table} ADD {' '.join(clauses)}")

    def drop_newest(self, table: str) -> None:
        """Drop a table's newest partition; its files stay."""
        self.spark.sql(f"ALTER TABLE {table} DROP PARTITION (ds='{self.days[-1]}')")

    def bare(self, tables: list[str]) -> None:
        """Run two jobs for each table, the rows and aggregates of its columns by partition."""
        aggregates = [
            f"{name}(c{i})"
            for i in range(NUMBER_COLUMNS)
            for name in ("count", "avg", "min", "max")
        ]
        expressions = ", ".join(aggregates[:ANALYZER_COUNT])
        for name in tables:
            self.spark.sql(f"SELECT ds, count(1) FROM {name} GROUP BY ds").collect()
            self.spark.sql(f"SELECT ds, {expressions} FROM {name} GROUP BY ds").collect()


def measured(work: Callable[[], object], tables: int) -> dict[str, float]:
    """Return the seconds and CPU seconds of some work per table."""
    started, used = time.perf_counter(), cpu_seconds()
    work()
    return {
        "seconds": round((time.perf_counter() - started) / tables, 4),
        "cpu": round((cpu_seconds() - used) / tables, 4),
    }


def main() -> None:
    """Print a table and write JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", type=int, default=200)
    parser.add_argument("--partitions", type=int, default=5)
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--jobs", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--scattered", action="store_true")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    results: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory(prefix="tidegauge-") as name:
        folder = Path(name)
        spark = tg.spark_session(folder / "spark")
        house = Warehouse(spark, folder, args.partitions, args.rows, scattered=args.scattered)
        first, tables = house.add("warm", WARM_UP), house.add("table", args.tables)

        def run(group: str, jobs: int, partitions: int) -> None:
            with tg.Repository(f"sqlite:///{folder}/{group}-{jobs}.db") as repo:
                summary = run_suites([str(folder / group)], repo, session=lambda: spark, jobs=jobs)
            assert not summary.failed, summary.failed[:3]
            scanned = sum(len(table.run.changes) for table in summary.tables)
            assert scanned == partitions, (scanned, partitions)

        run("warm", 1, WARM_UP * args.partitions)
        house.bare(first)
        results["two bare jobs"] = measured(lambda: house.bare(tables), args.tables)
        for jobs in args.jobs:
            for step, partitions in RUN_STEPS.items():
                if step == "one new partition":
                    for table in tables:
                        house.add_partitions(table, house.days[-1:])
                expected = (args.partitions if partitions is None else partitions) * args.tables
                results[f"{step}, --jobs {jobs}"] = measured(
                    partial(run, "table", jobs, expected), args.tables
                )
            for table in tables:
                house.drop_newest(table)
        spark.stop()
    result_table = Table(
        title=f"{args.tables} tables of {args.partitions} partitions, {ANALYZER_COUNT} analyzers"
    )
    for column in ("run", "seconds a table", "CPU seconds a table", "by two bare jobs"):
        is_text = column == "run"
        result_table.add_column(column, justify="left" if is_text else "right", no_wrap=is_text)
    bare = results["two bare jobs"]["seconds"]
    for step, times in results.items():
        result_table.add_row(
            step, f"{times['seconds']:.3f}", f"{times['cpu']:.3f}", f"{times['seconds'] / bare:.2f}"
        )
    Console().print(result_table)
    if args.json:
        args.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
