"""Partitions that are odd as wholes, from what was stored to anomaly and incident. No Spark."""

import datetime as dt
import json
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import sqlalchemy as sa
from tidegauge.analyzers.core.errors import NoSuchColumnError
from tidegauge.analyzers.core.metric import Scale
from tidegauge.analyzers.core.partitions import Partition
from tidegauge.repository.detection import detect
from tidegauge.repository.detectors.arrivals import MissingPartition, gaps
from tidegauge.repository.detectors.base import History, PartitionLedger
from tidegauge.repository.store import schema as s
from tidegauge.repository.store import scorebook
from tidegauge.repository.testing.samples import (
    COMPLETE,
    MEAN,
    SIZE,
    UNIQUE,
    day,
    measurement,
    spec,
)

import tidegauge as tg

NOW = dt.datetime.now(dt.UTC).replace(hour=0, minute=0, second=0, microsecond=0)
DAYS = 60
FIRST = NOW - dt.timedelta(days=DAYS)
"""Partitions end today, so that none is overdue."""
WHOLE = {
    "StalePartition()",
    "EmptyMetrics()",
    "VolatilityShift()",
    "MissingPartition()",
    "Late()",
    "SchemaChange()",
}
TWO = '[["x","long"],["s","string"]]'


def moment(n):
    return FIRST + dt.timedelta(days=n)


def name(n):
    return f"ds={moment(n):%Y-%m-%d}"


def partition(n, delay=2.0, schema=TWO, rows=None, total=None, fingerprint="a", groups=None):
    """A clean partition of the day n, counted from the first; it arrived two hours after its end."""
    draw = np.random.default_rng(n)
    rows = int(1000 * np.exp(0.05 * draw.standard_normal())) if rows is None else rows
    total = rows * (50 + draw.standard_normal()) if total is None else total
    one = int(rows * (0.5 + 0.02 * draw.standard_normal()))
    groups = {("a",): rows - one, ("b",): one} if groups is None else groups
    made = day(1, fingerprint, rows, groups, total=total, only=(SIZE, COMPLETE, MEAN, UNIQUE))
    return replace(
        made,
        partition=Partition(("ds",), (name(n)[3:],)),
        time=moment(n),
        arrived_at=moment(n) + dt.timedelta(days=1, hours=delay + 0.1 * draw.standard_normal()),
        schema=schema,
    )


def stored(repo, partitions, suite="{}"):
    run = repo.store.open_run(spec(suite=suite))
    repo.store.commit_batch(run, list(partitions))


def clean(repo, days=range(DAYS)):
    stored(repo, [partition(n) for n in days])


def found(repo, monitors=None):
    anomalies = repo.detect("d", monitors)
    wanted = WHOLE if monitors is None else {repr(m.detector) for m in monitors}
    return anomalies[anomalies["detector"].isin(wanted)]


def only(repo, monitors=None):
    """The one anomaly of a whole partition, and its incident's headline."""
    one = found(repo, monitors)
    assert len(one) == 1
    incidents = repo.incidents("d").set_index("id")
    return one.iloc[0], incidents.loc[one["incident_id"].item()]


def test_clean_partitions_are_quiet(repo):
    clean(repo)
    every = ["Restatement", "ChangePoint", "SlowDrift"]
    assert found(repo).empty
    watch = [tg.Monitor(detector=one) for one in (*sorted(WHOLE), *every)]
    assert repo.detect("d", watch).empty
    assert repo.incidents("d").empty
    scores = repo.scores("d")
    assert set(scores["detector"]) >= {"ChangePoint()", "SlowDrift()"}


# copies


def test_a_copy_of_the_day_before(repo):
    clean(repo, range(40))
    before = partition(39)
    again = replace(before, partition=partition(40).partition, time=moment(40), fingerprint="b")
    stored(repo, [replace(again, arrived_at=partition(40).arrived_at)])
    stored(repo, [partition(n) for n in range(41, DAYS)])
    one, incident = only(repo)
    assert (one["partition"], one["detector"], one["name"]) == (
        name(40),
        "StalePartition()",
        "StalePartition",
    )
    assert (
        one["explanation"] == f"{name(40)} repeats the previous partition in 100% of its metrics."
    )
    assert (one["value"], one["upper"], one["direction"]) == (1.0, 0.6, "high")
    assert incident["status"] == "resolved"
    assert (incident["first"], incident["last"]) == (name(40), name(40))


