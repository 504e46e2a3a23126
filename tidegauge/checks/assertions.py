"""Assertions on metric values, their wording, and the base class of the check methods that take them."""

from __future__ import annotations

import linecache
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from math import inf, isfinite, isnan
from numbers import Real
from types import CodeType
from typing import Any, Self

from tidegauge.analyzers.core.analyzer import AnyAnalyzer
from tidegauge.analyzers.core.errors import IllegalAnalyzerParameterError, SuiteError
from tidegauge.analyzers.core.evidence import as_verdict
from tidegauge.analyzers.core.formatting import DURATION, duration_text, measured
from tidegauge.analyzers.core.metric import Scale
from tidegauge.analyzers.core.registry import Description, Registry, check_choice

MAX_SOURCE_LENGTH = 60
"""Limit on the characters of a lambda's source that is shown instead of a name, so that it fits on a line."""
_MAX_EXACT_INTEGER = 2**53
CLOSED_SIDES = ("both", "lower", "upper", "neither")


class Assertion(ABC):
    """An assertion on a value."""

    @abstractmethod
    def holds(self, value: Any) -> bool:
        """Return whether a value satisfies the assertion."""

    @abstractmethod
    def __str__(self) -> str:
        """Return the assertion as the end of a sentence."""


ASSERTION_REGISTRY: Registry[Between] = Registry("assertion")


@dataclass(frozen=True, repr=False)
class Between(Description, Assertion):
    """Assert that a number is within bounds. NaN never is.

    It converts to a string and JSON, as analyzers do.

    Parameters
    ----------
    lower, upper : float, optional
        The bounds; None for no bound.
    closed : str
        Inclusive bounds: ``both``, ``lower``, ``upper`` or ``neither``.

    Raises
    ------
    IllegalAnalyzerParameterError
        If no number is within the bounds.

    Examples
    --------
    >>> import tidegauge as tg
    >>> str(tg.Between(0.99)), str(tg.Between(upper=5, closed="neither")), tg.Between(1, 3).holds(3)
    ('at least 0.99', 'less than 5', True)
    """

    lower: float | None = None
    upper: float | None = None
    closed: str = "both"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self, "closed", CLOSED_SIDES)
        low, high = self._bounds()
        if not (low < high or (low == high and self.closed == "both")):  # also rejects NaN
            msg = f"{self!r}: the range is empty; the lower bound comes first"
            raise IllegalAnalyzerParameterError(msg)

    def _bounds(self) -> tuple[float, float]:
        return (
            -inf if self.lower is None else self.lower,
            inf if self.upper is None else self.upper,
        )

    def holds(self, value: Any) -> bool:
        """Compare a number with the bounds.

        Raises
        ------
        TypeError
            If the value is not a number.
        """
        try:
            number = float(value)
        except TypeError as error:
            msg = f"a {type(value).__name__} is not a number; use a function of the value as the assertion"
            raise TypeError(msg) from error
        low, high = self._bounds()
        above = number >= low if self.lower is None or self.has_lower else number > low
        below = number <= high if self.upper is None or self.has_upper else number < high
        return above and below

    @property
    def has_lower(self) -> bool:
        """True if the lower bound is inclusive."""
        return self.closed in {"both", "lower"}

    @property
    def has_upper(self) -> bool:
        """True if the upper bound is inclusive."""
        return self.closed in {"both", "upper"}

    def __str__(self) -> str:
        return self.in_words(format_number)

    def in_words(self, written: Callable[[float], str]) -> str:
        """Return the bounds in words, with numbers formatted by a function."""
        if self.lower is None and self.upper is None:
            return "any number"
        if self.lower is not None and self.lower == self.upper:
            return f"exactly {written(self.lower)}"
        words = []
        if self.lower is not None:
            words.append(f"{'at least' if self.has_lower else 'more than'} {written(self.lower)}")
        if self.upper is not None:
            words.append(f"{'at most' if self.has_upper else 'less than'} {written(self.upper)}")
        return " and ".join(words)


