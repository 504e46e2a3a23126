"""Estimated lags: from counts, and from logs with a known lag."""

import bisect
import random
from dataclasses import replace

import numpy as np
import pytest

import tidegauge as tg
from tests.conftest import soak
from tests.tidegauge.consistency.logged_queries import (
    D5,
    HOUR,
    MINUTE,
    log_of_its_own,
    record,
    time,
)
from tidegauge.analyzers.core.errors import (
    PreconditionError,
    SourceError,
    SuiteError,
    UnknownNameError,
)
from tidegauge.cli.main import run_command
from tidegauge.consistency import lag_estimation as lag
from tidegauge.consistency import pipeline
from tidegauge.consistency.compare.equality import Tolerance
from tidegauge.consistency.configuration import (
    CallableBackfill,
    Configuration,
    GroupBy,
    QueryBackfill,
    TableBackfill,
)
from tidegauge.consistency.lag_estimation import (
    LagCounts,
    LagEstimate,
    LagEstimates,
    estimate_lag,
    lag_grid,
    shiftable,
)
from tidegauge.consistency.log.client import QueryLog
from tidegauge.consistency.log.query import bucket
from tidegauge.consistency.log.schemas import LogSchema
from tidegauge.consistency.log.table import log_folder
from tidegauge.repository.repository import Repository


def lag_counts(unequal, compared=100, matched=1):
    """Return counts of groups of keys (rows) at lags that are a minute apart (columns)."""
    cells = np.array(unequal, dtype=np.int64)
    lags = tuple(MINUTE * i for i in range(cells.shape[1]))
    return LagCounts(lags, np.full(len(cells), compared), cells, (matched,) * len(lags))


def estimate(unequal, now_ms=0, seed=0, **more):
    counts = lag_counts(unequal, **more)
    return LagEstimate.from_counts("g", counts, step_ms=MINUTE, now_ms=now_ms, seed=seed)


def minutes(estimated):
    return tuple(
        None if v is None else v / MINUTE
        for v in (estimated.lag_ms, estimated.low_ms, estimated.high_ms)
    )


@pytest.mark.parametrize(
    ("unequal", "expected", "message"),
    [
        pytest.param([[40, 20, 2, 20, 40]] * 8, (2, 1, 3), "", id="a valley"),
        pytest.param([[40, 0, 0, 0, 40, 60]] * 8, (2, 0, 4), "", id="a plateau: the middle, all of it left open"),
        pytest.param([[40, 0, 0, 40, 60]] * 8, (1, 0, 3), "", id="an even plateau: the shorter of the two"),
        pytest.param([[40, 30, 20, 10]] * 8, (3, 2, None), "may be longer than 3 min, the longest", id="the end"),
        pytest.param([[40, 20, 0, 0]] * 8, (2, 1, None), "may be longer", id="a plateau at the end"),
        pytest.param([[7, 7, 7, 7]] * 8, (None, 0, None), "all lags are about as consistent", id="flat"),
        pytest.param([[0, 0, 0, 0]] * 8, (None, 0, None), "all lags are about as consistent", id="nothing differs"),
        pytest.param([[0, 9, 20, 40]] * 8, (0, 0, 1), "no lag improves the consistency", id="none"),
        pytest.param([[0, 0, 20, 40]] * 8, (0, 0, 2), "no lag improves the consistency", id="none, or short"),
        pytest.param([[40, 20, 0, 20]] * 4, (None, 0, None), "fewer than 5 groups of keys", id="few keys"),
        pytest.param(
            [[40, 20, 0, 20], *[[5, 5, 5, 5]] * 7], (None, 0, None), "all lags are about", id="one key that stands out"
        ),
    ],
)  # fmt: skip
def test_lags_are_estimated_from_counts(unequal, expected, message):
    actual = estimate(unequal)
    assert minutes(actual) == expected
    assert message in actual.note
    assert bool(message) == bool(actual.note)


def test_the_configured_lag_is_the_starting_point():
    actual = estimate([[40, 20, 0, 20]] * 8, now_ms=3 * MINUTE)
    assert (actual.share_now, actual.share_best, actual.now_ms) == (0.2, 0.0, 3 * MINUTE)
    assert actual.p_value < 0.05


