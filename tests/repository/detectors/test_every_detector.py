"""Properties of every registered detector, on extreme and on ordinary series, without a database."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from tests.conftest import soak
from tidegauge.analyzers.core.metric import Scale
from tidegauge.repository.detectors.base import (
    DETECTORS,
    History,
    PartitionDetector,
    PartitionLedger,
    Reason,
    ScoreRequest,
    Scores,
    score_requests,
)
from tidegauge.repository.detectors.deequ import HoltWinters
from tidegauge.repository.numerics.arrays import MAX_SCORE
from tidegauge.repository.numerics.grid import Grid

FIELDS = ("score", "expected", "lower", "upper", "reason")
NUMBERS = ("expected", "lower", "upper")
EXPLAINED = (Reason.CALENDAR, Reason.RECOVERY)
"""Reasons that explain how a point was scored, and therefore remain where its score is 0."""
STEPS = ("h", "D", "M", None)
OPTIONS = {
    "Drift": {"column": "x"},
    "SimpleThreshold": {"upper_bound": 1000.0, "lower_bound": -1000.0},
    "AbsoluteChange": {"max_rate_decrease": -100.0, "max_rate_increase": 100.0},
    "RelativeRateOfChange": {"max_rate_decrease": 0.5, "max_rate_increase": 2.0},
}
EVERY = [pytest.param(DETECTORS.build(n, OPTIONS.get(n, {})), id=n) for n in DETECTORS]
SINGLE = [p for p in EVERY if not isinstance(p.values[0], PartitionDetector)]
every = pytest.mark.parametrize("detector", EVERY)
PHASES = [Phase.explicit, Phase.reuse, Phase.generate]
few = settings(max_examples=soak(2, 20), deadline=None, phases=PHASES)
one = settings(max_examples=soak(1, 10), deadline=None, phases=PHASES)


def history_length(detector, points):
    """Return a number of points; fewer every day, and where parameters are fitted at each point."""
    return min(points, 24 if isinstance(detector, HoltWinters) else soak(45, points))


def times_of(count, step):
    if step is None:
        return np.full(count, "NaT", "M8[s]")
    return (np.datetime64("2013-01-01", step) + np.arange(count)).astype("M8[s]")


def ledger_of(times, seed=0):
    draw = np.random.default_rng(seed)
    n = len(times)
    delay = draw.integers(20, 60, n).astype("m8[h]")
    delay[draw.random(n) < 0.1] = np.timedelta64("NaT", "h")
    columns = [{"a": "int", **({"b": "int"} if draw.random() < 0.2 else {})} for _ in range(n)]
    version = draw.choice([0, 1, 1, 1, 2, 3], n)
    return PartitionLedger(
        times + delay, version, [c if draw.random() < 0.9 else {} for c in columns]
    )


def history(values, times, scales=None, weights=None, **kwargs):
    values = np.atleast_2d(np.array(values, dtype=float))
    weights = np.full_like(values, 1000.0) if weights is None else weights
    scales = [Scale.SIGNED] * len(values) if scales is None else scales
    return History(times, values, weights, scales, ledger=ledger_of(times), **kwargs)


def check(detector, h, start=0, known=None):
    """Score a history and check the properties of all scores."""
    scores = detector.score(h, start, known)
    whole = isinstance(detector, PartitionDetector)
    shape = (1 if whole else len(h.values), len(h.times) - start)
    for name in FIELDS:
        assert getattr(scores, name).shape == shape
    left = np.isnan(scores.score)
    known_scores = scores.score[~left]
    assert ((known_scores >= 0) & (known_scores <= MAX_SCORE)).all()
    for name in NUMBERS:
        assert np.isnan(getattr(scores, name)[left]).all()
    assert np.isin(scores.reason, [int(r) for r in Reason]).all()
    assert (scores.reason[left] == Reason.NONE).all()
    assert np.isin(scores.reason[scores.score == 0], [Reason.NONE, *EXPLAINED]).all()
    assert np.array_equal(np.isnan(scores.p_value), left)
    assert ((scores.p_value[~left] >= 0) & (scores.p_value[~left] <= 1)).all()
    if whole:
        values = detector.measure(h)
        assert values.shape == h.times.shape
        for t in np.flatnonzero(scores.score[0] > 0)[-1:]:
            assert "nan" not in detector.explanation(h, int(t) + start).lower()
    else:
        values = h.values[:, start:]
        assert left[np.isnan(values)].all()
        some = ~left & ~np.isnan(scores.lower) & ~np.isnan(scores.upper)
        assert (scores.lower[some] <= scores.upper[some]).all()
    return scores


def assert_same_scores(one, other):
    for name in FIELDS:
        a, b = getattr(one, name), getattr(other, name)
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9, err_msg=name)


# Extreme series


def extreme_series(n):
    draw = np.random.default_rng(0)
    noise, flips = draw.standard_normal(n), np.arange(n) % 2

    def only(where, value=5.0):
        return np.where(np.isin(np.arange(n), where), value, math.nan)

    return {
        "constant": np.full(n, 5.0),
        "nearly constant": np.where(np.arange(n) == n - 5, 6.0, 5.0),
        "nothing": np.full(n, math.nan),
        "all infinite": np.full(n, math.inf),
        "one point first": only([0]),
        "one point last": only([n - 1]),
        "two points": only([3, n - 1]),
        "holes": np.where(draw.random(n) < 0.4, math.nan, noise),
        "infinities": np.where(draw.random(n) < 0.2, math.inf, noise),
        "both infinities": draw.choice([math.inf, -math.inf, 1.0, 2.0], n),
        "largest": np.full(n, 1e308),
        "nearly largest": 1e308 * (1 + 0.1 * np.tanh(noise)),
        "largest of both signs": 1e308 * (2 * flips - 1),
        "least": 5e-324 * (1 + flips),
        "of any size": 10.0 ** draw.uniform(-300, 300, n),
        "0 and 1": flips * 1.0,
        "one 1": (np.arange(n) == n - 3) * 1.0,
        "one 0": (np.arange(n) != n - 3) * 1.0,
        "negative zero": np.where(flips, 0.0, -0.0),
        "negative": -np.abs(noise),
        "rising": np.arange(n) * 1.0,
        "a jump to the largest": np.where(np.arange(n) < n - 15, noise, 1e308),
        "a jump to 0": np.where(np.arange(n) < n - 15, 1e6 + noise, 0.0),
    }


@pytest.mark.soak
@every
@pytest.mark.parametrize("step", STEPS)
def test_odd_series_of_every_scale(detector, step):
    some = np.stack(list(extreme_series(history_length(detector, 48)).values()))
    kinds = [Scale.SIGNED] if isinstance(detector, HoltWinters) else list(Scale)
    scales = [scale for scale in kinds for _ in some]
    values = np.tile(some, (len(kinds), 1))
    weights = np.random.default_rng(1).choice([math.nan, 0, 1, 1e3, 1e300], values.shape)
    check(detector, history(values, times_of(values.shape[1], step), scales, weights))


@pytest.mark.soak
@every
@pytest.mark.parametrize("name", ["nothing", "all infinite", "largest of both signs", "constant"])
def test_an_odd_series_by_itself(detector, name):
    n = history_length(detector, 66)
    for scale in (Scale.SIGNED, Scale.COUNT):
        check(detector, history([extreme_series(n)[name]] * 3, times_of(n, None), [scale] * 3))


@every
@pytest.mark.parametrize("step", ["D", None])
def test_few_points_and_few_series(detector, step):
    for points in (0, 1, 2, 8):
        for series in (0, 1, 3):
            values = np.ones((series, points))
            h = history(
                values.reshape(series, points), times_of(points, step), [Scale.COUNT] * series
            )
            h = replace(h, values=values, weights=values)
            check(detector, h)
            check(detector, replace(h, ledger=None))
            check(detector, h, start=points)


@every
def test_a_constant_is_never_an_anomaly(detector):
    scales = list(Scale)
    times = times_of(60, "D")
    values = np.ones((len(scales), 60))
    h = History(times, values, np.full_like(values, 100.0), scales)
    assert (np.nan_to_num(check(detector, h).score) == 0).all()


@pytest.mark.soak
@every
def test_a_year_of_zeros(detector):
    h = History(
        times_of(365, "D"), np.zeros((2, 365)), np.zeros((2, 365)), [Scale.COUNT, Scale.RATIO]
    )
    assert (np.nan_to_num(check(detector, h).score) == 0).all()


@pytest.mark.soak
@every
@pytest.mark.parametrize("step", ["h", "D"])
def test_gaps_in_time(detector, step):
    n = history_length(detector, 40)
    draw = np.random.default_rng(2)
    for jumps in ([1, 1, 1, 2, 5], [1, 1, 30, 400], [1, 1, 1, 100_000]):
        at = np.cumsum(draw.choice(jumps, n))
        times = (np.datetime64("1999-12-31", step) + at).astype("M8[s]")
        check(detector, history(draw.standard_normal((3, n)), times))


@every
def test_equal_and_unknown_times(detector):
    n = 40
    values = np.random.default_rng(3).standard_normal((3, n))
    check(detector, history(values, np.repeat(times_of(n // 2, "D"), 2)))
    check(detector, history(values, np.full(n, "2013-01-01", "M8[s]")))
    late = times_of(n, "D")
    late[-3:] = np.datetime64("NaT", "s")  # partitions without a time come last
    check(detector, history(values, late))


@pytest.mark.soak
@every
def test_overdue_partitions_and_unknown_arrivals(detector):
    times = times_of(40, "D")
    h = history(np.ones((3, 40)), times)
    for now in ("NaT", "2013-01-01", "2013-02-20", "2013-06-01", "9999-01-01"):
        check(detector, replace(h, ledger=replace(h.ledger, now=np.datetime64(now, "s"))))


@every
def test_histories_with_all_points_muted_or_restarted(detector):
    values = np.random.default_rng(4).standard_normal((3, 16))
    h = history(values, times_of(16, "D"))
    everywhere = np.ones(values.shape, dtype=bool)
    check(detector, replace(h, muted=everywhere))
    check(detector, replace(h, restarts=everywhere))
    check(detector, replace(h, muted=everywhere, restarts=everywhere, holidays=["x"] * 16))


# Ordinary series


def ordinary(seed, restarts=False, least=20, most=70):
    """Some months of a few series of all scales, with gaps, muted points and restarts."""
    draw = np.random.default_rng(seed)
    n, k = int(draw.integers(least, most)), int(draw.integers(3, 6))
    step = draw.choice(["h", "D", "M", "none"], p=[0.2, 0.5, 0.15, 0.15])
    step = None if step == "none" else str(step)
    jumps = np.where(draw.random(n) < draw.choice([0, 0.05, 0.3]), draw.integers(2, 12, n), 1)
    times = times_of(n, None)
    if step is not None:
        times = (np.datetime64("2013-01-01", step) + np.cumsum(jumps)).astype("M8[s]")
    scales = [list(Scale)[i] for i in draw.integers(0, len(Scale), k)]
    noise = draw.standard_normal((k, n))
    week = 1 + draw.choice([0, 0.5]) * (np.cumsum(jumps) % 7 >= 5)
    level = np.where(np.arange(n) < draw.integers(5, n), 1.0, draw.uniform(1, 4))
    spikes = 1 + 10 * (draw.random((k, n)) < 0.04)
    drift = 1 + np.maximum(np.arange(n) - draw.integers(0, n), 0) * draw.choice([0, 0.02])
    values = np.exp(0.05 * noise) * week * level * spikes * drift * 100
    for i, scale in enumerate(scales):
        if scale is Scale.RATIO:
            values[i] = np.clip(1 - values[i] / 2000, 0, 1)
        elif scale is Scale.COUNT:
            values[i] = np.round(values[i])
        elif draw.random() < 0.3:
            values[i] = np.where(draw.random(n) < 0.9, 3.0, values[i])
    values[draw.random((k, n)) < 0.05] = math.nan
    values[:, 1:] = np.where(draw.random(n - 1) < 0.05, values[:, :-1], values[:, 1:])
    values[draw.random((k, n)) < 0.005] = math.inf
    weights = np.where(draw.random((k, n)) < 0.1, math.nan, draw.integers(10, 10_000, (k, n)))
    said = {"muted": draw.random((k, n)) < 0.05}
    said["holidays"] = ["Easter" if draw.random() < 0.03 else "" for _ in range(n)]
    if restarts:
        said["restarts"] = draw.random((k, n)) < 0.03
    said["empty"] = np.isnan(values) & (draw.random((k, n)) < 0.5)
    said["extremes"] = draw.random(k) < 0.3
    said["series"] = [
        {"kind": kind, "name": kind, "instance": f"{i}", "filter": "", "segment": ""}
        for i, kind in enumerate(draw.choice(["CountDistinct", "Size"], k))
    ]
    return History(times, values, weights, scales, ledger=ledger_of(times, seed), **said)


def cut(h, first, last=None):
    """Return a part of a history, with its offset in the whole."""
    some = slice(first, last)
    told = {}
    for name in ("muted", "restarts", "empty"):
        array = getattr(h, name)
        told[name] = None if array is None else array[:, some]
    ledger = PartitionLedger(
        h.ledger.arrived[some], h.ledger.version[some], h.ledger.columns[some], h.ledger.now
    )
    grid = Grid.from_times(h.times).part(first) if first else None
    days = None if h.holidays is None else h.holidays[some]
    return History(
        h.times[some], h.values[:, some], h.weights[:, some], h.scales, **told,
        holidays=days, grid=grid, extremes=h.extremes, series=h.series, free_days=h.free_days, ledger=ledger,
    )  # fmt: skip


def until(scores, end):
    return Scores(*(getattr(scores, name)[:, :end] for name in FIELDS))


@every
@few
@given(seed=st.integers(0, 2**32), share=st.floats(0, 1), restarts=st.booleans())
def test_later_points_do_not_change_scores(detector, seed, share, restarts):
    h = ordinary(seed, restarts=restarts, most=history_length(detector, 70))
    end = int(share * len(h.times))
    whole = check(detector, h)
    assert_same_scores(check(detector, cut(h, 0, end)), until(whole, end))


@every
@few
@given(seed=st.integers(0, 2**32), share=st.floats(0, 1), restarts=st.booleans())
def test_an_incremental_detection_equals_a_replay(detector, seed, share, restarts):
    h = ordinary(seed, restarts=restarts, most=history_length(detector, 70))
    start = int(share * len(h.times))
    whole = detector.score(h)
    assert_same_scores(check(detector, h, start, until(whole, start)), whole.since(start))
    assert_same_scores(check(detector, h, start), whole.since(start))


@pytest.mark.soak
@every
@few
@given(seed=st.integers(0, 2**32), share=st.floats(0, 1))
# a delay without a score, expected by the day of the month
@example(seed=1635, share=0.183877146010663)
# Weeks that are often missing: six of one week in ten years.
@example(seed=184560, share=0.17802021956186345)
# Months of a signed value, whose width has no lower bound.
@example(seed=991, share=0.1612235106246638)
def test_points_beyond_the_required_history_do_not_matter(detector, seed, share):
    h = ordinary(seed, least=440, most=600)
    grid = Grid.from_times(h.times)
    reach = detector.reach(grid)
    if reach is None and not grid.yearly:
        return
    # Weeks and months depend on all earlier ones: more than the models of a year forecast from.
    start = min((400 if reach is None else reach) + 1 + int(share * len(h.times)), len(h.times) - 1)
    first = 0 if reach is None else max(start - reach, 0)
    whole = detector.score(h)
    known = Scores(*(getattr(whole, name)[:, first:start] for name in FIELDS))
    assert_same_scores(check(detector, cut(h, first), start - first, known), whole.since(start))


@pytest.mark.soak
@every
@one
@given(seed=st.integers(0, 2**32), restarts=st.booleans())
def test_scoring_day_by_day_equals_scoring_at_once(detector, seed, restarts):
    h = ordinary(seed, restarts=restarts, most=history_length(detector, 30))
    whole = detector.score(h)
    known = until(whole, 0)
    for t in range(len(h.times)):
        new = detector.score(cut(h, 0, t + 1), t, known)
        known = Scores(*(np.concatenate([getattr(known, n), getattr(new, n)], 1) for n in FIELDS))
    assert_same_scores(known, whole)


@pytest.mark.parametrize("detector", SINGLE)
@one
@given(seed=st.integers(0, 2**32), restarts=st.booleans())
def test_series_do_not_affect_each_other(detector, seed, restarts):
    h = ordinary(seed, restarts=restarts, most=history_length(detector, 40))
    together = detector.score(h)
    for i in range(len(h.values)):
        assert_same_scores(detector.score(h.rows(slice(i, i + 1))), together.take(slice(i, i + 1)))


@every
def test_detectors_do_not_change_their_input(detector):
    h = ordinary(7, restarts=True, most=history_length(detector, 70))
    arrays = (h.times, h.values, h.weights, h.muted, h.restarts, h.ledger.arrived, h.ledger.version)
    before = [array.copy() for array in arrays]
    whole = detector.score(h)
    known = until(whole, len(h.times) // 2)
    kept = [getattr(known, name).copy() for name in FIELDS]
    detector.score(h, len(h.times) // 2, known)
    for array, old in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, old)
    for name, old in zip(FIELDS, kept, strict=True):
        np.testing.assert_array_equal(getattr(known, name), old)


@pytest.mark.soak
@pytest.mark.parametrize("name", ["Seasonal", "SlowDrift", "ChangePoint"])
def test_more_series_than_fit_into_one_matrix(name):
    detector = DETECTORS.build(name, {})
    draw = np.random.default_rng(5)
    values = draw.standard_normal((600, 16))
    h = history(values, times_of(16, "D"))
    last = check(detector, h).take(slice(590, 600))
    assert_same_scores(detector.score(history(values[590:], h.times)), last)


@every
@few
@given(
    seed=st.integers(0, 2**32),
    parts=st.lists(
        st.tuples(st.integers(0, 4), st.integers(1, 5), st.floats(0, 1)), min_size=2, max_size=5
    ),
)
def test_histories_are_scored_together_exactly_as_each_alone(detector, seed, parts):
    """Tables share a scoring if their partitions are equal; the grouping must not change a single bit."""
    requests = []
    for other, series, share in parts:
        h = ordinary(seed + other // 3, most=history_length(detector, 60))
        start = int(share * len(h.times))
        if not isinstance(detector, PartitionDetector):
            h = h.rows(slice(0, series))
        known = until(detector.score(h), start)
        requests += [ScoreRequest(h, start, known), ScoreRequest(h, start), ScoreRequest(h)]
    together = score_requests(detector, requests)
    for request, scores in zip(requests, together, strict=True):
        (alone,) = score_requests(detector, [request])
        if isinstance(detector, PartitionDetector):
            assert np.array_equal(scores[1], alone[1], equal_nan=True)
            scores, alone = scores[0], alone[0]
        for name in FIELDS:
            assert np.array_equal(getattr(scores, name), getattr(alone, name), equal_nan=True), name
