"""Tables that keep a log of their own files: Iceberg and Delta.

Their snapshots tell which files, delete files and deletion vectors make up each partition now, and no
file changes once it is written. So a partition's fingerprint is a hash of the identities of what it is
made of: whatever touches its rows changes it, and what touches others does not. Rewriting files
without changing rows (compaction) counts as a change; the measured content then turns out the same,
and nothing new is stored.

A snapshot's id would be less: Iceberg's ``last_updated_snapshot_id`` stays when a whole older file of
the partition is deleted, and is lost when snapshots expire.

Iceberg is read by its metadata tables (``entries``, ``snapshots``), Delta by replaying its log after
its protocol: the newest whole checkpoint, then the commits behind it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from typing import TYPE_CHECKING

from analyzers.errors import SourceError
from analyzers.groups import PRINTED_APART, hive_text, only_groups
from analyzers.partitions import Partition
from analyzers.segments import Values
from analyzers.sources import FrameSource, Listed, list_files
from analyzers.sql import literal, quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ICEBERG, DELTA = "iceberg", "delta"


@dataclass
class LoggedTable:
    """An Iceberg or Delta table.

    Attributes
    ----------
    spark : SparkSession
    name : str
        As the catalog spells it, its parts joined by dots.
    keys : tuple of str
    format : str
    location : str
    """

    spark: SparkSession
    name: str
    keys: tuple[str, ...]
    format: str
    location: str

    @property
    def _quoted(self) -> str:
        return ".".join(map(quote, self.name.split(".")))

    def list_partitions(self) -> list[Listed]:
        """List the partitions of the current snapshot; no file of data is opened.

        Where old files were written under another partitioning, the log does not tell which partition
        they belong to: then any change is one of all partitions, until the files are rewritten.
        """
        from pyspark.sql.functions import expr  # noqa: PLC0415 - core imports no Spark

        self.spark.catalog.refreshTable(self._quoted)  # Iceberg's catalog keeps what it once read
        if self.format == ICEBERG:
            files, apart = self._iceberg()
        else:
            files, apart = self._delta(), True
        by = [f"k{i}" for i in range(len(self.keys))] if apart else []
        rows = files.groupBy(*by).agg(
            expr(r"sha2(array_join(array_sort(collect_list(id)), '\n'), 256)"),
            expr("sum(size)"),
            expr("max(ms)"),
        )
        found = [
            Listed(
                Partition(self.keys if apart else (), tuple(row[: len(by)])),
                f"{self.format}/1:{row[-3]}",
                None if row[-1] is None else datetime.fromtimestamp(row[-1] / 1000, UTC),
                row[-2] or 0,
            )
            for row in rows.collect()
        ]
        if apart:
            return found
        (whole,) = found
        listed = FrameSource(self.read(), self.keys).list_partitions()
        return [Listed(e.partition, whole.fingerprint, whole.arrived_at) for e in listed]

    def read(self, partitions: Collection[Partition] | None = None) -> DataFrame:
        """Return the rows of some partitions."""
        data = self.spark.table(self._quoted)
        if partitions is None or not self.keys:
            return data
        return only_groups(data, self.keys, [p.values for p in partitions])

    def partition_of(self, key: Values) -> Partition | None:
        """Return the partition of these values."""
        return Partition(self.keys, key)

    def _iceberg(self) -> tuple[DataFrame, bool]:
        """Return what is live: keys, identity, size, time; and whether the keys are told of all of it."""
        table = self._quoted
        entries = self.spark.table(f"{table}.`entries`").where("status < 2")
        entries = entries.selectExpr("snapshot_id", "data_file.*", "readable_metrics AS m")
        commits = self.spark.table(f"{table}.`snapshots`")
        commits = commits.selectExpr("snapshot_id", "unix_millis(committed_at) AS ms")
        live = entries.join(commits, "snapshot_id", "left")
        keys = [f"partition.{quote(key)}" for key in self.keys]
        # Null may stand for a value that an older partitioning did not tell: the counts show it.
        odd = " OR ".join(
            f"({key} IS NULL AND NOT coalesce(content = 0 AND"
            f" m.{quote(name)}.null_value_count = record_count, false))"
            for key, name in zip(keys, self.keys, strict=True)
        )
        specs, unclear = live.selectExpr(
            "count(DISTINCT spec_id)", f"coalesce(max({odd or 'false'}), false)"
        ).collect()[0]
        files = live.selectExpr(
            *(f"{hive_text(key)} AS k{i}" for i, key in enumerate(keys)),
            "to_json(struct(content, file_path, content_offset, referenced_data_file)) AS id",
            "coalesce(content_size_in_bytes, file_size_in_bytes) AS size",
            "ms",
        )
        return files, not self.keys or (specs <= 1 and not unclear)

    def _delta(self) -> DataFrame:
        """Return what is live: keys, identity, size, time."""
        log = _delta_log(self.spark, self.location)
        at = "CAST(substr(f, 1, 20) AS BIGINT)"
        schemas = log.where("metaData IS NOT NULL")
        schema = schemas.selectExpr(f"max_by(metaData.schemaString, {at})").collect()[0][0]
        physical = {
            column["name"]: column["metadata"].get(
                "delta.columnMapping.physicalName", column["name"]
            )
            for column in json.loads(schema)["fields"]
        }
        vector = "if(add IS NULL, remove.deletionVector, add.deletionVector)"
        acts = log.where("add IS NOT NULL OR remove IS NOT NULL").selectExpr(
            f"to_json(struct(coalesce(add.path, remove.path) AS path, {vector} AS vector)) AS id",
            "add",
            f"2 * {at} + int(add IS NOT NULL) AS at",
        )
        from pyspark.sql.functions import expr  # noqa: PLC0415

        last = acts.groupBy("id").agg(expr("max_by(struct(add), at).add AS add"))
        values = [f"add.partitionValues[{literal(physical[key])}]" for key in self.keys]
        return last.where("add IS NOT NULL").selectExpr(
            *(f"{hive_text(value)} AS k{i}" for i, value in enumerate(values)),
            "id",
            "add.size AS size",
            "add.modificationTime AS ms",
        )


_VECTOR = "STRUCT<storageType: STRING, pathOrInlineDv: STRING, `offset`: INT>"
_ACTIONS = (
    "add STRUCT<path: STRING, partitionValues: MAP<STRING, STRING>, size: BIGINT,"
    f" modificationTime: BIGINT, deletionVector: {_VECTOR}>,"
    f" remove STRUCT<path: STRING, deletionVector: {_VECTOR}>,"
    " metaData STRUCT<schemaString: STRING>, sidecar STRUCT<path: STRING>"
)
_CHECKPOINT = re.compile(
    r"(\d{20})\.checkpoint(?:\.\d{10}\.(\d{10})|\.[0-9a-f-]{36})?\.(?:parquet|json)"
)
_COMMIT = re.compile(r"(\d{20})\.json")


def _delta_log(spark: SparkSession, location: str) -> DataFrame:
    """Return the actions of the newest whole checkpoint and of the commits behind it."""
    root = location.rstrip("/") + "/_delta_log"
    names = sorted(file.path for file in list_files(spark, root))
    parts: dict[tuple[int, int, str], list[str]] = {}
    for name in names:
        if match := _CHECKPOINT.fullmatch(name):
            # The parts of one checkpoint belong together; of several whole ones any will do.
            key = (int(match[1]), int(match[2] or 1), "" if match[2] else name)
            parts.setdefault(key, []).append(name)
    whole = [(version, some) for (version, n, _), some in parts.items() if len(some) == n]
    version, checkpoint = max(whole, default=(-1, []))
    commits = [n for n in names if (m := _COMMIT.fullmatch(n)) and int(m[1]) > version]
    expected = list(range(version + 1, version + 1 + len(commits)))
    if [int(name[:20]) for name in commits] != expected or not (checkpoint or commits):
        msg = f"the log of the Delta table in {location!r} is not whole: commits are missing"
        raise SourceError(msg)

    def load(some: list[str]) -> DataFrame:
        reader = spark.read.schema(_ACTIONS).format(some[0].rpartition(".")[2])
        return reader.load([f"{root}/{name}" for name in some]).selectExpr(
            "*", "_metadata.file_name AS f"
        )

    frames = [load(some) for some in (checkpoint, commits) if some]
    if checkpoint:
        asides = frames[0].where("sidecar IS NOT NULL").selectExpr("sidecar.path").collect()
        if asides:
            beside = load([f"_sidecars/{row[0]}" for row in asides]).drop("f")
            frames.append(beside.selectExpr("*", f"{literal(checkpoint[0])} AS f"))
    return reduce(lambda a, b: a.unionByName(b), frames)


def logged_table(spark: SparkSession, name: str, details: Mapping[str, str]) -> LoggedTable | None:
    """Return the table if its log tells its partitions; None if it has to be looked at row by row.

    Parameters
    ----------
    spark : SparkSession
    name : str
    details : mapping
        What the catalog says of it: ``provider``, ``location``, ``table properties``.
    """
    provider = details.get("provider", "").casefold()
    quoted = ".".join(map(quote, name.split(".")))
    if provider == ICEBERG:
        files = spark.table(f"{quoted}.`files`").schema
        partition = files["partition"].dataType if "partition" in files.names else None
        names = getattr(partition, "names", [])
        columns = spark.table(quoted).columns
        keys = tuple(key for key in names if key in columns)  # no days(), no bucket()
        return LoggedTable(spark, name, keys, ICEBERG, details.get("location", ""))
    # New commits of a table that a catalog manages are not in its log yet.
    managed = "delta.feature.catalogManaged" in details.get("table properties", "")
    if provider != DELTA or managed:
        return None
    keys = tuple(c.name for c in spark.catalog.listColumns(quoted) if c.isPartition)
    types = {f.name: f.dataType.typeName() for f in spark.table(quoted).schema.fields}
    if any(types[key] not in PRINTED_APART for key in keys):
        return None  # the log has the writer's text, which need not be Spark's
    return LoggedTable(spark, name, keys, DELTA, details.get("location", ""))
