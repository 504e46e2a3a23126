"""Sketches that Python workers build equal the library's own, however rows are cut."""

import struct

import datasketches as ds
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegauge.analyzers.core.analyzer import Sketch
from tidegauge.analyzers.measures.cardinality import LG_K, TupleState
from tidegauge.analyzers.measures.quantiles import KllState, ReqState
from tidegauge.analyzers.measures.top_values import FrequentItemsState
from tidegauge.analyzers.scan.grouping import Groups
from tidegauge.analyzers.scan.jobs import WorkerSketching
from tidegauge.analyzers.scan.sketch_worker import sketch_builder, sketch_merger

LONGS = st.integers(-(2**63), 2**63 - 1)


def built(kind, size, *batches, type=None):
    """Return the only sketch of all batches, without keys; None if there is none."""
    batches = [pa.RecordBatch.from_pydict({"v": pa.array(v, type)}) for v in batches]
    (actual,) = sketch_builder(0, 0, [(kind, size)])(batches)
    assert actual.num_rows <= 1
    return actual["sketch"][0].as_py() if actual.num_rows else None


class Count(ds.TuplePolicy):
    def create_summary(self):
        return 0

    def update_summary(self, summary, update):
        return summary + update


class CountSerDe(ds.PyObjectSerDe):
    def get_size(self, item):
        return 5

    def to_bytes(self, item):
        return struct.pack("<iB", item, 0)

    def from_bytes(self, data, offset):
        return struct.unpack_from("<iB", data, offset)[0], 5


@given(st.lists(LONGS | st.integers(0, 9), min_size=2, max_size=60), st.integers(1, 59))
def test_a_tuple_sketch_equals_the_librarys_byte_for_byte(values, cut):
    sketch = ds.update_tuple_sketch(Count(), 6)
    for value in values:
        sketch.update(value, 1)
    actual = built("tuple", 6, values[:cut], [*values[cut:], None], type=pa.int64())
    read = ds.compact_tuple_sketch.deserialize(actual, CountSerDe())
    assert sorted(read) == sorted(sketch)
    if sketch.num_retained > 1:  # where a single value has a shorter form
        assert actual == sketch.compact(True).serialize(CountSerDe())


@pytest.mark.parametrize("distinct", [1024, 1025, 5_000, 200_000])
def test_a_tuple_sketch_samples_the_smallest_hashes(distinct):
    values = np.random.default_rng(distinct).integers(-(2**62), 2**62, distinct)
    actual = built("tuple", 10, np.repeat(values, 3)[::-1], values, type=pa.int64())
    read = ds.compact_tuple_sketch.deserialize(actual, CountSerDe())
    assert read.num_retained == 1024
    assert read.is_estimation_mode() == (distinct > 1024)
    assert {count for _, count in read} == {4}
    assert read.get_lower_bound(3) <= distinct <= read.get_upper_bound(3)
    every = ds.update_tuple_sketch(Count(), LG_K + 8)  # keeps all of them
    for value in values.tolist():
        every.update(value, 1)
    assert {h for h, _ in read} == set(sorted(h for h, _ in every)[:1024])
    state = TupleState.from_sketches([actual], 4 * distinct, 10)
    assert state.sample()[:2] == (1024, 0)  # all values occur more than once


def test_a_kll_sketch_leaves_out_null_and_nan():
    raw = built("kll", 200, [1.0, None, 3.0], [float("nan"), 2.0])
    state = KllState.from_sketches([raw])
    assert state.count == 3
    assert state.quantiles([0, 0.5, 1]) == [1.0, 2.0, 3.0]
    assert built("kll", 200, [None, float("nan")], type=pa.float64()) is None
    assert KllState.from_sketches([]) == KllState.from_sketches(None) == KllState()


def test_the_most_frequent_strings_are_counted():
    raw = built("frequent", 10, ["a", "b", None, "a"], ["", "a", "é"])
    state = FrequentItemsState.from_sketches([raw])
    assert {text: top.estimate for text, top in state.top().items()} == {
        "a": 3, "b": 1, "": 1, "é": 1,
    }  # fmt: skip
    assert state.count == 6


@pytest.mark.parametrize("kind", ["req-high", "req-low"])
def test_arrays_are_counted_by_element(kind):
    raw = built(kind, 12, [[1.0, 2.0], None, [], [None, 3.0]])
    sketch = ds.req_items_sketch.deserialize(raw, ds.PyDoublesSerDe())
    assert sketch.n == 3
    assert sketch.is_hra() == (kind == "req-high")


