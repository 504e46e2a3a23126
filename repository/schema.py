"""The tables. Alembic makes them (`migrations`); nothing else ever does.

Facts are keyed by small integers of the dimensions. Everything that a writing transaction adds
carries its ``commit_id``, and commits are numbered in the order in which they became visible, so any
past view can be had again: facts up to a commit, of the versions known then.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
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

STATUSES = ("finite", "NaN", "+inf", "-inf", "failed", "empty")
"""What a metric's value is; only a finite one is a number in SQL."""

BigInt = BigInteger().with_variant(Integer, "sqlite")


class UtcDateTime(TypeDecorator[datetime]):
    """A moment: aware in Python, with time zone in PostgreSQL, UTC without a mark in SQLite."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Use the database's own type."""
        return dialect.type_descriptor(DateTime(timezone=dialect.name != "sqlite"))

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Store UTC."""
        if value is None:
            return None
        if value.tzinfo is None:
            msg = f"a time without a zone cannot be stored: {value}"
            raise ValueError(msg)
        value = value.astimezone(UTC)
        return value.replace(tzinfo=None) if dialect.name == "sqlite" else value

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Read UTC."""
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


def _outcome() -> list[Any]:
    states = ", ".join(f"'{status}'" for status in STATUSES)
    return [
        _number("value"),
        _text("status"),
        _number("weight"),
        _text("error", null=True),
        CheckConstraint(f"status IN ({states})", name="status"),
        CheckConstraint("(value IS NOT NULL) = (status = 'finite')", name="value"),
    ]


def _payload() -> list[Any]:
    """A state: its bytes here, or in a file below the repository's artifacts."""
    return [
        _text("tag", null=True),
        Column("payload", LargeBinary, nullable=True),
        _text("artifact", null=True),
        _text("checksum", null=True),
    ]


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
    _text("key"),
    _text("canonical"),
    UniqueConstraint("dataset_id", "segment", "key"),
    comment="What a state is of. Analyzers that read one state share it.",
)

analyzer = Table(
    "analyzer",
    metadata,
    _id(),
    _ref("dataset"),
    _text("segment"),
    _text("key"),
    _text("canonical"),
    _text("kind"),
    _text("text"),
    _text("filter", null=True),
    _ref("statistic", index=True),
    UniqueConstraint("dataset_id", "segment", "key"),
)

series = Table(
    "series",
    metadata,
    _id(),
    _ref("analyzer"),
    _text("entity"),
    _text("instance"),
    _text("name"),
    _text("scale"),
    UniqueConstraint("analyzer_id", "name", "instance"),
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
    _time("started_at"),
    _time("finished_at", null=True),
    _count("measured"),
    _count("skipped"),
    _count("failed"),
    _count("gone"),
    _text("error", null=True),
    CheckConstraint("status IN ('running', 'complete', 'failed', 'interrupted')", name="status"),
)

run_tag = Table(
    "run_tag",
    metadata,
    _ref("run", key=True),
    Column("key", Text, primary_key=True),
    _text("value"),
    Index(None, "key", "value"),
)

clock = Table(
    "clock",
    metadata,
    Column("id", BigInt, primary_key=True, autoincrement=False),
    _count("commits"),
    _count("findings"),
    comment="One row: the last commit and the last id of an anomaly or incident. Writers lock it.",
)

commit = Table(
    "commit",
    metadata,
    Column("id", BigInt, primary_key=True, autoincrement=False),
    _ref("run", null=True, index=True),
    Column("committed_at", UtcDateTime, nullable=False, index=True),
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
    comment="Which values of some columns are segments of their own.",
)

partition = Table(
    "partition",
    metadata,
    _id(),
    _ref("dataset"),
    _text("name"),
    _text("key_values"),
    _time("time", null=True),
    _text("segment"),
    _time("first_seen_at"),
    _time("gone_at", null=True),
    UniqueConstraint("dataset_id", "name"),
    Index(None, "dataset_id", "time"),
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
)

# --- facts


def _fact_key() -> list[Any]:
    return [
        _ref("series", key=True),
        _ref("partition", key=True),
        Column("version", BigInt, primary_key=True, autoincrement=False),
    ]


metric = Table(
    "metric",
    metadata,
    *_fact_key(),
    *_outcome(),
    _ref("run"),
    _ref("commit", index=True),
    _time("analyzed_at"),
    Index(None, "partition_id", "series_id"),
    sqlite_with_rowid=False,
)

latest_metric = Table(
    "latest_metric",
    metadata,
    _ref("series", key=True),
    _ref("partition", key=True),
    Column("version", BigInt, nullable=False),
    *_outcome(),
    _ref("run"),
    _ref("commit"),
    _time("analyzed_at"),
    Index(None, "partition_id", "series_id"),
    sqlite_with_rowid=False,
)

state = Table(
    "state",
    metadata,
    _ref("statistic", key=True),
    _ref("partition", key=True),
    Column("version", BigInt, primary_key=True, autoincrement=False),
    *_payload(),
    _ref("run"),
    _ref("commit", index=True),
    Index(None, "partition_id"),
)

named_state = Table(
    "named_state",
    metadata,
    Column("name", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    _text("canonical"),
    *_payload(),
    _time("stored_at"),
    comment="States that users keep under a name of their own, outside of any run.",
)

rollup = Table(
    "rollup",
    metadata,
    _ref("series", key=True),
    Column("window_name", Text, primary_key=True),
    Column("window_end", UtcDateTime, primary_key=True),
    _ref("commit", key=True),
    *_outcome(),
    *_payload(),
    _text("inputs"),
    comment="Windows and totals; inputs names the partition versions that went in.",
)

score = Table(
    "score",
    metadata,
    *_fact_key(),
    Column("detector", Text, primary_key=True),
    _ref("commit", key=True),
    _number("score"),
    _number("p_value"),
    _number("expected"),
    _number("lower"),
    _number("upper"),
    Index(None, "partition_id"),
    sqlite_with_rowid=False,
)

# --- what was found, and what people said of it

incident = Table(
    "incident",
    metadata,
    Column("id", BigInt, primary_key=True, autoincrement=False),
    _ref("dataset", index=True),
    _text("headline"),
    _text("severity"),
    _text("status"),
    Column("first_partition_id", BigInt, ForeignKey("partition.id"), nullable=False),
    Column("last_partition_id", BigInt, ForeignKey("partition.id"), nullable=False),
    _time("updated_at"),
    _ref("commit"),
)

anomaly = Table(
    "anomaly",
    metadata,
    Column("id", BigInt, primary_key=True, autoincrement=False),
    _ref("series"),
    _ref("partition"),
    Column("version", BigInt, nullable=False),
    _text("detector"),
    _number("value"),
    _number("expected"),
    _number("lower"),
    _number("upper"),
    _number("score"),
    _number("p_value"),
    _text("direction"),
    _text("severity"),
    _text("explanation"),
    _time("detected_at"),
    _ref("incident", null=True, index=True),
    _ref("commit"),
    Column("withdrawn_commit_id", BigInt, ForeignKey("commit.id"), nullable=True),
    UniqueConstraint("series_id", "partition_id", "version", "detector"),
    Index(None, "partition_id"),
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
    _text("label"),
    _text("note", null=True),
    _text("by", null=True),
    _time("created_at"),
    _ref("commit"),
    comment="Append-only.",
)
