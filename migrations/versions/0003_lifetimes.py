"""Facts hold from one commit until another; leases, roll-ups, findings; names of any length.

Facts and what else nothing refers to are copied aside, made anew and filled again. What others refer
to is altered in place. Going down loses what the older tables have no place for: metrics that users
recorded, roll-ups, and all findings of an anomaly but the last. A database that was cleaned does not go
down.
"""

from __future__ import annotations

import hashlib
import json

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
TIME = sa.DateTime(timezone=True)
_STATUSES = "status = 'finite' OR status IN ('NaN', '+inf', '-inf', 'failed', 'empty')"
_OLD_STATUSES = "status IN ('finite', 'NaN', '+inf', '-inf', 'failed', 'empty')"

_SERIES = """
    d.name AS dataset, s.segment AS segment, p.name AS "partition", p.time AS "time",
    e.entity AS entity, e.name AS name, e.instance AS instance"""
_JOINS = """
    JOIN series e ON e.id = m.series_id
    JOIN analyzer s ON s.id = e.analyzer_id
    JOIN dataset d ON d.id = s.dataset_id
    JOIN "partition" p ON p.id = m.partition_id"""
_METRIC = f"""{_SERIES},
    m.value AS value, m.weight AS weight, m.status AS status, m.error AS error,
    m.version AS version, c.run_id AS run_id, m.commit_id AS commit_id,
    c.committed_at AS analyzed_at, s.text AS analyzer"""
_COMMIT = 'JOIN "commit" c ON c.id = m.commit_id'

