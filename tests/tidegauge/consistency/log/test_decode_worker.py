"""Decoding logged queries from Arrow batches: random schemas and records, and damaged bytes."""

import base64
import datetime as dt
import hashlib
import io
import tempfile

import fastavro
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.conftest import soak
from tests.tidegauge.consistency.logged_queries import record
from tidegauge.analyzers.scan.capabilities import arrow_schema
from tidegauge.consistency.log.client import QueryLog
from tidegauge.consistency.log.decoding import decoder
from tidegauge.consistency.log.schemas import LogSchema, merged, struct

pytest.importorskip("pyspark")

NOW = dt.datetime(2023, 1, 5, tzinfo=dt.UTC)


def encoded(schema, values):
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), values)
    return stream.getvalue()


def read(schemas, rows, raw=(True, True)):
    """Decode rows of (key, value, hash, time) into columns, markers of empty rows, and errors."""
    from pyspark.sql.types import StructType

    columns = merged(schemas).all
    arrow = arrow_schema(StructType.fromJson(struct(columns)))
    decode = decoder({s.hash: s.readable for s in schemas}, arrow, raw=raw)
    keys, values, hashes, times = zip(*rows, strict=True)
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array(keys, pa.binary()),
            pa.array(values, pa.binary()),
            pa.array(hashes, pa.string()),
            pa.array(times, pa.timestamp("us", "UTC")),
        ],
        ["k", "v", "h", "t"],
    )
    (out,) = decode([batch])
    actual = [c.to_pylist() for c in out.columns]
    assert actual[:2] == [list(hashes), list(times)]
    named = dict(zip(columns, actual[2:-2], strict=True))
    return [
        dict(zip(named, row, strict=True)) for row in zip(*named.values(), strict=True)
    ], *actual[-2:]


# Random schemas: an Avro type, and a strategy of pairs (written value, value that Arrow reads).


def unchanged(values):
    return values.map(lambda value: (value, value))


@st.composite
def avro_types(draw, name="f", depth=2):
    plain = {
        "boolean": unchanged(st.booleans()),
        "int": unchanged(st.integers(-(2**31), 2**31 - 1)),
        "long": unchanged(st.integers(-(2**63), 2**63 - 1)),
        "float": unchanged(st.floats(width=32, allow_nan=False)),
        "double": unchanged(st.floats(allow_nan=False)),
        "string": unchanged(st.text(st.characters(codec="utf-8"))),
        "bytes": unchanged(st.binary()),
        "fixed": unchanged(st.binary(min_size=3, max_size=3)),
        "enum": unchanged(st.sampled_from(["A", "B", "C"])),
        "date": unchanged(st.dates()),
        "timestamp-millis": unchanged(
            st.datetimes(timezones=st.just(dt.UTC)).map(
                lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000)
            )
        ),
        "timestamp-micros": unchanged(st.datetimes(timezones=st.just(dt.UTC))),
        "local-timestamp-micros": unchanged(st.datetimes()),
        "decimal": unchanged(st.decimals(-9999999, 9999999, places=2)),
        "uuid": unchanged(st.uuids().map(str)),
    }
    nested = ["array", "map", "record", "nullable"] if depth else []
    kind = draw(st.sampled_from([*plain, *nested]))
    if kind in {"fixed", "enum"}:
        more = {"size": 3} if kind == "fixed" else {"symbols": ["A", "B", "C"]}
        return {"type": kind, "name": f"N_{name}", **more}, plain[kind]
    if kind == "decimal":
        return {"type": "bytes", "logicalType": kind, "precision": 9, "scale": 2}, plain[kind]
    if kind in plain and ("-" in kind or kind in {"date", "uuid"}):
        below = {"date": "int", "uuid": "string"}.get(kind, "long")
        return {"type": below, "logicalType": kind}, plain[kind]
    if kind in plain:
        return kind, plain[kind]
    if kind == "record":
        inside = {n: draw(avro_types(f"{name}_{n}", depth - 1)) for n in ("a", "b")}
        values = st.fixed_dictionaries({n: v for n, (_, v) in inside.items()}).map(
            lambda d: tuple({n: v[i] for n, v in d.items()} for i in (0, 1))
        )
        return record(f"N_{name}", **{n: t for n, (t, _) in inside.items()}), values
    inside, values = draw(avro_types(f"{name}_i", depth - 1))
    if kind == "nullable":
        if isinstance(inside, list):
            return inside, values
        return ["null", inside], st.one_of(st.just((None, None)), values)
    if kind == "array":
        pairs = st.lists(values, max_size=3).map(lambda v: tuple([p[i] for p in v] for i in (0, 1)))
        return {"type": "array", "items": inside}, pairs
    maps = st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=3), values, max_size=3)
    both = maps.map(lambda m: ({k: v[0] for k, v in m.items()}, [(k, v[1]) for k, v in m.items()]))
    return {"type": "map", "values": inside}, both


