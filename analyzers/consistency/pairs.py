"""The comparison table: what was logged beside what was computed offline, row by row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from analyzers.consistency.equality import OWN, holds, shape
from analyzers.consistency.measures import COPY, LOGGED, NULL_KEY, PRESENCE
from analyzers.errors import PreconditionError, nearest
from analyzers.schema import INTEGRAL, NUMERIC, Field, Schema
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
    return pair_parts(logged, [Part(backfilled, {"": pairs.features})], pairs)


def pair_parts(logged: DataFrame, parts: Sequence[Part], pairs: Pairs) -> DataFrame:
    """Return the comparison table of features that have more than one backfill; see `pair`.

    Of several backfills it also holds ``row_presence_<group_by>``, which is null where a row is in the
    backfill of other group-bys only. ``row_presence`` is then of all together.
    """
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - Spark's customary name

    sides = [Schema.of_frame(logged), *(Schema.of_frame(part.data) for part in parts)]
    require_alike(pairs, sides[0], sides[1:], parts)
    at = {name: (p, i) for p, part in enumerate(parts) for i, name in enumerate(part.features)}
    shared = [c for c in pairs.partition_by if all(_has(side, c) for side in sides)]
    own = Side(sides, pairs, shared)
    names = [[f"a{p}v{i}" for i in range(len(part.features))] for p, part in enumerate(parts)]
    joined = own.logged(logged, [part.features for part in parts], names)
    for p, part in enumerate(parts):
        other = own.backfilled(part.data, p, part.features)
        on = f"{OWN}k = {OWN}b{p}k AND {OWN}a{p}n = {OWN}b{p}n"
        merged = {"k": f"b{p}k", "m": f"b{p}m"}
        merged |= {f"p{i}": f"b{p}p{i}" for i in range(len(pairs.partition_by))}
        # Rows that are in no log are numbered by the backfill that they came from.
        merged |= {f"a{q}n": f"b{p}n" for q in range(len(parts))}
        joined = joined.join(other, F.expr(on), "full_outer")
        kept = [name for name in joined.columns if name.removeprefix(OWN) not in merged]
        joined = joined.selectExpr(
            *(f"coalesce({OWN}{a}, {OWN}{b}) AS {OWN}{a}" for a, b in merged.items()),
            *map(quote, kept),
        )
    key = [f"{OWN}k.k{i}" for i in range(len(pairs.keys) + 1)]
    columns = dict(zip((*pairs.keys, pairs.time), key, strict=True))
    columns |= {name: f"{OWN}p{i}" for i, name in enumerate(pairs.partition_by)}
    if pairs.bucket_minutes:
        columns[BUCKET] = _bucket(f"{OWN}m", pairs.bucket_minutes)
    there = [f"{OWN}b{p}k IS NOT NULL" for p in range(len(parts))]
    columns[PRESENCE] = _presence(f"({' OR '.join(there)})")
    if len(parts) > 1:
        for known, part in zip(there, parts, strict=True):
            only = f"CASE WHEN {OWN}ak IS NOT NULL OR {known} THEN {_presence(known)} END"
            columns |= {presence_of(name): only for name in part.group_bys}
    columns[COPY] = f"{OWN}a0n"
    columns[NULL_KEY] = " OR ".join(f"{part} IS NULL" for part in key)
    for name in pairs.features:
        p, i = at[name]
        columns |= {LOGGED + name: f"{OWN}a{p}v{i}", name: f"{OWN}b{p}v{i}"}
    return joined.selectExpr(*(f"{sql} AS {quote(name)}" for name, sql in columns.items()))


def require_alike(
    pairs: Pairs, logged: Schema, backfills: Sequence[Schema], parts: Sequence[Part]
) -> None:
    """Raise `PreconditionError`, naming all that keeps the sides from being compared."""
    problems = list(_problems(pairs, logged, backfills, parts))
    if problems:
        raise PreconditionError("the sides cannot be compared: " + "; ".join(problems))


def _presence(in_backfill: str) -> str:
    """Return SQL for the side that a row is on, which is on one of both."""
    return f"CASE WHEN {OWN}ak IS NULL THEN 'missing' WHEN {in_backfill} THEN 'matched' ELSE 'extra' END"


@dataclass(frozen=True)
class Side:
    """How the rows of each side are written, so that those of all sides can be joined.

    Attributes
    ----------
    schemas : sequence of Schema
        Of the log, and of each backfill.
    pairs : Pairs
    shared : sequence of str
        The partition columns that are keys, too.
    """

    schemas: Sequence[Schema]
    pairs: Pairs
    shared: Sequence[str]

    def logged(
        self, data: DataFrame, parts: Sequence[Sequence[str]], names: Sequence[Sequence[str]]
    ) -> DataFrame:
        """Return the log with its key in one column, and its rows numbered for each backfill."""
        fields = {
            to: self.schemas[0].field(quote(self.pairs.in_log(name)))
            for features, some in zip(parts, names, strict=True)
            for name, to in zip(features, some, strict=True)
        }
        columns = {**self._own(0), **{to: field.sql for to, field in fields.items()}}
        made = data.selectExpr(*(f"{sql} AS {OWN}{name}" for name, sql in columns.items()))
        numbers = [
            f"{_number('k', [(to, fields[to]) for to in some])} AS {OWN}a{p}n"
            for p, some in enumerate(names)
        ]
        return made.selectExpr("*", f"{OWN}k AS {OWN}ak", *numbers)

    def backfilled(self, data: DataFrame, p: int, features: Sequence[str]) -> DataFrame:
        """Return a backfill with its key in one column, and its rows numbered among those of their key."""
        schema = self.schemas[p + 1]
        fields = {f"b{p}v{i}": schema.field(quote(name)) for i, name in enumerate(features)}
        columns = {f"b{p}{name}": sql for name, sql in self._own(p + 1).items()}
        columns |= {to: field.sql for to, field in fields.items()}
        made = data.selectExpr(*(f"{sql} AS {OWN}{name}" for name, sql in columns.items()))
        return made.selectExpr("*", f"{_number(f'b{p}k', list(fields.items()))} AS {OWN}b{p}n")

    def _own(self, at: int) -> dict[str, str]:
        """Return SQL for the key, the minute and the columns by which results are told apart."""
        own = self.schemas[at]
        time, minute = _time(own, self.schemas, self.pairs.time)
        key = [*(_key(own, self.schemas, name) for name in self.pairs.keys), time]
        key += [_key(own, self.schemas, name) for name in self.shared]
        names = ", ".join(f"'k{i}', {part}" for i, part in enumerate(key))
        # One struct, and not its fields: a join of structs takes null for equal to null.
        columns = {"k": f"named_struct({names})", "m": minute}
        parts = self.pairs.partition_by
        return columns | {f"p{i}": _part(own, name, minute) for i, name in enumerate(parts)}


def _number(key: str, fields: Sequence[tuple[str, Field]]) -> str:
    """Return SQL for a row's number among those of its key, by its values."""
    order = [
        f"CAST({OWN}{to} AS STRING)" if holds(field.type, _UNORDERED) else f"{OWN}{to}"
        for to, field in fields
    ]
    return f"row_number() OVER (PARTITION BY {OWN}{key} ORDER BY {', '.join(order)})"