VIEWS = {
    "v_metric": f"""SELECT {_METRIC}, m.superseded_commit_id AS superseded_commit_id
    FROM metric m {_JOINS} {_COMMIT}""",
    "v_latest_metric": f"""SELECT {_METRIC} FROM metric m {_JOINS} {_COMMIT}
    WHERE m.superseded_commit_id IS NULL""",
    "v_newest_metric": f"SELECT {_METRIC} FROM newest_metric m {_JOINS} {_COMMIT}",
    "v_anomaly": f"""SELECT a.id AS id, {_SERIES},
    m.version AS version, f.value AS value, f.expected AS expected, f.lower AS lower,
    f.upper AS upper, f.score AS score, f.p_value AS p_value, f.direction AS direction,
    m.detector AS detector, f.severity AS severity, f.explanation AS explanation,
    m.detected_at AS detected_at, m.incident_id AS incident_id, s.text AS analyzer
    FROM anomaly m JOIN anomaly a ON a.id = m.id {_JOINS}
    JOIN finding f ON f.anomaly_id = m.id AND f.superseded_commit_id IS NULL""",
    "v_restatement": f"""SELECT {_SERIES}, s.text AS analyzer,
    m.value AS old_value, m.status AS old_status, n.value AS new_value, n.status AS new_status,
    m.version AS old_version, n.version AS new_version,
    b.run_id AS old_run_id, c.run_id AS new_run_id, c.committed_at AS restated_at
    FROM metric m {_JOINS} JOIN "commit" b ON b.id = m.commit_id
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
    "v_label": """SELECT d.name AS dataset, l.anomaly_id AS anomaly_id,
    l.incident_id AS incident_id, l.label AS label, l.note AS note, l.by AS "by",
    l.created_at AS created_at FROM label l JOIN dataset d ON d.id = l.dataset_id""",
}


def upgrade() -> None:
    for view in ("v_metric", "v_latest_metric", "v_anomaly"):
        op.execute(f"DROP VIEW {view}")
    _alter_dimensions()
    _make_new()
    _fill_lifetimes()
    for view, query in VIEWS.items():
        op.execute(f"CREATE VIEW {view} AS {query}")


def _alter_dimensions() -> None:
    """Let hashes of names be unique, not names: an index cannot hold long ones."""
    swapped = {
        "statistic": (["dataset_id", "segment", "key"], ["dataset_id", "key", "segment_key"]),
        "analyzer": (["dataset_id", "segment", "key"], ["dataset_id", "key", "segment_key"]),
        "series": (["analyzer_id", "name", "instance"], ["analyzer_id", "key"]),
        "partition": (["dataset_id", "name"], ["dataset_id", "key"]),
    }
    hashed = {
        "statistic": ("segment_key", "segment"),
        "analyzer": ("segment_key", "segment"),
        "series": ("key", "name", "instance"),
        "partition": ("key", "name"),
    }
    for table, (old, new) in swapped.items():
        column, *sources = hashed[table]
        op.add_column(table, sa.Column(column, sa.Text(), nullable=True))
        _fill_hashes(table, column, sources)
        with op.batch_alter_table(table) as batch:
            batch.alter_column(column, existing_type=sa.Text(), nullable=False)
            batch.drop_constraint(f"uq_{table}_{'_'.join(old)}", type_="unique")
            batch.create_unique_constraint(op.f(f"uq_{table}_{'_'.join(new)}"), new)
            if table == "analyzer":
                batch.alter_column("statistic_id", existing_type=ID, nullable=True)
    _order_names('COLLATE "C"')
    _comment("series", None, "Names are unbounded, so hashes of them are what is unique.")
    _comment("analyzer", None, "What was measured; one without a statistic has no states.")
    with op.batch_alter_table("run") as batch:
        batch.add_column(sa.Column("fence", ID, nullable=True))
    op.drop_index("ix_run_tag_key_value", table_name="run_tag")
    with op.batch_alter_table("clock") as batch:
        batch.add_column(sa.Column("horizon", ID, server_default="0", nullable=False))
    _comment("clock", _CLOCK, _CLOCK_NOW)
    with op.batch_alter_table("partition_version") as batch:
        batch.add_column(sa.Column("superseded_commit_id", ID, nullable=True))


_CLOCK = "One row: the last commit and the last id of an anomaly or incident. Writers lock it."
_CLOCK_NOW = (
    "One row: the last commit, the last id of an anomaly or incident, and the first commit as"
    " of which the past is whole. Writers lock it."
)


def _comment(table: str, old: str | None, new: str | None) -> None:
    if op.get_bind().dialect.name != "sqlite":
        if new is None:
            op.drop_table_comment(table, existing_comment=old)
        else:
            op.create_table_comment(table, new, existing_comment=old)


def _order_names(collation: str) -> None:
    """Partitions are put in order by their names, the same one in every database."""
    if op.get_bind().dialect.name != "sqlite":
        op.execute(f'ALTER TABLE "partition" ALTER COLUMN name TYPE TEXT {collation}')


def _fill_hashes(table: str, column: str, sources: list[str]) -> None:
    bind = op.get_bind()
    t = sa.table(table, sa.column("id"), *(sa.column(name) for name in (column, *sources)))
    rows = bind.execute(sa.select(t.c.id, *(t.c[name] for name in sources))).all()
    change = sa.update(t).where(t.c.id == sa.bindparam("of")).values({column: sa.bindparam("hash")})
    hashes = [{"of": row[0], "hash": _hash(row[1:])} for row in rows]
    if hashes:
        bind.execute(change, hashes)


def _hash(names: tuple[str, ...]) -> str:
    whole = len(names) > 1
    text = json.dumps(list(names), separators=(",", ":"), ensure_ascii=False) if whole else names[0]
    return hashlib.sha256(text.encode()).hexdigest()


def _aside(table: str) -> None:
    """Copy a table to which nothing refers, and drop it."""
    op.execute(f"CREATE TABLE {table}_old AS SELECT * FROM {table}")
    op.drop_table(table)


def _outcome(table: str, statuses: str = _STATUSES) -> list[sa.schema.SchemaItem]:
    return [
        sa.Column("value", sa.Double(), nullable=True),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("weight", sa.Double(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.CheckConstraint(statuses, name=op.f(f"ck_{table}_status")),
        sa.CheckConstraint("(value IS NOT NULL) = (status = 'finite')", name=op.f(f"ck_{table}_value")),
    ]


def _payload() -> list[sa.Column[object]]:
    return [
        sa.Column("tag", sa.Text(), nullable=True),
        sa.Column("payload", sa.LargeBinary(), nullable=True),
        sa.Column("artifact", sa.Text(), nullable=True),
        sa.Column("checksum", sa.Text(), nullable=True),
    ]


def _number(name: str, *, null: bool = False) -> sa.Column[int]:
    return sa.Column(name, ID, autoincrement=False, nullable=null)


def _make_new() -> None:
    for table in ("metric", "state", "score"):
        _aside(table)
    op.drop_table("latest_metric")
    op.drop_table("rollup")
    op.create_table(
        "metric",
        *map(_number, ("partition_id", "series_id", "version")),
        *_outcome("metric"),
        _number("commit_id"),
        _number("superseded_commit_id", null=True),
        sa.PrimaryKeyConstraint("partition_id", "series_id", "version", name=op.f("pk_metric")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "newest_metric",
        *map(_number, ("series_id", "partition_id", "version")),
        *_outcome("newest_metric"),
        _number("commit_id"),
        sa.PrimaryKeyConstraint("series_id", name=op.f("pk_newest_metric")),
        sqlite_with_rowid=False,
        comment="The metric of each series in its newest partition: a copy that is kept with the facts.",
    )
    op.create_table(
        "state",
        *map(_number, ("statistic_id", "partition_id", "version")),
        *_payload(),
        _number("commit_id"),
        sa.ForeignKeyConstraint(["partition_id"], ["partition.id"], name=op.f("fk_state_partition_id")),
        sa.ForeignKeyConstraint(["statistic_id"], ["statistic.id"], name=op.f("fk_state_statistic_id")),
        sa.PrimaryKeyConstraint("statistic_id", "partition_id", "version", name=op.f("pk_state")),
    )
    op.create_index(op.f("ix_state_partition_id"), "state", ["partition_id"])
    op.create_index(op.f("ix_state_commit_id"), "state", ["commit_id"])
    op.create_table(
        "score",
        *map(_number, ("partition_id", "series_id", "version")),
        sa.Column("detector", sa.Text(), nullable=False),
        _number("commit_id"),
        *(sa.Column(name, sa.Double(), nullable=True) for name in _SCORES),
        sa.PrimaryKeyConstraint(
            "partition_id", "series_id", "version", "detector", "commit_id", name=op.f("pk_score")
        ),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "input_set",
        sa.Column("id", ID, nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("inputs", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_input_set")),
        sa.UniqueConstraint("key", name=op.f("uq_input_set_key")),
        comment="Partitions and versions that went into a roll-up, as canonical JSON of pairs.",
    )
    op.create_table(
        "rollup",
        _number("series_id"),
        sa.Column("window_name", sa.Text(), nullable=False),
        sa.Column("window_end", TIME, nullable=False),
        _number("commit_id"),
        _number("superseded_commit_id", null=True),
        sa.Column("window_start", TIME, nullable=True),
        sa.Column("newest_at", TIME, nullable=True),
        *_outcome("rollup"),
        sa.Column("input_set_id", ID, nullable=False),
        sa.ForeignKeyConstraint(["input_set_id"], ["input_set.id"], name=op.f("fk_rollup_input_set_id")),
        sa.PrimaryKeyConstraint(
            "series_id", "window_name", "window_end", "commit_id", name=op.f("pk_rollup")
        ),
        sqlite_with_rowid=False,
        comment="Metrics of windows of partitions, and of all; the total's end is the end of time.",
    )
    op.create_index(op.f("ix_rollup_input_set_id"), "rollup", ["input_set_id"])
    op.create_table(
        "rolled",
        _number("dataset_id"),
        sa.Column("window_name", sa.Text(), nullable=False),
        _number("commit_id"),
        _number("analyzer_id"),
        sa.ForeignKeyConstraint(["dataset_id"], ["dataset.id"], name=op.f("fk_rolled_dataset_id")),
        sa.PrimaryKeyConstraint("dataset_id", "window_name", name=op.f("pk_rolled")),
        comment="Up to which commit and analyzer the roll-ups of a dataset are made.",
    )
    op.create_table(
        "folded_state",
        _number("statistic_id"),
        sa.Column("fold", sa.Text(), nullable=False),
        *_payload(),
        sa.Column("input_set_id", ID, nullable=False),
        _number("commit_id"),
        sa.ForeignKeyConstraint(
            ["statistic_id"], ["statistic.id"], name=op.f("fk_folded_state_statistic_id")
        ),
        sa.ForeignKeyConstraint(
            ["input_set_id"], ["input_set.id"], name=op.f("fk_folded_state_input_set_id")
        ),
        sa.PrimaryKeyConstraint("statistic_id", "fold", name=op.f("pk_folded_state")),
        comment="States added up over many partitions: the total, and what was removed.",
    )
    op.create_table(
        "lease",
        sa.Column("dataset", sa.Text(), nullable=False),
        sa.Column("fence", ID, nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("pid", ID, nullable=False),
        sa.Column("expires_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("dataset", name=op.f("pk_lease")),
        comment="Who measures a dataset. The fence grows whenever a lease is taken.",
    )
    op.create_table(
        "absence",
        _number("partition_id"),
        _number("commit_id"),
        _number("superseded_commit_id", null=True),
        sa.ForeignKeyConstraint(["partition_id"], ["partition.id"], name=op.f("fk_absence_partition_id")),
        sa.PrimaryKeyConstraint("partition_id", "commit_id", name=op.f("pk_absence")),
        comment="When a partition was missing from its table.",
    )
    op.create_table(
        "finding",
        _number("anomaly_id"),
        _number("commit_id"),
        _number("superseded_commit_id", null=True),
        sa.Column("value", sa.Double(), nullable=True),
        *(sa.Column(name, sa.Double(), nullable=True) for name in _BAND),
        *(sa.Column(name, sa.Text(), nullable=False) for name in _TEXTS),
        sa.ForeignKeyConstraint(["anomaly_id"], ["anomaly.id"], name=op.f("fk_finding_anomaly_id")),
        sa.PrimaryKeyConstraint("anomaly_id", "commit_id", name=op.f("pk_finding")),
        comment="What a detection found of an anomaly, until the next; one without any is withdrawn.",
    )


_SCORES = ("score", "p_value", "expected", "lower", "upper")
_BAND = ("expected", "lower", "upper", "score", "p_value")
_TEXTS = ("direction", "severity", "explanation")


def _fill_lifetimes() -> None:
    op.execute(
        """UPDATE partition_version SET superseded_commit_id = (SELECT MIN(n.commit_id)
        FROM partition_version n WHERE n.partition_id = partition_version.partition_id
        AND n.version > partition_version.version)"""
    )
    op.execute(
        """INSERT INTO metric (partition_id, series_id, version, value, status, weight, error,
        commit_id, superseded_commit_id)
        SELECT m.partition_id, m.series_id, m.version, m.value, m.status, m.weight, m.error,
        m.commit_id, v.superseded_commit_id FROM metric_old m
        LEFT JOIN partition_version v ON v.partition_id = m.partition_id AND v.version = m.version
        ORDER BY m.partition_id, m.series_id, m.version"""
    )
    # The end of time stands for partitions without one; among equal times the name decides.
    op.execute(
        """INSERT INTO newest_metric (series_id, partition_id, version, value, status, weight,
        error, commit_id)
        SELECT series_id, partition_id, version, value, status, weight, error, commit_id FROM (
        SELECT m.*, ROW_NUMBER() OVER (PARTITION BY m.series_id
        ORDER BY p.time IS NULL DESC, p.time DESC, p.name DESC) AS place
        FROM metric m JOIN "partition" p ON p.id = m.partition_id
        WHERE m.superseded_commit_id IS NULL) AS ranked WHERE place = 1"""
    )
    columns = "statistic_id, partition_id, version, tag, payload, artifact, checksum, commit_id"
    op.execute(f"INSERT INTO state ({columns}) SELECT {columns} FROM state_old")
    columns = f"partition_id, series_id, version, detector, commit_id, {', '.join(_SCORES)}"
    op.execute(f"INSERT INTO score ({columns}) SELECT {columns} FROM score_old")
    op.execute(
        """INSERT INTO absence (partition_id, commit_id) SELECT p.id, MAX(c.id)
        FROM "partition" p JOIN "commit" c ON c.committed_at <= p.gone_at GROUP BY p.id"""
    )
    columns = f"value, {', '.join((*_BAND, *_TEXTS))}"
    op.execute(
        f"""INSERT INTO finding (anomaly_id, commit_id, superseded_commit_id, {columns})
        SELECT id, commit_id, withdrawn_commit_id, {columns} FROM anomaly"""
    )
    for table in ("metric", "state", "score"):
        op.drop_table(f"{table}_old")
    with op.batch_alter_table("partition") as batch:
        batch.drop_column("gone_at")
    with op.batch_alter_table("anomaly") as batch:
        batch.drop_constraint("fk_anomaly_commit_id", type_="foreignkey")
        batch.drop_constraint("fk_anomaly_withdrawn_commit_id", type_="foreignkey")
        for column in ("value", *_BAND, *_TEXTS, "commit_id", "withdrawn_commit_id"):
            batch.drop_column(column)
    _comment("anomaly", None, _ANOMALY)


_ANOMALY = "A point that stood out, for ever under one id; what was found of it is in finding."


def downgrade() -> None:
    clock, folds = sa.table("clock", sa.column("horizon")), sa.table("folded_state", sa.column("fold"))
    cleaned = op.get_bind().execute(sa.select(clock.c.horizon)).scalar()
    removed = sa.select(sa.func.count()).select_from(folds).where(folds.c.fold == "removed")
    if cleaned or op.get_bind().execute(removed).scalar():
        msg = (
            "this database was cleaned, which revision 0002 knows nothing of: its past views would be"
            " wrong and the sums of removed states be lost; restore a backup instead"
        )
        raise RuntimeError(msg)
    for view in VIEWS:
        op.execute(f"DROP VIEW {view}")
    _restore_anomalies()
    _restore_facts()
    _restore_dimensions()
    columns = f"""{_SERIES}, m.value AS value, m.weight AS weight, m.status AS status,
    m.error AS error, m.version AS version, m.run_id AS run_id, m.commit_id AS commit_id,
    m.analyzed_at AS analyzed_at, s.text AS analyzer"""
    for view, table in (("v_metric", "metric"), ("v_latest_metric", "latest_metric")):
        op.execute(f"CREATE VIEW {view} AS SELECT {columns} FROM {table} m {_JOINS}")
    op.execute(
        f"""CREATE VIEW v_anomaly AS SELECT m.id AS id, {_SERIES},
        m.version AS version, m.value AS value, m.expected AS expected, m.lower AS lower,
        m.upper AS upper, m.score AS score, m.p_value AS p_value, m.direction AS direction,
        m.detector AS detector, m.severity AS severity, m.explanation AS explanation,
        m.detected_at AS detected_at, m.incident_id AS incident_id, s.text AS analyzer
        FROM anomaly m {_JOINS} WHERE m.withdrawn_commit_id IS NULL"""
    )


def _restore_anomalies() -> None:
    columns = ("value", *_BAND)
    for name in columns:
        op.add_column("anomaly", sa.Column(name, sa.Double(), nullable=True))
    for name in _TEXTS:
        op.add_column("anomaly", sa.Column(name, sa.Text(), nullable=True))
    for name in ("commit_id", "withdrawn_commit_id"):
        op.add_column("anomaly", sa.Column(name, ID, nullable=True))
    last = """(SELECT {} FROM finding f WHERE f.anomaly_id = anomaly.id AND f.commit_id =
        (SELECT MAX(g.commit_id) FROM finding g WHERE g.anomaly_id = anomaly.id))"""
    taken = [f"{name} = {last.format('f.' + name)}" for name in (*columns, *_TEXTS, "commit_id")]
    taken.append(f"withdrawn_commit_id = {last.format('f.superseded_commit_id')}")
    op.execute(f"UPDATE anomaly SET {', '.join(taken)}")
    with op.batch_alter_table("anomaly") as batch:
        for name in _TEXTS:
            batch.alter_column(name, existing_type=sa.Text(), nullable=False)
        batch.alter_column("commit_id", existing_type=ID, nullable=False)
        for name in ("commit_id", "withdrawn_commit_id"):
            batch.create_foreign_key(op.f(f"fk_anomaly_{name}"), "commit", [name], ["id"])
    _comment("anomaly", _ANOMALY, None)
    op.drop_table("finding")


def _references(table: str, *targets: str) -> list[sa.ForeignKeyConstraint]:
    return [
        sa.ForeignKeyConstraint([f"{t}_id"], [f"{t}.id"], name=op.f(f"fk_{table}_{t}_id"))
        for t in targets
    ]


def _restore_facts() -> None:
    for table in ("metric", "state", "score"):
        _aside(table)
    for table in ("newest_metric", "rollup", "rolled", "folded_state", "input_set", "lease"):
        op.drop_table(table)
    for table in ("metric", "latest_metric"):
        last = ["version"] if table == "metric" else []
        op.create_table(
            table,
            *map(_number, ("series_id", "partition_id", "version")),
            *_outcome(table, _OLD_STATUSES),
            *map(_number, ("run_id", "commit_id")),
            sa.Column("analyzed_at", TIME, nullable=False),
            *_references(table, "series", "partition", "run", "commit"),
            sa.PrimaryKeyConstraint("series_id", "partition_id", *last, name=op.f(f"pk_{table}")),
            sqlite_with_rowid=False,
        )
        op.create_index(
            op.f(f"ix_{table}_partition_id_series_id"), table, ["partition_id", "series_id"]
        )
        current = "" if table == "metric" else "AND m.superseded_commit_id IS NULL"
        columns = "series_id, partition_id, version, value, status, weight, error"
        op.execute(
            f"""INSERT INTO {table} ({columns}, run_id, commit_id, analyzed_at)
            SELECT {", ".join(f"m.{c}" for c in columns.split(", "))}, c.run_id, m.commit_id,
            c.committed_at FROM metric_old m JOIN "commit" c ON c.id = m.commit_id
            WHERE c.run_id IS NOT NULL {current}"""
        )
    op.create_index(op.f("ix_metric_commit_id"), "metric", ["commit_id"])
    op.create_table(
        "state",
        *map(_number, ("statistic_id", "partition_id", "version")),
        *_payload(),
        *map(_number, ("run_id", "commit_id")),
        *_references("state", "statistic", "partition", "run", "commit"),
        sa.PrimaryKeyConstraint("statistic_id", "partition_id", "version", name=op.f("pk_state")),
    )
    op.create_index(op.f("ix_state_commit_id"), "state", ["commit_id"])
    op.create_index(op.f("ix_state_partition_id"), "state", ["partition_id"])
    columns = "statistic_id, partition_id, version, tag, payload, artifact, checksum"
    op.execute(
        f"""INSERT INTO state ({columns}, run_id, commit_id) SELECT {columns}, c.run_id, c.id
        FROM state_old m JOIN "commit" c ON c.id = m.commit_id WHERE c.run_id IS NOT NULL"""
    )
    op.create_table(
        "score",
        *map(_number, ("series_id", "partition_id", "version")),
        sa.Column("detector", sa.Text(), nullable=False),
        _number("commit_id"),
        *(sa.Column(name, sa.Double(), nullable=True) for name in _SCORES),
        *_references("score", "series", "partition", "commit"),
        sa.PrimaryKeyConstraint(
            "series_id", "partition_id", "version", "detector", "commit_id", name=op.f("pk_score")
        ),
        sqlite_with_rowid=False,
    )
    op.create_index(op.f("ix_score_partition_id"), "score", ["partition_id"])
    columns = f"partition_id, series_id, version, detector, commit_id, {', '.join(_SCORES)}"
    op.execute(f"INSERT INTO score ({columns}) SELECT {columns} FROM score_old")
    for table in ("metric", "state", "score"):
        op.drop_table(f"{table}_old")
    op.create_table(
        "rollup",
        _number("series_id"),
        sa.Column("window_name", sa.Text(), nullable=False),
        sa.Column("window_end", TIME, nullable=False),
        _number("commit_id"),
        *_outcome("rollup", _OLD_STATUSES),
        *_payload(),
        sa.Column("inputs", sa.Text(), nullable=False),
        *_references("rollup", "series", "commit"),
        sa.PrimaryKeyConstraint(
            "series_id", "window_name", "window_end", "commit_id", name=op.f("pk_rollup")
        ),
        comment="Windows and totals; inputs names the partition versions that went in.",
    )


def _restore_dimensions() -> None:
    op.add_column("partition", sa.Column("gone_at", TIME, nullable=True))
    op.execute(
        """UPDATE "partition" SET gone_at = (SELECT c.committed_at FROM absence a
        JOIN "commit" c ON c.id = a.commit_id
        WHERE a.partition_id = "partition".id AND a.superseded_commit_id IS NULL)"""
    )
    op.drop_table("absence")
    # What only recorded metrics refer to has no place: nothing measured it.
    op.execute("DELETE FROM label WHERE anomaly_id IN (SELECT m.id FROM anomaly m" + _RECORDED + ")")
    op.execute("DELETE FROM anomaly WHERE series_id IN (SELECT m.series_id FROM anomaly m" + _RECORDED + ")")
    op.execute("DELETE FROM score WHERE series_id IN (SELECT m.series_id FROM score m" + _RECORDED + ")")
    op.execute(
        """DELETE FROM series WHERE analyzer_id IN
        (SELECT id FROM analyzer WHERE statistic_id IS NULL)"""
    )
    op.execute("DELETE FROM analyzer WHERE statistic_id IS NULL")
    with op.batch_alter_table("partition_version") as batch:
        batch.drop_column("superseded_commit_id")
    with op.batch_alter_table("clock") as batch:
        batch.drop_column("horizon")
    _comment("clock", _CLOCK_NOW, _CLOCK)
    op.create_index(op.f("ix_run_tag_key_value"), "run_tag", ["key", "value"])
    with op.batch_alter_table("run") as batch:
        batch.drop_column("fence")
    for table, (column, old, new) in {
        "statistic": ("segment_key", ["dataset_id", "key", "segment_key"], ["dataset_id", "segment", "key"]),
        "analyzer": ("segment_key", ["dataset_id", "key", "segment_key"], ["dataset_id", "segment", "key"]),
        "series": ("key", ["analyzer_id", "key"], ["analyzer_id", "name", "instance"]),
        "partition": ("key", ["dataset_id", "key"], ["dataset_id", "name"]),
    }.items():
        with op.batch_alter_table(table) as batch:
            batch.drop_constraint(f"uq_{table}_{'_'.join(old)}", type_="unique")
            batch.create_unique_constraint(op.f(f"uq_{table}_{'_'.join(new)}"), new)
            batch.drop_column(column)
            if table == "analyzer":
                batch.alter_column("statistic_id", existing_type=ID, nullable=False)
    _order_names("")
    _comment("series", "Names are unbounded, so hashes of them are what is unique.", None)
    _comment("analyzer", "What was measured; one without a statistic has no states.", None)


_RECORDED = """ JOIN series e ON e.id = m.series_id
    JOIN analyzer s ON s.id = e.analyzer_id WHERE s.statistic_id IS NULL"""
