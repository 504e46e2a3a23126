"""From the query log to metrics: compared rows, repeated comparisons, and refused configurations."""

import threading
import time as clock
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from tests.tidegauge.consistency.logged_queries import (
    D5,
    DAY,
    HOUR,
    MINUTE,
    is_sampled,
    record,
    time,
)
from tidegauge.analyzers.core.errors import (
    PreconditionError,
    SourceError,
    SuiteError,
    UnknownNameError,
)
from tidegauge.analyzers.scan.capabilities import session_settings
from tidegauge.analyzers.sources.targets import TableTarget
from tidegauge.consistency import pipeline
from tidegauge.consistency.compare.equality import Tolerance
from tidegauge.consistency.configuration import (
    CallableBackfill,
    Configuration,
    GroupBy,
    QueryBackfill,
    TableBackfill,
)
from tidegauge.consistency.log.client import QueryLog
from tidegauge.consistency.log.schemas import LogSchema
from tidegauge.consistency.log.table import log_folder
from tidegauge.repository.repository import Repository

pytestmark = pytest.mark.spark

EVENTS = """
SELECT k.user, k.ts, count(e.at) AS clicks, any_value(p.price) AS price
FROM logged_keys k
LEFT JOIN events e ON e.user = k.user AND e.at <= k.ts
LEFT JOIN prices p ON p.user = k.user
GROUP BY k.user, k.ts;
"""


KEY = record("Key", user="long")
VALUE = record("Value", clicks=["null", "long"], price=["null", "double"])


@pytest.fixture
def service(spark, namespace):
    with QueryLog(log_folder(spark, namespace), query_source="web") as log:
        log.register(LogSchema.from_schemas("search", KEY, VALUE))
        yield log


def make_offline(spark):
    """Create views: events of user 1 at 07:00 and 08:00 on both days, and a price for each user."""
    events = [(1, time(D5 + day * DAY + h * HOUR)) for day in range(2) for h in (7, 8)]
    spark.createDataFrame(events, "user long, at timestamp").createOrReplaceTempView("events")
    prices = spark.createDataFrame([(1, 2.5), (2, 4.0)], "user long, price double")
    prices.createOrReplaceTempView("prices")


@pytest.fixture
def offline(spark):
    make_offline(spark)
    yield
    for name in ("events", "prices"):
        spark.catalog.dropTempView(name)


def log_query(service, user, at, clicks, price, **more):
    service.log("search", {"user": user}, {"clicks": clicks, "price": price}, ts_millis=at, **more)


def conf(namespace, **more):
    group_bys = {"clicks": GroupBy(("clicks",)), "prices": GroupBy(("price",))}
    settings = {"backfill": QueryBackfill(EVENTS), "group_bys": group_bys, **more}
    return Configuration(namespace, "search", ("user",), **settings)


def two_days(service):
    """Log a first day with one click too few and one wrong price, and a correct second day."""
    log_query(service, 1, D5 + 7 * HOUR + MINUTE, 1, 2.5)
    log_query(service, 1, D5 + 8 * HOUR + MINUTE, 1, 2.5)
    log_query(service, 2, D5 + 8 * HOUR + MINUTE, 0, 4.01)
    log_query(service, 1, D5 + DAY, 2, 2.5)
    service.flush()


def metric(repository, name, dataset="ns"):
    facts = repository.metrics(dataset, name=f"Consistency.{name}")
    return {(f.partition, f.instance): f.value for f in facts.dropna(subset="value").itertuples()}


