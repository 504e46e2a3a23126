"""Constraints that compare with another table, a query or earlier distributions.

They are added by the methods of `ComparisonMethods`, and a `Comparer` reads their inputs: metrics of
other tables, results of queries, distances.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from math import copysign, inf, isclose, isnan
from numbers import Real
from typing import TYPE_CHECKING, Any, Self

from tidegauge.analyzers.core.analyzer import AnyAnalyzer
from tidegauge.analyzers.core.errors import (
    PartitionSelectionError,
    SuiteError,
    TidegaugeError,
    UnknownNameError,
    message_of,
)
from tidegauge.analyzers.core.evidence import AnomalySettings, EarlierValues, Evidence, Judgement
from tidegauge.analyzers.core.formatting import one_line
from tidegauge.analyzers.core.metric import Failure, Metric, written_scale
from tidegauge.analyzers.core.partitions import Partition, Values
from tidegauge.analyzers.core.privacy import PUBLIC, Privacy
from tidegauge.analyzers.core.schema import INTEGRAL, Schema
from tidegauge.analyzers.core.sql import literal
from tidegauge.analyzers.measures.counts import Size
from tidegauge.analyzers.measures.histogram import Histogram
from tidegauge.analyzers.measures.quantiles import ApproxQuantile
from tidegauge.analyzers.scan.grouping import filter_partitions
from tidegauge.analyzers.scan.scan import Outcome, scan
from tidegauge.analyzers.scan.user_sql import Views
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
from tidegauge.repository.detection.judge import UNSTORED_ID
from tidegauge.repository.distributions.drift import drift_before
from tidegauge.repository.distributions.stored import CATEGORICAL_KIND, NUMERIC_KIND, StoredColumn
from tidegauge.repository.history.evidence import CheckTarget, View, load_evidence

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegauge.repository.repository import Repository
    from tidegauge.repository.store.queries import AsOf

MAX_QUERY_ROWS = 1000
"""Limit on the rows of a query's result, which the driver collects."""
_MAX_SHOWN_ROWS, _MAX_ROW_LENGTH = 2, 80

Row = tuple[Any, ...]


@dataclass(frozen=True)
class QueryResults:
    """The results of two queries.

    Attributes
    ----------
    left, right : sequence of tuple
        The rows of each query.
    can_show_rows : bool
        Whether messages can show rows, because no column is private.
    """

    left: Sequence[Row]
    right: Sequence[Row]
    can_show_rows: bool = True


@dataclass(frozen=True)
class NothingEarlier:
    """There is no earlier distribution to compare with."""


Found = Metric[Any] | QueryResults | Mapping[str, Any] | NothingEarlier | str
"""Input of a comparison: the other table's metric, both results, distances, or an error message."""


@dataclass(frozen=True)
class ComparedEvidence:
    """Evidence of a partition, with inputs of comparisons.

    Attributes
    ----------
    evidence : Evidence
        The metrics and the history.
    inputs : mapping of Constraint to Found
        The inputs by constraint.
    """

    evidence: Evidence
    inputs: Mapping[Constraint, Found]

    @property
    def instances(self) -> Collection[str]:
        """The columns that were measured."""
        return self.evidence.instances

    def metric(self, analyzer: AnyAnalyzer) -> Metric[Any] | None:
        """Return the analyzer's metric; None if it was not measured."""
        return self.evidence.metric(analyzer)

    def earlier(self, analyzer: AnyAnalyzer) -> EarlierValues | None:
        """Return the metric's earlier values; None without history."""
        return self.evidence.earlier(analyzer)

    def judged(self, analyzer: AnyAnalyzer, usual: AnomalySettings) -> Judgement | None:
        """Return a detector's verdict, if any."""
        return self.evidence.judged(analyzer, usual)


@dataclass(frozen=True)
class ComparisonConstraint(Constraint):
    """An assertion on a comparison with other data than the checked data and its history."""

    @property
    def label(self) -> str:
        """The beginning of messages."""
        return subject(self.analyzer)

    @abstractmethod
    def judge_found(self, metric: Metric[Any], comparison: Any) -> ConstraintResult:
        """Evaluate comparison results."""

    def compare(self, metric: Metric[Any], evidence: Evidence) -> ConstraintResult:
        """Evaluate the comparison; missing inputs are a failure with a reason."""
        inputs = evidence.inputs if isinstance(evidence, ComparedEvidence) else {}
        comparison = inputs.get(self, "no data was read for the comparison")
        return (
            self.failed(f"{self.label}: {comparison}", metric)
            if isinstance(comparison, str)
            else self.judge_found(metric, comparison)
        )


