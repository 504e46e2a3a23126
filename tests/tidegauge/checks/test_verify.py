"""`verify` on DataFrames, runs and repositories, and its failing rows. Values worked out by hand."""

import datetime as dt
from dataclasses import replace

import pytest

import tidegauge as tg
from tidegauge.analyzers.core.errors import UnknownNameError
from tidegauge.analyzers.core.partitions import Partition
from tidegauge.analyzers.measures.counts import ComplianceState, NumMatchesAndCount
from tidegauge.analyzers.runs.ledger import RunSpec, RunStatus
from tidegauge.analyzers.runs.recording import RunReport
from tidegauge.repository.testing import MEAN, SIZE, commit, day, measurement

# `day(n, rows=r)` has r rows, of which r - 1 are complete in x; the mean of x is n; s is once b, else a.
COMPLETE = tg.Completeness("x")
LIMIT = "RelativeRateOfChange(0.5, 2.0)"


@pytest.fixture
def days(repo):
    """Store ten rows on each of ten days, but five on the eighth."""
    commit(repo, *(day(n, rows=5 if n == 8 else 10) for n in range(1, 11)))
    return repo


def verified(repo, check, **options):
    return tg.verify(repo, check, **options).frame()


def statuses(repo, check, **options):
    result = verified(repo, check, **options)
    return dict(zip(result["partition"].str[-2:], result["status"], strict=True))


# choice of partitions


def test_the_newest_partition_is_verified_by_default(days):
    check = tg.Check("d").has_size((10, 10)).has_mean("x", (10, 10))
    result = tg.verify(days, check)
    assert result.passed
    assert result.status == "success"
    assert result.frame()["partition"].tolist() == ["ds=2013-01-10"] * 2
    assert result.frame()["value"].tolist() == [10, 10]
    assert result.failures.empty
    assert len(verified(days, check, partitions="all")) == 20
    size = tg.Check("d").has_size(6)
    assert statuses(days, size, partitions="ds between 2013-01-07 and 2013-01-09") == {
        "07": "success",
        "08": "failure",
        "09": "success",
    }
    assert statuses(days, size, partitions=["ds=2013-01-08"]) == {"08": "failure"}
    with pytest.raises(tg.PartitionSelectionError, match="did you mean"):
        tg.verify(days, size, partitions=["ds=2013-01-80"])
    with pytest.raises(tg.PartitionSelectionError, match="no partition key"):
        tg.verify(days, size, partitions="hr=3")
    with pytest.raises(
        tg.PartitionSelectionError,
        match="matches none of 10 partitions \\(nearest: ds=2013-01-10; newest: ds=2013-01-10\\)",
    ):
        tg.verify(days, size, partitions="ds>=2014-01-01")


def test_every_database_gives_the_same_result(url, tmp_path):
    check = (
        tg.Check("d")
        .has_size(6)
        .has_distinctness("s", 0.1)
        .not_below(COMPLETE, "7d", by=0.05)
        .is_usual(SIZE, LIMIT)
    )
    with tg.Repository(url, artifacts=tmp_path / "artifacts") as repo:
        commit(repo, *(day(n, rows=4 if n == 8 else 10) for n in range(1, 11)))
        result = verified(repo, check, partitions="ds>=2013-01-08")
    assert result["status"].tolist() == [
        *("failure", "success", "failure", "failure"),
        *("success", "success", "success", "failure"),
        *("success", "success", "success", "success"),
    ]


def test_as_of_verifies_an_earlier_state_of_the_repository(days):
    run = commit(days, day(10, "b", rows=3))
    check = tg.Check("d").has_size(5)
    assert tg.verify(days, check).status == "error"
    assert tg.verify(days, check, as_of=run - 1).passed


def test_a_run_is_verified_on_the_partitions_that_it_measured(days):
    run = days.store.open_run(RunSpec("d", "db.t", ("ds",)))
    changes = days.store.commit_batch(run, [day(3, "b", rows=2), day(4)])
    days.store.close_run(run, RunStatus.COMPLETE, {})
    report = RunReport(run, "d", RunStatus.COMPLETE, {"ds=2013-01-03": changes[0].change})
    commit(days, day(3, "c", rows=10))
    assert statuses(tg.Run(report, days), tg.Check("d").has_size(5)) == {"03": "failure"}
    nothing = tg.verify(
        tg.Run(RunReport(run, "d", RunStatus.COMPLETE), days), tg.Check("d").has_size(5)
    )
    assert nothing.passed
    assert str(nothing) == "success: nothing to verify"


