"""Constraints that compare with another table, a query or earlier distributions, and their methods."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from math import copysign, inf, isclose, isnan
from numbers import Real
from typing import Any, Self

from tidegauge.analyzers.core.analyzer import AnyAnalyzer
from tidegauge.analyzers.core.errors import SuiteError, UnknownNameError
from tidegauge.analyzers.core.evidence import AnomalySettings, EarlierValues, Evidence, Judgement
from tidegauge.analyzers.core.formatting import one_line
from tidegauge.analyzers.core.metric import Failure, Metric, written_scale
from tidegauge.analyzers.measures.counts import Size
from tidegauge.analyzers.measures.histogram import Histogram
from tidegauge.analyzers.measures.quantiles import ApproxQuantile
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
    column_text,
    subject,
    value_sentence,
)

MOST_ROWS = 1000
"""Maximum number of rows of a query's result."""
_SHOWN, _WIDTH = 2, 80

Row = tuple[Any, ...]


@dataclass(frozen=True)
class QueryResults:
    """The results of two queries.

    Attributes
    ----------
    left, right : sequence of tuple
    shown : bool
        Whether messages may show rows: they hold no private column.
    """

    left: Sequence[Row]
    right: Sequence[Row]
    shown: bool = True


@dataclass(frozen=True)
class NothingEarlier:
    """There is no earlier distribution to compare with."""


Found = Metric[Any] | QueryResults | Mapping[str, Any] | NothingEarlier | str
"""Material of a comparison: the other table's metric, both results, distances, or why there is none."""


@dataclass(frozen=True)
class ComparedEvidence:
    """Evidence of a partition, with what comparisons need from elsewhere.

    Attributes
    ----------
    evidence : Evidence
    found : mapping of Constraint to Found
    """

    evidence: Evidence
    found: Mapping[Constraint, Found]

    @property
    def instances(self) -> Collection[str]:
        """The columns that something was measured of."""
        return self.evidence.instances

    def metric(self, analyzer: AnyAnalyzer) -> Metric[Any] | None:
        """Return the analyzer's metric; None if it was not measured."""
        return self.evidence.metric(analyzer)

    def earlier(self, analyzer: AnyAnalyzer) -> EarlierValues | None:
        """Return the metric's earlier values; None if there is no history at all."""
        return self.evidence.earlier(analyzer)

    def judged(self, analyzer: AnyAnalyzer, usual: AnomalySettings) -> Judgement | None:
        """Return a detector's verdict; None if it has none."""
        return self.evidence.judged(analyzer, usual)


@dataclass(frozen=True)
class ComparisonConstraint(Constraint):
    """An assertion on what is compared with something outside of the data and their history."""

    @property
    def about(self) -> str:
        """The subject of messages."""
        return subject(self.analyzer)

    @abstractmethod
    def judge_found(self, metric: Metric[Any], found: Any) -> ConstraintResult:
        """Evaluate comparison results."""

    def compare(self, metric: Metric[Any], evidence: Evidence) -> ConstraintResult:
        """Evaluate results of the comparison; missing ones are a failure with its reason."""
        others = evidence.found if isinstance(evidence, ComparedEvidence) else {}
        found = others.get(self, "nothing was read to compare with")
        return (
            self.failed(f"{self.about}: {found}", metric)
            if isinstance(found, str)
            else self.judge_found(metric, found)
        )


