"""Partition fields of Iceberg tables: hidden partitions such as ``days(at)`` as partition keys.

A partition field applies a transform to a column. Its name is the partition key and its value, as text,
the key's value: ``at_day=2026-01-17``. The metadata have the values of each data file; the rows get them
by the same transform, which the table's catalog has as a function. Dates and hours are in UTC.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from tidegauge.analyzers.core.errors import PartitionColumnError, did_you_mean
from tidegauge.analyzers.core.partitions import NULL, TimeFormat
from tidegauge.analyzers.core.sql import literal, parts, quote
from tidegauge.analyzers.scan.grouping import hive_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

IDENTITY = "identity"
_SUFFIXES = {
    "years": "year",
    "months": "month",
    "days": "day",
    "hours": "hour",
    "bucket": "bucket",
    "truncate": "trunc",
}
"""Transforms, and the ends of the names that Iceberg gives to fields by them."""
_ALIASES = {"year": "years", "month": "months", "day": "days", "date": "days", "hour": "hours"}
_TIMES = {"years": "%Y", "months": "%Y-%m", "days": "%Y-%m-%d", "hours": "%Y-%m-%d-%H"}
"""Transforms of times, the coarsest first, and how their values are written."""
MAX_RANGES = 50
"""Ranges of times in one filter; more are joined to one, as long filters take Spark long to plan."""

_TRANSFORM = re.compile(r"(\w+)\s*\((.+)\)", re.DOTALL)


@dataclass(frozen=True)
class PartitionField:
    """A field of an Iceberg table's partition spec.

    Attributes
    ----------
    name : str
        The field's name, which is the partition key.
    transform : str
        ``identity``, ``years``, ``months``, ``days``, ``hours``, ``bucket`` or ``truncate``.
    column : str
        The column, as a path.
    width : int or None
        The number of buckets, or the width to truncate to.
    finer : PartitionField or None
        For a time that the table's spec has no field of: the field by a finer time that it has, such as
        ``hours(at)`` for ``days(at)``.
    is_stored : bool
        Whether the metadata have values of the field itself; with `finer`, only those of older files.
    """

    name: str
    transform: str
    column: str
    width: int | None = None
    finer: PartitionField | None = None
    is_stored: bool = True

    @property
    def label(self) -> str:
        """The transform as SQL writes it, such as ``bucket(16, id)``; of identity, the column."""
        if self.transform == IDENTITY:
            return self.column
        width = "" if self.width is None else f"{self.width}, "
        return f"{self.transform}({width}{self.column})"

    @property
    def source(self) -> str:
        """The column's name in the metadata: the path's steps, joined by dots."""
        return ".".join(str(step) for step in parts(self.column))

    @property
    def is_hidden(self) -> bool:
        """Whether the table has no column of this field; a field of a struct is no column."""
        return self.transform != IDENTITY or len(parts(self.column)) > 1

    def in_files(self, partition: str) -> str:
        """Return SQL for the field's value in a data file.

        Parameters
        ----------
        partition : str
            SQL of the file's partition in the metadata.

        Examples
        --------
        >>> hours = PartitionField("at_hour", "hours", "at")
        >>> PartitionField("at_day", "days", "at", finer=hours, is_stored=False).in_files("p")
        "date_add(DATE'1970-01-01', CAST(floor(p.`at_hour` / 24) AS INT))"
        """
        own = f"{partition}.{quote(self.name)}"
        if self.finer is None:
            return own
        derived = _coarser(
            self.finer.transform, f"{partition}.{quote(self.finer.name)}", self.transform
        )
        return f"coalesce({own}, {derived})" if self.is_stored else derived

    def applied(self, catalog: str) -> str:
        """Return SQL for the field's value in a row."""
        column = ".".join(quote(str(step)) for step in parts(self.column))
        if self.transform == IDENTITY:
            return column
        width = "" if self.width is None else f"{self.width}, "
        return f"{quote(catalog)}.`system`.`{self.transform}`({width}{column})"

    def key(self, catalog: str) -> str:
        """Return SQL for the partition key of a row, whose text is that of `text`."""
        value = self.applied(catalog)
        # The others print as partition names have them, and Spark groups by them faster than by text.
        return self.text(value) if self.transform in {"years", "months", "hours"} else value

    def text(self, value: str) -> str:
        """Return SQL for the text of a value in SQL, as partition names have it.

        Examples
        --------
        >>> PartitionField("at_year", "years", "at").text("v")
        "coalesce(CAST(1970 + v AS STRING), '__HIVE_DEFAULT_PARTITION__')"
        """
        match self.transform:
            case "years":
                text = f"CAST(1970 + {value} AS STRING)"
            case "months":
                text = f"date_format(add_months(DATE'1970-01-01', {value}), 'yyyy-MM')"
            case "hours":
                day = f"date_add(DATE'1970-01-01', CAST(floor({value} / 24) AS INT))"
                hour = f"lpad(CAST(pmod({value}, 24) AS STRING), 2, '0')"
                text = f"concat(CAST({day} AS STRING), '-', {hour})"
            case _:
                return hive_text(value)
        return f"coalesce({text}, {literal(NULL)})"


