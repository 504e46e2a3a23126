"""A Spark session for the command line and for notebooks that have none.

Library code never makes one: sessions belong to the caller.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from analyzers.errors import SourceError
from tidegauge.java import ensure_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def spark_session(
    warehouse: str | Path | None = None,
    *,
    ui: bool = False,
    app: str = "tidegauge",
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """Return the active Spark session, or start one with Hive support.

    Where nothing else is configured it runs on this machine; ``SPARK_REMOTE`` names a Spark Connect
    server.

    Parameters
    ----------
    warehouse : str or Path, optional
        A folder for tables and their metastore. Without it, Spark's own configuration decides.
    ui : bool
        Whether Spark serves its pages.
    app : str
        The application's name.
    settings : mapping of str to str, optional
        Settings of a session that is started.

    Raises
    ------
    SourceError
        If Spark or Java is missing, with the cure.
    """
    try:
        from pyspark.sql import SparkSession  # noqa: PLC0415 - an extra
    except ImportError as error:
        msg = "measuring needs Spark: pip install 'tidegauge[spark]'"
        raise SourceError(msg) from error
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    if "SPARK_REMOTE" in os.environ:
        return SparkSession.builder.appName(app).getOrCreate()
    if ensure_java() is None:
        msg = "Spark needs Java 17 or later: install one, or pip install 'tidegauge[java]'"
        raise SourceError(msg)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)  # we report these errors
    log4j = files("tidegauge").joinpath("log4j2.properties")
    java_options = [f"-Dlog4j2.configurationFile={log4j}"]
    builder = (
        SparkSession.builder.appName(app)
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.ui.enabled", str(ui).lower())
    )
    if not _configured():  # on this machine, then
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        builder = builder.config("spark.sql.shuffle.partitions", "8")
        # Spark lists folders with a task for each; on one machine their overhead is most of the time.
        builder = builder.config("spark.sql.sources.parallelPartitionDiscovery.parallelism", "8")
    if warehouse is not None:
        folder = Path(warehouse).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        metastore = f"jdbc:derby:;databaseName={folder / 'metastore'};create=true"
        builder = builder.config("spark.sql.warehouse.dir", str(folder / "tables")).config(
            "spark.hadoop.javax.jdo.option.ConnectionURL", metastore
        )
        java_options.append(f"-Dderby.system.home={folder}")
    for key, value in (settings or {}).items():
        builder = builder.config(key, value)
    builder = builder.config("spark.driver.extraJavaOptions", " ".join(map(quote, java_options)))
    return builder.enableHiveSupport().getOrCreate()


def _configured() -> bool:
    """Whether somebody has said where and how Spark is to run; jars alone do not say it."""
    names = ("SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_GATEWAY_PORT")
    arguments = os.environ.get("PYSPARK_SUBMIT_ARGS", "").split()
    told = {"--master", "--conf", "-c", "--properties-file"} & set(arguments)
    return bool(told) or any(name in os.environ for name in names)
