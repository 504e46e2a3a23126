"""Scores and bands of nearly constant series. Pure."""

import numpy as np
import pytest

from tidegauge.repository.numerics.tails import ConstantModel


def fit(past, *, min_spread=0.5, counts=False, alarms=(), counts_of_values=False):
    past = np.array([past], dtype=float)
    alarmed = np.zeros(past.shape, dtype=bool)
    alarmed[0, list(alarms)] = True
    return ConstantModel.fit(
        past,
        alarmed,
        past[:, -1],
        np.array([min_spread]),
        past,
        repeating=np.array([True]),
        counts=np.array([counts]),
        counts_of_values=np.array([counts_of_values]),
    )


def test_a_first_departure_scores_its_frequency_and_its_relative_size():
    model = fit([5.0] * 20)
    # 1 in 22, 2 for a first deviation, and a fifth is twice the large size of a tenth
    assert model.score(np.array([6.0])) == pytest.approx(np.log10(22) + 2 + np.log10(2))
    assert model.score(np.array([5.0])) == 0
    reach = 0.5 * 10 ** (4 - np.log10(22) - 2)
    assert model.band(4.0)[0] == pytest.approx([5 - reach, 5 + reach])


def test_a_departure_below_twice_the_lower_bound_of_the_spread_scores_at_most_1():
    assert fit([5.0] * 20, min_spread=0.6).score(np.array([6.1])) == 1
    assert fit([5.0] * 20, min_spread=0.5).score(np.array([6.1])) > 3


def test_a_count_that_differs_by_one_is_scored_only_for_small_counts_of_values():
    past = np.log1p([5.0] * 20)
    value = np.log1p(np.array([6.0]))
    assert fit(past, min_spread=0.0, counts=True).score(value) == 1
    assert fit(past, min_spread=0.0, counts=True, counts_of_values=True).score(value) > 3


def test_few_alarms_are_departures_without_a_typical_size():
    past = [5.0] * 18 + [9.0] * 2
    model = fit(past, alarms=(18, 19))
    assert (model.departures[0], model.examples[0]) == (2, 0)
    assert fit(past).examples[0] == 2


def test_a_series_without_a_dominant_value_has_no_model():
    assert fit([1.0, 1.0, 2.0, 2.0, 3.0, 3.0]) is None
