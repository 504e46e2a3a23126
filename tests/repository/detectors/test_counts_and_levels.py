"""Small counts, constants, recovery and drift of `Seasonal`, without a database."""

import numpy as np
import pytest
from scipy import stats

import tidegauge as tg
from tidegauge.analyzers.core.metric import Scale
from tidegauge.repository.detectors.base import History, Reason
from tidegauge.repository.detectors.monitor import Monitor
from tidegauge.repository.detectors.walk import BAND_P_VALUE
from tidegauge.repository.numerics.counts import CountForecast, poisson_limit, poisson_score


def score_many(values, scale=Scale.COUNT, rows=1e6):
    """Return the scores of daily series, and the indices of the anomalies of each, decided separately."""
    values = np.atleast_2d(np.asarray(values, dtype=float))
    days = (np.datetime64("2024-01-01") + np.arange(values.shape[1])).astype("M8[s]")
    history = History(days, values, np.full_like(values, rows), [scale] * len(values))
    scores = tg.Seasonal().score(history)
    alone = [slice(row, row + 1) for row in range(len(values))]
    anomalies = [Monitor().decide(values[row], scores.take(row))[0] for row in alone]
    return scores, [np.flatnonzero(series).tolist() for series in anomalies]


def score_one(values, scale=Scale.COUNT, rows=1e6):
    """Return the scores and the indices of the anomalies of a daily series."""
    scores, (anomalies, *_) = score_many(values, scale, rows)
    return scores, anomalies


def after_constants(steps, **options):
    """Return the pairs of a usual and a new value for which the new value is an anomaly."""
    anomalies = score_many([[usual] * 200 + [new] for usual, new in steps], **options)[1]
    assert all(indices in ([], [200]) for indices in anomalies)
    return [step for step, indices in zip(steps, anomalies, strict=True) if indices]


def test_a_change_of_a_small_constant_count_is_an_anomaly():
    changes = [
        (3, 6), (3, 9), (3, 4), (3, 2), (2, 1), (1, 0), (9, 8), (0, 2), (0, 6), (50, 65), (1000, 1060),
    ]  # fmt: skip
    assert after_constants(changes) == changes


def test_a_constant_of_ten_or_more_may_change_by_one_in_its_first_weeks():
    steps = [(16, 15), (240, 241), (1000, 1001)]
    assert score_many([[usual] * 90 + [new] for usual, new in steps])[1] == [[], [], []]
    assert after_constants([(0, 1), *steps]) == steps


def test_a_constant_that_changed_before_may_change_again():
    values = np.full((1, 300), 40)
    values[0, [80, 290]] = 39
    assert score_many(values)[1] == [[]]


def test_a_day_off_by_one_does_not_hide_an_empty_table():
    cases = [
        (usual, odd, new)
        for usual in (3, 5, 12, 100)
        for odd in ([30], [30, 40])
        for new in (0, 20 * usual)
    ]
    values = np.array([np.full(50, usual) for usual, _, _ in cases])
    for counts, (_, odd, new) in zip(values, cases, strict=True):
        counts[odd] -= 1
        counts[45] = new
    anomalies = score_many(values)[1]
    assert [case for case, days in zip(cases, anomalies, strict=True) if 45 not in days] == []


def test_zeros_have_no_upper_limit_if_no_value_would_be_an_anomaly():
    scores, found = score_one([0] * 30)
    assert found == []
    assert np.isnan(scores.upper[0]).all()
    assert scores.lower[0, 20] == scores.expected[0, 20] == 0
    assert score_one([0] * 60)[0].upper[0, -1] == pytest.approx(1.5)


def test_a_count_one_lower_on_saturdays_must_change_by_more_than_one():
    values = np.full((2, 202), 15)
    values[:, 5::7] = 14  # the first day is a Monday
    values[:, 201] = 13, 12
    assert score_many(values)[1] == [[], [201]]


def test_a_constant_without_a_scale_must_change_by_two_per_cent():
    steps = [(4983, 4982), (4983, 4900), (4983, 4483)]
    assert after_constants(steps, scale=Scale.SIGNED) == [(4983, 4483)]


