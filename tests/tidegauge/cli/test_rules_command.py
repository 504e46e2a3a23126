"""`tidegauge rules`: output, exit status, stored verdicts and written tables."""

import datetime as dt
import json
from xml.etree import ElementTree as ET

import pytest

import tidegauge as tg
from tidegauge.cli.main import run_command
from tidegauge.rules.judging import current_failures
from tidegauge.rules.run import RunCounts
from tidegauge.rules.verdicts import CheckResult

pytestmark = pytest.mark.spark
DAYS = ("2013-01-01", "2013-01-02", "2013-01-03")
# By day: ages, of which 200 and -1 break the bounds, and null is unknown.
AGES = {DAYS[0]: [10, 20, 200], DAYS[1]: [10, None, 30, -1], DAYS[2]: [1, 2, 3, 4]}
SPEC = """
dataset: people
table: people_of_spec
partition_by: [ds]
rules:
  - BoundRule: {column: age, lower: 0, upper: 150, name: age, policy: {FailCount: 2}}
  - Rule: {expr: age <> 2, name: not two, severity: warning, on_null: pass}
fixes:
  - Fix: {condition: age > 25, column: age, value: 25, name: cap}
"""


def write_day(spark, day, ages):
    spark.createDataFrame([(age, day) for age in ages], "age int, ds string").coalesce(
        1
    ).write.mode("append").partitionBy("ds").format("parquet").saveAsTable("people_of_spec")


@pytest.fixture
def table(spark):
    rows = [(age, day) for day, ages in AGES.items() for age in ages]
    frame = spark.createDataFrame(rows, "age int, ds string").coalesce(1)
    frame.write.partitionBy("ds").mode("overwrite").format("parquet").saveAsTable("people_of_spec")
    yield "people_of_spec"
    for name in ("people_of_spec", "people_rejects", "people_clean"):
        spark.sql(f"DROP TABLE IF EXISTS {name}")


@pytest.fixture
def rules(tmp_path, repo, capsys):
    """Write a file, run a command on it, and return its status and output."""

    def run(text=SPEC, command="run", *options):
        file = tmp_path / "people.yml"
        file.write_text(text)
        db = [] if command == "check" else ["--db", str(repo.database.url)]
        status = run_command(["rules", command, str(file), *db, *options])
        printed = capsys.readouterr()
        return status, printed.out + printed.err

    return run


def contents(spark, table, *columns):
    rows = spark.table(table).select(*columns).collect()
    return sorted((tuple(row) for row in rows), key=str)


def test_a_failure_exits_with_2_and_fails_again_without_a_scan(spark, table, rules, tmp_path):
    status, out = rules()
    assert status == 2
    lines = out.splitlines()
    assert "  11 records, 3 rejected" in lines
    assert "  rule age: 3 rejected, 2 break it, 1 unknown" in lines
    assert "  rule not two: 1 warned of, 1 break it, 1 unknown" in lines
    assert "    ds=2013-01-01: age=200" in lines
    assert "  fix cap: 1 value fixed" in lines
    assert "  ds=2013-01-02: failed: age: 2 of 4 records, fewer than 2 allowed" in lines
    status, out = rules()
    assert status == 2
    assert "0 partitions scanned" in out
    reported = out.splitlines()
    failed = reported.index("  ds=2013-01-02: failed: age: 2 of 4 records, fewer than 2 allowed")
    assert sorted(reported[failed + 1 : failed + 3]) == ["    age=", "    age=-1"]  # as stored
    file = tmp_path / "found.json"
    options = ("--fail-on", "never", "--format", "json", "--output", str(file))
    assert rules(SPEC, "run", *options)[0] == 0
    reported = json.loads(file.read_text())
    (run,) = reported["runs"]
    assert (reported["status"], reported["failed"], run["problem"]) == (0, [], None)
    assert (run["dataset"], run["scanned"], run["records"], run["rejected"]) == (
        "people",
        [],
        11,
        3,
    )
    age, not_two = run["rules"]
    counts = {"rejected": 3, "violations": 2, "unknown": 1}
    assert {name: age[name] for name in ("name", "error", *counts)} == {
        "name": "age",
        "error": None,
        **counts,
    }
    assert (not_two["severity"], not_two["warned"]) == ("warning", 1)
    assert run["fixes"] == [{"name": "cap", "fixed": 1, "error": None}]
    ((day, verdict),) = run["failed"].items()
    assert (day, verdict["passed"]) == ("ds=2013-01-02", False)


