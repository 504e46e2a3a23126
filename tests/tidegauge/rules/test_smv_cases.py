"""Examples of SMV (Spark Modularized View), whose rules, fixes and policies are the model of ours.

If an example states only sums, its records are worked out by hand.
"""

import pytest

import tidegauge as tg
from tidegauge.rules.verdicts import CheckResult

pytestmark = pytest.mark.spark


def frame(spark, rows, schema="a int, b double"):
    return spark.createDataFrame(rows, schema)


def values(data):
    return sorted(tuple(row) for row in data.collect())


@pytest.fixture(scope="module")
def two_rows(spark):
    return frame(spark, [(1, 0.3), (0, 0.2)])


@pytest.fixture(scope="module")
def three_rows(spark):
    """The examples apply a rule b < 0.4 and a fix a < 1 -> 1 to it. Each of them counts one record."""
    return frame(spark, [(1, 0.3), (0, 0.2), (3, 0.5)])


RULE = tg.Rule("b < 0.4", "rule1")
FIX = tg.Fix("a < 1", column="a", value=1, name="fix2")


def test_counts_can_be_added_by_hand():
    state = tg.DQMState(["rule1", "rule2"], ["fix1"])
    for _ in range(11):
        state.add_records()
    for _ in range(6):
        state.add_rule("rule1")
    state.add_rule("rule2")
    for _ in range(3):
        state.add_fix("fix1")
    state.snapshot()
    assert (state.records, state.rule_count("rule1")) == (11, 6)
    assert (state.total_rule_count, state.total_fix_count) == (7, 3)


def test_a_rule_rejects_and_shows_a_sample(two_rows):
    done = tg.DQM().add(tg.Rule("a + b > 0.3", "sum")).apply(two_rows)
    assert values(done.data) == [(1, 0.3)]
    (sample,) = done.state.samples
    assert (sample.task, str(sample)) == ("sum", "a=0,b=0.2")


def test_fail_any_fails_at_the_first_violation(two_rows):
    done = tg.DQM().add(tg.Rule("a <= 0", "rule"), tg.FailAny).apply(two_rows)
    assert done.data.count() == 1
    assert not done.check.passed
    assert (done.state.records, done.state.rule_count("rule")) == (2, 1)
    assert [s.record["a"] for s in done.state.samples] == ["1"]
    assert done.check.outcomes == (("rule", False),)


POLICIES = [
    ("T7", tg.FailTotalRuleCountPolicy(2), True),  # 1 < 2
    ("", tg.FailTotalRuleCountPolicy(1), False),
    ("T9", tg.FailTotalRulePercentPolicy(0.3), False),  # 1 of 3 is more than 0.3
    ("", tg.FailTotalRulePercentPolicy(0.34), True),
    ("", tg.FailTotalFixCountPolicy(2), True),
    ("", tg.FailTotalFixPercentPolicy(0.3), False),
    (
        "T13",
        tg.DQMPolicy(lambda s: s.rule_count("rule1") + s.fix_count("fix2") == 3, "three"),
        False,
    ),
    ("", tg.DQMPolicy(lambda s: s.rule_count("rule1") + s.fix_count("fix2") == 2, "two"), True),
    # from the design of SMV: the frame after rules and fixes, and the counts
    ("", tg.DQMPolicy(lambda df, s: df.count() == s.records - s.rejects, "frame"), True),
    ("", tg.DQMPolicy(lambda df, s: df.where("a < 1").count() > 0, "repaired"), False),
]


def test_policies_on_all_data_are_evaluated(three_rows):
    dqm = tg.DQM().add(RULE).add(FIX)
    for _, policy, _ in POLICIES:
        dqm = dqm.add(policy)
    done = dqm.apply(three_rows)
    assert dict(done.check.outcomes) == {policy.name: holds for _, policy, holds in POLICIES}
    assert done.check.passed is False


def test_three_built_in_rules_count_and_reject(spark):
    rows = [(1, "m", "a"), (0, "f", "c"), (2, "m", "z"), (1, "o", "x"), (1, "m", "zz")]
    dqm = (
        tg.DQM()
        .add(tg.BoundRule("a", 0, 2))
        .add(tg.SetRule("b", ["m", "f"]))
        .add(tg.FormatRule("c", "."))
        .add(tg.FailTotalRuleCountPolicy(3))
    )
    done = dqm.apply(frame(spark, rows, "a int, b string, c string"))
    assert not done.check.passed
    assert [done.state.rule_count(rule.name) for rule in dqm.tasks.rules] == [1, 1, 1]
    assert values(done.data) == [(0, "f", "c"), (1, "m", "a")]


