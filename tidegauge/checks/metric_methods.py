"""Check methods on metrics of a table or column."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Self

from tidegauge.analyzers.core.errors import SuiteError
from tidegauge.analyzers.core.sql import column_sql, constant, literal
from tidegauge.analyzers.measures.cardinality import ApproxCountDistinct
from tidegauge.analyzers.measures.columns import ColumnCount, ColumnExists, SchemaMatch
from tidegauge.analyzers.measures.counts import Size, ZerosCount
from tidegauge.analyzers.measures.exact_quantiles import ExactQuantile, InterquartileRange
from tidegauge.analyzers.measures.extremes import Maximum, Minimum, Range
from tidegauge.analyzers.measures.histogram import MAX_DETAIL_BINS, Distribution, Histogram
from tidegauge.analyzers.measures.information import Entropy, MutualInformation
from tidegauge.analyzers.measures.moments import (
    Correlation,
    Kurtosis,
    Skewness,
    StandardDeviation,
    Variance,
)
from tidegauge.analyzers.measures.quantiles import ApproxQuantile
from tidegauge.analyzers.measures.references import ColumnMatch
from tidegauge.analyzers.measures.sums import Mean, Sum
from tidegauge.analyzers.measures.texts import MaxLength, MinLength
from tidegauge.analyzers.measures.times import Freshness
from tidegauge.analyzers.measures.uniqueness import (
    Distinctness,
    DuplicateRowCount,
    Uniqueness,
    UniqueValueRatio,
)
from tidegauge.checks.assertions import AssertionLike, Between
from tidegauge.checks.builder import Columns, ConstraintBuilder, listed, share
from tidegauge.checks.constraints import (
    AbsentValueCount,
    DistinctValueCount,
    LeastColumnShare,
    SchemaDifferenceCount,
)
from tidegauge.checks.durations import seconds


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

        A DATE or TIMESTAMP_NTZ is compared with what the clocks of the session's time zone show now.

        Parameters
        ----------
        column : str
        within : float or str
            The greatest age of the newest value: seconds, or a duration such as ``90m`` or ``1d``.
        ahead : float or str
            How far it may lie in the future, for clocks that differ.
        hint : str

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
        """Assert that columns exist, and are of their types.

        Parameters
        ----------
        columns : str or sequence of str
            DDL, ``id BIGINT, name STRING``, or a list of columns; a name alone may be of any type.
            Partition columns are columns, too.
        extra : bool
            Whether undeclared columns are allowed.
        ordered : bool
            Whether the declared columns must stand in this order.
        hint : str

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
        table : str
            The other table or view.
        keys : str or sequence of str
            Columns that identify a row.
        at_least : float
        hint : str

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
        assertion : callable
            Function of the `Distribution`: ``lambda d: d["EWR"].ratio < 0.5``.
        max_detail_bins : int
            As for `Histogram`.
        hint : str

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
        """Assert that each of some values occurs; others may, too.

        Together with `is_contained_in`, the column's values are exactly these.

        Parameters
        ----------
        column : str
        values : iterable
            Texts, numbers, booleans, dates or times, at most 999.
        hint : str

        Raises
        ------
        SuiteError
            If there are no values or too many, or one has no SQL literal.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("orders").has_values("status", ["new", "paid"]).constraints[0].description
        'absent of new, paid in status: exactly 0'
        """
        sql = column_sql(column)
        try:
            some = [] if isinstance(values, str) else list(dict.fromkeys(values))
            cases = [f"WHEN {sql} = {constant(one)} THEN {literal(str(one))}" for one in some]
        except TypeError as error:
            msg = f"has_values({column!r}): {error}"
            raise SuiteError(msg) from error
        if not 0 < len(some) < MAX_DETAIL_BINS:
            msg = f"has_values({column!r}) takes a list of 1 to {MAX_DETAIL_BINS - 1} values"
            raise SuiteError(msg)
        bins = Histogram(column, binning=f"CASE {' '.join(cases)} END", ratios=False)
        return self.has(bins, Between(0, 0), part=AbsentValueCount(tuple(some)), hint=hint)

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
        """Assert on the length of the shortest text of a column.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("orders").has_min_length("email", (6, None)).constraints[0].description
        "MinLength('email'): at least 6"
        """
        return self.has(MinLength(column), assertion, hint=hint)

    def has_max_length(self, column: str, assertion: AssertionLike, *, hint: str = "") -> Self:
        """Assert on the length of the longest text of a column.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("orders").has_max_length("email", (None, 254)).constraints[0].description
        "MaxLength('email'): at most 254"
        """
        return self.has(MaxLength(column), assertion, hint=hint)
