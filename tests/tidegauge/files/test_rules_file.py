"""Rules files, and the rules of suite files. No Spark."""

import datetime as dt

import pytest

import tidegauge as tg
from tidegauge.files.rules_files import check_shared_targets, find_rules, load_rules
from tidegauge.files.suite_files import load_suite

SPEC = """
dataset: flights
table: warehouse.flights
partition_by: [ds]
keys: [flight, carrier]
rules:
  - BoundRule: {column: dep_delay, lower: -60, upper: 1440, policy: {FailPercent: 0.01}}
  - Rule: {expr: "arr_time IS NOT NULL OR cancelled", name: arrived, on_null: pass, severity: warning, policy: FailAny}
  - NotNullRule: tailnum
  - SetRule: {column: code, values: ["01", NO, 07, 7, 1.5, "7", true, 2013-02-08, null]}
  - BoundRule: {column: day, lower: 2013-01-01, upper: 2014-01-01, stage: after}
  - BoundRule: {column: day_text, lower: "2013-01-01", closed: both, name: late}
  - FormatRule: {column: tail, pattern: "N[0-9]+", policy: {FailCount: 10}}
fixes:
  - BoundFix: {column: air_time, lower: 0, upper: 900}
  - Fix: {condition: "age > 150", column: age, value: "150", name: ageCap}
  - NotNullFix: {column: carrier, default: unknown, policy: {FailPercent: 0.5}}
policies:
  - FailTotalRuleCountPolicy: 30
  - FailTotalFixPercentPolicy: 0.05
quarantine: warehouse.flights_rejects
publish: warehouse.flights_clean
"""


