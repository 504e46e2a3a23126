"""Exact arithmetic and serialization of integers, decimals and doubles, as exact as the column."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from decimal import Context, Decimal
from math import isclose, isnan

from tidegauge.analyzers.core.formatting import middle_cut

Number = int | Decimal | float

_EXACT = Context(prec=2000)
_MAX_DIGITS = 300
"""Digits of a number that is read, before and after the point: sums of the widest decimals have 57. Doubles hold as
many, and Python writes integers of up to 4300."""


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
    return _EXACT.add(Decimal(a), Decimal(b))


def subtract(a: Number, b: Number) -> float:
    """Subtract two numbers exactly, then round to a double; in doubles if one of them is a double.

    Examples
    --------
    >>> subtract(2**60 + 1, 2**60), subtract(Decimal("9" * 38), Decimal("9" * 38))
    (1.0, 0.0)
    """
    if isinstance(a, float) or isinstance(b, float):
        return float(a) - float(b)
    return float(_EXACT.subtract(Decimal(a), Decimal(b)))


def shifted(number: Decimal, digits: int) -> Decimal:
    """Multiply a decimal by a power of ten, exactly."""
    return _EXACT.scaleb(number, digits)


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


def agree(a: Number, b: Number) -> bool:
    """Return whether two numbers are equal: to 1e-9 if one is a double, NaN to NaN, else exactly.

    Examples
    --------
    >>> agree(0.1 + 0.2, 0.3), agree(float("nan"), float("nan")), agree(10**15, 10**15 + 1)
    (True, True, False)
    """
    if not isinstance(a, float) and not isinstance(b, float):
        return a == b
    a, b = float(a), float(b)
    return (isnan(a) and isnan(b)) or isclose(a, b, rel_tol=1e-9, abs_tol=1e-12)


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
        If there is no number at this offset.
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
