"""Deequ's anomaly detection strategies.

The series and results of the first part come from Deequ's own tests, in
https://github.com/awslabs/deequ/tree/master/src/test/scala/com/amazon/deequ/anomalydetection,
or are computed by hand. "Correction" marks a deliberate difference from Deequ.
"""

import math
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import tidegauge as tg
from tests.conftest import soak
from tidegauge.analyzers.core.errors import IllegalAnalyzerParameterError
from tidegauge.analyzers.core.metric import Scale
from tidegauge.repository.detectors.base import DETECTORS, History, Reason, Scores
from tidegauge.repository.detectors.deequ import (
    AbsoluteChange,
    BatchNormal,
    HoltWinters,
    OnlineNormal,
    RelativeRateOfChange,
    SimpleThreshold,
)
from tidegauge.repository.detectors.rules import (
    FalseDiscoveryRate,
    OutsideBand,
    PValue,
    Threshold,
)
from tidegauge.repository.numerics.arrays import MAX_SCORE

NAN, INF = math.nan, math.inf


def history(values, days=None, **kwargs):
    values = np.array(values, dtype=float, ndmin=2)
    days = np.arange(values.shape[1]) if days is None else np.array(days)
    times = (np.datetime64("2013-01-01", "D") + days).astype("M8[s]")
    return History(times, values, np.ones_like(values), [Scale.SIGNED] * len(values), **kwargs)


def score(detector, values, **kwargs):
    return detector.score(history(values, **kwargs))


def detect(detector, values, interval=None):
    return [flagged.index for flagged in detector.detect(values, interval)]


def indices_outside(detector, values, **kwargs):
    """Return the indices that `score` and its rule flag, which are the points with a reason."""
    h = history(values, **kwargs)
    scores = detector.score(h)
    flags = OutsideBand().decide(h.values, scores)
    assert np.array_equal(flags, scores.reason != Reason.NONE)
    return np.flatnonzero(flags[0]).tolist()


def detect_both_ways(detector, values):
    """Return the indices that `score` and `detect` flag, which must be equal."""
    indices = detect(detector, values)
    assert indices_outside(detector, values) == indices
    return indices


# Deequ's own cases, and numbers computed by hand

PEAKS = [1.0] * 51
PEAKS[20:31] = [float(i if i % 2 == 0 else -i) for i in range(20, 31)]
S = [10, 10.5, 9.8, 10.2, 30, 10.1, 9.9, -5, 10.3, 10]
W = [1, 1, 1.2, 1.3, 1.5, 2.1, 1.9]
MILK = """
    589 561 640 656 727 697 640 599 568 577 553 582 600 566 653 673 742 716 660 617 583 587 565 598
    628 618 688 705 770 736 678 639 604 611 594 634 658 622 709 722 782 756 702 653 615 621 602 635
"""
CARS = """
    6550 8728 12026 14395 14587 13791 9498 8251 7049 9545 9364 8456
    7237 9374 11837 13784 15926 13821 11143 7975 7610 10015 12759 8816
    10677 10947 15200 17010 20900 16205 12143 8997 5568 11474 12256 10583
    10862 10965 14405 20379 20128 17816 12268 8642 7962 13932 15936 12628
"""
MILK, CARS = (list(map(float, text.split())) for text in (MILK, CARS))


def test_absolute_change_flags_each_jump_and_the_end_of_it():
    assert detect_both_ways(AbsoluteChange(-2, 2), PEAKS) == list(range(20, 32))
    assert detect(AbsoluteChange(-2, 2), PEAKS, (25, 1000)) == list(range(25, 32))


def test_absolute_change_may_have_a_bound_on_one_side_only():
    assert detect_both_ways(AbsoluteChange(max_rate_increase=1.0), PEAKS) == list(range(20, 31, 2))
    assert detect_both_ways(AbsoluteChange(max_rate_decrease=-1.0), PEAKS) == list(range(21, 32, 2))


def test_second_order_absolute_change_flags_changes_of_the_change():
    assert detect_both_ways(AbsoluteChange(None, 8, order=2), [0, 1, 3, 6, 18, 72]) == [4, 5]


def test_relative_change_flags_each_jump_and_the_end_of_it():
    values = [float(i if i % 2 == 0 and 20 <= i <= 30 else 1) for i in range(51)]
    assert detect_both_ways(RelativeRateOfChange(0.5, 2), values) == list(range(20, 32))