@dataclass(frozen=True)
class OtherTableConstraint(ComparisonConstraint):
    """An assertion on the relative difference between a metric and the same metric of another table.

    Attributes
    ----------
    other : str
        A dataset of the repository, or a table or view of the session.
    """

    other: str = field(kw_only=True)

    @property
    def description(self) -> str:
        """The assertion as one line."""
        return f"{subject(self.analyzer)}: {_tolerance(self.assertion)} {self.other}"

    def judge_found(self, metric: Metric[Any], other_metric: Metric[Any]) -> ConstraintResult:
        """Compare with the other table's metric."""
        if isinstance(other_metric.outcome, Failure):
            return self.failed(f"{self.other} has no value: {other_metric.outcome.error}", metric)
        own_value, other = metric.value, other_metric.value
        if not isinstance(own_value, Real) or not isinstance(other, Real):
            text = f"{subject(self.analyzer)} has several values, so it cannot be compared as one number"
            return self.failed(text, metric)
        change = relative_difference(float(own_value), float(other))
        scale = written_scale(self.analyzer.name, self.analyzer.scale)
        formatted, other_formatted = (
            number_text(float(number), scale) for number in (own_value, other)
        )
        text = f"{value_sentence(self.analyzer, formatted)}, but {other_formatted} in {self.other}"
        return self.judge(change, metric, str, message=text)


@dataclass(frozen=True)
class QueryConstraint(ComparisonConstraint):
    """An assertion that a query has the same result as another query.

    Attributes
    ----------
    query, other : str
        Spark SQL; ``data`` is the checked data, ``{ds}`` the value of its partition key ``ds``.
    within : float
        Allowed relative difference of numbers.
    """

    query: str = field(kw_only=True)
    other: str = field(kw_only=True)
    within: float = field(default=0.0, kw_only=True)

    @property
    def description(self) -> str:
        """The assertion as one line."""
        query, other = one_line(self.query), one_line(self.other)
        return f"{query}: {_tolerance(Between(-self.within, self.within))} {other}"

    @property
    def label(self) -> str:
        """The first query."""
        return one_line(self.query)

    def judge_found(self, metric: Metric[Any], results: QueryResults) -> ConstraintResult:
        """Compare the two results as collections of rows, in any order."""
        if not results.left and not results.right:
            return self.no_data(metric, "both queries return no rows")
        only_left, only_right = different_rows(results.left, results.right, self.within)
        number = max(len(only_left), len(only_right))
        rows = max(len(results.left), len(results.right))
        text = f"{self.label}: {number:,} of {rows:,} rows differ"
        result = self.judge(float(number), metric, str, message=text)
        if result.passed or not results.can_show_rows:
            return result
        # Sorted, because a query without ORDER BY returns its rows in any order.
        examples = [
            f"{_row_text(row)} only in the first"
            for row in sorted(only_left, key=repr)[:_MAX_SHOWN_ROWS]
        ]
        examples += [
            f"{_row_text(row)} only in the second"
            for row in sorted(only_right, key=repr)[:_MAX_SHOWN_ROWS]
        ]
        return result.with_examples(tuple(examples))


