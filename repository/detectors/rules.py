"""Decision rules and severity: which scores are anomalies, and how serious they are.

A rule reads a detector's scores of all monitored series, partition by partition, so that it can correct
for the number of series. The severity of an anomaly depends on the size of the deviation and on the part of
the table that it concerns.
"""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

from tidegauge.analyzers.core.errors import IllegalAnalyzerParameterError
from tidegauge.analyzers.core.metric import Scale
from tidegauge.analyzers.core.registry import Description, Registry
from tidegauge.repository.detectors.base import Scores
from tidegauge.repository.numerics.arrays import MAX_SCORE
from tidegauge.repository.numerics.counts import SMALL_COUNT_MEAN
from tidegauge.repository.numerics.tails import DRIFT_TESTS_A_DAY, jointly_significant
from tidegauge.repository.store.rows import Severity

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidegauge.repository.numerics.arrays import Floats

    Flags = NDArray[np.bool_]


@dataclass(frozen=True, repr=False)
class DecisionRule(Description):
    """Base class of decision rules, which decide on all points of many series at once.

    Class attributes
    ----------------
    weighted : bool
        Whether p-values are divided by the weights of their deviations, see `Monitor.decide`.
    """

    weighted: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_parameters()

    @abstractmethod
    def decide(self, values: Floats, scores: Scores, previous_sides: Floats | None = None) -> Flags:
        """Return a mask of the anomalies.

        Parameters
        ----------
        values : array of float, shape (series, partitions)
        scores : Scores
        previous_sides : array of float, shape (series,), optional
            State in the partition before the first: 1 for series that were an anomaly and too high,
            -1 for too low, 0 for all others.
        """


RULES: Registry[DecisionRule] = Registry("rule")

R = TypeVar("R", bound="type[DecisionRule]")


def rule(cls: R) -> R:
    """Class decorator: make a frozen dataclass and register it as a rule under its name."""
    dataclass(frozen=True, repr=False)(cls)  # changes the class in place
    return RULES.add(cls)


ONGOING_TESTS = 4
"""A series that was an anomaly in the previous partition counts as this many tests."""
MAX_JOINT_SERIES = 10
"""The level of the joint test does not grow beyond this many series."""


@rule
class OutsideBand(DecisionRule):
    """Rule that flags values outside their band, as in Deequ.

    Examples
    --------
    >>> RULES.parse("OutsideBand()")
    OutsideBand()
    """

    def decide(self, values: Floats, scores: Scores, previous_sides: Floats | None = None) -> Flags:
        """Flag values outside the bounds; a missing bound allows everything."""
        with np.errstate(invalid="ignore"):
            return (values < scores.lower) | (values > scores.upper)


@rule
class Threshold(DecisionRule):
    """Rule that flags scores at or above a threshold, regardless of the number of series.

    Parameters
    ----------
    score : float
        Threshold on -log10 of the p-value: 3 is one in a thousand.

    Examples
    --------
    >>> scores = Scores.unscored((1, 2))
    >>> scores.score[0] = [2.9, 3.1]
    >>> Threshold(3).decide(scores.score, scores).tolist()
    [[False, True]]
    """

    score: float = 3.5

    def check_parameters(self) -> None:
        """Validate that the threshold is not negative."""
        if not self.score >= 0:
            msg = f"{self!r}: score is -log10 of a p-value, so at least 0"
            raise IllegalAnalyzerParameterError(msg)

    def decide(self, values: Floats, scores: Scores, previous_sides: Floats | None = None) -> Flags:
        """Flag scores at or above the threshold."""
        with np.errstate(invalid="ignore"):
            return scores.score >= self.score


