"""The most frequent pairs of different values in compared rows."""

import pytest

import tidegauge as tg
from tidegauge.analyzers.core.errors import IllegalAnalyzerParameterError, NoSuchColumnError
from tidegauge.consistency.compare.join import AlignedPart, Alignment, pair, pair_parts

pytestmark = pytest.mark.spark
SCHEMA = "id int, ts long, city string, price double, tags map<string,int>"
LOGGED = [
    *((i, 0, "Köln", 1.0, {"a": 1}) for i in range(3)),
    *((i, 0, None, 1.0, {"a": 1, "b": 2}) for i in range(3, 5)),
    (5, 0, "Rome", 1.0, None),
    (6, 0, "Oslo", float("nan"), None),
    (7, 0, None, None, None),
    (8, 0, "Bern", 9.0, None),  # missing in the backfill
]
BACKFILLED = [
    *((i, 0, "Cologne", 1.25, {"a": 2}) for i in range(3)),
    *((i, 0, "Rome", 1.0, {"b": 2, "a": 1}) for i in range(3, 5)),
    (5, 0, None, 3.0, None),
    (6, 0, "Oslo", float("nan"), None),
    (7, 0, None, None, None),
]
ALIGNED = Alignment(("id",), ("city", "price", "tags"), partition_by=(), bucket_minutes=None)


@pytest.fixture(scope="module")
def table(spark):
    sides = (spark.createDataFrame(rows, SCHEMA) for rows in (LOGGED, BACKFILLED))
    return pair(*sides, ALIGNED)


def pair_rows(table, feature, **options):
    pairs = tg.consistency.value_pairs(table, feature, **options)
    assert list(pairs.columns) == ["logged", "backfilled", "rows"]
    return [tuple(row) for row in pairs.itertuples(index=False)]


def test_different_values_are_listed_by_frequency(table):
    expected = [("Köln", "Cologne", 3), (None, "Rome", 2), ("Rome", None, 1)]
    assert pair_rows(table, "city") == expected
    assert pair_rows(table, "city", limit=1) == expected[:1]
    assert pair_rows(table, "tags") == [("{a -> 1}", "{a -> 2}", 3)]
    assert pair_rows(table.where("id > 5"), "city") == []


def test_numbers_within_a_tolerance_are_equal(table):
    assert pair_rows(table, "price") == [("1.0", "1.25", 3), ("1.0", "3.0", 1)]
    assert pair_rows(table, "price", tolerance=0.5) == [("1.0", "3.0", 1)]


def test_pairs_come_from_rows_of_the_group_by(spark):
    """A row that only another group-by's backfill has is matched only there."""
    logged, backfilled = (spark.createDataFrame(rows, SCHEMA) for rows in (LOGGED, BACKFILLED))
    parts = [
        AlignedPart(backfilled.where("id < 2").select("id", "ts", "city"), {"places": ("city",)}),
        AlignedPart(backfilled.select("id", "ts", "price"), {"prices": ("price",)}),
    ]
    aligned = Alignment(("id",), ("city", "price"), partition_by=(), bucket_minutes=None)
    both = pair_parts(logged, parts, aligned)
    assert pair_rows(both, "city", group_by="places") == [("Köln", "Cologne", 2)]
    assert pair_rows(both, "price", group_by="prices")[0] == ("1.0", "1.25", 3)


def test_unknown_columns_and_invalid_limits_are_refused(table):
    with pytest.raises(NoSuchColumnError, match="logged_town"):
        tg.consistency.value_pairs(table, "town")
    with pytest.raises(
        IllegalAnalyzerParameterError, match="limit must be a positive number of pairs, not 0"
    ):
        tg.consistency.value_pairs(table, "city", limit=0)


@pytest.mark.parametrize("ds", [(), ("concat('2023-01-0', id) AS ds",)])
def test_each_side_is_shuffled_once(spark, ds, capsys):
    """One shuffle and one sort both number the rows of a key and join them."""
    rows = spark.range(0, 10, 1, 2)
    sides = [rows.selectExpr("id", "2L AS ts", f"{x}.5D AS price", *ds) for x in (3, 4)]
    pair(*sides, Alignment(("id",), ("price",))).explain()
    plan = capsys.readouterr().out
    assert "FullOuter" in plan
    assert plan.count("Exchange hashpartitioning") == 2
