"""Partitions and segments: the subsets of a table's rows for which metrics are computed.

Partition names use Hive syntax. Partition times are recognized by common formats. Filters select partitions.
Segments are subsets of the rows of each partition, by values of columns.
"""

from __future__ import annotations

import operator
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import takewhile

from tidegauge.analyzers.core.errors import (
    PartitionColumnError,
    PartitionSelectionError,
    did_you_mean,
    nearest,
)
from tidegauge.analyzers.core.formatting import plural
from tidegauge.analyzers.core.registry import key_of

NULL = "__HIVE_DEFAULT_PARTITION__"
"""Hive's name for the partition of null and the empty string."""

UNTRACKED_PREFIX = "given/"
"""Prefix of the fingerprints of data that counts as new content each time it is listed."""

_PERCENT_ESCAPE = re.compile("%([0-9A-Fa-f]{2})")


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition: its keys and their values as text.

    Examples
    --------
    >>> Partition(("ds", "hr"), ("2013-02-08", "07")).name
    'ds=2013-02-08/hr=07'
    """

    keys: tuple[str, ...] = ()
    values: tuple[str, ...] = ()

    @classmethod
    def from_path(cls, path: str) -> Partition:
        """Parse a Hive path ``key=value/...`` and decode its percent escapes.

        Examples
        --------
        >>> Partition.from_path("country=a%2Fb").values
        ('a/b',)
        """
        pairs = [step.partition("=") for step in path.split("/") if step]
        return cls(
            tuple(_decode(key) for key, _, _ in pairs), tuple(_decode(v) for _, _, v in pairs)
        )

    @classmethod
    def from_name(cls, name: str, keys: Sequence[str] = ()) -> Partition:
        """Parse a partition's `name`, in which values are not escaped: they can contain slashes and ``%``.

        Parameters
        ----------
        name : str
            The name.
        keys : sequence of str, optional
            The table's keys, if known. Without keys, ``/x=`` in a value begins another key.

        Examples
        --------
        >>> Partition.from_name("ds=2013-02-08/zone=Europe/Berlin").values
        ('2013-02-08', 'Europe/Berlin')
        >>> Partition.from_name("path=a/b=50%25", ["path"]).values
        ('a/b=50%25',)
        """
        key_start = "|".join(re.escape(f"{key}=") for key in keys) or "[^/=]+="
        pairs = (
            [step.partition("=") for step in re.split(f"/(?={key_start})", name)] if name else []
        )
        return cls(tuple(key for key, _, _ in pairs), tuple(value for _, _, value in pairs))

    @property
    def name(self) -> str:
        """The canonical name ``key=value/...``; empty for an unpartitioned table."""
        return "/".join(f"{key}={value}" for key, value in zip(self.keys, self.values, strict=True))

    def value(self, key: str) -> str:
        """Return the value of a key."""
        return self.values[self.keys.index(key)]

    def only(self, keys: Sequence[str]) -> Partition:
        """Project to a coarser partitioning by a subset of the keys."""
        return Partition(tuple(keys), tuple(self.value(key) for key in keys))


def _decode(text: str) -> str:
    return _PERCENT_ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)


EPOCH_MS = "epoch_ms"
ISO_WEEK, COMPACT_ISO_WEEK = "%G-W%V", "%GW%V"
QUARTER_FORMAT, HALF_YEAR_FORMAT = "quarter", "half_year"
_PART_OF_YEAR = re.compile(r"(?P<year>\d{4})-?(?P<letter>[QHqh])(?P<number>[1-4])")
_MONTHS_BY_FORMAT = {QUARTER_FORMAT: ("Q", 3), HALF_YEAR_FORMAT: ("H", 6)}
_EPOCH_START = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class TimeFormat:
    """Partition keys that hold the time, and the formats to parse them with.

    Attributes
    ----------
    keys : tuple of str
        The keys, whose values are joined by one space before parsing.
    formats : tuple of str
        ``strptime`` formats to try in order, ``%G-W%V`` for the Monday of an ISO week, ``quarter`` and
        ``half_year`` for the first day of 2026-Q1 and 2026-H1, or ``epoch_ms`` for milliseconds since
        1970; times without a time zone are UTC.

    Examples
    --------
    >>> hourly = TimeFormat(("ds", "hr"), ("%Y-%m-%d %H",))
    >>> str(hourly.time_of(Partition(("ds", "hr"), ("2013-02-08", "07"))))
    '2013-02-08 07:00:00+00:00'
    """

    keys: tuple[str, ...]
    formats: tuple[str, ...]

    def time_of(self, partition: Partition) -> datetime | None:
        """Parse the partition's time, in UTC; None if its values match no format."""
        text = " ".join(partition.value(key) for key in self.keys)
        for format in self.formats:
            try:
                if format == EPOCH_MS:
                    return _EPOCH_START + timedelta(milliseconds=int(text))
                time = _parsed(text, format)
                in_utc = time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
            except (ValueError, OverflowError):
                continue
            if _is_complete(time, format, text):
                return in_utc
        return None

    def among(self, keys: Sequence[str]) -> TimeFormat:
        """Return the format with its keys spelled as in the table, matched case-insensitively.

        Raises
        ------
        PartitionColumnError
            If the table is not partitioned by one of the keys.
        """
        by_name = {key.casefold(): key for key in keys}
        for key in self.keys:
            if key.casefold() not in by_name:
                available = ", ".join(map(repr, keys)) or "none"
                msg = f"the time key {key!r} is not a partition key (there are: {available})"
                raise PartitionColumnError(msg)
        return TimeFormat(tuple(by_name[key.casefold()] for key in self.keys), self.formats)

    @property
    def _may_be_part(self) -> bool:
        return len(self.keys) == 1 and self.keys[0].casefold() in _FORMATS_BY_SINGLE_KEY

    def segment_of(self, partition: Partition) -> str:
        """Return the segment name of the partition's non-time keys; empty if there are none.

        A key such as ``day`` or ``hr`` counts as a non-time key if its value is not a complete date.
        """
        is_part = self._may_be_part and self.time_of(partition) is None
        segment_keys = [key for key in partition.keys if is_part or key not in self.keys]
        return partition.only(segment_keys).name


