"""Spark SQL as text: safe quoting of identifiers, literals and filters, and columns as DDL.

Analyzers give their aggregates as text: equal texts are computed once, a plan can be printed
without Spark, and a wide table costs one call into Spark per aggregate. Filters that users write are
quoted so that they cannot reach beyond their place.

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

_STEP = re.compile(r"`(?P<quoted>(?:[^`]|``)*)`|\[(?P<index>\d+)\]|(?P<plain>[^.`\[]+)")


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
    found: list[str | int] = []
    position = 0
    while position < len(column):
        match = _STEP.match(column, position)
        if match is None or (not found and match["index"]):
            return (column,)  # stray punctuation: take the text as one name
        if match["index"]:
            found.append(int(match["index"]))
        else:
            found.append(match["plain"] or match["quoted"].replace("``", "`"))
        position = match.end()
        if column[position : position + 1] == "." and position + 1 < len(column):
            position += 1
        elif position < len(column) and column[position] != "[":
            return (column,)
    return tuple(found) or (column,)


def table_name(path: Sequence[str]) -> str:
    """Join the parts of a table's name by dots; a part with a dot or a backtick is quoted.

    Examples
    --------
    >>> table_name(["lake", "sales", "orders"]), table_name(["lake", "sales.eu", "orders"])
    ('lake.sales.orders', 'lake.`sales.eu`.orders')
    """
    return ".".join(quote(part) if set(".`") & set(part) else part for part in path)


def table_sql(name: str) -> str:
    """Return SQL for a table's name as `table_name` writes it, with every part quoted.

    Examples
    --------
    >>> table_sql("lake.`sales.eu`.big orders")
    '`lake`.`sales.eu`.`big orders`'
    """
    found = [
        quoted.replace("``", "`") if quoted else plain
        for quoted, plain in re.findall(r"`((?:[^`]|``)+)`|([^.`]+)", name)
    ]
    return ".".join(map(quote, found))


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
    """Return whether a name is a folder's path, which is anything with a slash outside quotes.

    Examples
    --------
    >>> [is_folder(name) for name in ("lake/orders", "shop.orders", "delta.`/lake/orders`")]
    [True, False, False]
    """
    return "/" in re.sub(r"`(?:[^`]|``)*`", "", name)


def folder_of(name: str) -> str | None:
    """Return the folder that a table's name or a path names; None for a table of a catalog.

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

    The filter is put on lines of its own, so that a trailing comment in it does no harm.

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
    msg = f"{value!r} cannot be written in SQL; give texts, numbers, truth values, dates or times"
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

    ``timestampdiff`` reads such times in the session's time zone, and so moves those that its clocks
    skip.

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


NAMELESS = (
    r"--[^\n]*|/\*.*?(?:\*/|\Z)|\b[rR](?:'[^']*(?:'|\Z)|\"[^\"]*(?:\"|\Z))"
    r"|'(?:[^'\\]|\\.)*+(?:'|\\?\Z)|\"(?:[^\"\\]|\\.)*+(?:\"|\\?\Z)"
)
"""A pattern of comments and string literals, which contain no names; dots match line ends.

One that is not closed reaches to the end of the text, so that no text is searched twice.
"""
_TOKEN = re.compile(NAMELESS + r"|`(?P<quoted>(?:[^`]|``)*)`|(?P<bare>\w+)", re.DOTALL)


QUOTED_NAME = r"`(?:[^`]|``)*`"
"""A pattern of one name in backticks."""
_QUOTED = re.compile(rf"{NAMELESS}|(?P<path>{QUOTED_NAME}(?:\.{QUOTED_NAME})*)", re.DOTALL)


def protect_names(text: str) -> str:
    r"""Protect backquoted names that contain ``${`` from Spark's variable substitution.

    Spark substitutes settings and environment variables for ``${name}`` even within names.

    Examples
    --------
    >>> print(protect_names("SELECT `t`.`a${x}` FROM `t`"))
    SELECT IDENTIFIER('`t`.`a\u0024{x}`') FROM `t`
    """

    def kept(match: re.Match[str]) -> str:
        path = match["path"]
        return f"IDENTIFIER({literal(path)})" if path and "${" in path else match[0]

    return _QUOTED.sub(kept, text)


def names_in(text: str) -> set[str]:
    r"""Return all possible column names in generated Spark SQL, in lower case.

    Generated SQL quotes its names; user-written SQL is on lines of its own in parentheses.

    Examples
    --------
    >>> sorted(names_in("count_if(CASE WHEN (\nDelay > 'x y'\n) THEN `Dep``Time` END)"))
    ['delay', 'dep`time']
    """
    found = {name for name, quoted in _words(text) if quoted}
    for start, end in _user_written(text):
        found |= words_in(text[start:end])
    return found


