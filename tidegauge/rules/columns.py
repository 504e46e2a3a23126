"""Built-in rules and fixes of columns.

The rules test ranges, sets, formats, completeness, references and uniqueness. `BoundRule`, `SetRule`,
`FormatRule` and `NotNullRule` reject what the fixes of the same names repair: clamp to a range, or replace
what is not in a set, has another format or is null. The functions at the start write their conditions on
one column as pieces of SQL, for rules and fixes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from tidegauge.analyzers.core.errors import RuleError, UnknownNameError
from tidegauge.analyzers.core.sql import column_sql, literal
from tidegauge.analyzers.measures.texts import pattern_problem
from tidegauge.rules.tasks import (
    COLUMN_PLACEHOLDER,
    Arm,
    DQMFix,
    DQMRule,
    DQMTask,
    Expression,
    KeyLookup,
    UniqueKey,
    is_column,
    shown_text,
    value_sql,
)

if TYPE_CHECKING:
    from pyspark.sql import Column


CLOSED = {"left": (">=", "<"), "right": (">", "<="), "both": (">=", "<="), "neither": (">", "<")}


def in_range(task: DQMTask, lower: Any, upper: Any, closed: str) -> list[Any]:
    """Return the SQL pieces of a range condition on a column."""
    kind = type(task).__name__
    if closed not in CLOSED:
        msg = f"{kind}: closed is one of {', '.join(map(repr, CLOSED))}, not {closed!r}"
        raise RuleError(msg)
    if lower is None and upper is None:
        msg = f"{kind} needs a lower or an upper bound"
        raise RuleError(msg)
    try:
        crossed = lower is not None and upper is not None and not lower <= upper
    except TypeError as error:
        msg = f"{kind}: the bounds {lower!r} and {upper!r} cannot be compared"
        raise RuleError(msg) from error
    if crossed:
        msg = f"{kind}: the lower bound {lower!r} is not below the upper bound {upper!r}"
        raise RuleError(msg)
    above, below = CLOSED[closed]
    sides = [(above, lower), (below, upper)]
    pieces: list[Any] = []
    for mark, bound in sides:
        if bound is not None:
            pieces += [" AND "] if pieces else []
            pieces += [COLUMN_PLACEHOLDER, f" {mark} {value_sql(bound)}"]
    return pieces


def check_range_not_empty(task: DQMTask, lower: Any, upper: Any, closed: str) -> None:
    """Raise a `RuleError` for an empty range."""
    if lower is not None and lower == upper and closed != "both":
        kind = type(task).__name__
        msg = f"{kind}: nothing lies between {lower!r} and {upper!r}; for this one value give closed='both'"
        raise RuleError(msg)


def checked_values(task: DQMTask, values: Iterable[Any]) -> list[Any]:
    """Return the values of a set as a list, which must not be empty."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        msg = f"{type(task).__name__}: values is a list, ['M', 'F'], not {values!r}"
        raise RuleError(msg)
    found = list(values)
    if not found:
        msg = f"{type(task).__name__}: values is a list of at least one value"
        raise RuleError(msg)
    return found


def is_among(values: Sequence[Any]) -> list[Any]:
    """Return the SQL pieces of a set membership condition on a column."""
    known = [value_sql(value) for value in values if value is not None]
    pieces: list[Any] = [COLUMN_PLACEHOLDER, f" IN ({', '.join(known)})"] if known else []
    if len(known) < len(values):
        pieces = [COLUMN_PLACEHOLDER, " IS NULL", *([" OR "] if known else []), *pieces]
    return pieces


def format_name(task: DQMTask, column: Any, pattern: str, whole: bool) -> str:  # noqa: FBT001
    """Return the default name of a rule or fix of a pattern."""
    also = "" if whole is True else f", whole={whole}"
    return f"{type(task).__name__}({shown_text(column)}, {pattern}{also})"


def matches(task: DQMTask, pattern: str, whole: bool) -> list[Any]:  # noqa: FBT001
    """Return the SQL pieces of a match of a text with a pattern, in full or anywhere."""
    if not isinstance(pattern, str):
        msg = f"{type(task).__name__}: the pattern is the text of a regular expression, not {pattern!r}"
        raise RuleError(msg)
    if problem := pattern_problem(pattern):
        msg = f"{type(task).__name__}: {pattern!r} is no regular expression: {problem}"
        raise RuleError(msg)
    if not isinstance(whole, bool):
        msg = f"{type(task).__name__}: whole is True or False, not {whole!r}"
        raise RuleError(msg)
    text = rf"\A(?:{pattern})\z" if whole else pattern
    return [COLUMN_PLACEHOLDER, f" RLIKE {literal(text)}"]


