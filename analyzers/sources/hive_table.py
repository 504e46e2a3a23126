"""Tables of the Hive metastore: list partitions with their files, and read the rows of partitions."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from datetime import date
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import unquote

from tidegauge.analyzers.columnar.engines import reads_by_default
from tidegauge.analyzers.columnar.table_logs import DataFile, TablePartition
from tidegauge.analyzers.core.errors import PartitionColumnError
from tidegauge.analyzers.core.filesystems import child, comparable, local_path, plain_path
from tidegauge.analyzers.core.partitions import NULL, Partition, Values
from tidegauge.analyzers.core.schema import Schema
from tidegauge.analyzers.core.sql import literal, quote, table_sql
from tidegauge.analyzers.scan.capabilities import session_settings
from tidegauge.analyzers.scan.grouping import filter_partitions, hive_text
from tidegauge.analyzers.sources.sources import FileInfo, ListedPartition, list_files, to_listed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LISTING_TASKS = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
FOLDERS_PER_TASK = 32
"""Number of folders per Spark task that lists files; Spark's default is one."""
LISTED_BY_DRIVER = "spark.sql.sources.parallelPartitionDiscovery.threshold"
MAX_FOLDERS_LISTED_BY_DRIVER = "10000"
"""Up to this number, Spark's driver lists local folders itself, since a task takes longer than a folder."""

_SAFE_DIGITS_BY_TYPE = {"tinyint": 2, "smallint": 4, "int": 9, "bigint": 18}
"""Integer types, and a number of characters that always fits into the type."""
_CANONICAL_INTEGER = re.compile(r"0|-?[1-9]\d*", re.ASCII)
SKIP_TYPE_VALIDATION = "spark.sql.legacy.skipTypeValidationOnAlterPartition"
"""Setting that makes Spark look up partitions by the metastore's spelling rather than by printed values."""


