"""Suggest checks from the rows of a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

from tidegauge.analyzers.core.analyzer import AnyAnalyzer
from tidegauge.analyzers.core.evidence import Measurements
from tidegauge.analyzers.core.metric import Metric
from tidegauge.analyzers.core.schema import INTEGRAL, NUMERIC, TEXT
from tidegauge.analyzers.measures.cardinality import ApproxCountDistinct
from tidegauge.analyzers.measures.counts import Completeness, Size
from tidegauge.analyzers.measures.extremes import Maximum, Minimum
from tidegauge.analyzers.measures.histogram import NULL_KEY, Histogram
from tidegauge.analyzers.measures.moments import StandardDeviation
from tidegauge.analyzers.measures.sums import Mean
from tidegauge.analyzers.measures.texts import (
    PATTERNS,
    DataType,
    MaxLength,
    MinLength,
    PatternMatch,
)
from tidegauge.analyzers.measures.tuples import ApproxUniqueValueRatio
from tidegauge.checks.assertions import Between, format_number
from tidegauge.checks.check import Check
from tidegauge.checks.constraints import DATA_TYPE_GROUPS
from tidegauge.checks.margins import floor2, widen, wilson
from tidegauge.checks.suggestions import Suggestion, make_suggestion
from tidegauge.profiler import CATEGORIES, FEWEST_ROWS, MOSTLY, ROWS_BY_CATEGORY
from tidegauge.sampling import TableSample, is_identifier, sample_analyzers

LEAST_COMPLETE = 0.2
"""Minimum completeness of a column for suggesting a completeness check."""
NEARLY_UNIQUE = 0.92
"""Estimated share of distinct values from which uniqueness is counted exactly."""
MARGIN = 0.5
"""Margin of limits beyond the least and greatest value, as a share of their distance."""

Metrics = Mapping[AnyAnalyzer, Metric[Any]]


@dataclass(frozen=True)
class ColumnProfile:
    """Metrics of a column in the rows read.

    Attributes
    ----------
    column, kind : str
    rows : int
    whole : bool
        True if these are all rows of the table.
    metrics : mapping of Analyzer to Metric
    """

    column: str
    kind: str
    rows: int
    whole: bool
    metrics: Metrics

    def value(self, analyzer: AnyAnalyzer) -> Any:
        """Return a metric's value; None if it has no value."""
        metric = self.metrics.get(analyzer)
        return None if metric is None or metric.failed else metric.value

    @property
    def complete(self) -> float:
        """The share of non-null rows."""
        return float(self.value(Completeness(self.column)) or 0)

    @property
    def values(self) -> int:
        """The number of non-null rows."""
        return round(self.complete * self.rows)

    @property
    def may_be_key(self) -> bool:
        """True if the estimates justify an exact count of unique values."""
        alone = self.value(ApproxUniqueValueRatio((self.column,))) or 0
        distinct = self.value(ApproxCountDistinct(self.column)) or 0
        return min(alone, distinct / self.values) >= NEARLY_UNIQUE if self.values else False

    @property
    def may_be_category(self) -> bool:
        """True if there are few enough distinct values to count each."""
        if self.kind not in TEXT and self.kind not in INTEGRAL:
            return False
        distinct = self.value(ApproxCountDistinct(self.column)) or 0
        # The estimate may be a little too low, so the exact count is bounded again.
        return 0 < distinct <= min(CATEGORIES, self.values / ROWS_BY_CATEGORY)

    def suggestions(self, counted: Metrics) -> Iterator[Suggestion]:
        """Yield suggestions for the column; ``counted`` holds the metrics of the second pass."""
        if self.complete >= LEAST_COMPLETE and self.rows >= FEWEST_ROWS:
            yield self._complete()
        if self.values < FEWEST_ROWS or not self.complete:
            return
        if self.may_be_key:
            distinct = min(self.value(ApproxCountDistinct(self.column)), self.values)
            alike = f"About {distinct:.0f} of {self.values}"
            yield self._made(
                "is_unique", reason=f"{alike} values are distinct, and none occurs twice."
            )
            return  # limits would not last: the numbers of a key keep growing
        members = list(self._members(counted))
        yield from members
        if is_identifier(self.column, self.kind):
            return  # the size of its numbers means nothing
        if self.kind in NUMERIC:
            yield from self._numbers(categories=bool(members))
        elif self.kind in TEXT:
            yield from self._texts(categories=bool(members))

    def _made(self, method: str, *values: Any, reason: str, **named: Any) -> Suggestion:
        seen = reason if self.whole else f"{reason} Seen in a sample of {self.rows} rows."
        first = () if method == "has" else (self.column,)
        return make_suggestion(
            method, *first, *values, reason=seen, source="data", rows=self.rows, **named
        )

    def _complete(self) -> Suggestion:
        share = self.complete
        if share == 1:
            return self._made("is_complete", reason=f"None of {self.rows} rows is null.")
        least = floor2(wilson(share, self.rows)[0])
        reason = (
            f"{self.values} of {self.rows} rows are not null; a share of at least {format_number(least)} is"
            " expected with 95 % confidence."
        )
        return self._made("is_complete", at_least=least, reason=reason)

    def _members(self, counted: Metrics) -> Iterator[Suggestion]:
        found = counted.get(category_histogram(self.column)) if self.may_be_category else None
        if found is None or found.failed or found.value.number_of_bins > CATEGORIES + 1:
            return
        some = sorted(text.removeprefix("\\") for text in found.value.values if text != NULL_KEY)
        values = some if self.kind in TEXT else sorted(map(int, some))
        # Values missing from a sample may still occur in other rows.
        least = {} if self.whole else {"at_least": floor2(wilson(1.0, self.values)[0])}
        reason = f"All {self.values} values are in a set of {len(values)}."
        yield self._made("is_contained_in", values, reason=reason, **least)

    def _numbers(self, *, categories: bool) -> Iterator[Suggestion]:
        c = self.column
        low, high = self.value(Minimum(c)), self.value(Maximum(c))
        if low is None or not (isfinite(low) and isfinite(high)):
            return
        if low >= 0:
            reason = f"The minimum of {self.values} numbers is {format_number(low, 6)}."
            yield self._made("is_non_negative", reason=reason)
        if categories or low == high:
            return
        margin = MARGIN * (high - low)
        lower, upper = widen(low, high, margin)
        between = (
            f"{self.values} numbers lie between {format_number(low, 6)} and {format_number(high, 6)}; the margin is half their"
            f" distance, {format_number(margin, 6)}."
        )
        if low < 0:
            yield self._made("has_min", (lower, None), reason=between).of_range()
        yield self._made("has_max", (None, upper), reason=between).of_range()
        mean, spread = self.value(Mean(c)), self.value(StandardDeviation(c))
        if mean is None or not spread or not (isfinite(mean) and isfinite(spread)):
            return
        about = f"The mean of {self.values} numbers is {format_number(mean, 6)}, their standard deviation {format_number(spread, 6)}"
        reason = f"{about}; the mean may change by one standard deviation."
        yield self._made("has_mean", widen(mean, mean, spread), reason=reason)
        reason = f"{about}; from half to double of it is allowed."
        yield self._made("has_standard_deviation", widen(spread / 2, 2 * spread, 0), reason=reason)

    def _texts(self, *, categories: bool) -> Iterator[Suggestion]:
        c = self.column
        for name in PATTERNS:
            pattern = PatternMatch(c, name, "ignore")
            share = self.value(pattern) or 0.0
            if share >= MOSTLY:
                least = 1.0 if share == 1 else floor2(wilson(share, self.values)[0])
                reason = f"{round(share * self.values)} of {self.values} texts match {name}."
                yield self._made("has", pattern, Between(least), reason=reason)
        yield from self._kind()
        short, long = self.value(MinLength(c)), self.value(MaxLength(c))
        if categories or short is None:
            return
        if short == long:
            reason = f"All {self.values} texts have {short:.0f} characters."
            yield self._made("has_min_length", (short, None), reason=reason)
            yield self._made("has_max_length", (None, long), reason=reason)
        else:
            reason = f"The longest of {self.values} texts has {long:.0f} characters; half as many more are allowed."
            most = float(round(1.5 * long))
            yield self._made("has_max_length", (None, most), reason=reason).of_range()

    def _kind(self) -> Iterator[Suggestion]:
        found = self.value(DataType(self.column))
        if found is None:
            return
        counts = {kind: entry.absolute for kind, entry in found.values.items()}
        for kind in ("Boolean", "Integral", "Numeric"):
            share = sum(counts[one] for one in DATA_TYPE_GROUPS[kind]) / self.values
            if share >= MOSTLY:
                least = {} if share == 1 else {"at_least": floor2(wilson(share, self.values)[0])}
                reason = f"{round(share * self.values)} of {self.values} texts read as {kind}."
                yield self._made("has_data_type", kind, reason=reason, **least)
                return


