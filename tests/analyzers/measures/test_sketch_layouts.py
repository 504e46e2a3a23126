"""The layouts of sketches: those that the library writes are accepted, and dangerous damage is refused."""

import struct

import numpy as np
import pytest

import tidegauge as tg
from tidegauge.analyzers.core.errors import StateError
from tidegauge.analyzers.core.state import MAX_COUNT, read_state
from tidegauge.analyzers.measures.cardinality import SUMMARY_BYTES, HllState, TupleState
from tidegauge.analyzers.measures.counts import ColumnMatches, NumMatches
from tidegauge.analyzers.measures.moments import SumAndCount, TwoSums
from tidegauge.analyzers.measures.quantiles import KllState, ReqState
from tidegauge.analyzers.measures.top_values import FrequentItemsState
from tidegauge.rules.record_counts import RecordCounts

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

    actual = []
    for high in (True, False):
        sketch = req_items_sketch(k, high)
        for x in numbers(size):
            sketch.update(x)
        actual.append(ReqState(sketch.serialize(PyDoublesSerDe())))
    return actual


def hll(k, size):
    from datasketches import hll_sketch, tgt_hll_type

    actual = []
    for kind in (tgt_hll_type.HLL_4, tgt_hll_type.HLL_6, tgt_hll_type.HLL_8):
        sketch = hll_sketch(k, kind)
        for n in range(size):
            sketch.update(n)
        contents = (sketch.serialize_compact(), sketch.serialize_updatable())
        actual += [HllState(content, size) for content in contents]
    return actual


def items(k, size):
    from datasketches import frequent_strings_sketch

    sketch = frequent_strings_sketch(k)
    for n in range(size):
        sketch.update("\u00fc" * (n % 9), n + 1)
        sketch.update(str(n), 2)
    return [FrequentItemsState(sketch.serialize())]


def tuples(k, size):
    from datasketches import AccumulatorPolicy, update_tuple_sketch

    from tidegauge.analyzers.measures.cardinality import tuple_serializer

    sketch = update_tuple_sketch(AccumulatorPolicy(), k)
    for n in range(size):
        sketch.update(n, 1)
    return [TupleState.from_sketches([sketch.compact().serialize(tuple_serializer())], size, k)]


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
def test_sketches_that_the_library_writes_are_accepted(make, sizes):
    for k in sizes:
        for size in SIZES:
            for state in make(k, size):
                again = read_state(state.tag, state.pack())
                assert again == state
                assert (again + state).count == 2 * state.count


def test_the_minimum_sample_size_is_that_of_the_library():
    (state,) = tuples(5, 100)
    assert (state + state).count == 200
    with pytest.raises(tg.IllegalAnalyzerParameterError, match="between 5 and 20"):
        tg.ApproxUniqueness("x", lg_k=4).check_parameters()


def test_summaries_have_the_assumed_size():
    from tidegauge.analyzers.measures.cardinality import tuple_serializer

    assert tuple_serializer().get_size(1) == SUMMARY_BYTES == 5


@pytest.mark.parametrize(
    ("tag", "content"),
    [
        # No level, but three values.
        (
            "kll/1",
            "05010f00c8000800030100000000000000003d000000f03f0000000000000840"
            "000000000000084000000000000000000000000000002d3f",
        ),
        ("req/1", "020111180c00000100000001030000000000000000000008000103"),  # no level here either
        ("hll/2", "0400000000000000020201074c03080104fb03082bf2fb06"),  # 2 ** 76 registers
        # A list of 105 coupons with a length of eight: the library writes beyond it.
        (
            "hll/2",
            "0400000000000000020201070c0300690000366900696969690000006969696969696969696969fb06862ff90d75816607",
        ),
        ("frequent-items/1", "04010a7878000000" + "78" * 60),  # 2 ** 120 slots
        ("tuple/2", "05000000000000000a020203090500000000ffffffff00000000"),  # 2 ** 32 entries
    ],
)
def test_sizes_beyond_the_bytes_are_refused(tag, content):
    with pytest.raises(StateError, match="cannot be read"):
        read_state(tag, bytes.fromhex(content))


def replace_at(content, at, new):
    """Return bytes with other bytes at a position."""
    return content[:at] + new + content[at + len(new) :]


