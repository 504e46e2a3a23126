"""Files, statistics and history of Delta and Iceberg tables, read from their logs without Spark.

A `TableSnapshot` lists the data files of one version of a table, with statistics that are exact: a statistic that
a log may truncate, round or leave out is unknown. A list of `TableVersion` is the table's history.

Reading a Delta log needs the package ``deltalake``, and reading Iceberg's metadata needs ``pyiceberg``; both are in
the extra ``lakehouse``. Files of metadata that Arrow can access are read by Arrow, so the same credentials count.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import cached_property, partial
from math import isnan
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote

from tidegauge.analyzers.columnar.footers import (
    FOOTER_THREADS,
    Footer,
    PartitionFooters,
    read_footers,
    table_columns,
)
from tidegauge.analyzers.core.columnar import DAY_MICROS, InexactError, decimal_from, exact_times
from tidegauge.analyzers.core.errors import SetupError, SourceError, describe
from tidegauge.analyzers.core.filesystems import absolute, file_system, local_path, read_file
from tidegauge.analyzers.core.partitions import NULL, Partition
from tidegauge.analyzers.core.schema import INTEGRAL, NUMERIC, TEMPORAL, Schema
from tidegauge.analyzers.core.sql import quote
from tidegauge.analyzers.core.state import Number

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import DataFile as IcebergFile
    from pyiceberg.manifest import ManifestEntry
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.types import IcebergType

_LOGGER = logging.getLogger(__name__)

EXTRA = "lakehouse"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY = date(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """Exact statistics of a column in one file. What is not known exactly is None.

    Attributes
    ----------
    nulls : int or None
        The number of nulls.
    lower, upper : int, float, Decimal or None
        The smallest and the greatest value: numbers, and dates and times in microseconds since 1970. NaN is the
        greatest number. Also None if all values are null; then ``nulls`` is the number of rows.
    """

    nulls: int | None = None
    lower: Number | None = None
    upper: Number | None = None


UNKNOWN = ColumnStatistics()


@dataclass(frozen=True, slots=True)
class DataFile:
    """A data file of a table.

    Attributes
    ----------
    location : str
        Path or URI of the file.
    partition : Partition or None
        The partition, with its values as Hive names them; None if the log does not determine it.
    rows : int or None
        The number of rows, without rows that a deletion vector of Delta deletes; None if the log lacks it.
        With Iceberg's delete files, deleted rows are included.
    size : int
        Bytes.
    has_deletes : bool
        Whether delete files or a deletion vector may apply to the file. Its statistics are then unknown.
    modified : datetime or None
        When the file was added, in UTC; None if the log does not reach back to that.
    identity : str
        Identifies the file in the log, as JSON.
    values : mapping of str to object
        The values of partition columns, which the file itself may lack, by column.
    """

    location: str
    partition: Partition | None
    rows: int | None
    size: int
    has_deletes: bool = False
    modified: datetime | None = None
    identity: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    read_statistics: Callable[[str], ColumnStatistics] = field(
        default=lambda _: UNKNOWN, repr=False, compare=False
    )

    def column(self, name: str) -> ColumnStatistics:
        """Return the statistics of a top-level column, by its current name in the table."""
        if self.rows is None or self.has_deletes:
            return UNKNOWN
        if name not in self.values:
            return self.read_statistics(name)
        value = self.values[name]
        if value is None:
            return ColumnStatistics(self.rows)
        number = as_number(value)
        return ColumnStatistics(0, number, number)


@dataclass(frozen=True)
class TableSnapshot:
    """The data files and the schema of one version of a table.

    Attributes
    ----------
    format : str
        ``delta`` or ``iceberg``.
    location : str
        The table's folder.
    id : int or None
        The version of a Delta table, or the snapshot id of an Iceberg table; None for an Iceberg table to which
        nothing was written.
    table_id : str
        The table's unique id.
    time : datetime or None
        When the version was committed, in UTC.
    schema : Schema
        The columns, with the types that Spark reads.
    keys : tuple of str
        The partition keys. For Iceberg, names of partition fields such as ``at_day``.
    files : tuple of DataFile
        The data files.
    delete_files : tuple of DataFile
        The delete files of an Iceberg table; their ``rows`` are the deleted positions or equality conditions.
    properties : mapping of str to str
        The table's properties.
    column_keys : mapping of str to str or int
        The name or field id in the data files of each column; partition columns that files lack are left out.
    filled : frozenset of str
        Columns that are not null in files without them, such as columns with a default.
    """

    format: str
    location: str
    id: int | None
    table_id: str
    time: datetime | None
    schema: Schema
    keys: tuple[str, ...]
    files: tuple[DataFile, ...]
    delete_files: tuple[DataFile, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    column_keys: Mapping[str, str | int] = field(default_factory=dict)
    filled: frozenset[str] = frozenset()

    def by_partition(self) -> dict[Partition | None, list[DataFile]]:
        """Return the data files of each partition; None has files whose partition is unknown."""
        files: dict[Partition | None, list[DataFile]] = {}
        for file in self.files:
            files.setdefault(file.partition, []).append(file)
        return files


@dataclass(frozen=True)
class TablePartition:
    """The data files of one partition of a table, and the exact part of their statistics in the table's log.

    It implements `tidegauge.analyzers.core.columnar.PartitionMetadata`, if the log has the numbers of rows.

    Attributes
    ----------
    schema : Schema
        The table's columns.
    files : tuple of DataFile
        The data files.
    column_keys : mapping of str to str or int
        The name or field id in the data files of each column. Other columns are left for Spark, except where
        the log has their values.
    filled : frozenset of str
        Columns that are not null in files without them.
    can_widen : bool
        Whether files can have narrower types than the table.
    """

    schema: Schema
    files: tuple[DataFile, ...]
    column_keys: Mapping[str, str | int]
    filled: frozenset[str] = frozenset()
    can_widen: bool = True

    @property
    def locations(self) -> tuple[str, ...]:
        """The locations of the files."""
        return tuple(file.location for file in self.files)

    @property
    def are_whole(self) -> bool:
        """Whether all rows of the files are rows of the partition."""
        return not any(file.has_deletes for file in self.files)

    @cached_property
    def rows_in_log(self) -> int | None:
        """The number of rows; None if the log lacks it."""
        return _sum(file.rows for file in self.files)

    @property
    def rows(self) -> int:
        """The number of rows, which the log must have."""
        assert self.rows_in_log is not None
        return self.rows_in_log

    def values(self, column: str) -> int | None:
        """Return the number of values that are not null; None if the log does not tell."""
        nulls = _sum(statistics.nulls for statistics in self._statistics(column))
        return None if nulls is None else self.rows - nulls

    def lower(self, column: str) -> Number | None:
        """Return the minimum of numbers; None if the log does not tell, or all values are null."""
        if self.schema.field(quote(column)).kind not in NUMERIC:
            return None
        lows = []
        for file in self.files:
            statistics = file.column(column)
            if not file.rows or statistics.nulls == file.rows:
                continue
            if statistics.lower is None:
                return None
            lows.append(statistics.lower)
        return min(lows, default=None)

    def bounds(self, column: str) -> tuple[Number | None, Number | None] | None:
        """Return the minimum and maximum of numbers; both are None if all values are null."""
        kind = self.schema.field(quote(column)).kind
        return self._bounds(column) if kind in NUMERIC else None

    def times(self, column: str) -> tuple[int, int] | None:
        """Return the earliest and latest time in microseconds; (0, 0) if all values are null."""
        if self.schema.field_type(column) not in TEMPORAL:
            return None
        ends = self._bounds(column)
        if ends is None:
            return None
        earliest, latest = ends
        if earliest is None or latest is None:
            return 0, 0
        try:
            return exact_times(int(earliest), int(latest))
        except InexactError:
            return None

    def _statistics(self, column: str) -> Iterator[ColumnStatistics]:
        return (file.column(column) for file in self.files if file.rows)

    def _bounds(self, column: str) -> tuple[Number | None, Number | None] | None:
        ends = []
        for file in self.files:
            statistics = file.column(column)
            if not file.rows or statistics.nulls == file.rows:
                continue
            if statistics.lower is None or statistics.upper is None:
                return None
            ends.append((statistics.lower, statistics.upper))
        return min((low for low, _ in ends), default=None), max((h for _, h in ends), default=None)

    def read_footers(self, locations: Sequence[str]) -> list[Footer] | None:
        """Read the footers of files of the partition; see `footers.read_footers`."""
        return read_footers(
            locations,
            lambda metadata: table_columns(
                metadata, self.column_keys, self.schema, self.filled, can_widen=self.can_widen
            ),
        )

    def described(self, footers: Sequence[Footer]) -> PartitionFooters:
        """Describe the files of the partition by their footers."""
        nullable = (
            name
            for name in self.column_keys
            if name not in self.filled and isinstance(self.schema.field_type(name), str)
        )
        return PartitionFooters(
            tuple(footers), self.schema, frozenset(name.casefold() for name in nullable)
        )


@dataclass(frozen=True)
class PartitionChange:
    """Rows and files that a version added to a partition, and removed from it.

    Numbers of rows are None if the log lacks them, as for rows that Iceberg's delete files delete.
    """

    rows_added: int | None = 0
    rows_removed: int | None = 0
    files_added: int = 0
    files_removed: int = 0

    def __add__(self, other: PartitionChange) -> PartitionChange:
        """Add the numbers."""
        return PartitionChange(
            _sum((self.rows_added, other.rows_added)),
            _sum((self.rows_removed, other.rows_removed)),
            self.files_added + other.files_added,
            self.files_removed + other.files_removed,
        )


@dataclass(frozen=True)
class TableVersion:
    """A version in the history of a table.

    Attributes
    ----------
    id : int
        The version of a Delta table, or the snapshot id of an Iceberg table.
    time : datetime
        When it was committed, in UTC.
    operation : str
        The operation as the writer named it, such as ``WRITE``, ``OPTIMIZE``, ``append`` or ``replace``.
    is_rewrite : bool
        Whether the version only rewrote files, so that the rows are the same.
    changes : mapping of Partition or None to PartitionChange
        The changes by partition; None has the files whose partition is unknown.
    total_rows : int or None
        The number of rows in the table; None if the log lacks it.
    total_files : int or None
        The number of data files in the table.
    """

    id: int
    time: datetime
    operation: str
    is_rewrite: bool
    changes: Mapping[Partition | None, PartitionChange]
    total_rows: int | None
    total_files: int | None


def _sum(numbers: Iterable[int | None]) -> int | None:
    total = 0
    for number in numbers:
        if number is None:
            return None
        total += number
    return total


def as_number(value: Any) -> Number | None:
    """Return a value as in `ColumnStatistics`; None for values without an exact order of numbers.

    Examples
    --------
    >>> as_number(date(1970, 1, 2)), as_number(True), as_number("a"), as_number(-0.0)
    (86400000000, None, None, 0.0)
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, datetime):
        time = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        return (time - _EPOCH) // _MICROSECOND
    if isinstance(value, date):
        return (value - _EPOCH_DAY).days * DAY_MICROS
    if isinstance(value, float):
        return None if isnan(value) else value + 0.0  # the sign of zero is not known
    return value if isinstance(value, int | Decimal) else None


