"""The earliest and latest times of partitions are judged by when their partition began."""

import numpy as np
import pytest
from tidegauge.analyzers.core.metric import Scale
from tidegauge.repository.detectors.base import History
from tidegauge.repository.detectors.seasonal import Seasonal

HOUR, DAY = 3600, 86_400


def history(since_begin, step=DAY):
    """One series of the latest times of partitions, in seconds since each began."""
    begun = np.arange(len(since_begin)) * step + np.datetime64("2026-01-01", "s").astype(int)
    values = (begun + np.asarray(since_begin, dtype=float))[None, :]
    rows = np.full(values.shape, 1000.0)
    return History(begun.astype("M8[s]"), values, rows, [Scale.TIME], extremes=np.ones(1, bool))


def found(since_begin, step=DAY):
    scores = Seasonal().score(history(since_begin, step))
    return np.flatnonzero(scores.score[0] >= 4).tolist(), scores


def usual(count=60, seed=1):
    """Times within the last ten minutes of a day."""
    return 24 * HOUR - np.random.default_rng(seed).uniform(0, 600, count)


def test_times_that_grow_with_their_partitions_are_no_anomalies():
    assert found(usual())[0] == []


@pytest.mark.parametrize("seconds", [14 * HOUR, 5 * DAY])
def test_a_day_that_ends_early_or_has_a_time_to_come_is_one(seconds):
    values = usual()
    values[50] = seconds
    days, scores = found(values)
    assert days == [50]
    begun = np.datetime64("2026-02-20", "s").astype(int)  # the fiftieth day after New Year
    assert begun + 22 * HOUR < scores.lower[0, 50] < scores.expected[0, 50] <= begun + DAY
    assert scores.upper[0, 50] < begun + 27 * HOUR


def test_an_hour_has_its_own_clock():
    rng = np.random.default_rng(2)
    values = HOUR - rng.uniform(0, 60, 24 * 20)
    values[400] = 20 * 60
    assert found(values, HOUR)[0] == [400]


def test_a_few_seconds_more_or_less_are_the_same_time():
    values = np.full(60, 24 * HOUR - 1.0)
    values[50] -= 300
    assert found(values)[0] == []


def test_a_walk_goes_on_where_it_was():
    values = usual()
    values[[40, 50]] = 14 * HOUR
    whole = Seasonal().score(history(values))
    begun = Seasonal().score(history(values).part(slice(0, 45)))
    rest = Seasonal().score(history(values), 45, begun)
    for name in ("score", "expected", "lower", "upper"):
        assert np.allclose(getattr(rest, name), getattr(whole, name)[:, 45:], equal_nan=True)


def test_partitions_without_a_time_keep_to_the_calendar():
    values = history(usual())
    unknown = History(np.full(60, "NaT", "M8[s]"), values.values, values.weights, [Scale.TIME])
    assert np.isfinite(Seasonal().score(unknown).expected[0, -1])


def test_a_date_that_stays_while_partitions_go_on_is_expected_to_stay():
    """The first date of a table that is copied whole every day."""
    values = history(np.zeros(60)).values[0, 0] - np.arange(60) * float(DAY)
    assert found(values - values[0])[0] == []
    values[50] -= 20_000 * DAY
    assert found(values - values[0])[0] == [50]


def test_a_latest_time_that_stands_still_is_an_anomaly():
    """Yesterday's newest row is today's newest, though there are rows of today every other day."""
    values = usual()
    values[50] = values[49] - DAY
    assert found(values)[0] == [50]