@dataclass(frozen=True)
class DriftConstraint(ComparisonConstraint):
    """An assertion on the distance between a column's distribution and earlier distributions.

    Attributes
    ----------
    column : str
        Name of the column.
    baseline : str
        ``28d``, the partitions in this time before the partition; or ``previous``, the previous partition.
    distance : str
        A key of `DISTANCE_NAMES`.
    categorical : bool
        Whether the values are compared as categories.
    missing : str
        ``pass`` or ``fail``: the result without an earlier distribution.
    """

    column: str = field(kw_only=True)
    baseline: str = field(kw_only=True)
    distance: str = field(kw_only=True)
    categorical: bool = field(kw_only=True)
    missing: str = field(default="pass", kw_only=True)

    @property
    def length(self) -> timedelta | None:
        """The length of the baseline; None for the previous partition."""
        match = re.fullmatch(r"([1-9]\d*)([hdw])", self.baseline)
        units = {"h": "hours", "d": "days", "w": "weeks"}
        return None if match is None else timedelta(**{units[match[2]]: int(match[1])})

    @property
    def description(self) -> str:
        """The assertion as one line."""
        baseline = "previous" if self.length is None else f"{self.baseline} before"
        limit = "is not significant" if self.assertion == NOT_SIGNIFICANT else str(self.assertion)
        where = f" where {self.analyzer.where}" if self.analyzer.where else ""
        return f"{self.column}{where}: {DISTANCE_NAMES[self.distance]} to {baseline} {limit}"

    def judge_found(
        self, metric: Metric[Any], distances: Mapping[str, Any] | NothingEarlier
    ) -> ConstraintResult:
        """Compare the distance with its limit."""
        if isinstance(distances, NothingEarlier):
            text = "no earlier distribution to compare with"
            if self.missing == "fail":
                return self.failed(f"{column_text(self.analyzer)}: {text}", metric)
            return ConstraintResult(self, ConstraintStatus.NO_HISTORY, text, None, metric)
        distance = distances["chi_square_p" if self.distance == "chi_square" else self.distance]
        if isnan(distance):
            return self._undefined(metric, distances["unseen"])
        if self.assertion != NOT_SIGNIFICANT:
            return self.judge(distance, metric, self._sentence)
        if not distances["ks_significant"]:
            return ConstraintResult(self, ConstraintStatus.SUCCESS, "", distance, metric)
        return self.failed(
            f"{self._sentence(format_number(distance, 4))}, which is significant", metric, distance
        )

    def _sentence(self, text: str) -> str:
        """Return the beginning of a message with the formatted distance."""
        return f"{DISTANCE_NAMES[self.distance]} of {column_text(self.analyzer)} is {text}"

    def _undefined(self, metric: Metric[Any], unseen: float) -> ConstraintResult:
        """Return the result without a distance; ``unseen`` is the share of new categories."""
        column = column_text(self.analyzer)
        if isnan(unseen):
            return self.failed(f"{column}: one side has no values, so there is no distance", metric)
        if unseen == 1:
            return self.failed(f"{column}: no value occurred before", metric)
        text = "too few values, or only one category, for the test: not evaluated"
        return ConstraintResult(self, ConstraintStatus.NO_HISTORY, text, None, metric)


NOT_SIGNIFICANT = Between(0, 0)
"""Assertion that a distance does not exceed the error of samples and sketches, which is used as a marker."""
DISTANCE_NAMES = {
    "ks": "Kolmogorov-Smirnov distance",
    "chi_square": "p-value of the chi-square test",
    "psi": "PSI",
    "js": "Jensen-Shannon divergence",
}
_DEFAULT_LIMITS = {
    "ks": NOT_SIGNIFICANT,
    "chi_square": Between(0.003),
    "psi": Between(0, 0.2),
    "js": Between(0, 0.1),
}


def relative_difference(number: float, other: float) -> float:
    """Return the difference of a number from another number, as a share of the other number.

    Examples
    --------
    >>> relative_difference(90, 100), relative_difference(0, 0), relative_difference(-1, 0)
    (-0.1, 0.0, -inf)
    """
    if number == other:
        return 0.0
    return (number - other) / abs(other) if other else copysign(inf, number - other)