def _partition_text(value: Any) -> str | None:
    """Return a value as Spark prints it and as Hive names it; None if Spark may print it in another way.

    Examples
    --------
    >>> _partition_text(True), _partition_text(date(2026, 1, 2)), _partition_text(1.0), _partition_text("")
    ('true', '2026-01-02', None, '__HIVE_DEFAULT_PARTITION__')
    """
    if value is None or value == "":
        return NULL
    if isinstance(value, bool):
        return str(value).lower()
    is_plain = isinstance(value, str | int | date) and not isinstance(value, datetime)
    return str(value) if is_plain else None


def _partition_of(keys: Iterable[str], texts: Iterable[str | None]) -> Partition | None:
    """Return a partition by its keys and values; None if a value is unknown."""
    known = [text for text in texts if text is not None]
    names = tuple(keys)
    return Partition(names, tuple(known)) if len(known) == len(names) else None


def open_log(read: Callable[[], TableSnapshot]) -> TableSnapshot | None:
    """Read a table's log; None, with a line in the log of this program, if only Spark can read it.

    Parameters
    ----------
    read : callable
        Calls `read_delta` or `read_iceberg`.
    """
    try:
        return read()
    except SetupError as error:
        _LOGGER.info("a table is listed by Spark, because %s", error)
    except SourceError as error:
        _LOGGER.info("a table is listed by Spark: %s", error)
    return None