def test_a_run_writes_tables_and_history_and_the_next_run_has_nothing_to_do(
    spark, namespace, service, repository, offline
):
    two_days(service)
    configuration = conf(namespace)
    done = pipeline.run(spark, configuration, repository, until="2023-01-06")
    assert done.compared == ("2023-01-05", "2023-01-06")
    rows = spark.table(f"{namespace}.search_comparison")
    assert rows.columns == [
        "user", "ts", "hr_minute", "row_presence", "row_copy", "row_null_key",
        "logged_clicks", "clicks", "logged_price", "price", "ds",
    ]  # fmt: skip
    actual = rows.select(
        "ds", "hr_minute", "user", "logged_clicks", "clicks", "logged_price", "price"
    )
    assert sorted(map(tuple, actual.collect())) == [
        ("2023-01-05", "07-00", 1, 1, 1, 2.5, 2.5),
        ("2023-01-05", "08-00", 1, 1, 2, 2.5, 2.5),
        ("2023-01-05", "08-00", 2, 0, 0, 4.01, 4.0),
        ("2023-01-06", "00-00", 1, 2, 2, 2.5, 2.5),
    ]
    dataset = f"{namespace}.search"
    mismatch = metric(repository, "mismatch", dataset)
    assert mismatch["ds=2023-01-05/hr_minute=08-00", "clicks.clicks"] == 0.5
    assert mismatch["ds=2023-01-05/hr_minute=08-00", "prices.price"] == 0.5
    assert sum(mismatch.values()) == 1
    table = spark.table(f"{namespace}.search_consistency_metrics")
    assert table.columns == [
        "feature_name", "metric_name", "histogram", "number", "ds", "hr_minute", "group_by_name",
    ]  # fmt: skip
    assert table.where("(histogram IS NULL) = (number IS NULL)").count() == 0
    (delta,) = table.where(
        "metric_name = 'delta' AND hr_minute = '08-00' AND feature_name = 'clicks'"
    ).collect()
    assert (delta.histogram[0], delta.histogram[-1], delta.number) == (0.0, 1.0, None)
    assert delta.group_by_name == "clicks"
    again = pipeline.run(spark, configuration, repository, until="2023-01-06")
    assert (again.compared, again.reports) == ((), ())
    assert list(repository.partitions(dataset).version) == [1, 1, 1]
    assert list(repository.runs().tags.iloc[0].items()) == [("sample_percent", "100")]


@pytest.mark.soak
def test_late_queries_are_measured_as_a_new_version(spark, namespace, service, repository, offline):
    two_days(service)
    configuration = conf(namespace)
    pipeline.run(spark, configuration, repository, until="2023-01-06")
    log_query(service, 1, D5 + 8 * HOUR + 2 * MINUTE, 2, 2.5)
    service.flush()
    late = pipeline.run(spark, configuration, repository, until="2023-01-06")
    assert late.compared == ("2023-01-05",)
    versions = repository.partitions(f"{namespace}.search").set_index("partition").version
    assert versions["ds=2023-01-05/hr_minute=08-00"] == 2
    assert versions["ds=2023-01-06/hr_minute=00-00"] == 1
    mismatch = metric(repository, "mismatch", f"{namespace}.search")
    assert mismatch["ds=2023-01-05/hr_minute=08-00", "clicks.clicks"] == pytest.approx(1 / 3)


