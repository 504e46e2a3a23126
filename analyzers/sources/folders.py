"""Open a folder as a source: plain files by their names, a Delta table by its log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidegauge.analyzers.core.errors import SourceError, TableFormatError, describe
from tidegauge.analyzers.core.filesystems import absolute
from tidegauge.analyzers.core.secrets import hide_secrets
from tidegauge.analyzers.sources.path_source import PathSource
from tidegauge.analyzers.sources.sources import (
    FrameSource,
    Source,
    list_plain_files,
)
from tidegauge.analyzers.sources.table_folders import (
    DELTA,
    TABLE_FORMATS,
    is_same_folder,
    lacks_delta,
    refusal,
    table_around,
)
from tidegauge.analyzers.sources.table_formats import LoggedTable, delta_keys, has_exact_texts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession

_VERSION_OPTIONS = {"versionasof", "timestampasof", "readchangefeed", "readchangedata"}
"""Options of Delta's reader by which it does not read the newest snapshot, in lower case."""


@dataclass
class DeltaFolder(LoggedTable):
    """A Delta table that is given by its folder, and need not be in a catalog.

    Attributes
    ----------
    options : mapping of str to str
        Options of Spark's reader.
    """

    options: Mapping[str, str] = field(default_factory=dict, repr=False)  # may hold passwords

    def _refresh(self) -> None:
        """Do nothing: Delta looks for a newer snapshot whenever a folder is loaded."""

    def _read_snapshot(self) -> DataFrame:
        reader = self.spark.read.format(DELTA).options(**self.options)
        if self.snapshot is not None:
            reader = reader.option("versionAsOf", self.snapshot)
        return reader.load(self.location)


def open_folder(
    spark: SparkSession,
    name: str,
    keys: Sequence[str] | None = None,
    format: str = "parquet",
    options: Mapping[str, str] | None = None,
) -> Source:
    """Open a folder as a source.

    Parameters
    ----------
    spark : SparkSession
    name : str
        The folder, as a path or URI.
    keys : sequence of str, optional
        The partition columns; all if not given.
    format : str
        Format of the files. A Delta table's folder is read as such if this is ``delta`` or ``parquet``.
    options : mapping, optional
        Options of Spark's reader.

    Raises
    ------
    TableFormatError
        If the folder belongs to a table that cannot be read by its folder.
    NoSuchTableError
        If it has no data files.
    """
    table = table_around(spark, name)
    if table is None:
        if format.casefold() in TABLE_FORMATS:
            kind = TABLE_FORMATS[format.casefold()]
            msg = f"{hide_secrets(name)!r} has format: {format}, but no {kind} table is there; leave format: out"
            raise TableFormatError(msg)
        return PathSource(spark, name, keys, format, options or {})  # type: ignore[arg-type]
    if table.format != DELTA or not is_same_folder(table.location, name):
        raise refusal(spark, table, name)
    if format.casefold() not in {DELTA, "parquet"}:
        msg = f"{hide_secrets(name)!r} is a Delta table: give the format 'delta', not {format!r}"
        raise TableFormatError(msg)
    return _delta_folder(spark, name, keys, options or {})


def folder_format(spark: SparkSession, paths: Sequence[str], format: str) -> str:
    """Return the format by which Spark reads folders as they are: ``delta`` for Delta tables.

    Parameters
    ----------
    spark : SparkSession
    paths : sequence of str
        Folders or files.
    format : str
        The format of plain files.

    Raises
    ------
    TableFormatError
        If they belong to tables that cannot be read by their folders, or if only some are Delta tables.
    """
    tables = {path: table_around(spark, path) for path in paths}
    is_delta = format in {DELTA, "parquet"} and all(
        table is not None and table.format == DELTA and is_same_folder(table.location, path)
        for path, table in tables.items()
    )
    if is_delta:
        _read_delta(spark.read, paths[0])
        return DELTA
    for path, table in tables.items():
        if table is not None:
            raise refusal(spark, table, path)
        list_plain_files(spark, path)
    return format


def _delta_folder(
    spark: SparkSession, name: str, keys: Sequence[str] | None, options: Mapping[str, str]
) -> Source:
    for option in options:
        if option.casefold() in _VERSION_OPTIONS:
            msg = (
                f"option {option!r} of {hide_secrets(name)!r}: a run reads the newest version of a Delta"
                " table; leave the option out, or give a view of the version that you mean"
            )
            raise SourceError(msg)
    location = absolute(name).rstrip("/")
    source = DeltaFolder(spark, name, (), DELTA, location, options=options)
    data = _read_delta(spark.read.options(**options), name)
    source.keys = delta_keys(spark, location)
    source.choose_keys(keys, f"Delta table {hide_secrets(name)!r}")
    if has_exact_texts(data, source.keys):
        return source
    return FrameSource(data, source.keys, name)


def _read_delta(reader: DataFrameReader, name: str) -> DataFrame:
    """Return the rows of the Delta table in a folder; raise if the session has no Delta Lake."""
    try:
        data = reader.format(DELTA).load(absolute(name))
        _ = data.schema  # Spark Connect raises only here
    except Exception as error:
        reason = describe(error)
        if "DATA_SOURCE_NOT_FOUND" in reason:
            raise lacks_delta(name) from error
        msg = f"cannot read the Delta table {hide_secrets(name)!r}: {reason}"
        raise SourceError(msg) from error
    return data
