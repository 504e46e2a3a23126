"""The detector of novel values, and its search for nearest points, without a database."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegauge.analyzers.core.errors import IllegalAnalyzerParameterError
from tidegauge.analyzers.core.metric import Scale
from tidegauge.repository.detectors.base import DETECTORS, History, Reason
from tidegauge.repository.detectors.novelty import Novelty, cantelli, exceeds_recent, side
from tidegauge.repository.numerics.arrays import (
    DAILY_CYCLE,
    MAX_SCORE,
    MIN_Z_POINTS,
    WEEKLY_CYCLE,
    RunningMoments,
    SeasonalRanges,
    nearest_run,
    neighbours,
    running_absolute_medians,
)

FIELDS = ("score", "expected", "lower", "upper", "reason")
DAY = 86_400
floats = st.lists(st.one_of(st.floats(-5, 5), st.integers(-3, 3).map(float)), max_size=40)
gaps = st.lists(st.one_of(st.floats(-5, 5), st.just(math.nan)), max_size=40)


def history(values, step=DAY, **kwargs):
    values = np.atleast_2d(np.array(values, dtype=float))
    seconds = np.arange(values.shape[1]) * step
    times = np.datetime64("2014-07-01", "s") + seconds
    scales = kwargs.pop("scales", [Scale.SIGNED] * len(values))
    return History(times, values, np.full_like(values, np.nan), scales, **kwargs)


def indices_reported(values, least=1.0, detector=None, **kwargs):
    scores = (detector or Novelty()).score(history(values, **kwargs)).score[0]
    return np.flatnonzero(np.nan_to_num(scores) >= least).tolist()


def assert_same_scores(one, other):
    for name in FIELDS:
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-9, atol=1e-9)


def noise(seed, size):
    return np.random.default_rng(seed).standard_normal(size)


# The search


@given(floats, st.integers(1, 5), st.data())
def test_neighbours_equal_those_of_a_full_scan(values, lag, data):
    seen = [x if data.draw(st.booleans()) else math.nan for x in values]
    below, above = neighbours(np.array(values), np.array(seen), lag)
    for i, x in enumerate(values):
        before = [y for y in seen[: max(i - lag + 1, 0)] if y == y]
        np.testing.assert_equal(
            below[i] + 0.0, 0.0 + max((y for y in before if y < x), default=math.nan)
        )
        np.testing.assert_equal(
            above[i] + 0.0, 0.0 + min((y for y in before if y >= x), default=math.nan)
        )


@given(gaps, st.integers(2, 4), st.integers(1, 4), st.integers(5, 20))
def test_runs_are_compared_with_all_points_in_the_horizon(seen, size, lag, horizon):
    seen = np.array(seen)
    values = np.nan_to_num(seen, nan=1.5)
    found = nearest_run(values, seen, size, lag, horizon)
    for i in range(len(values)):
        ends = range(max(size - 1, i - horizon), i - lag + 1) if i >= size - 1 else ()
        runs = [seen[j - size + 1 : j + 1] for j in ends]
        gap = [math.dist(values[i - size + 1 : i + 1], r) for r in runs if not np.isnan(r).any()]
        np.testing.assert_allclose(found[i], min(gap, default=math.nan), atol=1e-12)


@given(st.integers(0, 10**6))
def test_the_same_time_of_day_is_within_two_hours(seed):
    chance = np.random.default_rng(seed)
    n = 150
    steps = chance.choice([0, 1800, 7200, 90_000], size=n, p=[0.05, 0.7, 0.2, 0.05])
    times = np.datetime64("2015-01-01", "s") + np.cumsum(steps)
    values = np.round(chance.normal(size=n), 2)
    found = SeasonalRanges.from_times(times, DAILY_CYCLE).nearest(values, values)
    for i in range(n):
        back = (times[i] - times[:i]).astype(int)
        off = np.abs((back + DAY // 2) % DAY - DAY // 2)
        near = np.abs(values[i] - values[:i])[
            (back >= DAY / 2) & (back <= 10.5 * DAY) & (off <= 7200)
        ]
        expected = near.min() if len(near) >= 12 else math.nan
        np.testing.assert_allclose(found[i], expected)


def test_weekdays_and_missing_times():
    values = np.arange(40.0)
    found = SeasonalRanges.from_times(history(values).times, WEEKLY_CYCLE).nearest(values, values)
    assert np.isnan(found[:21]).all()
    assert (found[21:] == 7).all()
    nowhere = SeasonalRanges.from_times(np.full(40, "NaT", "M8[s]"), WEEKLY_CYCLE)
    assert np.isnan(nowhere.nearest(values, values)).all()


def test_many_points_at_one_time_are_as_cheap():
    season = SeasonalRanges.from_times(
        np.arange(10_000).astype("M8[s]") + np.repeat([0, DAY], 5000), DAILY_CYCLE
    )
    assert (season.high - season.low).max() <= 50


# The score


def test_scores_match_a_case_computed_by_hand():
    """No value after the fifth is novel, so only the first four distances are above 0."""
    values = [100.0, 101, 99, 102, 98] * 4 + [60.0]
    y = [math.asinh(3 * v / np.median(values[:i]) if i else 1) for i, v in enumerate(values)]
    distances = []
    for i in range(1, 20):
        m = np.median(values[:i])
        distances.append(min(abs(math.asinh(3 * values[i] / m) - math.asinh(3 * v / m)) for v in values[:i]))  # fmt: skip
    assert distances[4:] == [0.0] * 15
    d = math.asinh(3 * 98 / 100) - y[20]
    z = (d - np.mean(distances)) / np.std(distances)
    scores = Novelty("value").score(history(values))
    assert scores.score[0, 20] == pytest.approx(math.log10(1 + z * z))
    assert (scores.expected[0, 20], scores.lower[0, 20], scores.upper[0, 20]) == (98, 98, 102)
    assert scores.reason[0].tolist() == [Reason.NONE] * 20 + [Reason.NOVELTY]
    assert np.isnan(scores.score[0, :15]).all()
    assert (scores.score[0, 15:20] == 0).all()


def test_the_first_break_of_a_constant_scores_one_in_its_length():
    values = np.full(50, 7.0)
    values[40:] = 8
    scores = Novelty().score(history(values)).score[0]
    assert scores[40] == pytest.approx(math.log10(41), abs=0.02)
    assert np.flatnonzero(scores > 0).tolist()[0] == 40


def test_p_values_are_conservative():
    chance = np.random.default_rng(1)
    shocks = chance.standard_t(3, (40, 200))
    skewed = np.exp(chance.standard_normal((40, 200)))
    for values in (shocks, np.cumsum(shocks, axis=1), skewed, np.round(shocks)):
        scores = Novelty().score(history(values)).score[:, MIN_Z_POINTS + 1 :]
        for k in (1, 2, 3):
            assert (scores >= k).mean() <= 10.0**-k


def test_past_medians_cantelli_and_sides():
    past = RunningMoments.from_values(np.full(5, 1e15 + 0.3))
    assert past.sd.tolist() == [0.0] * 5
    assert running_absolute_medians(np.zeros(3), 2).tolist() == [0.0] * 3
    assert cantelli(np.array([0.0, math.inf])).tolist() == [0.0, pytest.approx(200)]
    assert side(4.0, np.array([1.0, math.nan, 4.0, 9.0])) == (4, 1, 9)
    assert side(8.0, np.array([1.0, math.nan, 4.0, 9.0])) == (9, 9, 9)


def test_a_score_is_reported_if_it_exceeds_the_recent_ones():
    scores = np.array([5.0, 4, 4.5, 0, 0, 4.5, 4.6])
    everything = np.full(7, fill_value=True)
    assert np.flatnonzero(exceeds_recent(scores, everything, 3)).tolist() == [0, 6]
    assert np.flatnonzero(exceeds_recent(scores, everything, 6)).tolist() == [0]
    assert np.flatnonzero(exceeds_recent(scores, np.arange(7) > 0, 6)).tolist() == [0, 1, 2, 6]
    values = 100 + noise(0, 500)
    values[400:404] = 200, 220, 190, 1e9
    assert [i for i in indices_reported(values, 2, step=300) if i >= 400] == [400, 403]


# Use cases


def test_a_record_in_a_daily_series_is_an_anomaly():
    values = 1000 * np.exp(0.05 * noise(3, 120))
    values[100] = 3000
    scores = Novelty().score(history(values))
    assert indices_reported(values, 2) == [100]
    assert scores.upper[0, 100] == values[:100].max() == scores.expected[0, 100]
    assert scores.lower[0, 100] == values[:100].min()


def test_a_value_in_a_range_never_seen_is_an_anomaly():
    values = np.tile([10.0, 90.0], 100) + noise(5, 200)
    values[190] = 50
    scores = Novelty().score(history(values))
    assert indices_reported(values, 1.5) == [190]
    assert scores.lower[0, 190] <= scores.upper[0, 190] < 20 or scores.lower[0, 190] > 80


def test_a_thursday_like_a_sunday_is_an_anomaly():
    """As in daily taxi rides: a weekly season, and a day that is novel only for its weekday."""
    week = np.array([700.0, 720, 740, 760, 900, 800, 600])
    values = np.tile(week, 30) + 10 * noise(6, 210)
    values[22 * 7 + 3] = 600
    scores = Novelty().score(history(values))
    assert indices_reported(values, 1.5) == [22 * 7 + 3]
    i = 22 * 7 + 3
    assert values[i] < scores.lower[0, i] <= scores.expected[0, i]
    assert scores.upper[0, i] < 800
    assert indices_reported(values, 1.5, Novelty("value")) == []


def test_gaps_keep_the_weekday():
    values = np.tile([700.0, 720, 740, 760, 900, 800, 600], 30) + 5 * noise(7, 210)
    values[100:103] = math.nan
    assert indices_reported(values, 1.5) == []
    full = history(values)
    kept = ~np.isnan(values)
    some = History(full.times[kept], full.values[:, kept], full.weights[:, kept], full.scales)
    np.testing.assert_array_equal(Novelty().score(full).score[:, kept], Novelty().score(some).score)
    assert np.isnan(Novelty().score(full).score[0, ~kept]).all()


def test_unusually_similar_values_are_normal():
    values = 0.1 + 0.01 * noise(8, 100)
    values[80], values[95] = 0.0, 1.0
    assert indices_reported(values, 1.5, scales=[Scale.DISTANCE]) == [95]
    assert 80 in indices_reported(values, 1.0)


def test_muted_points_are_not_used_for_training_and_hide_nothing():
    values = 100 + noise(9, 120)
    values[60], values[65] = 300, 300
    muted = np.zeros((1, 120), dtype=bool)
    assert indices_reported(values, 2) == [60]
    muted[0, 60] = True
    assert indices_reported(values, 2, muted=muted) == [60, 65]


def test_a_restart_begins_a_new_history():
    values = 100 + noise(10, 120)
    values[60:] += 400
    restarts = np.zeros((1, 120), dtype=bool)
    restarts[0, 60] = True
    whole = Novelty().score(history(values, restarts=restarts))
    assert np.isnan(whole.score[0, 60:75]).all()
    np.testing.assert_array_equal(
        whole.score[0, 60:], Novelty().score(history(values[60:])).score[0]
    )


# Properties


@pytest.mark.parametrize("components", ["all", "value"])
@pytest.mark.parametrize(("step", "n"), [(300, 1500), (3600, 300), (DAY, 200)])
def test_scores_depend_only_on_the_past(components, step, n):
    values = np.cumsum(noise(11, (2, n)), axis=1) + 10 * np.sin(np.arange(n))
    values[0, ::17] = math.nan
    values[1, -1] = 1e308
    detector = Novelty(components, prefix=100)
    whole = detector.score(history(values, step))
    assert (whole.score > 0).any()
    for end in (0, 1, 16, n // 3, n - 1):
        part = detector.score(history(values[:, :end], step))
        assert_same_scores(part, type(whole)(*(getattr(whole, name)[:, :end] for name in FIELDS)))
    assert_same_scores(
        detector.score(history(values, step), n - 3, part.since(0)), whole.since(n - 3)
    )


def test_series_do_not_affect_each_other():
    values = 100 + noise(12, (3, 60))
    values[2, 10:] = math.inf
    together = Novelty().score(history(values))
    for i in range(3):
        one = [getattr(together, name)[[i]] for name in FIELDS]
        assert_same_scores(type(together)(*one), Novelty().score(history(values[i])))


HARD = {
    "constant": np.full(200, 3.7),
    "zeros": np.zeros(400),
    "missing": np.full(50, np.nan),
    "one": [1.0],
    "none": [],
    "infinite": [math.inf, -math.inf] * 30,
    "huge": np.where(np.arange(60) % 3, 1e308, -1e308),
    "tiny": np.where(np.arange(60) % 3, 5e-324, 1e308),
    "late": [*np.zeros(40), 1e308, math.nan, -1e308, 1.0],
    "steps": np.repeat([1.0, 2.0, math.nan, 1e9], 40),
    "gaps": np.where(np.arange(300) % 5, np.nan, np.arange(300.0)),
}


@pytest.mark.parametrize("step", [0, 1, 300, DAY])
@pytest.mark.parametrize("name", HARD)
def test_extreme_series_are_scored_in_bounds(name, step):
    h = history(np.array(HARD[name], dtype=float).reshape(1, -1), step)
    for detector in (Novelty(), Novelty("value", quiet=1, prefix=1)):
        check(h, detector.score(h))


def test_histories_without_series_or_times():
    for shape in ((0, 5), (0, 0), (3, 0)):
        assert Novelty().score(history(np.zeros(shape))).score.shape == shape
    values = np.where(np.arange(40) == 30, 9.0, noise(13, 40))[None]
    h = History(np.full(40, "NaT", "M8[s]"), values, values, [Scale.SIGNED])
    check(h, Novelty().score(h))


@given(
    st.lists(st.one_of(st.floats(), st.sampled_from([0.0, 1.0, math.nan])), max_size=80),
    st.sampled_from([60, 3600, DAY]),
)
def test_the_scores_of_any_series_are_in_bounds_and_raise_no_warnings(values, step):
    h = history(np.array(values, dtype=float).reshape(1, -1), step)
    check(h, Novelty(quiet=5).score(h))


def check(h, scores):
    for name in FIELDS:
        assert getattr(scores, name).shape == h.values.shape
    known = ~np.isnan(scores.score)
    assert not known[~np.isfinite(h.values)].any()
    assert ((scores.score[known] >= 0) & (scores.score[known] <= MAX_SCORE)).all()
    assert (scores.lower[known] <= scores.expected[known]).all()
    assert (scores.expected[known] <= scores.upper[known]).all()


def test_it_is_restored_from_its_repr_and_refuses_invalid_parameters():
    assert DETECTORS.parse(repr(Novelty("value", quiet=7))) == Novelty("value", quiet=7)
    for options in ({"components": "none"}, {"quiet": 0}, {"prefix": 0}):
        with pytest.raises(IllegalAnalyzerParameterError):
            DETECTORS.build("Novelty", options)
