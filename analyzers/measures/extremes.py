"""Smallest and largest values of numbers, dates and timestamps.

Minimum, Maximum and Range: the state has the results of Spark's ``min`` and ``max``, in the column's own
precision. NaN is Spark's greatest number: the maximum of a column with a NaN is NaN, its
minimum only if every value is NaN.

For MinTime, MaxTime and Freshness, a TIMESTAMP is an instant, in seconds since 1970 in UTC. A DATE and a
TIMESTAMP_NTZ are wall-clock times without a zone: seconds from 1970-01-01 00:00 to the time on the clock,
which is midnight for a date. Neither depends on the session's time zone. States hold whole microseconds.
"""

from __future__ import annotations

import re
import struct
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, nan
from struct import Struct
from typing import Any, ClassVar, Self

from tidegauge.analyzers.core.analyzer import ColumnAnalyzer, analyzer
from tidegauge.analyzers.core.columnar import Kernel, PartitionMetadata, RowGroup
from tidegauge.analyzers.core.metric import Scale
from tidegauge.analyzers.core.registry import canonical_json
from tidegauge.analyzers.core.schema import NUMERIC, Field, Schema
from tidegauge.analyzers.core.sql import (
    NAMELESS_PATTERN,
    quote,
    wall_clock_micros,
    where_holds,
    words_in,
)
from tidegauge.analyzers.core.state import (
    READERS,
    Count,
    DoubleValuedState,
    Number,
    State,
    greatest,
    least,
    pack_number,
    register_state,
    subtract,
    unpack_number,
)

_COUNT_LAYOUT = struct.Struct("<q")


@register_state("min/2")
@dataclass(frozen=True, slots=True)
class MinState(DoubleValuedState):
    """Minimum of numbers, in their original precision, and how many there are.

    Examples
    --------
    >>> MinState(2**53 + 1, 1) + MinState(2.0**53 + 2, 1)
    MinState(minimum=9007199254740993, count=2)
    """

    minimum: Number | None = None
    count: Count = 0

    def combine(self, other: Self) -> Self:
        """Keep the smaller number and add the counts; a state without a number is ignored."""
        values = [s.minimum for s in (self, other) if s.minimum is not None]
        return type(self)(least(values), self.count + other.count)

    def metric_value(self) -> float:
        """Return the minimum; infinity if there are no numbers."""
        return inf if self.minimum is None else float(self.minimum)

    def pack(self) -> bytes:
        """Serialize the count, then the number."""
        return _COUNT_LAYOUT.pack(self.count) + pack_number(self.minimum)

    @classmethod
    def unpack(cls, payload: bytes) -> Self:
        """Deserialize the output of `pack`."""
        return cls(*_read(payload))


@register_state("max/2")
@dataclass(frozen=True, slots=True)
class MaxState(DoubleValuedState):
    """Maximum of numbers, in their original precision, and how many there are."""

    maximum: Number | None = None
    count: Count = 0

    def combine(self, other: Self) -> Self:
        """Keep the larger number and add the counts; a state without a number is ignored."""
        values = [s.maximum for s in (self, other) if s.maximum is not None]
        return type(self)(greatest(values), self.count + other.count)

    def metric_value(self) -> float:
        """Return the maximum; minus infinity if there are no numbers."""
        return -inf if self.maximum is None else float(self.maximum)

    def pack(self) -> bytes:
        """Serialize the count, then the number."""
        return _COUNT_LAYOUT.pack(self.count) + pack_number(self.maximum)

    @classmethod
    def unpack(cls, payload: bytes) -> Self:
        """Deserialize the output of `pack`."""
        return cls(*_read(payload))


@register_state("range/1")
@dataclass(frozen=True, slots=True)
class RangeState(DoubleValuedState):
    """Minimum and maximum of numbers, and how many there are."""

    minimum: Number | None = None
    maximum: Number | None = None
    count: Count = 0

    def combine(self, other: Self) -> Self:
        """Keep the smaller minimum and the larger maximum, and add the counts."""
        low = [s.minimum for s in (self, other) if s.minimum is not None]
        high = [s.maximum for s in (self, other) if s.maximum is not None]
        return type(self)(least(low), greatest(high), self.count + other.count)

    def metric_value(self) -> float:
        """Return the maximum minus the minimum; NaN if there are no numbers."""
        if self.minimum is None or self.maximum is None:
            return nan
        return subtract(self.maximum, self.minimum)

    def pack(self) -> bytes:
        """Serialize the count, then both numbers."""
        return (
            _COUNT_LAYOUT.pack(self.count) + pack_number(self.minimum) + pack_number(self.maximum)
        )

    @classmethod
    def unpack(cls, payload: bytes) -> Self:
        """Deserialize the output of `pack`."""
        (count,) = _COUNT_LAYOUT.unpack_from(payload)
        low, at = unpack_number(payload, _COUNT_LAYOUT.size)
        return cls(low, unpack_number(payload, at)[0], count)


