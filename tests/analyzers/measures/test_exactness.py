"""Cases that a review found wrong once."""

import math
from decimal import Decimal

import pytest
from tidegauge.analyzers.core.exact import subtract
from tidegauge.analyzers.core.metric import Failure
from tidegauge.analyzers.scan.scan import scan

import tidegauge as tg

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


def test_a_constant_is_one_after_merging(spark):
    data = spark.sql(
        "SELECT 0.1D AS x, CAST(id AS DOUBLE) AS y, id % 3 AS p FROM range(21) WHERE id > 2"
    )
    assert merged(data, tg.Skewness("x"), "p") == 0.0
    assert merged(data, tg.Kurtosis("x"), "p") == 0.0
    assert math.isnan(merged(data, tg.Correlation("x", "y"), "p"))
    assert merged(data, tg.Correlation("y", "y"), "p") == pytest.approx(1.0)


def test_whole_rows_are_compared_to_the_microsecond_and_zeros_are_one(spark):
    data = spark.sql(
        "SELECT * FROM VALUES (timestamp'2020-01-01 00:00:00.123456', 0.0D),"
        " (timestamp'2020-01-01 00:00:00.123999', 0.0D) t(t, x)"
    )
    assert tg.DuplicateRowCount().calculate(data).value == 0
    zeros = spark.createDataFrame([(0.0,), (-0.0,), (None,)], "x double")
    assert tg.DuplicateRowCount().calculate(zeros).value == 2


def test_case_sensitivity_is_the_sessions(spark):
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
def test_custom_sql_may_not_look_beyond_the_group(text):
    with pytest.raises(tg.IllegalAnalyzerParameterError, match="windows and generators"):
        tg.CustomSql(text).check_parameters()
    tg.CustomSql("max(overtime)").check_parameters()


def test_what_cannot_be_compared_or_grouped_fails_alone(spark):
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


def test_our_names_are_nobodys(spark):
    names = ["_k0", "_g0", "_v0", "_x0", "_r0", "_s0", "_c0", "_found"]
    data = spark.createDataFrame([tuple(range(8))], ", ".join(f"{n} int" for n in names))
    data.createOrReplaceTempView("our_names")
    asked = [
        tg.Sum("_c0"),
        tg.CountDistinct("_g0"),
        tg.ReqQuantile("_v0", 0.5),
        tg.ReferentialIntegrity("_x0", "our_names", "_x0"),
    ]
    states = scan(data, asked, ["_k0"]).groups["0",].states
    assert not [a for a, o in states.items() if isinstance(o, Failure)]


@pytest.mark.soak
@pytest.mark.classic
def test_looking_for_the_dirty_groups_costs_little(spark):
    from tests.spark_actions import counted

    data = spark.range(64).selectExpr("id", "id % 16 AS p", "id - 5 AS x")
    good = [tg.Size(), tg.Mean("x")]
    bad = tg.Compliance("bad", "1 / x > 0")
    with counted(spark) as plain:
        scan(data, good, ["p"])
    with counted(spark) as found:
        groups = scan(data, [*good, bad], ["p"]).groups
    assert {k for k, g in groups.items() if isinstance(g.states[bad], Failure)} == {("5",)}
    # log2 of the 3 units of the job, and of the 16 groups, each with one more
    assert len(found) - len(plain) <= math.ceil(math.log2(3)) + 1 + math.log2(16) + 1


@pytest.mark.soak
def test_a_rule_that_is_bad_everywhere_is_given_up_and_keeps_what_was_found(spark):
    data = spark.range(200).selectExpr(
        "id", "id % 100 AS p", "CASE WHEN id % 100 < 99 THEN 0 ELSE 1 END AS x"
    )
    bad = tg.Compliance("bad", "1 / x > 0")
    groups = scan(data, [tg.Size(), bad], ["p"]).groups
    failed = {k for k, g in groups.items() if isinstance(g.states[bad], Failure)}
    assert len(failed) >= 99
    assert all(g.states[tg.Size()].value.num_matches == 2 for g in groups.values())
