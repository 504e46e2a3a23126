"""Targets for records that passed or failed rules: catalog tables and folders, with a staging area."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol
from urllib.parse import unquote

from tidegauge.analyzers.core.errors import (
    LeftoverWarning,
    PartitionColumnError,
    RuleError,
    SourceError,
    did_you_mean,
)
from tidegauge.analyzers.core.filesystems import (
    absolute,
    can_rename_folder,
    delete_folder,
    is_file,
    rename_folder,
)
from tidegauge.analyzers.core.partitions import Partition, Values
from tidegauge.analyzers.core.registry import canonical_json, key_of
from tidegauge.analyzers.core.sql import definition_sql, is_folder, parts, path_table, quote
from tidegauge.analyzers.scan.capabilities import session_settings
from tidegauge.analyzers.sources import sources
from tidegauge.analyzers.sources.hive_table import HiveTable, partition_sql
from tidegauge.analyzers.sources.opening import open_table
from tidegauge.analyzers.sources.path_source import PathSource
from tidegauge.analyzers.sources.table_formats import LoggedTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

WRITE_MODES = ("overwrite", "append", "partitions")
_INTEGERS_BY_WIDTH = ("tinyint", "smallint", "int", "bigint")
STAGING_PREFIX = "_tidegauge_staging_"
"""Name prefix of staging tables and folders."""
NEXT_PREFIX, PREVIOUS_PREFIX = "_tidegauge_next_", "_tidegauge_previous_"
"""Name prefixes of the folder that replaces a target, and of the replaced folder until its deletion."""


class WriteTarget(Protocol):
    """Protocol of a table or folder that records are written to."""

    @property
    def spark(self) -> SparkSession:
        """The Spark session."""

    @property
    def name(self) -> str:
        """The table's name or the folder's path."""

    def exists(self) -> bool:
        """Return whether the target exists."""

    def keys(self) -> tuple[str, ...]:
        """Return the partition columns."""

    def read(self, schema: StructType | None = None) -> DataFrame:
        """Read the rows. For folders, a schema replaces inferred partition types."""

    def fingerprint(self) -> str | None:
        """Return a fingerprint of the target's files; None if they cannot be listed."""

    def write(
        self,
        data: DataFrame,
        mode: str,
        partition_by: Sequence[str],
        holds: Collection[Values],
        before_delete: Callable[[], None] = lambda: None,
    ) -> None:
        """Write rows: overwrite everything, overwrite only the partitions in ``holds``, or append.

        Parameters
        ----------
        data : DataFrame
            The rows.
        mode : str
            One of `WRITE_MODES`.
        partition_by : sequence of str
            The partition columns.
        holds : collection of tuple of str
            The partitions of the rows.
        before_delete : callable
            Called before Spark deletes existing rows, if Spark deletes them before it writes.
        """

    def drop(self, partitions: Collection[Values]) -> None:
        """Drop partitions; missing ones are ignored."""

    @property
    def staging(self) -> str:
        """The name of the staging table or folder, in the form for SQL or Spark's reader."""

    def is_staged(self) -> bool:
        """Return whether the staging area exists, left by a publication that failed or was killed."""

    def stage(self, data: DataFrame) -> DataFrame:
        """Write rows to the staging area, replacing leftovers of a killed run, and read them back."""

    def unstage(self) -> None:
        """Remove the staging area."""


