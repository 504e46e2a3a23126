"""Conditions that users write in Spark SQL: compared exactly, and parsed where they have a common form.

`compare_exactly` rewrites comparisons. Spark casts both sides of a comparison to one type, and some of
its casts change values:

- Of two decimals, one with many digits before the point and one with many behind it, digits are
  lost: decimal(38,38) compared with 0 takes 1e-38 for 0 in Spark 4, and compared with 1 gives null
  in Spark 3.5.
- Without ANSI mode, text compared with an integer is cut to one, so that '5.9' is at most 5; with
  it, a text that is no number fails the query.
- Text compared with a date loses its time of the day.
- A TIMESTAMP_NTZ or DATE compared with a TIMESTAMP is read by the clocks of the session's zone,
  which skip times.

Rewritten, a text is compared by the number, truth value or time that it shows, exactly and in any mode; one
that shows none satisfies no comparison but <>. Times without a zone are compared as they stand.

`parse_condition` finds the form of a condition on one column. Checks and rules store their conditions
as text. Bounds, sets of values, patterns and non-null columns have forms, by which a scan counts less
and exports find the constraints of other tools; any other condition has none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache, partial
from typing import Any

from tidegauge.analyzers.core.errors import PreconditionError
from tidegauge.analyzers.core.schema import INTEGRAL, NUMERIC, TEMPORAL, TEXT, Schema
from tidegauge.analyzers.core.sql import NAMELESS, constant, literal, parts, quote

_MOST_DIGITS = 38
"""Digits of Spark's longest decimal."""
_INTEGER_DIGITS = {"byte": 3, "short": 5, "integer": 10, "long": 20}
"""Digits of the decimals to which Spark casts integers."""
_WALL_CLOCK = frozenset({"date", "timestamp_ntz"})

_RESERVED = "and|or|not|in|is|between|when|then|else|true|false|null"
_NAME = rf"(?:`(?:[^`]|``)+`|(?!(?:{_RESERVED})\b)[a-z_]\w*)"
_COLUMN = _NAME
for _ in range(2):  # elements of arrays, and of arrays in their elements
    _COLUMN = rf"(?:get\({_COLUMN},[ ]\d+\)|{_NAME})(?:\.{_NAME})*"
_NUMBER = r"-?(?:\d+(?:\.\d*)?|\.\d+)(?:e[-+]?\d+)?(?:bd|[dfysl])?"
_STRING = r"'(?:[^'\\]|\\.)*'"
_TIME = rf"(?:(?:date|timestamp(?:_ntz|_ltz)?)\s*{_STRING}|(?:date|timestamp)\(\s*{_STRING}\s*\))"
_NOW = {
    "current_timestamp()": "timestamp",
    "now()": "timestamp",
    "localtimestamp()": "timestamp_ntz",
    "current_date()": "date",
}
"""Calls that give a time, and its type."""
_LITERAL = rf"(?:{_TIME}|{_STRING}|{_NUMBER}|true\b|false\b)"
_OPERAND = rf"(?:{_LITERAL}|coalesce\({_COLUMN},[ ]{_LITERAL}\)|{'|'.join(map(re.escape, _NOW))}|{_COLUMN})(?![\w.('])"
# What stands around a comparison shows that it is an operand of nothing but AND, OR and NOT.
_COMPARISON = rf"""
    (?P<before>(?:\A|[(,]|\b(?:and|or|not|when|then|else)\b)\s*)
    (?P<left>{_OPERAND})\s*
    (?:
        (?P<sign><=>|<=|>=|<>|!=|==|=|<|>)\s*(?P<right>{_OPERAND})
      | (?P<negated>\bnot\s+)?
        (?:
            in\s*\(\s*(?P<values>{_LITERAL}(?:\s*,\s*{_LITERAL})*)\s*\)
          | between\s+(?P<low>{_LITERAL})\s+and\s+(?P<high>{_LITERAL})
        )
    )
    (?=\s*(?:\Z|[),]|(?:and|or|when|then|else|end)\b))
    |{NAMELESS}|`[^`]*`"""
_SCOPES = re.compile(r"->|\bselect\b", re.IGNORECASE)
"""Words that give names another meaning than that of a column."""
_EQUALITIES = frozenset({"=", "==", "<=>", "<>", "!="})
_TURNED_ORDERS = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_NEGATIVE = frozenset({"<>", "!="})
_NUMBER_TEXT = r"^\s*[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?\s*$"
"""Texts that show a number; Spark's cast takes '5d' for one, too."""
_ZONE_TEXT = r":[0-9.]+\s*[-+A-Za-z]"
"""Times of the day with a zone behind them."""
_DAY_TEXT = re.compile(r"\s*\d{4,6}-\d{1,2}-\d{1,2}\s*")


