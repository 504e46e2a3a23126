"""Flattening logged queries by day: several schemas, late and bad queries, and retention."""

import base64
import hashlib
import io
import uuid
from datetime import UTC, datetime
from pathlib import Path

import fastavro
import pytest

from tests.tidegauge.consistency.logged_queries import D5, DAY, is_sampled, record
from tidegauge.analyzers.core.errors import NoSuchTableError, SourceError, SuiteError
from tidegauge.analyzers.core.filesystems import plain_path
from tidegauge.consistency.log import flattening as flattening
from tidegauge.consistency.log.client import QueryLog
from tidegauge.consistency.log.decoding import decode
from tidegauge.consistency.log.flattening import flatten
from tidegauge.consistency.log.schemas import LogSchema
from tidegauge.consistency.log.table import (
    append_queries,
    clean,
    create_log_table,
    log_folder,
    read_schemas,
    sync_log_table,
)

pytestmark = pytest.mark.spark

JOIN = "team/search"


KEY = record("Key", user="long", session=["null", "string"])
V1 = LogSchema.from_schemas(
    JOIN, KEY, record("Value", clicks=["null", "int"], old=["null", "string"])
)
V2 = LogSchema.from_schemas(
    JOIN, KEY, record("Value", clicks=["null", "int"], spend=["null", "double"])
)


@pytest.fixture
def service(spark, namespace):
    with QueryLog(log_folder(spark, namespace), query_source="prod") as log:
        yield log


def table(spark, flattened, *columns):
    rows = spark.table(flattened.table).selectExpr(*columns).collect()
    return sorted((tuple(row) for row in rows), key=repr)


def test_the_log_table_has_the_documented_columns(spark, namespace):
    columns = spark.catalog.listColumns(f"{namespace}.query_logs")
    assert [(c.name, c.dataType, c.isPartition) for c in columns] == [
        ("key_bytes", "string", False),
        ("value_bytes", "string", False),
        ("ts_millis", "bigint", False),
        ("query_source", "string", False),
        ("schema_hash", "string", False),
        ("type", "string", False),
        ("ds", "string", True),
        ("join_name", "string", True),
    ]
    properties = dict(spark.sql(f"SHOW TBLPROPERTIES {namespace}.query_logs").collect())
    assert properties["retention"] == "90"
    create_log_table(spark, namespace)  # creating it twice is allowed
    assert len(read_schemas(spark, namespace)) == 0


@pytest.mark.soak
def test_two_schema_versions_of_one_day_share_a_table(spark, namespace, service):
    service.register(V1)
    service.log(JOIN, {"user": 1, "session": "s1"}, {"clicks": 3, "old": "x"}, ts_millis=D5 + 1)
    service.register(V2)
    service.log(
        JOIN, {"user": 2}, {"clicks": 4, "spend": 0.5}, ts_millis=D5 + 2, query_source="dev"
    )
    service.flush()
    done = flatten(spark, namespace, JOIN, "2023-01-05", keys=["user"])
    assert done.table == f"`{namespace}`.`team_search_logged`"
    assert spark.table(done.table).columns == [
        "schema_hash", "ts", "user", "session", "clicks", "old", "spend", "query_source", "ds",
    ]  # fmt: skip
    columns = done.columns
    assert (list(columns.keys), list(columns.payload)) == (["user"], ["session"])
    assert list(columns.values) == ["clicks", "old", "spend"]
    assert table(spark, done, "* EXCEPT (ts)", "unix_millis(ts)") == sorted(
        [
            (V1.hash, 1, "s1", 3, "x", None, "prod", "2023-01-05", D5 + 1),
            (V2.hash, 2, None, 4, None, 0.5, "dev", "2023-01-05", D5 + 2),
        ],
        key=repr,
    )
    (day,) = done.days
    assert (day.ds, day.rows, day.read, day.empty, day.bad) == ("2023-01-05", 2, 2, 0, {})


@pytest.mark.soak
def test_queries_before_the_first_schema_are_logged_empty(spark, namespace, service):
    service.log(JOIN, None, None, ts_millis=D5 + 1)
    service.flush()
    first = flatten(spark, namespace, JOIN, "2023-01-05")
    assert [(d.rows, d.empty, d.bad) for d in first.days] == [(1, 1, {})]
    service.register(V1)
    service.log(JOIN, {"user": 1}, {"clicks": 3}, ts_millis=D5 + 2)
    service.flush()
    second = flatten(spark, namespace, JOIN, "2023-01-05")
    assert [(d.rows, d.empty, d.bad) for d in second.days] == [(2, 1, {})]
    assert table(spark, second, "user", "clicks") == [(1, 3), (None, None)]


