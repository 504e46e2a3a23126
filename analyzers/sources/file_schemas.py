"""Schemas of the data files in a folder: every file is read by its own columns and types.

Spark takes the schema of a folder from one file or from all files together, so what is read together
would decide what a partition's columns are. Here each partition has the columns of its own files, and
a backfill stores what daily runs store.

Files are grouped by a signature that is cheap to read on the driver: the schema in the footer of
Parquet and ORC files or in the header of Avro files, or the first line of CSV files. Spark is asked
for the schema of one file of each group. The types of JSON files, and of CSV files with
``inferSchema``, depend on all values, so Spark infers them for each partition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidegauge.analyzers.core.errors import ConflictingFilesError
from tidegauge.analyzers.core.filesystems import child, file_system
from tidegauge.analyzers.core.sql import quote
from tidegauge.analyzers.sources.sources import FileInfo

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, DataFrameReader
    from pyspark.sql.types import DataType, StructField, StructType

SELF_DESCRIBING_FORMATS = frozenset({"parquet", "orc", "avro"})
"""Formats whose files contain their schema."""

SIGNATURE_THREADS = 16
"""Files whose signatures are read at once; on object stores nearly all of the time is latency."""

INFERENCE_THREADS = 4
"""Partitions whose types Spark infers at once."""

FIRST_LINE_BYTES = 1 << 16
"""Longest header of a CSV file that is compared; files with longer ones are read one by one."""


@dataclass(frozen=True)
class FileGroup:
    """Files of one partition with the same columns and types.

    Attributes
    ----------
    schema : StructType
    files : tuple of FileInfo
    """

    schema: StructType
    files: tuple[FileInfo, ...]


@dataclass(frozen=True)
class PartitionFiles:
    """The data files of a partition, grouped by schema.

    Attributes
    ----------
    groups : tuple of FileGroup
        The group of the newest file comes first.
    schema : StructType or None
        The columns of all groups; a column with several types has the type that holds all values.
        None if the files cannot be read.
    error : Exception or None
        Why the files cannot be read.
    """

    groups: tuple[FileGroup, ...] = ()
    schema: StructType | None = None
    error: Exception | None = None


@dataclass
class FolderSchemas:
    """Reads and remembers the schemas of the files in one folder.

    Attributes
    ----------
    location : str
        The folder, as an absolute path or URI.
    format : str
    options : mapping of str to str
        Options of Spark's reader, with names in lower case.
    reader : callable
        Returns a new reader with the format and options.
    """

    location: str
    format: str
    options: Mapping[str, str]
    reader: Callable[[], DataFrameReader]
    _signatures: dict[FileInfo, str] = field(init=False, default_factory=dict)
    _schemas: dict[str, StructType | Exception] = field(init=False, default_factory=dict)
    _inferred: dict[tuple[FileInfo, ...], StructType | Exception] = field(
        init=False, default_factory=dict
    )

    def describe(self, partitions: Iterable[Sequence[FileInfo]]) -> list[PartitionFiles]:
        """Return the schemas of the files of each partition; empty files have none."""
        newest_first = [
            sorted(
                (file for file in files if file.size),
                key=lambda file: (file.modified, file.path),
                reverse=True,
            )
            for files in partitions
        ]
        self._read_signatures([file for files in newest_first for file in files])
        grouped = [self._by_signature(files) for files in newest_first]
        self._ask_spark([group for groups in grouped for group in groups])
        return [self._described(groups) for groups in grouped]

    def _read_signatures(self, files: Sequence[FileInfo]) -> None:
        unread = [file for file in files if file not in self._signatures]
        if not unread:
            return
        with ThreadPoolExecutor(min(SIGNATURE_THREADS, len(unread))) as pool:
            self._signatures.update(zip(unread, pool.map(self._signature, unread), strict=True))

    def _signature(self, file: FileInfo) -> str:
        """Return a text that is equal only for files that Spark reads by the same columns.

        If the driver cannot read the file, the text is different for every file, so that Spark is asked.
        """
        read = _SIGNATURES.get(self.format)
        if self.format == "csv":
            if self.options.get("header", "").casefold() != "true":
                return ""  # columns are named by their positions
            if {"comment", "multiline"} & self.options.keys():
                read = None  # the header may not be the first line
        elif self.format not in SELF_DESCRIBING_FORMATS:
            return ""
        if read is not None:
            # Damaged files fail here in many ways; Spark's error is the one to report.
            with suppress(Exception):
                signature = read(child(self.location, file.path))
                if signature is not None:
                    return signature
        return f"file {file.path} {file.size} {file.modified}"

    def _by_signature(self, files: Sequence[FileInfo]) -> list[tuple[str, tuple[FileInfo, ...]]]:
        groups: dict[str, list[FileInfo]] = {}
        for file in files:
            groups.setdefault(self._signatures[file], []).append(file)
        return [(signature, tuple(group)) for signature, group in groups.items()]

    @property
    def _is_inferred(self) -> bool:
        """Whether types depend on all values, not only on the signature."""
        if self.format == "csv":
            infers = self.options.get("inferschema", "").casefold() == "true"
            return infers or self.options.get("header", "").casefold() != "true"
        return self.format == "json"

    def _ask_spark(self, groups: Sequence[tuple[str, tuple[FileInfo, ...]]]) -> None:
        """Ask Spark for the schemas that are not known yet."""
        wanted: dict[tuple[FileInfo, ...], str] = {}
        if self._is_inferred:
            wanted = {files: "" for _, files in groups if files not in self._inferred}
        else:
            representative = {signature: files[:1] for signature, files in groups}
            wanted = {
                files: signature
                for signature, files in representative.items()
                if signature not in self._schemas
            }
        if not wanted:
            return
        with ThreadPoolExecutor(min(INFERENCE_THREADS, len(wanted))) as pool:
            schemas = pool.map(self._spark_schema, wanted)
            for (files, signature), schema in zip(wanted.items(), schemas, strict=True):
                if self._is_inferred:
                    self._inferred[files] = schema
                else:
                    self._schemas[signature] = schema

    def _spark_schema(self, files: Sequence[FileInfo]) -> StructType | Exception:
        try:
            return self.load(files).schema
        except Exception as error:  # noqa: BLE001 - raised when the partition is read
            return error

    def load(self, files: Sequence[FileInfo], schema: StructType | None = None) -> DataFrame:
        """Read files, with the partition columns in their paths."""
        reader = self.reader().option("basePath", self.location)
        if schema is not None:
            reader = reader.schema(schema)
        return reader.load([child(self.location, file.path) for file in files])

    def _described(self, groups: Sequence[tuple[str, tuple[FileInfo, ...]]]) -> PartitionFiles:
        read: dict[str, FileGroup] = {}
        for signature, files in groups:
            schema = self._inferred[files] if self._is_inferred else self._schemas[signature]
            if isinstance(schema, Exception):
                return PartitionFiles(error=schema)
            # Files of different writers may tell the same columns in different ways.
            names_and_types = schema.simpleString()
            known = read.get(names_and_types)
            read[names_and_types] = FileGroup(schema, (*known.files, *files) if known else files)
        if not read:
            return PartitionFiles()
        try:
            merged = merged_schema([group.schema for group in read.values()])
        except ConflictingFilesError as error:
            return PartitionFiles(error=error)
        return PartitionFiles(tuple(read.values()), merged)


def _parquet_signature(path: str) -> str:
    import pyarrow.parquet as pq

    system, inside = file_system(path)
    metadata = pq.read_metadata(inside, filesystem=system)
    spark_schema = (metadata.metadata or {}).get(b"org.apache.spark.sql.parquet.row.metadata", b"")
    columns = str(metadata.schema).partition("\n")[2]  # the first line has an address in memory
    return f"{columns}\n{spark_schema.decode()}"


def _orc_signature(path: str) -> str:
    from pyarrow import orc

    system, inside = file_system(path)
    with system.open_input_file(inside) as stream:
        return str(orc.ORCFile(stream).schema)


def _avro_signature(path: str) -> str | None:
    try:
        import fastavro
    except ImportError:
        return None
    system, inside = file_system(path)
    with system.open_input_stream(inside) as stream:
        return str(fastavro.reader(stream).metadata["avro.schema"])


def _csv_signature(path: str) -> str | None:
    system, inside = file_system(path)
    with system.open_input_stream(inside, compression="detect") as stream:
        start: bytes = stream.read(FIRST_LINE_BYTES)
    line, end, _ = start.partition(b"\n")
    if not line.strip() or not (end or len(start) < FIRST_LINE_BYTES):
        return None
    return line.rstrip(b"\r").decode("latin-1")


_SIGNATURES: Mapping[str, Callable[[str], str | None]] = {
    "parquet": _parquet_signature,
    "orc": _orc_signature,
    "avro": _avro_signature,
    "csv": _csv_signature,
}


def merged_schema(schemas: Sequence[StructType], *, case_sensitive: bool = False) -> StructType:
    """Return the columns of all schemas, those of the first one first.

    Parameters
    ----------
    schemas : sequence of StructType
    case_sensitive : bool
        Whether names that differ only in case are different columns.

    Raises
    ------
    ConflictingFilesError
        If a nested column has types that no common type can hold.
    """
    from pyspark.sql.types import StructField, StructType

    columns: dict[str, StructField] = {}
    for column in (column for schema in schemas for column in schema.fields):
        key = column.name if case_sensitive else column.name.casefold()
        known = columns.get(key)
        if known is None:
            columns[key] = column
        elif known.dataType != column.dataType:
            merged = common_type(known.dataType, column.dataType)
            if merged is None:
                types = known.dataType.simpleString(), column.dataType.simpleString()
                raise ConflictingFilesError(column.name, *types)
            columns[key] = StructField(known.name, merged)
    return StructType(list(columns.values()))


_INTEGER_DIGITS = {"byte": 3, "short": 5, "integer": 10, "long": 20}
"""Decimal digits of Spark's integer types, in order of their width."""

