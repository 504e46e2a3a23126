"""Partition names, their times, and how users select them."""

import contextlib
from datetime import UTC, datetime

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import tidegauge as tg
from tidegauge.analyzers.core.partitions import (
    NULL,
    Partition,
    TimeFormat,
    parse_selection,
    recognise_time,
    select_named,
)


def test_hive_names_are_decoded_and_values_stay_strings():
    partition = Partition.from_path("ds=2013-02-08/hr=07/country=a%2Fb%3Dc%25")
    assert partition.values == ("2013-02-08", "07", "a/b=c%")
    assert partition.name == "ds=2013-02-08/hr=07/country=a/b=c%"
    assert Partition.from_path("").name == ""
    assert Partition.from_path("country=New York").only(["country"]).name == "country=New York"


@given(st.lists(st.text("a/=%5 é", max_size=8), min_size=2, max_size=2))
def test_names_are_parsed_as_they_are_written(values):
    partition = Partition(("ds", "kind"), tuple(values))
    assert Partition.from_name(partition.name, partition.keys) == partition
    assert Partition.from_name("").keys == ()


@pytest.mark.parametrize(
    ("keys", "values", "time"),
    [
        (("ds",), ("2013-02-08",), datetime(2013, 2, 8, tzinfo=UTC)),
        (("dt",), ("20130208",), datetime(2013, 2, 8, tzinfo=UTC)),
        (("date",), ("2013-02-08-07",), datetime(2013, 2, 8, 7, tzinfo=UTC)),
        (("ds", "hr"), ("2013-02-08", "07"), datetime(2013, 2, 8, 7, tzinfo=UTC)),
        (("hour", "ds"), ("7", "2013-02-08"), datetime(2013, 2, 8, 7, tzinfo=UTC)),
        (("year", "month", "day"), ("2013", "2", "8"), datetime(2013, 2, 8, tzinfo=UTC)),
        (
            ("Year", "Month", "Day", "Hour"),
            ("2013", "02", "08", "23"),
            datetime(2013, 2, 8, 23, tzinfo=UTC),
        ),
        (("year", "month"), ("2013", "02"), datetime(2013, 2, 1, tzinfo=UTC)),
        (("ds",), ("201311",), datetime(2013, 11, 1, tzinfo=UTC)),
        (("ds",), ("2013110",), None),
        (("ds", "hr"), ("20130208", "7"), datetime(2013, 2, 8, 7, tzinfo=UTC)),
        (("ds", "hr_minute"), ("2013-02-08", "07-30"), datetime(2013, 2, 8, 7, 30, tzinfo=UTC)),
        (("ds", "hr_minute"), ("2013-02-08", "07"), None),
        (("ds", "hr", "mi"), ("2013-02-08", "7", "30"), datetime(2013, 2, 8, 7, 30, tzinfo=UTC)),
        (("minute", "ds", "hour"), ("5", "20130208", "7"), datetime(2013, 2, 8, 7, 5, tzinfo=UTC)),
        # without an hour
        (("ds", "minute"), ("2013-02-08", "30"), datetime(2013, 2, 8, tzinfo=UTC)),
        (("day",), ("2026-01-17",), datetime(2026, 1, 17, tzinfo=UTC)),
        (("day",), ("17",), None),
        (("month",), ("2025-05",), datetime(2025, 5, 1, tzinfo=UTC)),
        (("week",), ("2026-W05",), datetime(2026, 1, 26, tzinfo=UTC)),  # ISO 8601: a Monday
        (("week",), ("2026-W54",), None),
        (("week",), ("2026W05",), datetime(2026, 1, 26, tzinfo=UTC)),
        (("week",), ("2026-01-26",), datetime(2026, 1, 26, tzinfo=UTC)),
        (("quarter",), ("2026-Q1",), datetime(2026, 1, 1, tzinfo=UTC)),
        (("quarter",), ("2026Q4",), datetime(2026, 10, 1, tzinfo=UTC)),
        (("quarter",), ("2026-Q5",), None),
        (("quarter",), ("2026-H1",), None),
        (("quarter",), ("Q1",), None),
        (("half",), ("2026-H2",), datetime(2026, 7, 1, tzinfo=UTC)),
        (("half",), ("2026-H3",), None),
        (("month",), ("2026M01",), datetime(2026, 1, 1, tzinfo=UTC)),
        (("dt",), ("01/02/2026",), None),  # in January or February
        (("hour",), ("2026-01-17T08",), datetime(2026, 1, 17, 8, tzinfo=UTC)),
        (("hr",), ("08",), None),
        (("ts",), ("2026-01-17T08:00",), datetime(2026, 1, 17, 8, tzinfo=UTC)),
        (("timestamp",), ("2026-01-17 08:00:30",), datetime(2026, 1, 17, 8, 0, 30, tzinfo=UTC)),
        (("ds",), (NULL,), None),
        (("ds",), ("yesterday",), None),
    ],
)
def test_times_are_recognised_by_the_usual_keys(keys, values, time):
    assert recognise_time(keys).time_of(Partition(keys, values)) == time


