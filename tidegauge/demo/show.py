"""Run the demonstration."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tidegauge.analysis import analyze
from tidegauge.analyzers.core.formatting import plural
from tidegauge.analyzers.measures.cardinality import ApproxCountDistinct
from tidegauge.demo.flights import TABLE, demo_suite, make_table

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import SparkSession

    from tidegauge.repository.repository import Repository


def show(repository: Repository, session: Callable[[], SparkSession]) -> int:
    """Make the table, measure it, detect anomalies, and print the results."""
    with _timed("Start Spark"):
        spark = session()
    with _timed(f"Write the Hive table {TABLE}") as note:
        if not make_table(spark):
            note.append("it is there already")
    suite = demo_suite().suite
    with _timed(f"Measure {plural(len(suite.analyzers), 'analyzer')} on what is new") as note:
        run = analyze(TABLE, suite, repository=repository, spark=spark)
        note.append(
            f"{plural(run.report.scanned, 'partition')} scanned, {run.report.skipped} unchanged"
        )
    if not run.report.scanned:
        print("Nothing changed since the last run, so no data file was opened.")
    with _timed("Compare each day with its past, without Spark") as note:
        found = repository.detect(suite.dataset)
        incidents = repository.incidents(suite.dataset)
        days = found["partition"].nunique()
        note.append(
            f"{plural(len(found), 'anomaly', 'anomalies')} on {plural(days, 'day')}, {plural(len(incidents), 'incident')}"
        )
    print("\nWhat stood out in 2013, by what happened:")
    for line in _told(incidents):
        print(f"  {line}")
    year = repository.merge(suite.dataset, ApproxCountDistinct("tailnum")).value
    print(f"\nFrom the stored states alone: about {year:,.0f} different aircraft flew in the year.")
    return 0


def _told(incidents: pd.DataFrame) -> Iterator[str]:
    """Yield the headline of each incident, with its number of series and status, in order of time."""
    told = incidents[["headline", "series", "status"]].iloc[::-1]
    for headline, series, status in told.itertuples(index=False):
        yield f"{headline} [{series} series, {status}]"


@contextmanager
def _timed(step: str) -> Iterator[list[str]]:
    """Print a step when it begins, and with its notes and duration when it ends."""
    print(f"{step} ...", flush=True)
    started = time.monotonic()
    note: list[str] = []
    yield note
    said = "".join(f" {text}," for text in note)
    print(f"{step}:{said} {time.monotonic() - started:.1f} s", flush=True)
