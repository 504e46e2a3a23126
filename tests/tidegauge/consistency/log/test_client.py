"""Logging queries from services: written rows, threads, crashes, hanging storage and full disks."""

import base64
import datetime as dt
import io
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import fastavro
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.paths import ROOT
from tests.tidegauge.consistency.logged_queries import is_sampled, record
from tidegauge.analyzers.core.errors import SuiteError
from tidegauge.analyzers.core.partitions import Partition
from tidegauge.consistency.log import client as logs
from tidegauge.consistency.log.client import QueryLog, flush_logs, log
from tidegauge.consistency.log.query import LOG_COLUMNS, day_of, hive_escape
from tidegauge.consistency.log.schemas import LogSchema, load_schemas

D5 = 1_672_876_800_000  # 2023-01-05T00:00Z
JOIN = "team/search"


KEY = record("Key", user="long", session=["null", "string"])
VALUE = record("Value", clicks=["null", "int"], spend=["null", "double"])
SCHEMA = LogSchema.from_schemas(JOIN, KEY, VALUE)


def files(folder):
    return sorted(Path(folder).glob("ds=*/join_name=*/[!.]*.parquet"))


def rows(folder):
    """Return every row with the partition of its folder."""
    actual = []
    for file in files(folder):
        partition = Partition.from_path(f"{file.parent.parent.name}/{file.parent.name}")
        table = pq.read_table(file, partitioning=None)
        assert table.column_names == LOG_COLUMNS
        actual += [
            {**row, **dict(zip(*keys_and_values(partition), strict=True))}
            for row in table.to_pylist()
        ]
    return sorted(actual, key=lambda row: row["ts_millis"])


def keys_and_values(partition):
    return partition.keys, partition.values


def decoded(schema, text):
    stream = io.BytesIO(base64.b64decode(text, validate=True))
    actual = fastavro.schemaless_reader(stream, fastavro.parse_schema(schema), None)
    assert not stream.read()
    return actual


@pytest.fixture
def queries(tmp_path):
    with QueryLog(tmp_path, query_source="prod") as queries:
        queries.register(SCHEMA)
        yield queries


def test_logged_queries_are_written(queries, tmp_path):
    queries.log(JOIN, {"user": 1, "session": "s"}, {"clicks": 3}, ts_millis=D5 - 1)
    queries.log(JOIN, {"user": 2}, {"spend": 0.5}, ts_millis=D5, query_source="dev")
    queries.log(JOIN, {"user": 3}, None, ts_millis=D5 + 1)
    assert files(tmp_path) == []
    queries.flush()
    one, two, three = rows(tmp_path)
    assert (one["ds"], two["ds"], one["join_name"]) == ("2023-01-04", "2023-01-05", JOIN)
    assert decoded(KEY, one["key_bytes"]) == {"user": 1, "session": "s"}
    assert decoded(VALUE, two["value_bytes"]) == {"clicks": None, "spend": 0.5}
    assert three["value_bytes"] == ""
    assert [r["query_source"] for r in (one, two, three)] == ["prod", "dev", "prod"]
    assert {(r["schema_hash"], r["type"]) for r in (one, two, three)} == {(SCHEMA.hash, "join")}
    assert list(load_schemas(str(tmp_path))) == [SCHEMA]
    queries.flush()  # no query is waiting, so no file is written
    assert len(files(tmp_path)) == 2


def test_a_join_without_a_schema_is_logged_with_an_empty_hash(tmp_path):
    with QueryLog(tmp_path) as queries:
        queries.log(JOIN, None, None, ts_millis=D5)
    (row,) = rows(tmp_path)
    assert [row[n] for n in ("key_bytes", "value_bytes", "schema_hash")] == ["", "", None]


UNFIT = {
    "other join": ("team/serach", {"user": 1}, {}, "did you mean 'team/search'"),
    "unknown feature": (JOIN, {"user": 1}, {"click": 1}, "no field 'click'; did you mean 'clicks'"),
    "unknown key": (JOIN, {"usr": 1}, {}, "no field 'usr'; did you mean 'user'"),
    "missing key": (JOIN, {}, {}, "Key.user|'user'"),
    "wrong type": (JOIN, {"user": "x"}, {}, "expected long"),
    "too large": (JOIN, {"user": 2**63}, {}, "expected long"),
    "too large for an int": (JOIN, {"user": 1}, {"clicks": 2**31}, "clicks"),
    "values alone": (JOIN, None, {"clicks": 1}, "values but no keys"),
}


