"""Built-in rules and fixes of columns.

The rules test ranges, sets, formats, completeness, references and uniqueness. `BoundRule`, `SetRule`,
`FormatRule` and `NotNullRule` reject invalid values; the fixes of the same names clamp or replace them. The
functions at the start write conditions on one column as pieces of SQL, for rules and fixes.
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


RANGE_OPERATORS = {
    "left": (">=", "<"),
    "right": (">", "<="),
    "both": (">=", "<="),
    "neither": (">", "<"),
}


def in_range(task: DQMTask, lower: Any, upper: Any, closed: str) -> list[Any]:
    """Return the SQL pieces of a range condition on a column."""
    kind = type(task).__name__
    if closed not in RANGE_OPERATORS:
        msg = (
            f"{kind}: closed must be one of {', '.join(map(repr, RANGE_OPERATORS))}, not {closed!r}"
        )
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
    above, below = RANGE_OPERATORS[closed]
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
        msg = f"{kind}: the range from {lower!r} to {upper!r} is empty; to allow this value, pass closed='both'"
        raise RuleError(msg)


def checked_values(task: DQMTask, values: Iterable[Any]) -> list[Any]:
    """Return the values of a set as a list, which must not be empty."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        msg = f"{type(task).__name__}: values must be a list such as ['M', 'F'], not {values!r}"
        raise RuleError(msg)
    items = list(values)
    if not items:
        msg = f"{type(task).__name__}: values must have at least one value"
        raise RuleError(msg)
    return items


def is_among(values: Sequence[Any]) -> list[Any]:
    """Return the SQL pieces of a set membership condition on a column."""
    literals = [value_sql(value) for value in values if value is not None]
    pieces: list[Any] = [COLUMN_PLACEHOLDER, f" IN ({', '.join(literals)})"] if literals else []
    if len(literals) < len(values):
        pieces = [COLUMN_PLACEHOLDER, " IS NULL", *([" OR "] if literals else []), *pieces]
    return pieces


def format_name(task: DQMTask, column: Any, pattern: str, whole: bool) -> str:  # noqa: FBT001
    """Return the default name of a rule or fix of a pattern."""
    suffix = "" if whole is True else f", whole={whole}"
    return f"{type(task).__name__}({shown_text(column)}, {pattern}{suffix})"


def matches(task: DQMTask, pattern: str, whole: bool) -> list[Any]:  # noqa: FBT001
    """Return the SQL pieces of a match of a string with a pattern, in full or anywhere."""
    if not isinstance(pattern, str):
        msg = f"{type(task).__name__}: the pattern must be a regular expression as a string, not {pattern!r}"
        raise RuleError(msg)
    if problem := pattern_problem(pattern):
        msg = f"{type(task).__name__}: invalid regular expression {pattern!r}: {problem}"
        raise RuleError(msg)
    if not isinstance(whole, bool):
        msg = f"{type(task).__name__}: whole must be True or False, not {whole!r}"
        raise RuleError(msg)
    anchored = rf"\A(?:{pattern})\z" if whole else pattern
    return [COLUMN_PLACEHOLDER, f" RLIKE {literal(anchored)}"]


def display(value: Any) -> str:
    """Return a value as it appears in default names."""
    return value if isinstance(value, str) else shown_text(value)


class _ColumnRule(DQMRule):
    """Rule about one column, composed of SQL pieces."""

    def __init__(
        self,
        column: str | Column,
        pieces: Sequence[Any],
        name: str | None,
        default_name: str,
        options: dict[str, Any],
    ) -> None:
        defaults = {
            "on_null": "fail",
            "severity": "error",
            "stage": "before",
            "where": None,
            "message": "",
            "description": "",
            "tags": (),
        }
        for option in options.keys() - defaults.keys():
            kind = f"option of {type(self).__name__}"
            raise UnknownNameError(kind, option, defaults)
        options = defaults | options
        where = options["where"]
        if name is None and where is not None:
            default_name = f"{default_name} where {Expression.from_input(where, type(self).__name__).display_text}"
        self._set(Expression.from_column_pieces(column, pieces), name or default_name, **options)