def junit(rules, text, *options):
    """Return the status of a run, the counts of its suite, and its cases by dataset and name."""
    status, out = rules(text, "run", "--format", "junit", *options)
    (suite,) = ET.fromstring(out)
    counts = tuple(int(suite.get(name)) for name in ("tests", "failures", "errors"))
    cases = {(case.get("classname"), case.get("name")): case for case in suite}
    assert len(cases) == len(suite)
    return status, counts, cases


def test_junit_has_a_case_for_each_rule_and_verdict(table, rules):
    status, counts, cases = junit(rules, SPEC)
    assert (status, counts) == (2, (6, 1, 0))
    assert [(dataset, name) for dataset, name in cases if dataset != "people"] == [
        (f"people.ds={day}", "age") for day in DAYS
    ]
    (failure,) = (
        case.find("failure") for case in cases.values() if len(case) and case[0].tag == "failure"
    )
    assert cases["people.ds=2013-01-02", "age"].find("failure") is failure
    assert failure.get("message") == "2 of 4 records, fewer than 2 allowed"
    assert sorted(failure.text.splitlines()[1:]) == ["age=", "age=-1"]
    rule = cases["people", "rule age"].find("system-out")
    assert rule.text == "3 rejected, 2 break it, 1 unknown"
    # With --fail-on, rejected records are a failure and warnings are not.
    status, counts, cases = junit(rules, SPEC, "--fail-on", "reject", "--partitions", "all")
    assert (status, counts) == (2, (6, 2, 0))
    assert cases["people", "rule age"].find("failure") is not None
    assert cases["people", "rule not two"].find("failure") is None
    status, counts, _ = junit(rules, SPEC, "--fail-on", "never", "--partitions", "all")
    assert (status, counts) == (0, (6, 0, 0))


def test_junit_has_an_error_for_a_rule_that_could_not_be_evaluated(table, rules):
    status, counts, cases = junit(rules, SPEC.replace("age <> 2", "agge <> 2"))
    assert status == 1
    assert counts[2] > 0
    error = cases["people", "rule not two"].find("error")
    assert "agge" in error.get("message")
    assert "people.yml:7: " in error.text


def test_a_partition_that_changed_after_its_verdict_is_not_published(
    spark, table, rules, monkeypatch
):
    """Its new content has no verdict. The next run judges it and refuses it."""
    remember = RunCounts.include_all_judged

    def meanwhile(writer):
        remember(writer)
        write_day(spark, DAYS[2], [500] * 5)

    monkeypatch.setattr(RunCounts, "include_all_judged", meanwhile)
    text = SPEC + "publish: people_clean\n"
    assert f"ds={DAYS[2]} changed since it was judged" in rules(text)[1]
    assert {ds for (ds,) in contents(spark, "people_clean", "ds")} == {DAYS[0]}
    monkeypatch.undo()
    assert f"ds={DAYS[2]}: failed: age: 5 of 9 records" in rules(text)[1]
    assert {ds for (ds,) in contents(spark, "people_clean", "ds")} == {DAYS[0]}


@pytest.mark.soak
def test_changed_limits_are_applied_to_stored_counts(table, rules):
    assert rules()[0] == 2
    status, out = rules(SPEC.replace("FailCount: 2", "FailCount: 3"))
    assert status == 0
    assert "0 partitions scanned" in out
    assert "  11 records, 3 rejected" in out
    assert rules(SPEC.replace("FailCount: 2", "FailCount: 3"), "run", "--fail-on", "reject")[0] == 2
    status, out = rules(SPEC.replace("FailCount: 2", "FailCount: 1"))
    assert status == 2
    assert "ds=2013-01-01: failed: age: 1 of 3 records" in out
    assert "ds=2013-01-03" not in out


