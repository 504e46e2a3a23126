"""Distances between distributions, and drift computed from stored states, without Spark."""

import datetime as dt
import math
from dataclasses import replace

import numpy as np
import pytest
from datasketches import (
    PyDoublesSerDe,
    frequent_strings_sketch,
    kll_doubles_sketch,
    req_items_sketch,
)
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import tidegauge as tg
from tidegauge.analyzers.core.partitions import Partition
from tidegauge.analyzers.measures.frequencies import FrequenciesAndNumRows
from tidegauge.analyzers.measures.quantiles import KllState, ReqState
from tidegauge.analyzers.measures.top_values import FrequentItemsState
from tidegauge.analyzers.runs.ledger import RunSpec
from tidegauge.repository.distributions.distances import (
    align_categories,
    category_distances,
    chi_square,
    equal_mass,
    excess,
    ks,
    l_infinity,
    number_of_bins,
    numeric_distances,
    psi,
    unseen_p,
    wasserstein,
)
from tidegauge.repository.distributions.stored import Quantiles, categories_of, quantiles_of
from tidegauge.repository.testing import commit, day, measurement

# Numbers of Deequ's tests, in
# https://github.com/awslabs/deequ/tree/master/src/test/scala/com/amazon/deequ/KLL

SHARES = {"a": 10, "b": 20, "c": 25, "d": 10, "e": 5}
SAMPLE = {"a": 11, "b": 20, "c": 25, "d": 10, "e": 10}


def test_l_infinity_as_in_deequ():
    distance = l_infinity(*align_categories(SHARES, SAMPLE))
    assert distance == pytest.approx(0.06015037593984962, abs=1e-15)
    assert excess(distance, 70, 76) == 0.0
    assert excess(0.5, 70, 76) == pytest.approx(0.5 - 1.8 * math.sqrt(146 / (70 * 76)))


def test_psi_as_in_deequ():
    expected = [428, 425, 414, 427, 440, 447, 380, 386, 444, 386]
    actual = [426, 437, 429, 391, 469, 433, 360, 443, 371, 418]
    assert psi(expected, actual) == pytest.approx(0.007406694184014186, rel=1e-12)
    named = [dict(zip("abcdefghij", counts, strict=True)) for counts in (expected, actual)]
    assert category_distances(*named).psi == pytest.approx(0.007406694184014186, rel=1e-12)


@pytest.mark.parametrize(
    ("baseline", "bound"),
    [([3, 2, 2, 2, 2, 2, 2], 0.1), ([5, 2, 2, 2, 2, 2, 2], 0.25)],
    ids=["T19", "T21"],
)
def test_psi_of_small_shifts_stays_in_its_band(baseline, bound):
    """The value 1 is more frequent in the baseline, and the value 7 in the current data."""
    current = [2, 2, 2, 2, 2, 2, 3]
    shares = [(e / sum(baseline), a / 15) for e, a in zip(baseline, current, strict=True)]
    actual = psi(baseline, current)
    assert actual == pytest.approx(sum((a - e) * math.log(a / e) for e, a in shares))
    assert 0 < actual < bound


def test_the_share_of_rows_that_psi_pools():
    # With 100 rows on both sides, categories of fewer than 5 expected rows are rare.
    distances = category_distances({"a": 92, "b": 5, "c": 3}, {"a": 80, "d": 20})
    assert distances.psi_rest == 0.2
    many = {str(i): 1 for i in range(100)}
    assert category_distances(many, many).psi_rest == 1
    # With one pooled category on both sides, nothing is compared, however different they are.
    others = {f"other {i}": 1 for i in range(100)}
    assert math.isnan(category_distances(many, others).psi)
    assert category_distances(many, others).js == 1
    assert category_distances({"a": 9}, {"a": 9}).psi_rest == 0
    assert math.isnan(category_distances({}, {"a": 9}).psi_rest)


def test_chi_square_as_in_deequ():
    actual = chi_square({"a": 20, "b": 20}, {"a": 30})
    assert actual.p_value == pytest.approx(4.3204630539861455e-8, rel=1e-9)
    assert math.isnan(chi_square({"c": 20, "d": 20}, {"a": 15, "b": 20}).p_value)


def test_small_categories_are_pooled_before_the_test():
    # 9 < 10, in one of two categories
    assert chi_square({"a": 9, "b": 30}, {"a": 9, "b": 30}).categories == 1
    five = dict.fromkeys("abcd", 20) | {"e": 4}
    assert chi_square(five, five).categories == 5  # one of five may be small
    joined = chi_square({"a": 50, "b": 44, "c": 3, "d": 3}, {"a": 50, "b": 42, "c": 0, "d": 8})
    assert joined == (pytest.approx(4 / 44 + 4 / 6), pytest.approx(stats.chi2.sf(25 / 33, 2)), 3)
    many = {str(i): 1 for i in range(20_000)}
    assert chi_square(many, many).p_value == 1.0


