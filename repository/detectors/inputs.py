"""The input of detectors: metrics as arrays, and the points that training leaves out.

`matrix` builds (series, partitions) arrays of metrics. `TrainingLabels` applies user labels: it excludes points
from training and from alerting. Holiday calendars are given by country, or as names by day; detectors neither
learn from holidays nor report them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

import numpy as np

from tidegauge.analyzers.core.errors import SuiteError, did_you_mean
from tidegauge.analyzers.core.metric import Scale
from tidegauge.repository.detectors.base import History
from tidegauge.repository.detectors.rules import EXTREME_ANALYZERS
from tidegauge.repository.numerics.grid import Grid
from tidegauge.repository.store.rows import LabelEffect, LedgerRow, PartitionRow, SeriesRow

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidegauge.repository.numerics.arrays import Floats
    from tidegauge.repository.store.facts import Facts


HARMLESS_LABELS = frozenset({"expected", "ignore"})
"""Labels of points that are not anomalies; similar later points score less."""
MUTING_LABELS = HARMLESS_LABELS | {"bad"}
"""Labels that exclude points from training."""


@dataclass(frozen=True)
class TrainingLabels:
    """All labels of a dataset, and its holidays.

    Attributes
    ----------
    labels : sequence of LabelEffect
        Labels, the newest last. The newest label of each point counts, except ``rebaseline``;
        ``reopened`` cancels all earlier labels.
    holidays : mapping of date text to str
        Names of holidays by ISO date, such as ``2013-07-04``.
    zone : ZoneInfo, optional
        Time zone of the partitions. Hours that its clocks show twice are not judged, and train nothing.
    """

    labels: Sequence[LabelEffect] = ()
    holidays: Mapping[str, str] = field(default_factory=dict)
    zone: ZoneInfo | None = None

    @property
    def restarts(self) -> bool:
        """True if any label resets the baseline."""
        return any(label.label == "rebaseline" for label in self.labels)

    def history_arguments(
        self,
        series: Sequence[SeriesRow],
        partitions: Sequence[PartitionRow],
        is_known: NDArray[np.bool_],
    ) -> dict[str, Any]:
        """Return keyword arguments for `History`.

        Parameters
        ----------
        series, partitions : sequence of mapping
            Rows and columns of the history.
        is_known : array of bool, shape (series, partitions)
            The points that have a value.
        """
        muted = self.muted(series, partitions)
        restarts = self._restarts(
            series, partitions, is_known if muted is None else is_known & ~muted
        )
        holidays = [self.holiday(partition) for partition in partitions] if self.holidays else []
        return {
            "muted": muted,
            "harmless": self._marked(HARMLESS_LABELS, series, partitions),
            "restarts": restarts,
            "holidays": holidays if any(holidays) else None,
            "free_days": np.array(sorted(self.holidays), dtype="M8[D]"),
        }

    def muted(
        self, series: Sequence[SeriesRow], partitions: Sequence[PartitionRow]
    ) -> NDArray[np.bool_] | None:
        """Return a mask of the points excluded from training; None if no point is."""
        return self._with_repeated_hours(
            self._marked(MUTING_LABELS, series, partitions), series, partitions
        )

    def ignored(
        self, series: Sequence[SeriesRow], partitions: Sequence[PartitionRow]
    ) -> NDArray[np.bool_] | None:
        """Return a mask of the points excluded from alerting; None if no point is."""
        return self._with_repeated_hours(
            self._marked(frozenset({"ignore"}), series, partitions), series, partitions
        )

    def _with_repeated_hours(
        self,
        marked: NDArray[np.bool_] | None,
        series: Sequence[SeriesRow],
        partitions: Sequence[PartitionRow],
    ) -> NDArray[np.bool_] | None:
        """Return a mask of marked points and of hours that local clocks show twice; None if no point is either."""
        if self.zone is None:
            return marked
        repeated = clock_changes(times_of(partitions), self.zone)[1]
        if not repeated.any():
            return marked
        none = np.zeros((len(series), len(partitions)), dtype=bool)
        both: NDArray[np.bool_] = (none if marked is None else marked) | repeated
        return both

    def holiday(self, partition: PartitionRow) -> str:
        """Return the name of a partition's holiday; empty if it is not on a holiday."""
        time = partition["time"]
        return "" if time is None else self.holidays.get(f"{time:%Y-%m-%d}", "")

    def explains(self, time: datetime | None) -> str:
        """Return the name of a holiday on the day of a time, or the day before or after; empty if none."""
        if time is None:
            return ""
        day = np.datetime64(time.date())  # which has years after 9999
        days = (str(day + n) for n in (0, -1, 1))
        return next((self.holidays[day] for day in days if day in self.holidays), "")

    def _restarts(
        self,
        series: Sequence[SeriesRow],
        partitions: Sequence[PartitionRow],
        trains: NDArray[np.bool_],
    ) -> NDArray[np.bool_] | None:
        """Return a mask of baseline resets: the first training point of each label and series.

        Returns None if no label resets the baseline.
        """
        if not self.restarts:
            return None
        resets = np.zeros(trains.shape, dtype=bool)
        for label in self.labels:
            if label.label == "rebaseline":
                covered = trains & mark(label, series, partitions)
                resets |= covered & (np.cumsum(covered, axis=1) == 1)
            elif label.label == "reopened":
                resets &= ~mark(label, series, partitions)
        return resets

    def _marked(
        self,
        labels: frozenset[str],
        series: Sequence[SeriesRow],
        partitions: Sequence[PartitionRow],
    ) -> NDArray[np.bool_] | None:
        """Return a mask of the points whose newest label is in ``labels``; None if no label is."""
        indices = [index for index, label in enumerate(self.labels) if label.label in labels]
        if not indices:
            return None
        marked: NDArray[np.bool_] = np.isin(self._newest(series, partitions), indices)
        return marked

    def _newest(
        self, series: Sequence[SeriesRow], partitions: Sequence[PartitionRow]
    ) -> NDArray[np.intp]:
        """Return the index of the newest label that covers each point; -1 without one.

        ``rebaseline`` is left out, because it applies only to the first point that it covers.
        """
        newest = np.full((len(series), len(partitions)), -1, dtype=np.intp)
        for index, label in enumerate(self.labels):
            if label.label != "rebaseline":
                newest[mark(label, series, partitions)] = index
        return newest


