"""Layouts of serialized sketches and frequencies, checked before a library reads bytes that may be damaged or crafted.

A Parquet reader allocates the memory that a page's header requests before it checks the page. The footer and page
headers are structures of Thrift's compact protocol (see `parquet.thrift` and Thrift's specification). Only the
fields that determine the memory of a column are checked.

The DataSketches library does not check numbers of levels, sizes, slots and registers. A wrong number can end the
process when the sketch is read, merged or queried, or take all memory. Each ``require_`` function checks that the
numbers fit the other bytes, and that the values are valid: no NaN, sorted where the library sorts them, hashes
within their range. It raises `ValueError` or `struct.error` otherwise.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import isnan
from typing import TYPE_CHECKING, Any

from tidegauge.analyzers.core.state import MAX_COUNT

if TYPE_CHECKING:
    from collections.abc import Sequence


Fields = dict[int, tuple[int, Any]]
"""The type and value of each field of a structure, by field number."""

_I32_TYPE, _I64_TYPE, _LIST_TYPE, _STRUCT_TYPE = 5, 6, 9, 12
"""Types of the compact protocol. Readers skip fields whose type differs from the definition."""
_BYTE_ARRAY = 6
"""The physical type of strings and binaries, whose values have any length."""
_READABLE_ENCODINGS = {0, 2, 3, 8}
"""Plain, dictionary and run-length encodings: each value is in the page or in its dictionary."""
_MAX_DEPTH = 16
"""Maximum nesting of structures; Parquet's own structures have a depth of six."""


@dataclass(frozen=True, slots=True)
class ColumnPages:
    """The pages of one column in one row group.

    Attributes
    ----------
    values : int
        Number of values in its pages: one per row, including nulls.
    min_bytes : int
        Minimum size of the values in memory, in bytes.
    dictionary : int
        Bytes of the strings that each value can repeat; 0 without a dictionary, and for numbers.
    packed : int
        Size of its pages in the file, in bytes.
    """

    values: int
    min_bytes: int
    dictionary: int
    packed: int

    @property
    def max_bytes(self) -> int:
        """Size of the column in memory, in bytes, if each value is as large as the whole dictionary."""
        return self.min_bytes + self.values * self.dictionary


def column_pages(file: bytes) -> list[ColumnPages]:
    """Read the headers of all pages of a Parquet file, without their values.

    Parameters
    ----------
    file : bytes
        The whole file.

    Returns
    -------
    list of ColumnPages
        One for each column of each row group.

    Raises
    ------
    ValueError If the bytes are not a Parquet file, a page is outside its column, or a column has more or
    fewer values than rows, as a list does.

    Examples
    --------
    >>> import io, pyarrow as pa, pyarrow.parquet as pq
    >>> sink = io.BytesIO()
    >>> pq.write_table(pa.table({"text": ["ab", "ab", "c"]}), sink)
    >>> column_pages(sink.getvalue())
    [ColumnPages(values=3, min_bytes=24, dictionary=11, packed=24)]
    """
    content = memoryview(file)  # slices are not copied
    end = len(content) - 8
    length = int.from_bytes(content[max(0, end) : end + 4], "little")
    if end < length or file[-4:] != b"PAR1":
        raise ValueError("not a Parquet file")
    try:
        footer = _Structures(content[:end], end - length).fields()
        groups = [element for _, element in _field(footer, 4, _LIST_TYPE)]
        rows = [_field(group, 3, _I64_TYPE) for group in groups]
        if sum(rows) != _field(footer, 3, _I64_TYPE):
            raise ValueError(
                f"{_field(footer, 3, _I64_TYPE)} rows stated, but {sum(rows)} rows in groups"
            )
        elements = [element for _, element in _field(footer, 2, _LIST_TYPE)]
        kinds = [
            element for element in elements if not _field(element, 5, _I32_TYPE, 0)
        ]  # that has no others in it
        return [
            _pages(content[: end - length], _field(element, 3, _STRUCT_TYPE), number, kind)
            for group, number in zip(groups, rows, strict=True)
            for (_, element), kind in zip(_field(group, 1, _LIST_TYPE), kinds, strict=True)
        ]
    except (IndexError, KeyError, TypeError, AttributeError) as error:
        raise ValueError("structures that are not Parquet's") from error


def _field(fields: Fields, number: int, kind: int, default: Any = None) -> Any:
    """Return the value of a field.

    Raises
    ------
    ValueError If the field has another type, or is missing and has no default.
    """
    stored_kind, value = fields.get(number, (kind, default))
    if stored_kind != kind or value is None:
        raise ValueError(f"no field {number} of type {kind}")
    return value


