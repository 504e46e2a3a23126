"""Iceberg and Delta tables, with partitions and fingerprints read from the table's log.

Snapshots list the immutable data files, delete files and deletion vectors of each partition. A partition's
fingerprint is a hash of their identities: any change to its rows changes the fingerprint, and changes to other
partitions do not. Compaction also changes it. As long as the log reaches back to a version, it shows whether
files were only rewritten since: Delta marks files without data changes, and Iceberg marks snapshots that only
replace files.

A snapshot id would not suffice: Iceberg's ``last_updated_snapshot_id`` stays the same if an entire older file
of the partition is deleted, and is lost when snapshots expire.

Iceberg's metadata tables (``entries``, ``snapshots``) are read. Delta's log is replayed according to its
protocol: the newest complete checkpoint, then the commits after it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial, reduce
from hashlib import sha256
from typing import TYPE_CHECKING, ClassVar

from tidegauge.analyzers.columnar.engines import FIELD_ID_SETTING, reads_by_default
from tidegauge.analyzers.columnar.table_logs import (
    DataFile,
    TablePartition,
    TableSnapshot,
    delta_changes,
    open_log,
    read_delta,
    read_iceberg,
)
from tidegauge.analyzers.core.errors import SourceError, did_you_mean
from tidegauge.analyzers.core.partitions import NULL, Partition, TimeFormat, Values
from tidegauge.analyzers.core.schema import KEY_ONLY, Schema
from tidegauge.analyzers.core.sql import (
    literal,
    parts,
    quote,
    table_name,
    table_sql,
)
from tidegauge.analyzers.scan.grouping import DISTINCT_AS_TEXT, filter_partitions, hive_text
from tidegauge.analyzers.sources.hive_table import TableDescription
from tidegauge.analyzers.sources.iceberg_partitions import (
    PartitionField,
    chosen_fields,
    partition_fields,
    pruning_filter,
    time_format,
)
from tidegauge.analyzers.sources.sources import (
    DELTA,
    ICEBERG,
    FrameSource,
    ListedPartition,
    check_keys,
    list_files,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession


@dataclass(frozen=True)
class IcebergReference:
    """A table's name with a branch, tag or snapshot, such as ``lake.sales.orders.branch_audit``.

    Attributes
    ----------
    table : str
        The table's name.
    name : str
        The branch or tag; empty if there is none.
    snapshot : int or None
        The id of the snapshot in the name; None if there is none.
    """

    table: str
    name: str = ""
    snapshot: int | None = None

    @property
    def is_snapshot(self) -> bool:
        """Whether the name refers to a snapshot, rather than to a metadata table or a time."""
        return bool(self.name) or self.snapshot is not None


_REFERENCE_STEP = re.compile(r"(?i:branch|tag)_(?P<name>.+)|(?i:snapshot_id)_(?P<id>\d+)")
_TIMESTAMP_STEP = re.compile(r"(?i:at_timestamp)_\d+")
MAX_NAMED_SNAPSHOTS = 3
"""Keeps messages about missing snapshots short."""


def iceberg_reference(spark: SparkSession, name: str) -> IcebergReference | None:
    """Parse the name of a table with a branch, tag, snapshot or metadata table; None for a plain table name.

    Parameters
    ----------
    spark : SparkSession
        The Spark session.
    name : str
        The full name, as `table_name` writes it, with the catalog.
    """
    *path, last_step = map(str, parts(name))
    table = table_name(path)
    if len(path) < 3 or not spark.catalog.tableExists(table_sql(table)):
        return None
    match = _REFERENCE_STEP.fullmatch(last_step)
    if match is None:
        return IcebergReference(table)
    snapshot = None if match["id"] is None else int(match["id"])
    return IcebergReference(table, match["name"] or "", snapshot)


def missing_reference(spark: SparkSession, name: str) -> str | None:
    """Return why a branch, tag or snapshot in a table's name does not exist; None if that is not the problem.

    Iceberg's own error does not list the branches, tags and snapshots that exist.
    """
    *path, last_step = map(str, parts(name))
    table = table_name(path)
    match = _REFERENCE_STEP.fullmatch(last_step)
    if not path or not (match or _TIMESTAMP_STEP.fullmatch(last_step)):
        return None
    is_named = match is not None and match["name"] is not None
    try:
        rows = spark.table(f"{table_sql(table)}.`{'refs' if is_named else 'snapshots'}`").collect()
    except Exception:  # noqa: BLE001 - not an Iceberg table; the caller has the error to raise
        return None
    if match is not None and is_named:
        problem = _missing_name(match["name"], last_step.partition("_")[0].casefold(), rows)
    else:
        problem = _missing_snapshot(match and int(match["id"]), rows)
    return problem and f"no table {name!r}: {table} has no {problem}"


def _missing_name(name: str, kind: str, refs: Sequence[Row]) -> str | None:
    """Return the end of a message about a missing branch or tag; None if the table has it."""
    names = [ref["name"] for ref in refs if ref["type"].casefold() == kind]
    if name in names:
        return None
    available = f" (there are: {', '.join(sorted(names))})" if names else ""
    return f"{kind} {name!r}{available}{did_you_mean(name, names)}"


def _missing_snapshot(snapshot_id: int | None, snapshots: Sequence[Row]) -> str | None:
    """Return the end of a message about a missing snapshot; None if the table has it.

    Parameters
    ----------
    snapshot_id : int or None
        The snapshot's id; None if the snapshot was named by its time.
    snapshots : sequence of Row
        The snapshots of the table.
    """
    if any(snapshot["snapshot_id"] == snapshot_id for snapshot in snapshots):
        return None
    newest = ", ".join(
        f"{snapshot['snapshot_id']} of {snapshot['committed_at']:%Y-%m-%d %H:%M:%S}"
        for snapshot in sorted(snapshots, key=lambda s: s["committed_at"])[-MAX_NAMED_SNAPSHOTS:]
    )
    subject = "snapshot of that time" if snapshot_id is None else f"snapshot {snapshot_id}"
    return f"{subject} (the newest: {newest})" if newest else subject


def listed_in_log(format: str, partition: Partition, files: Sequence[DataFile]) -> ListedPartition:
    """Return a listed partition with the fingerprint of its files in the log of a table.

    Parameters
    ----------
    format : str
        ``delta`` or ``iceberg``.
    partition : Partition
        The partition.
    files : sequence of DataFile
        Its data files and delete files.
    """
    identities = "\n".join(sorted(file.identity for file in files))
    times = [file.modified for file in files if file.modified is not None]
    return ListedPartition(
        partition,
        f"{format}/1:{sha256(identities.encode()).hexdigest()}",
        max(times, default=None),
        sum(file.size for file in files),
    )


@dataclass
class LoggedTable:
    """An Iceberg or Delta table as a source.

    Attributes
    ----------
    spark : SparkSession
        The Spark session.
    name : str
        The table's full name in the catalog, as `table_name` writes it.
    keys : tuple of str
        The partition keys.
    format : str
        ``iceberg`` or ``delta``.
    location : str
        The table's folder.
    snapshot : int or None
        The version of a Delta table, or the snapshot id of an Iceberg table, that was last listed. This
        version is read even if the table is written to in the meantime. None before the first listing, and
        for an empty table.
    fields : tuple of PartitionField
        The partition fields of an Iceberg table that are its keys.
    field_names : sequence of str
        The names of all current and former partition fields of an Iceberg table.
    reference : IcebergReference
        The table and the branch, tag or snapshot in an Iceberg table's name.
    """

    reads_exactly: ClassVar[bool] = True
    spark: SparkSession
    name: str
    keys: tuple[str, ...]
    format: str
    location: str
    snapshot: int | None = None
    fields: tuple[PartitionField, ...] = ()
    reference: IcebergReference | None = None
    field_names: Sequence[str] = ()
    _table: str = field(init=False, default="")
    _physical: Sequence[str] = field(init=False, default=())
    _log: TableSnapshot | None = field(init=False, default=None, repr=False)

    @property
    def version(self) -> str | None:
        """The listed version of the table, such as ``iceberg 7318`` or ``delta 12 of <id>``."""
        if self.snapshot is None:
            return None
        return f"{self.format} {self.snapshot}{self._suffix}"

    @property
    def _suffix(self) -> str:
        return f" of {self._table}" if self._table else ""

    def only_rewritten(self, since: Mapping[str, str]) -> set[str]:
        """Return the partitions whose rows have not changed since a version of the table.

        Parameters
        ----------
        since : mapping of str to str
            Values of `version` by the name of the partition.
        """
        pattern = re.compile(rf"{self.format} (-?\d+){re.escape(self._suffix)}")
        versions = {n: int(m[1]) for n, v in since.items() if (m := pattern.fullmatch(v))}
        if not versions or self.snapshot is None:
            return set()
        measured = set(versions.values())
        if self.format == ICEBERG:
            steps, last_changes = self._iceberg_changes(measured)
        else:
            steps, last_changes = self._logged_changes(measured) or self._delta_changes(measured)
        last_unknown = last_changes.get(None, -1)
        return {
            name
            for name, version in versions.items()
            if version in steps and max(last_changes.get(name, -1), last_unknown) <= steps[version]
        }

    def _last_changes(
        self, files: DataFrame, keys: Sequence[str], step: str
    ) -> dict[str | None, int]:
        """Return the last step that changed each partition, by name.

        The key None has the last change whose partition is unknown.
        """
        columns = [f"{key} AS k{i}" for i, key in enumerate(keys)]
        names = [f"k{i}" for i in range(len(keys))]
        rows = files.selectExpr(*columns, f"{step} AS step").groupBy(*names).agg({"step": "max"})
        last_changes: dict[str | None, int] = {}
        for *values, last_step in rows.collect():
            is_known = bool(keys) and None not in values
            name = Partition(self.keys, tuple(values)).name if is_known else None
            if last_step is not None:
                last_changes[name] = max(last_changes.get(name, -1), last_step)
        return last_changes

    @property
    def _quoted(self) -> str:
        return table_sql(self.name)

    def list_partitions(self) -> list[ListedPartition]:
        """List the partitions of the current snapshot without opening data files.

        If old files were written under another partition spec, the log does not show their partition. Any
        change then counts as a change of all partitions, until the files are rewritten.
        """
        from pyspark.sql.functions import expr

        self._refresh()
        listed = self._list_by_log()
        if listed is not None:
            return listed
        if self.format == ICEBERG:
            files, is_partitioned = self._iceberg()
        else:
            files, is_partitioned = self._delta(), True
        key_columns = [f"k{i}" for i in range(len(self.keys))] if is_partitioned else []
        rows = files.groupBy(*key_columns).agg(
            expr(r"sha2(array_join(array_sort(collect_list(id)), '\n'), 256)"),
            expr("sum(size)"),
            expr("max(ms)"),
        )
        partitions = [
            ListedPartition(
                Partition(self.keys if is_partitioned else (), tuple(row[: len(key_columns)])),
                f"{self.format}/1:{row[-3]}",
                None if row[-1] is None else datetime.fromtimestamp(row[-1] / 1000, UTC),
                row[-2] or 0,
            )
            for row in rows.collect()
        ]
        if is_partitioned:
            return partitions
        (table,) = partitions
        listed = FrameSource(self.read(), self.keys).list_partitions()
        return [ListedPartition(e.partition, table.fingerprint, table.arrived_at) for e in listed]

    def _list_by_log(self) -> list[ListedPartition] | None:
        """List the partitions without a job of Spark; None if the log does not show what Spark would list."""
        self._log = open_log(self._read_log)
        if self._log is None:
            return None
        files = [*self._log.files, *self._log.delete_files]
        has_vectors = self.format == DELTA and any(file.has_deletes for file in files)
        if has_vectors or not all(map(self._is_known, files)):
            return None
        self.snapshot = self._log.id
        if self.format == DELTA:
            self._table = self._log.table_id
        groups: dict[Partition, list[DataFile]] = {} if self.keys else {Partition(): []}
        for file in files:
            assert file.partition is not None
            groups.setdefault(file.partition.only(self.keys), []).append(file)
        return [listed_in_log(self.format, partition, group) for partition, group in groups.items()]

    def _is_known(self, file: DataFile) -> bool:
        """Return whether the log shows all keys of a file."""
        return file.partition is not None and set(self.keys) <= set(file.partition.keys)

    def _read_log(self, snapshot: int | None = None) -> TableSnapshot:
        """Read the newest version, or a version, from the log."""
        if self.format == DELTA:
            return read_delta(self.location, snapshot)
        if self.reference is not None:
            snapshot = snapshot or self._current_snapshot()
        entries = self.spark.table(f"{self._base}.`metadata_log_entries`").select("file").collect()
        return read_iceberg(entries[-1][0], snapshot)

    def parquet_files(
        self, partitions: Collection[Partition]
    ) -> Mapping[Partition, TablePartition]:
        """Return the files of partitions by the table's log, in the listed version.

        Branches and tags of Iceberg are left for Spark, and so are partitions of Iceberg with delete files.
        """
        is_branch = self.reference is not None and bool(self.reference.name)
        # The log has the names or field ids of the columns.
        if is_branch or not reads_by_default(self.spark, ignored={FIELD_ID_SETTING}):
            return {}
        log = self._log
        if log is None or log.id != self.snapshot:
            log = open_log(partial(self._read_log, self.snapshot))
        if log is None or not all(map(self._is_known, log.files)):
            return {}
        schema = log.schema
        if self.format == ICEBERG:
            schema = Schema.from_frame(self.read())
        if schema.has_padded_or_collated:
            return {}
        column_keys = {
            name: key
            for name, key in log.column_keys.items()
            if name in schema.names and schema.field_type(name) == log.schema.field_type(name)
        }
        groups: dict[Partition, list[DataFile]] = {partition: [] for partition in partitions}
        for file in log.files:
            assert file.partition is not None
            partition = file.partition.only(self.keys)
            if partition in groups:
                groups[partition].append(file)
        return {
            partition: TablePartition(schema, tuple(files), column_keys, log.filled)
            for partition, files in groups.items()
            if self.format == DELTA or not any(file.has_deletes for file in files)
        }

    def _refresh(self) -> None:
        """Make Spark load new snapshots, since Iceberg's catalog caches tables."""
        self.spark.catalog.refreshTable(self._quoted)

    def read(self, partitions: Collection[Partition] | None = None) -> DataFrame:
        """Read the rows of the given partitions; None reads all."""
        from pyspark.sql.functions import expr

        data = self._read_snapshot()
        hidden = [field for field in self.fields if field.is_hidden]
        values = None if partitions is None else [p.values for p in partitions]
        if hidden and values is not None:
            condition = pruning_filter(data, self.fields, values, self._catalog)
            data = data if condition is None else data.where(condition)
        if hidden:
            keys = (
                expr(field.key(self._catalog)).alias(field.name, metadata={KEY_ONLY: True})
                for field in hidden
            )
            data = data.select("*", *keys)
        if values is None or not self.keys:
            return data
        return filter_partitions(data, self.keys, values)

    @property
    def time_format(self) -> TimeFormat | None:
        """The time format of partitions by a transform of a time; None if there are none."""
        return time_format(self.fields)

    @property
    def _catalog(self) -> str:
        return str(parts(self.name)[0])

    @property
    def _base(self) -> str:
        """The quoted name of the table, without a branch, tag or snapshot."""
        return self._quoted if self.reference is None else table_sql(self.reference.table)

    def choose_keys(self, requested: Sequence[str] | None, subject: str) -> None:
        """Partition by some of the keys. For Iceberg, keys can be transforms such as ``days(at)``.

        Parameters
        ----------
        requested : sequence of str or None
            The keys; None for all.
        subject : str
            Name of the table, for the error.

        Raises
        ------
        PartitionColumnError
            If the table is not partitioned by one of the keys.
        """
        if self.format == ICEBERG:
            self.fields = chosen_fields(requested, self.fields, subject, self.field_names)
            self.keys = tuple(field.name for field in self.fields)
        else:
            self.keys = check_keys(requested, self.keys, subject)

    def _read_snapshot(self) -> DataFrame:
        newest = self.spark.table(self._quoted)
        # An Iceberg snapshot has the schema of its time, which may have changed since.
        if self.snapshot is None or (
            self.format == ICEBERG and self._current_snapshot() == self.snapshot
        ):
            return newest
        return self._as_of(self._base)

    def _as_of(self, table: str) -> DataFrame:
        """Read a table as it was in the snapshot; `table` is quoted."""
        version = "" if self.snapshot is None else f" VERSION AS OF {self.snapshot}"
        return self.spark.sql(f"SELECT * FROM {table}{version}")  # noqa: S608 - quoted, and a number

    def _current_snapshot(self) -> int | None:
        """Return the id of an Iceberg table's current snapshot; None if nothing was ever written."""
        if self.reference is not None and self.reference.snapshot is not None:
            return self.reference.snapshot
        name = "main" if self.reference is None else self.reference.name
        refs = self.spark.table(f"{self._base}.`refs`").where(f"name = {literal(name)}")
        return next((int(row[0]) for row in refs.select("snapshot_id").collect()), None)

    def partition_of(self, key: Values) -> Partition | None:
        """Return the partition with these key values."""
        return Partition(self.keys, key)

    def _iceberg(self) -> tuple[DataFrame, bool]:
        """Return the live files (keys, identity, size, time), and whether all have known keys."""
        table = self._base
        self.snapshot = self._current_snapshot()
        entries = self._as_of(f"{table}.`entries`").where("status < 2")
        entries = entries.selectExpr("snapshot_id", "data_file.*", "readable_metrics AS m")
        commits = self.spark.table(f"{table}.`snapshots`")
        commits = commits.selectExpr("snapshot_id", "unix_millis(committed_at) AS ms")
        live = entries.join(commits, "snapshot_id", "left")
        keys = [field.in_files("partition") for field in self.fields]
        # Null can mean that an older partition spec lacked the key: compare with the null counts.
        doubtful = " OR ".join(
            f"({key} IS NULL AND NOT coalesce(content = 0 AND"
            f" m.{quote(field.source)}.null_value_count = record_count, false))"
            for key, field in zip(keys, self.fields, strict=True)
        )
        (is_unclear,) = live.selectExpr(f"coalesce(max({doubtful or 'false'}), false)").collect()[0]
        files = live.selectExpr(
            *(
                f"{f.text(key)} AS k{i}"
                for i, (f, key) in enumerate(zip(self.fields, keys, strict=True))
            ),
            "to_json(struct(content, file_path, content_offset, referenced_data_file)) AS id",
            "coalesce(content_size_in_bytes, file_size_in_bytes) AS size",
            "ms",
        )
        return files, not is_unclear

    def _iceberg_changes(self, since: set[int]) -> tuple[dict[int, int], dict[str | None, int]]:
        """Return the current snapshot's ancestors back to the oldest in ``since``, and each partition's last change.

        Snapshots from which the table was rolled back are not ancestors. The oldest ancestor can be expired:
        all changes after it are still known.
        """
        rows = self.spark.table(f"{self._base}.`snapshots`")
        snapshots = {
            r[0]: r for r in rows.select("snapshot_id", "parent_id", "operation").collect()
        }
        chain: list[int] = []
        snapshot_id, missing = self.snapshot, set(since)
        while snapshot_id is not None and missing:
            chain.append(snapshot_id)
            missing.discard(snapshot_id)
            snapshot_id = snapshots[snapshot_id][1] if snapshot_id in snapshots else None
        steps = {snapshot: step for step, snapshot in enumerate(reversed(chain))}
        writing = {
            snapshot_id: step
            for snapshot_id, step in steps.items()
            if snapshot_id in snapshots and snapshots[snapshot_id][2] != "replace"
        }
        if not writing:
            return steps, {}
        keys = [
            f"nullif({field.text(field.in_files('data_file.partition'))}, {literal(NULL)})"
            for field in self.fields
        ]
        entries = self.spark.table(f"{self._base}.`all_entries`")
        files = entries.where(f"status <> 0 AND snapshot_id IN ({', '.join(map(str, writing))})")
        step = " ".join(f"WHEN {snapshot_id} THEN {step}" for snapshot_id, step in writing.items())
        return steps, self._last_changes(files, keys, f"CASE snapshot_id {step} END")

    def _logged_changes(
        self, since: set[int]
    ) -> tuple[dict[int, int], dict[str | None, int]] | None:
        """Return the same as `_delta_changes`, without Spark; None if the log cannot be read so."""
        assert self.snapshot is not None
        changes = delta_changes(self.location, min(since), self.snapshot)
        if changes is None:
            return None
        oldest, versions = changes
        last_changes: dict[str | None, int] = {}
        for partition, version in versions.items():
            is_known = bool(self.keys) and partition is not None
            name = partition.only(self.keys).name if is_known and partition else None
            last_changes[name] = max(last_changes.get(name, -1), version)
        return {version: version for version in range(oldest, self.snapshot + 1)}, last_changes

    def _delta_changes(self, since: set[int]) -> tuple[dict[int, int], dict[str | None, int]]:
        """Return the versions back to the oldest in ``since``, and each partition's last change.

        The versions end early if the log lacks a commit.
        """
        assert self.snapshot is not None
        root = self.location.rstrip("/") + "/_delta_log"
        log_files = {file.path for file in list_files(self.spark, root)}
        oldest = self.snapshot
        while oldest > min(since) and f"{oldest:020}.json" in log_files:
            oldest -= 1
        steps = {version: version for version in range(oldest, self.snapshot + 1)}
        commits = [f"{root}/{version:020}.json" for version in steps if version > oldest]
        if not commits:
            return steps, {}
        log = (
            self.spark.read.schema(_ACTIONS_SCHEMA)
            .json(commits)
            .selectExpr("*", f"{_COMMIT_VERSION} AS at")
        )
        values = "coalesce(add.partitionValues, remove.partitionValues)"
        keys = [
            f"if({values} IS NULL, NULL, {hive_text(f'{values}[{literal(name)}]')})"
            for name in self._physical
        ]
        kinds = ("add", "remove")
        data = " OR ".join(f"({k} IS NOT NULL AND coalesce({k}.dataChange, true))" for k in kinds)
        return steps, self._last_changes(log.where(data), keys, "at")

    def _delta(self) -> DataFrame:
        """Return the live files: keys, identity, size, time."""
        self.snapshot, log = _delta_log(self.spark, self.location)
        action_version = _ACTION_VERSION
        self._table, schema, _ = _newest_metadata(log)
        physical = {
            column["name"]: column["metadata"].get(
                "delta.columnMapping.physicalName", column["name"]
            )
            for column in json.loads(schema)["fields"]
        }
        vector = "if(add IS NULL, remove.deletionVector, add.deletionVector)"
        actions = log.where("add IS NOT NULL OR remove IS NOT NULL").selectExpr(
            f"to_json(struct(coalesce(add.path, remove.path) AS path, {vector} AS vector)) AS id",
            "add",
            f"2 * {action_version} + int(add IS NOT NULL) AS at",
        )
        from pyspark.sql.functions import expr

        last_actions = actions.groupBy("id").agg(expr("max_by(struct(add), at).add AS add"))
        self._physical = [physical[key] for key in self.keys]
        values = [f"add.partitionValues[{literal(name)}]" for name in self._physical]
        return last_actions.where("add IS NOT NULL").selectExpr(
            *(f"{hive_text(value)} AS k{i}" for i, value in enumerate(values)),
            "id",
            "add.size AS size",
            "add.modificationTime AS ms",
        )