@pytest.mark.parametrize("scale", [Scale.COUNT, Scale.SIGNED, Scale.POSITIVE])
@pytest.mark.parametrize("points", [20, pytest.param(120, marks=pytest.mark.soak)])
def test_the_band_of_a_constant_ends_at_the_limit_of_the_decision(scale, points):
    draw = np.random.default_rng(points)
    usual = draw.choice([3.0, 47, 1000, 4983] + [0.0] * (scale is not Scale.POSITIVE), (200, 1))
    values = np.tile(usual, points)
    for row, earlier in zip(values, draw.integers(0, 6, 200), strict=True):
        row[draw.choice(points - 1, earlier, replace=False)] += draw.integers(1, 20)
    steps = draw.choice([-400, -30, -3, -2, -1, 1, 2, 3, 5, 9, 30, 120, 400], (200, 1))
    values[:, -1:] = np.maximum(usual + steps, scale is Scale.POSITIVE)
    scores, _ = score_one(values, scale=scale)
    value, score = values[:, -1], scores.score[:, -1]
    outside = (value < scores.lower[:, -1]) | (value > scores.upper[:, -1])
    constant = np.isin(scores.reason[:, -1], [Reason.NONE, Reason.CONSTANT])
    assert constant.sum() > 100
    assert outside[constant].any()
    assert (outside == (score >= -np.log10(BAND_P_VALUE)))[constant].all()


def test_a_constant_within_two_per_cent_is_inside_its_band():
    scores, _ = score_one([4983] * 200 + [4982], scale=Scale.SIGNED)
    assert scores.lower[0, -1] == pytest.approx(4983 * 0.98)
    assert scores.upper[0, -1] == pytest.approx(4983 * 1.02)


def test_few_rows_are_scored_as_a_poisson_count():
    draw = np.random.default_rng(1)
    values = draw.poisson(4, 300)
    values[250] = 19  # P(X >= 19) = 2e-7 for Poisson(4)
    _, found = score_one(values)
    assert found == [250]


@pytest.mark.parametrize(("mean", "count"), [(1, 10), (2, 15), (3, 15), (5, 20), (8, 28), (12, 36)])
def test_counts_below_thirty_that_chance_does_not_explain_are_anomalies(mean, count):
    assert stats.poisson.sf(count - 1, mean) < 1e-6
    draw = np.random.default_rng(7)
    values = np.hstack([draw.poisson(mean, (20, 60)), np.full((20, 1), count)])
    _, found = score_many(values)
    assert sum(60 in days for days in found) >= 18
    assert sum(len(days) for days in found) <= 21  # one false alarm in 1,200 points


@pytest.mark.parametrize("days", [8, 10, 12, 13, 20, 40])
@pytest.mark.parametrize(("rows", "nulls"), [(30, 9), (60, 18), (120, 36), (400, 80)])
def test_nulls_in_a_third_of_few_rows_are_an_anomaly_from_the_second_week_on(days, rows, nulls):
    draw = np.random.default_rng(3)
    shares = 1 - draw.binomial(rows, 0.01, (20, days)) / rows
    values = np.hstack([shares, np.full((20, 1), 1 - nulls / rows)])
    _, found = score_many(values, scale=Scale.RATIO, rows=rows)
    assert sum(days in anomalies for anomalies in found) >= (20 if rows > 100 else 17)


def test_small_counts_are_forecast_as_negative_binomial():
    # mean 4, variance 2: less than the variance of a Poisson count
    past = np.tile([2.0, 4, 6, 4], 25)[None, :]
    scored = np.ones(past.shape, dtype=bool)
    forecast = CountForecast.from_past(past, scored)
    variance = 4 * (1 + 1 / 28)
    size, share = 16 / (variance - 4), 4 / variance
    above = stats.nbinom.sf(14, size, share)
    assert forecast.score(np.array([15.0]))[0] == pytest.approx(-np.log10(2 * above), rel=1e-6)
    assert forecast.quantile(0.9995)[0] == stats.nbinom.ppf(0.9995, size, share)
    more = np.full(past.shape, 40.0)
    assert not CountForecast.from_past(more, scored).small[0]  # counts of 30 and more are not small


