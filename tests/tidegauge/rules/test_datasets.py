"""Datasets: published, ephemeral or parsed, and judged once for the same files."""

from pathlib import Path

import pytest

import tidegauge as tg
from tests.support.spark_actions import counted
from tidegauge.analyzers.core.errors import RuleError

pytestmark = pytest.mark.spark
POSITIVE = tg.DQM().add(tg.Rule("a > 0", "positive"), tg.FailCount(3))


@pytest.fixture(scope="module", autouse=True)
def database(spark):
    spark.sql("CREATE DATABASE IF NOT EXISTS made")
    yield
    spark.sql("DROP DATABASE made CASCADE")


@pytest.fixture
def source(spark, tmp_path):
    """Return a folder with the values -2 to 2."""
    path = str(tmp_path / "source")
    spark.range(-2, 3).selectExpr("id AS a").coalesce(1).write.parquet(path)
    return path


class Log:
    """Stores the number of records of each judgment. It is not a plain value, which would be part of a rule."""

    def __init__(self):
        self.asked = []

    def policy(self):
        def seen(state):
            self.asked.append(state.records)
            return True

        return seen


def values(data):
    return sorted(row["a"] for row in data.collect())


def jobs(found):
    return [e for e in found if e["successJobIds"]]


def add_to(spark, path, *numbers):
    spark.createDataFrame([(n,) for n in numbers], "a long").write.mode("append").parquet(path)


@pytest.mark.classic
@pytest.mark.parametrize("kind", [pytest.param("table", marks=pytest.mark.soak), "path"])
def test_a_dataset_is_published_once_for_the_same_files(spark, source, tmp_path, kind):
    place = {"table": "made.clean"} if kind == "table" else {"path": str(tmp_path / "clean")}
    lenient = tg.DQM().add(tg.Rule("a > 0", "positive"), tg.FailCount(4))

    @tg.dataset(lenient, **place)
    def clean(spark):
        """Positive numbers."""
        return spark.read.parquet(source)

    assert (repr(clean), clean.__doc__) == ("Dataset('clean')", "Positive numbers.")
    assert values(clean(spark)) == [1, 2]
    with counted(spark) as actual:
        again = clean(spark)
    assert jobs(actual) == []
    assert values(again) == [1, 2]
    add_to(spark, source, 5)
    assert values(clean(spark)) == [1, 2, 5]
    # A write to the table by others is detected, and the data is published again.
    if kind == "table":
        spark.sql("INSERT INTO made.clean VALUES (-7)")
    else:
        add_to(spark, place["path"], -7)
    assert values(clean(spark)) == [1, 2, 5]
    beside = Path(source).parent if kind == "path" else _warehouse(spark)
    assert list(beside.glob("clean.*.check"))


def _warehouse(spark):
    location = spark.catalog.getDatabase("made").locationUri
    return Path(location.removeprefix("file:"))


@pytest.mark.classic
def test_a_failure_is_raised_again_without_reading(spark, source, tmp_path):
    @tg.dataset(POSITIVE, path=str(tmp_path / "clean"))
    def clean(spark):
        return spark.read.parquet(source)

    with pytest.raises(tg.DQMError, match="3 of 5 records"):
        clean(spark)
    assert not (tmp_path / "clean").exists()
    with counted(spark) as actual, pytest.raises(tg.DQMError, match="3 of 5 records"):
        clean(spark)
    assert jobs(actual) == []
    add_to(spark, source, -3)
    with pytest.raises(tg.DQMError, match="4 of 6 records"):
        clean(spark)


@pytest.mark.soak
def test_data_that_returns_is_published_again(spark, tmp_path):
    """The verdict on the first files is stored, but the table holds the second files."""
    for name, number in (("one", 1), ("two", 2)):
        add_to(spark, str(tmp_path / name), number)

    @tg.dataset(path=str(tmp_path / "clean"))
    def clean(name):
        return spark.read.parquet(str(tmp_path / name))

    assert [values(clean(name)) for name in ("one", "two", "one")] == [[1], [2], [1]]


@pytest.mark.soak
@pytest.mark.classic
def test_an_ephemeral_dataset_below_others_is_judged_once(spark, source, tmp_path):
    log = Log()

    @tg.dataset(
        tg.DQM().add(tg.Rule("a > 0")).add(log.policy()), ephemeral=True, folder=str(tmp_path)
    )
    def a(spark):
        return spark.read.parquet(source)

    @tg.dataset(path=str(tmp_path / "b"))
    def b(spark):
        return a(spark).selectExpr("a + 10 AS a")

    @tg.dataset(path=str(tmp_path / "c"))
    def c(spark):
        return b(spark).selectExpr("a + 100 AS a")

    assert values(b(spark)) == [11, 12]
    assert values(c(spark)) == [111, 112]
    assert values(a(spark)) == [1, 2]
    assert log.asked == [5]
    assert [p.name.split(".")[0] for p in tmp_path.glob("a.*.check")] == ["a"]