_DELETION_VECTOR_TYPE = "STRUCT<storageType: STRING, pathOrInlineDv: STRING, `offset`: INT>"
_ACTIONS_SCHEMA = (
    "add STRUCT<path: STRING, partitionValues: MAP<STRING, STRING>, size: BIGINT,"
    f" modificationTime: BIGINT, dataChange: BOOLEAN, deletionVector: {_DELETION_VECTOR_TYPE}>,"
    " remove STRUCT<path: STRING, partitionValues: MAP<STRING, STRING>, dataChange: BOOLEAN,"
    f" deletionVector: {_DELETION_VECTOR_TYPE}>,"
    " metaData STRUCT<id: STRING, schemaString: STRING, partitionColumns: ARRAY<STRING>>,"
    " sidecar STRUCT<path: STRING>"
)
_CHECKPOINT_FILE = re.compile(
    r"(\d{20})\.checkpoint(?:\.\d{10}\.(\d{10})|\.[0-9a-f-]{36})?\.(?:parquet|json)"
)
_COMMIT_FILE = re.compile(r"(\d{20})\.json")
_COMMIT_VERSION = "CAST(substr(_metadata.file_name, 1, 20) AS BIGINT)"
_ACTION_VERSION = "CAST(substr(f, 1, 20) AS BIGINT)"
"""The version of an action of `_delta_log`, taken from the name of its file."""


