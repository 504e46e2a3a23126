"""The same code on Spark Connect, which has no JVM in the process."""

import importlib.metadata
import json
import os
import subprocess
import sys

import pytest

from tests.conftest import soak
from tests.docs.pages import blocks_run_by
from tests.paths import ROOT
from tests.services import maven

pytestmark = pytest.mark.spark

CODE = """
import json, os, subprocess, sys
from pathlib import Path
os.environ["PYSPARK_PYTHON"] = sys.executable
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
os.chdir(sys.argv[1])
from tidegauge.spark.session import ensure_java
ensure_java()
from pyspark.sql import SparkSession
spark = SparkSession.builder.remote("local[2]").config("spark.sql.warehouse.dir", sys.argv[1] + "/t").config("spark.sql.ansi.enabled", "true").getOrCreate()
assert "connect" in type(spark).__module__
import tidegauge as tg
rows = spark.range(999).selectExpr("id AS x", "CONCAT('k', id % 7) AS s", "CONCAT('2013-01-0', id % 3 + 1) AS ds")
rows.write.partitionBy("ds").saveAsTable("t")
suite = tg.Suite("t", [
    tg.Size(), tg.Mean("x"), tg.ApproxCountDistinct("s"), tg.ApproxQuantile("x", 1), tg.CountDistinct("s"),
    tg.Compliance("division", "1 / (x - 500) > 0"), tg.Mean("nope"), tg.Size(where="zzz"),
])
with tg.Repository("sqlite://") as repo:
    first = tg.analyze("t", suite, repository=repo, spark=spark)
    again = tg.analyze("t", suite, repository=repo, spark=spark)
    spark.sql("INSERT INTO t VALUES (1, 'a', '2013-01-02')")
    third = tg.analyze("t", suite, repository=repo, spark=spark)
    values = [repo.merge("t", a).value for a in suite.analyzers[:5]]
Path("suites").mkdir()
Path("suites/t.yml").write_text("{dataset: t, table: t, analyzers: [Size]}")
Path("tidegauge").write_text(f'#!/bin/sh\\nexec {sys.executable} -m tidegauge "$@"\\n')
Path("tidegauge").chmod(0o755)
address = "sc://localhost:15002"
subprocess.run(
    sys.argv[2].replace("sc://spark.example.org:15002", address), shell=True, check=True, stdout=sys.stderr,
    env={**os.environ, "PATH": f"{os.getcwd()}:{os.environ['PATH']}"},
)
with tg.Repository() as repo:
    sizes = repo.metrics("t", name="Size")["value"].tolist()
print(json.dumps([
    first.report.scanned, again.report.scanned, dict(third.changes), values,
    {str(analyzer): type(error).__name__ for analyzer, error in first.failed.items()}, sizes,
]))
spark.stop()
"""


FOLDERS = ("analyzers", "tidegauge/checks", "tidegauge/rules")
LONG = (
    "analyzers/measures/test_edges.py",
    "analyzers/measures/test_merging.py",
    "tidegauge/rules/test_counting.py",
)
"""Left to soaks: runs on every kind of table, where other tests use one kind."""
NOT_YET = ("analyzers/griffin", "tidegauge/rules/test_verdicts.py")
"""These tests have not been tried on Spark Connect yet."""


@pytest.mark.soak
def test_the_tests_of_scan_and_analyzers_pass_on_spark_connect():
    """The tests of the classic session run in their own process."""
    root = ROOT
    done = subprocess.run(
        [
            sys.executable,
            *("-m", "pytest", "-q", "-p", "no:cacheprovider"),
            *("-m", "spark and not classic and not soak"),
            *(str(root / "tests" / folder) for folder in FOLDERS),
            *(f"--ignore={root}/tests/{path}" for path in LONG if not soak(0, 1)),
            *(f"--ignore={root}/tests/{path}" for path in NOT_YET),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
        cwd=root,
        env={**os.environ, "TIDEGAUGE_TEST_CONNECT": "1"},
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    assert " passed" in done.stdout.splitlines()[-1]
    assert "skipped" not in done.stdout.splitlines()[-1]


@pytest.mark.soak
def test_a_table_is_measured_over_spark_connect(tmp_path):
    """By Python and by the commands of the cookbook, run by another client on the same server."""
    (recipe,) = blocks_run_by(__file__)
    known = {k: v for k, v in os.environ.items() if not k.startswith("TIDEGAUGE")}
    known |= {"PYTHONPATH": str(ROOT), "XDG_CONFIG_HOME": str(tmp_path)}
    if importlib.metadata.version("pyspark").startswith("3."):  # later versions include it
        jars = maven.jars_of("org.apache.spark:spark-connect_2.12:3.5.7!")
        known["PYSPARK_SUBMIT_ARGS"] = f"--jars {','.join(jars)} pyspark-shell"
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(tmp_path), recipe.code],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        cwd=ROOT,
        env=known,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    first, again, changes, values, errors, sizes = json.loads(done.stdout.splitlines()[-1])
    assert (first, again) == (3, 0)
    assert changes == {"ds=2013-01-02": "restated"}
    assert values == [1000, pytest.approx((998 * 999 / 2 + 1) / 1000), 8, 998, 8]
    assert errors == {
        "Compliance('division', '1 / (x - 500) > 0')": "MetricRuntimeError",
        "Mean('nope')": "NoSuchColumnError",
        "Size(where='zzz')": "UnresolvedExpressionError",
    }
    assert sizes == [333, 334, 333]
