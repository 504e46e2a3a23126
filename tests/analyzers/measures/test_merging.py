"""Random tables, cut at random into partitions: merged states equal one computation on the whole table."""

import math
from decimal import Decimal, localcontext

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import tidegauge as tg
from tests.conftest import soak
from tidegauge.analyzers.core.analyzer import ANALYZERS
from tidegauge.analyzers.scan.scan import scan

pytestmark = pytest.mark.spark
SCHEMA = "cut int, d double, n long, c decimal(30,4), s string, t timestamp_ntz, f boolean"
numbers = st.floats(-1e6, 1e6) | st.sampled_from([0.0, -0.0, 1.0, math.nan, 7e-75, -5e-324])
rows = st.lists(
    st.tuples(
        st.integers(0, 4),
        st.none() | numbers,
        st.none() | st.integers(-(2**63), 2**63 - 1) | st.integers(0, 5),
        st.none() | st.decimals(-(10**24), 10**24, places=4),
        st.none() | st.sampled_from(["", "a", "b", "7", "-1.5", "true", "ü€"]),
        st.none() | st.datetimes(),
        st.none() | st.booleans(),
    ),
    max_size=60,
)


def analyzers(where):
    return [
        *(kind(where=where) for kind in (tg.Size, tg.ColumnCount, tg.DuplicateRowCount)),
        tg.ColumnExists("d", where=where),
        tg.SchemaMatch("d DOUBLE, nope INT", where=where),
        tg.Completeness("s", where=where),
        tg.Compliance("rule", "d > n", where=where),
        tg.PatternMatch("s", "^[a-z]", where=where),
        tg.DataType("s", where=where),
        tg.MinLength("s", where=where),
        tg.MaxLength("s", "empty", where=where),
        *(kind(column, where=where) for kind in NUMERIC for column in ("d", "n", "c")),
        tg.Correlation("d", "c", where=where),
        tg.RatioOfSums("n", "c", where=where),
        tg.ExactQuantile("d", 0.3, where=where),
        tg.InterquartileRange("n", where=where),
        tg.HistogramBinned("d", 3, where=where),
        tg.HistogramBinned("d", custom_edges=[-10, 0, 10], where=where),
        tg.KLLSketch("n", where=where),
        tg.ApproxQuantile("d", 0.5, where=where),
        tg.ApproxQuantiles("n", [0.1, 0.9], where=where),
        tg.ReqQuantile("d", 0.99, where=where),
        tg.ApproxCountDistinct("c", where=where),
        tg.TopValues("s", where=where),
        tg.Histogram("s", where=where),
        tg.Histogram("d", binning="floor(d / 1e5)", where=where),
        tg.HistogramOfSums("s", "c", where=where),
        tg.HistogramOfSums("s", "d", binning="upper(s)", where=where),
        tg.Entropy("s", where=where),
        tg.MutualInformation(["s", "f"], where=where),
        *(kind(["s", "f"], where=where) for kind in DISTINCT),
        tg.MinTime("t", where=where),
        tg.MaxTime("t", where=where),
        tg.Freshness("t", until="timestamp'2050-01-01'", where=where),
        tg.CustomSql("max(length(s))", "longest", "max", where=where),
        tg.CustomSql("SELECT count(n) FROM data", "known", "sum", where=where),
        tg.ReferentialIntegrity("s", "merging_reference", "key", where=where),
        tg.ColumnMatch("f", "merging_reference", "s", "flag", "key", where=where),
        tg.DatasetMatch(["s", "f"], "merging_reference", ["key", "flag"], where=where),
    ]


