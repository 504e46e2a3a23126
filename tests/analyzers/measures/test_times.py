"""Times without a zone, in zones whose clocks skip and repeat times.

Expectations are computed in Python.
"""

import datetime as dt
import operator
from contextlib import contextmanager
from itertools import product

import pytest

import tidegauge as tg
from tidegauge.analyzers.core.conditions import compare_exactly
from tidegauge.analyzers.core.schema import Schema
from tidegauge.analyzers.core.sql import constant, wall_clock_micros
from tidegauge.rules.file_parser import date_sql

pytestmark = pytest.mark.spark

EPOCH = dt.datetime(1970, 1, 1)
ZONES = (
    "UTC",
    "America/New_York",  # 2024-03-10 02:00 to 03:00 is skipped
    "America/Sao_Paulo",  # 2018-11-04 00:00 to 01:00 is skipped, a midnight
    "Pacific/Apia",  # the whole of 2011-12-30 is skipped
    "Australia/Lord_Howe",  # 2024-10-06 02:00 to 02:30 is skipped
    "Asia/Kolkata",
)
TIMES = (
    dt.datetime(1, 1, 1),
    dt.datetime(1890, 6, 1, 12, 0, 0, 1),
    dt.datetime(1969, 12, 31, 23, 59, 59, 999999),
    EPOCH,
    dt.datetime(2011, 12, 30, 12),
    dt.datetime(2018, 11, 4),
    dt.datetime(2018, 11, 4, 1),
    dt.datetime(2024, 3, 10, 1, 59, 59),
    dt.datetime(2024, 3, 10, 2, 30),
    dt.datetime(2024, 3, 10, 3, 30),
    dt.datetime(2024, 7, 1, 10, 0, 0, 123456),
    dt.datetime(2024, 10, 6, 2, 15),
    dt.datetime(2024, 11, 3, 1, 30),
    dt.datetime(9999, 12, 31, 23, 59, 59, 999999),
)
SIGNS = {"<": operator.lt, "<=": operator.le, "=": operator.eq, ">": operator.gt}


@contextmanager
def session_zone(spark, zone):
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        yield
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


def micros(time):
    return (time - EPOCH) // dt.timedelta(microseconds=1)


def clock(spark, times=TIMES):
    """Return a frame of times without a zone, with their dates and the same times as strings."""
    rows = ", ".join(
        f"(TIMESTAMP_NTZ'{time.isoformat(' ')}', '{time.isoformat(' ')}')" for time in times
    )
    return spark.sql(f"SELECT w, CAST(w AS DATE) d, t FROM VALUES {rows} AS v(w, t)").coalesce(1)


def test_times_without_a_zone_are_the_same_in_all_zones(spark):
    bounds = [dt.datetime(2018, 11, 4), dt.datetime(2024, 3, 10, 2, 30), dt.date(2011, 12, 30)]
    params = list(product(("w", "d", "t"), SIGNS, bounds))
    parsed = date_sql(
        "replace(t, ' ', '_')", "timestamp_ntz", "yyyy-MM-dd_HH:mm:ss[.SSSSSS]", lenient=False
    )
    for zone in ZONES:
        with session_zone(spark, zone):
            data = clock(spark)
            schema = Schema.from_frame(data)
            cells = [compare_exactly(f"{c} {s} {constant(b)}", schema) for c, s, b in params]
            read = data.selectExpr(wall_clock_micros(f"({parsed})"))
            assert [row[0] for row in read.collect()] == list(map(micros, TIMES)), zone
            rows = data.selectExpr(wall_clock_micros("w"), *cells).collect()
            calls = [
                "w >= timestamp('2024-03-10 02:30:00')",  # as in a literal
                "w = date('2018-11-04')",
                "w <= now() OR w > date('9999-01-01')",
            ]
            called = data.selectExpr(*(compare_exactly(call, schema) for call in calls)).collect()
            after = [time >= dt.datetime(2024, 3, 10, 2, 30) for time in TIMES]
            midnight = [time == dt.datetime(2018, 11, 4) for time in TIMES]
            expected = list(zip(after, midnight, [True] * len(TIMES), strict=True))
            assert [tuple(row) for row in called] == expected, zone
        assert len(rows) == len(TIMES)
        for time, (measured, *answers) in zip(TIMES, rows, strict=True):
            assert measured == micros(time), (zone, time)
            midnight = dt.datetime.combine(time.date(), dt.time())
            for (column, sign, bound), answer in zip(params, answers, strict=True):
                value = midnight if column == "d" else time
                required = (
                    bound
                    if isinstance(bound, dt.datetime)
                    else dt.datetime.combine(bound, dt.time())
                )
                assert answer is SIGNS[sign](value, required), (zone, column, value, sign, bound)


