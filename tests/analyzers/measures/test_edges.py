"""Every analyzer on extreme data: nulls, NaN, zeros of both signs, infinities, Unicode, wide numbers, no rows.

The expected values are computed by hand.
"""

import dataclasses
import datetime as dt
import math
from decimal import Decimal
from functools import reduce

import pytest

import tidegauge as tg
from tidegauge.analyzers.core.analyzer import ANALYZERS
from tidegauge.analyzers.scan.scan import metric_of, scan

pytestmark = pytest.mark.spark
N, NAN, INF = None, math.nan, math.inf
WIDE = Decimal("999999999999999999999999999999999999.99")  # 38 digits
NOON = dt.datetime(2013, 2, 8, 12, tzinfo=dt.UTC)
DAY = dt.datetime(1970, 1, 2, tzinfo=dt.UTC)
SCHEMA = "d double, n long, c decimal(38,2), s string, t timestamp, b boolean, tags array<string>"

ROWS = {
    "odd": [
        (1.0, 2**53 + 1, WIDE, "", DAY, True, ["x", "y"]),
        (NAN, 2**62, WIDE, "a", NOON, False, []),
        (3.0, 2**62, N, "ü€", N, N, N),
        (N, N, Decimal("0.01"), "𝒳y", DAY, True, ["z"]),
        (-0.0, 0, Decimal("-0.01"), N, DAY, True, ["z", N]),
        (0.0, -1, Decimal(0), "a", DAY, True, ["x"]),
    ],
    "infinite": [(x, 1, Decimal(1), "x", DAY, True, []) for x in (INF, -INF, 1.0)],
    "one": [(2.5, 7, Decimal("7.25"), "7", NOON, True, ["q"])],
    "nulls": [(N,) * 7] * 3,
    "empty": [],
}


@pytest.fixture(scope="module")
def found(spark):
    """Return all metrics of all tables; ``none`` is a filter that no row passes.

    Tables are groups of one scan, unless they have no rows or the number of columns matters.
    """
    spark.createDataFrame([(7,), (0,), (0,)], "id long").createOrReplaceTempView("edge_reference")
    tables = {name: spark.createDataFrame(rows, SCHEMA) for name, rows in ROWS.items()}
    metrics = {}

    def add(name, states):
        metrics.update({(a, name): (metric_of(a, o), o) for a, o in states.items()})

    whole = [tg.ColumnCount(), tg.DuplicateRowCount()]
    grouped = [a for a in EXPECTED if a not in whole]
    add("empty", scan(tables["empty"].repartition(2), list(EXPECTED)).single_group.states)
    frames = []
    for name in ("odd", "infinite", "one", "nulls"):
        add(name, scan(tables[name].repartition(2), whole).single_group.states)
        frames.append(tables[name].selectExpr("*", f"'{name}' AS edge"))
    both = reduce(lambda a, b: a.unionAll(b), frames).repartition(2)
    for (name,), group in scan(both, grouped, ["edge"]).groups.items():
        add(name, group.states)
    filtered = {dataclasses.replace(a, where="n > 0 AND n < 0"): a for a in EXPECTED}
    states = scan(tables["odd"], list(filtered)).single_group.states
    metrics.update({(filtered[a], "none"): (metric_of(a, o), o) for a, o in states.items()})
    return metrics


def bins(metric):
    return [(b.low, b.high, b.absolute) for b in metric.value.bins], metric.value


def histogram(**wanted):
    def check(metric):
        assert {k: v.absolute for k, v in metric.value.values.items()} == wanted
        assert sum(v.ratio for v in metric.value.values.values()) == pytest.approx(1)

    return check


def sums(*wanted):
    """Return a check of keys and sums in their order, and of the shares:

    NaN unless the total is finite.
    """

    def check(metric):
        values = metric.value.values
        assert list(values) == [key for key, _ in wanted]
        actual = [v.absolute for v in values.values()]
        assert actual == pytest.approx([number for _, number in wanted], nan_ok=True)
        total = sum(actual)
        shares = NAN if not actual or math.isnan(total) or not total else 1
        ratios = sum(v.ratio for v in values.values()) if values else NAN
        assert ratios == pytest.approx(shares, nan_ok=True)

    return check


