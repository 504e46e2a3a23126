"""Bytes of the distributions of a feature in an hour, in the present and in alternative forms.

    python benchmarks/sketch_bytes.py [--rows 2083] [--repeats 20] [--k 12] [--json FILE]

The stored form is a `SketchPairs`: sketches of the values that are equal to the log, of both sides
of the other values, and of their differences. The alternatives are sketches of each side and of all
differences, of doubles and of floats. All are compressed as in the repository. Values are as in
benchmarks/consistency.py: counts, prices in cents, floats stored as doubles, and doubles with all
digits different; a share of them differs from the log.
"""

from __future__ import annotations

import argparse
import json
import sys
import zlib
from itertools import product
from pathlib import Path

import numpy as np
from datasketches import kll_doubles_sketch, kll_floats_sketch
from rich.console import Console
from rich.table import Table

# the folder of this script also contains repository.py
sys.path[0] = str(Path(__file__).resolve().parents[1])

from tidegauge.analyzers.measures.quantiles import KllState, SketchPairs, sketch_size
from tidegauge.consistency.compare.distributions import RANK_ERROR_AT_ONE

VALUE_SAMPLES = {
    "of the benchmark": lambda rng, rows: np.floor(rng.random(rows) * 1000) / 7,
    "counts": lambda rng, rows: rng.poisson(3, rows).astype(float),
    "cents": lambda rng, rows: np.round(rng.lognormal(3, 1, rows), 2),
    "floats": lambda rng, rows: rng.lognormal(0, 2, rows).astype(np.float32).astype(float),
    "all digits": lambda rng, rows: rng.lognormal(0, 2, rows),
}


def sketched(make, k, values):
    """Return the bytes of a sketch of values."""
    if not len(values):
        return b""
    sketch = make(k)
    sketch.update(values)
    return bytes(sketch.serialize())


def stored_size(raw):
    """Return the number of stored bytes, compressed where it pays."""
    return min(len(raw), len(zlib.compress(raw)))


def main():
    """Print a table and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2083, help="50,000 a day")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--k", type=int, default=12)
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/sketch_bytes.json"))
    args = parser.parse_args()
    k = sketch_size(RANK_ERROR_AT_ONE / args.k)
    results = []
    for share, (name, draw) in product((0.0, 0.01, 0.1, 0.5), VALUE_SAMPLES.items()):
        rng = np.random.default_rng(7)
        sums = dict.fromkeys(("doubles", "floats", "pairs"), 0)
        for _ in range(args.repeats):
            logged = draw(rng, args.rows)
            other = rng.random(args.rows) < share
            backfilled = logged + other
            sides = (backfilled - logged, logged, backfilled)
            sums["doubles"] += sum(
                stored_size(sketched(kll_doubles_sketch, k, side)) for side in sides
            )
            sums["floats"] += sum(
                stored_size(sketched(kll_floats_sketch, k, side.astype(np.float32)))
                for side in sides
            )
            delta = (backfilled - logged)[other]
            parts = (logged[~other], logged[other], backfilled[other], delta)
            pairs = SketchPairs.from_parts(
                *(KllState(sketched(kll_doubles_sketch, k, side)) for side in parts)
            )
            sums["pairs"] += stored_size(pairs.pack())
        means = {kind: round(total / args.repeats) for kind, total in sums.items()}
        results.append({
            "other than logged": share, "values": name, **means,
            "floats by doubles": round(means["floats"] / means["doubles"], 2),
            "pairs by doubles": round(means["pairs"] / means["doubles"], 2),
        })  # fmt: skip
    table = Table(*results[0])
    for side in results:
        table.add_row(*map(str, side.values()))
    Console(width=120).print(table)
    args.json.parent.mkdir(parents=True, exist_ok=True)
    args.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