def mark(
    label: LabelEffect, series: Sequence[SeriesRow], partitions: Sequence[PartitionRow]
) -> NDArray[np.bool_]:
    """Return a mask of the points that a label covers, of shape (series, partitions)."""
    if label.points is None:
        rows = np.array([label.applies_to(row) for row in series], dtype=bool)
        columns = np.array([label.covers(row) for row in partitions], dtype=bool)
        covered: NDArray[np.bool_] = rows[:, None] & columns[None, :]
        return covered
    marked = np.zeros((len(series), len(partitions)), dtype=bool)
    row_of = {row["id"]: i for i, row in enumerate(series)}
    column_of = {row["id"]: t for t, row in enumerate(partitions)}
    for series_id, partition_id in label.points:
        if series_id in row_of and partition_id in column_of:
            marked[row_of[series_id], column_of[partition_id]] = True
    return marked


COUNTRY_PATTERN = re.compile(r"[A-Z]{2}(-[A-Z0-9]{1,4})?")

Calendar = str | Mapping[str, str] | None
"""A country as in ``US`` or ``US-NY``, names by day as in ``2013-07-04``, or None."""


def check_calendar(calendar: Calendar) -> None:
    """Raise `SuiteError` if the value is not a valid calendar."""
    if isinstance(calendar, str) and not COUNTRY_PATTERN.fullmatch(calendar):
        msg = f"invalid holidays {calendar!r}: use a country such as US or US-NY, or names by day"
        raise SuiteError(msg)
    if isinstance(calendar, Mapping):
        for day in calendar:
            try:
                plain = date.fromisoformat(day).isoformat() == day
            except (TypeError, ValueError):
                plain = False
            if not plain:
                msg = f"holidays: invalid day {day!r}; use the form 2013-07-04"
                raise SuiteError(msg)


HOLIDAY_DATES_KEY = "holiday_dates"
"""Key of a stored suite for its country's holidays: for each year, the names by date."""


def suite_holidays(suite: Mapping[str, Any], times: Iterable[datetime | None]) -> Mapping[str, str]:
    """Return the holidays of a stored suite, as `holidays_of` does; stored dates are used first."""
    return holidays_of(suite.get("holidays"), times, suite.get(HOLIDAY_DATES_KEY))