def test_batch_normal_uses_the_points_before_and_after_the_interval():
    assert detect(BatchNormal(), [1, 1, 1, 1000, 500, 1], (3, 5)) == [3, 4]
    assert detect(BatchNormal(), [1, 3, 1000, 500, 1, 3], (2, 4)) == [2, 3]
    # 1000 is outside the interval, so it counts as normal
    assert detect(BatchNormal(), [1, 3, 1000, 500, 1, 3], (3, 4)) == []


def test_three_deviations_cannot_be_exceeded_before_the_eleventh_point():
    assert detect_both_ways(OnlineNormal(), S) == []
    assert detect_both_ways(OnlineNormal(), [0] * 10 + [1]) == [10]
    assert detect_both_ways(OnlineNormal(), [0] * 9 + [1]) == []


def test_bounds_of_online_normal_equal_hand_computed_ones():
    detector = OnlineNormal(1.5, 1.5, ignore_anomalies=False)
    assert detect_both_ways(detector, S) == [4, 7]
    first, second = detector.detect(S)
    assert (first.value, second.value) == (30, -5)
    assert (first.lower, first.upper) == pytest.approx((2.170, 26.030), abs=5e-4)
    assert (second.lower, second.upper) == pytest.approx((-2.534, 23.909), abs=5e-4)
    scores = score(detector, S)
    assert (scores.lower[0, 4], scores.upper[0, 4]) == pytest.approx((2.170, 26.030), abs=5e-4)


def test_batch_normal_can_include_the_interval():
    flags = BatchNormal(1.5, 1.5, include_interval=True).detect(S)
    assert [f.index for f in flags] == [4, 7]
    for f in flags:
        assert (f.lower, f.upper) == pytest.approx((-1.8907, 23.0507), abs=5e-5)


def test_relative_change_from_zero_and_below():
    values = [0, 0, 5, 0, -4, -9]
    assert detect_both_ways(RelativeRateOfChange(0.5, 2), values) == [2, 3, 4, 5]
    scores = score(RelativeRateOfChange(0.5, 2), values)
    assert (scores.lower[0, 5], scores.upper[0, 5]) == (-8, -2)


def test_holt_winters_on_weeks_as_in_deequ():
    detector = HoltWinters(7)
    assert detect(detector, W + W + [1.0], (14, 15)) == []
    assert detect(detector, W + W + [0.0], (14, 1000)) == [14]
    assert detect(detector, W * 4, (26, 1000)) == []
    assert detect(detector, W + W, (100, 110)) == []


def textbook(values, period, alpha, beta, gamma, ahead):
    """Return Holt-Winters forecasts of the values and of points ahead, by the textbook recurrence."""
    first, second = np.mean(values[:period]), np.mean(values[period : 2 * period])
    level, trend = first, (second - first) / period
    season = [x - first for x in values[:period]]
    made = []
    for t, x in enumerate(values):
        made.append(level + trend + season[t])
        season.append(gamma * (x - level - trend) + (1 - gamma) * season[t])
        before = level
        level = alpha * (x - season[t]) + (1 - alpha) * (level + trend)
        trend = beta * (level - before) + (1 - beta) * trend
    return made + [level + h * trend + season[len(values) + h - 1] for h in range(1, ahead + 1)]


@pytest.mark.parametrize(
    ("series", "parameters", "deequ", "ours"),
    [
        # Deequ uses the deviation of absolute errors; with that of the errors, 39 of MILK is
        # inside.
        (MILK, (1, 0, 0), [36, 38, 39, 44, 45, 46, 47], [36, 38, 44, 45, 46, 47]),
        (CARS, (0.29417, 0, 0.67645), [39, 41, 46], [39, 41, 46]),
    ],
)
def test_holt_winters_on_years_differs_from_deequ_by_its_band_alone(
    series, parameters, deequ, ours
):
    values = np.array(series)
    expected = np.array(textbook(series[:36], 12, *parameters, ahead=12))
    off = np.abs(values - expected)[36:]
    errors = (values - expected)[:36]
    assert (36 + np.flatnonzero(off > 1.96 * np.abs(errors).std(ddof=1))).tolist() == deequ
    width = 1.96 * errors.std(ddof=1)
    assert (36 + np.flatnonzero(off > width)).tolist() == ours
    flags = HoltWinters(12).detect(series, (36, 48))
    assert [f.index for f in flags] == ours
    for f in flags:
        bounds = expected[f.index] - width, expected[f.index] + width
        assert (f.lower, f.upper) == pytest.approx(bounds, rel=1e-4)


