"""The plan and the cost of a scan."""

import shutil

import pytest

import tidegauge as tg
from tests.support.spark_actions import counted, executions
from tidegauge.analyzers.core.analyzer import Frequencies
from tidegauge.analyzers.scan.capabilities import PlanCost, mostly_distinct, plan_cost
from tidegauge.analyzers.scan.grouping import Groups
from tidegauge.analyzers.scan.jobs import Aggregation, Grouping, NativeSketching, SizeCounting
from tidegauge.analyzers.scan.plan import plan
from tidegauge.analyzers.scan.scan import scan

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def table(spark):
    return spark.range(1000).selectExpr(
        "id",
        "CAST(id % 7 AS DOUBLE) AS x",
        "CAST(id % 3 AS STRING) AS s",
        "CONCAT('p', id % 4) AS ds",
    )


def test_equal_aggregations_are_computed_once(table):
    made = plan(
        table,
        [tg.Size(), tg.Mean("x"), tg.Sum("x"), tg.Completeness("x"), tg.StandardDeviation("x")],
    )
    (job,) = made.jobs
    assert len(job.requests) == len(set(job.requests)) == 6  # rows, values, 0, sum, var_pop, max


@pytest.mark.newest
def test_sketches_are_separate_and_frequencies_share_their_shuffle(table):
    analyzers = [
        tg.Size(),
        tg.ApproxCountDistinct("s"),
        tg.ApproxQuantile("x", 0.5),
        tg.ApproxQuantiles("x", [0.1, 0.9]),
        tg.Uniqueness("s"),
        tg.Distinctness("s", where="x > 1"),
        tg.Histogram("s"),
        tg.CountDistinct(["s", "x"]),
    ]
    jobs = plan(table, analyzers).jobs
    assert [type(job) for job in jobs] == [Aggregation, NativeSketching, Grouping, Grouping]
    plain, sketches, one, two = jobs
    assert not any("sketch" in request.text for request in plain.requests)
    assert len(sketches.requests) == 2  # both quantile analyzers read one sketch
    assert one == Grouping((Frequencies(("`s`",), None), Frequencies(("`s`",), "x > 1")))
    assert two == Grouping((Frequencies(("`s`", "`x`"), None),))


@pytest.mark.newest
def test_small_data_takes_one_job_for_aggregates_and_sketches(table):
    analyzers = [tg.Size(), tg.ApproxCountDistinct("s"), tg.Mean("x"), tg.Uniqueness("s")]
    together, grouping = plan(table, analyzers, small=True).jobs
    assert isinstance(grouping, Grouping)
    assert sum("sketch" in request.text for request in together.requests) == 1
    apart, one = (scan(table, analyzers, ["ds"], small=small) for small in (False, True))
    assert {k: g.states for k, g in apart.groups.items()} == {
        k: g.states for k, g in one.groups.items()
    }
    nothing = scan(table.where("false"), analyzers, small=True).single_group
    assert nothing.states[tg.ApproxCountDistinct("s")].value.count == 0


@pytest.mark.newest
def test_a_part_of_the_job_for_small_data_can_consist_of_sketches(table):
    """The search for a failure in a job runs any part of it."""
    job, *_ = plan(table, [tg.Size(), tg.ApproxCountDistinct("s")], small=True).jobs
    sketch = job.requests[-1]
    whole, part = (some.run(table, Groups()) for some in (job, job.only([sketch])))
    assert part == {sketch: whole[sketch]}