def test_unseen_categories_count_in_the_test():
    # 90 of 100 rows are new. With 1 in 101 expected, Poisson's tail beyond 90 is below 1e-130.
    assert chi_square({"a": 50, "b": 50}, {"a": 5, "b": 5, "c": 90}).p_value < 1e-100
    # With one category before, only new ones can be tested: P(X >= 10) for a mean of 1.
    constant = chi_square({"a": 100}, {"a": 90, "b": 10})
    assert math.isnan(constant.statistic)
    assert constant.p_value == pytest.approx(stats.poisson.sf(9, 1))
    # One new row in 100 is normal, and so are 100 if every category before occurred once.
    assert chi_square({"a": 50, "b": 50}, {"a": 49, "b": 50, "c": 1}).p_value == 1.0
    tail = {"a": 900} | {f"id {i}": 1 for i in range(100)}
    assert unseen_p(tail, {"a": 900} | {f"new {i}": 1 for i in range(100)}) > 0.4
    # Twice the smaller p-value: the new rows are as expected, but b is missing.
    both = chi_square({"a": 50, "b": 50}, {"a": 99, "c": 1})
    assert both.p_value == pytest.approx(2 * stats.chi2.sf(99, 1))
    # Without new categories the result is Pearson's p-value.
    assert chi_square({"a": 20, "b": 20}, {"a": 30}).p_value == stats.chi2.sf(30, 1)


# Computed by hand


def test_distances_of_categories_computed_by_hand():
    distances = category_distances({"a": 60, "b": 40}, {"a": 30, "c": 10})
    assert (distances.unseen, distances.lost) == (0.25, 0.4)
    assert distances.l_infinity == pytest.approx(0.4)
    # a: .6 to .75; b: .4 to half a row of 40; the rest: half a row of 100 to .25
    pairs = [(0.6, 0.75), (0.4, 0.5 / 40), (0.005, 0.25)]
    assert distances.psi == pytest.approx(sum((a - e) * math.log(a / e) for e, a in pairs))
    js = [0.6 * math.log2(0.6 / 0.675) + 0.75 * math.log2(0.75 / 0.675), 0.4, 0.25]
    assert distances.js == pytest.approx(sum(js) / 2)
    assert math.isnan(distances.ks)
    assert math.isnan(distances.wasserstein)
    assert not distances.ks_significant


def test_many_rare_values_do_not_add_up_to_a_psi():
    before, after = ({f"{side}{i}": 1 for i in range(1000)} for side in "ab")
    distances = category_distances(before, after)
    assert math.isnan(distances.psi)
    assert (distances.psi_rest, distances.js, distances.unseen, distances.lost) == (
        1.0,
        1.0,
        1.0,
        1.0,
    )


def test_distances_of_numbers_computed_by_hand():
    distances = numeric_distances(
        Quantiles.from_values([0, 1, 2, 3]), Quantiles.from_values([1, 2, 3, 8])
    )
    assert (distances.ks, distances.wasserstein, distances.wasserstein_iqr) == (0.25, 2.0, 1.0)
    assert not distances.ks_significant
    assert math.isnan(distances.unseen)
    assert math.isnan(distances.chi_square_p)
    # quartiles 0, 1, 2; each value is a quarter
    assert distances.psi == pytest.approx(
        (0.125 - 0.25) * math.log(0.5) + (0.5 - 0.25) * math.log(2)
    )


def test_constants_are_compared_with_each_other():
    five, three, seven = (Quantiles.from_values([x] * 1000) for x in (5, 3, 7))
    assert numeric_distances(five, five).psi == 0.0
    for other in (three, seven):
        distances = numeric_distances(five, other)
        assert (distances.js, distances.ks, distances.wasserstein) == (1.0, 1.0, 2.0)
        assert distances.psi > 10
        assert distances.wasserstein_iqr == math.inf
    assert numeric_distances(five, five).wasserstein_iqr == 0.0


def test_a_value_that_fills_a_bin_gets_its_own_bin():
    before = Quantiles.from_values([*([0] * 600), *range(1, 401)])
    after = Quantiles.from_values([*([-1] * 600), *range(1, 401)])
    expected, actual = equal_mass(before, after, 10)
    assert expected.tolist() == [0, 600, 100, 100, 100, 100]
    assert actual.tolist() == [600, 0, 100, 100, 100, 100]


def test_bins_are_fewer_for_few_rows_and_for_coarse_sketches():
    many, few, tiny = (Quantiles.from_values(range(n)) for n in (100_000, 500, 7))
    assert number_of_bins(many, many) == 20
    assert number_of_bins(many, few) == 10
    assert number_of_bins(tiny, many) == 4
    assert number_of_bins(many, replace(many, error=0.00997)) == 10
    assert number_of_bins(many, replace(many, error=0.0014)) == 20


