"""Tables of the Hive metastore: their partitions with the files of each, and the rows of some."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import unquote

from tidegauge.analyzers.core.errors import PartitionColumnError
from tidegauge.analyzers.core.filesystems import comparable, local_path, plain_path
from tidegauge.analyzers.core.partitions import NULL, Partition, Values
from tidegauge.analyzers.core.sql import literal, quote, table_sql
from tidegauge.analyzers.scan.capabilities import session_settings
from tidegauge.analyzers.scan.grouping import filter_partitions, hive_text
from tidegauge.analyzers.sources.sources import FileInfo, ListedPartition, list_files, to_listed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LISTING_TASKS = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
FOLDERS_PER_TASK = 32
"""Folders that one task of Spark lists; by default each has a task of its own."""
LISTED_BY_DRIVER = "spark.sql.sources.parallelPartitionDiscovery.threshold"
LOCAL_FOLDERS = "10000"
"""Local folders up to which Spark's driver lists them: a folder takes it less time than a task does."""

_DIGITS = {"tinyint": 2, "smallint": 4, "int": 9, "bigint": 18}
"""Integer types, and the characters that every such number has room for."""
_INTEGER = re.compile(r"0|-?[1-9]\d*", re.ASCII)
AS_STORED = "spark.sql.legacy.skipTypeValidationOnAlterPartition"
"""Setting by which partitions are looked up as the metastore writes them, not as their type is printed."""


@dataclass
class HiveTable:
    """A metastore table whose partitions are folders of files.

    Attributes
    ----------
    spark : SparkSession
    name : str
        The fully qualified name.
    keys : tuple of str
        The partition columns, or some of them for a coarser partitioning.
    description : TableDescription
    """

    reads_exactly: ClassVar[bool] = True
    spark: SparkSession
    name: str
    keys: tuple[str, ...]
    description: TableDescription
    _by_key: dict[Values, Partition] = field(init=False, default_factory=dict)
    _texts: dict[tuple[str, str], str] = field(init=False, default_factory=dict)

    @property
    def _quoted(self) -> str:
        return table_sql(self.name)

    def list_partitions(self) -> list[ListedPartition]:
        """List the metastore's partitions with their files, wherever those are located."""
        self.spark.catalog.refreshTable(self._quoted)  # Spark caches file listings
        root = self.description.location
        in_root: dict[str, list[FileInfo]] = {}
        for file in list_files(self.spark, root):
            in_root.setdefault(_folder(file.path), []).append(file)
        grouped: dict[Partition, list[FileInfo]] = {}
        if not self.description.partition_types:
            grouped[Partition()] = [file for files in in_root.values() for file in files]
        else:
            shown = self.spark.sql(f"SHOW PARTITIONS {self._quoted}").collect()
            is_moved = self._moved(root, len(shown))
            every = {path: Partition.from_path(path) for (path,) in shown}
            self._texts.update(self._canonical_texts(every.values()))
            for path, partition in every.items():
                files = in_root.get(path)
                if files is None or is_moved(path):
                    files = self._files_of(partition)
                grouped.setdefault(partition.only(self.keys), []).extend(files)
        self._by_key = self._index(grouped)
        return to_listed(grouped)

    def _moved(self, root: str, partitions: int) -> Callable[[str], bool]:
        """Return whether a folder under the table's root, by its path, is one that the table no longer reads.

        A partition may have been relocated and its old files left behind. Spark lists the files that it
        would read without running a job; for text tables it lists only the root, which is no help. A path
        in another bucket or cluster is another place.
        """
        base = comparable(root).rstrip("/") + "/"
        if local_path(root) is None:
            tuned = {LISTING_TASKS: str(math.ceil(partitions / FOLDERS_PER_TASK))}
        else:
            tuned = {LISTED_BY_DRIVER: LOCAL_FOLDERS}
        known = {key: value for key, value in tuned.items() if self.spark.conf.isModifiable(key)}
        with session_settings(self.spark, known):
            files = self.spark.table(self._quoted).inputFiles()
        # A root without a scheme is of the default file system, whose name is not known here.
        form = plain_path if base.startswith("/") else comparable
        read = [form(unquote(uri)) for uri in files]
        if any(path + "/" == base for path in read):
            return lambda _path: False
        inside = {_folder(path.removeprefix(base)) for path in read if path.startswith(base)}
        return lambda path: path not in inside

    def _files_of(self, partition: Partition) -> list[FileInfo]:
        which = f"{self._quoted} {partition_sql(partition)}"
        with self.as_stored(partition):
            location = describe_table(self.spark, which).location
        files = list_files(self.spark, location)
        return [FileInfo(f"{partition.name}/{f.path}", f.size, f.modified) for f in files]

    def as_stored(self, partition: Partition) -> AbstractContextManager[None]:
        """Context manager: Spark looks for ``007`` where the metastore has it, not for ``7``."""
        if self._typed(partition) == partition.values:
            return nullcontext()
        return session_settings(self.spark, {AS_STORED: "true"})

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
        """Return as what text Spark reads the values that the metastore may write in another way.

        Spark casts them to the column's type, in the time zone of the session: ``2024-1-5`` is a date,
        ``1.5`` a decimal of two places, and ``ab`` a CHAR of five. What it cannot read is null.
        """
        types = self.description.partition_types
        asked: dict[str, set[str]] = {}
        for partition in partitions:
            for key, value in zip(partition.keys, partition.values, strict=True):
                kind = types.get(key, "string")
                known = value == NULL or (kind, value) in self._texts
                if not known and not _is_canonical(kind, value):
                    asked.setdefault(kind, set()).add(value)
        found: dict[tuple[str, str], str] = {}
        for kind, values in asked.items():
            rows = ", ".join(f"({literal(value)})" for value in sorted(values))
            listed = self.spark.sql(f"VALUES {rows} AS listed(v)")
            printed = listed.selectExpr("v", hive_text(_cast_sql("v", kind))).collect()
            found |= {(kind, value): text for value, text in printed}
        return found

    def read(self, partitions: Collection[Partition] | None = None) -> DataFrame:
        """Read the rows of the given partitions, None for all; Spark opens no files of others."""
        data = self.spark.table(self._quoted)
        if partitions is None or not self.keys:
            return data
        return filter_partitions(data, self.keys, [self._typed(p) for p in partitions])

    def partition_of(self, key: Values) -> Partition | None:
        """Return the listed partition whose key values Spark prints this way, or None."""
        return self._by_key.get(key)


