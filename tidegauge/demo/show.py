"""The demonstration itself."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from analyzers.catalogue import ApproxCountDistinct
from tidegauge.analysis import analyze
from tidegauge.demo.flights import TABLE, demo_suite, make_table
from tidegauge.session import spark_session

if TYPE_CHECKING:
    import pandas as pd

    from repository.repository import Repository

WORST_DAYS, CLEAREST = 6, 3


def show(repository: Repository, folder: Path) -> int:
    """Make the table, measure it, detect, and print what was found."""
    with _timed("Start Spark"):
        spark = spark_session(folder)
    with _timed(f"Write the Hive table {TABLE}") as note:
        if not make_table(spark):
            note.append("it is there already")
    suite = demo_suite().suite
    with _timed(f"Measure {len(suite.analyzers)} analyzers on what is new") as note:
        run = analyze(TABLE, suite, repository=repository, spark=spark)
        note.append(f"{run.report.scanned} partitions scanned, {run.report.skipped} unchanged")
    if not run.report.scanned:
        print("Nothing changed since the last run, so no data file was opened.")
    with _timed("Compare each day with its past, without Spark") as note:
        found = repository.detect(suite.dataset)
        note.append(f"{len(found)} anomalies on {found['partition'].nunique()} days")
    print(f"\nThe {WORST_DAYS} worst days, each with its clearest anomalies:")
    for line in _worst(found):
        print(f"  {line}")
    year = repository.merge(suite.dataset, ApproxCountDistinct("tailnum")).value
    print(f"\nFrom the stored states alone: about {year:,.0f} different aircraft flew in the year.")
    return 0


def _worst(found: pd.DataFrame) -> Iterator[str]:
    """Yield the days with the highest scores in all, each with its clearest anomalies."""
    total = found.groupby("partition")["score"].sum().sort_values(ascending=False)
    for partition in total.index[:WORST_DAYS]:
        day = found[found["partition"] == partition]
        clearest = day.drop_duplicates(["name", "instance"]).head(CLEAREST)
        more = len(day) - len(clearest)
        yield f"{partition}:" + (f" {len(day)} anomalies" if more else "")
        yield from (f"  {text}" for text in clearest["explanation"])


@contextmanager
def _timed(step: str) -> Iterator[list[str]]:
    """Print a step with what it says of itself and how long it took."""
    started = time.monotonic()
    note: list[str] = []
    yield note
    said = "".join(f" {text}," for text in note)
    print(f"{step}:{said} {time.monotonic() - started:.1f} s", flush=True)