def test_empty_infinite_and_nan_values_have_no_distance():
    nothing, some = Quantiles.from_values([math.nan]), Quantiles.from_values([1, 2])
    for pair in ((nothing, some), (some, nothing), (nothing, nothing)):
        distances = numeric_distances(*pair)
        assert all(
            map(math.isnan, (distances.psi, distances.js, distances.ks, distances.wasserstein))
        )
        assert math.isnan(distances.wasserstein_iqr)
        assert not distances.ks_significant
    for pair in (({}, {"a": 1}), ({"a": 1}, {}), ({}, {})):
        distances = category_distances(*pair)
        numbers = (
            distances.psi,
            distances.js,
            distances.unseen,
            distances.lost,
            distances.l_infinity,
        )
        assert all(map(math.isnan, (*numbers, distances.chi_square_p)))
    ends = Quantiles.from_values([-math.inf, 0, 1, math.inf, math.inf, math.nan])
    assert ends.rows == 5
    assert numeric_distances(ends, ends).wasserstein == 0.0
    assert wasserstein(ends, Quantiles.from_values([0, 1])) == math.inf
    assert wasserstein(*(Quantiles.from_values([x]) for x in (-1.7e308, 1.7e308))) == math.inf
    assert nothing.at([0.5]).tolist() == pytest.approx([math.nan], nan_ok=True)


# Properties

samples = st.lists(st.integers(-50, 50) | st.floats(-1e3, 1e3), min_size=1, max_size=60)
counts = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 200), min_size=1)


def has_rows(mapping):
    return sum(mapping.values()) > 0


@given(counts.filter(has_rows), counts.filter(has_rows))
def test_properties_of_distances_of_categories(a, b):
    actual, back = category_distances(a, b), category_distances(b, a)
    assert actual.js == pytest.approx(back.js, abs=1e-12)
    assert 0 <= actual.js <= 1
    assert actual.l_infinity == back.l_infinity
    assert 0 <= actual.l_infinity <= 1
    assert (actual.unseen, actual.lost) == (back.lost, back.unseen)
    rows, fewer = sum(a.values()), min(sum(a.values()), sum(b.values()))
    frequent = [key for key, n in a.items() if 5 * rows <= n * fewer]
    rare = [1 - sum(side.get(key, 0) for key in frequent) / sum(side.values()) for side in (a, b)]
    if min(rare) <= 0.5 + 1e-12:  # on one side at least, most rows are in frequent categories
        assert 0 <= actual.psi < math.inf
    else:
        assert math.isnan(actual.psi)
    assert 0 <= actual.unseen <= 1
    renamed = [{key.upper() * 2: n for key, n in reversed(x.items())} for x in (a, b)]
    assert category_distances(*renamed).psi == pytest.approx(
        actual.psi, rel=1e-9, abs=1e-12, nan_ok=True
    )
    same = category_distances(a, {key: 3 * n for key, n in a.items()})
    assert (same.js, same.unseen, same.lost) == (pytest.approx(0, abs=1e-12), 0, 0)
    alike = category_distances(a, a)
    assert alike.psi == 0 or alike.psi_rest > 0.5


def test_psi_of_many_rare_categories_is_not_a_drift():
    """Seven hundred new tail numbers, next to one equally frequent number on both sides."""
    a, b = ({"none": 300, **{f"{side}{i}": 1 for i in range(700)}} for side in "ab")
    distances = category_distances(a, b)
    assert math.isnan(distances.psi)
    assert (distances.psi_rest, distances.unseen) == (0.7, 0.7)
    assert category_distances({"a": 500}, {"b": 500}).psi > 1


@given(samples, samples)
def test_properties_of_distances_of_numbers(a, b):
    one, other = Quantiles.from_values(a), Quantiles.from_values(b)
    actual, back = numeric_distances(one, other), numeric_distances(other, one)
    exact = max(abs(np.mean(np.array(a) <= x) - np.mean(np.array(b) <= x)) for x in a + b)
    assert actual.ks == back.ks == pytest.approx(exact, abs=1e-12)
    assert actual.wasserstein == pytest.approx(stats.wasserstein_distance(a, b), abs=1e-9)
    assert actual.wasserstein == pytest.approx(back.wasserstein, abs=1e-9)
    assert 0 <= actual.js <= 1
    assert 0 <= actual.psi < math.inf
    same = numeric_distances(one, Quantiles.from_values(a * 3))
    assert (same.js, same.ks, same.wasserstein) == (pytest.approx(0, abs=1e-12), 0, 0)
    assert same.psi == pytest.approx(0, abs=1e-12)