def _read(payload: bytes) -> tuple[Number | None, int]:
    (count,) = _COUNT_LAYOUT.unpack_from(payload)
    return unpack_number(payload, _COUNT_LAYOUT.size)[0], count


# Layout version 1 stored every number as a double.
def _read_first(payload: bytes) -> tuple[Number | None, int]:
    number, count = struct.unpack("<dq", payload)
    return (number if count else None), count


READERS["min/1"] = lambda payload: MinState(*_read_first(payload))
READERS["max/1"] = lambda payload: MaxState(*_read_first(payload))


@dataclass(frozen=True, repr=False)
class ExtremeAnalyzer(ColumnAnalyzer[Any, float]):
    """Base of analyzers for the minimum or maximum of a number per row.

    Class attributes
    ----------------
    aggregates : tuple of str
        Spark's aggregate functions, in the order of the state's numbers.
    """

    scale: ClassVar[Scale] = Scale.SIGNED
    accepts: ClassVar[str] = "numeric"
    state_type: ClassVar[type[Any]]
    aggregates: ClassVar[tuple[str, ...]]

    def number(self, schema: Schema) -> str:
        """Return SQL for the number of each row."""
        return self.field(schema).sql

    def counted(self, schema: Schema) -> str:
        """Return SQL that is null where the number is."""
        return self.number(schema)

    def aggregations(self, schema: Schema) -> Sequence[str]:
        """Return the extremes and the number of values."""
        values = where_holds(self.where, self.number(schema))
        counted = where_holds(self.where, self.counted(schema))
        return (*(f"{name}({values})" for name in self.aggregates), f"count({counted})")

    def kernel(self, schema: Schema) -> Kernel[Any] | None:
        """Compute the extremes and the number of values."""
        columns = schema.top_level(self.field(schema))
        if columns is None:
            return None
        (column,) = columns

        def state_of(bounds: tuple[Number | None, Number | None], values: int) -> Any:
            ends = dict(zip(("min", "max"), bounds, strict=True))
            return self.state_type(*(ends[name] for name in self.aggregates), values)

        def from_metadata(meta: PartitionMetadata) -> Any | None:
            bounds, values = meta.bounds(column), meta.values(column)
            if bounds is None and values and self.aggregates == ("min",):
                lower = meta.lower(column)
                bounds = None if lower is None else (lower, None)
            return None if bounds is None or values is None else state_of(bounds, values)

        return Kernel(
            columns,
            lambda group: state_of(group.bounds(column), group.values(column)),
            from_metadata,
        )

    def measure(self, state: Any) -> float:
        """Return the minimum, maximum or range."""
        if not state.count:
            raise self.no_data()
        return float(state.metric_value())


@analyzer
class Minimum(ExtremeAnalyzer):
    """Smallest value of a numeric column. Nulls are ignored; empty metric if all are null.

    Examples
    --------
    >>> Minimum("x").compute_metric_from(MinState(-1.0, 4) + MinState(2.0, 3)).value
    -1.0
    """

    state_type: ClassVar[type[Any]] = MinState
    aggregates: ClassVar[tuple[str, ...]] = ("min",)


@analyzer
class Maximum(ExtremeAnalyzer):
    """Largest value of a numeric column. Nulls are ignored; empty metric if all are null.

    Examples
    --------
    >>> Maximum("x").compute_metric_from(MaxState(-1.0, 4) + MaxState(2.0, 3)).value
    2.0
    """

    state_type: ClassVar[type[Any]] = MaxState
    aggregates: ClassVar[tuple[str, ...]] = ("max",)


@analyzer
class Range(ExtremeAnalyzer):
    """Maximum minus minimum of a numeric column; 0 for one value, empty metric for none.

    NaN if the column contains NaN, or if all values are the same infinity.

    Examples
    --------
    >>> Range("x").compute_metric_from(RangeState(-1, 4, 9)).value
    5.0
    """

    scale: ClassVar[Scale] = Scale.POSITIVE
    state_type: ClassVar[type[Any]] = RangeState
    aggregates: ClassVar[tuple[str, ...]] = ("min", "max")


_SECOND_MICROS = 1_000_000
_NO_TIME = -(1 << 63)


@register_state("time-range/1")
@dataclass(frozen=True, slots=True)
class TimeRangeState(State):
    """Earliest and latest time, in microseconds, and the number of values."""

    depends_on_types: ClassVar[bool] = True
    layout: ClassVar[Struct] = Struct("<qqq")
    earliest: int = 0
    latest: int = 0
    count: Count = 0

    def combine(self, other: Self) -> Self:
        """Keep the earliest and the latest time and add the counts."""
        if not self.count or not other.count:
            return self if self.count else other
        return type(self)(
            min(self.earliest, other.earliest),
            max(self.latest, other.latest),
            self.count + other.count,
        )


