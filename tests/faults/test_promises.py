"""Each promise of the documents names an existing test."""

import re

import pytest

from tests.paths import ROOT

DOCUMENTS = ("docs/reliability.md", "SECURITY.md")


@pytest.mark.parametrize("document", DOCUMENTS)
def test_each_promise_names_a_test_that_exists(document):
    text = (ROOT / document).read_text()
    named = re.findall(r"`(tests/[\w./]+)(?:::(\w+))?`", text)
    assert len(named) > 5
    for path, test in named:
        assert (ROOT / path).exists(), path
        assert not test or f"def {test}(" in (ROOT / path).read_text(), test
    assert "`::" not in text


def test_each_promise_of_reliability_names_its_tests():
    """A row without a test, or with a whole file, would not notice that a promise is broken."""
    text = (ROOT / "docs/reliability.md").read_text()
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    promises = [row for row in rows if row[-1] != "test"]
    assert len(promises) > 40
    assert [
        row for row in promises if not re.fullmatch(r"(`tests/[\w./]+::\w+`(, )?)+", row[-1])
    ] == []