whole = st.lists(st.integers(-50, 50), min_size=1, max_size=60)


@given(whole, whole)
def test_increasing_functions_change_neither_bins_nor_ks(a, b):
    plain = numeric_distances(Quantiles.from_values(a), Quantiles.from_values(b))
    cubed = numeric_distances(
        *(Quantiles.from_values([float(x) ** 3 + 7 for x in side]) for side in (a, b))
    )
    assert (plain.psi, plain.js, plain.ks) == (cubed.psi, cubed.js, cubed.ks)
    moved = numeric_distances(
        *(Quantiles.from_values([2 * x + 7 for x in side]) for side in (a, b))
    )
    assert moved.wasserstein == pytest.approx(2 * plain.wasserstein)


@given(st.lists(samples, min_size=1, max_size=4))
def test_merged_states_give_the_distance_of_all_rows(parts):
    whole = Quantiles.from_values([x for part in parts for x in part])
    merged = Quantiles.merge([Quantiles.from_values(part) for part in parts])
    assert merged.values.tolist() == whole.values.tolist()
    assert merged.cumulative.tolist() == whole.cumulative.tolist()
    ranks = np.arange(9) / 8
    every = [x for part in parts for x in part]
    assert merged.at(ranks).tolist() == np.quantile(every, ranks, method="inverted_cdf").tolist()


# Sketches


def kll(values, k=269):
    sketch = kll_doubles_sketch(k)
    sketch.update(np.asarray(values, dtype=float))
    return KllState.from_sketches([sketch.serialize()])


def req(values, k=12):
    sketch = req_items_sketch(k)
    for value in values:
        sketch.update(float(value))
    return ReqState(sketch.serialize(PyDoublesSerDe()))


@pytest.mark.parametrize("sketched", [kll, req])
def test_sketches_are_within_their_error_bound(sketched):
    draw = np.random.default_rng(7)
    a, b = draw.normal(0, 1, 30_000), draw.normal(0.2, 1.1, 20_000)
    one, other = (quantiles_of(sketched(x)) for x in (a, b))
    exact = numeric_distances(Quantiles.from_values(a), Quantiles.from_values(b))
    distances = numeric_distances(one, other)
    error = one.error + other.error
    assert 0 < error < 0.05
    assert (one.rows, other.rows) == (30_000, 20_000)
    assert abs(distances.ks - exact.ks) <= error
    assert abs(distances.wasserstein - exact.wasserstein) <= error * (max(*a, *b) - min(*a, *b))
    assert distances.psi == pytest.approx(exact.psi, abs=0.03)
    assert quantiles_of(sketched(a[:20])).error == 0.0
    assert quantiles_of(sketched([])).rows == 0


def test_sketches_of_different_sizes_and_kinds_can_be_merged():
    draw = np.random.default_rng(8)
    parts = [draw.normal(size=5000) for _ in range(3)]
    states = [kll(parts[0], 200), kll(parts[1], 500), req(parts[2])]
    merged = Quantiles.merge([quantiles_of(state) for state in states])
    assert merged.rows == 15_000
    assert ks(merged, Quantiles.from_values(np.concatenate(parts))) <= merged.error


def test_frequencies_are_compared_as_numbers_or_categories():
    numbers = FrequenciesAndNumRows.from_groups([((2,), 3), ((1,), 1), ((None,), 4)])
    assert quantiles_of(numbers).values.tolist() == [1, 2]
    assert categories_of(numbers) == {"2": 3, "1": 1}
    assert quantiles_of(FrequenciesAndNumRows()).rows == 0
    texts = FrequenciesAndNumRows.from_groups([(("x",), 3)])
    with pytest.raises(tg.StateMismatchError, match="does not contain quantiles"):
        quantiles_of(texts)
    with pytest.raises(tg.StateMismatchError, match="does not contain the counts of values"):
        categories_of(kll([1]))


def test_top_values_are_compared_as_categories_if_none_was_dropped():
    sketch = frequent_strings_sketch(5)
    for text in "aab":
        sketch.update(text)
    assert categories_of(FrequentItemsState(sketch.serialize())) == {"a": 2, "b": 1}
    for i in range(1000):
        sketch.update(str(i))
    with pytest.raises(tg.StateMismatchError, match="raise its parameter tracked"):
        categories_of(FrequentItemsState(sketch.serialize()))


# From a repository

MEDIAN = tg.ApproxQuantile("x", 0.5)
MANY = 100_000


def numbers_day(number, values, analyzer=MEDIAN, k=269, **options):
    state = kll(values, k) if isinstance(analyzer, tg.ApproxQuantile) else values
    return day(number, only=[analyzer], extra=[measurement(analyzer, state)], **options)


