"""When two values are equal, as Spark SQL: null-safe, recursive, within a tolerance where one is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

from analyzers.errors import IllegalAnalyzerParameterError
from analyzers.schema import INTEGRAL, NUMERIC, Field
from analyzers.sql import constant, quote

INFINITY = "double('Infinity')"
OWN = "__tidegauge_"
"""How the variables of functions over elements begin; a column of such a name would be hidden by them."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far apart two numbers may lie and still count as equal.

    They are equal if ``|a - b| <= max(absolute, relative * max(|a|, |b|))``, as with Python's
    ``math.isclose``. In arrays, maps and structs it holds for every number inside.

    Parameters
    ----------
    absolute, relative : float
        Finite, not negative.

    Raises
    ------
    IllegalAnalyzerParameterError

    Examples
    --------
    >>> Tolerance.of(0.5), Tolerance.of({"rel": 1e-6})
    (Tolerance(absolute=0.5, relative=0.0), Tolerance(absolute=0.0, relative=1e-06))
    """

    absolute: float = 0.0
    relative: float = 0.0

    def __post_init__(self) -> None:
        for value in (self.absolute, self.relative):
            if not isfinite(value) or value < 0:
                msg = f"a tolerance is a number that is finite and not negative, not {value!r}"
                raise IllegalAnalyzerParameterError(msg)

    def __bool__(self) -> bool:
        """Whether anything but equal values is equal."""
        return bool(self.absolute or self.relative)

    @classmethod
    def of(cls, given: Any) -> Tolerance:
        """Make one of a number, which is absolute, or of a mapping with ``abs`` and ``rel``."""
        match given:
            case Tolerance():
                return given
            case bool():
                pass
            case int() | float():
                return cls(float(given))
            case Mapping() if given and given.keys() <= {"abs", "rel"}:
                return cls(float(given.get("abs", 0)), float(given.get("rel", 0)))
        msg = f"a tolerance is a number, or {{'abs': ..., 'rel': ...}}, not {given!r}"
        raise IllegalAnalyzerParameterError(msg)


EXACTLY = Tolerance()


def kind_of(of: Any) -> str:
    """Return the kind of a type in Spark's JSON form, as `Field.kind` tells it."""
    return Field("", "", of).kind


def shape(of: Any) -> Any:
    """Return a type without what values do not show: whether nulls may be inside, and comments.

    Examples
    --------
    >>> shape({"type": "array", "elementType": "long", "containsNull": True})
    ('array', 'long')
    """
    match of:
        case {"type": "array", "elementType": element}:
            return "array", shape(element)
        case {"type": "map", "keyType": key, "valueType": value}:
            return "map", shape(key), shape(value)
        case {"type": "struct", "fields": fields}:
            return "struct", tuple((f["name"].casefold(), shape(f["type"])) for f in fields)
    return of


def holds(of: Any, kinds: frozenset[str]) -> bool:
    """Whether a type, or anything inside it, is of some kinds."""
    match of:
        case {"type": "array", "elementType": element}:
            inside = [element]
        case {"type": "map", "keyType": key, "valueType": value}:
            inside = [key, value]
        case {"type": "struct", "fields": fields}:
            inside = [field["type"] for field in fields]
        case _:
            inside = []
    return kind_of(of) in kinds or any(holds(part, kinds) for part in inside)


def minus(a: str, b: str, kinds: tuple[str, str]) -> str:
    """Return SQL for ``a - b`` of two numbers as a double; integers and decimals are subtracted as such.

    Where their difference exceeds what Spark can hold, that of the doubles is taken.

    Examples
    --------
    >>> minus("`a`", "`b`", ("double", "float"))
    '(CAST(`a` AS DOUBLE) - CAST(`b` AS DOUBLE))'
    """
    doubles = f"(CAST({a} AS DOUBLE) - CAST({b} AS DOUBLE))"
    if {"float", "double"} & set(kinds):
        return doubles
    wide = [
        f"CAST({v} AS BIGINT)" if k in INTEGRAL else v for v, k in zip((a, b), kinds, strict=True)
    ]
    if INTEGRAL - {"long"} >= set(kinds):
        return f"CAST({wide[0]} - {wide[1]} AS DOUBLE)"
    return f"coalesce(CAST(try_subtract({wide[0]}, {wide[1]}) AS DOUBLE), {doubles})"


def same(a: str, b: str, of: Any, tolerance: Tolerance = EXACTLY, depth: int = 0) -> str:
    """Return SQL that is true where two values are equal, and false where they are not; never null.

    Null equals null, NaN equals NaN, 0.0 equals -0.0, maps are equal whatever the order of their keys.

    Parameters
    ----------
    a, b : str
        Spark SQL.
    of : str or mapping, or tuple of two
        The type of both in Spark's JSON form; of two numbers each has its own.
    tolerance : Tolerance
    depth : int
        How many functions of elements it stands in; their variables need names of their own.

    Examples
    --------
    >>> same("`a`", "`b`", "string", Tolerance(0.5))
    '(`a` <=> `b`)'
    """
    types = of if isinstance(of, tuple) else (of, of)
    kinds = (kind_of(types[0]), kind_of(types[1]))
    if set(kinds) <= NUMERIC:
        return _numbers(a, b, kinds, tolerance)
    if kinds[0] == "variant":
        return f"(to_json({a}) <=> to_json({b}))"
    loose = bool(tolerance) and holds(types[0], NUMERIC)
    if not loose and not holds(types[0], frozenset({"map", "variant"})):
        return f"({a} <=> {b})"
    return _both(a, b, _inside(a, b, types[0], tolerance, depth))


def _numbers(a: str, b: str, kinds: tuple[str, str], tolerance: Tolerance) -> str:
    if not tolerance:
        return f"({a} <=> {b})"
    apart = f"abs({minus(a, b, kinds)})"
    allowed = constant(tolerance.absolute)
    if tolerance.relative:
        size = f"greatest(abs(CAST({a} AS DOUBLE)), abs(CAST({b} AS DOUBLE)))"
        allowed = f"greatest({allowed}, {constant(tolerance.relative)} * {size})"
    # What is not finite lies within no tolerance: both sides of the comparison would be so.
    near = f"({apart} < {INFINITY} AND {apart} <= {allowed})"
    return f"(({a} <=> {b}) OR coalesce({near}, false))"


def _both(a: str, b: str, condition: str) -> str:
    """Return SQL for a condition on two values that is asked only where both are there."""
    return f"CASE WHEN {a} IS NULL OR {b} IS NULL THEN {a} IS NULL AND {b} IS NULL ELSE {condition} END"


def _inside(a: str, b: str, of: Any, tolerance: Tolerance, depth: int) -> str:
    """Return SQL that compares what two values hold."""
    x, y = f"{OWN}x{depth}", f"{OWN}y{depth}"
    if of["type"] == "array":
        equal = same(x, y, of["elementType"], tolerance, depth + 1)
        pairs = f"zip_with({a}, {b}, ({x}, {y}) -> {equal})"
        return f"(size({a}) = size({b}) AND forall({pairs}, {x} -> {x}))"
    if of["type"] == "map":
        equal = same(f"{a}[{x}]", f"{b}[{x}]", of["valueType"], tolerance, depth + 1)
        alike = f"forall(map_keys({a}), {x} -> map_contains_key({b}, {x}) AND {equal})"
        return f"(size({a}) = size({b}) AND {alike})"
    fields = [
        same(f"{a}.{quote(f['name'])}", f"{b}.{quote(f['name'])}", f["type"], tolerance, depth)
        for f in of["fields"]
    ]
    return f"({' AND '.join(fields) or 'true'})"
