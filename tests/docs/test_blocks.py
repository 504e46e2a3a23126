"""Every code block of README and docs runs, parses, or gives a reason why it does not."""

import contextlib
import io
import os
import re
import shlex
import tomllib

import pytest
import yaml

import tidegauge as tg
from tests.docs.pages import PAGES, blocks, blocks_run_by, matches, name_of
from tests.docs.prepared import drop_search
from tests.paths import ROOT
from tidegauge.repository.store.config import (
    DEFAULT_URL,
    dashboard_url,
    notify_settings,
    privacy_settings,
    settings,
)
from tidegauge.watching import read_watch_file

LANGUAGES = {"python", "text", "shell", "yaml", "toml", "sql"}


def run(page, folder, monkeypatch):
    """Run the Python blocks of a page from top to bottom, and compare their output."""
    monkeypatch.chdir(folder)
    namespace = {"__name__": "__page__"}
    for block in blocks(page):
        if block.language != "python" or block.why_not:
            continue
        printed = io.StringIO()
        place = f"{name_of(page)}:{block.line}"
        code = "\n" * (block.line - 1) + block.code
        with contextlib.redirect_stdout(printed):
            exec(block.setup, namespace)
            exec(compile(code, name_of(page), "exec"), namespace)
        if block.output is not None:
            got = printed.getvalue()
            assert matches(block.output, got), f"{place} prints\n{got}"
    for value in namespace.values():
        if isinstance(value, tg.Repository):
            value.close()


def needs(page):
    """Return what the blocks of a page need; nothing if none is run."""
    runs = [b for b in blocks(page) if b.language == "python" and not b.why_not]
    unmarked = [f"{name_of(page)}:{block.line}" for block in runs if block.needs is None]
    assert unmarked == [], "say what these blocks need: <!-- run: ... -->"
    return {block.needs for block in runs}


def pages_that_need(*whats):
    """Return the pages that need exactly these fixtures."""
    actual = [(page, needs(page) - {""}) for page in PAGES if needs(page)]
    wholes = [{"tables", "flights", "spark"} if "tables" in what else what for _, what in actual]
    pages = zip((page for page, _ in actual), wholes, strict=True)
    return [pytest.param(page, id=name_of(page)) for page, what in pages if what == set(whats)]


@pytest.mark.parametrize("page", pages_that_need())
def test_pages_run_without_anything(page, tmp_path, monkeypatch):
    run(page, tmp_path, monkeypatch)


@pytest.mark.spark
@pytest.mark.parametrize("page", pages_that_need("flights"))
def test_pages_run_on_the_demonstrations_repository(page, measured_copy, monkeypatch):
    run(page, measured_copy.database.file.parent, monkeypatch)


@pytest.mark.soak
@pytest.mark.parametrize("page", pages_that_need("spark"))
def test_pages_run_on_spark(page, spark, tmp_path, monkeypatch):
    run(page, tmp_path, monkeypatch)
    drop_search(spark)


@pytest.mark.soak
@pytest.mark.parametrize("page", pages_that_need("tables", "flights", "spark"))
def test_pages_run_on_the_demonstrations_tables(page, spark, measured_copy, monkeypatch):
    run(page, measured_copy.database.file.parent, monkeypatch)


def test_every_page_with_code_is_run_by_a_test():
    """Whatever combination of fixtures a page needs, one of the tests above runs it."""
    kinds = [(), ("flights",), ("spark",), ("tables", "flights", "spark")]
    taken = [param.values[0] for kind in kinds for param in pages_that_need(*kind)]
    assert sorted(taken) == [page for page in sorted(PAGES) if needs(page)]


def test_blocks_that_are_run_elsewhere_name_existing_tests():
    """A test that runs a block as printed gets it by its mark."""
    reasons = {b.why_not for page in PAGES for b in blocks(page)} - {""}
    for reason in reasons:
        for path in re.findall(r"tests/[\w/.]+", reason):
            assert (ROOT / path).exists(), reason
            if "as printed" in reason:
                assert reason == f"{path} runs it as printed"
                assert "blocks_run_by(__file__)" in (ROOT / path).read_text(), reason


def block_params(*languages):
    return [
        pytest.param(block, id=f"{name_of(page)}:{block.line}")
        for page in PAGES
        for block in blocks(page)
        if block.language in languages
    ]


def test_blocks_name_their_language():
    named = {(name_of(page), block.language) for page in PAGES for block in blocks(page)}
    assert {pair for pair in named if pair[1] not in LANGUAGES} == set()