def test_online_normal_accepts_the_next_value_of_rising_sums():
    values = [7.0 * day for day in range(1, 31)] + [206.625]
    assert 30 not in detect_both_ways(OnlineNormal(None, 2.0, ignore_anomalies=False), values)


def test_the_band_from_errors_is_wider_than_deequs_from_absolute_errors():
    """On noisy weeks it flags fewer points than the five of seven that Deequ flags.

    The deviation of the absolute errors, which Deequ uses, is never greater than the deviation of
    the errors.
    """
    flagged = []
    for seed in range(20):
        noise = np.random.default_rng(seed).uniform(-0.05, 0.05, 21)
        flagged.append(len(HoltWinters(7).detect(np.tile(W, 3) + noise, (14, 21))))
    assert np.mean(flagged) < 2.5


# Bounds


def test_bounds_are_inclusive_nan_is_never_flagged_and_infinities_always_are():
    assert detect_both_ways(SimpleThreshold(1.0, -1.0), [-1.0, 1.0, 1.01, -1.01, NAN]) == [2, 3]
    assert detect_both_ways(SimpleThreshold(1.0), [-1e300, 1.0, 2.0, -INF, INF]) == [2, 3, 4]
    assert detect_both_ways(SimpleThreshold(INF), [1e308, INF]) == [1]
    scores = score(SimpleThreshold(1.0), [0.0, 2.0, NAN])
    assert scores.score[0, :2].tolist() == [0.0, MAX_SCORE]
    assert math.isnan(scores.score[0, 2])
    assert scores.reason[0].tolist() == [Reason.NONE, Reason.BOUND, Reason.NONE]


def test_bounds_of_changes_have_the_unit_of_the_metric():
    scores = score(AbsoluteChange(-2, 3), [10, 11, 20])
    assert np.array_equal(scores.lower, [[NAN, 8, 9]], equal_nan=True)
    assert np.array_equal(scores.upper, [[NAN, 13, 14]], equal_nan=True)
    assert scores.reason[0].tolist() == [Reason.NONE, Reason.NONE, Reason.CHANGE]
    scores = score(AbsoluteChange(-2, 3, order=2), [10, 12, 20])  # at 14 the change does not change
    assert (scores.lower[0, 2], scores.upper[0, 2]) == (12, 17)
    scores = score(RelativeRateOfChange(0.5, 2, order=2), [10, 0, 20])
    assert (scores.lower[0, 2], scores.upper[0, 2]) == (5, 20)
    assert scores.score[0, 2] == 0


def test_order_zero_is_a_threshold():
    assert detect_both_ways(AbsoluteChange(-1, 1, order=0), [0, 5, 5, -5]) == [1, 2, 3]


def test_changes_over_a_gap_are_not_scored():
    assert detect_both_ways(AbsoluteChange(-1, 1), [0, NAN, 9, 9, 20]) == [4]
    assert detect_both_ways(RelativeRateOfChange(0.5, 2), [1, NAN, 9, 9, 20]) == [4]
    assert detect_both_ways(RelativeRateOfChange(0.5, 2, order=2), [1, NAN, 9, 9, 20]) == [2, 4]


def test_infinite_changes_are_outside_even_without_a_bound():
    assert detect_both_ways(AbsoluteChange(max_rate_decrease=-1), [0, INF, INF, 0]) == [1, 3]
    assert detect_both_ways(RelativeRateOfChange(max_rate_decrease=0), [0, 1, -0.0, 1]) == [1, 3]


# Mean and deviation


def test_online_normal_drops_anomalies_only_in_its_interval():
    values = [0, 1] * 10 + [100, 3]  # mean .5, deviation .5, if 100 is dropped
    assert detect(OnlineNormal(), values) == [20, 21]
    assert detect(OnlineNormal(), values, (21, 22)) == []
    assert indices_outside(OnlineNormal(), values) == [20, 21]


def test_online_normal_ignores_the_start():
    values = [0] * 20 + [1] + [0] * 29
    assert detect(OnlineNormal(), values) == [20]
    assert detect(OnlineNormal(ignore_start_percentage=0.4), values) == [20]
    assert detect(OnlineNormal(ignore_start_percentage=0.41), values) == []
    # It is the newest of 21 points, after 41% of them. Otherwise its score would change with later
    # points.
    assert indices_outside(OnlineNormal(ignore_start_percentage=0.41), values) == [20]
    assert indices_outside(OnlineNormal(ignore_start_percentage=0.96), values) == []


