"""Small data on which right and wrong results differ."""

import pyarrow as pa
import pytest

from tests.tidegauge.griffin.execution.running import config, run
from tidegauge.analyzers.scan.capabilities import from_arrow
from tidegauge.griffin.config import ErrorCondition

pytestmark = pytest.mark.spark

IDS = "id int, name string"
ID_AND_NAME = "source.id = target.id and source.name = target.name"


def people(spark, rows, schema=IDS):
    """Return a frame of rows that are part of its plan, so that Spark starts no task to read them."""
    types = {"int": pa.int32(), "long": pa.int64(), "string": pa.string()}
    columns = [column.split() for column in schema.split(",")]
    fields = pa.schema([(name, types[kind]) for name, kind in columns])
    names = fields.names
    table = pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows], fields)
    return from_arrow(spark, table)


ACCURACY = {
    "null in one column": (
        IDS, [(1, None), (2, ""), (3, "x")], [(1, ""), (2, None), (3, "x")], ID_AND_NAME,
        {"null-safe": (3, 2), "griffin": (3, 0), "sql": (3, 2)},
    ),
    "null in all columns": (  # rows whose compared columns are all null
        IDS, [(None, None), (1, "a")], [(1, "a")], ID_AND_NAME,
        {"null-safe": (2, 1), "griffin": (2, 0), "sql": (2, 1)},
    ),
    "or": (
        "id int, a string, b string", [(1, "p", "q"), (2, "r", "s")], [(1, "x", "q"), (9, "zz", "s")],
        "source.id = target.id and (source.a = target.a or source.b = target.b)",
        {"null-safe": (2, 1)},
    ),
    "functions": (  # in functions, nulls match like other values
        IDS, [(1, None), (2, "B")], [(1, None), (2, "b")],
        "source.id = target.id and upper(source.name) = upper(target.name)",
        {"null-safe": (2, 0), "sql": (2, 1)},
    ),
    "duplicates in the target": (
        IDS, [(1, "a"), (2, "b")], [(1, "a")] * 3, ID_AND_NAME,
        {"null-safe": (2, 1), "sql": (2, 1), "griffin": (2, 1)},
    ),
    "null and empty names": (
        "name string", [("a",), (None,), ("",)], [("a",)], "source.name = target.name",
        {"null-safe": (3, 2), "sql": (3, 2), "griffin": (3, 1)},
    ),
    "between": (
        "name string, age int", [("a", 10), ("b", 16), ("c", 9), ("d", None)],
        [("a", 5), ("b", 10), ("c", 9), ("d", None)],
        "source.name = target.name and source.age between (target.age, target.age + 5)",
        {"null-safe": (4, 2), "sql": (4, 2), "griffin": (4, 3)},
    ),
    "null keys": (
        IDS, [(1, "a"), (None, "b")], [(1, "a"), (None, "b")], "source.id = target.id",
        {"null-safe": (2, 0), "sql": (2, 1)},
    ),
    "unequal": (
        IDS, [(1, "a"), (2, None), (3, None)], [(1, "a"), (2, None), (3, "c")],
        "source.id = target.id and source.name != target.name",
        {"null-safe": (3, 2), "sql": (3, 3)},
    ),
    "none": (IDS, [], [(1, "a")], ID_AND_NAME, {"null-safe": (0, 0)}),
    "no target": (IDS, [(1, "a")], [], ID_AND_NAME, {"null-safe": (1, 1), "griffin": (1, 1)}),
}  # fmt: skip


@pytest.mark.parametrize(
    ("case", "nulls"),
    [
        pytest.param(case, nulls, marks=() if i % 2 == 0 else pytest.mark.soak)
        for i, (case, nulls) in enumerate((c, n) for c, told in ACCURACY.items() for n in told[-1])
    ],
)
def test_accuracy_counts_misses(spark, case, nulls):
    schema, source, target, rule, expected = ACCURACY[case]
    total, miss = expected[nulls]
    frames = {"source": people(spark, source, schema), "target": people(spark, target, schema)}
    ran = run(spark, rule, config("accuracy", null__match=nulls), frames)
    assert ran.metric == {
        "total": total,
        "miss": miss,
        "matched": total - miss,
        "matchedFraction": (total - miss) / total if total else 1.0,
    }
    assert ran.rows("__missCount") == [{"miss": miss}]  # of the missed rows themselves


