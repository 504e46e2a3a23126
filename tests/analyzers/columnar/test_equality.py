"""All routes give the states of Spark SQL: random tables, measured by all of them."""

import datetime as dt
import math
from decimal import Decimal
from functools import partial
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import tidegauge as tg
from tests.analyzers.columnar.random_tables import MAX_ROWS, analyzers, random_partition, write
from tests.conftest import soak
from tests.support.memory_store import MemoryRunStore
from tidegauge.analyzers.columnar.engines import MeasuringEngine, Route
from tidegauge.analyzers.columnar.planner import ColumnarPlanner
from tidegauge.analyzers.core.metric import Success
from tidegauge.analyzers.measures.cardinality import HllState
from tidegauge.analyzers.measures.extremes import MaxState, MinState, RangeState
from tidegauge.analyzers.measures.moments import TwoSums
from tidegauge.analyzers.measures.quantiles import KllState
from tidegauge.analyzers.runs import runner
from tidegauge.analyzers.runs.ledger import RunSpec
from tidegauge.analyzers.runs.runner import run_incremental
from tidegauge.analyzers.sources.opening import open_folder, open_table

PARTITIONS = 6
MANY_ROWS = 3000
"""Rows of the files of one partition, which fill the registers of HLL and compact KLL sketches."""
EXTREMES = (MinState, MaxState, RangeState)


class RecordingStore(MemoryRunStore):
    """A store that keeps the measured partitions."""

    def __init__(self):
        super().__init__()
        self.measured = {}

    def commit_batch(self, run, batch):
        self.measured.update({m.partition.name: m for m in batch})
        return super().commit_batch(run, batch)


def measured_by(engine, spark, folder, suite):
    store = RecordingStore()
    source = open_folder(spark, str(folder))
    report = run_incremental(
        source, RunSpec("d", str(folder), source.keys), suite, store, engine=engine
    )
    return store.measured, report


def assert_all_same(own, reference):
    """Require equal partitions with equal states."""
    assert own.keys() == reference.keys()
    for name, measured in reference.items():
        assert (own[name].schema, own[name].rows) == (measured.schema, measured.rows), name
        outcomes = {m.analyzer: m.outcome for m in own[name].measurements}
        assert outcomes.keys() == {m.analyzer for m in measured.measurements}
        for measurement in measured.measurements:
            try:
                assert_same(outcomes[measurement.analyzer], measurement.outcome)
            except AssertionError as error:
                raise AssertionError(f"{name} {measurement.analyzer}: {error}") from error


def assert_same(own, reference):
    """Require equal states: by their bytes, or within rounding if they hold doubles."""
    assert type(own) is type(reference), (own, reference)
    if not isinstance(own, Success):
        assert str(own.error) == str(reference.error)
        assert own.error.is_retriable == reference.error.is_retriable
        return
    own, reference = own.value, reference.value
    if own.pack() == reference.pack():
        return
    if isinstance(
        own, HllState
    ):  # the registers are equal; small sketches keep the order of the values
        assert own.agrees_with(reference), (own, reference)
    elif isinstance(own, KllState):
        assert own.agrees_with(reference), (own, reference)
        if own.count <= own.k:  # all values are kept, in any order
            assert sorted(own.retained_values()) == sorted(reference.retained_values())
    elif isinstance(own, EXTREMES):  # Spark keeps the first of 0.0 and -0.0
        assert own == reference, (own, reference)
    else:
        assert has_rounded_parts(own), (own, reference)
        assert own.agrees_with(reference) or are_close(own, reference), (own, reference)


def has_rounded_parts(state):
    """Return whether a state holds doubles, or decimals, of which classic sessions write 1E-10 as 1.00E-10."""
    if isinstance(state, TwoSums):
        return has_rounded_parts(state.numerator) or has_rounded_parts(state.denominator)
    return any(isinstance(getattr(state, name), float | Decimal) for name in state.__slots__)


def are_close(state, reference):
    """Return whether moments agree, relative to the size of the values."""
    if isinstance(state, TwoSums):
        return are_close(state.numerator, reference.numerator) and are_close(
            state.denominator, reference.denominator
        )
    pairs = [(float(getattr(state, f)), float(getattr(reference, f))) for f in state.__slots__]
    scale = max((abs(b) for _, b in pairs if math.isfinite(b)), default=0.0)
    return all(
        (math.isnan(a) and math.isnan(b)) or a == b or abs(a - b) <= 1e-9 * scale for a, b in pairs
    )