@dataclass
class HiveTable:
    """A metastore table whose partitions are folders of files.

    Attributes
    ----------
    spark : SparkSession
        The Spark session.
    name : str
        The fully qualified name.
    keys : tuple of str
        The partition columns, or some of them for a coarser partitioning.
    description : TableDescription
        The table's description in the catalog.
    """

    reads_exactly: ClassVar[bool] = True
    spark: SparkSession
    name: str
    keys: tuple[str, ...]
    description: TableDescription
    _by_key: dict[Values, Partition] = field(init=False, default_factory=dict)
    _texts: dict[tuple[str, str], str] = field(init=False, default_factory=dict)
    _files: dict[Partition, list[DataFile]] = field(init=False, default_factory=dict)

    @property
    def _quoted(self) -> str:
        return table_sql(self.name)

    def list_partitions(self) -> list[ListedPartition]:
        """List the metastore's partitions with their files, at any location."""
        self.spark.catalog.refreshTable(self._quoted)  # Spark caches file listings
        root = self.description.location
        in_root: dict[str, list[FileInfo]] = {}
        for file in list_files(self.spark, root):
            in_root.setdefault(_folder(file.path), []).append(file)
        grouped: dict[Partition, list[FileInfo]] = {}
        self._files = {}
        if not self.description.partition_types:
            grouped[Partition()] = [file for files in in_root.values() for file in files]
            self._files[Partition()] = _data_files(root, grouped[Partition()])
        else:
            rows = self.spark.sql(f"SHOW PARTITIONS {self._quoted}").collect()
            is_moved = self._moved(root, len(rows))
            partition_by_path = {path: Partition.from_path(path) for (path,) in rows}
            self._texts.update(self._canonical_texts(partition_by_path.values()))
            for path, partition in partition_by_path.items():
                files = in_root.get(path)
                if files is None or is_moved(path):
                    folder, in_folder = self._files_of(partition)
                    data_files = _data_files(folder, in_folder)
                    files = [replace(f, path=f"{partition.name}/{f.path}") for f in in_folder]
                else:
                    data_files = _data_files(root, files)
                key = partition.only(self.keys)
                grouped.setdefault(key, []).extend(files)
                self._files.setdefault(key, []).extend(data_files)
        self._by_key = self._index(grouped)
        return to_listed(grouped)

    def _moved(self, root: str, partitions: int) -> Callable[[str], bool]:
        """Return a predicate on the path of a folder under the table's root: whether the table no longer reads it.

        A partition can be relocated and leave its old files behind. Without running a job, Spark lists the
        files that it would read. For text tables it lists only the root, so relocations are not detected.
        Paths in different buckets or clusters are different.
        """
        base = comparable(root).rstrip("/") + "/"
        if local_path(root) is None:
            settings = {LISTING_TASKS: str(math.ceil(partitions / FOLDERS_PER_TASK))}
        else:
            settings = {LISTED_BY_DRIVER: MAX_FOLDERS_LISTED_BY_DRIVER}
        modifiable = {
            key: value for key, value in settings.items() if self.spark.conf.isModifiable(key)
        }
        with session_settings(self.spark, modifiable):
            files = self.spark.table(self._quoted).inputFiles()
        # A root without a scheme is on the default file system, whose name is unknown here.
        normalize = plain_path if base.startswith("/") else comparable
        read = [normalize(unquote(uri)) for uri in files]
        if any(path + "/" == base for path in read):
            return lambda _path: False
        inside = {_folder(path.removeprefix(base)) for path in read if path.startswith(base)}
        return lambda path: path not in inside

    def _files_of(self, partition: Partition) -> tuple[str, list[FileInfo]]:
        """Return the folder of a partition, and its files."""
        table_partition = f"{self._quoted} {partition_sql(partition)}"
        with self.as_stored(partition):
            location = describe_table(self.spark, table_partition).location
        return location, list_files(self.spark, location)

    def parquet_files(
        self, partitions: Collection[Partition]
    ) -> Mapping[Partition, TablePartition]:
        """Return the files of partitions of a Parquet table; no files for other formats.

        Files can lack columns. Columns with another type than the table's are left for Spark.
        """
        if not self._is_read_as_parquet() or not reads_by_default(self.spark):
            return {}
        schema = Schema.from_frame(self.spark.table(self._quoted))
        if schema.has_padded_or_collated:
            return {}
        keys = {key.casefold() for key in self.description.partition_types}
        column_keys = {name: name for name in schema.names if name.casefold() not in keys}
        return {
            partition: TablePartition(
                schema,
                tuple(self._files[partition]),
                column_keys,
                schema.with_default,
                can_widen=False,
            )
            for partition in partitions
            if partition in self._files
        }

    def _is_read_as_parquet(self) -> bool:
        """Return whether Spark's own reader of Parquet reads the files, rather than Hive's."""
        if self.description.provider != "hive":
            return self.description.provider == "parquet"
        is_parquet = "parquet" in self.description.details.get("inputformat", "").casefold()
        converts = self.spark.conf.get("spark.sql.hive.convertMetastoreParquet", "true")
        return is_parquet and str(converts).casefold() == "true"

    def as_stored(self, partition: Partition) -> AbstractContextManager[None]:
        """Context manager: make Spark look up ``007`` as the metastore spells it, rather than ``7``."""
        if self._typed(partition) == partition.values:
            return nullcontext()
        return session_settings(self.spark, {SKIP_TYPE_VALIDATION: "true"})

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
        """Return the key values as Spark prints them: ``07`` becomes ``7`` in an integer column."""
        types = self.description.partition_types
        return tuple(
            self._texts.get((types.get(key, ""), value), value)
            for key, value in zip(partition.keys, partition.values, strict=True)
        )

    def _canonical_texts(self, partitions: Iterable[Partition]) -> dict[tuple[str, str], str]:
        """Return the printed form of values that the metastore may spell differently.

        Spark casts the values to the column's type, in the session's time zone: ``2024-1-5`` can be a date,
        ``1.5`` a decimal with two places, and ``ab`` a CHAR of five. Values that Spark cannot read are null.
        """
        types = self.description.partition_types
        values_by_type: dict[str, set[str]] = {}
        for partition in partitions:
            for key, value in zip(partition.keys, partition.values, strict=True):
                kind = types.get(key, "string")
                is_known = value == NULL or (kind, value) in self._texts
                if not is_known and not _is_canonical(kind, value):
                    values_by_type.setdefault(kind, set()).add(value)
        canonical: dict[tuple[str, str], str] = {}
        for kind, values in values_by_type.items():
            rows = ", ".join(f"({literal(value)})" for value in sorted(values))
            listed = self.spark.sql(f"VALUES {rows} AS listed(v)")
            printed = listed.selectExpr("v", hive_text(_cast_sql("v", kind))).collect()
            canonical |= {(kind, value): printed_value for value, printed_value in printed}
        return canonical

    def read(self, partitions: Collection[Partition] | None = None) -> DataFrame:
        """Read the rows of the given partitions; None reads all. Spark opens no files of other partitions."""
        data = self.spark.table(self._quoted)
        if partitions is None or not self.keys:
            return data
        return filter_partitions(data, self.keys, [self._typed(p) for p in partitions])

    def partition_of(self, key: Values) -> Partition | None:
        """Return the listed partition whose key values Spark prints as ``key``, or None."""
        return self._by_key.get(key)


