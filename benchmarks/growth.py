"""Growth of time, CPU time, memory and bytes with rows, columns, partitions, analyzers, history, tables.

    python benchmarks/growth.py [--axes NAME ...] [--most FACTOR] [--json FILE]
    python benchmarks/growth.py --draw FILE.json FILE.svg

One quantity grows by factors of ten, the others are constant. Each size is measured twice in this
process, and the better time counts; the first size warms up. For comparison the same rows are only
read, with Spark's ``noop`` sink, which separates our cost from the reader's. The slope of the CPU
time between the two largest sizes is on logarithmic scales: 1 is linear. ``--most 0.1`` leaves out
the largest size of each axis. Drawing needs matplotlib.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import shutil
import sys
import tempfile
import time
from pathlib import Path

# The folder of this script contains a script named like one of our packages.
sys.path[0] = str(Path(__file__).resolve().parents[1])

import psutil
from rich.console import Console
from rich.table import Table

import tidegauge as tg
from tidegauge.files.runs import run_suites

AXES = {
    "rows": (10**5, 10**6, 10**7, 10**8),
    "columns": (10, 100, 1000, 2000),
    "partitions": (10, 100, 1000, 10_000),
    "analyzers": (5, 50, 500, 5000),
    "history": (10**5, 10**6, 10**7, 10**8),
    "tables": (10, 100, 500, 2000),
}
NUMBER_COLUMNS = 8
"""Number of columns, unless it is the quantity that grows."""


_MORE_SERIES = """
CREATE TEMP TABLE number AS
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {last}) SELECT i FROM n;
INSERT INTO analyzer
SELECT 1 + i, dataset_id, segment, segment_key, printf('%064d', i),
  replace(canonical, 'metric 0', 'metric ' || i), kind, replace(text, 'metric 0', 'metric ' || i), NULL, NULL
FROM analyzer, number WHERE id = 1;
INSERT INTO series
SELECT 1 + i, 1 + i, printf('%064d', i), entity, instance, 'metric ' || i, scale
FROM series, number WHERE id = 1;
INSERT INTO metric
SELECT partition_id, 1 + i, version, value + i, status, weight, error, commit_id, NULL
FROM (SELECT * FROM metric ORDER BY partition_id) CROSS JOIN number;
INSERT INTO newest_metric
SELECT 1 + i, partition_id, version, value + i, status, weight, error, commit_id
FROM newest_metric, number WHERE series_id = 1
"""
"""Copies of the first series, as recording writes them; recording a hundred million takes hours."""


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and its children, including Java."""
    current, total = psutil.Process(), 0.0
    for process in (current, *current.children(recursive=True)):
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total


