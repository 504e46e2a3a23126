"""Trees of rules written as SQL."""

from decimal import Decimal

import pytest

from tidegauge.analyzers.core.sql import words_in
from tidegauge.griffin.dsl.nodes import (  # fmt: skip
    Aliased,
    AllOf,
    Attribute,
    BetweenNode,
    Binary,
    Call,
    ColumnNode,
    LikeNode,
    Name,
    NaN,
    Number,
    Profiling,
    Star,
    Text,
    Unary,
    aliases,
    free,
)
from tidegauge.griffin.dsl.parser import parse, parse_expression
from tidegauge.griffin.measures.sql import expression_sql

LITERALS = {
    "2h": "7200000", "3d": "259200000", "15s": "15000", "10m": "600000", "4ms": "4",
    "33": "33", ".5": "0.5BD", "33.50": "33.50BD", "100000000.0": "100000000.0BD", "1e2": "100BD",
    "-1.342": "(-1.342BD)", "- -1": "(-(-1))", "9223372036854775808": "9223372036854775808BD",
    "true": "true", "null": "NULL", "nan": "double('NaN')",
    r"'test\'ing'": r"'test\'ing'", r'"hello \" world \" "': "'hello \" world \" '",
    "'${HOME}'": r"'\u0024{HOME}'", "'a\\\\b'": r"'a\\b'",
}  # fmt: skip

SELECTIONS = {
    "source": ("`source`", None),
    "source.*": ("`source`.*", None),
    "user_id": ("`user_id`", "user_id"),
    "source.age.max()": ("max(`source`.`age`)", "age_max"),
    "*.count()": ("count(*)", "count"),
    "source.name.concat(target.name)": ("concat(`source`.`name`, `target`.`name`)", "name_concat"),
    "source.name.upper().length()": ("length(upper(`source`.`name`))", "name_upper_length"),
    "source.attributes[3]": ("`source`.`attributes`[3]", "attributes_3"),
    "source.arr[0].x.max()": ("max(`source`.`arr`[0].`x`)", "arr_0_x_max"),
    "source.map['key']": ("`source`.`map`['key']", "map_key"),
    "count(distinct source.id)": ("count(DISTINCT `source`.`id`)", "count"),
    "max(source.age).abs()": ("abs(max(`source`.`age`))", "max_abs"),
    "source.id as `my``id`": ("`source`.`id` AS `my``id`", "my`id"),
    "`a``b`": ("`a``b`", "a`b"),
    "upper(x)": ("upper(`x`)", "upper"),
}

EXPRESSIONS = {
    "-(100 - source.score)": "(-(100 - `source`.`score`))",
    "(source.age + 2) * (5 + target.offset)": "(`source`.`age` + 2) * (5 + `target`.`offset`)",
    "a - (b - c)": "`a` - (`b` - `c`)",
    "a - b - c": "`a` - `b` - `c`",
    "a * (b * c)": "`a` * (`b` * `c`)",
    "a / b % c": "(try_divide(`a`, `b`) % nullif(`c`, 0D))",
    "(a + b) / 2 + 1": "try_divide(`a` + `b`, 2) + 1",
    "source.age between (3) and (5)": "`source`.`age` BETWEEN 3 AND 5",
    "source.age between (3, 5)": "`source`.`age` BETWEEN 3 AND 5",
    'source.name not rlike "^abc.*$"': "`source`.`name` NOT RLIKE '^abc.*$'",
    "name not like 'a%'": "`name` NOT LIKE 'a%'",
    "a = 1 or b = 2 and c = 3": "`a` = 1 OR `b` = 2 AND `c` = 3",
    "(a = 1 or b = 2) and c = 3": "(`a` = 1 OR `b` = 2) AND `c` = 3",
    "a and (b or c)": "`a` AND (`b` OR `c`)",
    "name = 'x' and city = 'y'": "`name` = 'x' AND `city` = 'y'",
    "a in (1, b + 2)": "`a` IN (1, `b` + 2)",
    "a not in ('x')": "`a` NOT IN ('x')",
    "a is not null": "`a` IS NOT NULL",
    "a is nan": "isnan(`a`)",
    "a is not nan": "(NOT isnan(`a`))",
    "a + b is nan": "isnan(try_cast(`a` + `b` AS DOUBLE))",
    "not a = b": "(NOT `a`) = `b`",
    "not (a = b)": "(NOT (`a` = `b`))",
    "(a = b) = c": "(`a` = `b`) = `c`",
    "(a in (1)) = b": "(`a` IN (1)) = `b`",
    "(a + 1) is null": "`a` + 1 IS NULL",
    "(a = 1) is null": "(`a` = 1) IS NULL",
    "a <> b": "`a` != `b`",
    "f(a or b, (c))": "f(`a` OR `b`, `c`)",
    "!source.ok and source.name = target.name && (source.age between 12 and 52) && target.desc is not null":
        "(NOT `source`.`ok`) AND `source`.`name` = `target`.`name` AND `source`.`age` BETWEEN 12 AND 52 "
        "AND `target`.`desc` IS NOT NULL",
}  # fmt: skip


