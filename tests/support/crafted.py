"""Crafted states: samples of every kind, and mutations of them that a checksum does not reveal."""

import json
import random
import struct
from collections.abc import Iterator
from decimal import Decimal
from importlib import import_module

import numpy as np

from tests.paths import DATA
from tidegauge.analyzers.core.registry import STATE_MODULES
from tidegauge.analyzers.core.state import State
from tidegauge.analyzers.measures.cardinality import HllState, TupleState
from tidegauge.analyzers.measures.frequencies import FrequenciesAndNumRows
from tidegauge.analyzers.measures.histogram import GroupSums
from tidegauge.analyzers.measures.moments import SumAndCount, TwoSums
from tidegauge.analyzers.measures.quantiles import KllState, ReqState, SketchPairs
from tidegauge.analyzers.measures.top_values import FrequentItemsState
from tidegauge.griffin.measures.base import Parts

SIZES = (1, 7, 20, 900, 60_000)
"""Numbers of values:

HLL sketches store them as a list, a set, and registers with and without exceptions.
"""
ODD_NUMBERS = (
    0,
    1,
    2,
    3,
    7,
    8,
    15,
    16,
    63,
    64,
    127,
    128,
    255,
    2**15,
    2**16 - 1,
    2**31,
    2**32 - 1,
    2**63,
    2**64 - 1,
)
ODD_DOUBLES = (0.0, -0.0, -1.0, float("nan"), float("inf"), float("-inf"), 1e308, 5e-324)


def samples() -> Iterator[tuple[str, bytes]]:
    """Yield the tag and the bytes of states of every type, in all forms of their sketches."""
    for module in STATE_MODULES:
        import_module(module)
    for state in json.loads((DATA / "states.json").read_text()):
        yield state["tag"], bytes.fromhex(state["payload"])
    for state in _states():
        yield state.tag, state.pack()


def _states() -> Iterator[State]:
    for size in SIZES:
        for sketch in hll_sketches(12, size):
            yield HllState(sketch, size)
        kll = [KllState(sketch) for sketch in kll_sketches(200, size)]
        yield from kll
        yield SketchPairs.from_parts(kll[0], kll[1], kll[0], kll[1])
        small = min(size, 900)
        for sketch in req_sketches(12, small):
            yield ReqState(sketch)
        yield FrequentItemsState(frequent_items(6, small))
        yield TupleState.from_sketches([tuple_sketch(10, small)], small, 5)
        yield TupleState.from_sketches([tuple_sketch(10, small)], small, 10)
        texts = FrequenciesAndNumRows.from_groups(((f"v{n}",), n + 1) for n in range(small))
        yield texts
        pairs = (((n, Decimal(n) / 4), 1) for n in range(small))
        yield FrequenciesAndNumRows.from_groups(pairs, num_nulls=3)
        yield GroupSums.from_groups((f"v{n}", 1, n / 2) for n in range(small))
        yield GroupSums.from_groups((n, 1, n * 10**20) for n in range(small))
        yield Parts((HllState(hll_sketches(12, size)[0], size), SumAndCount(5, 1), kll[0]))
    for sketch in hll_sketches(4, 900):
        yield HllState(sketch, 900)
    yield TwoSums(SumAndCount(Decimal("1.5"), 2), SumAndCount(2**70, 2))


def hll_sketches(lg_k: int, size: int) -> list[bytes]:
    """Return HLL sketches of 4, 6 and 8 bits, each in compact and updatable form."""
    from datasketches import hll_sketch, tgt_hll_type

    sketches = []
    for kind in (tgt_hll_type.HLL_4, tgt_hll_type.HLL_6, tgt_hll_type.HLL_8):
        sketch = hll_sketch(lg_k, kind)
        for n in range(size):
            sketch.update(n)
        sketches += [sketch.serialize_compact(), sketch.serialize_updatable()]
    return sketches


def kll_sketches(k: int, size: int) -> list[bytes]:
    """Return a KLL sketch of random numbers, and one merged from three."""
    from datasketches import kll_doubles_sketch

    sketch, merged = kll_doubles_sketch(k), kll_doubles_sketch(k)
    sketch.update(np.random.default_rng(size).normal(size=size))
    for _ in range(3):
        merged.merge(sketch)
    return [sketch.serialize(), merged.serialize()]


def req_sketches(k: int, size: int) -> list[bytes]:
    """Return REQ sketches that are accurate at the high and at the low end."""
    from datasketches import PyDoublesSerDe, req_items_sketch

    sketches = []
    for high_ranks in (True, False):
        sketch = req_items_sketch(k, high_ranks)
        for value in np.random.default_rng(size).normal(size=size):
            sketch.update(float(value))
        sketches.append(sketch.serialize(PyDoublesSerDe()))
    return sketches


def frequent_items(lg_slots: int, size: int) -> bytes:
    """Return a sketch of frequent strings, some of them empty and some not ASCII."""
    from datasketches import frequent_strings_sketch

    sketch = frequent_strings_sketch(lg_slots)
    for n in range(size):
        sketch.update("\u00fc" * (n % 9), n + 1)
        sketch.update(str(n), 2)
    return sketch.serialize()


def tuple_sketch(lg_k: int, size: int) -> bytes:
    """Return a sample of distinct values with their counts."""
    from datasketches import AccumulatorPolicy, update_tuple_sketch

    from tidegauge.analyzers.measures.cardinality import tuple_serializer

    sketch = update_tuple_sketch(AccumulatorPolicy(), lg_k)
    for n in range(size):
        sketch.update(n, 1)
        if n % 3 == 0:
            sketch.update(n, 1)
    return sketch.compact().serialize(tuple_serializer())


def mutate(payload: bytes, draw: random.Random) -> bytes:
    """Return bytes with one to four changes, half of them in the first 64 bytes, which contain sizes."""
    changed = bytearray(payload)
    for _ in range(draw.choice((1, 1, 1, 2, 3, 4))):
        end = min(len(changed), 64) if draw.random() < 0.5 else len(changed)
        at = draw.randrange(end + 1)
        match draw.randrange(9):
            case 0 if at < len(changed):
                changed[at] ^= 1 << draw.randrange(8)
            case 1 if at < len(changed):
                changed[at] = draw.randrange(256)
            case 2 if at < len(changed):  # a nibble, as in registers of four bits
                changed[at] |= draw.choice((0x0F, 0xF0))
            case 3 if at < len(changed):
                changed[at] = draw.choice(ODD_NUMBERS) & 0xFF
            case 4:
                code = draw.choice(["<H", "<I", "<Q", ">H", ">I", ">Q"])
                size = struct.calcsize(code)
                number = draw.choice(ODD_NUMBERS) & (1 << 8 * size) - 1
                changed[at : at + size] = struct.pack(code, number)
            case 5:
                at -= at % 8
                changed[at : at + 8] = struct.pack("<d", draw.choice(ODD_DOUBLES))
            case 6:
                del changed[at : at + draw.choice((1, 4, 8, len(changed)))]
            case 7:
                changed[at:at] = draw.randbytes(draw.choice((1, 4, 8)))
            case _:  # moves a part to another position
                start = draw.randrange(end + 1)
                part = changed[start : start + draw.choice((1, 4, 8, 16))]
                changed[at : at + len(part)] = part
    return bytes(changed)