@pytest.mark.soak
def test_the_next_run_completes_a_killed_run(
    spark, namespace, service, repository, offline, monkeypatch
):
    two_days(service)
    configuration = conf(namespace)
    with monkeypatch.context() as broken:
        broken.setattr(pipeline, "record", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            pipeline.run(spark, configuration, repository, until="2023-01-06")
    done = pipeline.run(spark, configuration, repository, until="2023-01-06")
    assert done.compared == ()
    assert len(done.changes) == 3
    with monkeypatch.context() as broken:
        broken.setattr(pipeline.ComparisonTable, "write", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            pipeline.run(spark, configuration, repository, until="2023-01-06", recompute=True)
    assert pipeline.run(spark, configuration, repository, until="2023-01-06").changes == {}


def test_the_second_of_two_concurrent_runs_waits_and_has_nothing_to_do(
    spark, namespace, service, repository, tmp_path, monkeypatch
):
    """The first run is in the middle of its backfill when the second requests the lease."""
    two_days(service)
    requests, waiting = [], threading.Event()

    def offline(keys):
        requests.append(keys.columns)
        assert len(requests) > 1 or waiting.wait(120)
        return keys.selectExpr("user", "ts", "2L AS clicks", "2.5D AS price")

    configuration = conf(namespace, backfill=CallableBackfill(offline, "offline"))
    with Repository(f"sqlite:///{tmp_path / 'r.db'}") as other, ThreadPoolExecutor(2) as pool:
        hold = other.store.hold

        def wait(*arguments):
            waiting.set()
            return hold(*arguments)

        monkeypatch.setattr(other.store, "hold", wait)
        first = pool.submit(pipeline.run, spark, configuration, repository, until="2023-01-06")
        while not (requests or first.done()):
            clock.sleep(0.01)
        second = pool.submit(pipeline.run, spark, configuration, other, until="2023-01-06")
        done, after = first.result(), second.result()
    assert (done.compared, len(done.changes)) == (("2023-01-05", "2023-01-06"), 3)
    assert (after.compared, after.changes) == ((), {})
    assert len(requests) == 1
    assert list(repository.partitions(f"{namespace}.search").version) == [1, 1, 1]


@pytest.mark.soak
def test_another_tolerance_is_measured_without_another_comparison(
    spark, namespace, service, repository, offline
):
    two_days(service)
    pipeline.run(spark, conf(namespace), repository, until="2023-01-06")
    near = conf(namespace, tolerance={"price": Tolerance(0.1)})
    done = pipeline.run(spark, near, repository, until="2023-01-06")
    assert (done.compared, len(done.changes)) == ((), 3)
    mismatch = metric(repository, "mismatch", f"{namespace}.search")
    assert mismatch["ds=2023-01-05/hr_minute=08-00", "prices.price"] == 0


@pytest.mark.soak
def test_a_lag_compares_with_earlier_values(spark, namespace, service, repository, offline):
    """The service is an hour and a half behind. With that lag, its answers are right."""
    log_query(service, 1, D5 + 8 * HOUR + 29 * MINUTE, 0, 2.5)
    log_query(service, 1, D5 + 8 * HOUR + 30 * MINUTE, 1, 2.5)
    log_query(service, 1, D5 + 9 * HOUR + 30 * MINUTE, 2, 2.5)
    service.flush()
    pipeline.run(spark, conf(namespace), repository, until="2023-01-05")
    before = metric(repository, "mismatch", f"{namespace}.search")
    lags = {"clicks": GroupBy(("clicks",), 90 * MINUTE), "prices": GroupBy(("price",))}
    done = pipeline.run(spark, conf(namespace, group_bys=lags), repository, until="2023-01-05")
    assert done.compared == ("2023-01-05",)
    after = metric(repository, "mismatch", f"{namespace}.search")
    eight, nine = (f"ds=2023-01-05/hr_minute=0{hour}-00" for hour in (8, 9))
    assert (before[eight, "clicks.clicks"], before[nine, "clicks.clicks"]) == (1.0, 0.0)
    assert (after[eight, "clicks.clicks"], after[nine, "clicks.clicks"]) == (0.0, 0.0)
    assert after[eight, "prices.price"] == 0
    rows = spark.table(f"{namespace}.search_comparison")
    assert (
        rows.where("row_presence_clicks = 'matched' AND row_presence_prices = 'matched'").count()
        == 3
    )


@pytest.mark.soak
def test_rows_are_counted_for_the_backfill_that_lacks_them(
    spark, namespace, service, repository, offline
):
    two_days(service)
    only = "SELECT user, ts, 2.5D AS price FROM logged_keys WHERE user = 1"
    group_bys = {
        "clicks": GroupBy(("clicks",)),
        "prices": GroupBy(("price",), 0, QueryBackfill(only)),
    }
    pipeline.run(spark, conf(namespace, group_bys=group_bys), repository, until="2023-01-05")
    extra = metric(repository, "row_extra", f"{namespace}.search")
    eight = "ds=2023-01-05/hr_minute=08-00"
    assert (extra[eight, "clicks"], extra[eight, "prices"]) == (0, 1)
    total = metric(repository, "total", f"{namespace}.search")
    assert (total[eight, "clicks.clicks"], total[eight, "prices.price"]) == (2, 1)


def offline_table(spark, namespace, rows):
    data = spark.createDataFrame(
        rows, "user long, ts timestamp, clicks long, price double, ds string"
    )
    data.write.partitionBy("ds").mode("append").saveAsTable(f"{namespace}.offline")


@pytest.mark.soak
def test_a_table_is_compared_on_its_own_days(spark, namespace, service, repository):
    log_query(service, 1, D5 + HOUR, 1, 2.5)
    service.flush()
    rows = [(user, time(D5 + HOUR), 1, 2.5, "2023-01-05") for user in (1, 2)]
    rows.append((1, time(D5 + DAY), 1, 2.5, "2023-01-06"))
    offline_table(spark, namespace, rows)
    configuration = conf(namespace, backfill=TableBackfill(f"{namespace}.offline"))
    assert pipeline.run(spark, configuration, repository, until="2023-01-06").compared == (
        "2023-01-05",
    )
    one = "ds=2023-01-05/hr_minute=01-00"
    missing = metric(repository, "row_missing", f"{namespace}.search")
    assert missing == {(one, "clicks"): 1, (one, "prices"): 1}
    offline_table(spark, namespace, [(2, time(D5 + DAY), 1, 2.5, "2023-01-06")])
    assert pipeline.run(spark, configuration, repository, until="2023-01-06").compared == ()
    offline_table(spark, namespace, [(3, time(D5 + HOUR), 1, 2.5, "2023-01-05")])
    assert pipeline.run(spark, configuration, repository, until="2023-01-06").compared == (
        "2023-01-05",
    )
    assert metric(repository, "row_missing", f"{namespace}.search")[one, "clicks"] == 2


@pytest.mark.soak
def test_both_sides_are_sampled_by_the_same_keys(spark, namespace, service, repository):
    users = range(40)
    for user in users:
        log_query(service, user, D5, user, 0.5)
    service.flush()
    offline_table(spark, namespace, [(user, time(D5), user, 0.5, "2023-01-05") for user in users])
    backfill = TableBackfill(f"{namespace}.offline")
    configuration = conf(namespace, backfill=backfill, sample_percent=30)
    pipeline.run(spark, configuration, repository, until="2023-01-05")
    kept = [user for user in users if is_sampled({"user": user}, 30)]
    assert 0 < len(kept) < len(users)
    rows = spark.table(f"{namespace}.search_comparison").select("user", "row_presence").collect()
    assert sorted(map(tuple, rows)) == [(user, "matched") for user in kept]
    assert repository.runs().tags.iloc[0]["sample_percent"] == "30"


def test_a_run_warns_if_less_was_sampled_in_the_log_than_in_the_table(
    spark, namespace, service, repository
):
    """Keys that the client left out are missing rows, unless the run samples by the same percentage."""
    service.register(LogSchema.from_schemas("search", KEY, VALUE), sample_percent=30)
    users = range(40)
    for user in users:
        log_query(service, user, D5, user, 0.5)
    service.flush()
    offline_table(spark, namespace, [(user, time(D5), user, 0.5, "2023-01-05") for user in users])
    configuration = conf(namespace, backfill=TableBackfill(f"{namespace}.offline"))
    result = pipeline.run(spark, configuration, repository, until="2023-01-05")
    (notice,) = result.notices
    assert notice.startswith("a client logged 30% of the keys, but 100% of the keys in ")
    assert str(result).endswith("set sample_percent: 30")
    sampled = replace(configuration, sample_percent=30.0)
    assert pipeline.run(spark, sampled, repository, until="2023-01-05").notices == ()


@pytest.mark.soak
def test_query_sources_are_selected_and_stored(spark, namespace, service, repository):
    log_query(service, 1, D5, 1, 0.5)
    log_query(service, 2, D5, 7, 0.5, query_source="app")
    log_query(service, 3, D5, 7, 0.5, query_source="test")
    service.flush()
    offline_table(
        spark, namespace, [(user, time(D5), 1, 0.5, "2023-01-05") for user in (1, 2, 3, 4)]
    )
    backfill = TableBackfill(f"{namespace}.offline")
    configuration = conf(
        namespace, backfill=backfill, query_sources=("web", "app"), segment_by=("query_source",)
    )
    pipeline.run(spark, configuration, repository, until="2023-01-05")
    actual = metric(repository, "mismatch", f"{namespace}.search")
    at = "ds=2023-01-05/query_source={}/hr_minute=00-00"
    assert actual == {
        (at.format("app"), "clicks.clicks"): 1, (at.format("app"), "prices.price"): 0,
        (at.format("web"), "clicks.clicks"): 0, (at.format("web"), "prices.price"): 0,
    }  # fmt: skip
    nobody = at.format("__HIVE_DEFAULT_PARTITION__")
    assert metric(repository, "row_missing", f"{namespace}.search")[nobody, "clicks"] == 1
    table = spark.table(f"{namespace}.search_consistency_metrics")
    rows = table.where("metric_name = 'row_missing' AND number > 0 AND group_by_name = 'clicks'")
    assert [row.query_source for row in rows.collect()] == [None]
    assert repository.runs().tags.iloc[0]["query_source"] == "web, app"


def totals(repository, namespace):
    actual = metric(repository, "total", f"{namespace}.search")
    return {at[-5:]: total for (at, instance), total in actual.items() if instance[0] == "c"}


@pytest.mark.soak
def test_hours_that_lost_all_rows_count_zero(spark, namespace, service, repository, offline):
    log_query(service, 1, D5 + 7 * HOUR, 1, 2.5)
    log_query(service, 1, D5 + 8 * HOUR, 1, 2.5, query_source="app")
    service.flush()
    configuration = conf(namespace)
    pipeline.run(spark, configuration, repository, until="2023-01-05")
    assert totals(repository, namespace) == {"07-00": 1, "08-00": 1}
    web = replace(configuration, query_sources=("web",))
    pipeline.run(spark, web, repository, until="2023-01-05")
    assert totals(repository, namespace) == {"07-00": 1, "08-00": 0}
    table = spark.table(f"{namespace}.search_consistency_metrics")
    assert [row[0] for row in table.select("hr_minute").distinct().collect()] == ["07-00"]
    assert pipeline.run(spark, web, repository, until="2023-01-05").reports == ()
    pipeline.run(spark, configuration, repository, until="2023-01-05")
    assert totals(repository, namespace) == {"07-00": 1, "08-00": 1}


@pytest.mark.soak
def test_wider_buckets_replace_narrow_buckets(spark, namespace, service, repository, offline):
    log_query(service, 1, D5 + 7 * HOUR, 1, 2.5)
    log_query(service, 1, D5 + 7 * HOUR + 40 * MINUTE, 1, 2.5)
    service.flush()
    pipeline.run(spark, conf(namespace, bucket_minutes=30), repository, until="2023-01-05")
    assert totals(repository, namespace) == {"07-00": 1, "07-30": 1}
    pipeline.run(spark, conf(namespace), repository, until="2023-01-05")
    assert totals(repository, namespace) == {"07-00": 2, "07-30": 0}


@pytest.mark.soak
def test_a_day_without_selected_queries_makes_no_runs(
    spark, namespace, service, repository, offline
):
    two_days(service)
    none = conf(namespace, query_sources=("app",))
    for _ in range(2):
        assert pipeline.run(spark, none, repository, until="2023-01-06").reports == ()
    assert len(repository.runs()) == 0


@pytest.mark.soak
def test_a_killed_write_is_not_mistaken_for_a_complete_day(
    spark, namespace, service, repository, offline, monkeypatch
):
    """The rows of another configuration were written, but not yet the marker of the configuration."""
    two_days(service)
    configuration = conf(namespace)
    pipeline.run(spark, configuration, repository, until="2023-01-06")
    wide = replace(configuration, bucket_minutes=1440)
    with monkeypatch.context() as broken:
        broken.setattr(TableTarget, "drop", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            pipeline.run(spark, wide, repository, until="2023-01-06")
    done = pipeline.run(spark, configuration, repository, until="2023-01-06")
    assert done.compared == ("2023-01-05", "2023-01-06")
    rows = spark.table(f"{namespace}.search_comparison").where("ds = '2023-01-05'")
    assert {row[0] for row in rows.select("hr_minute").collect()} == {"07-00", "08-00"}


def test_a_table_of_another_owner_is_not_changed(spark, namespace, service, repository, offline):
    two_days(service)
    name = f"{namespace}.search_comparison"
    spark.range(3).write.saveAsTable(name)
    with pytest.raises(SourceError, match="search_comparison` was not written by a comparison"):
        pipeline.run(spark, conf(namespace), repository, until="2023-01-06")
    assert spark.table(name).count() == 3


@pytest.mark.soak
def test_a_feature_that_the_backfill_no_longer_has_is_not_measured(
    spark, namespace, service, repository, offline
):
    two_days(service)
    configuration = conf(namespace, group_bys={})
    pipeline.run(spark, configuration, repository, until="2023-01-05")
    assert {instance for _, instance in metric(repository, "total", f"{namespace}.search")} == {
        "*.clicks", "*.price"
    }  # fmt: skip
    fewer = QueryBackfill("SELECT user, ts, 1L AS clicks FROM logged_keys")
    pipeline.run(spark, replace(configuration, backfill=fewer), repository, until="2023-01-05")
    assert {instance for _, instance in metric(repository, "both_null", f"{namespace}.search")} == {
        "*.clicks"
    }
    near = replace(configuration, backfill=fewer, tolerance={"clikcs": Tolerance(1)})
    with pytest.raises(UnknownNameError, match="did you mean 'clicks'"):
        pipeline.run(spark, near, repository, until="2023-01-05")


@pytest.mark.soak
def test_names_can_change_their_letter_case(spark, namespace, service, repository, offline):
    two_days(service)
    only = QueryBackfill("SELECT user, ts, 2.5D AS price FROM logged_keys WHERE user = 1")
    configuration = conf(namespace)
    for clicks, price in (("clicks", "price"), ("Clicks", "Price")):
        group_bys = {clicks: GroupBy((clicks,)), "prices": GroupBy((price,), 0, only)}
        pipeline.run(
            spark, replace(configuration, group_bys=group_bys), repository, until="2023-01-05"
        )
    extra = metric(repository, "row_extra", f"{namespace}.search")
    eight = "ds=2023-01-05/hr_minute=08-00"
    assert (extra[eight, "Clicks"], extra[eight, "prices"]) == (0, 1)
    total = metric(repository, "total", f"{namespace}.search")
    assert (total[eight, "Clicks.Clicks"], total[eight, "prices.Price"]) == (2, 1)


@pytest.mark.soak
@pytest.mark.parametrize("zone", ["UTC", "Pacific/Auckland"])
def test_a_table_with_days_in_another_format_is_compared(
    spark, namespace, service, repository, zone
):
    log_query(service, 1, D5 + 23 * HOUR, 1, 2.5)
    service.flush()
    offline_table(spark, namespace, [(1, time(D5 + 23 * HOUR), 1, 2.5, "20230105")])
    configuration = conf(namespace, backfill=TableBackfill(f"{namespace}.offline"))
    with session_settings(spark, {"spark.sql.session.timeZone": zone}):
        pipeline.run(spark, configuration, repository, until="2023-01-05")
        late = "ds=2023-01-05/hr_minute=23-00"
        assert metric(repository, "mismatch", f"{namespace}.search")[late, "clicks.clicks"] == 0
        offline_table(spark, namespace, [(2, time(D5 + 23 * HOUR), 1, 2.5, "20230105")])
        assert pipeline.run(spark, configuration, repository, until="2023-01-05").compared
    missing = metric(repository, "row_missing", f"{namespace}.search")
    assert missing[late, "clicks"] == 1


@pytest.mark.parametrize("days", [{"until": "2023-1-6"}, {"until": "x", "since": "2023-01-05"}])
def test_invalid_days_are_refused(spark, namespace, repository, days):
    with pytest.raises(SuiteError, match="until must be a day such as 2023-01-05, not '"):
        pipeline.run(spark, conf(namespace), repository, **days)


@pytest.mark.soak
def test_a_group_by_without_a_join_is_compared(spark, namespace, service, repository, offline):
    service.register(
        LogSchema.from_schemas("clicks", KEY, record("V", clicks="long")), type="groupBy"
    )
    service.log("clicks", {"user": 1}, {"clicks": 1}, ts_millis=D5 + 9 * HOUR)
    service.flush()
    configuration = Configuration(
        namespace, "clicks", ("user",), QueryBackfill(EVENTS), type="groupBy", bucket_minutes=None
    )
    pipeline.run(spark, configuration, repository, until="2023-01-05")
    actual = metric(repository, "mismatch", f"{namespace}.clicks")
    assert actual == {("ds=2023-01-05", "clicks.clicks"): 1}
    rows = spark.table(f"{namespace}.clicks_consistency_metrics").select("hr_minute").distinct()
    assert [row[0] for row in rows.collect()] == ["00-00"]


@pytest.mark.soak
def test_a_function_computes_the_backfill(spark, namespace, service, repository):
    log_query(service, 1, D5, 1, 0.5)
    log_query(service, 1, D5, 1, 0.5)
    service.flush()
    calls = []

    def offline(keys):
        calls.append((keys.columns, keys.count()))
        return keys.selectExpr(
            "user", "unix_millis(ts) AS at", "0 AS ts", "2L AS clicks", "0.5D AS price"
        )

    configuration = conf(namespace, backfill=CallableBackfill(offline, "offline"), time="at")
    pipeline.run(spark, configuration, repository, until="2023-01-05")
    assert calls == [(["user", "ts"], 1)]
    mismatch = metric(repository, "mismatch", f"{namespace}.search")
    assert mismatch["ds=2023-01-05/hr_minute=00-00", "clicks.clicks"] == 1


@pytest.mark.soak
def test_new_features_are_new_columns_and_changed_types_are_refused(
    spark, namespace, service, repository, offline
):
    two_days(service)
    only = conf(namespace, group_bys={"clicks": GroupBy(("clicks",))})
    pipeline.run(spark, only, repository, until="2023-01-05")
    pipeline.run(spark, conf(namespace), repository, until="2023-01-05")
    rows = spark.table(f"{namespace}.search_comparison")
    assert rows.columns[-3:] == ["logged_price", "price", "ds"]
    assert rows.where("price IS NULL").count() == 0
    pipeline.run(spark, only, repository, until="2023-01-05")
    rows = spark.table(f"{namespace}.search_comparison")
    assert rows.select("logged_price").distinct().collect() == [(None,)]
    service.register(LogSchema.from_schemas("search", KEY, record("V", clicks=["null", "string"])))
    service.log("search", {"user": 1}, {"clicks": "1"}, ts_millis=D5 + 9 * HOUR)
    service.flush()
    with pytest.raises(SuiteError, match="'clicks' is BIGINT in the flattened table, and 'clicks'"):
        pipeline.run(spark, only, repository, until="2023-01-05")


@pytest.mark.soak
@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"backfill": QueryBackfill("SELECT ts, 1 AS clicks FROM logged_keys")}, "a query of 'clicks', 'prices' has no 'user' column"),
        ({"backfill": QueryBackfill("SELECT user, 1 AS clicks FROM logged_keys")}, "a query of 'clicks', 'prices' has no 'ts' column"),
        ({"payload": ("sesion",)}, "unknown payload 'sesion'"),
        ({"segment_by": ("source",)}, "has no column 'source'"),
        ({"backfill": QueryBackfill("SELECT *, 1L AS clicks FROM logged_keys")}, "the backfill has no 'price'"),
    ],
)  # fmt: skip
def test_mismatched_sides_are_refused(spark, namespace, service, repository, change, problem):
    log_query(service, 1, D5, 1, 0.5)
    service.flush()
    with pytest.raises((PreconditionError, SuiteError), match=problem):
        pipeline.run(spark, replace(conf(namespace), **change), repository, until="2023-01-05")


