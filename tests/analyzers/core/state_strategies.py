"""A Hypothesis strategy for each registered state, and Python's own result to compare with."""

import math

from datasketches import (
    AccumulatorPolicy,
    PyDoublesSerDe,
    frequent_strings_sketch,
    hll_sketch,
    kll_doubles_sketch,
    req_items_sketch,
    update_tuple_sketch,
)
from hypothesis import strategies as st

from tidegauge.analyzers.core.analyzer import ANALYZERS  # noqa: F401 - registers the states
from tidegauge.analyzers.core.state import add, greatest, least
from tidegauge.analyzers.measures.cardinality import HllState, TupleState, tuple_serializer
from tidegauge.analyzers.measures.counts import (
    ColumnCountState,
    ColumnExistsState,
    ColumnMatches,
    ComplianceState,
    NumMatches,
    NumMatchesAndCount,
    SchemaMatchState,
)
from tidegauge.analyzers.measures.custom import CustomSqlState
from tidegauge.analyzers.measures.extremes import (
    FreshnessState,
    MaxState,
    MinState,
    RangeState,
    TimeRangeState,
)
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
from tidegauge.analyzers.measures.texts import DataTypeState
from tidegauge.analyzers.measures.top_values import FrequentItemsState
from tidegauge.consistency.compare.measures import Cells, Differences, KeyCounts, RowPresence
from tidegauge.griffin.measures.base import Parts
from tidegauge.rules.record_counts import RecordCounts

counts = st.integers(0, 10**6)
numbers = st.floats(-1e6, 1e6)
exact = st.one_of(
    st.integers(-(2**80), 2**80),
    st.decimals(-(10**20), 10**20, places=4, allow_nan=False),
    numbers,
)
with_nan = st.one_of(exact, st.just(math.nan), st.just(math.inf), st.just(-math.inf))


@st.composite
def ratios(draw):
    count = draw(counts)
    return NumMatchesAndCount(draw(st.integers(0, count)), count)


@st.composite
def compliances(draw):
    count = draw(counts)
    known = draw(st.integers(0, count))
    return ComplianceState(draw(st.integers(0, known)), known, count)


def extremes(cls, choose):
    return st.lists(with_nan, max_size=5).map(lambda xs: cls(choose(xs), len(xs)))


def range_of(xs):
    return RangeState(least(xs), greatest(xs), len(xs))


def sum_of(xs):
    total = 0
    for x in xs:
        total = add(total, x)
    return SumAndCount(total, len(xs))


sums = st.lists(exact, max_size=5).map(sum_of)


def moments(xs):
    n = len(xs)
    mean = sum(xs) / n if n else 0.0
    return StandardDeviationState(n, mean, sum((x - mean) ** 2 for x in xs))


def higher_moments(xs):
    n = len(xs)
    mean = sum(xs) / n if n else 0.0
    powers = [sum((x - mean) ** k for x in xs) for k in (2, 3, 4)]
    return HigherMomentsState(n, mean, *powers) if n else HigherMomentsState()


def co_moments(pairs):
    n = len(pairs)
    if not n:
        return CorrelationState()
    a, b = (sum(p[i] for p in pairs) / n for i in (0, 1))
    sums = [
        sum((p[i] - m) * (p[j] - k) for p in pairs)
        for i, j, m, k in ((0, 1, a, b), (0, 0, a, a), (1, 1, b, b))
    ]
    return CorrelationState(n, a, b, *sums)


def times(xs):
    return TimeRangeState(min(xs), max(xs), len(xs)) if xs else TimeRangeState()


def freshness(xs):
    return FreshnessState(max(xs), max(xs) + 10, len(xs)) if xs else FreshnessState()


@st.composite
def custom(draw):
    n = draw(st.integers(0, 1))
    return CustomSqlState(draw(exact), draw(counts), 1, "sum") if n else CustomSqlState()


def req(items):
    sketch = req_items_sketch(12)
    for item in items:
        sketch.update(item)
    return ReqState(sketch.serialize(PyDoublesSerDe())) if items else ReqState()


def tuples(items):
    sketch = update_tuple_sketch(AccumulatorPolicy(), 8)
    for item in items:
        sketch.update(item, 1)
    raw = sketch.compact().serialize(tuple_serializer())
    return TupleState.from_sketches([raw], len(items), 8)


def frequent(items):
    sketch = frequent_strings_sketch(5)
    for item in items:
        sketch.update(item)
    return FrequentItemsState(sketch.serialize()) if items else FrequentItemsState()


def hll(items):
    sketch = hll_sketch(12)
    for item in items:
        sketch.update(item)
    return HllState(sketch.serialize_compact(), len(items)) if items else HllState()


