"""Observed writes on Spark: states, ledger, and partitions that are measured again."""

import pytest

import tidegauge as tg
from tests.docs.pages import blocks_run_by
from tidegauge.analyzers.core.metric import Success
from tidegauge.analyzers.core.privacy import PUBLIC
from tidegauge.analyzers.runs.ledger import Change
from tidegauge.analyzers.runs.observed import Observer
from tidegauge.analyzers.scan.plan import requests_of
from tidegauge.analyzers.scan.scan import scan

pytestmark = pytest.mark.spark

OBSERVED = [
    *(tg.Size(), tg.Size(where="x > 5"), tg.Completeness("d"), tg.Mean("d"), tg.Mean("x")),
    *(tg.Sum("big"), tg.Maximum("x"), tg.StandardDeviation("d"), tg.Correlation("x", "d")),
    *(tg.MaxLength("s"), tg.DataType("s"), tg.MinTime("t"), tg.Compliance("positive", "x > 0")),
    *(tg.ApproxCountDistinct("s"), tg.ColumnExists("x")),
]
LATER = [
    *(tg.Uniqueness("x"), tg.PatternMatch("s", "^k[0-9]+$"), tg.ColumnCount()),
    *(tg.Completeness("ds"), tg.Compliance("ratio", "1 / (x + 1) > 0")),
]
SUITE = tg.Suite("t", [*OBSERVED, *LATER], partition_by=["ds"])


@pytest.fixture(scope="module")
def rows(spark):
    return spark.range(0, 400, numPartitions=3).selectExpr(
        "id % 97 AS x",
        "IF(id % 10 = 0, NULL, CAST(id AS DOUBLE) / 7) AS d",
        "CAST(id AS DECIMAL(38, 2)) AS big",
        "concat('k', id % 31) AS s",
        "timestamp_micros(id * 1000003) AS t",
    )


def test_an_observed_write_gives_the_states_of_a_scan(rows, spark, tmp_path):
    folder = str(tmp_path / "t")
    observed = tg.observe(rows, SUITE, partition={"ds": "2026-01-01"})
    assert observed.analyzers == tuple(OBSERVED)
    observed.frame.write.parquet(f"{folder}/ds=2026-01-01")
    with tg.Repository("sqlite://") as repo:
        run = observed.record(repo, source=folder)
        assert dict(run.changes) == {"ds=2026-01-01": Change.NEW}
        assert run.routes.startswith("15 of 20 measurements from the observed write")
        assert not run.failed
        again = tg.analyze(folder, SUITE, repository=repo, spark=spark)
        assert (again.report.scanned, again.report.skipped) == (0, 1)
        scanned = tg.analyze(
            folder, SUITE, repository=repo, spark=spark, partitions="all", engine="spark"
        )
        assert scanned.changes["ds=2026-01-01"] is Change.UNCHANGED


def test_a_known_folder_answers_what_needs_no_spark_sql(rows, spark, tmp_path):
    """Times are observed, because the files have them as INT96; the file's metadata has no extremes of doubles."""
    folder, partition = str(tmp_path / "t"), {"ds": "2026-01-01"}
    observed = tg.observe(rows, SUITE, partition=partition, source=folder)
    assert observed.analyzers == (tg.MinTime("t"), tg.ColumnExists("x"))
    observed.frame.write.parquet(f"{folder}/ds=2026-01-01")
    with tg.Repository("sqlite://") as repo:
        run = observed.record(repo)
        assert not run.failed
        routes = run.report.routes
        assert routes["the observed write"] == 3  # with Size, because rows are counted
        assert sum(routes.values()) == len(SUITE.analyzers)
        assert routes["metadata"] + routes["a columnar scan"] >= len(OBSERVED) - 3
        scanned = tg.analyze(
            folder, SUITE, repository=repo, spark=spark, partitions="all", engine="spark"
        )
        assert scanned.changes["ds=2026-01-01"] is Change.UNCHANGED


