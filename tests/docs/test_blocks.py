"""Every code block of README and docs runs, parses, or says why it does not."""

import contextlib
import doctest
import io
import os
import re
import shlex
import tomllib

import pytest
import yaml

import tidegauge as tg
from tests.docs.pages import PAGES, blocks, name_of
from tests.paths import ROOT

LANGUAGES = {"python", "text", "shell", "yaml", "toml", "sql"}
MATCHES = doctest.OutputChecker().check_output
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def run(page, folder, monkeypatch):
    """Run the Python blocks of a page from top to bottom, and compare what they print."""
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
            assert MATCHES(block.output, got, OPTIONS), f"{place} prints\n{got}"
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
    """Return the pages that need all of these, and nothing else beside them."""
    found = [(page, needs(page) - {""}) for page in PAGES if needs(page)]
    wholes = [{"tables", "flights", "spark"} if "tables" in what else what for _, what in found]
    pages = zip((page for page, _ in found), wholes, strict=True)
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


@pytest.mark.soak
@pytest.mark.parametrize("page", pages_that_need("tables", "flights", "spark"))
def test_pages_run_on_the_demonstrations_tables(page, spark, measured_copy, monkeypatch):
    run(page, measured_copy.database.file.parent, monkeypatch)


def test_every_page_with_code_is_run():
    """Whatever combination of needs a page has, one of the tests above runs it."""
    kinds = [(), ("flights",), ("spark",), ("tables", "flights", "spark")]
    taken = [param.values[0] for kind in kinds for param in pages_that_need(*kind)]
    assert sorted(taken) == [page for page in sorted(PAGES) if needs(page)]


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


@pytest.mark.parametrize("block", block_params("yaml", "toml"))
def test_files_are_read(block, tmp_path):
    file = tmp_path / "page.yml"
    file.write_text(block.code)
    if block.language == "toml":
        tomllib.loads(block.code)
    elif block.check == "suite":
        assert tg.load_suite(file).suite.dataset
    elif block.check == "rules":
        assert tg.load_rules(file).suite.dataset
    elif block.check == "consistency":
        assert tg.consistency.load_configuration(file).dataset
    else:
        assert yaml.safe_load(block.code)


@pytest.mark.parametrize("block", block_params("shell"))
def test_shell_lines_are_commands_that_exist(block):
    """Programs of ours with their arguments and options, extras, make's targets."""
    import typer
    from tidegauge.cli.main import app
    from typer.main import get_command

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for line in block.code.replace("\\\n", " ").splitlines():
        words = shlex.split(os.path.expandvars(line), comments=True)
        if words[:1] == ["tidegauge"]:
            command, arguments = get_command(app), words[1:]
            while hasattr(command, "commands"):
                own = {name for option in command.params for name in option.opts}
                while arguments[0] in own:  # each with a value
                    arguments = arguments[2:]
                assert arguments[0] in command.commands, line
                command, arguments = command.commands[arguments[0]], arguments[1:]
            try:
                command.make_context(words[-1], list(arguments))
            except typer.TyperException as error:
                pytest.fail(f"{line}: {error.format_message()}")
        elif words[:1] == ["make"]:
            assert {word for word in words[1:] if "=" not in word} <= set(targets), line
        for named in re.findall(r"tidegauge\[([\w,]+)\]", line):
            assert set(named.split(",")) <= set(extras), line


@pytest.mark.parametrize(
    "block", [param for param in block_params("sql") if not param.values[0].why_not]
)
def test_queries_run_on_the_views(block, repo):
    from tidegauge.repository.testing.samples import commit, day

    commit(repo, day(1), day(2))
    with repo.database.read() as connection:
        connection.exec_driver_sql(block.code)
