"""Names and values of users cannot change Spark plans: plans differ only by the name or value."""

import random
import re

import pytest

from tests.conftest import soak
from tests.tidegauge.griffin.execution.running import config, run
from tidegauge.griffin.config import ErrorCondition
from tidegauge.griffin.dsl.grammar import write
from tidegauge.griffin.dsl.nodes import (  # fmt: skip
    Aliased,
    Attribute,
    Binary,
    Call,
    LikeNode,
    Listing,
    Name,
    Profiling,
    Text,
)
from tidegauge.griffin.dsl.parser import parse

pytestmark = pytest.mark.spark

FRAGMENTS = [
    "'", '"', "`", "``", "\\", "\\'", "''", "${x}", "${env:HOME}", "--", "/*", "*/", "//", ";", "\n", "\r\n",
    "\t", "é", "表", "𝒳", "\u2028", "'; drop table t; --", "` FROM t --", ") OR (1 = 1", "' OR '1'='1", "{", "}",
    "{{x}}", "%", "_", ".", ".*", "[0]", "(", ")", ",", "\\u0027", "\\x27", "\\0", "$", "@", ":p", "?", "#1",
    "<=>", "UNION SELECT", "AS x", "max(id)", "#12", " ", "  ", "=", "!", "&&", "||", "NULL", "'''", '"""',
]  # fmt: skip


def hostile(count):
    """Return strings with characters that end names and values, each with a marker that no plan has."""
    fate = random.Random(8)
    texts = [f"q0z{one}" for one in FRAGMENTS] + [f"{one}q1z" for one in FRAGMENTS]
    while len(texts) < count:
        some = ["".join(fate.choices(FRAGMENTS, k=fate.randint(0, 3))) for _ in range(2)]
        texts.append(f"{some[0]}q{len(texts)}z{some[1]}")
    return fate.sample(texts, count)


PLAIN = "q9x"


def plan_of(spark, frame, text):
    """Return the analyzed plan with a placeholder for the string, and without expression numbers."""
    frame.createOrReplaceTempView("of_injection")
    told = spark.sql("EXPLAIN EXTENDED SELECT * FROM of_injection").collect()[0][0]
    analysed = told.partition("== Analyzed Logical Plan ==")[2].partition("== Optimized")[0]
    for shown in (text.replace("`", "``"), text):
        analysed = analysed.replace(f"`{shown}`", "PLACE").replace(shown, "PLACE")
    analysed = re.sub(r"`of_injection`|of_injection|`PLACE`", "PLACE", analysed)
    return re.sub(r"#\d+L?|tidegauge_[0-9a-f]+_\d+|(?<=CTERelation...) \d+", "#", analysed)


def run_profiling(spark, rule, frames, **details):
    return run(spark, rule, config("profiling", **details), frames)


def run_with_column(spark, frame, text):
    named = frame.withColumnRenamed("name", text)
    return run_profiling(
        spark, Profiling((Call("max", (Attribute(Name("source"), text),)),)), {"source": named}
    )


def run_with_alias(spark, frame, text):
    return run_profiling(
        spark, Profiling((Aliased(Call("max", (Name("id"),)), text),)), {"source": frame}
    )


def run_with_literal(spark, frame, text):
    rule = Profiling((Name("id"),), where=Binary("=", Name("name"), Text(text)))
    assert parse(write(rule), dq_type="profiling") == rule
    return run_profiling(spark, rule, {"source": frame})


def run_with_regex(spark, frame, text):
    rule = Profiling((Name("id"),), where=LikeNode(Name("name"), Text(text), regex=True))
    return run_profiling(spark, write(rule), {"source": frame})


def run_with_source(spark, frame, text):
    rule = Binary("=", Attribute(Name("source"), "id"), Attribute(Name(text), "id"))
    return run(spark, write(rule), config("accuracy"), {"source": frame, text: frame}, target=text)


def run_with_error(spark, frame, text):
    errors = [
        ErrorCondition("name", "regex", (text,)),
        ErrorCondition("name", "enumeration", (text, "a")),
    ]
    return run(
        spark, Listing((Name("name"),)), config("completeness", errors=errors), {"source": frame}
    )


def run_with_result(spark, frame, text):
    return run(
        spark, Listing((Name("name"),)), config("completeness", incomplete=text), {"source": frame}
    )


POSITIONS = {
    "column": run_with_column,
    "alias": run_with_alias,
    "literal": run_with_literal,
    "regex": run_with_regex,
    "source": run_with_source,
    "error": run_with_error,
    "result": run_with_result,
}


@pytest.mark.soak
@pytest.mark.parametrize("position", POSITIONS)
def test_plans_differ_only_by_the_inserted_string(spark, position):
    frame = spark.sql("SELECT 1 AS id, 'a' AS name")

    def plan(text):
        # Spark refuses invalid patterns; the escaped string is a valid pattern.
        text = re.escape(text) if position == "regex" else text
        ran = POSITIONS[position](spark, frame, text)
        try:
            step = ran.plan.metrics[0].step
            return plan_of(spark, ran.views.frame(step), text)
        finally:
            ran.views.drop()

    expected = plan(PLAIN)
    assert "PLACE" in expected
    wrong = [text for text in hostile(soak(12, 200)) if plan(text) != expected]
    assert wrong == []


def test_strings_arrive_unchanged(spark):
    texts = hostile(500)
    rule = Profiling(tuple(Aliased(Text(text), f"c{i}") for i, text in enumerate(texts)))
    frame = spark.sql("SELECT 1 AS id")
    (row,) = run_profiling(spark, write(rule), {"source": frame}).rows("profiling")
    assert list(row.values()) == texts


@pytest.mark.newest
def test_names_arrive_unchanged(spark):
    texts = hostile(500)
    frame = (
        spark.sql("SELECT 1 AS id").selectExpr(*(f"{i} AS c{i}" for i in range(500))).toDF(*texts)
    )
    items = tuple(Aliased(Call("max", (Name(text),)), text) for text in texts)
    (row,) = run_profiling(spark, write(Profiling(items)), {"source": frame}).rows("profiling")
    assert row == {text: i for i, text in enumerate(texts)}
