"""Exact comparisons of decimals in Spark SQL.

Spark compares two decimals as values of a common type of at most 38 digits. If one has many digits
before the point and the other many behind it, digits are lost: decimal(38,38) compared with 0 takes
1e-38 for 0 in Spark 4, and compared with 1 gives null in Spark 3.5.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from functools import partial

from tidegauge.analyzers.core.errors import PreconditionError
from tidegauge.analyzers.core.schema import INTEGRAL, Schema
from tidegauge.analyzers.core.sql import NAMELESS

_MOST_DIGITS = 38
"""Digits of Spark's longest decimal."""
_INTEGER_DIGITS = {"byte": 3, "short": 5, "integer": 10, "long": 20}
"""Digits of the decimals to which Spark casts integers."""

_NAME = r"(?:`(?:[^`]|``)+`|(?!(?:and|or|not|in|is|between|when|then|else)\b)[a-z_]\w*)"
_COLUMN = _NAME
for _ in range(2):  # elements of arrays, and of arrays in their elements
    _COLUMN = rf"(?:get\({_COLUMN},[ ]\d+\)|{_NAME})(?:\.{_NAME})*"
_NUMBER = r"-?\d+(?:\.\d+)?(?:bd)?"
_OPERAND = rf"(?:coalesce\({_COLUMN},[ ]{_NUMBER}\)|{_COLUMN}|{_NUMBER})(?![\w.(])"
# What stands around a comparison shows that it is an operand of nothing but AND, OR and NOT.
_COMPARISON = re.compile(
    rf"""(?P<before>(?:\A|[(,]|\b(?:and|or|not|when|then|else)\b)\s*)
    (?P<left>{_OPERAND})\s*
    (?:
        (?P<sign><=>|<=|>=|<>|!=|==|=|<|>)\s*(?P<right>{_OPERAND})
      | (?P<negated>\bnot\s+)?
        (?:
            in\s*\(\s*(?P<values>{_NUMBER}(?:\s*,\s*{_NUMBER})*)\s*\)
          | between\s+(?P<low>{_NUMBER})\s+and\s+(?P<high>{_NUMBER})
        )
    )
    (?=\s*(?:\Z|[),]|(?:and|or|when|then|else|end)\b))
    |{NAMELESS}|`[^`]*`""",
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)
_SCOPES = re.compile(r"->|\bselect\b", re.IGNORECASE)
"""Words that give names another meaning than that of a column."""


def compare_exactly(condition: str, schema: Schema) -> str:
    """Rewrite the comparisons of a Spark SQL condition that would lose digits of decimals.

    These are comparisons of columns of integers and decimals with each other and with numbers, IN
    and BETWEEN. All others stay as they are.

    Examples
    --------
    >>> schema = Schema.from_types({"price": "decimal(9,2)", "tiny": "decimal(38,38)"})
    >>> compare_exactly("price > 0 AND tiny > 0", schema)  # doctest: +ELLIPSIS
    'price > 0 AND (CASE WHEN floor(tiny) = floor(0BD) THEN CAST(pmod(tiny, 1BD) AS DECIMAL(38, 38)) > ...)'
    """
    if _SCOPES.search(condition):
        return condition
    return _COMPARISON.sub(partial(_rewritten, schema=schema), condition)


def _rewritten(match: re.Match[str], schema: Schema) -> str:
    """Return a comparison that keeps all digits; the text as it is if it is none, or loses none."""
    if match["left"] is None:
        return match[0]
    if match["sign"]:
        others, signs = [match["right"]], [match["sign"]]
    elif match["values"]:
        others = re.split(r"\s*,\s*", match["values"])
        signs = ["="] * len(others)
    else:
        others, signs = [match["low"], match["high"]], [">=", "<="]
    left, *rest = (_number(sql, schema) for sql in (match["left"], *others))
    numbers = [number for number in rest if number is not None]
    if left is None or len(numbers) < len(rest) or _fits([left, *numbers]):
        return match[0]
    joined = (" OR " if match["values"] else " AND ").join(
        left.compared(sign, number) for sign, number in zip(signs, numbers, strict=True)
    )
    return f"{match['before']}{'NOT ' if match['negated'] else ''}({joined})"


@dataclass(frozen=True)
class _Number:
    """SQL of a decimal in two parts, neither of which is ever rounded.

    Attributes
    ----------
    whole : str
        The greatest integer that is not greater.
    fraction : str
        What is added to it, from 0 to below 1.
    digits, scale : int
        Digits before and after the point.
    """

    whole: str
    fraction: str
    digits: int
    scale: int

    @classmethod
    def from_sql(cls, sql: str, digits: int, scale: int) -> _Number:
        """Return the number that is given by SQL of a decimal type."""
        fraction = f"CAST(pmod({sql}, 1BD) AS DECIMAL({_MOST_DIGITS}, {_MOST_DIGITS}))"
        return cls(f"floor({sql})", fraction, digits, scale)

    def or_else(self, other: _Number) -> _Number:
        """Return the number, or another where it is null."""
        return _Number(
            f"coalesce({self.whole}, {other.whole})",
            f"coalesce({self.fraction}, {other.fraction})",
            max(self.digits, other.digits),
            max(self.scale, other.scale),
        )

    def compared(self, sign: str, other: _Number) -> str:
        """Return SQL of a comparison; null if one of the numbers is."""
        return (
            f"CASE WHEN {self.whole} = {other.whole} THEN {self.fraction} {sign} {other.fraction}"
            f" ELSE {self.whole} {sign} {other.whole} END"
        )


def _fits(numbers: Iterable[_Number]) -> bool:
    """Return whether Spark's common type holds all digits of all numbers."""
    numbers = list(numbers)
    return max(n.digits for n in numbers) + max(n.scale for n in numbers) <= _MOST_DIGITS


def _number(sql: str, schema: Schema) -> _Number | None:
    """Return the number of an operand; None if it is neither an integer nor a decimal."""
    if match := re.fullmatch(rf"coalesce\(({_COLUMN}),[ ]({_NUMBER})\)", sql, re.IGNORECASE):
        column, default = (_number(part, schema) for part in match.groups())
        return column and default and column.or_else(default)
    if re.fullmatch(_NUMBER, sql, re.IGNORECASE):
        return _literal(sql)
    try:
        field = schema.field(re.sub(r", (\d+)\)", r"[\1]", sql.replace("get(", "")))
    except PreconditionError:
        return None
    if field.kind in INTEGRAL:
        digits = _INTEGER_DIGITS[field.kind]
        return _Number.from_sql(f"CAST({sql} AS DECIMAL({digits}, 0))", digits, 0)
    if field.kind != "decimal":
        return None
    precision, scale = field.digits
    return _Number.from_sql(sql, precision - scale, scale)


def _literal(sql: str) -> _Number:
    """Return the number of a literal; an integer has the digits of its type."""
    text = sql.upper().removesuffix("BD")
    if text == sql and "." not in text:
        kind = "integer" if -(1 << 31) <= int(text) < 1 << 31 else "long"
        return _Number.from_sql(f"{text}BD", _INTEGER_DIGITS[kind], 0)
    scale = -int(Decimal(text).as_tuple().exponent)
    return _Number.from_sql(f"{text}BD", len(Decimal(text).as_tuple().digits) - scale, scale)
