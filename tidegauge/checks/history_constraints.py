"""Constraints that compare a metric with its history, and their methods."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from math import inf, isfinite, nan
from statistics import fmean, median
from typing import Any, Self

from tidegauge.analyzers.core.analyzer import AnyAnalyzer
from tidegauge.analyzers.core.errors import SuiteError
from tidegauge.analyzers.core.evidence import AnomalySettings, EarlierValues, Evidence
from tidegauge.analyzers.core.formatting import DURATION, duration_text
from tidegauge.analyzers.core.metric import Metric, Scale, written_scale
from tidegauge.analyzers.core.registry import Description
from tidegauge.checks.assertions import (
    AssertionLike,
    Between,
    ConstraintBuilder,
    as_assertion,
    format_number,
    number_text,
)
from tidegauge.checks.constraints import (
    Constraint,
    ConstraintResult,
    ConstraintStatus,
    subject,
    value_sentence,
)

_AGO_PATTERN = re.compile(
    r"(?:(?P<statistic>mean|median|min|max) of )?(?P<count>[1-9]\d*)(?P<unit>[hdw])"
)
_UNIT_NAMES = {"h": "hours", "d": "days", "w": "weeks"}
_STATISTIC_FUNCTIONS: dict[str, Callable[[Sequence[float]], float]] = {
    "mean": fmean,
    "median": median,
    "min": min,
    "max": max,
}
COMPARISON_KINDS = ("difference", "ratio")
MISSING_ACTIONS = ("pass", "fail")
VALUE_DIGITS, RATIO_DIGITS = 6, 4
"""Significant digits of compared values in messages, and of ratios, which are shown as percentages."""


def _value_text(value: float, analyzer: AnyAnalyzer) -> str:
    scale = written_scale(analyzer.name, analyzer.scale)
    if scale == DURATION:
        return duration_text(value)
    return number_text(value, scale, RATIO_DIGITS if scale == Scale.RATIO else VALUE_DIGITS)


@dataclass(frozen=True, repr=False)
class Baseline(Description):
    """Part of a metric's history that a value is compared with.

    Parameters
    ----------
    ago : str
        ``7d``: the partition exactly this time before (hours ``h``, days ``d``, weeks ``w``).
        ``previous``: the previous partition. ``mean of 28d``, ``median of ...``, ``min of ...``,
        ``max of ...``: over all partitions within this time before.

    Examples
    --------
    >>> from datetime import datetime
    >>> days = [datetime(2013, 2, day) for day in (1, 2, 3)]
    >>> Baseline("mean of 2d").find_value(EarlierValues(days[2], days, ["a", "b", "c"], [1.0, 2.0, 9.0]))
    ('2d before', 1.5)
    """

    ago: str

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.ago != "previous" and not _AGO_PATTERN.fullmatch(self.ago):
            msg = f"invalid baseline {self.ago!r}; write '7d', 'previous' or 'mean of 28d'"
            raise SuiteError(msg)

    def find_value(self, earlier: EarlierValues) -> tuple[str, float] | None:
        """Return the label and the value of the baseline; None without an earlier value."""
        if self.ago == "previous":
            return earlier.last()
        match = _AGO_PATTERN.fullmatch(self.ago)
        assert match is not None
        length = timedelta(**{_UNIT_NAMES[match["unit"]]: int(match["count"])})
        if match["statistic"] is None:
            return earlier.at(length)
        values = earlier.within(length)
        length_text = f"{match['count']}{match['unit']} before"
        return (length_text, _STATISTIC_FUNCTIONS[match["statistic"]](values)) if values else None

    def __str__(self) -> str:
        if self.ago == "previous" or " of " in self.ago:
            return self.ago
        return f"{self.ago} before"


@dataclass(frozen=True)
class HistoryConstraint(Constraint):
    """An assertion on a metric relative to its history.

    The assertion applies to the difference (now minus then) or the ratio (now divided by then).

    Attributes
    ----------
    baseline : Baseline
        The earlier value to compare with.
    how : str
        ``difference`` or ``ratio``; 0 / 0 is 1.
    missing : str
        ``pass`` or ``fail``: the result without an earlier value.
    """

    baseline: Baseline = field(kw_only=True)
    how: str = field(default="difference", kw_only=True)
    missing: str = field(default="pass", kw_only=True)

    def __post_init__(self) -> None:
        _one_of("how", self.how, COMPARISON_KINDS)
        _one_of("missing", self.missing, MISSING_ACTIONS)

    @property
    def description(self) -> str:
        """The assertion as one line."""
        difference_or_ratio = f"{self.how} to {self.baseline}"
        if self.how == "difference" and isinstance(self.assertion, Between):
            difference_or_ratio = (
                _bound_text(self.assertion, str(self.baseline))
                or f"{difference_or_ratio} {self.assertion}"
            )
        else:
            difference_or_ratio = f"{difference_or_ratio} {self.assertion}"
        return f"{subject(self.analyzer)}: {difference_or_ratio}"

    def compare(self, metric: Metric[Any], evidence: Evidence) -> ConstraintResult:
        """Evaluate the difference or ratio."""
        if not isinstance(metric.value, int | float):
            return self.failed(_composite_value_message(self), metric)
        now = float(metric.value)
        earlier = evidence.earlier(self.analyzer)
        baseline = None if earlier is None else self.baseline.find_value(earlier)
        if baseline is None:
            missing_kind = "value" if earlier is not None else "history"
            return self.no_history(
                f"no {missing_kind} of {self.baseline} to compare with", metric, now
            )
        label, then = baseline

        value, earlier_text = (_value_text(number, self.analyzer) for number in (now, then))
        values = f"{value_sentence(self.analyzer, value)}, after {earlier_text} ({label})"
        change = difference_or_ratio(now, then, self.how)
        scale = written_scale(self.analyzer.name, Scale.SIGNED)
        result = self.judge(
            change,
            metric,
            lambda text: f"{values}: the {self.how} is {text}",
            scale if self.how == "difference" else Scale.SIGNED,
        )
        return ConstraintResult(self, result.status, result.message, now, metric)

    def no_history(self, message: str, metric: Metric[Any], now: float) -> ConstraintResult:
        """Return the result without an earlier value."""
        if self.missing == "fail":
            return self.failed(f"{subject(self.analyzer)}: {message}", metric, now)
        return ConstraintResult(self, ConstraintStatus.NO_HISTORY, message, now, metric)


@dataclass(frozen=True)
class AnomalyConstraint(Constraint):
    """An assertion that a detector finds no anomaly in a metric, given its history.

    Attributes
    ----------
    usual : AnomalySettings
        Settings of the detector.
    missing : str
        ``pass`` or ``fail``: the result if the history is too short.
    """

    assertion: Between = field(default_factory=Between, kw_only=True)
    usual: AnomalySettings = field(default_factory=AnomalySettings, kw_only=True)
    missing: str = field(default="pass", kw_only=True)

    def __post_init__(self) -> None:
        _one_of("missing", self.missing, MISSING_ACTIONS)

    @property
    def description(self) -> str:
        """The assertion as one line."""
        return f"{subject(self.analyzer)}: usual for {self.usual.detector}"

    def compare(self, metric: Metric[Any], evidence: Evidence) -> ConstraintResult:
        """Evaluate the metric with the detector."""
        if not isinstance(metric.value, int | float):
            return self.failed(_composite_value_message(self), metric)
        now = float(metric.value)
        judgement = evidence.judged(self.analyzer, self.usual)
        if judgement is None:
            message = f"the history is too short for {self.usual.detector}"
            if self.missing == "fail":
                return self.failed(f"{subject(self.analyzer)}: {message}", metric, now)
            return ConstraintResult(self, ConstraintStatus.NO_HISTORY, message, now, metric)
        if not judgement.unusual:
            return ConstraintResult(self, ConstraintStatus.SUCCESS, "", now, metric)
        is_within = judgement.lower <= now <= judgement.upper
        suffix = ", though within the usual range" if is_within else ""
        value, expected, lower, upper = (
            _value_text(number, self.analyzer)
            for number in (now, judgement.expected, judgement.lower, judgement.upper)
        )
        sentence = value_sentence(self.analyzer, value)
        parts = [f"{sentence}, unusual for {self.usual.detector}{suffix}"]
        if isfinite(judgement.expected):
            parts.append(f"expected {expected}")
        if isfinite(judgement.lower) or isfinite(judgement.upper):
            parts.append(f"usual are {lower} to {upper}")
        return self.failed(", ".join(parts), metric, now)


def difference_or_ratio(now: float, then: float, how: str) -> float:
    """Return a difference or a ratio in decimal arithmetic, so that 0.94 is 0.05 below 0.99.

    NaN if either number is not finite; 0 / 0 is 1, any other number divided by 0 is infinite.

    Examples
    --------
    >>> difference_or_ratio(0.94, 0.99, "difference"), difference_or_ratio(3.0, 4.0, "ratio"), difference_or_ratio(0.0, 0.0, "ratio")
    (-0.05, 0.75, 1.0)
    """
    if not (isfinite(now) and isfinite(then)):
        return nan
    if how == "difference":
        return float(Decimal(repr(now)) - Decimal(repr(then)))
    if then == 0:
        return 1.0 if now == 0 else inf if now > 0 else -inf
    return float(Decimal(repr(now)) / Decimal(repr(then)))


def _composite_value_message(constraint: Constraint) -> str:
    return (
        f"{subject(constraint.analyzer)} has several values, so it cannot be compared as one number"
    )


def _bound_text(assertion: Between, baseline: str) -> str:
    """Return the wording of a closed one-sided bound of a difference; empty for other bounds."""
    if assertion.closed != "both":
        return ""
    low, high = assertion.lower, assertion.upper
    if high is None and low is not None and low <= 0:
        return f"not below {baseline}" + (f" by more than {format_number(-low)}" if low else "")
    if low is None and high is not None and high >= 0:
        return f"not above {baseline}" + (f" by more than {format_number(high)}" if high else "")
    return ""


def _one_of(option: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        msg = f"{option} must be {' or '.join(map(repr, allowed))}, not {value!r}"
        raise SuiteError(msg)


class HistoryMethods(ConstraintBuilder):
    """Constraints that compare a metric with earlier partitions of the same segment.

    A partition is never compared with another version of itself or with later partitions; partitions are
    ordered by their own time. Without an earlier value, the constraint passes with a message, unless
    ``missing="fail"``.
    """

    def not_below(
        self,
        analyzer: AnyAnalyzer | str,
        ago: str = "7d",
        by: float = 0.0,
        *,
        missing: str = "pass",
        hint: str = "",
    ) -> Self:
        """Assert that a metric has not dropped by more than ``by`` against its baseline.

        Parameters
        ----------
        analyzer : Analyzer or str
            The analyzer, or the name of a recorded series.
        ago : str
            The baseline. ``7d`` (or hours, ``h``, or weeks, ``w``): the partition exactly that long
            before. ``previous``: the partition before. ``mean of 28d`` (or median, min, max): all
            partitions within that time before.
        by : float
            Allowed drop in the metric's unit: 0.05 is five percentage points of a share.
        missing : str
            ``pass`` or ``fail``: the result without an earlier value.
        hint : str
            Text that is added to the failure message.

        Examples
        --------
        >>> import tidegauge as tg
        >>> check = tg.Check("flights").not_below(tg.Completeness("dep_time"), "7d", by=0.05)
        >>> check.constraints[0].description
        "Completeness('dep_time'): not below 7d before by more than 0.05"
        """
        bounds = Between(lower=-_amount(by))
        return self.compared(analyzer, ago, bounds, missing=missing, hint=hint)

    def not_above(
        self,
        analyzer: AnyAnalyzer | str,
        ago: str = "7d",
        by: float = 0.0,
        *,
        missing: str = "pass",
        hint: str = "",
    ) -> Self:
        """Assert that a metric has not risen by more than ``by``; see `not_below`."""
        bounds = Between(upper=_amount(by))
        return self.compared(analyzer, ago, bounds, missing=missing, hint=hint)

    def compared(
        self,
        analyzer: AnyAnalyzer | str,
        ago: str,
        assertion: AssertionLike,
        how: str = "difference",
        *,
        missing: str = "pass",
        hint: str = "",
    ) -> Self:
        """Assert on the difference to, or the ratio with, a baseline.

        Parameters
        ----------
        analyzer, ago, missing, hint
            As for `not_below`.
        assertion : callable, float, pair of float, or Between
            What the value must satisfy.
        how : str
            ``difference`` (now minus then) or ``ratio`` (now divided by then; 0 / 0 is 1).

        Examples
        --------
        >>> import tidegauge as tg
        >>> check = tg.Check("flights").compared(tg.Size(), "mean of 28d", (0.8, 1.2), "ratio")
        >>> check.constraints[0].description
        'Size(): ratio to mean of 28d at least 0.8 and at most 1.2'
        """
        return self.with_constraint(
            HistoryConstraint(
                self.read(analyzer),
                as_assertion(assertion),
                baseline=Baseline(ago),
                how=how,
                missing=missing,
                hint=hint,
            )
        )

    def is_usual(
        self,
        analyzer: AnyAnalyzer | str,
        detector: object = "Seasonal()",
        *,
        rule: object | None = None,
        direction: str = "both",
        least_effect: float = 0.0,
        missing: str = "pass",
        hint: str = "",
    ) -> Self:
        """Assert that a metric is not an anomaly compared with its history.

        Parameters
        ----------
        analyzer : Analyzer or str
            The analyzer, or the name of a recorded series.
        detector : Detector or str
            A detector, such as ``OnlineNormal(2, 2)``.
        rule, direction, least_effect
            As for `Monitor`. By default, the rule is the detector's own rule.
        missing : str
            ``pass`` or ``fail``: the result if the history is too short for the detector.
        hint : str
            Text that is added to the failure message.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("flights").is_usual(tg.Size()).constraints[0].description
        'Size(): usual for Seasonal()'
        """
        options = None if rule is None else str(rule)
        usual = AnomalySettings(str(detector), options, direction, least_effect)
        resolved_analyzer = self.read(analyzer)
        return self.with_constraint(
            AnomalyConstraint(resolved_analyzer, usual=usual, missing=missing, hint=hint)
        )


def _amount(by: float) -> float:
    amount = Between(by).lower
    if amount is None or amount < 0:
        msg = f"by must be an allowed change of at least 0, not {by!r}"
        raise SuiteError(msg)
    return amount or 0.0  # never -0.0