def test_accuracy_is_computed_for_each_window(spark):
    source = people(spark, [(1, "a", 10), (2, "b", 10), (3, "c", 20)], f"{IDS}, __tmst long")
    target = people(spark, [(1, "a"), (3, "c")])
    frames = {"source": source, "target": target}
    ran = run(spark, ID_AND_NAME, config("accuracy", miss="lost"), frames, by=("__tmst",))
    assert ran.sorted("accuracy") == [
        {"__tmst": 10, "total": 2, "lost": 1, "matched": 1, "matchedFraction": 0.5},
        {"__tmst": 20, "total": 1, "lost": 0, "matched": 1, "matchedFraction": 1.0},
    ]
    assert ran.rows("miss_items") == [{"id": 2, "name": "b", "__tmst": 10}]
    assert ran.sorted("total_count") == [{"__tmst": 10, "total": 2}, {"__tmst": 20, "total": 1}]


def test_a_target_column_with_the_name_of_the_source_is_not_confused_with_it(spark):
    target = spark.sql("SELECT named_struct('id', 7) AS source, 1 AS id")
    frames = {"source": people(spark, [(1, "a"), (7, "b")]), "target": target}
    ran = run(spark, "source.id = target.id", config("accuracy"), frames)
    assert ran.metric["miss"] == 1
    assert ran.rows("miss_items") == [{"id": 7, "name": "b"}]


def test_a_source_can_have_the_name_of_a_step(spark):
    frames = {"total_count": people(spark, [(1, "a")]), "target": people(spark, [(1, "a")])}
    frames = {"source": frames["total_count"], **frames}
    ran = run(spark, "source.id = total_count.id", config("accuracy"), frames, target="total_count")
    assert [step.name for step in ran.plan.steps] == [
        "miss_items", "miss_count", "total_count_2", "accuracy",
    ]  # fmt: skip
    assert ran.metric["matched"] == 1


def test_accuracy_reads_the_source_once(spark):
    frames = {"source": people(spark, [(1, "a")]), "target": people(spark, [(1, "a")])}
    ran = run(spark, ID_AND_NAME, config("accuracy"), frames)
    (metric,) = [step.sql for step in ran.plan.steps if step.name == "accuracy"]
    assert metric.count("FROM `source`") == 1
    plan = ran.views.query(metric)._jdf if hasattr(ran.views.query(metric), "_jdf") else None
    if plan is not None:  # a hash join, no loop over pairs
        assert "NestedLoop" not in plan.queryExecution().executedPlan().toString()


KEYS = "id int, name string"


def test_null_and_empty_strings_are_different_values(spark):
    rows = [(None,), ("",), ("a",), ("a",)]
    frames = {"source": people(spark, rows, "name string")}
    ran = run(spark, "name", config("uniqueness", duplication__array="dups"), frames)
    assert ran.metric == {"total": 4, "unique": 2, "uniqueFraction": 0.5}
    assert ran.rows("dup_metric") == [{"dup": 1, "num": 1}]
    assert ran.rows("dup_records") == [{"name": "a", "dup": 1}]
    assert [(t.flatten, t.name) for t in ran.plan.metrics] == [("entries", ""), ("array", "dups")]


def test_uniqueness_with_a_target_counts_keys_of_the_target(spark):
    frames = {
        "source": people(spark, [(1,), (2,)], "id int"),
        "target": people(spark, [(1,), (1,), (2,), (3,)], "id int"),
    }
    what = config("uniqueness", duplication__array="dup", target="target")
    ran = run(spark, "id", what, frames)
    assert ran.metric == {"total": 2, "unique": 1, "uniqueFraction": 0.5}
    assert ran.rows("__dupMetric") == [{"dup": 1, "num": 1}]


