"""`suggest`: propose checks from rows and from history, each with its reason.

Checks from the rows of a table need a scan of a sample; checks from the metric history of a dataset need none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import isfinite, isnan
from typing import TYPE_CHECKING, Any

from tidegauge import profiler
from tidegauge.analysis import open_source
from tidegauge.analyzers.core.analyzer import ANALYZERS, Analyzer, AnyAnalyzer
from tidegauge.analyzers.core.errors import IllegalAnalyzerParameterError, SuiteError
from tidegauge.analyzers.core.evidence import AnomalySettings, Measurements
from tidegauge.analyzers.core.metric import Entity, Metric, Scale
from tidegauge.analyzers.core.schema import INTEGRAL, NUMERIC, TEXT
from tidegauge.analyzers.measures.cardinality import ApproxCountDistinct, ApproxUniqueValueRatio
from tidegauge.analyzers.measures.counts import Completeness, Compliance, Size
from tidegauge.analyzers.measures.extremes import Maximum, Minimum
from tidegauge.analyzers.measures.histogram import NULL_KEY, Histogram
from tidegauge.analyzers.measures.moments import Mean, StandardDeviation
from tidegauge.analyzers.measures.texts import (
    PATTERNS,
    DataType,
    MaxLength,
    MinLength,
    PatternMatch,
)
from tidegauge.analyzers.scan.spark_errors import explained_read_errors
from tidegauge.checks.assertions import Between, format_number
from tidegauge.checks.check import Check
from tidegauge.checks.constraints import (
    DATA_TYPE_GROUPS,
    Constraint,
    ConstraintStatus,
    MetricConstraint,
    PartitionResult,
)
from tidegauge.checks.suggestions import (
    Suggestion,
    Suggestions,
    ceil2,
    floor2,
    make_suggestion,
    widen,
    wilson,
)
from tidegauge.checks.verification import resolve_dataset, verify
from tidegauge.repository.detection.judge import monitor_of
from tidegauge.repository.history.evidence import View
from tidegauge.repository.repository import as_repository
from tidegauge.suite import Suite

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegauge.repository.repository import Repository


MIN_COMPLETENESS = 0.2
"""Completeness below which nulls are normal, so that no completeness check is suggested."""
NEARLY_UNIQUE = 0.92
"""Estimated share of distinct values from which uniqueness is counted exactly; the estimate errs by a few percent."""
RANGE_MARGIN = 0.5
"""Margin of limits beyond the least and greatest value, as a share of their distance."""

Metrics = Mapping[AnyAnalyzer, Metric[Any]]


@dataclass(frozen=True)
class ColumnProfile:
    """Metrics of a column in the rows read.

    Attributes
    ----------
    column, kind : str
        Name and type of the column.
    rows : int
        Number of rows read.
    is_complete : bool
        Whether all rows of the table were read.
    metrics : mapping of Analyzer to Metric
        The metrics of the column.
    """

    column: str
    kind: str
    rows: int
    is_complete: bool
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
        # The estimate can be slightly too low, so the exact count is bounded again.
        return 0 < distinct <= min(profiler.MAX_CATEGORIES, self.values / profiler.ROWS_BY_CATEGORY)

    def suggestions(self, counted: Metrics) -> Iterator[Suggestion]:
        """Yield suggestions for the column; ``counted`` has the metrics of the second scan."""
        if self.complete >= MIN_COMPLETENESS and self.rows >= profiler.MIN_ROWS_TO_INFER:
            yield self._complete()
        if self.values < profiler.MIN_ROWS_TO_INFER or not self.complete:
            return
        if self.may_be_key:
            distinct = min(self.value(ApproxCountDistinct(self.column)), self.values)
            distinct_text = f"About {distinct:.0f} of {self.values}"
            yield self._suggestion(
                "is_unique", reason=f"{distinct_text} values are distinct, and none occurs twice."
            )
            return  # limits would not last, because the numbers of a key keep growing
        members = list(self._members(counted))
        yield from members
        if profiler.is_identifier(self.column, self.kind):
            return  # the size of an identifier has no meaning
        if self.kind in NUMERIC:
            yield from self._numbers(categories=bool(members))
        elif self.kind in TEXT:
            yield from self._texts(categories=bool(members))

    def _suggestion(self, method: str, *values: Any, reason: str, **options: Any) -> Suggestion:
        full_reason = (
            reason if self.is_complete else f"{reason} Seen in a sample of {self.rows} rows."
        )
        column_argument = () if method == "has" else (self.column,)
        return make_suggestion(
            method,
            *column_argument,
            *values,
            reason=full_reason,
            source="data",
            rows=self.rows,
            **options,
        )

    def _complete(self) -> Suggestion:
        share = self.complete
        if share == 1:
            return self._suggestion("is_complete", reason=f"None of {self.rows} rows is null.")
        min_share = floor2(wilson(share, self.rows)[0])
        reason = (
            f"{self.values} of {self.rows} rows are not null; a share of at least {format_number(min_share)} is"
            " expected with 95% confidence."
        )
        return self._suggestion("is_complete", at_least=min_share, reason=reason)

    def _members(self, counted: Metrics) -> Iterator[Suggestion]:
        histogram = counted.get(category_histogram(self.column)) if self.may_be_category else None
        if (
            histogram is None
            or histogram.failed
            or histogram.value.number_of_bins > profiler.MAX_CATEGORIES + 1
        ):
            return
        names = sorted(
            name.removeprefix("\\") for name in histogram.value.values if name != NULL_KEY
        )
        values = names if self.kind in TEXT else sorted(map(int, names))
        # Values missing from a sample can still occur in other rows.
        options = {} if self.is_complete else {"at_least": floor2(wilson(1.0, self.values)[0])}
        reason = f"All {self.values} values are in a set of {len(values)}."
        yield self._suggestion("is_contained_in", values, reason=reason, **options)

    def _numbers(self, *, categories: bool) -> Iterator[Suggestion]:
        c = self.column
        low, high = self.value(Minimum(c)), self.value(Maximum(c))
        if low is None or not (isfinite(low) and isfinite(high)):
            return
        if low >= 0:
            reason = f"The minimum of {self.values} numbers is {format_number(low, 6)}."
            yield self._suggestion("is_non_negative", reason=reason)
        if categories or low == high:
            return
        margin = RANGE_MARGIN * (high - low)
        lower, upper = widen(low, high, margin)
        between = (
            f"{self.values} numbers are between {format_number(low, 6)} and {format_number(high, 6)}; the margin is half their"
            f" distance, {format_number(margin, 6)}."
        )
        if low < 0:
            yield self._suggestion("has_min", (lower, None), reason=between).of_range()
        yield self._suggestion("has_max", (None, upper), reason=between).of_range()
        mean, spread = self.value(Mean(c)), self.value(StandardDeviation(c))
        if mean is None or not spread or not (isfinite(mean) and isfinite(spread)):
            return
        mean_text = f"The mean of {self.values} numbers is {format_number(mean, 6)}, their standard deviation {format_number(spread, 6)}"
        reason = f"{mean_text}; the mean may change by one standard deviation."
        yield self._suggestion("has_mean", widen(mean, mean, spread), reason=reason)
        reason = f"{mean_text}; values between half and double are allowed."
        yield self._suggestion(
            "has_standard_deviation", widen(spread / 2, 2 * spread, 0), reason=reason
        )

    def _texts(self, *, categories: bool) -> Iterator[Suggestion]:
        c = self.column
        for name in PATTERNS:
            pattern = PatternMatch(c, name, "ignore")
            share = self.value(pattern) or 0.0
            if share >= profiler.MIN_MATCHING_SHARE:
                min_share = 1.0 if share == 1 else floor2(wilson(share, self.values)[0])
                reason = f"{round(share * self.values)} of {self.values} strings match {name}."
                yield self._suggestion("has", pattern, Between(min_share), reason=reason)
        yield from self._kind()
        short, long = self.value(MinLength(c)), self.value(MaxLength(c))
        if categories or short is None:
            return
        if short == long:
            reason = f"All {self.values} strings have {short:.0f} characters."
            yield self._suggestion("has_min_length", (short, None), reason=reason)
            yield self._suggestion("has_max_length", (None, long), reason=reason)
        else:
            reason = f"The longest of {self.values} strings has {long:.0f} characters; half as many more are allowed."
            max_length = float(round(1.5 * long))
            yield self._suggestion("has_max_length", (None, max_length), reason=reason).of_range()

    def _kind(self) -> Iterator[Suggestion]:
        distribution = self.value(DataType(self.column))
        if distribution is None:
            return
        counts = {kind: entry.absolute for kind, entry in distribution.values.items()}
        for kind in ("Boolean", "Integral", "Numeric"):
            share = sum(counts[group] for group in DATA_TYPE_GROUPS[kind]) / self.values
            if share >= profiler.MIN_MATCHING_SHARE:
                options = {} if share == 1 else {"at_least": floor2(wilson(share, self.values)[0])}
                reason = f"{round(share * self.values)} of {self.values} strings read as {kind}."
                yield self._suggestion("has_data_type", kind, reason=reason, **options)
                return


def suggest_from_data(sample: profiler.TableSample) -> tuple[list[Suggestion], dict[str, str]]:
    """Return suggestions from sampled rows, and rejected suggestions with reasons.

    The rows are read two or three times: to find candidates, to count the values of categories, and to
    evaluate constraints that these two scans do not cover.
    """
    analyzers = [
        a
        for column, kind in sample.columns
        for a in (*profiler.sample_analyzers(column, kind), *_extra_analyzers(column, kind))
    ]
    metrics = sample.measure([Size(), *analyzers])
    rows = int(metrics[Size()].value)
    columns = [
        ColumnProfile(column, kind, rows, sample.is_complete, metrics)
        for column, kind in sample.columns
    ]
    columns = [
        profile for profile in columns if profile.kind not in {"array", "map", "variant", "struct"}
    ]
    histograms = [
        category_histogram(profile.column) for profile in columns if profile.may_be_category
    ]
    counted = sample.measure(histograms) if histograms else {}
    drafts = [draft for profile in columns for draft in profile.suggestions(counted)]
    return _keep_valid(sample, {**metrics, **counted}, drafts)


def category_histogram(column: str) -> Histogram:
    """Return the analyzer that counts the values of a categorical column, null included."""
    return Histogram(column, profiler.MAX_CATEGORIES + 1)


def _extra_analyzers(column: str, kind: str) -> Iterable[AnyAnalyzer]:
    if kind in NUMERIC:
        return Mean(column), StandardDeviation(column)
    return (MinLength(column), MaxLength(column)) if kind in TEXT else ()


def _keep_valid(
    sample: profiler.TableSample, metrics: Metrics, drafts: list[Suggestion]
) -> tuple[list[Suggestion], dict[str, str]]:
    check = Check("suggested", constraints=[draft.constraint for draft in drafts])
    missing = [analyzer for analyzer in check.analyzers if analyzer not in metrics]
    all_metrics = {**metrics, **(sample.measure(missing) if missing else {})}
    valid, rejected = [], {}
    for draft, result in zip(drafts, check.evaluate(Measurements(all_metrics)), strict=True):
        if result.passed:
            valid.append(draft)
        else:
            rejected[draft.constraint.description] = f"it does not hold: {result.message}"
    return valid, rejected


MIN_PARTITIONS = 20
"""Minimum number of partitions for suggesting limits."""
MIN_PARTITIONS_DETECTOR = 28
"""Minimum number of dated partitions for suggesting a detector: four of each weekday."""
TAIL_QUANTILE = 0.01
"""Lower quantile for limits; the upper quantile is 1 minus it."""
QUANTILE_MARGIN = 0.5
"""Margin of limits beyond the quantiles, as a share of their distance."""
MAY_FAIL = 0.05
"""Largest share of partitions in which a suggestion is allowed to fail."""
MAX_SUGGESTED_DROP = 0.25
"""Largest 99% quantile of weekly drops for which a week-over-week limit is suggested."""
ONE_WEEK = timedelta(days=7)
GOOD_SHARES = (Completeness, Compliance, PatternMatch)
"""Shares for which only low values are bad."""
VERIFY_BATCH_SIZE = 200
"""Suggestions verified together, which bounds memory."""
SCALES_WITHOUT_LIMITS = (Scale.TIME,)


@dataclass(frozen=True)
class MetricHistory:
    """Finite values of one metric, in time order.

    Attributes
    ----------
    analyzer : Analyzer
        The analyzer of the metric.
    values, weights : sequence of float
        A weight is the number of rows behind a value; NaN if unknown.
    times : sequence of (str, datetime or None)
        Segment and time of each partition.
    """

    analyzer: Analyzer[Any, Any]
    values: Sequence[float]
    weights: Sequence[float]
    times: Sequence[tuple[str, datetime | None]]

    @property
    def rows(self) -> int:
        """The known number of rows behind all values."""
        return int(sum(weight for weight in self.weights if not isnan(weight)))

    def quantile(self, share: float) -> float:
        """Return the quantile of the values, without interpolation."""
        return sample_quantile(self.values, share)

    def suggestions(self) -> Iterator[Suggestion]:
        """Yield the suggestions from the values, not yet verified."""
        scale = self.analyzer.scale_of(self.analyzer.name)
        if len(self.values) < MIN_PARTITIONS or scale in SCALES_WITHOUT_LIMITS:
            return
        if min(self.values) == max(self.values):
            yield from self._constant(scale)
            return
        if scale is Scale.RATIO:
            yield from self._share()
            yield from self._week()
        else:
            yield self._range(scale)
        yield from self._usual()

    def _suggestion(self, method: str, *values: Any, reason: str, **options: Any) -> Suggestion:
        rows, partitions = self.rows, len(self.values)
        return make_suggestion(
            method,
            *values,
            reason=reason,
            source="history",
            rows=rows,
            partitions=partitions,
            **options,
        )

    def _constant(self, scale: Scale) -> Iterator[Suggestion]:
        value = self.values[0]
        always = f"It was {format_number(value)} in all {len(self.values)} partitions."
        if scale is Scale.RATIO and isinstance(self.analyzer, GOOD_SHARES):
            if value > 0:
                yield self._least(value, always)
        elif scale in {
            Scale.RATIO,
            Scale.FLAG,
            Scale.COUNT,
        }:  # other scales are equal only by rounding
            yield self._suggestion("has", self.analyzer, Between(value, value), reason=always)

    def _share(self) -> Iterator[Suggestion]:
        low, high = self.quantile(TAIL_QUANTILE), self.quantile(1 - TAIL_QUANTILE)
        rows = sample_quantile([weight for weight in self.weights if weight > 0], 0.5)
        min_share = floor2(wilson(low, rows)[0])
        uncertainty = f"the uncertainty of {rows:.0f} rows"
        if isinstance(self.analyzer, GOOD_SHARES):
            if min_share > 0:
                reason = (
                    f"It was below {low:.4g} in 1% of {len(self.values)} partitions; less {uncertainty} that is"
                    f" {format_number(min_share)}."
                )
                yield self._least(min_share, reason)
            return
        max_share = ceil2(wilson(high, rows)[1])
        if min_share > 0 or max_share < 1:
            reason = (
                f"98% of {len(self.values)} partitions were between {low:.4g} and {high:.4g}, widened by"
                f" {uncertainty}."
            )
            bounds = Between(min_share or None, max_share if max_share < 1 else None)
            yield self._suggestion("has", self.analyzer, bounds, reason=reason)

    def _least(self, min_share: float, reason: str) -> Suggestion:
        if isinstance(self.analyzer, Completeness) and self.analyzer.where is None:
            options = {} if min_share == 1 else {"at_least": min_share}
            return self._suggestion("is_complete", self.analyzer.column, reason=reason, **options)
        return self._suggestion("has", self.analyzer, Between(min_share), reason=reason)

    def _range(self, scale: Scale) -> Suggestion:
        low, high = self.quantile(TAIL_QUANTILE), self.quantile(1 - TAIL_QUANTILE)
        margin = QUANTILE_MARGIN * (high - low)
        lower, upper = widen(low, high, margin)
        reason = (
            f"98% of {len(self.values)} partitions were between {low:.4g} and {high:.4g}; the margin is half"
            f" their distance, {margin:.4g}."
        )
        if scale is not Scale.SIGNED and lower <= 0:
            bounds: tuple[float | None, float] = (None, upper)
        else:
            bounds = (lower, upper)
        if self.analyzer == Size():
            return self._suggestion("has_size", bounds, reason=reason)
        return self._suggestion("has", self.analyzer, bounds, reason=reason)

    def _week(self) -> Iterator[Suggestion]:
        by_time = dict(zip(self.times, self.values, strict=True))
        drops = [
            max(0.0, by_time[segment, time - ONE_WEEK] - value)
            for (segment, time), value in by_time.items()
            if time is not None and (segment, time - ONE_WEEK) in by_time
        ]
        if len(drops) < MIN_PARTITIONS or not isinstance(self.analyzer, GOOD_SHARES):
            return
        rare = sample_quantile(drops, 1 - TAIL_QUANTILE)
        allowed_drop = ceil2(rare)
        if 0 < allowed_drop <= MAX_SUGGESTED_DROP:
            reason = (
                f"From one week to the next it fell by more than {rare:.4g} in 1% of {len(drops)} pairs;"
                f" rounded up, this is {format_number(allowed_drop)}."
            )
            yield self._suggestion("not_below", self.analyzer, "7d", by=allowed_drop, reason=reason)

    def _usual(self) -> Iterator[Suggestion]:
        if sum(time is not None for _, time in self.times) < MIN_PARTITIONS_DETECTOR:
            return
        try:
            monitor_of(AnomalySettings(), self.analyzer)
        except SuiteError:
            return
        low, high = min(self.values), max(self.values)
        reason = (
            f"The history of {len(self.values)} partitions, between {low:.4g} and {high:.4g}, is long enough for the seasonal"
            " detector."
        )
        yield self._suggestion("is_usual", self.analyzer, reason=reason)


def suggest_from_history(
    repository: Repository, dataset: str, segment: str = ""
) -> tuple[list[Suggestion], dict[str, str]]:
    """Return suggestions from a dataset's history, and rejected suggestions with reasons.

    Suggestions on metrics of the dataset come first. Each suggestion was evaluated in all stored partitions:
    it holds in the newest partition and in at least 95% of all partitions, as its reason states.
    """
    drafts, left_out = [], {}
    for name, past in _histories(repository, dataset, segment):
        if isinstance(past, str):
            left_out[name] = past
            continue
        suggestions = list(past.suggestions())
        drafts += suggestions
        if not suggestions:
            left_out[name] = _rejection_reason(past)
    valid = []
    for start in range(0, len(drafts), VERIFY_BATCH_SIZE):
        batch, rejected = _verify_history(
            repository, dataset, segment, drafts[start : start + VERIFY_BATCH_SIZE]
        )
        valid += batch
        left_out |= rejected
    valid.sort(key=lambda suggestion: suggestion.constraint.analyzer.entity is not Entity.DATASET)
    return valid, left_out


def _rejection_reason(past: MetricHistory) -> str:
    if len(past.values) < MIN_PARTITIONS:
        return f"{len(past.values)} partitions are too few; at least {MIN_PARTITIONS} are required"
    if past.analyzer.scale_of(past.analyzer.name) in SCALES_WITHOUT_LIMITS:
        return "times increase, so no limit would last"
    if len(set(past.values)) == 1:
        return f"it was {format_number(past.values[0])} in all partitions, so no other limit follows from it"
    return "it varies too much for a useful limit"


def _histories(
    repository: Repository, dataset: str, segment: str
) -> Iterator[tuple[str, MetricHistory | str]]:
    """Yield each analyzer in string form with its history, or the reason why it has no history."""
    targets = View(repository.database, repository.artifacts, dataset).targets("all", segment)
    selected = {(target.partition, target.segment) for target in targets}
    frame = repository.metrics(dataset)
    is_selected = [
        pair in selected for pair in zip(frame["partition"], frame["segment"], strict=True)
    ]
    for name, rows in frame[is_selected].groupby("analyzer", sort=False):
        try:
            analyzer = ANALYZERS.parse(str(name))
        except (SuiteError, IllegalAnalyzerParameterError) as error:
            yield str(name), f"it cannot be read: {error}"
            continue
        finite_rows = rows[(rows["name"] == analyzer.name) & (rows["status"] == "finite")]
        if finite_rows.empty:
            has_values = (rows["status"] == "finite").any()
            yield str(name), "it has several values" if has_values else "it never had a value"
            continue
        times = [
            time.to_pydatetime() if has_time else None
            for time, has_time in zip(finite_rows["time"], finite_rows["time"].notna(), strict=True)
        ]
        segments_and_times = list(zip(finite_rows["segment"].tolist(), times, strict=True))
        yield (
            str(name),
            MetricHistory(
                analyzer,
                finite_rows["value"].tolist(),
                finite_rows["weight"].tolist(),
                segments_and_times,
            ),
        )


def _verify_history(
    repository: Repository, dataset: str, segment: str, drafts: Sequence[Suggestion]
) -> tuple[list[Suggestion], Mapping[str, str]]:
    """Evaluate suggestions in all partitions; return valid suggestions, and the reasons against the others."""
    if not drafts:
        return [], {}
    check = Check("suggested", constraints=[draft.constraint for draft in drafts])
    verification = verify(repository, check, dataset=dataset, partitions="all", segment=segment)
    results_by_draft: dict[int, list[PartitionResult]] = {index: [] for index in range(len(drafts))}
    for result in verification.judged:  # in the order of time
        if result.result.status is not ConstraintStatus.NO_HISTORY:
            results_by_draft[result.position].append(result)
    newest = max(
        (result.time for result in verification.judged if result.time is not None), default=None
    )
    valid: list[Suggestion] = []
    rejected: dict[str, str] = {}
    for index, results in results_by_draft.items():
        description = drafts[index].constraint.description
        failed = [result for result in results if not result.result.passed]
        newest_failure = next(
            (result for result in failed if result.time is not None and result.time == newest), None
        )
        if newest_failure is not None:
            rejected[description] = (
                f"it does not hold in the newest partition: {newest_failure.result.message}"
            )
        elif len(failed) > MAY_FAIL * len(results) or not results:
            rejected[description] = (
                f"it does not hold in {len(failed)} of {len(results)} partitions"
            )
        else:
            holding_count = len(results) - len(failed)
            holding = f"{holding_count} of {len(results)}" if failed else f"all {holding_count}"
            valid.append(
                drafts[index].because(f"It holds in {holding} partitions that can be checked.")
            )
    return valid, rejected


def sample_quantile(values: Sequence[float], share: float) -> float:
    """Return the quantile of values by the nearest rank, without interpolation; 0 for no values.

    Examples
    --------
    >>> sample_quantile([3.0, 1.0, 2.0], 0.5), sample_quantile([1.0, 2.0, 3.0, 4.0], 0.01), sample_quantile([], 0.5)
    (2.0, 1.0, 0.0)
    """
    ordered = sorted(values)
    return ordered[round(share * (len(ordered) - 1))] if ordered else 0.0


def suggest(
    table: str | DataFrame | None = None,
    *,
    repository: Repository | str | None = None,
    dataset: str | None = None,
    segment: str = "",
    partition_by: Sequence[str] | None = None,
    sample_rows: int = profiler.SAMPLE_ROWS,
    spark: SparkSession | None = None,
    format: str = "parquet",
    options: Mapping[str, str] | None = None,
) -> Suggestions:
    """Propose checks from a table's rows, from its history in a repository, or from both.

    Rows give constraints on nulls, keys, categories, patterns, types and ranges. History gives limits at the
    1% and the 99% quantile, with half their distance as a margin. For shares it gives a minimum at the 1%
    quantile less the sampling uncertainty of its rows (Wilson, rounded down to two decimals), and a largest
    drop against the previous week at the 99% quantile of weekly drops. It also gives the normal range of the
    seasonal detector. Limits need 20 partitions, the detector needs 28. If history limits a metric, rows do not
    limit it again.

    Every suggestion was verified: a suggestion from rows holds for the rows read. A suggestion from history
    holds in the newest partition and in at least 95% of all partitions, as its reason states. Rejected
    suggestions are in `Suggestions.left_out`.

    Parameters
    ----------
    table : str or DataFrame, optional
        As for `analyze`. Without a table nothing is scanned, and Spark is not needed.
    repository : Repository or str, optional
        Repository, or its URL, with the history of the dataset.
    dataset : str, optional
        Name of the dataset (default: the table's name without its database; without a table, the only
        dataset of the repository).
    segment : str
        Segment whose history is used instead of the history of whole partitions, such as ``origin=EWR``.
    partition_by : sequence of str, optional
        As for `Suite`; nothing is suggested for these columns.
    sample_rows : int
        Approximate number of rows to read. They are read two or three times.
    spark, format, options
        As for `analyze`.

    Returns
    -------
    Suggestions

    Raises
    ------
    SuiteError
        If neither a table nor a repository is given.
    UnknownDatasetError
        If no table is given, and the dataset does not exist in the repository.
    SourceError
        If the table cannot be read.

    Examples
    --------
    >>> import tidegauge as tg
    >>> orders = tg.spark_session().range(1000).selectExpr("id", "id % 7 AS amount")  # doctest: +SKIP
    >>> suggestions = tg.suggest(orders, dataset="orders")  # doctest: +SKIP
    >>> any(item.code == ".is_complete('id')" for item in suggestions)  # doctest: +SKIP
    True
    >>> tg.verify(orders, suggestions.check()).passed  # doctest: +SKIP
    True
    """
    repository = as_repository(repository)
    if table is None and repository is None:
        msg = "suggest takes a table, a repository with its history, or both"
        raise SuiteError(msg)
    from_history: list[Suggestion] = []
    left_out: dict[str, str] = {}
    if table is not None:
        dataset = dataset or profiler.name_of(table)
    if repository is not None and (table is None or dataset in repository.datasets()):
        dataset = resolve_dataset(repository, dataset)
        from_history, left_out = suggest_from_history(repository, dataset, segment)
    assert dataset is not None
    if table is None:
        return Suggestions(dataset, tuple(from_history), left_out)

    suite = Suite(dataset, [Size()], partition_by=partition_by)
    source = open_source(table, suite, spark, format, options)
    with explained_read_errors(), profiler.sample_table(source, sample_rows) as sample:
        from_rows, rejected = suggest_from_data(sample)
    limited = {
        suggestion.constraint.analyzer
        for suggestion in from_history
        if _limits(suggestion.constraint)
    }
    new = [suggestion for suggestion in from_rows if suggestion.constraint.analyzer not in limited]
    return Suggestions(dataset, (*from_history, *new), {**left_out, **rejected})


def _limits(constraint: Constraint) -> bool:
    return isinstance(constraint, MetricConstraint) and constraint.part is None
