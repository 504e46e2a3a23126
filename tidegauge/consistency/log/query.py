"""A logged query: its encoding, its partition, and whether its key is sampled.

A sample keeps all rows for a share of the keys, and none for the others. The choice depends on the
key values alone, so logged and backfilled rows are sampled alike, on any machine, and a smaller
share is a subset of a larger one. A key is hashed to the absolute value of the first 8 bytes of the
MD5 of its string, read as a signed big-endian number; its bucket is that number modulo 100,000.
"""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import singledispatch
from typing import TYPE_CHECKING, Any, NamedTuple

from tidegauge.analyzers.core.errors import SuiteError, WrongColumnTypeError, did_you_mean
from tidegauge.analyzers.core.schema import INTEGRAL, TEXT, Schema
from tidegauge.analyzers.core.sql import quote, wall_clock_micros
from tidegauge.consistency.log.schemas import LogSchema, need_fastavro

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


SAMPLE_BUCKETS = 100_000
_PER_PERCENT = SAMPLE_BUCKETS // 100
_KEY_SEPARATOR, _NULL_STRING = "\x01", "\\N"
_NAIVE_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - naive, for times without a zone
_ONE_MICROSECOND = dt.timedelta(microseconds=1)
_ACCEPTED_TYPES = "text, a whole number, a decimal, a boolean, a date, a time or bytes"


def threshold(percent: float) -> int:
    """Return the bucket number below which keys are kept.

    Raises
    ------
    SuiteError
        If the percentage is not in 0 to 100, or finer than a thousandth.

    Examples
    --------
    >>> threshold(5), threshold(0.1), threshold(100)
    (5000, 100, 100000)
    """
    exact = Decimal(str(percent)) * _PER_PERCENT
    if not (exact.is_finite() and 0 <= exact <= SAMPLE_BUCKETS and exact == int(exact)):
        msg = f"sample_percent must be a number from 0 to 100 in steps of 0.001, not {percent!r}"
        raise SuiteError(msg)
    return int(exact)


def bucket(key: Mapping[str, Any]) -> int:
    """Return the bucket of a key, from 0 to 99,999.

    Numbers are hashed by value, so that equal ints, longs and decimals are one key, and a
    number is the same key as its string. Times with a zone are hashed by their instant.

    Parameters
    ----------
    key : mapping of str to Any
        The key columns, in any order. Null is a value like any other.

    Raises
    ------
    SuiteError
        If a value is a float or nested.

    Examples
    --------
    >>> bucket({"id": "a"}), bucket({"id": "user_1"}), bucket({"id": 5}), bucket({"id": "5"})
    (57800, 39897, 24987, 24987)
    """
    texts = [_escaped(key_text(key[name])) for name in sorted(key)]
    digest = hashlib.md5(_KEY_SEPARATOR.join(texts).encode(), usedforsecurity=False).digest()
    return abs(int.from_bytes(digest[:8], "big", signed=True)) % SAMPLE_BUCKETS


@singledispatch
def key_text(value: Any) -> str | None:
    """Return a key value as a string, equal for equal values of different types; None for null."""
    msg = f"a key must be {_ACCEPTED_TYPES}, not {value!r}"
    raise SuiteError(msg)


@key_text.register
def _(value: None) -> None:
    return value


@key_text.register
def _(value: str) -> str:
    return value


@key_text.register
def _(value: bool) -> str:  # noqa: FBT001
    return "true" if value else "false"


@key_text.register
def _(value: int) -> str:
    return str(int(value))


@key_text.register
def _(value: Decimal) -> str:
    if not value.is_finite():
        raise SuiteError(f"a key must be {_ACCEPTED_TYPES}, not {value!r}")
    text = f"{value:f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text


@key_text.register
def _(value: bytes) -> str:
    return value.hex()


@key_text.register
def _(value: dt.date) -> str:
    return value.isoformat()


