"""Conditions on one column, as pieces of SQL that the built-in rules and fixes share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tidegauge.analyzers.core.errors import RuleError
from tidegauge.analyzers.core.sql import literal
from tidegauge.analyzers.measures.texts import pattern_problem
from tidegauge.rules.expressions import COLUMN_PLACEHOLDER, shown_text, value_sql

if TYPE_CHECKING:
    from tidegauge.rules.tasks import DQMTask


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
