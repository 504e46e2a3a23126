"""Detectors and rules on arrays, without a database."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidegauge as tg
from tidegauge.analyzers.core.metric import Scale
from tidegauge.repository.detectors.base import DETECTORS, History, Reason, Scores
from tidegauge.repository.detectors.rules import FalseDiscoveryRate, OutsideBand
from tidegauge.repository.incidents.headline import explain
from tidegauge.repository.numerics.arrays import MAX_SCORE
from tidegauge.repository.numerics.forecasts import min_spread_of, restore, transform
from tidegauge.repository.numerics.grid import Grid


def history(values, scale=Scale.SIGNED, weights=None, start="2013-01-01", step="D"):
    values = np.atleast_2d(np.array(values, dtype=float))
    times = (np.datetime64(start, step) + np.arange(values.shape[1])).astype("M8[s]")
    weights = np.full_like(values, 1000.0) if weights is None else np.atleast_2d(weights)
    return History(times, values, weights, [scale] * len(values))


def indices_outside(detector, values, **kwargs):
    h = history(values, **kwargs)
    return np.flatnonzero(OutsideBand().decide(h.values, detector.score(h))[0]).tolist()


# Seasonal


def noise(seed=0):
    return np.random.default_rng(seed)


def flagged(values, q=0.01, **kwargs):
    h = history(values, **kwargs)
    p = tg.Seasonal().score(h).p_value
    return np.flatnonzero((p[0] < q) & ~np.isnan(p[0])).tolist()


def test_a_weekly_season_is_expected_and_a_break_of_it_is_an_anomaly():
    week = np.array([100, 101, 99, 100, 102, 40, 35.0])
    values = np.tile(week, 12) * (1 + 0.01 * noise().standard_normal(84))
    values[80] = 60  # Friday, 2013-03-22, with the value of a Sunday
    found = flagged(values * 1000, q=1e-4, scale=Scale.COUNT)
    assert 80 in found
    assert len(found) <= 3
    scores = tg.Seasonal().score(history(values * 1000, scale=Scale.COUNT))
    assert scores.lower[0, 80] < 102_000 < scores.upper[0, 80]


def test_gaps_do_not_shift_the_season():
    """Deequ closes gaps, so after a missing Tuesday it flags every Sunday."""
    week = np.tile(np.array([100, 100, 100, 100, 100, 40, 40.0]), 12)
    week = week * (1 + 0.01 * noise(1).standard_normal(84)) * 1000
    days = np.arange(84)
    kept = np.delete(days, [50])
    times = (np.datetime64("2013-01-07", "D") + kept).astype("M8[s]")
    values = week[kept][None, :]
    scores = tg.Seasonal().score(History(times, values, values, [Scale.COUNT]))
    assert np.nanmax(scores.score[0, 50:]) < 4


def test_normal_days_raise_few_alarms():
    """At p < 0.001, a thousand normal points give about one alarm. Ten are allowed."""
    values = 1e6 * np.exp(0.05 * noise(2).standard_normal((20, 120)))
    p = tg.Seasonal().score(history(values, scale=Scale.COUNT)).p_value
    known = p[~np.isnan(p)]
    assert known.size == 20 * (120 - 7)
    assert (known < 0.001).sum() <= 20
    assert 0.002 < (known < 0.05).mean() < 0.1


def test_a_level_shift_becomes_the_new_level():
    values = np.concatenate([np.full(60, 1000.0), np.full(30, 2000.0)]) * np.exp(
        0.02 * noise(3).standard_normal(90)
    )
    found = [i for i in flagged(values, q=1e-4, scale=Scale.COUNT) if i >= 60]
    assert found[0] == 60
    assert max(found) < 68


def test_a_share_of_few_rows_may_vary_more():
    """One more null among 20 rows is chance; the same share of 20,000 rows is not."""
    shares = np.full(60, 0.95) + 0.0005 * noise(4).standard_normal(60)
    shares[-1] = 0.90
    few = tg.Seasonal().score(history(shares, scale=Scale.RATIO, weights=np.full(60, 20.0)))
    many = tg.Seasonal().score(history(shares, scale=Scale.RATIO, weights=np.full(60, 20_000.0)))
    assert few.p_value[0, -1] > 0.1
    assert many.p_value[0, -1] < 1e-4


def test_the_break_of_a_constant_is_rare_and_equal_values_are_normal():
    values = np.full(60, 1.0)
    values[-1] = 0.7
    scores = tg.Seasonal().score(history(values, scale=Scale.RATIO))
    assert (scores.score[0, 7:-1] == 0).all()
    assert scores.p_value[0, -1] < 1e-3


def test_a_constant_that_breaks_often_is_no_longer_an_anomaly():
    values = np.full(90, 4983.0)
    values[50::4] = 4463.0
    found = flagged(values, q=1e-3)
    assert found[0] == 50
    assert found == [50, 54, 58, 62, 66]  # the fifth break is normal


def test_a_heavy_tail_is_learned():
    """One value in ten is extreme, which is normal for this metric."""
    values = 300 + 20 * noise(7).standard_normal(140)
    values[::10] = 900 + 50 * noise(8).standard_normal(14)
    assert len([i for i in flagged(values, q=1e-3) if i > 80]) <= 2


def test_short_histories_are_not_scored():
    scores = tg.Seasonal().score(history(np.arange(10.0)))
    assert np.isnan(scores.score[0, :7]).all()
    assert not np.isnan(scores.score[0, 7:]).any()


def test_scores_depend_only_on_the_past():
    values = 100 + noise(5).standard_normal((3, 80))
    whole = tg.Seasonal().score(history(values))
    part = tg.Seasonal().score(history(values[:, :50]))
    for name in ("score", "expected", "lower", "upper"):
        assert np.array_equal(getattr(whole, name)[:, :50], getattr(part, name), equal_nan=True)


def test_series_do_not_affect_each_other():
    values = 100 + noise(6).standard_normal((3, 60))
    alone = tg.Seasonal().score(history(values[1]))
    together = tg.Seasonal().score(history(values))
    assert np.allclose(together.score[1], alone.score[0], equal_nan=True)


finite = st.one_of(st.floats(-1e9, 1e9), st.just(math.nan), st.just(0.0))


@given(
    st.lists(finite, min_size=1, max_size=60),
    st.sampled_from(list(Scale)),
    st.sampled_from(["D", "h", "M"]),
    st.sampled_from([tg.Seasonal(), tg.OnlineNormal(), tg.SimpleThreshold(1.0, -1.0)]),
)
def test_the_scores_of_any_series_are_in_bounds_and_raise_no_warnings(
    values, scale, step, detector
):
    if scale is Scale.RATIO:
        values = [min(max(v, 0.0), 1.0) for v in values]
    h = history(values, scale=scale, step=step)
    scores = detector.score(h)
    for name in ("score", "p_value", "expected", "lower", "upper"):
        assert getattr(scores, name).shape == h.values.shape
    known = ~np.isnan(scores.score)
    assert (~known)[np.isnan(h.values)].all()
    assert ((scores.score[known] >= 0) & (scores.score[known] <= MAX_SCORE)).all()
    assert ((scores.p_value[known] >= 0) & (scores.p_value[known] <= 1)).all()


@given(st.floats(0, 1))
def test_transforms_of_ratios_are_undone(value):
    array = np.array([[value]])
    assert restore(transform(array, [Scale.RATIO]), [Scale.RATIO])[0, 0] == pytest.approx(
        value, abs=1e-12
    )


@pytest.mark.parametrize("scale", list(Scale))
def test_transforms_of_positive_numbers_are_undone(scale):
    array = np.array([[0.25, 0.5, 1.0]])
    assert restore(transform(array, [scale]), [scale])[0] == pytest.approx(array[0])


def test_the_minimum_spread_is_binomial_for_ratios_and_poisson_for_counts():
    nothing = np.array([math.nan])
    assert min_spread_of(nothing, np.array([100.0]), [Scale.RATIO])[0] == 0.05
    of_count = min_spread_of(np.array([np.log1p(400)]), nothing, [Scale.COUNT])
    assert of_count[0] == pytest.approx(0.05)


@pytest.mark.parametrize(
    "minutes", [1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30, 45, 60, 90, 120, 180, 240, 360, 480, 720]
)
def test_parts_of_a_day_of_any_common_length_add_up_to_a_day(minutes):
    times = np.datetime64("2021-02-01", "s") + np.timedelta64(60 * minutes, "s") * np.arange(20)
    grid = Grid.from_times(times)
    assert (grid.step, grid.period * minutes) == (60 * minutes, 24 * 60)
    assert grid.column.tolist() == list(range(20))


def test_grids_of_days_hours_and_months():
    days = Grid.from_times(history(np.zeros(14)).times)
    assert (days.period, days.column.tolist()) == (7, list(range(14)))
    hours = Grid.from_times(history(np.zeros(48), step="h").times)
    assert (hours.period, hours.size) == (24, 48)
    months = Grid.from_times(history(np.zeros(5), step="M").times)
    assert (months.period, months.column.tolist()) == (12, list(range(5)))
    weeks = Grid.from_times(history(np.zeros(5), step="W").times)
    assert (weeks.period, weeks.column.tolist()) == (1, list(range(5)))
    assert Grid.from_times(np.full(5, "NaT", "M8[s]")).column.tolist() == [0, 1, 2, 3, 4]
    gaps = np.array(["2013-01-01", "2013-01-04", "2013-01-05", "2013-01-06"], "M8[s]")
    assert Grid.from_times(gaps).column.tolist() == [0, 3, 4, 5]
    long_ago = np.array(["2013-01-01", "2013-01-02", "2013-01-03", "2023-01-01"], "M8[s]")
    column = Grid.from_times(long_ago).column
    assert column[-1] < 120  # ten empty years take no columns
    assert (
        column[-1] % 7
        == (np.datetime64("2023-01-01") - np.datetime64("2013-01-01")).astype(int) % 7
    )


# Rules, catalogue, explanations


def test_false_discoveries_match_the_example_of_the_paper():
    """Benjamini and Hochberg's own example of 15 p-values: at 5% the first four are significant."""
    p = np.array(
        [.0001, .0004, .0019, .0095, .0201, .0278, .0298, .0344, .0459, .3240, .4262, .5719, .6528, .7590, 1.0]
    )[:, None]  # fmt: skip
    scores = Scores.unscored(p.shape)
    scores.score[:] = -np.log10(p)
    assert FalseDiscoveryRate(0.05, least=1).decide(p, scores).sum() == 4