def test_partitions_without_a_time_and_segments_are_verified(repo):
    run = repo.store.open_run(RunSpec("d", "t", ("ds", "country")))

    def country(number, name, rows):
        base = day(number, rows=rows)
        values = (*base.partition.values, name)
        segment = f"country={name}"
        actual = tuple(replace(m, segment=segment) for m in base.measurements)
        partition = Partition(("ds", "country"), values)
        return replace(base, partition=partition, measurements=actual, segment=segment)

    repo.store.commit_batch(
        run, [country(1, "US", 5), country(2, "US", 6), country(2, "DE", 7), country(9, "DE", 8)]
    )
    repo.store.close_run(run, RunStatus.COMPLETE, {})
    check = tg.Check("d").not_below(SIZE, "1d")
    result = verified(repo, check, partitions="all")
    reported = list(zip(result["segment"], result["value"], result["status"], strict=True))
    assert reported == [
        ("country=US", 5, "no history"),
        ("country=DE", 7, "no history"),
        ("country=US", 6, "success"),
        ("country=DE", 8, "no history"),
    ]
    assert verified(repo, check, partitions="country=US", segment="country=US")[
        "value"
    ].tolist() == [
        5,
        6,
    ]
    assert verified(repo, check, partitions="all", segment="country=DE")["value"].tolist() == [7, 8]


def test_the_dataset_is_chosen_by_option_or_check(days):
    check = tg.Check("c").has_size(1)
    assert tg.verify(days, check).passed
    commit(days, day(1, rows=1), dataset="other")
    with pytest.raises(tg.SuiteError, match="the dataset is ambiguous"):
        tg.verify(days, check)
    assert verified(days, check, dataset="other")["value"].tolist() == [1]
    both = [tg.Check("c", dataset="other").has_size(1), tg.Check("c", dataset="d").has_size(1)]
    frame = tg.verify(days, both).frame()
    assert frame["dataset"].tolist() == ["other", "d"]
    assert frame["check"].tolist() == ["c", "c (2)"]
    with pytest.raises(tg.UnknownDatasetError):
        tg.verify(days, check, dataset="dd")


@pytest.mark.parametrize(
    ("checks", "options"),
    [
        ([], {}),
        (["c"], {}),
        (tg.Check("c"), {}),
        (tg.Check("c").has_size(1), {"partition": "ds=2013-01-01"}),
        (tg.Check("c").is_usual(tg.Size(), "Seasonl"), {}),
        (tg.Check("c").is_usual(tg.Size(), "MissingPartition"), {}),
        (tg.Check("c").is_usual(tg.Size(), "Drift('x')"), {}),
        (tg.Check("c").is_usual(tg.Size(), rule="Threshhold(3)"), {}),
    ],
)
def test_invalid_options_are_refused(days, checks, options):
    with pytest.raises(tg.SuiteError):
        tg.verify(days, checks, **options)
    with pytest.raises(tg.SuiteError):
        tg.verify(None, tg.Check("c").has_size(1))


# stored numbers and states


def test_numbers_are_read_from_facts_and_other_values_from_states(days):
    check = (
        tg.Check("d")
        .has_histogram_values("s", lambda d: d["a"].absolute == 9)
        .has_number_of_distinct_values("s", (2, 2))
        .has_distinctness("s", (0.2, 0.2))
        .has_uniqueness("s", (0.1, 0.1))
    )
    assert tg.verify(days, check).frame()["status"].tolist() == ["success"] * 4
    again = tg.verify(days, tg.Check("d").has_distinctness("s", 0.3), partitions="all").frame()
    assert again["value"].tolist() == [0.2] * 7 + [0.4] + [0.2] * 2


