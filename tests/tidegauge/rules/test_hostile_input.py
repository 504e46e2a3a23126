"""Hostile names, values, data and rules: each problem is reported by name and does not affect other rules."""

import datetime as dt
import math
import random
import re
from decimal import Decimal

import pytest

import tidegauge as tg
from tests.conftest import CONNECT

# The tests are about rules that cannot be evaluated. Another test covers the warnings of frames.
pytestmark = [
    pytest.mark.spark,
    pytest.mark.classic,
    pytest.mark.filterwarnings("ignore:ignored .* could not be evaluated"),
]

ROWS = [(1, 10.0, "x"), (0, 5.0, "7"), (None, None, None), (2, math.nan, "it's"), (3, 0.0, "a\\b")]
GOOD = tg.Rule("a < 2", "good")
"""True for 1 and 0; 2, 3 and null break it."""


@pytest.fixture(scope="module")
def data(spark):
    return spark.createDataFrame(ROWS, "a int, b double, s string").coalesce(1).cache()


def build_dqm(*some, start=None):
    dqm = start or tg.DQM()
    for one in some:
        dqm = dqm.add(one)
    return dqm


def charged(done):
    return {r.name: done.state.rule_count(r.name) for r in done.dqm.tasks.rules}


@pytest.mark.soak
@pytest.mark.parametrize("limit", [None, 5], ids=["combinations", "sums"])
def test_two_hundred_rules_are_counted(spark, monkeypatch, limit):
    """They need several words of bits, half of them before and half after fixes."""
    if limit:
        monkeypatch.setattr("tidegauge.rules.tally.MAX_COLLECTED_ROWS", limit)
    rng = random.Random(7)
    rows = [(n, rng.choice([None, *range(12)]), rng.choice("pq")) for n in range(300)]
    data = spark.createDataFrame(rows, "n int, v int, part string")
    dqm, limits = tg.DQM(), {}
    for n in range(200):
        stage = "before" if n % 2 else "after"
        limits[f"r{n}"] = (n % 14, stage)
        dqm = dqm.add(tg.Rule(f"v <> {n % 14}", f"r{n}", severity="warning", stage=stage, on_null="pass"))  # fmt: skip
    for n in range(70):
        dqm = dqm.add(tg.Fix(f"v = 3 AND n = {n}", "v", 4, f"f{n}"))
    done = dqm.apply(data, partition_by=["part"], samples=0)

    def naive(some):
        after = {n: 4 if v == 3 and n < 70 else v for n, v, _ in some}
        before = {n: v for n, v, _ in some}
        actual = {("records", ""): len(some), ("kept", ""): len(some)}
        for name, (bad, stage) in limits.items():
            seen = (before if stage == "before" else after).values()
            actual["violated", name] = actual["charged", name] = sum(v == bad for v in seen)
            actual["unknown", name] = sum(v is None for v in seen)
        for n in range(70):
            actual["fixed", f"f{n}"] = int(before.get(n) == 3)
        return actual

    assert dqm.tasks.words > 6
    for part in "pq":
        state = done.partitions()[f"part={part}"]
        assert dqm.tasks.counts_by_task(state) == naive([r for r in rows if r[2] == part])
        assert (state.masks is None) == bool(limit)
    assert dqm.tasks.counts_by_task(done.counts) == naive(rows)


HOSTILE = [
    "a.b", "it's", 'say "no"', "back`tick", "ünï ☃", "two\nlines", "a", "b", "*", "${HOME}", "\\", " x ",
    "'; DROP TABLE x; --", "/*", "</script>", "__tidegauge_w0", "$1", "%s", "{0}", "\u202e",
]  # fmt: skip


def test_hostile_names_of_rules_and_fixes_are_counted(data):
    dqm = build_dqm(*(tg.Rule("a < 2", name, severity="warning") for name in HOSTILE))
    dqm = build_dqm(*(tg.Fix("a = 0", "a", 1, f"fix {n}") for n in HOSTILE), start=dqm)
    dqm = dqm.add(tg.Rule("a < 1", "last"))
    done = dqm.apply(data)
    assert charged(done) == dict.fromkeys(HOSTILE, 3) | {"last": 4}
    assert done.state.fix_count("fix a.b") == 1
    assert done.state.fix_count("fix ${HOME}") == 0  # the first fix left no value to repair
    assert {s.task for s in done.state.samples} == {*HOSTILE, "last"}
    (nulls,) = [r for r in done.rejects.collect() if r.a is None]
    assert nulls.broken_rules == [*HOSTILE, "last"]
    metrics = done.metrics()
    kept = metrics[(metrics.name == "RuleRejects") & (metrics.instance == "${HOME}")]
    assert kept.value.tolist() == [3.0]


