"""Flattening of the query log into a table with one column per key and feature, by day.

Compaction joins the many small files that clients write in a folder of the log to few, so that a
killed process loses nothing. It keeps the fingerprints of a day from before, so the day is not
flattened again.
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
    BUCKETS,
    JOIN,
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


MEGABYTES = 128
"""Size up to which files are joined."""
ROWS = 200_000
"""Rows that are held in memory, and written as one row group."""
_OURS = re.compile(r"\d+-[0-9a-f]{32}\.parquet")
"""Names of files that clients and compactions write; those of Spark are left alone."""
_REPLACES = ".replaces"
"""End of the hidden file beside a joined one that lists the files which it replaces."""


def sizes(system: fs.FileSystem, folder: str, *, hidden: bool = False) -> dict[str, int]:
    """Return the sizes of a folder's files by name, in order of names."""
    from pyarrow import fs

    found = system.get_file_info(fs.FileSelector(folder, allow_not_found=True))
    return {
        one.base_name: one.size
        for one in sorted(found, key=lambda one: str(one.base_name))
        if one.type == fs.FileType.File and one.base_name.startswith(".") == hidden
    }


def joinable(
    system: fs.FileSystem, folder: str, largest: int = MEGABYTES << 20
) -> list[tuple[str, ...]]:
    """Return groups of two or more files that clients wrote, in order of time, to be joined to one each."""
    groups: list[list[str]] = [[]]
    held = 0
    for name, size in sizes(system, folder).items():
        if not _OURS.fullmatch(name) or 2 * size > largest:
            continue
        if held + size > largest:
            groups.append([])
            held = 0
        groups[-1].append(name)
        held += size
    return [tuple(group) for group in groups if len(group) > 1]


def join_files(system: fs.FileSystem, folder: str, names: Sequence[str]) -> str | None:
    """Join files to one, and return its name; None if another process took it for one that was killed.

    What is written first is hidden, and so is the list of the files that it replaces. A process that
    is killed leaves either these, or the joined file beside some of the others and the list:
    `finish` removes what is too much.
    """
    from pyarrow import parquet

    millis = names[0].partition("-")[0]
    name = f"{millis}-{uuid.uuid4().hex}.parquet"
    waiting = f"{folder}/.{name}.tmp"
    tables = (parquet.read_table(f"{folder}/{one}", filesystem=system) for one in names)
    schema = parquet.read_schema(f"{folder}/{names[0]}", filesystem=system)
    with parquet.ParquetWriter(waiting, schema, filesystem=system, compression="zstd") as writer:
        for table in _batches(tables):
            writer.write_table(table)
    with system.open_output_stream(f"{folder}/.{name}{_REPLACES}") as stream:
        stream.write(json.dumps(list(names)).encode())
    try:
        system.move(waiting, f"{folder}/{name}")
    except FileNotFoundError:  # `finish` of another process has deleted it
        return None
    _delete(system, folder, [*names, f".{name}{_REPLACES}"])
    return name