NUMERIC = (tg.Minimum, tg.Maximum, tg.Range, tg.Sum, tg.Mean, tg.StandardDeviation, tg.Variance)
NUMERIC += (tg.Skewness, tg.Kurtosis, tg.ZerosCount)
DISTINCT = (tg.Uniqueness, tg.Distinctness, tg.CountDistinct, tg.UniqueValueRatio)
DISTINCT += (tg.ApproxUniqueness, tg.ApproxDistinctness, tg.ApproxUniqueValueRatio)
RULES = (
    tg.DQM()
    .add(tg.Rule("d > n", "above", on_null="unknown"))
    .add(tg.SetRule("s", ["a", "b"], stage="after", severity="warning"))
    .add(tg.BoundFix("n", 0, 9))
)
EVERY = [*analyzers(None), *analyzers("n > 0 OR s IS NULL"), *RULES.analyzers()]
OF_FILES = {"ParserRejects", "ParserRejectsRatio"}
POWERS = {"m2": 2, "m3": 3, "m4": 4, "xx": 2, "yy": 2, "xy": 2}


def test_every_analyzer_is_tested():
    elsewhere = (
        "tidegauge.griffin.",
        "tidegauge.consistency.",
    )  # folders of tests with the same names
    others = {n for n in ANALYZERS if ANALYZERS[n].__module__.startswith(elsewhere)}
    assert {type(a).__name__ for a in EVERY} == set(ANALYZERS) - OF_FILES - others


def assert_close(analyzer, merged, whole):
    """Assert equality: floats to 1e-9 of the sum of absolute terms, sketches as states compare, others exactly."""
    if isinstance(analyzer, tg.Sum | tg.Mean):
        exact = not isinstance(whole.total, float)
        return merged == whole if exact else same(merged.total, whole.total, 60 * 1e6)
    if isinstance(analyzer, tg.RatioOfSums):
        return merged == whole  # of longs and decimals: exact
    if hasattr(whole, "m2") or hasattr(whole, "xy"):
        largest = {"d": 1e6, "n": 2.0**63, "c": 1e24}
        column = getattr(analyzer, "column", "c")
        return merged.count == whole.count and all(
            same(getattr(merged, name), getattr(whole, name), 60 * (2 * largest[column]) ** power)
            for name, power in POWERS.items()
            if hasattr(whole, name)
        )
    return merged.agrees_with(whole)


def same(a, b, scale):
    return (math.isnan(a) and math.isnan(b)) or abs(a - b) <= 1e-9 * scale


@pytest.fixture(scope="module")
def reference(spark):
    table = spark.createDataFrame(
        [("a", True), ("7", None), ("b", False)], "key string, flag boolean"
    )
    table.createOrReplaceTempView("merging_reference")


@pytest.mark.soak
@settings(
    max_examples=soak(2, 15),
    deadline=None,
    # an example takes seconds, so no shrinking
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(rows)
def test_merged_states_equal_the_whole(spark, reference, table):
    data = spark.createDataFrame(table, SCHEMA).repartition(2).cache()
    groups = scan(data, EVERY, ["cut"]).groups
    whole = scan(data, EVERY).single_group
    assert len(groups) == len({row[0] for row in table})
    for analyzer in EVERY:
        outcomes = [*(g.states[analyzer] for g in groups.values()), whole.states[analyzer]]
        assert all(isinstance(outcome, tg.Success) for outcome in outcomes), (analyzer, outcomes)
        *parts, once = (outcome.value for outcome in outcomes)
        merged = analyzer.state_type.merge(parts)
        if isinstance(analyzer, tg.ColumnCount | tg.ColumnExists | tg.SchemaMatch):
            assert not groups or analyzer.measure(merged) == analyzer.measure(once)
        else:
            assert assert_close(analyzer, merged, once), (analyzer, merged, once)
    sums = whole.states[tg.Sum("n")].value.total, whole.states[tg.Sum("c")].value.total
    assert sums[0] == sum(row[2] or 0 for row in table)
    with localcontext(prec=60):  # the 28 digits of Python's default are too few
        assert Decimal(sums[1]) == sum((row[3] or Decimal(0) for row in table), Decimal(0))
    data.unpersist()