@pytest.mark.parametrize(("join", "keys", "values", "message"), UNFIT.values(), ids=UNFIT)
def test_invalid_queries_are_refused_immediately(queries, join, keys, values, message, tmp_path):
    with pytest.raises(SuiteError, match=message):
        queries.log(join, keys, values)
    queries.flush()
    assert files(tmp_path) == []


@pytest.mark.parametrize("millis", [10**18, -(10**18), 0, 1_672_876_800, 946_684_799_999])
def test_invalid_query_times_are_refused(queries, millis):
    """Beyond the calendar, zero, in seconds, and a millisecond before 2000."""
    with pytest.raises(SuiteError, match="not the time of a query"):
        queries.log(JOIN, {"user": 1}, {}, ts_millis=millis)
    assert day_of(946_684_800_000) == "2000-01-01"


def test_invalid_options_are_refused(queries, tmp_path):
    with pytest.raises(SuiteError, match="greater than 0"):
        QueryLog(tmp_path, rows=0)
    with pytest.raises(SuiteError, match="type must be one of 'join', 'groupBy', not 'group_by'"):
        queries.register(SCHEMA, type="group_by")
    with pytest.raises(SuiteError, match="no key 'usr' to sample by; did you mean 'user'"):
        queries.register(SCHEMA, sample_percent=5, sample_keys=["usr"])
    queries.close()
    with pytest.raises(SuiteError, match="is closed"):
        queries.log(JOIN, {"user": 1}, {})