def _folder(path: str) -> str:
    """Return a file's folder down to the last that names a partition; empty if none does.

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
    if kind in _DIGITS:
        return bool(_INTEGER.fullmatch(value)) and len(value) <= _DIGITS[kind]
    if kind == "date":
        return _is_iso_date(value)
    if kind == "boolean":
        return value in {"true", "false"}
    return kind == "string" or kind.startswith("varchar")


def _is_iso_date(text: str) -> bool:
    with suppress(ValueError):
        return date.fromisoformat(text).isoformat() == text  # it reads 20240131, too
    return False


def _cast_sql(value: str, kind: str) -> str:
    """Return SQL for a text in a partition's type; a cast to CHAR would not pad."""
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
        What the table is partitioned by, in its order: columns, or transforms such as ``days(at)``.
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


def describe_table(spark: SparkSession, what: str) -> TableDescription:
    """Describe a table, or one of its partitions, which is given by a ``PARTITION`` clause.

    ``AS JSON`` would be easier to read, but Spark has it since version 4 only, and not for tables of
    other catalogs.
    """
    rows = [(row[0], row[1]) for row in spark.sql(f"DESCRIBE TABLE EXTENDED {what}").collect()]
    names = [name for name, _ in rows]
    # A column may have any name, but columns come first: the last heading is the heading.
    at = max(_last(names, f"# Detailed {kind} Information") for kind in ("Table", "Partition"))
    heading = _last(names[: at + 1], "# Partition Information")
    found: dict[str, str] = {}
    for name, value in rows[at + 1 :]:
        found.setdefault(name.casefold(), value)  # a partition's location precedes its table's
    types = {} if heading < 0 else dict(rows[heading + 2 : _end(names, heading)])
    # If a transform is among them, Spark lists them in another way.
    numbered = _last(names[: at + 1], "# Partitioning")
    transforms = tuple(map(quote, types))
    if numbered >= 0:
        transforms = tuple(kind for _, kind in rows[numbered + 1 : _end(names, numbered)])
    return TableDescription(found, types, transforms)


def _end(names: Sequence[str], heading: int) -> int:
    """Return the place of the empty name that ends the section of a heading."""
    return next((i for i in range(heading + 1, len(names)) if not names[i]), len(names))


def _last(texts: Sequence[str], wanted: str) -> int:
    """Return the last place of a text, -1 if it is not there."""
    return max((i for i, text in enumerate(texts) if text == wanted), default=-1)