COLUMNS = [
    "a.b", "back`tick", "two words", "it's", 'say "no"', "ünï", "two\nlines", "*", "__tidegauge", "`", "1st",
    "select", "__tidegauge_x1", "$x", "a--b", "/*",
]  # fmt: skip


def test_hostile_column_names_are_counted(spark):
    quoted = {name: "`" + name.replace("`", "``") + "`" for name in COLUMNS}
    data = spark.createDataFrame([tuple(range(16)), (None,) * 16], "struct<" + ",".join(f"{q}: int" for q in quoted.values()) + ">")  # fmt: skip
    dqm = tg.DQM()
    for name, q in quoted.items():
        dqm = dqm.add(tg.NotNullRule(q, severity="warning", name=f"null {name}"))
        dqm = dqm.add(tg.Rule(f"{q} >= 0", f"sql {name}", on_null="pass"))
        dqm = dqm.add(tg.BoundFix(q, 100, None, name=f"bound {name}"))
        # reads the value written by the fix before it
        dqm = dqm.add(tg.Fix(f"{q} = 100", q, f"{q} + 1", f"next {name}"))
    done = dqm.apply(data, keys=["a.b"])
    assert not done.state.errors
    assert set(charged(done).values()) == {0, 1}
    assert [tuple(row) for row in done.data.collect()] == [(101,) * 16, (None,) * 16]
    assert done.data.columns == COLUMNS
    sample = next(s for s in done.state.samples if s.task == "null select")
    assert list(sample.record) == ["a.b", "select"]


def test_reserved_column_names_are_refused(data):
    for name in ("__tidegauge_w0", "__TIDEGAUGE_E1", "__tidegauge_n"):
        with pytest.raises(tg.RuleError, match="reserved for counting; rename the column"):
            tg.DQM().add(GOOD).apply(data.withColumnRenamed("s", name))
    with pytest.raises(tg.RuleError, match="has a column 'broken_rules'"):
        tg.DQM().add(GOOD).apply(data.withColumnRenamed("s", "Broken_Rules")).rejects  # noqa: B018


BROKEN = {
    "a) OR (b": "PARSE_SYNTAX_ERROR",
    "1=1; DROP TABLE x": "PARSE_SYNTAX_ERROR",
    "a < 3 /* open": "UNCLOSED_BRACKETED_COMMENT",
    "a < 3 AS other": "has an alias; remove it",
    "a) AS (b": "PARSE_SYNTAX_ERROR",
    "a < 3) , (b": "PARSE_SYNTAX_ERROR|not a condition",
    "a < 3) END, CASE WHEN (true": "PARSE_SYNTAX_ERROR",
    "*": "STAR",
    "'": "PARSE_SYNTAX_ERROR",
    "s = 'x": "PARSE_SYNTAX_ERROR",
    "`": "PARSE_SYNTAX_ERROR",
    "a < 3)": "PARSE_SYNTAX_ERROR",
    "(a < 3": "PARSE_SYNTAX_ERROR",
    "a": "type int, not a condition",
    "s": "type string, not a condition",
    "a, b": "PARSE_SYNTAX_ERROR",
    "nope < 1": "nope",
    "b.c = 1": "Need a complex type",
    "max(a) > 0": "MISSING_GROUP_BY",
    "count(1) > 0": "MISSING_GROUP_BY",
    "explode(array(true, false))": "GENERATOR",
    "nosuch(a)": "nosuch",
}


@pytest.mark.soak
def test_invalid_conditions_are_reported_and_change_nothing(data):
    dqm = build_dqm(GOOD, *(tg.Rule(text, f"bad {text}", stage=stage) for text, stage in zip(BROKEN, ["before", "after"] * 20, strict=False)))  # fmt: skip
    dqm = dqm.add(tg.Fix("a = 0", "a", 1, "fix")).add(tg.Rule("a <> 1", "last", severity="warning", stage="after"))  # fmt: skip
    for actual in (dqm.apply(data), dqm.attach(data)):
        check = actual.check() if callable(actual.check) else actual.check
        state = actual.state
        assert set(state.errors) == {f"bad {text}" for text in BROKEN}
        for text, why in BROKEN.items():
            message = state.errors[f"bad {text}"]
            assert message.startswith(f"rule {f'bad {text}'!r}: ")
            assert re.search(why, message), message
        assert (state.rule_count("good"), state.fix_count("fix"), state.rule_count("last")) == (3, 1, 2)  # fmt: skip
        assert not check.passed
        assert {name for name, _ in check.error_messages} == set(state.errors)
        assert sorted(r.a for r in actual.data.collect()) == [1, 1]