def test_failed_empty_and_unmeasured_metrics_have_different_statuses(repo):
    filtered = tg.Completeness("y", where="z > 1")
    commit(repo, day(1, rows=0, groups={}, extra=[measurement(filtered, NumMatchesAndCount())]))
    check = (
        tg.Check("d")
        .has_size((0, 0))
        .is_complete("x")
        .is_complete("y")
        .where("z > 1")
        .has_mean("nope", 1)
        .has_max("x", 1)
    )
    frame = tg.verify(repo, check).frame()
    assert frame["status"].tolist() == ["success", "no data", "no data", "failure", "failure"]
    assert frame["value"].isna().tolist() == [False, True, True, True, True]
    assert "no non-null value" in frame["message"][1]
    assert frame["message"][3].startswith("Mean('nope') has no value: no column 'nope'")
    assert frame["message"][4] == "Maximum('x') was not measured; add Maximum('x') to the suite"


def test_rule_metrics_are_found_by_their_condition(repo):
    check = tg.Check("d").is_positive("x", at_least=0.5)
    (rule,) = check.analyzers
    commit(repo, day(1, extra=[measurement(rule, ComplianceState(4, 5, 10))]))
    result = tg.verify(repo, check)
    assert result.frame()["value"].tolist() == [0.4]
    assert result.frame()["constraint"].tolist() == ["x is positive: at least 0.5"]
    assert not tg.verify(repo, tg.Check("d").is_positive("x").where("y")).passed


# history


def test_last_week_is_counted_from_the_time_of_the_partition(days):
    """9 of 10 rows are complete, and 4 of 5 on the eighth: ten points less than a week earlier."""
    lower = tg.Check("d").not_below(COMPLETE, "7d", by=0.05)
    assert statuses(days, lower, partitions="all") == {
        **dict.fromkeys(["01", "02", "03", "04", "05", "06", "07"], "no history"),
        "08": "failure",
        "09": "success",
        "10": "success",
    }
    failed = tg.verify(days, lower, partitions="all").failures
    assert failed["message"].tolist() == [
        "x is 80% complete, after 90% (ds=2013-01-01): the difference is -0.1, at least -0.05 required"
    ]
    assert tg.verify(days, tg.Check("d").not_below(COMPLETE, "7d", by=0.1), partitions="all").passed
    mean = tg.Check("d").compared(SIZE, "mean of 3d", (0.9, 1.1), "ratio")
    assert statuses(days, mean, partitions="ds>=2013-01-07") == {
        "07": "success",
        "08": "failure",  # 5 / 10
        "09": "failure",  # 10 / ((10 + 10 + 5) / 3)
        "10": "failure",
    }
    previous = tg.Check("d").not_above(SIZE, "previous")
    assert statuses(days, previous, partitions="ds>=2013-01-08") == {
        "08": "success",
        "09": "failure",
        "10": "success",
    }


def test_a_new_version_is_not_compared_with_the_previous_version(repo):
    commit(repo, day(1, rows=100))
    commit(repo, day(1, "b", rows=10))
    previous = tg.Check("d").not_below(SIZE, "previous", missing="pass")
    assert statuses(repo, previous) == {"01": "no history"}
    commit(repo, day(2, rows=10))
    assert statuses(repo, previous) == {"02": "success"}  # verified with the current version


def test_metrics_that_exist_only_in_states_have_a_history(days):
    check = tg.Check("d").not_above(tg.Distinctness("s"), "previous")
    assert statuses(days, check, partitions="ds>=2013-01-07") == {
        "07": "success",
        "08": "failure",  # 2 of 5 values, after 2 of 10
        "09": "success",
        "10": "success",
    }


def test_is_usual_uses_earlier_partitions_and_never_the_own_value(repo):
    """The fifth day arrives last, in two versions: 40 rows, then 20. Earlier days have 10 rows,
    later days 40. Compared with its own 40 or with later days, 20 would be usual."""
    commit(repo, *(day(n, rows=10) for n in range(1, 5)), *(day(n, rows=40) for n in range(6, 11)))
    check = tg.Check("d").is_usual(SIZE, LIMIT)
    commit(repo, day(5, rows=40))
    assert statuses(repo, check, partitions="ds=2013-01-05") == {"05": "failure"}
    commit(repo, day(5, "b", rows=21))
    result = verified(repo, check, partitions="ds=2013-01-05")
    assert result["status"].tolist() == ["failure"]  # 21 / 10
    assert (
        result["message"]
        .str.startswith("row count is 21, unusual for RelativeRateOfChange(0.5, 2.0)")
        .all()
    )
    commit(repo, day(5, "c", rows=20))
    assert statuses(repo, check, partitions="ds=2013-01-05") == {"05": "success"}  # 20 / 10
    assert statuses(repo, check, partitions="all")["01"] == "no history"


