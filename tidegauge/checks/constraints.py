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
    """The assertion holds, but not the one that warns."""
    NO_DATA = NO_DATA
    """There is no row or value to evaluate; `ConstraintResult.on_empty` says what this counts as."""
    NO_HISTORY = "no history"
    """There is no earlier value to compare with."""


@dataclass(frozen=True)
class ConstraintResult:
    """Result of one constraint.

    Attributes
    ----------
    constraint : Constraint
    status : ConstraintStatus
    message : str
        The value, the assertion and the hint; empty on success.
    value : float or None
        The evaluated number; None if there is none, or if the value is not a number.
    metric : Metric or None
        None if it was not measured.
    examples : tuple of str
        Some bad values as text; the message ends with them.
    on_empty : OnEmpty
        What the result counts as if its status is ``no data``.
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
        """The message; without data it begins with the status."""
        no_data = self.status is ConstraintStatus.NO_DATA
        return with_status(self.message) if no_data else self.message

    @property
    def sentence(self) -> str:
        """The message for people, which says what it is about; a message of a value does by itself."""
        no_data = self.status is ConstraintStatus.NO_DATA
        return f"{self.constraint.description}: {self.text}" if no_data else self.text

    @property
    def failed_by_value(self) -> bool:
        """True if the constraint failed by a value, not because there was none."""
        bad = self.status in {ConstraintStatus.FAILURE, ConstraintStatus.WARNING}
        return bad and self.metric is not None and not self.metric.failed

    @property
    def message_start(self) -> str:
        """The message without its hint, before which bad values are told."""
        return self.message.removesuffix(self._hint)

    @property
    def _hint(self) -> str:
        return f". {self.constraint.hint}" if self.constraint.hint else ""

    def with_examples(self, examples: tuple[str, ...], rows: int | None = None) -> ConstraintResult:
        """Return the result with bad values, which are put into the message, before the hint.

        Their number of rows comes before them, unless the message has a count of rows already.
        """
        if not examples:
            return self
        hint = self._hint
        counted = rows is None or isinstance(self.constraint.analyzer, SHARES_OF_ROWS)
        count = "" if counted else f": {rows:,} {'row' if rows == 1 else 'rows'}"
        text = f"{self.message_start}{count}: {', '.join(examples)}{hint}"
        return replace(self, message=text, examples=examples)


@dataclass(frozen=True)
class PartitionResult:
    """Result of one constraint in one partition.

    Attributes
    ----------
    check, place : int
        Which check, and which of its constraints.
    dataset, partition : str
    time : datetime or None
    segment : str
    result : ConstraintResult
    """

    check: int
    place: int
    dataset: str
    partition: str
    time: datetime | None
    segment: str
    result: ConstraintResult


def resolve_no_data(
    judged: Sequence[PartitionResult], on_empty: OnEmpty | None = None, *, allow_empty: bool = False
) -> tuple[PartitionResult, ...]:
    """Return results in which those without data say what they count as.

    Unless a constraint or ``on_empty`` says otherwise, a partition without data fails. One in which
    only the constraint's filter matches no row warns, if the filter matches rows of another partition:
    then the filter is right, and this partition has none of its rows.

    Parameters
    ----------
    judged : sequence of PartitionResult
        All results of one run.
    on_empty : OnEmpty, optional
        For constraints that have none of their own.
    allow_empty : bool
        Whether all of them pass, whatever the constraints say.
    """
    having_data = {
        (one.check, one.place)
        for one in judged
        if one.result.status is not ConstraintStatus.NO_DATA
    }

    def effect(one: PartitionResult) -> OnEmpty:
        constraint = one.result.constraint
        matches_elsewhere = (one.check, one.place) in having_data
        filtered = constraint.analyzer.where is not None
        default = OnEmpty.WARN if filtered and matches_elsewhere else OnEmpty.FAIL
        return OnEmpty.PASS if allow_empty else constraint.on_empty or on_empty or default

    return tuple(
        replace(one, result=replace(one.result, on_empty=effect(one)))
        if one.result.status is ConstraintStatus.NO_DATA
        else one
        for one in judged
    )


TYPO = 0.8
"""Likeness of a column's name to another from which it may be a misspelling; names such as
``price_min`` and ``price_max`` are less alike."""


@dataclass(frozen=True)
class Constraint(ABC):
    """An assertion on one metric.

    Attributes
    ----------
    analyzer : Analyzer
    assertion : Assertion
    hint : str
        Text added to the failure message.
    on_empty : OnEmpty or None
        What a partition without data counts as; None for the default (see `resolve_no_data`).
    """

    analyzer: AnyAnalyzer
    assertion: Assertion
    hint: str = field(default="", kw_only=True)
    on_empty: OnEmpty | None = field(default=None, kw_only=True, repr=False)

    @property
    def identity(self) -> str:
        """All that it asks, as text: constraints that are described alike may differ in it.

        Of an assertion that is a function it is of this process alone; those of files are none.
        """
        return repr(self)

    @property
    @abstractmethod
    def description(self) -> str:
        """The assertion as one line of text."""

    @abstractmethod
    def compare(self, metric: Metric[Any], evidence: Evidence) -> ConstraintResult:
        """Evaluate a metric that has a value."""

    def evaluate(self, evidence: Evidence) -> ConstraintResult:
        """Evaluate the constraint; any problem is a failure, never an exception.

        An assertion that holds of no rows, or of no values, is no success but has no data. The number
        of rows and the columns of an empty table are evaluated.
        """
        metric = evidence.metric(self.analyzer)
        if metric is None:
            column, known = self.analyzer.instance, evidence.instances
            close = None if column in {*known, "*"} else nearest(column, known, TYPO)
            hint = f", or did you mean {close!r}?" if close else ""
            told = f"{subject(self.analyzer)} was not measured; add {self.analyzer!r} to the suite"
            return self.failed(told + hint)
        if isinstance(metric.outcome, Failure):
            if metric.empty:
                return self.no_data(metric)
            return self.failed(f"{subject(self.analyzer)} has no value: {_reason(metric)}", metric)
        result = self.compare(metric, evidence)
        judged_nothing = metric.weight == 0 and not isinstance(self.analyzer, KNOWN_WITHOUT_ROWS)
        return self.no_data(metric) if judged_nothing and result.passed else result

    def no_data(self, metric: Metric[Any] | None = None, reason: str = "") -> ConstraintResult:
        """Return the result without data, with the hint appended to its message.

        Parameters
        ----------
        metric : Metric, optional
        reason : str, optional
            Why there is none; the filter or the metric by default.
        """
        where = self.analyzer.where
        if not reason and where is not None:
            reason = f"no row with a value where {where}"
        elif not reason and metric is not None and metric.failed:
            reason = f"{subject(self.analyzer)} has no value: {_reason(metric)}"
        reason = reason or "no row with a value"
        text = f"{reason}. {self.hint}" if self.hint else reason
        return ConstraintResult(self, ConstraintStatus.NO_DATA, text, None, metric)

    def failed(
        self, message: str, metric: Metric[Any] | None = None, value: float | None = None
    ) -> ConstraintResult:
        """Return a failure, with the hint appended to its message."""
        text = f"{message}. {self.hint}" if self.hint else message
        return ConstraintResult(self, ConstraintStatus.FAILURE, text, value, metric)

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
        metric : Metric
        sentence, scale
            How a violating value is told, as for `violation_message`.
        suffix : str
            The end of the message of a violation.
        message : str, optional
            The whole message of a violation.
        """
        number = float(value) if isinstance(value, Real) else None
        try:
            holds = as_verdict(self.assertion.holds(value))  # of a subclass it may be anything
        except Exception as error:  # noqa: BLE001 - a user's function may raise anything
            text = f"the assertion ({self.assertion}) raised {describe(error)}"
            return self.failed(f"{subject(self.analyzer)}: {text}", metric, number)
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
        The number to take from a composite value; the value itself if not given.
    warning : Assertion, optional
        A stricter assertion, which only warns where the assertion itself holds.
    """

    part: MetricComponent | None = field(default=None, kw_only=True)
    warning: Assertion | None = field(default=None, kw_only=True)

    @property
    def description(self) -> str:
        """The assertion as one line of text."""
        of = self.part.subject(self.analyzer) if self.part else subject(self.analyzer)
        warned = f", warns unless {self.warning}" if self.warning else ""
        return f"{of}: {self.assertion}{warned}"

    def compare(self, metric: Metric[Any], evidence: Evidence) -> ConstraintResult:
        """Evaluate the value, or a part of it."""
        value = self.part.of(metric.value) if self.part else metric.value
        result = self._judged(value, metric)
        if self.warning is None or not result.passed:
            return result
        warned = replace(self, assertion=self.warning, warning=None).compare(metric, evidence)
        if warned.passed:
            return result
        return replace(warned, constraint=self, status=ConstraintStatus.WARNING)

    def _judged(self, value: Any, metric: Metric[Any]) -> ConstraintResult:
        """Evaluate a number; of a part of a composite value, the message tells what the part is."""
        part, analyzer = self.part, self.analyzer
        if part is None:
            sentence = partial(value_sentence, analyzer)
            suffix = self._counted(value, metric)
            scale = written_scale(analyzer.name, analyzer.scale)
            return self.judge(value, metric, sentence, scale, suffix=suffix)
        told = part.explain(metric.value)
        whole = part.message(analyzer, told) if self.assertion == NONE_WANTED else None
        sentence = partial(part.sentence, analyzer)
        suffix = f": {told}" if told else ""
        return self.judge(value, metric, sentence, part.scale, suffix=suffix, message=whole)

    def _counted(self, value: Any, metric: Metric[Any]) -> str:
        """Return how many rows are bad, if the metric is a share of good rows that is too low."""
        wanted, rows = self.assertion, metric.weight
        if not isinstance(self.analyzer, SHARES_OF_ROWS) or not rows:
            return ""
        if not isinstance(wanted, Between) or wanted.lower is None or value > wanted.lower:
            return ""
        return f": {round((1 - value) * rows):,} of {rows:,.0f} rows"


NONE_WANTED = Between(0, 0)


class MetricComponent(ABC):
    """One number of a composite value."""

    scale: ClassVar[Scale] = Scale.COUNT

    @abstractmethod
    def of(self, value: Any) -> float:
        """Return the number."""

    def subject(self, analyzer: AnyAnalyzer) -> str:
        """Return the number's text for messages."""
        return f"{self} of {subject(analyzer)}"

    def sentence(self, analyzer: AnyAnalyzer, text: str) -> str:
        """Return the sentence of a message that tells the number, which is given as text."""
        return f"{self} of {column_text(analyzer)} is {text}"

    def message(self, analyzer: AnyAnalyzer, told: str) -> str | None:
        """Return the whole message if none are wanted and some are there; None for the usual one."""
        return None

    def explain(self, value: Any) -> str:
        """Return what a failure message tells of the value; nothing by default."""
        return ""


