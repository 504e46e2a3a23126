"""Tables with drawn daily metrics and injected incidents.

A table is fourteen metrics of one latent process, so that an incident moves them together. The
module imports nothing of the project, and its author had not seen the detectors that it evaluates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.signal import lfilter
from scipy.special import expit, logit, ndtr, ndtri
from scipy.stats import binom, poisson

METRICS = (
    ("row_count", "count"),
    ("bytes", "count"),
    ("null_ratio", "ratio"),
    ("rare_null_ratio", "ratio"),
    ("completeness", "ratio"),
    ("distinct", "count"),
    ("uniqueness", "ratio"),
    ("mean", "signed"),
    ("sd", "positive"),
    ("max", "positive"),
    ("violations", "count"),
    ("category_share", "ratio"),
    ("freshness_hours", "delay"),
    ("psi", "distance"),
)
METRIC_NAMES = tuple(name for name, _ in METRICS)
METRIC_KINDS = tuple(kind for _, kind in METRICS)
PERMANENT_INCIDENTS = ("dist_shift", "level_shift", "slow_drift")
FIRST_SCORED_DAY = 14  # the first day that is scored, or that can be bad
SHIFT_WINDOW = 5
DRIFT_WINDOW = 25
DRIFT_DAYS = 21
SETTLING_DAYS = 14  # neutral days after a permanent shift
BASELINE_DAYS = 28  # days with which the PSI is compared
INCIDENTS_PER_DAY = 0.026  # incidents per day on which an incident can start
MIN_GOOD_DAYS = 4  # minimum number of good days between two incidents
NOTICEABLE_DEVIATIONS = 3.0  # in standard deviations of the metric's own noise
MIN_MEAN_DEVIATIONS = 3.5  # minimum mean, in standard deviations above 0, of a metric that can fall
NORMAL_VARIANCE = 50  # variance from which a binomial is nearly normal
QUIET_WEEKEND_SHARE = 0.75  # share of tables with quiet weekends; the others have a weekly wave
HOLIDAY_TABLES = 0.4
HOLIDAY_RATE = 0.03


@dataclass(frozen=True)
class Incident:
    """An incident of a table.

    Attributes
    ----------
    kind : str
        A key of `INCIDENT_DRAWERS`.
    first, last : int
        Its days; a sudden permanent shift has one day, a drift the days of its ramp.
    metrics : tuple of int
        The rows of the metrics that it moves noticeably.
    permanent : bool
        Whether its effect is permanent.
    """

    kind: str
    first: int
    last: int
    metrics: tuple[int, ...]
    permanent: bool

    @property
    def window(self) -> slice:
        """The days on which an alarm detects it."""
        if self.kind == "slow_drift":
            return slice(self.first, self.first + DRIFT_WINDOW)
        if self.permanent:
            return slice(self.first, self.first + SHIFT_WINDOW)
        return slice(self.first, self.last + 1)

    @property
    def neutral(self) -> slice:
        """The days on which no alarm of the table is false."""
        settled = self.last + 1 + SETTLING_DAYS if self.permanent else 0
        return slice(self.first, max(self.window.stop, settled))


@dataclass(frozen=True, eq=False)
class Table:
    """The daily metrics of a table, and the truth about its days.

    Attributes
    ----------
    times : ndarray of datetime64[D], shape (days,)
        Every day, including days without a partition.
    names, kinds : tuple of str
        The name and kind of each metric.
    values : ndarray of float, shape (14, days)
        The metrics; NaN on the days without a partition.
    weights : ndarray of float, shape (14, days)
        The rows behind each value; 0 on the days without a partition.
    holidays : ndarray of bool, shape (days,)
        The days of a holiday.
    incidents : list of Incident
        The incidents in order.
    """

    times: np.ndarray
    names: tuple[str, ...]
    kinds: tuple[str, ...]
    values: np.ndarray
    weights: np.ndarray
    holidays: np.ndarray
    incidents: list[Incident]


@dataclass(eq=False)
class _Latent:
    """Latent series that a table's metrics are drawn from. Daily arrays start `BASELINE_DAYS` days early.

    The uniform and normal draws are kept, so that a table can be observed with and without an
    incident.
    """

    log_rows: np.ndarray
    base: float
    profile: np.ndarray
    weekdays: np.ndarray
    log_bytes: np.ndarray
    null: np.ndarray
    rare_null: np.ndarray
    other_null: np.ndarray
    distinct: np.ndarray
    distinct_share: float
    distinct_power: float
    repeated: np.ndarray
    loc: np.ndarray
    scale: np.ndarray
    tail: str
    kurtosis: float
    violations: np.ndarray
    category: np.ndarray
    hours: np.ndarray
    uniforms: np.ndarray
    normals: np.ndarray
    # additional deviation of the shares of the ten bins, beyond that of the drawn rows
    wobble: float
    bins: np.ndarray
    copies: np.ndarray  # by day: whether it has been loaded twice
    unseen: np.ndarray  # by day: the share of rows of a new category
    stale: list[tuple[int, int]] = field(default_factory=list)


def _log_uniform(chance: np.random.Generator, low: float, high: float) -> float:
    return float(np.exp(chance.uniform(np.log(low), np.log(high))))


def _noise(shocks: np.ndarray, sd: float, memory: float) -> np.ndarray:
    """Return an AR(1) process with a standard deviation; the first 50 shocks are burn-in."""
    return lfilter([1.0], [1.0, -memory], shocks * np.sqrt(1 - memory**2) * sd)[50:]


def _binomial(uniform: np.ndarray, n: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Return binomial quantiles, with the normal approximation where it is accurate."""
    spread = n * p * (1 - p)
    counts = np.clip(np.rint(n * p + np.sqrt(spread) * ndtri(uniform)), 0, n)
    small = (spread < NORMAL_VARIANCE) & (p > 0) & (p < 1)
    counts[small] = binom.ppf(uniform[small], n[small], p[small])
    return counts


