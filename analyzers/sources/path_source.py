"""Folders of data files as a source, partitioned by Hive-style subfolders, with a schema for each file.

Spark takes the schema of a folder from one file or from all files together. A partition's columns would then
depend on the other partitions that are read with it. Here each partition has the columns of its own files, so
that a backfill stores the same results as daily runs.

Files are grouped by a signature that is cheap to read on the driver: the schema in the footer of Parquet and
ORC files or in the header of Avro files, or the first line of CSV files. Spark then infers the schema of one
file per group. The types of JSON files, and of CSV files with ``inferSchema``, depend on all values, so Spark
infers them for each partition.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, reduce
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, ClassVar

from tidegauge.analyzers.columnar.engines import reads_by_default
from tidegauge.analyzers.columnar.planner import ParquetPartition
from tidegauge.analyzers.core.errors import (
    ConflictingFilesError,
    NoSuchTableError,
    PartitionColumnError,
    SourceError,
    did_you_mean,
)
from tidegauge.analyzers.core.filesystems import (
    absolute,
    child,
    data_folder,
    file_system,
    local_path,
)
from tidegauge.analyzers.core.formatting import hide_secrets
from tidegauge.analyzers.core.partitions import Partition, Values
from tidegauge.analyzers.core.schema import Schema
from tidegauge.analyzers.core.sql import quote
from tidegauge.analyzers.scan.grouping import filter_partitions
from tidegauge.analyzers.scan.spark_errors import is_merge_conflict, merge_conflict
from tidegauge.analyzers.sources.sources import (
    FileInfo,
    ListedPartition,
    check_keys,
    list_plain_files,
    require_plain_folder,
    to_listed,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
    from pyspark.sql.types import DataType, StructField, StructType


SELF_DESCRIBING_FORMATS = frozenset({"parquet", "orc", "avro"})
"""Formats whose files contain their schema."""

SIGNATURE_THREADS = 16
"""Number of signatures that are read concurrently. On object stores, nearly all of the time is latency."""

INFERENCE_THREADS = 4
"""Number of partitions whose types Spark infers concurrently."""

FIRST_LINE_BYTES = 1 << 16
"""Maximum length of a CSV header that is compared; files with longer headers are read one by one."""


@dataclass(frozen=True)
class FileGroup:
    """Files of one partition with the same columns and types.

    Attributes
    ----------
    schema : StructType
        The columns of the files.
    files : tuple of FileInfo
        The files.
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
        The columns of all groups; a column with several types gets a type that can hold all values.
        None if the files cannot be read.
    error : Exception or None
        The reason why the files cannot be read.
    """

    groups: tuple[FileGroup, ...] = ()
    schema: StructType | None = None
    error: Exception | None = None


def newest_first(files: Iterable[FileInfo]) -> list[FileInfo]:
    """Return the files that are not empty, in the order in which their columns are merged."""
    filled = (file for file in files if file.size)
    return sorted(filled, key=lambda file: (file.modified, file.path), reverse=True)


@dataclass
class FolderSchemas:
    """Reads and remembers the schemas of the files in one folder.

    Attributes
    ----------
    location : str
        The folder, as an absolute path or URI.
    format : str
        Format of the files.
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
        """Return the schemas of the files of each partition; files of zero bytes are skipped."""
        sorted_files = list(map(newest_first, partitions))
        self._read_signatures([file for files in sorted_files for file in files])
        grouped = [self._by_signature(files) for files in sorted_files]
        self._ask_spark([group for groups in grouped for group in groups])
        return [self._described(groups) for groups in grouped]

    def _read_signatures(self, files: Sequence[FileInfo]) -> None:
        unread = [file for file in files if file not in self._signatures]
        if not unread:
            return
        with ThreadPoolExecutor(min(SIGNATURE_THREADS, len(unread))) as pool:
            self._signatures.update(zip(unread, pool.map(self._signature, unread), strict=True))

    def _signature(self, file: FileInfo) -> str:
        """Return a string that is equal only for files that Spark reads with the same columns.

        If the driver cannot read the file, the string is unique, so that Spark infers the file's schema.
        """
        read = _SIGNATURE_READERS.get(self.format)
        if self.format == "csv":
            if self.options.get("header", "").casefold() != "true":
                return ""  # columns are named by their positions
            if {"comment", "multiline"} & self.options.keys():
                read = None  # the header is not necessarily the first line
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
        """Infer the schemas that are not known yet with Spark."""
        unknown: dict[tuple[FileInfo, ...], str] = {}
        if self._is_inferred:
            unknown = {files: "" for _, files in groups if files not in self._inferred}
        else:
            representative = {signature: files[:1] for signature, files in groups}
            unknown = {
                files: signature
                for signature, files in representative.items()
                if signature not in self._schemas
            }
        if not unknown:
            return
        with ThreadPoolExecutor(min(INFERENCE_THREADS, len(unknown))) as pool:
            schemas = pool.map(self._spark_schema, unknown)
            for (files, signature), schema in zip(unknown.items(), schemas, strict=True):
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
        groups_by_schema: dict[str, FileGroup] = {}
        for signature, files in groups:
            schema = self._inferred[files] if self._is_inferred else self._schemas[signature]
            if isinstance(schema, Exception):
                return PartitionFiles(error=schema)
            # Different writers can describe the same columns in different ways.
            names_and_types = schema.simpleString()
            previous = groups_by_schema.get(names_and_types)
            groups_by_schema[names_and_types] = FileGroup(
                schema, (*previous.files, *files) if previous else files
            )
        if not groups_by_schema:
            return PartitionFiles()
        try:
            merged = merged_schema([group.schema for group in groups_by_schema.values()])
        except ConflictingFilesError as error:
            return PartitionFiles(error=error)
        return PartitionFiles(tuple(groups_by_schema.values()), merged)


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


