"""Parquet page headers: the memory that a stored file claims, read before its values are.

A reader takes the memory that a page's header asks for, and finds only then that the page is not like that.
Footer and page headers are structures of Thrift's compact protocol (`parquet.thrift` and Thrift's
specification say how); of them only what the memory of a column depends on is looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Fields = dict[int, Any]
"""A structure: its values by the number of their field."""

_BYTE_ARRAY = 6
"""The type of texts and binaries, whose values are of any length."""
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
    """

    values: int
    least: int
    dictionary: int

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
    [ColumnPages(values=3, least=24, dictionary=11)]
    """
    content = memoryview(file)  # of which parts are no copies
    end = len(content) - 8
    length = int.from_bytes(content[max(0, end) : end + 4], "little")
    if end < length or file[-4:] != b"PAR1":
        raise ValueError("not a Parquet file")
    try:
        footer = _Structures(content[:end], end - length).fields()
        groups = footer.get(4, [])
        if (rows := sum(group[3] for group in groups)) != footer[3]:
            raise ValueError(f"{footer[3]} rows, of which {rows} are there")
        columns = [
            element for element in footer[2] if not element.get(5)
        ]  # that has no others in it
        return [
            _pages(content[: end - length], one[3], group[3], max(8, column.get(2, 0)))
            for group in groups
            for one, column in zip(group[1], columns, strict=True)
        ]
    except (IndexError, KeyError, TypeError, AttributeError) as error:
        raise ValueError("structures that are not Parquet's") from error


def _pages(file: memoryview, column: Fields, rows: int, width: int) -> ColumnPages:
    """Walk over the pages of a column from where a reader begins to where it ends."""
    start, before = column[9], column.get(11, 0)
    start = before if 0 < before < start else start
    end = start + column[7] if rows else start  # of no rows no page is written
    if not 0 <= start <= end <= len(file):
        raise ValueError(f"a column from byte {start} to {end} of {len(file)}")
    values = size = dictionary = 0
    reader = _Structures(file[:end], start)
    while reader.position < end:
        page = reader.fields()
        plain, packed = page[2], page[3]
        head = page.get(5) or page.get(7) or page.get(8) or {}
        number = head.get(1, 0)
        reader.position += packed
        if min(plain, packed, number) < 0 or reader.position > end:
            raise ValueError(f"a page of {packed} bytes, {plain} unpacked, with {number} values")
        size += plain
        if 7 not in page:
            values += number
        elif column[1] == _BYTE_ARRAY:
            dictionary += plain
    if not values == column[5] == rows:
        raise ValueError(f"a column of {column[5]} values, in its pages {values}, for {rows} rows")
    return ColumnPages(values, max(size, width * values), dictionary)


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
            kind = head & 0xF
            # Of a truth value the kind is the value.
            found[number] = kind == 1 if kind in {1, 2} else self._value(kind, depth)
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
            yield self._value(head & 0xF, depth)

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