def test_a_backfill_without_logged_keys_is_reported():
    actual = estimate([[9, 9, 9]] * 8, matched=0)
    assert (actual.lag_ms, actual.share_best) == (None, None)
    assert "has none of the logged keys" in actual.note


def simulate_counts(true, seed, groups=48, rows=60, rate=0.02):
    """Return counts where values change at a random rate per minute, faster in some keys than in others."""
    random = np.random.default_rng(seed)
    rates = random.gamma(2, rate / 2, size=groups)
    away = np.abs(np.arange(25) - true)
    changed = random.exponential(1 / rates[:, None, None], size=(groups, rows, 1)) < away
    return changed.sum(axis=1)


def test_the_interval_contains_the_true_lag_as_often_as_stated():
    """True lags also lie between the tried lags. Limit: 90% of the draws less three standard errors."""
    times, held = soak(60, 600), 0
    for seed in range(times):
        true = 3 + (seed * 0.37) % 18
        actual = estimate(simulate_counts(true, seed), compared=60)
        low, high = actual.low_ms, actual.high_ms
        held += low <= true * MINUTE <= (np.inf if high is None else high)
        assert high is None or high - low >= MINUTE
        assert actual.lag_ms is not None
    assert held / times >= 0.9 - 3 * np.sqrt(0.09 / times)


def test_chance_is_rarely_mistaken_for_a_lag():
    """If all lags are alike, at most 5% of the draws plus three standard errors can show an effect."""
    times = soak(100, 1000)
    random = np.random.default_rng(4)
    actual = [estimate(random.binomial(60, 0.2, size=(40, 25)), compared=60) for _ in range(times)]
    most = 0.05 + 3 * np.sqrt(0.05 * 0.95 / times)
    assert sum(one.lag_ms not in {None, 0} for one in actual) / times <= most
    assert sum(one.lag_ms == 0 for one in actual) / times <= most


def test_a_true_lag_of_zero_has_an_estimate():
    actual = estimate(simulate_counts(0, 1), compared=60)
    assert minutes(actual) == (0, 0, 1)
    assert actual.p_value > 0.05


def test_one_seed_gives_one_result():
    unequal = simulate_counts(7.4, 1, groups=12, rows=10)
    one, same = (estimate(unequal, compared=10, seed=3) for _ in range(2))
    assert one == same
    others = {estimate(unequal, compared=10, seed=seed).p_value for seed in range(8)}
    assert len(others) > 1


def example_estimates(**more):
    one = estimate([[40, 20, 0, 20]] * 8)
    flat = estimate([[7, 7, 7, 7]] * 8)
    estimates = {"clicks": one, "<b>x</b>": replace(flat, group_by="<b>x</b>")}
    return LagEstimates("shop.search", ("2023-01-05",), 80, 800, estimates, ("t<i>",), **more)


def test_estimates_are_printed_and_shown():
    actual = example_estimates()
    assert actual.settings() == {"clicks": {"lag_ms": 2 * MINUTE}}
    assert str(actual).splitlines() == [
        "shop.search: 80 of 800 queries of 1 day, lags from 0 to 3 min",
        "g: 2 min (1 min to 3 min); unequal values: 0%, and 40% with the current lag 0",
        "<b>x</b>: no estimate, all lags are about as consistent as no lag: chance alone has the same effect"
        " in 100% of cases; unequal values: 7% with the current lag 0",
        "t<i>: skipped because its backfill is a table",
    ]
    frame = actual.frame()
    assert list(frame.lag_ms.isna()) == [False, True]
    assert (frame.lag_ms[0], frame.low_ms[0], frame.high_ms[0]) == (120_000, 60_000, 180_000)
    curve = actual.curve()
    assert len(curve) == 8
    assert list(curve.share[:4]) == [0.4, 0.2, 0.0, 0.2]
    page = actual._repr_html_()
    assert "<b>x" not in page
    assert "<i>" not in page
    assert "&lt;b&gt;x" in page
    with pytest.raises(UnknownNameError, match="did you mean 'clicks'"):
        _ = actual["click"]


