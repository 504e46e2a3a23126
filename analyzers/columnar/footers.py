"""Schemas and statistics in the footers of Parquet files, as Spark reads them.

`merged_footers` describes the files of a partition, or returns None if Spark must decide how they are read: for
columns of different types, nested columns of other writers, or types that Spark rejects. Single columns can be
unreadable for other reasons; see `FileColumn`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from tidegauge.analyzers.core.columnar import DAY_MICROS, InexactError, decimal_from, exact_times
from tidegauge.analyzers.core.filesystems import file_system
from tidegauge.analyzers.core.schema import INTEGRAL, TEMPORAL, Schema
from tidegauge.analyzers.core.sql import quote
from tidegauge.analyzers.core.state import Number

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

FOOTER_THREADS = 16
"""Number of footers that are read concurrently. On object stores, nearly all of the time is latency."""
_SPARK_SCHEMA_KEY = b"org.apache.spark.sql.parquet.row.metadata"
_MILLI_MICROS = 1000
_MAX_DECIMAL_DIGITS = 38
"""Number of digits of Spark's largest decimal type."""

_PLAIN_TYPES = {
    "BOOLEAN": "boolean",
    "INT32": "integer",
    "INT64": "long",
    "INT96": "timestamp",
    "FLOAT": "float",
    "DOUBLE": "double",
    "BYTE_ARRAY": "binary",
}
"""Spark's types of columns without a logical type, by physical type."""
_INTEGER_TYPES = {
    (8, True): "byte",
    (16, True): "short",
    (32, True): "integer",
    (64, True): "long",
    (8, False): "short",
    (16, False): "integer",
    (32, False): "long",
    (64, False): "decimal(20,0)",
}
"""Spark's types of integers, by number of bits and whether they have a sign."""
_ARROW_TYPES = {
    "boolean": "bool",
    "byte": "int8",
    "short": "int16",
    "integer": "int32",
    "long": "int64",
    "float": "float",
    "double": "double",
    "date": "date32[day]",
}
"""Arrow's types that hold the same values as Spark's types; see also `_is_same_type`."""


@dataclass(frozen=True)
class FileColumn:
    """A top-level column in one file.

    Attributes
    ----------
    name : str
        The column's name in the file.
    type : str or mapping
        Spark's type, in its JSON form.
    index : int or None
        Position among the file's leaf columns; None for nested columns, and for columns that Arrow reads with
        other values than Spark.
    """

    name: str
    type: Any
    index: int | None


@dataclass(frozen=True)
class Footer:
    """The footer of a file, with Spark's schema of the file.

    Attributes
    ----------
    location : str
        Path or URI of the file.
    metadata : pyarrow.parquet.FileMetaData
        The footer.
    columns : mapping of str to FileColumn
        The top-level columns, by name in lower case.
    """

    location: str
    metadata: pq.FileMetaData
    columns: Mapping[str, FileColumn]

    def chunk_bytes(self, column: str, groups: Iterable[int] | None = None) -> int:
        """Return the compressed bytes of a column, by name in lower case, in some or all row groups."""
        file_column = self.columns.get(column)
        if file_column is None or file_column.index is None:
            return 0
        if groups is None:
            groups = range(self.metadata.num_row_groups)
        chunks = (self.metadata.row_group(i).column(file_column.index) for i in groups)
        return sum(chunk.total_compressed_size for chunk in chunks)

    def has_dictionary(self, column: str, groups: Iterable[int]) -> bool:
        """Return whether a column may have a dictionary in one of the row groups."""
        file_column = self.columns[column.casefold()]
        chunks = (self.metadata.row_group(i).column(file_column.index) for i in groups)
        return any("DICTIONARY" in encoding for chunk in chunks for encoding in chunk.encodings)


