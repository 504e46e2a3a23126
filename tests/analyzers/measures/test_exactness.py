"""Regressions of exact metrics: cases that once were wrong."""

import math
from decimal import Decimal

import pytest

import tidegauge as tg
from tidegauge.analyzers.core.metric import Failure
from tidegauge.analyzers.core.partitions import SegmentSet
from tidegauge.analyzers.core.state import subtract
from tidegauge.analyzers.measures.counts import ColumnMatches
from tidegauge.analyzers.scan.scan import scan

pytestmark = pytest.mark.spark


def merged(data, analyzer, by):
    groups = scan(data, [analyzer], [by]).groups.values()
    states = [g.states[analyzer].value for g in groups]
    return analyzer.compute_metric_from(analyzer.state_type.merge(states)).value


def test_differences_of_wide_decimals_are_exact(spark):
    nines = Decimal("9" * 38)
    assert subtract(nines, nines) == 0.0
    wide = spark.sql("SELECT CAST('-99999999999999999999999999999999999999' AS DECIMAL(38,0)) AS x")
    assert tg.Range("x").calculate(wide).value == 0.0


def test_a_constant_stays_one_after_merging(spark):
    data = spark.sql(
        "SELECT 0.1D AS x, CAST(id AS DOUBLE) AS y, id % 3 AS p FROM range(21) WHERE id > 2"
    )
    assert merged(data, tg.Skewness("x"), "p") == 0.0
    assert merged(data, tg.Kurtosis("x"), "p") == 0.0
    assert math.isnan(merged(data, tg.Correlation("x", "y"), "p"))
    assert merged(data, tg.Correlation("y", "y"), "p") == pytest.approx(1.0)


def test_whole_rows_are_compared_to_the_microsecond_and_zeros_are_equal(spark):
    data = spark.sql(
        "SELECT * FROM VALUES (timestamp'2020-01-01 00:00:00.123456', 0.0D),"
        " (timestamp'2020-01-01 00:00:00.123999', 0.0D) t(t, x)"
    )
    assert tg.DuplicateRowCount().calculate(data).value == 0
    zeros = spark.createDataFrame([(0.0,), (-0.0,), (None,)], "x double")
    assert tg.DuplicateRowCount().calculate(zeros).value == 2


def test_case_sensitivity_follows_the_session(spark):
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        data = spark.createDataFrame([(1, 9), (2, 8)], "v int, V int")
        rows = tg.row_level_results(data, {"m": tg.Minimum("V")}).collect()
        assert {row.m for row in rows} == {9, 8}
        with tg.Repository("sqlite://") as repo:
            tg.analyze(data, tg.Suite("c", [tg.Size()], segments=[["V"]]), repository=repo)
            assert {"V=9", "V=8"} <= set(repo.metrics("c").segment)
    finally:
        spark.conf.set("spark.sql.caseSensitive", "false")


@pytest.mark.parametrize(
    "text", ["sum(sum(x)) over ()", "sum(x) OVER w", "explode(collect_list(x))"]
)
def test_custom_sql_cannot_read_other_groups(text):
    with pytest.raises(tg.IllegalAnalyzerParameterError, match="windows and generators"):
        tg.CustomSql(text).check_parameters()
    tg.CustomSql("max(overtime)").check_parameters()


def test_a_query_reads_the_data_by_a_name():
    tg.CustomSql("with x as (select 1 as y) select count(*) from `Data`, x")
    tg.CustomSql("FROM orders SELECT max(id)", view="orders")
    with pytest.raises(tg.IllegalAnalyzerParameterError, match="the query does not read 'data'"):
        tg.CustomSql("SELECT 1 -- data")
    with pytest.raises(tg.IllegalAnalyzerParameterError, match="view must be one word"):
        tg.CustomSql("SELECT 1 FROM a.b", view="a.b")


