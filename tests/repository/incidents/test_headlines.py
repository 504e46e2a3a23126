"""Headlines of incidents: hours, and features that differ between online and offline. No Spark."""

import dataclasses
import datetime as dt

import pytest

import tidegauge as tg
from tidegauge.analyzers.core.metric import Scale
from tidegauge.repository.incidents.anomaly import Anomaly, span, step_of
from tidegauge.repository.incidents.details import _peaks
from tidegauge.repository.incidents.headline import headline

HOUR, HALF, DAY = dt.timedelta(hours=1), dt.timedelta(minutes=30), dt.timedelta(days=1)
FIRST = dt.datetime(2023, 1, 5, tzinfo=dt.UTC)


def at(hours):
    return FIRST + hours * HOUR


# Times


@pytest.mark.parametrize(
    ("times", "name", "step"),
    [
        ([0, 24, 48], "ds=2023-01-05", DAY),
        ([0, 24, 168], "", DAY),
        ([0], "ds=2023-01-05", DAY),
        ([], "country=at", DAY),
        ([0], "ds=2023-01-05/hr_minute=00-00", None),
        ([0, 24], "date=2023-01-05/hr=00", None),
        ([7], "ds=2023-01-05/hr=07", None),
        ([7, 31], "", None),  # every day at seven, so the length is unknown
        ([0, 1, 2, 9], "ds=2023-01-05/hr=00", HOUR),
        ([0, 1], "ds=2023-01-05-00", HOUR),  # one key contains both
        ([0, 0.5, 1, 3], "ds=2023-01-05/hr_minute=00-00", HALF),
        ([0, 6, 12], "", 6 * HOUR),
        ([0, 0, 1], "", HOUR),
        ([0, 1, 2.5], "", None),  # at irregular steps
    ],
)
def test_the_length_of_partitions_is_derived_from_their_times(times, name, step):
    assert step_of([at(hours) for hours in times], name) == step


@pytest.mark.parametrize(
    ("first", "last", "step", "said"),
    [
        (0, 0, DAY, "2023-01-05"),
        (0, 24, DAY, "2023-01-05 to 2023-01-06"),
        (0, 0, HOUR, "2023-01-05 00:00-01:00"),
        (0, 1, HOUR, "2023-01-05 00:00-02:00"),
        (0, 1, HALF, "2023-01-05 00:00-01:30"),
        (22, 23, HOUR, "2023-01-05 22:00-24:00"),
        (0, 23, HOUR, "2023-01-05 00:00-24:00"),
        (23, 24, HOUR, "2023-01-05 23:00 to 2023-01-06 01:00"),
        (0, 47, HOUR, "2023-01-05 00:00 to 2023-01-07 00:00"),
        (0, 0, None, "2023-01-05 00:00"),
        (7, 9, None, "2023-01-05 07:00 to 2023-01-05 09:00"),
    ],
)
def test_the_time_of_an_incident_in_words(first, last, step, said):
    assert span(at(first), at(last), step) == said


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ([0], "2023-01-05 00:00-01:00: x is 500"),
        ([0, 1], "2023-01-05 00:00-02:00: x is 500"),
        ([7], "2023-01-05 07:00-08:00: x is 500"),
        ([23, 24], "2023-01-05 23:00 to 2023-01-06 01:00: x is 500"),
    ],
)
def test_headlines_of_hourly_partitions_name_the_hours(repo, bad, said):
    values = {f"{at(n):ds=%Y-%m-%d/hr=%H}": 500.0 if n in bad else 1.0 for n in range(26)}
    repo.record("d", "x", values)
    repo.detect("d", [tg.Monitor({}, tg.SimpleThreshold(100.0))])
    assert repo.incidents("d")["headline"].tolist() == [said]


# Group-bys


def anomaly(metric, instance, value, expected=0.0, place=0, score=5.0, **more):
    told = {
        "filter": "", "segment": "", "severity": "warning", "explanation": "",
        "scale": Scale.COUNT if metric.startswith("row_") else Scale.RATIO,
        "direction": "low" if expected is not None and value is not None and value < expected else "high",
        **more,
    }  # fmt: skip
    return Anomaly(
        id=place, series=hash((metric, instance)), position=place, partition=place, within="",
        partition_name="", time=at(place), name=f"Consistency.{metric}", instance=instance,
        value=value, expected=expected, score=score, incident=None, **told,
    )  # fmt: skip


