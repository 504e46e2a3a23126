"""MSTL of statsforecast with conformal limits, in an environment of its own.

    python -m venv mstl && mstl/bin/pip install statsforecast
    python benchmarks/histories.py --mstl mstl/bin/python --seeds 6 --tables 4

`statsforecast` needs numba and pins of its own, so it is no requirement of the project: series go to a
process of that environment as a file of numpy, and forecasts come back as another. This file is both ends,
and that process imports nothing of the project.

Each week is forecast from all days before by seasons of a week, the trend by AutoETS. A day alarms if it is
farther off than 99 of 100 days that were forecast before; while there are fewer than 28 none does.
"""

from __future__ import annotations

import math
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np

WEEK = 7
LEARNING = 28
"""Days before the first forecast, and forecasts before the first limit."""
LEVEL = 0.99
LARGEST = 1e9
"""Score of an error where there never was one."""


def mstl(python: str, tables: Sequence[np.ndarray]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return scores and alarms of the series of some tables, each of shape (series, days); NaN is missing.

    A score is the error as a multiple of the limit.
    """
    with tempfile.TemporaryDirectory() as folder:
        given, made = Path(folder, "given.npz"), Path(folder, "made.npz")
        np.savez(given, *tables)
        subprocess.run([python, __file__, str(given), str(made)], check=True)
        with np.load(made) as found:
            expected = [found[name] for name in found.files]
    return [judged(np.abs(values - of)) for values, of in zip(tables, expected, strict=True)]


def judged(errors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return each error as a multiple of the limit by those before, and which exceed it."""
    scores = np.full(errors.shape, np.nan)
    for row, out in zip(errors, scores, strict=True):
        days = np.flatnonzero(~np.isnan(row))
        for place in range(LEARNING, len(days)):
            past = np.sort(row[days[:place]])
            limit = past[min(math.ceil(LEVEL * (place + 1)), place) - 1]
            error = row[days[place]]
            out[days[place]] = error / limit if limit else LARGEST * (error > 0)
    with np.errstate(invalid="ignore"):
        return scores, scores > 1


def forecasts(values: np.ndarray) -> np.ndarray:
    """Forecast each week of a series from the days before; NaN for the first four."""
    from statsforecast.models import MSTL

    there = np.flatnonzero(~np.isnan(values))
    found = np.full(len(values), np.nan)
    if not len(there):
        return found
    filled = values[
        there[np.maximum(np.searchsorted(there, np.arange(len(values)), "right"), 1) - 1]
    ]
    for start in range(LEARNING, len(values), WEEK):
        stop = min(start + WEEK, len(values))
        model = MSTL(season_length=WEEK)
        found[start:stop] = model.forecast(filled[:start], h=stop - start)["mean"]
    return found


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    with np.load(sys.argv[1]) as found:
        made = [np.stack([forecasts(row) for row in found[name]]) for name in found.files]
    np.savez(sys.argv[2], *made)
