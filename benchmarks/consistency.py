"""A day of a join's features compared: how long, in how much memory, and how many bytes are kept of it.

Both sides are Parquet files with a numeric feature in each column, 24 hours, 2 in 100 values null and 1 in 10 other than
logged. Each size runs in a process of its own, after a small comparison to warm up. Steps: both sides read and
dropped; joined and written as the comparison table; measured by hour; recorded in a repository. Times are of the clock, for each
feature of all steps but reading; percentiles are the long form, finished numbers that do not add up; the comparison table has the values of both sides; memory is the most that the driver's process and its JVM held.

    python benchmarks/consistency.py [--sizes 10x50000 1000x50000 100x500000] [--k 12] [--tasks N]
[--json FILE]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

sys.path[0] = str(Path(__file__).resolve().parents[1])  # the folder here has a repository.py

SIZES = ("10x50000", "1000x50000", "100x500000")


def side(spark, features, rows, shift):
    """Return a side; the backfill is the log with some values shifted."""
    values = [
        f"CASE WHEN rand({i}) < 0.02 THEN NULL ELSE floor(rand({i + 5000}) * 1000) / 7"
        f" + CASE WHEN rand({i + 10000}) < 0.1 THEN {shift} ELSE 0 END END AS f{i}"
        for i in range(features)
    ]
    ts = f"1672876800000L + id * (86400000L div {rows}) AS ts"
    return spark.range(0, rows, 1, 2).selectExpr("id", ts, *values)


def high_water(pid):
    """Return the most memory that a process held, in MB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def java_of(pid):
    """Return the process id of the JVM below a process."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                name, fields = (entry / "stat").read_text().rsplit(")", 1)
            except OSError:
                continue
            if name.endswith("(java") and int(fields.split()[1]) == pid:
                return int(entry.name)
    raise SystemExit("there is no JVM below this process")


def mb_of(folder):
    """Return the size of a folder of Parquet files, in MB."""
    return round(sum(file.stat().st_size for file in folder.glob("*.parquet")) / 2**20, 1)


def measured(features, rows, k, tasks):
    """Compare one size and return what it took."""
    import os

    import tidegauge as tg
    from tidegauge.consistency.compare.comparison import record
    from tidegauge.consistency.compare.join import Alignment, pair
    from tidegauge.consistency.compare.measuring import measure
    from tidegauge.repository.store.stored_states import Artifacts

    times = {}

    def step(name, work):
        started = time.perf_counter()
        done = work()
        times[name] = time.perf_counter() - started
        return done

    with tempfile.TemporaryDirectory(prefix="tidegauge-") as name:
        folder = Path(name)
        spark = tg.spark_session(folder)
        for size, count in ((4, 1000), (features, rows)):
            names = [f"f{i}" for i in range(size)]
            paths = [str(folder / f"{size}_{count}_{shift}") for shift in (0, 1)]
            for shift, path in enumerate(paths):
                side(spark, size, count, shift).write.parquet(path)
            sides = [spark.read.parquet(path) for path in paths]
            step(
                "read", lambda s=sides: [x.write.format("noop").mode("overwrite").save() for x in s]
            )
            target = str(folder / f"{size}_{count}")
            joined = pair(*sides, Alignment(("id",), tuple(names)))
            step("join", lambda j=joined, t=target: j.write.parquet(t))
            table = spark.read.parquet(target)
            if tasks:
                table = table.repartition(tasks)
            found = step("measure", lambda t=table, n=names: measure(t, {"all": n}, k=k))
            with tg.Repository(f"sqlite:///{folder}/{size}.db") as repository:
                step("record", lambda f=found, r=repository: record(f, r, "shop.search"))
        states, stored = {}, Artifacts(folder / "states")
        for values, group in found.groups.items():
            for one, outcome in group.states.items():
                states[values, one.statistic()] = stored.pack(outcome.value).payload or b""
        form = found.long()
        files = [*folder.glob(f"{features}.db"), *folder.glob(f"{features}.db.artifacts/**/*")]
        work = sum(times[name] for name in ("join", "measure", "record"))
        return {
            "features": features,
            "rows": rows,
            "tasks": table.rdd.getNumPartitions(),
            "seconds": {name: round(took, 1) for name, took in times.items()},
            "ms a feature": round(1000 * work / features, 1),
            "by reading": round(work / times["read"], 1),
            "driver MB": round(high_water(os.getpid())),
            "JVM MB": round(high_water(java_of(os.getpid()))),
            "logged MB": mb_of(folder / f"{features}_{rows}_0"),
            "comparison table MB": mb_of(folder / f"{features}_{rows}"),
            "states MB a day": round(sum(map(len, states.values())) / 2**20, 2),
            "repository MB a day": round(sum(f.stat().st_size for f in files if f.is_file()) / 2**20, 2),
            "percentiles kB a day": round(8 * (7 * form.histogram.count() + form.number.count()) / 1024),
        }  # fmt: skip


def main():
    """Print a table and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", nargs="*", default=SIZES, metavar="FEATURESxROWS")
    parser.add_argument("--k", type=int, default=12)
    parser.add_argument(
        "--tasks", type=int, help="that measure; as Spark splits the files if left out"
    )
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/consistency.json"))
    asked = parser.parse_args()
    if asked.one:
        print(json.dumps(measured(*map(int, asked.sizes[0].split("x")), asked.k, asked.tasks)))
        return
    results = []
    for size in asked.sizes:
        command = [sys.executable, __file__, "--one", "--sizes", size, "--k", str(asked.k)]
        command += ["--tasks", str(asked.tasks)] if asked.tasks else []
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        results.append(json.loads(done.stdout.splitlines()[-1]))
    first = results[0]["ms a feature"]
    table = Table(title="A day of features compared by hour")
    shown = [name for name in results[0] if name != "seconds"]
    for column in (*shown, "a feature, to the first"):
        table.add_column(column, justify="right")
    for result in results:
        ratio = result["ms a feature"] / first
        table.add_row(*(str(result[name]) for name in shown), f"{ratio:.2f}")
    console = Console(width=160)
    console.print(table)
    for result in results:
        console.print(f"{result['features']} x {result['rows']}: seconds {result['seconds']}")
    asked.json.parent.mkdir(parents=True, exist_ok=True)
    asked.json.write_text(json.dumps(results, indent=1))
    print(f"written to {asked.json}")


if __name__ == "__main__":
    main()
