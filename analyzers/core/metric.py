"""Metrics: the result of an analyzer, either a value or the error that prevented it.

A metric's value may be composite (quantiles by key, a histogram). `flatten` turns any metric into
plain numbers under Deequ's names; it is a function, so metric types do not depend on each other.
`subject` and `metric_text` give names of metrics and series in words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, ClassVar, Generic, Protocol, TypeVar, runtime_checkable

from tidegauge.analyzers.core.errors import EmptyStateError, MetricError
from tidegauge.analyzers.core.formatting import DURATION
from tidegauge.analyzers.core.registry import Rendered

_HISTOGRAM_NAME = re.compile(r"Histogram\.(?P<of>abs|ratio)\.(?P<value>.+)", re.DOTALL)
_QUANTILE_NAME = re.compile(r"(?:Approx|Exact|Req)Quantiles?-([0-9.]+)")
_DURATION_METRICS = frozenset({"Freshness"})
"""Metrics that are lengths of time in seconds."""
_TIME_LABELS = {"MinTime": "earliest", "MaxTime": "latest"}
_ORDINAL_SUFFIXES = {1: "st", 2: "nd", 3: "rd"}


def written_scale(name: str, scale: str) -> str:
    """Return the scale in which values of a metric are written: `DURATION` for durations.

    Examples
    --------
    >>> written_scale("Freshness", "signed"), written_scale("Size", "count")
    ('duration', 'count')
    """
    return DURATION if name in _DURATION_METRICS else scale


def subject(series: Mapping[str, Any]) -> str:
    """Describe a series in text: metric, instance, filter and segment.

    Examples
    --------
    >>> row = {"name": "Completeness", "instance": "dep_time", "filter": "origin = 'EWR'", "segment": ""}
    >>> subject(row)
    "Completeness of dep_time where origin = 'EWR'"
    """
    where = f" where {series['filter']}" if series["filter"] else ""
    among = f" in {series['segment']}" if series["segment"] else ""
    return f"{metric_text(series['name'], series['instance'])}{where}{among}"


def metric_text(name: str, instance: str) -> str:
    """Describe a metric of a column, or of several or all.

    Examples
    --------
    >>> metric_text("Mean", "dep_delay")
    'Mean of dep_delay'
    >>> metric_text("ApproxQuantile-0.5", "dep_delay"), metric_text("ApproxQuantiles-0.9", "dep_delay")
    ('median dep_delay', '90th percentile of dep_delay')
    >>> metric_text("Histogram.abs.EV", "carrier"), metric_text("Histogram.ratio.EV", "carrier")
    ('rows with carrier EV', 'share of rows with carrier EV')
    >>> metric_text("MaxTime", "created_at")
    'latest created_at'
    """
    histogram = _HISTOGRAM_NAME.fullmatch(name)
    if histogram:
        share = "share of " if histogram["of"] == "ratio" else ""
        return f"{share}rows with {instance} {histogram['value']}"
    if name == "Histogram.bins":
        return f"distinct values of {instance}"
    if name in _TIME_LABELS:
        return f"{_TIME_LABELS[name]} {instance}"
    quantile = _QUANTILE_NAME.fullmatch(name)
    if quantile:
        percent = float(quantile[1]) * 100
        if percent == 50:
            return f"median {instance}"
        return f"{_ordinal(percent)} percentile of {instance}"
    return name if instance == "*" else f"{name} of {instance}"


def _ordinal(number: float) -> str:
    special = number % 1 or 10 < number % 100 < 14
    return f"{number:g}{'th' if special else _ORDINAL_SUFFIXES.get(int(number) % 10, 'th')}"


T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Entity(StrEnum):
    """Subject of a metric: dataset, column or multicolumn.

    Examples
    --------
    >>> import tidegauge as tg
    >>> tg.Size().entity is Entity.DATASET, str(tg.Mean("fare").entity)
    (True, 'Column')
    """

    DATASET = "Dataset"
    COLUMN = "Column"
    MULTICOLUMN = "Multicolumn"


class Scale(StrEnum):
    """Scale of a metric's values. Detectors choose how to compare values by the scale.

    Examples
    --------
    >>> import tidegauge as tg
    >>> str(tg.Size().scale), tg.Completeness("email").scale is Scale.RATIO
    ('count', True)
    """

    COUNT = "count"
    RATIO = "ratio"
    POSITIVE = "positive"
    SIGNED = "signed"
    DISTANCE = "distance"
    TIME = "time"
    FLAG = "flag"


@dataclass(frozen=True, slots=True)
class Success(Generic[T_co]):
    """A computed value.

    Examples
    --------
    >>> Success(0.75).value
    0.75
    """

    value: T_co


@dataclass(frozen=True, slots=True)
class Failure:
    """The reason why a metric has no value; always a `MetricError`.

    Examples
    --------
    >>> from tidegauge.analyzers.core.errors import MetricRuntimeError
    >>> metric = Metric(Entity.COLUMN, "fare", "Mean", Failure(MetricRuntimeError("overflow")))
    >>> metric.failed, str(metric.outcome.error)
    (True, 'overflow')
    """

    error: MetricError


def attempt(compute: Callable[[], T]) -> Success[T] | Failure:
    """Call ``compute`` and return its result as `Success`, or any exception as `Failure`.

    Examples
    --------
    >>> attempt(lambda: 1 / 4)
    Success(value=0.25)
    >>> attempt(lambda: 1 / 0).error
    MetricRuntimeError('ZeroDivisionError: division by zero')
    """
    try:
        return Success(compute())
    except Exception as error:  # noqa: BLE001 - any failure is a result here
        return Failure(MetricError.from_exception(error).with_traceback(None))


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval for the exact value.

    Attributes
    ----------
    lower, upper : float
        The bounds, both inclusive.
    confidence : float
        The probability that it contains the exact value: 0.954 for two standard errors.

    Examples
    --------
    >>> found = Interval(90.0, 110.0, 0.95)
    >>> found.lower <= 104 <= found.upper
    True
    """

    lower: float
    upper: float
    confidence: float


