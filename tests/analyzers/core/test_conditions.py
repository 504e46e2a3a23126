"""Conditions in Spark SQL: parsed, and with comparisons rewritten in place."""

from itertools import product

import pytest

from tidegauge.analyzers.core.conditions import (
    LikeCondition,
    OneOf,
    Present,
    Within,
    compare_exactly,
    known_sql,
    parse_condition,
)
from tidegauge.analyzers.core.schema import Schema


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
        ("s REGEXP '\\\\d'", LikeCondition("s", pattern="\\d")),
        ("x == 1", OneOf("x", values=(1,))),
        ("x IN (-1, 1.5BD, 2e3, FALSE)", OneOf("x", values=(-1, 1.5, 2000.0, False))),
        ("1 < x\tAND\n5 >= x", Within("x", lower=1, has_lower=False, upper=5)),
        ("((x IS NULL OR x = 'a'))", OneOf("x", nulls=True, values=("a",))),
        ("nvl(x, 0) > 1", Within("x", lower=1, has_lower=False)),
        ("`a.b` > 1", Within("a.b", lower=1, has_lower=False)),
        ("`a``b` > 1", Within("a`b", lower=1, has_lower=False)),
        ("end < 1", Within("end", upper=1, has_upper=False)),
        ("date = '2024-01-01'", OneOf("date", values=("2024-01-01",))),
        ("größe > 1", Within("größe", lower=1, has_lower=False)),
    ],
)
def test_simple_conditions_are_parsed(condition, form):
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
        "x /* why */ > 1.5BD",
        "x > 5L",
        "x > 5::int",
        "x = '5'::string",
        "x = CAST('5' AS STRING)",
        "x > try_cast(5 AS decimal(2, 1))",
        "x = r'a'",
        "x = 'a' 'b'",
        "x = '\\u0024{a}'",
        "x = NULL",
        "x <=> 1",
        "x <> 1",
        "x NOT IN (1, 2)",
        "x IN (1, NULL)",
        "x IN (SELECT 1)",
        "x NOT BETWEEN 1 AND 2",
        "x BETWEEN 1 AND 2 AND x < 3",
        "x BETWEEN 'a' AND 'b'",
        "x > 1 AND x > 2",
        "x > 1 AND x < 2 AND x < 3",
        "coalesce(x, 0) > 0 AND x < 5",
        "coalesce(x, y) > 0",
        "coalesce(x, 0, 1) > 0",
        "0 < coalesce(x, 0)",
        "x > 1 OR x IS NULL",
        "x IS NULL OR x > 1 OR x < 0",
        "x NOT RLIKE 'a'",
        "x RLIKE 5",
        "x LIKE 'a'",
        "x > ${y}",
        "x > 1 AS y",
        "x",
        "1",
        "true",
        "x >",
        "x > 1) OR (true",
        "'",
        's = "a"',
        "x IS NULL OR y > 1",
        "x IS NULL OR x IS NOT NULL",
        "(x > 1) OR (x < 0)",
        "x IS NULL",
        "",
    ],
)
def test_other_conditions_are_not_parsed(condition):
    assert parse_condition(condition) is None


def test_a_column_with_a_number_instead_of_null_is_known_in_every_row():
    schema = Schema.from_types({"x": "double"})
    for condition in ("coalesce(x, 0) > 1", "nvl(x, 0) > 1", "ifnull(x, 0) > 1"):
        assert known_sql(condition, schema) == "1"
    assert known_sql("x > 1", schema) == "`x`"