# Delta

_COMMIT_FILE = re.compile(r"(\d{20})\.json")
_DELETION_VECTORS = "deletionVectors"


def _require(package: str) -> None:
    """Raise `SetupError` if a package of the extra is not installed."""
    from importlib.util import find_spec

    if find_spec(package) is None:
        msg = f"the package {package} is not installed: pip install 'tidegauge[{EXTRA}]'"
        raise SetupError(msg)


def _open_delta(location: str, version: int | None = None) -> DeltaTable:
    _require("deltalake")
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError, TableNotFoundError

    if unquote(location) != location:  # it would read the log of the folder with the decoded name
        msg = (
            f"cannot read the log of the Delta table in {location!r}: the package deltalake decodes"
            " percent signs in names of folders; rename the folder, or let Spark read the table"
        )
        raise SourceError(msg)
    local = local_path(location)
    try:
        return DeltaTable(location if local is None else str(local), version=version)
    except (DeltaError, TableNotFoundError, OSError, ValueError) as error:
        msg = f"cannot read the log of the Delta table in {location!r}: {describe(error)}"
        raise SourceError(msg) from error


def read_delta(location: str, version: int | None = None) -> TableSnapshot:
    """Read a version of a Delta table from its log.

    Parameters
    ----------
    location : str
        The table's folder, as a path or URI.
    version : int, optional
        The version (default: the newest).

    Raises
    ------
    SetupError
        If ``deltalake`` is not installed.
    SourceError
        If the log cannot be read, or has a feature that ``deltalake`` does not know.

    Examples
    --------
    >>> import tempfile
    >>> import pyarrow as pa
    >>> from deltalake import write_deltalake
    >>> folder = tempfile.mkdtemp()
    >>> write_deltalake(folder, pa.table({"ds": ["a", "a", "b"], "n": [1, None, 3]}), partition_by=["ds"])
    >>> snapshot = read_delta(folder)
    >>> sorted((f.partition.name, f.rows, f.column("n")) for f in snapshot.files)
    [('ds=a', 2, ColumnStatistics(nulls=1, lower=1, upper=1)), ('ds=b', 1, ColumnStatistics(nulls=0, lower=3, upper=3))]
    """
    location = absolute(location).rstrip("/")
    table = _open_delta(location, version)
    from deltalake.exceptions import DeltaError

    metadata = table.metadata()
    logged = json.loads(table.schema().to_json())
    schema = Schema(_without_delta_metadata(logged))
    keys = tuple(metadata.partition_columns)
    properties = {str(k): str(v) for k, v in metadata.configuration.items()}
    physical = {column["name"]: physical_name(column) for column in logged["fields"]}
    try:
        files = tuple(_delta_files(table, location, schema, physical, keys))
    except (DeltaError, OSError, ValueError, OverflowError) as error:  # dates after the year 9999
        msg = f"cannot read the files in the log of the Delta table in {location!r}: {describe(error)}"
        raise SourceError(msg) from error
    column_keys: dict[str, str | int] = {n: key for n, key in physical.items() if n not in keys}
    if properties.get("delta.columnMapping.mode") == "id":
        column_keys = {
            column["name"]: int(column["metadata"]["delta.columnMapping.id"])
            for column in logged["fields"]
            if column["name"] not in keys
        }
    return TableSnapshot(
        "delta",
        location,
        table.version(),
        str(metadata.id),
        _delta_time(table),
        schema,
        keys,
        files,
        properties=properties,
        column_keys=column_keys,
    )


def _delta_time(table: DeltaTable) -> datetime | None:
    """Return when a version was committed; None if its commit is no longer in the log."""
    commits = table.history(limit=1)
    milliseconds = commits[0].get("timestamp") if commits else None
    return None if milliseconds is None else _EPOCH + timedelta(milliseconds=milliseconds)


def _without_delta_metadata(kind: Any) -> Any:
    """Return a type in JSON form without the metadata of columns that Delta hides from Spark."""
    if isinstance(kind, list):
        return [_without_delta_metadata(part) for part in kind]
    if not isinstance(kind, dict):
        return kind
    return {
        name: {k: v for k, v in part.items() if not k.startswith("delta.")}
        if name == "metadata"
        else _without_delta_metadata(part)
        for name, part in kind.items()
    }


def physical_name(column: Mapping[str, Any]) -> str:
    """Return the name of a column of a Delta table in its data files and statistics."""
    return str(column["metadata"].get("delta.columnMapping.physicalName", column["name"]))