@pytest.fixture
def write(tmp_path):
    def to_file(text, name="rules.yml"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return to_file


def test_a_rules_file_equals_rules_in_python(write):
    loaded = load_rules(write(SPEC))
    values = ["01", "NO", "07", 7, 1.5, "7", True, dt.date(2013, 2, 8), None]
    python = (
        tg.DQM("rules")  # the name of the file
        .add(tg.BoundRule("dep_delay", -60, 1440), tg.FailPercent(0.01))
        .add(
            tg.Rule(
                "arr_time IS NOT NULL OR cancelled", "arrived", on_null="pass", severity="warning"
            ),
            tg.FailAny,
        )
        .add(tg.NotNullRule("tailnum"))
        .add(tg.SetRule("code", values))
        .add(tg.BoundRule("day", dt.date(2013, 1, 1), dt.date(2014, 1, 1), stage="after"))
        .add(tg.BoundRule("day_text", "2013-01-01", None, closed="both", name="late"))
        .add(tg.FormatRule("tail", "N[0-9]+"), tg.FailCount(10))
        .add(tg.BoundFix("air_time", 0, 900))
        .add(tg.Fix("age > 150", column="age", value="150", name="ageCap"))
        .add(tg.NotNullFix("carrier", "unknown"), tg.FailPercent(0.5))
        .add(tg.FailTotalRuleCountPolicy(30))
        .add(tg.FailTotalFixPercentPolicy(0.05))
    )
    assert loaded.dqm == python
    assert loaded.suite == tg.Suite("flights", [], partition_by=["ds"], dqm=python)
    assert (loaded.table, loaded.keys) == ("warehouse.flights", ("flight", "carrier"))
    assert loaded.quarantine == "warehouse.flights_rejects"
    assert loaded.publish == "warehouse.flights_clean"
    assert loaded.parsed is None
    assert loaded.lines["arrived"] == 8
    assert loaded.location("ageCap").endswith("rules.yml:16")


def test_quoted_values_are_strings_and_plain_values_have_types(write):
    text = "dataset: d\ntable: t\nrules:\n  - SetRule: {column: c, values: [%s]}\n"

    def sql(values):
        (rule,) = load_rules(write(text % values)).dqm.tasks.rules
        return rule.expression.text

    assert sql('"1"') == "`c` IN ('1')"
    assert sql("1, -2, 0.5") == "`c` IN (1, -2, 0.5D)"
    assert (
        sql("01, NO, on, 1_000, 2013-02-30") == "`c` IN ('01', 'NO', 'on', '1_000', '2013-02-30')"
    )
    assert sql("2013-02-08") == "`c` IN (DATE'2013-02-08')"
    assert sql("true, 'false'") == "`c` IN (true, 'false')"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("- NotNullRule: tailnum", "- NotNulRule: tailnum"), ":9: unknown rule 'NotNulRule'; did you mean 'NotNullRule'?"),
        (("lower: -60", "lowr: -60"), ":7: unknown option of BoundRule 'lowr'; did you mean 'lower'?"),
        (("FailPercent: 0.01", "FailPercnt: 0.01"), ":7: unknown task policy 'FailPercnt'; did you mean 'FailPercent'?"),
        (("FailPercent: 0.01", "FailPercent: 1 in 10"), ":7: FailPercent takes a share such as 0.05, not '1 in 10'"),
        (("FailPercent: 0.01", "FailPercent: 50"), ":7: FailPercent takes a share above 0 and at most 1"),
        (("policy: {FailPercent: 0.01}", "policy: FailCount"), ":7: FailCount takes a whole number, not nothing"),
        (("policy: FailAny", "policy: {FailAny: 3}"), ":8: FailAny has no limit"),
        (("lower: -60, upper: 1440", "lower: 60, upper: 14"), ":7: BoundRule: the lower bound 60 is not below"),
        (("lower: -60, upper: 1440, ", ""), ":7: BoundRule needs a lower or an upper bound"),
        (("on_null: pass", "on_null: skip"), ":8: Rule: on_null must be one of"),
        (("- NotNullRule: tailnum", "- NotNullRule"), ":9: NotNullRule needs 'column'"),
        (("- NotNullRule: tailnum", "- NotNullRule: {name: x}"), ":9: NotNullRule needs 'column'"),
        (("- NotNullRule: tailnum", "- [tailnum]"), ":9: a rule is one name with its options"),
        (("name: late", "name: arrived"), ":12: the name 'arrived' is taken"),
        (("values: [", "values: x, name: ["), ":10: values is a list"),
        (("FailTotalRuleCountPolicy: 30", "FailTotalRuleCountPolicy: many"), ":19: FailTotalRuleCountPolicy takes a whole number"),
        (("FailTotalRuleCountPolicy: 30", "FailTotalRulesCountPolicy: 30"), ":19: unknown policy 'FailTotalRulesCountPolicy'; did you mean"),
        (("FailTotalRuleCountPolicy: 30", "FailParserCountPolicy: 30"), "FailParserCountPolicy(30) applies only to parsed files"),
        (("quarantine:", "quarantin:"), ":21: unknown field 'quarantin'; did you mean 'quarantine'?"),
        (("keys: [flight, carrier]", "lenient_dates: true"), "lenient_dates applies only to parsed files"),
        (("keys: [flight, carrier]", "schema: id INT"), "schema needs a path: with format: csv or json"),
        (("keys: [flight, carrier]", "shema: id INT"), ":5: unknown field 'shema'; did you mean 'schema'?"),
        (("table: warehouse.flights\n", ""), "either a table or a path"),
    ],
)  # fmt: skip
def test_mistakes_are_reported_with_their_line_and_the_nearest_name(write, change, message):
    assert change[0] in SPEC
    path = write(SPEC.replace(*change, 1))
    with pytest.raises(tg.SuiteError) as error:
        load_rules(path)
    assert message in str(error.value)
    assert str(path) in str(error.value)


def test_a_file_with_a_format_is_parsed(write):
    text = (
        "dataset: d\npath: d.csv\nformat: csv\noptions: {header: true}\nschema: id INT, at DATE\n"
    )
    parsed = load_rules(write(text + "lenient_dates: true\ndate_format: yyyyMMdd\n")).parsed
    assert parsed["schema"] == "id INT, at DATE"
    assert parsed["lenient_dates"]
    assert parsed["fail_at_parsing_error"]
    assert parsed["date_format"] == "yyyyMMdd"
    limited = load_rules(
        write(text + "fail_at_parsing_error: no\npolicies: [FailParserCountPolicy: 5]\n")
    )
    assert not limited.parsed["fail_at_parsing_error"]
    assert [policy.name for policy in limited.parsed["policies"]] == ["FailParserCountPolicy(5)"]
    assert not limited.dqm.policies
    with pytest.raises(tg.SuiteError, match="did you mean 'header'"):
        load_rules(write(text.replace("header", "heder")))
    with pytest.raises(tg.SuiteError, match="remove partition_by"):
        load_rules(write(text + "partition_by: [ds]\n"))
    with pytest.raises(tg.SuiteError, match="at least one rule or fix"):
        load_rules(write("dataset: d\ntable: t\n"))


