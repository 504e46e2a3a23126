"""Repository write and read times as the history grows.

    python benchmarks/repository.py [--postgres URL] [--series N] [--points N] [--json FILE]

The script saves series of N partitions with the same call as runs, with and without states. Then it
reads them as the front end does: one series, the newest point of all series, the last 30 partitions
of all series; and all of that again when the history has ``--points`` points. For comparison, it
measures a repository in one JSON file, as Deequ has: each save reads, extends and writes the whole
file.

Times are the best of twenty reads, or of three long reads, in this process. The databases are in
temporary folders. The PostgreSQL database must be empty and is left full.
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

# This script is named like one of our packages.
sys.path[0] = str(Path(__file__).resolve().parents[1])

import tidegauge as tg
from tidegauge.analyzers.core.errors import MetricRuntimeError
from tidegauge.analyzers.core.metric import Failure, Success
from tidegauge.analyzers.core.partitions import Partition
from tidegauge.analyzers.measures.counts import NumMatchesAndCount
from tidegauge.analyzers.runs.ledger import MeasuredPartition, Measurement, RunSpec

FIRST_DAY = dt.datetime(2013, 1, 1, tzinfo=dt.UTC)
YEAR_DAYS = 365
BATCH_DAYS = 12  # the batch of a run with 10,000 measurements
NO_STATE = Failure(MetricRuntimeError("imported without a state"))


def partition(
    number: int, analyzers: list, *, states: bool, chance: random.Random
) -> MeasuredPartition:
    """Return one measured day."""
    day = FIRST_DAY + dt.timedelta(days=number)
    measurements = []
    for analyzer in analyzers:
        state = NumMatchesAndCount(chance.randrange(1000), 1000)
        outcome = Success(state) if states else NO_STATE
        measurements.append(Measurement(analyzer, outcome, analyzer.compute_metric_from(state)))
    name = Partition(("ds",), (day.strftime("%Y-%m-%d"),))
    return MeasuredPartition(name, day, "f", day, "[]", 1000, tuple(measurements))


def save(repo, dataset: str, analyzers: list, days: range, *, states: bool) -> float:
    """Commit days in batches; return the seconds for committing."""
    chance = random.Random(1)
    run = repo.store.open_run(RunSpec(dataset, "t", ("ds",)))
    seconds = 0.0
    for first in range(days.start, days.stop, BATCH_DAYS):
        days_of_batch = range(first, min(days.stop, first + BATCH_DAYS))
        batch = [partition(n, analyzers, states=states, chance=chance) for n in days_of_batch]
        started = time.perf_counter()
        repo.store.commit_batch(run, batch)
        seconds += time.perf_counter() - started
    return seconds


def best(read, expected: int, times: int = 20) -> float:
    """Return the best time of some reads in milliseconds; each must return the expected number of rows."""
    seconds = []
    for _ in range(times):
        started = time.perf_counter()
        row_count = len(read())
        seconds.append(time.perf_counter() - started)
        assert row_count == expected, (row_count, expected)
    return min(seconds) * 1000


def reads(repo, dataset: str, series: int, days: int) -> dict[str, float]:
    """Return the milliseconds of the front end's reads."""

    def moment(days_ago: int) -> str:
        return (FIRST_DAY + dt.timedelta(days=days - days_ago)).strftime("%Y-%m-%d")

    analyzer = tg.Completeness(f"column_{series // 2}")
    return {
        "one series, 365 points, ms": best(
            lambda: repo.metrics(dataset, analyzer=analyzer, since=moment(YEAR_DAYS)), YEAR_DAYS
        ),
        "newest of all series, ms": best(lambda: repo.latest(dataset), series),
        "last 30 partitions of all series, ms": best(
            lambda: repo.metrics(dataset, since=moment(30)), 30 * series, times=3
        ),
        "one series thinned to 100 of all, ms": best(
            lambda: repo.chart(dataset, analyzer=analyzer, points=100), 100
        ),
    }


def measure(url: str, series: int, points: int, folder: Path) -> dict[str, float]:
    """Return all results of one database."""
    analyzers = [tg.Completeness(f"column_{i}") for i in range(series)]
    results: dict[str, float] = {}
    with tg.Repository(url, artifacts=folder / "artifacts") as repo:
        seconds = save(repo, "with states", analyzers, range(73), states=True)
        results["saved with states, points/s"] = series * 73 / seconds
        seconds = save(repo, "flights", analyzers, range(YEAR_DAYS), states=False)
        results["saved, points/s"] = series * YEAR_DAYS / seconds
        results.update(reads(repo, "flights", series, YEAR_DAYS))
        days = points // series
        if days > YEAR_DAYS:
            seconds = save(repo, "flights", analyzers, range(YEAR_DAYS, days), states=False)
            results["saved from there on, points/s"] = series * (days - YEAR_DAYS) / seconds
            if repo.database.is_sqlite:
                results["file, MB"] = repo.database.file.stat().st_size / 1e6
            for name, value in reads(repo, "flights", series, days).items():
                results[f"at {points:,} points: {name}"] = value
    return results


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
                our_times, their_times = [], []
                for n in range(5):
                    day = partition(done, analyzers, states=False, chance=chance)
                    done += 1
                    started = time.perf_counter()
                    repo.store.commit_batch(run, [day])
                    our_times.append(time.perf_counter() - started)
                    started = time.perf_counter()
                    stored = json.loads(file.read_text())
                    stored.append(_result(size + n, metrics))
                    partial = file.with_suffix(".new")
                    partial.write_text(json.dumps(stored))
                    partial.replace(file)
                    their_times.append(time.perf_counter() - started)
                rows.append(
                    {
                        "results in the history": size,
                        "one JSON file, ms": min(their_times) * 1000,
                        "ours, ms": min(our_times) * 1000,
                    }
                )
    return rows


def _result(number: int, metrics: int) -> dict:
    """Return one result in the form of Deequ's file."""
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
            timings = measure(url, options.series, options.points, Path(folder))
            results[kind] = timings
            for name, value in timings.items():
                print(f"{kind:<12} {name:<64} {value:>12,.1f}", flush=True)
    results["growth"] = growth((100, 500, 1000, 2000))
    for row in results["growth"]:
        print("  ".join(f"{name} {value:,.1f}" for name, value in row.items()))
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
