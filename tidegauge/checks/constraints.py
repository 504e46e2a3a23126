"""Constraints: an analyzer, an assertion on its value, and the result."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from functools import partial
from numbers import Real
from typing import Any, ClassVar

from tidegauge.analyzers.core.analyzer import AnyAnalyzer
from tidegauge.analyzers.core.errors import SuiteError, describe, nearest
from tidegauge.analyzers.core.evidence import (
    NO_DATA,
    Evidence,
    OnEmpty,
    as_verdict,
    with_status,
)
from tidegauge.analyzers.core.formatting import one_line, plural
from tidegauge.analyzers.core.metric import Failure, Metric, Scale, metric_text, written_scale
from tidegauge.analyzers.measures.counts import (
    ColumnCount,
    Completeness,
    Compliance,
    DatasetMatch,
    ReferentialIntegrity,
    SchemaComparison,
    Size,
)
from tidegauge.analyzers.measures.frequencies import Uniqueness
from tidegauge.analyzers.measures.histogram import Distribution, bin_key
from tidegauge.analyzers.measures.texts import PatternMatch
from tidegauge.checks.assertions import Assertion, Between, violation_message


class ConstraintStatus(StrEnum):
    """Outcome of a constraint; ``success`` and ``no history`` let the check pass."""

    SUCCESS = "success"
    FAILURE = "failure"
    WARNING = "warning"
    """The assertion holds, but the stricter assertion of the warning does not."""
    NO_DATA = NO_DATA
    """No row or value to evaluate; `ConstraintResult.on_empty` is the outcome."""
    NO_HISTORY = "no history"
    """No earlier value to compare with."""


@dataclass(frozen=True)
class ConstraintResult:
    """Result of one constraint.

    Attributes
    ----------
    constraint : Constraint
        The constraint.
    status : ConstraintStatus
        The outcome.
    message : str
        The value, the assertion and the hint; empty on success.
    value : float or None
        The evaluated number; None without a value, or if the value is not a number.
    metric : Metric or None
        The metric; None if it was not measured.
    examples : tuple of str
        Some bad values, with which the message ends.
    on_empty : OnEmpty
        The outcome if the status is ``no data``.
    """

    constraint: Constraint
    status: ConstraintStatus
    message: str = ""
    value: float | None = None
    metric: Metric[Any] | None = None
    examples: tuple[str, ...] = ()
    on_empty: OnEmpty = OnEmpty.FAIL

    @property
    def failed(self) -> bool:
        """True if the constraint makes the check fail."""
        return self._is(ConstraintStatus.FAILURE, OnEmpty.FAIL)

    @property
    def warned(self) -> bool:
        """True if the constraint makes the check warn, whatever its level."""
        return self._is(ConstraintStatus.WARNING, OnEmpty.WARN)

    @property
    def passed(self) -> bool:
        """True if the constraint lets the check pass."""
        return not self.failed and not self.warned

    def _is(self, status: ConstraintStatus, on_empty: OnEmpty) -> bool:
        no_data = self.status is ConstraintStatus.NO_DATA
        return self.on_empty is on_empty if no_data else self.status is status

    @property
    def text(self) -> str:
        """The message, which begins with the status if there is no data."""
        no_data = self.status is ConstraintStatus.NO_DATA
        return with_status(self.message) if no_data else self.message

    @property
    def sentence(self) -> str:
        """The message with its subject; only messages without data need the description in front."""
        no_data = self.status is ConstraintStatus.NO_DATA
        return f"{self.constraint.description}: {self.text}" if no_data else self.text

    @property
    def failed_by_value(self) -> bool:
        """True if a value violates the constraint, rather than a missing value."""
        bad = self.status in {ConstraintStatus.FAILURE, ConstraintStatus.WARNING}
        return bad and self.metric is not None and not self.metric.failed

    @property
    def message_start(self) -> str:
        """The message without its hint, to which bad values are appended."""
        return self.message.removesuffix(self._hint)

    @property
    def _hint(self) -> str:
        return f". {self.constraint.hint}" if self.constraint.hint else ""

    def with_examples(self, examples: tuple[str, ...], rows: int | None = None) -> ConstraintResult:
        """Return the result with bad values in the message, before the hint.

        The number of bad rows precedes the values, unless the message already has a count of rows.
        """
        if not examples:
            return self
        hint = self._hint
        counted = rows is None or isinstance(self.constraint.analyzer, SHARES_OF_ROWS)
        count = "" if counted else f": {rows:,} {'row' if rows == 1 else 'rows'}"
        message = f"{self.message_start}{count}: {', '.join(examples)}{hint}"
        return replace(self, message=message, examples=examples)


@dataclass(frozen=True)
class PartitionResult:
    """Result of one constraint in one partition.

    Attributes
    ----------
    check, position : int
        Index of the check, and of the constraint in the check.
    dataset, partition : str
        Names of the dataset and the partition.
    time : datetime or None
        Time of the partition.
    segment : str
        The segment; empty for whole partitions.
    result : ConstraintResult
        The result.
    """

    check: int
    position: int
    dataset: str
    partition: str
    time: datetime | None
    segment: str
    result: ConstraintResult


def resolve_no_data(
    judged: Sequence[PartitionResult], on_empty: OnEmpty | None = None, *, allow_empty: bool = False
) -> tuple[PartitionResult, ...]:
    """Set the outcome of results without data.

    By default, a partition without data fails. If only the constraint's filter matches no row, and it matches
    rows of another partition, the constraint warns: then the filter is valid, and this partition has no such
    rows. A constraint and ``on_empty`` can set another outcome.

    Parameters
    ----------
    judged : sequence of PartitionResult
        All results of one run.
    on_empty : OnEmpty, optional
        The outcome for constraints that do not set it.
    allow_empty : bool
        Whether all results without data pass, whatever the constraints set.
    """
    constraints_with_data = {
        (result.check, result.position)
        for result in judged
        if result.result.status is not ConstraintStatus.NO_DATA
    }

    def effect(result: PartitionResult) -> OnEmpty:
        constraint = result.result.constraint
        matches_elsewhere = (result.check, result.position) in constraints_with_data
        filtered = constraint.analyzer.where is not None
        default = OnEmpty.WARN if filtered and matches_elsewhere else OnEmpty.FAIL
        return OnEmpty.PASS if allow_empty else constraint.on_empty or on_empty or default

    return tuple(
        replace(result, result=replace(result.result, on_empty=effect(result)))
        if result.result.status is ConstraintStatus.NO_DATA
        else result
        for result in judged
    )


MIN_TYPO_SIMILARITY = 0.8
"""Similarity from which a column's name counts as a misspelling; ``price_min`` and ``price_max`` are less similar."""