def test_a_table_that_never_changes_is_no_copy(repo):
    stored(repo, [partition(n, rows=1000, total=5e4, groups={("a",): 1000}) for n in range(DAYS)])
    assert found(repo).empty


def test_two_metrics_alone_tell_of_no_copy(repo):
    for metric in ("x", "y"):
        values = {name(n): float(np.random.default_rng(n).normal()) for n in range(DAYS)}
        values[name(40)] = values[name(39)]
        repo.record("d", metric, values)
    watch = [tg.Monitor(detector="StalePartition")]
    assert found(repo, watch).empty
    values = {name(n): float(np.random.default_rng(n).normal()) for n in range(DAYS)}
    values[name(40)] = values[name(39)]
    repo.record("d", "z", values)
    assert found(repo, watch)["partition"].tolist() == [name(40)]


@pytest.mark.parametrize("usual", [0.5, 0.7, 1.0])
def test_small_counts_that_repeat_by_chance_are_no_copy(repo, usual):
    """Of 14 counts, nine or more are those of the day before on one day in a hundred."""
    random = np.random.default_rng(5)
    for metric in range(14):
        counts = random.poisson(usual, 300).tolist()
        repo.record("d", f"x{metric}", {name(n): v for n, v in enumerate(counts)}, scale="count")
    assert len(found(repo, [tg.Monitor(detector="StalePartition")])) <= 1


# empty metrics


def test_metrics_of_an_empty_partition(repo):
    stored(repo, [partition(n, rows=0 if n == 40 else None, total=0) for n in range(DAYS)])
    watch = [tg.Monitor(detector="EmptyMetrics")]
    one, incident = only(repo, watch)
    assert (one["partition"], one["detector"], one["value"]) == (name(40), "EmptyMetrics()", 3)
    said = "no longer has a value of Completeness of x, Mean of x, Uniqueness of s"
    assert one["explanation"] == f"{name(40)} {said}."
    assert said in incident["headline"]


@pytest.mark.parametrize(
    ("without", "told"),
    [
        ([40], [40]),
        ([40, 41], [40, 41]),
        (range(40, 50), [40, 41, 42, 43]),  # usual from then on
        ([20, 40], [20]),  # the second time in a quarter is not so rare any more
        ([5], []),  # after five values nothing is known
    ],
)
def test_a_metric_that_becomes_nan(repo, without, told):
    values = {name(n): float("nan") if n in without else 10.0 + n % 3 for n in range(DAYS)}
    repo.record("d", "x", values)
    assert sorted(found(repo)["partition"]) == [name(n) for n in told]


def test_a_metric_of_every_second_day_is_told_of_as_one_of_every_day(repo):
    values = {name(n): 10.0 + n % 3 for n in range(DAYS)}
    repo.record("d", "y", values)
    nothing = {name(n): float("nan") for n in (40, 42, 44, 46, 48)}
    repo.record("d", "x", {name(n): 10.0 + n % 3 for n in range(0, 40, 2)} | nothing)
    some = found(repo, [tg.Monitor(detector="EmptyMetrics")])
    assert sorted(some["partition"]) == [name(n) for n in (40, 42, 44, 46)]


def test_a_metric_that_is_often_empty_is_not_told_of(repo):
    repo.record("d", "x", {name(n): float("nan") if n % 9 == 6 else 10.0 for n in range(DAYS)})
    assert found(repo).empty


def test_a_metric_that_fails_or_is_not_measured_is_not_empty(repo):
    failed = measurement(MEAN, NoSuchColumnError("x", ["y"]))
    days = [partition(n) for n in range(DAYS)]
    days[40] = replace(
        days[40],
        measurements=[failed if one.analyzer == MEAN else one for one in days[40].measurements],
    )
    days[50] = replace(
        days[50], measurements=[one for one in days[50].measurements if one.analyzer != MEAN]
    )
    stored(repo, days)
    assert found(repo).empty


# noise