def suggest_from_data(sample: TableSample) -> tuple[list[Suggestion], dict[str, str]]:
    """Return suggestions from sampled rows, and rejected ones with reasons.

    The rows are read two or three times: to find candidates, to count the values of categories, and
    to evaluate the constraints that neither pass covers.
    """
    asked = [
        a
        for column, kind in sample.columns
        for a in (*sample_analyzers(column, kind), *_more(column, kind))
    ]
    metrics = sample.measure([Size(), *asked])
    rows = int(metrics[Size()].value)
    columns = [
        ColumnProfile(column, kind, rows, sample.whole, metrics) for column, kind in sample.columns
    ]
    columns = [seen for seen in columns if seen.kind not in {"array", "map", "variant", "struct"}]
    few = [category_histogram(seen.column) for seen in columns if seen.may_be_category]
    counted = sample.measure(few) if few else {}
    found = [one for seen in columns for one in seen.suggestions(counted)]
    return _proved(sample, {**metrics, **counted}, found)


def category_histogram(column: str) -> Histogram:
    """Return the analyzer that counts the values of a categorical column, null included."""
    return Histogram(column, CATEGORIES + 1)


def _more(column: str, kind: str) -> Iterable[AnyAnalyzer]:
    if kind in NUMERIC:
        return Mean(column), StandardDeviation(column)
    return (MinLength(column), MaxLength(column)) if kind in TEXT else ()


def _proved(
    sample: TableSample, metrics: Metrics, drafts: list[Suggestion]
) -> tuple[list[Suggestion], dict[str, str]]:
    check = Check("suggested", constraints=[draft.constraint for draft in drafts])
    lacking = [analyzer for analyzer in check.analyzers if analyzer not in metrics]
    known = {**metrics, **(sample.measure(lacking) if lacking else {})}
    kept, refused = [], {}
    for draft, result in zip(drafts, check.evaluate(Measurements(known)), strict=True):
        if result.passed:
            kept.append(draft)
        else:
            refused[draft.constraint.description] = f"it does not hold: {result.message}"
    return kept, refused
