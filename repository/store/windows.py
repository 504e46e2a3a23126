"""Time windows over partitions (rolling, calendar and total), and states merged over them.

Windows are half-open, in UTC: a window contains the partitions with start <= time < end. Weeks
begin on Monday. `WindowScheme` and `WindowSpan` are pure. `HistoricStates` loads the states of a
dataset's partitions merged over a window; `NamedStates` loads and persists states under a name.
"""

from __future__ import annotations

import re
import warnings
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from tidegauge.analyzers.core.errors import (
    HistoryError,
    MixedTypesError,
    PartitionSelectionError,
    RepositoryWarning,
    StateError,
    StateMismatchError,
    TidegaugeError,
)
from tidegauge.analyzers.core.formatting import plural
from tidegauge.analyzers.core.metric import flatten
from tidegauge.analyzers.core.partitions import Partition, parse_selection, select_named
from tidegauge.analyzers.core.registry import key_of
from tidegauge.analyzers.core.state import State
from tidegauge.repository.store import schema as s
from tidegauge.repository.store.batch import outcome
from tidegauge.repository.store.bulk import chunks, upsert
from tidegauge.repository.store.database import Database
from tidegauge.repository.store.frames import columns
from tidegauge.repository.store.queries import (
    AsOf,
    StoredState,
    Window,
    as_analyzer,
    commit_as_of,
    has_measurements,
    is_in_segment,
    states_of_partitions,
    stored_states,
    stored_total,
)
from tidegauge.repository.store.rows import PartitionRow, number_of
from tidegauge.repository.store.stored_states import (
    Artifacts,
    Generations,
    Payload,
    mixed_types_text,
)

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from tidegauge.analyzers.core.analyzer import Analyzer


END_OF_TIME = datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
"""End of the total window, and the time of partitions without one."""

_DAY_ORIGIN = datetime(1970, 1, 1, tzinfo=UTC)
_WEEK_ORIGIN = datetime(1969, 12, 29, tzinfo=UTC)
_ONE_DAY, _ONE_HOUR = timedelta(days=1), timedelta(hours=1)
_MONTHS_BY_UNIT = {"month": 1, "quarter": 3, "year": 12}
_UNIT_ALIASES = {"mo": "month", "q": "quarter", "y": "year", "w": "week", "d": "day", "h": "hour"}
_TOTAL_NAME = "total"
_MAX_COUNT = 10_000


@dataclass(frozen=True)
class WindowSpan:
    """One window, and the half-open index range ``first`` to ``last`` of the times in it."""

    start: datetime | None
    end: datetime
    first: int
    last: int