@dataclass(frozen=True)
class OtherTableConstraint(ComparisonConstraint):
    """An assertion on the relative difference of a metric from that of another table.

    Attributes
    ----------
    other : str
        A dataset of the repository, or a table or view of the session.
    """

    other: str = field(kw_only=True)

    @property
    def description(self) -> str:
        """The assertion as one line of text."""
        return f"{subject(self.analyzer)}: {_tolerance(self.assertion)} {self.other}"

    def judge_found(self, metric: Metric[Any], found: Metric[Any]) -> ConstraintResult:
        """Compare with the other table's metric."""
        if isinstance(found.outcome, Failure):
            return self.failed(f"{self.other} has no value: {found.outcome.error}", metric)
        own, other = metric.value, found.value
        if not isinstance(own, Real) or not isinstance(other, Real):
            text = f"{subject(self.analyzer)} is several numbers, which cannot be compared as one"
            return self.failed(text, metric)
        change = relative_difference(float(own), float(other))
        scale = written_scale(self.analyzer.name, self.analyzer.scale)
        value, there = (number_text(float(number), scale) for number in (own, other))
        text = f"{value_sentence(self.analyzer, value)}, but {there} in {self.other}"
        return self.judge(change, metric, str, message=text)


@dataclass(frozen=True)
class QueryConstraint(ComparisonConstraint):
    """An assertion that a query's result is that of another query.

    Attributes
    ----------
    query, other : str
        Spark SQL; ``data`` is the checked data, ``{ds}`` the value of their partition key ``ds``.
    within : float
        Relative difference that numbers may have.
    """

    query: str = field(kw_only=True)
    other: str = field(kw_only=True)
    within: float = field(default=0.0, kw_only=True)

    @property
    def description(self) -> str:
        """The assertion as one line of text."""
        query, other = one_line(self.query), one_line(self.other)
        return f"{query}: {_tolerance(Between(-self.within, self.within))} {other}"

    @property
    def about(self) -> str:
        """The first query."""
        return one_line(self.query)

    def judge_found(self, metric: Metric[Any], found: QueryResults) -> ConstraintResult:
        """Compare the two results as collections of rows, in any order."""
        if not found.left and not found.right:
            return self.no_data(metric, "both queries give no row")
        only, others = different_rows(found.left, found.right, self.within)
        number = max(len(only), len(others))
        rows = max(len(found.left), len(found.right))
        text = f"{self.about}: {number:,} of {rows:,} rows differ"
        result = self.judge(float(number), metric, str, message=text)
        if result.passed or not found.shown:
            return result
        # Sorted, as a query without ORDER BY gives its rows in any order.
        shown = [f"{_shown(row)} only in the first" for row in sorted(only, key=repr)[:_SHOWN]]
        shown += [f"{_shown(row)} only in the second" for row in sorted(others, key=repr)[:_SHOWN]]
        return result.with_examples(tuple(shown))


@dataclass(frozen=True)
class DriftConstraint(ComparisonConstraint):
    """An assertion on the distance of a column's distribution from the earlier ones.

    Attributes
    ----------
    column : str
    baseline : str
        ``28d``, the partitions within that time before; or ``previous``, the partition before.
    distance : str
        One of `DISTANCES`.
    categorical : bool
        Whether the values are compared as categories.
    missing : str
        ``pass`` or ``fail``: the result if there is nothing to compare with.
    """

    column: str = field(kw_only=True)
    baseline: str = field(kw_only=True)
    distance: str = field(kw_only=True)
    categorical: bool = field(kw_only=True)
    missing: str = field(default="pass", kw_only=True)

    @property
    def length(self) -> timedelta | None:
        """The time that the baseline covers; None for the partition before."""
        match = re.fullmatch(r"([1-9]\d*)([hdw])", self.baseline)
        units = {"h": "hours", "d": "days", "w": "weeks"}
        return None if match is None else timedelta(**{units[match[2]]: int(match[1])})

    @property
    def description(self) -> str:
        """The assertion as one line of text."""
        before = "previous" if self.length is None else f"{self.baseline} before"
        limit = "is not significant" if self.assertion == SIGNIFICANCE else str(self.assertion)
        where = f" where {self.analyzer.where}" if self.analyzer.where else ""
        return f"{self.column}{where}: {DISTANCES[self.distance]} to {before} {limit}"

    def judge_found(
        self, metric: Metric[Any], found: Mapping[str, Any] | NothingEarlier
    ) -> ConstraintResult:
        """Compare the distance with its limit."""
        if isinstance(found, NothingEarlier):
            text = "no earlier distribution to compare with"
            if self.missing == "fail":
                return self.failed(f"{column_text(self.analyzer)}: {text}", metric)
            return ConstraintResult(self, ConstraintStatus.NO_HISTORY, text, None, metric)
        distance = found["chi_square_p" if self.distance == "chi_square" else self.distance]
        if isnan(distance):
            return self._undefined(metric, found["unseen"])
        if self.assertion != SIGNIFICANCE:
            return self.judge(distance, metric, self._sentence)
        if not found["ks_significant"]:
            return ConstraintResult(self, ConstraintStatus.SUCCESS, "", distance, metric)
        return self.failed(
            f"{self._sentence(format_number(distance, 4))}, which is significant", metric, distance
        )

    def _sentence(self, text: str) -> str:
        """Return the beginning of a message that tells the distance."""
        return f"{DISTANCES[self.distance]} of {column_text(self.analyzer)} is {text}"

    def _undefined(self, metric: Metric[Any], unseen: float) -> ConstraintResult:
        """Return the result if there is no distance; ``unseen`` is the share of new categories."""
        column = column_text(self.analyzer)
        if isnan(unseen):
            return self.failed(f"{column}: one side has no values, so there is no distance", metric)
        if unseen == 1:
            return self.failed(f"{column}: no value occurred before", metric)
        text = "too few values, or only one category, for the test: not evaluated"
        return ConstraintResult(self, ConstraintStatus.NO_HISTORY, text, None, metric)


