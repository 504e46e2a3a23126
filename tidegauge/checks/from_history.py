"""Suggest checks from the metric history of a dataset, without a scan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import isnan
from typing import TYPE_CHECKING, Any

from tidegauge.analyzers.core.analyzer import ANALYZERS, Analyzer
from tidegauge.analyzers.core.errors import IllegalAnalyzerParameterError, SuiteError
from tidegauge.analyzers.core.evidence import AnomalySettings
from tidegauge.analyzers.core.metric import Entity, Scale
from tidegauge.analyzers.measures.counts import Completeness, Compliance, Size
from tidegauge.analyzers.measures.texts import PatternMatch
from tidegauge.checks.assertions import Between, format_number
from tidegauge.checks.check import Check
from tidegauge.checks.constraints import ConstraintStatus, PartitionResult
from tidegauge.checks.margins import ceil2, floor2, widen, wilson
from tidegauge.checks.suggestions import Suggestion, make_suggestion
from tidegauge.checks.verifying import verify
from tidegauge.repository.detection.judge import monitor_of
from tidegauge.repository.history.targets import View

if TYPE_CHECKING:
    from tidegauge.repository.repository import Repository

MIN_PARTITIONS = 20
"""Minimum number of partitions for suggesting limits."""
MIN_PARTITIONS_DETECTOR = 28
"""Minimum number of dated partitions for suggesting a detector: four of each weekday."""
RARE = 0.01
"""Lower quantile behind limits; the upper one is 1 minus it."""
MARGIN = 0.5
"""Margin of limits beyond those quantiles, as a share of their distance."""
MAY_FAIL = 0.05
"""Largest share of partitions in which a suggestion may fail."""
LARGEST_DROP = 0.25
"""Largest 99 % quantile of weekly drops for which a week-over-week limit is suggested."""
WEEK = timedelta(days=7)
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
        """Return the quantile of the values that is one of them."""
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

    def _made(self, method: str, *values: Any, reason: str, **named: Any) -> Suggestion:
        rows, partitions = self.rows, len(self.values)
        return make_suggestion(
            method,
            *values,
            reason=reason,
            source="history",
            rows=rows,
            partitions=partitions,
            **named,
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
            yield self._made("has", self.analyzer, Between(value, value), reason=always)

    def _share(self) -> Iterator[Suggestion]:
        low, high = self.quantile(RARE), self.quantile(1 - RARE)
        rows = sample_quantile([weight for weight in self.weights if weight > 0], 0.5)
        least = floor2(wilson(low, rows)[0])
        behind = f"the uncertainty of {rows:.0f} rows"
        if isinstance(self.analyzer, GOOD_SHARES):
            if least > 0:
                reason = (
                    f"It was below {low:.4g} in 1 % of {len(self.values)} partitions; less {behind} that is"
                    f" {format_number(least)}."
                )
                yield self._least(least, reason)
            return
        most = ceil2(wilson(high, rows)[1])
        if least > 0 or most < 1:
            reason = (
                f"98 % of {len(self.values)} partitions were between {low:.4g} and {high:.4g}, widened by"
                f" {behind}."
            )
            wanted = Between(least or None, most if most < 1 else None)
            yield self._made("has", self.analyzer, wanted, reason=reason)

    def _least(self, least: float, reason: str) -> Suggestion:
        if isinstance(self.analyzer, Completeness) and self.analyzer.where is None:
            named = {} if least == 1 else {"at_least": least}
            return self._made("is_complete", self.analyzer.column, reason=reason, **named)
        return self._made("has", self.analyzer, Between(least), reason=reason)

    def _range(self, scale: Scale) -> Suggestion:
        low, high = self.quantile(RARE), self.quantile(1 - RARE)
        margin = MARGIN * (high - low)
        lower, upper = widen(low, high, margin)
        reason = (
            f"98 % of {len(self.values)} partitions were between {low:.4g} and {high:.4g}; the margin is half"
            f" their distance, {margin:.4g}."
        )
        if scale is not Scale.SIGNED and lower <= 0:
            wanted: tuple[float | None, float] = (None, upper)
        else:
            wanted = (lower, upper)
        if self.analyzer == Size():
            return self._made("has_size", wanted, reason=reason)
        return self._made("has", self.analyzer, wanted, reason=reason)

    def _week(self) -> Iterator[Suggestion]:
        by_time = dict(zip(self.times, self.values, strict=True))
        drops = [
            max(0.0, by_time[where, time - WEEK] - value)
            for (where, time), value in by_time.items()
            if time is not None and (where, time - WEEK) in by_time
        ]
        if len(drops) < MIN_PARTITIONS or not isinstance(self.analyzer, GOOD_SHARES):
            return
        rare = sample_quantile(drops, 1 - RARE)
        by = ceil2(rare)
        if 0 < by <= LARGEST_DROP:
            reason = (
                f"From one week to the next it fell by more than {rare:.4g} in 1 % of {len(drops)} pairs;"
                f" rounded up that is {format_number(by)}."
            )
            yield self._made("not_below", self.analyzer, "7d", by=by, reason=reason)

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
        yield self._made("is_usual", self.analyzer, reason=reason)


def suggest_from_history(
    repository: Repository, dataset: str, segment: str = ""
) -> tuple[list[Suggestion], dict[str, str]]:
    """Return suggestions from a dataset's history, and rejected ones with reasons.

    Those on dataset metrics come first. Each suggestion was evaluated in all stored partitions: it
    holds in the newest, and in all but 5 % of them, as its reason states.
    """
    drafts, left_out = [], {}
    for text, past in _histories(repository, dataset, segment):
        if isinstance(past, str):
            left_out[text] = past
            continue
        found = list(past.suggestions())
        drafts += found
        if not found:
            left_out[text] = _why_not(past)
    kept = []
    for start in range(0, len(drafts), VERIFY_BATCH_SIZE):
        some, refused = _verified(
            repository, dataset, segment, drafts[start : start + VERIFY_BATCH_SIZE]
        )
        kept += some
        left_out |= refused
    kept.sort(key=lambda one: one.constraint.analyzer.entity is not Entity.DATASET)
    return kept, left_out


def _why_not(past: MetricHistory) -> str:
    if len(past.values) < MIN_PARTITIONS:
        return f"{len(past.values)} partitions are too few; {MIN_PARTITIONS} would do"
    if past.analyzer.scale_of(past.analyzer.name) in SCALES_WITHOUT_LIMITS:
        return "times increase, so no limit would last"
    if len(set(past.values)) == 1:
        return (
            f"it was {format_number(past.values[0])} in all partitions, which limits nothing else"
        )
    return "it varies too much for a limit that says anything"


def _histories(
    repository: Repository, dataset: str, segment: str
) -> Iterator[tuple[str, MetricHistory | str]]:
    """Yield each analyzer's text with its history, or the reason why it has none."""
    targets = View(repository.database, repository.artifacts, dataset).targets("all", segment)
    wanted = {(target.partition, target.segment) for target in targets}
    frame = repository.metrics(dataset)
    there = [pair in wanted for pair in zip(frame["partition"], frame["segment"], strict=True)]
    for text, rows in frame[there].groupby("analyzer", sort=False):
        try:
            analyzer = ANALYZERS.parse(str(text))
        except (SuiteError, IllegalAnalyzerParameterError) as error:
            yield str(text), f"it cannot be read: {error}"
            continue
        own = rows[(rows["name"] == analyzer.name) & (rows["status"] == "finite")]
        if own.empty:
            several = (rows["status"] == "finite").any()
            yield str(text), "it is several numbers" if several else "it never had a value"
            continue
        times = [
            time.to_pydatetime() if known else None
            for time, known in zip(own["time"], own["time"].notna(), strict=True)
        ]
        places = list(zip(own["segment"].tolist(), times, strict=True))
        yield (
            str(text),
            MetricHistory(analyzer, own["value"].tolist(), own["weight"].tolist(), places),
        )