def binned(wanted, nulls=0, nans=0, out=0):
    def check(metric):
        actual, value = bins(metric)
        assert actual == wanted
        assert (value.null_count, value.nan_count, value.out_of_range) == (nulls, nans, out)

    return check


def buckets(*wanted):
    def check(metric):
        assert [(b.low, b.high, b.absolute) for b in metric.value.buckets] == list(wanted)

    return check


def top(**wanted):
    def check(metric):
        actual = metric.value.values
        assert {k: (v.estimate, v.lower, v.upper) for k, v in actual.items()} == {
            k: (n, n, n) for k, n in wanted.items()
        }

    return check


def fails(error):
    def check(metric):
        assert isinstance(metric.outcome.error, error)

    return check


def differs(*wanted):
    return lambda metric: metric.value.differences == wanted


E = "empty"
KINDS = ("Unknown", "Fractional", "Integral", "Boolean", "String")


def kinds(**counts):
    return histogram(**{kind: counts.get(kind, 0) for kind in KINDS})


ENTROPY = 1.3321790402101223  # of column d, computed by hand

# analyzer: odd, infinite, one, nulls, empty, none (a filter that no row passes)
EXPECTED = {
    tg.Size(): (6, 3, 1, 3, 0, 0),
    tg.ColumnCount(): (7, 7, 7, 7, 7, 7),
    tg.ColumnExists("D"): (1, 1, 1, 1, 1, 1),
    tg.ColumnExists("nope"): (0, 0, 0, 0, 0, 0),
    tg.SchemaMatch("D DOUBLE, n INT, nope"): (
        differs("'n' is bigint, not int", "no column 'nope'"),
    )
    * 6,
    tg.Completeness("d"): (5 / 6, 1, 1, 0, E, E),
    tg.Completeness("s"): (5 / 6, 1, 1, 0, E, E),
    tg.Completeness("tags[1]"): (1 / 6, 0, 0, 0, E, E),
    tg.Compliance("r", "d > 2"): (2 / 6, 1 / 3, 1, E, E, E),
    tg.ZerosCount("d"): (2, 0, 0, 0, E, E),
    tg.ZerosCount("n"): (1, 0, 0, 0, E, E),
    tg.ZerosCount("c"): (1, 0, 0, 0, E, E),
    tg.Minimum("d"): (0.0, -INF, 2.5, E, E, E),
    tg.Minimum("n"): (-1, 1, 7, E, E, E),
    tg.Minimum("c"): (-0.01, 1, 7.25, E, E, E),
    tg.Maximum("d"): (NAN, INF, 2.5, E, E, E),
    tg.Maximum("n"): (2.0**62, 1, 7, E, E, E),
    tg.Maximum("c"): (1e36, 1, 7.25, E, E, E),
    tg.Maximum("size(tags)"): (2, 0, 1, E, E, E),
    tg.Range("d"): (NAN, INF, 0, E, E, E),
    tg.Range("n"): (2.0**62, 0, 0, E, E, E),
    tg.Range("c"): (1e36, 0, 0, E, E, E),
    tg.Sum("d"): (NAN, NAN, 2.5, E, E, E),
    tg.Sum("n"): (2.0**63 + 2**53, 3, 7, E, E, E),
    tg.Sum("c"): (2e36, 3, 7.25, E, E, E),
    tg.Mean("d"): (NAN, NAN, 2.5, E, E, E),
    tg.Mean("n"): ((2**63 + 2**53) / 5, 1, 7, E, E, E),
    tg.Mean("c"): (4e35, 1, 7.25, E, E, E),
    tg.Mean("size(tags)"): (6 / 5, 0, 1, E, E, E),
    tg.RatioOfSums("n", "d"): (NAN, NAN, 7 / 2.5, E, E, E),
    tg.RatioOfSums("c", "n"): (2e36 / (2**63 + 2**53), 1, 7.25 / 7, E, E, E),
    tg.StandardDeviation("d"): (NAN, NAN, 0, E, E, E),
    tg.Variance("d"): (NAN, NAN, 0, E, E, E),
    tg.Variance("c"): (2.4e71, 0, 0, E, E, E),
    tg.Skewness("d"): (NAN, NAN, 0, E, E, E),
    tg.Kurtosis("d"): (NAN, NAN, 0, E, E, E),
    tg.Correlation("d", "n"): (NAN, NAN, NAN, E, E, E),
    tg.CountDistinct("d"): (4, 3, 1, 0, 0, 0),
    tg.CountDistinct("s"): (4, 1, 1, 0, 0, 0),
    tg.ApproxCountDistinct("d"): (4, 3, 1, 0, 0, 0),
    tg.ApproxCountDistinct("s"): (4, 1, 1, 0, 0, 0),
    tg.Uniqueness("d"): (0.6, 1, 1, E, E, E),
    tg.Distinctness("d"): (0.8, 1, 1, E, E, E),
    tg.UniqueValueRatio("d"): (0.75, 1, 1, E, E, E),
    tg.ApproxUniqueness("d"): (0.6, 1, 1, E, E, E),
    tg.ApproxDistinctness("d"): (0.8, 1, 1, E, E, E),
    tg.ApproxUniqueValueRatio("d"): (0.75, 1, 1, E, E, E),
    tg.ApproxUniqueness("s"): (3 / 5, 0, 1, E, E, E),
    tg.ApproxDistinctness(["d", "s"]): (1, 1, 1, E, E, E),
    tg.DuplicateRowCount("d"): (2, 0, 0, 0, 0, 0),
    tg.DuplicateRowCount("s"): (2, 3, 0, 0, 0, 0),
    tg.DuplicateRowCount(): (0, 0, 0, 0, 0, 0),
    tg.Entropy("d"): (ENTROPY, math.log(3), 0, E, E, E),
    tg.MutualInformation(["d", "d"]): (ENTROPY, math.log(3), 0, E, E, E),
    tg.ExactQuantile("d", 0.5): (1.0, 1.0, 2.5, E, E, E),
    tg.ExactQuantile("n", 1): (2.0**62, 1, 7, E, E, E),
    tg.ExactQuantile("c", 0): (-0.01, 1, 7.25, E, E, E),
    tg.InterquartileRange("d"): (3.0, INF, 0, E, E, E),
    tg.ApproxQuantile("d", 0.5): (0.0, 1.0, 2.5, E, E, E),
    tg.ApproxQuantile("d", 1): (3.0, INF, 2.5, E, E, E),
    tg.ApproxQuantiles("n", [0, 1]): (
        {"0.0": -1, "1.0": 2.0**62},
        {"0.0": 1, "1.0": 1},
        {"0.0": 7, "1.0": 7},
        E,
        E,
        E,
    ),
    tg.ReqQuantile("d", 0.5): (0.0, 1.0, 2.5, E, E, E),
    tg.ReqQuantile("n", 1): (2.0**62, 1, 7, E, E, E),
    tg.KLLSketch("d", number_of_buckets=2): (
        buckets((0.0, 1.5, 3), (1.5, 3.0, 1)),
        fails(tg.MetricRuntimeError),
        buckets((2.5, 2.5, 1)),
        E,
        E,
        E,
    ),
    tg.HistogramBinned("d", 2): (
        binned([(0.0, 1.5, 3), (1.5, 3.0, 1)], nulls=1, nans=1),
        binned([(1.0, 1.0, 1)], out=2),
        binned([(2.5, 2.5, 1)]),
        binned([], nulls=3),
        E,
        E,
    ),
    tg.HistogramBinned("d", custom_edges=[0, 1, 2]): (
        binned([(0.0, 1.0, 2), (1.0, 2.0, 1)], nulls=1, nans=1, out=1),
        binned([(0.0, 1.0, 0), (1.0, 2.0, 1)], out=2),
        binned([(0.0, 1.0, 0), (1.0, 2.0, 0)], out=1),
        binned([(0.0, 1.0, 0), (1.0, 2.0, 0)], nulls=3),
        E,
        E,
    ),
    tg.Histogram("d"): (
        histogram(**{"0.0": 2, "1.0": 1, "3.0": 1, "NaN": 1, "NullValue": 1}),
        histogram(**{"Infinity": 1, "-Infinity": 1, "1.0": 1}),
        histogram(**{"2.5": 1}),
        histogram(NullValue=3),
        lambda m: m.value.number_of_bins == 0,
        lambda m: m.value.number_of_bins == 0,
    ),
    tg.Histogram("n", binning="n > 5"): (
        histogram(true=3, false=2, NullValue=1),
        *(histogram(false=3), histogram(true=1), histogram(NullValue=3)),
        *[lambda m: m.value.number_of_bins == 0] * 2,
    ),
    tg.HistogramOfSums("s", "c"): (  # 1e36 + 1e36 is exactly the sum
        sums(("", 1e36), ("a", 1e36), ("𝒳y", 0.01), ("ü€", 0), ("NullValue", -0.01)),
        *(sums(("x", 3)), sums(("7", 7.25)), sums(("NullValue", 0)), sums(), sums()),
    ),
    tg.HistogramOfSums("b", "d"): (
        sums(("false", NAN), ("NullValue", 3), ("true", 1)),
        *(sums(("true", NAN)), sums(("true", 2.5)), sums(("NullValue", 0)), sums(), sums()),
    ),
    tg.TopValues("d", k=1): (
        top(**{"0.0": 2}),
        top(**{"-Infinity": 1}),
        top(**{"2.5": 1}),
        E,
        E,
        E,
    ),
    tg.TopValues("s", k=1): (top(a=2), top(x=3), top(**{"7": 1}), E, E, E),
    tg.DataType("d"): (kinds(Unknown=1, Fractional=5), kinds(Fractional=3), kinds(Fractional=1))
    + (kinds(Unknown=3), E, E),
    tg.DataType("n"): (kinds(Unknown=1, Integral=5), kinds(Integral=3), kinds(Integral=1))
    + (kinds(Unknown=3), E, E),
    tg.DataType("s"): (kinds(Unknown=1, String=5), kinds(String=3), kinds(Integral=1))
    + (kinds(Unknown=3), E, E),
    tg.DataType("b"): (kinds(Unknown=1, Boolean=5), kinds(Boolean=3), kinds(Boolean=1))
    + (kinds(Unknown=3), E, E),
    tg.DataType("t"): (kinds(Unknown=1, String=5), kinds(String=3), kinds(String=1))
    + (kinds(Unknown=3), E, E),
    tg.PatternMatch("s", "^a$"): (2 / 6, 0, 0, 0, E, E),
    tg.PatternMatch("s", "^a$", "ignore"): (2 / 5, 0, 0, E, E, E),
    tg.PatternMatch("s", "^$", "empty"): (2 / 6, 0, 0, 1, E, E),
    tg.PatternMatch("s", "x*"): (5 / 6, 1, 1, 0, E, E),  # Deequ: never, if no row passes
    tg.MinLength("s"): (0, 1, 1, E, E, E),
    tg.MaxLength("s"): (2, 1, 1, E, E, E),  # characters, not UTF-16 units or bytes
    tg.MinLength("s", "empty"): (0, 1, 1, 0, E, E),
    tg.MaxLength("s", "fail"): (1.7976931348623157e308, 1, 1, 1.7976931348623157e308, E, E),
    tg.MinLength("s", "fail"): (-1.7976931348623157e308, 1, 1, -1.7976931348623157e308, E, E),
    tg.MinTime("t"): (86400.0, 86400.0, NOON.timestamp(), E, E, E),
    tg.MaxTime("t"): (NOON.timestamp(), 86400.0, NOON.timestamp(), E, E, E),
    tg.Freshness("t", until="timestamp'2013-02-08 13:00:00'"): (
        *(3600, NOON.timestamp() + 3600 - 86400, 3600),
        *(E, E, E),
    ),
    tg.CustomSql("max(n) - min(n)"): (2.0**62, 0, 0, E, E, E),
    tg.CustomSql("SELECT count(n) - 2 FROM data"): (3, 1, -1, -2, E, E),
    tg.ReferentialIntegrity("n", "edge_reference", "id"): (1 / 5, 0, 1, E, E, E),
    tg.ColumnMatch("n", "edge_reference", "n", "id", "id"): (
        {"n": 1.0},
        *(E, {"n": 1.0}, E, E, E),  # 1 is missing in the other table
    ),
    tg.DatasetMatch("n", "edge_reference", "id"): (1 / 6, 0, 1, 0, E, E),
}
TABLES = (*ROWS, "none")


