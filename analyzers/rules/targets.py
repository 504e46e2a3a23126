"""Where judged records go: tables of the catalog and folders, each with a place beside it to wait in."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from analyzers.description import canonical_json, key_of
from analyzers.errors import PartitionColumnError, RuleError, SourceError, nearest
from analyzers.partitions import Partition
from analyzers.rules.fingerprints import configured
from analyzers.segments import Values
from analyzers.sources import (
    HiveTable,
    PathSource,
    absolute,
    file_system,
    fingerprint,
    list_files,
    partition_sql,
)
from analyzers.sql import parts, quote
from analyzers.tables import open_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MODES = ("overwrite", "append", "partitions")
STAGING = "_tidegauge_staging_"
"""How the name of what waits beside a target begins."""


class Target(Protocol):
    """A table or folder that records are written to."""

    @property
    def spark(self) -> SparkSession:
        """The session."""

    @property
    def name(self) -> str:
        """What it is called."""

    def exists(self) -> bool:
        """Whether it is there."""

    def keys(self) -> tuple[str, ...]:
        """Return its partition columns."""

    def read(self) -> DataFrame:
        """Return its rows."""

    def fingerprint(self) -> str | None:
        """Return text that is equal as long as its files are; None where there are none to look at."""

    def write(
        self, data: DataFrame, mode: str, by: Sequence[str], holds: Collection[Values]
    ) -> None:
        """Write rows, which hold some partitions: in place of all, of just these, or beside all."""

    def drop(self, partitions: Collection[Values]) -> None:
        """Remove partitions; those that are not there are none to remove."""

    def stage(self, data: DataFrame) -> DataFrame:
        """Write rows beside the target, in place of what a killed run left there, and read them back."""

    def unstage(self) -> None:
        """Remove what waits beside the target."""


@dataclass(frozen=True)
class TableTarget:
    """A table of the catalog."""

    spark: SparkSession
    name: str

    @property
    def _quoted(self) -> str:
        return ".".join(quote(str(part)) for part in parts(self.name))

    @property
    def _staging(self) -> str:
        *path, table = map(str, parts(self.name))
        return ".".join(map(quote, [*path, STAGING + table]))

    def exists(self) -> bool:
        """Whether it is there.

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
        """Return its partition columns."""
        columns = self.spark.catalog.listColumns(self._quoted)
        return tuple(column.name for column in columns if column.isPartition)

    def read(self) -> DataFrame:
        """Return its rows."""
        return self.spark.table(self._quoted)

    def fingerprint(self) -> str | None:
        """Return text that is equal as long as its files are."""
        entries = open_table(self.spark, self._quoted).list_partitions()
        known = sorted((e.partition.name, e.fingerprint) for e in entries if e.fingerprint)
        return key_of(canonical_json(known)) if len(known) == len(entries) else None

    def write(
        self, data: DataFrame, mode: str, by: Sequence[str], holds: Collection[Values]
    ) -> None:
        """Write rows; a new table is made before, and is empty until they are there."""
        new = not self.exists()
        if new:
            data.limit(0).write.format("parquet").partitionBy(*by).saveAsTable(self._quoted)
        ordered = data.selectExpr(*map(quote, self.read().columns))
        settings = {
            "spark.sql.sources.partitionOverwriteMode": "static"
            if mode == "overwrite"
            else "dynamic",
            "hive.exec.dynamic.partition": "true",
            "hive.exec.dynamic.partition.mode": "nonstrict",
        }
        try:
            with configured(self.spark, settings):
                ordered.write.insertInto(self._quoted, overwrite=mode != "append")
        except BaseException:
            if new:
                self.spark.sql(f"DROP TABLE IF EXISTS {self._quoted}").collect()
            raise
        source = open_table(self.spark, self._quoted)
        if mode == "overwrite" and isinstance(source, HiveTable) and source.keys:
            # Hive replaces only partitions that are written.
            there = {entry.partition for entry in source.list_partitions()}
            self._drop(there - {source.partition_of(values) for values in holds})

    def drop(self, partitions: Collection[Values]) -> None:
        """Remove partitions."""
        source = open_table(self.spark, self._quoted)
        source.list_partitions()
        self._drop({p for p in map(source.partition_of, partitions) if p is not None})

    def _drop(self, partitions: Collection[Partition]) -> None:
        for partition in sorted(partitions, key=lambda p: p.name):
            which = partition_sql(partition)
            self.spark.sql(f"ALTER TABLE {self._quoted} DROP IF EXISTS {which}").collect()

    def stage(self, data: DataFrame) -> DataFrame:
        """Write rows to a table beside it."""
        self.unstage()
        # A table that is made before its rows are written is there to be dropped, wherever a run is killed.
        self.spark.catalog.createTable(self._staging, schema=data.schema, source="parquet")
        data.write.insertInto(self._staging, overwrite=True)
        return self.spark.table(self._staging)

    def unstage(self) -> None:
        """Drop the table beside it."""
        self.spark.sql(f"DROP TABLE IF EXISTS {self._staging}").collect()


