"""The table of the detectors' formulas is right: the first scored point, bands, infinite scores."""

import re

import numpy as np
import pytest

from tests.paths import ROOT
from tests.repository.detectors.test_every_detector import EVERY
from tidegauge.analyzers.core.metric import Scale
from tidegauge.repository.detectors.base import (
    DETECTORS,
    History,
    PartitionDetector,
    PartitionLedger,
)
from tidegauge.repository.detectors.changes import VolatilityShift
from tidegauge.repository.detectors.deequ import HoltWinters

PAGE = ROOT / "docs" / "reference" / "detectors.md"


def formulas():
    """Return the rows of the table by detector: score, first scored point, infinite scores, band."""
    part = PAGE.read_text().partition("\n## Formulas\n")[2].partition("\n## ")[0]
    rows = {}
    for line in part.splitlines():
        if line.startswith("| `"):
            name, *cells = (cell.strip() for cell in line.strip("|").split("|"))
            rows[name.strip("`")] = cells
    return rows


def history(points, value=None, metrics=5):
    """Metrics of some days without gaps; the first has `value` on the tenth day from the end."""
    values = 100 + 5 * np.random.default_rng(1).normal(size=(metrics, points))
    if value is not None:
        values[0, -10] = value
    times = np.arange("2026-01-01", points, dtype="M8[D]").astype("M8[s]")
    arrived = times + np.timedelta64(30, "h")
    version = np.ones(points, dtype=np.int64)
    ledger = PartitionLedger(arrived, version, [{"a": "int"}] * points, arrived[-1])
    rows = np.full_like(values, 1000.0)
    return History(times, values, rows, [Scale.SIGNED] * metrics, ledger=ledger)


def test_every_detector_has_its_formula():
    rows = formulas()
    assert set(rows) == set(DETECTORS)
    for name, cells in rows.items():
        assert len(cells) == 4, name
        assert all(cells), name


@pytest.mark.parametrize("detector", EVERY)
def test_the_table_describes_what_each_detector_does(detector):
    _, begins, infinite, band = formulas()[type(detector).__name__]
    points = 150 if isinstance(detector, VolatilityShift) else 60  # it compares seven weeks
    metrics = 1 if isinstance(detector, HoltWinters) else 5  # it is fitted at each point
    usual = detector.score(history(points, metrics=metrics))
    scored = np.flatnonzero(~np.isnan(usual.score[0]))
    assert int(begins) == scored[0] + 1
    sides = (not np.isnan(usual.lower[0, -10]), not np.isnan(usual.upper[0, -10]))
    bands = {"both sides": (True, True), "upper": (False, True), "none": (False, False)}
    assert sides == bands[re.split("[:,]", band)[0]]

    assert np.isnan(detector.score(history(points, np.nan, metrics)).score[0, -10]) == (
        not isinstance(detector, PartitionDetector)
    )
    odd = detector.score(history(points, np.inf, metrics)).score[0, -10]
    if infinite.startswith("outside"):
        assert odd == 300
    elif infinite == "not scored" and not isinstance(detector, PartitionDetector):
        assert np.isnan(odd)
    else:
        assert odd < 3  # the partition is scored by its other metrics, or by no metric