@pytest.fixture
def normal(repo):
    """Four days of 1000 numbers; the last day is shifted by one."""
    draw = np.random.default_rng(1)
    values = [draw.normal(0, 1, 200), draw.normal(0, 1, 200), draw.normal(0, 1, 200)]
    values.append(draw.normal(1, 1, 200))
    commit(repo, *(numbers_day(n, v) for n, v in enumerate(values, 1)))
    return repo, values


def test_the_drift_between_two_partitions(normal):
    repo, values = normal
    drifted = repo.drift("d", "x", "ds=2013-01-01", "ds=2013-01-04")
    exact = numeric_distances(Quantiles.from_values(values[0]), Quantiles.from_values(values[3]))
    assert (drifted.psi, drifted.js, drifted.ks, drifted.ks_significant) == (
        exact.psi, exact.js, exact.ks, exact.ks_significant,
    )  # fmt: skip
    assert drifted.wasserstein == pytest.approx(exact.wasserstein)
    assert (drifted.dataset, drifted.column, drifted.kind) == ("d", "x", "numeric")
    assert (drifted.baseline, drifted.current) == ("ds=2013-01-01", "ds=2013-01-04")
    assert (drifted.baseline_rows, drifted.current_rows) == (200, 200)
    frame = drifted.frame()
    assert list(frame.columns) == ["side", "rank", "value"]
    assert frame.groupby("side")["value"].median()["baseline"] == np.quantile(
        values[0], 0.5, method="inverted_cdf"
    )
    with pytest.raises(AttributeError):
        drifted.psi = 0.0
    assert "Drift.psi" not in set(repo.metrics("d")["name"])


def test_windows_are_merged(normal):
    repo, values = normal
    drifted = repo.drift("d", "x", ("2013-01-01", dt.date(2013, 1, 3)), ("2013-01-04", None))
    exact = numeric_distances(
        Quantiles.from_values(np.concatenate(values[:3])), Quantiles.from_values(values[3])
    )
    assert (drifted.psi, drifted.ks, drifted.baseline_rows) == (exact.psi, exact.ks, 600)
    assert drifted.baseline == "2013-01-01 to 2013-01-03"
    same = repo.drift("d", "x", (None, None), (None, None))
    assert (same.psi, same.js, same.ks, same.wasserstein) == (0, 0, 0, 0)


def test_any_analyzer_that_stored_the_values_can_be_used(repo):
    groups = [((0,), 600), ((3,), 400)], [((0,), 500), ((4,), 500)]
    state = [FrequenciesAndNumRows.from_groups(g, 7) for g in groups]
    commit(repo, *(numbers_day(n, v, tg.Uniqueness("x")) for n, v in enumerate(state, 1)))
    drifted = repo.drift("d", "x", "ds=2013-01-01", "ds=2013-01-02")
    assert (drifted.kind, drifted.ks, drifted.wasserstein) == ("numeric", 0.5, pytest.approx(0.8))
    assert drifted.baseline_rows == 1000
    named = repo.drift("d", "x", "ds=2013-01-01", "ds=2013-01-02", kind="categorical")
    assert (named.unseen, named.lost, named.kind) == (0.5, 0.4, "categorical")
    with pytest.raises(tg.UnknownNameError, match="categorical"):
        repo.drift("d", "x", "ds=2013-01-01", "ds=2013-01-02", kind="category")


def test_the_drift_of_stored_categories(repo):
    commit(repo, day(1, groups={("a",): 60, ("b",): 40}), day(2, groups={("a",): 30, ("c",): 10}))
    drifted = repo.drift("d", "s", "ds=2013-01-01", "ds=2013-01-02")
    assert (drifted.kind, drifted.unseen, drifted.lost) == ("categorical", 0.25, 0.4)
    assert drifted.axis == ("a", "b", "c")
    assert drifted.baseline_values == (0.6, 0.4, 0.0)
    assert drifted.current_values == (0.75, 0.0, 0.25)
    assert list(drifted.frame().columns) == ["side", "category", "share"]
    assert len(drifted.frame()) == 6


def test_a_partition_without_values_has_no_distance(repo):
    commit(repo, day(1, groups={("a",): 60}), day(2, rows=0, groups={}))
    drifted = repo.drift("d", "s", "ds=2013-01-01", "ds=2013-01-02")
    assert (drifted.current_rows, drifted.axis) == (0, ("a",))
    assert math.isnan(drifted.psi)
    assert math.isnan(drifted.lost)
    both = repo.drift("d", "s", "ds=2013-01-02", "ds=2013-01-02")
    assert both.frame().empty


