"""Rules, fixes, policies, verdicts and identities without Spark."""

import functools
import json
import os
import re
import subprocess
import sys
import textwrap
from datetime import date, datetime
from decimal import Decimal
from importlib import import_module

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidegauge as tg
from tidegauge.analyzers.core.evidence import Measurements
from tidegauge.analyzers.core.sql import literal, words_in
from tidegauge.analyzers.measures.counts import NumMatches
from tidegauge.checks.assertions import Assertion
from tidegauge.rules import tasks
from tidegauge.rules.measures import tasks_of
from tidegauge.rules.policies import DQMTaskPolicy
from tidegauge.rules.record_counts import RecordCounts, Tasks
from tidegauge.rules.tasks import source_hash, value_sql
from tidegauge.rules.verdicts import CheckResult, ValidationTask

# policies


@pytest.mark.parametrize(
    ("policy", "count", "records", "passes"),
    [
        (tg.FailNone(), 9, 9, True),
        (tg.FailAny(), 0, 9, True),
        (tg.FailAny(), 1, 9, False),
        (tg.FailCount(10), 9, 99, True),
        (tg.FailCount(10), 10, 99, False),
        (tg.FailPercent(0.5), 1, 3, True),
        (tg.FailPercent(0.5), 1, 2, False),
        (tg.FailPercent(1), 1, 2, True),
        (tg.FailPercent(1), 2, 2, False),
        (tg.FailPercent(1e-9), 0, 0, True),
        # shares whose product with the number of records is inexact in floating point
        (tg.FailPercent(0.07), 7, 100, False),
        (tg.FailPercent(0.07), 6, 100, True),
        (tg.FailPercent(0.29), 29, 100, False),
        (tg.FailPercent(0.57), 57, 100, False),
    ],
    ids=repr,
)
def test_task_policies_fail_when_the_limit_is_reached(policy, count, records, passes):
    assert (policy.refuses(count, records) is None) == passes


@given(st.integers(1, 1000), st.integers(1, 10))
def test_a_share_in_percent_is_compared_exactly(percent, hundreds):
    records = 1000 * hundreds
    policy = tg.FailPercent(float(Decimal(percent) / 1000))
    assert policy.refuses(percent * hundreds, records) is not None
    assert policy.refuses(percent * hundreds - 1, records) is None


@pytest.mark.parametrize(
    "make",
    [
        lambda: tg.NotNullRule(["a", "b"]),
        lambda: tg.BoundRule(None, 1, 2),
        lambda: tg.FailPercent(0),
        lambda: tg.FailPercent(50),
        lambda: tg.FailPercent(-0.1),
        lambda: tg.FailPercent(float("nan")),
        lambda: tg.FailPercent(True),
        lambda: tg.FailPercent("0.5"),
        lambda: tg.FailCount(0),
        lambda: tg.FailCount(1.5),
        lambda: tg.FailCount(True),
        lambda: tg.FailTotalRuleCountPolicy(0),
        lambda: tg.FailTotalFixPercentPolicy(0),
        lambda: tg.FailTotalRulePercentPolicy(2),
        lambda: tg.DQMPolicy("records > 1", "text"),
        lambda: tg.DQMPolicy(lambda s: True),
        lambda: tg.DQMPolicy(lambda: True, "none"),
        lambda: tg.DQMPolicy(lambda a, b, c: True, "three"),
        lambda: tg.DQM(" "),
        lambda: tg.DQM().add("a < 1"),
        lambda: tg.DQM().add(tg.FailAny()),
        lambda: tg.DQM().add(tg.Rule("a < 1"), 5),
        lambda: tg.DQM().add(tg.Rule("a < 1"), tg.FailCount),
        lambda: tg.DQM().add(tg.FailTotalRuleCountPolicy(1), tg.FailAny),
        lambda: tg.DQM().add(tg.Rule("a < 1", "x")).add(tg.Rule("b < 1", "x")),
        lambda: tg.DQM().add(tg.Rule("a < 1", "x")).add(tg.Fix("b < 1", "b", 1, "x")),
        lambda: tg.DQM().add(tg.Rule("a < 1", "x")).add(tg.DQMPolicy(lambda s: True, "x")),
        lambda: tg.DQM().add(tg.DQMPolicy(lambda s: True, "x")).add(tg.Rule("a < 1", "x")),
        lambda: tg.DQM().add(tg.BoundFix("a", 1, 2, name="x")).add(tg.Rule("a < 1", "x.low")),
        lambda: tg.DQM().add(tg.Rule("a < 1", "x.low")).add(tg.BoundFix("a", 1, 2, name="x")),
        lambda: tg.DQM().add(tg.BoundRule("a", 1, 2)).add(tg.BoundRule("a", 1, 2)),
        lambda: tg.Rule(""),
        lambda: tg.Rule("a < 1", " "),
        lambda: tg.Rule("a < 1", 5),
        lambda: tg.Rule(5),
        lambda: tg.Rule("a < 1", on_null="reject"),
        lambda: tg.Rule("a < 1", severity="fatal"),
        lambda: tg.Rule("a < 1", stage="during"),
        lambda: tg.BoundRule("a", None, None),
        lambda: tg.BoundRule("a", 2, 1),
        lambda: tg.BoundRule("a", float("nan"), 1),
        lambda: tg.BoundRule("a", 1, "b"),
        lambda: tg.BoundRule("a", 1, 2, closed="all"),
        lambda: tg.SetRule("a", []),
        lambda: tg.SetRule("a", "abc"),
        lambda: tg.SetRule("a", [object()]),
        lambda: tg.FormatRule("a", re.compile("a")),
        lambda: tg.Fix("a < 1", " ", 1),
        lambda: tg.Fix("a < 1", "a", object()),
    ],
)
def test_invalid_tasks_and_policies_are_refused(make):
    with pytest.raises(tg.RuleError):
        make()