def _pages(file: memoryview, column: Fields, rows: int, element: Fields) -> ColumnPages:
    """Return the memory that a column needs, from the headers of all pages that a reader would read."""
    kind = _field(element, 1, _I32_TYPE)
    if _field(column, 1, _I32_TYPE) != kind:
        raise ValueError("a column of another type than its schema's")
    start, before = _field(column, 9, _I64_TYPE), _field(column, 11, _I64_TYPE, 0)
    start = before if 0 < before < start else start
    end = (
        start + _field(column, 7, _I64_TYPE) if rows else start
    )  # without rows, no page is written
    if not 0 <= start <= end <= len(file):
        raise ValueError(f"a column from byte {start} to {end} of {len(file)}")
    values = size = dictionary = stored = 0
    reader = _Structures(file[:end], start)
    while reader.position < end:
        page = reader.fields()
        plain, packed = _field(page, 2, _I32_TYPE), _field(page, 3, _I32_TYPE)
        of_dictionary, encoding, number = _contents(page)
        reader.position += packed
        if min(plain, packed, number) < 0 or reader.position > end:
            raise ValueError(f"a page of {packed} bytes, {plain} unpacked, with {number} values")
        if encoding not in _READABLE_ENCODINGS:
            raise ValueError(f"a page of the encoding {encoding}")
        size += plain
        stored += packed
        if not of_dictionary:
            values += number
        elif number > plain:
            raise ValueError(f"a dictionary of {number} values in {plain} bytes")
        elif kind == _BYTE_ARRAY:
            dictionary += plain
    stated = _field(column, 5, _I64_TYPE)
    if not values == stated == rows:
        raise ValueError(f"a column of {stated} values, in its pages {values}, for {rows} rows")
    width = max(8, _field(element, 2, _I32_TYPE, 0))
    return ColumnPages(values, max(size, width * values), dictionary, stored)


def _contents(page: Fields) -> tuple[bool, int, int]:
    """Return whether a page is a dictionary, its encoding, and its number of values."""
    for number, value_field in (
        (5, 2),
        (7, 2),
        (8, 4),
    ):  # of data, of a dictionary, of data in version 2
        if number in page:
            head = _field(page, number, _STRUCT_TYPE)
            return number == 7, _field(head, value_field, _I32_TYPE), _field(head, 1, _I32_TYPE)
    raise ValueError("a page of no known kind")


class _Structures:
    """Reader of consecutive structures in Thrift's compact protocol, from a given position."""

    def __init__(self, content: memoryview, position: int) -> None:
        self.content, self.position = content, position

    def fields(self, depth: int = 0) -> Fields:
        """Read one structure."""
        if depth > _MAX_DEPTH:
            raise ValueError(f"structures more than {_MAX_DEPTH} deep")
        fields_read: Fields = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._signed()
            if number in fields_read or not 0 < number < 1 << 15:
                raise ValueError(f"field {number} twice, or of no structure")
            kind = head & 0xF
            # The kind of a boolean is its value.
            fields_read[number] = kind, kind == 1 if kind in {1, 2} else self._value(kind, depth)
        return fields_read

    def _value(self, kind: int, depth: int) -> Any:
        match kind:
            case 1 | 2 | 3:
                return self._byte()
            case 4 | 5 | 6:
                return self._signed()
            case 7:
                return self._skip(8)
            case 8:
                return self._skip(self._unsigned())
            case 9 | 10:
                return list(self._items(depth))
            case 12:
                return self.fields(depth + 1)
            case _:
                raise ValueError(f"a value of type {kind}")  # Parquet has no maps

    def _items(self, depth: int) -> Iterator[Any]:
        head = self._byte()
        size = self._unsigned() if head >> 4 == 0xF else head >> 4
        for _ in range(size):
            yield head & 0xF, self._value(head & 0xF, depth)

    def _byte(self) -> int:
        value = self.content[self.position]
        self.position += 1
        return value

    def _skip(self, size: int) -> None:
        self.position += size
        if self.position > len(self.content):
            raise ValueError(f"a value of {size} bytes that ends after the file")

    def _unsigned(self) -> int:
        value = shift = 0
        while shift < 64:
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
        raise ValueError("a number of more than 64 bits")

    def _signed(self) -> int:
        value = self._unsigned()
        return value >> 1 ^ -(value & 1)


_PREAMBLE_LAYOUT = struct.Struct("<8B")
"""Longs of the preamble, version, family, four bytes that depend on the family, and flags."""


