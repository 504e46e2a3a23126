"""Tables that keep a log of their files.

No Delta or Iceberg package is released for this Spark. So the tests write Delta's log, which is
open JSON, according to its protocol, and plain Spark reads it. Iceberg's metadata tables only
exist with its package; frames with their columns replace them.
"""

import json

import pytest

from tidegauge.analyzers.core.errors import SourceError
from tidegauge.analyzers.sources.table_formats import DELTA, LoggedTable

pytestmark = [pytest.mark.spark, pytest.mark.classic]

SCHEMA = {
    "type": "struct",
    "fields": [
        {"name": "id", "type": "long", "nullable": True, "metadata": {}},
        {
            "name": "ds",
            "type": "string",
            "nullable": True,
            "metadata": {"delta.columnMapping.physicalName": "col-1"},
        },
    ],
}


def add(path, ds, vector=None, size=10, time=1_000):
    action = {
        "path": path,
        "partitionValues": {"col-1": ds},
        "size": size,
        "modificationTime": time,
        "dataChange": True,
    }
    return {"add": action | ({"deletionVector": vector} if vector else {})}


def remove(path, vector=None):
    return {"remove": {"path": path, **({"deletionVector": vector} if vector else {})}}


VECTOR = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 4}


class Log:
    """The log of a table, commit by commit."""

    def __init__(self, folder):
        self.folder = folder / "t" / "_delta_log"
        self.folder.mkdir(parents=True)
        self.version = -1

    def commit(self, *actions):
        self.version += 1
        lines = "\n".join(json.dumps(action) for action in actions)
        (self.folder / f"{self.version:020}.json").write_text(lines)


@pytest.fixture
def log(tmp_path):
    log = Log(tmp_path)
    log.commit(
        {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7}},
        {"metaData": {"id": "x", "schemaString": json.dumps(SCHEMA), "partitionColumns": ["ds"]}},
        add("a", "2013-01-01"),
        add("b", "2013-01-02", size=20, time=5_000),
        add("c", "2013-01-02", size=30, time=2_000),
    )
    return log


@pytest.fixture
def table(spark, log, monkeypatch):
    monkeypatch.setattr(type(spark.catalog), "refreshTable", lambda *_: None)
    return LoggedTable(spark, "t", ("ds",), DELTA, str(log.folder.parent))


def listed(table):
    return {entry.partition.name: entry for entry in table.list_partitions()}


def changed(table, before):
    after = listed(table)
    prints = {name: entry.fingerprint for name, entry in after.items()}
    old = {name: entry.fingerprint for name, entry in before.items()}
    return {name for name in prints.keys() | old.keys() if prints.get(name) != old.get(name)}


def test_partitions_come_from_the_log_with_size_and_time(table):
    actual = listed(table)
    assert set(actual) == {"ds=2013-01-01", "ds=2013-01-02"}
    second = actual["ds=2013-01-02"]
    assert (second.size, second.arrived_at.timestamp()) == (50, 5.0)
    assert second.fingerprint.startswith("delta/1:")
    assert not changed(table, actual)


@pytest.mark.parametrize(
    ("actions", "touched"),
    [
        ([add("d", "2013-01-01")], {"ds=2013-01-01"}),
        ([remove("b")], {"ds=2013-01-02"}),
        ([remove("a")], {"ds=2013-01-01"}),
        ([remove("a"), add("a", "2013-01-01", VECTOR)], {"ds=2013-01-01"}),
        ([add("e", None), add("f", "")], {"ds=__HIVE_DEFAULT_PARTITION__"}),
        ([add("g", "a b/c=d%")], {"ds=a b/c=d%"}),
        ([{"commitInfo": {"operation": "OPTIMIZE"}}], set()),
    ],
)
def test_only_touched_partitions_change(table, log, actions, touched):
    before = listed(table)
    log.commit(*actions)
    assert changed(table, before) == touched


def rewritten(path, ds):
    """Return an `add` of compaction."""
    action = add(path, ds)
    action["add"]["dataChange"] = False
    return action