def test_a_dqm_is_immutable():
    empty = tg.DQM()
    one = empty.add(tg.Rule("a < 1"))
    assert (empty.needs_action, one.needs_action) == (False, True)
    assert (repr(empty), repr(one)) == ("DQM(0 rules, 0 fixes, 0 policies)", "DQM(1 rule, 0 fixes, 0 policies)")  # fmt: skip
    assert empty.add_action().needs_action
    assert not empty.add(tg.FailTotalRuleCountPolicy(1)).needs_action


# counts


def test_counts_of_fixes_with_similar_names_are_separate():
    state = tg.DQMState([], ["a", "a.b"])
    state.add_fix("a", 1, "low")
    state.add_fix("a.b", 2, "low")
    state.snapshot()
    assert [state.fix_count(n) for n in ("a", "a.low", "a.b", "a.b.low")] == [1, 1, 2, 2]
    assert state.log() == ["fix a: 1 of 0 records (1 low)", "fix a.b: 2 of 0 records (2 low)"]
    for name in ("a.high", "low", "", "a.b."):
        with pytest.raises(tg.RuleError, match="no fix"):
            state.fix_count(name)


def test_counts_are_written_before_the_snapshot_and_read_after_it():
    state = tg.DQMState(["r"])
    for read in (lambda: state.records, lambda: state.rule_count("r"), state.log, lambda: state.errors):  # fmt: skip
        with pytest.raises(tg.RuleError, match="not final"):
            read()
    with pytest.raises(tg.RuleError, match="no rule 'x'"):
        state.add_rule("x")
    state.snapshot()
    for write in (state.add_records, lambda: state.add_rule("r"), lambda: state.add_error("r", "")):
        with pytest.raises(tg.RuleError, match="cannot be changed"):
            write()


def test_shares_leave_out_unknown_records():
    tasks = Tasks((tg.Rule("a < 1", "r", on_null="unknown"),))
    # records, kept, violated, unknown, charged
    state = tasks.state(RecordCounts((10, 9, 1, 8, 1), None))
    state.snapshot()
    assert (state.rule_count("r"), state.rule_records("r"), state.rejects) == (1, 2, 1)
    judged = tg.DQM().add(tasks.rules[0], tg.FailPercent(0.5)).judge(state)
    assert judged.error_messages == (("r", "1 of 2 records are 50%, less than 50% allowed"),)