@dataclass(frozen=True)
class TableTarget:
    """A table of the catalog as a write target."""

    spark: SparkSession
    name: str

    @property
    def _quoted(self) -> str:
        return ".".join(quote(str(part)) for part in parts(self.name))

    @property
    def staging(self) -> str:
        """The quoted name of the staging table."""
        *path, table = map(str, parts(self.name))
        return ".".join(map(quote, [*path, STAGING_PREFIX + table]))

    def exists(self) -> bool:
        """Return whether the table exists.

        Raises
        ------
        SourceError
            If the name belongs to a view.
        """
        if not self.spark.catalog.tableExists(self._quoted):
            return False
        if self.spark.catalog.getTable(self._quoted).tableType in {"VIEW", "TEMPORARY"}:
            msg = f"{self.name!r} is a view; publish records to a table or a folder"
            raise SourceError(msg)
        return True

    def keys(self) -> tuple[str, ...]:
        """Return the table's partition columns."""
        columns = self.spark.catalog.listColumns(self._quoted)
        return tuple(column.name for column in columns if column.isPartition)

    def read(self, schema: StructType | None = None) -> DataFrame:
        """Read the table's rows."""
        return self.spark.table(self._quoted)

    def fingerprint(self) -> str | None:
        """Return a fingerprint of the table's files; None if a partition has no fingerprint."""
        entries = open_table(self.spark, self._quoted).list_partitions()
        fingerprints = sorted((e.partition.name, e.fingerprint) for e in entries if e.fingerprint)
        return key_of(canonical_json(fingerprints)) if len(fingerprints) == len(entries) else None

    def write(
        self,
        data: DataFrame,
        mode: str,
        partition_by: Sequence[str],
        holds: Collection[Values],
        before_delete: Callable[[], None] = lambda: None,
    ) -> None:
        """Write rows. A missing table is created first, and is empty until the write completes."""
        is_new = not self.exists()
        if is_new:
            self._create(data, partition_by)
        ordered = data.selectExpr(*map(quote, self.read().columns))
        source = open_table(self.spark, self._quoted)
        settings = {
            "spark.sql.sources.partitionOverwriteMode": "static"
            if mode == "overwrite"
            else "dynamic",
            "hive.exec.dynamic.partition": "true",
            "hive.exec.dynamic.partition.mode": "nonstrict",
        }
        if mode == "overwrite" and not (is_new or isinstance(source, LoggedTable)):
            before_delete()
        try:
            with session_settings(self.spark, settings):
                ordered.write.insertInto(self._quoted, overwrite=mode != "append")
        except BaseException:
            if is_new:
                self.spark.sql(f"DROP TABLE IF EXISTS {self._quoted}").collect()
            raise
        if mode == "overwrite" and isinstance(source, HiveTable) and source.keys:
            # Hive overwrites only the partitions that are written.
            existing = {entry.partition for entry in source.list_partitions()}
            self._drop(source, existing - {source.partition_of(values) for values in holds})

    def _create(self, data: DataFrame, partition_by: Sequence[str]) -> None:
        """Create the table in one step.

        If ``saveAsTable`` is killed, it can leave the table's folder without its entry in the catalog.
        """
        fields = data.schema.jsonValue()["fields"]
        keys = f" PARTITIONED BY ({', '.join(map(quote, partition_by))})" if partition_by else ""
        columns = ", ".join(map(definition_sql, fields))
        self.spark.sql(f"CREATE TABLE {self._quoted} ({columns}) USING parquet{keys}").collect()

    def drop(self, partitions: Collection[Values]) -> None:
        """Drop partitions; missing ones are ignored."""
        source = open_table(self.spark, self._quoted)
        source.list_partitions()
        self._drop(source, {p for p in map(source.partition_of, partitions) if p is not None})

    def _drop(self, source: sources.Source, partitions: Collection[Partition]) -> None:
        for partition in sorted(partitions, key=lambda p: p.name):
            clause = partition_sql(partition)
            with source.as_stored(partition) if isinstance(source, HiveTable) else nullcontext():
                self.spark.sql(f"ALTER TABLE {self._quoted} DROP IF EXISTS {clause}").collect()

    def is_staged(self) -> bool:
        """Return whether the staging table exists."""
        return self.spark.catalog.tableExists(self.staging)

    def stage(self, data: DataFrame) -> DataFrame:
        """Write rows to a staging table and return it."""
        self.unstage()
        # Create the table before writing, so that it can be dropped even if the run is killed.
        self.spark.catalog.createTable(self.staging, schema=data.schema, source="parquet")
        data.write.insertInto(self.staging, overwrite=True)
        return self.spark.table(self.staging)

    def unstage(self) -> None:
        """Drop the staging table."""
        self.spark.sql(f"DROP TABLE IF EXISTS {self.staging}").collect()


