"""`tidegauge check`: output, exit status and stored verdicts."""

import json
from xml.etree import ElementTree as ET

import pytest

from tidegauge.cli.main import run_command
from tidegauge.rules.judging import current_failures

DAYS = ("2013-01-01", "2013-01-02")
# By day: one of 4 names is null on the first day, two on the second.
NAMES = {DAYS[0]: ["a", "b", None, "d"], DAYS[1]: ["a", None, None, "d"]}
SPEC = """
dataset: people
table: people_of_checks
partition_by: [ds]
variables: {least: 3}
checks:
  - has_size: {at_least: "${least}"}
  - is_complete: {column: name, at_least: 0.75, warn: 0.9}
  - is_unique: {column: name, level: warning}
notify: [log]
"""


@pytest.fixture
def table(spark):
    rows = [(name, day) for day, names in NAMES.items() for name in names]
    frame = spark.createDataFrame(rows, "name string, ds string").coalesce(1)
    frame.write.partitionBy("ds").mode("overwrite").format("parquet").saveAsTable(
        "people_of_checks"
    )
    yield "people_of_checks"
    spark.sql("DROP TABLE people_of_checks")


@pytest.fixture
def check(tmp_path, repo, capsys):
    """Write a file, check it, and return the exit status and the output."""

    def run(*options, text=SPEC, command="check"):
        file = tmp_path / "people.yml"
        file.write_text(text)
        status = run_command([command, str(file), "--db", str(repo.database.url), *options])
        printed = capsys.readouterr()
        return status, printed.out + printed.err

    return run


def test_failing_checks_are_stored_and_fail_again_without_a_scan(spark, table, check, repo):
    status, out = check()
    assert status == 2
    first, second = (f"ds={day}: name is " for day in DAYS)
    warning, error = ("75% complete, at least 90% required", "50% complete, at least 75% required")
    assert f"people.yml:8: warning: {first}{warning}: 1 of 4 rows" in out
    assert f"people.yml:8: error: {second}{error}: 2 of 4 rows" in out
    assert out.endswith("notifications: 1 sent (to log: checks of people)\n")
    kept = repo.verdicts("people", name="checks")
    assert dict(zip(kept["partition"], kept["passed"], strict=True)) == {
        f"ds={DAYS[0]}": True,
        f"ds={DAYS[1]}": False,
    }
    # The failed check fails again without a scan. The passed check is not reported again.
    status, out = check("--format", "json")
    assert status == 2
    content = json.loads(out)
    assert {one["partition"] for one in content["results"]} == {f"ds={DAYS[1]}"}
    size = next(one for one in content["results"] if one["analyzer"] == "Size()")
    assert (size["status"], size["value"], size["message"]) == ("success", 4, "")
    assert size["place"].endswith("people.yml:7")
    # A corrected day passes. Then nothing is left to check.
    spark.sql(f"INSERT OVERWRITE {table} PARTITION (ds='{DAYS[1]}') SELECT explode(array(1, 2, 3))")
    status, out = check()
    assert status == 0
    assert "notifications: 1 sent" in out  # the recovery
    assert "nothing new to check" in check()[1]


def test_changed_limits_are_judged_again_and_written_as_junit(table, check, tmp_path):
    output = tmp_path / "junit.xml"
    options = ("--var", "least=5", "--format", "junit", "--output", str(output))
    assert check(*options)[0] == 2
    (suite,) = ET.parse(output).getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("6", "3")
    failures = [
        f"{case.get('classname')} {case.get('name')}"
        for case in suite
        if case.find("failure") is not None
    ]
    assert failures.count(f"people.ds={DAYS[0]} Size(): at least 5") == 1
    assert check("--fail-on", "never")[0] == 0


def test_fail_on_warning_turns_warnings_into_failures(table, check):
    text = SPEC.replace('  - has_size: {at_least: "${least}"}\n', "").replace(
        "at_least: 0.75", "at_least: 0"
    )
    assert check(text=text)[0] == 0
    status, out = check(
        "--fail-on", "warning", "--format", "json", "--partitions", "all", text=text
    )
    assert (status, json.loads(out)["status"]) == (2, 2)
    status, out = check(
        "--fail-on", "warning", "--format", "junit", "--partitions", "all", text=text
    )
    (suite,) = ET.fromstring(out)
    assert (status, suite.get("failures")) == (2, "2")  # 3 and 2 of 4, both below 0.9


