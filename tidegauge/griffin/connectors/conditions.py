"""Filter conditions of connectors, parsed by the DSL grammar so that no other SQL is accepted."""

from __future__ import annotations

import re
import warnings

from tidegauge.analyzers.core.errors import DslError, GriffinDeprecationWarning
from tidegauge.analyzers.core.sql import quote

_PIECE = re.compile(
    r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`(?:[^`]|``)*`|[(),;]|[^'\"`(),;]+|.", re.DOTALL
)


def expression_text(text: str) -> str:
    """Translate a DSL expression to SQL.

    Raises
    ------
    DslError
        If the text is not a DSL expression.
    """
    from tidegauge.griffin.dsl.parser import parse_expression
    from tidegauge.griffin.lower.sql import expression_sql

    return expression_sql(parse_expression(text))


def selection_sql(text: str) -> str:
    """Translate a selected column, a DSL expression that may have an alias, to SQL.

    Raises
    ------
    DslError
        If the text is not one such expression.
    """
    from tidegauge.griffin.dsl.nodes import Aliased
    from tidegauge.griffin.dsl.parser import parse_item
    from tidegauge.griffin.lower.sql import expression_sql

    item = parse_item(text)
    if isinstance(item, Aliased):
        return f"{expression_sql(item.of)} AS {quote(item.alias)}"
    return expression_sql(item)


def condition_sql(where: str) -> str:
    """Translate the filter condition of a source to SQL.

    Parameters
    ----------
    where : str
        A condition, or Griffin's deprecated form: several separated by commas, joined by OR.

    Raises
    ------
    DslError
        If one of them is not a valid expression.
    """
    try:
        return expression_text(where)
    except DslError:
        several = [part.strip() for part in split_outside(where, ",") if part.strip()]
        if len(several) < 2:
            raise
    told = [f"({expression_text(part)})" for part in several]
    msg = f"conditions separated by commas are deprecated; use 'or': {where!r}"
    warnings.warn(msg, GriffinDeprecationWarning, stacklevel=2)
    return " OR ".join(told)


def split_outside(text: str, mark: str) -> list[str]:
    """Split text at a separator outside of quotes and parentheses.

    Examples
    --------
    >>> split_outside("a = 'x,y', b in (1, 2)", ",")
    ["a = 'x,y'", ' b in (1, 2)']
    """
    found, depth = [""], 0
    for match in _PIECE.finditer(text):
        piece = match[0]
        depth += (piece == "(") - (piece == ")")
        if piece == mark and depth <= 0:
            found.append("")
        else:
            found[-1] += piece
    return found
