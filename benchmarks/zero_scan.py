"""Zero-scan share: how many metrics of proposed suites each route answers, and the bytes that it reads.

    python benchmarks/zero_scan.py [--rows 20000] [--days 3] [--json FILE]

`tidegauge profile` proposes a suite for each of ten generated tables. The same rows are written as a folder of
Parquet files, a Delta table and an Iceberg table by pyarrow, deltalake and pyiceberg, partitioned by day. Then
all metrics of all partitions are measured.

Columns:

- metrics: analyzers of the suite, times partitions.
- metadata, columns, Spark: share of the metrics that each route answers.
- log, footers, data: bytes read per partition, without Spark: the table's log, the files' footers, and the compressed
  columns.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

# Import packages from the checkout, not the scripts beside this one that have their names.
sys.path[0] = str(Path(__file__).resolve().parents[1])

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import write_deltalake
from pyiceberg.catalog.sql import SqlCatalog

import tidegauge as tg
from tidegauge.analyzers.columnar.engines import LazySession, Route
from tidegauge.analyzers.columnar.planner import ColumnarPlanner, PartitionFiles
from tidegauge.analyzers.columnar.table_logs import TablePartition, read_iceberg
from tidegauge.analyzers.sources.opening import open_folder

FORMATS = ("parquet", "delta", "iceberg")
WORDS = np.array(["alpha", "beta", "gamma", "delta", "epsilon"])
Columns = dict[str, Any]


def with_nulls(random: np.random.Generator, values: Any, share: float) -> pa.Array:
    """Return values, some of which are null."""
    return pa.array(values, mask=random.random(len(values)) < share)


def money(random: np.random.Generator, rows: int) -> pa.Array:
    """Return positive decimals with two places."""
    return pa.array(np.round(random.lognormal(3, 1, rows), 2)).cast(
        pa.decimal128(12, 2), safe=False
    )


def times(random: np.random.Generator, rows: int) -> pa.Array:
    """Return times of one day."""
    start = 1_767_225_600_000_000
    return pa.array(start + random.integers(0, 86_400_000_000, rows), pa.timestamp("us", "UTC"))


def words(random: np.random.Generator, rows: int, share: float = 0.0) -> pa.Array:
    """Return categories."""
    return with_nulls(random, random.choice(WORDS, rows), share)


def texts(rows: int, form: str) -> list[str]:
    """Return distinct strings."""
    return [form.format(i) for i in range(rows)]


TABLES: Mapping[str, Callable[[np.random.Generator, int], Columns]] = {
    "orders": lambda r, n: {
        "order_id": np.arange(n),
        "customer": r.integers(1, n, n),
        "amount": money(r, n),
        "quantity": r.integers(1, 20, n),
        "status": words(r, n),
        "created": times(r, n),
        "note": with_nulls(r, texts(n, "note {}"), 0.8),
    },
    "clicks": lambda r, n: {
        "at": times(r, n),
        "session": r.integers(0, 10**9, n),
        "url": texts(n, "https://example.org/{}"),
        "duration": with_nulls(r, r.integers(0, 10**6, n), 0.1),
        "is_bot": r.random(n) < 0.1,
    },
    "sensors": lambda r, n: {
        "at": times(r, n),
        "device": r.integers(0, 500, n),
        "temperature": r.normal(20, 5, n),
        "humidity": with_nulls(r, r.uniform(0, 100, n), 0.02),
        "battery": r.integers(0, 101, n),
    },
    "users": lambda r, n: {
        "user_id": np.arange(n),
        "email": texts(n, "user{}@example.org"),
        "birthday": pa.array(r.integers(0, 15_000, n), pa.int32()).cast(pa.date32()),
        "country": words(r, n, 0.05),
        "logins": r.integers(0, 1000, n),
    },
    "payments": lambda r, n: {
        "payment_id": texts(n, "p-{:08}"),
        "amount": money(r, n),
        "fee": money(r, n),
        "currency": words(r, n),
        "booked": times(r, n),
        "settled": pa.array(r.integers(20_454, 20_500, n), pa.int32()).cast(pa.date32()),
    },
    "inventory": lambda r, n: {
        "sku": texts(n, "SKU{}"),
        "stock": r.integers(0, 500, n),
        "reserved": r.integers(0, 50, n),
        "warehouse": r.integers(1, 9, n),
        "counted": pa.array(r.integers(20_000, 20_454, n), pa.int32()).cast(pa.date32()),
    },
    "events": lambda r, n: {
        "id": r.integers(0, 2**62, n),
        "kind": words(r, n),
        "at": times(r, n),
        "received": times(r, n),
        "version": r.integers(1, 4, n),
        "payload_bytes": r.integers(10, 10**5, n),
    },
    "features": lambda r, n: {
        "entity": np.arange(n),
        **{f"f{i}": with_nulls(r, r.normal(0, 1, n), 0.01 * i) for i in range(6)},
        "label": r.integers(0, 2, n),
    },
    "logs": lambda r, n: {
        "at": times(r, n),
        "level": words(r, n),
        "message": texts(n, "request {} took long"),
        "line": r.integers(1, 5000, n),
        "user": with_nulls(r, r.integers(1, n, n), 0.5),
    },
    "calendar": lambda r, n: {
        "day": pa.array(np.arange(n) % 20_000, pa.int32()).cast(pa.date32()),
        "week": np.arange(n) % 53,
        "is_holiday": r.random(n) < 0.03,
        "name": with_nulls(r, r.choice(WORDS, n), 0.9),
    },
}
"""Ten tables, by name: functions of a generator and a number of rows."""


@dataclass
class Share:
    """What one table in one format needs."""

    table: str
    format: str
    metrics: int
    metadata: int
    columns: int
    spark: int
    log_bytes: int
    footer_bytes: int
    data_bytes: int


def write(name: str, days: Mapping[str, pa.Table], folder: Path, catalog: SqlCatalog) -> None:
    """Write a table in all formats."""
    for day, rows in days.items():
        target = folder / "parquet" / name / f"ds={day}"
        target.mkdir(parents=True)
        pq.write_table(rows, target / "part.parquet")
        whole = rows.append_column("ds", pa.array([day] * len(rows)))
        write_deltalake(str(folder / "delta" / name), whole, partition_by=["ds"], mode="append")
        if not catalog.table_exists(f"db.{name}"):
            table = catalog.create_table(f"db.{name}", schema=whole.schema)
            with table.update_spec() as spec:
                spec.add_identity("ds")
        catalog.load_table(f"db.{name}").append(whole)


def files_of(
    name: str, format: str, folder: Path, catalog: SqlCatalog
) -> tuple[list[PartitionFiles], int]:
    """Return the files of each partition, and the bytes of the table's log."""
    if format == "iceberg":
        location = catalog.load_table(f"db.{name}").metadata_location
        snapshot = read_iceberg(location)
        partitions = [
            TablePartition(snapshot.schema, tuple(files), snapshot.column_keys, snapshot.filled)
            for files in snapshot.by_partition().values()
        ]
        logs = [*(folder / "iceberg" / "db" / name / "metadata").glob("*.avro")]
        logs.append(Path(location.removeprefix("file://")))
        return list(partitions), sum(path.stat().st_size for path in logs)
    source = open_folder(LazySession(_no_spark), str(folder / format / name))
    listed = [entry.partition for entry in source.list_partitions()]
    logs = [*(folder / format / name).glob("_delta_log/*.json")]
    return list(source.parquet_files(listed).values()), sum(path.stat().st_size for path in logs)