def different_rows(
    left: Sequence[Row], right: Sequence[Row], within: float = 0.0
) -> tuple[list[Row], list[Row]]:
    """Return the rows that occur in only one of two collections; null equals null, and NaN equals NaN.

    Parameters
    ----------
    left, right : sequence of tuple
        The two collections.
    within : float
        Allowed relative difference of numbers. If it is not 0, rows with equal other values are compared
        in the order of their numbers.

    Examples
    --------
    >>> different_rows([("AA", 3), ("UA", 2)], [("UA", 2.0), ("AA", 4)])
    ([('AA', 3)], [('AA', 4)])
    >>> different_rows([("AA", 99.0)], [("AA", 100.0)], within=0.01)
    ([], [])
    """
    if not within:
        left_counts, right_counts = (Counter(map(_key, rows)) for rows in (left, right))
        return _left_over(left, left_counts - right_counts), _left_over(
            right, right_counts - left_counts
        )
    only_left: list[Row] = []
    only_right: list[Row] = []
    groups: dict[Row, tuple[list[Row], list[Row]]] = {}
    for side, rows in enumerate((left, right)):
        for row in rows:
            group_key = tuple(... if _is_number(x) else x for x in _key(row))  # NaN is a word
            groups.setdefault(group_key, ([], []))[side].append(row)
    for pairs in groups.values():
        left_rows, right_rows = (sorted(rows, key=_numbers) for rows in pairs)
        for left_row, right_row in zip(left_rows, right_rows, strict=False):
            if not all(_is_near(a, b, within) for a, b in zip(left_row, right_row, strict=True)):
                only_left.append(left_row)
                only_right.append(right_row)
        only_left += left_rows[len(right_rows) :]
        only_right += right_rows[len(left_rows) :]
    return only_left, only_right


def _left_over(rows: Sequence[Row], counts: Counter[Row]) -> list[Row]:
    result = []
    for row in rows:
        if counts[_key(row)] > 0:
            counts[_key(row)] -= 1
            result.append(row)
    return result


def _key(row: Row) -> Row:
    """Return a row's values as keys of a dictionary; arrays and structs as strings."""
    return tuple("NaN" if _is_number(x) and isnan(x) else _hashable(x) for x in row)


def _hashable(value: Any) -> Any:
    try:
        hash(value)
    except TypeError:
        return repr(value)
    return value


def _is_number(value: Any) -> bool:
    # A Decimal is not a Real in Python.
    return hasattr(value, "__float__") and not isinstance(value, bool)


def _numbers(row: Row) -> list[float]:
    """Return a row's numbers, for sorting; NaN is omitted because rows of a group have it in the same columns."""
    return [float(x) for x in row if _is_number(x) and not isnan(x)]


def _is_near(left: Any, right: Any, within: float) -> bool:
    if not _is_number(left) or not _is_number(right):
        return True  # equal, or the rows were not in one group
    left, right = float(left), float(right)
    return (isnan(left) and isnan(right)) or isclose(left, right, rel_tol=within)


def _row_text(row: Row) -> str:
    cells = (
        "null" if value is None else repr(value) if isinstance(value, str) else str(value)
        for value in row
    )
    return one_line(f"({', '.join(cells)})", _MAX_ROW_LENGTH)


def _tolerance(assertion: Any) -> str:
    upper = assertion.upper if isinstance(assertion, Between) else None
    return f"within {format_number(upper)} of" if upper else "as in"


