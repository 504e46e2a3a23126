"""Checks that compare with another table or with queries. Checks of a repository need no Spark."""

from decimal import Decimal
from math import nan

import pytest

import tidegauge as tg
from tidegauge.checks.comparisons import different_rows
from tidegauge.repository.testing import commit, day, spec

# --- rows without Spark


@pytest.mark.parametrize(
    ("left", "right", "within", "only", "others"),
    [
        ([(1,), (1,)], [(1,)], 0, [(1,)], []),
        ([(None, nan)], [(None, nan)], 0, [], []),
        ([(Decimal("3.0"), "a")], [(3, "a")], 0, [], []),
        ([([1, 2],)], [([1, 2],)], 0, [], []),
        ([(None,)], [(0,)], 0.5, [(None,)], [(0,)]),
        ([("a", 99.0), ("b", 1.0)], [("b", 1.02), ("a", 100.0)], 0.01, [("b", 1.0)], [("b", 1.02)]),
        ([(100.0,)], [(100.0,), (7.0,)], 0.01, [(100.0,)], [(7.0,), (100.0,)]),
        ([(True,)], [(False,)], 0.5, [(True,)], [(False,)]),
        ([(nan, 2.0), (nan, 1.0)], [(nan, 1.0), (nan, 2.0)], 0.01, [], []),
        ([(nan, 2.0), (1.0, nan)], [(nan, 2.01), (2.0, nan)], 0.01, [(1.0, nan)], [(2.0, nan)]),
    ],
)
def test_different_rows_returns_the_unmatched_rows_of_each_side(left, right, within, only, others):
    actual, lacking = different_rows(left, right, within)
    assert sorted(actual, key=repr) == only
    assert sorted(lacking, key=repr) == sorted(others, key=repr)


# --- repository without data


def test_a_partition_is_compared_with_the_partition_of_the_same_name(repo):
    commit(repo, day(1, rows=10), day(2, rows=10), day(3, rows=10))
    commit(repo, day(1, rows=10), day(2, rows=9), dataset="raw")
    check = tg.Check("d", dataset="d").has_size_of("raw")
    frame = tg.verify(repo, check, partitions="all").frame()
    assert frame["status"].tolist() == ["success", "failure", "failure"]
    assert frame["value"].tolist()[:2] == [0.0, pytest.approx(1 / 9)]
    assert frame["message"].tolist() == [
        "",
        "row count is 10, but 9 in raw",
        "Size(): the repository has no metric of 'raw' to compare with",
    ]
    assert frame["constraint"][0] == "Size(): as in raw"
    wide = tg.Check("d", dataset="d").has_size_of("raw", within=0.12, hint="Ask the loader.")
    some = tg.verify(repo, wide, partitions=["ds=2013-01-02", "ds=2013-01-03"]).frame()
    assert some["status"].tolist() == ["success", "failure"]
    assert some["message"][1].endswith("to compare with. Ask the loader.")


def test_a_removed_partition_is_not_compared_with(repo):
    commit(repo, day(1))
    commit(repo, day(1), dataset="raw")
    repo.store.mark_gone(repo.store.open_run(spec("raw")), ["ds=2013-01-01"])
    result = tg.verify(repo, tg.Check("d", dataset="d").has_size_of("raw"))
    assert result.frame()["message"].tolist() == [
        "Size(): the repository has no metric of 'raw' to compare with"
    ]


def test_query_checks_fail_without_data(repo):
    commit(repo, day(1))
    check = tg.Check("d", dataset="d").has_same_result("SELECT 1", "SELECT 1")
    (message,) = tg.verify(repo, check).frame()["message"]
    assert (
        message.partition(": ")[2]
        == "queries need data: verify a DataFrame, or use tidegauge check"
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda c: c.has_size_of("t", within=-0.1), "within must be the allowed difference"),
        (
            lambda c: c.has_size_of("t", within=float("nan")),
            "within must be the allowed difference",
        ),
        (lambda c: c.has_size_of(" "), "other must be a string"),
        (lambda c: c.has_same("Sice", "t"), "Size"),
        (lambda c: c.has_same_result("SELECT 1", None), "other must be a string"),
        (lambda c: c.has_same_result("a", "b").where("x"), "a query has its own WHERE"),
        (lambda c: c.has_size_of("t").warn(3), "warn"),
    ],
)
def test_invalid_comparison_parameters_are_refused(make, message):
    with pytest.raises(tg.TidegaugeError, match=message):
        make(tg.Check("d"))


def test_only_equal_counts_become_a_great_expectations_expectation():
    suite = tg.to_great_expectations(
        tg.Check("d").has_size_of("raw").has_size_of("raw", within=0.1).has_same_result("a", "b")
    )
    (one,) = suite["expectations"]
    assert one["type"] == "expect_table_row_count_to_equal_other_table"
    assert one["kwargs"] == {"other_table_name": "raw"}
    assert len(suite["meta"]["left_out"]) == 2


# --- Spark


