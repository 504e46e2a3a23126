"""Versions of the hash of values in sketches of distinct values.

Values used to be hashed by type, so a float, a double and a decimal of 1.5 were three values. They are
now hashed by value (`Field.hash_sql`). For integers and text both are the same hash.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum

from tidegauge.analyzers.core.errors import StateMismatchError
from tidegauge.analyzers.core.schema import INTEGRAL, NUMERIC, Field


class Hashing(IntEnum):
    """Hashing of the values in a sketch: by type, by value, or of values for which both agree."""

    BY_TYPE = 0
    EITHER = 1
    BY_VALUE = 2

    @classmethod
    def merged(cls, found: Iterable[Hashing]) -> Hashing:
        """Return the hashing of a union.

        A state of old stays one, as it may hold numbers that were hashed by type.

        Raises
        ------
        StateMismatchError
            If some were hashed by type and others by value.
        """
        kinds = set(found)
        if kinds >= {cls.BY_TYPE, cls.BY_VALUE}:
            msg = (
                "cannot add sketches of numbers that were hashed by their type to sketches hashed by"
                " value, as now: measure the older partitions again, by partitions='all'"
            )
            raise StateMismatchError(msg)
        return min(kinds) if cls.BY_TYPE in kinds else max(kinds, default=cls.EITHER)

    @classmethod
    def of_cells(cls, cells: Sequence[object]) -> Hashing:
        """Return the hashing that a scan tells by one of `hashing_of`."""
        return cls.BY_VALUE if cells else cls.EITHER


def hashing_of(fields: Iterable[Field]) -> tuple[str, ...]:
    """Return an aggregate that is there if the values' hash depends on the hashing, else none.

    It tells those who fold the answers, and do not see the schema.
    """
    different = NUMERIC - INTEGRAL
    return ("count(1)",) if any(field.kind in different for field in fields) else ()
