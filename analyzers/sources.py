"""What can be measured: Hive tables, folders of partitioned files, and DataFrames.

A source lists its partitions without reading a row, and gives each a fingerprint of its files, so
that a run knows what is new. Only DataFrames, views and formats that we cannot list have none.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import unquote

from analyzers.errors import NoSuchTableError, PartitionColumnError, nearest
from analyzers.files import absolute, file_system, plain_path
from analyzers.groups import only_groups
from analyzers.partitions import NULL, Partition
from analyzers.scan import scan
from analyzers.segments import Values
from analyzers.sql import literal, quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILE_FORMATS = frozenset({"parquet", "orc", "csv", "json", "text", "avro", "hive"})
"""Providers whose partitions are folders of files, so that files tell what changed."""

_INTEGERS = frozenset({"tinyint", "smallint", "int", "bigint"})


@dataclass(frozen=True, slots=True)
class Listed:
    """A partition as it lies there now.

    Attributes
    ----------
    partition : Partition
    fingerprint : str or None
        Equal for equal files; None where there are none to look at.
    arrived_at : datetime or None
        When the newest of its files was written, in UTC.
    size : int
        Bytes of its files; 0 where there are none to look at.
    """

    partition: Partition
    fingerprint: str | None = None
    arrived_at: datetime | None = None
    size: int = 0


class Source(Protocol):
    """Something that can be measured by partitions."""

    @property
    def name(self) -> str | None:
        """What it is called, for the dataset to remember; None for a DataFrame."""

    @property
    def keys(self) -> tuple[str, ...]:
        """The partition columns."""

    def list_partitions(self) -> list[Listed]:
        """List what is there now."""

    def read(self, partitions: Collection[Partition] | None = None) -> DataFrame:
        """Return the rows of some partitions, perhaps with some others; None for all."""

    def partition_of(self, key: Values) -> Partition | None:
        """Return the listed partition for the values that a scan found, or None."""


@dataclass(frozen=True, slots=True)
class FileInfo:
    """A file: where it lies, its size in bytes, its modification time in milliseconds."""

    path: str
    size: int
    modified: int


def fingerprint(files: Iterable[FileInfo]) -> str:
    """Return text that is equal for equal paths, sizes and times, in any order.

    Examples
    --------
    >>> a, b = FileInfo("ds=1/a", 10, 5), FileInfo("ds=1/b", 10, 5)
    >>> fingerprint([a, b]) == fingerprint([b, a]) != fingerprint([a])
    True
    """
    lines = sorted(json.dumps([f.path, f.size, f.modified]) for f in files)
    return "files/1:" + hashlib.sha256("\n".join(lines).encode()).hexdigest()


def list_files(spark: SparkSession, root: str) -> list[FileInfo]:
    """List data files under a folder, on the driver where it can see them, else through Spark.

    Files and folders whose names begin with a dot or an underscore are not data, as for Spark.
    """
    from pyarrow import ArrowException  # noqa: PLC0415

    root = absolute(root)
    try:
        found = _list_by_arrow(root)
    except (ArrowException, OSError):  # not there, or not where Arrow looks: Spark knows
        found = _list_by_spark(spark, root)
    return [f for f in found if not any(map(_hidden, f.path.split("/")))]


def _hidden(step: str) -> bool:
    return step.startswith(".") or (step.startswith("_") and "=" not in step)


def _below(root: str, path: str) -> str:
    return path.removeprefix(root.rstrip("/") + "/")


def _list_by_arrow(root: str) -> list[FileInfo]:
    from pyarrow import fs  # noqa: PLC0415 - heavy

    system, path = file_system(root)
    infos = system.get_file_info(fs.FileSelector(path, recursive=True))
    return [
        FileInfo(_below(path, info.path), info.size, info.mtime_ns // 1_000_000)
        for info in infos
        if info.type == fs.FileType.File
    ]


def _list_by_spark(spark: SparkSession, root: str) -> list[FileInfo]:
    from pyspark.errors import AnalysisException  # noqa: PLC0415 - core imports no Spark

    reader = spark.read.format("binaryFile").option("recursiveFileLookup", "true")
    try:
        files = reader.load(root).selectExpr(
            "path", "length", "unix_millis(modificationTime) AS modified"
        )
        rows = files.collect()  # Connect looks at nothing before
    except AnalysisException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            return []
        raise
    base = plain_path(root)
    return [FileInfo(_below(base, plain_path(r.path)), r.length, r.modified) for r in rows]


def _described(files: Mapping[Partition, list[FileInfo]]) -> list[Listed]:
    return [
        Listed(partition, fingerprint(found), _newest(found), sum(f.size for f in found))
        for partition, found in files.items()
    ]


def _newest(files: Collection[FileInfo]) -> datetime | None:
    if not files:
        return None
    return datetime.fromtimestamp(max(f.modified for f in files) / 1000, UTC)


def check_keys(
    wanted: Sequence[str] | None, available: Sequence[str], what: str
) -> tuple[str, ...]:
    """Return the partition columns as the data spells them; all of them if none are asked for."""
    if wanted is None:
        return tuple(available)
    by_name = {name.casefold(): name for name in available}
    for name in wanted:
        if name.casefold() not in by_name:
            known = ", ".join(map(repr, available))
            are = f"it is partitioned by {known}" if known else "it is not partitioned"
            close = nearest(name, available)
            hint = f"; did you mean {close!r}?" if close else ""
            msg = f"{what} has no partition column {name!r}: {are}{hint}"
            raise PartitionColumnError(msg)
    return tuple(by_name[name.casefold()] for name in wanted)


@dataclass
class FrameSource:
    """A DataFrame, partitioned by some of its columns; nothing tells whether it changed.

    Attributes
    ----------
    data : DataFrame
    keys : tuple of str
    name : str or None
        The view it came from, if any.
    """

    data: DataFrame
    keys: tuple[str, ...] = ()
    name: str | None = None

    def __post_init__(self) -> None:
        self.keys = check_keys(self.keys, self.data.columns, "the data")

    def list_partitions(self) -> list[Listed]:
        """Find the distinct values of the partition columns: one pass over these columns."""
        if not self.keys:
            return [Listed(Partition())]
        return [Listed(Partition(self.keys, key)) for key in scan(self.data, [], self.keys).groups]

    def read(self, partitions: Collection[Partition] | None = None) -> DataFrame:
        """Return the rows of some partitions."""
        if partitions is None or not self.keys:
            return self.data
        return only_groups(self.data, self.keys, [p.values for p in partitions])

    def partition_of(self, key: Values) -> Partition | None:
        """Return the partition of these values."""
        return Partition(self.keys, key)


@dataclass
class PathSource:
    """A folder of files, with Hive-style folders ``key=value`` for partitions.

    Attributes
    ----------
    spark : SparkSession
    name : str
        The folder, as a path or URI.
    keys : tuple of str or None
        The partition columns; None for those that the folders name.
    format : str
    options : mapping
        Options of Spark's reader.
    """

    spark: SparkSession
    name: str
    keys: tuple[str, ...] = None  # type: ignore[assignment]  # found in __post_init__
    format: str = "parquet"
    options: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        files = list_files(self.spark, self.name)
        if not files:
            msg = f"no data files under {self.name!r}"
            raise NoSuchTableError(msg)
        self._files: dict[Partition, list[FileInfo]] = {}
        for file in files:
            folders = [step for step in file.path.split("/")[:-1] if "=" in step]
            self._files.setdefault(Partition.from_path("/".join(folders)), []).append(file)
        all_keys = {partition.keys for partition in self._files}
        if len(all_keys) > 1:
            shapes = " and ".join(sorted("/".join(k) or "no partition" for k in all_keys))
            msg = f"{self.name!r} holds files under different partition columns: {shapes}"
            raise PartitionColumnError(msg)
        self._all_keys = all_keys.pop()
        self.keys = check_keys(self.keys, self._all_keys, repr(self.name))

    def list_partitions(self) -> list[Listed]:
        """List the folders that hold files."""
        grouped: dict[Partition, list[FileInfo]] = {}
        for partition, files in self._files.items():
            grouped.setdefault(partition.only(self.keys), []).extend(files)
        return _described(grouped)

    def read(self, partitions: Collection[Partition] | None = None) -> DataFrame:
        """Return the rows of some partitions; values of partition columns stay text."""
        from pyspark.sql.types import StringType, StructField, StructType  # noqa: PLC0415

        reader = self.spark.read.format(self.format).options(**dict(self.options))
        data = reader.load(self.name)
        if self._all_keys:
            columns = [f for f in data.schema.fields if f.name not in self._all_keys]
            columns += [StructField(key, StringType()) for key in self._all_keys]
            data = reader.schema(StructType(columns)).load(self.name)
        if partitions is None or not self.keys:
            return data
        return only_groups(data, self.keys, [p.values for p in partitions])

    def partition_of(self, key: Values) -> Partition | None:
        """Return the partition of these values."""
        return Partition(self.keys, key)


@dataclass
class HiveTable:
    """A table of the metastore whose partitions are folders of files.

    Attributes
    ----------
    spark : SparkSession
    name : str
        The full name.
    keys : tuple of str
        The partition columns, or some of them for a coarser partitioning.
    """

    spark: SparkSession
    name: str
    keys: tuple[str, ...]
    details: Mapping[str, Any]
    _by_key: dict[Values, Partition] = field(init=False, default_factory=dict)

    @property
    def _quoted(self) -> str:
        return ".".join(map(quote, self.name.split(".")))

    def list_partitions(self) -> list[Listed]:
        """List the metastore's partitions, with the files of each wherever they lie."""
        self.spark.catalog.refreshTable(self._quoted)  # others may have written since Spark looked
        root = self.details["location"]
        in_root: dict[str, list[FileInfo]] = {}
        for file in list_files(self.spark, root):
            folder = "/".join(step for step in file.path.split("/")[:-1] if "=" in step)
            in_root.setdefault(folder, []).append(file)
        grouped: dict[Partition, list[FileInfo]] = {}
        if not self.details.get("partition_columns"):
            grouped[Partition()] = [file for files in in_root.values() for file in files]
        else:
            moved = self._moved(root)
            for row in self.spark.sql(f"SHOW PARTITIONS {self._quoted}").collect():
                path = row["partition"]
                partition = Partition.from_path(path)
                files = in_root.get(path)
                if files is None or path in moved:
                    files = self._files_of(partition)
                grouped.setdefault(partition.only(self.keys), []).extend(files)
        self._by_key = self._index(grouped)
        return _described(grouped)

    def _moved(self, root: str) -> set[str]:
        """Return the folders in the table's root that the table no longer reads.

        A partition may have been pointed elsewhere and its old files left behind. Spark tells which
        files it would read, without a job; text tables name only their root and tell nothing.
        """
        base = plain_path(root).rstrip("/") + "/"
        read = [plain_path(unquote(uri)) for uri in self.spark.table(self._quoted).inputFiles()]
        if all(path.startswith(base) or path + "/" == base for path in read):
            return set()
        inside = {
            path.removeprefix(base).rpartition("/")[0] for path in read if path.startswith(base)
        }
        return _Complement(inside)

    def _files_of(self, partition: Partition) -> list[FileInfo]:
        which = f"{self._quoted} {partition_sql(partition)}"
        location = describe_table(self.spark, which)["location"]
        files = list_files(self.spark, location)
        return [FileInfo(f"{partition.name}/{f.path}", f.size, f.modified) for f in files]

    def _index(self, partitions: Iterable[Partition]) -> dict[Values, Partition]:
        index: dict[Values, Partition] = {}
        for partition in partitions:
            key = self._typed(partition)
            if key in index:
                a, b = index[key].name, partition.name
                msg = f"{self.name}: {a!r} and {b!r} are the same value in the column's type"
                raise PartitionColumnError(msg)
            index[key] = partition
        return index

    def _typed(self, partition: Partition) -> Values:
        """Return the values as Spark prints them: for a column of integers ``07`` is 7."""
        types = {c["name"]: c["type"]["name"] for c in self.details["columns"]}
        return tuple(
            str(int(value)) if types.get(key) in _INTEGERS and value != NULL else value
            for key, value in zip(partition.keys, partition.values, strict=True)
        )

    def read(self, partitions: Collection[Partition] | None = None) -> DataFrame:
        """Return the rows of some partitions; Spark opens the files of no other."""
        data = self.spark.table(self._quoted)
        if partitions is None or not self.keys:
            return data
        return only_groups(data, self.keys, [self._typed(p) for p in partitions])

    def partition_of(self, key: Values) -> Partition | None:
        """Return the listed partition whose values Spark prints so."""
        return self._by_key.get(key)


def partition_sql(partition: Partition) -> str:
    """Return SQL that names a partition of a table.

    Examples
    --------
    >>> print(partition_sql(Partition(("ds", "hr"), ("2013-02-08", NULL))))
    PARTITION (`ds`='2013-02-08', `hr`=NULL)
    """
    spec = ", ".join(
        f"{quote(k)}={'NULL' if v == NULL else literal(v)}"
        for k, v in zip(partition.keys, partition.values, strict=True)
    )
    return f"PARTITION ({spec})"


class _Complement(set[str]):
    """All folders but some."""

    def __contains__(self, item: object) -> bool:
        return not super().__contains__(item)


def describe_table(spark: SparkSession, what: str) -> dict[str, Any]:
    """Return what the catalog knows of a table or of one of its partitions."""
    text = spark.sql(f"DESCRIBE TABLE EXTENDED {what} AS JSON").collect()[0][0]
    described: dict[str, Any] = json.loads(text)
    return described