def test_every_analyzer_has_expectations():
    elsewhere = (
        "tidegauge.rules.",
        "tidegauge.griffin.",
        "tidegauge.consistency.",
    )  # folders of tests with the same names
    others = {n for n in ANALYZERS if ANALYZERS[n].__module__.startswith(elsewhere)}
    assert {type(a).__name__ for a in EXPECTED} == set(ANALYZERS) - others


@pytest.mark.parametrize("analyzer", EXPECTED, ids=lambda a: repr(a)[:70])
@pytest.mark.parametrize("table", TABLES)
def test_an_analyzer_has_the_expected_metrics_of_each_table(found, analyzer, table):
    metric, _ = found[analyzer, table]
    expected = EXPECTED[analyzer][TABLES.index(table)]
    if expected == E:
        assert metric.empty, metric
    elif callable(expected):
        assert expected(metric) is not False
    elif isinstance(expected, dict):
        assert metric.value == expected
    else:
        assert metric.value == pytest.approx(expected, rel=1e-12, nan_ok=True)


def test_states_keep_the_precision_of_the_type(found):
    def state(analyzer, table="odd"):
        return found[analyzer, table][1].value

    # a sum of longs neither overflows nor is rounded
    assert state(tg.Sum("n")).total == 2**63 + 2**53
    assert state(tg.Sum("c")).total == Decimal("1999999999999999999999999999999999999.98")
    assert state(tg.Minimum("c")).minimum == Decimal("-0.01")
    assert state(tg.Maximum("c")).maximum == WIDE
    assert state(tg.Range("n")).maximum == 2**62
    assert state(tg.RatioOfSums("c", "n")).numerator.total == Decimal(
        "1999999999999999999999999999999999999.98"
    )