def test_an_edited_predicate_of_the_same_name_is_judged_again(table, check):
    """Each edit makes another check, also if the earlier one passed and the new one fails."""
    text = PATTERN.replace(
        'has_pattern: {column: name, pattern: "[a-c]"}',
        "satisfies: {predicate: name IS NULL OR length(name) > 0, name: named}",
    )
    assert check(text=text)[0] == 0
    edited = text.replace("length(name) > 0", "length(name) > 1")
    assert [check(text=one)[0] for one in (edited, text, edited)] == [2, 0, 2]


def test_constraints_of_one_name_have_their_own_lines_and_messages(table, check):
    lines = (
        "  - satisfies: {predicate: length(name) = 1, name: named}\n"
        "  - satisfies: {predicate: name = 'a', name: named}\n"
    )
    text = PATTERN.replace('  - has_pattern: {column: name, pattern: "[a-c]"}\n', lines)
    both = "ds=2013-01-02 and 1 other partition"  # with the same message, without a bad value
    for of_second in ("ds=2013-01-01", both):
        status, out = check(text=text)
        assert status == 2
        shares = ("75% of rows, at least 100% required", "25% of rows, at least 100% required")
        assert f"people.yml:6: error: ds=2013-01-01: named: true of {shares[0]}" in out
        assert f"people.yml:7: error: {of_second}: named: true of {shares[1]}" in out


def test_a_table_without_partitions_has_no_data(spark, table, check):
    for day in DAYS:
        spark.sql(f"ALTER TABLE {table} DROP PARTITION (ds='{day}')")
    status, out = check()
    assert status == 2
    assert "people.yml:7: error: people: Size(): at least 3: no data: the table has no part" in out
    assert check("--allow-empty")[0] == 0
    for command in ("check", "run"):
        assert check(command=command)[0] == 2


@pytest.mark.parametrize("command", ["check", "run"])
def test_a_selection_that_matches_no_partition_is_an_error(table, check, command):
    """For files with and without checks."""
    measured = SPEC.partition("variables")[0] + "analyzers: [Size]\n"
    for text in (SPEC, measured) if command == "run" else (SPEC,):
        status, out = check("--partitions", "ds=2013-01-03", text=text, command=command)
        assert status == 1
        assert "matches none of 2 partitions (nearest: ds=2013-01-02; newest: ds=2013-01-02)" in out


def test_a_misspelt_detector_is_an_error_with_its_line(check):
    text = PATTERN.replace(
        'has_pattern: {column: name, pattern: "[a-c]"}',
        "is_usual: {analyzer: Size(), detector: Seasnal}",
    )
    status, out = check(text=text)
    assert status == 1
    assert "people.yml:6: unknown detector 'Seasnal'; did you mean 'Seasonal'?" in out


PATTERN = """
dataset: people
table: people_of_checks
partition_by: [ds]
checks:
  - has_pattern: {column: name, pattern: "[a-c]"}
"""


def test_failures_show_bad_values_unless_they_are_private(table, check):
    # Null does not match.
    first, second = (f"ds={day}: name matches its pattern in " for day in DAYS)
    message = (
        f"{first}50% of rows, at least 100% required: 2 of 4 rows: null, 'd'",
        f"{second}25% of rows, at least 100% required: 3 of 4 rows: null, 'd'",
    )
    for _ in range(2):  # The second time, the stored message is shown without a scan.
        status, out = check(text=PATTERN)
        assert status == 2
        assert all(f"people.yml:6: error: {one}\n" in out for one in message)
    hidden = PATTERN.replace("[a-c]", "[abc]") + "private: [name]\n"
    status, out = check(text=hidden)
    assert status == 2
    assert "3 of 4 rows\n" in out
    assert "'d'" not in out