@dataclass(frozen=True)
class WindowScheme:
    """A scheme that divides time into windows.

    Attributes
    ----------
    name : str
    count : int
        Number of units that a window covers.
    unit : str
        ``hour``, ``day``, ``week``, ``month``, ``quarter``, ``year`` or ``total``.
    rolling : bool
        True for one window for each day (or hour) that has a partition, ending with it; False for
        consecutive windows.
    """

    name: str
    count: int
    unit: str
    rolling: bool

    @classmethod
    def from_name(cls, name: str) -> WindowScheme:
        """Parse a roll-up name: ``7d``, ``24h`` and ``2w`` roll; ``week``, ``month`` ... do not.

        Examples
        --------
        >>> WindowScheme.from_name("7d").rolling, WindowScheme.from_name("month").rolling
        (True, False)
        """
        text = name.strip().casefold()
        if text == _TOTAL_NAME:
            return cls(text, 1, text, rolling=False)
        count, unit = _parse_count_and_unit(
            text, name, "7d, 24h, 2w, day, week, month, quarter, year or total"
        )
        rolls = text[0].isdigit() and unit in {"hour", "day", "week"}
        if unit == "week" and rolls:
            count, unit = 7 * count, "day"
        return cls(text, count, unit, rolls)

    @classmethod
    def from_interval(cls, text: str) -> WindowScheme:
        """Parse a window interval: ``1w``, ``7d``, ``12h``, ``1mo``, ``month``, ``1q``, ``1y``.

        Examples
        --------
        >>> WindowScheme.from_interval("2w").count
        2
        """
        count, unit = _parse_count_and_unit(
            text.strip().casefold(), text, "1w, 7d, 12h, 1mo, month, 1q or 1y"
        )
        return cls(text.strip(), count, unit, rolling=False)

    def spans(self, times: Sequence[datetime]) -> list[WindowSpan]:
        """Return the windows that contain any of the times, which must be sorted.

        Examples
        --------
        >>> days = [datetime(2013, 1, day, tzinfo=UTC) for day in (30, 31)]
        >>> [str(span.end.date()) for span in WindowScheme.from_name("month").spans(days)]
        ['2013-02-01']
        """
        if not times:
            return []
        if self.unit == _TOTAL_NAME:
            return [WindowSpan(None, END_OF_TIME, 0, len(times))]
        bounds = dict.fromkeys(map(self._last_of if self.rolling else self._around, times))
        return [
            WindowSpan(start, end, bisect_left(times, start), bisect_left(times, end))
            for start, end in bounds
        ]

    def _last_of(self, time: datetime) -> tuple[datetime, datetime]:
        step = _ONE_HOUR if self.unit == "hour" else _ONE_DAY
        last = _floor(time, _DAY_ORIGIN, step)
        return _shift(last, -(self.count - 1) * step), _shift(last, step)

    def _around(self, time: datetime) -> tuple[datetime, datetime]:
        if self.unit in _MONTHS_BY_UNIT:
            months = _MONTHS_BY_UNIT[self.unit] * self.count
            first_month = (time.year * 12 + time.month - 1) // months * months
            return _month(first_month), _month(first_month + months)
        origin = _WEEK_ORIGIN if self.unit == "week" else _DAY_ORIGIN
        step = {"hour": _ONE_HOUR, "day": _ONE_DAY, "week": 7 * _ONE_DAY}[self.unit] * self.count
        start = _floor(time, origin, step)
        return start, _shift(start, step)


def _parse_count_and_unit(text: str, name: str, examples: str) -> tuple[int, str]:
    match = re.fullmatch(r"(\d*)\s*([a-z]+?)s?", text)
    unit = match and _UNIT_ALIASES.get(match[2], match[2])
    count = int(match[1] or 1) if match else 0
    if unit not in _UNIT_ALIASES.values() or not 0 < count <= _MAX_COUNT:
        msg = f"invalid window {name!r}: use {examples}"
        raise HistoryError(msg)
    return count, str(unit)


def _floor(time: datetime, origin: datetime, step: timedelta) -> datetime:
    return origin + (time - origin) // step * step


def _shift(time: datetime, offset: timedelta) -> datetime:
    """Shift a time, clamped to the range of datetime: tables have days like 9999-12-31."""
    try:
        return time + offset
    except OverflowError:
        return END_OF_TIME if offset > timedelta() else datetime.min.replace(tzinfo=UTC)


def _month(months: int) -> datetime:
    year = months // 12
    if year < 1:
        return datetime.min.replace(tzinfo=UTC)
    return (
        END_OF_TIME if year > END_OF_TIME.year else datetime(year, months % 12 + 1, 1, tzinfo=UTC)
    )


@dataclass(frozen=True)
class NamedStates:
    """States stored under a user's name, outside any run; a `StateLoader` and a `StatePersister`.

    Created by `Repository.states`.
    """

    database: Database
    artifacts: Artifacts
    name: str

    def load(self, analyzer: Analyzer[Any, Any]) -> State | None:
        """Return the analyzer's state, or None if none is stored yet."""
        named_state = s.named_state.c
        query = sa.select(*s.payload_of(s.named_state)).where(
            named_state.name == self.name, named_state.key == key_of(analyzer.statistic())
        )
        with self.database.read() as connection:
            row = connection.execute(query).one_or_none()
        return None if row is None else self.artifacts.unpack(Payload(*row))

    def persist(self, analyzer: Analyzer[Any, Any], state: State) -> None:
        """Store the analyzer's state, replacing an earlier one."""
        self.database.require_writable()
        packed = self.artifacts.pack(state)
        key = {"name": self.name, "key": key_of(analyzer.statistic())}
        content = {
            "canonical": analyzer.statistic(),
            "tag": packed.tag,
            "payload": packed.payload,
            "artifact": packed.artifact,
            "checksum": packed.checksum,
            "stored_at": datetime.now(UTC),
        }
        row = {**key, **content}
        self.database.write(
            lambda connection: upsert(connection, s.named_state, tuple(row), [tuple(row.values())])
        )


WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MIN_WEEKDAY_LETTERS = 2


def weekday_numbers(weekday: str | Sequence[str] | None) -> frozenset[int] | None:
    """Return the numbers of weekdays by name, from 0 for Monday; None for all.

    Parameters
    ----------
    weekday : str, sequence of str, optional
        English names, or their first letters.

    Raises
    ------
    HistoryError
        If a name is not a weekday.

    Examples
    --------
    >>> sorted(weekday_numbers(["Saturday", "sun"]))
    [5, 6]
    """
    if weekday is None:
        return None
    names = [weekday] if isinstance(weekday, str | int) else list(weekday)
    numbers = set()
    for name in names:
        letters = str(name).strip().casefold()
        matching = [n for n, day in enumerate(WEEKDAYS) if day.casefold().startswith(letters)]
        if len(letters) < _MIN_WEEKDAY_LETTERS or not matching:
            msg = f"Invalid weekday {name!r}: use a name such as Monday or Mon, or a list of names."
            raise HistoryError(msg)
        numbers.add(matching[0])
    if not numbers:
        msg = "weekday=[] selects no partition: name a weekday, or leave the argument out."
        raise HistoryError(msg)
    return frozenset(numbers)


@dataclass(frozen=True)
class HistoricStates:
    """The states of a dataset's partitions, merged over a window; a `StateLoader`.

    Created by `Repository.window_states`.
    """

    database: Database
    artifacts: Artifacts
    dataset: str
    window: Window
    segment: str | None = None
    as_of: AsOf = None
    allow_missing: bool = False
    partitions: str | Sequence[str] | None = None
    weekday: str | Sequence[str] | None = None

    def load(self, analyzer: Analyzer[Any, Any]) -> State | None:
        """Return the analyzer's states merged into one, or None if it was never measured.

        The total that the last roll-up stored is returned, unless a partition has changed since.
        The last digits of floating-point sums depend on the order of addition.

        Raises
        ------
        HistoryError
            If there are no partitions, or some have no state, and ``allow_missing`` is not set; or
            if states cannot be merged for a reason other than types.
        MixedTypesError
            If the column had different types, and ``allow_missing`` is not set. With it, only states of
            the newest type are merged, with a warning.
        CorruptStateError, UnknownStateTagError
            If a state is damaged or unreadable; with ``allow_missing`` it is skipped with a warning.
        """
        filters = (self.segment, self.as_of, self.partitions, self.weekday)
        if self.window == Window() and all(value is None for value in filters):
            with self.database.read() as connection:
                total = stored_total(connection, self.dataset, analyzer)
            if total is not None:
                with suppress(
                    StateError
                ):  # the total is damaged, but the partitions' states may not be
                    return self.artifacts.unpack(total)
        stored = self.stored(analyzer)
        if stored is None:
            return None
        if not stored and not self.allow_missing:
            msg = f"{self.dataset!r} has no partition{self._selection()}: there is nothing to merge"
            raise HistoryError(msg)
        return self.total(analyzer, stored)

    def _selection(self) -> str:
        """Return the filters on partitions, in words."""
        chosen: dict[str, object] = {"since": self.window.since, "until": self.window.until}
        chosen |= {"on weekday": self.weekday}
        chosen |= {"in segment": self.segment, "known as of": self.as_of}
        return "".join(f" {name} {value}" for name, value in chosen.items() if value is not None)

    def stored(self, analyzer: Analyzer[Any, Any]) -> list[StoredState] | None:
        """Return references to the states in order of time, or None if it was never measured."""
        with self.database.read() as connection:
            if not has_measurements(connection, self.dataset, analyzer):
                return None
            stored = stored_states(
                connection, self.dataset, analyzer, self.window, self.segment, self.as_of
            )
        return self._chosen(stored)

    def _chosen(self, stored: list[StoredState]) -> list[StoredState]:
        """Return the states of the chosen partitions and weekdays."""
        weekdays = weekday_numbers(self.weekday)
        names = None
        if self.partitions is not None:
            names = _partition_names(self.partitions, [state.partition for state in stored])
        return [
            state
            for state in stored
            if (names is None or state.partition in names)
            and (weekdays is None or (state.time and state.time.weekday() in weekdays))
        ]

    def total(self, analyzer: Analyzer[Any, Any], stored: Sequence[StoredState]) -> State:
        """Merge states, reading them one at a time; see `load` for its errors."""
        return merged_state(
            self.artifacts, self.dataset, analyzer, stored, allow_missing=self.allow_missing
        )


