"""Logging client for services: buffered, without Spark, with Parquet files that appear atomically."""

from __future__ import annotations

import atexit
import concurrent.futures.thread  # noqa: F401 - pyarrow's first write imports it, too late at exit
import logging
import multiprocessing
import multiprocessing.util
import os
import queue
import signal
import threading
import time
import uuid
import warnings
import weakref
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar, Self

from tidegauge.analyzers.core.errors import SuiteError, nearest
from tidegauge.analyzers.core.filesystems import absolute, file_system
from tidegauge.analyzers.core.registry import canonical_json
from tidegauge.consistency.log.query import (
    JOIN,
    LOG_COLUMNS,
    Query,
    RegisteredJoin,
    check_type,
    day_of,
    encoded,
    partition_folder,
)
from tidegauge.consistency.log.schemas import LogSchema, load_schemas, merged, save_schema

_MODULE_LOGGER = logging.getLogger(__name__)
_MAX_BUFFERED_WRITES = 4
"""While storage fails or hangs, the buffer holds this many writes."""
_HANGING_AFTER_SECONDS, _RETRY_AFTER_SECONDS = 1.0, 5.0
"""A write hangs if it takes longer than the first. A failed write is retried after the second."""
_SIGNAL_WAIT_SECONDS = 1.0
"""Time for a signal without a handler to end the process. PID 1 of a container ignores such signals."""


