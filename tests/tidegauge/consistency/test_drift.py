"""Drift of compared features: logged against backfilled values, and one hour against another."""

from types import SimpleNamespace

import numpy as np
import pytest
from datasketches import kll_doubles_sketch

import tidegauge as tg
from tidegauge.analyzers.core.metric import Success
from tidegauge.analyzers.measures.quantiles import KllState, SketchPairs
from tidegauge.analyzers.scan.scan import Group
from tidegauge.consistency.compare.comparison import Comparison, record
from tidegauge.consistency.compare.distributions import ConsistencyDistribution

SEVEN, EIGHT = "ds=2023-01-05/hr_minute=07-00", "ds=2023-01-05/hr_minute=08-00"


def sketch(first, last):
    made = kll_doubles_sketch(200)
    made.update(np.arange(first, last + 1, dtype=float))
    return KllState(made.serialize())


@pytest.fixture
def recorded_hours(repo):
    """Store an hour whose backfill is 20 higher throughout, and an hour with equal sides."""
    types = pytest.importorskip("pyspark.sql.types")
    measures = tuple(
        ConsistencyDistribution(side, "prices", "index") for side in ("logged", "backfilled")
    )
    hours = {
        ("2023-01-05", "07-00"): SketchPairs(logged=sketch(1, 40), backfilled=sketch(21, 60)),
        ("2023-01-05", "08-00"): SketchPairs(equal=sketch(1, 40)),
    }
    groups = {at: Group(40, dict.fromkeys(measures, Success(state))) for at, state in hours.items()}
    table = SimpleNamespace(schema=types.StructType())
    record(Comparison(table, ("ds", "hr_minute"), measures, groups), repo, "shop.search")
    return repo


def test_logged_and_backfilled_values_of_an_hour_are_compared(recorded_hours):
    drifted = tg.consistency.drift(recorded_hours, "shop.search", "prices.index", SEVEN)
    assert (drifted.ks, drifted.wasserstein) == (0.5, 20.0)  # half of each is outside the other
    assert (drifted.baseline_rows, drifted.current_rows) == (40, 40)
    assert (drifted.baseline, drifted.current) == (f"backfilled, {SEVEN}", f"logged, {SEVEN}")
    assert (drifted.baseline_values[0], drifted.current_values[0]) == (21, 1)
    assert tg.consistency.drift(recorded_hours, "shop.search", "prices.index", EIGHT).ks == 0


def test_hours_of_a_window_are_merged(recorded_hours):
    day = ("2023-01-05", "2023-01-05")
    drifted = tg.consistency.drift(recorded_hours, "shop.search", "prices.index", day)
    assert drifted.ks == pytest.approx(0.25)  # a quarter of all backfilled values is above 40


def test_recorded_distances_are_metrics_of_the_feature(recorded_hours):
    tg.consistency.drift(recorded_hours, "shop.search", "prices.index", SEVEN, record=True)
    metrics = recorded_hours.metrics("shop.search", name="Consistency.ks")
    assert metrics[["partition", "instance", "value"]].values.tolist() == [
        [SEVEN, "prices.index", 0.5]
    ]


def test_logged_values_of_two_hours_are_compared(recorded_hours):
    assert recorded_hours.drift("shop.search", "prices.index", SEVEN, EIGHT).ks == 0
    with pytest.raises(tg.HistoryError, match="no stored state of"):
        recorded_hours.drift("shop.search", "prices.indx", SEVEN, EIGHT)


def test_histories_of_req_sketches_continue_with_pairs_of_kll_sketches(repo):
    """Older versions stored REQ sketches under another statistic. Both kinds of days are rolled up."""
    from datasketches import PyDoublesSerDe, req_items_sketch

    from tidegauge.analyzers.measures.quantiles import ReqState
    from tidegauge.repository.store import schema as s

    types = pytest.importorskip("pyspark.sql.types")
    measure = ConsistencyDistribution("logged", "prices", "index")
    old = req_items_sketch(12)
    for value in range(1, 41):
        old.update(float(value))
    before = ReqState(old.serialize(PyDoublesSerDe()))

    def keep(day, state):
        groups = {(day,): Group(40, {measure: Success(state)})}
        table = SimpleNamespace(schema=types.StructType())
        record(Comparison(table, ("ds",), (measure,), groups), repo, "shop.search")

    def medians():
        repo.roll_up("shop.search", ["1d"])
        metrics = repo.metrics("shop.search", window="1d", name="Consistency.logged-p50")
        return dict(zip(metrics["partition"], metrics["value"], strict=True))

    keep("2023-01-05", before)
    with repo.database.engine.begin() as connection:
        statistic = s.statistic.c.canonical
        connection.execute(s.statistic.update().values(canonical=statistic + " ", key="before"))
    assert medians() == {"2023-01-05/2023-01-06": 20.0}
    keep("2023-01-06", SketchPairs(logged=sketch(3, 42)))
    assert medians()["2023-01-06/2023-01-07"] == 22.0
