"""The first weeks of a history, and heavy tails, scored by `Seasonal` without a database."""

import numpy as np
import pytest

import tidegauge as tg
from tidegauge.analyzers.core.metric import Scale
from tidegauge.repository.detectors.base import History
from tidegauge.repository.detectors.inputs import extremes_of
from tidegauge.repository.detectors.monitor import Monitor
from tidegauge.repository.detectors.rules import severity_steps
from tidegauge.repository.detectors.seasonal import shifts
from tidegauge.repository.detectors.walk import BAND_P_VALUE
from tidegauge.repository.numerics.forecasts import forecast
from tidegauge.repository.numerics.tails import (
    MAX_TAIL_EXCESS,
    PRIOR_ERRORS,
    PRIOR_EXPONENT,
    PRIOR_POINTS,
    TAIL_START,
    HeavyTail,
    tail_freedom,
)

MONDAY = np.datetime64("2021-02-01", "s")


def score_series(values):
    times = MONDAY + np.arange(values.shape[1]) * np.timedelta64(86_400, "s")
    scales = [Scale.COUNT] * len(values)
    scores = tg.Seasonal().score(History(times, values, values, scales))
    return scores, Monitor().decide(values, scores)


def weeks(days, seed=1):
    """Return 14 series of counts; weekends have less than half of the weekday level."""
    factor = np.where(np.arange(days) % 7 >= 5, 0.45, 1.0)
    noise = np.random.default_rng(seed).normal(0, 0.05, (14, days))
    return np.rint(1e5 * factor * np.exp(noise))


@pytest.mark.parametrize("day", [13, 15, 16, 18])
def test_a_loss_of_half_is_found_from_the_end_of_the_second_week(day):
    values = weeks(day + 1)
    values[:3, day] = np.rint(values[:3, day] / 2)
    _, flags = score_series(values)
    assert flags[:3, day].all()
    assert not flags[:, :day].any()


def test_mondays_of_the_third_week_are_expected_at_their_level():
    scores, _ = score_series(weeks(15))
    # No weekend comes before the first Monday: among the days around it, it is normal.
    assert np.median(scores.expected[:, 14]) == pytest.approx(1e5, rel=0.05)