def display(value: Any) -> str:
    """Return a value as default names have it."""
    return value if isinstance(value, str) else shown_text(value)


class _ColumnRule(DQMRule):
    """Rule about one column, composed of SQL pieces."""

    def __init__(
        self,
        column: str | Column,
        pieces: Sequence[Any],
        name: str | None,
        told: str,
        options: dict[str, Any],
    ) -> None:
        known = {
            "on_null": "fail",
            "severity": "error",
            "stage": "before",
            "where": None,
            "message": "",
            "description": "",
            "tags": (),
        }
        for option in options.keys() - known.keys():
            kind = f"option of {type(self).__name__}"
            raise UnknownNameError(kind, option, known)
        options = known | options
        where = options["where"]
        if name is None and where is not None:
            told = f"{told} where {Expression.from_input(where, type(self).__name__).shown}"
        self._set(Expression.from_column_pieces(column, pieces), name or told, **options)


class BoundRule(_ColumnRule):
    """Range rule: the column lies between two bounds.

    A column of text is compared with numbers, dates and times by what it shows: '5.9' is above 5, and
    a text that shows no number breaks the rule.

    Parameters
    ----------
    column : str or Column
    lower, upper : number, date, time or text
        None for no bound on that side.
    closed : str
        The bounds that are themselves allowed: ``left`` (the lower one), ``right``, ``both``,
        ``neither``.
    name, on_null, severity, stage, where, message, description, tags
        As for `DQMRule`. NaN is above every number, as in Spark.

    Examples
    --------
    >>> print(BoundRule("age", 1, 150).expression.text)
    `age` >= 1 AND `age` < 150
    >>> BoundRule("age", 1, 150).name
    'BoundRule(age, 1, 150)'
    """

    def __init__(
        self,
        column: str | Column,
        lower: Any,
        upper: Any,
        closed: str = "left",
        name: str | None = None,
        **options: Any,
    ) -> None:
        inside = in_range(self, lower, upper, closed)
        check_range_not_empty(self, lower, upper, closed)
        sides = f"{shown_text(column)}, {display(lower)}, {display(upper)}"
        also = "" if closed == "left" else f", closed={closed}"
        super().__init__(column, inside, name, f"{type(self).__name__}({sides}{also})", options)


class SetRule(_ColumnRule):
    """Set membership rule: the column has one of the given values.

    Parameters
    ----------
    column : str or Column
    values : sequence
        Strings, numbers, dates ...; None among them allows null.
    name, on_null, severity, stage, where, message, description, tags
        As for `DQMRule`.

    Examples
    --------
    >>> print(SetRule("gender", ["M", "F"]).expression.text)
    `gender` IN ('M', 'F')
    """

    def __init__(
        self, column: str | Column, values: Sequence[Any], name: str | None = None, **options: Any
    ) -> None:
        values = checked_values(self, values)
        told = f"SetRule({shown_text(column)}, {', '.join(map(display, values))})"
        super().__init__(column, is_among(values), name, told, options)


class FormatRule(_ColumnRule):
    r"""Format rule: a text column matches a Java regular expression, by default as a whole.

    `Check.has_pattern` matches anywhere by default, as Deequ does; both take ``whole``.

    Parameters
    ----------
    column : str or Column
    pattern : str
    whole : bool
        Whether the pattern must match the whole text; otherwise a match anywhere in it suffices.
    name, on_null, severity, stage, where, message, description, tags
        As for `DQMRule`.

    Examples
    --------
    >>> print(FormatRule("zip", "[0-9]{5}").expression.text)
    `zip` RLIKE '\\A(?:[0-9]{5})\\z'
    >>> print(FormatRule("name", "^[A-Z]", whole=False).expression.text)
    `name` RLIKE '^[A-Z]'
    """

    def __init__(
        self,
        column: str | Column,
        pattern: str,
        name: str | None = None,
        *,
        whole: bool = True,
        **options: Any,
    ) -> None:
        told = format_name(self, column, pattern, whole)
        super().__init__(column, matches(self, pattern, whole), name, told, options)


