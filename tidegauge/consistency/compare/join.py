"""Comparison table: full outer join of logged and backfilled rows.

An `Alignment` names the columns by which rows of both sides are aligned. The sides are checked to be
comparable before they are joined.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tidegauge.analyzers.core.errors import PreconditionError, nearest
from tidegauge.analyzers.core.schema import INTEGRAL, Field, Schema
from tidegauge.analyzers.core.sql import quote, type_sql, wall_clock_micros
from tidegauge.consistency.compare.equality import OWN, alike, holds, shape
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


def pair(logged: DataFrame, backfilled: DataFrame, pairs: Alignment) -> DataFrame:
    """Return the comparison table, lazily.

    It holds the keys, the time and the columns of `Alignment.by`; ``row_presence``, which is
    ``matched``, ``missing`` (only in the backfill) or ``extra`` (only in the log); ``row_copy``,
    the row's number among those of its key; ``row_null_key``, whether a key or the time is null;
    and for each feature ``logged_<feature>`` and ``<feature>``.

    Times are cut to milliseconds: a log of milliseconds matches a backfill of microseconds. Null keys
    equal each other. Rows with the same key are numbered by their values on each side,
    and joined by number, so duplicates do not multiply.

    Raises
    ------
    PreconditionError
        Listing all mismatches: missing columns, and types that are not comparable.
    """
    return pair_parts(logged, [AlignedPart(backfilled, {"": pairs.features})], pairs)


def pair_parts(logged: DataFrame, parts: Sequence[AlignedPart], pairs: Alignment) -> DataFrame:
    """Return the comparison table of features with several backfills; see `pair`.

    With several backfills it also holds ``row_presence_<group_by>``, which is ``other`` for rows
    that occur only in the backfills of other group-bys, and ``row_copy_<group_by>``. With these in
    place of ``row_presence`` and ``row_copy``, which span all backfills, each group-by has the
    result of `pair` for its backfill alone. Rows of several backfills that are not in the log are
    one row if their key, number and partition are the same.
    """
    from pyspark.sql import functions as F

    schemas = [Schema.from_frame(logged), *(Schema.from_frame(part.data) for part in parts)]
    require_comparable(pairs, schemas[0], schemas[1:], parts)
    layout = Layout(schemas, pairs)
    joined = layout.logged(logged, [part.features for part in parts])
    for p, part in enumerate(parts):
        other = layout.backfilled(part.data, p, part.features)
        joined = joined.join(other, F.expr(layout.meets(p)), "full_outer")
        merged = layout.merged(p)
        kept = [name for name in joined.columns if name.removeprefix(OWN) not in merged]
        joined = joined.selectExpr(
            *(f"{_merged(a, b)} AS {OWN}{a}" for a, b in merged.items()),
            *map(quote, kept),
        )
    key = [f"{OWN}k.k{i}" for i in range(len(pairs.keys) + 1)]
    columns = dict(zip((*pairs.keys, pairs.time), key, strict=True))
    columns |= {name: f"{OWN}p{i}" for i, name in enumerate(pairs.partition_by)}
    if pairs.bucket_minutes:
        columns[BUCKET] = _bucket(f"{OWN}m", pairs.bucket_minutes)
    there = [f"{OWN}b{p}k IS NOT NULL" for p in range(len(parts))]
    columns[PRESENCE] = _presence(" OR ".join(there))
    copies = [f"{OWN}a{p}n" for p in range(len(parts))]
    columns[COPY] = f"coalesce({', '.join(copies)})"
    columns[NULL_KEY] = " OR ".join(f"{part} IS NULL" for part in key)
    if len(parts) > 1:
        for known, copy, part in zip(there, copies, parts, strict=True):
            columns |= {presence_of(name): _presence(known) for name in part.group_bys}
            columns |= {copy_of(name): copy for name in part.group_bys}
    at = {name: (p, i) for p, part in enumerate(parts) for i, name in enumerate(part.features)}
    for name in pairs.features:
        p, i = at[name]
        columns |= {LOGGED + name: f"{OWN}a{p}v{i}", name: f"{OWN}b{p}v{i}"}
    return joined.selectExpr(*(f"{sql} AS {quote(name)}" for name, sql in columns.items()))


def rows_of(table: DataFrame, group_by: str | None) -> DataFrame:
    """Return the rows of a group-by with its own backfill, or the whole table for None."""
    if group_by is None:
        return table
    own = {PRESENCE: presence_of(group_by), COPY: copy_of(group_by)}
    others = [quote(name) for name in table.columns if name not in own]
    # Null in rows of days that were compared with a single backfill.
    chosen = [
        f"coalesce({quote(one)}, {quote(name)}) AS {quote(name)}" for name, one in own.items()
    ]
    return table.selectExpr(*others, *chosen).where(f"{quote(PRESENCE)} <> '{OTHER}'")


def _merged(joined: str, backfilled: str) -> str:
    """Return SQL for a column of a row: of the rows joined so far, else of the backfill.

    The log alone says to which partition its rows belong, even if it is none: one backfill may know a
    partition where another does not, and each is compared as if it were alone.
    """
    either = f"coalesce({OWN}{joined}, {OWN}{backfilled})"
    return f"IF({OWN}ak IS NULL, {either}, {OWN}{joined})" if joined.startswith("p") else either


def _presence(in_backfill: str) -> str:
    """Return SQL for the presence of a row, given its presence in a backfill."""
    in_log = f"CASE WHEN {in_backfill} THEN 'matched' ELSE 'extra' END"
    in_none = f"CASE WHEN {in_backfill} THEN 'missing' ELSE '{OTHER}' END"
    return f"CASE WHEN {OWN}ak IS NOT NULL THEN {in_log} ELSE {in_none} END"


@dataclass(frozen=True)
class Layout:
    """Column layout of each side, so that the rows of all sides can be joined.

    A row has its key, ``k``, its minute, ``m``, and the partition columns, ``p0`` and so on. For
    the log, ``a0s`` holds the partition columns that it shares with the first backfill, ``a0n`` is
    the row's number within its key and these, by the features of that backfill, and ``a0v0`` the
    first of these features. The columns of the first backfill begin with ``b0``.

    Attributes
    ----------
    schemas : sequence of Schema
        Schemas of the log and of each backfill.
    pairs : Alignment
    """

    schemas: Sequence[Schema]
    pairs: Alignment

    def shared(self, p: int) -> list[int]:
        """Return the indexes of partition columns that are also keys, as both sides have them."""
        both = (self.schemas[0], self.schemas[p + 1])
        names = enumerate(self.pairs.partition_by)
        return [i for i, name in names if all(has(side, name) for side in both)]

    def logged(self, data: DataFrame, parts: Sequence[Sequence[str]]) -> DataFrame:
        """Return the log with rows numbered for each backfill."""
        columns, numbers = self._own(0), [f"{OWN}k AS {OWN}ak"]
        for p, features in enumerate(parts):
            columns |= {f"a{p}{name}": sql for name, sql in self._shared(p, 0).items()}
            fields = {
                f"a{p}v{i}": self.schemas[0].field(quote(self.pairs.in_log(name)))
                for i, name in enumerate(features)
            }
            columns |= {to: field.sql for to, field in fields.items()}
            numbers.append(f"{self._number(p, 'k', f'a{p}', fields)} AS {OWN}a{p}n")
        made = data.selectExpr(*(f"{sql} AS {OWN}{name}" for name, sql in columns.items()))
        return made.selectExpr("*", *numbers)

    def backfilled(self, data: DataFrame, p: int, features: Sequence[str]) -> DataFrame:
        """Return a backfill with rows numbered."""
        own = f"b{p}"
        schema = self.schemas[p + 1]
        fields = {f"{own}v{i}": schema.field(quote(name)) for i, name in enumerate(features)}
        owned = self._own(p + 1) | self._shared(p, p + 1)
        columns = {own + name: sql for name, sql in owned.items()}
        columns |= {to: field.sql for to, field in fields.items()}
        made = data.selectExpr(*(f"{sql} AS {OWN}{name}" for name, sql in columns.items()))
        return made.selectExpr("*", f"{self._number(p, f'{own}k', own, fields)} AS {OWN}{own}n")

    def meets(self, p: int) -> str:
        """Return the join condition between the rows joined so far and a backfill."""
        shared = self.shared(p)
        # Spark sees no join key in a difference. By the others alone, the rows are partitioned and
        # sorted already, as they were numbered within them: it shuffles them once, not twice.
        conditions = [f"{OWN}k = {OWN}b{p}k", f"{OWN}a{p}n - {OWN}b{p}n = 0"]
        if shared:
            conditions.append(f"{OWN}a{p}s = {OWN}b{p}s")
        if p:  # rows of other backfills that are not in the log
            others = [i for i in range(len(self.pairs.partition_by)) if i not in shared]
            conditions += [f"({OWN}ak IS NOT NULL OR {OWN}p{i} <=> {OWN}b{p}p{i})" for i in others]
        return " AND ".join(conditions)

    def merged(self, p: int) -> dict[str, str]:
        """Return the columns to coalesce: those joined so far by those of a backfill."""
        merged = {name: f"b{p}{name}" for name in ("k", "m")}
        merged |= {f"p{i}": f"b{p}p{i}" for i in range(len(self.pairs.partition_by))}
        # A row that is not in the log keeps its number from the backfill, which exceeds those of
        # the log's rows of its key, so it joins no row that a logged one joins. Numbers of other
        # keys are unrelated.
        alike = [q for q in range(len(self.schemas) - 1) if self.shared(q) == self.shared(p)]
        both = ("n", "s") if self.shared(p) else ("n",)
        return merged | {f"a{q}{name}": f"b{p}{name}" for q in alike for name in both}

    def _own(self, at: int) -> dict[str, str]:
        """Return SQL for the key, the minute and the partition columns."""
        own = self.schemas[at]
        time, minute = _time(own, self.schemas, self.pairs.time)
        key = [*(_key(own, self.schemas, name) for name in self.pairs.keys), time]
        columns = {"k": _struct({f"k{i}": part for i, part in enumerate(key)}), "m": minute}
        parts = enumerate(self.pairs.partition_by)
        return columns | {f"p{i}": _part(own, self.schemas, name, minute) for i, name in parts}

    def _shared(self, p: int, at: int) -> dict[str, str]:
        """Return SQL, of a side, for the partition columns that the log shares with a backfill."""
        names, own = [f"p{i}" for i in self.shared(p)], self._own(at)
        return {"s": _struct({name: own[name] for name in names})} if names else {}

    def _number(self, p: int, key: str, own: str, fields: Mapping[str, Field]) -> str:
        """Return SQL for a row's number within its key, ordered by its values."""
        within = ", ".join(OWN + name for name in (key, *([f"{own}s"] if self.shared(p) else ())))
        order = [_ordered(OWN + to, field.type) for to, field in fields.items()] or ["NULL"]
        return f"row_number() OVER (PARTITION BY {within} ORDER BY {', '.join(order)})"


