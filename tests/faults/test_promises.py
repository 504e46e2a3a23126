"""What the documents promise has the test that they name."""

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
