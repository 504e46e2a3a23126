"""Families of ratios: completeness whose share of nulls varies from day to day.

A table's series are columns of the same rows. Nulls are binomial, of a share whose log-odds have a level, a
weekly rhythm and noise. Incidents take 5 to 15 rows of a hundred. In `restless` such days are no rarity, and
those that nobody injected are false alarms: there a rule by size alone shows its price. Nothing of the project
is imported here, and no number is fitted to a real table.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.signal import lfilter

MATERIAL = 0.05
"""Additional share of nulls from which a spell counts as an incident."""
INCIDENT = (0.05, 0.15)
"""Additional shares of nulls of incidents: from, until."""
ROWS = (1000, 100_000)
"""Rows of a partition, from table to table."""
WEEK = 0.3
"""Standard deviation of the effects of weekdays on the log-odds."""


@dataclass(frozen=True)
class Nulls:
    """Nulls of a family's columns.

    Attributes
    ----------
    usual : tuple of float
        Usual shares, from column to column.
    noise : tuple of float
        Standard deviations of the log-odds, from column to column.
    memory : float
        Correlation of the noise with that of the day before.
    spells : bool
        Whether a table has spells of bad days, of all sizes, that many of its columns share.
    """

    usual: tuple[float, float]
    noise: tuple[float, float]
    memory: float = 0.0
    spells: bool = False


RATIOS = {
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
        Days of smaller spells, of which it is a matter of taste whether they are told.
    rows : ndarray of float, shape (tables, 1, days)
    """
    tables, series, days = hit.shape
    column = (tables, series, 1)
    rows = np.exp(
        chance.uniform(*np.log(ROWS), (tables, 1, 1)) + chance.normal(0, 0.1, (tables, 1, days))
    )
    rows = np.round(rows)
    usual = np.exp(chance.uniform(*np.log(nulls.usual), column))
    week = chance.normal(0, WEEK, (tables, series, 7))[..., np.arange(days) % 7]
    odds = np.log(usual / (1 - usual)) + week
    odds = odds + chance.uniform(*nulls.noise, column) * _noise(chance, nulls.memory, hit.shape)
    share = 1 / (1 + np.exp(-odds))
    more = np.where(hit, chance.uniform(*INCIDENT, hit.shape), 0.0)
    if nulls.spells:
        more = np.maximum(more, _spells(chance, hit.shape))
    share = np.minimum(share + more, 1)
    missing = chance.binomial(np.broadcast_to(rows, share.shape).astype(int), share)
    bad = more >= MATERIAL
    little = (more > 0).any(axis=1, keepdims=True) & ~bad.any(axis=1, keepdims=True)
    return 1 - missing / rows, bad, little, rows


def _noise(chance: np.random.Generator, memory: float, shape: tuple[int, ...]) -> np.ndarray:
    """Return normal noise of standard deviation 1 in which each day remembers the one before."""
    shocks = chance.normal(0, np.sqrt(1 - memory**2), (*shape[:2], shape[2] + 20))
    return lfilter([1.0], [1.0, -memory], shocks)[..., 20:]


def _spells(chance: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Return the additional shares of nulls by spells of bad days.

    A spell begins every 10 to 40 days, lasts three days at the most, and each day of it takes a share of
    log-normal size, in the middle 3 %, from half of the columns.
    """
    tables, series, days = shape
    more = np.zeros(shape)
    for table in range(tables):
        begins = chance.random(days) < 1 / chance.uniform(10, 40)
        columns = chance.choice(series, series // 2, replace=False)
        feels = chance.uniform(0.7, 1.0, series // 2)
        for first in np.flatnonzero(begins):
            size = 0.03 * np.exp(chance.normal(0, 1))
            for day in range(first, min(first + int(chance.integers(1, 4)), days)):
                today = size * np.exp(chance.normal(0, 0.3))
                of = np.minimum(today * feels, 0.6)
                more[table, columns, day] = np.maximum(more[table, columns, day], of)
    return more