@key_text.register
def _(value: dt.datetime) -> str:
    plain = value.astimezone(dt.UTC).replace(tzinfo=None) if value.tzinfo else value
    return str((plain - _NAIVE_EPOCH) // _ONE_MICROSECOND)


def _escaped(text: str | None) -> str:
    if text is None:
        return _NULL_STRING
    return text.replace("\\", "\\\\").replace(_KEY_SEPARATOR, "\\1")


def bucket_sql(schema: Schema, keys: Sequence[str]) -> str:
    """Return SQL for the bucket of each row's key, equal to what `bucket` returns.

    Raises
    ------
    SuiteError
        If the list of keys is empty.
    NoSuchColumnError
    WrongColumnTypeError
        If a key is of an unsupported type: a float, array, struct or map.
    """
    if not keys:
        raise SuiteError("sampling by key needs the key columns")
    texts = [_sql_text(schema, name) for name in sorted(keys)]
    text = f"concat_ws('\\u0001', {', '.join(texts)})"
    digest = f"md5(encode({text}, 'UTF-8'))"
    # 64 unsigned bits do not fit a BIGINT, so both halves are reduced separately:
    # 2^32 mod 100000 = 67296. A signed negative number is 2^64 less: 2^64 mod 100000 = 51616.
    high, low = (f"CAST(conv(substr({digest}, {at}, 8), 16, 10) AS BIGINT)" for at in (1, 9))
    rest = f"(({high} % {SAMPLE_BUCKETS}) * {2**32 % SAMPLE_BUCKETS} + {low}) % {SAMPLE_BUCKETS}"
    negative = f"{high} >= {2**31}L"
    return f"CASE WHEN {negative} THEN ({2**64 % SAMPLE_BUCKETS + SAMPLE_BUCKETS} - {rest}) % {SAMPLE_BUCKETS} ELSE {rest} END"


def _sql_text(schema: Schema, name: str) -> str:
    field = schema.field(quote(name))
    sql, kind = field.sql, field.kind
    if kind in TEXT:
        # Double backslashes first, as in `_escaped`. The text of other types has none.
        text = f"replace(replace({sql}, '\\\\', '\\\\\\\\'), '\\u0001', '\\\\1')"
    elif kind in INTEGRAL | {"boolean", "date"}:
        text = f"CAST({sql} AS STRING)"
    elif kind == "decimal":
        text = f"CAST({sql} AS STRING)"
        if field.digits[1] > 0:
            text = f"regexp_replace({text}, '[.]?0+$', '')"
    elif kind == "binary":
        text = f"lower(hex({sql}))"
    elif kind == "timestamp":
        text = f"CAST(unix_micros({sql}) AS STRING)"
    elif kind == "timestamp_ntz":
        text = f"CAST({wall_clock_micros(sql)} AS STRING)"
    else:
        raise WrongColumnTypeError(name, kind, _ACCEPTED_TYPES)
    return f"coalesce({text}, '\\\\N')"


def sample(data: DataFrame, keys: Sequence[str], percent: float) -> DataFrame:
    """Keep the rows of a percentage of the keys.

    Parameters
    ----------
    data : DataFrame
        The rows to sample.
    keys : sequence of str
        The key columns, in any order. Leave out columns that differ from query to query, such as a
        request id: they would sample queries instead of keys.
    percent : float
        From 0 to 100 in steps of 0.001. 100 keeps all rows, 0 none.

    Raises
    ------
    SuiteError, NoSuchColumnError, WrongColumnTypeError
        As for `threshold` and `bucket_sql`.

    Examples
    --------
    >>> import tidegauge as tg
    >>> users = tg.spark_session().sql("SELECT explode(array('a', 'user_1', '5')) AS id")  # doctest: +SKIP
    >>> tg.consistency.sample(users, ["id"], 40).collect()  # doctest: +SKIP
    [Row(id='user_1'), Row(id='5')]
    """
    limit = threshold(percent)
    buckets = bucket_sql(Schema.from_frame(data), keys)
    return data if limit == SAMPLE_BUCKETS else data.where(f"{buckets} < {limit}")


JOIN, GROUP_BY = TYPES = ("join", "groupBy")

_EPOCH_UTC = datetime(1970, 1, 1, tzinfo=UTC)
LOG_COLUMNS = ["key_bytes", "value_bytes", "ts_millis", "query_source", "schema_hash", "type"]
"""Columns of a query log's files; day and join are in the folder names."""
FIRST_MS, LAST_MS = 946_684_800_000, 253_402_300_799_999
"""Bounds of the years 2000 to 9999, in milliseconds since 1970. Earlier times are zeros, or seconds."""
_ESCAPED_CHARS = re.compile(r"[\x01-\x1f\x7f\"#%'*/:=?\\{\[\]^]")


def check_type(type: str) -> None:  # noqa: A002 - the column's name
    """Raise `SuiteError` if a type of queries is none of `TYPES`."""
    if type not in TYPES:
        raise SuiteError(f"type must be one of {', '.join(map(repr, TYPES))}, not {type!r}")


def is_day(text: str) -> bool:
    """Return whether a string is an ISO day such as ``2023-01-05``.

    Examples
    --------
    >>> is_day("2023-01-05"), is_day("2023-1-5"), is_day("20230105")
    (True, False, False)
    """
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


class Query(NamedTuple):
    """An encoded query with its partition."""

    ds: str
    join: str
    key: str
    value: str
    ts_millis: int
    query_source: str | None
    schema: LogSchema | None
    type: str


class RegisteredJoin:
    """A join's current schema and sampling, ready to write with."""

    def __init__(self, schema: LogSchema, kind: str, percent: float, keys: Sequence[str]) -> None:
        parse = need_fastavro().parse_schema
        self.schema, self.type = replace(schema, sample_percent=float(percent)), kind
        self.limit = threshold(percent)
        payload = schema.payload or ()
        self.sample_keys = list(keys) or [name for name in schema.keys if name not in payload]
        for name in self.sample_keys:
            schema.require_key(name, "to sample by")
        if (
            self.limit < SAMPLE_BUCKETS
            and not keys
            and schema.payload is None
            and len(schema.keys) > 1
        ):
            raise SuiteError(
                f"the key of {schema.join!r} has several fields, and a field with a different value in each request"
                " would sample requests, not keys: list such fields in LogSchema.from_schemas(payload=[...]), or the"
                " other fields in sample_keys"
            )
        self._readable = parse(json.loads(schema.readable[0]))
        self.key, self.value = (parse(json.loads(text)) for text in (schema.key, schema.value))

    def chosen(self, key: str) -> bool:
        """Return whether the sample includes a key, as returned by `encoded`.

        The key is decoded as Spark will do it, as a service may have passed a time as a number.
        """
        if self.limit == SAMPLE_BUCKETS:
            return True
        stream = io.BytesIO(base64.b64decode(key))
        decoded = need_fastavro().schemaless_reader(stream, self._readable, None)
        return bucket({name: decoded[name] for name in self.sample_keys}) < self.limit


def encoded(schema: Any, record: Mapping[str, Any], join: str) -> str:
    """Encode a record as the base64 of its Avro bytes."""
    fastavro = need_fastavro()
    names = {field["name"] for field in schema["fields"]}
    for name in record:
        if name not in names:
            hint = did_you_mean(name, names)
            raise SuiteError(f"{schema['name']} of {join!r} has no field {name!r}{hint}")
    stream = io.BytesIO()
    try:
        # raise_errors is fifty times slower, so it is used only for invalid records.
        if not fastavro.validate(record, schema, raise_errors=False):
            fastavro.validate(record, schema)
        fastavro.schemaless_writer(stream, schema, record)
    except Exception as error:  # invalid values can raise anything
        reason = " ".join(str(error).split()) or type(error).__name__
        raise SuiteError(
            f"a query of {join!r} does not match its schema: {reason[:300]}"
        ) from error
    return base64.b64encode(stream.getvalue()).decode()


def day_of(ts_millis: int) -> str:
    """Return the UTC day of a time in milliseconds since 1970.

    Raises
    ------
    SuiteError
        If it is outside the years 2000 to 9999, in which queries are asked.

    Examples
    --------
    >>> day_of(1672963199999), day_of(1672963200000)
    ('2023-01-05', '2023-01-06')
    """
    if not FIRST_MS <= ts_millis <= LAST_MS:
        raise SuiteError(
            f"{ts_millis!r} is not the time of a query: it must be in milliseconds since 1970, in the"
            " years 2000 to 9999"
        )
    return (_EPOCH_UTC + timedelta(milliseconds=ts_millis)).date().isoformat()


def hive_escape(value: str) -> str:
    """Escape a partition value for a Hive folder name.

    Examples
    --------
    >>> hive_escape("team/search v1"), hive_escape("50%")
    ('team%2Fsearch v1', '50%25')
    """
    return _ESCAPED_CHARS.sub(lambda match: f"%{ord(match[0]):02X}", value)


def partition_folder(root: str, ds: str, join: str) -> str:
    """Return the folder of a day and join in a query log's folder.

    Examples
    --------
    >>> partition_folder("/data/query_logs", "2023-01-05", "team/search")
    '/data/query_logs/ds=2023-01-05/join_name=team%2Fsearch'
    """
    return f"{root.rstrip('/')}/ds={hive_escape(ds)}/join_name={hive_escape(join)}"