def test_one_normal_day_in_ten_is_not_an_anomaly_of_few_series():
    scores = Scores.unscored((3, 1))
    scores.score[:, 0] = [2.5, 0.1, 0.2]
    assert not FalseDiscoveryRate().decide(scores.score, scores).any()
    scores.score[:, 0] = [3.7, 1.4, 0.2]  # .1/450 is 3.65; .1 * 2/3 is 1.18
    assert FalseDiscoveryRate().decide(scores.score, scores)[:, 0].tolist() == [True, True, False]


def test_the_continuation_of_an_anomaly_needs_less_evidence():
    scores = Scores.unscored((2, 3))
    scores.expected[:] = 10.0
    values = np.array([[0.0, 2.0, 2.0], [10.0, 2.0, 2.0]])
    scores.score[:] = [[5, 1.7, 1.5], [0.1, 1.7, 1.7]]  # .1/4 is 1.6
    flags = FalseDiscoveryRate().decide(values, scores)
    assert flags.tolist() == [[True, True, False], [False, False, False]]
    later = FalseDiscoveryRate().decide(values[:, 1:], scores.since(1), np.array([-1.0, 0.0]))
    assert later.tolist() == [[True, False], [False, False]]
    other_side = FalseDiscoveryRate().decide(values[:, 1:], scores.since(1), np.array([1.0, 0.0]))
    assert not other_side.any()


