"""Checks that a dataset's own past suggests; nothing is scanned."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import isnan
from typing import TYPE_CHECKING, Any

from analyzers.analyzer import Analyzer
from analyzers.catalogue import ANALYZERS
from analyzers.checks.assertions import Between, told
from analyzers.checks.check import Check
from analyzers.checks.constraints import ConstraintStatus
from analyzers.checks.evidence import Usual
from analyzers.counts import Completeness, Compliance, Size
from analyzers.errors import IllegalAnalyzerParameterError, SuiteError
from analyzers.metric import Entity, Scale
from analyzers.texts import PatternMatch
from repository.anomalies.judging import monitor_of
from repository.targets import View
from tidegauge.checks.margins import ceil2, floor2, widened, wilson
from tidegauge.checks.suggestions import Suggestion, suggested
from tidegauge.checks.verification import Judged
from tidegauge.checks.verify import verify

if TYPE_CHECKING:
    from repository.repository import Repository

FEWEST = 20
"""Partitions below which the past says nothing of limits."""
ENOUGH = 28
"""Partitions from which on a detector is asked: four of each weekday."""
RARE = 0.01
"""The quantile that limits are made of, and its counterpart."""
MARGIN = 0.5
"""How far limits lie beyond those quantiles, as a share of their distance."""
MAY_FAIL = 0.05
"""The share of partitions where a suggestion may not hold."""
LARGEST_DROP = 0.25
"""A share that falls by more within a week, now and then, is not compared with it."""
WEEK = timedelta(days=7)
GOOD_SHARES = (Completeness, Compliance, PatternMatch)
"""Shares that can only be too low."""
ABREAST = 200
"""Suggestions that are proved together, which bounds memory."""
UNTOLD = (Scale.TIME,)


@dataclass(frozen=True)
class Past:
    """The finite values of one metric, in the order of time.

    Attributes
    ----------
    analyzer : Analyzer
    values, weights : sequence of float
        A weight is the number of rows behind a value; NaN where it is not known.
    times : sequence of (str, datetime or None)
        The segment that each partition lies in, and its time.
    """

    analyzer: Analyzer[Any, Any]
    values: Sequence[float]
    weights: Sequence[float]
    times: Sequence[tuple[str, datetime | None]]

    @property
    def rows(self) -> int:
        """The rows behind all values, as far as known."""
        return int(sum(weight for weight in self.weights if not isnan(weight)))

    def quantile(self, share: float) -> float:
        """Return the value below which so many lie; one that was there."""
        return ordered(self.values, share)

    def suggestions(self) -> Iterator[Suggestion]:
        """Yield what it suggests, before it is proved."""
        scale = self.analyzer.scale_of(self.analyzer.name)
        if len(self.values) < FEWEST or scale in UNTOLD:
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
        return suggested(
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
        always = f"It was {told(value)} in all {len(self.values)} partitions."
        if scale is Scale.RATIO and isinstance(self.analyzer, GOOD_SHARES):
            if value > 0:
                yield self._least(value, always)
        elif scale in {
            Scale.RATIO,
            Scale.FLAG,
            Scale.COUNT,
        }:  # others are equal by chance of rounding
            yield self._made("has", self.analyzer, Between(value, value), reason=always)

    def _share(self) -> Iterator[Suggestion]:
        low, high = self.quantile(RARE), self.quantile(1 - RARE)
        rows = ordered([weight for weight in self.weights if weight > 0], 0.5)
        least = floor2(wilson(low, rows)[0])
        behind = f"the uncertainty of {rows:.0f} rows"
        if isinstance(self.analyzer, GOOD_SHARES):
            if least > 0:
                reason = (
                    f"It was below {low:.4g} in 1 % of {len(self.values)} partitions; less {behind} that is"
                    f" {told(least)}."
                )
                yield self._least(least, reason)
            return
        most = ceil2(wilson(high, rows)[1])
        if least > 0 or most < 1:
            reason = (
                f"98 % of {len(self.values)} partitions lay between {low:.4g} and {high:.4g}, to which"
                f" {behind} is added."
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
        lower, upper = widened(low, high, margin)
        reason = (
            f"98 % of {len(self.values)} partitions lay between {low:.4g} and {high:.4g}; the margin is half"
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
        if len(drops) < FEWEST or not isinstance(self.analyzer, GOOD_SHARES):
            return
        rare = ordered(drops, 1 - RARE)
        by = ceil2(rare)
        if 0 < by <= LARGEST_DROP:
            reason = (
                f"From one week to the next it fell by more than {rare:.4g} in 1 % of {len(drops)} pairs;"
                f" rounded up that is {told(by)}."
            )
            yield self._made("not_below", self.analyzer, "7d", by=by, reason=reason)

    def _usual(self) -> Iterator[Suggestion]:
        if sum(time is not None for _, time in self.times) < ENOUGH:
            return
        try:
            monitor_of(Usual(), self.analyzer)
        except SuiteError:
            return
        low, high = min(self.values), max(self.values)
        reason = (
            f"{len(self.values)} partitions between {low:.4g} and {high:.4g} are enough for the seasonal"
            " detector to know what is usual."
        )
        yield self._made("is_usual", self.analyzer, reason=reason)


def from_history(
    repository: Repository, dataset: str, segment: str = ""
) -> tuple[list[Suggestion], dict[str, str]]:
    """Return what the past of a dataset suggests, of the whole first, and what it does not, and why.

    Each suggestion was judged in all partitions that are there: it holds in the newest, and in all but
    5 % of them, of which its reason tells.
    """
    drafts, left_out = [], {}
    for text, past in _pasts(repository, dataset, segment):
        if isinstance(past, str):
            left_out[text] = past
            continue
        found = list(past.suggestions())
        drafts += found
        if not found:
            left_out[text] = _why_not(past)
    kept = []
    for start in range(0, len(drafts), ABREAST):
        some, refused = _proved(repository, dataset, segment, drafts[start : start + ABREAST])
        kept += some
        left_out |= refused
    kept.sort(key=lambda one: one.constraint.analyzer.entity is not Entity.DATASET)
    return kept, left_out


def _why_not(past: Past) -> str:
    if len(past.values) < FEWEST:
        return f"{len(past.values)} partitions are too few; {FEWEST} would do"
    if past.analyzer.scale_of(past.analyzer.name) in UNTOLD:
        return "a time moves on"
    return f"it was {told(past.values[0])} in all partitions, which limits nothing else"


def _pasts(repository: Repository, dataset: str, segment: str) -> Iterator[tuple[str, Past | str]]:
    """Yield every analyzer's text with its past, or why it has none."""
    targets = View(repository, dataset).targets("all", segment)
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
        yield str(text), Past(analyzer, own["value"].tolist(), own["weight"].tolist(), places)


