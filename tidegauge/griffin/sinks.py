"""Sinks, which receive results: base class, built-in sinks, and opening them by type name.

The entry point group ``tidegauge.griffin.sinks`` adds more; each entry point is a class like `Sink`,
called with its name and configuration. Folders are on the local disk or on any file system that
Spark writes to. Databases are written by Spark's JDBC writer. The HTTP sink sends JSON to
Elasticsearch, or any service that accepts it. The MongoDB sink requires pymongo.
"""

from __future__ import annotations

import base64
import datetime as dt
import importlib
import json
import re
import sys
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import islice
from math import isfinite
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Any, ClassVar, Protocol
from urllib.parse import unquote, urlsplit

from tidegauge.analyzers.core.errors import GriffinConfigError, SetupError, SinkError, describe
from tidegauge.analyzers.core.formatting import hide_secrets
from tidegauge.griffin.config import Env, SinkConfig
from tidegauge.griffin.connectors import driver_of, missing_driver, spark_url, table_name
from tidegauge.griffin.dsl.grammar import milliseconds
from tidegauge.griffin.plugins import SINK_REGISTRY, load_class, suggested

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Sink:
    """Destination of results.

    Subclasses override the methods for the results that they write. Other results are ignored.

    Parameters
    ----------
    name : str
        Name of the sink.
    config : mapping
        The sink's configuration.

    Attributes
    ----------
    required : tuple of str
        Required keys.
    spark : SparkSession or None
        Session for sinks that write with Spark.
    """

    required: ClassVar[tuple[str, ...]] = ()

    def __init__(self, name: str, config: Mapping[str, Any]) -> None:
        self.name, self.config = name, dict(config)
        self.spark: SparkSession | None = None
        self.job, self.timestamp, self.application = "", 0, ""

    def check(self) -> None:
        """Validate configuration and packages; called before any rule runs.

        Raises
        ------
        GriffinConfigError
            If a key is missing or invalid.
        SetupError
            If a package is missing; the message names it.
        """
        for key in self.required:
            if not self.config.get(key):
                hint = f"; {suggested(key, self.config)}" if self.config else ""
                raise GriffinConfigError(f"sink {self.name!r}: the key {key!r} is missing{hint}")

    def failed(self, error: Exception, advice: str = "") -> SinkError:
        """Return the error for a failed write, without the secrets of the configuration."""
        return SinkError(
            f"sink {self.name!r}: {hide_secrets(describe(error), self.config)}{advice}"
        )

    def start(self, job: str, timestamp: int, application: str) -> None:
        """Begin a run of a job, with its time in milliseconds and the Spark application id."""
        self.job, self.timestamp, self.application = job, timestamp, application

    def metrics(self, timestamp: int, values: Mapping[str, Any]) -> None:
        """Write the metrics of all rules for a time, in milliseconds.

        Raises
        ------
        SinkError
        """

    def records(self, name: str, frame: DataFrame, timestamp: int) -> None:
        """Write a rule's records for a time, in milliseconds.

        Raises
        ------
        SinkError
        """

    def finish(self) -> None:
        """End the run."""

    def document(self, timestamp: int, values: Mapping[str, Any]) -> str:
        """Return metrics as JSON in Griffin's format."""
        content = {
            "name": self.job,
            "tmst": timestamp,
            "value": values,
            "metadata": {"applicationId": self.application},
        }
        return json.dumps(plain(content), ensure_ascii=False, allow_nan=False)

    def number(self, key: str, default: int, limit: int | None = None) -> int:
        """Return an integer of the configuration, capped at ``limit``."""
        value = self.config.get(key, default)
        if not re.fullmatch(r"[+-]?[0-9]{1,15}", str(value)):
            msg = f"sink {self.name!r}: {key!r} must be a whole number, not {value!r}"
            raise GriffinConfigError(msg)
        number = int(value)
        return number if limit is None else min(number, limit)

    def time(self, key: str, default: int) -> int:
        """Return a duration of the configuration in milliseconds."""
        try:
            return milliseconds(self.config.get(key, default))
        except ValueError as error:
            raise GriffinConfigError(f"sink {self.name!r}: {key!r}: {error}") from None