def test_every_group_and_segment_has_a_separate_sketch():
    batch = pa.RecordBatch.from_pydict(
        {
            "k": ["x", "y", "x", "y"],
            "s": ["=1", "=1", "", "=2"],
            "number": [1.0, 2.0, 3.0, 4.0],
            "text": ["a", "b", "a", "b"],
        }
    )
    rows = [
        (tuple(row["key"]), row["request"], row["sketch"])
        for actual in sketch_builder(1, 1, [("kll", 200), ("frequent", 10)])([batch])
        for row in actual.to_pylist()
    ]
    assert len(rows) == len({row[:2] for row in rows})
    numbers = {key: KllState(raw).quantiles([0, 1]) for key, i, raw in rows if i == 0}
    assert numbers == {
        ("x", None): [1, 3],
        ("y", None): [2, 4],
        ("x", "=1"): [1, 1],
        ("x", ""): [3, 3],
        ("y", "=1"): [2, 2],
        ("y", "=2"): [4, 4],
    }
    texts = {key: FrequentItemsState(raw).top() for key, i, raw in rows if i == 1}
    assert {key: [*top] for key, top in texts.items()} == {
        key: ["a" if key[0] == "x" else "b"] for key in numbers
    }


def merged(kind, size, *parts, type=None):
    """Return the merged sketch of all parts, each from a separate task."""
    tasks = []
    for values in parts:
        batch = pa.RecordBatch.from_pydict({"v": pa.array(values, type)})
        tasks += sketch_builder(0, 0, [(kind, size)])([batch])
    (actual,) = sketch_merger([(kind, size)])(tasks)
    (row,) = actual.to_pylist()
    assert (row["key"], row["request"]) == ([], 0)
    return row["sketch"]


def test_merged_samples_of_the_same_values_stay_samples():
    values = list(range(100))  # 32 of them are sampled, the same in both
    merged_state = merged("tuple", 5, values, values, type=pa.int64())
    assert merged_state == built("tuple", 5, values, values, type=pa.int64())
    assert ds.compact_tuple_sketch.deserialize(merged_state, CountSerDe()).is_estimation_mode()


@given(st.lists(LONGS | st.integers(0, 9), min_size=3, max_size=200), st.data())
def test_merged_tuple_sketches_equal_the_sketch_of_all_values_byte_for_byte(values, data):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(values)), min_size=1, max_size=3)))
    parts = [values[a:b] for a, b in zip([0, *cuts], [*cuts, None], strict=True)]
    merged_state = merged("tuple", 5, *parts, type=pa.int64())
    assert merged_state == built("tuple", 5, values, type=pa.int64())


def test_merged_sketches_count_all_values():
    state = KllState(merged("kll", 200, [1.0, None], [float("nan"), 2.0], [3.0]))
    assert (state.count, state.quantiles([0, 0.5, 1])) == (3, [1.0, 2.0, 3.0])
    texts = FrequentItemsState(merged("frequent", 10, ["a", "b"], ["a", None], ["c", "a"]))
    assert {text: top.estimate for text, top in texts.top().items()} == {"a": 3, "b": 1, "c": 1}
    for kind in ("req-high", "req-low"):
        raw = merged(kind, 12, [[1.0, 2.0]], [[], [7.0]])
        sketch = ds.req_items_sketch.deserialize(raw, ds.PyDoublesSerDe())
        assert (sketch.n, sketch.get_max_value(), sketch.is_hra()) == (3, 7.0, kind == "req-high")


def test_sketches_are_merged_by_group_and_column_and_single_ones_stay_unchanged():
    parameters = [("kll", 200), ("kll", 200)]
    tasks = []
    for of, numbers in (("x", [1.0]), ("x", [2.0]), ("y", [5.0])):
        batch = pa.RecordBatch.from_pydict({"k": [of], "a": numbers, "b": [numbers[0] * 10]})
        tasks += sketch_builder(1, 0, parameters)([batch])
    (actual,) = sketch_merger(parameters)(tasks)
    sketches = {(*row["key"], row["request"]): row["sketch"] for row in actual.to_pylist()}
    values = {key: KllState(raw).quantiles([0, 1]) for key, raw in sketches.items()}
    assert values == {
        ("x", 0): [1, 2],
        ("x", 1): [10, 20],
        ("y", 0): [5, 5],
        ("y", 1): [50, 50],
    }
    assert sketches["y", 0] == tasks[2]["sketch"][0].as_py()
    (nothing,) = sketch_merger(parameters)([])
    assert nothing.num_rows == 0


def test_the_driver_receives_one_sketch_for_each_group_of_eight_tasks(spark):
    data = spark.range(0, 800, 1, 8).selectExpr("id % 2 AS k", "CAST(id AS DOUBLE) AS x")
    request = Sketch("req-high", "x", 12)
    answers = WorkerSketching((request,)).run(data, Groups(("k",)))
    actual = {key: [ReqState(sketch) for sketch in cell] for key, cell in answers[request].items()}
    assert {key: [state.count for state in cell] for key, cell in actual.items()} == {
        (("0",), ""): [400], (("1",), ""): [400],
    }  # fmt: skip
