"""Exact comparisons in users' Spark SQL conditions, and parsing of common conditions.

`compare_exactly` rewrites comparisons. Spark casts both sides of a comparison to one type, and some of
its casts change values:

- Decimals can lose digits if one has many digits before the point and the other has many after it.
  When a decimal(38,38) is compared with 0, Spark 4 reads 1e-38 as 0. When it is compared with 1, the
  result in Spark 3.5 is null.
- A string compared with an integer is truncated without ANSI mode, so '5.9' is at most 5. In ANSI
  mode, a string that is not a number fails the query.
- A string compared with a date loses its time of day.
- A TIMESTAMP_NTZ or DATE compared with a TIMESTAMP is read in the session's time zone, in which
  some times do not exist.

A rewritten comparison reads a string as the number, boolean or time that it contains, exactly and in
any mode. For any other string, only <> is true. Times without a zone are compared unchanged.

The comparisons are located by tokens. The rest of the condition stays as the user wrote it.

`parse_condition` returns the form of a condition on one column. Checks and rules store conditions as
SQL. Bounds, sets of values, patterns and non-null columns have a form; other conditions have none.
If a condition has a form, a scan counts less, and exports can write constraints for other tools.
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

_MAX_DECIMAL_DIGITS = 38
"""Digits of Spark's longest decimal."""
_INTEGER_DIGITS = {"byte": 3, "short": 5, "integer": 10, "long": 20}
"""Digits of the decimals to which Spark casts integers."""
_WALL_CLOCK_KINDS = frozenset({"date", "timestamp_ntz"})

_STRING_PATTERN = r"'(?:[^'\\]|\\.)*'"
_LITERAL_PATTERN = re.compile(
    rf"(?P<number>-?(?:\d+(?:\.\d*)?|\.\d+)(?:e[-+]?\d+)?)(?P<suffix>bd|[dfysl])?|(?P<truth>true|false)"
    rf"|(?P<kind>(?:date|timestamp(?:_ntz|_ltz)?)?)\s*{_STRING_PATTERN}"
    rf"|(?P<call>date|timestamp)\(\s*{_STRING_PATTERN}\s*\)",
    re.IGNORECASE | re.DOTALL,
)
_TYPE_BY_TIME_CALL = {
    "current_timestamp()": "timestamp",
    "now()": "timestamp",
    "localtimestamp()": "timestamp_ntz",
    "current_date()": "date",
}
_COMPARISON_TOKENS = frozenset(
    {"EQ", "NEQ", "NULLSAFE_EQ", "LT", "LTE", "GT", "GTE", "IN", "BETWEEN"}
)
_BOUNDARY_TOKENS = frozenset({"AND", "OR", "COMMA", "CASE", "WHEN", "THEN", "ELSE"})
"""Tokens that end a comparison. NOT before it, END and brackets also end it."""
_PATH_NODES = frozenset({"column", "dot", "anonymous"})
"""Keys of the nodes for columns, for their fields, and for array elements by `get`."""
_LITERAL_LIST_TOKENS = frozenset({"IN", "BETWEEN"})
_RANGE_TOKENS = frozenset({"BETWEEN", "AND"})
_SCOPE_TOKENS = frozenset({"ARROW", "SELECT"})
"""Tokens after which a name can mean something other than a column."""
_EQUALITY_SIGNS = frozenset({"=", "==", "<=>", "<>", "!="})
_MIRRORED_SIGNS = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_INEQUALITY_SIGNS = frozenset({"<>", "!="})
_NUMBER_PATTERN = r"^\s*[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?\s*$"
"""Strings that are numbers. Spark's cast also accepts '5d'."""
_ZONE_PATTERN = r":[0-9.]+\s*[-+A-Za-z]"
"""A time of day followed by a zone."""
_DAY_PATTERN = re.compile(r"\s*\d{4,6}-\d{1,2}-\d{1,2}\s*")