def _largest(uniform: np.ndarray, n: np.ndarray, tail: str) -> np.ndarray:
    """Return the maximum of n values with mean 0 and standard deviation 1, by the tail's weight."""
    above = -np.expm1(np.log(uniform) / n)
    if tail == "normal":
        return -ndtri(above)
    if tail == "exponential":
        return -np.log(above) - 1
    centre, spread = np.exp(0.5**2 / 2), np.sqrt(np.expm1(0.5**2) * np.exp(0.5**2))
    return (np.exp(-0.5 * ndtri(above)) - centre) / spread


def _profile(chance: np.random.Generator, strength: float) -> np.ndarray:
    """Return the weekly profile of the logarithm of the volume, Monday first."""
    if chance.random() < QUIET_WEEKEND_SHARE:
        shape = np.array([0.0, 0.0, 0.0, 0.0, -0.05, -0.9, -1.0]) + chance.normal(0, 0.05, 7)
    else:
        shape = np.cos(2 * np.pi * (np.arange(7) - chance.integers(7)) / 7) / 2
    return strength * (shape - shape.mean())


def _latent(chance: np.random.Generator, times: np.ndarray, holidays: np.ndarray) -> _Latent:
    """Draw a table without incidents."""
    days = len(times) + BASELINE_DAYS
    number = np.arange(days) - BASELINE_DAYS
    weekdays = (times[0].astype(int) + number + 3) % 7
    base = np.log(_log_uniform(chance, 1e3, 3e7))
    profile = _profile(chance, float(chance.choice([0.0, 0.1, 0.35, 0.8])))
    weekly = profile[weekdays]
    sd = _log_uniform(chance, 0.02, 0.3)
    log_rows = base + weekly + chance.normal(0, 0.4) * number / 365
    shocks = chance.standard_t(5, days + 50) * np.sqrt(3 / 5)
    log_rows = log_rows + _noise(shocks, sd, chance.uniform(0, 0.7))
    dips = np.log(chance.uniform(0.3, 0.7, len(times)))
    log_rows[BASELINE_DAYS:] += np.where(holidays, dips, 0)

    def wandering(low: float, high: float, season: float = 0.0) -> np.ndarray:
        spread = _log_uniform(chance, low, high)
        season *= chance.normal()
        shocks = chance.normal(size=days + 50)
        return season * weekly + _noise(shocks, spread, chance.uniform(0, 0.5))

    def sometimes() -> np.ndarray:
        return chance.random(days) < chance.uniform(0.05, 0.5)

    spread = _log_uniform(chance, 1, 1e3)
    centre = spread * chance.uniform(-0.5, 6)
    bad = sometimes() * _log_uniform(chance, 5, 50)
    null = logit(_log_uniform(chance, 0.003, 0.2)) + wandering(0.03, 0.2, 0.1)
    rare = np.log(_log_uniform(chance, 1e-3, 1e-2)) + wandering(0.1, 0.3)
    return _Latent(
        log_rows=log_rows,
        base=base,
        profile=profile,
        weekdays=weekdays,
        log_bytes=np.log(chance.uniform(50, 500)) + wandering(0.005, 0.03, 0.02),
        null=expit(null),
        rare_null=np.minimum(np.exp(rare), 0.5) * sometimes(),
        other_null=expit(logit(_log_uniform(chance, 0.001, 0.1)) + wandering(0.03, 0.15, 0.1)),
        distinct=wandering(0.005, 0.03),
        distinct_share=_log_uniform(chance, 0.02, 0.8),
        distinct_power=chance.uniform(0.4, 0.9),
        repeated=expit(logit(_log_uniform(chance, 0.002, 0.3)) + wandering(0.03, 0.15, 0.1)),
        loc=centre + spread * wandering(0.01, 0.06, 0.05),
        scale=spread * np.exp(wandering(0.01, 0.05, 0.05)),
        tail=str(chance.choice(["normal", "exponential", "lognormal"])),
        kurtosis=chance.uniform(3, 12),
        violations=bad * np.exp(chance.normal(0, 0.2, days)),
        category=expit(logit(chance.uniform(0.05, 0.7)) + wandering(0.02, 0.1, 0.1)),
        hours=np.log(_log_uniform(chance, 0.5, 12)) + wandering(0.05, 0.3, 0.3),
        uniforms=chance.uniform(1e-9, 1, (8, days)),
        normals=chance.normal(size=(2, days)),
        wobble=_log_uniform(chance, 0.02, 0.05),
        bins=chance.normal(size=(days, 10)),
        copies=np.zeros(days, bool),
        unseen=np.zeros(days),
    )


