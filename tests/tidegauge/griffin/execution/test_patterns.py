"""Constant regular expressions in the SQL of rules."""

import pytest

from tidegauge.griffin.execution.user_sql import _patterns_in_sql

PATTERNS = [
    ("a rlike 'x'", ["'x'"]),
    ("a NOT REGEXP r'x' and b", ["r'x'"]),
    ("regexp_like(a, 'x')", ["'x'"]),
    ("regexp_replace(f(a, ','), 'x', 'y')", ["'x'"]),
    ("split(a[0, 1], 'x', -1)", ["'x'"]),
    ("split(a, b || 'x')", []),
    ("split(a, 'x' 'y')", []),
    ("split(a)", []),
    ("split(a, 'x'", []),
    ("a rlike", []),
    ("a rlike b", []),
    ("a rlike 'x' 'y'", []),
    ("a rlike 'x' || b", []),
    ("a like 'x'", []),
    ("replace(a, 'x', 'y')", []),
    ("a = 'rlike ''x'' ' -- rlike 'y'", []),
    ('a rlike "x"', ['"x"']),
    ("a rlike /* 'y' */ 'x'", ["'x'"]),
    ("regexp(a, 'x') and rlike(b, 'y')", ["'x'", "'y'"]),
    ("case when regexp_count(a, 'x') > 1 then a end", ["'x'"]),
    ("(select max(b) from u where b rlike 'x')", ["'x'"]),
    ("", []),
]


@pytest.mark.parametrize(("text", "literals"), PATTERNS)
def test_constant_patterns_of_a_query_are_found(text, literals):
    query = f"select a, {text} from t"
    patterns = list(_patterns_in_sql(query))
    assert [pattern.sql for pattern in patterns] == literals
    assert [query[pattern.begin : pattern.end] for pattern in patterns] == literals


def test_invalid_queries_have_no_patterns():
    assert (
        list(_patterns_in_sql("a rlike 'x'")) == list(_patterns_in_sql("select a rlike 'x")) == []
    )