def headline_text(*anomalies, group_bys=()):
    text = headline(sorted(anomalies, key=lambda one: one.position), HOUR, group_bys)
    return text.removeprefix("2023-01-05 00:00-01:00 UTC: ")


def test_a_group_by_is_reported_with_its_hours_and_its_worst_feature():
    night = [
        anomaly("mismatch", f"prices.{feature}", rate, place=place)
        for place, rates in enumerate([{"index": 0.2, "offers": 0.41, "tags": 0.1}, {"index": 0.3}])
        for feature, rate in rates.items()
    ]
    assert headline(night, HOUR, {"prices"}) == (
        "2023-01-05 00:00-02:00 UTC: prices mismatch in 3 features, most in offers"
        " (41% of rows, usually 0%)"
    )
    assert headline(night[:1], None).startswith("2023-01-05 00:00 UTC: prices mismatch in index (2")
    assert headline(night[:1], DAY).startswith("2023-01-05: prices mismatch in index (20% of rows")


def test_the_worst_feature_is_the_one_of_the_worst_hour():
    rates = [("x", 0.1, 0), ("y", 0.2, 0), ("x", 0.5, 1), ("x", 0.3, 2)]
    found = [anomaly("mismatch", f"p.{name}", rate, place=place) for name, rate, place in rates]
    assert "in 2 features, most in x (50% of rows, usually 0%)" in headline(found, HOUR)


@pytest.mark.parametrize(
    ("found", "text"),
    [
        ([("mismatch", "p.x", 0.5, None)], "p mismatch in x (50% of rows)"),
        ([("extra", "p.x", 0.5, 0.021)], "p extra in x (50% of rows, usually 2.1%)"),
        (
            [("missing", "p.x", 1.0, 0.0), ("missing", "p.y", 1.0, 0.0)],
            "p missing in 2 features alike (100% of rows, usually 0%)",
        ),
        (
            [("mismatch", "p.x", 0.1, 0.4), ("mismatch", "p.y", 0.2, 0.3)],
            "p mismatch in 2 features, clearest in x (10% of rows, usually 40%)",
        ),
        ([("smape", "p.x", 0.25, 0.0)], "p smape in x (25% instead of 0%)"),
        ([("smape", "p.x", 0.25, None)], "p smape in x (25%)"),
        ([("delta-p50", "p.x", None, None)], "p delta-p50 in x (no number)"),
        ([("row_missing", "p", 120.0, 0.0)], "p row_missing (120 instead of 0)"),
        ([("mismatch", "*.x", 0.5, 0.0)], "mismatch in x (50% of rows, usually 0%)"),
        ([("mismatch", "x", 0.5, 0.0)], "mismatch in x (50% of rows, usually 0%)"),
        ([("mismatch", "p.x.y", 0.5, None)], "p mismatch in x.y (50% of rows)"),
    ],
)
def test_headlines_of_consistency_metrics(found, text):
    assert headline_text(*(anomaly(*one) for one in found)) == text


def test_consequences_of_a_mismatch_are_counted_and_not_listed():
    found = [
        anomaly("smape", "p.x", 0.3, score=300),
        anomaly("delta-p5", "p.x", 4.0, score=300),
        anomaly("mismatch", "p.x", 0.5),
        anomaly("mismatch", "p.y", 0.4),
        anomaly("row_extra", "q", 7.0, score=4),
    ]
    assert headline_text(*found) == (
        "p mismatch in 2 features, most in x (50% of rows, usually 0%);"
        " q row_extra (7 instead of 0); and 2 more metrics"
    )


def test_the_worse_of_two_group_bys_comes_first_and_minor_anomalies_are_counted():
    found = [
        anomaly("mismatch", "p.x", 0.2, score=300),
        anomaly("missing", "q.x", 0.9, score=300),
        anomaly("mismatch", "q.x", 0.0, 0.1),
    ]
    assert headline_text(*found) == (
        "q missing in x (90% of rows, usually 0%); p mismatch in x (20% of rows, usually 0%);"
        " and 1 more metric"
    )


def test_partitions_without_a_time_are_reported_by_name():
    found = anomaly("mismatch", "p.x", 0.5, None)
    timeless = dataclasses.replace(found, time=None, partition_name="part=a")
    assert headline([timeless], None) == "part=a: p mismatch in x (50% of rows)"


