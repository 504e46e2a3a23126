"""Snapshots, statistics and histories of Delta and Iceberg tables, which Python libraries write."""

import datetime as dt
import json
import struct
import sys
from contextlib import contextmanager
from decimal import Decimal
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pyroaring
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import DataFile as IcebergFile
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.typedef import Record
from pyiceberg.types import LongType

from tidegauge.analyzers.columnar.table_logs import (
    UNKNOWN,
    ColumnStatistics,
    PartitionChange,
    read_delta,
    read_delta_history,
    read_iceberg,
    read_iceberg_history,
)
from tidegauge.analyzers.core.errors import SetupError, SourceError
from tidegauge.analyzers.core.partitions import NULL, Partition

DAY = 86_400_000_000
ROWS = pa.table(
    {
        "ds": ["a", "a", None],
        "n": pa.array([1, 2**62 + 1, None]),
        "x": [1.5, float("nan"), -0.0],
        "s": ["a" * 50, "b", None],
        "at": pa.array([1, 2**50 + 1, None], pa.timestamp("us", "UTC")),
        "day": pa.array([1, 2, None], pa.date32()),
        "price": pa.array([Decimal("1.10"), Decimal("-2.25"), None], pa.decimal128(9, 2)),
        "st": [{"a": 1}, {"a": None}, None],
        "i": pa.array([1, 2, 3], pa.int32()),
    }
)
"""Two rows of one partition and one of another."""
SPARK_TYPES = {
    "ds": "string",
    "n": "long",
    "x": "double",
    "s": "string",
    "at": "timestamp",
    "day": "date",
    "price": "decimal(9,2)",
    "i": "integer",
}


def by_partition(snapshot):
    return {
        partition and partition.values: files
        for partition, files in snapshot.by_partition().items()
    }


def types_of(schema):
    return {name: schema.field_type(name) for name in SPARK_TYPES}


def test_a_delta_log_has_exact_counts_and_integers(tmp_path):
    write_deltalake(tmp_path / "t", ROWS, partition_by=["ds"])
    snapshot = read_delta(str(tmp_path / "t"))
    assert types_of(snapshot.schema) == SPARK_TYPES
    assert (snapshot.format, snapshot.id, snapshot.keys) == ("delta", 0, ("ds",))
    files = by_partition(snapshot)
    ((first,), (second,)) = files[("a",)], files[(NULL,)]
    assert (first.rows, second.rows) == (2, 1)
    assert pq.read_metadata(first.location).num_rows == 2
    assert {name: first.column(name) for name in snapshot.schema.names} == {
        "ds": ColumnStatistics(0),
        "n": ColumnStatistics(0, 1, 2**62 + 1),
        "x": ColumnStatistics(0, 1.5),  # Delta leaves out NaN, the greatest number
        "s": ColumnStatistics(0),
        "at": ColumnStatistics(0),  # Delta truncates to milliseconds
        "day": ColumnStatistics(0, DAY, 2 * DAY),
        "price": ColumnStatistics(0),  # Delta stores doubles
        "st": UNKNOWN,
        "i": ColumnStatistics(0, 1, 2),
    }
    assert second.column("n") == ColumnStatistics(1)
    assert second.column("ds") == ColumnStatistics(1)
    assert second.column("i") == ColumnStatistics(0, 3, 3)


def test_the_history_of_a_delta_table_counts_rows_by_partition(tmp_path):
    folder, first, second = (
        str(tmp_path / "t"),
        Partition(("ds",), ("a",)),
        Partition(("ds",), (NULL,)),
    )
    write_deltalake(folder, ROWS, partition_by=["ds"])
    write_deltalake(folder, ROWS.slice(1), mode="append")
    DeltaTable(folder).delete("n = 1")
    DeltaTable(folder).optimize.compact()
    one, two, three, four = read_delta_history(folder)
    assert one.changes == {first: PartitionChange(2, 0, 1, 0), second: PartitionChange(1, 0, 1, 0)}
    assert two.changes == {first: PartitionChange(1, 0, 1, 0), second: PartitionChange(1, 0, 1, 0)}
    assert three.changes == {first: PartitionChange(1, 2, 1, 1)}
    assert four.changes == {first: PartitionChange(2, 2, 1, 2), second: PartitionChange(2, 2, 1, 2)}
    assert [v.total_rows for v in (one, two, three, four)] == [3, 5, 4, 4]
    assert [v.total_files for v in (one, two, three, four)] == [2, 4, 4, 2]
    assert [v.is_rewrite for v in (one, two, three, four)] == [False, False, False, True]
    assert one.time <= two.time <= three.time <= four.time
    assert read_delta_history(folder, since=2) == [three, four]