def read_settings(file):
    """A ``tidegauge.toml`` contains a value that a setting accepts."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("TIDEGAUGE_DB", "TIDEGAUGE_NOTIFY", "TIDEGAUGE_DASHBOARD_URL"):
            patch.delenv(name, raising=False)
        patch.setenv("TIDEGAUGE_CONFIG", str(file))
        read = [notify_settings(), dashboard_url(), privacy_settings().columns]
        assert any(read) or settings(None, None)[0] != DEFAULT_URL


def read_entry_points(file):
    """The code loads each group of entry points."""
    (groups,) = tomllib.loads(file.read_text())["project"].values()
    rooms = ("analyzers", "tidegauge")
    code = "".join(p.read_text() for room in rooms for p in (ROOT / room).rglob("*.py"))
    for group in groups:
        assert f'"{group}"' in code


def read_monitors(file):
    monitors = yaml.safe_load(file.read_text())["monitors"]
    assert [tg.Monitor.from_dict(one).to_dict()["series"] for one in monitors] == [
        one["series"] for one in monitors
    ]


def read_cron_job(file):
    """Its containers run existing commands, and set our variables."""
    job = yaml.safe_load(file.read_text())["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    for container in job["containers"]:
        check_command(container["args"])
        assert {one["name"] for one in container["env"]} <= {"TIDEGAUGE_DB", "TIDEGAUGE_ARTIFACTS"}


FILES = {
    "suite": lambda file: tg.load_suite(file).suite.dataset,
    "rules": lambda file: tg.load_rules(file).suite.dataset,
    "consistency": lambda file: tg.consistency.load_configuration(file).dataset,
    "settings": read_settings,
    "entry points": read_entry_points,
    "monitors": read_monitors,
    "CronJob": read_cron_job,
    "watch": lambda file: read_watch_file(file).of("sales.archive").muted,
}
"""The reader for each kind of file. It raises an error, or fails, if a file is invalid."""


@pytest.mark.parametrize("block", block_params("yaml", "toml"))
def test_shown_files_are_valid(block, tmp_path):
    file = tmp_path / "page.yml"
    file.write_text(block.code)
    assert block.check in FILES, "say what the file is: <!-- check: ... -->"
    FILES[block.check](file)


def check_command(words):
    """Fail unless one of our commands accepts these arguments and options."""
    import typer
    from typer.main import get_command

    from tidegauge.cli.main import app

    assert words[0] == "tidegauge"
    command, arguments = get_command(app), words[1:]
    while hasattr(command, "commands"):
        own = {name for option in command.params for name in option.opts}
        while arguments[0] in own:  # each followed by a value
            arguments = arguments[2:]
        assert arguments[0] in command.commands, words
        command, arguments = command.commands[arguments[0]], arguments[1:]
    try:
        command.make_context(words[-1], list(arguments))
    except typer.TyperException as error:
        pytest.fail(f"{words}: {error.format_message()}")


@pytest.mark.parametrize("block", block_params("shell"))
def test_shell_lines_are_commands_that_exist(block):
    """Our programs with their arguments and options, extras, and the targets of make."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for line in lines(block.code):
        words = shlex.split(os.path.expandvars(line), comments=True)
        if words[:1] == ["tidegauge"]:
            check_command(words)
        elif words[:1] == ["make"]:
            assert {word for word in words[1:] if "=" not in word} <= set(targets), line
        for named in re.findall(r"tidegauge\[([\w,]+)\]", line):
            assert set(named.split(",")) <= set(extras), line


def sections(page):
    """Yield the code blocks of each section of a page, joined to one string."""
    for section in re.split(r"^## ", page.read_text(encoding="utf-8"), flags=re.MULTILINE):
        yield "\n".join(re.findall(r"^```(?!text)\w*\n(.*?)^```$", section, re.M | re.S))


@pytest.mark.parametrize("page", [pytest.param(page, id=name_of(page)) for page in PAGES])
def test_recipes_on_postgresql_install_its_driver_and_share_artifacts(page):
    for code in sections(page):
        if "postgresql+psycopg://" not in code:
            continue
        assert "artifacts" in code.casefold(), f"name a folder for artifacts:\n{code}"
        for extras in re.findall(r"pip install 'tidegauge\[([\w,]+)\]'", code):
            assert "postgres" in extras.split(","), f"the driver is missing:\n{code}"


def lines(code):
    """Return the lines of a shell block, with continued lines joined."""
    return code.replace("\\\n", " ").splitlines()


@pytest.mark.parametrize(
    "block", [param for param in block_params("sql") if not param.values[0].why_not]
)
def test_sql_queries_run_on_the_views(block, repo):
    from tidegauge.repository.testing import commit, day

    commit(repo, day(1), day(2))
    with repo.database.read() as connection:
        connection.exec_driver_sql(block.code)


def test_the_documented_roles_of_postgresql_can_do_their_work_and_no_more(postgres, tmp_path):
    """The cookbook creates a database and roles, and the guide grants their rights."""
    import psycopg

    from tidegauge.repository.testing import commit, day

    roles, grants = (block.code for block in blocks_run_by(__file__))
    names = re.findall("CREATE ROLE (\\w+)", roles)
    at = f"127.0.0.1:{postgres.port}/tidegauge"
    with psycopg.connect(
        f"{postgres.url}/postgres".replace("+psycopg", ""), autocommit=True
    ) as admin:
        try:
            for statement in re.sub("--.*", "", roles).split(";")[:-1]:
                admin.execute(statement)
            with tg.Repository(f"postgresql+psycopg://tidegauge@{at}", artifacts=tmp_path) as repo:
                commit(repo, day(1))  # creates the tables
            with psycopg.connect(f"postgresql://tidegauge@{at}") as owner:
                owner.execute(grants)
            with tg.Repository(f"postgresql+psycopg://tidegauge_reader@{at}") as repo:
                assert len(repo.metrics("d", name="Size")) == 1
                with pytest.raises(tg.ReadOnlyError, match="tidegauge_reader' may only read"):
                    repo.record("d", "rows", {"ds=2013-01-01": 1.0})
            with tg.Repository(f"postgresql+psycopg://tidegauge_analyst@{at}") as repo:
                repo.record("d", "rows", {"ds=2013-01-01": 1.0})
            with psycopg.connect(f"postgresql://tidegauge_bi@{at}") as bi:
                for view in re.findall(r"v_\w+", grants):
                    bi.execute(f"SELECT count(*) FROM {view}")
                assert bi.execute("SHOW timezone").fetchone() == ("UTC",)
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    bi.execute("SELECT * FROM v_run")
        finally:
            admin.execute("DROP DATABASE IF EXISTS tidegauge")
            for name in names:
                admin.execute(f"DROP ROLE IF EXISTS {name}")
