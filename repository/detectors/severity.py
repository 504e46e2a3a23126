"""Severity of anomalies, by the size of the departure and by how much of the table it concerns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from tidegauge.analyzers.core.metric import Scale
from tidegauge.repository.numerics.counts import SMALL
from tidegauge.repository.store.rows import Severity

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidegauge.repository.numerics.arrays import Floats

EXTREMES = frozenset({"Maximum", "MaxLength", "MaxTime", "Minimum", "MinLength", "MinTime"})
"""Metrics that a single row can move."""
DISTINCT = frozenset({"CountDistinct", "ApproxCountDistinct", "ColumnCount", "Recorded"})
"""Metrics that count values or columns, not rows; what is recorded may be either."""
SHARES = (0.01, 0.1)
"""Departures of shares from which they are a warning, and an error."""
COUNTS = (0.1, 0.5)
"""Relative departures of counts from which they are a warning, and an error."""
NUMBERS = 0.5
"""Departure of other numbers, relative to the smaller of the two, from which it is a warning."""
ERROR_FACTOR = 10.0
"""Factor between a number and the expected one from which it is an error: wrong units, or a decimal point."""
MIN_ABSENT_ROWS, MIN_ABSENT_SHARE = 10.0, 0.01
"""Expected rows, and expected share of rows, from which a part of the table that has none is absent."""
WEIGHTS = np.array([0.25, 1.0, 2.0])
"""Weights in the decision of departures that would be information, a warning and an error."""
ALONE, OTHERS, STIRRED = 0.05, 5, 2.0
"""Weight of a number that departs alone: of so many others, none has a score of so much."""


def severity_of(series: Mapping[str, Any], value: float, expected: float) -> Severity:
    """Return the severity of an anomaly of a series whose monitor sets none.

    Shares: an error from a tenth of the rows, a warning from a hundredth. Counts: an error where
    half of the expected number is missing or there is half as much again, a warning from a tenth.
    Other numbers: a warning where the larger is half as much again as the smaller, as from 100 to
    150 or 67, and an error where it is ten times the smaller. Extremes, which a single row can move, and
    smaller changes are information. Counts below thirty are at most a warning. An anomaly of a part of
    the table, by a filter, segment or value, is one step less severe; but it is an error where the part
    has no rows, of ten or more, or of 1 % of all rows.

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
    steps = severity_steps([series], np.array([[value]]), np.array([[expected]]))
    return list(Severity)[int(steps[0, 0])]


def severity_steps(
    series: Sequence[Mapping[str, Any]], values: Floats, expected: Floats
) -> NDArray[np.int8]:
    """Return the severities of many points, as `severity_of` does, as places in `Severity`.

    Parameters
    ----------
    series : sequence of mapping
        A row for each series.
    values, expected : array of float, shape (series, partitions)
    """
    limits = np.array([_limits(row) for row in series], dtype=float).reshape(-1, 3, 1)
    warning, error, gravest = limits[:, 0], limits[:, 1], limits[:, 2]
    scales = [Scale(row["scale"]) for row in series]
    shares, counts = (
        np.array([scale is one for scale in scales], dtype=bool)[:, None]
        for one in (Scale.RATIO, Scale.COUNT)
    )
    part = [bool(row["filter"] or row["segment"] or row["kind"] == "Histogram") for row in series]
    with np.errstate(all="ignore"):
        off = np.abs(values - expected)
        # A half and a double depart equally far, but for counts, of which none can be missing twice.
        smaller = np.minimum(np.abs(values), np.abs(expected))
        usual = np.where(counts, np.abs(expected), smaller)
        relative = np.where(usual == 0, np.inf, off / usual)
        size = np.where(shares, off, relative)
        steps = (~(size < warning)).astype(np.int8) + ~(size < error)
        few = counts & (np.maximum(values, expected) < SMALL)
        larger = np.maximum(np.abs(values), np.abs(expected))
        tenfold = np.isfinite(values) & (expected != 0) & (larger >= ERROR_FACTOR * smaller)
    numbers = np.array(list(map(_is_number, series)), dtype=bool)[:, None]
    steps = np.where(numbers & tenfold, 2, np.minimum(steps, np.where(few, 1, gravest)))
    steps = np.where(np.isfinite(expected), steps, 1)
    reached = np.maximum(steps - np.array(part, dtype=np.int8).reshape(-1, 1), 0)
    of_rows = np.array(part, dtype=bool) & np.array(list(map(_counts_rows, series)), dtype=bool)
    least = np.where(shares, MIN_ABSENT_SHARE, MIN_ABSENT_ROWS)
    reached = np.where(of_rows[:, None] & (values == 0) & (expected >= least), 2, reached)
    found: NDArray[np.int8] = reached.astype(np.int8)
    return found


def weights_of(
    series: Sequence[Mapping[str, Any]], steps: NDArray[np.int8], score: Floats
) -> Floats:
    """Return how much departures matter in the decision, by their severity and company.

    Means and other numbers have heavy tails: one that departs while nothing else in the table stirs
    is mostly chance.

    Parameters
    ----------
    series : sequence of mapping
        A row for each series.
    steps : array of int, shape (series, partitions)
        As `severity_steps` returns them.
    score : array of float, shape (series, partitions)
        NaN is unknown.
    """
    numbers = np.array([Scale(row["scale"]) is Scale.POSITIVE for row in series], dtype=bool)
    known, stirs = ~np.isnan(score), np.nan_to_num(score) >= STIRRED
    quiet = stirs.sum(axis=0) - stirs == 0
    alone = numbers[:, None] & quiet & (known.sum(axis=0) > OTHERS)
    weights: Floats = np.where(alone, np.minimum(ALONE, WEIGHTS[steps]), WEIGHTS[steps])
    return weights


def _limits(series: Mapping[str, Any]) -> tuple[float, float, int]:
    """Return the departures from which a series' are a warning and an error, and the gravest step."""
    scale = Scale(series["scale"])
    if series["kind"] in EXTREMES:
        return inf, inf, 0
    if scale is Scale.DISTANCE:
        return 0, inf, 1
    if scale is Scale.RATIO or scale is Scale.COUNT:
        return *(SHARES if scale is Scale.RATIO else COUNTS), 2
    return NUMBERS, inf, 1


def _is_number(series: Mapping[str, Any]) -> bool:
    """Return whether a series is of numbers such as means and sums, which no single row moves far."""
    number = Scale(series["scale"]) in {Scale.POSITIVE, Scale.SIGNED}
    return number and series["kind"] not in EXTREMES


def _counts_rows(series: Mapping[str, Any]) -> bool:
    """Return whether a series is the number or the share of the rows of a part."""
    name = str(series.get("name", series["kind"]))
    of_value = series["kind"] == "Histogram" and not counts_values("Histogram", name)
    return series["kind"] == "Size" or of_value


def counts_values(kind: str, name: str) -> bool:
    """Return whether a metric counts values, of which one more or less may be news, and not rows.

    Examples
    --------
    >>> counts_values("CountDistinct", "CountDistinct"), counts_values("Histogram", "Histogram.bins")
    (True, True)
    >>> counts_values("Size", "Size"), counts_values("Histogram", "Histogram.abs.AS")
    (False, False)
    """
    return kind in DISTINCT or name.endswith(".bins")
