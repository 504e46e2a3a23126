"""States without Spark: metrics, merging, and the accuracy of sketches at both tails."""

import random

import numpy as np
import pytest
from datasketches import frequent_strings_sketch, kll_doubles_sketch

from tests.conftest import soak
from tidegauge.analyzers.core.errors import (
    CorruptStateError,
    IllegalAnalyzerParameterError,
    NoSuchColumnError,
    WrongColumnTypeError,
)
from tidegauge.analyzers.core.metric import flatten
from tidegauge.analyzers.core.schema import Schema
from tidegauge.analyzers.core.state import read_state
from tidegauge.analyzers.measures.quantiles import KllState, SketchPairs
from tidegauge.analyzers.measures.top_values import FrequentItemsState
from tidegauge.consistency.compare.distributions import (
    RANK_BY_QUANTILE,
    ConsistencyDistribution,
    ConsistencyEdits,
    ConsistencyEditsSkipped,
    ConsistencyTexts,
)
from tidegauge.consistency.compare.equality import Tolerance, holds, minus, same, shape
from tidegauge.consistency.compare.measures import (
    Cells,
    ConsistencyCells,
    ConsistencyKeys,
    ConsistencyNumbers,
    ConsistencyRows,
    Differences,
    KeyCounts,
    RowPresence,
)

OF = ("user", "age")


def sketch(values, k=200):
    made = kll_doubles_sketch(k)
    made.update(np.array(values, float))
    return KllState() if made.is_empty() else KllState(made.serialize())


@pytest.mark.parametrize(
    ("analyzer", "state", "value", "weight", "scale"),
    [
        (ConsistencyCells("missing", *OF), Cells(3, 2, 4, 0, 1), 0.4, 10, "ratio"),
        (ConsistencyCells("both_null", *OF), Cells(3, 2, 4, 0, 1), 0.1, 10, "ratio"),
        (ConsistencyCells("total", *OF), Cells(3, 2, 4, 0, 1), 10.0, 10, "count"),
        (ConsistencyCells("total", *OF), Cells(), 0.0, 0, "count"),
        (ConsistencyCells("extra", *OF), Cells(), None, 0, "ratio"),
        (ConsistencyRows("row_extra", "user"), RowPresence(8, 2, 3, 1, 1), 3.0, 13, "count"),
        (
            ConsistencyNumbers("smape", *OF),
            Differences(2, 1, 0, 0, 1.0, 4.0, 1.0),
            0.25,
            2,
            "ratio",
        ),
        (
            ConsistencyNumbers("smape_mean", *OF),
            Differences(2, 1, 0, 0, 1.0, 4.0, 1.0),
            0.5,
            2,
            "ratio",
        ),
        (ConsistencyNumbers("smape", *OF), Differences(pairs=2), 0.0, 2, "ratio"),
        (ConsistencyNumbers("smape", *OF), Differences(not_finite=2), None, 0, "ratio"),
        (ConsistencyNumbers("not_finite", *OF), Differences(1, 2), 2.0, 3, "count"),
        (ConsistencyKeys("extra_keys", *OF), KeyCounts(5, 1, 7, 2, 9, 9), 7.0, 5, "count"),
        (ConsistencyKeys("extra_keys", *OF), KeyCounts(), None, 0, "count"),
    ],
    ids=lambda x: repr(x) if isinstance(x, ConsistencyCells) else None,
)
def test_metrics_of_states_equal_hand_computed_values(analyzer, state, value, weight, scale):
    metric = analyzer.compute_metric_from(state)
    assert (None if metric.empty else metric.value) == value
    assert metric.weight == weight
    assert metric.name == f"Consistency.{analyzer.metric}"
    assert metric.instance == ("user" if analyzer.metric.startswith("row_") else "user.age")
    assert analyzer.scale_of(metric.name) == scale


def test_a_distribution_has_seven_numbers():
    metric = ConsistencyDistribution("delta", *OF).compute_metric_from(sketch(range(21)))
    actual = {m.name: m.value for m in flatten(metric)}
    quantiles = {"min": 0, "p5": 1, "p25": 5, "p50": 10, "p75": 15, "p95": 19, "max": 20}
    assert actual == {f"Consistency.delta-{name}": value for name, value in quantiles.items()}
    assert metric.weight == 21
    assert metric.interval["min"].lower == metric.interval["min"].upper == 0
    assert ConsistencyDistribution("delta", *OF).compute_metric_from(KllState()).empty