def require_kll(sketch: bytes) -> None:
    """Require a KLL sketch of doubles whose levels match its stated number of values."""
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
    """Return consecutive values of a sketch."""
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
    """Require values between the minimum and the maximum, without NaN, and sorted levels.

    The library compares values without a check for NaN, and merges levels above the first as if they were
    sorted.
    """
    for level, values in enumerate(levels):
        _require(not any(map(isnan, values)), "NaN")
        if values and ends:
            _require(ends[0] <= min(values) and max(values) <= ends[1], "least or greatest value")
        if level or first_sorted:
            _require(list(values) == sorted(values), "order of values")


@dataclass(frozen=True)
class KllLayout:
    """A valid KLL sketch of doubles.

    Attributes
    ----------
    least_k : int
        The least ``k`` of the estimating sketches merged into it, which decides the bound on the error.
    low, high : float
        The least and the greatest value.
    levels : sequence of sequence of float
        The retained values; each value of level ``h`` represents ``2 ** h`` values.
    """

    least_k: int
    low: float
    high: float
    levels: Sequence[Sequence[float]]


def read_kll(sketch: bytes) -> KllLayout:
    """Read a valid KLL sketch that holds values."""
    flags, k = struct.unpack_from("<3xBH", sketch)
    if flags & _KLL_SINGLE:
        (value,) = struct.unpack_from("<8xd", sketch)
        return KllLayout(k, value, value, [[value]])
    (least_k,) = struct.unpack_from("<16xH", sketch)
    sizes = _kll_sizes(sketch)
    low, high = struct.unpack_from("<2d", sketch, 20 + 4 * len(sizes))
    at, levels = _kll_start(len(sizes)), []
    for size in sizes:
        levels.append(_doubles(sketch, at, size))
        at += 8 * size
    return KllLayout(least_k, low, high, levels)


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
    if flags & _KLL_EMPTY:
        return
    for level, values in enumerate(read_kll(sketch).levels):
        for value in values:
            yield value, 1 << level


def _kll_sizes(sketch: bytes) -> list[int]:
    """Return how many values each level has, the lowest first."""
    k, m, number = struct.unpack_from("<4xHB11xB", sketch)
    starts = struct.unpack_from(f"<20x{number}I", sketch)
    levels = [*starts, sum(kll_capacity(k, m, depth) for depth in range(number))]
    return [end - start for start, end in pairwise(levels)]


def _kll_start(levels: int) -> int:
    """Return where the retained values begin: after the least and the greatest value."""
    return 20 + 4 * levels + 2 * 8


_KLL_EMPTY, _KLL_FIRST_SORTED, _KLL_SINGLE = 1, 2, 4
_KLL_SHORT = _KLL_EMPTY | _KLL_SINGLE
"""Flags of sketches that are empty, or of a single value: they have no levels."""
_KLL_LEVELS = 61
_KLL_K = 8