class QueryLog:
    """Appends queries to the folder of a query log; safe across threads and processes.

    Queries are buffered in memory. A background thread writes them when the buffer is large enough, and at
    intervals. The remaining queries are written by `close`, at the end of the process, on SIGTERM and
    SIGHUP (unless the process handles them), and at the end of a child of `multiprocessing`. After that,
    only SIGKILL, ``os._exit`` and storage that fails or hangs lose queries. A file has a temporary name
    until it is complete, so readers never see a partial file. Failed writes, for example on a full disk,
    are retried. While writes fail or take longer than a second, the buffer holds four times the write
    size. Further queries are dropped and counted, so the log does not stop the service.

    Parameters
    ----------
    folder : str
        The table's folder, as a path or URI (`log_folder`); partitions become visible in the table with
        `sync_log_table`.
    query_source : str, optional
        Default environment or service of queries.
    rows : int
        Write when this many queries are buffered.
    megabytes : float
        Write when this much of keys and values is buffered.
    seconds : float
        Write at least this often.
    exit_seconds : float
        Longest wait for storage at the end of the process or on a signal that ends it. A warning reports
        the number of lost queries.

    Attributes
    ----------
    dropped : int
        Number of dropped queries, because writes failed or hung.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> key = {"type": "record", "name": "K", "fields": [{"name": "user", "type": "long"}]}
    >>> value = {"type": "record", "name": "V", "fields": [{"name": "clicks", "type": "int"}]}
    >>> schema = LogSchema.from_schemas("search", key, value)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with QueryLog(folder, query_source="web") as queries:
    ...         _ = queries.register(schema)
    ...         queries.log("search", {"user": 7}, {"clicks": 3})
    ...     len(list(Path(folder).rglob("*.parquet"))), queries.dropped
    (1, 0)
    """

    def __init__(
        self,
        folder: str,
        *,
        query_source: str | None = None,
        rows: int = 10_000,
        megabytes: float = 16,
        seconds: float = 60,
        exit_seconds: float = 10,
    ) -> None:
        if not (rows >= 1 and megabytes > 0 and seconds > 0 and exit_seconds > 0):
            raise SuiteError(
                "rows, megabytes, seconds and exit_seconds of a query log must be greater than 0"
            )
        self.folder, self.query_source, self.dropped = absolute(str(folder)), query_source, 0
        self._rows, self._bytes, self._seconds = rows, int(megabytes * 2**20), seconds
        self._exit_seconds = exit_seconds
        self._joins: dict[str, RegisteredJoin] = {}
        self._saved: dict[str, float] = {}
        self._closed = False
        self._begin()
        _OPEN_LOGS.add(self)
        _write_on_signals()

    def _begin(self) -> None:
        """Reset the buffer, because a forked process leaves inherited queries to its parent."""
        self._wake, self._writing = threading.Condition(), threading.Lock()
        self._buffer: list[Query] = []
        self._size = 0
        self._in_flight: list[Query] = []
        self._failing = False
        self._began: float | None = None
        self._writer: threading.Thread | None = None
        self._asked, self._answered = 0, 0
        self._error: Exception | None = None

    def register(
        self,
        schema: LogSchema,
        *,
        type: str = JOIN,  # noqa: A002 - the column's name
        sample_percent: float = 100,
        sample_keys: Sequence[str] = (),
    ) -> str:
        """Set how a join's queries are written from now on; earlier versions stay readable.

        Parameters
        ----------
        schema : LogSchema
            The schema of keys and values.
        type : str
            ``join`` or ``groupBy``.
        sample_percent : float
            Percentage of keys to sample. All queries of a sampled key are logged, and no queries of other
            keys; see `sampling`. It is stored with the schema, so that a run can report a different setting.
        sample_keys : sequence of str
            Keys to sample by (default: all except the schema's payload). If the key has several fields,
            set either these or the payload.

        Returns
        -------
        str
            The schema's hash.
        """
        check_type(type)
        self._joins[schema.join] = RegisteredJoin(schema, type, sample_percent, sample_keys)
        return schema.hash

    def schema_of(self, join: str) -> LogSchema | None:
        """Return the current schema of a join's queries; None if it is not registered."""
        registered = self._joins.get(join)
        return None if registered is None else registered.schema

    def log(
        self,
        join: str,
        keys: Mapping[str, Any] | None,
        values: Mapping[str, Any] | None,
        *,
        ts_millis: int | None = None,
        query_source: str | None = None,
    ) -> None:
        """Log one query and its response.

        Parameters
        ----------
        join : str
            Name of the join.
        keys : mapping of str to Any or None
            Keys and payload. None, with ``values`` also None, if the join has no schema yet.
        values : mapping of str to Any or None
            The features; you can omit nullable features. None without a response.
        ts_millis : int, optional
            The query's time in milliseconds since 1970, from 2000 on; now by default. Its UTC day is
            the partition.
        query_source : str, optional
            Environment or service of the query (default: the log's).

        Raises
        ------
        SuiteError
            If the join is not registered, keys or values do not match its schema, or the time is
            before 2000.
        """
        registered = self._joins.get(join)
        if registered is None and (keys is not None or values is not None or not join):
            close = nearest(join, self._joins)
            hint = f"; did you mean {close!r}?" if close else "; register its schema"
            raise SuiteError(f"no schema of {join!r} is known to the log{hint}")
        if keys is None and values is not None:
            raise SuiteError(f"a query of {join!r} has values but no keys")
        millis = time.time_ns() // 1_000_000 if ts_millis is None else int(ts_millis)
        key = "" if registered is None or keys is None else encoded(registered.key, keys, join)
        if registered is not None and keys is not None and not registered.chosen(key):
            return
        value = (
            "" if registered is None or values is None else encoded(registered.value, values, join)
        )
        kind = JOIN if registered is None else registered.type
        schema = None if registered is None else registered.schema
        source = query_source or self.query_source
        self._append(Query(day_of(millis), join, key, value, millis, source, schema, kind))

    def _append(self, query: Query) -> None:
        """Buffer a query, or drop it if storage hangs or fails and the buffer is full."""
        with self._wake:
            if self._closed:
                raise SuiteError(f"the query log of {self.folder!r} is closed")
            if self._stuck() and self._is_full(_MAX_BUFFERED_WRITES, len(self._in_flight)):
                self.dropped += 1
                return
            if self._writer is None:
                self._start()
            self._buffer.append(query)
            self._size += len(query.key) + len(query.value)
            if self._is_full():
                self._wake.notify_all()

    def _start(self) -> None:
        writer = threading.Thread(target=self._write_on, daemon=True)
        writer.start()
        self._writer = writer
        _Terminator.start_once()
        if multiprocessing.parent_process() is not None:  # a child does not run atexit functions
            multiprocessing.util.Finalize(None, _close_all, exitpriority=0)

    def _stuck(self) -> bool:
        """Return whether writes fail or the current write takes too long."""
        hangs = self._began is not None and time.monotonic() - self._began > _HANGING_AFTER_SECONDS
        return self._failing or hangs

    def _is_full(self, times: int = 1, in_flight: int = 0) -> bool:
        return (
            len(self._buffer) + in_flight >= times * self._rows or self._size >= times * self._bytes
        )

    def _write_on(self) -> None:
        while True:
            with self._wake:
                # After a failure wait for the timeout, because a full disk would keep this thread busy.
                self._wake.wait_for(
                    lambda: self._asked > self._answered or (self._is_full() and not self._failing),
                    timeout=min(self._seconds, _RETRY_AFTER_SECONDS)
                    if self._failing
                    else self._seconds,
                )
                request, error = self._asked, None
            try:
                self.flush()
            except Exception as failed:  # noqa: BLE001 - raised by `close`; the queries stay buffered
                error = failed
            with self._wake:
                self._answered, self._error = request, error
                if self._closed and not self._buffer and self._asked == request:
                    self._writer = None
                self._wake.notify_all()
                if self._writer is None:
                    return

    def _ask(self, *, close: bool = False) -> int:
        """Request a write by the background thread and return the request's number."""
        with self._wake:
            self._closed = self._closed or close
            self._asked += 1
            self._wake.notify_all()
            return self._asked

    def _wait(self, request: int, seconds: float | None = None) -> tuple[int, Exception | None]:
        """Wait for the answer to a request; return the number of unwritten queries and the error.

        The background thread writes, so that a waiting thread can stop waiting.
        """
        with self._wake:
            if self._writer is None:  # it ends with the last query
                return 0, None
            in_time = self._wake.wait_for(
                lambda: self._answered >= request or self._writer is None, seconds
            )
            error = self._error if in_time else TimeoutError("storage does not answer")
            return len(self._buffer) + len(self._in_flight), error

    def flush(self) -> None:
        """Write all buffered queries.

        Raises
        ------
        OSError
            If writing fails; queries stay buffered.
        """
        with self._writing:
            with self._wake:
                pending, self._buffer = self._buffer, []
                self._in_flight, self._began = pending, time.monotonic()
            parts: dict[tuple[str, str], list[Query]] = {}
            for query in pending:
                parts.setdefault((query.ds, query.join), []).append(query)
            try:
                while parts:
                    partition, queries = next(iter(parts.items()))
                    self._write(*partition, queries)
                    del parts[partition]
            finally:
                unwritten = [query for queries in parts.values() for query in queries]
                with self._wake:
                    self._buffer[:0] = unwritten
                    self._size = sum(len(q.key) + len(q.value) for q in self._buffer)
                    self._failing, self._began, self._in_flight = bool(unwritten), None, []

    def _write(self, ds: str, join: str, queries: Sequence[Query]) -> None:
        """Write one file of a partition, after the schemas that it needs."""
        import pyarrow as pa
        from pyarrow import parquet

        for schema in {q.schema.hash: q.schema for q in queries if q.schema}.values():
            saved_percent = self._saved.get(schema.hash)
            if saved_percent is None:
                self._warn_of_clashes(schema)
            if saved_percent != schema.sample_percent:
                save_schema(self.folder, schema)
                self._saved[schema.hash] = schema.sample_percent
        rows = [
            (q.key, q.value, q.ts_millis, q.query_source, q.schema and q.schema.hash, q.type)
            for q in queries
        ]
        columns = [
            pa.array(column, pa.int64() if name == "ts_millis" else pa.string())
            for name, column in zip(LOG_COLUMNS, zip(*rows, strict=True), strict=True)
        ]
        system, root = file_system(self.folder)
        folder = partition_folder(root, ds, join)
        system.create_dir(folder, recursive=True)
        name = f"{time.time_ns() // 1_000_000}-{uuid.uuid4().hex}.parquet"
        unfinished = f"{folder}/.{name}.tmp"  # hidden from Spark
        parquet.write_table(pa.table(columns, LOG_COLUMNS), unfinished, filesystem=system)
        system.move(unfinished, f"{folder}/{name}")

    def _warn_of_clashes(self, schema: LogSchema) -> None:
        """Log a warning if a field has incompatible types in this version and a stored version."""
        try:
            stored = load_schemas(self.folder).of_join(schema.join)
            merged([*(version for version in stored if version.hash != schema.hash), schema])
        except SuiteError as error:
            _MODULE_LOGGER.warning(
                "schema %s of %r conflicts with an earlier schema, so days with queries of both cannot be"
                " flattened: %s",
                schema.hash,
                schema.join,
                error,
            )

    def close(self) -> None:
        """Write all buffered queries and accept no more queries.

        Raises
        ------
        OSError
            If writing fails, or storage does not answer within ``exit_seconds`` (TimeoutError). Writing is
            retried until the process ends.
        """
        _, error = self._wait(self._ask(close=True), self._exit_seconds)
        if error is not None:
            raise error

    def __enter__(self) -> Self:
        """Return the log, to be closed at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the log."""
        self.close()


