"""Exact distinctness of one or more columns: Uniqueness, Distinctness, CountDistinct.

Rows where all the columns are null take no part; a null beside a value is a value like another.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from analyzers.analyzer import analyzer
from analyzers.frequencies import FrequenciesAndNumRows, GroupingAnalyzer
from analyzers.metric import Scale


@dataclass(frozen=True, repr=False)
class _ColumnsAnalyzer(GroupingAnalyzer[FrequenciesAndNumRows, float]):
    scale: ClassVar[Scale] = Scale.RATIO

    columns: tuple[str, ...]

    @property
    def grouping_columns(self) -> tuple[str, ...]:
        """The columns."""
        return self.columns

    def weight(self, state: FrequenciesAndNumRows) -> float:
        """Return the rows."""
        return state.num_rows


@analyzer
class Uniqueness(_ColumnsAnalyzer):
    """Share of rows whose value occurs once. Empty if there are no rows.

    Parameters
    ----------
    columns : str or sequence of str

    Examples
    --------
    >>> state = FrequenciesAndNumRows.of([(("a",), 1), (("b",), 3)])
    >>> Uniqueness("x").compute_metric_from(state).value
    0.25
    """

    def measure(self, state: FrequenciesAndNumRows) -> float:
        """Return values that occur once by rows."""
        if not state.num_rows:
            raise self.no_data()
        return state.num_groups_of(1) / state.num_rows


@analyzer
class Distinctness(_ColumnsAnalyzer):
    """Distinct values by rows. Empty if there are no rows.

    Examples
    --------
    >>> state = FrequenciesAndNumRows.of([(("a",), 1), (("b",), 3)])
    >>> Distinctness("x").compute_metric_from(state).value
    0.5
    """

    def measure(self, state: FrequenciesAndNumRows) -> float:
        """Return groups by rows."""
        if not state.num_rows:
            raise self.no_data()
        return state.num_groups / state.num_rows


@analyzer
class CountDistinct(_ColumnsAnalyzer):
    """Number of distinct values; 0 if there are no rows.

    Examples
    --------
    >>> state = FrequenciesAndNumRows.of([(("a", None), 1), (("b", "c"), 3)])
    >>> CountDistinct(["x", "y"]).compute_metric_from(state).value
    2.0
    """

    scale: ClassVar[Scale] = Scale.COUNT

    def measure(self, state: FrequenciesAndNumRows) -> float:
        """Return the number of groups."""
        return float(state.num_groups)
