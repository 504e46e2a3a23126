"""Conditions of connectors: read by the grammar of the DSL, so that a condition is all that they can be."""

from __future__ import annotations

import re
import warnings

from analyzers.errors import DslError, GriffinDeprecationWarning

_PIECE = re.compile(
    r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`(?:[^`]|``)*`|[(),;]|[^'\"`(),;]+|.", re.DOTALL
)


def expression_text(text: str) -> str:
    """Return an expression of the DSL as SQL.

    Raises
    ------
    DslError
        If it is none.
    """
    from analyzers.griffin.parsing import parse_expression  # noqa: PLC0415 - needs lark, an extra
    from analyzers.griffin.sql import expression_sql  # noqa: PLC0415

    return expression_sql(parse_expression(text))


def condition_sql(where: str) -> str:
    """Return the condition of a source as SQL.

    Parameters
    ----------
    where : str
        A condition; or several with commas between them, as Griffin has them, of which one must hold.

    Raises
    ------
    DslError
        If one of them is no condition.
    """
    try:
        return expression_text(where)
    except DslError:
        several = [part.strip() for part in split_outside(where, ",") if part.strip()]
        if len(several) < 2:  # noqa: PLR2004 - one alone is what failed
            raise
    told = [f"({expression_text(part)})" for part in several]
    msg = f"conditions with commas between them are old; write 'or': {where!r}"
    warnings.warn(msg, GriffinDeprecationWarning, stacklevel=2)
    return " OR ".join(told)


def split_outside(text: str, mark: str) -> list[str]:
    """Split a text at a mark outside of quotes and brackets.

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