def _struct(fields: Mapping[str, str]) -> str:
    """Return SQL for a struct: in a join of structs, unlike of their fields, nulls equal each other."""
    told = ", ".join(f"'{name}', {sql}" for name, sql in fields.items())
    return f"named_struct({told})"


def _ordered(sql: str, of: Any, depth: int = 0) -> str:
    """Return SQL of a sort key: equal values sort equal, whatever the order of a map's keys."""
    if not holds(of, UNORDERED):
        return sql
    k, x = f"{OWN}k{depth}", f"{OWN}x{depth}"
    match of:
        case {"type": "array", "elementType": element}:
            return f"transform({sql}, {x} -> {_ordered(x, element, depth + 1)})"
        case {"type": "map", "valueType": value}:
            values = f"transform_values({sql}, ({k}, {x}) -> {_ordered(x, value, depth + 1)})"
            return f"array_sort(map_entries({values}))"
        case {"type": "struct", "fields": fields}:
            parts = (_ordered(f"{sql}.{quote(f['name'])}", f["type"], depth) for f in fields)
            return f"CASE WHEN {sql} IS NOT NULL THEN struct({', '.join(parts)}) END"
    return f"to_json({sql})"


def _key(own: Schema, schemas: Sequence[Schema], name: str) -> str:
    kinds = {schema.field(quote(name)).kind for schema in schemas}
    sql = own.field(quote(name)).sql
    return f"CAST({sql} AS BIGINT)" if kinds <= INTEGRAL else sql


