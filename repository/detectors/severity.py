"""Severity of anomalies, by the size of the departure and by how much of the table it concerns."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from math import inf, isfinite
from typing import Any

from tidegauge.analyzers.core.metric import Scale
from tidegauge.repository.numerics.counts import SMALL

EXTREMES = frozenset({"Maximum", "MaxLength", "Minimum", "MinLength"})
"""Metrics that a single row can move."""
SHARES = (0.01, 0.1)
"""Departures of shares from which they are a warning, and an error."""
COUNTS = (0.1, 0.5)
"""Relative departures of counts from which they are a warning, and an error."""
NUMBERS = 0.5
"""Relative departure of other numbers from which it is a warning."""


class Severity(StrEnum):
    """Severity of an anomaly."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def severity_of(series: Mapping[str, Any], value: float, expected: float) -> Severity:
    """Return the severity of an anomaly of a series whose monitor sets none.

    Shares: an error from a tenth of the rows, a warning from a hundredth. Counts: an error where
    half of the expected number is missing or there is half as much again, a warning from a tenth.
    Other numbers: a warning from a change by half. Extremes, which a single row can move, and
    smaller changes are information. Counts below thirty are at most a warning. An anomaly of a part
    of the table, by a filter, segment or value, is one step less severe.

    Parameters
    ----------
    series : mapping
        Row with ``scale``, ``kind``, ``filter`` and ``segment``.
    value, expected : float
        A value that is not finite departs without bound; NaN as expected value is unknown, and a
        warning.

    Examples
    --------
    >>> rows = {"scale": "count", "kind": "Size", "filter": "", "segment": ""}
    >>> str(severity_of(rows, 400, 1000)), str(severity_of(rows, 800, 1000))
    ('error', 'warning')
    >>> str(severity_of(rows | {"filter": "origin = 'EWR'"}, 400, 1000))
    'warning'
    """
    steps = list(Severity)
    step = steps.index(_whole(series, value, expected))
    if series["filter"] or series["segment"] or series["kind"] == "Histogram":
        step -= 1
    return steps[max(step, 0)]


def _whole(series: Mapping[str, Any], value: float, expected: float) -> Severity:
    if not isfinite(expected):
        return Severity.WARNING
    if series["kind"] in EXTREMES:
        return Severity.INFO
    off = abs(value - expected)
    scale = Scale(series["scale"])
    if scale is Scale.DISTANCE:
        return Severity.WARNING
    size = off if scale is Scale.RATIO else off / abs(expected) if expected else inf
    if scale is Scale.RATIO or scale is Scale.COUNT:
        warning, error = SHARES if scale is Scale.RATIO else COUNTS
        few = scale is Scale.COUNT and max(value, expected) < SMALL
        if not size < error and not few:
            return Severity.ERROR
        return Severity.WARNING if size >= warning else Severity.INFO
    return Severity.INFO if size < NUMBERS else Severity.WARNING