def noisy(seed, factors, metrics=30):
    """Metrics of 190 days with weekends of their own, their noise multiplied from the day 150 on."""
    noise = np.random.default_rng(seed).normal(0, 0.05, (metrics, 190))
    noise[:, 150:] *= factors
    week = np.where(np.arange(190) % 7 >= 5, -0.8, 0)
    return 1e5 * np.exp(week + noise)


def told_of_noise(values):
    days = (np.datetime64("2024-01-01") + np.arange(values.shape[1])).astype("M8[s]")
    scales = [Scale.POSITIVE] * len(values)
    scores = tg.VolatilityShift().score(History(days, values, values, scales))
    return np.flatnonzero(scores.score[0] >= 3).tolist()


@pytest.mark.parametrize("seed", range(4))
def test_a_table_that_becomes_noisier_is_told_of_for_four_days(seed):
    found = told_of_noise(noisy(seed, 3))
    assert len(found) == 4
    assert 152 <= found[0] <= found[-1] <= 165


def test_a_level_an_outlier_or_less_noise_is_no_noise():
    for factors in (1, 0.4):
        assert told_of_noise(noisy(1, factors)) == []
    level, days = noisy(1, 1), noisy(1, 1)
    level[:, 150:] *= 3
    days[:, [152, 154]] /= 10
    assert told_of_noise(level) == told_of_noise(days) == []


def test_one_noisy_metric_is_no_noise_of_the_table():
    values = noisy(1, 1)
    values[:3] = noisy(2, 5, metrics=3)
    assert told_of_noise(values) == []


@pytest.mark.soak
def test_noise_is_an_incident_of_its_own(repo):
    for i, values in enumerate(noisy(3, 3)):
        repo.record(
            "d",
            f"m{i}",
            dict(zip((name(n - 130) for n in range(190)), values.tolist(), strict=True)),
        )
    some = found(repo)
    assert some["detector"].unique().tolist() == ["VolatilityShift()"]
    assert some["incident_id"].nunique() == 1
    assert re.search(
        r" is noisier than before: its metrics vary [1-3]\.\d times as much\.$",
        some["explanation"].iloc[0],
    )


# schemas


def test_a_new_schema(repo):
    other = '[["x","double"],["t","string"]]'
    stored(repo, [partition(n, schema=other if n >= 40 else TWO) for n in range(DAYS)])
    one, incident = only(repo)
    assert (one["partition"], one["value"]) == (name(40), 3)
    assert one["explanation"] == (
        f"{name(40)} has a changed schema: s is gone, t is new, x is double, not long."
    )
    assert (
        "has a changed schema: s is gone, t is new, x is double, not long" in incident["headline"]
    )


def test_many_new_columns_are_counted(repo):
    wide = json.dumps([["x", "long"], ["s", "string"], *([f"c{n}", "int"] for n in range(9))])
    stored(repo, [partition(n, schema=wide if n >= 40 else TWO) for n in range(DAYS)])
    one, _ = only(repo)
    assert one["explanation"].endswith("c5 is new and 3 more.")


def test_a_schema_that_nobody_knows_is_no_change(repo):
    stored(repo, [partition(n, schema="[]" if n in {30, 31} else TWO) for n in range(DAYS)])
    assert found(repo).empty


def test_a_column_that_is_gone_for_a_day_is_told_twice(repo):
    stored(repo, [partition(n, schema='[["x","long"]]' if n == 40 else TWO) for n in range(DAYS)])
    some = found(repo).sort_values("partition")
    assert some["partition"].tolist() == [name(40)]  # the second change is not so rare any more
    watch = [tg.Monitor(detector="SchemaChange", rule="Threshold(1)")]
    assert found(repo, watch)["partition"].nunique() == 2


# restatements


def test_a_restated_partition(repo):
    clean(repo)
    watch = [tg.Monitor(detector="Restatement")]
    assert found(repo, watch).empty
    stored(repo, [partition(40, rows=1010, fingerprint="b")])
    one, incident = only(repo, watch)
    assert (one["partition"], one["value"]) == (name(40), 1)
    assert one["explanation"] == f"{name(40)} was restated once."
    assert "was restated once" in incident["headline"]
    stored(repo, [partition(40, rows=1020, fingerprint="c")])
    one, _ = only(repo, watch)
    assert one["explanation"] == f"{name(40)} was restated 2 times."
    stored(repo, [partition(40, rows=1020, fingerprint="c")])
    assert only(repo, watch)[0]["value"] == 2