def plain(value: Any) -> Any:
    """Convert a Spark value to JSON values; non-finite and inexact decimal numbers become strings.

    Examples
    --------
    >>> plain({"a": float("nan"), "b": (Decimal("0.5"), Decimal("0.1")), "c": dt.date(2024, 2, 29), "d": b"x"})
    {'a': 'NaN', 'b': [0.5, '0.1'], 'c': '2024-02-29', 'd': 'eA=='}
    """
    match value:
        case Mapping():
            converted: Any = {str(key): plain(item) for key, item in value.items()}
        case list() | tuple():
            as_mapping = getattr(value, "asDict", None)  # a Spark Row
            converted = plain(as_mapping()) if as_mapping else [plain(item) for item in value]
        case float() if not isfinite(value):
            converted = {"nan": "NaN", "inf": "Infinity"}.get(str(value), "-Infinity")
        case Decimal():
            exact = value.is_finite() and Decimal(float(value)) == value
            converted = float(value) if exact else str(value)
        case dt.date() | dt.time():
            converted = value.isoformat()
        case bytes() | bytearray():
            converted = base64.b64encode(value).decode()
        case None | bool() | int() | float() | str():
            converted = value
        case _:
            converted = str(value)
    return converted


def custom(name: str, config: Mapping[str, Any]) -> Sink:
    """Create a sink of the class named in the configuration.

    Raises
    ------
    GriffinConfigError
        If the class is not of the form ``module:Class``.
    SetupError
        If the import fails.
    """
    sink: Sink = load_class(config.get("class"))(name, config)
    return sink


class ConsoleSink(Sink):
    """Print metrics as JSON and records as tables.

    Keys: ``numRows`` or the old ``max.log.lines``, ``truncate``.

    Parameters
    ----------
    name : str
        Name of the sink.
    config : mapping
        The sink's configuration.
    """

    def check(self) -> None:
        """Validate ``numRows`` and ``truncate``."""
        _ = self._rows, self._truncate

    @property
    def _rows(self) -> int:
        return self.number("numRows", self.number("max.log.lines", 20))

    @property
    def _truncate(self) -> bool | int:
        truncate = str(self.config.get("truncate", True)).lower()
        return truncate == "true" if truncate in {"true", "false"} else self.number("truncate", 20)

    def metrics(self, timestamp: int, values: Mapping[str, Any]) -> None:
        """Print the metrics of a time."""
        sys.stdout.write(f"{self.document(timestamp, values)}\n")

    def records(self, name: str, frame: DataFrame, timestamp: int) -> None:
        """Print the first records."""
        sys.stdout.write(f"{self.job} [{timestamp}] records {name}:\n")
        try:
            frame.show(self._rows, self._truncate)
        except Exception as error:
            raise self.failed(error) from error


_UNSAFE_CHARS = re.compile(r"[/\\:%\x00-\x1f\x7f]|^\.+$|^_")
_MAX_LINES = 1_000_000
_JSON_SQL = "to_json(struct(*), map('ignoreNullFields', 'false')) AS value"


class FolderSink(Sink):
    """Write files to ``<path>/<job>/<timestamp>/``.

    Keys: ``path``, ``max.persist.lines``, ``max.lines.per.file``. ``_START`` and ``_FINISH`` hold
    the application id, ``_METRICS`` a JSON document; each kind of records is a file of JSON lines,
    continued in ``.1``, ``.2`` ... A ``path`` without a scheme is on the local disk; on other file
    systems each of these is a folder of files written by Spark.

    Parameters
    ----------
    name : str
        Name of the sink.
    config : mapping
        The sink's configuration.
    """

    required = ("path",)

    def check(self) -> None:
        """Validate the configuration."""
        super().check()
        _ = self._lines, self._per_file

    @property
    def _lines(self) -> int | None:
        lines = self.number("max.persist.lines", -1)
        return None if lines < 0 else lines

    @property
    def _per_file(self) -> int:
        lines = self.number("max.lines.per.file", 10_000, _MAX_LINES)
        return lines if lines > 0 else _MAX_LINES

    def _folder(self, timestamp: int) -> Folder:
        path = str(self.config["path"])
        scheme = urlsplit(path).scheme
        if len(scheme) <= 1 or scheme == "file":  # a single letter is a drive
            local = Path(unquote(urlsplit(path).path) if scheme == "file" else path)
            return LocalFolder(local / safe(self.job) / str(timestamp))
        assert self.spark is not None, "a sink that writes with Spark needs a session"
        return SparkFolder(self.spark, f"{path.rstrip('/')}/{safe(self.job)}/{timestamp}")

    def start(self, job: str, timestamp: int, application: str) -> None:
        """Write ``_START``."""
        super().start(job, timestamp, application)
        self._write(timestamp, "_START", application)

    def metrics(self, timestamp: int, values: Mapping[str, Any]) -> None:
        """Write ``_METRICS`` for a time, replacing an existing one."""
        self._write(timestamp, "_METRICS", self.document(timestamp, values))

    def records(self, name: str, frame: DataFrame, timestamp: int) -> None:
        """Write records as JSON lines, including nulls."""
        try:
            rows = frame.selectExpr(_JSON_SQL)
            rows = rows if self._lines is None else rows.limit(self._lines)
            self._folder(timestamp).rows(safe(name), rows, self._per_file)
        except Exception as error:
            raise self.failed(error) from error

    def finish(self) -> None:
        """Write ``_FINISH``."""
        self._write(self.timestamp, "_FINISH", self.application)

    def _write(self, timestamp: int, name: str, text: str) -> None:
        try:
            self._folder(timestamp).write(name, [text])
        except Exception as error:
            raise self.failed(error) from error