def merged_state(
    artifacts: Artifacts,
    dataset: str,
    analyzer: Analyzer[Any, Any],
    stored: Sequence[StoredState],
    *,
    allow_missing: bool = False,
) -> State:
    """Merge the states of partitions, reading them one at a time; see `HistoricStates.load` for its errors."""
    missing = [state.partition for state in stored if state.payload is None]
    if missing and not allow_missing:
        msg = (
            f"{analyzer!r} has no state for {len(missing)} of {plural(len(stored), 'partition')},"
            f" first {missing[0]!r}: it failed there, was not measured, or the state was cleaned"
            " away; narrow the window, or pass allow_missing=True"
        )
        raise HistoryError(msg)
    stored = _of_one_generation(dataset, analyzer, stored, allow_missing=allow_missing)
    try:
        states = _read_states(artifacts, dataset, stored, allow_missing=allow_missing)
        return analyzer.state_type.merge(states)
    except StateMismatchError as error:
        msg = f"the states of {analyzer!r} on {dataset!r} cannot be merged: {error}"
        raise HistoryError(msg) from error


def _of_one_generation(
    dataset: str,
    analyzer: Analyzer[Any, Any],
    stored: Sequence[StoredState],
    *,
    allow_missing: bool,
) -> Sequence[StoredState]:
    """Return the states of the newest generation; raise a `MixedTypesError` for several."""
    measured = [state for state in stored if state.payload is not None]
    generations = [state.generation for state in measured]
    if len(set(generations)) <= 1:
        return stored
    text = mixed_types_text(generations, [state.partition for state in measured])
    if not allow_missing:
        msg = (
            f"{analyzer!r} on {dataset!r}: {text}; narrow the window, or pass"
            " allow_missing=True for the newest type only"
        )
        raise MixedTypesError(msg)
    warnings.warn(
        f"{analyzer!r} on {dataset!r}: {text}; only partitions where {generations[-1]} were merged",
        RepositoryWarning,
        stacklevel=2,
    )
    return [state for state in measured if state.generation == generations[-1]]


def _read_states(
    artifacts: Artifacts, dataset: str, stored: Sequence[StoredState], *, allow_missing: bool
) -> Iterator[State]:
    for state in stored:
        if state.payload is None:
            continue
        try:
            yield artifacts.unpack(state.payload)
        except StateError as error:
            text = f"{dataset!r}, {state.partition!r}: {error}"
            if not allow_missing:
                raise type(error)(text) from error
            warnings.warn(f"{text}; it was left out", RepositoryWarning, stacklevel=2)


def _partition_names(partitions: str | Sequence[str], available: Sequence[str]) -> set[str]:
    """Return the chosen names of partitions; raise if a name does not exist or conditions match none."""
    try:
        if not isinstance(partitions, str):
            return select_named(partitions, available)
        by_name = {name: Partition.from_name(name) for name in available}
        keys = list(dict.fromkeys(key for p in by_name.values() for key in p.keys))
        selection = parse_selection(partitions, keys)
        chosen = {name for name, partition in by_name.items() if selection(partition)}
        return selection.require_match(chosen, available)
    except PartitionSelectionError as error:
        raise HistoryError(str(error)) from error


_STATISTICS_PER_QUERY = 50
"""Statistics whose states are in memory at the same time."""