class ComparisonMethods(ConstraintBuilder):
    """Constraints that compare with another table, another query, or earlier distributions.

    A partition is compared with the partition of the same name of the other table. If the repository has a
    dataset of that name, its stored metrics are used; otherwise the table or view in Spark is measured.
    """

    def has_size_of(self, other: str, within: float = 0.0, *, hint: str = "") -> Self:
        """Assert that the number of rows is the same as in another table.

        Parameters
        ----------
        other : str
            A dataset of the repository, or a table or view in Spark.
        within : float
            Allowed difference, as a share of the other table's rows.
        hint : str
            Hint that is added to the failure message.

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
        """Assert that a metric is the same as in another table.

        Parameters
        ----------
        analyzer : Analyzer or str
            The analyzer, which is measured in both tables; the other table must have its columns.
        other : str
            A dataset of the repository, or a table or view in Spark.
        within : float
            Allowed difference, as a share of the other table's value.
        hint : str
            Hint that is added to the failure message.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("orders").has_same("Sum('price')", "ledger").constraints[0].description
        "Sum('price'): as in ledger"
        """
        allowed = _allowed(within)
        constraint = OtherTableConstraint(
            self.read(analyzer), Between(-allowed, allowed), other=_text("other", other), hint=hint
        )
        return self.with_constraint(constraint)

    def has_same_result(
        self, query: str, other: str, within: float = 0.0, *, hint: str = ""
    ) -> Self:
        """Assert that a query returns the same rows as another query, in any order.

        Null equals null and NaN equals NaN. Each result can have up to 1,000 rows.

        Parameters
        ----------
        query, other : str
            Spark SQL. The name ``data`` is the checked data (one partition of a partitioned table), and
            ``{ds}`` is the value of its partition key ``ds``, as a literal. Other names are tables and
            views of the session.
        within : float
            Allowed difference of numbers, as a share.
        hint : str
            Hint that is added to the failure message.

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
        """Assert that a column's distribution is similar to earlier distributions.

        Distributions that any analyzer has stored are compared; see `Repository.drift`. A partition
        without earlier distributions passes with the status ``no history``.

        Parameters
        ----------
        column : str
            Name of the column.
        baseline : str
            The time before the partition to compare with, such as ``28d`` (or hours, ``h``, or weeks,
            ``w``); or ``previous``, the previous partition.
        distance : str
            ``ks``, the two-sample test of Kolmogorov and Smirnov, of numbers; ``chi_square``, Pearson's
            test, of categories, which also tests the number of rows with categories never seen before; ``psi`` or ``js`` (Jensen-Shannon, in bits) of either.
        assertion : callable, float, pair of float, or Between, optional
            On the distance; for ``chi_square`` on the p-value. Without one, ``ks`` must not be
            significant at 0.3% beyond the errors of sketches, the p-value be at least 0.003, ``psi`` at
            most 0.2 and ``js`` at most 0.1. With millions of rows any difference is significant:
            give a limit there. With too few values for a chi-square test, it passes with the status
            ``no history``.
        categorical : bool
            Whether ``psi`` and ``js`` compare the values as categories; ``chi_square`` always does.
        missing : str
            ``pass`` or ``fail``: the result without an earlier distribution.
        hint : str
            Hint that is added to the failure message.

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
        if distance not in DISTANCE_NAMES:
            raise UnknownNameError("distance", str(distance), DISTANCE_NAMES)
        categorical = categorical or distance == "chi_square"
        if categorical and distance == "ks":
            msg = "ks compares only numbers; for categories, use chi_square, psi or js"
            raise SuiteError(msg)
        if missing not in {"pass", "fail"}:
            raise UnknownNameError("missing", str(missing), ["pass", "fail"])
        column = _text("column", column)
        constraint = DriftConstraint(
            self.read(Histogram(column) if categorical else ApproxQuantile(column, 0.5)),
            _DEFAULT_LIMITS[distance] if assertion is None else as_assertion(assertion),
            column=column,
            baseline=baseline,
            distance=distance,
            categorical=categorical,
            missing=missing,
            hint=hint,
        )
        if constraint.length is None and baseline != "previous":
            msg = f"invalid baseline {baseline!r}; write '28d', '24h' or 'previous'"
            raise SuiteError(msg)
        return self.with_constraint(constraint)


def _allowed(within: object) -> float:
    if not isinstance(within, int | float) or not 0 <= within < inf:
        msg = f"within must be the allowed difference as a share, such as 0.01, not {within!r}"
        raise SuiteError(msg)
    return float(within)


def _text(name: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        msg = f"{name} must be a string that is not empty, not {value!r}"
        raise SuiteError(msg)
    return value.strip()


DATA_VIEW = "data"
"""Name of the view of the checked data in users' queries."""

Foundations = Mapping[str, Mapping[Constraint, Found]]
"""Inputs of comparisons by partition and constraint."""