@pytest.mark.parametrize("analyzer", EXPECTED, ids=lambda a: repr(a)[:70])
def test_every_approximate_metric_carries_its_bound(found, analyzer):
    metric, _ = found[analyzer, "one"]
    approximate = type(analyzer).__name__.startswith("Approx") or isinstance(
        analyzer, tg.ReqQuantile | tg.KLLSketch | tg.TopValues
    )
    intervals = [flat.interval for flat in tg.flatten(metric) if flat.interval]
    assert bool(intervals) == approximate
    for flat in tg.flatten(metric):
        if flat.interval:
            assert flat.interval.lower <= flat.value <= flat.interval.upper
            assert 0.9 < flat.interval.confidence <= 1


TEXTS = {
    "Integral": ["1", "-12", "+ 1", " 7", "007"],
    "Fractional": ["1.5", "-0.0", "1e5", "+ 1.5E-3", "2E+7"],
    "Boolean": ["true", "false"],
    "String": [
        "",
        "1.",
        ".5",
        "1e",
        "e.",
        "--1",
        "1\n",
        "TRUE",
        "true ",
        "false\n",
        "1 000",
        "falsy",
    ],
    "Unknown": [None],
}


def test_data_types_of_strings(spark):
    texts = spark.createDataFrame([(t,) for some in TEXTS.values() for t in some], "s string")
    (metric,) = tg.calculate(texts, [tg.DataType("s")])
    assert {kind: value.absolute for kind, value in metric.value.values.items()} == {
        kind: len(some) for kind, some in TEXTS.items()
    }