def pairs_of(logged, backfilled):
    """Return a state of two arrays. NaN stands for null."""
    delta = backfilled - logged
    equal = delta == 0
    parts = (logged[equal], logged[~equal], backfilled[~equal], delta[~equal])
    return SketchPairs.from_parts(*(sketch(part[~np.isnan(part)]) for part in parts))


def test_equal_values_are_stored_once_and_infinite_differences_are_left_out():
    logged = np.array([1.0, 2.0, 3.0, np.nan, 8.0])
    backfilled = np.array([1.0, 2.0, 5.0, 7.0, np.nan])
    state = pairs_of(logged, backfilled)
    assert [state.equal.count, state.logged.count, state.backfilled.count] == [2, 2, 2]
    assert (state.delta.count, state.distribution("delta").count) == (1, 3)
    actual = {
        metric: ConsistencyDistribution(metric, *OF).compute_metric_from(state)
        for metric in ("logged", "backfilled", "delta")
    }
    # The median of four values is the second: half of the values are not greater.
    assert [actual["logged"].value[q] for q in ("min", "p50", "max")] == [1.0, 2.0, 8.0]
    assert [actual["backfilled"].value[q] for q in ("min", "p50", "max")] == [1.0, 2.0, 7.0]
    assert [actual["delta"].value[q] for q in ("min", "p50", "max")] == [0.0, 0.0, 2.0]
    assert [one.weight for one in actual.values()] == [4, 4, 3]


def test_pairs_without_a_value_have_no_distribution():
    state = SketchPairs(logged=sketch([1.0]))
    assert ConsistencyDistribution("logged", *OF).compute_metric_from(state).value["max"] == 1.0
    for metric in ("backfilled", "delta"):
        assert ConsistencyDistribution(metric, *OF).compute_metric_from(state).empty


def test_equal_columns_take_the_bytes_of_one_sketch():
    values = np.random.default_rng(1).normal(size=20_000)
    alike = len(pairs_of(values, values).pack())
    assert len(sketch(values).pack()) <= alike <= len(sketch(values).pack()) + 16


@pytest.mark.parametrize("share", [0.0, 0.01, 0.1, 0.5, 0.9, 1.0, None])
def test_pairs_are_as_accurate_as_a_sketch_of_each_side(share):
    """Also if the share of different values, and so the size of the sketches, changes every hour."""
    rng = np.random.default_rng(7)
    logged = rng.lognormal(0, 1, 24_000)
    shares = np.tile([0.0, 0.01, 0.1, 0.5, 0.9, 1.0], 4).repeat(1000) if share is None else share
    backfilled = logged + np.where(rng.random(24_000) < shares, rng.normal(0, 1, 24_000), 0)
    parts = zip(np.split(logged, 24), np.split(backfilled, 24), strict=True)
    state = SketchPairs.merge(pairs_of(*part) for part in parts)
    exact = {"logged": logged, "backfilled": backfilled, "delta": backfilled - logged}
    for metric, values in exact.items():
        ordered, actual = np.sort(values), state.distribution(metric)
        assert actual.count == len(values)
        assert actual.quantiles([0.0, 1.0]) == [ordered[0], ordered[-1]]
        for rank in (0.05, 0.25, 0.5, 0.75, 0.95):
            (value,) = actual.quantiles([rank])
            below, upto = (np.searchsorted(ordered, value, side) for side in ("left", "right"))
            allowed = 0.16 / 12 * len(values)  # at 99% confidence
            assert below - allowed <= rank * len(values) <= upto + allowed, (metric, rank)
            (bounds,) = actual.intervals([rank])
            assert bounds.lower <= value <= bounds.upper


@pytest.mark.parametrize(("share", "at_most"), [(0.0, 0.36), (0.01, 0.42), (0.1, 0.5), (0.5, 0.75)])
def test_pairs_take_fewer_bytes_than_three_sketches(share, at_most):
    """The fewer values differ, the smaller are the sketches of different values."""
    rng = np.random.default_rng(7)
    logged = rng.normal(size=20_000)
    backfilled = logged + np.where(rng.random(20_000) < share, rng.normal(size=20_000), 0)
    three = sum(len(sketch(v).pack()) for v in (logged, backfilled, backfilled - logged))
    assert len(pairs_of(logged, backfilled).pack()) <= at_most * three