@dataclass(frozen=True)
class DistinctValueCount(MetricComponent):
    """Number of distinct values of a Histogram, null included."""

    def of(self, value: Distribution) -> float:
        """Return the number of distinct values."""
        return float(value.number_of_bins)

    def __str__(self) -> str:
        return "distinct values"


@dataclass(frozen=True)
class AbsentValueCount(MetricComponent):
    """Number of some values that a Histogram has no row of.

    Attributes
    ----------
    values : tuple
        The values, whose bins are their texts.

    Examples
    --------
    >>> from tidegauge.analyzers.measures.histogram import DistributionValue
    >>> found = Distribution({"new": DistributionValue(3, 0.75)}, 1)
    >>> wanted = AbsentValueCount(("new", "paid"))
    >>> wanted.of(found), wanted.explain(found)
    (1.0, "no row has 'paid'")
    """

    values: tuple[Any, ...]

    def _absent(self, value: Distribution) -> list[str]:
        return [one for one in map(str, self.values) if bin_key(one) not in value.values]

    def of(self, value: Distribution) -> float:
        """Return the number of values that do not occur."""
        return float(len(self._absent(value)))

    def explain(self, value: Distribution) -> str:
        """Return the first of the values that do not occur."""
        absent = self._absent(value)
        more = f" and {len(absent) - MOST_NAMED} more" if len(absent) > MOST_NAMED else ""
        return f"no row has {', '.join(map(repr, absent[:MOST_NAMED]))}{more}"

    def subject(self, analyzer: AnyAnalyzer) -> str:
        """Return the values and the column, without the expression by which they are counted."""
        where = f" where {analyzer.where}" if analyzer.where else ""
        return one_line(
            f"absent of {', '.join(map(str, self.values))} in {analyzer.instance}{where}", LONGEST
        )

    def message(self, analyzer: AnyAnalyzer, told: str) -> str:
        """Return the column and what is absent."""
        return f"{column_text(analyzer)}: {told}"

    def __str__(self) -> str:
        return "absent values"


