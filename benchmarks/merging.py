"""Merge time of a year of daily states, without Spark.

    python benchmarks/merging.py [--days 365] [--json FILE]

Fifty analyzers of five columns: counts, ratios, extremes, moments, sums, HyperLogLog and KLL
sketches of 10,000 different values a day, and small frequencies. The repository is a SQLite file.
The time is the best of three, on one thread, including reading. The script makes importing
`pyspark` impossible.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import sys
import tempfile
import time
from pathlib import Path

# The folder of this script contains a script named like one of our packages.
sys.path[0] = str(Path(__file__).resolve().parents[1])

import numpy as np
from datasketches import hll_sketch, kll_doubles_sketch

import tidegauge as tg
from tidegauge.analyzers.core.metric import Success
from tidegauge.analyzers.core.partitions import Partition
from tidegauge.analyzers.measures.cardinality import HllState
from tidegauge.analyzers.measures.counts import NumMatches, NumMatchesAndCount
from tidegauge.analyzers.measures.extremes import MaxState, MinState
from tidegauge.analyzers.measures.frequencies import FrequenciesAndNumRows
from tidegauge.analyzers.measures.moments import StandardDeviationState, SumAndCount
from tidegauge.analyzers.measures.quantiles import KllState
from tidegauge.analyzers.runs.ledger import MeasuredPartition, Measurement, RunSpec

sys.modules["pyspark"] = None  # any import of it fails from here on
ROWS_PER_PARTITION = 10_000
COLUMN_COUNT = 5


def hll(values: np.ndarray) -> HllState:
    """Return a HyperLogLog of a day's values."""
    sketch = hll_sketch(12)
    for value in values.tolist():
        sketch.update(value)
    return HllState(sketch.serialize_compact(), len(values))


def kll(values: np.ndarray) -> KllState:
    """Return a KLL sketch of a day's values."""
    sketch = kll_doubles_sketch(200)
    sketch.update(values)
    return KllState(sketch.serialize())


def states(column: str, values: np.ndarray) -> list:
    """Return the analyzers of a column, each with its state of a day."""
    n = len(values)
    lower, upper, total = float(values.min()), float(values.max()), float(values.sum())
    groups = {(f"{i}",): int(n // 8) for i in range(8)}
    spread = StandardDeviationState(n, total / n, float(((values - total / n) ** 2).sum()))
    quantiles = kll(values)
    return [
        (tg.Completeness(column), NumMatchesAndCount(n - 1, n)),
        (tg.Minimum(column), MinState(lower, n)),
        (tg.Maximum(column), MaxState(upper, n)),
        (tg.Sum(column), SumAndCount(total, n)),
        (tg.Mean(column), SumAndCount(total, n)),
        (tg.StandardDeviation(column), spread),
        (tg.ApproxCountDistinct(column), hll(values)),
        (tg.ApproxQuantile(column, 0.5), quantiles),
        (tg.ApproxQuantile(column, 0.99, relative_error=0.01), quantiles),
        (tg.Uniqueness(column), FrequenciesAndNumRows.from_groups(groups.items())),
    ]


def day(number: int, chance: np.random.Generator) -> tuple[list, MeasuredPartition]:
    """Return the analyzers, and a measured day."""
    date = dt.datetime(2013, 1, 1, tzinfo=dt.UTC) + dt.timedelta(days=number)
    state_pairs = []
    for c in range(COLUMN_COUNT):
        state_pairs += states(f"column_{c}", chance.normal(size=ROWS_PER_PARTITION) * 1000)
    state_pairs[0] = (tg.Size(), NumMatches(ROWS_PER_PARTITION))
    measurements = tuple(
        Measurement(a, Success(x), a.compute_metric_from(x)) for a, x in state_pairs
    )
    name = Partition(("ds",), (date.strftime("%Y-%m-%d"),))
    measured = MeasuredPartition(name, date, "f", date, "[]", ROWS_PER_PARTITION, measurements)
    return [analyzer for analyzer, _ in state_pairs], measured


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    chance = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as folder, tg.Repository(f"sqlite:///{folder}/r.db") as repo:
        run = repo.store.open_run(RunSpec("d", "t", ("ds",)))
        for number in range(options.days):
            analyzers, measured = day(number, chance)
            repo.store.commit_batch(run, [measured])
        analyzers = list(dict.fromkeys(analyzers))
        best: dict[str, float] = {}
        totals = []
        for _ in range(3):
            start = time.perf_counter()
            for analyzer in analyzers:
                started = time.perf_counter()
                assert not repo.merge("d", analyzer).failed
                kind = type(analyzer).__name__
                took = (time.perf_counter() - started) * 1000
                best[kind] = min(best.get(kind, took), took)
            totals.append(time.perf_counter() - start)
        for kind, took in sorted(best.items(), key=lambda item: item[1]):
            print(f"{kind:<24} {took:>8.1f} ms")
        print(f"{len(analyzers)} analyzers of {options.days} days: {min(totals):.2f} s")
    if options.json:
        report = {"analyzers": best, "all, s": min(totals)}
        options.json.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
