"""`tidegauge griffin`: output, exit status and stored results."""

import csv
import io
import json

import pytest

from tests.support.spark_actions import counted
from tests.tidegauge.griffin.jobs import DATA, NOW, job, read, rule
from tidegauge.cli.main import run_command

pytestmark = pytest.mark.spark
PEOPLE = read("people", "file", {
    "format": "csv", "paths": [str(DATA / "person_table.csv")],
    "schema": [{"name": "name", "type": "string"}, {"name": "age", "type": "int"}],
})  # fmt: skip
RULES = [
    rule("name", "uniqueness", "names"),
    rule("select 'Joey' as who, max(age) as oldest from people", name="ages"),
]


@pytest.fixture
def command(tmp_path, repo, capsys):
    """Write both files, run a command, and return its status, output and error output."""

    def run(rules=RULES, *options, verb="run", env=None, db=True):
        files = tmp_path / "env.json", tmp_path / "dq.json"
        files[0].write_text(json.dumps(env or {"spark": {"log.level": "WARN"}}))
        files[1].write_text(rules if isinstance(rules, str) else json.dumps(job([PEOPLE], rules, "people")))  # fmt: skip
        named = list(map(str, files if verb == "run" else files[1:]))
        kept = ["--db", str(repo.database.url)] if verb == "run" and db else []
        status = run_command(["griffin", verb, *named, *kept, *options])
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return run


def test_run_prints_and_stores_results(spark, command, repo):
    status, out, err = command()
    assert (status, err) == (0, "")
    assert "partition" in out.splitlines()[0]
    (line,) = [line for line in out.splitlines() if "oldest" in line]
    assert line.split() == [f"__tmst={NOW}", "ages", "people", "oldest", "32"]
    assert list(repo.metrics("people", name="Griffin.names.unique")["value"]) == [2]

    status, out, _ = command(RULES, "--format", "json", "--timestamp", str(NOW + 1), "--dataset", "other")  # fmt: skip
    actual = {(row["rule"], row["column"]): row["value"] for row in json.loads(out)}
    assert status == 0
    assert actual[("names", "total")] == 2
    assert list(repo.metrics("other", name="Griffin.names.total")["partition"]) == [f"__tmst={NOW + 1}"]  # fmt: skip

    status, out, _ = command(RULES, "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert status == 0
    assert {row["name"] for row in rows} >= {"Griffin.names.unique", "Griffin.ages.oldest"}


def test_a_failing_rule_exits_with_1_and_the_other_results_are_printed(spark, command, repo):
    bad = rule("select raise_error('broken') as x from people", name="bad")
    status, out, err = command([*RULES, bad])
    assert status == 1
    assert "oldest" in out
    assert "error: 1 failed" in err
    assert "bad: " in err
    assert "broken" in err
    assert "Traceback" not in out + err
    assert list(repo.runs("people")["status"]) == ["failed"]


WRONG = {
    "dsl": ([rule("nme", "uniqueness", "r")], (), "rule 'r'.*did you mean 'name'"),
    "json": ("{", (), "dq.json"),
    "key": (json.dumps({**job([PEOPLE], RULES), "datasources": []}), (), "did you mean 'data.sources'"),
    "option": (RULES, ("--no-such-option",), "no-such-option"),
    "number": (RULES, ("--timestamp", "soon"), "timestamp"),
    "format": (RULES, ("--format", "xml"), "xml"),
    "partition": (RULES, ("--partition-by", "day"), "day"),
}  # fmt: skip


@pytest.mark.parametrize(("rules", "options", "message"), WRONG.values(), ids=WRONG)
def test_an_invalid_job_exits_with_1(spark, command, repo, rules, options, message):
    import re

    status, out, err = command(rules, *options)
    assert status == 1
    assert re.search(message, err, re.DOTALL)
    assert "Traceback" not in out + err
    assert repo.datasets() == []


def test_missing_files_and_arguments_exit_with_1(spark, command, tmp_path, capsys):
    assert (
        run_command(["griffin", "run", str(tmp_path / "no.json"), str(tmp_path / "no.json")]) == 1
    )
    assert "no.json" in capsys.readouterr().err
    assert run_command(["griffin", "run"]) == 1
    assert "ENV.json" in capsys.readouterr().err


def test_check_prints_sql_and_reads_no_row(spark, command):
    fails = rule("select raise_error('no row is read') as x from people", name="fails")
    with counted(spark) as actual:
        status, out, err = command([*RULES, fails], verb="check")
    assert (status, err) == (0, "")
    assert [e for e in actual if e["successJobIds"]] == []
    assert out.startswith("job people: 3 rules can run\n")
    assert "-- names (uniqueness)" in out
    assert "GROUP BY" in out
    assert "measured in one pass by GriffinUniqueness('names', 'name'" in out
    assert "select raise_error('no row is read') as x from people;" in out
    status, out, err = command([rule("nme", "uniqueness", "r")], verb="check")
    assert (status, out) == (1, "")
    assert "did you mean 'name'" in err
    assert "^^^" in err


def test_check_validates_the_sinks_of_a_job(spark, command, tmp_path):
    env = {"sinks": [{"name": "out", "type": "console"}]}
    options = {"verb": "check", "env": env}
    where = ("--env", str(tmp_path / "env.json"))
    for sink, expected in (("OUT", 0), ("oot", 1)):
        text = json.dumps(job([PEOPLE], RULES, sinks=[sink]))
        status, _, err = command(text, *where, **options)
        assert status == expected
    assert "no sink 'oot'; did you mean 'out'?" in err


def test_json_is_the_only_output_even_with_a_console_sink(spark, command):
    env = {"sinks": [{"name": "out", "type": "console"}]}
    duplicates = rule("age", "uniqueness", "ages", out=("metric", "record"), details={"duplication.array": "d"})  # fmt: skip
    status, out, err = command([duplicates], "--format", "json", env=env)
    assert status == 0
    assert {row["rule"] for row in json.loads(out)} == {"ages"}
    assert '"value": {' in err
    assert "records ages:" in err