@dataclass(frozen=True)
class Constraint(ABC):
    """An assertion on one metric.

    Attributes
    ----------
    analyzer : Analyzer
        The analyzer of the metric.
    assertion : Assertion
        The assertion on the metric's value.
    hint : str
        Hint that is added to the failure message.
    on_empty : OnEmpty or None
        Outcome of a partition without data; None for the default (see `resolve_no_data`).
    """

    analyzer: AnyAnalyzer
    assertion: Assertion
    hint: str = field(default="", kw_only=True)
    on_empty: OnEmpty | None = field(default=None, kw_only=True, repr=False)

    @property
    def identity(self) -> str:
        """The constraint as a string; constraints with equal descriptions can have different identities.

        If the assertion is a function, the identity is only valid in this process. Constraints of files have
        no such assertions.
        """
        return repr(self)

    @property
    @abstractmethod
    def description(self) -> str:
        """The assertion as one line."""

    @abstractmethod
    def compare(self, metric: Metric[Any], evidence: Evidence) -> ConstraintResult:
        """Evaluate a metric that has a value."""

    def evaluate(self, evidence: Evidence) -> ConstraintResult:
        """Evaluate the constraint; any problem is a failure, never an exception.

        If an assertion holds only because there are no rows or values, the status is ``no data`` instead of
        ``success``. The number of rows and the columns of an empty table are evaluated.
        """
        metric = evidence.metric(self.analyzer)
        if metric is None:
            column, measured_columns = self.analyzer.instance, evidence.instances
            similar = (
                None
                if column in {*measured_columns, "*"}
                else nearest(column, measured_columns, MIN_TYPO_SIMILARITY)
            )
            hint = f", or did you mean {similar!r}?" if similar else ""
            message = (
                f"{subject(self.analyzer)} was not measured; add {self.analyzer!r} to the suite"
            )
            return self.failed(message + hint)
        if isinstance(metric.outcome, Failure):
            if metric.empty:
                return self.no_data(metric)
            return self.failed(f"{subject(self.analyzer)} has no value: {_reason(metric)}", metric)
        result = self.compare(metric, evidence)
        judged_nothing = metric.weight == 0 and not isinstance(
            self.analyzer, EVALUATED_WITHOUT_ROWS
        )
        return self.no_data(metric) if judged_nothing and result.passed else result

    def no_data(self, metric: Metric[Any] | None = None, reason: str = "") -> ConstraintResult:
        """Return the result without data, with the hint appended to its message.

        Parameters
        ----------
        metric : Metric, optional
            The metric without a value.
        reason : str, optional
            The reason (default: the filter or the error of the metric).
        """
        where = self.analyzer.where
        if not reason and where is not None:
            reason = f"no row with a value where {where}"
        elif not reason and metric is not None and metric.failed:
            reason = f"{subject(self.analyzer)} has no value: {_reason(metric)}"
        reason = reason or "no row with a value"
        message = f"{reason}. {self.hint}" if self.hint else reason
        return ConstraintResult(self, ConstraintStatus.NO_DATA, message, None, metric)

    def failed(
        self, message: str, metric: Metric[Any] | None = None, value: float | None = None
    ) -> ConstraintResult:
        """Return a failure, with the hint appended to its message."""
        full_message = f"{message}. {self.hint}" if self.hint else message
        return ConstraintResult(self, ConstraintStatus.FAILURE, full_message, value, metric)

    def judge(
        self,
        value: Any,
        metric: Metric[Any],
        sentence: Callable[[str], str],
        scale: str = Scale.SIGNED,
        *,
        suffix: str = "",
        message: str | None = None,
    ) -> ConstraintResult:
        """Evaluate the assertion on a value.

        Parameters
        ----------
        value : Any
            The value.
        metric : Metric
            The metric that has the value.
        sentence, scale
            Wording of a violating value, as for `violation_message`.
        suffix : str
            The end of the message of a violation.
        message : str, optional
            The whole message of a violation.
        """
        number = float(value) if isinstance(value, Real) else None
        try:
            holds = as_verdict(self.assertion.holds(value))  # a subclass can return anything
        except Exception as error:  # noqa: BLE001 - a user's function can raise anything
            problem = f"the assertion ({self.assertion}) raised {describe(error)}"
            return self.failed(f"{subject(self.analyzer)}: {problem}", metric, number)
        if holds:
            return ConstraintResult(self, ConstraintStatus.SUCCESS, "", number, metric)
        if message is None:
            message = violation_message(value, self.assertion, sentence, scale) + suffix
        return self.failed(message, metric, number)