def kll(items):
    sketch = kll_doubles_sketch(200)
    for item in items:
        sketch.update(item)
    return KllState(sketch.serialize()) if items else KllState()


def sketch_pairs(pairs):
    """Return pairs of numbers, in which one or both may be missing."""
    equal = [a for a, b in pairs if a is not None and a == b]
    others = [(a, b) for a, b in pairs if a is None or a != b]
    return SketchPairs(
        kll(equal),
        kll([a for a, _ in others if a is not None]),
        kll([b for _, b in others if b is not None]),
        kll([b - a for a, b in others if a is not None and b is not None]),
    )


keys = st.tuples(st.one_of(st.none(), st.text(max_size=3)), st.one_of(st.none(), st.integers(0, 3)))


def frequencies():
    groups = st.dictionaries(
        keys.filter(lambda k: k != (None, None)), st.integers(1, 9), max_size=6
    )
    return st.builds(lambda g, n: FrequenciesAndNumRows.from_groups(g.items(), n), groups, counts)


def group_sums(numbers):
    """Return groups by string or null, each with a number of rows and a sum."""
    rows = st.tuples(st.integers(1, 9), numbers)
    groups = st.dictionaries(st.none() | st.text(max_size=3), rows, max_size=6)
    return groups.map(lambda g: GroupSums.from_groups((value, *row) for value, row in g.items()))


@st.composite
def record_counts(draw, most=9):
    """Return counts with three bits: one rule that records violate or that is unknown, and one fix."""
    masks = draw(st.dictionaries(st.integers(0, 7), st.integers(1, 9), max_size=most))
    if not masks:
        return RecordCounts()
    bits = (sum(n for mask, n in masks.items() if mask >> bit & 1) for bit in range(3))
    counts = (sum(masks.values()), *bits)
    return RecordCounts(counts, draw(st.sampled_from([masks, masks, None])))


STATES = {
    RowPresence: st.builds(RowPresence, *[counts] * 5),
    Cells: st.builds(Cells, *[counts] * 5),
    Differences: st.builds(Differences, *[counts] * 4, *[st.floats(0, 1e6)] * 3),
    KeyCounts: st.builds(KeyCounts, *[counts] * 6),
    RecordCounts: record_counts(),
    NumMatches: st.builds(NumMatches, counts),
    NumMatchesAndCount: ratios(),
    ComplianceState: compliances(),
    MinState: extremes(MinState, least),
    MaxState: extremes(MaxState, greatest),
    RangeState: st.lists(with_nan, max_size=5).map(range_of),
    SumAndCount: sums,
    TwoSums: st.builds(TwoSums, sums, sums),
    DataTypeState: st.builds(DataTypeState, *[counts] * 5),
    ColumnCountState: st.builds(ColumnCountState, counts, counts),
    ColumnExistsState: st.integers(0, 9).flatmap(
        lambda n: st.builds(ColumnExistsState, st.integers(0, n), st.just(n))
    ),
    SchemaMatchState: st.builds(
        SchemaMatchState, st.frozensets(st.text(max_size=3)).map(sorted).map(tuple), counts
    ),
    CustomSqlState: custom(),
    TimeRangeState: st.lists(st.integers(-(2**50), 2**50), max_size=5).map(times),
    FreshnessState: st.lists(st.integers(-(2**50), 2**50), max_size=5).map(freshness),
    HigherMomentsState: st.lists(numbers, max_size=5).map(higher_moments),
    CorrelationState: st.lists(st.tuples(numbers, numbers), max_size=5).map(co_moments),
    ReqState: st.lists(numbers, max_size=300).map(req),
    TupleState: st.lists(st.integers(0, 400), max_size=600).map(tuples),
    FrequentItemsState: st.lists(st.text(max_size=3), max_size=100).map(frequent),
    StandardDeviationState: st.lists(numbers, max_size=5).map(moments),
    HllState: st.lists(st.integers(0, 10**9), max_size=300).map(hll),
    KllState: st.lists(numbers, max_size=300).map(kll),
    SketchPairs: st.lists(
        numbers.map(lambda n: (n, n)) | st.tuples(st.none() | numbers, st.none() | numbers),
        max_size=100,
    ).map(sketch_pairs),
    FrequenciesAndNumRows: frequencies(),
    ColumnMatches: st.just(ColumnMatches())
    | st.builds(ColumnMatches, st.tuples(counts, counts), counts),
    GroupSums: group_sums(st.integers(-(2**80), 2**80))
    | group_sums(st.decimals(-(10**20), 10**20, places=4, allow_nan=False)),
}
STATES[Parts] = st.just(Parts()) | st.builds(
    lambda *parts: Parts(parts), STATES[NumMatchesAndCount], STATES[KllState], frequencies()
)