_MAX_DECIMAL_DIGITS = 38
"""Digits of Spark's largest decimal."""


def common_type(left: DataType, right: DataType) -> DataType | None:
    """Return the type that holds the values of two types of one column.

    Numbers are widened. Other types that differ become text. Nested types are merged field by field,
    and only by what every file format can read: there an integer does not become text.

    Returns
    -------
    DataType or None
        None if the column is nested in one of the types and no type holds the values of both.
    """
    from pyspark.sql import types as t

    if left == right:
        return left
    if isinstance(left, t.StructType | t.ArrayType | t.MapType) or isinstance(
        right, t.StructType | t.ArrayType | t.MapType
    ):
        return _common_nested_type(left, right)
    return _common_number(left, right) or t.StringType()


def _common_number(left: DataType, right: DataType) -> DataType | None:
    from pyspark.sql import types as t

    names = left.typeName(), right.typeName()
    if {*names} <= _INTEGER_DIGITS.keys():
        return max(left, right, key=lambda kind: _INTEGER_DIGITS[kind.typeName()])
    numbers = {*_INTEGER_DIGITS, "float", "double", "decimal"}
    if not {*names} <= numbers:
        return None
    if {"float", "double"} & {*names}:
        return t.DoubleType()
    digits = [
        (kind.precision - kind.scale, kind.scale)
        if isinstance(kind, t.DecimalType)
        else (_INTEGER_DIGITS[kind.typeName()], 0)
        for kind in (left, right)
    ]
    whole, scale = (max(numbers) for numbers in zip(*digits, strict=True))
    if whole + scale > _MAX_DECIMAL_DIGITS:
        return t.DoubleType()
    return t.DecimalType(whole + scale, scale)


