"""Aggregates over distinct values: when they apply, when they pay, and equal results."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidegauge as tg
from tests.conftest import soak
from tests.support.in_time import run_in_time
from tidegauge.analyzers.core.analyzer import ROWS, Aggregate, Sketch
from tidegauge.analyzers.core.metric import Failure, Success
from tidegauge.analyzers.core.partitions import SegmentSet
from tidegauge.analyzers.core.schema import Schema
from tidegauge.analyzers.runs import runner
from tidegauge.analyzers.scan import plan
from tidegauge.analyzers.scan.capabilities import PlanCost
from tidegauge.analyzers.scan.plan import (
    UNKNOWN,
    CountedAggregation,
    Expectation,
    Plan,
    candidates,
    counted_jobs,
    expected_by_first_rows,
)
from tidegauge.analyzers.scan.scan import scan

SCHEMA = Schema.from_types(
    {"s": "string", "c": "string", "n": "integer", "x": "double", "a b": "string", "t": "timestamp"}
)
PATTERN = Aggregate("count_if(`s` RLIKE '^a+$')")
OTHER = Aggregate("count_if(`c` RLIKE '^a+$')")


@pytest.mark.parametrize(
    "text",
    [
        "count(`s`)",
        "max(char_length(`s`))",
        "min(coalesce(CAST(char_length(`s`) AS DOUBLE), -1.7976931348623157e+308D))",
        "count_if(CASE WHEN (\nS = 'rand() -- '\n) THEN `c` RLIKE '^b)' END)",
        "count_if((\nlower(s) IN ('a', 'b') AND n BETWEEN 1 AND 2.5 OR `a b` IS NULL\n))",
    ],
)
def test_conditions_that_distinct_values_can_answer(text):
    assert candidates([Aggregate(text)], SCHEMA)


@pytest.mark.parametrize(
    "text",
    [
        "count(1)",  # reads no column
        "sum(`n`)",  # sums of doubles depend on the order, and sums of integers gain nothing
        "count(`x`)",  # NaN and both zeros
        "count(`t`)",
        "count(`s`, `c`)",  # rows in which neither is null
        "count(DISTINCT `s`)",
        "count(`s`) * (2)",
        "count(`s`) + count(`c`)",
        "count(`s`) FILTER (WHERE n > 1)",
        "count_if((\ns = 'a' -- c > 1\n))",  # a comment may end elsewhere in Spark
        "count_if((\ns = 'a' /* c */\n))",
        "count_if((\ns < 'b' AND rand() < 0.5\n))",
        "count_if((\nrand < 'b'\n))",
        "count_if((\nmy_function(s)\n))",
        'count_if((\ns = "n"\n))',  # a name, if Spark is configured so
        "count_if((\ns IN (SELECT s FROM other)\n))",
        "count_if((\ns > current_date()\n))",
        "count_if(CASE WHEN (\nx > 1\n) THEN `s` = 'a' END)",
        "max(`s`.`c`.`other`)",
        "count_if(array(s)[0] = 'a')",
    ],
)
def test_conditions_that_distinct_values_cannot_answer(text):
    assert not candidates([Aggregate(text)], SCHEMA)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("date", "count_if((\ns = 'a' AND date > '1970-01-05'\n))"),
        ("end", "count_if((\ns = 'a' AND `end` > 1\n))"),
        ("1st", "count_if((\n1st > 0 AND s = 'a'\n))"),
        ("user", "count_if((\n(\n s = 'a'\n) AND user = 'b'\n))"),  # a function, too
    ],
)
def test_keywords_that_are_columns_are_read(name, text):
    """A column of times cannot be grouped by; a column of strings must be."""
    for kind, read in (("timestamp", []), ("string", [frozenset({"s", name})])):
        schema = Schema.from_types({"s": "string", name: kind})
        assert list(candidates([Aggregate(text)], schema).values()) == read


def test_requests_that_are_not_plain_aggregates():
    """A sketch depends on the number of merged values.

    A filter of rows is applied before grouping.
    """
    params = [ROWS, replace(PATTERN, rows="n > 1"), Sketch("hll", "xxhash64(`s`)", 12)]
    assert not candidates(params, SCHEMA)
    ours = Schema.from_types({"__tidegauge_n": "string"})
    assert not candidates([Aggregate("count_if(`__tidegauge_n` RLIKE 'a')")], ours)


def test_long_conditions_take_linear_time():
    """It has half a million letters without a space; matching patterns from each of them would take minutes."""
    run_in_time("""
        from tidegauge.analyzers.core.analyzer import Aggregate
        from tidegauge.analyzers.core.schema import Schema
        from tidegauge.analyzers.scan.plan import candidates, worthwhile

        texts = ",".join(f"'value{n:05}'" for n in range(40_000))
        asked = candidates([Aggregate(f"count_if((s IN ({texts})))")], Schema.from_types({"s": "string"}))
        assert len(asked) == 1
        assert worthwhile(asked, 1e9) == {}
    """)


def test_strings_with_a_collation_and_names_that_differ_by_case_are_excluded():
    """One group of a collation may contain several values, and either column may be meant."""
    field = {"name": "s", "type": "string", "nullable": True}
    collated = {**field, "metadata": {"__COLLATIONS": {"s": "icu.UNICODE_CI"}}}
    same = [{**field, "metadata": {}}, {**field, "name": "S", "metadata": {}}]
    for columns in ([collated], same):
        schema = Schema({"type": "struct", "fields": columns}, case_sensitive=True)
        assert not candidates([PATTERN], schema)


def jobs(requests, rows=1e8, group_rows=1e6, **distinct):
    actual = counted_jobs(requests, SCHEMA, Expectation(rows, group_rows, distinct))
    return [(job.columns, len(job.requests)) for job in actual]


def test_distinct_values_pay_for_many_rows_with_few_values():
    """A pattern takes 250 ns a row, grouping 120 ns. The difference has to save a job of 0.2 s."""
    assert jobs([PATTERN], s=8) == [(("s",), 1)]
    assert jobs([PATTERN], rows=1e6, s=8) == []
    assert jobs([Aggregate("count(`s`)")], s=8) == []
    assert jobs([PATTERN], s=5_000) == []  # with null, one group too many
    assert jobs([PATTERN], group_rows=100, s=5) == []  # one in twenty is allowed
    assert jobs([PATTERN]) == []
    assert jobs([PATTERN, OTHER], s=8) == [(("s",), 1)]


def test_columns_are_grouped_together_if_there_are_few_groups():
    both = Aggregate("count_if((\ns = c\n))")
    assert jobs([PATTERN, OTHER, both], s=8, c=60) == [(("c", "s"), 3)]  # 9 * 61 groups
    assert jobs([PATTERN, OTHER, both], s=100, c=60) == [(("c",), 1), (("s",), 1)]  # 6,161


# On Spark

VALUES = [None, "", " ", "a", "aa", "1", "-1.5", "true", "1e3", "ä", "🙂", "a\n"]
ANALYZERS = [
    tg.Size(),
    tg.Mean("n"),
    *(
        a(c)
        for a in (tg.Completeness, tg.DataType, tg.ApproxCountDistinct)
        for c in ("s", "c", "n")
    ),
    *(a(c) for a in (tg.MinLength, tg.MaxLength) for c in ("s", "c")),
    tg.MinLength("s", null_behavior="fail"),
    tg.PatternMatch("s", "^[a-z]+$", null_behavior="empty"),
    tg.PatternMatch("c", "[0-9]", where="s <> 'a'"),
    tg.Compliance("same", "(\n s = c\n OR s IS NULL\n) AND ds < 'z'"),
    tg.Compliance("unknown", "CASE WHEN s = 'a' THEN NULL END"),
    tg.Compliance("text", "if(s = 'a', 'true', 'false')"),
    tg.ZerosCount("n"),
]


@pytest.fixture
def eager(monkeypatch):
    """Use distinct values wherever they can answer."""
    for name in ("JOB_NANOSECONDS", "COLUMN_NANOSECONDS"):
        monkeypatch.setattr(plan, name, 0)


def frame(spark, rows):
    return spark.createDataFrame(rows, "s string, c string, n int, ds string")


def states(data, by, expected):
    results = scan(data, ANALYZERS, by, expected=expected)
    everything = {**results.groups, "nothing": results.nothing}
    return {key: (group.rows, dict(group.states)) for key, group in everything.items()}


@pytest.mark.spark
@pytest.mark.usefixtures("eager")
@settings(max_examples=soak(4, 60))
@given(
    rows=st.lists(
        st.tuples(
            *[st.sampled_from(VALUES)] * 2, st.integers(-1, 3) | st.none(), st.sampled_from("xy")
        ),
        max_size=40,
    ),
    told=st.dictionaries(st.sampled_from(["s", "c", "n"]), st.sampled_from([1, 12, 10**6])),
    by=st.sampled_from([(), ("ds",)]),
)
def test_states_do_not_depend_on_the_expected_number_of_values(spark, rows, told, by):
    """Twelve distinct values are correct; one or a million are wrong expectations."""
    data = frame(spark, rows)
    assert states(data, by, Expectation(1e9, 1e9, told)) == states(data, by, UNKNOWN)


@pytest.mark.spark
@pytest.mark.usefixtures("eager")
def test_segments_and_failures_are_the_same(spark):
    """A cast that fails on one value fails only in its partition, as it does row by row."""
    data = frame(spark, [("1", "u", 1, "x"), ("2", "v", 2, "x"), ("no", "u", 3, "y")])
    cast = tg.Compliance("number", "CAST(s AS INT) > 0")
    analyzers = [tg.Size(), cast, tg.MaxLength("s")]
    segments = [SegmentSet(("c",), (("u",), ("v",)), 1)]
    few, plain = (
        scan(data, analyzers, ("ds",), segments=segments, expected=expected)
        for expected in (Expectation(1e9, 1e9, {"s": 3}), UNKNOWN)
    )
    assert isinstance(few.groups["y",].states[cast], Failure)
    assert sorted(few.groups) == sorted(plain.groups) == [("x",), ("y",)]
    assert isinstance(plain.groups["y",].segments["c=u"].states[cast], Failure)
    for key, group in plain.groups.items():
        assert settled(few.groups[key]) == settled(group)


def settled(group):
    """Return the results of a group without the messages of failures, which quote queries."""
    outcomes = {a: o if isinstance(o, Success) else "failed" for a, o in group.states.items()}
    return group.rows, outcomes, {name: settled(part) for name, part in group.segments.items()}


@pytest.mark.spark
def test_the_first_rows_show_how_many_values_there_are(spark):
    """Three values in 10,000 rows are few; half as many values as rows are many."""
    data = spark.range(20_000, numPartitions=2).selectExpr(
        "CONCAT('s', id % 3) AS s", "CONCAT('c', id DIV 2) AS c"
    )
    both = candidates([PATTERN, OTHER], SCHEMA)
    one = candidates([PATTERN], SCHEMA)
    cost = PlanCost(1e10, shuffles=False)
    actual = expected_by_first_rows(data, both, cost)
    assert actual == Expectation(1e9, 1e9, {"s": 3})  # bytes for 2 of 5 columns
    assert expected_by_first_rows(data, {}, cost) is UNKNOWN
    none = data.where("s = 'none'")
    assert expected_by_first_rows(none, one, cost) == Expectation(1e9, 1e9, {})
    failing = data.selectExpr("CAST(raise_error(s) AS STRING) AS s", "c")
    assert expected_by_first_rows(failing, one, cost) is UNKNOWN
    unknown = PlanCost(8 * 2.0**60, shuffles=False)  # rows that the driver sends
    assert expected_by_first_rows(data, one, unknown) is UNKNOWN


@pytest.mark.spark
@pytest.mark.usefixtures("eager")
def test_a_run_learns_from_the_previous_partition(spark, tmp_path, repo, monkeypatch):
    """The first run knows nothing. The second evaluates each of three values once."""
    monkeypatch.setattr(runner, "SMALL_BYTES", 0)
    planned = []
    jobs = Plan.jobs.fget
    monkeypatch.setattr(
        Plan, "jobs", property(lambda plan: planned.append(jobs(plan)) or planned[-1])
    )
    suite = tg.Suite("few", [*ANALYZERS, tg.CountDistinct("c")])
    folder = str(tmp_path / "table")
    for day in ("2026-01-01", "2026-01-02"):
        rows = [(f"v{i % 3}", f"c{i}", i % 5, day) for i in range(200)]
        data = frame(spark, rows).coalesce(1)
        data.write.mode("append").partitionBy("ds").parquet(folder)
        planned.clear()
        tg.analyze(folder, suite, repository=repo, spark=spark, engine="spark")
        few = [job.columns for job in planned[0] if isinstance(job, CountedAggregation)]
        # 200 rows allow 10 groups; c has 200 values.
        assert few == ([] if day.endswith("01") else [("s",), ("n",)])
    first, second = (
        repo.metrics("few", since=day, until=day).set_index(["analyzer", "name"])["value"]
        for day in ("2026-01-01", "2026-01-02")
    )
    assert first.equals(second)
