"""Spark SQL comparing two arrays or maps: edit distances and shared keys."""

from __future__ import annotations

from tidegauge.analyzers.core.schema import Field
from tidegauge.consistency.compare.equality import EXACTLY, OWN, Tolerance, Types, part_of, same


def common(a: str, b: str, types: Types, tolerance: Tolerance = EXACTLY) -> str:
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
    """
    x, above, row, j = (f"{OWN}{name}" for name in ("x", "above", "row", "j"))
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

    A key that both have counts, too, if only the first has a value for it.
    """
    value = f"{a}[{_KEY}] IS NOT NULL AND {b}[{_KEY}] IS NULL"
    return f"size(filter(map_keys({a}), {_KEY} -> NOT map_contains_key({b}, {_KEY}) OR {value}))"


def different(a: str, b: str, types: Types, tolerance: Tolerance = EXACTLY) -> str:
    """Return SQL for the number of keys with different non-null values in two non-null maps."""
    equal = same(f"{a}[{_KEY}]", f"{b}[{_KEY}]", part_of(types, "valueType"), tolerance)
    both = f"{a}[{_KEY}] IS NOT NULL AND {b}[{_KEY}] IS NOT NULL"
    return f"size(filter(map_keys({a}), {_KEY} -> {both} AND NOT {equal}))"


def values(a: Field, b: Field) -> tuple[Field, Field]:
    """Return `shared_values_sql`'s fields for a key's values in two maps; either value may be null."""
    x, y = (Field("", f"{v}.v", m.type["valueType"]) for v, m in ((_X, a), (_Y, b)))
    return x, y


def shared_values_sql(a: Field, b: Field, made: str) -> str:
    """Return SQL for an array of an expression over both values of each key shared by two maps.

    It has nulls for other keys, and is null if either map is. Time grows with the number of keys.

    Parameters
    ----------
    a, b : Field
        The maps, of the same type.
    made : str
        Spark SQL over both `values`.
    """
    # Wrapped, to distinguish a missing key from a null value.
    wrapped = (f"transform_values({m.sql}, ({_KEY}, {_X}) -> struct({_X} AS v))" for m in (a, b))
    shared = f"CASE WHEN {_X} IS NOT NULL AND {_Y} IS NOT NULL THEN {made} END"
    return f"map_values(map_zip_with({', '.join(wrapped)}, ({_KEY}, {_X}, {_Y}) -> {shared}))"


def added(numbers: str, zero: str) -> str:
    """Return SQL for the sum of an array, ignoring null elements; null if the array is.

    Examples
    --------
    >>> added("a", "0L")
    'aggregate(a, 0L, (__tidegauge_sum, __tidegauge_x) -> __tidegauge_sum + coalesce(__tidegauge_x, 0L))'
    """
    total = f"{OWN}sum"
    return f"aggregate({numbers}, {zero}, ({total}, {_X}) -> {total} + coalesce({_X}, {zero}))"


_KEY, _X, _Y = f"{OWN}k", f"{OWN}x", f"{OWN}y"
