"""Parser of common Spark SQL conditions on one column.

Checks and rules store their conditions as text. Bounds, sets of values, patterns and non-null
columns have forms here, by which a scan counts less and exports find the constraints of other
tools; any other condition has none.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tidegauge.analyzers.core.errors import PreconditionError
from tidegauge.analyzers.core.schema import INTEGRAL, TEXT, Schema
from tidegauge.analyzers.core.sql import parts, quote

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<text>'(?:[^'\\]|\\.)*')
      | (?P<column>`(?:[^`]|``)+`)
      | (?P<number>-?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)(?:BD|D)?(?![\w.])
      | (?P<word>[A-Za-z_]\w*)
      | (?P<mark><=|>=|<|>|=|\(|\)|,)
    )""",
    re.VERBOSE | re.DOTALL,
)
_WORDS = frozenset(
    {"is", "not", "null", "or", "in", "and", "rlike", "between", "coalesce", "true", "false"}
)
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


@dataclass(frozen=True)
class Form:
    """A parsed condition on a column.

    Attributes
    ----------
    column : str
    nulls : bool
        True if the condition holds for null.
    """

    column: str
    nulls: bool = False


@dataclass(frozen=True)
class Present(Form):
    """The column is not null."""


@dataclass(frozen=True)
class OneOf(Form):
    """The column is one of some texts, numbers or booleans."""

    values: tuple[Any, ...] = ()


@dataclass(frozen=True)
class LikeCondition(Form):
    """The column contains a match of a Java regular expression."""

    pattern: str = ""


@dataclass(frozen=True)
class Within(Form):
    """The column lies within bounds, each inclusive or exclusive; None is open."""

    lower: float | None = None
    upper: float | None = None
    has_lower: bool = True
    has_upper: bool = True

    def holds(self, number: float) -> bool:
        """Return whether a number lies within the bounds."""
        low, high = self.lower, self.upper
        above = low is None or number > low or (number == low and self.has_lower)
        return above and (high is None or number < high or (number == high and self.has_upper))


def parse_condition(condition: str) -> Form | None:
    r"""Parse a condition; return None if it is not of a known form.

    Examples
    --------
    >>> parse_condition("`b` IS NULL OR `b` IN ('x', 'it\\'s')")
    OneOf(column='b', nulls=True, values=('x', "it's"))
    >>> parse_condition("coalesce(`x`, 0) >= 0"), parse_condition("age >= 1 AND age < 150")  # doctest: +ELLIPSIS
    (Within(column='x', nulls=True, lower=0, ...), Within(column='age', nulls=False, lower=1, upper=150, ...))
    >>> parse_condition("a < b"), parse_condition("upper(a) = 'X'"), parse_condition("a > 1 OR b > 2")
    (None, None, None)
    """
    tokens = _tokens(condition)
    return None if tokens is None else _condition(_unwrapped(tokens))


def known_sql(condition: str, schema: Schema) -> str:
    """Return SQL that is null where a condition is null; ``1`` if it never is.

    A comparison of a column with constants of its type is null where the column is, so counting
    its known rows takes no second look at the condition. Conditions of no known form, and those
    that Spark casts, are returned unchanged.

    Examples
    --------
    >>> schema = Schema.from_types({"b": "string", "x": "double", "d": "decimal(38,38)"})
    >>> known_sql("`b` IS NULL OR `b` IN ('x', 'y')", schema), known_sql("x > 0", schema)
    ('1', '`x`')
    >>> known_sql("b > 0", schema), known_sql("d > 0", schema), known_sql("x > d", schema)
    ('b > 0', 'd > 0', 'x > d')
    """
    form = parse_condition(condition)
    if form is None:
        return condition
    try:
        field = schema.field(quote(form.column))
    except PreconditionError:
        return condition
    if isinstance(form, Present):
        return "1"
    if not _fits(form, field.kind) or _LONG_NUMBER.search(condition):
        return condition
    return "1" if form.nulls or _COALESCED.match(condition) else field.sql


_COALESCED = re.compile(r"[\s(]*coalesce\s*\(", re.IGNORECASE)
_LONG_NUMBER = re.compile(r"[\d.]{17}")
"""Digits that a comparison with an integer may not hold."""


def _fits(form: Form, kind: str) -> bool:
    """Return whether constants are compared with a column of this type without a cast that may fail."""
    if isinstance(form, LikeCondition):
        return kind in TEXT
    if isinstance(form, OneOf) and all(isinstance(value, str) for value in form.values):
        return kind in TEXT
    if isinstance(form, OneOf) and not all(map(_is_number, form.values)):
        return False
    return kind in INTEGRAL | {"float", "double"}