# gaps


def test_a_gap(repo):
    clean(repo, [n for n in range(DAYS) if n not in {40, 41}])
    one, incident = only(repo)
    assert (one["partition"], one["detector"], one["value"]) == (name(42), "MissingPartition()", 2)
    since = f"{moment(40).day} {moment(40):%b %Y}"
    assert one["explanation"] == f"{name(42)} follows a gap of 2 days from {since} on."
    assert incident["status"] == "resolved"
    stored(repo, [partition(40), partition(41)])
    assert found(repo).empty  # they came after all
    assert repo.incidents("d").empty


def test_weekends_of_a_table_of_weekdays(repo):
    clean(repo, [n for n in range(DAYS) if moment(n).weekday() < 5])
    assert found(repo).empty
    assert repo.incidents("d").empty


@pytest.mark.parametrize("weekday", range(5))
def test_a_weekday_that_is_missing_between_weekdays(repo, weekday):
    (gone,) = [n for n in range(40, 47) if moment(n).weekday() == weekday]
    clean(repo, [n for n in range(DAYS) if moment(n).weekday() < 5 and n != gone])
    some = found(repo)
    late = some[some["partition"] > name(20)]
    assert late["partition"].tolist() == [name(gone + (3 if weekday == 4 else 1))]
    assert late["value"].tolist() == [1]


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


def test_what_is_overdue_is_told_of_the_last():
    for days in (0, 1):
        missing, score, _ = overdue(days)
        assert (missing == 0).all()
        assert (np.nan_to_num(score) == 0).all()
    missing, score, told = overdue(4)
    assert np.flatnonzero(missing).tolist() == [39]
    assert score[39] >= 3
    assert missing[39] in {3, 4}
    assert told == "is the newest, 3 days overdue since 28 May 2013"


def stopped(missing, days_ago, count=90):
    """Return what is said of the newest of daily partitions, of which some are missing, that stopped."""
    days = np.setdiff1d(np.arange(count), missing).astype("M8[D]").astype("M8[s]")
    came = days + np.timedelta64(1, "D") + np.timedelta64(3, "h")
    now = days[-1] + np.timedelta64(days_ago, "D") + np.timedelta64(12, "h")
    ledger = PartitionLedger(came, np.ones(len(days), dtype=int), [{}] * len(days), now=now)
    nothing = np.empty((0, len(days)))
    history = History(days, nothing, nothing, [], ledger=ledger)
    score = tg.MissingPartition().score(history).score[0]
    told = tg.MissingPartition().explanation(history, len(days) - 1)
    return score[-1], told


def test_a_table_that_has_stopped_is_told_of_whatever_was_missing_before():
    """Two days longer than the longest gap before: only then it is known to be unlike that."""
    for missing, longest in (([45], 1), ([45, 46], 2), ([30, *range(60, 75)], 15)):
        after = longest + 3  # two of these days are not over, or may come late
        assert stopped(missing, after)[0] >= 3, missing
        assert stopped(missing, 60)[0] >= 3, missing
    score, told = stopped([45], 2)  # as long as the gap before
    assert score < 3
    assert "1 day overdue" in told


def test_a_gap_before_the_newest_stays_told_while_nothing_comes():
    days = [stopped([88], ago) for ago in (1, 2, 3, 10)]
    assert all(score >= 3 for score, _ in days)
    told = "follows a gap of 1 day, 30 Mar 1970"
    assert days[0][1] == told
    assert days[2][1] == f"{told}, and is the newest, 2 days overdue since 1 Apr 1970"


def gap(days, now=None):
    """Return what is said of the newest of some days, which came an hour after their ends."""
    times = np.asarray(days, "M8[D]").astype("M8[s]")
    came = times + np.timedelta64(25, "h")
    end = np.datetime64("NaT", "s") if now is None else np.datetime64(now, "s")
    ledger = PartitionLedger(came, np.ones(len(times), int), [{}] * len(times), now=end)
    nothing = np.empty((0, len(times)))
    history = History(times, nothing, nothing, [], ledger=ledger)
    detector = MissingPartition()
    return detector.measure(history)[-1], detector.explanation(history, len(times) - 1)


