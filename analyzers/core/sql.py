"""Spark SQL as strings: safe quoting of identifiers, literals and filters, and columns as DDL.

Analyzers write their aggregates as SQL. Equal aggregates are computed once, a plan can be printed
without Spark, and a wide table costs one call into Spark per aggregate. Users' filters are enclosed
so that they cannot affect the SQL around them.

The second half parses and writes columns and types as DDL, ``id BIGINT, name STRING``, without Spark.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import singledispatch
from math import isfinite
from typing import Any

_PATH_STEP = re.compile(r"`(?P<quoted>(?:[^`]|``)*)`|\[(?P<index>\d+)\]|(?P<plain>[^.`\[]+)")


def quote(name: str) -> str:
    """Quote one identifier with backticks, doubling those inside it.

    Examples
    --------
    >>> quote("a`b.c")
    '`a``b.c`'
    """
    return "`" + name.replace("`", "``") + "`"


def parts(column: str) -> tuple[str | int, ...]:
    """Parse a column path: dots enter structs, brackets index from 0, backticks quote a name.

    Examples
    --------
    >>> parts("address.zip"), parts("`a.b`"), parts("dep time"), parts("lines[0].price")
    (('address', 'zip'), ('a.b',), ('dep time',), ('lines', 0, 'price'))
    """
    steps: list[str | int] = []
    position = 0
    while position < len(column):
        match = _PATH_STEP.match(column, position)
        if match is None or (not steps and match["index"]):
            return (column,)  # stray punctuation: the whole string is one name
        if match["index"]:
            steps.append(int(match["index"]))
        else:
            steps.append(match["plain"] or match["quoted"].replace("``", "`"))
        position = match.end()
        if column[position : position + 1] == "." and position + 1 < len(column):
            position += 1
        elif position < len(column) and column[position] != "[":
            return (column,)
    return tuple(steps) or (column,)


def table_name(path: Sequence[str]) -> str:
    """Join the parts of a table's name by dots; a part with a dot or a backtick is quoted.

    Examples
    --------
    >>> table_name(["lake", "sales", "orders"]), table_name(["lake", "sales.eu", "orders"])
    ('lake.sales.orders', 'lake.`sales.eu`.orders')
    """
    return ".".join(quote(part) if set(".`") & set(part) else part for part in path)


def table_parts(name: str) -> list[str]:
    """Split a table's name as `table_name` writes it.

    Examples
    --------
    >>> table_parts("lake.`sales.eu`.big orders")
    ['lake', 'sales.eu', 'big orders']
    """
    return [
        quoted.replace("``", "`") if quoted else plain
        for quoted, plain in re.findall(r"`((?:[^`]|``)+)`|([^.`]+)", name)
    ]


def table_sql(name: str) -> str:
    """Return SQL for a table's name as `table_name` writes it, with every part quoted.

    Examples
    --------
    >>> table_sql("lake.`sales.eu`.big orders")
    '`lake`.`sales.eu`.`big orders`'
    """
    return ".".join(map(quote, table_parts(name)))


def path_table(name: str) -> tuple[str, str] | None:
    """Split a table name of the form ``format.`path` `` into format and path; None for other names.

    Examples
    --------
    >>> path_table("delta.`/lake/orders`"), path_table("`Parquet`.`s3://lake/a``b`")
    (('delta', '/lake/orders'), ('parquet', 's3://lake/a`b'))
    >>> path_table("lake.`odd/name`.t"), path_table("/lake/orders")
    (None, None)
    """
    match = re.fullmatch(r"(`?)([A-Za-z]\w*)\1\.`((?:[^`]|``)+)`", name.strip())
    if match is None or "/" not in match[3]:
        return None
    return match[2].casefold(), match[3].replace("``", "`")


def is_folder(name: str) -> bool:
    """Return whether a name is the path of a folder: any name with a slash outside quotes.

    Examples
    --------
    >>> [is_folder(name) for name in ("lake/orders", "shop.orders", "delta.`/lake/orders`")]
    [True, False, False]
    """
    return "/" in re.sub(r"`(?:[^`]|``)*`", "", name)


def folder_of(name: str) -> str | None:
    """Return the folder of a path or of a table name that contains a path; None for a table of a catalog.

    Examples
    --------
    >>> folder_of("lake/orders"), folder_of("delta.`/lake/orders`"), folder_of("shop.orders")
    ('lake/orders', '/lake/orders', None)
    """
    if (located := path_table(name)) is not None:
        return located[1]
    return name if is_folder(name) else None


def column_sql(column: str) -> str:
    """Return SQL that reads a column or a nested path when the schema is unknown.

    Examples
    --------
    >>> column_sql("address.zip"), column_sql("lines[0].price"), column_sql("`a.b`")
    ('`address`.`zip`', 'get(`lines`, 0).`price`', '`a.b`')
    """
    first, *rest = parts(column)
    sql = quote(str(first))
    for step in rest:
        sql = f"get({sql}, {step})" if isinstance(step, int) else f"{sql}.{quote(step)}"
    return sql


def where_holds(where: str | None, expression: str) -> str:
    r"""Return SQL for ``expression`` on rows where the filter is true, and null on the others.

    The filter is on separate lines, so that a trailing comment does not hide the following SQL.

    Examples
    --------
    >>> where_holds(None, "`x`")
    '`x`'
    >>> where_holds("a > 1", "`x`")
    'CASE WHEN (\na > 1\n) THEN `x` END'
    """
    return expression if where is None else f"CASE WHEN (\n{where}\n) THEN {expression} END"


def count_rows(where: str | None) -> str:
    """Return SQL that counts the rows where the filter is true; null counts as false.

    Examples
    --------
    >>> count_rows(None)
    'count(1)'
    """
    return f"count({where_holds(where, '1')})"


def literal(text: str) -> str:
    r"""Quote a string literal for Spark SQL.

    A dollar before a brace is escaped by its code point, because Spark substitutes settings and
    environment variables for ``${name}`` even within quotes.

    Examples
    --------
    >>> print(literal("it's"), literal("${HOME}"))
    'it\'s' '\u0024{HOME}'
    """
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return "'" + escaped.replace("${", "\\u0024{") + "'"


@singledispatch
def constant(value: Any) -> str:
    r"""Return a Spark SQL literal for a Python string, number, boolean, date or datetime.

    Raises
    ------
    TypeError
        If the value is of another type.

    Examples
    --------
    >>> [constant(v) for v in ("it's", 3, 1.5, True, dt.date(2013, 2, 8))]
    ["'it\\'s'", '3', '1.5D', 'true', "DATE'2013-02-08'"]
    """
    msg = f"{value!r} has no SQL literal; use strings, numbers, booleans, dates or times"
    raise TypeError(msg)


@constant.register
def _(value: str) -> str:
    return literal(value)


@constant.register
def _(value: int) -> str:
    return str(int(value)) if abs(value) < 2**63 else f"{int(value)}BD"


@constant.register
def _(value: bool) -> str:  # noqa: FBT001
    return "true" if value else "false"


@constant.register
def _(value: float) -> str:
    return f"{float(value)!r}D" if isfinite(value) else f"double('{float(value)}')"


@constant.register
def _(value: Decimal) -> str:
    return f"{value:f}BD" if value.is_finite() else constant(float(value))


@constant.register
def _(value: dt.date) -> str:
    return f"DATE'{value.isoformat()}'"


@constant.register
def _(value: dt.datetime) -> str:
    return f"TIMESTAMP'{value.isoformat(sep=' ')}'"


def wall_clock_micros(expression: str) -> str:
    """Return SQL for a TIMESTAMP_NTZ as microseconds since 1970-01-01 00:00, whatever the session's zone.

    ``timestampdiff`` reads such times in the session's time zone, and so changes times that do not
    exist there.

    Examples
    --------
    >>> wall_clock_micros("`at`").startswith("(unix_date(CAST(`at` AS DATE)) * 86400000000L + ")
    True
    """
    return (
        f"(unix_date(CAST({expression} AS DATE)) * 86400000000L + hour({expression}) * 3600000000L"
        f" + minute({expression}) * 60000000L"
        f" + CAST(extract(SECOND FROM {expression}) * 1000000 AS BIGINT))"
    )


def one_of(expression: str, values: Sequence[str]) -> str:
    """Return an SQL ``IN`` condition: true where the expression equals one of the values."""
    return f"{expression} IN ({', '.join(map(literal, values))})"


NAMELESS_PATTERN = (
    r"--[^\n]*|/\*.*?(?:\*/|\Z)|\b[rR](?:'[^']*(?:'|\Z)|\"[^\"]*(?:\"|\Z))"
    r"|'(?:[^'\\]|\\.)*+(?:'|\\?\Z)|\"(?:[^\"\\]|\\.)*+(?:\"|\\?\Z)"
)
"""Pattern of comments and string literals, which contain no names. Use it with DOTALL.