def _psi(latent: _Latent, rows: np.ndarray) -> np.ndarray:
    """Return the PSI of each day against the median of the previous days, in ten equal bins."""
    days = len(rows)
    usual = [
        np.median(sliding_window_view(parameter, BASELINE_DAYS)[: days - BASELINE_DAYS], axis=1)
        for parameter in (latent.loc, latent.scale)
    ]
    loc, scale, rows = (
        latent.loc[BASELINE_DAYS:],
        latent.scale[BASELINE_DAYS:],
        rows[BASELINE_DAYS:],
    )
    edges = usual[0][:, None] + usual[1][:, None] * ndtri(np.arange(1, 10) / 10)
    below = ndtr((edges - loc[:, None]) / np.maximum(scale, 1e-12)[:, None])
    shares = np.diff(below, axis=1, prepend=0, append=1)
    errors = np.sqrt(shares * (1 - shares) * (1 / rows[:, None] + latent.wobble**2))
    shares = shares + errors * latent.bins[BASELINE_DAYS:]
    shares = np.maximum(shares, 1e-4)
    shares /= shares.sum(axis=1, keepdims=True)
    return ((shares - 0.1) * np.log(shares / 0.1)).sum(axis=1)


def _observe(latent: _Latent) -> tuple[np.ndarray, np.ndarray]:
    """Return the metrics of a latent table, and the rows behind them."""
    u, z = latent.uniforms, latent.normals
    loaded = np.maximum(np.rint(np.exp(latent.log_rows)), 5)
    rows = loaded * (1 + latent.copies)
    null = _binomial(u[0], loaded, latent.null) / loaded
    rare = _binomial(u[1], loaded, latent.rare_null) / loaded
    other = _binomial(u[2], loaded, latent.other_null) / loaded
    non_null = np.maximum(np.rint(rows * (1 - null)), 1)
    usual = latent.base + latent.distinct_power * (latent.log_rows - latent.base)
    distinct = np.minimum(np.exp(usual + latent.distinct) * latent.distinct_share, loaded)
    once = 1 - _binomial(u[3], loaded, latent.repeated) / loaded
    common = np.maximum(np.rint(rows * (1 - rare)), 1)
    category = latent.category * (1 - latent.unseen)
    # Of all rows; a column with only nulls has no category.
    share = np.where(rare < 1, _binomial(u[4], common, category) / rows, 0)
    expected = latent.violations * np.exp(0.5 * (latent.log_rows - latent.base))
    violations = poisson.ppf(u[5], expected) + np.rint(rows * latent.unseen)
    errors = np.sqrt((latent.kurtosis - 1) / (4 * non_null))
    values = np.stack(
        [
            rows,
            np.rint(rows * np.exp(latent.log_bytes) * (1 - 0.1 * null - 0.05 * rare)),
            null,
            rare,
            (1 - null) * (1 - rare) * (1 - other),
            np.maximum(np.rint(distinct), 1),
            once / (1 + latent.copies),
            latent.loc + latent.scale * z[0] / np.sqrt(non_null),
            latent.scale * np.maximum(1 + errors * z[1], 0.1),
            latent.loc + latent.scale * _largest(u[6], non_null, latent.tail),
            violations,
            share,
            np.exp(latent.hours),
            np.concatenate([np.zeros(BASELINE_DAYS), _psi(latent, non_null)]),
        ]
    )
    weights = np.tile(rows, (len(METRICS), 1))
    weights[[7, 8, 9, 13]] = non_null
    values, weights = values[:, BASELINE_DAYS:], weights[:, BASELINE_DAYS:]
    for day, source in latent.stale:
        values[:, day], weights[:, day] = values[:, source], weights[:, source]
    return values, weights