def compare_exactly(condition: str, schema: Schema) -> str:
    """Rewrite the comparisons of a Spark SQL condition in which Spark would change a value.

    These are comparisons of columns with each other and with literals, IN and BETWEEN. Other comparisons
    are unchanged.

    Examples
    --------
    >>> schema = Schema.from_types({"price": "decimal(9,2)", "tiny": "decimal(38,38)", "flag": "string"})
    >>> compare_exactly("price > 0 AND tiny > 0", schema)  # doctest: +ELLIPSIS
    'price > 0 AND (CASE WHEN floor(tiny) = floor(0BD) THEN CAST(pmod(tiny, 1BD) AS DECIMAL(38, 38)) > ...)'
    >>> compare_exactly("flag = true", schema)
    '(CASE WHEN flag IS NOT NULL THEN coalesce(try_cast(flag AS BOOLEAN) = true, false) END)'
    """
    tokens = tokenize(condition)
    if not tokens or any(token.kind in _SCOPE_TOKENS for token in tokens):
        return condition
    pieces, end = [], 0
    for predicate in _split_predicates(tokens):
        exact = _rewrite_comparison(predicate, condition, schema)
        if exact is not None:
            pieces += [condition[end : predicate[0].begin], exact]
            end = predicate[-1].end
    return "".join([*pieces, condition[end:]])


def _split_predicates(tokens: Iterable[Token]) -> Iterator[list[Token]]:
    """Yield the tokens between AND, OR, NOT, commas, brackets and the words of CASE.

    Tokens in brackets come before the tokens around the brackets, and are not part of them.
    """
    levels: list[list[Token]] = [[]]
    cases = 0
    for token in tokens:
        level, kind = levels[-1], token.kind
        ends_case = kind == "END" and cases > 0 and level != []  # else it is a column's name
        cases += (kind == "CASE") - ends_case
        is_within_between = kind == "AND" and [
            t.kind for t in level if t.kind in _RANGE_TOKENS
        ] == ["BETWEEN"]
        is_boundary = (kind in _BOUNDARY_TOKENS and not is_within_between) or ends_case
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


def _parse_comparison(
    predicate: Sequence[Token], sql: str
) -> tuple[str, str, list[tuple[str, str]]] | None:
    """Return the left side of a comparison, ``NOT `` or an empty string, and each operator with its right side.

    The right sides of IN and BETWEEN are literals. Return None if the tokens are not a comparison.
    """
    indexes = [i for i, token in enumerate(predicate) if token.kind in _COMPARISON_TOKENS]
    if len(indexes) != 1 or indexes == [0]:
        return None
    before, sign, after = (
        predicate[: indexes[0]],
        predicate[indexes[0]],
        predicate[indexes[0] + 1 :],
    )
    if sign.kind not in _LITERAL_LIST_TOKENS:
        return _source_of(before, sql), "", [(_source_of([sign], sql), _source_of(after, sql))]
    is_negated = before[-1].kind == "NOT"
    if sign.kind == "IN":
        pairs = [("=", value) for value in split_list(_source_of(after, sql)[1:-1])]
    else:
        middle = next((i for i, token in enumerate(after) if token.kind == "AND"), 0)
        pairs = [
            (">=", _source_of(after[:middle], sql)),
            ("<=", _source_of(after[middle + 1 :], sql)),
        ]
    left = _source_of(before[:-1] if is_negated else before, sql)
    is_recognised = all(_LITERAL_PATTERN.fullmatch(value) for _, value in pairs)
    return (left, "NOT " if is_negated else "", pairs) if is_recognised else None


def _source_of(tokens: Sequence[Token], sql: str) -> str:
    return sql[tokens[0].begin : tokens[-1].end] if tokens else ""


