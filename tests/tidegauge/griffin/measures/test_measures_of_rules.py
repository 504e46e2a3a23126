"""Rules that have a measure: plan and measure give the same result."""

import json
import random

import pytest

from tests.tidegauge.griffin.execution.running import run
from tidegauge.analyzers.core.errors import DslError, SuiteError
from tidegauge.analyzers.core.schema import Schema
from tidegauge.analyzers.scan.scan import metric_of, scan
from tidegauge.griffin.config import ErrorCondition, Output, RuleConfig
from tidegauge.griffin.dsl.scope import Scope
from tidegauge.griffin.execution.preparation import select_measure
from tidegauge.griffin.measures.base import flattened
from tidegauge.griffin.measures.timeliness import GriffinTimeliness

TYPES = {
    "id": "long",
    "name": "string",
    "age": "integer",
    "ts": "timestamp",
    "tags": {"type": "array", "elementType": "string", "containsNull": True},
}
SCOPE = Scope(dict.fromkeys(("src", "tgt"), Schema.from_types(TYPES)), "src", "tgt")


def config(dq_type, text, errors=(), outputs=(), **details):
    details = {key.replace("__", "."): value for key, value in details.items()}
    return RuleConfig(1, "griffin-dsl", text, dq_type, "r", "r", details, False, outputs, errors)


MADE = {
    "accuracy": (
        config("accuracy", " src.id = tgt.id ", miss="missed", null__match="sql", target="tgt"),
        "GriffinAccuracy('r', 'src.id = tgt.id', source='src', "
        """details='{"miss":"missed","null.match":"sql"}', target='tgt')""",
    ),
    "names that stay are left out": (
        config("uniqueness", "id", total="total", duplication__array="", source="src"),
        "GriffinUniqueness('r', 'id', source='src')",
    ),
    "errors": (
        config("completeness", "name", [ErrorCondition("name", "regex", ("^zh",))]),
        "GriffinCompleteness('r', 'name', source='src', "
        """details='{"error.confs":[{"column.name":"name","type":"regex","values":["^zh"]}]}')""",
    ),
    "output": (
        config("profiling", "count(*)", outputs=(Output("metric", "n", "array"),)),
        """GriffinProfiling('r', 'count(*)', source='src', details='{"flatten":"array","name":"n"}')""",
    ),
}


@pytest.mark.parametrize("case", MADE)
def test_a_rule_has_the_expected_measure(case):
    what, text = MADE[case]
    assert repr(select_measure(what, SCOPE)) == text


IDENTITIES = {
    "accuracy": '{"details":"{\\"miss\\":\\"missed\\",\\"null.match\\":\\"sql\\"}",'
    '"expression":"src.id = tgt.id","griffin":"accuracy","rule":null,"source":"src","target":"tgt"}',
    "names that stay are left out": '{"expression":"id","griffin":"keys","source":"src"}',
    "output": '{"details":"{\\"flatten\\":\\"array\\",\\"name\\":\\"n\\"}",'
    '"expression":"count(*)","griffin":"profiling","rule":null,"source":"src"}',
}


@pytest.mark.parametrize("case", IDENTITIES)
def test_identities_of_stored_states_stay(case):
    assert select_measure(MADE[case][0], SCOPE).statistic() == IDENTITIES[case]


def test_each_number_has_its_scale_by_its_output_name():
    what = config("accuracy", "src.id = tgt.id", matchedFraction="share")
    measure = select_measure(what, SCOPE)
    scales = [str(measure.column_scale(name)) for name in ("total", "share", "matchedFraction")]
    assert scales == ["count", "ratio", "count"]
    latency = select_measure(config("timeliness", "id, age", avg="mean"), SCOPE)
    scales = [str(latency.column_scale(name)) for name in ("mean", "min", "late", "percentile_95")]
    assert scales == ["signed", "signed", "count", "signed"]


@pytest.mark.parametrize("size", [0, "-1s"])
def test_steps_of_latencies_have_a_size_above_0(size):
    measure = GriffinTimeliness("late", "id, age", details=json.dumps({"step.size": size}))
    with pytest.raises(SuiteError, match="step.size must be above 0"):
        measure.requests(Schema.from_types(TYPES))


def test_a_key_of_all_columns_lists_the_columns():
    schema = Schema.from_types({"a": "long", "b`": "string", "day": "string"})
    made = select_measure(
        config("duplication", ""), Scope({"src": schema}, "src"), group_by=("day",)
    )
    assert repr(made) == "GriffinDuplication('r', '`a`, `b```', source='src')"


