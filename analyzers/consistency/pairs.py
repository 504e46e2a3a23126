"""How the rows of a log and of backfills belong together, and what keeps them from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from analyzers.consistency.equality import holds, shape
from analyzers.consistency.measures import COPY, LOGGED, NULL_KEY, PRESENCE
from analyzers.errors import PreconditionError, nearest
from analyzers.schema import INTEGRAL, NUMERIC, Schema
from analyzers.sql import quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DATE, BUCKET = "ds", "hr_minute"
OTHER = "other"
"""The presence of rows that only other backfills have."""
DAY = 24 * 60
UNORDERED = frozenset({"map", "variant"})
"""Types whose values have no order."""


@dataclass(frozen=True)
class Pairs:
    """How the rows of two sides belong together.

    Attributes
    ----------
    keys : tuple of str
        Columns that both sides have.
    features : tuple of str
        Columns of the backfill that are compared.
    time : str
        A timestamp, or milliseconds since 1970, on both sides.
    partition_by : tuple of str
        Columns by which results are told apart. ``ds`` is the date of the time, in UTC, where no side has
        it. One that both sides have is a key, too.
    bucket_minutes : int or None
        The width of the buckets of time, which divides a day; None for no buckets.
    logged_as : mapping of str to str
        What features are called in the log, where that is another name.
    """

    keys: tuple[str, ...]
    features: tuple[str, ...]
    time: str = "ts"
    partition_by: tuple[str, ...] = (DATE,)
    bucket_minutes: int | None = 60
    logged_as: Mapping[str, str] = field(default_factory=dict)

    @property
    def by(self) -> tuple[str, ...]:
        """The columns of the comparison table by which results are told apart."""
        return (*self.partition_by, *([BUCKET] if self.bucket_minutes else []))

    def in_log(self, feature: str) -> str:
        """Return what a feature is called in the log."""
        return self.logged_as.get(feature, feature)


@dataclass(frozen=True)
class Part:
    """A backfill of some features, where others have one of their own.

    Attributes
    ----------
    data : DataFrame
    group_bys : mapping of str to sequence of str
        The features of each group-by that it is of.
    """

    data: DataFrame
    group_bys: Mapping[str, Sequence[str]]

    @property
    def features(self) -> tuple[str, ...]:
        """All features, each once."""
        return tuple(dict.fromkeys(name for some in self.group_bys.values() for name in some))


def presence_of(group_by: str) -> str:
    """Return the column that says which rows a group-by has, where not all have one backfill."""
    return f"{PRESENCE}_{group_by}"


def copy_of(group_by: str) -> str:
    """Return the column of the rows' numbers among those of their key, where not all have one backfill."""
    return f"{COPY}_{group_by}"


def has(schema: Schema, name: str) -> bool:
    """Whether a side has a column, in whatever letters."""
    return any(column.casefold() == name.casefold() for column in schema.names)


def require_alike(
    pairs: Pairs, logged: Schema, backfills: Sequence[Schema], parts: Sequence[Part]
) -> None:
    """Raise `PreconditionError`, naming all that keeps the sides from being compared."""
    problems = list(_problems(pairs, logged, backfills, parts))
    if problems:
        raise PreconditionError("the sides cannot be compared: " + "; ".join(problems))


def _problems(
    pairs: Pairs, logged: Schema, backfills: Sequence[Schema], parts: Sequence[Part]
) -> Iterator[str]:
    """Yield all that keeps the sides from being compared, in a few words each."""
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


def _columns(pairs: Pairs, parts: Sequence[Part]) -> Iterator[str]:
    """Yield the names of the comparison table's columns."""
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
            yield f"{name!r} is {' and '.join(sorted(kinds))}, not a timestamp or milliseconds"
    elif not kinds <= (INTEGRAL if is_key else NUMERIC) and shape(types[0]) != shape(types[1]):
        yield f"{name!r} is {_told(types[0])} in the log and {_told(types[1])} in {whose}"
    elif is_key and holds(types[0], UNORDERED):
        yield f"{name!r} is {_told(types[0])}, by which rows cannot be joined"


def _told(of: Any) -> str:
    found = shape(of)
    return str(found) if isinstance(found, str) else str(found[0])


def _hint(name: str, schema: Schema) -> str:
    close = nearest(name, schema.names)
    return f" (did you mean {close!r}?)" if close else ""