@pytest.mark.parametrize("key", ["order_date", "EVENT_DT", "date_key", "eventDate", "load_day"])
def test_keys_that_contain_a_word_for_a_date_have_a_time(key):
    actual = recognise_time(("country", key, "hr"))
    assert actual.keys == (key, "hr")
    assert actual.formats[0] == "%Y-%m-%d %H"


@pytest.mark.parametrize(
    "keys",
    [
        (),
        ("country",),
        ("month", "day"),
        ("candidate",),
        ("update",),
        ("day_of_week",),
    ],
)
def test_keys_without_a_time(keys):
    assert recognise_time(keys) is None


def test_a_key_for_a_part_of_a_date_is_a_segment():
    """``day=2026-01-17`` belongs to one series; each value of ``day=17`` is a separate series."""
    time = recognise_time(("day", "site"))
    assert time.segment_of(Partition(("day", "site"), ("2026-01-17", "a"))) == "site=a"
    assert time.segment_of(Partition(("day", "site"), ("17", "a"))) == "day=17/site=a"


def test_other_keys_are_a_segment():
    keys = ("ds", "country", "site")
    partition = Partition(keys, ("2013-02-08", "New York", NULL))
    assert recognise_time(keys).segment_of(partition) == f"country=New York/site={NULL}"
    zoned = TimeFormat(("ts",), ("%Y-%m-%dT%H:%M%z",))
    assert zoned.time_of(Partition(("ts",), ("2013-02-08T07:00+0200",))).hour == 5


KEYS = ("ds", "hr", "country")
FEB = Partition(KEYS, ("2013-02-08", "07", "New York"))


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        ("ds=2013-02-08", True),
        ("ds = '2013-02-08' and hr=07", True),
        ("hr=7", False),  # a string, as Hive names it
        ("ds>=2013-02-01 AND ds<2013-03-01", True),
        ("ds!=2013-02-08", False),
        ("DS <= 2013-02-07", False),
        ("ds > 2013-02-07", True),
        ("hr in (06, 07)", True),
        ("hr IN ('08')", False),
        ("ds between 2013-02-08 and 2013-02-08 and country = 'New York'", True),
        ('country = "New York"', True),
        ("country = 'it''s'", False),
    ],
)
def test_selections_choose_partitions(text, chosen):
    assert parse_selection(text, KEYS)(FEB) is chosen


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "expected bare"),
        ("day=1", "no partition key 'day' (there are: 'ds', 'hr', 'country')"),
        ("ds", "expected a comparison after 'ds'"),
        ("ds ~ 1", "expected a comparison"),
        ("ds=1 or hr=2", "expected and, found 'or'"),
        ("ds in 1", "expected (, found '1'"),
        ("ds in (1", "found 'the end'"),
        ("ds between 1", "expected and"),
        ("ds='1", "cannot read"),
        ("ds=1; drop table x", "expected and, found 'drop'"),
    ],
)
def test_the_error_for_an_invalid_selection_shows_the_position(text, problem):
    with pytest.raises(tg.PartitionSelectionError) as error:
        parse_selection(text, KEYS).require_match(set(), ["ds=2/hr=3/country=DE"])
    assert problem in str(error.value)
    assert "ds >= 2013-02-01" in str(error.value)


@given(st.text(max_size=30))
def test_any_string_is_a_selection_or_raises_our_error(text):
    with contextlib.suppress(tg.PartitionSelectionError):
        parse_selection(text, KEYS)(FEB)


