"""Griffin's rules as analyzers. Values are worked out by hand or come from Griffin's own test data."""

import datetime as dt
import json
from decimal import Decimal

import pytest

import tidegauge as tg
from tidegauge.analyzers.core.metric import Scale, flatten
from tidegauge.analyzers.scan.scan import metric_of, scan
from tidegauge.griffin.measures.keys import (
    GriffinDistinctness,
    GriffinDuplication,
    GriffinUniqueness,
)
from tidegauge.griffin.measures.profiling import GriffinProfiling
from tidegauge.griffin.measures.rows import GriffinAccuracy, GriffinCompleteness, GriffinConformance
from tidegauge.griffin.measures.timeliness import GriffinTimeliness

pytestmark = pytest.mark.spark
N = None
USER = "user_id long, first_name string, last_name string, address string, email string, phone string, post_code string"


def users(source):
    """Return the 50 users of Griffin's own tests. Five of them differ in the source."""
    rows = []
    for i in range(1, 51):
        row = [
            *(10000 + i, f"Tom{i:03d}", "Jerrya", f"{200 + i} DisneyCity"),
            *(f"tomajerrya{i:03d}@dc.org", f"1{i:07d}", "94022"),
        ]
        if i == 42:
            row[6] = None
        if source:
            row[0] = 10050 if i == 49 else row[0]
            row[1] = {44: "Tom049", 50: "Tom0"}.get(i, row[1])
            row[3] = row[3] + "123" if i == 39 else row[3]
        rows.append(tuple(row))
    return rows


def measure_values(data, *measures):
    """Measure in one scan and return the value of each metric."""
    states = scan(data, measures).single_group.states
    return [metric_of(m, states[m]).value for m in measures]


def measure_rows(spark, rows, columns, measure):
    return measure_values(spark.createDataFrame(rows, columns).repartition(2), measure)[0].metric


@pytest.fixture(scope="module")
def target(spark):
    """Return a function that stores rows under the name that a test reads."""

    def put(rows, columns, name="measures_target"):
        spark.createDataFrame(rows, columns).createOrReplaceTempView(name)

    return put


ID = "id int, name string"
ABC = "id int, a string, b string"
AGES = "name string, age int"
NAME = "name string"
ACCURACY = {
    "null in one column": (
        *(ID, [(1, N), (2, ""), (3, "x")], [(1, ""), (2, N), (3, "x")]),
        *("source.id = target.id and source.name = target.name", 3, 2),
    ),
    "null names": (NAME, [("a",), (N,)], [("a",)], "source.name = target.name", 2, 1),
    "or": (
        *(ABC, [(1, "p", "q"), (2, "r", "s")], [(1, "x", "q"), (9, "zz", "s")]),
        *("source.id = target.id and (source.a = target.a or source.b = target.b)", 2, 1),
    ),
    "duplicates in the target": (
        *(ID, [(1, "a"), (2, "b")], [(1, "a")] * 3),
        *("source.id = target.id and source.name = target.name", 2, 1),
    ),
    "null and empty names": (
        NAME,
        [("a",), (N,), ("",)],
        [("a",)],
        "source.name = target.name",
        3,
        2,
    ),
    "between": (
        *(AGES, [("a", 10), ("b", 16), ("c", 9), ("d", N)]),
        [("a", 5), ("b", 10), ("c", 9), ("d", N)],
        "source.name = target.name and source.age between (target.age, target.age + 5)",
        *(4, 2),
    ),
    "null keys": ("id int", [(1,), (N,), (3,)], [(N,), (1,)], "source.id = target.id", 3, 1),
    "differ": (
        *(ID, [(1, N), (2, "b")], [(1, "a"), (2, "b")]),
        *("source.id = target.id and source.name != target.name", 2, 1),
    ),
    "braces": (
        *("`{a}` int, s string", [(1, "{other}"), (2, "${x}")], [(1, "x"), (2, "y")]),
        *("source.`{a}` = target.`{a}` and source.s = '{other}'", 2, 1),
    ),
}


