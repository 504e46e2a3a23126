"""Rules whose result depends on more than the record are refused. Handled errors are reported once."""

import logging

import pytest
from pyspark.sql import functions as F

import tidegauge as tg
from tidegauge.rules.tasks import check_deterministic, check_record_by_record


def refusal(check, *arguments):
    """Return the message of the error, or an empty string."""
    try:
        check(*arguments)
    except tg.UnresolvedExpressionError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("condition", "function"),
    [
        ("rand() < 0.5", "rand"),
        ("a = UUID ()", "UUID"),
        ("monotonically_increasing_id() < 10", "monotonically_increasing_id"),
        ("reflect('java.util.UUID', 'randomUUID') > a", "reflect"),
        ("a = 'rand()'", ""),
        ("a = 1 -- rand()", ""),
        ("brand(a) > 1", ""),
        ("`rand` > (1)", ""),
    ],
)
def test_conditions_that_are_not_deterministic_are_refused(condition, function):
    reported = refusal(check_deterministic, condition)
    assert (
        reported.startswith(f"{function}() returns different values")
        if function
        else reported == ""
    )


@pytest.mark.parametrize(
    ("condition", "problem"),
    [
        ("count(1) over (partition by id) = 1", "window"),
        ("row_number() OVER(ORDER BY ts) = 1", "window"),
        ("count(1) over (partition by ds, id) = 1", ""),
        ("count(1) over (partition by `DS`, lower(id)) = 1", ""),
        ("id IN (SELECT id FROM other)", "subquery"),
        ("id IN (\n select max(id) from other)", "subquery"),
        ("EXISTS (SELECT * FROM other)", "subquery"),
        ("(select > 1) AND (over > 2)", ""),
        ("(select IS NULL OR `from` = 2)", ""),
        ("a = '(select b from c)'", ""),
    ],
)
def test_conditions_that_read_other_partitions_are_refused(condition, problem):
    message = refusal(check_record_by_record, condition, ["ds"])
    assert problem in message if problem else message == ""


def test_conditions_on_a_whole_table_can_read_all_its_records():
    assert refusal(check_record_by_record, "count(1) over (partition by id) = 1", []) == ""


def test_a_random_rule_rejects_nothing(spark):
    data = spark.range(100)
    dqm = tg.DQM().add(tg.Rule("rand() < 0.5", "half")).add(tg.Rule("id < 90", "low"))
    done = dqm.apply(data, samples=0)
    assert "half" in done.state.errors
    assert not done.check.passed
    with pytest.warns(tg.VerdictWarning, match="half"):
        assert done.data.count() == 90


def test_a_nondeterministic_function_rejects_nothing(spark):
    """Spark knows that a user's function is nondeterministic, in a string and in a Column. The partition of a record is also random."""
    flaky = F.udf(lambda n: n % 2 == 0, "boolean").asNondeterministic()
    steady = F.udf(lambda n: n < 90, "boolean")
    spark.udf.register("flaky_of_rules", flaky)
    dqm = (
        tg.DQM()
        .add(tg.Rule("flaky_of_rules(id)", "by name"))
        .add(tg.Rule(flaky("id"), "as a column"))
        .add(tg.Rule(steady("id"), "steady"))
        .add(tg.Rule("input_file_name() IS NOT NULL", "file"))
    )
    done = dqm.apply(spark.range(100), samples=0)
    assert set(done.state.errors) == {"by name", "as a column"}
    assert "returns different values each time" in str(done.state.errors["by name"])
    assert done.state.rule_count("steady") == 10
    with pytest.warns(tg.VerdictWarning, match="by name"):
        assert done.data.count() == 90


@pytest.mark.parametrize("value", ["uuid()", F.expr, lambda _: "cast(rand() AS string)"])
def test_a_random_value_replaces_nothing(spark, value):
    """Rules after the fix would judge one value, and another value would be written."""
    data = spark.createDataFrame([("x",), (None,)], "s string")
    value = F.expr("uuid()") if value is F.expr else value  # a Column needs a session
    done = tg.DQM().add(tg.Fix("s IS NULL", "s", value, "filled")).apply(data, samples=0)
    assert "() returns different values each time" in str(done.state.errors["filled"])
    assert not done.check.passed
    with pytest.warns(tg.VerdictWarning, match="filled"):
        assert [row.s for row in done.data.collect()] == ["x", None]


def test_records_with_warnings_are_flagged_in_a_column_of_any_name(spark):
    data = spark.createDataFrame([(1, "x"), (7, "y"), (9, "z")], "n int, broken_rules string")
    dqm = (
        tg.DQM()
        .add(tg.Rule("n < 8", "small"))
        .add(tg.Rule("n <> 7", "not seven", severity="warning"))
    )
    done = dqm.apply(data, samples=0)
    with pytest.raises(tg.RuleError, match="'broken_rules'"):
        _ = done.rejects
    flagged = {row.n: row.why for row in done.flagged("why").collect()}
    assert flagged == {1: [], 7: ["not seven"], 9: ["small"]}
    assert [tuple(row) for row in done.rejects_as("why").collect()] == [(9, "z", ["small"])]


