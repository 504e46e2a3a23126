"""A session with Delta Lake and Apache Iceberg, and tables of both."""

import os
import sys

import pytest

from tests.formats.packages import PACKAGES
from tests.services.maven import jars_of


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """A session with Delta in Spark's own catalog and in ``delta_lake``, and Iceberg in ``lake``."""
    import pyspark

    line = ".".join(pyspark.__version__.split(".")[:2])
    # Spark's own jars are left out; these are the additional jars of the packages.
    jars = [
        jar for jar in jars_of(*PACKAGES[line]) if "/spark-" not in jar and "/scala-" not in jar
    ]
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--jars {','.join(jars)} pyspark-shell"
    from pyspark.sql import SparkSession

    folder = tmp_path_factory.mktemp("lake")
    iceberg = "org.apache.iceberg.spark"
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config(
            "spark.sql.extensions",
            f"io.delta.sql.DeltaSparkSessionExtension,{iceberg}.extensions.IcebergSparkSessionExtensions",
        )
        .config(
            "spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog"
        )
        .config("spark.sql.catalog.lake", f"{iceberg}.SparkCatalog")
        .config("spark.sql.catalog.lake.type", "hadoop")
        .config("spark.sql.catalog.lake.warehouse", str(folder / "iceberg"))
        .config("spark.databricks.delta.retentionDurationCheck.enabled", "false")
        # By default 50 tasks read a log, and 10,000 list files for VACUUM.
        .config("spark.databricks.delta.snapshotPartitions", "2")
        .config("spark.sql.sources.parallelPartitionDiscovery.parallelism", "2")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