ARRAY = {
    "type": "array",
    "elementType": {
        "type": "struct",
        "fields": [{"name": "d", "type": "decimal(38,38)", "nullable": True, "metadata": {}}],
    },
    "containsNull": True,
}
SCHEMA = Schema.from_types({
    "d": "decimal(38,38)", "s": "string", "n": "long", "day": "date", "at": "timestamp",
    "clock": "timestamp_ntz", "ok": "boolean", "a": ARRAY, "a b": "decimal(38,38)", "end": "string",
    "date": "string", "values": "string", "größe": "string",
})  # fmt: skip
COMPARISONS = [
    "d > 0",
    "1.5BD<=d",
    "`a b` <> 1",
    "get(a, 0).d = -1",
    "coalesce(d, 0) >= 0",
    "coalesce( `s`,'' ) > 5",
    "s NOT IN (5, 'x', -1.5D)",
    "s not\tbetween 1\nAND 2",
    "d BETWEEN -1 AND 1",
    "clock < at",
    "at = day",
    "ok IN ('yes', 'no')",
    "end > 5",
    "date <=> DATE'2024-01-05'",
    "date('2024-01-05') > s",
    "values == true",
    "größe != 5",
    "day IN ('soon')",
    "clock <= now()",
]
CONTEXTS = [
    "({})",
    " {} ",
    "{} AND {}",
    "{}\nor not {}",
    "NOT ({} OR {})",
    "n BETWEEN 1 AND 2 AND {}",
    "{} AND n NOT BETWEEN 1 AND 2",
    "n IN (1, 2) OR {}",
    "CASE WHEN {} THEN {} ELSE {} END",
    "CASE WHEN n > 1 THEN CASE WHEN {} THEN ok END END OR {}",
    "CASE WHEN ok THEN end ELSE (date) END = 'x' AND {}",
    "if({}, {}, false)",
    "count_if({}) > 0 AND {}",
    "coalesce({}, false)",
    "s = ' {{}} AND d > 0 ' AND {}",
    "`d > 0` AND {}",
    "{} -- AND d > 0",
    "{} /* OR */ AND /* {} */ ok",
    "s RLIKE '^a|(b' AND {}",
    "s = r'\\' AND {}",
    "x[d] AND {}",
    "f({}, n + 1)",
    "${{name}} = 1 OR {}",
    "{}, {}",
]


@pytest.mark.parametrize("context", CONTEXTS)
def test_comparisons_are_rewritten_in_place_and_nothing_else_changes(context):
    exact = {sql: compare_exactly(sql, SCHEMA) for sql in COMPARISONS}
    assert all(sql != rewritten for sql, rewritten in exact.items())
    for first, second in product(COMPARISONS, COMPARISONS[::5]):
        actual = compare_exactly(context.format(first, second, first), SCHEMA)
        expected = context.format(exact[first], exact[second], exact[first])
        if "/* {}" in context:  # a comment stays
            expected = context.format(exact[first], second)
        assert actual == expected


@pytest.mark.parametrize(
    "sql",
    [
        "n > 1 AND s = 'a' AND ok = true AND day >= DATE'2024-01-05'",
        "d + 1 > 0",
        "-d > 0",
        "d > - 1",
        "d > 0 = ok",
        "ok = d > 0",
        "d > 0 IS NULL",
        "d > 0 || 'x'",
        "d > 0 && ok",
        "d > 0::int",
        "d::double > 0.5",
        "a[0].d > 0",
        "abs(d) > 0",
        "coalesce(d, n) > 0",
        "coalesce(d, 0, 1) > 0",
        "coalesce(d, 0) + (1) > 0",
        "s > CAST('5' AS INT)",
        "s = 5 6",
        "s > r'5'",
        "d BETWEEN n AND 1",
        "d IN (n, 1)",
        "d IN (SELECT 1)",
        "d > (SELECT max(d) FROM t WHERE d > 0)",
        "exists(a, e -> e.d > 0) OR d > 0",
        "sum(n) OVER (ORDER BY d ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) > 0",
        "sum(n) FILTER (WHERE d > 0)",
        "d > CASE WHEN ok THEN 1 END",
        "d >",
        "> d",
        "d BETWEEN 1",
        "d BETWEEN 1 AND",
        "d IN ()",
        "d IN",
        "d > 0 AND s = 'a",
        "d > 0 AND `a",
        "missing > 0.1",
        "missing.d > 0",
        "",
        "-- d > 0",
    ],
)
def test_other_expressions_are_unchanged(sql):
    assert compare_exactly(sql, SCHEMA) == sql
