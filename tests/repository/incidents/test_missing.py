"""Missing partitions are open until they arrive or are labeled, and reported by their time. No Spark."""

import datetime as dt
import logging
from dataclasses import replace

import numpy as np
import pytest

import tidegauge as tg
from tidegauge.analyzers.core.partitions import Partition
from tidegauge.repository.detectors.base import History, PartitionLedger
from tidegauge.repository.detectors.whole_partitions import MissingPartition
from tidegauge.repository.incidents.anomaly import missing_span, partition_name_at
from tidegauge.repository.repository import Repository
from tidegauge.repository.testing import SIZE, commit, day

WATCH = [tg.Monitor(detector="MissingPartition")]
HOUR = dt.timedelta(hours=1)
THIS_HOUR = dt.datetime.now(dt.UTC).replace(minute=0, second=0, microsecond=0)
MIDNIGHT = THIS_HOUR.replace(hour=0)
"""Ends of the newest hour and day, which arrive an hour and two hours later.

No other partitions are overdue.
"""


@pytest.fixture
def repo():
    with Repository("sqlite://") as repository:
        yield repository


def daily(n):
    """Return the day that ended the given number of days before the newest."""
    time = MIDNIGHT - dt.timedelta(days=n + 1)
    partition = Partition(("ds",), (f"{time:%Y-%m-%d}",))
    return replace(day(1, only=[SIZE]), partition=partition, time=time, arrived_at=time + 26 * HOUR)


def hourly(n):
    """Return the hour that ended the given number of hours before the current one."""
    time = THIS_HOUR - (n + 1) * HOUR
    partition = Partition(("ds", "hr"), (f"{time:%Y-%m-%d}", f"{time:%H}"))
    return replace(day(1, only=[SIZE]), partition=partition, time=time, arrived_at=time + 2 * HOUR)


def arrive(repo, make, numbers):
    commit(repo, *(make(n) for n in sorted(numbers, reverse=True)))
    repo.detect("d", WATCH)


def incidents(repo):
    found = repo.incidents("d")
    return found[["first", "last", "status"]].to_numpy().tolist()


def missing(repo):
    return repo.overview()["missing"].item()


def shown(time, form="%Y-%m-%d"):
    return f"{time:{form}}"


@pytest.mark.parametrize(("make", "last"), [(daily, 40), (hourly, 400)])
def test_a_gap_stays_open_and_counted_until_it_arrives(repo, make, last):
    arrive(repo, make, range(4, last))
    assert missing(repo) > 0
    arrive(repo, make, {0, 1, 2})
    gone = make(3)
    name = gone.partition.name
    assert incidents(repo) == [[name, name, "open"]]
    assert missing(repo) == 1
    calendar = repo.calendar("d")
    assert calendar[calendar["status"] == "missing"]["time"].tolist() == [gone.time]
    headline = repo.incidents("d")["headline"].item()
    form = "%Y-%m-%d" if make is daily else "%Y-%m-%d %H:%M"
    assert headline == f"{shown(gone.time, form)}: the partition is missing"
    arrive(repo, make, {3})
    assert missing(repo) == 0
    assert repo.incidents("d", status="open").empty


@pytest.mark.parametrize("label", ["acknowledged", "expected", "resolved"])
def test_a_labelled_gap_is_not_counted_and_stays_labelled(repo, label):
    arrive(repo, daily, set(range(40)) - {0, 1, 5, 6, 7})
    assert missing(repo) == 3
    repo.label(int(repo.incidents("d")["id"].item()), label, by="ann")
    assert missing(repo) == 0
    for n in (1, 0):
        arrive(repo, daily, {n})
        first, last = daily(7).partition.name, daily(5).partition.name
        assert incidents(repo) == [[first, last, label]]


def test_a_gap_that_was_sent_is_closed_when_it_arrives(repo, caplog):
    caplog.set_level(logging.INFO, "tidegauge.incidents")
    arrive(repo, daily, set(range(40)) - {3})
    (notice,) = tg.notify(repo, "log")
    assert tg.notify(repo, "log") == []
    arrive(repo, daily, {3})
    assert repo.incidents("d")[["id", "status"]].to_numpy().tolist() == [
        [notice.incident, "resolved"]
    ]
    caplog.clear()
    assert tg.notify(repo, "log") == [notice]
    title, headline, note, _ = caplog.messages[0].split("\n")
    assert title == "Tidegauge: closed in d"
    assert headline == f"{shown(daily(3).time)}: the partition is missing"
    assert note.endswith(f"because {daily(3).partition.name} arrived.")


