"""Checks of suite files. No Spark."""

import json
from dataclasses import replace
from datetime import date
from types import SimpleNamespace
from xml.etree import ElementTree as ET

import pytest

import tidegauge as tg
from tidegauge.analysis import Run
from tidegauge.analyzers.measures.counts import NumMatchesAndCount
from tidegauge.analyzers.runs.ledger import RunStatus
from tidegauge.analyzers.runs.recording import RunReport
from tidegauge.files.checked import check_table
from tidegauge.files.runs import SuiteReport, SuiteResult
from tidegauge.files.suite_files import load_suite, load_suites
from tidegauge.outcome import FailOnLevel
from tidegauge.repository.testing import SIZE, commit, day, measurement
from tidegauge.rules.judging import current_failures
from tidegauge.rules.verdicts import CheckResult
from tidegauge.widgets.tables import failed_checks

SPEC = """
dataset: flights
table: warehouse.flights
variables: {least: 600, origin: EWR}
analyzers: [Size]
checks:
  - is_complete: dep_time
  - is_complete: {column: dep_delay, at_least: 0.9, warn: 0.95, hint: Ask the tower.}
  - has_size: {at_least: "${least}", less_than: 2000}
  - has_size: [1, null]
  - has_mean: {column: dep_delay, more_than: -10, at_most: 60, where: "origin = '${origin}'"}
  - is_contained_in: {column: origin, values: [EWR, JFK, 7], level: warning}
  - is_unique: id
  - are_complete: {columns: [year, month]}
  - has: {analyzer: {ApproxQuantile: {column: dep_delay, quantile: 0.5}}, exactly: 3}
  - not_below: {analyzer: Size, ago: 7d, by: 10}
  - has_pattern: {column: tail, pattern: "N[0-9]+", whole: true}
  - has_size_of: {other: raw.flights, within: 0.01}
  - has_same: {analyzer: {Sum: distance}, other: ledger}
  - has_same_result: {query: SELECT 1 FROM data, other: SELECT 1, hint: Ask.}
  - has_not_drifted: {column: carrier, baseline: 7d, distance: psi, at_most: 0.3, categorical: true}
  - has_not_drifted: dep_delay
  - has_values: {column: origin, values: [EWR, 7, 2013-01-31]}
"""


@pytest.fixture
def load(tmp_path):
    def read(text, **variables):
        path = tmp_path / "flights.yml"
        path.write_text(text)
        return load_suite(path, variables)

    return read


def test_checks_in_a_file_equal_checks_in_python(load):
    file = load(SPEC)
    grave, light = file.checks
    same = (
        tg.Check("checks")
        .is_complete("dep_time")
        .is_complete("dep_delay", at_least=0.9, hint="Ask the tower.")
        .warn(0.95)
        .has_size(tg.Between(600, 2000, "lower"))
        .has_size((1, None))
        .has_mean("dep_delay", tg.Between(-10, 60, "upper"))
        .where("origin = 'EWR'")
        .is_unique("id")
        .are_complete(["year", "month"])
        .has(tg.ApproxQuantile("dep_delay", 0.5), (3, 3))
        .not_below(tg.Size(), "7d", by=10)
        .has_pattern("tail", "N[0-9]+", whole=True)
        .has_size_of("raw.flights", within=0.01)
        .has_same(tg.Sum("distance"), "ledger")
        .has_same_result("SELECT 1 FROM data", "SELECT 1", hint="Ask.")
        .has_not_drifted("carrier", "7d", "psi", tg.Between(upper=0.3), categorical=True)
        .has_not_drifted("dep_delay")
        .has_values("origin", ["EWR", 7, date(2013, 1, 31)])
    )
    assert grave == same
    assert light == tg.Check("checks", "warning").is_contained_in("origin", ["EWR", "JFK", 7])
    # The required analyzers are measured once.
    assert set(grave.analyzers) | set(light.analyzers) <= set(file.suite.analyzers)
    assert file.suite.analyzers.count(tg.Size()) == 1
    lines = {
        one.description: file.check_lines[one.identity]
        for c in file.checks
        for one in c.constraints
    }
    assert lines["Completeness('dep_time'): at least 1"] == 7


