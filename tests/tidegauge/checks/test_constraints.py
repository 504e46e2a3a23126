"""Checks as pure functions of metrics: status and message of each constraint. Values worked out by hand. No Spark."""

import datetime as dt
import json
import re
from functools import partial
from math import inf, nan

import pytest

import tidegauge as tg
from tidegauge.analyzers.core.errors import MetricRuntimeError
from tidegauge.analyzers.core.evidence import EarlierValues, Judgement, Measurements, OnEmpty
from tidegauge.analyzers.core.schema import Schema
from tidegauge.analyzers.measures.counts import (
    ColumnCountState,
    ColumnMatches,
    ComplianceState,
    NumMatches,
    NumMatchesAndCount,
)
from tidegauge.analyzers.measures.extremes import FreshnessState, MinState, TimeRangeState
from tidegauge.analyzers.measures.frequencies import FrequenciesAndNumRows
from tidegauge.analyzers.measures.moments import StandardDeviationState
from tidegauge.analyzers.measures.texts import DataTypeState
from tidegauge.checks.assertions import ASSERTION_REGISTRY, FunctionAssertion, as_assertion
from tidegauge.checks.check import status_of
from tidegauge.checks.constraints import (
    ConstraintResult,
    ConstraintStatus,
    PartitionResult,
    resolve_no_data,
)
from tidegauge.display import hints

SUCCESS, FAILURE = ConstraintStatus.SUCCESS, ConstraintStatus.FAILURE
CHECK = tg.Check("c")


def evaluated(check, *found):
    """Evaluate a check on (analyzer, state or error) pairs."""
    metrics = {}
    for analyzer, state in found:
        failed = isinstance(state, Exception)
        make = analyzer.to_failure_metric if failed else analyzer.compute_metric_from
        metrics[analyzer] = make(state)
    return check.evaluate(Measurements(metrics))


def result_of(check, state):
    """Evaluate the only constraint of a check on the state of its analyzer."""
    (result,) = evaluated(check, (check.constraints[0].analyzer, state))
    return result


# assertions


@pytest.mark.parametrize(
    ("given", "text", "inside", "outside"),
    [
        (0.99, "at least 0.99", [0.99, 1, inf], [0.98999, nan, -inf]),
        (3, "at least 3", [3], [2]),
        ((None, 5), "at most 5", [5, -inf], [5.1, nan]),
        ((1, 3), "at least 1 and at most 3", [1, 3], [0.9, 3.1]),
        ([1, 1], "exactly 1", [1], [0, 2]),
        ((None, None), "any number", [0, inf, -inf], [nan]),
        (tg.Between(1, 3, "lower"), "at least 1 and less than 3", [1, 2.9], [3]),
        (tg.Between(1, 3, "upper"), "more than 1 and at most 3", [3], [1]),
        (tg.Between(lower=1, closed="neither"), "more than 1", [1.1, inf], [1]),
    ],
)
def test_assertions_accept_limits_ranges_and_values(given, text, inside, outside):
    expected = as_assertion(given)
    assert str(expected) == text
    assert all(map(expected.holds, inside))
    assert not any(map(expected.holds, outside))
    assert ASSERTION_REGISTRY.parse(repr(expected)) == expected


@pytest.mark.parametrize("given", [True, "0.9", None, (1, 2, 3), object()])
def test_an_invalid_assertion_is_refused(given):
    with pytest.raises(tg.SuiteError, match="an assertion is a function of the value"):
        as_assertion(given)


@pytest.mark.parametrize("bounds", [(3, 1), (nan, 1), (1, 1, "lower"), (0, 1, "all"), ("x", 1)])
def test_invalid_bounds_are_refused(bounds):
    with pytest.raises(tg.IllegalAnalyzerParameterError):
        tg.Between(*bounds)


def named(value):
    return value > 1


def test_a_function_assertion_is_described_by_its_expression_or_its_name():
    pair = (FunctionAssertion(lambda n: n > 600), FunctionAssertion(lambda n: n < 3))
    assert list(map(str, pair)) == ["n > 600", "n < 3"]
    assert str(FunctionAssertion(lambda größe: größe > 1)) == "größe > 1"
    assert str(FunctionAssertion(named)) == "named"
    assert (
        str(
            FunctionAssertion(
                lambda n: n > 1 and n < 2 and n != 1.5 and n != 1.25 and n != 1.125 and n
            )
        )
        == "a function"
    )
    assert str(FunctionAssertion(eval("lambda n: n > 1"))) == "a function"
    assert "functools.partial" in str(FunctionAssertion(partial(named)))
    limit = 5
    assert (
        str(FunctionAssertion(lambda n: all(n > x for x in range(limit))))
        == "all(n > x for x in range(limit))"
    )