@pytest.mark.soak
def test_rejected_and_published_records_are_written_once(spark, table, rules):
    both = SPEC + "quarantine: people_rejects\npublish: people_clean\n"
    status, out = rules(both)
    assert status == 2
    assert "written: 3 rejects of 3 partitions: people_rejects" in out
    assert "written: 6 records of 2 partitions: people_clean" in out
    rejects = [
        (-1, DAYS[1], ["age"]),
        (200, DAYS[0], ["age"]),
        (None, DAYS[1], ["age"]),
    ]
    assert contents(spark, "people_rejects", "age", "ds", "broken_rules") == rejects
    passed = [(1, DAYS[2]), (10, DAYS[0]), (2, DAYS[2]), (20, DAYS[0]), (3, DAYS[2]), (4, DAYS[2])]
    assert contents(spark, "people_clean", "age", "ds") == passed
    assert "written" not in rules(both)[1]
    wider = both.replace("FailCount: 2", "FailCount: 3")
    # With a limit that passes, only the day that was held back is written.
    status, out = rules(wider)
    assert status == 0
    assert "written: 2 records of 1 partition: people_clean" in out
    assert "people_rejects" not in out
    more = sorted([*passed, (10, DAYS[1]), (25, DAYS[1])], key=str)
    assert contents(spark, "people_clean", "age", "ds") == more
    # Other rules write other contents, and so do the old rules when they return.
    assert "written: 8 records of 3 partitions" in rules(wider.replace("value: 25", "value: 26"))[1]
    assert (26, DAYS[1]) in contents(spark, "people_clean", "age", "ds")
    assert "written: 8 records of 3 partitions" in rules(wider)[1]
    write_day(spark, DAYS[0], [-5])  # a day with new content
    status, out = rules(wider)
    assert status == 0
    assert "1 partition scanned" in out
    again = sorted([*rejects, (-5, DAYS[0], ["age"])], key=str)
    assert contents(spark, "people_rejects", "age", "ds", "broken_rules") == again
    assert contents(spark, "people_clean", "age", "ds") == more


def test_rejects_are_written_with_reasons_run_and_time(spark, table, rules, repo):
    named = SPEC + "quarantine: people_rejects\nbroken_rules: broken\nreasons: why\n"
    reported = named.replace("name: not two,", "name: not two, tags: [ops], message: Two is odd,")
    before = dt.datetime.now()
    assert rules(reported)[0] == 2
    after = dt.datetime.now()
    rows = spark.table("people_rejects").collect()
    assert set(rows[0].asDict()) == {"age", "ds", "broken", "why"}
    # Only `age` rejects. For unknown ages, `not two` is null and passes.
    assert sorted((row.age is None, row.age, *row.broken) for row in rows) == [
        (False, -1, "age"),
        (False, 200, "age"),
        (True, None, "age"),
    ]
    latest = repo.runs("people")["run_id"].max()
    for row in rows:
        (why,) = row.why
        assert (why.rule, why.severity, why.tags, why.run) == ("age", "error", [], latest)
        assert why.message.startswith("not true: `age` >= 0")
        assert before <= why.time <= after


def test_a_table_without_partitions_has_no_data(spark, table, rules, repo):
    spark.sql(f"DROP TABLE {table}")
    spark.sql(f"CREATE TABLE {table} (age INT, ds STRING) USING parquet PARTITIONED BY (ds)")
    text = SPEC + "quarantine: people_rejects\npublish: people_clean\n"
    for options, expected in (((), 2), (("--allow-empty",), 0)):
        status, out = rules(text, "run", *options)
        assert status == expected
        assert "the table has no partition" in out
        assert "written" not in out
    assert not spark.catalog.tableExists("people_clean")
    status, out = rules(text, "run", "--format", "junit")
    (suite,) = ET.fromstring(out)
    assert (status, suite.get("failures")) == (2, "1")
    assert [one.get("type") for one in suite.iter("failure")] == ["no data"]
    # Partitions that exist are judged.
    write_day(spark, DAYS[0], [5])
    assert rules()[0] == 0
    assert current_failures(repo, "people") == []