@register_state("freshness/1")
@dataclass(frozen=True, slots=True)
class FreshnessState(State):
    """Latest time, the reference time to compare it with, and the number of values."""

    depends_on_types: ClassVar[bool] = True
    layout: ClassVar[Struct] = Struct("<qqq")
    latest: int = _NO_TIME
    until: int = _NO_TIME
    count: Count = 0

    def combine(self, other: Self) -> Self:
        """Keep the later times and add the counts."""
        return type(self)(
            max(self.latest, other.latest),
            max(self.until, other.until),
            self.count + other.count,
        )

    def agrees_with(self, other: Self) -> bool:
        """Return whether latest time and count are equal; the reference time is ignored."""
        return (self.latest, self.count) == (other.latest, other.count)


def _micros(field: Field, aggregate: str, where: str | None) -> str:
    time = f"{aggregate}({where_holds(where, field.sql)})"
    match field.kind:
        case "date":
            return f"CAST(unix_date({time}) AS BIGINT) * {86400 * _SECOND_MICROS}"
        case "timestamp":
            return f"unix_micros({time})"
        case _:
            return wall_clock_micros(time)


_ZONED_TIME = re.compile(
    rf"""\btimestamp(?P<literal>\s*'(?!\s*[-+\d]+[T\s]+[\d:.]+\s*[-+A-Za-z])[^']*')
      | \b(?:to_)?timestamp(?P<call>\s*\((?!\s*[-+]?\d))
      | \bas\s+timestamp(?P<cast>\s*\))
      | {NAMELESS_PATTERN} | `[^`]*`""",
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)
"""Places where SQL converts a string or date without a zone to a TIMESTAMP."""


def as_wall_clock(sql: str, schema: Schema) -> str:
    """Return SQL in which times without a zone are TIMESTAMP_NTZ instead of TIMESTAMP.

    Spark reads a TIMESTAMP without a zone in the session's time zone, and changes times that do not exist
    there. Literals with a zone stay instants. SQL that reads numeric columns is unchanged, because the
    numbers may be seconds since 1970.

    Examples
    --------
    >>> schema = Schema.from_types({"ds": "string", "seconds": "long"})
    >>> as_wall_clock("timestamp(ds) + INTERVAL 1 DAY", schema)
    'to_timestamp_ntz(ds) + INTERVAL 1 DAY'
    >>> as_wall_clock("CAST(ds AS TIMESTAMP)", schema), as_wall_clock("timestamp(seconds)", schema)
    ('CAST(ds AS TIMESTAMP_NTZ)', 'timestamp(seconds)')
    >>> as_wall_clock("TIMESTAMP'2018-11-04 00:00:00'", schema)
    "TIMESTAMP_NTZ'2018-11-04 00:00:00'"
    >>> as_wall_clock("TIMESTAMP'2018-11-04 00:00:00 UTC'", schema)
    "TIMESTAMP'2018-11-04 00:00:00 UTC'"
    """
    words = words_in(sql)
    if any(schema.field(quote(n)).kind in NUMERIC for n in schema.names if n.casefold() in words):
        return sql

    def without_zone(match: re.Match[str]) -> str:
        if match["literal"]:
            return f"TIMESTAMP_NTZ{match['literal']}"
        if match["call"]:
            return f"to_timestamp_ntz{match['call']}"
        return f"AS TIMESTAMP_NTZ{match['cast']}" if match["cast"] else match[0]

    return _ZONED_TIME.sub(without_zone, sql)


@dataclass(frozen=True, repr=False)
class _TimeAnalyzer(ColumnAnalyzer[TimeRangeState, float]):
    scale: ClassVar[Scale] = Scale.TIME
    state_type: ClassVar[type[State]] = TimeRangeState
    accepts: ClassVar[str] = "temporal"

    def statistic(self) -> str:
        """Return the statistic key, shared by MinTime and MaxTime."""
        return canonical_json({"state": "time-range", "column": self.column, "where": self.where})

    def aggregations(self, schema: Schema) -> Sequence[str]:
        """Return the minimum, the maximum and the number of values."""
        field = self.field(schema)
        ends = (_micros(field, name, self.where) for name in ("min", "max"))
        return (*ends, f"count({self.values(schema)})")

    def kernel(self, schema: Schema) -> Kernel[TimeRangeState] | None:
        """Compute both ends and the number of values."""
        columns = schema.top_level(self.field(schema))
        if columns is None:
            return None
        (column,) = columns

        def from_rows(group: RowGroup) -> TimeRangeState:
            return self.fold((*group.times(column), group.values(column)))

        def from_metadata(meta: PartitionMetadata) -> TimeRangeState | None:
            times, values = meta.times(column), meta.values(column)
            return None if times is None or values is None else self.fold((*times, values))

        return Kernel(columns, from_rows, from_metadata)

    def fold(self, cells: Sequence[Any]) -> TimeRangeState:
        """Return the state of both ends and the count."""
        return TimeRangeState(*cells) if cells[2] else TimeRangeState()

    def measure(self, state: TimeRangeState) -> float:
        """Return the earliest or latest time, in seconds."""
        if not state.count:
            raise self.no_data()
        return self.end(state) / _SECOND_MICROS

    @abstractmethod
    def end(self, state: TimeRangeState) -> int:
        """Return the earliest or latest time, in microseconds."""


