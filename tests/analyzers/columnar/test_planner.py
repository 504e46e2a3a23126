"""Routes of analyzers on Parquet files: metadata where it is exact, columns otherwise, or Spark."""

import datetime as dt
import math
import sys
from decimal import Decimal
from random import Random
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasketches import hll_sketch, tgt_hll_type

import tidegauge as tg
from tests.analyzers.columnar.random_tables import OPTIONS_OF_NEW_PYARROW
from tidegauge.analyzers.columnar import planner as planner_module
from tidegauge.analyzers.columnar.engines import LazySession, Route, as_engine, reads_by_default
from tidegauge.analyzers.columnar.footers import PartitionFooters, file_columns
from tidegauge.analyzers.columnar.planner import ColumnarPlanner, ParquetPartition
from tidegauge.analyzers.core.analyzer import analyzer
from tidegauge.analyzers.core.columnar import (
    InexactError,
    RowFilter,
    RowGroup,
    decimal_from,
    exact_times,
)
from tidegauge.analyzers.core.errors import NoSuchColumnError, SuiteError
from tidegauge.analyzers.core.hashes import hash_strings
from tidegauge.analyzers.core.metric import Success
from tidegauge.analyzers.core.registry import Registry
from tidegauge.analyzers.core.schema import Schema
from tidegauge.analyzers.measures import frequencies
from tidegauge.analyzers.measures.cardinality import HllState
from tidegauge.analyzers.measures.counts import ComplianceState, NumMatches, NumMatchesAndCount
from tidegauge.analyzers.measures.extremes import MaxState, MinState, RangeState, TimeRangeState
from tidegauge.analyzers.measures.moments import StandardDeviationState, SumAndCount
from tidegauge.analyzers.measures.texts import DataTypeState

METADATA, COLUMNS = Route.METADATA, Route.COLUMNS


def measure(tmp_path, tables, *analyzers, planner=None, keys=("ds",), **options):
    """Return each analyzer's state and route; the files are in the order of the tables, the newest first."""
    files = []
    for i, table in enumerate(tables):
        files.append(str(tmp_path / f"{i}.parquet"))
        pq.write_table(table, files[-1], **options)
    result = (planner or ColumnarPlanner()).measure(ParquetPartition(tuple(files), keys), analyzers)
    if result is None:
        return None
    return {
        a: (outcome.value if isinstance(outcome, Success) else outcome.error, result.routes[a])
        for a, outcome in result.outcomes.items()
    }


def test_statistics_answer_counts_and_extremes_of_integers(tmp_path):
    tables = [pa.table({"n": [3, None, -2]}), pa.table({"n": pa.array([None], pa.int64())})]
    suite = [tg.Size(), tg.Completeness("n"), tg.Minimum("n"), tg.Maximum("N"), tg.DataType("n")]
    assert list(measure(tmp_path, tables, *suite, row_group_size=1).values()) == [
        (NumMatches(4), METADATA),
        (NumMatchesAndCount(2, 4), METADATA),
        (MinState(-2, 2), METADATA),
        (MaxState(3, 2), METADATA),
        (DataTypeState(unknown=2, integral=2), METADATA),
    ]


@pytest.mark.parametrize("threads", [2, 4])
def test_states_do_not_depend_on_the_number_of_threads(tmp_path, monkeypatch, threads):
    """Too many distinct values are left to Spark, whatever thread finds that out."""
    draw = np.random.default_rng(4)
    names = np.array(["ann", "bob", None, "eve@x.org"])[draw.integers(0, 4, 4000)]
    tables = [pa.table({"x": draw.normal(size=4000), "n": range(4000), "s": names})] * 2
    suite = [
        tg.Entropy("n"),
        *(cls("x") for cls in (tg.Mean, tg.StandardDeviation, tg.KLLSketch, tg.Sum)),
        *(cls("s") for cls in (tg.ApproxCountDistinct, tg.DataType, tg.MaxLength, tg.Entropy)),
        tg.PatternMatch("s", "@"),
        tg.Correlation("x", "n"),
        tg.Compliance("small", "n < 100"),
    ]

    def packed(count):
        monkeypatch.setattr(planner_module, "MIN_THREADED_ROWS", 0)
        monkeypatch.setattr(planner_module, "MAX_VALUES", 1000)
        monkeypatch.setattr(planner_module, "MAX_THREADS", count)
        monkeypatch.setattr(planner_module.os, "cpu_count", lambda: count)
        states = measure(tmp_path, tables, *suite, row_group_size=500, write_statistics=False)
        return {a: state.pack() for a, (state, _) in states.items()}

    expected = packed(1)
    assert tg.Entropy("n") not in expected
    assert len(expected) == len(suite) - 1
    assert packed(threads) == expected


def test_without_statistics_columns_are_read(tmp_path):
    tables = [pa.table({"n": [3, None, -2]})]
    suite = [tg.Size(), tg.Completeness("n"), tg.Minimum("n")]
    assert list(measure(tmp_path, tables, *suite, write_statistics=False).values()) == [
        (NumMatches(3), METADATA),
        (NumMatchesAndCount(2, 3), COLUMNS),
        (MinState(-2, 2), COLUMNS),
    ]


