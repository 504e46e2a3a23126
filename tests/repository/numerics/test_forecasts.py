"""Forecasts of steady series, and effects of the parts of a week."""

import numpy as np
import pytest

from tidegauge.repository.numerics.forecasts import Season, forecast

WEEKDAYS, PARTS, NOISE = 7, 24, 0.1


def test_the_level_of_a_steady_series_is_that_of_weeks():
    """A median of seven points has a variance of .21, so its forecasts have errors of 1.1 deviations."""
    values = np.random.default_rng(3).normal(size=(2000, 99))
    past, season = values[:, :-1], np.zeros((2000, 98))
    error = values[:, -1] - forecast(past, past, season, np.zeros(2000)).centre
    assert np.sqrt(np.mean(error**2)) < 1.085


def test_a_new_level_is_followed_within_days():
    values = np.random.default_rng(4).normal(size=(2000, 99))
    values[:, -8:] += 4
    past, season = values[:, :-1], np.zeros((2000, 98))
    assert np.median(4 - forecast(past, past, season, np.zeros(2000)).centre) < 1


def test_effects_of_weekdays_are_learned_from_twelve_weeks():
    """The mean of twelve has a deviation of .29, the median of six one of .5."""
    draw = np.random.default_rng(5)
    effects = np.tile([0, 0, 0, 0, 0, -3.0, -3.0], (500, 1))
    season = Season(500, WEEKDAYS)
    for week in range(12):
        for day in range(WEEKDAYS):
            occurrence = effects[:, day] + draw.normal(size=500)
            season.push(day, occurrence, np.zeros(500, dtype=bool), week * WEEKDAYS + day)
    learned = season.effects(np.full(500, 84))
    assert np.sqrt(np.mean((learned - effects) ** 2)) < 0.33


def weekly_effects(draw, series):
    """Return effects of offices: hours of working days, weekends with a shape of their own, a busy Monday."""
    hour = np.arange(PARTS)
    working = np.where((hour >= 8) & (hour < 18), 2.0, 0.0)
    effects = np.tile(working, (series, WEEKDAYS, 1))
    effects[:, 5:] = 0.5 * np.sin(2 * np.pi * hour / PARTS) - 1
    effects[:, 0] += 0.4
    return effects + draw.normal(0, 0.2, (series, 1, PARTS))


def learned_weeks(effects, weeks, draw, noise=NOISE, is_unknown=None):
    """Return the learned effects, around their mean, of so many weeks with noise."""
    season = Season(len(effects), WEEKDAYS * PARTS)
    for week in range(weeks):
        values = effects + draw.normal(0, 1, effects.shape) * noise
        if is_unknown is not None:
            values[:, is_unknown(week)] = np.nan
        for slot, occurrence in enumerate(values.reshape(len(effects), -1).T):
            unknown = np.zeros(len(effects), dtype=bool)
            season.push(slot, occurrence, unknown, week * WEEKDAYS * PARTS + slot)
    with np.errstate(all="ignore"):
        learned = season.effects_by_weekday(np.full(len(effects), weeks * WEEKDAYS * PARTS))
    return learned.reshape(effects.shape)


def error_of(learned, effects):
    """Return the root mean square error of effects, which may differ by a constant, in deviations of the noise."""
    error = learned - effects
    return np.sqrt(np.mean((error - error.mean(axis=(1, 2), keepdims=True)) ** 2)) / NOISE


@pytest.mark.parametrize(("weeks", "most"), [(2, 0.55), (4, 0.4), (6, 0.33)])
def test_parts_of_weekdays_share_what_they_have_in_common(weeks, most):
    """Alone, the mean of so many occurrences has a deviation of .71, .5 or .41."""
    draw = np.random.default_rng(6)
    effects = weekly_effects(draw, 50)
    assert error_of(learned_weeks(effects, weeks, draw), effects) < most


def test_an_effect_of_a_part_on_one_weekday_is_learned():
    """On Wednesdays a load at three o'clock doubles the rows."""
    draw = np.random.default_rng(7)
    effects = weekly_effects(draw, 20)
    effects[:, 2, 3:6] += 0.7
    learned = learned_weeks(effects, 5, draw)
    assert np.abs(learned - effects)[:, 2, 3:6].mean() < 1.5 * NOISE
    assert error_of(learned, effects) < 0.7


def test_a_weekend_whose_office_hours_alarmed_does_not_spoil_the_next():
    draw = np.random.default_rng(8)
    hour = np.arange(PARTS)
    effects = np.zeros((30, WEEKDAYS, PARTS))
    effects[:, :5, (hour >= 8) & (hour < 18)] = 4.3

    def is_unknown(week):
        mask = np.zeros((WEEKDAYS, PARTS), dtype=bool)
        mask[5:, 8:18] = week == 0
        return mask

    assert error_of(learned_weeks(effects, 3, draw, is_unknown=is_unknown), effects) < 0.6


def test_a_quiet_sunday_is_known_after_one():
    draw = np.random.default_rng(12)
    hour = np.arange(PARTS)
    effects = np.zeros((30, WEEKDAYS, PARTS))
    effects[:, :6, (hour >= 8) & (hour < 18)] = 2
    effects[:, 6] -= 0.5

    def is_unknown(week):
        mask = np.zeros((WEEKDAYS, PARTS), dtype=bool)
        mask[6] = week == 0
        return mask

    error = (learned_weeks(effects, 2, draw, is_unknown=is_unknown) - effects)[:, 6]
    assert np.sqrt(np.mean(error**2)) < 1.3 * NOISE


def test_noisy_nights_do_not_spoil_the_effects_of_the_day():
    """Nights with few rows have five times the noise."""
    draw = np.random.default_rng(9)
    hour = np.arange(PARTS)
    effects = weekly_effects(draw, 50)
    noise = NOISE * np.where((hour >= 7) & (hour < 19), 1, 5)
    error = (learned_weeks(effects, 6, draw, noise) - effects)[:, :, 9:17]
    assert np.sqrt(np.mean((error - error.mean(axis=(1, 2), keepdims=True)) ** 2)) < 0.43 * NOISE


def test_days_that_never_occur_have_no_effect_of_their_own():
    draw = np.random.default_rng(10)
    effects = weekly_effects(draw, 10)

    def is_weekend(week):
        return np.repeat(np.arange(WEEKDAYS) >= 5, PARTS).reshape(WEEKDAYS, PARTS)

    learned = learned_weeks(effects, 4, draw, is_unknown=is_weekend)
    assert np.isfinite(learned).all()
    assert error_of(learned[:, :5], effects[:, :5]) < 0.4


def test_the_effects_of_a_series_do_not_depend_on_other_series():
    draw = np.random.default_rng(11)
    effects = weekly_effects(draw, 9)
    noise = draw.normal(0, NOISE, (4, *effects.shape))

    class Repeated:
        """Return the same noise for a selection of the series."""

        def __init__(self, rows):
            self.rows, self.week = rows, -1

        def normal(self, *_):
            self.week += 1
            return noise[self.week][self.rows] / NOISE

    together = learned_weeks(effects, 4, Repeated(slice(None)))
    alone = [learned_weeks(effects[[i]], 4, Repeated([i])) for i in range(9)]
    assert (together == np.concatenate(alone)).all()


def test_effects_are_unknown_before_two_weeks():
    season = Season(1, WEEKDAYS * PARTS)
    with np.errstate(all="ignore"):
        effects = season.effects_by_weekday(np.array([2 * WEEKDAYS * PARTS - 1]))
    assert np.isnan(effects).all()