def compare_exactly(condition: str, schema: Schema) -> str:
    """Rewrite the comparisons of a Spark SQL condition in which Spark would change a value.

    These are comparisons of columns with each other and with literals, IN and BETWEEN. All others stay
    as they are.

    Examples
    --------
    >>> schema = Schema.from_types({"price": "decimal(9,2)", "tiny": "decimal(38,38)", "flag": "string"})
    >>> compare_exactly("price > 0 AND tiny > 0", schema)  # doctest: +ELLIPSIS
    'price > 0 AND (CASE WHEN floor(tiny) = floor(0BD) THEN CAST(pmod(tiny, 1BD) AS DECIMAL(38, 38)) > ...)'
    >>> compare_exactly("flag = true", schema)
    '(CASE WHEN flag IS NOT NULL THEN coalesce(try_cast(flag AS BOOLEAN) = true, false) END)'
    """
    if _SCOPES.search(condition):
        return condition
    return _comparison_pattern().sub(partial(_rewritten, schema=schema), condition)


@cache
def _comparison_pattern() -> re.Pattern[str]:
    """Return the compiled pattern; compiling takes 20 ms, so not when the module is imported."""
    return re.compile(_COMPARISON, re.VERBOSE | re.IGNORECASE | re.DOTALL)


def _rewritten(match: re.Match[str], schema: Schema) -> str:
    """Return a comparison that changes no value; the text as it is if it is none, or Spark changes none."""
    if match["left"] is None:
        return match[0]
    if match["sign"]:
        others, signs = [match["right"]], [match["sign"]]
    elif match["values"]:
        others = re.findall(_LITERAL, match["values"], re.IGNORECASE)
        signs = ["="] * len(others)
    else:
        others, signs = [match["low"], match["high"]], [">=", "<="]
    left, *rest = (_operand(sql, schema) for sql in (match["left"], *others))
    operands = [operand for operand in rest if operand is not None]
    if left is None or len(operands) < len(rest):
        return match[0]
    pairs = list(zip(signs, operands, strict=True))
    numbers = [operand.number for operand in operands if operand.number is not None]
    exact: list[str | None] = []
    if left.number is None or len(numbers) < len(operands):
        exact = [_exact(left, sign, operand) for sign, operand in pairs]
    elif not _fit_one_type([left.number, *numbers]):
        exact = [left.number.compared(s, n) for s, n in zip(signs, numbers, strict=True)]
    if not any(exact):
        return match[0]
    joined = (" OR " if match["values"] else " AND ").join(
        sql or f"{left.sql} {sign} {operand.sql}"
        for sql, (sign, operand) in zip(exact, pairs, strict=True)
    )
    return f"{match['before']}{'NOT ' if match['negated'] else ''}({joined})"


@dataclass(frozen=True)
class _Operand:
    """One side of a comparison: a column, a literal, or a column with a literal in place of null.

    Attributes
    ----------
    sql : str
    kind : str
        Name of its type, as `Field.kind`.
    number : _Number or None
        Its value if it is an integer or a decimal.
    text : str or None
        What a literal shows; None for a column and for a call.
    column, default : _Operand or None
        The parts of ``coalesce(column, literal)``.
    """

    sql: str
    kind: str
    number: _Number | None = None
    text: str | None = None
    column: _Operand | None = None
    default: _Operand | None = None

    @property
    def has_zone(self) -> bool:
        """Whether a text or literal of a time names a zone."""
        return self.text is not None and re.search(_ZONE_TEXT, self.text) is not None

    @property
    def is_instant(self) -> bool:
        """Whether it is a point in time, rather than what a clock shows."""
        return self.kind == "timestamp" and (self.text is None or self.has_zone)

    @property
    def wall_clock(self) -> str:
        """SQL for a date or time as TIMESTAMP_NTZ; of an instant, as clocks of the session's zone show it."""
        if self.kind in TEXT and self.text is None:
            zoned = f"CAST(try_cast({self.sql} AS TIMESTAMP_LTZ) AS TIMESTAMP_NTZ)"
            plain = f"try_cast({self.sql} AS TIMESTAMP_NTZ)"
            return f"CASE WHEN {self.sql} RLIKE {literal(_ZONE_TEXT)} THEN {zoned} ELSE {plain} END"
        if self.kind in TEXT and self.has_zone:
            return f"CAST(CAST({self.sql} AS TIMESTAMP_LTZ) AS TIMESTAMP_NTZ)"
        if self.kind == "timestamp" and self.text is not None and not self.has_zone:
            return f"CAST('{self.text}' AS TIMESTAMP_NTZ)"
        return f"CAST({self.sql} AS TIMESTAMP_NTZ)"