def office_hours(factor, period):
    """Return a history of office hours with a factor for each part of a day.

    Weekends have a tenth of the rows.
    """
    days, parts = np.divmod(np.arange(len(factor)), period)
    course = np.where(np.isin(parts * 24 // period, np.arange(9, 18)), 1.8, 1.0)
    noise = np.exp(np.random.default_rng(2).normal(0, 0.05, len(factor)))
    values = np.rint(1e5 * course * np.where(days % 7 >= 5, 0.1, 1.0) * noise * factor)[None]
    times = MONDAY + np.arange(len(factor)) * np.timedelta64(86_400 // period, "s")
    return History(times, values, np.full(values.shape, np.nan), [Scale.COUNT])


@pytest.mark.parametrize("period", [24, 12, 4])
def test_the_first_weekend_does_not_become_the_level_and_the_second_is_expected(period):
    """A day of alarms later becomes the new level, but an unknown weekend may take two days."""
    history = office_hours(np.ones(28 * period), period)
    assert not shifts(history)
    alarms = tg.Seasonal().score(history).score[0] > -np.log10(BAND_P_VALUE)
    assert alarms[5 * period : 7 * period].all()
    assert alarms[7 * period :].mean() <= 0.003


@pytest.mark.parametrize("period", [24, 4])
def test_a_level_of_three_days_is_learned_in_the_second_week(period):
    factor = np.ones(14 * period)
    factor[9 * period :] = 10  # from Wednesday on
    ((_, accepted, begun),) = shifts(office_hours(factor, period))
    assert begun == 9 * period
    assert accepted // period == 11  # after three quarters of three days


def test_a_tail_is_fitted_to_the_errors_beyond_its_start():
    errors = np.full((2, 40), 0.5)
    errors[0, :2] = TAIL_START * 1.5, TAIL_START * 50
    errors[1, 5:] = np.nan
    tail = HeavyTail.from_errors(errors, np.ones(2))
    assert tail.share == pytest.approx([3 / (40 + PRIOR_POINTS), 1 / (5 + PRIOR_POINTS)])
    assert tail.exponent == pytest.approx(
        [
            (PRIOR_ERRORS + 2)
            / (PRIOR_ERRORS / PRIOR_EXPONENT + np.log(1.5) + np.log(MAX_TAIL_EXCESS)),
            PRIOR_EXPONENT,
        ]
    )
    near, far = tail.score(np.array([TAIL_START, 10 * TAIL_START]))
    assert near == np.inf
    assert far == pytest.approx(PRIOR_EXPONENT - np.log10(1 / (5 + PRIOR_POINTS)))
    assert 10.0 ** -tail.score(tail.limit(1e-4)) == pytest.approx([1e-4, 1e-4])


def test_falls_and_rises_by_the_same_factor_are_equally_severe():
    mean = {"scale": "positive", "kind": "Mean", "filter": "", "segment": ""}
    steps = severity_steps([mean], np.array([[50, 66, 68, 149, 150.0]]), np.full((1, 5), 100.0))
    assert steps.tolist() == [[1, 1, 0, 0, 1]]


def test_column_extremes_have_heavy_tails_on_any_scale():
    minima = np.tile(-16 + np.random.default_rng(6).standard_normal(200), (2, 1))
    minima[:, -1] = -22
    times = MONDAY + np.arange(200) * np.timedelta64(86_400, "s")
    extremes = np.array([False, True])  # a mean, and a minimum, which depends on one row
    history = History(times, minima, minima, [Scale.SIGNED] * 2, extremes=extremes)
    mean, minimum = tg.Seasonal().score(history).score[:, -1]
    assert mean > np.log10(4500) > minimum > 2  # a single series is an anomaly at one in 4,500
    rows = [{"kind": kind} for kind in ("Mean", "Minimum", "MaxLength")]
    assert extremes_of(rows).tolist() == [False, True, True]


@pytest.mark.parametrize(("records", "muted", "news"), [(1, 0, True), (2, 0, False), (2, 1, True)])
def test_extremes_seen_twice_in_a_year_are_normal(records, muted, news):
    """An hour of 500 minutes did not occur in the last 98 days, but it did in the year before."""
    values = 100 + np.random.default_rng(3).normal(0, 10, (1, 300))
    values[0, [60, 90][:records]] = 520
    values[0, -1] = 500
    left_out = np.zeros(values.shape, dtype=bool)
    left_out[0, [60, 90][:muted]] = True  # labeled as bad
    times = MONDAY + np.arange(300) * np.timedelta64(86_400, "s")
    history = History(
        times, values, values, [Scale.SIGNED], muted=left_out, extremes=np.array([True])
    )
    assert (tg.Seasonal().score(history).score[0, -1] > 4) == news


def test_large_values_of_a_heavy_tail_are_learned_even_if_they_alarmed():
    """Student's t with two degrees of freedom.

    A tail without the alarms would flag 0.0032 of all points.
    """
    draw = np.random.default_rng(5)
    values = 1e5 * np.exp(0.05 * draw.standard_t(2, (14, 300)))
    days = np.arange(300).astype("M8[D]").astype("M8[s]")
    history = History(days, values, np.full(values.shape, np.nan), [Scale.POSITIVE] * 14)
    scores = tg.Seasonal().score(history).score[:, 100:]
    assert 0 < (scores > -np.log10(BAND_P_VALUE)).mean() < 0.003


@pytest.mark.parametrize(("memory", "most"), [(0.9, 0.536), (0.0, 1.2)])
def test_a_random_walk_is_expected_near_its_last_point(memory, most):
    """The errors, in standard deviations of the series, are smaller than with a median.

    With a correlation of .9, the last point is off by sqrt(2 (1 - .9)) = .447, and the mean of
    three by .536. For pure noise, the median of seven is off by sqrt(1 + pi / 2 / 7) = 1.11, and
    the last point by 1.41.
    """
    rng = np.random.default_rng(3)
    steps = rng.normal(0, np.sqrt(1 - memory**2), (2000, 150))
    values = np.zeros(steps.shape)
    for day in range(1, 150):
        values[:, day] = memory * values[:, day - 1] + steps[:, day]
    past, season = values[:, 50:-1], np.zeros((2000, 99))
    error = values[:, -1] - forecast(past, past, season, np.zeros(2000)).centre
    assert np.sqrt(np.mean(error**2)) < most


def test_unusual_errors_make_a_tail_heavier_and_incidents_do_not():
    """One unusual error of 98 leaves 52 / 2 ** 1.5 = 18.4 degrees of freedom, seven leave 52 / 8 ** 1.5 = 2.3."""
    errors = np.zeros((6, 98))
    errors[1, 50] = 2.6
    errors[2, [20, 40, 60, 80]] = 5.1, -9.0, 50.0, -1000.0  # too large to be of a tail
    errors[3, 30:51] = 3.0  # a drift of three weeks is one event
    errors[4, [30, 31]] = 3.0, -3.0  # both sides
    errors[5, 10:80:10] = 4.0
    freedom = tail_freedom(errors, np.ones(6))
    assert freedom.tolist() == [52.0, 18.5, 52.0, 18.5, 10.0, 3.0]
    assert tail_freedom(7 * errors, np.full(6, 7.0)).tolist() == freedom.tolist()


def test_the_number_of_unusual_errors_is_that_of_98_points():
    """Two of 196 points are as one of 98; one of 30 points is not counted as three."""
    errors = np.full((2, 196), np.nan)
    errors[0], errors[1, :30] = 0.0, 0.0
    errors[0, [50, 150]], errors[1, 20] = 3.0, -3.0
    assert tail_freedom(errors, np.ones(2)).tolist() == [18.5, 18.5]


@pytest.mark.parametrize("scale", [Scale.COUNT, Scale.RATIO, Scale.SIGNED])
def test_a_tame_series_is_judged_more_strictly_than_a_wild_one(scale):
    """Both series have the same noise and the same deviation; one had five moderate deviations to each side."""
    base, unit = {Scale.COUNT: (1e5, 5e3), Scale.RATIO: (0.5, 0.02)}.get(scale, (100.0, 5.0))
    values = np.tile(base + unit * np.random.default_rng(9).normal(0, 1, 200), (2, 1))
    values[1, 60:180:24] += 3.2 * unit
    values[1, 70:190:24] -= 3.2 * unit
    values[:, -1] = base - 5.5 * unit
    times = MONDAY + np.arange(200) * np.timedelta64(86_400, "s")
    history = History(times, values, np.full(values.shape, 1e6), [scale] * 2)
    scores = tg.Seasonal().score(history)
    tame, wild = scores.score[:, -1]
    assert tame > wild + 0.5
    assert values[0, -1] < scores.lower[0, -1]
    assert scores.lower[1, -1] < scores.lower[0, -1]
