"""Table definitions. Only Alembic (`migrations`) creates the tables.

Facts are keyed by the integer ids of dimensions. Data that can change is never overwritten: a row
is valid from its ``commit_id`` until its ``superseded_commit_id``. Commits are numbered in the
order in which they become visible, so one condition, `holds`, selects the current view or a past
view.

Facts refer to dimensions without foreign keys, whose checks would cost more than the write itself.
`tidegauge.repository.maintenance.integrity` finds dangling references.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, cast

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    ColumnElement,
    DateTime,
    Dialect,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)
from sqlalchemy.types import TypeDecorator, TypeEngine

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

VALUE_STATUSES = ("finite", "NaN", "+inf", "-inf", "failed", "empty")
"""Only a finite value is a number in SQL."""

BigInt = BigInteger().with_variant(Integer, "sqlite")
Name = Text().with_variant(Text(collation="C"), "postgresql")
"""Text with the same sort order in every database."""


class UtcDateTime(TypeDecorator[datetime]):
    """A UTC timestamp: aware in Python, with time zone in PostgreSQL, naive in SQLite."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Use the database's own type."""
        return dialect.type_descriptor(DateTime(timezone=dialect.name != "sqlite"))

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Convert an aware time to UTC for storage."""
        if value is None:
            return None
        if value.tzinfo is None:
            msg = f"Cannot store {value}: the time has no time zone"
            raise ValueError(msg)
        value = value.astimezone(UTC)
        return value.replace(tzinfo=None) if dialect.name == "sqlite" else value

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Return a stored time as aware UTC."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if dialect.name == "sqlite" else value.astimezone(UTC)


def _id() -> Column[int]:
    return Column("id", BigInt, primary_key=True)


def _ref(target: str, *, key: bool = False, null: bool = False, index: bool = False) -> Column[int]:
    name = f"{target}_id"
    return Column(
        name, BigInt, ForeignKey(f"{target}.id"), primary_key=key, nullable=null, index=index
    )


def _text(name: str, *, null: bool = False) -> Column[str]:
    return Column(name, Text, nullable=null)


def _time(name: str, *, null: bool = False) -> Column[datetime]:
    return Column(name, UtcDateTime, nullable=null)


def _number(name: str) -> Column[float]:
    return Column(name, Double, nullable=True)


def _count(name: str) -> Column[int]:
    return Column(name, BigInt, nullable=False, default=0)


def _bare(target: str, *, key: bool = False) -> Column[int]:
    """Refer to a dimension from a fact, without a foreign key."""
    name = f"{target}_id"
    return Column(name, BigInt, primary_key=key, nullable=False, autoincrement=False)


def _lifetime() -> list[Column[Any]]:
    """Return the columns of a row's lifetime: its commit, and the commit that superseded it."""
    return [_bare("commit"), Column("superseded_commit_id", BigInt, nullable=True)]


def holds(table: Any, commit: int | None = None) -> ColumnElement[bool]:
    """Return the condition that a row of a table is valid now, or was valid after a commit."""
    c = table.c
    if commit is None:
        return cast("ColumnElement[bool]", c.superseded_commit_id.is_(None))
    still = c.superseded_commit_id.is_(None) | (c.superseded_commit_id > commit)
    return cast("ColumnElement[bool]", (c.commit_id <= commit) & still)


def _outcome() -> list[Any]:
    other_statuses = ", ".join(f"'{status}'" for status in VALUE_STATUSES[1:])
    return [
        _number("value"),
        _text("status"),
        _number("weight"),
        _text("error", null=True),
        # The most common status comes first: searching the list takes as long as writing the row.
        CheckConstraint(f"status = 'finite' OR status IN ({other_statuses})", name="status"),
        CheckConstraint("(value IS NOT NULL) = (status = 'finite')", name="value"),
    ]


def _payload() -> list[Any]:
    """Return the columns of a packed state: bytes in the row, or a file among the artifacts."""
    return [
        _text("tag", null=True),
        Column("payload", LargeBinary, nullable=True),
        _text("artifact", null=True),
        _text("checksum", null=True),
    ]


