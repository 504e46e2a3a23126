"""The comparison table: what was logged beside what was computed offline, row by row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from analyzers.consistency.equality import OWN, holds, shape
from analyzers.consistency.measures import COPY, LOGGED, NULL_KEY, PRESENCE
from analyzers.errors import PreconditionError, nearest
from analyzers.schema import INTEGRAL, NUMERIC, Schema
from analyzers.sql import quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DATE, BUCKET = "ds", "hr_minute"
DAY = 24 * 60
_UNORDERED = frozenset({"map", "variant"})
_MICROS = {
    "timestamp": "unix_micros({})",
    "timestamp_ntz": "timestampdiff(MICROSECOND, TIMESTAMP_NTZ'1970-01-01 00:00:00', {})",
}


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


def pair(logged: DataFrame, backfilled: DataFrame, pairs: Pairs) -> DataFrame:
    """Return the comparison table; nothing is read before it is used.

    It holds the keys, the time and the columns of `Pairs.by`; ``row_presence``, which is ``matched``,
    ``missing`` (only in the backfill) or ``extra`` (only in the log); ``row_copy``, the row's number among
    those of its key; ``row_null_key``, whether a key or the time is null; and for each feature
    ``logged_<feature>`` and ``<feature>``.

    Null keys equal each other. The rows of one key are numbered by their values on each side, and the
    first is joined with the first, so duplicates do not multiply.

    Raises
    ------
    PreconditionError
        Naming all that does not fit: columns that are not there, types that cannot be compared.
    """
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - Spark's customary name

    sides = Schema.of_frame(logged), Schema.of_frame(backfilled)
    problems = list(_problems(pairs, *sides))
    if problems:
        raise PreconditionError("the sides cannot be compared: " + "; ".join(problems))
    shared = [c for c in pairs.partition_by if all(_has(side, c) for side in sides)]
    a = _side(logged, pairs, shared, "a", sides)
    b = _side(backfilled, pairs, shared, "b", sides[::-1])
    joined = a.join(b, F.expr(f"{OWN}ak = {OWN}bk AND {OWN}an = {OWN}bn"), "full_outer")
    joined = joined.selectExpr(
        "*", f"coalesce({OWN}ak, {OWN}bk) AS {OWN}k", f"coalesce({OWN}am, {OWN}bm) AS {OWN}m"
    )
    key = [f"{OWN}k.k{i}" for i in range(len(pairs.keys) + 1)]
    columns = dict(zip((*pairs.keys, pairs.time), key, strict=True))
    for i, name in enumerate(pairs.partition_by):
        columns[name] = f"coalesce({OWN}ap{i}, {OWN}bp{i})"
    if pairs.bucket_minutes:
        columns[BUCKET] = _bucket(f"{OWN}m", pairs.bucket_minutes)
    columns[PRESENCE] = (
        f"CASE WHEN {OWN}ak IS NULL THEN 'missing' WHEN {OWN}bk IS NULL THEN 'extra' ELSE 'matched' END"
    )
    columns[COPY] = f"coalesce({OWN}an, {OWN}bn)"
    columns[NULL_KEY] = " OR ".join(f"{part} IS NULL" for part in key)
    for i, name in enumerate(pairs.features):
        columns |= {LOGGED + name: f"{OWN}av{i}", name: f"{OWN}bv{i}"}
    return joined.selectExpr(*(f"{sql} AS {quote(name)}" for name, sql in columns.items()))


def _side(
    data: DataFrame,
    pairs: Pairs,
    shared: Sequence[str],
    side: str,
    schemas: tuple[Schema, Schema],
) -> DataFrame:
    """Return one side with its key in one column, and its rows numbered among those of their key."""
    own, other = schemas
    in_own = pairs.in_log if side == "a" else str
    fields = [own.field(quote(in_own(name))) for name in pairs.features]
    time, minute = _time(own, other, pairs.time)
    key = [*(_key(own, other, name) for name in pairs.keys), time]
    key += [_key(own, other, name) for name in shared]
    names = ", ".join(f"'k{i}', {part}" for i, part in enumerate(key))
    parts = [_part(own, other, name, minute) for name in pairs.partition_by]
    # One struct, and not its fields: a join of structs takes null for equal to null.
    columns = {"k": f"named_struct({names})", "m": minute}
    columns |= {f"p{i}": part for i, part in enumerate(parts)}
    columns |= {f"v{i}": field.sql for i, field in enumerate(fields)}
    order = [
        f"CAST({OWN}{side}v{i} AS STRING)" if holds(field.type, _UNORDERED) else f"{OWN}{side}v{i}"
        for i, field in enumerate(fields)
    ]
    number = f"row_number() OVER (PARTITION BY {OWN}{side}k ORDER BY {', '.join(order)})"
    made = data.selectExpr(*(f"{sql} AS {OWN}{side}{name}" for name, sql in columns.items()))
    return made.selectExpr("*", f"{number} AS {OWN}{side}n")


def _key(own: Schema, other: Schema, name: str) -> str:
    fields = [side.field(quote(name)) for side in (own, other)]
    whole = {f.kind for f in fields} <= INTEGRAL
    return f"CAST({fields[0].sql} AS BIGINT)" if whole else fields[0].sql


def _time(own: Schema, other: Schema, name: str) -> tuple[str, str]:
    """Return SQL for the time, and for the number of its minute since 1970."""
    mine, theirs = own.field(quote(name)), other.field(quote(name))
    if mine.kind not in INTEGRAL:
        return mine.sql, _floor(_MICROS[mine.kind].format(mine.sql), 60_000_000)
    millis = f"CAST({mine.sql} AS BIGINT)"
    time = millis if theirs.kind in INTEGRAL else f"timestamp_millis({millis})"
    return time, _floor(millis, 60_000)


def _floor(number: str, unit: int) -> str:
    return f"(({number}) - pmod({number}, {unit}L)) div {unit}L"


def _part(own: Schema, other: Schema, name: str, minute: str) -> str:
    """Return SQL for a column by which results are told apart; null where only the other side has it."""
    if _has(own, name):
        return _key(own, own, name)
    if name == DATE and not _has(other, name):
        return f"CAST(date_add(DATE'1970-01-01', CAST({_floor(minute, DAY)} AS INT)) AS STRING)"
    return "NULL"


def _bucket(minute: str, width: int) -> str:
    """Return SQL for the start of a minute's bucket, as in ``07-00``."""
    start = f"(pmod({minute}, {DAY}L) - pmod({minute}, {width}L))"
    return f"concat(lpad({start} div 60, 2, '0'), '-', lpad({start} % 60, 2, '0'))"


