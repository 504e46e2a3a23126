"""Sampling by key: chosen keys are the same on both sides, and smaller samples are part of larger ones."""

import datetime as dt
import random
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import soak
from tests.tidegauge.consistency.logged_queries import is_sampled
from tidegauge.analyzers.core.errors import SuiteError, WrongColumnTypeError
from tidegauge.consistency.log.query import bucket, sample, threshold

EXAMPLES = {"a": 57_800, "user_1": 39_897, "5": 24_987}


@pytest.mark.parametrize(("text", "expected"), EXAMPLES.items())
def test_buckets_equal_published_examples(text, expected):
    assert bucket({"k": text}) == expected
    assert not is_sampled({"k": text}, expected / 1000)  # strictly less
    assert is_sampled({"k": text}, (expected + 1) / 1000)


def test_smaller_samples_are_part_of_larger_ones():
    keys = [{"user": i} for i in range(20_000)]
    five, ten = (
        {i for i, key in enumerate(keys) if is_sampled(key, percent)} for percent in (5, 10)
    )
    assert five < ten
    # 20,000 draws: five standard deviations are 154 and 212.
    assert abs(len(five) - 1000) < 154
    assert abs(len(ten) - 2000) < 212
    assert all(is_sampled(key, 100) for key in keys)
    assert not any(is_sampled(key, 0) for key in keys)


@pytest.mark.parametrize("percent", [0.29, 0.57, 1.1, 4.35, 16.1, 99.999])
def test_thresholds_are_exact(percent):
    assert threshold(percent) == round(percent * 1000)


@pytest.mark.parametrize("percent", [-1, 100.001, 0.0001, float("nan"), float("inf")])
def test_invalid_percentages_are_refused(percent):
    with pytest.raises(SuiteError, match="sample_percent"):
        threshold(percent)


SAME = {
    "numbers": [5, "5", Decimal(5), Decimal("5.00")],
    "fractions": ["2.5", Decimal("2.50")],
    "nought": [0, Decimal("-0.0"), "0"],
    "instants": [
        dt.datetime(2023, 1, 5, 1, tzinfo=dt.timezone(dt.timedelta(hours=1))),
        dt.datetime(2023, 1, 5, tzinfo=dt.UTC),
        dt.datetime(2023, 1, 5),
        1_672_876_800_000_000,
    ],
}


@pytest.mark.parametrize("values", SAME.values(), ids=SAME)
def test_equal_keys_of_different_types_share_a_bucket(values):
    assert len({bucket({"k": value}) for value in values}) == 1


APART = [
    ({"a": "x", "b": None}, {"a": None, "b": "x"}),
    ({"a": "x\x01y", "b": "z"}, {"a": "x", "b": "y\x01z"}),
    ({"a": "x\\", "b": "1y"}, {"a": "x", "b": "\\1y"}),
    ({"a": None}, {"a": "\\N"}),
    ({"a": ""}, {"a": None}),
    ({"a": True}, {"a": 1}),
]


@pytest.mark.parametrize(("one", "other"), APART, ids=str)
def test_different_keys_have_different_buckets(one, other):
    assert bucket(one) != bucket(other)


def test_the_order_of_the_columns_does_not_matter():
    assert bucket({"a": 1, "b": 2}) == bucket({"b": 2, "a": 1}) != bucket({"a": 2, "b": 1})


@pytest.mark.parametrize("value", [1.5, [1], {"x": 1}, Decimal("NaN")])
def test_invalid_keys_are_refused(value):
    with pytest.raises(SuiteError, match="a key must be"):
        bucket({"k": value})


@given(st.integers(-(2**63), 2**63 - 1), st.floats(0, 100).map(lambda p: round(p, 3)))
def test_samples_are_nested_for_any_percentage(key, percent):
    if is_sampled({"k": key}, percent):
        assert is_sampled({"k": key}, min(100, round(percent + 0.001, 3)))


KINDS = {
    "s": ("string", lambda r: "".join(r.choices("ab\\\x01 é𝄞'\n0", k=r.randrange(5)))),
    "b": ("tinyint", lambda r: r.randrange(-128, 128)),
    "i": ("int", lambda r: r.randrange(-(2**31), 2**31)),
    "l": ("bigint", lambda r: r.randrange(-(2**63), 2**63)),
    "d": ("decimal(20,3)", lambda r: Decimal(r.choice([0, 1, -100, r.randrange(10**12)])) / 1000),
    "w": ("decimal(38,0)", lambda r: Decimal(r.randrange(10**30))),
    "t": ("boolean", lambda r: r.random() < 0.5),
    "day": ("date", lambda r: dt.date(1600, 1, 1) + dt.timedelta(r.randrange(200_000))),
    "at": (
        "timestamp",
        lambda r: dt.datetime(1950, 1, 1, tzinfo=dt.UTC) + dt.timedelta(0, r.random() * 1e10),
    ),
    "n": ("timestamp_ntz", lambda r: dt.datetime(1950, 1, 1) + dt.timedelta(0, r.random() * 1e10)),
    "x": ("binary", lambda r: r.randbytes(r.randrange(6))),
}


@pytest.mark.soak
@pytest.mark.spark
def test_spark_keeps_the_same_keys(spark):
    r = random.Random(9)
    makes = [make for _, make in KINDS.values()]
    rows = [
        (i, *(None if r.random() < 0.1 else make(r) for make in makes))
        for i in range(soak(300, 5_000))
    ]
    data = spark.createDataFrame(
        rows, "id int, " + ", ".join(f"{n} {k}" for n, (k, _) in KINDS.items())
    )
    every = [dict(zip(KINDS, row[1:], strict=True)) for row in rows]
    for keys in ([*KINDS], *([name] for name in KINDS)):
        kept = {row.id for row in sample(data, keys, 37.5).select("id").collect()}
        expected = {
            i for i, row in enumerate(every) if is_sampled({name: row[name] for name in keys}, 37.5)
        }
        assert kept == expected, keys
    assert sample(data, ["i"], 100) is data
    assert sample(data, ["i"], 0).count() == 0
    wider = data.selectExpr("id", "CAST(i AS BIGINT) AS i")  # the other side has longs
    alike = [
        {row.id for row in sample(frame, ["i"], 10).select("id").collect()}
        for frame in (data, wider)
    ]
    assert alike[0] == alike[1] != set()
    with pytest.raises(WrongColumnTypeError, match="double"):
        sample(data.selectExpr("CAST(i AS DOUBLE) AS i"), ["i"], 10)
    with pytest.raises(SuiteError, match="needs the key columns"):
        sample(data, [], 10)
