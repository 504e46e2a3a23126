"""Checks: a name, a severity level, and constraints added one by one by its methods.

`MetricMethods` assert on metrics of a table or column, `RowMethods` on all rows or a minimum share of rows.
Methods for comparisons with other tables and with the history are in `tidegauge.checks.comparisons` and
`tidegauge.checks.history_constraints`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, fields, replace
from enum import StrEnum
from math import inf
from typing import Any, Self

from tidegauge.analyzers.core.analyzer import ANALYZERS, Analyzer, AnyAnalyzer
from tidegauge.analyzers.core.errors import SuiteError, UnknownNameError
from tidegauge.analyzers.core.evidence import Evidence, as_on_empty
from tidegauge.analyzers.core.formatting import Markup, one_line, plural
from tidegauge.analyzers.core.sql import column_sql, constant, literal
from tidegauge.analyzers.measures.cardinality import ApproxCountDistinct
from tidegauge.analyzers.measures.counts import (
    ColumnCount,
    ColumnExists,
    ColumnMatch,
    Completeness,
    Compliance,
    SchemaMatch,
    Size,
    ZerosCount,
    non_negative,
)
from tidegauge.analyzers.measures.extremes import Freshness, Maximum, Minimum, Range
from tidegauge.analyzers.measures.frequencies import (
    Distinctness,
    DuplicateRowCount,
    Entropy,
    ExactQuantile,
    InterquartileRange,
    MutualInformation,
    Uniqueness,
    UniqueValueRatio,
)
from tidegauge.analyzers.measures.histogram import MAX_DETAIL_BINS, Distribution, Histogram
from tidegauge.analyzers.measures.moments import (
    Correlation,
    Kurtosis,
    Mean,
    Skewness,
    StandardDeviation,
    Sum,
    Variance,
)
from tidegauge.analyzers.measures.quantiles import ApproxQuantile
from tidegauge.analyzers.measures.texts import (
    PATTERNS,
    DataType,
    MaxLength,
    MinLength,
    PatternMatch,
    pattern_problem,
)
from tidegauge.checks.assertions import (
    CLOSED_SIDES,
    AssertionLike,
    Between,
    Columns,
    ConstraintBuilder,
    as_assertion,
    listed,
    share,
)
from tidegauge.checks.comparisons import ComparisonMethods, QueryConstraint
from tidegauge.checks.constraints import (
    MAX_NAME_LENGTH,
    AbsentValueCount,
    Constraint,
    ConstraintResult,
    DataTypeShare,
    DistinctValueCount,
    LeastColumnShare,
    MetricComponent,
    MetricConstraint,
    SchemaDifferenceCount,
)
from tidegauge.checks.history_constraints import HistoryMethods
from tidegauge.display.hints import hint
from tidegauge.display.html import Rows, card, heading, marked, pairs, table

SECONDS_BY_UNIT = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400, "w": 604_800}

_DURATION_PATTERN = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|min|h|d|w)?")


def seconds(duration: float | str, name: str = "duration") -> float:
    """Return a duration in seconds. A number is already in seconds.

    Parameters
    ----------
    duration : float or str
        Such as 3600, ``90m``, ``24h``, ``1d`` or ``2w``.
    name : str
        The option's name, for the error.

    Raises
    ------
    SuiteError
        If it is neither a number from 0 on nor a number and a unit.

    Examples
    --------
    >>> seconds(90), seconds("90"), seconds("90m"), seconds("1d"), seconds("1.5 h")
    (90.0, 90.0, 5400.0, 86400.0, 5400.0)
    >>> seconds("1 day", "within")
    Traceback (most recent call last):
    ...
    tidegauge.analyzers.core.errors.SuiteError: Invalid within '1 day': use seconds, or a number and a unit such as 90m, 24h or 1d
    """
    if isinstance(duration, str):
        match = _DURATION_PATTERN.fullmatch(duration.strip())
        if match is not None:
            return float(match[1]) * SECONDS_BY_UNIT[match[2] or "s"]
    elif not isinstance(duration, bool) and 0 <= duration < inf:
        return float(duration)
    msg = f"Invalid {name} {duration!r}: use seconds, or a number and a unit such as 90m, 24h or 1d"
    raise SuiteError(msg)


class MetricMethods(ConstraintBuilder):
    """Constraints on one number of a table or column, by an assertion.

    Nulls, NaN and empty data follow the semantics of the analyzer that the method is named after.
    """

    def has_size(self, assertion: AssertionLike, *, hint: str = "") -> Self:
        """Assert on the number of rows.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("orders").has_size((600, None)).constraints[0].description
        'Size(): at least 600'
        """
        return self.has(Size(), assertion, hint=hint)

    def has_column_count(self, assertion: AssertionLike, *, hint: str = "") -> Self:
        """Assert on the number of columns, partition columns included.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("orders").has_column_count((5, 5)).constraints[0].description
        'ColumnCount(): exactly 5'
        """
        return self.has(ColumnCount(), assertion, hint=hint)

    def is_fresh(
        self, column: str, within: float | str, *, ahead: float | str = 0.0, hint: str = ""
    ) -> Self:
        """Assert that the newest time of a column is recent, and not in the future.

        A DATE or TIMESTAMP_NTZ is compared with the current time in the session's time zone.

        Parameters
        ----------
        column : str
            The column.
        within : float or str
            Maximum age of the newest value: seconds, or a duration such as ``90m`` or ``1d``.
        ahead : float or str
            How far the newest value may be in the future, because clocks differ.
        hint : str
            Text that is added to the failure message.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("feed").is_fresh("loaded_at", "1h", ahead=60).constraints[0].description
        "Freshness('loaded_at'): at least -60 and at most 3600"
        """
        youngest, oldest = -seconds(ahead, "ahead") or 0.0, seconds(within, "within")
        return self.has(Freshness(column), Between(youngest, oldest), hint=hint)

    def has_column(self, column: str, *, hint: str = "") -> Self:
        """Assert that a column exists.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("orders").has_column("email").constraints[0].description
        "ColumnExists('email'): exactly 1"
        """
        return self.has(ColumnExists(column), Between(1, 1), hint=hint)

    def has_schema(
        self, columns: Columns, *, extra: bool = True, ordered: bool = False, hint: str = ""
    ) -> Self:
        """Assert that columns exist and have the declared types.

        Parameters
        ----------
        columns : str or sequence of str
            DDL, ``id BIGINT, name STRING``, or a list of columns. A name without a type allows any type.
            Partition columns are included.
        extra : bool
            Whether undeclared columns are allowed.
        ordered : bool
            Whether the declared columns must be in this order.
        hint : str
            Text that is added to the failure message.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("orders").has_schema("id BIGINT, price DECIMAL(9,2)").constraints[0].description
        "differences of SchemaMatch('id BIGINT, price DECIMAL(9,2)'): exactly 0"
        """
        declared = SchemaMatch(listed(columns), extra, ordered)
        return self.has(declared, Between(0, 0), part=SchemaDifferenceCount(), hint=hint)

    def has_column_match(
        self,
        columns: Columns,
        table: str,
        keys: Columns,
        at_least: float = 1.0,
        *,
        hint: str = "",
    ) -> Self:
        """Assert that columns have the values of another table's rows with the same key.

        Each column must be equal in at least that share of the rows whose key is in the other table;
        see `ColumnMatch`. A failure names the columns that differ, with their shares.

        Parameters
        ----------
        columns : str or sequence of str
            The columns.
        table : str
            The other table or view.
        keys : str or sequence of str
            Columns that identify a row.
        at_least : float
            Minimum share of rows that pass.
        hint : str
            Text that is added to the failure message.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("orders").has_column_match("amount", "backup", "id").constraints[0].description
        "least share of ColumnMatch('amount', 'backup', 'id'): at least 1"
        """
        match = ColumnMatch(listed(columns), table, listed(keys))
        return self.has(match, share(at_least), part=LeastColumnShare(), hint=hint)

    def has_zeros_count(self, column: str, assertion: AssertionLike, *, hint: str = "") -> Self:
        """Assert on the number of zeros in a column.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("orders").has_zeros_count("amount", (None, 10)).constraints[0].description
        "ZerosCount('amount'): at most 10"
        """
        return self.has(ZerosCount(column), assertion, hint=hint)

    def has_duplicate_row_count(
        self, assertion: AssertionLike, columns: Columns = (), *, hint: str = ""
    ) -> Self:
        """Assert on the number of rows that occur more than once, by some columns or all.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("orders").has_duplicate_row_count((None, 0)).constraints[0].description
        'DuplicateRowCount(): at most 0'
        """
        return self.has(DuplicateRowCount(listed(columns) if columns else ()), assertion, hint=hint)

    def has_uniqueness(self, columns: Columns, assertion: AssertionLike, *, hint: str = "") -> Self:
        """Assert on the share of rows whose value occurs once.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("orders").has_uniqueness(["ds", "id"], (0.99, None)).constraints[0].description
        "Uniqueness(['ds', 'id']): at least 0.99"
        """
        return self.has(Uniqueness(listed(columns)), assertion, hint=hint)

    def has_distinctness(
        self, columns: Columns, assertion: AssertionLike, *, hint: str = ""
    ) -> Self:
        """Assert on the number of distinct values divided by rows.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("orders").has_distinctness("id", (0.99, None)).constraints[0].description
        "Distinctness('id'): at least 0.99"
        """
        return self.has(Distinctness(listed(columns)), assertion, hint=hint)

    def has_unique_value_ratio(
        self, columns: Columns, assertion: AssertionLike, *, hint: str = ""
    ) -> Self:
        """Assert on the share of distinct values that occur once.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("orders").has_unique_value_ratio("id", (0.9, None)).constraints[0].description
        "UniqueValueRatio('id'): at least 0.9"
        """
        return self.has(UniqueValueRatio(listed(columns)), assertion, hint=hint)

    def has_number_of_distinct_values(
        self, column: str, assertion: AssertionLike, *, hint: str = ""
    ) -> Self:
        """Assert on the number of distinct values, null included.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("orders").has_number_of_distinct_values("country", (2, 30)).constraints[0].description
        "distinct values of Histogram('country'): at least 2 and at most 30"
        """
        return self.has(Histogram(column), assertion, part=DistinctValueCount(), hint=hint)

    def has_histogram_values(
        self,
        column: str,
        assertion: Callable[[Distribution], Any],
        max_detail_bins: int = MAX_DETAIL_BINS,
        *,
        hint: str = "",
    ) -> Self:
        """Assert on the value frequencies of a column.

        Parameters
        ----------
        column : str
            The column.
        assertion : callable
            Function of the `Distribution`: ``lambda d: d["EWR"].ratio < 0.5``.
        max_detail_bins : int
            As for `Histogram`.
        hint : str
            Text that is added to the failure message.

        Examples
        --------
        >>> import tidegauge as tg
        >>> def mostly_dutch(found):
        ...     return found["NL"].ratio > 0.5
        >>> check = tg.Check("orders").has_histogram_values("country", mostly_dutch)
        >>> check.constraints[0].description
        "Histogram('country'): mostly_dutch"
        """
        return self.has(Histogram(column, max_detail_bins), assertion, hint=hint)

    def has_values(self, column: str, values: Iterable[Any], *, hint: str = "") -> Self:
        """Assert that each given value occurs; other values are allowed.

        Together with `is_contained_in`, the column's values are exactly these.

        Parameters
        ----------
        column : str
            The column.
        values : iterable
            Strings, numbers, booleans, dates or times, at most 999.
        hint : str
            Text that is added to the failure message.

        Raises
        ------
        SuiteError
            If the number of values is 0 or too large, or a value has no SQL literal.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("orders").has_values("status", ["new", "paid"]).constraints[0].description
        'absent of new, paid in status: exactly 0'
        """
        sql = column_sql(column)
        try:
            names = [] if isinstance(values, str) else list(dict.fromkeys(values))
            cases = [
                f"WHEN {sql} = {constant(value)} THEN {literal(str(value))}" for value in names
            ]
        except TypeError as error:
            msg = f"has_values({column!r}): {error}"
            raise SuiteError(msg) from error
        if not 0 < len(names) < MAX_DETAIL_BINS:
            msg = f"has_values({column!r}) takes a list of 1 to {MAX_DETAIL_BINS - 1} values"
            raise SuiteError(msg)
        bins = Histogram(column, binning=f"CASE {' '.join(cases)} END", ratios=False)
        return self.has(bins, Between(0, 0), part=AbsentValueCount(tuple(names)), hint=hint)

    def has_approx_count_distinct(
        self, column: str, assertion: AssertionLike, *, hint: str = ""
    ) -> Self:
        """Assert on the estimated number of distinct non-null values.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("orders").has_approx_count_distinct("customer", (1000, None)).constraints[0].description
        "ApproxCountDistinct('customer'): at least 1000"
        """
        return self.has(ApproxCountDistinct(column), assertion, hint=hint)

    def has_entropy(self, column: str, assertion: AssertionLike, *, hint: str = "") -> Self:
        """Assert on the entropy of a column, in nats.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("orders").has_entropy("country", (0.5, None)).constraints[0].description
        "Entropy('country'): at least 0.5"
        """
        return self.has(Entropy(column), assertion, hint=hint)

    def has_mutual_information(
        self, first: str, second: str, assertion: AssertionLike, *, hint: str = ""
    ) -> Self:
        """Assert on the mutual information of two columns, in nats.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("orders").has_mutual_information("country", "city", (0.5, None)).constraints[0].description
        "MutualInformation(['country', 'city']): at least 0.5"
        """
        return self.has(MutualInformation((first, second)), assertion, hint=hint)

    def has_correlation(
        self, first: str, second: str, assertion: AssertionLike, *, hint: str = ""
    ) -> Self:
        """Assert on the correlation of two columns.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("orders").has_correlation("net", "gross", (0.9, 1)).constraints[0].description
        "Correlation('net', 'gross'): at least 0.9 and at most 1"
        """
        return self.has(Correlation(first, second), assertion, hint=hint)

    def has_approx_quantile(
        self,
        column: str,
        quantile: float,
        assertion: AssertionLike,
        relative_error: float = 0.01,
        *,
        hint: str = "",
    ) -> Self:
        """Assert on an approximate quantile, from a sketch; 0.5 is the median.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("orders").has_approx_quantile("amount", 0.5, (5, 20)).constraints[0].description
        "ApproxQuantile('amount', 0.5): at least 5 and at most 20"
        """
        return self.has(ApproxQuantile(column, quantile, relative_error), assertion, hint=hint)

    def has_exact_quantile(
        self, column: str, quantile: float, assertion: AssertionLike, *, hint: str = ""
    ) -> Self:
        """Assert on an exact quantile; 0.5 is the median.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("orders").has_exact_quantile("amount", 0.5, (5, 20)).constraints[0].description
        "ExactQuantile('amount', 0.5): at least 5 and at most 20"
        """
        return self.has(ExactQuantile(column, quantile), assertion, hint=hint)

    def has_min(self, column: str, assertion: AssertionLike, *, hint: str = "") -> Self:
        """Assert on the minimum of a column.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("orders").has_min("amount", (0, None)).constraints[0].description
        "Minimum('amount'): at least 0"
        """
        return self.has(Minimum(column), assertion, hint=hint)

    def has_max(self, column: str, assertion: AssertionLike, *, hint: str = "") -> Self:
        """Assert on the maximum of a column.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("orders").has_max("amount", (None, 1000)).constraints[0].description
        "Maximum('amount'): at most 1000"
        """
        return self.has(Maximum(column), assertion, hint=hint)

    def has_range(self, column: str, assertion: AssertionLike, *, hint: str = "") -> Self:
        """Assert on the maximum minus the minimum of a column.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("orders").has_range("amount", (None, 1000)).constraints[0].description
        "Range('amount'): at most 1000"
        """
        return self.has(Range(column), assertion, hint=hint)

    def has_interquartile_range(
        self, column: str, assertion: AssertionLike, *, hint: str = ""
    ) -> Self:
        """Assert on the interquartile range of a column.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("orders").has_interquartile_range("amount", (None, 50)).constraints[0].description
        "InterquartileRange('amount'): at most 50"
        """
        return self.has(InterquartileRange(column), assertion, hint=hint)

    def has_mean(self, column: str, assertion: AssertionLike, *, hint: str = "") -> Self:
        """Assert on the mean of a column.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("orders").has_mean("amount", (5, 20)).constraints[0].description
        "Mean('amount'): at least 5 and at most 20"
        """
        return self.has(Mean(column), assertion, hint=hint)

    def has_sum(self, column: str, assertion: AssertionLike, *, hint: str = "") -> Self:
        """Assert on the sum of a column.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("orders").has_sum("amount", (0, None)).constraints[0].description
        "Sum('amount'): at least 0"
        """
        return self.has(Sum(column), assertion, hint=hint)

    def has_standard_deviation(
        self, column: str, assertion: AssertionLike, *, hint: str = ""
    ) -> Self:
        """Assert on the population standard deviation of a column.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("orders").has_standard_deviation("amount", (None, 10)).constraints[0].description
        "StandardDeviation('amount'): at most 10"
        """
        return self.has(StandardDeviation(column), assertion, hint=hint)

    def has_variance(self, column: str, assertion: AssertionLike, *, hint: str = "") -> Self:
        """Assert on the population variance of a column.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("orders").has_variance("amount", (None, 100)).constraints[0].description
        "Variance('amount'): at most 100"
        """
        return self.has(Variance(column), assertion, hint=hint)

    def has_skewness(self, column: str, assertion: AssertionLike, *, hint: str = "") -> Self:
        """Assert on the skewness of a column.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("orders").has_skewness("amount", (-1, 1)).constraints[0].description
        "Skewness('amount'): at least -1 and at most 1"
        """
        return self.has(Skewness(column), assertion, hint=hint)

    def has_kurtosis(self, column: str, assertion: AssertionLike, *, hint: str = "") -> Self:
        """Assert on the excess kurtosis of a column.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("orders").has_kurtosis("amount", (-1, 1)).constraints[0].description
        "Kurtosis('amount'): at least -1 and at most 1"
        """
        return self.has(Kurtosis(column), assertion, hint=hint)

    def has_min_length(self, column: str, assertion: AssertionLike, *, hint: str = "") -> Self:
        """Assert on the length of the shortest string of a column.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("orders").has_min_length("email", (6, None)).constraints[0].description
        "MinLength('email'): at least 6"
        """
        return self.has(MinLength(column), assertion, hint=hint)

    def has_max_length(self, column: str, assertion: AssertionLike, *, hint: str = "") -> Self:
        """Assert on the length of the longest string of a column.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("orders").has_max_length("email", (None, 254)).constraints[0].description
        "MaxLength('email'): at most 254"
        """
        return self.has(MaxLength(column), assertion, hint=hint)


class RowMethods(ConstraintBuilder):
    """Constraints on the share of rows that satisfy a condition: all, or ``at_least`` a share."""

    def is_complete(self, column: str, at_least: float = 1.0, *, hint: str = "") -> Self:
        """Assert that a column has no null; NaN is not null.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("orders").is_complete("email", at_least=0.95).constraints[0].description
        "Completeness('email'): at least 0.95"
        """
        return self.has(Completeness(column), share(at_least), hint=hint)

    def has_completeness(self, column: str, assertion: AssertionLike, *, hint: str = "") -> Self:
        """Assert on the share of rows where a column is not null.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("orders").has_completeness("email", (0.9, 0.99)).constraints[0].description
        "Completeness('email'): at least 0.9 and at most 0.99"
        """
        return self.has(Completeness(column), assertion, hint=hint)

    def are_complete(self, columns: Columns, at_least: float = 1.0, *, hint: str = "") -> Self:
        """Assert that all given columns are non-null in each row.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("orders").are_complete(["email", "country"]).constraints[0].description
        'email and country are complete: at least 1'
        """
        return self.have_completeness(columns, share(at_least), hint=hint)

    def have_completeness(
        self, columns: Columns, assertion: AssertionLike, *, hint: str = ""
    ) -> Self:
        """Assert on the share of rows where all given columns are non-null.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("orders").have_completeness(["email", "country"], (0.9, None)).constraints[0].description
        'email and country are complete: at least 0.9'
        """
        return self.has(_non_null_rule(listed(columns), " AND "), assertion, hint=hint)

    def are_any_complete(self, columns: Columns, at_least: float = 1.0, *, hint: str = "") -> Self:
        """Assert that at least one of the given columns is non-null in each row.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("orders").are_any_complete(["email", "phone"]).constraints[0].description
        'any of email, phone is complete: at least 1'
        """
        return self.have_any_completeness(columns, share(at_least), hint=hint)

    def have_any_completeness(
        self, columns: Columns, assertion: AssertionLike, *, hint: str = ""
    ) -> Self:
        """Assert on the share of rows where at least one of the given columns is non-null.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("orders").have_any_completeness(["email", "phone"], (0.9, None)).constraints[0].description
        'any of email, phone is complete: at least 0.9'
        """
        return self.has(_non_null_rule(listed(columns), " OR "), assertion, hint=hint)

    def is_unique(self, column: str, at_least: float = 1.0, *, hint: str = "") -> Self:
        """Assert that each value of a column occurs once. Rows where it is null are excluded.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("orders").is_unique("id").constraints[0].description
        "Uniqueness('id'): at least 1"
        """
        return self.are_unique(column, at_least, hint=hint)

    def are_unique(self, columns: Columns, at_least: float = 1.0, *, hint: str = "") -> Self:
        """Assert that each combination of values of some columns occurs once.

        Rows where all of them are null are excluded; a null in a row with another value counts as a value.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("orders").are_unique(["ds", "id"]).constraints[0].description
        "Uniqueness(['ds', 'id']): at least 1"
        """
        return self.has(Uniqueness(listed(columns)), share(at_least), hint=hint)

    def is_primary_key(self, columns: Columns, *, hint: str = "") -> Self:
        """Assert that each combination of values occurs once, as `are_unique`.

        Nulls are not tested: add `are_complete`.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("orders").is_primary_key(["ds", "id"]).constraints[0].description
        "Uniqueness(['ds', 'id']): at least 1"
        """
        return self.are_unique(columns, hint=hint)

    def satisfies(
        self, predicate: str, name: str, at_least: float = 1.0, *, hint: str = ""
    ) -> Self:
        """Assert that a Spark SQL condition is true; null is not.

        Parameters
        ----------
        predicate : str
            The condition, in Spark SQL.
        name : str
            Name of the rule.
        at_least : float
            Minimum share of rows.
        hint : str
            Text that is added to the failure message.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("orders").satisfies("amount >= 0 OR refund", "amounts").constraints[0].description
        'amounts: at least 1'
        """
        return self.has(Compliance(name, predicate), share(at_least), hint=hint)

    def has_pattern(
        self,
        column: str,
        pattern: str,
        at_least: float = 1.0,
        *,
        whole: bool = False,
        hint: str = "",
    ) -> Self:
        r"""Assert that strings contain a match of a Java regular expression or built-in pattern.

        Null does not match. For the built-in patterns see `PatternMatch`. With ``whole`` the pattern must
        match the whole string, as for a `FormatRule`.

        Examples
        --------
        >>> import tidegauge as tg
        >>> print(tg.Check("a").has_pattern("zip", "[0-9]{5}", whole=True).constraints[0].analyzer.pattern)
        \A(?:[0-9]{5})\z
        """
        java_pattern = PATTERNS.get(pattern, pattern)
        if problem := pattern_problem(java_pattern):
            msg = f"has_pattern: invalid regular expression {pattern!r}: {problem}"
            raise SuiteError(msg)
        anchored = rf"\A(?:{java_pattern})\z" if whole else pattern
        return self.has(PatternMatch(column, anchored), share(at_least), hint=hint)

    def contains_email(self, column: str, at_least: float = 1.0, *, hint: str = "") -> Self:
        """Assert that strings contain an email address.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("orders").contains_email("contact", at_least=0.9).constraints[0].description
        "PatternMatch('contact', 'EMAIL'): at least 0.9"
        """
        return self.has_pattern(column, "EMAIL", at_least, hint=hint)

    def contains_url(self, column: str, at_least: float = 1.0, *, hint: str = "") -> Self:
        """Assert that strings contain an http, https or ftp URL.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("orders").contains_url("link").constraints[0].description
        "PatternMatch('link', 'URL'): at least 1"
        """
        return self.has_pattern(column, "URL", at_least, hint=hint)

    def contains_credit_card_number(
        self, column: str, at_least: float = 1.0, *, hint: str = ""
    ) -> Self:
        """Assert that strings contain a credit card number.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("orders").contains_credit_card_number("card").constraints[0].description
        "PatternMatch('card', 'CREDITCARD'): at least 1"
        """
        return self.has_pattern(column, "CREDITCARD", at_least, hint=hint)

    def contains_social_security_number(
        self, column: str, at_least: float = 1.0, *, hint: str = ""
    ) -> Self:
        """Assert that strings contain a US social security number.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("orders").contains_social_security_number("ssn").constraints[0].description
        "PatternMatch('ssn', 'SOCIAL_SECURITY_NUMBER_US'): at least 1"
        """
        return self.has_pattern(column, "SOCIAL_SECURITY_NUMBER_US", at_least, hint=hint)

    def has_data_type(
        self, column: str, kind: str, at_least: float = 1.0, *, hint: str = ""
    ) -> Self:
        """Assert that values are of one inferred data type.

        Parameters
        ----------
        column : str
            The column.
        kind : str
            ``Fractional``, ``Integral``, ``Numeric`` (either of them), ``Boolean`` or ``String``:
            their share of the non-null values, 0 if there are none. ``Unknown``: the share of nulls
            among all rows.
        at_least : float
            Minimum share of rows that pass.
        hint : str
            Text that is added to the failure message.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("orders").has_data_type("zip", "Integral").constraints[0].description
        "share of Integral of DataType('zip'): at least 1"
        """
        return self.has(DataType(column), share(at_least), hint=hint, part=DataTypeShare(kind))

    def is_non_negative(self, column: str, at_least: float = 1.0, *, hint: str = "") -> Self:
        """Assert that numbers are at least 0; null passes, a string that is not a number fails.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("orders").is_non_negative("amount").constraints[0].description
        'amount is not negative: at least 1'
        """
        rule = non_negative(column)
        return self.satisfies(rule.predicate, rule.instance, at_least, hint=hint)

    def is_positive(self, column: str, at_least: float = 1.0, *, hint: str = "") -> Self:
        """Assert that numbers are greater than 0; null passes, a string that is not a number fails.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("orders").is_positive("amount").constraints[0].description
        'amount is positive: at least 1'
        """
        rule = f"coalesce({column_sql(column)}, 1) > 0"
        return self.satisfies(rule, f"{column} is positive", at_least, hint=hint)

    def is_less_than(
        self, column: str, other: str, at_least: float = 1.0, *, hint: str = ""
    ) -> Self:
        """Assert that one column is less than another; null fails.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("orders").is_less_than("ordered", "delivered").constraints[0].description
        'ordered < delivered: at least 1'
        """
        return self._ordered(column, "<", other, at_least, hint)

    def is_less_than_or_equal_to(
        self, column: str, other: str, at_least: float = 1.0, *, hint: str = ""
    ) -> Self:
        """Assert that one column is at most another; null fails.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("orders").is_less_than_or_equal_to("ordered", "delivered").constraints[0].description
        'ordered <= delivered: at least 1'
        """
        return self._ordered(column, "<=", other, at_least, hint)

    def is_greater_than(
        self, column: str, other: str, at_least: float = 1.0, *, hint: str = ""
    ) -> Self:
        """Assert that one column is greater than another; null fails.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("orders").is_greater_than("gross", "net").constraints[0].description
        'gross > net: at least 1'
        """
        return self._ordered(column, ">", other, at_least, hint)

    def is_greater_than_or_equal_to(
        self, column: str, other: str, at_least: float = 1.0, *, hint: str = ""
    ) -> Self:
        """Assert that one column is at least another; null fails.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("orders").is_greater_than_or_equal_to("gross", "net").constraints[0].description
        'gross >= net: at least 1'
        """
        return self._ordered(column, ">=", other, at_least, hint)

    def is_contained_in(
        self,
        column: str,
        values: Iterable[Any] | None = None,
        *,
        lower: Any = None,
        upper: Any = None,
        closed: str = "both",
        at_least: float = 1.0,
        hint: str = "",
    ) -> Self:
        """Assert that values are in a set or within bounds; null passes.

        Strings are converted to compare them with numbers, dates and times: '5.9' is above 5, and a
        string that is not a number fails.

        Parameters
        ----------
        column : str
            The column.
        values : iterable, optional
            Strings, numbers, booleans, dates or times.
        lower, upper : optional
            Bounds instead of values; either may be omitted.
        closed : str
            Inclusive bounds: ``both``, ``lower``, ``upper`` or ``neither``.
        at_least : float
            Minimum share of rows that pass.
        hint : str
            Text that is added to the failure message.

        Raises
        ------
        SuiteError
            If neither or both of values and bounds are given, or a value has no SQL literal.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("a").is_contained_in("b", ["x", "y"]).constraints[0].analyzer.predicate
        "`b` IS NULL OR `b` IN ('x', 'y')"
        """
        bounds = lower is not None or upper is not None
        if isinstance(values, str) or (values is not None) == bounds or closed not in CLOSED_SIDES:
            msg = (
                "is_contained_in takes a list of values, or lower= and upper= with closed= one of "
                + ", ".join(map(repr, CLOSED_SIDES))
            )
            raise SuiteError(msg)
        sql = column_sql(column)
        try:
            if values is not None:
                literals = list(values)
                name = f"{column} is one of {', '.join(map(str, literals))}"
                rule = f"{sql} IN ({', '.join(map(constant, literals))})" if literals else "false"
            else:
                name, rule = _range(column, sql, lower, upper, closed)
        except TypeError as error:
            msg = f"is_contained_in({column!r}): {error}"
            raise SuiteError(msg) from error
        rule = f"{sql} IS NULL OR {rule}"
        return self.satisfies(rule, one_line(name, MAX_NAME_LENGTH), at_least, hint=hint)

    def _ordered(self, column: str, sign: str, other: str, at_least: float, hint: str) -> Self:
        rule = f"{column_sql(column)} {sign} {column_sql(other)}"
        return self.satisfies(rule, f"{column} {sign} {other}", at_least, hint=hint)


def _non_null_rule(columns: tuple[str, ...], joined: str) -> Compliance:
    """Return the rule that all, or any, of the columns are non-null."""
    word = joined.strip().casefold()
    verb = "are complete" if word == "and" and len(columns) > 1 else "is complete"
    name = f" {word} ".join(columns) if word == "and" else f"any of {', '.join(columns)}"
    rule = joined.join(f"{column_sql(column)} IS NOT NULL" for column in columns)
    return Compliance(one_line(f"{name} {verb}", MAX_NAME_LENGTH), rule)


def _range(column: str, sql: str, lower: Any, upper: Any, closed: str) -> tuple[str, str]:
    """Return the name and the SQL condition of bounds."""
    if lower is not None and upper is not None and lower > upper:
        msg = f"the range from lower={lower!r} to upper={upper!r} is empty; the lower bound comes first"
        raise TypeError(msg)
    above = ">=" if closed in {"both", "lower"} else ">"
    below = "<=" if closed in {"both", "upper"} else "<"
    bounds = [
        (sign, bound) for sign, bound in ((above, lower), (below, upper)) if bound is not None
    ]
    rule = " AND ".join(f"{sql} {sign} {constant(bound)}" for sign, bound in bounds)
    return f"{column} " + " and ".join(f"{sign} {bound}" for sign, bound in bounds), f"({rule})"


class Level(StrEnum):
    """Severity of a failed check."""

    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, repr=False)
class Check(RowMethods, MetricMethods, HistoryMethods, ComparisonMethods):
    """Assertions on the metrics of one dataset. Each method returns a new check.

    Constraints are evaluated on metrics alone, so they can be evaluated again for any measured
    partition, and row by row if they apply to single rows. ``analyzers`` lists the metrics they
    need.

    An assertion is a function of the value, a minimum, a pair of bounds (both inclusive, None for
    open), or a `Between`. Shares are between 0 and 1; ``at_least=0.99`` lets one row in a hundred
    fail. Every method takes ``hint=``, which is added to the failure message.

    Parameters
    ----------
    name : str
        Name of the check.
    level : str
        ``error`` or ``warning``.
    dataset : str, optional
        The dataset to verify in a repository if `verify` is given none.
    constraints : sequence of Constraint
        The constraints added by the methods.

    Raises
    ------
    SuiteError
        If the name is empty or the level is unknown.

    Examples
    --------
    >>> import tidegauge as tg
    >>> check = (
    ...     tg.Check("flights")
    ...     .is_complete("dep_time", at_least=0.95)
    ...     .has_size(lambda n: n > 600, hint="the feed was cut off")
    ...     .is_unique("id").where("origin = 'EWR'")
    ... )
    >>> for constraint in check.constraints:
    ...     print(constraint.description)
    Completeness('dep_time'): at least 0.95
    Size(): n > 600
    Uniqueness('id', where="origin = 'EWR'"): at least 1
    """

    name: str
    level: str = Level.ERROR
    _: KW_ONLY
    dataset: str | None = None
    constraints: Sequence[Constraint] = ()

    def __post_init__(self) -> None:
        if not str(self.name).strip():
            msg = "a check needs a name"
            raise SuiteError(msg)
        if self.level not in list(Level):
            raise UnknownNameError(
                "level of a check", str(self.level), [str(level) for level in Level]
            )
        object.__setattr__(self, "level", Level(self.level))
        object.__setattr__(self, "constraints", tuple(self.constraints))

    @property
    def analyzers(self) -> tuple[AnyAnalyzer, ...]:
        """The analyzers that the check needs, without duplicates; a suite accepts them."""
        return tuple(dict.fromkeys(constraint.analyzer for constraint in self.constraints))

    def has(
        self,
        analyzer: AnyAnalyzer | str,
        assertion: AssertionLike,
        *,
        hint: str = "",
        part: MetricComponent | None = None,
    ) -> Check:
        """Assert on any metric.

        Parameters
        ----------
        analyzer : Analyzer or str
            The analyzer, or the name of a recorded series.
        assertion : callable, float, pair of float, or Between
            For a composite metric, a function is given the whole value.
        hint : str
            Text that is added to the failure message.
        part : MetricComponent, optional
            The number to take from a composite value.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("fares").has(tg.RatioOfSums("tip", "fare"), (0, 1)).constraints[0].description
        "RatioOfSums('tip', 'fare'): at least 0 and at most 1"
        """
        metric_part, constraint_assertion = self.read(analyzer), as_assertion(assertion)
        return self.with_constraint(
            MetricConstraint(metric_part, constraint_assertion, hint=hint, part=part)
        )

    def where(self, condition: str) -> Check:
        """Restrict the last constraint to rows where a Spark SQL condition is true.

        If no such row has a value, the status of the constraint is ``no data``; see `on_empty`.

        Raises
        ------
        SuiteError
            If the check has no constraint, or the last constraint already has a filter or cannot have one.
        """
        if not self.constraints:
            msg = f"check {self.name!r}: where() applies to the previous constraint; add a constraint first"
            raise SuiteError(msg)
        *earlier, last_constraint = self.constraints
        if isinstance(last_constraint, QueryConstraint):
            msg = f"check {self.name!r}: a query has its own WHERE; where() is not for {last_constraint.description}"
            raise SuiteError(msg)
        if last_constraint.analyzer.where is not None:
            msg = f"check {self.name!r}: {last_constraint.analyzer!r} already has a filter; combine both with AND"
            raise SuiteError(msg)
        if "where" not in {option.name for option in fields(last_constraint.analyzer)}:
            msg = f"check {self.name!r}: {last_constraint.analyzer!r} takes no filter"
            raise SuiteError(msg)
        analyzer = replace(last_constraint.analyzer, where=condition)  # type: ignore[call-arg]
        filtered = replace(last_constraint, analyzer=analyzer)
        return replace(self, constraints=(*earlier, filtered))

    def on_empty(self, action: str) -> Check:
        """Set the outcome of the last constraint in a partition without data for it.

        By default it fails. It only warns if its filter matches rows of another partition.

        Parameters
        ----------
        action : str
            ``pass``, ``warn`` or ``fail``.

        Raises
        ------
        SuiteError
            If the check has no constraint, or the action is unknown.

        Examples
        --------
        >>> import tidegauge as tg
        >>> check = tg.Check("flights").is_complete("dep_time").where("origin = 'EWR'").on_empty("pass")
        >>> str(check.constraints[0].on_empty)
        'pass'
        """
        if not self.constraints:
            msg = f"check {self.name!r}: on_empty() applies to the previous constraint; add a constraint first"
            raise SuiteError(msg)
        changed = replace(self.constraints[-1], on_empty=as_on_empty(action))
        return replace(self, constraints=(*self.constraints[:-1], changed))

    def warn(self, assertion: AssertionLike) -> Check:
        """Give the last constraint a stricter assertion, which only warns.

        If only the constraint itself holds, the constraint and the check have the status ``warning``,
        regardless of the check's level.

        Parameters
        ----------
        assertion : callable, float, pair of float, or Between
            What the value must satisfy.

        Raises
        ------
        SuiteError
            If the check has no constraint, or the last constraint compares with history.

        Examples
        --------
        >>> import tidegauge as tg
        >>> check = tg.Check("flights").is_complete("dep_time", at_least=0.9).warn(0.95)
        >>> check.constraints[0].description
        "Completeness('dep_time'): at least 0.9, warns unless at least 0.95"
        """
        last_constraint = self.constraints[-1] if self.constraints else None
        if not isinstance(last_constraint, MetricConstraint):
            msg = f"check {self.name!r}: warn() applies to the previous constraint on a metric; add a constraint first"
            raise SuiteError(msg)
        warned = replace(last_constraint, warning=as_assertion(assertion))
        return replace(self, constraints=(*self.constraints[:-1], warned))

    def with_constraint(self, constraint: Constraint) -> Check:
        """Return the check with one more constraint, of any kind."""
        return replace(self, constraints=(*self.constraints, constraint))

    def read(self, analyzer: AnyAnalyzer | str) -> AnyAnalyzer:
        """Return an analyzer with valid options, parsing a string.

        Raises
        ------
        SuiteError, IllegalAnalyzerParameterError
        """
        parsed = ANALYZERS.parse(analyzer) if isinstance(analyzer, str) else analyzer
        if not isinstance(parsed, Analyzer):
            msg = f"check {self.name!r}: {parsed!r} is not an analyzer such as tg.Size()"
            raise SuiteError(msg)
        parsed.check_parameters()
        return parsed

    def __getattr__(self, name: str) -> Any:
        """Raise an AttributeError that names the method, for the spellings of other tools."""
        hint_text = (
            "" if name.startswith("_") else hint(name, [m for m in dir(type(self)) if m[0] != "_"])
        )
        msg = f"a Check has no {name!r}" + (f"; {hint_text}" if hint_text else "")
        raise AttributeError(msg, name=name, obj=self)

    def evaluate(self, evidence: Evidence) -> tuple[ConstraintResult, ...]:
        """Evaluate each constraint on the measured metrics, in order."""
        return tuple(constraint.evaluate(evidence) for constraint in self.constraints)

    def __repr__(self) -> str:
        level = "" if self.level == Level.ERROR else f", {str(self.level)!r}"
        return f"Check({self.name!r}{level}) of {plural(len(self.constraints), 'constraint')}"

    def _repr_html_(self) -> str:
        return card(self._pieces)

    def _pieces(self, max_rows: int, width: int) -> Iterator[Markup]:
        yield heading(Markup("Check"), self.name, marked(self.level))
        yield pairs([("dataset", self.dataset)], width)
        lines = [(c.description, c.hint) for c in self.constraints]
        yield table(["constraint", "hint"], Rows.first_of(lines, max_rows), width)


def status_of(level: str, results: Sequence[ConstraintResult]) -> str:
    """Return ``success``, the check's level if a constraint failed, or ``warning`` if one warns."""
    if any(result.failed for result in results):
        return str(level)
    return str(Level.WARNING) if any(result.warned for result in results) else "success"
