"""Every analyzer on Spark, compared with values of Deequ's own tests or computed by hand.

Deequ's tests are in
https://github.com/awslabs/deequ/tree/master/src/test/scala/com/amazon/deequ/analyzers.
"""

import math

import pytest

import tidegauge as tg
from tidegauge.analyzers.core.conditions import known_sql
from tidegauge.analyzers.core.schema import Schema
from tidegauge.analyzers.measures.histogram import DistributionValue
from tidegauge.analyzers.scan.scan import scan

pytestmark = pytest.mark.spark
N = None
NAN = math.nan


@pytest.fixture(scope="module")
def frame(spark):
    def make(columns, schema):
        rows = list(zip(*columns, strict=True))
        return spark.createDataFrame(rows, schema).repartition(2)

    return make


@pytest.fixture(scope="module")
def tables(spark, frame):
    return {
        "MISSING": frame(
            [
                [str(i) for i in range(1, 13)],
                ["a", "b", N, "a", "a", N, N, "b", "a", N, N, N],
                ["f", "d", "f", N, "f", "d", "d", N, "f", N, "f", "d"],
            ],
            "item string, att1 string, att2 string",
        ),
        "NUM": frame(
            [[1, 2, 3, 4, 5, 6], [0, 0, 0, 5, 6, 7], [N, N, N, 5, 6, 7]],
            "att1 int, att2 int, attNull int",
        ),
        "UNIQ": frame(
            [["1", "2", N, "3", "4", "5"], ["0", "0", "0", "5", "6", "7"]],
            "uniqueWithNulls string, nonUnique string",
        ),
        "DIST": frame(
            [["a", "a", N, "b", "b", "c"], [N, N, "x", "x", "x", "y"]], "att1 string, att2 string"
        ),
        "FULL": frame(
            [["1", "2", "3", "4"], list("aaab"), list("cccd")],
            "item string, att1 string, att2 string",
        ),
        "TYPES": frame([[1, 2, 3, 3, 4], list("uuddu")], "value int, type string"),
        "ODD": frame([[1.0, NAN, 3.0, N, -0.0, 0.0]], "d double"),
        "LONG": frame([[2**53 + 1, 2**62, 2**62]], "x long"),
        "EMPTY": spark.createDataFrame([], "x int, s string"),
        "NULLS": frame([[N, N, N], [N, N, N]], "x int, s string"),
        "TEXTS": frame([["", "a", "bb", N]], "s string"),
        "THREE": frame([[1, N, 5]], "x int"),
        "MIXED": frame(
            [[1.5, N, 2.5, 1.5], [True, False, N, True], ["NullValue", N, "x", "x"]],
            "f float, b boolean, s string",
        ),
    }


