"""How long logged queries are kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

from analyzers.consistency.log_table import (
    DEFAULT_RETENTION,
    RETENTION,
    log_table,
    sync_log_table,
)
from analyzers.errors import SourceError
from analyzers.files import file_system
from analyzers.partitions import Partition
from analyzers.sources import describe_table, partition_sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Cleaned:
    """What became of the partitions of a query log.

    Attributes
    ----------
    table : str
    retention : int
        Days.
    dropped : tuple of str
        The partitions that were older, by name; of a dry run those that would be dropped.
    kept : int
        How many others there are.
    unknown : tuple of str
        Those whose ``ds`` is no day. They are kept, whatever they are.
    dry_run : bool
    """

    table: str
    retention: int
    dropped: tuple[str, ...]
    kept: int
    unknown: tuple[str, ...]
    dry_run: bool

    def __str__(self) -> str:
        """Say it in a line."""
        did = "would drop" if self.dry_run else "dropped"
        told = (
            f"{self.table}: {did} {len(self.dropped)} partitions older than {self.retention} days"
        )
        return f"{told}, kept {self.kept}"


def clean(
    spark: SparkSession, namespace: str, now: datetime | None = None, *, dry_run: bool = False
) -> Cleaned:
    """Drop the partitions of a namespace's query log, and their files, that are older than it keeps them.

    The table's property ``retention`` says how many days that is; 90 if it has none. A day that is as old as
    that is kept. No other table is touched: what was flattened stays.

    Parameters
    ----------
    spark : SparkSession
    namespace : str
    now : datetime, optional
        Whose day in UTC counts; now, unless given.
    dry_run : bool
        Only say what would be dropped.

    Raises
    ------
    NoSuchTableError
        If there is no query log.
    SourceError
        If the property is no number of days.
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
    return Cleaned(table, days, tuple(names), kept, tuple(sorted(unknown)), dry_run)


def retention_of(properties: Mapping[str, str], table: str) -> int:
    """Return for how many days a table's partitions are kept.

    Raises
    ------
    SourceError
        If its property is no whole number of days.

    Examples
    --------
    >>> retention_of({"retention": "30"}, "logs"), retention_of({}, "logs")
    (30, 90)
    >>> retention_of({"retention": "a month"}, "logs")
    Traceback (most recent call last):
    ...
    analyzers.errors.SourceError: property 'retention' of logs is a number of days, not 'a month'
    """
    text = properties.get(RETENTION, str(DEFAULT_RETENTION))
    if not (text.strip().isascii() and text.strip().isdigit()) or len(text.strip()) > 6:  # noqa: PLR2004
        raise SourceError(f"property {RETENTION!r} of {table} is a number of days, not {text!r}")
    return int(text)


def _day(partition: Partition) -> date | None:
    try:
        return date.fromisoformat(partition.value("ds"))
    except ValueError:
        return None


def _drop(spark: SparkSession, table: str, partition: Partition) -> None:
    """Drop a partition; of a table that does not own its files, remove them, too."""
    from pyarrow import fs  # noqa: PLC0415 - heavy

    which = partition_sql(partition)
    location = str(describe_table(spark, f"{table} {which}")["location"])
    spark.sql(f"ALTER TABLE {table} DROP IF EXISTS {which}").collect()
    if spark.catalog.getTable(table).tableType != "MANAGED":
        system, path = file_system(location)
        if system.get_file_info(path).type != fs.FileType.NotFound:
            system.delete_dir(path)
