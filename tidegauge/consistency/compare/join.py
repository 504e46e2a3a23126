"""Comparison table: full outer join of logged and backfilled rows.

An `Alignment` names the columns that align the rows of both sides. Before the join, both sides are
checked to be comparable.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tidegauge.analyzers.core.errors import PreconditionError, nearest
from tidegauge.analyzers.core.schema import INTEGRAL, Field, Schema
from tidegauge.analyzers.core.sql import quote, type_sql, wall_clock_micros
from tidegauge.consistency.compare.equality import RESERVED_PREFIX, alike, holds, shape
from tidegauge.consistency.compare.measures import (
    COPY_COLUMN,
    LOGGED_PREFIX,
    NULL_KEY_COLUMN,
    PRESENCE_COLUMN,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


DATE_COLUMN, BUCKET_COLUMN = "ds", "hr_minute"
PRESENT_ELSEWHERE = "other"
"""Presence of rows that occur only in other backfills."""
DAY_MINUTES = 24 * 60
UNORDERED_TYPES = frozenset({"map", "variant"})
"""Types without an order."""


@dataclass(frozen=True)
class Alignment:
    """Columns that align the rows of both sides.

    Attributes
    ----------
    keys : tuple of str
        Columns that both sides have.
    features : tuple of str
        Columns of the backfill that are compared.
    time : str
        A timestamp, or milliseconds since 1970, on both sides.
    partition_by : tuple of str
        Columns that partition the results. If no side has ``ds``, it is the UTC date of the time. A
        column that both sides have is also a key.
    bucket_minutes : int or None
        Width of the time buckets, a divisor of a day; None for no buckets.
    logged_as : mapping of str to str
        Names of features in the log, if they differ.
    """

    keys: tuple[str, ...]
    features: tuple[str, ...]
    time: str = "ts"
    partition_by: tuple[str, ...] = (DATE_COLUMN,)
    bucket_minutes: int | None = 60
    logged_as: Mapping[str, str] = field(default_factory=dict)

    @property
    def group_by(self) -> tuple[str, ...]:
        """The columns of the comparison table that partition the results."""
        return (*self.partition_by, *([BUCKET_COLUMN] if self.bucket_minutes else []))

    def in_log(self, feature: str) -> str:
        """Return the name of a feature in the log."""
        return self.logged_as.get(feature, feature)


@dataclass(frozen=True)
class AlignedPart:
    """A backfill of some features; the features can have several backfills.

    Attributes
    ----------
    data : DataFrame
        The backfilled rows.
    group_bys : mapping of str to sequence of str
        The features of each group-by that uses the backfill.
    """

    data: DataFrame
    group_bys: Mapping[str, Sequence[str]]

    @property
    def features(self) -> tuple[str, ...]:
        """All features, without duplicates."""
        return tuple(
            dict.fromkeys(name for features in self.group_bys.values() for name in features)
        )


def own_presence(table: DataFrame, group_by: str) -> str | None:
    """Return a group-by if a comparison table has its presence column, ignoring case; otherwise None."""
    columns = {name.casefold() for name in table.columns}
    return group_by if presence_of(group_by).casefold() in columns else None


def presence_of(group_by: str) -> str:
    """Return the presence column of a group-by, for comparisons with several backfills."""
    return f"{PRESENCE_COLUMN}_{group_by}"


def copy_of(group_by: str) -> str:
    """Return the row-number column of a group-by, for comparisons with several backfills."""
    return f"{COPY_COLUMN}_{group_by}"


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
    if width is not None and (width < 1 or DAY_MINUTES % width):
        yield f"bucket_minutes is {width}, which does not divide a day"
    sides_schemas = [logged, *backfills]
    for name in pairs.partition_by:
        if name != DATE_COLUMN and not any(has(side, name) for side in sides_schemas):
            yield f"neither side has a column {name!r}"
    for schema, part in zip(backfills, parts, strict=True):
        backfill = "the backfill" + (f" of {', '.join(part.group_bys)}" if len(parts) > 1 else "")
        sides = (("the log", logged), (backfill, schema))
        shared = [n for n in pairs.partition_by if all(has(side, n) for _, side in sides)]
        column_pairs = [(name, name) for name in (*pairs.keys, pairs.time, *shared)]
        keys = len(column_pairs)
        column_pairs += [(pairs.in_log(name), name) for name in part.features]
        for i, pair_of in enumerate(column_pairs):
            absent = [(s, n) for s, n in zip(sides, pair_of, strict=True) if not has(s[1], n)]
            for (side, side_schema), name in absent:
                yield f"{side} has no {name!r}{_name_hint(name, side_schema)}"
            if not absent:
                types = tuple(
                    s.field(quote(n)).type for (_, s), n in zip(sides, pair_of, strict=True)
                )
                name = pair_of[1]
                yield from _type_problems(name, types, backfill, i < keys, name == pairs.time)
    part_counts = Counter(name for part in parts for name in part.features)
    yield from (
        f"feature {name!r} has two backfills" for name, count in part_counts.items() if count > 1
    )
    names = Counter(name.casefold() for name in _column_names(pairs, parts))
    yield from (
        f"the comparison table would have two columns {name!r}"
        for name, count in names.items()
        if count > 1
    )


def _column_names(pairs: Alignment, parts: Sequence[AlignedPart]) -> Iterator[str]:
    """Yield the column names of the comparison table."""
    yield from (
        *pairs.keys,
        pairs.time,
        *pairs.group_by,
        PRESENCE_COLUMN,
        COPY_COLUMN,
        NULL_KEY_COLUMN,
    )
    if len(parts) > 1:
        group_bys = [name for part in parts for name in part.group_bys]
        yield from (column_of(name) for name in group_bys for column_of in (presence_of, copy_of))
    for name in pairs.features:
        yield from (LOGGED_PREFIX + name, name)


def _type_problems(
    name: str,
    types: tuple[Any, Any],
    backfill: str,
    is_key: bool,  # noqa: FBT001
    is_time: bool,  # noqa: FBT001
) -> Iterator[str]:
    kinds = {Schema.from_types({name: data_type}).field(quote(name)).kind for data_type in types}
    if is_time:
        if not (kinds <= INTEGRAL | {"timestamp"} or kinds == {"timestamp_ntz"}):
            yield f"{name!r} is {' and '.join(sorted(kinds))}, not a timestamp or milliseconds{_time_cure(kinds)}"
    elif not (kinds <= INTEGRAL or shape(types[0]) == shape(types[1]) if is_key else alike(types)):
        logged_type, backfilled_type = map(_type_name, types)
        if logged_type == backfilled_type:  # nested types with different elements
            logged_type, backfilled_type = map(type_sql, types)
        yield f"{name!r} is {logged_type} in the log and {backfilled_type} in {backfill}"
    elif is_key and holds(types[0], UNORDERED_TYPES):
        yield f"{name!r} is {_type_name(types[0])}, but rows cannot be joined by values of this type"


def _time_cure(kinds: set[str]) -> str:
    """Return how to compare an instant with a wall clock; empty for other types."""
    if not ("timestamp_ntz" in kinds and kinds - {"timestamp_ntz"} <= INTEGRAL | {"timestamp"}):
        return ""
    return (
        ": convert the timestamp_ntz side to an instant, with the zone that its clock shows, such as"
        " to_utc_timestamp(CAST(ts AS TIMESTAMP), 'Europe/Berlin')"
    )


def _type_name(data_type: Any) -> str:
    type_shape = shape(data_type)
    return str(type_shape) if isinstance(type_shape, str) else str(type_shape[0])


def _name_hint(name: str, schema: Schema) -> str:
    close = nearest(name, schema.names)
    return f" (did you mean {close!r}?)" if close else ""


def pair(logged: DataFrame, backfilled: DataFrame, pairs: Alignment) -> DataFrame:
    """Return the comparison table, lazily.

    The table has the keys, the time and the columns of `Alignment.group_by`. ``row_presence`` is ``matched``,
    ``missing`` (only in the backfill) or ``extra`` (only in the log). ``row_copy`` is the row's number
    among rows with the same key. ``row_null_key`` shows whether a key or the time is null. Each feature
    has the columns ``logged_<feature>`` and ``<feature>``.

    Times are truncated to milliseconds, so a log in milliseconds matches a backfill in microseconds. Null
    keys equal each other. Rows with the same key are numbered by their values on each side and joined by
    number, so duplicates do not multiply.

    Parameters
    ----------
    logged, backfilled : DataFrame
        The rows of both sides.
    pairs : Alignment
        The columns that align the rows.

    Raises
    ------
    PreconditionError
        If columns are missing or types are not comparable; the message lists all problems.
    """
    return pair_parts(logged, [AlignedPart(backfilled, {"": pairs.features})], pairs)


def pair_parts(logged: DataFrame, parts: Sequence[AlignedPart], pairs: Alignment) -> DataFrame:
    """Return the comparison table of features with several backfills; see `pair`.

    With several backfills, the table also has ``row_presence_<group_by>`` and ``row_copy_<group_by>``.
    ``row_presence_<group_by>`` is ``backfill`` for rows that occur only in the backfills of other group-bys.
    Each group-by has the result that `pair` returns for its backfill, if you use these columns instead of
    ``row_presence`` and ``row_copy``, which span all backfills. Rows of several backfills that are not in
    the log are one row if their key, number and partition are the same.

    Parameters
    ----------
    logged : DataFrame
        The logged rows.
    parts : sequence of AlignedPart
        The backfills with their features.
    pairs : Alignment
        The columns that align the rows.
    """
    from pyspark.sql import functions as F

    schemas = [Schema.from_frame(logged), *(Schema.from_frame(part.data) for part in parts)]
    require_comparable(pairs, schemas[0], schemas[1:], parts)
    layout = Layout(schemas, pairs)
    joined = layout.logged(logged, [part.features for part in parts])
    for part_index, part in enumerate(parts):
        backfill = layout.backfilled(part.data, part_index, part.features)
        joined = joined.join(backfill, F.expr(layout.meets(part_index)), "full_outer")
        merged = layout.merged(part_index)
        unmerged = [
            name for name in joined.columns if name.removeprefix(RESERVED_PREFIX) not in merged
        ]
        joined = joined.selectExpr(
            *(
                f"{_merged_sql(joined_name, backfilled_name)} AS {RESERVED_PREFIX}{joined_name}"
                for joined_name, backfilled_name in merged.items()
            ),
            *map(quote, unmerged),
        )
    key = [f"{RESERVED_PREFIX}k.k{index}" for index in range(len(pairs.keys) + 1)]
    columns = dict(zip((*pairs.keys, pairs.time), key, strict=True))
    columns |= {name: f"{RESERVED_PREFIX}p{index}" for index, name in enumerate(pairs.partition_by)}
    if pairs.bucket_minutes:
        columns[BUCKET_COLUMN] = _bucket_sql(f"{RESERVED_PREFIX}m", pairs.bucket_minutes)
    in_backfill = [
        f"{RESERVED_PREFIX}b{part_index}k IS NOT NULL" for part_index in range(len(parts))
    ]
    columns[PRESENCE_COLUMN] = _presence_sql(" OR ".join(in_backfill))
    copies = [f"{RESERVED_PREFIX}a{part_index}n" for part_index in range(len(parts))]
    columns[COPY_COLUMN] = f"coalesce({', '.join(copies)})"
    columns[NULL_KEY_COLUMN] = " OR ".join(f"{part} IS NULL" for part in key)
    if len(parts) > 1:
        for presence, copy, part in zip(in_backfill, copies, parts, strict=True):
            columns |= {presence_of(name): _presence_sql(presence) for name in part.group_bys}
            columns |= {copy_of(name): copy for name in part.group_bys}
    position_by_feature = {
        name: (part_index, index)
        for part_index, part in enumerate(parts)
        for index, name in enumerate(part.features)
    }
    for name in pairs.features:
        part_index, index = position_by_feature[name]
        columns |= {
            LOGGED_PREFIX + name: f"{RESERVED_PREFIX}a{part_index}v{index}",
            name: f"{RESERVED_PREFIX}b{part_index}v{index}",
        }
    return joined.selectExpr(*(f"{sql} AS {quote(name)}" for name, sql in columns.items()))


def rows_of(table: DataFrame, group_by: str | None) -> DataFrame:
    """Return the rows of a group-by with its own backfill, or the whole table for None."""
    if group_by is None:
        return table
    own_columns = {PRESENCE_COLUMN: presence_of(group_by), COPY_COLUMN: copy_of(group_by)}
    other_columns = [quote(name) for name in table.columns if name not in own_columns]
    # Null in rows of days that were compared with a single backfill.
    chosen = [
        f"coalesce({quote(own_column)}, {quote(name)}) AS {quote(name)}"
        for name, own_column in own_columns.items()
    ]
    return table.selectExpr(*other_columns, *chosen).where(
        f"{quote(PRESENCE_COLUMN)} <> '{PRESENT_ELSEWHERE}'"
    )


def _merged_sql(joined: str, backfilled: str) -> str:
    """Return SQL for a column of a row, from the rows joined so far or from the backfill.

    Only the log decides the partition of its rows, even if the log's partition is null. A backfill may
    know a partition that another does not know, and each is compared as if it were the only backfill.
    """
    either = f"coalesce({RESERVED_PREFIX}{joined}, {RESERVED_PREFIX}{backfilled})"
    return (
        f"IF({RESERVED_PREFIX}ak IS NULL, {either}, {RESERVED_PREFIX}{joined})"
        if joined.startswith("p")
        else either
    )


def _presence_sql(in_backfill: str) -> str:
    """Return SQL for the presence of a row, given its presence in a backfill."""
    in_log = f"CASE WHEN {in_backfill} THEN 'matched' ELSE 'extra' END"
    in_none = f"CASE WHEN {in_backfill} THEN 'missing' ELSE '{PRESENT_ELSEWHERE}' END"
    return f"CASE WHEN {RESERVED_PREFIX}ak IS NOT NULL THEN {in_log} ELSE {in_none} END"


@dataclass(frozen=True)
class Layout:
    """Column layout of each side for the join of all sides.

    A row has its key ``k``, its minute ``m``, and the partition columns ``p0``, ``p1`` and so on. In the
    log, ``a0s`` has the partition columns that the log and the first backfill share. ``a0n`` is the row's
    number among rows with the same key and ``a0s``, ordered by the features of that backfill. ``a0v0`` is
    the first of these features. Columns of the first backfill begin with ``b0``.

    Attributes
    ----------
    schemas : sequence of Schema
        Schemas of the log and of each backfill.
    pairs : Alignment
        The columns that align the rows.
    """

    schemas: Sequence[Schema]
    pairs: Alignment

    def shared(self, part_index: int) -> list[int]:
        """Return the indexes of partition columns that both sides have, which makes them keys."""
        schemas = (self.schemas[0], self.schemas[part_index + 1])
        names = enumerate(self.pairs.partition_by)
        return [i for i, name in names if all(has(side, name) for side in schemas)]

    def logged(self, data: DataFrame, parts: Sequence[Sequence[str]]) -> DataFrame:
        """Return the log with rows numbered for each backfill."""
        columns, numbers = self._side_columns(0), [f"{RESERVED_PREFIX}k AS {RESERVED_PREFIX}ak"]
        for part_index, features in enumerate(parts):
            columns |= {
                f"a{part_index}{name}": sql for name, sql in self._shared(part_index, 0).items()
            }
            fields = {
                f"a{part_index}v{index}": self.schemas[0].field(quote(self.pairs.in_log(name)))
                for index, name in enumerate(features)
            }
            columns |= {column: field.sql for column, field in fields.items()}
            numbers.append(
                f"{self._number(part_index, 'k', f'a{part_index}', fields)} AS {RESERVED_PREFIX}a{part_index}n"
            )
        prepared = data.selectExpr(
            *(f"{sql} AS {RESERVED_PREFIX}{name}" for name, sql in columns.items())
        )
        return prepared.selectExpr("*", *numbers)

    def backfilled(self, data: DataFrame, part_index: int, features: Sequence[str]) -> DataFrame:
        """Return a backfill with rows numbered."""
        prefix = f"b{part_index}"
        schema = self.schemas[part_index + 1]
        fields = {
            f"{prefix}v{index}": schema.field(quote(name)) for index, name in enumerate(features)
        }
        owned = self._side_columns(part_index + 1) | self._shared(part_index, part_index + 1)
        columns = {prefix + name: sql for name, sql in owned.items()}
        columns |= {column: field.sql for column, field in fields.items()}
        prepared = data.selectExpr(
            *(f"{sql} AS {RESERVED_PREFIX}{name}" for name, sql in columns.items())
        )
        return prepared.selectExpr(
            "*",
            f"{self._number(part_index, f'{prefix}k', prefix, fields)} AS {RESERVED_PREFIX}{prefix}n",
        )

    def meets(self, part_index: int) -> str:
        """Return the join condition between the rows joined so far and a backfill."""
        shared = self.shared(part_index)
        # Spark does not use a difference as a join key. The rows are already partitioned and sorted by the
        # other join keys because of their numbering, so Spark shuffles them once instead of twice.
        conditions = [
            f"{RESERVED_PREFIX}k = {RESERVED_PREFIX}b{part_index}k",
            f"{RESERVED_PREFIX}a{part_index}n - {RESERVED_PREFIX}b{part_index}n = 0",
        ]
        if shared:
            conditions.append(f"{RESERVED_PREFIX}a{part_index}s = {RESERVED_PREFIX}b{part_index}s")
        if part_index:  # rows of other backfills that are not in the log
            unshared = [i for i in range(len(self.pairs.partition_by)) if i not in shared]
            conditions += [
                f"({RESERVED_PREFIX}ak IS NOT NULL OR {RESERVED_PREFIX}p{i} <=> {RESERVED_PREFIX}b{part_index}p{i})"
                for i in unshared
            ]
        return " AND ".join(conditions)

    def merged(self, part_index: int) -> dict[str, str]:
        """Return the columns to coalesce: columns joined so far, with their columns in a backfill."""
        merged = {name: f"b{part_index}{name}" for name in ("k", "m")}
        merged |= {f"p{i}": f"b{part_index}p{i}" for i in range(len(self.pairs.partition_by))}
        # A row that is not in the log keeps its number from the backfill. The number exceeds the numbers
        # of logged rows with the same key, so the row never joins a row that joins a logged row. Numbers
        # of other keys are unrelated.
        same_shared = [
            other_index
            for other_index in range(len(self.schemas) - 1)
            if self.shared(other_index) == self.shared(part_index)
        ]
        suffixes = ("n", "s") if self.shared(part_index) else ("n",)
        return merged | {
            f"a{other_index}{name}": f"b{part_index}{name}"
            for other_index in same_shared
            for name in suffixes
        }

    def _side_columns(self, side: int) -> dict[str, str]:
        """Return SQL for the key, the minute and the partition columns."""
        schema = self.schemas[side]
        time, minute = _time_and_minute(schema, self.schemas, self.pairs.time)
        key = [*(_key_sql(schema, self.schemas, name) for name in self.pairs.keys), time]
        columns = {"k": _struct_sql({f"k{i}": part for i, part in enumerate(key)}), "m": minute}
        parts = enumerate(self.pairs.partition_by)
        return columns | {
            f"p{i}": _partition_sql(schema, self.schemas, name, minute) for i, name in parts
        }

    def _shared(self, part_index: int, side: int) -> dict[str, str]:
        """Return SQL on one side for the partition columns that the log and a backfill share."""
        names, columns = [f"p{i}" for i in self.shared(part_index)], self._side_columns(side)
        return {"s": _struct_sql({name: columns[name] for name in names})} if names else {}

    def _number(self, part_index: int, key: str, prefix: str, fields: Mapping[str, Field]) -> str:
        """Return SQL for a row's number within its key, ordered by its values."""
        partition = ", ".join(
            RESERVED_PREFIX + name
            for name in (key, *([f"{prefix}s"] if self.shared(part_index) else ()))
        )
        order = [
            _sort_key_sql(RESERVED_PREFIX + column, field.type) for column, field in fields.items()
        ] or ["NULL"]
        return f"row_number() OVER (PARTITION BY {partition} ORDER BY {', '.join(order)})"