CASES = [
    # values of Deequ's tests
    ("MISSING", tg.Size(), 12.0, 12),
    ("EMPTY", tg.Size(), 0.0, 0),
    ("MISSING", tg.Size(where="att1 is not null"), 6.0, 6),
    ("MISSING", tg.Completeness("att2", where="att1 is not null"), 4 / 6, 6),
    ("MISSING", tg.Completeness("att1"), 0.5, 12),
    ("NUM", tg.Compliance("r", "att1 > 3"), 0.5, 6),
    ("NUM", tg.Compliance("r", "att1 > 2"), 4 / 6, 6),
    ("THREE", tg.Compliance("r", "x > 3"), 1 / 3, 3),
    ("THREE", tg.Compliance("r", "x > 3", where="x is not null"), 0.5, 2),
    ("MISSING", tg.Uniqueness("att1"), 0.0, 6),
    ("TYPES", tg.Uniqueness("value"), 0.6, 5),
    ("TYPES", tg.Uniqueness("value", where="type = 'u'"), 1.0, 3),
    ("FULL", tg.Uniqueness(["att1", "att2"]), 0.25, 4),
    ("FULL", tg.Distinctness("item"), 1.0, 4),
    ("DIST", tg.Distinctness("att1"), 0.6, 5),
    ("DIST", tg.Distinctness(["att1", "att2"]), 4 / 6, 6),
    ("DIST", tg.CountDistinct("att1"), 3.0, 5),
    ("NUM", tg.StandardDeviation("att1"), 1.707825127659933, 6),
    ("NUM", tg.Minimum("att1"), 1.0, 6),
    ("NUM", tg.Maximum("att1"), 6.0, 6),
    ("NUM", tg.Sum("att1"), 21.0, 6),
    ("NUM", tg.Mean("att1"), 3.5, 6),
    ("NUM", tg.Mean("attNull"), 6.0, 3),
    ("NUM", tg.Sum("att2", where="att1 > 3"), 18.0, 3),
    ("UNIQ", tg.ApproxCountDistinct("uniqueWithNulls"), 5.0, 5),
    ("UNIQ", tg.ApproxCountDistinct("uniqueWithNulls", where="uniqueWithNulls < 4"), 3.0, 3),
    ("LONG", tg.Minimum("x"), 9007199254740992.0, 3),
    # correct values, which differ from Deequ's
    ("LONG", tg.Sum("x"), 2.0**63 + 2.0**53, 3),  # Deequ: overflow
    ("TEXTS", tg.ApproxCountDistinct("s"), 3.0, 3),  # a sketch would skip the empty string
    ("MIXED", tg.Minimum("f"), 1.5, 3),
    # a column with NaN: a value, and the greatest one
    ("ODD", tg.Completeness("d"), 5 / 6, 6),
    ("ODD", tg.Minimum("d"), 0.0, 5),
    ("ODD", tg.Maximum("d"), NAN, 5),
    ("ODD", tg.Mean("d"), NAN, 5),
    ("ODD", tg.Sum("d"), NAN, 5),
    ("ODD", tg.StandardDeviation("d"), NAN, 5),
    ("ODD", tg.CountDistinct("d"), 4.0, 5),
    ("ODD", tg.ApproxCountDistinct("d"), 4.0, 5),
    ("ODD", tg.Uniqueness("d"), 0.6, 5),
    ("ODD", tg.Distinctness("d"), 0.8, 5),
    ("ODD", tg.Compliance("r", "d > 2"), 2 / 6, 6),
    ("ODD", tg.ApproxQuantile("d", 1), 3.0, 4),  # quantiles ignore NaN
    # three rows of nulls
    ("NULLS", tg.Size(), 3.0, 3),
    ("NULLS", tg.Completeness("x"), 0.0, 3),
    ("NULLS", tg.CountDistinct("x"), 0.0, 0),
    ("NULLS", tg.ApproxCountDistinct("x"), 0.0, 0),
]


@pytest.mark.parametrize(("table", "analyzer", "value", "weight"), CASES, ids=lambda x: str(x)[:60])
def test_an_analyzer_has_the_expected_value_and_weight(tables, table, analyzer, value, weight):
    metric = analyzer.calculate(tables[table])
    assert metric.value == pytest.approx(value, rel=1e-12, nan_ok=True)
    assert metric.weight == weight


EMPTY = [
    tg.Completeness("x"),
    tg.Compliance("r", "x > 0"),
    tg.Minimum("x"),
    tg.Maximum("x"),
    tg.Mean("x"),
    tg.Sum("x"),
    tg.StandardDeviation("x"),
    tg.ApproxQuantile("x", 0.5),
    tg.ApproxQuantiles("x", [0.5]),
    tg.Uniqueness("x"),
    tg.Distinctness("x"),
]


@pytest.mark.parametrize("analyzer", EMPTY, ids=repr)
def test_metrics_of_no_rows_are_empty(tables, analyzer):
    assert analyzer.calculate(tables["EMPTY"]).empty


@pytest.mark.parametrize("analyzer", EMPTY[1:], ids=repr)
def test_metrics_of_only_nulls_are_empty(tables, analyzer):
    assert analyzer.calculate(tables["NULLS"]).empty


@pytest.mark.parametrize(
    "analyzer", [tg.Completeness("x", where="x > 9"), tg.Mean("x", where="x > 9")], ids=repr
)
def test_metrics_of_a_filter_that_no_row_passes_are_empty(tables, analyzer):
    assert analyzer.calculate(tables["THREE"]).empty
    assert tg.Size(where="x > 9").calculate(tables["THREE"]).value == 0.0