@pytest.mark.parametrize("length", [1, 40, 56, 57, 98, 99, 200])
def test_a_gap_has_its_whole_length_and_is_no_precedent_of_itself(length):
    before = np.arange("2013-01-01", "2013-07-01", dtype="M8[D]")
    after = before[-1] + np.timedelta64(length + 1, "D")
    many = "1 day, 1 Jul 2013" if length == 1 else f"{length} days from 1 Jul 2013 on"
    assert gap([*before, after]) == (length, f"follows a gap of {many}")


def test_a_time_in_the_far_future_costs_no_more_than_another_gap():
    """Seventy million hours are counted, not listed."""
    times = np.append(HOURS, np.datetime64("9999-12-31T00:00:00"))
    nothing = np.empty((0, len(times)))
    history = History(times, nothing, nothing, [])
    hours = (times[-1] - times[-2]) // np.timedelta64(1, "h")
    assert MissingPartition().measure(history)[-1] == hours - 1
    (found,) = gaps(history)
    assert found.count == hours - 1
    assert found.times(2).tolist() == [
        dt.datetime(2024, 4, 8, 0),  # HOURS end with the hour before
        dt.datetime(2024, 4, 8, 1),
    ]


def test_weekends_of_a_table_of_weekdays_are_missing_in_no_gap():
    days = np.arange("2013-01-01", "2013-07-01", dtype="M8[D]")
    before = days[np.is_busday(days)]  # the last is a Friday
    after = np.busday_offset(before[-1], 61)
    assert gap([*before, after]) == (60, "follows a gap of 60 days from 1 Jul 2013 on")
    # On the Wednesday after at noon, Monday and Tuesday are over.
    assert gap(before, "2013-07-03T12:00") == (2, "is the newest, 2 days overdue since 1 Jul 2013")


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
def test_hours_that_are_missing_among_those_of_their_week(kept):
    """Neither the first nights nor the first weekend are gaps; two hours of a Tuesday at work are one."""
    gone = np.array(["2024-03-12T10", "2024-03-12T11"], "M8[s]")
    times = HOURS[kept & ~np.isin(HOURS, gone)]
    nothing = np.empty((0, len(times)))
    history = History(times, nothing, nothing, [])
    (place,) = np.flatnonzero(MissingPartition().score(history).score[0] >= 3)
    assert times[place] == np.datetime64("2024-03-12T12")
    told = "follows a gap of 2 hours from 12 Mar 2024 10:00 on"
    assert MissingPartition().explanation(history, place) == told


@pytest.mark.parametrize("weeks", [2, 3, 6, 12])
@pytest.mark.parametrize("until", [11, 17, 24])
def test_a_table_of_some_hours_that_stops_is_reported(weeks, until):
    """Whose nights and weekends are always missing, and say nothing of its hours."""
    hours = HOURS[(DAYTIME >= 9) & (until > DAYTIME) & WEEKDAY]
    last = HOURS[0] + np.timedelta64(7 * weeks, "D")
    times = hours[hours < last]
    came = times + np.timedelta64(90, "m")
    now = last + np.timedelta64(14, "D")  # after two weeks
    ledger = PartitionLedger(came, np.ones(len(times), int), [{}] * len(times), now=now)
    nothing = np.empty((0, len(times)))
    history = History(times, nothing, nothing, [], ledger=ledger)
    assert np.flatnonzero(MissingPartition().score(history).score[0] >= 3).tolist() == [
        len(times) - 1
    ]
    told = f"is the newest, {10 * (until - 9)} hours overdue since"
    assert MissingPartition().explanation(history, len(times) - 1).startswith(told)


def test_an_outage_counts_once_however_long_it_was():
    """A week without data is no habit: another day is missing among 400 that came."""
    days = np.arange("2013-01-01", "2014-03-01", dtype="M8[D]")
    gone = np.isin(days, [*np.arange("2013-05-05", "2013-05-12", dtype="M8[D]"), days[400]])
    times = days[~gone].astype("M8[s]")
    nothing = np.empty((0, len(times)))
    score = MissingPartition().score(History(times, nothing, nothing, [])).score[0]
    assert times[score >= 3].astype("M8[D]").tolist() == [dt.date(2013, 5, 12), dt.date(2014, 2, 6)]


