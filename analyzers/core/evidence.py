"""Evidence: the view of current and earlier metrics that check constraints are evaluated on."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from math import isfinite
from typing import Any, Protocol

from tidegauge.analyzers.core.analyzer import AnyAnalyzer
from tidegauge.analyzers.core.errors import UnknownNameError
from tidegauge.analyzers.core.metric import Metric

NO_DATA = "no data"
"""Displayed status of a constraint or policy that had no row or value to judge."""


class OnEmpty(StrEnum):
    """The outcome of a constraint or policy without data."""

    PASS = "pass"  # noqa: S105 - no password
    WARN = "warn"
    FAIL = "fail"


def as_on_empty(text: str) -> OnEmpty:
    """Return a user's choice.

    Raises
    ------
    UnknownNameError
        If it is not pass, warn or fail.

    Examples
    --------
    >>> as_on_empty("warn").value
    'warn'
    """
    if text not in list(OnEmpty):
        raise UnknownNameError("on_empty", str(text), [str(choice) for choice in OnEmpty])
    return OnEmpty(text)


def with_status(message: str) -> str:
    """Return the message of a result without data, which begins with its status.

    Examples
    --------
    >>> with_status("no row with a value where paid")
    'no data: no row with a value where paid'
    """
    return f"{NO_DATA}: {message}"


Point = tuple[str, float]
"""A partition's name and its value."""


@dataclass(frozen=True)
class EarlierValues:
    """The history of one metric strictly before a point in time.

    Points at or after ``moment`` are never returned, even if given. So a partition is never compared with an
    earlier version of itself, and a late partition only with partitions before it.

    Parameters
    ----------
    moment : datetime or None
        The time of the partition under evaluation; None means that it has no history.
    times : sequence of datetime
        Times of the partitions, ascending.
    partitions : sequence of str
        Names of the partitions.
    values : sequence of float
        Values of the partitions; NaN for missing values.

    Examples
    --------
    >>> days = [datetime(2013, 2, day) for day in (1, 2, 3)]
    >>> earlier = EarlierValues(days[2], days, ["a", "b", "c"], [1.0, 2.0, 9.0])
    >>> earlier.at(timedelta(days=2)), earlier.last(), earlier.at(timedelta(0))
    (('a', 1.0), ('b', 2.0), None)
    """

    moment: datetime | None
    times: Sequence[datetime] = ()
    partitions: Sequence[str] = ()
    values: Sequence[float] = ()

    def at(self, ago: timedelta) -> Point | None:
        """Return the point exactly ``ago`` before the moment; None if there is none."""
        if self.moment is None:
            return None
        time, end = self.moment - ago, bisect_left(self.times, self.moment)
        index = bisect_left(self.times, time, 0, end)
        return self._point(index) if index < end and self.times[index] == time else None

    def last(self) -> Point | None:
        """Return the point of the previous partition; None if it has no value."""
        end = 0 if self.moment is None else bisect_left(self.times, self.moment)
        return self._point(end - 1) if end else None

    def within(self, length: timedelta) -> list[float]:
        """Return the finite values within a time span that ends before the moment."""
        if self.moment is None:
            return []
        start = bisect_left(self.times, self.moment - length)
        values = self.values[start : bisect_left(self.times, self.moment)]
        return [value for value in values if isfinite(value)]

    def _point(self, index: int) -> Point | None:
        value = self.values[index]
        return (self.partitions[index], value) if isfinite(value) else None


@dataclass(frozen=True)
class AnomalySettings:
    """Settings of an anomaly check, as strings that `tidegauge.repository` parses.

    Attributes
    ----------
    detector : str
        The detector, as it is printed.
    rule : str or None
        Alert rule; None for the detector's default.
    direction : str
        Direction of changes that count.
    least_effect : float
        Minimum effect of an anomaly.
    """

    detector: str = "Seasonal()"
    rule: str | None = None
    direction: str = "both"
    least_effect: float = 0.0


@dataclass(frozen=True)
class Judgement:
    """A detector's verdict on one point, based on the points before it.

    Attributes
    ----------
    unusual : bool
        Whether the point is an anomaly.
    expected, lower, upper : float
        Expected value and its bounds; NaN if the detector has no expectation.
    p_value : float
        Probability of a deviation at least this large if nothing is wrong.
    """

    unusual: bool
    expected: float
    lower: float
    upper: float
    p_value: float


class Evidence(Protocol):
    """Metrics and history of one partition, one segment of a partition, or one DataFrame."""

    @property
    def instances(self) -> Collection[str]:
        """The columns that something was measured of."""

    def metric(self, analyzer: AnyAnalyzer) -> Metric[Any] | None:
        """Return the analyzer's metric; None if it was not measured."""

    def earlier(self, analyzer: AnyAnalyzer) -> EarlierValues | None:
        """Return the metric's earlier values; None if there is no history at all."""

    def judged(self, analyzer: AnyAnalyzer, usual: AnomalySettings) -> Judgement | None:
        """Return a detector's verdict; None if it has none."""


@dataclass(frozen=True)
class Measurements:
    """Evidence of metrics without a history.

    Examples
    --------
    >>> from tidegauge.analyzers.measures.counts import NumMatches, Size
    >>> metrics = {Size(): Size().compute_metric_from(NumMatches(3))}
    >>> Measurements(metrics).metric(Size()).value
    3.0
    """

    metrics: Mapping[AnyAnalyzer, Metric[Any]] = field(default_factory=dict)

    @property
    def instances(self) -> Collection[str]:
        """The columns that something was measured of."""
        return {analyzer.instance for analyzer in self.metrics}

    def metric(self, analyzer: AnyAnalyzer) -> Metric[Any] | None:
        """Return the analyzer's metric; None if it was not measured."""
        return self.metrics.get(analyzer)

    def earlier(self, analyzer: AnyAnalyzer) -> EarlierValues | None:
        """Return None: there is no history."""
        return None

    def judged(self, analyzer: AnyAnalyzer, usual: AnomalySettings) -> Judgement | None:
        """Return None: there is no history to judge by."""
        return None


def as_verdict(answer: object, owner: str = "") -> bool:
    """Return the result of a user's function as a verdict. The result must be True or False, including NumPy's.

    Other values that are true in Python, such as an error message, a share or NaN, would let a check pass by
    accident.

    Parameters
    ----------
    answer : object
        The answer.
    owner : str
        Name of the function, for the error.

    Raises
    ------
    TypeError
        If the answer is not a boolean.

    Examples
    --------
    >>> as_verdict(True)
    True
    >>> as_verdict("too many")
    Traceback (most recent call last):
        ...
    TypeError: a verdict is True or False, not 'too many'
    """
    kind = type(answer)
    if isinstance(answer, bool) or (kind.__module__, kind.__name__) in _NUMPY_BOOLEANS:
        return bool(answer)
    msg = f"a verdict is True or False, not {answer!r}"
    raise TypeError(f"{owner}: {msg}" if owner else msg)


_NUMPY_BOOLEANS = {("numpy", "bool"), ("numpy", "bool_")}
"""Modules and names of NumPy's boolean type, before and since NumPy 2. Importing NumPy would take long."""
