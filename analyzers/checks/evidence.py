"""What constraints are judged by: the narrow view of measurements that they are given."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import isfinite
from typing import Any, Protocol

from analyzers.analyzer import Analyzer
from analyzers.metric import Metric

AnyAnalyzer = Analyzer[Any, Any]
Point = tuple[str, float]
"""A partition's name, and the value there."""


@dataclass(frozen=True)
class Earlier:
    """The values of one metric in the partitions before one moment.

    Whatever it is given, it tells nothing of that moment itself and of what came later: so no partition
    is compared with an earlier version of itself, and one that is measured late only with what came
    before it.

    Parameters
    ----------
    moment : datetime or None
        The time of the partition that is judged; without one, nothing is earlier.
    times : sequence of datetime
        Of the partitions, in order.
    partitions : sequence of str
        Their names.
    values : sequence of float
        NaN where there is none.

    Examples
    --------
    >>> days = [datetime(2013, 2, day) for day in (1, 2, 3)]
    >>> earlier = Earlier(days[2], days, ["a", "b", "c"], [1.0, 2.0, 9.0])
    >>> earlier.at(timedelta(days=2)), earlier.last(), earlier.at(timedelta(0))
    (('a', 1.0), ('b', 2.0), None)
    """

    moment: datetime | None
    times: Sequence[datetime] = ()
    partitions: Sequence[str] = ()
    values: Sequence[float] = ()

    def at(self, ago: timedelta) -> Point | None:
        """Return the point exactly so long before; None if there is none."""
        if self.moment is None:
            return None
        wanted, end = self.moment - ago, bisect_left(self.times, self.moment)
        there = bisect_left(self.times, wanted, 0, end)
        return self._point(there) if there < end and self.times[there] == wanted else None

    def last(self) -> Point | None:
        """Return the point of the partition before, if it has a value."""
        end = 0 if self.moment is None else bisect_left(self.times, self.moment)
        return self._point(end - 1) if end else None

    def within(self, length: timedelta) -> list[float]:
        """Return the values of a stretch of time that ends before the moment."""
        if self.moment is None:
            return []
        first = bisect_left(self.times, self.moment - length)
        some = self.values[first : bisect_left(self.times, self.moment)]
        return [value for value in some if isfinite(value)]

    def _point(self, place: int) -> Point | None:
        value = self.values[place]
        return (self.partitions[place], value) if isfinite(value) else None


@dataclass(frozen=True)
class Usual:
    """How it is decided what is usual, as text that `repository.anomalies` reads.

    Attributes
    ----------
    detector : str
    rule : str or None
        The detector's own if None.
    direction : str
    least_effect : float
    """

    detector: str = "Seasonal()"
    rule: str | None = None
    direction: str = "both"
    least_effect: float = 0.0


@dataclass(frozen=True)
class Judgement:
    """What a detector says of one point by the points before it.

    Attributes
    ----------
    unusual : bool
    expected, lower, upper : float
        NaN where the detector expects nothing.
    p_value : float
        The chance of a value so far off if nothing is wrong.
    """

    unusual: bool
    expected: float
    lower: float
    upper: float
    p_value: float


class Evidence(Protocol):
    """What is known of one partition, of one segment of it, or of one DataFrame."""

    def metric(self, analyzer: AnyAnalyzer) -> Metric[Any] | None:
        """Return what was measured; None if nothing was."""

    def earlier(self, analyzer: AnyAnalyzer) -> Earlier | None:
        """Return the values before; None where there is no history at all."""

    def judged(self, analyzer: AnyAnalyzer, usual: Usual) -> Judgement | None:
        """Return what a detector says; None if it could not tell anything."""


@dataclass(frozen=True)
class Measurements:
    """Metrics without a history.

    Examples
    --------
    >>> from analyzers.counts import NumMatches, Size
    >>> metrics = {Size(): Size().compute_metric_from(NumMatches(3))}
    >>> Measurements(metrics).metric(Size()).value
    3.0
    """

    metrics: Mapping[AnyAnalyzer, Metric[Any]] = field(default_factory=dict)

    def metric(self, analyzer: AnyAnalyzer) -> Metric[Any] | None:
        """Look it up."""
        return self.metrics.get(analyzer)

    def earlier(self, analyzer: AnyAnalyzer) -> Earlier | None:  # noqa: ARG002
        """There is none."""
        return None

    def judged(self, analyzer: AnyAnalyzer, usual: Usual) -> Judgement | None:  # noqa: ARG002
        """There is nothing to judge by."""
        return None
