"""A session with tables on S3, registered in a Hive Metastore service on PostgreSQL."""

import os
import sys

import pytest

from tests.metastore.service import HADOOP_AWS, Metastore, s3a
from tests.services.maven import jars_of


@pytest.fixture(scope="session")
def metastore(tmp_path_factory, postgres, s3):
    service = Metastore(tmp_path_factory.mktemp("metastore"), postgres, s3)
    yield service
    service.server.end()


@pytest.fixture(scope="session")
def spark(metastore, s3):
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--jars {','.join(jars_of(*HADOOP_AWS))} pyspark-shell"
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark.sql import SparkSession

    builder = (
        SparkSession.builder.master("local[2]")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.ui.enabled", "false")
        .config("spark.hadoop.hive.metastore.uris", metastore.address)
    )
    for name, value in s3a(s3).items():
        builder = builder.config(f"spark.hadoop.{name}", value)
    session = builder.enableHiveSupport().getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
