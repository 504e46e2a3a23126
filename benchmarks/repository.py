"""Repository write and read times as the history grows.

    python benchmarks/repository.py [--postgres URL] [--series N] [--points N] [--json FILE]

Saves series of N partitions by the same call that runs use, with and without states, then reads them
as the front end does: one series, the newest point of all, the last 30 partitions of all; and all of
that again when the history holds ``--points`` points. Beside it, what a repository in one JSON file
costs, as Deequ's is: each save reads, extends and writes the whole file.

Times are the best of twenty reads, or of three where they are long, in this process. The databases lie in temporary folders; the PostgreSQL
database must be empty and is left full.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import random
import sys
import tempfile
import time
from pathlib import Path

# This script is named as a package of ours, which is the one to be found.
sys.path[0] = str(Path(__file__).resolve().parents[1])

import tidegauge as tg
from tidegauge.analyzers.core.errors import MetricRuntimeError
from tidegauge.analyzers.core.metric import Failure, Success
from tidegauge.analyzers.core.partitions import Partition
from tidegauge.analyzers.measures.counts import NumMatchesAndCount
from tidegauge.analyzers.runs.ledger import MeasuredPartition, Measurement, RunSpec

DAY = dt.datetime(2013, 1, 1, tzinfo=dt.UTC)
YEAR = 365
BATCH = 12  # what a run of 10,000 measurements holds at once
NO_STATE = Failure(MetricRuntimeError("imported without a state"))


def partition(
    number: int, analyzers: list, *, states: bool, chance: random.Random
) -> MeasuredPartition:
    """Return one day, measured."""
    day = DAY + dt.timedelta(days=number)
    found = []
    for analyzer in analyzers:
        state = NumMatchesAndCount(chance.randrange(1000), 1000)
        outcome = Success(state) if states else NO_STATE
        found.append(Measurement(analyzer, outcome, analyzer.compute_metric_from(state)))
    name = Partition(("ds",), (day.strftime("%Y-%m-%d"),))
    return MeasuredPartition(name, day, "f", day, "[]", 1000, tuple(found))


def save(repo, dataset: str, analyzers: list, days: range, *, states: bool) -> float:
    """Commit days in batches; return the seconds that committing took."""
    chance = random.Random(1)
    run = repo.store.open_run(RunSpec(dataset, "t", ("ds",)))
    seconds = 0.0
    for first in range(days.start, days.stop, BATCH):
        some = range(first, min(days.stop, first + BATCH))
        batch = [partition(n, analyzers, states=states, chance=chance) for n in some]
        started = time.perf_counter()
        repo.store.commit_batch(run, batch)
        seconds += time.perf_counter() - started
    return seconds


def best(read, expected: int, times: int = 20) -> float:
    """Return the best time of some reads in milliseconds, each of which returns so many rows."""
    seconds = []
    for _ in range(times):
        started = time.perf_counter()
        found = len(read())
        seconds.append(time.perf_counter() - started)
        assert found == expected, (found, expected)
    return min(seconds) * 1000


def reads(repo, dataset: str, series: int, days: int) -> dict[str, float]:
    """Return the milliseconds of the reads of the front end."""

    def moment(back: int) -> str:
        return (DAY + dt.timedelta(days=days - back)).strftime("%Y-%m-%d")

    one = tg.Completeness(f"column_{series // 2}")
    return {
        "one series, 365 points, ms": best(
            lambda: repo.metrics(dataset, analyzer=one, since=moment(YEAR)), YEAR
        ),
        "newest of all series, ms": best(lambda: repo.latest(dataset), series),
        "last 30 partitions of all series, ms": best(
            lambda: repo.metrics(dataset, since=moment(30)), 30 * series, times=3
        ),
        "one series thinned to 100 of all, ms": best(
            lambda: repo.chart(dataset, analyzer=one, points=100), 100
        ),
    }


def measure(url: str, series: int, points: int, folder: Path) -> dict[str, float]:
    """Return everything that is measured of one database."""
    analyzers = [tg.Completeness(f"column_{i}") for i in range(series)]
    found: dict[str, float] = {}
    with tg.Repository(url, artifacts=folder / "artifacts") as repo:
        seconds = save(repo, "with states", analyzers, range(73), states=True)
        found["saved with states, points/s"] = series * 73 / seconds
        seconds = save(repo, "flights", analyzers, range(YEAR), states=False)
        found["saved, points/s"] = series * YEAR / seconds
        found.update(reads(repo, "flights", series, YEAR))
        days = points // series
        if days > YEAR:
            seconds = save(repo, "flights", analyzers, range(YEAR, days), states=False)
            found["saved from there on, points/s"] = series * (days - YEAR) / seconds
            if repo.database.is_sqlite:
                found["file, MB"] = repo.database.file.stat().st_size / 1e6
            for name, value in reads(repo, "flights", series, days).items():
                found[f"at {points:,} points: {name}"] = value
    return found


def growth(sizes: tuple[int, ...], metrics: int = 35) -> list[dict[str, float]]:
    """Compare saving one more result as the history grows: one JSON file, and ours."""
    analyzers = [tg.Completeness(f"column_{i}") for i in range(metrics)]
    chance = random.Random(1)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "metrics.json"
        file.write_text("[]")
        with tg.Repository(f"sqlite:///{folder}/r.db") as repo:
            run, done = repo.store.open_run(RunSpec("d", "t", ("ds",))), 0
            for size in sizes:
                while done < size - 5:
                    day = partition(done, analyzers, states=False, chance=chance)
                    repo.store.commit_batch(run, [day])
                    done += 1
                file.write_text(json.dumps([_result(n, metrics) for n in range(size)]))
                ours, theirs = [], []
                for n in range(5):
                    day = partition(done, analyzers, states=False, chance=chance)
                    done += 1
                    started = time.perf_counter()
                    repo.store.commit_batch(run, [day])
                    ours.append(time.perf_counter() - started)
                    started = time.perf_counter()
                    stored = json.loads(file.read_text())
                    stored.append(_result(size + n, metrics))
                    partial = file.with_suffix(".new")
                    partial.write_text(json.dumps(stored))
                    partial.replace(file)
                    theirs.append(time.perf_counter() - started)
                rows.append(
                    {
                        "results in the history": size,
                        "one JSON file, ms": min(theirs) * 1000,
                        "ours, ms": min(ours) * 1000,
                    }
                )
    return rows


def _result(number: int, metrics: int) -> dict:
    """Return one result as Deequ's file holds it."""
    return {
        "resultKey": {"dataSetDate": 1_356_998_400_000 + number * 86_400_000, "tags": {"env": "prod"}},
        "analyzerContext": {
            "metricMap": [
                {
                    "analyzer": {"analyzerName": "Completeness", "column": f"column_{i}"},
                    "metric": {
                        "metricName": "DoubleMetric",
                        "entity": "Column",
                        "instance": f"column_{i}",
                        "name": "Completeness",
                        "value": i / metrics,
                    },
                }
                for i in range(metrics)
            ]
        },
    }  # fmt: skip


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--postgres", help="URL of an empty database")
    parser.add_argument("--series", type=int, default=10_000)
    parser.add_argument("--points", type=int, default=0, help="read again at so many points")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as folder:
        urls = {"SQLite": f"sqlite:///{folder}/r.db"}
        if options.postgres:
            urls["PostgreSQL"] = options.postgres
        for kind, url in urls.items():
            found = measure(url, options.series, options.points, Path(folder))
            results[kind] = found
            for name, value in found.items():
                print(f"{kind:<12} {name:<64} {value:>12,.1f}", flush=True)
    results["growth"] = growth((100, 500, 1000, 2000))
    for row in results["growth"]:
        print("  ".join(f"{name} {value:,.1f}" for name, value in row.items()))
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
