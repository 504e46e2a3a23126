"""Checks and record rules on decimals so long that Spark rounds them in comparisons. Values worked out by hand."""

from decimal import Decimal

import pytest

import tidegauge as tg
from tidegauge.analyzers.core.conditions import compare_exactly
from tidegauge.analyzers.core.schema import Schema

pytestmark = pytest.mark.spark

ROWS = "(1, '1e-38', '0'), (2, '-1e-38', '0'), (3, '0', '0'), (4, '0.5', '1'), (5, NULL, '0')"
"""Number of the row, a fraction, an integer."""
HALF = Decimal("0.5")


@pytest.fixture(scope="module")
def data(spark):
    return spark.sql(
        f"""SELECT id, CAST(t AS DECIMAL(38, 38)) d, CAST(t AS DOUBLE) f, CAST(i AS DECIMAL(38, 0)) w,
        CAST(i AS BIGINT) n, array(named_struct('d', CAST(t AS DECIMAL(38, 38)))) a
        FROM VALUES {ROWS} AS v(id, t, i)"""
    ).coalesce(1)


CONDITIONS = {
    # on one column: null passes
    "positive": (lambda c: c.is_positive("d"), {1, 4, 5}),
    "not negative": (lambda c: c.is_non_negative("d"), {1, 3, 4, 5}),
    "in a set": (lambda c: c.is_contained_in("d", [0]), {3, 5}),
    "in a larger set": (lambda c: c.is_contained_in("d", [0, HALF, 10]), {3, 4, 5}),
    "in no set": (lambda c: c.is_contained_in("d", [1, -1]), {5}),
    "within": (lambda c: c.is_contained_in("d", lower=0, upper=1), {1, 3, 4, 5}),
    "between": (lambda c: c.is_contained_in("d", lower=0, upper=1, closed="neither"), {1, 4, 5}),
    "at most": (lambda c: c.is_contained_in("d", upper=0), {2, 3, 5}),
    "at most a tiny one": (
        lambda c: c.is_contained_in("d", lower=-1, upper=Decimal("1e-38"), closed="lower"),
        {2, 3, 5},
    ),
    "at least a double": (lambda c: c.is_contained_in("d", lower=0.0), {1, 3, 4, 5}),
    "a fraction below an integer": (lambda c: c.is_contained_in("w", lower=HALF), {4}),
    "in an array": (lambda c: c.is_positive("a[0].d"), {1, 4, 5}),
    # on two columns: null fails
    "less": (lambda c: c.is_less_than("d", "w"), {2, 4}),
    "at most an integer": (lambda c: c.is_less_than_or_equal_to("d", "w"), {2, 3, 4}),
    "greater than a long": (lambda c: c.is_greater_than("d", "n"), {1}),
    "at least a long": (lambda c: c.is_greater_than_or_equal_to("d", "n"), {1, 3}),
    "an integer is greater": (lambda c: c.is_greater_than("w", "d"), {2, 4}),
    # SQL of the user
    "between in SQL": (lambda c: c.satisfies("d NOT BETWEEN 0 AND 1 AND id > 0", "sql"), {2}),
    "not in, in SQL": (lambda c: c.satisfies("d NOT IN (0)", "sql"), {1, 2, 4}),
    "or in SQL": (lambda c: c.satisfies("id = 5 OR (d <=> 0)", "sql"), {3, 5}),
    # doubles, without exactness
    "positive doubles": (lambda c: c.is_positive("f"), {1, 4, 5}),
    "doubles in a set": (lambda c: c.is_contained_in("f", [0]), {3, 5}),
}


@pytest.fixture(scope="module")
def verified(data):
    """Return the results of all conditions, measured together."""
    checks = [make(tg.Check(name)) for name, (make, _) in CONDITIONS.items()]
    return {check.name: check for check in checks}, tg.verify(data, checks)


def test_shares_keep_all_digits_of_decimals(verified):
    actual = verified[1].frame().set_index("check")["value"].to_dict()
    assert actual == {name: len(rows) / 5 for name, (_, rows) in CONDITIONS.items()}


def test_rows_keep_all_digits_of_decimals(data, verified):
    checks, _ = verified
    analyzers = {f"is {name}": check.constraints[0].analyzer for name, check in checks.items()}
    rows = tg.row_level_results(data, analyzers).collect()
    actual = {name: {row.id for row in rows if row[f"is {name}"]} for name in checks}
    assert actual == {name: rows for name, (_, rows) in CONDITIONS.items()}


def test_rules_keep_all_digits_of_decimals(data):
    from pyspark.sql import functions as F

    rules = {
        tg.BoundRule("d", 0, 1, closed="right", name="bound"): ({2, 3}, 1),
        tg.BoundRule(F.col("d"), 0, 1, closed="right", name="column"): ({2, 3}, 1),
        tg.BoundRule("d", 0, 1, closed="both", where="id > 2", name="where"): (set(), 1),
        tg.SetRule("d", [0], name="set"): ({1, 2, 4}, 1),
        tg.SetRule("d", [None, 0, 1], name="null or set"): ({1, 2, 4}, 0),
        tg.BoundRule("w", HALF, None, name="integer"): ({1, 2, 3, 5}, 0),
        tg.BoundRule("n", Decimal("1e-38"), None, name="long"): ({1, 2, 3, 5}, 0),
        tg.Rule("d <= n", "of the user"): ({1}, 1),
    }
    dqm = tg.DQM()
    for rule in rules:
        dqm = dqm.add(rule)
    state = dqm.apply(data, samples=0).state
    assert not state.errors
    actual = {r.name: (state.violations(r.name), state.unknown(r.name)) for r in rules}
    assert actual == {rule.name: (len(rows), nulls) for rule, (rows, nulls) in rules.items()}


def test_records_are_rejected_by_all_digits(data):
    done = tg.DQM().add(tg.BoundRule("d", 0, None, closed="neither")).apply(data, samples=0)
    assert {row.id for row in done.data.collect()} == {1, 4}


def test_fixes_keep_all_digits_of_decimals(data):
    dqm = (
        tg.DQM()
        .add(tg.BoundFix("d", 0, Decimal("0.25"), name="bound"))
        .add(tg.SetFix("d", [0], Decimal("0.125"), name="set"))
        .add(tg.Rule("d > 0", "after", stage="after"))
    )
    done = dqm.apply(data.select("id", "d"), samples=0)
    assert {name: done.state.fix_count(name) for name in ("bound", "set")} == {"bound": 2, "set": 2}
    assert {(row.id, row.d) for row in done.data.collect()} == {
        (1, Decimal("0.125")),
        (4, Decimal("0.125")),
    }
    assert done.state.violations("after") == 2


@pytest.mark.parametrize(
    "condition",
    [
        "`p` > 0",
        "coalesce(`p`, 1) > 0 AND `p` IN (1, 2)",
        "d > 0D OR d IN (0, 1.5D) OR d > 1E3 OR d = f",
        "n + d > 0 OR d > 0 + n OR n DIV d > 0 OR -d > 0 OR abs(d) > 0 OR s.d > 0",
        "exists(a, d -> d > 0)",
        "n IN (SELECT n FROM t WHERE d > 0)",
        "s = 'a' AND s <> ' OR d > 0' -- AND d > 0",
        "`d > 0`",
        "nothing > 0",
    ],
)
def test_exact_types_and_complex_expressions_are_not_rewritten(condition):
    kinds = {"d": "decimal(38,38)", "p": "decimal(9,2)", "n": "long", "f": "double", "s": "string"}
    assert compare_exactly(condition, Schema.from_types(kinds)) == condition