_SIGNATURE_READERS: Mapping[str, Callable[[str], str | None]] = {
    "parquet": _parquet_signature,
    "orc": _orc_signature,
    "avro": _avro_signature,
    "csv": _csv_signature,
}


def merged_schema(schemas: Sequence[StructType], *, case_sensitive: bool = False) -> StructType:
    """Return the columns of all schemas, beginning with the columns of the first schema.

    Parameters
    ----------
    schemas : sequence of StructType
        The schemas to merge.
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
        previous = columns.get(key)
        if previous is None:
            columns[key] = column
        elif previous.dataType != column.dataType:
            merged = common_type(previous.dataType, column.dataType)
            if merged is None:
                types = previous.dataType.simpleString(), column.dataType.simpleString()
                raise ConflictingFilesError(column.name, *types)
            columns[key] = StructField(previous.name, merged)
    return StructType(list(columns.values()))


_INTEGER_DIGITS = {"byte": 3, "short": 5, "integer": 10, "long": 20}
"""Number of decimal digits of Spark's integer types, from the narrowest type on."""

_MAX_DECIMAL_DIGITS = 38
"""Number of digits of Spark's largest decimal type."""


def common_type(left: DataType, right: DataType) -> DataType | None:
    """Return a type that can hold the values of two types of one column.

    Numbers are widened. Other types that differ become strings. Nested types are merged field by field, and
    only into types that every file format can read: a nested integer does not become a string.

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
    integer_digits, scale = (max(numbers) for numbers in zip(*digits, strict=True))
    if integer_digits + scale > _MAX_DECIMAL_DIGITS:
        return t.DoubleType()
    return t.DecimalType(integer_digits + scale, scale)


def _common_nested_type(left: DataType, right: DataType) -> DataType | None:
    from pyspark.sql import types as t

    if left == right:
        return left
    if isinstance(left, t.StructType) and isinstance(right, t.StructType):
        fields = {field.name: field for field in left.fields}
        for right_field in right.fields:
            left_field = fields.get(right_field.name)
            kind = (
                right_field.dataType
                if left_field is None
                else _common_nested_type(left_field.dataType, right_field.dataType)
            )
            if kind is None:
                return None
            fields[right_field.name] = t.StructField(right_field.name, kind)
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
    """Select the columns of a schema: missing columns become null, and other types are cast."""
    from pyspark.sql import functions as F

    by_name = {
        column.name if case_sensitive else column.name.casefold(): column
        for column in data.schema.fields
    }

    def selected(column: StructField) -> Column:
        data_column = by_name.get(column.name if case_sensitive else column.name.casefold())
        if data_column is None:
            return F.lit(None).cast(column.dataType).alias(column.name)
        value = F.col(quote(data_column.name))
        if data_column.dataType != column.dataType:
            value = value.cast(column.dataType)
        return value.alias(column.name)

    return data.select(*map(selected, target.fields))


def with_nested_types(schema: StructType, target: StructType) -> StructType:
    """Return a schema with the nested types of another schema, so that readers fill missing fields."""
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


OTHER_FORMATS_BY_ENDING = frozenset({"avro", "csv", "json", "orc"})
"""File name endings that are not Parquet, the default format."""

FILE_CHOOSING_OPTIONS = frozenset(
    {"mergeschema", "modifiedafter", "modifiedbefore", "pathglobfilter", "recursivefilelookup"}
)
"""Options that make Spark itself choose the files to read, or merge their schemas."""


@dataclass
class PathSource:
    """A folder of files, partitioned by Hive-style subfolders ``key=value``.

    Every partition has the columns and types of its own files. If the files of a partition differ, the
    partition has the columns of all its files: a column that a file lacks is null in its rows, numbers are
    widened, and other types that differ become strings. A partition whose files are all empty has the columns
    of the partition before it.

    If an option such as ``mergeSchema`` makes Spark choose the files or merge their schemas, all partitions
    have the columns that Spark infers for the folder.

    Attributes
    ----------
    spark : SparkSession
        The Spark session.
    name : str
        The folder, as a path or URI; a pattern such as ``/lake/orders/ds=2026-01-*`` selects a part of it.
    keys : tuple of str or None
        The partition columns; None for all columns in the names of subfolders.
    format : str
        Format of the files.
    options : mapping
        Options of Spark's reader.
    """

    reads_exactly: ClassVar[bool] = True
    spark: SparkSession
    name: str
    keys: tuple[str, ...] = None  # type: ignore[assignment]  # set in __post_init__
    format: str = "parquet"
    options: Mapping[str, str] = field(default_factory=dict, repr=False)  # may hold passwords

    def __post_init__(self) -> None:
        self._pattern = absolute(
            self.name
        )  # Java keeps the working directory in which it was started
        self._location = data_folder(self._pattern)
        require_plain_folder(self.spark, self.name)
        self._require_format([self.name])
        listed = self._list()
        self._require_format([file.path for files in listed.values() for file in files])
        all_keys = {partition.keys for partition in listed}
        if not all_keys:
            reason, hint = _missing_files_reason(self.name)
            msg = f"no data files under {hide_secrets(self.name)!r}{reason}"
            raise NoSuchTableError(msg, hint)
        if len(all_keys) > 1:
            shapes = " and ".join(sorted("/".join(k) or "no partition" for k in all_keys))
            msg = (
                f"{hide_secrets(self.name)!r} has files under different partition columns: {shapes}"
            )
            raise PartitionColumnError(msg)
        self._all_keys = all_keys.pop()
        self.keys = check_keys(self.keys, self._all_keys, repr(hide_secrets(self.name)))

    def _require_format(self, paths: Sequence[str]) -> None:
        """Raise `SourceError` if the format is the default, Parquet, but all paths end like another format."""
        endings = {PurePosixPath(path.removesuffix(".gz")).suffix[1:].lower() for path in paths}
        if self.format == "parquet" and len(endings) == 1 and endings <= OTHER_FORMATS_BY_ENDING:
            problem = f"{hide_secrets(self.name)!r} would be read as Parquet"
            raise SourceError(f"{problem}: set the format {endings.pop()!r}")

    def _list(self) -> dict[Partition, list[FileInfo]]:
        """Return the files of each innermost partition folder."""
        files_by_folder: dict[Partition, list[FileInfo]] = {}
        for file in list_plain_files(self.spark, self._pattern):
            folders = [step for step in file.path.split("/")[:-1] if "=" in step]
            files_by_folder.setdefault(Partition.from_path("/".join(folders)), []).append(file)
        return files_by_folder

    def _files(self) -> dict[Partition, list[FileInfo]]:
        """Return the files of each partition by the keys of this source."""
        files: dict[Partition, list[FileInfo]] = {}
        for folder, folder_files in self._list().items():
            files.setdefault(folder.only(self.keys), []).extend(folder_files)
        return files

    def list_partitions(self) -> list[ListedPartition]:
        """List the partitions that have files now, since a run may have waited for another run."""
        return to_listed(self._files())

    def parquet_files(
        self, partitions: Collection[Partition]
    ) -> Mapping[Partition, ParquetPartition]:
        """Return the files of partitions that Arrow reads as Spark does; no files for other formats."""
        if self.format != "parquet" or self.options or not reads_by_default(self.spark):
            return {}
        files = self._files()
        return {
            partition: ParquetPartition(
                tuple(child(self._location, f.path) for f in newest_first(files[partition])),
                self._all_keys,
            )
            for partition in partitions
            if partition in files and all(map(_is_in_key_folders, files[partition]))
        }

    def read_keys(self, partitions: Collection[Partition]) -> Mapping[Partition, Hashable]:
        """Return a key for each partition; partitions with equal keys have the same columns.

        A partition whose files cannot be read has a unique key.
        """
        if self._spark_decides:
            return dict.fromkeys(partitions)
        described = self._described(partitions)
        return {
            partition: ("unreadable", partition)
            if files.schema is None
            else Schema.from_spark(files.schema).canonical()
            for partition, files in described.items()
        }

    def read(self, partitions: Collection[Partition] | None = None) -> DataFrame:
        """Read the rows of the given partitions; None reads all. Partition columns are strings.

        If partitions have different columns, the result has all columns, as for files of one partition.

        Raises
        ------
        ConflictingFilesError
            If a nested column has types that no common type can hold.
        SourceError
            If an option requests that Spark merges the columns of all files, and Spark cannot.
        Exception
            Spark's error, if the schema of a file cannot be read.
        """
        if self._spark_decides:
            return self._read_by_spark(partitions)
        described = self._described(partitions)
        unreadable = next((files.error for files in described.values() if files.error), None)
        if unreadable is not None:
            raise unreadable
        sensitive = self._is_case_sensitive
        schemas = [files.schema for files in described.values() if files.schema is not None]
        target = merged_schema(schemas, case_sensitive=sensitive)
        frames = self._frames(described, target, everything=partitions is None)
        if len(frames) == 1:
            return frames[0]
        columns = self._with_keys(target)
        aligned = [read_as(frame, columns, case_sensitive=sensitive) for frame in frames]
        return reduce(lambda above, below: above.unionAll(below), aligned)

    def _frames(
        self, described: Mapping[Partition, PartitionFiles], target: StructType, *, everything: bool
    ) -> list[DataFrame]:
        """Return one frame per schema of files, read with the schema's columns."""
        partitions_by_schema: dict[str, tuple[StructType, list[Partition]]] = {}
        mixed_groups: list[FileGroup] = []
        for partition, files in described.items():
            if len(files.groups) > 1 or self._location != self._pattern:
                mixed_groups += files.groups
            elif files.schema is not None:
                key = Schema.from_spark(files.schema).canonical()
                partitions_by_schema.setdefault(key, (files.schema, []))[1].append(partition)
        frames = []
        for schema, partitions in partitions_by_schema.values():
            read_schema = self._with_keys(with_nested_types(schema, target))
            data = self._reader().schema(read_schema).load(self._location)
            if self.keys and not (everything and len(partitions) == len(described)):
                data = filter_partitions(data, self.keys, [p.values for p in partitions])
            frames.append(data)
        for group in mixed_groups:
            read_schema = self._with_keys(with_nested_types(group.schema, target))
            frames.append(self._schemas.load(group.files, read_schema))
        return frames

    def _described(
        self, partitions: Collection[Partition] | None
    ) -> dict[Partition, PartitionFiles]:
        """Return the schemas of the files of the given partitions; None means all partitions."""
        all_files = self._files()
        requested = list(all_files) if partitions is None else list(partitions)
        described = self._describe({p: all_files.get(p, []) for p in requested})
        empty = [p for p, files in described.items() if files.schema is None and not files.error]
        if not empty:
            return described
        all_described = self._describe(all_files)
        for partition in empty:
            described[partition] = _columns_of_neighbor(partition, all_described)
        return described

    def _describe(
        self, files: Mapping[Partition, Sequence[FileInfo]]
    ) -> dict[Partition, PartitionFiles]:
        described = zip(files, self._schemas.describe(files.values()), strict=True)
        return {
            partition: self._without_keys(partition_files)
            for partition, partition_files in described
        }

    def _without_keys(self, files: PartitionFiles) -> PartitionFiles:
        """Remove the partition columns that Spark adds to the columns of the files."""
        from pyspark.sql.types import StructType

        def removed(schema: StructType) -> StructType:
            return StructType([c for c in schema.fields if c.name not in self._all_keys])

        if files.schema is None:
            return files
        groups = (FileGroup(removed(group.schema), group.files) for group in files.groups)
        return PartitionFiles(tuple(groups), removed(files.schema))

    def _with_keys(self, schema: StructType) -> StructType:
        from pyspark.sql.types import StringType, StructField, StructType

        keys = [StructField(key, StringType()) for key in self._all_keys]
        file_columns = [column for column in schema.fields if column.name not in self._all_keys]
        return StructType([*file_columns, *keys])

    @cached_property
    def _schemas(self) -> FolderSchemas:
        options = {name.casefold(): value for name, value in self.options.items()}
        return FolderSchemas(self._location, self.format, options, self._reader)

    @property
    def _is_case_sensitive(self) -> bool:
        return self.spark.conf.get("spark.sql.caseSensitive") == "true"

    def _reader(self) -> DataFrameReader:
        # Spark reads CSV columns by position. It must fail if a header has other names.
        defaults = {"enforceSchema": "false"} if self.format == "csv" else {}
        return self.spark.read.format(self.format).options(**defaults | dict(self.options))

    @cached_property
    def _spark_decides(self) -> bool:
        """Whether an option of the reader makes Spark choose the files."""
        return any(name.casefold() in FILE_CHOOSING_OPTIONS for name in self.options)

    def _read_by_spark(self, partitions: Collection[Partition] | None) -> DataFrame:
        try:
            data = self._by_pattern(self._reader())
            schema = data.schema  # Spark Connect reads the files only here
        except Exception as error:
            if not is_merge_conflict(error):
                raise
            files = [file.path for listed in self._list().values() for file in listed]
            raise merge_conflict(error, self.name, files, self._types_in) from error
        if not self._all_keys:
            return data
        data = self._by_pattern(self._reader().schema(self._with_keys(schema)))
        if partitions is None or not self.keys:
            return data
        return filter_partitions(data, self.keys, [p.values for p in partitions])

    def _by_pattern(self, reader: DataFrameReader) -> DataFrame:
        """Read the files that Spark finds, with the partition columns in their paths."""
        return reader.option("basePath", self._location).load(self._pattern)

    def _types_in(self, file: str) -> dict[str, str]:
        """Return the types of a file's columns as DDL."""
        schema = self._reader().load(child(self._location, file)).schema
        return {column.name: column.dataType.simpleString() for column in schema.fields}

    def partition_of(self, key: Values) -> Partition | None:
        """Return the partition with these key values."""
        return Partition(self.keys, key)