# the builder


def test_a_check_is_built_step_by_step_and_is_immutable():
    first = tg.Check("flights", "warning").is_complete("a")
    second = first.has_size(lambda n: n > 600, hint="cut off")
    assert (len(first.constraints), len(second.constraints)) == (1, 2)
    assert second.constraints[1].hint == "cut off"
    assert second.analyzers == (tg.Completeness("a"), tg.Size())
    assert second.is_complete("a", at_least=0.5).analyzers == second.analyzers
    assert tg.Suite("flights", second.analyzers).analyzers == second.analyzers
    assert repr(second) == "Check('flights', 'warning') of 2 constraints"
    assert "n &gt; 600" in second._repr_html_()


def test_where_filters_the_preceding_constraint():
    check = CHECK.is_complete("a").has_min("b", 0).where("b IS NOT NULL")
    assert check.analyzers == (tg.Completeness("a"), tg.Minimum("b", where="b IS NOT NULL"))
    with pytest.raises(tg.SuiteError, match="add a constraint first"):
        CHECK.where("a")
    with pytest.raises(tg.SuiteError, match="already has a filter"):
        check.where("b > 1")


@pytest.mark.parametrize(
    "make",
    [
        lambda: tg.Check(" "),
        lambda: tg.Check("a", "grave"),
        lambda: CHECK.has("Sise", 1),
        lambda: CHECK.has("x", 1),
        lambda: CHECK.has(3, 1),
        lambda: CHECK.is_complete("a", at_least=1.5),
        lambda: CHECK.is_complete("a", at_least=-0.1),
        lambda: CHECK.are_complete([]),
        lambda: CHECK.has_data_type("a", "Number"),
        lambda: CHECK.is_contained_in("a"),
        lambda: CHECK.is_contained_in("a", "abc"),
        lambda: CHECK.is_contained_in("a", ["x"], lower=1),
        lambda: CHECK.is_contained_in("a", [None]),
        lambda: CHECK.is_contained_in("a", lower=1, closed="some"),
        lambda: CHECK.is_contained_in("a", lower=5, upper=1),
        lambda: CHECK.is_contained_in("a", lower=5, upper="x"),
        lambda: CHECK.not_below(tg.Size(), "7 days"),
        lambda: CHECK.not_below(tg.Size(), "7d", by=-1),
        lambda: CHECK.compared(tg.Size(), "7d", 1, "quotient"),
        lambda: CHECK.is_usual(tg.Size(), missing="maybe"),
        lambda: CHECK.has_values("x", []),
        lambda: CHECK.has_values("x", "new"),
        lambda: CHECK.has_values("x", [None]),
        lambda: CHECK.has_values("x", [[1]]),
        lambda: CHECK.has_values("x", 3),
        lambda: CHECK.has_values("x", range(1001)),
    ],
)
def test_builder_mistakes_raise_immediately(make):
    with pytest.raises(tg.SuiteError):
        make()


# Every method, and its analyzer.


