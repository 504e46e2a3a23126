"""Which earlier deviations make a deviation usual, and which labels do."""

import datetime as dt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidegauge as tg
from tidegauge.analyzers.core.metric import Scale
from tidegauge.repository.detectors.base import History
from tidegauge.repository.numerics.forecasts import forecast
from tidegauge.repository.numerics.tails import cap_recurring_steps

FIRST_DAY = dt.date(2026, 1, 1)


def partition(number):
    return f"ds={FIRST_DAY + dt.timedelta(days=number)}"


def detected_days(values):
    """Return the numbers of the days with an anomaly, of a table that was measured every day."""
    by_partition = {partition(number): float(value) for number, value in enumerate(values)}
    with tg.Repository("sqlite://") as repo:
        repo.record("orders", "Size", by_partition, scale="count")
        anomalies = set(repo.detect("orders").get("partition", []))
    return {number for number in range(len(values)) if partition(number) in anomalies}


def calm_rows(days, seed=1):
    return np.random.default_rng(seed).normal(1000, 20, days).round()


def test_three_outages_do_not_hide_other_faults():
    values = calm_rows(130)
    values[[60, 70, 81]] = 0
    values[[95, 105, 115, 125]] = 0, 2000, 100_000, 500
    assert detected_days(values) >= {60, 70, 81, 95, 105, 115, 125}


@pytest.mark.parametrize("scale", [Scale.POSITIVE, Scale.SIGNED, Scale.COUNT])
@pytest.mark.parametrize("factor", [2.0, 0.5, 1.5])
@pytest.mark.parametrize("hours", [1, 24])
def test_three_incidents_do_not_hide_a_fault_of_any_metric(scale, factor, hours):
    """Positive numbers have heavy tails, but three values at a tenth are incidents and not a tail."""
    draw = np.random.default_rng(2)
    values = np.exp(draw.normal(7, 0.03, (10, 250)))
    values[:, [200, 210, 221]] *= 0.1
    values[:, -1] *= factor
    times = np.datetime64("2026-01-01", "s") + np.arange(250) * np.timedelta64(3600 * hours, "s")
    history = History(times, values, np.full(values.shape, 1000.0), [scale] * 10)
    assert (tg.Seasonal().score(history).score[:, -1] > 4).all()


def test_alarms_to_both_sides_do_not_hide_the_next_alarm():
    values = calm_rows(130)
    values[[60, 70, 81]] = 2000, 0, 500
    values[[95, 105]] = 2000, 0
    assert detected_days(values) >= {95, 105}


def test_a_departure_that_recurs_becomes_usual():
    values = calm_rows(260)
    promotions = np.arange(70, 260, 12)
    values[promotions] *= 1.5
    found = detected_days(values)
    assert found <= set(promotions.tolist())
    assert len(found) <= 4


def test_small_counts_are_compared_by_their_own_side():
    """P(X >= 15) is 7e-7 for a Poisson count with mean 3, whose zeros are one in twenty."""
    counts = np.random.default_rng(0).poisson(3, (40, 80)).astype(float)
    counts[:, -1] = 15
    times = np.datetime64("2026-01-01", "s") + np.arange(80) * np.timedelta64(86_400, "s")
    scores = tg.Seasonal().score(History(times, counts, counts, [Scale.COUNT] * 40)).score
    assert (scores[:, -1] > 3.65).mean() >= 0.85
    assert (scores[:, 20:-1] > 3.65).mean() < 0.001


def scores_of_a_dimension(rng, days=300):
    """Return the mean price of 300 products, which changes when a product is added or removed."""
    sizes = rng.choice([-1, 1], (30, days)) * rng.uniform(0.01, 0.03, (30, days))
    changes = np.where(rng.random((30, days)) < 0.1, sizes, 0)
    values = 25 * np.exp(np.cumsum(changes, axis=1))
    values[:, -1] = values[:, -2] * 1.3
    times = np.datetime64("2026-01-01", "s") + np.arange(days) * np.timedelta64(86_400, "s")
    weights = np.full(values.shape, 300.0)
    return tg.Seasonal().score(History(times, values, weights, [Scale.SIGNED] * 30)).score


def test_a_small_table_that_changes_now_and_then_is_quiet():
    """Its mean steps by 1 to 3% on every tenth day; a step of 30% is found."""
    scores = scores_of_a_dimension(np.random.default_rng(3))
    assert (scores[:, 100:-1] > 3.65).mean() < 0.02
    assert (scores[:, -1] > 3.65).all()


@pytest.mark.parametrize(
    ("values", "is_usual"),
    [
        ([1, 1, 2, 2, 3, 3, 4, 4, 5, 5], True),
        ([1, 1, 2, 2, 3, 3, 4, 4], False),  # three steps
        ([1, 1, 2, 2, 1, 1, 2, 2, 1, 1, 2, 2], False),  # one step, and returns to earlier values
        ([1, 1, 1, 9, 1, 1, 1, 8, 1, 1, 1, 7, 1, 1, 1, 6, 1, 1, 1, 5, 1, 1], False),  # single days
        ([1, 2, 3, 4, 5, 6, 7, 8, 9], False),  # never stays
        ([1, 1, 1.1, 1.1, 1.2, 1.2, 1.3, 1.3, 1.4, 1.4], False),  # smaller steps
    ],
)
def test_only_steps_to_new_values_that_stay_make_a_step_usual(values, is_usual):
    past = np.array([[np.nan, *values]])
    score, points = np.array([6.0]), np.array([len(values)])
    capped = cap_recurring_steps(score, np.array([values[-1] + 1.0]), past, points)
    assert capped[0] == (pytest.approx(np.log10(len(values) + 1)) if is_usual else 6.0)