def payload_of(table: Table) -> tuple[Column[Any], ...]:
    """Return the columns of a table that hold a packed state, in the order of the fields of `Payload`."""
    return (table.c.tag, table.c.payload, table.c.artifact, table.c.checksum)


# --- dimensions

dataset = Table(
    "dataset",
    metadata,
    _id(),
    _text("name"),
    _text("source", null=True),
    _text("keys"),
    _time("created_at"),
    UniqueConstraint("name"),
)

statistic = Table(
    "statistic",
    metadata,
    _id(),
    _ref("dataset"),
    _text("segment"),
    _text("segment_key"),
    _text("key"),
    _text("canonical"),
    UniqueConstraint("dataset_id", "key", "segment_key"),
    comment="Statistics with stored states. Analyzers that read the same state share a row.",
)

analyzer = Table(
    "analyzer",
    metadata,
    _id(),
    _ref("dataset"),
    _text("segment"),
    _text("segment_key"),
    _text("key"),
    _text("canonical"),
    _text("kind"),
    _text("text"),
    _text("filter", null=True),
    _ref("statistic", null=True, index=True),
    UniqueConstraint("dataset_id", "key", "segment_key"),
    comment="Measured analyzers. An analyzer without a statistic has no states.",
)

series = Table(
    "series",
    metadata,
    _id(),
    _ref("analyzer"),
    _text("key"),
    _text("entity"),
    _text("instance"),
    _text("name"),
    _text("scale"),
    UniqueConstraint("analyzer_id", "key"),
    comment="Names have no maximum length, so the unique key is a hash.",
)

table_schema = Table(
    "table_schema", metadata, _id(), _text("key"), _text("columns"), UniqueConstraint("key")
)

analyzer_set = Table(
    "analyzer_set", metadata, _id(), _text("key"), _text("analyzers"), UniqueConstraint("key")
)

# --- runs, commits, the ledger

run = Table(
    "run",
    metadata,
    _id(),
    _ref("dataset", index=True),
    _text("source", null=True),
    _text("suite"),
    _text("selection"),
    _text("status"),
    _text("host"),
    _count("pid"),
    Column("fence", BigInt, nullable=True),
    _time("started_at"),
    _time("finished_at", null=True),
    _count("measured"),
    _count("skipped"),
    _count("failed"),
    _count("gone"),
    _text("error", null=True),
    _text("routes", null=True),
    CheckConstraint("status IN ('running', 'complete', 'failed', 'interrupted')", name="status"),
)

run_tag = Table(
    "run_tag",
    metadata,
    _ref("run", key=True),
    Column("key", Text, primary_key=True),
    _text("value"),
)

clock = Table(
    "clock",
    metadata,
    Column("id", BigInt, primary_key=True, autoincrement=False),
    _count("commits"),
    _count("findings"),
    Column("horizon", BigInt, nullable=False, server_default="0"),
    comment="One row, locked by writers: the last commit, the last id of an anomaly or incident, and the"
    " first commit with a complete view.",
)

commit = Table(
    "commit",
    metadata,
    Column("id", BigInt, primary_key=True, autoincrement=False),
    _ref("run", null=True, index=True),
    Column("committed_at", UtcDateTime, nullable=False, index=True),
)

lease = Table(
    "lease",
    metadata,
    Column("dataset", Text, primary_key=True),
    Column("fence", BigInt, nullable=False),
    _text("holder"),
    _text("host"),
    _count("pid"),
    _time("expires_at"),
    comment="Process that measures a dataset. The fence increases each time a lease is acquired.",
)

segment_set = Table(
    "segment_set",
    metadata,
    _id(),
    _ref("dataset"),
    _text("columns"),
    Column("generation", BigInt, nullable=False),
    _text("kept"),
    _ref("run", index=True),
    _time("chosen_at"),
    UniqueConstraint("dataset_id", "columns", "generation"),
    comment="Column values that are measured as segments.",
)

partition = Table(
    "partition",
    metadata,
    _id(),
    _ref("dataset"),
    _text("key"),
    Column("name", Name, nullable=False),
    _text("key_values"),
    _time("time", null=True),
    _text("segment"),
    _time("first_seen_at"),
    UniqueConstraint("dataset_id", "key"),
    Index(None, "dataset_id", "time"),
)

