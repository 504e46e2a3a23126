"""Frame operations of ``df-opr`` rules, extensible by registration or entry point."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from tidegauge.analyzers.core.errors import GriffinConfigError, NoSuchColumnError
from tidegauge.analyzers.core.partitions import TMST
from tidegauge.analyzers.core.sql import literal, quote
from tidegauge.griffin.plugins import PluginRegistry, suggested
from tidegauge.spark.session import read_json, schema_from_ddl

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

Operation = Callable[["DataFrame", Mapping[str, Any]], "DataFrame"]
"""Maps a frame and the rule's details to a frame."""

O = TypeVar("O", bound=Operation)  # noqa: E741 - an operation

OPERATION_REGISTRY = PluginRegistry("operation", "tidegauge.griffin.operations", {})
CORRUPT_COLUMN = "_corrupt_record"
_PARSE_MODES = ("PERMISSIVE", "DROPMALFORMED", "FAILFAST")


def frame_operation(name: str) -> Callable[[O], O]:
    """Register a function as an operation of ``df-opr`` rules.

    Parameters
    ----------
    name : str
        Case-insensitive name; an existing operation is replaced.

    Examples
    --------
    >>> @frame_operation("first_rows")
    ... def first_rows(frame, details):
    ...     return frame.limit(details["rows"])
    >>> "first_rows" in OPERATION_REGISTRY
    True
    """

    def register(function: O) -> O:
        OPERATION_REGISTRY.entries[name.lower()] = function
        return function

    return register


def operate(name: str, frame: DataFrame, details: Mapping[str, Any]) -> DataFrame:
    """Apply an operation to a frame.

    Parameters
    ----------
    name : str
        Name of the operation: the rule's text.
    frame : DataFrame
        The frame to change.
    details : mapping
        The rule's details.

    Raises
    ------
    GriffinConfigError
        If the operation does not exist, suggesting the nearest, or details are invalid.
    NoSuchColumnError
        If a required column does not exist.
    """
    operation: Operation = OPERATION_REGISTRY.load(name.strip())
    return operation(frame, details)


@frame_operation("from_json")
def from_json(frame: DataFrame, details: Mapping[str, Any]) -> DataFrame:
    """Parse a column of JSON text into columns.

    Parameters
    ----------
    frame : DataFrame
        The frame to change.
    details : mapping
        ``col.name``, the text column (default: the first); ``schema``, the fields as DDL (default:
        inferred by reading the strings once, which a stream does not support); ``mode``, the handling
        of invalid JSON: ``PERMISSIVE`` keeps it in ``_corrupt_record``, ``DROPMALFORMED`` drops it,
        ``FAILFAST`` raises; ``keep.columns``, true or a list of other columns to keep.

    Raises
    ------
    GriffinConfigError
        If details are invalid, or a stream has no ``schema``.
    NoSuchColumnError
    """
    from pyspark.sql import functions as sf
    from pyspark.sql.types import StringType

    column = _column(frame, str(details.get("col.name") or frame.columns[0]))
    mode = str(details.get("mode") or "PERMISSIVE").upper()
    if mode not in _PARSE_MODES:
        msg = f"unknown mode {mode!r}; {suggested(mode, _PARSE_MODES)}"
        raise GriffinConfigError(msg)
    strings = frame.select(sf.col(quote(column)).cast("string").alias("value"))
    schema = _schema(strings, details.get("schema"))
    fields = [field.name for field in schema if field.name != CORRUPT_COLUMN]
    has_corrupt_column = CORRUPT_COLUMN in schema.names or bool(details.get("schema"))
    if CORRUPT_COLUMN not in schema.names:
        schema = schema.add(CORRUPT_COLUMN, StringType())
    options = {
        "mode": "FAILFAST" if mode == "FAILFAST" else "PERMISSIVE",
        "columnNameOfCorruptRecord": CORRUPT_COLUMN,
    }
    read = "__json"
    kept_columns = _columns_to_keep(
        frame, column, details.get("keep.columns"), {*fields, CORRUPT_COLUMN}
    )
    parsed = sf.from_json(sf.col(quote(column)).cast("string"), schema, options).alias(read)
    rows = frame.select(*[quote(name) for name in kept_columns], parsed)
    if mode == "DROPMALFORMED":
        rows = rows.where(f"{quote(read)}.{quote(CORRUPT_COLUMN)} IS NULL")
    selected = [*fields, *([CORRUPT_COLUMN] if has_corrupt_column and mode == "PERMISSIVE" else [])]
    return rows.select(
        *[quote(name) for name in kept_columns],
        *[sf.col(f"{quote(read)}.{quote(name)}").alias(name) for name in selected],
    )