def test_partitions_of_the_same_time_are_not_compared(repo):
    """Two partitions have the same day."""
    commit(repo, day(1, rows=10))
    twin = replace(day(2, rows=100), partition=Partition(("ds",), ("20130102",)))
    commit(repo, day(2, rows=15), twin)
    check = tg.Check("d").is_usual(SIZE, LIMIT).not_above(SIZE, "previous", by=10)
    result = verified(repo, check, partitions=["ds=2013-01-02", "ds=20130102"])
    status_by_value = {
        (p[-2:], v): s
        for p, v, s in zip(result["partition"], result["value"], result["status"], strict=True)
    }
    assert status_by_value == {("02", 15): "success", ("02", 100): "failure"}


def test_the_default_detector_needs_history(repo):
    commit(repo, *(day(n, rows=1000 + n % 3) for n in range(1, 30)), day(30, rows=20))
    check = tg.Check("d").is_usual(SIZE)
    actual = statuses(repo, check, partitions="all")
    assert [actual[f"{n:02}"] for n in range(1, 8)] == ["no history"] * 7
    assert actual["30"] == "failure"
    assert actual["29"] == "success"
    low = tg.Check("d").is_usual(SIZE, direction="high")
    assert tg.verify(repo, low).passed
    repo.detect("d", [tg.Monitor({"name": "Size"})])
    (anomaly,) = repo.anomalies("d")["id"].tolist()
    repo.label(anomaly, "ignore", by="me")
    assert tg.verify(repo, check).passed


# output


def test_results_have_frames_lines_and_errors(days):
    checks = [
        tg.Check("sizes", "warning").has_size(6, hint="<b>Call</b> the feed").is_complete("x", 0.5),
        tg.Check("sizes").has_mean("x", (None, 8)),
    ]
    result = tg.verify(days, checks, partitions="ds>=2013-01-08")
    assert result.names == ["sizes", "sizes (2)"]
    assert result.status == "error"
    assert (result.status_of(0), result.status_of("sizes (2)"), result.status_of(checks[0])) == (
        "warning",
        "error",
        "warning",
    )
    frame = result.frame()
    assert list(frame.columns) == [
        *("check", "level", "dataset", "segment", "partition", "time", "constraint", "status"),
        *("value", "message", "hint", "analyzer"),
    ]
    assert len(frame) == 9
    assert frame["time"].iloc[0] == dt.datetime(2013, 1, 8, tzinfo=dt.UTC)
    assert result.failures["message"].tolist() == [
        "row count is 5, at least 6 required. <b>Call</b> the feed",
        "Mean of x is 9, at most 8 required",
        "Mean of x is 10, at most 8 required",
    ]
    assert str(result).splitlines() == [
        "error: 3 of 9 constraints failed, in 3 of 3 partitions",
        "  sizes (warning), d ds=2013-01-08: row count is 5, at least 6 required. <b>Call</b> the feed",
        "  sizes (2) (error), d ds=2013-01-09: Mean of x is 9, at most 8 required",
        "  sizes (2) (error), d ds=2013-01-10: Mean of x is 10, at most 8 required",
    ]
    page = result._repr_html_()
    assert "&lt;b&gt;Call" in page
    assert "<b>Call" not in page
    with pytest.raises(tg.CheckFailedError, match="3 of 9 constraints failed") as caught:
        result.raise_if_failed()
    assert caught.value.verification is result
    mild = tg.verify(days, checks[0], partitions="ds=2013-01-08")
    mild.raise_if_failed()
    with pytest.raises(tg.CheckFailedError):
        mild.raise_if_failed("warning")
    with pytest.raises(UnknownNameError, match="did you mean 'sizes'"):
        mild.status_of("size")
    with pytest.raises(tg.SuiteError, match="no data was scanned"):
        mild.rows("sizes")
    assert "success" in tg.verify(days, tg.Check("d").has_size(1))._repr_html_()


# DataFrames


