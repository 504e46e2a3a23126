"""Reading sources from files, tables, databases and services."""

import base64
import datetime as dt
import json
import threading
import uuid
from contextlib import contextmanager
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tidegauge.analyzers.core.errors import GriffinDeprecationWarning, GriffinWarning, SourceError
from tidegauge.griffin.config import ConnectorConfig
from tidegauge.griffin.connectors import Connector, condition_sql, split_outside
from tidegauge.griffin.execution.loader import open_batch, open_partitioned, open_stream

HOSTILE = [
    "it's",
    'a"b',
    "a`b",
    "x; drop table y",
    "${HOME}",
    "a -- b",
    "列",
    "a b.c",
    "x' or '1'='1",
]
PEOPLE = [(1, "ann", "x"), (2, "bob", None), (3, "it's", "y")]


def read(kind, spark, **config):
    config = {key.replace("__", "."): value for key, value in config.items()}
    return open_batch(ConnectorConfig(kind, config), spark, "people").frame


def ids(frame):
    return sorted(row["id"] for row in frame.collect())


@pytest.fixture(scope="module")
def people(spark):
    return spark.createDataFrame(PEOPLE, "id INT, name STRING, `a``b` STRING")


@pytest.mark.spark
@pytest.mark.parametrize("kind", ["parquet", "orc", "json"])
def test_files_with_a_schema_are_read(spark, people, tmp_path, kind):
    people = people.drop("a`b") if kind == "orc" else people  # Spark cannot write it there
    people.write.format(kind).save(str(tmp_path / "f"))
    frame = read("file", spark, format=kind.upper(), paths=[str(tmp_path / "f")])
    assert sorted(frame.columns) == sorted(people.columns)
    assert ids(frame) == [1, 2, 3]


@pytest.mark.spark
def test_the_default_format_of_files_is_parquet(spark, people, tmp_path):
    people.write.parquet(str(tmp_path / "f"))
    assert ids(read("file", spark, paths=str(tmp_path / "f"))) == [1, 2, 3]


@pytest.mark.spark
@pytest.mark.parametrize(("kind", "mark"), [("csv", ","), ("tsv", "\t")])
def test_csv_and_tsv_files_are_read(spark, tmp_path, kind, mark):
    (tmp_path / "f").write_text(f"Id{mark}Name\n1{mark}ann\n")
    paths = [str(tmp_path / "f")]
    frame = read("file", spark, format=kind, paths=paths, options={"header": True})
    assert frame.collect() == [("1", "ann")]
    schema = [
        {"name": "ID", "type": "string"},
        {"name": "The Name", "type": "STRING", "nullable": True},
    ]
    frame = read("file", spark, format=kind, paths=paths, schema=schema)
    assert frame.columns == ["ID", "The Name"]
    assert frame.count() == 2
    with pytest.raises(
        SourceError,
        match="source 'people': connector 'file': the columns of a csv file have no names",
    ):
        read("file", spark, format=kind, paths=paths)


@pytest.mark.spark
def test_text_files_have_one_column(spark, tmp_path):
    (tmp_path / "f").write_text("a,b\nc\n")
    frame = read("file", spark, format="text", paths=[str(tmp_path / "f")])
    assert (frame.columns, frame.count()) == (["value"], 2)


@pytest.mark.spark
def test_missing_paths_are_reported(spark, people, tmp_path):
    people.write.parquet(str(tmp_path / "f"))
    paths = [str(tmp_path / "f"), str(tmp_path / "gone")]
    with pytest.raises(SourceError, match="PATH_NOT_FOUND"):
        read("file", spark, paths=paths)
    for key in ("skipErrorPaths", "skipOnError"):
        with pytest.warns(GriffinWarning, match="skipped .*gone.*PATH_NOT_FOUND"):
            assert ids(read("file", spark, paths=paths, **{key: True})) == [1, 2, 3]
    with pytest.warns(GriffinWarning), pytest.raises(SourceError, match="none of the paths"):
        read("file", spark, paths=paths[1:], skipErrorPaths=True)


