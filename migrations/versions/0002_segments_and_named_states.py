"""Which values are segments, and states kept under a name."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "segment_set",
        sa.Column("id", ID, nullable=False),
        sa.Column("dataset_id", ID, nullable=False),
        sa.Column("columns", sa.Text(), nullable=False),
        sa.Column("generation", ID, nullable=False),
        sa.Column("kept", sa.Text(), nullable=False),
        sa.Column("run_id", ID, nullable=False),
        sa.Column("chosen_at", TIME, nullable=False),
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
        comment="Which values of some columns are segments of their own.",
    )
    op.create_index(op.f("ix_segment_set_run_id"), "segment_set", ["run_id"])
    op.create_table(
        "named_state",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("canonical", sa.Text(), nullable=False),
        sa.Column("tag", sa.Text(), nullable=True),
        sa.Column("payload", sa.LargeBinary(), nullable=True),
        sa.Column("artifact", sa.Text(), nullable=True),
        sa.Column("checksum", sa.Text(), nullable=True),
        sa.Column("stored_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("name", "key", name=op.f("pk_named_state")),
        comment="States that users keep under a name of their own, outside of any run.",
    )


def downgrade() -> None:
    op.drop_table("named_state")
    op.drop_table("segment_set")