def _folder(path: str) -> str:
    """Return a file's path down to the last folder that names a partition; empty if none does.

    Examples
    --------
    >>> _folder("ds=1/hr=2/part-0"), _folder("ds=1/more/part-0"), _folder("archive/ds=1/part-0")
    ('ds=1/hr=2', 'ds=1', 'archive/ds=1')
    """
    steps = path.split("/")[:-1]
    while steps and "=" not in steps[-1]:
        steps.pop()
    return "/".join(steps)


def _is_canonical(kind: str, value: str) -> bool:
    """Return whether a partition value is written as Spark prints its type.

    Examples
    --------
    >>> _is_canonical("int", "7"), _is_canonical("int", "07"), _is_canonical("date", "2024-01-31")
    (True, False, True)
    >>> _is_canonical("date", "2024-1-31"), _is_canonical("date", "2024-01-32"), _is_canonical("boolean", "True")
    (False, False, False)
    """
    if kind in _SAFE_DIGITS_BY_TYPE:
        return (
            bool(_CANONICAL_INTEGER.fullmatch(value)) and len(value) <= _SAFE_DIGITS_BY_TYPE[kind]
        )
    if kind == "date":
        return _is_iso_date(value)
    if kind == "boolean":
        return value in {"true", "false"}
    return kind == "string" or kind.startswith("varchar")


def _is_iso_date(text: str) -> bool:
    with suppress(ValueError):
        return date.fromisoformat(text).isoformat() == text  # fromisoformat also reads 20240131
    return False


def _cast_sql(value: str, kind: str) -> str:
    """Return SQL that casts a string to a partition's type; CHAR is padded, which a cast does not do."""
    if kind.startswith("char("):
        return f"rpad({value}, greatest(length({value}), {int(kind[5:-1])}), ' ')"
    return f"try_cast({value} AS {kind})"


def partition_sql(partition: Partition) -> str:
    """Return the SQL ``PARTITION (...)`` clause for a partition.

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


def _data_files(folder: str, files: Iterable[FileInfo]) -> list[DataFile]:
    return [DataFile(child(folder, file.path), None, None, file.size) for file in files]


@dataclass(frozen=True)
class TableDescription:
    """Description of a table or of one of its partitions in the catalog.

    Attributes
    ----------
    details : mapping of str to str
        The detailed information, by lower-case names such as ``provider`` and ``location``.
    partition_types : mapping of str to str
        Types of the partition columns, in their order.
    transforms : tuple of str
        The columns, or transforms such as ``days(at)``, that the table is partitioned by, in order.
    """

    details: Mapping[str, str]
    partition_types: Mapping[str, str]
    transforms: tuple[str, ...] = ()

    @property
    def provider(self) -> str:
        """The format, in lower case; empty if it is unknown."""
        return self.details.get("provider", "").casefold()

    @property
    def location(self) -> str:
        """The folder; empty if there is none."""
        return self.details.get("location", "")


def describe_table(spark: SparkSession, table: str) -> TableDescription:
    """Describe a table or one of its partitions.

    ``AS JSON`` would be easier to parse, but exists only since Spark 4, and not for tables of other catalogs.

    Parameters
    ----------
    spark : SparkSession
        The Spark session.
    table : str
        The quoted name of the table, with a ``PARTITION`` clause for a partition.
    """
    rows = [(row[0], row[1]) for row in spark.sql(f"DESCRIBE TABLE EXTENDED {table}").collect()]
    names = [name for name, _ in rows]
    # A column can have the name of a heading. Columns come first, so the last match is the heading.
    details_start = max(
        _last_index(names, f"# Detailed {kind} Information") for kind in ("Table", "Partition")
    )
    heading = _last_index(names[: details_start + 1], "# Partition Information")
    details: dict[str, str] = {}
    for name, value in rows[details_start + 1 :]:
        details.setdefault(name.casefold(), value)  # a partition's location precedes its table's
    types = {} if heading < 0 else dict(rows[heading + 2 : _section_end(names, heading)])
    # If the partitioning includes a transform, Spark uses another heading.
    numbered = _last_index(names[: details_start + 1], "# Partitioning")
    transforms = tuple(map(quote, types))
    if numbered >= 0:
        transforms = tuple(kind for _, kind in rows[numbered + 1 : _section_end(names, numbered)])
    return TableDescription(details, types, transforms)


def _section_end(names: Sequence[str], heading: int) -> int:
    """Return the index of the empty name that ends the section of a heading."""
    return next((i for i in range(heading + 1, len(names)) if not names[i]), len(names))


def _last_index(strings: Sequence[str], target: str) -> int:
    """Return the last index of a string, or -1 if it is missing."""
    return max((i for i, string in enumerate(strings) if string == target), default=-1)
