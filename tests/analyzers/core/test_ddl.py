"""Columns declared as DDL text. No Spark."""

import pytest
from tidegauge.analyzers.core.ddl import parse_columns, type_text


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("LONG", "bigint"),
        ("Integer NOT NULL", "int"),
        ("DEC", "decimal(10,0)"),
        ("numeric( 9 )", "decimal(9,0)"),
        ("DECIMAL(9, 2) COMMENT 'a, b'", "decimal(9,2)"),
        ("varchar(10)", "varchar(10)"),
        ("TIMESTAMP_LTZ", "timestamp"),
        ("INTERVAL DAY  TO SECOND", "interval day to second"),
        ("ARRAY<LONG>", "array<bigint>"),
        ("map< string , array<int> >", "map<string,array<int>>"),
        ("STRUCT<a: LONG, `b c`: ARRAY<SHORT>>", "struct<a:bigint,b c:array<smallint>>"),
        ("", None),
        ("NOT NULL", None),
    ],
)
def test_types_are_read_as_spark_prints_them(text, kind):
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
def test_what_is_no_declaration_is_refused(text, problem):
    with pytest.raises(ValueError, match=problem):
        parse_columns(text)


def test_nested_types_of_a_schema_are_told_as_spark_prints_them():
    fields = [{"name": "a", "type": "integer"}, {"name": "b", "type": "decimal(9,2)"}]
    inner = {"type": "struct", "fields": fields}
    kind = {"type": "map", "keyType": "string", "valueType": inner}
    assert type_text(kind) == "map<string,struct<a:int,b:decimal(9,2)>>"