@pytest.mark.parametrize("name", list(DETECTORS))
def test_detectors_are_restored_from_their_repr(name):
    required = {"SimpleThreshold": {"upper_bound": "2.5"}, "Drift": {"column": "x"}}
    change = {"max_rate_decrease": "-1", "max_rate_increase": "2.5"}
    made = DETECTORS.build(
        name,
        required.get(
            name, change if "Change" in name and name not in {"SchemaChange", "ChangePoint"} else {}
        ),
    )
    assert DETECTORS.parse(repr(made)) == made


@pytest.mark.parametrize(
    "build",
    [
        lambda: DETECTORS.build("SimpleThreshold", {"upper_bound": 1, "lower_bound": 2}),
        lambda: DETECTORS.build("Drift", {"column": "x", "distance": "far"}),
        lambda: DETECTORS.build("OnlineNormal", {"lower_deviation_factor": -1}),
        lambda: DETECTORS.build("Seasonal", {"cycles": 3}),
        lambda: DETECTORS.parse("Seasonl()"),
        lambda: tg.Monitor({"nam": "Size"}),
        lambda: tg.Monitor(severity="fatal"),
    ],
)
def test_invalid_parameters_of_detectors_and_rules_are_refused(build):
    with pytest.raises((tg.SuiteError, tg.IllegalAnalyzerParameterError)):
        build()


def test_explanations_of_scores():
    low = explain("Size", "ds=2013-11-28", 3, 634.0, [990.0, 985.0], 991.0, 812.0, 1210.0)
    assert low == (
        "Size in ds=2013-11-28 (a Thursday) is 634, below the usual 812 to 1,210 (expected 991):"
        " the lowest of 3 partitions."
    )
    high = explain("Sum of x", "", None, 5.0, [9.0], math.nan, math.nan, 4.0)
    assert high == "Sum of x in the table is 5, above the allowed maximum, 4."
    date = explain("Size", "ds=2013-10-31", 3, 990.0, [], 2000, 1900, 2100, Reason.CALENDAR)
    assert date == (
        "Size in ds=2013-10-31 (a Thursday) is 990, below the usual 1,900 to 2,100"
        " (expected 2,000, as on this day of other months or years)."
    )
