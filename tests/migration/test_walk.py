"""Migration from PyDeequ, Great Expectations and Soda: their first steps, run by them, and the same with Tidegauge.

The real packages are in a separate environment, on Spark 3.5. Tidegauge runs on the Spark of the
tests.
"""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

import tidegauge as tg
from tests.migration.tables import ORDER_COLUMNS, ORDERS, REVIEWS, TRIP_COLUMNS, TRIPS
from tests.services import maven
from tests.services.environments import environment
from tidegauge.cli.main import run_command
from tidegauge.repository.exchange import import_deequ
from tidegauge.spark.session import find_java

pytestmark = [pytest.mark.soak, pytest.mark.spark]
HERE = Path(__file__).parent
DEEQU = "com.amazon.deequ:deequ:2.1.0-spark-3.5"
"""The release of the benchmarks. PyDeequ uses the jars in its session."""


def run_other_tool(side, folder, *arguments):
    """Run another tool's side, and return its results."""
    actual = find_java()
    java = {"JAVA_HOME": str(Path(actual).parents[1])} if actual else {}
    # The jars in our session's arguments would replace the tool's jars.
    own = {name: value for name, value in os.environ.items() if name != "PYSPARK_SUBMIT_ARGS"}
    done = subprocess.run(
        [environment("migration"), HERE / f"{side}_side.py", *map(str, arguments)],
        env={**own, **java, "SPARK_VERSION": "3.5", "SPARK_LOCAL_IP": "127.0.0.1"},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def deequ(tmp_path_factory):
    folder = tmp_path_factory.mktemp("deequ")
    # Only this jar: Spark contains its dependencies.
    (jar,) = maven.jars_of(f"{DEEQU}!")
    return {**run_other_tool("deequ", folder, jar, folder), "folder": folder}


@pytest.fixture
def orders(spark):
    return spark.createDataFrame(ORDERS, ORDER_COLUMNS)


def test_metrics_equal_those_of_pydeequ(deequ, spark, orders):
    said = deequ
    metrics = tg.calculate(orders, [tg.Size(), tg.Completeness("price")])
    assert said["first"] == {
        "Size *": metrics[tg.Size()].value,
        "Completeness price": metrics[tg.Completeness("price")].value,
    }
    tutorial = {
        "Size *": tg.Size(),
        "Completeness product": tg.Completeness("product"),
        "ApproxCountDistinct review": tg.ApproxCountDistinct("review"),
        "Mean stars": tg.Mean("stars"),
        "Compliance top": tg.Compliance("top", "stars >= 4"),
        "Correlation stars,votes": tg.Correlation("stars", "votes"),
        "Correlation stars,helpful": tg.Correlation("stars", "helpful"),
    }
    ours = tg.calculate(spark.sql(REVIEWS), list(tutorial.values()))
    # Both estimate distinct values within about 5%; there are 2,000.
    assert said["tutorial"].pop("ApproxCountDistinct review") == pytest.approx(2000, rel=0.1)
    assert ours[tutorial.pop("ApproxCountDistinct review")].value == pytest.approx(2000, rel=0.1)
    same = {name: ours[analyzer].value for name, analyzer in tutorial.items()}
    assert said["tutorial"] == pytest.approx(same, rel=1e-9)


def test_verdicts_and_row_results_equal_those_of_pydeequ(deequ, orders):
    said = deequ
    check = (
        tg.Check("orders", "warning")
        .has_size(lambda n: n >= 3)
        .has_min("line", lambda low: low == 0)
        .is_complete("price")
        .is_unique("code")
        .is_contained_in("code", ["a-1", "a-2", "a-3"])
        .is_non_negative("line")
    )
    result = tg.verify(orders, check)
    assert said["status"].lower() == result.status == "warning"
    assert [one.lower() for one in said["verdicts"]] == result.frame()["status"].tolist()
    complete = tg.Check("complete", "warning").is_complete("price")
    rows = tg.verify(orders, complete).row_level(complete)
    (column,) = set(rows.columns) - set(orders.columns)
    assert said["rows"] == {row["code"]: row[column] for row in rows.collect()}


def test_a_repository_of_pydeequ_is_imported_and_continued(deequ, spark, orders, repo):
    """It contains one result, of 14 November 2023 at 22:13:20 UTC."""
    file = deequ["folder"] / "metrics.json"
    done = import_deequ(repo, file, "orders", key="ds", format="%Y-%m-%d")
    assert (done.results, done.metrics, done.new, done.skipped) == (1, 2, 1, ())
    read = repo.metrics("orders")
    assert set(read["partition"]) == {"ds=2023-11-14"}
    assert read["time"][0].isoformat() == "2023-11-14T22:13:20+00:00"
    assert repo.runs("orders")["tags"].tolist() == [{"tag": "walk"}]
    rows = zip(read["name"], read["instance"], read["value"], strict=True)
    assert {f"{name} {instance}": value for name, instance, value in rows} == deequ["first"]
    suite = tg.Suite("orders", [tg.Size(), tg.Completeness("price")], partition_by=["ds"])
    tg.analyze(orders, suite, repository=repo, partition={"ds": "2023-11-15"})
    for analyzer in suite.analyzers:
        before, now = repo.metrics("orders", analyzer=analyzer)["value"]
        assert before == now


STATISTICS = {
    "minimum": "minimum",
    "maximum": "maximum",
    "mean": "mean",
    "stdDev": "standard_deviation",
}
TYPES = {"Integral": {"integer", "long"}, "String": {"string"}}


def test_profiles_equal_those_of_pydeequ(deequ, spark):
    ours = tg.profile(spark.sql(REVIEWS), dataset="reviews").columns.set_index("column")
    assert set(deequ["profile"]) == set(ours.index)
    for name, said in deequ["profile"].items():
        row = ours.loc[name]
        assert row["type"] in TYPES[said["type"]], (name, row["type"])
        assert row["completeness"] == pytest.approx(said["completeness"])
        # Both estimate it within about 5%.
        assert row["distinct"] == pytest.approx(said["distinct"], rel=0.1)
        for theirs_name, own in STATISTICS.items():
            if said.get(theirs_name) is not None:
                assert row[own] == pytest.approx(said[theirs_name], rel=1e-9)


def test_suggestions_of_pydeequ_hold_and_are_also_suggested(deequ, spark):
    reviews = spark.sql(REVIEWS)
    suggested = tg.suggest(reviews, dataset="reviews")
    ours = [one.constraint.description for one in suggested]
    assert deequ["suggestions"]
    check = tg.Check("theirs")
    for column, code in deequ["suggestions"]:
        assert any(column in text for text in ours), (column, code)
        method, arguments = CODE.fullmatch(code).groups()
        check = SPELLED[method](check, column, arguments)
    assert tg.verify(reviews, check).passed
    assert tg.verify(reviews, suggested.check()).passed


CODE = re.compile(r"\.(\w+)\((.*)\)", re.DOTALL)


def share(given):
    """Return the minimum share in a lambda such as ``lambda x: x >= 0.9``; 1 without one."""
    actual = re.search(r">= ([\d.]+)", given)
    return float(actual[1]) if actual else 1.0


SPELLED = {
    "isComplete": lambda check, column, _: check.is_complete(column),
    "isNonNegative": lambda check, column, _: check.is_non_negative(column),
    "isUnique": lambda check, column, _: check.is_unique(column),
    "hasCompleteness": lambda check, column, given: check.is_complete(
        column, at_least=share(given)
    ),
    "isContainedIn": lambda check, column, given: check.is_contained_in(
        column, re.findall(r'"([^"]*)"', given[: given.index("]")])[1:], at_least=share(given)
    ),
}
"""The methods that correspond to Deequ's suggested code."""


def test_expectations_have_the_results_of_great_expectations(spark, tmp_path):
    trips = spark.createDataFrame(TRIPS, TRIP_COLUMNS)
    checks = [
        tg.Check("a").is_contained_in("passengers", lower=1, upper=6),
        tg.Check("b").is_contained_in("fare", lower=0, upper=100),
        tg.Check("c").is_complete("payment"),
        tg.Check("d").is_complete("payment", at_least=0.8),
        tg.Check("e").is_contained_in("payment", ["card", "cash"]),
        tg.Check("f").is_unique("id"),
        tg.Check("g").has_size((1, 10)),
        tg.Check("h").has_mean("fare", (5, 10)),
        tg.Check("i").has_column("tip"),
    ]
    exported = tg.to_great_expectations(checks)
    exported.pop("name")
    assert exported["meta"]["left_out"] == []
    (tmp_path / "suite.json").write_text(json.dumps(exported))
    said = run_other_tool("expectations", tmp_path, tmp_path / "suite.json")
    result = tg.verify(trips, checks)
    ours = [one.result for one in result.judged]
    assert [held for held, _ in said["suite"]] == [one.passed for one in ours]
    assert said["exported"] == dict(zip("abcdefghi", (one.passed for one in ours), strict=True))
    assert said["first"] == said["suite"][0] == [False, 1]
    # Both count the same rows with failing values.
    counts = [one.message.partition(": ")[2].partition(" of ")[0] for one in ours]
    for (held, unexpected), count, name in zip(said["suite"], counts, "abcdefghi", strict=True):
        if not held and name in "ace":
            assert count == str(unexpected)


SUITE = """
dataset: trips
table: walk_trips
checks:
  - is_complete: id
  - is_unique: id
  - is_contained_in: {column: passengers, lower: 1, upper: 6}
  - is_complete: {column: payment, at_least: 0.75}
  - is_contained_in: {column: payment, values: [card, cash]}
  - has_mean: {column: fare, at_least: 5, at_most: 10}
  - has_schema: {columns: [id INT, passengers, payment, fare], extra: false}
  - has_size: {more_than: 0}
"""


def test_a_contract_has_the_results_of_soda(spark, tmp_path, repo):
    said = run_other_tool("soda", tmp_path, tmp_path)
    spark.createDataFrame(TRIPS, TRIP_COLUMNS).write.mode("overwrite").saveAsTable("walk_trips")
    (tmp_path / "suite.yml").write_text(SUITE)
    output = tmp_path / "found.json"
    status = run_command(
        ["check", str(tmp_path / "suite.yml"), "--db", str(repo.database.url)]
        + ["--format", "json", "--output", str(output)]
    )
    spark.sql("DROP TABLE walk_trips")
    ours = [one["status"] == "success" for one in json.loads(output.read_text())["results"]]
    order = (
        *("id missing", "id duplicate", "passengers invalid", "payment missing"),
        *("payment invalid", "fare aggregate", "table schema", "table row_count"),
    )
    assert set(said["outcomes"]) == set(order), said
    assert [said["outcomes"][name] == "PASSED" for name in order] == ours
    assert (said["ok"], status) == (False, 2)