def removed(path, ds=None, *, data):
    values = {} if ds is None else {"partitionValues": {"col-1": ds}}
    return {"remove": {"path": path, "dataChange": data, **values}}


@pytest.mark.parametrize(
    ("actions", "same"),
    [
        ([], {"ds=2013-01-01", "ds=2013-01-02"}),
        (
            [rewritten("a2", "2013-01-01"), removed("a", data=False)],
            {"ds=2013-01-01", "ds=2013-01-02"},
        ),
        ([rewritten("a2", "2013-01-01"), add("d", "2013-01-02")], {"ds=2013-01-01"}),
        ([rewritten("a2", "2013-01-01"), removed("b", "2013-01-02", data=True)], {"ds=2013-01-01"}),
        ([removed("b", data=True)], set()),  # an unknown partition
        ([remove("b")], set()),  # it is unknown whether it is data
    ],
)
def test_compaction_is_distinguished_from_changes_of_rows(table, log, actions, same):
    listed(table)
    version = table.version
    assert version == "delta 0 of x"
    log.commit({"commitInfo": {"operation": "WRITE"}}, *actions)
    listed(table)
    names = ("ds=2013-01-01", "ds=2013-01-02")
    assert table.only_rewritten(dict.fromkeys(names, version)) == same


@pytest.mark.parametrize(
    "version", ["delta 0 of y", "delta 0", "iceberg 0 of x", "", "delta 9 of x"]
)
def test_versions_of_other_tables_are_not_compared(table, log, version):
    log.commit(rewritten("a2", "2013-01-01"), removed("a", data=False))
    listed(table)
    assert table.only_rewritten({"ds=2013-01-01": version}) == set()


def test_a_cleaned_log_is_not_used(table, log):
    log.commit(rewritten("a2", "2013-01-01"), removed("a", data=False))
    listed(table)
    (log.folder / f"{1:020}.json").unlink()
    assert table.only_rewritten({"ds=2013-01-01": "delta 0 of x"}) == set()


def test_restoring_a_version_restores_its_fingerprint(table, log):
    before = listed(table)
    log.commit(remove("b"))
    log.commit(add("b", "2013-01-02", size=20, time=9_000))
    assert not changed(table, before)


def test_a_checkpoint_replaces_older_commits(table, log, spark):
    log.commit(remove("a"), add("d", "2013-01-01", VECTOR))
    before = listed(table)
    vector = "STRUCT<storageType: STRING, pathOrInlineDv: STRING, `offset`: INT>"
    whole = f"""add STRUCT<path: STRING, partitionValues: MAP<STRING, STRING>, size: BIGINT,
        modificationTime: BIGINT, deletionVector: {vector}>, metaData STRUCT<schemaString: STRING>"""
    actions = [
        {"metaData": {"schemaString": json.dumps(SCHEMA)}},
        add("b", "2013-01-02", size=20, time=5_000),
        add("c", "2013-01-02", size=30, time=2_000),
        add("d", "2013-01-01", VECTOR),
    ]
    source = log.folder.parent / "actions.json"
    source.write_text("\n".join(map(json.dumps, actions)))
    target = log.folder.parent / "checkpoint"
    spark.read.schema(whole).json(str(source)).coalesce(1).write.parquet(str(target))
    (part,) = target.glob("*.parquet")
    part.rename(log.folder / f"{log.version:020}.checkpoint.parquet")
    for commit in log.folder.glob("*.json"):
        commit.unlink()
    log.commit(add("e", "2013-01-03"))
    assert changed(table, before) == {"ds=2013-01-03"}


def test_a_log_with_a_gap_is_refused(table, log):
    log.commit(add("d", "2013-01-03"))
    log.commit(add("e", "2013-01-03"))
    (log.folder / f"{1:020}.json").unlink()
    with pytest.raises(SourceError, match="is incomplete: commits are missing"):
        table.list_partitions()