@dataclass(frozen=True)
class PartitionFooters:
    """The footers of the files of one partition; implements `tidegauge.analyzers.core.columnar.PartitionMetadata`.

    Attributes
    ----------
    footers : tuple of Footer
        The footers, the newest file first.
    schema : Schema
        The partition's columns, partition columns included.
    nullable : frozenset of str
        Columns, in lower case, that are null in files without them, even if no file has them.
    """

    footers: tuple[Footer, ...]
    schema: Schema
    nullable: frozenset[str] = frozenset()

    @cached_property
    def rows(self) -> int:
        """The number of rows."""
        return sum(footer.metadata.num_rows for footer in self.footers)

    @cached_property
    def readable(self) -> frozenset[str]:
        """The columns that Arrow reads with the same values as Spark."""
        unreadable = {
            name for f in self.footers for name, c in f.columns.items() if c.index is None
        }
        names = {name for f in self.footers for name in f.columns} | self.nullable
        names -= unreadable
        return frozenset(name for name in self.schema.names if name.casefold() in names)

    def rows_without_dictionary(self, column: str) -> int:
        """Return the number of rows in row groups in which a column has no dictionary: most values differ."""
        return sum(
            footer.metadata.row_group(i).num_rows
            for footer in self.footers
            if column.casefold() in footer.columns
            for i in range(footer.metadata.num_row_groups)
            if not footer.has_dictionary(column, [i])
        )

    def values(self, column: str) -> int | None:
        """Return the number of values that are not null; None if a file does not tell."""
        if column not in self.readable:
            return None
        total = 0
        for footer in self.footers:
            for rows, statistics, is_required in self._chunks(footer, column):
                if is_required:
                    total += rows
                elif statistics is None or not statistics.has_null_count:
                    return None
                else:
                    total += rows - int(statistics.null_count)
        return total

    def lower(self, column: str) -> Number | None:
        """Return the minimum of numbers. NaN is the greatest number, and statistics leave it out."""
        if self.schema.field_type(column) not in {"float", "double"}:
            return (self.bounds(column) or (None, None))[0]
        if column not in self.readable:
            return None
        lows = []
        for footer in self.footers:
            for rows, statistics, _ in self._chunks(footer, column):
                if statistics is None:
                    return None
                if statistics.has_min_max:
                    low, high = float(statistics.min_raw), float(statistics.max_raw)
                    if not low <= high:  # of a writer that met nothing but NaN
                        return None
                    lows.append(low + 0.0)  # the sign of zero is not known
                elif not statistics.has_null_count or statistics.null_count < rows:
                    return None
        return min(lows, default=None)

    def bounds(self, column: str) -> tuple[Number | None, Number | None] | None:
        """Return the minimum and maximum of integers and decimals; both are None if all values are null."""
        field = self.schema.field(quote(column))
        if field.kind not in {*INTEGRAL, "decimal"}:
            return None
        ends = self._raw_bounds(column)
        if ends is None:
            return None
        if not ends:
            return None, None
        low, high = min(low for low, _ in ends), max(high for _, high in ends)
        if field.kind == "decimal":
            scale = field.digits[1]
            return decimal_from(low, scale), decimal_from(high, scale)
        return low, high

    def times(self, column: str) -> tuple[int, int] | None:
        """Return the earliest and latest time in microseconds; (0, 0) if all values are null."""
        kind = self.schema.field_type(column)
        if kind not in TEMPORAL:
            return None
        ends = self._raw_bounds(column)
        if ends is None:
            return None
        if not ends:
            return 0, 0
        try:
            return exact_times(min(low for low, _ in ends), max(high for _, high in ends))
        except InexactError:
            return None

    def _raw_bounds(self, column: str) -> list[tuple[int, int]] | None:
        """Return the bounds of each row group with values; None if a row group does not have them.

        Times are in microseconds.
        """
        if column not in self.readable:
            return None
        ends = []
        for footer in self.footers:
            unit = _unit_micros(footer, column)
            if unit is None:
                return None
            for rows, statistics, _ in self._chunks(footer, column):
                if statistics is None:
                    return None
                if statistics.has_min_max:
                    low, high = map(_as_integer, (statistics.min_raw, statistics.max_raw))
                    ends.append((low * unit, high * unit))
                elif not statistics.has_null_count or statistics.null_count < rows:
                    return None
        return ends

    @staticmethod
    def _chunks(footer: Footer, column: str) -> Iterable[tuple[int, Any, bool]]:
        """Yield the rows, statistics and whether the column is required, for each row group with rows.

        A file that lacks the column has none.
        """
        file_column = footer.columns.get(column.casefold())
        if file_column is None or file_column.index is None:
            return
        is_required = footer.metadata.schema.column(file_column.index).max_definition_level == 0
        for i in range(footer.metadata.num_row_groups):
            group = footer.metadata.row_group(i)
            if group.num_rows:
                yield group.num_rows, group.column(file_column.index).statistics, is_required