def _no_spark() -> None:
    msg = "Spark is not needed here"
    raise RuntimeError(msg)


def share_of(name: str, format: str, suite: tg.Suite, folder: Path, catalog: SqlCatalog) -> Share:
    """Measure all partitions of a table and count the routes."""
    partitions, log_bytes = files_of(name, format, folder, catalog)
    analyzers = tuple(suite.analyzers)
    routes: Counter[Route] = Counter()
    footers = data = 0
    for partition in partitions:
        planner = ColumnarPlanner()
        before = planner.footers_left
        plan = planner.plan(partition, analyzers)
        assert plan is not None
        result = planner.scan({0: plan})[0]
        routes.update(result.routes.values())
        routes[Route.SPARK] += len(analyzers) - len(result.outcomes)
        data += plan.scanned_bytes
        if planner.footers_left < before:
            locations = (
                partition.locations if isinstance(partition, TablePartition) else partition.files
            )
            paths = [location.removeprefix("file://") for location in locations]
            footers += sum(pq.read_metadata(path).serialized_size + 8 for path in paths)
    return Share(
        name,
        format,
        len(analyzers) * len(partitions),
        routes[Route.METADATA],
        routes[Route.COLUMNS],
        routes[Route.SPARK],
        log_bytes // len(partitions),
        footers // len(partitions),
        data // len(partitions),
    )


def report(shares: list[Share]) -> None:
    """Print a table, with a line of totals for each format."""
    print(f"{'table':<10} {'format':<8} {'metrics':>7} {'metadata':>8} {'columns':>8} {'Spark':>6}"
          f" {'log':>9} {'footers':>9} {'data':>11}")  # fmt: skip
    for format in FORMATS:
        chosen = [share for share in shares if share.format == format]
        names = (
            "metrics",
            "metadata",
            "columns",
            "spark",
            "log_bytes",
            "footer_bytes",
            "data_bytes",
        )
        totals = Share("all", format, *(sum(getattr(s, n) for s in chosen) for n in names))
        for s in [*chosen, totals]:
            parts = (s.metadata / s.metrics, s.columns / s.metrics, s.spark / s.metrics)
            print(f"{s.table:<10} {s.format:<8} {s.metrics:>7} {parts[0]:>8.0%} {parts[1]:>8.0%} {parts[2]:>6.0%}"
                  f" {s.log_bytes:>9,} {s.footer_bytes:>9,} {s.data_bytes:>11,}")  # fmt: skip


def main() -> None:
    """Generate, profile and measure the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=20_000, help="rows of a partition")
    parser.add_argument("--days", type=int, default=3, help="partitions of a table")
    parser.add_argument("--json", type=Path, help="file for the results")
    arguments = parser.parse_args()
    shares = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "iceberg").mkdir()
        catalog = SqlCatalog(
            "lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/iceberg"
        )
        catalog.create_namespace("db")
        spark = tg.spark_session(folder / "spark")
        for number, (name, columns) in enumerate(TABLES.items()):
            random = np.random.default_rng(number)
            days = {
                f"2026-01-{day + 1:02}": pa.table(columns(random, arguments.rows))
                for day in range(arguments.days)
            }
            write(name, days, folder, catalog)
            suite = tg.profile(str(folder / "parquet" / name), spark=spark).suite
            shares += [share_of(name, format, suite, folder, catalog) for format in FORMATS]
        spark.stop()
        catalog.engine.dispose()
    report(shares)
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(share) for share in shares], indent=1))


if __name__ == "__main__":
    main()
