"""Shares, sums, distinct counts and times are compared on scales that fit the rows behind them."""

import datetime as dt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import tidegauge as tg
from tidegauge.analyzers.core.metric import Scale
from tidegauge.repository.detectors.base import History
from tidegauge.repository.numerics.counts import CountForecast, RareShares

FIRST_DAY = dt.date(2025, 1, 1)
REPORTED = 3.65
"""Score from which a deviation of one series is reported: -log10(0.1 / 450)."""


def partition(number):
    return f"ds={FIRST_DAY + dt.timedelta(days=number)}"


def daily(days):
    return np.datetime64("2025-01-01", "s") + np.arange(days) * np.timedelta64(86_400, "s")


def completeness_scores(shares, rows):
    """Return the scores of histories of one share, of shape (histories, days)."""
    history = History(daily(shares.shape[1]), shares, rows, [Scale.RATIO] * len(shares))
    return tg.Seasonal().score(history)


@pytest.mark.parametrize(
    ("mean_rows", "null_share"), [(3, 0.01), (6, 0.01), (10, 0.05), (20, 0.01)]
)
def test_a_null_among_few_rows_is_chance(mean_rows, null_share):
    rng = np.random.default_rng(mean_rows)
    rows = np.maximum(1, rng.poisson(mean_rows, (40, 200))).astype(float)
    shares = 1 - rng.binomial(rows.astype(int), null_share) / rows
    assert (completeness_scores(shares, rows).score[:, 56:] > REPORTED).mean() < 0.001


@pytest.mark.parametrize(("days", "min_found"), [(8, 0.7), (14, 1.0), (40, 1.0)])
def test_a_burst_of_nulls_in_a_small_table_is_reported(days, min_found):
    """Of 120 rows, 36 are null, where 1.2 are usual."""
    rng = np.random.default_rng(days)
    rows = np.full((20, days + 1), 120.0)
    shares = 1 - rng.binomial(120, 0.01, rows.shape) / 120
    shares[:, -1] = 0.7
    assert (completeness_scores(shares, rows).score[:, -1] > REPORTED).mean() >= min_found


@pytest.mark.parametrize(
    ("rows", "share", "is_reported"),
    [
        (1e5, 0.999, True),
        (1e5, 0.995, True),
        (1e4, 0.995, True),
        (1e5, 0.9999, False),
        (100, 0.99, False),
    ],
)
def test_the_first_nulls_of_a_column_are_reported_if_they_are_many(rows, share, is_reported):
    days = {partition(number): 1.0 for number in range(200)} | {partition(200): share}
    with tg.Repository("sqlite://") as repo:
        repo.record("t", "Completeness", days, scale="ratio", instance="id", weight=rows)
        assert (len(repo.detect("t")) > 0) == is_reported