@pytest.mark.parametrize(
    "what",
    [
        config("accuracy", "src.id = tgt.id", null__match="griffin"),
        config("uniqueness", "id", target="tgt"),
        config("uniqueness", "tags"),
        config("distinct", "id, [name]"),
        config("profiling", "count(distinct id)"),
        config("profiling", "max(name)"),
        config("profiling", "sum(age + 1)"),
        config("profiling", "median(age)"),
        config("profiling", "id"),
        config("profiling", "name, count(*) group by name having count(*) > 1"),
        config("profiling", "name, count(*) as n group by name order by n limit 5"),
        config("profiling", "name, max(age) group by name"),
        config("profiling", "count(*) group by name"),
        config("profiling", "tags, count(*) group by tags"),
        config("profiling", "distinct name"),
        config("profiling", "count(*) from tgt"),
        config("record-check", "SELECT 1"),
        RuleConfig(1, "spark-sql", "SELECT 1"),
    ],
    ids=lambda what: what.rule,
)
def test_rules_that_are_not_additive_have_no_measure(what):
    assert select_measure(what, SCOPE) is None


def test_an_invalid_rule_is_refused():
    with pytest.raises(DslError, match="age"):
        select_measure(config("profiling", "count(*), age"), SCOPE)


def rows_at_random(seed, count):
    chance = random.Random(seed)  # noqa: S311 - test data
    return [
        (
            chance.choice("xy"),
            chance.choice([None, *range(4)]),
            chance.choice([None, "", "a", "7", "zh"]),
            chance.choice([None, *range(-3, 9)]),
        )
        for _ in range(count)
    ]


COLUMNS = "part string, n long, s string, t long"
SQL = "n > 1 OR s = 'a'"
AGREE = {
    "accuracy": config("accuracy", "source.n = target.n and (source.s = target.s or target.t > 5)"),
    "accuracy, sql": config("accuracy", "source.n = target.n", null__match="sql"),
    "completeness": config("completeness", "n, upper(s)", total="all"),
    "completeness, errors": config(
        "completeness",
        "n",
        [
            ErrorCondition("s", "enumeration", ("", "hive_none")),
            ErrorCondition("s", "regex", ("^z",)),
            ErrorCondition("n", "enumeration", ("2",)),
        ],
    ),
    "completeness, sql": config("completeness", SQL, expr=SQL),
    "conformance": config("schema-conformance", "s", expr=[{"column": "s", "type": "int"}]),
    "uniqueness": config("uniqueness", "n, s", duplication__array="dups", num="keys"),
    "distinct": config("distinct", "n, s, t", duplication__array="dups"),
    "duplication": config("duplication", "n, s"),
    "timeliness": config(
        "timeliness", "n, t", threshold=2, step__size="2ms", percentile__values=[0.5, "0.9"]
    ),
    "profiling": config(
        "profiling",
        "count(*) as c, count(s) as k, sum(n), avg(t), min(t), max(n), stddev(t), var_pop(n), "
        "count_if(n > 1) as f where t > 0 or t is null",
    ),
    "groups": config("profiling", "s, N as m, count(*) as c group by n, source.s"),
}


def metric_of_plan(ran):
    """Assemble a metric from the rows of a plan's steps."""
    found = {}
    for table in ran.plan.metrics:
        found |= flattened(ran.rows(table.step), table.flatten, table.name)
    return found


def normalized(value):
    """Return a metric with sorted lists and rounded numbers."""
    if isinstance(value, list):
        return sorted(map(normalized, value), key=repr)
    if isinstance(value, dict):
        return {key: normalized(one) for key, one in value.items()}
    return value if isinstance(value, str | None) else float(f"{float(value):.12g}")


@pytest.mark.spark
@pytest.mark.parametrize("case", AGREE)
@pytest.mark.parametrize("count", [40, pytest.param(0, marks=pytest.mark.soak)])
def test_measure_and_plan_give_the_same_metric(spark, case, count):
    what = AGREE[case]
    source = spark.createDataFrame(rows_at_random(1, count), COLUMNS)
    target = spark.createDataFrame(rows_at_random(2, 10), COLUMNS)
    frames = {"source": source, "target": target}
    text = None if "expr" in what.details else what.rule
    ran = run(spark, text, what, frames)
    tables = {name: Schema.from_frame(frame) for name, frame in frames.items()}
    measure = select_measure(what, Scope(tables, "source", "target"))
    if what.dq_type == "accuracy":
        measure = measure.compared_with(ran.views.view("target"))
    states = scan(source, [measure]).single_group.states
    report = metric_of(measure, states[measure]).value
    metric = metric_of_plan(ran)
    ran.views.drop()
    if count:
        assert normalized(dict(report.metric)) == normalized(metric)
    else:  # a step without rows omits missing groups
        assert normalized({k: v for k, v in report.metric.items() if v is not None}) == normalized(
            {k: v for k, v in metric.items() if v is not None}
        )
