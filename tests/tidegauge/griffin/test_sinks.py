"""Sinks: files, console, HTTP, MongoDB, databases and custom sinks."""

import datetime as dt
import io
import json
import sys
import threading
import types
from contextlib import contextmanager
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.error import HTTPError

import pytest

from tidegauge.analyzers.core.errors import GriffinConfigError, SetupError, SinkError
from tidegauge.griffin import sinks as http_sink
from tidegauge.griffin.config import Env, SinkConfig
from tidegauge.griffin.sinks import Sink, open_sinks

VALUES = {
    "total": 10,
    "miss": 1,
    "top": [{"name": 'a "b"\n', "n": Decimal("0.1")}],
    "avg": float("nan"),
}
DOCUMENT = {
    "name": "job/1",
    "tmst": 17,
    "value": {"total": 10, "miss": 1, "top": [{"name": 'a "b"\n', "n": "0.1"}], "avg": "NaN"},
    "metadata": {"applicationId": "app-1"},
}


def open_sink(kind, spark=None, **config):
    config = {key.replace("__", "."): value for key, value in config.items()}
    sinks = open_sinks(Env(sinks=(SinkConfig("out", kind, config),)), None, spark)
    return sinks["out"]


def start_sink(kind, spark=None, **config):
    sink = open_sink(kind, spark, **config)
    sink.start("job/1", 17, "app-1")
    return sink


def test_a_job_selects_its_sinks():
    env = Env(sinks=(SinkConfig("Out", "console"), SinkConfig("b", "console")))
    assert list(open_sinks(env, ["OUT", "out"])) == ["Out"]
    assert list(open_sinks(env)) == ["Out", "b"]
    assert open_sinks(env, []) == {}
    with pytest.raises(GriffinConfigError, match="no sink 'o.*'; there are: Out, b"):
        open_sinks(env, ["o.*"])
    with pytest.raises(GriffinConfigError, match="it has none"):
        open_sinks(Env(), ["a"])


@pytest.mark.parametrize(
    ("kind", "config", "message"),
    [
        ("hdfs", {}, "sink 'out': the key 'path' is missing"),
        ("hdfs", {"pth": "/x"}, "the key 'path' is missing; did you mean 'pth'?"),
        ("hdfs", {"path": "/x", "max__persist__lines": "many"}, "'max.persist.lines' must be a whole number, not 'many'"),
        ("console", {"numRows": True}, "'numRows' must be a whole number"),
        ("elasticsearch", {}, "the key 'api' is missing"),
        ("elasticsearch", {"api": "file:///etc/passwd"}, "must begin with http:// or https://"),
        ("elasticsearch", {"api": "http://x", "method": "get"}, "'method' must be 'post' or 'put', not 'get'"),
        ("elasticsearch", {"api": "http://x", "connection__timeout": "long"}, "'connection.timeout': 'long' is not a duration"),
        ("elasticsearch", {"api": "http://x", "headers": "a"}, "'headers' must be a mapping"),
        ("mongo", {"url": "x"}, "the key 'database' is missing"),
        ("jdbc", {"url": "http://x", "table": "t"}, "'url' must begin with 'jdbc:'"),
        ("custom", {"class": "org.apache.griffin.MySink"}, "is not a Python class"),
        ("consle", {}, "unknown sink 'consle'; did you mean 'console'?"),
    ],
)  # fmt: skip
def test_invalid_options_of_sinks_are_refused_before_anything_runs(kind, config, message):
    with pytest.raises(GriffinConfigError) as caught:
        open_sink(kind, **config)
    assert message in str(caught.value)


def test_metrics_are_printed_on_the_console(capsys):
    start_sink("console").metrics(17, VALUES)
    assert json.loads(capsys.readouterr().out) == DOCUMENT


@pytest.mark.spark
def test_records_are_printed_on_the_console(spark, capsys):
    frame = spark.range(5).selectExpr("id", "repeat('x', 30) AS long")
    start_sink("console", numRows=2, truncate=False).records("missed", frame, 17)
    shown = capsys.readouterr().out
    assert shown.startswith("job/1 [17] records missed:\n")
    assert "x" * 30 in shown
    assert "only showing top 2 rows" in shown
    start_sink("console", max__log__lines=1).records("missed", frame, 17)
    shown = capsys.readouterr().out
    assert "only showing top 1 row" in shown
    assert "x" * 30 not in shown


def files(folder):
    return {path.name: path.read_text().splitlines() for path in folder.iterdir()}


