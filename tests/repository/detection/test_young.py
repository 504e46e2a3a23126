"""Partitions that are measured before their data are complete. No Spark."""

import datetime as dt

import numpy as np
import pytest

import tidegauge as tg

START = dt.datetime(2026, 1, 5)
HISTORY, MORNINGS = 42, 14
DAY, HOUR = dt.timedelta(days=1), dt.timedelta(hours=1)


def name_of(step, index):
    time = START + index * step
    return f"ds={time:%Y-%m-%d}/hr={time:%H}" if step < DAY else f"ds={time:%Y-%m-%d}"


class Mornings:
    """A table whose newest partitions are incomplete, and what each morning reports about them."""

    def __init__(self, repo, step=DAY, history=HISTORY):
        self.repo, self.step, self.count = repo, step, history
        random = np.random.default_rng(4)
        times = [START + k * step for k in range(history + 100)]
        rhythm = np.array([0.7 if t.weekday() >= 5 else 1.0 for t in times])
        self.rows = np.round(2000 * rhythm * np.exp(random.normal(0, 0.03, len(times))))
        self.record({k: 1.0 for k in range(history)})
        repo.detect("t")

    def record(self, shares):
        rows = {name_of(self.step, k): round(self.rows[k] * x) for k, x in shares.items()}
        self.repo.record("t", "Size", rows, scale="count")
        complete = {name_of(self.step, k): 0.98 - 0.4 * (1 - x) for k, x in shares.items()}
        self.repo.record("t", "Completeness", complete, scale="ratio", instance="a", weight=1000)

    def pass_mornings(self, count, *shares):
        """Measure the newest partitions, of which these shares arrived, on several mornings."""
        for _ in range(count):
            self.record({self.count - k: share for k, share in enumerate(shares)})
            self.count += 1

    def morning(self, *shares):
        """Measure the newest partitions, and return those that are reported."""
        newest = {name_of(self.step, self.count - k) for k in range(len(shares))}
        self.pass_mornings(1, *shares)
        self.repo.detect("t")
        return sorted(newest & set(self.repo.anomalies("t")["partition"]))


@pytest.fixture
def repo():
    with tg.Repository("sqlite://") as repository:
        yield repository


@pytest.mark.parametrize(
    "shares",
    [
        pytest.param((0.6, 0.9, 1.0), id="three days"),
        pytest.param((0.3, 1.0), id="two days"),
        pytest.param((0.5, 0.8, 0.95, 1.0), id="four days", marks=pytest.mark.soak),
    ],
)
def test_a_usual_share_of_the_newest_partition_is_not_reported_after_a_week(repo, shares):
    table = Mornings(repo)
    assert table.morning(*shares[:1])  # nothing is known about young partitions yet
    table.pass_mornings(6, *shares)
    assert not any(table.morning(*shares) for _ in range(6))


@pytest.mark.soak
def test_hours_that_arrive_late_are_not_reported(repo):
    table = Mornings(repo, HOUR, history=24 * 15)
    table.pass_mornings(24, 0.5, 1.0)
    assert not any(table.morning(0.5, 1.0) for _ in range(6))


@pytest.mark.parametrize(
    "shares, late",
    [
        pytest.param((0.15, 1.0), 0, id="less than usual"),
        pytest.param((1.0, 1.0), None, id="complete at once"),
    ],
)
def test_a_young_partition_is_compared_with_others_of_its_age(repo, shares, late):
    table = Mornings(repo)
    table.pass_mornings(MORNINGS, 0.6, 1.0)
    repo.detect("t")
    expected = [] if late is None else [name_of(DAY, table.count - late)]
    assert table.morning(*shares) == expected
    assert table.morning(0.6, 1.0) == []


def test_a_partition_whose_rest_does_not_come_is_reported_a_day_later(repo):
    table = Mornings(repo)
    table.pass_mornings(MORNINGS, 0.6, 1.0)
    repo.detect("t")
    assert table.morning(0.6) == []  # the rest of yesterday is missing, and may come this evening
    table.morning(0.6, 1.0)
    assert name_of(DAY, table.count - 3) in set(repo.anomalies("t")["partition"])


def test_partitions_that_rarely_change_are_judged_as_they_are(repo):
    table = Mornings(repo)
    for k in range(MORNINGS):
        table.pass_mornings(1, 1.0, *([0.99] if k % 3 == 0 else []))
    repo.detect("t")
    assert table.morning(0.6) == [name_of(DAY, table.count - 1)]