def test_uniqueness_and_distinctness_count_duplicates(spark):
    frames = {
        "source": people(spark, [(n,) for n in ("icy", "yosh", "icy", "yosh")], "name string")
    }
    unique = run(spark, "name", config("uniqueness", duplication__array="dup"), frames)
    assert unique.metric == {"total": 4, "unique": 0, "uniqueFraction": 0.0}
    assert unique.rows("dup_metric") == [{"dup": 1, "num": 2}]
    distinct = run(spark, "name", config("distinct", duplication__array="dup"), frames)
    assert distinct.metric == {"total": 4, "distinct": 2}
    assert distinct.rows("dup_metric") == [{"dup": 1, "num": 2}]


def test_uniqueness_is_computed_for_each_window(spark):
    frames = {
        "source": people(spark, [("a", 1), ("a", 2), ("b", 2), ("b", 2)], "name string, t int")
    }
    ran = run(spark, "name", config("uniqueness", duplication__array="d"), frames, by=("t",))
    assert ran.sorted("unique_metric") == [
        {"t": 1, "total": 1, "unique": 1, "uniqueFraction": 1.0},
        {"t": 2, "total": 3, "unique": 1, "uniqueFraction": 1 / 3},
    ]
    assert ran.rows("dup_metric") == [{"t": 2, "dup": 1, "num": 1}]


def test_columns_can_have_the_names_of_results(spark):
    frames = {"source": people(spark, [(1, 1), (1, 1)], "dup int, num int")}
    ran = run(spark, "dup, num", config("uniqueness", duplication__array="d"), frames)
    assert ran.rows("dup_records") == [{"dup_2": 1, "num": 1, "dup": 1}]


def test_a_null_of_earlier_rows_is_a_duplicate(spark):
    frames = {
        "source": people(spark, [(None,), ("x",)], "name string"),
        "old": people(spark, [(None,)], "name string"),
    }
    what = config("distinct", duplication__array="dup", target="old")
    ran = run(spark, "name", what, frames)
    assert ran.metric == {"total": 2, "distinct": 1}
    assert ran.rows("dup_records") == [{"name": None, "dup": 1, "accu_dup": 1}]
    alone = config("distinct", target="old", with__accumulate=False)
    assert run(spark, "name", alone, frames).metric["distinct"] == 2


def test_duplicates_include_earlier_rows(spark):
    # Three new rows of a, which had two rows: all three are duplicates, and four of the five rows are too many.
    frames = {
        "source": people(spark, [("a",)] * 3 + [("b",)] * 2, "name string"),
        "old": people(spark, [("a",)] * 2, "name string"),
    }
    ran = run(spark, "name", config("distinct", duplication__array="d", target="old"), frames)
    assert ran.metric == {"total": 5, "distinct": 1}
    assert ran.rows("dup_metric") == [{"dup": 1, "num": 1}, {"dup": 3, "num": 1}]
    assert ran.sorted("dup_records") == [
        {"name": "a", "dup": 3, "accu_dup": 4},
        {"name": "b", "dup": 1, "accu_dup": 1},
    ]


def test_keys_with_equal_duplicates_are_one_entry(spark):
    # Two rows of A, which had two rows, are too many. Two rows of B, which had one row, are also too many.
    frames = {
        "source": people(spark, [(k,) for k in "AABBCD"], "k string"),
        "old": people(spark, [(k,) for k in "AABC"], "k string"),
    }
    ran = run(spark, "k", config("distinct", duplication__array="dups", target="old"), frames)
    assert ran.metric == {"total": 6, "distinct": 1}
    assert ran.rows("dup_metric") == [{"dup": 1, "num": 1}, {"dup": 2, "num": 2}]