def _coarser(transform: str, value: str, wanted: str) -> str:
    """Return SQL for the value of a coarser transform of times, from that of a finer one."""
    if transform == "months":
        return f"CAST(floor({value} / 12) AS INT)"
    day = value
    if transform == "hours":
        day = f"date_add(DATE'1970-01-01', CAST(floor({value} / 24) AS INT))"
    years = f"(year({day}) - 1970)"
    return {"days": day, "months": f"{years} * 12 + month({day}) - 1", "years": years}[wanted]


def parse_transform(text: str) -> tuple[str, int | None, str] | None:
    """Parse a transform into its kind, width and column; None if it is none.

    Examples
    --------
    >>> parse_transform("days(at)"), parse_transform("bucket(16, `user id`)"), parse_transform("DAY(At)")
    (('days', None, 'at'), ('bucket', 16, 'user id'), ('days', None, 'At'))
    >>> parse_transform("truncate(name, 4)"), parse_transform("country"), parse_transform("zorder(a)")
    (('truncate', 4, 'name'), ('identity', None, 'country'), None)
    """
    match = _TRANSFORM.fullmatch(text.strip())
    if match is None:
        return IDENTITY, None, _unquoted(text.strip())
    kind = match[1].casefold()
    kind = _ALIASES.get(kind, kind)
    arguments = [argument.strip() for argument in match[2].split(",", maxsplit=1)]
    numbers = [int(argument) for argument in arguments if argument.isdecimal()]
    columns = [argument for argument in arguments if not argument.isdecimal()]
    if kind == IDENTITY and len(columns) == 1 and not numbers:
        return IDENTITY, None, _unquoted(columns[0])
    needed = int(kind in {"bucket", "truncate"})
    if kind not in _SUFFIXES or len(columns) != 1 or len(numbers) != needed:
        return None
    return kind, numbers[0] if numbers else None, _unquoted(columns[0])


def _unquoted(column: str) -> str:
    """Return a column's path; a plain name without its quotes."""
    steps = parts(column)
    return str(steps[0]) if len(steps) == 1 and "." not in str(steps[0]) else column