@frame_operation("accuracy")
def accuracy(frame: DataFrame, details: Mapping[str, Any]) -> DataFrame:
    """Compute the matched rows and their fraction from the counts of missed and of all rows.

    One row for each row of the frame with a total above 0: ``__tmst`` if present, ``miss``,
    ``total``, ``matched``, ``matchedFraction``; ``__record``, true if its records are written,
    which they always are; ``__empty``, true if there are none.

    Parameters
    ----------
    frame : DataFrame
        Counts in the columns ``miss`` (null is 0) and ``total``.
    details : mapping
        Other names of the four columns.

    Raises
    ------
    NoSuchColumnError
    """
    name = {
        key: str(details.get(key) or key) for key in ("miss", "total", "matched", "matchedFraction")
    }
    miss, total = (quote(_column(frame, name[key])) for key in ("miss", "total"))
    counted = frame.selectExpr(
        *([quote(TMST)] if TMST in frame.columns else []),
        f"coalesce(CAST({miss} AS BIGINT), 0L) AS {quote(name['miss'])}",
        f"CAST({total} AS BIGINT) AS {quote(name['total'])}",
    ).where(f"{quote(name['total'])} > 0")
    miss, total = quote(name["miss"]), quote(name["total"])
    return counted.selectExpr(
        "*",
        f"{total} - {miss} AS {quote(name['matched'])}",
        f"({total} - {miss}) / CAST({total} AS DOUBLE) AS {quote(name['matchedFraction'])}",
        "true AS `__record`",
        f"{miss} = 0 AS `__empty`",
    )


@frame_operation("clear")
def clear(frame: DataFrame, _: Mapping[str, Any]) -> DataFrame:
    """Return an empty frame with the same columns."""
    return frame.limit(0)


def _column(frame: DataFrame, name: str) -> str:
    """Return a column's name as the frame spells it, ignoring case."""
    spelled = next((c for c in frame.columns if c.casefold() == name.casefold()), None)
    if spelled is None:
        raise NoSuchColumnError(name, frame.columns)
    return spelled


def _schema(strings: DataFrame, configured: object) -> StructType:
    """Return the given schema of JSON text, or infer it by reading the column."""
    from pyspark.errors import PySparkException

    if configured:
        try:
            return schema_from_ddl(strings.sparkSession, str(configured))
        except PySparkException as error:
            msg = f"'schema' is not a list of columns: {literal(str(configured))}"
            raise GriffinConfigError(msg) from error
    if strings.isStreaming:
        msg = "a stream cannot be read to infer its columns; set the 'schema' of its JSON in the details"
        raise GriffinConfigError(msg)
    return read_json(strings).schema


def _columns_to_keep(
    frame: DataFrame, column: str, setting: object, replaced: set[str]
) -> list[str]:
    """Return the columns to keep; JSON fields of the same name replace them."""
    if isinstance(setting, list | tuple):
        names = [_column(frame, str(name)) for name in setting]
    else:
        everything = setting is True or str(setting).lower() == "true"
        names = [c for c in frame.columns if (everything and c != column) or c == TMST]
    return [name for name in names if name not in replaced]
