"""The laws of states, for every registered state."""

import json
import math
from dataclasses import fields, replace
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.analyzers.core.state_strategies import STATES, hll, kll
from tests.paths import DATA
from tidegauge.analyzers.core.errors import (
    CorruptStateError,
    StateMismatchError,
    UnknownStateTagError,
)
from tidegauge.analyzers.core.state import READERS, State, read_state, register_state
from tidegauge.analyzers.measures.cardinality import TupleState
from tidegauge.analyzers.measures.counts import NumMatches, NumMatchesAndCount
from tidegauge.analyzers.measures.custom import CustomSqlState
from tidegauge.analyzers.measures.frequencies import FrequenciesAndNumRows
from tidegauge.analyzers.measures.histogram import GroupSums
from tidegauge.analyzers.measures.moments import (
    CorrelationState,
    HigherMomentsState,
    StandardDeviationState,
    SumAndCount,
    TwoSums,
)
from tidegauge.analyzers.measures.quantiles import KllState, ReqState, SketchPairs
from tidegauge.analyzers.measures.top_values import FrequentItemsState
from tidegauge.griffin.measures.base import Parts
from tidegauge.rules.record_counts import RecordCounts

every_state = pytest.mark.parametrize("cls", STATES, ids=lambda c: c.__name__)
KEPT = json.loads((DATA / "states.json").read_text())


def test_every_registered_state_is_tested():
    now = {cls.tag for cls in STATES}
    earlier = set(READERS) - now
    assert earlier == {"min/1", "max/1", "sum-and-count/1", "hll/1", "tuple/1"}


def assert_agree(a, b, *parts):
    """Assert that states are equal, sketches within their bounds, sums within rounding errors."""
    if isinstance(a, StandardDeviationState | HigherMomentsState | CorrelationState):
        # Terms of a moment cancel. Their scale before is the powers of the means.
        x = max(
            (abs(getattr(p, "mean", 0)) + abs(getattr(p, "x_mean", 0)) for p in parts), default=0
        )
        x += max((abs(getattr(p, "y_mean", 0)) for p in parts), default=0)
        x += math.sqrt(
            sum(getattr(p, "m2", 0) + getattr(p, "xx", 0) + getattr(p, "yy", 0) for p in parts)
        )
        n = sum(p.count for p in parts) + 1
        powers = {"count": 0, "mean": 1, "x_mean": 1, "y_mean": 1, "m3": 3, "m4": 4}
        return all(
            abs(getattr(a, f.name) - getattr(b, f.name)) <= 1e-9 * n * x ** powers.get(f.name, 2)
            for f in fields(a)
        )
    if isinstance(a, TwoSums):
        return all(
            assert_agree(
                getattr(a, f.name), getattr(b, f.name), *(getattr(p, f.name) for p in parts)
            )
            for f in fields(a)
        )
    if isinstance(a, SumAndCount | CustomSqlState):
        value = "total" if isinstance(a, SumAndCount) else "number"
        ours, theirs = getattr(a, value), getattr(b, value)
        if not isinstance(ours, float) or not isinstance(theirs, float):
            return a == b
        scale = sum(abs(float(getattr(p, value) or 0)) for p in parts)
        return a.count == b.count and abs(ours - theirs) <= 1e-9 * scale + 1e-300
    return a.agrees_with(b) and b.agrees_with(a)


@every_state
@given(data=st.data())
def test_addition_is_commutative(cls, data):
    a, b = data.draw(STATES[cls]), data.draw(STATES[cls])
    assert assert_agree(a + b, b + a, a, b)


@every_state
@given(data=st.data())
def test_addition_is_associative(cls, data):
    a, b, c = (data.draw(STATES[cls]) for _ in range(3))
    assert assert_agree((a + b) + c, a + (b + c), a, b, c)


@every_state
@given(data=st.data())
def test_a_state_agrees_with_itself(cls, data):
    state = data.draw(STATES[cls])
    assert state.agrees_with(state)


def test_undefined_numbers_agree():
    """Otherwise a partition whose files were touched would always count as restated."""
    state = CustomSqlState(math.nan, 3, 1)
    assert state.agrees_with(CustomSqlState(math.nan, 3, 1))
    assert not state.agrees_with(CustomSqlState(1.0, 3, 1))