@pytest.fixture(scope="module")
def table(spark):
    rows = [
        (1, "a", 5.0, "x@example.org", 1, 2),
        (2, "b", -1.0, "nothing", 2, 2),
        (2, "c", None, None, None, 1),
        (4, None, 7.5, "y@example.org", 3, 9),
    ]
    return spark.createDataFrame(
        rows, "id int, `na``me` string, x double, mail string, p int, q int"
    )


RULES = (
    tg.Check("rows")
    .is_unique("id")
    .is_complete("`na``me`")
    .is_non_negative("x")
    .contains_email("mail", at_least=0.5)
    .is_less_than("p", "q")
    .has_min("x", 0)
    .has_max("x", (None, 7))
    .has_min_length("mail", 8)
    .is_contained_in("`na``me`", ["a", "b"])
    .has_size(4)
)


@pytest.mark.classic
@pytest.mark.spark
def test_a_frame_is_verified_by_one_scan(spark, table):
    from tests.support.spark_actions import counted

    result = tg.verify(table, RULES)
    assert result.frame()["value"].tolist() == [0.5, 0.75, 0.75, 0.5, 0.5, -1, 7.5, 7, 0.75, 4]
    assert result.frame()["status"].tolist() == [
        *("failure", "failure", "failure", "success", "failure", "failure", "failure", "failure"),
        *("failure", "success"),
    ]
    assert result.frame()["partition"].tolist() == [""] * 10
    scalar = tg.Check("a").has_size(1).has_mean("x", 0).is_complete("x").is_positive("x")
    with counted(spark) as count:
        tg.verify(table, [scalar, scalar], examples=False)
    assert len(count) == 1
    with counted(spark) as count:
        tg.verify(table, [scalar, scalar])
    assert len(count) == 2  # one more scan finds bad values of x


@pytest.mark.spark
def test_null_passes_where_deequ_lets_it_pass(spark):
    data = spark.createDataFrame([(None, None), (1, 0)], "x int, y int")
    check = (
        tg.Check("nulls")
        .is_non_negative("x")
        .is_positive("x")
        .is_contained_in("x", [1])
        .is_contained_in("x", lower=1, upper=1)
        .are_any_complete(["x", "y"], 0.5)
        .are_complete(["x", "y"], 0.5)
        .is_greater_than("x", "y", 0.5)
        .is_positive("y", 0.5)
    )
    result = tg.verify(data, check)
    assert result.frame()["value"].tolist() == [1, 1, 1, 1, 0.5, 0.5, 0.5, 0.5]
    assert result.passed
    nothing = tg.verify(data.where("false"), tg.Check("n").has_size((0, 0)).is_complete("x"))
    assert nothing.frame()["status"].tolist() == ["success", "no data"]
    assert (nothing.status, nothing.passed) == ("error", False)
    assert str(nothing).startswith("error: 0 of 2 constraints failed, 1 had no data")
    filtered = tg.Check("f").is_complete("x").where("x > 9")
    assert tg.verify(data, filtered).frame()["status"].tolist() == ["no data"]
    for on_empty, status in (("pass", "success"), ("warn", "warning"), ("fail", "error")):
        assert tg.verify(data, filtered, on_empty=on_empty).status == status
    with pytest.raises(tg.SuiteError, match="unknown on_empty 'ok'"):
        tg.verify(data, filtered, on_empty="ok")
    broken = tg.verify(data, tg.Check("b").satisfies("nope > 1", "r").is_complete("zz").has_size(2))
    assert broken.frame()["status"].tolist() == ["failure", "failure", "success"]


@pytest.mark.spark
def test_failing_rows_list_the_constraints_that_they_break(table):
    result = tg.verify(table, RULES)
    rows = {(r.id, r["na`me"]): r.broken for r in result.rows("rows").collect()}
    at_least = ": at least 1"
    assert rows == {
        (2, "b"): [
            f"Uniqueness('id'){at_least}",
            f"x is not negative{at_least}",
            "PatternMatch('mail', 'EMAIL'): at least 0.5",
            f"p < q{at_least}",
            "Minimum('x'): at least 0",
            "MinLength('mail'): at least 8",
        ],
        (2, "c"): [
            f"Uniqueness('id'){at_least}",
            "PatternMatch('mail', 'EMAIL'): at least 0.5",
            f"p < q{at_least}",
            f"`na``me` is one of a, b{at_least}",
        ],
        (4, None): [f"Completeness('`na``me`'){at_least}", "Maximum('x'): at most 7"],
    }
    assert result.rows(RULES, limit=1).count() == 1
    assert result.rows(0, data=table.where("id = 4")).columns == [*table.columns, "broken"]
    with pytest.raises(tg.SuiteError, match="the data already has a column 'X'"):
        result.rows(RULES, column="X")


