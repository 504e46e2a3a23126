"""Write targets for judged records: catalog tables and folders, each with a staging area."""

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
from tidegauge.analyzers.sources.hive_table import HiveTable, partition_sql
from tidegauge.analyzers.sources.opening import open_table
from tidegauge.analyzers.sources.path_source import PathSource
from tidegauge.analyzers.sources.sources import (
    Source,
    fingerprint,
    list_files,
    list_plain_files,
    require_plain_folder,
)
from tidegauge.analyzers.sources.table_formats import LoggedTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

MODES = ("overwrite", "append", "partitions")
_WIDER = ("tinyint", "smallint", "int", "bigint")
STAGING = "_tidegauge_staging_"
"""Name prefix of staging tables and folders."""
NEXT, PREVIOUS = "_tidegauge_next_", "_tidegauge_previous_"
"""Name prefixes of what replaces a folder, and of the replaced folder, until it is deleted."""


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
        """Read the rows; a given schema applies to folders, in place of inferred partition types."""

    def fingerprint(self) -> str | None:
        """Return a fingerprint of the target's files; None if they cannot be listed."""

    def write(
        self,
        data: DataFrame,
        mode: str,
        by: Sequence[str],
        holds: Collection[Values],
        before_delete: Callable[[], None] = lambda: None,
    ) -> None:
        """Write rows: overwrite everything, overwrite only the partitions in ``holds``, or append.

        ``before_delete`` is called before Spark deletes what is there, if it does so before it writes.
        """

    def drop(self, partitions: Collection[Values]) -> None:
        """Drop partitions; missing ones are ignored."""

    @property
    def staging(self) -> str:
        """The name of the staging table or folder, as SQL or Spark's reader takes it."""

    def is_staged(self) -> bool:
        """Return whether a publication that failed or was killed left its staging area."""

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
        return ".".join(map(quote, [*path, STAGING + table]))

    def exists(self) -> bool:
        """Return whether the table exists.

        Raises
        ------
        SourceError
            If it is a view.
        """
        if not self.spark.catalog.tableExists(self._quoted):
            return False
        if self.spark.catalog.getTable(self._quoted).tableType in {"VIEW", "TEMPORARY"}:
            msg = f"{self.name!r} is a view; records are published to a table or a folder"
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
        """Return a fingerprint of the table's files; None if some partition has none."""
        entries = open_table(self.spark, self._quoted).list_partitions()
        known = sorted((e.partition.name, e.fingerprint) for e in entries if e.fingerprint)
        return key_of(canonical_json(known)) if len(known) == len(entries) else None

    def write(
        self,
        data: DataFrame,
        mode: str,
        by: Sequence[str],
        holds: Collection[Values],
        before_delete: Callable[[], None] = lambda: None,
    ) -> None:
        """Write rows; a missing table is created first, and is empty until the write completes."""
        new = not self.exists()
        if new:
            self._create(data, by)
        ordered = data.selectExpr(*map(quote, self.read().columns))
        source = open_table(self.spark, self._quoted)
        settings = {
            "spark.sql.sources.partitionOverwriteMode": "static"
            if mode == "overwrite"
            else "dynamic",
            "hive.exec.dynamic.partition": "true",
            "hive.exec.dynamic.partition.mode": "nonstrict",
        }
        if mode == "overwrite" and not (new or isinstance(source, LoggedTable)):
            before_delete()
        try:
            with session_settings(self.spark, settings):
                ordered.write.insertInto(self._quoted, overwrite=mode != "append")
        except BaseException:
            if new:
                self.spark.sql(f"DROP TABLE IF EXISTS {self._quoted}").collect()
            raise
        if mode == "overwrite" and isinstance(source, HiveTable) and source.keys:
            # Hive overwrites only the partitions that are written.
            there = {entry.partition for entry in source.list_partitions()}
            self._drop(source, there - {source.partition_of(values) for values in holds})

    def _create(self, data: DataFrame, by: Sequence[str]) -> None:
        """Create the table in one step; ``saveAsTable`` may be killed between its folder and its entry."""
        fields = data.schema.jsonValue()["fields"]
        keys = f" PARTITIONED BY ({', '.join(map(quote, by))})" if by else ""
        columns = ", ".join(map(definition_sql, fields))
        self.spark.sql(f"CREATE TABLE {self._quoted} ({columns}) USING parquet{keys}").collect()

    def drop(self, partitions: Collection[Values]) -> None:
        """Drop partitions; missing ones are ignored."""
        source = open_table(self.spark, self._quoted)
        source.list_partitions()
        self._drop(source, {p for p in map(source.partition_of, partitions) if p is not None})

    def _drop(self, source: Source, partitions: Collection[Partition]) -> None:
        for partition in sorted(partitions, key=lambda p: p.name):
            which = partition_sql(partition)
            with source.as_stored(partition) if isinstance(source, HiveTable) else nullcontext():
                self.spark.sql(f"ALTER TABLE {self._quoted} DROP IF EXISTS {which}").collect()

    def is_staged(self) -> bool:
        """Return whether there is a staging table."""
        return self.spark.catalog.tableExists(self.staging)

    def stage(self, data: DataFrame) -> DataFrame:
        """Write rows to a staging table and return it."""
        self.unstage()
        # Create the table before writing, so that it can be dropped wherever a run is killed.
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
        return self._beside(STAGING)

    def _beside(self, prefix: str) -> str:
        parent, _, folder = absolute(self.name).rstrip("/").rpartition("/")
        # Spark hides _name, but reads _key=value.
        return f"{parent}/{prefix}{folder.replace('=', '~')}"

    def exists(self) -> bool:
        """Return whether the folder has data files."""
        return bool(list_files(self.spark, self.name))

    def keys(self) -> tuple[str, ...]:
        """Return the partition columns that the subfolders name."""
        return PathSource(self.spark, self.name).keys

    def read(self, schema: StructType | None = None) -> DataFrame:
        """Read the folder's rows; with a schema this works even if there are no files."""
        reader = self.spark.read if schema is None else self.spark.read.schema(schema)
        return reader.parquet(self.name)

    def fingerprint(self) -> str | None:
        """Return a fingerprint of the folder's files."""
        return fingerprint(list_files(self.spark, self.name))

    def write(
        self,
        data: DataFrame,
        mode: str,
        by: Sequence[str],
        holds: Collection[Values],
        before_delete: Callable[[], None] = lambda: None,
    ) -> None:
        """Write rows as Parquet files.

        Overwriting writes a new folder and renames it, where the file system can; elsewhere Spark
        deletes all files first.
        """
        if mode == "overwrite" and can_rename_folder(self.name):
            following = self._beside(NEXT)
            try:
                self._write_parquet(data, "overwrite", by, "static", following)
                replaced = self._replace_by(following)
            finally:
                self._delete(following)
            if replaced:
                return
        if mode == "overwrite" and self.exists():
            before_delete()
        kind = "static" if mode == "overwrite" else "dynamic"
        self._write_parquet(
            data, "append" if mode == "append" else "overwrite", by, kind, self.name
        )

    def _write_parquet(
        self, data: DataFrame, mode: str, by: Sequence[str], kind: str, folder: str
    ) -> None:
        writer = data.write.mode(mode).option("partitionOverwriteMode", kind)
        writer.partitionBy(*by).parquet(folder)

    def _replace_by(self, following: str) -> bool:
        """Replace the folder by another one; False if that cannot be done, and nothing has changed.

        Spark may have written to a default file system of its own, or a folder may be one of several
        disks that look like one.
        """
        if not can_rename_folder(following):
            return False
        previous = self._beside(PREVIOUS)
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
                f"what {self.name} held before is left in {previous}, which is yours to delete: {error}",
                LeftoverWarning,
                stacklevel=2,
            )
        return True

    def restore(self) -> None:
        """Put right what a killed overwrite left: the old folder has its name, or is deleted.

        Raises
        ------
        SourceError
            If there is a file in place of the folder.
        """
        previous = self._beside(PREVIOUS)
        if is_file(self.name):
            msg = f"{self.name!r} is a file; records are published to a table or a folder"
            raise SourceError(msg)
        if not can_rename_folder(previous):
            return
        try:
            rename_folder(previous, self.name)
            self.spark.catalog.refreshByPath(self.name)
        except FileExistsError:
            with suppress(OSError):
                delete_folder(previous)
                delete_folder(self._beside(NEXT))

    def drop(self, partitions: Collection[Values]) -> None:
        """Delete the folders of partitions; missing ones are ignored."""
        folders = {file.path.rpartition("/")[0] for file in list_files(self.spark, self.name)}
        for folder in sorted(folders):
            if Partition.from_path(folder).values in partitions:
                delete_folder(f"{self.name.rstrip('/')}/{folder}")

    def is_staged(self) -> bool:
        """Return whether there are files in the staging folder."""
        return bool(list_files(self.spark, self.staging))

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
        if list_files(self.spark, folder):
            self.spark.range(0).write.mode("overwrite").parquet(folder)


