"""Merged states equal one computation on the whole table, on real data, where sketches are not exact."""

import pytest

import tidegauge as tg
from tests.conftest import soak
from tests.support.kills import random_moments
from tidegauge.analyzers.core.analyzer import Analyzer
from tidegauge.analyzers.scan.scan import scan

pytestmark = [pytest.mark.spark, pytest.mark.classic]  # the flights are a Hive table
DAYS = min(soak(10, 365), 365)
FILTER = "origin = 'EWR' AND dep_delay > 0"


def all_analyzers(where):
    return [
        tg.Size(where=where),
        tg.Completeness("dep_time", where=where),
        tg.Compliance("on time", "arr_delay <= 15", where=where),
        tg.Minimum("dep_delay", where=where),
        tg.Maximum("arr_delay", where=where),
        tg.Mean("arr_delay", where=where),
        tg.Sum("distance", where=where),
        tg.StandardDeviation("arr_delay", where=where),
        tg.ApproxCountDistinct("tailnum", where=where),
        tg.ApproxCountDistinct("flight", where=where),
        tg.ApproxQuantile("arr_delay", 0.5, where=where),
        tg.ApproxQuantiles("dep_delay", [0.01, 0.25, 0.75, 0.99], where=where),
        tg.Uniqueness("tailnum", where=where),
        tg.Uniqueness(["carrier", "flight", "time_hour"], where=where),
        tg.Distinctness("dep_delay", where=where),
        tg.CountDistinct(["origin", "dest"], where=where),
        tg.Histogram("carrier", where=where),
        tg.ReqQuantile("arr_delay", 0.5, where=where),
        tg.ReqQuantile("arr_delay", 0.999, where=where),
        tg.KLLSketch("dep_delay", where=where),
        tg.TopValues("tailnum", where=where),
        tg.ApproxUniqueness(["tailnum", "dest"], where=where),
        tg.ApproxDistinctness(["tailnum", "dest"], where=where),
        tg.ApproxUniqueValueRatio(["tailnum", "dest"], where=where),
        tg.Skewness("arr_delay", where=where),
        tg.Correlation("dep_delay", "arr_delay", where=where),
    ]


SAMPLED = (tg.ApproxUniqueness, tg.ApproxDistinctness, tg.ApproxUniqueValueRatio)
EVERY = [*all_analyzers(None), *all_analyzers(FILTER)]


@pytest.fixture(scope="module")
def data(spark, flights):
    days = sorted(row[0] for row in spark.table(flights).select("ds").distinct().collect())
    table = spark.table(flights).where(f"ds <= '{days[DAYS - 1]}'")
    table.cache()
    yield table
    table.unpersist()


@pytest.fixture(scope="module")
def exact(data):
    """Return the states of the whole table, and SQL results to measure tolerances and sketches with."""
    states = scan(data, EVERY).single_group.states
    sql = {}
    for where in ("true", FILTER):
        row = (
            data.where(where)
            .selectExpr(
                "sum(abs(arr_delay)) AS arr_abs",
                "sum(arr_delay * arr_delay) AS arr_sq",
                "sum(distance) AS distance",
                "count(DISTINCT tailnum) AS tailnum",
                "count(DISTINCT flight) AS flight",
                "sum(dep_delay * dep_delay) AS dep_sq",
                "count(DISTINCT tailnum, dest) AS pairs",
                "collect_list(CAST(arr_delay AS DOUBLE)) AS arr",
                "collect_list(CAST(dep_delay AS DOUBLE)) AS dep",
            )
            .collect()[0]
        )
        sql[where] = row.asDict()
        keys = data.where(where).where("tailnum IS NOT NULL OR dest IS NOT NULL")
        counts = keys.groupBy("tailnum", "dest").count()
        sql[where] |= (
            counts.selectExpr(
                "count(1) AS values", "count_if(count = 1) AS once", "sum(count) AS rows"
            )
            .collect()[0]
            .asDict()
        )
        tails = data.where(where).where("tailnum IS NOT NULL").groupBy("tailnum").count()
        sql[where]["tails"] = {row[0]: row[1] for row in tails.collect()}
    sql[None] = sql.pop("true")
    return {a: outcome.value for a, outcome in states.items()}, sql


def merged_by(data, by):
    groups = scan(data, EVERY, by).groups.values()
    return len(groups), {a: a.state_type.merge(g.states[a].value for g in groups) for a in EVERY}