def test_states_of_different_sizes_are_compared(repo):
    """The error of the sketch was changed in the suite, and the history has both."""
    finer = tg.ApproxQuantile("x", 0.9, relative_error=0.005)
    draw = np.random.default_rng(2)
    first = numbers_day(1, draw.normal(size=3000))
    second = day(2, only=[finer], extra=[measurement(finer, kll(draw.normal(size=3000), 549))])
    commit(repo, first, second)
    assert repo.drift("d", "x", "ds=2013-01-01", "ds=2013-01-02").ks < 0.1
    assert repo.drift("d", "x", (None, None), "ds=2013-01-02").baseline_rows == 6000


def test_filters_are_compared_separately(repo):
    filtered = tg.ApproxQuantile("x", 0.5, where="y > 1")
    for n in (1, 2):
        extra = [measurement(filtered, kll([n])), measurement(MEDIAN, kll([5]))]
        commit(repo, day(n, only=[filtered, MEDIAN], extra=extra))
    days = ("ds=2013-01-01", "ds=2013-01-02")
    assert repo.drift("d", "x", *days).wasserstein == 0
    assert repo.drift("d", "x", *days, where=" y > 1 ").wasserstein == 1
    repo.drift("d", "x", *days, where="y > 1", record=True)
    repo.drift("d", "x", *days, record=True)
    metrics = repo.metrics("d", name="Drift.wasserstein")
    assert sorted(metrics["value"]) == [0, 1]
    assert repo.metrics("d", name="Drift.wasserstein", where="y > 1")["value"].tolist() == [1]
    text = metrics["analyzer"][metrics["value"] == 1].item()
    assert repo.metrics("d", analyzer=text)["value"].tolist() == [1]


def test_segments_are_compared_separately(repo):
    for n in (1, 2, 3):
        part = replace(measurement(MEDIAN, kll([n] * 10)), segment="origin=EWR")
        commit(repo, day(n, only=[MEDIAN], extra=[part, measurement(MEDIAN, kll([7] * 10))]))
    days = ("ds=2013-01-01", "ds=2013-01-02")
    assert repo.drift("d", "x", *days).wasserstein == 0
    drifted = repo.drift("d", "x", *days, segment="origin=EWR", record=True)
    assert (drifted.wasserstein, drifted.segment) == (1, "origin=EWR")
    recorded = repo.metrics("d", name="Drift.wasserstein")
    assert recorded[["segment", "value"]].to_numpy().tolist() == [["origin=EWR", 1.0]]
    every = repo.drifts("d", "x", at_least=1, segment="origin=EWR")
    assert every["wasserstein"].tolist() == [1.0, 1.5]
    with pytest.raises(tg.HistoryError, match="not stored for 1 of 1"):
        repo.drift("d", "x", *days, segment="origin=JFK")


def test_partitions_of_several_keys_are_compared_within_their_segment(repo):
    def part(n, country, value):
        measured = numbers_day(n, [value])
        date = measured.partition.values[0]
        return replace(
            measured,
            partition=Partition(("ds", "country"), (date, country)),
            segment=f"country={country}",
            measurements=tuple(
                replace(m, segment=f"country={country}") for m in measured.measurements
            ),
        )

    run = repo.store.open_run(RunSpec("d", None, ("ds", "country")))
    repo.store.commit_batch(
        run, [part(n, c, n * v) for n in (1, 2) for c, v in (("A", 1), ("B", 5))]
    )
    drifts = repo.drifts("d", "x", at_least=1, record=True)
    assert drifts["segment"].tolist() == ["country=A", "country=B"]
    assert drifts["wasserstein"].tolist() == [1.0, 5.0]
    assert repo.metrics("d", name="Drift.ks", segment="country=B")["value"].tolist() == [1.0]


def test_the_past_can_be_compared_as_of_then(repo):
    first = commit(repo, day(1, groups={("a",): 10}), day(2, groups={("b",): 10}))
    commit(repo, day(2, "b", groups={("a",): 10}))
    days = ("ds=2013-01-01", "ds=2013-01-02")
    assert repo.drift("d", "s", *days).js == 0
    assert repo.drift("d", "s", *days, as_of=first, record=True).js == 1
    assert "Drift.js" not in set(repo.metrics("d")["name"])