def test_days_are_flattened_once_and_again_if_late_queries_arrive(spark, namespace, service):
    service.register(V1)
    for day in range(3):
        service.log(JOIN, {"user": day}, {"clicks": day}, ts_millis=D5 + day * DAY)
    service.flush()
    first = flatten(spark, namespace, JOIN, "2023-01-06")
    assert [d.ds for d in first.days] == ["2023-01-05", "2023-01-06"]
    again = flatten(spark, namespace, JOIN, "2023-01-06")
    assert (again.days, again.unchanged) == ((), ("2023-01-05", "2023-01-06"))
    service.log(JOIN, {"user": 7}, {"clicks": 7}, ts_millis=D5 + 5)
    service.flush()
    late = flatten(spark, namespace, JOIN, "2023-01-07")
    assert [(d.ds, d.rows) for d in late.days] == [("2023-01-05", 2), ("2023-01-07", 1)]
    assert late.unchanged == ("2023-01-06",)
    assert table(spark, late, "ds", "user") == [
        ("2023-01-05", 0), ("2023-01-05", 7), ("2023-01-06", 1), ("2023-01-07", 2),
    ]  # fmt: skip


@pytest.mark.soak
def test_a_killed_write_is_not_mistaken_for_a_complete_day(spark, namespace, service, monkeypatch):
    """The rows of a sample were written, but not yet the marker of the sample."""
    service.register(V1)
    for user in range(20):
        service.log(JOIN, {"user": user}, {"clicks": 3}, ts_millis=D5)
    service.flush()
    flatten(spark, namespace, JOIN, "2023-01-05")
    with monkeypatch.context() as broken:
        broken.setattr(flattening, "_set_properties", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            flatten(spark, namespace, JOIN, "2023-01-05", sample_percent=0)
    actual = flatten(spark, namespace, JOIN, "2023-01-05")
    assert spark.table(actual.table).count() == 20


def b64(raw):
    return base64.b64encode(raw).decode()


def encoded(schema, **values):
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), values)
    return stream.getvalue()


@pytest.mark.soak
def test_bad_records_are_counted_sampled_and_read_later(spark, namespace):
    """With frames of strings and of bytes, and a version that is unknown until the second run."""
    value = record("Value", clicks=["null", "int"], spend=["null", "double"])
    key, good = encoded(KEY, user=1, session=None), encoded(value, clicks=3, spend=None)
    logged = {
        "good": (b64(key), b64(good), V2.hash),
        "cut": (b64(key), b64(good[:-1]), V2.hash),
        "more": (b64(key + b"\x00"), b64(good), V2.hash),
        "no base64": ("***", b64(good), V2.hash),
        "unknown": (b64(key), b64(encoded(value, clicks=4, spend=0.5)), "later"),
        "no hash": (b64(key), b64(good), None),
    }
    rows = [(k, v, D5 + i, h) for i, (k, v, h) in enumerate(logged.values())]
    names = "key_bytes string, value_bytes string, ts_millis bigint, schema_hash string"
    append_queries(spark.createDataFrame(rows, names), namespace, JOIN)
    raw = [(bytearray(key), bytearray(good), D5 + DAY, V1.hash)]
    append_queries(
        spark.createDataFrame(raw, names.replace("bytes string", "bytes binary")), namespace, JOIN
    )
    another = LogSchema.from_schemas(JOIN, KEY, record("Value", clicks=["null", "int"]))
    first = flatten(spark, namespace, JOIN, "2023-01-06", schemas=[another, V2])
    day, next_day = first.days
    assert (day.rows, day.read) == (6, 1)
    assert day.bad == {
        "truncated": 1, "trailing bytes": 1, "not base64": 1, "unknown schema": 1, "no schema": 1,
    }  # fmt: skip
    assert next_day.bad == {"unknown schema": 1}  # V1 was not passed
    samples = {(b.ds, b.reason): b for b in first.samples}
    assert len(samples) == len(first.samples) == 6
    cut = samples["2023-01-05", "truncated"]
    assert (cut.part, cut.start, cut.schema_hash) == ("value", good[:-1].hex(), V2.hash)
    assert cut.key_hash == hashlib.md5(b64(key).encode()).hexdigest()
    assert samples["2023-01-05", "not base64"].start == b"***".hex()
    assert table(spark, first, "user", "clicks", "ds") == [(1, 3, "2023-01-05")]
    later = LogSchema.from_schemas(JOIN, KEY, value, "later")
    second = flatten(spark, namespace, JOIN, "2023-01-05", schemas=[another, V2, later])
    (day,) = second.days
    assert day.bad == {"truncated": 1, "trailing bytes": 1, "not base64": 1, "no schema": 1}
    assert table(spark, second, "clicks", "spend", "schema_hash", "unix_millis(ts)") == [
        (3, None, V2.hash, D5), (4, 0.5, "later", D5 + 4),
    ]  # fmt: skip


