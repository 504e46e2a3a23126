"""Folders of Parquet files are measured without a Spark session, and Spark starts where it is needed."""

import math
from contextlib import nullcontext
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import tidegauge as tg
from tidegauge import analysis
from tidegauge.analyzers.columnar.engines import LazySession, MeasuringEngine
from tidegauge.analyzers.columnar.planner import ColumnarPlanner
from tidegauge.analyzers.core.errors import NoSuchColumnError, SourceError, SuiteError
from tidegauge.analyzers.core.filesystems import file_system
from tidegauge.analyzers.measures.moments import SumAndCount
from tidegauge.analyzers.runs import runner
from tidegauge.analyzers.runs.runner import estimate_routes, newest_partition
from tidegauge.analyzers.sources.opening import open_folder
from tidegauge.checks import verification
from tidegauge.cli.main import app
from tidegauge.cli.options import SparkOptions
from tidegauge.spark import session
from tidegauge.spark.session import has_default_reader


@pytest.fixture
def folder(tmp_path):
    """Two partitions of orders."""
    for day, amounts in (("2026-01-01", [1.5, 2.5, None]), ("2026-01-02", [4.0])):
        place = tmp_path / "orders" / f"ds={day}"
        place.mkdir(parents=True)
        pq.write_table(pa.table({"amount": amounts}), place / "a.parquet")
    return tmp_path / "orders"


@pytest.fixture
def no_session(monkeypatch):
    """Make every start of Spark fail."""

    def refused(*_, **__):
        msg = "Spark was started"
        raise SourceError(msg)

    for module in (analysis, verification):
        monkeypatch.setattr(module, "active_session", lambda: None)
    monkeypatch.setattr(analysis, "_require_active_session", refused)
    monkeypatch.setattr(SparkOptions, "start", refused)
    monkeypatch.setattr(session, "has_default_reader", lambda settings: not settings)


def values(repo):
    rows = repo.metrics("orders")[["partition", "name", "value"]].to_numpy().tolist()
    return {(partition, name): value for partition, name, value in rows}


def test_a_folder_is_measured_without_a_session(folder, no_session):
    suite = tg.Suite(
        "orders", [tg.Size(), tg.Mean("amount"), tg.Completeness("amount")], partition_by=["ds"]
    )
    with tg.Repository("sqlite://") as repo:
        run = tg.analyze(str(folder), suite, repository=repo)
        assert run.routes == "4 of 6 measurements from metadata, 2 from a columnar scan"
        assert repo.runs()["routes"].tolist() == [{"metadata": 4, "a columnar scan": 2}]
        assert values(repo) == {
            ("ds=2026-01-01", "Size"): 3.0,
            ("ds=2026-01-01", "Mean"): 2.0,
            ("ds=2026-01-01", "Completeness"): 2 / 3,
            ("ds=2026-01-02", "Size"): 1.0,
            ("ds=2026-01-02", "Mean"): 4.0,
            ("ds=2026-01-02", "Completeness"): 1.0,
        }
        again = tg.analyze(str(folder), suite, repository=repo)
        assert (again.report.scanned, again.routes) == (0, "")
        assert repo.runs()["routes"].tolist()[0] is None


def test_metrics_of_a_folder_are_calculated_over_all_partitions_without_a_session(
    folder, no_session
):
    """Sums 1.5 + 2.5 and 4.0 of three values in four rows."""
    analyzers = [
        tg.Mean("amount"),
        tg.Size(),
        tg.Completeness("amount"),
        tg.Maximum("amount"),
        tg.Mean("x"),
    ]
    metrics = tg.calculate(str(folder), analyzers)
    assert [metric.value for metric in metrics[:4]] == [8 / 3, 4.0, 0.75, 4.0]
    assert isinstance(metrics[4].outcome.error, NoSuchColumnError)
    (one,) = tg.calculate(str(folder / "ds=2026-01-01"), [tg.Mean("amount")])
    assert one.value == 2.0


def test_a_folder_is_verified_without_a_session(folder, no_session):
    """Three of four amounts are known, and their mean is 8 / 3."""
    check = tg.Check("orders").has_size((4, 4)).is_complete("amount").has_mean("amount", (2, 3))
    result = tg.verify(str(folder), check)
    assert result.frame()["status"].tolist() == ["success", "failure", "success"]
    assert result.failures["message"].tolist() == [
        "amount is 75% complete, at least 100% required: 1 of 4 rows"
    ]
    with pytest.raises(SourceError, match="Spark was started"):
        result.rows("orders")