@dataclass(frozen=True)
class FolderTarget:
    """A folder of Parquet files as a write target."""

    spark: SparkSession
    name: str

    @property
    def staging(self) -> str:
        """The path of the hidden staging folder, next to the target."""
        return self._sibling(STAGING_PREFIX)

    def _sibling(self, prefix: str) -> str:
        parent, _, folder = absolute(self.name).rstrip("/").rpartition("/")
        # Spark hides _name, but reads _key=value.
        return f"{parent}/{prefix}{folder.replace('=', '~')}"

    def exists(self) -> bool:
        """Return whether the folder has data files."""
        return bool(sources.list_files(self.spark, self.name))

    def keys(self) -> tuple[str, ...]:
        """Return the partition columns that the subfolders name."""
        return PathSource(self.spark, self.name).keys

    def read(self, schema: StructType | None = None) -> DataFrame:
        """Read the folder's rows; with a schema this works even if there are no files."""
        reader = self.spark.read if schema is None else self.spark.read.schema(schema)
        return reader.parquet(self.name)

    def fingerprint(self) -> str | None:
        """Return a fingerprint of the folder's files."""
        return sources.fingerprint(sources.list_files(self.spark, self.name))

    def write(
        self,
        data: DataFrame,
        mode: str,
        partition_by: Sequence[str],
        holds: Collection[Values],
        before_delete: Callable[[], None] = lambda: None,
    ) -> None:
        """Write rows as Parquet files.

        If the file system can rename folders, overwriting writes a new folder and renames it. Otherwise Spark
        deletes all files before it writes.
        """
        if mode == "overwrite" and can_rename_folder(self.name):
            next_folder = self._sibling(NEXT_PREFIX)
            try:
                self._write_parquet(data, "overwrite", partition_by, "static", next_folder)
                replaced = self._replace_by(next_folder)
            finally:
                self._delete(next_folder)
            if replaced:
                return
        if mode == "overwrite" and self.exists():
            before_delete()
        kind = "static" if mode == "overwrite" else "dynamic"
        self._write_parquet(
            data, "append" if mode == "append" else "overwrite", partition_by, kind, self.name
        )

    def _write_parquet(
        self, data: DataFrame, mode: str, partition_by: Sequence[str], kind: str, folder: str
    ) -> None:
        writer = data.write.mode(mode).option("partitionOverwriteMode", kind)
        writer.partitionBy(*partition_by).parquet(folder)

    def _replace_by(self, following: str) -> bool:
        """Replace the folder by another folder. Return False, without changes, if that is impossible.

        Renaming fails if Spark wrote to its own default file system, or if the folders are on different
        disks.
        """
        if not can_rename_folder(following):
            return False
        previous = self._sibling(PREVIOUS_PREFIX)
        try:
            delete_folder(previous)
            rename_folder(self.name, previous)
        except OSError:
            return False
        try:
            rename_folder(following, self.name)
        except BaseException:
            rename_folder(previous, self.name)
            raise
        self.spark.catalog.refreshByPath(self.name)  # cached frames of the old files
        try:
            delete_folder(previous)
        except OSError as error:
            warnings.warn(
                f"the replaced files of {self.name} could not be deleted: {error}; delete {previous} yourself",
                LeftoverWarning,
                stacklevel=2,
            )
        return True

    def restore(self) -> None:
        """Clean up after a killed overwrite: rename the old folder back, or delete it.

        Raises
        ------
        SourceError
            If the target is a file.
        """
        previous = self._sibling(PREVIOUS_PREFIX)
        if is_file(self.name):
            msg = f"{self.name!r} is a file; publish records to a table or a folder"
            raise SourceError(msg)
        if not can_rename_folder(previous):
            return
        try:
            rename_folder(previous, self.name)
            self.spark.catalog.refreshByPath(self.name)
        except FileExistsError:
            with suppress(OSError):
                delete_folder(previous)
                delete_folder(self._sibling(NEXT_PREFIX))

    def drop(self, partitions: Collection[Values]) -> None:
        """Delete the folders of partitions; missing ones are ignored."""
        folders = {
            file.path.rpartition("/")[0] for file in sources.list_files(self.spark, self.name)
        }
        for folder in sorted(folders):
            if Partition.from_path(folder).values in partitions:
                delete_folder(f"{self.name.rstrip('/')}/{folder}")

    def is_staged(self) -> bool:
        """Return whether the staging folder has files."""
        return bool(sources.list_files(self.spark, self.staging))

    def stage(self, data: DataFrame) -> DataFrame:
        """Write rows to a hidden staging folder next to the target, and read them back."""
        data.write.mode("overwrite").parquet(self.staging)
        return self.spark.read.schema(data.schema).parquet(self.staging)

    def unstage(self) -> None:
        """Delete the staging folder."""
        self._delete(self.staging)

    def _delete(self, folder: str) -> None:
        """Delete a folder; if Arrow cannot, overwrite it with an empty frame."""
        with suppress(OSError, ValueError):
            delete_folder(folder)
        if sources.list_files(self.spark, folder):
            self.spark.range(0).write.mode("overwrite").parquet(folder)


def check_not_staged(target: WriteTarget, data: DataFrame) -> None:
    """Raise `SourceError` if data is read from the target's staging area, which is replaced first."""
    if not target.is_staged():
        return
    name = re.split(r"/|`\.`", target.staging)[-1].strip("`").casefold()
    if any(name in unquote(path).casefold().split("/") for path in data.inputFiles()):
        msg = (
            f"the data is read from {target.staging}, which this publication replaces first; copy it"
            " to another table or folder, and publish from there"
        )
        raise SourceError(msg)


def open_target(spark: SparkSession, table: str) -> WriteTarget:
    """Return the target for a table name, or for a folder path, which is any name with a slash.

    Parameters
    ----------
    spark : SparkSession
        The Spark session.
    table : str
        The table name or the folder.

    Raises
    ------
    RuleError
        If the name is empty, or names a folder as in ``delta.`/lake/orders` ``.
    TableFormatError If the folder is a Delta, Hudi or Iceberg table, is inside one, or contains one.
    """
    if not table.strip():
        msg = f"invalid target {table!r}: use a table name or a folder"
        raise RuleError(msg)
    if path_table(table) is not None:
        msg = f"invalid target {table!r}: use a table name or a folder"
        raise RuleError(msg)
    if not is_folder(table):
        return TableTarget(spark, table)
    sources.require_plain_folder(spark, table)
    sources.list_plain_files(spark, table)
    folder = FolderTarget(spark, table)
    folder.restore()
    return folder


