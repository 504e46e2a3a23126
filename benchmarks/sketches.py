"""Size, speed and error at the tail of three quantile sketches of similar size, on skewed numbers.

    python benchmarks/sketches.py [--values 1000000] [--repeats 5] [--json FILE]

Each sketch contains doubles, with a parameter that makes it about as large as a REQ sketch of k =
12, the form in which distributions are stored. The error is a rank error: the difference between
the share of values up to the sketch's quantile and the requested rank, divided by the distance of
this rank from 1. At p99.9 an error of 100% means that the quantile can be the maximum.
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

QUANTILE_RANKS = (0.5, 0.99, 0.999, 0.9999)
ZERO_SHARE = 0.95
"""The share of zeros in the data that are mostly zero, as differences are."""
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


def errors(values, quantiles):
    """Return each rank's error, as a share of its distance from 1; a repeated value covers a span."""
    errors = []
    for rank, value in zip(QUANTILE_RANKS, quantiles, strict=True):
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
    args = parser.parse_args()
    rng = np.random.default_rng(7)
    shapes = {
        "lognormal": lambda: rng.lognormal(0, 2, args.values),
        "pareto": lambda: rng.pareto(1.1, args.values),
        "mostly zero": lambda: np.where(
            rng.random(args.values) < ZERO_SHARE, 0.0, rng.pareto(1.5, args.values)
        ),
    }
    results = []
    for shape, draw in shapes.items():
        runs = {name: [] for name in SKETCHES}
        for _ in range(args.repeats):
            drawn = draw()
            ordered, values = np.sort(drawn), drawn.tolist()
            for name, (make, quantile, pack) in SKETCHES.items():
                sketch = make()
                update, began = sketch.update, time.perf_counter()
                for value in values:
                    update(value)
                seconds = time.perf_counter() - began
                quantiles = [quantile(sketch, rank) for rank in QUANTILE_RANKS]
                runs[name].append((len(pack(sketch)), seconds, errors(ordered, quantiles)))
        for name, measured in runs.items():
            sizes, seconds, apart = zip(*measured, strict=True)
            worst = [float(x) for x in np.max(apart, axis=0)]
            speed = args.values / float(np.median(seconds))
            results.append(
                {
                    "data": shape,
                    "sketch": name,
                    "bytes": max(sizes),
                    "updates a second": speed,
                    "worst error": dict(zip(map(str, QUANTILE_RANKS), worst, strict=True)),
                }
            )
    table = Table(title=f"{args.values:,} values, the worst of {args.repeats}")
    for column in (
        "data",
        "sketch",
        "bytes",
        "updates/s",
        *(f"p{100 * r:g}" for r in QUANTILE_RANKS),
    ):
        table.add_column(column, justify="left" if column in {"data", "sketch"} else "right")
    for result in results:
        errors_text = [f"{100 * error:.2f}%" for error in result["worst error"].values()]
        speed = f"{result['updates a second']:,.0f}"
        table.add_row(result["data"], result["sketch"], f"{result['bytes']:,}", speed, *errors_text)
    Console(width=110).print(table)
    args.json.parent.mkdir(parents=True, exist_ok=True)
    args.json.write_text(json.dumps(results, indent=1))
    print(f"written to {args.json}")


if __name__ == "__main__":
    main()
