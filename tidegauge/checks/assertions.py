"""Assertions on metric values with their texts, and the base class of the check methods that take them."""

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

LONGEST_SOURCE = 60
"""Maximum characters of a lambda's source that is shown in place of its name."""
_WHOLE = 2**53
CLOSED = ("both", "lower", "upper", "neither")


class Assertion(ABC):
    """An assertion on a value."""

    @abstractmethod
    def holds(self, value: Any) -> bool:
        """Return whether a value satisfies the assertion."""

    @abstractmethod
    def __str__(self) -> str:
        """Return the assertion as the end of a sentence."""


ASSERTIONS: Registry[Between] = Registry("assertion")


@dataclass(frozen=True, repr=False)
class Between(Description, Assertion):
    """Assert that a number lies within bounds. NaN never does.

    It converts to text and JSON, as analyzers do.

    Parameters
    ----------
    lower, upper : float, optional
        The bounds; open if not given.
    closed : str
        Inclusive bounds: ``both``, ``lower``, ``upper`` or ``neither``.

    Raises
    ------
    IllegalAnalyzerParameterError
        If no number lies within the bounds.

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
        check_choice(self, "closed", CLOSED)
        low, high = self._bounds()
        if not (low < high or (low == high and self.closed == "both")):  # rejects NaN, too
            msg = f"{self!r}: nothing lies within; the lower bound comes first"
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
            If it is no number.
        """
        try:
            number = float(value)
        except TypeError as error:
            msg = f"a {type(value).__name__} is no number; assert by a function of it"
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
        """Return the bounds in words, with numbers written in some way."""
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


ASSERTIONS.add(Between)


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
        """Call the function, which answers True or False."""
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


def as_assertion(wanted: AssertionLike) -> Assertion:
    """Convert a value of `AssertionLike` to an assertion.

    Raises
    ------
    SuiteError
        If it is not one of `AssertionLike`.

    Examples
    --------
    >>> print(as_assertion(0.99), as_assertion((None, 5)), as_assertion(lambda n: n > 600), sep="; ")
    at least 0.99; at most 5; n > 600
    """
    if isinstance(wanted, Assertion):
        return wanted
    if isinstance(wanted, Real | Decimal) and not isinstance(wanted, bool):
        return Between(float(wanted))
    if isinstance(wanted, tuple | list) and len(wanted) == 2:
        return Between(*wanted)  # type: ignore[arg-type]  # a description types its options
    if callable(wanted):
        return FunctionAssertion(wanted)
    msg = (
        "an assertion is a function of the value, its least value, a pair of bounds such as (0, None)"
        f" or tg.Between(...), not {wanted!r}"
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
        f"{number:.0f}" if number.is_integer() and abs(number) < _WHOLE else f"{number:.{digits}g}"
    )


def violation_message(
    value: Any,
    assertion: Assertion,
    sentence: Callable[[str], str] = str,
    scale: str = Scale.SIGNED,
) -> str:
    """Return the message for a violating value: the value, with few digits, and what is needed.

    Parameters
    ----------
    value : Any
    assertion : Assertion
    sentence : callable
        Takes the value as text, and returns the sentence that it is part of.
    scale : str
        As `written_scale` gives it. Ratios are written as percentages, times as dates and lengths of time
        in units, unless a function judges the number.

    Examples
    --------
    >>> violation_message(0.49247311828, Between(0.95), "email is {} complete".format, Scale.RATIO)
    'email is 49.2 % complete, at least 95 % needed'
    >>> violation_message(0.9999996, Between(1), scale=Scale.RATIO), violation_message(7, Between(1000))
    ('99.99996 %, at least 100 % needed', '7, at least 1,000 needed')
    >>> violation_message(7500.2, Between(None, 3600), scale="duration")
    '2 h 5 min, at most 1 h needed'
    >>> violation_message(3600.2, Between(None, 3600), scale="duration")
    '1 h 0.2 s, at most 1 h needed'
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
            round(age / size) * size for least, size in _ROUNDED_TO if least <= abs(age) < inf
        )
    shown = next((number for number in rounded if not assertion.holds(number)), float(value))
    return f"{sentence(written(shown))}, {assertion.in_words(written)} needed"


_ROUNDED_TO = ((86_400, 3600), (3600, 60), (1, 1))
"""Lengths of time, and what those from there on are rounded to, which is tried likewise."""
_MESSAGE_DIGITS: dict[str, tuple[int, ...]] = {Scale.RATIO: (3, 4, 6, 8, 10), Scale.TIME: ()}
"""Digits of a value that are tried until they show that it violates its bounds; others begin with four."""


def number_text(number: float, scale: str, digits: int = 12) -> str:
    """Format a metric's value for a message: a ratio as a percentage, a time in UTC, a length in units.

    Unlike `measured`, which is for reading alone, all digits are told: bounds are compared with them.

    Examples
    --------
    >>> number_text(0.9999996, Scale.RATIO), number_text(1_000_000, Scale.COUNT), number_text(2.5, Scale.SIGNED)
    ('99.99996 %', '1,000,000', '2.5')
    """
    number = float(number)
    if scale == DURATION:
        return duration_text(number, None)
    if scale == Scale.TIME:
        return f"{measured(number, scale)} UTC"
    if not isfinite(number):
        return format_number(number)
    if scale == Scale.RATIO:
        return f"{format_number(100 * float(format_number(number, digits)))} %"
    if number.is_integer() and abs(number) < _WHOLE:
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
    (line, first), (_, last) = min(starts), max(ends)
    source = linecache.getline(code.co_filename, line).encode()
    text = source[first:last].decode(errors="replace").strip()
    return text if len(text) <= LONGEST_SOURCE else ""


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
        """Return an analyzer, parsed if it is given as text."""

    @abstractmethod
    def with_constraint(self, constraint: Any) -> Self:
        """Return a copy with one more constraint."""


def share(at_least: float) -> Between:
    """Return the assertion that a share is at least ``at_least``, between 0 and 1."""
    wanted = Between(at_least)
    if wanted.lower is None or not 0 <= wanted.lower <= 1:
        msg = f"at_least is a share between 0 and 1, not {at_least!r}"
        raise SuiteError(msg)
    return wanted


def listed(columns: Columns) -> tuple[str, ...]:
    """Return columns as a tuple; raise SuiteError if there are none."""
    found = (columns,) if isinstance(columns, str) else tuple(columns)
    if not found:
        msg = "at least one column must be named"
        raise SuiteError(msg)
    return found