def test_queries_without_a_hash_have_the_only_known_schema(spark):
    """Raw bytes in a table with the original columns only."""
    key = encoded(KEY, user=1, session=None)
    good = encoded(
        record("Value", clicks=["null", "int"], old=["null", "string"]), clicks=3, old="é"
    )
    frame = spark.createDataFrame(
        [(bytearray(key), bytearray(good), D5), (bytearray(key), bytearray(good), None)],
        "key_bytes binary, value_bytes binary, ts_millis bigint",
    )
    read = decode(frame, [V1])
    assert read.data.drop("ts").collect() == [(V1.hash, 1, None, 3, "é", None, None)]
    assert read.bad.collect() == [
        (None, "no time", None, V1.hash, hashlib.md5(key).hexdigest(), None)
    ]
    assert [(d.ds, d.rows, d.bad) for d in read.days()] == [(None, 2, {"no time": 1})]
    with pytest.raises(SourceError, match="needs a column 'ts_millis'; this table has key_bytes"):
        decode(frame.drop("ts_millis"), [V1])
    with pytest.raises(SourceError, match="'value_bytes' of a query log is INT"):
        decode(frame.selectExpr("key_bytes", "1 AS value_bytes", "ts_millis"), [V1])
    with pytest.raises(SuiteError, match="encoding must be one of 'base64', 'raw', not 'hex'"):
        decode(frame, [V1], encoding="hex")


@pytest.mark.soak
def test_samples_types_and_table_names_are_kept_apart(spark, namespace, service):
    """A group-by with the name of a join, a share of its keys, and another join with the same table name."""
    service.register(V1)
    service.log(JOIN, {"user": 1}, {"clicks": 1}, ts_millis=D5)
    service.register(V1, type="groupBy")
    for i in range(40):
        service.log(JOIN, {"user": i % 20, "session": str(i)}, {"clicks": i}, ts_millis=D5 + i)
    service.flush()
    done = flatten(
        spark, namespace, JOIN, "2023-01-05", type="groupBy", keys=["user"], sample_percent=30
    )
    assert [(d.rows, d.bad) for d in done.days] == [(40, {})]
    expected = [i for i in range(20) if is_sampled({"user": i}, 30)]
    assert table(spark, done, "user") == sorted([(i,) for i in expected * 2], key=repr)
    assert 0 < len(expected) < 20
    none = flatten(
        spark, namespace, JOIN, "2023-01-05", type="groupBy", keys=["user"], sample_percent=0
    )
    assert [d.read for d in none.days] == [40]
    assert table(spark, none, "user") == []
    for join in ("team.search", JOIN):
        with pytest.raises(SourceError, match=f"'join {join}' cannot be flattened into it"):
            flatten(spark, namespace, join, "2023-01-05")
    clash = LogSchema.from_schemas(JOIN, KEY, record("Value", clicks=["null", "string"]))
    wrong = "'clicks' is INT in the flattened table, and 'clicks' is STRING.*; or drop the table"
    with pytest.raises(SuiteError, match=wrong):
        flatten(spark, namespace, JOIN, "2023-01-05", type="groupBy", schemas=[clash])
    spark.sql(f"DROP TABLE {done.table}")  # back again: the table is derived from the log
    again = flatten(spark, namespace, JOIN, "2023-01-05", type="groupBy", schemas=[clash])
    assert dict(spark.table(again.table).dtypes)["clicks"] == "string"


