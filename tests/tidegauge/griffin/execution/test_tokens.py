"""Tokens of SQL, and the constants among them that are regular expressions."""

import pytest
from tidegauge.griffin.execution.user_sql import _in_sql, tokens

TEXTS = [
    ("select a, b from t", ["select", "a", ",", "b", "from", "t"]),
    ("a--b\nc/* d */e", ["a", "c", "e"]),
    (r"'it\'s' 'it''s' `c``d`", [r"'it\'s'", "'it''s'", "`c``d`"]),
    ('"a""b" "c\\"d"', ['"a""b"', '"c\\"d"']),
    (r"r'\' R'x' xr'y'", [r"r'\'", "R'x'", "xr", "'y'"]),
    ("a||'b'", ["a", "||", "'b'"]),
    ("a 'b -- c", ["a", "'b -- c"]),
    ("a /* b 'c", ["a"]),
    ("'\\", ["'\\"]),
    ("'\\" * 30_000, ["'\\" * 30_000]),
    ("/* " * 30_000, []),
]


@pytest.mark.parametrize(("text", "found"), TEXTS)
def test_tokens_of_a_text(text, found):
    read = tokens(text)
    assert [token.text for token in read] == found
    assert all(text[token.begin :].startswith(token.text) for token in read)


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
    ("", []),
]


@pytest.mark.parametrize(("text", "found"), PATTERNS)
def test_constant_patterns_of_a_query(text, found):
    assert [one.sql for one in _in_sql(text)] == found
