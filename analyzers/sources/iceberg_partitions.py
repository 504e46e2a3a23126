"""Partition fields of Iceberg tables: hidden partitions such as ``days(at)`` as partition keys.

A partition field applies a transform to a column. The field's name is the partition key, and the field's value
as text is the key's value: ``at_day=2026-01-17``. The metadata stores the values of each data file. For rows,
the values are computed by the same transform, which is a function of the table's catalog. Dates and hours are
in UTC.
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

IDENTITY_TRANSFORM = "identity"
_SUFFIX_BY_TRANSFORM = {
    "years": "year",
    "months": "month",
    "days": "day",
    "hours": "hour",
    "bucket": "bucket",
    "truncate": "trunc",
}
"""Transforms, and the suffix that Iceberg appends to the names of their fields."""
_TRANSFORM_ALIASES = {
    "year": "years",
    "month": "months",
    "day": "days",
    "date": "days",
    "hour": "hours",
}
_FORMAT_BY_TIME_TRANSFORM = {
    "years": "%Y",
    "months": "%Y-%m",
    "days": "%Y-%m-%d",
    "hours": "%Y-%m-%d-%H",
}
"""Transforms of times, the coarsest first, and the format of their values."""
MAX_TIME_RANGES = 50
"""More time ranges than this are merged into one, since Spark plans long filters slowly."""

_TRANSFORM_CALL = re.compile(r"(\w+)\s*\((.+)\)", re.DOTALL)


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
        If the table's spec has no field of this transform: the spec's field with a finer transform, such as
        ``hours(at)`` for ``days(at)``.
    is_stored : bool
        Whether the metadata stores values of the field itself. With `finer`, only older files have them.
    """

    name: str
    transform: str
    column: str
    width: int | None = None
    finer: PartitionField | None = None
    is_stored: bool = True

    @property
    def label(self) -> str:
        """The transform in SQL, such as ``bucket(16, id)``; for identity, the column."""
        if self.transform == IDENTITY_TRANSFORM:
            return self.column
        width = "" if self.width is None else f"{self.width}, "
        return f"{self.transform}({width}{self.column})"

    @property
    def source(self) -> str:
        """The column's name in the metadata: the steps of its path, joined by dots."""
        return ".".join(str(step) for step in parts(self.column))

    @property
    def is_hidden(self) -> bool:
        """Whether the table has no column with the field's value. A field of a struct is not a column."""
        return self.transform != IDENTITY_TRANSFORM or len(parts(self.column)) > 1

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
        stored = f"{partition}.{quote(self.name)}"
        if self.finer is None:
            return stored
        derived = _coarser(
            self.finer.transform, f"{partition}.{quote(self.finer.name)}", self.transform
        )
        return f"coalesce({stored}, {derived})" if self.is_stored else derived

    def applied(self, catalog: str) -> str:
        """Return SQL for the field's value in a row."""
        column = ".".join(quote(str(step)) for step in parts(self.column))
        if self.transform == IDENTITY_TRANSFORM:
            return column
        width = "" if self.width is None else f"{self.width}, "
        return f"{quote(catalog)}.`system`.`{self.transform}`({width}{column})"

    def key(self, catalog: str) -> str:
        """Return SQL for the partition key of a row. It prints as the result of `text`."""
        value = self.applied(catalog)
        # Other values print as in partition names, and Spark groups by them faster than by text.
        return self.text(value) if self.transform in {"years", "months", "hours"} else value

    def text(self, value: str) -> str:
        """Return SQL that formats a value as in partition names.

        Parameters
        ----------
        value : str
            SQL of the value.

        Examples
        --------
        >>> PartitionField("at_year", "years", "at").text("v")
        "coalesce(CAST(1970 + v AS STRING), '__HIVE_DEFAULT_PARTITION__')"
        """
        match self.transform:
            case "years":
                sql = f"CAST(1970 + {value} AS STRING)"
            case "months":
                sql = f"date_format(add_months(DATE'1970-01-01', {value}), 'yyyy-MM')"
            case "hours":
                day = f"date_add(DATE'1970-01-01', CAST(floor({value} / 24) AS INT))"
                hour = f"lpad(CAST(pmod({value}, 24) AS STRING), 2, '0')"
                sql = f"concat(CAST({day} AS STRING), '-', {hour})"
            case _:
                return hive_text(value)
        return f"coalesce({sql}, {literal(NULL)})"


def _coarser(transform: str, value: str, target: str) -> str:
    """Return SQL that converts the value of a time transform to the value of a coarser transform."""
    if transform == "months":
        return f"CAST(floor({value} / 12) AS INT)"
    day = value
    if transform == "hours":
        day = f"date_add(DATE'1970-01-01', CAST(floor({value} / 24) AS INT))"
    years = f"(year({day}) - 1970)"
    return {"days": day, "months": f"{years} * 12 + month({day}) - 1", "years": years}[target]