def _struct_sql(fields: Mapping[str, str]) -> str:
    """Return SQL for a struct. Null fields equal each other in a join by structs."""
    arguments = ", ".join(f"'{name}', {sql}" for name, sql in fields.items())
    return f"named_struct({arguments})"


def _sort_key_sql(sql: str, data_type: Any, depth: int = 0) -> str:
    """Return SQL for a sort key that does not depend on the order of a map's keys."""
    if not holds(data_type, UNORDERED_TYPES):
        return sql
    k, x = f"{RESERVED_PREFIX}k{depth}", f"{RESERVED_PREFIX}x{depth}"
    match data_type:
        case {"type": "array", "elementType": element}:
            return f"transform({sql}, {x} -> {_sort_key_sql(x, element, depth + 1)})"
        case {"type": "map", "valueType": value}:
            values = f"transform_values({sql}, ({k}, {x}) -> {_sort_key_sql(x, value, depth + 1)})"
            return f"array_sort(map_entries({values}))"
        case {"type": "struct", "fields": fields}:
            parts = (_sort_key_sql(f"{sql}.{quote(f['name'])}", f["type"], depth) for f in fields)
            return f"CASE WHEN {sql} IS NOT NULL THEN struct({', '.join(parts)}) END"
    return f"to_json({sql})"