@pytest.mark.parametrize(
    ("check", "analyzer", "expected"),
    [
        (CHECK.has_size(3), tg.Size(), "at least 3"),
        (CHECK.has_column_count((3, 3)), tg.ColumnCount(), "exactly 3"),
        (CHECK.has_column("a"), tg.ColumnExists("a"), "exactly 1"),
        (CHECK.is_complete("a"), tg.Completeness("a"), "at least 1"),
        (
            CHECK.has_completeness("a", (0.2, 0.8)),
            tg.Completeness("a"),
            "at least 0.2 and at most 0.8",
        ),
        (CHECK.is_unique("a", 0.9), tg.Uniqueness("a"), "at least 0.9"),
        (CHECK.are_unique(["a", "b"]), tg.Uniqueness(["a", "b"]), "at least 1"),
        (CHECK.is_primary_key(["a", "b"]), tg.Uniqueness(["a", "b"]), "at least 1"),
        (CHECK.has_uniqueness("a", (None, 0.1)), tg.Uniqueness("a"), "at most 0.1"),
        (CHECK.has_distinctness(["a", "b"], 0.5), tg.Distinctness(["a", "b"]), "at least 0.5"),
        (CHECK.has_unique_value_ratio("a", 0.5), tg.UniqueValueRatio("a"), "at least 0.5"),
        (CHECK.has_number_of_distinct_values("a", 3), tg.Histogram("a"), "at least 3"),
        (CHECK.has_zeros_count("a", (None, 0)), tg.ZerosCount("a"), "at most 0"),
        (CHECK.has_duplicate_row_count((None, 0)), tg.DuplicateRowCount(), "at most 0"),
        (CHECK.has_duplicate_row_count((None, 0), "a"), tg.DuplicateRowCount("a"), "at most 0"),
        (CHECK.has_entropy("a", 0.1), tg.Entropy("a"), "at least 0.1"),
        (
            CHECK.has_mutual_information("a", "b", 0.1),
            tg.MutualInformation(["a", "b"]),
            "at least 0.1",
        ),
        (CHECK.has_correlation("a", "b", 0.1), tg.Correlation("a", "b"), "at least 0.1"),
        (CHECK.has_approx_quantile("a", 0.5, 1), tg.ApproxQuantile("a", 0.5), "at least 1"),
        (CHECK.has_exact_quantile("a", 0.5, 1), tg.ExactQuantile("a", 0.5), "at least 1"),
        (CHECK.has_approx_count_distinct("a", 1), tg.ApproxCountDistinct("a"), "at least 1"),
        (CHECK.has_min("a", 1), tg.Minimum("a"), "at least 1"),
        (CHECK.has_max("a", 1), tg.Maximum("a"), "at least 1"),
        (CHECK.has_range("a", 1), tg.Range("a"), "at least 1"),
        (CHECK.has_interquartile_range("a", 1), tg.InterquartileRange("a"), "at least 1"),
        (CHECK.has_mean("a", 1), tg.Mean("a"), "at least 1"),
        (CHECK.has_sum("a", 1), tg.Sum("a"), "at least 1"),
        (CHECK.has_standard_deviation("a", 1), tg.StandardDeviation("a"), "at least 1"),
        (CHECK.has_variance("a", 1), tg.Variance("a"), "at least 1"),
        (CHECK.has_skewness("a", 1), tg.Skewness("a"), "at least 1"),
        (CHECK.has_kurtosis("a", 1), tg.Kurtosis("a"), "at least 1"),
        (CHECK.has_min_length("a", 1), tg.MinLength("a"), "at least 1"),
        (CHECK.has_max_length("a", 1), tg.MaxLength("a"), "at least 1"),
        (CHECK.has_pattern("a", "^x", 0.5), tg.PatternMatch("a", "^x"), "at least 0.5"),
        (CHECK.contains_email("a"), tg.PatternMatch("a", "EMAIL"), "at least 1"),
        (CHECK.contains_url("a"), tg.PatternMatch("a", "URL"), "at least 1"),
        (CHECK.contains_credit_card_number("a"), tg.PatternMatch("a", "CREDITCARD"), "at least 1"),
        (
            CHECK.contains_social_security_number("a"),
            tg.PatternMatch("a", "SOCIAL_SECURITY_NUMBER_US"),
            "at least 1",
        ),
        (CHECK.has_data_type("a", "Integral", 0.9), tg.DataType("a"), "at least 0.9"),
        (CHECK.has("Mean('a')", 1), tg.Mean("a"), "at least 1"),
    ],
    ids=lambda x: repr(x) if isinstance(x, tg.Analyzer) else "",
)
def test_each_method_adds_its_analyzer_and_assertion(check, analyzer, expected):
    (constraint,) = check.constraints
    assert constraint.analyzer == analyzer
    assert str(constraint.assertion) == expected
    assert str(constraint.assertion) in constraint.description


