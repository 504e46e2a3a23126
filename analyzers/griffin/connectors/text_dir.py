"""Folders of texts that were written whole and not read yet, as older versions have them."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from analyzers.errors import GriffinConfigError, GriffinDeprecationWarning
from analyzers.files import file_system
from analyzers.griffin.connectors.connector import Connector

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class TextDirConnector(Connector):
    """Folders ``data.dir.depth`` below ``dir.path`` that hold ``success.file`` and not ``done.file``, which they then get.

    Parameters
    ----------
    config : mapping
    """

    required = (("dir.path",),)

    def __init__(self, config: Mapping[str, Any]) -> None:
        msg = "the connector 'text-dir' is old; write 'file' with the format 'text'"
        warnings.warn(msg, GriffinDeprecationWarning, stacklevel=3)
        super().__init__(config)

    def check(self, spark: SparkSession) -> None:
        """Raise if a key is missing or cannot be."""
        super().check(spark)
        if not re.fullmatch("[0-9]{1,2}", self.text("data.dir.depth", default="0")):
            msg = "'data.dir.depth' must be a whole number from 0"
            raise GriffinConfigError(msg)

    def batch(self, spark: SparkSession) -> DataFrame:
        """Return the lines of all folders that are to be read, as ``value``."""
        from pyarrow import fs  # noqa: PLC0415 - heavy

        root = self.text("dir.path")
        system, base = file_system(root)
        done = self.text("done.file", default="_DONE")
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
        frame = spark.read.text([start + folder[len(base.rstrip("/")) :] for folder in ready])
        for folder in ready:
            with system.open_output_stream(f"{folder}/{done}"):
                pass
        return frame
