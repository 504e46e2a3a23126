"""Rules of a suite: counted in its scan, stored by partition, judged, and judged again."""

import pytest

import tidegauge as tg
from tests.support.spark_actions import counted
from tidegauge.rules.verdicts import failure_samples

pytestmark = pytest.mark.spark
DAYS = ("2013-01-01", "2013-01-02", "2013-01-03")
# By day: ages, of which 200 and -1 break the bounds, and null is unknown.
AGES = {DAYS[0]: [10, 20, 200], DAYS[1]: [10, None, 30, -1], DAYS[2]: [1, 2, 3, 4]}


def dqm(limit=2):
    return (
        tg.DQM("people")
        .add(tg.BoundRule("age", 0, 150, name="age"), tg.FailCount(limit))
        .add(tg.Rule("age <> 2", "not two", severity="warning", on_null="pass"))
        .add(tg.Fix("age > 25", column="age", value="25", name="cap"))
    )


def suite(**options):
    given = {"partition_by": ["ds"], "dqm": dqm()} | options
    return tg.Suite("people", [tg.Size()], **given)


@pytest.fixture
def table(spark):
    rows = [(age, day) for day, ages in AGES.items() for age in ages]
    spark.createDataFrame(rows, "age int, ds string").repartition(1).write.partitionBy("ds").mode(
        "overwrite"
    ).format("parquet").saveAsTable("people_of_rules")
    yield "people_of_rules"
    spark.sql("DROP TABLE people_of_rules")


def values(frame):
    rows = frame[["partition", "name", "instance", "value"]].itertuples(index=False)
    return {tuple(row[:3]): row[3] for row in rows}


def test_rules_are_counted_with_the_analyzers_and_judged_by_partition(spark, table, repo):
    run = tg.analyze(table, suite(), repository=repo)
    actual = values(repo.metrics("people"))
    days = [f"ds={day}" for day in DAYS]
    expected = {
        ("Size", "*"): (3, 4, 4),
        ("RuleViolations", "age"): (1, 1, 0),
        ("RuleUnknown", "age"): (0, 1, 0),
        ("RuleRejects", "age"): (1, 2, 0),
        ("RuleRejectsRatio", "age"): (1 / 3, 0.5, 0),
        ("RuleRejects", "not two"): (0, 0, 1),
        ("FixCount", "cap"): (0, 1, 0),
        ("FixCountRatio", "cap"): (0, 0.25, 0),
        ("RecordRules.rejected", "*"): (1, 2, 0),
        ("RecordRules.fixed", "*"): (0, 1, 0),
    }
    for (name, instance), numbers in expected.items():
        assert [actual[day, name, instance] for day in days] == list(numbers), (name, instance)
    assert {day: check.passed for day, check in run.checks.items()} == {
        days[0]: True,
        days[1]: False,
        days[2]: True,
    }
    assert not run.passed
    assert "policies fail in 1" in str(run)
    assert run.checks[days[1]].error_messages == (("age", "2 of 4 records, fewer than 2 allowed"),)
    kept = repo.verdicts("people")
    assert set(zip(kept["partition"], kept["passed"], strict=True)) == {
        (days[0], True),
        (days[1], False),
        (days[2], True),
    }
    whole = repo.merge("people", tg.RuleViolations("age", "`age` >= 0 AND `age` < 150"))
    assert whole.value == 2


def test_verdicts_contain_samples_of_rejected_records(spark, table, repo):
    checks = tg.analyze(table, suite(), repository=repo).checks
    logs = {name[-1]: checks[name].check_log for name in checks}
    samples = {day: [line for line in log if line.startswith("  ")] for day, log in logs.items()}
    assert samples == {"1": ["  age=200"], "2": ["  age=-1", "  age="], "3": ["  age=2"]}
    kept = repo.verdicts("people").set_index("partition")["result"]
    assert failure_samples(kept[f"ds={DAYS[1]}"]) == ["age=-1", "age="]
    # Samples stay with a verdict that is still valid, and are replaced if a partition is judged again.
    spark.sql(f"INSERT OVERWRITE {table} PARTITION (ds='{DAYS[0]}') SELECT 300")
    again = tg.analyze(table, suite(), repository=repo).checks
    assert "  age=300" in again[f"ds={DAYS[0]}"].check_log
    assert "  age=-1" in again[f"ds={DAYS[1]}"].check_log


