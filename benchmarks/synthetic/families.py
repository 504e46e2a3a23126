"""Families of histories that differ in one property each: step, seasons, calendar, tails, regimes.

A history is one table of fourteen series that share its seasons. In an incident three of them are
multiplied for one partition, or, for shares of rows, lose 5 to 15 of a hundred rows. The module
imports nothing of the project.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.signal import lfilter

from benchmarks.synthetic.ratios import RATIO_FAMILIES, draw

SERIES_COUNT = 14
MOVED_SERIES = 3
"""Number of series that an incident moves."""
NOISE_LOG_SD = 0.05
"""Standard deviation of a series' own noise, on the logarithmic scale."""
FIRST_TIME = np.datetime64("2021-02-01", "s")  # a Monday
HOUR, DAY = np.timedelta64(3600, "s"), np.timedelta64(86_400, "s")


@dataclass(frozen=True, eq=False)
class Family:
    """Histories of some tables with the same partitions.

    Attributes
    ----------
    name : str
    times : ndarray of datetime64[s], shape (partitions,)
    values : ndarray of float, shape (tables, 14, partitions)
    bad : ndarray of bool, same shape
        Values that an incident moved.
    neutral : ndarray of bool, shape (partitions,) or (tables, 1, partitions)
        Partitions on which alarms are neither true nor false.
    judged : int
        First partition that is judged.
    scale : str
        The scale of the values: `positive` numbers, a `count` or a `ratio` of rows.
    rows : ndarray of float, shape (tables, 1, partitions)
        Rows of a partition.
    """

    name: str
    times: np.ndarray
    values: np.ndarray
    bad: np.ndarray
    neutral: np.ndarray
    judged: int
    scale: str
    rows: np.ndarray

    @property
    def seasons(self) -> tuple[int, ...]:
        """The seasons given to detectors that need them: partitions of a day and a week, of a week, or of a year."""
        step = int((self.times[1] - self.times[0]) / HOUR * 4)  # in quarters of an hour
        if step < 96:
            return 96 // step, 7 * 96 // step
        return (7,) if step == 96 else (52,) if step == 7 * 96 else (12,)


Chance = np.random.Generator
Shape = Callable[[Chance, np.ndarray, tuple[int, int, int]], np.ndarray]
"""Draws the logarithm of all values from the times and the shape (tables, series, partitions)."""


def _hours(times: np.ndarray) -> np.ndarray:
    return (times - times.astype("M8[D]")) / HOUR


def _weekday(times: np.ndarray) -> np.ndarray:
    return (times.astype("M8[D]").astype(int) + 3) % 7


def _left_of_month(times: np.ndarray) -> np.ndarray:
    """Return the number of days left in the month: 0 on its last day."""
    days = times.astype("M8[D]")
    return ((days.astype("M8[M]") + 1).astype("M8[D]") - days).astype(int) - 1


def _day_of_month(times: np.ndarray) -> np.ndarray:
    days = times.astype("M8[D]")
    return (days - days.astype("M8[M]")).astype(int) + 1


def _normal(chance: Chance, size: tuple[int, int, int]) -> np.ndarray:
    return chance.normal(0, NOISE_LOG_SD, size)


def _student(freedom: int) -> Shape:
    return lambda chance, _, size: NOISE_LOG_SD * chance.standard_t(freedom, size)


def _autoregressive(memory: float, deviation: float) -> Shape:
    def draw(chance: Chance, _: np.ndarray, size: tuple[int, int, int]) -> np.ndarray:
        shocks = chance.normal(0, deviation * np.sqrt(1 - memory**2), (*size[:2], size[2] + 100))
        return lfilter([1.0], [1.0, -memory], shocks)[..., 100:]

    return draw


def _seasonal(effect: Callable[[np.ndarray], np.ndarray]) -> Shape:
    return lambda chance, times, size: effect(times) + _normal(chance, size)


def _office(times: np.ndarray) -> np.ndarray:
    hours = _hours(times)
    return np.where((hours >= 9) & (hours < 17), np.log(5), 0.0)


def _wave(times: np.ndarray) -> np.ndarray:
    return 0.5 * np.sin(2 * np.pi * _hours(times) / 24)


def _quiet_weekend(times: np.ndarray) -> np.ndarray:
    return _wave(times) + np.where(_weekday(times) >= 5, np.log(0.5), 0)