@dataclass(frozen=True, eq=False)
class _Blow:
    """Days of an incident: `at` is an index of the latent arrays.

    `source` is the previous partition's day, as an index of the table's days.
    """

    chance: np.random.Generator
    latent: _Latent
    at: slice
    source: int
    sign: float

    @property
    def onward(self) -> slice:
        """The days from the first one on."""
        return slice(self.at.start, None)

    def altered(self, where: slice, **how: Callable[[np.ndarray], np.ndarray]) -> _Latent:
        """Return the latent table with some arrays changed on some days."""
        arrays = {name: getattr(self.latent, name).copy() for name in how}
        for name, change in how.items():
            arrays[name][where] = change(arrays[name][where])
        return _Latent(**{**vars(self.latent), **arrays})


# a table after an incident, and the metrics that it can move
Struck = tuple[_Latent, tuple[str, ...]]


def _resized(blow: _Blow, where: slice, factor: float | np.ndarray) -> Struck:
    return blow.altered(where, log_rows=lambda x: x + factor), ("row_count", "bytes", "distinct")


def _vol_drop(blow: _Blow) -> Struck:
    return _resized(blow, blow.at, np.log(_log_uniform(blow.chance, 0.1, 0.7)))


def _vol_spike(blow: _Blow) -> Struck:
    return _resized(blow, blow.at, np.log(_log_uniform(blow.chance, 1.5, 5)))


def _level_shift(blow: _Blow) -> Struck:
    return _resized(blow, blow.onward, blow.sign * blow.chance.uniform(0.4, 1.2))


def _slow_drift(blow: _Blow) -> Struck:
    number = np.arange(len(blow.latent.log_rows) - blow.at.start)
    ramp = np.minimum((number + 1) / DRIFT_DAYS, 1)
    return _resized(blow, blow.onward, blow.sign * blow.chance.uniform(0.5, 1.2) * ramp)


