"""Gaps in calendars of partitions, and overdue partitions: hours, days, weeks and months.

No database.
"""

import datetime as dt
from dataclasses import replace

import numpy as np
import pytest

from tidegauge.repository.detectors.base import History, PartitionLedger
from tidegauge.repository.detectors.whole_partitions import Late, MissingPartition, gaps


def history_of(times, came=None, now=None):
    """Return a history without series, with the times and arrivals of its partitions."""
    times = np.asarray(times).astype("M8[s]")
    ledger = None
    if came is not None:
        end = np.datetime64("NaT" if now is None else now, "s")
        ledger = PartitionLedger(came, np.ones(len(times), int), [{}] * len(times), now=end)
    nothing = np.empty((0, len(times)))
    return History(times, nothing, nothing, [], ledger=ledger)


def overdue(last_days_ago, count=40, delay=3, **changed):
    """Score a daily table whose last partition ended some days ago."""
    end = np.datetime64("2013-06-01", "s")
    days = (last_days_ago + np.arange(count, 0, -1)).astype("m8[D]")
    times = (np.datetime64("2013-06-01", "D") - days).astype("M8[s]")
    arrived = times + np.timedelta64(1, "D") + np.timedelta64(delay, "h")
    ledger = replace(PartitionLedger(arrived, np.ones(count, int), [{}] * count, end), **changed)
    h = History(times, np.empty((0, count)), np.empty((0, count)), [], ledger=ledger)
    detector = MissingPartition()
    return detector.measure(h), detector.score(h).score[0], detector.explanation(h, count - 1)


def test_overdue_partitions_are_reported_at_the_last_partition():
    for days in (0, 1):
        missing, score, _ = overdue(days)
        assert (missing == 0).all()
        assert (np.nan_to_num(score) == 0).all()
    missing, score, told = overdue(4)
    assert np.flatnonzero(missing).tolist() == [39]
    assert score[39] >= 3
    assert missing[39] in {3, 4}
    assert told == (
        "is the newest, the next 3 days are overdue: 2013-05-28 was due by 2013-05-29 06:00 UTC"
    )


def score_and_explanation_of_stopped(missing, days_ago, count=90):
    """Return score and explanation of the newest daily partition of a table with gaps that stopped."""
    days = np.setdiff1d(np.arange(count), missing).astype("M8[D]").astype("M8[s]")
    came = days + np.timedelta64(1, "D") + np.timedelta64(3, "h")
    now = days[-1] + np.timedelta64(days_ago, "D") + np.timedelta64(12, "h")
    history = history_of(days, came, now)
    score = MissingPartition().score(history).score[0]
    told = MissingPartition().explanation(history, len(days) - 1)
    return score[-1], told


def test_a_stopped_table_is_reported_whatever_was_missing_before():
    """The stop is two days longer than the longest gap before, so it is not like that gap."""
    for missing, longest in (([45], 1), ([45, 46], 2), ([30, *range(60, 75)], 15)):
        after = longest + 3  # two of these days are not over, or can still arrive
        assert score_and_explanation_of_stopped(missing, after)[0] >= 3, missing
        assert score_and_explanation_of_stopped(missing, 60)[0] >= 3, missing
    score, told = score_and_explanation_of_stopped([45], 2)  # as long as the gap before
    assert score < 3
    assert "the next day is overdue" in told


def test_a_gap_before_the_newest_partition_stays_reported_while_nothing_arrives():
    days = [score_and_explanation_of_stopped([88], ago) for ago in (1, 2, 3, 10)]
    assert all(score >= 3 for score, _ in days)
    told = "follows a gap of 1 day, 1970-03-30"
    assert days[0][1] == told
    assert days[2][1] == (
        f"{told}, and is the newest, the next 2 days are overdue: 1970-04-01 was due by"
        " 1970-04-02 06:00 UTC"
    )


