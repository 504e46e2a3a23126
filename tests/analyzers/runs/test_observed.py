"""Results of observed writes replace a scan only if they give the same states; no Spark is started."""

from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidegauge as tg
from tests.support.memory_store import MemoryRunStore
from tidegauge.analyzers.columnar.engines import LazySession, MeasuringEngine, Route
from tidegauge.analyzers.core.analyzer import ROWS, Aggregate, Sketch
from tidegauge.analyzers.core.metric import Success
from tidegauge.analyzers.core.partitions import Partition
from tidegauge.analyzers.core.privacy import PUBLIC
from tidegauge.analyzers.core.schema import Schema
from tidegauge.analyzers.measures.counts import NumMatches, NumMatchesAndCount
from tidegauge.analyzers.runs.ledger import Change, RunSpec
from tidegauge.analyzers.runs.observed import (
    ObservedRows,
    Observer,
    accepts_every_value,
    count_rows_of,
    is_measured_by_files,
)
from tidegauge.analyzers.runs.runner import run_incremental
from tidegauge.analyzers.sources.opening import open_folder
from tidegauge.analyzers.sources.path_source import PathSource
from tidegauge.analyzers.sources.sources import ListedPartition

PARTITION = Partition.from_name("ds=2026-01-01")
TYPES = {"x": "long", "s": "string"}
SIZE, COMPLETENESS, MEAN = tg.Size(), tg.Completeness("x"), tg.Mean("x")
CELLS = {ROWS: 4, Aggregate("count(`x`)"): 3}


class WrittenTable:
    """A table with one partition, whose rows are not read."""

    name, keys, reads_exactly = "lake/t", ("ds",), True

    def __init__(self, types=TYPES, format="delta"):
        schema = Schema.from_types({**types, "ds": "date"})
        session = SimpleNamespace(conf=SimpleNamespace(get=lambda _: "false"))
        self.frame = SimpleNamespace(schema=schema, sparkSession=session)
        self.format = format

    def read(self, partitions=None):
        assert partitions == [PARTITION]
        return self.frame


def observed(types=TYPES, written=4, cells=CELLS):
    return ObservedRows(PARTITION, Schema.from_types(types), cells, written)


def test_observed_cells_become_states():
    result = observed().answer(WrittenTable(), [SIZE, COMPLETENESS, MEAN], PUBLIC)
    assert result.rows == 4
    assert result.outcomes == {
        SIZE: Success(NumMatches(4)),
        COMPLETENESS: Success(NumMatchesAndCount(3, 4)),
    }
    assert set(result.routes.values()) == {Route.WRITE}


@pytest.mark.parametrize(
    ("rows", "source"),
    [
        (observed(written=5), WrittenTable()),  # a task was repeated
        (observed(), WrittenTable(format="csv")),  # empty strings become null
        (observed(), WrittenTable(format="")),
        (observed(), WrittenTable({**TYPES, "x": "integer"})),  # the table casts
        (observed(), WrittenTable({"x": "long"})),
        (observed({"x": "long"}), WrittenTable()),
        (observed(cells={ROWS: 0}, written=0), WrittenTable()),
    ],
)
def test_other_rows_or_columns_are_scanned(rows, source):
    assert rows.answer(source, [SIZE, COMPLETENESS], PUBLIC) is None


def test_the_order_of_columns_does_not_matter():
    swapped = WrittenTable({"s": "string", "x": "long"})
    assert observed().answer(swapped, [SIZE], PUBLIC).outcomes == {SIZE: Success(NumMatches(4))}


def test_analyzers_of_the_whole_schema_are_answered_only_for_the_same_schema():
    """The table has a partition column that the written data lack."""
    columns = tg.ColumnCount()
    cells = {**CELLS, Aggregate("2"): 2, Aggregate("0"): 0, Aggregate("1"): 1}
    rows = observed(cells=cells)
    assert rows.answer(WrittenTable(), [columns], PUBLIC) is None
    answered = rows.answer(WrittenTable(), [tg.ColumnExists("x")], PUBLIC)
    assert list(answered.outcomes) == [tg.ColumnExists("x")]