def _rewrite_comparison(predicate: Sequence[Token], condition: str, schema: Schema) -> str | None:
    """Return exact SQL for a comparison; None if it is not a comparison, or Spark compares it exactly."""
    comparison = _parse_comparison(predicate, condition)
    if comparison is None:
        return None
    left_sql, negation, sides = comparison
    left = _parse_operand(left_sql, schema)
    pairs = [(sign, operand) for sign, sql in sides if (operand := _parse_operand(sql, schema))]
    if left is None or len(pairs) < len(sides):
        return None
    numbers = [operand.number for _, operand in pairs if operand.number is not None]
    exact: list[str | None] = []
    if left.number is None or len(numbers) < len(pairs):
        exact = [_exact_comparison(left, sign, operand) for sign, operand in pairs]
    elif not _fit_one_type([left.number, *numbers]):
        exact = [
            left.number.comparison(sign, n) for (sign, _), n in zip(pairs, numbers, strict=True)
        ]
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
        Name of the operand's type, as `Field.kind`.
    number : _Number or None
        The value of an integer or decimal.
    text : str or None
        The content of a literal; None for a column or a call.
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
        """Whether a literal contains a time with a zone."""
        return self.text is not None and re.search(_ZONE_PATTERN, self.text) is not None

    @property
    def is_instant(self) -> bool:
        """Whether the operand is a point in time, not a date and time without a zone."""
        return self.kind == "timestamp" and (self.text is None or self.has_zone)

    @property
    def wall_clock(self) -> str:
        """SQL for a date or time as TIMESTAMP_NTZ; an instant is converted to the session's time zone."""
        if self.kind in TEXT and self.text is None:
            zoned = f"CAST(try_cast({self.sql} AS TIMESTAMP_LTZ) AS TIMESTAMP_NTZ)"
            plain = f"try_cast({self.sql} AS TIMESTAMP_NTZ)"
            return (
                f"CASE WHEN {self.sql} RLIKE {literal(_ZONE_PATTERN)} THEN {zoned} ELSE {plain} END"
            )
        if self.kind in TEXT and self.has_zone:
            return f"CAST(CAST({self.sql} AS TIMESTAMP_LTZ) AS TIMESTAMP_NTZ)"
        if self.kind == "timestamp" and self.text is not None and not self.has_zone:
            return f"CAST('{self.text}' AS TIMESTAMP_NTZ)"
        return f"CAST({self.sql} AS TIMESTAMP_NTZ)"


def _parse_operand(sql: str, schema: Schema) -> _Operand | None:
    """Return the operand for SQL; None if the SQL is neither a literal nor a column of the schema."""
    if (match := _LITERAL_PATTERN.fullmatch(sql)) is not None:
        return _literal_operand(match)
    if sql.casefold() in _TYPE_BY_TIME_CALL:
        return _Operand(sql, _TYPE_BY_TIME_CALL[sql.casefold()])
    if re.match(r"coalesce\(", sql, re.IGNORECASE):
        return _coalesced_operand(sql, schema)
    is_name = re.fullmatch(rf"\w+|{QUOTED_NAME}", sql) is not None
    if not is_name and ("[" in sql or getattr(parse_expression(sql), "key", "") not in _PATH_NODES):
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
    operands = [_parse_operand(part, schema) for part in split_list(sql[len("coalesce(") : -1])]
    column, default = operands if len(operands) == 2 else (None, None)
    if column is None or default is None or default.text is None:
        return None
    number = None
    if column.number is not None and default.number is not None:
        number = column.number.or_else(default.number)
    return _Operand(sql, column.kind, number, None, column, default)


def _literal_operand(match: re.Match[str]) -> _Operand:
    sql, number, suffix = match[0], match["number"], (match["suffix"] or "").casefold()
    if match["truth"]:
        return _Operand(sql, "boolean", text=sql.casefold())
    if number is None:
        word = (match["kind"] or match["call"] or "").casefold()
        kind = {"": "string", "timestamp_ltz": "timestamp"}.get(word, word)
        return _Operand(sql, kind, text=sql[sql.index("'") + 1 : sql.rindex("'")])
    if suffix in {"d", "f"} or (not suffix and "e" in number.casefold()):
        return _Operand(sql, "float" if suffix == "f" else "double", text=number)
    return _Operand(sql, "decimal", _exact_literal(number, is_integer=suffix != "bd"), number)