def _unit_micros(footer: Footer, column: str) -> int | None:
    """Return the factor from a column's statistics to its values; None if they are not signed integers."""
    file_column = footer.columns.get(column.casefold())
    if file_column is None or file_column.index is None:
        return 1
    leaf = footer.metadata.schema.column(file_column.index)
    logical = json.loads(leaf.logical_type.to_json())
    match leaf.physical_type, logical["Type"]:
        case ("INT32", "Date"):
            return DAY_MICROS
        case ("INT64", "Timestamp"):
            return _MILLI_MICROS if logical["timeUnit"] == "milliseconds" else 1
        case ("INT32" | "INT64", "Int") if logical["isSigned"]:
            return 1
        case ("INT32" | "INT64", "None") | ("INT32" | "INT64" | "FIXED_LEN_BYTE_ARRAY", "Decimal"):
            return 1
    return None


def _as_integer(raw: int | bytes) -> int:
    """Return a bound as an integer; bytes are the digits of a decimal."""
    return int.from_bytes(raw, "big", signed=True) if isinstance(raw, bytes) else raw


def read_footers(
    locations: Sequence[str],
    columns_of: Callable[[pq.FileMetaData], Mapping[str, FileColumn] | None] | None = None,
) -> list[Footer] | None:
    """Read the footers of files; None if a file is not one that Spark and Arrow read alike.

    Parameters
    ----------
    locations : sequence of str
        Paths or URIs of the files.
    columns_of : callable, optional
        Returns the columns of a file, or None; see `file_columns`, the default, and `table_columns`.

    Raises
    ------
    OSError, pyarrow.ArrowException
        If a file cannot be read.
    """
    read = partial(_read_footer, columns_of=columns_of or file_columns)
    if len(locations) == 1:
        footers = [read(locations[0])]
    else:
        with ThreadPoolExecutor(min(FOOTER_THREADS, len(locations) or 1)) as pool:
            footers = list(pool.map(read, locations))
    known = [footer for footer in footers if footer is not None]
    return known if len(known) == len(footers) else None


def _read_footer(
    location: str, columns_of: Callable[[pq.FileMetaData], Mapping[str, FileColumn] | None]
) -> Footer | None:
    import pyarrow.parquet as pq

    system, path = file_system(location)
    metadata = pq.read_metadata(path, filesystem=system)
    columns = columns_of(metadata)
    return None if columns is None else Footer(location, metadata, columns)


_WIDER_INTEGERS = ("byte", "short", "integer", "long")


def table_columns(
    metadata: pq.FileMetaData,
    names: Mapping[str, str | int],
    schema: Schema,
    constants: Collection[str] = (),
    *,
    can_widen: bool = False,
) -> dict[str, FileColumn] | None:
    """Return the columns of a table in one of its files, by name in lower case; absent columns are left out.

    Parameters
    ----------
    metadata : pyarrow.parquet.FileMetaData
        The footer.
    names : mapping of str to str or int
        The name in the file, in any case, or the field id of each column of the table.
    schema : Schema
        The table's columns, with the types that Spark reads.
    constants : collection of str
        Columns that are not null in a file without them.
    can_widen : bool
        Whether files can have a narrower type than the table, such as integers of 32 bits for 64.

    Returns
    -------
    dict or None
        A column has no index if Arrow does not read it with the table's type. None if the
        file has no field ids and the table's columns are found by them.
    """
    fields = metadata.schema.to_arrow_schema()
    by_key: dict[str | int, list[int]] = {}
    is_by_id = any(isinstance(key, int) for key in names.values())
    for i, field in enumerate(fields):
        number = (field.metadata or {}).get(b"PARQUET:field_id")
        if is_by_id and number is None:
            return None
        key = field.name.casefold() if number is None or not is_by_id else int(number)
        by_key.setdefault(key, []).append(i)
    leaves = {
        leaf.name: i
        for i, leaf in enumerate(map(metadata.schema.column, range(metadata.num_columns)))
        if leaf.path == leaf.name and not leaf.max_repetition_level
    }
    columns: dict[str, FileColumn] = {}
    for name, wanted in names.items():
        kind = schema.field_type(name)
        matches = by_key.get(wanted.casefold() if isinstance(wanted, str) else wanted, [])
        if not matches:
            if name in constants:
                columns[name.casefold()] = FileColumn(name, kind, None)
            continue
        field = fields.field(matches[0])
        index = leaves.get(field.name) if len(matches) == 1 else None
        if index is not None:
            leaf = metadata.schema.column(index)
            stored = _spark_type(leaf)
            is_same = _is_same_type(stored, str(field.type), leaf.physical_type)
            if not is_same or not (kind == stored or (can_widen and _holds_type(kind, stored))):
                index = None
        columns[name.casefold()] = FileColumn(field.name, kind, index)
    return columns


