"""MSTL of statsforecast with conformal limits, in an environment of its own.

    python -m venv mstl && mstl/bin/pip install statsforecast
    python benchmarks/histories.py --mstl mstl/bin/python --seeds 6 --tables 4

`statsforecast` needs numba and pins of its own, so it is no requirement of the project: series go to a
process of that environment as a file of numpy, and forecasts come back as another. This file is both ends,
and that process imports nothing of the project.

Each week of days or parts of days, and each seven partitions that are longer, are forecast from all before by
the seasons that are given, the trend by AutoETS. A partition alarms if it is farther off than 99 of 100 that
were forecast before; while there are fewer than 28 none does.
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
"""Partitions before the first forecast, at least two seasons, and forecasts before the first limit."""
LEVEL = 0.99
LARGEST = 1e9
"""Score of an error where there never was one."""


def mstl(
    python: str, tables: Sequence[np.ndarray], seasons: Sequence[int] = (WEEK,)
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return scores and alarms of the series of some tables, each of shape (series, partitions); NaN is missing.

    A score is the error as a multiple of the limit.
    """
    with tempfile.TemporaryDirectory() as folder:
        given, made = Path(folder, "given.npz"), Path(folder, "made.npz")
        np.savez(given, *tables)
        told = map(str, (__file__, given, made, *seasons))
        subprocess.run([python, *told], check=True)
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


def forecasts(values: np.ndarray, seasons: Sequence[int]) -> np.ndarray:
    """Forecast each week of a series from the partitions before; NaN for the first."""
    from statsforecast.models import MSTL

    there = np.flatnonzero(~np.isnan(values))
    found = np.full(len(values), np.nan)
    if not len(there):
        return found
    filled = values[
        there[np.maximum(np.searchsorted(there, np.arange(len(values)), "right"), 1) - 1]
    ]
    ahead = seasons[-1] if len(seasons) > 1 else WEEK
    for start in range(max(LEARNING, 2 * seasons[-1]), len(values), ahead):
        stop = min(start + ahead, len(values))
        model = MSTL(season_length=list(seasons))
        found[start:stop] = model.forecast(filled[:start], h=stop - start)["mean"]
    return found


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    with np.load(sys.argv[1]) as found:
        seasons = [int(text) for text in sys.argv[3:]]
        made = [np.stack([forecasts(row, seasons) for row in found[name]]) for name in found.files]
    np.savez(sys.argv[2], *made)