def test_a_required_column_needs_no_count_of_nulls(tmp_path):
    schema = pa.schema([pa.field("n", pa.int64(), nullable=False)])
    tables = [pa.table({"n": [1, 2]}, schema=schema)]
    states = measure(tmp_path, tables, tg.Completeness("n"), write_statistics=False)
    assert states == {tg.Completeness("n"): (NumMatchesAndCount(2, 2), METADATA)}


def test_the_greatest_float_is_read_because_statistics_ignore_nan(tmp_path):
    tables = [pa.table({"x": [1.0, float("nan")]})]
    states = measure(tmp_path, tables, tg.Minimum("x"), tg.Maximum("x"))
    assert states[tg.Minimum("x")] == (MinState(1.0, 2), METADATA)
    maximum, route = states[tg.Maximum("x")]
    assert np.isnan(maximum.maximum)
    assert (maximum.count, route) == (2, COLUMNS)


@pytest.mark.parametrize(
    ("low", "high", "lower"),
    [
        (-0.0, 1.0, 0.0),
        (math.inf, math.inf, math.inf),
        (math.nan, 1.0, None),
        (1.0, math.nan, None),
        (sys.float_info.max, -sys.float_info.max, None),  # the starting values of a writer
    ],
)
def test_statistics_of_floats_without_an_order_are_unknown(monkeypatch, low, high, lower):
    statistics = SimpleNamespace(has_min_max=True, min_raw=low, max_raw=high)
    chunks = staticmethod(lambda *_: [(2, statistics, False)])
    monkeypatch.setattr(PartitionFooters, "_chunks", chunks)
    schema = Schema.from_types({"x": "double"})
    footers = PartitionFooters((None,), schema)
    monkeypatch.setitem(footers.__dict__, "readable", {"x"})
    assert footers.lower("x") == lower


def test_a_column_that_a_file_lacks_is_null(tmp_path):
    tables = [pa.table({"n": [3], "s": ["abc"]}), pa.table({"n": [1, 2]})]
    suite = [tg.Completeness("s"), tg.MaxLength("s", null_behavior="empty"), tg.Sum("n")]
    assert list(measure(tmp_path, tables, *suite).values()) == [
        (NumMatchesAndCount(1, 3), METADATA),
        (MaxState(3, 3), COLUMNS),
        (SumAndCount(6, 3), COLUMNS),
    ]


def test_sums_and_deviations_are_merged_over_row_groups(tmp_path):
    tables = [pa.table({"big": [2**63 - 1, 2**63 - 1, -5], "price": [Decimal("0.10")] * 3})]
    suite = [tg.Sum("big"), tg.Mean("price"), tg.StandardDeviation("price")]
    assert list(measure(tmp_path, tables, *suite, row_group_size=1).values()) == [
        (SumAndCount(2**64 - 7, 3), COLUMNS),
        (SumAndCount(Decimal("0.30"), 3), COLUMNS),
        (StandardDeviationState(3, 0.1, 0.0), COLUMNS),
    ]


@pytest.mark.parametrize(
    ("tables", "keys"),
    [
        ([pa.table({"n": [1]}).select([])], ()),  # no columns: Spark refuses it
        ([pa.table({"n": [1]}), pa.table({"n": [1.5]})], ()),  # Spark widens the integers
        ([pa.table({"n": [[1]]})], ()),  # nested
        ([pa.table({"n": pa.array([1], pa.timestamp("ns"))})], ()),  # Spark refuses it
        ([pa.table({"n": pa.array([1], pa.time64("us"))})], ()),
        ([pa.table({"n": pa.array([None], pa.null())})], ()),
        ([pa.table({"n": [1], "N": [2]})], ()),  # the same name in Spark
        ([pa.table({"ds": [1]})], ("ds",)),  # the folder's value hides the column
    ],
)
def test_spark_decides_how_some_files_are_read(tmp_path, tables, keys):
    assert measure(tmp_path, tables, tg.Size(), keys=keys) is None


def test_spark_reports_files_that_cannot_be_read(tmp_path):
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    for name in ("a", "missing"):
        file = str(tmp_path / f"{name}.parquet")
        assert ColumnarPlanner().measure(ParquetPartition((file,), ()), [tg.Size()]) is None


def test_each_analyzer_falls_to_spark_alone(tmp_path):
    tables = [
        pa.table(
            {
                "old": [dt.date(1500, 1, 1)],
                "new": [dt.date(2026, 1, 1)],
                "unsigned": pa.array([2**32 - 1], pa.uint32()),
            }
        )
    ]
    suite = [tg.MinTime("old"), tg.MaxTime("new"), tg.Maximum("unsigned"), tg.Size(where="1 > 0")]
    day = 20454 * 86_400_000_000
    states = measure(tmp_path, tables, *suite)
    assert states == {tg.MaxTime("new"): (TimeRangeState(day, day, 1), METADATA)}
    states = measure(tmp_path, tables, *suite, write_statistics=False)
    assert states == {tg.MaxTime("new"): (TimeRangeState(day, day, 1), COLUMNS)}


def test_int96_is_left_to_spark(tmp_path):
    tables = [pa.table({"at": pa.array([0], pa.timestamp("us", "UTC")), "n": [1]})]
    suite = [tg.MaxTime("at"), tg.Completeness("at"), tg.Completeness("n")]
    states = measure(tmp_path, tables, *suite, use_deprecated_int96_timestamps=True)
    assert list(states) == [tg.Completeness("n")]