def test_the_longest_lag_is_not_proposed():
    """If the longest tried lag is the best, longer lags can be better."""
    edge = estimate([[40, 30, 20, 10]] * 8)
    assert (edge.lag_ms, edge.high_ms) == (3 * MINUTE, None)
    inner = estimate([[40, 20, 0, 20]] * 8)
    actual = replace(example_estimates(), estimates={"edge": edge, "inner": inner})
    assert actual.settings() == {"inner": {"lag_ms": 2 * MINUTE}}


@pytest.mark.parametrize(
    ("longest", "step", "problem"),
    [
        (60_000, 0, "a step must be 1 ms or more"),
        (60_000, -5, "a step must be 1 ms or more"),
        (60_000, 60_001, "not exceed the longest lag"),
        (7_200_000, 10_000, "are 721 lags, but at most 500 are possible"),
    ],
)
def test_invalid_lags_are_refused(longest, step, problem):
    with pytest.raises(SuiteError, match=problem):
        lag_grid(longest, step)


MIXED = Configuration(
    "shop", "search", ("user",), QueryBackfill("SELECT 1"),
    {"query": GroupBy(("a",)), "table": GroupBy(("b",), 0, TableBackfill("offline"))},
)  # fmt: skip


@pytest.mark.parametrize(
    ("conf", "group_bys", "problem"),
    [
        (MIXED, ["table"], "the backfill of 'table' is the table offline, which is already computed; to estimate a lag"),
        (MIXED, ["query", "table"], "the backfill of 'table' is the table offline"),
        (MIXED, ["tables"], "did you mean 'table'"),
        (MIXED, [], "name at least one group-by"),
        (replace(MIXED, group_bys={}, backfill=TableBackfill("t")), None, "the backfill of '[*]' is the table t"),
    ],
)  # fmt: skip
def test_a_table_has_no_lag_to_estimate(conf, group_bys, problem):
    assert shiftable(MIXED) == (("query",), ("table",))
    with pytest.raises(SuiteError, match=problem):
        shiftable(conf, group_bys)


# A service with delayed writes. Every query is answered by hand in Python.

USERS = (*range(1, 12), None)
LAGS = {"clicks": 45 * MINUTE, "views": 12 * MINUTE, "taps": 100_000}
COUNTS = ", ".join(f"count_if(e.kind = '{kind}') AS {kind}" for kind in LAGS)
EVENTS = f"""
SELECT k.user, k.ts, {COUNTS}, 1.0D AS still
FROM logged_keys k LEFT JOIN lag_events e ON e.user <=> k.user AND e.at <= k.ts
GROUP BY k.user, k.ts
"""


KEY = record("Key", user=["null", "long"])
VALUE = record("Value", clicks="long", views="long", taps_1="long", still="double")


@pytest.fixture(scope="module")
def events():
    """Return the times of writes by user and kind: every five minutes, and taps more often."""
    drawn = random.Random(31)
    often = {"clicks": 60, "views": 60, "taps": 200}
    return {
        (user, kind): sorted(drawn.randrange(5 * HOUR) for _ in range(count))
        for user in USERS
        for kind, count in often.items()
    }


@pytest.fixture(scope="module")
def queries():
    """Return ten times at which each user is queried."""
    drawn = random.Random(7)
    return [(user, drawn.randrange(2 * HOUR, 5 * HOUR)) for user in USERS for _ in range(10)]


@pytest.fixture(scope="module")
def namespace(spark, events, queries):
    """Return a database with a log of a test's queries, one of them twice, and the view of events."""
    rows = [(u, kind, time(D5 + at)) for (u, kind), times in events.items() for at in times]
    data = spark.createDataFrame(rows, "user long, kind string, at timestamp")
    data.createOrReplaceTempView("lag_events")
    with log_of_its_own(spark) as name:
        with QueryLog(log_folder(spark, name), query_source="web") as service:
            service.register(LogSchema.from_schemas("search", KEY, VALUE))
            for user, at in [*queries, queries[0]]:
                seen = {
                    k: bisect.bisect_right(events[user, k], at - lag) for k, lag in LAGS.items()
                }
                taps = seen.pop("taps")
                reported = {"user": user}, {**seen, "taps_1": taps, "still": 1.01}
                service.log("search", *reported, ts_millis=D5 + at)
            nonsense = {"clicks": -1, "views": -1, "taps_1": -1, "still": -1.0}
            service.log("search", {"user": 1}, nonsense, ts_millis=D5 + HOUR, query_source="test")
        yield name
    spark.catalog.dropTempView("lag_events")


