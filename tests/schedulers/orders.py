"""A folder of orders and a suite file for it, for jobs of schedulers."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

SUITE = """
dataset: orders
path: {folder}
partition_by: [ds]
analyzers: [Size, Completeness('email')]
dqm:
  rules:
    - BoundRule: {{column: amount, lower: 0}}
  policies:
    - FailTotalRuleCountPolicy: 1
"""


def make_orders(folder: Path) -> Path:
    """Write three days; the last one has a bad record. Return the suite file."""
    for day, amounts in (("01", [1, 2, 3]), ("02", [4, 5]), ("03", [6, -7])):
        place = folder / "orders" / f"ds=2024-01-{day}"
        place.mkdir(parents=True)
        emails = [f"{amount}@example.org" for amount in amounts]
        pq.write_table(pa.table({"amount": amounts, "email": emails}), place / "part-0.parquet")
    suite = folder / "orders.yml"
    suite.write_text(SUITE.format(folder=folder / "orders"))
    return suite