def _exact_literal(number: str, *, is_integer: bool = False) -> _Number:
    """Return the number of a literal; an integer has the digits of its type."""
    value = Decimal(number)
    plain = f"{value:f}BD"
    if is_integer and "." not in number:
        kind = "integer" if -(1 << 31) <= value < 1 << 31 else "long"
        return _Number.from_sql(plain, _INTEGER_DIGITS[kind], 0)
    _, digits, exponent = value.as_tuple()
    scale = max(-int(exponent), 0)
    return _Number.from_sql(plain, max(len(digits) + int(exponent), 0), scale)


def _exact_comparison(left: _Operand, sign: str, right: _Operand) -> str | None:
    """Return exact SQL for one comparison; None if Spark compares the values exactly."""
    if left.column is not None and left.default is not None:
        comparison = _exact_comparison(left.column, sign, right)
        if comparison is None:
            return None
        default = f"{left.default.sql} {sign} {right.sql}"
        return f"CASE WHEN {left.column.sql} IS NULL THEN {default} ELSE {comparison} END"
    mirrored = _MIRRORED_SIGNS.get(sign, sign)
    if right.column is not None or (left.text is not None and right.text is None):
        return _exact_comparison(right, mirrored, left)
    if left.kind in TEXT:
        return _compare_string_column(left, sign, right)
    if right.kind in TEXT and right.text is None:
        return _compare_string_column(right, mirrored, left)
    return _compare_values(left, sign, right)


def _compare_values(left: _Operand, sign: str, right: _Operand) -> str | None:
    """Return exact SQL that compares a column of another type than string with a column or literal."""
    if right.kind in TEXT:
        return _compare_with_string(left, sign, right)
    kinds = {left.kind, right.kind}
    is_instant_with_literal = left.kind == "timestamp" and right.text is not None
    if "timestamp" in kinds and kinds & _WALL_CLOCK_KINDS and not is_instant_with_literal:
        return f"{left.wall_clock} {sign} {right.wall_clock}"
    return None


def _compare_string_column(left: _Operand, sign: str, right: _Operand) -> str | None:
    """Return exact SQL that compares a string column with a value of another type."""
    column = left.sql
    if right.kind in NUMERIC:
        is_number = f"{column} RLIKE {literal(_NUMBER_PATTERN)}"
        return _null_for_nulls_only(
            left,
            sign,
            right,
            lambda s: f"{is_number} AND {_compare_numeric_string(column, s, right)}",
        )
    if right.kind == "boolean":
        return _null_for_nulls_only(
            left, sign, right, lambda s: f"try_cast({column} AS BOOLEAN) {s} {right.sql}"
        )
    if right.is_instant:
        instant = f"try_cast({column} AS TIMESTAMP_LTZ)"
        return _null_for_nulls_only(left, sign, right, lambda s: f"{instant} {s} {right.sql}")
    if right.kind in TEMPORAL:
        return _null_for_nulls_only(
            left, sign, right, lambda s: f"{left.wall_clock} {s} {right.wall_clock}"
        )
    return None


def _compare_with_string(left: _Operand, sign: str, right: _Operand) -> str | None:
    """Return exact SQL that compares a column with a string literal, read as a value of the column's type.

    If the string is not such a value, only <> is true.
    """
    string = str(right.text)
    is_equality = sign in _EQUALITY_SIGNS
    if left.kind in NUMERIC:
        if re.fullmatch(_NUMBER_PATTERN.strip("^$"), string):
            return _compare_with_number(left, sign, Decimal(string.strip()))
        return _null_for_nulls_only(left, sign, right, lambda _: "false") if is_equality else None
    if left.kind in _WALL_CLOCK_KINDS and (
        right.has_zone or (left.kind == "date" and not _DAY_PATTERN.fullmatch(string))
    ):
        if not is_equality:
            return f"{left.wall_clock} {sign} {right.wall_clock}"
        value = right.wall_clock.replace("CAST('", "try_cast('")
        return _null_for_nulls_only(left, sign, right, lambda s: f"{left.wall_clock} {s} {value}")
    if left.kind in TEMPORAL | {"boolean"} and is_equality:
        kind = "TIMESTAMP_LTZ" if left.kind == "timestamp" else left.kind.upper()
        value = f"try_cast({right.sql} AS {kind})"
        return _null_for_nulls_only(left, sign, right, lambda s: f"{left.sql} {s} {value}")
    return None