def without_filters(text: str) -> str:
    r"""Return generated Spark SQL without its user-written parts, which are lines in parentheses.

    Examples
    --------
    >>> without_filters("max(CASE WHEN (\nx IN (1,\n2\n)\n) THEN `y` END)")
    'max(CASE WHEN  THEN `y` END)'
    """
    kept, last = [], 0
    for start, end in _user_written(text):
        kept.append(text[last : start - len(_OPENED)])
        last = end + len(_CLOSED)
    return "".join([*kept, text[last:]])


_OPENED, _CLOSED = "(\n", "\n)"
_BRACKET = re.compile(rf"{NAMELESS}|{QUOTED_NAME}|(?P<bracket>[()])", re.DOTALL)


def _user_written(text: str) -> Iterator[tuple[int, int]]:
    """Yield where each user-written part of generated SQL begins and ends."""
    end = 0
    while (opened := text.find(_OPENED, end)) >= 0:
        start = opened + len(_OPENED)
        depth = 1
        for match in _BRACKET.finditer(text, start):
            depth += {"(": 1, ")": -1}.get(match["bracket"], 0)
            if not depth:
                end = match.start() - len(_CLOSED) + 1
                break
        else:
            return
        yield start, end
        end += len(_CLOSED)


def words_in(text: str) -> set[str]:
    """Return all possible column names in user-written Spark SQL, in lower case.

    Examples
    --------
    >>> sorted(words_in("coalesce(Delay, `Dep``Time`) > 'x y'"))
    ['coalesce', 'delay', 'dep`time']
    """
    return {name for name, _ in _words(text)}


def without_literals(text: str) -> str:
    """Return Spark SQL with string literals and comments blanked; names stay.

    Examples
    --------
    >>> without_literals("`a b` = 'rand()' -- rand()")
    "`a b` = '' ''"
    """
    return _TOKEN.sub(lambda m: m[0] if m["bare"] or m["quoted"] is not None else "''", text)


def _words(text: str) -> Iterator[tuple[str, bool]]:
    """Yield each word in lower case, and whether it is in backticks."""
    for m in _TOKEN.finditer(text):
        if m["quoted"]:
            yield m["quoted"].replace("``", "`").casefold(), True
        elif m["bare"]:
            yield m["bare"].casefold(), False


COLLATIONS = "__COLLATIONS"
"""The metadata in which a column's JSON form keeps the collations of its text."""
LENGTHS = "__CHAR_VARCHAR_TYPE_STRING"
"""The metadata in which a column's JSON form keeps its type with the declared lengths of texts."""
_SQL = {"byte": "TINYINT", "short": "SMALLINT", "integer": "INT", "long": "BIGINT"}