def _parsed(text: str, format: str) -> datetime:
    if format in {ISO_WEEK, COMPACT_ISO_WEEK}:
        text, format = f"{text}-1", f"{format}-%u"
    if format in _MONTHS_BY_FORMAT:
        return _start_of_part(text, *_MONTHS_BY_FORMAT[format])
    return datetime.strptime(text, format)  # noqa: DTZ007 - the caller sets the zone


def _start_of_part(text: str, letter: str, months: int) -> datetime:
    """Return the first day of a quarter or half of a year, as in 2026-Q1, 2026Q1 and 2026-H1."""
    match = _PART_OF_YEAR.fullmatch(text)
    if match is None or match["letter"].upper() != letter:
        raise ValueError(text)
    return datetime(int(match["year"]), (int(match["number"]) - 1) * months + 1, 1)  # noqa: DTZ001


def _is_complete(time: datetime, format: str, text: str) -> bool:
    """Return whether digits without separators were parsed completely: 201311 is not 1 January 2013."""
    format, text = format.split(" ", maxsplit=1)[0], text.split(" ", maxsplit=1)[0]
    return "%Y%m" not in format or time.strftime(format) == text


TMST = "__tmst"
"""Partition key of Griffin measurements that have their own timestamp, in milliseconds since 1970."""
_DATE_KEYS = ("ds", "dt", "date")
_TIME_KEYS = ("ts", "timestamp", "datetime", "time")
"""Names of keys whose values are a date with a time of day."""
_TIME_FORMATS = tuple(
    f"{date}{between}{clock}"
    for date, between, clock in (
        *(("%Y-%m-%d", mark, clock) for mark in "T " for clock in ("%H:%M:%S", "%H:%M", "%H")),
        ("%Y-%m-%d", "-", "%H"),
        ("%Y%m%d", "", "%H"),
        ("%Y%m%d", "T", "%H%M%S"),
        ("%Y%m%d", "T", "%H%M"),
    )
)
_FORMATS_BY_SINGLE_KEY = {
    "day": ("%Y-%m-%d", "%Y%m%d"),
    "hour": _TIME_FORMATS,
    "hr": _TIME_FORMATS,
    "month": ("%Y-%m", "%Y%m", "%YM%m"),
    "week": (ISO_WEEK, COMPACT_ISO_WEEK, "%Y-%m-%d", "%Y%m%d"),
    "quarter": (QUARTER_FORMAT,),
    "half": (HALF_YEAR_FORMAT,),
}
"""Formats of keys that can hold a complete date if no other key holds a date."""
_DATE_WORD = re.compile(r"_(?i:ds|dt|day|date)$|^(?i:ds|dt|date)_|[a-z](?:Date|Day)$")
"""Words for a date in names such as order_date, date_key and eventDate, but not candidate or day_of_week."""
_FORMAT_BY_HOUR_KEY = {"hr": "%H", "hour": "%H", "hr_minute": "%H-%M"}
_MINUTE_KEYS = ("mi", "min", "minute")