def test_segments_are_part_of_the_headline():
    found = [anomaly("mismatch", "p.x", 0.5, None, segment="query_source=app")]
    assert headline_text(*found) == "p mismatch in x (50% of rows) for query_source=app"


def test_names_of_group_bys_come_from_the_stored_series(repo):
    hours = {f"{at(n):ds=%Y-%m-%d/hr_minute=%H-%M}": 0.5 * (n < 2) for n in range(4)}
    name = "Consistency.mismatch"
    repo.record("s.j", name, hours, instance="team.ads.a.b\n<b>", scale="ratio")
    repo.record("s.j", "Consistency.row_missing", hours, instance="team.ads", scale="count")
    repo.detect("s.j", [tg.Monitor({"name": name}, tg.SimpleThreshold(0.1))])
    assert repo.incidents("s.j")["headline"].tolist() == [
        "2023-01-05 00:00-02:00 UTC: team.ads mismatch in a.b <b> (50% of rows)"
    ]


def flights(name, instance, value, expected, place=0, score=8.0, scale="count"):
    """Return an anomaly of a daily table."""
    return Anomaly(
        id=place, series=place, position=place, partition=place, partition_name="ds", within="",
        time=at(24 * place), name=name, instance=instance, filter="", segment="", scale=scale,
        severity="warning", direction="low", value=value, expected=expected, score=score,
        explanation="", incident=None,
    )  # fmt: skip


def test_the_first_evidence_is_the_metric_that_the_headline_names_first():
    """The highest score belongs to a metric without parts, but the headline begins with another."""
    told = [
        ("tailnum", "", 0.3, 6.0),
        ("dep_time", "origin = 'JFK'", 0.5, 5.2),
        ("dep_time", "origin = 'LGA'", 0.5, 5.0),
        ("dep_time", "", 0.5, 4.5),
    ]
    found = [
        dataclasses.replace(
            flights("Completeness", column, value, 0.99, score=score, scale="ratio"),
            series=n,
            filter=where,
        )
        for n, (column, where, value, score) in enumerate(told)
    ]
    assert "dep_time (usually 1%) (JFK and LGA alike); 70% of rows have no tailnum" in headline(
        found, DAY
    )
    rows = [{**vars(one), "series_id": one.series} for one in found]
    assert [(row["instance"], row["filter"]) for row in _peaks(rows)][:2] == [
        ("dep_time", ""),
        ("tailnum", ""),
    ]


@pytest.mark.parametrize(
    ("scale", "text"),
    [
        ("ratio", "Uniqueness of email is 13.8% instead of 99.98%"),
        ("positive", "Uniqueness of email is 0.1378 instead of 0.9998"),
    ],
)
def test_ratios_are_reported_in_per_cent(scale, text):
    found = flights("Uniqueness", "email", 0.13781, 0.9998, scale=scale)
    assert headline([found], DAY).partition(": ")[2] == text


def test_a_sum_that_changed_with_the_rows_is_not_reported():
    some = [
        flights("Size", "*", 630.0, 1000.0),
        flights("Sum", "distance", 6.4e5, 1e6),
        flights("Sum", "fare", 9e5, 1e6),
    ]
    assert headline(some, DAY).partition(": ")[2] == "volume -37%; Sum of fare -10%"


@pytest.mark.parametrize(
    ("lost", "told"),
    [
        (
            {"dep_time": 0.19, "dep_delay": 0.19, "arr_delay": 0.19},
            "19% of rows have no dep_time, dep_delay or arr_delay (usually 1%)",
        ),
        (
            {"dep_time": 0.16, "dep_delay": 0.16, "arr_delay": 0.17},
            "16 to 17% of rows have no dep_time, dep_delay or arr_delay (usually 1%)",
        ),
        (
            {"dep_time": 0.1, "arr_delay": 0.13, "dep_delay": 0.1},
            "10% of rows have no dep_time or dep_delay (usually 1%);"
            " 13% of rows have no arr_delay (usually 1%)",
        ),
        (
            dict.fromkeys("abcdef", 0.5),
            "50% of rows have no a, b, c or 3 more columns (usually 1%)",
        ),
    ],
)
def test_columns_with_equally_many_nulls_are_reported_together(lost, told):
    some = [
        flights("Completeness", column, 1 - share, 0.99, score=9 - n / 10, scale="ratio")
        for n, (column, share) in enumerate(lost.items())
    ]
    assert headline(some, DAY).partition(": ")[2] == told


