"""Spark SQL generation with safe quoting of identifiers, literals and user-written filters.

Analyzers give their aggregates as text: equal texts are computed once, a plan can be printed
without Spark, and a wide table costs one call into Spark per aggregate.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Sequence
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