TWO_SIGMA = 0.9545
"""Confidence of an interval of two standard errors on either side."""

Intervals = Interval | Mapping[str, Interval] | None


@dataclass(frozen=True)
class Metric(Rendered, Generic[T_co]):
    """One measurement of one analyzer.

    Attributes
    ----------
    entity : Entity
        Dataset, column or multicolumn.
    instance : str
        The column, columns joined by commas, ``*``, or the name of a `Compliance`.
    name : str
        Deequ's name of the metric; it never includes the filter.
    outcome : Success or Failure
        The value, or the error.
    weight : float or None
        Number of rows behind the value: the denominator of a ratio, the non-null values of a mean.
    interval : Interval, mapping of str to Interval, or None
        Confidence interval of an approximate value; by key for a keyed metric.

    Examples
    --------
    >>> Metric(Entity.DATASET, "*", "Size", Success(3.0), weight=3).value
    3.0
    """

    renderer: ClassVar[str] = "tidegauge.display.cards:render_metric"

    entity: Entity
    instance: str
    name: str
    outcome: Success[T_co] | Failure
    weight: float | None = None
    interval: Intervals = None

    @property
    def failed(self) -> bool:
        """True if there is no value."""
        return isinstance(self.outcome, Failure)

    @property
    def empty(self) -> bool:
        """True if there is no value because there was no data."""
        return isinstance(self.outcome, Failure) and isinstance(self.outcome.error, EmptyStateError)

    @property
    def value(self) -> T_co:
        """The value.

        Raises
        ------
        MetricError
            The failure's own error, if there is no value.
        """
        match self.outcome:
            case Success(value):
                return value
            case Failure(error):
                raise error


DoubleMetric = Metric[float]
KeyedDoubleMetric = Metric[Mapping[str, float]]


@runtime_checkable
class Composite(Protocol):
    """Protocol of a metric value that consists of several numbers."""

    def scalars(self) -> Iterator[tuple[str, float]]:
        """Yield (key, number) pairs; the keys are unique."""


@runtime_checkable
class Tabular(Protocol):
    """Protocol of a metric value with its own tabular display."""

    def tabulated(self) -> tuple[Sequence[str], int, Iterable[Sequence[Any]]]:
        """Return the column names, the total number of rows, and the rows, possibly truncated."""


def flatten(metric: Metric[Any]) -> Iterator[Metric[float]]:
    """Yield a metric as scalar metrics, each with the weight of the whole.

    A keyed metric gives ``name-key`` for each key, and a composite metric ``name.key``. A failed metric of
    any type gives one failed metric under its own name.

    Examples
    --------
    >>> keyed = Metric(Entity.COLUMN, "x", "ApproxQuantiles", Success({"0.5": 7.0}), weight=9)
    >>> [(m.name, m.value, m.weight) for m in flatten(keyed)]
    [('ApproxQuantiles-0.5', 7.0, 9)]
    """
    match metric.outcome:
        case Failure() | Success(float()):  # the most common case first
            yield metric
        case Success(Mapping() as keyed):
            yield from (_part(metric, "-", key, value) for key, value in keyed.items())
        case Success(Composite() as composite):
            yield from (_part(metric, ".", key, value) for key, value in composite.scalars())
        case Success(value):
            yield replace(metric, outcome=Success(float(value)))


def _part(metric: Metric[Any], mark: str, key: str, value: float) -> Metric[float]:
    intervals = metric.interval
    interval = intervals.get(key) if isinstance(intervals, Mapping) else None
    name = f"{metric.name}{mark}{key}"
    return replace(metric, name=name, outcome=Success(float(value)), interval=interval)