def test_a_folder_that_answers_everything_needs_no_observation(rows, tmp_path):
    folder, suite = str(tmp_path / "t"), tg.Suite("t", [tg.Size(), tg.Mean("d")])
    unknown = tg.observe(rows, suite, source="a_table_that_is_written_later")
    assert unknown.analyzers == suite.analyzers
    observed = tg.observe(rows, suite, source=folder)
    assert (observed.analyzers, observed.frame.schema) == ((), rows.schema)
    observed.frame.write.parquet(folder)
    with tg.Repository("sqlite://") as repo:
        run = observed.record(repo)
        assert run.routes == "1 of 2 measurements from metadata, 1 from a columnar scan"
        assert run.metrics().set_index("name")["value"]["Size"] == 400


def test_observed_states_have_the_bytes_of_a_scan(rows, spark):
    observer = Observer.of_frame(rows, OBSERVED)
    observer.frame.write.format("noop").mode("overwrite").save()
    cells = observer.results()
    states = scan(rows, OBSERVED).single_group.states
    rounded = {tg.Mean("d"), tg.StandardDeviation("d"), tg.Correlation("x", "d")}
    rounded.add(tg.ApproxCountDistinct("s"))  # equal hashes, in any order
    for analyzer in OBSERVED:
        requests = requests_of(analyzer, observer.schema, PUBLIC)
        own = analyzer.fold([cells[request] for request in requests])
        assert isinstance(states[analyzer], Success)
        scanned = states[analyzer].value
        if analyzer in rounded:
            assert own.agrees_with(scanned), analyzer
        else:
            assert own.pack() == scanned.pack(), analyzer


def test_partitions_with_other_rows_are_measured_normally(rows, tmp_path, caplog):
    folder, suite = str(tmp_path / "t"), tg.Suite("t", [tg.Size()], partition_by=["ds"])
    observed = tg.observe(rows, suite, partition="ds=2026-01-01")
    observed.frame.where("x < 5").write.parquet(f"{folder}/ds=2026-01-01")
    with tg.Repository("sqlite://") as repo:
        run = observed.record(repo, source=folder)
        # 400 = 4 * 97 + 12: each of the values 0 to 4 occurs five times.
        assert run.metrics()["value"].tolist() == [25]
        assert run.routes == "1 of 1 measurement from metadata"
    assert "25 rows, but 400 were observed" in caplog.text


def test_without_a_source_the_rest_is_measured_from_the_frame(rows):
    observed = tg.observe(rows, [tg.Size(), tg.CountDistinct("x")], dataset="t")
    observed.frame.write.format("noop").mode("overwrite").save()
    with tg.Repository("sqlite://") as repo:
        run = observed.record(repo)
        assert run.routes == "1 of 2 measurements from the observed write, 1 from Spark SQL"
        assert run.metrics()["value"].tolist() == [97, 400]


def test_a_frame_that_was_not_written_is_refused(rows, monkeypatch):
    monkeypatch.setattr("tidegauge.analyzers.runs.observed.MAX_REPORT_SECONDS", 0.1)
    observed = tg.observe(rows, [tg.Size()], dataset="t")
    with tg.Repository("sqlite://") as repo, pytest.raises(tg.SourceError, match="not observed"):
        observed.record(repo)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"suite": SUITE}, "partitioned by ds: name the written partition"),
        ({"suite": SUITE, "partition": {"hr": "1"}}, "partitioned by ds: partition= names hr"),
        ({"suite": SUITE, "partition": "ds=1", "dataset": "u"}, "omit dataset='u'"),
        ({"suite": [tg.Size()]}, "name the dataset"),
    ],
)
def test_wrong_arguments_are_refused(rows, params, message):
    with pytest.raises((tg.SourceError, tg.SuiteError), match=message):
        tg.observe(rows, **params)


def test_the_recipe_for_streams_runs(spark, tmp_path, monkeypatch):
    """The JVM has its own working directory, so the paths that Spark writes to are made absolute."""
    monkeypatch.chdir(tmp_path)
    (block,) = blocks_run_by(__file__)
    code = block.code.replace("lake/", f"{tmp_path}/lake/").replace(
        '"state"', f'"{tmp_path}/state"'
    )
    spark.range(0, 20).selectExpr("id AS amount").write.parquet(f"{tmp_path}/incoming")
    stream = spark.readStream.schema("amount long").parquet(f"{tmp_path}/incoming")
    exec(code, {"stream": stream, "tg": tg})
    with tg.Repository("sqlite:///orders.db") as repo:
        assert repo.metrics("orders", name="Size")["value"].tolist() == [20]