def test_the_layout_has_two_unsplit_bits_for_each_rule():
    rules = tuple(tg.Rule(f"a < {n}", f"r{n}", stage="before" if n < 40 else "after") for n in range(50))  # fmt: skip
    fixes = tuple(tg.BoundFix("a", 0, 9, name=f"f{n}") for n in range(3))
    tasks = Tasks(rules, fixes)
    bits = [
        (place.word, bit)
        for name, place in tasks.positions.items()
        for bit in range(place.shift, place.shift + 2)
    ]
    assert len(set(bits)) == 2 * 53
    assert max(bit for _, bit in bits) < 62
    assert tasks.words == 4  # 31 rules, 9 rules, the fixes, 10 rules
    assert tasks.read(0b01 | 0b10 << 4) == {"violated": ("r0",), "unknown": ("r2",), "fixed": ()}
    assert tasks.read(0b10 << 62 * 2)["fixed"] == ("f0.high",)


# verdicts

texts = st.text(max_size=9)


@given(
    st.booleans(),
    st.lists(st.tuples(texts, texts), max_size=3),
    st.lists(texts, max_size=3),
    st.lists(st.tuples(texts, st.booleans()), max_size=3),
)
def test_a_verdict_reads_back(passed, messages, log, outcomes):
    verdict = CheckResult(passed, tuple(messages), tuple(log), tuple(outcomes))
    assert CheckResult.from_json(verdict.to_json()) == verdict
    json.loads(verdict.to_json())
    assert (verdict + verdict).outcomes == verdict.outcomes * 2
    assert isinstance(verdict._repr_html_(), str)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", "1", "null", '{"version": 1}', '{"version": 2, "passed": true}', '{"version": 1, "passed": 1, "errorMessages": [], "checkLog": [], "outcomes": []}', '{"version": 1, "passed": true, "errorMessages": [["a"]], "checkLog": [], "outcomes": []}']
)  # fmt: skip
def test_other_json_is_not_a_verdict(text):
    with pytest.raises(tg.RuleError, match="not the JSON of a CheckResult"):
        CheckResult.from_json(text)


def test_markup_in_a_verdict_is_escaped():
    bad = "<script>alert(1)</script>"
    html = CheckResult(False, ((bad, bad),), (bad,), ((bad, False),))._repr_html_()
    assert "<script>" not in html


# SQL


@pytest.mark.parametrize(
    ("value", "sql"),
    [
        (-(2**63), "-9223372036854775808BD"),
        (2**63 - 1, "9223372036854775807"),
        (1e300, "1e+300D"),
        (float("nan"), "double('nan')"),
        (float("-inf"), "double('-inf')"),
        (Decimal("1E+3"), "1000BD"),
        (Decimal("-0.0010"), "-0.0010BD"),
        (datetime(2020, 1, 2, 3, 4, 5, 6), "TIMESTAMP'2020-01-02 03:04:05.000006'"),
        (date(2020, 1, 2), "DATE'2020-01-02'"),
        ("${x}", "'\\u0024{x}'"),
    ],
)
def test_values_become_sql_literals(value, sql):
    assert value_sql(value) == sql


def test_numpy_numbers_are_accepted_as_numbers():
    numpy = pytest.importorskip("numpy")
    assert value_sql(numpy.float64(2.5)) == "2.5D"


@pytest.mark.parametrize("value", [b"x", [1], object(), 1j])
def test_values_without_an_sql_literal_are_refused(value):
    with pytest.raises(tg.RuleError, match="has no SQL literal"):
        value_sql(value)


def test_settings_are_not_expanded_in_strings():
    assert literal("a${b}c$${d}$") == "'a\\u0024{b}c$\\u0024{d}$'"


def test_words_in_sql_are_found():
    assert words_in("(\n (\n A\n) + `b``B` * 1st.x") == {"a", "b`b", "1st", "x"}
    assert words_in("'a' || \"b\"") == set()


