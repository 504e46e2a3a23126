"""Folder sink: files for each run, on the local disk or any file system that Spark writes to."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import unquote, urlsplit

from tidegauge.griffin.sinks.base import Sink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_UNSAFE = re.compile(r"[/\\:%\x00-\x1f\x7f]|^\.+$|^_")
_MOST = 1_000_000
_JSON = "to_json(struct(*), map('ignoreNullFields', 'false')) AS value"


class FolderSink(Sink):
    """Write files to ``<path>/<job>/<timestamp>/``.

    Keys: ``path``, ``max.persist.lines``, ``max.lines.per.file``. ``_START`` and ``_FINISH`` hold
    the application id, ``_METRICS`` a JSON document; each kind of records is a file of JSON lines,
    continued in ``.1``, ``.2`` ... A ``path`` without a scheme is on the local disk; on other file
    systems each of these is a folder of files written by Spark.

    Parameters
    ----------
    name : str
    config : mapping
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
        lines = self.number("max.lines.per.file", 10_000, _MOST)
        return lines if lines > 0 else _MOST

    def _folder(self, timestamp: int) -> Folder:
        path = str(self.config["path"])
        scheme = urlsplit(path).scheme
        if len(scheme) <= 1 or scheme == "file":  # a single letter is a drive
            local = Path(unquote(urlsplit(path).path) if scheme == "file" else path)
            return LocalFolder(local / safe(self.job) / str(timestamp))
        assert self.spark is not None, "a sink that writes by Spark is given one"
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
            rows = frame.selectExpr(_JSON)
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
        """Write a frame with one text column."""


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
    return _UNSAFE.sub(lambda match: "".join(f"%{ord(letter):02X}" for letter in match[0]), name)
