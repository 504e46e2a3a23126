"""A logged query: its encoding, and its partition."""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple

from tidegauge.analyzers.core.errors import SuiteError, did_you_mean
from tidegauge.consistency.log.avro_types import need_fastavro
from tidegauge.consistency.log.sampling import BUCKETS, bucket, threshold
from tidegauge.consistency.log.schemas import LogSchema

JOIN, GROUP_BY = TYPES = ("join", "groupBy")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LOG_COLUMNS = ["key_bytes", "value_bytes", "ts_millis", "query_source", "schema_hash", "type"]
"""Columns of a query log's files; day and join are in the folder names."""
FIRST_MS, LAST_MS = 946_684_800_000, 253_402_300_799_999
"""Bounds of the years 2000 to 9999, in milliseconds since 1970. Earlier times are zeros, or seconds."""
_ESCAPED = re.compile(r"[\x01-\x1f\x7f\"#%'*/:=?\\{\[\]^]")


def check_type(type: str) -> None:  # noqa: A002 - the column's name
    """Raise `SuiteError` if a type of queries is none of `TYPES`."""
    if type not in TYPES:
        raise SuiteError(f"type is one of {', '.join(map(repr, TYPES))}, not {type!r}")


def is_day(text: str) -> bool:
    """Return whether a text is an ISO day such as ``2023-01-05``.

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
        if self.limit < BUCKETS and not keys and schema.payload is None and len(schema.keys) > 1:
            raise SuiteError(
                f"the key of {schema.join!r} has several fields, and a field that differs from request to"
                " request would sample requests, not keys: name those in LogSchema.from_schemas(payload=[...]), or"
                " the others in sample_keys"
            )
        self._readable = parse(json.loads(schema.readable[0]))
        self.key, self.value = (parse(json.loads(text)) for text in (schema.key, schema.value))

    def chosen(self, key: str) -> bool:
        """Return whether the sample includes a key, as returned by `encoded`.

        The key is decoded as Spark will do it, as a service may have passed a time as a number.
        """
        if self.limit == BUCKETS:
            return True
        stream = io.BytesIO(base64.b64decode(key))
        found = need_fastavro().schemaless_reader(stream, self._readable, None)
        return bucket({name: found[name] for name in self.sample_keys}) < self.limit


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
        told = " ".join(str(error).split()) or type(error).__name__
        raise SuiteError(f"a query of {join!r} does not suit its schema: {told[:300]}") from error
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
            f"{ts_millis!r} is no time of a query: they are in milliseconds since 1970, and of the"
            " years 2000 to 9999"
        )
    return (_EPOCH + timedelta(milliseconds=ts_millis)).date().isoformat()


def hive_escape(value: str) -> str:
    """Escape a partition value for a Hive folder name.

    Examples
    --------
    >>> hive_escape("team/search v1"), hive_escape("50%")
    ('team%2Fsearch v1', '50%25')
    """
    return _ESCAPED.sub(lambda match: f"%{ord(match[0]):02X}", value)


def partition_folder(root: str, ds: str, join: str) -> str:
    """Return the folder of a day and join in that of a query log.

    Examples
    --------
    >>> partition_folder("/data/query_logs", "2023-01-05", "team/search")
    '/data/query_logs/ds=2023-01-05/join_name=team%2Fsearch'
    """
    return f"{root.rstrip('/')}/ds={hive_escape(ds)}/join_name={hive_escape(join)}"
