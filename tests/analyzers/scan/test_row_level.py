"""Results of single rows."""

import pytest

import tidegauge as tg

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def table(spark):
    rows = [(1, "a", 5), (2, None, 6), (3, "bb", None), (3, "a", 0), (None, None, 1)]
    return spark.createDataFrame(rows, "id int, s string, x int").coalesce(1)


def results(table, analyzer, **options):
    rows = tg.row_level_results(table, {"it": analyzer}, **options).collect()
    return [row["it"] for row in sorted(rows, key=lambda r: (r["id"] or 9, r["x"] is not None))]


@pytest.mark.parametrize(
    ("analyzer", "expected"),
    [
        (tg.Completeness("s"), [True, False, True, True, False]),
        (tg.Compliance("r", "x > 4"), [True, True, False, False, False]),
        (tg.PatternMatch("s", "^a"), [True, False, False, True, False]),
        (tg.PatternMatch("s", "^$", "empty"), [False, True, False, False, True]),
        (tg.PatternMatch("s", "^a", "ignore"), [True, None, False, True, None]),
        (tg.Minimum("x"), [5, 6, None, 0, 1]),
        (tg.Maximum("x"), [5, 6, None, 0, 1]),
        (tg.MinLength("s"), [1, None, 2, 1, None]),
        (tg.MaxLength("s", "empty"), [1, 0, 2, 1, 0]),
        (tg.Uniqueness("id"), [True, True, False, False, None]),
        (tg.UniqueValueRatio("id"), [True, True, False, False, None]),
        (tg.DuplicateRowCount("id"), [False, False, True, True, None]),
        (tg.DuplicateRowCount(), [False] * 5),
    ],
    ids=repr,
)
def test_each_row_has_a_result(table, analyzer, expected):
    assert results(table, analyzer) == expected


def test_rows_outside_the_filter_pass_or_are_null(table):
    rule = tg.Completeness("s", where="x > 4")
    assert results(table, rule) == [True, False, True, True, True]
    assert results(table, rule, filtered_row="null") == [True, False, None, None, None]
    assert results(table, tg.Minimum("x", where="x > 5")) == [None, 6, None, None, None]
    alone = tg.Uniqueness("id", where="x IS NOT NULL")  # the other 3 does not count
    assert results(table, alone, filtered_row="null") == [True, True, None, True, None]


def test_the_error_for_an_analyzer_without_row_level_results(table):
    with pytest.raises(tg.SuiteError, match="has no row-level result"):
        tg.row_level_results(table, {"it": tg.Mean("x")})
    with pytest.raises(tg.SuiteError, match="has no row-level result"):
        tg.row_level_results(table, {"it": tg.Range("x")})
    with pytest.raises(tg.SuiteError, match="already has a column 'ID'"):
        tg.row_level_results(table, {"ID": tg.Completeness("x")})
    with pytest.raises(tg.NoSuchColumnError):
        tg.row_level_results(table, {"it": tg.Completeness("nope")})
    with pytest.raises(tg.IllegalAnalyzerParameterError, match="'true' or 'null'"):
        tg.row_level_results(table, {"it": tg.Completeness("x")}, filtered_row="no")
