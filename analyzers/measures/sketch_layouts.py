"""Layouts of serialized DataSketches, checked before the library reads bytes that may be damaged or crafted.

The library believes numbers of levels, sizes, slots and registers as they are written: a wrong one may end the
process when the sketch is read, merged or asked, or take all memory. Each function requires that what is written
there fits the other bytes, and that the values are some that the library keeps: no NaN, sorted where it sorts
them, hashes within their range. It raises `ValueError` or `struct.error` if not.
"""

from __future__ import annotations

import struct
import sys
from array import array
from itertools import pairwise
from math import isnan
from typing import TYPE_CHECKING

from tidegauge.analyzers.core.state import MAX_COUNT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_HEAD = struct.Struct("<8B")
"""Longs of the preamble, version, family, four bytes of each family's own and flags among them."""


def require_kll(sketch: bytes) -> None:
    """Require a KLL sketch of doubles whose levels hold as many values as there are."""
    flags, k = struct.unpack_from("<3xBH", sketch)
    if flags & _KLL_SINGLE and not flags & _KLL_EMPTY:
        _require_values([struct.unpack_from("<8xd", sketch)])
    if flags & _KLL_SHORT:
        return
    n, least_k, number = struct.unpack_from("<8xQHB", sketch)
    _require(0 < number <= _KLL_LEVELS and _KLL_K <= least_k <= k, "levels")
    sizes = _kll_sizes(sketch)
    _require(min(sizes) >= 0, "levels")
    _require(n == sum(size << level for level, size in enumerate(sizes)), "number of values")
    _require(n <= MAX_COUNT, "number of values")
    _require(len(sketch) == _kll_start(number) + 8 * sum(sizes), "length")
    low, high = struct.unpack_from("<2d", sketch, 20 + 4 * number)
    at, levels = _kll_start(number), []
    for size in sizes:
        levels.append(_doubles(sketch, at, size))
        at += 8 * size
    _require_values(levels, (low, high), first_sorted=bool(flags & _KLL_FIRST_SORTED))


def _doubles(sketch: bytes, at: int, size: int) -> Sequence[float]:
    """Return values that stand in a sketch one after the other."""
    values = array("d", sketch[at : at + 8 * size])
    if sys.byteorder == "big":
        values.byteswap()
    return values


def _require_values(
    levels: Sequence[Sequence[float]],
    ends: tuple[float, float] | None = None,
    *,
    first_sorted: bool = False,
) -> None:
    """Require values without NaN, between the least and the greatest one, and levels that are sorted.

    The library compares values without asking for NaN, and merges levels above the first as sorted ones.
    """
    for level, values in enumerate(levels):
        _require(not any(map(isnan, values)), "NaN")
        if values and ends:
            _require(ends[0] <= min(values) and max(values) <= ends[1], "least or greatest value")
        if level or first_sorted:
            _require(list(values) == sorted(values), "order of values")


def kll_size(sketch: bytes) -> int:
    """Return the parameter ``k`` of a valid KLL sketch."""
    (k,) = struct.unpack_from("<4xH", sketch)
    return int(k)


def kll_values(sketch: bytes) -> Iterator[tuple[float, int]]:
    """Yield each retained value of a valid KLL sketch and the number of values it represents, unordered.

    The library's own iterator (datasketches 5.2.0) gives each value the weight 1 if the lowest level is
    empty, as it may be after merging.

    Examples
    --------
    >>> from datasketches import kll_doubles_sketch
    >>> one = kll_doubles_sketch(8)
    >>> one.update(7.0)
    >>> list(kll_values(one.serialize()))
    [(7.0, 1)]
    """
    (flags,) = struct.unpack_from("<3xB", sketch)
    if flags & _KLL_SINGLE:
        yield struct.unpack_from("<8xd", sketch)[0], 1
    if flags & _KLL_SHORT:
        return
    sizes = _kll_sizes(sketch)
    at = _kll_start(len(sizes))
    for level, size in enumerate(sizes):
        for value in struct.unpack_from(f"<{size}d", sketch, at):
            yield value, 1 << level
        at += 8 * size


