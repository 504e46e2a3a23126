"""Days without any match or any readable query: they have their own metrics, monitored by default."""

from dataclasses import replace

import pytest

from tests.tidegauge.consistency.logged_queries import D5, DAY, record
from tidegauge.analyzers.core.errors import SuiteError
from tidegauge.consistency import pipeline
from tidegauge.consistency.compare.measures import ConsistencyRows, RowPresence
from tidegauge.consistency.configuration import (
    DEFAULT_MONITORS,
    REQUIRED_MONITORS,
    Configuration,
    GroupBy,
    QueryBackfill,
)
from tidegauge.consistency.log.client import QueryLog
from tidegauge.consistency.log.flattening import Flattened
from tidegauge.consistency.log.schemas import Columns, LogSchema
from tidegauge.consistency.log.table import append_queries, log_folder
from tidegauge.consistency.pipeline import ConsistencyRun
from tidegauge.consistency.running import run
from tidegauge.files.consistency_files import load_configuration

KEY, VALUE = record("Key", user="long"), record("Value", n=["null", "float"])
SQL = "SELECT user, ts, CAST(n AS DOUBLE) AS n FROM logged_keys JOIN offline USING (user)"


def conf(namespace, **more):
    settings = {"bucket_minutes": None, "backfill": QueryBackfill(SQL), **more}
    return Configuration(namespace, "search", ("user",), **settings)


@pytest.fixture
def service(spark, namespace):
    with QueryLog(log_folder(spark, namespace)) as log:
        log.register(LogSchema.from_schemas("search", KEY, VALUE))
        yield log


@pytest.fixture
def offline(spark):
    """Create offline values as doubles: 0.1 for users 1 to 3."""
    frame = spark.createDataFrame([(u, 0.1) for u in (1, 2, 3)], "user long, n double")
    frame.createOrReplaceTempView("offline")
    yield
    spark.catalog.dropTempView("offline")


def values(repository, dataset, name):
    facts = repository.metrics(dataset, name=name)
    return {(f.partition, f.instance): f.value for f in facts.itertuples()}


def test_the_share_of_unmatched_rows_is_always_a_number():
    share = ConsistencyRows("row_unmatched", "user")
    assert share.compute_metric_from(RowPresence(6, 1, 1)).value == 0.25
    assert share.compute_metric_from(RowPresence(0, 0, 70)).value == 1.0
    assert share.compute_metric_from(RowPresence()).value == 0.0
    assert share.scale_of("Consistency.row_unmatched").value == "ratio"
    assert share.scale_of("Consistency.row_extra").value == "count"


def test_own_monitors_of_these_metrics_replace_the_defaults():
    own = {"series": {"name": "Consistency.row_unmatched"}, "detector": "SimpleThreshold(0.1)"}
    configuration = Configuration("ns", "search", ("user",), QueryBackfill(SQL), monitors=(own,))
    assert configuration.watched == (own, *REQUIRED_MONITORS[1:])


def test_own_monitors_of_some_instances_leave_the_others_monitored():
    own = {"series": {"name": "Consistency.row_unmatched", "instance": "*"}}
    configuration = Configuration("ns", "search", ("user",), QueryBackfill(SQL), monitors=(own,))
    assert configuration.watched == (own, *REQUIRED_MONITORS)


def test_metrics_that_become_empty_are_monitored_in_addition_to_own_monitors():
    """An own monitor with other options replaces the built-in one."""
    own = {"series": {"name": "Consistency.mismatch"}, "detector": "SimpleThreshold(0.1)"}
    configuration = Configuration("ns", "search", ("user",), QueryBackfill(SQL), monitors=(own,))
    assert {"detector": "EmptyMetrics()"} in configuration.watched
    quiet = {"detector": "EmptyMetrics()", "severity": "info"}
    assert replace(configuration, monitors=(quiet,)).watched == (quiet, *REQUIRED_MONITORS[:-1])


def test_a_join_without_monitors_is_monitored_by_default():
    configuration = Configuration("ns", "search", ("user",), QueryBackfill(SQL))
    assert configuration.watched == (*DEFAULT_MONITORS, *REQUIRED_MONITORS)
    assert {"series": {"name": "Consistency.missing"}} in DEFAULT_MONITORS
    assert replace(configuration, monitors=()).watched == REQUIRED_MONITORS


@pytest.mark.parametrize(
    ("line", "watched"),
    [("", (*DEFAULT_MONITORS, *REQUIRED_MONITORS)), ("monitors: []\n", REQUIRED_MONITORS)],
)
def test_a_file_without_monitors_has_the_defaults_and_an_empty_list_has_none(
    tmp_path, line, watched
):
    file = tmp_path / "join.yml"
    file.write_text(
        f"namespace: ns\njoin: search\nkeys: [user]\nbackfill: {{table: ns.features}}\n{line}"
    )
    assert load_configuration(file).watched == watched


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"bucket_minutes": 7}, "bucket_minutes is 7, which does not divide a day"),
        ({"k": 13}, "k is 13; it must be an even number from 4 to 1024"),
        ({"since": "2023-1-1"}, "since must be a day such as 2023-01-05, not '2023-1-1'"),
        ({"monitors": ({"series": {"name": "Consistency.mismach"}},)}, "did you mean 'Consistency.mismatch'"),
        ({"monitors": ({"series": {"name": "Consistency.mismatch-p50"}},)}, "metric of a monitor"),
        ({"monitors": ({"series": {"name": "Consistency.delta-p51"}},)}, "did you mean 'Consistency.delta-p5'"),
        ({"monitors": ({"series": {"name": "Consistency.mismach*"}},)}, "metric of a monitor"),
        ({"keys": ("user", "User")}, "key 'User' has the same name as the key 'user'"),
        ({"keys": ("user", "ts")}, "key 'ts' has the same name as the log's own 'ts'"),
        ({"group_bys": {"g": GroupBy(("n", "USER"))}}, "feature 'USER' has the same name as the key 'user'"),
        ({"group_bys": {"g": GroupBy(("n", "N"))}}, "feature 'N' has the same name as the feature 'n'"),
        ({"group_bys": {"g": GroupBy(("n",))}, "segment_by": ("n",)}, "cannot name the feature 'n'"),
    ],
)  # fmt: skip
def test_a_monitor_that_would_fail_later_is_refused(more, message):
    with pytest.raises(SuiteError, match=message):
        Configuration("ns", "search", **{"keys": ("user",), "backfill": QueryBackfill(SQL), **more})