def test_fail_percent_limits_the_share_of_a_fix(two_rows, three_rows):
    done = tg.DQM().add(FIX, tg.FailPercent(0.5)).apply(three_rows)
    assert (done.check.passed, done.check.outcomes) == (True, (("fix2", True),))
    assert done.state.fix_count("fix2") == 1
    assert values(done.data) == [(1, 0.2), (1, 0.3), (3, 0.5)]
    half = (
        tg.DQM().add(FIX, tg.FailPercent(0.5)).apply(two_rows)
    )  # one of two is not less than half
    assert half.check.outcomes == (("fix2", False),)


def test_a_verdict_with_newlines_reads_back():
    verdict = CheckResult(False, (("rule", "one\ntwo\r\n"),), ("a\nb",), (("rule", False),))
    assert CheckResult.from_json(verdict.to_json()) == verdict


def test_later_actions_read_only_kept_records(spark):
    data = frame(spark, [(-1,), (-2,), (0,), (1,), (2,)], "a int")
    done = tg.DQM().add(tg.Rule("a > 0", "positive")).apply(data)
    assert done.data.count() == 2


def test_a_failed_verdict_is_raised(three_rows):
    dqm = tg.DQM().add(RULE).add(FIX)
    dqm = dqm.add(tg.FailTotalRuleCountPolicy(2)).add(tg.FailTotalFixCountPolicy(1))
    done = dqm.apply(three_rows)
    with pytest.raises(tg.DQMError, match=r"FailTotalFixCountPolicy\(1\)") as raised:
        done.check.terminate_at_error()
    assert raised.value.result is done.check
    state = done.state
    assert (state.records, state.parser_count) == (3, 0)
    assert (state.fix_count("fix2"), state.rule_count("rule1")) == (1, 1)


def test_task_policies_come_first_and_rules_before_fixes(three_rows):
    dqm = tg.DQM().add(tg.FailTotalRuleCountPolicy(9)).add(FIX, tg.FailAny).add(RULE, tg.FailAny)
    names = [name for name, _ in dqm.apply(three_rows).check.outcomes]
    assert names == ["rule1", "fix2", "FailTotalRuleCountPolicy(9)"]


def test_null_is_counted_separately_and_the_first_rule_gets_the_reject(spark):
    data = frame(spark, [(5, 9), (None, 1), (1, 1), (5, 1), (None, None)], "a int, b int")
    dqm = tg.DQM().add(tg.Rule("a < 3", "r1")).add(tg.Rule("b < 3", "r2"))
    done = dqm.apply(data)
    state = done.state
    assert values(done.data) == [(1, 1)]
    assert [state.violations(r) for r in ("r1", "r2")] == [2, 1]
    assert [state.unknown(r) for r in ("r1", "r2")] == [2, 1]
    assert [state.rule_count(r) for r in ("r1", "r2")] == [4, 0]
    assert (state.rejects, done.rejects.count()) == (4, 4)


def test_two_fixes_of_one_column_are_both_applied(spark):
    data = frame(spark, [(-5,), (5,), (500,), (700,), (None,)], "a int")
    both = tg.DQM().add(tg.Fix("a < 1", "a", 1, "low")).add(tg.Fix("a > 150", "a", 150, "high"))
    done = both.apply(data)
    assert (done.state.fix_count("low"), done.state.fix_count("high")) == (1, 2)
    assert sorted(r.a for r in done.data.collect() if r.a is not None) == [1, 5, 150, 150]
    one = tg.DQM().add(tg.BoundFix("a", 1, 150, name="cap")).apply(data).state
    assert [one.fix_count(n) for n in ("cap", "cap.low", "cap.high")] == [3, 1, 2]


@pytest.mark.parametrize("name", ["a + 0.5 > 0.3", "a", "b", "x.y.z"])
def test_rules_can_have_names_with_dots_and_names_of_columns(two_rows, name):
    done = tg.DQM().add(tg.Rule("a > 0", name), tg.FailAny).apply(two_rows)
    assert done.state.rule_count(name) == 1
    assert done.check.outcomes == ((name, False),)
    assert values(done.data) == [(1, 0.3)]
    plain = tg.DQM().add(tg.Rule("a + 0.5 > 0.3"))  # the condition is its name
    assert plain.apply(two_rows).state.rule_count("a + 0.5 > 0.3") == 0


# examples from the design of SMV


@pytest.fixture(scope="module")
def people(spark):
    rows = [
        (0, "M", "Ann"),
        (30, "F", "bob"),
        (151, "x", "Cy"),
        (200, None, None),
        (None, "M", "D"),
    ]
    return frame(spark, rows, "age int, gender string, name string")