class Folder(Protocol):
    """Protocol of a writable folder."""

    def write(self, name: str, lines: Iterable[str]) -> None:
        """Write a file of lines, replacing an existing one."""

    def rows(self, name: str, frame: DataFrame, per_file: int) -> None:
        """Write a frame with one string column."""


class LocalFolder:
    """Folder on the local disk."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, name: str, lines: Iterable[str]) -> None:
        """Write a file of lines atomically."""
        self.path.mkdir(parents=True, exist_ok=True)
        part = self.path / f".{name}.part"
        with part.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(f"{line}\n" for line in lines)
        part.replace(self.path / name)

    def rows(self, name: str, frame: DataFrame, per_file: int) -> None:
        """Write rows as they arrive, split into files; stale files of an earlier run are removed."""
        lines: Iterator[str] = (row[0] for row in frame.toLocalIterator())
        number = 0
        while (part := list(islice(lines, per_file))) or number == 0:
            self.write(f"{name}.{number}" if number else name, part)
            number += 1
        while (stale := self.path / f"{name}.{number}").exists():
            stale.unlink()
            number += 1


class SparkFolder:
    """Folder on a file system that Spark writes to."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self.spark, self.path = spark, path

    def write(self, name: str, lines: Iterable[str]) -> None:
        """Write a folder with one file."""
        frame = self.spark.createDataFrame([(line,) for line in lines], "value STRING")
        frame.coalesce(1).write.mode("overwrite").text(f"{self.path}/{name}")

    def rows(self, name: str, frame: DataFrame, per_file: int) -> None:
        """Write a folder of files."""
        writer = frame.write.mode("overwrite").option("maxRecordsPerFile", per_file)
        writer.text(f"{self.path}/{name}")


def safe(name: str) -> str:
    """Escape a name as a single path component.

    Examples
    --------
    >>> safe("miss records"), safe("../a"), safe(".."), safe("_START")
    ('miss records', '..%2Fa', '%2E%2E', '%5FSTART')
    """
    return _UNSAFE_CHARS.sub(
        lambda match: "".join(f"%{ord(letter):02X}" for letter in match[0]), name
    )


_METRICS_COLUMNS = "job STRING, tmst BIGINT, value STRING, application STRING"


