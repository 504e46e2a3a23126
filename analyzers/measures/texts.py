r"""Text metrics: PatternMatch, MinLength, MaxLength, DataType."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache
from math import inf
from struct import Struct
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self

from tidegauge.analyzers.core.analyzer import ColumnAnalyzer, analyzer
from tidegauge.analyzers.core.columnar import InexactError, Kernel, PartitionMetadata, RowGroup
from tidegauge.analyzers.core.metric import Scale
from tidegauge.analyzers.core.registry import canonical_json, check_choice
from tidegauge.analyzers.core.schema import INTEGRAL, TEXT, Field, Schema
from tidegauge.analyzers.core.sql import count_rows, literal, where_holds
from tidegauge.analyzers.core.state import Count, State, register_state
from tidegauge.analyzers.measures.counts import NumMatchesAndCount, RatioAnalyzer
from tidegauge.analyzers.measures.extremes import ExtremeAnalyzer, MaxState, MinState
from tidegauge.analyzers.measures.histogram import Distribution, DistributionValue

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

PATTERNS: Mapping[str, str] = MappingProxyType(
    {
        # RFC 5322 address without comments and folding: dot-atom or quoted string before the @, domain
        # or IPv4 address literal after it.
        "EMAIL": (
            r"""(?i)(?:[a-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[a-z0-9!#$%&'*+/=?^_`{|}~-]+)*"""
            r"""|"(?:[\x01-\x08\x0b\x0c\x0e-\x1f\x21\x23-\x5b\x5d-\x7f]|\\[\x01-\x09\x0b\x0c\x0e-\x7f])*")"""
            r"""@(?:(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+[a-z0-9](?:[a-z0-9-]*[a-z0-9])?"""
            r"""|\[(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)\])"""
        ),
        "URL": r"(?i)\b(?:https?|ftp)://[^\s/$.?#][^\s]*\.[^\s]*",
        # Excludes unassigned area, group and serial numbers, and two numbers published in advertising.
        "SOCIAL_SECURITY_NUMBER_US": (
            r"\b(?!(?:078[- ]?05[- ]?1120|219[- ]?09[- ]?9999)\b)"
            r"(?!000|666|9\d\d)\d{3}([- ]?)(?!00)\d{2}\1(?!0000)\d{4}\b"
        ),
        # Visa, Mastercard, American Express, Diners Club, Discover, JCB; spaces or hyphens between groups.
        "CREDITCARD": (
            r"\b(?:4\d{3}(?:[ -]?\d{4}){3}|4\d{12}"
            r"|(?:5[1-5]\d{2}|222[1-9]|22[3-9]\d|2[3-6]\d{2}|27[01]\d|2720)(?:[ -]?\d{4}){3}"
            r"|3[47]\d{2}[ -]?\d{6}[ -]?\d{5}"
            r"|3(?:0[0-5]|[68]\d)\d[ -]?\d{6}[ -]?\d{4}"
            r"|6(?:011|5\d{2})(?:[ -]?\d{4}){3}"
            r"|(?:2131|1800)\d{11}|35\d{2}(?:[ -]?\d{4}){3})\b"
        ),
    }
)
"""Built-in regular expressions by the names that PatternMatch accepts as a pattern."""