def merged_series(
    connection: Connection,
    artifacts: Artifacts,
    dataset: str,
    partitions: Sequence[PartitionRow],
    series: Sequence[int],
    as_of: AsOf = None,
) -> dict[int, float]:
    """Return the metrics of many series over all rows of some partitions, from their merged states.

    Parameters
    ----------
    connection : Connection
    artifacts : Artifacts
    dataset : str
        Name of the dataset.
    partitions : sequence of PartitionRow
        In order of time.
    series : sequence of int
        Ids of series.
    as_of : str, date, datetime or int, optional
        Past view of the repository.

    Returns
    -------
    dict of int to float
        By id of the series. Series without a state in each partition of their segment are left out.
    """
    commit = commit_as_of(connection, as_of)
    query = (
        sa.select(
            *(s.series.c.id, s.series.c.name, s.series.c.instance),
            *(s.analyzer.c.text, s.analyzer.c.segment, s.analyzer.c.statistic_id),
        )
        .join_from(s.series, s.analyzer)
        .where(s.analyzer.c.statistic_id.is_not(None))
    )
    # Analyzers that share a statistic share its merged state.
    by_statistic: dict[int, dict[str, list[Any]]] = {}
    for chunk in chunks(series):
        for row in connection.execute(query.where(s.series.c.id.in_(chunk))):
            by_statistic.setdefault(row.statistic_id, {}).setdefault(row.text, []).append(row)
    values: dict[int, float] = {}
    generations = Generations(connection)
    for statistics in chunks(sorted(by_statistic), _STATISTICS_PER_QUERY):
        payloads = states_of_partitions(
            connection, statistics, [partition["id"] for partition in partitions], commit
        )
        for statistic in statistics:
            rows_by_analyzer = by_statistic[statistic]
            segment = next(iter(rows_by_analyzer.values()))[0].segment
            inside = [p for p in partitions if is_in_segment(p["within"], segment)]
            stored = [(p, *payloads.get((statistic, p["id"]), (None, None))) for p in inside]
            with suppress(TidegaugeError):  # a state is missing or damaged, or the types differ
                values |= _metrics_of(artifacts, dataset, stored, rows_by_analyzer, generations)
    return values


def _metrics_of(
    artifacts: Artifacts,
    dataset: str,
    stored: Sequence[tuple[PartitionRow, Payload | None, int | None]],
    rows_by_analyzer: Mapping[str, Sequence[Any]],
    generations: Generations,
) -> dict[int, float]:
    """Return the values of series by id, from one merged state of one statistic."""
    values: dict[int, float] = {}
    state = None
    for text, rows in rows_by_analyzer.items():
        analyzer = as_analyzer(text)
        if state is None:
            schemas = {schema for *_, schema in stored if schema is not None}
            by_schema = generations.find(analyzer, schemas)
            states = [
                StoredState(p["partition"], p["time"], payload, "", by_schema.get(schema or 0, ""))
                for p, payload, schema in stored
            ]
            state = merged_state(artifacts, dataset, analyzer, states)
        metric = analyzer.compute_metric_from(state)
        numbers = {
            (flat.name, flat.instance): flat.value for flat in flatten(metric) if not flat.failed
        }
        for row in rows:
            if (row.name, row.instance) in numbers:
                values[row.id] = float(numbers[row.name, row.instance])
    return values


WINDOW_COLUMNS = columns(
    "start:time end:time partitions entity name instance value:number weight:number status error"
)


def window_rows(
    states: HistoricStates, analyzer: Analyzer[Any, Any], windows: WindowScheme
) -> list[dict[str, Any]]:
    """Return an analyzer's metric, flattened, for each window that contains a partition."""
    timed = [state for state in states.stored(analyzer) or () if state.time is not None]
    rows = []
    for span in windows.spans([state.time for state in timed if state.time is not None]):
        members = timed[span.first : span.last]
        try:
            metric = analyzer.compute_metric_from(states.total(analyzer, members))
        except MixedTypesError as mixed:
            metric = analyzer.to_failure_metric(mixed)
        span_values = {"start": span.start, "end": span.end, "partitions": len(members)}
        for flat in flatten(metric):
            value, status, weight, error = outcome(flat)
            identity = {"entity": flat.entity.value, "name": flat.name, "instance": flat.instance}
            number = number_of(value, status)
            result = {"value": number, "weight": weight, "status": status, "error": error}
            rows.append({**span_values, **identity, **result})
    return rows