def _holds_type(kind: Any, stored: Any) -> bool:
    """Return whether a type has all values of a narrower type of a file.

    Examples
    --------
    >>> _holds_type("long", "integer"), _holds_type("integer", "long"), _holds_type("double", "float")
    (True, False, True)
    >>> _holds_type("decimal(12,2)", "decimal(9,2)"), _holds_type("decimal(12,3)", "decimal(9,2)")
    (True, False)
    """
    if (kind, stored) == ("double", "float"):
        return True
    if kind in _WIDER_INTEGERS and stored in _WIDER_INTEGERS:
        return _WIDER_INTEGERS.index(kind) > _WIDER_INTEGERS.index(stored)
    if not all(isinstance(t, str) and t.startswith("decimal(") for t in (kind, stored)):
        return False
    (wide, scale), (narrow, narrow_scale) = (
        map(int, t[len("decimal(") : -1].split(",")) for t in (kind, stored)
    )
    return bool(wide >= narrow and scale == narrow_scale)


def arrow_type(kind: Any) -> pa.DataType | None:
    """Return the Arrow type with the values of Spark's type; None for types that are read in several ways."""
    import pyarrow as pa

    if not isinstance(kind, str):
        return None
    if kind.startswith("decimal("):
        precision, scale = map(int, kind[len("decimal(") : -1].split(","))
        return pa.decimal128(precision, scale)
    name = _ARROW_TYPES.get(kind)
    return None if name is None else pa.type_for_alias(name)


def file_columns(metadata: pq.FileMetaData) -> dict[str, FileColumn] | None:
    """Return the top-level columns of a file by name in lower case; None if only Spark knows them."""
    leaves = {  # the name of a column can be the path of a nested field
        leaf.name: i
        for i, leaf in enumerate(map(metadata.schema.column, range(metadata.num_columns)))
        if leaf.path == leaf.name
    }
    stored = (metadata.metadata or {}).get(_SPARK_SCHEMA_KEY)
    types = _types_by_parquet(metadata) if stored is None else _types_by_spark(stored)
    if types is None:
        return None
    arrow_types = {f.name: str(f.type) for f in metadata.schema.to_arrow_schema()}
    columns: dict[str, FileColumn] = {}
    for name, kind in types.items():
        if name.casefold() in columns:
            return None
        index = leaves.get(name)
        if index is not None and not _is_same_type(
            kind, arrow_types.get(name, ""), metadata.schema.column(index).physical_type
        ):
            index = None
        columns[name.casefold()] = FileColumn(name, kind, index)
    return columns


def _is_same_type(kind: Any, arrow_type: str, physical_type: str) -> bool:
    """Return whether Arrow's type of a column holds the values that Spark reads.

    Decimals of at most 38 digits, times of at least microseconds and strings do. Old times (INT96) do not.
    """
    if not isinstance(kind, str) or physical_type == "INT96":
        return False
    if kind.startswith("decimal("):
        return arrow_type == f"decimal128{kind.removeprefix('decimal').replace(',', ', ')}"
    if kind == "string":
        return arrow_type in {"string", "large_string"} or arrow_type.startswith(
            "dictionary<values=string"
        )
    if kind == "timestamp":
        return arrow_type.startswith(("timestamp[us, tz=", "timestamp[ms, tz="))
    if kind == "timestamp_ntz":
        return arrow_type in {"timestamp[us]", "timestamp[ms]"}
    return arrow_type == _ARROW_TYPES.get(kind)


def _types_by_spark(stored: bytes) -> dict[str, Any] | None:
    """Return the types in the schema that Spark stored in a file; None if a column has special metadata."""
    try:
        fields = json.loads(stored)["fields"]
    except (ValueError, KeyError, TypeError):  # Spark reads an older form
        return None
    if any(field.get("metadata") for field in fields):
        return None  # collations, CHAR and VARCHAR
    types = {field["name"]: _nullable(field["type"]) for field in fields}
    return types if len(types) == len(fields) else None


def _nullable(kind: Any) -> Any:
    """Return a type in which all parts can be null, as Spark reads files."""
    if not isinstance(kind, dict):
        return kind
    kind = dict(kind)
    for part in ("elementType", "keyType", "valueType"):
        if part in kind:
            kind[part] = _nullable(kind[part])
    for flag in ("containsNull", "valueContainsNull"):
        if flag in kind:
            kind[flag] = True
    if "fields" in kind:
        kind["fields"] = [
            {**field, "nullable": True, "type": _nullable(field["type"])}
            for field in kind["fields"]
        ]
    return kind