def test_nulls_above_a_limit_are_reported_without_a_usual_value():
    one = flights("Completeness", "dep_time", 0.876, None, scale="ratio")
    assert headline([one], DAY).partition(": ")[2] == "12% of rows have no dep_time"


def test_the_worst_day_is_reported_even_without_the_highest_score():
    some = [
        flights("Completeness", "arr_delay", 0.9907, 0.9955, 0, 9.0, "ratio"),
        flights("Completeness", "arr_delay", 0.78, 0.9955, 1, 6.0, "ratio"),
    ]
    told = headline(some, DAY).partition(": ")[2]
    assert told == "22% of rows have no arr_delay (usually 0.45%)"


def in_segment(one, segment):
    return dataclasses.replace(one, segment=segment)


def test_segments_without_rows_are_reported_first():
    size = flights("Size", "*", 0.0, 300.0)
    some = [
        flights("Size", "*", 700.0, 1000.0),
        flights("CountDistinct", "team", 2.0, 4.0),
        *(in_segment(size, f"team={name}") for name in ("sales", "returns")),
    ]
    told = headline(some, DAY).partition(": ")[2]
    assert told == (
        "no rows with team=returns or team=sales; volume -30%; CountDistinct of team -50%"
    )
    alone = headline(some[2:3], DAY).partition(": ")[2]
    assert alone == "no rows with team=sales"


def test_an_empty_table_is_reported_without_its_segments():
    size = flights("Size", "*", 0.0, 1000.0)
    some = [size, in_segment(size, "team=sales"), in_segment(size, "team=returns")]
    assert "no rows" not in headline(some, DAY)


def test_a_segment_usually_without_rows_did_not_lose_them():
    size = dataclasses.replace(flights("Size", "*", 0.0, 0.0), segment="team=sales")
    assert "no rows" not in headline([size], DAY)


def test_the_latest_time_is_reported_as_a_time():
    late = flights("MaxTime", "created_at", 1_771_597_440.0, 1_771_631_999.5, scale="time")
    assert headline([late], DAY).partition(": ")[2] == (
        "latest created_at is 2026-02-20 14:24:00 instead of 2026-02-20 23:59:59"
    )


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"": 1900, "a": 950, "b": 950}, "volume -37% (a and b alike)"),
        ({"": 1900, "a": 200, "b": 2550}, "volume -37% (a; b the other way)"),
        ({"": 1900, "b": 2550}, "volume -37% (b the other way)"),
        ({"a": 200, "b": 200}, "volume -87% for a and b"),
        ({"a": 200, "b": 900}, "volume -87% for a (b, too)"),
        ({"a": 200, "b": 4000}, "volume +167% for b (a the other way)"),
    ],
)
def test_parts_that_changed_in_the_same_direction_and_other_parts(changes, said):
    """Of 3,000 rows, 1,500 in each part. In the last case the part that grew deviates more."""
    found = [
        dataclasses.replace(
            flights("Size", "*", value, expected, scale="count"),
            series=n,
            filter=f"c = '{part}'" if part else "",
            direction="low" if value < expected else "high",
        )
        for n, (part, value) in enumerate(changes.items())
        for expected in [1500.0 if part else 3000.0]
    ]
    assert headline(found, DAY).endswith(f": {said}")


def test_a_factor_that_overflows_is_unknown():
    found = [
        dataclasses.replace(
            flights("Maximum", "x", 1.7976931348623157e308, 0.5, scale="signed"),
            series=n,
            segment=f"c={part}",
            direction="high",
        )
        for n, part in enumerate("ab")
    ]
    assert headline(found, DAY).endswith("for c=a and c=b")


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (0, "volume -100%"),
        (3, "volume -99.7%"),
        (5, "volume -99.5%"),
        (6, "volume -99%"),
        (530, "volume -50%"),
        (1059, "volume -0.094%"),
        (1063, "volume +0.28%"),
    ],
)
def test_only_zero_rows_are_a_hundred_per_cent_less(rows, said):
    size = dataclasses.replace(anomaly("Size", "*", rows, 1060.0, scale=Scale.COUNT), name="Size")
    assert headline([size], DAY).partition(": ")[2] == said
