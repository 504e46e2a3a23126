"""Plans: their steps, names of steps, and refused options."""

import pytest

from tests.tidegauge.griffin.execution.running import config
from tidegauge.analyzers.core.errors import DslError
from tidegauge.analyzers.core.schema import Schema
from tidegauge.analyzers.core.sql import words_in
from tidegauge.griffin.config import ErrorCondition, Output, RuleConfig
from tidegauge.griffin.dsl.binding import bind
from tidegauge.griffin.dsl.parser import parse
from tidegauge.griffin.dsl.scope import Scope
from tidegauge.griffin.execution.preparation import lower
from tidegauge.griffin.measures.sql import matched_condition, side_names
from tidegauge.griffin.measures.timeliness import label, ranks

TYPES = {"id": "long", "name": "string", "ts": "timestamp", "__tmst": "long"}
SCOPE = Scope(
    {"source": Schema.from_types(TYPES), "target": Schema.from_types(TYPES)}, "source", "target"
)
RULES = {
    "accuracy": "source.id = target.id",
    "profiling": "name, count(*) as n group by name",
    "uniqueness": "name",
    "distinct": "name",
    "timeliness": "ts",
    "completeness": "name",
    "duplication": "name",
    "schema-conformance": None,
    "column-profiling": "id, name",
    "record-check": None,
}
DETAILS = {
    "uniqueness": {"duplication.array": "d"},
    "distinct": {"duplication.array": "d"},
    "timeliness": {"threshold": "1m", "step.size": "1m", "percentile.values": [0.5]},
    "schema-conformance": {"expr": [{"column": "name", "type": "decimal(9, 2)"}]},
    "record-check": {"expr": "SELECT * FROM source", "bad.record.definition": "id IS NULL"},
}
STEPS = {
    "accuracy": ["miss_items", "miss_count", "total_count", "accuracy"],
    "profiling": ["profiling"],
    "uniqueness": ["total_count", "dup_count", "unique_metric", "dup_records", "dup_metric"],
    "distinct": ["total_count", "dup_count", "distinct_metric", "dup_records", "dup_metric"],
    "timeliness": [
        "total_count", "in_time", "latency_items", "late_records", "time_metrics", "range_metric",
        "percentile_metric",
    ],
    "completeness": ["incomplete_records", "total_count", "incomplete_count", "complete_count"],
    "duplication": ["dup_count", "dup_metric", "dup_records"],
    "schema-conformance": ["nonconforming_records", "conformance"],
    "column-profiling": ["column_statistics", "column_profile"],
    "record-check": ["checked_records", "record_metric"],
}  # fmt: skip
RECORDS = {
    "accuracy": ("miss_items",),
    "uniqueness": ("dup_records",),
    "distinct": ("dup_records",),
    "timeliness": ("late_records",),
    "completeness": ("incomplete_records",),
    "duplication": ("dup_records",),
    "schema-conformance": ("nonconforming_records",),
    "record-check": ("checked_records",),
}


def plan(kind, rule="", by=(), scope=SCOPE, errors=(), **details):
    text = rule or RULES[kind]
    what = RuleConfig(
        1, "griffin-dsl", "", kind, details=DETAILS.get(kind, {}) | details, errors=tuple(errors)
    )
    return lower(None if text is None else parse(text, dq_type=kind), what, scope, by)


@pytest.mark.parametrize("kind", RULES)
def test_each_rule_type_has_its_steps(kind):
    found = plan(kind)
    assert [step.name for step in found.steps] == STEPS[kind]
    assert found.records == RECORDS.get(kind, ())
    assert found.source == "source"
    assert {table.step for table in found.metrics} <= set(STEPS[kind])


@pytest.mark.parametrize("kind", RULES)
def test_all_steps_keep_the_grouping_columns(kind):
    found = plan(kind, by=("__tmst",))
    assert found.group_by == ("__tmst",)
    for step in found.steps:
        assert "__tmst" in words_in(step.sql) or "SELECT *" in step.sql
    metrics = {table.step for table in found.metrics}
    for step in found.steps:
        if step.name in metrics:
            assert "GROUP BY" in step.sql or "column_statistics" in step.sql


@pytest.mark.parametrize("kind", RULES)
def test_equal_rules_have_equal_plans(kind):
    assert plan(kind) == plan(kind)


def test_griffins_names_of_steps_are_kept():
    names = {n for kind in RULES for step in plan(kind).steps for n in step.aliases}
    assert names >= {
        "__missRecords", "__missCount", "__totalCount", "__totalMetric", "__uniqueMetric", "__dupRecords",
        "__dupMetric", "__selfGroup", "__group", "__distMetric", "__inTime", "__lat", "__lateRecords",
        "__rangeMetric", "__percentile", "__incompleteRecords", "__incompleteCount",
    }  # fmt: skip


def test_the_metric_has_the_name_and_shape_of_its_output():
    what = RuleConfig(
        2, "griffin-dsl", "", "profiling", outputs=(Output("metric", "top", "array"),)
    )
    (table,) = lower(parse(RULES["profiling"], dq_type="profiling"), what, SCOPE).metrics
    assert (table.step, table.flatten, table.name) == ("profiling", "array", "top")
    (table,) = plan("accuracy").metrics
    assert (table.flatten, table.name, table.labels) == ("entries", "", ())