def _compare_with_number(left: _Operand, sign: str, value: Decimal) -> str | None:
    """Return exact SQL that compares a numeric column with the number in a string literal."""
    number = _exact_literal(str(value))
    if left.number is None:
        return f"{left.sql} {sign} {constant(float(value))}"
    if max(number.digits, 1) + number.scale > _MAX_DECIMAL_DIGITS:
        return None
    if _fit_one_type([left.number, number]):
        return f"{left.sql} {sign} {value:f}BD"
    return left.number.comparison(sign, number)


def _null_for_nulls_only(
    left: _Operand, sign: str, right: _Operand, condition: Callable[[str], str]
) -> str:
    """Return SQL for a comparison that is null only if an operand is null.

    If a string cannot be read as a value, only <> is true.
    """
    is_true = condition("=" if sign in _EQUALITY_SIGNS else sign)
    is_true = f"coalesce({is_true}, false)"
    columns = [operand.sql for operand in (left, right) if operand.text is None]
    not_null = " AND ".join(f"{sql} IS NOT NULL" for sql in columns)
    if sign in _INEQUALITY_SIGNS:
        is_true = f"NOT {is_true}"
    else_sql = f" ELSE {left.sql} IS NULL AND {right.sql} IS NULL" if sign == "<=>" else ""
    return f"CASE WHEN {not_null} THEN {is_true}{else_sql} END"


def _compare_numeric_string(string: str, sign: str, right: _Operand) -> str:
    """Return SQL that compares a string with a number: as doubles, and as decimals if these are equal."""
    double = f"try_cast({string} AS DOUBLE)"
    if right.number is None:
        return f"{double} {sign} {right.sql}"
    value, digits = right.sql, right.number.digits
    if right.text is not None:  # the type of a plain integer has room for more digits
        value, digits = f"{Decimal(right.text):f}BD", _exact_literal(right.text).digits
    kind = f"DECIMAL({_MAX_DECIMAL_DIGITS}, {max(_MAX_DECIMAL_DIGITS - digits - 1, 0)})"
    as_double = f"CAST({value} AS DOUBLE)"
    return (
        f"CASE WHEN {double} = {as_double} THEN try_cast({string} AS {kind}) {sign} {value}"
        f" ELSE {double} {sign} {as_double} END"
    )


@dataclass(frozen=True)
class _Number:
    """SQL for the two parts of a decimal. Neither part is ever rounded.

    Attributes
    ----------
    floor : str
        The greatest integer that is not greater than the number.
    fraction : str
        The number minus its floor, from 0 to below 1.
    digits, scale : int
        Digits before and after the point.
    """

    floor: str
    fraction: str
    digits: int
    scale: int

    @classmethod
    def from_sql(cls, sql: str, digits: int, scale: int) -> _Number:
        """Return the parts of SQL with a decimal type."""
        fraction = (
            f"CAST(pmod({sql}, 1BD) AS DECIMAL({_MAX_DECIMAL_DIGITS}, {_MAX_DECIMAL_DIGITS}))"
        )
        return cls(f"floor({sql})", fraction, digits, scale)

    def or_else(self, other: _Number) -> _Number:
        """Return the number, or the other number if this one is null."""
        return _Number(
            f"coalesce({self.floor}, {other.floor})",
            f"coalesce({self.fraction}, {other.fraction})",
            max(self.digits, other.digits),
            max(self.scale, other.scale),
        )

    def comparison(self, sign: str, other: _Number) -> str:
        """Return SQL for a comparison; null if one of the numbers is null."""
        return (
            f"CASE WHEN {self.floor} = {other.floor} THEN {self.fraction} {sign} {other.fraction}"
            f" ELSE {self.floor} {sign} {other.floor} END"
        )


def _fit_one_type(numbers: Iterable[_Number]) -> bool:
    """Return whether Spark's common type holds all digits of all numbers."""
    numbers = list(numbers)
    return max(n.digits for n in numbers) + max(n.scale for n in numbers) <= _MAX_DECIMAL_DIGITS