def parse_transform(text: str) -> tuple[str, int | None, str] | None:
    """Parse a transform into its kind, width and column; None if it is not a supported transform.

    Examples
    --------
    >>> parse_transform("days(at)"), parse_transform("bucket(16, `user id`)"), parse_transform("DAY(At)")
    (('days', None, 'at'), ('bucket', 16, 'user id'), ('days', None, 'At'))
    >>> parse_transform("truncate(name, 4)"), parse_transform("country"), parse_transform("zorder(a)")
    (('truncate', 4, 'name'), ('identity', None, 'country'), None)
    """
    match = _TRANSFORM_CALL.fullmatch(text.strip())
    if match is None:
        return IDENTITY_TRANSFORM, None, _unquoted(text.strip())
    kind = match[1].casefold()
    kind = _TRANSFORM_ALIASES.get(kind, kind)
    arguments = [argument.strip() for argument in match[2].split(",", maxsplit=1)]
    numbers = [int(argument) for argument in arguments if argument.isdecimal()]
    columns = [argument for argument in arguments if not argument.isdecimal()]
    if kind == IDENTITY_TRANSFORM and len(columns) == 1 and not numbers:
        return IDENTITY_TRANSFORM, None, _unquoted(columns[0])
    needed = int(kind in {"bucket", "truncate"})
    if kind not in _SUFFIX_BY_TRANSFORM or len(columns) != 1 or len(numbers) != needed:
        return None
    return kind, numbers[0] if numbers else None, _unquoted(columns[0])


