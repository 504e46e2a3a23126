"""Checks that the rows of a table suggest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

from analyzers.catalogue import (
    ApproxCountDistinct,
    ApproxUniqueValueRatio,
    Completeness,
    DataType,
    Histogram,
    Maximum,
    MaxLength,
    Mean,
    Minimum,
    MinLength,
    PatternMatch,
    Size,
    StandardDeviation,
)
from analyzers.checks.assertions import Between, told
from analyzers.checks.check import Check
from analyzers.checks.constraints import KINDS
from analyzers.checks.evidence import AnyAnalyzer, Measurements
from analyzers.histogram import NULL_KEY
from analyzers.metric import Metric
from analyzers.schema import INTEGRAL, NUMERIC, TEXT
from analyzers.texts import PATTERNS
from tidegauge.checks.margins import floor2, widened, wilson
from tidegauge.checks.suggestions import Suggestion, suggested
from tidegauge.profiler import CATEGORIES, FEWEST_ROWS, MOSTLY, ROWS_BY_CATEGORY
from tidegauge.sample import Sample, looks

LEAST_COMPLETE = 0.2
"""A column that is filled more rarely need not be filled at all."""
NEARLY_UNIQUE = 0.92
"""The estimated share of distinct values from which on uniqueness is counted exactly."""
MARGIN = 0.5
"""How far limits of least and greatest values lie beyond them, as a share of their distance."""

Metrics = Mapping[AnyAnalyzer, Metric[Any]]


@dataclass(frozen=True)
class Seen:
    """What some rows tell of a column.

    Attributes
    ----------
    column, kind : str
    rows : int
    whole : bool
        Whether these are all rows of the table.
    metrics : mapping of Analyzer to Metric
    """

    column: str
    kind: str
    rows: int
    whole: bool
    metrics: Metrics

    def value(self, analyzer: AnyAnalyzer) -> Any:
        """Return a metric's value; None if it has none."""
        metric = self.metrics.get(analyzer)
        return None if metric is None or metric.failed else metric.value

    @property
    def complete(self) -> float:
        """The share of rows that have a value."""
        return float(self.value(Completeness(self.column)) or 0)

    @property
    def values(self) -> int:
        """How many rows have one."""
        return round(self.complete * self.rows)

    @property
    def may_be_key(self) -> bool:
        """Whether it is worth counting whether each value occurs once."""
        alone = self.value(ApproxUniqueValueRatio((self.column,))) or 0
        distinct = self.value(ApproxCountDistinct(self.column)) or 0
        return min(alone, distinct / self.values) >= NEARLY_UNIQUE if self.values else False

    @property
    def may_be_category(self) -> bool:
        """Whether it is worth counting its values one by one."""
        if self.kind not in TEXT and self.kind not in INTEGRAL:
            return False
        distinct = self.value(ApproxCountDistinct(self.column)) or 0
        # The estimate may be a little too low, so what is counted is bounded again.
        return 0 < distinct <= min(CATEGORIES, self.values / ROWS_BY_CATEGORY)

    def suggestions(self, counted: Metrics) -> Iterator[Suggestion]:
        """Yield what is suggested of it; `counted` is what was worth a second look."""
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
            return  # the numbers of a key move on
        members = list(self._members(counted))
        yield from members
        if self.kind in NUMERIC:
            yield from self._numbers(categories=bool(members))
        elif self.kind in TEXT:
            yield from self._texts(categories=bool(members))

    def _made(self, method: str, *values: Any, reason: str, **named: Any) -> Suggestion:
        seen = reason if self.whole else f"{reason} Seen in a sample of {self.rows} rows."
        first = () if method == "has" else (self.column,)
        return suggested(
            method, *first, *values, reason=seen, source="data", rows=self.rows, **named
        )

    def _complete(self) -> Suggestion:
        share = self.complete
        if share == 1:
            return self._made("is_complete", reason=f"None of {self.rows} rows is null.")
        least = floor2(wilson(share, self.rows)[0])
        reason = (
            f"{self.values} of {self.rows} rows are not null; of such rows at least {told(least)} are to be"
            " expected with 95 % confidence."
        )
        return self._made("is_complete", at_least=least, reason=reason)

    def _members(self, counted: Metrics) -> Iterator[Suggestion]:
        found = counted.get(every_value(self.column)) if self.may_be_category else None
        if found is None or found.failed or found.value.number_of_bins > CATEGORIES + 1:
            return
        some = sorted(text.removeprefix("\\") for text in found.value.values if text != NULL_KEY)
        values = some if self.kind in TEXT else sorted(map(int, some))
        # Values that stand in no row of a sample may still stand in others.
        least = {} if self.whole else {"at_least": floor2(wilson(1.0, self.values)[0])}
        reason = f"All {self.values} values are one of {len(values)}."
        yield self._made("is_contained_in", values, reason=reason, **least)

    def _numbers(self, *, categories: bool) -> Iterator[Suggestion]:
        c = self.column
        low, high = self.value(Minimum(c)), self.value(Maximum(c))
        if low is None or not (isfinite(low) and isfinite(high)):
            return
        if low >= 0:
            reason = f"The least of {self.values} numbers is {told(low, 6)}."
            yield self._made("is_non_negative", reason=reason)
        if categories or low == high:
            return
        margin = MARGIN * (high - low)
        lower, upper = widened(low, high, margin)
        between = (
            f"{self.values} numbers lie between {told(low, 6)} and {told(high, 6)}; the margin is half their"
            f" distance, {told(margin, 6)}."
        )
        if low < 0:
            yield self._made("has_min", (lower, None), reason=between)
        yield self._made("has_max", (None, upper), reason=between)
        mean, spread = self.value(Mean(c)), self.value(StandardDeviation(c))
        if mean is None or not spread or not (isfinite(mean) and isfinite(spread)):
            return
        about = f"The mean of {self.values} numbers is {told(mean, 6)}, their standard deviation {told(spread, 6)}"
        reason = f"{about}; the mean may move by one of them."
        yield self._made("has_mean", widened(mean, mean, spread), reason=reason)
        reason = f"{about}, of which half and double are allowed."
        yield self._made(
            "has_standard_deviation", widened(spread / 2, 2 * spread, 0), reason=reason
        )

    def _texts(self, *, categories: bool) -> Iterator[Suggestion]:
        c = self.column
        for name in PATTERNS:
            pattern = PatternMatch(c, name, "ignore")
            share = self.value(pattern) or 0.0
            if share >= MOSTLY:
                least = 1.0 if share == 1 else floor2(wilson(share, self.values)[0])
                reason = f"{round(share * self.values)} of {self.values} texts hold what looks like {name}."
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
            yield self._made("has_max_length", (None, float(round(1.5 * long))), reason=reason)

    def _kind(self) -> Iterator[Suggestion]:
        found = self.value(DataType(self.column))
        if found is None:
            return
        counts = {kind: entry.absolute for kind, entry in found.values.items()}
        for kind in ("Boolean", "Integral", "Numeric"):
            share = sum(counts[one] for one in KINDS[kind]) / self.values
            if share >= MOSTLY:
                least = {} if share == 1 else {"at_least": floor2(wilson(share, self.values)[0])}
                reason = f"{round(share * self.values)} of {self.values} texts read as {kind}."
                yield self._made("has_data_type", kind, reason=reason, **least)
                return