def test_a_partition_that_became_empty_is_removed_from_its_targets(spark, table, rules):
    both = SPEC + "quarantine: people_rejects\npublish: people_clean\n"
    rules(both.replace("FailCount: 2", "FailCount: 3"))
    assert DAYS[0] in {day for (day,) in contents(spark, "people_clean", "ds")}
    spark.sql(f"INSERT OVERWRITE {table} PARTITION (ds='{DAYS[0]}') SELECT 1 WHERE false")
    status, out = rules(both.replace("FailCount: 2", "FailCount: 3"))
    assert status == 2
    assert f"ds={DAYS[0]}: no data: records: there are no records to judge" in out
    assert DAYS[0] in {day for (day,) in contents(spark, "people_clean", "ds")}
    report = json.loads(
        rules(both.replace("FailCount: 2", "FailCount: 3"), "run", "--format", "json")[1]
    )
    assert report["runs"][0]["no_data"] == [f"ds={DAYS[0]}"]
    allowed = "on_empty: warn" + both.replace("FailCount: 2", "FailCount: 3")
    status, out = rules(allowed)
    assert status == 0
    assert f"ds={DAYS[0]}: no data; warning: records: no data: there are no records to judge" in out
    for target in ("people_rejects", "people_clean"):
        assert DAYS[0] not in {day for (day,) in contents(spark, target, "ds")}


def test_a_partition_that_is_held_back_exits_with_2_until_the_next_partition(spark, table, rules):
    assert rules()[0] == 2
    assert rules()[0] == 2
    write_day(spark, "2013-01-04", [5])  # another day, which passes
    status, out = rules()
    assert status == 0
    assert "1 partition scanned" in out
    assert "1 record, 0 rejected" in out
    assert f"known: ds={DAYS[1]}" in out
    spark.sql(f"INSERT OVERWRITE {table} PARTITION (ds='{DAYS[1]}') SELECT 10")
    assert rules()[0] == 0


def test_check_prints_the_plan_and_names_that_do_not_resolve(table, rules):
    status, out = rules(SPEC + "quarantine: people_rejects\n", "check")
    assert status == 0
    lines = [line.strip() for line in out.splitlines()]
    assert "rule age (error, null: fail): `age` >= 0 AND `age` < 150" in lines
    assert "fix cap: age = 25 where age > 25" in lines
    assert "policy of age: FailCount(2)" in lines
    assert "rejected records go to people_rejects" in lines
    status, out = rules(SPEC.replace("column: age, lower", "column: agge, lower"), "check")
    assert status == 1
    assert "people.yml:6: " in out
    assert "agge" in out
    assert "`age`" in out
    assert rules(SPEC.replace("people_of_spec", "people_of_spek"), "check")[0] == 1


def test_a_file_that_cannot_be_run_exits_with_1(table, rules):
    status, out = rules(SPEC.replace("people_of_spec", "nowhere"))
    assert status == 1
    assert "no table 'nowhere'" in out
    status, out = rules(SPEC.replace("age <> 2", "agge <> 2"))
    assert status == 1
    assert "agge" in out
    assert rules(SPEC.replace("BoundRule", "BoundRul"))[0] == 1


CSV = """
dataset: ages
path: {path}
format: csv
schema: name STRING, age INT
fail_at_parsing_error: {strict}
rules:
  - BoundRule: {{column: age, lower: 0, upper: 150, name: age, policy: {{FailCount: 2}}}}
policies:
  - FailParserCountPolicy: 2
"""


@pytest.mark.soak
def test_a_file_is_parsed_and_judged(rules, tmp_path):
    file = tmp_path / "ages.csv"
    file.write_text("ann,10\nbob,ten\ncyd,200\n")
    text = CSV.format(path=file, strict="false")
    status, out = rules(text)
    assert status == 0
    assert "  people rules: 2 records, 1 rejected" in out
    assert "parser: 1 of 3 records: number" in out
    strict = CSV.format(path=file, strict="true")
    status, out = rules(strict)
    assert status == 2
    assert "parser: failed: FailParserCountPolicy(1): 1 of 3 records" in out
    again, out = rules(strict)
    assert again == 2
    assert "0 partitions scanned" in out
    file.write_text("ann,10\nbob,10\n")
    assert rules(strict)[0] == 0