def test_bounds_of_age_are_rules(people):
    dqm = (
        tg.DQM()
        .add(tg.Rule("age < 150", "ageLT150"), tg.FailAny)
        .add(tg.BoundRule("age", 1, 150), tg.FailCount(10))
        .add(tg.Fix("age > 150", column="age", value="150", name="ageFix150"))
        .add(tg.BoundFix("age", 1, 150, name="ageFix1-150"))
        .add(tg.FailTotalRuleCountPolicy(30))
    )
    done = dqm.apply(people)
    # 151, 200 and null are rejected by the first rule, 0 by the second. Rules see values before fixes.
    assert done.state.rule_count("ageLT150") == 3
    assert done.state.rule_count("BoundRule(age, 1, 150)") == 1
    assert done.state.total_fix_count == 0
    assert done.check.error_messages == (("ageLT150", "3 of 5 records, none allowed"),)
    assert [r.age for r in done.data.collect()] == [30]


def test_bounds_of_age_are_fixes(people):
    fixes = tg.DQM().add(tg.Fix("age > 150", column="age", value="150", name="ageFix150"))
    fixes = fixes.add(tg.BoundFix("age", 1, 150, name="ageFix1-150"))
    done = fixes.apply(people)
    assert done.state.fix_count("ageFix150") == 2
    assert done.state.fix_count("ageFix1-150.low") == 1
    assert done.state.fix_count("ageFix1-150.high") == 0  # the first fix left no such value
    assert sorted(r.age for r in done.data.collect() if r.age is not None) == [1, 30, 150, 150]


def test_formats_and_sets_are_rules(people):
    dqm = tg.DQM().add(tg.FormatRule("name", "[A-Z].*")).add(tg.SetRule("gender", ["M", "F"]))
    done = dqm.apply(people)
    # bob and null break the format, x breaks the set
    assert [done.state.rule_count(r.name) for r in dqm.tasks.rules] == [2, 1]
    assert sorted(r.name for r in done.data.collect()) == ["Ann", "D"]


def test_formats_and_sets_are_fixes(people):
    dqm = tg.DQM().add(tg.FormatFix("name", "[A-Z].*", "Someone"))
    dqm = dqm.add(tg.SetFix("gender", ["M", "F"], "O")).add(tg.NotNullFix("age", -1))
    done = dqm.apply(people)
    assert [done.state.fix_count(f.name) for f in dqm.tasks.fixes] == [1, 1, 1]
    rows = {(r.age, r.gender, r.name) for r in done.data.collect()}
    assert rows == {
        (0, "M", "Ann"),
        (30, "F", "Someone"),
        (151, "O", "Cy"),
        (200, None, None),
        (-1, "M", "D"),
    }


class DoubleOpenBoundRule(tg.DQMRule):
    def __init__(self, column, upper, lower):
        super().__init__(f"{column} < {upper} AND {column} > {lower}", name=f"OpenBound({column})")


class DefaultSetFix(tg.DQMFix):
    def __init__(self, column, values, default):
        some = ", ".join(f"'{v}'" for v in values)
        super().__init__(
            f"{column} NOT IN ({some})", column, f"'{default}'", name=f"SetFix({column})"
        )


class MaxShare(tg.DQMPolicy):
    """A custom policy class."""

    def __init__(self, share):
        self.share = share
        self.name = f"most({share})"

    def holds(self, state, data=None):
        return state.rejects < self.share * state.records

    def message(self, state):
        return f"{state.rejects} of {state.records} rejected"


class Tolerant(tg.DQMTaskPolicy):
    def __init__(self, most):
        self.most = most

    def refuses(self, count, records):
        return f"{count} > {self.most}" if count > self.most else None


def test_rules_fixes_and_policies_can_be_subclassed(people):
    dqm = (
        tg.DQM()
        .add(DoubleOpenBoundRule("age", 151, 0), Tolerant(3))
        .add(DefaultSetFix("gender", ["M", "F"], "O"), Tolerant(0))
        .add(MaxShare(0.5))
    )
    done = dqm.apply(people)
    assert done.state.rule_count("OpenBound(age)") == 4
    assert done.state.fix_count("SetFix(gender)") == 0
    assert done.check.error_messages == (
        ("OpenBound(age)", "4 > 3"),
        ("most(0.5)", "4 of 5 rejected"),
    )
    assert dict(done.check.outcomes)["SetFix(gender)"] is True
    same = tg.DQM().add(DoubleOpenBoundRule("age", 151, 0), Tolerant(3))
    same = same.add(DefaultSetFix("gender", ["M", "F"], "O"), Tolerant(0)).add(MaxShare(0.5))
    assert same.specification == dqm.specification
    other = tg.DQM().add(DoubleOpenBoundRule("age", 151, 0), Tolerant(3))
    other = other.add(DefaultSetFix("gender", ["M", "F"], "O"), Tolerant(0)).add(MaxShare(0.6))
    assert other.specification != dqm.specification


def test_one_dqm_can_be_applied_to_several_frames(people, spark):
    dqm = tg.DQM().add(tg.BoundRule("age", 1, 150, name="age"))
    other = frame(spark, [(7,), (0,)], "age long")
    assert dqm.apply(people).state.rule_count("age") == 4
    assert dqm.apply(other).state.rule_count("age") == 1