def check_not_staged(target: WriteTarget, data: DataFrame) -> None:
    """Raise `SourceError` if data is read from the target's staging area, which is replaced before."""
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
    """Return the target for a table name, or for a folder path, which is anything with a slash.

    Raises
    ------
    RuleError
        If the name is empty, or names a folder as in ``delta.`/lake/orders` ``.
    TableFormatError
        If the folder is, is in or contains a Delta, Hudi or Iceberg table.
    """
    if not table.strip():
        msg = f"records are written to a table's name or a folder, not {table!r}"
        raise RuleError(msg)
    if path_table(table) is not None:
        msg = f"records are written to a table's name or a folder, not {table!r}"
        raise RuleError(msg)
    if not is_folder(table):
        return TableTarget(spark, table)
    require_plain_folder(spark, table)
    list_plain_files(spark, table)
    folder = FolderTarget(spark, table)
    folder.restore()
    return folder


def keys_for(target: WriteTarget, schema: StructType, wanted: Sequence[str] | None) -> list[str]:
    """Check a target's schema and return the partition columns to write by, as the data spells them.

    Raises
    ------
    PartitionColumnError
        If the target exists with another partitioning, or the data lacks a partition column.
    SourceError
        If the target exists and its columns or their types differ from those of the data.
    """
    columns = schema.names
    spelled = {column.casefold(): column for column in columns}
    keys = tuple(wanted or ())
    if target.exists():
        keys = target.keys()
        if wanted is not None and [k.casefold() for k in wanted] != [k.casefold() for k in keys]:
            msg = (
                f"{target.name!r} is partitioned by {', '.join(keys) or 'nothing'}, not by"
                f" {', '.join(wanted) or 'nothing'}; leave partition_by= out"
            )
            raise PartitionColumnError(msg)
        found = target.read().schema
        there = {column.casefold(): column for column in found.names}
        if there.keys() != spelled.keys():
            lacking = [there[c] for c in there if c not in spelled]
            new = [spelled[c] for c in spelled if c not in there]
            told = [f"lacks {', '.join(lacking)}"] if lacking else []
            told += [f"has {', '.join(new)} beside"] if new else []
            msg = f"the data cannot be written to {target.name!r}: it {' and '.join(told)}"
            raise SourceError(msg)
        _check_types(target, schema, found, keys)
    for key in keys:
        if key.casefold() not in spelled:
            hint = did_you_mean(key, columns)
            msg = f"the data has no column {key!r} to be partitioned by{hint}"
            raise PartitionColumnError(msg)
    return [spelled[key.casefold()] for key in keys]