def _key(own: Schema, schemas: Sequence[Schema], name: str) -> str:
    kinds = {schema.field(quote(name)).kind for schema in schemas}
    sql = own.field(quote(name)).sql
    return f"CAST({sql} AS BIGINT)" if kinds <= INTEGRAL else sql


def _time(own: Schema, schemas: Sequence[Schema], name: str) -> tuple[str, str]:
    """Return SQL for the time, and for the number of its minute since 1970."""
    mine = own.field(quote(name))
    if mine.kind not in INTEGRAL:
        return mine.sql, _floor(_MICROS[mine.kind].format(mine.sql), 60_000_000)
    millis = f"CAST({mine.sql} AS BIGINT)"
    all_millis = all(schema.field(quote(name)).kind in INTEGRAL for schema in schemas)
    time = millis if all_millis else f"timestamp_millis({millis})"
    return time, _floor(millis, 60_000)


def _floor(number: str, unit: int) -> str:
    return f"(({number}) - pmod({number}, {unit}L)) div {unit}L"


def _part(own: Schema, name: str, minute: str) -> str:
    """Return SQL for a column by which results are told apart; null where only another side has it."""
    if _has(own, name):
        return _key(own, [own], name)
    if name == DATE:
        return f"CAST(date_add(DATE'1970-01-01', CAST({_floor(minute, DAY)} AS INT)) AS STRING)"
    return "NULL"


def _bucket(minute: str, width: int) -> str:
    """Return SQL for the start of a minute's bucket, as in ``07-00``."""
    start = f"(pmod({minute}, {DAY}L) - pmod({minute}, {width}L))"
    return f"concat(lpad({start} div 60, 2, '0'), '-', lpad({start} % 60, 2, '0'))"


def _has(schema: Schema, name: str) -> bool:
    return any(column.casefold() == name.casefold() for column in schema.names)


def _problems(
    pairs: Pairs, logged: Schema, backfills: Sequence[Schema], parts: Sequence[Part]
) -> Iterator[str]:
    """Yield all that keeps the sides from being compared, in a few words each."""
    width = pairs.bucket_minutes
    if width is not None and (width < 1 or DAY % width):
        yield f"bucket_minutes is {width}, which does not divide a day"
    every = [logged, *backfills]
    for name in pairs.partition_by:
        if name != DATE and not any(_has(side, name) for side in every):
            yield f"no side has {name!r}"
    shared = [name for name in pairs.partition_by if all(_has(side, name) for side in every)]
    for schema, part in zip(backfills, parts, strict=True):
        whose = "the backfill" + (f" of {', '.join(part.group_bys)}" if len(parts) > 1 else "")
        sides = (("the log", logged), (whose, schema))
        wanted = [(name, name) for name in (*pairs.keys, pairs.time, *shared)]
        keys = len(wanted)
        wanted += [(pairs.in_log(name), name) for name in part.features]
        for i, pair_of in enumerate(wanted):
            absent = [(s, n) for s, n in zip(sides, pair_of, strict=True) if not _has(s[1], n)]
            for (side, there), name in absent:
                yield f"{side} has no {name!r}{_hint(name, there)}"
            if not absent:
                types = tuple(
                    s.field(quote(n)).type for (_, s), n in zip(sides, pair_of, strict=True)
                )
                name = pair_of[1]
                yield from _unlike(name, types, i < keys, name == pairs.time)
    names = Counter(name.casefold() for name in _columns(pairs, parts))
    yield from (f"{name!r} would be there twice" for name, count in names.items() if count > 1)


def _columns(pairs: Pairs, parts: Sequence[Part]) -> Iterator[str]:
    """Yield the names of the comparison table's columns."""
    yield from (*pairs.keys, pairs.time, *pairs.by, PRESENCE, COPY, NULL_KEY)
    if len(parts) > 1:
        yield from (presence_of(name) for part in parts for name in part.group_bys)
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
