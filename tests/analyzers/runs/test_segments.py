"""Segments: all metrics also for each value of some columns, in the same pass."""

import pytest

import tidegauge as tg
from tests.support.integrity import check
from tests.support.spark_actions import counted

pytestmark = pytest.mark.spark
DAYS = ("2013-01-01", "2013-01-02", "2013-01-03")
ANALYZERS = [
    tg.Size(),
    tg.Mean("x"),
    tg.Completeness("x", where="x <> 3"),
    tg.ApproxCountDistinct("carrier"),
    tg.ApproxQuantile("x", 0.5),
    tg.ReqQuantile("x", 0.9),
    tg.CountDistinct(["carrier", "x"]),
    tg.Histogram("carrier"),
    tg.CustomSql("max(x) - min(x)"),
    tg.ReferentialIntegrity("x", "segment_reference", "id"),
]


@pytest.fixture(scope="module")
def rows(spark):
    spark.range(10).createOrReplaceTempView("segment_reference")
    origins = ["EWR", "EWR", "EWR", "JFK", "JFK", None, "__other__", "a/b=c%", "LGA", ""]
    return spark.createDataFrame(
        [
            (o, "AA" if i % 3 else "UA", i * 1.5 if i % 4 else None, day)
            for day in DAYS
            for i, o in enumerate(origins * 3)
        ],
        "origin string, carrier string, x double, ds string",
    )


def suite(**options):
    options = {"partition_by": ["ds"], "segments": [["origin"], ["carrier", "origin"]], **options}
    return tg.Suite("seg", ANALYZERS, **options)


def values(frame):
    columns = ["partition", "segment", "name", "instance", "status", "value"]
    return {tuple(r[:4]): (r[4], r[5]) for r in frame[columns].itertuples(index=False)}


@pytest.mark.soak
def test_each_segment_equals_a_measurement_of_its_rows_alone(spark, rows, repo):
    tg.analyze(rows, suite(), repository=repo)
    actual = values(repo.metrics("seg"))
    expected = {
        "": "true",
        "origin=EWR": "origin = 'EWR'",
        "origin=JFK": "origin = 'JFK'",
        "origin=": "origin = ''",
        "origin=__HIVE_DEFAULT_PARTITION__": "origin IS NULL",
        "origin=%5F_other__": "origin = '__other__'",
        "origin=a%2Fb%3Dc%25": "origin = 'a/b=c%'",
        "origin=__other__": "false",
        "carrier=AA/origin=EWR": "carrier = 'AA' AND origin = 'EWR'",
        "carrier=UA/origin=__HIVE_DEFAULT_PARTITION__": "carrier = 'UA' AND origin IS NULL",
    }
    for segment, condition in expected.items():
        part = rows.where(f"ds = '2013-01-02' AND ({condition})")
        for metric in tg.calculate(part, ANALYZERS):
            for flat in tg.flatten(metric):
                status, value = actual["ds=2013-01-02", segment, flat.name, flat.instance]
                assert (status == "empty") == flat.empty, (segment, flat)
                assert flat.failed or value == pytest.approx(flat.value), (segment, flat)
    segments = {key[1] for key in actual}
    assert len([s for s in segments if s.startswith("origin=")]) == 8
    assert check(repo.database, repo.artifacts) == []


@pytest.mark.soak
def test_states_of_a_segment_can_be_merged(rows, repo):
    tg.analyze(rows, suite(), repository=repo)
    whole = tg.Mean("x").calculate(rows.where("origin = 'JFK'")).value
    assert repo.merge("seg", tg.Mean("x"), segment="origin=JFK").value == pytest.approx(whole)
    assert repo.merge("seg", tg.Size()).value == 90
    assert repo.merge("seg", tg.Size(), segment="origin=EWR").value == 27
    assert repo.merge("seg", tg.Size(), segment="origin=__other__").value == 0


def test_the_largest_segments_are_kept_and_later_values_join_the_others(spark, rows, repo):
    few = suite(segments=[["origin"]], max_segments=2)
    first = rows.where("ds = '2013-01-01'")
    tg.analyze(first, few, repository=repo)
    sizes = repo.metrics("seg", name="Size")
    assert dict(zip(sizes.segment, sizes.value, strict=True)) == {
        "": 30,
        "origin=EWR": 9,
        "origin=JFK": 6,
        "origin=__other__": 15,
    }
    late = rows.where("ds = '2013-01-02'").selectExpr(
        "CASE WHEN origin = 'EWR' THEN 'NEW' ELSE origin END AS origin", "carrier", "x", "ds"
    )
    tg.analyze(first.union(late), few, repository=repo)
    sizes = repo.metrics("seg", name="Size", since="2013-01-02")
    assert dict(zip(sizes.segment, sizes.value, strict=True)) == {
        "": 30,
        "origin=EWR": 0,  # a segment without rows is recorded, not missing
        "origin=JFK": 6,
        "origin=__other__": 24,
    }


@pytest.mark.soak
def test_choosing_segments_again_starts_a_new_series_of_the_others(rows, repo):
    few = suite(segments=[["origin"]], max_segments=1)
    tg.analyze(rows.where("ds < '2013-01-03'"), few, repository=repo)
    more = suite(segments=[["origin"]], max_segments=2)
    assert tg.analyze(rows, more, repository=repo).report.scanned == 1  # the choice is kept
    assert "origin=JFK" not in set(repo.metrics("seg").segment)
    run = tg.analyze(rows, more, repository=repo, resegment=True)
    assert set(map(str, run.changes.values())) == {"added"}
    sizes = repo.metrics("seg", name="Size", since="2013-01-03")
    assert dict(zip(sizes.segment, sizes.value, strict=True)) == {
        "": 30,
        "origin=EWR": 9,
        "origin=JFK": 6,
        "origin=__other__": 21,
        "origin=__other__2": 15,
    }
    with pytest.warns(tg.SkippedWarning):
        assert tg.analyze(rows, more, repository=repo).report.scanned == 0
    assert check(repo.database, repo.artifacts) == []


