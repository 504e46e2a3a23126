"""Equality and differences of values as Spark SQL: null-safe, recursive, with an optional tolerance.

Arrays have edit distances, and maps have shared keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

from tidegauge.analyzers.core.errors import IllegalAnalyzerParameterError
from tidegauge.analyzers.core.schema import INTEGRAL, NUMERIC, Field
from tidegauge.analyzers.core.sql import constant, quote

INFINITY_SQL = "double('Infinity')"
Types = tuple[Any, Any]
"""Types of a logged and of a backfilled value, in Spark's JSON form."""
RESERVED_PREFIX = "__tidegauge_"
"""Prefix of lambda variables; a column with such a name would be shadowed."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Absolute and relative tolerance for numeric equality.

    Two numbers are equal if ``|a - b| <= max(absolute, relative * max(|a|, |b|))``, as with
    Python's ``math.isclose``. In arrays, maps and structs it applies to every number inside.

    Parameters
    ----------
    absolute, relative : float
        Finite, not negative.

    Raises
    ------
    IllegalAnalyzerParameterError

    Examples
    --------
    >>> Tolerance.from_value(0.5), Tolerance.from_value({"rel": 1e-6})
    (Tolerance(absolute=0.5, relative=0.0), Tolerance(absolute=0.0, relative=1e-06))
    """

    absolute: float = 0.0
    relative: float = 0.0

    def __post_init__(self) -> None:
        for value in (self.absolute, self.relative):
            if not isfinite(value) or value < 0:
                msg = f"a tolerance must be a finite number of at least 0, not {value!r}"
                raise IllegalAnalyzerParameterError(msg)

    def __bool__(self) -> bool:
        """Return whether the tolerance is not zero."""
        return bool(self.absolute or self.relative)

    @classmethod
    def from_value(cls, value: Any) -> Tolerance:
        """Make a tolerance from an absolute number, or a mapping with ``abs`` and ``rel``."""
        match value:
            case Tolerance():
                return value
            case bool():
                pass
            case int() | float():
                return cls(float(value))
            case Mapping() if value and value.keys() <= {"abs", "rel"}:
                return cls(float(value.get("abs", 0)), float(value.get("rel", 0)))
        msg = f"a tolerance must be a number, or {{'abs': ..., 'rel': ...}}, not {value!r}"
        raise IllegalAnalyzerParameterError(msg)


NO_TOLERANCE = Tolerance()


def kind_of(data_type: Any) -> str:
    """Return the kind of a type in Spark's JSON form, as in `Field.kind`."""
    return Field("", "", data_type).kind


def shape(data_type: Any) -> Any:
    """Return a type without nullability and comments.

    Examples
    --------
    >>> shape({"type": "array", "elementType": "long", "containsNull": True})
    ('array', 'long')
    """
    match data_type:
        case {"type": "array", "elementType": element}:
            return "array", shape(element)
        case {"type": "map", "keyType": key, "valueType": value}:
            return "map", shape(key), shape(value)
        case {"type": "struct", "fields": fields}:
            return "struct", tuple((f["name"].casefold(), shape(f["type"])) for f in fields)
    return data_type


def holds(data_type: Any, kinds: frozenset[str]) -> bool:
    """Return whether a type, or any type nested in it, is of the given kinds."""
    return kind_of(data_type) in kinds or any(holds(part, kinds) for part in _nested(data_type))


def alike(types: Types) -> bool:
    """Return whether values of two types can be compared; numbers in them may have different types.

    Keys of maps must have the same type for the lookup.

    Examples
    --------
    >>> alike(("float", "long")), alike(("string", "long"))
    (True, False)
    >>> floats, doubles = ({"type": "array", "elementType": of} for of in ("float", "double"))
    >>> alike((floats, doubles)), alike((floats, "float"))
    (True, False)
    """
    match types:
        case {"type": "array"}, {"type": "array"}:
            return alike(part_of(types, "elementType"))
        case {"type": "map", "keyType": key}, {"type": "map", "keyType": other}:
            return bool(shape(key) == shape(other)) and alike(part_of(types, "valueType"))
        case {"type": "struct", "fields": ours}, {"type": "struct", "fields": theirs}:
            return [f["name"].casefold() for f in ours] == [
                f["name"].casefold() for f in theirs
            ] and all(map(alike, _pairs(types)))
    return {kind_of(data_type) for data_type in types} <= NUMERIC or bool(
        shape(types[0]) == shape(types[1])
    )


