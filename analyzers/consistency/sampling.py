"""Sampling by key: of a share of the keys everything is kept, of the others nothing.

Which keys are kept depends on their values alone, so logged and backfilled rows are sampled alike, on any
machine, and a smaller share is part of a larger one. The number of a key is the first 8 bytes of the MD5 of
its text, read as a signed big-endian number without its sign; its bucket is the rest by 100,000.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import singledispatch
from typing import TYPE_CHECKING, Any

from analyzers.errors import SuiteError, WrongColumnTypeError
from analyzers.schema import INTEGRAL, TEXT, Schema
from analyzers.sql import quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BUCKETS = 100_000
_PER_PERCENT = BUCKETS // 100
_SEPARATOR, _NULL = "\x01", "\\N"
_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - times without a zone are counted from it, too
_MICROSECOND = dt.timedelta(microseconds=1)
_ACCEPTED = "text, a whole number, a decimal, a boolean, a date, a time or bytes"


def threshold(percent: float) -> int:
    """Return the bucket below which keys are kept.

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
    if not (exact.is_finite() and 0 <= exact <= BUCKETS and exact == int(exact)):
        msg = f"sample_percent is a number from 0 to 100 in steps of 0.001, not {percent!r}"
        raise SuiteError(msg)
    return int(exact)


def bucket(key: Mapping[str, Any]) -> int:
    """Return the bucket of a key, from 0 to 99,999.

    Numbers count by their value, so that an int, a long and a decimal that are equal are one key; and a
    number is the same key as its text. Times with a zone count by their instant.

    Parameters
    ----------
    key : mapping of str to Any
        The key columns, in any order. Null is a value like others.

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
    digest = hashlib.md5(_SEPARATOR.join(texts).encode(), usedforsecurity=False).digest()
    return abs(int.from_bytes(digest[:8], "big", signed=True)) % BUCKETS


def keeps(key: Mapping[str, Any], percent: float) -> bool:
    """Whether a sample of so many percent of the keys holds this one.

    Examples
    --------
    >>> [p for p in (0, 24.987, 24.988, 25, 100) if keeps({"id": 5}, p)]
    [24.988, 25, 100]
    """
    return bucket(key) < threshold(percent)


@singledispatch
def key_text(value: Any) -> str | None:
    """Return the value of a key as text that is equal for equal keys of other types; None for null."""
    msg = f"a key is {_ACCEPTED}, not {value!r}"
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
        raise SuiteError(f"a key is {_ACCEPTED}, not {value!r}")
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
    return str((plain - _EPOCH) // _MICROSECOND)


def _escaped(text: str | None) -> str:
    if text is None:
        return _NULL
    return text.replace("\\", "\\\\").replace(_SEPARATOR, "\\1")


def bucket_sql(schema: Schema, keys: Sequence[str]) -> str:
    """Return SQL for the bucket of each row's key, equal to what `bucket` returns.

    Raises
    ------
    SuiteError
        If there are no keys.
    NoSuchColumnError
    WrongColumnTypeError
        If a key is of a type whose values are not one key each: floats, arrays, structs and maps.
    """
    if not keys:
        raise SuiteError("sampling by key needs the key columns")
    texts = [_sql_text(schema, name) for name in sorted(keys)]
    text = f"concat_ws('\\u0001', {', '.join(texts)})"
    digest = f"md5(encode({text}, 'UTF-8'))"
    # 64 bits do not fit a BIGINT, so both halves are reduced apart: 2^32 mod 100000 = 67296. What
    # is negative as a signed number is 2^64 less: 2^64 mod 100000 = 51616.
    high, low = (f"CAST(conv(substr({digest}, {at}, 8), 16, 10) AS BIGINT)" for at in (1, 9))
    rest = f"(({high} % {BUCKETS}) * {2**32 % BUCKETS} + {low}) % {BUCKETS}"
    negative = f"{high} >= {2**31}L"
    return f"CASE WHEN {negative} THEN ({2**64 % BUCKETS + BUCKETS} - {rest}) % {BUCKETS} ELSE {rest} END"


def _sql_text(schema: Schema, name: str) -> str:
    field = schema.field(quote(name))
    sql, kind = field.sql, field.kind
    if kind in TEXT:
        # A backslash is doubled first, as `_escaped` does. Other texts need nothing of this.
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
        start = "TIMESTAMP_NTZ'1970-01-01 00:00:00'"
        text = f"CAST(timestampdiff(MICROSECOND, {start}, {sql}) AS STRING)"
    else:
        raise WrongColumnTypeError(name, kind, _ACCEPTED)
    return f"coalesce({text}, '\\\\N')"


def sample(data: DataFrame, keys: Sequence[str], percent: float) -> DataFrame:
    """Keep the rows of a share of the keys.

    Parameters
    ----------
    data : DataFrame
    keys : sequence of str
        The columns that tell a key from others, in any order. A column that differs from query to query, as
        an id of the request, does not belong there: then queries would be sampled.
    percent : float
        From 0 to 100 in steps of 0.001. 100 keeps all rows, 0 none.

    Raises
    ------
    SuiteError, NoSuchColumnError, WrongColumnTypeError
        As `threshold` and `bucket_sql` say.
    """
    limit = threshold(percent)
    buckets = bucket_sql(Schema.of_frame(data), keys)
    return data if limit == BUCKETS else data.where(f"{buckets} < {limit}")