@dataclass(frozen=True)
class Comparer:
    """Reader of other tables and queries for one dataset's partitions.

    Attributes
    ----------
    repository : Repository, optional
        Repository in which other tables can have metrics.
    read : callable, optional
        Returns the data of a partition by its name; without it, Spark reads no data.
    segment : str
        The checked segment; its metrics of other tables can only come from a repository.
    as_of : str, date, datetime or int, optional
        The view of the repository.
    private : Privacy
        Columns whose values are not shown.
    examples : bool
        Whether rows are shown.
    """

    repository: Repository | None = None
    read: Callable[[str], DataFrame] | None = None
    segment: str = ""
    as_of: AsOf = None
    private: Privacy = PUBLIC
    examples: bool = True

    def find(
        self, constraints: Iterable[Constraint], dataset: str, targets: Sequence[CheckTarget]
    ) -> Foundations:
        """Return the inputs of comparison constraints by partition; a string is the reason for a missing input."""
        partitions = [target.partition for target in targets]
        comparisons = [
            constraint
            for constraint in dict.fromkeys(constraints)
            if isinstance(constraint, ComparisonConstraint)
        ]
        inputs: dict[str, dict[Constraint, Found]] = {name: {} for name in partitions}
        tables: dict[str, list[OtherTableConstraint]] = {}
        for constraint in comparisons if partitions else ():
            if isinstance(constraint, OtherTableConstraint):
                tables.setdefault(constraint.other, []).append(constraint)
            elif isinstance(constraint, QueryConstraint):
                for name in partitions:
                    inputs[name][constraint] = self._results(constraint, name)
            elif isinstance(constraint, DriftConstraint):
                for target in targets:
                    inputs[target.partition][constraint] = self._drift(constraint, dataset, target)
        for table, of_table in tables.items():
            metrics = self._other(
                table, [constraint.analyzer for constraint in of_table], partitions
            )
            for name in partitions:
                for constraint in of_table:
                    inputs[name][constraint] = metrics[name, constraint.analyzer]
        return inputs

    def _other(
        self, table: str, analyzers: Sequence[AnyAnalyzer], partitions: Sequence[str]
    ) -> dict[tuple[str, AnyAnalyzer], Metric[Any] | str]:
        """Return the metrics of another table by partition, measuring partitions without stored metrics."""
        pairs = [(name, analyzer) for name in partitions for analyzer in analyzers]
        metrics: dict[tuple[str, AnyAnalyzer], Metric[Any] | str] = dict(
            self._stored(table, analyzers, partitions)
        )
        missing = [pair for pair in pairs if pair not in metrics]
        if missing:
            names = list(dict.fromkeys(name for name, _ in missing))
            try:
                metrics |= self._measured(table, analyzers, names)
            except Exception as error:  # noqa: BLE001 - a table that cannot be read fails the constraint
                message = message_of(error)
                metrics |= dict.fromkeys(missing, message)
        return metrics

    def _stored(
        self, table: str, analyzers: Sequence[AnyAnalyzer], partitions: Sequence[str]
    ) -> Iterable[tuple[tuple[str, AnyAnalyzer], Metric[Any]]]:
        """Yield the metrics that the repository has."""
        if self.repository is None or table not in self.repository.datasets():
            return
        view = View(self.repository.database, self.repository.artifacts, table, self.as_of)
        ledger = self.repository.partitions(table, as_of=self.as_of)
        current = set(ledger[ledger["gone_at"].isna()]["partition"])
        try:
            targets = view.targets([name for name in partitions if name in current], self.segment)
        except PartitionSelectionError:  # no partition has the segment
            return
        evidence = load_evidence(view, targets, analyzers)
        for target in targets:
            for analyzer in analyzers:
                metric = evidence.for_target(target).metric(analyzer)
                if metric is not None:
                    yield (target.partition, analyzer), metric

    def _measured(
        self, table: str, analyzers: Sequence[AnyAnalyzer], names: Sequence[str]
    ) -> dict[tuple[str, AnyAnalyzer], Metric[Any] | str]:
        """Measure partitions of a table or view in one scan."""
        if self.read is None or self.segment:
            segment_text = f"segment {self.segment!r} of " if self.segment else ""
            msg = f"the repository has no metric of {segment_text}{table!r} to compare with"
            raise SuiteError(msg)
        spark = self.read(names[0]).sparkSession
        if not spark.catalog.tableExists(table):
            msg = f"no dataset, table or view {table!r} to compare with"
            raise SuiteError(msg)
        data, partitions = spark.table(table), [Partition.from_name(name) for name in names]
        keys = partitions[0].keys
        spelled = {column.casefold(): column for column in data.columns}
        unknown = [key for key in keys if key.casefold() not in spelled]
        if unknown:
            msg = f"{table!r} has no column {unknown[0]!r}, which is needed to find its partitions"
            raise SuiteError(msg)
        columns = [spelled[key.casefold()] for key in keys]
        kinds = [data.schema[column].dataType.typeName() for column in columns]
        values = {partition.name: _printed(partition.values, kinds) for partition in partitions}
        keys_to_read = set(values.values())
        if columns:
            data = filter_partitions(data, columns, keys_to_read)
        result = scan(data, analyzers, columns, keep=lambda group_key: group_key in keys_to_read)
        return {
            (name, analyzer): _metric(
                analyzer, result.groups.get(partition_values, result.nothing).states[analyzer]
            )
            for name, partition_values in values.items()
            for analyzer in analyzers
        }

    def _drift(self, constraint: DriftConstraint, dataset: str, target: CheckTarget) -> Found:
        """Return the distances from earlier distributions, or the reason for a missing distance."""
        if self.repository is None:
            return (
                "earlier distributions are stored in a repository: pass repository= and partition="
            )
        if dataset not in self.repository.datasets():
            return NothingEarlier()
        if target.time is None:
            return "the partition has no time, so it has no earlier partitions"
        column = StoredColumn(
            self.repository.database,
            self.repository.artifacts,
            dataset,
            constraint.column,
            target.segment,
            constraint.analyzer.where,
            self.as_of,
            CATEGORICAL_KIND if constraint.categorical else NUMERIC_KIND,
        )
        current = None
        if target.id == UNSTORED_ID and self.read is not None:
            state = scan(self.read(target.partition), [constraint.analyzer]).single_group.states
            outcome = state[constraint.analyzer]
            if isinstance(outcome, Failure):
                return str(outcome.error)
            current = outcome.value
        try:
            distances = drift_before(
                column, target.partition, target.time, constraint.length, current
            )
        except TidegaugeError as error:
            return str(error)
        return NothingEarlier() if distances is None else asdict(distances)

    def _results(self, constraint: QueryConstraint, name: str) -> Found:
        """Return the results of both queries on a partition, or the reason for missing results."""
        if self.read is None:
            return "queries need data: verify a DataFrame, or use tidegauge check"
        if self.segment:
            return f"queries are run on whole partitions, not on a segment ({self.segment})"
        data = self.read(name)
        views = Views(data.sparkSession)
        partition = Partition.from_name(name)
        try:
            views.add(DATA_VIEW, data)
            queries = (
                with_keys(query_text, partition)
                for query_text in (constraint.query, constraint.other)
            )
            frames = [views.query(query) for query in queries]
            if len({len(frame.columns) for frame in frames}) > 1:
                counts = " and ".join(str(len(frame.columns)) for frame in frames)
                return f"the results have {counts} columns"
            left_rows, right_rows = (_rows(frame) for frame in frames)
            private = [self.private.columns_of(Schema.from_frame(f)) for f in (data, *frames)]
            return QueryResults(
                left_rows, right_rows, can_show_rows=self.examples and not any(private)
            )
        except Exception as error:  # noqa: BLE001 - a query that fails, fails the constraint
            return message_of(error)
        finally:
            views.drop()