def test_variables_are_passed_in(load):
    sizes = [
        c.description
        for c in load(SPEC, least="5").checks[0].constraints
        if "2000" in c.description
    ]
    assert sizes == ["Size(): at least 5 and less than 2000"]
    with pytest.raises(tg.SuiteError, match=r"no variable 'leest'; did you mean 'least'"):
        load(SPEC, leest="5")
    with pytest.raises(tg.SuiteError, match=r"flights.yml:9: no variable 'most'"):
        load(SPEC.replace("${least}", "${most}"))


USE = """
dataset: a
table: a
{variables}
analyzers:
  - Compliance: {{instance: a, predicate: "x = '{text}'"}}
"""


def predicate_of(load, text, variables="", **values):
    return load(USE.format(text=text, variables=variables), **values).suite.analyzers[0].predicate


@pytest.mark.parametrize(
    ("variables", "text", "values", "expected"),
    [
        ("", "$${y}", {}, "x = '${y}'"),
        ("", "$${y", {}, "x = '${y'"),
        ("", "$y {{ y }} {y}", {}, "x = '$y {{ y }} {y}'"),
        ("variables: {y: eu}", "${y}/$${y}", {}, "x = 'eu/${y}'"),
        ("variables: {y: }", "${y}", {"y": "eu"}, "x = 'eu'"),
        ("variables: {y: '$${z}'}", "${y}", {}, "x = '${z}'"),
        ("variables: {y: ''}", "${y}", {}, "x = ''"),  # an empty default allows empty values
        ("variables: {y: ''}", "${y}", {"y": ""}, "x = ''"),
    ],
)
def test_variables_are_replaced_by_their_values(load, variables, text, values, expected):
    assert predicate_of(load, text, variables, **values) == expected


@pytest.mark.parametrize(
    ("variables", "text", "values", "message"),
    [
        (
            "",
            "${y}",
            {},
            "flights.yml:6: no variable 'y'; declare it: variables: {y: VALUE};"
            " for a literal ${ write $${",
        ),
        ("variables: {}", "${y}", {}, "flights.yml:6: no variable 'y'; declare it"),
        ("variables: {region: eu}", "${regoin}", {}, "did you mean 'region'?"),
        (
            "variables: {y: }",
            "${y}",
            {},
            "flights.yml:6: the variable 'y' has no value; add --var y=VALUE, or a default",
        ),
        ("variables: {y: ~}", "${y}", {}, "the variable 'y' has no value"),
        ("variables: {y: eu}", "${y}", {"y": ""}, "flights.yml:4: the variable 'y' is given an"),
        ("variables: {y: eu}", "${y}", {"y": "  "}, "is given an empty value"),
        ("variables: {y: }", "${y}", {"y": ""}, "is given an empty value"),
        ("variables: {y: '${Y}'}", "${y}", {}, "flights.yml:4: the value of the variable 'y'"),
        ("variables: {y: eu}", "${y}", {"y": "${Y}"}, "contains ${Y}, but variables are not"),
        ("variables: {y: [eu]}", "${y}", {}, "the variable 'y' must be a string, not ['eu']"),
        ("variables: {y: eu}", "${y:-us}", {}, "invalid variable '${y:-us}'; write ${region}"),
        ("variables: {y: eu}", "${}", {}, "invalid variable '${}'"),
        ("variables: {y: eu}", "${y", {}, "invalid variable '${'"),
    ],
)
def test_a_variable_without_a_value_is_an_error(load, variables, text, values, message):
    with pytest.raises(tg.SuiteError) as error:
        predicate_of(load, text, variables, **values)
    assert message in str(error.value)


