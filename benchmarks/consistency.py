"""Time, memory and stored bytes of comparing a day of a join's features.

    python benchmarks/consistency.py [--sizes 10x50000 1000x50000 100x500000] [--k 12] [--tasks N]
        [--json FILE]

Both sides are Parquet files with a numeric feature in each column, 24 hours, 2% nulls and 10%
values that differ from the logged ones. Each size runs in a separate process, after a small
comparison to warm up. The steps are: read and drop both sides; join them and write the comparison
table; measure it by hour; record the metrics in a repository. Times are wall-clock times, per
feature for all steps except reading. Percentiles are the long form, which cannot be added up. The
comparison table has the values of both sides. Memory is the maximum of the driver's process and its
JVM.
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

# the folder of this script also contains repository.py
sys.path[0] = str(Path(__file__).resolve().parents[1])

TABLE_SIZES = ("10x50000", "1000x50000", "100x500000")


def side(spark, features, rows, shift):
    """Return a side; the backfill is the log with some shifted values."""
    values = [
        f"CASE WHEN rand({i}) < 0.02 THEN NULL ELSE floor(rand({i + 5000}) * 1000) / 7"
        f" + CASE WHEN rand({i + 10000}) < 0.1 THEN {shift} ELSE 0 END END AS f{i}"
        for i in range(features)
    ]
    ts = f"1672876800000L + id * (86400000L div {rows}) AS ts"
    return spark.range(0, rows, 1, 2).selectExpr("id", ts, *values)


def high_water(pid):
    """Return the peak memory of a process in MB."""
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
    """Compare one size and return its times, memory and bytes."""
    import os

    import tidegauge as tg
    from tidegauge.consistency.compare.comparison import measure, record
    from tidegauge.consistency.compare.join import Alignment, pair
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
            scanned = step("measure", lambda t=table, n=names: measure(t, {"all": n}, k=k))
            with tg.Repository(f"sqlite:///{folder}/{size}.db") as repository:
                step("record", lambda f=scanned, r=repository: record(f, r, "shop.search"))
        states, stored = {}, Artifacts(folder / "states")
        for values, group in scanned.groups.items():
            for analyzer, outcome in group.states.items():
                states[values, analyzer.statistic()] = stored.pack(outcome.value).payload or b""
        form = scanned.long()
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
    parser.add_argument("--sizes", nargs="*", default=TABLE_SIZES, metavar="FEATURESxROWS")
    parser.add_argument("--k", type=int, default=12)
    parser.add_argument(
        "--tasks", type=int, help="that measure; as Spark splits the files if left out"
    )
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/consistency.json"))
    args = parser.parse_args()
    if args.one:
        print(json.dumps(measured(*map(int, args.sizes[0].split("x")), args.k, args.tasks)))
        return
    results = []
    for size in args.sizes:
        command = [sys.executable, __file__, "--one", "--sizes", size, "--k", str(args.k)]
        command += ["--tasks", str(args.tasks)] if args.tasks else []
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        results.append(json.loads(done.stdout.splitlines()[-1]))
    first = results[0]["ms a feature"]
    table = Table(title="A day of features compared by hour")
    columns = [name for name in results[0] if name != "seconds"]
    for column in (*columns, "a feature, to the first"):
        table.add_column(column, justify="right")
    for result in results:
        ratio = result["ms a feature"] / first
        table.add_row(*(str(result[name]) for name in columns), f"{ratio:.2f}")
    console = Console(width=160)
    console.print(table)
    for result in results:
        console.print(f"{result['features']} x {result['rows']}: seconds {result['seconds']}")
    args.json.parent.mkdir(parents=True, exist_ok=True)
    args.json.write_text(json.dumps(results, indent=1))
    print(f"written to {args.json}")


if __name__ == "__main__":
    main()