def test_tags_of_a_run_make_columns_private(table, check, tmp_path, monkeypatch):
    (tmp_path / "t.toml").write_text('[private]\ntags = ["pii"]\n')
    monkeypatch.setenv("TIDEGAUGE_CONFIG", str(tmp_path / "t.toml"))
    status, out = check("--tag", "pii=yes", text=PATTERN)
    assert status == 2
    assert "3 of 4 rows\n" in out
    assert "'d'" not in out


def test_the_run_command_judges_checks(table, check, tmp_path, repo, capsys):
    (tmp_path / "people.yml").write_text(SPEC)
    assert run_command(["run", str(tmp_path / "people.yml"), "--db", str(repo.database.url)]) == 2
    out = capsys.readouterr().out
    assert "notifications: 1 sent" in out
    assert "people.yml:8: warning: ds=2013-01-01: name is 75% complete" in out
    assert "people.yml:8: error: ds=2013-01-02: name is 50% complete" in out
    assert len(repo.verdicts("people", name="checks")) == 2


def test_files_without_checks_and_undefined_variables_are_errors(check):
    status, out = check(text="dataset: a\ntable: a\nanalyzers: [Size]\n")
    assert status == 1
    assert "people.yml: the file has no checks" in out
    status, out = check("--var", "leest=1")
    assert status == 1
    assert "no variable 'leest'; did you mean 'least'" in out


MISSPELLED = """
dataset: people
table: people_of_checks
partition_by: [ds]
checks:
  - is_complete: nmae
"""


def test_a_missing_column_is_reported_as_an_error_of_the_file(table, check):
    status, out = check(text=MISSPELLED)
    assert status == 1
    assert "failed: " in out
    assert "Completeness('nmae'): no column 'nmae'; did you mean 'name'?" in out


def test_a_check_that_is_changed_back_gets_the_newest_verdicts(table, check, repo):
    right = MISSPELLED.replace("nmae", "name")
    _, first = check(text=right)
    assert check(text=MISSPELLED)[0] == 1
    _, again = check(text=right)
    assert [line for line in again.splitlines() if "error" in line] == [
        line for line in first.splitlines() if "error" in line
    ]
    newest = repo.verdicts("people", name="checks").drop_duplicates("partition")
    assert not newest["result"].str.contains("nmae").any()


OTHER = """
dataset: people
table: people_of_checks
partition_by: [ds]
checks:
  - has_distinctness: {columns: name, at_least: 0.1}
"""


def test_two_files_of_one_dataset_have_separate_verdicts(table, check, tmp_path, repo, capsys):
    """A failure of one file stays current while the other file passes, in either order."""
    (tmp_path / "nightly.yml").write_text(OTHER)
    other = ["check", str(tmp_path / "nightly.yml"), "--db", str(repo.database.url)]
    assert check()[0] == 2
    for _ in range(2):
        assert run_command(other) == 0
        assert "  nightly checks: " in capsys.readouterr().out
        (row,) = current_failures(repo, "people")
        assert (row["name"], row["partition"]) == ("checks", f"ds={DAYS[1]}")
        assert check()[0] == 2
    assert set(repo.verdicts("people")["name"]) == {"checks", "nightly checks"}
    # Both in one command: two suites of JUnit.
    junit = tmp_path / "junit.xml"
    of_both = ["--format", "junit", "--output", str(junit), "--partitions", "ds>=2013-01-01"]
    assert run_command(["check", str(tmp_path), "--db", str(repo.database.url), *of_both]) == 2
    names = [(suite.get("name"), suite.get("failures")) for suite in ET.parse(junit).getroot()]
    assert names == [("nightly checks of people", "0"), ("checks of people", "1")]


def test_naming_a_file_closes_its_failures_under_the_default_name(table, check, tmp_path, repo):
    """Older databases store the verdicts of all files under the name `checks`."""
    assert check()[0] == 2
    assert check(text=f"name: of people\n{SPEC}")[0] == 2
    assert [row["name"] for row in current_failures(repo, "people")] == ["of people"]
    # A file of the old name judges as before.
    assert check()[0] == 2
    assert [row["name"] for row in current_failures(repo, "people")] == ["checks", "of people"]