@pytest.mark.parametrize("label", ["expected", "ignore"])
def test_a_labelled_departure_is_usual_at_once(label):
    values = calm_rows(130)
    values[[70, 82, 94, 106]] = 1500
    with tg.Repository("sqlite://") as repo:
        days = {partition(number): value for number, value in enumerate(values[:71].tolist())}
        repo.record("orders", "Size", days, scale="count")
        repo.detect("orders")
        (incident,) = repo.incidents("orders")["id"].tolist()
        repo.label(int(incident), label, by="ann")
        for number in range(71, 130):
            repo.record("orders", "Size", {partition(number): values[number]}, scale="count")
        anomalies = repo.detect("orders")
    assert anomalies.empty or partition(70) in set(anomalies["partition"])
    assert not set(anomalies.get("partition", [])) & {partition(n) for n in (82, 94, 106)}


@given(seed=st.integers(0, 10**6), labelled=st.sets(st.integers(40, 100), max_size=5))
def test_harmless_labels_never_raise_a_score(seed, labelled):
    """For series with seasons, outliers and level shifts, whether labeled points are outliers or not."""
    rng = np.random.default_rng(seed)
    days = 120
    level = 1000 * np.where(np.arange(days) % 7 >= 5, rng.uniform(0.3, 1), 1.0)
    level[rng.integers(50, 110) :] *= rng.choice([0.6, 1.0, 1.5])
    values = (level * np.exp(rng.normal(0, 0.05, days))).round()
    values[rng.integers(40, days, 5)] *= rng.uniform(0, 3, 5)
    harmless = np.zeros((1, days), dtype=bool)
    harmless[0, sorted(labelled)] = True
    times = np.datetime64("2026-01-01", "s") + np.arange(days) * np.timedelta64(86_400, "s")
    without = History(times, values[None, :], values[None, :], [Scale.COUNT])
    with_labels = History(
        times, values[None, :], values[None, :], [Scale.COUNT], muted=harmless, harmless=harmless
    )
    before, after = (tg.Seasonal().score(history).score for history in (without, with_labels))
    assert (np.nan_to_num(after) <= np.nan_to_num(before)).all()


@pytest.mark.parametrize("labelled", [True, False])
def test_scores_say_that_a_value_outside_its_band_recurs(labelled):
    values = calm_rows(200)
    promotions = [70, 87, 104, 121, 138, 155, 172, 189]
    values[promotions] *= 1.5
    with tg.Repository("sqlite://") as repo:
        for first, end in ((0, 71), (71, 200)):
            days = range(first, end)
            repo.record("orders", "Size", {partition(k): values[k] for k in days}, scale="count")
            repo.detect("orders")
            if labelled and first == 0:
                repo.label(int(repo.incidents("orders")["id"].iloc[0]), "expected")
        scores = repo.scores("orders").set_index("partition")
        anomalies = set(repo.anomalies("orders")["partition"])
    silent = [partition(k) for k in promotions if partition(k) not in anomalies]
    assert len(silent) == (7 if labelled else 4)  # by a label at once, or after four alarms
    assert set(scores.loc[silent, "reason"]) == {"recurring"}
    alarmed = scores.loc[sorted(anomalies), "reason"]
    assert set(alarmed) == {"level"}
    ordinary = scores.drop(index=[partition(k) for k in promotions])
    assert not {"usual", "recurring"} & set(ordinary["reason"])


@pytest.mark.parametrize("unknown", [1, 2, 5])
@pytest.mark.parametrize("extreme", [850.0, 1150.0])
def test_an_extreme_day_before_unknown_days_is_not_their_level(unknown, extreme):
    """The level is a median of the newest known days: with 990 and 1010 before the extreme day, one of these."""
    past = np.tile([1000.0, 980.0, 1020.0, 1000.0, 990.0, 1010.0], 15)
    past[84 - unknown] = extreme
    past = np.concatenate([past[: 85 - unknown], np.full(unknown, np.nan)])[None]
    season, effect = np.zeros_like(past), np.zeros(1)
    assert 980 <= forecast(past, past, season, effect).centre <= 1020


@pytest.mark.parametrize("side", [1, -1])
@pytest.mark.parametrize("size", [0.5, 1.0])
def test_rare_days_to_one_side_do_not_hide_a_fault_to_the_other(side, size):
    """One in eight days is 10 or 20 deviations off; then a day is 14 deviations off to the other side."""
    rng = np.random.default_rng(3)
    log_rows = np.log(20_000) + rng.normal(0, 0.05, (40, 150))
    log_rows[:, :-3] += side * size * (rng.random((40, 147)) < 0.12)
    log_rows[:, -1] -= side * 0.7
    values = np.exp(log_rows).round()
    times = np.datetime64("2026-01-01", "s") + np.arange(150) * np.timedelta64(86400, "s")
    history = History(times, values, values, [Scale.COUNT] * 40)
    scores = tg.Seasonal().score(history)
    assert np.mean(scores.score[:, -1] > 4) >= 0.75