@rule
class PValue(DecisionRule):
    """Rule that flags p-values at or below a level, regardless of the number of series.

    Parameters
    ----------
    p : float
        Significance level, above 0 and at most 1: the accepted share of false alarms among normal
        points.

    Examples
    --------
    >>> scores = Scores.unscored((1, 2))
    >>> scores.score[0] = [1.0, 2.5]
    >>> PValue(0.01).decide(scores.score, scores).tolist()
    [[False, True]]
    """

    p: float = 0.001

    def check_parameters(self) -> None:
        """Validate that `p` is above 0 and at most 1."""
        if not 0 < self.p <= 1:
            msg = f"{self!r}: p must be a probability above 0 and at most 1"
            raise IllegalAnalyzerParameterError(msg)

    def decide(self, values: Floats, scores: Scores, previous_sides: Floats | None = None) -> Flags:
        """Flag p-values at or below the significance level."""
        with np.errstate(invalid="ignore"):
            flags: Flags = scores.score >= -np.log10(self.p)
        return flags


NORMAL_RATE, NORMAL_TESTS = 0.1, 450
"""The default rate of false discoveries, and the number of tests that it assumes for a partition at least.

With 225 tests, .02 to .05 more faults of daily tables of `benchmarks/field_tables.py` are found, and .01 more of those of
`benchmarks/histories.py`, but false anomalies of the latter rise by half.
"""


@rule
class FalseDiscoveryRate(DecisionRule):
    """Rule that controls the false discovery rate over all series (Benjamini, Hochberg 1995).

    It decides on each partition in two steps (Benjamini and Bogomolov 2014). First the partition is tested as
    a whole, as if at least ``least`` series were monitored. Without this minimum, few series would have an
    anomaly on one normal day in ten. The partition is also rejected if its three largest deviations together
    are significant, given how these series were related before: see `jointly_significant`.

    If the partition is rejected, its series are tested only among themselves: a series that moved with
    others needs less evidence. Series with an anomaly to the same side in the previous partition are also
    tested separately, at a quarter of the rate: a continuing anomaly needs less evidence than a new one.

    If a monitor sets no severity, hypotheses are weighted (Genovese, Roeder, Wasserman 2006). P-values of
    deviations that would be an error are halved. P-values of deviations that would be information are
    multiplied by four. P-values of a number, such as a mean, that deviates alone are multiplied by twenty. A
    number deviates alone if the monitor has more than five other series, none with a p-value of 0.01. The
    weights depend on the deviation, so the rate holds for small and large deviations together. For errors
    alone it is at most twice as high.

    Several partitions of a day are tested together, see `day_weights`. So a table has about as many false
    anomalies in a month whether its partitions are days, hours or quarters of an hour.

    Parameters
    ----------
    rate : float
        Expected share of false anomalies.
    least : int
        Minimum number of tests assumed for a partition.

    Examples
    --------
    >>> scores = Scores.unscored((3, 1))
    >>> scores.score[:, 0] = [6, 1.7, 0.3]
    >>> FalseDiscoveryRate(0.1).decide(scores.score, scores).ravel().tolist()
    [True, True, False]
    """

    weighted: ClassVar[bool] = True

    rate: float = NORMAL_RATE
    least: int = NORMAL_TESTS

    def check_parameters(self) -> None:
        """Validate that the rate is between 0 and 1, and `least` at least 1."""
        if not 0 < self.rate < 1 or self.least < 1:
            msg = f"{self!r}: rate must be between 0 and 1, and least at least 1"
            raise IllegalAnalyzerParameterError(msg)

    def decide(
        self,
        values: Floats,
        scores: Scores,
        previous_sides: Floats | None = None,
        earlier_scores: Floats | None = None,
    ) -> Flags:
        """Flag the discoveries of each partition.

        Parameters
        ----------
        values, scores, previous_sides
            As for all rules.
        earlier_scores : array of float, shape (series, earlier + partitions), optional
            Scores of earlier partitions, followed by the scores of these partitions. They show which
            series deviate together. Without them the joint test is skipped.
        """
        is_known = ~np.isnan(scores.score)
        p = np.where(is_known, 10.0 ** -np.nan_to_num(scores.score), 1.0)
        with np.errstate(invalid="ignore"):
            side: Floats = np.sign(np.nan_to_num(values - scores.expected, posinf=1, neginf=-1))
        flags = np.zeros(p.shape, dtype=bool)
        last_sides = np.zeros(len(p)) if previous_sides is None else previous_sides
        is_candidate: NDArray[np.bool_] = np.any(p <= self.rate, axis=0)
        for t in range(p.shape[1]):
            if is_candidate[t]:
                p_values = p[is_known[:, t], t]
                tests = len(p_values)
                rejected = self._limit(p_values, max(tests, self.least)) > 0
                if not rejected and earlier_scores is not None:
                    now = earlier_scores.shape[1] - p.shape[1] + t
                    level = self.rate * min(tests, MAX_JOINT_SERIES) / max(tests, self.least)
                    # Use unweighted scores: weights of errors would multiply three times.
                    score = np.fmin(scores.score[:, t], earlier_scores[:, now])
                    rejected = jointly_significant(score, earlier_scores[:, :now], level)
                if rejected:
                    flags[:, t] = np.less_equal(p[:, t], self._limit(p_values, tests))
                continuing = np.flatnonzero(is_known[:, t] & (last_sides * side[:, t] > 0))
                limit = self._limit(p[continuing, t], ONGOING_TESTS * len(continuing))
                flags[continuing, t] |= p[continuing, t] <= limit
                flags[:, t] &= is_known[:, t]
            last_sides = np.where(flags[:, t], side[:, t], 0)
        return flags

    def _limit(self, p: Floats, tests: int) -> float:
        """Return the Benjamini-Hochberg threshold: the largest p-value discovered; 0 if none is."""
        ordered = np.sort(p)
        accepted = np.flatnonzero(ordered <= self.rate * np.arange(1, len(p) + 1) / max(tests, 1))
        return float(ordered[accepted[-1]]) if accepted.size else 0.0


