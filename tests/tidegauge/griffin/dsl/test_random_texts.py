"""Properties of every rule and of every invalid string."""

import random

import pytest
from hypothesis import given, settings

from tests.conftest import soak
from tests.tidegauge.griffin.dsl import trees
from tests.tidegauge.griffin.dsl.mutations import LONGEST, mutated
from tidegauge.analyzers.core.errors import DslError
from tidegauge.griffin.dsl.grammar import write
from tidegauge.griffin.dsl.nodes import Node
from tidegauge.griffin.dsl.parser import parse, parse_expression

TYPES = ("accuracy", "profiling", "uniqueness", "distinct")


@given(trees.rules)
@settings(max_examples=soak(30, 2_000))
def test_a_written_rule_reads_back(rule):
    dq_type, tree = rule
    text = write(tree)
    again = parse(text, dq_type)
    assert again == tree
    assert repr(again) == repr(tree)  # numbers with all their digits
    assert write(again) == text


@given(trees.bare)
@settings(max_examples=soak(30, 2_000))
def test_a_written_expression_reads_back(tree):
    again = parse_expression(write(tree))
    assert repr(again) == repr(tree)


@given(trees.bare)
@settings(max_examples=soak(30, 1_000))
def test_nodes_have_their_position(tree):
    text = write(tree)
    found = parse_expression(text)
    assert (found.span.start, found.span.end) == (0, len(text))
    before = text[: found.span.start]
    assert (found.span.line, found.span.column) == (before.count("\n") + 1, len(before) + 1)


@pytest.mark.soak
def test_a_random_string_is_a_rule_or_an_error():
    draw = random.Random(20130208)
    kept = 0
    for number in range(soak(500, 50_000)):
        text = mutated(draw)
        assert len(text) <= LONGEST
        try:
            tree = parse(text, draw.choice(TYPES), rule=f"rule {number}")
        except DslError as error:
            lines = text.split("\n")
            assert 1 <= error.line <= len(lines)
            assert 1 <= error.column <= len(lines[error.line - 1]) + 1
            assert error.column < error.end_column
            assert "^" in error.caret
            assert error.rule == f"rule {number}"
            assert str(error)
        else:
            assert isinstance(tree, Node)
            kept += 1
    assert kept > number / 20  # changes are small enough that many strings stay rules
