"""`tidegauge check`: what it prints, how it exits, and what it keeps."""

import json
from xml.etree import ElementTree as ET

import pytest
from tidegauge.cli.main import run_command
from tidegauge.rules.judging import current_failures

DAYS = ("2013-01-01", "2013-01-02")
# By day: of 4 names one is null on the first, two on the second.
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
    """Write a file, check it, and return the status and what is printed."""

    def run(*options, text=SPEC, command="check"):
        file = tmp_path / "people.yml"
        file.write_text(text)
        status = run_command([command, str(file), "--db", str(repo.database.url), *options])
        printed = capsys.readouterr()
        return status, printed.out + printed.err

    return run


def test_checks_of_a_file_fail_warn_and_are_kept(spark, table, check, repo):
    status, out = check()
    assert status == 2
    first, second = (f"ds={day}: name is " for day in DAYS)
    warning, error = ("75 % complete, at least 90 % needed", "50 % complete, at least 75 % needed")
    assert f"people.yml:8: warning: {first}{warning}: 1 of 4 rows" in out
    assert f"people.yml:8: error: {second}{error}: 2 of 4 rows" in out
    assert out.endswith("notifications: 1 sent (to log: checks of people)\n")
    kept = repo.verdicts("people", name="checks")
    assert dict(zip(kept["partition"], kept["passed"], strict=True)) == {
        f"ds={DAYS[0]}": True,
        f"ds={DAYS[1]}": False,
    }
    # What failed fails again, without a scan; what passed is not told again.
    status, out = check("--format", "json")
    assert status == 2
    told = json.loads(out)
    assert {one["partition"] for one in told["results"]} == {f"ds={DAYS[1]}"}
    size = next(one for one in told["results"] if one["analyzer"] == "Size()")
    assert (size["status"], size["value"], size["message"]) == ("success", 4, "")
    assert size["place"].endswith("people.yml:7")
    # A mended day passes, and then there is nothing left to check.
    spark.sql(f"INSERT OVERWRITE {table} PARTITION (ds='{DAYS[1]}') SELECT explode(array(1, 2, 3))")
    status, out = check()
    assert status == 0
    assert "notifications: 1 sent" in out  # that it passes again
    assert "nothing new to check" in check()[1]


def test_other_limits_judge_again_for_junit(table, check, tmp_path):
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


def test_a_warning_is_a_failure_where_it_is_one_of_the_command(table, check):
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
    assert (status, suite.get("failures")) == (2, "2")  # three and two of four names are below 0.9


def test_an_edited_predicate_of_the_same_name_judges_anew(table, check):
    """Each text is another check, also one that passed before and would not now."""
    text = PATTERN.replace(
        'has_pattern: {column: name, pattern: "[a-c]"}',
        "satisfies: {predicate: name IS NULL OR length(name) > 0, name: named}",
    )
    assert check(text=text)[0] == 0
    edited = text.replace("length(name) > 0", "length(name) > 1")
    assert [check(text=one)[0] for one in (edited, text, edited)] == [2, 0, 2]


def test_constraints_of_one_name_have_lines_and_messages_of_their_own(table, check):
    lines = (
        "  - satisfies: {predicate: length(name) = 1, name: named}\n"
        "  - satisfies: {predicate: name = 'a', name: named}\n"
    )
    text = PATTERN.replace('  - has_pattern: {column: name, pattern: "[a-c]"}\n', lines)
    both = "ds=2013-01-02 and 1 other partition"  # with the same message, without a bad value
    for of_second in ("ds=2013-01-01", both):
        status, out = check(text=text)
        assert status == 2
        shares = ("75 % of rows, at least 100 % needed", "25 % of rows, at least 100 % needed")
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
    """With checks and without them."""
    measured = SPEC.partition("variables")[0] + "analyzers: [Size]\n"
    for text in (SPEC, measured) if command == "run" else (SPEC,):
        status, out = check("--partitions", "ds=2013-01-03", text=text, command=command)
        assert status == 1
        assert "matches none of 2 partitions (nearest: ds=2013-01-02; newest: ds=2013-01-02)" in out


def test_a_misspelt_detector_is_an_error_of_its_line(check):
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


def test_failures_name_bad_values_of_their_partition_unless_they_are_private(table, check):
    # Null does not match.
    first, second = (f"ds={day}: name matches its pattern in " for day in DAYS)
    told = (
        f"{first}50 % of rows, at least 100 % needed: 2 of 4 rows: null, 'd'",
        f"{second}25 % of rows, at least 100 % needed: 3 of 4 rows: null, 'd'",
    )
    for _ in range(2):  # the second time as kept: nothing is scanned
        status, out = check(text=PATTERN)
        assert status == 2
        assert all(f"people.yml:6: error: {one}\n" in out for one in told)
    hidden = PATTERN.replace("[a-c]", "[abc]") + "private: [name]\n"
    status, out = check(text=hidden)
    assert status == 2
    assert "3 of 4 rows\n" in out
    assert "'d'" not in out


def test_a_run_is_private_by_its_tags(table, check, tmp_path, monkeypatch):
    (tmp_path / "t.toml").write_text('[private]\ntags = ["pii"]\n')
    monkeypatch.setenv("TIDEGAUGE_CONFIG", str(tmp_path / "t.toml"))
    status, out = check("--tag", "pii=yes", text=PATTERN)
    assert status == 2
    assert "3 of 4 rows\n" in out
    assert "'d'" not in out


def test_run_judges_checks_too(table, check, tmp_path, repo, capsys):
    (tmp_path / "people.yml").write_text(SPEC)
    assert run_command(["run", str(tmp_path / "people.yml"), "--db", str(repo.database.url)]) == 2
    out = capsys.readouterr().out
    assert "notifications: 1 sent" in out
    assert "people.yml:8: warning: ds=2013-01-01: name is 75 % complete" in out
    assert "people.yml:8: error: ds=2013-01-02: name is 50 % complete" in out
    assert len(repo.verdicts("people", name="checks")) == 2


def test_files_without_checks_and_unknown_variables_are_errors(check):
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


def test_a_column_that_there_is_not_is_a_fault_of_the_file_and_told_first(table, check):
    status, out = check(text=MISSPELLED)
    assert status == 1
    assert "failed: " in out
    assert "Completeness('nmae'): no column 'nmae'; did you mean 'name'?" in out


def test_going_back_to_an_earlier_text_makes_its_verdicts_the_newest_again(table, check, repo):
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


def test_two_files_of_one_dataset_keep_their_verdicts_apart(table, check, tmp_path, repo, capsys):
    """What one file found stands while the other passes, in whichever order they are run."""
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


def test_what_a_file_kept_as_checks_before_it_had_a_name_is_closed(table, check, tmp_path, repo):
    """Databases of before hold the verdicts of all files as `checks`."""
    assert check()[0] == 2
    assert check(text=f"name: of people\n{SPEC}")[0] == 2
    assert [row["name"] for row in current_failures(repo, "people")] == ["of people"]
    # A file of that name judges as it did.
    assert check()[0] == 2
    assert [row["name"] for row in current_failures(repo, "people")] == ["checks", "of people"]