@dataclass(frozen=True)
class SchemaDifferenceCount(MetricComponent):
    """Number of differences of a SchemaMatch."""

    def of(self, value: SchemaComparison) -> float:
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
            _NO_COLUMN.sub(r"column \1 is missing", difference) for difference in value.differences
        )

    def sentence(self, analyzer: AnyAnalyzer, text: str) -> str:
        """Return the sentence of a message that tells the number of differences."""
        return f"has_schema: differences are {text}"

    def message(self, analyzer: AnyAnalyzer, told: str) -> str:
        """Return the differences after the name of the check."""
        return f"has_schema: {told}"

    def __str__(self) -> str:
        return "differences"


@dataclass(frozen=True)
class LeastColumnShare(MetricComponent):
    """Least share of equal values among the columns of a ColumnMatch.

    Examples
    --------
    >>> found = {"amount": 0.75, "status": 1.0}
    >>> LeastColumnShare().of(found), LeastColumnShare().explain(found)
    (0.75, 'amount 0.75')
    """

    scale: ClassVar[Scale] = Scale.RATIO

    def sentence(self, analyzer: AnyAnalyzer, text: str) -> str:
        """Return the sentence of a message that tells the least share."""
        return f"{text} of the values of a column are equal"

    def of(self, value: Mapping[str, float]) -> float:
        """Return the least share."""
        return min(value.values())

    def explain(self, value: Mapping[str, float]) -> str:
        """Return the columns that differ somewhere, the most different first."""
        lower = sorted((share, column) for column, share in value.items() if share < 1)
        return ", ".join(f"{column} {share:.6g}" for share, column in lower[:MOST_NAMED])

    def __str__(self) -> str:
        return "least share"