def keys_for(target: WriteTarget, schema: StructType, requested: Sequence[str] | None) -> list[str]:
    """Check a target's schema and return the partition columns to write by, as the data spells them.

    Parameters
    ----------
    target : WriteTarget
        The target.
    schema : StructType
        The data's columns.
    requested : sequence of str or None
        The requested partition columns; None for the target's columns.

    Raises
    ------
    PartitionColumnError
        If the target exists with another partitioning, or the data lacks a partition column.
    SourceError
        If the target exists and the data has other columns or types.
    """
    columns = schema.names
    spelled = {column.casefold(): column for column in columns}
    keys = tuple(requested or ())
    if target.exists():
        keys = target.keys()
        if requested is not None and [k.casefold() for k in requested] != [
            k.casefold() for k in keys
        ]:
            msg = (
                f"{target.name!r} is partitioned by {', '.join(keys) or 'nothing'}, not by"
                f" {', '.join(requested) or 'nothing'}; omit partition_by="
            )
            raise PartitionColumnError(msg)
        target_schema = target.read().schema
        target_names = {column.casefold(): column for column in target_schema.names}
        if target_names.keys() != spelled.keys():
            missing = [target_names[c] for c in target_names if c not in spelled]
            additional = [spelled[c] for c in spelled if c not in target_names]
            differences = [f"lacks {', '.join(missing)}"] if missing else []
            differences += [f"also has {', '.join(additional)}"] if additional else []
            msg = f"the data cannot be written to {target.name!r}: it {' and '.join(differences)}"
            raise SourceError(msg)
        _check_types(target, schema, target_schema, keys)
    for key in keys:
        if key.casefold() not in spelled:
            hint = did_you_mean(key, columns)
            msg = f"cannot partition by {key!r}: the data has no such column{hint}"
            raise PartitionColumnError(msg)
    return [spelled[key.casefold()] for key in keys]


def _check_types(
    target: WriteTarget, schema: StructType, target_schema: StructType, keys: Sequence[str]
) -> None:
    """Raise `SourceError` if column types differ from the target's; nullability is ignored."""
    data_types = {field.name.casefold(): field.dataType.simpleString() for field in schema.fields}
    partitioned = {key.casefold() for key in keys}
    for field in target_schema.fields:
        name, target_type = field.name.casefold(), field.dataType.simpleString()
        if data_types[name].casefold() == target_type.casefold():
            continue
        # Folder names and strings store the printed value; a wider integer prints the same.
        is_printed = isinstance(target, FolderTarget) or target_type == "string"
        is_wider = (
            target_type in _INTEGERS_BY_WIDTH
            and data_types[name] in _INTEGERS_BY_WIDTH[: _INTEGERS_BY_WIDTH.index(target_type)]
        )
        if name in partitioned and (is_printed or is_wider):
            continue
        msg = (
            f"the data cannot be written to {target.name!r}: column {field.name!r} is {data_types[name]}"
            f" in the data and {target_type} in the target; cast it"
        )
        raise SourceError(msg)


def check_mode(mode: str, partition_by: Sequence[str]) -> None:
    """Raise `RuleError` for an unknown mode, or mode ``partitions`` without partition columns."""
    if mode not in WRITE_MODES:
        msg = f"invalid mode {mode!r}: use one of {', '.join(map(repr, WRITE_MODES))}"
        raise RuleError(msg)
    if mode == "partitions" and not partition_by:
        msg = "mode='partitions' needs partition columns: set partition_by="
        raise RuleError(msg)


def replace(
    target: WriteTarget,
    data: DataFrame,
    mode: str,
    partition_by: Sequence[str],
    holds: Collection[Values],
    judged: Collection[Values],
    before_delete: Callable[[], None] = lambda: None,
) -> None:
    """Write records to a target, and drop partitions from which no records were selected.

    Parameters
    ----------
    target : WriteTarget
        The target.
    data : DataFrame
        The records.
    mode : str
        One of `WRITE_MODES`. ``partitions`` replaces all partitions in ``judged``, and empties those without records.
    partition_by : sequence of str
        The partition columns.
    holds : collection of tuple of str
        The partitions of the records.
    judged : collection of tuple of str
        The partitions of the data from which the records were selected.
    before_delete : callable
        Called before Spark deletes existing rows, if Spark deletes them before it writes.
    """
    target.write(data, mode, partition_by, holds, before_delete)
    if mode == "partitions" and set(judged) - set(holds):
        target.drop(set(judged) - set(holds))
