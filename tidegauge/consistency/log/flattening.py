"""Flattening of the query log into a table with one column per key and feature, by day.

Compaction joins the many small files of a folder in the log into a few large files. A killed compaction
loses no data. Compaction stores a day's previous fingerprint, so the day is not flattened again.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tidegauge.analyzers.core.errors import SourceError
from tidegauge.analyzers.core.filesystems import file_system
from tidegauge.analyzers.core.formatting import plural
from tidegauge.analyzers.core.registry import canonical_json
from tidegauge.analyzers.core.sql import literal, quote, type_sql
from tidegauge.analyzers.runs.recording import WAIT_SECONDS, Recorder
from tidegauge.analyzers.scan.grouping import filter_partitions
from tidegauge.analyzers.sources.hive_table import describe_table
from tidegauge.analyzers.sources.opening import open_table
from tidegauge.analyzers.sources.sources import ListedPartition
from tidegauge.analyzers.sources.targets import TableTarget, replace
from tidegauge.consistency.log.decoding import BadRecord, DayCounts, Decoded, decode
from tidegauge.consistency.log.query import (
    JOIN,
    SAMPLE_BUCKETS,
    check_type,
    partition_folder,
    sample,
    threshold,
)
from tidegauge.consistency.log.schemas import OWN_COLUMNS, Columns, LogSchema, LogSchemas, merged
from tidegauge.consistency.log.table import (
    finish_widening,
    join_table,
    log_table,
    read_schemas,
    sync_log_table,
    widen,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import fs
    from pyspark.sql import DataFrame, SparkSession


MAX_FILE_MEGABYTES = 128
"""Files grow up to this size when they are joined."""
ROW_GROUP_ROWS = 200_000
"""Rows are kept in memory until they are written as one row group."""
_CLIENT_FILE_NAME = re.compile(r"\d+-[0-9a-f]{32}\.parquet")
"""Names of files that clients and compactions write. Files of Spark have other names and are not changed."""
_REPLACED_LIST_SUFFIX = ".replaces"
"""Suffix of the hidden file that lists the files that a joined file replaces."""


def sizes(system: fs.FileSystem, folder: str, *, hidden: bool = False) -> dict[str, int]:
    """Return the sizes of a folder's files by name, in the order of the names."""
    from pyarrow import fs

    infos = system.get_file_info(fs.FileSelector(folder, allow_not_found=True))
    return {
        info.base_name: info.size
        for info in sorted(infos, key=lambda info: str(info.base_name))
        if info.type == fs.FileType.File and info.base_name.startswith(".") == hidden
    }


def joinable(
    system: fs.FileSystem, folder: str, max_size: int = MAX_FILE_MEGABYTES << 20
) -> list[tuple[str, ...]]:
    """Return groups of two or more client files, in time order. Each group is to be joined into one file."""
    groups: list[list[str]] = [[]]
    group_size = 0
    for name, size in sizes(system, folder).items():
        if not _CLIENT_FILE_NAME.fullmatch(name) or 2 * size > max_size:
            continue
        if group_size + size > max_size:
            groups.append([])
            group_size = 0
        groups[-1].append(name)
        group_size += size
    return [tuple(group) for group in groups if len(group) > 1]


def join_files(system: fs.FileSystem, folder: str, names: Sequence[str]) -> str | None:
    """Join files into one and return its name, or None if another process removed the unfinished file.

    The joined file is hidden while it is written, and so is the list of the files that it replaces. If
    the process is killed, either these hidden files remain, or the joined file with the list and some of
    the replaced files. `finish` removes the superfluous files.
    """
    from pyarrow import parquet

    millis = names[0].partition("-")[0]
    name = f"{millis}-{uuid.uuid4().hex}.parquet"
    unfinished = f"{folder}/.{name}.tmp"
    tables = (parquet.read_table(f"{folder}/{part}", filesystem=system) for part in names)
    schema = parquet.read_schema(f"{folder}/{names[0]}", filesystem=system)
    with parquet.ParquetWriter(unfinished, schema, filesystem=system, compression="zstd") as writer:
        for table in _batches(tables):
            writer.write_table(table)
    with system.open_output_stream(f"{folder}/.{name}{_REPLACED_LIST_SUFFIX}") as stream:
        stream.write(json.dumps(list(names)).encode())
    try:
        system.move(unfinished, f"{folder}/{name}")
    except FileNotFoundError:  # `finish` in another process has deleted it
        return None
    _delete(system, folder, [*names, f".{name}{_REPLACED_LIST_SUFFIX}"])
    return name