def conf(namespace, *names, **more):
    names = names or (*LAGS, "still")
    settings = {
        "backfill": QueryBackfill(EVENTS),
        "group_bys": {name: GroupBy((name,)) for name in names},
        "logged_as": {"taps": "taps_1"} if "taps" in names else {},
        "tolerance": {"still": Tolerance(0.1)} if "still" in names else {},
        "query_sources": ("web",),
        "bucket_minutes": None,
        **more,
    }
    return Configuration(namespace, "search", ("user",), **settings)


def naive(events, queries, kind, lags):
    """Count the answers that differ from the answers at each lag."""
    times = {at for at in queries}
    return [
        sum(
            bisect.bisect_right(events[user, kind], at - lag)
            != bisect.bisect_right(events[user, kind], at - LAGS[kind])
            for user, at in times
        )
        for lag in lags
    ]


@pytest.fixture(scope="module")
def estimated(spark, namespace):
    """Estimate lags where one group-by has a lag between grid points, and another group-by is a table."""
    configuration = conf(namespace)
    some = {**configuration.group_bys, "clicks": GroupBy(("clicks",), 17 * MINUTE)}
    some["other"] = GroupBy(("nothing",), 0, TableBackfill("nowhere"))
    configuration = replace(configuration, group_bys=some)
    return estimate_lag(spark, configuration, until="2023-01-05", longest_ms=HOUR)


@pytest.mark.soak
@pytest.mark.spark
def test_each_group_by_has_its_own_lag(estimated, events, queries):
    assert (estimated["clicks"].lag_ms, estimated["clicks"].share_best) == (45 * MINUTE, 0)
    assert abs(estimated["views"].lag_ms - LAGS["views"]) < 5 * MINUTE
    assert estimated["views"].low_ms <= LAGS["views"] <= estimated["views"].high_ms
    assert (estimated["taps"].lag_ms, estimated["taps"].low_ms) == (0, 0)
    assert (estimated["still"].lag_ms, estimated["still"].share_now) == (None, 0)
    assert estimated.left_out == ("other",)
    assert (estimated.queries, estimated.of_queries) == (len(set(queries)), len(queries) + 1)
    lags = sorted({*range(0, HOUR + 1, 5 * MINUTE), 17 * MINUTE})
    for kind in LAGS:
        curve = estimated[kind].curve
        assert [point.lag_ms for point in curve] == lags
        assert [point.unequal for point in curve] == naive(events, queries, kind, lags)
        assert {(p.compared, p.matched) for p in curve} == {(estimated.queries, estimated.queries)}
    assert estimated["clicks"].now_ms == 17 * MINUTE
    assert estimated["clicks"].share_now == estimated["clicks"].curve[4].share


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.parametrize(
    ("step", "wanted"), [(50_000, {100_000}), (60_000, {60_000, 120_000})], ids=["on the grid", "off the grid"]
)  # fmt: skip
def test_a_lag_of_100_seconds_is_estimated(spark, namespace, step, wanted, monkeypatch):
    """With a function, called once, and one column more than fits into one aggregate."""
    calls = []

    def offline(keys):
        calls.append(keys.count())
        keys.createOrReplaceTempView("lag_asked")
        return spark.sql(EVENTS.replace("logged_keys", "lag_asked"))

    monkeypatch.setattr(lag, "TARGET_BUFFERS", 1)
    some = {"taps": GroupBy(("taps", "still")), "clicks": GroupBy(("clicks",))}
    more = {"backfill": CallableBackfill(offline, "offline"), "group_bys": some}
    configuration = conf(namespace, "taps", "still", **more)
    estimates = estimate_lag(
        spark, configuration, until="2023-01-05", longest_ms=5 * step, step_ms=step
    )
    assert estimates["taps"].lag_ms in wanted
    assert estimates["taps"].low_ms <= 100_000 <= estimates["taps"].high_ms
    assert (estimates["taps"].share_best == 0) == (step == 50_000)
    assert [one.curve[0].compared / estimates.queries for one in estimates.values()] == [2, 1]
    assert calls == [6 * estimates.queries]