SIGNIFICANCE = Between(0, 0)
"""Assertion that a distance does not exceed the error of samples and sketches."""
DISTANCES = {
    "ks": "Kolmogorov-Smirnov distance",
    "chi_square": "p-value of the chi-square test",
    "psi": "PSI",
    "js": "Jensen-Shannon divergence",
}
_LIMITS = {
    "ks": SIGNIFICANCE,
    "chi_square": Between(0.003),
    "psi": Between(0, 0.2),
    "js": Between(0, 0.1),
}


def relative_difference(own: float, other: float) -> float:
    """Return the difference of a number from another one as a share of that one.

    Examples
    --------
    >>> relative_difference(90, 100), relative_difference(0, 0), relative_difference(-1, 0)
    (-0.1, 0.0, -inf)
    """
    if own == other:
        return 0.0
    return (own - other) / abs(other) if other else copysign(inf, own - other)


def different_rows(
    left: Sequence[Row], right: Sequence[Row], within: float = 0.0
) -> tuple[list[Row], list[Row]]:
    """Return the rows that only one of two collections has, null equal to null, NaN to NaN.

    Parameters
    ----------
    left, right : sequence of tuple
    within : float
        Relative difference that numbers may have: rows with equal other values are then compared in
        the order of their numbers.

    Examples
    --------
    >>> different_rows([("AA", 3), ("UA", 2)], [("UA", 2.0), ("AA", 4)])
    ([('AA', 3)], [('AA', 4)])
    >>> different_rows([("AA", 99.0)], [("AA", 100.0)], within=0.01)
    ([], [])
    """
    if not within:
        ours, theirs = (Counter(map(_key, rows)) for rows in (left, right))
        return _left_over(left, ours - theirs), _left_over(right, theirs - ours)
    only: list[Row] = []
    others: list[Row] = []
    groups: dict[Row, tuple[list[Row], list[Row]]] = {}
    for side, rows in enumerate((left, right)):
        for row in rows:
            words = tuple(... if _is_number(x) else x for x in _key(row))  # NaN is a word
            groups.setdefault(words, ([], []))[side].append(row)
    for pairs in groups.values():
        first, second = (sorted(rows, key=_numbers) for rows in pairs)
        for one, other in zip(first, second, strict=False):
            if not all(_is_near(a, b, within) for a, b in zip(one, other, strict=True)):
                only.append(one)
                others.append(other)
        only += first[len(second) :]
        others += second[len(first) :]
    return only, others