def test_each_run_has_its_own_folder(tmp_path):
    sink = start_sink("hdfs", path=str(tmp_path))
    sink.metrics(17, VALUES)
    sink.metrics(18, {"total": 1})
    sink.finish()
    lines_by_file = files(tmp_path / "job%2F1" / "17")
    assert set(lines_by_file) == {"_START", "_METRICS", "_FINISH"}
    assert lines_by_file["_START"] == lines_by_file["_FINISH"] == ["app-1"]
    assert json.loads(lines_by_file["_METRICS"][0]) == DOCUMENT
    assert json.loads(files(tmp_path / "job%2F1" / "18")["_METRICS"][0])["tmst"] == 18


@pytest.mark.spark
def test_records_are_split_into_files_by_number_of_lines(spark, tmp_path):
    frame = spark.sql(
        "SELECT id, CASE WHEN id > 0 THEN 'a\"b\n' END AS text FROM range(0, 5, 1, 1)"
    )
    sink = start_sink("hdfs", path=tmp_path.as_uri(), max__lines__per__file=2)
    sink.records("_a/b", frame, 17)
    lines_by_file = files(tmp_path / "job%2F1" / "17")
    assert [len(lines_by_file[name]) for name in ("%5Fa%2Fb", "%5Fa%2Fb.1", "%5Fa%2Fb.2")] == [
        2,
        2,
        1,
    ]
    assert [json.loads(line) for line in lines_by_file["%5Fa%2Fb"]] == [
        {"id": 0, "text": None},
        {"id": 1, "text": 'a"b\n'},
    ]
    sink = start_sink("hdfs", path=tmp_path.as_uri(), max__persist__lines=1)
    sink.records("_a/b", frame, 17)
    assert {name: len(lines) for name, lines in files(tmp_path / "job%2F1" / "17").items()} == {
        "_START": 1,
        "%5Fa%2Fb": 1,
    }
    sink.records("none", frame.limit(0), 17)
    assert files(tmp_path / "job%2F1" / "17")["none"] == []


@pytest.mark.spark
def test_spark_writes_folders(spark, tmp_path):
    from tidegauge.griffin.sinks import SparkFolder

    folder = SparkFolder(spark, f"file://{tmp_path}/x")
    folder.write("_METRICS", ["one"])
    folder.write("_METRICS", ["two"])
    assert [row[0] for row in spark.read.text(f"{tmp_path}/x/_METRICS").collect()] == ["two"]
    folder.rows("missed", spark.range(0, 5, 1, 1).selectExpr("CAST(id AS STRING) AS value"), 2)
    assert len(list((tmp_path / "x" / "missed").glob("part-*"))) == 3


@pytest.mark.spark
def test_records_that_cannot_be_computed_are_an_error_of_the_sink(spark, tmp_path):
    frame = spark.range(1).selectExpr("raise_error('no luck') AS x")
    for sink in (start_sink("hdfs", path=str(tmp_path)), start_sink("console")):
        with pytest.raises(SinkError, match="sink 'out': .*(no luck|awaitResult)"):
            sink.records("missed", frame, 17)


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SinkError, match="sink 'out': NotADirectoryError"):
        start_sink("hdfs", path=str(tmp_path / "file"))


@contextmanager
def server(*answers):
    """Run a server with these answers, repeating the last one. Yield its address and its requests."""
    got = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            got.append((self.command, self.path, dict(self.headers), json.loads(body)))
            self.send_response(answers[min(len(got), len(answers)) - 1])
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        do_PUT = do_POST

        def log_message(self, *_):
            pass

    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=running.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{running.server_port}/griffin/accuracy", got
    finally:
        running.shutdown()
        thread.join()
        running.server_close()


@pytest.fixture
def pauses(monkeypatch):
    found = []
    monkeypatch.setattr(http_sink, "sleep", found.append)
    return found


def test_a_document_is_posted_by_http(pauses):
    with server(201) as (api, got):
        start_sink("elasticsearch", api=api, headers={"X-Key": "k"}).metrics(17, VALUES)
    ((method, path, headers, body),) = got
    assert (method, path, body) == ("POST", "/griffin/accuracy", DOCUMENT)
    assert (headers["Content-Type"], headers["X-Key"]) == ("application/json", "k")
    assert pauses == []


def test_temporary_errors_are_retried_with_longer_pauses(pauses):
    with server(503, 429, 200) as (api, got):
        start_sink("elasticsearch", api=api, method="PUT", retry=2).metrics(17, VALUES)
    assert [method for method, *_ in got] == ["PUT"] * 3
    assert pauses == [0.1, 0.2]