@pytest.mark.soak
def test_cleaning_removes_only_old_partitions(spark, namespace, service, tmp_path):
    service.register(V1)
    days = ["2023-01-05", "2023-01-06", "2023-01-07"]
    for i in range(3):
        service.log(JOIN, {"user": i}, {"clicks": i}, ts_millis=D5 + i * DAY)
    service.flush()
    sync_log_table(spark, namespace)
    logs = f"{namespace}.query_logs"
    spark.sql(f"ALTER TABLE {logs} ADD PARTITION (ds = 'someday', join_name = 'x')").collect()
    spark.sql(
        f"CREATE TABLE {namespace}.other (a INT, ds STRING) USING parquet PARTITIONED BY (ds)"
    )
    spark.sql(f"INSERT INTO {namespace}.other VALUES (1, '1999-01-01')").collect()
    now = datetime(2023, 4, 6, 23, 59, tzinfo=UTC)  # 91, 90 and 89 days later
    old = f"ds=2023-01-05/join_name={JOIN}"
    dry = clean(spark, namespace, now, dry_run=True)
    assert (dry.retention, dry.dropped, dry.kept) == (90, (old,), 2)
    assert dry.unknown == ("ds=someday/join_name=x",)
    assert (
        str(dry) == f"`{namespace}`.`query_logs`: would drop 1 partition older than 90 days, kept 2"
    )

    def stored_days():
        return sorted(row[0] for row in spark.sql(f"SELECT DISTINCT ds FROM {logs}").collect())

    assert stored_days() == days
    done = clean(spark, namespace, now)
    assert (done.dropped, done.kept, done.dry_run) == ((old,), 2, False)
    assert stored_days() == days[1:]
    assert spark.table(f"{namespace}.other").count() == 1
    folder = Path(plain_path(log_folder(spark, namespace)))
    assert not (folder / "ds=2023-01-05" / "join_name=team%2Fsearch").exists()
    # Tables derived from the log can have their own retention.
    made = f"{namespace}.search_logged"
    spark.sql(f"CREATE TABLE {made} (a INT, ds STRING) USING parquet PARTITIONED BY (ds)")
    spark.sql(f"INSERT INTO {made} VALUES (1, '1999-01-01'), (2, '2023-04-06')").collect()
    assert clean(spark, namespace, now).derived == ()
    spark.sql(f"ALTER TABLE {made} SET TBLPROPERTIES ('tidegauge.retention' = '365')").collect()
    (derived,) = clean(spark, namespace, now).derived
    assert (derived.dropped, derived.kept) == (("ds=1999-01-01",), 1)
    assert [row.a for row in spark.table(made).collect()] == [2]
    assert len(read_schemas(spark, namespace)) == 1
    sync_log_table(spark, namespace)
    assert clean(spark, namespace, now).dropped == ()
    spark.sql(f"ALTER TABLE {logs} SET TBLPROPERTIES ('retention' = '1')").collect()
    assert len(clean(spark, namespace, now).dropped) == 2
    for wrong in ("90 days", "-1", "", "1.5"):
        spark.sql(f"ALTER TABLE {logs} SET TBLPROPERTIES ('retention' = '{wrong}')").collect()
        with pytest.raises(SourceError, match="must be a number of days, not"):
            clean(spark, namespace, now)


@pytest.mark.soak
def test_cleaning_removes_files_of_external_tables(spark, tmp_path):
    name = f"consistency_{uuid.uuid4().hex[:10]}"
    spark.sql(f"CREATE DATABASE {name}").collect()
    try:
        with pytest.raises(NoSuchTableError, match="create_log_table"):
            clean(spark, name)
        create_log_table(spark, name, str(tmp_path / "it's"))
        with QueryLog(log_folder(spark, name)) as log:
            log.register(V1)
            log.log(JOIN, {"user": 1}, {}, ts_millis=D5)
        assert len(list(tmp_path.rglob("ds=*/*/*.parquet"))) == 1
        assert len(clean(spark, name).dropped) == 1
        assert not list(tmp_path.rglob("ds=*/*/*.parquet"))
        assert clean(spark, name).dropped == ()
    finally:
        spark.sql(f"DROP DATABASE {name} CASCADE").collect()
