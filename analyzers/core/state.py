"""Mergeable states: sufficient statistics to compute metrics from without rereading data.

A state is an element of a commutative monoid. Adding the states of two disjoint pieces of data gives
the state of their union, in any order, and the default-constructed state is the state of no data.
Its binary form is a tag, ``kind/version``, and a payload; every tag that was ever written keeps a
reader, so a repository outlives the code that filled it.

The functions at the start add, compare and serialize integers, decimals and doubles, as exact as the column.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from decimal import Context, Decimal
from functools import cache, reduce
from importlib import import_module
from math import isclose, isfinite, isnan
from typing import Any, ClassVar, Self, TypeVar, final

from tidegauge.analyzers.core.errors import (
    CorruptStateError,
    StateError,
    StateMismatchError,
    UnknownStateTagError,
)
from tidegauge.analyzers.core.formatting import middle_cut
from tidegauge.analyzers.core.registry import STATE_MODULES, guard, load_plugins, module_of

Number = int | Decimal | float

_EXACT_CONTEXT = Context(prec=2000)
_MAX_DIGITS = 300
"""Maximum number of digits before and after the point of a number that is read.

Sums of the widest decimals have 57 digits, doubles have up to 309, and Python writes integers of up to 4300
digits.
"""


def add(a: Number, b: Number) -> Number:
    """Add two numbers: exactly, unless one of them is a double.

    Examples
    --------
    >>> add(2**63, 1), add(Decimal("0.10"), 2), add(0.5, 2)
    (9223372036854775809, Decimal('2.10'), 2.5)
    """
    if isinstance(a, float) or isinstance(b, float):
        return float(a) + float(b)
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    return _EXACT_CONTEXT.add(Decimal(a), Decimal(b))


def subtract(a: Number, b: Number) -> float:
    """Subtract two numbers exactly, then round to a double; in doubles if one of them is a double.

    Examples
    --------
    >>> subtract(2**60 + 1, 2**60), subtract(Decimal("9" * 38), Decimal("9" * 38))
    (1.0, 0.0)
    """
    if isinstance(a, float) or isinstance(b, float):
        return float(a) - float(b)
    return float(_EXACT_CONTEXT.subtract(Decimal(a), Decimal(b)))


def shifted(number: Decimal, digits: int) -> Decimal:
    """Multiply a decimal by a power of ten, exactly."""
    return _EXACT_CONTEXT.scaleb(number, digits)


def least(values: Iterable[Number]) -> Number | None:
    """Return the minimum, with NaN ordered last; None if there are no values.

    Examples
    --------
    >>> least([float("nan"), 3, Decimal("2.5")])
    Decimal('2.5')
    """
    return min(values, key=_order, default=None)


def greatest(values: Iterable[Number]) -> Number | None:
    """Return the maximum, with NaN ordered last; None if there are no values."""
    return max(values, key=_order, default=None)


def _order(value: Number) -> tuple[bool, Number]:
    nan = isinstance(value, float) and isnan(value)
    return nan, 0 if nan else value


def agree(a: Number, b: Number, scale: float = 0.0) -> bool:
    """Return whether two numbers are equal: to 1e-9 if one is a double, NaN to NaN, else exactly.

    Parameters
    ----------
    a, b : int, float or Decimal
    scale : float
        Size of the terms of which the numbers are sums (default: their own size). If terms cancel, their
        sum is rounding noise, so doubles that differ by at most 1e-9 of the scale are equal, too.

    Examples
    --------
    >>> agree(0.1 + 0.2, 0.3), agree(float("nan"), float("nan")), agree(10**15, 10**15 + 1)
    (True, True, False)
    >>> agree(-0.07, 0.14), agree(-0.07, 0.14, scale=1e12)
    (False, True)
    """
    if not isinstance(a, float) and not isinstance(b, float):
        return a == b
    a, b = float(a), float(b)
    tolerance = max(1e-12, 1e-9 * scale) if isfinite(scale) else 1e-12
    return (isnan(a) and isnan(b)) or isclose(a, b, rel_tol=1e-9, abs_tol=tolerance)


def pack_number(number: Number | None) -> bytes:
    r"""Serialize a number or None: one byte for its type, then the value.

    Examples
    --------
    >>> pack_number(None), pack_number(7), unpack_number(pack_number(Decimal("1.50")))
    (b'-', b'i\x00\x00\x00\x00\x00\x00\x00\x07', (Decimal('1.50'), 7))
    """
    match number:
        case None:
            return b"-"
        case float():
            return b"f" + struct.pack(">d", number)
        case int() if -(1 << 63) <= number < 1 << 63:
            return b"i" + struct.pack(">q", number)
        case _:
            text = str(number).encode()
            return (b"I" if isinstance(number, int) else b"d") + struct.pack(">H", len(text)) + text


def unpack_number(payload: bytes, at: int = 0) -> tuple[Number | None, int]:
    """Deserialize a number written by `pack_number`; return it and the offset after it.

    Raises
    ------
    ValueError
        If the bytes at this offset are not a number.
    """
    kind, at = payload[at : at + 1], at + 1
    if kind == b"-":
        return None, at
    if kind in (b"f", b"i"):
        (number,) = struct.unpack_from(">d" if kind == b"f" else ">q", payload, at)
        return number, at + 8
    (length,) = struct.unpack_from(">H", payload, at)
    text = payload[at + 2 : at + 2 + length].decode()
    if kind not in (b"I", b"d"):
        msg = f"no number begins with {kind!r}"
        raise ValueError(msg)
    try:
        number = int(text) if kind == b"I" else Decimal(text)
    except ArithmeticError as error:
        raise ValueError(text) from error
    if not _has_few_digits(Decimal(number)):
        msg = f"no number of a column is {middle_cut(text)}"
        raise ValueError(msg)
    return number, at + 2 + length


def _has_few_digits(number: Decimal) -> bool:
    """Return whether a number is finite and has at most `_MAX_DIGITS` before and after the point."""
    exponent = number.as_tuple().exponent
    return (
        isinstance(exponent, int) and exponent >= -_MAX_DIGITS and number.adjusted() < _MAX_DIGITS
    )


S = TypeVar("S", bound="State")

Count = int
"""Type of a field that counts rows, values or pieces of data. `read_state` rejects invalid counts."""
MAX_COUNT = 2**53
"""Largest count that is read: a thousand of them still add up within 64 bits, and each is exact as a double."""


@dataclass(frozen=True, slots=True)
class State(ABC):
    """Base class of mergeable states, a commutative monoid.

    ``a + b == b + a``, ``(a + b) + c == a + (b + c)``, ``type(a)() + a == a``. A subclass is a frozen,
    slotted dataclass whose defaults are the identity. It implements `combine`, defines a `layout` for its
    fields (or its own `pack` and `unpack`), and is registered with `register_state`. Adding never changes
    its arguments.

    Examples
    --------
    >>> from tidegauge.analyzers.measures.moments import SumAndCount
    >>> monday, tuesday = SumAndCount(10.0, 4), SumAndCount(30.0, 6)
    >>> monday + tuesday == tuesday + monday, SumAndCount() + monday == monday
    (True, True)
    >>> SumAndCount.unpack(monday.pack()) == monday
    True
    """

    tag: ClassVar[str]
    layout: ClassVar[struct.Struct]
    depends_on_types: ClassVar[bool] = False
    """Whether the state has values or hashes of a column, so 1 and '1' are different in it."""

    @abstractmethod
    def combine(self, other: Self) -> Self:
        """Merge with the state of another piece of data; ``other`` is of the same class."""

    @classmethod
    def merge(cls, states: Iterable[Self]) -> Self:
        """Sum any number of states; the identity for none.

        Overridden by states that can be added cheaply only all at once.

        Examples
        --------
        >>> from tidegauge.analyzers.measures.counts import NumMatches
        >>> NumMatches.merge([NumMatches(2), NumMatches(3), NumMatches(4)])
        NumMatches(num_matches=9)
        """
        return reduce(lambda a, b: a + b, states, cls())

    @final
    def __add__(self, other: Self) -> Self:
        """Add two states of one kind.

        Raises
        ------
        StateMismatchError
            If the states are of different kinds, or are sketches with different parameters.
        """
        if type(self) is not type(other):
            msg = f"cannot add a {type(other).__name__} to a {type(self).__name__}"
            raise StateMismatchError(msg)
        return self.combine(other)

    @final
    def sum(self, other: Self) -> Self:
        """Return ``self + other``; Deequ's name for it.

        Examples
        --------
        >>> from tidegauge.analyzers.measures.counts import NumMatches
        >>> NumMatches(2).sum(NumMatches(3))
        NumMatches(num_matches=5)
        """
        return self + other

    def agrees_with(self, other: Self) -> bool:
        """Return whether states agree: counts exactly, floats to 1e-9, sketches within bounds."""
        return type(self) is type(other) and all(
            _close(getattr(self, f.name), getattr(other, f.name)) for f in fields(self)
        )

    def forget(self, value: str, token: str) -> Self:
        """Return the state with a value of the data replaced by a token; itself if it holds none.

        States that hold values of the data as such, and not only numbers, override it.

        Parameters
        ----------
        value : str
            The value as `Histogram` writes it.
        token : str
            The replacement.
        """
        return self

    def pack(self) -> bytes:
        """Serialize the state to its payload, without the tag."""
        return self.layout.pack(*(getattr(self, f.name) for f in fields(self)))

    @classmethod
    def unpack(cls, payload: bytes) -> Self:
        """Deserialize a payload written by `pack`."""
        return cls(*cls.layout.unpack(payload))


class DoubleValuedState(State):
    """A state that determines a single number.

    Examples
    --------
    >>> from tidegauge.analyzers.measures.counts import NumMatches
    >>> isinstance(NumMatches(3), DoubleValuedState), NumMatches(3).metric_value()
    (True, 3.0)
    """

    __slots__ = ()

    @abstractmethod
    def metric_value(self) -> float:
        """Return the number; NaN for a ratio over no rows."""


READERS: dict[str, Callable[[bytes], State]] = {}
"""Payload readers by tag, for the modules imported so far; `read_state` imports modules on demand."""


def _import_all() -> None:
    for module in STATE_MODULES:
        import_module(module)


guard(READERS, _import_all)


def register_state(tag: str) -> Callable[[type[S]], type[S]]:
    """Class decorator: register a state class and its reader under the tag ``kind/version``.

    A changed layout gets a new version. The reader of the old version stays: add a function for it to
    `READERS`.

    Raises
    ------
    ValueError
        If the tag is taken.
    """

    def decorate(cls: type[S]) -> type[S]:
        if tag in READERS:
            msg = f"state tag {tag!r} is already registered"
            raise ValueError(msg)
        cls.tag = tag
        READERS[tag] = cls.unpack
        return cls

    return decorate


def read_state(tag: str, payload: bytes) -> State:
    """Deserialize the state that was packed under ``tag``.

    Raises
    ------
    UnknownStateTagError
        If no reader is registered for the tag: the state was written by a newer tidegauge or by a
        plug-in that is not installed.
    CorruptStateError
        If the payload cannot be read.
    """
    reader = READERS.get(tag)
    if reader is None:
        module = module_of(tag.partition("/")[0], STATE_MODULES)
        if module is not None:
            import_module(module)
        else:
            load_plugins("tidegauge.analyzers")
        reader = READERS.get(tag)
    if reader is None:
        _import_all()
        msg = f"no reader for states tagged {tag!r}; known are {', '.join(sorted(READERS))}"
        raise UnknownStateTagError(msg)
    try:
        state = reader(payload)
        _require_counts(state)
    except StateError:
        raise
    except Exception as error:  # damaged bytes lead a reader anywhere
        msg = f"a state tagged {tag!r} of {len(payload)} bytes cannot be read: {error}"
        raise CorruptStateError(msg) from error
    return state


def _require_counts(state: State) -> None:
    """Require counts between 0 and `MAX_COUNT`, also in states within this one."""
    for name in _count_fields(type(state)):
        value = getattr(state, name)
        if isinstance(value, State):
            _require_counts(value)
            continue
        for count in value if isinstance(value, tuple) else (value,):
            if not 0 <= count <= MAX_COUNT:
                msg = f"its {name} is {count}"
                raise ValueError(msg)


@cache
def _count_fields(cls: type[State]) -> tuple[str, ...]:
    """Return the fields of a state that are counts, tuples of counts, or states."""
    counts = ("Count", "tuple[Count, ...]")
    return tuple(f.name for f in fields(cls) if f.type in counts or isinstance(f.default, State))


def mismatch(parameter: str, a: object, b: object) -> StateMismatchError:
    """Return the error for adding two states with different parameters."""
    return StateMismatchError(f"cannot add states with {parameter} {a} and {b}")


def _close(a: Any, b: Any) -> bool:
    return agree(a, b) if isinstance(a, float) and isinstance(b, float) else bool(a == b)


def as_state(cls: type[S], state: State) -> S:
    """Return ``state`` if it is an instance of ``cls``, narrowing its type.

    Raises
    ------
    StateMismatchError
        If it is a state of another class.
    """
    if not isinstance(state, cls):
        msg = f"expected a {cls.__name__}, got a {type(state).__name__}"
        raise StateMismatchError(msg)
    return state