def gap_before_newest(days, now=None):
    """Return gap length and explanation of the newest day; each day arrived an hour after its end."""
    times = np.asarray(days, "M8[D]").astype("M8[s]")
    came = times + np.timedelta64(25, "h")
    history = history_of(times, came, now)
    detector = MissingPartition()
    return detector.measure(history)[-1], detector.explanation(history, len(times) - 1)


@pytest.mark.parametrize("length", [1, 40, 56, 57, 98, 99, 200])
def test_a_gap_has_its_full_length_and_is_not_its_own_precedent(length):
    before = np.arange("2013-01-01", "2013-07-01", dtype="M8[D]")
    after = before[-1] + np.timedelta64(length + 1, "D")
    many = "1 day, 2013-07-01" if length == 1 else f"{length} days from 2013-07-01 on"
    assert gap_before_newest([*before, after]) == (length, f"follows a gap of {many}")


def test_a_time_in_the_far_future_is_as_cheap_as_any_gap():
    """Seventy million hours are counted, not listed."""
    times = np.append(HOURS, np.datetime64("9999-12-31T00:00:00"))
    history = history_of(times)
    hours = (times[-1] - times[-2]) // np.timedelta64(1, "h")
    assert MissingPartition().measure(history)[-1] == hours - 1
    (found,) = gaps(history)
    assert found.count == hours - 1
    assert found.times(2).tolist() == [
        dt.datetime(2024, 4, 8, 0),  # HOURS end with the hour before
        dt.datetime(2024, 4, 8, 1),
    ]


def test_weekends_of_a_weekday_table_are_not_missing():
    days = np.arange("2013-01-01", "2013-07-01", dtype="M8[D]")
    before = days[np.is_busday(days)]  # the last day is a Friday
    after = np.busday_offset(before[-1], 61)
    assert gap_before_newest([*before, after]) == (
        60,
        "follows a gap of 60 days from 2013-07-01 on",
    )
    # At noon of the next Wednesday, Monday and Tuesday are over.
    assert gap_before_newest(before, "2013-07-03T12:00") == (
        2,
        "is the newest, the next 2 days are overdue: 2013-07-01 was due by 2013-07-02 02:00 UTC",
    )


HOURS = np.arange("2024-01-01T00", "2024-04-08T00", dtype="M8[h]").astype("M8[s]")  # from a Monday
DAYTIME = (HOURS - HOURS.astype("M8[D]")) / np.timedelta64(1, "h")
WEEKDAY = np.is_busday(HOURS.astype("M8[D]"))


@pytest.mark.parametrize(
    "kept",
    [
        pytest.param(DAYTIME >= 0, id="always"),
        pytest.param((DAYTIME >= 9) & (DAYTIME < 17), id="office hours"),
        pytest.param((DAYTIME >= 9) & (DAYTIME < 17) & WEEKDAY, id="office hours of weekdays"),
        pytest.param(WEEKDAY, id="weekdays"),
    ],
)
def test_missing_hours_are_compared_with_the_same_hours_of_the_week(kept):
    """The first nights and the first weekend are not gaps; two office hours of a Tuesday are a gap."""
    gone = np.array(["2024-03-12T10", "2024-03-12T11"], "M8[s]")
    times = HOURS[kept & ~np.isin(HOURS, gone)]
    history = history_of(times)
    (place,) = np.flatnonzero(MissingPartition().score(history).score[0] >= 3)
    assert times[place] == np.datetime64("2024-03-12T12")
    told = "follows a gap of 2 hours from 2024-03-12 10:00 on"
    assert MissingPartition().explanation(history, place) == told


@pytest.mark.parametrize("weeks", [2, 3, 6, 12])
@pytest.mark.parametrize("until", [11, 17, 24])
def test_a_table_of_office_hours_that_stops_is_reported(weeks, until):
    """Its nights and weekends are always missing, which does not excuse its other hours."""
    hours = HOURS[(DAYTIME >= 9) & (until > DAYTIME) & WEEKDAY]
    last = HOURS[0] + np.timedelta64(7 * weeks, "D")
    times = hours[hours < last]
    came = times + np.timedelta64(90, "m")
    now = last + np.timedelta64(14, "D")  # after two weeks
    history = history_of(times, came, now)
    assert np.flatnonzero(MissingPartition().score(history).score[0] >= 3).tolist() == [
        len(times) - 1
    ]
    told = f"is the newest, the next {10 * (until - 9)} hours are overdue: "
    assert MissingPartition().explanation(history, len(times) - 1).startswith(told)