def test_the_number_of_samples_is_configurable_and_private_columns_are_hidden(spark, table, repo):
    def sampled(name, private=(), **options):
        given = tg.Suite(name, [tg.Size()], partition_by=["ds"], dqm=dqm(), private=private)
        run = tg.analyze(table, given, repository=repo, **options)
        lines = [line for check in run.checks.values() for line in check.check_log]
        return [line for line in lines if line.startswith("  ")]

    assert sampled("none", samples=0) == []
    assert len(sampled("one", samples=1)) == 2  # one of each rule in all partitions together
    assert set(sampled("private", private=["age"])) == {"  age=***", "  age="}
    whole = tg.Suite("given", [tg.Size()], partition_by=["ds"], dqm=dqm())
    frame = spark.createDataFrame([(-5,), (2,)], "age int")
    run = tg.analyze(frame, whole, repository=repo, partition={"ds": DAYS[0]})
    assert [line for line in run.checks[f"ds={DAYS[0]}"].check_log if line[0] == " "] == [
        "  age=-5",
        "  age=2",
    ]


def test_failures_fail_again_without_a_scan(spark, table, repo):
    first = tg.analyze(table, suite(), repository=repo)
    again = tg.analyze(table, suite(), repository=repo)
    assert not again.changes
    assert again.checks == first.checks
    assert not again.passed


@pytest.mark.classic
def test_other_limits_can_be_applied_to_stored_counts(spark, table, repo):
    tg.analyze(table, suite(), repository=repo)
    with counted(spark) as executed:
        judged = tg.judge(repo, "people", dqm(limit=1))
    assert executed == []
    assert [judged[f"ds={day}"].passed for day in DAYS] == [False, False, True]
    # Samples belong to the stored verdicts, which have other limits.
    assert [judged[f"ds={day}"].samples for day in DAYS] == [
        ["age=200"],
        ["age=-1", "age="],
        ["age=2"],
    ]
    with pytest.raises(tg.HistoryError, match="never measured"):
        tg.judge(repo, "people", tg.DQM().add(tg.Rule("age > 1")))


def test_history_continues_after_a_rule_is_added(spark, table, repo):
    tg.analyze(table, suite(), repository=repo)
    more = dqm().add(tg.NotNullRule("age", name="there"), tg.FailAny)
    tg.analyze(table, suite(dqm=more), repository=repo)
    frame = repo.metrics("people")
    # Rules before the new one are unchanged. The counts of the new rule are also measured for the past.
    for name in ("RuleViolations", "RuleRejects"):
        rows = frame[(frame["name"] == name) & (frame["instance"] == "age")]
        assert rows["analyzer"].nunique() == 1
        assert len(rows) == len(DAYS)
    there = frame[(frame["name"] == "RuleViolations") & (frame["instance"] == "there")]
    assert list(there["value"]) == [0, 1, 0]


def test_a_rule_that_raises_fails_by_name_in_its_partition(spark, table, repo):
    raising = dqm().add(tg.Rule("10 / (age - 3) > -100", "divided", on_null="pass"))
    run = tg.analyze(table, suite(dqm=raising), repository=repo)
    frame = repo.metrics("people", name="RuleViolations")
    status = {(r.partition[-1], r.instance): r.status for r in frame.itertuples()}
    assert status == {
        **{(day, name): "finite" for day in "123" for name in ("age", "not two")},
        **{(day, "divided"): "finite" for day in "12"},
        ("3", "divided"): "failed",
    }
    assert "divided" in run.checks[f"ds={DAYS[2]}"].error_messages[0][1]
    assert run.checks[f"ds={DAYS[0]}"].passed


def test_a_suite_with_rules_reads_back(repo):
    with_rules = suite()
    assert tg.Suite.from_json(with_rules.canonical()) == with_rules
    with pytest.raises(tg.SuiteError, match="needs the data"):
        suite(dqm=dqm().add(tg.DQMPolicy(lambda df, state: df.count() > state.records, "more")))