def stopped_days(days, ago):
    """Return the score and the words of the newest day, which came a day later, so many days ago."""
    times = np.asarray(days, "M8[D]").astype("M8[s]")
    came, now = times + np.timedelta64(27, "h"), times[-1] + np.timedelta64(ago, "D")
    ledger = PartitionLedger(came, np.ones(len(times), int), [{}] * len(times), now=now)
    nothing = np.empty((0, len(times)))
    history = History(times, nothing, nothing, [], ledger=ledger)
    told = MissingPartition().explanation(history, len(times) - 1)
    return MissingPartition().score(history).score[0, -1], told


def test_a_long_outage_hides_no_table_that_stops():
    days = np.arange("2013-01-01", "2013-09-13", dtype="M8[D]")
    outage = (days >= np.datetime64("2013-07-20")) & (days < np.datetime64("2013-08-24"))
    score, told = stopped_days(days[~outage], 45)
    assert score >= 3
    assert told == "is the newest, 43 days overdue since 13 Sep 2013"
    score, _ = stopped_days(
        ["1970-01-01", *np.arange("2013-01-01", "2013-02-15", dtype="M8[D]")], 100
    )
    assert score >= 3


@pytest.mark.parametrize("clock", [12, 20, 23])
def test_hours_that_come_once_a_day_are_not_overdue_before_the_next_load(clock):
    """Each night at two those of the day before come: until the next load, those of a day are missing."""
    times = HOURS[:-24]
    last = times[-1].astype("M8[D]") + np.timedelta64(1, "D")
    came = times.astype("M8[D]").astype("M8[s]") + np.timedelta64(26, "h")
    for days, overdue in ((0, False), (1, False), (5, True)):
        now = last.astype("M8[s]") + np.timedelta64(24 * days + clock, "h")
        ledger = PartitionLedger(came, np.ones(len(times), int), [{}] * len(times), now=now)
        nothing = np.empty((0, len(times)))
        history = History(times, nothing, nothing, [], ledger=ledger)
        assert (MissingPartition().measure(history)[-1] > 0) == overdue, days


def test_weeks_can_be_missing_and_overdue():
    weeks = np.arange("2013-01-07", "2013-11-04", 7, dtype="M8[D]").astype("M8[s]")
    times = np.delete(weeks, 30)
    came, now = times + np.timedelta64(8, "D"), np.datetime64("2013-11-26T00:00:00")
    ledger = PartitionLedger(came, np.ones(len(times), int), [{}] * len(times), now=now)
    nothing = np.empty((0, len(times)))
    history = History(times, nothing, nothing, [], ledger=ledger)
    assert np.flatnonzero(MissingPartition().score(history).score[0] >= 3).tolist() == [30]
    told = MissingPartition().explanation(history, len(times) - 1)
    assert told == "is the newest, 2 weeks overdue since 4 Nov 2013"


def scored(times):
    nothing = np.empty((0, len(times)))
    return MissingPartition().score(History(times.astype("M8[s]"), nothing, nothing, [])).score[0]


@pytest.mark.parametrize("minutes", [5, 15, 60])
@pytest.mark.parametrize("missing", [0.05, 0.1])
def test_parts_of_days_that_are_missing_at_random_are_soon_usual(minutes, missing):
    """Only the first gap after the first week is told."""
    times = np.arange("2024-01-01", "2024-01-29", minutes, dtype="M8[m]")
    kept = times[np.random.default_rng(1).random(len(times)) > missing]
    assert (scored(kept) >= 3).sum() <= 2


def test_a_gap_beside_a_night_counts_as_one_among_the_hours_that_are_usually_there():
    """One hour in fifty is missing: another is nothing new, at nine as little as at noon."""
    hours = HOURS[(DAYTIME >= 9) & (DAYTIME < 17)]
    kept = hours[np.random.default_rng(2).random(len(hours)) > 0.02]
    after = kept > HOURS[0] + np.timedelta64(28, "D")
    assert (scored(kept)[after] >= 3).sum() == 0


