"""Deprecated text-dir connector: reads folders of text files that are complete and unread."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tidegauge.analyzers.core.errors import GriffinConfigError, GriffinDeprecationWarning
from tidegauge.analyzers.core.filesystems import file_system
from tidegauge.griffin.connectors.base import Connector

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class TextDirConnector(Connector):
    """Read unread folders of text files, and mark them as read.

    Reads the folders ``data.dir.depth`` levels below ``dir.path`` that hold ``success.file`` and
    not ``done.file``, which is created once their rows were measured.

    Parameters
    ----------
    config : mapping
    """

    required = (("dir.path",),)

    def __init__(self, config: Mapping[str, Any]) -> None:
        msg = "the connector 'text-dir' is deprecated; use 'file' with the format 'text'"
        warnings.warn(msg, GriffinDeprecationWarning, stacklevel=3)
        super().__init__(config)
        self._read: list[str] = []

    def check(self, spark: SparkSession) -> None:
        """Validate the configuration."""
        super().check(spark)
        if not re.fullmatch("[0-9]{1,2}", self.text("data.dir.depth", default="0")):
            msg = "'data.dir.depth' must be a whole number from 0"
            raise GriffinConfigError(msg)

    def batch(self, spark: SparkSession) -> DataFrame:
        """Return the lines of all unread folders as ``value``."""
        from pyarrow import fs

        root = self.text("dir.path")
        system, base = file_system(root)
        done = self._done
        success = self.text("success.file", default="_SUCCESS")
        level = [base.rstrip("/")]
        for _ in range(int(self.text("data.dir.depth", default="0"))):
            below = [
                info for folder in level for info in system.get_file_info(fs.FileSelector(folder))
            ]
            level = [info.path for info in below if info.type == fs.FileType.Directory]

        def holds(folder: str, name: str) -> bool:
            return bool(system.get_file_info(f"{folder}/{name}").type == fs.FileType.File)

        ready = sorted(f for f in level if holds(f, success) and not holds(f, done))
        if not ready:
            msg = f"below {root!r} no folder is to be read: none has {success!r} and lacks {done!r}"
            raise GriffinConfigError(msg)
        start = root.rstrip("/")
        self._read = ready
        return spark.read.text([start + folder[len(base.rstrip("/")) :] for folder in ready])

    def columns(self, spark: SparkSession) -> DataFrame:
        """Return the column of lines, without rows."""
        return spark.createDataFrame([], "value STRING")

    def finish(self) -> None:
        """Mark the folders that `batch` read."""
        system, _ = file_system(self.text("dir.path"))
        for folder in self._read:
            with system.open_output_stream(f"{folder}/{self._done}"):
                pass

    @property
    def _done(self) -> str:
        return self.text("done.file", default="_DONE")