def _key_sql(side: Schema, schemas: Sequence[Schema], name: str) -> str:
    kinds = {schema.field(quote(name)).kind for schema in schemas}
    sql = side.field(quote(name)).sql
    return f"CAST({sql} AS BIGINT)" if kinds <= INTEGRAL else sql


def _time_and_minute(side: Schema, schemas: Sequence[Schema], name: str) -> tuple[str, str]:
    """Return SQL for the time and for its minute since 1970."""
    field = side.field(quote(name))
    if field.kind not in INTEGRAL:
        is_instant = field.kind == "timestamp"
        micros = f"unix_micros({field.sql})" if is_instant else wall_clock_micros(field.sql)
        return _in_milliseconds(field.sql, micros), _floor_div(micros, 60_000_000)
    millis = f"CAST({field.sql} AS BIGINT)"
    all_millis = all(schema.field(quote(name)).kind in INTEGRAL for schema in schemas)
    time = millis if all_millis else f"timestamp_millis({millis})"
    return time, _floor_div(millis, 60_000)


def _in_milliseconds(time: str, micros: str) -> str:
    """Return SQL for a time truncated to milliseconds; its type does not change.

    One side may have milliseconds of an event, and the other side microseconds.
    """
    return f"timestampadd(MICROSECOND, -CAST(pmod({micros}, 1000L) AS INT), {time})"