@given(seed=st.integers(0, 10**6))
def test_scores_and_bands_of_rare_shares_agree(seed):
    """The score of a share outside the band reaches the band's limit."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(1, 400, (1, 60)).astype(float)
    shares = 1 - rng.binomial(rows.astype(int), rng.uniform(0, 0.08)) / rows
    scores = completeness_scores(shares, rows)
    known = ~np.isnan(scores.score)
    outside = (shares < scores.lower - 1e-9) | (shares > scores.upper + 1e-9)
    assert not (outside & known & (scores.score < REPORTED - 0.01)).any()


@pytest.mark.parametrize(
    ("rows", "prior"), [(100, 1.5 * 0.0105 * 99), (500, 5)], ids=["few", "at most 6"]
)
def test_rare_events_are_forecast_from_their_share(rows, prior):
    """A hundredth of the rows of ten partitions, and half an event: 1.05% or 1.01% of the next 200 rows."""
    usual = rows / 100
    forecast = CountForecast.from_rates(
        np.full((1, 10), usual), np.full((1, 10), float(rows)), np.array([200.0])
    )
    share = (10 * usual + 0.5) / (10 * rows)
    rest = 1 - share
    assert forecast.mean.tolist() == [pytest.approx(200 * share)]
    # The squared errors are nearly 0, so the excess over the binomial variance is nearly -1 in each partition.
    # The assumed excess, with the weight of fourteen partitions, is 1.5 times the share for each other row.
    excess = 10 * (0.05**2 / (rows * share * rest) - 1)
    correlation = (excess + 14 * prior) / (24 * (rows - 1))
    variance = 200 * share * rest * (1 + 199 * correlation) + 200 * share * 200 / (10 * rows)
    assert forecast.variance.tolist() == [pytest.approx(variance)]
    mean = 200 * share
    p = stats.nbinom.sf(9, mean**2 / (variance - mean), mean / variance)
    assert forecast.score(np.array([10.0])).tolist() == [pytest.approx(-np.log10(2 * p))]


@pytest.mark.parametrize("unknown", [np.nan, 0.0])
def test_shares_of_an_unknown_number_of_rows_are_not_rare_shares(unknown):
    shares, rows = np.ones((1, 30)), np.full((1, 30), unknown)
    fitted = RareShares.fit(np.array([0]), shares, rows, np.array([unknown]))
    assert fitted.rows.size == 0


@pytest.mark.parametrize("usual", [60, 100, 200, 500])
def test_a_fifth_fewer_distinct_values_are_reported(usual):
    rng = np.random.default_rng(usual)
    counts = (usual * np.exp(rng.normal(0, 0.01, 201))).round()
    counts[200] = round(usual * 0.8)
    days = {partition(number): value for number, value in enumerate(counts.tolist())}
    with tg.Repository("sqlite://") as repo:
        repo.record("t", "CountDistinct", days, scale="count", instance="country")
        anomalies = set(repo.detect("t")["partition"])
    assert partition(200) in anomalies
    assert len(anomalies) <= 1 + (usual == 60)  # some counts of 60 are nearly constant


@pytest.mark.parametrize("sign", [1, -1])
def test_a_sum_follows_the_seasons_of_its_rows(sign):
    """Month ends with 2.4 times the rows, weekends with fewer: the sum is in proportion."""
    rng = np.random.default_rng(1)
    rows, sums = {}, {}
    for number in range(400):
        day = FIRST_DAY + dt.timedelta(days=number)
        ends_month = (day + dt.timedelta(days=1)).month != day.month
        level = 1e5 * (0.4 if day.weekday() >= 5 else 1) * (2.4 if ends_month else 1)
        rows[partition(number)] = round(level * np.exp(rng.normal(0, 0.05)))
        sums[partition(number)] = sign * rows[partition(number)] * 50 * np.exp(rng.normal(0, 0.02))
    sums[partition(390)] *= 0.3
    with tg.Repository("sqlite://") as repo:
        repo.record("t", "Size", rows, scale="count")
        repo.record("t", "Sum", sums, scale="signed", instance="amount")
        anomalies = repo.detect("t")
        scores = repo.scores("t", name="Sum")
    late = anomalies[anomalies["partition"] >= partition(250)]
    assert set(late.loc[late["name"] == "Sum", "partition"]) == {partition(390)}
    assert (np.sign(scores["expected"].dropna()) == sign).all()


def test_sums_of_both_signs_stay_on_their_own_scale():
    values = np.random.default_rng(2).normal(0, 100, 200)
    days = {partition(number): value for number, value in enumerate(values.tolist())}
    with tg.Repository("sqlite://") as repo:
        repo.record("t", "Sum", days, scale="signed", instance="balance")
        assert repo.detect("t").empty
        scores = repo.scores("t", name="Sum").dropna(subset=["lower"])
    assert (scores["lower"] < 0).all()
    assert (scores["upper"] > 0).all()


@pytest.mark.parametrize("seconds", [30, 87, 300])
def test_times_of_day_that_are_off_by_an_hour_are_reported(seconds):
    rng = np.random.default_rng(seconds)
    days = daily(60).astype(float)
    first = days + np.abs(rng.normal(0, seconds, (10, 60)))
    first[:, -1] += 3617
    history = History(daily(60), first, np.full(first.shape, 1e4), [Scale.TIME] * 10)
    assert (tg.Seasonal().score(history).score[:, -1] > REPORTED).all()


def hours(days):
    return np.datetime64("2025-01-06", "s") + np.arange(24 * days) * np.timedelta64(3600, "s")


def office_rows(rng, busy, quiet, days):
    """Return expected rows of hours: ``busy`` from 8 to 18 o'clock on working days, else ``quiet``."""
    hour, day = np.arange(24 * days) % 24, np.arange(24 * days) // 24
    works = (hour >= 8) & (hour < 18) & (day % 7 < 5)
    return np.where(works, busy, quiet) * np.exp(rng.normal(0, 0.04, (12, 24 * days)))