UNTIL = {
    # the SQL, and the time that it returns
    "TIMESTAMP'2024-03-10 02:45:00'": dt.datetime(2024, 3, 10, 2, 45),
    "TIMESTAMP_NTZ'2024-03-10 02:45:00'": dt.datetime(2024, 3, 10, 2, 45),
    "'2024-03-10 02:45:00'": dt.datetime(2024, 3, 10, 2, 45),
    "DATE'2018-11-04'": dt.datetime(2018, 11, 4),
    "timestamp('2018-11-03') + INTERVAL 1 DAY": dt.datetime(2018, 11, 4),
    "CAST(ds AS TIMESTAMP) + INTERVAL 1 DAY": dt.datetime(2018, 11, 4),
    "to_timestamp(ds) + INTERVAL 30 HOURS": dt.datetime(2018, 11, 4, 6),
    "w + INTERVAL 2 HOURS": dt.datetime(2024, 3, 10, 4, 30),
}
LATEST = dt.datetime(2024, 3, 10, 2, 30)


def test_freshness_and_extremes_of_times_without_a_zone(spark):
    fresh = {
        tg.Freshness(c, until=sql): (c, until) for c in ("w", "d") for sql, until in UNTIL.items()
    }
    extremes = [tg.MinTime("w"), tg.MaxTime("w"), tg.MinTime("d"), tg.MaxTime("d")]
    midnight = dt.datetime.combine(LATEST.date(), dt.time())
    earliest = dt.datetime(2018, 11, 4)
    for zone in ZONES:
        with session_zone(spark, zone):
            data = clock(spark, (earliest, LATEST)).selectExpr("*", "'2018-11-03' AS ds")
            metrics = tg.calculate(data, [*fresh, *extremes])
        for analyzer, (column, until) in fresh.items():
            age = until - (LATEST if column == "w" else midnight)
            assert metrics[analyzer].value == age.total_seconds(), (zone, analyzer)
        ends = [(end - EPOCH).total_seconds() for end in (earliest, LATEST, earliest, midnight)]
        assert [metrics[analyzer].value for analyzer in extremes] == ends, zone


def test_freshness_of_instants_and_times_without_a_zone(spark):
    # New York is 4 hours behind UTC in July. The clock there shows 06:00 at 10:00 UTC.
    sql = "SELECT TIMESTAMP'2024-07-01 10:00:00Z' AS i, TIMESTAMP_NTZ'2024-07-01 05:00:00' AS w"
    ages = {
        tg.Freshness("i", until="TIMESTAMP'2024-07-01 07:00:00'"): 3600.0,
        tg.Freshness("i", until="TIMESTAMP_NTZ'2024-07-01 07:00:00'"): 3600.0,
        tg.Freshness("w", until="i"): 3600.0,
        tg.Freshness("w", until="TIMESTAMP'2024-07-01 10:00:00Z'"): 3600.0,
    }
    with session_zone(spark, "America/New_York"):
        data = spark.sql(f"{sql}, current_timestamp() AS now, localtimestamp() AS here")
        just_now = [tg.Freshness("now"), tg.Freshness("here")]
        metrics = tg.calculate(data, [*ages, *just_now])
    assert {analyzer: metrics[analyzer].value for analyzer in ages} == ages
    assert all(0 <= metrics[analyzer].value < 600 for analyzer in just_now)