def test_columns_in_brackets_sort_duplicates(spark):
    rows = [("a", "x"), ("a", "y"), ("a", "y"), ("b", "x")]
    frames = {"source": people(spark, rows, "name string, city string")}
    ran = run(spark, "name, [city]", config("distinct", duplication__array="d"), frames)
    assert ran.metric == {"total": 4, "distinct": 2}
    # The first row of a, in x, is not a duplicate.
    assert ran.rows("dup_metric") == [{"city": "y", "dup": 2, "num": 2}]


MINUTE = 60_000
LATENCIES = (60, 80, 90, 560, 60, 660, 80, 660, 70, 440)  # seconds


@pytest.fixture(scope="module")
def times(spark):
    return people(spark, [(10**12, 10**12 + s * 1000) for s in LATENCIES], "ts long, end_ts long")


def test_timeliness_computes_latencies(spark, times):
    what = config("timeliness", threshold="3m", step__size="2m", percentile__values=[0.95])
    ran = run(spark, "ts, end_ts", what, {"source": times})
    assert ran.metric == {
        "total": 10, "avg": 276_000, "min": 60_000, "max": 660_000, "unmeasurable": 0, "late": 4,
    }  # fmt: skip
    assert sorted(r["latency"] for r in ran.rows("late_records")) == [
        440_000,
        560_000,
        660_000,
        660_000,
    ]
    steps = {row["step"]: row["count"] for row in ran.rows("range_metric")}
    assert steps == {0: 6, 3: 1, 4: 1, 5: 2}
    assert ran.rows("percentile_metric") == [{"percentile_95": 660_000}]
    assert ran.plan.metrics[1].name == "step"


def test_each_percentile_has_its_own_name(spark, times):
    what = config("timeliness", percentile__values=["0.29", 0.99, 0.999])
    ran = run(spark, "ts, end_ts", what, {"source": times})
    assert ran.rows("percentile_metric") == [
        {"percentile_29": 70_000, "percentile_99": 660_000, "percentile_99_9": 660_000}
    ]


@pytest.mark.parametrize(
    "kind", ["timestamp", "timestamp_ntz", "date", "string", "long", "double", "text"]
)
def test_times_of_all_types_are_compared(spark, kind):
    cells = {
        "string": "'2020-01-01 00:00:00', '2020-01-02 00:00:00'",
        "text": "concat('157783', '6800000'), concat('157792', '3200000')",
        "long": "1577836800000L, 1577923200000L",
        "double": "1577836800000D, 1577923200000D",
        "date": "DATE'2020-01-01', DATE'2020-01-02'",
        "timestamp": "TIMESTAMP'2020-01-01 00:00:00', TIMESTAMP'2020-01-02 00:00:00'",
        "timestamp_ntz": "TIMESTAMP_NTZ'2020-01-01 00:00:00', TIMESTAMP_NTZ'2020-01-02 00:00:00'",
    }[kind]
    frame = spark.sql(f"SELECT * FROM VALUES ({cells}), (NULL, NULL) AS t(a, b)")
    ran = run(spark, "a, b", config("timeliness"), {"source": frame})
    assert ran.metric == {
        "total": 1, "avg": 86_400_000, "min": 86_400_000, "max": 86_400_000, "unmeasurable": 1,
    }  # fmt: skip


def test_negative_latencies_have_negative_steps(spark):
    frame = people(spark, [(100, 99, 5), (0, 100, 5)], "a long, b long, latency int")
    ran = run(spark, "a, b", config("timeliness", step__size=100, threshold=0), {"source": frame})
    assert sorted(row["step"] for row in ran.rows("range_metric")) == [-1, 1]
    assert ran.rows("late_records")[0]["latency_2"] == 100