@pytest.mark.parametrize(
    "text", ["a -- don't c\n + b", "a /* it's\nc */ + b", "a + r'\\' + b", 'a + R"\\" + b']
)
def test_quotes_in_comments_and_backslashes_in_raw_strings_hide_no_names(text):
    assert words_in(text) == {"a", "b"}


# identity

LIMIT = 3


def helper(x):
    return x < LIMIT


def same_helper(x):
    return x < LIMIT


def test_the_hash_of_a_function_depends_on_its_code_and_values(monkeypatch):
    def policy(limit, default=1):
        def small(state, more=default):
            return state.records < limit + more and helper(state.rejects)

        return small

    first = source_hash(policy(5))
    assert source_hash(policy(5)) == first
    assert source_hash(policy(6)) != first
    assert source_hash(policy(5, 2)) != first
    monkeypatch.setitem(globals(), "LIMIT", 4)
    assert source_hash(policy(5)) != first
    monkeypatch.setitem(globals(), "LIMIT", 3)
    assert source_hash(policy(5)) == first
    monkeypatch.setitem(globals(), "helper", same_helper)
    assert source_hash(policy(5)) != first


class Limit:
    def __init__(self, most):
        self.most = most

    def holds(self, state):
        return helper(state.records) and state.records < self.most

    __call__ = holds


def test_methods_objects_partials_and_classes_have_hashes(monkeypatch):
    def small(limit, state):
        return state.records < limit

    kinds = [lambda n: Limit(n).holds, Limit, lambda n: functools.partial(small, n)]
    for kind in kinds:
        assert source_hash(kind(1)) == source_hash(kind(1)) != source_hash(kind(2))
    before = source_hash(Limit), source_hash(Limit(1)), source_hash(Limit(1).holds)
    monkeypatch.setitem(globals(), "LIMIT", 9)
    after = source_hash(Limit), source_hash(Limit(1)), source_hash(Limit(1).holds)
    assert not set(before) & set(after)


def recursive(n):
    return n and recursive(n - 1)


def test_recursive_values_and_functions_have_a_hash():
    ring = [1]
    ring.append(ring)
    assert source_hash(lambda s: s in ring)
    assert source_hash(recursive) == source_hash(recursive)

    def inner(n):
        return later(n)

    actual = source_hash(inner)  # a name that is not bound yet
    later = len
    assert source_hash(inner) != actual


def test_the_specification_covers_every_part():
    def made(limit=3, rule="a < 1", threshold=0.5, on_null="fail", value=1, name="dqm", swap=False):
        def policy(state):
            return state.records < limit

        one, two = tg.Rule(rule, "one", on_null=on_null), tg.Rule("b < 1", "two")
        rules = (two, one) if swap else (one, two)
        dqm = tg.DQM(name)
        for each in rules:
            dqm = dqm.add(each, tg.FailPercent(threshold) if each is one else None)
        return dqm.add(tg.Fix("a < 1", "a", value, "fix")).add(policy)

    others = [
        made(limit=4), made(rule="a < 2"), made(threshold=0.6), made(on_null="pass"), made(value=2),
        made(name="other"), made(swap=True), made().add(tg.FailTotalRuleCountPolicy(1)),
    ]  # fmt: skip
    assert made().specification == made().specification
    assert made() == made()
    assert hash(made()) == hash(made())
    assert len({made().specification, *(dqm.specification for dqm in others)}) == 9


class OwnTotal(tg.FailTotalRuleCountPolicy):
    def refuses(self, state):
        return None


class OwnTask(DQMTaskPolicy):
    pass


def test_identities_read_back():
    dqm = (
        tg.DQM("all")
        .add(tg.BoundRule("a", 1, 2, severity="warning"), tg.FailCount(3))
        .add(tg.Rule("a < 1 -- 'x\n", "it's"), tg.FailAny)
        .add(tg.BoundFix("b", 0, None), tg.FailPercent(0.5))
        .add(tg.Fix("a < 1", "`a.b`", "'${x}'"), OwnTask())
        .add(tg.FailTotalFixPercentPolicy(0.25))
        .add(OwnTotal(7))
        .add(tg.DQMPolicy(lambda state: True, "own"))
    )
    kept = json.loads(json.dumps(dqm.identity()))
    again = tg.DQM.from_identity(kept)
    assert again == dqm
    assert again.specification == dqm.specification
    assert tasks_of(dqm.tasks.identity) == dqm.tasks
    for bad in ("", "[1]", '[{"rule": 1}]', "null"):
        with pytest.raises(tg.RuleError):
            tasks_of(bad)


