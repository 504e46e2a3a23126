"""Schemas of logged queries: column types, hashes, and merging of versions."""

import pytest

from tests.tidegauge.consistency.logged_queries import record
from tidegauge.analyzers.core.errors import SuiteError
from tidegauge.analyzers.core.sql import type_sql
from tidegauge.consistency.log.schemas import (
    LogSchema,
    LogSchemas,
    columns_of,
    load_schemas,
    merged,
    readable,
    save_schema,
)

KEY = record("Key", user="long")


def schema_of(join="search", key=KEY, **features):
    return LogSchema.from_schemas(join, key, record("Value", **features))


def logical(kind, name, **more):
    return {"type": kind, "logicalType": name, **more}


TYPES = {
    "boolean": ("boolean", "BOOLEAN"),
    "int": ("int", "INT"),
    "long": ("long", "BIGINT"),
    "float": ("float", "FLOAT"),
    "double": ("double", "DOUBLE"),
    "string": ("string", "STRING"),
    "bytes": ("bytes", "BINARY"),
    "fixed": ({"type": "fixed", "name": "F", "size": 3}, "BINARY"),
    "enum": ({"type": "enum", "name": "E", "symbols": ["A"]}, "STRING"),
    "date": (logical("int", "date"), "DATE"),
    "millis": (logical("long", "timestamp-millis"), "TIMESTAMP"),
    "micros": (logical("long", "timestamp-micros"), "TIMESTAMP"),
    "local": (logical("long", "local-timestamp-micros"), "TIMESTAMP_NTZ"),
    "time of day": (logical("int", "time-millis"), "INT"),
    "uuid": (logical("string", "uuid"), "STRING"),
    "decimal": (logical("bytes", "decimal", precision=9, scale=2), "DECIMAL(9,2)"),
    "whole decimal": (logical("bytes", "decimal", precision=9), "DECIMAL(9,0)"),
    "logical type of another": (logical("string", "date"), "STRING"),
    "nullable": (["null", "int"], "INT"),
    "nullable, other way": (["int", "null"], "INT"),
    "array": ({"type": "array", "items": ["null", "int"]}, "ARRAY<INT>"),
    "map": ({"type": "map", "values": "double"}, "MAP<STRING, DOUBLE>"),
    "record": (record("R", a="int", b=["null", "string"]), "STRUCT<`a`: INT, `b`: STRING>"),
}


@pytest.mark.parametrize(("avro", "expected"), TYPES.values(), ids=TYPES)
def test_avro_types_become_sql_types(avro, expected):
    assert {n: type_sql(t) for n, t in columns_of(record("V", f=avro)).items()} == {"f": expected}


def test_named_types_are_resolved_and_nulls_have_no_column():
    enum = {"type": "enum", "name": "E", "symbols": ["A"]}
    schema = {**record("V", a=enum, b=["null", "ns.E"], c="null"), "namespace": "ns"}
    assert columns_of(schema) == {"a": "string", "b": "string"}


REFUSED = {
    "several types": (["null", "int", "string"], "'f' is a union of int, string"),
    "inside itself": (record("Node", next=["null", "Node"]), "'f.next' is a 'Node' inside itself"),
    "too many digits": (logical("bytes", "decimal", precision=39), "39 digits"),
    "null inside": ({"type": "array", "items": "null"}, "always null"),
    "no schema": ("nonsense", "not an Avro schema"),
}


@pytest.mark.parametrize(("avro", "message"), REFUSED.values(), ids=REFUSED)
def test_schemas_without_a_column_type_are_refused(avro, message):
    with pytest.raises(SuiteError, match=message):
        schema_of(f=avro)


@pytest.mark.parametrize("schema", ["{", '"int"', '["null", "int"]', "[]", {"type": "map"}])
def test_a_schema_that_is_not_a_record_is_refused(schema):
    with pytest.raises(SuiteError, match="not an Avro schema|must be Avro records"):
        LogSchema.from_schemas("search", KEY, schema)


def test_only_known_logical_types_are_kept():
    many = {"type": "array", "items": logical("string", "uuid")}
    schema = record("V", a=logical("long", "timestamp-millis"), b=["null", many])
    assert readable(schema)["fields"] == [
        {"name": "a", "type": logical("long", "timestamp-millis")},
        {"name": "b", "type": ["null", {"type": "array", "items": {"type": "string"}}]},
    ]