def test_queries_read_one_partition_or_the_whole_table(spark):
    """Pairs of rows with one key: 2 * 2 + 1 in a, 1 in b, 3 * 3 + 1 in both together."""
    rows = [("a", "x", 1), ("a", "x", 2), ("a", "y", 3), ("b", "x", 4)]
    data = spark.createDataFrame(rows, "ds string, k string, n int")
    pairs = tg.CustomSql("SELECT count(*) FROM data l JOIN data r ON l.k = r.k", "pairs", "sum")
    late = tg.CustomSql("SELECT max(n) FROM data WHERE n < 3", "late", where="k = 'x'")
    groups = scan(data, [pairs, late, tg.Size()], ["ds"]).groups
    actual = {
        key: [a.compute_metric_from(g.states[a].value) for a in (pairs, late)]
        for key, g in groups.items()
    }
    assert [m.value for m in actual["a",][:1]] == [5.0]
    assert [(m.value, m.weight) for m in actual["a",]] == [(5.0, 3), (2.0, 2)]
    assert actual["b",][0].value == 1.0
    assert actual["b",][1].empty  # the query's result is null
    whole = tg.calculate(data, [pairs, late])
    assert [m.value for m in whole] == [10.0, 2.0]
    states = [g.states[pairs].value for g in groups.values()]
    assert pairs.compute_metric_from(pairs.state_type.merge(states)).value == 6.0
    assert tg.CustomSql("SELECT 7 FROM data", where="n > 9").calculate(data).empty
    assert not [v for v in spark.catalog.listTables() if v.name.startswith("tidegauge_")]


def test_errors_of_queries_name_the_problem(spark):
    data = spark.createDataFrame([("a", 1), ("b", 0)], "ds string, n int")
    params = {
        "SELECT n FROM data": "returned more than one row",
        "SELECT n FROM data WHERE n > 5": "returned no rows",
        "SELECT min(n), max(n) FROM data": "2 columns",
        "SELECT max(ds) FROM data": "returned a str, not a number",
        "SELECT max(nope) FROM data": "UNRESOLVED_COLUMN",
        "SELECT max(n) FROM data, nosuch": "TABLE_OR_VIEW_NOT_FOUND",
        "SELECT FROM data; DROP TABLE data": "PARSE_SYNTAX_ERROR",
        "SELECT max(1 / n) FROM data": "DIVIDE_BY_ZERO",
    }
    metrics = tg.calculate(data, [tg.Size(), *map(tg.CustomSql, params)])
    assert metrics[0].value == 2.0
    for metric, message in zip(metrics[1:], params.values(), strict=True):
        assert message in str(metric.outcome.error), metric
    dirty = tg.CustomSql("SELECT max(1 / n) FROM data")  # one partition loses one metric
    groups = scan(data, [dirty], ["ds"]).groups
    assert groups["a",].states[dirty].value.number == 1.0
    assert isinstance(groups["b",].states[dirty], tg.Failure)
    kinds = SegmentSet(("n",), (("1",),))
    parts = scan(data, [tg.CustomSql("SELECT count(*) FROM data")], segments=[kinds]).single_group
    (outcome,) = next(iter(parts.segments.values())).states.values()
    assert "cannot be measured by segment" in str(outcome.error)