ASSERTION_REGISTRY.add(Between)


@dataclass(frozen=True)
class FunctionAssertion(Assertion):
    """An assertion by a Python function of the value.

    Attributes
    ----------
    function : callable
        Takes the metric's value and returns whether it satisfies the assertion.
    """

    function: Callable[[Any], Any]

    def holds(self, value: Any) -> bool:
        """Call the function, which returns True or False."""
        return as_verdict(self.function(value))

    def __str__(self) -> str:
        code = getattr(self.function, "__code__", None)
        name = getattr(self.function, "__qualname__", None) or repr(self.function)
        if not isinstance(code, CodeType) or code.co_name != "<lambda>":
            return str(name)
        return _expression(code) or "a function"


Bound = float | Decimal | None
AssertionLike = Assertion | Callable[[Any], Any] | float | Decimal | tuple[Bound, Bound]
"""Types accepted as an assertion: a function of the value, a minimum, a pair of bounds (both
inclusive, None for open), or a `Between`."""


def as_assertion(assertion: AssertionLike) -> Assertion:
    """Convert a value of `AssertionLike` to an assertion.

    Raises
    ------
    SuiteError
        If the value has another type.

    Examples
    --------
    >>> print(as_assertion(0.99), as_assertion((None, 5)), as_assertion(lambda n: n > 600), sep="; ")
    at least 0.99; at most 5; n > 600
    """
    if isinstance(assertion, Assertion):
        return assertion
    if isinstance(assertion, Real | Decimal) and not isinstance(assertion, bool):
        return Between(float(assertion))
    if isinstance(assertion, tuple | list) and len(assertion) == 2:
        return Between(*assertion)  # type: ignore[arg-type]  # a description types its options
    if callable(assertion):
        return FunctionAssertion(assertion)
    msg = (
        "an assertion is a function of the value, a minimum, a pair of bounds such as (0, None)"
        f" or tg.Between(...), not {assertion!r}"
    )
    raise SuiteError(msg)


def format_number(value: Any, digits: int = 12) -> str:
    """Format a number for a message; whole numbers with all their digits.

    Examples
    --------
    >>> format_number(3.0), format_number(0.9999996), format_number(2 / 3, 4), format_number(float("nan"))
    ('3', '0.9999996', '0.6667', 'NaN')
    """
    if not isinstance(value, Real):
        return f"a {type(value).__name__}"
    number = float(value)
    if isnan(number):
        return "NaN"
    return (
        f"{number:.0f}"
        if number.is_integer() and abs(number) < _MAX_EXACT_INTEGER
        else f"{number:.{digits}g}"
    )


def violation_message(
    value: Any,
    assertion: Assertion,
    sentence: Callable[[str], str] = str,
    scale: str = Scale.SIGNED,
) -> str:
    """Return the message for a violating value, with few digits, and the assertion.

    Parameters
    ----------
    value : Any
        The value.
    assertion : Assertion
        The violated assertion.
    sentence : callable
        Returns the sentence with a formatted value.
    scale : str
        Scale as from `written_scale`. Ratios are formatted as percentages, times as dates and durations in
        units, unless the assertion is a function.

    Examples
    --------
    >>> violation_message(0.49247311828, Between(0.95), "email is {} complete".format, Scale.RATIO)
    'email is 49.2% complete, at least 95% required'
    >>> violation_message(0.9999996, Between(1), scale=Scale.RATIO), violation_message(7, Between(1000))
    ('99.99996%, at least 100% required', '7, at least 1,000 required')
    >>> violation_message(7500.2, Between(None, 3600), scale="duration")
    '2 h 5 min, at most 1 h required'
    >>> violation_message(3600.2, Between(None, 3600), scale="duration")
    '1 h 0.2 s, at most 1 h required'
    """
    if not isinstance(assertion, Between) or not isinstance(value, Real):
        return f"{sentence(format_number(value))}, which does not satisfy {assertion}"
    written = partial(number_text, scale=scale)
    rounded = (
        float(format_number(value, digits)) for digits in _MESSAGE_DIGITS.get(scale, (4, 6, 8, 10))
    )
    if scale == DURATION:
        age = float(value)
        rounded = (
            round(age / size) * size for min_age, size in _ROUNDED_TO if min_age <= abs(age) < inf
        )
    rounded_value = next(
        (number for number in rounded if not assertion.holds(number)), float(value)
    )
    return f"{sentence(written(rounded_value))}, {assertion.in_words(written)} required"


