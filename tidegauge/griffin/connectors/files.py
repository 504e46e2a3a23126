"""File connectors: formats that Spark reads, and Avro with or without Spark's package."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any

from tidegauge.analyzers.core.errors import (
    GriffinConfigError,
    GriffinDeprecationWarning,
    GriffinWarning,
    PartitionColumnError,
    condition_of,
)
from tidegauge.analyzers.sources.folders import folder_format, open_folder
from tidegauge.analyzers.sources.sources import Source
from tidegauge.analyzers.sources.table_folders import DELTA
from tidegauge.griffin.connectors.base import Connector, has_format
from tidegauge.griffin.plugins import suggested
from tidegauge.spark.schemas import schema_from_ddl

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_FORMATS = ("parquet", "avro", "orc", "csv", "tsv", "json", "text")


class FileConnector(Connector):
    """Read files.

    Keys: ``format``, ``paths``, ``options`` of Spark's reader, ``schema`` and ``skipErrorPaths``.

    Parameters
    ----------
    config : mapping
    """

    required = (("paths", "path"),)

    @cached_property
    def format(self) -> str:
        """The format; ``tsv`` is ``csv`` with tabs.

        Raises
        ------
        GriffinConfigError
            If the format is unknown.
        """
        name = self.text("format", default="parquet").lower()
        if name not in _FORMATS:
            msg = f"unknown format {name!r}; {suggested(name, _FORMATS)}"
            raise GriffinConfigError(msg)
        return name

    @property
    def paths(self) -> list[str]:
        """The configured paths."""
        return self.texts("paths" if self.config.get("paths") else "path")

    def check(self, spark: SparkSession) -> None:
        """Validate the configuration, and that an Avro reader is available if needed."""
        super().check(spark)
        _ = self.paths
        options = {name.lower(): value for name, value in self.options().items()}
        self.schema(spark)
        named = options.get("header", "").lower() == "true" or self.config.get("schema")
        if self.format in {"csv", "tsv"} and not named:
            msg = "columns of csv have no names: write the option 'header' as 'true', or a 'schema'"
            raise GriffinConfigError(msg)
        if self.format == "avro" and not has_format(spark, "avro"):
            from tidegauge.griffin.connectors.avro import need_fastavro

            need_fastavro()

    def batch(self, spark: SparkSession) -> DataFrame:
        """Read the rows of all paths."""
        if not self._skipping():
            return self._read(spark, self.paths)
        there = [path for path in self.paths if self._is_there(spark, path)]
        if not there:
            msg = f"none of the paths can be read: {', '.join(self.paths)}"
            raise GriffinConfigError(msg)
        return self._read(spark, there)

    def stream(self, spark: SparkSession) -> DataFrame:
        """Read the rows of all current and future files of the folder."""
        if len(self.paths) != 1:
            msg = "a stream of files is read from one folder; there are several 'paths'"
            raise GriffinConfigError(msg)
        format = folder_format(spark, self.paths, self._spark_format)
        if self.format == "avro" and not has_format(spark, "avro"):
            from tidegauge.griffin.connectors import avro

            return avro.stream(spark, self.paths[0])
        schema = self.schema(spark)
        if schema is None and self.format != "text":
            schema = self._read(spark, self.paths).schema  # a stream does not infer it
        reader = spark.readStream.format(format).options(**self._options())
        return (reader if schema is None else reader.schema(schema)).load(self.paths[0])

    def partitioned(self, spark: SparkSession, keys: Sequence[str]) -> Source | None:
        """Return the folder as a source if Spark reads it and its subfolders are the partitions."""
        avro = self.format == "avro" and not has_format(spark, "avro")
        if avro or len(self.paths) != 1 or self.config.get("schema"):
            return None
        try:
            return open_folder(
                spark, self.paths[0], tuple(keys), self._spark_format, self._options()
            )
        except PartitionColumnError:  # the keys are columns in the files
            return None

    @property
    def _spark_format(self) -> str:
        return "csv" if self.format == "tsv" else self.format

    def _options(self) -> dict[str, str]:
        return {**({"sep": "\t"} if self.format == "tsv" else {}), **self.options()}

    def _read(self, spark: SparkSession, paths: list[str]) -> DataFrame:
        format = folder_format(spark, paths, self._spark_format)
        if self.format == "avro" and not has_format(spark, "avro"):
            from tidegauge.griffin.connectors import avro

            return avro.batch(spark, paths)
        reader = spark.read.format(format).options(**self._options())
        schema = self.schema(spark)
        if format != DELTA:
            return (reader if schema is None else reader.schema(schema)).load(paths)
        if schema is not None:
            msg = "a Delta table has a schema of its own: leave 'schema' out"
            raise GriffinConfigError(msg)
        frames = [reader.load(path) for path in paths]
        return reduce(lambda a, b: a.unionByName(b), frames)

    def _skipping(self) -> bool:
        asked = [self.config.get(key) for key in ("skipErrorPaths", "skipOnError")]
        return any(value is True or str(value).lower() == "true" for value in asked)

    def _is_there(self, spark: SparkSession, path: str) -> bool:
        from pyspark.errors import AnalysisException

        try:
            _ = self._read(spark, [path]).schema
        except AnalysisException as error:
            warnings.warn(f"left out {path!r}: {condition_of(error)}", GriffinWarning, stacklevel=2)
            return False
        return True

    def schema(self, spark: SparkSession) -> StructType | None:
        """Return the configured schema, with its column names, or None."""
        from pyspark.errors import PySparkException
        from pyspark.sql.types import StructType

        found = self.config.get("schema")
        if not found:
            return None
        schema = StructType()
        for column in found if isinstance(found, list | tuple) else [None]:
            if not isinstance(column, Mapping) or not {"name", "type"} <= set(column):
                msg = "'schema' must be a list of mappings with 'name', 'type' and 'nullable'"
                raise GriffinConfigError(msg)
            try:
                (field,) = schema_from_ddl(spark, f"c {column['type']}")
            except (PySparkException, ValueError) as error:
                msg = f"'schema': {column['type']!r} is no type"
                raise GriffinConfigError(msg) from error
            schema = schema.add(
                str(column["name"]),
                field.dataType,
                str(column.get("nullable", True)).lower() != "false",
            )
        return schema


class AvroConnector(FileConnector):
    """Read Avro files, in the deprecated configuration with ``file.path`` or ``file.name``."""

    required = (("file.path", "file.name"),)

    def __init__(self, config: Mapping[str, Any]) -> None:
        msg = "the connector 'avro' is deprecated; use 'file' with the format 'avro'"
        warnings.warn(msg, GriffinDeprecationWarning, stacklevel=3)
        super().__init__({**config, "format": "avro"})

    @property
    def paths(self) -> list[str]:
        """The single path; ``file.name`` is relative to ``file.path`` if both are given."""
        folder, name = self.text("file.path"), self.text("file.name")
        return [f"{folder.rstrip('/')}/{name}" if folder and name else folder or name]