@pytest.fixture
def tables(spark):
    """Return a repository and tables: orders of two days, and a ledger that lacks one order of the second day."""
    orders = [("a", 1.0, 1), ("b", 2.0, 1), ("a", 3.0, 2), ("c", 4.0, 2)]
    frame = spark.createDataFrame(orders, "who string, price double, day int")
    frame.coalesce(1).write.partitionBy("day").mode("overwrite").saveAsTable("cmp_orders")
    frame.where("who <> 'c'").createOrReplaceTempView("cmp_ledger")
    yield frame
    spark.sql("DROP TABLE cmp_orders")
    spark.catalog.dropTempView("cmp_ledger")


def test_a_frame_is_compared_with_tables_and_queries(tables):
    check = (
        tg.Check("orders")
        .has_size_of("cmp_ledger")
        .has_size_of("cmp_ledger", within=0.4)
        .has_size_of("cmp_ledger")
        .where("day = 1")
        .has_same("Sum('price')", "cmp_ledger")
        .has_same_result("SELECT who, sum(price) FROM data GROUP BY who", "SELECT 'a', 4")
        .has_same_result("SELECT sum(price) FROM data", "SELECT 10.001", within=0.001)
        .has_same_result("SELECT 1, 2", "SELECT 1")
        .has_same_result("SELECT nothing FROM data", "SELECT 1")
        .has_size_of("cmp_legder")
        .has_same("Sum('prize')", "cmp_ledger")
    )
    rows = tg.verify(tables, check).frame()
    assert rows["status"].tolist() == [
        *("failure", "success", "success", "failure", "failure", "success"),
        *["failure"] * 4,
    ]
    reported = rows["message"].tolist()
    assert reported[0] == "row count is 4, but 3 in cmp_ledger"
    assert reported[3].endswith(" is 10, but 6 in cmp_ledger")
    assert reported[4].endswith(
        ": 2 of 3 rows differ: ('b', 2.0) only in the first, ('c', 4.0) only in the first"
    )
    assert reported[6].endswith(": the results have 2 and 1 columns")
    assert "nothing" in reported[7]
    assert reported[8].endswith(": no dataset, table or view 'cmp_legder' to compare with")
    assert "prize" in reported[9]


def test_messages_do_not_show_values_of_private_columns(tables):
    query = "SELECT who FROM data", "SELECT 'x' AS who"
    check = tg.Check("orders").has_same_result(*query)
    (reported,) = tg.verify(tables, check, private=["who"]).frame()["message"]
    assert reported == "SELECT who FROM data: 4 of 4 rows differ"
    (reported,) = tg.verify(tables, check, examples=False).frame()["message"]
    assert reported == "SELECT who FROM data: 4 of 4 rows differ"


SPEC = """
dataset: orders
table: cmp_orders
partition_by: [day]
checks:
  - has_size_of: cmp_ledger
  - has_size_of: {other: cmp_ledger, within: 1, level: warning}
  - has_same: {analyzer: {Sum: price}, other: cmp_ledger}
  - has_same_result: {query: SELECT sum(price) FROM data, other: "SELECT 3.0 * {day}", within: 0.2}
"""


def test_a_file_compares_each_partition(tables, repo, tmp_path):
    from tidegauge.files.runs import run_checks

    path = tmp_path / "orders.yml"
    path.write_text(SPEC)
    summary = run_checks([str(path)], repo)
    assert summary.failed == []
    (table,) = summary.tables
    assert [line.partition("orders.yml")[2] for line in table.checked.failures()] == [
        ":6: error: day=2: row count is 2, but 1 in cmp_ledger",
        ":8: error: day=2: Sum of price is 7, but 3 in cmp_ledger",
    ]
    # The stored metrics are compared; the ledger was complete when it was measured.
    measured = spec_of("cmp_ledger", tmp_path)
    run_checks([str(measured)], repo)
    assert run_checks([str(path)], repo).text().count("error: day=2") == 0


def test_partitions_of_another_table_are_matched_by_value(spark, tables, repo, tmp_path):
    """The folder ``DAY=01`` matches the day 1 of a table whose integer column is named in another letter case."""
    from tidegauge.files.runs import run_checks

    rows = [("01", "a"), ("01", "b"), ("02", "a"), ("02", "c")]
    named = spark.createDataFrame(rows, "DAY string, who string").coalesce(1)
    named.write.partitionBy("DAY").parquet(str(tmp_path / "named"))
    path = tmp_path / "orders.yml"
    path.write_text(
        f"dataset: orders\npath: {tmp_path}/named\npartition_by: [DAY]\n"
        "checks:\n  - has_size_of: cmp_ledger\n"
    )
    summary = run_checks([str(path)], repo)
    assert summary.failed == []
    assert [line.partition("orders.yml")[2] for line in summary.tables[0].checked.failures()] == [
        ":5: error: DAY=02: row count is 2, but 1 in cmp_ledger"
    ]


def spec_of(dataset, folder):
    """Return the specification of a file that measures all orders under another dataset name."""
    path = folder / f"{dataset}.yml"
    text = SPEC.partition("checks:")[0].replace("dataset: orders", f"dataset: {dataset}")
    path.write_text(text + "analyzers: [{Sum: price}]\nchecks: [has_size: 1]\n")
    return path
