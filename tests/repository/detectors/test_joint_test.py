"""Joint test of the largest deviations of a partition, without a database."""

import numpy as np
import pytest
from scipy import special

import tidegauge as tg
from tidegauge.repository.detectors.base import Scores
from tidegauge.repository.detectors.rules import FalseDiscoveryRate
from tidegauge.repository.numerics.tails import jointly_significant

APART = np.array([[(t >> bit) & 1 for t in range(64)] for bit in range(5)], dtype=float)
"""Scores of five series whose correlations are exactly 0."""


def chance(seed, series, partitions):
    """Return scores of independent p-values."""
    return np.random.default_rng(seed).exponential(1 / np.log(10), (series, partitions))


# Fisher's statistic of three p-values of 0.01 is 27.63. Its distribution has six degrees of
# freedom, so P(X >= 27.63) = exp(-13.816) (1 + 13.816 + 13.816^2 / 2) = 1.103e-4.
@pytest.mark.parametrize(("limit", "found"), [(1.11e-4, True), (1.09e-4, False)])
def test_three_series_are_tested_by_fishers_method(limit, found):
    assert jointly_significant(np.array([2.0, 2.0, 2.0]), APART[:3], limit) is found


# The most extreme three of n series are tested. Of five series, there are ten ways to choose
# three, so the p-value is at most ten times as large: 1.103e-3.
def test_the_p_value_grows_with_the_number_of_series():
    score = np.array([2.0, 0.1, 2.0, 0.2, 2.0])
    assert not jointly_significant(score, APART, 2.0 * 1.103e-4)
    assert jointly_significant(score, APART, 10.0 * 1.103e-4)


# Three series that are always equal count as one. The p-value is then 0.01, except for one
# standard error of the correlations, 1/8.
@pytest.mark.parametrize(("limit", "found"), [(0.011, True), (0.004, False)])
def test_related_series_count_as_evidence_once(limit, found):
    same = APART[[0, 0, 0]]
    assert jointly_significant(np.array([2.0, 2.0, 2.0]), same, limit) is found


def test_an_earlier_incident_does_not_relate_series():
    past = chance(1, 3, 98)
    score = np.full(3, 2.4)
    assert jointly_significant(score, past, 1e-4)
    past[:, 50] = 200.0
    assert jointly_significant(score, past, 1e-4)


@pytest.mark.parametrize(
    ("score", "earlier"),
    [
        pytest.param([9.0, 9.0], APART[:2], id="two series"),
        pytest.param([9.0, 9.0, np.nan], APART[:3], id="two that are known"),
        pytest.param([9.0, 9.0, 9.0], APART[:3, :27], id="a short past"),
        pytest.param([9.0, 9.0, 9.0], np.where(APART[:3] > 0, 1.0, np.nan), id="few common days"),
        pytest.param([], np.zeros((0, 64)), id="nothing"),
    ],
)
def test_missing_scores_are_not_evidence(score, earlier):
    assert not jointly_significant(np.array(score), earlier, 0.5)


@pytest.mark.parametrize("series", [3, 5, 14, 40])
def test_the_rate_of_false_alarms_is_the_accepted_one(series):
    past = chance(2, series, 98)
    newest = chance(3, 8_000, series)
    found = np.mean([jointly_significant(one, past, 0.02) for one in newest])
    assert 0.012 < found < 0.026


@pytest.mark.parametrize("shared", [0.5, 0.8, 1.0])
def test_related_series_raise_no_more_false_alarms(shared):
    """Groups of series share their noise, like the rows, bytes and distinct values of a table."""
    draws = np.random.default_rng(4)
    common = draws.normal(size=(4, 8_098)).repeat(3, axis=0)
    z = np.sqrt(shared) * common + np.sqrt(1 - shared) * draws.normal(size=common.shape)
    score = -np.log10(2 * special.ndtr(-np.abs(z)))
    found = np.mean([jointly_significant(one, score[:, :98], 0.02) for one in score[:, 98:].T])
    assert found < 0.03


@pytest.mark.parametrize("shared", [0.2, 0.35, 0.5])
def test_false_alarms_of_moderately_related_series_are_bounded(shared):
    """Twelve series with one common factor: at most five times the accepted rate."""
    draws = np.random.default_rng(7)
    common = draws.normal(size=(1, 12_098))
    z = np.sqrt(shared) * common + np.sqrt(1 - shared) * draws.normal(size=(12, 12_098))
    score = -np.log10(2 * special.ndtr(-np.abs(z)))
    found = np.mean([jointly_significant(one, score[:, :98], 1 / 450) for one in score[:, 98:].T])
    assert found < 5 / 450


def scores_from(score):
    scores = Scores.unscored(score.shape)
    scores.score[:], scores.expected[:] = score, 0.0
    return scores


# Three of fourteen series have p-values of 0.002. A single series needs 2.2e-4, the third 6.7e-4.
def test_a_partition_is_rejected_for_joint_departures():
    past = chance(5, 14, 98)
    score = np.full((14, 1), 0.3)
    score[[2, 5, 11]] = 2.7
    rule, values = FalseDiscoveryRate(), np.ones((14, 1))
    now = np.hstack([past, score])
    found = rule.decide(values, scores_from(score), None, now)
    assert np.flatnonzero(found[:, 0]).tolist() == [2, 5, 11]
    assert not rule.decide(values, scores_from(score)).any()
    past[[5, 11]] = past[2]
    assert not rule.decide(values, scores_from(score), None, np.hstack([past, score])).any()


def test_the_weight_of_errors_counts_once():
    """Three p-values of 0.008 among fourteen are chance, although the weight of errors halves each."""
    past, score = chance(5, 14, 98), np.full((14, 1), 0.3)
    score[[2, 5, 11]] = 2.1
    weighed, now = score + np.log10(2), np.hstack([past, score])
    values = np.ones((14, 1))
    assert not FalseDiscoveryRate().decide(values, scores_from(weighed), None, now).any()
    assert (
        FalseDiscoveryRate()
        .decide(values, scores_from(weighed), None, np.hstack([past, weighed]))
        .any()
    )


def test_day_by_day_detection_equals_a_replay():
    draws = np.random.default_rng(9)
    days = [f"ds={day}" for day in np.arange("2024-01-01", "2024-04-30", dtype="M8[D]")]
    values = 100 * np.exp(draws.normal(0, 0.15, (8, len(days))))
    values[[1, 4, 6], -1] = 50  # about four deviations
    columns = ["partition", "name", "score", "severity", "explanation"]
    with tg.Repository("sqlite://") as repo:
        for until in (len(days) - 1, len(days)):
            for i, row in enumerate(values):
                known = dict(zip(days[:until], row[:until], strict=True))
                repo.record("d", f"mean {i}", known, scale="positive")
            found = repo.detect("d")
        again = repo.detect("d", replay=True)
    last = found[found["partition"] == days[-1]]
    assert sorted(last["name"]) == ["mean 1", "mean 4", "mean 6"]
    assert last["explanation"].str.contains("2 other metrics are also unusual").all()
    assert again[columns].values.tolist() == found[columns].values.tolist()