def _proved(
    repository: Repository, dataset: str, segment: str, drafts: Sequence[Suggestion]
) -> tuple[list[Suggestion], Mapping[str, str]]:
    """Judge suggestions in all partitions; return those that hold, and why others do not."""
    if not drafts:
        return [], {}
    check = Check("suggested", constraints=[draft.constraint for draft in drafts])
    found = verify(repository, check, dataset=dataset, partitions="all", segment=segment)
    by_place: dict[int, list[Judged]] = {place: [] for place in range(len(drafts))}
    for one in found.judged:  # in the order of time
        if one.result.status is not ConstraintStatus.NO_HISTORY:
            by_place[one.place].append(one)
    newest = max((one.time for one in found.judged if one.time is not None), default=None)
    kept: list[Suggestion] = []
    refused: dict[str, str] = {}
    for place, asked in by_place.items():
        what = drafts[place].constraint.description
        failed = [one for one in asked if not one.result.passed]
        last = next((one for one in failed if one.time == newest), None)
        if last is not None:
            refused[what] = f"it does not hold in the newest partition: {last.result.message}"
        elif len(failed) > MAY_FAIL * len(asked) or not asked:
            refused[what] = f"it does not hold in {len(failed)} of {len(asked)} partitions"
        else:
            held = len(asked) - len(failed)
            among = f"{held} of {len(asked)}" if failed else f"all {held}"
            kept.append(drafts[place].because(f"It holds in {among} partitions that can be asked."))
    return kept, refused


def ordered(values: Sequence[float], share: float) -> float:
    """Return the quantile of some values that is one of them, the nearest to the middle; 0 of none.

    Examples
    --------
    >>> ordered([3.0, 1.0, 2.0], 0.5), ordered([1.0, 2.0, 3.0, 4.0], 0.01), ordered([], 0.5)
    (2.0, 1.0, 0.0)
    """
    some = sorted(values)
    return some[round(share * (len(some) - 1))] if some else 0.0