def test_online_normal_skips_missing_values():
    gaps = [x for pair in zip(S, [NAN] * 10, strict=True) for x in pair]
    assert detect_both_ways(OnlineNormal(1.5, 1.5, ignore_anomalies=False), gaps) == [8, 14]


def test_batch_normal_equals_numbers_computed_by_hand():
    """9 and 11 have mean 10 and deviation root 2. Three deviations are exceeded once in 370."""
    root = math.sqrt(2)
    scores = score(BatchNormal(), [9, 11, 10 + 3.0000001 * root])
    assert scores.expected[0, 2] == 10
    assert (scores.lower[0, 2], scores.upper[0, 2]) == pytest.approx((10 - 3 * root, 10 + 3 * root))
    assert scores.p_value[0, 2] == pytest.approx(0.0026998, rel=1e-4)
    assert scores.reason[0].tolist() == [Reason.NONE, Reason.LEVEL, Reason.LEVEL]
    assert math.isnan(scores.score[0, 0])
    scores = score(BatchNormal(include_interval=True), [9, 11, 10])  # deviation 1
    assert (scores.lower[0, 2], scores.upper[0, 2]) == pytest.approx((7, 13))
    assert indices_outside(BatchNormal(), [9, 11, 10, NAN, 1000, 10]) == [1, 4]


@pytest.mark.parametrize("length", [1, 2, 9, 99])
def test_a_change_after_a_constant_is_flagged_with_a_moderate_p_value(length):
    """Correction: the p-value is 1 / n, as any of n values can be the odd one."""
    values = [0.1] * length + [0.2]
    assert indices_outside(BatchNormal(), values) == [length]
    assert score(BatchNormal(), values).p_value[0, -1] == pytest.approx(1 / (length + 1))
    assert detect(BatchNormal(), values, (length, length + 1)) == [length]


def test_a_rounding_error_is_not_a_change():
    """Correction: Deequ flags a difference in the last digit."""
    for values in ([0.3] * 20 + [0.1 + 0.2], [0.3] * 20 + [0.1 + 0.2] * 20):
        for detector in (BatchNormal(), OnlineNormal(), HoltWinters()):
            assert indices_outside(detector, values) == []
            assert np.nanmax(detector.score(history(values)).score) == 0


def test_without_a_factor_a_side_has_no_bound():
    for cls in (BatchNormal, OnlineNormal):
        values = [0, 1] * 20 + [-50]
        assert indices_outside(cls(3, None), values) == [40]
        assert 40 not in indices_outside(cls(None, 3), values)
        assert score(cls(None, 3), values).score[0, -1] == 0
        assert math.isnan(score(cls(None, 3), values).lower[0, -1])


def test_infinities_are_certain_and_not_used_for_training():
    values = [0, 1] * 10 + [INF, 1, -INF, 1]
    for detector in (BatchNormal(), OnlineNormal(), HoltWinters(2)):
        scores = score(detector, values)
        assert scores.score[0, [20, 22]].tolist() == [MAX_SCORE, MAX_SCORE]
        assert scores.reason[0, 20:].tolist() == [Reason.LEVEL, 0, Reason.LEVEL, 0]


# Holt-Winters


def weeks(count, noise=0.05, seed=0):
    return np.tile(W, count) + noise * np.random.default_rng(seed).standard_normal(7 * count)


def test_holt_winters_scores_nothing_before_two_cycles():
    scores = score(HoltWinters(), weeks(4))
    assert np.isnan(scores.score[0, :14]).all()
    assert not np.isnan(scores.score[0, 14:]).any()
    assert HoltWinters().detect(weeks(4), (13, 28)) == []
    late = score(HoltWinters(), [NAN] * 3 + weeks(4).tolist())
    assert np.flatnonzero(~np.isnan(late.score[0]))[0] == 17


def test_gaps_keep_the_season_in_place():
    """Deequ closes gaps, which shifts the season from there on."""
    values = np.tile(W, 8)
    values[[3, 24, 40]] = NAN
    assert indices_outside(HoltWinters(), values) == []
    scores = score(HoltWinters(), values)
    assert scores.expected[0, 41:] == pytest.approx(np.tile(W, 8)[41:])
    assert math.isnan(scores.expected[0, 40])
    assert detect(HoltWinters(), values, (42, 56)) == []


