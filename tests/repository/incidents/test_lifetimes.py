"""Incidents stay open as long as the data are off, although detectors learn the new level. No Spark."""

import datetime as dt

import numpy as np
import pytest

import tidegauge as tg
from tidegauge.repository.incidents.lifetimes import (
    NEW_LEVEL_PARTITIONS,
    NEW_LEVEL_WEEKS,
    PartitionAxis,
)
from tidegauge.repository.numerics.grid import Grid

HOUR, DAY, WEEK = (dt.timedelta(**{unit: 1}) for unit in ("hours", "days", "weeks"))
START = dt.datetime(2026, 1, 5)
BEFORE = {HOUR: 24 * 24, DAY: 70, WEEK: 40}
"""Ordinary partitions before the change."""
MEMORY = {
    HOUR: NEW_LEVEL_WEEKS * 168,
    DAY: NEW_LEVEL_WEEKS * 7,
    WEEK: NEW_LEVEL_PARTITIONS,
}


def name_of(step, index):
    time = START + index * step
    return f"ds={time:%Y-%m-%d}/hr={time:%H}" if step < DAY else f"ds={time:%Y-%m-%d}"


def usual_values(step, count, scale, seed):
    """Return values with the rhythm of a week, of a metric that usually is 1,000 or 0.9."""
    random = np.random.default_rng(seed)
    times = [START + k * step for k in range(count)]
    rhythm = np.array([(0.6 if t.weekday() >= 5 and step < WEEK else 1.0) for t in times])
    noise = random.normal(0, 0.02, count)
    if scale == "ratio":
        return np.clip(0.9 + noise / 4, 0, 1)
    return np.round(1000 * rhythm * np.exp(noise)) if scale == "count" else 50 * np.exp(noise)


def change(values, scale, size):
    return values * size if scale != "ratio" else np.clip(values - (1 - size), 0, 1)


class Table:
    """A table with one metric that a detection follows partition by partition."""

    def __init__(self, repo, step, scale):
        self.repo, self.step, self.scale, self.count = repo, step, scale, 0
        name = {"count": "Size", "ratio": "Completeness", "positive": "Mean"}[scale]
        self.name = name
        self.values = usual_values(step, 2 * BEFORE[step] + 2 * MEMORY[step], scale, 3)

    def measure(self, count, size=1.0):
        """Record a number of partitions, changed by a factor, and detect."""
        part = slice(self.count, self.count + count)
        values = change(self.values[part], self.scale, size)
        names = [name_of(self.step, k) for k in range(part.start, part.stop)]
        recorded = dict(zip(names, values.tolist(), strict=True))
        self.repo.record("t", self.name, recorded, scale=self.scale, weight=1000.0)
        self.repo.detect("t")
        self.count += count

    def statuses(self, since):
        found = self.repo.incidents("t")
        return found["status"][found["first"] >= name_of(self.step, since)].tolist()


CASES = [
    pytest.param(DAY, "count", 0.3, id="days-fewer-rows"),
    pytest.param(DAY, "count", 4.0, id="days-more-rows", marks=pytest.mark.soak),
    pytest.param(DAY, "positive", 0.5, id="days-lower-mean"),
    pytest.param(DAY, "ratio", 0.4, id="days-lower-share"),
    pytest.param(HOUR, "count", 0.3, id="hours-fewer-rows", marks=pytest.mark.soak),
    pytest.param(HOUR, "count", 4.0, id="hours-more-rows", marks=pytest.mark.soak),
    pytest.param(WEEK, "count", 0.3, id="weeks-fewer-rows"),
]


@pytest.fixture
def repo():
    with tg.Repository("sqlite://") as repository:
        yield repository


@pytest.mark.parametrize("step, scale, size", CASES)
def test_an_incident_is_open_until_the_values_return(repo, step, scale, size):
    table = Table(repo, step, scale)
    table.measure(BEFORE[step])
    # Longer than a detector needs to learn the level, and shorter than the memory of the incident.
    for _ in range(3):
        table.measure(24 if step is HOUR else 3, size)
        assert "open" in table.statuses(BEFORE[step])
    back = START + table.count * step
    table.measure(24 if step is HOUR else 3)
    assert set(table.statuses(BEFORE[step])) == {"resolved"}
    notes = repo.labels("t")["note"]
    assert notes.iloc[-1].startswith(f"back to earlier values since {back:%Y-%m-%d}")


@pytest.mark.parametrize("step, scale, size", CASES)
def test_a_level_that_stays_becomes_the_new_one(repo, step, scale, size):
    table = Table(repo, step, scale)
    table.measure(BEFORE[step])
    table.measure(MEMORY[step] - 1, size)
    assert "open" in table.statuses(BEFORE[step])
    table.measure(BEFORE[step] // 2, size)
    found = set(table.statuses(BEFORE[step]))
    assert "new level" in found
    assert "open" not in found
    labels = repo.labels("t")
    assert "became the new level" in set(labels["note"])
    assert set(repo.incidents("t", status="new level")["status"]) == {"new level"}
    # Nothing is open, so that nobody is asked to act.
    assert int(repo.overview()["warnings"].sum() + repo.overview()["errors"].sum()) == 0


def test_the_end_of_an_incident_does_not_depend_on_when_detection_runs(repo):
    """Runs of few days, and one run over the whole history, store the same statuses."""
    table = Table(repo, DAY, "count")
    table.measure(BEFORE[DAY])
    for count, size in ((1, 0.3), (3, 0.3), (8, 0.3), (1, 1.0), (2, 1.0)):
        table.measure(count, size)
    daily = table.statuses(0)
    with tg.Repository("sqlite://") as other:
        once = Table(other, DAY, "count")
        recorded = {
            name_of(DAY, k): float(value) * (0.3 if BEFORE[DAY] <= k < BEFORE[DAY] + 12 else 1.0)
            for k, value in enumerate(once.values[: table.count])
        }
        other.record("t", "Size", recorded, scale="count")
        other.detect("t")
        assert once.statuses(0) == daily == ["resolved"]


def test_a_person_who_confirms_the_level_settles_the_incident(repo):
    table = Table(repo, DAY, "count")
    table.measure(BEFORE[DAY])
    table.measure(6, 0.3)
    repo.label(int(repo.incidents("t")["id"].item()), "expected", by="ann")
    table.measure(MEMORY[DAY], 0.3)
    assert table.statuses(0) == ["expected"]


def test_values_are_compared_with_the_same_weekday_and_never_with_anomalies():
    days = np.arange(40).astype("M8[D]").astype("M8[s]")
    axis = PartitionAxis(range(40), days, Grid.from_times(days))
    assert axis.references(35, 33, ()) == [28, 21, 14, 7]
    assert axis.references(35, 33, {21}) == [28, 14, 7, 0]
    assert axis.references(35, 5, ()) == [0]
    assert axis.references(6, 3, ()) == [2, 1, 0]  # the weekday is new
    assert axis.references(3, 0, ()) == []


def test_partitions_without_a_rhythm_are_compared_with_the_newest():
    weeks = (7 * np.arange(30)).astype("M8[D]").astype("M8[s]")
    axis = PartitionAxis(range(30), weeks, Grid.from_times(weeks))
    assert axis.references(25, 20, ()) == [19, 18, 17, 16]
    assert list(axis.later(20)) == list(range(21, 30))