def test_missing_and_invalid_files_are_refused(tmp_path, write):
    with pytest.raises(tg.SuiteError, match="cannot read the rules file"):
        load_rules(tmp_path / "missing.yml")
    with pytest.raises(tg.SuiteError, match="a rules file is one mapping"):
        load_rules(write("- a\n"))
    with pytest.raises(tg.SuiteError, match="no rules file at"):
        find_rules(["nowhere/*.yml"])
    assert find_rules([str(tmp_path)]) == [tmp_path / "rules.yml"]


def test_a_suite_file_can_have_rules(write):
    text = """
dataset: flights
table: flights
analyzers: [Size]
dqm:
  name: daily
  rules:
    - NotNullRule: {column: tailnum, policy: {FailPercent: 0.1}}
  fixes:
    - Fix: {condition: air_time < 0, column: air_time, value: null, name: no negative}
  policies:
    - FailTotalRuleCountPolicy: 300
"""
    dqm = (
        tg.DQM("daily")
        .add(tg.NotNullRule("tailnum"), tg.FailPercent(0.1))
        .add(tg.Fix("air_time < 0", column="air_time", value=None, name="no negative"))
        .add(tg.FailTotalRuleCountPolicy(300))
    )
    assert load_suite(write(text)).suite == tg.Suite("flights", [tg.Size()], dqm=dqm)
    without = load_suite(write(text.replace("analyzers: [Size]\n", ""))).suite
    assert without == tg.Suite("flights", [], dqm=dqm)
    with pytest.raises(
        tg.SuiteError, match=r":12: FailParserCountPolicy\(300\) applies only to parsed files"
    ):
        load_suite(write(text.replace("FailTotalRuleCount", "FailParserCount")))
    with pytest.raises(tg.SuiteError, match=r":7: unknown field 'rulez'; did you mean 'rules'"):
        load_suite(write(text.replace("rules:", "rulez:")))
    with pytest.raises(tg.SuiteError, match=r":8: unknown rule 'NotNulRule'"):
        load_suite(write(text.replace("NotNullRule", "NotNulRule")))


@pytest.mark.parametrize(
    ("places", "text"),
    [
        ("table: t\npublish: t", "table 't' and publish 't' are the same location"),
        ("table: t\npublish: default.T", "are the same location"),
        ("table: spark_catalog.default.t\nquarantine: '`t`'", "are the same location"),
        (
            "table: t\npublish: u\nquarantine: U",
            "publish 'u' and quarantine 'U' are the same location",
        ),
        ("path: /lake/t\npublish: file:///lake//t/", "are the same location"),
        ("path: s3a://b/t\npublish: s3://b/t/", "are the same location"),
        ("path: /lake/t\npublish: /lake", "overlap"),
        ("path: /lake/t\npublish: /x/t\nquarantine: /x/t/rejects", "overlap"),
    ],
)
def test_targets_must_differ_from_the_source(write, places, text):
    rules = f"dataset: d\n{places}\nrules:\n  - NotNullRule: a\n"
    with pytest.raises(tg.SuiteError, match=rf"rules\.yml: .*{text}"):
        load_rules(write(rules))


def test_paths_with_a_common_prefix_are_different_targets(write):
    rules = "dataset: d\npath: /lake/t\npublish: /lake/t_clean\nquarantine: t\nrules: [NotNullRule: a]\n"
    assert load_rules(write(rules)).publish == "/lake/t_clean"