def assert_equal(analyzer: Analyzer, state, whole, facts):
    if isinstance(analyzer, tg.Mean | tg.Sum):
        scale = facts["arr_abs"] if isinstance(analyzer, tg.Mean) else facts["distance"]
        assert state.count == whole.count
        assert abs(state.total - whole.total) <= 1e-9 * scale
    elif isinstance(analyzer, tg.StandardDeviation):
        assert state.count == whole.count
        assert abs(state.mean - whole.mean) * state.count <= 1e-9 * facts["arr_abs"]
        assert abs(state.m2 - whole.m2) <= 1e-9 * facts["arr_sq"]
    elif isinstance(analyzer, tg.ApproxCountDistinct):
        true = facts[analyzer.column]
        assert state.count == whole.count
        assert abs(state.estimate() - true) <= 3 * 0.0163 * true
    elif isinstance(analyzer, tg.Skewness | tg.Correlation):
        for name, power in {"m2": 2, "m3": 3, "m4": 4, "xx": 2, "yy": 2, "xy": 2}.items():
            if hasattr(whole, name):
                scale = max(facts["arr_sq"], facts["dep_sq"]) * 1500.0 ** (power - 2)
                assert abs(getattr(state, name) - getattr(whole, name)) <= 1e-9 * scale
    elif isinstance(analyzer, SAMPLED):
        exact = {
            tg.ApproxUniqueness: facts["once"] / facts["rows"],
            tg.ApproxDistinctness: facts["values"] / facts["rows"],
            tg.ApproxUniqueValueRatio: facts["once"] / facts["values"],
        }[type(analyzer)]
        assert state.count == whole.count == facts["rows"]
        value, error = analyzer.estimate(state)
        assert 0 < error < 0.1
        assert abs(value - exact) <= 3 * error
    elif isinstance(analyzer, tg.TopValues):
        assert state.count == whole.count == sum(facts["tails"].values())
        for tail, top in state.top().items():
            assert top.lower <= facts["tails"][tail] <= top.upper
        assert max(t.upper - t.lower for t in state.top().values()) <= 3 * 2.6 / 300 * state.count
    elif isinstance(analyzer, tg.KLLSketch):
        actual = analyzer.measure(state)
        values = facts["dep"]
        assert state.count == whole.count == len(values)
        for bucket in actual.buckets[:-1]:
            exact = sum(bucket.low <= v < bucket.high for v in values)
            assert abs(bucket.absolute - exact) <= 3 * 2 * actual.rank_error * len(values)
    elif isinstance(analyzer, tg.ReqQuantile):
        values, rank = sorted(facts["arr"]), analyzer.quantile
        actual = state.quantile(rank)
        assert state.count == whole.count == len(values)
        below = sum(v < actual for v in values) / len(values)
        upto = sum(v <= actual for v in values) / len(values)
        allowed = 3 * 0.13 / analyzer.k * (1 - rank) * 2
        assert below - allowed <= rank <= upto + allowed
    elif isinstance(analyzer, tg.ApproxQuantile | tg.ApproxQuantiles):
        values = sorted(facts["arr" if analyzer.column == "arr_delay" else "dep"])
        assert state.count == whole.count == len(values)
        for rank, actual in zip(analyzer.ranks(), state.quantiles(analyzer.ranks()), strict=True):
            below = sum(v < actual for v in values) / len(values)
            upto = sum(v <= actual for v in values) / len(values)
            assert below - 3 * 0.01 <= rank <= upto + 3 * 0.01
    else:
        assert state == whole
        assert analyzer.compute_metric_from(state) == analyzer.compute_metric_from(whole)


def test_the_days_merge_to_the_whole(data, exact):
    whole, facts = exact
    count, merged = merged_by(data, ["ds"])
    assert count == DAYS
    for analyzer in EVERY:
        assert_equal(analyzer, merged[analyzer], whole[analyzer], facts[analyzer.where])


@pytest.mark.soak
def test_random_cuts_merge_to_the_whole(data, exact):
    whole, facts = exact
    draw, seed = random_moments()
    print(f"seed {seed}")
    for _ in range(soak(2, 8)):
        parts, salt = draw.randint(2, 50), draw.randrange(2**31)
        cut = f"pmod(xxhash64({salt}, ds, carrier, flight, sched_dep_time, origin), {parts}) AS cut"
        count, merged = merged_by(data.selectExpr("*", cut), ["cut"])
        assert count == parts
        for analyzer in EVERY:
            assert_equal(analyzer, merged[analyzer], whole[analyzer], facts[analyzer.where])