def test_days_without_a_partition_are_gaps():
    kept = np.delete(np.arange(56), [3, 24, 40])
    values = np.tile(W, 8)[kept]
    assert indices_outside(HoltWinters(), values, days=kept) == []
    assert indices_outside(HoltWinters(), values) != []


def test_partitions_are_counted_one_by_one_if_the_period_is_not_a_week():
    """Five working days a week are a cycle of five."""
    days = np.array([d for d in range(70) if d % 7 < 5])
    values = np.tile([1, 2, 3, 4, 9], 10)
    assert indices_outside(HoltWinters(5), values, days=days) == []


def test_a_trend_is_followed():
    values = np.tile(W, 10) + 0.1 * np.arange(70)
    scores = score(HoltWinters(), values)
    assert scores.expected[0, 60:] == pytest.approx(values[60:], abs=0.02)


def test_huge_and_tiny_series_are_forecast_alike():
    values = weeks(6)
    scores = score(HoltWinters(), [values, values * 2.0**1000, values * 2.0**-900])
    assert scores.score[1] == pytest.approx(scores.score[0], nan_ok=True)
    assert scores.score[2] == pytest.approx(scores.score[0], nan_ok=True)
    assert scores.upper[1, 14:] == pytest.approx(scores.upper[0, 14:] * 2.0**1000)


# All detectors

BOUNDS = [
    SimpleThreshold(1.0, -1.0),
    AbsoluteChange(-1, 2),
    AbsoluteChange(max_rate_increase=1, order=3),
    RelativeRateOfChange(0.5, 2),
    RelativeRateOfChange(max_rate_decrease=0.5, order=2),
]
NORMALS = [
    OnlineNormal(),
    OnlineNormal(0, 0, 0),
    OnlineNormal(1.5, None, 0.3, ignore_anomalies=False),
    BatchNormal(),
    BatchNormal(None, 1, include_interval=True),
    HoltWinters(),
    HoltWinters(2, 0),
]
ALL = BOUNDS + NORMALS


def part(scores, series=slice(None), partitions=slice(None)):
    return Scores(*(getattr(scores, f.name)[series, partitions] for f in fields(Scores)))


def equal(a, b):
    return all(
        np.array_equal(getattr(a, f.name), getattr(b, f.name), equal_nan=True)
        for f in fields(Scores)
    )


def test_muted_points_are_scored_but_not_used_for_training():
    values = np.append(np.tile([0.0, 1.0], 15), [50, 0, 1])
    muted = np.arange(33)[None] == 30
    without = np.where(muted, NAN, values)
    for detector in (*NORMALS, AbsoluteChange(-2, 2), RelativeRateOfChange(0.5, 2)):
        scores = score(detector, values, muted=muted)
        assert not math.isnan(scores.score[0, 30])
        taught = score(detector, without)
        assert np.array_equal(scores.score[0, 31:], taught.score[0, 31:], equal_nan=True)


def test_a_restart_begins_a_new_history():
    values = np.concatenate([weeks(4), 100 + weeks(4, seed=1)])
    restarts = np.arange(56)[None] == 28
    for detector in ALL:
        scores = score(detector, values, restarts=restarts)
        assert equal(scores.since(29), score(detector, values[28:]).since(1))
        assert np.isnan(scores.score[0, 28])
        before = part(scores, partitions=slice(28))
        assert equal(before, score(detector, values[:28]))


number = st.one_of(
    st.floats(),
    st.floats(-10, 10),
    st.sampled_from([NAN, NAN, 0.0, -0.0, 1.0, 1e308, -1e308, INF, -INF, 5e-324]),
)
rectangles = st.integers(0, soak(24, 40)).flatmap(
    lambda width: st.lists(st.lists(number, min_size=width, max_size=width), max_size=3).map(
        lambda rows: np.array(rows, dtype=float).reshape(len(rows), width)
    )
)