def from_data(sample: Sample) -> tuple[list[Suggestion], dict[str, str]]:
    """Return what some rows suggest, and what of it does not hold for them, and why.

    The rows are looked at twice or three times: to see what may be suggested, to count the values of
    categories, and to judge what could not be told from either.
    """
    asked = [
        a for column, kind in sample.columns for a in (*looks(column, kind), *_more(column, kind))
    ]
    metrics = sample.measure([Size(), *asked])
    rows = int(metrics[Size()].value)
    columns = [Seen(column, kind, rows, sample.whole, metrics) for column, kind in sample.columns]
    columns = [seen for seen in columns if seen.kind not in {"array", "map", "variant", "struct"}]
    few = [every_value(seen.column) for seen in columns if seen.may_be_category]
    counted = sample.measure(few) if few else {}
    found = [one for seen in columns for one in seen.suggestions(counted)]
    return _proved(sample, {**metrics, **counted}, found)


def every_value(column: str) -> Histogram:
    """Return what counts the values of a column that holds categories, and null."""
    return Histogram(column, CATEGORIES + 1)


def _more(column: str, kind: str) -> Iterable[AnyAnalyzer]:
    if kind in NUMERIC:
        return Mean(column), StandardDeviation(column)
    return (MinLength(column), MaxLength(column)) if kind in TEXT else ()


def _proved(
    sample: Sample, metrics: Metrics, drafts: list[Suggestion]
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