@analyzer
class PatternMatch(RatioAnalyzer, ColumnAnalyzer[NumMatchesAndCount, float]):
    """Share of rows where a string contains a match of a regular expression.

    By default, a null does not match but counts as a row; see ``null_behavior``. Empty metric at zero rows.

    Parameters
    ----------
    column : str
        The column.
    pattern : str
        A Java regular expression, matched anywhere in the string, or the name of a built-in pattern:
        EMAIL, URL, SOCIAL_SECURITY_NUMBER_US, CREDITCARD. Anchor it with ``^`` and ``$`` to match
        the whole string. The column's collation has no effect; ``(?i)`` ignores case.
    null_behavior : str
        ``fail``: a null does not match. ``empty``: a null is the empty string. ``ignore``: a null is
        not counted.

    Examples
    --------
    >>> metric = PatternMatch("zip", "^[0-9]{5}$").compute_metric_from(NumMatchesAndCount(3, 4))
    >>> metric.value
    0.75
    """

    accepts: ClassVar[str] = "text"

    pattern: str
    null_behavior: str = "fail"

    def check_parameters(self) -> None:
        """Require a known null behavior."""
        check_choice(self, "null_behavior", NULL_BEHAVIORS)

    def aggregations(self, schema: Schema) -> Sequence[str]:
        """Count the matches and the rows."""
        column = self.field(schema).uncollated_sql
        text = f"coalesce({column}, '')" if self.null_behavior == "empty" else column
        is_match = f"{text} RLIKE {literal(PATTERNS.get(self.pattern, self.pattern))}"
        rows = f"count({self.values(schema)})"
        return (
            f"count_if({where_holds(self.where, is_match)})",
            rows if self.null_behavior == "ignore" else count_rows(self.where),
        )

    def kernel(self, schema: Schema) -> Kernel[NumMatchesAndCount] | None:
        """Match the strings, if RE2 matches the pattern as Java does."""
        columns = schema.top_level(self.field(schema))
        pattern = common_pattern(PATTERNS.get(self.pattern, self.pattern))
        if columns is None or pattern is None:
            return None
        (column,) = columns

        def from_rows(group: RowGroup) -> NumMatchesAndCount:
            strings, counts = group.strings(column)
            matches, values = int(counts[pattern.matches(strings)].sum()), group.values(column)
            if self.null_behavior == "ignore":
                return NumMatchesAndCount(matches, values)
            if self.null_behavior == "empty" and pattern.matches_empty:
                matches += group.rows - values
            return NumMatchesAndCount(matches, group.rows)

        return Kernel(columns, from_rows)


NULL_BEHAVIORS = ("ignore", "empty", "fail")


@dataclass(frozen=True, repr=False)
class _LengthAnalyzer(ExtremeAnalyzer):
    scale: ClassVar[Scale] = Scale.COUNT
    accepts: ClassVar[str] = "text"
    worst: ClassVar[float]

    null_behavior: str = "ignore"

    def check_parameters(self) -> None:
        """Require a known null behavior."""
        check_choice(self, "null_behavior", NULL_BEHAVIORS)

    def number(self, schema: Schema) -> str:
        """Return SQL for the length of each row's string."""
        column = self.field(schema).sql
        length = {
            "ignore": f"char_length({column})",
            "empty": f"coalesce(char_length({column}), 0)",
            "fail": f"coalesce(CAST(char_length({column}) AS DOUBLE), {self.worst!r}D)",
        }
        return length[self.null_behavior]

    def counted(self, schema: Schema) -> str:
        """Return SQL that is not null where there is a length; `Completeness` counts the same."""
        ignored = self.null_behavior == "ignore"
        return self.field(schema).sql if ignored else self.number(schema)

    def kernel(self, schema: Schema) -> Kernel[Any] | None:
        """Compute the shortest or longest length from the distinct strings, and the number of lengths."""
        columns = schema.top_level(self.field(schema))
        if columns is None:
            return None
        (column,) = columns
        (end,) = self.aggregates

        def from_rows(group: RowGroup) -> Any:
            import pyarrow.compute as pc

            length = pc.min_max(pc.utf8_length(group.strings(column)[0]))[end].as_py()
            values = group.values(column)
            if self.null_behavior == "ignore":
                return self.state_type(length, values)
            lengths = [] if length is None else [length]
            if values < group.rows:
                lengths.append(0 if self.null_behavior == "empty" else self.worst)
            if not lengths:
                return self.state_type()
            if self.null_behavior == "fail":
                lengths = list(map(float, lengths))
            return self.state_type({"min": min, "max": max}[end](lengths), group.rows)

        return Kernel(columns, from_rows)


