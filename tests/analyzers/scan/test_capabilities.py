"""Functions that a session lacks are replaced, with equal results."""

from dataclasses import replace

import pytest

import tidegauge as tg
from tidegauge.analyzers.core.analyzer import Sketch
from tidegauge.analyzers.core.errors import UnsupportedSparkError
from tidegauge.analyzers.core.partitions import SegmentSet
from tidegauge.analyzers.scan import capabilities as module
from tidegauge.analyzers.scan import plan
from tidegauge.analyzers.scan.capabilities import (
    Capabilities,
    aggregate_by_sets,
    capabilities,
    session_settings,
    smallest,
    to_arrow,
    worker_error,
    worker_versions,
)
from tidegauge.analyzers.scan.scan import scan

SKETCHES = [
    tg.ApproxCountDistinct("id"),
    tg.ApproxQuantile("x", 0.5),
    tg.ApproxQuantile("x", 0.5, where="id > 990"),
    tg.ApproxQuantiles("id", [0.1, 0.9]),
    tg.KLLSketch("x"),
    tg.TopValues("s"),
    tg.TopValues("s", where="false"),
    tg.ApproxUniqueness("id"),
    tg.ApproxUniqueness(["s", "x"], lg_k=5),
    tg.ApproxUniqueValueRatio("s"),
    tg.ReqQuantile("x", 0.99),
]


@pytest.fixture(scope="module")
def table(spark):
    data = spark.range(3000).selectExpr(
        "id",
        "IF(id % 10 = 3, NULL, IF(id % 10 = 4, DOUBLE('NaN'), id / 7D)) AS x",
        "IF(id % 11 = 3, NULL, CONCAT('k', id % 13)) AS s",
        "id % 3 AS part",
        "CAST(id % 2 AS STRING) AS `se g`",
    )
    return data.repartition(3).cache()


@pytest.fixture
def only_hll(spark, monkeypatch):
    """A session with the functions of Spark 3.5."""
    least = Capabilities(frozenset({"hll"}), smallest_rows=False)
    for place in (module, plan):
        monkeypatch.setattr(place, "capabilities", lambda _: least)
    return least


@pytest.mark.spark
def test_workers_build_the_same_sketches_as_spark(table, spark, monkeypatch):
    segments = [SegmentSet(("se g",), (("0",), ("1",)))]
    least = replace(capabilities(spark), sketches=frozenset({"hll"}))
    native = scan(table, SKETCHES, ["part"], segments=segments).groups
    monkeypatch.setattr(plan, "capabilities", lambda _: least)
    workers = scan(table, SKETCHES, ["part"], segments=segments).groups
    assert native.keys() == workers.keys() == {("0",), ("1",), ("2",)}
    for key, group in native.items():
        assert group.segments.keys() == workers[key].segments.keys()
        pairs = [(group, workers[key])]
        pairs += [(group.segments[name], workers[key].segments[name]) for name in group.segments]
        for ours, others in pairs:
            for analyzer in SKETCHES:
                a, b = ours.states[analyzer].value, others.states[analyzer].value
                assert type(a) is type(b)
                assert a.agrees_with(b), analyzer
                assert b.agrees_with(a), analyzer
                both = (a.combine(b), b.combine(a))
                assert both[0].agrees_with(both[1])


@pytest.mark.spark
def test_a_filter_that_does_not_parse_fails_only_its_analyzer(table, only_hll):
    results = scan(
        table, [tg.Size(), tg.ApproxQuantile("x", 0.5, where="zzz > 1")]
    ).single_group.states
    assert results[tg.Size()].value.num_matches == 3000
    assert "zzz" in str(results[tg.ApproxQuantile("x", 0.5, where="zzz > 1")].error)


class _Old:
    """A DataFrame without the methods that Spark 4 added."""

    def __init__(self, frame):
        self._frame = frame

    def __getattr__(self, name):
        if name in {"groupingSets", "toArrow"}:
            raise AttributeError(name)
        return getattr(self._frame, name)


