"""The search for dead code, on a product of three modules; `make lint` runs it on Tidegauge."""

import pytest

from tests import dead_code

PRODUCT = {
    "tidegauge/__init__.pyi": "from .shown import Shown as Shown",
    "tidegauge/shown.py": """
repeats = 3
from typing import TypedDict
from tidegauge.inner import helper
from tidegauge import inner

class Base:
    def inherited(self): ...

class Shown(Base):
    def method(self):
        return repeats, helper(), inner.other(), Row(key=1), inner.Used().used, "tidegauge.inner:Job"

    def _private(self): ...

class Row(TypedDict):
    key: int
""",
    "tidegauge/inner.py": """
LIMIT, TABLE = 3, {}
TABLE["x"] = 1

def helper():
    return LIMIT

def other(): ...
def repeats(): return repeats()

@register("x")
def found_by_name(): ...

@app.command("y")
def command(): ...

class Job: ...

class Used:
    used: int
    field: int
    def method_of_used(self):
        \"\"\"
        >>> Used().method_of_used()
        \"\"\"
""",
    "docs/reference/api/page.md": "::: tidegauge.Shown\n",
}


@pytest.fixture
def unused(tmp_path):
    for name, text in PRODUCT.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return dead_code.dead(tmp_path, ["tidegauge"])


def test_unused_code_is_reported(unused):
    """`repeats` shares its name with a constant of another module, and calls only itself."""
    assert set(unused) == {
        "_private",
        "field",
        "found_by_name",
        "method_of_used",
        "repeats",
    }
    assert unused["repeats"] == ["tidegauge/inner.py:9"]


def test_a_needless_allowance_is_reported(unused):
    names = ["_private", "field", "found_by_name", "method_of_used"]
    assert dead_code.complaints(unused, [*names, "helper"]) == [
        "tidegauge/inner.py:9: nothing in the product uses 'repeats': delete it",
        "'helper' is used, or gone: delete it from ALLOWED",
    ]