@analyzer
class MinLength(_LengthAnalyzer):
    """Length of the shortest string, in Unicode characters; empty metric if there is none.

    Parameters
    ----------
    column : str
        The column.
    null_behavior : str
        ``ignore``: nulls are skipped. ``empty``: a null is the empty string, of length 0. ``fail``: a
        null makes the result the lowest double, which fails any lower bound; Deequ's choice.

    Examples
    --------
    >>> MinLength("name").compute_metric_from(MinState(2, 4)).value
    2.0
    """

    state_type: ClassVar[type[Any]] = MinState
    aggregates: ClassVar[tuple[str, ...]] = ("min",)
    worst: ClassVar[float] = -sys.float_info.max


@analyzer
class MaxLength(_LengthAnalyzer):
    """Length of the longest string, in Unicode characters; empty metric if there is none.

    Parameters
    ----------
    column : str
        The column.
    null_behavior : str
        ``ignore``: nulls are skipped. ``empty``: a null is the empty string, of length 0. ``fail``: a
        null makes the result the greatest double, which fails any upper bound; Deequ's choice.

    Examples
    --------
    >>> MaxLength("name").compute_metric_from(MaxState(7, 4)).value
    7.0
    """

    state_type: ClassVar[type[Any]] = MaxState
    aggregates: ClassVar[tuple[str, ...]] = ("max",)
    worst: ClassVar[float] = sys.float_info.max