@pytest.mark.parametrize("first", [1000, 10_000_000])
def test_small_counts_ignore_a_first_load_of_years(first):
    values = np.random.default_rng(2).poisson(8, 100).astype(float)
    values[0] = np.nan
    without = score_one(values)[0]
    values[0] = first
    scores, found = score_one(values)
    assert found == []
    for name in ("score", "lower", "upper"):
        assert getattr(scores, name)[0, 30:] == pytest.approx(getattr(without, name)[0, 30:])
    assert scores.upper[0, 30:].max() < 30  # a Poisson count of 8 exceeds 20 once in 10,000


def test_first_days_in_the_range_of_the_others_are_used_for_training():
    values = np.random.default_rng(3).poisson(8, 60).astype(float)
    values[2] = 25  # six deviations
    usual = score_one(values)[0].upper[0, 40]
    values[2] = np.nan
    assert usual > score_one(values)[0].upper[0, 40]


def test_a_poisson_limit_is_the_last_count_below_the_score_for_any_mean():
    mean = np.array([0.0, 0.01, 1.0, 29.3, 1e3, 1e9])
    limit = poisson_limit(3.65, mean)
    assert (poisson_score(limit, mean) < 3.65).all()
    assert (poisson_score(limit + 1, mean) >= 3.65).all()
    assert np.isfinite(poisson_limit(3.65, np.array([1e300, np.inf]))).all()


def test_a_billion_among_zeros_is_an_anomaly_and_scored_quickly():
    values = np.zeros(200)
    values[150] = 1e9  # the mean of the next values is large, and must not be counted up to
    assert score_one(values)[1] == [150]


def test_a_poisson_tail_is_computed_from_its_mean():
    scores = poisson_score(np.array([0.0, 2.0]), np.array([0.1, 0.1]))
    assert scores[0] == 0
    assert scores[1] == pytest.approx(-np.log10(1 - np.exp(-0.1) * 1.1))


def test_the_end_of_an_outage_is_not_an_anomaly_and_the_outage_is_not_used_for_training():
    draw = np.random.default_rng(2)
    values = 0.995 + draw.normal(0, 0.0005, 120)
    values[80:85] -= 0.028
    scores, found = score_one(values, scale=Scale.RATIO)
    assert set(found) <= set(range(80, 85))
    assert {80, 81} <= set(found)
    assert scores.reason[0, 85] == Reason.RECOVERY
    assert np.abs(scores.expected[0, 85:] - 0.995).max() < 0.001


def test_one_outage_of_many_days_does_not_hide_the_next():
    draw = np.random.default_rng(5)
    values = 1e5 * np.exp(draw.normal(0, 0.04, 130))
    values[60:66] *= 0.6
    values[110] *= 0.65
    _, found = score_one(np.rint(values))
    assert {60, 61, 110} <= set(found) <= {*range(60, 66), 110}


@pytest.mark.parametrize("first", [0.5, 0.3, 3.0])
@pytest.mark.parametrize("second", [0.01, 0.1, 20.0])
@pytest.mark.parametrize("days", [(2, 2), (1, 4), (3, 1), (2, 4)])
def test_the_end_of_an_outage_that_changed_its_depth_is_not_an_anomaly(first, second, days):
    draw = np.random.default_rng(5)
    values = 1e5 * np.exp(draw.normal(0, 0.03, 110))
    off = sum(days)
    factors = [first] * days[0] + [second] * days[1]
    for steps in (factors, factors[::-1]):
        series = values.copy()
        series[80 : 80 + off] *= steps
        scores, found = score_one(np.rint(series))
        assert set(found) <= set(range(80, 80 + off))
        assert 80 in found
        assert scores.expected[0, 80 + off :] == pytest.approx(1e5, rel=0.1)


