"""Months of operation in one process: memory, files, database and times of thousands of runs.

    python benchmarks/soak.py [--runs N] [--each N] [--tables N] [--days N] [--backfill N]
        [--spark N] [--seconds N] [--url URL] [--json FILE]

*Runs*: N incremental runs on datasets that grow by a partition each, with states, roll-ups of 7
days and months, detection, a restated partition in every tenth run, a label in every fiftieth,
clean-up in every hundredth. Each line of the table is a tenth of the runs. *Year*: N tables
measured every day, after a backfill of their first N days in one run each, and the times of reading
in the end. *Spark*: N runs that scan generated Parquet partitions. Wall-clock ages do not apply
here, so clean-up removes everything that is superseded. Processor is the CPU time of this process
for one run, which depends least on other load.
"""

from __future__ import annotations

import argparse
import datetime as dt
import gc
import json
import math
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

# The name of this script is unique, but its folder contains scripts named like our packages.
sys.path[0] = str(Path(__file__).resolve().parents[1])

import psutil
import sqlalchemy as sa

import tidegauge as tg
from tidegauge.analyzers.core.partitions import Partition
from tidegauge.analyzers.core.state import State
from tidegauge.analyzers.measures.counts import NumMatches, NumMatchesAndCount
from tidegauge.analyzers.measures.frequencies import FrequenciesAndNumRows
from tidegauge.analyzers.measures.moments import SumAndCount
from tidegauge.analyzers.runs.ledger import MeasuredPartition, RunSpec
from tidegauge.analyzers.runs.recording import recording
from tidegauge.repository.maintenance.integrity import find_problems
from tidegauge.repository.store import schema as s
from tidegauge.repository.testing import measurement

FIRST_DAY = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
ROLL_UP_WINDOWS = ("7d", "month")
TABLE_LINES = 10
"""Number of lines of the table."""
KIND_VALUES = ("a", "b", "c")

Row = dict[str, float]


