"""Avro reader without Spark's package: Spark lists files, fastavro parses them in workers.

Types map as in Spark's own reader; times of day, which it does not support, become integers.
Supported unions are those with null, of ``int`` and ``long``, and of ``float`` and ``double``;
others require Spark's package.
"""

from __future__ import annotations

import datetime as dt
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tidegauge.analyzers.core.errors import GriffinConfigError, SetupError
from tidegauge.analyzers.core.sql import quote
from tidegauge.griffin.connectors.base import spark_package

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_PACKAGE = "spark-avro"
_NAMES = {
    "null": "VOID",
    "bool": "BOOLEAN",
    "int32": "INT",
    "int64": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "binary": "BINARY",
    "string": "STRING",
    "date32[day]": "DATE",
    "timestamp[us, tz=UTC]": "TIMESTAMP",
    "timestamp[us]": "TIMESTAMP_NTZ",
}
_ROWS = 5_000
"""Rows per Arrow batch."""

Conversion = Callable[[Any], Any]


def need_fastavro() -> None:
    """Raise `SetupError` if fastavro is not installed."""
    try:
        import fastavro  # noqa: F401 - optional dependency
    except ImportError as error:
        msg = (
            "nothing here reads Avro: install tidegauge[avro],"
            f" or start Spark with spark.jars.packages={spark_package(_PACKAGE)}"
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
    found = first.mapInArrow(_schemas, "schema STRING").collect()
    if not found:
        msg = f"there are no files in {', '.join(paths)}"
        raise GriffinConfigError(msg)
    text = found[0][0]
    kind, _ = typed(json.loads(text))
    columns = ", ".join(f"{quote(field.name)} {_sql_type(field.type)}" for field in _schema(kind))
    return files.select("content").mapInArrow(_Reader(text), columns)


def _schemas(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the Avro schema of each file."""
    import fastavro
    import pyarrow as pa

    for some in batches:
        for content in some.column("content"):
            schema = fastavro.reader(io.BytesIO(content.as_buffer())).writer_schema
            yield pa.RecordBatch.from_pydict({"schema": [json.dumps(schema)]})


class _Reader:
    """Convert files to Arrow batches of one schema; files with another are resolved to it."""

    def __init__(self, schema: str) -> None:
        self.schema = schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import fastavro
        import pyarrow as pa

        wanted = json.loads(self.schema)
        kind, convert = typed(wanted)
        schema = _schema(kind)
        for some in batches:
            for content in some.column("content"):
                rows: list[Any] = []
                for row in fastavro.reader(io.BytesIO(content.as_buffer()), wanted):
                    rows.append(convert(row) if convert else row)
                    if len(rows) == _ROWS:
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
    return _NAMES[str(kind)]


def typed(
    schema: Any, known: dict[str, Any] | None = None
) -> tuple[pa.DataType, Conversion | None]:
    """Return the Arrow type of an Avro schema, and a converter for fastavro's values, if needed.

    Parameters
    ----------
    schema : object
        Parsed JSON of the schema, with full names.
    known : dict of str to object, optional
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
    known = {} if known is None else known
    if isinstance(schema, list):
        return _union(schema, known)
    if isinstance(schema, str):
        if schema in known:
            return typed(known[schema], {k: v for k, v in known.items() if k != schema})
        schema = {"type": schema}
    kind = schema["type"]
    if isinstance(kind, dict | list):
        return typed(kind, known)
    if "name" in schema:
        known[schema["name"]] = schema
    if kind in {"record", "error"}:
        return _record(schema, known)
    return _nested(kind, schema, known) or _plain(kind, schema)


def _record(
    schema: Mapping[str, Any], known: dict[str, Any]
) -> tuple[pa.DataType, Conversion | None]:
    import pyarrow as pa

    fields = {field["name"]: typed(field["type"], known) for field in schema["fields"]}
    kind = pa.struct([pa.field(name, of) for name, (of, _) in fields.items()])
    changed = {name: convert for name, (_, convert) in fields.items() if convert}
    if not changed:
        return kind, None

    def converted(row: dict[str, Any]) -> dict[str, Any]:
        return {**row, **{n: None if row[n] is None else c(row[n]) for n, c in changed.items()}}

    return kind, converted


def _nested(
    kind: str, schema: Mapping[str, Any], known: dict[str, Any]
) -> tuple[pa.DataType, Conversion | None] | None:
    import pyarrow as pa

    if kind == "array":
        of, convert = typed(schema["items"], known)
        if convert is None:
            return pa.list_(of), None
        return pa.list_(of), lambda items: [None if i is None else convert(i) for i in items]
    if kind == "map":
        of, convert = typed(schema["values"], known)
        change = convert or (lambda value: value)
        return pa.map_(pa.string(), of), lambda found: [
            (key, None if value is None else change(value)) for key, value in found.items()
        ]
    return None


def _plain(kind: str, schema: Mapping[str, Any]) -> tuple[pa.DataType, Conversion | None]:
    import pyarrow as pa

    plain = {
        "null": pa.null,
        "boolean": pa.bool_,
        "int": pa.int32,
        "long": pa.int64,
        "float": pa.float32,
        "double": pa.float64,
        "bytes": pa.binary,
        "fixed": pa.binary,
        "string": pa.string,
        "enum": pa.string,
    }
    if kind not in plain:
        msg = f"type {kind!r} of Avro is read by Spark's package only: start it with spark.jars.packages={spark_package(_PACKAGE)}"
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


def _union(schema: list[Any], known: dict[str, Any]) -> tuple[pa.DataType, Conversion | None]:
    import pyarrow as pa

    of = [one for one in schema if one != "null"]
    if len(of) == 1:
        return typed(of[0], known)
    wide = {frozenset(("int", "long")): pa.int64(), frozenset(("float", "double")): pa.float64()}
    found = wide.get(frozenset(one for one in of if isinstance(one, str))) if of else pa.null()
    if found is None or not all(isinstance(one, str) for one in of):
        msg = f"a union of several types is read by Spark's package only: start it with spark.jars.packages={spark_package(_PACKAGE)}"
        raise GriffinConfigError(msg)
    return found, None


def _micros(time: dt.time) -> int:
    return ((time.hour * 60 + time.minute) * 60 + time.second) * 1_000_000 + time.microsecond
