"""Constraints that compare a metric with its own past."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from math import inf, isfinite, nan
from statistics import fmean, median
from typing import Any

from analyzers.checks.assertions import Between, told
from analyzers.checks.constraints import Constraint, ConstraintResult, ConstraintStatus, subject
from analyzers.checks.evidence import Earlier, Evidence, Usual
from analyzers.description import Description
from analyzers.errors import SuiteError
from analyzers.metric import Metric

_AGO = re.compile(r"(?:(?P<statistic>mean|median|min|max) of )?(?P<count>[1-9]\d*)(?P<unit>[hdw])")
_UNITS = {"h": "hours", "d": "days", "w": "weeks"}
_STATISTICS: dict[str, Callable[[Sequence[float]], float]] = {
    "mean": fmean,
    "median": median,
    "min": min,
    "max": max,
}
HOW = ("difference", "ratio")
MISSING = ("pass", "fail")
DIGITS = 6
"""Of values that are only named beside each other."""


@dataclass(frozen=True, repr=False)
class Baseline(Description):
    """What of the past a value is compared with.

    Parameters
    ----------
    ago : str
        ``7d``: the partition exactly so long before (hours ``h``, days ``d``, weeks ``w``). ``previous``:
        the partition before. ``mean of 28d``, ``median of ...``, ``min of ...``, ``max of ...``: over all
        partitions within so long before.

    Examples
    --------
    >>> from datetime import datetime
    >>> days = [datetime(2013, 2, day) for day in (1, 2, 3)]
    >>> Baseline("mean of 2d").of(Earlier(days[2], days, ["a", "b", "c"], [1.0, 2.0, 9.0]))
    ('2d before', 1.5)
    """

    ago: str

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.ago != "previous" and not _AGO.fullmatch(self.ago):
            msg = f"{self.ago!r} is no part of a history; write '7d', 'previous' or 'mean of 28d'"
            raise SuiteError(msg)

    def of(self, earlier: Earlier) -> tuple[str, float] | None:
        """Return the name of what is compared with, and its value; None if there is none."""
        if self.ago == "previous":
            return earlier.last()
        match = _AGO.fullmatch(self.ago)
        assert match is not None
        length = timedelta(**{_UNITS[match["unit"]]: int(match["count"])})
        if match["statistic"] is None:
            return earlier.at(length)
        values = earlier.within(length)
        length_text = f"{match['count']}{match['unit']} before"
        return (length_text, _STATISTICS[match["statistic"]](values)) if values else None

    def __str__(self) -> str:
        if self.ago == "previous" or " of " in self.ago:
            return self.ago
        return f"{self.ago} before"


@dataclass(frozen=True)
class HistoryConstraint(Constraint):
    """How a metric is wanted to compare with its own past.

    The assertion is about the difference, now less then, or the ratio, now by then.

    Attributes
    ----------
    baseline : Baseline
    how : str
        ``difference`` or ``ratio``; 0 by 0 is 1.
    missing : str
        ``pass`` or ``fail``: what becomes of it where there is nothing to compare with.
    """

    baseline: Baseline = field(kw_only=True)
    how: str = field(default="difference", kw_only=True)
    missing: str = field(default="pass", kw_only=True)

    def __post_init__(self) -> None:
        _one_of("how", self.how, HOW)
        _one_of("missing", self.missing, MISSING)

    @property
    def description(self) -> str:
        """What is wanted, in a line."""
        compared = f"{self.how} to {self.baseline}"
        if self.how == "difference" and isinstance(self.assertion, Between):
            compared = _limit(self.assertion, str(self.baseline)) or f"{compared} {self.assertion}"
        else:
            compared = f"{compared} {self.assertion}"
        return f"{subject(self.analyzer)}: {compared}"

    def compare(self, metric: Metric[Any], evidence: Evidence) -> ConstraintResult:
        """Judge the difference or ratio."""
        if not isinstance(metric.value, int | float):
            return self.failed(_several(self), metric)
        now = float(metric.value)
        earlier = evidence.earlier(self.analyzer)
        found = None if earlier is None else self.baseline.of(earlier)
        if found is None:
            what = "value" if earlier is not None else "history"
            return self.no_history(f"no {what} of {self.baseline} to compare with", metric, now)
        place, then = found

        def tell(refused: str) -> str:
            was = f"{told(now, DIGITS)}, after {told(then, DIGITS)} ({place})"
            return f"{was}: the {self.how} {refused}"

        result = self.judge(compared(now, then, self.how), metric, tell)
        return ConstraintResult(self, result.status, result.message, now, metric)

    def no_history(self, text: str, metric: Metric[Any], now: float) -> ConstraintResult:
        """Return what becomes of it where there is nothing to compare with."""
        if self.missing == "fail":
            return self.failed(text, metric, now)
        return ConstraintResult(self, ConstraintStatus.NO_HISTORY, text, now, metric)


@dataclass(frozen=True)
class UsualConstraint(Constraint):
    """That a metric is what its past makes likely, as a detector sees it.

    Attributes
    ----------
    usual : Usual
    missing : str
        ``pass`` or ``fail``: what becomes of it where the past is too short to tell.
    """

    assertion: Between = field(default_factory=Between, kw_only=True)
    usual: Usual = field(default_factory=Usual, kw_only=True)
    missing: str = field(default="pass", kw_only=True)

    def __post_init__(self) -> None:
        _one_of("missing", self.missing, MISSING)

    @property
    def description(self) -> str:
        """What is wanted, in a line."""
        return f"{subject(self.analyzer)}: usual for {self.usual.detector}"

    def compare(self, metric: Metric[Any], evidence: Evidence) -> ConstraintResult:
        """Ask the detector."""
        if not isinstance(metric.value, int | float):
            return self.failed(_several(self), metric)
        now = float(metric.value)
        judgement = evidence.judged(self.analyzer, self.usual)
        if judgement is None:
            text = f"too little is known from before for {self.usual.detector} to tell"
            if self.missing == "fail":
                return self.failed(text, metric, now)
            return ConstraintResult(self, ConstraintStatus.NO_HISTORY, text, now, metric)
        if not judgement.unusual:
            return ConstraintResult(self, ConstraintStatus.SUCCESS, "", now, metric)
        within = judgement.lower <= now <= judgement.upper
        also = ", though within what is usual" if within else ""
        parts = [f"{told(now, DIGITS)} is unusual for {self.usual.detector}{also}"]
        if isfinite(judgement.expected):
            parts.append(f"expected {told(judgement.expected, DIGITS)}")
        if isfinite(judgement.lower) or isfinite(judgement.upper):
            parts.append(
                f"usual are {told(judgement.lower, DIGITS)} to {told(judgement.upper, DIGITS)}"
            )
        return self.failed(", ".join(parts), metric, now)


def compared(now: float, then: float, how: str) -> float:
    """Return a difference or a ratio; of numbers as they are written, so that 0.94 is 0.05 below 0.99.

    Examples
    --------
    >>> compared(0.94, 0.99, "difference"), compared(3.0, 4.0, "ratio"), compared(0.0, 0.0, "ratio")
    (-0.05, 0.75, 1.0)
    """
    if not (isfinite(now) and isfinite(then)):
        return nan
    if how == "difference":
        return float(Decimal(repr(now)) - Decimal(repr(then)))
    if then == 0:
        return 1.0 if now == 0 else inf if now > 0 else -inf
    return float(Decimal(repr(now)) / Decimal(repr(then)))


def _several(constraint: Constraint) -> str:
    return f"{subject(constraint.analyzer)} is several numbers, which cannot be compared as one"


def _limit(assertion: Between, baseline: str) -> str:
    """Return how a bound of a difference reads, where there is one that is closed."""
    if assertion.closed != "both":
        return ""
    low, high = assertion.lower, assertion.upper
    if high is None and low is not None and low <= 0:
        return f"not below {baseline}" + (f" by more than {told(-low)}" if low else "")
    if low is None and high is not None and high >= 0:
        return f"not above {baseline}" + (f" by more than {told(high)}" if high else "")
    return ""


def _one_of(option: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        msg = f"{option} must be {' or '.join(map(repr, known))}, not {value!r}"
        raise SuiteError(msg)