def test_group_sizes_give_the_same_metrics_as_frequencies(table):
    """Metrics that need no values leave them in Spark, including filters and nulls."""
    data = table.selectExpr("*", "CASE WHEN x > 4 THEN s END AS hole", "id DIV 2 AS pair")
    columns = ("s", "hole", "pair", ("hole", "x"), "id")
    analyzers = [
        kind(column, where=where)
        for column in columns
        for where in (None, "x > 5", "x > 99")
        for kind in (tg.Uniqueness, tg.Distinctness, tg.CountDistinct, tg.UniqueValueRatio)
    ]
    analyzers += [tg.Entropy("hole"), tg.DuplicateRowCount("pair"), tg.Size()]
    kept = tg.InMemoryStateProvider()
    metrics = tg.calculate(data, analyzers)
    assert metrics.json() == tg.calculate(data, analyzers, save_states_with=kept).json()
    assert metrics[tg.Uniqueness("id")].value == 1.0
    assert metrics[tg.DuplicateRowCount("pair")].value == 1000.0
    assert metrics[tg.CountDistinct("hole")].value == 3.0
    assert metrics[tg.Uniqueness("s", where="x > 99")].empty
    assert tg.calculate(data.where("false"), analyzers)[tg.CountDistinct("s")].value == 0.0
    jobs = plan(data, [*analyzers, tg.Histogram("s")], states=False).jobs
    kinds = {job.requests[0].expressions: type(job) for job in jobs[1:]}
    assert kinds.pop(("`s`",)) is Grouping  # the histogram reads the values
    assert set(kinds.values()) == {SizeCounting}
    assert set(kinds) == {("`hole`", "`x`"), ("`pair`",), ("`id`",)}  # x and hole also give hole


def test_mostly_distinct_rows_are_shuffled_before_they_are_grouped(spark, table):
    """Sizes by id are 1; sizes by x from 0 to 6 are 143 rows for the first six values, 142 for the last."""
    for column, sizes, groups in (("id", [1], [1000]), ("x", [142, 143], [1, 6])):
        request = Frequencies((f"`{column}`",), None, values=False)
        job = SizeCounting((request,), sampled=True)
        assert mostly_distinct(table, [column]) == (column == "id")
        result = job.run(table, Groups())[request][(), ""]
        assert (result.sizes.tolist(), result.groups.tolist()) == (sizes, groups)
    assert not mostly_distinct(table.where("false"), ["id"])


@pytest.mark.parametrize("sample", [True, False])
def test_a_misleading_sample_changes_no_metric(spark, table, monkeypatch, sample):
    """The table has 1,000 keys, and 7 values of x that each occur more than once."""
    monkeypatch.setattr("tidegauge.analyzers.scan.jobs.mostly_distinct", lambda *_: sample)
    for column, distinct, unique in (("id", 1000, 1000), ("x", 7, 0)):
        request = Frequencies((f"`{column}`",), None, values=False)
        result = SizeCounting((request,), sampled=True).run(table, Groups())[request][(), ""]
        assert result.groups.sum() == distinct
        assert result.groups[result.sizes == 1].sum() == unique


def test_costs_are_estimated_from_the_plan(spark, table, tmp_path):
    assert plan_cost(table).small
    joined = table.join(table.hint("shuffle_merge"), "id")
    assert plan_cost(joined).shuffles
    assert not plan_cost(joined).sampled
    named = table.withColumnRenamed("s", "Statistics(sizeInBytes=1.2.E KB")
    assert plan_cost(named).small
    path = str(tmp_path / "gone")
    table.write.parquet(path)
    gone = spark.read.parquet(path)
    assert plan_cost(gone).small
    shutil.rmtree(path)
    with pytest.raises(Exception, match="gone"):
        tg.calculate(gone, [tg.Uniqueness("id")])


@pytest.mark.classic
def test_data_of_unknown_size_are_not_treated_as_small(spark):
    rows = spark.createDataFrame([(1,)], "x int")  # rows from Python, which Connect counts
    assert plan_cost(rows) == PlanCost(8 * 2.0**60, shuffles=False)
    assert plan_cost(rows).sampled


@pytest.mark.soak
def test_wide_tables_are_cut_into_jobs_small_enough_for_code_generation(spark):
    wide = spark.range(10).selectExpr(*(f"id + {i} AS c{i}" for i in range(100)))
    analyzers = [
        a(f"c{i}") for i in range(100) for a in (tg.Completeness, tg.Mean, tg.Minimum, tg.Maximum)
    ]
    jobs = plan(wide, analyzers).jobs
    assert max(len(job.requests) for job in jobs) <= 60
    # A column has 7 buffer fields: a count, two parts of a sum with 2 each, and 2 extremes. So 8 of
    # them
    # fit into 60 fields, 12 jobs hold 96, and the last one takes the remaining 4, for 84 fields.
    assert len(jobs) == 12
    states = scan(wide, analyzers).single_group.states
    assert states[tg.Maximum("c99")].value.maximum == 108.0