absence = Table(
    "absence",
    metadata,
    _ref("partition", key=True),
    Column("commit_id", BigInt, primary_key=True, autoincrement=False),
    Column("superseded_commit_id", BigInt, nullable=True),
    comment="Periods in which a partition was missing from its table.",
)

partition_version = Table(
    "partition_version",
    metadata,
    _ref("partition", key=True),
    Column("version", BigInt, primary_key=True, autoincrement=False),
    _text("fingerprint", null=True),
    _count("rows"),
    _ref("table_schema"),
    _ref("analyzer_set"),
    _time("arrived_at", null=True),
    _time("measured_at"),
    _ref("run", index=True),
    _ref("commit", index=True),
    Column("superseded_commit_id", BigInt, nullable=True),
)

# --- facts


def _version(*, key: bool = True) -> Column[int]:
    return Column("version", BigInt, primary_key=key, nullable=False, autoincrement=False)


metric = Table(
    "metric",
    metadata,
    # A failure that a retry replaced has the negative number of its version.
    # In this key order new facts are appended, a partition's facts lie together, and a series is
    # read by one lookup for each partition.
    _bare("partition", key=True),
    _bare("series", key=True),
    _version(),
    *_outcome(),
    *_lifetime(),
    sqlite_with_rowid=False,
)

newest_metric = Table(
    "newest_metric",
    metadata,
    _bare("series", key=True),
    _bare("partition"),
    _version(key=False),
    *_outcome(),
    _bare("commit"),
    comment="Newest metric of each series: a copy, updated together with the facts.",
    sqlite_with_rowid=False,
)

state = Table(
    "state",
    metadata,
    _ref("statistic", key=True),
    _ref("partition", key=True),
    _version(),
    *_payload(),
    _bare("commit"),
    Index(None, "partition_id"),
    Index(None, "commit_id"),
)

