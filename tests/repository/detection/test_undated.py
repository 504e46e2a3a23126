"""Partitions without a time or far in the future, next to daily and weekly partitions."""

import numpy as np
import pytest

from tests.support.integrity import check
from tidegauge.repository.detectors.base import History, PartitionLedger
from tidegauge.repository.detectors.whole_partitions import MissingPartition
from tidegauge.repository.numerics.grid import Grid
from tidegauge.repository.repository import Repository

UNDATED = "ds=__HIVE_DEFAULT_PARTITION__"


@pytest.mark.parametrize(("step", "count"), [(7, 60), (1, 120)])
def test_a_partition_without_a_time_blocks_neither_detection_nor_seasons(step, count):
    days = np.datetime64("2023-01-02") + step * np.arange(count)
    values = {f"ds={day}": 1000.0 + n % 5 for n, day in enumerate(days)}
    values[f"ds={days[-1]}"] = 10.0
    with Repository("sqlite://") as repo:
        repo.record("orders", "rows", values | {UNDATED: 3.0}, scale="count")
        anomalies = repo.detect("orders")
        assert f"ds={days[-1]}" in anomalies["partition"].tolist()
        assert len(repo.seasons("orders")) == 1


def test_a_partition_without_a_time_is_not_the_newest():
    days = np.datetime64("2024-01-01") + np.arange(60)
    values = {f"ds={day}": 1000.0 + n % 5 for n, day in enumerate(days)} | {UNDATED: 1001.0}
    values[f"ds={days[-1]}"] = 100.0
    with Repository("sqlite://") as repo:
        repo.record("orders", "rows", values, scale="count")
        repo.detect("orders")
        assert repo.incidents("orders")["status"].tolist() == ["open"]
        repo.record("orders", "rows", {"ds=2024-03-01": 1001.0}, scale="count")
        repo.detect("orders")
        assert repo.incidents("orders")["status"].tolist() == ["resolved"]
        assert check(repo.database, repo.artifacts) == []


@pytest.mark.parametrize("aside", [UNDATED, "ds=9999-12-31"])
def test_an_anomaly_of_the_newest_day_is_separate_from_partitions_without_a_time(aside):
    """It stays a separate incident, and open until the next day has arrived."""
    days = np.datetime64("2024-01-01") + np.arange(60)
    values = {f"ds={day}": 1000.0 + n % 5 for n, day in enumerate(days)} | {aside: 3.0}
    with Repository("sqlite://") as repo:
        repo.record("orders", "rows", values, scale="count")
        repo.detect("orders")
        repo.record("orders", "rows", {"ds=2024-03-01": 100.0}, scale="count")
        repo.detect("orders")
        message = "2024-03-01: rows -90%"
        assert message in repo.incidents("orders", status="open")["headline"].tolist()
        for day in ("2024-03-02", "2024-03-03"):
            repo.record("orders", "rows", {f"ds={day}": 1001.0}, scale="count")
            repo.detect("orders")
        assert message in repo.incidents("orders", status="resolved")["headline"].tolist()


@pytest.mark.parametrize("aside", ["NaT", "9999-12-31T00:00:00"])
def test_days_are_overdue_next_to_a_partition_without_a_time(aside):
    days = np.arange("2013-01-01", "2013-03-01", dtype="M8[D]").astype("M8[s]")
    times = np.append(days, np.datetime64(aside, "s"))
    came = times + np.timedelta64(27, "h")
    now = np.datetime64("2013-03-06T12:00:00")
    ledger = PartitionLedger(came, np.ones(len(times), int), [{}] * len(times), now=now)
    nothing = np.empty((0, len(times)))
    history = History(times, nothing, nothing, [], ledger=ledger)
    assert MissingPartition().measure(history)[-2:].tolist() == [5.0, 0.0]
    explanation = MissingPartition().explanation(history, len(times) - 2)
    assert explanation.startswith(
        "is the newest, the next 5 days are overdue: 2013-03-01 was due by "
    )


def test_seasons_of_a_table_whose_last_month_end_is_long_past():
    """Days before a gap of eight months are not recent for any day of the month."""
    before = np.arange("2024-01-01", "2024-03-11", dtype="M8[D]")
    days = np.concatenate([before, np.arange("2024-11-11", "2024-11-25", dtype="M8[D]")])
    with Repository("sqlite://") as repo:
        values = {f"ds={day}": 1000.0 + n % 5 for n, day in enumerate(days)}
        repo.record("orders", "rows", values, scale="count")
        assert len(repo.seasons("orders")) == 1


def test_a_day_of_the_last_representable_year_breaks_nothing():
    days = np.arange("2024-01-01", "2024-04-10", dtype="M8[D]")
    values = {f"ds={day}": 1000.0 + n % 5 for n, day in enumerate(days)}
    with Repository("sqlite://") as repo:
        repo.record("orders", "rows", values | {"ds=9999-12-31": 5.0}, scale="count")
        assert repo.detect("orders").empty
        assert len(repo.calendar("orders")) == len(values) + 1


@pytest.mark.parametrize("hours", [range(9, 18), range(24)])
def test_tables_of_the_future_keep_their_partitions(hours):
    """Partitions of two months, one past and one in the future, with a break of nine days."""
    now = np.datetime64("2024-03-01T12:00:00")
    days = np.arange("2024-02-01", "2024-04-01", dtype="M8[D]")
    days = days[(days < np.datetime64("2024-03-10")) | (days > np.datetime64("2024-03-18"))]
    times = np.add.outer(days.astype("M8[h]"), np.array(hours)).ravel().astype("M8[s]")
    assert Grid.from_times(times).current(times, now) == len(times)
    odd = np.append(times, np.datetime64("9999-12-31T00:00:00"))
    assert Grid.from_times(odd).current(odd, now) == len(times)
    whole = days.astype("M8[s]")
    assert Grid.from_times(whole).current(whole, now) == len(days)


@pytest.mark.parametrize("sentinels", [["2099-12-31", "9999-12-31"], ["2013-04-20"]])
def test_few_partitions_in_the_far_future_are_set_aside_in_a_young_table(sentinels):
    now = np.datetime64("2013-02-10T12:00:00")
    days = np.arange("2013-01-01", "2013-01-31", dtype="M8[D]")
    times = np.array([*days, *np.array(sentinels, "M8[D]")]).astype("M8[s]")
    assert Grid.from_times(times).current(times, now) == len(days)