@pytest.mark.parametrize(
    ("check", "name", "predicate"),
    [
        (CHECK.are_complete(["a", "b`"]), "a and b` are complete", "`a` IS NOT NULL AND `b``` IS NOT NULL"),
        (CHECK.are_any_complete(["a", "b"]), "any of a, b is complete", "`a` IS NOT NULL OR `b` IS NOT NULL"),
        (CHECK.is_non_negative("a.b"), "a.b is not negative", "coalesce(`a`.`b`, 0) >= 0"),
        (CHECK.is_positive("a"), "a is positive", "coalesce(`a`, 1) > 0"),
        (CHECK.is_less_than("a", "b"), "a < b", "`a` < `b`"),
        (CHECK.is_less_than_or_equal_to("a", "b"), "a <= b", "`a` <= `b`"),
        (CHECK.is_greater_than("a", "b"), "a > b", "`a` > `b`"),
        (CHECK.is_greater_than_or_equal_to("a", "b"), "a >= b", "`a` >= `b`"),
        (CHECK.is_contained_in("a", ["x'", 2]), "a is one of x', 2", r"`a` IS NULL OR `a` IN ('x\'', 2)"),
        (CHECK.is_contained_in("a", lower=1, upper=9), "a >= 1 and <= 9", "`a` IS NULL OR (`a` >= 1 AND `a` <= 9)"),
        (CHECK.is_contained_in("a", upper=9, closed="lower"), "a < 9", "`a` IS NULL OR (`a` < 9)"),
        (CHECK.is_contained_in("a", []), "a is one of", "`a` IS NULL OR false"),
        (CHECK.satisfies("a + b = c", "adds up"), "adds up", "a + b = c"),
    ],
)  # fmt: skip
def test_rule_methods_quote_names_and_values_in_conditions(check, name, predicate):
    assert check.analyzers == (tg.Compliance(name, predicate),)
    assert check.constraints[0].description == f"{name}: at least 1"


# statuses and messages


@pytest.mark.parametrize(
    ("complete", "status", "of_check"),
    [(80, "failure", "error"), (92, "warning", "warning"), (99, "success", "success")],
)
def test_a_constraint_has_a_failure_limit_and_a_warning_limit(complete, status, of_check):
    check = CHECK.is_complete("x", at_least=0.9, hint="Ask the shop.").warn(0.95)
    result = result_of(check, NumMatchesAndCount(complete, 100))
    assert (result.status, result.passed) == (status, status == "success")
    assert status_of("error", [result]) == of_check
    if status == "warning":
        assert (
            result.message
            == "x is 92% complete, at least 95% required: 8 of 100 rows. Ask the shop."
        )
    assert result.constraint == check.constraints[0]


def test_warn_needs_a_preceding_constraint_on_a_metric():
    for check in (CHECK, CHECK.not_below(tg.Size())):
        with pytest.raises(tg.SuiteError, match="warn"):
            check.warn(0.9)


def test_messages_contain_the_value_the_limit_and_the_hint():
    result = result_of(
        CHECK.has_size(lambda n: n > 600, hint="The feed was cut off."), NumMatches(512)
    )
    assert (result.status, result.value) == (FAILURE, 512)
    assert result.message == (
        "row count is 512, which does not satisfy n > 600. The feed was cut off."
    )
    result = result_of(CHECK.is_complete("x", at_least=0.99), NumMatchesAndCount(95, 100))
    assert result.message == "x is 95% complete, at least 99% required: 5 of 100 rows"
    assert result_of(CHECK.is_complete("x"), NumMatchesAndCount(9_999_999, 10_000_000)).message == (
        "x is 99.99999% complete, at least 100% required: 1 of 10,000,000 rows"
    )
    assert result_of(
        CHECK.is_complete("x", at_least=0.95), NumMatchesAndCount(458, 930)
    ).message == ("x is 49.2% complete, at least 95% required: 472 of 930 rows")
    atmost = CHECK.has(tg.Completeness("x"), (None, 0.5))
    assert (
        result_of(atmost, NumMatchesAndCount(3, 4)).message
        == "x is 75% complete, at most 50% required"
    )
    good = result_of(CHECK.is_complete("x"), NumMatchesAndCount(3, 3))
    assert (good.status, good.message, good.passed) == (SUCCESS, "", True)


def test_errors_and_missing_metrics_fail_the_constraint():
    raised = result_of(CHECK.has_size(lambda n: 1 / 0 > n), NumMatches(3))  # noqa: SIM300
    assert raised.status == FAILURE
    assert raised.message == (
        "Size(): the assertion (1 / 0 > n) raised ZeroDivisionError: division by zero"
    )
    (failed,) = evaluated(CHECK.has_mean("x", 1), (tg.Mean("x"), MetricRuntimeError("no luck")))
    assert failed.message == "Mean('x') has no value: no luck"
    (lacking,) = evaluated(CHECK.has_mean("x", 1))
    assert lacking.message == "Mean('x') was not measured; add Mean('x') to the suite"
    assert lacking.metric is None
    (typo,) = CHECK.is_complete("dep_tme").evaluate(
        Measurements({tg.Completeness("dep_time"): None})
    )
    assert typo.message == (
        "Completeness('dep_tme') was not measured; add Completeness('dep_tme') to the suite,"
        " or did you mean 'dep_time'?"
    )
    # A sibling is not suggested as a correction.
    (other,) = CHECK.is_complete("arr_time").evaluate(
        Measurements({tg.Completeness("dep_time"): None})
    )
    assert other.message.endswith("; add Completeness('arr_time') to the suite")
    state = FrequenciesAndNumRows.from_groups([(("a",), 1)])
    several = result_of(CHECK.has(tg.Histogram("x"), 3), state)
    assert several.status == FAILURE
    assert "raised TypeError" in several.message
    assert result_of(CHECK.has_mean("x", (None, None)), None).status == ConstraintStatus.NO_DATA