_Token = tuple[str, Any]


def _tokens(text: str) -> list[_Token] | None:
    """Return pairs of kind and value; None if a token occurs in no form."""
    found: list[_Token] = []
    place, text = 0, text.strip()
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            return None
        kind, raw = str(match.lastgroup), match[str(match.lastgroup)]
        token = _READERS[kind](raw)
        if token is None:
            return None
        found.append(token)
        place = match.end()
    return found


def _text(raw: str) -> _Token | None:
    """Parse a literal written by `tidegauge.analyzers.core.sql.literal`.

    None if it holds other escapes, which mean other things in other tools.
    """
    inside = raw[1:-1]
    if re.search(r"\\[^'\\]", re.sub(r"\\\\", "", inside)):
        return None
    return "value", re.sub(r"\\(.)", r"\1", inside, flags=re.DOTALL)


def _number(raw: str) -> _Token:
    return "value", int(raw) if re.fullmatch(r"-?\d+", raw) else float(raw)


def _word(raw: str) -> _Token:
    low = raw.casefold()
    if low in {"true", "false"}:
        return "value", low == "true"
    return ("word", low) if low in _WORDS else ("column", raw)


_READERS: dict[str, Callable[[str], _Token | None]] = {
    "text": _text,
    "column": lambda raw: ("column", parts(raw)[0]),
    "number": _number,
    "word": _word,
    "mark": lambda raw: ("mark", raw),
}


def _unwrapped(tokens: list[_Token]) -> list[_Token]:
    """Strip parentheses around the whole condition."""
    while len(tokens) > 1 and tokens[0] == ("mark", "(") and _closing(tokens) == len(tokens) - 1:
        tokens = tokens[1:-1]
    return tokens


def _closing(tokens: list[_Token]) -> int:
    depth = 0
    for place, token in enumerate(tokens):
        depth += (token == ("mark", "(")) - (token == ("mark", ")"))
        if depth == 0:
            return place
    return -1


def _shape(tokens: list[_Token]) -> str:
    """Return tokens as one text: ``c`` for columns, ``v`` for values, others unchanged."""
    short = {"column": "c", "value": "v"}
    return " ".join(short.get(kind, str(value)) for kind, value in tokens)


def _condition(tokens: list[_Token]) -> Form | None:
    if _shape(tokens[:4]) == "c is null or":
        rest = _condition(_unwrapped(tokens[4:]))
        same = rest is not None and rest.column == tokens[0][1] and not isinstance(rest, Present)
        return replace(rest, nulls=True) if same and rest is not None else None
    columns = {value for kind, value in tokens if kind == "column"}
    values = [value for kind, value in tokens if kind == "value"]
    return _core(_shape(tokens), str(*columns), values) if len(columns) == 1 else None


def _core(shape: str, column: str, values: list[Any]) -> Form | None:
    """Return the form of a condition on its only column."""
    if shape == "c is not null":
        return Present(column)
    if shape == "c = v" or re.fullmatch(r"c in \( v(?: , v)* \)", shape):
        return OneOf(column, values=tuple(values))
    if shape == "c rlike v" and isinstance(values[0], str):
        return LikeCondition(column, pattern=values[0])
    return _within(shape, column, values) if all(map(_is_number, values)) else None


def _within(shape: str, column: str, values: list[Any]) -> Form | None:
    if shape == "c between v and v":
        return Within(column, lower=values[0], upper=values[1])
    if match := re.fullmatch(r"coalesce \( c , v \) ([<>]=?) v", shape):
        found = _sided(column, match[1], values[1])
        return replace(found, nulls=found.holds(values[0]))
    if match := re.fullmatch(r"c ([<>]=?) v", shape):
        return _sided(column, match[1], values[0])
    if match := re.fullmatch(r"v ([<>]=?) c", shape):
        return _sided(column, _TURNED[match[1]], values[0])
    if match := re.fullmatch(r"c (>=?) v and c (<=?) v", shape):
        low, high = _sided(column, match[1], values[0]), _sided(column, match[2], values[1])
        return replace(low, upper=high.upper, has_upper=high.has_upper)
    return None


def _sided(column: str, sign: str, bound: float) -> Within:
    if sign.startswith(">"):
        return Within(column, lower=bound, has_lower=sign == ">=")
    return Within(column, upper=bound, has_upper=sign == "<=")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