def test_strings_that_look_dangerous_are_plain_strings(data):
    dqm = build_dqm(
        GOOD,
        tg.Rule("a < 2 -- AND", "comment", severity="warning"),
        tg.Rule("a < 2 /* ' */", "mark", severity="warning"),
        tg.Rule("s <> ') OR true --'", "text", severity="warning"),
    )
    assert charged(dqm.apply(data)) == {"good": 3, "comment": 3, "mark": 3, "text": 1}  # fmt: skip


VALUES = [
    "it's",
    'say "no"',
    "a\\b",
    "a\\",
    "'",
    "${HOME}",
    "${spark.app.name}",
    "\n",
    "--",
    "\\'",
    "☃",
]


def test_hostile_values_are_compared_exactly(spark):
    data = spark.createDataFrame([(v,) for v in [*VALUES, "other"]], "s string")
    dqm = tg.DQM().add(tg.SetRule("s", VALUES, name="set"))
    for n, value in enumerate(VALUES):
        exact = "\\Q" + value + "\\E" if "$" in value else re.escape(value)
        dqm = dqm.add(tg.FormatRule("s", exact, name=f"format {n}", severity="warning"))
    done = dqm.apply(data)
    assert not done.state.errors
    assert done.state.rule_count("set") == 1
    assert {done.state.rule_count(f"format {n}") for n in range(len(VALUES))} == {len(VALUES)}
    for default in VALUES:
        fixed = tg.DQM().add(tg.SetFix("s", ["other"], default)).apply(data, samples=0)
        assert {r.s for r in fixed.data.collect()} == {"other", default}


FAILING = {"1 / a > 0": "DIVIDE_BY_ZERO", "CAST(s AS INT) > 0": "CAST_INVALID_INPUT"}


def test_a_rule_that_fails_on_the_data_is_named(data):
    dqm = build_dqm(
        GOOD, *(tg.Rule(text, severity="warning") for text in FAILING), tg.Rule("b > 7", "b")
    )
    done = dqm.apply(data)
    assert set(done.state.errors) == set(FAILING)
    for text, why in FAILING.items():
        assert why in done.state.errors[text]
    assert (done.state.rule_count("good"), done.state.rule_count("b")) == (3, 1)
    assert {name for name, _ in done.check.error_messages} == set(FAILING)
    assert [r.a for r in done.data.collect()] == [1]


def test_a_rule_that_fails_in_one_partition_is_counted_in_the_others(data, monkeypatch):
    dqm = build_dqm(GOOD, tg.Rule("1 / a >= 0", "inverse", severity="warning", on_null="pass"))
    done = dqm.apply(data.where("a IS NOT NULL"), partition_by=["a"])
    metrics = done.metrics().set_index(["partition", "name", "instance"])
    for part in (0, 1, 2, 3):
        row = metrics.loc[f"a={part}", "RuleViolations", "inverse"]
        assert (row.status, row.value) == ("finite", 0.0) if part else row.status == "failed"
        assert metrics.loc[f"a={part}", "RuleViolations", "good"].value == (part >= 2)
    assert list(done.state.errors) == ["inverse"]


@pytest.mark.soak
def test_invalid_fixes_are_reported(data):
    dqm = build_dqm(
        tg.Fix("a = 1", "a", "'abc'", "text"),
        tg.Fix("a = 0", "a", "99999999999", "large"),
        tg.Fix("a = 2", "nope", 1, "column"),
        tg.Fix("a = 2", "b", "max(b)", "sum"),
        tg.Fix("a = 3", "b", "1 / (a - 3)", "zero"),
        tg.Fix("a = 2", "b", 1, "fine"),
    )
    done = dqm.apply(data)
    assert set(done.state.errors) == {"text", "large", "column", "sum", "zero"}
    assert done.state.fix_count("fine") == 1
    assert sorted((r.a, r.b) for r in done.data.collect() if r.a) == [(1, 10.0), (2, 1.0), (3, 0.0)]


def test_a_fix_is_evaluated_only_on_records_that_it_repairs(data):
    dqm = build_dqm(tg.Rule("a > 0", "positive"), tg.Fix("a > 0", "b", "1 / a", "inverse"))
    done = dqm.apply(data)
    assert not done.state.errors
    assert sorted(r.b for r in done.data.collect()) == [1 / 3, 0.5, 1.0]


