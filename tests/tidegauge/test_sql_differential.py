"""Users' SQL parsed by sqlglot, compared with Spark. Truth values are worked out by hand."""

import re

import pytest

from tests.paths import ROOT
from tidegauge.analyzers.core.conditions import (
    LikeCondition,
    OneOf,
    Within,
    compare_exactly,
    parse_condition,
)
from tidegauge.analyzers.core.schema import Schema
from tidegauge.analyzers.core.sql_parser import parse_expression, parse_query
from tidegauge.griffin.execution.user_sql import group_labels

pytestmark = pytest.mark.spark
T, F, N = True, False, None

ATOMS = {  # about the columns of `rows`
    "d > 0": (T, F, N),
    "d BETWEEN -1 AND 0": (F, T, N),
    "coalesce(d, 0) >= 0": (T, F, T),
    "s <= 5": (F, F, N),
    "5.9BD=s": (T, F, N),
    "s <> 5": (T, T, N),
    "s NOT IN (5, 'abc')": (T, F, N),
    "end <=> DATE'2024-01-05'": (T, F, F),
    "n IN (1, 2) -- of its type\n": (T, F, N),
    "n IS NULL": (F, F, T),
}


def negated(value):
    return None if value is None else not value


def both(a, b):
    return False if a is False or b is False else None if None in {a, b} else True


def either(a, b):
    return negated(both(negated(a), negated(b)))


CONTEXTS = {
    "{0}": lambda a, b: a,
    "({0}) AND {1}": both,
    "{0} and\n{1} /* OR true */": both,
    "{0} OR NOT {1}": lambda a, b: either(a, negated(b)),
    "! ({0}) AND {1}": lambda a, b: both(negated(a), b),
    "NOT ({0} OR {1})": lambda a, b: negated(either(a, b)),
    "CASE WHEN {0} THEN {1} ELSE {0} END": lambda a, b: b if a else a,
    "if({0}, {1}, n BETWEEN 1 AND 2 AND false)": lambda a, b: b if a else False,
    "coalesce({0}, {1})": lambda a, b: b if a is None else a,
    "'it\\'s -- AND d > 0' RLIKE r'^it' AND {0}": lambda a, b: a,
    "({0}) IS NOT NULL AND {1}": lambda a, b: both(a is not None, b),
}


@pytest.fixture(scope="module")
def rows(spark):
    return spark.sql(
        """SELECT id, CAST(d AS DECIMAL(38, 38)) d, s, end, n, CAST(n AS DOUBLE) x
        FROM VALUES (0, '1e-38', '5.9', '2024-01-05', 1L), (1, '-1e-38', 'abc', 'soon', 7L),
        (2, NULL, NULL, NULL, NULL) AS v(id, d, s, end, n)"""
    ).coalesce(1)


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_rewritten_comparisons_keep_their_value_in_every_context(spark, rows, ansi):
    schema = Schema.from_frame(rows)
    atoms = list(ATOMS)
    cases = [
        (context.format(a, b), [truth(*values) for values in zip(ATOMS[a], ATOMS[b], strict=True)])
        for shift, (context, truth) in enumerate(CONTEXTS.items())
        for a, b in (
            (atoms[(3 * shift + i) % 10], atoms[(4 * shift + i + 1) % 10]) for i in range(3)
        )
    ]
    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        cells = [compare_exactly(sql, schema) for sql, _ in cases]
        result = rows.orderBy("id").selectExpr(*cells).collect()
    finally:
        spark.conf.set("spark.sql.ansi.enabled", before)
    wrong = [
        (sql, expected, actual)
        for (sql, expected), *actual in zip(cases, *result, strict=True)
        if actual != expected
    ]
    assert wrong == []


FORMS = [
    "x > 1", "1 <= x", "x BETWEEN 1 AND 7", "x >= 1.5D AND x < 7.5BD", "coalesce(x, 0) < 1", "nvl(x, 3) >= 3",
    "x IS NULL OR (x > 1 AND x <= 7)", "n IN (1, -2, 3e0)", "n == 7", "s IN ('abc', 'it\\'s')",
    "s IS NULL OR s RLIKE '^[a-z]+$'", "s IS NOT NULL", "`s` = '5.9'", "(x < -0.5)",
]  # fmt: skip