@pytest.mark.soak
def test_two_files_with_the_same_parser_have_separate_verdicts(rules, tmp_path, repo):
    """A policy on unreadable records does not change the content. Neither file outdates the other's verdict."""
    file = tmp_path / "ages.csv"
    file.write_text("ann,10\nbob,ten\ncyd,200\n")
    strict = CSV.format(path=file, strict="true")
    lenient = "name: lenient\n" + CSV.format(path=file, strict="false")
    assert rules(strict)[0] == 2
    for _ in range(2):
        status, out = rules(lenient)
        assert status == 0
        assert "0 partitions scanned" in out
        assert [row["name"] for row in current_failures(repo, "ages")] == [
            f"parser of {file}, people rules"
        ]
        status, out = rules(strict)
        assert status == 2
        assert "0 partitions scanned" in out


def test_two_rules_files_of_one_dataset_have_separate_verdicts(table, rules, repo, capsys):
    other = "name: others\n" + SPEC.replace("age <> 2", "age <> 3").replace(
        "FailCount: 2", "FailCount: 9"
    )
    assert rules()[0] == 2
    before = current_failures(repo, "people")
    for _ in range(2):
        assert rules(other)[0] == 0
        assert [row["name"] for row in current_failures(repo, "people")] == ["dqm"]
        assert rules()[0] == 2
    assert [row["id"] for row in current_failures(repo, "people")] == [row["id"] for row in before]
    assert run_command(["rules", "history", "people", "--db", str(repo.database.url)]) == 0
    assert {"dqm", "others"} <= set(capsys.readouterr().out.split())


def test_a_broken_rule_of_severity_warning_warns_unless_a_policy_decides(
    table, rules, repo, caplog, capsys
):
    caplog.set_level("INFO", "tidegauge.incidents")
    notified = SPEC + "notify: [log]\n"
    rules(notified)
    (messages,) = [r.getMessage() for r in caplog.records if r.name == "tidegauge.incidents"]
    warning = "not two: 1 of 4 records break it"
    assert messages.splitlines()[1:-1] == [
        "1 partition fails, 1 warns",
        f"- ds={DAYS[1]}: age: 2 of 4 records, fewer than 2 allowed",
        f"- ds={DAYS[2]}: warning: {warning}",
    ]
    assert run_command(["rules", "history", "people", "--db", str(repo.database.url)]) == 0
    assert f"passed: 1 policy holds; warning: {warning}" in capsys.readouterr().out
    rules(notified.replace("on_null: pass}", "on_null: pass, policy: {FailCount: 2}}"))
    assert CheckResult.from_json(repo.verdicts("people")["result"][0]).warnings == ()


def test_the_example_of_the_guide_runs(spark):
    dqm = (
        tg.DQM()
        .add(tg.BoundRule("age", 1, 150), tg.FailCount(10))
        .add(tg.NotNullRule("email", severity="warning"))
        .add(tg.Fix("fare < 0", column="fare", value=0, name="no negative fare"))
        .add(tg.Rule("fare < 500", "fare", stage="after"), tg.FailPercent(0.01))
        .add(tg.FailTotalRuleCountPolicy(30))
    )
    rows = [
        (1, 30, "a@x.org", 20),
        (2, 150, "b@x.org", 20),
        (3, None, "c@x.org", 20),
        (4, 40, None, -5),
        (5, 50, "e@x.org", 900),
    ]
    data = spark.createDataFrame(rows, "id int, age int, email string, fare int")
    applied = dqm.apply(data)
    assert sorted(tuple(row) for row in applied.data.select("id", "fare").collect()) == [
        (1, 20),
        (4, 0),
    ]
    broken = {row["id"]: row["broken_rules"] for row in applied.rejects.collect()}
    age = "BoundRule(age, 1, 150)"
    assert broken == {2: [age], 3: [age], 5: ["fare"]}
    assert applied.state.rule_count(age) == 2
    assert applied.state.unknown(age) == 1
    assert applied.state.rule_count("NotNullRule(email)") == 1
    assert [name for name, _ in applied.check.error_messages] == ["fare"]
    assert "20%" in applied.check.error_messages[0][1]