@dataclass(frozen=True)
class FolderTarget:
    """A folder of Parquet files."""

    spark: SparkSession
    name: str

    @property
    def _staging(self) -> str:
        parent, _, folder = absolute(self.name).rstrip("/").rpartition("/")
        return f"{parent}/{STAGING}{folder}"

    def exists(self) -> bool:
        """Whether it holds files."""
        return bool(list_files(self.spark, self.name))

    def keys(self) -> tuple[str, ...]:
        """Return the partition columns that its folders name."""
        return PathSource(self.spark, self.name).keys

    def read(self) -> DataFrame:
        """Return its rows."""
        return self.spark.read.parquet(self.name)

    def fingerprint(self) -> str | None:
        """Return text that is equal as long as its files are."""
        return fingerprint(list_files(self.spark, self.name))

    def write(
        self,
        data: DataFrame,
        mode: str,
        by: Sequence[str],
        holds: Collection[Values],  # noqa: ARG002 - Spark replaces all of a folder by itself
    ) -> None:
        """Write rows."""
        writer = data.write.mode("append" if mode == "append" else "overwrite")
        kind = "static" if mode == "overwrite" else "dynamic"
        writer.option("partitionOverwriteMode", kind).partitionBy(*by).parquet(self.name)

    def drop(self, partitions: Collection[Values]) -> None:
        """Remove the folders of partitions."""
        folders = {file.path.rpartition("/")[0] for file in list_files(self.spark, self.name)}
        for folder in sorted(folders):
            if Partition.from_path(folder).values in partitions:
                system, path = file_system(f"{self.name.rstrip('/')}/{folder}")
                system.delete_dir(path)

    def stage(self, data: DataFrame) -> DataFrame:
        """Write rows to a hidden folder beside it."""
        data.write.mode("overwrite").parquet(self._staging)
        return self.spark.read.schema(data.schema).parquet(self._staging)

    def unstage(self) -> None:
        """Remove the folder beside it; where Arrow cannot, empty it."""
        from pyarrow import fs  # noqa: PLC0415 - heavy

        try:
            system, path = file_system(self._staging)
            if system.get_file_info(path).type != fs.FileType.NotFound:
                system.delete_dir(path)
        except (OSError, ValueError):
            self.spark.range(0).write.mode("overwrite").parquet(self._staging)


def target_of(spark: SparkSession, table: str) -> Target:
    """Return the table of a name, or the folder of a path, which is anything with a slash."""
    if not table.strip():
        msg = f"records are written to a table's name or a folder, not {table!r}"
        raise RuleError(msg)
    return FolderTarget(spark, table) if "/" in table else TableTarget(spark, table)


def keys_for(target: Target, columns: Sequence[str], wanted: Sequence[str] | None) -> list[str]:
    """Return by which columns records are written, as the data spells them.

    Raises
    ------
    PartitionColumnError
        If the target is there and is partitioned otherwise, or the data lacks one of them.
    SourceError
        If the target is there and its columns are not those of the data.
    """
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
        there = {column.casefold(): column for column in target.read().columns}
        if there.keys() != spelled.keys():
            lacking = [there[c] for c in there if c not in spelled]
            new = [spelled[c] for c in spelled if c not in there]
            told = [f"lacks {', '.join(lacking)}"] if lacking else []
            told += [f"has {', '.join(new)} beside"] if new else []
            msg = f"the data cannot be written to {target.name!r}: it {' and '.join(told)}"
            raise SourceError(msg)
    for key in keys:
        if key.casefold() not in spelled:
            close = nearest(key, columns)
            msg = f"the data has no column {key!r} to be partitioned by" + (
                f"; did you mean {close!r}?" if close else ""
            )
            raise PartitionColumnError(msg)
    return [spelled[key.casefold()] for key in keys]


def check_mode(mode: str, by: Sequence[str]) -> None:
    """Refuse a mode that is none, or needs partitions where there are none."""
    if mode not in MODES:
        msg = f"mode is one of {', '.join(map(repr, MODES))}, not {mode!r}"
        raise RuleError(msg)
    if mode == "partitions" and not by:
        msg = "mode='partitions' replaces partitions, and there are none: give partition_by="
        raise RuleError(msg)


def replace(
    target: Target,
    data: DataFrame,
    mode: str,
    by: Sequence[str],
    holds: Collection[Values],
    judged: Collection[Values],
) -> None:
    """Write records to a target.

    Parameters
    ----------
    target : Target
    data : DataFrame
    mode : str
        ``partitions`` replaces those that were judged, also by nothing.
    by : sequence of str
    holds, judged : collection of tuple of str
        The partitions of these records, and of all from which they were chosen.
    """
    target.write(data, mode, by, holds)
    if mode == "partitions" and set(judged) - set(holds):
        target.drop(set(judged) - set(holds))