@pytest.mark.spark
def test_row_level_results_have_a_column_for_each_constraint(table):
    check = (
        tg.Check("c").is_complete("x").is_complete("x").where("id = 1").is_complete("x").has_size(1)
    )
    result = tg.verify(table, check)
    judged = result.row_level(check)
    names = ["Completeness('x'): at least 1", "Completeness('x', where='id = 1'): at least 1"]
    assert judged.columns == [*table.columns, *names, f"{names[0]} (2)"]
    flags = [tuple(row)[-3:] for row in judged.orderBy("id", "q").collect()]
    assert flags == [(True,) * 3, (False, True, False), (True,) * 3, (True,) * 3]
    silent = (
        tg.Check("s").has_size(1).has_completeness("x", (None, 0.5)).has_min("x", lambda m: m > 0)
    )
    with pytest.raises(
        tg.SuiteError,
        match=r"has no constraint with a row-level result: Size\(\): at least 1; Comp",
    ):
        tg.verify(table, silent).rows("s")


@pytest.mark.spark
def test_required_values_are_compared_as_in_sql(spark):
    """Types follow SQL's comparison rules. Without rows, no value occurs."""
    frame = spark.sql(
        "SELECT * FROM VALUES ('it\\'s', 1.50, 2, DATE'2026-01-31'), (NULL, 2.00, 3, NULL) AS t(s, d, n, at)"
    )
    check = (
        tg.Check("a")
        .has_values("s", ["it's"])
        .has_values("d", [1.5, 2])
        .has_values("n", [3, 4])
        .has_values("at", [dt.date(2026, 1, 31), dt.date(2026, 2, 1)])
        .has_values("n", [3])
        .where("s IS NOT NULL")
    )
    assert verified(frame, check)["message"].tolist() == [
        "",
        "",
        "n: no row has '4'",
        "at: no row has '2026-02-01'",
        "n where s IS NOT NULL: no row has '3'",
    ]
    assert verified(frame.limit(0), check)["status"].tolist() == ["failure"] * 5


def test_a_frame_and_the_repository_agree(spark, repo):
    data = spark.createDataFrame(
        [
            (day, i, i % 3 or None, f"k{i % 4}")
            for day in ("2013-01-01", "2013-01-02")
            for i in range(7)
        ],
        "ds string, n long, x int, s string",
    )
    check = (
        tg.Check("agree")
        .has_size((7, 7))
        .is_complete("x", 0.6)
        .is_unique("n")
        .has_standard_deviation("n", (2, 2))
        .has_number_of_distinct_values("s", (4, 4))
        .has_histogram_values("s", lambda d: d["k0"].absolute == 2)
        .has_approx_quantile("n", 0.5, (3, 3))
        .has_data_type("s", "String")
        .has_entropy("s", 1)
        .has_mean("s", 0)
        .is_complete("x")
        .where("n > 100")
        .is_positive("x", 1)
    )
    run = tg.analyze(data, tg.Suite("agree", check.analyzers, partition_by=["ds"]), repository=repo)
    columns = ["constraint", "status", "value", "message", "hint", "analyzer"]
    stored = tg.verify(run, check).frame()
    assert stored["partition"].tolist() == ["ds=2013-01-01"] * 12 + ["ds=2013-01-02"] * 12
    for ds, part in stored.groupby("partition"):
        fresh = tg.verify(data.where(f"ds = '{ds[3:]}'"), check).frame()
        assert fresh[columns].equals(part[columns].reset_index(drop=True))
    assert (
        tg.verify(repo, check)
        .frame()[columns]
        .equals(stored[columns].iloc[12:].reset_index(drop=True))
    )