def test_a_folder_is_verified_against_a_history_without_a_session(folder, no_session):
    check = tg.Check("orders").not_below(tg.Size(), "previous", by=0.5)
    days = ["ds=2026-01-01", "ds=2026-01-02"]
    with tg.Repository("sqlite://") as repo:
        tg.analyze(
            str(folder),
            tg.Suite("orders", [tg.Size()], partition_by=["ds"]),
            partitions=days[:1],
            repository=repo,
        )
        results = [
            tg.verify(
                str(folder / day), check, repository=repo, dataset="orders", partition=days[1]
            )
            for day in days
        ]
    assert [result.passed for result in results] == [True, False]  # 3 and 1 rows, after 3


def test_data_of_another_kind_is_not_verified():
    with pytest.raises(SuiteError, match="a table's name, a folder, a run or a repository, not a"):
        tg.verify(3, tg.Check("orders").has_size(1))


def test_a_folder_on_s3_is_measured_without_a_session(bucket, no_session):
    table, orders = f"s3://{bucket}/orders", tg.Suite("orders", [tg.Size(), tg.Mean("amount")])
    for day, amounts in (("2026-01-01", [1.0, None]), ("2026-01-02", [4.0])):
        system, path = file_system(f"{table}/ds={day}/a.parquet")
        pq.write_table(pa.table({"amount": amounts}), path, filesystem=system)
    with tg.Repository("sqlite://") as repo:
        run = tg.analyze(table, orders, repository=repo)
        assert run.routes == "2 of 4 measurements from metadata, 2 from a columnar scan"
        assert tg.analyze(table, orders, repository=repo).report.skipped == 2
    assert [m.value for m in tg.calculate(table, [tg.Size(), tg.Mean("amount")])] == [3.0, 2.5]


def test_states_of_a_folder_are_kept_and_added_without_a_session(folder, no_session):
    states, mean = tg.InMemoryStateProvider(), tg.Mean("amount")
    tg.calculate(str(folder / "ds=2026-01-01"), [mean], save_states_with=states)
    assert states.load(mean) == SumAndCount(4.0, 2)
    (both,) = tg.calculate(
        str(folder / "ds=2026-01-02"), [mean], aggregate_with=states, save_states_with=states
    )
    assert both.value == 8 / 3
    assert states.load(mean) == SumAndCount(8.0, 3)


@pytest.mark.parametrize(
    ("analyzer", "options"),
    [
        (tg.Mean("amount"), {"engine": "spark"}),
        (tg.Uniqueness("amount"), {}),  # of floats
        (tg.Completeness("ds"), {}),  # a partition column
    ],
)
def test_calculating_what_only_spark_can_measure_needs_a_session(
    folder, no_session, analyzer, options
):
    with pytest.raises(SourceError, match="Spark was started"):
        tg.calculate(str(folder), [tg.Size(), analyzer], **options)


def test_partitions_with_different_columns_are_calculated_by_spark(folder, no_session):
    """Their union has two columns, and ``note`` is null in the rows of the other partitions."""
    (folder / "ds=2026-01-03").mkdir()
    table = pa.table({"amount": [1.0], "note": ["x"]})
    pq.write_table(table, folder / "ds=2026-01-03" / "a.parquet")
    for analyzer in (tg.Completeness("note"), tg.ColumnCount(), tg.Mean("amount")):
        with pytest.raises(SourceError, match="Spark was started"):
            tg.calculate(str(folder), [analyzer])


def test_the_routes_of_a_partition_are_estimated_from_its_metadata(folder, no_session, monkeypatch):
    """The newest partition has one row; larger ones are scanned in tasks."""
    analyzers = [tg.Size(), tg.Mean("amount"), tg.Uniqueness("amount")]
    source = open_folder(LazySession(lambda: None), str(folder), ("ds",))
    newest = newest_partition(source, source.list_partitions())
    assert newest.partition.name == "ds=2026-01-02"
    expected = {"metadata": 1, "a columnar scan": 1, "Spark SQL": 1}
    assert estimate_routes(source, newest, analyzers) == expected
    assert newest_partition(source, []) is None
    plan = tg.Explanation(
        "orders", 2, (2,), (), (), 0.0, 8, newest="ds=2026-01-02", routes=expected
    )
    assert str(plan).splitlines()[3] == (
        "estimate for ds=2026-01-02: 1 of 3 measurements from metadata, 1 from a columnar scan, 1 from Spark SQL"
    )
    monkeypatch.setattr(runner, "ColumnarPlanner", partial(ColumnarPlanner, seconds_left=-math.inf))
    expected = {"metadata": 1, "a columnar scan in Spark's tasks": 1, "Spark SQL": 1}
    assert estimate_routes(source, newest, analyzers) == expected


@pytest.mark.parametrize(
    ("analyzer", "engine"),
    [(tg.Size(), "spark"), (tg.Size(where="amount > ds"), "auto"), (tg.Entropy("amount"), "auto")],
)
def test_other_measurements_start_spark(folder, no_session, analyzer, engine):
    suite = tg.Suite("orders", [analyzer], partition_by=["ds"])
    with tg.Repository("sqlite://") as repo, pytest.raises(SourceError, match="Spark was started"):
        tg.analyze(str(folder), suite, repository=repo, engine=engine)