def test_the_history_begins_after_commits_that_were_deleted(tmp_path):
    folder = str(tmp_path / "t")
    for _ in range(4):
        write_deltalake(folder, pa.table({"n": [1, 2]}), mode="append")
    DeltaTable(folder, version=1).create_checkpoint()
    whole = read_delta_history(folder)
    for version in (0, 1):
        (tmp_path / f"t/_delta_log/{version:020}.json").unlink()
    assert read_delta_history(folder) == whole[2:]
    assert [v.total_rows for v in whole] == [2, 4, 6, 8]
    (tmp_path / "t/_delta_log/00000000000000000002.json").rename(tmp_path / "x")
    with pytest.raises(SourceError, match="cannot read the log of the Delta table"):
        read_delta(folder)


def write_log(folder, schema, adds, features=(), keys=()):
    """Write the first commit of a Delta table."""
    columns = [
        {"name": name, "type": kind, "nullable": True, "metadata": metadata}
        for name, (kind, metadata) in schema.items()
    ]
    metadata = {
        "id": "table",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": columns}),
        "partitionColumns": list(keys),
        "configuration": {"delta.columnMapping.mode": "name"}
        if "columnMapping" in features
        else {},
    }
    names = {"readerFeatures": list(features), "writerFeatures": list(features)}
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, **names}
    common = {"size": 10, "modificationTime": 5, "dataChange": True, "partitionValues": {}}
    actions = [{"protocol": protocol}, {"metaData": metadata}]
    actions += [{"add": common | {**add, "stats": json.dumps(add["stats"])}} for add in adds]
    (folder / "_delta_log").mkdir(parents=True)
    text = "\n".join(map(json.dumps, actions))
    (folder / "_delta_log/00000000000000000000.json").write_text(text)


Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def inline_vector(rows):
    """Return a deletion vector that is stored in the log, by Delta's protocol."""
    bitmap = pyroaring.BitMap(rows).serialize()
    vector = struct.pack("<iqi", 1681511377, 1, 0) + bitmap
    padded = vector + b"\0" * (-len(vector) % 4)
    text = ""
    for (word,) in struct.iter_unpack(">I", padded):
        text += "".join(Z85[word // 85**i % 85] for i in range(4, -1, -1))
    return {
        "storageType": "i",
        "pathOrInlineDv": text,
        "sizeInBytes": len(vector),
        "cardinality": len(rows),
    }


def test_rows_of_a_deletion_vector_do_not_count_and_void_the_statistics(tmp_path):
    stats = {"numRecords": 4, "minValues": {"n": 1}, "maxValues": {"n": 4}, "nullCount": {"n": 0}}
    adds = [
        {"path": "a%20b.parquet", "stats": stats, "deletionVector": inline_vector([0, 2])},
        {"path": "c.parquet", "stats": stats},
    ]
    write_log(tmp_path / "t", {"n": ("long", {})}, adds, ["deletionVectors"])
    first, second = sorted(read_delta(str(tmp_path / "t")).files, key=lambda f: f.location)
    assert first.location == f"{tmp_path}/t/a b.parquet"
    assert (first.rows, first.has_deletes, first.column("n")) == (2, True, UNKNOWN)
    assert (second.rows, second.has_deletes) == (4, False)
    assert second.column("n") == ColumnStatistics(0, 1, 4)
    (version,) = read_delta_history(str(tmp_path / "t"))
    assert (version.total_rows, version.changes[Partition()].rows_added) == (6, 6)


def test_statistics_of_delta_can_have_dates_that_python_lacks(tmp_path):
    ends, nulls = {"day": "+12026-01-02", "n": 1}, {"day": 0, "n": 0}
    stats = {"numRecords": 1, "minValues": ends, "maxValues": ends, "nullCount": nulls}
    schema = {"day": ("date", {}), "n": ("long", {})}
    write_log(tmp_path / "t", schema, [{"path": "a.parquet", "stats": stats}])
    (file,) = read_delta(str(tmp_path / "t")).files
    # The Gregorian calendar repeats after 400 years, or 146,097 days.
    far = ((dt.date(2026, 1, 2) - dt.date(1970, 1, 1)).days + 25 * 146_097) * DAY
    assert file.column("day") == ColumnStatistics(0, far, far)
    assert file.column("n") == ColumnStatistics(0, 1, 1)


@pytest.mark.parametrize(
    ("kind", "value"), [("date", "+12026-01-02"), ("timestamp", "+12026-01-02 00:00:00")]
)
def test_a_delta_table_with_partitions_that_python_lacks_is_left_to_spark(tmp_path, kind, value):
    schema = {"n": ("long", {}), "p": (kind, {})}
    add = {"path": "a.parquet", "stats": {"numRecords": 1}, "partitionValues": {"p": value}}
    write_log(tmp_path / "t", schema, [add], keys=["p"])
    with pytest.raises(SourceError, match="cannot read the (files in the )?log"):
        read_delta(str(tmp_path / "t"))


def test_a_delta_table_without_the_file_of_a_deletion_vector_is_left_to_spark(tmp_path):
    vector = {
        "storageType": "u",
        "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^",  # the protocol's example
        "offset": 4,
        "sizeInBytes": 40,
        "cardinality": 2,
    }
    add = {"path": "a.parquet", "stats": {"numRecords": 3}, "deletionVector": vector}
    write_log(tmp_path / "t", {"n": ("long", {})}, [add], ["deletionVectors"])
    with pytest.raises(SourceError, match="cannot read the files in the log"):
        read_delta(str(tmp_path / "t"))


def test_a_log_is_not_mistaken_for_that_of_a_folder_with_the_decoded_name(tmp_path):
    for name, rows in [("a b", 3), ("a%20b", 5), ("5%", 7)]:
        adds = [{"path": "a.parquet", "stats": {"numRecords": rows}}]
        write_log(tmp_path / name, {"n": ("long", {})}, adds)
    assert [f.rows for f in read_delta(str(tmp_path / "a b")).files] == [3]
    assert [f.rows for f in read_delta(str(tmp_path / "5%")).files] == [7]
    with pytest.raises(SourceError, match="decodes percent signs"):
        read_delta(str(tmp_path / "a%20b"))


def mapped(i):
    return {"delta.columnMapping.id": i, "delta.columnMapping.physicalName": f"col-{i}"}


def test_columns_of_delta_are_found_by_their_mapping(tmp_path):
    stats = {
        "numRecords": 2,
        "minValues": {"col-1": 7},
        "maxValues": {"col-1": 9},
        "nullCount": {"col-1": 0},
    }
    add = {"path": "file:///elsewhere/a.parquet", "stats": stats, "partitionValues": {"col-2": "v"}}
    schema = {"n": ("long", mapped(1)), "ds": ("string", mapped(2)), "new": ("long", mapped(3))}
    write_log(tmp_path / "t", schema, [add], ["columnMapping"], ["ds"])
    (file,) = read_delta(str(tmp_path / "t")).files
    assert file.location == "file:///elsewhere/a.parquet"
    assert file.partition == Partition(("ds",), ("v",))
    assert file.column("n") == ColumnStatistics(0, 7, 9)
    assert file.column("new") == UNKNOWN
    (version,) = read_delta_history(str(tmp_path / "t"))
    assert version.changes == {Partition(("ds",), ("v",)): PartitionChange(2, 0, 1, 0)}


def test_a_table_with_an_unknown_feature_cannot_be_read(tmp_path):
    adds = [{"path": "a.parquet", "stats": {"numRecords": 2}}]
    write_log(tmp_path / "t", {"n": ("long", {})}, adds, ["futureFeature"])
    with pytest.raises(SourceError, match="futureFeature"):
        read_delta(str(tmp_path / "t"))


def require_iceberg_writer():
    """Skip a test if PyIceberg cannot write, as with the packages of old releases of Spark."""
    pytest.importorskip("pyiceberg_core", reason="PyIceberg writes with pyiceberg-core")
    if not hasattr(pa.types, "is_string_view"):
        pytest.skip("PyIceberg writes with pyarrow 16 or later")


@contextmanager
def iceberg_catalog(folder, warehouse):
    """Open a catalog with a namespace, whose tables are below a folder."""
    require_iceberg_writer()
    catalog = SqlCatalog(
        "lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{warehouse}"
    )
    catalog.create_namespace("db")
    yield catalog
    catalog.engine.dispose()


@pytest.fixture
def catalog(tmp_path):
    with iceberg_catalog(tmp_path, tmp_path) as catalog:
        yield catalog


def iceberg_table(catalog, rows=ROWS):
    table = catalog.create_table("db.t", schema=rows.schema)
    with table.update_spec() as spec:
        spec.add_identity("ds")
        spec.add_field("at", "day", "at_day")
    table.append(rows)
    return table


def test_iceberg_manifests_have_exact_counts_numbers_and_times(catalog):
    table = iceberg_table(catalog)
    snapshot = read_iceberg(table.metadata_location)
    assert types_of(snapshot.schema) == SPARK_TYPES
    assert (snapshot.format, snapshot.keys) == ("iceberg", ("ds", "at_day"))
    assert snapshot.id == table.current_snapshot().snapshot_id
    files = by_partition(snapshot)
    assert {values: [f.rows for f in fs] for values, fs in files.items()} == {
        ("a", "1970-01-01"): [1],
        ("a", "2005-09-05"): [1],
        (NULL, NULL): [1],
    }
    (file,) = files["a", "2005-09-05"]
    assert pq.read_metadata(file.location.removeprefix("file://")).num_rows == 1
    assert {name: file.column(name) for name in snapshot.schema.names} == {
        "ds": ColumnStatistics(0),
        "n": ColumnStatistics(0, 2**62 + 1, 2**62 + 1),
        "x": ColumnStatistics(0),  # PyIceberg does not count NaN
        "s": ColumnStatistics(0),
        "at": ColumnStatistics(0, 2**50 + 1, 2**50 + 1),
        "day": ColumnStatistics(0, 2 * DAY, 2 * DAY),
        "price": ColumnStatistics(0, Decimal("-2.25"), Decimal("-2.25")),
        "st": UNKNOWN,
        "i": ColumnStatistics(0, 2, 2),
    }
    assert files[NULL, NULL][0].column("n") == ColumnStatistics(1)


def test_the_history_of_an_iceberg_table_counts_rows_by_partition(catalog):
    table = iceberg_table(catalog)
    table.append(ROWS.slice(1))
    table.delete("n = 1")
    first, second, third = read_iceberg_history(table.metadata_location)
    old, new, none = (
        Partition(("ds", "at_day"), v)
        for v in [("a", "1970-01-01"), ("a", "2005-09-05"), (NULL,) * 2]
    )
    added = PartitionChange(1, 0, 1, 0)
    assert first.changes == {old: added, new: added, none: added}
    assert second.changes == {new: added, none: added}
    assert third.changes == {old: PartitionChange(0, 1, 0, 1)}
    assert [v.total_rows for v in (first, second)] == [3, 5]
    assert [v.operation for v in (first, second, third)] == ["append", "append", "delete"]
    assert read_iceberg_history(table.metadata_location, {first.id}) == [second, third]


def test_columns_of_iceberg_are_found_by_their_ids(catalog):
    table = iceberg_table(catalog)
    with table.update_schema() as update:
        update.rename_column("i", "j")
        update.delete_column("n")
        update.add_column("n", LongType())
    with table.update_schema() as update:
        update.update_column("j", LongType())
    before = read_iceberg(table.metadata_location)
    assert before.schema.field_type("j") == "long"
    assert {f.column("j") for f in before.files} == {ColumnStatistics(0, k, k) for k in (1, 2, 3)}
    assert {f.column("n") for f in before.files} == {UNKNOWN}


def test_an_older_snapshot_has_the_schema_of_its_time(catalog):
    table = iceberg_table(catalog)
    old = table.current_snapshot().snapshot_id
    with table.update_schema() as update:
        update.add_column("more", LongType())
    table.append(ROWS.append_column("more", pa.array([1, 2, 3])))
    assert "more" in read_iceberg(table.metadata_location).schema.names
    snapshot = read_iceberg(table.metadata_location, old)
    assert "more" not in snapshot.schema.names
    assert sum(f.rows for f in snapshot.files) == 3
    with pytest.raises(SourceError, match="no snapshot 5"):
        read_iceberg(table.metadata_location, 5)


def test_files_of_an_older_partition_spec_have_no_partition(catalog):
    table = catalog.create_table("db.t", schema=ROWS.schema)
    table.append(ROWS)
    with table.update_spec() as spec:
        spec.add_identity("ds")
    table.append(ROWS.slice(2))
    files = by_partition(read_iceberg(table.metadata_location))
    assert {values: [f.rows for f in fs] for values, fs in files.items()} == {
        None: [3],
        (NULL,): [1],
    }


def test_partitions_are_named_as_spark_names_them(catalog):
    from pyiceberg.transforms import BucketTransform, MonthTransform, TruncateTransform

    rows = pa.table(
        {
            "day": pa.array([20454], pa.int32()).cast(pa.date32()),
            "at": pa.array([1_767_229_200_000_000], pa.timestamp("us", "UTC")),
            "flag": [True],
            "id": [34],
            "number": [34],
            "month": pa.array([20454], pa.int32()).cast(pa.date32()),
            "s": ["abcdef"],
            "raw": [b"\xff"],
        }
    )
    table = catalog.create_table("db.t", schema=rows.schema)
    with table.update_spec() as spec:
        for name in ("day", "flag", "id"):
            spec.add_identity(name)
        spec.add_field("at", "hour", "at_hour")
        spec.add_field("month", MonthTransform(), "in_month")
        spec.add_field("number", BucketTransform(16), "bucket")
        spec.add_field("s", TruncateTransform(2), "s_trunc")
    table.append(rows)
    (file,) = read_iceberg(table.metadata_location).files
    # The bucket is that of the specification's example: bucket[N](34) = (2017239379 & max) % N.
    values = ("2026-01-01", "true", "34", "2026-01-01-01", "2026-01", str(2017239379 % 16), "ab")
    assert file.partition.values == values
    assert file.column("day") == ColumnStatistics(0, 20454 * DAY, 20454 * DAY)
    with table.update_spec() as spec:
        spec.add_identity("raw")
    table.append(rows)
    assert None in read_iceberg(table.metadata_location).by_partition()


def add_file(table, partition, content=0, **fields):
    """Add a file to the metadata of an Iceberg table."""
    spec_id = table.metadata.default_spec_id
    file = IcebergFile.from_args(
        content=content,
        file_path=f"file:///{uuid4()}.parquet",
        file_format="PARQUET",
        partition=Record(*partition),
        record_count=1,
        file_size_in_bytes=1,
        **fields,
    )
    file.spec_id = spec_id
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
        append.append_data_file(file)


FAR = 4_000_000
"""Days from 1970 to the year 12921."""


@pytest.mark.parametrize(
    ("column", "transform", "value", "known"),
    [
        ("day", "identity", FAR, False),
        ("day", "day", FAR, False),
        ("day", "month", 12 * 9000, False),
        ("day", "month", 12 * 8030 - 1, True),
        ("day", "year", 9000, True),
        ("at", "identity", FAR * DAY, False),
        ("at", "hour", 24 * FAR, False),
    ],
)
def test_partitions_of_iceberg_that_python_lacks_are_unknown(
    catalog, monkeypatch, column, transform, value, known
):
    # The writer, unlike Java's, cannot print such dates.
    monkeypatch.setattr(PartitionSpec, "partition_to_path", lambda *_: "")
    table = catalog.create_table("db.t", schema=ROWS.schema)
    with table.update_spec() as spec:
        spec.add_field(column, transform, "key")
    add_file(table, [value])
    (file,) = read_iceberg(table.metadata_location).files
    assert (file.partition is not None) == known
    assert file.column(column) == UNKNOWN  # the bounds are not in the metadata


@pytest.mark.parametrize(
    ("low", "high", "nans", "statistics"),
    [
        (-1.5, 2.5, 0, ColumnStatistics(0, -1.5, 2.5)),
        (-1.5, 2.5, None, ColumnStatistics(0, -1.5)),
        (float("nan"), float("nan"), None, ColumnStatistics(0)),
        # The starting values of a writer, in a file of nothing but NaN.
        (sys.float_info.max, -sys.float_info.max, None, ColumnStatistics(0)),
    ],
)
def test_bounds_of_floats_leave_out_nan(catalog, low, high, nans, statistics):
    table = catalog.create_table("db.t", schema=ROWS.schema)
    x = table.schema().find_field("x").field_id
    bounds = {name: {x: struct.pack("<d", v)} for name, v in [("lower", low), ("upper", high)]}
    add_file(
        table,
        [],
        null_value_counts={x: 0},
        nan_value_counts=None if nans is None else {x: nans},
        lower_bounds=bounds["lower"],
        upper_bounds=bounds["upper"],
    )
    (file,) = read_iceberg(table.metadata_location).files
    assert file.column("x") == statistics


EQUALITY_DELETES = 2
"""The content of a file that deletes the rows with equal values."""


@pytest.mark.parametrize("value", [1.5, float("nan"), None])
def test_equality_deletes_apply_to_older_files_of_their_partition(catalog, value):
    table = catalog.create_table("db.t", schema=ROWS.schema)
    with table.update_spec() as spec:
        spec.add_identity("x")
    for key in (value, 2.5):
        add_file(table, [key])
    add_file(table, [value], EQUALITY_DELETES, equality_ids=[2])
    add_file(table, [value])
    files = read_iceberg(table.metadata_location).files
    assert sorted((str(f.values["x"]), f.has_deletes) for f in files) == sorted(
        [(str(value), False), (str(value), True), ("2.5", False)]
    )


def test_equality_deletes_of_a_spec_without_keys_apply_to_all_older_files(catalog):
    table = catalog.create_table("db.t", schema=ROWS.schema)
    with table.update_spec() as spec:
        spec.add_identity("ds")
    add_file(table, ["a"])
    with table.update_spec() as spec:
        spec.remove_field("ds")
        spec.add_field("ds", "void", "dropped")  # so tables of version 1 drop a key
    add_file(table, [None], EQUALITY_DELETES, equality_ids=[2])
    (file,) = read_iceberg(table.metadata_location).files
    assert file.has_deletes


@pytest.mark.parametrize("name", ["snap-*.avro", "*-m0.avro"])
@pytest.mark.parametrize("content", [None, b"Obj", b"no Avro"])
def test_an_iceberg_table_without_its_manifests_is_left_to_spark(catalog, tmp_path, name, content):
    table = iceberg_table(catalog)
    (path,) = tmp_path.glob(f"**/metadata/{name}")
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    for read in (read_iceberg, read_iceberg_history):
        with pytest.raises(SourceError, match="cannot read the manifests of the Iceberg snapshot"):
            read(table.metadata_location)


def test_an_iceberg_table_without_snapshots_has_no_files(catalog):
    table = catalog.create_table("db.t", schema=ROWS.schema)
    snapshot = read_iceberg(table.metadata_location)
    assert (snapshot.id, snapshot.files) == (None, ())
    assert read_iceberg_history(table.metadata_location) == []


def test_a_missing_package_names_the_extra(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for read in (read_delta, read_iceberg):
        with pytest.raises(SetupError, match=r"pip install 'tidegauge\[lakehouse\]'"):
            read("/lake/t")