def _nested(data_type: Any) -> list[Any]:
    """Return the types inside a type."""
    match data_type:
        case {"type": "array", "elementType": element}:
            return [element]
        case {"type": "map", "keyType": key, "valueType": value}:
            return [key, value]
        case {"type": "struct", "fields": fields}:
            return [field["type"] for field in fields]
    return []


def _pairs(types: Types) -> list[Types]:
    """Return the types inside two types of one shape, side by side."""
    return list(zip(*map(_nested, types), strict=True))


def part_of(types: Types, name: str) -> Types:
    """Return the types inside two types by their name, such as ``elementType``."""
    return types[0][name], types[1][name]


def as_compared(a: str, b: str, kinds: tuple[str, str]) -> tuple[str, str, tuple[str, str]]:
    """Return SQL of two numbers as they are compared, and their kinds: floats if one side has only float precision.

    Examples
    --------
    >>> as_compared("`a`", "`b`", ("float", "double"))
    ('CAST(`a` AS FLOAT)', 'CAST(`b` AS FLOAT)', ('float', 'float'))
    """
    if narrowed(kinds):
        return f"CAST({a} AS FLOAT)", f"CAST({b} AS FLOAT)", ("float", "float")
    return a, b, kinds


def minus(a: str, b: str, kinds: tuple[str, str]) -> str:
    """Return SQL for ``a - b`` as a double; integers and decimals are subtracted exactly.

    A float and a double are subtracted `as_compared`, so that equal values have no difference. If the
    exact difference overflows in Spark, the values are subtracted as doubles.

    Examples
    --------
    >>> minus("`a`", "`b`", ("double", "double"))
    '(CAST(`a` AS DOUBLE) - CAST(`b` AS DOUBLE))'
    """
    a, b, kinds = as_compared(a, b, kinds)
    doubles = f"(CAST({a} AS DOUBLE) - CAST({b} AS DOUBLE))"
    if {"float", "double"} & set(kinds):
        return doubles
    wide = [
        f"CAST({v} AS BIGINT)" if k in INTEGRAL else v for v, k in zip((a, b), kinds, strict=True)
    ]
    if INTEGRAL - {"long"} >= set(kinds):
        return f"CAST({wide[0]} - {wide[1]} AS DOUBLE)"
    return f"coalesce(CAST(try_subtract({wide[0]}, {wide[1]}) AS DOUBLE), {doubles})"


def same(a: str, b: str, types: Types, tolerance: Tolerance = NO_TOLERANCE, depth: int = 0) -> str:
    """Return SQL that is true if two values are equal, else false; never null.

    Null equals null, NaN equals NaN, 0.0 equals -0.0, and maps are equal regardless of key order.
    A float and a double or decimal are compared as floats: 0.1 as a float is not 0.1 as a double,
    although the double 0.1 was served as this float.

    Parameters
    ----------
    a, b : str
        Spark SQL.
    types : tuple of two
        Their types in Spark's JSON form, which are `alike`.
    tolerance : Tolerance
        Differences that count as equal.
    depth : int
        Number of enclosing lambdas; each needs its own variable names.

    Examples
    --------
    >>> same("`a`", "`b`", ("string", "string"), Tolerance(0.5))
    '(`a` <=> `b`)'
    """
    kinds = (kind_of(types[0]), kind_of(types[1]))
    if set(kinds) <= NUMERIC:
        return _numbers(a, b, kinds, tolerance)
    if kinds[0] == "variant":
        return f"(to_json({a}) <=> to_json({b}))"
    loose = narrowed(types) or (bool(tolerance) and holds(types[0], NUMERIC))
    if not loose and not holds(types[0], frozenset({"map", "variant"})):
        return f"({a} <=> {b})"
    return _both(a, b, _inside(a, b, types, tolerance, depth))


