"""Constraints: an analyzer, what its value is wanted to be, and what came of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from numbers import Real
from typing import Any

from analyzers.checks.assertions import Assertion, refusal
from analyzers.checks.evidence import AnyAnalyzer, Evidence
from analyzers.counts import Compliance
from analyzers.errors import SuiteError, describe
from analyzers.histogram import Distribution
from analyzers.metric import Failure, Metric


class ConstraintStatus(StrEnum):
    """What came of a constraint; all but a failure let a check pass."""

    SUCCESS = "success"
    FAILURE = "failure"
    NO_DATA = "no data"
    """Its filter leaves nothing to judge."""
    NO_HISTORY = "no history"
    """There is nothing earlier to compare with."""


@dataclass(frozen=True)
class ConstraintResult:
    """What came of one constraint.

    Attributes
    ----------
    constraint : Constraint
    status : ConstraintStatus
    message : str
        The value, what was wanted, and the hint; empty where all is well.
    value : float or None
        What was judged; None if there is none, or if it is no number.
    metric : Metric or None
        None if it was not measured.
    """

    constraint: Constraint
    status: ConstraintStatus
    message: str = ""
    value: float | None = None
    metric: Metric[Any] | None = None

    @property
    def passed(self) -> bool:
        """Whether it lets the check pass."""
        return self.status is not ConstraintStatus.FAILURE


@dataclass(frozen=True)
class Constraint(ABC):
    """What one metric is wanted to be.

    Attributes
    ----------
    analyzer : Analyzer
    assertion : Assertion
    hint : str
        What to tell whoever reads of a failure.
    """

    analyzer: AnyAnalyzer
    assertion: Assertion
    hint: str = field(default="", kw_only=True)

    @property
    @abstractmethod
    def description(self) -> str:
        """What is wanted, in a line."""

    @abstractmethod
    def compare(self, metric: Metric[Any], evidence: Evidence) -> ConstraintResult:
        """Judge a metric that has a value."""

    def evaluate(self, evidence: Evidence) -> ConstraintResult:
        """Judge what was measured; whatever goes wrong is a failure, never an exception.

        A metric of no data passes if it has a filter, because there is nothing that could be wrong;
        without one it fails, as its error says. Size is 0 then, and is judged.
        """
        metric = evidence.metric(self.analyzer)
        if metric is None:
            text = f"{subject(self.analyzer)} was not measured; add {self.analyzer!r} to the suite"
            return self.failed(text)
        if isinstance(metric.outcome, Failure):
            if metric.empty and self.analyzer.where is not None:
                text = f"no row with a value where {self.analyzer.where}: nothing to judge"
                return ConstraintResult(self, ConstraintStatus.NO_DATA, text, None, metric)
            return self.failed(f"{subject(self.analyzer)} has no value: {_reason(metric)}", metric)
        return self.compare(metric, evidence)

    def failed(
        self, message: str, metric: Metric[Any] | None = None, value: float | None = None
    ) -> ConstraintResult:
        """Return a failure, with the hint behind its message."""
        text = f"{message}. {self.hint}" if self.hint else message
        return ConstraintResult(self, ConstraintStatus.FAILURE, text, value, metric)

    def judge(
        self, value: Any, metric: Metric[Any], tell: Callable[[str], str] = str
    ) -> ConstraintResult:
        """Return what the assertion says of a value.

        Parameters
        ----------
        value : Any
        metric : Metric
        tell : callable
            Makes a message of how the value is not as wanted.
        """
        number = float(value) if isinstance(value, Real) else None
        try:
            holds = self.assertion.holds(value)
        except Exception as error:  # noqa: BLE001 - a user's function may raise anything
            text = f"the assertion ({self.assertion}) raised {describe(error)}"
            return self.failed(tell(text), metric, number)
        if holds:
            return ConstraintResult(self, ConstraintStatus.SUCCESS, "", number, metric)
        return self.failed(tell(refusal(value, self.assertion)), metric, number)


@dataclass(frozen=True)
class MetricConstraint(Constraint):
    """What a metric's value is wanted to be.

    Attributes
    ----------
    part : Part, optional
        Which number of a value that is made of several; the value itself if not given.
    """

    part: Part | None = field(default=None, kw_only=True)

    @property
    def description(self) -> str:
        """What is wanted, in a line."""
        of = f"{self.part} of " if self.part else ""
        return f"{of}{subject(self.analyzer)}: {self.assertion}"

    def compare(self, metric: Metric[Any], evidence: Evidence) -> ConstraintResult:  # noqa: ARG002
        """Judge the value, or a part of it."""
        return self.judge(self.part.of(metric.value) if self.part else metric.value, metric)


class Part(ABC):
    """One number of a value that is made of several."""

    @abstractmethod
    def of(self, value: Any) -> float:
        """Take it."""


@dataclass(frozen=True)
class Bins(Part):
    """The number of distinct values of a Histogram, null being one."""

    def of(self, value: Distribution) -> float:
        """Take it."""
        return float(value.number_of_bins)

    def __str__(self) -> str:
        return "distinct values"


KINDS = {
    "Unknown": ("Unknown",),
    "Fractional": ("Fractional",),
    "Integral": ("Integral",),
    "Boolean": ("Boolean",),
    "String": ("String",),
    "Numeric": ("Fractional", "Integral"),
}
"""What DataType counts, by what a check may ask for; ``Unknown`` is null."""


@dataclass(frozen=True)
class ShareOfKind(Part):
    """The share of the values that are not null that read as one kind; of all rows for ``Unknown``.

    Examples
    --------
    >>> from analyzers.texts import DataType, DataTypeState
    >>> value = DataType("x").compute_metric_from(DataTypeState(unknown=2, integral=3, string=1)).value
    >>> ShareOfKind("Numeric").of(value), ShareOfKind("Unknown").of(value)
    (0.75, 0.3333333333333333)
    """

    kind: str

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            known = ", ".join(KINDS)
            msg = f"has_data_type: the kind is one of {known}, not {self.kind!r}"
            raise SuiteError(msg)

    def of(self, value: Distribution) -> float:
        """Take it; 0 where no value is known."""
        counts = {kind: entry.absolute for kind, entry in value.values.items()}
        rows = sum(counts.values()) - (counts["Unknown"] if self.kind != "Unknown" else 0)
        return sum(counts[kind] for kind in KINDS[self.kind]) / rows if rows else 0.0

    def __str__(self) -> str:
        return f"share of {self.kind}"


def subject(analyzer: AnyAnalyzer) -> str:
    """Return what an analyzer measures, as a message names it: a rule by the name it was given.

    Examples
    --------
    >>> subject(Compliance("on time", "delay <= 15", where="delay IS NOT NULL"))
    'on time where delay IS NOT NULL'
    """
    if not isinstance(analyzer, Compliance):
        return repr(analyzer)
    return (
        analyzer.instance
        if analyzer.where is None
        else f"{analyzer.instance} where {analyzer.where}"
    )


def _reason(metric: Metric[Any]) -> str:
    assert isinstance(metric.outcome, Failure)
    return str(metric.outcome.error)
