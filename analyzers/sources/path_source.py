"""Folders of data files as a source, partitioned by Hive-style subfolders."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, ClassVar

from tidegauge.analyzers.core.errors import (
    NoSuchTableError,
    PartitionColumnError,
    SourceError,
    did_you_mean,
)
from tidegauge.analyzers.core.filesystems import absolute, child, data_folder, local_path
from tidegauge.analyzers.core.partitions import Partition
from tidegauge.analyzers.core.schema import Schema
from tidegauge.analyzers.core.secrets import hide_secrets
from tidegauge.analyzers.core.segments import Values
from tidegauge.analyzers.scan.grouping import filter_partitions
from tidegauge.analyzers.scan.read_errors import is_merge_conflict, merge_conflict
from tidegauge.analyzers.sources.file_schemas import (
    FileGroup,
    FolderSchemas,
    PartitionFiles,
    merged_schema,
    read_as,
    with_nested_types,
)
from tidegauge.analyzers.sources.sources import (
    FileInfo,
    ListedPartition,
    check_keys,
    list_plain_files,
    to_listed,
)
from tidegauge.analyzers.sources.table_folders import require_plain_folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession
    from pyspark.sql.types import StructType

OTHER_FORMATS_BY_ENDING = frozenset({"avro", "csv", "json", "orc"})
"""File name endings that are not Parquet, the default format."""

FILE_CHOOSING_OPTIONS = frozenset(
    {"mergeschema", "modifiedafter", "modifiedbefore", "pathglobfilter", "recursivefilelookup"}
)
"""Options by which Spark itself chooses the files that it reads, or merges their schemas."""


@dataclass
class PathSource:
    """A folder of files, partitioned by Hive-style subfolders ``key=value``.

    Every partition has the columns and types of its own files. If the files of one partition differ, it
    has the columns of all of them: a column that a file lacks is null in its rows, numbers are widened,
    and other types that differ become text. A partition whose files are all empty has the columns of the
    partition before it.

    If the reader has an option by which Spark chooses the files or merges their schemas, such as
    ``mergeSchema``, all partitions have the columns that Spark gives to the folder.

    Attributes
    ----------
    spark : SparkSession
    name : str
        The folder, as a path or URI; a pattern such as ``/lake/orders/ds=2026-01-*`` names a part of it.
    keys : tuple of str or None
        The partition columns; None for all that the subfolders name.
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
        self._pattern = absolute(self.name)  # Java stays in the folder where it was started
        self._location = data_folder(self._pattern)
        require_plain_folder(self.spark, self.name)
        self._require_format([self.name])
        listed = self._list()
        self._require_format([file.path for files in listed.values() for file in files])
        all_keys = {partition.keys for partition in listed}
        if not all_keys:
            why, hint = _why_no_files(self.name)
            msg = f"no data files under {hide_secrets(self.name)!r}{why}"
            raise NoSuchTableError(msg, hint)
        if len(all_keys) > 1:
            shapes = " and ".join(sorted("/".join(k) or "no partition" for k in all_keys))
            msg = f"{hide_secrets(self.name)!r} holds files under different partition columns: {shapes}"
            raise PartitionColumnError(msg)
        self._all_keys = all_keys.pop()
        self.keys = check_keys(self.keys, self._all_keys, repr(hide_secrets(self.name)))

    def _require_format(self, paths: Sequence[str]) -> None:
        """Raise `SourceError` if all paths have the ending of another format than Parquet, the default."""
        endings = {PurePosixPath(path.removesuffix(".gz")).suffix[1:].lower() for path in paths}
        if self.format == "parquet" and len(endings) == 1 and endings <= OTHER_FORMATS_BY_ENDING:
            what = f"{hide_secrets(self.name)!r} would be read as Parquet"
            raise SourceError(f"{what}: give the format {endings.pop()!r}")

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
        for folder, own in self._list().items():
            files.setdefault(folder.only(self.keys), []).extend(own)
        return files

    def list_partitions(self) -> list[ListedPartition]:
        """List the partitions that have files now: a run may have waited for another since it began."""
        return to_listed(self._files())

    def read_keys(self, partitions: Collection[Partition]) -> Mapping[Partition, Hashable]:
        """Return a key for each partition; partitions with equal keys have the same columns.

        A partition whose files cannot be read has a key of its own.
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
        """Read the rows of the given partitions, None for all; partition columns are strings.

        Partitions with different columns get the columns of all of them, as files of one partition do.

        Raises
        ------
        ConflictingFilesError
            If a nested column has types that no common type can hold.
        SourceError
            If Spark is asked to merge the columns of all files, and cannot.
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
        """Return a frame for each schema of files, read by its own columns."""
        whole: dict[str, tuple[StructType, list[Partition]]] = {}
        mixed: list[FileGroup] = []
        for partition, files in described.items():
            if len(files.groups) > 1 or self._location != self._pattern:
                mixed += files.groups
            elif files.schema is not None:
                key = Schema.from_spark(files.schema).canonical()
                whole.setdefault(key, (files.schema, []))[1].append(partition)
        frames = []
        for schema, own in whole.values():
            read_schema = self._with_keys(with_nested_types(schema, target))
            data = self._reader().schema(read_schema).load(self._location)
            if self.keys and not (everything and len(own) == len(described)):
                data = filter_partitions(data, self.keys, [p.values for p in own])
            frames.append(data)
        for group in mixed:
            read_schema = self._with_keys(with_nested_types(group.schema, target))
            frames.append(self._schemas.load(group.files, read_schema))
        return frames

    def _described(
        self, partitions: Collection[Partition] | None
    ) -> dict[Partition, PartitionFiles]:
        """Return the schemas of the files of the given partitions, None for all."""
        all_files = self._files()
        wanted = list(all_files) if partitions is None else list(partitions)
        described = self._describe({p: all_files.get(p, []) for p in wanted})
        empty = [p for p, files in described.items() if files.schema is None and not files.error]
        if not empty:
            return described
        known = self._describe(all_files)
        for partition in empty:
            described[partition] = _columns_of_neighbor(partition, known)
        return described

    def _describe(
        self, files: Mapping[Partition, Sequence[FileInfo]]
    ) -> dict[Partition, PartitionFiles]:
        described = zip(files, self._schemas.describe(files.values()), strict=True)
        return {partition: self._without_keys(own) for partition, own in described}

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
        own = [column for column in schema.fields if column.name not in self._all_keys]
        return StructType([*own, *keys])

    @cached_property
    def _schemas(self) -> FolderSchemas:
        options = {name.casefold(): value for name, value in self.options.items()}
        return FolderSchemas(self._location, self.format, options, self._reader)

    @property
    def _is_case_sensitive(self) -> bool:
        return self.spark.conf.get("spark.sql.caseSensitive") == "true"

    def _reader(self) -> DataFrameReader:
        # Spark reads columns of CSV by their place. It shall fail where a header tells otherwise.
        defaults = {"enforceSchema": "false"} if self.format == "csv" else {}
        return self.spark.read.format(self.format).options(**defaults | dict(self.options))

    @cached_property
    def _spark_decides(self) -> bool:
        """Whether Spark chooses the files, by an option of its reader."""
        return any(name.casefold() in FILE_CHOOSING_OPTIONS for name in self.options)

    def _read_by_spark(self, partitions: Collection[Partition] | None) -> DataFrame:
        try:
            data = self._by_pattern(self._reader())
            schema = data.schema  # Spark Connect looks at the files only here
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


def _columns_of_neighbor(
    partition: Partition, described: Mapping[Partition, PartitionFiles]
) -> PartitionFiles:
    """Return the columns of the partition before an empty one; else of the first one after it.

    Without any, the partition has no columns.
    """
    from pyspark.sql.types import StructType

    filled = sorted((p for p, files in described.items() if files.schema), key=lambda p: p.name)
    before = [other for other in filled if other.name < partition.name]
    neighbor = before[-1] if before else next(iter(filled), None)
    schema = None if neighbor is None else described[neighbor].schema
    return PartitionFiles(schema=StructType([]) if schema is None else schema)


def _why_no_files(name: str) -> tuple[str, str]:
    """Return what a local folder lacks, with its whole path, and the closest name beside it.

    A relative path may be meant from elsewhere.
    """
    path = local_path(name)
    if path is None:
        return "", ""
    if path.exists():
        return f" ({path} has none)", ""
    siblings = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
    return f": {path} does not exist", did_you_mean(path.name, siblings)