@pytest.mark.parametrize("case", ACCURACY)
def test_accuracy_equals_hand_computed_values(spark, target, case):
    columns, rows, others, text, total, miss = ACCURACY[case]
    target(others, columns)
    measure = GriffinAccuracy("acc", text, target="measures_target")
    assert measure_rows(spark, rows, columns, measure) == {
        "total": total,
        "miss": miss,
        "matched": total - miss,
        "matchedFraction": (total - miss) / total,
    }


EVERY = " and ".join(
    f"source.{name} = target.{name}"
    for name in ("user_id", "last_name", "address", "email", "phone", "post_code")
)
UPPER = "upper(source.first_name) = upper(target.first_name)"


@pytest.mark.parametrize(
    ("case", "from_source", "nulls", "miss"),
    [
        ("forward", True, "null-safe", 4),
        ("backward", False, "null-safe", 4),
        ("backward in sql", False, "sql", 5),
    ],
)
def test_accuracy_counts_misses_of_griffins_users(spark, target, case, from_source, nulls, miss):
    target(users(not from_source), USER)
    details = json.dumps({"null.match": nulls, "miss": "missed"})
    rule = GriffinAccuracy(case, f"{EVERY} and {UPPER}", target="measures_target", details=details)
    assert measure_rows(spark, users(from_source), USER, rule) == {
        "total": 50,
        "missed": miss,
        "matched": 50 - miss,
        "matchedFraction": (50 - miss) / 50,
    }


def test_the_target_of_a_job_has_its_own_name(spark, target):
    target([(1,)], "id int", "measures_private_1")
    rule = GriffinAccuracy("acc", "src.id = tgt.id", source="src", target="tgt")
    bound = rule.compared_with("measures_private_1")
    assert bound == rule
    assert bound.reads == ("measures_private_1",)
    metric = metric_of(bound, scan(spark.range(3), [bound]).single_group.states[bound])
    assert (metric.instance, metric.value.metric["matched"]) == ("src", 1)


def test_accuracy_without_rows_is_1_with_weight_0(spark, target):
    target([(1,)], "id int")
    rule = GriffinAccuracy("acc", "source.id = target.id", target="measures_target")
    metric = metric_of(rule, scan(spark.range(0), [rule]).single_group.states[rule])
    assert metric.weight == 0
    assert metric.value.metric == {"total": 0, "miss": 0, "matched": 0, "matchedFraction": 1.0}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("source.idd = target.id", "did you mean 'id'"),
        ("source.id = target.ib", "did you mean 'id'"),
        ("source.id = 1", "no column of 'target'"),
    ],
)
def test_an_invalid_condition_fails_alone(spark, target, text, message):
    target([(1,)], "id int")
    bad = GriffinAccuracy("bad", text, target="measures_target")
    good = GriffinAccuracy("good", "source.id = target.id", target="measures_target")
    states = scan(spark.range(2), [bad, good]).single_group.states
    assert metric_of(good, states[good]).value.metric["matched"] == 1
    with pytest.raises(tg.MetricError, match=message):
        _ = metric_of(bad, states[bad]).value


def test_a_condition_that_does_not_parse_is_refused_immediately():
    with pytest.raises(tg.DslError, match="expected an expression"):
        GriffinAccuracy("bad", "source.id = ", target="measures_target")


def test_a_row_that_breaks_a_condition_fails_only_its_partition(spark, target):
    target([(1,)], "id int")
    data = spark.createDataFrame([("x", "1"), ("x", "2"), ("y", "no")], "part string, id string")
    rule = GriffinAccuracy("acc", "int(source.id) = target.id", target="measures_target")
    groups = scan(data, [rule, tg.Size()], group_by=["part"]).groups
    assert metric_of(rule, groups[("x",)].states[rule]).value.metric["miss"] == 1
    assert metric_of(rule, groups[("y",)].states[rule]).failed


KEYS = [(N,), ("",), ("a",), ("a",)]
DUPS = json.dumps({"duplication.array": "dups"})


def test_null_is_a_value(spark):
    assert measure_rows(spark, KEYS, "k string", GriffinUniqueness("u", "k", details=DUPS)) == {
        "total": 4,
        "unique": 2,
        "uniqueFraction": 0.5,
        "dups": [{"dup": 1, "num": 1}],
    }