@register_state("data-type/1")
@dataclass(frozen=True, slots=True)
class DataTypeState(State):
    """Number of values by inferred data type.

    Examples
    --------
    >>> DataTypeState(unknown=1, integral=5, fractional=2).counts()["Integral"]
    5
    """

    layout: ClassVar[Struct] = Struct("<qqqqq")
    unknown: Count = 0
    fractional: Count = 0
    integral: Count = 0
    boolean: Count = 0
    string: Count = 0

    def combine(self, other: Self) -> Self:
        """Add the counts."""
        return type(self)(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def counts(self) -> dict[str, int]:
        """Return the counts by type name."""
        return {f.name.capitalize(): getattr(self, f.name) for f in fields(self)}


_NUMBER_TEXT = r"^[+-]? ?\d+(\.\d+)?([eE][+-]?\d+)?\z"
_FRACTION_MARKS = ".eE"
"""A number that is written as a fraction contains at least one of these characters."""


@analyzer
class DataType(ColumnAnalyzer[DataTypeState, Distribution]):
    """Inferred data types of a column: counts and shares of five types.

    The types are Unknown (null), Fractional, Integral, Boolean and String. Strings are parsed by Deequ's
    patterns: an optional sign and space before the digits; ``true`` and ``false`` in lower
    case. Numbers (including NaN) and booleans have the type of their column; decimals of scale 0 are
    Integral; everything else is String. Empty metric at zero rows.

    Examples
    --------
    >>> state = DataTypeState(unknown=1, integral=3)
    >>> DataType("x").compute_metric_from(state).value["Integral"].ratio
    0.75
    """

    scale: ClassVar[Scale] = Scale.COUNT
    state_type: ClassVar[type[State]] = DataTypeState

    def scale_of(self, metric_name: str) -> Scale:
        """Return the ratio scale for shares, count otherwise."""
        return Scale.RATIO if ".ratio." in metric_name else Scale.COUNT

    def statistic(self) -> str:
        """Return the statistic key of the type counts."""
        return canonical_json({"state": "data-type", "column": self.column, "where": self.where})

    def aggregations(self, schema: Schema) -> Sequence[str]:
        """Count rows, non-null values, and those that read as fractional, integral and boolean."""
        field = self.field(schema)

        def count(condition: str) -> str:
            return f"count_if({where_holds(self.where, condition)})"

        def reads_as(kind: str) -> str:
            return self.values(schema) if kind == _type_of_values(field) else "CAST(NULL AS INT)"

        if field.kind in TEXT:
            typed = [count(f"({condition})") for condition in _reads_of_text(field)]
        else:
            typed = [f"count({reads_as(k)})" for k in ("fractional", "integral", "boolean")]
        return (count_rows(self.where), f"count({self.values(schema)})", *typed)

    def kernel(self, schema: Schema) -> Kernel[DataTypeState] | None:
        """Count the types: of distinct strings, or of all values of a column of another type."""
        field = self.field(schema)
        columns = schema.top_level(field)
        if columns is None:
            return None
        (column,) = columns
        if field.kind in TEXT:
            return Kernel(columns, lambda group: self._types_in(group, column))
        kind = _type_of_values(field)

        def from_metadata(meta: PartitionMetadata) -> DataTypeState | None:
            values = meta.values(column)
            if values is None:
                return None
            return DataTypeState(unknown=meta.rows - values, **{kind: values})

        def from_rows(group: RowGroup) -> DataTypeState:
            values = group.values(column)
            return DataTypeState(unknown=group.rows - values, **{kind: values})

        return Kernel(columns, from_rows, from_metadata)

    def _types_in(self, group: RowGroup, column: str) -> DataTypeState:
        import pyarrow.compute as pc

        strings, counts = group.strings(column)

        def matches(pattern: str) -> npt.NDArray[np.bool_]:
            found: npt.NDArray[np.bool_] = pc.match_substring_regex(strings, pattern).to_numpy(
                zero_copy_only=False
            )
            return found

        is_number, is_marked = matches(_NUMBER_TEXT), matches(f"[{_FRACTION_MARKS}]")
        typed = (is_number & is_marked, is_number & ~is_marked, matches(r"^(true|false)\z"))
        sums = (int(counts[mask].sum()) for mask in typed)
        return self.fold((group.rows, group.values(column), *sums))

    def fold(self, cells: Sequence[Any]) -> DataTypeState:
        """Return the state; non-null values of no other type count as String."""
        rows, values, fractional, integral, boolean = cells
        texts = values - fractional - integral - boolean
        return DataTypeState(rows - values, fractional, integral, boolean, texts)

    def measure(self, state: DataTypeState) -> Distribution:
        """Return the five counts with their shares of all rows."""
        rows = self.weight(state)
        if not rows:
            raise self.no_data()
        values = {k: DistributionValue(n, n / rows) for k, n in state.counts().items()}
        return Distribution(values, len(values))

    def weight(self, state: DataTypeState) -> float:
        """Return the number of rows."""
        return sum(state.counts().values())


def _type_of_values(field: Field) -> str:
    """Return the count of `DataTypeState` to which the values of a column without strings add."""
    if field.kind == "decimal":
        return "fractional" if field.digits[1] else "integral"
    if field.kind in {"float", "double"}:
        return "fractional"
    if field.kind in INTEGRAL:
        return "integral"
    return "boolean" if field.kind == "boolean" else "string"


def _reads_of_text(field: Field) -> tuple[str, str, str]:
    """Return SQL conditions for strings that can be read as fractions, as integers, and as booleans.

    The first two begin with the same expression, which Spark evaluates once, so each string is matched with
    one pattern. The lengths distinguish strings of type CHAR that differ only in trailing spaces.
    """
    number = f"{field.uncollated_sql} RLIKE {literal(_NUMBER_TEXT)}"
    marked = " OR ".join(f"contains({field.sql}, '{mark}')" for mark in _FRACTION_MARKS)
    boolean = " OR ".join(
        f"octet_length({field.sql}) = {len(word)} AND {field.uncollated_sql} = '{word}'"
        for word in ("true", "false")
    )
    return f"{number} AND ({marked})", f"{number} AND NOT ({marked})", boolean


_ESCAPED_PART = re.compile(r"\\Q.*?(?:\\E|\Z)|\\.", re.DOTALL)
_FREE_SPACING_FLAG = re.compile(r"\(\?[a-wyzA-Z]*x")
"""The flag that makes ``#`` begin a comment, in which brackets have no meaning."""


def pattern_problem(pattern: str) -> str:
    r"""Return why a string is not a valid Java regular expression, from its brackets and quantifiers.

    The result is empty if no problem is found. Spark compiles a pattern only if the data has rows.

    Examples
    --------
    >>> pattern_problem("["), pattern_problem("(a|b"), pattern_problem("a)"), pattern_problem("a\\")
    ("'[' is not closed", "'(' is not closed", "')' closes nothing", 'nothing follows the last backslash')
    >>> pattern_problem(r"^[^]a[b-d]&&[^c]]{2}\Q(\E\)$"), pattern_problem("(?x) a # (b")
    ('', '')
    """
    if _FREE_SPACING_FLAG.search(pattern):
        return ""
    text = _ESCAPED_PART.sub("_", pattern)
    if text.endswith("\\"):
        return "nothing follows the last backslash"
    if text[:1] in {"*", "+", "?"}:
        return f"nothing precedes the first {text[0]!r}"
    return _unbalanced(text)


def _unbalanced(text: str) -> str:
    """Return a message about the first unmatched bracket of a pattern without escapes; empty if all match."""
    groups = classes = 0
    begins = False  # a class, in which a bracket that comes first is a character
    for sign in text:
        if sign == "[":
            classes, begins = classes + 1, True
        elif classes:
            classes -= sign == "]" and not begins
            begins = begins and sign == "^"
        else:
            groups += (sign == "(") - (sign == ")")
            if groups < 0:
                return "')' closes nothing"
    if classes:
        return "'[' is not closed"
    return "'(' is not closed" if groups else ""


_TOKEN = re.compile(
    r"""(?P<open>\((?:\?:)?(?!\?)) | (?P<close>\)) | (?P<or>\|) | (?P<dot>\.)
    | \[(?P<negation>\^?)(?P<members>(?:\\.|[^\[\]\\])+)\]
    | (?P<anchor>[\^$]|\\[bBAz])
    | (?P<repeat>(?:[*+?]|\{(?P<least>\d{1,4})(?:,(?P<most>\d{0,4}))?\})\??)
    | (?P<character>\\(?:[tnrfdDwWsS]|x[0-9a-fA-F]{2}|[ !-/:-@\[-`{-~])|[^\\\[\](){}|*+?.^$])""",
    re.VERBOSE | re.DOTALL,
)
"""The tokens that mean the same in Java and RE2, at least after they are written out."""
_MEMBER = re.compile(r"\\x[0-9a-fA-F]{2}|\\.|.", re.DOTALL)
_CONTROL_CHARACTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_Ranges = tuple[tuple[int, int], ...]
_CHARACTER_SETS: Mapping[str, _Ranges] = {
    "d": ((48, 57),),
    "s": ((9, 13), (32, 32)),
    "w": ((48, 57), (65, 90), (95, 95), (97, 122)),
}
"""Code points of Java's predefined sets. RE2's set of spaces lacks the vertical tab."""
_ANCHORS = {"^": r"\A", "$": r"\z", r"\A": r"\A", r"\z": r"\z", r"\b": r"\b", r"\B": r"\B"}
_LINE_ENDS = "\n", "\r", "\x85", "\u2028", "\u2029"
_DOT = r"[^\n\r\x{85}\x{2028}\x{2029}]"
_CASES_OF_LETTERS = [[f"\\x{{{ord(letter):x}}}" for letter in pair] for pair in ("Kk", "Ss")]
"""Classes that RE2 replaces by a letter in any case, which in an alternative also matches the Kelvin sign or the long s."""
_MAX_REPEATS = 1000
"""Greatest number of repetitions in RE2."""


class _OnlyJavaError(Exception):
    """A pattern is invalid or not in the common subset."""


@dataclass(frozen=True)
class CommonPattern:
    r"""A regular expression that finds a match in the same strings in Java and in RE2.

    The common subset has characters, classes, groups, alternatives, repetition and anchors. Whether a string has a
    match does not depend on the order in which alternatives are tried, so lazy repetition is included, too. It
    lacks references, look-around, possessive repetition and named sets. It also lacks repetition of parts that can
    be empty: Java leaves such a loop early.

    Attributes
    ----------
    re2 : str
        The pattern for RE2, with classes and anchors written out.
    has_dollar : bool
        Whether a line end at the end of a string makes a difference: Java's ``$`` also matches before it.
    needs_ascii : bool
        Whether other characters make a difference: the words of ``\b`` depend on the version of Java.

    Examples
    --------
    >>> print(common_pattern("(?i)^a+$").re2)
    \A[\x{41}\x{61}]+\z
    >>> common_pattern(r"(a)\1"), common_pattern("(a?)*"), common_pattern("*")
    (None, None, None)
    """

    re2: str
    has_dollar: bool
    needs_ascii: bool

    @property
    def matches_empty(self) -> bool:
        """Whether the empty string has a match."""
        import pyarrow as pa

        return bool(self.matches(pa.array([""]))[0])

    def matches(self, strings: pa.Array) -> npt.NDArray[np.bool_]:
        """Return for each string, none of which is null, whether it has a match.

        Raises
        ------
        InexactError
            If Java may differ on one of the strings.
        """
        import pyarrow.compute as pc

        if self.needs_ascii and not pc.all(pc.string_is_ascii(strings), min_count=0).as_py():
            msg = "the words of other strings than ASCII depend on the version of Java"
            raise InexactError(msg)
        for line_end in _LINE_ENDS if self.has_dollar else ():
            if pc.any(pc.ends_with(strings, line_end), min_count=0).as_py():
                msg = "a string ends with a line end"
                raise InexactError(msg)
        has_match = pc.match_substring_regex(strings, self.re2)
        return has_match.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


@lru_cache(maxsize=1024)
def common_pattern(pattern: str) -> CommonPattern | None:
    """Translate a Java pattern; None if it is not in the common subset."""
    import pyarrow as pa

    try:
        result = _translated(pattern)
        result.matches(pa.array([""]))  # RE2 refuses patterns that are too large
    except (_OnlyJavaError, pa.ArrowInvalid):
        return None
    return result


@dataclass
class _Group:
    """An open group: whether an earlier alternative can be empty, and each part of the current one."""

    has_empty_alternative: bool = False
    parts_can_be_empty: list[bool] = field(default_factory=list)

    def can_be_empty(self) -> bool:
        """Return whether an alternative can be empty."""
        return self.has_empty_alternative or all(self.parts_can_be_empty)


def _translated(pattern: str) -> CommonPattern:
    """Translate a pattern token by token."""
    ignores_case = pattern.startswith("(?i)")
    position = len("(?i)") if ignores_case else 0
    translated: list[str] = []
    signs: set[str] = set()
    groups = [_Group()]
    can_repeat = False  # whether the last part can be repeated
    while position < len(pattern):
        token = _TOKEN.match(pattern, position)
        if token is None:
            raise _OnlyJavaError
        position, kind = token.end(), token.lastgroup or ""
        if kind in {"open", "or", "close"}:
            _change_group(groups, kind)
            translated.append({"open": "(?:", "or": "|", "close": ")"}[kind])
        elif kind == "repeat":
            _repeat_part(groups[-1], token, can_repeat=can_repeat)
            translated.append(token[0])
        else:
            groups[-1].parts_can_be_empty.append(kind == "anchor")
            signs.add(token[0])
            translated.append(_part_of(token, ignores_case=ignores_case))
        can_repeat = kind not in {"open", "or", "repeat", "anchor"}
    if len(groups) > 1:
        raise _OnlyJavaError
    return CommonPattern(
        "".join(translated), bool(signs & {".", "$"}), bool(signs & {r"\b", r"\B"})
    )


def _change_group(groups: list[_Group], kind: str) -> None:
    """Open a group, close the last one, or begin its next alternative."""
    if kind == "open":
        groups.append(_Group())
    elif kind == "or":
        groups.append(_Group(groups.pop().can_be_empty()))
    elif len(groups) == 1:
        raise _OnlyJavaError
    else:
        can_be_empty = groups.pop().can_be_empty()
        groups[-1].parts_can_be_empty.append(can_be_empty)


def _repeat_part(group: _Group, token: re.Match[str], *, can_repeat: bool) -> None:
    """Repeat the last part of a group, if Java and RE2 do so alike."""
    least, most = _repeats(token)
    if not can_repeat or (group.parts_can_be_empty[-1] and most != 1):
        raise _OnlyJavaError
    group.parts_can_be_empty[-1] |= least == 0


def _repeats(token: re.Match[str]) -> tuple[int, float]:
    """Return the least and greatest number of repetitions."""
    sign = token[0][0]
    if sign != "{":
        return int(sign == "+"), 1 if sign == "?" else inf
    least = int(token["least"])
    most = least if token["most"] is None else int(token["most"] or _MAX_REPEATS)
    if not least <= most <= _MAX_REPEATS:
        raise _OnlyJavaError
    return least, inf if token["most"] == "" else most


def _part_of(token: re.Match[str], *, ignores_case: bool) -> str:
    """Return RE2's form of an anchor, a dot, a class or a character."""
    if token["anchor"]:
        return _ANCHORS[token["anchor"]]
    if token["dot"]:
        return _DOT
    character = token["character"]
    is_negated = character in {r"\D", r"\W", r"\S"} or token["negation"] == "^"
    if character is None:
        ranges = _ranges_in(token["members"])
    else:
        ranges = _ranges_of(character.lower() if is_negated else character)
    if ignores_case:
        letters = (*range(ord("A"), ord("Z") + 1), *range(ord("a"), ord("z") + 1))
        swapped = (c ^ 32 for c in letters if any(low <= c <= high for low, high in ranges))
        ranges = (*ranges, *((c, c) for c in swapped))
    members = [
        f"\\x{{{low:x}}}" if low == high else f"\\x{{{low:x}}}-\\x{{{high:x}}}"
        for low, high in sorted(set(ranges))
    ]
    if members in _CASES_OF_LETTERS and not is_negated:
        return f"(?:{'|'.join(members)})"
    return f"[{'^' * is_negated}{''.join(members)}]"


def _ranges_in(members: str) -> _Ranges:
    """Return the code points of a class, without its brackets and negation."""
    signs = _MEMBER.findall(members)
    if "&&" in members:
        raise _OnlyJavaError
    ranges: list[tuple[int, int]] = []
    i = 0
    while i < len(signs):
        first = _ranges_of(signs[i])
        is_range = signs[i + 1 : i + 2] == ["-"] and i + 2 < len(signs)
        if signs[i] == "-" and 0 < i < len(signs) - 1:
            raise _OnlyJavaError  # neither first nor last, nor in a range
        if is_range:
            last = _ranges_of(signs[i + 2])
            (low, _), (high, end) = first[0], last[0]
            is_single = len(first) == len(last) == 1 and first[0][0] == first[0][1] and high == end
            if not is_single or low > high or "-" in {signs[i], signs[i + 2]}:
                raise _OnlyJavaError
            ranges.append((low, high))
            i += 3
        else:
            ranges.extend(first)
            i += 1
    return tuple(ranges)


def _ranges_of(sign: str) -> _Ranges:
    """Return the code points of a character, an escaped character or a predefined set."""
    if sign[0] != "\\" or len(sign) == 1:
        code = ord(sign)
        if 0xD800 <= code < 0xE000:
            raise _OnlyJavaError  # a half of a character
    elif sign[1] in _CHARACTER_SETS:
        return _CHARACTER_SETS[sign[1]]
    elif sign[1] == "x" and len(sign) > len(r"\x"):
        code = int(sign.removeprefix(r"\x"), base=16)
    elif sign[1] in _CONTROL_CHARACTERS:
        code = ord(_CONTROL_CHARACTERS[sign[1]])
    elif sign[1].isascii() and not sign[1].isalnum() and sign[1].isprintable():
        code = ord(sign[1])
    else:
        raise _OnlyJavaError
    return ((code, code),)
