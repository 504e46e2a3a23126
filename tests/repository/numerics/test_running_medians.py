"""Running medians and forward filling, compared with NumPy's median of each window."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tidegauge.repository.numerics.arrays import (
    forward_fill,
    median_of_seven,
    middle_mean,
    running_medians,
)

NUMBERS = st.one_of(st.integers(-3, 3).map(float), st.just(np.nan), st.floats(-1e300, 1e300))
ROWS = st.integers(1, 30).flatmap(lambda width: arrays(float, (2, width), elements=NUMBERS))


def by_window(values, length):
    """Return the running medians, computed window by window."""
    actual = np.full(values.shape, np.nan)
    for row, out in zip(values, actual, strict=True):
        for end in range(length - 1, len(row)):
            window = row[end - length + 1 : end + 1]
            if length == 21:
                window = [np.median(window[k : k + 7]) for k in range(0, 21, 7)]
            out[end] = np.median(window)
    return actual


@given(ROWS)
@pytest.mark.parametrize("length", [1, 3, 7, 21])
def test_each_window_has_its_median(length, values):
    np.testing.assert_array_equal(running_medians(values, (length,))[0], by_window(values, length))


@given(ROWS)
def test_each_of_several_lengths_is_computed_separately(values):
    for length, actual in zip((7, 21, 3, 1), running_medians(values, (7, 21, 3, 1)), strict=True):
        np.testing.assert_array_equal(actual, running_medians(values, (length,))[0])


@given(arrays(float, (7, 4), elements=NUMBERS))
def test_seven_arrays_have_their_median(values):
    np.testing.assert_array_equal(median_of_seven(list(values)), np.median(values, axis=0))


@given(ROWS)
def test_a_gap_is_filled_with_the_number_before_it(values):
    for row, filled in zip(values, forward_fill(values), strict=True):
        last = np.nan
        for value, actual in zip(row, filled, strict=True):
            last = last if np.isnan(value) else value
            np.testing.assert_equal(actual, last)


@pytest.mark.parametrize("shape", [(0, 5), (2, 0), (0, 7, 3)])
def test_the_middle_mean_of_nothing_is_nothing(shape):
    means = middle_mean(np.empty(shape))
    assert means.shape == shape[:-1]
    assert np.isnan(means).all()
