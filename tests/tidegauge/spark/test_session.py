"""Settings of Spark sessions that Tidegauge starts."""

import subprocess
import sys

import pytest

from tidegauge.spark.session import JAVA_OPTIONS, LOG_SETTINGS, _has_java_options

CODE = """
import tidegauge as tg
spark = tg.spark_session(settings={"spark.driver.extraJavaOptions": "-Dmine=1"})
spark.range(3).write.saveAsTable("t")
read = "SELECT java_method('java.lang.System', 'getProperty', '{}') AS value"
for name in ("mine", "log4j2.configurationFile"):
    print(spark.sql(read.format(name)).first().value)
"""


@pytest.mark.soak
@pytest.mark.spark
def test_java_options_of_the_caller_are_kept(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", CODE], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split() == ["1", str(LOG_SETTINGS)]
    assert not (tmp_path / "derby.log").exists()


SHARED = """
import time, threading
import tidegauge as tg
spark = tg.spark_session(settings={"spark.master": "local[2]"})
spark.sparkContext.setLogLevel("OFF")
ended = []

def slow(rows):
    for row in rows:
        time.sleep(0.3)
        yield row

def job(name, tasks):
    spark.sparkContext.parallelize(range(tasks), tasks).mapPartitions(slow).count()
    ended.append(name)

spark.sparkContext.parallelize(range(1), 1).count()
long = threading.Thread(target=job, args=("long", 30))
long.start()
while not spark.sparkContext.statusTracker().getActiveJobsIds():
    time.sleep(0.05)
job("short", 2)
long.join()
print(*ended)
"""


@pytest.mark.soak
@pytest.mark.spark
def test_concurrent_jobs_of_a_session_share_its_cores(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", SHARED], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split() == ["short", "long"]


@pytest.fixture
def configuration(tmp_path, monkeypatch):
    for name in ("SPARK_CONF_DIR", "SPARK_HOME", "PYSPARK_SUBMIT_ARGS"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "conf"
    folder.mkdir()
    return folder


@pytest.mark.parametrize(
    ("file", "text", "own"),
    [
        ("log4j2.properties", "rootLogger.level = warn", True),
        ("spark-defaults.conf", f"{JAVA_OPTIONS} -XX:+UseG1GC", True),
        ("spark-defaults.conf", "spark.driver.extraJavaOptions -Da=b", False),
        ("hive-site.xml", "<configuration/>", False),
    ],
)
@pytest.mark.parametrize("by", ["SPARK_CONF_DIR", "SPARK_HOME"])
def test_java_options_of_the_configuration_are_kept(
    configuration, monkeypatch, file, text, own, by
):
    (configuration / file).write_text(text)
    assert not _has_java_options()
    monkeypatch.setenv(by, str(configuration if by == "SPARK_CONF_DIR" else configuration.parent))
    assert _has_java_options() is own


def test_java_options_of_the_command_line_are_kept(configuration, monkeypatch):
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"--conf {JAVA_OPTIONS}=-Da=b pyspark-shell")
    assert _has_java_options()