EXTREME_ANALYZERS = frozenset(
    {"Maximum", "MaxLength", "MaxTime", "Minimum", "MinLength", "MinTime"}
)
"""Metrics that a single row can move."""
VALUE_COUNT_ANALYZERS = frozenset(
    {"CountDistinct", "ApproxCountDistinct", "ColumnCount", "Recorded"}
)
"""Metrics that count values or columns, not rows. Recorded metrics can be either."""
SHARE_STEPS = (0.01, 0.1)
"""Shares: minimum deviations of a warning and an error."""
COUNT_STEPS = (0.1, 0.5)
"""Counts: minimum relative deviations of a warning and an error."""
NUMBER_WARNING_STEP = 0.5
"""Other numbers: minimum deviation of a warning, relative to the smaller of value and expected value."""
ERROR_FACTOR = 10.0
"""Other numbers: factor of an error, as caused by wrong units or a shifted decimal point."""
MIN_ABSENT_ROWS, MIN_ABSENT_SHARE = 10.0, 0.01
"""A part of the table without rows is absent if at least this many rows, or this share, were expected."""
SEVERITY_WEIGHTS = np.array([0.25, 1.0, 2.0])
"""Weights of evidence for deviations of severity information, warning and error."""
LONE_NUMBER_WEIGHT, MIN_OTHER_METRICS, MIN_OTHER_SCORE = 0.05, 5, 2.0
"""Weight of a number that deviates alone: none of at least 5 other metrics has a score of 2."""

LASTING_SCORE_FACTOR = 1.5
"""Two consecutive departures are more evidence than one, but less than twice as much: errors of forecasts last.
With 1.5, clean hourly and 15-minute tables of ``benchmarks/field_tables.py`` have no more false incidents than without
this rule, and drifts of hourly tables are found twice as often."""