def test_many_nulls_are_one_key(spark):
    rows = [(N,)] * 3 + [("a",)]
    assert measure_rows(spark, rows, "k string", GriffinUniqueness("u", "k", details=DUPS)) == {
        "total": 4,
        "unique": 1,
        "uniqueFraction": 0.25,
        "dups": [{"dup": 2, "num": 1}],
    }
    assert measure_rows(spark, rows, "k string", GriffinDistinctness("d", "k"))["distinct"] == 2


def test_distinct_users_are_counted(spark):
    measure = GriffinDistinctness("d", "user_id", details=DUPS)
    assert measure_rows(spark, users(True), USER, measure) == {
        "total": 50,
        "distinct": 49,
        "dups": [{"dup": 1, "num": 1}],
    }


def test_two_duplicated_names_are_counted(spark):
    rows = [("icy",), ("icy",), ("yosh",), ("yosh",)]
    unique, distinct = measure_values(
        spark.createDataFrame(rows, NAME),
        GriffinUniqueness("u", "name", details=DUPS),
        GriffinDistinctness("d", "name", details=DUPS),
    )
    assert (unique.metric["total"], unique.metric["unique"]) == (4, 0)
    assert distinct.metric["distinct"] == 2
    assert unique.metric["dups"] == distinct.metric["dups"] == [{"dup": 1, "num": 2}]
    assert dict(unique.scalars())["dups.1"] == 2.0


def test_duplication_ignores_rows_without_a_key(spark):
    rows = [("a", 1), ("a", 1), ("a", 1), ("b", N), (N, 2), (N, 2), (N, N), (N, N)]
    assert measure_rows(spark, rows, "k string, n int", GriffinDuplication("d", "k, n")) == {
        "total": 8,
        "duplicate": 3,  # two of a, one of (null, 2)
        "unique": 1,
        "non_unique": 2,
        "distinct": 3,
    }


LATENCIES = [60, 80, 90, 560, 60, 660, 80, 660, 70, 440]
NOW = dt.datetime(2020, 1, 1, 12, tzinfo=dt.UTC)


@pytest.mark.parametrize("kind", ["long", "timestamp"])
def test_timeliness_of_griffins_data_equals_hand_computed_values(spark, kind):
    """Mean 276 s; sorted latencies: 60 60 70 80 80 90 440 560 660 660."""
    start = 10**12 if kind == "long" else NOW
    step = (lambda s: s * 1000) if kind == "long" else (lambda s: dt.timedelta(seconds=s))
    rows = [(start, start + step(s)) for s in LATENCIES] + [(start, N), (N, start)]
    details = {
        "threshold": "3m",
        "step.size": "2m",
        "percentile.values": [0.29, 0.95, "0.999", 1],
    }
    rule = GriffinTimeliness("t", "ts, end_ts", details=json.dumps(details))
    assert measure_rows(spark, rows, f"ts {kind}, end_ts {kind}", rule) == {
        "total": 10,
        "avg": 276_000,
        "min": 60_000,
        "max": 660_000,
        "unmeasurable": 2,
        "late": 4,
        "step": [{"step": s, "count": n} for s, n in ((0, 6), (3, 1), (4, 1), (5, 2))],
        "percentile_29": 70_000,
        "percentile_95": 660_000,
        "percentile_99_9": 660_000,
        "percentile_100": 660_000,
    }


def test_each_percentile_has_its_own_name(spark):
    details = json.dumps({"percentile.values": ["0.29", "0.99", "0.999"]})
    rule = GriffinTimeliness("t", "ts, end_ts", details=details)
    metric = measure_rows(spark, [(0, 7)], "ts long, end_ts long", rule)
    names = [name for name in metric if name.startswith("percentile")]
    assert names == ["percentile_29", "percentile_99", "percentile_99_9"]
    assert rule.scale_of("Griffin.t.percentile_99_9") is Scale.SIGNED
    assert rule.scale_of("Griffin.t.unmeasurable") is Scale.COUNT