def is_refused(state, content):
    """Return whether the sketch of a state is refused with this content."""
    try:
        read_state(state.tag, state.pack().removesuffix(state.sketch) + content)
    except StateError:
        return True
    return False


def test_hll_registers_with_exceptions_must_match_the_table():
    """With 60,000 values, some of 4096 registers are 15 above the minimum.

    They are in the table of exceptions.
    """
    from datasketches import hll_sketch, tgt_hll_type

    sketch = hll_sketch(12, tgt_hll_type.HLL_4)
    for n in range(60_000):
        sketch.update(n)
    for content in (sketch.serialize_compact(), sketch.serialize_updatable()):
        state = HllState(content, 60_000)
        (number,) = struct.unpack_from("<I", content, 36)
        assert number > 0
        assert not is_refused(state, content)
        table = 40 + 2048
        places = [n for n in range(table, len(content), 4) if any(content[n : n + 4])]
        assert len(places) == number
        (entry,) = struct.unpack_from("<I", content, places[0])
        plain = next(
            n for n in range(4096) if content[40 + n // 2] >> 4 * (n % 2) & 15 not in {0, 15}
        )
        another = content[40 + plain // 2] | 15 << 4 * (plain % 2)
        for at, new in (
            (40 + plain // 2, bytes([another])),  # an exception that is in no table
            (36, struct.pack("<I", number - 1)),
            (36, struct.pack("<I", 0)),
            (
                places[0],
                struct.pack("<I", entry >> 26 << 26 | plain),
            ),  # an entry of a register without an exception
            (
                places[0],
                struct.pack("<I", 1 << 26 | entry & (1 << 26) - 1),
            ),  # too small for an exception
            (6, b"\xff"),  # the minimum is above all registers
            (32, struct.pack("<I", 4097)),
            (8, struct.pack("<d", float("nan"))),
            (16, struct.pack("<2d", 0.0, 0.0)),  # the sums of the estimate's denominator
        ):
            assert is_refused(state, replace_at(content, at, new)), (at, new)


def test_hll_registers_of_one_byte_are_below_64():
    state = next(s for s in hll(12, 3000) if s.sketch[7] >> 2 == 2)
    assert not is_refused(state, state.sketch)
    assert is_refused(state, replace_at(state.sketch, 40, b"\x40"))


@pytest.mark.parametrize(
    "coupons",
    [(5 << 26 | 1, 5 << 26 | 1), (5 << 26 | 1, 7)],
    ids=["one twice", "one without a value"],
)
def test_coupons_must_be_different_and_have_values(coupons):
    (state, *_) = hll(12, 2)
    assert not is_refused(state, state.sketch)
    assert is_refused(state, replace_at(state.sketch, 8, struct.pack("<2I", *coupons)))


def test_coupons_of_a_hash_set_must_be_where_the_library_looks_for_them():
    """A merge added a misplaced coupon twice, and the next merge failed:

    "Found duplicate coupon".
    """
    _, state = hll(12, 20)[:2]
    table = list(struct.unpack_from("<32I", state.sketch, 12))
    assert not is_refused(state, state.sketch)
    free = table.index(0)
    moved = next(n for n, coupon in enumerate(table) if coupon and coupon % 32 == n != free - 1)
    table[free], table[moved] = table[moved], 0
    assert is_refused(state, replace_at(state.sketch, 12, struct.pack("<32I", *table)))


@pytest.mark.parametrize("make", [kll, req])
def test_values_of_quantile_sketches_must_be_ordered_numbers(make):
    """The last level is sorted. With 3000 values it has several of them."""
    state = make(12, 3000)[0]
    content = state.sketch
    assert not is_refused(state, content)
    last, before = content[-8:], content[-16:-8]
    nan, inf = struct.pack("<d", float("nan")), struct.pack("<d", float("inf"))
    for end in (before + nan, before + inf, last + before):
        assert is_refused(state, content[:-16] + end)


def test_counts_must_be_numbers_of_rows():
    largest = NumMatches(MAX_COUNT)
    assert read_state(largest.tag, largest.pack()) == largest
    for state in (
        NumMatches(MAX_COUNT + 1),
        NumMatches(-1),
        TwoSums(SumAndCount(1, -1), SumAndCount()),
        ColumnMatches((1, -1), 3),
        RecordCounts((2, -1)),
    ):
        with pytest.raises(
            tg.CorruptStateError, match=r"its (num_matches|counts?|matches) is -?\d+"
        ):
            read_state(state.tag, state.pack())


def test_kll_sketches_with_more_than_2_to_the_64_values_are_not_merged():
    """The library allocates levels for the sum of both, which overflows to 0, and wrote beyond them."""
    head = struct.pack("<8BQHBx", 5, 1, 15, 0, 8, 0, 8, 0, 8 << 60, 8, 61)
    starts = struct.pack("<61I", *[480] * 61)
    sketch = head + starts + struct.pack("<2d8d", 0.0, 7.0, *map(float, range(8)))
    with pytest.raises(StateError, match="number of values"):
        read_state("kll/1", sketch)


@pytest.mark.parametrize(
    "number", ["1" * 301, "-1E+400", "1E-400", "NaN", "Infinity", "1E+999999999"]
)
def test_numbers_that_no_column_contains_are_refused(number):
    for kind in b"Id":
        stored = (
            struct.pack("<q", 1) + bytes([kind]) + struct.pack(">H", len(number)) + number.encode()
        )
        with pytest.raises(StateError, match="cannot be read"):
            read_state("sum-and-count/2", stored)


def test_frequent_strings_must_be_utf_8_with_counts():
    (state,) = items(5, 3)
    content = state.sketch
    assert not is_refused(state, content)
    assert is_refused(state, content[:-1] + b"\xff")
    assert is_refused(
        state, replace_at(content, 16, struct.pack("<Q", 0))
    )  # the count of all values
    assert is_refused(
        state, replace_at(content, 32, struct.pack("<Q", 0))
    )  # the count of one value
    assert is_refused(state, replace_at(content, 32, struct.pack("<Q", 2**62)))


def test_hashes_of_a_sample_must_be_within_its_share():
    (state,) = tuples(5, 300)
    content = state.sketch
    assert not is_refused(state, content)
    (theta,) = struct.unpack_from("<Q", content, 16)
    for at, number in ((16, 0), (16, 1), (16, 2**63), (24, 0), (24, theta)):
        assert is_refused(state, replace_at(content, at, struct.pack("<Q", number))), (at, number)
    assert is_refused(
        state, replace_at(content, 24, content[37:45])
    )  # the hash of the second entry


@pytest.mark.parametrize("make", [kll, req, hll, items, tuples])
@pytest.mark.parametrize("size", [3, 300])
def test_no_byte_of_the_preamble_crashes_the_process(make, size):
    """Each byte is set to extreme values.

    Sketches that are still accepted are merged and read again.
    """
    state = make(12, size)[0]
    content = state.pack()
    head = len(content) - len(state.sketch)
    for at in range(head, min(len(content), head + 60)):
        for value in (0, 1, 127, 255):
            damaged = content[:at] + bytes([value]) + content[at + 1 :]
            try:
                actual = read_state(state.tag, damaged)
                read_state(actual.tag, (actual + actual).pack())
            except StateError:
                continue


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("merged", [0, 2, 24])
def test_the_weights_of_a_kll_sketch_give_its_ranks(size, merged):
    """This holds even if the lowest level is empty, as after merging 24 sketches of 1000 or 3000 values."""
    from datasketches import kll_doubles_sketch

    sketch = kll_doubles_sketch(200)
    one = kll_doubles_sketch(200)
    one.update(np.array(numbers(size)))
    for _ in range(merged):
        sketch.merge(one)
    sketch = sketch if merged else one
    values, weights = np.array(list(KllState(sketch.serialize()).retained_values())).T
    assert weights.sum() == sketch.n
    ranks = [weights[values <= value].sum() / sketch.n for value in values]
    assert ranks == pytest.approx([sketch.get_rank(value, inclusive=True) for value in values])


def test_empty_sketches_are_the_identity():
    from datasketches import PyDoublesSerDe, kll_doubles_sketch, req_items_sketch

    for state in (
        KllState(kll_doubles_sketch(200).serialize()),
        ReqState(req_items_sketch(12).serialize(PyDoublesSerDe())),
    ):
        assert read_state(state.tag, state.pack()) == type(state)()


def test_an_empty_kll_sketch_has_no_values():
    from datasketches import kll_doubles_sketch

    for content in (b"", kll_doubles_sketch(200).serialize()):
        assert list(KllState(content).retained_values()) == []