def severity_steps(
    series: Sequence[Mapping[str, Any]], values: Floats, expected: Floats
) -> NDArray[np.int8]:
    """Return the severities of deviations, as indices in `Severity`, if a monitor sets no severity.

    Shares: an error from a deviation of 10% of the rows, a warning from 1%. Counts: an error from half of
    the expected number, a warning from a tenth. Other numbers: a warning if the larger of value and
    expected value is at least 1.5 times the smaller, and an error if it is at least ten times the smaller.
    Smaller changes are information, and so are extremes, which a single row can move.

    Fewer missing values than usual are information. Counts below thirty are at most a warning. Deviations of a part of the table, by a filter, segment or
    value, are one step less severe. But a part without rows is an error if at least ten rows, or 1% of all
    rows, were expected.

    Parameters
    ----------
    series : sequence of mapping
        A row for each series, with ``scale``, ``kind``, ``filter`` and ``segment``.
    values, expected : array of float, shape (series, partitions)
        The deviation of a value that is not finite is infinite. If the expected value is unknown (NaN), the
        deviation is a warning.

    Examples
    --------
    >>> rows = {"scale": "count", "kind": "Size", "filter": "", "segment": ""}
    >>> severity_steps([rows], np.array([[400, 800]]), np.array([[1000, 1000]])).tolist()
    [[2, 1]]
    >>> newark = rows | {"filter": "origin = 'EWR'"}
    >>> severity_steps([newark], np.array([[400]]), np.array([[1000]])).tolist()
    [[1]]
    """
    limits = np.array([_limits(row) for row in series], dtype=float).reshape(-1, 3, 1)
    warning, error, gravest = limits[:, 0], limits[:, 1], limits[:, 2]
    scales = [Scale(row["scale"]) for row in series]
    is_share, is_count = (
        np.array([scale is tested_scale for scale in scales], dtype=bool)[:, None]
        for tested_scale in (Scale.RATIO, Scale.COUNT)
    )
    is_part = [
        bool(row["filter"] or row["segment"] or row["kind"] == "Histogram") for row in series
    ]
    with np.errstate(all="ignore"):
        departure = np.abs(values - expected)
        # Half and double deviate equally far, except for counts, which cannot lose more than all.
        smaller = np.minimum(np.abs(values), np.abs(expected))
        reference = np.where(is_count, np.abs(expected), smaller)
        relative = np.where(reference == 0, np.inf, departure / reference)
        size = np.where(is_share, departure, relative)
        steps = (~(size < warning)).astype(np.int8) + ~(size < error)
        is_small_count = is_count & (np.maximum(values, expected) < SMALL_COUNT_MEAN)
        larger = np.maximum(np.abs(values), np.abs(expected))
        is_tenfold = np.isfinite(values) & (expected != 0) & (larger >= ERROR_FACTOR * smaller)
    is_number = np.array(list(map(_is_number, series)), dtype=bool)[:, None]
    steps = np.where(
        is_number & is_tenfold, 2, np.minimum(steps, np.where(is_small_count, 1, gravest))
    )
    steps = np.where(np.isfinite(expected), steps, 1)
    # Fewer missing values than usual are no damage.
    counts_values_present = ["Completeness" in {row["kind"], row.get("name")} for row in series]
    is_better = np.array(counts_values_present, dtype=bool)[:, None] & (values > expected)
    steps = np.where(is_better, 0, steps)
    reached = np.maximum(steps - np.array(is_part, dtype=np.int8).reshape(-1, 1), 0)
    counts_rows = np.array(is_part, dtype=bool) & np.array(
        list(map(_counts_rows, series)), dtype=bool
    )
    min_expected = np.where(is_share, MIN_ABSENT_SHARE, MIN_ABSENT_ROWS)
    reached = np.where(
        counts_rows[:, None] & (values == 0) & (expected >= min_expected), 2, reached
    )
    severities: NDArray[np.int8] = reached.astype(np.int8)
    return severities