def _unquoted(column: str) -> str:
    """Return a column's path; quotes are removed from a name of one step."""
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
        The names of all current and former fields of the table. Iceberg's default names show their
        transform. Other names are assigned to the remaining transforms in order.
    columns : collection of str, optional
        The table's columns. Spark writes a field of a struct as one name with a dot. If there is no such
        column, the name is a path.

    Returns
    -------
    tuple of PartitionField
        The fields, without unknown transforms and ambiguous names.

    Examples
    --------
    >>> [f.name for f in partition_fields(["days(at)", "bucket(4, id)"], ["at_day", "shard"])]
    ['at_day', 'shard']
    >>> partition_fields(["`st.c`"], ["st.c"], ["st", "amount"])[0].column
    '`st`.`c`'
    """
    name_by_transform: dict[str, str] = {}
    parsed = {
        transform: result for transform in transforms if (result := parse_transform(transform))
    }
    remaining = list(names)
    for transform, (kind, _, column) in parsed.items():
        plain = PartitionField("", kind, column).source
        name = plain if kind == IDENTITY_TRANSFORM else f"{plain}_{_SUFFIX_BY_TRANSFORM[kind]}"
        matches = [n for n in remaining if n.casefold() == name.casefold()]
        if matches:
            name_by_transform[transform] = matches[0]
            remaining.remove(matches[0])
    unnamed = [transform for transform in parsed if transform not in name_by_transform]
    if len(unnamed) == len(remaining):
        name_by_transform |= dict(zip(unnamed, remaining, strict=True))

    def path(column: str) -> str:
        steps = [str(step) for step in parts(column)]
        is_path = columns is not None and len(steps) == 1 and steps[0] not in columns
        return ".".join(map(quote, steps[0].split("."))) if is_path else column

    return tuple(
        PartitionField(name_by_transform[transform], kind, path(column), width)
        for transform, (kind, width, column) in parsed.items()
        if transform in name_by_transform
    )


def _coarser_field(
    requested: str, fields: Sequence[PartitionField], names: Collection[str]
) -> PartitionField | None:
    """Return the requested field if its time transform is coarser than a field of the spec; None otherwise.

    So the history of a table that changed its partitioning from days to hours can continue by days.
    """
    kinds = list(_FORMAT_BY_TIME_TRANSFORM)
    parsed = parse_transform(requested)
    for finer in fields:
        for kind in (
            kinds[: kinds.index(finer.transform)]
            if finer.transform in _FORMAT_BY_TIME_TRANSFORM
            else ()
        ):
            name = f"{finer.source}_{_SUFFIX_BY_TRANSFORM[kind]}"
            is_same_transform = parsed and (parsed[0], parsed[2].casefold()) == (
                kind,
                finer.column.casefold(),
            )
            if is_same_transform or requested.casefold() == name.casefold():
                stored = next((n for n in names if n.casefold() == name.casefold()), None)
                return PartitionField(
                    stored or name, kind, finer.column, finer=finer, is_stored=stored is not None
                )
    return None


def chosen_fields(
    requested: Sequence[str] | None,
    fields: Sequence[PartitionField],
    subject: str,
    names: Collection[str] = (),
) -> tuple[PartitionField, ...]:
    """Return the requested fields, given by name or as a transform; all for None.

    A time transform can also be coarser than the spec's field.

    Parameters
    ----------
    requested : sequence of str or None
        Names or transforms.
    fields : sequence of PartitionField
        The fields of the spec.
    subject : str
        Name of the table, for errors.
    names : collection of str
        The names of all current and former fields of the table.

    Raises
    ------
    PartitionColumnError
        If the table is not partitioned by one of the requested fields.

    Examples
    --------
    >>> fields = [PartitionField("at_day", "days", "at"), PartitionField("c", "identity", "c")]
    >>> [f.name for f in chosen_fields(["days(at)", "C"], fields, "table t")]
    ['at_day', 'c']
    >>> [f.name for f in chosen_fields(["at_month", "years(at)"], fields, "table t", ["at_month"])]
    ['at_month', 'at_year']
    """
    if requested is None:
        return tuple(fields)
    by_name = {field.name.casefold(): field for field in fields}
    by_transform = {(f.transform, f.width, f.column.casefold()): f for f in fields}
    chosen = []
    for key in requested:
        kind, width, column = parse_transform(key) or ("", None, "")
        field = (
            by_name.get(key.casefold())
            or by_transform.get((kind, width, column.casefold()))
            or _coarser_field(key, fields, names)
        )
        if field is None:
            available = ", ".join(
                f"{f.name!r} ({f.label})" if f.is_hidden else repr(f.name) for f in fields
            )
            partitioning = (
                f"it is partitioned by {available}" if available else "it is not partitioned"
            )
            hint = did_you_mean(key, [n for f in fields for n in (f.name, f.label)])
            msg = f"{subject} has no partition column {key!r}: {partitioning}{hint}"
            raise PartitionColumnError(msg)
        chosen.append(field)
    return tuple(chosen)


def time_format(fields: Sequence[PartitionField]) -> TimeFormat | None:
    """Return the time format of the first field with a time transform; None if there is none."""
    for field in fields:
        if field.transform in _FORMAT_BY_TIME_TRANSFORM:
            return TimeFormat((field.name,), (_FORMAT_BY_TIME_TRANSFORM[field.transform],))
    return None


def pruning_filter(
    data: DataFrame,
    fields: Sequence[PartitionField],
    values: Collection[Sequence[str]],
    catalog: str,
) -> str | None:
    """Return a condition that is true for all rows of partitions, so that Iceberg can skip other files.

    Parameters
    ----------
    data : DataFrame
        The table.
    fields : sequence of PartitionField
        The partition fields.
    values : collection of sequence of str
        The values of the fields, as text, in each partition.
    catalog : str
        The table's catalog.

    Returns
    -------
    str or None
        The condition, which can also be true for rows of other partitions. None if it would skip no files.
    """
    types = {f.name.casefold(): f.dataType.typeName() for f in data.schema.fields}
    conditions = []
    for i, field in enumerate(fields):
        field_values = {row[i] for row in values}
        kind = types.get(field.column.casefold(), "")
        if field.transform in _FORMAT_BY_TIME_TRANSFORM:
            condition = _in_ranges(field, field_values - {NULL}, kind)
        elif field.transform == "bucket":
            numbers = ", ".join(sorted(field_values - {NULL}))
            condition = f"{field.applied(catalog)} IN ({numbers})" if numbers else "false"
        elif field.transform == "truncate" and kind == "string":
            strings = ", ".join(map(literal, sorted(field_values - {NULL})))
            condition = f"{field.applied(catalog)} IN ({strings})" if strings else "false"
        else:
            continue
        if condition is None:
            continue
        column = ".".join(quote(str(step)) for step in parts(field.column))
        conditions.append(
            f"({condition} OR {column} IS NULL)" if NULL in field_values else condition
        )
    return " AND ".join(f"({condition})" for condition in conditions) or None


_LITERAL_FORMATS: Mapping[str, str] = {
    "timestamp": "TIMESTAMP'%Y-%m-%d %H:%M:%SZ'",
    "timestamp_ntz": "TIMESTAMP_NTZ'%Y-%m-%d %H:%M:%S'",
    "date": "DATE'%Y-%m-%d'",
}


def _in_ranges(field: PartitionField, field_values: Collection[str], kind: str) -> str | None:
    """Return a condition on a time column: the time ranges that the partitions cover together."""
    if kind not in _LITERAL_FORMATS:
        return None
    try:
        starts = sorted(
            datetime.strptime(value, _FORMAT_BY_TIME_TRANSFORM[field.transform]).replace(tzinfo=UTC)
            for value in field_values
        )
        ranges: list[tuple[datetime, datetime]] = []
        for start in starts:
            end = _end(field.transform, start)
            if ranges and ranges[-1][1] == start:
                ranges[-1] = (ranges[-1][0], end)
            else:
                ranges.append((start, end))
    except (ValueError, OverflowError):  # years outside of Python's range
        return None
    if len(ranges) > MAX_TIME_RANGES:
        ranges = [(ranges[0][0], ranges[-1][1])]
    column = ".".join(quote(str(step)) for step in parts(field.column))

    def sql(time: datetime) -> str:
        # strftime writes years before 1000 without zeros.
        return time.strftime(_LITERAL_FORMATS[kind].replace("%Y", f"{time.year:04}"))

    conditions = [f"{column} >= {sql(a)} AND {column} < {sql(b)}" for a, b in ranges]
    return " OR ".join(conditions) or "false"


def _end(transform: str, start: datetime) -> datetime:
    """Return the end of a partition that starts at a time."""
    match transform:
        case "hours":
            return start + timedelta(hours=1)
        case "days":
            return start + timedelta(days=1)
        case "months":
            return (start.replace(day=28) + timedelta(days=4)).replace(day=1)
        case _:
            return start.replace(year=start.year + 1)