_MIRRORED_KEYS = {"lt": "gt", "lte": "gte", "gt": "lt", "gte": "lte"}


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
    """The column equals one of several strings, numbers or booleans."""

    values: tuple[Any, ...] = ()


@dataclass(frozen=True)
class LikeCondition(Form):
    """The column contains a match of a Java regular expression."""

    pattern: str = ""


@dataclass(frozen=True)
class Within(Form):
    """The column is within bounds, each inclusive or exclusive; None is open."""

    lower: float | None = None
    upper: float | None = None
    has_lower: bool = True
    has_upper: bool = True

    def holds(self, number: float) -> bool:
        """Return whether a number is within the bounds."""
        low, high = self.lower, self.upper
        above = low is None or number > low or (number == low and self.has_lower)
        return above and (high is None or number < high or (number == high and self.has_upper))


@lru_cache(1_000)
def parse_condition(condition: str) -> Form | None:
    r"""Parse a condition; return None if it has no known form.

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
    return (
        None if tree is None or has_comments(condition) else _parse_form(tree.unnest(), condition)
    )


def split_conjunction(condition: str) -> tuple[str, ...]:
    """Return the conditions that AND joins; the condition itself if it has a form or no such AND.

    Examples
    --------
    >>> split_conjunction("a BETWEEN 1 AND 2 AND (b = 'x' OR b IS NULL) AND c > 0")
    ('a BETWEEN 1 AND 2', "(b = 'x' OR b IS NULL)", 'c > 0')
    >>> split_conjunction("a > 0 AND a < 9"), split_conjunction("a > 0 AND b > 0 OR c > 0")
    (('a > 0 AND a < 9',), ('a > 0 AND b > 0 OR c > 0',))
    """
    tokens = tokenize(condition)
    if not tokens or has_comments(condition) or parse_condition(condition) is not None:
        return (condition,)
    level, open_betweens = 0, 0
    parts: list[list[Token]] = [[]]
    for token in tokens:
        is_outside = level == 0
        level += token.nesting
        if is_outside and token.kind in {"OR", "CASE"}:
            return (condition,)
        if is_outside and token.kind == "AND" and not open_betweens:
            parts.append([])
            continue
        if is_outside and token.kind in _RANGE_TOKENS:
            open_betweens += 1 if token.kind == "BETWEEN" else -1
        parts[-1].append(token)
    return tuple(_source_of(part, condition) for part in parts)


def known_sql(condition: str, schema: Schema) -> str:
    """Return SQL that is null where a condition is null; ``1`` if it never is.

    A comparison of a column with constants of its type is null where the column is null, so known rows
    can be counted without evaluating the condition again. Conditions without a known form, and
    conditions with casts, are returned unchanged.

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
    return "1" if form.nulls or _COALESCE_CALL.match(condition) else field.sql


_COALESCE_CALL = re.compile(r"[\s(]*(?:coalesce|nvl|ifnull)\s*\(", re.IGNORECASE)
_LONG_NUMBER = re.compile(r"[\d.]{17}")
"""More digits than an integer comparison is certain to keep."""


def _fits_column(form: Form, kind: str) -> bool:
    """Return whether the constants can be compared with a column of this type without a cast that can fail."""
    if isinstance(form, LikeCondition):
        return kind in TEXT
    if isinstance(form, OneOf) and all(isinstance(value, str) for value in form.values):
        return kind in TEXT
    if isinstance(form, OneOf) and not all(map(_is_number, form.values)):
        return False
    return kind in INTEGRAL | {"float", "double"}