class DatabaseSink(Sink):
    """Append rows to database tables over JDBC.

    Keys: ``url``, ``user``, ``password``, ``driver``, ``table``, ``records.table``, and ``options``
    of Spark's writer. ``table`` gets a row for each time, with the metrics as JSON;
    ``records.table``, if configured, a row for each record, as JSON. Missing tables are created,
    and rows are appended. Spark needs the database's driver.

    Parameters
    ----------
    name : str
        Name of the sink.
    config : mapping
        The sink's configuration.
    """

    required = ("url", "table")

    def check(self) -> None:
        """Validate the configuration, including the form of ``url``."""
        super().check()
        if not str(self.config["url"]).startswith("jdbc:"):
            raise GriffinConfigError(f"sink {self.name!r}: 'url' must begin with 'jdbc:'")
        if not isinstance(self.config.get("options", {}), Mapping):
            raise GriffinConfigError(f"sink {self.name!r}: 'options' must be a mapping")

    def metrics(self, timestamp: int, values: Mapping[str, Any]) -> None:
        """Append a row with the metrics of a time."""
        assert self.spark is not None, "a sink that writes with Spark needs a session"
        metrics = json.dumps(plain(values), ensure_ascii=False, allow_nan=False)
        row = (self.job, timestamp, metrics, self.application)
        self._add(self.spark.createDataFrame([row], _METRICS_COLUMNS), str(self.config["table"]))

    def records(self, name: str, frame: DataFrame, timestamp: int) -> None:
        """Append a row for each record, if a table for records is configured."""
        if table := self.config.get("records.table"):
            from pyspark.sql import functions as sf

            rows = frame.selectExpr(
                "to_json(struct(*), map('ignoreNullFields', 'false')) AS record"
            )
            labels = (
                sf.lit(self.job).alias("job"),
                sf.lit(timestamp).alias("tmst"),
                sf.lit(name).alias("name"),
            )
            self._add(rows.select(*labels, "record"), str(table))

    def _add(self, frame: DataFrame, table: str) -> None:
        keys = ("url", "user", "password", "driver")
        options = {key: str(self.config[key]) for key in keys if self.config.get(key)}
        url = options["url"]
        if driver := options.get("driver") or driver_of(url):
            options["driver"] = driver
        options["url"] = spark_url(url)
        options |= {str(key): str(value) for key, value in self.config.get("options", {}).items()}
        writer = frame.write.format("jdbc").mode("append").options(**options)
        try:
            writer.option("dbtable", table_name(url, table)).save()
        except Exception as error:
            raise self.failed(error, missing_driver(url, error)) from error


_MAX_TRIES = 100
_FIRST_PAUSE_SECONDS, _MAX_PAUSE_SECONDS = 0.1, 5.0
_RETRIED_STATUSES = {408, 425, 429, 500, 502, 503, 504}
"""HTTP status codes that are retried."""
_MAX_REASON_CHARS = 300


class HttpSink(Sink):
    """Send a JSON document for each time over HTTP; records are not sent.

    Keys: ``api``, ``method``, ``connection.timeout``, ``retry``, ``headers``.

    Parameters
    ----------
    name : str
        Name of the sink.
    config : mapping
        The sink's configuration.
    """

    required = ("api",)

    def check(self) -> None:
        """Validate the configuration."""
        super().check()
        api = str(self.config["api"])
        if urlsplit(api).scheme not in {"http", "https"}:
            msg = f"sink {self.name!r}: 'api' must begin with http:// or https://, not {hide_secrets(api)!r}"
            raise GriffinConfigError(msg)
        method = self._method
        if method not in {"POST", "PUT"}:
            msg = f"sink {self.name!r}: 'method' must be 'post' or 'put', not {method.lower()!r}"
            raise GriffinConfigError(msg)
        if not isinstance(self.config.get("headers", {}), Mapping):
            raise GriffinConfigError(f"sink {self.name!r}: 'headers' must be a mapping")
        _ = self._tries, self._timeout

    @property
    def _method(self) -> str:
        return str(self.config.get("method") or "post").upper()

    @property
    def _tries(self) -> int:
        return max(0, self.number("retry", 10, _MAX_TRIES)) + 1

    @property
    def _timeout(self) -> float:
        timeout_ms = self.time("connection.timeout", 60_000)
        return (timeout_ms if timeout_ms > 0 else 60_000) / 1000

    def metrics(self, timestamp: int, values: Mapping[str, Any]) -> None:
        """Send the metrics of a time, with retries and exponential backoff."""
        body = self.document(timestamp, values).encode()
        headers = {"Content-Type": "application/json", **self.config.get("headers", {})}
        url = str(self.config["api"])
        request = urllib.request.Request(url, body, headers, method=self._method)  # noqa: S310 - checked
        pause = _FIRST_PAUSE_SECONDS
        for tries_left in reversed(range(self._tries)):
            try:
                with urllib.request.urlopen(request, timeout=self._timeout) as answer:  # noqa: S310
                    answer.read()
                    return
            except OSError as error:
                status, reason = None, ""
                if isinstance(error, urllib.error.HTTPError):
                    status, reason = error.code, server_reason(error)
                if not tries_left or (status is not None and status not in _RETRIED_STATUSES):
                    tried = (
                        f" after {self._tries - tries_left} tries"
                        if self._tries - tries_left > 1
                        else ""
                    )
                    msg = f"sink {self.name!r}: {url}: {error}{reason}{tried}"
                    raise SinkError(hide_secrets(msg, self.config)) from error
            sleep(pause)
            pause = min(2 * pause, _MAX_PAUSE_SECONDS)