@pytest.mark.parametrize("distinct", [1, 30, 1000, 20_000])
def test_distinct_counts_agree_by_their_values_and_not_by_their_estimate(distinct):
    """The estimate of a sketch depends on the order of the values."""
    values = [f"user {n}" for n in range(distinct)]
    state, reversed_, others = hll(values), hll(values[::-1]), hll([f"new {v}" for v in values])
    assert state.agrees_with(reversed_)
    assert state.agrees_with(hll(values[: distinct // 2]) + hll(values[distinct // 2 :]))
    assert not state.agrees_with(others)
    assert not state.agrees_with(hll(values[:-1]))


@every_state
@given(data=st.data())
def test_the_default_state_is_the_identity(cls, data):
    a = data.draw(STATES[cls])
    assert assert_agree(cls() + a, a, a)
    assert assert_agree(a + cls(), a, a)


@every_state
@given(data=st.data())
def test_a_merge_is_a_sum(cls, data):
    states = data.draw(st.lists(STATES[cls], max_size=4))
    total = cls()
    for state in states:
        total = total + state
    assert assert_agree(cls.merge(states), total, *states)


@every_state
@given(data=st.data())
def test_merging_does_not_change_its_arguments(cls, data):
    a, b = data.draw(STATES[cls]), data.draw(STATES[cls])
    before = a.pack(), b.pack()
    cls.merge([a, b])
    assert (a.pack(), b.pack()) == before


@every_state
@given(data=st.data())
def test_packing_round_trips(cls, data):
    a = data.draw(STATES[cls])
    again = read_state(cls.tag, a.pack())
    assert type(again) is cls
    assert assert_agree(again, a, a)
    assert again.pack() == a.pack()


@every_state
def test_the_identity_is_hashable_and_can_be_packed(cls):
    assert hash(cls()) == hash(cls())
    assert assert_agree(read_state(cls.tag, cls().pack()), cls())


def vars_of(state):
    return {f.name: getattr(state, f.name) for f in fields(state)}


def plain(value):
    if isinstance(value, tuple):
        return list(value)
    return str(value) if isinstance(value, Decimal) else value


@pytest.mark.parametrize("kept", KEPT, ids=lambda k: k["tag"])
def test_states_written_by_earlier_releases_can_be_read(kept):
    """tests/data/states.json contains bytes as release 0.1 wrote them, and their values."""
    state = read_state(kept["tag"], bytes.fromhex(kept["payload"]))
    if isinstance(state, FrequenciesAndNumRows):
        said = {"groups": sorted([list(k), n] for k, n in state.groups()), "nulls": state.num_nulls}
    elif isinstance(state, GroupSums):
        said = {v: [n, str(number)] for v, (n, number) in state.as_dict().items()}
    elif hasattr(state, "estimate"):
        said = {"count": state.count, "estimate": round(state.estimate())}
    elif isinstance(state, KllState):
        said = {"count": state.count, "median": state.quantiles([0.5])[0]}
    elif isinstance(state, SketchPairs):
        ranks = [0.0, 0.5, 1.0]
        said = {
            name: state.distribution(name).quantiles(ranks)
            for name in ("logged", "backfilled", "delta")
        }
    elif isinstance(state, ReqState):
        said = {"count": state.count, "median": state.quantile(0.5)}
    elif isinstance(state, TupleState):
        said = {"count": state.count, "sample": list(state.sample())}
    elif isinstance(state, FrequentItemsState):
        said = {"count": state.count, "top": {v: t.estimate for v, t in state.top().items()}}
    elif isinstance(state, RecordCounts):
        masks = state.masks and {f"{mask:x}": n for mask, n in state.masks.items()}
        said = {"counts": list(state.counts), "masks": masks}
    elif isinstance(state, TwoSums):
        said = {n: [str(s.total), s.count] for n, s in vars_of(state).items()}
    elif isinstance(state, Parts):
        said = {"parts": [[part.tag, part.pack().hex()] for part in state.parts]}
    else:
        said = {name: plain(getattr(state, name)) for name in kept["says"]}
    assert said == kept["says"]


def test_every_tag_has_a_kept_state():
    assert {kept["tag"] for kept in KEPT} == set(READERS)


def test_states_of_different_types_cannot_be_added():
    with pytest.raises(StateMismatchError, match="cannot add a NumMatchesAndCount to a NumMatches"):
        NumMatches(1) + NumMatchesAndCount(1, 1)
    assert NumMatches(1).sum(NumMatches(2)) == NumMatches(3)


def test_sums_stay_exact_when_columns_change_their_type():
    """2^53 + 1 is not a double. A column of integers can become one of decimals or doubles."""
    whole = GroupSums.from_groups([("a", 1, 2**53 + 1), (None, 2, 5)])
    cents = GroupSums.from_groups([("a", 1, Decimal("0.25"))])
    assert (whole + cents).as_dict() == {
        "a": (2, Decimal("9007199254740993.25")),
        None: (2, Decimal(5)),
    }
    assert (whole + GroupSums.from_groups([(None, 1, 0.5)])).as_dict()[None] == (3, 5.5)


def test_removing_a_value_from_a_state_keeps_the_sum():
    state = GroupSums.from_groups([("ann", 1, 3), ("bob", 1, 4)])
    assert state.forget("bob", "x").as_dict() == {"ann": (1, 3), "x": (1, 4)}
    assert state.forget("eve", "x") is state
    assert GroupSums.from_groups([(7, 1, 3), (8, 1, 4)]).forget("7", "x").as_dict() == {8: (1, 4)}


def test_sketches_of_different_parameters_cannot_be_added():
    from datasketches import hll_sketch, kll_doubles_sketch

    from tidegauge.analyzers.measures.cardinality import HllState

    coarse = kll_doubles_sketch(8)
    coarse.update(1.0)
    with pytest.raises(StateMismatchError, match="k 200 and 8"):
        kll([1.0]) + KllState(coarse.serialize())
    small = hll_sketch(8)
    small.update(1)
    with pytest.raises(StateMismatchError, match="lg_k 12 and 8"):
        hll([1]) + HllState(small.serialize_compact(), 1)
    with pytest.raises(StateMismatchError, match="grouping columns"):
        FrequenciesAndNumRows.from_groups([(("a",), 1)]) + FrequenciesAndNumRows.from_groups(
            [(("a", "b"), 1)]
        )
    with pytest.raises(StateMismatchError, match="column types"):
        GroupSums.from_groups([("a", 1, 1)]) + GroupSums.from_groups([(1, 1, 1)])
    with pytest.raises(StateMismatchError, match="types of sums"):
        GroupSums.from_groups([("a", 1, 10**60)]) + GroupSums.from_groups(
            [("a", 1, Decimal("1e-30"))]
        )
    with pytest.raises(StateMismatchError, match="column types string and int64$"):
        FrequenciesAndNumRows.from_groups([(("a",), 1)]) + FrequenciesAndNumRows.from_groups(
            [((1,), 1)]
        )


def test_frequencies_of_integers_can_be_added_to_those_of_decimals():
    """The same holds for approximate counts: an integer column that became a decimal has equal numbers."""
    whole = FrequenciesAndNumRows.from_groups([((1,), 2), ((2**63 - 1,), 1), ((None,), 1)])
    wider = FrequenciesAndNumRows.from_groups([((Decimal("1.00"),), 3), ((Decimal("1.50"),), 1)])
    expected = {(Decimal(1),): 5, (Decimal(2**63 - 1),): 1, (None,): 1, (Decimal("1.5"),): 1}
    assert (whole + wider).as_dict() == expected
    assert (wider + whole).as_dict() == expected
    sums = GroupSums.from_groups([(1, 2, 10)]) + GroupSums.from_groups([(Decimal("1.0"), 1, 5)])
    assert sums.as_dict() == {Decimal(1): (3, 15)}


def test_an_unknown_tag_and_damaged_bytes_have_different_errors():
    with pytest.raises(UnknownStateTagError, match="no reader for states tagged 'mean/9'"):
        read_state("mean/9", b"")
    for tag in READERS:
        with pytest.raises(CorruptStateError, match=tag):
            read_state(tag, b"\x07" * 13)


def test_a_tag_is_registered_once():
    with pytest.raises(ValueError, match="already registered"):
        register_state("num-matches/1")(NumMatches)


def test_states_have_their_metric_values():
    assert NumMatches(7).metric_value() == 7.0
    assert math.isnan(NumMatchesAndCount().metric_value())
    assert NumMatchesAndCount(1, 4).metric_value() == 0.25
    assert issubclass(NumMatches, State)


def test_the_minimum_is_nan_only_without_other_values():
    from tidegauge.analyzers.measures.extremes import MaxState, MinState

    only_nan = MinState(math.nan, 2)
    assert math.isnan((only_nan + MinState()).minimum)
    assert (only_nan + MinState(3.0, 1)).minimum == 3.0
    assert math.isnan((MaxState(math.nan, 1) + MaxState(3.0, 1)).maximum)


@pytest.mark.parametrize(
    "state_type", [HigherMomentsState, StandardDeviationState, CorrelationState]
)
def test_moments_that_cancel_agree_whatever_the_order_of_rows(state_type):
    """Third powers, means and products of symmetric data are rounding noise around 0."""
    values = 1000 * np.random.default_rng(7).normal(size=500)
    x, y = np.concatenate([values, -values]), np.concatenate([values, values])
    columns = (x, y) if state_type is CorrelationState else (x,)
    states = []
    for order in (np.arange(1000), np.random.default_rng(8).permutation(1000)):
        rows = (state_type(1, *(float(column[i]) for column in columns)) for i in order)
        states.append(state_type.merge(rows))
    assert states[0] != states[1], "the order of rows changes the rounding"
    assert states[0].agrees_with(states[1])
    assert states[1].agrees_with(states[0])


def test_moments_of_other_data_do_not_agree():
    """A difference of a millionth of the spread is not rounding."""
    state = HigherMomentsState(1000, 0.0, 1000.0, 0.0, 3000.0)
    assert not state.agrees_with(replace(state, m3=1e-3))
    assert not state.agrees_with(replace(state, mean=1e-6))
