"""Random Delta and Iceberg tables: their logs and files give the states of all rows that the table has.

Tables are written without Java, with columns that are added, renamed, moved, dropped and widened, deleted rows,
empty files, several row groups, and files without statistics.
"""

from random import Random

import deltalake
import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyiceberg.catalog.sql import SqlCatalog

import tidegauge as tg
from tests.analyzers.columnar.random_tables import COLUMNS, NUMBERS, TIMES
from tests.analyzers.columnar.test_equality import assert_same
from tests.analyzers.columnar.test_table_logs import require_iceberg_writer
from tests.conftest import soak
from tidegauge.analyzers.columnar.engines import Route
from tidegauge.analyzers.columnar.planner import ColumnarPlanner, kernel_of
from tidegauge.analyzers.columnar.table_logs import (
    TablePartition,
    read_delta,
    read_delta_history,
    read_iceberg,
    read_iceberg_history,
)
from tidegauge.analyzers.core.columnar import RowGroup
from tidegauge.analyzers.core.metric import Success
from tidegauge.analyzers.core.partitions import NULL

STEPS = 6
MAX_ROWS = 12
KEYS = ["a", "b", None]
DELTA_COLUMNS = (
    "flag",
    "tiny",
    "small",
    "number",
    "big",
    "single",
    "double",
    "price",
    "wide",
    "day",
    "instant",
    "clock",
    "text",
    "raw",
    "nothing",
)
ICEBERG_COLUMNS = ("flag", "number", "big", "single", "double", "price", "wide", "day", "instant", "clock", "text", "raw")  # fmt: skip
WIDER = {"number": pa.int64(), "single": pa.float64(), "price": pa.decimal128(20, 2)}


class Model:
    """The rows that a table should have, as dictionaries by the current names of columns."""

    def __init__(self, random):
        self.random = random
        self.rows = []
        self.types = {}
        self.next_id = 0

    def draw(self, columns):
        """Return new rows as a table; columns are pairs of a name and the name of a random column."""
        n = self.random.choice([0, 1, MAX_ROWS, self.random.randrange(MAX_ROWS)])
        arrays = {}
        for name, kind in columns:
            declared, draw = COLUMNS[kind]
            share = self.random.choice([0.0, 0.3])
            values = [None if self.random.random() < share else draw(self.random) for _ in range(n)]
            arrays[name] = pa.array(values, declared).cast(self.types.setdefault(name, declared))
        table = pa.table(arrays)
        ids = range(self.next_id, self.next_id + n)
        self.next_id += n
        keys = [self.random.choice(KEYS) for _ in range(n)]
        table = table.append_column("id", pa.array(ids, pa.int64()))
        table = table.append_column("key", pa.array(keys, pa.string()))
        self.rows += table.to_pylist()
        return table

    def delete_below(self, limit):
        self.rows = [row for row in self.rows if row["id"] >= limit]

    def expected(self, key):
        """Return the rows of a partition as a row group."""
        rows = self.rows if key is None else [r for r in self.rows if (r["key"] or NULL) == key]
        columns = {}
        for name, kind in {**self.types, "id": pa.int64(), "key": pa.string()}.items():
            array = pa.array([row.get(name) for row in rows], kind)
            is_text = pa.types.is_string(kind)
            columns[name] = array.dictionary_encode() if is_text else array
        return RowGroup(len(rows), columns)

    def analyzers(self, kinds):
        """Return a suite, where ``kinds`` has the random column of each column."""
        numbers = [name for name, kind in kinds.items() if kind in NUMBERS]
        times = [name for name, kind in kinds.items() if kind in TIMES]
        return [
            tg.Size(),
            tg.Completeness("id"),
            tg.Maximum("id"),
            tg.Completeness("key"),
            *(kind(name) for name in kinds for kind in (tg.Completeness, tg.DataType)),
            *(kind(name) for name in numbers for kind in (tg.Minimum, tg.Maximum, tg.Sum)),
            *(tg.MinTime(name) for name in times),
            *(
                tg.ApproxCountDistinct(name)
                for name, kind in kinds.items()
                if kind not in {"raw", "wide"}  # without a hash outside of Spark
            ),
        ]


def check(model, snapshot, suite):
    """Compare each partition of a snapshot with the model; return the routes of all answers."""
    partitions = snapshot.by_partition()
    routes = []
    for partition, files in partitions.items():
        key = partition.values[0] if partition.keys else None
        rows = model.expected(key)
        described = TablePartition(
            snapshot.schema, tuple(files), snapshot.column_keys, snapshot.filled
        )
        result = ColumnarPlanner().measure(described, suite)
        assert result.rows == rows.rows
        for analyzer, outcome in result.outcomes.items():
            kernel = kernel_of(analyzer, snapshot.schema)
            state = kernel.from_rows(rows) if rows.rows else analyzer.state_type()
            try:
                assert_same(outcome, Success(state))
            except AssertionError as error:
                raise AssertionError(
                    f"{partition.name} {analyzer} by {result.routes[analyzer]}: {error}"
                ) from error
        routes += result.routes.values()
    assert sum(f.rows for f in snapshot.files) == len(model.rows)
    return routes


