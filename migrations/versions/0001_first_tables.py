"""The first tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
TIME = sa.DateTime(timezone=True)

_COLUMNS = """
    d.name AS dataset, s.segment AS segment, p.name AS "partition", p.time AS "time",
    e.entity AS entity, e.name AS name, e.instance AS instance"""
_JOINS = """
    JOIN series e ON e.id = m.series_id
    JOIN analyzer s ON s.id = e.analyzer_id
    JOIN dataset d ON d.id = s.dataset_id
    JOIN "partition" p ON p.id = m.partition_id"""
_VIEWS = {
    view: f"""CREATE VIEW {view} AS SELECT {_COLUMNS},
    m.value AS value, m.weight AS weight, m.status AS status, m.error AS error,
    m.version AS version, m.run_id AS run_id, m.commit_id AS commit_id,
    m.analyzed_at AS analyzed_at, s.text AS analyzer
    FROM {table} m {_JOINS}"""
    for view, table in [("v_metric", "metric"), ("v_latest_metric", "latest_metric")]
}
_VIEWS["v_anomaly"] = f"""CREATE VIEW v_anomaly AS SELECT m.id AS id, {_COLUMNS},
    m.version AS version, m.value AS value, m.expected AS expected, m.lower AS lower,
    m.upper AS upper, m.score AS score, m.p_value AS p_value, m.direction AS direction,
    m.detector AS detector, m.severity AS severity, m.explanation AS explanation,
    m.detected_at AS detected_at, m.incident_id AS incident_id, s.text AS analyzer
    FROM anomaly m {_JOINS} WHERE m.withdrawn_commit_id IS NULL"""


def upgrade() -> None:
    op.create_table(
        "analyzer_set",
        sa.Column("id", ID, nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("analyzers", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_analyzer_set")),
        sa.UniqueConstraint("key", name=op.f("uq_analyzer_set_key")),
    )
    op.create_table(
        "clock",
        sa.Column("id", ID, autoincrement=False, nullable=False),
        sa.Column("commits", ID, nullable=False),
        sa.Column("findings", ID, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_clock")),
        comment="One row: the last commit and the last id of an anomaly or incident. Writers lock it.",
    )
    op.create_table(
        "dataset",
        sa.Column("id", ID, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=True),
        sa.Column("keys", sa.Text(), nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_dataset")),
        sa.UniqueConstraint("name", name=op.f("uq_dataset_name")),
    )
    op.create_table(
        "table_schema",
        sa.Column("id", ID, nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("columns", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_table_schema")),
        sa.UniqueConstraint("key", name=op.f("uq_table_schema_key")),
    )
    op.create_table(
        "partition",
        sa.Column("id", ID, nullable=False),
        sa.Column("dataset_id", ID, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("key_values", sa.Text(), nullable=False),
        sa.Column("time", TIME, nullable=True),
        sa.Column("segment", sa.Text(), nullable=False),
        sa.Column("first_seen_at", TIME, nullable=False),
        sa.Column("gone_at", TIME, nullable=True),
        sa.ForeignKeyConstraint(
            ["dataset_id"], ["dataset.id"], name=op.f("fk_partition_dataset_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_partition")),
        sa.UniqueConstraint("dataset_id", "name", name=op.f("uq_partition_dataset_id_name")),
    )
    op.create_index(
        op.f("ix_partition_dataset_id_time"), "partition", ["dataset_id", "time"], unique=False
    )
    op.create_table(
        "run",
        sa.Column("id", ID, nullable=False),
        sa.Column("dataset_id", ID, nullable=False),
        sa.Column("source", sa.Text(), nullable=True),
        sa.Column("suite", sa.Text(), nullable=False),
        sa.Column("selection", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("pid", ID, nullable=False),
        sa.Column("started_at", TIME, nullable=False),
        sa.Column("finished_at", TIME, nullable=True),
        sa.Column("measured", ID, nullable=False),
        sa.Column("skipped", ID, nullable=False),
        sa.Column("failed", ID, nullable=False),
        sa.Column("gone", ID, nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.CheckConstraint(
            "status IN ('running', 'complete', 'failed', 'interrupted')", name=op.f("ck_run_status")
        ),
        sa.ForeignKeyConstraint(["dataset_id"], ["dataset.id"], name=op.f("fk_run_dataset_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_run")),
    )
    op.create_index(op.f("ix_run_dataset_id"), "run", ["dataset_id"], unique=False)
    op.create_table(
        "statistic",
        sa.Column("id", ID, nullable=False),
        sa.Column("dataset_id", ID, nullable=False),
        sa.Column("segment", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("canonical", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["dataset_id"], ["dataset.id"], name=op.f("fk_statistic_dataset_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_statistic")),
        sa.UniqueConstraint(
            "dataset_id", "segment", "key", name=op.f("uq_statistic_dataset_id_segment_key")
        ),
        comment="What a state is of. Analyzers that read one state share it.",
    )
    op.create_table(
        "analyzer",
        sa.Column("id", ID, nullable=False),
        sa.Column("dataset_id", ID, nullable=False),
        sa.Column("segment", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("canonical", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("filter", sa.Text(), nullable=True),
        sa.Column("statistic_id", ID, nullable=False),
        sa.ForeignKeyConstraint(
            ["dataset_id"], ["dataset.id"], name=op.f("fk_analyzer_dataset_id")
        ),
        sa.ForeignKeyConstraint(
            ["statistic_id"], ["statistic.id"], name=op.f("fk_analyzer_statistic_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_analyzer")),
        sa.UniqueConstraint(
            "dataset_id", "segment", "key", name=op.f("uq_analyzer_dataset_id_segment_key")
        ),
    )
    op.create_index(op.f("ix_analyzer_statistic_id"), "analyzer", ["statistic_id"], unique=False)
    op.create_table(
        "commit",
        sa.Column("id", ID, autoincrement=False, nullable=False),
        sa.Column("run_id", ID, nullable=True),
        sa.Column("committed_at", TIME, nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_commit_run_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_commit")),
    )
    op.create_index(op.f("ix_commit_committed_at"), "commit", ["committed_at"], unique=False)
    op.create_index(op.f("ix_commit_run_id"), "commit", ["run_id"], unique=False)
    op.create_table(
        "run_tag",
        sa.Column("run_id", ID, nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_run_tag_run_id")),
        sa.PrimaryKeyConstraint("run_id", "key", name=op.f("pk_run_tag")),
    )
    op.create_index(op.f("ix_run_tag_key_value"), "run_tag", ["key", "value"], unique=False)
    op.create_table(
        "incident",
        sa.Column("id", ID, autoincrement=False, nullable=False),
        sa.Column("dataset_id", ID, nullable=False),
        sa.Column("headline", sa.Text(), nullable=False),
        sa.Column("severity", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("first_partition_id", ID, nullable=False),
        sa.Column("last_partition_id", ID, nullable=False),
        sa.Column("updated_at", TIME, nullable=False),
        sa.Column("commit_id", ID, nullable=False),
        sa.ForeignKeyConstraint(["commit_id"], ["commit.id"], name=op.f("fk_incident_commit_id")),
        sa.ForeignKeyConstraint(
            ["dataset_id"], ["dataset.id"], name=op.f("fk_incident_dataset_id")
        ),
        sa.ForeignKeyConstraint(
            ["first_partition_id"], ["partition.id"], name=op.f("fk_incident_first_partition_id")
        ),
        sa.ForeignKeyConstraint(
            ["last_partition_id"], ["partition.id"], name=op.f("fk_incident_last_partition_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_incident")),
    )
    op.create_index(op.f("ix_incident_dataset_id"), "incident", ["dataset_id"], unique=False)
    op.create_table(
        "partition_version",
        sa.Column("partition_id", ID, nullable=False),
        sa.Column("version", ID, autoincrement=False, nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=True),
        sa.Column("rows", ID, nullable=False),
        sa.Column("table_schema_id", ID, nullable=False),
        sa.Column("analyzer_set_id", ID, nullable=False),
        sa.Column("arrived_at", TIME, nullable=True),
        sa.Column("measured_at", TIME, nullable=False),
        sa.Column("run_id", ID, nullable=False),
        sa.Column("commit_id", ID, nullable=False),
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
        sa.Column("id", ID, nullable=False),
        sa.Column("analyzer_id", ID, nullable=False),
        sa.Column("entity", sa.Text(), nullable=False),
        sa.Column("instance", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("scale", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["analyzer_id"], ["analyzer.id"], name=op.f("fk_series_analyzer_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_series")),
        sa.UniqueConstraint(
            "analyzer_id", "name", "instance", name=op.f("uq_series_analyzer_id_name_instance")
        ),
    )
    op.create_table(
        "state",
        sa.Column("statistic_id", ID, nullable=False),
        sa.Column("partition_id", ID, nullable=False),
        sa.Column("version", ID, autoincrement=False, nullable=False),
        sa.Column("tag", sa.Text(), nullable=True),
        sa.Column("payload", sa.LargeBinary(), nullable=True),
        sa.Column("artifact", sa.Text(), nullable=True),
        sa.Column("checksum", sa.Text(), nullable=True),
        sa.Column("run_id", ID, nullable=False),
        sa.Column("commit_id", ID, nullable=False),
        sa.ForeignKeyConstraint(["commit_id"], ["commit.id"], name=op.f("fk_state_commit_id")),
        sa.ForeignKeyConstraint(
            ["partition_id"], ["partition.id"], name=op.f("fk_state_partition_id")
        ),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_state_run_id")),
        sa.ForeignKeyConstraint(
            ["statistic_id"], ["statistic.id"], name=op.f("fk_state_statistic_id")
        ),
        sa.PrimaryKeyConstraint("statistic_id", "partition_id", "version", name=op.f("pk_state")),
    )
    op.create_index(op.f("ix_state_commit_id"), "state", ["commit_id"], unique=False)
    op.create_index(op.f("ix_state_partition_id"), "state", ["partition_id"], unique=False)
    op.create_table(
        "anomaly",
        sa.Column("id", ID, autoincrement=False, nullable=False),
        sa.Column("series_id", ID, nullable=False),
        sa.Column("partition_id", ID, nullable=False),
        sa.Column("version", ID, nullable=False),
        sa.Column("detector", sa.Text(), nullable=False),
        sa.Column("value", sa.Double(), nullable=True),
        sa.Column("expected", sa.Double(), nullable=True),
        sa.Column("lower", sa.Double(), nullable=True),
        sa.Column("upper", sa.Double(), nullable=True),
        sa.Column("score", sa.Double(), nullable=True),
        sa.Column("p_value", sa.Double(), nullable=True),
        sa.Column("direction", sa.Text(), nullable=False),
        sa.Column("severity", sa.Text(), nullable=False),
        sa.Column("explanation", sa.Text(), nullable=False),
        sa.Column("detected_at", TIME, nullable=False),
        sa.Column("incident_id", ID, nullable=True),
        sa.Column("commit_id", ID, nullable=False),
        sa.Column("withdrawn_commit_id", ID, nullable=True),
        sa.ForeignKeyConstraint(["commit_id"], ["commit.id"], name=op.f("fk_anomaly_commit_id")),
        sa.ForeignKeyConstraint(
            ["incident_id"], ["incident.id"], name=op.f("fk_anomaly_incident_id")
        ),
        sa.ForeignKeyConstraint(
            ["partition_id"], ["partition.id"], name=op.f("fk_anomaly_partition_id")
        ),
        sa.ForeignKeyConstraint(["series_id"], ["series.id"], name=op.f("fk_anomaly_series_id")),
        sa.ForeignKeyConstraint(
            ["withdrawn_commit_id"], ["commit.id"], name=op.f("fk_anomaly_withdrawn_commit_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_anomaly")),
        sa.UniqueConstraint(
            "series_id",
            "partition_id",
            "version",
            "detector",
            name=op.f("uq_anomaly_series_id_partition_id_version_detector"),
        ),
    )
    op.create_index(op.f("ix_anomaly_incident_id"), "anomaly", ["incident_id"], unique=False)
    op.create_index(op.f("ix_anomaly_partition_id"), "anomaly", ["partition_id"], unique=False)
    op.create_table(
        "latest_metric",
        sa.Column("series_id", ID, nullable=False),
        sa.Column("partition_id", ID, nullable=False),
        sa.Column("version", ID, nullable=False),
        sa.Column("value", sa.Double(), nullable=True),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("weight", sa.Double(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("run_id", ID, nullable=False),
        sa.Column("commit_id", ID, nullable=False),
        sa.Column("analyzed_at", TIME, nullable=False),
        sa.CheckConstraint(
            "(value IS NOT NULL) = (status = 'finite')", name=op.f("ck_latest_metric_value")
        ),
        sa.CheckConstraint(
            "status IN ('finite', 'NaN', '+inf', '-inf', 'failed', 'empty')",
            name=op.f("ck_latest_metric_status"),
        ),
        sa.ForeignKeyConstraint(
            ["commit_id"], ["commit.id"], name=op.f("fk_latest_metric_commit_id")
        ),
        sa.ForeignKeyConstraint(
            ["partition_id"], ["partition.id"], name=op.f("fk_latest_metric_partition_id")
        ),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_latest_metric_run_id")),
        sa.ForeignKeyConstraint(
            ["series_id"], ["series.id"], name=op.f("fk_latest_metric_series_id")
        ),
        sa.PrimaryKeyConstraint("series_id", "partition_id", name=op.f("pk_latest_metric")),
        sqlite_with_rowid=False,
    )
    op.create_index(
        op.f("ix_latest_metric_partition_id_series_id"),
        "latest_metric",
        ["partition_id", "series_id"],
        unique=False,
    )
    op.create_table(
        "metric",
        sa.Column("series_id", ID, nullable=False),
        sa.Column("partition_id", ID, nullable=False),
        sa.Column("version", ID, autoincrement=False, nullable=False),
        sa.Column("value", sa.Double(), nullable=True),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("weight", sa.Double(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("run_id", ID, nullable=False),
        sa.Column("commit_id", ID, nullable=False),
        sa.Column("analyzed_at", TIME, nullable=False),
        sa.CheckConstraint(
            "(value IS NOT NULL) = (status = 'finite')", name=op.f("ck_metric_value")
        ),
        sa.CheckConstraint(
            "status IN ('finite', 'NaN', '+inf', '-inf', 'failed', 'empty')",
            name=op.f("ck_metric_status"),
        ),
        sa.ForeignKeyConstraint(["commit_id"], ["commit.id"], name=op.f("fk_metric_commit_id")),
        sa.ForeignKeyConstraint(
            ["partition_id"], ["partition.id"], name=op.f("fk_metric_partition_id")
        ),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_metric_run_id")),
        sa.ForeignKeyConstraint(["series_id"], ["series.id"], name=op.f("fk_metric_series_id")),
        sa.PrimaryKeyConstraint("series_id", "partition_id", "version", name=op.f("pk_metric")),
        sqlite_with_rowid=False,
    )
    op.create_index(op.f("ix_metric_commit_id"), "metric", ["commit_id"], unique=False)
    op.create_index(
        op.f("ix_metric_partition_id_series_id"),
        "metric",
        ["partition_id", "series_id"],
        unique=False,
    )
    op.create_table(
        "rollup",
        sa.Column("series_id", ID, nullable=False),
        sa.Column("window_name", sa.Text(), nullable=False),
        sa.Column("window_end", TIME, nullable=False),
        sa.Column("commit_id", ID, nullable=False),
        sa.Column("value", sa.Double(), nullable=True),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("weight", sa.Double(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("tag", sa.Text(), nullable=True),
        sa.Column("payload", sa.LargeBinary(), nullable=True),
        sa.Column("artifact", sa.Text(), nullable=True),
        sa.Column("checksum", sa.Text(), nullable=True),
        sa.Column("inputs", sa.Text(), nullable=False),
        sa.CheckConstraint(
            "(value IS NOT NULL) = (status = 'finite')", name=op.f("ck_rollup_value")
        ),
        sa.CheckConstraint(
            "status IN ('finite', 'NaN', '+inf', '-inf', 'failed', 'empty')",
            name=op.f("ck_rollup_status"),
        ),
        sa.ForeignKeyConstraint(["commit_id"], ["commit.id"], name=op.f("fk_rollup_commit_id")),
        sa.ForeignKeyConstraint(["series_id"], ["series.id"], name=op.f("fk_rollup_series_id")),
        sa.PrimaryKeyConstraint(
            "series_id", "window_name", "window_end", "commit_id", name=op.f("pk_rollup")
        ),
        comment="Windows and totals; inputs names the partition versions that went in.",
    )
    op.create_table(
        "score",
        sa.Column("series_id", ID, nullable=False),
        sa.Column("partition_id", ID, nullable=False),
        sa.Column("version", ID, autoincrement=False, nullable=False),
        sa.Column("detector", sa.Text(), nullable=False),
        sa.Column("commit_id", ID, nullable=False),
        sa.Column("score", sa.Double(), nullable=True),
        sa.Column("p_value", sa.Double(), nullable=True),
        sa.Column("expected", sa.Double(), nullable=True),
        sa.Column("lower", sa.Double(), nullable=True),
        sa.Column("upper", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["commit_id"], ["commit.id"], name=op.f("fk_score_commit_id")),
        sa.ForeignKeyConstraint(
            ["partition_id"], ["partition.id"], name=op.f("fk_score_partition_id")
        ),
        sa.ForeignKeyConstraint(["series_id"], ["series.id"], name=op.f("fk_score_series_id")),
        sa.PrimaryKeyConstraint(
            "series_id", "partition_id", "version", "detector", "commit_id", name=op.f("pk_score")
        ),
        sqlite_with_rowid=False,
    )
    op.create_index(op.f("ix_score_partition_id"), "score", ["partition_id"], unique=False)
    op.create_table(
        "label",
        sa.Column("id", ID, nullable=False),
        sa.Column("dataset_id", ID, nullable=False),
        sa.Column("anomaly_id", ID, nullable=True),
        sa.Column("incident_id", ID, nullable=True),
        sa.Column("series_id", ID, nullable=True),
        sa.Column("partition_id", ID, nullable=True),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("note", sa.Text(), nullable=True),
        sa.Column("by", sa.Text(), nullable=True),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("commit_id", ID, nullable=False),
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
    op.execute("INSERT INTO clock (id, commits, findings) VALUES (1, 0, 0)")
    for view in _VIEWS.values():
        op.execute(view)


def downgrade() -> None:
    for view in _VIEWS:
        op.execute(f"DROP VIEW {view}")
    op.drop_index(op.f("ix_label_incident_id"), table_name="label")
    op.drop_index(op.f("ix_label_dataset_id"), table_name="label")
    op.drop_index(op.f("ix_label_anomaly_id"), table_name="label")
    op.drop_table("label")
    op.drop_index(op.f("ix_score_partition_id"), table_name="score")
    op.drop_table("score")
    op.drop_table("rollup")
    op.drop_index(op.f("ix_metric_partition_id_series_id"), table_name="metric")
    op.drop_index(op.f("ix_metric_commit_id"), table_name="metric")
    op.drop_table("metric")
    op.drop_index(op.f("ix_latest_metric_partition_id_series_id"), table_name="latest_metric")
    op.drop_table("latest_metric")
    op.drop_index(op.f("ix_anomaly_partition_id"), table_name="anomaly")
    op.drop_index(op.f("ix_anomaly_incident_id"), table_name="anomaly")
    op.drop_table("anomaly")
    op.drop_index(op.f("ix_state_partition_id"), table_name="state")
    op.drop_index(op.f("ix_state_commit_id"), table_name="state")
    op.drop_table("state")
    op.drop_table("series")
    op.drop_index(op.f("ix_partition_version_run_id"), table_name="partition_version")
    op.drop_index(op.f("ix_partition_version_commit_id"), table_name="partition_version")
    op.drop_table("partition_version")
    op.drop_index(op.f("ix_incident_dataset_id"), table_name="incident")
    op.drop_table("incident")
    op.drop_index(op.f("ix_run_tag_key_value"), table_name="run_tag")
    op.drop_table("run_tag")
    op.drop_index(op.f("ix_commit_run_id"), table_name="commit")
    op.drop_index(op.f("ix_commit_committed_at"), table_name="commit")
    op.drop_table("commit")
    op.drop_index(op.f("ix_analyzer_statistic_id"), table_name="analyzer")
    op.drop_table("analyzer")
    op.drop_table("statistic")
    op.drop_index(op.f("ix_run_dataset_id"), table_name="run")
    op.drop_table("run")
    op.drop_index(op.f("ix_partition_dataset_id_time"), table_name="partition")
    op.drop_table("partition")
    op.drop_table("table_schema")
    op.drop_table("dataset")
    op.drop_table("clock")
    op.drop_table("analyzer_set")