def _types_by_parquet(metadata: pq.FileMetaData) -> dict[str, Any] | None:
    """Return Spark's types of the columns of another writer's file; None if Spark must decide."""
    types: dict[str, Any] = {}
    for i in range(metadata.num_columns):
        leaf = metadata.schema.column(i)
        is_plain = leaf.path == leaf.name and not leaf.max_repetition_level
        kind = _spark_type(leaf) if is_plain and leaf.max_definition_level <= 1 else None
        if kind is None:
            return None
        types[leaf.name] = kind
    return types if len(types) == metadata.num_columns else None


def _spark_type(leaf: pq.ColumnSchema) -> str | None:
    """Return Spark's type of a column that is not nested; None for types that Spark rejects or may change."""
    logical = json.loads(leaf.logical_type.to_json())
    kind: str | None = None
    match logical["Type"]:
        case "None":
            kind = _PLAIN_TYPES.get(leaf.physical_type)
        case "String" | "Enum" | "JSON":
            kind = "string"
        case "Date":
            kind = "date"
        case "Int":
            kind = _INTEGER_TYPES.get((logical["bitWidth"], logical["isSigned"]))
        case "Decimal" if logical["precision"] <= _MAX_DECIMAL_DIGITS:
            kind = f"decimal({logical['precision']},{logical['scale']})"
        case "Timestamp" if logical["timeUnit"] != "nanoseconds":
            kind = "timestamp" if logical["isAdjustedToUTC"] else "timestamp_ntz"
    return kind


def columns_by_arrow(metadata: pq.FileMetaData) -> dict[str, FileColumn]:
    """Return the columns of a file for which only Spark knows all types.

    Nested columns get the types that Arrow reads, and types without a counterpart in Spark keep Arrow's name. Such
    columns are not measured. They only show changes of the schema.
    """
    leaves = {
        leaf.name: (i, leaf)
        for i, leaf in enumerate(map(metadata.schema.column, range(metadata.num_columns)))
        if leaf.path == leaf.name and leaf.max_definition_level <= 1
    }
    columns: dict[str, FileColumn] = {}
    for column in metadata.schema.to_arrow_schema():
        kind, index = None, None
        if column.name in leaves:
            position, leaf = leaves[column.name]
            kind = _spark_type(leaf)
            index = None if kind is None or leaf.physical_type == "INT96" else position
        columns[column.name.casefold()] = FileColumn(
            column.name, kind or _type_by_arrow(column.type), index
        )
    return columns


def _type_by_arrow(kind: Any) -> Any:
    """Return an Arrow type in Spark's JSON form."""
    from pyarrow import types

    if types.is_struct(kind):
        fields = [
            {"name": f.name, "type": _type_by_arrow(f.type), "nullable": True, "metadata": {}}
            for f in kind
        ]
        return {"type": "struct", "fields": fields}
    if types.is_map(kind):
        key, value = _type_by_arrow(kind.key_type), _type_by_arrow(kind.item_type)
        return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}
    if types.is_list(kind) or types.is_large_list(kind):
        element = _type_by_arrow(kind.value_type)
        return {"type": "array", "elementType": element, "containsNull": True}
    return _NAMES_BY_ARROW.get(str(kind), str(kind))


_NAMES_BY_ARROW = {
    "bool": "boolean",
    "int8": "byte",
    "int16": "short",
    "int32": "integer",
    "int64": "long",
    "date32[day]": "date",
    "large_string": "string",
}
"""Spark's names of types within nested columns that differ from Arrow's."""


def merged_footers(footers: Sequence[Footer], keys: Sequence[str]) -> PartitionFooters | None:
    """Describe the files of one partition; None if they have no columns, different types, or columns named like keys.

    Parameters
    ----------
    footers : sequence of Footer
        The footers, the newest file first, whose columns come first.
    keys : sequence of str
        The partition columns in the names of folders, which follow the columns of the files as strings.
    """
    merged: dict[str, FileColumn] = {}
    for footer in footers:
        for name, column in footer.columns.items():
            if merged.setdefault(name, column).type != column.type:
                return None
    if not merged or any(key.casefold() in merged for key in keys):
        return None
    types = {column.name: column.type for column in merged.values()}
    return PartitionFooters(
        tuple(footers), Schema.from_types({**types, **dict.fromkeys(keys, "string")})
    )