def weights_of(
    series: Sequence[Mapping[str, Any]], steps: NDArray[np.int8], score: Floats
) -> Floats:
    """Return the weights of deviations in the decision, by their severity and whether others deviate.

    Means and other numbers have heavy tails. If a number deviates alone in its table, this is usually chance.

    Parameters
    ----------
    series : sequence of mapping
        A row for each series.
    steps : array of int, shape (series, partitions)
        As `severity_steps` returns them.
    score : array of float, shape (series, partitions)
        NaN is unknown.
    """
    is_positive_number = np.array(
        [Scale(row["scale"]) is Scale.POSITIVE for row in series], dtype=bool
    )
    is_known, departs = ~np.isnan(score), np.nan_to_num(score) >= MIN_OTHER_SCORE
    others_quiet = departs.sum(axis=0) - departs == 0
    departs_alone = (
        is_positive_number[:, None] & others_quiet & (is_known.sum(axis=0) > MIN_OTHER_METRICS)
    )
    weights: Floats = np.where(
        departs_alone,
        np.minimum(LONE_NUMBER_WEIGHT, SEVERITY_WEIGHTS[steps]),
        SEVERITY_WEIGHTS[steps],
    )
    return weights


def day_weights(
    score: Floats,
    sides: Floats,
    steps: NDArray[np.int8],
    partitions_a_day: int,
    is_drift: NDArray[np.bool_] | None = None,
) -> Floats:
    """Return the weights that make a table of hours as quiet as a table of days.

    Each partition is tested, so a day of hours has 24 times as many tests. P-values are multiplied by the
    number of partitions in a day; the p-values of errors, which chance rarely causes, by its square root.
    If a departure lasts, the lower score of two consecutive partitions counts one and a half times. Drifts are looked for
    only `DRIFT_TESTS_A_DAY` times a day.

    Parameters
    ----------
    score : array of float, shape (series, partitions)
        NaN is unknown.
    sides : array of float, shape (series, partitions)
        1 for values above the expected value, -1 for values below it.
    steps : array of int, shape (series, partitions)
        As `severity_steps` returns them.
    partitions_a_day : int
    is_drift : array of bool, shape (series, partitions), optional
        Scores of drifts.

    Examples
    --------
    >>> score, sides, steps = np.array([[4.0, 4.0]]), np.ones((1, 2)), np.array([[1, 1]])
    >>> weights = day_weights(score, sides, steps, 100)
    >>> (score + np.log10(weights)).round(2).tolist()
    [[2.0, 4.0]]
    """
    known_score = np.nan_to_num(score)
    lasting = np.zeros_like(known_score)
    lasting[:, 1:] = LASTING_SCORE_FACTOR * np.where(
        sides[:, 1:] == sides[:, :-1], np.minimum(known_score[:, 1:], known_score[:, :-1]), 0.0
    )
    tests = np.full(known_score.shape, partitions_a_day)
    if is_drift is not None:
        tests[is_drift] = min(partitions_a_day, DRIFT_TESTS_A_DAY)
    share = np.where(steps == len(Severity) - 1, 0.5, 1.0)
    evidence = np.maximum(known_score, lasting) - share * np.log10(tests)
    weights: Floats = 10.0 ** np.minimum(evidence - known_score, MAX_SCORE)
    return weights


DISTINCT_COUNT_ANALYZERS = frozenset({"CountDistinct", "ApproxCountDistinct"})
DOUBLE_LOAD_TOLERANCE = 0.25
"""The rows of each distinct value double within this binary logarithm: 1.68 to 2.38 times. If twice as many new rows
arrive, they have at least 20 % more distinct values, and so at most 1.67 times the rows of each."""
UNCHANGED_TOLERANCE = 0.35
"""A distinct count is unchanged within this binary logarithm: the partition may have had fewer rows by a fifth."""
MIN_DOUBLE_LOAD_CHANGE = 0.5
"""The rows must be 1.41 times the expected rows at least, as a binary logarithm."""
MIN_DISTINCT_SHARE = 0.5
"""A count tells double rows from new rows if at least this share of the rows are distinct values. Twice as many
random rows would then have at least 20 % more distinct values."""
MIN_DOUBLE_LOAD_ROWS = 100.0
"""Of 100 rows, chance changes the binary logarithm by .14, about half of the tolerances. Thirteen rows double by chance."""
DOUBLE_LOAD_WEIGHT = 100.0
"""Rows double without new values much more often by a double load than by chance."""