def kll_capacity(k: int, m: int, depth: int) -> int:
    """Return the size of a level: k at the top, and two thirds as much at each lower level."""
    steps = [depth] if depth <= _KLL_LEVELS // 2 else [depth // 2, depth - depth // 2]
    for step in steps:
        k = (2 * (k << step) // 3**step + 1) >> 1
    return max(m, k)


def require_req(sketch: bytes) -> None:
    """Require a REQ sketch of doubles whose levels match its stated number of values."""
    flags, k, number, raw = struct.unpack_from("<3xBHBB", sketch)
    _require(_REQ_K_RANGE[0] <= k <= _REQ_K_RANGE[1] and k % 2 == 0, "k")
    if flags & _REQ_EMPTY:
        _require(len(sketch) == 8, "length")
    elif flags & _REQ_RAW:
        _require(number == 1 and 0 < raw <= _MAX_RAW_REQ_VALUES, "levels")
        _require(len(sketch) >= 8 + 8 * raw, "length")  # the library writes zeros after them
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


@dataclass(frozen=True)
class ReqLayout:
    """A valid REQ sketch of doubles.

    Attributes
    ----------
    low, high : float
        The least and the greatest value.
    states : sequence of int
        A binary counter for each level, which decides how much of the level is halved next.
    levels : sequence of sequence of float
        The retained values; each value of level ``h`` represents ``2 ** h`` values.
    """

    k: int
    high_ranks: bool
    low: float
    high: float
    states: Sequence[int]
    levels: Sequence[Sequence[float]]


def read_req(sketch: bytes) -> ReqLayout:
    """Read a valid REQ sketch that holds values."""
    flags, k, number, raw = struct.unpack_from("<3xBHBB", sketch)
    high_ranks = bool(flags & _REQ_HIGH_RANKS)
    if flags & _REQ_RAW:
        values = _doubles(sketch, 8, raw)
        return ReqLayout(k, high_ranks, min(values), max(values), [0], [values])
    at, states, levels = 8 if number == 1 else 32, [], []
    for _ in range(number):
        state, size = struct.unpack_from("<Q8xI", sketch, at)
        states.append(state)
        levels.append(_doubles(sketch, at + 20, size))
        at += 20 + 8 * size
    if number == 1:
        low, high = min(levels[0]), max(levels[0])
    else:
        low, high = struct.unpack_from("<2d", sketch, 16)
    return ReqLayout(k, high_ranks, low, high, states, levels)


_REQ_K_RANGE = (4, 1024)
_REQ_EMPTY, _REQ_HIGH_RANKS, _REQ_RAW, _REQ_FIRST_SORTED = 4, 8, 16, 32
_MAX_RAW_REQ_VALUES = 4
_REQ_LEVELS = 60
_REQ_SECTIONS = (3, 6, 12, 24, 48, 96, 192)
_REQ_ROUNDING = 1e-4
"""Relative tolerance of the size of sections, which is a float of 32 bits."""


def require_hll(sketch: bytes) -> None:
    """Require an HLL sketch whose coupons or registers, and their summaries, match its stated size."""
    lg_k, lg_slots, flags, coupons, mode = struct.unpack_from("<3x5B", sketch)
    _require(_HLL_LG_K_RANGE[0] <= lg_k <= _HLL_LG_K_RANGE[1], "size")
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
    coupons_present = [coupon for coupon in table if coupon]
    _require(len(set(coupons_present)) == len(coupons_present) == coupons, "coupons")
    _require(all(coupon >> _HLL_SLOT_BITS for coupon in coupons_present), "coupons")
    if form == 1 and not flags & _HLL_COMPACT:
        _require(all(_is_findable(coupon, table) for coupon in coupons_present), "coupons")


def _is_findable(coupon: int, table: Sequence[int]) -> bool:
    """Return whether the library finds a coupon in its hash table; if not, it would add the coupon again."""
    mask = len(table) - 1
    slot = coupon & mask
    stride = (coupon & (1 << _HLL_SLOT_BITS) - 1) >> mask.bit_length() | 1
    for _ in table:
        if table[slot] in {0, coupon}:
            return table[slot] == coupon
        slot = (slot + stride) & mask
    return False


def _require_registers(sketch: bytes, lg_k: int, target: int) -> None:
    """Require registers within their range, and their summaries.

    A register of 4 bits holds the difference from the smallest value of all registers. If it is 15, the value
    is in the auxiliary table. The library looks this entry up without checking that the table exists.
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
    positions = {entry & (slots - 1) for entry in entries}
    _require(len(positions) == len(entries) == exceptions, "exceptions")
    for position in positions:
        nibble = registers[position >> 1] >> 4 * (position & 1) & 15
        _require(nibble == _HLL_EXCEPTION, "exceptions")
    smallest = least_value + _HLL_EXCEPTION
    _require(all(entry >> _HLL_SLOT_BITS >= smallest for entry in entries), "exceptions")


def _count_nibbles(registers: bytes, value: int) -> int:
    """Return how many halves of bytes have a value."""
    low, high = (bytes(b for b in range(256) if b >> shift & 15 == value) for shift in (0, 4))
    return sum(
        len(registers) - len(registers.translate(None, others_removed))
        for others_removed in (low, high)
    )


_HLL_LG_K_RANGE = (4, 21)
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
    """Require a sketch of frequent strings whose number and lengths match the stated ones."""
    longs, _, _, lg_most, lg_slots, flags, _, _ = _PREAMBLE_LAYOUT.unpack_from(sketch)
    _require(lg_slots <= lg_most <= _MAX_LG_SLOTS and longs in {1, 4}, "slots")
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
_MAX_LG_SLOTS = 20


def require_tuples(sketch: bytes, summary: int) -> None:
    """Require a compact tuple sketch whose entries and size of summaries match the stated numbers."""
    longs, _, _, _, _, flags, _, _ = _PREAMBLE_LAYOUT.unpack_from(sketch)
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
"""Sampling threshold, out of 2 ** 63, if all hashes are sampled."""


def _require(fits: bool, part: str) -> None:  # noqa: FBT001 - as of assert
    if not fits:
        msg = f"its {part} does not fit its bytes"
        raise ValueError(msg)
