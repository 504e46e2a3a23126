"""Errors in Java's regular expressions that are detected without Java."""

import pytest

import tidegauge as tg
from tidegauge.analyzers.measures.texts import pattern_problem

GOOD = [
    "", "a", r"\(", r"\[\]", "[]]", "[^]]", "[[a-c]&&[^b]]", r"[\d]", r"\Q(*[", r"\\Qa", "(?:a|(b))", "(?x) a # (",
    r"\p{L}++\z", "a{2}", "]", "}",
]  # fmt: skip
BAD = {
    "[": "'[' is not closed",
    "[[a]": "'[' is not closed",
    "[]": "'[' is not closed",
    r"(\)": "'(' is not closed",
    "a))": "')' closes nothing",
    "\\": "nothing follows the last backslash",
    "*.csv": "nothing precedes the first '*'",
}


@pytest.mark.parametrize("pattern", GOOD)
def test_patterns_that_java_compiles_are_accepted(pattern):
    assert pattern_problem(pattern) == ""


@pytest.mark.parametrize("pattern", BAD)
def test_invalid_patterns_are_refused_where_they_are_written(pattern):
    problem = f"invalid regular expression {pattern!r}: {BAD[pattern]}"
    assert pattern_problem(pattern) == BAD[pattern]
    for whole in (False, True):
        with pytest.raises(tg.RuleError) as caught:
            tg.FormatRule("s", pattern, whole=whole)
        assert str(caught.value).endswith(problem)
        with pytest.raises(tg.SuiteError) as caught:
            tg.Check("c").has_pattern("s", pattern, whole=whole)
        assert str(caught.value) == f"has_pattern: {problem}"