def histogram(table, *args, **kwargs):
    return tg.Histogram(*args, **kwargs).calculate(table)


def test_a_histogram_of_strings_and_nulls(tables):
    """The expected values come from Deequ's tests."""
    metric = histogram(tables["MISSING"], "att1")
    assert metric.value.number_of_bins == 3
    assert metric.value["a"] == DistributionValue(4, 4 / 12)
    assert metric.value["b"] == DistributionValue(2, 2 / 12)
    assert metric.value["NullValue"] == DistributionValue(6, 0.5)
    assert metric.weight == 12


def test_histogram_shares_refer_to_the_rows_that_pass_the_filter(tables):
    """Deequ divides by all rows."""
    metric = histogram(tables["TYPES"], "value", where="type = 'u'")
    assert metric.value["1"] == DistributionValue(1, 1 / 3)
    assert metric.weight == 3


def test_a_histogram_counts_the_bins_beyond_its_limit(frame):
    """The expected values come from Deequ's tests."""
    table = frame([list("AAAAABBBBCCCDDE")], "x string")
    value = histogram(table, "x", 3).value
    assert list(value.values) == ["A", "B", "C"]
    assert (value.number_of_bins, value.tail_count) == (5, 3)


def test_a_histogram_of_other_types(tables):
    assert set(histogram(tables["MIXED"], "f").value.values) == {"1.5", "2.5", "NullValue"}
    assert set(histogram(tables["MIXED"], "b").value.values) == {"true", "false", "NullValue"}
    assert histogram(tables["MIXED"], "s").value["\\NullValue"].absolute == 1
    zeros = histogram(tables["ODD"], "d").value
    assert zeros["0.0"].absolute == 2  # zeros of both signs are one value
    assert zeros["NaN"].absolute == 1
    assert histogram(tables["EMPTY"], "x").value.number_of_bins == 0


def test_a_histogram_with_bins_of_numbers(tables):
    """4 + 1, 5 + 2, 6 + 3 of one row each; att2 is 0, 0, 0, 5, 6, 7."""
    bins = histogram(
        tables["NUM"], "att2", binning="CASE WHEN att2 > 5 THEN 'large' ELSE 'small' END"
    )
    assert bins.value.values == {
        "small": DistributionValue(4, 4 / 6),
        "large": DistributionValue(2, 2 / 6),
    }
    names = [name for name, _ in bins.value.scalars()]
    assert names == ["bins", "abs.small", "ratio.small", "abs.large", "ratio.large"]
    counts = histogram(tables["NUM"], "att2", binning="att2 % 2", ratios=False).value
    assert dict(counts.scalars()) == {"bins": 2, "abs.0": 4, "abs.1": 2}
    failed = histogram(tables["NUM"], "att2", binning="array(att2)")
    assert "a bin must be a plain value" in str(failed.outcome.error)
    for wrong in ("nope + 1", "sum(att2)", "att2 >"):
        bins = histogram(tables["NUM"], "att2", binning=wrong)
        assert isinstance(bins.outcome.error, tg.UnresolvedExpressionError), wrong


def test_a_histogram_of_sums(tables):
    """u: 1 + 2 + 4, d: 3 + 3."""
    metrics = tg.HistogramOfSums("type", "value").calculate(tables["TYPES"])
    assert metrics.value.values == {
        "u": DistributionValue(7.0, 7 / 13),
        "d": DistributionValue(6.0, 6 / 13),
    }
    assert (metrics.instance, metrics.weight) == ("type,value", 5)
    top = tg.HistogramOfSums("type", "value", 1, ratios=False, where="value > 1")
    assert dict(top.calculate(tables["TYPES"]).value.scalars()) == {
        "bins": 2,
        **{"sum.d": 6.0, "tailSum": 6.0},
    }
    binned = tg.HistogramOfSums("value", "value", binning="value >= 3").calculate(tables["TYPES"])
    assert [(k, v.absolute) for k, v in binned.value.values.items()] == [("true", 10), ("false", 3)]
    exact = tg.HistogramOfSums("x", "x").calculate(tables["LONG"]).value  # 2^62 twice is 2^63
    assert [v.absolute for v in exact.values.values()] == [2.0**63, 2.0**53]
    for wrong in (tg.HistogramOfSums("type", "type"), tg.HistogramOfSums("nope", "value")):
        assert isinstance(wrong.calculate(tables["TYPES"]).outcome.error, tg.PreconditionError), (
            wrong
        )