def test_variables_are_replaced_in_keys(load):
    text = "dataset: a\ntable: a\nvariables: {kind: Sum}\nanalyzers:\n  - '${kind}': x\n"
    assert load(text).suite.analyzers == (tg.Sum("x"),)
    with pytest.raises(tg.SuiteError, match=r"flights.yml:5: no variable 'kind'"):
        load(text.replace("variables: {kind: Sum}", ""))
    with pytest.raises(tg.SuiteError, match=r"flights.yml:6: no variable 'name'"):
        load(text + "'${name}': x\n")


def test_sinks_can_use_environment_variables(load):
    text = "dataset: a\ntable: a\nanalyzers: [Size]\nnotify: ['${SLACK}', 'x://${host}']\n"
    assert list(load(text).suite.notify) == ["${SLACK}", "x://${host}"]
    declared = text + "variables: {host: example.org}\n"
    assert list(load(declared).suite.notify) == ["${SLACK}", "x://example.org"]


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ("is_complet: a", "'is_complet'; did you mean 'is_complete'"),
        ("is_complete: {colum: a}", "'colum'; did you mean 'column'"),
        ("has_size: {at_least: many}", "at_least is a number, not 'many'"),
        ("has_size: {at_least: 1, more_than: 2}", "give at_least or more_than, not both"),
        ("has_size: {}", "has_size needs a limit such as at_least"),
        ("has_mean: {at_least: 1}", "has_mean needs 'column'"),
        ("is_complete: {column: a, level: fatal}", "'fatal'"),
        ("is_complete: {column: a, at_least: 7}", "a share between 0 and 1"),
        ("{is_complete: a, is_unique: b}", "one name with its options"),
        ("has: {analyzer: Men, at_least: 1}", "'Men'; did you mean 'Mean'"),
        ("not_below: {analyzer: Size, warn: 3}", "warn"),
        ("where: a", "'where'"),
        ("has_size_of: {othr: t}", "'othr'; did you mean 'other'"),
        ("has_size_of: {other: t, warn: 3}", "warn"),
    ],
)
def test_mistakes_are_reported_with_their_line(load, item, message):
    with pytest.raises(tg.SuiteError) as raised:
        load(f"dataset: a\ntable: a\nchecks:\n  - has_size: 1\n  - {item}\n")
    assert "flights.yml:5: " in str(raised.value)
    assert message in str(raised.value)


ONE = "dataset: flights\ntable: f\nchecks: [is_complete: dep_time]\n"
RULES = "{rules: [{NotNullRule: tail}]}"


@pytest.mark.parametrize(
    ("file", "given", "name"),
    [
        ("flights.yml", "", "checks"),
        ("nightly.yml", "", "nightly checks"),
        ("flight_checks.yml", "", "flight_checks"),
        ("nightly.yml", "name: of the night\n", "of the night"),
    ],
)
def test_verdicts_have_the_name_of_the_file_unless_it_is_the_dataset(tmp_path, file, given, name):
    (tmp_path / file).write_text(given + ONE)
    actual = load_suite(tmp_path / file)
    assert (actual.name, actual.checks[0].name) == (name, name)


@pytest.mark.parametrize(
    ("file", "name"), [("flights.yml", "dqm"), ("nightly.yml", "nightly rules")]
)
def test_rules_of_a_suite_file_have_the_name_of_the_file(tmp_path, file, name):
    (tmp_path / file).write_text(f"{ONE}dqm: {RULES}\n")
    assert load_suite(tmp_path / file).suite.dqm.name == name


