"""Size, speed and error at the tail of three quantile sketches of like size, on skewed numbers.

    python benchmarks/sketches.py [--values 1000000] [--repeats 5] [--json FILE]

Each sketch is of doubles, with a parameter that makes it about as large as a REQ sketch of k = 12, which
is what distributions are kept as. The error is that of a rank: how far the share of the values up to the
quantile that a sketch tells lies from the rank that was asked for, by the distance of this rank from 1.
At p99.9 an error of 100 % means that the value told may as well be the greatest.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
from datasketches import PyDoublesSerDe, kll_doubles_sketch, req_items_sketch, tdigest_double
from rich.console import Console
from rich.table import Table

RANKS = (0.5, 0.99, 0.999, 0.9999)
ZEROS = 0.95
"""The share of zeros in the data that is mostly zero, as differences are."""
SKETCHES = {
    "REQ k = 12": (
        lambda: req_items_sketch(12),
        lambda sketch, rank: sketch.get_quantile(rank, inclusive=True),
        lambda sketch: sketch.serialize(PyDoublesSerDe()),
    ),
    "KLL k = 500": (
        lambda: kll_doubles_sketch(500),
        lambda sketch, rank: sketch.get_quantile(rank, inclusive=True),
        lambda sketch: sketch.serialize(),
    ),
    "t-digest k = 560": (
        lambda: tdigest_double(560),
        lambda sketch, rank: sketch.get_quantile(rank),
        lambda sketch: sketch.serialize(),
    ),
}


def errors(values, found):
    """Return each rank's error, as a share of its distance from 1; a repeated value covers a span."""
    errors = []
    for rank, value in zip(RANKS, found, strict=True):
        below = np.searchsorted(values, value, "left") / len(values)
        upto = np.searchsorted(values, value, "right") / len(values)
        errors.append(max(below - rank, rank - upto, 0.0) / (1 - rank))
    return errors


def main():
    """Print a table and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--values", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/sketches.json"))
    asked = parser.parse_args()
    rng = np.random.default_rng(7)
    shapes = {
        "lognormal": lambda: rng.lognormal(0, 2, asked.values),
        "pareto": lambda: rng.pareto(1.1, asked.values),
        "mostly zero": lambda: np.where(
            rng.random(asked.values) < ZEROS, 0.0, rng.pareto(1.5, asked.values)
        ),
    }
    results = []
    for shape, draw in shapes.items():
        runs = {name: [] for name in SKETCHES}
        for _ in range(asked.repeats):
            drawn = draw()
            ordered, given = np.sort(drawn), drawn.tolist()
            for name, (make, quantile, pack) in SKETCHES.items():
                sketch = make()
                update, began = sketch.update, time.perf_counter()
                for value in given:
                    update(value)
                seconds = time.perf_counter() - began
                found = [quantile(sketch, rank) for rank in RANKS]
                runs[name].append((len(pack(sketch)), seconds, errors(ordered, found)))
        for name, measured in runs.items():
            sizes, seconds, apart = zip(*measured, strict=True)
            worst = [float(x) for x in np.max(apart, axis=0)]
            speed = asked.values / float(np.median(seconds))
            results.append(
                {
                    "data": shape,
                    "sketch": name,
                    "bytes": max(sizes),
                    "updates a second": speed,
                    "worst error": dict(zip(map(str, RANKS), worst, strict=True)),
                }
            )
    table = Table(title=f"{asked.values:,} values, the worst of {asked.repeats}")
    for column in ("data", "sketch", "bytes", "updates/s", *(f"p{100 * r:g}" for r in RANKS)):
        table.add_column(column, justify="left" if column in {"data", "sketch"} else "right")
    for one in results:
        told = [f"{100 * error:.2f} %" for error in one["worst error"].values()]
        speed = f"{one['updates a second']:,.0f}"
        table.add_row(one["data"], one["sketch"], f"{one['bytes']:,}", speed, *told)
    Console(width=110).print(table)
    asked.json.parent.mkdir(parents=True, exist_ok=True)
    asked.json.write_text(json.dumps(results, indent=1))
    print(f"written to {asked.json}")


if __name__ == "__main__":
    main()
