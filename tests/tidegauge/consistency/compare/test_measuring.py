"""Comparing logged with backfilled rows: examples, types, joins, and a naive comparison in Python."""

import datetime as dt
import math
import random
from decimal import Decimal

import pytest

from tests.conftest import soak
from tests.tidegauge.consistency import naive
from tidegauge.analyzers.core.errors import (
    HistoryError,
    IllegalAnalyzerParameterError,
    PreconditionError,
    UnknownNameError,
)
from tidegauge.consistency.compare.comparison import compare, drift, measure
from tidegauge.consistency.compare.equality import Tolerance
from tidegauge.consistency.compare.join import Alignment, _type_problems, pair
from tidegauge.consistency.compare.measures import ConsistencyCells, ConsistencyRows

pytestmark = pytest.mark.spark
N, NAN, INF = None, math.nan, math.inf
TALL = Decimal(10**27 + 1)  # Python would round sums to 28 digits, so sums are written out


def at(hour, minute=0, day=10):
    return dt.datetime(2021, 4, day, hour, minute, tzinfo=dt.UTC)


def numbers(comparison, bucket=None):
    """Return every number of one group, by feature and metric."""
    frame = comparison.metrics()
    if bucket is not None:
        frame = frame[frame.hr_minute == bucket]
    return {(r.feature_name, r.metric_name): r.number for r in frame.itertuples() if not r.error}


def compare_values(spark, kind, values, **options):
    """Compare pairs of values of one type, (logged, backfilled), one row for each pair."""
    schema = f"id int, ts long, x {kind}"
    sides = [[(i, 0, pair[side]) for i, pair in enumerate(values)] for side in (0, 1)]
    a, b = (spark.createDataFrame(rows, schema) for rows in sides)
    return compare(a, b, ["id"], bucket_minutes=None, partition_by=(), **options)


# The example rows of Chronon's CompareTest.
EXAMPLE_SCHEMA = "keyId long, ts timestamp, ds string, serial int, value int, rating double"
EXAMPLE_BACKFILLED = [
    (1, at(9), "2021-04-10", 1, 1, 1.0),
    (1, at(11), "2021-04-10", 1, 2, 2.0),
    (2, at(15), "2021-04-10", 2, 2, 2.0),
    (3, at(19), "2021-04-10", 3, N, 1.0),
]
EXAMPLE_LOGGED = [
    (1, at(9), "2021-04-10", 1, 1, 5.0),
    (1, at(11), "2021-04-10", 2, 3, 2.0),
    (2, at(15), "2021-04-10", 2, 5, 6.0),
    (3, at(19), "2021-04-10", 3, N, 1.0),
]


@pytest.fixture(scope="module", params=["equal names", "mapped names"])
def example(request, spark):
    """Return the four rows, and the same rows with renamed and mapped logged columns."""
    logged, backfilled = (
        spark.createDataFrame(r, EXAMPLE_SCHEMA) for r in (EXAMPLE_LOGGED, EXAMPLE_BACKFILLED)
    )
    renamed = {}
    if request.param == "mapped names":
        renamed = {name: f"my {name}" for name in ("serial", "value", "rating")}
        logged = logged.withColumnsRenamed(renamed)
    return compare(logged, backfilled, ["keyId"], logged_as=renamed)