def _left_over(rows: Sequence[Row], left: Counter[Row]) -> list[Row]:
    found = []
    for row in rows:
        if left[_key(row)] > 0:
            left[_key(row)] -= 1
            found.append(row)
    return found


def _key(row: Row) -> Row:
    """Return a row's values as those of a hash table; arrays and structs as text."""
    return tuple("NaN" if _is_number(x) and isnan(x) else _hashable(x) for x in row)


def _hashable(value: Any) -> Any:
    try:
        hash(value)
    except TypeError:
        return repr(value)
    return value


def _is_number(value: Any) -> bool:
    # A Decimal is none of Python's Reals.
    return hasattr(value, "__float__") and not isinstance(value, bool)


def _numbers(row: Row) -> list[float]:
    """Return the numbers by which rows are sorted; NaN has no order, and is equal in rows of one group."""
    return [float(x) for x in row if _is_number(x) and not isnan(x)]


def _is_near(one: Any, other: Any, within: float) -> bool:
    if not _is_number(one) or not _is_number(other):
        return True  # equal, or the rows were not in one group
    one, other = float(one), float(other)
    return (isnan(one) and isnan(other)) or isclose(one, other, rel_tol=within)


def _shown(row: Row) -> str:
    texts = (
        "null" if value is None else repr(value) if isinstance(value, str) else str(value)
        for value in row
    )
    return one_line(f"({', '.join(texts)})", _WIDTH)


def _tolerance(wanted: Any) -> str:
    most = wanted.upper if isinstance(wanted, Between) else None
    return f"within {format_number(most)} of" if most else "as in"