def _other_weekend(times: np.ndarray) -> np.ndarray:
    return np.where(_weekday(times) >= 5, 0.5 * _wave(times) - 0.5, _office(times) / 2)


def _parts_of_day(times: np.ndarray) -> np.ndarray:
    return np.log(np.array([0.5, 0.8, 1.0, 0.7]))[(_hours(times) // 6).astype(int)]


def _weekdays(times: np.ndarray) -> np.ndarray:
    return np.where(_weekday(times) >= 5, np.log(0.45), 0)


def _month_end(times: np.ndarray) -> np.ndarray:
    ends = np.where(_left_of_month(times) == 0, np.log(2.5), 0)
    return _weekdays(times) / 3 + ends + np.where(_day_of_month(times) == 1, np.log(1.6), 0)


def _office_and_month_end(times: np.ndarray) -> np.ndarray:
    return _office(times) + np.where(_left_of_month(times) == 0, np.log(2.5), 0)


def _payday(times: np.ndarray) -> np.ndarray:
    return np.where((_left_of_month(times) == 0) | (_day_of_month(times) == 15), np.log(1.5), 0)


def _christmas(times: np.ndarray) -> np.ndarray:
    days = times.astype("M8[D]")
    number = (days - days.astype("M8[Y]")).astype(int)
    return _weekdays(times) / 3 + np.where((number >= 332) & (number < 357), np.log(2.0), 0)


def _year(times: np.ndarray) -> np.ndarray:
    months = times.astype("M8[M]").astype(int) % 12
    return 0.6 * np.sin(2 * np.pi * months / 12) + np.where(months == 11, 0.5, 0)


def _year_of_days(times: np.ndarray) -> np.ndarray:
    """Return the effect of the year on weeks: the mean of its effect on their days."""
    days = times.astype("M8[D]")[:, None] + np.arange(7)
    share = (days - days.astype("M8[Y]")).astype(int) / 365
    return (0.6 * np.sin(2 * np.pi * share) + np.where(share > 11 / 12, 0.5, 0)).mean(axis=1)


def _shifts(chance: Chance, times: np.ndarray, size: tuple[int, int, int]) -> np.ndarray:
    level = np.repeat(chance.choice([-0.6, 0.6], (size[0], 1, size[2] // 45 + 1)), 45, axis=2)
    return np.cumsum(np.diff(level, axis=2, prepend=0), axis=2)[..., : size[2]] + _normal(
        chance, size
    )


def _noisier(chance: Chance, times: np.ndarray, size: tuple[int, int, int]) -> np.ndarray:
    return _normal(chance, size) * np.where(np.arange(size[2]) >= size[2] // 2, 3, 1)


def _small(chance: Chance, times: np.ndarray, size: tuple[int, int, int]) -> np.ndarray:
    levels = chance.uniform(np.log(2), np.log(20), (*size[:2], 1))
    return levels + np.zeros(size)


def _times(step: np.timedelta64, days: int) -> np.ndarray:
    return np.arange(FIRST_TIME, FIRST_TIME + days * DAY, step)


def _months(count: int) -> np.ndarray:
    return (np.datetime64("2016-01", "M") + np.arange(count)).astype("M8[s]")


Plan = tuple[np.ndarray, Shape, int]
"""Times, the shape of the values, and the first partition that is judged."""


def _plans() -> dict[str, Plan]:
    hours, days = _times(HOUR, 56), _times(DAY, 400)
    two_years, quarter = _times(DAY, 1000), _times(HOUR // 4, 42)
    return {
        "daily, plain": (days, _seasonal(_weekdays), 28),
        "hourly, office hours": (hours, _seasonal(_office), 14 * 24),
        "hourly, quiet weekend": (hours, _seasonal(_quiet_weekend), 21 * 24),
        "hourly, other weekend": (hours, _seasonal(_other_weekend), 21 * 24),
        "15 minutes, office hours": (quarter, _seasonal(_office), 14 * 96),
        "6-hourly": (_times(6 * HOUR, 120), _seasonal(_parts_of_day), 28 * 4),
        "8-hourly": (_times(8 * HOUR, 120), _seasonal(_parts_of_day), 28 * 3),
        "12-hourly": (_times(12 * HOUR, 120), _seasonal(_parts_of_day), 28 * 2),
        "month end and first": (days, _seasonal(_month_end), 130),
        "payday": (days, _seasonal(_payday), 130),
        "Christmas, second year": (two_years, _seasonal(_christmas), 400),
        "weekly partitions": (_times(7 * DAY, 7 * 200), _seasonal(_normal_year), 40),
        "monthly, yearly season": (_months(96), _seasonal(_year), 40),
        "level shifts": (days, _shifts, 28),
        NOISE_FAMILY: (days, _noisier, 28),
        "t2": (days, _student(2), 28),
        "t3": (days, _student(3), 28),
        "t5": (days, _student(5), 28),
        "AR(.3)": (days, _autoregressive(0.3, NOISE_LOG_SD), 28),
        "AR(.9)": (days, _autoregressive(0.9, 0.2), 28),
        "small counts": (days, _small, 28),
        "five bad days, and back": (days, _seasonal(_weekdays), 28),
        "first 30 days": (_times(DAY, 30), _seasonal(_weekdays), 7),
        **dict.fromkeys(RATIO_FAMILIES, (days, _seasonal(_weekdays), 28)),
        # Later families come last, so that the random draws of the others stay the same.
        "t4": (days, _student(4), 28),
        "AR(.5)": (days, _autoregressive(0.5, NOISE_LOG_SD), 28),
        "AR(.7)": (days, _autoregressive(0.7, NOISE_LOG_SD), 28),
        "weekly, yearly season": (_times(7 * DAY, 7 * 300), _seasonal(_year_of_days), 2 * 52 + 6),
        "hourly, office hours and month ends": (
            _times(HOUR, 200),
            _seasonal(_office_and_month_end),
            95 * 24,
        ),
    }


def _normal_year(times: np.ndarray) -> np.ndarray:
    return np.zeros(len(times))


NOISE_FAMILY, NOISE_ALARM_PARTITIONS = "noise x3 half way", 30
"""The family with growing noise, and the number of partitions after the growth in which alarms are true."""
COUNT_FAMILIES = {"small counts"}
"""Families of Poisson counts, with the drawn levels as means."""
INCIDENT_PARTITIONS = {"five bad days, and back": 5}
"""Number of partitions that an incident lasts; one for the other families."""
INCIDENT_FACTORS = {"small counts": 5.0, "t2": 0.1, "t3": 0.2}
"""Factors of incidents if half the value is usual: one of 200 values of t2, and of 1,200 of t3, deviates as much."""
SHIFT_ALARM_PARTITIONS = {"level shifts": 8}
"""Number of partitions after a shift in which alarms are true."""


def families(seed: int, tables: int, only: str = "") -> list[Family]:
    """Draw the histories of all families, or of the families whose name contains a string."""
    drawn = []
    for number, (name, (times, shape, judged)) in enumerate(_plans().items()):
        if only not in name:
            continue
        chance = np.random.default_rng([seed, number])
        size = (tables, SERIES_COUNT, len(times))
        logs = shape(chance, times, size)
        if name not in COUNT_FAMILIES:
            logs += chance.uniform(np.log(1e5), np.log(1e7), (*size[:2], 1))
        bad = np.zeros(size, dtype=bool)
        space = max(20, (len(times) - judged) // 10)
        for table in range(tables):
            at = judged + int(chance.integers(space))
            while at < len(times):
                last = at + INCIDENT_PARTITIONS.get(name, 1)
                bad[table, chance.choice(SERIES_COUNT, MOVED_SERIES, replace=False), at:last] = True
                at += int(chance.integers(space, 2 * space))
        logs += np.where(bad, np.log(INCIDENT_FACTORS.get(name, 0.5)), 0)
        neutral = np.zeros(len(times), dtype=bool)
        if name == NOISE_FAMILY:
            neutral[len(times) // 2 :][:NOISE_ALARM_PARTITIONS] = True
        if name in SHIFT_ALARM_PARTITIONS:
            neutral = np.arange(len(times)) % 45 < SHIFT_ALARM_PARTITIONS[name]
            bad &= ~neutral
        values, scale, rows = np.exp(logs), "positive", np.full((tables, 1, len(times)), 1e5)
        if name in COUNT_FAMILIES:
            values, scale = chance.poisson(values).astype(float), "count"
        if name in RATIO_FAMILIES:
            values, bad, neutral, rows = draw(chance, RATIO_FAMILIES[name], bad)
            scale = "ratio"
        drawn.append(Family(name, times, values, bad, neutral, judged, scale, rows))
    return drawn
