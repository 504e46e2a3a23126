"""Sketches as the library writes them are read, and damage that would end the process is not."""

import numpy as np
import pytest
from tidegauge.analyzers.core.errors import StateError
from tidegauge.analyzers.core.state import read_state
from tidegauge.analyzers.measures.cardinality import HllState
from tidegauge.analyzers.measures.quantiles import KllState
from tidegauge.analyzers.measures.req import ReqState
from tidegauge.analyzers.measures.top_values import FrequentItemsState
from tidegauge.analyzers.measures.tuples import SUMMARY_BYTES, TupleState

import tidegauge as tg

SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 50, 200, 201, 3000)


def numbers(size):
    return [float(x) for x in np.random.default_rng(size).normal(size=size)]


def kll(k, size):
    from datasketches import kll_doubles_sketch

    sketch = kll_doubles_sketch(k)
    sketch.update(np.array(numbers(size)))
    other = kll_doubles_sketch(k)
    other.merge(sketch)
    other.merge(sketch)
    return [KllState(one.serialize()) for one in (sketch, other)]


def req(k, size):
    from datasketches import PyDoublesSerDe, req_items_sketch

    found = []
    for high in (True, False):
        sketch = req_items_sketch(k, high)
        for x in numbers(size):
            sketch.update(x)
        found.append(ReqState(sketch.serialize(PyDoublesSerDe())))
    return found


def hll(k, size):
    from datasketches import hll_sketch, tgt_hll_type

    found = []
    for kind in (tgt_hll_type.HLL_4, tgt_hll_type.HLL_6, tgt_hll_type.HLL_8):
        sketch = hll_sketch(k, kind)
        for n in range(size):
            sketch.update(n)
        contents = (sketch.serialize_compact(), sketch.serialize_updatable())
        found += [HllState(content, size) for content in contents]
    return found


def items(k, size):
    from datasketches import frequent_strings_sketch

    sketch = frequent_strings_sketch(k)
    for n in range(size):
        sketch.update("\u00fc" * (n % 9), n + 1)
        sketch.update(str(n), 2)
    return [FrequentItemsState(sketch.serialize())]


def tuples(k, size):
    from datasketches import AccumulatorPolicy, update_tuple_sketch
    from tidegauge.analyzers.measures.tuple_serde import SingleOrRepeatedSerDe

    sketch = update_tuple_sketch(AccumulatorPolicy(), k)
    for n in range(size):
        sketch.update(n, 1)
    return [
        TupleState.from_sketches([sketch.compact().serialize(SingleOrRepeatedSerDe())], size, k)
    ]


@pytest.mark.parametrize(
    ("make", "sizes"),
    [
        (kll, (8, 9, 200, 269, 65535)),
        (req, (4, 12, 50)),
        (hll, (4, 12, 21)),
        (items, (3, 9)),
        (tuples, (5, 10)),
    ],
)
def test_what_the_library_writes_is_read(make, sizes):
    for k in sizes:
        for size in SIZES:
            for state in make(k, size):
                again = read_state(state.tag, state.pack())
                assert again == state
                assert (again + state).count == 2 * state.count


def test_the_smallest_sample_is_one_that_the_library_adds():
    (state,) = tuples(5, 100)
    assert (state + state).count == 200
    with pytest.raises(tg.IllegalAnalyzerParameterError, match="between 5 and 20"):
        tg.ApproxUniqueness("x", lg_k=4).check_parameters()


def test_summaries_have_as_many_bytes_as_are_counted_on():
    from tidegauge.analyzers.measures.tuple_serde import SingleOrRepeatedSerDe

    assert SingleOrRepeatedSerDe().get_size(1) == SUMMARY_BYTES


@pytest.mark.parametrize(
    ("tag", "content"),
    [
        # No level, though there are three values.
        (
            "kll/1",
            "05010f00c8000800030100000000000000003d000000f03f0000000000000840"
            "000000000000084000000000000000000000000000002d3f",
        ),
        ("req/1", "020111180c00000100000001030000000000000000000008000103"),  # likewise
        ("hll/2", "0400000000000000020201074c03080104fb03082bf2fb06"),  # 2 ** 76 registers
        # A list of 105 coupons, in a length of eight: the library writes behind it.
        (
            "hll/2",
            "0400000000000000020201070c0300690000366900696969690000006969696969696969696969fb06862ff90d75816607",
        ),
        ("frequent-items/1", "04010a7878000000" + "78" * 60),  # 2 ** 120 slots
        ("tuple/2", "05000000000000000a020203090500000000ffffffff00000000"),  # 2 ** 32 entries
    ],
)
def test_sizes_that_are_not_there_are_refused(tag, content):
    with pytest.raises(StateError, match="cannot be read"):
        read_state(tag, bytes.fromhex(content))


@pytest.mark.parametrize("make", [kll, req, hll, items, tuples])
@pytest.mark.parametrize("size", [3, 300])
def test_no_byte_of_the_head_ends_the_process(make, size):
    """Each is set to what is odd, and what is read in spite of it is added and read again."""
    state = make(12, size)[0]
    content = state.pack()
    head = len(content) - len(state.sketch)
    for at in range(head, min(len(content), head + 60)):
        for value in (0, 1, 127, 255):
            damaged = content[:at] + bytes([value]) + content[at + 1 :]
            try:
                found = read_state(state.tag, damaged)
                read_state(found.tag, (found + found).pack())
            except StateError:
                continue


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("merged", [0, 2, 24])
def test_the_weights_of_a_kll_sketch_are_its_ranks(size, merged):
    """Also where the lowest level is empty, as after merging 24 sketches of 1000 or 3000 values."""
    from datasketches import kll_doubles_sketch

    sketch = kll_doubles_sketch(200)
    one = kll_doubles_sketch(200)
    one.update(np.array(numbers(size)))
    for _ in range(merged):
        sketch.merge(one)
    sketch = sketch if merged else one
    values, weights = np.array(list(KllState(sketch.serialize()).kept())).T
    assert weights.sum() == sketch.n
    ranks = [weights[values <= value].sum() / sketch.n for value in values]
    assert ranks == pytest.approx([sketch.get_rank(value, inclusive=True) for value in values])


def test_an_empty_kll_sketch_has_no_values():
    from datasketches import kll_doubles_sketch

    for content in (b"", kll_doubles_sketch(200).serialize()):
        assert list(KllState(content).kept()) == []