@pytest.mark.parametrize("apart", [1, 2, 22, 48])
def test_a_second_gap_soon_after_the_first_is_another_incident(repo, apart, caplog):
    caplog.set_level(logging.INFO, "tidegauge.incidents")
    second = 60 - apart - 1
    arrive(repo, hourly, set(range(59, 400)) - {60})
    assert len(tg.notify(repo, "log")) == 1
    arrive(repo, hourly, set(range(59)) - {second})
    names = [hourly(n).partition.name for n in (second, 60)]
    assert incidents(repo) == [[name, name, "open"] for name in names]
    assert len(tg.notify(repo, "log")) == 1
    assert missing(repo) == 2


def test_an_overdue_partition_that_becomes_a_gap_is_one_incident_and_sent_once(repo):
    arrive(repo, daily, range(4, 40))
    (notice,) = tg.notify(repo, "log")
    assert "in a row are overdue" in repo.incidents("d")["headline"].item()
    arrive(repo, daily, {0})
    assert repo.incidents("d")["id"].tolist() == [notice.incident]
    assert repo.incidents("d")["headline"].item().endswith(": 3 days in a row are missing")
    assert incidents(repo) == [[daily(3).partition.name, daily(1).partition.name, "open"]]
    assert tg.notify(repo, "log") == []


def test_a_gap_is_not_grouped_with_anomalies_of_the_next_partition(repo):
    """The next partition is resolved automatically, but the gap is not."""
    arrive(repo, daily, set(range(40)) - {3})
    days = {daily(n).partition.name: 1.0 for n in range(40) if n != 3}
    repo.record("d", "x", days | {daily(2).partition.name: 500.0})
    repo.detect("d", [*WATCH, tg.Monitor({"name": "x"}, tg.SimpleThreshold(100.0))])
    found = repo.incidents("d").set_index("headline")["status"].to_dict()
    gap = f"{shown(daily(3).time)}: the partition is missing"
    assert found == {gap: "open", f"{shown(daily(2).time)}: x is 500": "resolved"}


def test_gaps_of_a_segment_are_reported_with_it(repo):
    for region in ("eu", "us"):
        parts = [daily(n) for n in range(40) if (n, region) != (3, "eu")]
        named = [
            replace(
                one,
                partition=Partition(("ds", "region"), (*one.partition.values, region)),
                segment=f"region={region}",
            )
            for one in parts
        ]
        commit(repo, *named)
    repo.detect("d", WATCH)
    row = repo.incidents("d").iloc[0]
    assert row["headline"] == f"{shown(daily(3).time)}, region=eu: the partition is missing"
    assert row["first"] == f"{daily(3).partition.name}/region=eu"


@pytest.mark.parametrize("hours", [1, 24])
@pytest.mark.parametrize("count", [1, 2, 1234])
def test_spans_are_parsed_as_the_detector_writes_them(hours, count):
    step = np.timedelta64(hours, "h")
    times = np.datetime64("2026-01-01T00", "s") + step * np.arange(200)
    after = np.append(times, times[-1] + (count + 1) * step)
    gap = History(after, np.empty((0, 201)), np.empty((0, 201)), [])
    first = (times[-1] + step).item().replace(tzinfo=dt.UTC)
    span = missing_span(MissingPartition().explanation(gap, 200))
    unit = "hour" if hours == 1 else "day"
    assert (span.first, span.count, span.unit, span.is_overdue) == (first, count, unit, False)
    assert span.last(after[-1].item().replace(tzinfo=dt.UTC)) == first + (count - 1) * hours * HOUR
    ledger = PartitionLedger(
        times + step, np.ones(200, int), [{}] * 200, now=times[-1] + (count + 1) * step
    )
    late = History(times, np.empty((0, 200)), np.empty((0, 200)), [], ledger=ledger)
    span = missing_span(MissingPartition().explanation(late, 199))
    assert (span.first, span.count, span.is_overdue) == (first, count, True)


@pytest.mark.parametrize(
    ("neighbour", "expected"),
    [
        ("ds=2026-10-22", "ds=2026-10-21"),
        ("dt=20261022", "dt=20261021"),
        ("year=2026/month=10/day=22", "year=2026/month=10/day=21"),
        ("country=DE/ds=2026-10-22", "country=DE/ds=2026-10-21"),
        ("country=DE", None),
        ("ds=yesterday", None),
    ],
)
def test_missing_partitions_are_named_like_their_neighbours(neighbour, expected):
    time, next_time = dt.datetime(2026, 10, 21), dt.datetime(2026, 10, 22)  # noqa: DTZ001 - only its text
    assert partition_name_at(time, neighbour, next_time) == expected