def server_reason(error: urllib.error.HTTPError) -> str:
    """Return the reason that Elasticsearch gives for a refusal, in brackets; empty if there is none.

    The answer is closed.
    """
    with error:
        try:
            answer = json.loads(error.read())["error"]
        except (OSError, ValueError, LookupError, TypeError):
            return ""
    reason = answer.get("reason") if isinstance(answer, Mapping) else answer
    return f" ({reason[:_MAX_REASON_CHARS]})" if isinstance(reason, str) else ""


class MongoSink(Sink):
    """Write a document for each job and time to MongoDB; records are not sent.

    Keys: ``url``, ``database``, ``collection``, ``over.time``.

    Parameters
    ----------
    name : str
        Name of the sink.
    config : mapping
        The sink's configuration.
    """

    required = ("url", "database", "collection")

    def check(self) -> None:
        """Validate the configuration, and that pymongo is installed."""
        super().check()
        _ = self.time("over.time", 60_000)
        try:
            importlib.import_module("pymongo")
        except ImportError as error:
            msg = f"sink {self.name!r}: MongoDB needs the package pymongo, which is not installed"
            raise SetupError(msg) from error

    def metrics(self, timestamp: int, values: Mapping[str, Any]) -> None:
        """Upsert the metrics of a time, replacing existing ones."""
        pymongo = importlib.import_module("pymongo")
        wait = self.time("over.time", 60_000)
        url = str(self.config["url"])
        address = url if "://" in url else f"mongodb://{url}"
        key = {"metricName": self.job, "timestamp": timestamp}
        document = {**key, "value": plain(values), "metadata": {"applicationId": self.application}}
        try:
            with pymongo.MongoClient(address, serverSelectionTimeoutMS=wait) as client:
                collection = client[self.config["database"]][self.config["collection"]]
                collection.replace_one(key, document, upsert=True)
        except Exception as error:
            raise self.failed(error) from error


def open_sinks(
    env: Env, names: Sequence[str] | None = None, spark: SparkSession | None = None
) -> dict[str, Sink]:
    """Return validated sinks of an environment by name.

    Parameters
    ----------
    env : Env
        The environment that configures the sinks.
    names : sequence of str, optional
        Case-insensitive names of the job's sinks; None for all, if the job configures none.
    spark : SparkSession, optional
        Session for sinks that write with Spark.

    Raises
    ------
    GriffinConfigError
        If the environment has no sink of a name, or a key of one is missing or invalid.
    SetupError
        If a package is missing; the message names it.

    Examples
    --------
    >>> env = Env(sinks=(SinkConfig("Out", "console"), SinkConfig("files", "hdfs", {"path": "/tmp"})))
    >>> list(open_sinks(env, ["out"]))
    ['Out']
    >>> open_sinks(env, ["fils"])
    Traceback (most recent call last):
        ...
    tidegauge.analyzers.core.errors.GriffinConfigError: the environment has no sink 'fils'; did you mean 'files'?
    """
    opened = {}
    for config in _select_sinks(env, names):
        sink: Sink = SINK_REGISTRY.load(config.type)(config.name, config.config)
        sink.spark = spark
        sink.check()
        opened[config.name] = sink
    return opened


def _select_sinks(env: Env, names: Sequence[str] | None) -> list[SinkConfig]:
    if names is None:
        return list(env.sinks)
    sinks = {sink.name.casefold(): sink for sink in env.sinks}
    for name in names:
        if name.casefold() not in sinks:
            hint = suggested(name, [sink.name for sink in env.sinks]) if sinks else "it has none"
            raise GriffinConfigError(f"the environment has no sink {name!r}; {hint}")
    return [sinks[name] for name in dict.fromkeys(name.casefold() for name in names)]