def test_patterns_match_whole_values_or_parts_of_them(write):
    file = load_rules(
        write(
            "dataset: a\ntable: a\nrules:\n"
            "  - FormatRule: {column: n, pattern: '^[A-Z]', name: anywhere, whole: false}\n"
            "  - FormatRule: {column: n, pattern: '^[A-Z]', name: whole}\n"
        )
    )
    anywhere, whole = (rule.expression.text for rule in file.dqm.tasks.rules)
    assert anywhere == "`n` RLIKE '^[A-Z]'"
    assert whole == r"`n` RLIKE '\\A(?:^[A-Z])\\z'"
    check = tg.Check("a").has_pattern("n", "^[A-Z]").has_pattern("n", "^[A-Z]", whole=True)
    patterns = [constraint.analyzer.pattern for constraint in check.constraints]
    assert patterns == ["^[A-Z]", r"\A(?:^[A-Z])\z"]


def test_two_files_must_not_share_a_target(write):
    text = "dataset: {0}\ntable: {0}\nrules: [NotNullRule: a]\nquarantine: rejects\n"
    files = [load_rules(write(text.format(name), f"{name}.yml")) for name in ("one", "two")]
    with pytest.raises(tg.SuiteError, match=r"one\.yml: quarantine 'rejects' and .*two\.yml"):
        check_shared_targets(files)
    check_shared_targets(files[:1])


def test_one_rule_covers_many_columns_and_selected_records(write):
    head = "dataset: a\ntable: a\nrules:\n"
    file = load_rules(
        write(
            head
            + "  - NotNullRule: {columns: [a, b], policy: FailAny}\n"
            + "  - BoundRule: {columns: [c, d], lower: 0, name: positive, where: kind = 1}\n"
            + "  - Rule: {expr: a > 0, where: b > 0}\n"
        )
    )
    same = tg.DQM("rules")
    for column in "ab":
        same = same.add(tg.NotNullRule(column), tg.FailAny)
    for column in "cd":
        name = f"positive ({column})"
        same = same.add(tg.BoundRule(column, 0, None, name=name, where="kind = 1"))
    same = same.add(tg.Rule("a > 0", where="b > 0"))
    assert file.dqm == same
    assert file.dqm.tasks.rules[-1].name == "a > 0 where b > 0"
    assert file.location("positive (d)").endswith(":5")
    for wrong, says in (
        ("NotNullRule: {columns: a}", "columns is a list"),
        ("NotNullRule: {columns: [a], column: b}", "give column or columns, not both"),
        ("Rule: {columns: [a], expr: b}", "'columns'"),
    ):
        with pytest.raises(tg.SuiteError, match=f"rules.yml:4: .*{says}"):
            load_rules(write(f"{head}  - {wrong}\n"))


def test_the_column_of_broken_rules_can_have_any_name(write):
    text = "dataset: a\ntable: a\nrules: [NotNullRule: a]\n"
    assert load_rules(write(text)).broken_rules == "broken_rules"
    assert load_rules(write(f"{text}broken_rules: why\n")).broken_rules == "why"


def test_rules_have_messages_and_tags_and_files_name_the_column_of_reasons(write):
    text = """
dataset: flights
table: flights
reasons: why
rules:
  - NotNullRule: {columns: [tail, code], message: Ask ops., description: Keys., tags: [ops, key]}
  - Rule: {expr: a > 0, tags: ops}
"""
    with pytest.raises(tg.SuiteError, match=r"rules.yml:7: tags is a list: \[ops\]"):
        load_rules(write(text))
    file = load_rules(write(text.replace("tags: ops", "tags: [ops]")))
    assert file.reasons == "why"
    message = [(rule.message, rule.description, rule.tags) for rule in file.dqm.tasks.rules]
    assert message == [("Ask ops.", "Keys.", ("ops", "key"))] * 2 + [("", "", ("ops",))]


def test_variables_are_passed_in(write):
    file = write(
        """
dataset: people
table: people_${env}
variables: {env: test, oldest: 150}
rules:
  - SetRule: {column: env, values: ["${env}"]}
  - BoundRule:
      column: age
      upper: ${oldest}
"""
    )
    assert load_rules(file).table == "people_test"
    actual = load_rules(file, {"env": "live", "oldest": "120"})
    assert actual.table == "people_live"
    assert actual.dqm.tasks.rules == (
        tg.SetRule("env", ["live"]),
        tg.BoundRule("age", None, 120),
    )
    with pytest.raises(tg.SuiteError, match="no variable 'odlest'; did you mean 'oldest'"):
        load_rules(file, {"odlest": "1"})