@analyzer
class MinTime(_TimeAnalyzer):
    """Earliest date or timestamp, in seconds since 1970.

    A TIMESTAMP is read in UTC. A DATE or TIMESTAMP_NTZ is read as a wall-clock time, regardless of the
    session's time zone. Nulls are ignored; empty metric if all values are null.

    Examples
    --------
    >>> MinTime("at").compute_metric_from(TimeRangeState(86_400_000_000, 86_400_500_000, 2)).value
    86400.0
    """

    def end(self, state: TimeRangeState) -> int:
        """Return the earliest time."""
        return state.earliest


@analyzer
class MaxTime(_TimeAnalyzer):
    """Latest date or timestamp, in seconds since 1970.

    A TIMESTAMP is read in UTC. A DATE or TIMESTAMP_NTZ is read as a wall-clock time, regardless of the
    session's time zone. Nulls are ignored; empty metric if all values are null.

    Examples
    --------
    >>> MaxTime("at").compute_metric_from(TimeRangeState(86_400_000_000, 86_400_500_000, 2)).value
    86400.5
    """

    def end(self, state: TimeRangeState) -> int:
        """Return the latest time."""
        return state.latest


@analyzer
class Freshness(ColumnAnalyzer[FreshnessState, float]):
    """Age of the newest value: seconds from the latest date or timestamp to now.

    Nulls are ignored; empty metric if all values are null. Negative if the newest value is in the future.

    Parameters
    ----------
    column : str
        The column.
    until : str, optional
        Spark SQL expression for the reference time, in place of now. For the freshness of old
        partitions use their end: ``timestamp(ds) + INTERVAL 1 DAY``.

    Notes
    -----
    The type of the column determines how both times are compared:

    - A TIMESTAMP column holds instants. An ``until`` without a zone (a DATE, a TIMESTAMP_NTZ, a string
      or literal such as ``TIMESTAMP'2024-01-31 12:00:00'``) is read in the session's time zone.
    - A DATE or TIMESTAMP_NTZ column has wall-clock times. A date is its midnight. An ``until`` without a zone
      is compared without conversion: 10:00 to 12:00 is 7200 seconds in every zone and on every day. An
      instant (now, a TIMESTAMP column, a literal with a zone) is first converted
      to the wall-clock time in the session's time zone.

    Examples
    --------
    >>> state = FreshnessState(latest=86_400_000_000, until=86_460_000_000, count=5)
    >>> Freshness("at").compute_metric_from(state).value
    60.0
    """

    scale: ClassVar[Scale] = Scale.SIGNED
    state_type: ClassVar[type[State]] = FreshnessState
    accepts: ClassVar[str] = "temporal"
    sql_options: ClassVar[tuple[str, ...]] = ("where", "until")

    until: str | None = None

    def aggregations(self, schema: Schema) -> Sequence[str]:
        """Return the latest value, the reference time and the number of values."""
        field = self.field(schema)
        reference = "current_timestamp()" if self.until is None else f"(\n{self.until}\n)"
        if field.kind == "timestamp":
            reference = f"CAST({reference} AS TIMESTAMP_LTZ)"
            latest_reference = f"unix_micros(max({where_holds(self.where, reference)}))"
        else:
            reference = f"CAST({as_wall_clock(reference, schema)} AS TIMESTAMP_NTZ)"
            latest_reference = wall_clock_micros(f"max({where_holds(self.where, reference)})")
        return (
            _micros(field, "max", self.where),
            latest_reference,
            f"count({self.values(schema)})",
        )

    def fold(self, cells: Sequence[Any]) -> FreshnessState:
        """Return the state of both times and the count."""
        return FreshnessState(*cells) if cells[2] and cells[1] is not None else FreshnessState()

    def measure(self, state: FreshnessState) -> float:
        """Return the seconds from the latest value to the reference time."""
        if not state.count:
            raise self.no_data()
        return (state.until - state.latest) / _SECOND_MICROS