@given(st.data())
@settings(max_examples=soak(20, 500), suppress_health_check=[HealthCheck.too_slow])
def test_logged_records_read_back(data):
    """For random schemas and records, through the client and its files."""
    fields = {n: data.draw(avro_types(n)) for n in ("x", "y", "z")}
    schema = LogSchema.from_schemas(
        "j",
        record("Key", x=fields["x"][0]),
        record("Value", y=fields["y"][0], z=["null", "int"], w=fields["z"][0]),
    )
    pairs = [
        {n: data.draw(v) for n, (_, v) in fields.items()}
        for _ in range(data.draw(st.integers(1, 3)))
    ]
    with tempfile.TemporaryDirectory() as folder, QueryLog(folder) as log:
        log.register(schema)
        for i, p in enumerate(pairs):
            log.log(
                "j",
                {"x": p["x"][0]},
                {"y": p["y"][0], "w": p["z"][0]},
                ts_millis=946_684_800_000 + i,
            )
        log.flush()
        logged = ds.dataset(folder, format="parquet").to_table().sort_by("ts_millis").to_pylist()
    rows = [
        (r["key_bytes"].encode(), r["value_bytes"].encode(), r["schema_hash"], NOW) for r in logged
    ]
    actual, empty, bad = read([schema], rows, raw=(False, False))
    assert bad == [None] * len(pairs)
    assert actual == [{"x": p["x"][1], "y": p["y"][1], "z": None, "w": p["z"][1]} for p in pairs]
    assert empty == [not r["value_bytes"] for r in logged]
    # Each part of a record alone is too short, and a record with trailing bytes is too long.
    for part in (0, 1):
        for row in rows:
            whole = base64.b64decode(row[part])
            broken = [whole[:cut] for cut in range(len(whole) > 60 and len(whole) - 60, len(whole))]
            broken = [some for some in broken if some or part == 0]
            for some in [*broken, whole + b"\x00"]:
                other = base64.b64decode(row[1 - part])
                pair = (some, other) if part == 0 else (other, some)
                if not any(pair):
                    continue
                _, _, (why,) = read([schema], [(*pair, schema.hash, NOW)])
                assert why["part"] == ("key", "value")[part]
                assert why["reason"] == (
                    "truncated" if len(some) < len(whole) else "trailing bytes"
                )


KEY = record("Key", user="string")
VALUE = record("Value", n=["null", "int"], e={"type": "enum", "name": "E", "symbols": ["A"]})
SCHEMA = LogSchema.from_schemas("j", KEY, VALUE)
K, V = encoded(KEY, {"user": "ann"}), encoded(VALUE, {"n": 5, "e": "A"})
H = SCHEMA.hash
BAD = {
    "truncated key": ((K[:-1], V, H, NOW), "truncated", "key"),
    "empty key": ((b"", V, H, NOW), "truncated", "key"),
    "trailing bytes": ((K, V + b"\x00", H, NOW), "trailing bytes", "value"),
    "union of more": ((K, b"\x04" + V[1:], H, NOW), "not of its schema", "value"),
    "negative length": ((b"\x05ann", V, H, NOW), None, "key"),
    "not UTF-8": ((b"\x02\xff", V, H, NOW), "not of its schema", "key"),
    "too large for an int": (
        (K, b"\x02" + b"\xfe" * 5 + b"\x01" + V[2:], H, NOW),
        "out of range",
        None,
    ),
    "other schema": ((K, V, "other", NOW), "unknown schema", None),
    "no schema": ((K, V, None, NOW), "no schema", None),
    "no time": ((K, V, H, None), "no time", None),
}


@pytest.mark.parametrize(("row", "reason", "part"), BAD.values(), ids=BAD)
def test_bad_records_have_a_reason_and_a_part(row, reason, part):
    good = (K, V, H, NOW)
    actual, _, (first, why, last) = read([SCHEMA], [good, row, good])
    assert first is last is None
    assert actual[0] == actual[2] == {"user": "ann", "n": 5, "e": "A"}
    assert why["reason"] == (reason or why["reason"])
    assert why["part"] == part
    assert why["key_hash"] == (hashlib.md5(row[0]).hexdigest() if row[0] else None)
    if part:
        start = row[0] if part == "key" else row[1]
        assert (why["start"] or "") == start.hex()


def test_base64_is_read_strictly_except_for_line_breaks():
    text = base64.b64encode(V)
    lines = text[:4] + b"\r\n" + text[4:] + b"\n"
    rows = [(base64.b64encode(K), some, H, NOW) for some in (text, lines, text[:-1] + b"*", V)]
    actual, _, bad = read([SCHEMA], rows, raw=(False, False))
    assert actual[1] == actual[0] == {"user": "ann", "n": 5, "e": "A"}
    assert [b and (b["reason"], b["part"]) for b in bad] == [
        None, None, ("not base64", "value"), ("not base64", "value"),
    ]  # fmt: skip


def test_empty_queries_need_no_schema():
    rows = [(b"", b"", None, NOW), (None, None, "other", NOW), (K, b"", H, NOW), (K, V, H, NOW)]
    actual, empty, bad = read([SCHEMA], rows)
    assert bad == [None] * 4
    assert empty == [True, True, True, False]
    assert [row["user"] for row in actual] == [None, None, "ann", "ann"]
    assert [row["n"] for row in actual] == [None, None, None, 5]


def test_a_bad_record_is_shown_by_its_first_bytes():
    _, _, (why,) = read([SCHEMA], [(K, b"\x04" * 1000, H, NOW)])
    assert why["start"] == "04" * 16


def test_dates_beyond_the_calendar_are_bad():
    when = {"type": "long", "logicalType": "timestamp-micros"}
    schema = LogSchema.from_schemas("j", record("Key", at=when), record("Value"))
    raw = encoded(record("Key", at="long"), {"at": 2**62})
    _, _, (why,) = read([schema], [(raw, b"", schema.hash, NOW)])
    assert (why["reason"], why["part"]) == ("out of range", "key")


def test_a_field_in_key_and_value_is_read_from_the_key():
    schema = LogSchema.from_schemas(
        "j", record("Key", s="string"), record("Value", s="string", n="int")
    )
    value = encoded(record("Value", s="string", n="int"), {"s": "value", "n": 1})
    ((row), _, _) = read(
        [schema], [(encoded(record("Key", s="string"), {"s": "key"}), value, schema.hash, NOW)]
    )
    assert row == [{"s": "key", "n": 1}]
