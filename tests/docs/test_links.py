"""Every link of README and docs leads to an existing target, and the reference contains every public name."""

import ast
import re

import pytest

import tidegauge as tg
from tests.docs.pages import PAGES, anchors, links, name_of, prose
from tests.paths import ROOT
from tidegauge.files.schema import FILE_KINDS

NOTEBOOKS = {f"notebooks/{path.stem}.md" for path in (ROOT / "notebooks").glob("*.ipynb")}
GENERATED = {"reference/cli.md", "architecture.md", "changelog.md", "security.md"} | NOTEBOOKS
"""Pages that `docs/hooks.py` generates."""
SCHEMAS = {f"schemas/{kind}.schema.json" for kind in FILE_KINDS}
"""Other files that it generates."""


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_link_targets_exist(page):
    docs = ROOT / "docs"
    for link in links(page):
        target, _, anchor = link.partition("#")
        if re.match(r"\w+:", target):
            continue
        path = (page.parent / target).resolve() if target else page
        if path.is_relative_to(docs) and path.relative_to(docs).as_posix() in GENERATED | SCHEMAS:
            continue
        assert path.exists(), link
        if anchor:
            assert anchor in anchors(path), link


def test_the_site_shows_every_page():
    nav = (ROOT / "mkdocs.yml").read_text().partition("\nnav:")[2]
    shown = re.findall(r": (\S+\.md)$", nav, re.MULTILINE)
    there = {page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")}
    assert sorted(shown) == sorted(there | GENERATED)


def test_search_works_from_disk_without_another_host():
    """The plugin loads its shim from another host unless a polyfill is named ``iframe-worker``."""
    content = (ROOT / "mkdocs.yml").read_text()
    assert "\n  - offline" in content
    (shim,) = re.findall(r"^  polyfills: \[(\S*iframe-worker\S*)\]", content, re.MULTILINE)
    assert "IFrameWorker" in (ROOT / "docs" / shim).read_text()


STABLE_MODULES = (
    "integrations.airflow",
    "integrations.dagster",
    "repository.testing.contract",
    "repository.testing",
)
"""Modules with stable names that are not in `tidegauge`; see docs/stability.md."""


def defined(module):
    """Yield the public functions and classes of a module, whose imports may be missing here."""
    path = ROOT / "tidegauge" / module.replace(".", "/")
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    tree = ast.parse(path.read_text())
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            yield f"{module}.{node.name}"


def test_every_public_name_is_in_the_reference_once():
    named = []
    for page in (ROOT / "docs" / "reference" / "api").glob("*.md"):
        named += re.findall(r"^::: tidegauge\.(\S+)$", page.read_text(), re.MULTILINE)
    assert len(named) == len(set(named))
    modules = {"consistency", "griffin"}
    public = {name for name in tg.__all__ if name not in modules and not name.startswith("_")}
    for module in modules:
        public |= {f"{module}.{name}" for name in getattr(tg, module).__all__}
    for module in STABLE_MODULES:
        public |= set(defined(module))
    assert set(named) == public


def test_headings_are_numbered_by_their_level():
    """No level is left out, and each page has one title."""
    for page in PAGES:
        levels = [len(marks) for marks in re.findall(r"^(#+) ", prose(page), re.MULTILINE)]
        assert levels[0] == 1, name_of(page)
        assert levels.count(1) == 1, name_of(page)
        for before, after in zip(levels, levels[1:], strict=False):
            assert after <= before + 1, name_of(page)


def test_the_glossary_explains_statuses_severities_and_labels():
    """These are the words for incidents that users see."""
    from tidegauge.repository.store.labels import LABEL_STATUSES, TRAINING_LABELS

    page = (ROOT / "docs" / "glossary.md").read_text()
    terms = re.findall(r"^\| \*\*(.+?)\*\* \| (.+?) \|$", page, re.MULTILINE)
    names = [name for name, _ in terms]
    assert names == sorted(set(names), key=str.lower)
    said = {name.lower() for name in names} | {word for _, text in terms for word in code(text)}
    assert {"group", "snoozed", *LABEL_STATUSES, *TRAINING_LABELS} <= said


def code(text):
    return re.findall(r"`(\w+)`", text)