_OPEN_LOGS: weakref.WeakSet[QueryLog] = weakref.WeakSet()
_LOG_BY_FOLDER: dict[str, QueryLog] = {}


def log(
    folder: str,
    join: str,
    keys: Mapping[str, Any] | None,
    values: Mapping[str, Any] | None,
    schemas: LogSchema | tuple[str | Mapping[str, Any], str | Mapping[str, Any]],
    *,
    ts_millis: int | None = None,
    query_source: str | None = None,
) -> None:
    """Log one query of a join with this process's shared `QueryLog` of a folder.

    It is written within a minute, at 10,000 buffered queries, on `flush_logs`, or at process exit.

    Parameters
    ----------
    folder : str
        The query log's folder.
    join : str
        Name of the join.
    keys, values : mapping of str to Any or None
        As for `QueryLog.log`.
    schemas : LogSchema or (str or mapping, str or mapping)
        The Avro schemas of keys and values. For many queries, create one `LogSchema` and reuse it.
    ts_millis : int, optional
        The query's time in milliseconds since 1970 (default: now).
    query_source : str, optional
        Environment or service of the query.

    Raises
    ------
    SuiteError
        If keys or values do not match the schemas.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> key = {"type": "record", "name": "K", "fields": [{"name": "user", "type": "long"}]}
    >>> value = {"type": "record", "name": "V", "fields": [{"name": "clicks", "type": "int"}]}
    >>> schemas = LogSchema.from_schemas("search", key, value)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     log(folder, "search", {"user": 7}, {"clicks": 3}, schemas)
    ...     flush_logs()
    ...     len(list(Path(folder).rglob("*.parquet")))
    1
    """
    if isinstance(schemas, LogSchema):
        schema = schemas
    else:
        key, value = (s if isinstance(s, str) else canonical_json(dict(s)) for s in schemas)
        schema = _schema_of(join, key, value)
    if schema.join != join:
        raise SuiteError(f"the schema belongs to {schema.join!r}, not to {join!r}")
    location = absolute(str(folder))
    shared = _LOG_BY_FOLDER.get(location) or _LOG_BY_FOLDER.setdefault(location, QueryLog(location))
    if shared.schema_of(join) != schema:
        shared.register(schema)
    shared.log(join, keys, values, ts_millis=ts_millis, query_source=query_source)