def _delta_log(spark: SparkSession, location: str) -> tuple[int, DataFrame]:
    """Return the version, and the actions of the newest complete checkpoint and commits after it."""
    root = location.rstrip("/") + "/_delta_log"
    names = sorted(file.path for file in list_files(spark, root))
    parts: dict[tuple[int, int, str], list[str]] = {}
    for name in names:
        if match := _CHECKPOINT_FILE.fullmatch(name):
            # Group the parts of a multi-part checkpoint. Any complete checkpoint of a version will do.
            key = (int(match[1]), int(match[2] or 1), "" if match[2] else name)
            parts.setdefault(key, []).append(name)
    complete = [(version, files) for (version, n, _), files in parts.items() if len(files) == n]
    version, checkpoint = max(complete, default=(-1, []))
    commits = [n for n in names if (m := _COMMIT_FILE.fullmatch(n)) and int(m[1]) > version]
    expected = list(range(version + 1, version + 1 + len(commits)))
    if [int(name[:20]) for name in commits] != expected or not (checkpoint or commits):
        msg = f"the log of the Delta table in {location!r} is incomplete: commits are missing"
        raise SourceError(msg)

    def load(files: list[str]) -> DataFrame:
        reader = spark.read.schema(_ACTIONS_SCHEMA).format(files[0].rpartition(".")[2])
        return reader.load([f"{root}/{name}" for name in files]).selectExpr(
            "*", "_metadata.file_name AS f"
        )

    frames = [load(files) for files in (checkpoint, commits) if files]
    if checkpoint:
        sidecars = frames[0].where("sidecar IS NOT NULL").selectExpr("sidecar.path").collect()
        if sidecars:
            sidecar_actions = load([f"_sidecars/{row[0]}" for row in sidecars]).drop("f")
            frames.append(sidecar_actions.selectExpr("*", f"{literal(checkpoint[0])} AS f"))
    return version + len(commits), reduce(lambda a, b: a.unionByName(b), frames)