def _kll_sizes(sketch: bytes) -> list[int]:
    """Return how many values each level has, the lowest first."""
    k, m, number = struct.unpack_from("<4xHB11xB", sketch)
    starts = struct.unpack_from(f"<20x{number}I", sketch)
    levels = [*starts, sum(_kll_capacity(k, m, depth) for depth in range(number))]
    return [end - start for start, end in pairwise(levels)]


def _kll_start(levels: int) -> int:
    """Return where the retained values begin: after the least and the greatest value."""
    return 20 + 4 * levels + 2 * 8


_KLL_EMPTY, _KLL_FIRST_SORTED, _KLL_SINGLE = 1, 2, 4
_KLL_SHORT = _KLL_EMPTY | _KLL_SINGLE
"""Flags of sketches that are empty, or of a single value: they have no levels."""
_KLL_LEVELS = 61
_KLL_K = 8


def _kll_capacity(k: int, m: int, depth: int) -> int:
    """Return the size of a level so far below the top: k, and two thirds of it for each further one."""
    steps = [depth] if depth <= _KLL_LEVELS // 2 else [depth // 2, depth - depth // 2]
    for step in steps:
        k = (2 * (k << step) // 3**step + 1) >> 1
    return max(m, k)


def require_req(sketch: bytes) -> None:
    """Require a REQ sketch of doubles whose levels hold as many values as there are."""
    flags, k, number, raw = struct.unpack_from("<3xBHBB", sketch)
    _require(_REQ_K[0] <= k <= _REQ_K[1] and k % 2 == 0, "k")
    if flags & _REQ_EMPTY:
        _require(len(sketch) == 8, "length")
    elif flags & _REQ_RAW:
        _require(number == 1 and 0 < raw <= _REQ_MOST_RAW, "levels")
        _require(len(sketch) >= 8 + 8 * raw, "length")  # the library writes zeros behind them
        _require_values([_doubles(sketch, 8, raw)])
    else:
        _require(0 < number <= _REQ_LEVELS, "levels")
        at, n = 8, None
        ends: tuple[float, float] | None = None
        if number > 1:
            n, low, high = struct.unpack_from("<Q2d", sketch, at)
            ends = low, high
            at += 24
        levels: list[Sequence[float]] = []
        for level in range(number):
            _, section, weight, sections, size = struct.unpack_from("<QfBBxxI", sketch, at)
            _require(weight == level and sections in _REQ_SECTIONS, "levels")
            # Each doubling of the sections divides their size by the root of 2.
            fitting = k / (sections / _REQ_SECTIONS[0]) ** 0.5
            _require(abs(section - fitting) <= _REQ_ROUNDING * fitting, "size of sections")
            at += 20
            levels.append(_doubles(sketch, at, size))
            at += 8 * size
        _require(len(sketch) == at, "length")
        total = sum(len(values) << level for level, values in enumerate(levels))
        _require(0 < total <= MAX_COUNT and n in {None, total}, "number of values")
        first_sorted = bool(flags & _REQ_FIRST_SORTED)
        _require_values(levels, ends, first_sorted=first_sorted)


_REQ_K = (4, 1024)
_REQ_EMPTY, _REQ_RAW, _REQ_FIRST_SORTED = 4, 16, 32
_REQ_MOST_RAW = 4
_REQ_LEVELS = 60
_REQ_SECTIONS = (3, 6, 12, 24, 48, 96, 192)
_REQ_ROUNDING = 1e-4
"""Relative tolerance of the size of sections, which is a float of 32 bits."""


def require_hll(sketch: bytes) -> None:
    """Require an HLL sketch with as many coupons or registers as its size says, and their summaries."""
    lg_k, lg_slots, flags, coupons, mode = struct.unpack_from("<3x5B", sketch)
    _require(_HLL_LG_K[0] <= lg_k <= _HLL_LG_K[1], "size")
    form, target = mode & 3, mode >> 2
    _require(form <= 2 and target <= 2, "form")
    if form == 2:
        _require_registers(sketch, lg_k, target)
        return
    head = (8, 12)[form]
    if form == 1:
        (coupons,) = struct.unpack_from("<8xI", sketch)
    slots = 1 << min(lg_slots, lg_k)
    if form == 1:  # a hash set that is three quarters full at most
        fits = _HLL_LG_SET <= lg_slots <= lg_k - 3 and 4 * coupons <= 3 * slots
    else:  # a list, which is made a set when it is full: the library writes behind a longer one
        fits = lg_slots == _HLL_LG_LIST and coupons < slots
    _require(fits, "coupons")
    if flags & _HLL_EMPTY:
        _require(coupons == 0, "coupons")
        return
    stored = coupons if flags & _HLL_COMPACT else slots
    _require(len(sketch) == head + 4 * stored, "length")
    table = struct.unpack_from(f"<{stored}I", sketch, head)
    kept = [coupon for coupon in table if coupon]
    _require(len(set(kept)) == len(kept) == coupons, "coupons")
    _require(all(coupon >> _HLL_SLOT_BITS for coupon in kept), "coupons")
    if form == 1 and not flags & _HLL_COMPACT:
        _require(all(_is_findable(coupon, table) for coupon in kept), "coupons")


def _is_findable(coupon: int, table: Sequence[int]) -> bool:
    """Return whether the library finds a coupon in its hash table; else it adds it once more."""
    mask = len(table) - 1
    place = coupon & mask
    stride = (coupon & (1 << _HLL_SLOT_BITS) - 1) >> mask.bit_length() | 1
    for _ in table:
        if table[place] in {0, coupon}:
            return table[place] == coupon
        place = (place + stride) & mask
    return False


def _require_registers(sketch: bytes, lg_k: int, target: int) -> None:
    """Require registers within their range, and their summaries.

    A register of 4 bits holds the difference from the least value of all, or 15: its value is an entry of the
    auxiliary table then. The library looks for this entry without asking whether there is a table.
    """
    lg_slots, flags, least_value = struct.unpack_from("<4x3B", sketch)
    *sums, num_least, exceptions = struct.unpack_from("<8x3d2I", sketch)
    slots = 1 << lg_k
    _require(all(0 <= total < float("inf") for total in sums) and sums[1] + sums[2] > 0, "sums")
    _require(num_least <= slots and least_value <= _HLL_MAX_VALUE, "least value")
    end = _HLL_HEAD + _HLL_BYTES[target](slots)
    _require(len(sketch) >= end, "length")
    registers = sketch[_HLL_HEAD:end]
    if target:
        _require(not exceptions, "exceptions")
        _require(target == 1 or max(registers) <= _HLL_MAX_VALUE, "registers")
        return
    _require(least_value + _HLL_EXCEPTION - 1 <= _HLL_MAX_VALUE, "least value")
    _require(_count_nibbles(registers, _HLL_EXCEPTION) == exceptions, "exceptions")
    _require(_count_nibbles(registers, 0) == num_least, "least value")
    if not exceptions:
        return
    # The table is a list of entries if it is compact, else a hash table that is at most three quarters full.
    stored = exceptions
    if not flags & _HLL_COMPACT:
        stored = 1 << min(lg_slots, lg_k)
        _require(4 * exceptions <= 3 * stored, "exceptions")
    _require(len(sketch) == end + 4 * stored, "length")
    entries = [entry for entry in struct.unpack_from(f"<{stored}I", sketch, end) if entry]
    places = {entry & (slots - 1) for entry in entries}
    _require(len(places) == len(entries) == exceptions, "exceptions")
    for place in places:
        nibble = registers[place >> 1] >> 4 * (place & 1) & 15
        _require(nibble == _HLL_EXCEPTION, "exceptions")
    smallest = least_value + _HLL_EXCEPTION
    _require(all(entry >> _HLL_SLOT_BITS >= smallest for entry in entries), "exceptions")


def _count_nibbles(registers: bytes, value: int) -> int:
    """Return how many halves of bytes have a value."""
    low, high = (bytes(b for b in range(256) if b >> shift & 15 == value) for shift in (0, 4))
    return sum(len(registers) - len(registers.translate(None, some)) for some in (low, high))


_HLL_LG_K = (4, 21)
_HLL_LG_LIST, _HLL_LG_SET = 3, 5
"""log2 of the slots of a list, and of the smallest set."""
_HLL_EMPTY, _HLL_COMPACT = 4, 8
_HLL_HEAD = 40
"""Bytes before the registers."""
_HLL_SLOT_BITS = 26
"""Bits of a coupon, or of an entry of the auxiliary table, below its value."""
_HLL_MAX_VALUE = 63
_HLL_EXCEPTION = 15
"""Register of 4 bits whose value is in the auxiliary table."""
_HLL_BYTES = (lambda k: k // 2, lambda k: k * 3 // 4 + 1, lambda k: k)
"""Bytes of registers of 4, 6 and 8 bits."""


def require_frequent_items(sketch: bytes) -> None:
    """Require a sketch of frequent texts with as many of them as it says, of the lengths before them."""
    longs, _, _, lg_most, lg_slots, flags, _, _ = _HEAD.unpack_from(sketch)
    _require(lg_slots <= lg_most <= _ITEMS_LG_MOST and longs in {1, 4}, "slots")
    if longs == 1:
        _require(bool(flags & _ITEMS_EMPTY) and len(sketch) == 8, "length")
        return
    number, total, offset = struct.unpack_from("<8xI4x2Q", sketch)
    _require(not flags & _ITEMS_EMPTY and 0 < number <= 1 << lg_slots, "slots")
    weights = struct.unpack_from(f"<{number}Q", sketch, 32)
    _require(min(weights) > 0 and sum(weights) <= total <= MAX_COUNT, "number of values")
    _require(offset <= total, "number of values")
    at = 32 + 8 * number
    texts = set()
    for _ in range(number):
        (length,) = struct.unpack_from("<I", sketch, at)
        texts.add(sketch[at + 4 : at + 4 + length].decode())
        at += 4 + length
    _require(len(sketch) == at, "length")
    _require(len(texts) == number, "texts")


_ITEMS_EMPTY = 4 | 1
_ITEMS_LG_MOST = 20


def require_tuples(sketch: bytes, summary: int) -> None:
    """Require a compact tuple sketch of as many entries, with summaries of so many bytes, as it says."""
    longs, _, _, _, _, flags, _, _ = _HEAD.unpack_from(sketch)
    _require(1 <= longs <= 3, "preamble")
    number, theta = 0 if flags & _TUPLES_EMPTY else 1, _TUPLES_MAX_THETA
    if longs > 1:
        (number,) = struct.unpack_from("<8xI", sketch)
    if longs > 2:
        (theta,) = struct.unpack_from("<16xQ", sketch)
    _require(0 < theta <= _TUPLES_MAX_THETA, "share of the sample")
    _require(len(sketch) == 8 * longs + (8 + summary) * number, "length")
    # The sample holds the hashes below its share of all; 0 marks a free slot of the library's tables.
    hashes = [h for (h,) in struct.iter_unpack(f"<Q{summary}x", sketch[8 * longs :])]
    _require(all(0 < h < theta for h in hashes) and len(set(hashes)) == number, "hashes")
    _require(not flags & _TUPLES_ORDERED or hashes == sorted(hashes), "order of hashes")


_TUPLES_EMPTY, _TUPLES_ORDERED = 4, 16
_TUPLES_MAX_THETA = 2**63 - 1
"""Share of the hashes that are sampled, of 2 ** 63: all of them."""


def _require(fits: bool, what: str) -> None:  # noqa: FBT001 - as of assert
    if not fits:
        msg = f"its {what} does not fit its bytes"
        raise ValueError(msg)