def narrowed(types: Types) -> bool:
    """Return whether numbers, at any depth, are compared as floats because one side has only float precision.

    Examples
    --------
    >>> narrowed(("float", "double")), narrowed(("float", "float")), narrowed(("float", "long"))
    (True, False, False)
    >>> narrowed(tuple({"type": "array", "elementType": of} for of in ("float", "double")))
    True
    """
    kinds = {kind_of(data_type) for data_type in types}
    return ("float" in kinds and bool({"double", "decimal"} & kinds)) or any(
        map(narrowed, _pairs(types))
    )


def _numbers(a: str, b: str, kinds: tuple[str, str], tolerance: Tolerance) -> str:
    a, b, kinds = as_compared(a, b, kinds)
    if not tolerance:
        return f"({a} <=> {b})"
    apart = f"abs({minus(a, b, kinds)})"
    allowed = constant(tolerance.absolute)
    if tolerance.relative:
        size = f"greatest(abs(CAST({a} AS DOUBLE)), abs(CAST({b} AS DOUBLE)))"
        allowed = f"greatest({allowed}, {constant(tolerance.relative)} * {size})"
    # Infinite differences never match: with infinite values, both sides of <= would be infinite.
    near = f"({apart} < {INFINITY_SQL} AND {apart} <= {allowed})"
    return f"(({a} <=> {b}) OR coalesce({near}, false))"


def _both(a: str, b: str, condition: str) -> str:
    """Return SQL for a condition on two values that is evaluated only if both are non-null."""
    return f"CASE WHEN {a} IS NULL OR {b} IS NULL THEN {a} IS NULL AND {b} IS NULL ELSE {condition} END"


def _inside(a: str, b: str, types: Types, tolerance: Tolerance, depth: int) -> str:
    """Return SQL that compares the contents of two values."""
    x, y = f"{RESERVED_PREFIX}x{depth}", f"{RESERVED_PREFIX}y{depth}"
    kind = types[0]["type"]
    if kind == "array":
        equal = same(x, y, part_of(types, "elementType"), tolerance, depth + 1)
        pairs = f"zip_with({a}, {b}, ({x}, {y}) -> {equal})"
        return f"(size({a}) = size({b}) AND forall({pairs}, {x} -> {x}))"
    if kind == "map":
        equal = same(f"{a}[{x}]", f"{b}[{x}]", part_of(types, "valueType"), tolerance, depth + 1)
        equal_keys = f"forall(map_keys({a}), {x} -> map_contains_key({b}, {x}) AND {equal})"
        return f"(size({a}) = size({b}) AND {equal_keys})"
    left_fields, right_fields = (
        [f"{side}.{quote(field['name'])}" for field in data_type["fields"]]
        for side, data_type in zip((a, b), types, strict=True)
    )
    fields = [
        same(left, right, inside, tolerance, depth)
        for left, right, inside in zip(left_fields, right_fields, _pairs(types), strict=True)
    ]
    return f"({' AND '.join(fields) or 'true'})"