def test_files_in_other_subfolders_are_left_to_spark(folder, no_session):
    (folder / "ds=2026-01-02" / "old").mkdir()
    pq.write_table(pa.table({"amount": [1.0]}), folder / "ds=2026-01-02" / "old" / "a.parquet")
    suite = tg.Suite("orders", [tg.Size()], partition_by=["ds"])
    with tg.Repository("sqlite://") as repo, pytest.raises(SourceError, match="Spark was started"):
        tg.analyze(str(folder), suite, repository=repo)


class ActiveSession:
    """A session with settings. All other attributes are unknown."""

    def __init__(self, settings):
        self.conf = settings


@pytest.mark.parametrize(
    ("case_sensitive", "expectation"),
    [("false", nullcontext()), ("true", pytest.raises(AttributeError, match="read"))],
)
def test_settings_of_the_active_session_count(folder, monkeypatch, case_sensitive, expectation):
    active = ActiveSession({"spark.sql.caseSensitive": case_sensitive})
    monkeypatch.setattr(analysis, "active_session", lambda: active)
    suite = tg.Suite("orders", [tg.Size()], partition_by=["ds"])
    with tg.Repository("sqlite://") as repo, expectation:
        tg.analyze(str(folder), suite, repository=repo)


def test_an_unknown_engine_is_refused(folder):
    suite = tg.Suite("orders", [tg.Size()])
    with (
        tg.Repository("sqlite://") as repo,
        pytest.raises(SuiteError, match="Invalid engine 'arrow'"),
    ):
        tg.analyze(str(folder), suite, repository=repo, engine="arrow")


def run(folder, *options, **env):
    suite = folder.parent / "orders.yml"
    suite.write_text(
        f"dataset: orders\ntable: {folder}\npartition_by: [ds]\nanalyzers: [Size, {{Mean: amount}}]\n"
        "checks:\n  - has_size: {at_least: 1}\n"
    )
    url = f"sqlite:///{folder.parent / 'orders.db'}"
    return CliRunner().invoke(app, ["run", str(suite), "--db", url, *options], env=env)


def test_the_command_measures_a_folder_without_spark(folder, no_session):
    result = run(folder)
    assert result.exit_code == 0, result.output
    assert "orders: 2 partitions scanned, 2 new, 0 skipped" in result.stdout
    assert "  2 of 4 measurements from metadata, 2 from a columnar scan" in result.stdout
    assert "1 check passed in 2 partitions" in result.stdout


@pytest.mark.parametrize(
    ("options", "env"),
    [
        (["--engine", "spark"], {}),
        ([], {"TIDEGAUGE_ENGINE": "spark"}),
        (["--conf", "spark.sql.caseSensitive=true"], {}),
    ],
)
def test_the_command_starts_spark_if_it_is_requested(folder, no_session, options, env):
    with pytest.raises(SourceError, match="Spark was started"):
        raise run(folder, *options, **env).exception


def test_the_session_starts_lazily_only_with_default_settings(monkeypatch):
    monkeypatch.setattr(session, "has_default_reader", lambda settings: not settings)
    monkeypatch.setattr(SparkOptions, "start", lambda self: "started")
    assert isinstance(SparkOptions().start_lazily(MeasuringEngine.AUTO), LazySession)
    assert SparkOptions().start_lazily(MeasuringEngine.SPARK) == "started"
    assert SparkOptions(master="local[2]").start_lazily(MeasuringEngine.AUTO) == "started"


@pytest.fixture
def clean_environment(monkeypatch):
    for name in ("SPARK_REMOTE", "SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delitem(session.sys.modules, "pyspark.sql", raising=False)


def test_settings_of_the_reader_are_searched_where_spark_reads_them(
    clean_environment, monkeypatch, tmp_path
):
    assert has_default_reader({"spark.driver.memory": "4g"})
    assert not has_default_reader({"spark.sql.parquet.binaryAsString": "true"})
    assert not has_default_reader({"spark.master": "sc://host"})
    (tmp_path / "spark-defaults.conf").write_text("spark.executor.memory 4g\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert has_default_reader({})
    (tmp_path / "spark-defaults.conf").write_text("spark.sql.caseSensitive true\n")
    assert not has_default_reader({})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SPARK_REMOTE", "sc://host"),
        ("PYSPARK_SUBMIT_ARGS", "--conf spark.sql.files.ignoreCorruptFiles=true pyspark-shell"),
        ("PYSPARK_SUBMIT_ARGS", "--properties-file a.conf pyspark-shell"),
    ],
)
def test_the_environment_counts(clean_environment, monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    assert not has_default_reader({})
