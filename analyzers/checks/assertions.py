"""Assertions: what a value is wanted to be, and how that reads."""

from __future__ import annotations

import linecache
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from math import inf, isnan
from numbers import Real
from types import CodeType
from typing import Any

from analyzers.description import Description, Registry, one_of_these
from analyzers.errors import IllegalAnalyzerParameterError, SuiteError

LONGEST_SOURCE = 60
"""Characters of a function's expression that is shown in place of its name."""
_WHOLE = 2**53
CLOSED = ("both", "lower", "upper", "neither")


class Assertion(ABC):
    """What a value is wanted to be."""

    @abstractmethod
    def holds(self, value: Any) -> bool:
        """Whether a value is as wanted."""

    @abstractmethod
    def __str__(self) -> str:
        """Return what is wanted, as the end of a sentence."""

    @abstractmethod
    def refused(self) -> str:
        """Return what stands between a value that is not as wanted and what was wanted."""


ASSERTIONS: Registry[Between] = Registry("assertion")


@dataclass(frozen=True, repr=False)
class Between(Description, Assertion):
    """A number within bounds. It is text and JSON, as analyzers are. NaN is never within.

    Parameters
    ----------
    lower, upper : float, optional
        The bounds; open if not given.
    closed : str
        Which bounds belong to it: ``both``, ``lower``, ``upper`` or ``neither``.

    Raises
    ------
    IllegalAnalyzerParameterError
        If nothing lies within.

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
        one_of_these(self, "closed", CLOSED)
        low, high = self._bounds()
        if not (low < high or (low == high and self.closed == "both")):  # NaN is refused, too
            msg = f"{self!r}: nothing lies within; the lower bound comes first"
            raise IllegalAnalyzerParameterError(msg)

    def _bounds(self) -> tuple[float, float]:
        return (
            -inf if self.lower is None else self.lower,
            inf if self.upper is None else self.upper,
        )

    def holds(self, value: Any) -> bool:
        """Compare a number with the bounds."""
        number, (low, high) = float(value), self._bounds()
        above = number >= low if self.lower is None or self.has_lower else number > low
        below = number <= high if self.upper is None or self.has_upper else number < high
        return above and below

    @property
    def has_lower(self) -> bool:
        """Whether the lower bound belongs to it."""
        return self.closed in {"both", "lower"}

    @property
    def has_upper(self) -> bool:
        """Whether the upper bound belongs to it."""
        return self.closed in {"both", "upper"}

    def __str__(self) -> str:
        if self.lower is None and self.upper is None:
            return "any number"
        if self.lower == self.upper:
            return f"exactly {told(self.lower)}"
        words = []
        if self.lower is not None:
            words.append(f"{'at least' if self.has_lower else 'more than'} {told(self.lower)}")
        if self.upper is not None:
            words.append(f"{'at most' if self.has_upper else 'less than'} {told(self.upper)}")
        return " and ".join(words)

    def refused(self) -> str:
        """Return the words before what was wanted."""
        return "is not"


ASSERTIONS.add(Between)


@dataclass(frozen=True)
class Holds(Assertion):
    """Whatever a Python function says of the value.

    Attributes
    ----------
    function : callable
        Takes the metric's value and returns whether it is as wanted.
    """

    function: Callable[[Any], Any]

    def holds(self, value: Any) -> bool:
        """Ask the function."""
        return bool(self.function(value))

    def __str__(self) -> str:
        code = getattr(self.function, "__code__", None)
        name = getattr(self.function, "__qualname__", None) or repr(self.function)
        if not isinstance(code, CodeType) or code.co_name != "<lambda>":
            return str(name)
        return _expression(code) or "a function"

    def refused(self) -> str:
        """Return the words before what was wanted."""
        return "does not satisfy"


Bound = float | Decimal | None
Wanted = Assertion | Callable[[Any], Any] | float | Decimal | tuple[Bound, Bound]
"""What may be given as an assertion: a function of the value, its least value, both bounds (both
included, None for open), or a `Between`."""


def as_assertion(wanted: Wanted) -> Assertion:
    """Return what was given as an assertion.

    Raises
    ------
    SuiteError
        If it is none of `Wanted`.

    Examples
    --------
    >>> print(as_assertion(0.99), as_assertion((None, 5)), as_assertion(lambda n: n > 600), sep="; ")
    at least 0.99; at most 5; n > 600
    """
    if isinstance(wanted, Assertion):
        return wanted
    if isinstance(wanted, Real | Decimal) and not isinstance(wanted, bool):
        return Between(float(wanted))
    if isinstance(wanted, tuple | list) and len(wanted) == 2:  # noqa: PLR2004 - both bounds
        return Between(*wanted)  # type: ignore[arg-type]  # a description types its options
    if callable(wanted):
        return Holds(wanted)
    msg = (
        "an assertion is a function of the value, its least value, a pair of bounds such as (0, None)"
        f" or tg.Between(...), not {wanted!r}"
    )
    raise SuiteError(msg)


def told(value: Any, digits: int = 12) -> str:
    """Return a number as a message has it; whole numbers with all of their digits.

    Examples
    --------
    >>> told(3.0), told(0.9999996), told(2 / 3, 4), told(float("nan"))
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


def refusal(value: Any, assertion: Assertion) -> str:
    """Return that a value is not as wanted, with as few digits as show that it is not.

    Examples
    --------
    >>> refusal(0.49247311828, Between(0.95)), refusal(0.9999996, Between(1))
    ('0.4925 is not at least 0.95', '0.9999996 is not at least 1')
    """
    text = told(value)
    if isinstance(assertion, Between) and isinstance(value, Real):
        texts = [told(value, digits) for digits in (4, 6, 8, 10)]
        text = next((t for t in texts if not assertion.holds(t)), text)
    return f"{text} {assertion.refused()} {assertion}"


def _expression(code: CodeType) -> str:
    """Return the source of a lambda's body, if it is there and short."""
    starts, ends = [], []
    for line, end_line, column, end in code.co_positions():
        if line and end_line and column is not None and end:  # the first instruction is nowhere
            starts.append((line, column))
            ends.append((end_line, end))
    if not starts or min(starts)[0] != max(ends)[0]:
        return ""
    (line, first), (_, last) = min(starts), max(ends)
    source = linecache.getline(code.co_filename, line).encode()
    text = source[first:last].decode(errors="replace").strip()
    return text if len(text) <= LONGEST_SOURCE else ""
