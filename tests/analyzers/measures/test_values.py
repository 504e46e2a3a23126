"""Which values count as equal, and how they are written, for all types, collations and sessions."""

import datetime as dt
from decimal import Decimal
from math import isnan

import pyarrow as pa
import pytest

import tidegauge as tg
from tests.analyzers.core.state_strategies import frequent, hll, tuples
from tidegauge.analyzers.core.schema import Schema
from tidegauge.analyzers.core.state import read_state
from tidegauge.analyzers.measures.cardinality import Hashing, TupleState
from tidegauge.analyzers.measures.frequencies import FrequenciesAndNumRows
from tidegauge.analyzers.measures.histogram import bin_key, counts_by_key

TOKYO = dt.timezone(dt.timedelta(hours=9))


@pytest.mark.parametrize(
    ("value", "key"),
    [
        (0.1, "0.1"),
        (-0.00123, "-0.00123"),
        (-0.0, "0.0"),
        (0.001, "0.001"),
        (0.0001, "1.0E-4"),
        (100.0, "100.0"),
        (9999999.0, "9999999.0"),
        (10000000.0, "1.0E7"),
        (123456789.125, "1.23456789125E8"),
        (-1e20, "-1.0E20"),
        (0.0, "0.0"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
        (Decimal("0E-10"), "0.0000000000"),
        (Decimal("0.0000001"), "0.0000001"),
        (dt.datetime(2020, 1, 1, 19, 0, 0, 500000, TOKYO), "2020-01-01 10:00:00.5"),
        (dt.datetime(2020, 1, 1, 10), "2020-01-01 10:00:00"),
        (dt.date(2020, 1, 1), "2020-01-01"),
        (b"\xff\x00", "ff00"),
        ("a\nb", "a\\x0ab"),
    ],
)
def test_values_are_written_as_spark_writes_them(value, key):
    """Java's Double.toString has an exponent below 1e-3 and from 1e7 on, and so has CAST(x AS STRING)."""
    assert bin_key(value) == key


def test_floats_of_32_bits_are_written_with_their_own_digits():
    table = pa.table({"0": pa.array([0.1, 1e20], pa.float32()), "count": pa.array([1, 2])})
    assert list(counts_by_key(FrequenciesAndNumRows(table, 3))) == [("0.1", 1), ("1.0E20", 2)]


def test_frequencies_of_one_moment_can_be_added_in_every_time_zone():
    def state(zone):
        times = pa.array([0], pa.timestamp("us", zone))
        return FrequenciesAndNumRows(pa.table({"0": times, "count": pa.array([1])}), 1)

    both = state("Asia/Tokyo") + state("UTC") + state("Europe/Berlin")
    assert list(counts_by_key(both)) == [("1970-01-01 00:00:00", 3)]


def test_long_values_contain_a_digest_of_the_whole():
    """The digest is the beginning of the output of sha256sum for 201 times 'a'."""
    assert bin_key("a" * 201) == "a" * 200 + "~a92efd82109373e5"
    assert len(bin_key(b"\x01" * 101)) == 217


def first_version(state, head):
    """Return a state as the first version of its type wrote it: without the byte of the hashing."""
    payload = state.pack()
    return read_state(state.tag.replace("/2", "/1"), payload[:head] + payload[head + 1 :])


@pytest.mark.parametrize(("make", "head"), [(hll, 8), (tuples, 9)])
def test_old_states_can_be_merged_unless_numbers_were_hashed_differently(make, head):
    old, now = first_version(make([1, 2]), head), make([2, 3])
    assert old.hashing is Hashing.BY_TYPE
    both = old + now
    assert both.count == 4
    assert both.hashing is Hashing.BY_TYPE  # whose hashing is unknown
    kind = type(now)
    sizes = {"lg_k": now.lg_k} if kind is TupleState else {}
    fractions = kind(now.sketch, now.count, **sizes, hashing=Hashing.BY_VALUE)
    assert (now + fractions).hashing is Hashing.BY_VALUE
    assert (fractions + kind()).hashing is Hashing.BY_VALUE
    for older in (old, both):
        with pytest.raises(tg.StateMismatchError, match="partitions='all'"):
            older + fractions
    assert read_state(both.tag, both.pack()) == both


def test_old_sketches_of_top_values_can_be_merged():
    old, now = frequent(["2020-01-01 19:00:00"]), frequent(["2020-01-01 10:00:00"])
    assert set((old + now).top()) == {"2020-01-01 19:00:00", "2020-01-01 10:00:00"}


def test_integers_and_strings_are_hashed_as_before():
    schema = Schema.from_types({"i": "integer", "l": "long", "s": "string"})
    item = "CASE WHEN `s` IS NOT NULL THEN xxhash64(`s`) END"
    assert [schema.field(c).hash_sql for c in "ils"] == [
        "CAST(`i` AS BIGINT)",
        "CAST(`l` AS BIGINT)",
        item,
    ]
    assert len(tg.ApproxCountDistinct("l").aggregations(schema)) == 2


def merged(analyzer, frames):
    states = [analyzer.compute_state_from(frame) for frame in frames]
    return analyzer.compute_metric_from(analyzer.state_type.merge(states)).value


NUMBERS = {
    "CAST(1 AS INT)": "one",
    "1L": "one",
    "CAST(1 AS FLOAT)": "one",
    "1.0D": "one",
    "CAST(1 AS DECIMAL(5,2))": "one",
    "CAST(1.5 AS FLOAT)": "one and a half",
    "1.5D": "one and a half",
    "CAST(1.5 AS DECIMAL(10,2))": "one and a half",
    "CAST(1.5 AS DECIMAL(38,3))": "one and a half",
    "1e20D": "beyond the longs",
    "CAST('100000000000000000000' AS DECIMAL(38,0))": "beyond the longs",
    "CAST('12345678901234567890123' AS DECIMAL(38,0))": "no double",
    "CAST('12345678901234567890123' AS DECIMAL(38,4))": "no double",
    "CAST('1234567890123456789012300' AS DECIMAL(38,0))": "a hundred times that",
    "CAST('0.123456789012345678' AS DECIMAL(38,18))": "no double, either",
    "CAST('0.123456789012345679' AS DECIMAL(38,20))": "a little more",
    "double('NaN')": "NaN",
    "CAST('NaN' AS FLOAT)": "NaN",
    "double('inf')": "infinity",
    "-0.0D": "zero",
    "CAST(0 AS DECIMAL(38,18))": "zero",
}


@pytest.mark.spark
def test_equal_numbers_are_one_value_whatever_their_type(spark):
    hashes = ", ".join(
        Schema.from_frame(spark.sql(f"SELECT {sql} AS x")).field("x").hash_sql.replace("`x`", sql)
        for sql in NUMBERS
    )
    actual = list(spark.sql(f"SELECT {hashes}").first())
    assert None not in actual
    same = {name: {h for h, n in zip(actual, NUMBERS.values(), strict=True) if n == name}
            for name in NUMBERS.values()}  # fmt: skip
    assert {name: len(values) for name, values in same.items()} == dict.fromkeys(same, 1)
    assert len(set(actual)) == len(same)
    frames = [spark.sql(f"SELECT {sql} AS x") for sql in ("1.5D", "CAST(1.5 AS FLOAT)", "2L")]
    assert merged(tg.ApproxCountDistinct("x"), frames) == merged(tg.CountDistinct("x"), frames) == 2
    assert merged(tg.ApproxUniqueness("x"), frames) == pytest.approx(1 / 3)


@pytest.mark.newest  # Spark 3.5 has no collations
@pytest.mark.spark
def test_collated_strings_are_compared_by_their_bytes(spark):
    frames = [spark.sql(f"SELECT '{c}' COLLATE UTF8_LCASE AS s") for c in "aA"]
    whole = [frames[0].union(frames[1])]
    for analyzer in (tg.CountDistinct("s"), tg.ApproxCountDistinct("s")):
        assert merged(analyzer, frames) == merged(analyzer, whole) == 2
    for analyzer in (tg.DuplicateRowCount("s"), tg.DuplicateRowCount()):
        assert merged(analyzer, frames) == merged(analyzer, whole) == 0
    for analyzer in (tg.Histogram("s"), tg.TopValues("s")):
        assert set(merged(analyzer, whole).values) == {"a", "A"}


@pytest.mark.newest
@pytest.mark.spark
def test_patterns_and_types_of_strings_with_any_collation(spark):
    """Spark matches no pattern against strings of most collations, and ignores case with some."""
    for collation in ("UTF8_LCASE", "UNICODE_CI", "UNICODE_RTRIM"):
        frame = spark.sql(
            f"SELECT s COLLATE {collation} AS s FROM VALUES ('abc'), ('12'), ('TRUE'), (NULL) AS t(s)"
        )
        patterns = [tg.PatternMatch("s", "B"), tg.PatternMatch("s", "(?i)B|^$", "empty")]
        none, some, kinds = (
            metric.value for metric in tg.calculate(frame, [*patterns, tg.DataType("s")])
        )
        assert (none, some) == (0, 0.5)
        assert {
            kind: actual.absolute for kind, actual in kinds.values.items() if actual.absolute
        } == {
            "String": 2,
            "Integral": 1,
            "Unknown": 1,
        }
        rows = tg.verify(frame, check := tg.Check("c").has_pattern("s", "(?i)b")).rows(check)
        assert {row["s"] for row in rows.collect()} == {"12", "TRUE", None}


@pytest.mark.spark
def test_histogram_and_top_values_write_values_in_the_same_way(spark):
    sql = (
        "SELECT * FROM VALUES (X'ff', 0.1F, 1e20D, repeat('ab\\n', 100)),"
        " (X'fe', 1e-5F, -0.25D, 'NullValue'), (X'fe', 0.1F, -0.25D, '\\\\a') t(b, f, d, s)"
    )
    data = spark.sql(sql)
    analyzers = [kind(c) for c in "bfds" for kind in (tg.Histogram, tg.TopValues)]
    actual = [set(metric.value.values) for metric in tg.calculate(data, analyzers)]
    assert actual[::2] == actual[1::2]
    assert actual[0] == {"ff", "fe"}
    assert actual[2] == {"0.1", "1.0E-5"}
    assert actual[4] == {"1.0E20", "-0.25"}


@pytest.mark.spark
def test_small_decimals_are_one_value_with_ansi_mode_and_without(spark):
    """Without it, Spark's cast writes 1E-7 and 0E-20."""
    texts = ["0.0000001", "-0.0000001", "0", "1.5"]
    rows = ", ".join(
        f"(CAST('{x}' AS DECIMAL(38, 20)), CAST('{x}' AS DECIMAL(9, 7)))" for x in texts
    )
    expected = {"0.0000001", "-0.0000001", "0.0000000", "1.5000000"}
    analyzers = [tg.TopValues("long"), tg.TopValues("short"), tg.ApproxCountDistinct("long")]
    states = []
    try:
        for ansi in ("true", "false"):
            spark.conf.set("spark.sql.ansi.enabled", ansi)
            data = spark.sql(f"SELECT * FROM VALUES {rows} t(long, short)")
            states.append([analyzer.compute_state_from(data) for analyzer in analyzers])
    finally:
        spark.conf.set("spark.sql.ansi.enabled", "true")
    with_ansi, without = states
    assert with_ansi == without
    long, short, _ = (one.compute_metric_from(s) for one, s in zip(analyzers, without, strict=True))
    assert set(short.value.values) == expected
    assert set(long.value.values) == {text + "0" * 13 for text in expected}


@pytest.mark.spark
def test_a_moment_is_one_value_in_every_time_zone(spark):
    """The second moment is in the hour that Berlin skips if it is taken for local time."""
    moments = [
        dt.datetime(2020, 1, 1, 10, 0, 0, 500000, dt.UTC),
        dt.datetime(2020, 3, 29, 2, 30, tzinfo=dt.UTC),
    ]
    before = spark.conf.get("spark.sql.session.timeZone")
    states = {tg.TopValues("t"): [], tg.Histogram("t"): []}
    try:
        for zone in ("Asia/Tokyo", "Europe/Berlin"):
            spark.conf.set("spark.sql.session.timeZone", zone)
            data = spark.createDataFrame([(moment,) for moment in moments], "t timestamp")
            for analyzer, actual in states.items():
                actual.append(analyzer.compute_state_from(data))
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    for analyzer, (a, b) in states.items():
        value = analyzer.compute_metric_from(a + b).value
        assert set(value.values) == {"2020-01-01 10:00:00.5", "2020-03-29 02:30:00"}


@pytest.mark.spark
def test_completeness_of_whole_nested_columns(spark):
    """The first of three rows has everything, the second empty or null contents, the third nothing."""
    data = spark.sql(
        "SELECT * FROM VALUES (named_struct('x', 1), array(1), map('k', 1)),"
        " (named_struct('x', CAST(NULL AS INT)), array(), map()), (NULL, NULL, NULL) t(s, a, m)"
    )
    params = [tg.Completeness(c) for c in ("s", "a", "m", "s.x", "a[0]")]
    actual = [metric.value for metric in tg.calculate(data, params)]
    assert actual == pytest.approx([2 / 3, 2 / 3, 2 / 3, 1 / 3, 1 / 3])
    rows = tg.row_level_results(data, {"ok": tg.Completeness("s")}).collect()
    assert [row["ok"] for row in rows] == [True, True, False]


def test_a_constant_column_has_deviation_zero_after_any_merge():
    """The sums of three and of seven times 0.1 have quotients that differ from 0.1."""
    total = sum([0.1] * 3), sum([0.1] * 7)
    assert total[0] / 3 != total[1] / 7

    def merged(analyzer, *cells):
        state = analyzer.fold(cells[0]) + analyzer.fold(cells[1])
        return analyzer.compute_metric_from(state + state).value

    spread = [(n, x, 0.0, 0.1) for n, x in zip((3, 7), total, strict=True)]
    assert merged(tg.StandardDeviation("x"), *spread) == 0.0
    assert merged(tg.Variance("x"), *spread) == 0.0
    shape = [(n, x, 0.0, None, None, 0.1) for n, x in zip((3, 7), total, strict=True)]
    assert merged(tg.Skewness("x"), *shape) == 0.0
    assert merged(tg.Kurtosis("x"), *shape) == 0.0
    pairs = [(n, x, x, 0.1, 0.1, 0.0, 0.0, 0.0) for n, x in zip((3, 7), total, strict=True)]
    assert isnan(merged(tg.Correlation("x", "y"), *pairs))