NO_DATA = ConstraintStatus.NO_DATA


def test_metrics_without_rows_have_no_data_except_size():
    """Without rows, Size is 0 and can pass or fail. Other metrics have no data, with and without a filter."""
    assert result_of(CHECK.has_size((0, 0)), NumMatches(0)).status == SUCCESS
    assert result_of(CHECK.has_size((0, 0)).where("y > 1"), NumMatches(0)).status == SUCCESS
    assert result_of(CHECK.has_size(1).where("y > 1"), NumMatches(0)).status == FAILURE
    empty = result_of(CHECK.is_complete("x", hint="Ask."), NumMatchesAndCount(0, 0))
    assert (empty.status, empty.value, empty.passed) == (NO_DATA, None, False)
    assert empty.message.startswith("Completeness('x') has no value: ")
    assert empty.message.endswith(". Ask.")
    assert empty.text == f"no data: {empty.message}"
    filtered = result_of(CHECK.is_complete("x").where("y > 1"), NumMatchesAndCount(0, 0))
    assert (filtered.status, filtered.passed) == (NO_DATA, False)
    assert filtered.text == "no data: no row with a value where y > 1"
    assert result_of(CHECK.has_min("x", 0).where("y > 1"), MinState()).status == NO_DATA
    assert (
        result_of(CHECK.has_standard_deviation("x", 0), StandardDeviationState()).status == NO_DATA
    )
    # A condition that is null on every row was tested on no row.
    assert result_of(CHECK.satisfies("x > 1", "r"), ComplianceState(0, 0, 3)).status == NO_DATA


def test_an_upper_limit_on_a_count_of_no_values_has_no_data():
    """A count of no values is 0. An upper limit then passes without any row; a lower limit fails."""
    none = FrequenciesAndNumRows.from_groups([])
    assert result_of(CHECK.has("CountDistinct('x')", (None, 5)), none).status == NO_DATA
    assert result_of(CHECK.has("CountDistinct('x')", 1), none).status == FAILURE
    assert result_of(CHECK.has_number_of_distinct_values("x", (None, 5)), none).status == NO_DATA
    # The columns of an empty table are known.
    assert result_of(CHECK.has_column_count(3), ColumnCountState(3, 0)).status == SUCCESS


def results_of(check, *statuses):
    """Return results of the check's only constraint in partitions with these statuses."""
    (constraint,) = check.constraints
    return [
        PartitionResult(0, 0, "d", f"ds={n}", None, "", ConstraintResult(constraint, status))
        for n, status in enumerate(statuses)
    ]


FILTERED = CHECK.is_complete("x").where("y > 1")


@pytest.mark.parametrize(
    ("check", "on_empty", "statuses", "expected"),
    [
        # A filter that matches no row in any partition is assumed to be wrong.
        (FILTERED, None, [NO_DATA], ["fail"]),
        (FILTERED, None, [NO_DATA, NO_DATA], ["fail", "fail"]),
        # A filter that matches rows in another partition is right, whether these rows pass or fail.
        (FILTERED, None, [NO_DATA, SUCCESS], ["warn", ""]),
        (FILTERED, None, [FAILURE, NO_DATA], ["", "warn"]),
        # Without a filter, the partition is empty.
        (CHECK.is_complete("x"), None, [NO_DATA, SUCCESS], ["fail", ""]),
        (FILTERED, "fail", [NO_DATA, SUCCESS], ["fail", ""]),
        (FILTERED, "pass", [NO_DATA, NO_DATA], ["pass", "pass"]),
        (CHECK.is_complete("x"), "warn", [NO_DATA], ["warn"]),
        # The constraint's own choice takes precedence.
        (FILTERED.on_empty("pass"), "fail", [NO_DATA], ["pass"]),
        (FILTERED.on_empty("fail"), "pass", [NO_DATA, SUCCESS], ["fail", ""]),
    ],
)
def test_no_data_fails_warns_or_passes_by_the_choice_of_on_empty(
    check, on_empty, statuses, expected
):
    results = results_of(check, *statuses)
    choice = None if on_empty is None else OnEmpty(on_empty)
    actual = [one.result for one in resolve_no_data(results, choice)]
    assert [str(one.on_empty) if one.status == NO_DATA else "" for one in actual] == expected
    for one, effect in zip(actual, expected, strict=True):
        if effect:
            assert (one.failed, one.warned, one.passed) == (
                effect == "fail",
                effect == "warn",
                effect == "pass",
            )
    allowed = [one.result for one in resolve_no_data(results, choice, allow_empty=True)]
    assert all(one.passed for one in allowed if one.status == NO_DATA)