def test_a_policy_of_a_later_version_is_kept():
    kept = json.loads(json.dumps(tg.DQM("d").add(tg.FailTotalFixPercentPolicy(0.25)).identity()))
    other = json.loads(json.dumps(kept).replace("FailTotalFixPercentPolicy", "FailOfLaterPolicy"))
    again = tg.DQM.from_identity(other)
    assert again.specification == tg.DQM.from_identity(again.identity()).specification
    (policy,) = again.policies
    with pytest.raises(tg.RuleError, match="unknown policy 'FailOfLaterPolicy'"):
        policy.holds(tg.DQMState())


def test_equal_policies_have_equal_hashes():
    def few(count, records):
        return count < 3

    one, other = (tg.DQM("d").add(tg.Rule("a < 1"), few).task_policies[0][1] for _ in range(2))
    assert (one == other) is (hash(one) == hash(other)) is True


STABLE = """
    import tidegauge as tg

    WORDS = {"red", "green", "blue", "yellow"}
    TABLE = {("a", "b"): frozenset(WORDS), "f": [len, {"x", "y"}]}

    class Kind:
        seen = None

        def __call__(self, state):
            return state.records in WORDS

    def make(closed):
        return lambda state: state.records in closed and TABLE and state.rejects in {"p", "q", "r"}

    class Own(tg.DQMRule):
        def __init__(self):
            super().__init__("a < 1", "own")

    dqm = (
        tg.DQM()
        .add(tg.Rule(lambda frame: "a < 1" if frame.columns[0] in WORDS else "true", "fn"))
        .add(Own())
        .add(tg.DQMPolicy(make(frozenset({"s", "t", "u"})), "lambda"))
        .add(tg.DQMPolicy(Kind(), "kind"))
    )
    print(dqm.specification)
"""


@pytest.mark.parametrize(
    "kept",
    [
        pytest.param(True, id="from a file"),
        pytest.param(False, id="typed in", marks=pytest.mark.soak),
    ],
)
def test_identities_are_equal_in_every_process(tmp_path, kept):
    script = tmp_path / "stable.py"
    script.write_text(textwrap.dedent(STABLE))
    command = [script] if kept else ["-c", script.read_text()]
    outputs = set()
    for seed in ("0", "1"):
        ran = subprocess.run(
            [sys.executable, *command],
            env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join([os.getcwd(), *sys.path])},
            capture_output=True,
            text=True,
            check=True,
        )  # fmt: skip
        outputs.add(ran.stdout)
    assert len(outputs) == 1


def test_analyzers_of_a_rule_have_its_name_and_condition():
    made = tg.DQM().add(tg.Rule(" age < 150 ", "age")).analyzers()
    assert tg.RuleViolations("age", "age < 150") in made
    assert "\\n" not in repr(made[1:])


def test_a_range_of_one_value_must_be_closed():
    with pytest.raises(tg.RuleError, match="the range from 5 to 5 is empty"):
        tg.BoundRule("a", 5, 5)
    with pytest.raises(tg.RuleError, match="the range from 5 to 5 is empty"):
        tg.BoundFix("a", 5, 5, default=0)
    assert tg.BoundRule("a", 5, 5, closed="both").name == "BoundRule(a, 5, 5, closed=both)"
    assert tg.BoundFix("a", 5, 5).arms[0].value.text == "5"  # every value becomes 5


NO_VERDICTS = ["too many", 3.5, 1, 0, None, float("nan"), pd.NA, pd.NaT, np.array([True]), []]


@pytest.mark.parametrize("answer", NO_VERDICTS)
def test_only_booleans_are_verdicts(answer):
    policy = tg.DQMPolicy(lambda state: answer, "own")
    state = tg.DQMState([])
    state.snapshot()
    assert "a verdict is True or False, not" in policy.refusal(state)
    with pytest.raises(TypeError, match="policy 'own': a verdict is True or False, not"):
        policy.holds(state)