def test_columns_are_compared_by_key(spark):
    """Keys 1 and 2 match, 3 has two amounts and one status, and 4 is missing."""
    spark.sql(
        "VALUES (1, 10.0D, 'new'), (2, double('NaN'), null), (3, 1.0D, 'x'), (3, 2.0D, 'x'),"
        " (null, 7.0D, 'y'), (5, 0.0D, 'z'), (5, null, 'z') AS t(key, amount, status)"
    ).createOrReplaceTempView("compared_with")
    data = spark.sql(
        "VALUES ('a', 1, 10.0D, 'old'), ('a', 1, 11.0D, 'new'), ('a', 2, double('NaN'), null),"
        " ('b', 3, 1.0D, 'x'), ('b', 4, 5.0D, 'x'), ('b', null, 7.0D, 'y'), ('b', 5, 0.0D, 'z')"
        " AS t(ds, id, amount, status)"
    )
    match = tg.ColumnMatch(["amount", "status"], "compared_with", "id", reference_keys="key")
    metrics = match.calculate(data)
    assert metrics.value == {"amount": 2 / 5, "status": 4 / 5}
    assert (metrics.instance, metrics.weight) == ("id", 5)
    groups = scan(data, [match], ["ds"]).groups
    states = {key: g.states[match].value for (key,), g in groups.items()}
    assert states == {"a": ColumnMatches((2, 2), 3), "b": ColumnMatches((0, 2), 2)}
    some = tg.ColumnMatch("status", "compared_with", "id", reference_keys="key", where="id < 2")
    assert some.calculate(data).value == {"status": 0.5}
    params = {
        tg.ColumnMatch("status", "nosuch", "id"): "TABLE_OR_VIEW_NOT_FOUND",
        tg.ColumnMatch("status", "compared_with", "id"): "UNRESOLVED_COLUMN",
        tg.ColumnMatch("nope", "compared_with", "id"): "no column 'nope'",
    }
    for metric, message in zip(tg.calculate(data, params), params.values(), strict=True):
        assert message in str(metric.outcome.error), metric


def test_only_analyzers_that_cannot_compare_or_group_fail(spark):
    spark.sql(
        "SELECT array(1) AS a, map(1, 2) AS m, date'2020-01-01' AS d"
    ).createOrReplaceTempView("odd_types")
    data = spark.sql("SELECT 1 AS x, INTERVAL '1' YEAR AS i, 'a' AS s")
    bad = [
        tg.ReferentialIntegrity("x", "odd_types", "a"),
        tg.DatasetMatch("x", "odd_types", "m"),
        tg.Uniqueness("i"),
        tg.Compliance("raises", "raise_error('boo') IS NULL"),
    ]
    metrics = tg.calculate(data, [tg.Size(), *bad])
    assert metrics[0].value == 1
    assert all(metric.failed for metric in metrics[1:])


def test_internal_column_names_do_not_clash(spark):
    names = ["_k0", "_g0", "_v0", "_x0", "_r0", "_s0", "_c0", "_found"]
    data = spark.createDataFrame([tuple(range(8))], ", ".join(f"{n} int" for n in names))
    data.createOrReplaceTempView("our_names")
    params = [
        tg.Sum("_c0"),
        tg.CountDistinct("_g0"),
        tg.ReqQuantile("_v0", 0.5),
        tg.ReferentialIntegrity("_x0", "our_names", "_x0"),
    ]
    states = scan(data, params, ["_k0"]).groups["0",].states
    assert not [a for a, o in states.items() if isinstance(o, Failure)]


@pytest.mark.soak
@pytest.mark.classic
def test_searching_for_failing_groups_is_cheap(spark):
    from tests.support.spark_actions import counted

    data = spark.range(64).selectExpr("id", "id % 16 AS p", "id - 5 AS x")
    good = [tg.Size(), tg.Mean("x")]
    bad = tg.Compliance("bad", "1 / x > 0")
    with counted(spark) as plain:
        scan(data, good, ["p"])
    with counted(spark) as actual:
        groups = scan(data, [*good, bad], ["p"]).groups
    assert {k for k, g in groups.items() if isinstance(g.states[bad], Failure)} == {("5",)}
    # log2 of the 3 units of the job, and of the 16 groups, each with one more
    assert len(actual) - len(plain) <= math.ceil(math.log2(3)) + 1 + math.log2(16) + 1


@pytest.mark.soak
def test_the_search_for_a_rule_that_fails_everywhere_stops_and_keeps_results(spark):
    data = spark.range(200).selectExpr(
        "id", "id % 100 AS p", "CASE WHEN id % 100 < 99 THEN 0 ELSE 1 END AS x"
    )
    bad = tg.Compliance("bad", "1 / x > 0")
    groups = scan(data, [tg.Size(), bad], ["p"]).groups
    failed = {k for k, g in groups.items() if isinstance(g.states[bad], Failure)}
    assert len(failed) >= 99
    assert all(g.states[tg.Size()].value.num_matches == 2 for g in groups.values())