def test_equality_in_a_match_is_null_safe_unless_sql_is_chosen():
    rule = plan("accuracy").steps[-1].sql
    assert "`source`.`id` <=> `target`.`id`" in rule
    tree = parse(
        "source.id = target.id and source.name = 'x' and target.name != source.name",
        dq_type="accuracy",
    )
    bound = bind(tree, SCOPE)
    assert matched_condition(bound, SCOPE, sides=("a", "b")) == (
        "`a`.`id` <=> `b`.`id` AND `a`.`name` = 'x' AND (NOT (`b`.`name` <=> `a`.`name`))"
    )
    assert matched_condition(bound, SCOPE, "sql", ("a", "b")) == (
        "`a`.`id` = `b`.`id` AND `a`.`name` = 'x' AND `b`.`name` != `a`.`name`"
    )


def test_generated_side_names_differ_from_all_columns():
    tables = {
        "a": Schema.from_types({"A": "long", "b_2": "long"}),
        "b": Schema.from_types({"b": "long"}),
    }
    assert side_names(Scope(tables, "a", "b")) == ("a_2", "b_3")


WRONG = {
    "null.match": ("accuracy", {"null.match": "loose"}, "null.match must be one of"),
    "name": ("accuracy", {"miss": 3}, "'miss' must be a column name"),
    "flag": ("distinct", {"with.accumulate": "maybe"}, "true or false"),
    "array": ("uniqueness", {"duplication.array": 1}, "must be a string"),
    "time": ("timeliness", {"threshold": "3 parsecs"}, "not a duration"),
    "step": ("timeliness", {"step.size": 0}, "above 0"),
    "percentile": ("timeliness", {"percentile.values": [95]}, "from 0 to 1"),
    "percentile text": ("timeliness", {"percentile.values": ["x"]}, "from 0 to 1"),
    "bad": ("duplication", {"bad.record.definition": "odd"}, "bad.record.definition must be"),
    "type": (
        "schema-conformance",
        {"expr": [{"column": "id", "type": "intt"}]},
        "not an atomic type",
    ),
    "type left out": (
        "schema-conformance",
        {"expr": [{"column": "id"}]},
        "{.column.: .id.} has no .type.",
    ),
    "column misspelt": (
        "schema-conformance",
        {"expr": [{"colum": "id", "type": "int"}]},
        "has no .column.",
    ),
    "raw type": (
        "schema-conformance",
        {"expr": [{"column": "id", "type": "int) OR (1"}]},
        "not an atomic type",
    ),
    "column": (
        "schema-conformance",
        {"expr": [{"column": "idd", "type": "int"}]},
        "did you mean 'id'",
    ),
    "pairs": ("schema-conformance", {"expr": "x"}, "list of columns"),
    "scale": ("column-profiling", {"round.scale": "x"}, "whole number"),
    "sample": ("column-profiling", {"dataset.sample": 2}, "a share"),
    "record": ("record-check", {"bad.record.definition": ""}, "in bad.record.definition"),
    "target": ("uniqueness", {"target": "targt"}, "did you mean 'target'"),
    "complete": ("completeness", {"expr": 3}, "an SQL condition"),
}


@pytest.mark.parametrize("case", WRONG)
def test_invalid_options_are_refused(case):
    kind, details, message = WRONG[case]
    with pytest.raises(DslError, match=message):
        plan(kind, **details)


def test_columns_of_error_conditions_must_exist():
    with pytest.raises(DslError, match="did you mean 'name'"):
        plan("completeness", errors=[ErrorCondition("nane", "regex", ("x",))])


def test_a_result_must_not_have_the_name_of_a_grouping_column():
    with pytest.raises(DslError, match="rows are grouped by the column"):
        plan("accuracy", by=("__tmst",), miss="__TMST")


def test_a_rule_must_fit_its_type():
    rule = parse("name", dq_type="uniqueness")
    with pytest.raises(DslError, match="cannot have dq.type 'accuracy'"):
        lower(rule, config("accuracy"), SCOPE)


def test_timeliness_needs_one_or_two_times():
    scope = Scope({"source": Schema.from_types({"ts": "long"})}, "source")
    with pytest.raises(DslError, match="__tmst"):
        plan("timeliness", scope=scope)
    with pytest.raises(DslError, match="one or two times, not 3"):
        plan("timeliness", "ts, ts, ts")


def test_an_ambiguous_not_causes_a_notice():
    (notice,) = plan(
        "accuracy", "source.id = target.id and not (source.id = 1) = (target.id = 1)"
    ).notices
    assert "write `not (a = b)`" in notice


def test_percentiles_have_different_names():
    found = ranks([0.29, 0.57, 0.58, 0.99, "0.995", 0.999, 0, 1, 0.1])
    names = [label("p", rank) for rank in found]
    assert names == ["p_29", "p_57", "p_58", "p_99", "p_99_5", "p_99_9", "p_0", "p_100", "p_10"]