def test_two_files_of_one_dataset_must_have_different_names(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "flights.yml").write_text(ONE)
    with pytest.raises(
        tg.SuiteError, match="are called 'checks', like the verdicts of .*a/flights.yml; give"
    ):
        load_suites([str(tmp_path)])
    (tmp_path / "b" / "flights.yml").write_text("name: others\n" + ONE)
    assert [file.name for file in load_suites([str(tmp_path)])[0]] == ["checks", "others"]
    # Without checks no verdict is stored, and one file can be passed twice.
    (tmp_path / "b" / "flights.yml").write_text("dataset: flights\ntable: f\nanalyzers: [Size]\n")
    assert len(load_suites([str(tmp_path), str(tmp_path / "a")])[0]) == 2
    (tmp_path / "b" / "flights.yml").write_text("name: ''\n" + ONE)
    files, errors = load_suites([str(tmp_path)])
    assert [file.path.parent.name for file in files] == ["a"]
    assert errors == [f"{tmp_path}/b/flights.yml:1: name: the checks need a name that is not empty"]
    with pytest.raises(tg.SuiteError, match=r"flights.yml:1: name: the checks need a name"):
        load_suites([str(tmp_path / "b")])


def test_a_failure_that_all_partitions_share_is_reported_once(load):
    """For example a metric that is not measured: three partitions lack it, and one also has too few rows."""
    text = "dataset: d\ntable: db.t\nanalyzers: [Size]\nchecks:\n  - is_complete: z\n  - has_size: [90, null]\n"
    with tg.Repository("sqlite://") as repo:
        commit(repo, *(day(n, rows=rows, only=[SIZE]) for n, rows in ((1, 95), (2, 10), (3, 95))))
        run = Run(RunReport(1, "d", RunStatus.COMPLETE), repo)
        checked = check_table(load(text), run, SimpleNamespace(name="db.t"))
    size, complete = sorted(line.partition("error: ")[2] for line in checked.failures())
    lacking = "Completeness('z') was not measured; add Completeness('z') to the suite"
    assert complete == f"ds=2013-01-03 and 2 other partitions: {lacking}"
    assert size == "ds=2013-01-02: row count is 10, at least 90 required"


EMPTY_SPEC = """
dataset: d
table: db.t
checks:
  - is_complete: {column: x, where: y > 1}
  - has_size: 1
"""
FILTERED = tg.Completeness("x", where="y > 1")


def matching(number, rows):
    """Return a measured day with a number of complete rows that match the filter."""
    return day(number, only=[SIZE, FILTERED], extra=[measurement(FILTERED, NumMatchesAndCount(rows, rows))])  # fmt: skip


@pytest.fixture
def judge(load):
    """Return a function that judges a file's checks on stored partitions, as a command does."""

    def summary(repo, text=EMPTY_SPEC, *, allow_empty=False):
        file = replace(load(text), allow_empty=allow_empty)
        run = Run(RunReport(int(repo.runs("d")["run_id"].max()), "d", RunStatus.COMPLETE), repo)
        checked = check_table(file, run, SimpleNamespace(name="db.t"))
        report = SuiteReport(file, run, checked.known_failures, checked, only_checks=True)
        return SuiteResult([report], only_checks=True)

    return summary


def statuses(summary):
    results = json.loads(summary.json())["results"]
    return {(one["partition"], one["analyzer"]): (one["status"], one["level"]) for one in results}