def recognise_time(keys: Sequence[str]) -> TimeFormat | None:
    """Detect the time keys of a partitioning by their usual names; None if there are none.

    The first match counts:

    - ``ds``, ``dt`` or ``date``; else ``year``, ``month`` and ``day``; else the first key whose name contains
      a word for a date, such as ``order_date``. They are combined with ``hr``, ``hour`` or ``hr_minute``, and
      an hour with ``mi``, ``min`` or ``minute``.
    - ``ts``, ``timestamp``, ``datetime`` or ``time``.
    - A single ``day``, ``hour``, ``month``, ISO ``week``, ``quarter`` or ``half`` that holds a complete date.

    Examples
    --------
    >>> recognise_time(["year", "month", "country"])
    TimeFormat(keys=('year', 'month'), formats=('%Y %m',))
    >>> recognise_time(["ds", "hr_minute"]).formats
    ('%Y-%m-%d %H-%M', '%Y%m%d %H-%M')
    >>> recognise_time(["ds", "hr", "mi"]).formats
    ('%Y-%m-%d %H %M', '%Y%m%d %H %M')
    >>> recognise_time(["country", "order_date"]).keys
    ('order_date',)
    >>> str(recognise_time(["week"]).time_of(Partition(("week",), ("2026-W05",))))
    '2026-01-26 00:00:00+00:00'
    >>> str(recognise_time(["quarter"]).time_of(Partition(("quarter",), ("2026-Q2",))))
    '2026-04-01 00:00:00+00:00'
    >>> str(recognise_time(["ts"]).time_of(Partition(("ts",), ("2026-01-17T08:30",))))
    '2026-01-17 08:30:00+00:00'
    >>> recognise_time(["candidate", "day_of_week"])
    """
    by_name = {key.casefold(): key for key in keys}
    clock = next((name for name in _FORMAT_BY_HOUR_KEY if name in by_name), None)
    date = next((by_name[name] for name in _DATE_KEYS if name in by_name), None)
    units = [("year", "%Y"), ("month", "%m"), ("day", "%d")]
    present = list(takewhile(lambda unit: unit[0] in by_name, units))  # no day without its month
    if date is None and not present:
        date = next((key for key in keys if _DATE_WORD.search(key)), None)
    if date is not None:
        time_keys, formats = [date], ["%Y-%m-%d", "%Y%m%d"]
        if clock is None:
            formats += ["%Y-%m-%d-%H", "%Y%m%d%H", "%Y-%m", "%Y%m"]
    else:
        time_keys = [by_name[name] for name, _ in present]
        formats = [" ".join(format for _, format in present)]
        if len(present) < len(units):
            clock = None
    if not time_keys:
        return _time_of_one_key(by_name)
    if clock is not None:
        time_keys = [*time_keys, by_name[clock]]
        formats = [f"{format} {_FORMAT_BY_HOUR_KEY[clock]}" for format in formats]
        minute = next((by_name[name] for name in _MINUTE_KEYS if name in by_name), None)
        if minute is not None and _FORMAT_BY_HOUR_KEY[clock] == "%H":
            time_keys = [*time_keys, minute]
            formats = [f"{format} %M" for format in formats]
    return TimeFormat(tuple(time_keys), tuple(formats))