@pytest.mark.spark
def test_grouping_sets_are_replaced_by_repeated_rows(table):
    from pyspark.sql import functions as F

    keyed = table.selectExpr("part", "s", "id % 2 AS odd", "x")
    sets = [["part"], ["part", "s"], ["odd"], []]
    cells = [F.expr("count(1)").alias("n"), F.expr("max(x)").alias("most")]
    columns = ["part", "s", "odd"]
    actual = [
        sorted(map(str, aggregate_by_sets(frame, sets, columns, cells).collect()))
        for frame in (keyed, _Old(keyed))
    ]
    assert actual[0] == actual[1]
    assert len(actual[0]) == 3 + 3 * 14 + 2 + 1


@pytest.mark.spark
def test_the_smallest_rows_can_be_found_by_sorting(spark, monkeypatch):
    rows = [("a", n, -n) for n in range(50)] + [("b", 1, 1), (None, 2, 2), (None, 3, 3)]
    frame = spark.createDataFrame(rows, "k string, v int, h int").repartition(3)
    native = dict(smallest(frame, "k", "v", "h", 3).collect())
    monkeypatch.setattr(module, "capabilities", lambda _: Capabilities(frozenset(), False))
    assert dict(smallest(frame, "k", "v", "h", 3).collect()) == native
    assert native == {"a": [49, 48, 47], "b": [1], None: [2, 3]}


@pytest.mark.spark
def test_arrow_tables_can_be_collected_as_bytes(table):
    frame = table.selectExpr("id", "s", "x", "array(id) AS l", "DATE'2024-01-02' AS d")
    new, old = to_arrow(frame.orderBy("id")), to_arrow(_Old(frame.orderBy("id")))
    assert old.to_pylist()[5:9] == new.to_pylist()[5:9]
    assert old.num_rows == new.num_rows == 3000
    nothing = to_arrow(_Old(frame.where("false")))
    assert (nothing.num_rows, nothing.column_names) == (0, frame.columns)


@pytest.mark.spark
def test_capabilities_of_a_session_are_detected_once(spark, monkeypatch):
    actual = capabilities(spark)
    assert actual.is_native(Sketch("hll", "x", 12))
    monkeypatch.setattr(module, "_detect_capabilities", lambda _: pytest.fail("asked again"))
    assert capabilities(spark) is actual


@pytest.mark.spark
def test_the_error_for_an_old_spark_names_the_required_version(spark, monkeypatch):
    monkeypatch.setattr(type(spark.catalog), "functionExists", lambda *_: False)
    with pytest.raises(UnsupportedSparkError, match=r"too old: .* 3\.5 or later; run it on"):
        module._detect_capabilities(spark)


@pytest.mark.spark
def test_workers_report_the_versions_of_their_packages(spark):
    actual = worker_versions(spark)
    assert actual.keys() == {"pyarrow", "numpy", "datasketches"}
    assert all(actual.values())


def test_the_error_names_a_package_that_workers_lack():
    text = "Job aborted: Traceback ...\nModuleNotFoundError: No module named 'datasketches'\n"
    assert "workers have no datasketches. On a cluster, ship" in str(
        worker_error(RuntimeError(text))
    )
    assert worker_error(RuntimeError("division by zero")) is None


def test_missing_functions_are_listed_with_their_replacement():
    assert Capabilities(frozenset(module.NATIVE_SKETCHES), smallest_rows=True).fallbacks() == {}
    actual = Capabilities(frozenset({"hll", "kll"}), smallest_rows=False).fallbacks()
    assert [*actual] == [
        "most frequent values", "approximate uniqueness", "samples of rejected records",
    ]  # fmt: skip


class Conf:
    """The settings of a session, in a dictionary."""

    def __init__(self, **settings):
        self.settings = settings

    def get(self, key, default):
        return self.settings.get(key, default)

    def set(self, key, value):
        self.settings[key] = value

    def unset(self, key):
        del self.settings[key]


class Session:
    """A session that only has settings."""

    def __init__(self, **settings):
        self.conf = Conf(**settings)


def test_settings_that_threads_set_at_once_are_restored_by_the_last():
    session = Session(zone="UTC")
    first = session_settings(session, {"zone": "CET", "mode": "a"})
    second = session_settings(session, {"zone": "CET"})
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert session.conf.settings == {"zone": "CET"}
    second.__exit__(None, None, None)
    assert session.conf.settings == {"zone": "UTC"}