def _batches(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Yield tables of about `ROWS` rows."""
    import pyarrow as pa

    held: list[pa.Table] = []
    for table in tables:
        held.append(table)
        if sum(one.num_rows for one in held) >= ROWS:
            yield pa.concat_tables(held)
            held = []
    if held:
        yield pa.concat_tables(held)


def finish(system: fs.FileSystem, folder: str) -> bool:
    """Finish what a killed compaction left in a folder; return whether there was anything.

    Files that a joined one replaces are removed only if that is there. One that is not yet there
    never will be: the hidden file is deleted first, of which it would be made.
    """
    hidden = sizes(system, folder, hidden=True)
    lists = [name for name in hidden if name.endswith(_REPLACES)]
    for listed in lists:
        joined = listed.removeprefix(".").removesuffix(_REPLACES)
        _delete(system, folder, hidden.keys() & {f".{joined}.tmp"})
        visible = sizes(system, folder)
        if joined in visible:
            with suppress(FileNotFoundError):  # another process finishes the same
                with system.open_input_stream(f"{folder}/{listed}") as stream:
                    replaced = json.loads(stream.read())
                _delete(system, folder, visible.keys() & set(replaced))
        _delete(system, folder, [listed])
    return bool(lists)


def _delete(system: fs.FileSystem, folder: str, names: Iterable[str]) -> None:
    for name in names:
        with suppress(FileNotFoundError):  # another process finishes the same
            system.delete_file(f"{folder}/{name}")


_OF, _SEEN, _COUNTS = "tidegauge.logged", "tidegauge.logs.", "tidegauge.counts."
"""Table properties: the join it belongs to; the log fingerprint and the counts of each day."""
_COMPACTED = "tidegauge.compacted."
"""Of each compacted day: the log's fingerprint after it, a space, and that from before."""
_SCHEMA_PROBLEMS = {"unknown schema", "no schema"}
_SAMPLES = 5


@dataclass(frozen=True)
class Flattened:
    """Result of flattening.

    Attributes
    ----------
    table : str
        The full name, quoted.
    columns : Columns
        The table's columns: keys, payload and features.
    days : tuple of DayCounts
        Days written in this run, with counts of decoded and bad queries.
    unchanged : tuple of str
        Days whose logs are unchanged.
    samples : tuple of BadRecord
        Samples of bad records, at most five for each day and reason.
    counted : tuple of DayCounts
        The counts of all days, those of earlier runs among them.
    logged_percent : float
        The smallest percentage of keys that a client was told to log, of all known schemas.
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
        told = f"{self.table}: {plural(len(self.days), 'day')}, {plural(sum(d.read for d in self.days), 'query', 'queries')}"
        return f"{told}, {bad} not decodable"


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

    New days are written, and days whose log files changed because queries came late are replaced as
    a whole. So are days with queries of unknown schemas, once other schemas are known. The table
    has the columns schema_hash, ts, keys, payload, features, query_source, ds; new features append
    columns, and removed ones stay. A query without a response has null for every feature.

    Parameters
    ----------
    spark : SparkSession
    namespace : str
        Namespace of the query log and of the new table.
    join : str
        The name of a join or group-by.
    until : str
        The last day, as ``2023-01-05``.
    since : str, optional
        The first day; by default the first of the log.
    keys : sequence of str, optional
        Fields of the key that identify an entity; the rest is payload. All by default.
    schemas : iterable of LogSchema, optional
        Schema versions, earliest first; by default those stored beside the log.
    type : str
        ``join`` or ``groupBy``. Queries without a type are of a join.
    sample_percent : float
        Percentage of keys to sample: all queries of a sampled key are written, of others none. All
        are counted.
    encoding : str, optional
        As for `decode`.

    Returns
    -------
    Flattened

    Raises
    ------
    NoSuchTableError
        If there is no query log.
    SuiteError
        If a feature has different types in two versions that occur, naming both, other than
        numbers that Avro promotes, or a key is in no schema.
    SourceError
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
        known = read_schemas(spark, namespace).of_join(join)
    else:
        known = [schema for schema in LogSchemas(schemas) if schema.join == join]
    finish_widening(spark, name)
    there = _properties(spark, name, f"{type} {join}")
    before = _columns_there(spark, name) if there else None
    if schemas is None and len(known) > 1:
        # A version beside the log matters where queries refer to it: one of later days adds no column.
        known = _occurring(spark, logs, join, since, until, known) or known
    columns = merged(known, keys, before)
    sample_by = sorted(columns.keys) if threshold(sample_percent) < BUCKETS else []
    asked = [type, encoding, threshold(sample_percent), sample_by]
    marks = _Marks(canonical_json(asked), canonical_json([schema.hash for schema in known]))
    listed = _logged_days(spark, logs, join, there)
    days = sorted(ds for ds in listed if (since is None or since <= ds) and ds <= until)
    unchanged = [ds for ds in days if marks.fit(listed[ds], there.get(_SEEN + ds))]
    todo = [ds for ds in days if ds not in unchanged]
    if todo and _finish_compactions(spark, logs, join, todo):
        listed = _logged_days(spark, logs, join, there)
    target, logged = TableTarget(spark, name), _logged_percent(known)
    _make(spark, target, columns, f"{type} {join}")
    earlier = [DayCounts.from_json(ds, there.get(_COUNTS + ds)) for ds in unchanged]
    counted = [day for day in earlier if day is not None]
    if not todo:
        return Flattened(name, columns, (), tuple(unchanged), (), tuple(counted), logged)
    rows = _logged_rows(spark, logs, join, type, todo)
    decoded = decode(rows, known, columns, encoding).persist()
    try:
        kept = sample(decoded.data, sample_by, sample_percent) if sample_by else decoded.data
        written = _counts_of(decoded, todo)
        holds = [tuple(row) for row in kept.select("ds").distinct().collect()]
        # Clear the marks first: a run killed while writing leaves days in an unknown state.
        _forget(spark, name, [_SEEN + ds for ds in todo])
        replace(target, kept, "partitions", ["ds"], holds, [(ds,) for ds in todo])
        samples = decoded.sample_bad(_SAMPLES) if any(day.bad for day in written) else []
    finally:
        decoded.unpersist()
    now = _logged_days(spark, logs, join, there)  # a day that changed meanwhile is flattened again
    same = {ds for ds in todo if ds in now and now[ds].fingerprint == listed[ds].fingerprint}
    seen = {_SEEN + day.ds: marks.of(listed[day.ds], day) for day in written if day.ds in same}
    counts_of = {_COUNTS + day.ds: day.to_json() for day in written if day.ds}
    _set_properties(spark, name, seen | counts_of)
    counted = sorted((*counted, *written), key=lambda day: day.ds or "")
    return Flattened(
        name, columns, tuple(written), tuple(unchanged), tuple(samples), tuple(counted), logged
    )


def _logged_percent(schemas: Iterable[LogSchema]) -> float:
    return min((schema.sample_percent for schema in schemas), default=100.0)


def _counts_of(decoded: Decoded, days: Iterable[str]) -> list[DayCounts]:
    """Return the counts of days; zeros for those without queries."""
    found = {day.ds: day for day in decoded.days()}
    return [found.get(ds, DayCounts(ds)) for ds in days]


def _logged_rows(
    spark: SparkSession,
    logs: str,
    join: str,
    type: str,  # noqa: A002 - the column's name
    days: Iterable[str],
) -> DataFrame:
    """Return the queries of a join on some days, without those of a group-by of its name."""
    rows = filter_partitions(spark.table(logs), ("ds", "join_name"), [(ds, join) for ds in days])
    if "type" in rows.columns:
        rows = rows.where(f"coalesce(type, {literal(JOIN)}) = {literal(type)}")
    return rows


def _logged_days(
    spark: SparkSession, logs: str, join: str, properties: Mapping[str, str]
) -> dict[str, ListedPartition]:
    """Return a join's partitions of the log by day; compacted ones have the fingerprint from before."""
    found = {}
    for one in open_table(spark, logs).list_partitions():
        ds = one.partition.value("ds")
        if one.partition.value("join_name") == join:
            before = _before_compaction(properties, ds, one.fingerprint)
            found[ds] = dataclasses.replace(one, fingerprint=before)
    return found


def _before_compaction(
    properties: Mapping[str, str], ds: str, fingerprint: str | None
) -> str | None:
    after, _, before = properties.get(_COMPACTED + ds, "").partition(" ")
    return before if after and after == fingerprint else fingerprint


def remember_compaction(
    spark: SparkSession, namespace: str, join: str, days: Mapping[str, tuple[str, str]]
) -> None:
    """Keep the fingerprints of days from before and after a compaction, which changed no query.

    Days are not flattened again because of it. No-op if nothing was flattened yet.
    """
    name = join_table(namespace, join, "logged")
    if not days or not spark.catalog.tableExists(name):
        return
    there: dict[str, str] = dict(spark.sql(f"SHOW TBLPROPERTIES {name}").collect())
    found = {
        _COMPACTED + ds: f"{after} {_before_compaction(there, ds, before)}"
        for ds, (before, after) in days.items()
    }
    _set_properties(spark, name, found)


def _finish_compactions(spark: SparkSession, logs: str, join: str, days: Iterable[str]) -> bool:
    """Finish what killed compactions left in some days; return whether there was anything."""
    system, root = file_system(describe_table(spark, logs).location)
    folders = [partition_folder(root, ds, join) for ds in days]
    return sum(finish(system, folder) for folder in folders) > 0  # of all: ``any`` would stop


def _occurring(
    spark: SparkSession,
    logs: str,
    join: str,
    since: str | None,
    until: str,
    known: Sequence[LogSchema],
) -> list[LogSchema]:
    """Return the schemas that queries of the given days refer to."""
    chosen = [f"join_name = {literal(join)}", f"ds <= {literal(until)}"]
    chosen += [] if since is None else [f"ds >= {literal(since)}"]
    rows = spark.table(logs).where(" AND ".join(chosen)).select("schema_hash").distinct()
    hashes = {row[0] for row in rows.collect()}
    return [schema for schema in known if schema.hash in hashes]


@dataclass(frozen=True)
class _Marks:
    """Fingerprints of a day, to decide whether to flatten it again."""

    asked: str
    schemas: str

    def of(self, listed: ListedPartition, day: DayCounts) -> str:
        mark = self._mark(listed)
        return f"{mark}/{self._with()}" if _SCHEMA_PROBLEMS & day.bad.keys() else mark

    def fit(self, listed: ListedPartition, kept: str | None) -> bool:
        mark = self._mark(listed)
        return kept in {mark, f"{mark}/{self._with()}"}

    def _mark(self, listed: ListedPartition) -> str:
        return _digest(f"{listed.fingerprint} {self.asked}")

    def _with(self) -> str:
        return _digest(self.schemas)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def _properties(spark: SparkSession, name: str, of: str) -> dict[str, str]:
    """Return the flattened table's properties; empty if it does not exist.

    Raises
    ------
    SourceError
        If the table exists and belongs to something else.
    """
    if not spark.catalog.tableExists(name):
        return {}
    found: dict[str, str] = dict(spark.sql(f"SHOW TBLPROPERTIES {name}").collect())
    if found.get(_OF) != of:
        whose = f"is that of {found[_OF]!r}" if _OF in found else "was not made of a query log"
        raise SourceError(f"{name} {whose}, so {of!r} cannot be flattened into it; rename one")
    return found


def _columns_there(spark: SparkSession, name: str) -> dict[str, Any]:
    fields: list[dict[str, Any]] = spark.table(name).schema.jsonValue()["fields"]
    return {f["name"]: f["type"] for f in fields if f["name"] not in OWN_COLUMNS}


def _make(spark: SparkSession, target: TableTarget, columns: Columns, of: str) -> None:
    """Create the table, or append new columns and widen those of numbers."""
    types = {name: type_sql(kind) for name, kind in columns.all.items()}
    if not target.exists():
        every = {"schema_hash": "STRING", "ts": "TIMESTAMP", **types, "query_source": "STRING"}
        spark.sql(
            f"CREATE TABLE {target.name} ({_listed(every)}) USING parquet"
            f" PARTITIONED BY (ds STRING) TBLPROPERTIES ({literal(_OF)} = {literal(of)})"
        ).collect()
        return
    there = {f["name"]: f["type"] for f in target.read().schema.jsonValue()["fields"]}
    wider = {
        n: of for n, of in columns.all.items() if n in there and type_sql(of) != type_sql(there[n])
    }
    if wider:
        widen(spark, target.name, wider, "ds")
    new = {name: kind for name, kind in types.items() if name not in there}
    if new:
        spark.sql(f"ALTER TABLE {target.name} ADD COLUMNS ({_listed(new)})").collect()


def _listed(types: Mapping[str, str]) -> str:
    return ", ".join(f"{quote(name)} {kind}" for name, kind in types.items())


def _set_properties(spark: SparkSession, name: str, properties: Mapping[str, str]) -> None:
    told = ", ".join(f"{literal(k)} = {literal(v)}" for k, v in properties.items())
    spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ({told})").collect()


def _forget(spark: SparkSession, name: str, properties: Iterable[str]) -> None:
    keys = ", ".join(map(literal, properties))
    spark.sql(f"ALTER TABLE {name} UNSET TBLPROPERTIES IF EXISTS ({keys})").collect()


@dataclass(frozen=True)
class Compacted:
    """Result of compacting a query log.

    Attributes
    ----------
    table : str
    partitions : tuple of str
        Names of the partitions whose files were joined; in a dry run of those that would be.
    before, after : int
        Number of their files.
    dry_run : bool
    """

    table: str
    partitions: tuple[str, ...]
    before: int
    after: int
    dry_run: bool = False

    def __str__(self) -> str:
        """Return a one-line summary."""
        did = "would join" if self.dry_run else "joined"
        of = plural(len(self.partitions), "partition")
        return f"{self.table}: {did} {self.before:,} files of {of} into {self.after:,}"


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
        (one.partition.value("ds"), one.partition.value("join_name"))
        for one in open_table(spark, table).list_partitions()
    }
    past = sorted((join, ds) for ds, join in names if ds < today)
    system, root = file_system(describe_table(spark, table).location)
    done: list[str] = []
    before = after = 0
    for join in dict.fromkeys(join for join, _ in past):
        folders = {ds: partition_folder(root, ds, join) for of, ds in past if of == join}
        wanted = {ds: groups for ds, of in folders.items() if (groups := joinable(system, of))}
        before += sum(len(group) for groups in wanted.values() for group in groups)
        after += sum(map(len, wanted.values()))
        done += [f"ds={ds}/join_name={join}" for ds in wanted]
        if dry_run or not wanted:
            continue
        with repository.store.hold(f"consistency of {namespace}.{join}", WAIT_SECONDS):
            _compact_join(spark, namespace, join, system, {ds: folders[ds] for ds in wanted})
    return Compacted(table, tuple(done), before, after, dry_run)