def _delta_files(
    table: DeltaTable,
    location: str,
    schema: Schema,
    physical: Mapping[str, str],
    keys: tuple[str, ...],
) -> Iterator[DataFile]:
    import pyarrow as pa

    actions = pa.table(table.get_add_actions(flatten=False)).combine_chunks()
    deleted = _deleted_rows(table)
    statistics = {
        column: _DeltaStatistics(actions, name, schema.field_type(column))
        for column, name in physical.items()
        if column not in keys
    }
    empty: list[Any] = [{}] * len(actions)
    values = actions["partition"].to_pylist() if "partition" in actions.column_names else empty
    columns = ("path", "num_records", "size_bytes", "modification_time")
    for i, (path, rows, size, milliseconds) in enumerate(
        zip(*(actions[name].to_pylist() for name in columns), strict=True)
    ):
        file = _delta_location(location, path)
        key_values = {key: None if values[i][key] == "" else values[i][key] for key in keys}
        vector = deleted(file)
        yield DataFile(
            file,
            _partition_of(keys, (_partition_text(key_values[key]) for key in keys)),
            None if rows is None else rows - (vector or 0),
            size,
            vector is not None,
            _EPOCH + timedelta(milliseconds=milliseconds),
            json.dumps({"path": path}, ensure_ascii=False, separators=(",", ":")),
            {key: key_values[key] for key in keys if schema.field_type(key) not in _UNSURE_KEYS},
            partial(_delta_statistics, statistics, i),
        )


_UNSURE_KEYS = {"float", "double", "timestamp", "timestamp_ntz"}
"""Types of partition columns whose values in the log depend on the writer, such as its time zone."""


def _delta_statistics(
    statistics: Mapping[str, _DeltaStatistics], file: int, column: str
) -> ColumnStatistics:
    return statistics[column].of_file(file) if column in statistics else UNKNOWN


def _delta_location(location: str, path: str) -> str:
    """Return the location of a file by its path in the log, which is an encoded URI."""
    path = unquote(path)
    is_absolute = path.startswith("/") or re.match(r"[A-Za-z][\w+.-]*:", path) is not None
    return path if is_absolute else f"{location}/{path}"


def _deleted_rows(table: DeltaTable) -> Callable[[str], int | None]:
    """Return a function from a file to the rows that its deletion vector deletes; None if it has none."""
    if _DELETION_VECTORS not in (table.protocol().reader_features or ()):
        return lambda _: None
    import pyarrow as pa
    import pyarrow.compute as pc

    from tidegauge.analyzers.core.filesystems import plain_path

    vectors = pa.table(table.deletion_vectors())
    counts = {
        plain_path(unquote(path)): len(kept) - pc.sum(kept).as_py()
        for path, kept in zip(
            vectors["filepath"].to_pylist(), _lists(vectors["selection_vector"]), strict=True
        )
    }
    return lambda file: counts.get(plain_path(file))


def _lists(lists: pa.ChunkedArray) -> Iterator[pa.Array]:
    for value in lists:
        yield value.values


@dataclass(frozen=True)
class _DeltaStatistics:
    """Statistics of one column in all files, by the column's physical name."""

    actions: pa.Table
    name: str
    type: Any

    @cached_property
    def _columns(self) -> tuple[list[Any], ...]:
        """The numbers of rows and nulls, the minima and the maxima; unknown bounds are None.

        Delta truncates times to milliseconds, and strings. Doubles stand for decimals. NaN, which is the
        greatest number, is not counted.
        """
        exact_ends: tuple[str, ...] = ()
        if isinstance(self.type, str) and self.type in {*INTEGRAL, "date"}:
            exact_ends = "min", "max"
        elif self.type in ("float", "double"):
            exact_ends = ("min",)
        kinds = {"null_count", *exact_ends}
        unknown = [None] * len(self.actions)
        return (
            self.actions["num_records"].to_pylist(),
            *(self._values(k) if k in kinds else unknown for k in ("null_count", "min", "max")),
        )

    def _values(self, kind: str) -> list[Any]:
        """Return a statistic of each file, dates as days since 1970; None if the log lacks it."""
        import pyarrow as pa
        import pyarrow.compute as pc

        struct = self.actions[kind] if kind in self.actions.column_names else None
        if struct is None or struct.type.get_field_index(self.name) < 0:
            return [None] * len(self.actions)
        values = pc.struct_field(struct, [self.name])
        if pa.types.is_date32(values.type):  # Python's dates end with the year 9999
            values = values.cast(pa.int32())
        return list(values.to_pylist())

    def of_file(self, i: int) -> ColumnStatistics:
        """Return the statistics of a file."""
        rows, nulls, lower, upper = (column[i] for column in self._columns)
        if not isinstance(self.type, str) or nulls is None:
            return UNKNOWN
        if nulls == rows:
            return ColumnStatistics(nulls)
        unit = DAY_MICROS if self.type == "date" else 1
        lower, upper = (None if end is None else as_number(end * unit) for end in (lower, upper))
        return ColumnStatistics(nulls, lower, upper)


def read_delta_history(location: str, since: int | None = None) -> list[TableVersion]:
    """Return the versions of a Delta table whose commits are in its log, the oldest first.

    Parameters
    ----------
    location : str
        The table's folder, as a path or URI.
    since : int, optional
        The oldest version to read (default: the oldest in the log).

    Raises
    ------
    SetupError
        If ``deltalake`` is not installed.
    SourceError
        If the log cannot be read.
    """
    location = absolute(location).rstrip("/")
    commits = _delta_commits(location)
    versions = sorted(v for v in commits if since is None or v >= since)
    while versions and versions != list(range(versions[0], versions[-1] + 1)):
        versions = versions[1:]  # only what follows the last gap
    if not versions:
        return []
    files, keys = _files_before(location, versions[0])
    with ThreadPoolExecutor(min(FOOTER_THREADS, len(versions))) as pool:
        actions = list(pool.map(lambda v: _delta_actions(commits[v]), versions))
    history = []
    for version, commit in zip(versions, actions, strict=True):
        for action in commit:
            if "metaData" in action:
                keys = _physical_keys(action["metaData"])
        known = None if files is None else dict(files)
        history.append(_delta_version(version, commit, keys, known))
        files = known
    return history


