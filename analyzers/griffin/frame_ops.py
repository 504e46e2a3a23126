"""Operations on frames, which rules of type ``df-opr`` name; more of them by registration or entry point."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from analyzers.errors import GriffinConfigError, NoSuchColumnError
from analyzers.griffin.kinds import Kinds, suggested
from analyzers.sql import literal, quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

Operation = Callable[["DataFrame", Mapping[str, Any]], "DataFrame"]
"""Makes a frame of a frame and of the rule's details."""

O = TypeVar("O", bound=Operation)  # noqa: E741 - an operation

OPERATIONS = Kinds("operation", "tidegauge.griffin.operations", {})
TIME = "__tmst"
BAD = "_corrupt_record"
_MODES = ("PERMISSIVE", "DROPMALFORMED", "FAILFAST")


def frame_operation(name: str) -> Callable[[O], O]:
    """Have a function be an operation that rules of type ``df-opr`` can name.

    Parameters
    ----------
    name : str
        In any letter case; one that is taken is replaced.

    Examples
    --------
    >>> @frame_operation("first_rows")
    ... def first_rows(frame, details):
    ...     return frame.limit(details["rows"])
    >>> "first_rows" in OPERATIONS
    True
    """

    def register(function: O) -> O:
        OPERATIONS.own[name.lower()] = function
        return function

    return register


def operate(name: str, frame: DataFrame, details: Mapping[str, Any]) -> DataFrame:
    """Return what an operation makes of a frame.

    Parameters
    ----------
    name : str
        The rule's text.
    frame : DataFrame
    details : mapping
        The rule's details.

    Raises
    ------
    GriffinConfigError
        If there is no such operation, naming the nearest, or details say what cannot be.
    NoSuchColumnError
        If a column that it needs is not there.
    """
    operation: Operation = OPERATIONS.load(name.strip())
    return operation(frame, details)


@frame_operation("from_json")
def from_json(frame: DataFrame, details: Mapping[str, Any]) -> DataFrame:
    """Return the fields of JSON texts as columns.

    Parameters
    ----------
    frame : DataFrame
    details : mapping
        ``col.name``, the column of texts (the first); ``schema``, what is in them, as DDL (found out by reading them once,
        which a stream cannot); ``mode``, what becomes of texts that are no JSON: ``PERMISSIVE`` keeps them in
        ``_corrupt_record``, ``DROPMALFORMED`` drops them, ``FAILFAST`` raises; ``keep.columns``, true or a list of
        other columns to keep.

    Raises
    ------
    GriffinConfigError
        If details say what cannot be, or a stream has no ``schema``.
    NoSuchColumnError
    """
    from pyspark.sql import functions as sf  # noqa: PLC0415
    from pyspark.sql.types import StringType  # noqa: PLC0415

    column = _column(frame, str(details.get("col.name") or frame.columns[0]))
    mode = str(details.get("mode") or "PERMISSIVE").upper()
    if mode not in _MODES:
        msg = f"unknown mode {mode!r}; {suggested(mode, _MODES)}"
        raise GriffinConfigError(msg)
    texts = frame.select(sf.col(quote(column)).cast("string").alias("value"))
    schema = _schema(texts, details.get("schema"))
    fields = [field.name for field in schema if field.name != BAD]
    told = BAD in schema.names or bool(details.get("schema"))
    if BAD not in schema.names:
        schema = schema.add(BAD, StringType())
    options = {
        "mode": "FAILFAST" if mode == "FAILFAST" else "PERMISSIVE",
        "columnNameOfCorruptRecord": BAD,
    }
    read = "__json"
    kept = _kept(frame, column, details.get("keep.columns"), {*fields, BAD})
    parsed = sf.from_json(sf.col(quote(column)).cast("string"), schema, options).alias(read)
    rows = frame.select(*[quote(name) for name in kept], parsed)
    if mode == "DROPMALFORMED":
        rows = rows.where(f"{quote(read)}.{quote(BAD)} IS NULL")
    shown = [*fields, *([BAD] if told and mode == "PERMISSIVE" else [])]
    return rows.select(
        *[quote(name) for name in kept],
        *[sf.col(f"{quote(read)}.{quote(name)}").alias(name) for name in shown],
    )


@frame_operation("accuracy")
def accuracy(frame: DataFrame, details: Mapping[str, Any]) -> DataFrame:
    """Return matched rows and their share, made of rows that miss and all rows.

    A row for each of the frame's with a total above 0: ``__tmst`` where there is one, ``miss``, ``total``, ``matched``, ``matchedFraction``;
    ``__record``, whether its records are written, which they always are; ``__empty``, whether there are none.

    Parameters
    ----------
    frame : DataFrame
        With counts in columns ``miss`` (null is none) and ``total``.
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
        *([quote(TIME)] if TIME in frame.columns else []),
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
    """Return no rows, with the same columns."""
    return frame.limit(0)


def _column(frame: DataFrame, name: str) -> str:
    """Return a column's name as the frame has it, letter case aside."""
    found = next((c for c in frame.columns if c.casefold() == name.casefold()), None)
    if found is None:
        raise NoSuchColumnError(name, frame.columns)
    return found


def _schema(texts: DataFrame, given: object) -> StructType:
    """Return what is in JSON texts: what is said, or what is found by reading them."""
    from pyspark.errors import PySparkException  # noqa: PLC0415
    from pyspark.sql.types import DataType, StructType  # noqa: PLC0415

    if given:
        try:
            schema = DataType.fromDDL(str(given))
        except PySparkException as error:
            msg = f"'schema' is no list of columns: {literal(str(given))}"
            raise GriffinConfigError(msg) from error
        if not isinstance(schema, StructType):
            msg = f"'schema' must be a list of columns with types, not {literal(str(given))}"
            raise GriffinConfigError(msg)
        return schema
    if texts.isStreaming:
        msg = "a stream cannot be looked at before it is read: say the 'schema' of its JSON in details"
        raise GriffinConfigError(msg)
    return texts.sparkSession.read.json(texts).schema


def _kept(frame: DataFrame, column: str, asked: object, taken: set[str]) -> list[str]:
    """Return the columns that stay; what JSON has under the same name takes their place."""
    if isinstance(asked, list | tuple):
        names = [_column(frame, str(name)) for name in asked]
    else:
        everything = asked is True or str(asked).lower() == "true"
        names = [c for c in frame.columns if (everything and c != column) or c == TIME]
    return [name for name in names if name not in taken]
