"""Columnar scans in tasks: division of files, merging of states, and reasons to leave partitions to Spark SQL."""

import logging
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidegauge as tg
from tidegauge.analyzers.columnar import tasks
from tidegauge.analyzers.columnar.engines import LazySession, Route
from tidegauge.analyzers.columnar.planner import (
    MAX_SCAN_SECONDS,
    START_SECONDS,
    ColumnarPlanner,
    ParquetPartition,
)
from tidegauge.analyzers.columnar.table_logs import DataFile, TablePartition
from tidegauge.analyzers.core.schema import Schema
from tidegauge.analyzers.measures.counts import NumMatches, NumMatchesAndCount
from tidegauge.analyzers.measures.moments import StandardDeviationState, SumAndCount
from tidegauge.analyzers.runs.runner import _planner_for

NUMBERS = pa.table({"n": [1, 2, 3, 4, 5, 6], "s": ["a", "b", "a", "b", "a", "c"]})
SUITE = [tg.Size(), tg.Sum("n"), tg.StandardDeviation("n"), tg.CountDistinct("s")]


class Session:
    """A session that runs ``mapInArrow`` in this process, one task for each slice of numbers."""

    def __init__(self, slots=2):
        self.slots, self.jobs = slots, []

    def range(self, start, end=None, step=1, slices=None):
        first, last = (0, start) if end is None else (start, end)
        slices = slices or self.slots
        size = -(-(last - first) // slices)
        return Frame(self, [list(range(i, min(last, i + size))) for i in range(first, last, size)])


class Frame:
    """Numbers in slices, and a function that is applied to each slice."""

    def __init__(self, session, slices):
        self.sparkSession, self.slices = session, slices

    def mapInArrow(self, function, schema):  # noqa: N802 - Spark's name
        self.function, self.columns = function, [c.split()[0] for c in schema.split(", ")]
        return self

    def toArrow(self):  # noqa: N802 - Spark's name
        self.sparkSession.jobs.append(len(self.slices))
        batches = [
            batch
            for numbers in self.slices
            for batch in self.function(iter([pa.RecordBatch.from_pydict({"id": numbers})]))
        ]
        table = pa.Table.from_batches(batches)
        assert table.column_names == self.columns
        return table


def written(tmp_path, *tables, **options):
    """Return the partition of files with these tables, the newest first."""
    files = []
    for i, table in enumerate(tables):
        files.append(str(tmp_path / f"{len(list(tmp_path.iterdir()))}-{i}.parquet"))
        pq.write_table(table, files[-1], **options)
    return ParquetPartition(tuple(files), ())


def scan(session, partitions, suite=SUITE, seconds_left=-1):
    """Return the results of partitions by position."""
    planner = ColumnarPlanner(seconds_left=seconds_left, scan_by_tasks=tasks.scanner_for(session))
    plans = {i: planner.plan(partition, suite) for i, partition in enumerate(partitions)}
    return planner.scan(plans)


def states(result):
    return {a: outcome.value for a, outcome in result.outcomes.items()}


@pytest.mark.parametrize("slots", [1, 2, 3, 100])
def test_states_do_not_depend_on_the_number_of_tasks(tmp_path, slots):
    many = written(tmp_path, NUMBERS, NUMBERS.slice(0, 1), row_group_size=1)
    single = written(tmp_path, NUMBERS.slice(5))
    session = Session(slots)
    results = scan(session, [many, single])
    size, total, deviation, distinct = (states(results[0])[a] for a in SUITE)
    assert (size, total) == (NumMatches(7), SumAndCount(22, 7))
    assert deviation.agrees_with(StandardDeviationState(7, 22 / 7, 92 - 22**2 / 7))
    assert distinct.as_dict() == {("a",): 4, ("b",): 2, ("c",): 1}
    assert states(results[1])[tg.Sum("n")] == SumAndCount(6, 1)
    assert [results[0].routes[a] for a in SUITE] == [Route.METADATA, *[Route.TASKS] * 3]
    assert session.jobs[1] == min(slots, 8)  # of eight row groups


def test_a_session_is_probed_once(tmp_path):
    session = Session()
    for _ in range(2):
        scan(session, [written(tmp_path, NUMBERS)])
    assert session.jobs == [2, 1, 1]


def test_little_is_read_in_this_process(tmp_path):
    session = Session()
    results = scan(session, [written(tmp_path, NUMBERS)], seconds_left=1.0)
    assert results[0].routes[tg.Sum("n")] is Route.COLUMNS
    assert session.jobs == []


def test_all_partitions_count_before_the_first_is_read(tmp_path):
    partitions = [written(tmp_path, NUMBERS), written(tmp_path, NUMBERS)]
    planner = ColumnarPlanner()
    plan = planner.plan(partitions[0], SUITE)
    results = scan(Session(), partitions, seconds_left=1.9 * plan.scan_seconds)
    assert {result.routes[tg.Sum("n")] for result in results.values()} == {Route.TASKS}


def test_columns_of_a_table_are_found_by_their_keys_in_the_files(tmp_path):
    schema = Schema.from_types({"total": "long", "name": "string", "new": "long"})
    narrow = NUMBERS.set_column(0, "n", NUMBERS["n"].cast(pa.int32()))
    files = (*written(tmp_path, NUMBERS).files, *written(tmp_path, narrow).files)
    keys = {"total": "n", "name": "s", "new": "added later"}
    partition = TablePartition(schema, tuple(DataFile(f, None, 6, 1) for f in files), keys)
    suite = [tg.Size(), tg.Sum("total"), tg.CountDistinct("name"), tg.Completeness("new")]
    result = scan(Session(3), [partition], suite)[0]
    assert states(result)[tg.Sum("total")] == SumAndCount(42, 12)
    assert states(result)[tg.CountDistinct("name")].as_dict() == {("a",): 6, ("b",): 4, ("c",): 2}
    assert [result.routes[a] for a in suite[:3]] == [Route.METADATA, Route.TASKS, Route.TASKS]
    assert states(result)[tg.Completeness("new")] == NumMatchesAndCount(0, 12)


def test_columns_with_a_default_are_left_to_spark_where_a_file_lacks_them(tmp_path):
    schema = Schema.from_types({"n": "long", "new": "long"})
    files = tuple(DataFile(f, None, 6, 1) for f in written(tmp_path, NUMBERS).files)
    partition = TablePartition(schema, files, {"n": "n", "new": "new"}, frozenset({"new"}))
    suite = [tg.Sum("n"), tg.Sum("new"), tg.Completeness("new"), tg.Compliance("r", "new >= 0")]
    assert list(states(scan(Session(3), [partition], suite)[0])) == [tg.Sum("n")]


def test_a_file_that_changes_is_left_to_spark_alone(tmp_path):
    partitions = [written(tmp_path, NUMBERS), written(tmp_path, NUMBERS)]
    planner = ColumnarPlanner(seconds_left=-1, scan_by_tasks=tasks.scanner_for(Session()))
    plans = {i: planner.plan(partition, SUITE) for i, partition in enumerate(partitions)}
    pq.write_table(NUMBERS.slice(0, 3), partitions[0].files[0])
    assert list(planner.scan(plans)) == [1]


def test_a_state_that_is_inexact_in_one_row_group_is_left_to_spark(tmp_path):
    times = pa.array([0, -3 * 10**15], pa.timestamp("us", "UTC"))  # 1970 and 1874
    table = pa.table({"n": [1, 2], "t": times})
    partition = written(tmp_path, table, row_group_size=1, write_statistics=False)
    results = scan(Session(), [partition], [tg.Sum("n"), tg.MaxTime("t")])
    assert states(results[0]) == {tg.Sum("n"): SumAndCount(3, 2)}


def test_large_states_are_left_to_spark(tmp_path, monkeypatch):
    monkeypatch.setattr(tasks, "MAX_STATE_BYTES", 100)
    results = scan(Session(), [written(tmp_path, NUMBERS)])
    assert list(results[0].outcomes) == SUITE[:3]


def test_analyzers_of_other_packages_are_left_to_spark(tmp_path, monkeypatch):
    monkeypatch.setattr(tg.Sum, "__module__", "elsewhere")
    monkeypatch.setattr(tg.Sum.kernel, "__module__", "elsewhere")
    assert tg.Sum("n") not in scan(Session(), [written(tmp_path, NUMBERS)])[0].outcomes


def failing(*_):
    raise OSError("no such host")


def without_package(name):
    raise ImportError(name=name)


@pytest.mark.parametrize(
    ("attribute", "value", "reason"),
    [
        ("file_system", failing, "cannot read {file}: OSError: no such host"),
        ("import_module", without_package, "cannot import datasketches"),
        ("_PACKAGE", "pyarrow", "have tidegauge {pyarrow}, and the driver has 0"),
    ],
)
def test_workers_that_cannot_scan_are_reported_once(
    tmp_path, monkeypatch, caplog, attribute, value, reason
):
    probe = tasks._probe

    def on_another_machine(location, version):
        monkeypatch.setattr(tasks, attribute, value)
        return probe(location, "0" if attribute == "_PACKAGE" else version)

    monkeypatch.setattr(tasks, "_probe", on_another_machine)
    session = Session()
    partition = written(tmp_path, NUMBERS)
    for _ in range(2):
        results = scan(session, [partition])
        assert list(results[0].outcomes) == SUITE[:1]
    file = partition.files[0]
    expected = reason.format(file=file, pyarrow=pa.__version__)
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert expected in record.getMessage()


def test_a_job_that_fails_leaves_the_partitions_to_spark(tmp_path, monkeypatch, caplog):
    session = Session()
    monkeypatch.setattr(tasks, "run_task", failing)
    results = scan(session, [written(tmp_path, NUMBERS)])
    assert list(results[0].outcomes) == SUITE[:1]
    assert "because a columnar scan failed: " in caplog.text
    assert "no such host" in caplog.text


def test_this_process_reads_more_before_spark_has_started():
    session = LazySession(Session)
    planners = [_planner_for(SimpleNamespace(spark=session))]
    assert session.slots == 2  # starts it
    planners.append(_planner_for(SimpleNamespace(spark=session)))
    assert [planner.seconds_left for planner in planners] == [
        MAX_SCAN_SECONDS + START_SECONDS,
        MAX_SCAN_SECONDS,
    ]
    assert _planner_for(SimpleNamespace()).scan_by_tasks is None