def partition_fields(
    transforms: Iterable[str], names: Sequence[str], columns: Collection[str] | None = None
) -> tuple[PartitionField, ...]:
    """Return the fields of a partition spec.

    Parameters
    ----------
    transforms : iterable of str
        The spec's transforms in their order.
    names : sequence of str
        The names of all fields that the table has or had. Iceberg's own names tell their transform; names
        that users gave are taken in the order of the transforms that are left.
    columns : collection of str, optional
        The table's columns. Spark writes a field of a struct as one name with a dot, which is a path if
        there is no such column.

    Returns
    -------
    tuple of PartitionField
        Without those of unknown transforms, and of names that are not clear.

    Examples
    --------
    >>> [f.name for f in partition_fields(["days(at)", "bucket(4, id)"], ["at_day", "shard"])]
    ['at_day', 'shard']
    >>> partition_fields(["`st.c`"], ["st.c"], ["st", "amount"])[0].column
    '`st`.`c`'
    """
    named: dict[str, str] = {}
    parsed = {text: found for text in transforms if (found := parse_transform(text))}
    left = list(names)
    for text, (kind, _, column) in parsed.items():
        plain = PartitionField("", kind, column).source
        name = plain if kind == IDENTITY else f"{plain}_{_SUFFIXES[kind]}"
        same = [other for other in left if other.casefold() == name.casefold()]
        if same:
            named[text] = same[0]
            left.remove(same[0])
    others = [text for text in parsed if text not in named]
    if len(others) == len(left):
        named |= dict(zip(others, left, strict=True))

    def path(column: str) -> str:
        steps = [str(step) for step in parts(column)]
        is_path = columns is not None and len(steps) == 1 and steps[0] not in columns
        return ".".join(map(quote, steps[0].split("."))) if is_path else column

    return tuple(
        PartitionField(named[text], kind, path(column), width)
        for text, (kind, width, column) in parsed.items()
        if text in named
    )


def _coarser_field(
    text: str, fields: Sequence[PartitionField], names: Collection[str]
) -> PartitionField | None:
    """Return the field of a coarser time than that of the table's spec; None if there is none.

    A table that is partitioned by hours now, and was by days, can go on by days.
    """
    kinds = list(_TIMES)
    parsed = parse_transform(text)
    for finer in fields:
        for kind in kinds[: kinds.index(finer.transform)] if finer.transform in _TIMES else ():
            name = f"{finer.source}_{_SUFFIXES[kind]}"
            wanted = parsed and (parsed[0], parsed[2].casefold()) == (kind, finer.column.casefold())
            if wanted or text.casefold() == name.casefold():
                stored = next((one for one in names if one.casefold() == name.casefold()), None)
                return PartitionField(
                    stored or name, kind, finer.column, finer=finer, is_stored=stored is not None
                )
    return None


def chosen_fields(
    wanted: Sequence[str] | None,
    fields: Sequence[PartitionField],
    what: str,
    names: Collection[str] = (),
) -> tuple[PartitionField, ...]:
    """Return the requested fields, given by name or as a transform; all for None.

    Coarser times than those of the spec can be requested, too.

    Parameters
    ----------
    wanted : sequence of str or None
    fields : sequence of PartitionField
        The fields of the spec.
    what : str
        The table, for errors.
    names : collection of str
        The names of all fields that the table has or had.

    Raises
    ------
    PartitionColumnError
        If the table is not partitioned by one of them.

    Examples
    --------
    >>> fields = [PartitionField("at_day", "days", "at"), PartitionField("c", "identity", "c")]
    >>> [f.name for f in chosen_fields(["days(at)", "C"], fields, "table t")]
    ['at_day', 'c']
    >>> [f.name for f in chosen_fields(["at_month", "years(at)"], fields, "table t", ["at_month"])]
    ['at_month', 'at_year']
    """
    if wanted is None:
        return tuple(fields)
    by_name = {field.name.casefold(): field for field in fields}
    by_transform = {(f.transform, f.width, f.column.casefold()): f for f in fields}
    chosen = []
    for text in wanted:
        kind, width, column = parse_transform(text) or ("", None, "")
        field = (
            by_name.get(text.casefold())
            or by_transform.get((kind, width, column.casefold()))
            or _coarser_field(text, fields, names)
        )
        if field is None:
            known = ", ".join(
                f"{f.name!r} ({f.label})" if f.is_hidden else repr(f.name) for f in fields
            )
            are = f"it is partitioned by {known}" if known else "it is not partitioned"
            hint = did_you_mean(text, [n for f in fields for n in (f.name, f.label)])
            msg = f"{what} has no partition column {text!r}: {are}{hint}"
            raise PartitionColumnError(msg)
        chosen.append(field)
    return tuple(chosen)