@lru_cache(maxsize=1024)
def _schema_of(join: str, key: str, value: str) -> LogSchema:
    return LogSchema.from_schemas(join, key, value)


def flush_logs() -> None:
    """Write all buffered queries of `log`.

    Raises
    ------
    OSError
        If writing fails; queries stay buffered.

    Examples
    --------
    >>> flush_logs()  # nothing is buffered
    """
    for shared in list(_LOG_BY_FOLDER.values()):
        shared.flush()


def _write_all(*, close: bool) -> None:
    """Write all logs in parallel, each within its `exit_seconds`; warn if queries are lost."""
    began = time.monotonic()
    requests = [(query_log, query_log._ask(close=close)) for query_log in list(_OPEN_LOGS)]  # noqa: SLF001 - its own module
    for query_log, request in requests:
        seconds = began + query_log._exit_seconds - time.monotonic()  # noqa: SLF001
        lost, error = query_log._wait(request, max(0.0, seconds))  # noqa: SLF001
        if error is not None:
            message = f"{lost} queries for {query_log.folder!r} are lost: {error}"
            warnings.warn(message, RuntimeWarning, stacklevel=2)


def _close_all() -> None:
    _write_all(close=True)


def _begin_all() -> None:
    _Terminator.begin()
    for query_log in list(_OPEN_LOGS):
        query_log._begin()  # noqa: SLF001 - its own module


class _Terminator(threading.Thread):
    """Writes all logs on a signal, and then ends the process by the same signal.

    The signal handler cannot write, because it interrupts the main thread, which may be logging. SystemExit
    would wait for all non-daemon threads before the process ends.
    """

    instance: ClassVar[_Terminator | None] = None
    starting: ClassVar[threading.Lock]

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.signals: queue.SimpleQueue[int] = queue.SimpleQueue()  # handlers may put to it

    @classmethod
    def begin(cls) -> None:
        """Discard the thread of a parent process."""
        cls.instance, cls.starting = None, threading.Lock()

    @classmethod
    def start_once(cls) -> None:
        """Start the thread when the first query is logged."""
        with cls.starting:
            if cls.instance is None:
                new = cls()
                new.start()
                cls.instance = new

    def run(self) -> None:
        """Wait for a signal, write the logs, and end the process."""
        number = self.signals.get()
        _write_all(close=False)
        _end_by(number)


def _write_on_signals() -> None:
    """Write all logs before SIGTERM and SIGHUP end the process.

    Existing handlers of the process stay. Only the main thread can set handlers.
    """
    if threading.current_thread() is not threading.main_thread():
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            _MODULE_LOGGER.warning(
                "a query log that is created outside the main thread cannot handle SIGTERM, which then loses"
                " buffered queries; create it in the main thread, or close it when the service ends"
            )
        return
    for name in ("SIGTERM", "SIGHUP"):  # Windows has no SIGHUP
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _terminate)


def _terminate(number: int, _: object) -> None:
    signal.signal(number, signal.SIG_DFL)  # a second signal ends the process immediately
    if _Terminator.instance is None:
        _end_by(number)
    else:
        _Terminator.instance.signals.put(number)


def _end_by(number: int) -> None:
    """End the process by a signal whose handler was removed."""
    os.kill(os.getpid(), number)
    time.sleep(_SIGNAL_WAIT_SECONDS)
    os._exit(128 + number)


_Terminator.begin()
atexit.register(_close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_all)