@pytest.mark.spark
@pytest.mark.parametrize("name", [*(name for name in HOSTILE if "{" not in name), "a,b"])
def test_paths_with_special_characters_are_read(spark, tmp_path, name):
    (tmp_path / name).mkdir()
    (tmp_path / name / "f.txt").write_text("one\n")
    assert read("file", spark, format="text", paths=[str(tmp_path / name)]).count() == 1


@pytest.mark.spark
@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({}, "the key 'paths' is missing"),
        ({"path_s": "x"}, "the key 'paths' is missing; did you mean 'path_s'?"),
        ({"paths": [1]}, "'paths' must be a list of strings"),
        ({"paths": ["x"], "format": "parket"}, "unknown format 'parket'; did you mean 'parquet'?"),
        ({"paths": ["x"], "options": "header"}, "'options' must be a mapping"),
        ({"paths": ["x"], "schema": [{"name": "a"}]}, "'schema' must be a list of mappings"),
        (
            {"paths": ["x"], "schema": [{"name": "a", "type": "itn"}]},
            "'schema': 'itn' is not a type",
        ),
    ],
)
def test_invalid_options_of_files_are_refused(spark, config, message):
    with pytest.raises(SourceError) as caught:
        open_batch(ConnectorConfig("file", config), spark, "people")
    assert message in str(caught.value)


@pytest.fixture(scope="module")
def table(spark, people):
    people.write.mode("overwrite").saveAsTable("people")
    yield "people"
    spark.sql("DROP TABLE people")


WHERES = [
    ("id = 1 or id = 3", [1, 3]),
    ("name = 'it\\'s'", [3]),
    ("`a``b` is not null", [1, 3]),
    ("name in ('ann', 'bob')", [1, 2]),
]


@pytest.mark.spark
@pytest.mark.parametrize(("where", "expected"), WHERES)
def test_a_table_is_filtered_by_its_condition(spark, table, where, expected):
    assert ids(read("hive", spark, table__name=table, where=where)) == expected
    assert (
        ids(read("hive", spark, database="default", table__name="PEOPLE", where=where)) == expected
    )


@pytest.mark.spark
def test_a_row_that_matches_several_conditions_is_read_once(spark, table):
    with pytest.warns(GriffinDeprecationWarning, match="use 'or'"):
        frame = read("hive", spark, table__name=table, where="id <= 2, name in ('bob', 'a,b')")
        assert ids(frame) == [1, 2]


@pytest.mark.spark
def test_the_deprecated_option_partitions_is_read(spark, table):
    with pytest.warns(GriffinDeprecationWarning, match="'partitions' is deprecated"):
        frame = read(
            "hive", spark, table__name=table, partitions="id=1, name='ann'; id=2, name='x'"
        )
        assert ids(frame) == [1]


@pytest.mark.spark
@pytest.mark.parametrize(
    "where",
    [
        "1 = 1) UNION SELECT * FROM t --",
        "id = 1; drop table people",
        "(select 1) = 1",
        "id = 1, ,x y",
    ],
)
def test_a_condition_must_be_a_single_expression(spark, table, where):
    with pytest.raises(SourceError, match="source 'people': connector 'hive'"):
        open_batch(ConnectorConfig("hive", {"table.name": table, "where": where}), spark, "people")


@pytest.mark.spark
@pytest.mark.parametrize("name", HOSTILE)
def test_table_names_with_special_characters_are_read(spark, name):
    with pytest.raises(
        SourceError, match="source 'people'.*(NOT_FOUND|cannot be found|invalid table name)"
    ):
        read("hive", spark, table__name=name)


def test_commas_in_quotes_and_brackets_do_not_split_a_condition():
    assert split_outside("a = ',', f(b, 'c)'), `d,e` = \",\"", ",") == [
        "a = ','",
        " f(b, 'c)')",
        ' `d,e` = ","',
    ]
    assert split_outside("'open, and", ",") == ["'open", " and"]


