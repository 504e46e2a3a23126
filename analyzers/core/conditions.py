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

Comparisons are found among the tokens of a text, so that all around them stays as its user wrote it.

`parse_condition` finds the form of a condition on one column. Checks and rules store their conditions
as text. Bounds, sets of values, patterns and non-null columns have forms, by which a scan counts less
and exports find the constraints of other tools; any other condition has none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from tidegauge.analyzers.core.errors import PreconditionError
from tidegauge.analyzers.core.schema import INTEGRAL, NUMERIC, TEMPORAL, TEXT, Schema
from tidegauge.analyzers.core.sql import QUOTED_NAME, constant, literal, quote
from tidegauge.analyzers.core.sql_parser import (
    Token,
    has_comments,
    parse_expression,
    split_list,
    text_of,
    tokenize,
)

if TYPE_CHECKING:
    from tidegauge.analyzers.core.sql_parser import Tree

_MOST_DIGITS = 38
"""Digits of Spark's longest decimal."""
_INTEGER_DIGITS = {"byte": 3, "short": 5, "integer": 10, "long": 20}
"""Digits of the decimals to which Spark casts integers."""
_WALL_CLOCK = frozenset({"date", "timestamp_ntz"})

_STRING = r"'(?:[^'\\]|\\.)*'"
_LITERAL = re.compile(
    rf"(?P<number>-?(?:\d+(?:\.\d*)?|\.\d+)(?:e[-+]?\d+)?)(?P<suffix>bd|[dfysl])?|(?P<truth>true|false)"
    rf"|(?P<kind>(?:date|timestamp(?:_ntz|_ltz)?)?)\s*{_STRING}"
    rf"|(?P<call>date|timestamp)\(\s*{_STRING}\s*\)",
    re.IGNORECASE | re.DOTALL,
)
_NOW = {
    "current_timestamp()": "timestamp",
    "now()": "timestamp",
    "localtimestamp()": "timestamp_ntz",
    "current_date()": "date",
}
"""Calls that give a time, and its type."""
_SIGNS = frozenset({"EQ", "NEQ", "NULLSAFE_EQ", "LT", "LTE", "GT", "GTE", "IN", "BETWEEN"})
"""Tokens of comparisons."""
_BOUNDARIES = frozenset({"AND", "OR", "COMMA", "CASE", "WHEN", "THEN", "ELSE"})
"""Tokens beside which a comparison stands by itself, as do NOT before it, END and brackets."""
_PATHS = frozenset({"column", "dot", "anonymous"})
"""Nodes of columns and their fields, and of elements of arrays by `get`."""
_OF_LITERALS = frozenset({"IN", "BETWEEN"})
_RANGE = frozenset({"BETWEEN", "AND"})
_SCOPES = frozenset({"ARROW", "SELECT"})
"""Tokens that give names another meaning than that of a column."""
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
    tokens = tokenize(condition)
    if not tokens or any(token.kind in _SCOPES for token in tokens):
        return condition
    pieces, end = [], 0
    for predicate in _predicates(tokens):
        exact = _rewritten(predicate, condition, schema)
        if exact is not None:
            pieces += [condition[end : predicate[0].begin], exact]
            end = predicate[-1].end
    return "".join([*pieces, condition[end:]])


def _predicates(tokens: Iterable[Token]) -> Iterator[list[Token]]:
    """Yield what stands between AND, OR, NOT, commas, brackets and the words of CASE, in order.

    What is in brackets is left out of what is around them, and comes first.
    """
    levels: list[list[Token]] = [[]]
    cases = 0
    for token in tokens:
        level, kind = levels[-1], token.kind
        ends_case = kind == "END" and cases > 0 and level != []  # else it is a column's name
        cases += (kind == "CASE") - ends_case
        is_within_between = kind == "AND" and [t.kind for t in level if t.kind in _RANGE] == [
            "BETWEEN"
        ]
        is_boundary = (kind in _BOUNDARIES and not is_within_between) or ends_case
        if token.nesting > 0:
            level.append(token)
            levels.append([])
        elif token.nesting < 0 and len(levels) > 1:
            yield levels.pop()
            levels[-1].append(token)
        elif is_boundary or (kind == "NOT" and not level):
            yield level
            levels[-1] = []
        else:
            level.append(token)
    yield from levels