def test_the_hash_covers_the_join_and_both_schemas():
    # base64 of the MD5 of {"join_name":"j","key_schema":"k","value_schema":"v"}
    from tidegauge.consistency.log.schemas import schema_hash_of

    assert schema_hash_of("j", "k", "v") == "sqFt6wxx78"
    one = schema_of(clicks="int")
    assert (
        len({one.hash, schema_of("other", clicks="int").hash, schema_of(clicks="long").hash}) == 3
    )
    turned = {"fields": KEY["fields"], "name": "Key", "type": "record"}
    assert schema_of(key=turned, clicks="int") == one


def test_two_schemas_of_one_hash_are_refused():
    one = LogSchema.from_schemas("search", KEY, record("Value", a="int"), "same")
    other = LogSchema.from_schemas("search", KEY, record("Value", b="int"), "same")
    with pytest.raises(SuiteError, match="two schemas have the hash 'same'"):
        LogSchemas([one, one, other])


@pytest.mark.parametrize("schema_hash", [None, "a/b+c=..", "../../x"])
def test_schemas_are_stored_next_to_the_log(tmp_path, schema_hash):
    one = LogSchema.from_schemas("search", KEY, record("Value", clicks="int"), schema_hash)
    assert len(load_schemas(str(tmp_path))) == 0
    save_schema(str(tmp_path), one)
    (file,) = (tmp_path / "_schemas").iterdir()
    before = file.stat().st_mtime_ns
    save_schema(str(tmp_path), one)
    assert file.stat().st_mtime_ns == before
    (actual,) = load_schemas(str(tmp_path))
    assert actual == one
    assert actual.registered_at == one.registered_at > 0


def test_invalid_json_of_a_schema_is_refused():
    with pytest.raises(SuiteError, match="not the JSON of a query log's schema"):
        LogSchema.from_json('{"join_name": "x"}')


CLASHES = {
    "own column": (
        {"user": "long"},
        {"ds": "string"},
        "field 'ds', which has the same name as the log's own",
    ),
    "letter case": (
        {"user": "long"},
        {"a": "int", "A": "int"},
        "field 'A', which has the same name as 'a'",
    ),
    "key and value": (
        {"user": "long"},
        {"user": "int"},
        "'user' is BIGINT in the keys, but INT in",
    ),
}


@pytest.mark.parametrize(("key", "value", "message"), CLASHES.values(), ids=CLASHES)
def test_conflicting_fields_are_refused(key, value, message):
    with pytest.raises(SuiteError, match=message):
        LogSchema.from_schemas("search", record("Key", **key), record("Value", **value))


def test_versions_are_merged():
    key = record("Key", user="long", session="string")
    one = schema_of(key=key, clicks="int", old="int", session="string")
    two = schema_of(key=key, new="double", clicks=["null", "int"])
    columns = merged([one, two], keys=["user"])
    assert columns.keys == {"user": "long"}
    assert columns.payload == {"session": "string"}  # once, although the values also have it
    assert list(columns.values.items()) == [
        ("clicks", "integer"),
        ("old", "integer"),
        ("new", "double"),
    ]
    there = merged([two], ["user"], {"user": "long", "gone": "date", "old": "integer"})
    assert list(there.all) == ["user", "session", "gone", "old", "new", "clicks"]
    assert list(merged([one]).keys) == ["user", "session"]


def test_a_field_of_two_types_is_refused_naming_both_schemas():
    one, two = schema_of(clicks="int"), schema_of(clicks="string")
    message = f"'clicks' is INT in schema {one.hash}, and 'clicks' is STRING in schema {two.hash}"
    with pytest.raises(SuiteError) as caught:
        merged([one, two])
    assert message in str(caught.value)
    with pytest.raises(SuiteError, match="'clicks' is STRING in the flattened table, and"):
        merged([one], existing={"clicks": "string"})
    with pytest.raises(SuiteError, match="has a key 'usr'; did you mean 'user'"):
        merged([one], keys=["usr"])
