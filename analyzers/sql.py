"""Spark SQL text, built so that names and filters from outside cannot change its meaning.

Analyzers state their aggregations as text: equal texts are computed once, a plan can be printed
without Spark, and a wide table costs one call into Spark for each aggregation.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from functools import singledispatch
from math import isfinite
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from analyzers.schema import Field

_STEP = re.compile(r"`(?P<quoted>(?:[^`]|``)*)`|\[(?P<index>\d+)\]|(?P<plain>[^.`\[]+)")


def quote(name: str) -> str:
    """Quote one identifier, whatever it holds.

    Examples
    --------
    >>> quote("a`b.c")
    '`a``b.c`'
    """
    return "`" + name.replace("`", "``") + "`"


def parts(column: str) -> tuple[str | int, ...]:
    """Split a column as users write it: dots lead inside, brackets count from 0, backticks keep a name whole.

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
            return (column,)  # stray marks: take the text as one name
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


def column_sql(column: str) -> str:
    """Return SQL that reads a column, or what a path leads to in one, where the schema is not known.

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


def one_zero(field: Field) -> str:
    """Return SQL for a value, with 0.0 in the place of -0.0 in a column of floats."""
    if field.kind not in {"float", "double"}:
        return field.sql
    return f"CASE WHEN {field.sql} = 0 THEN abs({field.sql}) ELSE {field.sql} END"


def where_holds(where: str | None, expression: str) -> str:
    r"""Return SQL for ``expression`` on rows where the filter is true, and null on the others.

    The filter stands on lines of its own, so that a comment at its end stays a comment.

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

    A dollar before a brace is written by its number: Spark would put settings and environment variables in
    the place of ``${name}``, within quotes, too.

    Examples
    --------
    >>> print(literal("it's"), literal("${HOME}"))
    'it\'s' '\u0024{HOME}'
    """
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return "'" + escaped.replace("${", "\\u0024{") + "'"


@singledispatch
def constant(value: Any) -> str:
    r"""Return a Python value as Spark SQL: texts, numbers, truth values, dates and times.

    Raises
    ------
    TypeError
        If it is nothing of these.

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
    return f"DATE'{value:%Y-%m-%d}'"


@constant.register
def _(value: dt.datetime) -> str:
    return f"TIMESTAMP'{value.isoformat(sep=' ')}'"


def one_of(expression: str, values: Sequence[str]) -> str:
    """Return SQL that is true where the expression is one of the values."""
    return f"{expression} IN ({', '.join(map(literal, values))})"


_PASSED = r"--[^\n]*|/\*.*?\*/|\b[rR](?:'[^']*'|\"[^\"]*\")"
"""Comments, and texts in which a backslash is a letter: no names stand in them."""
_TOKEN = re.compile(
    _PASSED + r"|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`(?P<quoted>(?:[^`]|``)*)`|(?P<bare>\w+)",
    re.DOTALL,
)
_FOREIGN = re.compile(r"\(\n(.*?)\n\)", re.DOTALL)


_NAME = r"`(?:[^`]|``)*`"
_QUOTED = re.compile(
    rf"{_PASSED}|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|(?P<path>{_NAME}(?:\.{_NAME})*)", re.DOTALL
)


def names_kept(text: str) -> str:
    r"""Return a query in which names in backticks stay what they are, those that hold ``${`` too.

    Spark would put settings and environment variables in the place of ``${name}``, within names, too.

    Examples
    --------
    >>> print(names_kept("SELECT `t`.`a${x}` FROM `t`"))
    SELECT IDENTIFIER('`t`.`a\u0024{x}`') FROM `t`
    """

    def kept(match: re.Match[str]) -> str:
        path = match["path"]
        return f"IDENTIFIER({literal(path)})" if path and "${" in path else match[0]

    return _QUOTED.sub(kept, text)


def names_in(text: str) -> set[str]:
    r"""Return all words in Spark SQL that may be names of columns, in small letters.

    What we write quotes them; what users write stands on lines of its own in brackets.

    Examples
    --------
    >>> sorted(names_in("count_if(CASE WHEN (\nDelay > 'x y'\n) THEN `Dep``Time` END)"))
    ['delay', 'dep`time']
    """
    found = {name for name, quoted in _words(text) if quoted}
    for part in _FOREIGN.findall(text):
        found |= words_in(part)
    return found


def words_in(text: str) -> set[str]:
    """Return all words in Spark SQL that users wrote which may be names of columns, in small letters.

    Examples
    --------
    >>> sorted(words_in("coalesce(Delay, `Dep``Time`) > 'x y'"))
    ['coalesce', 'delay', 'dep`time']
    """
    return {name for name, _ in _words(text)}


def _words(text: str) -> Iterator[tuple[str, bool]]:
    """Yield words in small letters, and whether they stand in backticks."""
    for m in _TOKEN.finditer(text):
        if m["quoted"]:
            yield m["quoted"].replace("``", "`").casefold(), True
        elif m["bare"]:
            yield m["bare"].casefold(), False
