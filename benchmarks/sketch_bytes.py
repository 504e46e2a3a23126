"""Bytes of the distributions of a feature in an hour, as they are kept and as they might be or were.

    python benchmarks/sketch_bytes.py [--rows 2083] [--repeats 20] [--k 12] [--json FILE]

Kept is a `SketchPairs`: a sketch of the values that are as logged, of both sides of those that are not, and of
the differences of these. Beside it: a sketch of each side and of all differences, as before, of doubles and of
floats. All are compressed as the repository does it. Values are those of benchmarks/consistency.py, counts, prices in
cents, floats kept as doubles, and doubles of which all digits differ; a share of them is other than logged.
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

sys.path[0] = str(Path(__file__).resolve().parents[1])  # the folder here has a repository.py

from tidegauge.analyzers.measures.quantiles import KllState, SketchPairs, sketch_size
from tidegauge.consistency.compare.distributions import RANK_ERROR_AT_ONE

VALUES = {
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


def kept(raw):
    """Return how many bytes are stored, compressed where it pays."""
    return min(len(raw), len(zlib.compress(raw)))


def main():
    """Print a table and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2083, help="50,000 a day")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--k", type=int, default=12)
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/sketch_bytes.json"))
    asked = parser.parse_args()
    k = sketch_size(RANK_ERROR_AT_ONE / asked.k)
    results = []
    for share, (name, draw) in product((0.0, 0.01, 0.1, 0.5), VALUES.items()):
        rng = np.random.default_rng(7)
        sums = dict.fromkeys(("doubles", "floats", "pairs"), 0)
        for _ in range(asked.repeats):
            logged = draw(rng, asked.rows)
            other = rng.random(asked.rows) < share
            backfilled = logged + other
            sides = (backfilled - logged, logged, backfilled)
            sums["doubles"] += sum(kept(sketched(kll_doubles_sketch, k, one)) for one in sides)
            sums["floats"] += sum(
                kept(sketched(kll_floats_sketch, k, one.astype(np.float32))) for one in sides
            )
            delta = (backfilled - logged)[other]
            parts = (logged[~other], logged[other], backfilled[other], delta)
            pairs = SketchPairs.from_parts(
                *(KllState(sketched(kll_doubles_sketch, k, one)) for one in parts)
            )
            sums["pairs"] += kept(pairs.pack())
        means = {what: round(total / asked.repeats) for what, total in sums.items()}
        results.append({
            "other than logged": share, "values": name, **means,
            "floats by doubles": round(means["floats"] / means["doubles"], 2),
            "pairs by doubles": round(means["pairs"] / means["doubles"], 2),
        })  # fmt: skip
    table = Table(*results[0])
    for one in results:
        table.add_row(*map(str, one.values()))
    Console(width=120).print(table)
    asked.json.parent.mkdir(parents=True, exist_ok=True)
    asked.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