def test_an_outage_counts_once_whatever_its_length():
    """A week without data is not a pattern: another missing day among 400 is still an anomaly."""
    days = np.arange("2013-01-01", "2014-03-01", dtype="M8[D]")
    gone = np.isin(days, [*np.arange("2013-05-05", "2013-05-12", dtype="M8[D]"), days[400]])
    times = days[~gone]
    assert times[scored(times) >= 3].tolist() == [dt.date(2013, 5, 12), dt.date(2014, 2, 6)]


def score_and_explanation_of_stopped_days(days, ago):
    """Return score and explanation of the newest day, which began some days ago."""
    times = np.asarray(days, "M8[D]").astype("M8[s]")
    came, now = times + np.timedelta64(27, "h"), times[-1] + np.timedelta64(ago, "D")
    history = history_of(times, came, now)
    told = MissingPartition().explanation(history, len(times) - 1)
    return MissingPartition().score(history).score[0, -1], told


def test_a_long_outage_does_not_hide_a_stopped_table():
    days = np.arange("2013-01-01", "2013-09-13", dtype="M8[D]")
    outage = (days >= np.datetime64("2013-07-20")) & (days < np.datetime64("2013-08-24"))
    score, told = score_and_explanation_of_stopped_days(days[~outage], 45)
    assert score >= 3
    assert told.startswith("is the newest, the next 43 days are overdue: 2013-09-13 was due by ")
    score, _ = score_and_explanation_of_stopped_days(
        ["1970-01-01", *np.arange("2013-01-01", "2013-02-15", dtype="M8[D]")], 100
    )
    assert score >= 3


@pytest.mark.parametrize("clock", [12, 20, 23])
def test_hours_loaded_once_a_day_are_not_overdue_before_the_next_load(clock):
    """The hours of a day arrive at two in the next night; until then, they are missing."""
    times = HOURS[:-24]
    last = times[-1].astype("M8[D]") + np.timedelta64(1, "D")
    came = times.astype("M8[D]").astype("M8[s]") + np.timedelta64(26, "h")
    for days, overdue in ((0, False), (1, False), (5, True)):
        now = last.astype("M8[s]") + np.timedelta64(24 * days + clock, "h")
        history = history_of(times, came, now)
        assert (MissingPartition().measure(history)[-1] > 0) == overdue, days


def test_weeks_can_be_missing_and_overdue():
    weeks = np.arange("2013-01-07", "2013-11-04", 7, dtype="M8[D]").astype("M8[s]")
    times = np.delete(weeks, 30)
    came, now = times + np.timedelta64(8, "D"), np.datetime64("2013-11-26T00:00:00")
    history = history_of(times, came, now)
    assert np.flatnonzero(MissingPartition().score(history).score[0] >= 3).tolist() == [30]
    told = MissingPartition().explanation(history, len(times) - 1)
    assert told.startswith("is the newest, the next 2 weeks are overdue: 2013-11-04 was due by ")


def scored(times):
    return MissingPartition().score(history_of(times)).score[0]


@pytest.mark.parametrize("minutes", [5, 15, 60])
@pytest.mark.parametrize("missing", [0.05, 0.1])
def test_parts_of_days_missing_at_random_soon_become_normal(minutes, missing):
    """Only the first gap after the first week is reported."""
    times = np.arange("2024-01-01", "2024-01-29", minutes, dtype="M8[m]")
    kept = times[np.random.default_rng(1).random(len(times)) > missing]
    assert (scored(kept) >= 3).sum() <= 2