def test_the_results_of_a_killed_run_are_scored_by_the_next(repository, monkeypatch):
    """The first run is killed before detection. The next run has no new data."""
    configuration = Configuration("ns", "search", ("user",), QueryBackfill(SQL))
    flattened = Flattened("ns.search_logged", Columns({}, {}, {}), (), (), ())
    done = ConsistencyRun("ns.search", flattened, (), (), "t", "ns.search.log")
    monkeypatch.setattr(pipeline, "run", lambda *_, **__: done)
    assert run(configuration, repository=repository, spark=object()).judged == {}
    days = {f"ds=2026-01-{n:02}": 0.0 for n in range(1, 29)}
    for name, metric in (("ns.search", "rows"), ("ns.search.log", "QueryLog.unreadable_share")):
        repository.record(name, metric, {**days, "ds=2026-01-29": 0.5}, scale="ratio")
    expected = {"ns.search": ("ds=2026-01-29",), "ns.search.log": ("ds=2026-01-29",)}
    assert run(configuration, repository=repository, spark=object()).judged == expected
    assert run(configuration, repository=repository, spark=object()).judged == {}


@pytest.mark.spark
def test_a_day_whose_backfill_matches_nothing_is_an_incident(
    spark, namespace, service, repository, offline
):
    for user in (1, 2, 3):
        service.log("search", {"user": user}, {"n": 0.1}, ts_millis=D5)
        service.log("search", {"user": user + 10}, {"n": 0.1}, ts_millis=D5 + DAY)
    service.flush()
    done = run(conf(namespace), repository=repository, spark=spark, until="2023-01-06")
    assert done.notices == ("compared as floats, because one side is a float: n",)
    dataset = f"{namespace}.search"
    # A served float equals the double from which it was made.
    for name in ("mismatch", "smape", "delta-p50"):
        assert values(repository, dataset, f"Consistency.{name}")["ds=2023-01-05", "*.n"] == 0, name
    assert values(repository, dataset, "Consistency.row_unmatched") == {
        ("ds=2023-01-05", "*"): 0, ("ds=2023-01-06", "*"): 1}  # fmt: skip
    (actual,) = repository.anomalies(dataset).itertuples()
    assert (actual.partition, actual.name) == ("ds=2023-01-06", "Consistency.row_unmatched")


@pytest.mark.spark
def test_a_left_join_without_matches_is_an_incident_from_the_first_day(
    spark, namespace, service, repository, offline
):
    for user in (11, 12, 13):
        service.log("search", {"user": user}, {"n": 0.1}, ts_millis=D5)
    service.flush()
    joined = "SELECT user, ts, n FROM logged_keys LEFT JOIN offline USING (user)"
    configuration = replace(conf(namespace), backfill=QueryBackfill(joined))
    run(configuration, repository=repository, spark=spark, until="2023-01-05")
    dataset = f"{namespace}.search"
    assert values(repository, dataset, "Consistency.row_unmatched") == {("ds=2023-01-05", "*"): 0}
    (actual,) = repository.anomalies(dataset).itertuples()
    assert (actual.name, actual.instance, actual.severity) == ("Consistency.extra", "*.n", "error")


@pytest.mark.spark
def test_unreadable_queries_are_metrics_of_their_day(
    spark, namespace, service, repository, offline
):
    service.log("search", {"user": 1}, None, ts_millis=D5)
    service.flush()
    times = (D5 + DAY, None, 10**18, 0, D5 // 1000)  # the last one is in seconds
    bad = [(b"\x02", b"\x02", time) for time in times]
    columns = "key_bytes binary, value_bytes binary, ts_millis long"
    append_queries(spark.createDataFrame(bad, columns), namespace, "search")
    configuration = conf(namespace)
    done = run(configuration, repository=repository, spark=spark, until="2999-01-01")
    first, second, today = done.flattened.counted
    assert (first.rows, first.empty, second.rows) == (1, 1, 1)
    assert (today.rows, today.bad) == (4, {"no time": 4})
    dataset = f"{namespace}.search.log"
    unreadable = values(repository, dataset, "QueryLog.unreadable")
    assert unreadable["ds=2023-01-05", "*"] == 0
    assert unreadable["ds=2023-01-06", "*"] == 1
    assert unreadable[f"ds={today.ds}", "no time"] == 4
    assert values(repository, dataset, "QueryLog.empty")["ds=2023-01-05", "*"] == 1
    share = values(repository, dataset, "QueryLog.unreadable_share")
    assert sorted(share.values()) == [0, 1, 1]
    assert len(repository.anomalies(dataset)) == 2
    # A run without new data writes nothing and keeps the counts.
    again = run(configuration, repository=repository, spark=spark, until="2999-01-01")
    assert (again.logged, again.flattened.counted) == (0, done.flattened.counted)