def _time_of_one_key(by_name: Mapping[str, str]) -> TimeFormat | None:
    """Return the format of a single key that holds the complete time."""
    if TMST in by_name:
        return TimeFormat((by_name[TMST],), (EPOCH_MS,))
    time = next((by_name[name] for name in _TIME_KEYS if name in by_name), None)
    if time is not None:
        return TimeFormat((time,), (*_TIME_FORMATS, "%Y-%m-%d", "%Y%m%d"))
    alone = _FORMATS_BY_SINGLE_KEY.keys() & by_name.keys()
    if len(alone) != 1:
        return None
    name = alone.pop()
    return TimeFormat((by_name[name],), _FORMATS_BY_SINGLE_KEY[name])


_FILTER_TOKEN = re.compile(
    r"\s*(?:(?P<op>!=|<=|>=|=|<|>)|(?P<punct>[(),])|(?P<quoted>'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\")"
    r"|(?P<bare>[^\s(),'\"=<>!]+))"
)
_COMPARISONS: dict[str, Callable[[str, str], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_PARTITION_NAME = re.compile(r"[^=/\s]+=[^=/\s'\";]*(?:/[^=/\s]+=[^=/\s'\";]*)*")
"""A string that is meant as the name of a partition."""
PartitionPredicate = Callable[[Partition], bool]


@dataclass(frozen=True)
class Selection:
    """A predicate on partitions: selects by name, and by conditions.

    Attributes
    ----------
    text : str
        The filter as the user wrote it.
    named : Partition
        The filter parsed as a partition's name, with some or all of the keys; without keys if it is not a
        name.
    conditions : callable or PartitionSelectionError
        The filter parsed as conditions, or the error if that fails.
    """

    text: str
    partition: Partition
    conditions: PartitionPredicate | PartitionSelectionError

    def __call__(self, partition: Partition) -> bool:
        """Return whether the partition is selected."""
        keys = self.partition.keys
        if keys and partition.only(keys) == self.partition:
            return True
        return callable(self.conditions) and self.conditions(partition)

    def require_match(self, chosen: set[str], available: Sequence[str]) -> set[str]:
        """Return the names of the selected partitions; raise if nothing is selected.

        Parameters
        ----------
        chosen : set of str
            The names of the selected partitions.
        available : sequence of str
            The names of all partitions, oldest first.

        Raises
        ------
        PartitionSelectionError
            If nothing is selected. The message names the nearest partitions and the newest partition.

        Examples
        --------
        >>> selection = parse_selection("ds=2013-02-09", ["ds"])
        >>> selection.require_match(set(), ["ds=2013-02-07", "ds=2013-02-08", "ds=2013-02-10"])
        Traceback (most recent call last):
            ...
        tidegauge.analyzers.core.errors.PartitionSelectionError: partitions='ds=2013-02-09' matches none of 3 partitions (nearest: ds=2013-02-08, ds=2013-02-10; newest: ds=2013-02-10)
        """
        if chosen:
            return chosen
        requested = " ".join(self.text.translate(_WITHOUT_QUOTES).split())
        requested = _AND_WORD.sub("/", _COMPARISON_OPERATOR.sub("=", requested))
        msg = f"partitions={self.text!r} matches none of {plural(len(available), 'partition')}"
        msg += nearby_partitions(requested, available)
        is_name = _PARTITION_NAME.fullmatch(self.text) is not None
        if isinstance(self.conditions, PartitionSelectionError) and not is_name:
            msg += f", and is not a valid condition: {self.conditions}"
        raise PartitionSelectionError(msg)


def parse_selection(text: str, keys: Sequence[str]) -> Selection:
    """Parse a partition filter into a predicate; values are compared as text and never run as SQL.

    A filter is a partition's name as it is printed, or conditions ``key op value`` joined by ``and``. The
    operators are ``=``, ``!=``, ``<``, ``<=``, ``>``, ``>=``, ``in (a, b)`` and ``between a and b``. Values
    are bare or quoted. A name with some of the keys selects all partitions with these values.

    Parameters
    ----------
    text : str
        The filter.
    keys : sequence of str
        The partition keys.

    Raises
    ------
    PartitionSelectionError
        If the filter does not parse or names an unknown partition key.

    Examples
    --------
    >>> chosen = parse_selection("ds between 2013-02-01 and '2013-02-28'", ["ds"])
    >>> chosen(Partition(("ds",), ("2013-02-08",))), chosen(Partition(("ds",), ("2013-03-01",)))
    (True, False)
    >>> parse_selection("zone=Europe/Berlin", ["zone"])(Partition(("zone",), ("Europe/Berlin",)))
    True
    """
    partition = _parse_name(text, keys)
    try:
        return Selection(text, partition, _Conditions(text, keys).parse())
    except PartitionSelectionError as error:
        if not partition.keys:
            raise
        return Selection(text, partition, error)


def _parse_name(text: str, keys: Sequence[str]) -> Partition:
    """Parse a name with some of the keys, ignoring case; without keys if the name has other keys."""
    by_name = {key.casefold(): key for key in keys}
    start = text.partition("=")[0].strip().casefold()
    if start not in by_name:
        return Partition()
    # The first key can be written in another case, or with a space before the equals sign.
    name = f"{by_name[start]}={text.partition('=')[2]}"
    partition = Partition.from_name(name, keys)
    return partition if len(set(partition.keys)) == len(partition.keys) else Partition()


class _Conditions:
    """Recursive-descent parser of one partition filter."""

    def __init__(self, text: str, keys: Sequence[str]) -> None:
        self.text, self.keys = text, keys
        self.tokens: list[tuple[str, str]] = []
        position, end = 0, len(text.rstrip())
        while position < end:
            match = _FILTER_TOKEN.match(text, position)
            if match is None:
                raise self.fail(f"cannot read {text[position:].strip()!r}")
            kind = str(match.lastgroup)
            self.tokens.append((kind, match[kind]))
            position = match.end()
        self.next = 0

    def fail(self, problem: str) -> PartitionSelectionError:
        return PartitionSelectionError(
            f"partitions={self.text!r}: {problem}; write 'new', 'all', or conditions such as"
            ' "ds >= 2013-02-01 and hr in (07, 08)"'
        )

    def take(self, *kinds: str, word: str | None = None) -> str:
        kind, value = self.tokens[self.next] if self.next < len(self.tokens) else ("end", "the end")
        if kind not in kinds or (word is not None and value.casefold() != word):
            raise self.fail(f"expected {word or ' or '.join(kinds)}, found {value!r}")
        self.next += 1
        return value

    def value(self) -> str:
        text = self.take("bare", "quoted")
        return text[1:-1].replace(text[0] * 2, text[0]) if text[0] in "'\"" else text

    def parse(self) -> PartitionPredicate:
        tests = [self.condition()]
        while self.next < len(self.tokens):
            self.take("bare", word="and")
            tests.append(self.condition())
        return lambda partition: all(test(partition) for test in tests)

    def condition(self) -> PartitionPredicate:
        key = self.key()
        kind, symbol = self.tokens[self.next] if self.next < len(self.tokens) else ("end", "")
        if kind == "op":
            compare = _COMPARISONS[self.take("op")]
            operand = self.value()
            return lambda partition: compare(partition.value(key), operand)
        if symbol.casefold() == "in":
            self.next += 1
            self.take("punct", word="(")
            values = {self.value()}
            while self.take("punct") == ",":
                values.add(self.value())
            return lambda partition: partition.value(key) in values
        if symbol.casefold() == "between":
            self.next += 1
            low = self.value()
            self.take("bare", word="and")
            high = self.value()
            return lambda partition: low <= partition.value(key) <= high
        raise self.fail(f"expected a comparison after {key!r}")

    def key(self) -> str:
        name = self.take("bare")
        by_name = {key.casefold(): key for key in self.keys}
        if name.casefold() not in by_name:
            available = ", ".join(map(repr, self.keys)) or "none"
            raise self.fail(f"no partition key {name!r} (there are: {available})")
        return by_name[name.casefold()]


def select_named(names: Iterable[str], available: Iterable[str]) -> set[str]:
    """Return the given partition names as a set; raise if one does not exist.

    Parameters
    ----------
    names : iterable of str
        The requested names.
    available : iterable of str
        The names of all partitions, oldest first.

    Raises
    ------
    PartitionSelectionError
        If a partition does not exist. The message names the nearest partitions and the newest partition.
    """
    chosen, existing = set(names), list(available)
    for name in sorted(chosen.difference(existing)):
        msg = f"there is no partition {name!r}{did_you_mean(name, existing)}{nearby_partitions(name, existing)}"
        raise PartitionSelectionError(msg)
    return chosen


_ONE_DIGIT = re.compile("[0-9]")
_COMPARISON_OPERATOR = re.compile(r" ?[<>=!]+ ?")
_AND_WORD = re.compile(" and ", re.IGNORECASE)
_WITHOUT_QUOTES = str.maketrans("", "", "'\"")


def nearby_partitions(requested: str, available: Sequence[str]) -> str:
    """Return the end of a message: the partitions next to a name in order, and the newest partition."""
    if not available:
        return " (the table has none)"
    names = sorted(available, key=str.casefold)
    index = bisect_left(names, requested.casefold(), key=str.casefold)
    near = set(names[max(0, index - 1) : index + 1])
    if not any(_ONE_DIGIT.sub("0", name) == _ONE_DIGIT.sub("0", requested) for name in near):
        near.add(nearest(requested, names) or available[-1])  # the name has another format
    nearest_names = ", ".join(name for name in names if name in near)
    return f" (nearest: {nearest_names}; newest: {available[-1]})"


OTHER = "__other__"
_SPECIAL_CHARACTER = re.compile(
    r"[%/=\x00-\x1f\x7f]"
)  # separators in names, and control characters
MAX_SEGMENTS = 100
MAX_VALUE_LENGTH = 200

Values = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SegmentSet:
    """The columns to segment by, and the values that have their own segment.

    Attributes
    ----------
    columns : tuple of str
        The columns.
    kept : tuple of tuple of str
        The values as text, with null as `partitions.NULL`. All other values share one more segment.
    generation : int
        Number of times the values were chosen. It is part of the name of the segment for all other values,
        since each choice leaves different rows in that segment.

    Examples
    --------
    >>> origin = SegmentSet(("origin",), (("EWR",), ("JFK",)))
    >>> origin.name_of(("EWR",)), origin.name_of(None)
    ('origin=EWR', 'origin=__other__')
    """

    columns: tuple[str, ...]
    kept: tuple[Values, ...] = ()
    generation: int = 1

    def name_of(self, values: Values | None) -> str:
        """Return the segment's name for these values; None means all other values."""
        if values is None:
            other_value = OTHER if self.generation == 1 else f"{OTHER}{self.generation}"
            return "/".join(f"{column}={other_value}" for column in self.columns)
        pairs = zip(self.columns, values, strict=True)
        return "/".join(f"{column}={_escape_value(value)}" for column, value in pairs)

    def names(self) -> list[str]:
        """Return the names of all segments; the segment for all other values is last."""
        return [self.name_of(values) for values in (*self.kept, None)]

    @property
    def size(self) -> int:
        """The maximum number of segments, including the segment for all other values."""
        return len(self.kept) + 1


def _escape_value(value: str) -> str:
    """Escape a value for a segment name, with Hive's percent escapes; long values end in a hash."""
    text = _SPECIAL_CHARACTER.sub(lambda match: f"%{ord(match[0]):02X}", value)
    if text.startswith(OTHER):
        text = "%5F" + text[1:]
    if len(text) > MAX_VALUE_LENGTH:
        text = f"{text[:MAX_VALUE_LENGTH]}~{key_of(text)[:16]}"
    return text


def joined(*names: str) -> str:
    """Join segment names into the name of their intersection; the empty name means all rows.

    Examples
    --------
    >>> joined("country=US", "origin=EWR"), joined("", "origin=EWR")
    ('country=US/origin=EWR', 'origin=EWR')
    """
    return "/".join(name for name in names if name)