@pytest.mark.parametrize("factors", [(0.1, 0.25), (0.5, 0.1), (3.0, 10.0), (0.2, 4.0)])
@pytest.mark.parametrize("days", [(5, 5), (10, 6), (6, 12)])
def test_the_end_of_an_outage_with_two_learned_levels_is_not_an_anomaly(factors, days):
    draw = np.random.default_rng(5)
    values = 1e5 * np.exp(draw.normal(0, 0.05, 140))
    values[80 : 80 + days[0]] *= factors[0]
    end = 80 + sum(days)
    values[80 + days[0] : end] *= factors[1]
    scores, found = score_one(np.rint(values))
    assert {*range(80, 84), *range(80 + days[0], 84 + days[0])} <= set(found) <= set(range(80, end))
    assert (scores.reason[0, [end, end + 1]] == Reason.RECOVERY).all()
    assert scores.expected[0, end:] == pytest.approx(1e5, rel=0.15)


@pytest.mark.parametrize("factor", [0.4, 2.5])
@pytest.mark.parametrize("after", [2, 5, 12, 23])
def test_a_spike_to_the_previous_level_does_not_end_a_new_level(factor, after):
    draw = np.random.default_rng(5)
    values = 1e5 * np.exp(draw.normal(0, 0.05, 140))
    values[80:] *= factor
    values[83 + after] /= factor
    scores, found = score_one(np.rint(values))
    assert set(found) == {80, 81, 82, 83}
    assert scores.reason[0, 83 + after] == Reason.RECOVERY
    assert scores.expected[0, 84 + after :] == pytest.approx(1e5 * factor, rel=0.15)


@pytest.mark.parametrize("factor", [0.25, 3.0])
@pytest.mark.parametrize("days", [3, 5, 8])
def test_the_ends_of_repeated_outages_are_no_anomalies(factor, days):
    """The fifth outage is like the four before it, so it is usual, but the days after it are not."""
    draw = np.random.default_rng(5)
    values = 1e5 * np.exp(draw.normal(0, 0.05, 160))
    outages = [{*range(first, first + days)} for first in (66, 81, 99, 112, 129)]
    values[sorted(set.union(*outages))] *= factor
    scores, found = score_one(np.rint(values))
    assert set(found) <= set.union(*outages[:4])
    for outage in outages[:4]:
        assert set(sorted(outage)[:3]) <= set(found)
    usual = {Reason.RECURRING, Reason.CALENDAR}  # some began on the same day of a month
    assert set(scores.reason[0, 129 : 129 + min(days, 4)]) <= usual


@pytest.mark.parametrize("days", [14, 21, 28])
@pytest.mark.parametrize("factor", [0.6, 1.7])
@pytest.mark.parametrize("noise", [0.02, 0.04])
def test_two_weeks_after_a_drift_the_band_is_nearly_as_tight_as_before(days, factor, noise):
    draw = np.random.default_rng(2)
    values = 1e5 * np.exp(draw.normal(0, noise, (10, 100 + days + 28)))
    values[:, 100:] *= factor ** np.minimum(1, np.arange(1, days + 29) / days)
    scores, _ = score_many(np.rint(values))
    width = np.log(scores.upper / scores.lower)
    before, after = width[:, 90:100].mean(), width[:, -14:].mean()
    assert after < 1.5 * before


def test_a_point_near_its_old_level_is_not_reported_as_drifted():
    draw = np.random.default_rng(1)
    values = 100 + draw.normal(0, 1, 110)
    values[70:] += np.minimum(np.arange(40) * 5 / 19, 5)
    values[87] = 100.3  # the median of a week has moved farther than ever before
    scores, _ = score_one(values, scale=Scale.SIGNED)
    told = np.flatnonzero(scores.reason[0] == Reason.DRIFT)
    assert 87 not in told
    assert (told < 87).any()
    assert (told > 87).any()


def test_a_weak_drift_does_not_move_the_band():
    """The median of a week has moved by two deviations: too little for an anomaly."""
    values = 100 + np.random.default_rng(1).normal(0, 1, 90)
    values[70:] += 2
    scores, found = score_one(values, scale=Scale.SIGNED)
    assert np.nanmax(scores.score[0, 70:77]) > 1.9
    assert not found
    assert not (scores.reason[0] == Reason.DRIFT).any()
    assert (values > scores.lower[0]).sum() == (~np.isnan(scores.lower[0])).sum()


def test_a_positive_number_that_is_always_zero_is_expected_to_be_zero():
    """The standard deviation of a constant column is an example."""
    scores, found = score_one([0.0] * 60 + [1.5], Scale.POSITIVE)
    assert found == [60]
    assert (scores.expected[0, 60], scores.lower[0, 60]) == (0.0, 0.0)