@pytest.mark.soak
def test_a_function_must_return_a_data_frame(spark, namespace, service, repository):
    log_query(service, 1, D5, 1, 0.5)
    service.flush()
    configuration = conf(namespace, backfill=CallableBackfill(lambda _: None, "mine"))
    with pytest.raises(
        SourceError,
        match="mine of 'clicks', 'prices' must return a DataFrame of features, not NoneType",
    ):
        pipeline.run(spark, configuration, repository, until="2023-01-05")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (
            {"backfill": TableBackfill("t"), "group_bys": {"g": GroupBy(("f",), 5)}},
            "'g' has lag_ms 5, but its backfill is the table t, which is already computed; use a query",
        ),
        ({"group_bys": {"g": GroupBy(("f",), -5)}}, "lag_ms of 'g' is -5"),
        ({"group_bys": {"g": GroupBy(())}}, "'g' has no features"),
        ({"group_bys": {"g": GroupBy(("f",)), "h": GroupBy(("f",))}}, "'f' is in two group-bys"),
        ({"backfill": None}, "'clicks' needs a backfill"),
        ({"tolerance": {"clikcs": Tolerance(1)}}, "did you mean 'clicks'"),
        ({"type": "table"}, "type must be one of 'join', 'groupBy'"),
        ({"keys": ()}, "keys are empty"),
        ({"segment_by": ("DS",)}, "segment_by cannot name 'DS'"),
        ({"segment_by": ("number",)}, "segment_by cannot name 'number'"),
        ({"namespace": ""}, "needs a namespace"),
    ],
)
def test_invalid_configurations_are_refused(change, problem):
    with pytest.raises(SuiteError, match=problem):
        replace(conf("ns"), **change)
