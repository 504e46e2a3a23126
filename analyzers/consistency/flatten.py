"""Logged queries as a table with a column for each key and feature, by day, brought up to date."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from analyzers.consistency.avro_types import ddl
from analyzers.consistency.decoding import BadRecord, Day, decode
from analyzers.consistency.log_table import (
    join_table,
    log_table,
    read_schemas,
    sync_log_table,
)
from analyzers.consistency.queries import JOIN
from analyzers.consistency.sampling import BUCKETS, sample, threshold
from analyzers.consistency.schemas import OWN_COLUMNS, Columns, LogSchema, LogSchemas, merged
from analyzers.description import canonical_json
from analyzers.errors import SourceError
from analyzers.groups import only_groups
from analyzers.rules.targets import TableTarget, replace
from analyzers.sources import Listed
from analyzers.sql import literal, quote
from analyzers.tables import open_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OF, _SEEN = "tidegauge.logged", "tidegauge.logs."
"""Properties of the flattened table: of which join it is, and of which logs each day was made."""
_SCHEMA_PROBLEMS = {"unknown schema", "no schema"}
_SAMPLES = 5


@dataclass(frozen=True)
class Flattened:
    """What was flattened.

    Attributes
    ----------
    table : str
        The full name, quoted.
    columns : Columns
        Which of its columns are keys, payload and features.
    days : tuple of Day
        The days that were written now, with how many queries each has and how many could not be read.
    unchanged : tuple of str
        The days whose logs are as they were.
    samples : tuple of BadRecord
        Some of those that could not be read, at most five for each day and reason.
    """

    table: str
    columns: Columns
    days: tuple[Day, ...]
    unchanged: tuple[str, ...]
    samples: tuple[BadRecord, ...]

    def __str__(self) -> str:
        """Say it in a line."""
        bad = sum(sum(day.bad.values()) for day in self.days)
        told = f"{self.table}: {len(self.days)} days, {sum(d.read for d in self.days)} queries"
        return f"{told}, {bad} that could not be read"


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

    Days that are new are written, and days whose log files changed since they were, because queries came late:
    they are replaced as a whole. So are days with queries of unknown schemas, once other schemas are known.
    The table has the columns schema_hash, ts, keys, payload, features, query_source, ds; new features append
    columns, and those that went stay. A query without an answer has null for every feature.

    Parameters
    ----------
    spark : SparkSession
    namespace : str
        Where the query log is, and the new table will be.
    join : str
        The name of a join or group-by.
    until : str
        The last day, as ``2023-01-05``.
    since : str, optional
        The first; from the earliest that is not flattened, unless given.
    keys : sequence of str, optional
        Which fields of the key tell one thing from others; the rest is payload. All, unless given.
    schemas : iterable of LogSchema, optional
        The versions, the earliest first; those that services left beside the log, unless given.
    type : str
        ``join`` or ``groupBy``. Queries that do not say are of a join.
    sample_percent : float
        Of so many percent of the keys all queries are written, of the others none. All are counted.
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
        If a feature has two types in two versions, naming both, or no schema has one of the keys.
    SourceError
        If the table belongs to another join.
    """
    logs = log_table(spark, namespace)
    name = join_table(namespace, join, "logged")
    sync_log_table(spark, namespace)
    if schemas is None:
        known = read_schemas(spark, namespace).of_join(join)
    else:
        known = [schema for schema in LogSchemas(schemas) if schema.join == join]
    there = _properties(spark, name, f"{type} {join}")
    columns = merged(known, keys, _columns_there(spark, name) if there else None)
    sample_by = sorted(columns.keys) if threshold(sample_percent) < BUCKETS else []
    asked = [type, encoding, threshold(sample_percent), sample_by]
    marks = _Marks(canonical_json(asked), canonical_json([schema.hash for schema in known]))
    listed = {
        one.partition.value("ds"): one
        for one in open_table(spark, logs).list_partitions()
        if one.partition.value("join_name") == join
    }
    days = sorted(ds for ds in listed if (since is None or since <= ds) and ds <= until)
    unchanged = [ds for ds in days if marks.fit(listed[ds], there.get(_SEEN + ds))]
    todo = [ds for ds in days if ds not in unchanged]
    target = TableTarget(spark, name)
    _make(spark, target, columns, f"{type} {join}")
    if not todo:
        return Flattened(name, columns, (), tuple(unchanged), ())
    partitions = [(ds, join) for ds in todo]
    rows = only_groups(spark.table(logs), ("ds", "join_name"), partitions)
    if "type" in rows.columns:
        rows = rows.where(f"coalesce(type, {literal(JOIN)}) = {literal(type)}")
    decoded = decode(rows, known, columns, encoding).persist()
    try:
        kept = sample(decoded.data, sample_by, sample_percent) if sample_by else decoded.data
        counts = {day.ds: day for day in decoded.days()}
        written = [counts.get(ds, Day(ds)) for ds in todo]
        holds = [tuple(row) for row in kept.select("ds").distinct().collect()]
        # A run that is killed while it writes leaves days of which nobody knows what they are.
        _forget(spark, name, [_SEEN + ds for ds in todo])
        replace(target, kept, "partitions", ["ds"], holds, [(ds,) for ds in todo])
        samples = decoded.sample_bad(_SAMPLES) if any(day.bad for day in written) else []
    finally:
        decoded.unpersist()
    seen = {_SEEN + day.ds: marks.of(listed[day.ds], day) for day in written if day.ds}
    _set_properties(spark, name, seen)
    return Flattened(name, columns, tuple(written), tuple(unchanged), tuple(samples))


@dataclass(frozen=True)
class _Marks:
    """What is kept of a day, to see whether it has to be flattened again."""

    asked: str
    schemas: str

    def of(self, listed: Listed, day: Day) -> str:
        mark = self._mark(listed)
        return f"{mark}/{self._with()}" if _SCHEMA_PROBLEMS & day.bad.keys() else mark

    def fit(self, listed: Listed, kept: str | None) -> bool:
        mark = self._mark(listed)
        return kept in {mark, f"{mark}/{self._with()}"}

    def _mark(self, listed: Listed) -> str:
        return _digest(f"{listed.fingerprint} {self.asked}")

    def _with(self) -> str:
        return _digest(self.schemas)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def _properties(spark: SparkSession, name: str, of: str) -> dict[str, str]:
    """Return a flattened table's properties; none if it is not there.

    Raises
    ------
    SourceError
        If it is there and belongs to something else.
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
    """Create the table, or append the columns that are new."""
    types = {name: ddl(kind) for name, kind in columns.all.items()}
    if not target.exists():
        every = {"schema_hash": "STRING", "ts": "TIMESTAMP", **types, "query_source": "STRING"}
        spark.sql(
            f"CREATE TABLE {target.name} ({_listed(every)}) USING parquet"
            f" PARTITIONED BY (ds STRING) TBLPROPERTIES ({literal(_OF)} = {literal(of)})"
        ).collect()
        return
    there = set(target.read().columns)
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