@pytest.mark.classic
def test_planning_reads_nothing(spark, table):
    with counted(spark) as actual:
        plan(table, [tg.Size(), tg.Compliance("bad", "nope > 1"), tg.Uniqueness("s")])
    assert [
        e for e in actual if e["status"] != "FAILED"
    ] == []  # unresolved columns are reported as failures


@pytest.mark.classic
def test_the_number_of_actions_is_that_of_jobs_whatever_the_number_of_groups(spark, table):
    analyzers = [
        tg.Size(),
        tg.Mean("x"),
        tg.ApproxCountDistinct("s"),
        tg.Uniqueness("s"),
        tg.Histogram("s"),
    ]
    costs = []
    for by in ([], ["ds"], ["id"]):
        with counted(spark) as actual:
            groups = scan(table, analyzers, by).groups
        costs.append((len(groups), len(actual)))
    assert costs == [(1, 3), (4, 3), (1000, 3)]


def test_groups_by_null_and_the_empty_string_are_hives_default_partition(spark):
    table = spark.createDataFrame([(None, 1), ("", 2), ("a", 3)], "k string, x int")
    groups = scan(table, [tg.Sum("x")], ["k"]).groups
    sums = {key: group.states[tg.Sum("x")].value.total for key, group in groups.items()}
    assert sums == {("__HIVE_DEFAULT_PARTITION__",): 3.0, ("a",): 3.0}


def test_values_that_print_equally_are_one_group(spark):
    """When clocks go back, two hours have the same name."""
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        table = spark.sql(
            "SELECT timestamp_seconds(1383454800 + 3600 * id) AS hour, id AS x FROM range(3)"
        )
        groups = scan(table, [tg.Sum("x"), tg.CountDistinct("x")], ["hour"]).groups
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert {key: g.rows for key, g in groups.items()} == {
        ("2013-11-03 01:00:00",): 2,
        ("2013-11-03 02:00:00",): 1,
    }
    assert groups["2013-11-03 01:00:00",].states[tg.CountDistinct("x")].value.num_groups == 2


def test_a_column_can_be_grouped_by_and_measured(table):
    results = scan(table, [tg.CountDistinct("ds"), tg.CountDistinct(["ds", "s"])], ["ds"]).groups
    assert {len(g.states) for g in results.values()} == {2}
    assert all(g.states[tg.CountDistinct("ds")].value.num_groups == 1 for g in results.values())


def test_an_expression_that_fails_on_the_data_fails_alone_and_only_in_its_group(table):
    bad = tg.Compliance("division", "1 / (id - 500) > 0")
    grouped = tg.Uniqueness("s", where="1 / (id - 501) > 0")
    results = scan(table, [tg.Size(), tg.Mean("x"), bad, grouped, tg.Uniqueness("s")], ["ds"])
    failed = {key for key, g in results.groups.items() if isinstance(g.states[bad], tg.Failure)}
    assert failed == {("p0",)}
    failed = {key for key, g in results.groups.items() if isinstance(g.states[grouped], tg.Failure)}
    assert failed == {("p1",)}
    assert results.groups["p2",].states[bad].value.count == 250
    assert results.groups["p3",].states[tg.Uniqueness("s")].value.num_rows == 250
    assert sum(g.states[tg.Size()].value.num_matches for g in results.groups.values()) == 1000
    assert results.nothing.states[tg.Mean("x")].value.count == 0


def test_a_failure_of_spark_itself_fails_the_scan(spark, table, tmp_path):
    """Missing files are not a data error."""
    import shutil

    table.write.parquet(str(tmp_path / "t"))
    gone = spark.read.parquet(str(tmp_path / "t"))
    shutil.rmtree(tmp_path / "t")
    with pytest.raises(Exception, match="FILE|exist"):
        scan(gone, [tg.Mean("x"), tg.Sum("id")])


@pytest.mark.classic
def test_executions_are_counted(spark, table):
    before = len(executions(spark))
    table.count()
    with counted(spark) as actual:
        table.count()
        table.collect()
    assert len(actual) == 2
    assert len(executions(spark)) == before + 3