def test_a_sum_that_spark_cannot_add_fails(spark):
    table = spark.sql("SELECT 'a' AS s, CAST('9e37' AS DECIMAL(38, 0)) AS x FROM range(9)")
    metrics = tg.HistogramOfSums("s", "x").calculate(table)
    assert "exceeds what Spark can add" in str(metrics.outcome.error)


def test_quantiles_are_within_their_bound(spark):
    """The table contains the integers from -1000 to 999, as in Deequ's tests."""
    table = spark.range(-1000, 1000)
    metrics = tg.ApproxQuantiles("id", [0.25, 0.5, 0.75]).calculate(table).value
    for rank, value in zip((0.25, 0.5, 0.75), metrics.values(), strict=True):
        assert abs((value + 1000 + 1) / 2000 - rank) <= 0.01
    assert tg.ApproxQuantile("id", 0).calculate(table).value == -1000
    assert tg.ApproxQuantile("id", 1).calculate(table).value == 999


@pytest.mark.parametrize("n", [1, 10, 100, 1000, 10_000, 100_000, 1_000_000])
def test_distinct_counts_are_within_three_standard_errors(spark, n):
    """Deequ's own sketch is 7.4% off at a million."""
    metrics = tg.ApproxCountDistinct("id").calculate(spark.range(n)).value
    assert abs(metrics - n) <= 3 * 0.0163 * n


def test_a_failure_is_a_metric_and_affects_only_its_analyzer(tables):
    table = tables["NUM"]
    analyzers = [
        tg.Size(),
        tg.Mean("nope"),
        tg.Completeness("att1"),
        tg.Compliance("syntax", "att1 >"),
        tg.Compliance("unknown", "nope > 1"),
        tg.Compliance("type", "att1"),
        tg.Uniqueness("att1", where="nope = 1"),
        tg.Size(where="att1 > 1) OR (att1 < 9"),
        tg.Compliance("division", "1 / (att1 - 3) > 0"),
        tg.Size(where="CAST('x' AS INT) = att1"),
        tg.Distinctness("att2", where="1 / (att1 - 3) > 0"),
        tg.Distinctness("att2"),
        tg.Size(where="att1 > 3 -- the large ones"),
    ]
    metrics = tg.calculate(table, analyzers)
    outcome = {
        a: type(m.outcome.error) if m.failed else m.value
        for a, m in zip(analyzers, metrics, strict=True)
    }
    assert list(outcome.values()) == [
        6.0,
        tg.NoSuchColumnError,
        1.0,
        tg.UnresolvedExpressionError,
        tg.UnresolvedExpressionError,
        tg.UnresolvedExpressionError,
        tg.UnresolvedExpressionError,
        tg.UnresolvedExpressionError,
        tg.MetricRuntimeError,
        tg.MetricRuntimeError,
        tg.MetricRuntimeError,
        4 / 6,
        3.0,
    ]
    assert "DIVIDE_BY_ZERO" in str(metrics[8].outcome.error)


@pytest.mark.parametrize(
    ("analyzer", "says", "place"),
    [
        (tg.Size(where="att1 >"), "near end of input", "(line 1, pos 6)"),
        (tg.Size(where="att1 > 1) OR (att1 < 9"), "near ')'", "(line 1, pos 8)"),
        (tg.Size(where="att1 > 1, true"), "near ','", "(line 1, pos 8)"),
        (tg.Size(where="att1 > 1 AS big"), "'att1 > 1 AS big' has an alias", ""),
        (tg.Compliance("c", "att1 = = 1"), "near '='", "(line 1, pos 7)"),
        (tg.CustomSql("SELECT sum(att1 FROM data"), "near 'FROM'", "(line 1, pos 16)"),
        (tg.Compliance("c", "att1"), "att1 is of type", "not a condition"),
        (tg.Size(where="att1"), "att1 is of type", "not a condition"),
        (tg.Compliance("c", "att1 > 1) OR (true"), "near ')'", "(line 1, pos 8)"),
        (tg.Compliance("c", "nope > 1"), "`nope`", ""),
        (tg.CustomSql("sum(att1"), "near end of input: missing ')'", "(line 1, pos 8)"),
        (tg.Histogram("att1", binning="att1 /"), "near end of input", "(line 1, pos 6)"),
        (
            tg.HistogramOfSums("att1", "att2", binning="(att1"),
            "near end of input",
            "(line 1, pos 5)",
        ),
    ],
)
def test_syntax_errors_point_into_the_users_expression(tables, analyzer, says, place):
    (metric,) = tg.calculate(tables["NUM"], [analyzer])
    error = metric.outcome.error
    assert isinstance(error, tg.UnresolvedExpressionError)
    assert says in str(error)
    assert str(error).endswith(place)
    assert "__tidegauge" not in str(error)
    assert "; line " not in str(error)


