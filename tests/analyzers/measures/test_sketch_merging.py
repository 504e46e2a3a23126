"""Merges of sketches depend on nothing but the sketches, and keep the errors within their bounds."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.analyzers.measures.test_sketch_layouts import hll, items, kll, req, tuples
from tidegauge.analyzers.core.state import read_state
from tidegauge.analyzers.measures.quantiles import KllState, ReqState, SketchPairs, rank_error
from tidegauge.analyzers.measures.sketch_merging import build_kll

MANY_SIZES = (1, 3, 4, 5, 40, 400, 3000, 9000)


def kll_of(values, k=269):
    from datasketches import kll_doubles_sketch

    sketch = kll_doubles_sketch(k)
    sketch.update(np.array(values, float))
    return KllState(sketch.serialize())


def req_of(values, k=12, high=True):  # noqa: FBT002
    from datasketches import PyDoublesSerDe, req_items_sketch

    sketch = req_items_sketch(k, high)
    for value in values:
        sketch.update(float(value))
    return ReqState(sketch.serialize(PyDoublesSerDe()))


def all_kinds():
    pairs = [
        SketchPairs(equal=kll(64, n)[0], logged=kll(64, n + 1)[0], delta=kll(64, 3)[0])
        for n in (50, 3000)
    ]
    return {
        "kll": [state for n in MANY_SIZES for state in kll(64, n)],
        "req high": [req(12, n)[0] for n in MANY_SIZES],
        "req low": [req(12, n)[1] for n in MANY_SIZES],
        "hll": [state for n in MANY_SIZES for state in hll(10, n)],
        "frequent": [items(5, n)[0] for n in MANY_SIZES],
        "tuples": [tuples(6, n)[0] for n in MANY_SIZES],
        "pairs": pairs,
    }


@pytest.mark.parametrize("kind", all_kinds())
def test_fifty_merges_in_any_order_give_equal_bytes(kind):
    states = all_kinds()[kind]
    merge = type(states[0]).merge
    expected = merge(states).pack()
    chance = np.random.default_rng(1)
    for _ in range(50):
        shuffled = [states[i] for i in chance.permutation(len(states))]
        assert merge(shuffled).pack() == expected
    assert read_state(states[0].tag, expected).pack() == expected


def test_other_processes_merge_to_equal_bytes():
    states = [kll_of(range(start, start + 900), 32) for start in (0, 500, 700)]
    tails = [req_of(range(start, start + 900), 4) for start in (0, 500, 700)]
    program = (
        "import sys, hashlib; from tidegauge.analyzers.measures.quantiles import KllState, ReqState;"
        "kinds = [KllState] * 3 + [ReqState] * 3;"
        "states = [kind(bytes.fromhex(text)) for kind, text in zip(kinds, sys.argv[1:])];"
        "print((KllState.merge(states[:3]).sketch + ReqState.merge(states[3:]).sketch).hex())"
    )
    arguments = [state.sketch.hex() for state in (*states, *tails)]
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program, *arguments],
            capture_output=True,
            check=True,
            text=True,
        ).stdout.strip()
        for _ in range(2)
    }
    assert outputs == {(KllState.merge(states).sketch + ReqState.merge(tails).sketch).hex()}


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.integers(-50, 50), min_size=1, max_size=400), min_size=1, max_size=9))
def test_merged_quantiles_are_within_the_bound_of_all_values(parts):
    values = np.sort(np.concatenate([np.array(part, float) for part in parts]))
    for merged in (
        KllState.merge(kll_of(part, 32) for part in parts),
        ReqState.merge(req_of(part) for part in parts),
    ):
        assert merged.count == len(values)
        assert (merged.quantiles([0.0, 1.0])) == [values[0], values[-1]]
        weights = sum(weight for _, weight in merged.retained_values())
        assert weights == len(values)
        error = 2 * merged.rank_error() * len(values)
        for rank, value in zip((0.25, 0.5, 0.9), merged.quantiles((0.25, 0.5, 0.9)), strict=True):
            below = np.searchsorted(values, value, "left")
            upto = np.searchsorted(values, value, "right")
            assert below - error <= rank * len(values) <= upto + error


@pytest.mark.parametrize("parts", [2, 30, 365])
def test_merging_more_sketches_loses_no_accuracy(parts):
    values = np.random.default_rng(parts).permutation(40_000).astype(float)
    pieces = np.array_split(values, parts)
    at_once = KllState.merge(kll_of(piece) for piece in pieces)
    one_by_one = KllState()
    for piece in pieces:
        one_by_one += kll_of(piece)
    for merged in (at_once, one_by_one):
        ranks = np.linspace(0.05, 0.95, 19)
        errors = np.array(merged.quantiles(ranks.tolist())) / 40_000 - ranks
        assert np.abs(errors).max() < rank_error(269)


@pytest.mark.parametrize("high", [True, False])
def test_merged_tails_stay_accurate(high):
    values = np.random.default_rng(3).permutation(40_000).astype(float)
    merged = ReqState.merge(req_of(piece, high=high) for piece in np.array_split(values, 50))
    for tail in (0.1, 0.01, 0.001):
        rank = 1 - tail if high else tail
        # Three standard errors of a REQ sketch of k = 12: 0.13 / 12 of the distance from the end.
        assert abs(merged.quantile(rank) / 40_000 - rank) < 3 * 0.13 / 12 * tail + 1 / 40_000


def test_zero_and_minus_zero_do_not_depend_on_the_order():
    states = [kll_of([0.0, 1.0]), kll_of([-0.0, 2.0])]
    assert KllState.merge(states).sketch == KllState.merge(reversed(states)).sketch


def test_a_sketch_made_smaller_is_always_the_same():
    state = kll_of(np.random.default_rng(2).normal(size=5000))
    smaller = state.coarser(4.0)
    assert {state.coarser(4.0).sketch for _ in range(20)} == {smaller.sketch}
    assert smaller.count == 5000
    assert len(smaller.sketch) < len(state.sketch) / 2
    assert kll_of([7.0]).coarser(4.0).quantiles([0.5]) == [7.0]


@pytest.mark.parametrize("size", [1, 2, 268, 269, 270, 1000, 100_001])
def test_a_built_sketch_depends_on_the_values_alone_and_keeps_the_bound(size):
    values = np.random.default_rng(53).normal(size=size)
    sketch = KllState(build_kll(values, 269))
    assert sketch == KllState(build_kll(values[::-1].copy(), 269))
    assert (sketch.count, sketch.k) == (size, 269)
    ordered = np.sort(values)
    if size < 269:
        assert sorted(sketch.retained_values()) == [(value, 1) for value in ordered.tolist()]
    assert len(list(sketch.retained_values())) < 900  # as few as the library keeps
    assert sketch.quantiles([0.0, 1.0]) == [ordered[0], ordered[-1]]
    points = np.linspace(ordered[0], ordered[-1], 50)
    exact = np.searchsorted(ordered, points) / size
    assert abs(np.array(sketch.ranks_below(points.tolist())) - exact).max() <= rank_error(269)
    assert read_state(sketch.tag, sketch.pack()) == sketch
    union = KllState.merge([sketch, kll_of(range(5000))])
    assert union.count == size + 5000
