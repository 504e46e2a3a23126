"""Runs: the number of measurements by route, such as metadata or Spark SQL."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the routes, which are unknown for earlier runs."""
    op.add_column("run", sa.Column("routes", sa.Text(), nullable=True))


def downgrade() -> None:
    op.drop_column("run", "routes")
