"""File connectors: formats that Spark reads, Avro with or without Spark's package, and ``text-dir``.

Without the package, Spark lists the Avro files and fastavro parses them in workers. Types map as in
Spark's own reader; times of day, which it does not support, become integers. Supported unions are
those with null, of ``int`` and ``long``, and of ``float`` and ``double``; others require the package.
The deprecated ``text-dir`` reads folders of text files that are complete and unread.
"""

from __future__ import annotations

import datetime as dt
import io
import json
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any

from tidegauge.analyzers.core.errors import (
    GriffinConfigError,
    GriffinDeprecationWarning,
    GriffinWarning,
    PartitionColumnError,
    SetupError,
    condition_of,
)
from tidegauge.analyzers.core.filesystems import file_system
from tidegauge.analyzers.core.sql import quote
from tidegauge.analyzers.sources.opening import folder_format, open_folder
from tidegauge.analyzers.sources.sources import DELTA, Source
from tidegauge.griffin.connectors import Connector, has_format, spark_package
from tidegauge.griffin.plugins import suggested
from tidegauge.spark.session import schema_from_ddl

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


_AVRO_PACKAGE = "spark-avro"
_SQL_TYPE_NAMES = {
    "null": "VOID", "bool": "BOOLEAN", "int32": "INT", "int64": "BIGINT", "float": "FLOAT",
    "double": "DOUBLE", "binary": "BINARY", "string": "STRING", "date32[day]": "DATE",
    "timestamp[us, tz=UTC]": "TIMESTAMP", "timestamp[us]": "TIMESTAMP_NTZ",
}  # fmt: skip
_ROWS_PER_BATCH = 5_000
"""Rows per Arrow batch."""

Conversion = Callable[[Any], Any]


def need_fastavro() -> None:
    """Raise `SetupError` if fastavro is not installed."""
    try:
        import fastavro  # noqa: F401 - optional dependency
    except ImportError as error:
        msg = (
            "no Avro reader is available: install tidegauge[avro],"
            f" or start Spark with spark.jars.packages={spark_package(_AVRO_PACKAGE)}"
        )
        raise SetupError(msg) from error


def batch(spark: SparkSession, paths: list[str]) -> DataFrame:
    """Read Avro files as a batch frame."""
    files = spark.read.format("binaryFile").load(paths)
    return _parsed(files, spark, paths)


def stream(spark: SparkSession, path: str) -> DataFrame:
    """Read a folder of Avro files as a stream; the existing files determine the columns."""
    files = spark.read.format("binaryFile").load(path)
    coming = spark.readStream.format("binaryFile").schema(files.schema).load(path)
    return _parsed(coming, spark, [path])


def _parsed(files: DataFrame, spark: SparkSession, paths: list[str]) -> DataFrame:
    first = spark.read.format("binaryFile").load(paths).select("content").limit(1)
    schemas = first.mapInArrow(_schemas, "schema STRING").collect()
    if not schemas:
        raise GriffinConfigError(f"found no files in {', '.join(paths)}")
    text = schemas[0][0]
    kind, _ = typed(json.loads(text))
    columns = ", ".join(f"{quote(field.name)} {_sql_type(field.type)}" for field in _schema(kind))
    return files.select("content").mapInArrow(_Reader(text), columns)


