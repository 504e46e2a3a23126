"""Scores of many series lie in one row; incidents have a life; labels can speak of ranges.

Going down unpacks the scores, and loses incidents and labels of ranges, which the older tables have no
place for.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import groupby
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
TIME = sa.DateTime(timezone=True)
BLOCK = 256
_NUMBERS = ("score", "expected", "lower", "upper")
_BLOBS = ("members", *_NUMBERS, "reason")
_NAN = float("nan")

_ANOMALY = """CREATE VIEW v_anomaly AS SELECT a.id AS id,
    d.name AS dataset, s.segment AS segment, p.name AS "partition", p.time AS "time",
    e.entity AS entity, e.name AS name, e.instance AS instance,
    m.version AS version, f.value AS value, f.expected AS expected, f.lower AS lower,
    f.upper AS upper, f.score AS score, f.p_value AS p_value, f.direction AS direction,
    m.detector AS detector, f.severity AS severity, f.explanation AS explanation,
    m.detected_at AS detected_at, {incident} AS incident_id, s.text AS analyzer
    FROM anomaly m JOIN anomaly a ON a.id = m.id
    JOIN series e ON e.id = m.series_id
    JOIN analyzer s ON s.id = e.analyzer_id
    JOIN dataset d ON d.id = s.dataset_id
    JOIN "partition" p ON p.id = m.partition_id
    JOIN finding f ON f.anomaly_id = m.id AND f.superseded_commit_id IS NULL"""

_INCIDENT = """CREATE VIEW v_incident AS SELECT i.id AS id, d.name AS dataset,
    c.headline AS headline, c.severity AS severity, a.name AS "first", a.time AS first_time,
    z.name AS "last", z.time AS last_time, c.series AS series, c.is_over AS is_over,
    CASE (SELECT l.label FROM label l WHERE l.incident_id = i.id
        AND l.label IN ('acknowledged', 'expected', 'resolved', 'reopened')
        ORDER BY l.commit_id DESC, l.id DESC LIMIT 1)
        WHEN 'acknowledged' THEN 'acknowledged' WHEN 'expected' THEN 'expected'
        WHEN 'resolved' THEN 'resolved' ELSE 'open' END AS status,
    i.opened_at AS opened_at, k.committed_at AS updated_at
    FROM incident i JOIN dataset d ON d.id = i.dataset_id
    JOIN course c ON c.incident_id = i.id AND c.superseded_commit_id IS NULL
    JOIN "partition" a ON a.id = c.first_partition_id
    JOIN "partition" z ON z.id = c.last_partition_id
    JOIN "commit" k ON k.id = c.commit_id"""

_LABEL = """CREATE VIEW v_label AS SELECT d.name AS dataset, l.anomaly_id AS anomaly_id,
    l.incident_id AS incident_id, l.label AS label, l.note AS note, l.by AS "by",
    l.created_at AS created_at{ranges} FROM label l JOIN dataset d ON d.id = l.dataset_id"""
_RANGES = (
    ', l.since AS since, l.until AS "until", l.name AS name, l.instance AS instance,'
    " l.segment AS segment"
)
_RANGE_COLUMNS: dict[str, sa.types.TypeEngine[Any]] = {
    "name": sa.Text(),
    "instance": sa.Text(),
    "segment": sa.Text(),
    "since": TIME,
    "until": TIME,
}


def upgrade() -> None:
    op.execute("DROP VIEW v_anomaly")
    op.execute("DROP VIEW v_label")
    _pack_scores()
    op.create_table(
        "scored",
        sa.Column("dataset_id", ID, nullable=False),
        sa.Column("detector", sa.Text(), nullable=False),
        sa.Column("commit_id", ID, nullable=False),
        sa.Column("monitors", sa.Text(), nullable=False),
        _reference("scored", "dataset"),
        sa.PrimaryKeyConstraint("dataset_id", "detector", name=op.f("pk_scored")),
        comment="Up to which commit a detector has seen what was measured and said.",
    )
    op.execute(
        """INSERT INTO scored (dataset_id, detector, commit_id, monitors)
        SELECT DISTINCT p.dataset_id, m.detector, 0, '' FROM score m
        JOIN "partition" p ON p.id = m.partition_id"""
    )
    # Nothing ever wrote an incident before.
    with op.batch_alter_table("label") as batch:
        batch.drop_constraint("fk_label_incident_id", type_="foreignkey")
    op.drop_index("ix_anomaly_incident_id", table_name="anomaly")
    with op.batch_alter_table("anomaly") as batch:
        batch.drop_constraint("fk_anomaly_incident_id", type_="foreignkey")
        batch.drop_column("incident_id")
    op.drop_table("incident")
    op.create_table(
        "incident",
        sa.Column("id", ID, autoincrement=False, nullable=False),
        sa.Column("dataset_id", ID, nullable=False),
        sa.Column("anomaly_id", ID, nullable=False),
        sa.Column("opened_at", TIME, nullable=False),
        *(_reference("incident", target) for target in ("dataset", "anomaly")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_incident")),
        sa.UniqueConstraint("anomaly_id", name=op.f("uq_incident_anomaly_id")),
        comment="Anomalies that belong together, for ever under one id; the first of them names it.",
    )
    op.create_index(op.f("ix_incident_dataset_id"), "incident", ["dataset_id"])
    op.create_table(
        "course",
        *_numbers("incident_id", "commit_id"),
        sa.Column("superseded_commit_id", ID, nullable=True),
        sa.Column("headline", sa.Text(), nullable=False),
        sa.Column("severity", sa.Text(), nullable=False),
        *_numbers("first_partition_id", "last_partition_id", "series", "is_over"),
        _reference("course", "incident"),
        *(_reference("course", "partition", f"{end}_partition_id") for end in ("first", "last")),
        sa.PrimaryKeyConstraint("incident_id", "commit_id", name=op.f("pk_course")),
        comment="What is known of an incident, until the next detection; one without any is withdrawn.",
    )
    op.create_table(
        "notice",
        *_numbers("incident_id"),
        sa.Column("sink", sa.Text(), nullable=False),
        *_numbers("attempts"),
        sa.Column("tried_at", TIME, nullable=False),
        sa.Column("sent_at", TIME, nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        _reference("notice", "incident"),
        sa.PrimaryKeyConstraint("incident_id", "sink", name=op.f("pk_notice")),
        comment="Who was told of an incident, and when; without sent_at, who is still to be told.",
    )
    with op.batch_alter_table("label") as batch:
        for name, kind in _RANGE_COLUMNS.items():
            batch.add_column(sa.Column(name, kind, nullable=True))
        batch.create_foreign_key(
            op.f("fk_label_incident_id"), "incident", ["incident_id"], ["id"]
        )
    with op.batch_alter_table("finding") as batch:
        batch.add_column(sa.Column("incident_id", ID, nullable=True))
        batch.create_foreign_key(
            op.f("fk_finding_incident_id"), "incident", ["incident_id"], ["id"]
        )
    op.create_index(op.f("ix_finding_incident_id"), "finding", ["incident_id"])
    op.execute(_ANOMALY.format(incident="f.incident_id"))
    op.execute(_INCIDENT)
    op.execute(_LABEL.format(ranges=_RANGES))


def downgrade() -> None:
    for view in ("v_anomaly", "v_incident", "v_label"):
        op.execute(f"DROP VIEW {view}")
    op.drop_index("ix_finding_incident_id", table_name="finding")
    with op.batch_alter_table("finding") as batch:
        batch.drop_constraint("fk_finding_incident_id", type_="foreignkey")
        batch.drop_column("incident_id")
    op.execute("DELETE FROM label WHERE anomaly_id IS NULL")
    with op.batch_alter_table("label") as batch:
        batch.drop_constraint("fk_label_incident_id", type_="foreignkey")
        for name in _RANGE_COLUMNS:
            batch.drop_column(name)
    op.execute("UPDATE label SET incident_id = NULL")
    for table in ("notice", "course", "incident", "scored"):
        op.drop_table(table)
    op.create_table(
        "incident",
        sa.Column("id", ID, autoincrement=False, nullable=False),
        sa.Column("dataset_id", ID, nullable=False),
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("headline", "severity", "status")),
        *_numbers("first_partition_id", "last_partition_id"),
        sa.Column("updated_at", TIME, nullable=False),
        *_numbers("commit_id"),
        *(_reference("incident", target) for target in ("dataset", "commit")),
        *(_reference("incident", "partition", f"{end}_partition_id") for end in ("first", "last")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_incident")),
    )
    op.create_index(op.f("ix_incident_dataset_id"), "incident", ["dataset_id"])
    with op.batch_alter_table("label") as batch:
        batch.create_foreign_key(
            op.f("fk_label_incident_id"), "incident", ["incident_id"], ["id"]
        )
    with op.batch_alter_table("anomaly") as batch:
        batch.add_column(sa.Column("incident_id", ID, nullable=True))
        batch.create_foreign_key(
            op.f("fk_anomaly_incident_id"), "incident", ["incident_id"], ["id"]
        )
    op.create_index(op.f("ix_anomaly_incident_id"), "anomaly", ["incident_id"])
    _unpack_scores()
    op.execute(_ANOMALY.format(incident="m.incident_id"))
    op.execute(_LABEL.format(ranges=""))


def _numbers(*names: str) -> Iterator[sa.Column[Any]]:
    return (sa.Column(name, ID, nullable=False, autoincrement=False) for name in names)


def _reference(table: str, target: str, column: str | None = None) -> sa.ForeignKeyConstraint:
    name = column or f"{target}_id"
    return sa.ForeignKeyConstraint([name], [f"{target}.id"], name=op.f(f"fk_{table}_{name}"))


# --- scores: one row for each point, or packed ones for the points of 256 series

_POINT = ("partition_id", "series_id", "version", "detector", "commit_id")
_PACKED = ("partition_id", "detector", "block", "version", "commit_id", "superseded_commit_id")


def _pack_scores() -> None:
    connection = op.get_bind()
    op.rename_table("score", "score_old")
    if connection.dialect.name != "sqlite":
        op.execute("ALTER INDEX pk_score RENAME TO pk_score_old")
    op.create_table(
        "score",
        *_numbers("partition_id"),
        sa.Column("detector", sa.Text(), nullable=False),
        *_numbers("block", "version", "commit_id"),
        sa.Column("superseded_commit_id", ID, nullable=True),
        *(sa.Column(name, sa.LargeBinary(), nullable=False) for name in _BLOBS),
        sa.PrimaryKeyConstraint(
            "partition_id", "detector", "block", "version", "commit_id", name=op.f("pk_score")
        ),
        comment="What detectors said of points, packed: those of 256 series in a row (repository.anomalies.scorebook).",
    )
    points = sa.table("score_old", *map(sa.column, (*_POINT, *_NUMBERS)))
    packed = sa.table("score", *map(sa.column, (*_PACKED, *_BLOBS)))
    c = points.c
    rows = sorted(
        connection.execute(sa.select(points)).all(),
        key=lambda r: (
            r.partition_id,
            r.detector,
            r.series_id // BLOCK,
            r.version,
            r.commit_id,
            r.series_id,
        ),
    )
    of_block = groupby(rows, lambda r: (r.partition_id, r.detector, r.series_id // BLOCK, r.version))
    for key, points_of in of_block:
        known: dict[int, tuple[float, ...]] = {}
        made: list[dict[str, Any]] = []
        for commit, some in groupby(points_of, lambda r: r.commit_id):
            for r in some:
                numbers = (r.score, r.expected, r.lower, r.upper)
                known[r.series_id % BLOCK] = tuple(_NAN if n is None else n for n in numbers)
            if made:
                made[-1]["superseded_commit_id"] = commit
            row = dict(zip(_PACKED, (*key, commit, None), strict=True))
            made.append({**row, **_packed(known)})
        connection.execute(sa.insert(packed), made)
    op.drop_table("score_old")


def _packed(known: dict[int, tuple[float, ...]]) -> dict[str, bytes]:
    places = sorted(known)
    members = sum(1 << place for place in places).to_bytes(BLOCK // 8, "little")
    columns = zip(*(known[place] for place in places), strict=True)
    numbers = [struct.pack(f"<{len(places)}d", *column) for column in columns]
    return dict(zip(_BLOBS, (members, *numbers, bytes(len(places))), strict=True))


def _unpacked(row: Any) -> dict[int, tuple[float, ...]]:
    bits = int.from_bytes(row.members, "little")
    places = [place for place in range(BLOCK) if bits >> place & 1]
    columns = [struct.unpack(f"<{len(places)}d", getattr(row, name)) for name in _NUMBERS]
    return dict(zip(places, zip(*columns, strict=True), strict=True))


def _unpack_scores() -> None:
    connection = op.get_bind()
    op.rename_table("score", "score_new")
    if connection.dialect.name != "sqlite":
        op.execute("ALTER INDEX pk_score RENAME TO pk_score_new")
    op.create_table(
        "score",
        *_numbers("partition_id", "series_id", "version"),
        sa.Column("detector", sa.Text(), nullable=False),
        *_numbers("commit_id"),
        *(
            sa.Column(name, sa.Double(), nullable=True)
            for name in ("score", "p_value", "expected", "lower", "upper")
        ),
        sa.PrimaryKeyConstraint(
            "partition_id", "series_id", "version", "detector", "commit_id", name=op.f("pk_score")
        ),
        sqlite_with_rowid=False,
    )
    packed = sa.table("score_new", *map(sa.column, (*_PACKED, *_BLOBS)))
    points = sa.table("score", *map(sa.column, (*_POINT, *_NUMBERS, "p_value")))
    c = packed.c
    query = sa.select(packed).order_by(*(c[name] for name in _PACKED[:5]))
    rows = connection.execute(query).all()
    of_block = groupby(rows, lambda r: (r.partition_id, r.detector, r.block, r.version))
    for (partition, detector, block, version), some in of_block:
        known: dict[int, tuple[float | None, ...]] = {}
        made = []
        for row in some:
            for place, numbers in _unpacked(row).items():
                told = tuple(n if n == n and abs(n) != float("inf") else None for n in numbers)
                if known.get(place) != told:
                    known[place] = told
                    key = (partition, block * BLOCK + place, version, detector, row.commit_id)
                    score = told[0]
                    p = None if score is None else 0.0 if score >= 300 else 10.0**-score
                    made.append(dict(zip((*_POINT, *_NUMBERS, "p_value"), (*key, *told, p), strict=True)))
        connection.execute(sa.insert(points), made)
    op.drop_table("score_new")
