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