@pytest.mark.soak
@pytest.mark.spark
def test_partitions_of_a_table_are_read(spark, people, tmp_path):
    people.write.partitionBy("id").mode("overwrite").saveAsTable("parted")
    try:
        source = open_partitioned(ConnectorConfig("hive", {"table.name": "parted"}), spark, ["id"])
        listed = source.list_partitions()
        assert sorted(p.partition.values for p in listed) == [("1",), ("2",), ("3",)]
        assert all(p.fingerprint for p in listed)
        where = {"table.name": "parted", "where": "id < 3"}
        source = open_partitioned(ConnectorConfig("hive", where), spark, ["id"])
        assert sorted(p.partition.values for p in source.list_partitions()) == [("1",), ("2",)]
    finally:
        spark.sql("DROP TABLE parted")
    people.write.partitionBy("id").parquet(str(tmp_path / "f"))
    source = open_partitioned(
        ConnectorConfig("file", {"paths": [str(tmp_path / "f")]}), spark, ["id"]
    )
    assert len(source.list_partitions()) == 3
    people.write.parquet(str(tmp_path / "g"))
    source = open_partitioned(
        ConnectorConfig("file", {"paths": [str(tmp_path / "g")]}), spark, ["name"]
    )
    assert len(source.list_partitions()) == 3


DERBY = "org.apache.derby.iapi.jdbc.AutoloadedDriver"


@pytest.fixture(scope="module")
def derby(spark, people):
    """Return the connection of an in-memory database, with the driver included in Spark."""
    url = "jdbc:derby:memory:people;create=true"
    writer = people.withColumnRenamed("a`b", "other").write.format("jdbc").mode("overwrite")
    options = {"url": url, "driver": DERBY, "user": "app", "password": "app"}
    writer.options(**options, dbtable="PEOPLE").save()
    return options


@pytest.mark.spark
def test_a_database_is_read_by_jdbc(spark, derby):
    assert ids(read("jdbc", spark, **derby, tablename="PEOPLE").withColumnRenamed("ID", "id")) == [
        1,
        2,
        3,
    ]
    frame = read("jdbc", spark, **derby, tablename="people", database="app", where="id > 1")
    assert frame.count() == 2
    assert read("jdbc", spark, **derby, sql="SELECT 1 AS x FROM PEOPLE").count() == 3
    with pytest.raises(SourceError, match="PEOPLE WHERE 1=0 --"):
        read("jdbc", spark, **derby, tablename='PEOPLE WHERE 1=0 --"')
    with pytest.raises(SourceError, match="the key 'user' is missing"):
        read("jdbc", spark, url=derby["url"], password="x", tablename="PEOPLE")
    with pytest.raises(SourceError, match="'url' must begin with 'jdbc:'"):
        read("jdbc", spark, **{**derby, "url": "http://x"}, tablename="PEOPLE")
    away = {**derby, "url": "jdbc:mysql://x/y", "driver": "com.mysql.jdbc.Absent"}
    with pytest.raises(
        SourceError,
        match="Absent; start Spark with spark.jars.packages=com.mysql:mysql-connector-j:",
    ):
        read("mysql", spark, **away, table__name="t")


@pytest.mark.spark
def test_cassandra_names_the_missing_package(spark):
    with pytest.raises(
        SourceError, match="spark.jars.packages=com.datastax.spark:spark-cassandra-connector"
    ):
        open_batch(ConnectorConfig("cassandra", {"table.name": "t"}), spark)


@pytest.mark.spark
def test_custom_connectors_are_used(spark):
    class_of = f"{__name__}:Ours"
    assert ids(read("custom", spark, **{"class": class_of, "rows": 4})) == [0, 1, 2, 3]
    with pytest.raises(SourceError, match="is not a Python class"):
        read("custom", spark, **{"class": "org.apache.griffin.Mine"})
    with pytest.raises(SourceError, match="cannot import 'nowhere:Mine'"):
        read("custom", spark, **{"class": "nowhere:Mine"})
    with pytest.raises(SourceError, match="Ours cannot be read as a stream"):
        open_stream(ConnectorConfig("custom", {"class": class_of, "rows": 1}), spark)


class Ours(Connector):
    required = (("rows",),)

    def batch(self, spark):
        return spark.range(self.config["rows"])


