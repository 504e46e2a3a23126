"""Retention of the query log, and of the tables that are made of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

from tidegauge.analyzers.core.errors import SourceError
from tidegauge.analyzers.core.filesystems import file_system
from tidegauge.analyzers.core.partitions import Partition
from tidegauge.analyzers.sources.hive_table import describe_table, partition_sql
from tidegauge.consistency.log.query import is_day
from tidegauge.consistency.log.table import (
    DEFAULT_RETENTION,
    RETENTION,
    log_table,
    sync_log_table,
    table_of,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DERIVED = ("_logged", "_comparison", "_consistency_metrics")
"""Ends of the names of tables that are made of a query log."""
OF_DERIVED = "tidegauge.retention"
"""Their property; other tools have a ``retention`` of their own meaning."""


@dataclass(frozen=True)
class CleanedLog:
    """Result of dropping old partitions of a query log.

    Attributes
    ----------
    table : str
    retention : int
        Retention in days.
    dropped : tuple of str
        Names of dropped partitions; in a dry run of those that would be dropped.
    kept : int
        Number of partitions kept.
    unknown : tuple of str
        Partitions whose ``ds`` is not a day. They are always kept.
    dry_run : bool
    derived : tuple of CleanedLog
        The same of tables made of the log that have a retention of their own.
    """

    table: str
    retention: int
    dropped: tuple[str, ...]
    kept: int
    unknown: tuple[str, ...]
    dry_run: bool
    derived: tuple[CleanedLog, ...] = ()

    def __str__(self) -> str:
        """Return a one-line summary."""
        did = "would drop" if self.dry_run else "dropped"
        told = (
            f"{self.table}: {did} {len(self.dropped)} partitions older than {self.retention} days"
        )
        return "\n".join([f"{told}, kept {self.kept}", *map(str, self.derived)])


def clean(
    spark: SparkSession, namespace: str, now: datetime | None = None, *, dry_run: bool = False
) -> CleanedLog:
    """Drop partitions of a namespace's query log, and their files, that exceed the retention.

    The table property ``retention`` is the number of days, 90 if it is not set. A day exactly that
    old is kept. Tables of logged rows, compared rows and metrics that were made of the log are kept
    whole, unless their property ``tidegauge.retention`` is such a number.

    Parameters
    ----------
    spark : SparkSession
    namespace : str
    now : datetime, optional
        Reference time, whose UTC day counts; now by default.
    dry_run : bool
        Report what would be dropped, without dropping it.

    Raises
    ------
    NoSuchTableError
        If there is no query log.
    SourceError
        If the property is not a number of days.

    Examples
    --------
    >>> import tidegauge as tg
    >>> from tidegauge.demo.features import log_search
    >>> spark = tg.spark_session()  # doctest: +SKIP
    >>> log_search(spark, "shop")  # doctest: +SKIP
    >>> found = tg.consistency.clean(spark, "shop", datetime(2023, 4, 6, tzinfo=UTC))  # doctest: +SKIP
    >>> found.retention, found.dropped, found.kept  # doctest: +SKIP
    (90, ('ds=2023-01-05/join_name=search',), 0)
    """
    table = log_table(spark, namespace)
    today = (now or datetime.now(UTC)).astimezone(UTC).date()
    sync_log_table(spark, namespace)
    log = _cleaned(spark, table, retention_of(_properties(spark, table), table), today, dry_run)
    there = spark.sql(f"SHOW TABLES IN {table.rpartition('.')[0]}").collect()
    names = sorted(row.tableName for row in there if not row.isTemporary)
    made = {
        one: _properties(spark, one)
        for one in (table_of(namespace, name) for name in names if name.endswith(DERIVED))
    }
    derived = tuple(
        _cleaned(spark, one, retention_of(of, one, OF_DERIVED), today, dry_run)
        for one, of in made.items()
        if OF_DERIVED in of
    )
    return replace(log, derived=derived)


def _properties(spark: SparkSession, table: str) -> dict[str, str]:
    return dict(spark.sql(f"SHOW TBLPROPERTIES {table}").collect())


def _cleaned(
    spark: SparkSession,
    table: str,
    days: int,
    today: date,
    dry_run: bool,  # noqa: FBT001
) -> CleanedLog:
    dropped, unknown, kept = [], [], 0
    for row in spark.sql(f"SHOW PARTITIONS {table}").collect():
        partition = Partition.from_path(row[0])
        day = _day(partition)
        if day is None:
            unknown.append(partition.name)
        elif today - day > timedelta(days=days):
            dropped.append(partition)
        else:
            kept += 1
    for partition in () if dry_run else dropped:
        _drop(spark, table, partition)
    names = sorted(partition.name for partition in dropped)
    return CleanedLog(table, days, tuple(names), kept, tuple(sorted(unknown)), dry_run)


def retention_of(properties: Mapping[str, str], table: str, name: str = RETENTION) -> int:
    """Return the retention of a table's partitions in days.

    Raises
    ------
    SourceError
        If the property is not a whole number of days.

    Examples
    --------
    >>> retention_of({"retention": "30"}, "logs"), retention_of({}, "logs")
    (30, 90)
    >>> retention_of({"retention": "a month"}, "logs")
    Traceback (most recent call last):
    ...
    tidegauge.analyzers.core.errors.SourceError: property 'retention' of logs is a number of days, not 'a month'
    """
    text = properties.get(name, str(DEFAULT_RETENTION))
    if not (text.strip().isascii() and text.strip().isdigit()) or len(text.strip()) > 6:
        raise SourceError(f"property {name!r} of {table} is a number of days, not {text!r}")
    return int(text)


def _day(partition: Partition) -> date | None:
    ds = partition.value("ds")
    return date.fromisoformat(ds) if is_day(ds) else None


def _drop(spark: SparkSession, table: str, partition: Partition) -> None:
    """Drop a partition; for an external table, delete its files, too."""
    from pyarrow import fs

    which = partition_sql(partition)
    location = describe_table(spark, f"{table} {which}").location
    spark.sql(f"ALTER TABLE {table} DROP IF EXISTS {which}").collect()
    if spark.catalog.getTable(table).tableType != "MANAGED":
        system, path = file_system(location)
        if system.get_file_info(path).type != fs.FileType.NotFound:
            system.delete_dir(path)