def new_dates(
    suite: Mapping[str, Any], times: Iterable[datetime | None]
) -> dict[str, dict[str, str]]:
    """Return the holidays of a suite's country in years that are not stored yet, by year.

    Empty if the package ``holidays`` is not installed or does not support the country.
    """
    country = suite.get("holidays")
    missing_years = _years_of(times) - set(map(int, suite.get(HOLIDAY_DATES_KEY, {})))
    if not isinstance(country, str) or not missing_years:
        return {}
    try:
        return {str(year): days for year, days in _country_holidays(country, missing_years).items()}
    except SuiteError:
        return {}


def holidays_of(
    calendar: Calendar,
    times: Iterable[datetime | None],
    stored: Mapping[str, Mapping[str, str]] | None = None,
) -> Mapping[str, str]:
    """Return holiday names by day, for the years of the given times and the years next to them.

    Parameters
    ----------
    calendar : str or mapping, optional
        Calendar of a suite. A country's holidays come from the package ``holidays``, except for the
        years that are stored.
    times : iterable of datetime
        Times of the partitions.
    stored : mapping, optional
        Stored holidays: by year, names by day.

    Raises
    ------
    SuiteError
        If the package ``holidays`` is needed but not installed, or does not support the country.

    Examples
    --------
    >>> holidays_of({"2013-02-08": "Blizzard"}, [])
    {'2013-02-08': 'Blizzard'}
    >>> dates = {year: {f"{year}-07-04": "Independence Day"} for year in ("2012", "2013", "2014")}
    >>> holidays_of("US", [datetime(2013, 2, 8)], dates)["2013-07-04"]
    'Independence Day'
    """
    if not isinstance(calendar, str):
        return dict(calendar or {})
    days_by_year = {int(year): dict(days) for year, days in (stored or {}).items()}
    missing_years = _years_of(times) - days_by_year.keys()
    if missing_years:
        days_by_year |= _country_holidays(calendar, missing_years)
    return {day: name for year in sorted(days_by_year) for day, name in days_by_year[year].items()}


def _years_of(times: Iterable[datetime | None]) -> set[int]:
    years = {time.year for time in times if time is not None}
    return {year + n for year in years for n in (-1, 0, 1)}


def _country_holidays(calendar: str, years: set[int]) -> dict[int, dict[str, str]]:
    """Return a country's holidays, names by day, by year."""
    try:
        from holidays import country_holidays
    except ImportError as error:
        msg = f"holidays {calendar!r} need the package holidays: pip install 'tidegauge[holidays]'"
        raise SuiteError(msg) from error
    country, _, part = calendar.partition("-")
    try:
        holidays_by_date = country_holidays(country, subdiv=part or None, years=years)
    except NotImplementedError as error:  # raised by the package for an unknown country
        msg = f"holidays {calendar!r}: {error}"
        raise SuiteError(msg) from error
    by_year: dict[int, dict[str, str]] = {year: {} for year in years}
    for day, name in sorted(holidays_by_date.items()):
        by_year.setdefault(day.year, {})[day.isoformat()] = name
    return by_year


COMMON_ZONES = (
    "Europe/Berlin",
    "Europe/London",
    "America/New_York",
    "Australia/Sydney",
    "America/Sao_Paulo",
)
"""Zones whose changes of clocks are compared with missing hours, if a suite names no time zone. Zones with the same
rules, such as Europe/Paris, skip the same local hour."""


def zone_from_name(name: str | None) -> ZoneInfo | None:
    """Return a time zone by its IANA name; None for None.

    Raises
    ------
    SuiteError
        If the zone does not exist.

    Examples
    --------
    >>> zone_from_name("Europe/Berlin").key
    'Europe/Berlin'
    """
    if name is None:
        return None
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, TypeError, OSError) as error:
        hint = did_you_mean(str(name), sorted(available_timezones()))
        msg = (
            f"Invalid time_zone {name!r}{hint or ': use the name of a zone, such as Europe/Berlin'}"
        )
        raise SuiteError(msg) from error


def local_clock(times: NDArray[np.datetime64], zone: ZoneInfo | None) -> NDArray[np.datetime64]:
    """Return what the clocks of a zone show at times in UTC; the times themselves without a zone.

    Examples
    --------
    >>> noon = np.array(["2026-11-16T12:00", "NaT"], "M8[s]")
    >>> local_clock(noon, ZoneInfo("America/New_York")).tolist()
    [datetime.datetime(2026, 11, 16, 7, 0), None]
    """
    if zone is None:
        return times
    local = [
        None if time is None else time.replace(tzinfo=UTC).astimezone(zone).replace(tzinfo=None)
        for time in times.astype("M8[s]").tolist()
    ]
    return np.array(local, dtype="M8[s]")