def test_latencies_of_windows_end_at_the_window(spark):
    frame = people(spark, [(1000, 2000), (1500, 2000), (1000, 3000)], "ts long, __tmst long")
    what = config("timeliness", percentile__values=1, step__size="1s")
    ran = run(spark, "ts", what, {"source": frame}, by=("__tmst",))
    assert [row["avg"] for row in ran.sorted("time_metrics")] == [750, 2000]
    assert ran.sorted("percentile_metric") == [
        {"__tmst": 2000, "percentile_100": 1000},
        {"__tmst": 3000, "percentile_100": 2000},
    ]
    assert [(r["__tmst"], r["step"], r["count"]) for r in ran.sorted("range_metric")] == [
        (2000, 0, 1), (2000, 1, 1), (3000, 2, 1),
    ]  # fmt: skip


def test_values_and_patterns_are_error_conditions(spark):
    frames = {"source": people(spark, [("zhx",), ("",), (None,), ("b",)], "name string")}
    errors = [
        ErrorCondition("name", "enumeration", ("", "hive_none")),
        ErrorCondition("name", "regex", ("^zh",)),
    ]
    ran = run(spark, "name", config("completeness", errors=errors), frames)
    assert ran.metric == {"total": 4, "incomplete": 3, "complete": 1}
    assert {row["name"] for row in ran.rows("incomplete_records")} == {"zhx", "", None}
    assert run(spark, "name", config("completeness"), frames).metric["incomplete"] == 1


@pytest.mark.parametrize(
    ("kind", "values", "incomplete"),
    [
        ("regex", ("^z",), 2),  # null matches no pattern, and is not a value
        ("regex", ("^z", "it's", r"\d"), 4),
        ("enumeration", ("it's",), 1),
        ("enumeration", ("hive_none",), 1),
        ("enumeration", ("hive_none", "7", 'a"b\\'), 3),
    ],
)
def test_error_conditions_count_incomplete_rows(spark, kind, values, incomplete):
    rows = [("zhx",), ("it's",), (None,), ("7",), ('a"b\\',), ("fine",)]
    frames = {"source": people(spark, rows, "name string")}
    what = config("completeness", errors=[ErrorCondition("NAME", kind, values)])
    assert run(spark, "name", what, frames).metric["incomplete"] == incomplete


def test_error_conditions_apply_to_numbers(spark):
    frames = {"source": people(spark, [(1, "a"), (2, "b"), (None, "c")])}
    what = config("completeness", errors=[ErrorCondition("id", "enumeration", ("1", "none"))])
    assert run(spark, "name", what, frames).metric["incomplete"] == 1


def test_completeness_can_be_an_sql_condition(spark):
    frames = {"source": people(spark, [(1, "a"), (2, None), (None, "c")])}
    what = config("completeness", expr="id > 0 -- and a comment")
    assert run(spark, None, what, frames).metric == {"total": 3, "incomplete": 1, "complete": 2}


def test_duplication_classifies_rows(spark):
    rows = [(1, "a"), (1, "a"), (1, "a"), (2, "b"), (None, None), (None, None), (None, "c")]
    frames = {"source": people(spark, rows)}
    what = config("duplication", bad__record__definition="non_unique")
    ran = run(spark, None, what, frames)
    assert ran.rows("dup_metric") == [
        {"total": 7, "duplicate": 2, "unique": 2, "non_unique": 1, "distinct": 3}
    ]
    statuses = [row["__status"] for row in ran.rows("dup_records")]
    assert (statuses.count("bad"), statuses.count("good")) == (1, 4)
    by_name = run(spark, "name", config("duplication"), frames).rows("dup_metric")
    assert by_name == [{"total": 7, "duplicate": 2, "unique": 2, "non_unique": 1, "distinct": 3}]


def test_schema_conformance_counts_values_of_other_types(spark):
    rows = [("1", "2020-01-01"), ("x", "2020-01-01"), ("2", "never"), (None, "2020-01-01")]
    frames = {"source": people(spark, rows, "zip string, day string")}
    pairs = [{"column": "zip", "type": "INT"}, {"column": "day", "type": "date"}]
    ran = run(spark, None, config("schema-conformance", expr=pairs), frames)
    assert ran.metric == {"total": 4, "incomplete": 3, "complete": 1}
    assert len(ran.rows("nonconforming_records")) == 3


