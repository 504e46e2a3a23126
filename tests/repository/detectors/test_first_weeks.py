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
from tidegauge.repository.numerics.tails import freedom_by_side, student_score, tail_freedom

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


P_VALUE = 2e-4


def freedom_of(errors, *, alarmed=(), heavy=False):
    """Return the degrees of freedom below and above, of one series of 200 days that has a few errors."""
    past, mask = np.zeros((1, 200)), np.zeros((1, 200), dtype=bool)
    past[0, 10 : 10 + 9 * len(errors) : 9] = errors
    mask[0, 10 : 10 + 9 * len(errors) : 9][list(alarmed)] = True
    freedom = freedom_by_side(past, np.ones(1), P_VALUE, alarmed=mask, is_heavy=np.array([heavy]))
    return freedom[:, 0].tolist()


def test_a_tail_extrapolates_the_errors_of_its_side():
    """Three of 200 errors are 1.3 times the start of the tail.

    Their mean excess is (0.162 + 3 log 1.3) / 4 = 0.237, and their share, of both sides, (2 * 3 + 0.0455 * 80) / 280 = 0.0344.
    The power of normal errors is log(4.0 / 2) / log(0.0455 / 0.0002) = 0.128, so the limit is 2 * 172 ** 0.203 = 5.7 spreads.
    """
    below, above = freedom_of([-2.6] * 3)
    assert above == 52
    assert student_score(np.array([5.7]), np.array([below])) == pytest.approx(
        -np.log10(P_VALUE), abs=0.1
    )


def test_small_errors_and_incidents_do_not_make_a_tail_heavier():
    assert freedom_of([1.9, -1.9] * 5) == [52, 52]
    assert freedom_of([-9.0, -5.1, 7.0], alarmed=[0, 1, 2]) == [52, 52]


def test_large_errors_without_an_alarm_belong_to_the_tail():
    assert freedom_of([-9.0, -5.1]) == [4, 52]
    assert freedom_of([4.9, 4.9], alarmed=[0, 1]) == [52, 4]


def test_numbers_that_can_have_heavy_tails_are_expected_to():
    """Without errors, the limit is 2 * (0.013 / 0.0002) ** (0.3 - 0.162 + 0.128) = 6.1 spreads."""
    below, above = freedom_of([], heavy=True)
    assert below == above
    assert student_score(np.array([6.1]), np.array([below])) == pytest.approx(
        -np.log10(P_VALUE), abs=0.1
    )


@pytest.mark.parametrize("factor", [1.25, 1.5])
def test_unannounced_sales_do_not_hide_losses(factor):
    """Every 29 days the rows of two days rise; at the end, a quarter is lost."""
    day = np.arange(220)
    values = weeks(220)
    values[:, day % 29 < 2] *= factor
    values[:7, -1] *= 0.72
    scores, flags = score_series(np.rint(values))
    assert flags[:7, -1].all()
    assert not flags[7:, -1].any()
    assert (scores.upper[:, -1] < 9 * scores.lower[:, -1]).all()


def test_the_end_of_a_sale_is_no_loss():
    """Two days of a sale without an alarm move a level that follows the newest points."""
    day = np.arange(330)
    draw = np.random.default_rng(8)
    values = 1e5 * np.exp(draw.normal(0, 0.04, (40, 330)))
    values[:, day % 41 < 2] *= draw.uniform(1.15, 1.5, (40, 1))
    scores, flags = score_series(np.rint(values))
    is_after = (day % 41 >= 2) & (day % 41 < 6) & (day > 80)
    is_lower = values < scores.expected
    assert (flags & is_lower)[:, is_after].mean() < 0.002


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
