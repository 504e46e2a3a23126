"""Alignment of logged and backfilled rows, and checks that both sides are comparable."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tidegauge.analyzers.core.ddl import type_sql
from tidegauge.analyzers.core.errors import PreconditionError, nearest
from tidegauge.analyzers.core.schema import INTEGRAL, Schema
from tidegauge.analyzers.core.sql import quote
from tidegauge.consistency.compare.equality import alike, holds, shape
from tidegauge.consistency.compare.measures import COPY, LOGGED, NULL_KEY, PRESENCE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DATE, BUCKET = "ds", "hr_minute"
OTHER = "other"
"""Presence of rows that occur only in other backfills."""
DAY = 24 * 60
UNORDERED = frozenset({"map", "variant"})
"""Types without an order."""


@dataclass(frozen=True)
class Alignment:
    """Columns by which the rows of two sides are aligned.

    Attributes
    ----------
    keys : tuple of str
        Columns that both sides have.
    features : tuple of str
        Columns of the backfill that are compared.
    time : str
        A timestamp, or milliseconds since 1970, on both sides.
    partition_by : tuple of str
        Columns by which results are partitioned. ``ds`` is the UTC date of the time if no side has
        it. A column that both sides have is a key, too.
    bucket_minutes : int or None
        Width of the time buckets, a divisor of a day; None for no buckets.
    logged_as : mapping of str to str
        Names of features in the log, if they differ.
    """

    keys: tuple[str, ...]
    features: tuple[str, ...]
    time: str = "ts"
    partition_by: tuple[str, ...] = (DATE,)
    bucket_minutes: int | None = 60
    logged_as: Mapping[str, str] = field(default_factory=dict)

    @property
    def by(self) -> tuple[str, ...]:
        """The columns of the comparison table by which results are partitioned."""
        return (*self.partition_by, *([BUCKET] if self.bucket_minutes else []))

    def in_log(self, feature: str) -> str:
        """Return the name of a feature in the log."""
        return self.logged_as.get(feature, feature)


@dataclass(frozen=True)
class AlignedPart:
    """A backfill of some features, if not all share one.

    Attributes
    ----------
    data : DataFrame
    group_bys : mapping of str to sequence of str
        The features of each group-by that uses it.
    """

    data: DataFrame
    group_bys: Mapping[str, Sequence[str]]

    @property
    def features(self) -> tuple[str, ...]:
        """All features, without duplicates."""
        return tuple(dict.fromkeys(name for some in self.group_bys.values() for name in some))


def own_presence(table: DataFrame, group_by: str) -> str | None:
    """Return a group-by if a comparison table has a presence column of it, in any case; else None."""
    there = {name.casefold() for name in table.columns}
    return group_by if presence_of(group_by).casefold() in there else None


def presence_of(group_by: str) -> str:
    """Return the presence column of a group-by, for comparisons with several backfills."""
    return f"{PRESENCE}_{group_by}"


def copy_of(group_by: str) -> str:
    """Return the row-number column of a group-by, for comparisons with several backfills."""
    return f"{COPY}_{group_by}"


def has(schema: Schema, name: str) -> bool:
    """Return whether a side has a column, ignoring letter case."""
    return any(column.casefold() == name.casefold() for column in schema.names)


def require_comparable(
    pairs: Alignment, logged: Schema, backfills: Sequence[Schema], parts: Sequence[AlignedPart]
) -> None:
    """Raise `PreconditionError` if the sides are not comparable, listing all problems."""
    problems = list(_problems(pairs, logged, backfills, parts))
    if problems:
        raise PreconditionError("the sides cannot be compared: " + "; ".join(problems))


def _problems(
    pairs: Alignment, logged: Schema, backfills: Sequence[Schema], parts: Sequence[AlignedPart]
) -> Iterator[str]:
    """Yield a short message for each reason that the sides are not comparable."""
    width = pairs.bucket_minutes
    if width is not None and (width < 1 or DAY % width):
        yield f"bucket_minutes is {width}, which does not divide a day"
    every = [logged, *backfills]
    for name in pairs.partition_by:
        if name != DATE and not any(has(side, name) for side in every):
            yield f"no side has {name!r}"
    for schema, part in zip(backfills, parts, strict=True):
        whose = "the backfill" + (f" of {', '.join(part.group_bys)}" if len(parts) > 1 else "")
        sides = (("the log", logged), (whose, schema))
        shared = [n for n in pairs.partition_by if all(has(side, n) for _, side in sides)]
        wanted = [(name, name) for name in (*pairs.keys, pairs.time, *shared)]
        keys = len(wanted)
        wanted += [(pairs.in_log(name), name) for name in part.features]
        for i, pair_of in enumerate(wanted):
            absent = [(s, n) for s, n in zip(sides, pair_of, strict=True) if not has(s[1], n)]
            for (side, there), name in absent:
                yield f"{side} has no {name!r}{_hint(name, there)}"
            if not absent:
                types = tuple(
                    s.field(quote(n)).type for (_, s), n in zip(sides, pair_of, strict=True)
                )
                name = pair_of[1]
                yield from _unlike(name, types, whose, i < keys, name == pairs.time)
    of_parts = Counter(name for part in parts for name in part.features)
    yield from (f"{name!r} is of two backfills" for name, count in of_parts.items() if count > 1)
    names = Counter(name.casefold() for name in _columns(pairs, parts))
    yield from (f"{name!r} would be there twice" for name, count in names.items() if count > 1)


def _columns(pairs: Alignment, parts: Sequence[AlignedPart]) -> Iterator[str]:
    """Yield the column names of the comparison table."""
    yield from (*pairs.keys, pairs.time, *pairs.by, PRESENCE, COPY, NULL_KEY)
    if len(parts) > 1:
        named = [name for part in parts for name in part.group_bys]
        yield from (of(name) for name in named for of in (presence_of, copy_of))
    for name in pairs.features:
        yield from (LOGGED + name, name)


def _unlike(
    name: str,
    types: tuple[Any, Any],
    whose: str,
    is_key: bool,  # noqa: FBT001
    is_time: bool,  # noqa: FBT001
) -> Iterator[str]:
    kinds = {Schema.from_types({name: of}).field(quote(name)).kind for of in types}
    if is_time:
        if not (kinds <= INTEGRAL | {"timestamp"} or kinds == {"timestamp_ntz"}):
            yield f"{name!r} is {' and '.join(sorted(kinds))}, not a timestamp or milliseconds{_time_cure(kinds)}"
    elif not (kinds <= INTEGRAL or shape(types[0]) == shape(types[1]) if is_key else alike(types)):
        one, other = map(_type_name, types)
        if one == other:  # nested types that differ inside
            one, other = map(type_sql, types)
        yield f"{name!r} is {one} in the log and {other} in {whose}"
    elif is_key and holds(types[0], UNORDERED):
        yield f"{name!r} is {_type_name(types[0])}, by which rows cannot be joined"


def _time_cure(kinds: set[str]) -> str:
    """Return how to compare an instant with a wall clock; empty for other types."""
    if not ("timestamp_ntz" in kinds and kinds - {"timestamp_ntz"} <= INTEGRAL | {"timestamp"}):
        return ""
    return (
        ": convert the timestamp_ntz side to an instant, with the zone that its clock shows, such as"
        " to_utc_timestamp(CAST(ts AS TIMESTAMP), 'Europe/Berlin')"
    )


def _type_name(of: Any) -> str:
    found = shape(of)
    return str(found) if isinstance(found, str) else str(found[0])


def _hint(name: str, schema: Schema) -> str:
    close = nearest(name, schema.names)
    return f" (did you mean {close!r}?)" if close else ""