def _common_nested_type(left: DataType, right: DataType) -> DataType | None:
    from pyspark.sql import types as t

    if left == right:
        return left
    if isinstance(left, t.StructType) and isinstance(right, t.StructType):
        fields = {field.name: field for field in left.fields}
        for other in right.fields:
            known = fields.get(other.name)
            kind = (
                other.dataType
                if known is None
                else _common_nested_type(known.dataType, other.dataType)
            )
            if kind is None:
                return None
            fields[other.name] = t.StructField(other.name, kind)
        return t.StructType(list(fields.values()))
    if isinstance(left, t.ArrayType) and isinstance(right, t.ArrayType):
        element = _common_nested_type(left.elementType, right.elementType)
        return None if element is None else t.ArrayType(element)
    if isinstance(left, t.MapType) and isinstance(right, t.MapType):
        value = _common_nested_type(left.valueType, right.valueType)
        same_keys = left.keyType == right.keyType
        return t.MapType(left.keyType, value) if same_keys and value is not None else None
    return _readable_as(left, right)


def _readable_as(left: DataType, right: DataType) -> DataType | None:
    """Return the wider of two numbers, if Parquet readers since Spark 3.5 widen the other to it."""
    names = {left.typeName(), right.typeName()}
    if names == {"float", "double"} or names <= _INTEGER_DIGITS.keys():
        return _common_number(left, right)
    return None


def read_as(data: DataFrame, target: StructType, *, case_sensitive: bool = False) -> DataFrame:
    """Select the columns of a schema: those that the data lacks are null, other types are cast."""
    from pyspark.sql import functions as F

    by_name = {
        column.name if case_sensitive else column.name.casefold(): column
        for column in data.schema.fields
    }

    def selected(wanted: StructField) -> Column:
        own = by_name.get(wanted.name if case_sensitive else wanted.name.casefold())
        if own is None:
            return F.lit(None).cast(wanted.dataType).alias(wanted.name)
        value = F.col(quote(own.name))
        if own.dataType != wanted.dataType:
            value = value.cast(wanted.dataType)
        return value.alias(wanted.name)

    return data.select(*map(selected, target.fields))


def with_nested_types(schema: StructType, target: StructType) -> StructType:
    """Return a schema with the nested columns as in another schema: readers fill missing fields."""
    from pyspark.sql import types as t

    nested = {
        column.name.casefold(): column.dataType
        for column in target.fields
        if isinstance(column.dataType, t.StructType | t.ArrayType | t.MapType)
    }
    return t.StructType(
        [
            t.StructField(column.name, nested.get(column.name.casefold(), column.dataType))
            for column in schema.fields
        ]
    )