def _check_types(
    target: WriteTarget, schema: StructType, there: StructType, keys: Sequence[str]
) -> None:
    """Raise `SourceError` if column types differ from the target's; nullability is ignored."""
    given = {field.name.casefold(): field.dataType.simpleString() for field in schema.fields}
    partitioned = {key.casefold() for key in keys}
    for field in there.fields:
        name, wanted = field.name.casefold(), field.dataType.simpleString()
        if given[name].casefold() == wanted.casefold():
            continue
        # Folder names and strings hold the printed value; a wider integer prints the same.
        printed = isinstance(target, FolderTarget) or wanted == "string"
        wider = wanted in _WIDER and given[name] in _WIDER[: _WIDER.index(wanted)]
        if name in partitioned and (printed or wider):
            continue
        msg = (
            f"the data cannot be written to {target.name!r}: its column {field.name!r} is {given[name]},"
            f" and {wanted} there; cast it"
        )
        raise SourceError(msg)


def check_mode(mode: str, by: Sequence[str]) -> None:
    """Raise `RuleError` for an unknown mode, or mode ``partitions`` without partition columns."""
    if mode not in MODES:
        msg = f"mode is one of {', '.join(map(repr, MODES))}, not {mode!r}"
        raise RuleError(msg)
    if mode == "partitions" and not by:
        msg = "mode='partitions' replaces partitions, and there are none: give partition_by="
        raise RuleError(msg)


def replace(
    target: WriteTarget,
    data: DataFrame,
    mode: str,
    by: Sequence[str],
    holds: Collection[Values],
    judged: Collection[Values],
    before_delete: Callable[[], None] = lambda: None,
) -> None:
    """Write records to a target, and drop judged partitions that have no records left.

    Parameters
    ----------
    target : WriteTarget
    data : DataFrame
    mode : str
        One of `MODES`. ``partitions`` replaces all judged partitions, even with nothing.
    by : sequence of str
        The partition columns.
    holds, judged : collection of tuple of str
        The partitions of these records, and of all records that they were selected from.
    before_delete : callable
        Called before Spark deletes what is there, if it does so before it writes.
    """
    target.write(data, mode, by, holds, before_delete)
    if mode == "partitions" and set(judged) - set(holds):
        target.drop(set(judged) - set(holds))