@pytest.mark.spark
def test_a_frame_is_verified_against_stored_history(spark, repo):
    """Ten rows a day until the fourth, forty from the sixth. The fifth is stored with 40 rows and measured again."""
    commit(
        repo,
        *(day(n, rows=10) for n in range(1, 5)),
        day(5, rows=40),
        *(day(n, rows=40) for n in range(6, 11)),
    )
    check = tg.Check("d").is_usual(SIZE, LIMIT).not_above(SIZE, "4d", by=10).not_above(MEAN, "1d")
    frames = {n: spark.range(n).selectExpr("CAST(4 AS DOUBLE) AS x") for n in (20, 21)}
    place = {"repository": repo, "partition": "ds=2013-01-05"}
    assert tg.verify(frames[20], check, **place).passed
    result = tg.verify(frames[21], check, **place)
    assert result.frame()["status"].tolist() == ["failure", "failure", "success"]
    assert result.frame()["partition"].tolist() == ["ds=2013-01-05"] * 3
    timed = tg.verify(frames[21], check, repository=repo, time="2013-01-05")
    assert timed.frame()["status"].tolist() == ["failure", "failure", "success"]
    later = tg.verify(frames[20], check, repository=repo, time="2013-01-11")
    assert later.frame()["status"].tolist() == ["success", "success", "success"]
    alone = tg.verify(frames[20], check)
    assert alone.frame()["status"].tolist() == ["no history"] * 3
    with pytest.raises(tg.SuiteError, match="the partition or time of the data is needed"):
        tg.verify(frames[20], check, repository=repo)
    with pytest.raises(tg.SuiteError, match="partitions= applies only to a run or a repository"):
        tg.verify(frames[20], check, partitions="all")


def test_the_first_day_of_a_dataset_has_no_history(spark, tmp_path):
    repo = tg.Repository(f"sqlite:///{tmp_path}/new.db")
    check = tg.Check("d").is_usual(SIZE, LIMIT).not_below(SIZE, "1d", by=10).has_size(20)
    place = {"repository": repo, "dataset": "brandnew", "partition": "ds=2013-01-05"}
    result = tg.verify(spark.range(20), check, **place)
    assert result.frame()["status"].tolist() == ["no history", "no history", "success"]
    assert set(result.frame()["partition"]) == {"ds=2013-01-05"}
    with pytest.raises(tg.SuiteError, match="the partition or time of the data is needed"):
        tg.verify(spark.range(20), check, repository=repo, dataset="brandnew")
    repo.record("brandnew", "n", 1.0, partition="ds=2013-01-04")
    with pytest.warns(tg.RepositoryWarning, match="did you mean 'brandnew'. Its checks have no"):
        tg.verify(spark.range(20), check, **{**place, "dataset": "brandnwe"})


def test_a_constraint_that_cannot_be_resolved_leaves_the_rows_of_the_others(spark):
    data = spark.createDataFrame([(1, "5"), (1, None), (2, "x")], "id int, s string")
    check = (
        tg.Check("c")
        .is_unique("id")
        .is_complete("s")
        .is_complete("renamed")
        .satisfies("id >", "half a condition")
        .satisfies("CAST(s AS INT) > 0", "a number")
    )
    result = tg.verify(data, check)
    with pytest.warns(tg.VerdictWarning, match="(?s)no column 'renamed'.*CAST_INVALID"):
        rows = result.rows(check).collect()
    assert sorted((row["id"], len(row["broken"])) for row in rows) == [(1, 1), (1, 2)]
    with pytest.warns(tg.VerdictWarning, match="half a condition"):
        assert len(result.row_level(check).columns) == 4


def test_a_constraint_that_raises_on_the_data_is_an_error(spark):
    data = spark.createDataFrame([(1, "5"), (2, "")], "id int, s string")
    (metric,) = tg.calculate(data, [tg.Compliance("n", "CAST(s AS INT) > 0")])
    assert metric.failed
    assert "CAST_INVALID_INPUT" in str(metric.outcome.error)
    assert tg.verify(data, tg.Check("c").is_positive("s")).status == "error"


@pytest.mark.parametrize("answer", ["x", 1.0, None, float("nan")])
def test_only_booleans_are_valid_results_of_assertions(spark, answer):
    result = tg.verify(spark.range(3), tg.Check("c").has_size(lambda n: answer))
    assert result.status == "error"
    assert "a verdict is True or False, not" in str(result)
