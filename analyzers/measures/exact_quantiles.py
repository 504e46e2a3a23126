"""Exact quantiles from value frequencies: ExactQuantile, InterquartileRange."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tidegauge.analyzers.core.analyzer import analyzer
from tidegauge.analyzers.core.errors import IllegalAnalyzerParameterError
from tidegauge.analyzers.core.exact import subtract
from tidegauge.analyzers.core.metric import Scale
from tidegauge.analyzers.core.schema import Schema
from tidegauge.analyzers.measures.frequencies import FrequenciesAndNumRows, GroupingAnalyzer


def percentiles(state: FrequenciesAndNumRows, ranks: tuple[float, ...]) -> list[float]:
    """Return the values at ranks in [0, 1], interpolated between the two nearest values.

    Rank r of n values is at position r (n - 1) in their order, as in Spark's ``percentile`` and
    NumPy's default (Hyndman and Fan, type 7). NaN is the greatest value.

    Examples
    --------
    >>> state = FrequenciesAndNumRows.from_groups([((1,), 1), ((2,), 1), ((3,), 1), ((4,), 1)])
    >>> percentiles(state, (0.25, 0.5))
    [1.75, 2.5]
    """
    import numpy as np

    values = state.frequencies["0"].cast("float64", safe=False).to_numpy()
    order = np.argsort(values, kind="stable")  # puts NaN last
    ends = np.cumsum(state.counts()[order])
    found = []
    for rank in ranks:
        position = rank * (state.num_rows - 1)
        below, above = int(np.floor(position)), int(np.ceil(position))
        low, high = values[order[np.searchsorted(ends, [below, above], side="right")]].tolist()
        share = position - below
        found.append(low if low == high else low * (1 - share) + high * share)
    return found


@dataclass(frozen=True, repr=False)
class _PercentileAnalyzer(GroupingAnalyzer[float]):
    column: str

    @property
    def grouping_columns(self) -> tuple[str, ...]:
        """The column to group by."""
        return (self.column,)

    def check_schema(self, schema: Schema) -> None:
        """Require a numeric column."""
        schema.numeric(self.column)

    def weight(self, state: FrequenciesAndNumRows) -> float:
        """Return the number of values that are not null."""
        return state.num_rows


@analyzer
class ExactQuantile(_PercentileAnalyzer):
    """Exact quantile of a numeric column, interpolated between neighbours.

    Nulls are ignored; empty metric if all values are null. NaN is the greatest value. The state
    holds every distinct value: for large columns use `ApproxQuantile`.

    Parameters
    ----------
    column : str
    quantile : float
        In [0, 1]; 0 is the minimum, 0.5 the median.

    Examples
    --------
    >>> state = FrequenciesAndNumRows.from_groups([((1,), 1), ((2,), 2), ((9,), 1)])
    >>> ExactQuantile("x", 0.75).compute_metric_from(state).value
    3.75
    """

    scale: ClassVar[Scale] = Scale.SIGNED

    quantile: float

    @property
    def name(self) -> str:
        """The name, with the quantile so that two quantiles of one column do not collide."""
        return f"ExactQuantile-{self.quantile}"

    def check_parameters(self) -> None:
        """Require a quantile in [0, 1]."""
        if not 0 <= self.quantile <= 1:
            msg = f"{self!r}: a quantile lies between 0 and 1"
            raise IllegalAnalyzerParameterError(msg)

    def measure(self, state: FrequenciesAndNumRows) -> float:
        """Return the quantile."""
        if not state.num_rows:
            raise self.no_data()
        return percentiles(state, (self.quantile,))[0]


@analyzer
class InterquartileRange(_PercentileAnalyzer):
    """Exact interquartile range: third quartile minus first; see `ExactQuantile`.

    Examples
    --------
    >>> state = FrequenciesAndNumRows.from_groups([((x,), 1) for x in (1, 3, 5, 7, 9)])
    >>> InterquartileRange("x").compute_metric_from(state).value
    4.0
    """

    scale: ClassVar[Scale] = Scale.POSITIVE

    def measure(self, state: FrequenciesAndNumRows) -> float:
        """Return the third quartile minus the first."""
        if not state.num_rows:
            raise self.no_data()
        first, third = percentiles(state, (0.25, 0.75))
        return subtract(third, first)