def hourly_scores(values, rows, name, scale):
    series = [
        {"name": name, "kind": name, "filter": "", "segment": "", "instance": "*"}
        for _ in range(len(values))
    ]
    days = values.shape[1] // 24
    history = History(hours(days), values, rows, [scale] * len(values), series=series)
    return tg.Seasonal().score(history).score


@pytest.mark.parametrize(("busy", "quiet"), [(5_000, 30), (60_000, 800)])
def test_nights_of_few_rows_hide_no_loss_by_day(busy, quiet):
    """Rows vary by 4%, and by chance: by 18% around 30 rows. The third Sunday is expected from one or two others."""
    rng = np.random.default_rng(busy)
    rows = rng.poisson(office_rows(rng, busy, quiet, 29)).astype(float)
    noon = 24 * 28 + 12
    rows[:, noon] = np.round(rows[:, noon] / 2)
    scores = hourly_scores(rows, rows, "Size", Scale.COUNT)
    assert (scores[:, noon] > REPORTED).mean() >= 0.9
    assert (scores[:, 24 * 14 : noon] > REPORTED).mean() < 0.005


@pytest.mark.parametrize("values", [500, 1_500, 20_000])
def test_lost_distinct_values_of_an_hour_are_reported(values):
    rng = np.random.default_rng(values)
    rows = rng.poisson(office_rows(rng, 4_000, 60, 29)).astype(float)
    distinct = values * -np.expm1(-rows / values) * np.exp(rng.normal(0, 0.01, rows.shape))
    noon = 24 * 28 + 12
    distinct[:, noon] *= 0.8
    scores = hourly_scores(np.round(distinct), rows, "CountDistinct", Scale.COUNT)
    assert (scores[:, noon] > REPORTED).mean() >= 0.9
    assert (scores[:, 24 * 14 : noon] > REPORTED).mean() < 0.002


@pytest.mark.parametrize("values", [500, 1_500, 20_000])
def test_distinct_counts_by_the_hour_follow_their_rows(values):
    """n rows of so many equally frequent values have values * (1 - exp(-n / values)) distinct ones."""
    rng = np.random.default_rng(values)
    expected = office_rows(rng, 4_000, 60, 29)
    expected[:, 24 * 21 :] *= 2.2
    rows = rng.poisson(expected).astype(float)
    distinct = values * -np.expm1(-rows / values) * np.exp(rng.normal(0, 0.01, rows.shape))
    scores = hourly_scores(np.round(distinct), rows, "CountDistinct", Scale.COUNT)
    assert not (scores[:, 24 * 14 :] > REPORTED).any()


@pytest.mark.parametrize(("rows", "is_unusual"), [(4, False), (300, True)])
def test_a_value_missing_from_few_rows_is_no_anomaly(rows, is_unusual):
    """Each of three values is missing from four rows with probability (2/3)^4 = 0.2, and from 300 rows never."""
    rng = np.random.default_rng(rows)
    counts = np.maximum(rng.poisson(rows * 2, (8, 120)), rows).astype(float)
    distinct = np.array([[len(set(rng.integers(0, 3, int(n)))) for n in table] for table in counts])
    counts[:, -1], distinct[:, -1] = rows, 2
    series = [
        {
            "name": "CountDistinct",
            "kind": "CountDistinct",
            "filter": "",
            "segment": "",
            "instance": "a",
        }
    ] * len(counts)
    days = np.datetime64("2026-01-05", "s") + np.arange(120) * np.timedelta64(86_400, "s")
    history = History(days, distinct.astype(float), counts, [Scale.COUNT] * 8, series=series)
    scores = tg.Seasonal().score(history).score
    assert ((scores[:, -1] > REPORTED) == is_unusual).all()