def drifts_of(times, values, per_day=1):
    """Return a mask of the points that are reported as drifted, if they are the only deviation."""
    history = History(times.astype("M8[s]"), values, values, [Scale.COUNT] * len(values))
    scores = tg.Seasonal().score(history)
    tests_a_day = min(per_day, 4)
    least = np.log10(tests_a_day / BAND_P_VALUE)
    return (scores.reason == Reason.DRIFT) & (scores.score >= least)


@pytest.mark.parametrize(
    ("times", "cycle"),
    [
        (np.datetime64("2021-01-04") + 7 * np.arange(104), 52),
        (np.datetime64("2015-01") + np.arange(24), 12),
    ],
)
def test_the_season_of_the_first_two_years_is_no_drift(times, cycle):
    """The rows of a season halve within six months, and come back: a drift, if nothing is known of seasons."""
    draw = np.random.default_rng(4)
    phase = draw.uniform(0, 2 * np.pi, (12, 1))
    season = 0.35 * np.sin(2 * np.pi * np.arange(len(times)) / cycle + phase)
    values = np.rint(1e5 * np.exp(season + draw.normal(0, 0.02, season.shape)))
    assert not drifts_of(times, values).any()


@pytest.mark.parametrize("minutes", [15, 60])
def test_a_drift_of_parts_of_days_is_reported_once(minutes):
    """The rows rise by half in five days, with noise of 5%. Without memory, each larger change would be reported."""
    draw, per_day = np.random.default_rng(4), 24 * 60 // minutes
    parts = np.arange(48 * per_day)
    path = 0.4 * np.clip((parts - 36 * per_day) / (5 * per_day), 0, 1)
    values = np.rint(1e5 * np.exp(path + draw.normal(0, 0.05, (8, len(parts)))))
    found = drifts_of(
        np.datetime64("2024-01-01T00") + parts * np.timedelta64(minutes, "m"), values, per_day
    )
    assert found[:, 36 * per_day : 43 * per_day].sum(axis=1).tolist() == [1] * 8
    assert not found[:, : 36 * per_day].any()


@pytest.mark.parametrize(("mean", "count"), [(3, 16), (8, 28), (20, 50)])
def test_counts_of_hours_that_chance_does_not_explain_score_high(mean, count):
    """Single hours are far from the hours before them, which does not make a far count usual."""
    assert stats.poisson.sf(count - 1, mean) < 1e-6
    draw = np.random.default_rng(3)
    values = np.hstack([draw.poisson(mean, (40, 336)), np.full((40, 1), count)]).astype(float)
    hours = np.datetime64("2026-01-05", "s") + np.arange(337) * np.timedelta64(3600, "s")
    scores = tg.Seasonal().score(History(hours, values, values, [Scale.COUNT] * 40))
    assert (scores.score[:, -1] > 4).mean() >= 0.85
    assert np.nanmean(scores.score[:, 168:-1] > 3) <= 0.002


@pytest.mark.parametrize("slope", [-0.006, 0.006])
def test_a_drift_of_growing_days_is_found(slope):
    """The rows fall by .4 on a logarithmic scale in ten days, after months of growth or decline by .6% a day."""
    days = np.arange(170)
    change = slope * np.minimum(days, 150) - 0.4 * np.clip((days - 150) / 10, 0, 1)
    noise = np.random.default_rng(5).normal(0, 0.05, (40, len(days)))
    values = np.rint(1e5 * np.exp(change + noise))
    found = drifts_of(np.datetime64("2026-01-05") + days, values)
    assert found[:, 150:].any(axis=1).mean() > 0.8
    assert not found[:, :150].any()


@pytest.mark.parametrize("slope", [-0.01, 0.01])
def test_a_trend_of_days_that_ends_is_no_drift(slope):
    days = np.arange(160)
    noise = np.random.default_rng(6).normal(0, 0.05, (12, len(days)))
    values = np.rint(1e5 * np.exp(slope * np.minimum(days, 110) + noise))
    assert not drifts_of(np.datetime64("2026-01-05") + days, values).any()