@pytest.mark.parametrize("answer", NO_VERDICTS)
def test_a_task_policy_returns_a_boolean(answer):
    def own_limit(count, records):
        return answer

    dqm = tg.DQM().add(tg.Rule("age < 150", "age"), own_limit)
    state = tg.DQMState(["age"])
    state.snapshot()
    result = dqm.judge(state)
    assert not result.passed
    ((name, reason),) = result.error_messages
    assert name == "age"
    assert f"policy 'own_limit': a verdict is True or False, not {answer!r}" in reason


@pytest.mark.parametrize("answer", [True, np.True_, np.bool_(1)])
def test_numpy_booleans_are_verdicts(answer):
    state = tg.DQMState(["age"])
    state.snapshot()
    dqm = tg.DQM().add(tg.Rule("age < 150", "age"), lambda count, records: answer)
    dqm = dqm.add(tg.DQMPolicy(lambda state: answer, "own"))
    assert dqm.judge(state).passed


class _Unsure(tg.DQMPolicy):
    def __init__(self):
        self.name = "unsure"

    def holds(self, state, data=None):
        return "perhaps"

    def identity(self):
        return ["unsure"]


def test_a_policy_class_that_returns_no_boolean_fails():
    state = tg.DQMState([])
    state.snapshot()
    refusal = _Unsure().refusal(state)
    assert "policy 'unsure': a verdict is True or False, not 'perhaps'" in refusal


class _Silent(ValidationTask):
    name = "silent"
    result = None

    def validate(self, data):
        return self.result

    def identity(self):
        return self.name


@pytest.mark.parametrize("result", [None, True, "passed"])
def test_a_validation_task_returns_a_check_result(result):
    task = _Silent()
    task.result = result
    with pytest.raises(
        tg.RuleError, match=r"_Silent 'silent': validate\(\) must return a CheckResult"
    ):
        tg.ValidationSet([task]).judge(None)
    with pytest.raises(tg.RuleError, match=r"validate_written\(\) must return a CheckResult"):
        tg.ValidationSet([task]).judge(None, has_action_yet=True)


def test_a_check_result_has_a_boolean_verdict():
    assert tg.CheckResult(np.True_).passed is True
    with pytest.raises(TypeError, match="CheckResult: a verdict is True or False, not None"):
        tg.CheckResult(None)
    with pytest.raises(TypeError, match="outcome 'age': a verdict is True or False, not 'failed'"):
        tg.CheckResult(True, outcomes=(("age", "failed"),))


class _Sometimes(Assertion):
    def holds(self, value):
        return "sometimes"

    def __str__(self):
        return "sometimes"

    def refused(self):
        return "is not"


def test_an_assertion_class_returns_a_boolean():
    metric = tg.Size().compute_metric_from(NumMatches(3))
    (constraint,) = tg.Check("rows").has_size(_Sometimes()).constraints
    result = constraint.evaluate(Measurements({tg.Size(): metric}))
    assert not result.passed
    assert "a verdict is True or False, not 'sometimes'" in result.message


@pytest.mark.parametrize(
    ("name", "hashed"),
    [
        ("Sum", "tidegauge.analyzers.measures.sums.Sum"),
        ("Late", "tidegauge.repository.detectors.arrivals.Late"),
        ("CheckResult", "tidegauge.rules.outcome.result.CheckResult"),
        ("BoundFix", "tidegauge.rules.column_fixes.BoundFix"),
        ("BoundRule", "tidegauge.rules.column_rules.BoundRule"),
        ("Size", "tidegauge.analyzers.measures.counts.Size"),
    ],
)
def test_hashes_of_public_classes_do_not_depend_on_their_present_module(name, hashed):
    assert list(tasks._SourceTraversal("users").describe(getattr(tg, name))) == [hashed]


def test_every_hashed_name_can_be_imported():
    for name in tasks._HASHED_NAMES:
        module, _, attribute = name.rpartition(".")
        assert getattr(import_module(module), attribute).__module__ == module