def _parse_form(tree: Tree, condition: str) -> Form | None:
    """Return the form of a condition's tree or of a part of the tree."""
    column, rest = _null_column(tree.this), tree.args.get("expression", tree)
    if tree.key == "not" and column is not None:
        return Present(column)
    if tree.key == "or" and column is not None:
        form = _parse_form(rest.unnest(), condition)
        is_same = form is not None and form.column == column and not isinstance(form, Present)
        return replace(form, nulls=True) if form and is_same else None
    if tree.key == "and":
        low, high = _parse_bound(tree.this, condition), _parse_bound(rest, condition)
        if (
            low is None
            or high is None
            or (low.column, low.upper, high.lower) != (high.column, None, None)
        ):
            return None
        return replace(low, upper=high.upper, has_upper=high.has_upper)
    return (
        _parse_bound(tree, condition)
        or _parse_coalesced(tree, condition)
        or _parse_literals(tree, condition)
    )


def _parse_bound(tree: Tree, condition: str) -> Within | None:
    """Return the form of a comparison of a column with a number, on either side."""
    if tree.key not in _MIRRORED_KEYS:
        return None
    key, left, right = tree.key, tree.this, tree.expression
    if right.key == "column":
        key, left, right = _MIRRORED_KEYS[key], right, left
    return _bound_on_side(_column_name(left), key, _literal_value(right, condition))


def _parse_coalesced(tree: Tree, condition: str) -> Within | None:
    """Return the form of ``coalesce(column, number)`` compared with a number."""
    if (
        tree.key not in _MIRRORED_KEYS
        or tree.this.key != "coalesce"
        or len(tree.this.expressions) != 1
    ):
        return None
    form = _bound_on_side(
        _column_name(tree.this.this), tree.key, _literal_value(tree.expression, condition)
    )
    default = _literal_value(tree.this.expressions[0], condition)
    return replace(form, nulls=form.holds(default)) if form and _is_number(default) else None


def _bound_on_side(column: str | None, key: str, bound: Any) -> Within | None:
    if column is None or not _is_number(bound):
        return None
    if key in {"gt", "gte"}:
        return Within(column, lower=bound, has_lower=key == "gte")
    return Within(column, upper=bound, has_upper=key == "lte")


def _parse_literals(tree: Tree, condition: str) -> Form | None:
    """Return the form of a column compared with literals by =, IN, BETWEEN or RLIKE."""
    names = {"eq": ["expression"], "regexplike": ["expression"], "between": ["low", "high"]}
    sides = (
        tree.expressions if tree.key == "in" else [tree.args[n] for n in names.get(tree.key, ())]
    )
    values = [_literal_value(side, condition) for side in sides]
    column = _column_name(tree.this) if values and None not in values else None
    if column is None:
        return None
    if tree.key == "regexplike":
        return LikeCondition(column, pattern=values[0]) if isinstance(values[0], str) else None
    if tree.key == "between":
        low, high = values
        return Within(column, lower=low, upper=high) if all(map(_is_number, values)) else None
    return OneOf(column, values=tuple(values))


def _column_name(tree: Any) -> str | None:
    """Return the name of a column; None for a nested path or another expression."""
    is_column = getattr(tree, "key", "") == "column" and len(tree.parts) == 1
    return str(tree.name) if is_column else None


def _null_column(tree: Any) -> str | None:
    """Return the column of an IS NULL test; None for another expression."""
    is_null = getattr(tree, "key", "") == "is" and tree.expression.key == "null"
    return _column_name(tree.this) if is_null else None


def _literal_value(tree: Tree, condition: str) -> Any:
    """Return the value of a literal that other tools read the same way; None for other expressions."""
    if tree.key == "boolean":
        return tree.this
    if tree.key == "neg":
        operand = _literal_value(tree.this, condition)
        return -operand if _is_number(operand) else None
    match = _LITERAL_PATTERN.fullmatch(text_of(tree, condition)) if tree.key == "literal" else None
    if match is None:
        return None
    if match["number"]:
        digits, suffix = match["number"], (match["suffix"] or "").upper()
        is_integer = digits.isdigit() and suffix != "D"
        return (int(digits) if is_integer else float(digits)) if suffix in {"", "BD", "D"} else None
    # Other tools read escapes differently, except those that `literal` writes.
    string = match[0][1:-1]
    is_plain = re.search(r"\\[^'\\]", string.replace("\\\\", "")) is None
    return re.sub(r"\\(.)", r"\1", string, flags=re.DOTALL) if is_plain else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