@pytest.mark.parametrize("days", [10, 11])
def test_partitions_of_ten_days_are_no_weeks_of_which_some_are_missing(days):
    times = np.arange("2022-01-01", "2024-01-01", days, dtype="M8[D]")
    assert (scored(times) == 0).sum() == len(times) - 7


def test_months_end_with_their_last_day():
    months = np.arange("2012-01", "2013-11", dtype="M8[M]")
    times, ends = months.astype("M8[s]"), (months + 1).astype("M8[s]")
    came = ends + np.timedelta64(6, "h")
    now = np.datetime64("2014-02-02T00:00:00")
    ledger = PartitionLedger(came, np.ones(len(times), int), [{}] * len(times), now=now)
    nothing = np.empty((0, len(times)))
    history = History(times, nothing, nothing, [], ledger=ledger)
    assert tg.Late().measure(history).tolist() == [6.0] * len(times)
    # November, December and January are over.
    assert tg.MissingPartition().measure(history)[-1] == 3


def test_nothing_is_overdue_if_nobody_knows_when_it_came():
    unknown = np.full(40, "NaT", "M8[s]")
    assert (overdue(30, arrived=unknown)[0] == 0).all()
    assert (overdue(30, now=np.datetime64("NaT", "s"))[0] == 0).all()


def test_a_slow_table_is_overdue_later():
    assert overdue(6, delay=100)[0][-1] == 0
    assert overdue(30, delay=100)[0][-1] > 0


def test_a_table_that_was_loaded_years_later_is_not_overdue(repo):
    loaded = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
    old = [replace(day(n, total=float(n)), arrived_at=loaded) for n in range(1, 40)]
    stored(repo, old)
    watch = [tg.Monitor(detector=one) for one in ("MissingPartition", "Late")]
    assert found(repo, watch).empty


def test_what_stopped_long_ago_is_overdue_until_it_goes_on(repo):
    clean(repo, range(DAYS - 5))
    one, incident = only(repo)
    assert one["partition"] == name(DAYS - 6)
    # In the first hours of a day yesterday's partition is not overdue yet.
    assert re.search("is the newest, [45] days overdue since", one["explanation"])
    assert incident["status"] == "open"
    stored(repo, [partition(n) for n in range(DAYS - 5, DAYS)])
    assert found(repo).empty
    assert repo.incidents("d").empty


def test_overdue_partitions_and_the_gap_that_they_leave_are_one_incident(repo, monkeypatch):
    now = SimpleNamespace(now=lambda _: clock)
    monkeypatch.setattr(detect, "datetime", now)
    watch = [tg.Monitor(detector="MissingPartition")]
    stored(repo, [partition(n) for n in range(DAYS)])
    clock = moment(DAYS + 4)
    found(repo, watch)
    (incident,) = repo.incidents("d")["id"]
    repo.label(int(incident), "acknowledged")
    stored(repo, [partition(DAYS + 3)])
    clock = moment(DAYS + 5)
    one, told = only(repo, watch)
    since = f"{moment(DAYS).day} {moment(DAYS):%b %Y}"
    assert one["explanation"] == f"{name(DAYS + 3)} follows a gap of 3 days from {since} on."
    assert (told.name, told["status"]) == (incident, "acknowledged")


# late


def test_a_late_partition(repo):
    stored(repo, [partition(n, delay=14.0 if n == 40 else 2.0) for n in range(DAYS)])
    one, incident = only(repo)
    assert (one["partition"], one["detector"]) == (name(40), "Late()")
    assert one["value"] == pytest.approx(14, abs=0.5)
    assert one["explanation"].startswith(f"{name(40)} arrived 1")
    assert one["explanation"].endswith(" hours after its end.")
    assert incident["headline"].split(": ")[1].startswith("the partition arrived 1")
    assert "hours after its end" in incident["headline"]


def test_early_and_a_little_late_is_no_matter(repo):
    odd = {30: 0.0, 40: 3.5, 50: -10.0}
    stored(repo, [partition(n, delay=odd.get(n, 2.0)) for n in range(DAYS)])
    assert found(repo).empty


def points(repo, detector):
    """What is stored of a detector's scores, in order of partitions."""
    with repo.database.read() as connection:
        ids = connection.execute(sa.select(s.partition.c.id).order_by(s.partition.c.id)).scalars()
        found = scorebook.read(connection, 1, detector, ids.all())
    order = np.argsort(found.partition)
    return np.stack([getattr(found, name)[order] for name in (*scorebook.NUMBERS, "reason")])


