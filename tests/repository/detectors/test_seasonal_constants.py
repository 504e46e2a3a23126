"""Series that are constant in a part of their season: empty nights, weekends without values."""

import numpy as np
import pytest

from tidegauge.analyzers.core.metric import Scale
from tidegauge.repository.detectors.base import History
from tidegauge.repository.detectors.seasonal import Seasonal

ALARM = 3.66
"""Score from which a single series is an anomaly by default: a rate of 0.1 over 450 tests."""
HOUR = np.timedelta64(1, "h")
DAY = np.timedelta64(24, "h")


def last_scores(step, busy, value, quiet, last, *, scale=Scale.COUNT, noise=0.03):
    """Return the score of each last point of ``last`` after values where busy, and ``quiet`` elsewhere."""
    draw = np.random.default_rng(5).normal(size=len(busy))
    values = np.where(busy, value * np.exp(noise * draw), quiet)
    values = values.round() if scale is Scale.COUNT else values
    values = np.tile(values, (len(last), 1))
    values[:, -1] = last
    times = (np.datetime64("2025-01-06T00") + step * np.arange(len(busy))).astype("M8[s]")
    history = History(times, values, np.full(values.shape, 1000.0), [scale] * len(last))
    return Seasonal().score(history).score[:, -1]


def hours(until):
    """Return which hours of eleven weeks, and part of a day, are office hours."""
    hour = np.arange(77 * 24 + until) % 24
    return (hour >= 9) & (hour < 17)


def days(weekday):
    """Return the weekdays of 25 weeks, ending with the given weekday; 0 is Monday."""
    return np.arange(24 * 7 + weekday + 1) % 7


def test_an_outage_in_office_hours_of_a_table_empty_at_night_is_an_anomaly():
    *outages, ordinary = last_scores(HOUR, hours(12), 1000, 0, [0.0, 100.0, 1000.0])
    assert min(outages) > ALARM
    assert ordinary < 2


def test_an_empty_night_is_normal_and_rows_at_night_are_an_anomaly():
    empty, rows = last_scores(HOUR, hours(3), 1000, 0, [0.0, 1000.0])
    assert empty == 0
    assert rows > 3


@pytest.mark.parametrize(("weekday", "last"), [(6, [0.0, 100.0]), (2, [1000.0])])
def test_a_table_with_rows_only_on_weekends(weekday, last):
    assert min(last_scores(DAY, days(weekday) >= 5, 1000, 0, last)) > ALARM


@pytest.mark.parametrize("quiet", [0.0, 0.4])
def test_an_empty_working_day_of_a_column_empty_on_weekends_is_an_anomaly(quiet):
    (score,) = last_scores(DAY, days(2) < 5, 1.0, quiet, [quiet], scale=Scale.RATIO, noise=0.0)
    assert score > ALARM


@pytest.mark.parametrize("noise", [0.0, 0.03])
def test_days_labelled_bad_are_not_used_for_training(noise):
    """Without labels, five days at half the level make a sixth one normal.

    Labeled days are ignored.
    """
    draw = np.random.default_rng(3).normal(size=100)
    values = (10_000 * np.exp(noise * draw)).round()
    values[[50, 58, 67, 75, 84, 99]] = 5000.0
    times = np.arange(100).astype("M8[D]").astype("M8[s]")
    muted = np.zeros((1, 100), dtype=bool)
    muted[0, [50, 58, 67, 75, 84]] = True

    def score(**more):
        history = History(times, values[None], values[None], [Scale.COUNT], **more)
        return float(Seasonal().score(history).score[0, -1])

    assert score() < 2
    assert score(muted=muted) > ALARM


def test_days_labelled_bad_do_not_become_the_level():
    values = np.where(np.arange(60) >= 50, 500.0, 1000.0)[None]
    times = np.arange(60).astype("M8[D]").astype("M8[s]")
    muted = np.zeros((1, 60), dtype=bool)
    muted[0, 50:59] = True
    found = Seasonal().score(History(times, values, values, [Scale.COUNT], muted=muted))
    assert found.score[0, -1] > ALARM
    assert found.expected[0, -1] == pytest.approx(1000, rel=0.01)


@pytest.mark.parametrize(("last", "is_anomaly"), [(10, False), (14, False), (8, True), (17, True)])
def test_a_count_that_often_differs_by_one_can_differ_by_two(last, is_anomaly):
    """Fifteen of 100 days differ by one, so of Poisson counts with this mean 1% are at least 2, and 0.001% at least 4."""
    values = np.full(100, 12.0)
    values[5::14] = 11.0
    values[2::13] = 13.0
    values[-1] = last
    times = np.arange(100).astype("M8[D]").astype("M8[s]")
    history = History(times, values[None], np.full((1, 100), 1000.0), [Scale.COUNT])
    score = float(Seasonal().score(history).score[0, -1])
    assert (score > ALARM) == is_anomaly