def _has(schema: Schema, name: str) -> bool:
    return any(column.casefold() == name.casefold() for column in schema.names)


def _problems(pairs: Pairs, logged: Schema, backfilled: Schema) -> Iterator[str]:
    """Yield all that keeps two sides from being compared, in a few words each."""
    width = pairs.bucket_minutes
    if width is not None and (width < 1 or DAY % width):
        yield f"bucket_minutes is {width}, which does not divide a day"
    sides = (("the log", logged), ("the backfill", backfilled))
    for name in pairs.partition_by:
        if name != DATE and not any(_has(side, name) for _, side in sides):
            yield f"no side has {name!r}"
    shared = [name for name in pairs.partition_by if all(_has(side, name) for _, side in sides)]
    wanted = [(name, name) for name in (*pairs.keys, pairs.time, *shared)]
    keys = len(wanted)
    wanted += [(pairs.in_log(name), name) for name in pairs.features]
    for i, names in enumerate(wanted):
        absent = [(s, n) for s, n in zip(sides, names, strict=True) if not _has(s[1], n)]
        for (side, schema), name in absent:
            yield f"{side} has no {name!r}{_hint(name, schema)}"
        if not absent:
            types = tuple(s.field(quote(n)).type for (_, s), n in zip(sides, names, strict=True))
            yield from _unlike(names[1], types, i < keys, names[1] == pairs.time)
    columns = Counter(name.casefold() for name in _columns(pairs))
    yield from (f"{name!r} would be there twice" for name, count in columns.items() if count > 1)


def _columns(pairs: Pairs) -> Iterator[str]:
    """Yield the names of the comparison table's columns."""
    yield from (*pairs.keys, pairs.time, *pairs.by, PRESENCE, COPY, NULL_KEY)
    for name in pairs.features:
        yield from (LOGGED + name, name)


def _unlike(name: str, types: tuple[Any, Any], is_key: bool, is_time: bool) -> Iterator[str]:  # noqa: FBT001
    kinds = {Schema.from_types({name: of}).field(quote(name)).kind for of in types}
    if is_time:
        if not (kinds <= INTEGRAL | {"timestamp"} or kinds == {"timestamp_ntz"}):
            yield f"{name!r} is {' and '.join(sorted(kinds))}, not a timestamp or milliseconds"
    elif not kinds <= (INTEGRAL if is_key else NUMERIC) and shape(types[0]) != shape(types[1]):
        yield f"{name!r} is {_told(types[0])} in the log and {_told(types[1])} in the backfill"
    elif is_key and holds(types[0], _UNORDERED):
        yield f"{name!r} is {_told(types[0])}, by which rows cannot be joined"


def _told(of: Any) -> str:
    found = shape(of)
    return str(found) if isinstance(found, str) else str(found[0])


def _hint(name: str, schema: Schema) -> str:
    close = nearest(name, schema.names)
    return f" (did you mean {close!r}?)" if close else ""
