"""Hive tables from a mocked catalog and file system: the locations of partitions. No Spark."""

from types import SimpleNamespace

from tidegauge.analyzers.sources import hive_table
from tidegauge.analyzers.sources.hive_table import HiveTable, TableDescription
from tidegauge.analyzers.sources.sources import FileInfo

OLD, NEW = "s3a://old/lake/t", "s3a://new/lake/t"


class Session(SimpleNamespace):
    """A hashable session, which settings are stored for."""

    __hash__ = object.__hash__


class Lake:
    """A table in one bucket, with a partition that the catalog locates in another."""

    def __init__(self, monkeypatch, read):
        self.sizes = {f"{OLD}/ds=1": 10, f"{NEW}/ds=1": 99, f"{OLD}/ds=2": 20}
        self.described = []
        monkeypatch.setattr(hive_table, "list_files", lambda _, root: list(self._files(root)))
        monkeypatch.setattr(hive_table, "describe_table", self._describe)
        session = Session(
            catalog=SimpleNamespace(refreshTable=lambda _: None),
            conf=SimpleNamespace(isModifiable=lambda _: False),
            table=lambda _: SimpleNamespace(inputFiles=lambda: read),
            sql=lambda _: SimpleNamespace(collect=lambda: [("ds=1",), ("ds=2",)]),
        )
        description = TableDescription({"location": OLD}, {"ds": "string"})
        self.table = HiveTable(session, "db.t", ("ds",), description)

    def _files(self, root):
        for folder, size in self.sizes.items():
            if f"{folder}/".startswith(f"{root}/"):
                path = f"{folder}/a.parquet".removeprefix(f"{root}/")
                yield FileInfo(path, size, 1_700_000_000_000)

    def _describe(self, _, what):
        self.described.append(what)
        return TableDescription({"location": f"{NEW}/ds=1"}, {})

    def sizes_listed(self):
        return {one.partition.name: one.size for one in self.table.list_partitions()}


def test_a_partition_moved_to_the_same_path_of_another_bucket_is_listed_there(monkeypatch):
    lake = Lake(monkeypatch, [f"{NEW}/ds=1/a.parquet", f"{OLD}/ds=2/a.parquet"])
    assert lake.sizes_listed() == {"ds=1": 99, "ds=2": 20}
    before = {one.partition.name: one.fingerprint for one in lake.table.list_partitions()}
    lake.sizes[f"{NEW}/ds=1"] = 12_345
    after = {one.partition.name: one.fingerprint for one in lake.table.list_partitions()}
    assert before["ds=1"] != after["ds=1"]
    assert before["ds=2"] == after["ds=2"]


def test_another_name_of_the_same_scheme_is_the_same_location(monkeypatch):
    lake = Lake(monkeypatch, ["s3://old/lake/t/ds=1/a.parquet", "s3://OLD/lake/t/ds=2/a.parquet"])
    assert lake.sizes_listed() == {"ds=1": 10, "ds=2": 20}
    assert lake.described == []


def parquet_lake(
    monkeypatch, columns, read=(f"{NEW}/ds=1/a.parquet", f"{OLD}/ds=2/a.parquet"), **details
):
    """Return a table of the lake and the files of its partitions."""
    table = Lake(monkeypatch, list(read)).table
    names = [*columns, "ds"]
    fields = [
        {"name": n, "type": columns.get(n, ("string",))[0], "nullable": True, "metadata": m}
        for n, m in [(n, columns[n][1] if n in columns else {}) for n in names]
    ]
    frame = SimpleNamespace(
        schema=SimpleNamespace(jsonValue=lambda: {"type": "struct", "fields": fields}),
        inputFiles=lambda: list(read),
    )
    table.spark.conf = SimpleNamespace(
        isModifiable=lambda _: False, get=lambda name, default=None: default or "false"
    )
    frame.sparkSession = table.spark
    table.spark.table = lambda _: frame
    table.description = TableDescription({"location": OLD, **details}, {"ds": "string"})
    return table, table.parquet_files([p.partition for p in table.list_partitions()])


def test_the_files_of_parquet_tables_are_known(monkeypatch):
    table, files = parquet_lake(monkeypatch, {"n": ("long", {})}, provider="parquet")
    assert {p.name: [f.location for f in part.files] for p, part in files.items()} == {
        "ds=1": [f"{NEW}/ds=1/a.parquet"],
        "ds=2": [f"{OLD}/ds=2/a.parquet"],
    }
    (first, _) = files.values()
    assert (first.column_keys, first.can_widen, first.rows_in_log) == ({"n": "n"}, False, None)
    assert first.schema.names == ("n", "ds")


def test_files_without_a_column_have_its_default(monkeypatch):
    columns = {"n": ("long", {"CURRENT_DEFAULT": "6", "EXISTS_DEFAULT": "5"}), "m": ("long", {})}
    _, files = parquet_lake(monkeypatch, columns, provider="parquet")
    assert {partition.filled for partition in files.values()} == {frozenset({"n"})}


def test_the_files_of_other_tables_are_left_to_spark(monkeypatch):
    columns = {"n": ("long", {})}
    parquet = "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat"
    assert parquet_lake(monkeypatch, columns, provider="hive", inputformat=parquet)[1]
    text = "org.apache.hadoop.mapred.TextInputFormat"
    assert not parquet_lake(monkeypatch, columns, provider="hive", inputformat=text)[1]
    assert not parquet_lake(monkeypatch, columns, provider="orc")[1]
    padded = {"s": ("string", {"__CHAR_VARCHAR_TYPE_STRING": "char(3)"})}
    assert not parquet_lake(monkeypatch, padded, provider="parquet")[1]