def test_foreign_names_are_quoted(spark):
    odd = "a`b; drop table x -- 'c\""
    table = spark.createDataFrame([(1, "u"), (None, "v")], "x int, y string").toDF(odd, "a.b")
    name = "`" + odd.replace("`", "``") + "`"
    assert tg.Completeness(name).calculate(table).value == 0.5
    assert tg.Uniqueness("`a.b`").calculate(table).value == 1.0
    assert tg.Completeness("a.b").calculate(table).failed


def test_fields_of_structs_are_columns(spark):
    table = spark.createDataFrame([((1,),), ((None,),)], "s struct<zip int>")
    assert tg.Completeness("s.zip").calculate(table).value == 0.5
    assert tg.Maximum("s.zip").calculate(table).value == 1.0


def test_calculate_returns_metrics_in_order_and_computes_repetitions_once(tables):
    params = [tg.Mean("att1"), tg.Size(), tg.Mean("att1")]
    assert [m.value for m in tg.calculate(tables["NUM"], params)] == [3.5, 6.0, 3.5]


def test_saved_states_can_be_merged(tables):
    """Deequ's incremental computation has the same methods."""
    from tidegauge.analyzers.core.analyzer import InMemoryStateProvider

    first, both = InMemoryStateProvider(), InMemoryStateProvider()
    table = tables["MISSING"]
    one, other = table.where("item <= '2'"), table.where("item > '2'")
    for analyzer in (
        tg.Size(),
        tg.Completeness("att1"),
        tg.Uniqueness("att1"),
        tg.ApproxCountDistinct("att2"),
    ):
        analyzer.calculate(one, save_states_with=first)
        merged = analyzer.calculate(other, aggregate_with=first, save_states_with=both)
        assert merged == analyzer.calculate(table)
        assert analyzer.load_state_and_compute_metric(both) == merged


def test_the_deviation_of_all_sales_equals_that_of_merged_marketplaces(spark):
    """The data come from Deequ's StateAggregationIntegrationTest."""
    sales = {"EU": [100, 20], "NA": [1000, 333, 12, 45, 123], "IN": [20]}
    rows = [(place, x) for place, xs in sales.items() for x in xs]
    table = spark.createDataFrame(rows, "place string, sales int")
    deviation = tg.StandardDeviation("sales")
    from tidegauge.analyzers.scan.scan import scan

    groups = scan(table, [deviation], ["place"]).groups
    actual = {
        key: deviation.compute_metric_from(g.states[deviation].value).value
        for key, g in groups.items()
    }
    assert actual == pytest.approx(
        {("EU",): 40.0, ("NA",): 366.1565785289129, ("IN",): 0.0}, rel=1e-12
    )
    whole = deviation.state_type.merge(g.states[deviation].value for g in groups.values())
    assert whole.metric_value() == pytest.approx(315.720579587394, rel=1e-12)
    assert (whole.count, whole.mean, whole.m2) == pytest.approx((8, 206.625, 797435.875))


