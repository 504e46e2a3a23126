"""Verdicts: what checks of rules found in data. Datasets may be there before anything is measured of them.

Going down loses all verdicts, and the datasets of which nothing else is known.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
TIME = sa.DateTime(timezone=True)
_TEXTS = ("name", "partition", "partition_key", "fingerprint", "specification", "key")

_VERDICT = """CREATE VIEW v_verdict AS SELECT v.id AS id, d.name AS dataset, v.name AS name,
    v."partition" AS "partition", p.time AS "time", v.fingerprint AS fingerprint,
    v.specification AS specification, v.passed AS passed, v.checked_at AS checked_at,
    v.run_id AS run_id, v.result AS result
    FROM verdict v JOIN dataset d ON d.id = v.dataset_id
    LEFT JOIN "partition" p ON p.dataset_id = v.dataset_id AND p.key = v.partition_key
    WHERE NOT EXISTS (SELECT 1 FROM verdict n WHERE n.dataset_id = v.dataset_id
        AND n.key = v.key AND n.commit_id > v.commit_id)"""

_OF_DATASETS = (
    *("statistic", "analyzer", "run", "segment_set", "partition"),
    *("rolled", "scored", "incident", "label"),
)


def upgrade() -> None:
    op.create_table(
        "verdict",
        sa.Column("id", ID, nullable=False),
        sa.Column("dataset_id", ID, nullable=False),
        *(sa.Column(name, sa.Text(), nullable=False) for name in _TEXTS),
        sa.Column("passed", ID, nullable=False),
        sa.Column("result", sa.Text(), nullable=False),
        sa.Column("run_id", ID, nullable=True),
        sa.Column("checked_at", TIME, nullable=False),
        sa.Column("commit_id", ID, nullable=False),
        *(
            sa.ForeignKeyConstraint(
                [f"{target}_id"], [f"{target}.id"], name=op.f(f"fk_verdict_{target}_id")
            )
            for target in ("dataset", "run", "commit")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_verdict")),
        sa.UniqueConstraint(
            "dataset_id", "key", "commit_id", name=op.f("uq_verdict_dataset_id_key_commit_id")
        ),
        comment="What checks of rules found in data. Append-only; the newest of a key counts.",
    )
    op.create_index(op.f("ix_verdict_run_id"), "verdict", ["run_id"])
    op.execute(_VERDICT)


def downgrade() -> None:
    op.execute("DROP VIEW v_verdict")
    op.drop_table("verdict")
    # The older code takes no run of a dataset whose keys are not known: one without any is made anew.
    dataset = sa.table("dataset", sa.column("id"), sa.column("keys"))
    unbound = dataset.c["keys"] == "null"
    others = (sa.table(name, sa.column("dataset_id")) for name in _OF_DATASETS)
    used = sa.union(*(sa.select(other.c.dataset_id) for other in others))
    op.execute(sa.delete(dataset).where(unbound, dataset.c.id.not_in(used)))
    op.execute(sa.update(dataset).where(unbound).values(keys="[]"))