def test_partition_columns_are_left_to_spark(tmp_path):
    states = measure(tmp_path, [pa.table({"n": [1]})], tg.Completeness("ds"), tg.ColumnCount())
    assert list(states) == [tg.ColumnCount()]
    assert states[tg.ColumnCount()][0].columns == 2


def test_a_failed_precondition_needs_no_spark(tmp_path):
    states = measure(tmp_path, [pa.table({"n": [1]})], tg.Mean("m"))
    error, route = states[tg.Mean("m")]
    assert isinstance(error, NoSuchColumnError)
    assert route is METADATA


def test_files_without_rows_give_the_states_of_no_data(tmp_path):
    tables = [pa.table({"n": pa.array([], pa.int64())})]
    states = {
        tg.Mean("n"): (SumAndCount(), METADATA),
        tg.Size(): (NumMatches(), METADATA),
    }
    assert measure(tmp_path, tables, tg.Mean("n"), tg.Size()) == states
    pq.ParquetWriter(tmp_path / "0.parquet", tables[0].schema).close()  # without row groups
    partition = ParquetPartition((str(tmp_path / "0.parquet"),), ())
    outcomes = ColumnarPlanner().measure(partition, list(states)).outcomes
    assert [outcome.value for outcome in outcomes.values()] == [SumAndCount(), NumMatches()]


def test_the_cost_of_a_scan_counts_values_by_statistic(tmp_path):
    """Three quick statistics of three rows, one by a dictionary, and three slow ones, one of integers that are kept."""
    table = pa.table({"n": [1, 2, 3], "s": ["a", "b", "c"], "d": ["a", "a", "a"]})
    pq.write_table(table, tmp_path / "a.parquet", use_dictionary=["d"])
    partition = ParquetPartition((str(tmp_path / "a.parquet"),), ())
    quick = (tg.Sum("n"), tg.Mean("n"), tg.Sum("n", where="n > 1"), tg.CountDistinct("d"))
    slow = (tg.MaxLength("s"), tg.CountDistinct("s"), tg.Distinctness("s"), tg.Uniqueness("n"))
    plan = ColumnarPlanner().plan(partition, [tg.Size(), *quick, *slow])
    assert plan.values_to_scan == (9, 9)
    seconds = 9 * (planner_module.VALUE_SECONDS + planner_module.SLOW_VALUE_SECONDS)
    assert plan.scan_seconds == pytest.approx(seconds)


def test_only_a_bounded_time_is_spent_and_a_bounded_number_of_footers_read(tmp_path):
    tables, planner = [pa.table({"n": [1, 2]})], ColumnarPlanner(seconds_left=1e-9)
    assert list(measure(tmp_path, tables, tg.Size(), tg.Mean("n"), planner=planner)) == [tg.Size()]
    planner = ColumnarPlanner(footers_left=1)
    assert measure(tmp_path, tables, tg.Size(), planner=planner) is not None
    assert measure(tmp_path, tables, tg.Size(), planner=planner) is None


def test_row_groups_of_many_repeated_values_are_left_to_spark(tmp_path, monkeypatch):
    monkeypatch.setattr(planner_module, "MAX_GROUP_BYTES", 2 * 8 * 100)
    suite = [tg.Mean("x"), tg.Mean("y")]
    for rows, answered in ((100, suite), (101, [])):
        tables = [pa.table({"x": [1.0] * rows, "y": [1.0] * rows}), pa.table({"x": [1.0]})]
        assert list(measure(tmp_path, tables, *suite)) == answered


def test_a_subclass_of_another_module_does_not_inherit_the_kernel(tmp_path, monkeypatch):
    monkeypatch.setattr(Registry, "add", lambda self, cls: cls)

    @analyzer
    class Half(tg.Sum):
        """Computes something else with the same columns."""

    assert measure(tmp_path, [pa.table({"n": [1, 2]})], Half("n")) == {}


def test_types_that_spark_stored_in_the_file_count(tmp_path):
    fields = (
        '{"name":"a","type":"integer","nullable":false,"metadata":{}},'
        '{"name":"l","type":{"type":"array","elementType":"long","containsNull":false},"nullable":true,"metadata":{}}'
    )
    stored = {
        "org.apache.spark.sql.parquet.row.metadata": f'{{"type":"struct","fields":[{fields}]}}'
    }
    table = pa.table({"a": pa.array([1], pa.int32()), "l": [[1]]}).replace_schema_metadata(stored)
    pq.write_table(table, tmp_path / "a.parquet")
    columns = file_columns(pq.read_metadata(tmp_path / "a.parquet"))
    assert columns["a"].type == "integer"
    assert columns["a"].index == 0
    assert columns["l"].index is None
    assert columns["l"].type == {"type": "array", "elementType": "long", "containsNull": True}


def test_columns_with_metadata_of_spark_are_left_to_spark(tmp_path):
    metadata = '{"__CHAR_VARCHAR_TYPE_STRING":"char(3)"}'
    fields = f'{{"name":"a","type":"string","nullable":true,"metadata":{metadata}}}'
    stored = {
        "org.apache.spark.sql.parquet.row.metadata": f'{{"type":"struct","fields":[{fields}]}}'
    }
    table = pa.table({"a": ["x  "]}).replace_schema_metadata(stored)
    assert measure(tmp_path, [table], tg.Size()) is None