def test_errors_say_what_to_do(repo):
    commit(repo, day(1), day(2))
    days = ("ds=2013-01-01", "ds=2013-01-02")
    with pytest.raises(tg.UnknownDatasetError):
        repo.drift("e", "s", *days)
    with pytest.raises(tg.HistoryError, match="did you mean 'ds=2013-01-01'"):
        repo.drift("d", "s", "ds=2013-01-1", days[1])
    with pytest.raises(
        tg.HistoryError, match=r"add ApproxQuantile\('x', 0.5\) or Histogram\('x'\) to the suite"
    ):
        repo.drift("d", "x", *days)
    with pytest.raises(tg.HistoryError, match="of 'ss'; did you mean 's'") as raised:
        repo.drift("d", "ss", *days)
    assert "add " not in str(raised.value)
    repo.record("d", "Mean", 1.0, partition=days[0], instance="ss")
    with pytest.raises(tg.HistoryError, match=r"add ApproxQuantile\('ss', 0.5\)"):
        repo.drift("d", "ss", *days)  # it is measured, so it is not a misspelled 's'
    with pytest.raises(tg.HistoryError, match=r"add Histogram\('s', where='y'\) to the suite"):
        repo.drifts("d", "s", where="y", kind="categorical")
    with pytest.raises(tg.HistoryError, match="no partition in 2014-01-01 to ..."):
        repo.drift("d", "s", ("2014-01-01", None), days[1])
    with pytest.raises(tg.HistoryError, match="is not a time"):
        repo.drift("d", "s", ("ds=2013-01-01", None), days[1])
    with pytest.raises(tg.HistoryError, match="neither a partition's name nor a pair"):
        repo.drift("d", "s", 3, days[1])
    with pytest.raises(tg.HistoryError, match="can be recorded"):
        repo.drift("d", "s", days[0], (None, None), record=True)
    commit(repo, day(3, only=[tg.Size()]))
    with pytest.raises(tg.HistoryError, match="not stored for 1 of 3 partitions.*2013-01-03"):
        repo.drift("d", "s", days[0], (None, None))
    for wrong in ("month", "long", 0):
        with pytest.raises(tg.HistoryError, match="baseline=|invalid window"):
            repo.drifts("d", "s", baseline=wrong)


def test_each_partition_is_compared_with_earlier_ones(normal):
    repo, values = normal
    drifts = repo.drifts("d", "x", at_least=2)
    assert drifts["partition"].tolist() == ["ds=2013-01-03", "ds=2013-01-04"]
    exact = numeric_distances(
        Quantiles.from_values(np.concatenate(values[:3])), Quantiles.from_values(values[3])
    )
    assert drifts["psi"].iloc[1] == exact.psi
    assert drifts["baseline_rows"].tolist() == [400, 600]
    assert drifts["rows"].tolist() == [200, 200]
    two = repo.drifts("d", "x", baseline=2, at_least=2, record=False)
    assert two["baseline_rows"].tolist() == [400, 400]
    assert repo.drifts("d", "x", baseline="2d", at_least=2, record=False).equals(two)
    late = repo.drifts("d", "x", baseline="2d", at_least=2, since="2013-01-04", record=False)
    assert late["psi"].tolist() == two["psi"].tolist()[1:]
    assert repo.drifts("d", "x").empty  # seven are required
    assert repo.drifts("d", "x")["psi"].dtype == "float64"


def test_only_new_drifts_are_recorded(normal):
    repo, _ = normal
    repo.drifts("d", "x", at_least=2)
    assert "Drift.psi" not in set(repo.series("d")["name"]), "nothing is written unless requested"
    repo.drifts("d", "x", at_least=2, record=True)
    first = repo.metrics(
        "d", instance="x", name=[f"Drift.{n}" for n in ("psi", "js", "ks", "wasserstein")]
    )
    assert len(first) == 8
    assert set(first["entity"]) == {"Column"}
    repo.drifts("d", "x", at_least=2, record=True)
    again = repo.metrics("d", instance="x", name=list(set(first["name"])))
    assert again.equals(first)
    commit(repo, numbers_day(5, np.random.default_rng(3).normal(size=200)))
    repo.drifts("d", "x", at_least=2, record=True)
    assert set(repo.metrics("d", name="Drift.psi")["version"]) == {1}
    assert len(repo.metrics("d", name="Drift.psi")) == 3
    commit(repo, numbers_day(4, np.random.default_rng(4).normal(size=200), fingerprint="b"))
    repo.drifts("d", "x", at_least=2, record=True)
    assert repo.metrics("d", name="Drift.psi")["version"].tolist() == [1, 2, 2]


def test_a_partition_is_compared_with_the_same_weekday(repo):
    """Weekends have other categories than weekdays; 1 January 2013 is a Tuesday."""
    groups = (
        [{("a",): 50, ("b",): 50}] * 4 + [{("a",): 5, ("b",): 95}] * 2 + [{("a",): 50, ("b",): 50}]
    )
    commit(repo, *(day(n, groups=groups[(n - 1) % 7]) for n in range(1, 71)))
    usual = repo.drifts("d", "s").set_index("partition")["psi"]
    weekly = repo.drifts("d", "s", same_weekday=True).set_index("partition")["psi"]
    saturday = "ds=2013-03-09"
    assert usual[saturday] > 0.25
    assert weekly.tolist() == [0.0] * 21, (
        "the first seven weeks have fewer than seven same weekdays"
    )
    assert weekly.index[0] == "ds=2013-02-19"
    assert weekly.index.tolist() == sorted(weekly.index)
    shorter = repo.drifts("d", "s", same_weekday=True, at_least=1, baseline="14d")
    assert len(shorter) == 63
    assert not repo.series("d")["name"].str.startswith("Drift").any()


