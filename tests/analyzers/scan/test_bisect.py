"""The search for failing items, whose cost grows with the logarithm."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidegauge as tg
from tests.support.spark_actions import counted
from tidegauge.analyzers.core.metric import Failure
from tidegauge.analyzers.scan.scan import scan
from tidegauge.analyzers.scan.spark_errors import find_failures


class DataError(Exception):
    def __init__(self, item):
        super().__init__(f"item {item}")

    def getSqlState(self):
        return "22012"


def runner(bad, calls):
    def run(items):
        calls.append(len(items))
        for item in items:
            if item in bad:
                raise DataError(item)
        return {item: item * item for item in items}

    return run


def test_without_items_the_error_is_raised():
    """Example: a view that the rules read, when no rule is left."""
    with pytest.raises(DataError, match="item 1"):
        find_failures([], runner(set(), []), DataError(1))


@given(st.integers(1, 300), st.data())
def test_all_failing_items_are_found_and_all_others_have_results(n, data):
    bad = data.draw(st.sets(st.integers(0, n - 1), min_size=1, max_size=5))
    calls = []
    run = runner(bad, calls)
    actual = find_failures(range(n), run, DataError(min(bad)))
    assert {item for item, result in actual.items() if isinstance(result, Failure)} == bad
    assert {i: r for i, r in actual.items() if i not in bad} == {
        i: i * i for i in range(n) if i not in bad
    }
    for item in bad:  # each item has its own error
        assert str(actual[item].error) == f"DataError: item {item}"


@given(st.integers(1, 1000), st.data())
def test_one_failing_item_takes_log_n_plus_one_calls(n, data):
    calls = []
    culprit = data.draw(st.integers(0, n - 1))
    find_failures(range(n), runner({culprit}, calls), DataError(culprit))
    assert len(calls) <= math.ceil(math.log2(n)) + 1


def test_other_errors_are_raised():
    def run(items):
        raise OSError("disk")

    with pytest.raises(OSError, match="disk"):
        find_failures(range(8), run, DataError(0))


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.classic
def test_one_invalid_expression_among_200_takes_few_actions(spark):
    table = spark.range(100).selectExpr("id", "CONCAT('v', id) AS s")
    good = [tg.Compliance(f"r{i}", f"id > {i}") for i in range(200)]
    for bad in (
        tg.Compliance("cast", "CAST(s AS INT) > 0"),
        tg.Compliance("divide", "1 / (id - 50) > 0"),
        tg.PatternMatch("s", "("),
    ):
        with counted(spark) as actual:
            plain = scan(table, good).single_group
        usual = len(actual)
        with counted(spark) as actual:
            states = scan(table, [*good[:120], bad, *good[120:]]).single_group.states
        assert isinstance(states[bad], Failure), states[bad]
        assert {a: s for a, s in states.items() if a != bad} == dict(plain.states)
        assert len(actual) - usual <= math.ceil(math.log2(201)) + 1