_COLUMN = re.compile(r"(?P<name>`(?:[^`]|``)+`|[^\s:`,()<>]+)\s*:?\s*(?P<type>.*)", re.DOTALL)
_AFTER_TYPE = re.compile(
    r"\s+(?:NOT\s+NULL|NULL|COMMENT|DEFAULT|COLLATE|GENERATED)\b", re.IGNORECASE
)
_ALIASES = {
    "long": "bigint",
    "integer": "int",
    "short": "smallint",
    "byte": "tinyint",
    "real": "float",
    "dec": "decimal",
    "numeric": "decimal",
    "timestamp_ltz": "timestamp",
}
_KINDS = frozenset(
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
_SIMPLE = re.compile(r"(?P<name>[a-z_ ]+)(\(\s*(?P<size>\d+)\s*(,\s*(?P<scale>\d+)\s*)?\))?")
_PAIRS = {"(": ")", "<": ">"}
_HIDDEN = re.compile(rf"{NAMELESS}|{QUOTED_NAME}", re.DOTALL)


@dataclass(frozen=True)
class DeclaredColumn:
    """A column of a declared schema.

    Attributes
    ----------
    name : str
        The column's name.
    type : str or None
        As Spark prints it, ``bigint`` and ``array<string>``; None for any.
    """

    name: str
    type: str | None


def parse_columns(text: str) -> tuple[DeclaredColumn, ...]:
    """Parse columns separated by commas: a name each, and a type or none.

    ``NOT NULL``, collations, comments and defaults are ignored. A name with blanks or commas is in backticks.

    Raises
    ------
    ValueError
        With the part that is not a column, or is there twice.

    Examples
    --------
    >>> for column in parse_columns("id LONG NOT NULL, `a b` array< string >, price: decimal(9, 2), x"):
    ...     print(column.name, column.type)
    id bigint
    a b array<string>
    price decimal(9,2)
    x None
    """
    found: dict[str, DeclaredColumn] = {}
    for part in _split(text):
        match = _COLUMN.fullmatch(part.strip())
        if match is None:
            msg = f"{part.strip()!r} is not a column such as 'id BIGINT'"
            raise ValueError(msg)
        raw = match["name"]
        name = raw[1:-1].replace("``", "`") if raw.startswith("`") else raw
        if name in found:
            msg = f"column {name!r} is declared twice"
            raise ValueError(msg)
        declared = " " + match["type"]
        if after := _AFTER_TYPE.search(_masked(declared)):
            declared = declared[: after.start()]
        declared = declared.strip()
        found[name] = DeclaredColumn(name, _normal(declared) if declared else None)
    return tuple(found.values())


def type_text(kind: Any) -> str:
    """Return a type in Spark's JSON form as Spark prints it.

    Examples
    --------
    >>> type_text("long"), type_text({"type": "array", "elementType": "integer"})
    ('bigint', 'array<int>')
    """
    if not isinstance(kind, Mapping):
        return _ALIASES.get(str(kind), str(kind))
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
        Where the type stands in its field, as ``collations`` names it: ``name``, ``name.element``.
    collations : mapping of str to str, optional
        Collation of texts by path, with its provider: ``spark.UTF8_LCASE``.

    Examples
    --------
    >>> type_sql({"type": "array", "elementType": "long", "containsNull": True})
    'ARRAY<BIGINT>'
    >>> fields = [{"name": "a b", "type": "integer", "nullable": True, "metadata": {}}]
    >>> type_sql({"type": "struct", "fields": fields})
    'STRUCT<`a b`: INT>'
    """
    known = collations or {}

    def inside(part: str) -> str:
        step = {"elementType": "element", "keyType": "key", "valueType": "value"}[part]
        return type_sql(kind[part], path=f"{path}.{step}", collations=known)

    if isinstance(kind, str):
        collated = f" COLLATE {known[path].rpartition('.')[2]}" if path in known else ""
        return _SQL.get(kind, kind.upper()) + collated
    if kind["type"] == "array":
        return f"ARRAY<{inside('elementType')}>"
    if kind["type"] == "map":
        return f"MAP<{inside('keyType')}, {inside('valueType')}>"
    if kind["type"] == "udt":
        return type_sql(kind["sqlType"])
    return f"STRUCT<{', '.join(_definition(field, ': ') for field in kind['fields'])}>"


def definition_sql(field: Mapping[str, Any]) -> str:
    r"""Return a column's definition for ``CREATE TABLE``: its type, length, collation and comment.

    Every column is nullable. Collations and lengths are read from the metadata in which Spark keeps
    them.

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


def _definition(field: Mapping[str, Any], between: str) -> str:
    metadata = field.get("metadata", {})
    kind = metadata.get(LENGTHS, field["type"])
    of = type_sql(kind, path=field["name"], collations=metadata.get(COLLATIONS))
    comment = f" COMMENT {literal(metadata['comment'])}" if metadata.get("comment") else ""
    return f"{quote(field['name'])}{between}{of}{comment}"


def _normal(text: str) -> str:
    """Return a declared type as `type_text` writes it."""
    kind, opening, rest = text.strip().partition("<")
    kind = re.sub(r"\s+", " ", kind.strip()).casefold()
    if opening:
        if not rest.rstrip().endswith(">") or kind not in {"array", "map", "struct"}:
            msg = f"{text!r} is not a type such as BIGINT or ARRAY<STRING>"
            raise ValueError(msg)
        inner = list(_split(rest.rstrip()[:-1]))
        if kind == "struct":
            fields = parse_columns(",".join(inner)) if any(map(str.strip, inner)) else ()
            return f"struct<{','.join(f'{f.name}:{f.type}' for f in fields)}>"
        return f"{kind}<{','.join(map(_normal, inner))}>"
    match = _SIMPLE.fullmatch(kind)
    name = match and _ALIASES.get(match["name"].strip(), match["name"].strip())
    if match is None or name not in _KINDS:
        msg = f"{text!r} is not a type such as BIGINT or ARRAY<STRING>"
        raise ValueError(msg)
    if name == "decimal":
        return f"decimal({match['size'] or 10},{match['scale'] or 0})"
    if name == "time":
        return f"time({match['size'] or 6})"
    return f"{name}({match['size']})" if match["size"] else str(name)


def _split(text: str) -> Iterator[str]:
    """Split text at the commas that lie in no brackets, backticks or quotes."""
    start = 0
    for comma in re.finditer(",", _masked(text)):
        yield text[start : comma.start()]
        start = comma.end()
    yield text[start:]


def _masked(text: str) -> str:
    """Return text of the same length in which all in brackets, backticks and quotes is an underscore."""
    depth, found = 0, []
    for char in _HIDDEN.sub(lambda match: "_" * len(match[0]), text):
        depth -= char in _PAIRS.values()
        found.append("_" if depth else char)
        depth += char in _PAIRS
    return "".join(found)
