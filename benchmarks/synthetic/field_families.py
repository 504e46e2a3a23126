"""Metric histories of realistic tables, in families that differ in one property each.

A table is one latent process: expected rows with trend, calendar and hours, noise, shares of nulls and
duplicates, and the distribution of an amount. Its ten metrics are computed from the process. A fault therefore
changes all metrics that it changes in a real table. The generators share nothing with `synthetic/tables.py` and
`synthetic/families.py`, on which the detectors were tuned.

The distance of each value from its true expectation, in true standard deviations, is known
(`FieldTable.deviations`). A threshold on single deviations is the ceiling for detectors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, log, sqrt
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from scipy import signal, special, stats

import tidegauge as tg
from tidegauge.analyzers.core.analyzer import AnyAnalyzer

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

MINUTE, HOUR, DAY = 60, 3600, 86400
"""Seconds."""
SATURDAY = 5
SIZE, EMAIL, PHONE, KEY, CATEGORY, CUSTOMER, MEAN, SUM, SPREAD, CHECK = range(10)
"""Indices of the ten metrics of a table."""
ALL_METRICS = tuple(range(10))
COUNTED = (SIZE, CATEGORY, CUSTOMER, SUM)
"""Metrics that change with the number of rows."""
MAX_DEVIATION = 38.0
"""The largest deviation whose probability is a number above 0."""
SUMMER_TIME = np.datetime64("2025-03-30T01:00", "s")
WINTER_TIME = np.datetime64("2025-10-26T01:00", "s")
"""Times in UTC at which the clocks change."""


@dataclass(frozen=True)
class Fault:
    """A fault of a table.

    Attributes
    ----------
    kind : str
    first : int
        The first partition that the fault changes.
    deadline : int
        The partition before which an alarm has to come.
    settled : int
        The first partition that is normal again, or usual.
    metrics : tuple of int
        The metrics that the fault changes.
    """

    kind: str
    first: int
    deadline: int
    settled: int
    metrics: tuple[int, ...]


@dataclass(frozen=True)
class FieldTable:
    """A table's history of metrics.

    Attributes
    ----------
    analyzers : tuple of AnyAnalyzer
        The analyzers of the metrics.
    times : array of datetime64[s], shape (partitions,)
    step : float
        Length of a partition in seconds.
    present : array of bool, shape (partitions,)
        False for partitions that do not exist.
    values, weights : array of float, shape (metrics, partitions)
        Values and the rows behind them; NaN where there is no value.
    deviations : array of float, shape (metrics, partitions)
        Distances from the true expectations, in true standard deviations.
    judged : array of bool, shape (partitions,)
        Partitions without a fault, after the warm-up: their alarms are false.
    faults : tuple of Fault
    """

    analyzers: tuple[AnyAnalyzer, ...]
    times: NDArray[np.datetime64]
    step: float
    present: Mask
    values: Floats
    weights: Floats
    deviations: Floats
    judged: Mask
    faults: tuple[Fault, ...]


# noise


def _noise(draw: np.random.Generator, shape: str, correlation: float, count: int) -> Floats:
    """Return noise of unit variance, with an autocorrelation.

    ``shape`` is ``normal``, ``t3`` (Student's t with 3 degrees of freedom) or ``lognormal``.
    """
    warm_up = 50
    size = count + warm_up
    if shape == "t3":
        innovations = draw.standard_t(3, size) / sqrt(3)
    elif shape == "lognormal":
        e = np.e
        innovations = (np.exp(draw.normal(size=size)) - sqrt(e)) / sqrt(e * (e - 1))
    else:
        innovations = draw.normal(size=size)
    noise: Floats = signal.lfilter([sqrt(1 - correlation**2)], [1, -correlation], innovations)
    return noise[warm_up:]


# calendars


@dataclass(frozen=True)
class Grid:
    """Partitions of a table, and the hours and days on which people work.

    Attributes
    ----------
    times : array of datetime64[s]
        Times of the partitions.
    local : array of datetime64[s]
        The same in local time, which people's rhythm follows.
    step : float
        Length of a partition in seconds.
    hours : array of float
        Hours behind each partition, as a multiple of the step: 2 where the clock was put back.
    """

    times: NDArray[np.datetime64]
    local: NDArray[np.datetime64]
    step: float
    hours: Floats

    @property
    def days(self) -> NDArray[np.datetime64]:
        """Local day of each partition."""
        return self.local.astype("M8[D]")

    @property
    def weekday(self) -> NDArray[np.int64]:
        """Weekday of each partition, Monday is 0."""
        return (self.days.astype(np.int64) + 3) % 7

    @property
    def hour(self) -> Floats:
        """Local hour of each partition, with fractions."""
        return (self.local - self.days).astype("m8[s]").astype(np.int64) / HOUR


def _even_grid(start: str, step: int, count: int) -> Grid:
    """Return a grid of equal steps in seconds."""
    times = np.datetime64(start, "s") + np.arange(count) * np.timedelta64(step, "s")
    return Grid(times, times, step, np.ones(count))


def _month_grid(start: str, count: int) -> Grid:
    """Return a grid of months."""
    times = (np.datetime64(start, "M") + np.arange(count)).astype("M8[s]")
    days = np.diff((np.datetime64(start, "M") + np.arange(count + 1)).astype("M8[D]"))
    return Grid(times, times, 30.44 * DAY, days.astype(float) / 30.44)


def _clock_change_grid(_: np.random.Generator, variant: int) -> Grid:
    """Return fifty days of hours around a change of clocks: in March or October, in local time or UTC."""
    in_spring, is_local = variant % 2 == 0, variant % 4 < 2
    change = SUMMER_TIME if in_spring else WINTER_TIME
    days_before = np.timedelta64(32, "D")
    begin = change.astype("M8[D]").astype("M8[s]") - days_before
    utc = begin + np.arange(50 * 24) * np.timedelta64(HOUR, "s")
    is_summer = (utc >= change) == in_spring
    local = utc + np.where(is_summer, 2, 1) * np.timedelta64(HOUR, "s")
    if not is_local:
        return Grid(utc, local, HOUR, np.ones(len(utc)))
    labels, hours = np.unique(local, return_counts=True)
    return Grid(labels, labels, HOUR, hours.astype(float))


def _week_shape(draw: np.random.Generator) -> Floats:
    """Return effects of the weekdays, as logarithms: office, shop, one busy day, or none."""
    shape = draw.normal(0, 0.06, 7)
    kind = draw.choice(["office", "shop", "busy day", "flat"], p=[0.45, 0.2, 0.2, 0.15])
    if kind == "office":
        shape[5:] += np.log(draw.uniform(0.15, 0.8)) + draw.normal(0, 0.1, 2)
    elif kind == "shop":
        shape[4:] += draw.uniform(0.1, 0.5, 3)
    elif kind == "busy day":
        shape[draw.integers(7)] += draw.uniform(0.3, 1.0)
    return shape if kind != "flat" else 0.1 * shape


def _day_shape(draw: np.random.Generator, hour: Floats) -> Floats:
    """Return the effect of the hour, as a logarithm: one or two humps above a floor."""
    shape = np.full(hour.shape, draw.uniform(0.05, 0.4))
    for _ in range(draw.integers(1, 3)):
        peak, width = draw.uniform(7, 22), draw.uniform(2, 5)
        away = np.abs((hour - peak + 12) % 24 - 12)
        shape += draw.uniform(0.5, 1.0) * np.exp(-0.5 * (away / width) ** 2)
    effect: Floats = np.log(shape)
    return effect


def _office_shape(draw: np.random.Generator, grid: Grid) -> Floats:
    """Return the effect of office hours, as a logarithm: nights and weekends are nearly dead."""
    opens, closes = draw.integers(6, 10), draw.integers(16, 21)
    lunch = draw.uniform(0.6, 1.0)
    hour = np.floor(grid.hour)
    is_open = (hour >= opens) & (hour < closes)
    shape = np.where(is_open, 1.0, draw.uniform(0.002, 0.03))
    shape[is_open & (hour == 12)] *= lunch
    ramp = is_open & ((hour == opens) | (hour == closes - 1))
    shape[ramp] *= draw.uniform(0.3, 0.8)
    weekend = draw.uniform(0.02, 0.5)
    shape[is_open & (grid.weekday >= 5)] *= weekend
    effect: Floats = np.log(shape)
    return effect


def _nearest_working_day(days: NDArray[np.datetime64]) -> NDArray[np.datetime64]:
    """Return the days, or the Fridays before them if they lie on a weekend."""
    return np.busday_offset(days, 0, roll="backward")


def _month_ends(draw: np.random.Generator, grid: Grid) -> tuple[Floats, Mask]:
    """Return the effect of closing the books on the last working day, and a mask of these days."""
    last = grid.days.astype("M8[M]").astype("M8[D]") + (
        (grid.days.astype("M8[M]") + 1).astype("M8[D]")
        - grid.days.astype("M8[M]").astype("M8[D]")
        - np.timedelta64(1, "D")
    )
    is_peak = grid.days == _nearest_working_day(last)
    effect = np.where(is_peak, log(draw.uniform(1.6, 3.2)), 0.0)
    first = np.busday_offset(grid.days.astype("M8[M]").astype("M8[D]"), 0, roll="forward")
    if draw.random() < 0.5:  # corrections on the first working day
        effect = np.where((grid.days == first) & ~is_peak, log(draw.uniform(1.2, 1.7)), effect)
    return effect, is_peak


def _paydays(draw: np.random.Generator, grid: Grid) -> tuple[Floats, Mask]:
    """Return the effect of one or two paydays a month and of the day after, and a mask of the paydays."""
    month = grid.days.astype("M8[M]").astype("M8[D]")
    due = draw.choice([1, 10, 15, 20, 25, 28], draw.integers(1, 3), replace=False)
    size = log(draw.uniform(1.6, 3.0))
    fades = draw.choice([0, 1]) * draw.uniform(0.2, 0.5)
    effect, is_peak = np.zeros(len(month)), np.zeros(len(month), dtype=bool)
    for day in due:
        paid = _nearest_working_day(month + np.timedelta64(int(day) - 1, "D"))
        is_peak |= grid.days == paid
        effect = np.where(grid.days == paid, size, effect)
        effect = np.where(grid.days == paid + np.timedelta64(1, "D"), fades * size, effect)
    return effect, is_peak


def _christmas(draw: np.random.Generator, grid: Grid) -> tuple[Floats, Mask]:
    """Return the effect of Christmas, the same each year, and a mask of the first season."""
    month = grid.days.astype("M8[M]").astype(np.int64) % 12 + 1
    day = (grid.days - grid.days.astype("M8[M]").astype("M8[D]")).astype(np.int64) + 1
    before, dip, between, new_year = draw.uniform([1.0, 0.1, 0.4, 0.15], [1.3, 0.4, 0.9, 0.5])
    factor = np.ones(len(day))
    december = month == 12
    factor[december & (day >= 10) & (day < 24)] = before
    factor[december & (day >= 24) & (day <= 26)] = dip
    factor[december & (day > 26)] = between
    factor[(month == 1) & (day == 1)] = new_year
    season = (december & (day >= 10)) | ((month == 1) & (day <= 7))
    is_first = season & (np.cumsum(np.diff(season, prepend=False) & season) == 1)
    effect: Floats = np.log(factor)
    return effect, is_first


def _trend(draw: np.random.Generator, kind: str, count: int) -> Floats:
    """Return the trend of the logarithm of the rows."""
    t = np.arange(count)
    if kind == "plateau":  # grows or shrinks, then stays
        slope = draw.uniform(0.001, 0.006) * draw.choice([1, 1, 1, -1])
        return slope * np.minimum(t, draw.uniform(0.4, 0.75) * count)
    if kind == "year":
        phase = draw.uniform(0, 2 * np.pi)
        return draw.uniform(0, 0.25) * np.sin(2 * np.pi * t / 52.18 + phase)
    if kind == "months":
        growth, season = draw.uniform(0, 0.01), draw.normal(0, 0.12, 12)
        return growth * t + season[t % 12]
    return draw.uniform(-0.0005, 0.0005) * t


# families

_GridMaker = Callable[[np.random.Generator, int], Grid]
"""Returns the grid of a table, given random numbers and the number of the table."""


@dataclass(frozen=True)
class Family:
    """A family of histories.

    Attributes
    ----------
    name : str
    grid : callable
        Makes the grid of a table.
    warm_up : int
        Partitions at the beginning that are not judged.
    kinds : tuple of str
        Kinds of fault; each table has one fault of each kind, or several.
    rows : tuple of float
        Median of the rows of a partition, and the standard deviation of its logarithm between tables.
    noise : tuple of float
        Range of the standard deviation of the logarithm of the rows.
    shape : str
        Shape of the noise.
    correlation : tuple of float
        Range of the autocorrelation of the noise.
    rhythm : str
        ``week``, ``day`` (weeks of humped days), ``office`` or none.
    trend : str
    peaks : callable, optional
        Effect of the calendar, and a mask of its peaks.
    metrics : str
        Which metrics are unusual: ``edges``, ``middle``, ``constant`` or ``zeros``.
    absent : float
        Share of partitions that are lost by chance. Half of these tables have none on weekends either.
    spacing : int
        Minimum of partitions between faults.
    drift : int
        Partitions that a drift takes.
    short : bool
        Whether a table has a single fault, because its history is short.
    """

    name: str
    grid: _GridMaker
    warm_up: int
    kinds: tuple[str, ...]
    rows: tuple[float, float] = (30_000, 1.4)
    noise: tuple[float, float] = (0.025, 0.09)
    shape: str = "normal"
    correlation: tuple[float, float] = (0.0, 0.3)
    rhythm: str = "week"
    trend: str = ""
    peaks: Callable[[np.random.Generator, Grid], tuple[Floats, Mask]] | None = None
    metrics: str = ""
    absent: float = 0.0
    spacing: int = 14
    drift: int = 21
    short: bool = False


LASTING_KINDS = frozenset({"level", "level_few", "drift", "drift_few", "volatility"})
"""Faults that stay to the end of the history."""
GENERAL_KINDS = (
    *("drop_half", "spike2", "partial25", "distinct20", "level", "drift", "nulls_1_6"),
    *("nulls_5_30", "dup15", "dup15_nokey", "stale"),
)
RATIO_KINDS = ("drop_half", "spike2", "partial25", "distinct20", "level", "drift", "stale")


def _daily(count: int, start: str = "2024-09-02") -> _GridMaker:
    """Return a maker of grids of so many days."""
    return lambda *_: _even_grid(start, DAY, count)


def _stepped(start: str, step: int, days: int) -> _GridMaker:
    """Return a maker of grids of so many days in equal steps."""
    return lambda *_: _even_grid(start, step, days * DAY // step)


def _parts_of_days(draw: np.random.Generator, variant: int) -> Grid:
    """Return a grid of 6, 8 or 12 hours."""
    step = (6, 8, 12)[variant % 3] * HOUR
    return _even_grid("2025-02-03", step, 170 * DAY // step)


DAILY = Family("daily", _daily(420), 56, GENERAL_KINDS)
FAMILIES: tuple[Family, ...] = (
    DAILY,
    replace(DAILY, name="growth_plateau", trend="plateau"),
    replace(DAILY, name="ar6", correlation=(0.6, 0.6)),
    replace(
        DAILY,
        name="sub_6_8_12h",
        grid=_parts_of_days,
        warm_up=84,
        rhythm="day",
        rows=(10_000, 1.3),
        drift=48,
    ),
    replace(DAILY, name="gaps", absent=0.015, kinds=(*GENERAL_KINDS, "missing")),
    replace(DAILY, name="ratio_edges", metrics="edges", kinds=(*RATIO_KINDS, "near0", "near1")),
    replace(DAILY, name="ratio_mid", metrics="middle", kinds=(*RATIO_KINDS, "mid10", "mid20")),
    replace(DAILY, name="payday", warm_up=90, peaks=_paydays, kinds=(*GENERAL_KINDS, "no_peak")),
    replace(
        DAILY, name="month_end", warm_up=90, peaks=_month_ends, kinds=(*GENERAL_KINDS, "no_peak")
    ),
    replace(DAILY, name="two_years", grid=_daily(706, "2024-02-05"), peaks=_christmas),
    replace(DAILY, name="zero_inflated", metrics="zeros", kinds=(*GENERAL_KINDS, "zeros30")),
    replace(
        DAILY,
        name="constants",
        metrics="constant",
        kinds=(
            *("drop_half", "spike2", "partial25", "level", "drift", "nulls_5_30", "stale"),
            *("distinct1", "max_constant", "null_005"),
        ),
    ),
    replace(DAILY, name="t3", shape="t3"),
    replace(DAILY, name="lognormal", shape="lognormal"),
    replace(DAILY, name="noisy_25_40", noise=(0.25, 0.40)),
    replace(DAILY, name="noise_x2", kinds=(*GENERAL_KINDS, "volatility")),
    replace(
        DAILY,
        name="poisson_3_20",
        rows=(0, 0),
        noise=(0.0, 0.0),
        kinds=("drop_zero", "spike4", "level_few", "drift_few"),
    ),
    replace(DAILY, name="recovery", kinds=("outage",) * 6),
    replace(DAILY, name="backfill", kinds=("late",) * 10),
    replace(
        DAILY,
        name="new_segment",
        grid=_daily(80, "2025-03-03"),
        warm_up=8,
        kinds=("drop_half", "partial25", "nulls_5_30"),
        rows=(5_000, 1.4),
    ),
    replace(
        DAILY,
        name="first_20_days",
        grid=_daily(20, "2025-03-03"),
        warm_up=3,
        rows=(3_000, 1.4),
        kinds=("drop_half", "spike2", "partial25", "nulls_1_6", "nulls_5_30", "stale"),
        short=True,
    ),
    Family(
        "hourly_office",
        _stepped("2025-03-03", HOUR, 46),
        16 * 24,
        GENERAL_KINDS,
        rows=(8_000, 1.2),
        rhythm="office",
        spacing=30,
        drift=120,
    ),
    Family(
        "dst",
        _clock_change_grid,
        16 * 24,
        ("drop_half", "partial25", "nulls_5_30") * 2,
        rows=(5_000, 1.2),
        rhythm="day",
        spacing=48,
    ),
    Family(
        "min15",
        _stepped("2025-03-03", 15 * MINUTE, 27),
        16 * 96,
        GENERAL_KINDS,
        rows=(3_000, 1.2),
        rhythm="day",
        spacing=40,
        drift=192,
    ),
    Family(
        "weekly",
        _stepped("2022-01-03", 7 * DAY, 160 * 7),
        20,
        GENERAL_KINDS,
        rows=(150_000, 1.4),
        rhythm="",
        trend="year",
        spacing=6,
        drift=12,
    ),
    Family(
        "monthly",
        lambda *_: _month_grid("2017-01", 102),
        14,
        GENERAL_KINDS,
        rows=(500_000, 1.4),
        rhythm="",
        trend="months",
        spacing=4,
        drift=6,
    ),
)


# faults


@dataclass(frozen=True)
class _Span:
    """Partitions that a fault changes, that an alarm may take, and after which it is usual."""

    length: int
    deadline: int
    settles: int


def _span(draw: np.random.Generator, kind: str, family: Family) -> _Span:
    """Return the span of a fault."""
    if kind in {"drift", "drift_few"}:
        late = max(family.drift // 3, 3)
        return _Span(family.drift, family.drift + late, family.drift + 2 * late)
    if kind in {"level", "level_few"}:
        return _Span(1, family.spacing // 2, family.spacing)
    if kind == "volatility":
        return _Span(1, 28, 56)
    if kind == "outage":
        length = int(draw.integers(3, 11))
        return _Span(length, length, length)
    if kind == "missing":
        return _Span(1, 2, 2)
    length = int(draw.integers(1, 4)) if kind.startswith(("nulls", "near", "mid")) else 1
    return _Span(length, length, length)


@dataclass
class _Process:
    """The latent process of a table, which faults change before it is measured.

    Attributes
    ----------
    log_rows : array
        True expectation of the logarithm of the rows.
    noise : array
        Standard deviation of the logarithm of the rows.
    row_factor, distinct_factor, duplicates, noise_factor : array
        What faults do to rows, distinct values, duplicate rows and noise.
    usual_noise_factor : array
        The noise factor that the true deviation knows: more noise counts once it has become usual.
    has_key_duplicates : array
        Mask of the partitions whose duplicates repeat the key.
    accepted : array
        What lasting faults add to the true logarithm of the rows, once they have become usual.
    shares : dict of int to array
        True share of rows that fail a metric (of nulls, duplicate keys, violations), by metric.
    planted : dict of int to array
        Shares with faults; NaN where there is none.
    added : dict of int to array
        What faults add to a measured value, by metric.
    peaks : array
        Mask of the peaks of the calendar.
    peak_effect : array
        Effect of the calendar on the logarithm of the rows.
    """

    grid: Grid
    log_rows: Floats
    noise: Floats
    peaks: Mask
    peak_effect: Floats
    row_factor: Floats = field(init=False)
    distinct_factor: Floats = field(init=False)
    duplicates: Floats = field(init=False)
    noise_factor: Floats = field(init=False)
    usual_noise_factor: Floats = field(init=False)
    has_key_duplicates: Mask = field(init=False)
    accepted: Floats = field(init=False)
    shares: dict[int, Floats] = field(default_factory=dict)
    planted: dict[int, Floats] = field(default_factory=dict)
    added: dict[int, Floats] = field(default_factory=dict)

    def __post_init__(self) -> None:
        count = len(self.log_rows)
        self.row_factor, self.distinct_factor = np.ones((2, count))
        self.noise_factor, self.usual_noise_factor = np.ones((2, count))
        self.duplicates, self.accepted = np.zeros((2, count))
        self.has_key_duplicates = np.zeros(count, dtype=bool)


_Planter = Callable[[np.random.Generator, "_Process", str, slice, int], tuple[int, ...]]
"""Plants a fault of a kind in a span, which is usual from ``settled`` on; returns the changed metrics."""


def _multiply_rows(
    draw: np.random.Generator, process: _Process, kind: str, span: slice, settled: int
) -> tuple[int, ...]:
    factor = draw.uniform(*_ROW_FAULTS[kind])
    if kind == "level":
        factor = 1 + draw.choice([-1, 1]) * (factor - 1)
    if kind in LASTING_KINDS:
        span = slice(span.start, None)
        process.accepted[settled:] += log(factor)
    process.row_factor[span] *= factor
    return COUNTED


def _drift_rows(
    draw: np.random.Generator, process: _Process, kind: str, span: slice, settled: int
) -> tuple[int, ...]:
    change = log(_DRIFTS[kind])
    ramp = np.arange(1, len(process.row_factor) - span.start + 1) / (span.stop - span.start)
    process.row_factor[span.start :] *= np.exp(change * np.minimum(ramp, 1))
    process.accepted[settled:] += change
    return COUNTED


def _remove_peak(
    draw: np.random.Generator, process: _Process, kind: str, span: slice, settled: int
) -> tuple[int, ...]:
    process.row_factor[span] *= np.exp(-process.peak_effect[span])
    return COUNTED


def _lose_distinct_values(
    draw: np.random.Generator, process: _Process, kind: str, span: slice, settled: int
) -> tuple[int, ...]:
    process.distinct_factor[span] *= 0.8
    return (CATEGORY, CUSTOMER)


def _repeat_rows(
    draw: np.random.Generator, process: _Process, kind: str, span: slice, settled: int
) -> tuple[int, ...]:
    process.duplicates[span] = 0.15
    process.has_key_duplicates[span] = kind == "dup15"
    return (SIZE, SUM, KEY) if kind == "dup15" else (SIZE, SUM)


def _double_noise(
    draw: np.random.Generator, process: _Process, kind: str, span: slice, settled: int
) -> tuple[int, ...]:
    process.noise_factor[span.start :] *= 2
    process.usual_noise_factor[settled:] *= 2
    return ALL_METRICS


def _add_to_metric(
    draw: np.random.Generator, process: _Process, kind: str, span: slice, settled: int
) -> tuple[int, ...]:
    metric, least, most, signs = _ADDED[kind]
    added = process.added.setdefault(metric, np.zeros(len(process.row_factor)))
    added[span] += draw.integers(least, most + 1) * draw.choice(signs)
    return (metric,)


def _fail_rows(
    draw: np.random.Generator, process: _Process, kind: str, span: slice, settled: int
) -> tuple[int, ...]:
    metric, share, is_change = _SHARE_FAULTS[kind]
    planted = process.planted.setdefault(metric, np.full(len(process.row_factor), np.nan))
    change = draw.choice([-1, 1]) * share
    planted[span] = process.shares[metric][span] + change if is_change else share
    return (metric,)


def _leave_process(
    draw: np.random.Generator, process: _Process, kind: str, span: slice, settled: int
) -> tuple[int, ...]:
    """Change nothing: stale and absent partitions are made of the measured values."""
    return ALL_METRICS


_ROW_FAULTS = {
    "drop_half": (0.45, 0.55),
    "spike2": (1.9, 2.2),
    "partial25": (0.75, 0.75),
    "level": (1.3, 1.6),
    "late": (0.3, 0.7),
    "outage": (0.02, 0.3),
    "drop_zero": (0, 0),
    "spike4": (4, 4),
    "level_few": (2.5, 2.5),
}
"""Ranges of factors of the rows. A new level can also be as much lower."""
_DRIFTS = {"drift": 0.6, "drift_few": 3.0}
"""Factor of the rows at the end of a drift."""
_SHARE_FAULTS = {
    "nulls_1_6": (EMAIL, 0.06, False),
    "nulls_5_30": (PHONE, 0.30, False),
    "null_005": (EMAIL, 0.005, False),
    "near0": (EMAIL, 0.97, False),
    "near1": (CHECK, 0.03, False),
    "mid10": (EMAIL, 0.10, True),
    "mid20": (PHONE, 0.20, True),
}
"""Metric, its share of failing rows or the change of the share, and whether it is a change."""
_ADDED = {
    "distinct1": (CATEGORY, 1, 1, (-1, 1)),
    "max_constant": (SPREAD, 5, 95, (1,)),
    "zeros30": (SPREAD, 25, 40, (1,)),
}
"""Metric, minimum and maximum of the added value, and its signs."""
_PLANTERS: Mapping[str, _Planter] = {
    **dict.fromkeys(_ROW_FAULTS, _multiply_rows),
    **dict.fromkeys(_DRIFTS, _drift_rows),
    **dict.fromkeys(_ADDED, _add_to_metric),
    **dict.fromkeys(_SHARE_FAULTS, _fail_rows),
    **dict.fromkeys(("dup15", "dup15_nokey"), _repeat_rows),
    **dict.fromkeys(("stale", "missing"), _leave_process),
    "no_peak": _remove_peak,
    "distinct20": _lose_distinct_values,
    "volatility": _double_noise,
}


def _schedule(
    draw: np.random.Generator,
    family: Family,
    process: _Process,
    kinds: Sequence[str],
    free: Mask,
    may_begin: Mask,
) -> list[tuple[str, slice, _Span]]:
    """Return random places of faults that keep their distance, in busy partitions."""
    count = len(process.log_rows)
    is_busy = free & may_begin & (process.log_rows >= np.median(process.log_rows) - 1)
    spans = {kind: _span(draw, kind, family) for kind in dict.fromkeys(kinds)}
    order = sorted(kinds, key=lambda kind: (kind != "no_peak", -spans[kind].settles))
    for spacing in (family.spacing, family.spacing // 2, family.spacing // 4):
        for _ in range(60):
            taken, places = ~free, []
            for kind in order:
                span = spans[kind]
                wanted = is_busy & (process.peaks if kind == "no_peak" else ~process.peaks)
                wanted = wanted & (np.arange(count) + span.settles <= count)
                claimed = np.convolve(taken, np.ones(span.settles + spacing))
                starts = np.flatnonzero(wanted & (claimed[span.settles - 1 :][:count] < 0.5))
                if not starts.size:
                    break
                first = int(draw.choice(starts))
                taken = taken.copy()
                taken[first : first + span.settles + spacing] = True
                places.append((kind, slice(first, min(first + span.length, count)), span))
            if len(places) == len(order):
                return places
    msg = f"{family.name}: no room for {len(order)} faults"
    raise ValueError(msg)


# measuring


def _share_deviation(failing: Floats, rows: Floats, share: Floats, wander: Floats) -> Floats:
    """Return the deviations of failing rows from a share that wanders on the scale of its logit."""
    with np.errstate(all="ignore"):
        is_major = share > 0.5
        failing = np.where(is_major, rows - failing, failing)
        share = np.where(is_major, 1 - share, share)
        mean = rows * share
        variance = mean * (1 - share) + np.square(mean * (1 - share) * wander)
        deviation = (
            2 * (np.sqrt(failing + 0.375) - np.sqrt(mean + 0.375)) * np.sqrt(mean / variance)
        )
    return np.where(share > 0, deviation, np.where(failing > 0, MAX_DEVIATION, 0.0))


def _normal_deviation(lower: Floats, upper: Floats) -> Floats:
    """Return the deviations of a normal distribution with the same tail probabilities."""
    smaller = np.maximum(np.minimum(lower, upper), 1e-300)
    deviation: Floats = np.where(lower < upper, 1, -1) * special.ndtri(np.minimum(smaller, 0.5))
    return deviation


def _row_deviation(rows: Floats, log_rows: Floats, noise: Floats) -> Floats:
    """Return the deviations of row counts, exact where rows are few and have no other noise."""
    expected = np.exp(log_rows)
    deviation = (np.log(np.maximum(rows, 0.5)) - log_rows) / np.hypot(noise, 1 / np.sqrt(expected))
    is_few = (noise == 0) & (expected < 1000)
    lower = stats.poisson.cdf(rows, expected)
    exact = _normal_deviation(lower, stats.poisson.sf(rows - 1, expected))
    return np.where(is_few, exact, deviation)


def _distinct(rows: Floats, values: float) -> Floats:
    """Return the expected number of distinct values among rows that draw from so many values."""
    return values * -np.expm1(-rows / values)


@dataclass(frozen=True)
class _Traits:
    """What a table's metrics are like; drawn once for each table."""

    noise_shape: str
    correlation: float
    categories: float
    category_noise: float
    customers: float
    log_mean: Floats
    mean_noise: float
    variation: float
    spread: str
    wander: float


def _draw_traits(draw: np.random.Generator, family: Family, process: _Process) -> _Traits:
    """Draw what a table's metrics are like, and its shares of failing rows."""
    grid, rows = process.grid, float(np.exp(np.median(process.log_rows)))
    is_constant, is_noisy = family.metrics == "constant", family.name == "noisy_25_40"
    day_of_week = draw.normal(0, 0.1, (4, 7))[:, grid.weekday] * (family.rhythm != "")
    email, phone = draw.uniform(0.008, 0.012), draw.uniform(0.04, 0.06)
    key = 0.0 if draw.random() < 0.5 else 10 ** draw.uniform(-4, -3)
    check = 0.0 if draw.random() < 0.5 else 10 ** draw.uniform(-4, -2)
    if family.metrics == "edges":
        email, check = 1 - draw.uniform(0.002, 0.006), 10 ** draw.uniform(-3.3, -2.7)
    elif family.metrics == "middle":
        email, phone = draw.uniform(0.4, 0.7), draw.uniform(0.4, 0.7)
    elif is_constant:
        email, key, check = 0.0, 0.0, 0.0
    for metric, share, effect in zip(
        (EMAIL, PHONE, KEY, CHECK), (email, phone, key, check), day_of_week, strict=True
    ):
        scaled = 0.5 * effect if family.metrics == "middle" else effect
        process.shares[metric] = special.expit(special.logit(share) + scaled)
    if family.metrics == "zeros":  # violations on some days only
        is_bad = draw.random(len(process.log_rows)) < 0.1
        process.shares[CHECK] = np.where(is_bad, 10 ** draw.uniform(-3.5, -2.5), 0.0)
    categories = float(np.round(np.exp(draw.uniform(np.log(6), np.log(300)))))
    mean = draw.normal(3.5, 1) + draw.normal(0, 0.02, 7)[grid.weekday] * (family.rhythm != "")
    spreads = ["Maximum", "ApproxQuantile", "StandardDeviation"]
    spread = {"constant": "constant", "zeros": "zeros"}.get(
        family.metrics, str(draw.choice(spreads))
    )
    return _Traits(
        noise_shape=family.shape,
        correlation=float(draw.uniform(*family.correlation)),
        categories=min(categories, max(rows / 20, 3)),
        category_noise=0.0 if is_constant else 0.01,
        customers=rows * draw.uniform(0.3, 3),
        log_mean=mean,
        mean_noise=float(draw.uniform(0.1, 0.3) if is_noisy else draw.uniform(0.005, 0.03)),
        variation=float(draw.uniform(0.4, 1.5)),
        spread=spread,
        wander=float(draw.uniform(0.2, 0.4) if is_noisy else draw.uniform(0.03, 0.12)),
    )


def _measure(
    draw: np.random.Generator, process: _Process, traits: _Traits
) -> tuple[Floats, Floats, Floats]:
    """Return the values of the metrics, their deviations from the truth, and the rows."""
    count = len(process.log_rows)
    values, deviations = np.full((2, 10, count), np.nan)
    noise, factor, usual = process.noise, process.noise_factor, process.usual_noise_factor
    log_rows = process.log_rows + process.accepted
    expected = np.exp(log_rows)

    def some_noise() -> Floats:
        return factor * _noise(draw, traits.noise_shape, traits.correlation, count)

    # Rows. Duplicates repeat rows, and so add no distinct value.
    mean_rows = np.exp(process.log_rows + noise * some_noise()) * process.row_factor
    own = draw.poisson(mean_rows).astype(float)
    repeated = np.round(process.duplicates * own)
    rows = own + repeated
    values[SIZE] = rows
    deviations[SIZE] = _row_deviation(rows, log_rows, noise * usual)
    size_spread = np.hypot(noise * usual, 1 / np.sqrt(expected))
    # Shares of failing rows.
    for metric, share in process.shares.items():
        wander = np.full(count, traits.wander) * usual
        with np.errstate(all="ignore"):
            wandering = special.expit(special.logit(share) + traits.wander * some_noise())
        planted = process.planted.get(metric, np.full(count, np.nan))
        failing = draw.binomial(
            rows.astype(np.int64), np.where(np.isnan(planted), wandering, np.clip(planted, 0, 1))
        ).astype(float)
        if metric == KEY:
            failing = np.where(process.has_key_duplicates, failing + 2 * repeated, failing)
            failing = np.minimum(failing, rows)
        with np.errstate(all="ignore"):
            values[metric] = 1 - failing / rows
        deviations[metric] = _share_deviation(failing, rows, share, wander)
    # Distinct values.
    for metric, kinds, spread in (
        (CATEGORY, traits.categories, traits.category_noise),
        (CUSTOMER, traits.customers, 0.01),
    ):
        truth = _distinct(expected, kinds)
        slope = expected / kinds * np.exp(-expected / kinds) / -np.expm1(-expected / kinds)
        measured = _distinct(own, kinds) * process.distinct_factor * np.exp(spread * some_noise())
        values[metric] = np.where(rows > 0, np.maximum(np.round(measured), 1), 0)
        values[metric] += process.added.get(metric, 0)
        deviations[metric] = np.log(np.maximum(values[metric], 0.5) / np.round(truth)) / np.hypot(
            np.hypot(slope * size_spread, spread * usual), 0.3 / truth
        )
    # The amount: its mean, its sum, and its spread.
    own_noise = traits.mean_noise * some_noise()
    with np.errstate(all="ignore"):
        mean_spread = np.hypot(traits.mean_noise * usual, traits.variation / np.sqrt(rows))
        sampled = np.maximum(rows, 1) / traits.variation**2  # the mean of so many gamma variates
        chance = draw.gamma(sampled) / sampled
        values[MEAN] = np.exp(traits.log_mean + own_noise) * chance
        values[SUM] = values[MEAN] * rows
        deviations[MEAN] = (np.log(values[MEAN]) - traits.log_mean) / mean_spread
        total = np.log(values[SUM]) - log_rows - traits.log_mean
        deviations[SUM] = total / np.hypot(size_spread, mean_spread)
    values[SPREAD], deviations[SPREAD] = _spread(
        draw, process, traits, rows, traits.log_mean + own_noise
    )
    empty = rows == 0
    without_rows = [EMAIL, PHONE, KEY, MEAN, SUM, SPREAD, CHECK]
    values[np.ix_(without_rows, np.flatnonzero(empty))] = np.nan
    return values, np.clip(deviations, -MAX_DEVIATION, MAX_DEVIATION), rows


def _spread(
    draw: np.random.Generator, process: _Process, traits: _Traits, rows: Floats, log_mean: Floats
) -> tuple[Floats, Floats]:
    """Return the values and deviations of the ninth metric: an extreme, a quantile or a deviation."""
    count, expected = len(rows), np.exp(process.log_rows + process.accepted)
    added = process.added.get(SPREAD, np.zeros(count))
    if traits.spread == "constant":
        value = 5.0 + added
        return value, np.where(added != 0, MAX_DEVIATION, 0.0)
    if traits.spread == "zeros":  # rows with a rare property: none on most days
        share, mean = 0.12, 6.0
        rare = draw.random(count) < share
        value = np.where(rare, draw.geometric(1 / mean, count), 0) + added
        tail = share * np.power(1 - 1 / mean, np.maximum(value - 1, 0))
        return value, np.where(value > 0, -special.ndtri(np.maximum(tail, 1e-300)), 0.0)
    sigma = sqrt(log(1 + traits.variation**2))  # amounts are log-normal
    centre, middle = log_mean - sigma**2 / 2, traits.log_mean - sigma**2 / 2
    with np.errstate(all="ignore"):
        if traits.spread == "Maximum":
            top = special.ndtri(np.power(draw.random(count), 1 / np.maximum(rows, 1)))
            value = np.exp(centre + sigma * top)
            below = expected * special.log_ndtr((np.log(value) - middle) / sigma)
            deviation = _normal_deviation(np.exp(below), -np.expm1(below))
            return value, deviation
        if traits.spread == "ApproxQuantile":  # of 95%
            scale, usual, place = 2.11 * sigma, special.ndtri(0.95) * sigma, centre
        else:
            scale, usual, place = 2.5 * traits.variation, log(traits.variation), log_mean
            middle = traits.log_mean
        value = np.exp(place + usual + scale / np.sqrt(rows) * draw.normal(size=count))
        spread = np.hypot(traits.mean_noise * process.usual_noise_factor, scale / np.sqrt(expected))
        return value, (np.log(value) - middle - usual) / spread


def _analyzers(traits: _Traits) -> tuple[AnyAnalyzer, ...]:
    """Return the analyzers of a table's metrics."""
    spread: AnyAnalyzer = {
        "Maximum": tg.Maximum("amount"),
        "ApproxQuantile": tg.ApproxQuantile("amount", 0.95),
        "StandardDeviation": tg.StandardDeviation("amount"),
        "constant": tg.Maximum("rating"),
        "zeros": tg.Size(where="amount < 0"),
    }[traits.spread]
    return (
        tg.Size(),
        tg.Completeness("email"),
        tg.Completeness("phone"),
        tg.Uniqueness("order_id"),
        tg.CountDistinct("category"),
        tg.CountDistinct("customer_id"),
        tg.Mean("amount"),
        tg.Sum("amount"),
        spread,
        tg.Compliance("price >= 0", "price >= 0"),
    )


# tables


def _draw_process(draw: np.random.Generator, family: Family, grid: Grid) -> _Process:
    """Draw the expected rows of a table."""
    count = len(grid.times)
    median, spread = family.rows
    if median:
        level = np.clip(draw.normal(log(median), spread), log(500), log(2e7))
        if family.metrics == "constant":
            level = max(level, log(5_000))
    else:
        level = log(draw.uniform(3, 20))
    log_rows = level + _trend(draw, family.trend, count) + np.log(grid.hours)
    if not median:
        log_rows = np.full(count, level)
    elif family.rhythm == "office":
        log_rows += _office_shape(draw, grid)
    elif family.rhythm:
        log_rows += _week_shape(draw)[grid.weekday]
        if family.rhythm == "day":
            log_rows += _day_shape(draw, grid.hour)
    effect, peaks = np.zeros(count), np.zeros(count, dtype=bool)
    if family.peaks is not None:
        effect, peaks = family.peaks(draw, grid)
    noise = np.full(count, draw.uniform(*family.noise))
    return _Process(grid, log_rows + effect, noise, peaks, effect)


def make_table(family: Family, seed: int, number: int, kinds: Sequence[str]) -> FieldTable:
    """Return a table of a family, with a fault of each kind.

    Parameters
    ----------
    family : Family
    seed : int
    number : int
        Number of the table; the same number gives the same table.
    kinds : sequence of str
        Kinds of the faults; none for a clean table.
    """
    draw = np.random.default_rng([seed, crc32(family.name.encode()), number])
    grid = family.grid(draw, number)
    count = len(grid.times)
    process = _draw_process(draw, family, grid)
    judged = np.arange(count) >= family.warm_up
    if family.peaks is _christmas:  # nobody can know the first Christmas
        judged &= ~process.peaks
    traits = _draw_traits(draw, family, process)
    absent = np.zeros(count, dtype=bool)
    if family.absent:
        absent = draw.random(count) < family.absent
    judged[1:] &= ~absent[:-1]  # an alarm about a gap is not false
    may_begin = ~absent & ~np.roll(absent, -1)
    if family.absent and number % 2:
        absent |= grid.weekday >= SATURDAY
        may_begin &= grid.weekday < SATURDAY - 1
    places = []
    if kinds:
        free = judged & (process.peak_effect == 0 if family.peaks is _christmas else True)
        places = _schedule(draw, family, process, kinds, free, may_begin)
    changed = {
        (kind, span.start): _PLANTERS[kind](draw, process, kind, span, span.start + lengths.settles)
        for kind, span, lengths in sorted(places, key=lambda place: place[1].start)
    }
    values, deviations, rows = _measure(draw, process, traits)
    # Absent partitions: those that fail, those that never were, and hours without rows.
    present = (rows > 0) | (family.rows[0] == 0)
    present &= ~absent
    faults = []
    for kind, span, lengths in places:
        if kind == "stale":
            before = span.start - 1
            while not present[before]:
                before -= 1
            values[:, span], rows[span] = values[:, [before]], rows[before]
            deviations[:, span] = MAX_DEVIATION
        present[span.start] |= kind != "missing"
        if kind == "missing":
            present[span] = False
            present[span.stop] = True
            deviations[:, span.stop] = MAX_DEVIATION
        first = span.start
        judged[first : first + lengths.settles] = False
        deadline, settled = first + lengths.deadline, first + lengths.settles
        faults.append(Fault(kind, first, deadline, settled, changed[kind, first]))
    values[:, ~present] = np.nan
    weights = np.where(np.isnan(values), np.nan, rows)
    return FieldTable(
        _analyzers(traits),
        grid.times,
        grid.step,
        present,
        values,
        weights,
        deviations,
        judged & present,
        tuple(faults),
    )


def make_tables(family: Family, seed: int, tables: int, faults: int) -> Iterator[FieldTable]:
    """Yield clean tables of a family, then tables with faults.

    Parameters
    ----------
    family : Family
    seed : int
    tables : int
        Number of clean tables. A family of outages has no clean ones.
    faults : int
        Minimum number of faults.
    """
    number = 0
    for number in range(tables):
        if "outage" not in family.kinds:
            yield make_table(family, seed, number, ())
    each = 1 if family.short else len(family.kinds)
    for k in range(ceil(faults / each)):
        kinds = [family.kinds[k % len(family.kinds)]] if family.short else family.kinds
        yield make_table(family, seed, tables + k, kinds)
