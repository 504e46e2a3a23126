"""The script of the dashboard: its tests in node, its types, and its build."""

import re
import subprocess

import hatch_build
import pytest
from hatch_build import WIDGETS, check_types, find_node

from tidegauge.analyzers.core.formatting import SEVERITY_MARKS
from tidegauge.display.html import STATUS_MARKS
from tidegauge.repository.store.rows import Severity


@pytest.fixture(scope="module")
def node():
    try:
        found, _ = find_node()
    except OSError as error:
        pytest.skip(f"no node: {error}")
    if not (WIDGETS / "node_modules").exists():
        pytest.skip("the packages of the script are not installed: make widgets")
    return found


def test_the_tests_of_the_script_pass_in_node(node, tmp_path):
    subprocess.run([*node, "build.mjs", str(tmp_path)], cwd=WIDGETS, check=True)
    done = subprocess.run(
        [*node, "--test", *map(str, sorted(tmp_path.rglob("*.mjs")))],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stdout[-5000:]
    count = len(list((WIDGETS / "tests").rglob("*.test.ts")))
    assert count > 3
    assert done.stdout.count("# Subtest:") > count


@pytest.mark.soak  # also part of `make types`
def test_the_types_of_the_script_are_correct(node):
    assert check_types() is None


def test_the_built_script_contains_the_licence_and_requests_no_other_host(node):
    script = (WIDGETS / "static" / "dashboard.js").read_text()
    assert "Leon Sorokin" in script[:1500]
    assert "Permission is hereby granted" in script[:1500]
    style = (WIDGETS / "static" / "dashboard.css").read_text()
    for text in (script, style):
        for asking in ("fetch(", "XMLHttpRequest", "import(", "innerHTML", "url(http", "@import"):
            assert asking not in text


SIZED = re.compile(
    r"(?:padding|margin|gap|font-size|border-radius)[\w-]*:[^;}]*?(?<![\w.(-])(?:[2-9]|\d\d+)px"
)
COLOUR = re.compile(r"#[0-9a-f]{3,8}\b|\b(?:rgb|hsl)a?\(|light-dark\(", re.IGNORECASE)


def test_styles_take_colours_and_sizes_from_the_tokens():
    tokens, *styles = sorted(
        (WIDGETS / "src").rglob("*.css"), key=lambda path: path.name != "tokens.css"
    )
    assert tokens.name == "tokens.css"
    defined = set(re.findall(r"(--tg-[\w-]+):", tokens.read_text()))
    found = {}
    for path in styles:
        text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.DOTALL)
        for pattern in (SIZED, COLOUR):
            if literals := pattern.findall(text):
                found[path.name] = literals
        local = set(re.findall(r"(--tg-[\w-]+):", text)) | {"--tg-line"}
        unknown = set(re.findall(r"var\((--tg-[\w-]+)\)", text)) - defined - local
        assert not unknown, path.name
    assert found == {}


def test_severities_have_the_symbols_of_notebooks_reports_and_messages():
    source = (WIDGETS / "src" / "ui" / "severity.ts").read_text()
    symbols = dict(re.findall(r'(\w+): "(\S)"', source))
    assert symbols == SEVERITY_MARKS
    assert {word: STATUS_MARKS[word][0] for word in symbols} == SEVERITY_MARKS
    assert set(symbols) == set(Severity)


def test_the_reason_of_a_failed_build_is_kept_until_a_build_succeeds(tmp_path, monkeypatch):
    for name, file in {
        "SCRIPT": "dashboard.js",
        "STYLE": "dashboard.css",
        "MISSING": "missing.txt",
    }.items():
        monkeypatch.setattr(hatch_build, name, tmp_path / file)
    monkeypatch.setattr(hatch_build, "STATIC", tmp_path)

    def nowhere():
        raise OSError("there is no npm")

    monkeypatch.setattr(hatch_build, "find_node", nowhere)
    problem = "its script could not be built: there is no npm"
    assert hatch_build.build() == problem
    assert (tmp_path / "missing.txt").read_text() == problem + "\n"

    def bundle(node, npm):
        (tmp_path / "dashboard.js").write_text("")
        (tmp_path / "dashboard.css").write_text("")

    monkeypatch.setattr(hatch_build, "find_node", lambda: (["node"], ["npm"]))
    monkeypatch.setattr(hatch_build, "_bundle", bundle)
    assert hatch_build.out_of_date()
    assert hatch_build.build() is None
    assert not (tmp_path / "missing.txt").exists()
    assert not hatch_build.out_of_date()


def test_other_outputs_of_a_notebook_keep_their_own_style():
    from tidegauge.display.html import CARD_CSS

    root = re.compile(r"\.tidegauge(?![\w-])")  # only the class of the dashboard
    assert root.search((WIDGETS / "src" / "ui" / "base.css").read_text())
    assert not root.search(CARD_CSS)