def states(number: int, chance: random.Random) -> dict[tg.Analyzer, State]:
    """Return the measurements of a day: a weekly rhythm, noise, and one bad day in a hundred."""
    rows = round((1000 + 200 * (number % 7 < 5)) * chance.uniform(0.97, 1.03))
    filled = round(rows * (0.5 if number % 100 == 99 else chance.uniform(0.98, 1)))
    groups = {(kind,): max(1, rows // (2 + index)) for index, kind in enumerate(KIND_VALUES)}
    return {
        tg.Size(): NumMatches(rows),
        tg.Completeness("x"): NumMatchesAndCount(filled, rows),
        tg.Mean("x"): SumAndCount(rows * chance.uniform(9.9, 10.1), rows),
        tg.Histogram("kind"): FrequenciesAndNumRows.from_groups(groups.items()),
    }


def measured(number: int, chance: random.Random, content: str = "a") -> MeasuredPartition:
    """Return one day as a scan measures it."""
    day = FIRST_DAY + dt.timedelta(days=number)
    states_by_analyzer = states(number, chance)
    size = states_by_analyzer[tg.Size()]
    assert isinstance(size, NumMatches)
    return MeasuredPartition(
        Partition(("ds",), (day.strftime("%Y-%m-%d"),)),
        day,
        content,
        day,
        "[]",
        size.num_matches,
        tuple(measurement(analyzer, state) for analyzer, state in states_by_analyzer.items()),
    )


def usage(repository: tg.Repository) -> Row:
    """Return memory, handles and the size of the database."""
    gc.collect()
    process = psutil.Process()
    file = repository.database.file
    with repository.database.read() as connection:
        count = connection.execute(sa.select(sa.func.count()).select_from(s.metric)).scalar_one()
        if file is None:
            size = connection.execute(
                sa.text("SELECT pg_database_size(current_database())")
            ).scalar_one()
        else:
            size = sum(
                path.stat().st_size for path in file.parent.glob(f"{file.name}*") if path.is_file()
            )
    return {
        "memory, MB": process.memory_info().rss / 1e6,
        "open files": process.num_fds(),
        "threads": process.num_threads(),
        "facts": count,
        "database, MB": size / 1e6,
        "bytes a fact": size / max(count, 1),
    }


@dataclass
class Length:
    """Length of a soak: a number of runs, or fewer if the time is over before."""

    runs: int
    seconds: float


def in_parts(
    repository: tg.Repository, limit: Length, step: Callable[[int], None]
) -> Iterator[Row]:
    """Take steps; yield a line for each tenth of them, or of the time, with the times of its steps."""
    size, began, done, part = math.ceil(limit.runs / TABLE_LINES), time.perf_counter(), 0, 0
    while done < limit.runs and part < TABLE_LINES:
        part += 1
        seconds, processor = [], time.process_time()
        deadline = began + part * limit.seconds / TABLE_LINES
        while not seconds or (
            len(seconds) < size and done < limit.runs and time.perf_counter() < deadline
        ):
            started = time.perf_counter()
            step(done)
            seconds.append(time.perf_counter() - started)
            done += 1
        processor = time.process_time() - processor
        yield {
            "runs": done,
            "median, ms": statistics.median(seconds) * 1000,
            "slowest, ms": max(seconds) * 1000,
            "processor, ms": processor / len(seconds) * 1000,
            **usage(repository),
        }


def runs(url: str, folder: Path, limit: Length, each: int) -> Iterator[Row]:
    """Run repeatedly, with all maintenance, on datasets of some partitions each."""
    chance = random.Random(20130208)
    with tg.Repository(url, artifacts=folder / "artifacts") as repository:

        def step(number: int) -> None:
            table, day = divmod(number, each)
            dataset = f"soak {table}"
            batch = [measured(day, chance)]
            if day and number % 10 == 0:
                batch.append(measured(chance.randrange(day), chance, f"again {number}"))
            with recording(repository.store, RunSpec(dataset, "t", ("ds",))) as run:
                assert len(run.ledger()) == day
                run.commit(batch)
            repository.roll_up(dataset, ROLL_UP_WINDOWS, run=run.run)
            anomalies = repository.detect(dataset)
            if number % 50 == 49 and len(anomalies):
                repository.label(
                    int(anomalies["id"].iloc[0]), chance.choice(["expected", "ignore"])
                )
            if number % 100 == 99:
                repository.clean(versions="0d", runs="0d")

        done = 0.0
        for line in in_parts(repository, limit, step):
            yield line
            done = line["runs"]
        with repository.database.read() as connection:
            problems = find_problems(connection, repository.artifacts)
        assert problems == [], problems
        sizes = [len(repository.partitions(dataset)) for dataset in repository.datasets()]
        assert sum(sizes) == done, sizes


def year(
    url: str, folder: Path, tables: int, limit: Length, backfill: int, times: Row
) -> Iterator[Row]:
    """Measure many tables every day, and add the times of reading in the end.

    The days of the backfill come before; each table's are written in one run.
    """
    days = 0
    chance = random.Random(20130208)
    with tg.Repository(url, artifacts=folder / "artifacts") as repository:
        started = time.perf_counter()
        for table in range(tables if backfill else 0):
            with recording(repository.store, RunSpec(f"table {table}", "t", ("ds",))) as run:
                run.commit([measured(day, chance) for day in range(backfill)])
        times["backfill of a table, ms"] = 1000 * (time.perf_counter() - started) / tables

        def step(number: int) -> None:
            day, table = divmod(number, tables)
            with recording(repository.store, RunSpec(f"table {table}", "t", ("ds",))) as run:
                run.commit([measured(backfill + day, chance)])

        for line in in_parts(repository, limit, step):
            yield line
            days = backfill + int(line["runs"]) // tables
        name, since = f"table {tables // 2}", f"{FIRST_DAY + dt.timedelta(days=days - 30):%Y-%m-%d}"
        queries: dict[str, Callable[[], object]] = {
            "overview of all tables": repository.overview,
            "one series": lambda: repository.metrics(name, analyzer=tg.Completeness("x")),
            "newest of a table": lambda: repository.latest(name),
            "30 days of a table": lambda: repository.metrics(name, since=since),
            "calendar of a table": lambda: repository.calendar(name),
            "runs of a table": lambda: repository.runs(name),
            "detection on a table": lambda: repository.detect(name),
        }
        for query_name, ask in queries.items():
            best = []
            for _ in range(3):
                started = time.perf_counter()
                ask()
                best.append(time.perf_counter() - started)
            # The first detection reads the new partitions; all others take the same time.
            times[f"{query_name}, ms"] = 1000 * (
                best[0] if query_name.startswith("detection") else min(best)
            )


def with_spark(url: str, folder: Path, limit: Length) -> Iterator[Row]:
    """Scan a Parquet folder that gets a partition before each run."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    chance = random.Random(20130208)
    spark = tg.spark_session(folder / "warehouse")
    suite = tg.Suite(
        "scanned",
        [
            tg.Size(),
            tg.Completeness("x"),
            tg.Mean("x"),
            tg.ApproxQuantile("x", 0.5),
            tg.Histogram("kind"),
        ],
        windows=ROLL_UP_WINDOWS,
    )
    with tg.Repository(url, artifacts=folder / "artifacts") as repository:

        def write(day: int) -> None:
            target = folder / "scanned" / f"ds={FIRST_DAY + dt.timedelta(days=day):%Y-%m-%d}"
            target.mkdir(parents=True, exist_ok=True)
            rows = chance.randrange(900, 1100)
            x = [None if chance.random() < 0.01 else chance.gauss(10, 1) for _ in range(rows)]
            kinds = [chance.choice(KIND_VALUES) for _ in range(rows)]
            pq.write_table(pa.table({"x": x, "kind": kinds}), target / "part.parquet")

        def step(number: int) -> None:
            write(number)
            if number and number % 10 == 0:
                write(chance.randrange(number))
            tg.analyze(str(folder / "scanned"), suite, repository=repository, spark=spark)
            repository.detect("scanned")

        done = 0.0
        for line in in_parts(repository, limit, step):
            yield line
            done = line["runs"]
        assert len(repository.partitions("scanned")) == done
    spark.stop()


def show(title: str, rows: Iterator[Row]) -> list[Row]:
    """Print a table line by line, and return its rows."""
    print(f"\n{title}")
    results: list[Row] = []
    for row in rows:
        if not results:
            print("  ".join(f"{name:>13}" for name in row))
        cells = (f"{value:>13,.{0 if value >= 100 else 1}f}" for value in row.values())
        print("  ".join(cells), flush=True)
        results.append(row)
    return results


def main() -> None:
    """Run the selected parts, and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument(
        "--each",
        type=int,
        default=500,
        help="runs after which the next dataset begins: a run costs what its own history does",
    )
    parser.add_argument("--tables", type=int, default=50)
    parser.add_argument("--days", type=int, default=60, help="of the year")
    parser.add_argument(
        "--backfill", type=int, default=0, help="days that are there before, by one run a table"
    )
    parser.add_argument("--spark", type=int, default=0, help="runs with Spark")
    parser.add_argument(
        "--seconds", type=float, default=math.inf, help="end each part after so long, if not before"
    )
    parser.add_argument("--url", help="an empty PostgreSQL database; SQLite if left out")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)

        def url(name: str) -> str:
            return options.url or f"sqlite:///{folder / name}.db"

        if options.runs:
            results["runs"] = show(
                f"{options.runs:,} runs on datasets of {options.each} partitions",
                runs(url("runs"), folder, Length(options.runs, options.seconds), options.each),
            )
        if options.tables and options.days:
            times: Row = {}
            limit = Length(options.tables * options.days, options.seconds)
            rows = year(url("year"), folder, options.tables, limit, options.backfill, times)
            title = f"{options.tables} tables on {options.days} days after {options.backfill}"
            results["year"] = show(title, rows)
            for name, value in times.items():
                print(f"{name[:-4]:<28}{value:>10,.1f} ms")
            results["reading after the year"] = times
        if options.spark:
            rows = with_spark(url("spark"), folder, Length(options.spark, options.seconds))
            results["spark"] = show(f"{options.spark} runs with Spark", rows)
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