def _printed(values: Values, kinds: Sequence[str]) -> Values:
    """Return a partition's values as columns of these types print them: for integers, ``hr=07`` is 7.

    Examples
    --------
    >>> _printed(("07", "07"), ["integer", "string"])
    ('7', '07')
    """
    return tuple(
        str(int(value)) if kind in INTEGRAL and re.fullmatch(r"[+-]?\d+", value) else value
        for value, kind in zip(values, kinds, strict=True)
    )


def with_keys(query: str, partition: Partition) -> str:
    """Replace ``{key}`` in a query by the partition's value, as a literal.

    Examples
    --------
    >>> with_keys("SELECT n FROM t WHERE ds = {ds} AND x RLIKE '{2}'", Partition(("ds",), ("2013-02-08",)))
    "SELECT n FROM t WHERE ds = '2013-02-08' AND x RLIKE '{2}'"
    """
    values = dict(zip(partition.keys, partition.values, strict=True))
    return re.sub(
        r"\{(\w+)\}",
        lambda match: literal(values[match[1]]) if match[1] in values else match[0],
        query,
    )


def _rows(frame: DataFrame) -> list[Row]:
    rows = frame.limit(MAX_QUERY_ROWS + 1).collect()
    if len(rows) > MAX_QUERY_ROWS:
        msg = f"the result of a query has more than {MAX_QUERY_ROWS:,} rows; aggregate them"
        raise SuiteError(msg)
    return [tuple(row) for row in rows]


def _metric(analyzer: AnyAnalyzer, outcome: Outcome) -> Metric[Any]:
    if isinstance(outcome, Failure):
        return analyzer.to_failure_metric(outcome.error)
    return analyzer.compute_metric_from(outcome.value)
