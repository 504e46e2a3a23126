"""``%%griffin`` in an IPython shell."""

import pytest

from tests.docs.pages import blocks_run_by
from tests.tidegauge.griffin.jobs import NOW

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def shell(spark):
    from IPython.core.interactiveshell import InteractiveShell

    ip = InteractiveShell.instance()
    ip.run_line_magic("load_ext", "tidegauge.griffin")
    ip.user_ns["users"] = spark.createDataFrame(
        [(1, "a"), (2, "b"), (3, None)], "id int, name string"
    )
    ip.user_ns["truth"] = spark.createDataFrame([(1, "a"), (3, None)], "id int, name string")
    ip.user_ns["spark"] = spark
    yield ip
    InteractiveShell.clear_instance()


def cell(shell, line, text):
    return shell.run_cell(f"%%griffin {line}\n{text}\n", store_history=False)


def test_a_rule_in_a_cell_is_measured(shell, repo, capsys):
    shell.user_ns["repo"] = repo
    line = "accuracy --source users --target truth --name 'same users' --repository repo --dataset checks"
    found = cell(shell, line, "users.id = truth.id\nand users.name = truth.name")
    assert found.success
    result = found.result
    (report,) = result.rule("same users").reports.values()
    assert report.metric == {"total": 3, "miss": 1, "matched": 2, "matchedFraction": pytest.approx(2 / 3)}  # fmt: skip
    assert [row.id for row in result.records("same users").collect()] == [2]
    html = result._repr_html_()
    assert "same users" in html
    assert "<table" in html
    assert "Records of" in html
    assert result.displayed_records == {"same users": [{"id": 2, "name": "b"}]}
    assert list(repo.metrics("checks", name="Griffin.same users.miss")["value"]) == [1]
    capsys.readouterr()


def test_the_documented_cells_run(shell, repo, capsys):
    (block,) = blocks_run_by(__file__)
    load, rule = block.code.split("\n\n")
    shell.user_ns["repo"] = repo
    assert shell.run_cell(load).success
    assert shell.run_cell(rule).success
    (dataset,) = repo.datasets()
    (miss,) = repo.metrics(dataset, name="Griffin.rule.miss")["value"]
    assert miss == 1
    capsys.readouterr()


def test_options_set_details_types_and_tables(shell, spark):
    found = cell(
        shell, "accuracy --source users --target truth --detail null.match=sql",
        "users.id = truth.id and users.name = truth.name",
    )  # fmt: skip
    assert next(iter(found.result.rule("rule").reports.values())).metric["miss"] == 2
    found = cell(shell, "--source users", "count(*) as n where id > 1")
    assert next(iter(found.result.rule("rule").reports.values())).metric == {"n": 2}
    found = cell(shell, "Duplicate --source users", "name")
    assert next(iter(found.result.rule("rule").reports.values())).metric["unique"] == 3
    spark.sql("CREATE TABLE griffin_magic AS SELECT 1 AS id")
    try:
        found = cell(shell, "completeness --source griffin_magic", "id")
        metric = next(iter(found.result.rule("rule").reports.values())).metric
        assert metric == {"total": 1, "incomplete": 0, "complete": 1}
    finally:
        spark.sql("DROP TABLE griffin_magic")
    assert NOW not in found.result.rule("rule").reports


def test_frames_have_the_names_of_a_job_and_details_can_be_json(shell):
    line = "accuracy --source source=users --target target=truth --records 0"
    found = cell(shell, line, "source.id = target.id and source.name = target.name").result
    assert next(iter(found.rule("rule").reports.values())).metric["miss"] == 1
    assert found.displayed_records == {}
    conf = """'error.confs=[{"column.name": "name", "type": "enumeration", "values": ["a"]}]'"""
    found = cell(shell, f"completeness --source users --detail {conf}", "name").result
    metric = next(iter(found.rule("rule").reports.values())).metric
    assert metric == {"total": 3, "incomplete": 1, "complete": 2}
    line = "timeliness --source times --detail percentile.values=[0.5,0.99]"
    shell.user_ns["times"] = shell.user_ns["spark"].createDataFrame([(0, 7)], "a long, b long")
    metric = next(iter(cell(shell, line, "a, b").result.rule("rule").reports.values())).metric
    assert (metric["percentile_50"], metric["percentile_99"]) == (7, 7)


def test_sql_rules_and_help_are_available(shell, capsys):
    line = "spark-sql --source u=users --target truth --name sql"
    found = cell(shell, line, "select count(*) as n from u join truth using (id)").result
    assert next(iter(found.rule("sql").reports.values())).metric == {"n": 2}
    capsys.readouterr()
    for written in ("%griffin --help", "%%griffin --help\n \n"):
        found = shell.run_cell(written, store_history=False)
        assert found.success, written
        assert found.result is None
        output = capsys.readouterr().out
        assert all(word in output for word in ("--detail", "[NAME=]FRAME", "spark-sql", "accuracy"))
    assert not shell.run_cell("%%griffin --help", store_history=False).success
    assert "Did you mean the line magic %griffin" in capsys.readouterr().err


WRONG = {
    "no source": ("accuracy", "a.x = b.x", "SuiteError", "name a source"),
    "unknown frame": ("--source user", "count(*)", "SuiteError", "did you mean 'users'"),
    "odd name": ("--source 'a b`c'", "count(*)", "SuiteError", "neither a DataFrame nor a table"),
    "unknown option": ("--sauce users", "count(*)", "SuiteError", "--sauce"),
    "open quote": ("--source 'users", "count(*)", "SuiteError", "cannot be read"),
    "detail": ("--source users --detail x", "count(*)", "SuiteError", "KEY=VALUE"),
    "repository": ("--source users --repository nothing", "count(*)", "SuiteError", "variable 'nothing' does not exist"),
    "not a repository": ("--source users --repository users", "count(*)", "SuiteError", "is not a repository"),
    "kind": ("accurcy --source users", "users.id = 1", "SuiteError", "did you mean 'accuracy'"),
    "syntax": ("uniqueness --source users", "id,,name", "DslError", "\\^"),
    "column": ("uniqueness --source users", "nam", "DslError", "'name'"),
    "no rule": ("--source users", " ", "SuiteError", "write %%griffin, and the rule in the lines below"),
    "data": ("--source users", "max(cast(users.name as int)) as n", "GriffinError|DslError", "rule|CAST"),
}  # fmt: skip


@pytest.mark.parametrize(("line", "text", "kind", "message"), WRONG.values(), ids=WRONG)
def test_mistakes_are_shown(shell, capsys, line, text, kind, message):
    import re

    found = cell(shell, line, text)
    assert not found.success
    error = found.error_in_exec
    assert re.fullmatch(kind, type(error).__name__)
    assert re.search(message, str(error))
    printed = capsys.readouterr().out
    assert "Traceback" not in printed
    assert len(printed) < 1500


def test_the_shell_still_works_after_an_error(shell, capsys):
    assert not cell(shell, "uniqueness --source users", "nam").success
    assert cell(shell, "uniqueness --source users", "name").success
    capsys.readouterr()
