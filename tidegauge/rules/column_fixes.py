"""Built-in fixes: clamp to a range, and replace what is not in a set, has another format or is null."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

from tidegauge.rules.column_rules import (
    CLOSED,
    check_range_not_empty,
    checked_values,
    display,
    format_name,
    in_range,
    is_among,
    matches,
)
from tidegauge.rules.tasks import (
    COLUMN_PLACEHOLDER,
    Arm,
    DQMFix,
    Expression,
    is_column,
    shown_text,
    value_sql,
)


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