def _newest_metadata(log: DataFrame) -> tuple[str, str, list[str]]:
    """Return the table's id, its schema as JSON, and its partition columns."""
    newest = log.where("metaData IS NOT NULL")
    newest = newest.selectExpr(f"max_by(metaData, {_ACTION_VERSION}) AS m")
    row = newest.selectExpr("m.id", "m.schemaString", "m.partitionColumns").collect()[0]
    return row[0], row[1], row[2] or []


def delta_keys(spark: SparkSession, location: str) -> tuple[str, ...]:
    """Return the partition columns of the Delta table in a folder, by its log."""
    _, log = _delta_log(spark, location)
    return tuple(_newest_metadata(log)[2])


def has_exact_texts(schema: Schema, keys: Collection[str]) -> bool:
    """Return whether Delta's log writes the values of these columns as Spark prints them."""
    return all(schema.field(quote(key)).kind in DISTINCT_AS_TEXT for key in keys)


def logged_table(
    spark: SparkSession, name: str, description: TableDescription
) -> LoggedTable | None:
    """Open an Iceberg or Delta table by its log; None if the log does not list its partitions.

    Parameters
    ----------
    spark : SparkSession
        The Spark session.
    name : str
        The table's full name.
    description : TableDescription
        The table's description in the catalog.
    """
    provider = description.provider
    quoted = table_sql(name)
    if provider == ICEBERG:
        reference = iceberg_reference(spark, name)
        if reference is not None and not reference.is_snapshot:
            return None
        base = quoted if reference is None else table_sql(reference.table)
        files = spark.table(f"{base}.`files`").schema
        partition = files["partition"].dataType if "partition" in files.names else None
        names = getattr(partition, "names", [])
        fields = partition_fields(description.transforms, names, spark.table(base).columns)
        keys = tuple(field.name for field in fields)
        return LoggedTable(
            spark,
            name,
            keys,
            ICEBERG,
            description.location,
            fields=fields,
            reference=reference,
            field_names=names,
        )
    # The newest commits of a catalog-managed table can be missing from its log.
    managed = "delta.feature.catalogManaged" in description.details.get("table properties", "")
    if provider != DELTA or managed:
        return None
    keys = tuple(c.name for c in spark.catalog.listColumns(quoted) if c.isPartition)
    if not has_exact_texts(Schema.from_frame(spark.table(quoted)), keys):
        return None
    return LoggedTable(spark, name, keys, DELTA, description.location)