@pytest.mark.soak
def test_rules_can_be_functions_and_columns(data):
    from pyspark.sql import functions as F

    def small(frame):
        return F.col("a") < 2

    def raises(frame):
        raise ZeroDivisionError("on purpose")

    odd = F.udf(lambda a: a is not None and a % 2 == 1, "boolean")
    boom = F.udf(lambda a: 1 // a > 0, "boolean")
    dqm = build_dqm(
        tg.Rule(small),
        tg.Rule(lambda frame: "a < 2", "text", severity="warning"),
        tg.Rule(F.col("a") < 2, "column", severity="warning"),
        tg.Rule(data["a"] < 2, "bound", severity="warning"),
        tg.Rule(F.expr("a < 2") & F.lit(True), "both", severity="warning"),
        tg.BoundRule(F.col("a"), None, 2, severity="warning", name="built"),
        tg.Rule(odd("a"), "odd", severity="warning"),
        tg.Rule(boom("a"), "boom"),
        tg.Rule(raises),
        tg.Rule(lambda frame: 5, "five"),
        tg.Fix(F.col("a") == 0, "a", F.col("a") + 1, "inc"),
        tg.Fix(lambda frame: F.col("a") == 1, "s", lambda frame: F.lit("one"), "one"),
    )
    done = dqm.apply(data)
    assert set(done.state.errors) == {"boom", "raises", "five"}
    assert "on purpose" in done.state.errors["raises"]
    counts = charged(done)
    assert {counts[n] for n in ("small", "text", "column", "bound", "both", "built")} == {3}
    assert counts["odd"] == 3
    assert (done.state.fix_count("inc"), done.state.fix_count("one")) == (1, 2)
    assert [tuple(r) for r in done.data.orderBy("b").collect()] == [
        (1, 5.0, "one"),
        (1, 10.0, "one"),
    ]


def test_policies_can_raise_and_can_run_actions(data):
    def raises(state):
        raise KeyError("nothing here")

    def acts(frame, state):
        frame.count()
        frame.collect()
        return state.records == 5 and frame.count() == 2

    dqm = tg.DQM().add(GOOD).add(raises).add(acts)
    for check in (dqm.apply(data).check, dqm.attach(data).check(), dqm.validate(data)):
        assert check.outcomes == (("raises", False), ("acts", True))
        assert check.error_messages == (("raises", "raised KeyError: 'nothing here'"),)


def test_an_empty_frame_passes_every_share(data):
    dqm = (
        tg.DQM().add(GOOD, tg.FailPercent(1e-9)).add(tg.Fix("a = 0", "a", 1), tg.FailPercent(1e-9))
    )
    dqm = dqm.add(tg.FailTotalRulePercentPolicy(1e-9)).add(tg.FailTotalFixPercentPolicy(1e-9))
    done = dqm.apply(data.where("false"))
    assert done.check.passed
    assert done.state.records == 0
    assert (done.data.count(), done.rejects.count(), done.state.samples) == (0, 0, ())
    assert dqm.attach(data.where("false")).check().passed
    assert set(done.metrics().status) <= {"finite", "empty"}


def test_nested_and_unusual_types_are_supported(spark):
    data = spark.sql(
        """
        SELECT * FROM VALUES
          (1, named_struct('zip', '123', 'in', named_struct('n', 5)), map('k', 1), array(1, 2),
           1.10BD, DATE'2020-01-01', TIMESTAMP'2020-01-01 12:00:00', X'00FF', true),
          (2, named_struct('zip', '12', 'in', named_struct('n', 7)), map('k', 2), array(5),
           9.99BD, DATE'2021-06-30', TIMESTAMP'2020-01-02 00:00:00', X'', false),
          (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)
        AS t(id, address, m, l, price, day, time, raw, flag)
        """
    )
    one = {"severity": "warning", "on_null": "pass"}
    dqm = build_dqm(
        tg.FormatRule("address.zip", "[0-9]{3}", **one),
        tg.BoundRule("address.in.n", 1, 6, **one),
        tg.Rule("m['k'] < 2", "map", **one),
        tg.BoundRule("l[0]", 0, 2, **one),
        tg.BoundRule("price", Decimal("1.10"), Decimal("9.99"), **one),
        tg.BoundRule("day", dt.date(2020, 1, 1), dt.date(2021, 1, 1), closed="both", **one),
        tg.BoundRule("time", dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 2), **one),
        tg.SetRule("price", [Decimal("1.1")], **one),
        tg.SetRule("flag", [True], **one),
        tg.Rule("flag", "flag", **one),
        tg.NotNullRule("raw", severity="warning"),
        tg.Fix("m IS NULL", "m", "map('z', 0)", "m"),
        tg.Fix("address IS NULL", "address", "named_struct('zip', '0', 'in', named_struct('n', 0))", "struct"),
        tg.BoundFix("price", None, Decimal("5.00"), name="price"),
        tg.BoundFix("day", dt.date(2020, 6, 1), None, name="day"),
        tg.Fix("id = 1", "address.zip", "'x'", "inside"),
    )  # fmt: skip
    done = dqm.apply(data, keys=["m", "raw", "time"])
    assert list(done.state.errors) == ["inside"]
    assert "repair the whole column" in done.state.errors["inside"]
    assert [n for n in charged(done).values()] == [1] * len(dqm.tasks.rules)
    assert [done.state.fix_count(n) for n in ("m", "struct", "price", "day")] == [1] * 4
    rows = {r.id: r for r in done.data.collect()}
    assert (rows[2].price, rows[1].day, rows[3].m) == (
        Decimal("5.00"),
        dt.date(2020, 6, 1),
        {"z": 0},
    )
    assert rows[3].address["in"]["n"] == 0
    assert done.data.dtypes == data.dtypes
    sample = next(s for s in done.state.samples if s.task == "map")
    assert sample.record["m"] == "{k -> 2}"