def _schemas(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the Avro schema of each file."""
    import fastavro
    import pyarrow as pa

    for batch in batches:
        for content in batch.column("content"):
            schema = fastavro.reader(io.BytesIO(content.as_buffer())).writer_schema
            yield pa.RecordBatch.from_pydict({"schema": [json.dumps(schema)]})


class _Reader:
    """Convert files to Arrow batches of one schema; files with another are resolved to it."""

    def __init__(self, schema: str) -> None:
        self.schema = schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import fastavro
        import pyarrow as pa

        schema_json = json.loads(self.schema)
        kind, convert = typed(schema_json)
        schema = _schema(kind)
        for batch in batches:
            for content in batch.column("content"):
                rows: list[Any] = []
                for row in fastavro.reader(io.BytesIO(content.as_buffer()), schema_json):
                    rows.append(convert(row) if convert else row)
                    if len(rows) == _ROWS_PER_BATCH:
                        yield pa.RecordBatch.from_pylist(rows, schema)
                        rows = []
                yield pa.RecordBatch.from_pylist(rows, schema)


def _schema(kind: pa.DataType) -> pa.Schema:
    import pyarrow as pa

    return pa.schema([kind.field(number) for number in range(kind.num_fields)])


def _sql_type(kind: pa.DataType) -> str:
    """Return the Spark SQL name of an Arrow type."""
    import pyarrow as pa

    if pa.types.is_struct(kind):
        fields = [kind.field(number) for number in range(kind.num_fields)]
        return f"STRUCT<{', '.join(f'{quote(f.name)}: {_sql_type(f.type)}' for f in fields)}>"
    if pa.types.is_list(kind):
        return f"ARRAY<{_sql_type(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"MAP<STRING, {_sql_type(kind.item_type)}>"
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    return _SQL_TYPE_NAMES[str(kind)]


def typed(
    schema: Any, named_types: dict[str, Any] | None = None
) -> tuple[pa.DataType, Conversion | None]:
    """Return the Arrow type of an Avro schema, and a converter for fastavro's values, if needed.

    Parameters
    ----------
    schema : object
        Parsed JSON of the schema, with full names.
    named_types : dict of str to object, optional
        Named types defined earlier.

    Raises
    ------
    GriffinConfigError
        For a union or a recursive type that only Spark's package can read.

    Examples
    --------
    >>> typed({"type": "array", "items": ["null", "long"]})[0]
    ListType(list<item: int64>)
    """
    named_types = {} if named_types is None else named_types
    if isinstance(schema, list):
        return _union(schema, named_types)
    if isinstance(schema, str):
        if schema in named_types:
            return typed(named_types[schema], {k: v for k, v in named_types.items() if k != schema})
        schema = {"type": schema}
    kind = schema["type"]
    if isinstance(kind, dict | list):
        return typed(kind, named_types)
    if "name" in schema:
        named_types[schema["name"]] = schema
    if kind in {"record", "error"}:
        return _record(schema, named_types)
    return _nested(kind, schema, named_types) or _plain(kind, schema)


def _record(
    schema: Mapping[str, Any], named_types: dict[str, Any]
) -> tuple[pa.DataType, Conversion | None]:
    import pyarrow as pa

    fields = {field["name"]: typed(field["type"], named_types) for field in schema["fields"]}
    kind = pa.struct([pa.field(name, data_type) for name, (data_type, _) in fields.items()])
    changed = {name: convert for name, (_, convert) in fields.items() if convert}
    if not changed:
        return kind, None

    def converted(row: dict[str, Any]) -> dict[str, Any]:
        return {**row, **{n: None if row[n] is None else c(row[n]) for n, c in changed.items()}}

    return kind, converted


def _nested(
    kind: str, schema: Mapping[str, Any], named_types: dict[str, Any]
) -> tuple[pa.DataType, Conversion | None] | None:
    import pyarrow as pa

    if kind == "array":
        data_type, convert = typed(schema["items"], named_types)
        if convert is None:
            return pa.list_(data_type), None
        return pa.list_(data_type), lambda items: [None if i is None else convert(i) for i in items]
    if kind == "map":
        data_type, convert = typed(schema["values"], named_types)
        change = convert or (lambda value: value)
        return pa.map_(pa.string(), data_type), lambda mapping: [
            (key, None if value is None else change(value)) for key, value in mapping.items()
        ]
    return None


def _plain(kind: str, schema: Mapping[str, Any]) -> tuple[pa.DataType, Conversion | None]:
    import pyarrow as pa

    plain = {
        "null": pa.null, "boolean": pa.bool_, "int": pa.int32, "long": pa.int64,
        "float": pa.float32, "double": pa.float64, "bytes": pa.binary, "fixed": pa.binary,
        "string": pa.string, "enum": pa.string,
    }  # fmt: skip
    if kind not in plain:
        msg = f"only Spark's Avro package reads the type {kind!r}: start Spark with spark.jars.packages={spark_package(_AVRO_PACKAGE)}"
        raise GriffinConfigError(msg)
    logical: tuple[pa.DataType, Conversion | None]
    match kind, schema.get("logicalType"):
        case ("int", "date"):
            logical = pa.date32(), None
        case ("long", "timestamp-millis" | "timestamp-micros"):
            logical = pa.timestamp("us", "UTC"), None
        case ("long", "local-timestamp-millis" | "local-timestamp-micros"):
            logical = pa.timestamp("us"), None
        case ("bytes" | "fixed", "decimal"):
            logical = pa.decimal128(schema["precision"], schema.get("scale", 0)), None
        case ("string", "uuid"):
            logical = pa.string(), str
        case ("int", "time-millis"):
            logical = pa.int32(), lambda time: _micros(time) // 1_000
        case ("long", "time-micros"):
            logical = pa.int64(), _micros
        case _:
            logical = plain[kind](), None
    return logical


def _union(schema: list[Any], named_types: dict[str, Any]) -> tuple[pa.DataType, Conversion | None]:
    import pyarrow as pa

    non_null = [member for member in schema if member != "null"]
    if len(non_null) == 1:
        return typed(non_null[0], named_types)
    wide = {frozenset(("int", "long")): pa.int64(), frozenset(("float", "double")): pa.float64()}
    data_type = (
        wide.get(frozenset(member for member in non_null if isinstance(member, str)))
        if non_null
        else pa.null()
    )
    if data_type is None or not all(isinstance(member, str) for member in non_null):
        msg = f"only Spark's Avro package reads a union of several types: start Spark with spark.jars.packages={spark_package(_AVRO_PACKAGE)}"
        raise GriffinConfigError(msg)
    return data_type, None


def _micros(time: dt.time) -> int:
    return ((time.hour * 60 + time.minute) * 60 + time.second) * 1_000_000 + time.microsecond


_FILE_FORMATS = ("parquet", "avro", "orc", "csv", "tsv", "json", "text")


class FileConnector(Connector):
    """Read files.

    Keys: ``format``, ``paths``, ``options`` of Spark's reader, ``schema`` and ``skipErrorPaths``.

    Parameters
    ----------
    config : mapping
        The connector's configuration.
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
        if name not in _FILE_FORMATS:
            raise GriffinConfigError(f"unknown format {name!r}; {suggested(name, _FILE_FORMATS)}")
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
        has_names = options.get("header", "").lower() == "true" or self.config.get("schema")
        if self.format in {"csv", "tsv"} and not has_names:
            msg = "the columns of a csv file have no names: set the option 'header' to 'true', or give a 'schema'"
            raise GriffinConfigError(msg)
        if self.format == "avro" and not has_format(spark, "avro"):
            need_fastavro()

    def batch(self, spark: SparkSession) -> DataFrame:
        """Read the rows of all paths."""
        if not self._skipping():
            return self._read(spark, self.paths)
        existing = [path for path in self.paths if self._is_there(spark, path)]
        if not existing:
            raise GriffinConfigError(f"none of the paths can be read: {', '.join(self.paths)}")
        return self._read(spark, existing)

    def stream(self, spark: SparkSession) -> DataFrame:
        """Read the rows of all current and future files of the folder."""
        if len(self.paths) != 1:
            raise GriffinConfigError("a stream can read only one folder, but 'paths' has several")
        format = folder_format(spark, self.paths, self._spark_format)
        if self.format == "avro" and not has_format(spark, "avro"):
            return stream(spark, self.paths[0])
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
            return batch(spark, paths)
        reader = spark.read.format(format).options(**self._options())
        schema = self.schema(spark)
        if format != DELTA:
            return (reader if schema is None else reader.schema(schema)).load(paths)
        if schema is not None:
            raise GriffinConfigError("a Delta table has its own schema: remove 'schema'")
        frames = [reader.load(path) for path in paths]
        return reduce(lambda a, b: a.unionByName(b), frames)

    def _skipping(self) -> bool:
        settings = [self.config.get(key) for key in ("skipErrorPaths", "skipOnError")]
        return any(value is True or str(value).lower() == "true" for value in settings)

    def _is_there(self, spark: SparkSession, path: str) -> bool:
        from pyspark.errors import AnalysisException

        try:
            _ = self._read(spark, [path]).schema
        except AnalysisException as error:
            warnings.warn(f"skipped {path!r}: {condition_of(error)}", GriffinWarning, stacklevel=2)
            return False
        return True

    def schema(self, spark: SparkSession) -> StructType | None:
        """Return the configured schema, with its column names, or None."""
        from pyspark.errors import PySparkException
        from pyspark.sql.types import StructType

        columns = self.config.get("schema")
        if not columns:
            return None
        schema = StructType()
        for column in columns if isinstance(columns, list | tuple) else [None]:
            if not isinstance(column, Mapping) or not {"name", "type"} <= set(column):
                msg = "'schema' must be a list of mappings with 'name', 'type' and 'nullable'"
                raise GriffinConfigError(msg)
            try:
                (field,) = schema_from_ddl(spark, f"c {column['type']}")
            except (PySparkException, ValueError) as error:
                raise GriffinConfigError(f"'schema': {column['type']!r} is not a type") from error
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


class TextDirConnector(Connector):
    """Read unread folders of text files, and mark them as read.

    Reads the folders ``data.dir.depth`` levels below ``dir.path`` that hold ``success.file`` and
    not ``done.file``, which is created after their rows were measured.

    Parameters
    ----------
    config : mapping
        The connector's configuration.
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
            raise GriffinConfigError("'data.dir.depth' must be a whole number from 0")

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
            msg = f"no folder to read below {root!r}: none has {success!r} but not {done!r}"
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