def test_reasons_contain_message_tags_run_and_time_of_a_broken_rule(spark):
    data = spark.createDataFrame([(1, "x"), (7, None), (9, "z")], "n int, s string")
    dqm = (
        tg.DQM()
        .add(tg.BoundRule("n", 0, 8, message="It's too big", tags=["ops", "eu"]), tg.FailAny())
        .add(tg.NotNullRule("s", "has s", severity="warning", description="s is a key elsewhere"))
    )
    done = dqm.apply(data, samples=0)
    assert done.check.error_messages == (
        ("BoundRule(n, 0, 8)", "It's too big: 1 of 3 records, none allowed"),
    )
    rows = {row.n: row for row in done.flagged("names", reasons="why").collect()}
    assert rows[1].why == []
    big, lacking = rows[9].why[0], rows[7].why[0]
    assert (big.rule, big.message, big.severity, big.tags, big.run) == (
        ("BoundRule(n, 0, 8)", "It's too big", "error", ["ops", "eu"], None)
    )
    assert (lacking.message, lacking.severity, lacking.tags) == (
        ("not true: `s` IS NOT NULL", "warning", [])
    )
    assert big.time == lacking.time
    (rejected,) = done.rejects_as("names", reasons="why").collect()
    assert (rejected.n, rejected.names, rejected.why[0].rule) == (
        9,
        ["BoundRule(n, 0, 8)"],
        big.rule,
    )
    with pytest.raises(tg.RuleError, match="already has a column 'S'"):
        done.flagged(reasons="S")
    with pytest.raises(tg.RuleError, match="already has a column 'names'"):
        done.rejects_as("names", reasons="names")


def test_the_message_of_a_rule_does_not_change_its_counts():
    plain, described = tg.Rule("n > 0", "pos"), tg.Rule("n > 0", "pos", message="m", tags=["t"])
    assert plain == described
    assert tg.DQM().add(plain).specification == tg.DQM().add(described).specification
    with pytest.raises(tg.RuleError, match="tags must be a list"):
        tg.NotNullRule("n", tags="pii")
    with pytest.raises(tg.RuleError, match="message must be a string, not 3"):
        tg.Rule("n > 0", message=3)


def test_a_rule_with_a_filter_covers_only_matching_records(spark):
    rows = [(1, 5, "EWR"), (2, -5, "EWR"), (3, -5, "JFK"), (4, -5, None), (5, None, "EWR")]
    data = spark.createDataFrame(rows, "id int, delay int, origin string")
    dqm = (
        tg.DQM()
        .add(tg.Rule("delay > 0", "text", where="origin = 'EWR'"))
        .add(tg.BoundRule("delay", 0, None, name="column", where=lambda df: df.origin == "EWR"))
        .add(tg.Rule("delay > 0", "open", where="origin = 'EWR') OR (true"))
    )
    done = dqm.apply(data)
    assert set(done.state.errors) == {"open"}  # a filter cannot leave its parentheses
    for name in ("text", "column"):
        assert (done.state.violations(name), done.state.unknown(name)) == (1, 1)
    with pytest.warns(tg.VerdictWarning, match="open"):
        assert sorted(row.id for row in done.data.collect()) == [1, 3, 4]


def test_every_kind_of_verdict_shows_samples(spark):
    data = spark.createDataFrame([(1,), (7,), (200,)], "age int")
    dqm = tg.DQM("ages").add(tg.Rule("age < 150", "age"), tg.FailAny)
    for log in (
        dqm.validate(data).check_log,
        tg.ValidationSet([dqm]).judge(data).check_log,
        dqm.attach(data).check(samples=5).check_log,
    ):
        assert log == ("rule age: 1 of 3 records", "  age=200")
    assert dqm.attach(data).check().check_log == ("rule age: 1 of 3 records",)


def test_handled_errors_are_not_logged(spark, monkeypatch):
    pytest.importorskip("pyspark.logger")  # PySpark logs them since version 4
    from pyspark.logger import PySparkLogger

    name = "SQLQueryContextLogger"
    monkeypatch.delitem(logging.Logger.manager.loggerDict, name, raising=False)
    reported, handler = [], logging.StreamHandler()
    monkeypatch.setattr(handler, "emit", reported.append)
    PySparkLogger.getLogger(name).addHandler(handler)
    data = spark.createDataFrame([(1, "a")], "a int, b string")
    done = tg.DQM().add(tg.Rule("c > 1", "c")).add(tg.Rule("CAST(b AS INT) > 1", "b")).apply(data)
    assert set(done.state.errors) == {"b", "c"}
    assert tg.calculate(data, [tg.Size(), tg.Compliance("b", "CAST(b AS INT) > 1")])[1].failed
    assert reported == []
    with pytest.raises(Exception, match="`c`"):
        data.selectExpr("c").collect()
    assert len(reported) == 1
