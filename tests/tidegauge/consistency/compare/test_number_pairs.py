"""Pairs of plain numbers: Python workers give the same states as Spark."""

import math
from itertools import product

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import soak
from tidegauge.analyzers.core.errors import PrivateColumnError
from tidegauge.analyzers.core.metric import Failure
from tidegauge.analyzers.core.privacy import Privacy
from tidegauge.analyzers.measures.quantiles import KllState, SketchPairs
from tidegauge.analyzers.scan import capabilities as asked
from tidegauge.analyzers.scan import plan
from tidegauge.analyzers.scan.capabilities import from_arrow, workers_are_equipped
from tidegauge.analyzers.scan.scan import scan
from tidegauge.consistency.compare import number_pairs_job
from tidegauge.consistency.compare.comparison import measure
from tidegauge.consistency.compare.distributions import ConsistencyDistribution
from tidegauge.consistency.compare.measures import (
    COPY_COLUMN,
    LOGGED_PREFIX,
    NULL_KEY_COLUMN,
    PRESENCE_COLUMN,
    Cells,
    ConsistencyCells,
    ConsistencyNumbers,
    Differences,
)
from tidegauge.consistency.compare.number_pairs_job import pair_merger, pair_scanner

N, NAN, INF = None, math.nan, math.inf
LONGS = [N, 0, 1, -7, 2**53, 2**53 + 1, 2**63 - 1, -(2**63)]
DOUBLES = [
    N,
    NAN,
    INF,
    -INF,
    0.0,
    -0.0,
    0.1,
    1.0,
    1.05,
    -7.0,
    1e308,
    -1e308,
    2.0**53,
    2.0**63,
    5e-324,
]
FLOATS = [N, NAN, INF, -INF, -0.0, 0.1, 1.0, 1.05, -7.0, 3e38, 1e-45]
BYTES = [N, 0, 1, -7, 127, -128]
KINDS = {
    "byte": (pa.int8(), BYTES),
    "short": (pa.int16(), [*BYTES, 32767]),
    "integer": (pa.int32(), [*BYTES, 2**31 - 1, -(2**31)]),
    "long": (pa.int64(), LONGS),
    "float": (pa.float32(), FLOATS),
    "double": (pa.float64(), DOUBLES),
}
NEAR, RATIO, BOTH = 0.06, {"rel": 0.05}, {"abs": 1, "rel": 1e-9}
PAIRS = {
    ("byte", "short"): [NEAR], ("integer", "byte"): [RATIO], ("long", "long"): [N, NEAR, RATIO],
    ("long", "double"): [N, BOTH], ("float", "float"): [RATIO], ("float", "double"): [N, NEAR],
    ("double", "float"): [BOTH], ("double", "double"): [N, NEAR, RATIO], ("float", "long"): [N],
}  # fmt: skip
"""Tolerances for each pair of types. The last one is measured by Spark."""


def table_of(spark, columns, rows, **others):
    """Return a comparison table of logged and backfilled columns. By default all rows match."""
    whole = {
        PRESENCE_COLUMN: ["matched"] * rows,
        COPY_COLUMN: [1] * rows,
        NULL_KEY_COLUMN: [False] * rows,
        **others,
    }
    for name, (types, pairs) in columns.items():
        for side, of, at in ((LOGGED_PREFIX + name, types[0], 0), (name, types[1], 1)):
            whole[side] = pa.array([pair[at] for pair in pairs], of)
    return from_arrow(spark, pa.table(whole)).repartition(3)


@pytest.fixture
def in_spark(monkeypatch):
    """Return a function that measures without workers."""

    def measured(*args, **options):
        with monkeypatch.context() as patched:
            patched.setattr(plan, "workers_are_equipped", lambda _: False)
            return measure(*args, **options)

    return measured


def require_equal(found, expected):
    """Require equal groups and equal states, except for the order in which doubles were added."""
    assert found.groups.keys() == expected.groups.keys()
    for values, group in expected.groups.items():
        assert found.groups[values].rows == group.rows
        for one, outcome in group.states.items():
            state, other = found.groups[values].states[one].value, outcome.value
            if isinstance(other, SketchPairs):
                assert state.agrees_with(other), (values, one)
            elif isinstance(other, Differences):
                assert state.pack()[:32] == other.pack()[:32], (values, one)
                for name in ("difference", "size", "ratios"):
                    assert getattr(state, name) == pytest.approx(getattr(other, name), rel=1e-12)
            else:
                assert state == other, (values, one)


