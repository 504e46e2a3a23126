"""Notifications of verdicts: the outcome of each check that was sent to each sink."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

ID_TYPE = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
TIME_TYPE = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_index(
        op.f("ix_verdict_dataset_id_partition_key"),
        "verdict",
        ["dataset_id", "partition_key"],
        unique=False,
    )
    op.create_table(
        "verdict_notice",
        sa.Column("dataset_id", ID_TYPE, nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("sink", sa.Text(), nullable=False),
        sa.Column("told", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("attempts", ID_TYPE, nullable=False),
        sa.Column("tried_at", TIME_TYPE, nullable=False),
        sa.Column("sent_at", TIME_TYPE, nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["dataset_id"], ["dataset.id"], name=op.f("fk_verdict_notice_dataset_id")
        ),
        sa.PrimaryKeyConstraint("dataset_id", "subject", "sink", name=op.f("pk_verdict_notice")),
        comment=(
            "Outcome of a check on a partition: the last one sent to a sink, and the one being sent."
        ),
    )


def downgrade() -> None:
    """Drop the notices. After the next upgrade, current failures are sent to the sinks again."""
    op.drop_table("verdict_notice")
    op.drop_index(op.f("ix_verdict_dataset_id_partition_key"), table_name="verdict")
