"""Layouts of serialized DataSketches, checked before the library reads bytes that may be damaged.

The library believes numbers of levels, sizes and slots as they are written: a wrong one may end the
process, or take all memory. Each function requires that what is written there fits the other bytes, and
raises `ValueError` or `struct.error` if not.
"""

from __future__ import annotations

import struct
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_HEAD = struct.Struct("<8B")
"""Longs of the preamble, version, family, four bytes of each family's own and flags among them."""


def require_kll(sketch: bytes) -> None:
    """Require a KLL sketch of doubles whose levels hold as many values as there are."""
    flags, k = struct.unpack_from("<3xBH", sketch)
    if flags & _KLL_SHORT:
        return
    n, least_k, number = struct.unpack_from("<8xQHB", sketch)
    _require(0 < number <= _KLL_LEVELS and _KLL_K <= least_k <= k, "levels")
    sizes = _kll_sizes(sketch)
    _require(min(sizes) >= 0, "levels")
    _require(n == sum(size << level for level, size in enumerate(sizes)), "number of values")
    _require(len(sketch) == _kll_start(number) + 8 * sum(sizes), "length")


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


_KLL_SINGLE = 4
_KLL_SHORT = 1 | _KLL_SINGLE
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
    else:
        _require(0 < number <= _REQ_LEVELS, "levels")
        at, n = 8, None
        if number > 1:
            (n,) = struct.unpack_from("<Q", sketch, at)
            at += 24
        found = 0
        for level in range(number):
            _, section, weight, sections, size = struct.unpack_from("<QfBBxxI", sketch, at)
            _require(weight == level and 0 < sections <= _REQ_SECTIONS, "levels")
            _require(_REQ_SECTION <= section <= k, "size of sections")
            found += size << level
            at += 20 + 8 * size
        _require(len(sketch) == at, "length")
        _require(found > 0 and n in {None, found}, "number of values")


_REQ_K = (4, 1024)
_REQ_EMPTY, _REQ_RAW = 4, 16
_REQ_MOST_RAW = 4
_REQ_LEVELS = 60
_REQ_SECTION, _REQ_SECTIONS = 2, 192


def require_hll(sketch: bytes) -> None:
    """Require an HLL sketch with as many coupons or registers as its size says."""
    lg_k, lg_slots, flags, coupons, mode = struct.unpack_from("<3x5B", sketch)
    _require(_HLL_LG_K[0] <= lg_k <= _HLL_LG_K[1], "size")
    form, target = mode & 3, mode >> 2
    _require(form <= 2 and target <= 2, "form")
    if form == 2:
        _require(len(sketch) >= 40 + _HLL_BYTES[target](1 << lg_k), "length")
        (further,) = struct.unpack_from("<36xI", sketch)
        _require(further <= 1 << lg_k and (target == 0 or not further), "registers")
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
    empty = struct.unpack_from(f"<{stored}I", sketch, head).count(0)
    _require(stored - empty == coupons, "coupons")


_HLL_LG_K = (4, 21)
_HLL_LG_LIST, _HLL_LG_SET = 3, 5
"""log2 of the slots of a list, and of the smallest set."""
_HLL_EMPTY, _HLL_COMPACT = 4, 8
_HLL_BYTES = (lambda k: k // 2, lambda k: k * 3 // 4 + 1, lambda k: k)
"""Bytes of registers of 4, 6 and 8 bits."""


def require_frequent_items(sketch: bytes) -> None:
    """Require a sketch of frequent texts with as many of them as it says, of the lengths before them."""
    longs, _, _, lg_most, lg_slots, flags, _, _ = _HEAD.unpack_from(sketch)
    _require(lg_slots <= lg_most <= _ITEMS_LG_MOST and longs in {1, 4}, "slots")
    if longs == 1:
        _require(bool(flags & _ITEMS_EMPTY) and len(sketch) == 8, "length")
        return
    (number,) = struct.unpack_from("<8xI", sketch)
    _require(not flags & _ITEMS_EMPTY and 0 < number <= 1 << lg_slots, "slots")
    at = 32 + 8 * number
    for _ in range(number):
        (length,) = struct.unpack_from("<I", sketch, at)
        at += 4 + length
    _require(len(sketch) == at, "length")


_ITEMS_EMPTY = 4 | 1
_ITEMS_LG_MOST = 20


def require_tuples(sketch: bytes, summary: int) -> None:
    """Require a compact tuple sketch of as many entries, with summaries of so many bytes, as it says."""
    longs, _, _, _, _, flags, _, _ = _HEAD.unpack_from(sketch)
    _require(1 <= longs <= 3, "preamble")
    if longs > 1:
        (number,) = struct.unpack_from("<8xI", sketch)
    else:
        number = 0 if flags & _TUPLES_EMPTY else 1
    _require(len(sketch) == 8 * longs + (8 + summary) * number, "length")


_TUPLES_EMPTY = 4


def _require(fits: bool, what: str) -> None:  # noqa: FBT001 - as of assert
    if not fits:
        msg = f"its {what} does not fit its bytes"
        raise ValueError(msg)
