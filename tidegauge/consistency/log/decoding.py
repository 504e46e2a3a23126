"""Decoding of logged queries from Avro into columns, with all failures reported.

`decoder` runs in Spark's Python workers and reads Arrow batches.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from tidegauge.analyzers.core.errors import SourceError, SuiteError
from tidegauge.analyzers.core.registry import canonical_json
from tidegauge.analyzers.core.schema import INTEGRAL, TEXT, Schema
from tidegauge.analyzers.core.sql import literal, quote, type_sql
from tidegauge.analyzers.scan.capabilities import arrow_schema
from tidegauge.consistency.log.query import FIRST_MS, LAST_MS
from tidegauge.consistency.log.schemas import Columns, LogSchema, merged, struct

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


def decoder(  # noqa: C901, PLR0915 - one self-contained function, see below
    schemas: Mapping[str, tuple[str, str]], columns: pa.Schema, *, raw: tuple[bool, bool]
) -> Any:
    """Return a ``mapInArrow`` function that decodes keys and values into columns.

    Its input has the bytes of key and value, the schema's hash and the time, then pass-through
    columns. Its output has hash and time, the pass-through columns, the decoded columns, a flag for
    an empty response, and the error: null for a query that was read.

    Everything is inside one function, so that it serializes as a whole: the workers need fastavro,
    but not tidegauge.

    Parameters
    ----------
    schemas : mapping of str to (str, str)
        The Avro schemas of key and value by hash, as JSON.
    columns : pyarrow.Schema
        Columns of the decoded rows.
    raw : (bool, bool)
        Whether the bytes of key and value are raw Avro rather than base64.
    """
    max_reported_bytes = 16  # bytes of an unreadable record to report

    def decode(  # noqa: C901, PLR0915
        batches: Iterable[pa.RecordBatch],
    ) -> Iterator[pa.RecordBatch]:
        import base64
        import hashlib
        import io
        import json

        import pyarrow as pa
        from fastavro import parse_schema, schemaless_reader

        parsed: dict[str, list[Any]] = {}
        string_type = pa.string()
        error_type = pa.struct([(n, string_type) for n in ("reason", "part", "key_hash", "start")])

        class BadError(Exception):
            """An unreadable query: reason, part and bytes."""

        def bytes_of(logged: bytes | None, part: int) -> bytes:
            if raw[part] or not logged:
                return logged or b""
            try:  # some writers wrap base64 lines
                return base64.b64decode(b"".join(logged.split()), validate=True)
            except ValueError:
                raise BadError("not base64", part, logged) from None

        def record(data: bytes, schema: Any, part: int) -> dict[str, Any]:
            stream = io.BytesIO(data)
            fields: dict[str, Any]
            try:
                fields = schemaless_reader(stream, schema, None)  # type: ignore[assignment]  # a record
            except OverflowError:
                raise BadError("out of range", part, data) from None
            except Exception as error:  # noqa: BLE001 - bytes can break in any way
                # fastavro raises IndexError for a truncated number.
                at_end = isinstance(error, IndexError) and stream.tell() == len(data)
                ended = isinstance(error, EOFError) or at_end
                reason = "truncated" if ended else "not of its schema"
                raise BadError(reason, part, data) from None
            if stream.tell() < len(data):
                raise BadError("trailing bytes", part, data)
            return fields

        def row_of(logged: tuple[bytes | None, ...], name: str | None) -> dict[str, Any]:
            if not logged[0] and not logged[1]:
                return {}
            if name is None:
                raise BadError("no schema", None, b"")
            if name not in schemas:
                raise BadError("unknown schema", None, b"")
            if name not in parsed:
                parsed[name] = [parse_schema(json.loads(schema)) for schema in schemas[name]]
            key, value = (bytes_of(data, part) for part, data in enumerate(logged))
            # A value without bytes is a query without a response.
            answer = record(value, parsed[name][1], 1) if value else {}
            return {**answer, **record(key, parsed[name][0], 0)}

        def array(values: list[Any], kind: Any, bad: list[BadError | None]) -> Any:
            """Return a column; a value that does not fit its type marks its query as bad."""
            errors = (pa.ArrowException, OverflowError, ValueError, TypeError)
            try:
                return pa.array(values, kind)
            except errors:
                valid = []
                for i, value in enumerate(values):
                    try:
                        pa.array([value], kind)
                        valid.append(value)
                    except errors:
                        bad[i] = bad[i] or BadError("out of range", None, b"")
                        valid.append(None)
                return pa.array(valid, kind)

        def report_error(error: BadError | None, key: bytes | None) -> dict[str, str | None] | None:
            if error is None:
                return None
            reason, part, data = error.args
            digest = hashlib.md5(key, usedforsecurity=False).hexdigest() if key else None
            return {
                "reason": reason,
                "part": None if part is None else ("key", "value")[part],
                "key_hash": digest,
                "start": data[:max_reported_bytes].hex() or None,
            }

        for batch in batches:
            keys, values, hashes, times = (batch.column(i).to_pylist() for i in range(4))
            rows: list[dict[str, Any]] = []
            bad: list[BadError | None] = []
            for key, value, name, time in zip(keys, values, hashes, times, strict=True):
                try:
                    if time is None:
                        raise BadError("no time", None, b"")  # noqa: TRY301
                    rows.append(row_of((key, value), name))
                    bad.append(None)
                except BadError as error:
                    rows.append({})
                    bad.append(error)
            arrays = [array([row.get(f.name) for row in rows], f.type, bad) for f in columns]
            empty = pa.array([not value for value in values], pa.bool_())
            errors = pa.array(
                [report_error(e, k) for e, k in zip(bad, keys, strict=True)], error_type
            )
            names = [f"c{i}" for i in range(len(batch.columns) - 2 + len(arrays) + 2)]
            yield pa.RecordBatch.from_arrays([*batch.columns[2:], *arrays, empty, errors], names)

    return decode


BYTE_ENCODINGS = ("base64", "raw")
_EMPTY_COLUMN, _BAD_COLUMN = "__tidegauge_empty", "__tidegauge_bad"


@dataclass(frozen=True)
class DayCounts:
    """Decoding counts of one day.

    Attributes
    ----------
    ds : str or None
        Day of the records; None if unknown.
    rows : int
        Number of logged queries.
    empty : int
        Queries without a response, because nothing had been uploaded yet. They are kept, with null
        features.
    bad : mapping of str to int
        Queries that could not be decoded, by reason.
    """

    ds: str | None
    rows: int = 0
    empty: int = 0
    bad: Mapping[str, int] = field(default_factory=dict)

    @property
    def read(self) -> int:
        """Number of decoded queries."""
        return self.rows - sum(self.bad.values())

    def to_json(self) -> str:
        """Serialize the counts, without the day."""
        return canonical_json({"rows": self.rows, "empty": self.empty, "bad": dict(self.bad)})

    @classmethod
    def from_json(cls, ds: str, text: str | None) -> Self | None:
        """Parse the output of `to_json`; None if there is none."""
        return None if text is None else cls(ds, **json.loads(text))


@dataclass(frozen=True)
class BadRecord:
    """A query that could not be decoded.

    Attributes
    ----------
    ds : str or None
        Day of the records; None if unknown.
    reason : str
        ``not base64``, ``truncated``, ``trailing bytes``, ``not of its schema``, ``out of range`` (a value that
        its type cannot hold), ``unknown schema``, ``no schema`` (without a hash, where several are known) or
        ``no time`` (none, or one before 2000: zeros, or seconds in place of milliseconds).
    part : str or None
        ``key`` or ``value``, if the reason concerns one of them.
    schema_hash : str or None
        Hash of the schema that the record names, if readable.
    key_hash : str or None
        MD5 of the key as logged; keys themselves may be private.
    start : str or None
        The first bytes of the part, in hexadecimal.
    """

    ds: str | None
    reason: str
    part: str | None
    schema_hash: str | None
    key_hash: str | None
    start: str | None


@dataclass(frozen=True)
class Decoded:
    """Decoded queries of a log, and those that could not be decoded.

    Each action reads everything again unless `persist` is called.

    Attributes
    ----------
    columns : Columns
        Keys, payload and features.
    """

    columns: Columns
    _frame: DataFrame

    @property
    def data(self) -> DataFrame:
        """The decoded queries: schema_hash, ts, keys, payload, features, query_source, ds."""
        names = ["schema_hash", "ts", *self.columns.all, "query_source", "ds"]
        return self._frame.where(f"{_BAD_COLUMN} IS NULL").selectExpr(*map(quote, names))

    @property
    def bad(self) -> DataFrame:
        """The bad records: ds, reason, part, schema_hash, key_hash, start; see `BadRecord`."""
        inside = [f"{_BAD_COLUMN}.{name}" for name in ("reason", "part", "key_hash", "start")]
        reason, part, *rest = inside
        chosen = self._frame.where(f"{_BAD_COLUMN} IS NOT NULL")
        return chosen.selectExpr("ds", reason, part, "schema_hash", *rest)

    def persist(self) -> Decoded:
        """Cache the decoded queries until `unpersist`."""
        return Decoded(self.columns, self._frame.persist())

    def unpersist(self) -> None:
        """Drop the cache."""
        self._frame.unpersist()

    def days(self) -> list[DayCounts]:
        """Return the counts by day, in order; one action."""
        group_by = ["ds", f"{_BAD_COLUMN}.reason AS reason", f"{_EMPTY_COLUMN} AS empty"]
        counts = self._frame.selectExpr(*group_by).groupBy("ds", "reason", "empty").count()
        counts_by_day: dict[str | None, dict[str, Any]] = {}
        for ds, reason, empty, count in counts.collect():
            day = counts_by_day.setdefault(ds, {"rows": 0, "empty": 0, "bad": {}})
            day["rows"] += count
            if reason is not None:
                day["bad"][reason] = day["bad"].get(reason, 0) + count
            elif empty:
                day["empty"] += count
        ordered = sorted(counts_by_day, key=lambda ds: (ds is not None, ds))
        return [
            DayCounts(
                ds, **{**counts_by_day[ds], "bad": dict(sorted(counts_by_day[ds]["bad"].items()))}
            )
            for ds in ordered
        ]

    def sample_bad(self, limit: int = 5) -> list[BadRecord]:
        """Return a few bad records for each day and reason, the same ones each time; one action."""
        order = "key_hash, start, part, schema_hash"
        rank = f"row_number() OVER (PARTITION BY ds, reason ORDER BY {order}) AS n"
        rows = self.bad.selectExpr("*", rank).where(f"n <= {int(limit)}")
        return [BadRecord(*row[:-1]) for row in rows.orderBy("ds", "reason", "n").collect()]


def decode(
    logs: DataFrame,
    schemas: Iterable[LogSchema],
    columns: Columns | None = None,
    encoding: str | None = None,
) -> Decoded:
    """Decode logged queries.

    Parameters
    ----------
    logs : DataFrame
        Columns key_bytes, value_bytes and ts_millis; query_source, schema_hash and ds are optional.
        A query without a hash is decoded with the only schema, if there is exactly one.
    schemas : iterable of LogSchema
        Schema versions of one join, earliest first.
    columns : Columns, optional
        Columns to return; by default all columns of all versions.
    encoding : str, optional
        ``base64`` or ``raw`` bytes of Avro. By default strings are base64 and binary is raw.

    Returns
    -------
    Decoded

    Raises
    ------
    SourceError
        If a column is missing or has the wrong type.
    SuiteError
        If a field has different types in two versions, or the encoding is unknown.

    Examples
    --------
    In Avro, 0E is the number 7, and 06 is 3:

    >>> import tidegauge as tg
    >>> key = {"type": "record", "name": "K", "fields": [{"name": "user", "type": "long"}]}
    >>> value = {"type": "record", "name": "V", "fields": [{"name": "clicks", "type": "int"}]}
    >>> schema = tg.consistency.LogSchema.from_schemas("search", key, value)
    >>> sql = "SELECT X'0E' AS key_bytes, X'06' AS value_bytes, 1672909200000L AS ts_millis"
    >>> decoded = tg.consistency.decode(tg.spark_session().sql(sql), [schema])  # doctest: +SKIP
    >>> decoded.data.select("user", "clicks").collect()  # doctest: +SKIP
    [Row(user=7, clicks=3)]
    """
    from pyspark.sql.types import StructType

    known_schemas = list(schemas)
    columns = merged(known_schemas) if columns is None else columns
    schema = Schema.from_frame(logs)
    kinds = _check(schema)
    if encoding is not None and encoding not in BYTE_ENCODINGS:
        msg = f"encoding must be one of {', '.join(map(repr, BYTE_ENCODINGS))}, not {encoding!r}"
        raise SuiteError(msg)
    raw = tuple((encoding or ("raw" if k == "binary" else "base64")) == "raw" for k in kinds)
    only = literal(known_schemas[0].hash) if len(known_schemas) == 1 else "CAST(NULL AS STRING)"
    in_time = f"ts_millis BETWEEN {FIRST_MS} AND {LAST_MS}"
    prepared = logs.selectExpr(
        "CAST(key_bytes AS BINARY) AS key_bytes",
        "CAST(value_bytes AS BINARY) AS value_bytes",
        f"coalesce(nullif({_optional(schema, 'schema_hash')}, ''), {only}) AS schema_hash",
        f"CASE WHEN {in_time} THEN timestamp_millis(ts_millis) END AS ts",
        f"{_optional(schema, 'query_source')} AS query_source",
        f"{_optional(schema, 'ds')} AS ds",
    )
    passed = {"schema_hash": "string", "ts": "timestamp", "query_source": "string", "ds": "string"}
    parts = struct(dict.fromkeys(("reason", "part", "key_hash", "start"), "string"))
    result = struct({**passed, **columns.all, _EMPTY_COLUMN: "boolean", _BAD_COLUMN: parts})
    arrow = arrow_schema(StructType.fromJson(struct(columns.all)))
    read = decoder({s.hash: s.readable for s in known_schemas}, arrow, raw=(raw[0], raw[1]))
    return Decoded(columns, prepared.mapInArrow(read, StructType.fromJson(result)))


def _check(schema: Schema) -> Sequence[str]:
    """Check the input columns, and return the kinds of both byte columns."""
    required = {"key_bytes": TEXT | {"binary"}, "value_bytes": TEXT | {"binary"}}
    required["ts_millis"] = INTEGRAL
    for name, kinds in required.items():
        if name not in schema.names:
            names = ", ".join(schema.names)
            msg = f"a query log needs a column {name!r}; this table has {names or 'none'}"
            raise SourceError(msg)
        if schema.field(name).kind not in kinds:
            msg = f"column {name!r} of a query log is {type_sql(schema.field(name).type)}; it should be"
            raise SourceError(f"{msg} {' or '.join(sorted(kinds))}")
    return [schema.field(name).kind for name in ("key_bytes", "value_bytes")]


def _optional(schema: Schema, name: str) -> str:
    return f"CAST({quote(name) if name in schema.names else 'NULL'} AS STRING)"