def test_distinct_values_leave_out_unused_entries_of_a_dictionary():
    words = pa.DictionaryArray.from_arrays(pa.array([2, 0, None, 2]), pa.array(["a", "b", "c"]))
    values, counts = RowGroup(4, {"s": words}).distinct("s")
    assert dict(zip(values.to_pylist(), counts.tolist(), strict=True)) == {"a": 1, "c": 2}


@pytest.mark.parametrize(
    ("precision", "scale"), [(2, 1), (9, 2), (15, 15), (18, 6), (38, 0), (38, 18), (38, 38)]
)
def test_decimals_become_the_nearest_doubles(precision, scale):
    random = Random(precision + scale)
    sizes = (random.randint(1, precision) for _ in range(300))
    numbers = [0, *(random.choice([1, -1]) * random.randrange(10**size) for size in sizes)]
    edges = (2**53, 2**53 + 1, 2**63, 2**64 - 1, 2**64, 2**64 + 5)
    numbers += [s * edge for edge in edges for s in (1, -1) if edge < 10**precision]
    decimals = [decimal_from(number, scale) for number in numbers]
    array = pa.array([None, *decimals], pa.decimal128(precision, scale)).slice(3)
    doubles = RowGroup(len(array), {"d": array}).doubles("d")
    assert doubles.tolist() == list(map(float, decimals[2:]))


def test_times_before_1900_are_inexact():
    with pytest.raises(InexactError):
        exact_times(-2_208_988_800_000_001, 0)
    assert exact_times(-2_208_988_800_000_000, 0) == (-2_208_988_800_000_000, 0)


@pytest.mark.parametrize("write_statistics", [True, False])
@pytest.mark.parametrize(
    "times",
    [pa.array([1, 2**31 - 1], pa.date32()), pa.array([1, 2**62], pa.timestamp("ms", "UTC"))],
)
def test_times_beyond_the_range_of_spark_are_left_to_spark(tmp_path, times, write_statistics):
    states = measure(
        tmp_path, [pa.table({"t": times})], tg.MaxTime("t"), write_statistics=write_statistics
    )
    assert states == {}
    assert exact_times(0, 2**63 - 1) == (0, 2**63 - 1)


def test_sums_of_infinities_and_sums_that_overflow_warn_of_nothing(tmp_path):
    tables = [pa.table({"x": [1e308, 1e308], "y": [float("inf"), -float("inf")]})]
    states = measure(tmp_path, tables, tg.Sum("x"), tg.Sum("y"))
    assert states[tg.Sum("x")] == (SumAndCount(float("inf"), 2), COLUMNS)
    assert np.isnan(states[tg.Sum("y")][0].total)


def test_higher_moments_of_large_numbers_are_left_to_spark(tmp_path):
    tables = [pa.table({"x": [1e60, 1e60, -1e60, -1e60], "y": [1e40, 1e40, -1e40, -1e40]})]
    suite = [tg.Kurtosis("x"), tg.Kurtosis("y")]
    states = measure(tmp_path, tables, *suite, row_group_size=2)
    assert list(states) == [tg.Kurtosis("y")]
    assert states[tg.Kurtosis("y")][0].m2 == pytest.approx(4e80)


def test_a_name_with_a_dot_is_not_the_path_of_a_nested_field(tmp_path):
    fields = (
        '{"name":"a.b","type":"long","nullable":true,"metadata":{}},'
        '{"name":"a","type":{"type":"struct","fields":[{"name":"b","type":"long","nullable":true,"metadata":{}}]},'
        '"nullable":true,"metadata":{}}'
    )
    stored = {
        "org.apache.spark.sql.parquet.row.metadata": f'{{"type":"struct","fields":[{fields}]}}'
    }
    table = pa.table({"a.b": [1, 2], "a": [{"b": 30}, {"b": None}]}).replace_schema_metadata(stored)
    states = measure(
        tmp_path, [table], tg.Maximum("`a.b`"), tg.Completeness("`a.b`"), tg.Sum("`a.b`")
    )
    assert states == {
        tg.Maximum("`a.b`"): (MaxState(2, 2), METADATA),
        tg.Completeness("`a.b`"): (NumMatchesAndCount(2, 2), METADATA),
        tg.Sum("`a.b`"): (SumAndCount(3, 2), COLUMNS),
    }


def test_strings_that_are_not_utf8_are_left_to_spark(tmp_path):
    data = pa.array([b"a", b"\x80\x80\x80"])
    texts = pa.StringArray.from_buffers(2, *data.buffers()[1:])
    suite = [tg.MaxLength("s"), tg.DataType("s"), tg.Completeness("s")]
    assert list(measure(tmp_path, [pa.table({"s": texts})], *suite)) == [tg.Completeness("s")]


def test_an_unknown_engine_is_an_error():
    with pytest.raises(SuiteError, match="Invalid engine 'fast': use 'auto' or 'spark'"):
        as_engine("fast")


class Conf(dict):
    """Settings of a session."""

    def get(self, name, default=None):
        return super().get(name, default)


def test_settings_of_the_reader_are_compared_with_the_defaults():
    assert reads_by_default(SimpleNamespace(conf=Conf({"spark.sql.caseSensitive": "FALSE"})))
    assert not reads_by_default(
        SimpleNamespace(conf=Conf({"spark.sql.parquet.binaryAsString": "true"}))
    )


