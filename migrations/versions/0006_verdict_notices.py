"""Notifications of verdicts: which outcome of a check each sink was told."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_index(
        op.f("ix_verdict_dataset_id_partition_key"),
        "verdict",
        ["dataset_id", "partition_key"],
        unique=False,
    )
    op.create_table(
        "verdict_notice",
        sa.Column("dataset_id", ID, nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("sink", sa.Text(), nullable=False),
        sa.Column("told", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("attempts", ID, nullable=False),
        sa.Column("tried_at", TIME, nullable=False),
        sa.Column("sent_at", TIME, nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["dataset_id"], ["dataset.id"], name=op.f("fk_verdict_notice_dataset_id")
        ),
        sa.PrimaryKeyConstraint("dataset_id", "subject", "sink", name=op.f("pk_verdict_notice")),
        comment=(
            "Which outcome of a check on a partition a sink was told last, and which one it is being told."
        ),
    )


def downgrade() -> None:
    """Drop the notices: after the next upgrade, sinks are notified again of standing failures."""
    op.drop_table("verdict_notice")
    op.drop_index(op.f("ix_verdict_dataset_id_partition_key"), table_name="verdict")
