"""Level shifts and drifts of tables whose partitions are parts of days."""

from dataclasses import fields

import numpy as np
import pytest

import tidegauge as tg
from tidegauge.analyzers.core.metric import Scale
from tidegauge.repository.detectors.base import History, Reason, Scores

NOISE = 0.05
TABLES = 8


def times_of(days, per_day):
    step = np.timedelta64(24 * 60 // per_day, "m")
    return (np.datetime64("2026-01-05T00") + np.arange(days * per_day) * step).astype("M8[s]")


def noisy_rows(log_factor, seed):
    """Return about 100,000 rows, times a factor, with independent noise of 5%; of shape (tables, partitions)."""
    noise = np.random.default_rng(seed).normal(0, NOISE, (TABLES, len(log_factor)))
    return np.rint(1e5 * np.exp(log_factor + noise))


def history_of(values, per_day, rows=None, kind="Size"):
    names = {"kind": kind, "name": kind, "filter": "", "segment": "", "instance": "*"}
    scale = Scale.SIGNED if kind == "Sum" else Scale.COUNT
    rows = values if rows is None else rows
    count = len(values)
    times = times_of(values.shape[1] // per_day, per_day)
    return History(times, values, rows, [scale] * count, series=[names] * count)


def scores_of(*history):
    return tg.Seasonal().score(history_of(*history))


def drifts_of(scores):
    """Return the points that the largest slow change explains, with a score of 4.25: p = 0.1/450 in four tests a day."""
    return (scores.reason == Reason.DRIFT) & (scores.score > 4.25)


@pytest.mark.parametrize("per_day", [24, 96])
@pytest.mark.parametrize("factor", [0.7, 1.4])
def test_a_new_level_hides_no_later_fault_of_its_size(per_day, factor):
    """The level changes on day 20. Three days later a partition departs as far again, 7 deviations of the noise."""
    change = np.zeros(24 * per_day)
    change[20 * per_day :] = np.log(factor)
    change[-1] += np.log(factor)
    scores = scores_of(noisy_rows(change, per_day), per_day)
    assert (scores.score[:, -1] > 4).all()
    ratio = (scores.upper - scores.lower) / scores.expected
    before, after = (np.median(ratio[:, d * per_day : (d + 1) * per_day]) for d in (19, 23))
    assert after < 1.25 * before


@pytest.mark.parametrize("per_day", [24, 96])
def test_drifts_are_found_from_the_third_week_on(per_day):
    """The rows fall by a third in two days, on day 19: .4 on a logarithmic scale, 8 deviations of the noise."""
    days = np.arange(22 * per_day) / per_day
    scores = scores_of(noisy_rows(-0.4 * np.clip((days - 19) / 2, 0, 1), 1), per_day)
    assert drifts_of(scores)[:, 19 * per_day :].any(axis=1).mean() > 0.7
    assert not drifts_of(scores)[:, : 19 * per_day].any()


@pytest.mark.parametrize("per_day", [4, 24, 96])
@pytest.mark.parametrize("slope", [-0.03, 0.03])
def test_a_trend_that_goes_on_or_ends_is_no_drift(per_day, slope):
    """The rows grow or shrink by 3% a day for five weeks, then stay."""
    days = np.arange(45 * per_day) / per_day
    scores = scores_of(noisy_rows(slope * np.minimum(days, 35), 2), per_day)
    assert not drifts_of(scores).any()


@pytest.mark.parametrize("slope", [-0.03, 0.03])
def test_a_drift_of_a_growing_table_is_found(slope):
    """The rows fall by .4 on a logarithmic scale in two days, after five weeks of growth or decline by 3% a day."""
    days = np.arange(38 * 24) / 24
    change = slope * np.minimum(days, 35) - 0.4 * np.clip((days - 35) / 2, 0, 1)
    scores = scores_of(noisy_rows(change, 3), 24)
    assert drifts_of(scores)[:, 35 * 24 :].any(axis=1).mean() > 0.8
    assert not drifts_of(scores)[:, : 35 * 24].any()


def test_a_drift_is_found_after_an_earlier_new_level():
    """The level changes by 25% on day 20, which no single hour shows clearly; the rows drift by .4 from day 28 on."""
    days = np.arange(32 * 24) / 24
    change = 0.22 * (days >= 20) - 0.4 * np.clip((days - 28) / 2.5, 0, 1)
    scores = scores_of(noisy_rows(change, 4), 24)
    assert drifts_of(scores)[:, 28 * 24 :].any(axis=1).mean() > 0.8


@pytest.mark.parametrize("kind", ["Sum", "CountDistinct"])
def test_sums_and_distinct_counts_that_follow_the_rows_do_not_drift(kind):
    """The rows fall by .4 in two days. Each row has a value of 5, or half of the rows are distinct values."""
    days = np.arange(32 * 24) / 24
    rows = noisy_rows(-0.4 * np.clip((days - 28) / 2, 0, 1), 5)
    noise = np.random.default_rng(6).normal(0, 0.01, rows.shape)
    values = rows * {"Sum": 5.0, "CountDistinct": 0.5}[kind] * np.exp(noise)
    scores = scores_of(np.rint(values), 24, rows, kind)
    assert not drifts_of(scores).any()
    assert (scores_of(rows, 24).score[:, 28 * 24 :] > 4.25).any(axis=1).all()


@pytest.mark.parametrize("kind", ["Sum", "CountDistinct"])
def test_sums_and_distinct_counts_that_change_by_themselves_are_found(kind):
    """The number of rows does not change; the values or the distinct values of a row fall by .4 in two days."""
    days = np.arange(32 * 24) / 24
    rows = noisy_rows(np.zeros(len(days)), 7)
    noise = np.random.default_rng(8).normal(0, 0.01, rows.shape)
    per_row = {"Sum": 5.0, "CountDistinct": 0.5}[kind] * np.exp(
        noise - 0.4 * np.clip((days - 28) / 2, 0, 1)
    )
    scores = scores_of(np.rint(rows * per_row), 24, rows, kind)
    assert (scores.score[:, 28 * 24 :] > 4.25).any(axis=1).mean() > 0.8
    assert not drifts_of(scores)[:, : 28 * 24].any()


@pytest.mark.parametrize("weeks", [3, 4])
def test_a_drift_is_found_although_weekdays_are_hardly_known(weeks):
    """Rows of office hours, whose weekdays differ by 15%, fall by .4 on a logarithmic scale in two days."""
    draw, hours = np.random.default_rng(3), np.arange((7 * weeks + 4) * 24)
    days, hour = hours / 24, hours % 24
    is_open = (hour >= 8) & (hour < 19) & (days.astype(int) % 7 < 5)
    of_weekday = draw.normal(0, 0.15, (TABLES, 7))[:, days.astype(int) % 7]
    change = -0.4 * np.clip((days - 7 * weeks) / 2, 0, 1)
    noise = draw.normal(0, 0.06, (TABLES, len(hours)))
    rows = draw.poisson(8000 * np.exp(np.where(is_open, 0, -3) + of_weekday + change + noise))
    found = drifts_of(scores_of(rows.astype(float), 24))
    assert found[:, 7 * weeks * 24 :].any(axis=1).mean() > 0.8
    assert not found[:, : 7 * weeks * 24].any()


@pytest.mark.parametrize("per_day", [2, 3, 24])
def test_drifts_do_not_depend_on_where_scoring_begins(per_day):
    """The changes of eight weeks of windows are known again if only the newest partitions are scored."""
    count = 40 * per_day if per_day == 24 else 400 * per_day // 2
    parts = np.arange(count)
    change = -0.5 * np.clip((parts - 0.9 * count) / (0.05 * count), 0, 1)
    rows = noisy_rows(change, 11)[:3]
    whole = scores_of(rows, per_day)
    assert (whole.reason == Reason.DRIFT).any()
    for start in (int(0.93 * count), int(0.97 * count)):
        known = Scores(*(getattr(whole, f.name)[:, :start] for f in fields(Scores)))
        newest = tg.Seasonal().score(history_of(rows, per_day), start, known)
        np.testing.assert_allclose(newest.score, whole.score[:, start:], rtol=1e-6, atol=1e-9)
        np.testing.assert_array_equal(newest.reason, whole.reason[:, start:])