@pytest.mark.parametrize(
    ("case", "bucket", "expected"),
    [
        (
            "11h",
            "11-00",
            {("serial", "mismatch"): 1, ("value", "mismatch"): 1, ("rating", "mismatch"): 0},
        ),
        (
            "both null",
            "19-00",
            {
                ("value", "both_null"): 1,
                ("value", "mismatch"): 0,
                ("value", "missing"): 0,
                ("value", "extra"): 0,
            },
        ),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_hours_of_the_example_have_the_expected_mismatches(example, case, bucket, expected):
    values = numbers(example, bucket)
    assert {key: values[key] for key in expected} == expected


def test_smape_of_a_day_equals_the_hand_computed_value(example):
    values = numbers(example.merged(["ds"]))
    expected = {"serial": 1 / 15, "value": 4 / 14, "rating": 0.4}
    for name, smape in expected.items():
        assert values[name, "smape"] == pytest.approx(smape, rel=1e-12)
    # 1/3, 0, 0, 0; 0, 1/5, 3/7 without the null; 4/6, 0, 4/8, 0: a missing value is not an agreement
    assert values["serial", "smape_mean"] == pytest.approx(1 / 12)
    assert values["value", "smape_mean"] == pytest.approx((1 / 5 + 3 / 7) / 3)
    assert values["rating", "smape_mean"] == pytest.approx((4 / 6 + 4 / 8) / 4)
    assert values["rating", "delta-min"] == -4.0  # b - a


def test_the_long_form_of_the_example(example):
    frame = example.long()
    assert list(frame.columns) == [
        "ds", "hr_minute", "group_by_name", "feature_name", "metric_name", "histogram", "number",
    ]  # fmt: skip
    assert set(frame.hr_minute) == {"09-00", "11-00", "15-00", "19-00"}
    one_only = frame.histogram.isna() ^ frame.number.isna()
    assert one_only.all()
    assert all(len(h) == 7 for h in frame.histogram.dropna())
    row = frame[(frame.hr_minute == "15-00") & (frame.feature_name == "rating")]
    by_metric = row.set_index("metric_name")
    assert by_metric.histogram["delta"] == [-4.0] * 7
    assert by_metric.histogram["logged"] == [6.0] * 7
    assert by_metric.number["mismatch"] == 1.0
    assert by_metric.number["total"] == 1.0
    # a column of nulls has no distribution, and no rows in the long form
    nulls = frame[(frame.hr_minute == "19-00") & (frame.feature_name == "value")]
    assert set(nulls.metric_name) == {"mismatch", "missing", "extra", "both_null", "total"}


@pytest.mark.soak
def test_a_table_equals_itself_also_with_fewer_columns(spark):
    whole = spark.createDataFrame(EXAMPLE_BACKFILLED, EXAMPLE_SCHEMA)
    for other, features in ((whole, 3), (whole.drop("rating"), 2)):
        for logged, backfilled in ((whole, other), (other, whole)):
            metrics = compare(logged, backfilled, ["keyId"]).merged().metrics()
            assert len(metrics[metrics.metric_name == "total"]) == features
            bad = ["mismatch", "missing", "extra", "row_missing", "row_extra", "smape"]
            assert (metrics[metrics.metric_name.isin(bad)].number == 0).all()


JOIN_SCHEMA = "id long, ts timestamp, x int"


def test_null_keys_match_and_duplicates_do_not_multiply(spark):
    """Four rows on each side, one with a null key and one duplicate: four pairs, not seven rows."""
    rows = [(1, at(1), 10), (N, at(1), 20), (2, at(1), 30), (2, at(1), 40)]
    logged = spark.createDataFrame(rows, JOIN_SCHEMA)
    backfilled = spark.createDataFrame(rows[::-1], JOIN_SCHEMA)
    values = numbers(compare(logged, backfilled, ["id"]).merged())
    assert values["*", "row_matched"] == 4
    assert values["x", "mismatch"] == 0
    assert values["*", "row_duplicate"] == 2  # one on each side
    assert values["*", "row_null_key"] == 1  # one row, on both sides


@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz", "long"])
def test_a_log_of_milliseconds_matches_a_backfill_of_microseconds(spark, kind):
    """Times before 1970 are also cut to the earlier millisecond, as in a log."""
    times = [at(1).replace(microsecond=123_456), dt.datetime(1969, 1, 1, 2, 0, 0, 999_999, dt.UTC)]
    cut = [time.replace(microsecond=time.microsecond // 1000 * 1000) for time in times]
    rows = [(1, x, x.timestamp()) for x in cut]
    logged = spark.createDataFrame(rows, "id long, ts timestamp, x double")
    if kind == "long":
        logged = logged.selectExpr("id", "unix_millis(ts) AS ts", "x")
    backfilled = spark.createDataFrame(
        [(1, time, x) for time, (_, _, x) in zip(times, rows, strict=True)],
        "id long, ts timestamp, x double",
    )
    if kind == "timestamp_ntz":
        logged, backfilled = (
            frame.selectExpr("id", "CAST(ts AS TIMESTAMP_NTZ) AS ts", "x")
            for frame in (logged, backfilled)
        )
    values = numbers(compare(logged, backfilled, ["id"]).merged())
    assert (values["*", "row_matched"], values["x", "mismatch"]) == (2, 0)


def test_columns_that_exist_on_one_side_only_are_named(spark):
    logged = spark.createDataFrame([(1, at(1), 1, 5)], "id long, ts timestamp, x int, request int")
    backfilled = spark.createDataFrame([(1, at(1), 1, 2)], "id long, ts timestamp, x int, y int")
    comparison = compare(logged, backfilled, ["id"])
    notices = (
        "not compared, because the backfill does not have them: request of the log",
        "not compared, because the log does not have them: y of the backfill",
    )
    assert comparison.notices == comparison.merged().notices == notices


@pytest.mark.soak
def test_rows_with_equal_maps_match_in_any_order_of_keys(spark):
    low, high = "map('a', {0}, 'b', {1})", "map('b', {1}, 'a', {0})"
    frames = []
    for form in (low, high):
        maps = [form.format(*pair) for pair in ((1, 2), (2, 1), (1, 1))]
        nested = [f"array(struct(map('k', {m}) AS `m m`), NULL)" for m in maps]
        rows = [
            f"SELECT 1 AS id, 0L AS ts, {m} AS m, {n} AS n"
            for m, n in zip(maps, nested, strict=True)
        ]
        frames.append(spark.sql(" UNION ALL ".join(rows)))
    values = numbers(compare(*frames, ["id"], bucket_minutes=None, partition_by=()))
    assert (values["m", "total"], values["m", "mismatch"], values["n", "mismatch"]) == (3, 0, 0)


@pytest.mark.soak
def test_unmatched_rows_exist_on_one_side(spark):
    logged = [(1, at(1), 7), (1, at(1), 5), (1, at(1), 6), (9, N, 1), (8, at(2), 1)]
    backfilled = [(1, at(1), 5), (9, N, 1), (7, at(2), 1), (7, at(2), 2)]
    a, b = (spark.createDataFrame(rows, JOIN_SCHEMA) for rows in (logged, backfilled))
    comparison = compare(a, b, ["id"])
    assert numbers(comparison, "01-00")["*", "row_extra"] == 2
    assert numbers(comparison, "02-00")["*", "row_missing"] == 2
    assert ("x", "mismatch") not in numbers(comparison, "02-00")  # no rows, no metrics
    values = numbers(comparison.merged())
    kinds = ("matched", "missing", "extra", "duplicate", "null_key")
    assert [values["*", f"row_{kind}"] for kind in kinds] == [2, 2, 3, 3, 1]
    assert values["x", "mismatch"] == 0
    assert {
        r.weight for r in comparison.merged().metrics().itertuples() if r.feature_name == "*"
    } == {7}
    table = {(r.id, r.row_copy): r for r in comparison.table.where("id = 1").collect()}
    assert [table[1, i].row_presence for i in (1, 2, 3)] == ["matched", "extra", "extra"]
    assert [table[1, i].logged_x for i in (1, 2, 3)] == [5, 6, 7]


@pytest.mark.soak
def test_times_in_milliseconds_and_buckets_before_1970_are_assigned_correctly(spark):
    logged = spark.createDataFrame(
        [(1, -1, 1), (2, 90_000_000 + 1_800_000, 1)], "id int, ts long, x int"
    )
    backfilled = logged.selectExpr("id", "timestamp_millis(ts) AS ts", "x")
    comparison = compare(logged, backfilled, ["id"], bucket_minutes=30)
    assert set(comparison.groups) == {("1969-12-31", "23-30"), ("1970-01-02", "01-30")}
    assert numbers(comparison.merged())["*", "row_matched"] == 2
    naive_time = logged.selectExpr("id", "TIMESTAMP_NTZ'2021-04-10 07:59:59' AS ts", "x")
    comparison = compare(naive_time, naive_time, ["id"], bucket_minutes=15)
    assert set(comparison.groups) == {("2021-04-10", "07-45")}


def test_unmatched_rows_have_no_metrics_of_values(spark):
    """Rows without a counterpart are counted as rows. Features are measured on matched rows."""
    logged = [(i, at(1 + i % 2), i) for i in range(20)]
    backfilled = [row for row in logged if row[0] % 10 == 0]  # none at 02:00, 1 in 5 at 01:00
    a, b = (spark.createDataFrame(rows, JOIN_SCHEMA) for rows in (logged, backfilled))
    comparison = compare(a, b, ["id"])
    values = numbers(comparison, "02-00")
    assert (values["*", "row_extra"], values["*", "row_matched"]) == (10, 0)
    assert values["x", "total"] == 0
    assert not {("x", cell) for cell in ("mismatch", "missing", "extra", "smape")} & values.keys()
    values = numbers(comparison, "01-00")
    assert (values["*", "row_extra"], values["x", "total"]) == (8, 2)
    assert (values["x", "extra"], values["x", "mismatch"]) == (0, 0)


@pytest.mark.soak
def test_distributions_of_text_cover_matched_rows(spark, repo):
    """Row 9 is in the log only. Nulls are left out. A long string is stored by its beginning."""
    long = "é" * 201
    a = spark.createDataFrame(
        [(0, "a"), (1, "a"), (2, "a"), (3, "c"), (4, N), (5, long), (9, "z")], "id int, x string"
    )
    b = spark.createDataFrame(
        [(0, "a"), (1, "b"), (2, "b"), (3, "b"), (4, "b"), (5, long)], "id int, x string"
    )
    a, b = (side.selectExpr("*", "0L AS ts") for side in (a, b))
    comparison = compare(a, b, ["id"], repository=repo, dataset="d")
    metrics = numbers(comparison.merged())
    assert metrics["x", "logged_top"] == 3 / 5
    assert metrics["x", "backfilled_top"] == 4 / 6
    assert "logged_top" not in set(comparison.long().metric_name)
    hour = repo.metrics("d")["partition"].iloc[0]
    drifted = drift(repo, "d", "*.x", hour, record=True)
    assert (drifted.kind, drifted.baseline_rows, drifted.current_rows) == ("categorical", 6, 5)
    assert (drifted.unseen, drifted.lost) == (1 / 5, 4 / 6)  # c, and b
    shares = dict(zip(drifted.axis, drifted.current_values, strict=True))
    assert {text: share for text, share in shares.items() if len(text) == 1} == {
        "a": 3 / 5, "b": 0, "c": 1 / 5,
    }  # fmt: skip
    (kept,) = (text for text in shares if len(text) > 1)
    assert kept.startswith("é" * 200 + "~")
    assert repo.metrics("d", name="Consistency.lost")["value"].tolist() == [
        pytest.approx(4 / 6, abs=1e-9)
    ]


def test_no_value_of_a_private_feature_is_stored(spark, repo, tmp_path, monkeypatch):
    (tmp_path / "t.toml").write_text('[private]\ncolumns = ["mail", "pin"]\n')
    monkeypatch.setenv("TIDEGAUGE_CONFIG", str(tmp_path / "t.toml"))
    rows = [(0, "ann@example.org", 4711, "Ulm"), (1, "eve@example.org", 4712, "Ulm")]
    a = spark.createDataFrame(rows, "id int, mail string, pin long, city string")
    a = a.selectExpr("*", "0L AS ts")
    b = a.selectExpr("id", "ts", "concat(mail, '.') AS mail", "pin + 1 AS pin", "city")
    comparison = compare(a, b, ["id"], repository=repo, dataset="d")
    metrics = comparison.metrics()
    refused = metrics[metrics.error.fillna("").str.contains("private")]
    assert set(zip(refused.feature_name, refused.metric_name, strict=True)) == {
        ("mail", "logged_top"), ("mail", "backfilled_top"),
        ("pin", "delta"), ("pin", "logged"), ("pin", "backfilled"),
    }  # fmt: skip
    values = numbers(comparison)
    assert [values[name, "mismatch"] for name in ("mail", "pin", "city")] == [1, 1, 0]
    assert values["city", "logged_top"] == 1
    with pytest.raises(HistoryError, match=r"'\*.mail' is not stored"):
        drift(repo, "d", "*.mail", repo.metrics("d")["partition"].iloc[0])


def test_rows_are_compared_if_all_columns_are_keys(spark):
    rows = [(1, at(1)), (1, at(1)), (2, at(1))]
    a, b = (spark.createDataFrame(some, "id long, ts timestamp") for some in (rows, rows[1:]))
    values = numbers(compare(a, b, ["id"]))
    assert {key[1]: value for key, value in values.items()} == {
        "row_matched": 2, "row_missing": 0, "row_extra": 1, "row_duplicate": 1, "row_null_key": 0,
        "row_unmatched": 1 / 3,
    }  # fmt: skip


@pytest.mark.soak
def test_columns_distinguish_results(spark):
    schema = "id int, ts long, ds string, query_source string, x int"
    logged = spark.createDataFrame([(1, 0, "d1", "web", 1), (2, 0, "d1", "app", 2)], schema)
    backfilled = logged.drop("query_source").selectExpr("id", "ts", "'d' || id AS ds", "x")
    comparison = compare(logged, backfilled, ["id"], partition_by=("ds", "query_source"))
    assert comparison.group_by == ("ds", "query_source", "hr_minute")
    missing = "__HIVE_DEFAULT_PARTITION__"  # only in the backfill, which has no source
    kinds = {key[:2]: row_counts(comparison, key, "row_") for key in comparison.groups}
    assert kinds == {
        ("d1", "web"): {"row_matched": 1},
        ("d1", "app"): {"row_extra": 1, "row_unmatched": 1},  # the day of the row is also a key
        ("d2", missing): {"row_missing": 1, "row_unmatched": 1},
    }
    assert comparison.merged(["ds"]).group_by == ("ds",)
    with pytest.raises(UnknownNameError, match="'query_source'"):
        comparison.merged(["query_sauce"])


def row_counts(comparison, key, prefix):
    states = comparison.groups[key].states
    return {
        a.metric: value
        for a in comparison.measures
        if isinstance(a, ConsistencyRows) and (value := a.measure(states[a].value))
    }


NESTED = "struct<n: double, m: map<string, array<double>>>"


EQUALITY = [
    ("double", [(NAN, NAN), (0.0, -0.0), (NAN, 1.0), (INF, INF), (INF, -INF)], {}, 2),
    ("float", [(1.5, 1.5), (1.5, 1.25)], {}, 1),
    ("long", [(2**53, 2**53 + 1), (2**24 + 1, 2**24 + 1), (-(2**63), 2**63 - 1)], {}, 2),
    ("decimal(38,10)", [(TALL, Decimal(f"{TALL}.0000000001"))], {}, 1),
    ("byte", [(127, -128), (1, 1)], {}, 1),
    ("short", [(32767, -32768)], {}, 1),
    ("string", [("a", "a"), ("a", "A"), ("", " ")], {}, 2),
    ("boolean", [(True, True), (True, False)], {}, 1),
    ("binary", [(b"a", b"a"), (b"a", b"b")], {}, 1),
    ("date", [(dt.date(2020, 1, 1), dt.date(2020, 1, 2))], {}, 1),
    ("timestamp", [(at(1), at(1)), (at(1), at(2))], {}, 1),
    ("array<double>", [([NAN, N], [NAN, N]), ([1.0], [1.0, N]), ([], [])], {}, 1),
    ("map<string,int>", [({"a": 1, "b": N}, {"b": N, "a": 1}), ({"a": N}, {"b": N})], {}, 1),
    ("struct<a: int, b: string>", [((1, N), (1, N)), ((1, N), (1, ""))], {}, 1),
    (
        NESTED,
        [((NAN, {"k": [1.0]}), (NAN, {"k": [1.0]})), ((1.0, {"k": [1.0]}), (1.0, N))],
        {},
        1,
    ),
    ("double", [(1.0, 1.1), (1.0, 1.2), (NAN, 1.0), (INF, 1.0), (INF, INF)], {"abs": 0.15}, 3),
    ("double", [(100.0, 109.0), (100.0, 112.0), (INF, 1.0), (0.0, 0.0)], {"rel": 0.1}, 2),
    ("long", [(2**60, 2**60 + 1), (2**60, 2**60 + 2), (-(2**63), 2**63 - 1)], 1, 2),
    ("int", [(-(2**31), 2**31 - 1), (5, 6)], 1, 1),
    ("decimal(38,10)", [(TALL, Decimal(f"{TALL}.5"))] * 2, 0.25, 2),
    ("decimal(38,0)", [(Decimal("-9E37"), Decimal("9E37")), (Decimal(1), Decimal(2))], 1, 1),
    ("array<double>", [([1.0, N], [1.1, N]), ([1.0, N], [1.1, 1.0])], 0.5, 1),
    (NESTED, [((0.0, {"k": [1.0, N]}), (0.1, {"k": [1.1, N]})), (N, (1.0, N))], 0.2, 0),
]


@pytest.fixture(scope="module")
def equalities(spark):
    """Compare the cells of each case at once: one column for each case, filled up with nulls."""
    most = max(len(values) for _, values, _, _ in EQUALITY)
    columns = [values + [(N, N)] * (most - len(values)) for _, values, _, _ in EQUALITY]
    schema = "id int, ts long, " + ", ".join(f"x{i} {case[0]}" for i, case in enumerate(EQUALITY))
    a, b = (
        spark.createDataFrame(
            [(n, 0, *(values[n][side] for values in columns)) for n in range(most)], schema
        )
        for side in (0, 1)
    )
    tolerance = {f"x{i}": case[2] for i, case in enumerate(EQUALITY) if case[2]}
    comparison = compare(a, b, ["id"], bucket_minutes=None, partition_by=(), tolerance=tolerance)
    states = comparison.groups[()].states
    return {
        m.feature: states[m].value for m in comparison.measures if isinstance(m, ConsistencyCells)
    }


@pytest.mark.parametrize(
    "number", range(len(EQUALITY)), ids=[f"{kind}-{options}" for kind, _, options, _ in EQUALITY]
)
def test_cells_equal_hand_classified_values(equalities, number):
    _, values, _, mismatches = EQUALITY[number]
    state = equalities[f"x{number}"]
    assert state.mismatch == mismatches
    nulls = sum(a is b is N for a, b in values)
    assert state.matched - state.both_null == len(values) - nulls


def test_numbers_that_are_not_finite_are_counted_separately(spark):
    values = [(NAN, 1.0), (1.0, INF), (NAN, NAN), (3.0, 1.0), (N, 1.0), (1e308, 1e308)]
    actual = numbers(compare_values(spark, "double", values))
    assert actual["x", "smape"] == 0.5  # from the one pair of finite numbers with a finite sum
    assert actual["x", "not_finite"] == 4
    assert (actual["x", "logged_nan"], actual["x", "backfilled_nan"]) == (2, 1)
    assert actual["x", "delta-min"] == -2.0
    assert actual["x", "delta-max"] == INF


def test_signs_do_not_cancel_and_signed_zeros_are_equal(spark):
    values = [(-2, 2), (3, -3), (0, 0)]
    actual = numbers(compare_values(spark, "int", values))
    assert actual["x", "smape"] == 1.0
    assert actual["x", "smape_mean"] == pytest.approx(2 / 3)
    assert numbers(compare_values(spark, "int", [(0, 0)]))["x", "smape"] == 0.0


@pytest.mark.soak
def test_differences_of_wide_integers_and_decimals_are_exact(spark):
    values = numbers(compare_values(spark, "long", [(2**60, 2**60 + 1), (-(2**63), 2**63 - 1)]))
    assert values["x", "delta-min"] == 1.0
    assert values["x", "delta-max"] == 2.0**64
    values = numbers(compare_values(spark, "decimal(38,5)", [(TALL, Decimal(f"{TALL}.00001"))]))
    assert values["x", "delta-p50"] == 0.00001
    assert values["x", "mismatch"] == 1.0


def test_numbers_of_two_types_are_compared(spark):
    a = spark.createDataFrame([(1, 0, 3)], "id int, ts long, x int")
    b = a.selectExpr("CAST(id AS LONG) AS id", "ts", "3.5D AS x")
    values = numbers(compare(a, b, ["id"], bucket_minutes=None, partition_by=()))
    assert values["*", "row_matched"] == 1
    assert values["x", "delta-p50"] == 0.5


EDITS = [
    ("both-empty", [], [], (0, 0)),
    ("both-null", N, N, "both_null"),  # null has no insertions or deletions
    ("backfilled-null", [], N, "extra"),
    ("logged-null", N, [], "missing"),
    ("equal", ["abc", "def"], ["abc", "def"], (0, 0)),
    ("numbers", ["5", "6", "2"], ["1", "2", "3", "4"], (3, 2)),
    ("repeated", ["1", "2"], ["1", "1", "2"], (1, 0)),
    ("null-element", [N, "2"], [N, "1"], (1, 1)),
    ("letters", list("sitting"), list("kitten"), (2, 3)),
    ("logged-empty", [], ["1", "2"], (2, 0)),
    ("backfilled-empty", ["1", "2"], [], (0, 2)),
]


@pytest.fixture(scope="module")
def edits(spark):
    """Return the numbers of each case, one day per case, compared at once."""
    schema = "id int, ts long, ds string, x array<string>"
    a, b = (
        spark.createDataFrame([(1, 0, case[0], case[side]) for case in EDITS], schema)
        for side in (1, 2)
    )
    frame = compare(a, b, ["id"], bucket_minutes=None).metrics()
    return {
        day: {(r.feature_name, r.metric_name): r.number for r in rows.itertuples() if not r.error}
        for day, rows in frame.groupby("ds")
    }


@pytest.mark.parametrize(("case", "logged", "backfilled", "expected"), EDITS)
def test_edit_counts_equal_hand_computed_values(edits, case, logged, backfilled, expected):
    actual = edits[case]
    if isinstance(expected, str):
        assert not {("x", "edit_insert-max"), ("x", "edit_delete-max")} & actual.keys()
        assert actual["x", expected] == 1.0
        return
    assert (actual["x", "edit_insert-max"], actual["x", "edit_delete-max"]) == expected
    assert actual["x", "logged_length-p50"] == len(logged)
    assert actual["x", "backfilled_length-p50"] == len(backfilled)


@pytest.mark.soak
def test_arrays_that_are_too_long_are_counted(spark):
    long, other = list(range(20)), list(range(1, 21))
    values = [(long, other), (long, long), ([1], [2]), ([1], N)]
    actual = numbers(compare_values(spark, "array<int>", values, longest=19))
    assert actual["x", "edit_skipped"] == pytest.approx(1 / 3)
    assert actual["x", "edit_insert-max"] == 1.0
    assert (
        numbers(compare_values(spark, "array<int>", values, longest=20))["x", "edit_skipped"] == 0
    )
    near = compare_values(spark, "array<double>", [([1.0, 2.0], [1.2, 3.0])], tolerance={"x": 0.5})
    assert numbers(near)["x", "edit_insert-max"] == 1.0


def test_edit_counts_equal_a_plain_dynamic_program(spark):
    rng = random.Random(4)
    values = [
        tuple([rng.choice([N, 1, 2, 3]) for _ in range(rng.randrange(9))] for _ in range(2))
        for _ in range(soak(60, 1000))
    ]
    expected = []
    for a, b in values:
        shared = naive.longest_common(a, b)
        expected.append((len(b) - shared, len(a) - shared))
    schema = "id int, ts long, x array<int>"
    a, b = (
        spark.createDataFrame([(i, 0, v[s]) for i, v in enumerate(values)], schema) for s in (0, 1)
    )
    table = pair(a, b, Alignment(("id",), ("x",), partition_by=(), bucket_minutes=None))
    from tidegauge.consistency.compare.equality import common

    types = ({"type": "array", "elementType": "integer"},) * 2
    rows = table.selectExpr("id", f"{common('`logged_x`', '`x`', types)} AS shared").collect()
    actual = {row.id: row.shared for row in rows}
    assert [(len(b) - actual[i], len(a) - actual[i]) for i, (a, b) in enumerate(values)] == expected


@pytest.mark.soak
def test_keys_of_maps_are_compared(spark):
    values = [({"a": 1, "b": 2, "c": 3}, {"b": 2, "c": 4, "d": 5}), (N, {"a": 1})]
    actual = numbers(compare_values(spark, "map<string,int>", values))
    keys = ("missing_keys", "extra_keys", "mismatched_keys", "left_keys", "right_keys")
    assert [actual["x", key] for key in keys] == [1, 1, 1, 3, 3]
    near = compare_values(spark, "map<string,int>", values, tolerance={"x": 1})
    assert numbers(near)["x", "mismatched_keys"] == 0


ODD = ["a`b", "x y.z", "k", "it's", "π\n", "above", "row"]


def test_column_names_can_hold_any_characters(spark):
    kinds = (
        "array<int>",
        "map<string,int>",
        "double",
        "string",
        "int",
        "array<double>",
        "array<string>",
    )
    values = ([1], {"k": 1}, 1.0, "a", 1, [1.0], ["a"])
    from pyspark.sql.types import LongType, StructField, StructType

    types = spark.createDataFrame([], ", ".join(f"c{i} {k}" for i, k in enumerate(kinds))).schema
    fields = [StructField(n, f.dataType) for n, f in zip(ODD, types.fields, strict=True)]
    schema = StructType([StructField("k`ey", LongType()), StructField("ts", LongType()), *fields])
    frame = spark.createDataFrame([(1, 0, *values)], schema)
    tolerance = {"above": 0.5, "x y.z": 0.5}
    comparison = compare(frame, frame, ["k`ey"], group_bys={"g.'`": ODD}, tolerance=tolerance)
    metrics = comparison.metrics()
    assert set(metrics.feature_name) == {"*", *ODD}
    assert not metrics.error.notna().any()
    assert (metrics[metrics.metric_name == "mismatch"].number == 0).all()
    assert {m.instance for m in comparison.measures if isinstance(m, ConsistencyRows)} == {"g.'`"}


def test_all_mismatches_of_two_tables_are_reported_at_once(spark):
    a = spark.createDataFrame([], "id string, ts string, ds string, x int, m map<int,int>, n int")
    b = spark.createDataFrame(
        [], "id int, ts long, x string, y int, m map<int,int>, logged_n int, n int"
    )
    pairs = Alignment(
        ("id", "m"), ("x", "y", "n", "logged_n", "zz"), bucket_minutes=7, partition_by=("hr",)
    )
    with pytest.raises(PreconditionError) as error:
        pair(a, b, pairs)
    for part in (
        "bucket_minutes is 7, which does not divide a day",
        "neither side has a column 'hr'",
        "'id' is string in the log and integer in the backfill",
        "'m' is map, but rows cannot be joined by values of this type",
        "'ts' is long and string, not a timestamp or milliseconds",
        "'x' is integer in the log and string in the backfill",
        "the log has no 'y'",
        "the backfill has no 'zz'",
        "the comparison table would have two columns 'logged_n'",
    ):
        assert part in str(error.value)


def test_invalid_options_are_refused(spark):
    frame = spark.createDataFrame([(1, 0, "a")], "id int, ts long, x string")
    with pytest.raises(IllegalAnalyzerParameterError, match="'x' has type string"):
        compare(frame, frame, ["id"], tolerance={"x": 1})
    with pytest.raises(UnknownNameError, match="did you mean 'x'"):
        compare(frame, frame, ["id"], tolerance={"X": 1})
    for wrong in (-1, NAN, True, {"absolute": 1}, {}, "1"):
        with pytest.raises(IllegalAnalyzerParameterError, match="tolerance"):
            Tolerance.from_value(wrong)


FEATURES = "n int, d double, s string, l array<int>, m map<string,double>"
NAMES = ["n", "d", "s", "l", "m"]
FLOATS = [0.0, -0.0, NAN, INF, 1.5]


def side(rng, n):
    def maybe(value):
        return N if rng.random() < 0.2 else value

    def row():
        key = (maybe(rng.randrange(4)), rng.choice([at(h, m) for h in (1, 2, 3) for m in (0, 59)]))
        values = (
            maybe(rng.randrange(2)),
            maybe(rng.choice(FLOATS)),
            maybe(rng.choice(["", "a"])),
            maybe([rng.randrange(2)]),
            maybe({key: maybe(rng.choice(FLOATS)) for key in rng.sample("abc", rng.randrange(4))}),
        )
        return key, values

    return [row() for _ in range(n)]


def is_of_feature(measure, name):
    return getattr(measure, "feature", N) == name


def check_values(states, expected):
    """Compare the states of a feature in one bucket with lists of its parts."""
    differences = states["smape"]
    for field in ("pairs", "not_finite", "logged_nan", "backfilled_nan"):
        assert getattr(differences, field) == sum(expected[field]), field
    for field in ("difference", "size", "ratios"):
        assert getattr(differences, field) == pytest.approx(sum(expected[field])), field
    for name in ("delta", "logged", "backfilled"):
        distribution = states[name].distribution(name)
        assert distribution.count == len(expected[name])
        if expected[name]:  # few enough values that the sketches hold them all
            ends = [min(expected[name]), max(expected[name])]
            assert distribution.quantiles([0.0, 1.0]) == ends
    if "left_keys" in states:
        keys = states["left_keys"]
        assert keys.pairs == sum(expected["pairs_of_maps"])
        for field in ("missing", "extra", "mismatched", "left", "right"):
            assert getattr(keys, field) == sum(expected[field]), field


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(soak(1, 20)))
def test_random_frames_give_the_results_of_a_naive_comparison(spark, seed):
    rng = random.Random(seed)
    sides = side(rng, rng.randrange(30)), side(rng, rng.randrange(30))
    schema = f"id int, ts timestamp, {FEATURES}"
    a, b = (spark.createDataFrame([(*k, *v) for k, v in rows], schema) for rows in sides)
    comparison = compare(a, b, ["id"])

    def bucket(key):
        return "2021-04-10", f"{key[1].hour:02}-00"

    pairs = list(naive.pairs(*sides, bucket))
    expected = naive.cells(pairs)
    actual = {}
    for key, group in comparison.groups.items():
        for one in comparison.measures:
            state = group.states[one].value
            if isinstance(one, ConsistencyRows):
                actual[key, "*", one.metric] = one.measure(state)
            elif isinstance(one, ConsistencyCells):
                i = NAMES.index(one.feature)
                for cell in ("equal", "mismatch", "missing", "extra", "both_null"):
                    actual[key, i, cell] = getattr(state, cell)
                rows = next(
                    s.value for m, s in group.states.items() if isinstance(m, ConsistencyRows)
                )
                assert state.matched == rows.matched  # cells add up to the total
    actual = {
        k: v for k, v in actual.items() if v and k[2] not in {"row_null_key", "row_unmatched"}
    }
    assert actual == {k: v for k, v in expected.items() if v}
    for name in ("n", "d", "m"):
        of_values = naive.values(pairs, NAMES.index(name))
        for key, group in comparison.groups.items():
            states = {m.metric: s.value for m, s in group.states.items() if is_of_feature(m, name)}
            check_values(states, of_values[key])
    whole = measure(comparison.table, {"*": NAMES}, by=())
    day = comparison.merged()
    for one, outcome in (whole.groups[()].states if whole.groups else {}).items():
        assert outcome.value.agrees_with(day.groups[()].states[one].value), one


@pytest.mark.soak
def test_states_of_disjoint_keys_merge_to_the_whole(spark):
    """Also for distributions and sums."""
    rng = random.Random(11)
    schema = "id int, ts long, n double, l array<int>, m map<string,int>"

    def row(i):
        values = [[rng.randrange(3)] * rng.randrange(4), {rng.choice("ab"): rng.randrange(2)}]
        return (i, i * 600_000, rng.expovariate(1), *values)

    a, b = (spark.createDataFrame([row(i) for i in range(120)], schema) for _ in range(2))
    halves = [(f.where("id % 3 = 0"), f.where("id % 3 > 0")) for f in (a, b)]
    whole = compare(a, b, "id", partition_by="ds")
    parts = [compare(x, y, "id") for x, y in zip(*halves, strict=True)]
    assert len(whole.groups) == 20
    for key, group in whole.groups.items():
        for one, outcome in group.states.items():
            actual = [part.groups[key].states[one].value for part in parts]
            assert one.state_type.merge(actual).agrees_with(outcome.value), one


def test_nested_types_that_differ_are_reported_in_full():
    floats, texts = (
        {"type": "array", "elementType": kind, "containsNull": True} for kind in ("float", "string")
    )
    reported = _type_problems("x", (floats, texts), "the backfill", is_key=False, is_time=False)
    assert list(reported) == ["'x' is ARRAY<FLOAT> in the log and ARRAY<STRING> in the backfill"]


@pytest.mark.parametrize(
    ("logged", "backfilled", "mismatches", "also"),
    [
        ("array(0.1F, NULL, 2.5F)", "array(0.1D, NULL, 2.5D)", 0, {"edit_insert-max": 0}),
        ("array(0.1F)", "array(0.1000001D)", 1, {"edit_insert-max": 1, "edit_delete-max": 1}),
        ("array(1, 2)", "array(1L, 2L)", 0, {"edit_insert-max": 0}),
        ("array(1)", "array(1.5D)", 1, {"edit_insert-max": 1}),
        ("map('a', 0.1F)", "map('a', 0.1D)", 0, {"mismatched_keys": 0}),
        ("map('a', 0.1F)", "map('a', 0.2D)", 1, {"mismatched_keys": 1}),
        ("map('a', array(0.1F))", "map('a', array(0.1D))", 0, {"edit_insert-max": 0}),
        ("struct(0.1F AS x, 'y' AS s)", "struct(0.1D AS X, 'y' AS s)", 0, {}),
        ("struct(0.1F AS x, 'y' AS s)", "struct(0.1D AS x, 'z' AS s)", 1, {}),
        ("struct(array(0.1F) AS x)", "struct(array(0.1D) AS x)", 0, {}),
    ],
)
def test_nested_numbers_are_compared_like_plain_numbers(
    spark, logged, backfilled, mismatches, also
):
    sides = [spark.sql(f"SELECT 1 AS id, 0L AS ts, {sql} AS x") for sql in (logged, backfilled)]
    values = numbers(compare(*sides, ["id"]))
    expected = {"mismatch": mismatches, **also}
    assert {name: values["x", name] for name in expected} == expected


@pytest.mark.spark
def test_floats_and_doubles_are_compared_as_floats_in_all_metrics(spark):
    logged = spark.sql("SELECT 1 AS user, 0L AS ts, CAST(0.1 AS FLOAT) AS n, map('k', 0.1F) AS m")
    offline = spark.sql("SELECT 1 AS user, 0L AS ts, 0.1D AS n, map('k', 0.1D) AS m")
    merged_state = compare(logged, offline, "user").merged()
    assert str(merged_state).endswith("\ncompared as floats, because one side is a float: m, n")
    numbers = merged_state.metrics().set_index(["feature_name", "metric_name"])["number"]
    for feature in ("n", "m"):
        for name in ("mismatch", "smape", "smape_mean"):
            assert numbers[feature, name] == 0, (feature, name)