def test_negative_latencies_have_negative_steps(spark):
    rule = GriffinTimeliness("t", "a, b", details='{"step.size": 100}')
    metric = measure_rows(spark, [(1, 0), (101, 0), (0, 99), (0, 100)], "a long, b long", rule)
    assert metric["step"] == [{"step": s, "count": 1} for s in (-2, -1, 0, 1)]
    assert metric["avg"] == 24  # 97 / 4


def test_completeness_counts_rows_and_nulls_of_columns(spark):
    rows = [("a", 1), (N, 2), ("", N), (N, N)]
    (report,) = measure_values(
        spark.createDataFrame(rows, "name string, n int"),
        GriffinCompleteness("c", "upper(name) as big, source.n", details='{"complete": "good"}'),
    )
    assert report.metric == {"total": 4, "incomplete": 3, "good": 1}
    assert report.extra == {"completeFraction": 0.25, "nulls.big": 2.0, "nulls.n": 2.0}


@pytest.mark.parametrize(
    ("case", "confs", "incomplete"),
    [
        (
            "value and pattern",
            [("name", "enumeration", ["", "hive_none"]), ("name", "regex", ["^zh"])],
            3,
        ),
        ("only null", [("name", "enumeration", ["hive_none"])], 1),
        ("another column", [("other", "enumeration", ["it's"])], 2),
    ],
)
def test_completeness_counts_rows_that_match_error_conditions(spark, case, confs, incomplete):
    rows = [("zhx", "it's"), ("", "x"), (N, "it's"), ("b", "x")]
    errors = [{"column.name": c, "type": t, "values": v} for c, t, v in confs]
    rule = GriffinCompleteness(case, "name", details=json.dumps({"error.confs": errors}))
    metric = measure_rows(spark, rows, "name string, other string", rule)
    assert (metric["total"], metric["incomplete"]) == (4, incomplete)


def test_conformance_counts_values_of_other_types(spark):
    expr = [{"column": "zip", "type": "int"}, {"column": "day", "type": "date"}]
    rule = GriffinConformance("s", "zip, day", details=json.dumps({"expr": expr}))
    rows = [("94022", "2020-01-31"), ("94O22", "2020-01-31"), (N, "no day"), ("1", "2020-02-30")]
    (report,) = measure_values(spark.createDataFrame(rows, "zip string, day string"), rule)
    assert (report.metric["incomplete"], report.metric["complete"]) == (3, 1)
    wrong = {"nonconforming.zip": 2.0, "nonconforming.day": 2.0}
    assert report.extra == {"completeFraction": 0.25, **wrong}


PROFILE = (
    "count(*), count(n) as known, source.n.sum(), source.n.avg() as mean, min(n), max(d) as most, "
    "stddev(n) as spread, var_pop(n) as variance, count_if(n > 1) as above, "
    "approx_count_distinct(s) as names where s != 'out'"
)


def test_profiling_values_add_up(spark):
    rows = [(1, "a", 1.5), (2, "b", 2.5), (6, "a", 3.25), (N, "c", 0.5), (99, "out", 9.0)]
    rows = [(n, s, Decimal(str(d))) for n, s, d in rows]
    metric = measure_rows(
        spark, rows, "n long, s string, d decimal(9,2)", GriffinProfiling("p", PROFILE)
    )
    assert metric.pop("spread") == pytest.approx(7**0.5)  # of 1, 2, 6: 14 / 2
    assert metric.pop("variance") == pytest.approx(14 / 3)
    assert metric == {
        "count": 4,
        "known": 3,
        "n_sum": 9,
        "mean": 3.0,
        "min": 1,
        "most": Decimal("3.25"),
        "above": 2,
        "names": 3,
    }


def test_profiling_without_rows_gives_0_and_null(spark):
    rule = GriffinProfiling("p", "count(*) as n, sum(id), approx_count_distinct(id) as d")
    assert measure_values(spark.range(0), rule)[0].metric == {"n": 0, "sum": None, "d": 0}


