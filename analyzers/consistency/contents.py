"""What two arrays or maps have in common, as Spark SQL: edit distances and keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from analyzers.consistency.equality import EXACTLY, OWN, Tolerance, same
from analyzers.schema import Field


def common(a: str, b: str, element: Any, tolerance: Tolerance = EXACTLY) -> str:
    """Return SQL for the length of the longest common subsequence of two arrays that are there.

    Null elements equal each other. With replacements banned, the elements to insert into one array and
    to delete from it follow from this number and the lengths. It takes time by the product of both
    lengths, where the arrays are not equal.

    Parameters
    ----------
    a, b : str
        Spark SQL.
    element : str or mapping
        The elements' type in Spark's JSON form.
    tolerance : Tolerance
    """
    x, above, row, j = (f"{OWN}{name}" for name in ("x", "above", "row", "j"))
    # One row of the table after another: the entry j of a row is the answer for b's first j elements.
    equal = same(x, f"get({b}, {j} - 1)", element, tolerance)
    further = f"greatest(get({above}, {j}), get({row}, {j} - 1))"
    entry = f"CASE WHEN {equal} THEN get({above}, {j} - 1) + 1 ELSE {further} END"
    columns = f"sequence(1, size({b}))"
    next_row = f"aggregate({columns}, array(0), ({row}, {j}) -> array_append({row}, {entry}))"
    first = f"array_repeat(0, size({b}) + 1)"
    last = f"aggregate({a}, {first}, ({above}, {x}) -> {next_row})"
    arrays = {"type": "array", "elementType": element}
    return (
        f"CASE WHEN {same(a, b, arrays, tolerance)} THEN size({a})"
        f" WHEN size({a}) = 0 OR size({b}) = 0 THEN 0"
        f" ELSE get({last}, size({b})) END"
    )


def only_in(a: str, b: str) -> str:
    """Return SQL for the number of keys of a map that another one does not have; both are there."""
    return f"size(filter(map_keys({a}), {_KEY} -> NOT map_contains_key({b}, {_KEY})))"


def different(a: str, b: str, of: Mapping[str, Any], tolerance: Tolerance = EXACTLY) -> str:
    """Return SQL for the number of keys that two maps share whose values differ; both are there."""
    equal = same(f"{a}[{_KEY}]", f"{b}[{_KEY}]", of["valueType"], tolerance)
    both = f"map_contains_key({b}, {_KEY}) AND NOT {equal}"
    return f"size(filter(map_keys({a}), {_KEY} -> {both}))"


def values(a: Field, b: Field) -> tuple[Field, Field]:
    """Return what `of_shared` calls the values of a key in two maps, each of which may be null."""
    x, y = (Field("", f"{v}.v", m.type["valueType"]) for v, m in ((_X, a), (_Y, b)))
    return x, y


def of_shared(a: Field, b: Field, made: str) -> str:
    """Return SQL for an array with what is made of both values of each key that two maps share.

    For other keys it has nulls, and it is null where a map is. It takes time by the number of keys.

    Parameters
    ----------
    a, b : Field
        The maps, whose types are alike.
    made : str
        Spark SQL of both `values`.
    """
    # Wrapped, for a key that a map lacks to be told from a value that is null.
    wrapped = (f"transform_values({m.sql}, ({_KEY}, {_X}) -> struct({_X} AS v))" for m in (a, b))
    shared = f"CASE WHEN {_X} IS NOT NULL AND {_Y} IS NOT NULL THEN {made} END"
    return f"map_values(map_zip_with({', '.join(wrapped)}, ({_KEY}, {_X}, {_Y}) -> {shared}))"


def added(numbers: str, zero: str) -> str:
    """Return SQL for the sum of an array's numbers, nulls left out; null where there is no array.

    Examples
    --------
    >>> added("a", "0L")
    'aggregate(a, 0L, (__tidegauge_sum, __tidegauge_x) -> __tidegauge_sum + coalesce(__tidegauge_x, 0L))'
    """
    total = f"{OWN}sum"
    return f"aggregate({numbers}, {zero}, ({total}, {_X}) -> {total} + coalesce({_X}, {zero}))"


_KEY, _X, _Y = f"{OWN}k", f"{OWN}x", f"{OWN}y"