def test_on_empty_needs_a_constraint_and_a_known_choice():
    with pytest.raises(tg.SuiteError, match="add a constraint first"):
        CHECK.on_empty("pass")
    with pytest.raises(tg.SuiteError, match="unknown on_empty 'wran'; did you mean 'warn'"):
        FILTERED.on_empty("wran")
    # The constraint stays the same: stored verdicts are looked up by its identity.
    (constraint,), (same,) = FILTERED.constraints, FILTERED.on_empty("pass").constraints
    assert constraint.identity == same.identity


def test_constraints_judge_published_example_data():
    att1 = FrequenciesAndNumRows.from_groups([(("a",), 2), (("b",), 2), (("c",), 1)], num_nulls=1)
    assert result_of(CHECK.has_number_of_distinct_values("att1", (4, 4)), att1).value == 4
    assert result_of(CHECK.has("CountDistinct('att1')", (3, 3)), att1).passed
    share = result_of(CHECK.has_histogram_values("att1", lambda d: d["a"].absolute == 2), att1)
    assert (share.status, share.value) == (SUCCESS, None)
    assert result_of(CHECK.has_values("att1", ["b", "a"]), att1).passed
    actual = result_of(CHECK.has_values("att1", ["d", "a", "e"]), att1)
    assert actual.constraint.description == "absent of d, a, e in att1: exactly 0"
    assert actual.message == "att1: no row has 'd', 'e'"
    kinds = DataTypeState(unknown=1, integral=5)
    assert result_of(CHECK.has_data_type("x", "Integral"), kinds).passed
    assert result_of(CHECK.has_data_type("x", "Unknown", 0.2), kinds).value == pytest.approx(1 / 6)
    mixed = DataTypeState(fractional=1, integral=1)
    assert result_of(CHECK.has_data_type("x", "Numeric"), mixed).passed
    actual = result_of(CHECK.has_data_type("x", "Fractional"), mixed)
    assert actual.value == 0.5
    assert (
        actual.message == "x is 50% Fractional, at least 100% required: 1 of 2 values: Integral 1"
    )
    assert not result_of(CHECK.has_data_type("x", "String", 0.1), DataTypeState(unknown=3)).passed


def test_messages_count_failed_lookups():
    check = CHECK.has(tg.ReferentialIntegrity("carrier", "airlines", "code"), 1)
    actual = result_of(check, NumMatchesAndCount(9_997, 10_000))
    assert actual.message == (
        "ReferentialIntegrity of carrier is 99.97%, at least 100% required: 3 of 10,000 rows"
    )


# comparisons with earlier partitions

DAYS = [dt.datetime(2013, 2, day, tzinfo=dt.UTC) for day in range(1, 11)]


class Past:
    """One metric now, and its earlier values by day of February."""

    def __init__(self, now, then, day=8, judgement=None):
        self.now, self.day, self.judgement = now, day, judgement
        self.then = [then.get(d.day, nan) for d in DAYS]

    instances = ("x",)

    def metric(self, analyzer):
        share = tg.Completeness("x")
        metric = share.compute_metric_from(NumMatchesAndCount(1, 1))
        return tg.Metric(metric.entity, "x", "Completeness", tg.Success(self.now))

    def earlier(self, analyzer):
        moment = None if self.day is None else DAYS[self.day - 1]
        return EarlierValues(moment, DAYS, [f"d{d.day}" for d in DAYS], self.then)

    def judged(self, analyzer, usual):
        return self.judgement


SHARE = tg.Completeness("x")