def _operand(sql: str, schema: Schema) -> _Operand | None:
    """Return the operand that SQL stands for; None if it is no column of the schema."""
    if match := re.fullmatch(rf"coalesce\(({_COLUMN}),[ ]({_LITERAL})\)", sql, re.IGNORECASE):
        column, default = (_operand(part, schema) for part in match.groups())
        if column is None or default is None:
            return None
        number = None
        if column.number is not None and default.number is not None:
            number = column.number.or_else(default.number)
        return _Operand(sql, column.kind, number, None, column, default)
    if re.fullmatch(_LITERAL, sql, re.IGNORECASE | re.DOTALL):
        return _literal_operand(sql)
    if sql.casefold() in _NOW:
        return _Operand(sql, _NOW[sql.casefold()])
    try:
        field = schema.field(re.sub(r", (\d+)\)", r"[\1]", sql.replace("get(", "")))
    except PreconditionError:
        return None
    number = None
    if field.kind in INTEGRAL:
        digits = _INTEGER_DIGITS[field.kind]
        number = _Number.from_sql(f"CAST({sql} AS DECIMAL({digits}, 0))", digits, 0)
    elif field.kind == "decimal":
        precision, scale = field.digits
        number = _Number.from_sql(sql, precision - scale, scale)
    elif field.kind in TEXT and field.collated:
        sql = f"({sql} COLLATE UTF8_BINARY)"
    return _Operand(sql, field.kind, number)


def _literal_operand(sql: str) -> _Operand:
    word = re.match(r"[a-z_]*", sql, re.IGNORECASE)[0].casefold()  # type: ignore[index]  # matches anything
    if word in {"true", "false"}:
        return _Operand(sql, "boolean", text=word)
    if "'" in sql:
        text = sql[sql.index("'") + 1 : sql.rindex("'")]
        kind = {"": "string", "timestamp_ltz": "timestamp"}.get(word, word)
        return _Operand(sql, kind, text=text)
    number = re.fullmatch(r"(.*?)(bd|[dfysl])?", sql, re.IGNORECASE)
    shown, suffix = number[1], (number[2] or "").casefold()  # type: ignore[index]  # matches anything
    if suffix in {"d", "f"} or (not suffix and "e" in shown.casefold()):
        return _Operand(sql, "float" if suffix == "f" else "double", text=shown)
    return _Operand(sql, "decimal", _exact_literal(shown, is_integer=suffix != "bd"), shown)


def _exact_literal(shown: str, *, is_integer: bool = False) -> _Number:
    """Return the number of a literal; an integer has the digits of its type."""
    value = Decimal(shown)
    plain = f"{value:f}BD"
    if is_integer and "." not in shown:
        kind = "integer" if -(1 << 31) <= value < 1 << 31 else "long"
        return _Number.from_sql(plain, _INTEGER_DIGITS[kind], 0)
    _, digits, exponent = value.as_tuple()
    scale = max(-int(exponent), 0)
    return _Number.from_sql(plain, max(len(digits) + int(exponent), 0), scale)


def _exact(left: _Operand, sign: str, right: _Operand) -> str | None:
    """Return SQL of one comparison that changes no value; None if Spark changes none."""
    if left.column is not None and left.default is not None:
        known = _exact(left.column, sign, right)
        if known is None:
            return None
        default = f"{left.default.sql} {sign} {right.sql}"
        return f"CASE WHEN {left.column.sql} IS NULL THEN {default} ELSE {known} END"
    turned = _TURNED_ORDERS.get(sign, sign)
    if right.column is not None or (left.text is not None and right.text is None):
        return _exact(right, turned, left)
    if left.kind in TEXT:
        return _text_compared(left, sign, right)
    if right.kind in TEXT and right.text is None:
        return _text_compared(right, turned, left)
    return _other_compared(left, sign, right)


def _other_compared(left: _Operand, sign: str, right: _Operand) -> str | None:
    """Return SQL that compares a column of no text with one of no text, or with a literal."""
    if right.kind in TEXT:
        return _compared_with_text(left, sign, right)
    kinds = {left.kind, right.kind}
    is_instant_with_literal = left.kind == "timestamp" and right.text is not None
    if "timestamp" in kinds and kinds & _WALL_CLOCK and not is_instant_with_literal:
        return f"{left.wall_clock} {sign} {right.wall_clock}"
    return None