def _batches(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Yield tables of at least `ROW_GROUP_ROWS` rows, except the last."""
    import pyarrow as pa

    pending: list[pa.Table] = []
    for table in tables:
        pending.append(table)
        if sum(table_.num_rows for table_ in pending) >= ROW_GROUP_ROWS:
            yield pa.concat_tables(pending)
            pending = []
    if pending:
        yield pa.concat_tables(pending)


def finish(system: fs.FileSystem, folder: str) -> bool:
    """Finish what killed compactions left in a folder; return whether anything was left.

    Replaced files are removed only if the joined file exists. If the joined file does not exist, its
    hidden file is deleted first, so that it cannot appear later.
    """
    hidden = sizes(system, folder, hidden=True)
    lists = [name for name in hidden if name.endswith(_REPLACED_LIST_SUFFIX)]
    for listed in lists:
        joined = listed.removeprefix(".").removesuffix(_REPLACED_LIST_SUFFIX)
        _delete(system, folder, hidden.keys() & {f".{joined}.tmp"})
        visible = sizes(system, folder)
        if joined in visible:
            with suppress(FileNotFoundError):  # another process also finishes it
                with system.open_input_stream(f"{folder}/{listed}") as stream:
                    replaced = json.loads(stream.read())
                _delete(system, folder, visible.keys() & set(replaced))
        _delete(system, folder, [listed])
    return bool(lists)


def _delete(system: fs.FileSystem, folder: str, names: Iterable[str]) -> None:
    for name in names:
        with suppress(FileNotFoundError):  # another process also finishes it
            system.delete_file(f"{folder}/{name}")


_JOIN_PROPERTY, _DAY_MARK_PREFIX, _DAY_COUNTS_PREFIX = (
    "tidegauge.logged",
    "tidegauge.logs.",
    "tidegauge.counts.",
)
"""Table properties: the join, and for each day the log's fingerprint and the counts."""
_COMPACTION_PREFIX = "tidegauge.compacted."
"""Table property of each compacted day: the log's fingerprint after compaction, a space, and the one before."""
_SCHEMA_PROBLEMS = {"unknown schema", "no schema"}
_BAD_SAMPLES_PER_REASON = 5


@dataclass(frozen=True)
class Flattened:
    """Result of flattening.

    Attributes
    ----------
    table : str
        The full table name, quoted.
    columns : Columns
        The table's columns: keys, payload and features.
    days : tuple of DayCounts
        Days written in this run, with counts of decoded and bad queries.
    unchanged : tuple of str
        Days whose logs are unchanged.
    samples : tuple of BadRecord
        Samples of bad records, at most five for each day and reason.
    counted : tuple of DayCounts
        The counts of all days, including days that earlier runs wrote.
    logged_percent : float
        The smallest percentage of keys that a client logs, over all known schemas.
    """

    table: str
    columns: Columns
    days: tuple[DayCounts, ...]
    unchanged: tuple[str, ...]
    samples: tuple[BadRecord, ...]
    counted: tuple[DayCounts, ...] = ()
    logged_percent: float = 100.0

    def __str__(self) -> str:
        """Return a one-line summary."""
        bad = sum(sum(day.bad.values()) for day in self.days)
        summary = f"{self.table}: {plural(len(self.days), 'day')}, {plural(sum(d.read for d in self.days), 'query', 'queries')}"
        return f"{summary}, {bad} not decodable"


def flatten(
    spark: SparkSession,
    namespace: str,
    join: str,
    until: str,
    *,
    since: str | None = None,
    keys: Sequence[str] | None = None,
    schemas: Iterable[LogSchema] | None = None,
    type: str = JOIN,  # noqa: A002 - the column's name
    sample_percent: float = 100,
    encoding: str | None = None,
) -> Flattened:
    """Write a join's logged queries as ``<namespace>.<join>_logged``, partitioned by ds.

    New days are added. A day is rewritten if its log files changed because of late queries, or if it has
    queries with an unknown schema and other schemas are known now. The table has the columns
    schema_hash, ts, keys, payload, features, query_source and ds. New features append columns, and removed
    features keep theirs. A query without a response has null for every feature.

    Parameters
    ----------
    spark : SparkSession
        The session that reads and writes the tables.
    namespace : str
        Namespace of the query log and of the new table.
    join : str
        The name of a join or group-by.
    until : str
        The last day, as ``2023-01-05``.
    since : str, optional
        The first day (default: the first day of the log).
    keys : sequence of str, optional
        Fields of the key that identify an entity (default: all). The other fields are payload.
    schemas : iterable of LogSchema, optional
        Schema versions, earliest first; by default the schemas stored with the log.
    type : str
        ``join`` or ``groupBy``. Queries without a type belong to a join.
    sample_percent : float
        Percentage of keys to sample. All queries of a sampled key are written, and no queries of other
        keys. The counts include all queries.
    encoding : str, optional
        Encoding of keys and values, as for `decode`.

    Returns
    -------
    Flattened
        The table and the counts of each day.

    Raises
    ------
    NoSuchTableError
        If there is no query log.
    SuiteError If two schemas that occur in the log give a feature types that Avro does not promote, or if no
    schema has a key. The message names both schemas. SourceError
        If the table belongs to another join.

    Examples
    --------
    >>> import tidegauge as tg
    >>> from tidegauge.demo.features import log_search
    >>> spark = tg.spark_session()  # doctest: +SKIP
    >>> log_search(spark, "shop")  # doctest: +SKIP
    >>> tg.consistency.flatten(spark, "shop", "search", until="2023-01-05").table  # doctest: +SKIP
    '`shop`.`search_logged`'
    >>> spark.table("shop.search_logged").select("user", "clicks", "ds").collect()  # doctest: +SKIP
    [Row(user=7, clicks=3, ds='2023-01-05')]
    """
    check_type(type)
    logs = log_table(spark, namespace)
    name = join_table(namespace, join, "logged")
    sync_log_table(spark, namespace)
    if schemas is None:
        known_schemas = read_schemas(spark, namespace).of_join(join)
    else:
        known_schemas = [schema for schema in LogSchemas(schemas) if schema.join == join]
    finish_widening(spark, name)
    properties = _read_properties(spark, name, f"{type} {join}")
    existing = _existing_columns(spark, name) if properties else None
    if schemas is None and len(known_schemas) > 1:
        # Use only schemas that queries of these days refer to, so that later schemas add no columns.
        known_schemas = (
            _used_schemas(spark, logs, join, since, until, known_schemas) or known_schemas
        )
    columns = merged(known_schemas, keys, existing)
    sample_by = sorted(columns.keys) if threshold(sample_percent) < SAMPLE_BUCKETS else []
    settings = [type, encoding, threshold(sample_percent), sample_by]
    marks = _Marks(
        canonical_json(settings), canonical_json([schema.hash for schema in known_schemas])
    )
    listed = _logged_days(spark, logs, join, properties)
    days = sorted(ds for ds in listed if (since is None or since <= ds) and ds <= until)
    unchanged = [ds for ds in days if marks.fit(listed[ds], properties.get(_DAY_MARK_PREFIX + ds))]
    todo = [ds for ds in days if ds not in unchanged]
    if todo and _finish_compactions(spark, logs, join, todo):
        listed = _logged_days(spark, logs, join, properties)
    target, logged = TableTarget(spark, name), _logged_percent(known_schemas)
    _create_or_widen(spark, target, columns, f"{type} {join}")
    earlier = [DayCounts.from_json(ds, properties.get(_DAY_COUNTS_PREFIX + ds)) for ds in unchanged]
    counted = [day for day in earlier if day is not None]
    if not todo:
        return Flattened(name, columns, (), tuple(unchanged), (), tuple(counted), logged)
    rows = _logged_rows(spark, logs, join, type, todo)
    decoded = decode(rows, known_schemas, columns, encoding).persist()
    try:
        selected = sample(decoded.data, sample_by, sample_percent) if sample_by else decoded.data
        written = _counts_of(decoded, todo)
        holds = [tuple(row) for row in selected.select("ds").distinct().collect()]
        # Clear the marks first, because a run that is killed while writing leaves days in an unknown state.
        _unset_properties(spark, name, [_DAY_MARK_PREFIX + ds for ds in todo])
        replace(target, selected, "partitions", ["ds"], holds, [(ds,) for ds in todo])
        samples = (
            decoded.sample_bad(_BAD_SAMPLES_PER_REASON) if any(day.bad for day in written) else []
        )
    finally:
        decoded.unpersist()
    now = _logged_days(
        spark, logs, join, properties
    )  # a day that changed meanwhile is flattened again
    same = {ds for ds in todo if ds in now and now[ds].fingerprint == listed[ds].fingerprint}
    new_marks = {
        _DAY_MARK_PREFIX + day.ds: marks.mark_day(listed[day.ds], day)
        for day in written
        if day.ds in same
    }
    counts_of = {_DAY_COUNTS_PREFIX + day.ds: day.to_json() for day in written if day.ds}
    _set_properties(spark, name, new_marks | counts_of)
    counted = sorted((*counted, *written), key=lambda day: day.ds or "")
    return Flattened(
        name, columns, tuple(written), tuple(unchanged), tuple(samples), tuple(counted), logged
    )


def _logged_percent(schemas: Iterable[LogSchema]) -> float:
    return min((schema.sample_percent for schema in schemas), default=100.0)


def _counts_of(decoded: Decoded, days: Iterable[str]) -> list[DayCounts]:
    """Return the counts of days; days without queries have zero counts."""
    counts_by_day = {day.ds: day for day in decoded.days()}
    return [counts_by_day.get(ds, DayCounts(ds)) for ds in days]


def _logged_rows(
    spark: SparkSession,
    logs: str,
    join: str,
    type: str,  # noqa: A002 - the column's name
    days: Iterable[str],
) -> DataFrame:
    """Return the queries of a join on some days, excluding a group-by with the same name."""
    rows = filter_partitions(spark.table(logs), ("ds", "join_name"), [(ds, join) for ds in days])
    if "type" in rows.columns:
        rows = rows.where(f"coalesce(type, {literal(JOIN)}) = {literal(type)}")
    return rows


def _logged_days(
    spark: SparkSession, logs: str, join: str, properties: Mapping[str, str]
) -> dict[str, ListedPartition]:
    """Return a join's log partitions by day, with the fingerprints from before compaction."""
    entries = {}
    for entry in open_table(spark, logs).list_partitions():
        ds = entry.partition.value("ds")
        if entry.partition.value("join_name") == join:
            fingerprint = _before_compaction(properties, ds, entry.fingerprint)
            entries[ds] = dataclasses.replace(entry, fingerprint=fingerprint)
    return entries


def _before_compaction(
    properties: Mapping[str, str], ds: str, fingerprint: str | None
) -> str | None:
    compacted, _, original = properties.get(_COMPACTION_PREFIX + ds, "").partition(" ")
    return original if compacted and compacted == fingerprint else fingerprint


def remember_compaction(
    spark: SparkSession, namespace: str, join: str, days: Mapping[str, tuple[str, str]]
) -> None:
    """Store the fingerprints of days before and after a compaction, which changes no query.

    Because of them, the days are not flattened again. Without a flattened table, do nothing.
    """
    name = join_table(namespace, join, "logged")
    if not days or not spark.catalog.tableExists(name):
        return
    stored: dict[str, str] = dict(spark.sql(f"SHOW TBLPROPERTIES {name}").collect())
    properties = {
        _COMPACTION_PREFIX + ds: f"{compacted} {_before_compaction(stored, ds, original)}"
        for ds, (original, compacted) in days.items()
    }
    _set_properties(spark, name, properties)


def _finish_compactions(spark: SparkSession, logs: str, join: str, days: Iterable[str]) -> bool:
    """Finish killed compactions of some days; return whether any was unfinished."""
    system, root = file_system(describe_table(spark, logs).location)
    folders = [partition_folder(root, ds, join) for ds in days]
    return (
        sum(finish(system, folder) for folder in folders) > 0
    )  # ``any`` would skip the folders after the first


def _used_schemas(
    spark: SparkSession,
    logs: str,
    join: str,
    since: str | None,
    until: str,
    schemas: Sequence[LogSchema],
) -> list[LogSchema]:
    """Return the schemas that queries of the given days refer to."""
    chosen = [f"join_name = {literal(join)}", f"ds <= {literal(until)}"]
    chosen += [] if since is None else [f"ds >= {literal(since)}"]
    rows = spark.table(logs).where(" AND ".join(chosen)).select("schema_hash").distinct()
    hashes = {row[0] for row in rows.collect()}
    return [schema for schema in schemas if schema.hash in hashes]


@dataclass(frozen=True)
class _Marks:
    """Fingerprints of a day, to decide whether to flatten it again."""

    settings: str
    schemas: str

    def mark_day(self, listed: ListedPartition, day: DayCounts) -> str:
        mark = self._mark(listed)
        return f"{mark}/{self._with()}" if _SCHEMA_PROBLEMS & day.bad.keys() else mark

    def fit(self, listed: ListedPartition, stored: str | None) -> bool:
        mark = self._mark(listed)
        return stored in {mark, f"{mark}/{self._with()}"}

    def _mark(self, listed: ListedPartition) -> str:
        return _digest(f"{listed.fingerprint} {self.settings}")

    def _with(self) -> str:
        return _digest(self.schemas)


def _digest(source: str) -> str:
    return hashlib.sha256(source.encode()).hexdigest()[:24]


def _read_properties(spark: SparkSession, name: str, join: str) -> dict[str, str]:
    """Return the properties of the flattened table; empty if it does not exist.

    Raises
    ------
    SourceError
        If the table belongs to another join or was not flattened from a log.
    """
    if not spark.catalog.tableExists(name):
        return {}
    properties: dict[str, str] = dict(spark.sql(f"SHOW TBLPROPERTIES {name}").collect())
    if properties.get(_JOIN_PROPERTY) != join:
        owner = (
            f"belongs to {properties[_JOIN_PROPERTY]!r}"
            if _JOIN_PROPERTY in properties
            else "was not flattened from a query log"
        )
        raise SourceError(
            f"{name} {owner}, so {join!r} cannot be flattened into it; rename one of them"
        )
    return properties


def _existing_columns(spark: SparkSession, name: str) -> dict[str, Any]:
    fields: list[dict[str, Any]] = spark.table(name).schema.jsonValue()["fields"]
    return {f["name"]: f["type"] for f in fields if f["name"] not in OWN_COLUMNS}


def _create_or_widen(spark: SparkSession, target: TableTarget, columns: Columns, join: str) -> None:
    """Create the table, or append new columns and widen numeric columns."""
    types = {name: type_sql(kind) for name, kind in columns.all.items()}
    if not target.exists():
        all_types = {"schema_hash": "STRING", "ts": "TIMESTAMP", **types, "query_source": "STRING"}
        spark.sql(
            f"CREATE TABLE {target.name} ({_column_list(all_types)}) USING parquet"
            f" PARTITIONED BY (ds STRING) TBLPROPERTIES ({literal(_JOIN_PROPERTY)} = {literal(join)})"
        ).collect()
        return
    existing = {f["name"]: f["type"] for f in target.read().schema.jsonValue()["fields"]}
    wider = {
        n: join
        for n, join in columns.all.items()
        if n in existing and type_sql(join) != type_sql(existing[n])
    }
    if wider:
        widen(spark, target.name, wider, "ds")
    new = {name: kind for name, kind in types.items() if name not in existing}
    if new:
        spark.sql(f"ALTER TABLE {target.name} ADD COLUMNS ({_column_list(new)})").collect()


def _column_list(types: Mapping[str, str]) -> str:
    return ", ".join(f"{quote(name)} {kind}" for name, kind in types.items())


def _set_properties(spark: SparkSession, name: str, properties: Mapping[str, str]) -> None:
    assignments = ", ".join(f"{literal(k)} = {literal(v)}" for k, v in properties.items())
    spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ({assignments})").collect()


def _unset_properties(spark: SparkSession, name: str, properties: Iterable[str]) -> None:
    keys = ", ".join(map(literal, properties))
    spark.sql(f"ALTER TABLE {name} UNSET TBLPROPERTIES IF EXISTS ({keys})").collect()


@dataclass(frozen=True)
class Compacted:
    """Result of compacting a query log.

    Attributes
    ----------
    table : str
        The query log.
    partitions : tuple of str
        Names of the partitions whose files were joined, or would be joined in a dry run.
    before, after : int
        Number of files before and after the compaction.
    dry_run : bool
        Whether the files were only counted.
    """

    table: str
    partitions: tuple[str, ...]
    before: int
    after: int
    dry_run: bool = False

    def __str__(self) -> str:
        """Return a one-line summary."""
        did = "would join" if self.dry_run else "joined"
        partitions = plural(len(self.partitions), "partition")
        return f"{self.table}: {did} {self.before:,} files of {partitions} into {self.after:,}"


def compact(
    spark: SparkSession,
    namespace: str,
    repository: Recorder,
    now: datetime | None = None,
    *,
    dry_run: bool = False,
) -> Compacted:
    """Join the small files of past days of a query log; see `tidegauge.consistency.compact`."""
    table = log_table(spark, namespace)
    sync_log_table(spark, namespace)
    today = (now or datetime.now(UTC)).astimezone(UTC).date().isoformat()
    names = {
        (entry.partition.value("ds"), entry.partition.value("join_name"))
        for entry in open_table(spark, table).list_partitions()
    }
    past = sorted((join, ds) for ds, join in names if ds < today)
    system, root = file_system(describe_table(spark, table).location)
    done: list[str] = []
    files_before = files_after = 0
    for join in dict.fromkeys(join for join, _ in past):
        folders = {ds: partition_folder(root, ds, join) for name, ds in past if name == join}
        groups_by_day = {
            ds: groups for ds, folder in folders.items() if (groups := joinable(system, folder))
        }
        files_before += sum(len(group) for groups in groups_by_day.values() for group in groups)
        files_after += sum(map(len, groups_by_day.values()))
        done += [f"ds={ds}/join_name={join}" for ds in groups_by_day]
        if dry_run or not groups_by_day:
            continue
        with repository.store.hold(f"consistency of {namespace}.{join}", WAIT_SECONDS):
            _compact_join(spark, namespace, join, system, {ds: folders[ds] for ds in groups_by_day})
    return Compacted(table, tuple(done), files_before, files_after, dry_run)


def _compact_join(
    spark: SparkSession, namespace: str, join: str, system: fs.FileSystem, folders: dict[str, str]
) -> None:
    """Join the files of some days. Days to which no file was added in the meantime count as unchanged."""
    for folder in folders.values():
        finish(system, folder)
    first, prints = _read_state(spark, namespace, join, system, folders)
    expected = {}
    for ds, folder in folders.items():
        groups = joinable(system, folder)
        joined = {group: join_files(system, folder, group) for group in groups}
        done = {name: group for group, name in joined.items() if name is not None}
        replaced = {name for group in done.values() for name in group}
        expected[ds] = (first[ds] - replaced) | done.keys()
    last, now = _read_state(spark, namespace, join, system, folders)
    same = {
        ds: (fingerprint, new_fingerprint)
        for ds, names in expected.items()
        if (fingerprint := prints.get(ds))
        and (new_fingerprint := now.get(ds))
        and last[ds] == names
    }
    remember_compaction(spark, namespace, join, same)


def _read_state(
    spark: SparkSession, namespace: str, join: str, system: fs.FileSystem, folders: dict[str, str]
) -> tuple[dict[str, frozenset[str]], dict[str, str | None]]:
    """Return the files of each day, and the fingerprints of days whose files did not change in the meantime."""
    files_before = {ds: frozenset(sizes(system, folder)) for ds, folder in folders.items()}
    prints = {
        entry.partition.value("ds"): entry.fingerprint
        for entry in open_table(spark, log_table(spark, namespace)).list_partitions()
        if entry.partition.value("join_name") == join
    }
    files_after = {ds: frozenset(sizes(system, folder)) for ds, folder in folders.items()}
    return files_before, {
        ds: prints.get(ds) for ds in folders if files_before[ds] == files_after[ds]
    }