def test_column_names_ignore_case(data):
    dqm = build_dqm(
        tg.BoundRule("A", 0, 2), tg.NotNullFix("B", 0.5), tg.Fix("A = 0", "b", "B + 1", "f")
    )
    done = dqm.apply(data, keys=["S"], partition_by=["A"])
    assert not done.state.errors
    assert sorted(r.b for r in done.data.collect()) == [6.0, 10.0]
    assert done.partition_by == ("a",)
    assert all("s" in s.record for s in done.state.samples)


def test_samples_are_few_short_and_reproducible(spark):
    data = spark.range(500).selectExpr("id", "repeat('x', 1000) AS long", "id % 2 AS part")
    dqm = build_dqm(
        tg.Rule("id < 0 AND long > ''", "id"), tg.Rule("part < 1", "part", severity="warning")
    )
    first = dqm.apply(data, samples=4, keys=["part"], partition_by=["part"]).state.samples
    again = dqm.apply(
        data.repartition(7), samples=4, keys=["part"], partition_by=["part"]
    ).state.samples
    assert first == again
    assert [s.task for s in first] == ["id"] * 4 + ["part"] * 4
    assert all(len(s.record["long"]) == 200 for s in first[:4])
    assert {s.partition for s in first[4:]} == {"part=1"}
    assert dqm.apply(data, samples=0).state.samples == ()


def test_missing_partition_columns_are_reported(data):
    with pytest.raises(tg.NoSuchColumnError, match="nope"):
        tg.DQM().add(GOOD).apply(data, partition_by=["nope"])
    with pytest.raises(tg.NoSuchColumnError, match="nope"):
        tg.DQM().add(GOOD).apply(data, keys=["nope"])


@pytest.mark.soak
def test_many_fixes_of_one_column_are_planned_quickly(spark):
    """Each fix reads the result of the previous one. Nested expressions would grow to 3 to the power of 16."""
    data = spark.range(100).selectExpr("id AS a")
    dqm = build_dqm(*(tg.Fix(f"a % {n + 2} = 0", "a", "a + 1", f"f{n}") for n in range(16)))
    dqm = dqm.add(tg.Rule("a > 3", "after", stage="after"))

    def naive(a):
        for n in range(16):
            a += a % (n + 2) == 0
        return a

    want = sorted(b for b in map(naive, range(100)) if b > 3)
    done = dqm.apply(data)
    assert sorted(r.a for r in done.data.where("a > 0").collect()) == want
    assert done.rejects.count() == 100 - len(want)


@pytest.mark.soak
@pytest.mark.skipif(CONNECT, reason="streams run in the test's own session")
def test_rules_apply_to_a_stream_without_a_verdict(spark, tmp_path):
    folder = str(tmp_path / "in")
    spark.createDataFrame([(1,), (5,), (None,)], "a int").write.parquet(folder)
    stream = spark.readStream.schema("a int").parquet(folder)
    dqm = build_dqm(
        GOOD, tg.Rule("a <> 4", "after", stage="after"), tg.BoundFix("a", 2, None, name="low")
    )
    attached = dqm.attach(stream)
    query = attached.data.writeStream.format("memory").queryName("ruled").trigger(availableNow=True)
    query.start().awaitTermination()
    assert [r.a for r in spark.table("ruled").collect()] == [2]
    with pytest.raises(tg.RuleError, match="foreachBatch"):
        attached.check()