@dataclass(frozen=True)
class MetricConstraint(Constraint):
    """An assertion on a metric's value.

    Attributes
    ----------
    part : MetricComponent, optional
        The number to take from a composite value (default: the value itself).
    warning : Assertion, optional
        A stricter assertion, which only warns if the assertion itself holds.
    """

    part: MetricComponent | None = field(default=None, kw_only=True)
    warning: Assertion | None = field(default=None, kw_only=True)

    @property
    def description(self) -> str:
        """The assertion as one line."""
        described = self.part.subject(self.analyzer) if self.part else subject(self.analyzer)
        warning_suffix = f", warns unless {self.warning}" if self.warning else ""
        return f"{described}: {self.assertion}{warning_suffix}"

    def compare(self, metric: Metric[Any], evidence: Evidence) -> ConstraintResult:
        """Evaluate the value, or a number of a composite value."""
        value = self.part.extract(metric.value) if self.part else metric.value
        result = self._judge_value(value, metric)
        if self.warning is None or not result.passed:
            return result
        warned = replace(self, assertion=self.warning, warning=None).compare(metric, evidence)
        if warned.passed:
            return result
        return replace(warned, constraint=self, status=ConstraintStatus.WARNING)

    def _judge_value(self, value: Any, metric: Metric[Any]) -> ConstraintResult:
        """Evaluate a value; for a number of a composite value, the message explains the number."""
        part, analyzer = self.part, self.analyzer
        if part is None:
            sentence = partial(value_sentence, analyzer)
            suffix = self._bad_row_count(value, metric)
            scale = written_scale(analyzer.name, analyzer.scale)
            return self.judge(value, metric, sentence, scale, suffix=suffix)
        explanation = part.explain(metric.value)
        full_message = part.message(analyzer, explanation) if self.assertion == ZERO else None
        sentence = partial(part.sentence, analyzer)
        suffix = f": {explanation}" if explanation else ""
        return self.judge(value, metric, sentence, part.scale, suffix=suffix, message=full_message)

    def _bad_row_count(self, value: Any, metric: Metric[Any]) -> str:
        """Return the number of bad rows, if the metric is a share of good rows that is too low."""
        bounds, rows = self.assertion, metric.weight
        if not isinstance(self.analyzer, SHARES_OF_ROWS) or not rows:
            return ""
        if not isinstance(bounds, Between) or bounds.lower is None or value > bounds.lower:
            return ""
        return f": {round((1 - value) * rows):,} of {rows:,.0f} rows"


