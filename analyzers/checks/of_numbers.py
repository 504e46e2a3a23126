"""The vocabulary of checks: what numbers that describe a table are wanted to be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from analyzers.cardinality import ApproxCountDistinct
from analyzers.checks.assertions import Between, Wanted
from analyzers.checks.builder import Builder, Columns, listed
from analyzers.checks.constraints import Bins
from analyzers.columns import ColumnCount, ColumnExists
from analyzers.counts import Size, ZerosCount
from analyzers.exact_quantiles import ExactQuantile, InterquartileRange
from analyzers.extremes import Maximum, Minimum, Range
from analyzers.histogram import MAX_DETAIL_BINS, Distribution, Histogram
from analyzers.information import Entropy, MutualInformation
from analyzers.moments import Correlation, Kurtosis, Skewness, StandardDeviation, Variance
from analyzers.quantiles import ApproxQuantile
from analyzers.sums import Mean, Sum
from analyzers.texts import MaxLength, MinLength
from analyzers.uniqueness import Distinctness, DuplicateRowCount, Uniqueness, UniqueValueRatio


class OfNumbers(Builder):
    """Constraints on one number of a table or column, by an assertion.

    What null and NaN do, and what nothing gives, is the analyzer's business, whose name the method has.
    """

    def has_size(self, assertion: Wanted, *, hint: str = "") -> Self:
        """Want the number of rows to be something."""
        return self.has(Size(), assertion, hint=hint)

    def has_column_count(self, assertion: Wanted, *, hint: str = "") -> Self:
        """Want the number of columns to be something, partition columns included."""
        return self.has(ColumnCount(), assertion, hint=hint)

    def has_column(self, column: str, *, hint: str = "") -> Self:
        """Want a column to be there."""
        return self.has(ColumnExists(column), Between(1, 1), hint=hint)

    def has_zeros_count(self, column: str, assertion: Wanted, *, hint: str = "") -> Self:
        """Want the number of zeros of a column to be something."""
        return self.has(ZerosCount(column), assertion, hint=hint)

    def has_duplicate_row_count(
        self, assertion: Wanted, columns: Columns = (), *, hint: str = ""
    ) -> Self:
        """Want the number of rows that occur more than once to be something, by some columns or all."""
        return self.has(DuplicateRowCount(_some(columns)), assertion, hint=hint)

    def has_uniqueness(self, columns: Columns, assertion: Wanted, *, hint: str = "") -> Self:
        """Want the share of rows whose value occurs once to be something."""
        return self.has(Uniqueness(listed(columns)), assertion, hint=hint)

    def has_distinctness(self, columns: Columns, assertion: Wanted, *, hint: str = "") -> Self:
        """Want distinct values by rows to be something."""
        return self.has(Distinctness(listed(columns)), assertion, hint=hint)

    def has_unique_value_ratio(
        self, columns: Columns, assertion: Wanted, *, hint: str = ""
    ) -> Self:
        """Want the share of distinct values that occur once to be something."""
        return self.has(UniqueValueRatio(listed(columns)), assertion, hint=hint)

    def has_number_of_distinct_values(
        self, column: str, assertion: Wanted, *, hint: str = ""
    ) -> Self:
        """Want the number of distinct values to be something; null is one."""
        return self.has(Histogram(column), assertion, part=Bins(), hint=hint)

    def has_histogram_values(
        self,
        column: str,
        assertion: Callable[[Distribution], Any],
        max_detail_bins: int = MAX_DETAIL_BINS,
        *,
        hint: str = "",
    ) -> Self:
        """Want how often the values of a column occur to be something.

        Parameters
        ----------
        column : str
        assertion : callable
            Given the `Distribution`: ``lambda d: d["EWR"].ratio < 0.5``.
        max_detail_bins : int
            As for `Histogram`.
        hint : str
        """
        return self.has(Histogram(column, max_detail_bins), assertion, hint=hint)

    def has_approx_count_distinct(self, column: str, assertion: Wanted, *, hint: str = "") -> Self:
        """Want the estimated number of distinct values to be something; null is none."""
        return self.has(ApproxCountDistinct(column), assertion, hint=hint)

    def has_entropy(self, column: str, assertion: Wanted, *, hint: str = "") -> Self:
        """Want the entropy of a column, in nats, to be something."""
        return self.has(Entropy(column), assertion, hint=hint)

    def has_mutual_information(
        self, first: str, second: str, assertion: Wanted, *, hint: str = ""
    ) -> Self:
        """Want how much two columns tell of each other, in nats, to be something."""
        return self.has(MutualInformation((first, second)), assertion, hint=hint)

    def has_correlation(
        self, first: str, second: str, assertion: Wanted, *, hint: str = ""
    ) -> Self:
        """Want the correlation of two columns to be something."""
        return self.has(Correlation(first, second), assertion, hint=hint)

    def has_approx_quantile(
        self,
        column: str,
        quantile: float,
        assertion: Wanted,
        relative_error: float = 0.01,
        *,
        hint: str = "",
    ) -> Self:
        """Want a quantile, from a sketch, to be something; 0.5 is the median."""
        return self.has(ApproxQuantile(column, quantile, relative_error), assertion, hint=hint)

    def has_exact_quantile(
        self, column: str, quantile: float, assertion: Wanted, *, hint: str = ""
    ) -> Self:
        """Want a quantile to be something; 0.5 is the median."""
        return self.has(ExactQuantile(column, quantile), assertion, hint=hint)

    def has_min(self, column: str, assertion: Wanted, *, hint: str = "") -> Self:
        """Want the least number of a column to be something."""
        return self.has(Minimum(column), assertion, hint=hint)

    def has_max(self, column: str, assertion: Wanted, *, hint: str = "") -> Self:
        """Want the greatest number of a column to be something."""
        return self.has(Maximum(column), assertion, hint=hint)

    def has_range(self, column: str, assertion: Wanted, *, hint: str = "") -> Self:
        """Want the distance between least and greatest number to be something."""
        return self.has(Range(column), assertion, hint=hint)

    def has_interquartile_range(self, column: str, assertion: Wanted, *, hint: str = "") -> Self:
        """Want the distance between the quartiles to be something."""
        return self.has(InterquartileRange(column), assertion, hint=hint)

    def has_mean(self, column: str, assertion: Wanted, *, hint: str = "") -> Self:
        """Want the mean of a column to be something."""
        return self.has(Mean(column), assertion, hint=hint)

    def has_sum(self, column: str, assertion: Wanted, *, hint: str = "") -> Self:
        """Want the sum of a column to be something."""
        return self.has(Sum(column), assertion, hint=hint)

    def has_standard_deviation(self, column: str, assertion: Wanted, *, hint: str = "") -> Self:
        """Want the standard deviation (of the population) to be something."""
        return self.has(StandardDeviation(column), assertion, hint=hint)

    def has_variance(self, column: str, assertion: Wanted, *, hint: str = "") -> Self:
        """Want the variance (of the population) to be something."""
        return self.has(Variance(column), assertion, hint=hint)

    def has_skewness(self, column: str, assertion: Wanted, *, hint: str = "") -> Self:
        """Want the skewness to be something."""
        return self.has(Skewness(column), assertion, hint=hint)

    def has_kurtosis(self, column: str, assertion: Wanted, *, hint: str = "") -> Self:
        """Want the excess kurtosis to be something."""
        return self.has(Kurtosis(column), assertion, hint=hint)

    def has_min_length(self, column: str, assertion: Wanted, *, hint: str = "") -> Self:
        """Want the length of the shortest text to be something."""
        return self.has(MinLength(column), assertion, hint=hint)

    def has_max_length(self, column: str, assertion: Wanted, *, hint: str = "") -> Self:
        """Want the length of the longest text to be something."""
        return self.has(MaxLength(column), assertion, hint=hint)


def _some(columns: Columns) -> tuple[str, ...]:
    return (columns,) if isinstance(columns, str) else tuple(columns)
