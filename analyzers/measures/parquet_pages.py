"""Parquet page headers: the memory that a stored file claims, read before its values are.

A reader takes the memory that a page's header asks for, and finds only then that the page is not like that.
Footer and page headers are structures of Thrift's compact protocol (`parquet.thrift` and Thrift's
specification say how); of them only what the memory of a column depends on is looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Fields = dict[int, tuple[int, Any]]
"""A structure: the type and value of each field, by its number."""

_I32, _I64, _LIST, _STRUCT = 5, 6, 9, 12
"""Types of the compact protocol. A reader passes over a field of another type than its definition's."""
_BYTE_ARRAY = 6
"""The type of texts and binaries, whose values are of any length."""
_ENCODINGS = {0, 2, 3, 8}
"""Plain, by a dictionary, and runs: of these each value is in the page or in its dictionary."""
_DEEPEST = 16
"""Structures within each other: Parquet's own are six."""


@dataclass(frozen=True, slots=True)
class ColumnPages:
    """The pages of one column in one row group.

    Attributes
    ----------
    values : int
        Values in its pages: one a row, nulls among them.
    least : int
        Bytes that they take in memory at least.
    dictionary : int
        Bytes of the texts that each value may repeat; 0 without a dictionary, and for numbers.
    packed : int
        Bytes of its pages as they are stored.
    """

    values: int
    least: int
    dictionary: int
    packed: int

    @property
    def most(self) -> int:
        """Bytes that the column takes in memory if each value is all that its dictionary holds."""
        return self.least + self.values * self.dictionary


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
    ValueError
        The bytes are no Parquet file, a page lies outside its column, or a column has other numbers of
        values than there are rows, as lists have.

    Examples
    --------
    >>> import io, pyarrow as pa, pyarrow.parquet as pq
    >>> sink = io.BytesIO()
    >>> pq.write_table(pa.table({"text": ["ab", "ab", "c"]}), sink)
    >>> column_pages(sink.getvalue())
    [ColumnPages(values=3, least=24, dictionary=11, packed=24)]
    """
    content = memoryview(file)  # of which parts are no copies
    end = len(content) - 8
    length = int.from_bytes(content[max(0, end) : end + 4], "little")
    if end < length or file[-4:] != b"PAR1":
        raise ValueError("not a Parquet file")
    try:
        footer = _Structures(content[:end], end - length).fields()
        groups = [one for _, one in _field(footer, 4, _LIST)]
        rows = [_field(group, 3, _I64) for group in groups]
        if sum(rows) != _field(footer, 3, _I64):
            raise ValueError(f"{_field(footer, 3, _I64)} rows, of which {sum(rows)} are there")
        elements = [one for _, one in _field(footer, 2, _LIST)]
        kinds = [one for one in elements if not _field(one, 5, _I32, 0)]  # that has no others in it
        return [
            _pages(content[: end - length], _field(one, 3, _STRUCT), number, kind)
            for group, number in zip(groups, rows, strict=True)
            for (_, one), kind in zip(_field(group, 1, _LIST), kinds, strict=True)
        ]
    except (IndexError, KeyError, TypeError, AttributeError) as error:
        raise ValueError("structures that are not Parquet's") from error


def _field(fields: Fields, number: int, kind: int, default: Any = None) -> Any:
    """Return the value of a field.

    Raises
    ------
    ValueError
        It is of another type, or there is none and no default.
    """
    found, value = fields.get(number, (kind, default))
    if found != kind or value is None:
        raise ValueError(f"no field {number} of type {kind}")
    return value


def _pages(file: memoryview, column: Fields, rows: int, element: Fields) -> ColumnPages:
    """Walk over the pages of a column from where a reader begins to where it ends."""
    kind = _field(element, 1, _I32)
    if _field(column, 1, _I32) != kind:
        raise ValueError("a column of another type than its schema's")
    start, before = _field(column, 9, _I64), _field(column, 11, _I64, 0)
    start = before if 0 < before < start else start
    end = start + _field(column, 7, _I64) if rows else start  # of no rows no page is written
    if not 0 <= start <= end <= len(file):
        raise ValueError(f"a column from byte {start} to {end} of {len(file)}")
    values = size = dictionary = stored = 0
    reader = _Structures(file[:end], start)
    while reader.position < end:
        page = reader.fields()
        plain, packed = _field(page, 2, _I32), _field(page, 3, _I32)
        of_dictionary, encoding, number = _contents(page)
        reader.position += packed
        if min(plain, packed, number) < 0 or reader.position > end:
            raise ValueError(f"a page of {packed} bytes, {plain} unpacked, with {number} values")
        if encoding not in _ENCODINGS:
            raise ValueError(f"a page of the encoding {encoding}")
        size += plain
        stored += packed
        if not of_dictionary:
            values += number
        elif number > plain:
            raise ValueError(f"a dictionary of {number} values in {plain} bytes")
        elif kind == _BYTE_ARRAY:
            dictionary += plain
    told = _field(column, 5, _I64)
    if not values == told == rows:
        raise ValueError(f"a column of {told} values, in its pages {values}, for {rows} rows")
    width = max(8, _field(element, 2, _I32, 0))
    return ColumnPages(values, max(size, width * values), dictionary, stored)


def _contents(page: Fields) -> tuple[bool, int, int]:
    """Return whether a page is a dictionary, its encoding, and its number of values."""
    for number, place in ((5, 2), (7, 2), (8, 4)):  # of data, of a dictionary, of data in version 2
        if number in page:
            head = _field(page, number, _STRUCT)
            return number == 7, _field(head, place, _I32), _field(head, 1, _I32)
    raise ValueError("a page of no known kind")


class _Structures:
    """Reader of structures in Thrift's compact protocol, one after the other from a position on."""

    def __init__(self, content: memoryview, position: int) -> None:
        self.content, self.position = content, position

    def fields(self, depth: int = 0) -> Fields:
        """Read one structure."""
        if depth > _DEEPEST:
            raise ValueError(f"structures more than {_DEEPEST} deep")
        found: Fields = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._signed()
            if number in found or not 0 < number < 1 << 15:
                raise ValueError(f"field {number} twice, or of no structure")
            kind = head & 0xF
            # Of a truth value the kind is the value.
            found[number] = kind, kind == 1 if kind in {1, 2} else self._value(kind, depth)
        return found

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