PATTERN_CASES = {
    "EMAIL": (
        ["someone@example.org", "first.last+tag@sub.example.co.uk", "a@[127.0.0.1]", "x <me@a.io>"],
        ["someone", "someone@", "@example.org", "a b", "someone@localhost", ""],
    ),
    "URL": (
        [
            "http://foo.com/blah_blah",
            "https://www.example.com/foo/?bar=baz&q=1",
            "ftp://foo.bar/baz",
        ]
        + ["http://142.42.1.1:8080/", "see http://a.b-c.de now", "HTTP://EXAMPLE.ORG"],
        ["http://", "http://.", "//a.b", "foo.com", "http:// shouldfail.com", "rdar://1234.5"]
        + ["http://localhost"],
    ),
    "SOCIAL_SECURITY_NUMBER_US": (
        ["111-05-1130", "111 05 1130", "111051130", "no 123-45-6789 here"],
        ["000-05-1130", "666-05-1130", "900-05-1130", "111-00-1130", "111-05-0000"]
        + ["078-05-1120", "219-09-9999", "111-05 1130", "1111-05-1130", "something"],
    ),
    "CREDITCARD": (
        ["4111111111111111", "4111 1111 1111 1111", "4222222222222", "5555-5555-5555-4444"]
        + ["2223003122003222", "378282246310005", "3782 822463 10005", "30569309025904"]
        + ["6011111111111117", "3530111333300000", "paid with 4111111111111111."],
        ["411111111111111", "1234567890123456", "41111111111111111", "2220003122003222", "text"],
    ),
}


@pytest.mark.parametrize("name", PATTERN_CASES)
def test_built_in_patterns_match_their_examples(spark, name):
    good, bad = PATTERN_CASES[name]
    table = spark.createDataFrame([(text,) for text in good + bad], "s string")
    rows = tg.row_level_results(table, {"matches": tg.PatternMatch("s", name)}).collect()
    assert {row.s for row in rows if row.matches} == set(good)
    share = tg.PatternMatch("s", name).calculate(table).value
    assert share == len(good) / len(good + bad)


def test_zeros_of_decimals_are_compared_at_their_own_scale(spark):
    tiny = spark.sql(
        "SELECT CAST(d AS DECIMAL(38, 38)) d FROM VALUES ('1e-38'), ('0'), (NULL) AS t(d)"
    )
    (metric,) = tg.calculate(tiny, [tg.ZerosCount("d")])
    assert metric.value == 1


CONDITIONS = {
    "`i` IS NULL OR (`i` >= 0 AND `i` <= 990)": "1",
    "i IS NOT NULL": "1",
    "coalesce(i, 0) > 0": "1",
    "(COALESCE (x, -1.5) >= 0)": "1",
    "`s` IS NULL OR `s` IN ('1', 'b')": "1",
    "s RLIKE '^[0-9]+$'": "`s`",
    "i BETWEEN 1 AND 2": "`i`",
    "`coalesce` > 1": "`coalesce`",
    "x > 1e300": "`x`",
    "l IN (1, 2.5, 9223372036854775807)": None,
    "l <= 0.1234567890123456789": None,
    "s >= 1": None,
    "s IN (1, 2)": None,
    "i IN (1, 'x')": None,
    "i IS NULL OR s = '1'": None,
    "d > 1": None,
    "t > '2024-01-01'": None,
    "i / 0 > 1": None,
}


def test_rows_with_a_known_condition_are_counted_equally_by_all_methods(spark):
    frame = spark.sql(
        "SELECT i, l, x, s, d, t, i AS `coalesce` FROM VALUES"
        " (1, 1L, 1D, '1', 1.5BD, DATE '2024-01-02'), (-5, 9223372036854775807L, double('NaN'), 'b', -1BD, NULL),"
        " (NULL, NULL, NULL, NULL, NULL, NULL), (NULL, 2L, -0.0D, '', 0BD, DATE '2023-01-01')"
        " AS v(i, l, x, s, d, t)"
    )
    schema = Schema.from_frame(frame)
    assert {c: known_sql(c, schema) for c in CONDITIONS} == {
        c: known or c for c, known in CONDITIONS.items()
    }
    safe = [c for c in CONDITIONS if CONDITIONS[c]]
    results = scan(frame, [tg.Compliance(c, c) for c in safe]).single_group.states
    counts = frame.selectExpr(*(f"count({c})" for c in safe)).first()
    assert [results[tg.Compliance(c, c)].value.num_known for c in safe] == list(counts)
    assert set(counts) == {2, 3, 4}