def _weekday_shift(blow: _Blow) -> Struck:
    """Load the day as the weekday that differs most from it."""
    profile = blow.latent.profile
    usual = profile[blow.latent.weekdays[blow.at]]
    other = profile[[np.argmax(np.abs(profile - level)) for level in usual]]
    return _resized(blow, blow.at, other - usual)


def _partial_load(blow: _Blow) -> Struck:
    log_factor = np.log(blow.chance.uniform(0.5, 0.9))
    late = _log_uniform(blow.chance, 2, 12)
    after = blow.altered(
        blow.at, log_rows=lambda x: x + log_factor, hours=lambda x: np.log(np.exp(x) + late)
    )
    return after, ("row_count", "bytes", "distinct", "freshness_hours")


def _dup_load(blow: _Blow) -> Struck:
    return blow.altered(blow.at, copies=np.ones_like), ("row_count", "bytes", "uniqueness")


def _null_spike(blow: _Blow) -> Struck:
    arrays = (("null", "null_ratio"), ("rare_null", "rare_null_ratio"))
    name, ratio = arrays[blow.chance.integers(2)]
    extra = _log_uniform(blow.chance, 0.03, 0.6)
    after = blow.altered(blow.at, **{name: lambda x: x + (1 - x) * extra})
    return after, (ratio, "completeness")


def _stale(blow: _Blow) -> Struck:
    """Repeat the previous partition. All metrics repeat, so it counts as one pair."""
    days = range(blow.at.start - BASELINE_DAYS, blow.at.stop - BASELINE_DAYS)
    stale = [*blow.latent.stale, *((day, blow.source) for day in days)]
    return _Latent(**{**vars(blow.latent), "stale": stale}), ("row_count",)


def _dist_shift(blow: _Blow) -> Struck:
    before = slice(blow.at.start - BASELINE_DAYS, blow.at.start)
    centre, width = (
        np.median(parameter[before]) for parameter in (blow.latent.loc, blow.latent.scale)
    )
    # The largest value stays positive.
    sign = blow.sign if centre > MIN_MEAN_DEVIATIONS * width else 1.0
    offset = sign * blow.chance.uniform(1, 3) * width
    return blow.altered(blow.onward, loc=lambda x: x + offset), ("mean", "max", "psi")


def _new_cat(blow: _Blow) -> Struck:
    """Give rows to a category without a rule."""
    share = _log_uniform(blow.chance, 0.03, 0.5)
    return blow.altered(blow.at, unseen=lambda x: x + share), ("category_share", "violations")


def _multiplied(blow: _Blow, factor: float) -> Struck:
    after = blow.altered(blow.at, loc=lambda x: x * factor, scale=lambda x: x * factor)
    return after, ("mean", "sd", "max", "psi")


def _unit_x100(blow: _Blow) -> Struck:
    return _multiplied(blow, float(blow.chance.choice([0.01, 100.0, 1000.0])))


def _schema(blow: _Blow) -> Struck:
    """Make the numbers zero, or the categories null."""
    if blow.chance.integers(2):
        return _multiplied(blow, 0.0)
    metric_names = ("rare_null_ratio", "completeness", "category_share")
    return blow.altered(blow.at, rare_null=np.ones_like), metric_names


INCIDENT_DRAWERS: dict[str, Callable[[_Blow], Struck]] = {
    "vol_drop": _vol_drop,
    "vol_spike": _vol_spike,
    "null_spike": _null_spike,
    "stale": _stale,
    "dist_shift": _dist_shift,
    "new_cat": _new_cat,
    "unit_x100": _unit_x100,
    "schema": _schema,
    "weekday_shift": _weekday_shift,
    "slow_drift": _slow_drift,
    "level_shift": _level_shift,
    "partial_load": _partial_load,
    "dup_load": _dup_load,
}
INCIDENT_KINDS = tuple(INCIDENT_DRAWERS)


def _levelled(values: np.ndarray) -> np.ndarray:
    """Return metrics on scales on which changes can be compared with noise."""
    levelled = values.copy()
    for row, kind in enumerate(METRIC_KINDS):
        if kind in ("count", "positive", "delay"):
            levelled[row] = np.log(np.maximum(values[row], 0) + (1.0 if kind == "count" else 1e-6))
    return levelled


