"""Columns named by Spark keywords, duplicate column names, and files with conflicting columns."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidegauge as tg
from tidegauge.analyzers.core.sql import quote
from tidegauge.analyzers.scan.spark_errors import merge_conflict

WORDS = (
    "null", "true", "false", "current_path", "current_date", "current_user", "interval", "case", "not", "1a",
)  # fmt: skip


@pytest.fixture(scope="module")
def words(spark):
    """Return twenty rows: the numbers from 0 in ten columns, and true in one column."""
    return spark.range(20).selectExpr(*(f"id AS {quote(word)}" for word in WORDS)).coalesce(1)


@pytest.mark.spark
def test_keywords_of_spark_are_column_names(words):
    numbers = words.selectExpr(*(f"{quote(word)} % 10 + 0.5D AS {quote(word)}" for word in WORDS))
    suite = tg.profile(numbers).suite
    rules = [a for a in suite.analyzers if isinstance(a, tg.Compliance)]
    assert len(rules) == len(WORDS)  # no value is negative
    metrics = tg.calculate(numbers, suite.analyzers)
    assert [a for a in suite.analyzers if metrics[a].failed] == []
    assert {metrics[rule].value for rule in rules} == {1.0}
    assert tg.verify(numbers, tg.suggest(numbers).check()).passed


@pytest.mark.spark
def test_booleans_in_columns_named_by_keywords_are_profiled(spark):
    flags = spark.range(40).selectExpr(
        "id % 4 = 0 AS `null`", "id % 4 > 0 AS `true`", "id < 0 AS `false`"
    )
    suite = tg.profile(flags).suite
    shares = {
        a.instance: tg.calculate(flags, [a])[a].value
        for a in suite.analyzers
        if "is true" in a.instance
    }
    assert shares == {"null is true": 0.25, "true is true": 0.75, "false is true": 0.0}


@pytest.mark.spark
def test_rules_on_columns_named_by_keywords_are_counted(words):
    dqm = tg.DQM()
    for word in WORDS:
        dqm = dqm.add(tg.BoundRule(quote(word), 0, 15, name=f"b {word}", severity="warning"))
        dqm = dqm.add(tg.SetRule(quote(word), range(5), name=f"s {word}", severity="warning"))
        dqm = dqm.add(tg.NotNullRule(quote(word), name=f"n {word}", severity="warning"))
    state = dqm.apply(words, samples=0).state
    counts = {rule.name: state.violations(rule.name) for rule in dqm.tasks.rules}
    assert counts == {
        f"{kind} {w}": n for w in WORDS for kind, n in (("b", 5), ("s", 15), ("n", 0))
    }


@pytest.mark.spark
def test_duplicate_column_names_are_refused(spark, tmp_path):
    data = spark.sql("SELECT 1 AS id, 2 AS ID, 3 AS x")
    dqm = tg.DQM().add(tg.BoundRule("x", 0, 2), tg.FailNone)
    verified = tg.verify(data, tg.Check("c").is_contained_in("x", upper=2))
    assert verified.status == "error"
    refused = (
        lambda: dqm.apply(data),
        lambda: dqm.validate(data),
        lambda: dqm.attach(data),
        lambda: dqm.publish(data, str(tmp_path / "out")),
        lambda: verified.rows("c"),
        lambda: verified.row_level("c"),
        lambda: tg.profile(data),
        lambda: tg.suggest(data),
    )
    for call in refused:
        with pytest.raises(tg.SourceError, match="the data has 2 columns named 'id': 1, 2 of 3"):
            call()
    assert not (tmp_path / "out").exists()


def put(path, **columns):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)


@pytest.mark.spark
def test_files_with_conflicting_columns_are_named(spark, repo, tmp_path):
    put(tmp_path / "t" / "ds=2026-01-01" / "a.parquet", id=[1, 2], amount=["x", "y"])
    put(tmp_path / "t" / "ds=2026-01-02" / "b.parquet", id=[3], amount=pa.array([1], pa.int32()))
    folder = str(tmp_path / "t")
    suite = tg.Suite("orders", [tg.Size()], partition_by=["ds"])
    with pytest.raises(tg.SourceError) as merged:
        tg.analyze(folder, suite, repository=repo, spark=spark, options={"mergeSchema": "true"})
    reported = str(merged.value)
    assert "column 'amount' is" in reported
    assert "string in ds=2026-01-01/a.parquet" in reported
    assert "int in ds=2026-01-02/b.parquet" in reported
    # The other file cannot be read by the type of the first.
    data = spark.read.schema("id BIGINT, amount INT, ds STRING").parquet(folder)
    failing = (
        lambda: tg.calculate(data, [tg.Completeness("amount")]),
        lambda: tg.Completeness("amount").calculate(data),
        lambda: tg.verify(data, tg.Check("c").is_complete("amount")),
        lambda: tg.suggest(data),
        lambda: tg.profile(data),
        lambda: tg.DQM().add(tg.BoundRule("amount", 0, 9)).apply(data),
        lambda: tg.DQM().add(tg.BoundRule("amount", 0, 9)).validate(data),
    )
    for call in failing:
        with pytest.raises(tg.SourceError, match=r"cannot read \S+/ds=2026-01-01/a\.parquet: .*"):
            call()


def test_conflicting_columns_without_files_are_named():
    text = (
        '[CANNOT_MERGE_SCHEMAS] Failed merging schemas:\nInitial schema:\n"STRUCT<id: BIGINT, `a b`: INT, n: INT>"\n'
        'Schema that cannot be merged with the initial schema:\n"STRUCT<n: INT, `a b`: ARRAY<INT>, id: STRING>".'
    )
    reported = str(merge_conflict(ValueError(text), "lake"))
    assert "column 'id' is bigint in some and string in others" in reported
    assert "column 'a b' is int in some and array<int> in others" in reported
    assert "'n'" not in reported
    assert "Failed merging" in str(
        merge_conflict(ValueError("Failed merging schema: struct<"), "lake")
    )
