"""Newest metrics: a partition without a time is the newest only if a series has no other."""

from __future__ import annotations

from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

METRIC_COLUMNS = ("series_id", "partition_id", "version", "value", "status", "weight", "error", "commit_id")
UNDATED_SERIES = (
    "SELECT m.series_id FROM metric m JOIN partition p ON p.id = m.partition_id"
    " WHERE p.time IS NULL AND m.superseded_commit_id IS NULL"
)


def upgrade() -> None:
    _order_by("p.time IS NULL, p.time DESC, p.name DESC")


def downgrade() -> None:
    _order_by("p.time IS NOT NULL, p.time DESC, p.name DESC")


def _order_by(order: str) -> None:
    """Rebuild the newest metrics of series that have a partition without a time.

    Parameters
    ----------
    order : str
        SQL order of partitions in which the newest is first.
    """
    op.execute(f"DELETE FROM newest_metric WHERE series_id IN ({UNDATED_SERIES})")
    op.execute(
        f"INSERT INTO newest_metric ({', '.join(METRIC_COLUMNS)}) SELECT {', '.join(METRIC_COLUMNS)} FROM"
        f" (SELECT {', '.join(f'm.{name}' for name in METRIC_COLUMNS)},"
        f" row_number() OVER (PARTITION BY m.series_id ORDER BY {order}) AS place"
        " FROM metric m JOIN partition p ON p.id = m.partition_id"
        f" WHERE m.superseded_commit_id IS NULL AND m.series_id IN ({UNDATED_SERIES})) AS ranked"
        " WHERE place = 1"
    )
