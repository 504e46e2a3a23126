"""Newest metrics: a partition without a time is the newest only of series that have no other."""

from __future__ import annotations

from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

COLUMNS = ("series_id", "partition_id", "version", "value", "status", "weight", "error", "commit_id")
UNDATED = (
    "SELECT m.series_id FROM metric m JOIN partition p ON p.id = m.partition_id"
    " WHERE p.time IS NULL AND m.superseded_commit_id IS NULL"
)


def upgrade() -> None:
    _order_by("p.time IS NULL, p.time DESC, p.name DESC")


def downgrade() -> None:
    _order_by("p.time IS NOT NULL, p.time DESC, p.name DESC")


def _order_by(order: str) -> None:
    """Find the newest metrics of series with a partition without a time anew, the first by an order."""
    op.execute(f"DELETE FROM newest_metric WHERE series_id IN ({UNDATED})")
    op.execute(
        f"INSERT INTO newest_metric ({', '.join(COLUMNS)}) SELECT {', '.join(COLUMNS)} FROM"
        f" (SELECT {', '.join(f'm.{name}' for name in COLUMNS)},"
        f" row_number() OVER (PARTITION BY m.series_id ORDER BY {order}) AS place"
        " FROM metric m JOIN partition p ON p.id = m.partition_id"
        f" WHERE m.superseded_commit_id IS NULL AND m.series_id IN ({UNDATED})) AS ranked"
        " WHERE place = 1"
    )
