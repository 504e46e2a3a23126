"""Families of ratios: completeness whose share of nulls varies from day to day.

A table's series are columns of the same rows. Nulls are binomial, with a share whose log-odds have
a level, a weekly rhythm and noise. Incidents take 5 to 15 rows of a hundred. In `restless` such
days occur often, and those without an injected incident are false alarms, which shows the cost of a
rule by size alone. The module imports nothing of the project, and no number is fitted to a real
table.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.signal import lfilter

MIN_INCIDENT_SHARE = 0.05
"""Additional share of nulls from which a spell counts as an incident."""
INCIDENT_SHARES = (0.05, 0.15)
"""Minimum and maximum additional share of nulls in an incident."""
ROW_RANGE = (1000, 100_000)
"""Minimum and maximum number of rows in a partition; tables differ."""
WEEKDAY_LOG_ODDS_SD = 0.3
"""Standard deviation of the effects of weekdays on the log-odds."""


@dataclass(frozen=True)
class Nulls:
    """Nulls of a family's columns.

    Attributes
    ----------
    usual : tuple of float
        Minimum and maximum usual share of a column.
    noise : tuple of float
        Minimum and maximum standard deviation of a column's log-odds.
    memory : float
        Correlation of the noise of consecutive days.
    spells : bool
        Whether a table has spells of bad days, of all sizes, that many of its columns share.
    """

    usual: tuple[float, float]
    noise: tuple[float, float]
    memory: float = 0.0
    spells: bool = False


RATIO_FAMILIES = {
    "ratios, steady": Nulls((0.002, 0.03), (0.2, 0.6)),
    "ratios, bad spells": Nulls((0.002, 0.03), (0.2, 0.6), spells=True),
    "ratios, around a half": Nulls((0.3, 0.7), (0.02, 0.06)),
    "ratios, restless": Nulls((0.01, 0.08), (0.4, 1.0), memory=0.3),
}
"""Families by name."""


def draw(
    chance: np.random.Generator, nulls: Nulls, hit: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Draw completeness.

    Parameters
    ----------
    chance : numpy.random.Generator
    nulls : Nulls
    hit : ndarray of bool, shape (tables, series, days)
        Values that an incident moves.

    Returns
    -------
    values : ndarray of float, same shape
    bad : ndarray of bool, same shape
        Values that an incident or a material spell moved.
    neutral : ndarray of bool, shape (tables, 1, days)
        Days of smaller spells, on which alarms are neither true nor false.
    rows : ndarray of float, shape (tables, 1, days)
    """
    tables, series, days = hit.shape
    column = (tables, series, 1)
    rows = np.exp(
        chance.uniform(*np.log(ROW_RANGE), (tables, 1, 1))
        + chance.normal(0, 0.1, (tables, 1, days))
    )
    rows = np.round(rows)
    usual = np.exp(chance.uniform(*np.log(nulls.usual), column))
    week = chance.normal(0, WEEKDAY_LOG_ODDS_SD, (tables, series, 7))[..., np.arange(days) % 7]
    odds = np.log(usual / (1 - usual)) + week
    odds = odds + chance.uniform(*nulls.noise, column) * _noise(chance, nulls.memory, hit.shape)
    share = 1 / (1 + np.exp(-odds))
    additional = np.where(hit, chance.uniform(*INCIDENT_SHARES, hit.shape), 0.0)
    if nulls.spells:
        additional = np.maximum(additional, _spells(chance, hit.shape))
    share = np.minimum(share + additional, 1)
    missing = chance.binomial(np.broadcast_to(rows, share.shape).astype(int), share)
    bad = additional >= MIN_INCIDENT_SHARE
    little = (additional > 0).any(axis=1, keepdims=True) & ~bad.any(axis=1, keepdims=True)
    return 1 - missing / rows, bad, little, rows


def _noise(chance: np.random.Generator, memory: float, shape: tuple[int, ...]) -> np.ndarray:
    """Return normal noise of standard deviation 1 that correlates with the noise of the previous day."""
    shocks = chance.normal(0, np.sqrt(1 - memory**2), (*shape[:2], shape[2] + 20))
    return lfilter([1.0], [1.0, -memory], shocks)[..., 20:]


def _spells(chance: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Return the additional shares of nulls by spells of bad days.

    A spell begins every 10 to 40 days and lasts at most three days. Each of its days takes a share
    of log-normal size, with median 3%, from half of the columns.
    """
    tables, series, days = shape
    additional = np.zeros(shape)
    for table in range(tables):
        begins = chance.random(days) < 1 / chance.uniform(10, 40)
        columns = chance.choice(series, series // 2, replace=False)
        feels = chance.uniform(0.7, 1.0, series // 2)
        for first in np.flatnonzero(begins):
            size = 0.03 * np.exp(chance.normal(0, 1))
            for day in range(first, min(first + int(chance.integers(1, 4)), days)):
                today = size * np.exp(chance.normal(0, 0.3))
                shares = np.minimum(today * feels, 0.6)
                additional[table, columns, day] = np.maximum(
                    additional[table, columns, day], shares
                )
    return additional