class NotNullRule(_ColumnRule):
    """Completeness rule: the column is not null; NaN is not null.

    Examples
    --------
    >>> NotNullRule("email").name
    'NotNullRule(email)'
    """

    def __init__(self, column: str | Column, name: str | None = None, **options: Any) -> None:
        told = f"NotNullRule({shown_text(column)})"
        super().__init__(column, [COLUMN_PLACEHOLDER, " IS NOT NULL"], name, told, options)


class ForeignKeyRule(_ColumnRule):
    """Reference rule: the key of a record is in another table.

    It is found by a join with the other table's distinct keys, so no record is doubled. In runs that count
    only what is new, a change of the other table counts all partitions anew.

    Parameters
    ----------
    columns : str or sequence of str
        The key; where one of its columns is null, the record refers to nothing and is unknown.
    table : str
        The other table or view.
    reference_columns : str or sequence of str, optional
        Its key, in the same order; the same names if not given.
    name, severity, stage, where, message, description, tags
        As for `DQMRule`.
    on_null : str
        As for `DQMRule`, but ``unknown`` by default: a record that refers to nothing is kept.

    Examples
    --------
    >>> ForeignKeyRule("customer", "warehouse.customers", "id").name
    'ForeignKeyRule(customer, warehouse.customers.id)'
    """

    def __init__(
        self,
        columns: str | Sequence[str],
        table: str,
        reference_columns: str | Sequence[str] | None = None,
        name: str | None = None,
        **options: Any,
    ) -> None:
        own = _key_columns("columns", columns, self)
        others = (
            own
            if reference_columns is None
            else _key_columns("reference_columns", reference_columns, self)
        )
        if len(own) != len(others):
            msg = f"{type(self).__name__}: {len(own)} columns and {len(others)} to compare with"
            raise RuleError(msg)
        if not isinstance(table, str) or not table.strip():  # type: ignore[redundant-expr]  # users err
            msg = f"{type(self).__name__}: table names another table or view, not {table!r}"
            raise RuleError(msg)
        lookup = KeyLookup(
            tuple(map(column_sql, own)), table.strip(), tuple(map(column_sql, others))
        )
        told = f"{', '.join(own)}, {table.strip()}.{', '.join(others)}"
        self._reason = f"not in {table.strip()}: {', '.join(own)}"
        super().__init__(
            own[0],
            [lookup],
            name,
            f"{type(self).__name__}({told})",
            {"on_null": "unknown"} | options,
        )

    @property
    def reason(self) -> str:
        """The message; without one, that the other table lacks the key."""
        return self.message or self._reason


class UniqueRule(_ColumnRule):
    """Uniqueness rule: no other record has the same key; all records that share one break it.

    Records are compared within their partition where partitions are counted as they come, else within
    the whole frame.

    Parameters
    ----------
    columns : str or sequence of str
        The key; where one of its columns is null, the record is unknown.
    where : str, optional
        Spark SQL: only these records are compared with each other.
    name, severity, stage, message, description, tags
        As for `DQMRule`.
    on_null : str
        As for `DQMRule`, but ``unknown`` by default: a record without a key is kept.

    Examples
    --------
    >>> UniqueRule(["order_id", "line"]).name
    'UniqueRule(order_id, line)'
    """

    def __init__(
        self,
        columns: str | Sequence[str],
        name: str | None = None,
        *,
        where: str | None = None,
        **options: Any,
    ) -> None:
        own = _key_columns("columns", columns, self)
        if where is not None and not isinstance(where, str):
            msg = f"{type(self).__name__}: where is Spark SQL, not {where!r}"
            raise RuleError(msg)
        among = None if where is None else Expression.from_input(where, type(self).__name__).text
        key = UniqueKey(tuple(map(column_sql, own)), among)
        told = f"{type(self).__name__}({', '.join(own)})"
        self._reason = f"not unique: {', '.join(own)}"
        super().__init__(
            own[0], [key], name, told, {"on_null": "unknown", "where": where} | options
        )

    @property
    def reason(self) -> str:
        """The message; without one, that another record has the key."""
        return self.message or self._reason


def _key_columns(what: str, given: Any, owner: DQMTask) -> list[str]:
    found = (
        [given] if isinstance(given, str) else list(given) if isinstance(given, Sequence) else []
    )
    if not found or not all(isinstance(column, str) and column.strip() for column in found):
        msg = f"{type(owner).__name__}: {what} names a column, or several, not {given!r}"
        raise RuleError(msg)
    return found


