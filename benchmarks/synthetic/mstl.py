"""MSTL of statsforecast with conformal limits, in a separate environment.

    python -m venv mstl && mstl/bin/pip install statsforecast
    python benchmarks/histories.py --mstl mstl/bin/python --seeds 6 --tables 4

`statsforecast` needs numba and its own pins, so the project does not require it. Series go to a
process of that environment as a NumPy file, and forecasts come back as another. This file contains
both ends; that process imports nothing of the project.

Each week of days or parts of days, and each seven longer partitions, are forecast from all earlier
partitions with the given seasons, and the trend by AutoETS. A partition alarms if its error exceeds
99% of the earlier errors; with fewer than 28 earlier errors it does not alarm.
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

WEEK_DAYS = 7
LEARNING_PARTITIONS = 28
"""Partitions before the first forecast, at least two seasons, and forecasts before the first limit."""
LIMIT_LEVEL = 0.99
MAX_SCORE = 1e9
"""Score of an error if all earlier errors are 0."""


def mstl(
    python: str, tables: Sequence[np.ndarray], seasons: Sequence[int] = (WEEK_DAYS,)
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return scores and alarms of the series of some tables, each of shape (series, partitions).

    A score is the error as a multiple of the limit; NaN is missing.
    """
    with tempfile.TemporaryDirectory() as folder:
        input_file, output_file = Path(folder, "given.npz"), Path(folder, "made.npz")
        np.savez(input_file, *tables)
        arguments = map(str, (__file__, input_file, output_file, *seasons))
        subprocess.run([python, *arguments], check=True)
        with np.load(output_file) as arrays:
            expected = [arrays[name] for name in arrays.files]
    return [
        judged(np.abs(values - forecast)) for values, forecast in zip(tables, expected, strict=True)
    ]


def judged(errors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return each error as a multiple of the limit from earlier errors, and whether it exceeds the limit."""
    scores = np.full(errors.shape, np.nan)
    for row, out in zip(errors, scores, strict=True):
        days = np.flatnonzero(~np.isnan(row))
        for index in range(LEARNING_PARTITIONS, len(days)):
            past = np.sort(row[days[:index]])
            limit = past[min(math.ceil(LIMIT_LEVEL * (index + 1)), index) - 1]
            error = row[days[index]]
            out[days[index]] = error / limit if limit else MAX_SCORE * (error > 0)
    with np.errstate(invalid="ignore"):
        return scores, scores > 1


def forecasts(values: np.ndarray, seasons: Sequence[int]) -> np.ndarray:
    """Forecast each week of a series from the earlier partitions; NaN for the first ones."""
    from statsforecast.models import MSTL

    present = np.flatnonzero(~np.isnan(values))
    expected = np.full(len(values), np.nan)
    if not len(present):
        return expected
    filled = values[
        present[np.maximum(np.searchsorted(present, np.arange(len(values)), "right"), 1) - 1]
    ]
    ahead = seasons[-1] if len(seasons) > 1 else WEEK_DAYS
    for start in range(max(LEARNING_PARTITIONS, 2 * seasons[-1]), len(values), ahead):
        stop = min(start + ahead, len(values))
        model = MSTL(season_length=list(seasons))
        expected[start:stop] = model.forecast(filled[:start], h=stop - start)["mean"]
    return expected


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    with np.load(sys.argv[1]) as arrays:
        seasons = [int(text) for text in sys.argv[3:]]
        results = [
            np.stack([forecasts(row, seasons) for row in arrays[name]]) for name in arrays.files
        ]
    np.savez(sys.argv[2], *results)