def _is_in_key_folders(file: FileInfo) -> bool:
    """Return whether all folders of a file are named ``key=value``. Spark skips some of the files in others."""
    return all("=" in folder for folder in file.path.split("/")[:-1])


def _columns_of_neighbor(
    partition: Partition, described: Mapping[Partition, PartitionFiles]
) -> PartitionFiles:
    """Return the columns of the partition before an empty partition, or else of the next partition.

    If there is no other partition, the result has no columns.
    """
    from pyspark.sql.types import StructType

    filled = sorted((p for p, files in described.items() if files.schema), key=lambda p: p.name)
    earlier = [candidate for candidate in filled if candidate.name < partition.name]
    neighbor = earlier[-1] if earlier else next(iter(filled), None)
    schema = None if neighbor is None else described[neighbor].schema
    return PartitionFiles(schema=StructType([]) if schema is None else schema)


def _missing_files_reason(name: str) -> tuple[str, str]:
    """Return why a local folder has no files, with its absolute path, and the most similar sibling's name.

    The absolute path shows relative paths that were meant for another working directory.
    """
    path = local_path(name)
    if path is None:
        return "", ""
    if path.exists():
        return f" ({path} has none)", ""
    siblings = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
    return f": {path} does not exist", did_you_mean(path.name, siblings)