def test_null_is_a_group(spark):
    rule = GriffinProfiling("p", "post_code, count(*) as cnt from source group by post_code")
    (report,) = measure_values(spark.createDataFrame(users(True), USER), rule)
    assert report.metric == {
        "p": [{"post_code": None, "cnt": 1}, {"post_code": "94022", "cnt": 49}]
    }
    assert dict(report.scalars()) == {"cnt.null": 1.0, "cnt.94022": 49.0}


def test_groups_are_written_as_an_array(spark):
    data = spark.createDataFrame(users(True), USER).where("user_id < 10014")
    text = "user_id, count(*) as cnt from source group by user_id"
    rule = GriffinProfiling("p", text, details='{"flatten": "array", "name": "rows"}')
    rows = measure_values(data, rule)[0].metric["rows"]
    assert rows == [{"user_id": 10000 + i, "cnt": 1} for i in range(1, 14)]


ALL = [
    GriffinAccuracy("a", "source.n = target.n and source.s = target.s", target="measures_all"),
    GriffinCompleteness("c", "n, s"),
    GriffinConformance("f", "s", details='{"expr": [{"column": "s", "type": "int"}]}'),
    GriffinUniqueness("u", "n, s", details=DUPS),
    GriffinDistinctness("d", "s", details=DUPS),
    GriffinDuplication("dd", "n, s"),
    GriffinTimeliness(
        "t", "n, end_ts",
        details='{"threshold": 3, "step.size": 2, "percentile.values": [0.5, 0.9]}',
    ),
    GriffinProfiling("p", "count(*), sum(n), avg(end_ts), min(n), max(n), var_samp(n), approx_count_distinct(s) as d"),
    GriffinProfiling("g", "s, count(*) as c group by s"),
]  # fmt: skip
COLUMNS = "part string, n long, s string, end_ts long"


def rows_at_random(seed, count):
    import random

    chance = random.Random(seed)  # noqa: S311 - test data
    return [
        (
            chance.choice("xyz"),
            *(chance.choice([N, *range(5)]) for _ in "n"),
            chance.choice([N, "", "a", "7"]),
            chance.choice([N, *range(9)]),
        )
        for _ in range(count)
    ]


def test_all_measures_are_tested():
    from tidegauge.analyzers.core.analyzer import ANALYZERS

    assert {type(m).__name__ for m in ALL} == {n for n in ANALYZERS if n.startswith("Griffin")}


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(2))
def test_partitions_of_one_scan_add_up_to_the_whole(spark, target, seed):
    target(
        [(n, s) for _, n, s, _ in rows_at_random(seed + 9, 8)], "n long, s string", "measures_all"
    )
    data = spark.createDataFrame(rows_at_random(seed, 60), COLUMNS).cache()
    whole = scan(data, ALL).single_group.states
    parts = scan(data, ALL, group_by=["part"]).groups
    assert set(parts) == {("x",), ("y",), ("z",)}
    for measure in ALL:
        states = [part.states[measure].value for part in parts.values()]
        merged = measure.compute_metric_from(type(states[0]).merge(states))
        expected = measure.compute_metric_from(whole[measure].value)
        assert merged.weight == expected.weight
        assert dict(merged.value.scalars()) == pytest.approx(dict(expected.value.scalars()))
        for part in parts.values():
            restored = type(states[0]).unpack(part.states[measure].value.pack())
            assert restored.agrees_with(part.states[measure].value)


def test_metrics_have_the_name_of_the_rule(spark, target):
    target([(1,)], "id int")
    rule = GriffinAccuracy("acc", "source.id = target.id", target="measures_target")
    metric = metric_of(rule, scan(spark.range(4), [rule]).single_group.states[rule])
    assert [(m.name, m.instance, m.value) for m in flatten(metric)] == [
        ("Griffin.acc.total", "source", 4.0),
        ("Griffin.acc.miss", "source", 3.0),
        ("Griffin.acc.matched", "source", 1.0),
        ("Griffin.acc.matchedFraction", "source", 0.25),
    ]
    assert rule.scale_of("Griffin.acc.matchedFraction") is Scale.RATIO
    assert rule.scale_of("Griffin.acc.miss") is Scale.COUNT