LONGEST = 120
"""Maximum characters of a generated name."""
MOST_NAMED = 10
"""Columns, or values, that a message names."""
KNOWN_WITHOUT_ROWS = (ColumnCount, Size)
"""Analyzers whose value says something about a table without rows."""
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
"""Types counted by DataType, by the kind that a check asserts; ``Unknown`` is null."""


@dataclass(frozen=True)
class DataTypeShare(MetricComponent):
    """Share of the non-null values that are of one inferred type; of all rows for ``Unknown``.

    Examples
    --------
    >>> from tidegauge.analyzers.measures.texts import DataType, DataTypeState
    >>> value = DataType("x").compute_metric_from(DataTypeState(unknown=2, integral=3, string=1)).value
    >>> DataTypeShare("Numeric").of(value), DataTypeShare("Unknown").of(value)
    (0.75, 0.3333333333333333)
    """

    scale: ClassVar[Scale] = Scale.RATIO
    kind: str

    def sentence(self, analyzer: AnyAnalyzer, text: str) -> str:
        """Return the sentence of a message that tells the share."""
        return f"{column_text(analyzer)} is {text} {self.kind}"

    def __post_init__(self) -> None:
        if self.kind not in DATA_TYPE_GROUPS:
            known = ", ".join(DATA_TYPE_GROUPS)
            msg = f"has_data_type: the kind is one of {known}, not {self.kind!r}"
            raise SuiteError(msg)

    def of(self, value: Distribution) -> float:
        """Return the share; 0 if all values are null."""
        counts = {kind: entry.absolute for kind, entry in value.values.items()}
        rows = sum(counts.values()) - (counts["Unknown"] if self.kind != "Unknown" else 0)
        return sum(counts[kind] for kind in DATA_TYPE_GROUPS[self.kind]) / rows if rows else 0.0

    def explain(self, value: Distribution) -> str:
        """Return how many values are of other types, and of which.

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
        others = {kind: n for kind, n in counts.items() if kind not in DATA_TYPE_GROUPS[self.kind]}
        bad = sum(others.values())
        most = sorted(others, key=lambda kind: -others[kind])
        named = ", ".join(f"{kind} {others[kind]:,}" for kind in most if others[kind])
        return f"{bad:,} of {plural(int(sum(counts.values())), 'value')}: {named}" if bad else ""

    def __str__(self) -> str:
        return f"share of {self.kind}"


def subject(analyzer: AnyAnalyzer) -> str:
    """Return an analyzer's text for messages; a Compliance by its rule name and filter.

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
    """Return the beginning of a message that tells an analyzer's value, which is given as text.

    Examples
    --------
    >>> value_sentence(Completeness("email"), "69.1 %"), value_sentence(Size(where="x > 0"), "7")
    ('email is 69.1 % complete', 'row count where x > 0 is 7')
    """
    where = f" where {analyzer.where}" if analyzer.where else ""
    form = _SENTENCES.get(type(analyzer))
    if form is not None:
        return form.format(of=column_text(analyzer), where=where, value=text)
    return f"{metric_text(analyzer.name, analyzer.instance)}{where} is {text}"


_SENTENCES: dict[type[Any], str] = {
    Completeness: "{of} is {value} complete",
    Compliance: "{of}: true of {value} of rows",
    PatternMatch: "{of} matches its pattern in {value} of rows",
    Size: "row count{where} is {value}",
    Uniqueness: "{of} is {value} unique",
}
_NO_COLUMN = re.compile(r"\Ano column ('.*')\Z", re.DOTALL)


def _reason(metric: Metric[Any]) -> str:
    assert isinstance(metric.outcome, Failure)
    return str(metric.outcome.error)
