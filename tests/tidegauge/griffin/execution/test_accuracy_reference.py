"""Accuracy compared with loops over all pairs of rows, which implement three-valued logic again."""

import math
import random

import pyarrow as pa
import pytest

from tests.conftest import soak
from tests.tidegauge.griffin.execution.running import config, run
from tidegauge.analyzers.scan.capabilities import from_arrow
from tidegauge.griffin.dsl.nodes import (  # fmt: skip
    Attribute,
    BetweenNode,
    Binary,
    Call,
    In,
    IsNull,
    Text,
    Unary,
    walk,
)
from tidegauge.griffin.dsl.parser import parse

pytestmark = pytest.mark.spark

TYPES = {
    "row": pa.int64(), "i": pa.int32(), "l": pa.int64(), "d": pa.float64(), "m": pa.decimal128(9, 2),
    "s": pa.string(), "t": pa.string(), "b": pa.bool_(),
}  # fmt: skip
VALUES = {
    "i": [None, 0, 1, 2, -1], "l": [None, 0, 1, 2, 3], "d": [None, 0.0, -0.0, 1.0, 1.5, math.nan],
    "m": [None, 0, 1, 2], "s": [None, "", "a", "A", "b"], "t": [None, "", "a", "b"], "b": [None, True, False],
}  # fmt: skip


def table(fate, rows):
    return [{"row": n, **{c: fate.choice(v) for c, v in VALUES.items()}} for n in range(rows)]


def rule(fate, depth=2):
    """Return a random condition."""
    if depth and fate.random() < 0.6:
        left, right = rule(fate, depth - 1), rule(fate, depth - 1)
        joined = f"({left}) {fate.choice(['and', 'and', 'or'])} ({right})"
        return f"not ({joined})" if fate.random() < 0.2 else joined
    number, other = fate.choice("ildm"), fate.choice("ildm")
    text = fate.choice("st")
    return fate.choice([
        f"source.{number} = target.{other}",
        f"target.{number} != source.{other}",
        f"source.{number} {fate.choice(['<', '<=', '>', '>='])} target.{other}",
        f"source.{number} + 1 = target.{other} * 2",
        f"source.i between target.i and target.l + {fate.randint(0, 2)}",
        f"source.{text} = target.{text}",
        "source.s = target.t and target.s != source.t",
        f"upper(source.{text}) = upper(target.s)",
        f"source.{text} in ('a', target.t)",
        f"source.{number} is null",
        "target.b",
        "not source.b",
        "source.i = 1",
        "source.i + target.i = 2",
    ])  # fmt: skip


def order(value):
    """Return a sort key: NaN equals NaN and is greater than all numbers."""
    return (1, 0.0) if isinstance(value, float) and math.isnan(value) else (0, value)


def compare(operator, a, b):
    a, b = (order(v) if not isinstance(v, str) else v for v in (a, b))
    return {"=": a == b, "!=": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[operator]


def both(a, b):
    return False if a is False or b is False else None if a is None or b is None else True


def opposite(a):
    return None if a is None else not a


def sides(node):
    return {n.container.name for n in walk(node) if isinstance(n, Attribute)}


def value(node, rows, nulls):
    """Return the value of an expression for a source row and a target row."""

    def of(one):
        return value(one, rows, nulls)

    match node:
        case Attribute():
            return rows[node.container.name][node.name]
        case Binary(operator="and"):
            return both(of(node.left), of(node.right))
        case Binary(operator="or"):
            return opposite(both(opposite(of(node.left)), opposite(of(node.right))))
        case Unary(operator="not"):
            return opposite(of(node.operand))
        case Binary(operator="+" | "*"):
            a, b = of(node.left), of(node.right)
            if a is None or b is None:
                return None
            return a + b if node.operator == "+" else a * b
        case Binary():
            a, b = of(node.left), of(node.right)
            across = nulls == "null-safe" and sorted(
                map(sorted, map(sides, (node.left, node.right)))
            ) == [["source"], ["target"]]
            if a is None or b is None:
                if across and node.operator in {"=", "!="}:
                    return (a is b) == (node.operator == "=")
                return None
            return compare(node.operator, a, b)
        case BetweenNode():
            v, low, high = of(node.operand), of(node.low), of(node.high)
            tests = [
                None if v is None or w is None else compare(o, v, w)
                for o, w in ((">=", low), ("<=", high))
            ]
            return both(*tests)
        case In():
            v, found = of(node.operand), False
            for option in map(of, node.options):
                same = None if v is None or option is None else v == option
                found = opposite(both(opposite(found), opposite(same)))
            return found
        case IsNull():
            return of(node.operand) is None
        case Call(name="upper", arguments=(one,)):
            return None if of(one) is None else of(one).upper()
        case Text():
            return node.value
        case _:
            return int(node.value)


@pytest.mark.soak
@pytest.mark.parametrize("nulls", ["null-safe", "sql"])
def test_accuracy_equals_the_result_of_the_loops(spark, nulls):
    fate = random.Random(nulls)
    schema = pa.schema(list(TYPES.items()))
    source, target = table(fate, 40), table(fate, 6)
    frames = {
        name: from_arrow(spark, pa.Table.from_pylist(rows, schema))
        for name, rows in (("source", source), ("target", target))
    }
    outcomes = set()
    for _ in range(soak(5, 100)):
        text = rule(fate)
        tree = parse(text, dq_type="accuracy")
        if len(sides(tree)) < 2:
            continue
        expected = {
            s["row"] for s in source
            if not any(value(tree.condition, {"source": s, "target": t}, nulls) is True for t in target)
        }  # fmt: skip
        ran = run(spark, text, config("accuracy", null__match=nulls), frames)
        assert {row["row"] for row in ran.rows("miss_items")} == expected, text
        assert ran.metric["miss"] == len(expected), text
        outcomes.add(len(expected))
        ran.views.drop()
    assert len(outcomes) > 2  # not all conditions are trivial