def _time(own: Schema, schemas: Sequence[Schema], name: str) -> tuple[str, str]:
    """Return SQL for the time, and for its minute since 1970."""
    mine = own.field(quote(name))
    if mine.kind not in INTEGRAL:
        is_instant = mine.kind == "timestamp"
        micros = f"unix_micros({mine.sql})" if is_instant else wall_clock_micros(mine.sql)
        return _in_milliseconds(mine.sql, micros), _floor(micros, 60_000_000)
    millis = f"CAST({mine.sql} AS BIGINT)"
    all_millis = all(schema.field(quote(name)).kind in INTEGRAL for schema in schemas)
    time = millis if all_millis else f"timestamp_millis({millis})"
    return time, _floor(millis, 60_000)


def _in_milliseconds(time: str, micros: str) -> str:
    """Return SQL for a time cut to milliseconds, of its own type.

    One side may have logged milliseconds of an event whose microseconds the other side has.
    """
    return f"timestampadd(MICROSECOND, -CAST(pmod({micros}, 1000L) AS INT), {time})"


def _floor(number: str, unit: int) -> str:
    return f"(({number}) - pmod({number}, {unit}L)) div {unit}L"


def _part(own: Schema, schemas: Sequence[Schema], name: str, minute: str) -> str:
    """Return SQL for a partition column; null if only another side has it."""
    having = [side for side in schemas if has(side, name)]
    fields = [side.field(quote(name)) for side in having]
    types = {"long" if field.kind in INTEGRAL else str(shape(field.type)) for field in fields}
    if name == DATE and len(having) < len(schemas):
        types.add("string")
    if has(own, name):
        found = _key(own, [own], name)
        return found if len(types) == 1 else f"CAST({found} AS STRING)"
    if name == DATE:
        return f"CAST(date_add(DATE'1970-01-01', CAST({_floor(minute, DAY)} AS INT)) AS STRING)"
    return "NULL"


def _bucket(minute: str, width: int) -> str:
    """Return SQL for the start of a minute's bucket, as in ``07-00``."""
    start = f"(pmod({minute}, {DAY}L) - pmod({minute}, {width}L))"
    return f"concat(lpad({start} div 60, 2, '0'), '-', lpad({start} % 60, 2, '0'))"