def test_a_distribution_that_was_stored_as_one_sketch_reads_back():
    metric = ConsistencyDistribution("logged", *OF).compute_metric_from(sketch([1.0, 4.0, 9.0]))
    assert (metric.value["p50"], metric.weight) == (4.0, 3)


@pytest.mark.parametrize("payload", [b"", b"123", bytes(15), b"\x01" + bytes(15), bytes(17)])
def test_damaged_pairs_are_refused(payload):
    with pytest.raises(CorruptStateError):
        read_state("sketch-pairs/1", payload)


def test_the_share_of_the_most_frequent_string_has_bounds():
    made = frequent_strings_sketch(8)
    for text, count in (("oslo", 6), ("rome", 3), ("", 1)):
        made.update(text, count)
    state = FrequentItemsState(made.serialize())
    metric = ConsistencyTexts("backfilled_top", "user", "city").compute_metric_from(state)
    assert (metric.name, metric.instance) == ("Consistency.backfilled_top", "user.city")
    assert (metric.value, metric.interval.lower, metric.interval.upper) == (0.6, 0.6, 0.6)
    assert ConsistencyTexts("logged_top", *OF).compute_metric_from(FrequentItemsState()).empty


def test_distinct_strings_have_a_share_within_its_bounds():
    made = frequent_strings_sketch(8)
    for number in range(10_000):
        made.update(str(number))
    metric = ConsistencyTexts("logged_top", *OF).compute_metric_from(
        FrequentItemsState(made.serialize())
    )
    assert metric.interval.lower <= 1 / 10_000 <= metric.interval.upper < 0.02


def test_metrics_of_one_feature_share_a_state():
    def statistics(*analyzers):
        return len({a.statistic() for a in analyzers})

    cells = [ConsistencyCells(m, *OF) for m in ConsistencyCells.metrics]
    assert statistics(*cells) == 1
    assert statistics(*cells, ConsistencyCells("total", "other", "age")) == 1
    assert statistics(*cells, ConsistencyCells("total", *OF, 0.5)) == 2
    rows = [ConsistencyRows(m, "a") for m in ConsistencyRows.metrics]
    assert statistics(*rows) == 1
    # Group-bys can have their own backfills, and so different rows.
    assert statistics(*rows, ConsistencyRows("row_extra", "b")) == 2
    sketches = [ConsistencyDistribution(m, *OF) for m in ConsistencyDistribution.metrics]
    edits = [ConsistencyEdits(m, *OF) for m in ConsistencyEdits.metrics]
    skipped = ConsistencyEditsSkipped("edit_skipped", *OF)
    longer = ConsistencyEditsSkipped("edit_skipped", *OF, longest=9)
    assert statistics(*sketches, *edits, skipped, longer) == 6
    # 256 slots hold 192 strings; one more string needs 512 slots.
    texts = [ConsistencyTexts("logged_top", *OF, tracked) for tracked in (100, 192, 193)]
    assert statistics(*texts, ConsistencyTexts("backfilled_top", *OF)) == 3


TYPES = {
    "logged_age": "integer",
    "age": "double",
    "logged_tags": {"type": "array", "elementType": "string", "containsNull": True},
    "tags": {"type": "array", "elementType": "string", "containsNull": False},
}


@pytest.mark.parametrize(
    ("analyzer", "error", "message"),
    [
        (
            lambda: ConsistencyCells("mismatched", *OF),
            IllegalAnalyzerParameterError,
            "metric must be one of",
        ),
        (
            lambda: ConsistencyCells("mismatch", *OF, -1),
            IllegalAnalyzerParameterError,
            "at least 0",
        ),
        (ConsistencyCells("mismatch", "user", "agee"), NoSuchColumnError, "logged_agee"),
        (ConsistencyNumbers("smape", "user", "tags"), WrongColumnTypeError, "numeric"),
        (ConsistencyKeys("left_keys", *OF), WrongColumnTypeError, "a map"),
        (ConsistencyTexts("logged_top", *OF), WrongColumnTypeError, "text"),
        (
            lambda: ConsistencyTexts("logged_top", *OF, 0),
            IllegalAnalyzerParameterError,
            "tracked <= 10000",
        ),
        (ConsistencyEdits("edit_insert", *OF), WrongColumnTypeError, "an array"),
        (
            lambda: ConsistencyEdits("edit_insert", "user", "tags", longest=0),
            IllegalAnalyzerParameterError,
            "longest",
        ),
        (
            lambda: ConsistencyDistribution("delta", *OF, 5),
            IllegalAnalyzerParameterError,
            "even number",
        ),
        (ConsistencyDistribution("logged_length", *OF), WrongColumnTypeError, "an array"),
        (ConsistencyDistribution("logged", "user", "tags"), WrongColumnTypeError, "numeric"),
    ],
    ids=lambda x: x if isinstance(x, str) else None,
)
def test_preconditions_report_unsuitable_types(analyzer, error, message):
    with pytest.raises(error, match=message):
        built = analyzer() if callable(analyzer) else analyzer  # options are checked when built
        built.preconditions(Schema.from_types(TYPES))


