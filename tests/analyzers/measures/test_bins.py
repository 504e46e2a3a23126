"""Bins of stored states."""

import tidegauge as tg
from tests.analyzers.core.state_strategies import kll
from tidegauge.analyzers.measures.frequencies import FrequenciesAndNumRows


def test_counts_of_a_sketch_are_integers_and_add_up():
    """0 to 9 between 0, 3, 6 and 9: three, three, and four with the last edge."""
    state = kll([float(x) for x in range(10)])
    buckets = tg.KLLSketch("x", number_of_buckets=3).compute_metric_from(state).value.buckets
    assert [b.absolute for b in buckets] == [3, 3, 4]
    assert all(type(b.absolute) is int for b in buckets)
    many = kll([float(x * x % 1009) for x in range(5000)])
    buckets = tg.KLLSketch("x", number_of_buckets=7).compute_metric_from(many).value.buckets
    assert sum(b.absolute for b in buckets) == 5000


def test_the_edges_of_a_single_value_are_floats():
    state = FrequenciesAndNumRows.from_groups([((4,), 3)])
    (only,) = tg.HistogramBinned("x", 2).compute_metric_from(state).value.bins
    assert (only.low, only.high, only.absolute) == (4.0, 4.0, 3)
    assert type(only.low) is type(only.high) is float


def test_the_percentiles_of_a_sketch():
    """The 25th percentile of 1 to 100 is 25: a quarter of the values are at most 25."""
    state = kll([float(x) for x in range(1, 101)])
    percentiles = tg.KLLSketch("x").compute_metric_from(state).value.percentiles()
    assert (len(percentiles), percentiles[0], percentiles[24], percentiles[99]) == (
        100,
        1.0,
        25.0,
        100.0,
    )


def test_a_range_of_zero_width_has_no_equal_bins():
    state = FrequenciesAndNumRows.from_groups([((-1.7e308,), 1), ((1.7e308,), 1)])
    metric = tg.HistogramBinned("x", 2).compute_metric_from(state)
    assert "cannot make bins of equal width from -1.7e+308 to 1.7e+308" in str(metric.outcome.error)