_ROUNDED_TO = ((86_400, 3600), (3600, 60), (1, 1))
"""Durations in seconds from which on a rounding applies, and the rounding; each is tried."""
_MESSAGE_DIGITS: dict[str, tuple[int, ...]] = {Scale.RATIO: (3, 4, 6, 8, 10), Scale.TIME: ()}
"""Numbers of digits to try until the rounded value still violates its bounds; other scales begin with four."""


def number_text(number: float, scale: str, digits: int = 12) -> str:
    """Format a metric's value for a message: a ratio as a percentage, a time in UTC, a duration in units.

    Unlike `measured`, which is only for display, the result has all digits, so that it can be compared with bounds.

    Examples
    --------
    >>> number_text(0.9999996, Scale.RATIO), number_text(1_000_000, Scale.COUNT), number_text(2.5, Scale.SIGNED)
    ('99.99996%', '1,000,000', '2.5')
    """
    number = float(number)
    if scale == DURATION:
        return duration_text(number, None)
    if scale == Scale.TIME:
        return f"{measured(number, scale)} UTC"
    if not isfinite(number):
        return format_number(number)
    if scale == Scale.RATIO:
        return f"{format_number(100 * float(format_number(number, digits)))}%"
    if number.is_integer() and abs(number) < _MAX_EXACT_INTEGER:
        return f"{number:,.0f}"
    return format_number(number, digits)


def _expression(code: CodeType) -> str:
    """Return the source of a lambda's body, if it is available and short."""
    starts, ends = [], []
    for line, end_line, column, end in code.co_positions():
        if line and end_line and column is not None and end:  # the first has no position
            starts.append((line, column))
            ends.append((end_line, end))
    if not starts or min(starts)[0] != max(ends)[0]:
        return ""
    (line, start), (_, stop) = min(starts), max(ends)
    source = linecache.getline(code.co_filename, line).encode()
    body = source[start:stop].decode(errors="replace").strip()
    return body if len(body) <= MAX_SOURCE_LENGTH else ""


Columns = str | Sequence[str]


class ConstraintBuilder(ABC):
    """Base of classes to which constraints are added."""

    @abstractmethod
    def has(
        self,
        analyzer: AnyAnalyzer | str,
        assertion: AssertionLike,
        *,
        hint: str = "",
        part: Any = None,
    ) -> Self:
        """Assert on any metric."""

    @abstractmethod
    def read(self, analyzer: AnyAnalyzer | str) -> AnyAnalyzer:
        """Return an analyzer, parsing a string."""

    @abstractmethod
    def with_constraint(self, constraint: Any) -> Self:
        """Return a copy with one more constraint."""


def share(at_least: float) -> Between:
    """Return the assertion that a share is at least ``at_least``, between 0 and 1."""
    bounds = Between(at_least)
    if bounds.lower is None or not 0 <= bounds.lower <= 1:
        msg = f"at_least must be a share between 0 and 1, not {at_least!r}"
        raise SuiteError(msg)
    return bounds


def listed(columns: Columns) -> tuple[str, ...]:
    """Return columns as a tuple; raise SuiteError if it is empty."""
    names = (columns,) if isinstance(columns, str) else tuple(columns)
    if not names:
        msg = "at least one column must be named"
        raise SuiteError(msg)
    return names
