"""Our names in prose, tables and code of all pages exist."""

import re

import pytest

import tidegauge as tg
from tests.docs.pages import PAGES, name_of

DATED = {"CHANGELOG.md"}
"""Pages about other versions."""
OBJECTS = {"repo": tg.Repository, "dqm": tg.DQM}
"""The objects that these variables hold on every page."""
CONSTRAINT = re.compile(r"\.((?:has|is|are|satisfies|not_below|compared)(?:_[a-z_]+)?)\(")


def missing_names(text):
    """Return the names in a string that do not exist."""
    actual = set()
    for path in re.findall(r"\btg((?:\.[A-Za-z]\w*)+)", text):
        of = tg
        for name in path.strip(".").split("."):
            if name not in members(of):
                actual.add(f"tg{path}")
                break
            of = getattr(of, name, None)
            if not isinstance(of, type) and not hasattr(of, "__all__"):
                break  # the type of a value is unknown
    for variable, cls in OBJECTS.items():
        for name in re.findall(rf"(?<![\w.]){variable}\.([a-z]\w*)", text):
            if name not in members(cls):
                actual.add(f"{variable}.{name}")
    for name in CONSTRAINT.findall(text):
        if name not in members(tg.Check):
            actual.add(f"Check.{name}")
    return actual


def members(of):
    fields = getattr(of, "__dataclass_fields__", {})
    return {*dir(of), *fields, *getattr(of, "__all__", ())}


@pytest.mark.parametrize("page", [p for p in PAGES if p.name not in DATED], ids=name_of)
def test_names_on_pages_exist(page):
    assert missing_names(page.read_text(encoding="utf-8")) == set()


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("write `tg.Completness(x)` for", "tg.Completness"),
        ("| `compare` | `tg.consistency.compare_all(a, b)` |", "tg.consistency.compare_all"),
        ("tg.Monitor.from_text('x')", "tg.Monitor.from_text"),
        ("`repo.merged('orders')`", "repo.merged"),
        ("check.is_complete('a').has_mode('b')", "Check.has_mode"),
        ("tg.Check('a')\n    .has_modus('b')", "Check.has_modus"),
        ("PyDeequ's `.isComplete('a')` is `.is_complete('a')`", None),
    ],
)
def test_missing_names_are_reported(text, wrong):
    assert missing_names(text) == ({wrong} if wrong else set())
