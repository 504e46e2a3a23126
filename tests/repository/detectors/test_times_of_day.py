"""The earliest and latest times of partitions are scored relative to the partition's start."""

import numpy as np
import pytest

from tidegauge.analyzers.core.metric import Scale
from tidegauge.repository.detectors.base import History
from tidegauge.repository.detectors.seasonal import Seasonal

HOUR, DAY = 3600, 86_400


def history(since_begin, step=DAY):
    """Return a history with one series: the latest time in each partition, in seconds since its start."""
    begun = np.arange(len(since_begin)) * step + np.datetime64("2026-01-01", "s").astype(int)
    values = (begun + np.asarray(since_begin, dtype=float))[None, :]
    rows = np.full(values.shape, 1000.0)
    return History(begun.astype("M8[s]"), values, rows, [Scale.TIME], extremes=np.ones(1, bool))


def flagged(since_begin, step=DAY):
    scores = Seasonal().score(history(since_begin, step))
    return np.flatnonzero(scores.score[0] >= 4).tolist(), scores


def usual_times(count=60, seed=1):
    """Return times within the last ten minutes of a day."""
    return 24 * HOUR - np.random.default_rng(seed).uniform(0, 600, count)


def test_times_that_advance_with_their_partitions_are_normal():
    assert flagged(usual_times())[0] == []


@pytest.mark.parametrize("seconds", [14 * HOUR, 5 * DAY])
def test_a_day_that_ends_early_or_contains_a_future_time_is_an_anomaly(seconds):
    values = usual_times()
    values[50] = seconds
    days, scores = flagged(values)
    assert days == [50]
    begun = np.datetime64("2026-02-20", "s").astype(int)  # the fiftieth day after New Year
    assert begun + 22 * HOUR < scores.lower[0, 50] < scores.expected[0, 50] <= begun + DAY
    assert scores.upper[0, 50] < begun + 27 * HOUR


def test_hours_are_compared_by_the_time_within_the_hour():
    rng = np.random.default_rng(2)
    values = HOUR - rng.uniform(0, 60, 24 * 20)
    values[400] = 20 * 60
    assert flagged(values, HOUR)[0] == [400]


def test_differences_of_a_few_seconds_are_ignored():
    values = np.full(60, 24 * HOUR - 1.0)
    values[50] -= 300
    assert flagged(values)[0] == []


def test_scoring_continues_from_earlier_scores():
    values = usual_times()
    values[[40, 50]] = 14 * HOUR
    whole = Seasonal().score(history(values))
    begun = Seasonal().score(history(values).part(slice(0, 45)))
    rest = Seasonal().score(history(values), 45, begun)
    for name in ("score", "expected", "lower", "upper"):
        assert np.allclose(getattr(rest, name), getattr(whole, name)[:, 45:], equal_nan=True)


def test_partitions_without_a_time_are_compared_by_calendar_time():
    values = history(usual_times())
    unknown = History(np.full(60, "NaT", "M8[s]"), values.values, values.weights, [Scale.TIME])
    assert np.isfinite(Seasonal().score(unknown).expected[0, -1])


def test_a_fixed_date_in_every_partition_is_expected_to_stay():
    """Example: the first date of a table that is copied as a whole every day."""
    values = history(np.zeros(60)).values[0, 0] - np.arange(60) * float(DAY)
    assert flagged(values - values[0])[0] == []
    values[50] -= 20_000 * DAY
    assert flagged(values - values[0])[0] == [50]


def test_a_latest_time_that_stops_advancing_is_an_anomaly():
    """Yesterday's newest row is also today's newest, although every other day has rows of that day."""
    values = usual_times()
    values[50] = values[49] - DAY
    assert flagged(values)[0] == [50]