def time_format(fields: Sequence[PartitionField]) -> TimeFormat | None:
    """Return how the first field of a time writes it; None if there is none."""
    for field in fields:
        if field.transform in _TIMES:
            return TimeFormat((field.name,), (_TIMES[field.transform],))
    return None


def pruning_filter(
    data: DataFrame,
    fields: Sequence[PartitionField],
    values: Collection[Sequence[str]],
    catalog: str,
) -> str | None:
    """Return a condition that holds for all rows of partitions, by which Iceberg skips files of others.

    Parameters
    ----------
    data : DataFrame
    fields : sequence of PartitionField
    values : collection of sequence of str
        The values of the fields, as text, in each partition.
    catalog : str

    Returns
    -------
    str or None
        None if nothing is skipped by it. It may hold for rows of other partitions, too.
    """
    types = {f.name.casefold(): f.dataType.typeName() for f in data.schema.fields}
    conditions = []
    for i, field in enumerate(fields):
        wanted = {row[i] for row in values}
        kind = types.get(field.column.casefold(), "")
        if field.transform in _TIMES:
            condition = _in_ranges(field, wanted - {NULL}, kind)
        elif field.transform == "bucket":
            numbers = ", ".join(sorted(wanted - {NULL}))
            condition = f"{field.applied(catalog)} IN ({numbers})" if numbers else "false"
        elif field.transform == "truncate" and kind == "string":
            texts = ", ".join(map(literal, sorted(wanted - {NULL})))
            condition = f"{field.applied(catalog)} IN ({texts})" if texts else "false"
        else:
            continue
        if condition is None:
            continue
        column = ".".join(quote(str(step)) for step in parts(field.column))
        conditions.append(f"({condition} OR {column} IS NULL)" if NULL in wanted else condition)
    return " AND ".join(f"({condition})" for condition in conditions) or None


_LITERALS: Mapping[str, str] = {
    "timestamp": "TIMESTAMP'%Y-%m-%d %H:%M:%SZ'",
    "timestamp_ntz": "TIMESTAMP_NTZ'%Y-%m-%d %H:%M:%S'",
    "date": "DATE'%Y-%m-%d'",
}


def _in_ranges(field: PartitionField, texts: Collection[str], kind: str) -> str | None:
    """Return a condition on a column of times by the ranges that its partitions span together."""
    if kind not in _LITERALS:
        return None
    try:
        starts = sorted(
            datetime.strptime(text, _TIMES[field.transform]).replace(tzinfo=UTC) for text in texts
        )
        ranges: list[tuple[datetime, datetime]] = []
        for start in starts:
            end = _end(field.transform, start)
            if ranges and ranges[-1][1] == start:
                ranges[-1] = (ranges[-1][0], end)
            else:
                ranges.append((start, end))
    except (ValueError, OverflowError):  # years that Python's dates do not have
        return None
    if len(ranges) > MAX_RANGES:
        ranges = [(ranges[0][0], ranges[-1][1])]
    column = ".".join(quote(str(step)) for step in parts(field.column))

    def sql(time: datetime) -> str:
        # strftime writes years before 1000 without zeros.
        return time.strftime(_LITERALS[kind].replace("%Y", f"{time.year:04}"))

    conditions = [f"{column} >= {sql(a)} AND {column} < {sql(b)}" for a, b in ranges]
    return " OR ".join(conditions) or "false"


def _end(transform: str, start: datetime) -> datetime:
    """Return when a partition that starts at a time ends."""
    match transform:
        case "hours":
            return start + timedelta(hours=1)
        case "days":
            return start + timedelta(days=1)
        case "months":
            return (start.replace(day=28) + timedelta(days=4)).replace(day=1)
        case _:
            return start.replace(year=start.year + 1)