@pytest.mark.parametrize(
    ("check", "now", "then", "message"),
    [
        (CHECK.not_below(SHARE, "7d", by=0.05), 0.94, {1: 0.99}, ""),
        (
            CHECK.not_below(SHARE, "7d", by=0.05),
            0.93,
            {1: 0.99},
            "x is 93% complete, after 99% (d1): the difference is -0.06, at least -0.05 required",
        ),
        (CHECK.not_below(SHARE, "1w"), 0.99, {1: 0.99, 7: 1.0}, ""),
        (CHECK.not_above(SHARE, "previous", by=0.1), 0.9, {7: 0.8}, ""),
        (
            CHECK.not_above(SHARE, "24h"),
            0.9,
            {7: 0.8},
            "x is 90% complete, after 80% (d7): the difference is 0.1, at most 0 required",
        ),
        (CHECK.compared(SHARE, "mean of 2d", (1, 1), "ratio"), 0.5, {5: 9, 6: 0.25, 7: 0.75, 8: 7, 9: 7}, ""),
        (
            CHECK.compared(SHARE, "max of 2d", (1, 1), "ratio"),
            0.5,
            {5: 9, 6: 0.25, 7: 1.0},
            "x is 50% complete, after 100% (2d before): the ratio is 0.5, exactly 1 required",
        ),
        (CHECK.compared(SHARE, "median of 1w", lambda x: x == 0), 0.5, {1: 0.25, 2: 0.5, 3: 7}, ""),
        (CHECK.compared(SHARE, "previous", (1, 1), "ratio"), 0.0, {7: 0.0}, ""),
        (
            CHECK.compared(SHARE, "previous", (None, 2), "ratio"),
            0.5,
            {7: 0.0},
            "x is 50% complete, after 0% (d7): the ratio is inf, at most 2 required",
        ),
    ],
)  # fmt: skip
def test_values_are_compared_with_earlier_partitions(check, now, then, message):
    (result,) = check.evaluate(Past(now, then))
    assert result.message == message
    assert result.status == (FAILURE if message else SUCCESS)
    assert result.value == now


@pytest.mark.parametrize("then", [{}, {8: 0.1, 9: 0.1, 10: 0.1}, {2: 0.1}])
@pytest.mark.parametrize("day", [8, None])
def test_own_and_later_values_are_not_history(then, day):
    """Day 8 has no value seven days earlier. Its own earlier value and later days do not replace it."""
    (result,) = CHECK.not_below(SHARE, "7d").evaluate(Past(0.5, then, day))
    assert result.status == ConstraintStatus.NO_HISTORY
    assert result.message == "no value of 7d before to compare with"
    (result,) = CHECK.not_below(SHARE, "7d", missing="fail", hint="h").evaluate(
        Past(0.5, then, day)
    )
    assert (result.status, result.message) == (
        FAILURE,
        "Completeness('x'): no value of 7d before to compare with. h",
    )


def test_a_comparison_without_history_has_no_history():
    check = CHECK.not_below(tg.Size(), "previous").is_usual(tg.Size())
    compared, usual = evaluated(check, (tg.Size(), NumMatches(3)))
    assert compared.message == "no history of previous to compare with"
    assert usual.status == ConstraintStatus.NO_HISTORY
    assert usual.message == "the history is too short for Seasonal()"


def test_messages_show_what_the_detector_expects():
    far = Judgement(True, 0.99, 0.97, 1.0, 1e-6)
    (result,) = CHECK.is_usual(SHARE).evaluate(Past(0.5, {}, judgement=far))
    assert (
        result.message
        == "x is 50% complete, unusual for Seasonal(), expected 99%, usual are 97% to 100%"
    )
    near = Judgement(False, 0.99, 0.97, 1.0, 0.4)
    assert CHECK.is_usual(SHARE).evaluate(Past(0.5, {}, judgement=near))[0].status == SUCCESS
    unknown = CHECK.is_usual(SHARE, missing="fail").evaluate(Past(0.5, {}))[0]
    assert unknown.status == FAILURE


def test_metrics_of_several_numbers_cannot_be_compared_with_history():
    state = FrequenciesAndNumRows.from_groups([(("a",), 1)])
    for check in (CHECK.not_below(tg.Histogram("x")), CHECK.is_usual(tg.Histogram("x"))):
        assert "has several values" in result_of(check, state).message