@pytest.mark.soak
@pytest.mark.spark
def test_configuring_the_estimate_reduces_the_mismatch(spark, namespace, estimated, tmp_path):
    configuration = conf(namespace, "clicks", "views")
    set_now = estimated.settings()
    lagged = {name: replace(one, **set_now[name]) for name, one in configuration.group_bys.items()}
    shares = []
    with Repository(f"sqlite:///{tmp_path / 'r.db'}") as repository:
        for one in (configuration, replace(configuration, group_bys=lagged)):
            pipeline.run(spark, one, repository, until="2023-01-05")
            facts = repository.metrics(one.dataset, name="Consistency.mismatch")
            shares.append(dict(zip(facts.instance, facts.value, strict=True)))
    before, after = shares
    assert (before["clicks.clicks"] > 0.9, after["clicks.clicks"]) == (True, 0)
    assert after["views.views"] < before["views.views"] / 2
    assert before["views.views"] == pytest.approx(estimated["views"].curve[0].share)
    assert after["views.views"] == pytest.approx(estimated["views"].share_best)


@pytest.mark.soak
@pytest.mark.spark
def test_a_sample_has_all_queries_of_some_keys(spark, namespace, queries):
    configuration = conf(namespace, "clicks")
    few = {"until": "2023-01-05", "longest_ms": HOUR, "step_ms": HOUR}
    estimates = estimate_lag(spark, configuration, rows=64, **few)
    kept = sorted(USERS, key=lambda user: bucket({"user": user}))[:6]
    assert estimates.queries == len({q for q in queries if q[0] in kept})
    assert estimates.of_queries == len(queries) + 1
    assert estimate_lag(spark, configuration, rows=1, **few).queries == 10


@pytest.mark.soak
@pytest.mark.spark
def test_lags_of_missing_queries_and_mismatched_types_are_not_estimated(spark, namespace):
    with pytest.raises(SourceError, match="search has no logged queries in these days"):
        estimate_lag(spark, conf(namespace), until="2023-01-04")
    with pytest.raises(SuiteError, match="rows is 0"):
        estimate_lag(spark, conf(namespace), rows=0)
    other = QueryBackfill("SELECT user, ts, 'x' AS clicks FROM logged_keys")
    with pytest.raises(PreconditionError, match="'clicks' is long in the log and string in the"):
        estimate_lag(spark, conf(namespace, "clicks", backfill=other), until="2023-01-05")


@pytest.mark.soak
@pytest.mark.spark
def test_the_command_prints_the_settings(namespace, tmp_path, capsys):
    file = tmp_path / "search.yml"
    query = EVENTS.replace("\n", " ")
    file.write_text(
        f"namespace: {namespace}\njoin: search\nkeys: [user]\nquery_source: web\n"
        f'backfill: {{query: "{query}"}}\ngroup_bys:\n  clicks: [clicks]\n'
    )
    command = ["consistency", "run", str(file), "--estimate-lag", "--until", "2023-01-05"]
    assert run_command([*command, "--longest-lag", "1h", "--lag-step", "15m"]) == 0
    printed = capsys.readouterr().out
    assert "clicks: 45 min (30 min to 1 h); unequal values: 0%, and " in printed
    assert printed.endswith("group_bys:\n  clicks:\n    lag_ms: 2700000\n")
    assert run_command([*command, "--lag-step", "soon"]) != 0
    assert "'soon' is not a duration" in capsys.readouterr().err


@pytest.mark.soak
@pytest.mark.spark
def test_the_public_function_reads_files(spark, namespace):
    estimates = tg.consistency.estimate_lag(
        conf(namespace, group_bys={}, logged_as={}, tolerance={"clicks": Tolerance(3)}),
        spark=spark, until="2023-01-05", longest_ms=HOUR, step_ms=45 * MINUTE,
    )  # fmt: skip
    assert list(estimates) == ["*"]
    assert (
        estimates["*"].curve[0].compared == 3 * estimates.queries
    )  # taps have another name in the log