def _text_compared(left: _Operand, sign: str, right: _Operand) -> str | None:
    """Return SQL that compares what a column of text shows with a value of another type."""
    text = left.sql
    if right.kind in NUMERIC:
        is_number = f"{text} RLIKE {literal(_NUMBER_TEXT)}"
        return _decided(
            left, sign, right, lambda s: f"{is_number} AND {_number_of_text(text, s, right)}"
        )
    if right.kind == "boolean":
        return _decided(left, sign, right, lambda s: f"try_cast({text} AS BOOLEAN) {s} {right.sql}")
    if right.is_instant:
        instant = f"try_cast({text} AS TIMESTAMP_LTZ)"
        return _decided(left, sign, right, lambda s: f"{instant} {s} {right.sql}")
    if right.kind in TEMPORAL:
        return _decided(left, sign, right, lambda s: f"{left.wall_clock} {s} {right.wall_clock}")
    return None


def _compared_with_text(left: _Operand, sign: str, right: _Operand) -> str | None:
    """Return SQL that compares a column with what a text literal shows; equal to none if it shows none."""
    shown = str(right.text)
    is_equality = sign in _EQUALITIES
    if left.kind in NUMERIC:
        if re.fullmatch(_NUMBER_TEXT.strip("^$"), shown):
            return _compared_with_number(left, sign, Decimal(shown.strip()))
        return _decided(left, sign, right, lambda _: "false") if is_equality else None
    if left.kind in _WALL_CLOCK and (
        right.has_zone or (left.kind == "date" and not _DAY_TEXT.fullmatch(shown))
    ):
        if not is_equality:
            return f"{left.wall_clock} {sign} {right.wall_clock}"
        value = right.wall_clock.replace("CAST('", "try_cast('")
        return _decided(left, sign, right, lambda s: f"{left.wall_clock} {s} {value}")
    if left.kind in TEMPORAL | {"boolean"} and is_equality:
        kind = "TIMESTAMP_LTZ" if left.kind == "timestamp" else left.kind.upper()
        value = f"try_cast({right.sql} AS {kind})"
        return _decided(left, sign, right, lambda s: f"{left.sql} {s} {value}")
    return None


def _compared_with_number(left: _Operand, sign: str, value: Decimal) -> str | None:
    """Return SQL that compares a column of numbers with a number that was given as text."""
    number = _exact_literal(str(value))
    if left.number is None:
        return f"{left.sql} {sign} {constant(float(value))}"
    if max(number.digits, 1) + number.scale > _MOST_DIGITS:
        return None
    if _fit_one_type([left.number, number]):
        return f"{left.sql} {sign} {value:f}BD"
    return left.number.compared(sign, number)


def _decided(left: _Operand, sign: str, right: _Operand, condition: Callable[[str], str]) -> str:
    """Return SQL of a comparison that is null for nulls only: what has no value satisfies none but <>."""
    holds = condition("=" if sign in _EQUALITIES else sign)
    holds = f"coalesce({holds}, false)"
    known = [operand.sql for operand in (left, right) if operand.text is None]
    known_sql = " AND ".join(f"{sql} IS NOT NULL" for sql in known)
    if sign in _NEGATIVE:
        holds = f"NOT {holds}"
    otherwise = f" ELSE {left.sql} IS NULL AND {right.sql} IS NULL" if sign == "<=>" else ""
    return f"CASE WHEN {known_sql} THEN {holds}{otherwise} END"


def _number_of_text(text: str, sign: str, right: _Operand) -> str:
    """Return SQL that compares a text of a number: as doubles, and where these are equal, as decimals."""
    double = f"try_cast({text} AS DOUBLE)"
    if right.number is None:
        return f"{double} {sign} {right.sql}"
    value, digits = right.sql, right.number.digits
    if right.text is not None:  # the type of a plain integer has room for more digits
        value, digits = f"{Decimal(right.text):f}BD", _exact_literal(right.text).digits
    kind = f"DECIMAL({_MOST_DIGITS}, {max(_MOST_DIGITS - digits - 1, 0)})"
    as_double = f"CAST({value} AS DOUBLE)"
    return (
        f"CASE WHEN {double} = {as_double} THEN try_cast({text} AS {kind}) {sign} {value}"
        f" ELSE {double} {sign} {as_double} END"
    )


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


def _fit_one_type(numbers: Iterable[_Number]) -> bool:
    """Return whether Spark's common type holds all digits of all numbers."""
    numbers = list(numbers)
    return max(n.digits for n in numbers) + max(n.scale for n in numbers) <= _MOST_DIGITS


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
    if not _fits_column(form, field.kind) or _LONG_NUMBER.search(condition):
        return condition
    return "1" if form.nulls or _COALESCED.match(condition) else field.sql


_COALESCED = re.compile(r"[\s(]*coalesce\s*\(", re.IGNORECASE)
_LONG_NUMBER = re.compile(r"[\d.]{17}")
"""Digits that a comparison with an integer may not hold."""


def _fits_column(form: Form, kind: str) -> bool:
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
