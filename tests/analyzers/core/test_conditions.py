"""Conditions on one column, parsed from Spark SQL."""

import pytest
from tidegauge.analyzers.core.conditions import (
    LikeCondition,
    OneOf,
    Present,
    Within,
    parse_condition,
)


@pytest.mark.parametrize(
    ("condition", "form"),
    [
        ("x <= 15", Within("x", upper=15)),
        ("15 > x", Within("x", upper=15, has_upper=False)),
        ("(x > -1.5)", Within("x", lower=-1.5, has_lower=False)),
        ("x BETWEEN 1 AND 2", Within("x", lower=1, upper=2)),
        ("(\n`a b` >= 1D AND `a b` < 2\n)", Within("a b", lower=1.0, upper=2, has_upper=False)),
        ("coalesce(`x`, 0) >= 0", Within("x", nulls=True, lower=0)),
        ("coalesce(x, 0) > 0", Within("x", nulls=False, lower=0, has_lower=False)),
        ("x IS NULL OR (x >= 1 AND x <= 2)", Within("x", nulls=True, lower=1, upper=2)),
        ("s in ('a', 'it\\'s', '\\\\d')", OneOf("s", values=("a", "it's", "\\d"))),
        ("s = true", OneOf("s", values=(True,))),
        ("s IS NOT NULL", Present("s")),
        ("s RLIKE '^[a-z]$'", LikeCondition("s", pattern="^[a-z]$")),
    ],
)
def test_what_a_condition_says(condition, form):
    assert parse_condition(condition) == form


@pytest.mark.parametrize(
    "condition",
    [
        "x < y",
        "x > 1 OR x < 0",
        "x > 1 AND y < 2",
        "NOT (x > 1)",
        "upper(s) = 'A'",
        "s = 'a\\n'",
        "s > 'a'",
        "address.zip > 1",
        "d >= DATE'2013-01-01'",
        "x - 1 > 0",
        "x > 1 -- why",
        's = "a"',
        "x IS NULL OR y > 1",
        "x IS NULL OR x IS NOT NULL",
        "(x > 1) OR (x < 0)",
        "x IS NULL",
        "",
    ],
)
def test_what_says_anything_more_is_no_form(condition):
    assert parse_condition(condition) is None