class Growth:
    """The sizes of one quantity, each measured.

    Parameters
    ----------
    spark : SparkSession
    folder : Path
        Folder for tables and databases.
    """

    def __init__(self, spark, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.process = psutil.Process()

    def measure(self, axis: str, size: int) -> dict:
        """Measure one size; return seconds, CPU seconds, megabytes and bytes."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        work, bare = getattr(self, axis)(size)
        point = {"size": size} | self._timed(work)
        if bare is not None:
            point |= {f"bare {key}": value for key, value in self._timed(bare).items()}
        files = [file for file in self.folder.glob("*.db*") if file.is_file()]
        point["database bytes"] = sum(file.stat().st_size for file in files)
        point["driver MB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        return point

    def _timed(self, work) -> dict:
        tries = []
        for _ in range(2):
            started, used = time.perf_counter(), cpu_seconds()
            work()
            tries.append((time.perf_counter() - started, cpu_seconds() - used))
        return {
            "seconds": round(min(wall for wall, _ in tries), 3),
            "cpu": round(min(cpu for _, cpu in tries), 3),
        }

    def _table(self, rows: int, columns: int = NUMBER_COLUMNS, partitions: int = 0) -> Path:
        """Write rows of hashed numbers as Parquet, in folders by day if there are partitions."""
        numbers = [f"pmod(xxhash64(id, {i}), 1000000) / 1e3D AS c{i}" for i in range(columns)]
        if partitions:
            numbers.append(f"date_add(DATE'1990-01-01', CAST(id % {partitions} AS INT)) AS ds")
        tasks = max(2, min(rows // 500_000, 64))
        data = self.spark.range(0, rows, 1, tasks).selectExpr(*numbers)
        target = self.folder / "table"
        if partitions:
            data.repartition(8, "ds").write.partitionBy("ds").parquet(str(target))
        else:
            data.write.parquet(str(target))
        return target

    def _scanned(self, table: Path, analyzers: list):
        """Return two functions that measure a folder without a repository, and that only read it."""
        data = self.spark.read.parquet(str(table))
        return (
            lambda: tg.calculate(data, analyzers),
            lambda: data.write.format("noop").mode("overwrite").save(),
        )

    def rows(self, size: int):
        """Return the work of twenty analyzers of eight columns."""
        return self._scanned(self._table(size), some_analyzers(20))

    def columns(self, size: int):
        """Return the work of completeness, mean and extremes of each column, with 20,000 rows."""
        kinds = (tg.Completeness, tg.Mean, tg.Minimum, tg.Maximum)
        analyzers = [kind(f"c{i}") for i in range(size) for kind in kinds]
        return self._scanned(self._table(20_000, columns=size), analyzers)

    def analyzers(self, size: int):
        """Return the work of Compliance with many predicates, with 100,000 rows."""
        return self._scanned(self._table(100_000), some_analyzers(size))

    def partitions(self, size: int):
        """Return the work of twenty analyzers on partitions of a hundred rows, into a new repository."""
        table = self._table(100 * size, partitions=size)
        suite = tg.Suite("growth", some_analyzers(20))
        number = iter(range(2))

        def work() -> None:
            with tg.Repository(f"sqlite:///{self.folder}/{next(number)}.db") as repo:
                tg.analyze(str(table), suite, repository=repo, spark=self.spark)

        data = self.spark.read.parquet(str(table))
        return work, lambda: data.write.format("noop").mode("overwrite").save()

    def history(self, size: int):
        """Return the work of reading a series of 1,000 days from a history with many points; without Spark."""
        repo = tg.Repository(f"sqlite:///{self.folder}/history.db")
        repo.record("history", "metric 0", {f"ds=day {i:04}": float(i) for i in range(1000)})
        with repo.database.engine.begin() as connection:
            for statement in _MORE_SERIES.format(last=size // 1000 - 1).split(";"):
                connection.exec_driver_sql(statement)
        return lambda: repo.metrics("history", name="metric 3"), None

    def tables(self, size: int):
        """Return the work of one run over many tables of one small partition each."""
        table = self._table(1000, partitions=1)
        for i in range(size):
            (self.folder / f"t{i}").symlink_to(table)
            text = f"dataset: t{i}\ntable: {self.folder}/t{i}\nanalyzers: [Size, Mean: c1]\n"
            (self.folder / f"t{i}.yml").write_text(text)
        number = iter(range(2))

        def work() -> None:
            with tg.Repository(f"sqlite:///{self.folder}/{next(number)}.db") as repo:
                summary = run_suites(
                    [str(self.folder)], repository=repo, session=lambda: self.spark
                )
            assert not summary.failed, summary.failed[:3]

        return work, None


def some_analyzers(count: int) -> list:
    """Return different analyzers of the numbers, each with its own aggregate."""
    kinds = (tg.Completeness, tg.Mean, tg.StandardDeviation, tg.Minimum, tg.Maximum)
    plain = [kind(f"c{i}") for i in range(NUMBER_COLUMNS) for kind in kinds]
    compliances = [
        tg.Compliance(f"below {i}", f"c{i % NUMBER_COLUMNS} < {i}")
        for i in range(count - len(plain))
    ]
    return (plain + compliances)[:count]


def slope(points: list[dict]) -> float | None:
    """Return the slope of CPU time between the two largest sizes, both on logarithmic scales."""
    if len(points) < 2 or not (points[-1]["cpu"] and points[-2]["cpu"]):
        return None
    rise = math.log(points[-1]["cpu"] / points[-2]["cpu"])
    return round(rise / math.log(points[-1]["size"] / points[-2]["size"]), 2)


def draw(report: dict, target: Path) -> None:
    """Draw a panel for each axis: time over size."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.fonttype"] = "none"  # text instead of outlines
    mpl.rcParams["svg.hashsalt"] = "growth"  # the same bytes in each run
    from matplotlib import pyplot as plt

    axes = report["axes"]
    figure, panels = plt.subplots(2, math.ceil(len(axes) / 2), figsize=(11, 6), squeeze=False)
    for panel in panels.flat[len(axes) :]:
        panel.remove()
    for panel, (name, points) in zip(panels.flat, axes.items(), strict=False):
        sizes = [point["size"] for point in points]
        for key, label in (
            ("seconds", "wall"),
            ("cpu", "CPU"),
            ("bare cpu", "CPU of bare reading"),
        ):
            if key in points[0]:
                measured = [point[key] or math.nan for point in points]  # 0 has no logarithm
                panel.loglog(sizes, measured, "o-", label=label)
        panel.set_title(f"{name} (slope {slope(points)})")
        panel.set_ylabel("seconds")
        panel.grid(visible=True, alpha=0.3)
        panel.legend()
    figure.tight_layout()
    figure.savefig(target, metadata={"Date": None})


def main() -> None:
    """Print a table and write JSON; or draw one."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--axes", nargs="+", choices=AXES, default=list(AXES))
    parser.add_argument("--most", type=float, default=1.0)
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/growth.json"))
    parser.add_argument("--draw", nargs=2, type=Path, metavar=("JSON", "SVG"))
    args = parser.parse_args()
    if args.draw:
        draw(json.loads(args.draw[0].read_text()), args.draw[1])
        return
    console = Console()
    report: dict = {"axes": {}}
    args.json.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="tidegauge-") as name:
        folder = Path(name)
        # Parquet's writer buffers a page of each of 2,000 columns.
        spark = tg.spark_session(folder / "spark", settings={"spark.driver.memory": "6g"})
        growth = Growth(spark, folder / "data")
        for axis in args.axes:
            sizes = [size for size in AXES[axis] if size <= args.most * AXES[axis][-1]]
            points = report["axes"][axis] = []
            for size in sizes:
                points.append(growth.measure(axis, size))
                console.print(f"{axis} {size:,}: {points[-1]}", highlight=False)
                args.json.write_text(json.dumps(report, indent=1))
        spark.stop()
    table = Table(title="Growth")
    for column in ("axis", "largest", "seconds", "CPU", "CPU of bare reading", "slope of CPU"):
        table.add_column(column, justify="left" if column == "axis" else "right")
    for axis, points in report["axes"].items():
        last = points[-1]
        numbers = (last["seconds"], last["cpu"], last.get("bare cpu", "-"), slope(points))
        table.add_row(axis, f"{last['size']:,}", *map(str, numbers))
    console.print(table)
    print(f"written to {args.json}")


if __name__ == "__main__":
    main()