def _compared(
    predicate: Sequence[Token], sql: str
) -> tuple[str, str, list[tuple[str, str]]] | None:
    """Return the left side of a comparison, NOT or nothing, and each sign with its right side.

    The right sides of IN and BETWEEN are literals. None for what is no comparison.
    """
    places = [i for i, token in enumerate(predicate) if token.kind in _SIGNS]
    if len(places) != 1 or places == [0]:
        return None
    before, sign, after = predicate[: places[0]], predicate[places[0]], predicate[places[0] + 1 :]
    if sign.kind not in _OF_LITERALS:
        return _text(before, sql), "", [(_text([sign], sql), _text(after, sql))]
    is_negated = before[-1].kind == "NOT"
    if sign.kind == "IN":
        pairs = [("=", value) for value in split_list(_text(after, sql)[1:-1])]
    else:
        middle = next((i for i, token in enumerate(after) if token.kind == "AND"), 0)
        pairs = [(">=", _text(after[:middle], sql)), ("<=", _text(after[middle + 1 :], sql))]
    left = _text(before[:-1] if is_negated else before, sql)
    is_recognised = all(_LITERAL.fullmatch(value) for _, value in pairs)
    return (left, "NOT " if is_negated else "", pairs) if is_recognised else None


def _text(tokens: Sequence[Token], sql: str) -> str:
    return sql[tokens[0].begin : tokens[-1].end] if tokens else ""


def _rewritten(predicate: Sequence[Token], condition: str, schema: Schema) -> str | None:
    """Return a comparison that changes no value; None if it is none, or Spark changes none."""
    compared = _compared(predicate, condition)
    if compared is None:
        return None
    left_sql, negation, sides = compared
    left = _operand(left_sql, schema)
    pairs = [(sign, operand) for sign, sql in sides if (operand := _operand(sql, schema))]
    if left is None or len(pairs) < len(sides):
        return None
    numbers = [operand.number for _, operand in pairs if operand.number is not None]
    exact: list[str | None] = []
    if left.number is None or len(numbers) < len(pairs):
        exact = [_exact(left, sign, operand) for sign, operand in pairs]
    elif not _fit_one_type([left.number, *numbers]):
        exact = [left.number.compared(sign, n) for (sign, _), n in zip(pairs, numbers, strict=True)]
    if not any(exact):
        return None
    joined = (" AND " if pairs[0][0] == ">=" else " OR ").join(
        sql or f"{left.sql} {sign} {operand.sql}"
        for sql, (sign, operand) in zip(exact, pairs, strict=True)
    )
    return f"{negation}({joined})"


@dataclass(frozen=True)
class _Operand:
    """One side of a comparison: a column, a literal, or a column with a literal in place of null.

    Attributes
    ----------
    sql : str
        The operand as Spark SQL.
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
    if (match := _LITERAL.fullmatch(sql)) is not None:
        return _literal_operand(match)
    if sql.casefold() in _NOW:
        return _Operand(sql, _NOW[sql.casefold()])
    if re.match(r"coalesce\(", sql, re.IGNORECASE):
        return _coalesced_operand(sql, schema)
    is_name = re.fullmatch(rf"\w+|{QUOTED_NAME}", sql) is not None
    if not is_name and ("[" in sql or getattr(parse_expression(sql), "key", "") not in _PATHS):
        return None
    try:
        field = schema.field(re.sub(r",\s*(\d+)\)", r"[\1]", re.sub(r"\bget\(", "", sql)))
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


def _coalesced_operand(sql: str, schema: Schema) -> _Operand | None:
    """Return the operand of a column with a literal in place of null."""
    operands = [_operand(part, schema) for part in split_list(sql[len("coalesce(") : -1])]
    column, default = operands if len(operands) == 2 else (None, None)
    if column is None or default is None or default.text is None:
        return None
    number = None
    if column.number is not None and default.number is not None:
        number = column.number.or_else(default.number)
    return _Operand(sql, column.kind, number, None, column, default)


def _literal_operand(match: re.Match[str]) -> _Operand:
    sql, shown, suffix = match[0], match["number"], (match["suffix"] or "").casefold()
    if match["truth"]:
        return _Operand(sql, "boolean", text=sql.casefold())
    if shown is None:
        word = (match["kind"] or match["call"] or "").casefold()
        kind = {"": "string", "timestamp_ltz": "timestamp"}.get(word, word)
        return _Operand(sql, kind, text=sql[sql.index("'") + 1 : sql.rindex("'")])
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


_TURNED = {"lt": "gt", "lte": "gte", "gt": "lt", "gte": "lte"}


@dataclass(frozen=True)
class Form:
    """A parsed condition on a column.

    Attributes
    ----------
    column : str
        The column that the condition tests.
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