def _verified(
    repository: Repository, dataset: str, segment: str, drafts: Sequence[Suggestion]
) -> tuple[list[Suggestion], Mapping[str, str]]:
    """Evaluate suggestions in all partitions; return those that hold, and why others do not."""
    if not drafts:
        return [], {}
    check = Check("suggested", constraints=[draft.constraint for draft in drafts])
    found = verify(repository, check, dataset=dataset, partitions="all", segment=segment)
    by_place: dict[int, list[PartitionResult]] = {place: [] for place in range(len(drafts))}
    for one in found.judged:  # in the order of time
        if one.result.status is not ConstraintStatus.NO_HISTORY:
            by_place[one.place].append(one)
    newest = max((one.time for one in found.judged if one.time is not None), default=None)
    kept: list[Suggestion] = []
    refused: dict[str, str] = {}
    for place, asked in by_place.items():
        what = drafts[place].constraint.description
        failed = [one for one in asked if not one.result.passed]
        last = next((one for one in failed if one.time is not None and one.time == newest), None)
        if last is not None:
            refused[what] = f"it does not hold in the newest partition: {last.result.message}"
        elif len(failed) > MAY_FAIL * len(asked) or not asked:
            refused[what] = f"it does not hold in {len(failed)} of {len(asked)} partitions"
        else:
            held = len(asked) - len(failed)
            among = f"{held} of {len(asked)}" if failed else f"all {held}"
            kept.append(drafts[place].because(f"It holds in {among} partitions that can be asked."))
    return kept, refused


def sample_quantile(values: Sequence[float], share: float) -> float:
    """Return the quantile of some values that is one of them, nearest by rank; 0 for no values.

    Examples
    --------
    >>> sample_quantile([3.0, 1.0, 2.0], 0.5), sample_quantile([1.0, 2.0, 3.0, 4.0], 0.01), sample_quantile([], 0.5)
    (2.0, 1.0, 0.0)
    """
    some = sorted(values)
    return some[round(share * (len(some) - 1))] if some else 0.0