ZERO = Between(0, 0)


class MetricComponent(ABC):
    """One number of a composite value."""

    scale: ClassVar[Scale] = Scale.COUNT

    @abstractmethod
    def extract(self, value: Any) -> float:
        """Return the number."""

    def subject(self, analyzer: AnyAnalyzer) -> str:
        """Return the number's subject for messages."""
        return f"{self} of {subject(analyzer)}"

    def sentence(self, analyzer: AnyAnalyzer, text: str) -> str:
        """Return the sentence of a message with the formatted number."""
        return f"{self} of {column_text(analyzer)} is {text}"

    def message(self, analyzer: AnyAnalyzer, explanation: str) -> str | None:
        """Return the message of an assertion that the number is zero; None for the default message."""
        return None

    def explain(self, value: Any) -> str:
        """Return the explanation of the value in a failure message (default: empty)."""
        return ""


@dataclass(frozen=True)
class DistinctValueCount(MetricComponent):
    """Number of distinct values of a Histogram, null included."""

    def extract(self, value: Distribution) -> float:
        """Return the number of distinct values."""
        return float(value.number_of_bins)

    def __str__(self) -> str:
        return "distinct values"


@dataclass(frozen=True)
class AbsentValueCount(MetricComponent):
    """Number of given values that do not occur in a Histogram.

    Attributes
    ----------
    values : tuple
        The values, whose bins are their string forms.

    Examples
    --------
    >>> from tidegauge.analyzers.measures.histogram import DistributionValue
    >>> distribution = Distribution({"new": DistributionValue(3, 0.75)}, 1)
    >>> absent = AbsentValueCount(("new", "paid"))
    >>> absent.extract(distribution), absent.explain(distribution)
    (1.0, "no row has 'paid'")
    """

    values: tuple[Any, ...]

    def _absent(self, value: Distribution) -> list[str]:
        return [name for name in map(str, self.values) if bin_key(name) not in value.values]

    def extract(self, value: Distribution) -> float:
        """Return the number of values that do not occur."""
        return float(len(self._absent(value)))

    def explain(self, value: Distribution) -> str:
        """Return the first values that do not occur."""
        absent = self._absent(value)
        and_more = (
            f" and {len(absent) - MAX_LISTED_NAMES} more" if len(absent) > MAX_LISTED_NAMES else ""
        )
        return f"no row has {', '.join(map(repr, absent[:MAX_LISTED_NAMES]))}{and_more}"

    def subject(self, analyzer: AnyAnalyzer) -> str:
        """Return the values and the column, without the expression that counts them."""
        where = f" where {analyzer.where}" if analyzer.where else ""
        return one_line(
            f"absent of {', '.join(map(str, self.values))} in {analyzer.instance}{where}",
            MAX_NAME_LENGTH,
        )

    def message(self, analyzer: AnyAnalyzer, explanation: str) -> str:
        """Return the column and the absent values."""
        return f"{column_text(analyzer)}: {explanation}"

    def __str__(self) -> str:
        return "absent values"