def test_new_and_lost_categories_are_recorded(repo):
    commit(repo, *(day(n, groups={("a",): 50, ("b",): 50}) for n in range(1, 9)))
    commit(repo, day(9, groups={("a",): 50, ("c",): 50}))
    repo.drifts("d", "s", record=True)
    frame = repo.metrics("d", instance="s")
    recorded = frame[frame["name"].str.startswith("Drift.")].set_index(["name", "partition"])[
        "value"
    ]
    assert set(recorded.index.levels[0]) == {"Drift.psi", "Drift.js", "Drift.unseen", "Drift.lost"}
    assert recorded["Drift.unseen"].tolist() == [0, 0.5]
    assert recorded["Drift.lost"]["ds=2013-01-09"] == 0.5


def test_a_partition_without_a_state_or_values_is_not_in_the_baseline(repo):
    days = [day(n, groups={("a",): 5}) for n in range(1, 10)]
    days[3] = day(4, only=[tg.Size()])
    days[4] = day(5, rows=0, groups={})
    commit(repo, *days)
    drifts = repo.drifts("d", "s")
    assert drifts["partition"].tolist() == []
    drifts = repo.drifts("d", "s", at_least=3, record=True)
    assert drifts["partition"].tolist() == [f"ds=2013-01-0{n}" for n in (5, 6, 7, 8, 9)]
    assert drifts["psi"].isna().tolist() == [True, False, False, False, False]
    assert repo.metrics("d", name="Drift.psi")["status"].tolist() == ["NaN"] + ["finite"] * 4


# PSI compared with its own past, and with the usual fixed limits


def drifting_days(bad, n=MANY, days=60, wobble=0.03, k=269):
    """Yield days of numbers, the last one bad. With k at least n, sketches keep all values.

    Smaller sketches choose values at random, without a seed.
    """
    draw = np.random.default_rng(5)
    for number in range(1, days + 1):
        values = draw.normal(draw.normal(0, wobble), 1, n)
        yield numbers_day(number, bad(values) if number == days else values, k=k)


BAD = {
    "mean": lambda x: x + 0.3,
    "scale": lambda x: x * 1.2,
    "tenfold": lambda x: np.where(np.arange(x.size) % 10 == 0, x * 10, x),
}


@pytest.mark.soak
@pytest.mark.parametrize("bad", BAD)
def test_psi_against_its_own_past_detects_what_fixed_limits_miss(repo, bad):
    commit(repo, *drifting_days(BAD[bad]))
    drifts = repo.drifts("d", "x")
    assert len(drifts) == 60 - 7
    assert drifts["psi"].iloc[-1] < 0.2  # the usual limit of "changed"
    for name in ("psi", "js"):
        root = np.sqrt(drifts[name].to_numpy())
        past = root[:-1]
        spread = 1.4826 * np.median(np.abs(past - np.median(past)))
        z = (root - np.median(past)) / max(spread, 0.01)
        assert z[-1] > 5, name
        assert (z[:-1] > 5).sum() <= 1, name  # the sketches are random


def test_the_seasonal_detector_flags_the_drift(repo):
    commit(repo, *drifting_days(BAD["mean"], n=5_000, k=5_000))
    repo.drifts("d", "x", record=True)
    anomalies = repo.detect("d", [tg.Monitor({"name": "Drift.psi", "instance": "x"}, "Seasonal")])
    assert "ds=2013-03-01" in set(anomalies["partition"])
    assert len(anomalies) <= 2


def test_normal_days_are_significant_without_the_allowance_for_sketches():
    draw = np.random.default_rng(6)
    a, b = draw.normal(0, 1, MANY), draw.normal(0.025, 1, MANY)
    assert numeric_distances(Quantiles.from_values(a), Quantiles.from_values(b)).ks_significant
    sketches = [quantiles_of(kll(x)) for x in (a, b)]
    assert not numeric_distances(*sketches).ks_significant


def test_the_drift_detector_records_and_monitors_drifts(repo):
    commit(repo, *drifting_days(BAD["mean"], n=2_000, k=2_000))
    anomalies = repo.detect("d", [tg.Monitor(detector=tg.Drift("x"))])
    assert anomalies["partition"].tolist()[-1:] == ["ds=2013-03-01"]
    assert set(anomalies["name"]) == {"Drift.psi"}
    assert len(repo.metrics("d", name="Drift.psi")) == 60 - 7
    with pytest.warns(tg.RepositoryWarning, match="nope"):
        assert repo.detect("d", [tg.Monitor(detector=tg.Drift("nope"))]).equals(anomalies)