def test_a_lazy_session_is_not_started_by_the_question():
    session = LazySession(lambda: SimpleNamespace(conf=Conf({"spark.sql.caseSensitive": "true"})))
    assert reads_by_default(session)
    assert not session.is_started
    assert session.conf
    assert not reads_by_default(session)


def test_hashes_are_those_of_spark():
    """The numbers are results of ``xxhash64`` in Spark."""
    strings = pa.array(["skipped", "x" * 31, "y" * 32, "é" * 40, "w" * 100 + "abcde"]).slice(1)
    expected = [
        -1716462135722163746,
        5202031258905353636,
        -2287857623996275449,
        8403160771136902824,
    ]
    assert hash_strings(strings).tolist() == expected
    columns = {
        "day": pa.array([dt.date(2026, 1, 1)]),
        "double": pa.array([1.5]),
        "price": pa.array([Decimal("1.50")]),
        "flag": pa.array([True]),
        "big": pa.array([7]),
        "whole": pa.array([-0.0]),
    }
    group = RowGroup(1, columns)
    assert [group.hashes(name)[0].tolist() for name in columns] == [
        [-7748453683161933313],
        [7738255526519901366],
        [7738255526519901366],
        [-6698625589789238999],
        [7],
        [0],
    ]


def test_a_hash_of_another_type_is_inexact():
    group = RowGroup(
        1, {"raw": pa.array([b"a"]), "wide": pa.array([Decimal(1)], pa.decimal128(38))}
    )
    for column in group.columns:
        with pytest.raises(InexactError, match="no hash of values of type"):
            group.hashes(column)


def test_sketches_and_frequencies_are_merged_over_row_groups(tmp_path):
    tables = [pa.table({"s": ["a", "b", None, "a"], "n": [1, 2, 3, 3]}), pa.table({"n": [3, 4]})]
    suite = [
        tg.ApproxCountDistinct("s"),
        tg.ApproxUniqueness("s"),
        tg.Uniqueness("s"),
        tg.Histogram("s"),
        tg.ApproxQuantile("n", 1.0),
        tg.CountDistinct("n"),
        tg.Uniqueness(["s", "n"]),
        tg.Histogram("n", binning="n % 2"),
    ]
    states = measure(tmp_path, tables, *suite, row_group_size=2)
    assert {
        a: a.compute_metric_from(state).value
        for a, (state, _) in states.items()
        if a.name != "Histogram"
    } == {
        tg.ApproxCountDistinct("s"): 2.0,
        tg.ApproxUniqueness("s"): 1 / 3,
        tg.Uniqueness("s"): 1 / 3,
        tg.ApproxQuantile("n", 1.0): 4.0,
        tg.CountDistinct("n"): 4.0,
        tg.Uniqueness(["s", "n"]): 4 / 6,
    }
    state = states[tg.Histogram("s")][0]
    assert (state.as_dict(), state.num_nulls) == ({("a",): 2, ("b",): 1}, 3)
    assert list(states)[-1] == tg.Uniqueness(["s", "n"])


@pytest.mark.parametrize("is_coded", [True, False])
def test_combinations_of_several_columns_are_counted(tmp_path, is_coded):
    rows = [("a", 1, True), ("a", None, None), (None, None, None), ("b", 1, True), ("a", 1, True)]
    columns = dict(zip("snf", map(list, zip(*rows, strict=True)), strict=True))
    days = pa.array([0, 0, None, 1, 0], pa.date32())
    tables = [pa.table({**columns, "d": days}), pa.table({"s": ["a", None], "n": [1, 1]})]
    count = tg.CountDistinct(["n", "s", "f", "d"])
    filtered = tg.CountDistinct(["s", "f"], where="n = 1")
    states = measure(tmp_path, tables, count, filtered, use_dictionary=is_coded, row_group_size=3)
    day, next_day = dt.date(1970, 1, 1), dt.date(1970, 1, 2)
    state = states[count][0]
    assert state.as_dict() == {
        (1, "a", True, day): 2,
        (None, "a", None, day): 1,
        (1, "b", True, next_day): 1,
        (1, "a", None, None): 1,
        (1, None, None, None): 1,
    }
    assert (state.num_rows, state.num_nulls) == (6, 1)
    state = states[filtered][0]
    assert state.as_dict() == {("a", True): 2, ("b", True): 1, ("a", None): 1}
    assert (state.num_rows, state.num_nulls) == (4, 1)


def test_combinations_keep_the_type_of_a_column_that_a_file_lacks(tmp_path):
    tables = [pa.table({"s": ["a"], "n": pa.array([1], pa.int8())}), pa.table({"s": ["a"]})]
    count = tg.CountDistinct(["s", "n"])
    table = measure(tmp_path, tables, count)[count][0].frequencies
    assert table.schema.types == [pa.string(), pa.int8(), pa.int64()]


def test_columns_of_types_with_other_equality_are_grouped_by_spark(tmp_path):
    tables = [pa.table({"s": ["a"], "x": [0.0]})]
    assert measure(tmp_path, tables, tg.CountDistinct(["s", "x"])) == {}


def test_many_groups_are_counted_by_spark(tmp_path, monkeypatch):
    monkeypatch.setattr(frequencies, "MAX_ROW_GROUP_VALUES", 2)
    tables = [pa.table({"n": [1, 2, 3], "s": ["a", "b", "b"]})]
    suite = [tg.Uniqueness("n"), tg.Uniqueness("s"), tg.Uniqueness(["n", "s"])]
    assert list(measure(tmp_path, tables, *suite)) == [tg.Uniqueness("s")]