def delta_changes(
    location: str, since: int, until: int
) -> tuple[int, dict[Partition | None, int]] | None:
    """Return which partitions of a Delta table changed after a version.

    Parameters
    ----------
    location : str
        The table's folder, as a path or URI.
    since, until : int
        The versions after which, and up to which, commits count.

    Returns
    -------
    tuple or None
        The oldest version after which all commits are in the log, and the last version that added or removed rows
        of each partition; None has commits whose partition is unknown. None if the log cannot be read.
    """
    try:
        commits = _delta_commits(location)
        keys = _logged_keys(_open_delta(location, until))
        oldest = until
        while oldest > since and oldest in commits:
            oldest -= 1
        versions = range(oldest + 1, until + 1)
        with ThreadPoolExecutor(FOOTER_THREADS) as pool:
            actions = list(pool.map(lambda v: _delta_actions(commits[v]), versions))
    except (SourceError, SetupError):
        return None
    changes: dict[Partition | None, int] = {}
    for version, commit in zip(versions, actions, strict=True):
        for entry in _file_actions(commit):
            if entry.get("dataChange", True):
                changes[_logged_partition(entry, keys)] = version
    return oldest, changes


def _file_actions(commit: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    return (action[k] for action in commit for k in ("remove", "add") if action.get(k))


def _delta_commits(location: str) -> dict[int, str]:
    """Return the location of each commit in the log, by version."""
    from pyarrow import fs

    root = f"{location}/_delta_log"
    try:
        system, path = file_system(root)
        infos = system.get_file_info(fs.FileSelector(path))
    except OSError as error:
        msg = f"cannot list the log of the Delta table in {location!r}: {describe(error)}"
        raise SourceError(msg) from error
    matches = {info.base_name: _COMMIT_FILE.fullmatch(info.base_name) for info in infos}
    return {int(match[1]): f"{root}/{name}" for name, match in matches.items() if match}


def _delta_actions(commit: str) -> list[dict[str, Any]]:
    try:
        return [json.loads(line) for line in read_file(commit).splitlines() if line.strip()]
    except (OSError, ValueError) as error:
        msg = f"cannot read the commit {commit!r}: {describe(error)}"
        raise SourceError(msg) from error


def _physical_keys(metadata: Mapping[str, Any]) -> dict[str, str]:
    """Return the partition columns and their names in the log."""
    columns = {c["name"]: physical_name(c) for c in json.loads(metadata["schemaString"])["fields"]}
    return {key: columns[key] for key in metadata.get("partitionColumns") or ()}


_FileRows = dict[str, int | None]
"""Rows of files, by path in the log and deletion vector."""


def _files_before(location: str, version: int) -> tuple[_FileRows | None, dict[str, str]]:
    """Return the rows of each file before a version, and the partition columns; None if unknown."""
    if version == 0:
        return {}, {}
    try:
        snapshot = read_delta(location, version - 1)
    except SourceError:  # no checkpoint is as old
        return None, _logged_keys(_open_delta(location))
    rows = {
        json.loads(file.identity)["path"]: None if file.has_deletes else file.rows
        for file in snapshot.files
    }
    return rows, _logged_keys(_open_delta(location, version - 1))


def _logged_keys(table: DeltaTable) -> dict[str, str]:
    """Return the partition columns and their names in the log."""
    columns = json.loads(table.schema().to_json())["fields"]
    names = {column["name"]: physical_name(column) for column in columns}
    return {key: names[key] for key in table.metadata().partition_columns}


def _delta_version(
    version: int,
    commit: Sequence[Mapping[str, Any]],
    keys: Mapping[str, str],
    files: _FileRows | None,
) -> TableVersion:
    """Return what a commit changed. ``files`` are the files before it, and are updated to those after it."""
    info: Mapping[str, Any] = next(
        (action["commitInfo"] for action in commit if "commitInfo" in action), {}
    )
    milliseconds = info.get("inCommitTimestamp", info.get("timestamp"))
    changes: dict[Partition | None, PartitionChange] = {}
    is_rewrite = True
    entries = [(k, action[k]) for k in ("remove", "add") for action in commit if action.get(k)]
    for kind, entry in entries:  # a file that gets a deletion vector is removed, then added
        is_rewrite &= not entry.get("dataChange", True)
        if milliseconds is None:
            milliseconds = entry.get("modificationTime", entry.get("deletionTimestamp"))
        rows = _logged_rows(entry)
        if kind == "remove":
            known = None if files is None else files.pop(entry["path"], None)
            change = PartitionChange(rows_removed=known if rows is None else rows, files_removed=1)
        else:
            change = PartitionChange(rows_added=rows, files_added=1)
            if files is not None:
                files[entry["path"]] = rows
        partition = _logged_partition(entry, keys)
        changes[partition] = changes.get(partition, PartitionChange()) + change
    return TableVersion(
        version,
        _EPOCH + timedelta(milliseconds=milliseconds or 0),
        str(info.get("operation", "")),
        is_rewrite,
        changes,
        None if files is None else _sum(files.values()),
        None if files is None else len(files),
    )


def _logged_rows(entry: Mapping[str, Any]) -> int | None:
    """Return the rows of an action, without those that its deletion vector deletes."""
    rows = json.loads(entry.get("stats") or "{}").get("numRecords")
    if rows is None:
        return None
    vector = entry.get("deletionVector") or {}
    return int(rows) - int(vector.get("cardinality", 0))


def _logged_partition(entry: Mapping[str, Any], keys: Mapping[str, str]) -> Partition | None:
    values = entry.get("partitionValues")
    if keys and not values:
        return None
    return _partition_of(keys, (_partition_text((values or {}).get(n)) for n in keys.values()))


# Iceberg


def _iceberg_io() -> FileIO:
    """Return Iceberg's access to files, by the file systems of this project."""
    from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile

    class ArrowFile(InputFile):
        def __len__(self) -> int:
            return len(read_file(self.location))

        def exists(self) -> bool:
            return True

        def open(self, seekable: bool = True) -> InputStream:  # noqa: FBT001, FBT002 - overrides
            import io

            return cast("InputStream", io.BytesIO(read_file(self.location)))

    class ArrowFiles(FileIO):
        """Reads only: logs are never written."""

        def new_input(self, location: str) -> InputFile:
            return ArrowFile(location)

        def new_output(self, location: str) -> OutputFile:
            raise NotImplementedError

        def delete(self, location: str | InputFile | OutputFile) -> None:
            raise NotImplementedError

    return ArrowFiles()


def _open_iceberg(metadata_location: str) -> tuple[TableMetadata, FileIO]:
    _require("pyiceberg")
    from pyiceberg.exceptions import ValidationError
    from pyiceberg.serializers import FromInputFile

    io = _iceberg_io()
    try:
        return FromInputFile.table_metadata(io.new_input(absolute(metadata_location))), io
    except (OSError, ValueError, ValidationError) as error:
        msg = f"cannot read the Iceberg metadata {metadata_location!r}: {describe(error)}"
        raise SourceError(msg) from error


def read_iceberg(metadata_location: str, snapshot_id: int | None = None) -> TableSnapshot:
    """Read a snapshot of an Iceberg table from its metadata.

    Parameters
    ----------
    metadata_location : str
        The current metadata file, such as ``s3://lake/orders/metadata/00003-….metadata.json``.
    snapshot_id : int, optional
        The snapshot, which is read with the schema of its time (default: the current snapshot, with the current
        schema).

    Raises
    ------
    SetupError
        If ``pyiceberg`` is not installed.
    SourceError
        If the metadata cannot be read, or lacks the snapshot.
    """
    metadata, io = _open_iceberg(metadata_location)
    current = metadata.current_snapshot()
    snapshot = current if snapshot_id is None else metadata.snapshot_by_id(snapshot_id)
    if snapshot is None and snapshot_id is not None:
        msg = f"no snapshot {snapshot_id} in the Iceberg metadata {metadata_location!r}"
        raise SourceError(msg)
    is_current = snapshot is None or (
        current is not None and snapshot.snapshot_id == current.snapshot_id
    )
    schema_id = metadata.current_schema_id if is_current or snapshot is None else snapshot.schema_id
    schema = next((s for s in metadata.schemas if s.schema_id == schema_id), metadata.schema())
    specs = metadata.specs()
    fields = [f for f in metadata.spec().fields if str(f.transform) != "void"]
    keys = tuple(f.name for f in fields)
    times = {s.snapshot_id: s.timestamp_ms for s in metadata.snapshots}
    entries = [] if snapshot is None else _live_entries(snapshot, io)
    deletes = [e for e in entries if e.data_file.content != 0]

    def described(entry: ManifestEntry) -> DataFile:
        file = entry.data_file
        milliseconds = times.get(cast("int", entry.snapshot_id))
        spec = specs[file.spec_id]
        return DataFile(
            file.file_path,
            _iceberg_partition(file, spec, fields, schema),
            file.record_count,
            getattr(file, "content_size_in_bytes", None) or file.file_size_in_bytes,
            file.content == 0 and any(_may_delete(d, entry, specs) for d in deletes),
            None if milliseconds is None else _EPOCH + timedelta(milliseconds=milliseconds),
            _iceberg_identity(file),
            _identity_values(file, spec, schema),
            _iceberg_statistics(file, schema),
        )

    described_files = [described(entry) for entry in entries]
    is_data = [entry.data_file.content == 0 for entry in entries]
    return TableSnapshot(
        "iceberg",
        metadata.location.rstrip("/"),
        None if snapshot is None else snapshot.snapshot_id,
        str(metadata.table_uuid),
        None if snapshot is None else _EPOCH + timedelta(milliseconds=snapshot.timestamp_ms),
        Schema.from_types({f.name: _spark_type(f.field_type) for f in schema.fields}),
        keys,
        tuple(f for f, data in zip(described_files, is_data, strict=True) if data),
        tuple(f for f, data in zip(described_files, is_data, strict=True) if not data),
        dict(metadata.properties),
        {f.name: f.field_id for f in schema.fields},
        frozenset(f.name for f in schema.fields if _is_filled(f, specs.values())),
    )


def _is_filled(column: Any, specs: Iterable[PartitionSpec]) -> bool:
    """Return whether a column has values in files without it: a default, or the value of a partition."""
    is_key = any(
        key.source_id == column.field_id and str(key.transform) == "identity"
        for spec in specs
        for key in spec.fields
    )
    return is_key or getattr(column, "initial_default", None) is not None


def _live_entries(snapshot: Snapshot, io: FileIO) -> list[ManifestEntry]:
    with _manifest_errors(snapshot):
        manifests = snapshot.manifests(io)
        with ThreadPoolExecutor(min(FOOTER_THREADS, len(manifests) or 1)) as pool:
            lists = pool.map(lambda m: m.fetch_manifest_entry(io), manifests)
            return [entry for entries in lists for entry in entries]


@contextmanager
def _manifest_errors(snapshot: Snapshot) -> Iterator[None]:
    """Raise `SourceError` if a manifest of a snapshot cannot be read."""
    from pyiceberg.exceptions import ValidationError

    try:
        yield
    except (OSError, ValueError, EOFError, ValidationError) as error:
        msg = (
            f"cannot read the manifests of the Iceberg snapshot {snapshot.snapshot_id}"
            f" in {snapshot.manifest_list!r}: {describe(error)}"
        )
        raise SourceError(msg) from error


def _may_delete(
    delete: ManifestEntry, data: ManifestEntry, specs: Mapping[int, PartitionSpec]
) -> bool:
    """Return whether a delete file may apply to a data file, by the scopes of Iceberg's specification."""
    from pyiceberg.manifest import DataFileContent

    file = delete.data_file
    is_by_position = file.content == DataFileContent.POSITION_DELETES
    target = getattr(file, "referenced_data_file", None)
    if is_by_position and target is not None:
        return bool(target == data.data_file.file_path)
    age = (delete.sequence_number or 0) - (data.sequence_number or 0)
    if age < (0 if is_by_position else 1):
        return False
    fields = specs[file.spec_id].fields
    if not is_by_position and all(str(field.transform) == "void" for field in fields):
        return True  # the spec is unpartitioned
    if file.spec_id != data.data_file.spec_id:
        return False
    values = ((file.partition[i], data.data_file.partition[i]) for i in range(len(fields)))
    return all(value == other or (value != value and other != other) for value, other in values)  # noqa: PLR0124 - NaN


def _iceberg_identity(file: IcebergFile) -> str:
    """Return JSON that identifies a file, equal to what Spark prints of the metadata table ``entries``."""
    identity = {
        "content": int(file.content),
        "file_path": file.file_path,
        "content_offset": getattr(file, "content_offset", None),
        "referenced_data_file": getattr(file, "referenced_data_file", None),
    }
    present = {name: value for name, value in identity.items() if value is not None}
    return json.dumps(present, ensure_ascii=False, separators=(",", ":"))


def _partition_values(file: IcebergFile, spec: PartitionSpec) -> dict[int, Any]:
    """Return the values of a file's partition by the id of the partition field."""
    return {field.field_id: file.partition[i] for i, field in enumerate(spec.fields)}


def _iceberg_partition(
    file: IcebergFile,
    spec: PartitionSpec,
    fields: Sequence[PartitionField],
    schema: Any,
) -> Partition | None:
    """Return a file's partition; None if an older partition spec lacks a key.

    Null can mean that the spec lacked the key. It is believed if all values of the source column are null.
    """
    values = _partition_values(file, spec)
    texts = []
    for key in fields:
        value = values.get(key.field_id)
        nulls = (file.null_value_counts or {}).get(key.source_id)
        if value is None and (file.content != 0 or nulls != file.record_count):
            return None
        texts.append(NULL if value is None else _iceberg_text(key, value, schema))
    return _partition_of((key.name for key in fields), texts)


def _iceberg_text(key: PartitionField, value: Any, schema: Any) -> str | None:
    """Return the value of a partition field as `PartitionField.text` prints it; None if that is unknown."""
    try:
        match str(key.transform):
            case "year":
                value = str(1970 + value)
            case "month":
                value = date(1970 + value // 12, value % 12 + 1, 1).isoformat()[: len("1970-01")]
            case "day" if isinstance(value, int):
                value = _EPOCH_DAY + timedelta(days=value)
            case "hour":
                value = f"{_EPOCH_DAY + timedelta(hours=value // 24 * 24)}-{value % 24:02}"
            case "identity":
                value = _from_ticks(value, schema.find_type(key.source_id))
    except (ValueError, OverflowError):  # a dropped column, or a date after the year 9999
        return None
    return _partition_text(value)


def _identity_values(file: IcebergFile, spec: PartitionSpec, schema: Any) -> dict[str, Any]:
    """Return the values of columns by which a file is partitioned, with the types of its partition."""
    values = _partition_values(file, spec)
    names = {f.field_id: f for f in schema.fields}
    identities = {}
    for key in spec.fields:
        column = names.get(key.source_id)
        if column is not None and str(key.transform) == "identity":
            value = values[key.field_id]
            with suppress(OverflowError):  # Python's dates end with the year 9999
                identities[column.name] = _from_ticks(value, column.field_type)
    return identities


def _from_ticks(value: Any, kind: IcebergType) -> Any:
    """Return a date or time from its number of days or microseconds; other values are returned unchanged."""
    from pyiceberg.types import DateType, TimestampType, TimestamptzType

    if isinstance(value, int) and isinstance(kind, DateType):
        return _EPOCH_DAY + timedelta(days=value)
    if isinstance(value, int) and isinstance(kind, TimestampType | TimestamptzType):
        return _EPOCH + timedelta(microseconds=value)
    return value


def _spark_field(column: Any) -> dict[str, Any]:
    """Return a field of a struct in Spark's JSON form."""
    return {
        "name": column.name,
        "type": _spark_type(column.field_type),
        "nullable": not column.required,
        "metadata": {} if column.doc is None else {"comment": column.doc},
    }


_SPARK_TYPES = {
    "boolean": "boolean",
    "int": "integer",
    "long": "long",
    "float": "float",
    "double": "double",
    "date": "date",
    "timestamp": "timestamp_ntz",
    "timestamptz": "timestamp",
    "string": "string",
    "uuid": "string",
    "binary": "binary",
}
"""Spark's types of Iceberg's primitive types without parameters."""


def _spark_type(kind: IcebergType) -> Any:
    """Return Spark's type of an Iceberg type, in its JSON form.

    Raises
    ------
    SourceError
        If Spark has no such type.
    """
    from pyiceberg import types

    match kind:
        case types.StructType():
            return {"type": "struct", "fields": list(map(_spark_field, kind.fields))}
        case types.ListType():
            element = _spark_type(kind.element_type)
            return {
                "type": "array",
                "elementType": element,
                "containsNull": not kind.element_required,
            }
        case types.MapType():
            return {
                "type": "map",
                "keyType": _spark_type(kind.key_type),
                "valueType": _spark_type(kind.value_type),
                "valueContainsNull": not kind.value_required,
            }
        case types.DecimalType():
            return f"decimal({kind.precision},{kind.scale})"
        case types.FixedType():
            return "binary"
    name = _SPARK_TYPES.get(str(kind))
    if name is None:
        msg = f"Spark has no type for Iceberg's type {kind}"
        raise SourceError(msg)
    return name


def _iceberg_statistics(file: IcebergFile, schema: Any) -> Callable[[str], ColumnStatistics]:
    fields = {f.name: f for f in schema.fields}

    def column(name: str) -> ColumnStatistics:
        field = fields.get(name)
        if field is None or not field.field_type.is_primitive:
            return UNKNOWN
        key = field.field_id
        nulls = (file.null_value_counts or {}).get(key)
        if nulls is None or nulls == file.record_count:
            return ColumnStatistics(nulls)
        kind = _spark_type(field.field_type)
        ends = ((bounds or {}).get(key) for bounds in (file.lower_bounds, file.upper_bounds))
        lower, upper = (None if end is None else _decode_bound(end, kind) for end in ends)
        if kind in {"float", "double"}:
            if lower is not None and upper is not None and lower > upper:
                lower = None  # of a writer that met nothing but NaN
            if (file.nan_value_counts or {}).get(key) != 0:
                upper = None  # NaN is the greatest number
        return ColumnStatistics(nulls, lower, upper)

    return column


_DATE_BYTES = 4
"""Length of a bound of dates. Bounds of times, to which dates can be widened, are longer."""


def _decode_bound(value: bytes, kind: str) -> Number | None:
    r"""Return a bound by Iceberg's single-value serialization; None for types whose bounds can be truncated.

    The bound of a column whose type was widened later has the length of the older type.

    Examples
    --------
    >>> _decode_bound(b"\x01\x00\x00\x00", "long"), _decode_bound(b"\xff\x38", "decimal(9,2)")
    (1, Decimal('-2.00'))
    >>> _decode_bound(b"\x02\x00\x00\x00", "date"), _decode_bound(b"abc", "string")
    (172800000000, None)
    >>> _decode_bound(b"\x02\x00\x00\x00", "timestamp_ntz")
    172800000000
    """
    if kind in {*INTEGRAL, *TEMPORAL}:
        number = int.from_bytes(value, "little", signed=True)
        return number * DAY_MICROS if kind in TEMPORAL and len(value) == _DATE_BYTES else number
    if kind.startswith("decimal("):
        scale = int(kind.rstrip(")").partition(",")[2])
        return decimal_from(int.from_bytes(value, "big", signed=True), scale)
    if kind in {"float", "double"}:
        import struct

        (double,) = struct.unpack("<f" if len(value) == 4 else "<d", value)
        return as_number(double)
    return None


def read_iceberg_history(metadata_location: str, known: Iterable[int] = ()) -> list[TableVersion]:
    """Return the snapshots of an Iceberg table from which the current one descends, the oldest first.

    Expired snapshots are missing. Snapshots from which the table was rolled back are left out.

    Parameters
    ----------
    metadata_location : str
        The current metadata file.
    known : iterable of int
        Snapshot ids. The history ends before the newest of them.

    Raises
    ------
    SetupError
        If ``pyiceberg`` is not installed.
    SourceError
        If the metadata cannot be read.
    """
    metadata, io = _open_iceberg(metadata_location)
    by_id = {s.snapshot_id: s for s in metadata.snapshots}
    stop = set(known)
    chain: list[Snapshot] = []
    snapshot = metadata.current_snapshot()
    while snapshot is not None and snapshot.snapshot_id not in stop:
        chain.append(snapshot)
        snapshot = by_id.get(cast("int", snapshot.parent_snapshot_id))
    fields = [f for f in metadata.spec().fields if str(f.transform) != "void"]
    with ThreadPoolExecutor(FOOTER_THREADS) as pool:
        versions = pool.map(lambda s: _iceberg_version(s, metadata, fields, io), reversed(chain))
        return list(versions)


def _iceberg_version(
    snapshot: Snapshot, metadata: TableMetadata, fields: Sequence[PartitionField], io: FileIO
) -> TableVersion:
    from pyiceberg.manifest import ManifestEntryStatus

    specs, schema = metadata.specs(), metadata.schema()
    operation = "" if snapshot.summary is None else snapshot.summary.operation.value
    changes: dict[Partition | None, PartitionChange] = {}
    with _manifest_errors(snapshot):
        entries = [
            entry
            for manifest in snapshot.manifests(io)
            if manifest.added_snapshot_id == snapshot.snapshot_id
            for entry in manifest.fetch_manifest_entry(io, discard_deleted=False)
            if entry.snapshot_id == snapshot.snapshot_id
        ]
    for entry in entries:
        if entry.status == ManifestEntryStatus.EXISTING:
            continue
        file = entry.data_file
        rows = file.record_count
        is_added = entry.status == ManifestEntryStatus.ADDED
        if file.content != 0:  # how many rows it deletes is known only to a reader
            change = (
                PartitionChange(rows_removed=None) if is_added else PartitionChange(rows_added=None)
            )
        elif is_added:
            change = PartitionChange(rows_added=rows, files_added=1)
        else:
            change = PartitionChange(rows_removed=rows, files_removed=1)
        partition = _iceberg_partition(file, specs[file.spec_id], fields, schema)
        changes[partition] = changes.get(partition, PartitionChange()) + change
    summary = {} if snapshot.summary is None else snapshot.summary.additional_properties

    def total(name: str) -> int | None:
        number = summary.get(name)
        return int(number) if number is not None else None

    deletes = total("total-delete-files")
    return TableVersion(
        snapshot.snapshot_id,
        _EPOCH + timedelta(milliseconds=snapshot.timestamp_ms),
        operation,
        operation == "replace",
        changes,
        None if deletes else total("total-records"),
        total("total-data-files"),
    )