def _noise_of(values: np.ndarray, usable: np.ndarray) -> np.ndarray:
    """Return the standard deviation of each metric's noise, without the weekly season."""
    levels = _levelled(values)
    changes = (levels[:, 7:] - levels[:, :-7])[:, usable[7:] & usable[:-7]]
    return changes.std(axis=1) / np.sqrt(2)


def _length(chance: np.random.Generator, kind: str) -> int:
    """Return the number of days that an incident lasts."""
    if kind == "slow_drift":
        return DRIFT_DAYS
    if kind in PERMANENT_INCIDENTS or kind in ("weekday_shift", "partial_load", "dup_load"):
        return 1
    return int(chance.choice([1, 2, 3], p=[0.6, 0.25, 0.15]))


def _incident(
    chance: np.random.Generator,
    latent: _Latent,
    noise: np.ndarray,
    missing: np.ndarray,
    holidays: np.ndarray,
    first: int,
) -> tuple[_Latent, Incident] | None:
    """Return the table after an incident on a given day, or None if it would not be noticeable."""
    before, _ = _observe(latent)
    usable = ~missing & ~holidays
    source = int(np.flatnonzero(~missing[:first])[-1])
    for kind in chance.permutation(INCIDENT_KINDS).tolist():
        length = _length(chance, kind)
        last = first + length - 1
        incident = Incident(kind, first, last, (), kind in PERMANENT_INCIDENTS)
        if incident.window.stop > len(usable) or not usable[first]:
            continue
        if not incident.permanent and not usable[first : last + 1].all():
            continue
        if kind == "stale" and holidays[source]:
            continue
        at = slice(first + BASELINE_DAYS, last + 1 + BASELINE_DAYS)
        sign = float(chance.choice([-1.0, 1.0]))
        after, names = INCIDENT_DRAWERS[kind](_Blow(chance, latent, at, source, sign))
        rows = [METRIC_NAMES.index(name) for name in names]
        if kind != "stale":
            where = slice(first, last + 1)
            moves = np.abs(_levelled(_observe(after)[0][:, where]) - _levelled(before[:, where]))
            rows = [row for row in rows if moves[row].max() > NOTICEABLE_DEVIATIONS * noise[row]]
        if rows:
            return after, Incident(kind, first, last, tuple(sorted(rows)), incident.permanent)
    return None


def _table(chance: np.random.Generator) -> Table:
    days = int(chance.choice([45, 90, 180, 365], p=[0.2, 0.3, 0.3, 0.2]))
    times = np.datetime64("2021-01-01", "D") + chance.integers(1000) + np.arange(days)
    missing = chance.random(days) < chance.choice([0.0, 0.01, 0.05])
    holidays = (chance.random(days) < HOLIDAY_RATE) & (chance.random() < HOLIDAY_TABLES)
    latent = _latent(chance, times, holidays)
    noise = _noise_of(_observe(latent)[0], ~missing & ~holidays)
    incidents: list[Incident] = []
    day = FIRST_SCORED_DAY - 1 + int(chance.geometric(INCIDENTS_PER_DAY))
    while day < days:
        drawn = _incident(chance, latent, noise, missing, holidays, day)
        if drawn is None:
            day += 1
            continue
        latent, incident = drawn
        incidents.append(incident)
        day = incident.neutral.stop + MIN_GOOD_DAYS - 1 + int(chance.geometric(INCIDENTS_PER_DAY))
    values, weights = _observe(latent)
    values[:, missing] = np.nan
    weights[:, missing] = 0
    return Table(times, METRIC_NAMES, METRIC_KINDS, values, weights, holidays, incidents)


def generate(seed: int, tables: int = 60) -> list[Table]:
    """Draw tables with incidents.

    Parameters
    ----------
    seed : int
        The seed.
    tables : int
        Number of tables. A smaller number with the same seed gives the first of them.

    Returns
    -------
    list of Table
        The tables.
    """
    return [_table(np.random.default_rng([seed, number])) for number in range(tables)]