@lru_cache(1_000)
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
    tree = parse_expression(condition)
    return None if tree is None or has_comments(condition) else _form(tree.unnest(), condition)


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


_COALESCED = re.compile(r"[\s(]*(?:coalesce|nvl|ifnull)\s*\(", re.IGNORECASE)
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


def _form(tree: Tree, condition: str) -> Form | None:
    """Return the form of a condition's tree, or of a part of it."""
    column, rest = _null_column(tree.this), tree.args.get("expression", tree)
    if tree.key == "not" and column is not None:
        return Present(column)
    if tree.key == "or" and column is not None:
        form = _form(rest.unnest(), condition)
        is_same = form is not None and form.column == column and not isinstance(form, Present)
        return replace(form, nulls=True) if form and is_same else None
    if tree.key == "and":
        low, high = _within(tree.this, condition), _within(rest, condition)
        if (
            low is None
            or high is None
            or (low.column, low.upper, high.lower) != (high.column, None, None)
        ):
            return None
        return replace(low, upper=high.upper, has_upper=high.has_upper)
    return _within(tree, condition) or _coalesced(tree, condition) or _one_of(tree, condition)


def _within(tree: Tree, condition: str) -> Within | None:
    """Return the form of a column compared with a number, either of them on the left."""
    if tree.key not in _TURNED:
        return None
    key, left, right = tree.key, tree.this, tree.expression
    if right.key == "column":
        key, left, right = _TURNED[key], right, left
    return _sided(_column(left), key, _value(right, condition))


def _coalesced(tree: Tree, condition: str) -> Within | None:
    """Return the form of a column, with a number in place of null, compared with a number."""
    if tree.key not in _TURNED or tree.this.key != "coalesce" or len(tree.this.expressions) != 1:
        return None
    form = _sided(_column(tree.this.this), tree.key, _value(tree.expression, condition))
    default = _value(tree.this.expressions[0], condition)
    return replace(form, nulls=form.holds(default)) if form and _is_number(default) else None


def _sided(column: str | None, key: str, bound: Any) -> Within | None:
    if column is None or not _is_number(bound):
        return None
    if key in {"gt", "gte"}:
        return Within(column, lower=bound, has_lower=key == "gte")
    return Within(column, upper=bound, has_upper=key == "lte")


def _one_of(tree: Tree, condition: str) -> Form | None:
    """Return the form of a column that is compared with literals by =, IN, BETWEEN or RLIKE."""
    names = {"eq": ["expression"], "regexplike": ["expression"], "between": ["low", "high"]}
    sides = (
        tree.expressions if tree.key == "in" else [tree.args[n] for n in names.get(tree.key, ())]
    )
    values = [_value(side, condition) for side in sides]
    column = _column(tree.this) if values and None not in values else None
    if column is None:
        return None
    if tree.key == "regexplike":
        return LikeCondition(column, pattern=values[0]) if isinstance(values[0], str) else None
    if tree.key == "between":
        low, high = values
        return Within(column, lower=low, upper=high) if all(map(_is_number, values)) else None
    return OneOf(column, values=tuple(values))


def _column(tree: Any) -> str | None:
    """Return the name of a column; None for a nested path and all else."""
    is_column = getattr(tree, "key", "") == "column" and len(tree.parts) == 1
    return str(tree.name) if is_column else None


def _null_column(tree: Any) -> str | None:
    """Return the column of which a tree says that it is null."""
    is_null = getattr(tree, "key", "") == "is" and tree.expression.key == "null"
    return _column(tree.this) if is_null else None


def _value(tree: Tree, condition: str) -> Any:
    """Return the value of a literal that other tools read alike; None for all else."""
    if tree.key == "boolean":
        return tree.this
    if tree.key == "neg":
        number = _value(tree.this, condition)
        return -number if _is_number(number) else None
    match = _LITERAL.fullmatch(text_of(tree, condition)) if tree.key == "literal" else None
    if match is None:
        return None
    if match["number"]:
        shown = match["number"]
        is_plain = (match["suffix"] or "D").upper() in {"BD", "D"}
        return (int(shown) if shown.isdigit() else float(shown)) if is_plain else None
    # Escapes other than those of `literal` mean other things in other tools.
    text = match[0][1:-1]
    is_plain = re.search(r"\\[^'\\]", text.replace("\\\\", "")) is None
    return re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL) if is_plain else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
