"""Retention of the query log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

from tidegauge.analyzers.core.errors import SourceError
from tidegauge.analyzers.core.filesystems import file_system
from tidegauge.analyzers.core.partitions import Partition
from tidegauge.analyzers.sources.sources import describe_table, partition_sql
from tidegauge.consistency.log.table import DEFAULT_RETENTION, RETENTION, log_table, sync_log_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
    """

    table: str
    retention: int
    dropped: tuple[str, ...]
    kept: int
    unknown: tuple[str, ...]
    dry_run: bool

    def __str__(self) -> str:
        """Return a one-line summary."""
        did = "would drop" if self.dry_run else "dropped"
        told = (
            f"{self.table}: {did} {len(self.dropped)} partitions older than {self.retention} days"
        )
        return f"{told}, kept {self.kept}"


def clean(
    spark: SparkSession, namespace: str, now: datetime | None = None, *, dry_run: bool = False
) -> CleanedLog:
    """Drop partitions of a namespace's query log, and their files, that exceed the retention.

    The table property ``retention`` is the number of days, 90 if it is not set. A day exactly that
    old is kept. No other table is touched: flattened tables stay.

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
    """
    table = log_table(spark, namespace)
    properties: dict[str, str] = dict(spark.sql(f"SHOW TBLPROPERTIES {table}").collect())
    days = retention_of(properties, table)
    today = (now or datetime.now(UTC)).astimezone(UTC).date()
    sync_log_table(spark, namespace)
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


def retention_of(properties: Mapping[str, str], table: str) -> int:
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
    text = properties.get(RETENTION, str(DEFAULT_RETENTION))
    if not (text.strip().isascii() and text.strip().isdigit()) or len(text.strip()) > 6:
        raise SourceError(f"property {RETENTION!r} of {table} is a number of days, not {text!r}")
    return int(text)


def _day(partition: Partition) -> date | None:
    try:
        return date.fromisoformat(partition.value("ds"))
    except ValueError:
        return None


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