def test_frequencies_of_many_different_values_are_left_to_spark(tmp_path, monkeypatch):
    """Values of all row groups count, without those that a filter leaves out."""
    monkeypatch.setattr(planner_module, "MAX_VALUES", 2)
    tables = [pa.table({"n": [1, 1, 2, 2, 3, 3], "m": [1, 1, 1, 1, 2, 2]})]
    kept = [tg.Sum("n"), tg.Uniqueness("m"), tg.Uniqueness("n", where="m = 1")]
    suite = [tg.Uniqueness("n"), tg.CountDistinct(["n", "m"]), *kept]
    states = measure(tmp_path, tables, *suite, row_group_size=2)
    assert list(states) == kept
    assert states[kept[2]][0].as_dict() == {(1,): 2, (2,): 2}


def test_a_column_whose_first_values_differ_is_left_to_spark_after_one_row_group(
    tmp_path, monkeypatch
):
    """Of six rows, the first two differ: three times two values are more than five, but not more than six."""
    calls = []
    counted = frequencies.frequencies_in
    monkeypatch.setattr(
        frequencies, "frequencies_in", lambda *args: calls.append(args) or counted(*args)
    )
    for limit, groups, answered in ((5, 1, False), (6, 3, True)):
        calls.clear()
        monkeypatch.setattr(planner_module, "MAX_VALUES", limit)
        table = pa.table({"n": [1, 2, 3, 4, 5, 6]})
        states = measure(tmp_path, [table], tg.Uniqueness("n"), row_group_size=2)
        assert (len(calls), bool(states)) == (groups, answered)


def test_frequencies_of_columns_without_a_dictionary_are_not_counted_in_tasks(
    tmp_path, monkeypatch
):
    """Tasks would serialize all of their values."""
    monkeypatch.setattr(planner_module, "MAX_TASK_VALUES", 2)
    scanned = []

    def scan(plans):
        scanned.extend(plans)
        return [{analyzer.statistic(): None for analyzer in plan.kernels} for plan in plans]

    tables = [pa.table({"n": [1, 2, 3], "m": [1, 1, 1]})]
    suite = [tg.Uniqueness("n"), tg.CountDistinct(["n", "m"]), tg.Sum("n"), tg.Uniqueness("m")]
    planner = ColumnarPlanner(seconds_left=-1, scan_by_tasks=scan)
    assert measure(tmp_path, tables, *suite, planner=planner, use_dictionary=["m"]) == {}
    (plan,) = scanned
    assert list(plan.kernels) == [tg.Sum("n"), tg.Uniqueness("m")]
    planner = ColumnarPlanner(seconds_left=-1, scan_by_tasks=scan)
    assert measure(tmp_path, tables, *suite[:2], planner=planner, use_dictionary=["m"]) == {}
    assert len(scanned) == 1


@pytest.mark.parametrize(
    ("predicate", "state"),
    [
        # The rows are (1, NULL), (NULL, 1), (1, 1), (0, NULL), (NULL, 0), (NULL, NULL).
        ("n > 0 AND m > 0", ComplianceState(1, 3, 6)),
        ("n > 0 AND m IS NOT NULL", ComplianceState(1, 4, 6)),
        ("n IS NOT NULL AND m IS NOT NULL", ComplianceState(1, 6, 6)),
        ("coalesce(n, 1) > 0 AND m > 0", ComplianceState(2, 4, 6)),
        ("n BETWEEN 1 AND 2 AND (m IS NULL OR m > 0) AND n < 9", ComplianceState(2, 4, 6)),
    ],
)
def test_conditions_on_several_columns_follow_three_valued_logic(tmp_path, predicate, state):
    n, m = [1, None, 1, 0, None, None], [None, 1, 1, None, 0, None]
    rule = tg.Compliance("rule", predicate)
    assert measure(tmp_path, [pa.table({"n": n, "m": m})], rule) == {rule: (state, COLUMNS)}


TABLE = pa.table(
    {
        "n": [1, None, -1, 5],
        "x": [float("nan"), 1.5, None, -0.0],
        "s": pa.array(["a", None, "b", "a"]).dictionary_encode(),
        "d": [Decimal("1.5")] * 4,
    }
)
SCHEMA = Schema.from_types({"n": "long", "x": "double", "s": "string", "d": "decimal(2,1)"})


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("n > 0.5", [True, False, False, True]),
        ("n >= 1 AND n < 4.5", [True, False, False, False]),
        ("n IN (5, 1.0, 2.5)", [True, False, False, True]),
        ("n IS NULL OR n <= -1", [False, True, True, False]),
        ("coalesce(n, 0) >= 0", [True, True, False, True]),
        ("n < 9999999999999999", [True, False, True, True]),
        ("x > 1.5", [True, False, False, False]),  # NaN is the greatest number
        ("x <= 1.5", [False, True, False, True]),
        ("x = 0", [False, False, False, True]),
        ("s IN ('a', 'c')", [True, False, False, True]),
        ("s IS NOT NULL", [True, False, True, True]),
    ],
)
def test_conditions_are_evaluated_as_by_spark(condition, expected):
    group = RowGroup(
        4, {n: c.combine_chunks() for n, c in zip(TABLE.column_names, TABLE.columns, strict=True)}
    )
    assert RowFilter.from_sql(condition, SCHEMA).matches(group).tolist() == expected