def double_loads(
    series: Sequence[Mapping[str, Any]], values: Floats, expected: Floats
) -> dict[tuple[int, int], str]:
    """Return the partitions that were probably loaded twice: twice the rows, and no more distinct values.

    Fewer than a hundred expected rows, such as those of an hour at night, double by chance.

    Parameters
    ----------
    series : sequence of mapping
        A row for each series.
    values, expected : array of float, shape (series, partitions)

    Returns
    -------
    dict of (int, int) to str
        The column whose distinct count is unchanged, by the index of the row count and of the partition.

    Examples
    --------
    >>> size = {"kind": "Size", "name": "Size", "instance": "*", "filter": None, "segment": ""}
    >>> users = size | {"kind": "CountDistinct", "name": "CountDistinct", "instance": "user"}
    >>> double_loads([size, users], np.array([[1210.0], [443.0]]), np.array([[605.0], [446.0]]))
    {(0, 0): 'user'}
    >>> double_loads([size, users], np.array([[26.0], [9.0]]), np.array([[13.0], [8.0]]))
    {}
    """
    kinds = [{row["kind"], row.get("name")} for row in series]
    parts = [(row["filter"] or "", row["segment"]) for row in series]
    with np.errstate(all="ignore"):
        change = np.log2(np.where((values > 0) & (expected > 0), values / expected, np.nan))
    is_larger = change > MIN_DOUBLE_LOAD_CHANGE
    is_unchanged = np.abs(change) <= UNCHANGED_TOLERANCE
    row_counts = [i for i, kind in enumerate(kinds) if "Size" in kind and is_larger[i].any()]
    distinct_counts = [j for j, kind in enumerate(kinds) if kind & DISTINCT_COUNT_ANALYZERS]
    loads: dict[tuple[int, int], str] = {}
    for i, j in itertools.product(row_counts, distinct_counts):
        if parts[i] == parts[j]:
            shows = np.abs(change[i] - change[j] - 1) <= DOUBLE_LOAD_TOLERANCE
            shows &= is_larger[i] & is_unchanged[j]
            shows &= expected[j] >= MIN_DISTINCT_SHARE * expected[i]
            shows &= expected[i] >= MIN_DOUBLE_LOAD_ROWS
            for t in np.flatnonzero(shows).tolist():
                loads.setdefault((i, t), str(series[j]["instance"]))
    return loads


def _limits(series: Mapping[str, Any]) -> tuple[float, float, int]:
    """Return the minimum deviations of a warning and an error, and the maximum severity."""
    scale = Scale(series["scale"])
    if series["kind"] in EXTREME_ANALYZERS:
        return inf, inf, 0
    if scale is Scale.DISTANCE:
        return 0, inf, 1
    if scale is Scale.RATIO or scale is Scale.COUNT:
        return *(SHARE_STEPS if scale is Scale.RATIO else COUNT_STEPS), 2
    return NUMBER_WARNING_STEP, inf, 1


def _is_number(series: Mapping[str, Any]) -> bool:
    """Return whether a series has numbers such as means and sums, which single rows hardly move."""
    number = Scale(series["scale"]) in {Scale.POSITIVE, Scale.SIGNED}
    return number and series["kind"] not in EXTREME_ANALYZERS


def _counts_rows(series: Mapping[str, Any]) -> bool:
    """Return whether a series is the number or share of the rows of a part of the table."""
    name = str(series.get("name", series["kind"]))
    of_value = series["kind"] == "Histogram" and not counts_values("Histogram", name)
    return series["kind"] == "Size" or of_value


def counts_values(kind: str, name: str) -> bool:
    """Return whether a metric counts values, not rows. A change by one value can be an anomaly.

    Examples
    --------
    >>> counts_values("CountDistinct", "CountDistinct"), counts_values("Histogram", "Histogram.bins")
    (True, True)
    >>> counts_values("Size", "Size"), counts_values("Histogram", "Histogram.abs.AS")
    (False, False)
    """
    return kind in VALUE_COUNT_ANALYZERS or name.endswith(".bins")