def test_a_column_is_profiled(spark):
    frames = {"source": people(spark, [(10_000 + i, "a") for i in range(1, 14)] + [(None, "b")])}
    what = config("column-profiling", round__scale=2, approx__distinct__count=False)
    ran = run(spark, "id", what, frames)
    assert ran.metric == {
        "column_name": "id", "data_type": "integer", "total": 14, "min_col_len": 5, "max_col_len": 5,
        "avg_col_len": 5.0, "min": 10001.0, "max": 10013.0, "avg": 10007.0, "std_dev": 3.89,
        "variance": 15.17, "kurtosis": -1.21, "distinct_count": 13, "null_count": 1,
    }  # fmt: skip


def test_profiles_of_all_columns_are_computed_for_each_partition(spark):
    frames = {"source": people(spark, [(1, "ab", 1), (None, None, 2)], f"{IDS}, ds int")}
    ran = run(spark, None, config("column-profiling"), frames, by=("ds",))
    found = {(row["ds"], row["column_name"]): row for row in ran.rows("column_profile")}
    assert set(found) == {(1, "id"), (1, "name"), (2, "id"), (2, "name")}
    assert found[1, "name"]["max_col_len"] == 2
    assert found[1, "name"]["min"] is None
    assert found[2, "id"]["avg"] is None  # null, not 0
    assert found[2, "id"]["approx_distinct_count"] == 0


def test_samples_are_reproducible(spark):
    frames = {"source": spark.range(1000).selectExpr("id")}
    what = config("column-profiling", dataset__sample=0.5)
    totals = {run(spark, None, what, frames).metric["total"] for _ in range(2)}
    assert len(totals) == 1
    assert 300 < totals.pop() < 700


def test_record_checks_count_good_and_bad_records(spark):
    frames = {"source": people(spark, [(1, "a"), (2, None), (3, "c")])}
    what = config(
        "record-check",
        "SELECT * FROM source WHERE id < 3 -- two",
        bad__record__definition="name IS NULL",
    )
    ran = run(spark, None, what, frames)
    assert ran.metric == {"total": 2, "incomplete": 1, "complete": 1}
    assert [row["__status"] for row in ran.sorted("checked_records")] == ["good", "bad"]


PROFILES = {
    "columns and methods by group": (
        "source.cntry, source.id.count(), source.age.max() group by source.cntry",
        [{"cntry": "de", "id_count": 2, "age_max": 30}, {"cntry": "fr", "id_count": 1, "age_max": 20}],
    ),
    "counts of all": ("source.count(), source.*.count() as c, *.count() as d, count(source) as e",
           [{"count": 3, "c": 3, "d": 3, "e": 3}]),
    "all clauses": (
        "count(*) as c, cntry from source group by cntry having c > 1 and max(age) < 50 order by c desc, cntry limit 10",
        [{"c": 2, "cntry": "de"}],
    ),
    "expressions": (
        "max(age) + 1 as x, (sum(age) / count(*)) as r, 5",
        [{"x": 31, "r": 20.0, "alias_2": 5}],
    ),
    "method of a call": ("max(source.age).abs()", [{"max_abs": 30}]),
    "names": ("max(age), max(id), max(id) as max_3", [{"max": 30, "max_2": 3, "max_3": 3}]),
    "sorted": (
        "SELECT source.cntry, source.id.count() AS count, source.age.avg() AS avg_age FROM source "
        "GROUP BY source.cntry SORT BY count DESC LIMIT 1",
        [{"cntry": "de", "count": 2, "avg_age": 20.0}],
    ),
    "order of what is not shown": ("cntry group by cntry order by max(age) desc limit 1", [{"cntry": "de"}]),
    "distinct": ("select distinct cntry order by cntry desc", [{"cntry": "fr"}, {"cntry": "de"}]),
    "place": ("cntry, count(*) as n group by 1 order by 2 limit 1", [{"cntry": "fr", "n": 1}]),
    "star": ("* where id = 1", [{"id": 1, "age": 10, "cntry": "de"}]),
    "by zero": ("sum(age) / 0 as d, sum(age) % 0 as m", [{"d": None, "m": None}]),
}  # fmt: skip