@settings(max_examples=soak(6, 150), phases=[Phase.generate])
@given(st.integers(0, 2**32))
def test_delta_logs_and_files_give_the_states_of_all_rows(tmp_path_factory, seed):
    random, folder = Random(f"delta {seed}"), str(tmp_path_factory.mktemp("delta") / "t")
    model = Model(random)
    is_partitioned = random.random() < 0.7
    indexed = random.choice([None, "0", "3"])
    configuration = None if indexed is None else {"delta.dataSkippingNumIndexedCols": indexed}
    for step in range(STEPS):
        action = "append" if step == 0 else random.choice(["append"] * 3 + ["delete", "compact"])
        if action == "delete":
            limit = random.randrange(model.next_id + 1)
            deltalake.DeltaTable(folder).delete(f"id < {limit}")
            model.delete_below(limit)
        elif action == "compact":
            deltalake.DeltaTable(folder).optimize.compact()
        else:
            columns = random.sample(DELTA_COLUMNS, random.randint(1, len(DELTA_COLUMNS)))
            rows = model.draw([(name, name) for name in columns])
            deltalake.write_deltalake(
                folder,
                rows,
                mode="append",
                schema_mode=None if step == 0 else "merge",
                partition_by=["key"] if is_partitioned else None,
                configuration=configuration if step == 0 else None,
                writer_properties=deltalake.WriterProperties(
                    max_row_group_size=random.randint(1, MAX_ROWS)
                ),
            )
    if random.random() < 0.3:
        deltalake.DeltaTable(folder).create_checkpoint()
    snapshot = read_delta(folder)
    routes = check(model, snapshot, model.analyzers({name: name for name in model.types}))
    if model.rows:
        assert Route.METADATA in routes
    history = read_delta_history(folder)
    assert history[-1].total_rows == len(model.rows)
    changed = [c for version in history for c in version.changes.values()]
    assert sum(c.rows_added - c.rows_removed for c in changed) == len(model.rows)


def evolve(random, table, kinds, model):
    """Change the columns of an Iceberg table and of the model."""
    name = random.choice(list(kinds))
    other = random.choice(ICEBERG_COLUMNS)
    action = random.choice(["rename", "drop", "add", "move", "widen"])
    with table.update_schema() as update:
        if action == "rename":
            new = f"{name}_{len(model.rows)}"
            update.rename_column(name, new)
            kinds[new] = kinds.pop(name)
            model.types[new] = model.types.pop(name)
            for row in model.rows:
                row[new] = row.pop(name, None)
        elif action == "drop" and len(kinds) > 1:
            update.delete_column(name)
            del kinds[name], model.types[name]
            for row in model.rows:
                row.pop(name, None)
        elif action == "add":
            new = f"{other}_{model.next_id}"
            if new not in kinds:
                kind = COLUMNS[other][0]
                update.union_by_name(pa.schema([(new, kind)]))
                kinds[new], model.types[new] = other, kind
        elif action == "move":
            update.move_first(name)
        elif action == "widen" and kinds[name] in WIDER:
            from pyiceberg.io.pyarrow import visit_pyarrow, _ConvertToIcebergWithoutIDs  # noqa: PLC2701, I001

            model.types[name] = WIDER[kinds[name]]
            update.update_column(
                name, visit_pyarrow(model.types[name], _ConvertToIcebergWithoutIDs())
            )


@pytest.mark.filterwarnings("ignore:Delete operation did not match any records")
@settings(max_examples=soak(6, 150), phases=[Phase.generate])
@given(st.integers(0, 2**32))
def test_iceberg_manifests_and_files_give_the_states_of_all_rows(tmp_path_factory, seed):
    require_iceberg_writer()
    random, folder = Random(f"iceberg {seed}"), tmp_path_factory.mktemp("iceberg")
    model = Model(random)
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
    catalog.create_namespace("db")
    kinds = {name: name for name in random.sample(ICEBERG_COLUMNS, random.randint(1, 8))}
    rows = model.draw(list(kinds.items()))
    properties = {
        "write.parquet.row-group-limit": str(random.randint(1, MAX_ROWS)),
        "write.metadata.metrics.default": random.choice(["none", "counts", "truncate(4)", "full"]),
    }
    table = catalog.create_table("db.t", schema=rows.schema, properties=properties)
    if random.random() < 0.7:
        with table.update_spec() as spec:
            spec.add_identity("key")
    table.append(rows)
    for _ in range(STEPS - 1):
        action = random.choice(["append"] * 2 + ["delete"] + ["evolve"] * 2)
        if action == "delete":
            limit = random.randrange(model.next_id + 1)
            table.delete(f"id < {limit}")
            model.delete_below(limit)
        elif action == "evolve":
            evolve(random, table, kinds, model)
        else:
            columns = random.sample(sorted(kinds), random.randint(1, len(kinds)))
            table.append(model.draw([(name, kinds[name]) for name in columns]))
    catalog.engine.dispose()
    snapshot = read_iceberg(table.metadata_location)
    if None not in snapshot.by_partition():
        check(model, snapshot, model.analyzers(kinds))
    assert read_iceberg_history(table.metadata_location)[-1].total_rows == len(model.rows)