def test_a_schema_constraint_reports_the_differences():
    schema = Schema.from_types({"b": "string", "A": "integer", "ds": "string"})

    def message(check):
        (constraint,) = check.constraints
        analyzer = constraint.analyzer
        state = analyzer.fold([json.dumps(list(analyzer.differences(schema))), 1])
        metric = analyzer.compute_metric_from(state)
        return constraint.evaluate(Measurements({analyzer: metric})).message

    assert message(CHECK.has_schema("a INT, b STRING")) == ""
    assert message(CHECK.has_schema(["b", "a"], ordered=True)) == ""
    assert message(CHECK.has_schema("a, b, ds", ordered=True)) == (
        "has_schema: the order is b, A, ds, not a, b, ds"
    )
    assert message(CHECK.has_schema("a BIGINT, c", extra=False, hint="Ask ops.")) == (
        "has_schema: 'a' is int, not bigint; column 'c' is missing;"
        " undeclared column 'b'; undeclared column 'ds'. Ask ops."
    )
    with pytest.raises(tg.IllegalAnalyzerParameterError, match="'NUMBER' is not a type"):
        CHECK.has_schema("a NUMBER")


def test_method_names_of_other_tools_are_answered_with_ours():
    with pytest.raises(AttributeError, match="no 'isComplete'; did you mean 'is_complete'"):
        CHECK.isComplete("x")
    with pytest.raises(AttributeError, match=r"write tg.Check\(name\).is_unique\(column\)"):
        CHECK.expect_column_values_to_be_unique("x")
    with pytest.raises(AttributeError, match=r"write has_column_match\(columns, table, keys\)"):
        CHECK.doesDatasetMatch("x")
    assert not hasattr(CHECK, "_ipython_display_")


def test_suggested_names_exist():
    for hint in (*hints._CODE_BY_FOREIGN_NAME.values(), *hints._METHOD_BY_EXPECTATION.values()):
        for name in re.findall(r"tg\.(\w+)", hint):
            assert hasattr(tg, name), hint
    for hint in hints._METHOD_BY_EXPECTATION.values():
        for name in re.findall(r"(?:^| and )(\w+)\(", hint):
            assert hasattr(tg.Check, name), hint


def test_columns_that_differ_from_another_table_are_named():
    """Of 4 rows with a counterpart, 3 amounts and all states are equal: 0.75 and 1."""
    (constraint,) = CHECK.has_column_match(["amount", "status"], "backup", "id").constraints
    analyzer = constraint.analyzer
    assert analyzer == tg.ColumnMatch(["amount", "status"], "backup", ["id"])
    metric = analyzer.compute_metric_from(ColumnMatches((3, 4), 4))
    actual = constraint.evaluate(Measurements({analyzer: metric}))
    assert actual.message == (
        "75% of the values of a column are equal, at least 100% required: amount 0.75"
    )
    (whole,) = CHECK.has(analyzer, 1).constraints
    assert "a dict is not a number" in whole.evaluate(Measurements({analyzer: metric})).message


def test_a_time_in_the_future_is_not_fresh():
    (constraint,) = CHECK.is_fresh("t", 60).constraints
    assert constraint.description == "Freshness('t'): at least 0 and at most 60"
    assert [constraint.assertion.holds(age) for age in (-1.0, 0.0, 60.0, 61.0)] == [
        False,
        True,
        True,
        False,
    ]
    (lenient,) = CHECK.is_fresh("t", 60, ahead=5).constraints
    assert lenient.assertion.holds(-1.0)


@pytest.mark.parametrize(
    ("age", "text"),
    [
        (7500.4, "2 h 5 min, at least 0 s and at most 1 h required"),
        (3600.4, "1 h 0.4 s, at least 0 s and at most 1 h required"),
        (270_000.0, "3 d 3 h, at least 0 s and at most 1 h required"),
        (-90.0, "-1 min 30 s, at least 0 s and at most 1 h required"),
    ],
)
def test_an_age_in_a_message_is_a_duration(age, text):
    (constraint,) = CHECK.is_fresh("t", "1h").constraints
    state = FreshnessState(0, round(age * 1_000_000), 1)
    metric = tg.Freshness("t").compute_metric_from(state)
    result = constraint.evaluate(Measurements({tg.Freshness("t"): metric}))
    assert result.message == f"Freshness of t is {text}"


def test_a_time_in_a_message_is_a_date():
    constraint = tg.Check("c").has(tg.MaxTime("at"), (None, 1_700_000_000)).constraints[0]
    metric = tg.MaxTime("at").compute_metric_from(TimeRangeState(0, 1_768_435_200_000_000, 3))
    result = constraint.compare(metric, Measurements({}))
    assert result.message == (
        "latest at is 2026-01-15 00:00:00 UTC, at most 2023-11-14 22:13:20 UTC required"
    )