@pytest.mark.soak
@pytest.mark.parametrize("detector", ALL, ids=repr)
@given(values=rectangles, data=st.data())
@example(values=np.full((2, 30), 5.0), data=None)
@example(values=np.full((1, 30), NAN), data=None)
@example(values=np.array([[1e308, -1e308] * 15]), data=None)
@example(values=np.zeros((0, 5)), data=None)
def test_each_series_is_scored_separately_and_only_from_its_past(detector, values, data):
    h = history(values)
    scores = detector.score(h)
    for f in fields(Scores):
        assert getattr(scores, f.name).shape == values.shape
    known = ~np.isnan(scores.score)
    assert not known[np.isnan(values)].any()
    assert ((scores.score[known] >= 0) & (scores.score[known] <= MAX_SCORE)).all()
    for usual in (scores.expected, scores.lower, scores.upper):
        assert np.isnan(usual[~known]).all()
    flags = OutsideBand().decide(values, scores)
    assert np.array_equal(flags, scores.reason != Reason.NONE)
    if detector in BOUNDS:
        assert np.array_equal(flags, scores.score == MAX_SCORE)
    width = values.shape[1]
    cut = data.draw(st.integers(0, width)) if data else width // 2
    before = detector.score(History(h.times[:cut], values[:, :cut], values[:, :cut], h.scales))
    assert equal(before, part(scores, partitions=slice(cut)))
    assert equal(detector.score(h, cut), scores.since(cut))
    assert equal(detector.score(h, cut, before), scores.since(cut))
    for i in range(len(values)):
        some = slice(i, i + 1)
        assert equal(detector.score(h.rows(some)), part(scores, some))


@pytest.mark.parametrize("detector", ALL, ids=repr)
@given(values=st.lists(number, max_size=40), first=st.integers(0, 45), length=st.integers(0, 45))
def test_detect_accepts_any_interval_of_any_series(detector, values, first, length):
    for interval in (None, (first, first + length)):
        flags = detector.detect(values, interval)
        assert all(f.value < f.lower or f.value > f.upper for f in flags)
        if interval:
            assert all(first <= f.index < first + length for f in flags)
        assert [f.value for f in flags] == [values[f.index] for f in flags]


@pytest.mark.parametrize("detector", ALL, ids=repr)
def test_detectors_are_restored_from_their_repr(detector):
    assert DETECTORS.parse(repr(detector)) == detector


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SimpleThreshold(1, 2)", "lower_bound must not exceed upper_bound"),
        ("AbsoluteChange()", "give max_rate_decrease, max_rate_increase or both"),
        ("AbsoluteChange(2, 1)", "max_rate_decrease must not exceed max_rate_increase"),
        ("AbsoluteChange(1, order=-1)", "order must be 0 or more"),
        ("RelativeRateOfChange()", "give max_rate_decrease, max_rate_increase or both"),
        ("RelativeRateOfChange(1, order=0)", "order must be 1 or more"),
        ("RelativeRateOfChange('much')", "max_rate_decrease must be a number or nothing"),
        ("OnlineNormal(-1)", "must be finite numbers of at least 0"),
        ("OnlineNormal(None, None)", "one of them may be None"),
        ("OnlineNormal(ignore_start_percentage=1.5)", "must be a share between 0 and 1"),
        ("BatchNormal(3, inf)", "must be finite numbers of at least 0"),
        ("HoltWinters(1)", "period must be 2 or more"),
        (
            "HoltWinters(deviation_factor=-1)",
            "deviation_factor must be a finite number of at least 0",
        ),
    ],
)
def test_the_error_for_invalid_parameters_names_them(text, message):
    with pytest.raises(IllegalAnalyzerParameterError, match=message):
        DETECTORS.parse(text)


@pytest.mark.parametrize("interval", [(-1, 3), (3, 2)])
def test_the_ends_of_an_interval_must_be_in_order(interval):
    with pytest.raises(IllegalAnalyzerParameterError, match="0 <= start <= end"):
        OnlineNormal().detect([1, 2, 3, 4], interval)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: HoltWinters(0), r"HoltWinters\(period=0\): period must be 2 or more"),
        (lambda: SimpleThreshold(1, 2), "lower_bound must not exceed upper_bound"),
        (lambda: OnlineNormal(-1), "must be finite numbers of at least 0"),
        (lambda: tg.Novelty(quiet=0), "quiet and prefix must be at least 1"),
        (lambda: tg.Drift("x", distance="far"), "distance must be one of"),
        (lambda: Threshold(-1), "score is -log10 of a p-value"),
        (lambda: PValue(0), "p must be a probability above 0"),
        (lambda: FalseDiscoveryRate(1), "rate must be between 0 and 1"),
    ],
)
def test_a_detector_or_rule_is_checked_when_it_is_made(make, message):
    with pytest.raises(IllegalAnalyzerParameterError, match=message):
        make()