@pytest.mark.soak
def test_delays_that_are_scored_day_by_day_are_scored_as_at_once(repo):
    """A weekly rhythm, single late days, a level that goes up, and a day that is loaded again."""
    extra = {n: 6.0 for n in range(5, DAYS, 7)} | {20: 14.0, 31: 3.5, 44: 30.0}
    extra |= {n: 9.0 + extra.get(n, 0) for n in range(48, DAYS)}
    days = [partition(n, delay=2.0 + extra.get(n, 0)) for n in range(DAYS)]
    watch = [tg.Monitor(detector="Late")]
    for n in range(0, DAYS, 4):
        stored(repo, days[n : n + 4])
        repo.detect("d", watch)
    stored(repo, [partition(52, delay=200.0, fingerprint="b", total=1.0)])
    told = repo.detect("d", watch)["partition"].tolist()
    by_day = points(repo, "Late()")
    assert by_day.shape[1] == DAYS - 7  # the first are learned from
    assert repo.detect("d", watch, replay=True)["partition"].tolist() == told
    np.testing.assert_allclose(points(repo, "Late()"), by_day, rtol=1e-9)
    assert {name(20), name(44), name(48)} <= set(told)


def test_only_delays_that_changed_are_looked_at(repo, monkeypatch):
    clean(repo, range(50))
    found(repo)
    scored = []
    score = tg.Late.score
    monkeypatch.setattr(
        tg.Late, "score", lambda *args: scored.append(len(args[1].times) - args[2]) or score(*args)
    )
    found(repo)
    clean(repo, range(50, 52))
    found(repo)
    assert scored == [2]


# all together


def many(repo, shift=None, metrics=12, days=60):
    draw = np.random.default_rng(0)
    for k in range(metrics):
        values = 1000 + 10 * draw.standard_normal(days)
        if shift:
            shift(values)
        repo.record(
            "d", f"m{k}", {name(n): float(v) for n, v in enumerate(values)}, scale="positive"
        )


def test_all_a_little_off(repo):
    def off(values):
        values[40] = 1000 + 24 * np.sign(values[40] - 1000)

    many(repo, off)
    watch = [tg.Monitor(detector="Multivariate")]
    one, incident = only(repo, watch)
    assert one["partition"] == name(40)
    assert one["explanation"].startswith(f"{name(40)} is unusual in ")
    assert one["explanation"].endswith(" of 12 metrics at once.")
    assert "is unusual in 4 of 12 metrics at once" in incident["headline"]


def test_few_metrics_none_of_which_is_odd(repo):
    clean(repo)
    assert found(repo, [tg.Monitor(detector="Multivariate")]).empty


def test_chance_in_many_metrics_is_nothing(repo):
    many(repo)
    assert found(repo, [tg.Monitor(detector="Multivariate")]).empty


# changes


def test_a_change_of_level_is_told_once(repo):
    def settle(values):
        values[40:] += 500

    many(repo, settle, metrics=2)
    some = found(repo, [tg.Monitor(detector="ChangePoint")])
    assert set(some["partition"]) == {name(43)}
    assert len(some) == 2
    (incident,) = repo.incidents("d").itertuples()
    assert (incident.first, incident.last, incident.status) == (name(43), name(43), "resolved")


def test_a_spike_is_no_change_of_level(repo):
    def spike(values):
        values[40:42] += 500

    many(repo, spike, metrics=2)
    assert found(repo, [tg.Monitor(detector="ChangePoint")]).empty


def test_a_slow_drift(repo):
    def drift(values):
        values[90:] += 4.0 * np.arange(30)

    many(repo, drift, metrics=1, days=120)
    some = found(repo, [tg.Monitor(detector="SlowDrift")])
    assert len(some) >= 1
    assert some["partition"].min() > name(95)
    assert "slow drift" in some["explanation"].iloc[0]


def test_a_step_is_no_slow_drift(repo):
    def step(values):
        values[90:] += 500

    many(repo, step, metrics=1, days=120)
    assert found(repo, [tg.Monitor(detector="SlowDrift")]).empty
