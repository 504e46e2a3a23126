"""Columns declared as DDL text. No Spark."""

import pytest

from tidegauge.analyzers.core.schema import Schema
from tidegauge.analyzers.core.sql import parse_columns, type_text
from tidegauge.analyzers.measures.counts import SchemaMatch


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("LONG", "bigint"),
        ("Integer NOT NULL", "int"),
        ("DEC", "decimal(10,0)"),
        ("numeric( 9 )", "decimal(9,0)"),
        ("DECIMAL(9, 2) COMMENT 'a, b'", "decimal(9,2)"),
        ("varchar(10)", "varchar(10)"),
        ("INT NOT NULL DEFAULT 3 COMMENT 'it\\'s, in euros'", "int"),
        ("STRING COLLATE UTF8_LCASE NOT NULL", "string"),
        ("STRUCT<a: INT NOT NULL COMMENT 'default', b: STRING> NOT NULL", "struct<a:int,b:string>"),
        ("BIGINT GENERATED ALWAYS AS (a + 1)", "bigint"),
        ("STRUCT<>", "struct<>"),
        ("TIME", "time(6)"),
        ("TIMESTAMP_LTZ", "timestamp"),
        ("INTERVAL DAY  TO SECOND", "interval day to second"),
        ("ARRAY<LONG>", "array<bigint>"),
        ("map< string , array<int> >", "map<string,array<int>>"),
        ("STRUCT<a: LONG, `b c`: ARRAY<SHORT>>", "struct<a:bigint,b c:array<smallint>>"),
        ("", None),
        ("NOT NULL", None),
    ],
)
def test_types_are_parsed_as_spark_prints_them(text, kind):
    (column,) = parse_columns(f"x {text}")
    assert (column.name, column.type) == ("x", kind)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "'' is not a column"),
        ("a INT,, b INT", "'' is not a column"),
        ("a INT, a LONG", "column 'a' is declared twice"),
        ("a BIGINTEGER", "'BIGINTEGER' is not a type"),
        ("a BIGINT)", "is not a type"),
        ("a ARRAY<INT", "is not a type"),
        ("a LIST<INT>", "'LIST<INT>' is not a type"),
    ],
)
def test_invalid_declarations_are_refused(text, problem):
    with pytest.raises(ValueError, match=problem):
        parse_columns(text)


def test_nested_types_of_a_schema_are_printed_as_spark_prints_them():
    fields = [{"name": "a", "type": "integer"}, {"name": "b", "type": "decimal(9,2)"}]
    inner = {"type": "struct", "fields": fields}
    kind = {"type": "map", "keyType": "string", "valueType": inner}
    assert type_text(kind) == "map<string,struct<a:int,b:decimal(9,2)>>"


def test_a_string_of_a_declared_length_matches_with_and_without_it():
    lengths = {"__CHAR_VARCHAR_TYPE_STRING": "varchar(10)"}
    zipped = {"name": "zip", "type": "string", "nullable": True, "metadata": lengths}
    schema = Schema({"type": "struct", "fields": [zipped]})

    def differences(text):
        return list(SchemaMatch(text).differences(schema))

    assert not differences("zip VARCHAR(10)")
    assert not differences("zip STRING")
    assert differences("zip VARCHAR(9)") == ["'zip' is varchar(10), not varchar(9)"]