@pytest.mark.soak
def test_segments_added_to_a_suite_are_measured_for_old_partitions(rows, repo):
    plain = tg.analyze(rows, suite(segments=[]), repository=repo)
    before = values(repo.metrics("seg"))
    run = tg.analyze(rows, suite(segments=[["carrier"]]), repository=repo)
    assert set(map(str, run.changes.values())) == {"added"}
    after = repo.metrics("seg")
    assert set(after.version) == {1}
    assert {k: v for k, v in values(after).items() if not k[1]} == before
    assert set(after.segment) == {"", "carrier=AA", "carrier=UA", "carrier=__other__"}
    assert len(repo.metrics("seg", as_of=plain.id)) == len(before)
    assert check(repo.database, repo.artifacts) == []


@pytest.mark.soak
@pytest.mark.classic
def test_segments_take_one_more_action_once_and_no_further_job(spark, rows, repo):
    def actions(some, asked):
        with counted(spark) as actual:
            tg.analyze(some, asked, repository=repo)
        return len(actual)

    first, rest = rows.where("ds = '2013-01-01'"), rows
    with tg.Repository("sqlite://") as other:
        with counted(spark) as actual:
            tg.analyze(first, suite(segments=[]), repository=other)
        plain = len(actual)
    assert actions(first, suite()) == plain + 1
    assert actions(rest, suite()) == plain


def test_segments_are_inside_those_of_partition_keys(spark, repo):
    table = spark.createDataFrame(
        [("US", "EWR", "2013-01-01"), ("US", "JFK", "2013-01-01"), ("DE", "FRA", "2013-01-01")],
        "country string, origin string, ds string",
    )
    nested = tg.Suite("n", [tg.Size()], partition_by=["ds", "country"], segments=[["origin"]])
    tg.analyze(table, nested, repository=repo)
    sizes = repo.metrics("n", name="Size")
    actual = dict(zip(sizes.segment, sizes.value, strict=True))
    assert actual["country=US"] == 2
    assert actual["country=US/origin=EWR"] == 1
    assert actual["country=DE/origin=EWR"] == 0
    assert repo.merge("n", tg.Size()).value == 3
    assert repo.merge("n", tg.Size(), segment="country=US").value == 2
    assert repo.merge("n", tg.Size(), segment="country=DE/origin=FRA").value == 1


@pytest.mark.parametrize("segments", [["origin"], [[]], [["a"], ["a"]]])
def test_segments_must_be_sets_of_columns(segments):
    with pytest.raises(tg.SuiteError, match="segment"):
        suite(segments=segments)


def test_the_error_for_a_missing_segment_column_names_it(rows, repo):
    with pytest.raises(tg.NoSuchColumnError, match="did you mean 'origin'"):
        tg.analyze(rows, suite(segments=[["orign"]]), repository=repo)


def test_unusual_values_can_be_segments(spark, repo):
    rows = [("\x02", "a\x01b"), ("", "x"), ("\n", "x"), (None, "y")]
    data = spark.createDataFrame(rows, "p string, q string")
    tg.analyze(data, tg.Suite("odd", [tg.Size()], segments=[["p"], ["p", "q"]]), repository=repo)
    sizes = repo.metrics("odd")
    actual = dict(zip(sizes.segment, sizes.value, strict=True))
    assert actual["p=%02"] == actual["p="] == actual["p=%0A"] == 1
    assert actual["p=__other__"] == 0
    assert actual["p=%0A/q=x"] == 1
    zeros = spark.createDataFrame([(0.0,), (-0.0,)], "x double")
    tg.analyze(zeros, tg.Suite("zeros", [tg.Size()], segments=[["x"]]), repository=repo)
    assert repo.merge("zeros", tg.Size(), segment="x=0.0").value == 2


def test_a_first_run_without_rows_chooses_no_segments(spark, rows, repo):
    few = suite(segments=[["origin"]])
    tg.analyze(rows.where("false"), few, repository=repo)
    tg.analyze(rows, few, repository=repo)
    assert "origin=EWR" in set(repo.metrics("seg").segment)
    assert check(repo.database, repo.artifacts) == []


def test_the_errors_for_columns_that_cannot_be_segments(spark, rows, repo):
    with pytest.raises(tg.SuiteError, match="cannot segment by 'ds': it is a partition key"):
        tg.analyze(rows, suite(segments=[["origin", "ds"]]), repository=repo)
    binary = spark.createDataFrame([(bytearray(b"\xff"),)], "b binary")
    with pytest.raises(tg.WrongColumnTypeError, match="print as text"):
        tg.analyze(binary, tg.Suite("b", [tg.Size()], segments=[["b"]]), repository=repo)


def test_partition_segments_that_are_equal_as_strings_stay_separate(spark, repo):
    rows = [("a_1", "E"), ("ab1", "E"), ("us", "E"), ("US", "E")]
    data = spark.createDataFrame(
        [(*r, "2013-01-01") for r in rows], "c string, o string, ds string"
    )
    tg.analyze(
        data,
        tg.Suite("like", [tg.Size()], partition_by=["ds", "c"], segments=[["o"]]),
        repository=repo,
    )
    for country in ("a_1", "ab1", "us", "US"):
        assert repo.merge("like", tg.Size(), segment=f"c={country}/o=E").value == 1