def test_types_are_equal_regardless_of_nullability():
    assert shape(TYPES["tags"]) == shape(TYPES["logged_tags"])
    assert shape(TYPES["tags"]) != shape({**TYPES["tags"], "elementType": "long"})
    nested = {"type": "map", "keyType": "string", "valueType": TYPES["tags"]}
    assert holds(nested, frozenset({"string"}))
    assert not holds(nested, frozenset({"double"}))


def test_values_without_tolerance_are_compared_directly():
    assert same("a", "b", (TYPES["tags"], TYPES["tags"]), Tolerance(0.5)) == "(a <=> b)"
    assert (
        minus("a", "b", ("integer", "short"))
        == "CAST(CAST(a AS BIGINT) - CAST(b AS BIGINT) AS DOUBLE)"
    )


@pytest.mark.parametrize("shape", ["normal", "lognormal", "mostly zero"])
@pytest.mark.parametrize("parts", [1, 24])
def test_both_tails_are_as_accurate_as_the_median(shape, parts):
    for seed in range(soak(2, 20)):
        rng = np.random.default_rng(seed)
        match shape:
            case "normal":
                drawn = rng.normal(0, 1, 48_000)
            case "lognormal":
                drawn = -rng.lognormal(0, 2, 48_000)
            case "mostly zero":
                drawn = np.where(rng.random(48_000) < 0.95, 0, rng.pareto(1.5, 48_000))
        state = KllState.merge(sketch(some) for some in np.split(drawn, parts))
        ordered = np.sort(drawn)
        assert state.count == len(drawn)
        assert state.quantiles([0.0, 1.0]) == [ordered[0], ordered[-1]]
        for rank in (0.05, 0.25, 0.5, 0.75, 0.95):
            (value,) = state.quantiles([rank])
            below = np.searchsorted(ordered, value, "left") / len(ordered)
            upto = np.searchsorted(ordered, value, "right") / len(ordered)
            allowed = 1.5 * 0.16 / 12  # half again as much as at 99% confidence
            assert below - allowed <= rank <= upto + allowed, (shape, parts, seed, rank)


def test_the_documented_accuracy_is_the_accuracy_of_the_sketch():
    """DataSketches: at 99% confidence, ranks are off by at most 2.296 / k ** 0.9723."""
    for k in (4, 12, 1024):
        requests, *_ = ConsistencyDistribution("delta", *OF, k).requests(Schema.from_types(TYPES))
        size = getattr(requests, "instead", requests).size
        assert 2.296 / size**0.9723 <= 0.16 / k
        assert sketch(range(10_000), size).rank_error() == pytest.approx(2.296 / size**0.9723)


def test_intervals_contain_the_exact_quantiles_and_the_ends_are_exact():
    state = sketch(range(100_000))
    least, median, most = state.intervals([0.0, 0.5, 1.0])
    assert (least.lower, least.upper, most.lower, most.upper) == (0, 0, 99_999, 99_999)
    assert median.lower < 50_000 < median.upper


def test_merged_hours_equal_the_day():
    rng = random.Random(29)
    values = [[rng.gauss(hour, 3) for _ in range(rng.randrange(400))] for hour in range(24)]
    cells = [Cells(len(v), hour, 1, 0, 2) for hour, v in enumerate(values)]
    day = Cells.merge(cells)
    assert day == Cells(sum(map(len, values)), 276, 24, 0, 48)
    together = [value for hour in values for value in hour]
    merged, whole = KllState.merge(map(sketch, values)), sketch(together)
    assert merged.agrees_with(whole)
    ordered = sorted(together)
    for rank, value in zip(
        RANK_BY_QUANTILE.values(), merged.quantiles(list(RANK_BY_QUANTILE.values())), strict=True
    ):
        actual = sum(v <= value for v in ordered) / len(ordered)
        assert abs(actual - rank) <= 1.5 * 0.16 / 12 + 1 / len(ordered)