@pytest.mark.spark
def test_all_pairs_of_hostile_numbers_agree_with_spark(spark, in_spark, monkeypatch):
    monkeypatch.setattr(number_pairs_job, "VALUES_PER_BLOCK", 5_000)
    monkeypatch.setattr(number_pairs_job, "MAX_SKETCHES_PER_TASK", 50)
    most = max(len(KINDS[a][1]) * len(KINDS[b][1]) for a, b in PAIRS)
    columns, tolerance = {}, {}
    for a, b in PAIRS:
        pairs = list(product(KINDS[a][1], KINDS[b][1]))
        pairs = [*pairs, *pairs, *[(N, N)] * (2 * (most - len(pairs)))]
        for i, within in enumerate(PAIRS[a, b]):
            columns[f"{a}_{b}_{i}"] = (KINDS[a][0], KINDS[b][0]), pairs
            if within is not None:
                tolerance[f"{a}_{b}_{i}"] = within
    # The first half is one group, the second half many groups of eight rows.
    hours = ["whole"] * most + [f"{i // 8}" for i in range(most)]
    table = table_of(spark, columns, 2 * most, hour=hours)
    arguments = (table, {"all": list(columns)}, ["hour"], tolerance)
    require_equal(measure(*arguments), in_spark(*arguments))


def rows(kind):
    value = st.sampled_from(KINDS[kind][1])
    return st.lists(
        st.tuples(
            st.sampled_from([N, "", "a", "b\x01", "b"]),
            st.sampled_from([N, 1, 2]),
            st.sampled_from(["matched", "matched", "missing", "extra"]),
            value,
            value,
        ),
        min_size=1,
        max_size=30,
    )


@pytest.mark.spark
@settings(max_examples=soak(2, 60), deadline=None)
@given(st.data())
def test_random_groups_and_rows_agree_with_spark(spark, data):
    kind, tolerance = data.draw(st.sampled_from([*KINDS])), data.draw(st.sampled_from([N, 0.5]))
    actual = data.draw(rows(kind))
    texts, numbers, presence, a, b = zip(*actual, strict=True)
    others = {
        PRESENCE_COLUMN: presence,
        "text": pa.array(texts, pa.string()),
        "n": pa.array(numbers, pa.int32()),
    }
    types = (KINDS[kind][0], KINDS[kind][0])
    nulls = [(N, N)] * len(actual)
    columns = {"x": (types, list(zip(a, b, strict=True))), "nothing": (types, nulls)}
    table = table_of(spark, columns, len(actual), **others)
    allowed = {} if tolerance is None else {"x": tolerance}
    for by in (["text", "n"], []):
        ours = measure(table, {"all": ["x", "nothing"]}, by, allowed)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(plan, "workers_are_equipped", lambda _: False)
            require_equal(ours, measure(table, {"all": ["x", "nothing"]}, by, allowed))


@pytest.mark.spark
def test_types_of_all_kinds_are_measured_together(spark, in_spark):
    table = spark.sql(
        "SELECT 'matched' AS row_presence, 1 AS row_copy, false AS row_null_key, id % 2 AS part,"
        " id AS logged_n, id % 5 AS n, CAST(id AS DECIMAL(9, 2)) AS logged_d, id / 2 AS d,"
        " CAST(id AS STRING) AS logged_s, 'a' AS s, array(id) AS logged_l, array(1L, id) AS l,"
        " map('k', id) AS logged_m, map('k', 1L) AS m, CAST(id AS FLOAT) AS logged_f, id AS f"
        " FROM range(20)"
    )
    named = {"one": ["n", "d", "s"], "two": ["l", "m", "f", "n"]}
    measured = measure(table, named, ["part"], {"n": 1})
    require_equal(measured, in_spark(table, named, ["part"], {"n": 1}))
    # Among the even numbers 0 to 18, numbers from 6 on differ by more than 1 from their remainder by 5.
    cells = ConsistencyCells("mismatch", "one", "n", absolute=1.0)
    assert measured.groups[("0",)].states[cells].value == Cells(3, 7)


@pytest.mark.spark
def test_plain_numbers_take_one_job_next_to_the_count_of_rows(spark):
    table = table_of(spark, {"x": ((pa.int64(), pa.float64()), [(1, 2.0)])}, 1)
    of_feature = [
        ConsistencyCells("mismatch", "g", "x"),
        ConsistencyNumbers("smape", "g", "x"),
        *(ConsistencyDistribution(side, "g", "x") for side in ("delta", "logged", "backfilled")),
    ]
    made = plan.plan(table, of_feature)
    assert [job.kind for job in made.jobs] == ["aggregate", "pairs of numbers"]
    large = plan.plan(table, [ConsistencyDistribution("delta", "g", "x", k=100)])
    assert "pairs of numbers" not in {job.kind for job in large.jobs}