def clock_changes(
    times: NDArray[np.datetime64], zone: ZoneInfo | None
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return masks of the local times that clocks of a zone skip, and of those that they show twice.

    Midnight is never marked, because it can be the time of a whole day.

    Examples
    --------
    >>> hours = np.array(["2026-03-29T02:00", "2026-10-25T02:00", "2026-10-25T03:00"], "M8[s]")
    >>> [mask.tolist() for mask in clock_changes(hours, ZoneInfo("Europe/Berlin"))]
    [[True, False, False], [False, True, False]]
    """
    skipped, repeated = np.zeros(len(times), dtype=bool), np.zeros(len(times), dtype=bool)
    days = times.astype("M8[D]")
    if zone is None or (days == times).all():
        return skipped, repeated
    known_days = np.unique(days[~np.isnat(days)])
    changing = [day for day in known_days if _offset(day, zone) != _offset(day + 1, zone)]
    for index in np.flatnonzero(np.isin(days, changing) & (days != times)).tolist():
        time = times[index].astype("M8[s]").item()
        first, second = (time.replace(tzinfo=zone, fold=fold).utcoffset() for fold in (0, 1))
        skipped[index], repeated[index] = first < second, first > second
    return skipped, repeated


def _offset(day: np.datetime64, zone: ZoneInfo) -> timedelta | None:
    """Return the offset from UTC at the beginning of a day; None outside of the years of Python's dates."""
    moment = day.astype("M8[s]").item()
    return moment.replace(tzinfo=zone).utcoffset() if isinstance(moment, datetime) else None


def guess_zone(times: NDArray[np.datetime64]) -> ZoneInfo | None:
    """Return the first of `COMMON_ZONES` whose skipped hours are missing among local times; None without one.

    The times must be of partitions within days, sorted. At least one hour that the clocks skip must be missing
    alone, and none may be there.

    Examples
    --------
    >>> hours = np.arange("2026-03-20", "2026-04-10", dtype="M8[h]").astype("M8[s]")
    >>> guess_zone(hours[hours != np.datetime64("2026-03-29T02:00")]).key
    'Europe/Berlin'
    """
    known = times[~np.isnat(times)]
    if len(known) < 2:
        return None
    steps = np.diff(known)
    step = np.median(steps[:MAX_ZONE_STEPS].astype(np.int64)).astype("m8[s]")
    hour = np.timedelta64(1, "h")
    gaps = np.flatnonzero((steps > step) & (steps <= step + hour))
    if not len(gaps) or not np.timedelta64(0, "s") < step <= hour:
        return None
    missing = known[gaps] + step
    for name in COMMON_ZONES:
        zone = ZoneInfo(name)
        if clock_changes(missing, zone)[0].any() and not clock_changes(known, zone)[0].any():
            return zone
    return None


def time_zone_of(
    suite: Mapping[str, Any], partitions: Sequence[PartitionRow] | Sequence[LedgerRow]
) -> ZoneInfo | None:
    """Return the time zone of a stored suite, or a guess from the missing hours of its partitions."""
    if suite.get("time_zone") is not None:
        return zone_from_name(suite["time_zone"])
    return guess_zone(np.unique(times_of(partitions)))


MAX_ZONE_STEPS = 168
"""The usual step is taken from this many first steps: a week of hours."""

EMPTY_STATUSES = ("empty", "NaN")
"""Statuses of metrics that were measured and have no number."""


@dataclass(frozen=True)
class Matrix:
    """Series over the partitions of one partition segment.

    Attributes
    ----------
    series, partitions : sequence of mapping
        As in `Facts`.
    history : History
    version : array of int, shape (series, partitions)
        Version of each point; 0 for missing points.
    """

    series: Sequence[SeriesRow]
    partitions: Sequence[PartitionRow]
    history: History
    version: NDArray[np.int64]


def group_by_segment(
    partitions: Sequence[PartitionRow] | Sequence[LedgerRow],
) -> Mapping[str, list[int]]:
    """Group the indices of partitions by their partition segment, which the non-time keys form.

    The indices of each segment keep their order.
    """
    indices_by_segment: dict[str, list[int]] = {}
    for index, partition in enumerate(partitions):
        indices_by_segment.setdefault(partition["within"], []).append(index)
    return indices_by_segment


def grid_of(
    partitions: Sequence[PartitionRow] | Sequence[LedgerRow], indices: Sequence[int]
) -> Grid:
    """Return the time grid of the partitions at these indices."""
    return Grid.from_times(times_of([partitions[index] for index in indices]))


def times_of(partitions: Sequence[PartitionRow] | Sequence[LedgerRow]) -> NDArray[np.datetime64]:
    """Return the times of partitions; NaT for partitions without a time."""
    return to_seconds([partition["time"] for partition in partitions])


def to_seconds(times: Iterable[datetime | None]) -> NDArray[np.datetime64]:
    """Convert times to an array of ``datetime64[s]``, as `to_datetime64` does."""
    naive = [None if time is None else time.replace(tzinfo=None) for time in times]
    return np.array(naive, dtype="M8[us]").astype("M8[s]")


def extremes_of(series: Sequence[SeriesRow]) -> NDArray[np.bool_]:
    """Return a mask of the series that are extremes of a column."""
    return np.array([row["kind"] in EXTREME_ANALYZERS for row in series], dtype=bool)


def to_datetime64(time: datetime | None) -> np.datetime64:
    """Convert a time to a timezone-naive ``datetime64[s]``; NaT for None."""
    return (
        np.datetime64("NaT", "s") if time is None else np.datetime64(time.replace(tzinfo=None), "s")
    )


def matrix(
    facts: Facts,
    indices: Sequence[int],
    is_wanted: Callable[[SeriesRow], bool],
    min_points: int,
    teaching: TrainingLabels | None = None,
    grid: Grid | None = None,
    times: NDArray[np.datetime64] | None = None,
) -> Matrix:
    """Return the metrics of selected series over some partitions as a matrix.

    Parameters
    ----------
    facts : Facts
    indices : sequence of int
        Indices in ``facts.partitions``, in order.
    is_wanted : callable
        Predicate on a row of ``facts.series``.
    min_points : int
        Series with fewer points, or without points, are left out.
    teaching : TrainingLabels, optional
        Labels and holidays.
    grid : Grid, optional
        Time grid of the partitions; computed from their times if not given.
    times : array of datetime64[s], optional
        Times of the partitions, as `times_of` returns them, if they are known already.
    """
    column = np.full(len(facts.partitions), -1, dtype=np.intp)
    column[list(indices)] = np.arange(len(indices))
    is_selected = column[facts.of_partition] >= 0
    points = np.bincount(facts.of_series[is_selected], minlength=len(facts.series))
    selected_series = [
        i
        for i, row in enumerate(facts.series)
        if points[i] >= max(min_points, 1) and is_wanted(row)
    ]
    row_by_series = np.full(len(facts.series), -1, dtype=np.intp)
    row_by_series[selected_series] = np.arange(len(selected_series))
    is_selected &= row_by_series[facts.of_series] >= 0
    cells = row_by_series[facts.of_series[is_selected]], column[facts.of_partition[is_selected]]
    shape = (len(selected_series), len(indices))
    values, weights = (
        _filled(shape, cells, facts.value[is_selected]),
        _filled(shape, cells, facts.weight[is_selected]),
    )
    version = np.zeros(shape, dtype=np.int64)
    version[cells] = facts.version[is_selected]
    empty = _empty(shape, cells, facts.value[is_selected], facts.status[is_selected])
    series = [facts.series[i] for i in selected_series]
    partitions = [facts.partitions[index] for index in indices]
    history = History(
        times_of(partitions) if times is None else times,
        values,
        weights,
        [Scale(row["scale"]) for row in series],
        **(
            {}
            if teaching is None
            else teaching.history_arguments(series, partitions, ~np.isnan(values))
        ),
        grid=grid,
        extremes=extremes_of(series),
        series=series,
        empty=empty,
    )
    return Matrix(series, partitions, history, version)


def _empty(
    shape: tuple[int, int], cells: tuple[Any, Any], values: Floats, status: NDArray[np.object_]
) -> NDArray[np.bool_] | None:
    """Return a mask of the points without a number that did not fail; None if no such point exists."""
    candidates = np.flatnonzero(np.isnan(values))
    candidates = candidates[np.isin(status[candidates].astype(str), EMPTY_STATUSES)]
    if not candidates.size:
        return None
    mask = np.zeros(shape, dtype=bool)
    mask[cells[0][candidates], cells[1][candidates]] = True
    return mask


def _filled(shape: tuple[int, int], cells: tuple[Any, Any], numbers: Floats) -> Floats:
    filled = np.full(shape, np.nan)
    filled[cells] = numbers
    return filled