@pytest.mark.parametrize(
    "condition",
    [
        "d > 1",
        "s > 1",
        "n = 'a'",
        "x > 9007199254740993",
        "n > 1e16",  # Spark compares doubles: 10000000000000001 is not greater
        "n = 9007199254740992D",
        "n IN (9007199254740993, 1e0)",
        "n <= 9007199254740993.0",  # a decimal, which no double is equal to
        "n > 0.99999999999999999",  # not greater than 1, as a double would be
        "m > 1",
        "n > x",
        "s RLIKE 'a'",
        "n > 0 -- c",
        "n > 0 AND x > 0 OR s = 'a'",
        "n > 0 AND length(s) > 1",
        "n > 0 AND x > 0 -- c",
        "NOT (n > 0 AND x > 0)",
        "CASE WHEN n > 0 AND x > 0 THEN true END",
    ],
)
def test_spark_evaluates_all_other_conditions(condition):
    assert RowFilter.from_sql(condition, SCHEMA) is None


def test_a_filter_selects_the_rows_of_the_columnar_scan(tmp_path):
    tables = [TABLE.drop_columns(["d"])]
    suite = [
        tg.Size(where="n > 0"),
        tg.Sum("n", where="s = 'a'"),
        tg.Completeness("x", where="n < 0"),
        tg.Compliance("c", "n > 0", where="s IS NOT NULL"),
        tg.Size(where="length(s) > 0"),
    ]
    assert list(measure(tmp_path, tables, *suite, row_group_size=2).values()) == [
        (NumMatches(2), COLUMNS),
        (SumAndCount(6, 2), COLUMNS),
        (NumMatchesAndCount(0, 1), COLUMNS),
        (ComplianceState(2, 3, 3), COLUMNS),
    ]


def test_a_file_that_changes_after_its_footer_was_read_is_left_to_spark(tmp_path, monkeypatch):
    file = tmp_path / "0.parquet"
    whole = planner_module.merged_footers

    def rewritten(*args):
        pq.write_table(pa.table({"n": [1, 2, 3]}), file)
        return whole(*args)

    monkeypatch.setattr(planner_module, "merged_footers", rewritten)
    assert measure(tmp_path, [pa.table({"n": [1]})], tg.Size(), tg.Mean("n")) is None


def test_a_filter_without_matches_gives_the_state_of_no_data(tmp_path):
    suite = [
        tg.MaxLength("s", null_behavior="fail", where="n > 99"),
        tg.Minimum("x", where="n > 99"),
        tg.Uniqueness("s", where="n > 99"),
        tg.ApproxQuantile("x", 0.5, where="n > 99"),
        tg.ApproxCountDistinct("s", where="n > 99"),
        tg.DataType("s", where="n > 99"),
        tg.Correlation("n", "x", where="n > 99"),
    ]
    states = measure(tmp_path, [TABLE.drop_columns(["d"])], *suite)
    assert [state for state, _ in states.values()] == [a.state_type() for a in suite]


@pytest.mark.parametrize(
    ("behavior", "pattern", "state"),
    [
        ("fail", "a", NumMatchesAndCount(3, 5)),
        ("ignore", "a", NumMatchesAndCount(3, 4)),
        ("empty", "a", NumMatchesAndCount(3, 5)),
        ("empty", "a*", NumMatchesAndCount(5, 5)),
        ("fail", "a*", NumMatchesAndCount(4, 5)),
    ],
)
def test_patterns_are_matched_with_the_distinct_strings(tmp_path, behavior, pattern, state):
    match = tg.PatternMatch("s", pattern, null_behavior=behavior)
    states = measure(tmp_path, [pa.table({"s": ["a", "b", "ab", "a", None]})], match)
    assert states == {match: (state, COLUMNS)}


def test_a_pattern_is_left_to_spark_for_a_string_on_which_java_differs(tmp_path):
    match = tg.PatternMatch("s", "a$")
    tables = [pa.table({"s": ["a"]}), pa.table({"s": ["a\n"]})]
    assert measure(tmp_path, tables, match) == {}
    assert measure(tmp_path, tables[:1], match) == {match: (NumMatchesAndCount(1, 1), COLUMNS)}