@pytest.mark.soak
def test_an_ephemeral_dataset_without_files_is_judged_each_time(spark, tmp_path):
    log = Log()

    @tg.dataset(tg.DQM().add_action().add(log.policy()), ephemeral=True, folder=str(tmp_path))
    def a():
        return spark.createDataFrame([(1,)], "a long")

    a()
    a()
    assert log.asked == [1, 1]
    assert list(tmp_path.iterdir()) == []


def test_a_changed_function_is_judged_again(spark, source, tmp_path):
    log = Log()

    def make(function):
        return tg.dataset(
            tg.DQM().add_action().add(log.policy()), ephemeral=True, folder=str(tmp_path), name="n"
        )(function)

    make(lambda: spark.read.parquet(source).where("a >= 0"))()
    make(lambda: spark.read.parquet(source).where("a >= -0"))()
    assert log.asked == [3, 3]


class Parser(tg.ValidationTask):
    """Stands in for the parser of a file."""

    name = "parser"

    def __init__(self, passed):
        self.passed, self.asked = passed, 0

    def validate(self, data=None):
        self.asked += 1
        messages = () if self.passed else (("parser", "2 lines"),)
        return tg.CheckResult(self.passed, messages, outcomes=(("parser", self.passed),))

    def identity(self):
        return ["parser", self.passed]

    def fingerprint(self):
        return "files/1:9b1c"


@pytest.mark.classic
def test_a_parser_and_rules_make_one_verdict(spark, source, tmp_path):
    good, bad = Parser(True), Parser(False)

    @tg.dataset(tg.DQM().add(tg.Rule("a > 0", "pos")), path=str(tmp_path / "bad"), parser=bad)
    def refused(spark):
        return spark.read.parquet(source)

    for _ in range(2):
        with pytest.raises(tg.DQMError, match="2 lines"):
            refused(spark)
    assert bad.asked == 1
    assert not (tmp_path / "bad").exists()

    @tg.dataset(path=str(tmp_path / "good"), parser=lambda _: good)
    def accepted(spark):
        return spark.read.parquet(source)

    assert values(accepted(spark)) == values(accepted(spark)) == [-2, -1, 0, 1, 2]
    assert good.asked == 1


@pytest.mark.soak
@pytest.mark.classic
@pytest.mark.parametrize("ephemeral", [False, True])
def test_a_repository_stores_verdicts_and_counts(spark, source, tmp_path, repo, ephemeral):
    place = {"ephemeral": True} if ephemeral else {"path": str(tmp_path / "clean")}

    @tg.dataset(POSITIVE, repository=repo, **place)
    def clean(spark):
        return spark.read.parquet(source)

    for _ in range(2):
        with pytest.raises(tg.DQMError):
            clean(spark)
    metrics = repo.metrics("clean", name="RuleRejects")
    assert metrics["value"].tolist() == [3.0]
    assert len(repo.runs("clean")) == 1
    assert set(repo.verdicts("clean")["passed"]) == {False}
    add_to(spark, source, *range(1, 9))
    lenient = tg.dataset(tg.DQM(), repository=repo, name="clean", **place)(clean.function)
    for _ in range(2):
        assert len(values(lenient(spark))) == 13
    assert len(repo.runs("clean")) == 2


def test_rejects_are_written_to_quarantine(spark, source, tmp_path):
    @tg.dataset(POSITIVE, path=str(tmp_path / "clean"), quarantine=str(tmp_path / "bin"))
    def clean(spark):
        return spark.read.parquet(source)

    with pytest.raises(tg.DQMError):
        clean(spark)
    assert values(spark.read.parquet(str(tmp_path / "bin"))) == [-2, -1, 0]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "exactly one of table="),
        ({"table": "t", "path": "p"}, "exactly one of table="),
        ({"table": "t", "ephemeral": True}, "exactly one of table="),
        ({"ephemeral": True, "quarantine": "q"}, "writes nothing"),
        ({"table": "t", "folder": "f", "repository": object()}, "not both"),
    ],
)
def test_targets_that_exclude_each_other_are_refused(options, text):
    with pytest.raises(RuleError, match=text):
        tg.dataset(**options)


@pytest.mark.soak
def test_strings_that_look_like_column_ids_are_distinguished(spark, tmp_path):
    """Two filters never share a published dataset."""
    path = str(tmp_path / "orders")
    spark.createDataFrame([("order#17",), ("order#18",)], "name string").write.parquet(path)

    @tg.dataset(path=str(tmp_path / "clean"))
    def clean(name):
        return spark.read.parquet(path).where(f"name = '{name}'")

    for name in ("order#17", "order#18"):
        assert [row["name"] for row in clean(name).collect()] == [name]


def test_a_dataset_in_a_folder_keeps_its_types(spark, tmp_path):
    path = str(tmp_path / "source")
    rows = [(1, "2013-02-01", "07")]
    spark.createDataFrame(rows, "a long, ds string, hr string").write.parquet(path)

    @tg.dataset(path=str(tmp_path / "clean"), partition_by=["ds", "hr"])
    def clean():
        return spark.read.parquet(path)

    for _ in range(2):
        assert [tuple(row) for row in clean().select("a", "ds", "hr").collect()] == rows