def test_many_threads_lose_no_query_and_write_none_twice(tmp_path):
    with QueryLog(tmp_path, rows=50) as queries:
        queries.register(SCHEMA)

        def serve(n):
            for i in range(250):
                queries.log(JOIN, {"user": n * 1000 + i}, {"clicks": i}, ts_millis=D5 + i)

        threads = [threading.Thread(target=serve, args=[n]) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    users = [decoded(KEY, row["key_bytes"])["user"] for row in rows(tmp_path)]
    assert sorted(users) == [n * 1000 + i for n in range(8) for i in range(250)]
    assert queries.dropped == 0
    assert not list(tmp_path.rglob("*.tmp"))


def test_queries_are_written_after_the_configured_wait(tmp_path):
    with QueryLog(tmp_path, seconds=0.05) as queries:
        queries.register(SCHEMA)
        queries.log(JOIN, {"user": 1}, {})
        end = time.monotonic() + 30
        while not files(tmp_path) and time.monotonic() < end:
            time.sleep(0.02)
        assert len(rows(tmp_path)) == 1


CRASH = """
import os, sys
from pyarrow import parquet
from tidegauge.consistency.log.client import QueryLog
from tidegauge.consistency.log.schemas import LogSchema
folder, when = sys.argv[1:]
key = {"type": "record", "name": "K", "fields": [{"name": "user", "type": "long"}]}
log = QueryLog(folder)
log.register(LogSchema.from_schemas("j", key, {**key, "name": "V", "fields": []}))
log.log("j", {"user": 1}, {}, ts_millis=1672876800000)
log.flush()
log.log("j", {"user": 2}, {}, ts_millis=1672876800000)
whole = parquet.write_table
def write(*args, **options):
    whole(*args, **options)
    os._exit(9)
parquet.write_table = write
if when == "renaming":
    log.flush()
os._exit(9)
"""


@pytest.mark.parametrize(("when", "left"), [("waiting", 0), ("renaming", 1)])
def test_a_crash_leaves_only_complete_files(tmp_path, when, left):
    root = ROOT
    done = subprocess.run(
        [sys.executable, "-c", CRASH, str(tmp_path), when],
        cwd=root, env={**os.environ, "PYTHONPATH": str(root)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 9, done.stderr
    assert len(rows(tmp_path)) == 1
    assert len(list(tmp_path.rglob(".*.tmp"))) == left  # Spark does not read files with this name


def test_a_full_disk_stops_no_caller_and_lost_queries_are_counted(tmp_path, monkeypatch):
    from pyarrow import parquet

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    with QueryLog(tmp_path, rows=2, seconds=600) as queries:
        queries.register(SCHEMA)
        with monkeypatch.context() as patched:
            patched.setattr(parquet, "write_table", full)
            queries.log(JOIN, {"user": 0}, {}, ts_millis=D5)
            with pytest.raises(OSError, match="No space"):
                queries.flush()
            for i in range(1, 10):
                queries.log(JOIN, {"user": i}, {}, ts_millis=D5 + i)
            assert queries.dropped == 2  # four times two are waiting
    assert [decoded(KEY, row["key_bytes"])["user"] for row in rows(tmp_path)] == list(range(8))


def test_hanging_storage_blocks_no_caller_and_each_query_is_stored_or_counted(
    tmp_path, monkeypatch
):
    from pyarrow import parquet

    written, began, going_on = parquet.write_table, threading.Event(), threading.Event()

    def hang(*args, **options):
        began.set()
        assert going_on.wait(60)
        written(*args, **options)

    monkeypatch.setattr(parquet, "write_table", hang)
    monkeypatch.setattr(logs, "_HANGING_AFTER_SECONDS", 0.0)
    with QueryLog(tmp_path, rows=5, seconds=600) as queries:
        queries.register(SCHEMA)
        for i in range(5):
            queries.log(JOIN, {"user": i}, {}, ts_millis=D5 + i)
        assert began.wait(60)
        for i in range(5, 100):  # returns while the write of the first five hangs
            queries.log(JOIN, {"user": i}, {}, ts_millis=D5 + i)
        assert queries.dropped == 80  # four times five are waiting
        going_on.set()
    assert [decoded(KEY, row["key_bytes"])["user"] for row in rows(tmp_path)] == list(range(20))


def test_closing_waits_for_hanging_storage_only_until_the_timeout(tmp_path, monkeypatch):
    from pyarrow import parquet

    written, going_on = parquet.write_table, threading.Event()

    def hang(*args, **options):
        assert going_on.wait(60)
        written(*args, **options)

    monkeypatch.setattr(parquet, "write_table", hang)
    queries = QueryLog(tmp_path, seconds=600, exit_seconds=0.2)
    queries.register(SCHEMA)
    queries.log(JOIN, {"user": 1}, {}, ts_millis=D5)
    with pytest.raises(TimeoutError, match="storage does not answer"):
        queries.close()
    going_on.set()  # and then the write succeeds
    queries.close()
    assert len(rows(tmp_path)) == 1


def test_a_log_made_in_another_thread_warns_that_signals_lose_waiting_queries(tmp_path, caplog):
    before = signal.getsignal(signal.SIGTERM)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        thread = threading.Thread(target=lambda: QueryLog(tmp_path).close())
        thread.start()
        thread.join()
    finally:
        signal.signal(signal.SIGTERM, before)
    assert "cannot handle SIGTERM" in caplog.text


TERMINATED = """
import multiprocessing, os, signal, sys, time
signal.signal(signal.Signals[sys.argv[3]], signal.SIG_DFL)  # nohup has the tests ignore SIGHUP
from tidegauge.consistency.log.client import QueryLog
from tidegauge.consistency.log.schemas import LogSchema
key = {"type": "record", "name": "K", "fields": [{"name": "user", "type": "long"}]}
log = QueryLog(sys.argv[1])
log.register(LogSchema.from_schemas("j", key, {**key, "name": "V", "fields": []}))
def serve(first):
    for user in range(first, first + 100):
        log.log("j", {"user": user}, {}, ts_millis=1672876800000)
if sys.argv[2] == "child":
    child = multiprocessing.get_context("fork").Process(target=serve, args=[100])
    child.start()
    child.join()
serve(0)
os.kill(os.getpid(), signal.Signals[sys.argv[3]])
time.sleep(60)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
@pytest.mark.parametrize(
    ("how", "name", "kept"),
    [("alone", "SIGTERM", 100), ("alone", "SIGHUP", 100), ("child", "SIGTERM", 200)],
)
def test_signals_and_the_end_of_a_child_process_lose_no_query(tmp_path, how, name, kept):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", TERMINATED, str(tmp_path), how, name],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == -signal.Signals[name], done.stderr
    assert len(rows(tmp_path)) == kept
    assert "Traceback" not in done.stderr


SERVING = """
import os, sys, threading, time
from pyarrow import parquet
from tidegauge.consistency.log.client import QueryLog
from tidegauge.consistency.log.schemas import LogSchema
folder, how = sys.argv[1:]
key = {"type": "record", "name": "K", "fields": [{"name": "user", "type": "long"}]}
log = QueryLog(folder, exit_seconds=0.5)
log.register(LogSchema.from_schemas("j", key, {**key, "name": "V", "fields": []}))
log.log("j", {"user": 0}, {}, ts_millis=1672876800000)
log.flush()
if how.startswith("hangs"):
    parquet.write_table = lambda *_, **__: time.sleep(600)
def serve():
    for user in range(1, 101):
        log.log("j", {"user": user}, {}, ts_millis=1672876800000)
    print("logged", flush=True)
    while how != "hangs, at exit":
        time.sleep(0.01)
thread = threading.Thread(target=serve)  # no daemon: the process does not end before it does
thread.start()
if how == "joined":
    thread.join()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="signals end processes otherwise here")
@pytest.mark.parametrize(
    "how",
    [
        "joined",
        *(
            pytest.param(how, marks=pytest.mark.soak)
            for how in ("answers", "hangs", "hangs, at exit")
        ),
    ],
)
def test_a_signal_ends_a_process_even_if_threads_and_storage_hang(tmp_path, how):
    """Its main thread waits for an endless thread, in its last line or after it."""
    with subprocess.Popen(
        [sys.executable, "-c", SERVING, str(tmp_path), how],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        try:
            assert process.stdout.readline() == "logged\n"
            if how != "hangs, at exit":
                process.send_signal(signal.SIGTERM)
            _, reported = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == (0 if how == "hangs, at exit" else -signal.SIGTERM), reported
    hangs = how.startswith("hangs")
    assert len(rows(tmp_path)) == (1 if hangs else 101)
    assert (
        "100 queries for" in reported and "are lost: storage does not answer" in reported
    ) == hangs
    assert "Traceback" not in reported


def test_a_log_that_could_not_be_closed_writes_when_storage_recovers(tmp_path, monkeypatch):
    folder = tmp_path / "logs"
    folder.write_text("a file, where the folder should be")
    monkeypatch.setattr(logs, "_RETRY_AFTER_SECONDS", 0.05)
    queries = QueryLog(folder)
    queries.register(SCHEMA)
    queries.log(JOIN, {"user": 1}, {}, ts_millis=D5)
    with pytest.raises(OSError, match="logs"):
        queries.close()
    folder.unlink()
    end = time.monotonic() + 30
    while not files(folder) and time.monotonic() < end:
        time.sleep(0.02)
    queries.close()
    assert len(rows(folder)) == 1


ENDING = """
import sys
from tidegauge.consistency.log.client import log
key = {"type": "record", "name": "K", "fields": [{"name": "user", "type": "long"}]}
log(sys.argv[1], "j", {"user": 1}, {}, (key, {**key, "name": "V", "fields": []}), ts_millis=1672876800000)
"""


@pytest.mark.parametrize("there", [True, False], ids=["written", "lost"])
def test_waiting_queries_are_written_when_the_process_ends(tmp_path, there):
    folder = tmp_path / "logs"
    if not there:
        folder.write_text("a file, where the folder should be")
    root = ROOT
    done = subprocess.run(
        [sys.executable, "-c", ENDING, str(folder)],
        cwd=root, env={**os.environ, "PYTHONPATH": str(root)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert len(rows(folder)) == there
    assert ("RuntimeWarning: 1 queries for" in done.stderr) != there


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_does_not_write_queries_of_its_parent(tmp_path):
    with QueryLog(tmp_path) as queries:
        queries.register(SCHEMA)
        queries.log(JOIN, {"user": 1}, {}, ts_millis=D5)
        child = os.fork()
        if child == 0:
            try:
                assert queries._buffer == []
                assert queries._writer is None
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
    assert len(rows(tmp_path)) == 1


def test_sampling_keeps_all_queries_of_a_key(tmp_path):
    with QueryLog(tmp_path) as queries:
        queries.register(SCHEMA, type="groupBy", sample_percent=20, sample_keys=["user"])
        for i in range(400):
            queries.log(JOIN, {"user": i % 100, "session": str(i)}, {}, ts_millis=D5 + i)
    users = [decoded(KEY, row["key_bytes"])["user"] for row in rows(tmp_path)]
    expected = [i for i in range(100) if is_sampled({"user": i}, 20)]
    assert sorted(users) == sorted(expected * 4)
    assert 0 < len(expected) < 100
    assert {row["type"] for row in rows(tmp_path)} == {"groupBy"}


def test_sampling_ignores_payload_keys(tmp_path):
    with QueryLog(tmp_path) as queries:
        with pytest.raises(SuiteError, match="would sample requests, not keys"):
            queries.register(SCHEMA, sample_percent=20)
        with pytest.raises(SuiteError, match="no key 'sesion' to be payload; did you mean 'ses"):
            LogSchema.from_schemas(JOIN, KEY, VALUE, payload=["sesion"])
        queries.register(
            LogSchema.from_schemas(JOIN, KEY, VALUE, payload=["session"]), sample_percent=20
        )
        for i in range(400):
            queries.log(JOIN, {"user": i % 100, "session": str(i)}, {}, ts_millis=D5 + i)
    users = [decoded(KEY, row["key_bytes"])["user"] for row in rows(tmp_path)]
    assert sorted(users) == sorted([i for i in range(100) if is_sampled({"user": i}, 20)] * 4)
    (kept,) = load_schemas(str(tmp_path))
    assert (kept.payload, kept) == (("session",), SCHEMA)


def test_the_current_sample_is_stored_next_to_the_log(tmp_path):
    """The newest registration decides about the sample. The schema is stored since the first one."""
    schema = LogSchema.from_schemas("j", record("K", user="long"), record("V"))
    times = []
    for percent in (100, 20, 2.5, 100):
        with QueryLog(tmp_path) as queries:
            queries.register(replace(schema, registered_at=percent), sample_percent=percent)
            for user in range(1000):
                queries.log("j", {"user": user}, {})
        (kept,) = load_schemas(str(tmp_path))
        assert (kept.sample_percent, kept) == (percent, schema)
        times.append(kept.registered_at)
    assert times == [100] * 4


def test_a_damaged_schema_file_does_not_stop_writing(tmp_path):
    """Its own schema is replaced. A damaged schema of another version is not compared."""
    versions = [
        LogSchema.from_schemas("j", record("K", user="long"), record("V", **fields))
        for fields in ({}, {"n": "int"})
    ]
    for _ in range(2):
        for schema in versions:
            with QueryLog(tmp_path) as queries:
                queries.register(schema)
                queries.log("j", {"user": 1}, {"n": 1} if schema is versions[1] else {})
        damaged = sorted((tmp_path / "_schemas").iterdir())
        for file in damaged:
            file.write_bytes(b"{\xff")
    assert len(rows(tmp_path)) == 4
    with QueryLog(tmp_path) as queries:
        queries.register(versions[0])
        queries.log("j", {"user": 1}, {})
    assert [file.read_bytes() == b"{\xff" for file in damaged].count(False) == 1


def test_a_schema_that_conflicts_with_an_earlier_one_causes_a_warning(tmp_path, caplog):
    """Its queries are written. A number type that the other type includes does not conflict."""
    versions = ("int", "long", "string")
    for number, kind in enumerate(versions):
        with QueryLog(tmp_path) as queries:
            queries.register(
                LogSchema.from_schemas("j", record("K", user="long"), record("V", n=kind))
            )
            queries.log(
                "j", {"user": 1}, {"n": "x" if kind == "string" else 1}, ts_millis=D5 + number
            )
        assert len(caplog.messages) == (kind == "string")
    assert "of 'j' conflicts with an earlier schema" in caplog.messages[0]
    assert "'n' is" in caplog.messages[0]
    assert len(rows(tmp_path)) == len(versions)


def test_keys_are_sampled_as_spark_reads_them(tmp_path):
    """Whether a service passes a time as a number or as a time."""
    at = {"type": "long", "logicalType": "timestamp-millis"}
    schema = LogSchema.from_schemas("j", record("K", at=at, n="int"), record("V"))
    times = [dt.datetime(2023, 1, 5, tzinfo=dt.UTC) + dt.timedelta(hours=i) for i in range(50)]
    with QueryLog(tmp_path) as queries:
        queries.register(schema, sample_percent=40, sample_keys=["at", "n"])
        for i, time_ in enumerate(times):
            queries.log("j", {"at": D5 + i * 3_600_000, "n": 1}, {}, ts_millis=D5 + i)
            queries.log("j", {"at": time_, "n": 1}, {}, ts_millis=D5 + i)
    kept = [row["ts_millis"] - D5 for row in rows(tmp_path)]
    expected = [i for i, time_ in enumerate(times) if is_sampled({"at": time_, "n": 1}, 40)]
    assert kept == sorted(expected * 2)
    assert 0 < len(expected) < 50


def test_the_log_function_uses_one_log_per_process(tmp_path, monkeypatch):
    monkeypatch.setattr(logs, "_LOG_BY_FOLDER", {})
    log(tmp_path, JOIN, {"user": 1}, {"clicks": 1}, (KEY, VALUE), ts_millis=D5)
    log(tmp_path, JOIN, {"user": 2}, {"clicks": 2}, SCHEMA, ts_millis=D5 + 1, query_source="dev")
    (shared,) = logs._LOG_BY_FOLDER.values()
    assert files(tmp_path) == []
    flush_logs()
    assert [row["query_source"] for row in rows(tmp_path)] == [None, "dev"]
    assert len(files(tmp_path)) == 1
    with pytest.raises(SuiteError, match="the schema belongs to 'team/search', not to 'other'"):
        log(tmp_path, "other", {"user": 1}, {}, SCHEMA)
    shared.close()


@given(st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1))
def test_folder_names_of_joins_read_back(name):
    step = hive_escape(name)
    assert "/" not in step
    assert Partition.from_path(f"join_name={step}").values == (name,)