def test_conditions_become_sql():
    assert condition_sql("a = 'x'") == "`a` = 'x'"


AVRO = {
    "type": "record", "name": "r", "namespace": "x",
    "fields": [
        {"name": "i", "type": ["null", "int"]},
        {"name": "l", "type": ["int", "long"]},
        {"name": "f", "type": ["null", "float", "double"]},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "ms", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "us", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}]},
        {"name": "local", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
        {"name": "dec", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}]},
        {"name": "fixed", "type": {"type": "fixed", "name": "f3", "size": 3}},
        {"name": "id", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "kind", "type": {"type": "enum", "name": "e", "symbols": ["A", "B"]}},
        {"name": "items", "type": {"type": "array", "items": ["null", "string"]}},
        {"name": "map", "type": {"type": "map", "values": ["null", "long"]}},
        {"name": "rec", "type": ["null", {"type": "record", "name": "q", "fields": [
            {"name": "x", "type": "int"}, {"name": "again", "type": ["null", "e"]},
            {"name": "ids", "type": {"type": "array", "items": {"type": "string", "logicalType": "uuid"}}}]}]},
    ],
}  # fmt: skip
UTC = dt.UTC
FULL = {
    "i": None, "l": 2**40, "f": 1.5, "day": dt.date(2024, 2, 29), "ms": dt.datetime(2024, 1, 1, 12, 0, 0, 123000, UTC),
    "us": dt.datetime(1960, 1, 1, 12, 0, 0, 123456, UTC), "local": dt.datetime(2024, 1, 1, 1, 2, 3, 4), "dec": Decimal("-1.25"),
    "fixed": b"abc", "id": uuid.UUID(int=5), "kind": "B", "items": ["x", None], "map": {"k": 1, "n": None},
    "rec": {"x": 1, "again": "A", "ids": [uuid.UUID(int=6)]},
}  # fmt: skip
EMPTY = {**FULL, "i": 3, "f": None, "us": None, "dec": None, "items": [], "map": {}, "rec": None}
WANTED = (
    "struct<i:int,l:bigint,f:double,day:date,ms:timestamp,us:timestamp,local:timestamp_ntz,dec:decimal(10,2),"
    "fixed:binary,id:string,kind:string,items:array<string>,map:map<string,bigint>,"
    "rec:struct<x:int,again:string,ids:array<string>>>"
)


@pytest.fixture(params=["fastavro", "spark-avro"])
def reader(request, spark, monkeypatch):
    """Read Avro in both ways: with our reader, and with the package of Spark that comes with the Kafka jars."""
    from tidegauge.griffin.connectors import has_format

    if request.param == "fastavro":
        monkeypatch.setattr("tidegauge.griffin.connectors.files.has_format", lambda *_: False)
    elif not has_format(spark, "avro"):
        pytest.skip("the session has no spark-avro")


def write_avro(path, schema, rows):
    fastavro = pytest.importorskip("fastavro")
    with path.open("wb") as file:
        fastavro.writer(file, fastavro.parse_schema(schema), rows)
    return str(path)


@pytest.mark.spark
@pytest.mark.kafka  # the Kafka jars include Spark's Avro package
def test_avro_columns_have_the_types_of_sparks_reader(spark, reader, tmp_path):
    path = write_avro(tmp_path / "t.avro", AVRO, [FULL, EMPTY])
    frame = read("file", spark, format="avro", paths=[str(tmp_path)])
    assert frame.schema.simpleString() == WANTED
    full, empty = frame.collect()
    assert (full["i"], full["l"], full["f"], full["day"]) == (
        None,
        2**40,
        1.5,
        dt.date(2024, 2, 29),
    )
    assert (full["local"], full["dec"]) == (dt.datetime(2024, 1, 1, 1, 2, 3, 4), Decimal("-1.25"))
    assert (bytes(full["fixed"]), full["id"], full["kind"]) == (b"abc", str(uuid.UUID(int=5)), "B")
    assert (full["items"], full["map"]) == (["x", None], {"k": 1, "n": None})
    assert full["rec"].asDict() == {"x": 1, "again": "A", "ids": [str(uuid.UUID(int=6))]}
    micros = frame.selectExpr("unix_micros(ms)", "unix_micros(us)").first()
    assert tuple(micros) == (1_704_110_400_123_000, -315_619_200_000_000 + 43_200_123_456)
    assert (empty["us"], empty["dec"], empty["items"], empty["map"], empty["rec"]) == (
        None,
        None,
        [],
        {},
        None,
    )
    with pytest.warns(GriffinDeprecationWarning, match="use 'file' with the format 'avro'"):
        assert read("avro", spark, file__name=path).count() == 2
    with pytest.warns(GriffinDeprecationWarning):
        assert read("avro", spark, file__path=str(tmp_path), file__name="t.avro").count() == 2