@pytest.mark.soak
def test_permanent_errors_and_exhausted_retries_are_errors_of_the_sink(pauses):
    with server(400) as (api, got), pytest.raises(SinkError, match=r"sink 'out': http.*400"):
        start_sink("elasticsearch", api=api).metrics(17, VALUES)
    assert len(got) == 1
    with server(503) as (api, got), pytest.raises(SinkError, match=r"503.* after 4 tries"):
        start_sink("elasticsearch", api=api, retry=3).metrics(17, VALUES)
    assert len(got) == 4
    with pytest.raises(SinkError, match="refused"):
        start_sink("elasticsearch", api=api, retry=0).metrics(17, VALUES)
    assert pauses == [0.1, 0.2, 0.4]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b'{"error": {"reason": "no such index [x]"}, "status": 404}', " (no such index [x])"),
        (b'{"error": "not found"}', " (not found)"),
        (b'{"error": "%s"}' % (b"x" * 9999), f" ({'x' * 300})"),
        (b'{"error": {"reason": ["x"]}}', ""),
        (b"[]", ""),
        (b"<html>", ""),
        (b"", ""),
    ],
    ids=range(7),
)
def test_the_reason_is_read_from_the_answer(answer, message):
    error = HTTPError("http://x", 404, "Not Found", None, io.BytesIO(answer))
    assert http_sink.server_reason(error) == message


def test_mongo_names_the_missing_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "pymongo", None)
    with pytest.raises(SetupError, match="pymongo"):
        open_sink("mongo", url="x", database="d", collection="c")


def test_mongo_replaces_the_document_of_the_same_job_and_time(monkeypatch):
    """Tests the calls of pymongo without a server."""
    calls = []

    class Collection:
        def replace_one(self, *arguments, **options):
            calls.append((arguments, options))

    class Client(dict):
        def __init__(self, address, **options):
            calls.append((address, options))
            super().__init__(d={"c": Collection()})

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

    monkeypatch.setitem(sys.modules, "pymongo", types.SimpleNamespace(MongoClient=Client))
    start_sink("mongo", url="h:1", database="d", collection="c", over__time="2s").metrics(
        17, {"a": 1}
    )
    key = {"metricName": "job/1", "timestamp": 17}
    document = {**key, "value": {"a": 1}, "metadata": {"applicationId": "app-1"}}
    assert calls == [
        ("mongodb://h:1", {"serverSelectionTimeoutMS": 2000}),
        ((key, document), {"upsert": True}),
    ]


@pytest.mark.spark
def test_metrics_and_records_are_written_to_a_database(spark):
    config = {
        "url": "jdbc:derby:memory:sink;create=true",
        "driver": "org.apache.derby.iapi.jdbc.AutoloadedDriver",
        "table": 'met"rics',
    }
    frame = spark.range(2).selectExpr("id", "'a\"b' AS text")
    sink = start_sink("jdbc", spark, **config, records__table="records")
    sink.metrics(17, VALUES)
    sink.metrics(18, {})
    sink.records("missed", frame, 17)
    start_sink("jdbc", spark, **config).records("missed", frame, 17)  # no address
    reader = spark.read.format("jdbc").options(url=config["url"], driver=config["driver"])
    rows = sorted(
        reader.option("dbtable", '"met""rics"').load().collect(), key=lambda row: row["tmst"]
    )
    assert [(r["job"], r["tmst"], r["application"]) for r in rows] == [
        ("job/1", 17, "app-1"),
        ("job/1", 18, "app-1"),
    ]
    assert json.loads(rows[0]["value"]) == DOCUMENT["value"]
    rows = reader.option("dbtable", "records").load().collect()
    assert sorted(json.loads(row["record"])["id"] for row in rows) == [0, 1]
    with pytest.raises(SinkError, match="sink 'out'"):
        start_sink("jdbc", spark, **{**config, "url": "jdbc:derby:memory:gone"}).metrics(17, {})


class RecordingSink(Sink):
    def metrics(self, timestamp, values):
        self.received = (self.job, timestamp, values)


def test_custom_sinks_are_used():
    sink = start_sink("custom", **{"class": f"{__name__}:RecordingSink"})
    sink.metrics(17, {"a": 1})
    sink.records("missed", None, 17)  # records are not written
    assert sink.received == ("job/1", 17, {"a": 1})


def test_values_of_all_types_become_json():
    values = {
        "big": 2**70, "half": Decimal("0.5"), "no": Decimal("NaN"), "inf": float("-inf"), "day": dt.date(2024, 2, 29),
        "at": dt.datetime(2024, 2, 29, 1, 2, 3), "bytes": b"\x00", 1: {"x": None}, "列": True,
    }  # fmt: skip
    assert json.loads(start_sink("console").document(1, values))["value"] == {
        "big": 2**70, "half": 0.5, "no": "NaN", "inf": "-Infinity", "day": "2024-02-29", "at": "2024-02-29T01:02:03",
        "bytes": "AA==", "1": {"x": None}, "列": True,
    }  # fmt: skip
