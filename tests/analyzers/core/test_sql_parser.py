"""SQL of users, as tokens and syntax trees of sqlglot."""

import logging

import pytest

from tidegauge.analyzers.core.sql_parser import (
    MAX_CHARACTERS,
    MAX_NESTED_BRACKETS,
    parse_expression,
    parse_query,
    split_list,
    text_of,
    tokenize,
)

EXPRESSIONS = {
    "a && b": None,  # not Spark SQL, but Griffin's language
    "x > ${y}": "gt",
    "a <=> b": "nullsafeeq",
    "a == b": "eq",
    "!a": "not",
    "a RLIKE r'\\d+'": "regexplike",
    "exists(a, e -> e > 0)": "exists",
    "s = 'it\\'s' -- why": "eq",
    's = "a"': "eq",
    "x > 1.5BD": "gt",
    "`a``b`.`c.d` > 1L": "gt",
    "größe > 1": "gt",
    "day >= DATE'2024-01-01' - INTERVAL 1 DAY": "gte",
    "a::int > 1": "gt",
    "show > 1": "gt",
    "show": "column",
    "end > start": "gt",
    "if > 1": None,
    "a >": None,
    "a) OR (b": None,
    "s = 'a": None,
    "`a": None,
    "'\\": None,
    "": None,
    " -- nothing": None,
    "SELECT 1": None,
    "CACHE TABLE t": None,
    "🙂 > 1": "gt",
}


@pytest.mark.parametrize(("sql", "key"), EXPRESSIONS.items())
def test_an_expression_has_a_tree_if_sqlglot_can_parse_it(sql, key, caplog):
    tree = parse_expression(sql)
    assert (None if tree is None else tree.key) == key
    assert caplog.records == []


QUERIES = {
    "SELECT 1": "select",
    "FROM t SELECT a": "select",
    "WITH x AS (SELECT 1) SELECT * FROM x;": "select",
    "(SELECT a FROM t) ORDER BY a": "subquery",
    "SELECT /*+ BROADCAST(t) */ a FROM t": "select",
    "SELECT 1 UNION SELECT 2": "union",
    "SELECT 1; SELECT 2": None,
    "SHOW TABLES": None,
    "EXPLAIN SELECT 1": None,
    "WITH x AS (SELECT 1) SHOW TABLES": None,
    "CACHE TABLE t": None,
    "a > 1": None,
    "if the word is first": None,
}


@pytest.mark.parametrize(("sql", "key"), QUERIES.items())
def test_only_a_query_has_a_tree(sql, key, caplog):
    tree = parse_query(sql)
    assert (None if tree is None else tree.key) == key
    assert caplog.records == []


def test_warnings_of_sqlglot_for_other_callers_are_logged(caplog):
    parse_query("SHOW TABLES")
    with caplog.at_level(logging.WARNING):
        logging.getLogger("sqlglot").warning("of another caller")
    assert caplog.messages == ["of another caller"]


@pytest.mark.parametrize("opening", ["(", "f(", "NOT (", "CASE WHEN ("])
def test_deeply_nested_sql_has_no_tree_whatever_the_depth_of_the_caller(opening):
    closing = ") THEN 1 END" if opening.startswith("CASE") else ")"

    def parsed(levels, frames):
        if frames:
            return parsed(levels, frames - 1)
        return parse_expression(opening * levels + "x" + closing * levels) is not None

    shallow = MAX_NESTED_BRACKETS // (2 if " " in opening else 1)
    assert parsed(shallow, 0)
    assert parsed(shallow, 300)
    assert not parsed(MAX_NESTED_BRACKETS + 1, 0)
    assert not parsed(100_000, 0)


def test_chains_of_signs_have_no_tree():
    assert parse_expression("NOT " * 20 + "a").key == "not"
    assert parse_expression("NOT " * 20_000 + "a") is None
    assert parse_expression("- " * 20_000 + "a") is None


def test_long_sql_is_not_parsed():
    text = f"id IN ({', '.join(map(str, range(MAX_CHARACTERS // 2)))})"
    assert tokenize(text) == ()
    assert parse_expression(text) is None
    assert parse_query(f"SELECT {text}") is None


def test_tokens_have_their_positions_in_the_string():
    sql = "a -- b\n<= /* c */ -1.5BD AND `d e`.f = r'\\' OR g IN (\"h\")"
    shown = [sql[begin:end] for _, begin, end in tokenize(sql)]
    assert shown == ["a", "<=", "-", "1.5BD", "AND", "`d e`", ".", "f", "=", "r'\\'"] + [
        "OR", "g", "IN", "(", '"h"', ")",
    ]  # fmt: skip


def test_the_items_of_a_list_are_substrings():
    assert split_list("1, (2, 3) -- a, b\n, x[4, 5], 'a,b'") == ["1", "(2, 3)", "x[4, 5]", "'a,b'"]
    assert split_list("a,") == ["a", ""]
    assert split_list("") == [""]


def test_literals_and_names_keep_the_users_spelling():
    sql = "`a``b` IN ('it\\'s', r'\\d', \"x\", 5L)"
    texts = [text_of(node, sql) for node in parse_expression(sql).expressions]
    assert texts == ["'it\\'s'", "r'\\d'", '"x"', "5L"]