@pytest.mark.spark
def test_avro_files_with_many_rows_and_without_rows_are_read(spark, reader, tmp_path):
    schema = {"type": "record", "name": "r", "fields": [{"name": "id", "type": "int"}]}
    write_avro(tmp_path / "many.avro", schema, [{"id": i} for i in range(12_001)])
    assert read("file", spark, format="avro", paths=[str(tmp_path)]).distinct().count() == 12_001
    path = write_avro(tmp_path / "none.avro", schema, [])
    assert read("file", spark, format="avro", paths=[path]).collect() == []


@pytest.mark.spark
@pytest.mark.parametrize("reader", ["fastavro"], indirect=True)
def test_unions_of_types_need_sparks_package(spark, reader, tmp_path):
    field = {"name": "u", "type": ["int", "string"]}
    path = write_avro(
        tmp_path / "t", {"type": "record", "name": "r", "fields": [field]}, [{"u": 1}]
    )
    with pytest.raises(
        SourceError, match="only Spark's Avro package reads a union of several types"
    ):
        read("file", spark, format="avro", paths=[path])


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.parametrize("kind", ["parquet", "avro", "text", "csv"])
def test_files_are_read_as_a_stream(spark, tmp_path, kind):
    folder = tmp_path / "in"
    folder.mkdir()
    if kind == "parquet":
        spark.range(3).write.mode("overwrite").parquet(str(folder))
    elif kind == "avro":
        schema = {"type": "record", "name": "r", "fields": [{"name": "id", "type": "int"}]}
        write_avro(folder / "t.avro", schema, [{"id": i} for i in range(3)])
    else:
        (folder / "t").write_text("id\n0\n1\n2\n")
    config = {"format": kind, "paths": [str(folder)], "options": {"header": "true"}}
    frame = open_stream(ConnectorConfig("file", config), spark, "people")
    assert frame.isStreaming
    query = (
        frame.writeStream.format("memory").queryName(f"streamed_{kind}")
        .option("checkpointLocation", str(tmp_path / "cp")).trigger(availableNow=True).start()
    )  # fmt: skip
    query.awaitTermination()
    assert spark.table(f"streamed_{kind}").count() == (4 if kind == "text" else 3)


@pytest.mark.spark
def test_folders_of_text_files_are_read(spark, tmp_path):
    for name, success in (("a", True), ("b", False), ("c", True)):
        folder = tmp_path / "day" / name
        folder.mkdir(parents=True)
        (folder / "f").write_text(f"{name}\n")
        if success:
            (folder / "_SUCCESS").touch()
    config = {"dir__path": str(tmp_path), "data__dir__depth": 2}
    connector = ConnectorConfig(
        "text-dir", {key.replace("__", "."): v for key, v in config.items()}
    )
    with pytest.warns(GriffinDeprecationWarning):
        batch = open_batch(connector, spark)
    assert sorted(row["value"] for row in batch.frame.collect()) == ["a", "c"]
    assert not (tmp_path / "day" / "c" / "_DONE").exists()
    batch.connector.finish()
    assert (tmp_path / "day" / "c" / "_DONE").exists()
    with (
        pytest.warns(GriffinDeprecationWarning),
        pytest.raises(SourceError, match="no folder to read"),
    ):
        read("text-dir", spark, **config)