def _floor_div(number: str, unit: int) -> str:
    return f"(({number}) - pmod({number}, {unit}L)) div {unit}L"


def _partition_sql(side_schema: Schema, schemas: Sequence[Schema], name: str, minute: str) -> str:
    """Return SQL for a partition column; null if only other sides have it."""
    having = [side for side in schemas if has(side, name)]
    fields = [side.field(quote(name)) for side in having]
    types = {"long" if field.kind in INTEGRAL else str(shape(field.type)) for field in fields}
    if name == DATE_COLUMN and len(having) < len(schemas):
        types.add("string")
    if has(side_schema, name):
        key = _key_sql(side_schema, [side_schema], name)
        return key if len(types) == 1 else f"CAST({key} AS STRING)"
    if name == DATE_COLUMN:
        return f"CAST(date_add(DATE'1970-01-01', CAST({_floor_div(minute, DAY_MINUTES)} AS INT)) AS STRING)"
    return "NULL"


def _bucket_sql(minute: str, width: int) -> str:
    """Return SQL for the start of a minute's bucket, as in ``07-00``."""
    start = f"(pmod({minute}, {DAY_MINUTES}L) - pmod({minute}, {width}L))"
    return f"concat(lpad({start} div 60, 2, '0'), '-', lpad({start} % 60, 2, '0'))"
