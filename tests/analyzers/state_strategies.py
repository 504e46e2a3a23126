"""A Hypothesis strategy for each registered state, and Python's own answer to compare with."""

import math

from datasketches import hll_sketch, kll_doubles_sketch
from hypothesis import strategies as st

from analyzers.cardinality import HllState
from analyzers.catalogue import ANALYZERS  # noqa: F401 - registers the states
from analyzers.counts import ComplianceState, NumMatches, NumMatchesAndCount
from analyzers.extremes import MaxState, MinState
from analyzers.frequencies import FrequenciesAndNumRows
from analyzers.moments import StandardDeviationState, SumAndCount
from analyzers.quantiles import KllState

counts = st.integers(0, 10**6)
numbers = st.floats(-1e6, 1e6)
with_nan = st.one_of(numbers, st.just(math.nan), st.just(math.inf), st.just(-math.inf))


@st.composite
def ratios(draw):
    count = draw(counts)
    return NumMatchesAndCount(draw(st.integers(0, count)), count)


@st.composite
def compliances(draw):
    count = draw(counts)
    known = draw(st.integers(0, count))
    return ComplianceState(draw(st.integers(0, known)), known, count)


def extremes(cls, identity):
    return st.lists(with_nan, max_size=5).map(
        lambda xs: cls(
            (max if cls is MaxState else min)(
                xs, key=lambda x: (math.isnan(x), x), default=identity
            ),
            len(xs),
        )
    )


def moments(xs):
    n = len(xs)
    mean = sum(xs) / n if n else 0.0
    return StandardDeviationState(n, mean, sum((x - mean) ** 2 for x in xs))


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


keys = st.tuples(st.one_of(st.none(), st.text(max_size=3)), st.one_of(st.none(), st.integers(0, 3)))


def frequencies():
    groups = st.dictionaries(
        keys.filter(lambda k: k != (None, None)), st.integers(1, 9), max_size=6
    )
    return st.builds(lambda g, n: FrequenciesAndNumRows.of(g.items(), n), groups, counts)


STATES = {
    NumMatches: st.builds(NumMatches, counts),
    NumMatchesAndCount: ratios(),
    ComplianceState: compliances(),
    MinState: extremes(MinState, math.inf),
    MaxState: extremes(MaxState, -math.inf),
    SumAndCount: st.lists(numbers, max_size=5).map(lambda xs: SumAndCount(float(sum(xs)), len(xs))),
    StandardDeviationState: st.lists(numbers, max_size=5).map(moments),
    HllState: st.lists(st.integers(0, 10**9), max_size=300).map(hll),
    KllState: st.lists(numbers, max_size=300).map(kll),
    FrequenciesAndNumRows: frequencies(),
}