def test_a_gap_next_to_a_night_counts_among_the_usual_hours():
    """One hour in fifty is missing, so another one is normal, at nine as well as at noon."""
    hours = HOURS[(DAYTIME >= 9) & (DAYTIME < 17)]
    kept = hours[np.random.default_rng(2).random(len(hours)) > 0.02]
    after = kept > HOURS[0] + np.timedelta64(28, "D")
    assert (scored(kept)[after] >= 3).sum() == 0


@pytest.mark.parametrize("days", [10, 11])
def test_ten_day_partitions_are_not_weeks_with_gaps(days):
    times = np.arange("2022-01-01", "2024-01-01", days, dtype="M8[D]")
    assert (scored(times) == 0).sum() == len(times) - 7


def test_months_end_with_their_last_day():
    months = np.arange("2012-01", "2013-11", dtype="M8[M]")
    times, ends = months.astype("M8[s]"), (months + 1).astype("M8[s]")
    came = ends + np.timedelta64(6, "h")
    now = np.datetime64("2014-02-02T00:00:00")
    history = history_of(times, came, now)
    assert Late().measure(history).tolist() == [6.0] * len(times)
    # November, December and January are over.
    assert MissingPartition().measure(history)[-1] == 3


def test_nothing_is_overdue_if_no_arrival_is_known():
    unknown = np.full(40, "NaT", "M8[s]")
    assert (overdue(30, arrived=unknown)[0] == 0).all()
    assert (overdue(30, now=np.datetime64("NaT", "s"))[0] == 0).all()


def test_a_slow_table_is_overdue_later():
    assert overdue(6, delay=100)[0][-1] == 0
    assert overdue(30, delay=100)[0][-1] > 0


@pytest.mark.parametrize(
    ("night_rows", "missing_hour", "is_reported"),
    [(3, 2, False), (200, 2, True), (3, 14, True), (None, 2, True)],
    ids=["few rows", "many rows", "by day", "unknown"],
)
def test_an_hour_of_few_rows_may_be_empty(night_rows, missing_hour, is_reported):
    """Of hours with about three rows, one in twenty has none. Hours of the day have a thousand."""
    times = np.datetime64("2026-01-05T00", "s") + np.arange(30 * 24) * np.timedelta64(3600, "s")
    hour = np.arange(len(times)) % 24
    rows = np.where(hour < 6, night_rows or 3, 1000).astype(float)
    exists = np.arange(len(times)) != 28 * 24 + missing_hour
    count = int(exists.sum())
    unknown = np.full(count, np.datetime64("NaT", "s"))
    ledger = PartitionLedger(unknown, np.ones(count, int), [{}] * count)
    ledger = replace(ledger, rows=rows[exists] if night_rows else None)
    nothing = np.empty((0, count))
    history = History(times[exists], nothing, nothing, [], ledger=ledger)
    score = MissingPartition().score(history).score[0]
    assert (np.nan_to_num(score) >= 3).any() == is_reported
    assert len(list(gaps(history))) == 1


def test_a_table_of_few_rows_that_stops_is_reported():
    """A day of overdue hours with three rows each is no chance."""
    times = np.datetime64("2026-01-05T00", "s") + np.arange(30 * 24) * np.timedelta64(3600, "s")
    arrived = times + np.timedelta64(2, "h")
    ledger = PartitionLedger(
        arrived,
        np.ones(len(times), int),
        [{}] * len(times),
        now=times[-1] + np.timedelta64(12, "h"),
        rows=np.full(len(times), 3.0),
    )
    nothing = np.empty((0, len(times)))
    history = History(times, nothing, nothing, [], ledger=ledger)
    assert MissingPartition().score(history).score[0, -1] >= 3


def test_a_skipped_hour_is_no_gap_if_its_zone_is_unknown():
    """The clocks of Europe skip two o'clock on 29 March 2026."""
    times = np.arange("2026-03-01", "2026-04-05", dtype="M8[h]").astype("M8[s]")
    history = history_of(times[times != np.datetime64("2026-03-29T02:00")])
    assert not list(gaps(history))
