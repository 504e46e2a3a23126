"""Avro decoder for Spark's Python workers: logged queries from Arrow batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


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
    raw : (bool, bool)
        Whether the bytes of key and value are raw Avro rather than base64.
    """
    shown = 16  # bytes of an unreadable record to report

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
        text = pa.string()
        wrong = pa.struct([(n, text) for n in ("reason", "part", "key_hash", "start")])

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
            found: dict[str, Any]
            try:
                found = schemaless_reader(stream, schema, None)  # type: ignore[assignment]  # a record
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
            return found

        def row_of(logged: tuple[bytes | None, ...], name: str | None) -> dict[str, Any]:
            if not logged[0] and not logged[1]:
                return {}
            if name is None:
                raise BadError("no schema", None, b"")
            if name not in schemas:
                raise BadError("unknown schema", None, b"")
            if name not in parsed:
                parsed[name] = [parse_schema(json.loads(schema)) for schema in schemas[name]]
            key, value = (bytes_of(some, part) for part, some in enumerate(logged))
            # A value without bytes is a query without a response.
            answer = record(value, parsed[name][1], 1) if value else {}
            return {**answer, **record(key, parsed[name][0], 0)}

        def array(values: list[Any], kind: Any, bad: list[BadError | None]) -> Any:
            """Return a column; a value that does not fit its type marks its query as bad."""
            errors = (pa.ArrowException, OverflowError, ValueError, TypeError)
            try:
                return pa.array(values, kind)
            except errors:
                held = []
                for i, value in enumerate(values):
                    try:
                        pa.array([value], kind)
                        held.append(value)
                    except errors:
                        bad[i] = bad[i] or BadError("out of range", None, b"")
                        held.append(None)
                return pa.array(held, kind)

        def told(error: BadError | None, key: bytes | None) -> dict[str, str | None] | None:
            if error is None:
                return None
            reason, part, data = error.args
            digest = hashlib.md5(key, usedforsecurity=False).hexdigest() if key else None
            return {
                "reason": reason,
                "part": None if part is None else ("key", "value")[part],
                "key_hash": digest,
                "start": data[:shown].hex() or None,
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
            made = [array([row.get(f.name) for row in rows], f.type, bad) for f in columns]
            empty = pa.array([not value for value in values], pa.bool_())
            errors = pa.array([told(e, k) for e, k in zip(bad, keys, strict=True)], wrong)
            names = [f"c{i}" for i in range(len(batch.columns) - 2 + len(made) + 2)]
            yield pa.RecordBatch.from_arrays([*batch.columns[2:], *made, empty, errors], names)

    return decode
