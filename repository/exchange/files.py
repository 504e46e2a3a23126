"""Export of metrics as CSV or Parquet, page by page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from tidegauge.analyzers.core.filesystems import output_file
from tidegauge.repository.store.frames import spreadsheet

if TYPE_CHECKING:
    import pandas as pd


def write_csv(pages: Iterator[pd.DataFrame], target: TextIO) -> int:
    """Write pages of metrics as CSV and return the number of rows.

    Text that a spreadsheet would run as a formula is written behind an apostrophe.
    """
    rows = 0
    for number, page in enumerate(pages):
        spreadsheet(page).to_csv(target, index=False, header=number == 0)
        rows += len(page)
    return rows


def csv_file(pages: Iterator[pd.DataFrame], file: Path) -> int:
    """Write pages of metrics as a CSV file and return the number of rows."""
    with output_file(file) as partial, partial.open("w", encoding="utf-8", newline="") as target:
        return write_csv(pages, target)


def parquet_file(pages: Iterator[pd.DataFrame], file: Path) -> int:
    """Write pages of metrics as one Parquet file and return the number of rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema(
        [
            *((name, pa.string()) for name in ("dataset", "segment", "partition")),
            ("time", pa.timestamp("us", tz="UTC")),
            *((name, pa.string()) for name in ("entity", "name", "instance")),
            *((name, pa.float64()) for name in ("value", "weight")),
            *((name, pa.string()) for name in ("status", "error")),
            *((name, pa.int64()) for name in ("version", "run_id")),
            ("analyzed_at", pa.timestamp("us", tz="UTC")),
            ("analyzer", pa.string()),
        ]
    )
    rows = 0
    with (
        output_file(file) as partial,
        pq.ParquetWriter(partial, schema, compression="zstd") as writer,
    ):
        for page in pages:
            writer.write_table(pa.Table.from_pandas(page, schema=schema, preserve_index=False))
            rows += len(page)
    return rows