named_state = Table(
    "named_state",
    metadata,
    Column("name", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    _text("canonical"),
    *_payload(),
    _time("stored_at"),
    comment="States that users stored under a name, outside of any run.",
)

input_set = Table(
    "input_set",
    metadata,
    _id(),
    _text("key"),
    _text("inputs"),
    UniqueConstraint("key"),
    comment="Partitions and versions in a roll-up, as canonical JSON of pairs.",
)

rollup = Table(
    "rollup",
    metadata,
    _bare("series", key=True),
    Column("window_name", Text, primary_key=True),
    Column("window_end", UtcDateTime, primary_key=True),
    Column("commit_id", BigInt, primary_key=True, autoincrement=False),
    Column("superseded_commit_id", BigInt, nullable=True),
    _time("window_start", null=True),
    _time("newest_at", null=True),
    *_outcome(),
    _ref("input_set", index=True),
    comment="Metrics of windows of partitions and of all partitions. The total ends at the latest possible time.",
    sqlite_with_rowid=False,
)

rolled = Table(
    "rolled",
    metadata,
    _ref("dataset", key=True),
    Column("window_name", Text, primary_key=True),
    _bare("commit"),
    _bare("analyzer"),
    comment="Last commit and analyzer in the roll-ups of a dataset.",
)

folded_state = Table(
    "folded_state",
    metadata,
    _ref("statistic", key=True),
    Column("fold", Text, primary_key=True),
    *_payload(),
    _ref("input_set"),
    _bare("commit"),
    comment="States merged over many partitions: the total, and states that were cleaned away.",
)

score = Table(
    "score",
    metadata,
    _bare("partition", key=True),
    Column("detector", Text, primary_key=True),
    Column("block", BigInt, primary_key=True, autoincrement=False),
    _version(),
    Column("commit_id", BigInt, primary_key=True, autoincrement=False),
    Column("superseded_commit_id", BigInt, nullable=True),
    *(
        Column(name, LargeBinary, nullable=False)
        for name in ("members", "score", "expected", "lower", "upper", "reason")
    ),
    comment="Scores of points, packed: 256 series per row.",
)

scored = Table(
    "scored",
    metadata,
    _ref("dataset", key=True),
    Column("detector", Text, primary_key=True),
    _bare("commit"),
    _text("monitors"),
    comment="Last commit whose metrics and labels a detector has read.",
)

# --- anomalies, incidents, labels, verdicts

anomaly = Table(
    "anomaly",
    metadata,
    Column("id", BigInt, primary_key=True, autoincrement=False),
    _ref("series"),
    _ref("partition"),
    _version(key=False),
    _text("detector"),
    _time("detected_at"),
    UniqueConstraint("series_id", "partition_id", "version", "detector"),
    Index(None, "partition_id"),
    comment="Unusual points, with permanent ids. Their properties are in finding.",
)

incident = Table(
    "incident",
    metadata,
    Column("id", BigInt, primary_key=True, autoincrement=False),
    _ref("dataset", index=True),
    _ref("anomaly"),
    _time("opened_at"),
    UniqueConstraint("anomaly_id"),
    comment="Groups of related anomalies, with permanent ids. The first anomaly identifies the group.",
)

course = Table(
    "course",
    metadata,
    _ref("incident", key=True),
    Column("commit_id", BigInt, primary_key=True, autoincrement=False),
    Column("superseded_commit_id", BigInt, nullable=True),
    _text("headline"),
    _text("severity"),
    Column("first_partition_id", BigInt, ForeignKey("partition.id"), nullable=False),
    Column("last_partition_id", BigInt, ForeignKey("partition.id"), nullable=False),
    _count("series"),
    Column("is_over", BigInt, nullable=False, default=0),
    comment="Versions of incidents, valid until the next detection. An incident without a current version is withdrawn.",
)

finding = Table(
    "finding",
    metadata,
    _ref("anomaly", key=True),
    Column("commit_id", BigInt, primary_key=True, autoincrement=False),
    Column("superseded_commit_id", BigInt, nullable=True),
    _number("value"),
    _number("expected"),
    _number("lower"),
    _number("upper"),
    _number("score"),
    _number("p_value"),
    _text("direction"),
    _text("severity"),
    _text("explanation"),
    _ref("incident", null=True, index=True),
    comment="Properties of anomalies, valid until the next detection. An anomaly without a current row is withdrawn.",
)

notice = Table(
    "notice",
    metadata,
    _ref("incident", key=True),
    Column("sink", Text, primary_key=True),
    _count("attempts"),
    _time("tried_at"),
    _time("sent_at", null=True),
    _text("error", null=True),
    comment="Notifications of incidents. A row without sent_at is not sent yet.",
)

label = Table(
    "label",
    metadata,
    _id(),
    _ref("dataset", index=True),
    _ref("anomaly", null=True, index=True),
    _ref("incident", null=True, index=True),
    _ref("series", null=True),
    _ref("partition", null=True),
    _text("name", null=True),
    _text("instance", null=True),
    _text("segment", null=True),
    _time("since", null=True),
    _time("until", null=True),
    _text("label"),
    _text("note", null=True),
    _text("by", null=True),
    _time("created_at"),
    _ref("commit"),
    comment="Append-only.",
)

verdict = Table(
    "verdict",
    metadata,
    _id(),
    _ref("dataset"),
    _text("name"),
    _text("partition"),
    _text("partition_key"),  # joins the partition once it is measured
    _text("fingerprint"),
    _text("specification"),
    _text("key"),
    Column("passed", BigInt, nullable=False),
    _text("result"),
    _ref("run", null=True, index=True),
    _time("checked_at"),
    _ref("commit"),
    # Also the index for the lookup of one verdict, and of the newest of each key.
    UniqueConstraint("dataset_id", "key", "commit_id"),
    Index(None, "dataset_id", "partition_key"),
    comment="Results of checks on data. Append-only; the newest row of a key is current.",
)

verdict_notice = Table(
    "verdict_notice",
    metadata,
    _ref("dataset", key=True),
    Column("subject", Text, primary_key=True),  # hash of a check's name and a partition
    Column("sink", Text, primary_key=True),
    _text("told"),
    _text("outcome"),
    _count("attempts"),
    _time("tried_at"),
    _time("sent_at", null=True),
    _text("error", null=True),
    comment="Outcome of a check on a partition: the last one sent to a sink, and the one being sent.",
)
