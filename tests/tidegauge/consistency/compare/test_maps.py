"""Comparison of maps: values are compared by the rules of their type, over the keys that both maps have."""

import math
from decimal import Decimal

import pytest

from tidegauge.analyzers.core.errors import WrongColumnTypeError
from tidegauge.analyzers.core.schema import Schema
from tidegauge.consistency.compare.comparison import LONG_FORM, compare
from tidegauge.consistency.compare.distributions import ConsistencyDistribution
from tidegauge.consistency.compare.measures import ConsistencyNumbers

N, NAN, INF = None, math.nan, math.inf
KEYS = {"missing_keys", "extra_keys", "mismatched_keys", "left_keys", "right_keys"}
CELLS = {"mismatch", "missing", "extra", "both_null", "total"}
TALL = Decimal(10**27 + 1)

PAIRS = {
    # Keys on both sides: (2, 4), (3, 3), (null, 5), (NaN, 1); then (-1, 1); none; none; (inf, 1).
    "d double": [
        ({"a": 1.0, "b": 2.0, "c": 3.0, "d": N, "e": NAN}, {"b": 4.0, "c": 3.0, "d": 5.0, "e": 1.0, "f": 7.0}),
        ({"x": -1.0}, {"x": 1.0}),
        (N, {"a": 1.0}),
        ({}, {}),
        ({"z": INF}, {"z": 1.0}),
    ],
    "i int": [({"a": 1, "b": 2, "c": 3}, {"b": 2, "c": 4, "d": 5})],
    "long long": [({"k": 2**60}, {"k": 2**60 + 1})],
    "wide long": [({"k": -(2**63)}, {"k": 2**63 - 1})],
    "f float": [({"a": 0.5, "b": NAN}, {"a": 1.5, "b": NAN})],
    "dec decimal(38,6)": [({"k": TALL}, {"k": Decimal(f"{TALL}.000001")})],
    "zero int": [({"a": 0}, {"a": 0})],
    "apart int": [({"a": 1}, {"b": 1})],
    "s string": [({"a": "1"}, {"a": "2"})],
    "b boolean": [({"a": True}, {"a": True})],
    # Keys on both sides: [1] and [1, 2], [] and [], [1, 2, 3] and [3]; only the log has an array in m.
    "l array<int>": [
        ({"a": [1], "b": [], "m": [9], "x": [7]}, {"a": [1, 2], "b": [], "m": N, "y": [8]}),
        ({"c": [1, 2, 3]}, {"c": [3]}),
    ],
}  # fmt: skip


@pytest.fixture(scope="module")
def metrics(spark):
    """Return the metrics of all maps, compared as features of one frame."""
    names = [reported.partition(" ")[0] for reported in PAIRS]
    kinds = [reported.partition(" ")[2] for reported in PAIRS]
    columns = ", ".join(f"{n} map<string,{k}>" for n, k in zip(names, kinds, strict=True))

    def side(at):
        rows = [
            (i, 0, *(pairs[i][at] if i < len(pairs) else N for pairs in PAIRS.values()))
            for i in range(5)
        ]
        return spark.createDataFrame(rows, f"id int, ts long, {columns}")

    comparison = compare(side(0), side(1), "id", bucket_minutes=None, partition_by=())
    frame = comparison.metrics()
    return {
        name: {r.metric_name: r for r in of.itertuples() if not r.error}
        for name, of in frame.groupby("feature_name")
    }


@pytest.mark.spark
@pytest.mark.parametrize(
    ("feature", "expected"),
    [
        (
            "d",
            {
                "smape": 4 / 14,  # (2 + 0 + 2) / (6 + 6 + 2)
                "smape_mean": 4 / 9,  # (1/3 + 0 + 1) / 3
                "not_finite": 2,
                "logged_nan": 1,
                "backfilled_nan": 0,
                "delta-min": -INF,
                "delta-max": 2.0,
                "logged-min": -1.0,
                "logged-max": INF,
                "backfilled-min": 1.0,
                "backfilled-max": 5.0,
                "missing_keys": 2,  # f, and d, which is null in the log
                "extra_keys": 1,
                "mismatched_keys": 4,  # b, e, x, z
                "left_keys": 7,
            },
        ),
        (
            "i",
            {
                "smape": 1 / 11,  # (2, 2), (3, 4)
                "smape_mean": 1 / 14,
                "delta-min": 0.0,
                "delta-max": 1.0,
                "logged-max": 3.0,
                "backfilled-max": 4.0,
                "mismatched_keys": 1,
            },
        ),
        ("long", {"delta-p50": 1.0, "smape": 2.0**-61}),
        ("wide", {"delta-p50": 2.0**64, "smape": 1.0}),
        ("f", {"delta-max": 1.0, "smape": 0.5, "logged_nan": 1, "not_finite": 1, "mismatched_keys": 1}),
        ("dec", {"delta-p50": 1e-6, "smape": 5e-34, "mismatched_keys": 1}),
        ("zero", {"smape": 0.0, "smape_mean": 0.0, "delta-max": 0.0}),
        (
            "l",
            {
                "logged_length-min": 0,
                "logged_length-max": 3,
                "backfilled_length-max": 2,
                "edit_insert-max": 1,  # 2 to a
                "edit_delete-max": 2,  # 1 and 2 from c
                "edit_skipped": 0,
                "missing_keys": 1,  # y
                "extra_keys": 2,  # x, and m, which is null in the backfill
                "mismatched_keys": 2,  # a, c
            },
        ),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)  # fmt: skip
def test_metrics_of_maps_equal_hand_computed_values(metrics, feature, expected):
    actual = {name: metrics[feature][name].number for name in expected}
    assert actual == pytest.approx(expected, rel=1e-12, abs=0)


@pytest.mark.spark
def test_weights_count_pairs_of_values(metrics):
    weights = {name: metric.weight for name, metric in metrics["d"].items()}
    assert (weights["smape"], weights["not_finite"]) == (3, 5)
    # Null and NaN are left out on their own side.
    assert [weights[f"{name}-p50"] for name in ("delta", "logged", "backfilled")] == [4, 4, 6]
    # Four pairs of keys with an array in the log, three with one in the backfill.
    weights = {name: metric.weight for name, metric in metrics["l"].items()}
    sides = ("logged_length-p50", "backfilled_length-p50", "edit_insert-p50", "edit_skipped")
    assert [weights[name] for name in sides] == [4, 3, 3, 3]


@pytest.mark.spark
def test_maps_of_other_values_have_only_key_metrics(metrics):
    for feature in ("s", "b"):
        assert metrics[feature].keys() == KEYS | CELLS
    assert metrics["s"]["mismatched_keys"].number == 1
    counted = {"not_finite", "logged_nan", "backfilled_nan"}
    assert metrics["apart"].keys() == KEYS | CELLS | counted  # no key in common
    reported = {name.partition("-")[0] for name in metrics["i"]} - counted
    assert reported == KEYS | CELLS | {"smape", "smape_mean", "delta", "logged", "backfilled"}
    assert reported <= LONG_FORM


def test_maps_of_strings_have_no_number_metrics():
    kind = {"type": "map", "keyType": "string", "valueType": "string"}
    schema = Schema.from_types({"logged_m": kind, "m": kind})
    for one in (ConsistencyNumbers("smape", "g", "m"), ConsistencyDistribution("delta", "g", "m")):
        with pytest.raises(WrongColumnTypeError, match="a map of numbers"):
            one.preconditions(schema)
