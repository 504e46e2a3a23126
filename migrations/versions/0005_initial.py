"""The first tables and views.

This is the first released revision. Its number is the number of the development version with these
tables, so that databases of that version open unchanged.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = None
branch_labels = None
depends_on = None

ID_TYPE = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
TIME_TYPE = sa.DateTime(timezone=True)

VIEW_QUERIES = {
    "v_metric": """SELECT d.name AS dataset, s.segment AS segment, p.name AS "partition", p.time AS "time",
    e.entity AS entity, e.name AS name, e.instance AS instance,
    m.value AS value, m.weight AS weight, m.status AS status, m.error AS error,
    m.version AS version, c.run_id AS run_id, m.commit_id AS commit_id,
    c.committed_at AS analyzed_at, s.text AS analyzer, m.superseded_commit_id AS superseded_commit_id
    FROM metric m
    JOIN series e ON e.id = m.series_id
    JOIN analyzer s ON s.id = e.analyzer_id
    JOIN dataset d ON d.id = s.dataset_id
    JOIN "partition" p ON p.id = m.partition_id JOIN "commit" c ON c.id = m.commit_id""",
    "v_latest_metric": """SELECT d.name AS dataset, s.segment AS segment, p.name AS "partition", p.time AS "time",
    e.entity AS entity, e.name AS name, e.instance AS instance,
    m.value AS value, m.weight AS weight, m.status AS status, m.error AS error,
    m.version AS version, c.run_id AS run_id, m.commit_id AS commit_id,
    c.committed_at AS analyzed_at, s.text AS analyzer FROM metric m
    JOIN series e ON e.id = m.series_id
    JOIN analyzer s ON s.id = e.analyzer_id
    JOIN dataset d ON d.id = s.dataset_id
    JOIN "partition" p ON p.id = m.partition_id JOIN "commit" c ON c.id = m.commit_id
    WHERE m.superseded_commit_id IS NULL""",
    "v_newest_metric": """SELECT d.name AS dataset, s.segment AS segment, p.name AS "partition", p.time AS "time",
    e.entity AS entity, e.name AS name, e.instance AS instance,
    m.value AS value, m.weight AS weight, m.status AS status, m.error AS error,
    m.version AS version, c.run_id AS run_id, m.commit_id AS commit_id,
    c.committed_at AS analyzed_at, s.text AS analyzer FROM newest_metric m
    JOIN series e ON e.id = m.series_id
    JOIN analyzer s ON s.id = e.analyzer_id
    JOIN dataset d ON d.id = s.dataset_id
    JOIN "partition" p ON p.id = m.partition_id JOIN "commit" c ON c.id = m.commit_id""",
    "v_restatement": """SELECT d.name AS dataset, s.segment AS segment, p.name AS "partition", p.time AS "time",
    e.entity AS entity, e.name AS name, e.instance AS instance, s.text AS analyzer,
    m.value AS old_value, m.status AS old_status, n.value AS new_value, n.status AS new_status,
    m.version AS old_version, n.version AS new_version,
    b.run_id AS old_run_id, c.run_id AS new_run_id, c.committed_at AS restated_at
    FROM metric m
    JOIN series e ON e.id = m.series_id
    JOIN analyzer s ON s.id = e.analyzer_id
    JOIN dataset d ON d.id = s.dataset_id
    JOIN "partition" p ON p.id = m.partition_id JOIN "commit" b ON b.id = m.commit_id
    JOIN metric n ON n.partition_id = m.partition_id AND n.series_id = m.series_id
        AND n.version > m.version AND n.commit_id = m.superseded_commit_id
    JOIN "commit" c ON c.id = n.commit_id
    WHERE m.superseded_commit_id IS NOT NULL
        AND (m.status <> n.status OR m.value <> n.value)""",
    "v_partition": """SELECT d.name AS dataset, p.name AS "partition", p.time AS "time",
    p.segment AS segment, v.version AS version, v.rows AS "rows", v.fingerprint AS fingerprint,
    p.first_seen_at AS first_seen_at, v.arrived_at AS arrived_at, v.measured_at AS measured_at,
    g.committed_at AS gone_at, v.run_id AS run_id, v.superseded_commit_id AS superseded_commit_id
    FROM "partition" p JOIN dataset d ON d.id = p.dataset_id
    JOIN partition_version v ON v.partition_id = p.id
    LEFT JOIN absence a ON a.partition_id = p.id AND a.superseded_commit_id IS NULL
    LEFT JOIN "commit" g ON g.id = a.commit_id""",
    "v_run": """SELECT r.id AS run_id, d.name AS dataset, r.status AS status,
    r.selection AS selection, r.measured AS measured, r.skipped AS skipped, r.failed AS failed,
    r.gone AS gone, r.started_at AS started_at, r.finished_at AS finished_at, r.error AS error
    FROM run r JOIN dataset d ON d.id = r.dataset_id""",
    "v_rollup": """SELECT d.name AS dataset, s.segment AS segment, m.window_name AS window_name,
    m.window_start AS window_start, m.window_end AS window_end, m.newest_at AS newest_at, e.entity AS entity,
    e.name AS name, e.instance AS instance, m.value AS value, m.weight AS weight,
    m.status AS status, m.error AS error, m.commit_id AS commit_id, s.text AS analyzer
    FROM rollup m JOIN series e ON e.id = m.series_id JOIN analyzer s ON s.id = e.analyzer_id
    JOIN dataset d ON d.id = s.dataset_id WHERE m.superseded_commit_id IS NULL""",
    "v_anomaly": """SELECT a.id AS id,
    d.name AS dataset, s.segment AS segment, p.name AS "partition", p.time AS "time",
    e.entity AS entity, e.name AS name, e.instance AS instance,
    m.version AS version, f.value AS value, f.expected AS expected, f.lower AS lower,
    f.upper AS upper, f.score AS score, f.p_value AS p_value, f.direction AS direction,
    m.detector AS detector, f.severity AS severity, f.explanation AS explanation,
    m.detected_at AS detected_at, f.incident_id AS incident_id, s.text AS analyzer
    FROM anomaly m JOIN anomaly a ON a.id = m.id
    JOIN series e ON e.id = m.series_id
    JOIN analyzer s ON s.id = e.analyzer_id
    JOIN dataset d ON d.id = s.dataset_id
    JOIN "partition" p ON p.id = m.partition_id
    JOIN finding f ON f.anomaly_id = m.id AND f.superseded_commit_id IS NULL""",
    "v_incident": """SELECT i.id AS id, d.name AS dataset,
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
    JOIN "commit" k ON k.id = c.commit_id""",
    "v_label": """SELECT d.name AS dataset, l.anomaly_id AS anomaly_id,
    l.incident_id AS incident_id, l.label AS label, l.note AS note, l.by AS "by",
    l.created_at AS created_at, l.since AS since, l.until AS "until", l.name AS name, l.instance AS instance, l.segment AS segment FROM label l JOIN dataset d ON d.id = l.dataset_id""",
    "v_verdict": """SELECT v.id AS id, d.name AS dataset, v.name AS name,
    v."partition" AS "partition", p.time AS "time", v.fingerprint AS fingerprint,
    v.specification AS specification, v.passed AS passed, v.checked_at AS checked_at,
    v.run_id AS run_id, v.result AS result
    FROM verdict v JOIN dataset d ON d.id = v.dataset_id
    LEFT JOIN "partition" p ON p.dataset_id = v.dataset_id AND p.key = v.partition_key
    WHERE NOT EXISTS (SELECT 1 FROM verdict n WHERE n.dataset_id = v.dataset_id
        AND n.key = v.key AND n.commit_id > v.commit_id)""",
}
"""SQL views for BI tools, in the order in which they are created."""


def upgrade() -> None:
    op.create_table(
        "analyzer_set",
        sa.Column("id", ID_TYPE, nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("analyzers", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_analyzer_set")),
        sa.UniqueConstraint("key", name=op.f("uq_analyzer_set_key")),
    )
    op.create_table(
        "clock",
        sa.Column("id", ID_TYPE, autoincrement=False, nullable=False),
        sa.Column("commits", ID_TYPE, nullable=False),
        sa.Column("findings", ID_TYPE, nullable=False),
        sa.Column("horizon", ID_TYPE, server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_clock")),
        comment="One row, locked by writers: the last commit, the last id of an anomaly or incident, and the first commit with a complete view.",
    )
    op.create_table(
        "dataset",
        sa.Column("id", ID_TYPE, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=True),
        sa.Column("keys", sa.Text(), nullable=False),
        sa.Column("created_at", TIME_TYPE, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_dataset")),
        sa.UniqueConstraint("name", name=op.f("uq_dataset_name")),
    )
    op.create_table(
        "input_set",
        sa.Column("id", ID_TYPE, nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("inputs", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_input_set")),
        sa.UniqueConstraint("key", name=op.f("uq_input_set_key")),
        comment="Partitions and versions in a roll-up, as canonical JSON of pairs.",
    )
    op.create_table(
        "lease",
        sa.Column("dataset", sa.Text(), nullable=False),
        sa.Column("fence", ID_TYPE, nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("pid", ID_TYPE, nullable=False),
        sa.Column("expires_at", TIME_TYPE, nullable=False),
        sa.PrimaryKeyConstraint("dataset", name=op.f("pk_lease")),
        comment="Process that measures a dataset. The fence increases each time a lease is acquired.",
    )
    op.create_table(
        "metric",
        sa.Column("partition_id", ID_TYPE, autoincrement=False, nullable=False),
        sa.Column("series_id", ID_TYPE, autoincrement=False, nullable=False),
        sa.Column("version", ID_TYPE, autoincrement=False, nullable=False),
        sa.Column("value", sa.Double(), nullable=True),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("weight", sa.Double(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("commit_id", ID_TYPE, autoincrement=False, nullable=False),
        sa.Column("superseded_commit_id", ID_TYPE, nullable=True),
        sa.CheckConstraint(
            "(value IS NOT NULL) = (status = 'finite')", name=op.f("ck_metric_value")
        ),
        sa.CheckConstraint(
            "status = 'finite' OR status IN ('NaN', '+inf', '-inf', 'failed', 'empty')",
            name=op.f("ck_metric_status"),
        ),
        sa.PrimaryKeyConstraint("partition_id", "series_id", "version", name=op.f("pk_metric")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "named_state",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("canonical", sa.Text(), nullable=False),
        sa.Column("tag", sa.Text(), nullable=True),
        sa.Column("payload", sa.LargeBinary(), nullable=True),
        sa.Column("artifact", sa.Text(), nullable=True),
        sa.Column("checksum", sa.Text(), nullable=True),
        sa.Column("stored_at", TIME_TYPE, nullable=False),
        sa.PrimaryKeyConstraint("name", "key", name=op.f("pk_named_state")),
        comment="States that users stored under a name, outside of any run.",
    )
    op.create_table(
        "newest_metric",
        sa.Column("series_id", ID_TYPE, autoincrement=False, nullable=False),
        sa.Column("partition_id", ID_TYPE, autoincrement=False, nullable=False),
        sa.Column("version", ID_TYPE, autoincrement=False, nullable=False),
        sa.Column("value", sa.Double(), nullable=True),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("weight", sa.Double(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("commit_id", ID_TYPE, autoincrement=False, nullable=False),
        sa.CheckConstraint(
            "(value IS NOT NULL) = (status = 'finite')", name=op.f("ck_newest_metric_value")
        ),
        sa.CheckConstraint(
            "status = 'finite' OR status IN ('NaN', '+inf', '-inf', 'failed', 'empty')",
            name=op.f("ck_newest_metric_status"),
        ),
        sa.PrimaryKeyConstraint("series_id", name=op.f("pk_newest_metric")),
        comment="Newest metric of each series: a copy, updated together with the facts.",
        sqlite_with_rowid=False,
    )
    op.create_table(
        "score",
        sa.Column("partition_id", ID_TYPE, autoincrement=False, nullable=False),
        sa.Column("detector", sa.Text(), nullable=False),
        sa.Column("block", ID_TYPE, autoincrement=False, nullable=False),
        sa.Column("version", ID_TYPE, autoincrement=False, nullable=False),
        sa.Column("commit_id", ID_TYPE, autoincrement=False, nullable=False),
        sa.Column("superseded_commit_id", ID_TYPE, nullable=True),
        sa.Column("members", sa.LargeBinary(), nullable=False),
        sa.Column("score", sa.LargeBinary(), nullable=False),
        sa.Column("expected", sa.LargeBinary(), nullable=False),
        sa.Column("lower", sa.LargeBinary(), nullable=False),
        sa.Column("upper", sa.LargeBinary(), nullable=False),
        sa.Column("reason", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint(
            "partition_id", "detector", "block", "version", "commit_id", name=op.f("pk_score")
        ),
        comment="Scores of points, packed: 256 series per row.",
    )
    op.create_table(
        "table_schema",
        sa.Column("id", ID_TYPE, nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("columns", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_table_schema")),
        sa.UniqueConstraint("key", name=op.f("uq_table_schema_key")),
    )
    op.create_table(
        "partition",
        sa.Column("id", ID_TYPE, nullable=False),
        sa.Column("dataset_id", ID_TYPE, nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column(
            "name", sa.Text().with_variant(sa.Text(collation="C"), "postgresql"), nullable=False
        ),
        sa.Column("key_values", sa.Text(), nullable=False),
        sa.Column("time", TIME_TYPE, nullable=True),
        sa.Column("segment", sa.Text(), nullable=False),
        sa.Column("first_seen_at", TIME_TYPE, nullable=False),
        sa.ForeignKeyConstraint(
            ["dataset_id"], ["dataset.id"], name=op.f("fk_partition_dataset_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_partition")),
        sa.UniqueConstraint("dataset_id", "key", name=op.f("uq_partition_dataset_id_key")),
    )
    op.create_index(
        op.f("ix_partition_dataset_id_time"), "partition", ["dataset_id", "time"], unique=False
    )
    op.create_table(
        "rolled",
        sa.Column("dataset_id", ID_TYPE, nullable=False),
        sa.Column("window_name", sa.Text(), nullable=False),
        sa.Column("commit_id", ID_TYPE, autoincrement=False, nullable=False),
        sa.Column("analyzer_id", ID_TYPE, autoincrement=False, nullable=False),
        sa.ForeignKeyConstraint(["dataset_id"], ["dataset.id"], name=op.f("fk_rolled_dataset_id")),
        sa.PrimaryKeyConstraint("dataset_id", "window_name", name=op.f("pk_rolled")),
        comment="Last commit and analyzer in the roll-ups of a dataset.",
    )
    op.create_table(
        "rollup",
        sa.Column("series_id", ID_TYPE, autoincrement=False, nullable=False),
        sa.Column("window_name", sa.Text(), nullable=False),
        sa.Column("window_end", TIME_TYPE, nullable=False),
        sa.Column("commit_id", ID_TYPE, autoincrement=False, nullable=False),
        sa.Column("superseded_commit_id", ID_TYPE, nullable=True),
        sa.Column("window_start", TIME_TYPE, nullable=True),
        sa.Column("newest_at", TIME_TYPE, nullable=True),
        sa.Column("value", sa.Double(), nullable=True),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("weight", sa.Double(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("input_set_id", ID_TYPE, nullable=False),
        sa.CheckConstraint(
            "(value IS NOT NULL) = (status = 'finite')", name=op.f("ck_rollup_value")
        ),
        sa.CheckConstraint(
            "status = 'finite' OR status IN ('NaN', '+inf', '-inf', 'failed', 'empty')",
            name=op.f("ck_rollup_status"),
        ),
        sa.ForeignKeyConstraint(
            ["input_set_id"], ["input_set.id"], name=op.f("fk_rollup_input_set_id")
        ),
        sa.PrimaryKeyConstraint(
            "series_id", "window_name", "window_end", "commit_id", name=op.f("pk_rollup")
        ),
        comment="Metrics of windows of partitions and of all partitions. The total ends at the latest possible time.",
        sqlite_with_rowid=False,
    )
    op.create_index(op.f("ix_rollup_input_set_id"), "rollup", ["input_set_id"], unique=False)
    op.create_table(
        "run",
        sa.Column("id", ID_TYPE, nullable=False),
        sa.Column("dataset_id", ID_TYPE, nullable=False),
        sa.Column("source", sa.Text(), nullable=True),
        sa.Column("suite", sa.Text(), nullable=False),
        sa.Column("selection", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("pid", ID_TYPE, nullable=False),
        sa.Column("fence", ID_TYPE, nullable=True),
        sa.Column("started_at", TIME_TYPE, nullable=False),
        sa.Column("finished_at", TIME_TYPE, nullable=True),
        sa.Column("measured", ID_TYPE, nullable=False),
        sa.Column("skipped", ID_TYPE, nullable=False),
        sa.Column("failed", ID_TYPE, nullable=False),
        sa.Column("gone", ID_TYPE, nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.CheckConstraint(
            "status IN ('running', 'complete', 'failed', 'interrupted')", name=op.f("ck_run_status")
        ),
        sa.ForeignKeyConstraint(["dataset_id"], ["dataset.id"], name=op.f("fk_run_dataset_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_run")),
    )
    op.create_index(op.f("ix_run_dataset_id"), "run", ["dataset_id"], unique=False)
    op.create_table(
        "scored",
        sa.Column("dataset_id", ID_TYPE, nullable=False),
        sa.Column("detector", sa.Text(), nullable=False),
        sa.Column("commit_id", ID_TYPE, autoincrement=False, nullable=False),
        sa.Column("monitors", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["dataset_id"], ["dataset.id"], name=op.f("fk_scored_dataset_id")),
        sa.PrimaryKeyConstraint("dataset_id", "detector", name=op.f("pk_scored")),
        comment="Last commit whose metrics and labels a detector has read.",
    )
    op.create_table(
        "statistic",
        sa.Column("id", ID_TYPE, nullable=False),
        sa.Column("dataset_id", ID_TYPE, nullable=False),
        sa.Column("segment", sa.Text(), nullable=False),
        sa.Column("segment_key", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("canonical", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["dataset_id"], ["dataset.id"], name=op.f("fk_statistic_dataset_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_statistic")),
        sa.UniqueConstraint(
            "dataset_id", "key", "segment_key", name=op.f("uq_statistic_dataset_id_key_segment_key")
        ),
        comment="Statistics with stored states. Analyzers that read the same state share a row.",
    )
    op.create_table(
        "absence",
        sa.Column("partition_id", ID_TYPE, nullable=False),
        sa.Column("commit_id", ID_TYPE, autoincrement=False, nullable=False),
        sa.Column("superseded_commit_id", ID_TYPE, nullable=True),
        sa.ForeignKeyConstraint(
            ["partition_id"], ["partition.id"], name=op.f("fk_absence_partition_id")
        ),
        sa.PrimaryKeyConstraint("partition_id", "commit_id", name=op.f("pk_absence")),
        comment="Periods in which a partition was missing from its table.",
    )
    op.create_table(
        "analyzer",
        sa.Column("id", ID_TYPE, nullable=False),
        sa.Column("dataset_id", ID_TYPE, nullable=False),
        sa.Column("segment", sa.Text(), nullable=False),
        sa.Column("segment_key", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("canonical", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("filter", sa.Text(), nullable=True),
        sa.Column("statistic_id", ID_TYPE, nullable=True),
        sa.ForeignKeyConstraint(
            ["dataset_id"], ["dataset.id"], name=op.f("fk_analyzer_dataset_id")
        ),
        sa.ForeignKeyConstraint(
            ["statistic_id"], ["statistic.id"], name=op.f("fk_analyzer_statistic_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_analyzer")),
        sa.UniqueConstraint(
            "dataset_id", "key", "segment_key", name=op.f("uq_analyzer_dataset_id_key_segment_key")
        ),
        comment="Measured analyzers. An analyzer without a statistic has no states.",
    )
    op.create_index(op.f("ix_analyzer_statistic_id"), "analyzer", ["statistic_id"], unique=False)
    op.create_table(
        "commit",
        sa.Column("id", ID_TYPE, autoincrement=False, nullable=False),
        sa.Column("run_id", ID_TYPE, nullable=True),
        sa.Column("committed_at", TIME_TYPE, nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_commit_run_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_commit")),
    )
    op.create_index(op.f("ix_commit_committed_at"), "commit", ["committed_at"], unique=False)
    op.create_index(op.f("ix_commit_run_id"), "commit", ["run_id"], unique=False)
    op.create_table(
        "folded_state",
        sa.Column("statistic_id", ID_TYPE, nullable=False),
        sa.Column("fold", sa.Text(), nullable=False),
        sa.Column("tag", sa.Text(), nullable=True),
        sa.Column("payload", sa.LargeBinary(), nullable=True),
        sa.Column("artifact", sa.Text(), nullable=True),
        sa.Column("checksum", sa.Text(), nullable=True),
        sa.Column("input_set_id", ID_TYPE, nullable=False),
        sa.Column("commit_id", ID_TYPE, autoincrement=False, nullable=False),
        sa.ForeignKeyConstraint(
            ["input_set_id"], ["input_set.id"], name=op.f("fk_folded_state_input_set_id")
        ),
        sa.ForeignKeyConstraint(
            ["statistic_id"], ["statistic.id"], name=op.f("fk_folded_state_statistic_id")
        ),
        sa.PrimaryKeyConstraint("statistic_id", "fold", name=op.f("pk_folded_state")),
        comment="States merged over many partitions: the total, and states that were cleaned away.",
    )
    op.create_table(
        "run_tag",
        sa.Column("run_id", ID_TYPE, nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_run_tag_run_id")),
        sa.PrimaryKeyConstraint("run_id", "key", name=op.f("pk_run_tag")),
    )
    op.create_table(
        "segment_set",
        sa.Column("id", ID_TYPE, nullable=False),
        sa.Column("dataset_id", ID_TYPE, nullable=False),
        sa.Column("columns", sa.Text(), nullable=False),
        sa.Column("generation", ID_TYPE, nullable=False),
        sa.Column("kept", sa.Text(), nullable=False),
        sa.Column("run_id", ID_TYPE, nullable=False),
        sa.Column("chosen_at", TIME_TYPE, nullable=False),
        sa.ForeignKeyConstraint(
            ["dataset_id"], ["dataset.id"], name=op.f("fk_segment_set_dataset_id")
        ),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_segment_set_run_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_segment_set")),
        sa.UniqueConstraint(
            "dataset_id",
            "columns",
            "generation",
            name=op.f("uq_segment_set_dataset_id_columns_generation"),
        ),
        comment="Column values that are measured as segments.",
    )
    op.create_index(op.f("ix_segment_set_run_id"), "segment_set", ["run_id"], unique=False)
    op.create_table(
        "state",
        sa.Column("statistic_id", ID_TYPE, nullable=False),
        sa.Column("partition_id", ID_TYPE, nullable=False),
        sa.Column("version", ID_TYPE, autoincrement=False, nullable=False),
        sa.Column("tag", sa.Text(), nullable=True),
        sa.Column("payload", sa.LargeBinary(), nullable=True),
        sa.Column("artifact", sa.Text(), nullable=True),
        sa.Column("checksum", sa.Text(), nullable=True),
        sa.Column("commit_id", ID_TYPE, autoincrement=False, nullable=False),
        sa.ForeignKeyConstraint(
            ["partition_id"], ["partition.id"], name=op.f("fk_state_partition_id")
        ),
        sa.ForeignKeyConstraint(
            ["statistic_id"], ["statistic.id"], name=op.f("fk_state_statistic_id")
        ),
        sa.PrimaryKeyConstraint("statistic_id", "partition_id", "version", name=op.f("pk_state")),
    )
    op.create_index(op.f("ix_state_commit_id"), "state", ["commit_id"], unique=False)
    op.create_index(op.f("ix_state_partition_id"), "state", ["partition_id"], unique=False)
    op.create_table(
        "partition_version",
        sa.Column("partition_id", ID_TYPE, nullable=False),
        sa.Column("version", ID_TYPE, autoincrement=False, nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=True),
        sa.Column("rows", ID_TYPE, nullable=False),
        sa.Column("table_schema_id", ID_TYPE, nullable=False),
        sa.Column("analyzer_set_id", ID_TYPE, nullable=False),
        sa.Column("arrived_at", TIME_TYPE, nullable=True),
        sa.Column("measured_at", TIME_TYPE, nullable=False),
        sa.Column("run_id", ID_TYPE, nullable=False),
        sa.Column("commit_id", ID_TYPE, nullable=False),
        sa.Column("superseded_commit_id", ID_TYPE, nullable=True),
        sa.ForeignKeyConstraint(
            ["analyzer_set_id"],
            ["analyzer_set.id"],
            name=op.f("fk_partition_version_analyzer_set_id"),
        ),
        sa.ForeignKeyConstraint(
            ["commit_id"], ["commit.id"], name=op.f("fk_partition_version_commit_id")
        ),
        sa.ForeignKeyConstraint(
            ["partition_id"], ["partition.id"], name=op.f("fk_partition_version_partition_id")
        ),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_partition_version_run_id")),
        sa.ForeignKeyConstraint(
            ["table_schema_id"],
            ["table_schema.id"],
            name=op.f("fk_partition_version_table_schema_id"),
        ),
        sa.PrimaryKeyConstraint("partition_id", "version", name=op.f("pk_partition_version")),
    )
    op.create_index(
        op.f("ix_partition_version_commit_id"), "partition_version", ["commit_id"], unique=False
    )
    op.create_index(
        op.f("ix_partition_version_run_id"), "partition_version", ["run_id"], unique=False
    )
    op.create_table(
        "series",
        sa.Column("id", ID_TYPE, nullable=False),
        sa.Column("analyzer_id", ID_TYPE, nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("entity", sa.Text(), nullable=False),
        sa.Column("instance", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("scale", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["analyzer_id"], ["analyzer.id"], name=op.f("fk_series_analyzer_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_series")),
        sa.UniqueConstraint("analyzer_id", "key", name=op.f("uq_series_analyzer_id_key")),
        comment="Names have no maximum length, so the unique key is a hash.",
    )
    op.create_table(
        "verdict",
        sa.Column("id", ID_TYPE, nullable=False),
        sa.Column("dataset_id", ID_TYPE, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("partition", sa.Text(), nullable=False),
        sa.Column("partition_key", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("specification", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("passed", ID_TYPE, nullable=False),
        sa.Column("result", sa.Text(), nullable=False),
        sa.Column("run_id", ID_TYPE, nullable=True),
        sa.Column("checked_at", TIME_TYPE, nullable=False),
        sa.Column("commit_id", ID_TYPE, nullable=False),
        sa.ForeignKeyConstraint(["commit_id"], ["commit.id"], name=op.f("fk_verdict_commit_id")),
        sa.ForeignKeyConstraint(["dataset_id"], ["dataset.id"], name=op.f("fk_verdict_dataset_id")),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_verdict_run_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_verdict")),
        sa.UniqueConstraint(
            "dataset_id", "key", "commit_id", name=op.f("uq_verdict_dataset_id_key_commit_id")
        ),
        comment="Results of checks on data. Append-only; the newest row of a key is current.",
    )
    op.create_index(op.f("ix_verdict_run_id"), "verdict", ["run_id"], unique=False)
    op.create_table(
        "anomaly",
        sa.Column("id", ID_TYPE, autoincrement=False, nullable=False),
        sa.Column("series_id", ID_TYPE, nullable=False),
        sa.Column("partition_id", ID_TYPE, nullable=False),
        sa.Column("version", ID_TYPE, autoincrement=False, nullable=False),
        sa.Column("detector", sa.Text(), nullable=False),
        sa.Column("detected_at", TIME_TYPE, nullable=False),
        sa.ForeignKeyConstraint(
            ["partition_id"], ["partition.id"], name=op.f("fk_anomaly_partition_id")
        ),
        sa.ForeignKeyConstraint(["series_id"], ["series.id"], name=op.f("fk_anomaly_series_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_anomaly")),
        sa.UniqueConstraint(
            "series_id",
            "partition_id",
            "version",
            "detector",
            name=op.f("uq_anomaly_series_id_partition_id_version_detector"),
        ),
        comment="Unusual points, with permanent ids. Their properties are in finding.",
    )
    op.create_index(op.f("ix_anomaly_partition_id"), "anomaly", ["partition_id"], unique=False)
    op.create_table(
        "incident",
        sa.Column("id", ID_TYPE, autoincrement=False, nullable=False),
        sa.Column("dataset_id", ID_TYPE, nullable=False),
        sa.Column("anomaly_id", ID_TYPE, nullable=False),
        sa.Column("opened_at", TIME_TYPE, nullable=False),
        sa.ForeignKeyConstraint(
            ["anomaly_id"], ["anomaly.id"], name=op.f("fk_incident_anomaly_id")
        ),
        sa.ForeignKeyConstraint(
            ["dataset_id"], ["dataset.id"], name=op.f("fk_incident_dataset_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_incident")),
        sa.UniqueConstraint("anomaly_id", name=op.f("uq_incident_anomaly_id")),
        comment="Groups of related anomalies, with permanent ids. The first anomaly identifies the group.",
    )
    op.create_index(op.f("ix_incident_dataset_id"), "incident", ["dataset_id"], unique=False)
    op.create_table(
        "course",
        sa.Column("incident_id", ID_TYPE, nullable=False),
        sa.Column("commit_id", ID_TYPE, autoincrement=False, nullable=False),
        sa.Column("superseded_commit_id", ID_TYPE, nullable=True),
        sa.Column("headline", sa.Text(), nullable=False),
        sa.Column("severity", sa.Text(), nullable=False),
        sa.Column("first_partition_id", ID_TYPE, nullable=False),
        sa.Column("last_partition_id", ID_TYPE, nullable=False),
        sa.Column("series", ID_TYPE, nullable=False),
        sa.Column("is_over", ID_TYPE, nullable=False),
        sa.ForeignKeyConstraint(
            ["first_partition_id"], ["partition.id"], name=op.f("fk_course_first_partition_id")
        ),
        sa.ForeignKeyConstraint(
            ["incident_id"], ["incident.id"], name=op.f("fk_course_incident_id")
        ),
        sa.ForeignKeyConstraint(
            ["last_partition_id"], ["partition.id"], name=op.f("fk_course_last_partition_id")
        ),
        sa.PrimaryKeyConstraint("incident_id", "commit_id", name=op.f("pk_course")),
        comment="Versions of incidents, valid until the next detection. An incident without a current version is withdrawn.",
    )
    op.create_table(
        "finding",
        sa.Column("anomaly_id", ID_TYPE, nullable=False),
        sa.Column("commit_id", ID_TYPE, autoincrement=False, nullable=False),
        sa.Column("superseded_commit_id", ID_TYPE, nullable=True),
        sa.Column("value", sa.Double(), nullable=True),
        sa.Column("expected", sa.Double(), nullable=True),
        sa.Column("lower", sa.Double(), nullable=True),
        sa.Column("upper", sa.Double(), nullable=True),
        sa.Column("score", sa.Double(), nullable=True),
        sa.Column("p_value", sa.Double(), nullable=True),
        sa.Column("direction", sa.Text(), nullable=False),
        sa.Column("severity", sa.Text(), nullable=False),
        sa.Column("explanation", sa.Text(), nullable=False),
        sa.Column("incident_id", ID_TYPE, nullable=True),
        sa.ForeignKeyConstraint(["anomaly_id"], ["anomaly.id"], name=op.f("fk_finding_anomaly_id")),
        sa.ForeignKeyConstraint(
            ["incident_id"], ["incident.id"], name=op.f("fk_finding_incident_id")
        ),
        sa.PrimaryKeyConstraint("anomaly_id", "commit_id", name=op.f("pk_finding")),
        comment="Properties of anomalies, valid until the next detection. An anomaly without a current row is withdrawn.",
    )
    op.create_index(op.f("ix_finding_incident_id"), "finding", ["incident_id"], unique=False)
    op.create_table(
        "label",
        sa.Column("id", ID_TYPE, nullable=False),
        sa.Column("dataset_id", ID_TYPE, nullable=False),
        sa.Column("anomaly_id", ID_TYPE, nullable=True),
        sa.Column("incident_id", ID_TYPE, nullable=True),
        sa.Column("series_id", ID_TYPE, nullable=True),
        sa.Column("partition_id", ID_TYPE, nullable=True),
        sa.Column("name", sa.Text(), nullable=True),
        sa.Column("instance", sa.Text(), nullable=True),
        sa.Column("segment", sa.Text(), nullable=True),
        sa.Column("since", TIME_TYPE, nullable=True),
        sa.Column("until", TIME_TYPE, nullable=True),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("note", sa.Text(), nullable=True),
        sa.Column("by", sa.Text(), nullable=True),
        sa.Column("created_at", TIME_TYPE, nullable=False),
        sa.Column("commit_id", ID_TYPE, nullable=False),
        sa.ForeignKeyConstraint(["anomaly_id"], ["anomaly.id"], name=op.f("fk_label_anomaly_id")),
        sa.ForeignKeyConstraint(["commit_id"], ["commit.id"], name=op.f("fk_label_commit_id")),
        sa.ForeignKeyConstraint(["dataset_id"], ["dataset.id"], name=op.f("fk_label_dataset_id")),
        sa.ForeignKeyConstraint(
            ["incident_id"], ["incident.id"], name=op.f("fk_label_incident_id")
        ),
        sa.ForeignKeyConstraint(
            ["partition_id"], ["partition.id"], name=op.f("fk_label_partition_id")
        ),
        sa.ForeignKeyConstraint(["series_id"], ["series.id"], name=op.f("fk_label_series_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_label")),
        comment="Append-only.",
    )
    op.create_index(op.f("ix_label_anomaly_id"), "label", ["anomaly_id"], unique=False)
    op.create_index(op.f("ix_label_dataset_id"), "label", ["dataset_id"], unique=False)
    op.create_index(op.f("ix_label_incident_id"), "label", ["incident_id"], unique=False)
    op.create_table(
        "notice",
        sa.Column("incident_id", ID_TYPE, nullable=False),
        sa.Column("sink", sa.Text(), nullable=False),
        sa.Column("attempts", ID_TYPE, nullable=False),
        sa.Column("tried_at", TIME_TYPE, nullable=False),
        sa.Column("sent_at", TIME_TYPE, nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["incident_id"], ["incident.id"], name=op.f("fk_notice_incident_id")
        ),
        sa.PrimaryKeyConstraint("incident_id", "sink", name=op.f("pk_notice")),
        comment="Notifications of incidents. A row without sent_at is not sent yet.",
    )
    op.execute("INSERT INTO clock (id, commits, findings, horizon) VALUES (1, 0, 0, 0)")
    for name, query in VIEW_QUERIES.items():
        op.execute(f"CREATE VIEW {name} AS {query}")


def downgrade() -> None:
    for name in reversed(VIEW_QUERIES):
        op.execute(f"DROP VIEW {name}")
    op.drop_table("notice")
    op.drop_table("label")
    op.drop_table("finding")
    op.drop_table("course")
    op.drop_table("incident")
    op.drop_table("anomaly")
    op.drop_table("verdict")
    op.drop_table("series")
    op.drop_table("partition_version")
    op.drop_table("state")
    op.drop_table("segment_set")
    op.drop_table("run_tag")
    op.drop_table("folded_state")
    op.drop_table("commit")
    op.drop_table("analyzer")
    op.drop_table("absence")
    op.drop_table("statistic")
    op.drop_table("scored")
    op.drop_table("run")
    op.drop_table("rollup")
    op.drop_table("rolled")
    op.drop_table("partition")
    op.drop_table("table_schema")
    op.drop_table("score")
    op.drop_table("newest_metric")
    op.drop_table("named_state")
    op.drop_table("metric")
    op.drop_table("lease")
    op.drop_table("input_set")
    op.drop_table("dataset")
    op.drop_table("clock")
    op.drop_table("analyzer_set")