class BoundRule(_ColumnRule):
    """Range rule: the column is between two bounds.

    Strings are converted to compare them with numbers, dates and times: '5.9' is above 5, and a string that
    is not a number breaks the rule.

    Parameters
    ----------
    column : str or Column
        The column.
    lower, upper : number, date, time or str
        The bounds; None for no bound on that side.
    closed : str
        The bounds that are allowed values: ``left`` (the lower bound), ``right``, ``both`` or
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
        suffix = "" if closed == "left" else f", closed={closed}"
        super().__init__(column, inside, name, f"{type(self).__name__}({sides}{suffix})", options)


class SetRule(_ColumnRule):
    """Set membership rule: the column has one of the given values.

    Parameters
    ----------
    column : str or Column
        The column.
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
        default_name = f"SetRule({shown_text(column)}, {', '.join(map(display, values))})"
        super().__init__(column, is_among(values), name, default_name, options)


class FormatRule(_ColumnRule):
    r"""Format rule: a string column matches a Java regular expression, by default in full.

    `Check.has_pattern` matches anywhere by default, as Deequ does; both take ``whole``.

    Parameters
    ----------
    column : str or Column
        The column.
    pattern : str
        The regular expression.
    whole : bool
        Whether the pattern must match the whole string; otherwise a match anywhere suffices.
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
        default_name = format_name(self, column, pattern, whole)
        super().__init__(column, matches(self, pattern, whole), name, default_name, options)


class NotNullRule(_ColumnRule):
    """Completeness rule: the column is not null; NaN is not null.

    Examples
    --------
    >>> NotNullRule("email").name
    'NotNullRule(email)'
    """

    def __init__(self, column: str | Column, name: str | None = None, **options: Any) -> None:
        default_name = f"NotNullRule({shown_text(column)})"
        super().__init__(column, [COLUMN_PLACEHOLDER, " IS NOT NULL"], name, default_name, options)


class ForeignKeyRule(_ColumnRule):
    """Reference rule: the key of a record is in another table.

    The key is looked up by a join with the other table's distinct keys, so no record is duplicated. In runs
    that count only new partitions, a change of the other table causes all partitions to be counted again.

    Parameters
    ----------
    columns : str or sequence of str
        The key; if one of its columns is null, the record has no reference and is unknown.
    table : str
        The other table or view.
    reference_columns : str or sequence of str, optional
        Key columns of the other table, in the same order (default: the same names).
    name, severity, stage, where, message, description, tags
        As for `DQMRule`.
    on_null : str
        As for `DQMRule`, but ``unknown`` by default: a record without reference is kept.

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
        key = _key_columns("columns", columns, self)
        reference_key = (
            key
            if reference_columns is None
            else _key_columns("reference_columns", reference_columns, self)
        )
        if len(key) != len(reference_key):
            msg = f"{type(self).__name__}: {len(key)} columns cannot be compared with {len(reference_key)} reference columns"
            raise RuleError(msg)
        if not isinstance(table, str) or not table.strip():  # type: ignore[redundant-expr]  # users err
            msg = f"{type(self).__name__}: table must be the name of another table or view, not {table!r}"
            raise RuleError(msg)
        lookup = KeyLookup(
            tuple(map(column_sql, key)), table.strip(), tuple(map(column_sql, reference_key))
        )
        arguments = f"{', '.join(key)}, {table.strip()}.{', '.join(reference_key)}"
        self._reason = f"not in {table.strip()}: {', '.join(key)}"
        super().__init__(
            key[0],
            [lookup],
            name,
            f"{type(self).__name__}({arguments})",
            {"on_null": "unknown"} | options,
        )

    @property
    def reason(self) -> str:
        """The message, by default that the other table lacks the key."""
        return self.message or self._reason


