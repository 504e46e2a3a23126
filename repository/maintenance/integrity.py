"""Integrity checks of a repository: damage by crashes, disk faults or manual edits."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING

import sqlalchemy as sa

from tidegauge.analyzers.core.errors import StateError
from tidegauge.analyzers.core.partitions import SegmentSet
from tidegauge.analyzers.core.registry import key_of
from tidegauge.analyzers.runs.ledger import AnalyzerKeys, Case, ledger_key
from tidegauge.repository.store import schema as s
from tidegauge.repository.store.batch import newest_first
from tidegauge.repository.store.database import (
    head_revision,
    read_revision,
)
from tidegauge.repository.store.engines import VERSION_TABLE
from tidegauge.repository.store.stored_states import Artifacts, Payload
from tidegauge.repository.store.verdicts import hash_of

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection


def find_problems(connection: Connection, artifacts: Artifacts) -> list[str]:
    """Return the problems that a transaction sees, one sentence each; an empty list if there are none.

    Every state is read once. Files that no state refers to are not reported: a killed run leaves
    them, and they only take up space.
    """
    return [
        *_revision(connection),
        *_integrity(connection),
        *_foreign_objects(connection),
        *_indexes(connection),
        *_whole_batches(connection),
        *_newest(connection),
        *_lifetimes(connection),
        *_orphans(connection),
        *_verdicts(connection),
        *_states(connection, artifacts),
    ]


def orphan_files(connection: Connection, artifacts: Artifacts) -> set[str]:
    """Return the artifact files that no state refers to; `Repository.clean` removes them."""
    return artifacts.files() - referenced_files(connection)


def referenced_files(connection: Connection) -> set[str]:
    """Return the artifact files that states refer to."""
    names: set[str] = set()
    for table in (s.state, s.named_state, s.folded_state):
        c = table.c.artifact
        names.update(connection.execute(sa.select(c).where(c.is_not(None))).scalars())
    return names


def _revision(connection: Connection) -> Iterator[str]:
    revision, head = read_revision(connection), head_revision()
    if revision != head:
        yield f"the database is at revision {revision}, not {head}"


def _integrity(connection: Connection) -> Iterator[str]:
    if connection.dialect.name != "sqlite":
        return
    for (line,) in connection.exec_driver_sql("PRAGMA integrity_check"):
        if line != "ok":
            yield f"SQLite integrity check: {line}"
    for table, row, parent, _ in connection.exec_driver_sql("PRAGMA foreign_key_check"):
        yield f"row {row} of {table} refers to a missing row of {parent}"


def _foreign_objects(connection: Connection) -> Iterator[str]:
    """Report triggers and tables that are not part of the schema: a foreign file may contain triggers."""
    if connection.dialect.name != "sqlite":
        return
    own_names = {*s.metadata.tables, VERSION_TABLE}
    objects = connection.exec_driver_sql(
        "SELECT type, name, tbl_name FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'"
    )
    for kind, name, table in objects:
        if kind == "trigger":
            yield (
                f"a trigger {name!r} of {table} does not belong to Tidegauge, and runs when that table"
                " is written to"
            )
        elif kind == "table" and name not in own_names:
            yield f"a table {name!r} does not belong to Tidegauge"


def _indexes(connection: Connection) -> Iterator[str]:
    inspector = sa.inspect(connection)
    for table in s.metadata.sorted_tables:
        existing = {index["name"] for index in inspector.get_indexes(table.name)}
        for index in sorted(str(index.name) for index in table.indexes):
            if index not in existing:
                yield f"the index {index} of {table.name} is missing; queries will be slow"


def _whole_batches(connection: Connection) -> Iterator[str]:
    """Check that every analyzer in the ledger has metrics, and the clock against the commits."""
    partition_version, metric = s.partition_version.c, s.metric.c
    expected = _expected_analyzers(connection)
    measured = (
        sa.select(
            metric.partition_id,
            metric.version,
            sa.func.count(sa.distinct(s.series.c.analyzer_id)).label("analyzers"),
        )
        .join_from(s.metric, s.series, s.series.c.id == metric.series_id)
        .join(s.analyzer)
        .where(s.analyzer.c.statistic_id.is_not(None))
        .group_by(metric.partition_id, metric.version)
        .subquery()
    )
    partition = s.partition.c
    query = (
        sa.select(
            partition.dataset_id,
            partition.name,
            partition_version.version,
            partition_version.analyzer_set_id,
            measured.c.analyzers,
        )
        .select_from(s.partition_version)
        .join(s.partition)
        .outerjoin(
            measured,
            (measured.c.partition_id == partition_version.partition_id)
            & (measured.c.version == partition_version.version),
        )
    )
    for dataset, name, version, set_id, measured_count in connection.execute(query):
        expected_count = expected(dataset, set_id)
        if (measured_count or 0) != expected_count:
            yield (
                f"partition {name!r} version {version} has metrics of {measured_count or 0} analyzers,"
                f" but the ledger lists {expected_count}"
            )
    last = connection.execute(sa.select(sa.func.max(s.commit.c.id))).scalar() or 0
    clock = connection.execute(sa.select(s.clock.c.commits)).scalar_one()
    if last > clock:
        yield f"the last commit is {last}, but the clock is at {clock}"


def _expected_analyzers(connection: Connection) -> Callable[[int, int], int]:
    """Return a function that counts the analyzers of a ledger entry, one for each segment."""
    sets = dict(
        connection.execute(sa.select(s.analyzer_set.c.id, s.analyzer_set.c.analyzers)).all()
    )
    segments: dict[int, list[SegmentSet]] = {}
    segment_set = s.segment_set.c
    for dataset, columns, generation, kept_values in connection.execute(
        sa.select(
            segment_set.dataset_id, segment_set["columns"], segment_set.generation, segment_set.kept
        )
    ):
        values = tuple(map(tuple, json.loads(kept_values)))
        chosen = SegmentSet(tuple(json.loads(columns)), values, generation)
        segments.setdefault(dataset, []).append(chosen)
    names_by_dataset: dict[int, dict[str, set[tuple[str, str]]]] = {}
    analyzer = s.analyzer.c
    measured = (
        sa.select(analyzer.dataset_id, analyzer.canonical)
        .where(analyzer.statistic_id.is_not(None))
        .distinct()
    )
    for dataset, canonical in connection.execute(measured):
        for chosen_set in (None, *segments.get(dataset, ())):
            names = chosen_set.names() if chosen_set else [""]
            names_by_key = names_by_dataset.setdefault(dataset, {})
            names_by_key[ledger_key(canonical, chosen_set)] = {(canonical, name) for name in names}

    @cache
    def expected(dataset: int, set_id: int) -> int:
        names_by_key = names_by_dataset.get(dataset, {})
        # Two generations may share segments, which count once; so does an unknown key.
        keys = AnalyzerKeys.from_json(sets[set_id])
        measured_names = [
            names_by_key.get(key, {(key, "")}) for key in keys.measured | keys.retries
        ]
        return len(set().union(*measured_names))

    return expected


def _newest(connection: Connection) -> Iterator[str]:
    """Check that the copy of newest metrics contains exactly the newest fact of each series."""
    metric, newest_metric, partition = s.metric.c, s.newest_metric.c, s.partition.c
    names = ("series_id", "partition_id", "version", "value", "status")
    rank = sa.func.row_number().over(partition_by=metric.series_id, order_by=newest_first())
    ranked = (
        sa.select(*(metric[c] for c in names), rank.label("place"))
        .join_from(s.metric, s.partition, partition.id == metric.partition_id)
        .where(s.holds(s.metric))
        .subquery()
    )
    facts = sa.select(*(ranked.c[c] for c in names)).where(ranked.c.place == 1)
    copies = sa.select(*(newest_metric[c] for c in names))
    for query, problem in (
        (sa.except_(facts, copies), "is missing from the newest metrics"),
        (sa.except_(copies, facts), "is in the newest metrics but has no matching fact"),
    ):
        for row in connection.execute(query):
            yield f"series {row[0]} of partition {row[1]} version {row[2]} {problem}"


def _lifetimes(connection: Connection) -> Iterator[str]:
    """Check that measured facts have the lifetime of their partition version.

    Recorded values are current until they are recorded again, and are not checked.
    """
    metric, partition_version, analyzer = s.metric.c, s.partition_version.c, s.analyzer.c
    query = (
        sa.select(metric.series_id, metric.partition_id, metric.version)
        .join_from(s.metric, s.series, s.series.c.id == metric.series_id)
        .join(s.analyzer)
        .outerjoin(
            s.partition_version,
            (partition_version.partition_id == metric.partition_id)
            & (partition_version.version == metric.version),
        )
        .where(
            analyzer.statistic_id.is_not(None),
            metric.version > 0,  # without failures that a retry replaced
            partition_version.superseded_commit_id.is_distinct_from(metric.superseded_commit_id),
        )
    )
    for row in connection.execute(query):
        yield f"series {row[0]} of partition {row[1]} version {row[2]} has a different lifetime than this version"


def _orphans(connection: Connection) -> Iterator[str]:
    """Check references from facts to dimensions, which have no foreign keys."""
    for table in (s.metric, s.newest_metric, s.score, s.rollup):
        for dimension in (s.series, s.partition, s.commit):
            column = table.c.get(f"{dimension.name}_id")
            if column is not None:
                query = (
                    sa.select(column)
                    .select_from(table)
                    .outerjoin(dimension, dimension.c.id == column)
                    .where(dimension.c.id.is_(None))
                    .distinct()
                )
                for (number,) in connection.execute(query):
                    yield f"{table.name} refers to {dimension.name} {number}, which does not exist"


def _verdicts(connection: Connection) -> Iterator[str]:
    """Check that the keys of verdicts are the hashes of their cases."""
    verdict = s.verdict.c
    columns = (verdict.name, verdict.specification, verdict.fingerprint, verdict.partition)
    query = sa.select(verdict.id, verdict.key, verdict.partition_key, *columns)
    for number, key, partition_key, *case_values in connection.execute(query):
        case = Case(*case_values)
        if (hash_of(case), key_of(case.partition)) != (key, partition_key):
            yield f"verdict {number} has a key that does not match its content"


def _states(connection: Connection, artifacts: Artifacts) -> Iterator[str]:
    tables = (
        (s.folded_state, ("fold", "statistic_id"), "the {} of statistic {}"),
        (s.named_state, ("name", "canonical"), "the state named {!r} of {}"),
        (
            s.state,
            ("statistic_id", "partition_id", "version"),
            "statistic {} of partition {} version {}",
        ),
    )
    for table, keys, description in tables:
        query = sa.select(*s.payload_of(table), *(table.c[key] for key in keys))
        for tag, payload, artifact, checksum, *row in connection.execute(query):
            try:
                artifacts.unpack(Payload(tag, payload, artifact, checksum))
            except StateError as error:
                yield f"{description.format(*row)}: {error}"