@pytest.mark.spark
@settings(max_examples=soak(1, 20), phases=[Phase.generate])  # shrinking would scan for minutes
@given(st.integers(0, 2**32))
def test_all_routes_give_the_same_states(spark, tmp_path_factory, seed):
    folder = tmp_path_factory.mktemp("routes")
    tables = [  # partitions with equal columns share Spark's jobs
        random_partition(
            Random(f"{seed} {i}"), same_columns=i > 0, max_rows=MANY_ROWS if i == 1 else MAX_ROWS
        )
        for i in range(PARTITIONS)
    ]
    for i, files in enumerate(tables):
        write(files, folder / f"case={i:02}")
    suite = analyzers()
    own, report = measured_by(MeasuringEngine.AUTO, spark, folder, suite)
    with pytest.MonkeyPatch.context() as patch:  # a run that may read no bytes in its process
        patch.setattr(runner, "ColumnarPlanner", partial(ColumnarPlanner, seconds_left=-math.inf))
        by_tasks, report_of_tasks = measured_by(MeasuringEngine.AUTO, spark, folder, suite)
    reference, by_spark = measured_by(MeasuringEngine.SPARK, spark, folder, suite)
    assert_all_same(own, reference)
    assert_all_same(by_tasks, reference)
    assert report_of_tasks.routes == {
        Route.TASKS if route == Route.COLUMNS else route: number
        for route, number in report.routes.items()
    }
    assert set(by_spark.routes) == {Route.SPARK}
    assert report.routes[Route.METADATA] > 0
    assert sum(report.routes.values()) == len(tables) * len(suite)


@pytest.mark.spark
def test_both_engines_give_the_same_states_of_a_hive_table(spark, tmp_path):
    """Columns are added, files of other writers lack columns or have other types, and a partition is elsewhere."""
    name = "routes_of_hive"
    spark.sql(f"DROP TABLE IF EXISTS {name}")
    spark.sql(
        f"CREATE TABLE {name} (n BIGINT, S STRING, day DATE, price DECIMAL(9,2), ds STRING) USING parquet"
        f" PARTITIONED BY (ds) LOCATION '{tmp_path}/t'"
    )
    day, price = [dt.date(2026, 1, 2)], [Decimal("1.50")]
    whole = pa.table({"day": day, "s": ["a"], "n": [7], "price": price})
    # Before release 4, Spark cannot read integers of 32 bits as 64 bits.
    other = pa.int32() if int(spark.version.partition(".")[0]) > 3 else pa.int64()
    narrow = pa.table({"n": pa.array([8, None], other)})
    for folder, table in {"t/ds=1": whole, "t/ds=2": narrow, "moved": whole}.items():
        (tmp_path / folder).mkdir(parents=True)
        pq.write_table(table, tmp_path / folder / "a.parquet")
    for part in ("1", "2"):
        spark.sql(f"ALTER TABLE {name} ADD PARTITION (ds='{part}')")
    spark.sql(f"ALTER TABLE {name} ADD PARTITION (ds='3') LOCATION '{tmp_path}/moved'")
    spark.sql(f"ALTER TABLE {name} ADD PARTITION (ds='4')")
    spark.sql(f"ALTER TABLE {name} ADD COLUMNS (late INT, filled INT DEFAULT 5)")
    columns = ("n", "s", "day", "price", "late", "filled", "ds")
    suite = [
        tg.Size(),
        *(kind(c) for c in columns for kind in (tg.Completeness, tg.DataType)),
        *(kind(c) for c in ("n", "price", "late", "filled") for kind in (tg.Maximum, tg.Sum)),
        tg.MaxTime("day"),
        tg.ApproxCountDistinct("s"),
    ]
    measured = {}
    for engine in MeasuringEngine:
        store, source = RecordingStore(), open_table(spark, name)
        report = run_incremental(
            source, RunSpec("d", name, source.keys), suite, store, engine=engine
        )
        measured[engine] = store.measured, report.routes
    (own, routes), (reference, _) = measured.values()
    assert routes[Route.METADATA] > 0
    assert routes[Route.COLUMNS] > 0
    assert own.keys() == reference.keys() == {f"ds={i}" for i in (1, 2, 3, 4)}
    for partition, expected in reference.items():
        assert (own[partition].schema, own[partition].rows) == (expected.schema, expected.rows)
        outcomes = {m.analyzer: m.outcome for m in own[partition].measurements}
        for measurement in expected.measurements:
            assert_same(outcomes[measurement.analyzer], measurement.outcome)
    spark.sql(f"DROP TABLE {name}")