class ComparisonMethods(ConstraintBuilder):
    """Constraints that compare with another table, two queries, or the distributions before.

    A partition is compared with the partition of the same name of the other table. What a repository has
    measured of a dataset with the other's name is compared with; otherwise the other is a table or view of
    Spark, which is measured then and there.
    """

    def has_size_of(self, other: str, within: float = 0.0, *, hint: str = "") -> Self:
        """Assert that there are as many rows as in another table.

        Parameters
        ----------
        other : str
            A dataset of the repository, or a table or view of Spark.
        within : float
            Allowed difference, as a share of the other's rows.
        hint : str

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("orders").has_size_of("raw.orders", within=0.01).constraints[0].description
        'Size(): within 0.01 of raw.orders'
        """
        return self.has_same(Size(), other, within, hint=hint)

    def has_same(
        self, analyzer: AnyAnalyzer | str, other: str, within: float = 0.0, *, hint: str = ""
    ) -> Self:
        """Assert that a metric is what it is in another table.

        Parameters
        ----------
        analyzer : Analyzer or str
            Measured in both tables, so the other one has its columns.
        other : str
            A dataset of the repository, or a table or view of Spark.
        within : float
            Allowed difference, as a share of the other's value.
        hint : str

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("orders").has_same("Sum('price')", "ledger").constraints[0].description
        "Sum('price'): as in ledger"
        """
        most = _allowed(within)
        constraint = OtherTableConstraint(
            self.read(analyzer), Between(-most, most), other=_text("other", other), hint=hint
        )
        return self.with_constraint(constraint)

    def has_same_result(
        self, query: str, other: str, within: float = 0.0, *, hint: str = ""
    ) -> Self:
        """Assert that a query gives the same rows as another query, in any order.

        Null equals null and NaN equals NaN. Each result may have up to 1,000 rows.

        Parameters
        ----------
        query, other : str
            Spark SQL. The name ``data`` stands for the checked data, a partition of a partitioned table;
            ``{ds}`` for the value of its key ``ds``, as a literal. Other names are tables and views of
            the session.
        within : float
            Allowed difference of numbers, as a share.
        hint : str

        Examples
        --------
        >>> import tidegauge as tg
        >>> check = tg.Check("orders").has_same_result(
        ...     "SELECT sum(price) FROM data", "SELECT total FROM ledger WHERE day = {ds}", within=1e-9
        ... )
        >>> check.constraints[0].description
        'SELECT sum(price) FROM data: within 1e-09 of SELECT total FROM ledger WHERE day = {ds}'
        """
        constraint = QueryConstraint(
            Size(),
            Between(0, 0),
            query=_text("query", query),
            other=_text("other", other),
            within=_allowed(within),
            hint=hint,
        )
        return self.with_constraint(constraint)

    def has_not_drifted(
        self,
        column: str,
        baseline: str = "28d",
        distance: str = "ks",
        assertion: AssertionLike | None = None,
        *,
        categorical: bool = False,
        missing: str = "pass",
        hint: str = "",
    ) -> Self:
        """Assert that a column's distribution is like that of the partitions before.

        Stored distributions are compared, of any analyzer that holds them; see `Repository.drift`. A
        partition without any before it passes with the status ``no history``.

        Parameters
        ----------
        column : str
        baseline : str
            The time before the partition that it is compared with: ``28d`` (or hours, ``h``, or weeks,
            ``w``); or ``previous``, the partition before.
        distance : str
            ``ks``, the two-sample test of Kolmogorov and Smirnov, of numbers; ``chi_square``, Pearson's
            test, of categories, which also tests the number of rows with categories never seen before; ``psi`` or ``js`` (Jensen-Shannon, in bits) of either.
        assertion : callable, float, pair of float, or Between, optional
            On the distance; for ``chi_square`` on the p-value. Without one, ``ks`` must not be
            significant at 0.3 % beyond the errors of sketches, the p-value be at least 0.003, ``psi`` at
            most 0.2 and ``js`` at most 0.1. With millions of rows any difference is significant:
            give a limit there. With too few values for a chi-square test, it passes with the status
            ``no history``.
        categorical : bool
            Whether ``psi`` and ``js`` compare the values as categories; ``chi_square`` always does.
        missing : str
            ``pass`` or ``fail``: the result without anything earlier.
        hint : str

        Examples
        --------
        >>> import tidegauge as tg
        >>> check = tg.Check("flights").has_not_drifted("dep_delay").has_not_drifted(
        ...     "carrier", "7d", "psi", (0, 0.25), categorical=True
        ... )
        >>> for constraint in check.constraints:
        ...     print(constraint.description)
        dep_delay: Kolmogorov-Smirnov distance to 28d before is not significant
        carrier: PSI to 7d before at least 0 and at most 0.25
        """
        if distance not in DISTANCES:
            raise UnknownNameError("distance", str(distance), DISTANCES)
        categorical = categorical or distance == "chi_square"
        if categorical and distance == "ks":
            msg = "ks compares numbers; of categories ask chi_square, psi or js"
            raise SuiteError(msg)
        if missing not in {"pass", "fail"}:
            raise UnknownNameError("missing", str(missing), ["pass", "fail"])
        column = _text("column", column)
        constraint = DriftConstraint(
            self.read(Histogram(column) if categorical else ApproxQuantile(column, 0.5)),
            _LIMITS[distance] if assertion is None else as_assertion(assertion),
            column=column,
            baseline=baseline,
            distance=distance,
            categorical=categorical,
            missing=missing,
            hint=hint,
        )
        if constraint.length is None and baseline != "previous":
            msg = f"{baseline!r} is no time before; write '28d', '24h' or 'previous'"
            raise SuiteError(msg)
        return self.with_constraint(constraint)


def _allowed(within: object) -> float:
    if not isinstance(within, int | float) or not 0 <= within < inf:
        msg = f"within is the allowed difference as a share, such as 0.01, not {within!r}"
        raise SuiteError(msg)
    return float(within)


def _text(name: str, text: object) -> str:
    if not isinstance(text, str) or not text.strip():
        msg = f"{name} is a text, not {text!r}"
        raise SuiteError(msg)
    return text.strip()