class UniqueRule(_ColumnRule):
    """Uniqueness rule: no other record has the same key; all records with a shared key break the rule.

    Records are compared within their partition if new partitions are counted one after another, and otherwise
    within the whole frame.

    Parameters
    ----------
    columns : str or sequence of str
        The key; if one of its columns is null, the record is unknown.
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
        key_columns = _key_columns("columns", columns, self)
        if where is not None and not isinstance(where, str):
            msg = f"{type(self).__name__}: where must be Spark SQL as a string, not {where!r}"
            raise RuleError(msg)
        condition = (
            None if where is None else Expression.from_input(where, type(self).__name__).text
        )
        key = UniqueKey(tuple(map(column_sql, key_columns)), condition)
        default_name = f"{type(self).__name__}({', '.join(key_columns)})"
        self._reason = f"not unique: {', '.join(key_columns)}"
        super().__init__(
            key_columns[0],
            [key],
            name,
            default_name,
            {"on_null": "unknown", "where": where} | options,
        )

    @property
    def reason(self) -> str:
        """The message, by default that another record has the key."""
        return self.message or self._reason


def _key_columns(option: str, columns: Any, owner: DQMTask) -> list[str]:
    names = (
        [columns]
        if isinstance(columns, str)
        else list(columns)
        if isinstance(columns, Sequence)
        else []
    )
    if not names or not all(isinstance(column, str) and column.strip() for column in names):
        msg = f"{type(owner).__name__}: {option} must be one or several names of columns, not {columns!r}"
        raise RuleError(msg)
    return names


class _ColumnFix(DQMFix):
    """Fix with a condition on its own column and a constant replacement."""

    def __init__(
        self, column: str, pieces: Sequence[Any], default: Any, name: str | None, default_name: str
    ) -> None:
        value = Expression((default if is_column(default) else value_sql(default),))
        self._set(
            column,
            name or default_name,
            lambda: [Arm("", Expression.from_column_pieces(column, pieces), value)],
        )


class BoundFix(DQMFix):
    """Clamp values to two bounds, or replace values outside the bounds by a default.

    Values below and above are counted separately, as ``<name>.low`` and ``<name>.high``. Null stays
    null.

    Parameters
    ----------
    column : str
        The column to repair.
    lower, upper : number, date or time
        The bounds; None for no bound on that side.
    default : optional
        Replacement of every value outside the bounds (default: the nearer bound).
    closed : str
        The bounds that are allowed values, if a default is given. Without a default, a value
        that equals a bound is kept, and so is NaN, which counts as neither low nor high.
    name : str, optional
        Name of the counts.

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
        default_name = f"BoundFix({column}, {display(lower)}, {display(upper)})"
        self._set(
            column,
            name or default_name,
            lambda: list(_clamps(column, lower, upper, default, closed)),
        )


class SetFix(_ColumnFix):
    """Replace values outside a set by a default. Null is kept.

    Examples
    --------
    >>> print(SetFix("gender", ["M", "F"], "O").arms[0].condition.text)
    NOT (`gender` IN ('M', 'F'))
    """

    def __init__(
        self, column: str, values: Sequence[Any], default: Any, name: str | None = None
    ) -> None:
        values = checked_values(self, values)
        default_name = f"SetFix({shown_text(column)}, {', '.join(map(display, values))})"
        super().__init__(column, ["NOT (", *is_among(values), ")"], default, name, default_name)


class FormatFix(_ColumnFix):
    """Replace strings that do not match a regular expression by a default. Null is kept.

    The pattern must match the whole string, unless ``whole=False``.

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
        default_name = format_name(self, column, pattern, whole)
        pieces = ["NOT (", *matches(self, pattern, whole), ")"]
        super().__init__(column, pieces, default, name, default_name)


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
    lower_operator, upper_operator = RANGE_OPERATORS[closed]
    for label, bound, mark, inside in (
        ("low", lower, "<", lower_operator),
        ("high", upper, ">", upper_operator),
    ):
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