@pytest.mark.parametrize("text", LITERALS)
def test_literals_become_sql(text):
    assert expression_sql(parse_expression(text)) == LITERALS[text]


@pytest.mark.parametrize("text", SELECTIONS)
def test_selected_columns_become_sql_with_an_alias(text):
    sql, alias = SELECTIONS[text]
    (node,) = parse(text, dq_type="uniqueness").items
    assert expression_sql(node) == sql
    assert aliases([node], {"source"})[0] == (alias or "alias_0")


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_expressions_become_sql(text):
    assert expression_sql(parse_expression(text)) == EXPRESSIONS[text]


def test_brackets_are_written_where_a_tree_needs_them():
    a, b, c = map(Name, "abc")
    for operator, inner in (("and", "or"), ("*", "+"), ("=", "="), ("+", "=")):
        right = expression_sql(Binary(operator, a, Binary(inner, b, c)))
        left = expression_sql(Binary(operator, Binary(inner, a, b), c))
        assert right == f"`a` {operator.upper()} (`b` {inner.upper()} `c`)"
        assert left == f"(`a` {inner.upper()} `b`) {operator.upper()} `c`"
    tested = BetweenNode(Binary("or", a, b), Binary("=", a, b), Binary("and", a, b))
    assert expression_sql(tested) == "(`a` OR `b`) BETWEEN (`a` = `b`) AND (`a` AND `b`)"
    assert expression_sql(Attribute(Binary("+", a, b), "x")) == "(`a` + `b`).`x`"
    assert expression_sql(Unary("-", Unary("-", a))) == "(-(-`a`))"  # `--` would start a comment
    assert expression_sql(Aliased(Call("f", (Aliased(a, "inner"),)), "x")) == "f(`a`) AS `x`"


def test_long_chains_need_no_recursion():
    chain = Name("a")
    for _ in range(5000):
        chain = Binary("or", chain, Name("a"))
    assert expression_sql(chain) == " OR ".join(["`a`"] * 5001)


def test_a_rule_is_not_an_expression():
    with pytest.raises(TypeError, match="Profiling"):
        expression_sql(Profiling((Star(),)))


def test_invalid_function_names_are_quoted():
    assert expression_sql(Call("f(1), g", (NaN(),))) == "`f(1), g`(double('NaN'))"


HOSTILE = [
    "'; drop table t; --",
    "a`b",
    "``",
    "\\",
    "\\'",
    "${x}",
    "/* */",
    "-- x",
    "\n",
    "é",
    "a.b",
    '"',
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_names_and_strings_are_quoted(text):
    column = expression_sql(ColumnNode(text, text))
    assert words_in(column) == {text.casefold()}
    assert column.replace(f"`{text.replace('`', '``')}`", "x") == "x.x"
    like = expression_sql(LikeNode(Name("a"), Text(text)))
    assert words_in(like) == {"a", "like"}
    assert words_in(expression_sql(AllOf(Name(text)))) == {text.casefold()}


def test_aliases_are_all_different():
    maximum = Call("max", (Name("a"),))
    items = [
        maximum,
        maximum,
        Aliased(Name("b"), "MAX_2"),
        Name("name"),
        Binary("+", Name("name"), Number(Decimal(1))),
        Text("x"),
    ]
    assert aliases(items) == ("max", "max_3", "MAX_2", "name", "name_2", "alias_5")
    assert free("a", {"b"}) == "a"