@pytest.mark.parametrize("distinct", [1, 100, 1500, 2600, 5000, 200_000])
def test_a_sketch_of_distinct_counts_has_the_registers_of_all_values(tmp_path, distinct):
    numbers = np.random.default_rng(53).integers(-(2**62), 2**62, distinct)
    values = np.tile(numbers, -(-20_000 // distinct))
    ((state, _),) = measure(
        tmp_path, [pa.table({"n": values})], tg.ApproxCountDistinct("n")
    ).values()
    sketch = hll_sketch(12, tgt_hll_type.HLL_8)
    for value in numbers.tolist():
        sketch.update(value)
    packed = [bytes(sketch.serialize_updatable())] * 2  # the estimate of a union, by registers
    reference = HllState.from_sketches(packed, len(values))
    assert state.agrees_with(reference)
    if distinct >= 5000:
        assert state.estimate() == reference.estimate()
    assert state.estimate() == pytest.approx(distinct, rel=4 * 1.04 / 64)


def test_strings_without_a_dictionary_give_the_same_states(tmp_path):
    table = pa.table({"s": ["a", "b", None, "a", "ccc", "1.5", ""], "n": range(7)})
    suite = [
        tg.Completeness("s"),
        tg.MinLength("s"),
        tg.MaxLength("s", null_behavior="fail"),
        tg.DataType("s"),
        tg.PatternMatch("s", "^[a-c]+$"),
        tg.ApproxCountDistinct("s"),
        tg.ApproxUniqueness("s"),
        tg.Histogram("s"),
        tg.Compliance("known", "s IN ('a', 'ccc')"),
        tg.Sum("n", where="s = 'a'"),
        tg.Uniqueness("s", where="s IS NOT NULL"),
    ]
    coded, plain = (
        measure(tmp_path, [table], *suite, use_dictionary=is_coded) for is_coded in (True, False)
    )
    assert coded == plain
    assert list(plain) == suite
    assert plain[tg.Sum("n", where="s = 'a'")][0] == SumAndCount(3, 2)


def test_sums_of_infinities_give_no_warning(tmp_path):
    tables = [pa.table({"x": [float("inf"), -float("inf"), 1e308, 1e308]})]
    states = measure(tmp_path, tables, tg.Sum("x"), tg.StandardDeviation("x"), tg.Kurtosis("x"))
    assert all(np.isnan(a.compute_metric_from(state).value) for a, (state, _) in states.items())


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("n >= 2", (3, METADATA)),
        ("n > 2", (2, COLUMNS)),
        ("n > 7", (0, METADATA)),
        ("n >= 7", (1, COLUMNS)),
        ("n < 2", (0, METADATA)),
        ("n <= 2", (1, COLUMNS)),
        ("n BETWEEN 1.5 AND 7", (3, METADATA)),
        ("n IN (0, 9, 2.5)", (0, COLUMNS)),
        ("n IN (0, 9)", (0, METADATA)),
        ("coalesce(n, 0) >= 0", (4, METADATA)),
        ("n IS NULL OR n > 7", (1, METADATA)),
        ("c = 5", (4, METADATA)),
        ("c IN (4, 6)", (0, METADATA)),
        ("z > 0", (0, METADATA)),
        ("n IS NOT NULL", (3, METADATA)),
        ("x >= 0", (4, METADATA)),  # NaN is the greatest number
        ("x > 0", (3, COLUMNS)),
        ("x < 0", (0, METADATA)),
        ("x <= 3", (3, COLUMNS)),
    ],
)
def test_extremes_decide_conditions_that_hold_for_all_values_or_none(tmp_path, condition, expected):
    tables = [
        pa.table(
            {
                "n": [2, 7, None],
                "c": [5, 5, 5],
                "z": pa.nulls(3, pa.int64()),
                "x": [1.0, float("nan"), 2.0],
            }
        ),
        pa.table({"n": [4], "c": [5], "z": pa.nulls(1, pa.int64()), "x": [0.0]}),
    ]
    analyzer = tg.Compliance("rule", condition)
    state, route = measure(tmp_path, tables, analyzer)[analyzer]
    assert (state.num_matches, route) == expected
    assert state.count == 4


def test_statistics_of_decimals_are_exact(tmp_path):
    prices = pa.array([Decimal("-1.50"), None, Decimal("20.25")], pa.decimal128(9, 2))
    large = pa.array([Decimal(-(10**37)), Decimal(10**37), None], pa.decimal128(38, 0))
    tables = [pa.table({"price": prices, "large": large})]
    for options in ({}, {"store_decimal_as_integer": True}):
        if set(options) <= OPTIONS_OF_NEW_PYARROW:
            suite = [tg.Minimum("price"), tg.Maximum("price"), tg.Range("large")]
            assert list(measure(tmp_path, tables, *suite, **options).values()) == [
                (MinState(Decimal("-1.50"), 2), METADATA),
                (MaxState(Decimal("20.25"), 2), METADATA),
                (RangeState(Decimal(-(10**37)), Decimal(10**37), 2), METADATA),
            ]


def test_only_nan_has_no_minimum_in_statistics(tmp_path):
    tables = [pa.table({"x": [float("nan")]}), pa.table({"x": [2.0, None]})]
    (state, route) = measure(tmp_path, tables, tg.Minimum("x"))[tg.Minimum("x")]
    assert (state, route) == (MinState(2.0, 2), COLUMNS)


def test_states_of_partitions_are_merged_if_all_have_one(tmp_path):
    """The maximum of floats is in no metadata; the second partition has 1970-01-01 and an unknown calendar."""
    partitions = []
    for day, days in enumerate(([0, 1], [0, -60_000])):
        table = pa.table({"x": [1.0 + day, 2.0], "day": pa.array(days, pa.date32())})
        pq.write_table(table, tmp_path / f"{day}.parquet")
        partitions.append(ParquetPartition((str(tmp_path / f"{day}.parquet"),), ()))
    suite = (tg.Size(), tg.Minimum("x"), tg.Maximum("x"), tg.CountDistinct("day"))
    result = ColumnarPlanner().measure_together(partitions, suite)
    assert result.rows == 4
    assert result.outcomes == {
        tg.Size(): Success(NumMatches(4)),
        tg.Minimum("x"): Success(MinState(1.0, 4)),
        tg.Maximum("x"): Success(MaxState(2.0, 4)),
    }
    assert result.routes == {
        tg.Size(): METADATA,
        tg.Minimum("x"): METADATA,
        tg.Maximum("x"): COLUMNS,
    }