@pytest.mark.spark
def test_segments_agree_with_spark(spark, monkeypatch):
    from tidegauge.analyzers.core.partitions import SegmentSet

    pairs = [(i, i % 3) for i in range(12)]
    others = {"part": [i % 2 for i in range(12)], "who": ["ann", "bob", None, "cy"] * 3}
    table = table_of(spark, {"x": ((pa.int64(), pa.int64()), pairs)}, 12, **others)
    cells = ConsistencyCells("mismatch", "g", "x")
    segments = [SegmentSet(("who",), (("ann",), ("bob",))), SegmentSet(("part",), (("1",),))]
    ours = scan(table, [cells], ["part"], segments=segments).groups
    monkeypatch.setattr(plan, "workers_are_equipped", lambda _: False)
    assert scan(table, [cells], ["part"], segments=segments).groups == ours
    # In part 0, ann has the rows 0, 4 and 8. Row 0 is equal.
    assert ours[("0",)].segments["who=ann"].states[cells].value == Cells(1, 2)


@pytest.mark.spark
def test_sketches_of_private_columns_are_refused(spark):
    table = table_of(spark, {"x": ((pa.int64(), pa.int64()), [(1, 2)])}, 1)
    one = ConsistencyDistribution("delta", "g", "x")
    outcome = scan(table, [one], private=Privacy(("x",))).single_group.states[one]
    assert isinstance(outcome, Failure)
    assert isinstance(outcome.error, PrivateColumnError)


@pytest.mark.spark
@pytest.mark.parametrize("versions", [{"numpy": None, "pyarrow": "15.0"}, "no Python"])
def test_sessions_with_unsuitable_workers_are_queried_once_and_use_spark(
    spark, monkeypatch, versions
):
    calls = []

    def ask(_):
        calls.append(1)
        if isinstance(versions, str):
            raise OSError(versions)
        return versions

    monkeypatch.setattr(asked, "_EQUIPPED_BY_SESSION", {})
    monkeypatch.setattr(asked, "worker_versions", ask)
    assert not workers_are_equipped(spark)
    table = table_of(spark, {"x": ((pa.int64(), pa.int64()), [(1, 2), (3, 3)])}, 2)
    made = plan.plan(table, [ConsistencyCells("mismatch", "g", "x")])
    assert {job.kind for job in made.jobs} == {"aggregate"}
    assert len(calls) == 1


def partial(batches, kinds):
    """Scan batches of one string column and two columns of numbers."""
    statistics = [(kind, 0, 1, options) for kind, options in kinds]
    return list(pair_scanner(1, 0, statistics)(iter(batches)))


def by_group(batches):
    """Return counts, sums and sketches of partial results by group and statistic."""
    actual = {}
    for batch in batches:
        for row in batch.to_pylist():
            key = (*row["key"], row["statistic"])
            assert key not in actual
            actual[key] = row["counts"], row["sums"], KllState(row["sketch"] or b"")
    return actual


@settings(max_examples=soak(20, 500), deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.sampled_from(LONGS), st.sampled_from(DOUBLES)),
        max_size=30,
    ),
    st.integers(0, 30),
)
def test_partial_results_of_parts_merge_to_the_result_of_the_whole(found, cut):
    sketched = [(part, (200,)) for part in ("equal", "logged", "backfilled", "delta")]
    kinds = [("cells", (0.0, 0.0)), ("differences", ()), *sketched]
    texts, a, b = zip(*found, strict=True) if found else ((), (), ())
    whole = pa.record_batch(
        [pa.array(texts, pa.string()), pa.array(a, pa.int64()), pa.array(b, pa.float64())],
        ["k", "a", "b"],
    )
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(number_pairs_job, "MAX_SKETCHES_PER_TASK", 1)
        patched.setattr(number_pairs_job, "MAX_STATISTICS_PER_TASK", 4)
        parts = [partial([part], kinds) for part in (whole[:cut], whole[cut:])]
    merged = by_group(pair_merger()(batch for part in parts for batch in part))
    expected = by_group(partial([whole], kinds))
    assert merged.keys() == expected.keys()
    for key, (counts, sums, sketch) in expected.items():
        assert merged[key][0] == counts
        assert sums is None or np.allclose(merged[key][1], sums, rtol=1e-12)
        assert merged[key][2].agrees_with(sketch)