@contextmanager
def elasticsearch(documents):
    """Run a server that answers searches like Elasticsearch, three documents at a time."""
    calls = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            calls.append((self.command, self.path, body, self.headers.get("Authorization")))
            begin = int(body.get("scroll_id", 0))
            hits = [{"_source": document} for document in documents[begin : begin + 3]]
            told = json.dumps({"_scroll_id": str(begin + 3), "hits": {"hits": hits}}).encode()
            self.send_response(404 if self.path.startswith("/gone") else 200)
            self.send_header("Content-Length", str(len(told)))
            self.end_headers()
            self.wfile.write(told)

        do_DELETE = do_POST

        def log_message(self, *_):
            pass

    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=running.serve_forever)
    thread.start()
    try:
        yield {"es.nodes": "127.0.0.1", "es.port": running.server_port}, calls
    finally:
        running.shutdown()
        thread.join()
        running.server_close()


@pytest.mark.spark
def test_a_check_requests_one_page_from_elasticsearch(spark):
    config = {"paths": ["bank"], "selectionExprs": ["age"]}
    with elasticsearch([{"age": age, "city": "x"} for age in range(7)]) as (options, asked):
        connector = ConnectorConfig("elasticsearch", {**config, "options": options})
        assert open_batch(connector, spark, columns_only=True).frame.columns == ["age"]
    assert [(path, body["size"]) for _, path, body, _ in asked] == [("/bank/_search", 100)]


@pytest.mark.spark
def test_elasticsearch_documents_are_read(spark):
    documents = [{"age": age, "city": "x"} for age in range(7)]
    with elasticsearch(documents) as (options, requests):
        options |= {"es.net.http.auth.user": "u", "es.net.http.auth.pass": "p"}
        frame = read(
            "elasticsearch", spark, paths=["bank", "a/b?c"], options=options,
            filterExprs=["age > 1", "age < 6"], selectionExprs=["age", "age + 1 as `next age`"],
        )  # fmt: skip
        assert frame.columns == ["age", "next age"]
        assert sorted(map(tuple, frame.collect())) == [(2, 3), (3, 4), (4, 5), (5, 6)]
        with pytest.raises(SourceError, match="cannot read .*/gone/_search.*404"):
            read("elasticsearch", spark, paths=["gone"], options=options)
        config = {"paths": ["bank"], "options": {**options, "es.nods": "x"}}
        with pytest.raises(SourceError, match="unknown option 'es.nods'; did you mean 'es.nodes'"):
            open_batch(ConnectorConfig("elasticsearch", config), spark)
        config = {"paths": ["bank"], "filterExprs": ["1) or (1"]}
        with pytest.raises(SourceError):
            open_batch(ConnectorConfig("elasticsearch", config), spark)
    paths = [path for _, path, *_ in requests]
    assert paths[:2] == ["/bank,a%2Fb%3Fc/_search?scroll=5m", "/_search/scroll"]
    assert requests[4][0] == "DELETE"
    assert {body for *_, body in requests} == {"Basic " + base64.b64encode(b"u:p").decode()}
    with (
        elasticsearch([]) as (options, _),
        pytest.raises(SourceError, match="found no documents"),
    ):
        read("elasticsearch", spark, paths=["bank"], options=options)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"topics": "t"}, "the key 'kafka.config' is missing"),
        ({"kafka.config": {"bootstrap.server": "x"}, "topics": "t"}, "did you mean 'bootstrap.server'"),
        ({"kafka.config": {"bootstrap.servers": "x"}}, "the key 'topics' is missing"),
        ({"kafka.config": {"bootstrap.servers": "x", "auto.offset.reset": "first"}, "topics": "t"}, "'auto.offset.reset' cannot be 'first'"),
        ({"kafka.config": {"bootstrap.servers": "x"}, "topics": "t", "value.type": "java.lang.Long"}, "'value.type' must be 'java.lang.String'"),
    ],
)  # fmt: skip
def test_invalid_options_of_kafka_are_refused(spark, config, message):
    with pytest.raises(SourceError) as caught:
        open_batch(ConnectorConfig("kafka", config), spark)
    assert message in str(caught.value)
