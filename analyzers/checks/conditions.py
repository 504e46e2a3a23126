"""What a Spark SQL condition says of one column, where it has one of the forms that are common.

Checks and rules keep their conditions as text. Other tools have words of their own for that a column is
within bounds, one of some values, like a pattern, or present; whatever says more is no such form.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from analyzers.sql import parts

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
    """What a condition says of a column.

    Attributes
    ----------
    column : str
    nulls : bool
        Whether it is true of null.
    """

    column: str
    nulls: bool = False


@dataclass(frozen=True)
class Present(Form):
    """It is not null."""


@dataclass(frozen=True)
class OneOf(Form):
    """It is one of some texts, numbers or truth values."""

    values: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Like(Form):
    """It holds a match of a regular expression of Java."""

    pattern: str = ""


@dataclass(frozen=True)
class Within(Form):
    """It lies within bounds, which belong to it or do not; None is open."""

    lower: float | None = None
    upper: float | None = None
    has_lower: bool = True
    has_upper: bool = True

    def holds(self, number: float) -> bool:
        """Whether a number does."""
        low, high = self.lower, self.upper
        above = low is None or number > low or (number == low and self.has_lower)
        return above and (high is None or number < high or (number == high and self.has_upper))


def form_of(condition: str) -> Form | None:
    r"""Read a condition; None if it says anything else, or anything more.

    Examples
    --------
    >>> form_of("`b` IS NULL OR `b` IN ('x', 'it\\'s')")
    OneOf(column='b', nulls=True, values=('x', "it's"))
    >>> form_of("coalesce(`x`, 0) >= 0"), form_of("age >= 1 AND age < 150")  # doctest: +ELLIPSIS
    (Within(column='x', nulls=True, lower=0, ...), Within(column='age', nulls=False, lower=1, upper=150, ...))
    >>> form_of("a < b"), form_of("upper(a) = 'X'"), form_of("a > 1 OR b > 2")
    (None, None, None)
    """
    tokens = _tokens(condition)
    return None if tokens is None else _condition(_unwrapped(tokens))


_Token = tuple[str, Any]


def _tokens(text: str) -> list[_Token] | None:
    """Return kinds and values; None if there is anything that has no place in a form."""
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
    """Read a literal as `analyzers.sql.literal` writes it; other escapes mean other things elsewhere."""
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
    """Take off brackets around all of it."""
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
    """Return tokens as one text: columns are ``c``, values ``v``, the rest as it is."""
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
    """Return what is said of the only column that there is."""
    if shape == "c is not null":
        return Present(column)
    if shape == "c = v" or re.fullmatch(r"c in \( v(?: , v)* \)", shape):
        return OneOf(column, values=tuple(values))
    if shape == "c rlike v" and isinstance(values[0], str):
        return Like(column, pattern=values[0])
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