@pytest.mark.parametrize(
    ("analyzer", "accepts"),
    [
        (tg.Mean("x"), True),
        (tg.ApproxCountDistinct("s", where="x IS NOT NULL"), True),
        (tg.Compliance("positive", "x > 0"), True),
        (tg.Compliance("known", "s IN ('a', 'b')"), True),
        (tg.Compliance("number", "s > 0"), False),
        (tg.Compliance("ratio", "1 / x > 0"), False),
        (tg.Size(where="s RLIKE '('"), False),
        (tg.Size(where="assert_true(x > 0) IS NULL"), False),
        (tg.PatternMatch("s", "("), False),
        (tg.CustomSql("sum(x)"), False),
    ],
)
def test_only_expressions_that_accept_every_value_are_observed(analyzer, accepts):
    assert accepts_every_value(analyzer, Schema.from_types(TYPES)) == accepts


def test_rows_of_parquet_files_are_counted_from_their_footers(tmp_path):
    folder = tmp_path / "ds=2026-01-01"
    folder.mkdir()
    for name, rows in (("a", 3), ("b", 4)):
        pq.write_table(pa.table({"x": list(range(rows))}), folder / f"{name}.parquet")
    source = PathSource(DefaultSession(), str(tmp_path))
    (listed,) = source.list_partitions()
    assert count_rows_of(source, listed.partition) == 7


class DefaultSession:
    """A session with Spark's default settings that reads nothing."""

    conf = SimpleNamespace(get=lambda _, default=None: default)


def test_tables_of_parquet_files_are_measured_by_files(tmp_path):
    """A table without partitions shows no files, so its first write is observed."""
    (tmp_path / "ds=1").mkdir()
    pq.write_table(pa.table({"x": [1]}), tmp_path / "ds=1" / "a.parquet")
    session = LazySession(lambda: None)
    assert is_measured_by_files(open_folder(session, str(tmp_path), ("ds",)))
    assert not is_measured_by_files(open_folder(session, str(tmp_path), ("ds",), "csv"))
    without = SimpleNamespace(list_partitions=list, parquet_files=dict.fromkeys)
    assert not is_measured_by_files(without)


def test_results_are_renamed_to_their_requests():
    sketch = Sketch("hll", "`s`", 12)
    values = {"__tidegauge_o0": 4, "__tidegauge_o1": bytearray(b"h")}
    observation = SimpleNamespace(get=values)
    observer = Observer(None, Schema.from_types(TYPES), (ROWS, sketch), (), observation)
    assert observer.results() == {ROWS: 4, sketch: [b"h"]}


def test_without_results_there_is_nothing_to_store():
    """A failed write raises; on Spark Connect, a frame that was not written has no values."""
    for observation in (SimpleNamespace(get={}), SimpleNamespace()):
        observer = Observer(None, Schema.from_types(TYPES), (ROWS,), (), observation)
        assert observer.results() is None


class ListedTable(WrittenTable):
    """A table whose only partition is listed with a fingerprint."""

    def list_partitions(self):
        return [ListedPartition(PARTITION, "files 1")]

    def partition_of(self, key):
        return PARTITION


def test_the_next_run_skips_an_observed_partition():
    store, spec = MemoryRunStore(), RunSpec("t", "lake/t", ("ds",))
    first = run_incremental(
        ListedTable(), spec, [SIZE, COMPLETENESS], store, [PARTITION.name], observed=observed()
    )
    assert dict(first.changes) == {PARTITION.name: Change.NEW}
    assert first.routes_text == "2 of 2 measurements from the observed write"
    again = run_incremental(
        ListedTable(), spec, [SIZE, COMPLETENESS], store, engine=MeasuringEngine.SPARK
    )
    assert (again.scanned, again.skipped) == (0, 1)
