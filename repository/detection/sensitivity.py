"""Sensitivities compared by what people said of the incidents that each would have reported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import isnan
from typing import Any, cast

from tidegauge.repository.detection.backtest import BacktestResult
from tidegauge.repository.detection.replay import BacktestHistory
from tidegauge.repository.detectors.base import Detector
from tidegauge.repository.detectors.monitor import Monitor, Sensitivity
from tidegauge.repository.store.frames import columns
from tidegauge.repository.store.rows import SensitivityRow, fields_of

SENSITIVITY_COLUMNS = columns(
    "sensitivity per_month:number found:integer missed:integer false:integer"
    " precision:number recall:number f1:number suggested:flag"
)
LEAST = 5
"""Labelled incidents, real and false, from which another sensitivity than the default is suggested."""
_ORDER = (Sensitivity.NORMAL, Sensitivity.LOW, Sensitivity.HIGH)
"""The sensitivities, the one first that is preferred to others that are as good."""


def monitor_with_sensitivity(detector: Detector | str) -> Monitor:
    """Return a monitor of a detector.

    Raises
    ------
    SuiteError
        If the detector's rule is not one that sensitivities change.
    """
    return Monitor(detector=detector, sensitivity=Sensitivity.NORMAL)  # type: ignore[arg-type]


def sensitivity_rows(past: BacktestHistory, monitor: Monitor) -> list[SensitivityRow]:
    """Return a row for each sensitivity of a monitor, the least sensitive first.

    That with the highest F1 of labelled incidents is suggested; the default, if fewer than `LEAST`
    labels tell anything.
    """
    rows: dict[Sensitivity, dict[str, Any]] = {}
    for level in Sensitivity:
        tried = replace(monitor, rule=None, sensitivity=level)
        result = BacktestResult.from_history(past, tried)
        row = result.row(past)
        row["false"] = result.false_incidents(past)
        rows[level] = fields_of(row, (name for name in SENSITIVITY_COLUMNS if name in row))
        rows[level] |= {"sensitivity": str(level), "f1": _f1(row["precision"], row["recall"])}
    best = _best(rows)
    told = [{**rows[level], "suggested": level is best} for level in Sensitivity]
    return cast("list[SensitivityRow]", told)


def _best(rows: Mapping[Sensitivity, Mapping[str, Any]]) -> Sensitivity:
    known = [level for level in _ORDER if not isnan(rows[level]["f1"])]
    labelled = max(row["found"] + row["missed"] + row["false"] for row in rows.values())
    if labelled < LEAST or not known:
        return Sensitivity.NORMAL
    return max(known, key=lambda level: rows[level]["f1"])  # of equal ones, the first


def _f1(precision: float, recall: float) -> float:
    """Return the harmonic mean of precision and recall; NaN if one is unknown.

    Examples
    --------
    >>> _f1(1.0, 0.5), _f1(0.0, 0.0)
    (0.6666666666666666, 0.0)
    """
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0