def _compact_join(
    spark: SparkSession, namespace: str, join: str, system: fs.FileSystem, folders: dict[str, str]
) -> None:
    """Join the files of some days; days to which nothing was added meanwhile count as unchanged."""
    for folder in folders.values():
        finish(system, folder)
    first, prints = _state(spark, namespace, join, system, folders)
    expected = {}
    for ds, folder in folders.items():
        groups = joinable(system, folder)
        joined = {group: join_files(system, folder, group) for group in groups}
        done = {name: group for group, name in joined.items() if name is not None}
        replaced = {name for group in done.values() for name in group}
        expected[ds] = (first[ds] - replaced) | done.keys()
    last, now = _state(spark, namespace, join, system, folders)
    same = {
        ds: (one, other)
        for ds, names in expected.items()
        if (one := prints.get(ds)) and (other := now.get(ds)) and last[ds] == names
    }
    remember_compaction(spark, namespace, join, same)


def _state(
    spark: SparkSession, namespace: str, join: str, system: fs.FileSystem, folders: dict[str, str]
) -> tuple[dict[str, frozenset[str]], dict[str, str | None]]:
    """Return the files of each day, and the fingerprints of days whose files stayed so meanwhile."""
    before = {ds: frozenset(sizes(system, folder)) for ds, folder in folders.items()}
    prints = {
        one.partition.value("ds"): one.fingerprint
        for one in open_table(spark, log_table(spark, namespace)).list_partitions()
        if one.partition.value("join_name") == join
    }
    after = {ds: frozenset(sizes(system, folder)) for ds, folder in folders.items()}
    return before, {ds: prints.get(ds) for ds in folders if before[ds] == after[ds]}