@given(st.text(min_size=1, max_size=20))
def test_any_value_can_be_quoted(value):
    quoted = value.replace("'", "''")
    chosen = parse_selection(f"country = '{quoted}'", KEYS)
    assert chosen(Partition(KEYS, ("d", "h", value)))
    assert not chosen(Partition(KEYS, ("d", "h", value + "x")))


@given(st.lists(st.text(min_size=1, max_size=12), min_size=1, max_size=3))
def test_the_name_of_a_partition_selects_it(values):
    """Its values can contain slashes, equals signs, blanks, quotes and commas."""
    keys = KEYS[: len(values)]
    partition = Partition(keys, tuple(values))
    assume(Partition.from_name(partition.name.strip(), keys) == partition)
    chosen = parse_selection(partition.name, keys)
    assert chosen(partition)
    assert not chosen(Partition(keys, (*values[:-1], values[-1] + "x")))


@pytest.mark.parametrize(
    ("text", "value", "chosen"),
    [
        ("path=a/b", "a/b", True),
        ("path=a=b", "a=b", True),
        ("PATH=a=b", "a=b", True),
        ("path=New York", "New York", True),
        ("path=it's", "it's", True),
        ("path=a,b", "a,b", True),
        ("path='a=b'", "a=b", True),
        ("path=a/b", "a", False),
        ("path=a=b", "a", False),
    ],
)
def test_partition_names_are_selections(text, value, chosen):
    assert parse_selection(text, ["path"])(Partition(("path",), (value,))) is chosen


def test_a_name_may_contain_some_of_the_keys():
    assert parse_selection("ds=2013-02-08/country=New York", KEYS)(FEB)
    assert not parse_selection("ds=2013-02-08/country=Paris", KEYS)(FEB)
    assert not parse_selection("ds=2013-02-09/hr=07", KEYS)(FEB)


def test_named_partitions_must_exist():
    assert select_named(["ds=1"], ["ds=1", "ds=2"]) == {"ds=1"}
    with pytest.raises(
        tg.PartitionSelectionError, match="no partition 'ds=2013-2-8'; did you mean 'ds=2013-02-08'"
    ):
        select_named(["ds=2013-2-8"], ["ds=2013-02-08"])


@pytest.mark.parametrize(
    ("selection", "names", "message"),
    [
        # Between two days: the day before and the day after.
        ("ds=2013-02-30", ["ds=2013-02-28", "ds=2013-03-01", "ds=2013-03-02"],
         "nearest: ds=2013-02-28, ds=2013-03-01; newest: ds=2013-03-02"),
        ("ds >= '2013-03-03'", ["ds=2013-02-28", "ds=2013-03-02"], "nearest: ds=2013-03-02; newest"),
        # Another notation for a name.
        ("ds=20130228", ["ds=2013-01-01", "ds=2013-02-28", "ds=2014-01-01"], "ds=2013-02-28"),
        ("region=EU", ["region=asia", "region=eu", "region=us"], "nearest: region=asia, region=eu;"),
        ("ds=1 AND hr = 9", ["ds=1/hr=08", "ds=1/hr=09", "ds=2/hr=09"], "ds=1/hr=09"),
        # The newest partition is the last in the list, whatever its name.
        ("ds=5", ["ds=2", "ds=3", "ds=1"], "newest: ds=1"),
        ("ds=5", [], "partitions='ds=5' matches none of 0 partitions (the table has none)"),
    ],
)  # fmt: skip
def test_the_error_for_a_selection_without_matches_names_near_ones(selection, names, message):
    with pytest.raises(tg.PartitionSelectionError) as error:
        parse_selection(selection, [*KEYS, "region"]).require_match(set(), names)
    assert message in str(error.value)
    assert parse_selection("ds=1", KEYS).require_match({"ds=1"}, names) == {"ds=1"}


@given(st.text(max_size=20), st.lists(st.text(min_size=1, max_size=8), max_size=5))
def test_any_selection_without_matches_is_an_error(value, values):
    names = [Partition(("ds",), (value,)).name for value in values]
    with pytest.raises(tg.PartitionSelectionError, match="matches none of"):
        parse_selection(f"ds={value}", ["ds"]).require_match(set(), names)
