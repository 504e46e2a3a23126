"""Detection time: the newest partition of many series, and a replay of a year.

    python benchmarks/detect_speed.py [--series 5000] [--tables 0] [--json FILE]

`Seasonal` scores arrays in memory on one thread: the newest of 400 daily points, given the scores
of the earlier ones, and all points of 10,000 series over a year. Then both run through a repository
in a SQLite file: the first detection, and the detection after another day, with all reading and
writing. With ``--tables``, so many tables of 20 series and 180 days are detected together as well.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# The folder of this script contains a script named like one of our packages.
sys.path[0] = str(Path(__file__).resolve().parents[1])

import numpy as np

import tidegauge as tg
from benchmarks.synthetic.wide_repository import batches
from tidegauge.analyzers.core.metric import Scale
from tidegauge.analyzers.runs.ledger import MeasuredPartition, RunSpec, RunStatus
from tidegauge.repository.detectors.base import History


def histories(series: int, days: int) -> History:
    """Return counts with a weekly season and noise; a tenth of the series are ratios."""
    draw = np.random.default_rng(20130208)
    level = draw.uniform(5, 15, (series, 1))
    week = draw.normal(0, 0.2, (series, 7))[:, np.arange(days) % 7]
    counts = np.exp(level + week + draw.normal(0, 0.05, (series, days)))
    tenth = series // 10
    counts[:tenth] = np.clip(0.98 + draw.normal(0, 0.005, (tenth, days)), 0, 1)
    weights = np.broadcast_to(np.exp(level), counts.shape).copy()
    scales = [Scale.RATIO] * tenth + [Scale.COUNT] * (series - tenth)
    times = (np.datetime64("2013-01-01") + np.arange(days)).astype("M8[s]")
    return History(times, counts, weights, scales)


def newest(series: int) -> float:
    """Return the seconds for the newest of 400 points, the best of three."""
    history = histories(series, 400)
    detector = tg.Seasonal()
    earlier_scores = detector.score(history.part(slice(0, 399)))
    best = float("inf")
    for _ in range(3):
        started = time.perf_counter()
        detector.score(history, 399, earlier_scores)
        best = min(best, time.perf_counter() - started)
    return best


def replay(series: int) -> float:
    """Return the seconds for all points of a year."""
    history = histories(series, 365)
    started = time.perf_counter()
    tg.Seasonal().score(history)
    return time.perf_counter() - started


def stored(series: int) -> Iterator[float]:
    """Yield the seconds of a first detection over 100 days, and of the detection after another day."""
    values = histories(series, 101).values
    with (
        tempfile.TemporaryDirectory() as folder,
        tg.Repository(f"sqlite:///{folder}/r.db") as repository,
    ):
        for days in (slice(0, 100), slice(100, 101)):
            for i in range(series):
                numbers = dict(zip(DAY_PARTITIONS[days], values[i, days].tolist(), strict=True))
                repository.record("d", f"m{i}", numbers, scale="count")
            started = time.perf_counter()
            repository.detect("d")
            yield time.perf_counter() - started


def many_tables(count: int, series: int = 20, days: int = 180) -> dict[str, float]:
    """Return the seconds and CPU seconds of detections in many tables: the first, after a day, with nothing new."""
    today = dt.datetime.combine(dt.datetime.now(dt.UTC).date(), dt.time(), dt.UTC)
    first_day = today - dt.timedelta(days=days + 1)
    results: dict[str, float] = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        tg.Repository(f"sqlite:///{folder}/r.db") as repository,
    ):

        def store(table: int, part: slice) -> None:
            measured: list[MeasuredPartition] = []
            for batch in batches(series, days + 1, table, days + 1, first_day):
                measured += batch[part]
            run = repository.store.open_run(RunSpec(f"t{table}", f"w.t{table}", ("ds",)))
            repository.store.commit_batch(run, measured)
            repository.store.close_run(run, RunStatus.COMPLETE, {})

        repository.detect()  # loads modules
        steps = {"first": slice(0, days), "next": slice(days, None), "nothing new": None}
        for step, part in steps.items():
            for table in range(count if part else 0):
                store(table, part)
            started, used = time.perf_counter(), time.process_time()
            repository.detect()
            results[f"tables {step}"] = time.perf_counter() - started
            results[f"tables {step}, CPU"] = time.process_time() - used
    return results


DAY_PARTITIONS = ["ds=" + str(np.datetime64("2013-01-01") + n) for n in range(101)]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--series", type=int, default=5000)
    parser.add_argument("--tables", type=int, default=0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results = {"newest": newest(options.series), "replay": replay(2 * options.series)}
    print(f"newest partition of {options.series} series x 400 points: {results['newest']:.2f} s")
    print(f"{2 * options.series} series over a year: {results['replay']:.1f} s")
    small = options.series // 10
    results["first"], results["next"] = stored(small)
    print(
        f"repository, {small} series x 100 days: {results['first']:.2f} s, then another day: {results['next']:.2f} s"
    )
    if options.tables:
        results |= many_tables(options.tables)
        for step in ("first", "next", "nothing new"):
            seconds, cpu = results[f"tables {step}"], results[f"tables {step}, CPU"]
            print(f"{options.tables} tables, {step}: {seconds:.2f} s, {cpu:.2f} s of CPU")
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