def test_no_data_is_reported_in_every_output(judge, caplog):
    caplog.set_level("INFO", "tidegauge.incidents")
    with tg.Repository("sqlite://") as repo:
        commit(repo, matching(1, 0), matching(2, 0))
        summary = judge(repo)
        reported = "no data: no row with a value where y > 1"
        name = "Completeness('x', where='y > 1'): at least 1"
        # Text and exit status
        assert summary.status() == 2
        assert (
            summary.status(FailOnLevel.WARNING.gate()),
            summary.status(FailOnLevel.NEVER.gate()),
        ) == (2, 0)
        _, heading, line, _ = summary.text().splitlines()
        assert heading == "  flights checks: error: 0 of 4 constraints failed, 2 had no data, in 2 of 2 partitions"  # fmt: skip
        assert line.endswith(f"flights.yml:5: error: ds=2013-01-02 and 1 other partition: {name}: {reported}")  # fmt: skip
        # JSON and JUnit
        assert statuses(summary)["ds=2013-01-01", repr(FILTERED)] == ("no data", "error")
        assert statuses(summary)["ds=2013-01-01", "Size()"] == ("success", "error")
        (suite,) = ET.fromstring(summary.junit())
        failures = [(one.get("type"), one.get("message")) for one in suite.iter("failure")]
        assert failures == [("no data", reported)] * 2
        # Stored verdicts: dashboard, history and notifications
        (one, _), count = failed_checks(repo, "d", samples=False)
        assert (count, one["reasons"]) == (2, [f"{name}: {reported}"])
        kept = [CheckResult.from_json(text) for text in repo.verdicts("d")["result"]]
        assert {check.status for check in kept} == {"no data"}
        tg.notify(repo, "log", severity="warning")
        (message,) = [r.getMessage() for r in caplog.records if r.name == "tidegauge.incidents"]
        assert f"- ds=2013-01-01: {name}: {reported}" in message
        # It fails again. If empty partitions are allowed, it passes for that call only.
        assert judge(repo).status() == 2
        allowed = judge(repo, allow_empty=True)
        assert allowed.status(FailOnLevel.WARNING.gate()) == 0
        assert "success: 0 of 4 constraints failed, 2 had no data" in allowed.text()
        assert not judge(repo, allow_empty=True).tables[0].checked.verification.judged
        assert judge(repo).status() == 2
        # A day with matching rows proves the filter right: the other days only warn.
        commit(repo, matching(3, 5))
        third = judge(repo)
        assert third.status() == 0
        assert statuses(third)["ds=2013-01-01", repr(FILTERED)] == ("no data", "warning")
        assert not judge(repo).tables[0].checked.verification.judged  # they passed with a warning
        # Another on_empty of the file judges them again.
        strict = judge(repo, "on_empty: fail\n" + EMPTY_SPEC)
        assert strict.status() == 2
        assert len(strict.tables[0].checked.verification.judged) == 6


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (EMPTY_SPEC, "error"),
        ("on_empty: fail" + EMPTY_SPEC, "error"),
        ("on_empty: warn" + EMPTY_SPEC, "warning"),
        ("on_empty: pass" + EMPTY_SPEC, "success"),
        ("on_empty: fail" + EMPTY_SPEC.replace("y > 1", "y > 1, on_empty: pass"), "success"),
        (EMPTY_SPEC.replace("y > 1", "y > 1, on_empty: warn"), "warning"),
        (EMPTY_SPEC.replace("y > 1", "y > 1, level: warning"), "warning"),
    ],
)
def test_on_empty_is_set_by_file_and_by_check(judge, text, expected):
    with tg.Repository("sqlite://") as repo:
        commit(repo, matching(1, 0))
        summary = judge(repo, text)
        assert summary.tables[0].checked.verification.status == expected
        assert summary.status() == (2 if expected == "error" else 0)
        (suite,) = ET.fromstring(summary.junit())
        assert (suite.get("skipped") == "1") == (expected != "error")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("on_empty: wran" + EMPTY_SPEC, "flights.yml:1: on_empty: Input should be 'pass', 'warn'"),
        (EMPTY_SPEC.replace("y > 1", "y > 1, on_empty: wran"), "unknown on_empty 'wran'; did you"),
    ],
)
def test_an_unknown_on_empty_is_an_error_with_its_line(load, text, message):
    with pytest.raises(tg.SuiteError, match=message):
        load(text)


def test_a_table_without_partitions_has_no_data(judge):
    """No check of it passes. As soon as partitions exist, they are judged."""
    with tg.Repository("sqlite://") as repo:
        commit(repo)
        for _ in range(2):
            summary = judge(repo)
            assert summary.status() == 2
            assert set(statuses(summary).values()) == {("no data", "error")}
            assert "Size(): at least 1: no data: the table has no partition" in summary.text()
            assert len(current_failures(repo, "d")) == 1
        assert judge(repo, allow_empty=True).status() == 0
        assert judge(repo).status() == 2
        commit(repo, matching(1, 5))
        assert judge(repo).status() == 0
        assert current_failures(repo, "d") == []
