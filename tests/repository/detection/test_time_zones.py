"""Partitions in local time: changes of clocks, and lateness by local clocks. No Spark."""

import datetime as dt
from zoneinfo import ZoneInfo

import numpy as np
import pytest

import tidegauge as tg
from tidegauge.analyzers.runs.ledger import RunSpec, RunStatus
from tidegauge.repository.detectors.base import History, PartitionLedger
from tidegauge.repository.detectors.inputs import (
    clock_changes,
    guess_zone,
    local_clock,
    time_zone_of,
)
from tidegauge.repository.detectors.whole_partitions import MissingPartition, delays_of

ZONES = ("Europe/Berlin", "Europe/London", "America/New_York", "Australia/Sydney")
HOUR = np.timedelta64(3600, "s")


def local_hours(zone, first, last):
    """Return the hours that local clocks show between two days, and how often they show each."""
    start = np.datetime64(first, "s")
    utc = np.arange(start, np.datetime64(last, "s"), HOUR)
    return np.unique(local_clock(utc, ZoneInfo(zone)), return_counts=True)


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("minutes", [60, 15])
def test_skipped_and_repeated_hours_are_those_that_clocks_show(zone, minutes):
    step = np.timedelta64(60 * minutes, "s")
    utc = np.arange(np.datetime64("2026-01-01", "s"), np.datetime64("2027-01-01", "s"), step)
    shown, counts = np.unique(local_clock(utc, ZoneInfo(zone)), return_counts=True)
    every = np.arange(shown[0], shown[-1] + step, step)
    skipped, repeated = clock_changes(every, ZoneInfo(zone))
    assert set(every[skipped]) == set(every) - set(shown)
    assert set(every[repeated]) == set(shown[counts == 2])
    assert skipped.sum() == repeated.sum() == 60 // minutes


def test_days_are_never_skipped_or_repeated():
    days = np.arange("2026-01-01", "2027-01-01", dtype="M8[D]").astype("M8[s]")
    for zone in (*ZONES, "America/Havana"):
        assert not np.any(clock_changes(days, ZoneInfo(zone)))


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Australia/Sydney"])
def test_a_zone_is_guessed_from_the_hour_that_is_missing(zone):
    hours, _ = local_hours(zone, "2026-01-01", "2026-12-31")
    assert guess_zone(hours).utcoffset(None) is None  # a zone, not a fixed offset
    assert clock_changes(hours, guess_zone(hours))[0].sum() == 0
    every = np.arange(hours[0], hours[-1], HOUR)
    missing = np.setdiff1d(every, hours)
    np.testing.assert_array_equal(missing, every[clock_changes(every, guess_zone(hours))[0]])
    # Another missing hour, hours in UTC, and days say nothing.
    assert guess_zone(np.delete(every, 100)) is None
    assert guess_zone(every) is None
    assert guess_zone(np.arange("2026-03-01", "2026-05-01", dtype="M8[D]").astype("M8[s]")) is None
    assert time_zone_of({"time_zone": zone}, []) == ZoneInfo(zone)


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("minutes", [60, 15])
def test_the_skipped_hour_is_no_gap_and_others_are(zone, minutes):
    step = np.timedelta64(60 * minutes, "s")
    utc = np.arange(np.datetime64("2026-01-01", "s"), np.datetime64("2027-01-01", "s"), step)
    shown = np.unique(local_clock(utc, ZoneInfo(zone)))

    def gaps(times, zone):
        ledger = PartitionLedger(
            np.full(len(times), np.datetime64("NaT", "s")),
            np.ones(len(times), dtype=np.int64),
            [{}] * len(times),
            zone=zone,
        )
        history = History(
            times, np.empty((0, len(times))), np.empty((0, len(times))), [], ledger=ledger
        )
        return times[np.flatnonzero(MissingPartition().score(history).score[0] >= 3)]

    assert gaps(shown, ZoneInfo(zone)).size == 0
    assert gaps(shown, None).size == 1
    at = 180 * 24 * 60 // minutes
    np.testing.assert_array_equal(
        gaps(np.delete(shown, at), ZoneInfo(zone)), shown[at + 1 : at + 2]
    )


def record_hours(repo, zone, first, last, suite):
    """Record the rows of each hour of local clocks: an hour that they show twice has twice the rows."""
    hours, counts = local_hours(zone, first, last)
    random = np.random.default_rng(1)
    rows = {}
    for hour, count in zip(hours.tolist(), counts.tolist(), strict=True):
        rhythm = 1 + 0.5 * np.sin(hour.hour / 24 * 2 * np.pi)
        name = f"ds={hour:%Y-%m-%d}/hr={hour:%H}"
        rows[name] = round(float(count * 1000 * rhythm * np.exp(random.normal(0, 0.03))))
    repo.record("t", "Size", rows, scale="count")
    run = repo.store.open_run(RunSpec("t", None, ("ds", "hr"), suite))
    repo.store.close_run(run, RunStatus.COMPLETE, {})


def suite_json(zone):
    return tg.Suite("t", [tg.Size()], time_zone=zone).canonical()


@pytest.mark.parametrize(
    "first, last", [("2026-03-01", "2026-04-08"), ("2026-10-01", "2026-11-03")]
)
def test_changes_of_clocks_are_no_anomalies_in_a_named_zone(first, last):
    with tg.Repository("sqlite://") as repo:
        record_hours(repo, "Europe/Berlin", first, last, suite_json("Europe/Berlin"))
        repo.detect("t")
        assert repo.anomalies("t").empty
        assert (repo.calendar("t")["status"] != "missing").all()


def test_a_guessed_zone_is_named_in_a_warning():
    with tg.Repository("sqlite://") as repo:
        record_hours(repo, "Europe/Berlin", "2026-03-01", "2026-04-08", suite_json(None))
        with pytest.warns(
            tg.RepositoryWarning, match="set `time_zone: Europe/Berlin` in the suite"
        ):
            repo.detect("t")
        assert repo.anomalies("t").empty


def test_an_unknown_zone_is_refused():
    with pytest.raises(
        tg.SuiteError, match="Invalid time_zone 'Europe/Berln'; did you mean 'Europe/Berlin'"
    ):
        tg.Suite("t", [tg.Size()], time_zone="Europe/Berln")
    suite = tg.Suite("t", [tg.Size()], time_zone="Pacific/Auckland")
    assert tg.Suite.from_json(suite.canonical()) == suite


@pytest.mark.parametrize(
    "zone, delay_hours",
    [("Pacific/Auckland", -12.5), ("America/New_York", 5.5), ("UTC", 0.5)],
)
def test_delays_are_counted_from_the_local_end_of_a_day(zone, delay_hours):
    """Days that arrive half an hour after their local end have a delay of half an hour."""
    days = np.arange("2026-11-08", "2026-11-20", dtype="M8[D]").astype("M8[s]")
    ends = [(day + np.timedelta64(1, "D")).item().replace(tzinfo=ZoneInfo(zone)) for day in days]
    arrived = [
        (end + dt.timedelta(minutes=30)).astimezone(dt.UTC).replace(tzinfo=None) for end in ends
    ]
    for known_zone, hours in ((ZoneInfo(zone), 0.5), (None, delay_hours)):
        clocks = local_clock(np.array(arrived, "M8[s]"), known_zone)
        ledger = PartitionLedger(clocks, np.ones(12, dtype=np.int64), [{}] * 12, zone=known_zone)
        history = History(days, np.empty((0, 12)), np.empty((0, 12)), [], ledger=ledger)
        assert set(delays_of(history) / np.timedelta64(3600, "s")) == {hours}
