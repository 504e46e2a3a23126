"""Test data as Parquet files: one wide folder, and folders partitioned by day; always the same.

Values are hashes of the row's id, so they depend on neither a generator nor the number of tasks.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

TABLES = {
    "wide6": (8, 750_000, None),
    "days30": (30, 200_000, "2023-01-01"),
    "days365": (365, 5_000, "2023-01-01"),
    "spare5k": (16, 5_000, "2024-01-01"),
    "spare200k": (16, 200_000, "2024-01-01"),
}
"""Number of files, rows per file at scale 1, and the first day if each file is a partition."""


def _hash(salt: int, below: int) -> str:
    return f"pmod(xxhash64(id, {salt}), {below})"


COLUMN_SQL = {
    "id": "id",
    "quantity": f"CAST(IF({_hash(1, 100)} < 2, NULL, {_hash(2, 100)}) AS INT)",
    "price": f"{_hash(3, 100_000_000)} / 1e5D",
    "discount": f"IF({_hash(4, 10)} = 0, NULL, {_hash(5, 1_000_000)} / 1e6D)",
    "status": "element_at(split('new new new open open closed returned lost', ' '),"
    f" CAST(1 + {_hash(6, 8)} AS INT))",
    "country": f"concat('C', lpad({_hash(7, 60)}, 2, '0'))",
    # One user in a hundred has a malformed address, so that there are 200,000 in total.
    "email": f"concat('user', {_hash(8, 200_000)},"
    f" IF({_hash(8, 200_000)} % 100 = 0, '.', '@'), 'example.com')",
    "amount_text": f"CASE WHEN {_hash(9, 100)} = 0 THEN NULL"
    f" WHEN {_hash(9, 100)} = 1 THEN 'unknown'"
    f" WHEN {_hash(9, 100)} < 12 THEN CAST({_hash(10, 1000)} AS STRING)"
    f" ELSE format_string('%d.%02d', {_hash(10, 1000)}, {_hash(11, 100)}) END",
}


def make(spark, folder: Path, scale: float, tables: Collection[str] = tuple(TABLES)) -> None:
    """Write the tables that do not exist yet."""
    for number, (table, (files, rows, first)) in enumerate(TABLES.items()):
        target = folder / table
        if table not in tables or (target / "_SUCCESS").exists():
            continue
        each = max(100, round(rows * scale))
        start = number * 10**8  # no two tables share an id
        ids = spark.range(start, start + files * each, numPartitions=files)
        columns = [f"{expression} AS {name}" for name, expression in COLUMN_SQL.items()]
        if first:
            day = f"date_add(DATE'{first}', CAST((id - {start}) DIV {each} AS INT))"
            columns.append(f"CAST({day} AS STRING) AS ds")
        writer = ids.selectExpr(*columns).write.mode("overwrite")
        (writer.partitionBy("ds") if first else writer).parquet(str(target))


def partitions(folder: Path, table: str) -> list[tuple[str, str]]:
    """Return a table's days, each with its folder."""
    return [
        (path.name.partition("=")[2], str(path)) for path in sorted((folder / table).glob("ds=*"))
    ]