@dataclass(frozen=True)
class SchemaDifferenceCount(MetricComponent):
    """Number of differences of a SchemaMatch."""

    def extract(self, value: SchemaComparison) -> float:
        """Return the number of differences."""
        return float(len(value.differences))

    def explain(self, value: SchemaComparison) -> str:
        """Return the differences.

        Examples
        --------
        >>> SchemaDifferenceCount().explain(SchemaComparison(("no column 'channel'", "'id' is int, not bigint")))
        "column 'channel' is missing; 'id' is int, not bigint"
        """
        return "; ".join(
            _NO_COLUMN_MESSAGE.sub(r"column \1 is missing", difference)
            for difference in value.differences
        )

    def sentence(self, analyzer: AnyAnalyzer, text: str) -> str:
        """Return the sentence of a message with the number of differences."""
        return f"has_schema: differences are {text}"

    def message(self, analyzer: AnyAnalyzer, explanation: str) -> str:
        """Return the differences after the name of the check."""
        return f"has_schema: {explanation}"

    def __str__(self) -> str:
        return "differences"


@dataclass(frozen=True)
class LeastColumnShare(MetricComponent):
    """Least share of equal values among the columns of a ColumnMatch.

    Examples
    --------
    >>> shares = {"amount": 0.75, "status": 1.0}
    >>> LeastColumnShare().extract(shares), LeastColumnShare().explain(shares)
    (0.75, 'amount 0.75')
    """

    scale: ClassVar[Scale] = Scale.RATIO

    def sentence(self, analyzer: AnyAnalyzer, text: str) -> str:
        """Return the sentence of a message with the least share."""
        return f"{text} of the values of a column are equal"

    def extract(self, value: Mapping[str, float]) -> float:
        """Return the least share."""
        return min(value.values())

    def explain(self, value: Mapping[str, float]) -> str:
        """Return the columns that differ somewhere, the most different first."""
        lower = sorted((share, column) for column, share in value.items() if share < 1)
        return ", ".join(f"{column} {share:.6g}" for share, column in lower[:MAX_LISTED_NAMES])

    def __str__(self) -> str:
        return "least share"


MAX_NAME_LENGTH = 120
"""Limit on the characters of a generated name, so that it fits on a line."""
MAX_LISTED_NAMES = 10
"""Limit on the columns or values that a message lists."""
EVALUATED_WITHOUT_ROWS = (ColumnCount, Size)
"""Analyzers whose value is meaningful for a table without rows."""
SHARES_OF_ROWS = (
    Completeness,
    Compliance,
    DatasetMatch,
    PatternMatch,
    ReferentialIntegrity,
    Uniqueness,
)
"""Analyzers whose value is a share of good rows, and whose weight is the number of rows."""
DATA_TYPE_GROUPS = {
    "Unknown": ("Unknown",),
    "Fractional": ("Fractional",),
    "Integral": ("Integral",),
    "Boolean": ("Boolean",),
    "String": ("String",),
    "Numeric": ("Fractional", "Integral"),
}
"""Types counted by DataType, by the asserted kind; ``Unknown`` is null."""