def common(a: str, b: str, types: Types, tolerance: Tolerance = NO_TOLERANCE) -> str:
    """Return SQL for the length of the longest common subsequence of two non-null arrays.

    Null elements equal each other. With replacements not allowed, the insertions and deletions that
    turn one array into the other follow from this number and the lengths. Time grows with the
    product of both lengths, unless the arrays are equal.

    Parameters
    ----------
    a, b : str
        Spark SQL.
    types : tuple of two
        The arrays' types in Spark's JSON form.
    tolerance : Tolerance
        Differences that count as equal.
    """
    x, above, row, j = (f"{RESERVED_PREFIX}{name}" for name in ("x", "above", "row", "j"))
    # Dynamic programming, row by row: entry j of a row is the length for b's first j elements.
    equal = same(x, f"get({b}, {j} - 1)", part_of(types, "elementType"), tolerance)
    further = f"greatest(get({above}, {j}), get({row}, {j} - 1))"
    entry = f"CASE WHEN {equal} THEN get({above}, {j} - 1) + 1 ELSE {further} END"
    columns = f"sequence(1, size({b}))"
    next_row = f"aggregate({columns}, array(0), ({row}, {j}) -> array_append({row}, {entry}))"
    first = f"array_repeat(0, size({b}) + 1)"
    last = f"aggregate({a}, {first}, ({above}, {x}) -> {next_row})"
    return (
        f"CASE WHEN {same(a, b, types, tolerance)} THEN size({a})"
        f" WHEN size({a}) = 0 OR size({b}) = 0 THEN 0"
        f" ELSE get({last}, size({b})) END"
    )


def only_in(a: str, b: str) -> str:
    """Return SQL for the number of keys that one non-null map has and another lacks.

    A key of both maps also counts if only the first map has a value.
    """
    value = f"{a}[{_KEY_VARIABLE}] IS NOT NULL AND {b}[{_KEY_VARIABLE}] IS NULL"
    return f"size(filter(map_keys({a}), {_KEY_VARIABLE} -> NOT map_contains_key({b}, {_KEY_VARIABLE}) OR {value}))"


def different(a: str, b: str, types: Types, tolerance: Tolerance = NO_TOLERANCE) -> str:
    """Return SQL for the number of keys with different non-null values in two non-null maps."""
    equal = same(
        f"{a}[{_KEY_VARIABLE}]", f"{b}[{_KEY_VARIABLE}]", part_of(types, "valueType"), tolerance
    )
    both = f"{a}[{_KEY_VARIABLE}] IS NOT NULL AND {b}[{_KEY_VARIABLE}] IS NOT NULL"
    return f"size(filter(map_keys({a}), {_KEY_VARIABLE} -> {both} AND NOT {equal}))"


def values(a: Field, b: Field) -> tuple[Field, Field]:
    """Return the fields of `shared_values_sql` for the values of a key in two maps; either value can be null."""
    x, y = (Field("", f"{v}.v", m.type["valueType"]) for v, m in ((_X, a), (_Y, b)))
    return x, y


def shared_values_sql(a: Field, b: Field, expression: str) -> str:
    """Return SQL for an array of an expression over both values of each key shared by two maps.

    It has nulls for other keys, and is null if either map is. Time grows with the number of keys.

    Parameters
    ----------
    a, b : Field
        The maps, of the same type.
    expression : str
        Spark SQL over both `values`.
    """
    # Wrapped, to distinguish a missing key from a null value.
    wrapped = (
        f"transform_values({m.sql}, ({_KEY_VARIABLE}, {_X}) -> struct({_X} AS v))" for m in (a, b)
    )
    shared = f"CASE WHEN {_X} IS NOT NULL AND {_Y} IS NOT NULL THEN {expression} END"
    return (
        f"map_values(map_zip_with({', '.join(wrapped)}, ({_KEY_VARIABLE}, {_X}, {_Y}) -> {shared}))"
    )


def added(numbers: str, zero: str) -> str:
    """Return SQL for the sum of an array, ignoring null elements; null if the array is.

    Examples
    --------
    >>> added("a", "0L")
    'aggregate(a, 0L, (__tidegauge_sum, __tidegauge_x) -> __tidegauge_sum + coalesce(__tidegauge_x, 0L))'
    """
    total = f"{RESERVED_PREFIX}sum"
    return f"aggregate({numbers}, {zero}, ({total}, {_X}) -> {total} + coalesce({_X}, {zero}))"


_KEY_VARIABLE, _X, _Y = f"{RESERVED_PREFIX}k", f"{RESERVED_PREFIX}x", f"{RESERVED_PREFIX}y"