class _ColumnFix(DQMFix):
    """Fix with a condition on its own column and a constant replacement."""

    def __init__(
        self, column: str, pieces: Sequence[Any], default: Any, name: str | None, told: str
    ) -> None:
        value = Expression((default if is_column(default) else value_sql(default),))
        self._set(
            column,
            name or told,
            lambda: [Arm("", Expression.from_column_pieces(column, pieces), value)],
        )


class BoundFix(DQMFix):
    """Clamp values to two bounds, or replace values outside of them by a default.

    Values below and above are counted separately, as ``<name>.low`` and ``<name>.high``. Null stays
    null.

    Parameters
    ----------
    column : str
    lower, upper : number, date or time
        None for no bound on that side.
    default : optional
        Replacement of every value outside; default: the nearer bound.
    closed : str
        The bounds that are themselves allowed, if a default is given. Without a default, a value
        that equals a bound is kept, and so is NaN, which counts as neither low nor high.
    name : str, optional

    Examples
    --------
    >>> fix = BoundFix("age", 1, 150)
    >>> [(arm.label, arm.condition.text, arm.value.text) for arm in fix.arms]
    [('low', '`age` < 1', '1'), ('high', '`age` > 150 AND NOT isnan(`age`)', '150')]
    """

    def __init__(
        self,
        column: str,
        lower: Any,
        upper: Any,
        default: Any = None,
        closed: str = "left",
        name: str | None = None,
    ) -> None:
        in_range(self, lower, upper, closed)
        if default is not None:
            check_range_not_empty(self, lower, upper, closed)
        told = f"BoundFix({column}, {display(lower)}, {display(upper)})"
        self._set(
            column, name or told, lambda: list(_clamps(column, lower, upper, default, closed))
        )


class SetFix(_ColumnFix):
    """Replace values outside a set by a default. Null is neither in nor out, and stays.

    Examples
    --------
    >>> print(SetFix("gender", ["M", "F"], "O").arms[0].condition.text)
    NOT (`gender` IN ('M', 'F'))
    """

    def __init__(
        self, column: str, values: Sequence[Any], default: Any, name: str | None = None
    ) -> None:
        values = checked_values(self, values)
        told = f"SetFix({shown_text(column)}, {', '.join(map(display, values))})"
        super().__init__(column, ["NOT (", *is_among(values), ")"], default, name, told)


class FormatFix(_ColumnFix):
    """Replace text that does not match a regular expression by a default. Null stays.

    The pattern must match the whole text, unless ``whole=False``.

    Examples
    --------
    >>> FormatFix("zip", "[0-9]{5}", "00000").name
    'FormatFix(zip, [0-9]{5})'
    """

    def __init__(
        self,
        column: str,
        pattern: str,
        default: Any,
        name: str | None = None,
        *,
        whole: bool = True,
    ) -> None:
        told = format_name(self, column, pattern, whole)
        pieces = ["NOT (", *matches(self, pattern, whole), ")"]
        super().__init__(column, pieces, default, name, told)


class NotNullFix(_ColumnFix):
    """Replace null by a default.

    Examples
    --------
    >>> NotNullFix("delay", 0).name
    'NotNullFix(delay)'
    """

    def __init__(self, column: str, default: Any, name: str | None = None) -> None:
        super().__init__(
            column,
            [COLUMN_PLACEHOLDER, " IS NULL"],
            default,
            name,
            f"NotNullFix({shown_text(column)})",
        )


def _clamps(column: str, lower: Any, upper: Any, default: Any, closed: str) -> Iterator[Arm]:
    """Yield the arms of a `BoundFix`."""
    above, below = CLOSED[closed]
    for label, bound, mark, inside in (("low", lower, "<", above), ("high", upper, ">", below)):
        if bound is None:
            continue
        sql = value_sql(bound)
        if default is not None:
            pieces, value = ["NOT (", COLUMN_PLACEHOLDER, f" {inside} {sql})"], value_sql(default)
        elif isinstance(bound, int | float | Decimal) and label == "high":
            pieces, value = (
                [COLUMN_PLACEHOLDER, f" > {sql} AND NOT isnan(", COLUMN_PLACEHOLDER, ")"],
                sql,
            )
        else:
            pieces, value = [COLUMN_PLACEHOLDER, f" {mark} {sql}"], sql
        yield Arm(label, Expression.from_column_pieces(column, pieces), Expression((value,)))
