"""Metrics: what was measured, as a value or as the reason why there is none.

A metric's value may be composite (quantiles by key, a histogram). `flatten` turns any metric into
plain numbers under Deequ's names, and is a function, so that no metric type has to know another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from analyzers.display import (
    Markup,
    Rows,
    card,
    heading,
    marked,
    note,
    number,
    pairs,
    sentence,
    table,
)
from analyzers.errors import EmptyStateError, MetricError

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Entity(StrEnum):
    """What a metric is about."""

    DATASET = "Dataset"
    COLUMN = "Column"
    MULTICOLUMN = "Multicolumn"


class Scale(StrEnum):
    """How the values of a metric behave, which tells a detector how to compare them."""

    COUNT = "count"
    RATIO = "ratio"
    POSITIVE = "positive"
    SIGNED = "signed"
    DISTANCE = "distance"
    TIME = "time"
    FLAG = "flag"


@dataclass(frozen=True, slots=True)
class Success(Generic[T_co]):
    """A value that was computed."""

    value: T_co


@dataclass(frozen=True, slots=True)
class Failure:
    """The reason why there is no value; always an error of our own."""

    error: MetricError


def attempt(compute: Callable[[], T]) -> Success[T] | Failure:
    """Run ``compute`` and keep its result, or its error as one of ours.

    Examples
    --------
    >>> attempt(lambda: 1 / 4)
    Success(value=0.25)
    >>> attempt(lambda: 1 / 0).error
    MetricRuntimeError('ZeroDivisionError: division by zero')
    """
    try:
        return Success(compute())
    except Exception as error:  # noqa: BLE001 - the one broad except: any failure is a result here
        return Failure(MetricError.of(error).with_traceback(None))


@dataclass(frozen=True, slots=True)
class Interval:
    """Where the exact value lies, with a probability.

    Attributes
    ----------
    lower, upper : float
    confidence : float
        The probability: 0.954 is two standard errors.
    """

    lower: float
    upper: float
    confidence: float


TWO_SIGMA = 0.9545
"""The probability of two standard errors on either side."""

Intervals = Interval | Mapping[str, Interval] | None


@dataclass(frozen=True)
class Metric(Generic[T_co]):
    """One measurement of one analyzer.

    Attributes
    ----------
    entity : Entity
        Whether it is about the data set, a column, or several.
    instance : str
        The column, columns joined by commas, ``*``, or the name a Compliance was given.
    name : str
        Deequ's name of the metric, never carrying the filter.
    outcome : Success or Failure
        The value, or the error.
    weight : float or None
        Rows behind the value: the denominator of a ratio, the non-null values of a mean.
    interval : Interval, mapping of str to Interval, or None
        Bounds of the exact value, where the value is approximate; by key where it has keys.

    Examples
    --------
    >>> Metric(Entity.DATASET, "*", "Size", Success(3.0), weight=3).value
    3.0
    """

    entity: Entity
    instance: str
    name: str
    outcome: Success[T_co] | Failure
    weight: float | None = None
    interval: Intervals = None

    @property
    def failed(self) -> bool:
        """Whether there is no value."""
        return isinstance(self.outcome, Failure)

    @property
    def empty(self) -> bool:
        """Whether there is no value because there was no data."""
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

    def _repr_html_(self) -> str:
        return card(lambda most, width: _pieces(self, most, width))


DoubleMetric = Metric[float]
KeyedDoubleMetric = Metric[Mapping[str, float]]


@runtime_checkable
class Composite(Protocol):
    """A metric value made of several numbers."""

    def scalars(self) -> Iterator[tuple[str, float]]:
        """Yield each number with the key that tells it from the others."""


@runtime_checkable
class Tabular(Protocol):
    """A metric value that is shown as a table of its own."""

    def tabulated(self) -> tuple[Sequence[str], int, Iterable[Sequence[Any]]]:
        """Return the columns, how many rows there are, and the rows; it may be that not all are kept."""


def flatten(metric: Metric[Any]) -> Iterator[Metric[float]]:
    """Yield a metric as plain numbers, each with the weight of the whole.

    A keyed metric gives ``name-key`` for each key, a composite one ``name.key``; a failed one gives
    one failed metric of its own name, whatever it would have held.

    Examples
    --------
    >>> keyed = Metric(Entity.COLUMN, "x", "ApproxQuantiles", Success({"0.5": 7.0}), weight=9)
    >>> [(m.name, m.value, m.weight) for m in flatten(keyed)]
    [('ApproxQuantiles-0.5', 7.0, 9)]
    """
    match metric.outcome:
        case Failure() | Success(float()):  # what most are, so it comes first
            yield metric
        case Success(Mapping() as keyed):
            yield from (_part(metric, "-", key, value) for key, value in keyed.items())
        case Success(Composite() as composite):
            yield from (_part(metric, ".", key, value) for key, value in composite.scalars())
        case Success(value):
            yield replace(metric, outcome=Success(float(value)))


def _part(metric: Metric[Any], mark: str, key: str, value: float) -> Metric[float]:
    of = metric.interval
    interval = of.get(key) if isinstance(of, Mapping) else None
    name = f"{metric.name}{mark}{key}"
    return replace(metric, name=name, outcome=Success(float(value)), interval=interval)


def _pieces(metric: Metric[Any], most: int, width: int) -> Iterator[Markup]:
    """Yield what a metric shows of itself."""
    of = () if metric.instance == "*" else (Markup("of"), metric.instance)
    yield heading(metric.name, *of)
    interval = metric.interval if isinstance(metric.interval, Interval) else None
    match metric.outcome:
        case Failure(error):
            yield Markup(f"<p>{marked('empty' if metric.empty else 'failed')}</p>")
            yield sentence(error)
        case Success(Mapping() as keyed):
            of_key = metric.interval if isinstance(metric.interval, Mapping) else {}
            lines = ((key, value, _bounds(of_key.get(key))) for key, value in keyed.items())
            columns = ["key", "value", "exactly in"] if of_key else ["key", "value"]
            rows = Rows.of(lines, most, len(keyed))
            yield table(
                columns, Rows([row[: len(columns)] for row in rows.first], (), rows.between), width
            )
        case Success(Tabular() as value):
            head, count, parts = value.tabulated()
            yield table(head, Rows.of(parts, most, count), width)
        case Success(Composite() as value):
            yield table(["key", "value"], Rows.of(list(value.scalars()), most), width)
        case Success(value):
            yield pairs([("value", value)], width)
    yield pairs([("exactly in", _bounds(interval)), ("rows behind it", metric.weight)], width)
    yield note(f"about: {metric.entity.value.lower()}", width)


def _bounds(interval: Interval | None) -> str:
    if interval is None:
        return ""
    text = f"{number(interval.lower)} to {number(interval.upper)}"
    return f"{text} ({100 * interval.confidence:.4g} %)"
