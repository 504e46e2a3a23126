"""Compaction of a query log: the many small files that clients write become few."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tidegauge.analyzers.core.filesystems import file_system
from tidegauge.analyzers.core.formatting import plural
from tidegauge.analyzers.runs.recording import WAIT_SECONDS, Recorder
from tidegauge.analyzers.sources.catalog_tables import open_table
from tidegauge.analyzers.sources.hive_table import describe_table
from tidegauge.consistency.log.flatten import remember_compaction
from tidegauge.consistency.log.joined_files import finish, join_files, joinable, sizes
from tidegauge.consistency.log.query import partition_folder
from tidegauge.consistency.log.table import log_table, sync_log_table

if TYPE_CHECKING:
    from pyarrow import fs
    from pyspark.sql import SparkSession


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