An unclosed literal or comment extends to the end, so that no part of the SQL is searched twice.
"""
_NAME_TOKEN = re.compile(NAMELESS_PATTERN + r"|`(?P<quoted>(?:[^`]|``)*)`|(?P<bare>\w+)", re.DOTALL)


QUOTED_NAME = r"`(?:[^`]|``)*`"
"""Pattern of a name in backticks."""
_QUOTED_PATH = re.compile(
    rf"{NAMELESS_PATTERN}|(?P<path>{QUOTED_NAME}(?:\.{QUOTED_NAME})*)", re.DOTALL
)


def protect_names(sql: str) -> str:
    r"""Protect backquoted names that contain ``${`` from Spark's variable substitution.

    Spark substitutes settings and environment variables for ``${name}`` even within names.

    Examples
    --------
    >>> print(protect_names("SELECT `t`.`a${x}` FROM `t`"))
    SELECT IDENTIFIER('`t`.`a\u0024{x}`') FROM `t`
    """

    def protect(match: re.Match[str]) -> str:
        path = match["path"]
        return f"IDENTIFIER({literal(path)})" if path and "${" in path else match[0]

    return _QUOTED_PATH.sub(protect, sql)


def names_in(sql: str) -> set[str]:
    r"""Return all possible column names in generated Spark SQL, in lower case.

    Generated SQL quotes its names. User-written SQL is on separate lines in parentheses.

    Examples
    --------
    >>> sorted(names_in("count_if(CASE WHEN (\nDelay > 'x y'\n) THEN `Dep``Time` END)"))
    ['delay', 'dep`time']
    """
    names = {name for name, quoted in _words(sql) if quoted}
    for start, end in _user_written_ranges(sql):
        names |= words_in(sql[start:end])
    return names


def without_filters(sql: str) -> str:
    r"""Return generated Spark SQL without its user-written parts.

    Examples
    --------
    >>> without_filters("max(CASE WHEN (\nx IN (1,\n2\n)\n) THEN `y` END)")
    'max(CASE WHEN  THEN `y` END)'
    """
    pieces, position = [], 0
    for start, end in _user_written_ranges(sql):
        pieces.append(sql[position : start - len(_USER_SQL_START)])
        position = end + len(_USER_SQL_END)
    return "".join([*pieces, sql[position:]])


_USER_SQL_START, _USER_SQL_END = "(\n", "\n)"
_BRACKET_PATTERN = re.compile(rf"{NAMELESS_PATTERN}|{QUOTED_NAME}|(?P<bracket>[()])", re.DOTALL)


def _user_written_ranges(sql: str) -> Iterator[tuple[int, int]]:
    """Yield the begin and end of each user-written part of generated SQL."""
    end = 0
    while (opened := sql.find(_USER_SQL_START, end)) >= 0:
        start = opened + len(_USER_SQL_START)
        depth = 1
        for match in _BRACKET_PATTERN.finditer(sql, start):
            depth += {"(": 1, ")": -1}.get(match["bracket"], 0)
            if not depth:
                end = match.start() - len(_USER_SQL_END) + 1
                break
        else:
            return
        yield start, end
        end += len(_USER_SQL_END)


def words_in(sql: str) -> set[str]:
    """Return all possible column names in user-written Spark SQL, in lower case.

    Examples
    --------
    >>> sorted(words_in("coalesce(Delay, `Dep``Time`) > 'x y'"))
    ['coalesce', 'delay', 'dep`time']
    """
    return {name for name, _ in _words(sql)}


def without_literals(sql: str) -> str:
    """Return Spark SQL with string literals and comments replaced by empty literals.

    Examples
    --------
    >>> without_literals("`a b` = 'rand()' -- rand()")
    "`a b` = '' ''"
    """
    return _NAME_TOKEN.sub(lambda m: m[0] if m["bare"] or m["quoted"] is not None else "''", sql)


def _words(sql: str) -> Iterator[tuple[str, bool]]:
    """Yield each word, in lower case, and whether it is in backticks."""
    for m in _NAME_TOKEN.finditer(sql):
        if m["quoted"]:
            yield m["quoted"].replace("``", "`").casefold(), True
        elif m["bare"]:
            yield m["bare"].casefold(), False


COLLATIONS_KEY = "__COLLATIONS"
"""Metadata key of a column's collations in Spark's JSON form."""
LENGTHS_KEY = "__CHAR_VARCHAR_TYPE_STRING"
"""Metadata key of a column's type with declared string lengths, in Spark's JSON form."""
EXISTING_DEFAULT_KEY = "EXISTS_DEFAULT"
"""Metadata key of the value of a column in files that were written before it was added."""
_SQL_NAME_BY_JSON_TYPE = {
    "byte": "TINYINT",
    "short": "SMALLINT",
    "integer": "INT",
    "long": "BIGINT",
}

_COLUMN_DEFINITION = re.compile(
    r"(?P<name>`(?:[^`]|``)+`|[^\s:`,()<>]+)\s*:?\s*(?P<type>.*)", re.DOTALL
)
_AFTER_TYPE = re.compile(
    r"\s+(?:NOT\s+NULL|NULL|COMMENT|DEFAULT|COLLATE|GENERATED)\b", re.IGNORECASE
)
_TYPE_ALIASES = {
    "long": "bigint",
    "integer": "int",
    "short": "smallint",
    "byte": "tinyint",
    "real": "float",
    "dec": "decimal",
    "numeric": "decimal",
    "timestamp_ltz": "timestamp",
}
_TYPE_NAMES = frozenset(
    [
        "binary",
        "boolean",
        "char",
        "date",
        "decimal",
        "double",
        "float",
        "int",
        "bigint",
        "smallint",
        "tinyint",
        "string",
        "time",
        "timestamp",
        "timestamp_ntz",
        "variant",
        "varchar",
        "void",
    ]
) | {
    *("interval year", "interval month", "interval year to month", "interval day", "interval hour"),
    *("interval minute", "interval second", "interval day to hour", "interval day to minute"),
    *("interval day to second", "interval hour to minute", "interval hour to second"),
    "interval minute to second",
}
_SIMPLE_TYPE = re.compile(r"(?P<name>[a-z_ ]+)(\(\s*(?P<size>\d+)\s*(,\s*(?P<scale>\d+)\s*)?\))?")
_CLOSING_BY_OPENING = {"(": ")", "<": ">"}
_OPAQUE_PATTERN = re.compile(rf"{NAMELESS_PATTERN}|{QUOTED_NAME}", re.DOTALL)


@dataclass(frozen=True)
class DeclaredColumn:
    """A column of a declared schema.

    Attributes
    ----------
    name : str
        The column's name.
    type : str or None
        The type as Spark prints it, such as ``bigint`` or ``array<string>``; None for any type.
    """

    name: str
    type: str | None


def parse_columns(text: str) -> tuple[DeclaredColumn, ...]:
    """Parse columns separated by commas, each with a name and an optional type.

    ``NOT NULL``, collations, comments and defaults are ignored. A name with spaces or commas must be in backticks.

    Raises
    ------
    ValueError
        If a part is not a column, or a column is declared twice.

    Examples
    --------
    >>> for column in parse_columns("id LONG NOT NULL, `a b` array< string >, price: decimal(9, 2), x"):
    ...     print(column.name, column.type)
    id bigint
    a b array<string>
    price decimal(9,2)
    x None
    """
    columns: dict[str, DeclaredColumn] = {}
    for part in _split_at_commas(text):
        match = _COLUMN_DEFINITION.fullmatch(part.strip())
        if match is None:
            msg = f"{part.strip()!r} is not a column such as 'id BIGINT'"
            raise ValueError(msg)
        raw = match["name"]
        name = raw[1:-1].replace("``", "`") if raw.startswith("`") else raw
        if name in columns:
            msg = f"column {name!r} is declared twice"
            raise ValueError(msg)
        declared = " " + match["type"]
        if after := _AFTER_TYPE.search(_mask(declared)):
            declared = declared[: after.start()]
        declared = declared.strip()
        columns[name] = DeclaredColumn(name, _normalize_type(declared) if declared else None)
    return tuple(columns.values())


def type_text(kind: Any) -> str:
    """Return a type in Spark's JSON form as Spark prints it.

    Examples
    --------
    >>> type_text("long"), type_text({"type": "array", "elementType": "integer"})
    ('bigint', 'array<int>')
    """
    if not isinstance(kind, Mapping):
        return _TYPE_ALIASES.get(str(kind), str(kind))
    if kind["type"] == "array":
        return f"array<{type_text(kind['elementType'])}>"
    if kind["type"] == "map":
        return f"map<{type_text(kind['keyType'])},{type_text(kind['valueType'])}>"
    if kind["type"] == "struct":
        fields = ",".join(f"{f['name']}:{type_text(f['type'])}" for f in kind["fields"])
        return f"struct<{fields}>"
    return str(kind["type"])


def type_sql(kind: Any, *, path: str = "", collations: Mapping[str, str] | None = None) -> str:
    """Return a type in Spark's JSON form as SQL, without nullability.

    Parameters
    ----------
    kind : str or mapping
        A data type in Spark's JSON form.
    path : str, optional
        Path of the type within its field, as in ``collations``: ``name``, ``name.element``.
    collations : mapping of str to str, optional
        Collations by path, with their provider: ``spark.UTF8_LCASE``.

    Examples
    --------
    >>> type_sql({"type": "array", "elementType": "long", "containsNull": True})
    'ARRAY<BIGINT>'
    >>> fields = [{"name": "a b", "type": "integer", "nullable": True, "metadata": {}}]
    >>> type_sql({"type": "struct", "fields": fields})
    'STRUCT<`a b`: INT>'
    """
    collation_by_path = collations or {}

    def inside(part: str) -> str:
        step = {"elementType": "element", "keyType": "key", "valueType": "value"}[part]
        return type_sql(kind[part], path=f"{path}.{step}", collations=collation_by_path)

    if isinstance(kind, str):
        collated = (
            f" COLLATE {collation_by_path[path].rpartition('.')[2]}"
            if path in collation_by_path
            else ""
        )
        return _SQL_NAME_BY_JSON_TYPE.get(kind, kind.upper()) + collated
    if kind["type"] == "array":
        return f"ARRAY<{inside('elementType')}>"
    if kind["type"] == "map":
        return f"MAP<{inside('keyType')}, {inside('valueType')}>"
    if kind["type"] == "udt":
        return type_sql(kind["sqlType"])
    return f"STRUCT<{', '.join(_definition(field, ': ') for field in kind['fields'])}>"


def definition_sql(field: Mapping[str, Any]) -> str:
    r"""Return a column's definition for ``CREATE TABLE``: its type, length, collation and comment.

    Every column is nullable. Collations and lengths are read from the metadata of the field.

    Parameters
    ----------
    field : mapping
        A field of a struct in Spark's JSON form.

    Examples
    --------
    >>> print(definition_sql({"name": "a`b", "type": "long", "metadata": {"comment": "its key"}}))
    `a``b` BIGINT COMMENT 'its key'
    """
    return _definition(field, " ")


def _definition(field: Mapping[str, Any], separator: str) -> str:
    metadata = field.get("metadata", {})
    kind = metadata.get(LENGTHS_KEY, field["type"])
    type_definition = type_sql(kind, path=field["name"], collations=metadata.get(COLLATIONS_KEY))
    comment = f" COMMENT {literal(metadata['comment'])}" if metadata.get("comment") else ""
    return f"{quote(field['name'])}{separator}{type_definition}{comment}"


def _normalize_type(text: str) -> str:
    """Return a declared type as `type_text` writes it."""
    kind, opening, rest = text.strip().partition("<")
    kind = re.sub(r"\s+", " ", kind.strip()).casefold()
    if opening:
        if not rest.rstrip().endswith(">") or kind not in {"array", "map", "struct"}:
            msg = f"{text!r} is not a type such as BIGINT or ARRAY<STRING>"
            raise ValueError(msg)
        inner = list(_split_at_commas(rest.rstrip()[:-1]))
        if kind == "struct":
            fields = parse_columns(",".join(inner)) if any(map(str.strip, inner)) else ()
            return f"struct<{','.join(f'{f.name}:{f.type}' for f in fields)}>"
        return f"{kind}<{','.join(map(_normalize_type, inner))}>"
    match = _SIMPLE_TYPE.fullmatch(kind)
    name = match and _TYPE_ALIASES.get(match["name"].strip(), match["name"].strip())
    if match is None or name not in _TYPE_NAMES:
        msg = f"{text!r} is not a type such as BIGINT or ARRAY<STRING>"
        raise ValueError(msg)
    if name == "decimal":
        return f"decimal({match['size'] or 10},{match['scale'] or 0})"
    if name == "time":
        return f"time({match['size'] or 6})"
    return f"{name}({match['size']})" if match["size"] else str(name)


def _split_at_commas(text: str) -> Iterator[str]:
    """Split at the commas outside brackets, backticks and quotes."""
    start = 0
    for comma in re.finditer(",", _mask(text)):
        yield text[start : comma.start()]
        start = comma.end()
    yield text[start:]


def _mask(text: str) -> str:
    """Replace each character in brackets, backticks or quotes by an underscore."""
    depth, masked = 0, []
    for char in _OPAQUE_PATTERN.sub(lambda match: "_" * len(match[0]), text):
        depth -= char in _CLOSING_BY_OPENING.values()
        masked.append("_" if depth else char)
        depth += char in _CLOSING_BY_OPENING
    return "".join(masked)