@pytest.mark.soak
def test_history_lists_verdicts_and_written_records(table, rules, repo, capsys):
    rules(SPEC + "quarantine: people_rejects\n")
    repo.keep_verdict(
        "people", name="own", specification="s", fingerprint="f", passed=True, result='"fine"'
    )
    url = str(repo.database.url)
    assert run_command(["rules", "history", "people", "--db", url, "--failed"]) == 0
    out = capsys.readouterr().out
    assert "ds=2013-01-02" in out
    assert "fewer than 2 allowed" in out
    assert "ds=2013-01-03" not in out
    assert run_command(["rules", "history", "people", "--db", url]) == 0
    out = capsys.readouterr().out
    assert "3 rejects of 3 partitions: people_rejects" in out
    assert '"fine"' in out


def test_rules_of_a_suite_file_fail_a_run(table, rules, repo, tmp_path, capsys):
    suite = tmp_path / "suite.yml"
    suite.write_text(
        "dataset: people\ntable: people_of_spec\nanalyzers: [Size]\ndqm:\n"
        "  rules:\n    - NotNullRule: {column: age, policy: FailAny}\n"
    )
    assert run_command(["run", str(suite), "--db", str(repo.database.url)]) == 2
    assert "ds=2013-01-02: failed: NotNullRule(age)" in capsys.readouterr().out
    assert repo.metrics("people", name="Size")["value"].tolist() == [3, 4, 4]


def test_check_refuses_to_publish_to_the_folder_of_the_table(spark, table, rules):
    folder = f"{spark.catalog.getDatabase('default').locationUri}/{table}"
    status, out = rules(SPEC + f"publish: {folder}\n", "check")
    assert status == 1
    assert "are the same location" in out


RENAMED = """
dataset: people
table: people_of_spec
partition_by: [ds]
rules:
  - BoundRule: {column: age, lower: 0, upper: 150, name: age, policy: {FailCount: 2}}
  - NotNullRule: {column: e_mail, name: mail}
quarantine: people_rejects
publish: people_clean
"""


def test_a_rule_that_does_not_resolve_leaves_the_counts_of_the_others(spark, table, rules, repo):
    good = RENAMED.replace("  - NotNullRule: {column: e_mail, name: mail}\n", "")
    rules(good)
    before = contents(spark, "people_rejects", "age", "ds", "broken_rules")
    assert len(before) == 3
    spark.sql(f"INSERT INTO {table} PARTITION (ds='2013-01-04') SELECT 1 WHERE false")
    status, out = rules(RENAMED)
    assert status == 1
    lines = out.splitlines()
    assert "  11 records, 3 rejected" in lines
    assert "  rule age: 3 rejected, 2 break it, 1 unknown" in lines
    assert "    ds=2013-01-01: age=200" in lines
    assert "  rule mail: could not be evaluated" in lines
    warnings = [line for line in lines if "e_mail" in line]
    assert len(warnings) == 1
    assert "people.yml:7: rule 'mail': " in warnings[0]
    assert "  ds=2013-01-01: failed: mail: could not be evaluated" in lines
    assert (
        "  ds=2013-01-02: failed: age: 2 of 4 records, fewer than 2 allowed;"
        " mail: could not be evaluated"
    ) in lines
    assert any(line.startswith("  not written: ") and "people_rejects" in line for line in lines)
    assert contents(spark, "people_rejects", "age", "ds", "broken_rules") == before
    # The verdicts are the same, with samples. Running again does not make anything pass.
    kept = repo.verdicts("people", partition=f"ds={DAYS[0]}", passed=False)["result"].iloc[0]
    assert "mail" in kept
    assert "age=200" in kept
    # A run without a scan counts the rejected records of the other rules again.
    status, out = rules(RENAMED)
    assert status == 1
    assert "  11 records, 3 rejected" in out.splitlines()
    assert "  rule age: 3 rejected, 2 break it, 1 unknown" in out.splitlines()
    assert rules(good)[0] == 2