def holds(form, value):
    """Return whether a value satisfies a form by its definition."""
    if value is None:
        return form.nulls
    if isinstance(form, Within):
        return form.holds(value)
    if isinstance(form, OneOf):
        return value in form.values
    return re.search(form.pattern, value) is not None if isinstance(form, LikeCondition) else True


def test_forms_agree_with_spark(rows):
    values = rows.orderBy("id").collect()
    actual = rows.orderBy("id").selectExpr(*FORMS).collect()
    for number, condition in enumerate(FORMS):
        form = parse_condition(condition)
        assert [holds(form, row[form.column]) for row in values] == [
            bool(row[number]) for row in actual
        ], condition


SPARK_ONLY = ["values > 0", "if > 0", "a:b.c > 0", "try_add(1, 2, 3) > 1 OR ceil(x, 2) > 1"]
"""Expressions that only Spark knows. sqlglot cannot parse some of them."""


PLACES = (
    r'where="([^"\n{]+)"',
    r'(?:satisfies|Rule)\(\s*"([^"\n{]+)"',
    r"^\s*(?:- )?(?:where|condition|satisfies): ([^\n#{\[]+)$",
)
"""Patterns for the code and YAML around a condition."""


def collected_conditions():
    """Return the conditions in docs and tests, including examples."""
    actual = set()
    for page in (*(ROOT / "docs").rglob("*.md"), *(ROOT / "tests").rglob("*.py")):
        text = page.read_text("utf-8")
        actual |= {match[1] for place in PLACES for match in re.finditer(place, text, re.MULTILINE)}
    return sorted(re.sub(r"""^(['"])(.*)\1$""", r"\2", condition.strip()) for condition in actual)


def parses(frame, *sql):
    """Return whether Spark parses expressions. They need not be resolved."""
    from pyspark.errors import AnalysisException, ParseException

    try:
        frame.selectExpr(*sql).schema  # noqa: B018 - Spark Connect parses here
    except ParseException:
        return False
    except AnalysisException:
        pass
    return True


def test_conditions_that_spark_accepts_are_accepted_after_rewriting(rows):
    schema = Schema.from_types({name: "string" for name in ("a", "status", "amount", "city", "x")})
    conditions = [*collected_conditions(), *SPARK_ONLY, *ATOMS, *FORMS]
    accepted = [condition for condition in conditions if parses(rows, condition)]
    assert len(accepted) > 150
    rewritten = [compare_exactly(condition, schema) for condition in accepted]
    assert rewritten != accepted
    assert parses(rows, *rewritten)
    unknown = [condition for condition in accepted if parse_expression(condition) is None]
    assert set(unknown) <= set(SPARK_ONLY)


GROUPED = [
    ("select city, max(n) as m from t group by (city)", ("city",)),
    ("select (city) as c, n % 2 as odd, count(*) k from t group by ((city)), (n % 2)", ("c", "odd")),
    ("select upper(city) u, count(1) k from t group by 1", ("u",)),
    ("select city, count(1) k from t group by all", ("city",)),
    ("select city, kind, grouping(city) g, sum(n) s from t group by cube (city, kind)", None),
    ("select city, kind, sum(n) s from t group by city, kind with rollup", None),
    ("select * except (s) from (select city, kind, sum(n) s from t group by city, kind)", ("city", "kind")),
    ("with x as (select city, sum(n) s from t group by city) select city c, s / 2 h from x", ("c",)),
    ("select city, sum(n) s from t group by city union all select 'all', sum(n) from t", ("city",)),
    ("from t select kind, count(1) k group by kind having k > 0", ("kind",)),
    ("select kind, first(n) filter (where n > 0) f from t group by kind order by 2 limit 9", ("kind",)),
]  # fmt: skip


def test_labels_identify_the_rows_of_grouped_queries(spark):
    spark.sql(
        "SELECT * FROM VALUES ('a', 'x', 1), ('a', 'y', 2), ('b', 'x', 3), ('b', 'x', 4) AS v(city, kind, n)"
    ).createOrReplaceTempView("t")
    try:
        for query, labels in GROUPED:
            frame = spark.sql(query)
            actual = group_labels(query, frame.columns)
            assert actual == (labels or tuple(frame.columns[:-1])), query
            keys = [tuple(row[name] for name in actual) for row in frame.collect()]
            assert len(set(keys)) == len(keys) or labels is None, query
            assert parse_query(query) is not None
    finally:
        spark.catalog.dropTempView("t")