@dataclass(frozen=True)
class DataTypeShare(MetricComponent):
    """Share of the non-null values with an inferred type; for ``Unknown``, share of all rows.

    Examples
    --------
    >>> from tidegauge.analyzers.measures.texts import DataType, DataTypeState
    >>> value = DataType("x").compute_metric_from(DataTypeState(unknown=2, integral=3, string=1)).value
    >>> DataTypeShare("Numeric").extract(value), DataTypeShare("Unknown").extract(value)
    (0.75, 0.3333333333333333)
    """

    scale: ClassVar[Scale] = Scale.RATIO
    kind: str

    def sentence(self, analyzer: AnyAnalyzer, text: str) -> str:
        """Return the sentence of a message with the share."""
        return f"{column_text(analyzer)} is {text} {self.kind}"

    def __post_init__(self) -> None:
        if self.kind not in DATA_TYPE_GROUPS:
            kinds = ", ".join(DATA_TYPE_GROUPS)
            msg = f"has_data_type: invalid kind {self.kind!r}; use one of {kinds}"
            raise SuiteError(msg)

    def extract(self, value: Distribution) -> float:
        """Return the share; 0 if all values are null."""
        counts = {kind: entry.absolute for kind, entry in value.values.items()}
        rows = sum(counts.values()) - (counts["Unknown"] if self.kind != "Unknown" else 0)
        return sum(counts[kind] for kind in DATA_TYPE_GROUPS[self.kind]) / rows if rows else 0.0

    def explain(self, value: Distribution) -> str:
        """Return the number of values of other types, by type.

        Examples
        --------
        >>> from tidegauge.analyzers.measures.texts import DataType, DataTypeState
        >>> counts = DataTypeState(unknown=2, integral=3, boolean=1, string=2)
        >>> DataTypeShare("Integral").explain(DataType("x").compute_metric_from(counts).value)
        '3 of 6 values: String 2, Boolean 1'
        """
        counts = {kind: entry.absolute for kind, entry in value.values.items()}
        if self.kind != "Unknown":
            del counts["Unknown"]
        other_types = {
            kind: n for kind, n in counts.items() if kind not in DATA_TYPE_GROUPS[self.kind]
        }
        bad = sum(other_types.values())
        ordered = sorted(other_types, key=lambda kind: -other_types[kind])
        listed = ", ".join(f"{kind} {other_types[kind]:,}" for kind in ordered if other_types[kind])
        return f"{bad:,} of {plural(int(sum(counts.values())), 'value')}: {listed}" if bad else ""

    def __str__(self) -> str:
        return f"share of {self.kind}"


def subject(analyzer: AnyAnalyzer) -> str:
    """Return an analyzer as the subject of a message; a Compliance by its rule name and filter.

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


def column_text(analyzer: AnyAnalyzer) -> str:
    """Return an analyzer's columns, or the name of its condition, with its filter.

    Examples
    --------
    >>> column_text(Completeness("email", where="country = 'DE'"))
    "email where country = 'DE'"
    """
    return f"{analyzer.instance} where {analyzer.where}" if analyzer.where else analyzer.instance


def value_sentence(analyzer: AnyAnalyzer, text: str) -> str:
    """Return the beginning of a message with an analyzer's formatted value.

    Examples
    --------
    >>> value_sentence(Completeness("email"), "69.1%"), value_sentence(Size(where="x > 0"), "7")
    ('email is 69.1% complete', 'row count where x > 0 is 7')
    """
    where = f" where {analyzer.where}" if analyzer.where else ""
    template = _SENTENCE_FORMATS.get(type(analyzer))
    if template is not None:
        return template.format(of=column_text(analyzer), where=where, value=text)
    return f"{metric_text(analyzer.name, analyzer.instance)}{where} is {text}"


_SENTENCE_FORMATS: dict[type[Any], str] = {
    Completeness: "{of} is {value} complete",
    Compliance: "{of}: true of {value} of rows",
    PatternMatch: "{of} matches its pattern in {value} of rows",
    Size: "row count{where} is {value}",
    Uniqueness: "{of} is {value} unique",
}
_NO_COLUMN_MESSAGE = re.compile(r"\Ano column ('.*')\Z", re.DOTALL)


def _reason(metric: Metric[Any]) -> str:
    assert isinstance(metric.outcome, Failure)
    return str(metric.outcome.error)