def test_a_rule_that_fails_on_one_day_leaves_the_counts_of_all_days(spark, table, rules):
    text = RENAMED.replace(
        "NotNullRule: {column: e_mail, name: mail}",
        'Rule: {expr: "100 / (age - 4) < 1000", name: ratio, on_null: pass}',
    )
    status, out = rules(text)
    assert status == 1
    lines = out.splitlines()
    assert "  11 records, 3 rejected" in lines
    assert "  rule age: 3 rejected, 2 break it, 1 unknown" in lines
    assert "  rule ratio: could not be evaluated" in lines
    assert "people.yml:7: rule 'ratio'" in out or "people.yml:7: [DIVIDE_BY_ZERO]" in out
    assert "written: 3 rejects of 2 partitions: people_rejects" in out
    assert {day for (day,) in contents(spark, "people_clean", "ds")} == {DAYS[0]}
    # A run without a scan reports the same.
    again, out = rules(text)
    lines = out.splitlines()
    assert again == 1
    assert "  rule ratio: could not be evaluated" in lines
    assert sum("people.yml:7: [DIVIDE_BY_ZERO]" in line for line in lines) == 1
    assert sum(line.endswith(": failed: ratio: could not be evaluated") for line in lines) == 1


def test_rules_that_read_other_records_are_refused_for_partitions(spark, table, rules):
    window = "Rule: {{expr: 'count(1) over (partition by {}) = 1', name: once}}"
    text = RENAMED.replace("NotNullRule: {column: e_mail, name: mail}", window.format("age"))
    text = text.replace("quarantine: people_rejects\npublish: people_clean\n", "")
    status, out = rules(text)
    assert status == 1
    assert "people.yml:7: rule 'once': it reads other records by a window" in out
    assert "add PARTITION BY ds" in out
    assert rules(text, "check")[0] == 1
    status, out = rules(text.replace("by age", "by ds, age"))
    assert status == 2
    assert "  rule once: 0 rejected, 0 break it" in out


def test_the_history_shows_samples_of_failing_records(table, rules, repo, capsys):
    rules()
    assert run_command(["rules", "history", "people", "--db", str(repo.database.url)]) == 0
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert {"age=-1", "age="} <= {line.split()[0] for line in lines if line}
    assert "age=200" not in lines  # of a day that passed


def test_the_report_is_printed_if_a_table_cannot_be_written(spark, table, rules):
    spark.sql("CREATE TABLE people_rejects (other INT) USING parquet")
    status, out = rules(SPEC + "quarantine: people_rejects\n")
    assert status == 1
    assert "  11 records, 3 rejected" in out.splitlines()
    assert "ds=2013-01-02: failed: age: 2 of 4 records" in out
    (failed,) = [line for line in out.splitlines() if line.startswith("failed: ")]
    assert "people.yml: " in failed
    assert "people_rejects" in failed


def test_concurrent_files_give_the_same_result_as_sequential_files(table, repo, tmp_path, capsys):
    """One file fails because its column is missing. The others are counted, judged and written."""
    for name, condition in (("young", "age < 100"), ("old", "age > 0"), ("lost", "agee > 0")):
        (tmp_path / f"{name}.yml").write_text(
            f"dataset: {name}\ntable: people_of_spec\npartition_by: [ds]\n"
            f"rules:\n  - Rule: {{expr: {condition}, name: {name}, on_null: pass}}\n"
            f"quarantine: {tmp_path}/rejects_{name}\n"
        )
    results = {}
    for jobs in ("1", "3"):
        url = f"sqlite:///{tmp_path}/jobs{jobs}.db"
        options = ["--jobs", jobs, "--db", url, "--format", "json"]
        status = run_command(["rules", "run", str(tmp_path), *options])
        runs = json.loads(capsys.readouterr().out)["runs"]
        results[jobs] = (
            status,
            [
                (run["dataset"], run["records"], run["rejected"], run["rules"][0]["error"] is None)
                for run in runs
            ],
        )
    # Of 11 ages, one of which is null, 200 is not below 100 and -1 is not above 0.
    counts = [("lost", 11, 0, False), ("old", 11, 1, True), ("young", 11, 1, True)]
    assert results == {"1": (1, counts), "3": (1, counts)}