@pytest.mark.parametrize("case", PROFILES)
def test_profiling_computes_the_selected_columns(spark, case):
    rule, expected = PROFILES[case]
    rows = [(1, 10, "de"), (2, 30, "de"), (3, 20, "fr")]
    frames = {"source": people(spark, rows, "id int, age int, cntry string")}
    found = run(spark, rule, config("profiling"), frames).rows("profiling")
    if "order by" not in rule.casefold():
        found = sorted(found, key=repr)
    assert found == expected


def test_columns_can_have_the_names_of_keywords(spark):
    frames = {"source": people(spark, [("a",), ("a",), ("b",)], "desc string")}
    rule = "source.desc AS desc, count(*) AS count GROUP BY source.desc ORDER BY count DESC LIMIT 5"
    found = run(spark, rule, config("profiling"), frames).rows("profiling")
    assert found == [{"desc": "a", "count": 2}, {"desc": "b", "count": 1}]


def test_the_most_frequent_value_is_found_for_each_window(spark):
    rows = [(1, "a")] * 3 + [(1, "b")] * 2 + [(1, "c")] + [(2, "z")] * 2 + [(2, "y")]
    frames = {"source": people(spark, rows, "__tmst int, name string")}
    rule = "name, count(*) as n group by name order by n desc limit 2"
    ran = run(spark, rule, config("profiling"), frames, by=("__tmst",))
    assert [tuple(row.values()) for row in ran.rows("profiling")] == [
        (1, "a", 3), (1, "b", 2), (2, "z", 2), (2, "y", 1),
    ]  # fmt: skip
    rule = "name group by name order by count(*) limit 1"
    ran = run(spark, rule, config("profiling"), frames, by=("__tmst",))
    assert [tuple(row.values()) for row in ran.rows("profiling")] == [(1, "c"), (2, "y")]
    ran = run(spark, "*", config("profiling"), frames, by=("__tmst",))
    assert len(ran.rows("profiling")) == 9
    assert ran.views.frame("profiling").columns == ["__tmst", "name"]


def test_missing_elements_are_null(spark):
    frame = spark.sql(
        "SELECT array(1, 2) AS a, map('k', 5) AS m, map(7, 'x') AS n, named_struct('f', 'v') AS s, "
        "array(named_struct('f', 1)) AS t"
    )
    rule = "a[0], a[9], m['k'], m['no'], m.k as dotted, n[7], s.f, s['f'] as g, t[0].f, source['a'][1] as b"
    (row,) = run(spark, rule, config("profiling"), {"source": frame}).rows("profiling")
    assert row == {
        "a_0": 1, "a_9": None, "m_k": 5, "m_no": None, "dotted": 5, "n_7": "x", "s_f": "v", "g": "v",
        "t_0_f": 1, "b": 2,
    }  # fmt: skip


def test_nan_is_tested(spark):
    frame = spark.sql("SELECT * FROM VALUES (double('NaN'), 1), (1D, 2), (NULL, 3) AS t(x, id)")
    rule = "count_if(x is nan) as a, count_if(x is not nan) as b, count_if(id is nan) as c, count_if(x = nan) as d"
    (row,) = run(spark, rule, config("profiling"), {"source": frame}).rows("profiling")
    assert row == {"a": 1, "b": 2, "c": 0, "d": 1}


def test_numbers_keep_their_digits(spark):
    frames = {"source": people(spark, [(1, "a")])}
    rule = (
        "12345678901234567890.123456789012345678 as a, 99999999999999999999 as b, 3d as c, 1e2 as d"
    )
    (row,) = run(spark, rule, config("profiling"), frames).rows("profiling")
    assert [str(value) for value in row.values()] == [
        "12345678901234567890.123456789012345678", "99999999999999999999", "259200000", "100",
    ]  # fmt: skip
